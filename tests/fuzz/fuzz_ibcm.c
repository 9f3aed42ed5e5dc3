/* SPDX-License-Identifier: MIT */
/* proto/ibcm: the decoder never reads past its buffer, and what it accepts comes back from the
 * encoder as the same message. So do the IP addresses of a REQ. Any message has a text. */
#include <string.h>

#include "proto/ibcm/ibcm.h"
#include "proto/ibcm/ip.h"
#include "proto/ibcm/text.h"
#include "tests/fuzz/fuzz.h"

static void check_ip(const uint8_t *private_data)
{
	uint8_t header[IBCM_IP_LEN];
	struct ibcm_ip ip;
	if (ibcm_ip_decode(private_data, &ip) < 0)
		return;
	must(ibcm_ip_encode(&ip, header) == 0);
	/* the lower half of the second byte is reserved */
	must(header[0] == private_data[0] && header[1] == (private_data[1] & 0xF0));
	must(memcmp(header + 2, private_data + 2, IBCM_IP_LEN - 2) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ibcm_msg msg, again;
	uint8_t first[IBCM_MAD_LEN], second[IBCM_MAD_LEN];
	char text[IBCM_TEXT_LEN];
	if (ibcm_decode(data, size, &msg) < 0)
		return 0;
	must(size == IBCM_MAD_LEN);
	must(ibcm_encode(&msg, first) == 0);
	must(ibcm_decode(first, sizeof(first), &again) == 0);
	must(ibcm_encode(&again, second) == 0);
	must(memcmp(first, second, sizeof(first)) == 0);
	size_t private_len = ibcm_private_len(msg.type);
	must(memcmp(data + size - private_len, msg.private_data, private_len) == 0);
	if (msg.type == IBCM_REQ)
		check_ip(msg.private_data);
	ibcm_text(&msg, text);
	must(strlen(text) < sizeof(text) - 1); /* none is cut */
	return 0;
}

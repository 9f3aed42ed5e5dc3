/* SPDX-License-Identifier: MIT */
/* CLC of both versions: what decodes agrees with its header, and encodes to bytes that decode to
 * the same. */
#include <errno.h>
#include <string.h>

#include "proto/smcr/clc.h"
#include "tests/fuzz/fuzz.h"

/* Can smcrd send such a message? It never sends SMC-D, nor a larger growth area than its own. */
static bool encodable(const struct smcr_clc_msg *msg)
{
	const struct smcr_clc_proposal *p = &msg->proposal;
	if (msg->type != SMCR_CLC_PROPOSAL)
		return true;
	if (p->version == SMCR_CLC_VERSION_2)
		return !p->offers_d && (p->offers_r_v1 || p->offers_r_v2);
	return p->ip_offset <= 40;
}

static void check_round_trip(const struct smcr_clc_msg *msg)
{
	uint8_t first[SMCR_CLC_MAX_LEN];
	uint8_t second[SMCR_CLC_MAX_LEN];
	struct smcr_clc_msg again;
	int len = smcr_clc_encode(msg, first, sizeof(first));
	must(len >= SMCR_CLC_DECLINE_LEN);
	must(smcr_clc_decode(first, (size_t)len, &again) == 0);
	must(again.type == msg->type && again.length == len);
	must(smcr_clc_encode(&again, second, sizeof(second)) == len);
	must(memcmp(first, second, (size_t)len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct smcr_clc_msg msg;
	int length = smcr_clc_peek_length(data, size);
	must((length == -EAGAIN) == (size < SMCR_CLC_HEADER_LEN));
	must(length < 0 || (length >= SMCR_CLC_DECLINE_LEN && length <= SMCR_CLC_MAX_LEN));
	int rc = smcr_clc_decode(data, size, &msg);
	must(rc == 0 || rc == -EAGAIN || rc == -EBADMSG || rc == -ENOTSUP);
	must(rc != -EAGAIN || length == -EAGAIN || (size_t)length > size);
	if (rc != 0 && rc != -ENOTSUP)
		return 0;
	must(length == msg.length && (size_t)length == size && msg.type == data[4]);
	if (rc == 0 && encodable(&msg))
		check_round_trip(&msg);
	else if (rc == 0)
		must(smcr_clc_encode(&msg, (uint8_t[1]){ 0 }, 1) == -EINVAL);
	return 0;
}

/* SPDX-License-Identifier: MIT */
/* LLC of version 2: what can be decoded encodes to bytes that decode to the same message, in both
 * byte orders of the length. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/smcr/llc.h"
#include "tests/fuzz/fuzz.h"

/* A message with its RTokens. */
struct both {
	struct smcr_llc_msg msg;
	struct smcr_llc_rtokens rtokens;
};

static void check_round_trip(const struct both *both, size_t size)
{
	uint8_t first[SMCR_LLC_V2_SEND_MAX];
	uint8_t second[SMCR_LLC_V2_SEND_MAX];
	struct both again;
	int len = smcr_llc_encode_v2(&both->msg, &both->rtokens, first, sizeof(first));
	must(len >= SMCR_LLC_LEN);
	/* An ADD LINK may lack its extension, and a reply may lack the list that its count
	 * announces.
	 */
	must((size_t)len <= size || both->msg.type == SMCR_LLC_ADD_LINK || both->msg.reply);
	must(smcr_llc_decode_v2(first, (size_t)len, &again.msg, &again.rtokens) == 0);
	bool palindrome = len >> 8 == (len & 0xFF); /* this length is the same in both orders */
	must(palindrome ||
	     again.msg.order ==
		     (both->msg.order == SMCR_ORDER_BIG ? SMCR_ORDER_BIG : SMCR_ORDER_LITTLE));
	again.msg.order = both->msg.order;
	must(smcr_llc_encode_v2(&again.msg, &again.rtokens, second, sizeof(second)) == len);
	must(memcmp(first, second, (size_t)len) == 0);
}

/* With its keys hidden, a message still decodes to the same message. */
static void check_hidden(const uint8_t *data, size_t size)
{
	static struct both hidden;
	uint8_t *bytes = malloc(size);
	memcpy(bytes, data, size);
	smcr_llc_hide_keys(bytes, size, SMCR_LLC_FORM_ANY);
	must(smcr_llc_decode_v2(bytes, size, &hidden.msg, &hidden.rtokens) == 0);
	must(hidden.msg.type != SMCR_LLC_ADD_LINK || hidden.msg.add_link.psn == 0);
	for (unsigned int i = 0; i < hidden.rtokens.count; i++)
		must(hidden.rtokens.pair[i].new_rkey == 0 && hidden.rtokens.pair[i].ref_rkey == 0);
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum smcr_byte_order orders[] = { SMCR_ORDER_UNKNOWN, SMCR_ORDER_LITTLE,
						       SMCR_ORDER_BIG };
	static struct both both;
	int rc = smcr_llc_decode_v2(data, size, &both.msg, &both.rtokens);
	must(rc == 0 || rc == -EBADMSG || rc == -EOPNOTSUPP);
	if (rc < 0)
		return 0;
	must(size >= SMCR_LLC_LEN && size <= SMCR_LLC_V2_MAX_LEN);
	must(both.msg.type + SMCR_LLC_V2_TYPE == data[0] && both.msg.reply == (data[3] >> 7));
	must(both.rtokens.count == 0 || both.msg.type == SMCR_LLC_ADD_LINK);
	check_hidden(data, size);
	for (size_t i = 0; i < 3; i++) {
		both.msg.order = orders[i];
		check_round_trip(&both, size);
	}
	return 0;
}

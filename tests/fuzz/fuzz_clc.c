/* SPDX-License-Identifier: MIT */
/* CLC: what decodes agrees with its header, and encodes to bytes that decode to the same. */
#include <errno.h>
#include <string.h>

#include "proto/smcr/clc.h"
#include "tests/fuzz/fuzz.h"

static int encode(const struct smcr_clc_msg *msg, uint8_t *buf, size_t len)
{
	return msg->type == SMCR_CLC_PROPOSAL ? smcr_clc_encode_proposal(&msg->proposal, buf, len)
					      : smcr_clc_encode(msg, buf, len);
}

/* A Proposal of version 2, or with a larger growth area, is sent on in the form that is ours. */
static bool encodable(const struct smcr_clc_msg *msg)
{
	return msg->type != SMCR_CLC_PROPOSAL || msg->proposal.ip_offset <= 40;
}

static void check_round_trip(const struct smcr_clc_msg *msg)
{
	uint8_t first[SMCR_CLC_MAX_LEN];
	uint8_t second[SMCR_CLC_MAX_LEN];
	struct smcr_clc_msg again;
	int len = encode(msg, first, sizeof(first));
	must(len >= SMCR_CLC_DECLINE_LEN);
	must(smcr_clc_decode(first, (size_t)len, &again) == 0);
	must(again.type == msg->type && again.length == len);
	must(encode(&again, second, sizeof(second)) == len);
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
	return 0;
}

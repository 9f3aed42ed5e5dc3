/* SPDX-License-Identifier: MIT */
/* LLC of version 1 in both dialects: what decodes encodes to bytes that decode to the same. */
#include <errno.h>
#include <string.h>

#include "proto/smcr/llc.h"
#include "tests/fuzz/fuzz.h"

static void check(const uint8_t *data, size_t size, enum smcr_dialect dialect)
{
	struct smcr_llc_msg msg;
	int rc = smcr_llc_decode(data, size, dialect, &msg);
	must(rc == 0 || rc == -EBADMSG || rc == -EOPNOTSUPP || rc == -EPROTO);
	if (rc < 0)
		return;
	must(size == SMCR_LLC_LEN && msg.type == data[0] && msg.reply == (data[3] >> 7));

	uint8_t first[SMCR_LLC_LEN];
	uint8_t second[SMCR_LLC_LEN];
	must(smcr_llc_encode(&msg, dialect, first, sizeof(first)) == SMCR_LLC_LEN);
	must(smcr_llc_decode(first, sizeof(first), dialect, &msg) == 0);
	must(smcr_llc_encode(&msg, dialect, second, sizeof(second)) == SMCR_LLC_LEN);
	must(memcmp(first, second, sizeof(first)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check(data, size, SMCR_DIALECT_RFC);
	check(data, size, SMCR_DIALECT_DEPLOYED);
	return 0;
}

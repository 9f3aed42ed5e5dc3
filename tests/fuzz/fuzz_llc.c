/* SPDX-License-Identifier: MIT */
/*
 * LLC of version 1 in both dialects: what can be decoded encodes to bytes that decode to the same
 * message. A message whose keys are hidden is still the same message, of any type and length, and
 * contains no PSN.
 */
#include <errno.h>
#include <stdlib.h>
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

static void check_hidden(const uint8_t *data, size_t size, enum smcr_dialect dialect,
			 unsigned int forms)
{
	struct smcr_llc_msg msg;
	uint8_t *hidden = malloc(size + !size);
	memcpy(hidden, data, size);
	smcr_llc_hide_keys(hidden, size, forms);
	must(memcmp(hidden, data, size < 4 ? size : 4) == 0);
	const int rc = smcr_llc_decode(hidden, size, dialect, &msg);
	must(rc != 0 || msg.type != SMCR_LLC_ADD_LINK || msg.add_link.psn == 0);
	must(rc == smcr_llc_decode(data, size, dialect, &msg));
	free(hidden);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check(data, size, SMCR_DIALECT_RFC);
	check(data, size, SMCR_DIALECT_DEPLOYED);
	check_hidden(data, size, SMCR_DIALECT_RFC, SMCR_LLC_FORM_RFC);
	check_hidden(data, size, SMCR_DIALECT_DEPLOYED, SMCR_LLC_FORM_DEPLOYED);
	check_hidden(data, size, SMCR_DIALECT_RFC, SMCR_LLC_FORM_ANY);
	check_hidden(data, size, SMCR_DIALECT_DEPLOYED, SMCR_LLC_FORM_ANY);
	return 0;
}

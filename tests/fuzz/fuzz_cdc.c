/* SPDX-License-Identifier: MIT */
/* CDC: what can be decoded encodes to bytes that decode to the same message, and keeps every
 * defined field. */
#include <errno.h>
#include <string.h>

#include "proto/smcr/cdc.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct smcr_cdc cdc;
	int rc = smcr_cdc_decode(data, size, &cdc);
	must(rc == 0 || rc == -EBADMSG);
	if (rc < 0)
		return 0;

	uint8_t first[SMCR_CDC_LEN];
	uint8_t second[SMCR_CDC_LEN];
	must(smcr_cdc_encode(&cdc, first, sizeof(first)) == SMCR_CDC_LEN);
	must(memcmp(first, data, 8) == 0); /* type, length, sequence, token */
	must(memcmp(first + 10, data + 10, 6) == 0);
	must(memcmp(first + 18, data + 18, 6) == 0);
	must(smcr_cdc_decode(first, sizeof(first), &cdc) == 0);
	must(smcr_cdc_encode(&cdc, second, sizeof(second)) == SMCR_CDC_LEN);
	must(memcmp(first, second, sizeof(first)) == 0);
	return 0;
}

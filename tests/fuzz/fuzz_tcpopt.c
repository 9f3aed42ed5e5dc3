/* SPDX-License-Identifier: MIT */
/* The options of a TCP header: the parser stays inside them, and finds the SMC-R option where we
 * append it. */
#include <errno.h>
#include <string.h>

#include "proto/smcr/tcpopt.h"
#include "tests/fuzz/fuzz.h"

#define MAX_AREA 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int found = smcr_tcpopt_find(data, size);
	must(found == 0 || found == 1 || found == -EBADMSG);

	uint8_t area[MAX_AREA + SMCR_TCPOPT_LEN];
	if (size > MAX_AREA)
		return 0;
	if (size > 0)
		memcpy(area, data, size);
	must(smcr_tcpopt_encode(area + size, SMCR_TCPOPT_LEN) == SMCR_TCPOPT_LEN);
	int appended = smcr_tcpopt_find(area, size + SMCR_TCPOPT_LEN);
	must(found != 1 || appended == 1);
	return 0;
}

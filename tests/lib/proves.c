/* SPDX-License-Identifier: MIT */
#include "tests/lib/proves.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void proves_by(const char *file, const char *test, const char *ids)
{
	const char *path = getenv("SMCR_PROOFS");
	if (!path || !*path)
		return;
	FILE *out = fopen(path, "a");
	if (!out) {
		fprintf(stderr, "cannot record proofs in %s\n", path);
		abort();
	}
	char copy[1024];
	snprintf(copy, sizeof(copy), "%s", ids);
	char *save = NULL;
	for (char *id = strtok_r(copy, " ", &save); id; id = strtok_r(NULL, " ", &save))
		fprintf(out, "%s\t%s:%s\n", id, file, test);
	fclose(out);
}

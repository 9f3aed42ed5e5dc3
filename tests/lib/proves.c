/* SPDX-License-Identifier: MIT */
#include "tests/lib/proves.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIREMENTS "docs/requirements.tsv"

static bool is_requirement(FILE *requirements, const char *id)
{
	char line[1024];
	size_t id_len = strlen(id);
	rewind(requirements);
	while (fgets(line, sizeof(line), requirements))
		if (strncmp(line, id, id_len) == 0 && line[id_len] == '\t')
			return true;
	return false;
}

void proves_by(const char *file, const char *test, const char *ids)
{
	const char *path = getenv("SMCR_PROOFS");
	if (!path || !*path)
		return;
	FILE *requirements = fopen(REQUIREMENTS, "r");
	FILE *out = fopen(path, "a");
	if (!requirements || !out) {
		fprintf(stderr, "cannot read %s or record proofs in %s\n", REQUIREMENTS, path);
		abort();
	}
	char copy[1024];
	snprintf(copy, sizeof(copy), "%s", ids);
	char *save = NULL;
	for (char *id = strtok_r(copy, " ", &save); id; id = strtok_r(NULL, " ", &save)) {
		if (!is_requirement(requirements, id)) {
			fprintf(stderr, "%s:%s proves %s, which %s does not know\n", file, test, id,
				REQUIREMENTS);
			abort();
		}
		fprintf(out, "%s\t%s:%s\n", id, file, test);
	}
	fclose(requirements);
	fclose(out);
}

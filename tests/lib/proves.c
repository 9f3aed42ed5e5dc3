/* SPDX-License-Identifier: MIT */
#include "tests/lib/proves.h"

#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The list that has an id is found by the id alone. */
#define LISTS "docs/requirements*.tsv"

static bool list_has(const char *path, const char *id)
{
	char line[1024];
	size_t id_len = strlen(id);
	bool found = false;
	FILE *list = fopen(path, "r");
	if (!list)
		return false;
	while (!found && fgets(line, sizeof(line), list))
		found = strncmp(line, id, id_len) == 0 && line[id_len] == '\t';
	fclose(list);
	return found;
}

static bool is_requirement(const glob_t *lists, const char *id)
{
	for (size_t i = 0; i < lists->gl_pathc; i++) {
		if (list_has(lists->gl_pathv[i], id))
			return true;
	}
	return false;
}

void proves_by(const char *file, const char *test, const char *ids)
{
	const char *path = getenv("SMCR_PROOFS");
	if (!path || !*path)
		return;
	glob_t lists;
	FILE *out = fopen(path, "a");
	if (glob(LISTS, 0, NULL, &lists) || !out) {
		fprintf(stderr, "cannot read %s or record proofs in %s\n", LISTS, path);
		abort();
	}
	char copy[1024];
	snprintf(copy, sizeof(copy), "%s", ids);
	char *save = NULL;
	for (char *id = strtok_r(copy, " ", &save); id; id = strtok_r(NULL, " ", &save)) {
		if (!is_requirement(&lists, id)) {
			fprintf(stderr, "%s:%s proves %s, which %s does not know\n", file, test, id,
				LISTS);
			abort();
		}
		fprintf(out, "%s\t%s:%s\n", id, file, test);
	}
	globfree(&lists);
	fclose(out);
}

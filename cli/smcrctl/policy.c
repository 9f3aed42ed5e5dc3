/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/policy.h"

#include <stdio.h>
#include <string.h>

#include "cli/smcrctl/table.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char *source(const json_t *row)
{
	return strdup(json_is_true(json_object_get(row, "configured")) ? "smcrd.conf" : "smcrctl");
}

static const struct column rule_columns[] = {
	{ "RULE", "rule" },
	{ "FROM", NULL, .format = source },
	{ "HITS", "hits" },
};

static void print_rules(const json_t *result, bool details)
{
	const json_t *rules = json_object_get(result, "rules");
	const char *rest = json_string_value(json_object_get(result, "default"));
	bool denied = rest && !strcmp(rest, "deny");
	if (json_array_size(rules) == 0) {
		puts("No rule: every connection may use SMC-R.");
		return;
	}
	table_print(rules, rule_columns, COUNT(rule_columns), details);
	if (denied)
		printf("What no rule allows is denied: %" JSON_INTEGER_FORMAT
		       " connections so far.\n",
		       json_integer_value(json_object_get(result, "default_hits")));
}

void policy_print(const json_t *result, bool details)
{
	print_rules(result, details);
}

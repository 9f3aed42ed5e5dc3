/* SPDX-License-Identifier: MIT */
/*
 * Policy rules as an administrator writes them. A rule that can be parsed is shown in one canonical
 * form, and that form parses to the same rule. A rule gives the same verdict about a connection
 * through each function that judges.
 */
#include <errno.h>
#include <string.h>

#include "daemon/policy/rules.h"
#include "tests/fuzz/fuzz.h"

static void judge(const struct policy_rule *rule, const uint8_t *data, size_t size)
{
	struct smcr_subject subject;
	memset(&subject, 0, sizeof(subject));
	memcpy(&subject, data, size < sizeof(subject) ? size : sizeof(subject));
	bool matches = smcr_rule_matches(&rule->match, &subject);
	struct policy_verdict verdict = policy_rules_judge(rule, 1, &subject);
	bool denies = rule->match.flags & SMCR_RULE_DENY;
	must(verdict.denied == (matches == denies));
	must(verdict.place == (matches ? 0 : 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[2 * POLICY_RULE_TEXT] = "", again[POLICY_RULE_TEXT], why[POLICY_WHY_LEN] = "";
	struct policy_rule rule, same;
	memcpy(text, data, size < sizeof(text) ? size : sizeof(text) - 1);
	int r = policy_rule_parse(text, false, &rule, why);
	must(r == 0 || (r == -EINVAL && why[0]));
	if (r < 0)
		return 0;
	policy_rule_text(&rule, again);
	must(policy_rule_parse(again, false, &same, why) == 0);
	must(policy_rule_equal(&rule, &same));
	judge(&rule, data, size);
	return 0;
}

/* SPDX-License-Identifier: MIT */
/**
 * @file rules.h
 * The administrator's rules: which connections may use SMC-R. How they are written, and what they
 * say of a connection (daemon/rendezvous/bpf/rule.h). Pure, but for looking users up.
 *
 *     deny port 22                           deny program /usr/bin/ssh uid 1000
 *     deny peer 192.0.2.0/24 port 8000-8999  allow local 10.1.0.0/16
 *
 * A rule concerns a connection for which all its conditions hold. Deny wins; as soon as one rule
 * allows, what none allows is denied.
 */
#ifndef SMCRD_POLICY_RULES_H
#define SMCRD_POLICY_RULES_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/rendezvous/bpf/rule.h"

#define POLICY_PROGRAM_MAX 256 /* path and NUL */
#define POLICY_RULE_TEXT   512
#define POLICY_WHY_LEN     160

struct policy_rule {
	struct smcr_rule match;           /* flags 0: none */
	char program[POLICY_PROGRAM_MAX]; /* "": any */
};

/**
 * @param text   "deny CONDITION.." or "allow CONDITION.."
 * @param names  users may be named, not only numbered: looking them up may take long
 * @param why    on failure: a sentence that names the word
 * @return 0, -EINVAL
 */
int policy_rule_parse(const char *text, bool names, struct policy_rule *ret_rule,
		      char why[POLICY_WHY_LEN]);

/** As policy_rule_parse() reads it, always in the same order. */
void policy_rule_text(const struct policy_rule *rule, char ret_text[POLICY_RULE_TEXT]);

/** Do they say the same? */
bool policy_rule_equal(const struct policy_rule *a, const struct policy_rule *b);

/** Which rule decides. */
struct policy_verdict {
	bool denied;
	size_t place; /* of the rule; as many as there are: none of those that allow does, or there
			 is none at all */
};

struct policy_verdict policy_rules_judge(const struct policy_rule *rules, size_t num_rules,
					 const struct smcr_subject *subject);

#endif

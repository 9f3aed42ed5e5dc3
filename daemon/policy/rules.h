/* SPDX-License-Identifier: MIT */
/**
 * @file rules.h
 * The administrator's rules, which say what connections may use SMC-R: their text, and how they
 * match a connection (daemon/rendezvous/bpf/rule.h). Pure functions, except for looking up users.
 *
 *     deny port 22                           deny program /usr/bin/ssh uid 1000
 *     deny peer 192.0.2.0/24 port 8000-8999  allow local 10.1.0.0/16
 *
 * A rule matches a connection if all its conditions do. Deny wins. If there is any rule that
 * allows, connections that no rule allows are denied.
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
 * @param names  allow names of users, not only numbers; looking names up may take long
 * @param why    on failure: a sentence that names the wrong word
 * @return 0, -EINVAL
 */
int policy_rule_parse(const char *text, bool names, struct policy_rule *ret_rule,
		      char why[POLICY_WHY_LEN]);

/** Write a rule as policy_rule_parse() reads it, always in the same order. */
void policy_rule_text(const struct policy_rule *rule, char ret_text[POLICY_RULE_TEXT]);

/** Are the rules the same? */
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

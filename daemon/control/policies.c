/* SPDX-License-Identifier: MIT */
/* Which connections use SMC-R: the administrator's rules. */
#include <errno.h>

#include "daemon/control/internal.h"
#include "daemon/control/views.h"

static void add_rule(void *arg, const struct policy_rule_view *view)
{
	char text[POLICY_RULE_TEXT];
	bool denies = view->rule->match.flags & SMCR_RULE_DENY;
	policy_rule_text(view->rule, text);
	json_array_append_new(arg, json_pack("{s:s, s:s, s:b, s:I}", "rule", text, "action",
					     denies ? "deny" : "allow", "configured",
					     view->configured, "hits", (json_int_t)view->hits));
}

json_t *control_show_policy(struct control *control)
{
	bool in_force;
	json_t *rules = json_array();
	policy_each_rule(control->policy, add_rule, rules);
	uint64_t unnamed = policy_unnamed(control->policy, &in_force);
	return json_pack("{s:o, s:s, s:I}", "rules", rules, "default", in_force ? "deny" : "allow",
			 "default_hits", (json_int_t)unnamed);
}

/* Users come by number: looking up a name may take longer than this loop can wait. */
static bool parse(const char *text, struct policy_rule *rule, struct refusal *refusal)
{
	char why[POLICY_WHY_LEN];
	if (!policy_rule_parse(text, false, rule, why))
		return true;
	refuse(refusal, EINVAL, "bad-parameter", "this is no rule: %s", why);
	refusal->parameter = "rule";
	return false;
}

json_t *policy_add(struct control *control, const struct params *params, struct refusal *refusal)
{
	struct policy_rule rule;
	char text[POLICY_RULE_TEXT];
	if (!parse(params->rule, &rule, refusal))
		return NULL;
	policy_rule_text(&rule, text);
	int error = policy_add_rule(control->policy, &rule, false);
	if (error == -EEXIST)
		return refuse(refusal, EEXIST, "exists", "there is a rule \"%.200s\" already",
			      text);
	if (error)
		return refuse(refusal, ENOSPC, "full",
			      "there are %d rules; there is room for no more", SMCR_MAX_RULES);
	return json_pack("{s:o}", "text",
			 json_sprintf("%s: new connections go by it, until smcrd stops", text));
}

struct search {
	const struct policy_rule *rule;
	bool configured;
};

static void look(void *arg, const struct policy_rule_view *view)
{
	struct search *search = arg;
	if (policy_rule_equal(view->rule, search->rule))
		search->configured = view->configured;
}

json_t *policy_delete(struct control *control, const struct params *params, struct refusal *refusal)
{
	struct policy_rule rule;
	char text[POLICY_RULE_TEXT];
	if (!parse(params->rule, &rule, refusal))
		return NULL;
	struct search search = { .rule = &rule };
	policy_each_rule(control->policy, look, &search);
	policy_rule_text(&rule, text);
	if (policy_delete_rule(control->policy, &rule))
		return refuse(refusal, ENOENT, "not-found", "there is no rule \"%.200s\"", text);
	return json_pack("{s:o}", "text",
			 json_sprintf("%s: new connections do not go by it%s", text,
				      search.configured ? "; it stands in smcrd.conf and counts "
							  "again after a restart"
							: ""));
}

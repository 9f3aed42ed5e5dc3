/* SPDX-License-Identifier: MIT */
#include "daemon/policy/policy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "daemon/host/log.h"
#include "daemon/policy/own.h"

/* What goes with the rule in the same place. */
struct rule_info {
	bool configured;
	uint64_t order; /* in which it came */
	uint64_t hits;  /* at hand-over; the BPF programs count theirs */
};

struct policy {
	struct rdv_option *option;
	struct own own;
	struct policy_rule rules[SMCR_MAX_RULES]; /* in the places that the BPF programs know */
	struct rule_info infos[SMCR_MAX_RULES];
	uint64_t next_order;
	uint64_t unnamed; /* at hand-over, as `hits` */
};

int policy_new(struct rdv_option *option, struct policy **ret_policy)
{
	struct policy *policy = calloc(1, sizeof(*policy));
	if (!policy)
		return -ENOMEM;
	policy->option = policy->own.option = option;
	*ret_policy = policy;
	return 0;
}

void policy_free(struct policy *policy)
{
	if (!policy)
		return;
	own_free(&policy->own);
	free(policy);
}

void policy_netif(struct policy *policy, const struct netif *netif)
{
	own_netif(&policy->own, netif);
}

/* ---- rules ---- */

static bool is_used(const struct policy_rule *rule)
{
	return rule->match.flags != 0;
}

/** The place of the rule, or SMCR_MAX_RULES. */
static uint32_t find_rule(const struct policy *policy, const struct policy_rule *rule)
{
	uint32_t place = 0;
	while (place < SMCR_MAX_RULES && !policy_rule_equal(&policy->rules[place], rule))
		place++;
	return place;
}

static uint32_t find_place(const struct policy *policy)
{
	uint32_t place = 0;
	while (place < SMCR_MAX_RULES && is_used(&policy->rules[place]))
		place++;
	return place;
}

/* What the BPF programs do not know is declined at hand-over. */
static void tell(const struct policy *policy, uint32_t place, const struct smcr_rule *rule)
{
	int r = rdv_option_set_rule(policy->option, place, rule);
	if (r < 0)
		log_message(LOG_WARNING, "the BPF programs cannot be told a rule: %s",
			    strerror(-r));
}

int policy_add_rule(struct policy *policy, const struct policy_rule *rule, bool configured)
{
	if (find_rule(policy, rule) < SMCR_MAX_RULES)
		return -EEXIST;
	uint32_t place = find_place(policy);
	if (place == SMCR_MAX_RULES)
		return -ENOSPC;
	policy->rules[place] = *rule;
	policy->infos[place] =
		(struct rule_info){ .configured = configured, .order = policy->next_order++ };
	tell(policy, place, &rule->match);
	return 0;
}

int policy_delete_rule(struct policy *policy, const struct policy_rule *rule)
{
	uint32_t place = find_rule(policy, rule);
	if (place == SMCR_MAX_RULES)
		return -ENOENT;
	memset(&policy->rules[place], 0, sizeof(policy->rules[place]));
	tell(policy, place, NULL);
	return 0;
}

static int by_order(const void *a, const void *b, void *ctx)
{
	const struct policy *policy = ctx;
	uint64_t first = policy->infos[*(const uint32_t *)a].order;
	uint64_t second = policy->infos[*(const uint32_t *)b].order;
	return first < second ? -1 : first > second;
}

void policy_each_rule(const struct policy *policy,
		      void (*fn)(void *arg, const struct policy_rule_view *view), void *arg)
{
	uint32_t places[SMCR_MAX_RULES];
	size_t n = 0;
	for (uint32_t i = 0; i < SMCR_MAX_RULES; i++)
		if (is_used(&policy->rules[i]))
			places[n++] = i;
	qsort_r(places, n, sizeof(places[0]), by_order, (void *)policy);
	for (size_t i = 0; i < n; i++) {
		const struct rule_info *info = &policy->infos[places[i]];
		struct policy_rule_view view = {
			.rule = &policy->rules[places[i]],
			.configured = info->configured,
			.hits = info->hits + rdv_option_rule_hits(policy->option, places[i]),
		};
		fn(arg, &view);
	}
}

uint64_t policy_unnamed(const struct policy *policy, bool *ret_in_force)
{
	bool in_force = false;
	for (uint32_t i = 0; i < SMCR_MAX_RULES; i++)
		in_force |= (policy->rules[i].match.flags & SMCR_RULE_ALLOW) != 0;
	*ret_in_force = in_force;
	return policy->unnamed + rdv_option_rule_hits(policy->option, SMCR_MAX_RULES);
}

/* ---- a connection is handed over ---- */

enum smcr_reason policy_judge(struct policy *policy, const struct smcr_subject *subject)
{
	struct policy_verdict verdict = policy_rules_judge(policy->rules, SMCR_MAX_RULES, subject);
	if (!verdict.denied)
		return SMCR_REASON_NONE; /* counted in the handshake */
	if (verdict.place < SMCR_MAX_RULES)
		policy->infos[verdict.place].hits++;
	else
		policy->unnamed++;
	return SMCR_REASON_LOCAL_POLICY;
}

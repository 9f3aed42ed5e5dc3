/* SPDX-License-Identifier: MIT */
#include "daemon/policy/policy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <time.h>

#include "daemon/host/log.h"
#include "daemon/policy/own.h"

/* What is known of the rule in the same place. */
struct rule_info {
	bool configured;
	uint64_t order; /* number of the rule */
	uint64_t hits;  /* connections decided at hand-over; the BPF programs count others */
};

struct policy {
	struct rdv_option *option;
	struct own own;
	struct failures *failures;
	struct shorts *shorts;
	struct needs *needs;
	struct event *look;                       /* to check places that count as short */
	struct policy_rule rules[SMCR_MAX_RULES]; /* in the same places as in the BPF programs */
	struct rule_info infos[SMCR_MAX_RULES];
	uint64_t last_order;
	uint64_t unnamed; /* at hand-over, as `hits` */
};

static void on_look(evutil_socket_t fd, short what, void *arg);
static void take_back(void *arg, const struct failure *failure);
static void end_place(void *arg, const struct short_place *place);

static uint64_t now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

int policy_new(const struct policy_params *params, struct policy **ret_policy)
{
	struct policy *policy = calloc(1, sizeof(*policy));
	if (!policy)
		return -ENOMEM;
	policy->option = policy->own.option = params->option;
	policy->failures = failures_new(params->skip_seconds, take_back, policy);
	policy->shorts = shorts_new(&params->shorts, end_place, policy);
	policy->needs = needs_new();
	policy->look = event_new(params->base, -1, EV_PERSIST, on_look, policy);
	if (!policy->failures || !policy->shorts || !policy->needs || !policy->look) {
		policy_free(policy);
		return -ENOMEM;
	}
	rdv_option_set_sample(policy->option, params->shorts.rate);
	*ret_policy = policy;
	return 0;
}

static void end_place(void *arg, const struct short_place *place)
{
	const struct policy *policy = arg;
	rdv_option_set_short(policy->option, &place->where, false);
}

void policy_configure(struct policy *policy, uint32_t skip_seconds,
		      const struct shorts_config *shorts)
{
	failures_set_first(policy->failures, skip_seconds);
	shorts_configure(policy->shorts, shorts);
	rdv_option_set_sample(policy->option, shorts->rate);
	if (!shorts_any(policy->shorts))
		event_del(policy->look);
}

void policy_free(struct policy *policy)
{
	if (!policy)
		return;
	own_free(&policy->own);
	failures_free(policy->failures);
	shorts_free(policy->shorts);
	needs_free(policy->needs);
	if (policy->look)
		event_free(policy->look);
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

/* A rule that the BPF programs cannot take is applied at hand-over. */
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
		(struct rule_info){ .configured = configured, .order = ++policy->last_order };
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

static bool is_among(const struct policy_rule *rules, size_t num_rules,
		     const struct policy_rule *rule)
{
	for (size_t i = 0; i < num_rules; i++)
		if (policy_rule_equal(&rules[i], rule))
			return true;
	return false;
}

size_t policy_count_with(const struct policy *policy, const struct policy_rule *rules,
			 size_t num_rules)
{
	size_t n = num_rules;
	for (uint32_t i = 0; i < SMCR_MAX_RULES; i++)
		n += is_used(&policy->rules[i]) && !policy->infos[i].configured &&
		     !is_among(rules, num_rules, &policy->rules[i]);
	return n;
}

/* Delete a rule that smcrd.conf does not have any more. @return false: there is none */
static bool delete_gone(struct policy *policy, const struct policy_rule *rules, size_t num_rules)
{
	for (uint32_t i = 0; i < SMCR_MAX_RULES; i++) {
		if (!is_used(&policy->rules[i]) || !policy->infos[i].configured ||
		    is_among(rules, num_rules, &policy->rules[i]))
			continue;
		const struct policy_rule gone = policy->rules[i];
		return policy_delete_rule(policy, &gone) == 0;
	}
	return false;
}

/* New rules are added before old ones are deleted, as far as there is room: meanwhile no connection
 * may pass that both the old and the new configuration deny. */
void policy_set_configured(struct policy *policy, const struct policy_rule *rules, size_t num_rules)
{
	for (size_t i = 0; i < num_rules; i++) {
		uint32_t place = find_rule(policy, &rules[i]);
		if (place < SMCR_MAX_RULES)
			policy->infos[place].configured = true;
		else if (policy_add_rule(policy, &rules[i], true) == -ENOSPC &&
			 delete_gone(policy, rules, num_rules))
			policy_add_rule(policy, &rules[i], true);
	}
	while (delete_gone(policy, rules, num_rules))
		;
}

static int by_order(const void *a, const void *b, void *ctx)
{
	const struct policy *policy = ctx;
	uint64_t first = policy->infos[*(const uint32_t *)a].order;
	uint64_t second = policy->infos[*(const uint32_t *)b].order;
	return first < second ? -1 : first > second;
}

bool policy_walk_rules(const struct policy *policy, uint64_t after,
		       bool (*fn)(void *arg, const struct policy_rule_view *view), void *arg)
{
	uint32_t places[SMCR_MAX_RULES];
	size_t n = 0;
	for (uint32_t i = 0; i < SMCR_MAX_RULES; i++)
		if (is_used(&policy->rules[i]) && policy->infos[i].order > after)
			places[n++] = i;
	qsort_r(places, n, sizeof(places[0]), by_order, (void *)policy);
	for (size_t i = 0; i < n; i++) {
		const struct rule_info *info = &policy->infos[places[i]];
		struct policy_rule_view view = {
			.rule = &policy->rules[places[i]],
			.configured = info->configured,
			.hits = info->hits + rdv_option_rule_hits(policy->option, places[i]),
			.order = info->order,
		};
		if (!fn(arg, &view))
			return false;
	}
	return true;
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
		return SMCR_REASON_NONE; /* was counted in the handshake */
	if (verdict.place < SMCR_MAX_RULES)
		policy->infos[verdict.place].hits++;
	else
		policy->unnamed++;
	return SMCR_REASON_LOCAL_POLICY;
}

bool policy_denies(const struct policy *policy, const struct smcr_subject *subject)
{
	return policy_rules_judge(policy->rules, SMCR_MAX_RULES, subject).denied;
}

/* ---- before there is a connection ---- */

static bool names_program(const struct policy *policy)
{
	for (uint32_t i = 0; i < SMCR_MAX_RULES; i++)
		if (is_used(&policy->rules[i]) && policy->rules[i].match.flags & SMCR_RULE_PROGRAM)
			return true;
	return false;
}

struct policy_outlook policy_foresee(const struct policy *policy,
				     const struct smcr_subject *subject,
				     const struct smcr_addr *peer)
{
	struct policy_outlook outlook = { .by_program =
						  !subject->program && names_program(policy) };
	struct policy_verdict verdict = policy_rules_judge(policy->rules, SMCR_MAX_RULES, subject);
	const struct rdv_place to = { .uid = subject->uid, .peer = *peer };
	uint64_t now = now_ms();
	if (verdict.place < SMCR_MAX_RULES)
		outlook.rule = &policy->rules[verdict.place];
	outlook.failure = failures_find(policy->failures, subject->uid, peer, now);
	if (outlook.failure)
		outlook.seconds_left = (uint32_t)((outlook.failure->until_ms - now + 999) / 1000);
	if (own_is(&policy->own, peer))
		outlook.reason = SMCR_REASON_OWN_HOST;
	else if (verdict.denied)
		outlook.reason = SMCR_REASON_LOCAL_POLICY;
	else if (outlook.failure)
		outlook.reason = SMCR_REASON_PEER_SKIPPED;
	else if (shorts_is_short(policy->shorts, &to))
		outlook.reason = SMCR_REASON_SHORT_CONNECTIONS;
	return outlook;
}

/* ---- for people ---- */

struct place_text {
	char text[2 * INET6_ADDRSTRLEN + 64];
};

/* "10.0.0.2 port 80", "10.0.0.2" */
static struct place_text describe(const struct smcr_addr *where)
{
	struct place_text out;
	char ip[INET6_ADDRSTRLEN] = "";
	inet_ntop(where->family, where->ip, ip, sizeof(ip));
	if (where->port)
		snprintf(out.text, sizeof(out.text), "%s port %u", ip, where->port);
	else
		snprintf(out.text, sizeof(out.text), "%s", ip);
	return out;
}

/* "of user 1000 to 10.0.0.2 port 80", "of 10.0.0.2 to 10.0.0.1 port 80 of user 33" */
static struct place_text describe_place(const struct rdv_place *where)
{
	const struct smcr_addr *peer = &where->peer;
	struct place_text out;
	char ip[INET6_ADDRSTRLEN] = "", own[INET6_ADDRSTRLEN] = "";
	inet_ntop(peer->family, peer->ip, ip, sizeof(ip));
	if (where->server)
		inet_ntop(where->local.family, where->local.ip, own, sizeof(own));
	if (where->server)
		snprintf(out.text, sizeof(out.text), "of %s to %s port %u of user %u", ip, own,
			 peer->port, where->uid);
	else
		snprintf(out.text, sizeof(out.text), "of user %u to %s port %u", where->uid, ip,
			 peer->port);
	return out;
}

/* ---- what failed ---- */

static void take_back(void *arg, const struct failure *failure)
{
	const struct policy *policy = arg;
	rdv_option_unskip_peer(policy->option, failure->uid, &failure->peer);
}

void policy_worked(struct policy *policy, uid_t uid, const struct smcr_addr *peer)
{
	failures_worked(policy->failures, uid, peer, now_ms());
}

void policy_failed(struct policy *policy, uid_t uid, const struct smcr_addr *peer,
		   enum failure_kind kind)
{
	uint64_t now = now_ms();
	const struct failure *failure = failures_note(policy->failures, uid, peer, kind, now);
	if (!failure)
		return;
	uint32_t seconds = (uint32_t)((failure->until_ms - now + 999) / 1000);
	int r = rdv_option_skip_peer(policy->option, uid, &failure->peer, seconds,
				     failure_text(failure->kind));
	if (r < 0)
		log_message(LOG_WARNING, "a peer that failed cannot be kept from SMC-R: %s",
			    strerror(-r));
	/* Connections that were under way at the same time as the first failure are nothing new. */
	bool news = failure->times == 1 || failure->until_ms == now + failure->seconds * 1000ull;
	log_message(!news                           ? LOG_DEBUG
		    : failure->kind == FAILURE_ECHO ? LOG_WARNING
						    : LOG_NOTICE,
		    "%s is left to TCP for %u s, for user %u: %s", describe(&failure->peer).text,
		    seconds, uid, failure_text(failure->kind));
}

struct failure_search {
	bool (*fn)(void *arg, const struct failure *failure, uint32_t seconds_left);
	void *arg;
	uint64_t now_ms;
};

static bool add_left(void *arg, const struct failure *failure)
{
	const struct failure_search *search = arg;
	uint64_t left = failure->until_ms > search->now_ms ? failure->until_ms - search->now_ms : 0;
	return search->fn(search->arg, failure, (uint32_t)((left + 999) / 1000));
}

bool policy_walk_failures(struct policy *policy, uint64_t after,
			  bool (*fn)(void *arg, const struct failure *failure,
				     uint32_t seconds_left),
			  void *arg)
{
	struct failure_search search = { fn, arg, now_ms() };
	return failures_walk(policy->failures, search.now_ms, after, add_left, &search);
}

/* ---- where connections are short ---- */

static void set_short(struct policy *policy, const struct rdv_place *where, bool on)
{
	const struct timeval period = { .tv_sec = SHORTS_LOOK_MS / 1000 };
	int r = rdv_option_set_short(policy->option, where, on);
	if (r < 0 && on)
		log_message(LOG_WARNING, "short connections cannot be left on TCP: %s",
			    strerror(-r));
	if (!shorts_any(policy->shorts))
		event_del(policy->look);
	else if (!event_pending(policy->look, EV_TIMEOUT, NULL))
		event_add(policy->look, &period);
}

static void ends(struct policy *policy, const struct rdv_place *where, const char *why)
{
	log_message(LOG_INFO, "connections %s use SMC-R again: %s", describe_place(where).text,
		    why);
	set_short(policy, where, false);
}

void policy_ended(struct policy *policy, const struct rdv_place *where, uint64_t ms, uint64_t bytes,
		  const struct smcr_needs *needs)
{
	const struct short_place *place;
	needs_ended(policy->needs, where, needs);
	switch (shorts_note(policy->shorts, where, ms, bytes, now_ms(), &place)) {
	case SHORTS_SAME: break;
	case SHORTS_BEGINS:
		log_message(LOG_INFO,
			    "connections %s are left on TCP but for a sample: nearly all end "
			    "soon, %.0f a second",
			    describe_place(where).text, place->rate);
		set_short(policy, where, true);
		break;
	case SHORTS_ENDS: ends(policy, where, "they last longer now"); break;
	}
}

static bool look_again(void *arg, const struct short_place *place)
{
	struct policy *policy = arg;
	uint64_t left, tried;
	if (!place->is_short ||
	    rdv_option_short_counts(policy->option, &place->where, &left, &tried) < 0)
		return true;
	if (shorts_look(policy->shorts, &place->where, left + tried, now_ms()) == SHORTS_ENDS)
		ends(policy, &place->where, "there are few of them");
	return true;
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
	struct policy *policy = arg;
	(void)fd;
	(void)what;
	shorts_walk(policy->shorts, now_ms(), 0, look_again, policy);
}

struct short_search {
	const struct policy *policy;
	bool (*fn)(void *arg, const struct policy_short_view *view);
	void *arg;
	uint64_t now_ms;
};

static bool add_counts(void *arg, const struct short_place *place)
{
	const struct short_search *search = arg;
	struct policy_short_view view = { .place = place };
	if (place->is_short) {
		rdv_option_short_counts(search->policy->option, &place->where, &view.left,
					&view.tried);
		view.age_s = (search->now_ms - place->since_ms) / 1000;
	}
	return search->fn(search->arg, &view);
}

bool policy_walk_shorts(struct policy *policy, uint64_t after,
			bool (*fn)(void *arg, const struct policy_short_view *view), void *arg)
{
	struct short_search search = { policy, fn, arg, now_ms() };
	return shorts_walk(policy->shorts, search.now_ms, after, add_counts, &search);
}

/* ---- forgotten by an operator ---- */

void policy_outgrown(struct policy *policy, const struct rdv_place *where,
		     const struct smcr_needs *needs)
{
	needs_outgrown(policy->needs, where, needs);
}

struct smcr_needs policy_expect(const struct policy *policy, const struct rdv_place *where)
{
	return needs_expected(policy->needs, where);
}

size_t policy_forget(struct policy *policy, const struct smcr_addr *where)
{
	size_t n = shorts_forget(policy->shorts, where);
	needs_forget(policy->needs, where);
	if (where->family)
		n += failures_forget(policy->failures, where, where->port);
	return n;
}

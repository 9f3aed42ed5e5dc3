/* SPDX-License-Identifier: MIT */
/**
 * @file policy.h
 * Which connections use SMC-R on this host: what the administrator wants and what was learnt. The
 * BPF programs are told, so that nothing is promised to a peer that will not be kept; the daemon
 * asks again when it is handed a connection.
 *
 *   rules.c     the administrator's rules: how they are written, what they say
 *   own.c       connections of the host to itself
 *   policy.c    the whole: the rules in force, with the BPF programs told
 *
 * It steers and is no border: programs say themselves which executable they are, and one that does
 * not want to be steered need not load the library at all.
 *
 * One thread uses a `struct policy`.
 */
#ifndef SMCRD_POLICY_POLICY_H
#define SMCRD_POLICY_POLICY_H

#include <stdint.h>

#include "daemon/host/netif.h"
#include "daemon/policy/rules.h"
#include "daemon/rendezvous/option.h"
#include "proto/smcr/reason.h"

struct policy;

/**
 * @param option  NULL: no TCP option on this host; outlives the policy
 * @return 0, -ENOMEM
 */
int policy_new(struct rdv_option *option, struct policy **ret_policy);
/** NULL is allowed. */
void policy_free(struct policy *policy);

/** An interface is as it is now: for netif_each() and netif_watch_new(). */
void policy_netif(struct policy *policy, const struct netif *netif);

/**
 * May this connection, which has been handed over, use SMC-R?
 * @return SMCR_REASON_NONE, or why not
 */
enum smcr_reason policy_judge(struct policy *policy, const struct smcr_subject *subject);

/* ---- rules */

/**
 * From here on new connections are judged by this one too.
 * @param configured  it stands in smcrd.conf
 * @return 0; -EEXIST; -ENOSPC (SMCR_MAX_RULES)
 */
int policy_add_rule(struct policy *policy, const struct policy_rule *rule, bool configured);

/** Not any more; a rule of smcrd.conf is back after a restart. @return 0, -ENOENT */
int policy_delete_rule(struct policy *policy, const struct policy_rule *rule);

struct policy_rule_view {
	const struct policy_rule *rule;
	bool configured; /* in smcrd.conf, else added since */
	uint64_t hits;   /* connections that it has decided */
};

/** Call `fn` for each, in the order in which they came. */
void policy_each_rule(const struct policy *policy,
		      void (*fn)(void *arg, const struct policy_rule_view *view), void *arg);

/** Connections denied because no rule that allows names them; *ret_in_force: there is such a rule.
 */
uint64_t policy_unnamed(const struct policy *policy, bool *ret_in_force);

#endif

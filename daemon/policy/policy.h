/* SPDX-License-Identifier: MIT */
/**
 * @file policy.h
 * Which connections use SMC-R on this host: what the administrator wants and what was learnt. The
 * BPF programs are told, so that nothing is promised to a peer that will not be kept; the daemon
 * asks again when it is handed a connection.
 *
 *   rules.c     the administrator's rules: how they are written, what they say
 *   own.c       connections of the host to itself
 *   failures.c  peers and ports with which SMC-R did not work
 *   shorts.c    where connections are too short for SMC-R
 *   needs.c     how large buffers have to be
 *   place_key.h keys of what those three know
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
#include "daemon/policy/failures.h"
#include "daemon/policy/needs.h"
#include "daemon/policy/rules.h"
#include "daemon/policy/shorts.h"
#include "daemon/rendezvous/option.h"
#include "proto/smcr/reason.h"

struct event_base;
struct policy;

struct policy_params {
	struct event_base *base;
	struct rdv_option *option; /* NULL: no TCP option on this host; outlives the policy */
	uint32_t skip_seconds;     /* a peer that failed is left alone for so long at first */
	struct shorts_config shorts;
};

/** @return 0, -ENOMEM */
int policy_new(const struct policy_params *params, struct policy **ret_policy);
/** From here on other values of what policy_params has under the same names. */
void policy_configure(struct policy *policy, uint32_t skip_seconds,
		      const struct shorts_config *shorts);
/** NULL is allowed. */
void policy_free(struct policy *policy);

/** An interface is as it is now: for netif_each() and netif_watch_new(). */
void policy_netif(struct policy *policy, const struct netif *netif);

/**
 * May this connection, which has been handed over, use SMC-R?
 * @return SMCR_REASON_NONE, or why not
 */
enum smcr_reason policy_judge(struct policy *policy, const struct smcr_subject *subject);

/** What is known beforehand of a connection that a program of this host may make. */
struct policy_outlook {
	enum smcr_reason reason;        /* SMCR_REASON_NONE: SMC-R is tried */
	const struct policy_rule *rule; /* that decides; NULL: none concerns it */
	bool by_program;                /* rules name programs, and nobody said which one it is */
	/** What has failed with the peer, valid until the next call, and for how long it is left
	 * alone; NULL: nothing. */
	const struct failure *failure;
	uint32_t seconds_left;
};

/**
 * Foresee what a connection will be, in the order in which the BPF programs look. Changes and
 * counts nothing.
 * @param subject  the program is 0 where nobody said
 * @param peer     the same as in `subject`
 */
struct policy_outlook policy_foresee(const struct policy *policy,
				     const struct smcr_subject *subject,
				     const struct smcr_addr *peer);

/* ---- what was seen */

/** SMC-R was agreed upon with `peer`; with its port if that is a server, else 0. */
void policy_worked(struct policy *policy, const struct smcr_addr *peer);

/** It failed, with `peer` (of a server, with its port). `kind`: not FAILURE_ECHO. */
void policy_failed(struct policy *policy, const struct smcr_addr *peer, enum failure_kind kind);

/**
 * A connection over SMC-R has ended.
 * @param where  address and port of the peer's server; family 0: the port of ours
 * @param ms     that it has lasted
 * @param bytes  that it has carried, both ways together
 * @param needs  what it has needed
 */
void policy_ended(struct policy *policy, const struct smcr_addr *where, uint64_t ms, uint64_t bytes,
		  const struct smcr_needs *needs);

/** A connection over SMC-R has filled its receive or send buffer. `where` as above. */
void policy_outgrown(struct policy *policy, const struct smcr_addr *where,
		     const struct smcr_needs *needs);

/** What a new connection is expected to need. `where` as above. */
struct smcr_needs policy_expect(const struct policy *policy, const struct smcr_addr *where);

/* Walks go by the `order` of what they come to: from behind `after` (0: from the beginning) until
 * `fn` returns false. They return true if they came to the end. */

/** `fn` gets each peer or port that failed and is remembered, and the seconds for which it is still
 *  left alone: 0 if it is tried again. */
bool policy_walk_failures(struct policy *policy, uint64_t after,
			  bool (*fn)(void *arg, const struct failure *failure,
				     uint32_t seconds_left),
			  void *arg);

struct policy_short_view {
	const struct short_place *place;
	uint64_t left;  /* handshakes left on TCP since it counts as short */
	uint64_t tried; /* and those that were not */
	uint64_t age_s; /* since it does; 0 if it does not */
};

/** Each place where the length of connections is watched. */
bool policy_walk_shorts(struct policy *policy, uint64_t after,
			bool (*fn)(void *arg, const struct policy_short_view *view), void *arg);

/**
 * Forget what was seen of a peer or port.
 * @param where  port 0: all of the peer; family 0: a port of ours
 * @return how many entries that were
 */
size_t policy_forget(struct policy *policy, const struct smcr_addr *where);

/* ---- rules */

/**
 * From here on new connections are judged by this one too.
 * @param configured  it stands in smcrd.conf
 * @return 0; -EEXIST; -ENOSPC (SMCR_MAX_RULES)
 */
int policy_add_rule(struct policy *policy, const struct policy_rule *rule, bool configured);

/** Not any more; a rule of smcrd.conf is back after a restart. @return 0, -ENOENT */
int policy_delete_rule(struct policy *policy, const struct policy_rule *rule);

/**
 * How many rules there would be with these in the place of those of smcrd.conf: those that were
 * added since stay.
 */
size_t policy_count_with(const struct policy *policy, const struct policy_rule *rules,
			 size_t num_rules);
/** Put them in that place: no more than SMCR_MAX_RULES as policy_count_with() counts. Rules that
 *  stay keep their counts. */
void policy_set_configured(struct policy *policy, const struct policy_rule *rules,
			   size_t num_rules);

struct policy_rule_view {
	const struct policy_rule *rule;
	bool configured; /* in smcrd.conf, else added since */
	uint64_t hits;   /* connections that it has decided */
	uint64_t order;  /* they are counted from 1 */
};

/** Each rule, in the order in which they came. */
bool policy_walk_rules(const struct policy *policy, uint64_t after,
		       bool (*fn)(void *arg, const struct policy_rule_view *view), void *arg);

/** Connections denied because no rule that allows names them; *ret_in_force: there is such a rule.
 */
uint64_t policy_unnamed(const struct policy *policy, bool *ret_in_force);

#endif

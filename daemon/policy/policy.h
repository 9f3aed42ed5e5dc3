/* SPDX-License-Identifier: MIT */
/**
 * @file policy.h
 * Decides which connections use SMC-R on this host, by what the administrator wants and by what was
 * learnt. The BPF programs are told, so that the TCP option promises nothing that the daemon will
 * not do. The daemon asks again when it is handed a connection.
 *
 *   rules.c     the administrator's rules: how they are written, what they say
 *   own.c       connections of the host to itself
 *   failures.c  peers and ports with which SMC-R did not work
 *   shorts.c    where connections are too short for SMC-R
 *   needs.c     how large buffers have to be
 *   kept.c      whose share of what those three know is how large
 *   place_key.h keys of it
 *   policy.c    the whole: the rules in force, with the BPF programs told
 *
 * Policy is no security boundary: programs say themselves which executable they are, and a program
 * may leave out the library.
 *
 * A `struct policy` is used by one thread.
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
	struct rdv_option *option; /* NULL: no TCP option on this host; must outlive the policy */
	uint32_t skip_seconds;     /* how long a peer is left to TCP after its first failure */
	struct shorts_config shorts;
};

/** @return 0, -ENOMEM */
int policy_new(const struct policy_params *params, struct policy **ret_policy);
/** Change the values that policy_params has under these names. */
void policy_configure(struct policy *policy, uint32_t skip_seconds,
		      const struct shorts_config *shorts);
/** NULL is allowed. */
void policy_free(struct policy *policy);

/** Take the present state of an interface: callback for netif_each() and netif_watch_new(). */
void policy_netif(struct policy *policy, const struct netif *netif);

/**
 * May this connection, which has been handed over, use SMC-R?
 * @return SMCR_REASON_NONE, or why not
 */
enum smcr_reason policy_judge(struct policy *policy, const struct smcr_subject *subject);

/** Do the rules deny a connection? Counts nothing. */
bool policy_denies(const struct policy *policy, const struct smcr_subject *subject);

/** What can be said of a connection before a program of this host makes it. */
struct policy_outlook {
	enum smcr_reason reason;        /* SMCR_REASON_NONE: SMC-R is tried */
	const struct policy_rule *rule; /* the rule that decides; NULL: none does */
	bool by_program;                /* rules name programs, but the program is not known */
	/** The failure because of which the peer is left to TCP, valid until the next call, and for
	 * how long; NULL: none. */
	const struct failure *failure;
	uint32_t seconds_left;
};

/**
 * Foresee whether a connection will use SMC-R, with the checks of the BPF programs in their order.
 * Changes and counts nothing.
 * @param subject  the program is 0 if it is not known
 * @param peer     the same as in `subject`
 */
struct policy_outlook policy_foresee(const struct policy *policy,
				     const struct smcr_subject *subject,
				     const struct smcr_addr *peer);

/* ---- what was seen */

/** SMC-R was agreed on with `peer` for a connection of `uid`; the port is set if the peer is the
 * server, else 0. `uid`: who called connect() or listen(). */
void policy_worked(struct policy *policy, uid_t uid, const struct smcr_addr *peer);

/** SMC-R has failed with `peer` (with the port if it is the server) for a connection of `uid`, and
 * is not tried for a while for connections of `uid`. `kind`: not FAILURE_ECHO. */
void policy_failed(struct policy *policy, uid_t uid, const struct smcr_addr *peer,
		   enum failure_kind kind);

/**
 * A connection over SMC-R has ended.
 * @param where  whose connection it was, and with which peer and port
 * @param ms     how long it has lasted
 * @param bytes  how much it has carried, both ways together
 * @param needs  what buffers it has needed
 */
void policy_ended(struct policy *policy, const struct rdv_place *where, uint64_t ms, uint64_t bytes,
		  const struct smcr_needs *needs);

/** A connection over SMC-R has had its receive or send buffer full. `where` as above. */
void policy_outgrown(struct policy *policy, const struct rdv_place *where,
		     const struct smcr_needs *needs);

/** What a new connection is expected to need. `where` as above. */
struct smcr_needs policy_expect(const struct policy *policy, const struct rdv_place *where);

/* Walks go in the order of member `order`: they call `fn` for entries behind `after` (0: for all)
 * until it returns false. They return true if they have come to the end. */

/** `fn` gets each peer or port that is remembered as failed, and for how many seconds it is still
 * left to TCP; 0: SMC-R is tried again. */
bool policy_walk_failures(struct policy *policy, uint64_t after,
			  bool (*fn)(void *arg, const struct failure *failure,
				     uint32_t seconds_left),
			  void *arg);

struct policy_short_view {
	const struct short_place *place;
	uint64_t left;  /* handshakes left on TCP since the place counts as short */
	uint64_t tried; /* handshakes not left on TCP since then */
	uint64_t age_s; /* how long it has counted as short; 0: it does not */
};

/** `fn` gets each place where the length of connections is watched. */
bool policy_walk_shorts(struct policy *policy, uint64_t after,
			bool (*fn)(void *arg, const struct policy_short_view *view), void *arg);

/**
 * Forget what was seen of a peer or port, by connections of all users.
 * @param where  port 0: the whole peer; family 0: a port of this host, for all peers
 * @return how many entries were forgotten
 */
size_t policy_forget(struct policy *policy, const struct smcr_addr *where);

/* ---- rules */

/**
 * Add a rule for new connections.
 * @param configured  the rule is from smcrd.conf
 * @return 0; -EEXIST; -ENOSPC (SMCR_MAX_RULES)
 */
int policy_add_rule(struct policy *policy, const struct policy_rule *rule, bool configured);

/** Delete a rule; a rule of smcrd.conf is back after a restart. @return 0, -ENOENT */
int policy_delete_rule(struct policy *policy, const struct policy_rule *rule);

/**
 * How many rules there would be if these replaced the rules of smcrd.conf; rules that were added
 * since stay.
 */
size_t policy_count_with(const struct policy *policy, const struct policy_rule *rules,
			 size_t num_rules);
/** Replace the rules of smcrd.conf. There may be at most SMCR_MAX_RULES as policy_count_with()
 * counts. Rules that stay keep their counts. */
void policy_set_configured(struct policy *policy, const struct policy_rule *rules,
			   size_t num_rules);

struct policy_rule_view {
	const struct policy_rule *rule;
	bool configured; /* from smcrd.conf; false: added since */
	uint64_t hits;   /* how many connections the rule has decided */
	uint64_t order;  /* number of the rule, counted from 1 */
};

/** `fn` gets each rule, in the order in which they were added. */
bool policy_walk_rules(const struct policy *policy, uint64_t after,
		       bool (*fn)(void *arg, const struct policy_rule_view *view), void *arg);

/** How many connections were denied because no rule allows them; *ret_in_force: there is a rule
 * that allows.
 */
uint64_t policy_unnamed(const struct policy *policy, bool *ret_in_force);

#endif

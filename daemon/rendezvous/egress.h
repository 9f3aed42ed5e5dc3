/* SPDX-License-Identifier: MIT */
/**
 * @file egress.h
 * Keeps ordinary users of this host from sending two things while `egress_guard` is yes: packets to
 * UDP port 4791 (guard.h), and CLC messages on sockets for which the SMC-R option was sent
 * (gate.h). Each of the two works without the other. The gate also sees whether the option really
 * leaves, and does that in any case.
 */
#ifndef SMCRD_RENDEZVOUS_EGRESS_H
#define SMCRD_RENDEZVOUS_EGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/rendezvous/option.h"
#include "daemon/rendezvous/refused.h"

enum egress_kind {
	EGRESS_ROCE, /* counts system calls: bind(), connect() and sending */
	EGRESS_CLC,  /* counts packets, repeated ones too */
};
#define NUM_EGRESS_KINDS (EGRESS_CLC + 1)

struct egress_view {
	bool wanted;
	/** Why it is not in force although it is wanted; "": it is, or is not wanted. */
	char errors[NUM_EGRESS_KINDS][RDV_TEXT_MAX];
	uint64_t refused[NUM_EGRESS_KINDS]; /* how often, since egress_new() */
};

struct egress;

/**
 * Make an egress guard, which refuses nothing before egress_set().
 * @param cgroup  what attach_root() gave, its error too; stays the caller's, and must stay open
 * @param option  must outlive the guard; NULL: no option is sent, so there is no CLC to refuse
 * @return 0, -ENOMEM
 */
int egress_new(int cgroup, const struct rdv_option *option, struct egress **ret_egress);

/** Free the guard: nothing is refused any more. NULL is allowed. */
void egress_free(struct egress *egress);

/** From now on refuse users these things, or allow them. If that fails, the view tells why, and the
 * next call tries again. */
void egress_set(struct egress *egress, bool wanted);

/** With NULL the view is empty. */
void egress_get_view(const struct egress *egress, struct egress_view *ret_view);

/** Has anything been refused since the last egress_take_news()? Makes no system call. NULL: no. */
bool egress_has_news(const struct egress *egress, enum egress_kind kind);

/** Tell how often since the last call, and to whom: "user 1000 and 2 others were refused .., 17
 * times". */
void egress_take_news(struct egress *egress, enum egress_kind kind, char ret_text[RDV_TEXT_MAX]);

/** What users can do if this kind is not in force: part of a sentence. Static storage. */
const char *egress_kind_risk(enum egress_kind kind);

#endif

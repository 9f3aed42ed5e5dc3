/* SPDX-License-Identifier: MIT */
/**
 * @file egress.h
 * What ordinary users of this host may not send while `egress_guard` is yes: to UDP port 4791
 * (guard.h), and CLC on sockets for which the SMC-R option was sent (gate.h). Either works without
 * the other.
 */
#ifndef SMCRD_RENDEZVOUS_EGRESS_H
#define SMCRD_RENDEZVOUS_EGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/rendezvous/option.h"
#include "daemon/rendezvous/refused.h"

enum egress_kind {
	EGRESS_ROCE, /* system calls: bind(), connect() and sending */
	EGRESS_CLC,  /* packets, with each repetition */
};
#define NUM_EGRESS_KINDS (EGRESS_CLC + 1)

struct egress_view {
	bool wanted;
	/** Why it does not hold though it is wanted; "": it does, or is not wanted. */
	char errors[NUM_EGRESS_KINDS][RDV_TEXT_MAX];
	uint64_t refused[NUM_EGRESS_KINDS]; /* since egress_new() */
};

struct egress;

/**
 * Nothing is refused before egress_set().
 * @param cgroup  what attach_root() gave, its error too; stays the caller's, and must stay open
 * @param option  must outlive it; NULL: no option is sent, so that there is no CLC to be kept back
 * @return 0, -ENOMEM
 */
int egress_new(int cgroup, const struct rdv_option *option, struct egress **ret_egress);

/** Nothing is refused any more. NULL is allowed. */
void egress_free(struct egress *egress);

/** From here on users are refused these things, or are not. What fails is in the view, and tried
 *  again with the next call. */
void egress_set(struct egress *egress, bool wanted);

/** NULL: nothing. */
void egress_get_view(const struct egress *egress, struct egress_view *ret_view);

/** Has anything been refused since the last egress_take_news()? It costs no system call. NULL: no.
 */
bool egress_has_news(const struct egress *egress, enum egress_kind kind);

/** How often it was since then, and to whom: "user 1000 and 2 others were refused .., 17 times". */
void egress_take_news(struct egress *egress, enum egress_kind kind, char ret_text[RDV_TEXT_MAX]);

/** What is possible without the programs of this kind: part of a sentence. Static storage. */
const char *egress_kind_risk(enum egress_kind kind);

#endif

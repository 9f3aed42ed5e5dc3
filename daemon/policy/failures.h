/* SPDX-License-Identifier: MIT */
/**
 * @file failures.h
 * Peers, and single TCP ports of peers, with which SMC-R did not work. They are left to TCP for a
 * while: longer each time that it fails again, until it works or nothing was heard of it for long.
 *
 * Sees through hosts, or middleboxes before them, that send TCP option 254 back without speaking
 * SMC-R: several ports of a peer do not answer the rendezvous, and none ever did.
 *
 * No clock and no I/O: the time is told, in milliseconds.
 */
#ifndef SMCRD_POLICY_FAILURES_H
#define SMCRD_POLICY_FAILURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/engine/engine.h"

enum failure_kind {
	FAILURE_PATH,   /* RoCE to the peer is dead: all of it */
	FAILURE_LINK,   /* RoCE as a server there wanted it is dead, other links work: this port */
	FAILURE_ANSWER, /* no answer to the rendezvous, or none of an SMC-R peer: this port */
	FAILURE_RESET, /* the peer reset the connection: this port, and perhaps for a moment only */
	FAILURE_ECHO,  /* found out here: the option comes back from whoever is asked */
};

struct failure {
	struct smcr_addr peer; /* port 0: all of it */
	enum failure_kind kind;
	uint32_t times;    /* it has failed */
	uint32_t attempts; /* of these, how often after the peer had been left alone */
	uint32_t seconds;  /* it is left alone for so long */
	uint64_t until_ms; /* and until then; it is remembered for an hour after that */
	uint64_t order;    /* they are counted from 1 */
};

struct failures;

/** @param first_seconds  how long a peer is left alone at first, 1..86400 */
struct failures *failures_new(uint32_t first_seconds);
/** What fails from here on is left alone for so long at first. */
void failures_set_first(struct failures *failures, uint32_t first_seconds);
/** NULL is allowed. */
void failures_free(struct failures *failures);

/**
 * SMC-R failed with `peer` (of a server there, with its port).
 * @param kind  not FAILURE_ECHO
 * @return the entry that says until when what is to be left alone: of the port, or of all of the
 * peer; valid until the next call. NULL: no memory
 */
const struct failure *failures_note(struct failures *failures, const struct smcr_addr *peer,
				    enum failure_kind kind, uint64_t now_ms);

/**
 * SMC-R worked with `peer`, at this port. Forgets what is known of the port, and of the peer as a
 * whole.
 * @param forgotten  called for each entry that was forgotten; may be NULL
 */
void failures_worked(struct failures *failures, const struct smcr_addr *peer, uint64_t now_ms,
		     void (*forgotten)(void *arg, const struct failure *failure), void *arg);

/**
 * Forget what is known of an address, whatever the port.
 * @param port  0: of all ports and the peer as a whole; else of this one only
 * @return how many entries that were
 */
size_t failures_forget(struct failures *failures, const struct smcr_addr *peer, uint16_t port,
		       void (*forgotten)(void *arg, const struct failure *failure), void *arg);

/**
 * Call `fn` for each with a larger `order` than `after`, in that order, until it returns false.
 * Those whose time is over come too, with until_ms in the past: they are tried again.
 * @return true: those were all
 */
bool failures_walk(struct failures *failures, uint64_t now_ms, uint64_t after,
		   bool (*fn)(void *arg, const struct failure *failure), void *arg);

/** The entry that leaves `peer` with this port alone now: of the port or of all of the peer,
 *  whichever lasts longer; NULL: neither does. Valid until the next call. */
const struct failure *failures_find(const struct failures *failures, const struct smcr_addr *peer,
				    uint64_t now_ms);

/** "the first message over RoCE was not acknowledged" */
const char *failure_text(enum failure_kind kind);
/** A short stable name: "path", "link", "answer", "reset", "echo". */
const char *failure_name(enum failure_kind kind);

#endif

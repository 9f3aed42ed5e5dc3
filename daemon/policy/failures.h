/* SPDX-License-Identifier: MIT */
/**
 * @file failures.h
 * Peers, and single TCP ports of peers, with which SMC-R did not work. Connections with them stay
 * TCP for a while, which gets longer with each further failure. A peer is forgotten when SMC-R
 * works, or when nothing was noted about it for long.
 *
 * What the connections of a user have shown concerns the connections of that user only. A user can
 * make connections of his own fail, and a peer those with it, in ways that look as if the other end
 * had failed. Neither can make the daemon forget what others have learnt: who has how many entries,
 * and which of them makes room, is in kept.h. The oldest one does.
 *
 * Also recognizes hosts, or middleboxes before them, that only send TCP option 254 back: several
 * ports of the peer do not answer the rendezvous, and none ever did.
 *
 * No clock and no I/O: the caller gives the time, in milliseconds.
 */
#ifndef SMCRD_POLICY_FAILURES_H
#define SMCRD_POLICY_FAILURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/smcr/engine.h"

enum failure_kind {
	FAILURE_PATH, /* RoCE to the peer does not work: the whole peer */
	FAILURE_LINK, /* RoCE on the link that a server chose fails, other links work: this port */
	FAILURE_ANSWER, /* no answer to the rendezvous, or none of an SMC-R peer: this port */
	FAILURE_RESET, /* the peer reset the connection: this port, perhaps only for a short time */
	FAILURE_ECHO,  /* found by this file: the peer sends the option back without SMC-R */
};

struct failure {
	uid_t uid;             /* whose connections are concerned */
	struct smcr_addr peer; /* port 0: all ports */
	enum failure_kind kind;
	uint32_t times;    /* how often SMC-R has failed */
	uint32_t attempts; /* of these, how often after the peer had been left to TCP */
	uint32_t seconds;  /* how long the peer is left to TCP */
	uint64_t until_ms; /* and until when; the entry is kept for another hour */
	uint64_t order;    /* number of the entry, counted from 1 */
};

struct failures;

/**
 * @param first_seconds  how long a peer is left to TCP after its first failure, 1..86400
 * @param forgotten      called for each entry that is forgotten, by whatever function but
 *                       failures_free(); may be NULL
 */
struct failures *failures_new(uint32_t first_seconds,
			      void (*forgotten)(void *arg, const struct failure *failure),
			      void *arg);
/** Set that time for failures from now on. */
void failures_set_first(struct failures *failures, uint32_t first_seconds);
/** NULL is allowed. */
void failures_free(struct failures *failures);

/**
 * SMC-R has failed with `peer` (for a server there, with its port), for a connection of `uid`.
 * @param kind  not FAILURE_ECHO
 * @return the entry, of the port or of the whole peer, that says until when connections stay TCP;
 *         valid until the next call. NULL: no memory
 */
const struct failure *failures_note(struct failures *failures, uid_t uid,
				    const struct smcr_addr *peer, enum failure_kind kind,
				    uint64_t now_ms);

/** SMC-R has worked with `peer`, at this port, for a connection of `uid`. Forget the user's entries
 * of the port and of the whole peer. */
void failures_worked(struct failures *failures, uid_t uid, const struct smcr_addr *peer,
		     uint64_t now_ms);

/**
 * Forget entries of an address, of all users.
 * @param port  0: of all ports and of the whole peer; else of this port only
 * @return how many entries were forgotten
 */
size_t failures_forget(struct failures *failures, const struct smcr_addr *peer, uint16_t port);

/**
 * Call `fn` for each entry with a larger `order` than `after`, in that order, until it returns
 * false. Entries whose time is over are included, with until_ms in the past: SMC-R is tried again
 * with them.
 * @return true: those were all
 */
bool failures_walk(struct failures *failures, uint64_t now_ms, uint64_t after,
		   bool (*fn)(void *arg, const struct failure *failure), void *arg);

/** The entry because of which `peer` with this port is left to TCP now for connections of `uid`: of
 * the port or of the whole peer, whichever lasts longer; NULL: none. Valid until the next call. */
const struct failure *failures_find(const struct failures *failures, uid_t uid,
				    const struct smcr_addr *peer, uint64_t now_ms);

/** "the first message over RoCE was not acknowledged" */
const char *failure_text(enum failure_kind kind);
/** A short stable name: "path", "link", "answer", "reset", "echo". */
const char *failure_name(enum failure_kind kind);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file witness.h
 * The situations that the observer has seen. A rule about a situation is proved only by runs in
 * which that situation came up. So main.c records a proof only for rules whose situation was seen.
 */
#ifndef SMCRD_TESTS_SIM_WITNESS_H
#define SMCRD_TESTS_SIM_WITNESS_H

#include <stdbool.h>
#include <stdint.h>

enum witness {
	SEEN_GROUP,     /* link groups made */
	SEEN_VERSION_1, /* of each version */
	SEEN_VERSION_2,
	SEEN_FIRST_CONTACT,
	SEEN_SUBSEQUENT,
	SEEN_DECLINE,
	SEEN_LATE_DECLINE, /* in the LLC phase of a first contact */
	SEEN_FALLBACK,     /* both ends of a connection on TCP */
	SEEN_REVERSED,     /* groups in both directions between two hosts */
	SEEN_TIMED_OUT,    /* a rendezvous that took too long */
	SEEN_EARLY,        /* data or a CDC before the receiver's gate was open */
	SEEN_LINK_ADDED,
	SEEN_LINK_REJECTED,
	SEEN_LINK_DELETED,
	SEEN_ASYMMETRIC,
	SEEN_CONT_MORE, /* ADD LINK CONTINUATION with more to come */
	SEEN_GROUP_DELETED,
	SEEN_CONFIRM_RKEY,
	SEEN_RKEY_MORE,    /* CONFIRM RKEY CONTINUATION */
	SEEN_RKEY_REFUSED, /* for a collision */
	SEEN_RKEY_OVERLAP, /* RKEY exchanges of both sides at once */
	SEEN_DELETE_RKEY,
	SEEN_TEST_LINK,
	SEEN_WRITE,
	SEEN_CDC,
	SEEN_WRAP,           /* a stream past the end of the element */
	SEEN_BLOCKED,        /* B */
	SEEN_URGENT,         /* U */
	SEEN_URGENT_PENDING, /* P without U */
	SEEN_UPDATE,         /* a CDC for the consumer cursor alone */
	SEEN_DONE,           /* D */
	SEEN_CLOSED,         /* C */
	SEEN_CROSSED_CLOSE,  /* C of both sides, neither knowing of the other's */
	SEEN_ABORT,          /* A */
	SEEN_CROSSED_ABORT,
	SEEN_REUSE,           /* an element given to another connection */
	SEEN_SETTLED,         /* groups that were watched strictly again after a failure */
	SEEN_NOTICE,          /* the client's ADD LINK */
	SEEN_DELETE_ASKED,    /* the client's DELETE LINK */
	SEEN_ASYMMETRIC_GONE, /* an asymmetric link deleted because a symmetric one is there */
	SEEN_MANY_LINKS,      /* groups of more than two */
	SEEN_MOVED,           /* connections moved off a sound link */
	SEEN_FAILOVER,        /* connections moved off a link that had failed */
	SEEN_DOUBLE_FAILOVER, /* connections moved again before the first move was over */
	SEEN_REPLAY,          /* WRITEs posted again on the next link */
	SEEN_LOST,            /* a CDC that was acknowledged and never came */
	SEEN_RESET,           /* established connections that ended in an error */
	SEEN_ADD_REFUSED,
	SEEN_EXCUSE,
	SEEN_LONG,
	SEEN_REPEATED,
	SEEN_PROOF,     /* full-size packets of a new link passed */
	SEEN_TOO_LARGE, /* full-size packets of a new link did not pass */
	SEEN_MANGLED,   /* messages changed, lost or doubled */
	NUM_WITNESSES,
};

struct witnesses {
	uint64_t count[NUM_WITNESSES];
};

/** Has everything been seen that a proof of this requirement needs? */
bool witness_of(const struct witnesses *seen, const char *id);
/** Name of a situation, for the event log. */
const char *witness_name(enum witness what);

#endif

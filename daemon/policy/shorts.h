/* SPDX-License-Identifier: MIT */
/**
 * @file shorts.h
 * Learns where connections are too short for SMC-R. Beginning and ending a connection costs several
 * times as much as with TCP, which pays off only if it carries enough data. This is learnt for each
 * TCP port of a peer that programs of this host connect to, and for each port of this host's own
 * servers.
 *
 * A place counts as short when its connections end at `rate` per second or more, measured over some
 * ten seconds, and nearly all of the last ones were short. From then on most of its connections are
 * left on TCP, except a sample. When the sample is not short any more, or the place has become
 * quiet, the place no longer counts as short.
 *
 * No clock and no I/O: the caller gives the time, in milliseconds.
 */
#ifndef SMCRD_POLICY_SHORTS_H
#define SMCRD_POLICY_SHORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/engine/engine.h"

/** How often to call shorts_look() while a place counts as short. */
#define SHORTS_LOOK_MS 10000

struct shorts_config {
	uint32_t rate;  /* connections per second; 0: nothing is learnt */
	uint32_t ms;    /* a short one ends within this time.. */
	uint64_t bytes; /* ..and has carried less than this, both ways together */
};

struct short_place {
	struct smcr_addr where; /* of a peer; family 0: a port of this host */
	bool is_short;          /* the place counts as short */
	double share;           /* which part of the last connections was short, 0..1 */
	double rate;            /* SMC-R connections that ended per second, over some ten seconds */
	uint64_t seen;          /* how many connections have ended */
	uint64_t since_ms;      /* is_short: since when */
	uint64_t order;         /* number of the place, counted from 1 */
};

struct shorts;

struct shorts *shorts_new(const struct shorts_config *config);
/**
 * Set what a short connection is from now on. With rate 0 everything is forgotten.
 * @param ended  called for each place that counted as short and is forgotten; may be NULL
 */
void shorts_configure(struct shorts *shorts, const struct shorts_config *config,
		      void (*ended)(void *arg, const struct short_place *place), void *arg);
/** NULL is allowed. */
void shorts_free(struct shorts *shorts);

enum shorts_change {
	SHORTS_SAME,
	SHORTS_BEGINS, /* the place counts as short from now on */
	SHORTS_ENDS,
};

/**
 * A connection over SMC-R has ended.
 * @param where      address and server port of the peer, or family 0 and the port of a listener of
 *                   this host
 * @param ret_place  the place as it is now; valid until the next call; NULL: none
 */
enum shorts_change shorts_note(struct shorts *shorts, const struct smcr_addr *where, uint64_t ms,
			       uint64_t bytes, uint64_t now_ms,
			       const struct short_place **ret_place);

/**
 * Check a place that counts as short again.
 * @param handshakes  how many connections to the place there were since it counts as short, those
 *                    left on TCP included
 * @return SHORTS_SAME, or SHORTS_ENDS: there are too few connections to matter
 */
enum shorts_change shorts_look(struct shorts *shorts, const struct smcr_addr *where,
			       uint64_t handshakes, uint64_t now_ms);

/**
 * Forget what is known.
 * @param where  family 0: a port of this host; port 0: all ports of the peer
 * @param ended  called for each place that counted as short; may be NULL
 * @return how many places were forgotten
 */
size_t shorts_forget(struct shorts *shorts, const struct smcr_addr *where,
		     void (*ended)(void *arg, const struct short_place *place), void *arg);

/**
 * Call `fn` for each place with a larger `order` than `after`, in the order in which they were
 * first seen, until it returns false. `fn` may call shorts_look() for the place.
 * @return true: those were all
 */
bool shorts_walk(const struct shorts *shorts, uint64_t now_ms, uint64_t after,
		 bool (*fn)(void *arg, const struct short_place *place), void *arg);

/** Does this place count as short? */
bool shorts_is_short(const struct shorts *shorts, const struct smcr_addr *where);

/** Is there a place that counts as short? */
bool shorts_any(const struct shorts *shorts);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file shorts.h
 * Where connections are too short for SMC-R: beginning and ending one costs several times what TCP
 * costs, and only what is carried in between pays for it. Learnt for each TCP port of a peer that
 * programs of this host connect to, and for each port of this host's own servers.
 *
 * A place counts as short when connections of it end at `rate` a second or more, taken over some
 * ten seconds, and of the last of them nearly all were short. Most are left on TCP from then on; a
 * sample is not, and when that has changed, or the place has become quiet, it counts no more.
 *
 * No clock and no I/O: the time is told, in milliseconds.
 */
#ifndef SMCRD_POLICY_SHORTS_H
#define SMCRD_POLICY_SHORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/engine/engine.h"

/** How often shorts_look() is due while there is a place that counts as short. */
#define SHORTS_LOOK_MS 10000

struct shorts_config {
	uint32_t rate;  /* connections a second; 0: nothing is learnt */
	uint32_t ms;    /* a short one ends within this time.. */
	uint64_t bytes; /* ..and has carried less than this, both ways together */
};

struct short_place {
	struct smcr_addr where; /* of a peer; family 0: a port of ours */
	bool is_short;          /* counts as short */
	double share;           /* of the last connections that were short, 0..1 */
	double rate;       /* connections of SMC-R that ended, a second, over some ten seconds */
	uint64_t seen;     /* connections that ended */
	uint64_t since_ms; /* is_short: since then */
	uint64_t order;    /* they are counted from 1 */
};

struct shorts;

struct shorts *shorts_new(const struct shorts_config *config);
/**
 * What a short connection is from here on. With rate 0 everything is forgotten.
 * @param ended  called for each place that counted as short and is forgotten; may be NULL
 */
void shorts_configure(struct shorts *shorts, const struct shorts_config *config,
		      void (*ended)(void *arg, const struct short_place *place), void *arg);
/** NULL is allowed. */
void shorts_free(struct shorts *shorts);

enum shorts_change {
	SHORTS_SAME,
	SHORTS_BEGINS, /* it counts as short from here on */
	SHORTS_ENDS,
};

/**
 * A connection over SMC-R has ended.
 * @param where      address and server port of the peer, or family 0 and the port of our listener
 * @param ret_place  what is known of the place now; valid until the next call; NULL: nothing
 */
enum shorts_change shorts_note(struct shorts *shorts, const struct smcr_addr *where, uint64_t ms,
			       uint64_t bytes, uint64_t now_ms,
			       const struct short_place **ret_place);

/**
 * A place that counts as short is looked at again.
 * @param handshakes  of connections to it since it counts, those left on TCP included
 * @return SHORTS_SAME, or SHORTS_ENDS: so few come that it does not matter
 */
enum shorts_change shorts_look(struct shorts *shorts, const struct smcr_addr *where,
			       uint64_t handshakes, uint64_t now_ms);

/**
 * Forget what is known.
 * @param where  family 0: a port of ours; port 0: all ports of the peer
 * @param ended  called for each that counted as short; may be NULL
 * @return how many places that were
 */
size_t shorts_forget(struct shorts *shorts, const struct smcr_addr *where,
		     void (*ended)(void *arg, const struct short_place *place), void *arg);

/**
 * Call `fn` for each place with a larger `order` than `after`, as they were first seen, until it
 * returns false. `fn` may call shorts_look() for it.
 * @return true: those were all
 */
bool shorts_walk(const struct shorts *shorts, uint64_t now_ms, uint64_t after,
		 bool (*fn)(void *arg, const struct short_place *place), void *arg);

/** Does this place count as short? */
bool shorts_is_short(const struct shorts *shorts, const struct smcr_addr *where);

/** Is there a place that counts as short? */
bool shorts_any(const struct shorts *shorts);

#endif

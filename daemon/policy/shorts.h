/* SPDX-License-Identifier: MIT */
/**
 * @file shorts.h
 * Learns where connections are too short for SMC-R. Beginning and ending a connection costs several
 * times as much as with TCP, which pays off only if it carries enough data. This is learnt for each
 * user and each TCP port of a peer that the user's programs connect to, and for each address and
 * port of a user's servers and each peer that connects there. So a user's short connections concern
 * that user only, and a peer's that peer only. Who has how many places is in kept.h; the one that
 * was unused for longest makes room, and first those that do not count as short.
 *
 * A place counts as short when its connections end at `rate` per second or more, measured over some
 * ten seconds, and nearly all of the last ones were short. From then on most of its connections are
 * left on TCP, except a sample. When the sample is not short any more, or the place has become
 * quiet, the place no longer counts as short.
 *
 * A server cannot tell the users of a peer's host apart. It acts only on SHORTS_OF_SERVER times as
 * many, so that a host that learns too has left the connections of the one user on TCP before. For
 * that both have to count the same connections together, hence the server's address.
 *
 * No clock and no I/O: the caller gives the time, in milliseconds.
 */
#ifndef SMCRD_POLICY_SHORTS_H
#define SMCRD_POLICY_SHORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/rendezvous/option.h"
#include "daemon/smcr/engine.h"

/** How often to call shorts_look() while a place counts as short. */
#define SHORTS_LOOK_MS 10000

/** How many times as many connections a server wants to see as a client, in a second and in a
 * row. */
#define SHORTS_OF_SERVER 4

struct shorts_config {
	uint32_t rate;  /* connections per second; 0: nothing is learnt */
	uint32_t ms;    /* a short one ends within this time.. */
	uint64_t bytes; /* ..and has carried less than this, both ways together */
};

struct short_place {
	struct rdv_place where;
	bool is_short;     /* the place counts as short */
	double share;      /* which part of the last connections was short, 0..1 */
	double rate;       /* SMC-R connections that ended per second, over some ten seconds */
	uint64_t seen;     /* how many connections have ended */
	uint64_t since_ms; /* is_short: since when */
	uint64_t order;    /* number of the place, counted from 1 */
};

struct shorts;

/**
 * @param ended  called for each place that counted as short and is forgotten, by whatever function
 *               but shorts_free(); may be NULL
 */
struct shorts *shorts_new(const struct shorts_config *config,
			  void (*ended)(void *arg, const struct short_place *place), void *arg);
/** Set what a short connection is from now on. With rate 0 everything is forgotten. */
void shorts_configure(struct shorts *shorts, const struct shorts_config *config);
/** NULL is allowed. */
void shorts_free(struct shorts *shorts);

enum shorts_change {
	SHORTS_SAME,
	SHORTS_BEGINS, /* the place counts as short from now on */
	SHORTS_ENDS,
};

/**
 * A connection over SMC-R has ended.
 * @param ret_place  the place as it is now; valid until the next call; NULL: none
 */
enum shorts_change shorts_note(struct shorts *shorts, const struct rdv_place *where, uint64_t ms,
			       uint64_t bytes, uint64_t now_ms,
			       const struct short_place **ret_place);

/**
 * Check a place that counts as short again.
 * @param handshakes  how many connections to the place there were since it counts as short, those
 *                    left on TCP included
 * @return SHORTS_SAME, or SHORTS_ENDS: there are too few connections to matter
 */
enum shorts_change shorts_look(struct shorts *shorts, const struct rdv_place *where,
			       uint64_t handshakes, uint64_t now_ms);

/**
 * Forget what is known, of all users.
 * @param where  a peer, and a port of it or of this host's servers, or (port 0) all; family 0: a
 *               port of this host's servers, for all peers
 * @return how many places were forgotten
 */
size_t shorts_forget(struct shorts *shorts, const struct smcr_addr *where);

/**
 * Call `fn` for each place with a larger `order` than `after`, in the order in which they were
 * first seen, until it returns false. `fn` may call shorts_look() for the place.
 * @return true: those were all
 */
bool shorts_walk(const struct shorts *shorts, uint64_t now_ms, uint64_t after,
		 bool (*fn)(void *arg, const struct short_place *place), void *arg);

/** Does this place count as short? */
bool shorts_is_short(const struct shorts *shorts, const struct rdv_place *where);

/** Is there a place that counts as short? */
bool shorts_any(const struct shorts *shorts);

#endif

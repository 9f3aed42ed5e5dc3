/* SPDX-License-Identifier: MIT */
/**
 * @file neigh_keeper.h
 * Which neighbour entries the kernel is to have for peers' RNICs, and which of them it may have.
 *
 * A MAC is what a peer says in a CLC or LLC message, or somebody who plays one; an entry counts for
 * all IP of the host. So what the host finds out by itself goes first:
 *  - An operator's entry (permanent, or "noarp") stays as it is.
 *  - A MAC becomes an entry when the kernel has found it reachable by itself, or when the host with
 *    that MAC has answered an ARP request for the address, sent to it alone. The kernel's own
 *    question does not do: of a host with two NICs on one network either may answer it, and RNICs
 *    need the right one. That is what the MAC in the message is for.
 *  - Where another MAC answers than the peer has named, the kernel's own entry is used: so it is
 *    right where ARP is answered by somebody else for a reason (clouds, proxy ARP). If the peer has
 *    lied, what is sent reaches who has the address, and the link is never confirmed.
 *  - Of two MACs that answer, the one that was there first stays as long as it answers: whoever
 *    names the other one does not speak for those who use the first.
 * Of IPv6 only the kernel asks, and not while an entry is permanent: there the MAC that was first
 * stays until nobody wants it any more.
 *
 * Calls to the kernel may block, as rtnetlink does while interfaces are changed; nothing waits for
 * the network. All functions belong to one thread.
 */
#ifndef SMCRD_HOST_NEIGH_KEEPER_H
#define SMCRD_HOST_NEIGH_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/host/neigh_entry.h"

struct neigh_keeper;

/** A MAC that was not believed. */
struct neigh_doubt {
	struct neigh_key key;
	uint8_t mac[6];
	bool other_known; /* the host uses this one instead; else it knows none */
	uint8_t other[6];
};

/** @param doubt  told once for each neigh_keeper_want(), about a second after it, or not at all
 *  @return 0 or a negative errno */
int neigh_keeper_new(void (*doubt)(void *ctx, const struct neigh_doubt *doubt), void *ctx,
		     struct neigh_keeper **ret_keeper);
/** Forgets all; the entries stay, for the next purge by anybody. NULL is none. */
void neigh_keeper_free(struct neigh_keeper *keeper);

/** This entry is wanted. Once more: begin anew, as the interface may have been down meanwhile.
 *  @param mac  zero: none is, but the kernel is to find out who has the address */
void neigh_keeper_want(struct neigh_keeper *keeper, const struct neigh_key *key,
		       const uint8_t mac[6]);
/** It is not any more: delete it if it is ours. One that an operator has put over ours is the
 *  operator's from then on, also by its protocol number. */
void neigh_keeper_release(struct neigh_keeper *keeper, const struct neigh_key *key,
			  const uint8_t mac[6]);
/** Delete what is not wanted and carries our protocol number; nothing while another keeper is there
 *  in the network namespace, in whatever process, as the entries may be its. */
void neigh_keeper_purge(struct neigh_keeper *keeper);

/** Look at the answers that have come, and at what is due. */
void neigh_keeper_work(struct neigh_keeper *keeper);
/** What becomes readable when there is work; -1: nothing. It changes with each call of the above.
 */
int neigh_keeper_fd(const struct neigh_keeper *keeper);
/** When there is work at the latest, in milliseconds of CLOCK_MONOTONIC; INT64_MAX: never. */
int64_t neigh_keeper_due(const struct neigh_keeper *keeper);
int64_t neigh_keeper_now(void);

enum neigh_way {
	NEIGH_NONE,  /* the kernel does not know who has the address */
	NEIGH_OTHER, /* it knows another MAC, and the one that is wanted may still answer */
	NEIGH_RIGHT, /* what is wanted, or what an operator or another user has made of it */
};

/** Which way the kernel knew for a wanted entry when it was last looked at. */
enum neigh_way neigh_keeper_way(const struct neigh_keeper *keeper, const struct neigh_key *key,
				const uint8_t mac[6]);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file neigh_keeper.h
 * Decides which neighbour entries for peers' RNICs may be written, and writes them.
 *
 * The MAC comes from a CLC or LLC message, so an attacker may have sent it, and an entry holds for
 * all IP traffic of the host. So what the host finds out by itself goes first:
 *  - An operator's entry (permanent, or "noarp") stays as it is.
 *  - A MAC becomes an entry when the kernel has found it reachable by itself, or when the host with
 *    that MAC has answered an ARP request that was sent to it alone. The kernel's own request is
 *    not enough: of a host with two NICs on one network either NIC may answer, and an RNIC needs
 *    the right one.
 *  - Where another MAC answers than the peer has named, the kernel's own entry is used. That is
 *    right where somebody else answers ARP for a reason (clouds, proxy ARP). If the peer has lied,
 *    packets reach the owner of the address, and the link is never confirmed.
 *  - Of two MACs that answer, the one whose entry was written first stays as long as it answers. A
 *    peer that names the other MAC must not disturb links that use the first.
 * For IPv6 only the kernel asks, and not while an entry is permanent. So there the first MAC stays
 * until nobody wants it any more.
 *
 * Calls to the kernel may block, as rtnetlink does while interfaces are changed. Nothing waits for
 * the network. All functions are for one thread.
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
	bool other_known; /* the host uses `other` instead; false: it knows no MAC */
	uint8_t other[6];
};

/** @param doubt  called at most once for each neigh_keeper_want(), about a second after it, if its
 *               MAC was not believed
 *  @return 0 or a negative errno */
int neigh_keeper_new(void (*doubt)(void *ctx, const struct neigh_doubt *doubt), void *ctx,
		     struct neigh_keeper **ret_keeper);
/** Free the keeper. Entries that it wrote stay, until some daemon's next purge. NULL is allowed. */
void neigh_keeper_free(struct neigh_keeper *keeper);

/** An entry is wanted. If it was wanted already, begin anew: the interface may have been down
 * meanwhile.
 * @param mac  zero: no entry is wanted, but the kernel is to look for the neighbour */
void neigh_keeper_want(struct neigh_keeper *keeper, const struct neigh_key *key,
		       const uint8_t mac[6]);
/** The entry is not wanted any more: delete it if the keeper wrote it. An entry that an operator
 * has put over the keeper's is the operator's from then on, also by its protocol number. */
void neigh_keeper_release(struct neigh_keeper *keeper, const struct neigh_key *key,
			  const uint8_t mac[6]);
/** Delete entries that carry NEIGH_PROTOCOL and that this keeper did not write. Nothing is deleted
 * while another process has a keeper in this network namespace, since the entries may be of that
 * one. */
void neigh_keeper_purge(struct neigh_keeper *keeper);

/** Handle ARP answers that have come, and entries that are due. */
void neigh_keeper_work(struct neigh_keeper *keeper);
/** A descriptor that is readable when there is work; -1: none. It may change with each call of the
 * functions above.
 */
int neigh_keeper_fd(const struct neigh_keeper *keeper);
/** When neigh_keeper_work() has to be called at the latest, in milliseconds of CLOCK_MONOTONIC;
 * INT64_MAX: never. */
int64_t neigh_keeper_due(const struct neigh_keeper *keeper);
int64_t neigh_keeper_now(void);

enum neigh_way {
	NEIGH_NONE,  /* the kernel has no MAC for the address */
	NEIGH_OTHER, /* the kernel has another MAC than the wanted one */
	NEIGH_RIGHT, /* the kernel has the wanted MAC, or an entry that smcrd must not change */
};

/** What the kernel had for a wanted entry when the keeper looked last. */
enum neigh_way neigh_keeper_way(const struct neigh_keeper *keeper, const struct neigh_key *key,
				const uint8_t mac[6]);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file neigh.h
 * Permanent neighbour entries for peers' RNICs: RFC 7609 gives their MACs (CLC-17), and what ARP
 * finds by itself may be another NIC of the peer. Each is counted.
 *
 * An entry counts for all IP of the host, and a MAC is what a peer says, or somebody who plays one.
 * So an entry is made only when the host with that MAC has answered ARP for the address; until then
 * the kernel's own entry leads to the peer. (Of IPv6, the kernel must have asked, and got the same
 * MAC.) Permanent entries of others are left as they are, and only what was written by us, and is
 * still as we wrote it, is deleted. Our entries carry a protocol number, by which those that an
 * earlier daemon has left are found and deleted, a second after the start.
 *
 * The kernel makes who changes entries wait for whoever changes any interface of the machine, so
 * that a thread of its own does it, in the order of the calls.
 *
 * All functions belong to the thread that made the table.
 */
#ifndef SMCRD_HOST_NEIGH_H
#define SMCRD_HOST_NEIGH_H

#include <stdbool.h>
#include <stdint.h>

/** Who made an entry, as `ip -d neigh` shows it ("proto 83"): no number that iproute2 has a name
 *  for. */
#define NEIGH_PROTOCOL 83

struct neigh_table;

/** An empty one, for the calling thread's network namespace. @return 0 or a negative errno */
int neigh_table_new(struct neigh_table **ret_table);
/** Remove all entries, and wait until they are gone. NULL is none. */
void neigh_table_free(struct neigh_table *table);

/** One user more of an entry, and the MAC that counts from now on, when it has been confirmed.
 *  `addr`: 4 or 16 bytes by `family`. @return 0 or -ENOMEM */
int neigh_set(struct neigh_table *table, unsigned int ifindex, int family, const void *addr,
	      const uint8_t mac[6]);
/** One user less; the last one takes the entry away. */
void neigh_unset(struct neigh_table *table, unsigned int ifindex, int family, const void *addr);
/** An interface that was down has lost its entries: make them again. */
void neigh_restore(struct neigh_table *table, unsigned int ifindex);
/** Wait until everything asked for has been tried once, at most 20 ms, and not again soon after
 * that took long. @return whether it has, and the kernel knows a MAC for what was asked for last,
 * by an entry of ours or by its own */
bool neigh_settle(struct neigh_table *table);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file neigh.h
 * Permanent neighbour entries for peers' RNICs: RFC 7609 gives their MACs (CLC-17), and what ARP
 * finds by itself may be another NIC of the peer. Each is counted. What a peer says is believed
 * only when the network says the same (neigh_keeper.h); until then, and else, the kernel's own
 * entry leads to the peer, so that nobody has to wait.
 *
 * An entry counts for all IP of the host. So permanent entries of others are left as they are, and
 * only what we wrote, and is still as we wrote it, is deleted. Our entries carry a protocol number,
 * by which those are found that a daemon left which was killed.
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

struct event_base;
struct neigh_table;

/** An empty one, for the calling thread's network namespace. The event loop writes to the log what
 *  was not believed. @return 0 or a negative errno */
int neigh_table_new(struct event_base *base, struct neigh_table **ret_table);
/** Remove all entries, and wait until they are gone. NULL is none. */
void neigh_table_free(struct neigh_table *table);

/** One user more of an entry, if the MAC is to be believed; zero: the kernel's own will do, and is
 *  looked for. `addr`: 4 or 16 bytes by `family`. @return 0 or -ENOMEM */
int neigh_set(struct neigh_table *table, unsigned int ifindex, int family, const void *addr,
	      const uint8_t mac[6]);
/** One user less; the last one takes the entry away. */
void neigh_unset(struct neigh_table *table, unsigned int ifindex, int family, const void *addr,
		 const uint8_t mac[6]);
/** An interface that was down has lost its entries: make them again. */
void neigh_restore(struct neigh_table *table, unsigned int ifindex);
/** Delete the entries of ours that this table did not make: of a daemon that was killed. While
 *  another daemon serves the network namespace nothing is deleted. @return 0 or -ENOMEM */
int neigh_purge(struct neigh_table *table);
/** Wait until the kernel has the right MAC for what was asked for last, by an entry of ours or by
 *  its own: at most 100 ms, and 5 ms for a while after that was too little.
 *  @return whether it has one, the right one or another */
bool neigh_settle(struct neigh_table *table);

#endif

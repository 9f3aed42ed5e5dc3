/* SPDX-License-Identifier: MIT */
/**
 * @file neigh.h
 * Permanent neighbour entries for peers' RNICs. CLC and LLC messages tell a peer's MAC (CLC-17);
 * ARP may find another NIC of the peer. Each entry counts its users. A MAC that a peer tells is
 * believed only if the network confirms it (neigh_keeper.h). Until then, and if it does not, the
 * kernel's own entry leads to the peer, so nothing has to wait.
 *
 * A neighbour entry holds for all IP traffic of the host. So permanent entries of others stay as
 * they are, and an entry of smcrd is deleted only if it still is as smcrd wrote it. Entries of
 * smcrd carry a protocol number, by which those that a killed daemon left are found.
 *
 * A process that changes an entry waits in the kernel while anybody changes an interface. So a
 * separate thread makes the changes, in the order of the calls.
 *
 * All functions belong to the thread that made the table.
 */
#ifndef SMCRD_HOST_NEIGH_H
#define SMCRD_HOST_NEIGH_H

#include <stdbool.h>
#include <stdint.h>

/** The number that marks entries of smcrd; `ip -d neigh` shows "proto 83". iproute2 has no name for
 * it. */
#define NEIGH_PROTOCOL 83

struct event_base;
struct neigh_table;

/** Make an empty table for the calling thread's network namespace. MACs that were not believed are
 * logged from the event loop. @return 0 or a negative errno */
int neigh_table_new(struct event_base *base, struct neigh_table **ret_table);
/** Remove all entries, and wait until they are gone. NULL is allowed. */
void neigh_table_free(struct neigh_table *table);

/** Add a user of an entry; the entry is made if the MAC can be believed. A zero MAC asks only that
 * the kernel finds the neighbour by itself. `addr` has 4 or 16 bytes, by `family`. @return 0 or
 * -ENOMEM */
int neigh_set(struct neigh_table *table, unsigned int ifindex, int family, const void *addr,
	      const uint8_t mac[6]);
/** Remove a user; the entry goes with the last one. */
void neigh_unset(struct neigh_table *table, unsigned int ifindex, int family, const void *addr,
		 const uint8_t mac[6]);
/** Make the entries of an interface again: they were lost if it was down. */
void neigh_restore(struct neigh_table *table, unsigned int ifindex);
/** Delete entries with NEIGH_PROTOCOL that this table did not make: a killed daemon left them.
 * No other daemon runs in the network namespace (daemon/rendezvous/sole.h). @return 0 or -ENOMEM */
int neigh_purge(struct neigh_table *table);
/** Wait until the kernel has the right MAC for the last neigh_set(), in an entry of smcrd's or its
 * own. Waits 100 ms at most, and 5 ms for a while after 100 ms were not enough.
 * @return true: the kernel has a MAC, be it the right one or another */
bool neigh_settle(struct neigh_table *table);

#endif

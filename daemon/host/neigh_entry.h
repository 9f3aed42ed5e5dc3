/* SPDX-License-Identifier: MIT */
/**
 * @file neigh_entry.h
 * Reads and changes single neighbour entries of the kernel by rtnetlink. Each call blocks until the
 * kernel has answered. `nl` is connected to NETLINK_ROUTE and used by the calling thread only.
 */
#ifndef SMCRD_HOST_NEIGH_ENTRY_H
#define SMCRD_HOST_NEIGH_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

struct nl_sock;

/** What names an entry. */
struct neigh_key {
	unsigned int ifindex;
	int family;       /* AF_INET or AF_INET6 */
	uint8_t addr[16]; /* the first 4 bytes, or all 16, in network byte order */
};

/** An entry as the kernel has it. */
struct neigh_entry {
	uint16_t state;   /* NUD_..; 0: there is no entry */
	uint8_t protocol; /* NDA_PROTOCOL: who made the entry */
	bool has_mac;
	uint8_t mac[6];
};

/** Read an entry. @return 0, also if there is none; or a negative code of libnl */
int neigh_entry_read(struct nl_sock *nl, const struct neigh_key *key,
		     struct neigh_entry *ret_entry);
/** Make a permanent entry. `replace`: in place of one that is there.
 * @return 0 or a negative code of libnl; -NLE_EXIST: there is an entry */
int neigh_entry_write(struct nl_sock *nl, const struct neigh_key *key, const uint8_t mac[6],
		      uint8_t protocol, bool replace);
/** Have the kernel look for the neighbour, as if it had to send a packet there. Does not wait for
 * the answer. @return 0 or a negative code of libnl */
int neigh_entry_resolve(struct nl_sock *nl, const struct neigh_key *key);
/** Delete an entry, whoever made it. @return 0 or a negative code of libnl */
int neigh_entry_delete(struct nl_sock *nl, const struct neigh_key *key);
/** Call `each` for all entries of both families; `each` must not use `nl`.
 *  @return 0 or a negative code of libnl */
int neigh_entry_each(struct nl_sock *nl,
		     void (*each)(void *ctx, const struct neigh_key *key,
				  const struct neigh_entry *entry),
		     void *ctx);

#endif

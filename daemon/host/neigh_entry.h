/* SPDX-License-Identifier: MIT */
/**
 * @file neigh_entry.h
 * Single neighbour entries of the kernel, read and changed by rtnetlink. Each call blocks until the
 * kernel has answered. `nl` is a socket of the calling thread's alone, connected to NETLINK_ROUTE.
 */
#ifndef SMCRD_HOST_NEIGH_ENTRY_H
#define SMCRD_HOST_NEIGH_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

struct nl_sock;

/** Which entry. */
struct neigh_key {
	unsigned int ifindex;
	int family;       /* AF_INET or AF_INET6 */
	uint8_t addr[16]; /* 4 bytes of it, or all, in network byte order */
};

/** What the kernel has. */
struct neigh_entry {
	uint16_t state;   /* NUD_.., 0: there is none */
	uint8_t protocol; /* who made it: NDA_PROTOCOL */
	bool has_mac;
	uint8_t mac[6];
};

/** Read one; none is not an error. @return 0 or a negative code of libnl */
int neigh_entry_read(struct nl_sock *nl, const struct neigh_key *key,
		     struct neigh_entry *ret_entry);
/** Make a permanent one, in place of any other if `replace`.
 *  @return 0 or a negative code of libnl; -NLE_EXIST: there is another one */
int neigh_entry_write(struct nl_sock *nl, const struct neigh_key *key, const uint8_t mac[6],
		      uint8_t protocol, bool replace);
/** Have the kernel find out who has the address, as if it had to send something there; the answer
 *  comes later. @return 0 or a negative code of libnl */
int neigh_entry_resolve(struct nl_sock *nl, const struct neigh_key *key);
/** Delete one, whoever made it. @return 0 or a negative code of libnl */
int neigh_entry_delete(struct nl_sock *nl, const struct neigh_key *key);
/** Call `each` for all entries of both families; it must not use `nl`.
 *  @return 0 or a negative code of libnl */
int neigh_entry_each(struct nl_sock *nl,
		     void (*each)(void *ctx, const struct neigh_key *key,
				  const struct neigh_entry *entry),
		     void *ctx);

#endif

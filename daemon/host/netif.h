/* SPDX-License-Identifier: MIT */
/**
 * @file netif.h
 * Network interfaces as the kernel has them (by libnl-3): list, addresses, changes, neighbour
 * entries.
 */
#ifndef SMCRD_HOST_NETIF_H
#define SMCRD_HOST_NETIF_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/rnic/rnic.h"

struct event_base;
struct netif_watch;

#define NETIF_MAX_ADDRS  64
#define NETIF_MAX_ADDRS6 64

/** An interface. If it was removed (`present` is false), only index and name are set. */
struct netif {
	unsigned int ifindex; /* never 0 */
	bool present;
	char name[IF_NAMESIZE];
	uint8_t mac[6];
	bool ethernet; /* ARPHRD_ETHER and not loopback */
	bool running;  /* administratively up, and has carrier */
	uint32_t mtu;
	uint16_t vlan;    /* VLAN id, or SMCR_NO_VLAN of engine.h */
	size_t num_addrs; /* IPv4; IPv6 below */
	struct {
		uint32_t addr; /* host byte order */
		uint8_t prefix_len;
	} addrs[NETIF_MAX_ADDRS];
	size_t num_addrs6;
	struct {
		uint8_t addr[16];
		uint8_t prefix_len;
	} addrs6[NETIF_MAX_ADDRS6];
};

/**
 * Subscribe to changes of interfaces and addresses. `on_change` runs from the event loop with the
 * interface's new state, once for each change, but not for interfaces that exist already. If the
 * kernel had to drop messages, everything is read again, and differences are announced.
 */
int netif_watch_new(struct event_base *base,
		    void (*on_change)(void *ctx, const struct netif *netif), void *ctx,
		    struct netif_watch **ret_watch);
void netif_watch_free(struct netif_watch *watch);

/** All interfaces, in the order of their indices. */
void netif_each(struct netif_watch *watch, void (*fn)(void *ctx, const struct netif *netif),
		void *ctx);
/** Find an interface by name. @return 0 or -ENODEV */
int netif_by_name(struct netif_watch *watch, const char *name, struct netif *ret_netif);

/** Delete neighbour entries that a killed daemon left: neigh_purge().
 *  @return 0 or -ENOMEM */
int netif_purge_neighbours(struct netif_watch *watch);

/** Neighbour entries for RNICs (neigh.h), with the watch as context. netif_watch_free() removes
 * entries that are left. */
extern const struct rnic_host_ops netif_rnic_host_ops;

#endif

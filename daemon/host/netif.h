/* SPDX-License-Identifier: MIT */
/**
 * @file netif.h
 * Network interfaces as the kernel knows them (libnl-3): list, addresses, changes, neighbour
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

/** An interface. Of one that has gone, only index and name are known. */
struct netif {
	unsigned int ifindex; /* never 0 */
	bool present;
	char name[IF_NAMESIZE];
	uint8_t mac[6];
	bool ethernet; /* ARPHRD_ETHER and not loopback */
	bool running;  /* administratively up and carrier */
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
 * Subscribe to link and address changes. `on_change` runs from the event loop with the interface's
 * new state, once for each change; interfaces that exist already are not announced. If the kernel
 * has to drop messages because we are slow, everything is read again, and what differs is
 * announced.
 */
int netif_watch_new(struct event_base *base,
		    void (*on_change)(void *ctx, const struct netif *netif), void *ctx,
		    struct netif_watch **ret_watch);
void netif_watch_free(struct netif_watch *watch);

/** All interfaces, in the order of their indices. */
void netif_each(struct netif_watch *watch, void (*fn)(void *ctx, const struct netif *netif),
		void *ctx);
/** One by name. @return 0 or -ENODEV */
int netif_by_name(struct netif_watch *watch, const char *name, struct netif *ret_netif);

/** Delete the neighbour entries that a daemon left which was killed: neigh_purge().
 *  @return 0 or -ENOMEM */
int netif_purge_neighbours(struct netif_watch *watch);

/** rnic_host_ops with the watch as context: neigh.h; entries that are left go with
 *  netif_watch_free(). */
extern const struct rnic_host_ops netif_rnic_host_ops;

#endif

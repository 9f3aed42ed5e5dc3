/* SPDX-License-Identifier: MIT */
/**
 * @file own.h
 * The addresses of this host. Connections of the host to itself stay TCP, because RDMA is no better
 * for them than the kernel's loopback. Follows the interfaces and tells the BPF programs.
 */
#ifndef SMCRD_POLICY_OWN_H
#define SMCRD_POLICY_OWN_H

#include "daemon/host/netif.h"
#include "daemon/rendezvous/option.h"

struct own_address {
	unsigned int ifindex;
	struct smcr_addr addr; /* port 0 */
};

/** All zero except `option` at first. An address may be listed for several interfaces. */
struct own {
	struct rdv_option *option; /* may be NULL */
	struct own_address *list;
	size_t num, room;
};

/** Take the present addresses of an interface: callback of netif_watch_new(), and of netif_each()
 * at the start. */
void own_netif(struct own *own, const struct netif *netif);

/** Is this an address of this host or a loopback address? The port does not matter. */
bool own_is(const struct own *own, const struct smcr_addr *addr);

void own_free(struct own *own);

#endif

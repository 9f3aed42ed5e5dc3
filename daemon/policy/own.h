/* SPDX-License-Identifier: MIT */
/**
 * @file own.h
 * This host's addresses: connections of the host to itself stay TCP, for RDMA to oneself gains
 * nothing over the kernel's loopback. Follows the interfaces and tells the BPF programs.
 */
#ifndef SMCRD_POLICY_OWN_H
#define SMCRD_POLICY_OWN_H

#include "daemon/host/netif.h"
#include "daemon/rendezvous/option.h"

struct own_address {
	unsigned int ifindex;
	struct smcr_addr addr; /* port 0 */
};

/** All zero but for `option` at first. An address may be there for more than one interface. */
struct own {
	struct rdv_option *option; /* may be NULL */
	struct own_address *list;
	size_t num, room;
};

/** An interface as it is now: netif_watch_new()'s callback, and netif_each()'s at the start. */
void own_netif(struct own *own, const struct netif *netif);

/** Is this an address of the host's, or a loopback address? The port does not matter. */
bool own_is(const struct own *own, const struct smcr_addr *addr);

void own_free(struct own *own);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file netdev.h
 * The network interface behind an RNIC, as netlink knows it in the calling thread's namespace.
 */
#ifndef SMCRD_RNIC_NETDEV_H
#define SMCRD_RNIC_NETDEV_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/rnic/rnic.h"

struct nl_sock;

#define RNIC_NETDEV_ADDRS 32

struct rnic_netdev {
	char name[IF_NAMESIZE];
	unsigned int ifindex;
	bool active; /* up, with carrier */
	bool loopback;
	uint32_t mtu;
	uint8_t mac[6];
	size_t num_addrs; /* IPv4 first */
	struct rnic_netdev_addr addrs[RNIC_NETDEV_ADDRS];
};

/**
 * Read an interface. `nl` is connected to NETLINK_ROUTE. May block while another process changes
 * any interface of the machine.
 * @return 0, -ENODEV or another errno
 */
int rnic_netdev_read(struct nl_sock *nl, unsigned int ifindex, struct rnic_netdev *ret_netdev);
/** The same by name and without blocking (from Linux 6.9 on); but `active` may be a second old. */
int rnic_netdev_look(const char *name, struct rnic_netdev *ret_netdev);

/** Write the addresses of the interface into `info`. */
void rnic_netdev_list_addrs(const struct rnic_netdev *netdev, struct rnic_info *info);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file testnet.h
 * Two network namespaces of this process, joined by a veth pair. They have no name and go away with
 * the process, however it ends. Needs root. Failures abort with a message.
 */
#ifndef SMCRD_TESTS_TESTNET_H
#define SMCRD_TESTS_TESTNET_H

/** Interfaces are "t0" with 10.77.0.1/24 in namespace 0 and "t1" with 10.77.0.2/24 in 1; `lo` is up
 *  in both. */
struct testnet {
	int ns[2];
};

/** Create them; the calling thread is in namespace 0 afterwards. */
void testnet_new(struct testnet *net, unsigned int mtu);
/** Put the calling thread into a namespace. */
void testnet_enter(const struct testnet *net, int which);
void testnet_free(struct testnet *net);

/* All of these act in the calling thread's namespace. */
void testnet_addr_add(const char *ifname, const char *addr_and_prefix);
void testnet_addr_delete(const char *ifname, const char *addr_and_prefix);
void testnet_link_up(const char *ifname, int up);
void testnet_link_mtu(const char *ifname, unsigned int mtu);
void testnet_link_delete(const char *ifname);
void testnet_link_rename(const char *ifname, const char *name);
/** Make a veth pair, `name0` in namespace 0 and `name1` in 1: a further pair, or "t0" and "t1"
 * again after one of them was deleted. The interfaces are down and have no addresses. Call this in
 * namespace 1. */
void testnet_veth_add(const struct testnet *net, const char *name0, const char *name1,
		      unsigned int mtu);
void testnet_bridge_add(const char *ifname);
/** Make an interface a port of a bridge, or take it out of its bridge (NULL). */
void testnet_link_master(const char *ifname, const char *bridge);
/** Add a VXLAN device. When it is up, the kernel has bound this UDP port. */
void testnet_vxlan_add(const char *ifname, unsigned int port);
/** Add a second interface on the same cable, with a MAC of its own. */
void testnet_macvlan_add(const char *ifname, const char *lower);
void testnet_link_set_mac(const char *ifname, const unsigned char mac[6]);
/** Add a permanent neighbour entry, as an administrator does. */
void testnet_neigh_add(const char *ifname, const char *addr, const unsigned char mac[6]);
/** MAC address of an interface. */
void testnet_link_mac(const char *ifname, unsigned char mac[6]);

#endif

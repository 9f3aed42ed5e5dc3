/* SPDX-License-Identifier: MIT */
#include "tests/lib/testnet.h"

#include <fcntl.h>
#include <linux/neighbour.h>
#include <net/if.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/link/bridge.h>
#include <netlink/route/link/macvlan.h>
#include <netlink/route/link/veth.h>
#include <netlink/route/link/vxlan.h>
#include <netlink/route/neighbour.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void must(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	fprintf(stderr, "testnet: %s failed (root is needed)\n", what);
	abort();
}

static struct nl_sock *netlink_open(void)
{
	struct nl_sock *nl = nl_socket_alloc();
	must(nl && nl_connect(nl, NETLINK_ROUTE) == 0, "netlink");
	return nl;
}

static struct rtnl_link *get_link(struct nl_sock *nl, const char *ifname)
{
	struct rtnl_link *link;
	must(rtnl_link_get_kernel(nl, 0, ifname, &link) == 0, ifname);
	return link;
}

static void change_link(const char *ifname, struct rtnl_link *change)
{
	struct nl_sock *nl = netlink_open();
	struct rtnl_link *link = get_link(nl, ifname);
	must(rtnl_link_change(nl, link, change, 0) == 0, "change link");
	rtnl_link_put(link);
	rtnl_link_put(change);
	nl_socket_free(nl);
}

void testnet_link_up(const char *ifname, int up)
{
	struct rtnl_link *change = rtnl_link_alloc();
	if (up)
		rtnl_link_set_flags(change, IFF_UP);
	else
		rtnl_link_unset_flags(change, IFF_UP);
	change_link(ifname, change);
}

void testnet_link_mtu(const char *ifname, unsigned int mtu)
{
	struct rtnl_link *change = rtnl_link_alloc();
	rtnl_link_set_mtu(change, mtu);
	change_link(ifname, change);
}

void testnet_link_rename(const char *ifname, const char *name)
{
	struct rtnl_link *change = rtnl_link_alloc();
	rtnl_link_set_name(change, name);
	change_link(ifname, change);
}

void testnet_link_master(const char *ifname, const char *bridge)
{
	struct rtnl_link *change = rtnl_link_alloc();
	rtnl_link_set_master(change, bridge ? (int)if_nametoindex(bridge) : 0);
	change_link(ifname, change);
}

void testnet_bridge_add(const char *ifname)
{
	struct nl_sock *nl = netlink_open();
	must(rtnl_link_bridge_add(nl, ifname) == 0, "add bridge");
	nl_socket_free(nl);
}

void testnet_link_delete(const char *ifname)
{
	struct nl_sock *nl = netlink_open();
	struct rtnl_link *link = get_link(nl, ifname);
	must(rtnl_link_delete(nl, link) == 0, "delete link");
	rtnl_link_put(link);
	nl_socket_free(nl);
}

void testnet_vxlan_add(const char *ifname, unsigned int port)
{
	struct nl_sock *nl = netlink_open();
	struct rtnl_link *link = rtnl_link_vxlan_alloc();
	rtnl_link_set_name(link, ifname);
	rtnl_link_vxlan_set_id(link, 1);
	rtnl_link_vxlan_set_port(link, port);
	must(rtnl_link_add(nl, link, NLM_F_CREATE | NLM_F_EXCL) == 0, "add vxlan");
	rtnl_link_put(link);
	nl_socket_free(nl);
}

void testnet_macvlan_add(const char *ifname, const char *lower)
{
	struct nl_sock *nl = netlink_open();
	struct rtnl_link *link = rtnl_link_macvlan_alloc();
	rtnl_link_set_name(link, ifname);
	rtnl_link_set_link(link, (int)if_nametoindex(lower));
	must(rtnl_link_add(nl, link, NLM_F_CREATE | NLM_F_EXCL) == 0, "add macvlan");
	rtnl_link_put(link);
	nl_socket_free(nl);
}

void testnet_link_set_mac(const char *ifname, const unsigned char mac[6])
{
	struct rtnl_link *change = rtnl_link_alloc();
	struct nl_addr *addr = nl_addr_build(AF_LLC, mac, 6);
	rtnl_link_set_addr(change, addr);
	nl_addr_put(addr);
	change_link(ifname, change);
}

void testnet_neigh_add(const char *ifname, const char *addr, const unsigned char mac[6])
{
	struct nl_sock *nl = netlink_open();
	struct rtnl_neigh *neigh = rtnl_neigh_alloc();
	struct nl_addr *dst, *lladdr = nl_addr_build(AF_LLC, mac, 6);
	must(nl_addr_parse(addr, AF_INET, &dst) == 0, addr);
	rtnl_neigh_set_ifindex(neigh, (int)if_nametoindex(ifname));
	rtnl_neigh_set_dst(neigh, dst);
	rtnl_neigh_set_lladdr(neigh, lladdr);
	rtnl_neigh_set_state(neigh, NUD_PERMANENT);
	must(rtnl_neigh_add(nl, neigh, NLM_F_CREATE | NLM_F_REPLACE) == 0, "add neighbour");
	rtnl_neigh_put(neigh);
	nl_addr_put(dst);
	nl_addr_put(lladdr);
	nl_socket_free(nl);
}

void testnet_link_mac(const char *ifname, unsigned char mac[6])
{
	struct nl_sock *nl = netlink_open();
	struct rtnl_link *link = get_link(nl, ifname);
	memcpy(mac, nl_addr_get_binary_addr(rtnl_link_get_addr(link)), 6);
	rtnl_link_put(link);
	nl_socket_free(nl);
}

static void change_addr(const char *ifname, const char *text,
			int (*change)(struct nl_sock *, struct rtnl_addr *, int))
{
	struct nl_sock *nl = netlink_open();
	struct nl_addr *local;
	must(nl_addr_parse(text, AF_UNSPEC, &local) == 0, text);
	struct rtnl_addr *addr = rtnl_addr_alloc();
	rtnl_addr_set_ifindex(addr, (int)if_nametoindex(ifname));
	rtnl_addr_set_local(addr, local);
	must(change(nl, addr, 0) == 0, "change address");
	rtnl_addr_put(addr);
	nl_addr_put(local);
	nl_socket_free(nl);
}

void testnet_addr_add(const char *ifname, const char *addr_and_prefix)
{
	change_addr(ifname, addr_and_prefix, rtnl_addr_add);
}

void testnet_addr_delete(const char *ifname, const char *addr_and_prefix)
{
	change_addr(ifname, addr_and_prefix, rtnl_addr_delete);
}

static int new_namespace(void)
{
	must(unshare(CLONE_NEWNET) == 0, "unshare");
	int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	must(fd >= 0, "/proc/thread-self/ns/net");
	testnet_link_up("lo", 1);
	return fd;
}

void testnet_veth_add(const struct testnet *net, const char *name0, const char *name1,
		      unsigned int mtu)
{
	struct nl_sock *nl = netlink_open();
	struct rtnl_link *link = rtnl_link_veth_alloc();
	struct rtnl_link *peer = rtnl_link_veth_get_peer(link);
	rtnl_link_set_name(link, name1);
	rtnl_link_set_mtu(link, mtu);
	rtnl_link_set_name(peer, name0);
	rtnl_link_set_mtu(peer, mtu);
	rtnl_link_set_ns_fd(peer, net->ns[0]);
	must(rtnl_link_add(nl, link, NLM_F_CREATE | NLM_F_EXCL) == 0, "add veth");
	rtnl_link_put(peer);
	rtnl_link_put(link);
	nl_socket_free(nl);
}

void testnet_new(struct testnet *net, unsigned int mtu)
{
	net->ns[0] = new_namespace();
	net->ns[1] = new_namespace();
	testnet_veth_add(net, "t0", "t1", mtu);
	testnet_addr_add("t1", "10.77.0.2/24");
	testnet_link_up("t1", 1);
	testnet_enter(net, 0);
	testnet_addr_add("t0", "10.77.0.1/24");
	testnet_link_up("t0", 1);
}

void testnet_enter(const struct testnet *net, int which)
{
	must(setns(net->ns[which], CLONE_NEWNET) == 0, "setns");
}

void testnet_free(struct testnet *net)
{
	close(net->ns[0]);
	close(net->ns[1]);
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <string.h>

#include "daemon/rnic/soft/internal.h"

/* libnl's error codes as errnos, as far as they matter here. */
static int from_nl(int error)
{
	switch (-error) {
	case NLE_NODEV:
	case NLE_OBJ_NOTFOUND: return -ENODEV;
	case NLE_NOMEM: return -ENOMEM;
	case NLE_PERM:
	case NLE_NOACCESS: return -EPERM;
	default: return -EIO;
	}
}

static int read_link(struct nl_sock *nl, const char *name, unsigned int ifindex,
		     struct soft_netif *netif)
{
	struct rtnl_link *link = NULL;
	int r = rtnl_link_get_kernel(nl, (int)ifindex, name, &link);
	if (r < 0)
		return from_nl(r);
	unsigned int flags = rtnl_link_get_flags(link);
	strncpy(netif->name, rtnl_link_get_name(link), sizeof(netif->name) - 1);
	netif->ifindex = (unsigned int)rtnl_link_get_ifindex(link);
	/* Carrier as it is now: the kernel may be late with IFF_RUNNING. */
	netif->active = (flags & IFF_UP) && (flags & IFF_RUNNING) && rtnl_link_get_carrier(link);
	netif->loopback = flags & IFF_LOOPBACK;
	netif->mtu = rtnl_link_get_mtu(link);
	struct nl_addr *mac = rtnl_link_get_addr(link);
	if (mac && nl_addr_get_len(mac) == sizeof(netif->mac))
		memcpy(netif->mac, nl_addr_get_binary_addr(mac), sizeof(netif->mac));
	rtnl_link_put(link);
	return 0;
}

static void add_addr(struct nl_object *object, void *arg)
{
	struct soft_netif *netif = arg;
	struct rtnl_addr *addr = (struct rtnl_addr *)object;
	struct nl_addr *local = rtnl_addr_get_local(addr);
	if (!local || rtnl_addr_get_family(addr) != AF_INET ||
	    rtnl_addr_get_ifindex(addr) != (int)netif->ifindex ||
	    netif->num_addrs == RNIC_MAX_GIDS || nl_addr_get_len(local) != sizeof(struct in_addr))
		return;
	memcpy(&netif->addrs[netif->num_addrs].addr, nl_addr_get_binary_addr(local),
	       sizeof(struct in_addr));
	netif->addrs[netif->num_addrs].prefix_len = (uint8_t)rtnl_addr_get_prefixlen(addr);
	netif->num_addrs++;
}

int soft_netif_read(struct nl_sock *nl, const char *name, unsigned int ifindex,
		    struct soft_netif *ret_netif)
{
	struct soft_netif netif = { 0 };
	int r = read_link(nl, name, ifindex, &netif);
	if (r)
		return r;
	struct nl_cache *addrs = NULL;
	r = rtnl_addr_alloc_cache(nl, &addrs);
	if (r < 0)
		return from_nl(r);
	nl_cache_foreach(addrs, add_addr, &netif);
	nl_cache_free(addrs);
	*ret_netif = netif;
	return 0;
}

/* SPDX-License-Identifier: MIT */
#include "daemon/rnic/netdev.h"

#include <errno.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Converts those error codes of libnl that matter here to errnos. */
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

static int read_link(struct nl_sock *nl, unsigned int ifindex, struct rnic_netdev *netdev)
{
	struct rtnl_link *link = NULL;
	int r = rtnl_link_get_kernel(nl, (int)ifindex, NULL, &link);
	if (r < 0)
		return from_nl(r);
	unsigned int flags = rtnl_link_get_flags(link);
	strncpy(netdev->name, rtnl_link_get_name(link), sizeof(netdev->name) - 1);
	netdev->ifindex = (unsigned int)rtnl_link_get_ifindex(link);
	/* The present carrier: the kernel may be late with IFF_RUNNING. */
	netdev->active = (flags & IFF_UP) && (flags & IFF_RUNNING) && rtnl_link_get_carrier(link);
	netdev->loopback = flags & IFF_LOOPBACK;
	netdev->mtu = rtnl_link_get_mtu(link);
	struct nl_addr *mac = rtnl_link_get_addr(link);
	if (mac && nl_addr_get_len(mac) == sizeof(netdev->mac))
		memcpy(netdev->mac, nl_addr_get_binary_addr(mac), sizeof(netdev->mac));
	rtnl_link_put(link);
	return 0;
}

struct addr_search {
	struct rnic_netdev *netdev;
	int family;
};

static void add_addr(struct nl_object *object, void *arg)
{
	const struct addr_search *search = arg;
	struct rnic_netdev *netdev = search->netdev;
	struct rtnl_addr *addr = (struct rtnl_addr *)object;
	struct nl_addr *local = rtnl_addr_get_local(addr);
	if (!local || rtnl_addr_get_family(addr) != search->family ||
	    rtnl_addr_get_ifindex(addr) != (int)netdev->ifindex ||
	    netdev->num_addrs == RNIC_NETDEV_ADDRS ||
	    nl_addr_get_len(local) != (search->family == AF_INET ? 4 : 16))
		return;
	struct rnic_netdev_addr *to = &netdev->addrs[netdev->num_addrs++];
	to->family = (uint8_t)search->family;
	memcpy(to->addr, nl_addr_get_binary_addr(local), nl_addr_get_len(local));
	to->prefix_len = (uint8_t)rtnl_addr_get_prefixlen(addr);
}

static int read_addrs(struct nl_sock *nl, struct rnic_netdev *netdev)
{
	struct nl_cache *addrs = NULL;
	int r = rtnl_addr_alloc_cache(nl, &addrs);
	if (r < 0)
		return from_nl(r);
	nl_cache_foreach(addrs, add_addr, &(struct addr_search){ netdev, AF_INET });
	nl_cache_foreach(addrs, add_addr, &(struct addr_search){ netdev, AF_INET6 });
	nl_cache_free(addrs);
	return 0;
}

int rnic_netdev_read(struct nl_sock *nl, unsigned int ifindex, struct rnic_netdev *ret_netdev)
{
	struct rnic_netdev netdev = { 0 };
	int r = read_link(nl, ifindex, &netdev);
	if (!r)
		r = read_addrs(nl, &netdev);
	if (!r)
		*ret_netdev = netdev;
	return r;
}

/* These requests do not take the kernel's lock of interfaces. */
static int look_at_link(int fd, const char *name, struct rnic_netdev *netdev)
{
	struct ifreq ifr = { 0 };
	strncpy(ifr.ifr_name, name, sizeof(ifr.ifr_name) - 1);
	memcpy(netdev->name, ifr.ifr_name, sizeof(netdev->name));
	if (strlen(name) >= sizeof(netdev->name) || ioctl(fd, SIOCGIFINDEX, &ifr))
		return -ENODEV;
	netdev->ifindex = (unsigned int)ifr.ifr_ifindex;
	if (ioctl(fd, SIOCGIFFLAGS, &ifr))
		return -errno;
	netdev->active = (ifr.ifr_flags & IFF_UP) && (ifr.ifr_flags & IFF_RUNNING);
	netdev->loopback = ifr.ifr_flags & IFF_LOOPBACK;
	if (ioctl(fd, SIOCGIFMTU, &ifr))
		return -errno;
	netdev->mtu = (uint32_t)ifr.ifr_mtu;
	if (ioctl(fd, SIOCGIFHWADDR, &ifr))
		return -errno;
	memcpy(netdev->mac, ifr.ifr_hwaddr.sa_data, sizeof(netdev->mac));
	return 0;
}

int rnic_netdev_look(const char *name, struct rnic_netdev *ret_netdev)
{
	struct rnic_netdev netdev = { 0 };
	struct nl_sock *nl = nl_socket_alloc();
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int r = fd < 0 ? -errno : 0;
	if (!r && !nl)
		r = -ENOMEM;
	if (!r && nl_connect(nl, NETLINK_ROUTE) < 0)
		r = -EIO;
	if (!r)
		r = look_at_link(fd, name, &netdev);
	if (!r)
		r = read_addrs(nl, &netdev);
	if (!r)
		*ret_netdev = netdev;
	if (fd >= 0)
		close(fd);
	nl_socket_free(nl);
	return r;
}

static bool link_local(const struct rnic_netdev_addr *addr)
{
	return addr->family == AF_INET6 && addr->addr[0] == 0xFE && (addr->addr[1] & 0xC0) == 0x80;
}

void rnic_netdev_list_addrs(const struct rnic_netdev *netdev, struct rnic_info *info)
{
	info->num_addrs = 0;
	for (size_t i = 0; i < netdev->num_addrs && info->num_addrs < RNIC_MAX_ADDRS; i++)
		if (!link_local(&netdev->addrs[i]))
			info->addrs[info->num_addrs++] = netdev->addrs[i];
}

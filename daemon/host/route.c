/* SPDX-License-Identifier: MIT */
#include "daemon/host/route.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <netlink/netlink.h>
#include <netlink/route/nexthop.h>
#include <netlink/route/route.h>
#include <string.h>
#include <sys/socket.h>

static int errno_of(int error)
{
	switch (-error) {
	case NLE_NOMEM: return -ENOMEM;
	case NLE_PERM: return -EPERM;
	case NLE_BAD_SOCK: return -EIO;
	default: return -ENETUNREACH; /* libnl has no code for that */
	}
}

/* A route of several ways has been decided on: the answer has one. */
static int read_route(struct rtnl_route *found, size_t addr_len, struct route *ret_route)
{
	struct rtnl_nexthop *hop = rtnl_route_nexthop_n(found, 0);
	const struct nl_addr *source = rtnl_route_get_pref_src(found);
	if (!hop || !source || nl_addr_get_len(source) != addr_len)
		return -ENETUNREACH;
	*ret_route = (struct route){ .ifindex = (unsigned int)rtnl_route_nh_get_ifindex(hop),
				     .own = rtnl_route_get_type(found) == RTN_LOCAL };
	memcpy(ret_route->source, nl_addr_get_binary_addr(source), addr_len);
	return 0;
}

int route_find(int family, const void *addr, struct route *ret_route)
{
	const size_t addr_len = family == AF_INET ? 4 : 16;
	struct rtnl_route *found = NULL;
	struct nl_sock *nl = nl_socket_alloc();
	struct nl_addr *to = nl_addr_build(family, addr, addr_len);
	int r = nl && to ? nl_connect(nl, NETLINK_ROUTE) : -NLE_NOMEM;
	if (r >= 0)
		r = rtnl_route_lookup(nl, to, &found);
	r = r < 0 ? errno_of(r) : read_route(found, addr_len, ret_route);
	if (found)
		rtnl_route_put(found);
	if (to)
		nl_addr_put(to);
	nl_socket_free(nl);
	return r;
}

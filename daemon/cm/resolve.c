/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#include "daemon/cm/internal.h"
#include "daemon/host/route.h"

/* Does the route lead through the RNIC? To an address of this host it leads through the loopback
 * interface: then the RNIC is the one that has the address. */
static bool leads_through(const struct rnic_info *info, const struct route *route,
			  const struct cm_addr *peer)
{
	return route->own ? cm_gid_index(info, peer) >= 0 : info->ifindex == route->ifindex;
}

/* The own address towards the peer: the route's, if the RNIC has it, else the first one. */
static bool choose_address(const struct rnic_info *info, const struct route *route,
			   struct cm_addr *local)
{
	memcpy(local->addr, route->source, sizeof(local->addr));
	if (cm_gid_index(info, local) >= 0)
		return true;
	for (size_t i = 0; i < info->num_gids; i++) {
		struct cm_addr other = { 0 };
		cm_addr_from_gid(info->gids[i].raw, &other);
		if (other.family != local->family)
			continue;
		*local = other;
		return true;
	}
	return false;
}

static int say(int error, const struct cm_addr *peer, const char *why, char *ret_error)
{
	char text[CM_ADDR_LEN];
	snprintf(ret_error, CM_ERROR_LEN, "no way to %s for RDMA: %s", cm_addr_text(peer, text),
		 why);
	return error;
}

int cm_resolve(struct cm *cm, const struct cm_addr *peer, struct rnic **ret_rnic,
	       struct cm_addr *ret_local, char ret_error[CM_ERROR_LEN])
{
	struct route route;
	struct cm_port *port;
	if (peer->family != AF_INET && peer->family != AF_INET6)
		return say(-EAFNOSUPPORT, peer, "not an IP address", ret_error);
	int error = route_find(peer->family, peer->addr, &route);
	if (error)
		return say(error, peer,
			   error == -ENETUNREACH ? "the host has no route" : strerror(-error),
			   ret_error);
	DL_FOREACH (cm->ports, port) {
		struct rnic_info info;
		struct cm_addr local = { .family = peer->family };
		rnic_get_info(port->rnic, &info);
		if (!leads_through(&info, &route, peer) || !choose_address(&info, &route, &local))
			continue;
		if (!cm_may_use(port, &local, peer))
			return say(-EACCES, peer, "a rule denies it", ret_error);
		if (info.state != RNIC_PORT_ACTIVE)
			return say(-ENETUNREACH, peer, info.down ? info.down : "its RNIC is down",
				   ret_error);
		*ret_rnic = port->rnic;
		*ret_local = local;
		return 0;
	}
	return say(-ENETUNREACH, peer, "the host's route does not lead through an RNIC in use",
		   ret_error);
}

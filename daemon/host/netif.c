/* SPDX-License-Identifier: MIT */
#include "daemon/host/netif.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <linux/if_arp.h>
#include <netlink/cache.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/link/vlan.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <utlist.h>

#include "daemon/host/log.h"
#include "daemon/host/neigh.h"
#include "daemon/smcr/engine.h"

#define RECEIVE_BUFFER (256 << 10)
/* The queue may overflow again while it is being emptied. After so many times there is no point in
 * going on. */
#define MAX_OVERRUNS 100

struct netif_watch {
	struct nl_cache_mngr *manager;
	struct nl_sock *sock;           /* for requests to read everything again */
	struct nl_cache *links, *addrs; /* owned by the manager */
	struct event *event;
	void (*on_change)(void *ctx, const struct netif *netif);
	void *ctx;
	struct neigh_table *neighs;
};

struct addr_collector {
	struct netif *netif;
};

static void collect_ipv4(struct netif *netif, const void *addr, uint8_t prefix_len)
{
	uint32_t be;
	if (netif->num_addrs == NETIF_MAX_ADDRS)
		return;
	memcpy(&be, addr, 4);
	netif->addrs[netif->num_addrs].addr = ntohl(be);
	netif->addrs[netif->num_addrs++].prefix_len = prefix_len;
}

static void collect_ipv6(struct netif *netif, const void *addr, uint8_t prefix_len)
{
	if (netif->num_addrs6 == NETIF_MAX_ADDRS6)
		return;
	memcpy(netif->addrs6[netif->num_addrs6].addr, addr, 16);
	netif->addrs6[netif->num_addrs6++].prefix_len = prefix_len;
}

static void collect_addr(struct nl_object *object, void *arg)
{
	struct netif *netif = ((struct addr_collector *)arg)->netif;
	struct rtnl_addr *addr = (struct rtnl_addr *)object;
	struct nl_addr *local = rtnl_addr_get_local(addr);
	if (!local || (unsigned int)rtnl_addr_get_ifindex(addr) != netif->ifindex)
		return;
	int family = rtnl_addr_get_family(addr);
	uint8_t prefix_len = (uint8_t)rtnl_addr_get_prefixlen(addr);
	if (family == AF_INET && nl_addr_get_len(local) == 4)
		collect_ipv4(netif, nl_addr_get_binary_addr(local), prefix_len);
	else if (family == AF_INET6 && nl_addr_get_len(local) == 16)
		collect_ipv6(netif, nl_addr_get_binary_addr(local), prefix_len);
}

static void fill(struct netif_watch *watch, struct rtnl_link *link, struct netif *ret)
{
	*ret = (struct netif){ .ifindex = (unsigned int)rtnl_link_get_ifindex(link),
			       .present = true,
			       .mtu = rtnl_link_get_mtu(link),
			       .vlan = SMCR_NO_VLAN };
	const char *name = rtnl_link_get_name(link);
	strncpy(ret->name, name ? name : "", sizeof(ret->name) - 1);
	unsigned int flags = rtnl_link_get_flags(link);
	struct nl_addr *mac = rtnl_link_get_addr(link);
	if (mac && nl_addr_get_len(mac) == sizeof(ret->mac))
		memcpy(ret->mac, nl_addr_get_binary_addr(mac), sizeof(ret->mac));
	ret->ethernet = rtnl_link_get_arptype(link) == ARPHRD_ETHER && !(flags & IFF_LOOPBACK);
	ret->running = (flags & IFF_UP) && (flags & IFF_RUNNING);
	if (rtnl_link_is_vlan(link))
		ret->vlan = (uint16_t)rtnl_link_vlan_get_id(link);
	struct addr_collector collector = { ret };
	nl_cache_foreach(watch->addrs, collect_addr, &collector);
}

/* An interface that is a bridge's port is in the cache a second time, with fewer attributes; that
 * object does not count. */
static bool is_interface(struct nl_object *object)
{
	return rtnl_link_get_family((struct rtnl_link *)object) == AF_UNSPEC;
}

struct link_search {
	int ifindex;
	const char *name; /* NULL: search by index */
	struct rtnl_link *found;
};

static void match_link(struct nl_object *object, void *arg)
{
	struct link_search *search = arg;
	struct rtnl_link *link = (struct rtnl_link *)object;
	const char *name = rtnl_link_get_name(link);
	if (is_interface(object) && (search->name ? name && !strcmp(name, search->name)
						  : rtnl_link_get_ifindex(link) == search->ifindex))
		search->found = link;
}

/* Announce an interface after a change of itself or its addresses. link_changed() announces
 * removals. */
static void announce(struct netif_watch *watch, int ifindex)
{
	struct link_search search = { .ifindex = ifindex };
	struct netif netif;
	nl_cache_foreach(watch->links, match_link, &search);
	if (!search.found)
		return;
	fill(watch, search.found, &netif);
	watch->on_change(watch->ctx, &netif);
}

static void link_changed(struct nl_cache *cache, struct nl_object *object, int action, void *arg)
{
	struct netif_watch *watch = arg;
	struct rtnl_link *link = (struct rtnl_link *)object;
	(void)cache;
	if (!is_interface(object))
		return;
	if (action != NL_ACT_DEL) {
		/* Even if it was up before and is up now: it may have been down in between. */
		neigh_restore(watch->neighs, (unsigned int)rtnl_link_get_ifindex(link));
		announce(watch, rtnl_link_get_ifindex(link));
		return;
	}
	struct netif gone = { .ifindex = (unsigned int)rtnl_link_get_ifindex(link),
			      .vlan = SMCR_NO_VLAN };
	const char *name = rtnl_link_get_name(link);
	strncpy(gone.name, name ? name : "", sizeof(gone.name) - 1);
	watch->on_change(watch->ctx, &gone);
}

static void addr_changed(struct nl_cache *cache, struct nl_object *object, int action, void *arg)
{
	(void)cache;
	(void)action;
	announce(arg, rtnl_addr_get_ifindex((struct rtnl_addr *)object));
}

/* Messages were lost. First take those that are still queued: they are older than what is read
 * then. */
static void read_again(struct netif_watch *watch)
{
	log_message(LOG_NOTICE,
		    "too many changes of network interfaces at once: reading them again");
	for (int i = 0; i < MAX_OVERRUNS && nl_cache_mngr_data_ready(watch->manager) < 0; i++)
		;
	nl_cache_resync(watch->sock, watch->links, link_changed, watch);
	nl_cache_resync(watch->sock, watch->addrs, addr_changed, watch);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct netif_watch *watch = arg;
	(void)fd;
	(void)what;
	if (nl_cache_mngr_data_ready(watch->manager) < 0)
		read_again(watch);
}

/* Make room for the changes of a host that starts or stops many containers at once. */
static void enlarge_buffer(int fd)
{
	int size = RECEIVE_BUFFER;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
}

static int watch_init(struct netif_watch *watch, struct event_base *base)
{
	watch->sock = nl_socket_alloc();
	if (!watch->sock || nl_connect(watch->sock, NETLINK_ROUTE) < 0)
		return -EIO;
	/* Without NL_AUTO_PROVIDE: the caches are for this thread alone. */
	if (nl_cache_mngr_alloc(NULL, NETLINK_ROUTE, 0, &watch->manager) < 0)
		return -EIO;
	if (nl_cache_mngr_add(watch->manager, "route/link", link_changed, watch, &watch->links) <
		    0 ||
	    nl_cache_mngr_add(watch->manager, "route/addr", addr_changed, watch, &watch->addrs) < 0)
		return -EIO;
	enlarge_buffer(nl_cache_mngr_get_fd(watch->manager));
	watch->event = event_new(base, nl_cache_mngr_get_fd(watch->manager), EV_READ | EV_PERSIST,
				 on_readable, watch);
	if (!watch->event || event_add(watch->event, NULL))
		return -ENOMEM;
	return neigh_table_new(base, &watch->neighs);
}

int netif_watch_new(struct event_base *base,
		    void (*on_change)(void *ctx, const struct netif *netif), void *ctx,
		    struct netif_watch **ret_watch)
{
	struct netif_watch *watch = calloc(1, sizeof(*watch));
	if (!watch)
		return -ENOMEM;
	watch->on_change = on_change;
	watch->ctx = ctx;
	int error = watch_init(watch, base);
	if (error) {
		netif_watch_free(watch);
		return error;
	}
	*ret_watch = watch;
	return 0;
}

static int set(void *ctx, unsigned int ifindex, int family, const void *addr, const uint8_t mac[6])
{
	struct netif_watch *watch = ctx;
	return neigh_set(watch->neighs, ifindex, family, addr, mac);
}

static void unset(void *ctx, unsigned int ifindex, int family, const void *addr,
		  const uint8_t mac[6])
{
	struct netif_watch *watch = ctx;
	neigh_unset(watch->neighs, ifindex, family, addr, mac);
}

int netif_purge_neighbours(struct netif_watch *watch)
{
	return neigh_purge(watch->neighs);
}

static bool settle(void *ctx)
{
	struct netif_watch *watch = ctx;
	return neigh_settle(watch->neighs);
}

const struct rnic_host_ops netif_rnic_host_ops = { set, unset, settle };

void netif_watch_free(struct netif_watch *watch)
{
	if (!watch)
		return;
	neigh_table_free(watch->neighs);
	if (watch->event)
		event_free(watch->event);
	if (watch->manager)
		nl_cache_mngr_free(watch->manager);
	nl_socket_free(watch->sock);
	free(watch);
}

struct each_context {
	struct netif_watch *watch;
	void (*fn)(void *ctx, const struct netif *netif);
	void *ctx;
};

static void each_link(struct nl_object *object, void *arg)
{
	struct each_context *each = arg;
	struct netif netif;
	if (!is_interface(object))
		return;
	fill(each->watch, (struct rtnl_link *)object, &netif);
	each->fn(each->ctx, &netif);
}

void netif_each(struct netif_watch *watch, void (*fn)(void *ctx, const struct netif *netif),
		void *ctx)
{
	struct each_context each = { watch, fn, ctx };
	nl_cache_foreach(watch->links, each_link, &each);
}

int netif_by_name(struct netif_watch *watch, const char *name, struct netif *ret_netif)
{
	struct link_search search = { .name = name };
	nl_cache_foreach(watch->links, match_link, &search);
	if (!search.found)
		return -ENODEV;
	fill(watch, search.found, ret_netif);
	return 0;
}

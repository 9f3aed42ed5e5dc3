/* SPDX-License-Identifier: MIT */
#include "daemon/policy/own.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "daemon/host/log.h"

static bool same(const struct smcr_addr *a, const struct smcr_addr *b)
{
	return a->family == b->family && !memcmp(a->ip, b->ip, sizeof(a->ip));
}

static struct smcr_addr address(const struct netif *netif, size_t i)
{
	struct smcr_addr addr = { .family = AF_INET };
	if (i < netif->num_addrs) {
		uint32_t be = htonl(netif->addrs[i].addr);
		memcpy(addr.ip, &be, sizeof(be));
	} else {
		addr.family = AF_INET6;
		memcpy(addr.ip, netif->addrs6[i - netif->num_addrs].addr, 16);
	}
	return addr;
}

static bool has(const struct netif *netif, const struct smcr_addr *addr)
{
	for (size_t i = 0; i < netif->num_addrs + netif->num_addrs6; i++) {
		struct smcr_addr one = address(netif, i);
		if (same(&one, addr))
			return true;
	}
	return false;
}

static bool listed(const struct own *own, const struct smcr_addr *addr)
{
	for (size_t i = 0; i < own->num; i++)
		if (same(&own->list[i].addr, addr))
			return true;
	return false;
}

static void tell(const struct own *own, const struct smcr_addr *addr, bool is_own)
{
	int r = rdv_option_own_address(own->option, addr, is_own);
	if (r < 0)
		log_message(LOG_WARNING,
			    "connections of this host to one of its own addresses are not kept "
			    "from SMC-R: %s",
			    strerror(-r));
}

static void remove_gone(struct own *own, const struct netif *netif)
{
	for (size_t i = 0; i < own->num;) {
		struct own_address old = own->list[i];
		if (old.ifindex != netif->ifindex || has(netif, &old.addr)) {
			i++;
			continue;
		}
		own->list[i] = own->list[--own->num];
		if (!listed(own, &old.addr))
			tell(own, &old.addr, false);
	}
}

static bool make_room(struct own *own)
{
	size_t room = own->room ? own->room * 2 : 16;
	if (own->num < own->room)
		return true;
	struct own_address *list = realloc(own->list, room * sizeof(*list));
	if (!list)
		return false;
	own->list = list;
	own->room = room;
	return true;
}

static void add(struct own *own, unsigned int ifindex, const struct smcr_addr *addr)
{
	bool known = false;
	for (size_t i = 0; i < own->num; i++) {
		if (!same(&own->list[i].addr, addr))
			continue;
		if (own->list[i].ifindex == ifindex)
			return;
		known = true;
	}
	if (!make_room(own))
		return;
	own->list[own->num++] = (struct own_address){ ifindex, *addr };
	if (!known)
		tell(own, addr, true);
}

void own_netif(struct own *own, const struct netif *netif)
{
	remove_gone(own, netif);
	for (size_t i = 0; i < netif->num_addrs + netif->num_addrs6; i++) {
		struct smcr_addr addr = address(netif, i);
		add(own, netif->ifindex, &addr);
	}
}

static bool is_loopback(const struct smcr_addr *addr)
{
	if (addr->family == AF_INET)
		return addr->ip[0] == IN_LOOPBACKNET;
	return !memcmp(addr->ip, &in6addr_loopback, sizeof(addr->ip));
}

bool own_is(const struct own *own, const struct smcr_addr *addr)
{
	return is_loopback(addr) || listed(own, addr);
}

void own_free(struct own *own)
{
	free(own->list);
	own->list = NULL;
	own->num = own->room = 0;
}

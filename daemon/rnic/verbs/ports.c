/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/rnic/verbs/internal.h"

int verbs_parse_name(const char *name, char ret_dev[RNIC_NAME_LEN], uint8_t *ret_port)
{
	const char *slash = strchr(name, '/');
	size_t len = slash ? (size_t)(slash - name) : strlen(name);
	unsigned long port = 1;
	/* The full name "verbs:DEV/PORT" has to fit too. */
	if (len == 0 || len > RNIC_NAME_LEN - sizeof("verbs:/255"))
		return -EINVAL;
	if (slash) {
		char *end;
		if (slash[1] < '1' || slash[1] > '9')
			return -EINVAL;
		port = strtoul(slash + 1, &end, 10);
		if (*end || port > UINT8_MAX)
			return -EINVAL;
	}
	memcpy(ret_dev, name, len);
	ret_dev[len] = '\0';
	*ret_port = (uint8_t)port;
	return 0;
}

void rnic_verbs_full_name(const char *name, char ret_name[RNIC_NAME_LEN])
{
	char dev[RNIC_NAME_LEN];
	uint8_t port;
	if (!strncmp(name, "verbs:", 6) && !verbs_parse_name(name + 6, dev, &port))
		snprintf(ret_name, RNIC_NAME_LEN, "verbs:%.53s/%u", dev, port);
	else
		snprintf(ret_name, RNIC_NAME_LEN, "%s", name);
}

/* The port's state comes from the device. So the state of the interface does not matter, and this
 * need not wait for the kernel's lock of all interfaces. */
static int look_at(unsigned int ifindex, struct rnic_netdev *ret_netdev)
{
	char name[IF_NAMESIZE];
	return if_indextoname(ifindex, name) ? rnic_netdev_look(name, ret_netdev) : -ENODEV;
}

/* Interfaces of other namespaces are not found. If an index belongs to a different interface in
 * this namespace, the addresses show that. */
static int read_netdevs(const struct ibv_gid_entry *entries, size_t num_entries, uint8_t port,
			struct rnic_netdev *netdevs, size_t *ret_num)
{
	size_t num = 0;
	for (size_t i = 0; i < num_entries && num < VERBS_MAX_NETDEVS; i++) {
		bool known = entries[i].port_num != port || entries[i].ndev_ifindex == 0;
		for (size_t j = 0; j < num && !known; j++)
			known = netdevs[j].ifindex == entries[i].ndev_ifindex;
		if (known)
			continue;
		int error = look_at(entries[i].ndev_ifindex, &netdevs[num]);
		if (error && error != -ENODEV)
			return error;
		if (!error)
			num++;
	}
	*ret_num = num;
	return 0;
}

int verbs_read_gids(struct ibv_context *context, uint8_t port, struct rnic_netdev *netdevs,
		    struct verbs_gids *ret_gids)
{
	struct ibv_gid_entry entries[VERBS_MAX_GIDS];
	size_t num_netdevs = 0;
	ssize_t num = ibv_query_gid_table(context, entries, VERBS_MAX_GIDS, 0);
	if (num < 0)
		return (int)num;
	int error = read_netdevs(entries, (size_t)num, port, netdevs, &num_netdevs);
	if (error)
		return error;
	return verbs_choose_gids(entries, (size_t)num, port, netdevs, num_netdevs, ret_gids)
		       ? 0
		       : -EADDRNOTAVAIL;
}

struct each {
	void (*fn)(void *ctx, const struct rnic_verbs_port *port);
	void *ctx;
	struct rnic_netdev netdevs[VERBS_MAX_NETDEVS];
};

static void each_port(struct each *each, struct ibv_context *context, uint8_t num)
{
	struct ibv_port_attr attr;
	struct verbs_gids gids;
	struct rnic_verbs_port port = { 0 };
	if (ibv_query_port(context, num, &attr) || attr.link_layer != IBV_LINK_LAYER_ETHERNET ||
	    verbs_read_gids(context, num, each->netdevs, &gids))
		return;
	snprintf(port.name, sizeof(port.name), "verbs:%.53s/%u",
		 ibv_get_device_name(context->device), num);
	memcpy(port.netdev, gids.netdev->name, sizeof(port.netdev));
	each->fn(each->ctx, &port);
}

static void each_device(struct each *each, struct ibv_device *device)
{
	struct ibv_device_attr attr;
	struct ibv_context *context = ibv_open_device(device);
	if (!context)
		return;
	if (ibv_query_device(context, &attr) == 0) {
		for (unsigned int port = 1; port <= attr.phys_port_cnt; port++)
			each_port(each, context, (uint8_t)port);
	}
	ibv_close_device(context);
}

void rnic_verbs_each(void (*fn)(void *ctx, const struct rnic_verbs_port *port), void *ctx)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct each each = { .fn = fn, .ctx = ctx };
	if (!list)
		return;
	for (struct ibv_device **device = list; *device; device++)
		each_device(&each, *device);
	ibv_free_device_list(list);
}

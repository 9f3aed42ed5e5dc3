/* SPDX-License-Identifier: MIT */
#include "daemon/fabric/rnics.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <utlist.h>

#include "daemon/host/log.h"
#include "daemon/rnic/soft.h"

/** Why an interface could not be used, so that it is said once. */
struct refusal {
	unsigned int ifindex;
	char text[RNIC_ERROR_LEN];
	struct refusal *next, *prev;
};

struct rnics {
	struct rnics_params params;
	struct event *look;
	struct refusal *refusals;
};

static struct refusal *refusal_of(const struct rnics *rnics, unsigned int ifindex)
{
	struct refusal *refusal;
	DL_SEARCH_SCALAR(rnics->refusals, refusal, ifindex, ifindex);
	return refusal;
}

static void forget_refusal(struct rnics *rnics, unsigned int ifindex)
{
	struct refusal *refusal = refusal_of(rnics, ifindex);
	if (!refusal)
		return;
	DL_DELETE(rnics->refusals, refusal);
	free(refusal);
}

static void say_refusal(struct rnics *rnics, unsigned int ifindex, const char *text)
{
	struct refusal *refusal = refusal_of(rnics, ifindex);
	if (refusal && !strcmp(refusal->text, text))
		return;
	log_message(LOG_WARNING, "%s", text);
	if (!refusal) {
		refusal = calloc(1, sizeof(*refusal));
		if (!refusal)
			return;
		refusal->ifindex = ifindex;
		DL_APPEND(rnics->refusals, refusal);
	}
	snprintf(refusal->text, sizeof(refusal->text), "%s", text);
}

static bool is_wanted(const struct rnics *rnics, const struct netif *netif)
{
	const struct config *config = rnics->params.config;
	if (config->num_rnics == 0)
		return netif->ethernet && netif->num_addrs > 0;
	for (size_t i = 0; i < config->num_rnics; i++)
		if (!strncmp(config->rnics[i], "soft:", 5) &&
		    !strcmp(config->rnics[i] + 5, netif->name))
			return true;
	return false;
}

static int open_rnic(struct rnics *rnics, const char *name, uint16_t vlan,
		     char ret_error[RNIC_ERROR_LEN])
{
	int error = fabric_add_device(rnics->params.fabric, name, vlan, ret_error);
	if (!error)
		log_message(LOG_NOTICE, "rnic %s: in use", name);
	return error;
}

static void consider(void *ctx, const struct netif *netif)
{
	struct rnics *rnics = ctx;
	char name[RNIC_NAME_LEN], text[RNIC_ERROR_LEN];
	if (!is_wanted(rnics, netif) || fabric_soft_rnic(rnics->params.fabric, netif->ifindex))
		return;
	snprintf(name, sizeof(name), "soft:%s", netif->name);
	int error = open_rnic(rnics, name, netif->vlan, text);
	if (!error)
		forget_refusal(rnics, netif->ifindex);
	else if (error != -EEXIST && error != -ENODEV) /* those change soon, and we are told */
		say_refusal(rnics, netif->ifindex, text);
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
	struct rnics *rnics = arg;
	size_t before = fabric_num_devices(rnics->params.fabric);
	(void)fd;
	(void)what;
	netif_each(rnics->params.netifs, consider, rnics);
	if (fabric_num_devices(rnics->params.fabric) != before)
		rnics->params.opened(rnics->params.ctx);
}

void rnics_look(struct rnics *rnics)
{
	event_active(rnics->look, EV_TIMEOUT, 0);
}

void rnics_netif_changed(struct rnics *rnics, const struct netif *netif)
{
	struct rnic *rnic = fabric_soft_rnic(rnics->params.fabric, netif->ifindex);
	if (!netif->present)
		forget_refusal(rnics, netif->ifindex);
	if (rnic)
		rnic_soft_link_changed(rnic);
	else
		rnics_look(rnics);
}

static int open_named(struct rnics *rnics, const char *name, char ret_error[RNIC_ERROR_LEN])
{
	struct netif netif = { .vlan = SMCR_NO_VLAN };
	if (!strncmp(name, "soft:", 5))
		netif_by_name(rnics->params.netifs, name + 5,
			      &netif); /* stays as it is if missing */
	return open_rnic(rnics, name, netif.vlan, ret_error);
}

static int open_all_named(struct rnics *rnics, char ret_error[RNIC_ERROR_LEN])
{
	const struct config *config = rnics->params.config;
	const char *missing = NULL;
	for (size_t i = 0; i < config->num_rnics; i++) {
		char text[RNIC_ERROR_LEN] = "";
		int error = open_named(rnics, config->rnics[i], text);
		if (error && error != -ENODEV && error != -EEXIST) {
			snprintf(ret_error, RNIC_ERROR_LEN, "%s", text);
			return error;
		}
		if (error != -ENODEV)
			continue;
		missing = config->rnics[i];
		log_message(LOG_WARNING, "%s: waiting for it", text);
	}
	if (!missing || fabric_num_devices(rnics->params.fabric) > 0)
		return 0;
	snprintf(ret_error, RNIC_ERROR_LEN,
		 "rnic %s: no such network interface, nor any other that is configured; name those "
		 "of this host",
		 missing);
	return -ENODEV;
}

int rnics_new(const struct rnics_params *params, struct rnics **ret_rnics,
	      char ret_error[RNIC_ERROR_LEN])
{
	struct rnics *rnics = calloc(1, sizeof(*rnics));
	int error = -ENOMEM;
	if (rnics) {
		rnics->params = *params;
		rnics->look = event_new(params->base, -1, 0, on_look, rnics);
	}
	if (!rnics || !rnics->look)
		snprintf(ret_error, RNIC_ERROR_LEN, "out of memory");
	else
		error = open_all_named(rnics, ret_error);
	if (error) {
		rnics_free(rnics);
		return error;
	}
	if (params->config->num_rnics == 0)
		netif_each(params->netifs, consider, rnics);
	if (fabric_num_devices(params->fabric) == 0)
		log_message(LOG_WARNING, "no RNIC is usable: connections stay TCP until an "
					 "Ethernet interface has an IPv4 address");
	*ret_rnics = rnics;
	return 0;
}

void rnics_free(struct rnics *rnics)
{
	if (!rnics)
		return;
	while (rnics->refusals)
		forget_refusal(rnics, rnics->refusals->ifindex);
	if (rnics->look)
		event_free(rnics->look);
	free(rnics);
}

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
#include "daemon/rnic/verbs.h"

/* The kernel reports an address before the GID for it exists. */
static const struct timeval gid_delay = { 1, 0 };
static const struct timeval unwanted_period = { 2, 0 };

/** Why an RNIC could not be used, kept to log each reason only once. */
struct refusal {
	char name[RNIC_NAME_LEN];
	char text[RNIC_ERROR_LEN];
	struct refusal *next, *prev;
};

/** An RNIC that an operator has taken out of use. */
struct drained {
	char name[RNIC_NAME_LEN];
	struct drained *next, *prev;
};

struct rnics {
	struct rnics_params params;
	struct drained *drained;
	struct event *look, *look_later;
	struct event *unwanted; /* to check RNICs that stay open only for their links */
	struct refusal *refusals;
};

static struct refusal *refusal_of(const struct rnics *rnics, const char *name)
{
	struct refusal *refusal;
	DL_FOREACH (rnics->refusals, refusal) {
		if (!strcmp(refusal->name, name))
			return refusal;
	}
	return NULL;
}

static void forget_refusal(struct rnics *rnics, const char *name)
{
	struct refusal *refusal = refusal_of(rnics, name);
	if (!refusal)
		return;
	DL_DELETE(rnics->refusals, refusal);
	free(refusal);
}

static void say_refusal(struct rnics *rnics, const char *name, const char *text)
{
	struct refusal *refusal = refusal_of(rnics, name);
	if (refusal && !strcmp(refusal->text, text))
		return;
	log_message(LOG_WARNING, "%s", text);
	if (!refusal) {
		refusal = calloc(1, sizeof(*refusal));
		if (!refusal)
			return;
		snprintf(refusal->name, sizeof(refusal->name), "%s", name);
		DL_APPEND(rnics->refusals, refusal);
	}
	snprintf(refusal->text, sizeof(refusal->text), "%s", text);
}

/* This will change soon, and is reported then. */
static bool may_come(int error)
{
	return error == -ENODEV || error == -EADDRNOTAVAIL;
}

static bool is_verbs(const char *name)
{
	return !strncmp(name, "verbs:", 6);
}

/* `name` must have the port, as in rnics. */
static bool is_named(const struct config *config, const char *name)
{
	char full[RNIC_NAME_LEN];
	for (size_t i = 0; i < config->num_rnics; i++) {
		rnic_verbs_full_name(config->rnics[i], full);
		if (!strcmp(full, name))
			return true;
	}
	return false;
}

static bool is_soft_wanted(const struct rnics *rnics, const struct netif *netif)
{
	const struct config *config = rnics->params.config;
	char name[RNIC_NAME_LEN];
	if (config->num_rnics == 0)
		return netif->ethernet && netif->num_addrs > 0;
	snprintf(name, sizeof(name), "soft:%s", netif->name);
	return is_named(config, name);
}

static struct drained *find_drained(const struct rnics *rnics, const char *name)
{
	struct drained *drained;
	DL_FOREACH (rnics->drained, drained) {
		if (!strcmp(drained->name, name))
			return drained;
	}
	return NULL;
}

struct name_search {
	const char *name;
	bool found;
};

static void match_name(void *arg, uint32_t id, struct rnic *rnic)
{
	struct name_search *search = arg;
	struct rnic_info info;
	(void)id;
	rnic_get_info(rnic, &info);
	search->found |= !strcmp(info.name, search->name);
}

static bool is_open(const struct rnics *rnics, const char *name)
{
	struct name_search search = { .name = name };
	fabric_each_device(rnics->params.fabric, match_name, &search);
	return search.found;
}

static int open_rnic(struct rnics *rnics, const char *name, uint16_t vlan,
		     char ret_error[RNIC_ERROR_LEN])
{
	int error = fabric_add_device(rnics->params.fabric, name, vlan, ret_error);
	if (!error && find_drained(rnics, name))
		fabric_drain_device(rnics->params.fabric, name, true);
	return error;
}

static void keep_drained(struct rnics *rnics, const char *name, bool wanted)
{
	struct drained *drained = find_drained(rnics, name);
	if (!drained && wanted && (drained = calloc(1, sizeof(*drained)))) {
		snprintf(drained->name, sizeof(drained->name), "%s", name);
		DL_APPEND(rnics->drained, drained);
	} else if (drained && !wanted) {
		DL_DELETE(rnics->drained, drained);
		free(drained);
	}
}

/* It is open only for its links: close_unwanted(). */
static bool is_unwanted(const struct rnics *rnics, const char *name)
{
	const struct config *config = rnics->params.config;
	return config->num_rnics > 0 && !is_named(config, name) && is_open(rnics, name);
}

int rnics_drain(struct rnics *rnics, const char *name, bool drained)
{
	char full[RNIC_NAME_LEN];
	rnic_verbs_full_name(name, full);
	if (!drained && is_unwanted(rnics, full))
		return -EPERM;
	int error = fabric_drain_device(rnics->params.fabric, full, drained);
	if (error && !(find_drained(rnics, full) && !drained))
		return error;
	keep_drained(rnics, full, drained);
	return 0;
}

void rnics_renamed(struct rnics *rnics, const char *before, const char *now)
{
	struct drained *drained = find_drained(rnics, before);
	keep_drained(rnics, now, false); /* of an RNIC that had the name before */
	if (drained)
		snprintf(drained->name, sizeof(drained->name), "%s", now);
}

static void try_rnic(struct rnics *rnics, const char *name, uint16_t vlan)
{
	char text[RNIC_ERROR_LEN];
	int error = open_rnic(rnics, name, vlan, text);
	if (!error)
		forget_refusal(rnics, name);
	else if (error != -EEXIST && !may_come(error))
		say_refusal(rnics, name, text);
}

static void consider_soft(void *ctx, const struct netif *netif)
{
	struct rnics *rnics = ctx;
	char name[RNIC_NAME_LEN];
	if (!is_soft_wanted(rnics, netif) ||
	    fabric_find_rnic(rnics->params.fabric, RNIC_SOFT, netif->ifindex))
		return;
	snprintf(name, sizeof(name), "soft:%s", netif->name);
	try_rnic(rnics, name, netif->vlan);
}

static bool is_verbs_wanted(const struct rnics *rnics, const struct rnic_verbs_port *port)
{
	const struct config *config = rnics->params.config;
	return config->num_rnics == 0 || is_named(config, port->name);
}

static uint16_t vlan_of(const struct rnics *rnics, const char *netdev)
{
	struct netif netif = { .vlan = SMCR_NO_VLAN };
	netif_by_name(rnics->params.netifs, netdev, &netif); /* not changed if missing */
	return netif.vlan;
}

static void consider_verbs(void *ctx, const struct rnic_verbs_port *port)
{
	struct rnics *rnics = ctx;
	if (is_verbs_wanted(rnics, port))
		try_rnic(rnics, port->name, vlan_of(rnics, port->netdev));
}

static bool uses_verbs(const struct config *config)
{
	for (size_t i = 0; i < config->num_rnics; i++)
		if (is_verbs(config->rnics[i]))
			return true;
	return config->num_rnics == 0;
}

/* Without configuration, soft RNICs are used only on hosts that have no other RNIC. */
static void open_what_is_there(struct rnics *rnics)
{
	const struct config *config = rnics->params.config;
	if (uses_verbs(config))
		rnic_verbs_each(consider_verbs, rnics);
	if (config->num_rnics > 0 || !fabric_find_rnic(rnics->params.fabric, RNIC_VERBS, 0))
		netif_each(rnics->params.netifs, consider_soft, rnics);
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
	struct rnics *rnics = arg;
	size_t before = fabric_num_devices(rnics->params.fabric);
	(void)fd;
	(void)what;
	rnics->params.at_work(rnics->params.ctx);
	open_what_is_there(rnics);
	if (fabric_num_devices(rnics->params.fabric) != before)
		rnics->params.opened(rnics->params.ctx);
}

void rnics_look(struct rnics *rnics)
{
	event_active(rnics->look, EV_TIMEOUT, 0);
}

void rnics_netif_changed(struct rnics *rnics, const struct netif *netif)
{
	struct fabric *fabric = rnics->params.fabric;
	struct rnic *soft = fabric_find_rnic(fabric, RNIC_SOFT, netif->ifindex);
	struct rnic *verbs = fabric_find_rnic(fabric, RNIC_VERBS, netif->ifindex);
	char name[RNIC_NAME_LEN];
	snprintf(name, sizeof(name), "soft:%s", netif->name);
	if (!netif->present)
		forget_refusal(rnics, name);
	if (soft)
		rnic_link_changed(soft);
	if (verbs)
		rnic_link_changed(verbs);
	if (soft || verbs)
		return;
	rnics_look(rnics);
	if (uses_verbs(rnics->params.config))
		event_add(rnics->look_later, &gid_delay);
}

static void look_at(void *arg, uint32_t id, struct rnic *rnic)
{
	struct rnic_info info;
	(void)arg;
	(void)id;
	rnic_get_info(rnic, &info);
	if (info.kind == RNIC_VERBS)
		rnic_link_changed(rnic);
}

void rnics_devices_changed(struct rnics *rnics)
{
	fabric_each_device(rnics->params.fabric, look_at, NULL);
	rnics_look(rnics);
}

struct port_search {
	char name[RNIC_NAME_LEN];
	char netdev[IF_NAMESIZE];
};

static void match_port(void *ctx, const struct rnic_verbs_port *port)
{
	struct port_search *search = ctx;
	if (!strcmp(search->name, port->name))
		memcpy(search->netdev, port->netdev, sizeof(search->netdev));
}

static int open_named(struct rnics *rnics, const char *name, char ret_error[RNIC_ERROR_LEN])
{
	struct port_search search = { .netdev = "" };
	rnic_verbs_full_name(name, search.name);
	if (is_verbs(name))
		rnic_verbs_each(match_port, &search);
	else if (!strncmp(name, "soft:", 5))
		snprintf(search.netdev, sizeof(search.netdev), "%s", name + 5);
	return open_rnic(rnics, search.name, vlan_of(rnics, search.netdev), ret_error);
}

/* A missing RNIC may come later. But if no RNIC exists at all this is an error, because the name
 * may be wrong. */
static int open_all_named(struct rnics *rnics, char ret_error[RNIC_ERROR_LEN])
{
	const struct config *config = rnics->params.config;
	bool missing = false, waiting = false;
	for (size_t i = 0; i < config->num_rnics; i++) {
		char text[RNIC_ERROR_LEN] = "";
		int error = open_named(rnics, config->rnics[i], text);
		if (!error || error == -EEXIST)
			continue;
		snprintf(ret_error, RNIC_ERROR_LEN, "%s", text);
		if (!may_come(error))
			return error;
		missing |= error == -ENODEV;
		waiting |= error == -EADDRNOTAVAIL;
		if (config->num_rnics > 1 || error == -EADDRNOTAVAIL)
			log_message(LOG_WARNING, "%s: waiting for it", text);
	}
	return missing && !waiting && fabric_num_devices(rnics->params.fabric) == 0 ? -ENODEV : 0;
}

/* ---- another configuration ---- */

void rnics_prepare(struct rnics *rnics, const struct config *next, struct config_notes *ret_errors,
		   struct config_notes *ret_notes)
{
	size_t opened[CONFIG_MAX_RNICS], num_opened = 0;
	char text[RNIC_ERROR_LEN], name[RNIC_NAME_LEN];
	for (size_t i = 0; i < next->num_rnics; i++) {
		int error = open_named(rnics, next->rnics[i], text);
		if (!error)
			opened[num_opened++] = i;
		else if (may_come(error))
			config_note(ret_notes, "%s: waiting for it", text);
		else if (error != -EEXIST)
			config_note(ret_errors, "%s", text);
	}
	for (size_t i = 0; ret_errors->num && i < num_opened; i++) {
		rnic_verbs_full_name(next->rnics[opened[i]], name);
		fabric_remove_device(rnics->params.fabric, name,
				     "closed: another one cannot be used");
	}
}

/** Names of RNICs. */
struct names {
	char (*name)[RNIC_NAME_LEN]; /* NULL: no memory */
	size_t num, room;
};

static void add_name(void *arg, uint32_t id, struct rnic *rnic)
{
	struct names *names = arg;
	struct rnic_info info;
	(void)id;
	rnic_get_info(rnic, &info);
	if (names->name && names->num < names->room)
		snprintf(names->name[names->num++], RNIC_NAME_LEN, "%s", info.name);
}

/* The names of all RNICs that are open; the caller frees them. */
static struct names all_names(struct fabric *fabric)
{
	struct names names = { .room = fabric_num_devices(fabric) };
	names.name = calloc(names.room + 1, sizeof(*names.name));
	fabric_each_device(fabric, add_name, &names);
	return names;
}

/* Close RNICs that the configuration does not want, if no link uses them; until then they get no
 * new links. @return how many stay open.
 * @param notes  NULL: do not tell them again */
static size_t close_unwanted(struct rnics *rnics, struct config_notes *notes)
{
	const struct config *config = rnics->params.config;
	struct fabric *fabric = rnics->params.fabric;
	struct names names = all_names(fabric);
	size_t stay = 0;
	if (!names.name)
		return 1; /* try again later */
	for (size_t i = 0; config->num_rnics > 0 && i < names.num; i++) {
		const char *name = names.name[i];
		if (is_named(config, name))
			continue;
		fabric_drain_device(fabric, name, true);
		if (!fabric_device_in_use(fabric, name)) {
			fabric_remove_device(fabric, name, "closed: it is not configured any more");
			continue;
		}
		stay++;
		if (notes)
			config_note(notes,
				    "rnic %s: stays until the links that use it have ended: they "
				    "go where their group has another one, else with their "
				    "connections ('smcrctl link' shows them)",
				    name);
	}
	free(names.name);
	return stay;
}

static void on_unwanted(evutil_socket_t fd, short what, void *arg)
{
	struct rnics *rnics = arg;
	(void)fd;
	(void)what;
	rnics->params.at_work(rnics->params.ctx);
	if (close_unwanted(rnics, NULL) > 0)
		evtimer_add(rnics->unwanted, &unwanted_period);
}

/* RNICs that were not wanted before may be wanted now. */
static void use_wanted(struct rnics *rnics)
{
	const struct config *config = rnics->params.config;
	struct names names = all_names(rnics->params.fabric);
	for (size_t i = 0; i < names.num; i++)
		if (config->num_rnics == 0 || is_named(config, names.name[i]))
			fabric_drain_device(rnics->params.fabric, names.name[i],
					    find_drained(rnics, names.name[i]) != NULL);
	free(names.name);
}

void rnics_settle(struct rnics *rnics, struct config_notes *ret_notes)
{
	use_wanted(rnics);
	if (close_unwanted(rnics, ret_notes) > 0)
		evtimer_add(rnics->unwanted, &unwanted_period);
	while (rnics->refusals) /* reasons that still hold are logged again */
		forget_refusal(rnics, rnics->refusals->name);
	rnics_look(rnics);
}

static void say_there_is_none(const struct rnics *rnics)
{
	log_message(LOG_WARNING, "no RNIC is usable%s: connections stay TCP until %s",
		    rnics->refusals ? ", for the reasons above" : "",
		    rnics->refusals ? "one is" : "an Ethernet interface has an IPv4 address");
}

int rnics_new(const struct rnics_params *params, struct rnics **ret_rnics,
	      char ret_error[RNIC_ERROR_LEN])
{
	struct rnics *rnics = calloc(1, sizeof(*rnics));
	int error = -ENOMEM;
	if (rnics) {
		rnics->params = *params;
		rnics->look = event_new(params->base, -1, 0, on_look, rnics);
		rnics->look_later = evtimer_new(params->base, on_look, rnics);
		rnics->unwanted = evtimer_new(params->base, on_unwanted, rnics);
	}
	if (!rnics || !rnics->look || !rnics->look_later || !rnics->unwanted)
		snprintf(ret_error, RNIC_ERROR_LEN, "out of memory");
	else
		error = open_all_named(rnics, ret_error);
	if (error) {
		rnics_free(rnics);
		return error;
	}
	if (params->config->num_rnics == 0)
		open_what_is_there(rnics);
	if (fabric_num_devices(params->fabric) == 0)
		say_there_is_none(rnics);
	*ret_rnics = rnics;
	return 0;
}

void rnics_each_missing(const struct rnics *rnics,
			void (*fn)(void *arg, const char *name, const char *error), void *arg)
{
	const struct config *config = rnics->params.config;
	const struct refusal *refusal;
	for (size_t i = 0; i < config->num_rnics; i++) {
		char name[RNIC_NAME_LEN];
		rnic_verbs_full_name(config->rnics[i], name);
		if (!is_open(rnics, name) && !refusal_of(rnics, name))
			fn(arg, name, "");
	}
	DL_FOREACH (rnics->refusals, refusal) {
		fn(arg, refusal->name, refusal->text);
	}
}

void rnics_free(struct rnics *rnics)
{
	if (!rnics)
		return;
	while (rnics->refusals)
		forget_refusal(rnics, rnics->refusals->name);
	while (rnics->drained)
		keep_drained(rnics, rnics->drained->name, false);
	if (rnics->look)
		event_free(rnics->look);
	if (rnics->look_later)
		event_free(rnics->look_later);
	if (rnics->unwanted)
		event_free(rnics->unwanted);
	free(rnics);
}

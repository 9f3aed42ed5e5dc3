/* SPDX-License-Identifier: MIT */
/* The properties of objects, and where their rows have them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/bus/internal.h"
#include "daemon/bus/values.h"

/* What traffic changes all the time is not told: whoever wants a rate has to ask again anyway. How
 * many link groups and links there are changes with objects, which are told as well. */
static const struct property manager_properties[] = {
	{ "version", "s", PROPERTY_STAYS },
	{ "pid", "u", PROPERTY_STAYS },
	{ "uptime_ms", "t" },
	{ "socket", "s", PROPERTY_STAYS },
	{ "peer_id", "s", PROPERTY_STAYS },
	{ "tcp_option.available", "b", PROPERTY_STAYS },
	{ "tcp_option.error", "s", PROPERTY_STAYS },
	{ "tcp_option.listeners", "t" },
	{ "devices", "u", PROPERTY_CHANGES },
	{ "engine.linkgroups", "u", PROPERTY_CHANGES },
	{ "engine.links", "u", PROPERTY_CHANGES },
	{ "engine.memory_used_bytes", "t" },
	{ "engine.memory_budget_bytes", "t", PROPERTY_CHANGES },
	{ "connections.smcr", "t" },
	{ "connections.relayed", "t" },
	{ "connections.pending", "t" },
	{ "connections.tx_bytes", "t" },
	{ "connections.rx_bytes", "t" },
	{ "connections.established_total", "t" },
	{ "connections.fallbacks_total", "t" },
	{ "connections.plain_tcp_total", "t" },
	{ "connections.failed_total", "t" },
	{ "connections.resets_total", "t" },
	{ "cm.connections", "t" },
	{ "cm.listeners", "t" },
	{ "smbdirect.connections", "t" },
	{ "smbdirect.listeners", "t" },
	{ "draining", "a{sv}", PROPERTY_CHANGES },
	{ NULL },
};

static const struct property device_properties[] = {
	{ "name", "s", PROPERTY_STAYS },
	{ "kind", "s", PROPERTY_STAYS },
	{ "port", "u", PROPERTY_STAYS },
	{ "state", "s", PROPERTY_CHANGES },
	{ "netdev", "s", PROPERTY_CHANGES },
	{ "gids", "as", PROPERTY_CHANGES },
	{ "mtu", "u", PROPERTY_CHANGES },
	{ "links", "u", PROPERTY_CHANGES },
	{ "critical", "b", PROPERTY_CHANGES },
	{ "drained", "b", PROPERTY_CHANGES },
	{ "down_text", "s", PROPERTY_CHANGES },
	{ "counters", "a{sv}" },
	{ NULL },
};

/* A group is there before first contact has agreed on everything. */
static const struct property linkgroup_properties[] = {
	{ "id", "u", PROPERTY_STAYS },
	{ "role", "s", PROPERTY_STAYS },
	{ "type", "s", PROPERTY_CHANGES },
	{ "version", "y", PROPERTY_STAYS },
	{ "dialect", "s", PROPERTY_CHANGES },
	{ "peer_id", "s", PROPERTY_STAYS },
	{ "peer", "s", PROPERTY_STAYS },
	{ "vlan", "u", PROPERTY_STAYS },
	{ "max_links", "u", PROPERTY_CHANGES },
	{ "connections", "u" },
	{ "links", "u", PROPERTY_CHANGES },
	{ "rmbs", "u" },
	{ "peer_rmbs", "u" },
	{ "idle_ms", "t" },
	{ "release", "u", PROPERTY_CHANGES },
	{ "eid", "s", PROPERTY_CHANGES },
	{ "peer_host", "s", PROPERTY_CHANGES },
	{ "peer_os", "s", PROPERTY_CHANGES },
	{ "direct", "b", PROPERTY_CHANGES },
	{ "max_connections", "u", PROPERTY_CHANGES },
	{ NULL },
};

/* Numbers of queue pairs are for administrators only, and it is not known who reads properties.
 * What the peer says of its end comes later than the link. */
static const struct property link_properties[] = {
	{ "linkgroup", "u", PROPERTY_STAYS },
	{ "number", "y", PROPERTY_STAYS },
	{ "peer", "s", PROPERTY_STAYS },
	{ "peer_host", "s", PROPERTY_CHANGES },
	{ "state", "s", PROPERTY_CHANGES },
	{ "disabled", "b", PROPERTY_CHANGES },
	{ "rnic", "s", PROPERTY_STAYS },
	{ "port", "u", PROPERTY_STAYS },
	{ "local_gid", "s", PROPERTY_STAYS },
	{ "peer_gid", "s", PROPERTY_CHANGES },
	{ "path_mtu", "u", PROPERTY_CHANGES },
	{ "uid", "u", PROPERTY_STAYS },
	{ "peer_uid", "u", PROPERTY_CHANGES },
	{ "connections", "u" },
	{ "tx_bytes", "t" },
	{ "rx_bytes", "t" },
	{ "retransmits", "t" },
	{ "last_error", "s", PROPERTY_CHANGES },
	{ NULL },
};

const struct property *properties_of(enum form_class class)
{
	static const struct property *const all[NUM_FORM_CLASSES] = {
		[FORM_MANAGER] = manager_properties,
		[FORM_DEVICE] = device_properties,
		[FORM_LINKGROUP] = linkgroup_properties,
		[FORM_LINK] = link_properties,
	};
	return all[class];
}

static const json_t *value_at(const json_t *row, const char *key)
{
	char name[FORM_NAME_LEN];
	const char *dot = strchr(key, '.');
	if (!dot)
		return json_object_get(row, key);
	snprintf(name, sizeof(name), "%.*s", (int)(dot - key), key);
	return json_object_get(json_object_get(row, name), dot + 1);
}

int properties_append(sd_bus_message *message, enum form_class class, const char *member,
		      const json_t *row)
{
	char name[FORM_NAME_LEN];
	for (const struct property *at = properties_of(class); at->key; at++) {
		form_camel(at->key, name);
		if (!strcmp(name, member))
			return values_append(message, at->type, value_at(row, at->key));
	}
	return -EINVAL;
}

/* ---- those that are told when they change ---- */

/* Ages go on by themselves: an object of which nothing else has changed has not changed. */
static bool differ(const json_t *was, const json_t *is)
{
	const char *key;
	const json_t *value;
	if (!json_is_object(was) || !json_is_object(is))
		return was != is && !json_equal(was, is);
	if (json_object_size(was) != json_object_size(is))
		return true;
	json_object_foreach((json_t *)is, key, value)
	{
		if (strcmp(key, "age_ms") != 0 && !json_equal(json_object_get(was, key), value))
			return true;
	}
	return false;
}

size_t properties_changed(enum form_class class, const json_t *before, const json_t *after,
			  char ret_names[BUS_MAX_WATCHED][FORM_NAME_LEN])
{
	size_t num = 0;
	for (const struct property *at = properties_of(class); at->key; at++) {
		if (at->how != PROPERTY_CHANGES || num == BUS_MAX_WATCHED)
			continue;
		if (differ(value_at(before, at->key), value_at(after, at->key)))
			form_camel(at->key, ret_names[num++]);
	}
	return num;
}

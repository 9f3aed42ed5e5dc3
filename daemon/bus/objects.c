/* SPDX-License-Identifier: MIT */
/*
 * What lies where. There is no list of objects that would have to follow what happens: sd-bus asks
 * whether there is something at a path, and what the properties are is looked up when they are
 * asked for, in one row of the show method.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/bus/internal.h"
#include "daemon/bus/values.h"
#include "daemon/engine/view.h"

#define LINK_SEPARATOR '_' /* 3/2 is link/3_2 */

/* A property is named as its key, in camel case. */
struct property {
	const char *key;  /* in the row; with dots: in objects of it */
	const char *type; /* as values_append() has them */
	bool constant;
};

static const struct property manager_properties[] = {
	{ "version", "s", true },
	{ "pid", "u", true },
	{ "uptime_ms", "t" },
	{ "socket", "s", true },
	{ "peer_id", "s", true },
	{ "tcp_option.available", "b", true },
	{ "tcp_option.error", "s", true },
	{ "tcp_option.listeners", "t" },
	{ "devices", "u" },
	{ "engine.linkgroups", "u" },
	{ "engine.links", "u" },
	{ "engine.memory_used_bytes", "t" },
	{ "engine.memory_budget_bytes", "t" },
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
	{ "draining", "a{sv}" },
	{ NULL },
};

static const struct property device_properties[] = {
	{ "name", "s", true },
	{ "kind", "s", true },
	{ "port", "u", true },
	{ "state", "s" },
	{ "netdev", "s" },
	{ "gids", "as" },
	{ "mtu", "u" },
	{ "links", "u" },
	{ "critical", "b" },
	{ "drained", "b" },
	{ "down_text", "s" },
	{ "counters", "a{sv}" },
	{ NULL },
};

static const struct property linkgroup_properties[] = {
	{ "id", "u", true },
	{ "role", "s", true },
	{ "type", "s" },
	{ "version", "y", true },
	{ "dialect", "s", true },
	{ "peer_id", "s", true },
	{ "peer", "s", true },
	{ "vlan", "u", true },
	{ "max_links", "u" },
	{ "connections", "u" },
	{ "links", "u" },
	{ "rmbs", "u" },
	{ "peer_rmbs", "u" },
	{ "idle_ms", "t" },
	{ "release", "u", true },
	{ "eid", "s", true },
	{ "peer_host", "s", true },
	{ "peer_os", "s", true },
	{ "direct", "b", true },
	{ "max_connections", "u", true },
	{ NULL },
};

/* Numbers of queue pairs are for administrators, and who looks at properties is not known. */
static const struct property link_properties[] = {
	{ "linkgroup", "u", true },
	{ "number", "y", true },
	{ "peer", "s", true },
	{ "peer_host", "s", true },
	{ "state", "s" },
	{ "disabled", "b" },
	{ "rnic", "s", true },
	{ "port", "u", true },
	{ "local_gid", "s", true },
	{ "peer_gid", "s", true },
	{ "path_mtu", "u" },
	{ "uid", "u", true },
	{ "peer_uid", "u", true },
	{ "connections", "u" },
	{ "tx_bytes", "t" },
	{ "rx_bytes", "t" },
	{ "retransmits", "t" },
	{ "last_error", "s" },
	{ NULL },
};

static const struct kind {
	const char *interface, *prefix, *method;
	const struct property *properties;
} kinds[NUM_FORM_CLASSES] = {
	[FORM_MANAGER] = { BUS_MANAGER, BUS_ROOT, "info.show", manager_properties },
	[FORM_DEVICE] = { BUS_INTERFACE "Device1", BUS_ROOT "/device", "device.show",
			  device_properties },
	[FORM_LINKGROUP] = { BUS_INTERFACE "Linkgroup1", BUS_ROOT "/linkgroup", "linkgroup.show",
			     linkgroup_properties },
	[FORM_LINK] = { BUS_INTERFACE "Link1", BUS_ROOT "/link", "link.show", link_properties },
};

/* ---- paths ---- */

static void device_path(const char *name, char ret_path[BUS_PATH_LEN])
{
	char *path = NULL;
	*ret_path = '\0';
	if (sd_bus_path_encode(kinds[FORM_DEVICE].prefix, name, &path) >= 0 &&
	    strlen(path) < BUS_PATH_LEN)
		strcpy(ret_path, path);
	free(path);
}

static void linkgroup_path(uint32_t id, char ret_path[BUS_PATH_LEN])
{
	snprintf(ret_path, BUS_PATH_LEN, "%s/%" PRIu32, kinds[FORM_LINKGROUP].prefix, id);
}

static void link_path(uint32_t linkgroup, unsigned int number, char ret_path[BUS_PATH_LEN])
{
	snprintf(ret_path, BUS_PATH_LEN, "%s/%" PRIu32 "%c%u", kinds[FORM_LINK].prefix, linkgroup,
		 LINK_SEPARATOR, number);
}

static uint32_t number_at(const json_t *row, const char *key)
{
	return (uint32_t)json_integer_value(json_object_get(row, key));
}

void objects_path(enum form_class class, const json_t *row, char ret_path[BUS_PATH_LEN])
{
	const char *name = json_string_value(json_object_get(row, "name"));
	*ret_path = '\0';
	switch (class) {
	case FORM_DEVICE:
		if (name)
			device_path(name, ret_path);
		break;
	case FORM_LINKGROUP: linkgroup_path(number_at(row, "id"), ret_path); break;
	case FORM_LINK:
		link_path(number_at(row, "linkgroup"), number_at(row, "number"), ret_path);
		break;
	case FORM_MANAGER:
	case NUM_FORM_CLASSES: break;
	}
}

/* What a path names, if it is one that smcrd would give. */
static bool read_path(const char *path, struct bus_object *object)
{
	const struct kind *kind = &kinds[object->class];
	char written[BUS_PATH_LEN] = "", *name = NULL;
	const char *rest = path + strlen(kind->prefix);
	unsigned int link = 0;
	switch (object->class) {
	case FORM_DEVICE:
		if (sd_bus_path_decode(path, kind->prefix, &name) > 0 &&
		    strlen(name) < sizeof(object->name)) {
			strcpy(object->name, name);
			device_path(name, written);
		}
		free(name);
		break;
	case FORM_LINKGROUP:
		if (sscanf(rest, "/%" SCNu32, &object->linkgroup) == 1)
			linkgroup_path(object->linkgroup, written);
		break;
	case FORM_LINK:
		if (sscanf(rest, "/%" SCNu32 "_%u", &object->linkgroup, &link) == 2 &&
		    link <= UINT8_MAX)
			link_path(object->linkgroup, link, written);
		object->link = (uint8_t)link;
		break;
	case FORM_MANAGER:
	case NUM_FORM_CLASSES: return !*rest;
	}
	return !strcmp(written, path);
}

/* ---- objects ---- */

static bool is_it(const struct bus_object *object, const json_t *row)
{
	const char *name = json_string_value(json_object_get(row, "name"));
	switch (object->class) {
	case FORM_DEVICE: return name && !strcmp(name, object->name);
	case FORM_LINKGROUP: return number_at(row, "id") == object->linkgroup;
	case FORM_LINK:
		return number_at(row, "linkgroup") == object->linkgroup &&
		       number_at(row, "number") == object->link;
	case FORM_MANAGER:
	case NUM_FORM_CLASSES: break;
	}
	return true;
}

static json_t *look_at(const struct bus_object *object)
{
	json_t *params = NULL, *row = NULL;
	if (object->class == FORM_LINKGROUP || object->class == FORM_LINK)
		params = json_pack("{s:I}", "linkgroup", (json_int_t)object->linkgroup);
	json_t *result = bus_look(object->bus, kinds[object->class].method, params, NULL);
	if (object->class == FORM_MANAGER)
		return result;
	for (size_t i = 0; !row && i < json_array_size(result); i++)
		if (is_it(object, json_array_get(result, i)))
			row = json_incref(json_array_get(result, i));
	json_decref(result);
	return row;
}

static void forget(struct bus_object *object)
{
	json_decref(object->row);
	object->row = NULL;
}

/* sd-bus asks before each look at a path, and uses the answer at once. What is there of the manager
 * costs most, and is looked at only for properties. */
static int find(struct bus *bus, enum form_class class, const char *path, void **ret_found)
{
	struct bus_object object = { .bus = bus, .class = class };
	if (!read_path(path, &object))
		return 0;
	if (class != FORM_MANAGER && !(object.row = look_at(&object)))
		return 0;
	forget(&bus->found);
	bus->found = object;
	*ret_found = &bus->found;
	return 1;
}

/* sd-bus does not say which vtable it asks for; the interface does. */
static int on_find(sd_bus *sd, const char *path, const char *interface, void *userdata,
		   void **ret_found, sd_bus_error *ret_error)
{
	enum form_class class = FORM_MANAGER;
	(void)sd;
	(void)ret_error;
	while (class < NUM_FORM_CLASSES && strcmp(kinds[class].interface, interface) != 0)
		class ++;
	return class < NUM_FORM_CLASSES ? find(userdata, class, path, ret_found) : 0;
}

/* ---- properties ---- */

static const json_t *value_at(const json_t *row, const char *key)
{
	char name[FORM_NAME_LEN];
	const char *dot = strchr(key, '.');
	if (!dot)
		return json_object_get(row, key);
	snprintf(name, sizeof(name), "%.*s", (int)(dot - key), key);
	return json_object_get(json_object_get(row, name), dot + 1);
}

static const struct property *find_property(enum form_class class, const char *member)
{
	char name[FORM_NAME_LEN];
	const struct property *property = kinds[class].properties;
	for (; property->key; property++) {
		form_camel(property->key, name);
		if (!strcmp(name, member))
			return property;
	}
	return NULL;
}

static int on_property(sd_bus *sd, const char *path, const char *interface, const char *name,
		       sd_bus_message *reply, void *userdata, sd_bus_error *ret_error)
{
	struct bus_object *object = userdata;
	const struct property *property = find_property(object->class, name);
	(void)sd;
	(void)path;
	(void)interface;
	(void)ret_error;
	if (!object->row)
		object->row = look_at(object);
	if (!property || !object->row)
		return -ENOMEM;
	return values_append(reply, property->type, value_at(object->row, property->key));
}

/* ---- children ---- */

struct children {
	char **paths;
	size_t num;
};

static bool add_child(struct children *children, const char *path)
{
	if (children->num < BUS_MAX_CHILDREN && *path &&
	    (children->paths[children->num] = strdup(path)))
		children->num++;
	return children->num < BUS_MAX_CHILDREN;
}

static bool add_linkgroup(void *arg, const struct smcr_lgr_view *view)
{
	char path[BUS_PATH_LEN];
	linkgroup_path(view->id, path);
	return add_child(arg, path);
}

static bool add_link(void *arg, const struct smcr_link_view *view)
{
	char path[BUS_PATH_LEN];
	link_path(view->lgr_id, view->number, path);
	return add_child(arg, path);
}

static void add_devices(struct bus *bus, struct children *children)
{
	char path[BUS_PATH_LEN];
	json_t *rows = bus_look(bus, kinds[FORM_DEVICE].method, NULL, NULL);
	for (size_t i = 0; i < json_array_size(rows); i++) {
		objects_path(FORM_DEVICE, json_array_get(rows, i), path);
		if (!add_child(children, path))
			break;
	}
	json_decref(rows);
}

/* For introspection. What is behind the last of them is in the views. */
static int on_enumerate(sd_bus *sd, const char *prefix, void *userdata, char ***ret_nodes,
			sd_bus_error *ret_error)
{
	struct bus *bus = userdata;
	const struct smcr_engine *engine = bus->params.control->engine;
	struct children children = { 0 };
	(void)sd;
	(void)ret_error;
	children.paths = calloc(BUS_MAX_CHILDREN + 1, sizeof(*children.paths));
	if (!children.paths)
		return -ENOMEM;
	if (!strcmp(prefix, kinds[FORM_DEVICE].prefix))
		add_devices(bus, &children);
	else if (!strcmp(prefix, kinds[FORM_LINKGROUP].prefix))
		smcr_engine_walk_lgrs(engine, 0, add_linkgroup, &children);
	else
		smcr_engine_walk_links(engine, 0, add_link, &children);
	*ret_nodes = children.paths;
	return 0;
}

/* ---- what sd-bus is told ---- */

static int make_forms(struct bus_class *made, enum form_class class)
{
	struct control_method method;
	size_t num = 0;
	while (control_method(num, &method))
		num++;
	made->forms = calloc(num, sizeof(*made->forms));
	if (!made->forms)
		return -ENOMEM;
	for (size_t i = 0; control_method(i, &method); i++)
		if (form_make(&method, class, &made->forms[made->num_forms]))
			made->num_forms++;
	return 0;
}

static sd_bus_vtable method_entry(const struct form *form)
{
	/* Who may is for the control to say: sd-bus would ask, and wait for the answer. */
	sd_bus_vtable entry = SD_BUS_METHOD(form->member, form->in, form->out, calls_on_method,
					    SD_BUS_VTABLE_UNPRIVILEGED);
	entry.x.method.names = form->names;
	return entry;
}

/* The names live as long as the vtable: they are written behind each other. */
static sd_bus_vtable property_entry(const struct property *property, char *name)
{
	form_camel(property->key, name);
	return (sd_bus_vtable)SD_BUS_PROPERTY(name, property->type, on_property, 0,
					      property->constant ? SD_BUS_VTABLE_PROPERTY_CONST
								 : 0);
}

static size_t count_properties(enum form_class class)
{
	size_t num = 0;
	while (kinds[class].properties[num].key)
		num++;
	return num;
}

static int make_class(struct bus_class *made, enum form_class class)
{
	const size_t num_properties = count_properties(class);
	const size_t num_signals = class == FORM_MANAGER ? signals_list(NULL) : 0;
	if (make_forms(made, class) < 0)
		return -ENOMEM;
	size_t num = made->num_forms + num_properties + num_signals, at = 0;
	sd_bus_vtable *vtable = calloc(num + 2, sizeof(*vtable));
	char *names = calloc(num_properties, FORM_NAME_LEN);
	if (!vtable || !names) {
		free(vtable);
		free(names);
		return -ENOMEM;
	}
	made->vtable = vtable;
	made->names = names;
	vtable[at++] = (sd_bus_vtable)SD_BUS_VTABLE_START(0);
	for (size_t i = 0; i < made->num_forms; i++)
		vtable[at++] = method_entry(&made->forms[i]);
	for (size_t i = 0; i < num_properties; i++)
		vtable[at++] =
			property_entry(&kinds[class].properties[i], names + i * FORM_NAME_LEN);
	if (num_signals)
		at += signals_list(&vtable[at]);
	vtable[at] = (sd_bus_vtable)SD_BUS_VTABLE_END;
	return 0;
}

int objects_make(struct bus *bus)
{
	for (enum form_class class = FORM_MANAGER; class < NUM_FORM_CLASSES; class ++)
		if (make_class(&bus->classes[class], class) < 0)
			return -ENOMEM;
	return 0;
}

void objects_free(struct bus *bus)
{
	forget(&bus->found);
	for (enum form_class class = FORM_MANAGER; class < NUM_FORM_CLASSES; class ++) {
		free(bus->classes[class].forms);
		free(bus->classes[class].vtable);
		free(bus->classes[class].names);
	}
}

int objects_add(struct bus *bus)
{
	for (enum form_class class = FORM_MANAGER; class < NUM_FORM_CLASSES; class ++) {
		const struct kind *kind = &kinds[class];
		int r = sd_bus_add_fallback_vtable(bus->sd, NULL, kind->prefix, kind->interface,
						   bus->classes[class].vtable, on_find, bus);
		if (r >= 0 && class != FORM_MANAGER)
			r = sd_bus_add_node_enumerator(bus->sd, NULL, kind->prefix, on_enumerate,
						       bus);
		if (r < 0)
			return r;
	}
	return 0;
}

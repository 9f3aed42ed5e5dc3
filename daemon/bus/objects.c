/* SPDX-License-Identifier: MIT */
/*
 * Objects and their paths. There is no list of objects that has to be kept up to date: sd-bus asks
 * whether there is an object at a path, and properties are looked up when they are asked for, in
 * one row of the show method.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/bus/internal.h"
#include "daemon/fabric/fabric.h"

#define LINK_SEPARATOR '_' /* 3/2 is link/3_2 */

static const struct kind {
	const char *interface, *prefix, *method;
} kinds[NUM_FORM_CLASSES] = {
	[FORM_MANAGER] = { BUS_MANAGER, BUS_ROOT, "info.show" },
	[FORM_DEVICE] = { BUS_INTERFACE "Device1", BUS_ROOT "/device", "device.show" },
	[FORM_LINKGROUP] = { BUS_INTERFACE "Linkgroup1", BUS_ROOT "/linkgroup", "linkgroup.show" },
	[FORM_LINK] = { BUS_INTERFACE "Link1", BUS_ROOT "/link", "link.show" },
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
	case FORM_MANAGER: snprintf(ret_path, BUS_PATH_LEN, "%s", BUS_ROOT); break;
	case NUM_FORM_CLASSES: break;
	}
}

const char *objects_method(enum form_class class)
{
	return kinds[class].method;
}

const char *objects_interface(enum form_class class)
{
	return kinds[class].interface;
}

/* The object that a path names, if smcrd makes such paths. */
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
	json_t *result = thread_look(object->thread, kinds[object->class].method, params, NULL);
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

/* Find an object without asking the loop, while smcrd tells of objects or all are asked for.
 * @return false: it is not known */
static bool find_known(const struct bus_thread *thread, struct bus_object *object, const char *path)
{
	const struct place *place = places_find(thread->shown, path);
	if (!place && thread->asks_for_all)
		place = places_find(thread->told, path);
	if (place)
		object->row = json_incref(place->row);
	/* An object that is gone still exists while smcrd tells that it is gone. */
	return place || (thread->leaving && !strcmp(thread->leaving, path));
}

/* sd-bus asks before each use of a path, and uses the answer at once. The row of the manager takes
 * longest, and is read only for properties. */
static int find(struct bus_thread *thread, enum form_class class, const char *path,
		void **ret_found)
{
	struct bus_object object = { .thread = thread, .class = class };
	if (!read_path(path, &object))
		return 0;
	if (!find_known(thread, &object, path) && class != FORM_MANAGER &&
	    !(object.row = look_at(&object)))
		return 0;
	forget(&thread->found);
	thread->found = object;
	*ret_found = &thread->found;
	return 1;
}

/* sd-bus does not tell the vtable, but the interface identifies it. */
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

static int on_property(sd_bus *sd, const char *path, const char *interface, const char *name,
		       sd_bus_message *reply, void *userdata, sd_bus_error *ret_error)
{
	struct bus_object *object = userdata;
	(void)sd;
	(void)path;
	(void)interface;
	(void)ret_error;
	if (!object->row)
		object->row = look_at(object);
	return object->row ? properties_append(reply, object->class, name, object->row) : -ENOMEM;
}

/* ---- children ---- */

/* sd-bus asks for the children of the path that was called. Introspection shows only those right
 * below, so that is enough; all objects are asked for at a path further up. */
static bool is_wanted(sd_bus *sd, enum form_class class, const char *prefix)
{
	sd_bus_message *message = sd_bus_get_current_message(sd);
	return !strcmp(prefix, kinds[class].prefix) ||
	       (message && !strcmp(sd_bus_message_get_member(message), "GetManagedObjects"));
}

static bool begin_all(struct bus_thread *thread)
{
	thread->all_since = fabric_now();
	thread->asks_for_all = thread->long_answer = track_look(thread);
	return thread->asks_for_all;
}

static int on_enumerate(sd_bus *sd, const char *prefix, void *userdata, char ***ret_nodes,
			sd_bus_error *ret_error)
{
	const struct bus_class *of = userdata;
	struct bus_thread *thread = of->thread;
	struct place *place, *next;
	size_t num = 0;
	(void)ret_error;
	if (!is_wanted(sd, of->class, prefix))
		return 0;
	/* Read the objects only once for all classes, so that the answers fit each other. */
	if (!thread->asks_for_all && !begin_all(thread))
		return -ENOMEM;
	char **paths = calloc(HASH_COUNT(thread->told) + 1, sizeof(*paths));
	if (!paths)
		return -ENOMEM;
	HASH_ITER (hh, thread->told, place, next)
		if (place->class == of->class && (paths[num] = strdup(place->path)))
			num++;
	*ret_nodes = paths;
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
	/* daemon/control decides who may call: sd-bus would ask the bus and block. */
	sd_bus_vtable entry = SD_BUS_METHOD(form->member, form->in, form->out, calls_on_method,
					    SD_BUS_VTABLE_UNPRIVILEGED);
	entry.x.method.names = form->names;
	return entry;
}

/* The names exist as long as the vtable; they are stored one behind the other. */
static sd_bus_vtable property_entry(const struct property *property, char *name)
{
	static const uint64_t flags[] = { [PROPERTY_COUNTS] = 0,
					  [PROPERTY_STAYS] = SD_BUS_VTABLE_PROPERTY_CONST,
					  [PROPERTY_CHANGES] =
						  SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE };
	form_camel(property->key, name);
	return (sd_bus_vtable)SD_BUS_PROPERTY(name, property->type, on_property, 0,
					      flags[property->how]);
}

static int make_class(struct bus_class *made, enum form_class class)
{
	const struct property *properties = properties_of(class);
	size_t num_properties = 0;
	while (properties[num_properties].key)
		num_properties++;
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
		vtable[at++] = property_entry(&properties[i], names + i * FORM_NAME_LEN);
	if (num_signals)
		at += signals_list(&vtable[at]);
	vtable[at] = (sd_bus_vtable)SD_BUS_VTABLE_END;
	return 0;
}

int objects_make(struct bus_thread *thread)
{
	for (enum form_class class = FORM_MANAGER; class < NUM_FORM_CLASSES; class ++) {
		thread->classes[class].thread = thread;
		thread->classes[class].class = class;
		if (make_class(&thread->classes[class], class) < 0)
			return -ENOMEM;
	}
	return 0;
}

void objects_free(struct bus_thread *thread)
{
	forget(&thread->found);
	for (enum form_class class = FORM_MANAGER; class < NUM_FORM_CLASSES; class ++) {
		free(thread->classes[class].forms);
		free(thread->classes[class].vtable);
		free(thread->classes[class].names);
	}
}

int objects_add(struct bus_thread *thread)
{
	int added = sd_bus_add_object_manager(thread->sd, NULL, BUS_ROOT);
	if (added < 0)
		return added;
	for (enum form_class class = FORM_MANAGER; class < NUM_FORM_CLASSES; class ++) {
		const struct kind *kind = &kinds[class];
		int r = sd_bus_add_fallback_vtable(thread->sd, NULL, kind->prefix, kind->interface,
						   thread->classes[class].vtable, on_find, thread);
		if (r >= 0 && class != FORM_MANAGER)
			r = sd_bus_add_node_enumerator(thread->sd, NULL, kind->prefix, on_enumerate,
						       &thread->classes[class]);
		if (r < 0)
			return r;
	}
	return 0;
}

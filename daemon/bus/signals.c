/* SPDX-License-Identifier: MIT */
/*
 * Events as signals, like `smcrctl monitor`. They are read from the kept events, so that events
 * which come faster than the bus takes them need no memory; events that were removed meanwhile are
 * counted.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/bus/internal.h"
#include "daemon/bus/values.h"

static const char signature[] = "ttsa{sv}";
static const char names[] = "id\0time_us\0text\0details\0";
static const char lost[] = "EventsLost";

size_t signals_list(sd_bus_vtable *ret_signals)
{
	static char members[NUM_EVENT_KINDS][FORM_NAME_LEN];
	for (int kind = 0; ret_signals && kind < NUM_EVENT_KINDS; kind++) {
		form_camel(event_kind_name((enum event_kind)kind), members[kind]);
		ret_signals[kind] = (sd_bus_vtable)SD_BUS_SIGNAL(members[kind], signature, 0);
		ret_signals[kind].x.signal.names = names;
	}
	if (ret_signals)
		ret_signals[NUM_EVENT_KINDS] =
			(sd_bus_vtable)SD_BUS_SIGNAL_WITH_NAMES(lost, "t", "number\0", 0);
	return NUM_EVENT_KINDS + 1;
}

static json_t *pop(json_t *row, const char *key)
{
	json_t *value = json_incref(json_object_get(row, key));
	json_object_del(row, key);
	return value;
}

/* The path of the object that the event is about, even if it is gone. */
static void add_object(json_t *row)
{
	char path[BUS_PATH_LEN] = "";
	const json_t *group = json_object_get(row, "linkgroup"),
		     *link = json_object_get(row, "link");
	const json_t *rnic = json_object_get(row, "rnic");
	json_t *named = json_pack("{s:O?, s:O?, s:O?, s:O?}", "id", group, "linkgroup", group,
				  "number", link, "name", rnic);
	if (json_is_integer(link))
		objects_path(FORM_LINK, named, path);
	else if (json_is_integer(group))
		objects_path(FORM_LINKGROUP, named, path);
	else if (json_is_string(rnic))
		objects_path(FORM_DEVICE, named, path);
	if (*path)
		json_object_set_new(row, "object", json_string(path));
	json_decref(named);
}

static int fill(sd_bus_message *signal, json_t *row)
{
	json_t *id = pop(row, "id"), *time_us = pop(row, "time_us"), *text = pop(row, "text");
	int r = values_append(signal, "t", id);
	if (r >= 0)
		r = values_append(signal, "t", time_us);
	if (r >= 0)
		r = values_append(signal, "s", text);
	add_object(row);
	if (r >= 0)
		r = values_append_object(signal, row);
	json_decref(id);
	json_decref(time_us);
	json_decref(text);
	return r;
}

static void send_lost(struct bus_thread *thread, uint64_t number)
{
	thread->lost += number;
	if (sd_bus_emit_signal(thread->sd, BUS_ROOT, BUS_MANAGER, lost, "t", thread->lost) >= 0)
		thread->lost = 0; /* else the next signal tells the number */
}

static void send_event(struct bus_thread *thread, json_t *row)
{
	char member[FORM_NAME_LEN];
	sd_bus_message *signal = NULL;
	json_t *kind = pop(row, "event");
	form_camel(json_string_value(kind), member);
	int r = sd_bus_message_new_signal(thread->sd, &signal, BUS_ROOT, BUS_MANAGER, member);
	if (r >= 0)
		r = fill(signal, row);
	if (r >= 0)
		r = sd_bus_send(thread->sd, signal, NULL);
	if (r < 0)
		send_lost(thread, 1);
	sd_bus_message_unref(signal);
	json_decref(kind);
}

static json_t *events_behind(struct bus_thread *thread, uint64_t after,
			     char ret_next[BUS_PLACE_LEN])
{
	char place[BUS_PLACE_LEN];
	snprintf(place, sizeof(place), "event:%" PRIu64, after);
	return thread_look(thread, "event.show", json_pack("{s:s}", "after", place), ret_next);
}

/* Programs that connect later can read earlier events with ShowEvent. */
static bool begin(struct bus_thread *thread, uint64_t last)
{
	if (!thread->events_begun)
		thread->last_event = last;
	thread->events_begun = true;
	return thread->last_event < last;
}

/* Tell the events of a part. @param last id of the last event */
static void send_part(struct bus_thread *thread, uint64_t last)
{
	char next[BUS_PLACE_LEN];
	json_t *rows = events_behind(thread, thread->last_event, next);
	for (size_t i = 0; i < json_array_size(rows); i++) {
		json_t *row = json_array_get(rows, i);
		uint64_t id = (uint64_t)json_integer_value(json_object_get(row, "id"));
		if (id > thread->last_event + 1)
			send_lost(thread, id - thread->last_event - 1);
		thread->last_event = id;
		send_event(thread, row);
	}
	if (rows && !*next && thread->last_event < last) {
		send_lost(thread, last - thread->last_event);
		thread->last_event = last;
	}
	json_decref(rows);
}

void signals_send(struct bus_thread *thread, uint64_t now)
{
	if (!thread->served || now < thread->signals_at)
		return;
	const uint64_t last = atomic_load(&thread->orders->last_event);
	thread->signals_at = 0;
	if (!begin(thread, last) || thread_is_clogged(thread))
		return;
	send_part(thread, last);
	thread->signals_at = now + BUS_SIGNALS_PAUSE_MS * 1000;
}

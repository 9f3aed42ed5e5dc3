/* SPDX-License-Identifier: MIT */
/*
 * Tells the bus of objects that come, go and change. After an event all objects are read, and the
 * differences from what was told before are told. So it does not matter how many events there were,
 * or whether some were lost: objects that came and went in between are not told, nothing is queued,
 * and in the end the bus knows the present objects. How often this is done depends on how long it
 * takes.
 *
 * A call that asks for all objects gets them as told last: together with the signals from then on,
 * that is the present state.
 */
#include "daemon/bus/internal.h"
#include "daemon/fabric/fabric.h"

#define PAUSE_US UINT64_C(100000)
#define PAUSE    4 /* times as long as it took */

/* The manager comes with smcrd's name. */
static bool tell_new(struct bus_thread *thread, const struct place *shown)
{
	return !thread->tracks || shown->class == FORM_MANAGER ||
	       sd_bus_emit_object_added(thread->sd, shown->path) >= 0;
}

static bool tell_gone(struct bus_thread *thread, const char *path)
{
	thread->leaving = path;
	int r = sd_bus_emit_object_removed(thread->sd, path);
	thread->leaving = NULL;
	return r >= 0;
}

static bool tell_changes(struct bus_thread *thread, const struct place *told,
			 const struct place *shown)
{
	char names[BUS_MAX_WATCHED][FORM_NAME_LEN], *list[BUS_MAX_WATCHED + 1];
	const size_t num = properties_changed(told->class, told->row, shown->row, names);
	for (size_t i = 0; i < num; i++)
		list[i] = names[i];
	list[num] = NULL;
	return !num || sd_bus_emit_properties_changed_strv(
			       thread->sd, told->path, objects_interface(told->class), list) >= 0;
}

/* Changes that cannot be told now are told the next time, as they still differ. */
static void tell_place(struct bus_thread *thread, struct place *shown)
{
	struct place *told = places_find(thread->told, shown->path);
	bool good = !thread_is_clogged(thread);
	if (good && told) {
		good = tell_changes(thread, told, shown);
		if (good) {
			json_decref(told->row);
			told->row = json_incref(shown->row);
		}
	} else if (good) {
		good = tell_new(thread, shown) &&
		       places_add(&thread->told, shown->class, shown->path, shown->row);
	}
	thread->track_again |= !good;
}

static void tell_departures(struct bus_thread *thread)
{
	struct place *told, *next;
	HASH_ITER (hh, thread->told, told, next) {
		if (places_find(thread->shown, told->path))
			continue;
		if (thread_is_clogged(thread) || !tell_gone(thread, told->path))
			thread->track_again = true;
		else
			places_remove(&thread->told, told);
	}
}

static bool tell_all(struct bus_thread *thread)
{
	struct place *shown, *next;
	for (enum form_class class = FORM_MANAGER; class < NUM_FORM_CLASSES; class ++)
		if (!places_look(thread, class, &thread->shown))
			return false;
	HASH_ITER (hh, thread->shown, shown, next)
		tell_place(thread, shown);
	tell_departures(thread);
	return true;
}

static void look_at_all(struct bus_thread *thread)
{
	const uint64_t begun = fabric_now();
	thread->tracked_event = atomic_load(&thread->orders->last_event);
	thread->track_again = false;
	if (tell_all(thread))
		thread->tracks = true;
	else
		thread->track_again = true;
	places_clear(&thread->shown);
	const uint64_t now = fabric_now(), pause = (now - begun) * PAUSE;
	thread->track_soon = now + (pause > PAUSE_US ? pause : PAUSE_US);
	thread->track_late = thread->track_soon + thread->orders->silence_us;
}

uint64_t track_due(const struct bus_thread *thread)
{
	const bool happened = thread->tracked_event != atomic_load(&thread->orders->last_event);
	return happened || thread->track_again ? thread->track_soon : thread->track_late;
}

void track_send(struct bus_thread *thread)
{
	if (thread->served && fabric_now() >= track_due(thread) && !thread_is_clogged(thread))
		look_at_all(thread);
}

bool track_look(struct bus_thread *thread)
{
	if (fabric_now() >= thread->track_soon)
		look_at_all(thread);
	return thread->tracks;
}

void track_forget(struct bus_thread *thread)
{
	places_clear(&thread->told);
	thread->tracks = thread->track_again = false;
	thread->track_soon = thread->track_late = 0;
}

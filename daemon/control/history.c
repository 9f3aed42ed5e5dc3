/* SPDX-License-Identifier: MIT */
/* What has happened: daemon/events as JSON. */
#include "daemon/control/views.h"

static const char *const sections[] = { "event" };

struct part {
	struct page *page;
	json_t *list;
};

static json_t *json_or_null(bool is_there, json_int_t value)
{
	return is_there ? json_integer(value) : json_null();
}

static bool add_event(void *arg, const struct event_record *event)
{
	const struct part *part = arg;
	json_t *row =
		json_pack("{s:I, s:I, s:s, s:o, s:o, s:o, s:o, s:o, s:s}", "id",
			  (json_int_t)event->id, "time_us", (json_int_t)event->time_us, "event",
			  event_kind_name(event->kind), "peer", control_json_host(&event->peer),
			  "linkgroup", json_or_null(event->group, event->group), "link",
			  json_or_null(event->link, event->link), "rnic",
			  *event->rnic ? json_string(event->rnic) : json_null(), "connections",
			  json_or_null(event->group, event->connections), "text", event->text);
	return page_add(part->page, part->list, row, sections[0], event->id);
}

json_t *control_show_events(struct control *control, struct page *page, struct refusal *refusal)
{
	size_t section;
	uint64_t after;
	if (!page_begin(page, sections, 1, &section, &after, refusal))
		return NULL;
	struct part part = { page, json_array() };
	if (control->events)
		events_walk(control->events, after, add_event, &part);
	return part.list;
}

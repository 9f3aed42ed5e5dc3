/* SPDX-License-Identifier: MIT */
/* The events of daemon/events as JSON. */
#include <errno.h>

#include "daemon/control/views.h"

static const char *const sections[] = { "event" };

struct part {
	struct page *page;
	json_t *list;
	struct filter filter;
	uint64_t seen, last; /* how many were checked, and the id of the last one */
};

static json_t *json_or_null(bool is_there, json_int_t value)
{
	return is_there ? json_integer(value) : json_null();
}

static json_t *json_reason(uint32_t reason)
{
	return reason ? json_string(smcr_reason_name(reason)) : json_null();
}

static bool add_event(void *arg, const struct event_record *event)
{
	struct part *part = arg;
	part->seen++;
	part->last = event->id;
	if (!filter_peer(&part->filter, &event->peer) || !filter_group(&part->filter, event->group))
		return page_skip(part->page, sections[0], event->id);
	json_t *row =
		json_pack("{s:I, s:I, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s}", "id",
			  (json_int_t)event->id, "time_us", (json_int_t)event->time_us, "event",
			  event_kind_name(event->kind), "peer", control_json_host(&event->peer),
			  "linkgroup", json_or_null(event->group, event->group), "link",
			  json_or_null(event->link, event->link), "rnic",
			  *event->rnic ? json_string(event->rnic) : json_null(), "connections",
			  json_or_null(event->group, event->connections), "reason",
			  json_reason(event->reason), "peer_reason",
			  json_reason(event->peer_reason), "text", event->text);
	return page_add(part->page, part->list, row, sections[0], event->id);
}

json_t *control_show_events(struct control *control, struct page *page, struct refusal *refusal)
{
	size_t section;
	uint64_t after;
	struct part part = { .page = page };
	if (!page_begin(page, sections, 1, &section, &after, refusal) ||
	    !filter_take(page->params, NULL, &part.filter, refusal))
		return NULL;
	part.list = json_array();
	if (control->events)
		events_walk(control->events, after, add_event, &part);
	return part.list;
}

static json_t *refuse_future(struct refusal *refusal)
{
	refusal->parameter = "after";
	return refuse(refusal, EINVAL, "bad-parameter",
		      "\"after\" is an event that has not happened: give what \"next\" was in the "
		      "reply before");
}

/* Ids count up by one: events with missing ids were removed before anybody saw them. With a filter
 * the answer may have no event: the caller then goes on behind those that were left out. */
json_t *control_wait_for_events(struct control *control, struct page *page, struct refusal *refusal)
{
	size_t section;
	uint64_t after;
	struct part part = { .page = page };
	if (!page_begin(page, sections, 1, &section, &after, refusal) ||
	    !filter_take(page->params, NULL, &part.filter, refusal))
		return NULL;
	uint64_t last = control->events ? events_last_id(control->events) : 0;
	if (!page->after)
		after = last;
	else if (after > last)
		return refuse_future(refusal);
	part.list = json_array();
	part.last = after;
	if (control->events)
		events_walk(control->events, after, add_event, &part);
	if (page->after && part.seen == 0) {
		json_decref(part.list);
		page->wait = true;
		return NULL;
	}
	page_end(page, sections[0], part.last);
	return json_pack("{s:o, s:I}", "events", part.list, "lost",
			 (json_int_t)(part.last - after - part.seen));
}

/* SPDX-License-Identifier: MIT */
/* RDMA connections of the connection manager, and who listens for them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cm/cm.h"
#include "daemon/control/views.h"
#include "proto/ibcm/text.h"

/* At least as many as a part has. */
#define MOST_ROWS 64

enum section { LISTENERS, LIVE, ENDED, NUM_SECTIONS };
static const char *const sections[NUM_SECTIONS] = { "listener", "live", "ended" };

struct part {
	struct page *page;
	struct filter filter;
	json_t *listeners, *connections;
	uint64_t after; /* of the section that the part begins in */
};

/* ---- small pieces ---- */

struct smcr_addr control_cm_addr(const struct cm_addr *addr)
{
	struct smcr_addr same = { .family = addr->family, .port = addr->port };
	memcpy(same.ip, addr->addr, sizeof(same.ip));
	return same;
}

static json_t *json_addr(const struct cm_addr *addr)
{
	const struct smcr_addr same = control_cm_addr(addr);
	return control_json_addr(&same);
}

json_t *control_json_hex(const uint8_t *bytes, size_t len)
{
	char text[2 * CM_PRIVATE_MAX + 1];
	while (len > 0 && bytes[len - 1] == 0)
		len--;
	if (len == 0 || len > CM_PRIVATE_MAX)
		return json_null();
	for (size_t i = 0; i < len; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	return json_string(text);
}

/* With these numbers packets and messages can be forged, and private data are of programs: only
 * administrators see them. */
static json_t *json_secret(const struct page *page, uint32_t value)
{
	return page->administrator && value ? json_integer(value) : json_null();
}

static const char *state_name(int state)
{
	return state <= CM_STATE_ENDED ? cm_state_name((enum cm_state)state) : "unknown";
}

/* ---- listeners ---- */

struct listeners {
	struct part *part;
	uint64_t number; /* of the last one looked at; counted, as listeners have none */
	bool full;
};

/* Whoever asks for connections with a peer or in a state does not ask for listeners. */
static bool wants_listener(const struct filter *filter, const struct cm_listener_view *view)
{
	return !filter->peer.family && !filter->state && filter_port(filter, view->local.port, 0);
}

static void add_listener(void *arg, const struct cm_listener_view *view)
{
	struct listeners *listeners = arg;
	struct part *part = listeners->part;
	listeners->number++;
	if (listeners->full || listeners->number <= part->after ||
	    !wants_listener(&part->filter, view))
		return;
	json_t *row = json_pack("{s:o, s:I, s:I, s:I, s:I}", "local", json_addr(&view->local),
				"requests", (json_int_t)view->requests, "accepted",
				(json_int_t)view->accepted, "refused", (json_int_t)view->refused,
				"waiting", (json_int_t)view->waiting);
	listeners->full =
		!page_add(part->page, part->listeners, row, sections[LISTENERS], listeners->number);
}

/* ---- connections ---- */

static void set_secrets(json_t *row, const struct page *page, const struct cm_conn_view *view)
{
	json_object_set_new(row, "local_qpn", json_secret(page, view->local_qpn));
	json_object_set_new(row, "peer_qpn", json_secret(page, view->peer_qpn));
	json_object_set_new(row, "local_id", json_secret(page, view->local_id));
	json_object_set_new(row, "peer_id", json_secret(page, view->peer_id));
	json_object_set_new(row, "private_data",
			    page->administrator
				    ? control_json_hex(view->private_data, view->private_len)
				    : json_null());
}

static void set_end(json_t *row, const struct cm_conn_view *view)
{
	const uint16_t reason = view->reject_reason;
	json_object_set_new(row, "end", control_json_text(cm_end_name(view->end)));
	json_object_set_new(row, "text", control_json_text(view->text));
	json_object_set_new(row, "reject_code", reason ? json_integer(reason) : json_null());
	json_object_set_new(row, "reject_reason",
			    reason ? json_string(ibcm_reject_name(reason)) : json_null());
	json_object_set_new(row, "reject_text",
			    reason ? json_string(ibcm_reject_text(reason)) : json_null());
}

static json_t *connection(const struct page *page, const struct cm_conn_view *view)
{
	json_t *row = json_pack(
		"{s:I, s:o, s:s, s:s, s:o, s:o, s:s, s:o, s:i, s:i, s:I, s:I, s:I}", "id",
		(json_int_t)view->number, "time_us", control_json_time(view->age_us), "state",
		cm_state_name(view->state), "direction", view->active ? "active" : "passive",
		"local", json_addr(&view->local), "peer", json_addr(&view->peer), "rnic",
		view->rnic, "path_mtu", control_json_mtu(view->path_mtu), "reads_answered",
		view->reads_answered, "reads_asked", view->reads_asked, "age_ms",
		(json_int_t)(view->age_us / 1000), "idle_ms", (json_int_t)(view->idle_us / 1000),
		"resends", (json_int_t)view->resends);
	set_secrets(row, page, view);
	set_end(row, view);
	return row;
}

/** The newest rows of a section that are older than the last one of the part before. Connections
 * may end in any order, so the order of the walk does not help. */
struct newest {
	const struct part *part;
	bool ended;
	size_t num;
	struct cm_conn_view *rows[MOST_ROWS]; /* newest first */
	struct cm_conn_view room[MOST_ROWS];
};

static bool wants(const struct newest *newest, const struct cm_conn_view *view)
{
	const struct filter *filter = &newest->part->filter;
	const struct smcr_addr peer = control_cm_addr(&view->peer);
	return (view->state == CM_STATE_ENDED) == newest->ended &&
	       (!newest->part->after || view->number < newest->part->after) &&
	       filter_peer(filter, &peer) &&
	       filter_port(filter, view->local.port, view->peer.port) &&
	       filter_name(filter->state, cm_state_name(view->state));
}

static bool keep(void *arg, const struct cm_conn_view *view)
{
	struct newest *newest = arg;
	size_t at = newest->num;
	if (!wants(newest, view))
		return true;
	while (at > 0 && newest->rows[at - 1]->number < view->number)
		at--;
	if (at == MOST_ROWS)
		return true;
	/* Its copy goes where the oldest row was, which is pushed out. */
	struct cm_conn_view *copy = newest->num < MOST_ROWS ? &newest->room[newest->num++]
							    : newest->rows[MOST_ROWS - 1];
	*copy = *view;
	memmove(&newest->rows[at + 1], &newest->rows[at],
		(newest->num - 1 - at) * sizeof(newest->rows[0]));
	newest->rows[at] = copy;
	return true;
}

/* @return false: the part is full, or there was no memory */
static bool add_connections(struct control *control, struct part *part, bool ended)
{
	struct newest *newest = calloc(1, sizeof(*newest));
	bool more = newest != NULL;
	if (!newest) {
		part->page->incomplete = true;
		return false;
	}
	newest->part = part;
	newest->ended = ended;
	cm_each_conn(control->cm, keep, newest);
	for (size_t i = 0; more && i < newest->num; i++)
		more = page_add(part->page, part->connections,
				connection(part->page, newest->rows[i]),
				sections[ended ? ENDED : LIVE], newest->rows[i]->number);
	free(newest);
	return more;
}

/* ---- the view ---- */

static void fill(struct control *control, struct part *part, size_t section)
{
	struct listeners listeners = { .part = part };
	if (section == LISTENERS) {
		cm_each_listener(control->cm, add_listener, &listeners);
		part->after = 0;
		if (listeners.full)
			return;
	}
	if (section != ENDED) {
		if (!add_connections(control, part, false))
			return;
		part->after = 0;
	}
	add_connections(control, part, true);
}

json_t *control_show_cm(struct control *control, struct page *page, struct refusal *refusal)
{
	struct part part = { .page = page };
	size_t section;
	if (!page_begin(page, sections, NUM_SECTIONS, &section, &part.after, refusal) ||
	    !filter_take(page->params, state_name, &part.filter, refusal))
		return NULL;
	part.listeners = json_array();
	part.connections = json_array();
	if (control->cm)
		fill(control, &part, section);
	return json_pack("{s:o, s:o}", "listeners", part.listeners, "connections",
			 part.connections);
}

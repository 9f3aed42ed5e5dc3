/* SPDX-License-Identifier: MIT */
/* Connections of SMB Direct, and where they are taken. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/control/views.h"
#include "daemon/smbgate/gate.h"

enum section { LISTENERS, LIVE, ENDED, NUM_SECTIONS };
static const char *const sections[NUM_SECTIONS] = { "listener", "live", "ended" };

struct part {
	struct page *page;
	struct filter filter;
	json_t *listeners, *connections;
	uint64_t after; /* of the section that the part begins in */
};

/* ---- small pieces ---- */

static json_t *json_addr(const struct cm_addr *addr)
{
	const struct smcr_addr same = control_cm_addr(addr);
	return control_json_addr(&same);
}

static json_t *json_u64(uint64_t value)
{
	return json_integer((json_int_t)value);
}

static const char *side_name(bool serves)
{
	return serves ? "server" : "client";
}

static const char *state_name(int state)
{
	return state <= SMBGATE_ENDED ? smbgate_state_name((enum smbgate_state)state) : "unknown";
}

/* ---- listeners ---- */

struct listeners {
	struct part *part;
	uint64_t number; /* of the last one looked at; counted, as listeners have none */
	bool full;
};

/* Whoever asks for connections with a peer or in a state does not ask for listeners; their port is
 * behind the last colon. */
static bool wants_listener(const struct filter *filter, const struct smbgate_listener_view *view)
{
	const char *port = strrchr(view->listen, ':');
	return !filter->peer.family && !filter->state &&
	       filter_port(filter, (uint16_t)(port ? atoi(port + 1) : 0), 0);
}

static void add_listener(void *arg, const struct smbgate_listener_view *view)
{
	struct listeners *listeners = arg;
	struct part *part = listeners->part;
	listeners->number++;
	if (listeners->full || listeners->number <= part->after ||
	    !wants_listener(&part->filter, view))
		return;
	json_t *row =
		json_pack("{s:s, s:s, s:s, s:I, s:I, s:o, s:o}", "side", side_name(view->serves),
			  "listens", view->listen, "leads_to", view->leads_to, "taken",
			  (json_int_t)view->taken, "refused", (json_int_t)view->refused, "errno",
			  view->error ? json_integer(-view->error) : json_null(), "error",
			  control_json_text(view->text));
	listeners->full =
		!page_add(part->page, part->listeners, row, sections[LISTENERS], listeners->number);
}

/* ---- connections ---- */

static void set_sizes(json_t *row, const struct smbd_view *smbd)
{
	json_object_set_new(row, "max_send_bytes", json_u64(smbd->max_send_size));
	json_object_set_new(row, "max_receive_bytes", json_u64(smbd->max_receive_size));
	json_object_set_new(row, "max_message_sent_bytes",
			    json_u64(smbd->max_fragmented_send_size));
	json_object_set_new(row, "max_message_received_bytes",
			    json_u64(smbd->max_fragmented_receive_size));
	json_object_set_new(row, "max_rdma_bytes", json_u64(smbd->max_read_write_size));
	json_object_set_new(row, "keepalive_ms", json_u64(smbd->keepalive_us / 1000));
}

static void set_credits(json_t *row, const struct smbd_view *smbd)
{
	json_object_set_new(row, "send_credits", json_u64(smbd->send_credits));
	json_object_set_new(row, "receive_credits", json_u64(smbd->receive_credits));
	json_object_set_new(row, "send_credits_wanted", json_u64(smbd->send_target));
	json_object_set_new(row, "receive_credits_wanted", json_u64(smbd->receive_target));
}

static void set_traffic(json_t *row, const struct smbgate_view *view)
{
	const struct smbd_view *smbd = &view->smbd;
	json_object_set_new(row, "tx_bytes", json_u64(smbd->bytes_sent));
	json_object_set_new(row, "rx_bytes", json_u64(smbd->bytes_received));
	json_object_set_new(row, "tx_messages", json_u64(smbd->messages_sent));
	json_object_set_new(row, "rx_messages", json_u64(smbd->messages_received));
	json_object_set_new(row, "tx_fragments", json_u64(smbd->fragments_sent));
	json_object_set_new(row, "rx_fragments", json_u64(smbd->fragments_received));
	json_object_set_new(row, "queued_bytes", json_u64(smbd->queued_bytes));
	json_object_set_new(row, "rdma_read_bytes", json_u64(view->rdma_read));
	json_object_set_new(row, "rdma_write_bytes", json_u64(view->rdma_written));
	json_object_set_new(row, "channels_served", json_u64(view->channels_served));
	json_object_set_new(row, "channels_refused", json_u64(view->channels_refused));
	json_object_set_new(row, "memory_bytes", json_u64(view->memory));
}

static json_t *connection(const struct smbgate_view *view)
{
	json_t *row = json_pack(
		"{s:I, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o}", "id",
		(json_int_t)view->number, "state", smbgate_state_name(view->state), "side",
		side_name(view->serves), "time_us", control_json_time(view->age_us), "local",
		json_addr(&view->local), "peer", json_addr(&view->peer), "rnic",
		control_json_text(view->rnic), "tcp", control_json_text(view->user), "age_ms",
		(json_int_t)(view->age_us / 1000), "lasted_ms",
		(json_int_t)(view->lasted_us / 1000), "text", control_json_text(view->why));
	set_credits(row, &view->smbd);
	set_sizes(row, &view->smbd);
	set_traffic(row, view);
	return row;
}

/** The rows of a section. */
struct rows {
	const struct part *part;
	bool ended;
	size_t num, room;
	struct smbgate_view *views; /* NULL: they are only counted */
};

static bool wants(const struct rows *rows, const struct smbgate_view *view)
{
	const struct filter *filter = &rows->part->filter;
	const struct smcr_addr peer = control_cm_addr(&view->peer);
	return (view->state == SMBGATE_ENDED) == rows->ended &&
	       (!rows->part->after || view->number < rows->part->after) &&
	       filter_peer(filter, &peer) &&
	       filter_port(filter, view->local.port, view->peer.port) &&
	       filter_name(filter->state, smbgate_state_name(view->state));
}

static bool take(void *arg, const struct smbgate_view *view)
{
	struct rows *rows = arg;
	if (!wants(rows, view))
		return true;
	if (rows->views && rows->num < rows->room)
		rows->views[rows->num] = *view;
	rows->num++;
	return true;
}

static int newest_first(const void *a, const void *b)
{
	const struct smbgate_view *left = a, *right = b;
	return left->number < right->number ? 1 : -1;
}

/* Connections end in any order, so they are ordered by number. @return false: the part is full, or
 * there was no memory */
static bool add_connections(struct control *control, struct part *part, bool ended)
{
	struct rows rows = { .part = part, .ended = ended };
	bool more = true;
	smbgate_each(control->smbgate, take, &rows);
	if (rows.num == 0)
		return true;
	rows.room = rows.num;
	rows.num = 0;
	rows.views = calloc(rows.room, sizeof(*rows.views));
	if (!rows.views) {
		part->page->incomplete = true;
		return false;
	}
	smbgate_each(control->smbgate, take, &rows);
	qsort(rows.views, rows.num, sizeof(*rows.views), newest_first);
	for (size_t i = 0; more && i < rows.num; i++)
		more = page_add(part->page, part->connections, connection(&rows.views[i]),
				sections[ended ? ENDED : LIVE], rows.views[i].number);
	free(rows.views);
	return more;
}

/* ---- the view ---- */

static void fill(struct control *control, struct part *part, size_t section)
{
	struct listeners listeners = { .part = part };
	if (section == LISTENERS) {
		smbgate_each_listener(control->smbgate, add_listener, &listeners);
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

json_t *control_show_smbdirect(struct control *control, struct page *page, struct refusal *refusal)
{
	struct part part = { .page = page };
	size_t section;
	if (!page_begin(page, sections, NUM_SECTIONS, &section, &part.after, refusal) ||
	    !filter_take(page->params, state_name, &part.filter, refusal))
		return NULL;
	part.listeners = json_array();
	part.connections = json_array();
	if (control->smbgate)
		fill(control, &part, section);
	return json_pack("{s:o, s:o}", "listeners", part.listeners, "connections",
			 part.connections);
}

/* ---- disconnecting ---- */

json_t *smbdirect_disconnect(struct control *control, const struct params *params,
			     struct refusal *refusal)
{
	char text[80];
	if (!control->smbgate || smbgate_disconnect(control->smbgate, params->id) < 0) {
		refusal->parameter = "id";
		return refuse(
			refusal, ENOENT, "not-found",
			"there is no SMB Direct connection %u; 'smcrctl smbdirect' lists them",
			params->id);
	}
	snprintf(text, sizeof(text), "SMB Direct connection %u is ended", params->id);
	return json_pack("{s:s}", "text", text);
}

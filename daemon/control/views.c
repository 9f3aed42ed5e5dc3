/* SPDX-License-Identifier: MIT */
#include "daemon/control/views.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/conns/view.h"
#include "daemon/control/counters.h"
#include "daemon/control/flow.h"
#include "daemon/smbgate/gate.h"
#include "daemon/rnic/rnic.h"
#include "daemon/smcr/view.h"

#define MAX_SKIPPED_SHOWN 256

/* ---- small pieces ---- */

json_t *control_json_time(uint64_t age_us)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	uint64_t now_us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
	return json_integer((json_int_t)(now_us - age_us));
}

static json_t *json_u64(uint64_t value)
{
	return json_integer((json_int_t)value);
}

static json_t *json_gid(const uint8_t gid[SMCR_GID_LEN])
{
	char text[INET6_ADDRSTRLEN];
	return json_string(inet_ntop(AF_INET6, gid, text, sizeof(text)));
}

json_t *control_json_addr(const struct smcr_addr *addr)
{
	char ip[INET6_ADDRSTRLEN], text[INET6_ADDRSTRLEN + 10];
	if (!addr->family || !inet_ntop(addr->family, addr->ip, ip, sizeof(ip)))
		return json_null();
	snprintf(text, sizeof(text), addr->family == AF_INET6 ? "[%s]:%u" : "%s:%u", ip,
		 (unsigned int)addr->port);
	return json_string(text);
}

json_t *control_json_host(const struct smcr_addr *addr)
{
	char text[INET6_ADDRSTRLEN];
	if (!addr->family || !inet_ntop(addr->family, addr->ip, text, sizeof(text)))
		return json_null();
	return json_string(text);
}

static json_t *json_peer_id(const uint8_t id[SMCR_PEER_ID_LEN])
{
	char text[32];
	snprintf(text, sizeof(text), "%02x%02x-%02x:%02x:%02x:%02x:%02x:%02x", id[0], id[1], id[2],
		 id[3], id[4], id[5], id[6], id[7]);
	return json_string(text);
}

json_t *control_json_text(const char *text)
{
	return text && *text ? json_string(text) : json_null();
}

static json_t *json_size_or_null(uint32_t value)
{
	return value ? json_u64(value) : json_null();
}

static const char *role_name(enum smcr_role role)
{
	return role == SMCR_ROLE_SERVER ? "server" : "client";
}

json_t *control_json_mtu(uint8_t code)
{
	return smcr_mtu_valid(code) ? json_u64(smcr_mtu_bytes(code)) : json_null();
}

struct part {
	struct page *page;
	json_t *list;
	struct filter filter;
};

/* ---- devices ---- */

struct device_context {
	struct control *control;
	json_t *list;
	uint32_t id;
	uint32_t links;
};

static void count_link(void *arg, const struct smcr_link_view *view)
{
	struct device_context *context = arg;
	if (view->device_id == context->id)
		context->links++;
}

static void add_device(void *arg, uint32_t id, struct rnic *rnic)
{
	struct device_context *context = arg;
	struct rnic_info info;
	struct rnic_stats stats;
	rnic_get_info(rnic, &info);
	rnic_get_stats(rnic, &stats);
	context->id = id;
	context->links = 0;
	smcr_engine_each_link(context->control->engine, count_link, context);
	json_t *gids = json_array();
	for (size_t i = 0; i < info.num_gids; i++)
		json_array_append_new(gids, json_gid(info.gids[i].raw));
	/* critical: links depend on the device, and no other one could take them over */
	bool critical = context->links > 0 && fabric_num_devices(context->control->fabric) < 2;
	json_t *object =
		json_pack("{s:s, s:s, s:i, s:s, s:s, s:o, s:o, s:n, s:i, s:b}", "name", info.name,
			  "kind", info.kind == RNIC_SOFT ? "soft" : "verbs", "port", info.port,
			  "state", info.state == RNIC_PORT_ACTIVE ? "active" : "down", "netdev",
			  info.netdev, "gids", gids, "mtu", control_json_mtu(info.max_path_mtu),
			  "pnetid", "links", (int)context->links, "critical", critical);
	json_object_set_new(object, "drained",
			    json_boolean(smcr_engine_device_drained(context->control->engine, id)));
	json_object_set_new(object, "down_text", control_json_text(info.down));
	json_object_set_new(object, "counters", counters_json(&stats));
	json_array_append_new(context->list, object);
}

json_t *control_show_devices(struct control *control, struct page *page, struct refusal *refusal)
{
	(void)page;
	(void)refusal;
	struct device_context context = { .control = control, .list = json_array() };
	fabric_each_device(control->fabric, add_device, &context);
	return context.list;
}

/* ---- link groups and links ---- */

/* What was agreed on in version 2; null in version 1. */
static void set_v2(json_t *object, const struct smcr_lgr_view *view)
{
	bool v2 = view->version >= 2;
	json_object_set_new(object, "release", v2 ? json_u64(view->v2.release) : json_null());
	json_object_set_new(object, "eid", control_json_text(view->eid));
	json_object_set_new(object, "peer_host", control_json_text(view->peer_host));
	json_object_set_new(object, "peer_os", v2 ? json_string(view->v2.os) : json_null());
	json_object_set_new(object, "direct", v2 ? json_boolean(view->v2.direct) : json_null());
	json_object_set_new(object, "max_connections",
			    v2 ? json_u64(view->v2.max_conns) : json_null());
}

static const char *const group_sections[] = { "linkgroup" };

/* If one group is asked for, begin with that. @return false: refused */
static bool begin_groups(const struct page *page, uint32_t *ret_after, struct refusal *refusal)
{
	size_t section;
	uint64_t after;
	if (!page_begin(page, group_sections, 1, &section, &after, refusal))
		return false;
	if (page->params->linkgroup && after < page->params->linkgroup - 1)
		after = page->params->linkgroup - 1;
	*ret_after = after < UINT32_MAX ? (uint32_t)after : UINT32_MAX;
	return true;
}

/* Groups come in order: that was the last one asked for. */
static bool is_past(const struct part *part, uint32_t linkgroup)
{
	return part->filter.linkgroup && part->filter.linkgroup < linkgroup;
}

static bool add_linkgroup(void *arg, const struct smcr_lgr_view *view)
{
	const struct part *part = arg;
	if (is_past(part, view->id))
		return false;
	if (!filter_peer(&part->filter, &view->peer) || !filter_group(&part->filter, view->id))
		return page_skip(part->page, group_sections[0], view->id);
	json_t *object = json_pack(
		"{s:I, s:s, s:s, s:i, s:s, s:o, s:o, s:o, s:n, s:i, s:I, s:I, s:I, s:I, s:o}", "id",
		(json_int_t)view->id, "role", role_name(view->role), "type", view->type, "version",
		view->version, "dialect",
		view->dialect == SMCR_DIALECT_DEPLOYED ? "deployed" : "rfc", "peer_id",
		json_peer_id(view->peer_id), "peer", control_json_host(&view->peer), "vlan",
		view->vlan == SMCR_NO_VLAN ? json_null() : json_u64(view->vlan), "pnetid",
		"max_links", view->max_links, "connections", (json_int_t)view->num_conns, "links",
		(json_int_t)view->num_links, "rmbs", (json_int_t)view->num_rmbs, "peer_rmbs",
		(json_int_t)view->num_peer_rmbs, "idle_ms",
		view->num_conns ? json_null() : json_u64(view->idle_us / 1000));
	set_v2(object, view);
	return page_add(part->page, part->list, object, group_sections[0], view->id);
}

json_t *control_show_linkgroups(struct control *control, struct page *page, struct refusal *refusal)
{
	uint32_t after;
	if (!begin_groups(page, &after, refusal))
		return NULL;
	struct part part = { .page = page };
	if (!filter_take(page->params, NULL, &part.filter, refusal))
		return NULL;
	part.list = json_array();
	smcr_engine_walk_lgrs(control->engine, after, add_linkgroup, &part);
	return part.list;
}

/* With the number of a queue pair, packets to it can be forged from this or another host, so only
 * administrators see it. */
static json_t *json_qpn(const struct part *part, uint32_t qpn)
{
	return part->page->administrator ? json_u64(qpn) : json_null();
}

static bool add_link(void *arg, const struct smcr_link_view *view)
{
	const struct part *part = arg;
	struct rnic_qp_stats stats = { 0 };
	if (is_past(part, view->lgr_id))
		return false;
	if (!filter_peer(&part->filter, &view->peer) ||
	    !filter_group(&part->filter, view->lgr_id) ||
	    !filter_name(part->filter.state, smcr_link_state_name(view->state)))
		return page_skip(part->page, group_sections[0], view->lgr_id);
	if (view->qp)
		fabric_qp_stats(view->qp, &stats);
	json_t *object = json_pack(
		"{s:I, s:i, s:o, s:o, s:s, s:b, s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, "
		"s:I, s:I, s:I, s:o}",
		"linkgroup", (json_int_t)view->lgr_id, "number", view->number, "peer",
		control_json_host(&view->peer), "peer_host", control_json_text(view->peer_host),
		"state", smcr_link_state_name(view->state), "disabled", view->disabled, "rnic",
		view->device_name, "port", 1, "local_gid", json_gid(view->local_gid), "peer_gid",
		json_gid(view->peer_gid), "local_qpn", json_qpn(part, view->local_qpn), "peer_qpn",
		json_qpn(part, view->peer_qpn), "path_mtu", control_json_mtu(view->mtu), "uid",
		(json_int_t)view->uid, "peer_uid", (json_int_t)view->peer_uid, "connections",
		(json_int_t)view->num_conns, "tx_bytes", (json_int_t)view->tx_bytes, "rx_bytes",
		(json_int_t)view->rx_bytes, "retransmits", (json_int_t)stats.retransmits,
		"last_error", control_json_text(view->last_error));
	return page_add(part->page, part->list, object, group_sections[0], view->lgr_id);
}

json_t *control_show_links(struct control *control, struct page *page, struct refusal *refusal)
{
	uint32_t after;
	if (!begin_groups(page, &after, refusal))
		return NULL;
	struct part part = { .page = page };
	if (!filter_take(page->params, smcr_link_state_name, &part.filter, refusal))
		return NULL;
	part.list = json_array();
	smcr_engine_walk_links(control->engine, after, add_link, &part);
	return part.list;
}

/* ---- connections ---- */

static const char *conn_state(const struct conn_view *view)
{
	if (view->in_engine)
		return smcr_conn_state_name(view->engine.state);
	if (view->handed_back)
		return view->plain ? "plain" : "handed-back";
	switch (view->state) {
	case IPC_CONN_CONNECTING:
	case IPC_CONN_OPEN: return "init";
	case IPC_CONN_RELAY: return "active";
	case IPC_CONN_FAILED: return "failed";
	case IPC_CONN_SMCR:
	case IPC_CONN_CLOSED: break;
	}
	return "closed";
}

/* All states of conn_state(). */
static const char *conn_state_name(int state)
{
	static const char *const others[] = { "failed", "handed-back", "plain" };
	const int num = (int)(sizeof(others) / sizeof(others[0]));
	return state < num ? others[state] : smcr_conn_state_name(state - num);
}

static bool is_wanted(const struct filter *filter, const struct conn_view *view)
{
	uint32_t group = view->in_engine ? view->engine.lgr_id : 0;
	return filter_peer(filter, &view->peer) && filter_group(filter, group) &&
	       (!filter->port || filter->port == view->local.port ||
		filter->port == view->peer.port) &&
	       (!filter->by_pid || (pid_t)filter->pid == view->pid) &&
	       (!filter->by_uid || (uid_t)filter->uid == view->uid) &&
	       filter_name(filter->mode, conn_mode_name(view->mode)) &&
	       filter_name(filter->state, conn_state(view));
}

static void set_fallback(json_t *object, const struct conn_view *view)
{
	bool fell_back = view->reason != SMCR_REASON_NONE;
	json_object_set_new(object, "fallback_reason",
			    fell_back ? json_string(smcr_reason_name(view->reason)) : json_null());
	json_object_set_new(object, "fallback_code",
			    fell_back ? json_u64(view->reason) : json_null());
	json_object_set_new(object, "fallback_text",
			    fell_back ? json_string(smcr_reason_text(view->reason)) : json_null());
	bool peer = view->peer_reason != SMCR_REASON_NONE;
	json_object_set_new(object, "peer_fallback_reason",
			    peer ? json_string(smcr_reason_name(view->peer_reason)) : json_null());
	json_object_set_new(object, "peer_fallback_code",
			    peer ? json_u64(view->peer_reason) : json_null());
	json_object_set_new(object, "peer_fallback_text",
			    peer ? json_string(smcr_reason_text(view->peer_reason)) : json_null());
}

/* Bytes that passed through memory shared with the program. */
static void set_shared(json_t *object, const struct conn_view *view)
{
	bool shared = view->shared;
	json_object_set_new(object, "shared_tx_bytes",
			    shared ? json_u64(view->shared_tx_bytes) : json_null());
	json_object_set_new(object, "shared_rx_bytes",
			    shared ? json_u64(view->shared_rx_bytes) : json_null());
}

struct connections {
	struct part part;
	struct conns_place place;
};

enum conn_section { CONNS_LIVE, CONNS_ENDED, CONNS_PLAIN, CONN_SECTIONS };
static const char *const conn_sections[CONN_SECTIONS] = { "live", "ended", "plain" };

static bool add_connection(void *arg, const struct conn_view *view)
{
	struct connections *connections = arg;
	bool linked = view->in_engine && view->engine.lgr_id;
	enum conn_section section = view->plain   ? CONNS_PLAIN
				    : view->ended ? CONNS_ENDED
						  : CONNS_LIVE;
	uint64_t number = view->plain ? view->number : connections->place.number;
	if (!is_wanted(&connections->part.filter, view))
		return page_skip(connections->part.page, conn_sections[section], number);
	json_t *object = json_pack(
		"{s:o, s:o, s:o, s:o, s:s, s:s, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, "
		"s:o, s:o, s:b, s:I, s:s?}",
		"id", view->plain ? json_null() : json_u64(view->number), "local",
		control_json_addr(&view->local), "peer", control_json_addr(&view->peer),
		"peer_host", control_json_text(linked ? view->engine.peer_host : ""), "role",
		role_name(view->role), "mode", conn_mode_name(view->mode), "linkgroup",
		linked ? json_u64(view->engine.lgr_id) : json_null(), "link",
		linked && view->engine.link_number ? json_u64(view->engine.link_number)
						   : json_null(),
		"state", conn_state(view), "tx_bytes",
		view->bytes_known ? json_u64(view->tx_bytes) : json_null(), "rx_bytes",
		view->bytes_known ? json_u64(view->rx_bytes) : json_null(), "rmbe_size",
		json_size_or_null(linked ? view->engine.rmbe_size : 0), "peer_rmbe_size",
		json_size_or_null(linked ? view->engine.peer_rmbe_size : 0), "sndbuf_size",
		json_size_or_null(linked ? view->engine.sndbuf_size : 0), "pid",
		view->pid ? json_u64((uint64_t)view->pid) : json_null(), "uid", json_u64(view->uid),
		"ended", view->ended, "age_ms", (json_int_t)view->age_ms, "error",
		view->error ? strerrorname_np(view->error) : NULL);
	set_shared(object, view);
	set_fallback(object, view);
	json_object_set_new(object, "unasked", json_u64(view->unasked));
	flow_set(object, view);
	const struct page *page = connections->part.page;
	bool named = *view->program && (page->administrator || page->uid == view->uid);
	json_object_set_new(object, "program", control_json_text(named ? view->program : NULL));
	json_object_set_new(object, "time_us", control_json_time(view->age_ms * 1000));
	return page_add(connections->part.page, connections->part.list, object,
			conn_sections[section], number);
}

static bool add_plain(void *arg, const struct plain_conn *conn)
{
	struct conn_view view;
	control_plain_view(conn, &view);
	return add_connection(arg, &view);
}

json_t *control_show_connections(struct control *control, struct page *page,
				 struct refusal *refusal)
{
	size_t section;
	uint64_t after;
	bool all = true;
	if (!page_begin(page, conn_sections, CONN_SECTIONS, &section, &after, refusal))
		return NULL;
	struct connections connections = { .part = { .page = page },
					   .place = { .ended = section == CONNS_ENDED,
						      .number = after } };
	if (!filter_take(page->params, conn_state_name, &connections.part.filter, refusal))
		return NULL;
	connections.part.list = json_array();
	if (section != CONNS_PLAIN && control->conns)
		all = conns_walk(control->conns, &connections.place, add_connection, &connections);
	plain_look(control->plain);
	if (all)
		plain_walk(control->plain, section == CONNS_PLAIN ? after : 0, add_plain,
			   &connections);
	return connections.part.list;
}

/* ---- info ---- */

static json_t *skipped_peers(struct control *control)
{
	static struct rdv_skipped_peer peers[MAX_SKIPPED_SHOWN];
	json_t *list = json_array();
	size_t n = control->option
			   ? rdv_option_skipped_peers(control->option, peers, MAX_SKIPPED_SHOWN)
			   : 0;
	for (size_t i = 0; i < n; i++) {
		char ip[INET6_ADDRSTRLEN];
		inet_ntop(peers[i].peer.family, peers[i].peer.ip, ip, sizeof(ip));
		json_array_append_new(
			list,
			json_pack("{s:s, s:o, s:I, s:I, s:s}", "peer", ip, "port",
				  peers[i].peer.port ? json_integer(peers[i].peer.port)
						     : json_null(),
				  "uid", (json_int_t)peers[i].uid, "seconds_left",
				  (json_int_t)peers[i].seconds_left, "reason", peers[i].reason));
	}
	return list;
}

static void add_limit(void *arg, const struct limit_view *view)
{
	json_array_append_new(
		arg, json_pack("{s:o, s:s, s:s}", "uid",
			       view->everybody ? json_null() : json_integer((json_int_t)view->uid),
			       "reason", smcr_reason_name(view->reason), "text",
			       smcr_reason_text(view->reason)));
}

static json_t *limits(struct control *control)
{
	json_t *list = json_array();
	if (control->conns)
		limits_each(control->conns, add_limit, list);
	return list;
}

static json_t *connection_counts(struct control *control)
{
	struct conns_view view = { 0 };
	if (control->conns)
		conns_get_view(control->conns, &view);
	return json_pack(
		"{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
		"smcr", (json_int_t)view.conns_smcr, "shared", (json_int_t)view.conns_shared,
		"shared_total", (json_int_t)view.shared, "tx_bytes", (json_int_t)view.smcr_tx_bytes,
		"rx_bytes", (json_int_t)view.smcr_rx_bytes, "shared_tx_bytes",
		(json_int_t)view.shared_tx_bytes, "shared_rx_bytes",
		(json_int_t)view.shared_rx_bytes, "relayed", (json_int_t)view.conns_relay,
		"pending", (json_int_t)view.conns_pending, "established_total",
		(json_int_t)view.established, "fallbacks_total", (json_int_t)view.fallbacks,
		"plain_tcp_total", (json_int_t)(view.not_candidates + control_count_plain(control)),
		"failed_total", (json_int_t)view.failed, "resets_total", (json_int_t)view.resets,
		"names_taken_total", (json_int_t)view.names_taken);
}

static json_t *engine_counts(const struct smcr_engine_view *view)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
			 "s:I}",
			 "memory_used_bytes", (json_int_t)view->memory_used, "memory_budget_bytes",
			 (json_int_t)view->memory_budget, "linkgroups", (json_int_t)view->num_lgrs,
			 "links", (json_int_t)view->num_links, "rmbs", (json_int_t)view->num_rmbs,
			 "elements_used", (json_int_t)view->num_elements_used, "connections",
			 (json_int_t)view->num_conns, "queue_pairs", (json_int_t)view->num_qps,
			 "memory_regions", (json_int_t)view->num_mrs, "timers",
			 (json_int_t)view->num_timers, "cdc_dropped",
			 (json_int_t)(view->cdc_dropped_token + view->cdc_dropped_old),
			 "llc_dropped", (json_int_t)view->llc_dropped, "llc_protocol_errors",
			 (json_int_t)view->llc_protocol_errors, "memory_refused_total",
			 (json_int_t)view->memory_refused, "first_contacts_refused_total",
			 (json_int_t)view->first_contacts_refused);
}

static json_t *loop_counts(const struct control *control)
{
	struct waiting_counts counts = { 0 };
	if (control->waiting)
		counts = control->waiting->counts;
	json_t *object = json_pack("{s:I, s:I, s:I}", "spins_total", (json_int_t)counts.spins,
				   "vain_spins_total", (json_int_t)counts.vain, "sleeps_total",
				   (json_int_t)counts.sleeps);
	for (int i = 0; control->turns && i < TURNS_WORKS; i++) {
		const struct turns_count *count = &control->turns->counts[i];
		json_object_set_new(object, turns_name((enum turns_work)i),
				    json_pack("{s:I, s:I}", "long_turns", (json_int_t)count->times,
					      "longest_turn_us", (json_int_t)count->longest_us));
	}
	return object;
}

static bool count_cm(void *arg, const struct cm_conn_view *view)
{
	*(json_int_t *)arg += view->state != CM_STATE_ENDED;
	return view->state != CM_STATE_ENDED; /* those that have ended come last */
}

static void count_cm_listener(void *arg, const struct cm_listener_view *view)
{
	(void)view;
	++*(json_int_t *)arg;
}

static json_t *cm_counts(const struct control *control)
{
	json_int_t connections = 0, listeners = 0;
	if (control->cm) {
		cm_each_conn(control->cm, count_cm, &connections);
		cm_each_listener(control->cm, count_cm_listener, &listeners);
	}
	return json_pack("{s:I, s:I}", "connections", connections, "listeners", listeners);
}

static bool count_smbdirect(void *arg, const struct smbgate_view *view)
{
	*(json_int_t *)arg += view->state != SMBGATE_ENDED;
	return true;
}

static void count_smbdirect_listener(void *arg, const struct smbgate_listener_view *view)
{
	*(json_int_t *)arg += !view->error;
}

static json_t *smbdirect_counts(const struct control *control)
{
	json_int_t connections = 0, listeners = 0;
	if (control->smbgate) {
		smbgate_each(control->smbgate, count_smbdirect, &connections);
		smbgate_each_listener(control->smbgate, count_smbdirect_listener, &listeners);
	}
	return json_pack("{s:I, s:I}", "connections", connections, "listeners", listeners);
}

/* null: new connections may use SMC-R */
static json_t *draining(const struct control *control)
{
	const struct control_drain *drain = &control->drain;
	size_t left = control->conns ? conns_active(control->conns) : 0;
	if (!drain->on)
		return json_null();
	return json_pack("{s:I, s:I}", "age_ms", (json_int_t)((fabric_now() - drain->since) / 1000),
			 "connections", (json_int_t)left);
}

json_t *control_show_info(struct control *control, struct page *page, struct refusal *refusal)
{
	struct smcr_engine_view view;
	(void)page;
	(void)refusal;
	smcr_engine_get_view(control->engine, &view);
	struct rdv_listeners listeners;
	rdv_option_get_listeners(control->option, &listeners);
	plain_look(control->plain);
	return json_pack("{s:s, s:I, s:I, s:s, s:o, s:{s:b, s:o, s:I, s:I}, s:I, s:o, s:o, s:o, "
			 "s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s}",
			 "version", SMCRD_VERSION, "pid", (json_int_t)getpid(), "uptime_ms",
			 (json_int_t)((fabric_now() - control->started) / 1000), "socket",
			 control->config->socket_path, "peer_id",
			 json_peer_id(control->config->engine.peer_id), "tcp_option", "available",
			 control->option != NULL, "error", control_json_text(control->option_error),
			 "listeners", (json_int_t)listeners.claimed, "listeners_refused_total",
			 (json_int_t)listeners.refused, "devices",
			 (json_int_t)fabric_num_devices(control->fabric), "connections",
			 connection_counts(control), "engine", engine_counts(&view), "event_loop",
			 loop_counts(control), "fallbacks", control_fallbacks(control),
			 "fallback_peers", control_fallback_peers(control), "skipped_peers",
			 skipped_peers(control), "limits", limits(control), "draining",
			 draining(control), "cm", cm_counts(control), "smbdirect",
			 smbdirect_counts(control), "dbus",
			 control->dbus ? control->dbus(control->ctx) : "off");
}

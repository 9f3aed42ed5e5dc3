/* SPDX-License-Identifier: MIT */
/* Connections that did not use SMC-R: how many, why, with which peers, and the latest ones. */
#include <string.h>

#include "daemon/conns/view.h"
#include "daemon/control/views.h"
#include "proto/smcr/reason.h"

#define PEERS_SHOWN 64

static json_t *name_or_null(uint32_t code)
{
	return code ? json_string(smcr_reason_name(code)) : json_null();
}

static json_t *text_or_null(uint32_t code)
{
	return code ? json_string(smcr_reason_text(code)) : json_null();
}

static json_t *code_or_null(uint32_t code)
{
	return code ? json_integer((json_int_t)code) : json_null();
}

/* ---- by reason ---- */

static void add_reason(void *arg, uint32_t reason, uint32_t peer_reason, uint64_t count)
{
	json_array_append_new(
		arg, json_pack("{s:s, s:I, s:s, s:o, s:o, s:o, s:I}", "reason",
			       smcr_reason_name(reason), "code", (json_int_t)reason, "text",
			       smcr_reason_text(reason), "peer_reason", name_or_null(peer_reason),
			       "peer_code", code_or_null(peer_reason), "peer_text",
			       text_or_null(peer_reason), "connections", (json_int_t)count));
}

/* For one reason, the BPF programs count some connections, and smcrd counts others. */
static void add_plain_reason(void *arg, const struct rdv_plain_count *count)
{
	json_t *row;
	size_t i;
	json_array_foreach((json_t *)arg, i, row)
	{
		json_t *connections = json_object_get(row, "connections");
		if (json_integer_value(json_object_get(row, "code")) != (json_int_t)count->reason ||
		    !json_is_null(json_object_get(row, "peer_code")))
			continue;
		json_integer_set(connections,
				 json_integer_value(connections) + (json_int_t)count->connections);
		return;
	}
	add_reason(arg, count->reason, SMCR_REASON_NONE, count->connections);
}

json_t *control_fallbacks(const struct control *control)
{
	json_t *reasons = json_array();
	if (control->conns)
		conns_each_reason(control->conns, add_reason, reasons);
	plain_each_count(control->plain, add_plain_reason, reasons);
	return reasons;
}

static void add_up(void *arg, const struct rdv_plain_count *count)
{
	*(uint64_t *)arg += count->connections;
}

uint64_t control_count_plain(const struct control *control)
{
	uint64_t sum = 0;
	plain_each_count(control->plain, add_up, &sum);
	return sum;
}

/* ---- by peer ---- */

json_t *control_fallback_peers(const struct control *control)
{
	struct plain_peer peers[PEERS_SHOWN];
	uint64_t others;
	json_t *list = json_array();
	size_t n = plain_peers(control->plain, peers, PEERS_SHOWN, &others);
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list,
				      json_pack("{s:o, s:I, s:s, s:s}", "peer",
						control_json_host(&peers[i].addr), "connections",
						(json_int_t)peers[i].connections, "last_reason",
						smcr_reason_name(peers[i].reason), "last_text",
						smcr_reason_text(peers[i].reason)));
	if (others)
		json_array_append_new(list,
				      json_pack("{s:n, s:I, s:n, s:n}", "peer", "connections",
						(json_int_t)others, "last_reason", "last_text"));
	return list;
}

/* ---- the last ones ---- */

void control_plain_view(const struct plain_conn *conn, struct conn_view *ret_view)
{
	const struct rdv_plain *seen = &conn->seen;
	uint64_t now = fabric_now();
	*ret_view = (struct conn_view){
		.number = conn->number,
		.cookie = seen->cookie,
		.local = seen->local,
		.peer = seen->peer,
		.role = seen->role,
		.mode = CONN_MODE_TCP,
		.state = IPC_CONN_CLOSED,
		.ended = true,
		.handed_back = true,
		.plain = true,
		.pid = seen->pid,
		.uid = seen->uid,
		.reason = seen->reason,
		.unasked = conn->unasked,
		.age_ms = now > seen->time_us ? (now - seen->time_us) / 1000 : 0,
	};
	_Static_assert(sizeof(ret_view->program) == sizeof(seen->comm), "names have one length");
	memcpy(ret_view->program, seen->comm, sizeof(ret_view->program));
}

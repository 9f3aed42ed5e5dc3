/* SPDX-License-Identifier: MIT */
/* Views of live connections, and a ring of the last ones that ended or stayed plain TCP. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/conns/internal.h"

#define MAX_REASONS 128

int history_new(struct conns *conns)
{
	conns->history = calloc(conns->config.limits.history, sizeof(*conns->history));
	return conns->history ? 0 : -ENOMEM;
}

void history_free(struct conns *conns)
{
	struct reason_count *reason, *next;
	free(conns->history);
	HASH_ITER (hh, conns->reasons, reason, next) {
		HASH_DELETE(hh, conns->reasons, reason);
		free(reason);
	}
}

/* A peer may send any code. When there are too many different ones, new codes are not counted
 * apart. */
static struct reason_count *find_count(struct conns *conns, const struct reason_pair *pair)
{
	struct reason_count *count;
	HASH_FIND(hh, conns->reasons, pair, sizeof(*pair), count);
	if (count || (pair->peer && HASH_COUNT(conns->reasons) >= MAX_REASONS))
		return count;
	count = calloc(1, sizeof(*count));
	if (!count)
		return NULL;
	count->pair = *pair;
	HASH_ADD(hh, conns->reasons, pair, sizeof(count->pair), count);
	return count;
}

void history_count_reason(struct conns *conns, uint32_t reason, uint32_t peer_reason)
{
	struct reason_pair pair = { reason, peer_reason };
	struct reason_count *count = find_count(conns, &pair);
	if (!count) {
		pair.peer = SMCR_REASON_NONE;
		count = find_count(conns, &pair);
	}
	if (count)
		count->count++;
}

void conns_each_reason(const struct conns *conns,
		       void (*fn)(void *arg, uint32_t reason, uint32_t peer_reason, uint64_t count),
		       void *arg)
{
	const struct reason_count *reason;
	for (reason = conns->reasons; reason; reason = reason->hh.next)
		fn(arg, reason->pair.own, reason->pair.peer, reason->count);
}

const char *conn_mode_name(enum conn_mode mode)
{
	switch (mode) {
	case CONN_MODE_PENDING: return "pending";
	case CONN_MODE_SMCR: return "smcr";
	case CONN_MODE_TCP: return "tcp";
	}
	return "pending";
}

static void describe(const struct conn *conn, uint64_t now_ms, struct conn_view *ret_view)
{
	*ret_view = (struct conn_view){
		.number = conn->number,
		.id = conn->id,
		.cookie = conn->cookie,
		.pair_cookie = conn->pair.program_cookie,
		.local = conn->local,
		.peer = conn->peer,
		.role = conn->kind == IPC_HANDOVER_ACCEPTED ? SMCR_ROLE_SERVER : SMCR_ROLE_CLIENT,
		.mode = CONN_MODE_PENDING,
		.state = IPC_CONN_CONNECTING,
		.error = conn->error,
		.pid = conn->cred.pid,
		.uid = conn->cred.uid,
		.reason = conn->reason,
		.peer_reason = conn->peer_reason,
		.bytes_known = true,
		.tx_bytes = conn->pump.tx_bytes + conn->relay.tx_bytes,
		.rx_bytes = conn->pump.rx_bytes + conn->relay.rx_bytes,
		.shared = conn->was_shared,
		.shared_tx_bytes = conn->shared.tx_bytes,
		.shared_rx_bytes = conn->shared.rx_bytes,
		.age_ms = now_ms - conn->started_ms,
		.handed_back = conn->handed_back,
	};
	memcpy(ret_view->program, conn->program, sizeof(ret_view->program));
}

uint64_t conns_number(const void *user)
{
	const struct conn *conn = user;
	return conn->number;
}

void history_describe(const struct conn *conn, struct conn_view *ret_view)
{
	describe(conn, conns_now_ms(), ret_view);
	if (conn->phase == PHASE_SMCR || conn->phase == PHASE_CLOSING) {
		ret_view->mode = CONN_MODE_SMCR;
		ret_view->state = conn->phase == PHASE_SMCR ? IPC_CONN_SMCR : IPC_CONN_CLOSED;
	} else if (conn->phase == PHASE_RELAY) {
		ret_view->mode = CONN_MODE_TCP;
		ret_view->state = IPC_CONN_RELAY;
	}
	ret_view->in_engine = conn->smc != NULL;
	if (conn->smc)
		smcr_conn_get_view(conn->smc, &ret_view->engine);
}

void history_add(struct conn *conn, enum conn_mode mode, enum ipc_conn_state state)
{
	struct conns *conns = conn->conns;
	struct conn_view *view = &conns->history[conns->history_at];
	uint64_t now = conns_now_ms();
	describe(conn, now, view);
	view->mode = mode;
	view->state = state;
	view->ended = true;
	view->ended_ms = now; /* here a point in time; a view gets the time since then */
	/* The daemon sees the bytes of plain TCP only if it has relayed them. */
	view->bytes_known = mode != CONN_MODE_TCP || conn->relay.pair;
	conns->remembered++;
	conns->history_at = (conns->history_at + 1) % conns->config.limits.history;
	if (conns->history_len < conns->config.limits.history)
		conns->history_len++;
}

void conns_note_refused(struct conns *conns, const struct ucred *cred, int tcp, bool server,
			uint32_t reason)
{
	const struct conns_callbacks *callbacks = &conns->config.callbacks;
	struct smcr_addr local = { 0 }, peer = { 0 };
	union ipc_addr name;
	if (rdv_read_name(tcp, false, &name) == 0)
		local = rdv_addr_of(&name);
	if (rdv_read_name(tcp, true, &name) == 0)
		peer = rdv_addr_of(&name);
	const struct conns_told told = { .kind = CONNS_REFUSED,
					 .local = &local,
					 .peer = &peer,
					 .server = server,
					 .uid = cred->uid,
					 .pid = cred->pid,
					 .reason = reason };
	conns->counts.not_candidates++;
	history_count_reason(conns, reason, SMCR_REASON_NONE);
	if (callbacks->told)
		callbacks->told(callbacks->ctx, &told);
}

/* The n-th newest entry of the ring, counted from 1. */
static const struct conn_view *remembered(const struct conns *conns, uint32_t nth)
{
	uint32_t size = conns->config.limits.history;
	return &conns->history[(conns->history_at + size - nth) % size];
}

bool history_find_pair(const struct conns *conns, uint64_t id, uint64_t cookie,
		       struct conn_view *ret_view)
{
	for (uint32_t i = 1; i <= conns->history_len; i++) {
		const struct conn_view *view = remembered(conns, i);
		if (view->id != id || view->pair_cookie != cookie)
			continue;
		*ret_view = *view;
		return true;
	}
	return false;
}

bool history_find_tcp(const struct conns *conns, uint64_t cookie, struct conn_view *ret_view)
{
	for (uint32_t i = 1; i <= conns->history_len; i++) {
		const struct conn_view *view = remembered(conns, i);
		if (view->cookie != cookie)
			continue;
		*ret_view = *view;
		return true;
	}
	return false;
}

/* @return false: `fn` has ended the walk */
static bool walk_live(const struct conns *conns, struct conns_place *place,
		      bool (*fn)(void *arg, const struct conn_view *view), void *arg)
{
	const struct conn *conn;
	struct conn_view view;
	uint64_t below = place->number ? place->number : UINT64_MAX;
	while ((conn = order_before(&conns->order, below))) {
		history_describe(conn, &view);
		place->number = below = conn->number;
		if (!fn(arg, &view))
			return false;
	}
	return true;
}

/* Entries of the ring are numbered in the order in which they were made; the newest has the number
 * conns->remembered. */
static bool walk_ended(const struct conns *conns, struct conns_place *place,
		       bool (*fn)(void *arg, const struct conn_view *view), void *arg)
{
	uint64_t now = conns_now_ms(), nth = 1;
	if (place->number && place->number <= conns->remembered)
		nth = conns->remembered - place->number + 2;
	for (; nth <= conns->history_len; nth++) {
		struct conn_view view = *remembered(conns, (uint32_t)nth);
		view.ended_ms = now - view.ended_ms;
		view.age_ms += view.ended_ms;
		place->number = conns->remembered - nth + 1;
		if (!fn(arg, &view))
			return false;
	}
	return true;
}

bool conns_walk(const struct conns *conns, struct conns_place *place,
		bool (*fn)(void *arg, const struct conn_view *view), void *arg)
{
	if (!place->ended) {
		if (!walk_live(conns, place, fn, arg))
			return false;
		*place = (struct conns_place){ .ended = true };
	}
	return walk_ended(conns, place, fn, arg);
}

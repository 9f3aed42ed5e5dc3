/* SPDX-License-Identifier: MIT */
/* The views for operators, and the invariants that hold between inputs. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/smcr/data.h"
#include "daemon/smcr/llc.h"
#include "proto/smcr/eid.h"

const char *smcr_conn_state_name(int state)
{
	switch ((enum smcr_conn_state)state) {
	case SMCR_STATE_INIT: return "init";
	case SMCR_STATE_ACTIVE: return "active";
	case SMCR_STATE_PEER_CLOSE_WAIT_1: return "peer-close-wait-1";
	case SMCR_STATE_PEER_CLOSE_WAIT_2: return "peer-close-wait-2";
	case SMCR_STATE_APP_CLOSE_WAIT_1: return "app-close-wait-1";
	case SMCR_STATE_APP_CLOSE_WAIT_2: return "app-close-wait-2";
	case SMCR_STATE_APP_FIN_CLOSE_WAIT: return "app-fin-close-wait";
	case SMCR_STATE_PEER_FIN_CLOSE_WAIT: return "peer-fin-close-wait";
	case SMCR_STATE_PEER_ABORT_WAIT: return "peer-abort-wait";
	case SMCR_STATE_PROCESS_ABORT: return "process-abort";
	case SMCR_STATE_CLOSED: return "closed";
	}
	return "unknown";
}

const char *smcr_link_state_name(int state)
{
	switch ((enum smcr_link_state)state) {
	case SMCR_LINK_ACTIVATING: return "activating";
	case SMCR_LINK_ACTIVE: return "active";
	case SMCR_LINK_DEACTIVATING: return "deactivating";
	case SMCR_LINK_FAILED: return "failed";
	}
	return "unknown";
}

static unsigned int num_links(const struct smcr_lgr *lgr)
{
	unsigned int n = 0;
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		n += lgr->links[i] != NULL;
	return n;
}

void smcr_engine_get_view(const struct smcr_engine *engine, struct smcr_engine_view *ret_view)
{
	struct smcr_engine_view view = engine->count;
	const struct smcr_lgr *lgr;
	const struct smcr_slab *slab;
	view.memory_used = engine->memory_used;
	view.memory_budget = engine->config.memory_budget;
	view.num_links = HASH_COUNT(engine->links);
	view.num_timers = engine->num_timers;
	DL_FOREACH (engine->lgrs, lgr) {
		view.num_lgrs++;
		DL_FOREACH (lgr->rmbs, slab) {
			view.num_rmbs++;
			view.num_elements_used += slab->used;
		}
	}
	*ret_view = view;
}

static struct smcr_lgr_view view_of_lgr(const struct smcr_lgr *lgr)
{
	struct smcr_lgr_view view = {
		.id = lgr->id,
		.role = lgr->role,
		.type = smcr_lgr_type_name(lgr),
		.version = lgr->version,
		.dialect = lgr->dialect,
		.peer = lgr->peer,
		.vlan = lgr->vlan,
		.max_links = lgr->max_links,
		.v2 = { .release = lgr->release,
			.max_conns = lgr->max_conns,
			.direct = lgr->v2.direct,
			.os = smcr_clc_os_name(lgr->v2.os) },
		.num_conns = lgr->num_conns,
		.num_links = num_links(lgr),
		.num_rmbs = smcr_slab_num_rmbs(lgr),
		.num_peer_rmbs = smcr_peer_rmb_count(lgr),
		.idle_us = lgr->num_conns ? 0 : lgr->engine->now - lgr->idle_since,
	};
	memcpy(view.peer_id, lgr->peer_id, SMCR_PEER_ID_LEN);
	smcr_eid_text(lgr->v2.eid, view.eid);
	smcr_eid_text(lgr->v2.host, view.peer_host);
	return view;
}

void smcr_engine_each_lgr(const struct smcr_engine *engine,
			  void (*fn)(void *arg, const struct smcr_lgr_view *view), void *arg)
{
	const struct smcr_lgr *lgr;
	DL_FOREACH (engine->lgrs, lgr) {
		struct smcr_lgr_view view = view_of_lgr(lgr);
		fn(arg, &view);
	}
}

bool smcr_engine_walk_lgrs(const struct smcr_engine *engine, uint32_t after,
			   bool (*fn)(void *arg, const struct smcr_lgr_view *view), void *arg)
{
	const struct smcr_lgr *lgr;
	DL_FOREACH (engine->lgrs, lgr) {
		if (lgr->id <= after)
			continue;
		struct smcr_lgr_view view = view_of_lgr(lgr);
		if (!fn(arg, &view))
			return false;
	}
	return true;
}

bool smcr_engine_reaches(const struct smcr_engine *engine, const struct smcr_addr *peer)
{
	const struct smcr_lgr *lgr;
	DL_FOREACH (engine->lgrs, lgr)
		if (smcr_same_host(&lgr->peer, peer) && smcr_lgr_any_link(lgr, NULL))
			return true;
	return false;
}

static struct smcr_link_view view_of_link(const struct smcr_link *link)
{
	struct smcr_link_view view = {
		.lgr_id = link->lgr->id,
		.peer = link->lgr->peer,
		.number = link->number,
		.dialect = link->lgr->dialect,
		.dialect_known = link->lgr->dialect_known,
		.state = link->state,
		.device_id = link->device ? link->device->info.id : 0,
		.local_qpn = link->qpn,
		.peer_qpn = link->peer_qpn,
		.mtu = link->mtu,
		.uid = link->uid,
		.peer_uid = link->peer_uid,
		.num_conns = link->num_conns,
		.tx_bytes = link->tx_bytes,
		.rx_bytes = link->rx_bytes,
		.disabled = link->disabled,
		.qp = link->qp,
	};
	smcr_eid_text(link->lgr->v2.host, view.peer_host);
	memcpy(view.device_name, link->device_name, sizeof(view.device_name));
	memcpy(view.local_gid, link->local_gid, SMCR_GID_LEN);
	memcpy(view.peer_gid, link->peer_gid, SMCR_GID_LEN);
	memcpy(view.local_mac, link->local_mac, SMCR_MAC_LEN);
	memcpy(view.peer_mac, link->peer_mac, SMCR_MAC_LEN);
	memcpy(view.last_error, link->last_error, sizeof(view.last_error));
	return view;
}

void smcr_engine_each_link(const struct smcr_engine *engine,
			   void (*fn)(void *arg, const struct smcr_link_view *view), void *arg)
{
	const struct smcr_lgr *lgr;
	DL_FOREACH (engine->lgrs, lgr)
		for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
			if (lgr->links[i]) {
				struct smcr_link_view view = view_of_link(lgr->links[i]);
				fn(arg, &view);
			}
}

bool smcr_engine_walk_links(const struct smcr_engine *engine, uint32_t after,
			    bool (*fn)(void *arg, const struct smcr_link_view *view), void *arg)
{
	const struct smcr_lgr *lgr;
	DL_FOREACH (engine->lgrs, lgr) {
		bool more = true;
		for (unsigned int i = 0; lgr->id > after && i < SMCR_LINK_SLOTS; i++)
			if (lgr->links[i]) {
				struct smcr_link_view view = view_of_link(lgr->links[i]);
				more = fn(arg, &view);
			}
		if (!more)
			return false;
	}
	return true;
}

bool smcr_engine_get_link(const struct smcr_engine *engine, uint64_t link_ref,
			  struct smcr_link_view *ret_view)
{
	const struct smcr_link *link = smcr_link_by_ref(engine, link_ref);
	if (link)
		*ret_view = view_of_link(link);
	return link != NULL;
}

/* ---- RMBs and send buffers ---- */

static const char *slab_state(const struct smcr_slab *slab)
{
	switch (slab->state) {
	case SMCR_SLAB_NEW: return "new";
	case SMCR_SLAB_ANNOUNCING: return "announcing";
	case SMCR_SLAB_READY: return "ready";
	case SMCR_SLAB_DELETING: return "deleting";
	}
	return "unknown";
}

static uint64_t unread(const struct smcr_conn *conn)
{
	return conn->rx.produced - conn->rx.consumed;
}

static uint64_t unacked(const struct smcr_conn *conn)
{
	return conn->tx.committed - conn->tx.completed;
}

static bool show_slab(const struct smcr_slab *slab,
		      bool (*fn)(void *arg, const struct smcr_rmb_view *view), void *arg)
{
	const struct smcr_lgr *lgr = slab->lgr;
	const struct smcr_conn *conn;
	void *owners[SMCR_RMB_MAX_OWNERS];
	struct smcr_rmb_view view = {
		.lgr_id = lgr->id,
		.number = slab->number,
		.is_rmb = slab->is_rmb,
		.state = slab_state(slab),
		.element_size = slab->element_size,
		.elements = slab->count,
		.used = slab->used,
		.lgr_num_conns = lgr->num_conns,
		.owners = owners,
	};
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		view.registered += slab->reg[i].mr != NULL;
	DL_FOREACH2 (lgr->conns, conn, lgr_next) {
		const struct smcr_element *element =
			slab->is_rmb ? &conn->rx.element : &conn->tx.buf;
		if (element->slab != slab)
			continue;
		view.fill += slab->is_rmb ? unread(conn) : unacked(conn);
		if (conn->params.user && view.num_owners < SMCR_RMB_MAX_OWNERS)
			owners[view.num_owners++] = conn->params.user;
	}
	return fn(arg, &view);
}

/* The slab with the next number. RMBs and send buffers are in two lists, each in the order of
 * numbers. */
static const struct smcr_slab *next_slab(const struct smcr_lgr *lgr, uint32_t after)
{
	const struct smcr_slab *slab, *first = NULL;
	DL_FOREACH (lgr->rmbs, slab)
		if (slab->number > after && (!first || slab->number < first->number))
			first = slab;
	DL_FOREACH (lgr->sndbufs, slab)
		if (slab->number > after && (!first || slab->number < first->number))
			first = slab;
	return first;
}

bool smcr_engine_walk_rmbs(const struct smcr_engine *engine, struct smcr_rmb_place after,
			   bool (*fn)(void *arg, const struct smcr_rmb_view *view), void *arg)
{
	const struct smcr_lgr *lgr;
	const struct smcr_slab *slab;
	DL_FOREACH (engine->lgrs, lgr) {
		if (lgr->id < after.lgr_id)
			continue;
		uint32_t number = lgr->id == after.lgr_id ? after.number : 0;
		while ((slab = next_slab(lgr, number))) {
			if (!show_slab(slab, fn, arg))
				return false;
			number = slab->number;
		}
	}
	return true;
}

/* ---- connections ---- */

static uint64_t ago(const struct smcr_conn *conn, uint64_t when)
{
	return when ? conn->engine->now - when : UINT64_MAX;
}

void smcr_conn_get_view(const struct smcr_conn *conn, struct smcr_conn_view *ret_view)
{
	const struct smcr_link *link = conn->tx.link ? conn->tx.link : conn->rv.link;
	const bool open = conn->phase == SMCR_PHASE_OPEN;
	*ret_view = (struct smcr_conn_view){
		.local = conn->params.local,
		.peer = conn->params.peer,
		.role = conn->params.role,
		.lgr_id = conn->lgr ? conn->lgr->id : 0,
		.link_number = link ? link->number : 0,
		.state = conn->state,
		.tx_bytes = conn->tx.bytes,
		.rx_bytes = conn->rx.bytes,
		.tx_unsent = conn->tx.committed - conn->tx.written,
		.tx_unacked = unacked(conn),
		.tx_ended = conn->tx.done_sent || conn->tx.closed_sent,
		.rx_ended = conn->rx.done || conn->rx.closed,
		.rmbe_size = conn->rx.element.size,
		.peer_rmbe_size = conn->tx.element_size,
		.sndbuf_size = conn->tx.buf.size,
		.pid = conn->params.pid,
		.tx_window = open && conn->tx.rmb ? smcr_tx_window(conn) : 0,
		.tx_in_peer = conn->tx.written - conn->tx.peer_consumed,
		.rx_unread = unread(conn),
		.rx_window = conn->rx.usable - (conn->rx.produced - conn->rx.consumed_sent),
		.tx_requests = conn->tx.requests,
		.rx_requests = conn->rx.requests,
		.tx_full = conn->tx.full,
		.tx_window_full = conn->tx.window_full,
		.rx_full = conn->rx.full,
		.moves = conn->tx.moves,
		.rtt_us = conn->tx.rtt,
		.said_us = ago(conn, conn->tx.said),
		.heard_us = ago(conn, conn->rx.heard),
		.version = conn->lgr ? conn->lgr->version : 0,
		.dialect = conn->lgr ? conn->lgr->dialect : SMCR_DIALECT_RFC,
		.qp = link ? link->qp : NULL,
		.user = conn->params.user,
	};
	if (conn->lgr)
		smcr_eid_text(conn->lgr->v2.host, ret_view->peer_host);
}

/* ---- invariants ---- */

struct check {
	const struct smcr_engine *engine;
	char *text;
	size_t len;
	bool broken;
	uint64_t memory;
	uint32_t mrs, qps;
};

__attribute__((format(printf, 2, 3), cold)) static void broken(struct check *check,
							       const char *format, ...)
{
	if (check->broken)
		return;
	check->broken = true;
	va_list ap;
	va_start(ap, format);
	vsnprintf(check->text, check->len, format, ap);
	va_end(ap);
}

/** A macro, because the simulator checks after every event: arguments of the text are evaluated
 * only if the check fails. */
#define expect(check, holds, ...)                                                                  \
	do {                                                                                       \
		if (__builtin_expect(!(holds), 0))                                                 \
			broken(check, __VA_ARGS__);                                                \
	} while (0)

/** The next timer of the heap, parents before children; NULL after the last one. */
static const struct smcr_timer *next_timer(const struct smcr_timer *timer)
{
	if (timer->child)
		return timer->child;
	while (timer && !timer->next) {
		while (timer->prev && timer->prev->child != timer)
			timer = timer->prev;
		timer = timer->prev; /* the parent */
	}
	return timer ? timer->next : NULL;
}

static void check_timers(struct check *check)
{
	const struct smcr_engine *engine = check->engine;
	const struct smcr_timer *timer, *child;
	uint32_t found = 0;
	for (timer = engine->timers; timer; timer = next_timer(timer)) {
		const struct smcr_timer *before = timer;
		found++;
		expect(check, timer->running, "a timer of the heap does not run");
		for (child = timer->child; child; before = child, child = child->next)
			expect(check, child->prev == before && child->deadline >= timer->deadline,
			       "timer heap is not ordered");
	}
	expect(check, found == engine->num_timers, "%u timers counted, %u found",
	       engine->num_timers, found);
}

static void check_conn(struct check *check, const struct smcr_conn *conn)
{
	const struct smcr_lgr *lgr = conn->lgr;
	expect(check, conn->phase != SMCR_PHASE_GONE, "a connection that is gone is listed");
	expect(check, conn->phase != SMCR_PHASE_OPEN || lgr, "an open connection has no group");
	expect(check,
	       !conn->token ||
		       smcr_conn_by_token((struct smcr_engine *)check->engine, conn->token) == conn,
	       "token %08x does not find its connection", conn->token);
	expect(check,
	       lgr || (!conn->token && !conn->rx.element.slab && !conn->tx.buf.slab &&
		       !conn->tx.rmb && !conn->tx.link),
	       "a connection without group holds something of one");
	expect(check, !conn->tx.link || conn->tx.link->lgr == lgr,
	       "a connection writes on a link of another group");
	expect(check, !conn->tx.rmb || conn->tx.rmb->user[conn->tx.index] == conn,
	       "a connection's element of the peer is not marked as its own");
	expect(check, !conn->tx.waiting || conn->tx.link, "a connection waits for no link");
	expect(check,
	       !conn->tx.urgent || (conn->tx.written <= conn->tx.urgent_end &&
				    conn->tx.urgent_end <= conn->tx.committed),
	       "data were written beyond an urgent byte");
}

/** Number of elements that connections have, or posted requests of connections that are gone. */
static unsigned int holders(const struct smcr_lgr *lgr, const struct smcr_slab *slab)
{
	unsigned int n = 0;
	const struct smcr_conn *conn;
	DL_FOREACH2 (lgr->conns, conn, lgr_next)
		n += (conn->rx.element.slab == slab) + (conn->tx.buf.slab == slab);
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		const struct smcr_link *link = lgr->links[i];
		for (uint64_t id = link ? link->tx_done : 0; link && id < link->tx_next; id++)
			n += link->tx[id % link->tx_depth].release.slab == slab;
	}
	return n;
}

static void check_slab(struct check *check, const struct smcr_lgr *lgr,
		       const struct smcr_slab *slab)
{
	unsigned int marked = 0;
	for (unsigned int i = 0; i < sizeof(slab->map); i++)
		for (unsigned int bits = slab->map[i]; bits; bits &= bits - 1)
			marked++;
	expect(check, marked == slab->used, "slab: %u elements marked, %u counted", marked,
	       slab->used);
	expect(check, holders(lgr, slab) == slab->used, "slab: %u elements held, %u used",
	       holders(lgr, slab), slab->used);
	check->memory += (uint64_t)slab->count * slab->element_size;
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		const struct smcr_link *link = lgr->links[i];
		bool registered = slab->reg[i].mr != NULL;
		check->mrs += registered;
		expect(check, registered == (link && link->qp),
		       "slab: registration on link slot %u does not match the link", i);
	}
}

static void check_peer_rmb(struct check *check, const struct smcr_peer_rmb *rmb)
{
	unsigned int users = 0;
	for (unsigned int i = 0; i <= SMCR_MAX_ELEMENTS; i++) {
		const struct smcr_conn *conn = rmb->user[i];
		if (!conn)
			continue;
		users++;
		expect(check, conn->tx.rmb == rmb && conn->tx.index == i,
		       "peer RMB: element %u is marked for a connection that does not use it", i);
	}
	expect(check, users == rmb->users, "peer RMB: %u users marked, %u counted", users,
	       rmb->users);
	expect(check, rmb->users || !rmb->withdrawn, "a withdrawn peer RMB is kept for nobody");
}

static void check_link(struct check *check, const struct smcr_lgr *lgr, unsigned int slot)
{
	const struct smcr_link *link = lgr->links[slot];
	const struct smcr_link *found = smcr_link_by_ref(check->engine, link->ref);
	uint32_t conns = 0, named = 0;
	const struct smcr_conn *conn;
	expect(check, found == link && link->lgr == lgr && link->slot == slot,
	       "link %u/%u is not where it belongs", lgr->id, link->number);
	expect(check, link->number && smcr_lgr_link_by_number(lgr, link->number) == link,
	       "link number %u/%u is not unique", lgr->id, link->number);
	expect(check, link->tx_next - link->tx_done <= link->tx_depth,
	       "link %u/%u: send queue overrun", lgr->id, link->number);
	DL_FOREACH2 (lgr->conns, conn, lgr_next) {
		conns += conn->tx.link == link;
		named += conn->rv.link == link;
	}
	expect(check, conns == link->num_conns && named == link->num_named,
	       "link %u/%u: %u connections counted, %u found", lgr->id, link->number,
	       link->num_conns, conns);
	check->qps += link->qp != NULL;
}

/** RKEY-11: outside an exchange each RMB, of either side, has one RToken on each link. An RMB of
 * the peer that no connection writes into may lack some: the peer has not told them yet. */
static void check_tokens(struct check *check, const struct smcr_lgr *lgr)
{
	const struct smcr_llc_flow *flow = lgr->llc;
	if (lgr->state != SMCR_LGR_ACTIVE || flow->step != SMCR_LLC_IDLE || flow->peer_rkey.link ||
	    flow->rkey.step != SMCR_RKEY_IDLE || flow->rkey.hold || smcr_timer_running(&flow->work))
		return;
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		const struct smcr_peer_rmb *rmb;
		const struct smcr_slab *slab;
		if (!lgr->links[i] || lgr->links[i]->state != SMCR_LINK_ACTIVE)
			continue;
		DL_FOREACH (lgr->peer_rmbs, rmb)
			expect(check, rmb->withdrawn || !rmb->users || rmb->token[i].valid,
			       "link %u/%u: no RToken for an RMB of the peer (RKEY-11)", lgr->id,
			       lgr->links[i]->number);
		DL_FOREACH (lgr->rmbs, slab)
			expect(check, slab->state != SMCR_SLAB_READY || slab->reg[i].told,
			       "link %u/%u: the peer has no RToken for an RMB (RKEY-11)", lgr->id,
			       lgr->links[i]->number);
	}
}

static void check_lgr(struct check *check, const struct smcr_lgr *lgr)
{
	const struct smcr_conn *conn;
	const struct smcr_slab *slab;
	const struct smcr_peer_rmb *rmb;
	uint32_t conns = 0;
	DL_FOREACH2 (lgr->conns, conn, lgr_next) {
		conns++;
		expect(check, conn->lgr == lgr, "group %u lists a connection of another", lgr->id);
	}
	expect(check, conns == lgr->num_conns, "group %u: %u connections counted, %u found",
	       lgr->id, lgr->num_conns, conns);
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		if (lgr->links[i])
			check_link(check, lgr, i);
	DL_FOREACH (lgr->rmbs, slab)
		check_slab(check, lgr, slab);
	DL_FOREACH (lgr->sndbufs, slab)
		check_slab(check, lgr, slab);
	DL_FOREACH (lgr->peer_rmbs, rmb)
		check_peer_rmb(check, rmb);
	expect(check, smcr_slab_num_rmbs(lgr) <= SMCR_MAX_RMBS, "group %u: too many RMBs", lgr->id);
	check_tokens(check, lgr);
}

int smcr_engine_check(const struct smcr_engine *engine, char *ret_text, size_t len)
{
	struct check check = { .engine = engine, .text = ret_text, .len = len };
	const struct smcr_lgr *lgr;
	const struct smcr_conn *conn;
	uint32_t num_conns = 0;
	uint64_t held = 0;
	check_timers(&check);
	DL_FOREACH (engine->conns, conn) {
		check_conn(&check, conn);
		num_conns++;
		held += conn->accounts.held;
	}
	expect(&check, held == engine->memory_held && held <= engine->memory_used,
	       "memory: %llu bytes held by connections, %llu counted", (unsigned long long)held,
	       (unsigned long long)engine->memory_held);
	expect(&check, num_conns == engine->count.num_conns, "%u connections, %u counted",
	       num_conns, engine->count.num_conns);
	DL_FOREACH (engine->lgrs, lgr)
		check_lgr(&check, lgr);
	expect(&check, check.memory == engine->memory_used, "memory: %llu bytes held, %llu counted",
	       (unsigned long long)check.memory, (unsigned long long)engine->memory_used);
	expect(&check, check.mrs == engine->count.num_mrs && check.qps == engine->count.num_qps,
	       "%u QPs and %u MRs held, %u and %u counted", check.qps, check.mrs,
	       engine->count.num_qps, engine->count.num_mrs);
	return check.broken ? -EINVAL : 0;
}

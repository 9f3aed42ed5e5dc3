/* SPDX-License-Identifier: MIT */
#include "tests/sim/wire.h"

#include <stdlib.h>
#include <string.h>

#include "proto/smcr/llc.h"
#include "tests/sim/host.h"
#include "tests/sim/observer.h"

static struct request *slot(struct qp *qp, uint64_t number)
{
	return &qp->sq[number % qp->depth];
}

static uint64_t delay(struct qp *qp, uint32_t lo, uint32_t hi)
{
	return prng_range(&qp->world->rng, lo, hi);
}

static uint64_t hash_bytes(const uint8_t *p, size_t len)
{
	uint64_t h = len;
	for (; len >= 8; len -= 8, p += 8) {
		uint64_t v;
		memcpy(&v, p, 8);
		h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 29;
	}
	for (; len; len--)
		h = (h ^ *p++) * UINT64_C(0x100000001b3);
	return h;
}

/* ---- receiving SENDs ---- */

/** Hand the first message of the queue to the engine. */
static void hand_in(struct qp *qp)
{
	struct message msg = qp->rq[0];
	qp->rq_len--;
	memmove(qp->rq, qp->rq + 1, qp->rq_len * sizeof(*qp->rq));
	host_rdma_recv(qp->host, qp, &msg);
	free(msg.longer);
}

void wire_hand_in(struct host *host, uint64_t before)
{
	struct world *w = host_world(host);
	struct qp *qp, *next, *first;
	do {
		first = NULL;
		HASH_ITER (hh, w->fabric->qps, qp, next) {
			if (qp->host == host && qp->rq_len && qp->rq[0].order < before &&
			    (!first || qp->rq[0].order < first->rq[0].order))
				first = qp;
		}
		if (first)
			hand_in(first);
	} while (first && !w->failed);
}

static void recv_event(void *object, uint64_t arg)
{
	struct qp *qp = object;
	struct world *w = qp->world;
	(void)arg;
	uint64_t thaw = host_frozen(qp->host);
	if (thaw) {
		clock_at(&w->clock, thaw, recv_event, qp, 0);
		return;
	}
	qp->recv_pending = false;
	while (qp->rq_len && qp->rq[0].when <= w->clock.now && !w->failed) {
		host_enter(qp->host);
		/* Timers that host_enter() ran may have handed the message in already. */
		if (qp->rq_len && qp->rq[0].when <= w->clock.now)
			hand_in(qp);
		host_leave(qp->host);
	}
	if (qp->rq_len && !qp->recv_pending) {
		qp->recv_pending = true;
		clock_at(&w->clock, qp->rq[0].when, recv_event, qp, 0);
	}
}

/** A copy of a message longer than SIM_MESSAGE_LEN; NULL if it is not longer. */
static uint8_t *longer_copy(const uint8_t *data, uint32_t len)
{
	if (len <= SIM_MESSAGE_LEN)
		return NULL;
	uint8_t *copy = malloc(len);
	if (!copy)
		abort();
	memcpy(copy, data, len);
	return copy;
}

static void enqueue(struct qp *qp, const uint8_t *data, uint32_t len)
{
	struct world *w = qp->world;
	if (qp->rq_len == qp->rq_cap) {
		qp->rq_cap = qp->rq_cap ? 2 * qp->rq_cap : 16;
		qp->rq = realloc(qp->rq, qp->rq_cap * sizeof(*qp->rq));
		if (!qp->rq)
			abort();
	}
	uint64_t when = w->clock.now + delay(qp, 0, w->set.recv_max);
	if (when < qp->last_recv)
		when = qp->last_recv;
	qp->last_recv = when;
	struct message *msg = &qp->rq[qp->rq_len++];
	msg->when = when;
	msg->order = ++w->fabric->next_message;
	msg->len = len;
	msg->longer = longer_copy(data, len);
	if (!msg->longer)
		memcpy(msg->data, data, len);
	if (!qp->recv_pending) {
		qp->recv_pending = true;
		clock_at(&w->clock, when, recv_event, qp, 0);
	}
}

void wire_inject(struct qp *qp, const uint8_t *data, uint32_t len)
{
	enqueue(qp, data, len);
}

/** Deliver a SEND; in hostile runs it may be changed, lost or doubled. */
static void deliver(struct qp *qp, const uint8_t *data, uint32_t len)
{
	struct prng *rng = &qp->world->rng;
	uint8_t copy[SMCR_LLC_V2_SEND_MAX];
	if (!prng_chance(rng, qp->world->set.mangle_permille)) {
		enqueue(qp, data, len);
		return;
	}
	obs_see(qp->world->observer, SEEN_MANGLED);
	memcpy(copy, data, len);
	switch (prng_range(rng, 0, 5)) {
	case 0: return;
	case 1: enqueue(qp, data, len); break;
	case 2: len = (uint32_t)prng_range(rng, 1, len); break;
	default: mangle(rng, copy, len); break;
	}
	enqueue(qp, copy, len);
}

/* ---- executing ---- */

static void fail_request(struct qp *qp, struct request *req)
{
	req->state = WR_FAILED;
	qp->state = QP_ERR;
	obs_qp_error(qp->world->observer, qp);
	wire_flush(qp);
}

static void fault_event(void *object, uint64_t arg)
{
	struct qp *qp = object;
	(void)arg;
	host_qp_failed(qp->host, qp);
}

static void refuse(struct qp *qp, struct qp *peer, struct request *req)
{
	world_log(qp->world, qp->device->info.name, "QP %06x: remote access error", qp->qpn);
	fail_request(qp, req);
	peer->state = QP_ERR;
	obs_qp_error(peer->world->observer, peer);
	wire_flush(peer);
	clock_in(&qp->world->clock, delay(qp, 0, 2000), fault_event, peer, 0);
}

static bool path_open(const struct qp *from, const struct device *to)
{
	const struct device *own = from->device;
	return own->present && own->port_up && to->present && to->port_up &&
	       !own->world->fabric->cut[own->index][to->index];
}

/** Are the request's packets small enough for the path? */
static bool fits(const struct qp *qp, const struct request *req)
{
	const struct qp *peer = fabric_qp_find(qp->world->fabric, qp->peer.qpn);
	uint32_t most = peer ? qp->world->fabric->most[qp->device->index][peer->device->index] : 0;
	uint32_t mtu = smcr_mtu_bytes(qp->peer.mtu);
	uint32_t packet = req->wr.length < mtu ? req->wr.length : mtu;
	if (!most || packet <= most)
		return true;
	obs_see(qp->world->observer, SEEN_TOO_LARGE);
	return false;
}

/** Does this MAC lead to the device? With MAC 0 the IP stack finds the right one. */
static bool mac_leads_to(const uint8_t mac[SMCR_MAC_LEN], const struct smcr_device_info *info)
{
	static const uint8_t unknown[SMCR_MAC_LEN];
	return !memcmp(mac, info->mac, SMCR_MAC_LEN) || !memcmp(mac, unknown, SMCR_MAC_LEN);
}

/** The peer's QP if it takes packets from this QP now, else NULL. */
static struct qp *ready_peer(struct qp *qp)
{
	struct qp *peer = fabric_qp_find(qp->world->fabric, qp->peer.qpn);
	if (!peer || (peer->state != QP_RTR && peer->state != QP_RTS))
		return NULL;
	const struct smcr_device_info *info = &peer->device->info;
	if (memcmp(info->gid, qp->peer.gid, SMCR_GID_LEN) != 0 ||
	    !mac_leads_to(qp->peer.mac, info) || peer->peer.qpn != qp->qpn ||
	    memcmp(peer->peer.gid, qp->device->info.gid, SMCR_GID_LEN) != 0)
		return NULL;
	if (!path_open(qp, peer->device))
		return NULL;
	bool match = peer->peer.psn == qp->psn && peer->peer.mtu == qp->peer.mtu;
	if (!match && qp->world->set.hostile)
		return NULL;
	if (peer->peer.psn != qp->psn)
		world_fail(qp->world, "CLC-10",
			   "QP %06x sends from PSN %06x, its peer expects %06x", qp->qpn, qp->psn,
			   peer->peer.psn);
	if (peer->peer.mtu != qp->peer.mtu)
		world_fail(qp->world, "CLC-9", "path MTU codes %u and %u on one link", qp->peer.mtu,
			   peer->peer.mtu);
	return peer;
}

static void check_unchanged(struct qp *qp, const struct request *req)
{
	if (req->wr.is_write && hash_bytes(req->wr.addr, req->wr.length) != req->hash)
		world_fail(
			qp->world, "CDC-17",
			"bytes of a posted WRITE changed before its completion (QP %06x, wr %llu)",
			qp->qpn, (unsigned long long)req->wr.wr_id);
}

/** If the peer's RNIC refuses the WRITE, the poster was wrong, unless it was told lies. */
static bool execute_write(struct qp *qp, struct qp *peer, struct request *req)
{
	struct world *w = qp->world;
	struct mr *mr = fabric_mr_find(w->fabric, req->wr.rkey);
	if (!mr || mr->qp != peer || !mr->remote) {
		if (!w->set.hostile)
			world_fail(w, "RMB-10", "WRITE on QP %06x with rkey %08x: %s", qp->qpn,
				   req->wr.rkey,
				   !mr              ? "no such key"
				   : mr->qp != peer ? "key of another protection domain"
						    : "no remote access");
		return false;
	}
	uint64_t start = mr->vaddr;
	if (req->wr.remote_addr < start || req->wr.length > mr->len ||
	    req->wr.remote_addr - start > mr->len - req->wr.length) {
		if (!w->set.hostile)
			world_fail(w, "RMB-11", "WRITE on QP %06x outside the peer's RMB", qp->qpn);
		return false;
	}
	check_unchanged(qp, req);
	size_t offset = (size_t)(req->wr.remote_addr - start);
	obs_write_lands(w->observer, qp, req, mr, offset);
	memcpy(mr->addr + offset, req->wr.addr, req->wr.length);
	return true;
}

/** @return false: both QPs are in error now */
static bool execute(struct qp *qp, struct qp *peer, struct request *req)
{
	struct world *w = qp->world;
	world_note(w, req->wr.is_write ? 1 : 2, qp->qpn, req->wr.length);
	if (req->wr.is_write) {
		if (!execute_write(qp, peer, req)) {
			refuse(qp, peer, req);
			return false;
		}
	} else if (req->fate != FATE_LOST) {
		if (req->wr.length > peer->recv_len) { /* it does not fit (IBA 9.7.5.1.6) */
			if (!w->set.hostile)
				world_fail(w, "LLC-8", "SEND of %u bytes into a buffer of %u",
					   req->wr.length, peer->recv_len);
			refuse(qp, peer, req);
			return false;
		}
		deliver(peer, request_bytes(req), req->wr.length);
	}
	req->state = WR_EXECUTED;
	qp->executed++;
	return true;
}

/* ---- completing ---- */

static void cq_event(void *object, uint64_t arg);

static void schedule_cq(struct qp *qp)
{
	if (qp->cq_pending)
		return;
	qp->cq_pending = true;
	clock_in(&qp->world->clock, delay(qp, 0, qp->world->set.cq_max), cq_event, qp, 0);
}

/** Report the next completion. @return false: there is none */
static bool report_next(struct qp *qp)
{
	uint64_t i = qp->reported;
	while (i < qp->posted && slot(qp, i)->state == WR_ACKED && !slot(qp, i)->wr.signaled)
		i++;
	if (i == qp->posted || slot(qp, i)->state < WR_ACKED)
		return false;
	struct request *last = slot(qp, i);
	enum smcr_send_status status = last->state == WR_ACKED    ? SMCR_SEND_OK
				       : last->state == WR_FAILED ? SMCR_SEND_FAILED
								  : SMCR_SEND_FLUSHED;
	host_rdma_done(qp->host, qp, i, status);
	return true;
}

uint64_t wire_done(struct qp *qp, uint64_t number)
{
	struct request *last = slot(qp, number);
	for (uint64_t k = qp->reported; k <= number; k++) {
		/* A flushed completion does not say that earlier requests were acknowledged. */
		bool ok = slot(qp, k)->state == WR_ACKED && last->state != WR_FLUSHED;
		if (ok)
			check_unchanged(qp, slot(qp, k));
		obs_settled(qp->world->observer, qp, slot(qp, k), ok);
	}
	qp->reported = number + 1;
	return last->wr.wr_id;
}

static void cq_event(void *object, uint64_t arg)
{
	struct qp *qp = object;
	(void)arg;
	uint64_t thaw = host_frozen(qp->host);
	if (thaw) {
		clock_at(&qp->world->clock, thaw, cq_event, qp, 0);
		return;
	}
	qp->cq_pending = false;
	while (qp->state != QP_DESTROYED && !qp->world->failed && report_next(qp))
		;
}

void wire_poll(struct host *host)
{
	struct world *w = host_world(host);
	struct qp *qp, *next;
	HASH_ITER (hh, w->fabric->qps, qp, next) {
		while (qp->host == host && qp->state != QP_DESTROYED && !w->failed &&
		       report_next(qp))
			;
	}
}

/** Give a request up: the QP goes into error. */
static void give_up(struct qp *qp, struct request *req)
{
	world_log(qp->world, qp->device->info.name, "QP %06x: retry limit reached", qp->qpn);
	fail_request(qp, req);
}

/** A request was not acknowledged. @return when to try again, 0: the retry limit is reached */
static uint64_t try_again(struct qp *qp, struct request *req)
{
	struct world *w = qp->world;
	if (!req->first_try)
		req->first_try = w->clock.now;
	else if (w->clock.now - req->first_try >= qp->retry_us)
		return 0;
	return w->clock.now + delay(qp, 500, 20000);
}

static void ack_event(void *object, uint64_t arg)
{
	struct qp *qp = object;
	(void)arg;
	qp->ack_pending = false;
	bool signaled = false;
	while (qp->state == QP_RTS && qp->acked < qp->executed &&
	       slot(qp, qp->acked)->ack_at <= qp->world->clock.now) {
		struct request *req = slot(qp, qp->acked);
		struct qp *peer = fabric_qp_find(qp->world->fabric, qp->peer.qpn);
		bool lost = !path_open(peer, qp->device);
		/* The peer sent the first acknowledgement when the request came. Once its QP is in
		 * error, it cannot repeat the acknowledgement. */
		if (lost || (req->first_try && peer->state >= QP_ERR)) {
			uint64_t again = try_again(qp, req);
			if (!again) {
				give_up(qp, req);
				return;
			}
			req->ack_at = again;
			break;
		}
		req->state = WR_ACKED;
		req->first_try = 0;
		signaled |= req->wr.signaled;
		qp->acked++;
	}
	if (signaled)
		schedule_cq(qp);
	if (qp->state == QP_RTS && qp->acked < qp->executed) {
		qp->ack_pending = true;
		clock_at(&qp->world->clock, slot(qp, qp->acked)->ack_at, ack_event, qp, 0);
	}
}

static void schedule_ack(struct qp *qp, struct request *req)
{
	req->ack_at = qp->world->clock.now + delay(qp, 1, qp->world->set.ack_max);
	if (req->ack_at < qp->last_ack)
		req->ack_at = qp->last_ack;
	qp->last_ack = req->ack_at;
	if (!qp->ack_pending) {
		qp->ack_pending = true;
		clock_at(&qp->world->clock, req->ack_at, ack_event, qp, 0);
	}
}

static void arrive_event(void *object, uint64_t arg)
{
	struct qp *qp = object;
	struct world *w = qp->world;
	(void)arg;
	qp->arrive_pending = false;
	while (qp->state == QP_RTS && qp->executed < qp->posted && !w->failed) {
		struct request *req = slot(qp, qp->executed);
		if (req->ready_at > w->clock.now)
			break;
		struct qp *peer = fits(qp, req) ? ready_peer(qp) : NULL;
		if (!peer) {
			req->ready_at = try_again(qp, req);
			if (!req->ready_at) {
				give_up(qp, req);
				return;
			}
			break;
		}
		if (!req->wr.is_write && !req->rnr_done &&
		    prng_chance(&w->rng, w->set.rnr_permille)) {
			req->rnr_done = true;
			req->ready_at = w->clock.now + delay(qp, 100, 2000);
			break;
		}
		req->first_try = 0;
		if (req->fate == FATE_FAILS) {
			give_up(qp, req);
			return;
		}
		if (!execute(qp, peer, req))
			return;
		if (req->fate == FATE_FAILS_LATE) {
			give_up(qp, req);
			return;
		}
		schedule_ack(qp, req);
	}
	if (qp->state == QP_RTS && qp->executed < qp->posted) {
		qp->arrive_pending = true;
		clock_at(&w->clock, slot(qp, qp->executed)->ready_at, arrive_event, qp, 0);
	}
}

void wire_post(struct qp *qp, const struct smcr_wr *wr)
{
	struct world *w = qp->world;
	struct request *req = slot(qp, qp->posted);
	free(req->longer);
	*req = (struct request){ .wr = *wr, .state = WR_FLYING };
	if (wr->is_write) {
		struct mr *mr = fabric_mr_find(w->fabric, wr->lkey);
		const uint8_t *addr = wr->addr;
		if (!wr->length || !mr || mr->qp != qp || addr < mr->addr || wr->length > mr->len ||
		    (size_t)(addr - mr->addr) > mr->len - wr->length) {
			world_fail(w, "HOST",
				   "WRITE of %u bytes from memory not registered on QP %06x",
				   wr->length, qp->qpn);
			return;
		}
		req->hash = hash_bytes(wr->addr, wr->length);
	} else if (wr->length > SMCR_LLC_V2_SEND_MAX) {
		world_fail(w, "LLC-1", "SEND of %u bytes", wr->length);
		return;
	} else {
		req->longer = longer_copy(wr->addr, wr->length);
		memcpy(req->payload, wr->addr,
		       wr->length < SIM_MESSAGE_LEN ? wr->length : SIM_MESSAGE_LEN);
	}
	obs_post(w->observer, qp, req);
	req->ready_at = w->clock.now + delay(qp, w->set.wire_min, w->set.wire_max);
	if (req->ready_at < qp->last_ready)
		req->ready_at = qp->last_ready;
	qp->last_ready = req->ready_at;
	qp->posted++;
	if (w->posted)
		w->posted(w, qp, req);
	if (!qp->arrive_pending) {
		qp->arrive_pending = true;
		clock_at(&w->clock, req->ready_at, arrive_event, qp, 0);
	}
}

void wire_land_some(struct qp *qp)
{
	if (qp->state != QP_RTS || qp->executed == qp->posted)
		return;
	uint64_t n = delay(qp, 0, (uint32_t)(qp->posted - qp->executed));
	struct qp *peer = ready_peer(qp);
	while (peer && n-- && !qp->world->failed && fits(qp, slot(qp, qp->executed)) &&
	       execute(qp, peer, slot(qp, qp->executed)))
		;
}

void wire_flush(struct qp *qp)
{
	for (uint64_t i = qp->acked; i < qp->posted; i++) {
		struct request *req = slot(qp, i);
		if (req->state != WR_FAILED)
			req->state = WR_FLUSHED;
	}
	if (qp->reported < qp->posted)
		schedule_cq(qp);
}

void wire_forget(struct qp *qp)
{
	for (; qp->reported < qp->posted; qp->reported++)
		obs_settled(qp->world->observer, qp, slot(qp, qp->reported), false);
}

static void stale_event(void *object, uint64_t arg)
{
	host_stale_input(((struct qp *)object)->host, object, arg);
}

static void drop_received(struct qp *qp)
{
	while (qp->rq_len)
		free(qp->rq[--qp->rq_len].longer);
}

void wire_free(struct qp *qp)
{
	drop_received(qp);
	for (uint32_t i = 0; i < qp->depth; i++)
		free(qp->sq[i].longer);
}

void wire_gone(struct qp *qp)
{
	struct world *w = qp->world;
	drop_received(qp);
	if (prng_chance(&w->rng, w->set.stale_permille))
		clock_in(&w->clock, delay(qp, 0, 5000), stale_event, qp, prng_range(&w->rng, 0, 1));
}

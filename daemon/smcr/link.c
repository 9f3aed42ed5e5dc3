/* SPDX-License-Identifier: MIT */
/* SMC-R links: the queue pair, what is posted on it, and its failure (RFC 7609 2.2). */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "daemon/smcr/data.h"
#include "daemon/smcr/llc_confirm_link.h"
#include "daemon/smcr/llc_delete_link.h"
#include "daemon/smcr/llc_links.h"
#include "daemon/smcr/llc_rkey.h"
#include "daemon/smcr/trace.h"

/** Entries of the send queue that data leave free for LLC messages. */
#define LLC_RESERVE 16

static struct smcr_tx_entry *entry_of(struct smcr_link *link, uint64_t wr_id)
{
	return &link->tx[wr_id % link->tx_depth];
}

static uint32_t in_flight(const struct smcr_link *link)
{
	return (uint32_t)(link->tx_next - link->tx_done);
}

/* ---- life ---- */

static void count_posted(const struct smcr_tx_entry *entry)
{
	entry->conn->tx.outstanding++;
	entry->conn->tx.proofs += entry->kind == SMCR_TX_PROOF;
}

static void count_done(const struct smcr_tx_entry *entry)
{
	entry->conn->tx.outstanding--;
	entry->conn->tx.proofs -= entry->kind == SMCR_TX_PROOF;
}

static void complete(struct smcr_link *link, uint64_t wr_id, bool ok)
{
	struct smcr_tx_entry entry = *entry_of(link, wr_id);
	memset(entry_of(link, wr_id), 0, sizeof(entry));
	smcr_element_release(&entry.release);
	if (entry.llc_long) {
		link->lgr->long_posted = false;
		smcr_llc_kick(link->lgr); /* a long message may wait on any link of the group */
	}
	if (ok && entry.length > 0)
		smcr_path_passed(link, entry.length);
	if (entry.conn)
		count_done(&entry);
	if (entry.kind == SMCR_TX_LLC) {
		smcr_llc_sent(link, &entry, ok);
	} else if (entry.kind == SMCR_TX_PROOF) {
		if (entry.conn)
			smcr_tx_proof_over(entry.conn);
		if (ok && link->passed >= link->mtu)
			smcr_llc_path_proved(link);
	} else if (entry.conn) {
		if (ok)
			entry.conn->last_active = link->lgr->engine->now;
		smcr_tx_done(entry.conn, link, &entry, ok);
	}
	smcr_llc_answer_withdrawal(link->lgr);
}

/** Complete the requests that never reached the QP, once all before them have completed: the host
 * reports nothing about them. */
static void flush_unposted(struct smcr_link *link)
{
	while (link->qp_failed && link->tx_done >= link->tx_posted && link->tx_done < link->tx_next)
		complete(link, link->tx_done++, false);
}

static void on_fail_work(struct smcr_engine *engine, void *arg)
{
	struct smcr_link *link = arg;
	(void)engine;
	flush_unposted(link);
	const unsigned int moved = smcr_failover_leave(link);
	smcr_news_of_link(link,
			  (struct smcr_news){ .type = SMCR_NEWS_LINK_FAILED, .num_conns = moved });
	smcr_llc_link_lost(link);
	if (link->deletion.state == SMCR_DELETION_AGREED)
		smcr_llc_kick(link->lgr);
}

static uint8_t free_slot(const struct smcr_lgr *lgr)
{
	uint8_t slot = 0;
	while (slot < SMCR_LINK_SLOTS && lgr->links[slot])
		slot++;
	return slot;
}

/** The next number that no link of the group has. All numbers but 0 are used before one is used
 * again (LG-11). */
static uint8_t next_number(struct smcr_lgr *lgr)
{
	do {
		lgr->last_link_number++;
	} while (!lgr->last_link_number || smcr_lgr_link_by_number(lgr, lgr->last_link_number));
	return lgr->last_link_number;
}

/** LG-1: each link has access to all RMBs of the group. */
static int register_slabs(struct smcr_link *link)
{
	struct smcr_slab *slab;
	int rc;
	DL_FOREACH (link->lgr->rmbs, slab) {
		rc = smcr_slab_register(slab, link);
		if (rc)
			return rc;
	}
	DL_FOREACH (link->lgr->sndbufs, slab) {
		rc = smcr_slab_register(slab, link);
		if (rc)
			return rc;
	}
	return 0;
}

static struct smcr_link *link_alloc(struct smcr_lgr *lgr, struct smcr_device *device)
{
	struct smcr_engine *engine = lgr->engine;
	struct smcr_link *link = calloc(1, sizeof(*link));
	if (!link)
		return NULL;
	link->tx_depth = engine->config.send_depth;
	link->tx = calloc(link->tx_depth, sizeof(*link->tx));
	if (!link->tx) {
		free(link);
		return NULL;
	}
	link->ref = engine->next_link_ref++;
	link->lgr = lgr;
	link->device = device;
	memcpy(link->device_name, device->info.name, sizeof(link->device_name));
	memcpy(link->local_gid, device->info.gid, SMCR_GID_LEN);
	memcpy(link->local_mac, device->info.mac, SMCR_MAC_LEN);
	link->mtu = device->info.mtu;
	link->psn = smcr_random24(engine);
	link->uid = engine->next_link_uid++;
	smcr_timer_init(&link->fail_work, on_fail_work, link);
	smcr_llc_link_init(link);
	smcr_keepalive_link_init(link);
	return link;
}

int smcr_link_new(struct smcr_lgr *lgr, struct smcr_device *device, uint8_t number,
		  struct smcr_link **ret_link)
{
	struct smcr_engine *engine = lgr->engine;
	uint8_t slot = free_slot(lgr);
	if (slot == SMCR_LINK_SLOTS)
		return -ENOSPC; /* LG-6 */
	struct smcr_link *link = link_alloc(lgr, device);
	if (!link)
		return -ENOMEM;
	link->slot = slot;
	link->number = number ? number : next_number(lgr);
	lgr->links[slot] = link;
	HASH_ADD(hh, engine->links, ref, sizeof(link->ref), link);
	uint32_t recv_len = smcr_lgr_is_v2(lgr) ? SMCR_LLC_V2_MAX_LEN : SMCR_LLC_LEN;
	int rc = engine->ops.rdma->qp_create(engine->ops.rdma_ctx, device->info.id, link->ref,
					     link->tx_depth, recv_len, &link->qp, &link->qpn);
	smcr_trace_link(link, "creation of the queue pair", rc);
	if (rc)
		link->qp = NULL;
	else
		engine->count.num_qps++;
	if (!rc)
		rc = register_slabs(link);
	if (rc) {
		smcr_log(engine, LOG_WARNING, "%s: cannot set up a link: %s", link->device_name,
			 strerror(-rc));
		smcr_link_free(link);
		return rc;
	}
	*ret_link = link;
	return 0;
}

/** Remove the first `n` LLC messages from those that wait. */
static void drop_waiting_llc(struct smcr_link *link, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		free(link->llc_wait[i].msg);
	link->llc_waiting -= n;
	memmove(&link->llc_wait[0], &link->llc_wait[n],
		link->llc_waiting * sizeof(link->llc_wait[0]));
}

void smcr_link_drop_qp(struct smcr_link *link)
{
	struct smcr_engine *engine = link->lgr->engine;
	if (link->qp) {
		struct smcr_slab *slab;
		/* The RNIC must not read memory that is being deregistered. */
		if (!link->qp_failed && in_flight(link)) {
			smcr_trace_link(link, "queue pair to error", 0);
			engine->ops.rdma->qp_error(engine->ops.rdma_ctx, link->qp);
		}
		DL_FOREACH (link->lgr->rmbs, slab)
			smcr_slab_deregister(slab, link);
		DL_FOREACH (link->lgr->sndbufs, slab)
			smcr_slab_deregister(slab, link);
		engine->ops.rdma->qp_destroy(engine->ops.rdma_ctx, link->qp);
		smcr_trace_link(link, "end of the queue pair", 0);
		engine->count.num_qps--;
		link->qp = NULL;
	}
	link->qp_failed = true;
	drop_waiting_llc(link, link->llc_waiting);
	while (link->tx_done < link->tx_next)
		complete(link, link->tx_done++, false);
}

/** CLC-17: in version 1 a link is named by its MAC too. In version 2 it is not, because the IP
 * stack may resolve another MAC. */
static bool same_mac(const struct smcr_lgr *lgr, const uint8_t *a, const uint8_t *b)
{
	return lgr->version >= SMCR_CLC_VERSION_2 || !memcmp(a, b, SMCR_MAC_LEN);
}

bool smcr_link_is_or_was_named(const struct smcr_lgr *lgr, const struct smcr_clc_accept *msg)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		const struct smcr_link *link = lgr->links[i];
		if (link && smcr_link_matches(link, msg))
			return true;
	}
	for (unsigned int i = 0; i < SMCR_GONE_LINKS; i++)
		if (lgr->gone[i].qpn == msg->qpn &&
		    !memcmp(lgr->gone[i].gid, msg->gid, SMCR_GID_LEN) &&
		    same_mac(lgr, lgr->gone[i].mac, msg->mac))
			return true;
	return false;
}

static void remember_gone(struct smcr_lgr *lgr, const struct smcr_link *link)
{
	unsigned int i = lgr->next_gone++ % SMCR_GONE_LINKS;
	lgr->gone[i].qpn = link->peer_qpn;
	memcpy(lgr->gone[i].gid, link->peer_gid, SMCR_GID_LEN);
	memcpy(lgr->gone[i].mac, link->peer_mac, SMCR_MAC_LEN);
}

void smcr_link_free(struct smcr_link *link)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_engine *engine = lgr->engine;
	smcr_news_of_link(link, (struct smcr_news){ .type = SMCR_NEWS_LINK_GONE });
	smcr_link_drop_qp(link);
	smcr_llc_link_free(link);
	struct smcr_conn *conn;
	DL_FOREACH2 (lgr->conns, conn, lgr_next) {
		smcr_link_forget(link, conn);
		if (conn->tx.link == link)
			smcr_link_assign(conn, NULL);
		if (conn->rv.link == link)
			conn->rv.link = NULL;
		if (conn->rx.last_link == link)
			conn->rx.last_link = NULL;
	}
	smcr_peer_rmb_forget_link(lgr, link);
	smcr_timer_stop(engine, &link->fail_work);
	smcr_timer_stop(engine, &link->idle_timer);
	HASH_DEL(engine->links, link);
	lgr->links[link->slot] = NULL;
	if (link->peer_qpn)
		remember_gone(lgr, link);
	free(link->tx);
	free(link);
}

struct smcr_link *smcr_link_by_ref(const struct smcr_engine *engine, uint64_t ref)
{
	struct smcr_link *link;
	HASH_FIND(hh, engine->links, &ref, sizeof(ref), link);
	return link;
}

bool smcr_link_matches(const struct smcr_link *link, const struct smcr_clc_accept *msg)
{
	return link->peer_qpn == msg->qpn && !memcmp(link->peer_gid, msg->gid, SMCR_GID_LEN) &&
	       same_mac(link->lgr, link->peer_mac, msg->mac);
}

bool smcr_link_leads_to(const struct smcr_link *link, const struct smcr_clc_accept *msg)
{
	return smcr_link_usable(link) && smcr_link_matches(link, msg);
}

/* A65. */
void smcr_link_supersede(const struct smcr_link *link)
{
	struct smcr_link *old, *next;
	HASH_ITER (hh, link->lgr->engine->links, old, next) {
		if (old != link && old->device == link->device && smcr_link_works(old) &&
		    old->peer_qpn == link->peer_qpn &&
		    !memcmp(old->peer_gid, link->peer_gid, SMCR_GID_LEN))
			smcr_link_fail(old, SMCR_LLC_DEL_LOST_PATH, "the peer has set it up anew");
	}
}

bool smcr_link_is_named(const struct smcr_link *link, const struct smcr_clc_accept *msg)
{
	return link->state == SMCR_LINK_ACTIVE && smcr_link_leads_to(link, msg);
}

/**
 * May the MAC that the peer tells be used (CLC-17)? RNICs make it the neighbour entry of the GID's
 * address for the whole host. So it is used only if the peer is on that network, where the peer
 * could answer ARP as well. A peer from elsewhere could divert the traffic to a router. If the peer
 * is behind a router, the IP stack finds the way anyway (docs/version-2.md).
 */
static bool mac_counts(const struct smcr_link *link, const uint8_t gid[SMCR_GID_LEN])
{
	const struct smcr_device *device = link->device;
	return link->lgr->near && device &&
	       (!smcr_gid_is_ipv4(gid) || smcr_device_reaches(device, gid));
}

int smcr_link_connect(struct smcr_link *link, const uint8_t gid[SMCR_GID_LEN],
		      const uint8_t mac[SMCR_MAC_LEN], uint32_t qpn, uint32_t psn, uint8_t mtu)
{
	struct smcr_engine *engine = link->lgr->engine;
	if (!smcr_gid_may_be_peer(engine, gid) || !smcr_mac_may_be_peer(mac))
		return -EADDRNOTAVAIL; /* SEC-6 */
	memcpy(link->peer_gid, gid, SMCR_GID_LEN);
	memcpy(link->peer_mac, mac, SMCR_MAC_LEN);
	link->peer_qpn = qpn;
	link->peer_psn = psn;
	if (mtu < link->mtu)
		link->mtu = mtu; /* CLC-9 */
	struct smcr_qp_peer peer = { .qpn = qpn, .psn = psn, .mtu = link->mtu };
	memcpy(peer.gid, gid, SMCR_GID_LEN);
	if (mac_counts(link, gid))
		memcpy(peer.mac, mac, SMCR_MAC_LEN);
	int rc = engine->ops.rdma->qp_connect(engine->ops.rdma_ctx, link->qp, &peer);
	smcr_trace_link(link, "queue pair to ready to receive", rc);
	return rc;
}

int smcr_link_start(struct smcr_link *link)
{
	struct smcr_engine *engine = link->lgr->engine;
	link->retry_ms = smcr_llc_patience(link->lgr, link);
	int rc = engine->ops.rdma->qp_start(engine->ops.rdma_ctx, link->qp, link->psn,
					    link->retry_ms);
	smcr_trace_link(link, "queue pair to ready to send", rc);
	return rc;
}

/* ---- posting ---- */

bool smcr_link_room(const struct smcr_link *link, uint32_t n)
{
	return smcr_link_works(link) && in_flight(link) + n <= link->tx_depth - LLC_RESERVE;
}

void smcr_link_post(struct smcr_link *link, struct smcr_wr *wr, const struct smcr_tx_entry *entries,
		    size_t n)
{
	struct smcr_engine *engine = link->lgr->engine;
	assert(n && in_flight(link) + n <= link->tx_depth);
	for (size_t i = 0; i < n; i++) {
		wr[i].wr_id = link->tx_next++;
		wr[i].signaled = i == n - 1;
		*entry_of(link, wr[i].wr_id) = entries[i];
		entry_of(link, wr[i].wr_id)->length = wr[i].is_write ? wr[i].length : 0;
		if (entries[i].conn)
			count_posted(&entries[i]);
	}
	if (!smcr_link_usable(link))
		return; /* flushed when the QP is destroyed */
	int rc = engine->ops.rdma->post(engine->ops.rdma_ctx, link->qp, wr, n);
	if (rc)
		smcr_link_fail(link, SMCR_LLC_DEL_LOST_PATH, "cannot post: %s", strerror(-rc));
	else
		link->tx_posted = link->tx_next;
}

void smcr_link_want_ack(const struct smcr_link *link)
{
	struct smcr_engine *engine = link->lgr->engine;
	if (smcr_link_usable(link))
		engine->ops.rdma->qp_want_ack(engine->ops.rdma_ctx, link->qp);
}

/** May an LLC message of this length be posted now? A long one is never posted on a failed link:
 * its completion may never be reported, and further long messages wait for that. It is dropped with
 * the QP. */
static bool llc_may_go(const struct smcr_link *link, size_t len)
{
	bool is_long = len > SMCR_LLC_LEN;
	return in_flight(link) < link->tx_depth &&
	       (!is_long || (!link->lgr->long_posted && smcr_link_usable(link)));
}

static void post_llc(struct smcr_link *link, const uint8_t *msg, size_t len,
		     const struct smcr_tx_entry *entry)
{
	struct smcr_wr wr = { .addr = msg, .length = (uint32_t)len };
	struct smcr_tx_entry copy = *entry;
	copy.llc_long = len > SMCR_LLC_LEN;
	link->lgr->long_posted |= copy.llc_long;
	smcr_link_post(link, &wr, &copy, 1);
}

int smcr_link_post_llc(struct smcr_link *link, const uint8_t *msg, size_t len,
		       const struct smcr_tx_entry *entry)
{
	if (!link->llc_waiting && llc_may_go(link, len)) {
		post_llc(link, msg, len, entry);
		return 0;
	}
	if (link->llc_waiting == SMCR_LINK_LLC_WAIT)
		return -ENOBUFS;
	uint8_t *copy = malloc(len);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, msg, len);
	link->llc_wait[link->llc_waiting].msg = copy;
	link->llc_wait[link->llc_waiting].len = len;
	link->llc_wait[link->llc_waiting++].entry = *entry;
	return 0;
}

/** Post LLC messages that wait for room: exchanges may follow each other faster than their
 * completions are seen. */
static void post_waiting_llc(struct smcr_link *link)
{
	unsigned int n = 0;
	for (; n < link->llc_waiting && llc_may_go(link, link->llc_wait[n].len); n++)
		post_llc(link, link->llc_wait[n].msg, link->llc_wait[n].len,
			 &link->llc_wait[n].entry);
	drop_waiting_llc(link, n);
}

void smcr_link_post_waiting(struct smcr_lgr *lgr)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		if (lgr->links[i])
			post_waiting_llc(lgr->links[i]);
}

bool smcr_link_llc_posted(const struct smcr_link *link, uint8_t type)
{
	for (uint64_t id = link->tx_done; id < link->tx_next; id++) {
		const struct smcr_tx_entry *entry = &link->tx[id % link->tx_depth];
		if (entry->kind == SMCR_TX_LLC && entry->llc_type == type)
			return true;
	}
	return false;
}

void smcr_link_wait(struct smcr_link *link, struct smcr_conn *conn)
{
	if (conn->tx.waiting)
		return;
	conn->tx.waiting = true;
	DL_APPEND2(link->waiting, conn, tx.wait_prev, tx.wait_next);
}

static void stop_waiting(struct smcr_link *link, struct smcr_conn *conn)
{
	conn->tx.waiting = false;
	DL_DELETE2(link->waiting, conn, tx.wait_prev, tx.wait_next);
}

/** Each connection that waits now gets one turn. A connection that has to wait again comes after
 * the others. */
static void resume_waiting(struct smcr_link *link)
{
	unsigned int turns = 0;
	struct smcr_conn *conn;
	DL_COUNT2(link->waiting, conn, turns, tx.wait_next);
	while (turns-- && link->waiting && smcr_link_room(link, 1)) {
		conn = link->waiting;
		stop_waiting(link, conn);
		smcr_tx_resume(conn);
	}
}

static void send_failed(struct smcr_link *link, uint64_t wr_id, enum smcr_send_status status,
			const char *text)
{
	bool in_use = link->state == SMCR_LINK_ACTIVE; /* else the peer may be removing it */
	if (status == SMCR_SEND_FAILED && smcr_path_blame(link, wr_id))
		return;
	link->path_dead |= status == SMCR_SEND_FAILED && !link->too_large;
	smcr_link_fail(link, SMCR_LLC_DEL_LOST_PATH, "%s", text);
	if (status == SMCR_SEND_DENIED && in_use)
		smcr_denied_write(link->lgr);
}

void smcr_engine_send_done(struct smcr_engine *engine, uint64_t link_ref, uint64_t wr_id,
			   enum smcr_send_status status, const char *text)
{
	struct smcr_link *link = smcr_link_by_ref(engine, link_ref);
	if (!link || wr_id < link->tx_done || wr_id >= link->tx_next)
		return;
	bool failed = status != SMCR_SEND_OK && status != SMCR_SEND_FLUSHED;
	if (status == SMCR_SEND_OK)
		link->last_active = engine->now;
	else
		send_failed(link, wr_id, status, text ? text : "sending failed");
	/* If a request failed, those before it have succeeded. A flushed request shows nothing
	 * about those before it. */
	while (link->tx_done <= wr_id) {
		bool ok = status == SMCR_SEND_OK || (failed && link->tx_done < wr_id);
		complete(link, link->tx_done++, ok);
	}
	flush_unposted(link);
	post_waiting_llc(link);
	resume_waiting(link);
	smcr_llc_link_less_busy(link);
}

void smcr_engine_qp_failed(struct smcr_engine *engine, uint64_t link_ref, const char *text)
{
	struct smcr_link *link = smcr_link_by_ref(engine, link_ref);
	if (link)
		smcr_link_fail(link, SMCR_LLC_DEL_LOST_PATH, "the queue pair failed: %s",
			       text ? text : "no detail");
}

void smcr_engine_not_posted(struct smcr_engine *engine, uint64_t link_ref, uint64_t wr_id,
			    const char *text)
{
	struct smcr_link *link = smcr_link_by_ref(engine, link_ref);
	if (!link)
		return;
	if (wr_id < link->tx_posted)
		link->tx_posted = wr_id;
	smcr_link_fail(link, SMCR_LLC_DEL_LOST_PATH, "cannot post: %s", text);
	flush_unposted(link);
}

/* ---- connections on a link ---- */

void smcr_link_assign(struct smcr_conn *conn, struct smcr_link *link)
{
	struct smcr_link *left = conn->tx.link;
	if (conn->tx.waiting)
		stop_waiting(left, conn);
	conn->tx.link = link;
	if (link)
		link->num_conns++;
	if (left) {
		left->num_conns--;
		smcr_llc_link_less_busy(left);
	}
}

void smcr_link_forget(struct smcr_link *link, struct smcr_conn *conn)
{
	if (conn->tx.waiting && conn->tx.link == link)
		stop_waiting(link, conn);
	struct smcr_tx_entry *last_write = NULL;
	for (uint64_t id = link->tx_done; conn->tx.outstanding && id < link->tx_next; id++) {
		struct smcr_tx_entry *entry = entry_of(link, id);
		if (entry->conn != conn)
			continue;
		count_done(entry);
		entry->conn = NULL;
		if (entry->length > 0)
			last_write = entry;
	}
	if (last_write) {
		last_write->release = conn->tx.buf;
		conn->tx.buf = (struct smcr_element){ 0 };
	}
}

/* ---- failure ---- */

/* FO-1. on_fail_work() moves the connections and tells the peer. */
void smcr_link_fail(struct smcr_link *link, uint32_t reason, const char *format, ...)
{
	struct smcr_engine *engine = link->lgr->engine;
	if (link->state == SMCR_LINK_FAILED)
		return;
	va_list ap;
	va_start(ap, format);
	vsnprintf(link->last_error, sizeof(link->last_error), format, ap);
	va_end(ap);
	link->state = SMCR_LINK_FAILED;
	link->qp_failed = true;
	/* An operator's deletion that is under way stays one: the link is not replaced (A50). */
	if (link->deletion.state == SMCR_DELETION_NONE ||
	    link->deletion.reason != SMCR_LLC_DEL_OPERATOR)
		link->deletion.reason = reason;
	if (link->qp) {
		smcr_trace_link(link, "queue pair to error", 0);
		engine->ops.rdma->qp_error(engine->ops.rdma_ctx, link->qp);
	}
	smcr_llc_links_changed(link->lgr);
	smcr_timer_start(engine, &link->fail_work, 0);
	smcr_news_of_link(link, (struct smcr_news){ .type = SMCR_NEWS_LINK_BROKEN });
}

void smcr_link_fail_now(struct smcr_link *link)
{
	if (!smcr_timer_running(&link->fail_work))
		return; /* done already */
	smcr_timer_stop(link->lgr->engine, &link->fail_work);
	on_fail_work(link->lgr->engine, link);
}

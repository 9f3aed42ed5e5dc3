/* SPDX-License-Identifier: MIT */
/* WRITEs and CDC: sequence, cursors, window, flags, ends (groups CDC, WIN, CLOSE, ABORT). */
#include <string.h>

#include "tests/sim/obs.h"
#include "tests/sim/urgent.h"

static bool over(const struct smcr_cdc *cdc)
{
	return cdc->conn_flags & (SMCR_CDC_CLOSED | SMCR_CDC_ABORT);
}

/** What the writer knows of the reader's position. */
static uint64_t known_consumed(const struct obs_flow *flow)
{
	return flow->conn->flow[!flow->writer].seen_consumed;
}

/** May this side send on this connection, on this link? After its program's end it may only send A:
 * an abort goes on without the program (ABORT-2). After C or A it may only repeat that flag, if the
 * CDC was lost with a link. */
static bool may_send(struct observer *obs, const struct obs_flow *flow, const struct obs_link *link,
		     bool last_words, bool again)
{
	const struct obs_conn *conn = flow->conn;
	const struct obs_group *group = link->group;
	int side = flow->writer;
	if (!group->gate[side])
		world_fail(obs->world, "RV-11",
			   "group %u: the %s sends data before its gate is open", group->number,
			   side_text(side));
	else if (side == CLIENT ? !conn->confirm_sent : !conn->confirm_seen)
		world_fail(obs->world, side == CLIENT ? "RS-8" : "RS-10",
			   "connection %u: the %s sends data before Confirm", conn->pair->number,
			   side_text(side));
	else if (!link->active[side] || link->gone[side])
		world_fail(obs->world, "ADDL-12",
			   "connection %u: the %s sends data on a link that is not active",
			   conn->pair->number, side_text(side));
	else if (conn->gone[side] && !last_words && !flow->moved)
		world_fail(obs->world, "HOST", "connection %u: the %s sends after its end",
			   conn->pair->number, side_text(side));
	else if (over(&flow->last) && (!again || flow->last_done))
		world_fail(obs->world, "CDC-13", "connection %u: the %s sends after C or A",
			   conn->pair->number, side_text(side));
	return !obs->world->failed;
}

/** A connection posts everything on one link; on the next link F comes first (FO-3, FO-4). */
static bool right_link(struct observer *obs, struct obs_flow *flow, struct qp *qp, bool validation)
{
	uint32_t number = flow->conn->pair->number;
	const char *side = side_text(flow->writer);
	if (flow->qp != qp && flow->open)
		world_fail(obs->world, "FO-3",
			   "connection %u: the %s has %u requests open on another link", number,
			   side, flow->open);
	else if (flow->qp && flow->qp != qp && !validation)
		world_fail(obs->world, "FO-4",
			   "connection %u: the %s goes on over another link without F", number,
			   side);
	flow->qp = qp;
	flow->open++;
	return !obs->world->failed;
}

void flow_settled(const struct request *req, bool ok)
{
	struct obs_flow *flow = req->flow;
	struct smcr_cdc cdc;
	flow->open--;
	if (req->wr.is_write) {
		flow->writes_open--;
		if (ok)
			flow->done_pos = req->pos + req->wr.length;
	} else if (ok && smcr_cdc_decode(req->payload, req->wr.length, &cdc) == 0) {
		flow->unproven = false;
		if (cdc.prod_flags & SMCR_CDC_FAILOVER)
			return;
		flow->done_seq = cdc.seq;
		flow->last_done = cdc.seq == flow->last.seq;
	}
}

/* ---- WRITE ---- */

static struct obs_rmb *rmb_by_rkey(struct obs_group *group, int owner, const struct obs_link *link,
				   uint32_t rkey, uint64_t *ret_vaddr)
{
	struct obs_rmb *rmb;
	DL_FOREACH (group->rmbs, rmb) {
		struct obs_token *token = rmb_token(rmb, link);
		if (rmb->owner == owner && token && token->rkey == rkey) {
			*ret_vaddr = token->vaddr;
			return rmb;
		}
	}
	return NULL;
}

static struct obs_flow *write_flow(struct observer *obs, struct obs_link *link, int side,
				   const struct smcr_wr *wr, uint64_t *ret_offset)
{
	struct world *w = obs->world;
	uint64_t start;
	struct obs_rmb *rmb = rmb_by_rkey(link->group, !side, link, wr->rkey, &start);
	if (!rmb) {
		world_fail(w, "RMB-10", "group %u: the %s writes with a key that link %u has not",
			   link->group->number, side_text(side), link->number);
		return NULL;
	}
	if (rmb->deleted) {
		world_fail(w, "RKEY-16", "group %u: the %s writes with a withdrawn RToken",
			   link->group->number, side_text(side));
		return NULL;
	}
	uint64_t offset = wr->remote_addr - start;
	if (wr->remote_addr < start || offset >= rmb->block->len) {
		world_fail(w, "RMB-11", "group %u: the %s writes outside the peer's RMB",
			   link->group->number, side_text(side));
		return NULL;
	}
	struct obs_flow *flow = rmb->user[offset / rmb->element_size + 1];
	if (!flow || flow->writer != side) {
		world_fail(w, "RMB-11", "group %u: the %s writes into an element nobody has",
			   link->group->number, side_text(side));
		return NULL;
	}
	*ret_offset = offset % rmb->element_size;
	return flow;
}

void write_posted(struct observer *obs, struct qp *qp, struct request *req)
{
	struct world *w = obs->world;
	struct obs_link *link = qp->link;
	uint64_t offset = 0;
	if (!link || !link->group) {
		world_fail(w, "RV-11", "WRITE on QP %06x, which is no link yet", qp->qpn);
		return;
	}
	int side = link_side(link, qp);
	struct obs_flow *flow = write_flow(obs, link, side, &req->wr, &offset);
	if (!flow || proof_posted(obs, qp, req, flow, offset) ||
	    !may_send(obs, flow, link, false, false) || !right_link(obs, flow, qp, false))
		return;
	uint32_t len = req->wr.length, base = flow_base(flow), usable = flow_usable(flow);
	uint32_t number = flow->conn->pair->number;
	if (offset < base || offset + len > flow->rmb->element_size)
		world_fail(w, "RMB-11", "connection %u: WRITE of %llu+%u beyond the element",
			   number, (unsigned long long)offset, len);
	else if (offset - base != flow->written % usable)
		world_fail(w, "CDC-11", "connection %u: WRITE at %llu, the stream goes on at %llu",
			   number, (unsigned long long)offset,
			   (unsigned long long)(base + flow->written % usable));
	else if (flow->written + len - known_consumed(flow) > usable)
		world_fail(w, "CDC-10", "connection %u: WRITE of %u bytes, the window has %llu",
			   number, len,
			   (unsigned long long)(usable - (flow->written - known_consumed(flow))));
	else if (flow->written + len > flow_writer(flow)->committed)
		world_fail(w, "DATA", "connection %u: more is written than the program gave",
			   number);
	obs_urgent_write(flow, len);
	req->flow = flow;
	req->pos = flow->written;
	flow->written += len;
	flow->writes_open++;
	obs_see(obs, flow->moved && req->pos < flow->produced ? SEEN_REPLAY : SEEN_WRITE);
	if (flow->written > usable)
		obs_see(obs, SEEN_WRAP);
	world_log(w, qp->device->info.name, "connection %u: WRITE %llu+%u", number,
		  (unsigned long long)offset, len);
}

void obs_write_lands(struct observer *obs, struct qp *qp, struct request *req, struct mr *mr,
		     size_t offset)
{
	struct world *w = obs->world;
	struct obs_flow *flow = req->flow;
	(void)qp;
	if (req->proof && !obs_blind(obs))
		proof_lands(obs, req, mr->addr + offset);
	if (obs_blind(obs) || !flow)
		return;
	uint32_t number = flow->conn->pair->number;
	struct obs_rmb *rmb = flow->rmb;
	const struct side *reader = side_peer(flow_writer(flow));
	if (mr->block != rmb->block || rmb->user[flow->index] != flow ||
	    offset / rmb->element_size + 1 != flow->index)
		world_fail(w, "RMB-8",
			   "connection %u: a WRITE lands in an element that is another's", number);
	else if (req->pos + req->wr.length > reader->consumed + flow_usable(flow) &&
		 !flow->conn->gone[reader->index] && !reader->closed && !reader->aborted)
		world_fail(w, "CDC-10", "connection %u: a WRITE overwrites unread bytes", number);
	else if (!stream_check(&flow_writer(flow)->stream, req->pos, req->wr.addr, req->wr.length))
		world_fail(w, "DATA", "connection %u: a WRITE carries wrong bytes", number);
	if (!flow->conn->pair->side[!flow->writer].established)
		obs_see(obs, SEEN_EARLY);
}

/* ---- CDC as posted ---- */

static struct obs_flow *flow_by_token(struct observer *obs, const struct host *host, uint32_t token)
{
	struct obs_flow *flow, probe = { .key = { (uint32_t)host->index, token } };
	HASH_FIND(hh, obs->tokens, &probe.key, sizeof(probe.key), flow);
	return flow;
}

/** The position that a cursor tells, not before `last`. */
static uint64_t position(struct world *w, const struct obs_flow *flow,
			 const struct smcr_cdc_cursor *cursor, uint64_t last)
{
	uint32_t base = flow_base(flow), usable = flow_usable(flow);
	if (cursor->offset < base || cursor->offset >= flow->rmb->element_size) {
		world_fail(w, "CDC-7", "cursor %u in an element of %u bytes", cursor->offset,
			   flow->rmb->element_size);
		return last;
	}
	uint64_t range = UINT64_C(65536) * usable;
	uint64_t told = (uint64_t)cursor->wrap * usable + (cursor->offset - base);
	return last + (told + range - last % range) % range;
}

static void check_raw(struct world *w, const uint8_t *data, size_t len, const struct smcr_cdc *cdc)
{
	uint8_t again[SMCR_CDC_LEN];
	if (smcr_cdc_encode(cdc, again, sizeof(again)) != (int)len || memcmp(again, data, len) != 0)
		world_fail(w, "CDC-1", "reserved fields of a CDC are not 0");
	if (cdc->prod_flags & 0x07 || cdc->conn_flags & 0x1f)
		world_fail(w, "CDC-1", "reserved flags of a CDC are not 0");
}

static void check_positions(struct world *w, struct obs_flow *flow, const struct smcr_cdc *cdc,
			    uint64_t produced, uint64_t consumed)
{
	const struct obs_flow *back = &flow->conn->flow[!flow->writer];
	const struct side *side = flow_writer(flow);
	uint32_t number = flow->conn->pair->number;
	bool free_running = !side->closed && !side->aborted && !side->reset &&
			    !(cdc->conn_flags & SMCR_CDC_ABORT);
	/* An abort replays nothing (FO-9). Its producer cursor covers bytes that were written on
	 * the failed link, and bytes that the failed link no longer took. */
	if (produced >
	    (cdc->conn_flags & SMCR_CDC_ABORT && flow->moved ? side->committed : flow->written))
		world_fail(w, "CDC-6", "connection %u: CDC tells %llu, written is %llu", number,
			   (unsigned long long)produced, (unsigned long long)flow->written);
	else if (produced < flow->written && free_running)
		world_fail(w, "CDC-4", "connection %u: CDC tells %llu of %llu written", number,
			   (unsigned long long)produced, (unsigned long long)flow->written);
	else if (consumed > back->seen_produced)
		world_fail(w, "CDC-12", "connection %u: CDC tells %llu read, only %llu came",
			   number, (unsigned long long)consumed,
			   (unsigned long long)back->seen_produced);
	else if (free_running && consumed != side->consumed)
		world_fail(w, "WIN-2",
			   "connection %u: CDC tells %llu read, the program has read %llu", number,
			   (unsigned long long)consumed, (unsigned long long)side->consumed);
}

/** WRITE BLOCKED: set while the window is full, never without a reason (CDC-16, A36). */
static void check_blocked(struct world *w, const struct obs_flow *flow, const struct smcr_cdc *cdc)
{
	bool blocked = cdc->prod_flags & SMCR_CDC_WRITE_BLOCKED;
	uint64_t window = flow_usable(flow) - (flow->written - known_consumed(flow));
	bool waiting = flow_writer(flow)->committed > flow->written;
	if (over(cdc))
		return;
	if (!window && !blocked)
		world_fail(w, "CDC-16", "connection %u: the window is full, but B is not set",
			   flow->conn->pair->number);
	if (window && !waiting && blocked)
		world_fail(w, "CDC-16", "connection %u: B is set, but nothing waits",
			   flow->conn->pair->number);
}

/** A CDC for the consumer cursor alone needs a reason (WIN-1, 3, 4). */
static void check_update(struct world *w, const struct obs_flow *flow, const struct smcr_cdc *cdc,
			 uint64_t produced, uint64_t consumed)
{
	const struct obs_flow *back = &flow->conn->flow[!flow->writer];
	if (produced != flow->produced || cdc->conn_flags != flow->last.conn_flags ||
	    cdc->prod_flags != flow->last.prod_flags || flow->moved)
		return;
	if (back->seen_any && back->seen.prod_flags & SMCR_CDC_CONS_UPDATE_REQ)
		return; /* the peer has asked for an update, to see whether it gets one (A66) */
	if (back->seen_any && back->seen.prod_flags & SMCR_CDC_WRITE_BLOCKED) {
		if (consumed == flow->consumed)
			world_fail(w, "WIN-3", "connection %u: a CDC that tells nothing new",
				   flow->conn->pair->number);
		return;
	}
	if (flow->owed || obs_urgent_consumed(flow, flow->consumed, consumed)) /* URG-6 */
		return;
	obs_see(flow->conn->group->obs, SEEN_UPDATE);
	uint64_t usable = flow_usable(back);
	uint64_t told_window = usable - (back->seen_produced - flow->consumed);
	uint64_t gain = consumed - flow->consumed;
	if (2 * told_window >= usable || 10 * gain < usable)
		world_fail(w, "WIN-1",
			   "connection %u: window update from %llu by %llu of %llu bytes",
			   flow->conn->pair->number, (unsigned long long)told_window,
			   (unsigned long long)gain, (unsigned long long)usable);
}

/** D, C and A are sent only when the program asked for that and all earlier WRITEs have completed.
 */
static void check_end(struct world *w, const struct obs_flow *flow, const struct smcr_cdc *cdc)
{
	const struct side *side = flow_writer(flow);
	const struct obs_flow *back = &flow->conn->flow[!flow->writer];
	uint32_t number = flow->conn->pair->number;
	uint8_t fresh = cdc->conn_flags & (uint8_t)~flow->last.conn_flags;
	if (flow->last.conn_flags & ~cdc->conn_flags & SMCR_CDC_SENDING_DONE &&
	    !(cdc->conn_flags & SMCR_CDC_ABORT))
		world_fail(w, "CDC-4", "connection %u: D is taken back", number);
	if (cdc->conn_flags & SMCR_CDC_ABORT)
		return;
	if (fresh & (SMCR_CDC_SENDING_DONE | SMCR_CDC_CLOSED)) {
		if (flow->written != side->committed)
			world_fail(w, "CLOSE-1",
				   "connection %u: %s with %llu of %llu bytes written", number,
				   fresh & SMCR_CDC_CLOSED ? "C" : "D",
				   (unsigned long long)flow->written,
				   (unsigned long long)side->committed);
		else if (flow->writes_open)
			world_fail(w, "CLOSE-1", "connection %u: %s with %u WRITEs not completed",
				   number, fresh & SMCR_CDC_CLOSED ? "C" : "D", flow->writes_open);
	}
	if (fresh & SMCR_CDC_SENDING_DONE && !side->shut && !side->closed)
		world_fail(w, "CLOSE-1", "connection %u: D, but the program has not shut down",
			   number);
	if (fresh & SMCR_CDC_CLOSED && !side->closed)
		world_fail(w, "CLOSE-1", "connection %u: C, but the program has not closed",
			   number);
	if (fresh & SMCR_CDC_CLOSED && side->unread_close && !over(&back->seen))
		world_fail(w, "CLOSE-1", "connection %u: C although data were left unread", number);
}

static void see_move(struct observer *obs, const struct obs_flow *flow)
{
	if (!flow->qp || flow->qp->state < QP_ERR)
		obs_see(obs, SEEN_MOVED);
	else if (flow->unproven)
		obs_see(obs, SEEN_DOUBLE_FAILOVER);
	else
		obs_see(obs, SEEN_FAILOVER);
}

static void see_flags(struct observer *obs, const struct obs_flow *flow, uint8_t prod_flags,
		      uint8_t fresh)
{
	const struct obs_flow *back = &flow->conn->flow[!flow->writer];
	uint8_t crossing = back->last.conn_flags & (uint8_t)~back->seen.conn_flags & fresh;
	obs_see(obs, SEEN_CDC);
	if (prod_flags & SMCR_CDC_WRITE_BLOCKED)
		obs_see(obs, SEEN_BLOCKED);
	if (fresh & SMCR_CDC_SENDING_DONE)
		obs_see(obs, SEEN_DONE);
	if (fresh & SMCR_CDC_CLOSED)
		obs_see(obs, SEEN_CLOSED);
	if (fresh & SMCR_CDC_ABORT)
		obs_see(obs, SEEN_ABORT);
	if (crossing & SMCR_CDC_CLOSED)
		obs_see(obs, SEEN_CROSSED_CLOSE);
	if (crossing & SMCR_CDC_ABORT)
		obs_see(obs, SEEN_CROSSED_ABORT);
}

/** F is the first message on the new link, and tells only the number of the last CDC that
 * completed. Bytes that completed before, or that the peer is known to have read, are not written
 * again. */
static void validation_posted(struct observer *obs, struct obs_flow *flow, struct qp *qp,
			      struct request *req, const struct smcr_cdc *cdc)
{
	struct world *w = obs->world;
	struct obs_link *link = qp->link;
	uint32_t number = flow->conn->pair->number;
	const struct smcr_cdc want = { .seq = flow->done_seq,
				       .alert_token = cdc->alert_token,
				       .prod_flags = SMCR_CDC_FAILOVER };
	uint8_t raw[SMCR_CDC_LEN];
	/* A connection that waits to leave its link may be sent back to the same link. */
	if (flow->qp == qp && flow->open)
		world_fail(w, "FO-4", "connection %u: F, but no link was switched", number);
	else if (cdc->seq != flow->done_seq)
		world_fail(w, "FO-5", "connection %u: F tells %u, the last that completed is %u",
			   number, cdc->seq, flow->done_seq);
	else if (smcr_cdc_encode(&want, raw, sizeof(raw)) < 0 ||
		 memcmp(raw, req->payload, sizeof(raw)) != 0)
		world_fail(w, "FO-4", "connection %u: F tells more than a number", number);
	if (w->failed || !may_send(obs, flow, link, true, true))
		return;
	see_move(obs, flow);
	if (!right_link(obs, flow, qp, true))
		return;
	req->flow = flow;
	flow->moved = flow->unproven = true;
	flow->written =
		known_consumed(flow) > flow->done_pos ? known_consumed(flow) : flow->done_pos;
}

void cdc_posted(struct observer *obs, struct qp *qp, struct request *req)
{
	struct world *w = obs->world;
	struct obs_link *link = qp->link;
	struct smcr_cdc cdc;
	if (!link || !link->qp[CLIENT] || !link->qp[SERVER]) {
		world_fail(w, "RV-11", "CDC on QP %06x, which is no link yet", qp->qpn);
		return;
	}
	if (smcr_cdc_decode(req->payload, req->wr.length, &cdc) < 0) {
		world_fail(w, "CDC-1", "malformed CDC");
		return;
	}
	int side = link_side(link, qp);
	struct obs_flow *flow = flow_by_token(obs, link->group->host[!side], cdc.alert_token);
	if (!flow || flow->writer != side || flow->conn->group != link->group) {
		world_fail(w, "CDC-5", "group %u: the %s sends a CDC with an unknown token",
			   link->group->number, side_text(side));
		return;
	}
	world_log(w, qp->device->info.name, "connection %u: > %s", flow->conn->pair->number,
		  describe_send(req->payload, req->wr.length, link->group->dialect));
	if (cdc.prod_flags & SMCR_CDC_FAILOVER) {
		validation_posted(obs, flow, qp, req, &cdc);
		return;
	}
	check_raw(w, req->payload, req->wr.length, &cdc);
	bool again = flow->moved &&
		     cdc.conn_flags & flow->last.conn_flags & (SMCR_CDC_CLOSED | SMCR_CDC_ABORT);
	if (!may_send(obs, flow, link, cdc.conn_flags & SMCR_CDC_ABORT, again) ||
	    !right_link(obs, flow, qp, false))
		return;
	req->flow = flow;
	/* A CDC that could not be posted on a failed link has used its number up. */
	if (flow->moved ? (int16_t)(cdc.seq - flow->last.seq) <= 0
			: cdc.seq != (uint16_t)(flow->last.seq + 1))
		world_fail(w, flow->moved ? "FO-9" : "CDC-2", "connection %u: CDC %u after %u",
			   flow->conn->pair->number, cdc.seq, flow->last.seq);
	uint64_t produced = position(w, flow, &cdc.producer, flow->produced);
	uint64_t consumed = position(w, &flow->conn->flow[!side], &cdc.consumer, flow->consumed);
	if (w->failed)
		return;
	check_positions(w, flow, &cdc, produced, consumed);
	check_blocked(w, flow, &cdc);
	obs_urgent_cdc(flow, &cdc, produced);
	check_update(w, flow, &cdc, produced, consumed);
	check_end(w, flow, &cdc);
	uint8_t fresh = cdc.conn_flags & (uint8_t)~flow->last.conn_flags;
	flow->any_cdc = true;
	flow->owed = flow->moved = flow->last_done = false;
	flow->last = cdc;
	flow->produced = produced;
	flow->consumed = consumed;
	see_flags(obs, flow, cdc.prod_flags, fresh);
}

/* ---- CDC as delivered ---- */

/** A CDC that the receiver's RNIC acknowledged was never received: data may be lost (FO-7). */
static void validation_fails(struct observer *obs, struct obs_flow *flow, int side)
{
	struct world *w = obs->world;
	obs_see(obs, SEEN_LOST);
	if (w->set.no_reset)
		world_fail(w, "FO-8", "connection %u: the %s's host has lost what it acknowledged",
			   flow->conn->pair->number, side_text(side));
}

void cdc_delivered(struct observer *obs, struct qp *qp, const uint8_t *data, size_t len)
{
	struct world *w = obs->world;
	struct obs_link *link = qp->link;
	struct smcr_cdc cdc;
	if (!link || smcr_cdc_decode(data, len, &cdc) < 0)
		return;
	int side = link_side(link, qp);
	struct obs_flow *flow = flow_by_token(obs, qp->host, cdc.alert_token);
	if (!flow || flow->writer == side)
		return;
	world_log(w, qp->device->info.name, "connection %u: < %s", flow->conn->pair->number,
		  describe_send(data, len, link->group->dialect));
	if (!flow->conn->pair->side[side].established)
		obs_see(obs, SEEN_EARLY);
	if (cdc.prod_flags & SMCR_CDC_FAILOVER) {
		if ((int16_t)(cdc.seq - (flow->seen_any ? flow->seen.seq : 0)) > 0)
			validation_fails(obs, flow, side);
		return;
	}
	if (flow->seen_any && (int16_t)(cdc.seq - flow->seen.seq) <= 0)
		return;
	flow->seen_produced = position(w, flow, &cdc.producer, flow->seen_produced);
	flow->seen_consumed =
		position(w, &flow->conn->flow[side], &cdc.consumer, flow->seen_consumed);
	flow->seen = cdc;
	flow->seen_any = true;
}

/* ---- what reading must lead to ---- */

/** Has the side any link, and can each take a CDC at once? A connection leaves part of a send queue
 * to the others. Where no link is left, since an RNIC was removed, the connection is about to be
 * reset. */
static bool links_free(const struct obs_group *group, int side)
{
	const struct obs_link *link;
	bool any = false;
	DL_FOREACH (group->links, link) {
		const struct qp *qp = link->qp[side];
		if (!qp || link->gone[side])
			continue;
		if (link->active[side] &&
		    (qp->state != QP_RTS || 2 * (qp->posted - qp->reported + 4) > qp->depth))
			return false;
		any = true;
	}
	return any;
}

void obs_consumed(struct observer *obs, struct side *side)
{
	struct obs_conn *conn = side->pair->obs;
	if (obs_blind(obs) || !conn || conn->gone[side->index])
		return;
	struct obs_flow *flow = &conn->flow[side->index];
	const struct obs_flow *back = &conn->flow[!side->index];
	if (over(&flow->last) || flow->consumed == side->consumed || over(&back->seen))
		return;
	uint64_t usable = flow_usable(back);
	uint64_t told_window = usable - (back->seen_produced - flow->consumed);
	uint64_t gain = side->consumed - flow->consumed;
	bool blocked = back->seen_any && back->seen.prod_flags & SMCR_CDC_WRITE_BLOCKED;
	bool urgent = obs_urgent_consumed(flow, flow->consumed, side->consumed);
	if (!blocked && !urgent && (2 * told_window >= usable || 10 * gain < usable))
		return;
	flow->owed = true;
	/* A D that waits for the last completions will carry the update. A connection that is being
	 * moved waits until everything that it has posted is done. */
	if (!links_free(conn->group, side->index) ||
	    (flow->open && (conn->group->changed || side->host->operated)) ||
	    (side->shut && !(flow->last.conn_flags & SMCR_CDC_SENDING_DONE)))
		return;
	world_fail(obs->world,
		   urgent    ? "URG-6"
		   : blocked ? "WIN-3"
			     : "WIN-1",
		   "connection %u: no window update at %llu, gain %llu of %llu%s",
		   side->pair->number, (unsigned long long)told_window, (unsigned long long)gain,
		   (unsigned long long)usable, blocked ? ", and the peer is blocked" : "");
}

/* SPDX-License-Identifier: MIT */
/* The sending half of a queue pair: makes packets of the requests in the send queue, and sends as
 * many as the window and the peer's buffers allow. */
#include <errno.h>
#include <sys/param.h>

#include "daemon/rnic/soft/requester.h"

/* Packets that one QP sends before the next QP has its turn. */
#define QUANTUM 384

/* ---- what may leave */

bool soft_requester_pass_taken(const struct soft_requester *rq, uint64_t *packet, unsigned int *at)
{
	bool passed = false;
	while (*packet < rq->taken && soft_wqe_at(rq, *at)->opcode != RNIC_WR_RDMA_READ) {
		uint64_t end = soft_wqe_end(soft_wqe_at(rq, *at));
		*at += rq->taken >= end;
		*packet = MIN(rq->taken, end);
		passed = true;
	}
	return passed;
}

/* Has the peer, by its last answer, a buffer for this SEND? If nothing is under way a SEND is tried
 * in any case, since its answer brings new credits. One that has begun has its buffer. */
static bool credit(const struct soft_requester *rq, const struct soft_wqe *wqe, uint64_t packet)
{
	return !soft_wqe_is_send(wqe) || !rq->credits_known || wqe->send_ordinal < rq->send_limit ||
	       packet == rq->acked || packet > wqe->first;
}

bool soft_requester_ready(const struct soft_qp *qp)
{
	const struct soft_requester *rq = &qp->rq;
	if (qp->state != SOFT_QP_RTS || qp->ep->blocked || rq->not_ready_until)
		return false;
	if (rq->timed_out || (rq->reads && rq->reads->ask_again))
		return true;
	if (rq->stuck || rq->next == rq->end || rq->next - rq->acked >= rq->window.size)
		return false;
	const struct soft_wqe *wqe = soft_wqe_at(rq, rq->cursor);
	return wqe->opcode == RNIC_WR_RDMA_READ ? soft_read_may_go(rq, wqe, rq->next)
						: credit(rq, wqe, rq->next);
}

/* May the memory be used? It may have been deregistered after the post. */
static bool wqe_usable(struct soft_qp *qp, struct soft_wqe *wqe)
{
	bool (*ok)(struct soft_device *, const struct soft_pd *, uint32_t, const void *, uint32_t) =
		wqe->opcode == RNIC_WR_RDMA_READ ? soft_mr_local_write_ok : soft_mr_local_ok;
	if (wqe->flags & RNIC_SEND_INLINE)
		return true;
	const struct rnic_sge *sge = soft_wqe_pieces(&qp->rq, wqe);
	for (unsigned int i = 0; i < wqe->num_sge; i++, sge++) {
		if (sge->length && !ok(qp->dev, qp->pd, sge->lkey, sge->addr, sge->length))
			return false;
	}
	return true;
}

/* ---- packets */

unsigned int soft_wqe_gather(const struct soft_requester *rq, struct soft_wqe *wqe, uint32_t offset,
			     uint32_t len, struct rnic_sge pieces[RNIC_MAX_SGE])
{
	unsigned int n = 0;
	const struct rnic_sge *sge = soft_wqe_pieces(rq, wqe);
	for (; len > 0; sge++) {
		if (offset >= sge->length) {
			offset -= sge->length;
			continue;
		}
		uint32_t part = MIN(sge->length - offset, len);
		pieces[n++] =
			(struct rnic_sge){ (const uint8_t *)sge->addr + offset, part, sge->lkey };
		len -= part;
		offset = 0;
	}
	return n;
}

uint32_t soft_wqe_packet_len(const struct soft_wqe *wqe, uint64_t packet, uint32_t mtu)
{
	uint32_t offset = (uint32_t)(packet - wqe->first) * mtu;
	return MIN(wqe->length - offset, mtu);
}

/* The bytes of a packet. @return how many pieces */
static unsigned int payload_of(const struct soft_requester *rq, struct soft_wqe *wqe,
			       uint32_t offset, uint32_t len, struct iovec payload[RNIC_MAX_SGE])
{
	if (wqe->flags & RNIC_SEND_INLINE) {
		payload[0] = (struct iovec){ wqe->inline_data + offset, len };
		return 1;
	}
	struct rnic_sge pieces[RNIC_MAX_SGE];
	unsigned int n = soft_wqe_gather(rq, wqe, offset, len, pieces);
	for (unsigned int i = 0; i < n; i++)
		payload[i] = (struct iovec){ (void *)pieces[i].addr, pieces[i].length };
	return n;
}

static uint8_t opcode_of(const struct soft_wqe *wqe, uint32_t index)
{
	/* FIRST, MIDDLE, LAST, ONLY */
	static const uint8_t forms[][4] = {
		[RNIC_WR_SEND] = { ROCE_SEND_FIRST, ROCE_SEND_MIDDLE, ROCE_SEND_LAST,
				   ROCE_SEND_ONLY },
		[RNIC_WR_RDMA_WRITE] = { ROCE_WRITE_FIRST, ROCE_WRITE_MIDDLE, ROCE_WRITE_LAST,
					 ROCE_WRITE_ONLY },
		[RNIC_WR_SEND_INVALIDATE] = { ROCE_SEND_FIRST, ROCE_SEND_MIDDLE,
					      ROCE_SEND_LAST_INVALIDATE,
					      ROCE_SEND_ONLY_INVALIDATE },
	};
	unsigned int form = index == 0 ? 0 : index == wqe->packets - 1 ? 2 : 1;
	if (!wqe->one_message || wqe->packets == 1)
		form = 3;
	return forms[wqe->opcode][form];
}

static bool add_packet(struct soft_qp *qp, struct soft_wqe *wqe, uint64_t packet)
{
	const struct soft_requester *rq = &qp->rq;
	uint32_t index = (uint32_t)(packet - wqe->first);
	uint32_t offset = index * qp->mtu;
	uint32_t len = soft_wqe_packet_len(wqe, packet, qp->mtu);
	bool last = index == wqe->packets - 1;
	struct roce_bth bth = { .opcode = opcode_of(wqe, index),
				.solicited = last && wqe->flags & RNIC_SEND_SOLICITED,
				.psn = soft_psn_of(rq, packet) };
	union roce_ext ext;
	if (soft_wqe_is_send(wqe))
		ext.invalidate = wqe->rkey;
	else
		ext.reth = (struct roce_reth){ .va = wqe->remote_addr + offset,
					       .rkey = wqe->rkey,
					       .length = wqe->one_message ? wqe->length : len };
	struct iovec payload[RNIC_MAX_SGE];
	unsigned int n = payload_of(rq, wqe, offset, len, payload);
	/* A program that shares the memory may change it between the computation of the ICRC and
	 * the kernel's copy. The peer then drops the packet. A retransmission sends a private copy,
	 * so such a program cannot break the link for others. */
	bool again = packet < rq->sent;
	return soft_tx_add(qp->dev->tx, &bth, &ext, payload, n, again);
}

/* ---- batches */

/* A packet on the wire: what it stands for, from `packet` on, ends here. 0: it cannot leave now, or
 * the batch is full. */
static uint64_t add(struct soft_qp *qp, struct soft_wqe *wqe, uint64_t packet)
{
	if (wqe->opcode != RNIC_WR_RDMA_READ)
		return add_packet(qp, wqe, packet) ? packet + 1 : 0;
	struct soft_read *read = soft_read_plan(&qp->rq, wqe, packet);
	if (!read || !soft_read_add(qp, read, packet, read->end))
		return 0;
	read->again = read->again || packet > read->first;
	return read->end;
}

/* Fill a batch from packet `next` on. @return how many packets it has on the wire */
static size_t fill(struct soft_qp *qp)
{
	struct soft_requester *rq = &qp->rq;
	uint64_t packet = rq->next;
	unsigned int at = rq->cursor;
	size_t n = 0;
	bool fresh = true; /* at the first packet of this wqe in the batch */
	soft_tx_begin(qp->dev->tx, qp);
	while (packet < rq->end && n < QUANTUM && packet - rq->acked < rq->window.size) {
		struct soft_wqe *wqe = soft_wqe_at(rq, at);
		/* If the memory may not be used any more, the QP fails only when everything before
		 * is completed. */
		if (fresh && !wqe_usable(qp, wqe)) {
			rq->stuck = packet == rq->next;
			if (packet == rq->acked)
				soft_qp_fail(qp, RNIC_WC_LOC_PROT_ERR);
			break;
		}
		if (fresh && !credit(rq, wqe, packet))
			break;
		uint64_t end = add(qp, wqe, packet);
		if (!end)
			break;
		n++;
		packet = end;
		fresh = packet == soft_wqe_end(wqe);
		at += fresh;
		fresh = soft_requester_pass_taken(rq, &packet, &at) || fresh;
	}
	if (n > 0)
		soft_responder_offer_ack(qp);
	return n;
}

static void count_payload(struct soft_requester *rq, const struct soft_wqe *wqe, uint64_t from,
			  uint64_t to, uint32_t mtu)
{
	uint64_t begin = (from - wqe->first) * mtu;
	uint64_t end = (to - wqe->first) * mtu;
	rq->tx_bytes += MIN(end, wqe->length) - begin;
}

/* Up to `n` packets on the wire from `next` on were sent, as many as belong to one work request.
 * @param ret_again  how many of them were sent before
 * @return how many these are */
static size_t sent_of_one(struct soft_requester *rq, size_t n, uint32_t mtu, uint64_t *ret_again)
{
	const struct soft_wqe *wqe = soft_wqe_at(rq, rq->cursor);
	const uint64_t from = rq->next;
	const uint64_t fresh = MAX(from, rq->sent); /* first packet that was not sent before */
	uint64_t to;
	if (wqe->opcode == RNIC_WR_RDMA_READ) {
		to = soft_read_of(rq->reads, from)->end;
		n = 1;
		*ret_again = from < rq->sent;
	} else {
		to = MIN(from + n, soft_wqe_end(wqe));
		n = (size_t)(to - from);
		*ret_again = MIN(to, fresh) - from;
		if (to > fresh)
			count_payload(rq, wqe, fresh, to, mtu);
	}
	rq->next = to;
	rq->cursor += to == soft_wqe_end(wqe);
	soft_requester_pass_taken(rq, &rq->next, &rq->cursor);
	return n;
}

/* Does the window limit what is sent? */
static bool window_is_full(const struct soft_requester *rq)
{
	if (rq->next - rq->acked >= rq->window.size)
		return true;
	if (!rq->reads || rq->next == rq->end)
		return false;
	const struct soft_wqe *wqe = soft_wqe_at(rq, rq->cursor);
	return wqe->opcode == RNIC_WR_RDMA_READ && rq->reads->count < rq->reads->asked &&
	       !soft_read_may_go(rq, wqe, rq->next);
}

/* `n` packets from `next` on were sent. */
static void sent(struct soft_qp *qp, size_t n)
{
	struct soft_requester *rq = &qp->rq;
	uint64_t now = qp->dev->now;
	uint64_t again = 0;
	if (rq->sent == rq->acked) {
		rq->progress_at = now;
		rq->may_give_up = false;
	}
	while (n > 0) {
		uint64_t part;
		n -= sent_of_one(rq, n, qp->mtu, &part);
		again += part;
	}
	rq->retransmits += again;
	qp->dev->stats.retransmits += again;
	rq->sent = MAX(rq->sent, rq->next);
	rq->window_full = window_is_full(rq);
	/* Round trips are measured on packets that were sent once. */
	if (again)
		rq->sample_at = 0;
	else if (!rq->sample_at) {
		rq->sample_at = now;
		rq->sample_packet = rq->next - 1;
	}
	if (!rq->deadline) {
		rq->deadline = soft_requester_deadline(rq, now);
		soft_qp_arm(qp);
	}
}

size_t soft_requester_transmit(struct soft_qp *qp)
{
	struct soft_requester *rq = &qp->rq;
	size_t total = 0;
	int r = -ERESTART;
	if (rq->timed_out)
		soft_requester_start_again(rq);
	if (rq->reads && rq->reads->ask_again)
		total = soft_reads_ask_again(qp);
	while (r == -ERESTART && soft_requester_ready(qp)) {
		size_t n;
		bool acked;
		if (fill(qp) == 0)
			break;
		r = soft_tx_flush(qp->dev->tx, qp->ep, &n, &acked);
		if (acked)
			soft_responder_acked(qp);
		/* The peer's time to answer begins now. The time that was read at the start of the
		 * round may be old: callbacks ran since, or this process had no processor. */
		qp->dev->now = soft_clock();
		if (n > 0)
			sent(qp, n);
		total += n;
	}
	return total;
}

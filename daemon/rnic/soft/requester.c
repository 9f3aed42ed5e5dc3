/* SPDX-License-Identifier: MIT */
/* The sending half of a queue pair (IBA 9.7.2..9.7.5): sends packets of the send queue, handles
 * answers, retransmits. After a loss it goes back to the packet that the peer misses and sends
 * everything from there again. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "daemon/rnic/soft/internal.h"

/* Retransmission timer. It is not so short that a peer that waits for a processor seems dead. */
#define RTO_INITIAL_US 50000
/* For the first packet as long as it is the only one: it is often lost because the host did not
 * know the peer's MAC. */
#define RTO_FIRST_US  2000
#define RTO_MIN_US    10000
#define RTO_MAX_US    200000
#define MAX_DOUBLINGS 7
/* A QP gives up only after so many transmissions, whatever the clock says. */
#define MIN_TRIES 4
/* After so many transmissions without an answer the port's state is read. */
#define TRIES_BEFORE_LOOK 2
/* If a timer fires later than this, this process did not run meanwhile. */
#define TIMER_SLACK_US 5000
/* So many timeouts fit into the retry limit at least, which are more than MIN_TRIES. */
#define TIMERS_IN_LIMIT 8

/* Packets that one QP sends before the next QP has its turn. */
#define QUANTUM 384

/* Places in the send queue that the user does not have: for ask_for_ack(). */
#define OWN_REQUESTS 1

int soft_requester_init(struct soft_requester *rq, unsigned int depth)
{
	rq->depth = depth + OWN_REQUESTS;
	rq->wqes = calloc(rq->depth, sizeof(*rq->wqes));
	return rq->wqes ? 0 : -ENOMEM;
}

void soft_requester_free(struct soft_requester *rq)
{
	free(rq->wqes);
	rq->wqes = NULL;
}

void soft_requester_start(struct soft_qp *qp, const struct rnic_qp_send_params *params)
{
	struct soft_requester *rq = &qp->rq;
	rq->psn0 = params->sq_psn;
	rq->retry_limit = (uint64_t)params->retry_ms * 1000;
	rq->rnr_retry = params->rnr_retry;
	soft_window_init(&rq->window, qp->mtu);
}

static struct soft_wqe *wqe_at(const struct soft_requester *rq, unsigned int i)
{
	unsigned int at = rq->head + i;
	return &rq->wqes[at < rq->depth ? at : at - rq->depth];
}

static uint32_t psn_of(const struct soft_requester *rq, uint64_t packet)
{
	return (uint32_t)(rq->psn0 + packet) & ROCE_PSN_MASK;
}

/* ---- posting */

static void post_one(struct soft_qp *qp, const struct rnic_send_wr *wr)
{
	struct soft_requester *rq = &qp->rq;
	struct soft_wqe *wqe = wqe_at(rq, rq->count++);
	wqe->wr = *wr;
	wqe->own = false;
	wqe->length = 0;
	for (unsigned int i = 0; i < wr->num_sge; i++) {
		if (wr->flags & RNIC_SEND_INLINE)
			memcpy(wqe->inline_data + wqe->length, wr->sge[i].addr, wr->sge[i].length);
		wqe->length += wr->sge[i].length;
	}
	if (wr->flags & RNIC_SEND_INLINE) {
		wqe->wr.num_sge = 1;
		wqe->wr.sge[0] = (struct rnic_sge){ wqe->inline_data, wqe->length, 0 };
	}
	wqe->first = rq->end;
	wqe->packets = wqe->length ? (wqe->length - 1) / qp->mtu + 1 : 1;
	/* Segmentation offload needs packets of one size. So a WRITE is sent as one WRITE ONLY
	 * message a packet, each with its RETH. */
	wqe->one_message = wr->opcode == RNIC_WR_SEND || !qp->dev->segmentation;
	wqe->send_ordinal = rq->sends_posted;
	rq->sends_posted += wr->opcode == RNIC_WR_SEND;
	rq->end += wqe->packets;
}

int soft_requester_post(struct soft_qp *qp, const struct rnic_send_wr *wr, size_t n)
{
	struct soft_requester *rq = &qp->rq;
	if (n > rq->depth - OWN_REQUESTS - (rq->count - rq->asking) - qp->send_wcs)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		post_one(qp, &wr[i]);
	return 0;
}

/* A WRITE without bytes changes nothing, and the peer acknowledges it at once. One for all that was
 * posted is enough, so the next waits for the ACK of the one before. */
static void ask_for_ack(struct soft_qp *qp)
{
	struct soft_requester *rq = &qp->rq;
	if (!rq->ack_wanted || rq->asking)
		return;
	rq->ack_wanted = false;
	if (rq->acked == rq->end)
		return;
	post_one(qp, &(struct rnic_send_wr){ .opcode = RNIC_WR_RDMA_WRITE });
	wqe_at(rq, rq->count - 1)->own = true;
	rq->asking = true;
}

void soft_requester_want_ack(struct soft_qp *qp)
{
	qp->rq.ack_wanted = true;
	ask_for_ack(qp);
}

/* ---- sending */

/* Was there no progress during the whole retry limit? */
static bool limit_reached(const struct soft_requester *rq, uint64_t now)
{
	return now - rq->progress_at >= rq->retry_limit && rq->tries >= MIN_TRIES;
}

/* May the QP give up now? The user has to agree twice, with a transmission in between, which may
 * still be answered. When a network that was dead as a whole comes back, each side hears the other
 * on one path first. Otherwise the two sides could give up different paths. */
static bool given_up(struct soft_qp *qp, uint64_t now)
{
	struct soft_requester *rq = &qp->rq;
	uint64_t silent = now - rq->progress_at;
	if (silent < rq->retry_limit / 2)
		return false;
	bool before = rq->may_give_up;
	rq->may_give_up = !qp->params.may_give_up ||
			  qp->params.may_give_up(qp->params.ctx, &qp->base, silent);
	return limit_reached(rq, now) && before && rq->may_give_up;
}

/* Has the peer, by its last answer, a buffer for this SEND? If nothing is under way a SEND is tried
 * in any case, since its answer brings new credits. */
static bool credit(const struct soft_requester *rq, const struct soft_wqe *wqe, uint64_t packet)
{
	return wqe->wr.opcode != RNIC_WR_SEND || !rq->credits_known ||
	       wqe->send_ordinal < rq->send_limit || packet == rq->acked;
}

bool soft_requester_ready(const struct soft_qp *qp)
{
	const struct soft_requester *rq = &qp->rq;
	if (qp->state != SOFT_QP_RTS || qp->ep->blocked || rq->not_ready_until)
		return false;
	if (rq->timed_out)
		return true;
	if (rq->stuck || rq->next == rq->end || rq->next - rq->acked >= rq->window.size)
		return false;
	return credit(rq, wqe_at(rq, rq->cursor), rq->next);
}

static bool wqe_readable(struct soft_qp *qp, const struct soft_wqe *wqe)
{
	if (wqe->wr.flags & RNIC_SEND_INLINE)
		return true;
	for (unsigned int i = 0; i < wqe->wr.num_sge; i++) {
		const struct rnic_sge *sge = &wqe->wr.sge[i];
		if (sge->length &&
		    !soft_mr_local_ok(qp->dev, qp->pd, sge->lkey, sge->addr, sge->length))
			return false;
	}
	return true;
}

/* The pieces of memory of [offset, offset + len) of a work request. @return how many */
static unsigned int gather(const struct soft_wqe *wqe, uint32_t offset, uint32_t len,
			   struct iovec pieces[RNIC_MAX_SGE])
{
	unsigned int n = 0;
	for (unsigned int i = 0; i < wqe->wr.num_sge && len > 0; i++) {
		const struct rnic_sge *sge = &wqe->wr.sge[i];
		if (offset >= sge->length) {
			offset -= sge->length;
			continue;
		}
		uint32_t part = sge->length - offset < len ? sge->length - offset : len;
		pieces[n++] = (struct iovec){ (uint8_t *)sge->addr + offset, part };
		len -= part;
		offset = 0;
	}
	return n;
}

static uint8_t opcode_of(const struct soft_wqe *wqe, uint32_t index)
{
	static const uint8_t send[] = { ROCE_SEND_FIRST, ROCE_SEND_MIDDLE, ROCE_SEND_LAST };
	static const uint8_t write[] = { ROCE_WRITE_FIRST, ROCE_WRITE_MIDDLE, ROCE_WRITE_LAST };
	bool is_send = wqe->wr.opcode == RNIC_WR_SEND;
	if (!wqe->one_message || wqe->packets == 1)
		return is_send ? ROCE_SEND_ONLY : ROCE_WRITE_ONLY;
	const uint8_t *forms = is_send ? send : write;
	return forms[index == 0 ? 0 : index == wqe->packets - 1 ? 2 : 1];
}

static bool add_packet(struct soft_qp *qp, const struct soft_wqe *wqe, uint64_t packet)
{
	const struct soft_requester *rq = &qp->rq;
	uint32_t index = (uint32_t)(packet - wqe->first);
	uint32_t offset = index * qp->mtu;
	uint32_t len = wqe->length - offset < qp->mtu ? wqe->length - offset : qp->mtu;
	bool last = index == wqe->packets - 1;
	struct roce_bth bth = { .opcode = opcode_of(wqe, index),
				.solicited = last && wqe->wr.flags & RNIC_SEND_SOLICITED,
				.psn = psn_of(rq, packet) };
	union roce_ext ext = { .reth = { .va = wqe->wr.remote_addr + offset,
					 .rkey = wqe->wr.rkey,
					 .length = wqe->one_message ? wqe->length : len } };
	struct iovec pieces[RNIC_MAX_SGE];
	unsigned int n = gather(wqe, offset, len, pieces);
	/* A program that shares the memory may change it between the computation of the ICRC and
	 * the kernel's copy. The peer then drops the packet. A retransmission sends a private copy,
	 * so such a program cannot break the link for others. */
	bool again = packet < rq->sent;
	return soft_tx_add(qp->dev->tx, &bth, &ext, pieces, n, again);
}

/* Fill a batch from packet `next` on. @return how many packets it has */
static size_t fill(struct soft_qp *qp)
{
	struct soft_requester *rq = &qp->rq;
	uint64_t packet = rq->next;
	unsigned int at = rq->cursor;
	bool fresh = true; /* at the first packet of this wqe in the batch */
	soft_tx_begin(qp->dev->tx, qp);
	while (packet < rq->end && packet - rq->next < QUANTUM &&
	       packet - rq->acked < rq->window.size) {
		struct soft_wqe *wqe = wqe_at(rq, at);
		/* The memory may have been deregistered after the post. The QP fails only when
		 * everything before is completed. */
		if (fresh && !wqe_readable(qp, wqe)) {
			rq->stuck = packet == rq->next;
			if (packet == rq->acked)
				soft_qp_fail(qp, RNIC_WC_LOC_PROT_ERR);
			break;
		}
		if (fresh && !credit(rq, wqe, packet))
			break;
		if (!add_packet(qp, wqe, packet))
			break;
		packet++;
		fresh = packet == wqe->first + wqe->packets;
		at += fresh;
	}
	if (packet > rq->next)
		soft_responder_offer_ack(qp);
	return (size_t)(packet - rq->next);
}

static uint64_t timeout(const struct soft_requester *rq)
{
	bool is_first = rq->acked == 0 && rq->end == 1;
	uint64_t rto = is_first ? RTO_FIRST_US : RTO_INITIAL_US;
	if (rq->rtt)
		rto = MAX(rq->rtt + 4 * (uint64_t)rq->rtt_var, RTO_MIN_US);
	rto <<= rq->tries < MAX_DOUBLINGS ? rq->tries : MAX_DOUBLINGS;
	/* TIMERS_IN_LIMIT timeouts have to fit into the retry limit. */
	uint64_t most = rq->retry_limit / TIMERS_IN_LIMIT;
	if (most > RTO_MAX_US)
		most = RTO_MAX_US;
	return rto < most ? rto : most > RTO_MIN_US ? most : RTO_MIN_US;
}

/* When the timer of an unanswered packet fires: at its timeout, or at the retry limit if that is
 * earlier. */
static uint64_t deadline(const struct soft_requester *rq, uint64_t now)
{
	uint64_t at = now + timeout(rq);
	uint64_t limit = rq->progress_at + rq->retry_limit;
	return limit > now && limit < at ? limit : at;
}

/* If the timer of an unanswered packet is late, this process did not run meanwhile: it was stopped
 * or had no processor, and could not have seen an answer. Do not count that time as silence of the
 * peer. To be called before given_up(). */
static void discount_absence(struct soft_requester *rq, uint64_t now)
{
	if (!rq->deadline || now <= rq->deadline + TIMER_SLACK_US)
		return;
	rq->progress_at += now - rq->deadline;
	rq->deadline = now;
}

static void count_payload(struct soft_requester *rq, const struct soft_wqe *wqe, uint64_t from,
			  uint64_t to, uint32_t mtu)
{
	uint64_t begin = (from - wqe->first) * mtu;
	uint64_t end = (to - wqe->first) * mtu;
	rq->tx_bytes += (end < wqe->length ? end : wqe->length) - begin;
}

/* `n` packets from `next` on were sent. */
static void sent(struct soft_qp *qp, size_t n)
{
	struct soft_requester *rq = &qp->rq;
	uint64_t now = qp->dev->now;
	uint64_t to = rq->next + n;
	uint64_t again = rq->next < rq->sent ? (to < rq->sent ? to : rq->sent) - rq->next : 0;
	rq->retransmits += again;
	qp->dev->stats.retransmits += again;
	if (rq->sent == rq->acked) {
		rq->progress_at = now;
		rq->may_give_up = false;
	}
	while (rq->next < to) {
		struct soft_wqe *wqe = wqe_at(rq, rq->cursor);
		uint64_t end = wqe->first + wqe->packets;
		uint64_t part = to < end ? to : end;
		uint64_t from = rq->next > rq->sent ? rq->next : rq->sent;
		if (part > from)
			count_payload(rq, wqe, from, part, qp->mtu);
		rq->next = part;
		rq->cursor += part == end;
	}
	if (rq->next > rq->sent)
		rq->sent = rq->next;
	rq->window_full = rq->next - rq->acked >= rq->window.size;
	/* Round trips are measured on packets that were sent once. */
	if (again)
		rq->sample_at = 0;
	else if (!rq->sample_at) {
		rq->sample_at = now;
		rq->sample_packet = rq->next - 1;
	}
	if (!rq->deadline) {
		rq->deadline = deadline(rq, now);
		soft_qp_arm(qp);
	}
}

static void go_back(struct soft_requester *rq)
{
	rq->next = rq->acked;
	rq->cursor = 0;
	rq->sample_at = 0;
	rq->stuck = false;
	rq->timed_out = false;
}

/* No answer has come in time, nor since the timer has fired. */
static void start_again(struct soft_requester *rq)
{
	soft_window_timeout(&rq->window, (uint32_t)(rq->next - rq->acked));
	rq->recover = rq->sent;
	go_back(rq);
}

size_t soft_requester_transmit(struct soft_qp *qp)
{
	size_t total = 0;
	int r = -ERESTART;
	if (qp->rq.timed_out)
		start_again(&qp->rq);
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

/* ---- answers */

static void measure(struct soft_requester *rq, uint64_t now)
{
	uint32_t sample = (uint32_t)(now - rq->sample_at) | 1;
	rq->sample_at = 0;
	if (!rq->rtt) {
		rq->rtt = sample;
		rq->rtt_var = sample / 2;
		return;
	}
	uint32_t off = sample > rq->rtt ? sample - rq->rtt : rq->rtt - sample;
	rq->rtt_var += (off >> 2) - (rq->rtt_var >> 2);
	rq->rtt += (sample >> 3) - (rq->rtt >> 3);
	rq->rtt |= 1;
}

static void complete_head(struct soft_qp *qp, enum rnic_wc_status status)
{
	struct soft_requester *rq = &qp->rq;
	struct soft_wqe *wqe = wqe_at(rq, 0);
	if (wqe->own)
		rq->asking = false;
	else if (status != RNIC_WC_SUCCESS || wqe->wr.flags & RNIC_SEND_SIGNALED)
		soft_qp_complete(qp, &(struct rnic_wc){ .status = status,
							.wr_id = wqe->wr.wr_id,
							.length = wqe->length });
	rq->sends_acked += wqe->wr.opcode == RNIC_WR_SEND;
	rq->head = rq->head + 1 < rq->depth ? rq->head + 1 : 0;
	rq->count--;
	if (rq->cursor > 0)
		rq->cursor--;
}

/* The peer has received everything before `packet`. */
static void advance(struct soft_qp *qp, uint64_t packet)
{
	struct soft_requester *rq = &qp->rq;
	uint64_t now = qp->dev->now;
	if (packet <= rq->acked)
		return;
	if (rq->sample_at && rq->sample_packet < packet)
		measure(rq, now);
	soft_window_acked(&rq->window, (uint32_t)(packet - rq->acked), rq->window_full);
	rq->window_full = false;
	rq->stuck = false;
	rq->timed_out = false;
	rq->acked = packet;
	rq->tries = 0;
	rq->may_give_up = false;
	rq->rnr_tries = 0;
	rq->not_ready_until = 0;
	rq->progress_at = now;
	while (rq->count > 0 && wqe_at(rq, 0)->first + wqe_at(rq, 0)->packets <= packet)
		complete_head(qp, RNIC_WC_SUCCESS);
	ask_for_ack(qp);
	/* The answer may cover packets that were going to be sent again. */
	if (rq->next < packet) {
		rq->next = packet;
		rq->cursor = 0;
	}
	rq->deadline = rq->next > rq->acked ? deadline(rq, now) : 0;
	soft_qp_arm(qp);
	soft_qp_busy(qp);
}

static void on_ack(struct soft_qp *qp, uint64_t packet, const struct roce_aeth *aeth)
{
	struct soft_requester *rq = &qp->rq;
	advance(qp, packet + 1);
	rq->credits_known = aeth->value != ROCE_CREDITS_UNLIMITED;
	rq->send_limit = rq->sends_acked + roce_credits_decode(aeth->value);
	soft_qp_busy(qp);
}

static void on_rnr_nak(struct soft_qp *qp, uint64_t packet, uint8_t timer_code)
{
	struct soft_requester *rq = &qp->rq;
	uint64_t now = qp->dev->now;
	qp->dev->stats.rnr_naks_received++;
	advance(qp, packet);
	if (rq->rnr_retry != 7 && rq->rnr_tries >= rq->rnr_retry) {
		soft_qp_fail(qp, RNIC_WC_RNR_RETRY_EXC_ERR);
		return;
	}
	rq->rnr_tries++;
	go_back(rq);
	/* The peer is alive, so the retry limit begins anew. */
	rq->tries = 0;
	rq->may_give_up = false;
	rq->progress_at = now;
	rq->not_ready_until = now + roce_rnr_timer_us(timer_code);
	rq->deadline = rq->not_ready_until;
	soft_qp_arm(qp);
}

static void on_sequence_nak(struct soft_qp *qp, uint64_t packet)
{
	struct soft_requester *rq = &qp->rq;
	advance(qp, packet);
	if (given_up(qp, qp->dev->now)) {
		soft_qp_fail(qp, RNIC_WC_RETRY_EXC_ERR);
		return;
	}
	rq->tries++;
	if (packet >= rq->recover) {
		soft_window_lost(&rq->window, (uint32_t)(rq->next - rq->acked));
		rq->recover = rq->sent;
	}
	go_back(rq);
	rq->deadline = deadline(rq, qp->dev->now);
	soft_qp_arm(qp);
	soft_qp_busy(qp);
}

static void on_nak(struct soft_qp *qp, uint64_t packet, uint8_t code)
{
	qp->dev->stats.naks_received++;
	if (code == ROCE_NAK_PSN_SEQUENCE) {
		on_sequence_nak(qp, packet);
		return;
	}
	advance(qp, packet);
	switch (code) {
	case ROCE_NAK_INVALID_REQUEST: soft_qp_fail(qp, RNIC_WC_REM_INV_REQ_ERR); break;
	case ROCE_NAK_REMOTE_ACCESS: soft_qp_fail(qp, RNIC_WC_REM_ACCESS_ERR); break;
	case ROCE_NAK_REMOTE_OPERATIONAL: soft_qp_fail(qp, RNIC_WC_REM_OP_ERR); break;
	default: soft_qp_fail(qp, RNIC_WC_GENERAL_ERR); break;
	}
}

bool soft_requester_awaits(const struct soft_qp *qp, uint32_t psn)
{
	const struct soft_requester *rq = &qp->rq;
	int64_t ahead = roce_psn_diff(psn, psn_of(rq, rq->acked));
	return qp->state == SOFT_QP_RTS && ahead >= 0 && ahead < (int64_t)(rq->sent - rq->acked);
}

void soft_requester_answer(struct soft_qp *qp, const struct roce_packet *answer)
{
	struct soft_requester *rq = &qp->rq;
	struct rnic_stats *stats = &qp->dev->stats;
	/* Nothing that is under way is answered with READ responses. */
	if (qp->state != SOFT_QP_RTS || answer->bth.opcode != ROCE_ACKNOWLEDGE) {
		stats->drop_psn++;
		return;
	}
	/* Position relative to the first packet that is not acknowledged. An ACK names the last
	 * packet that the peer received, a NAK the first one that it did not. */
	int64_t ahead = roce_psn_diff(answer->bth.psn, psn_of(rq, rq->acked));
	int64_t out = (int64_t)(rq->sent - rq->acked);
	if (ahead >= out || ahead < -SOFT_PSN_WINDOW) {
		stats->drop_psn++;
		return;
	}
	if (ahead < -1 || (ahead < 0 && answer->aeth.kind != ROCE_ACK)) {
		stats->duplicates++;
		return;
	}
	uint64_t packet = (uint64_t)((int64_t)rq->acked + ahead);
	discount_absence(rq, qp->dev->now);
	switch (answer->aeth.kind) {
	case ROCE_ACK: on_ack(qp, packet, &answer->aeth); break;
	case ROCE_RNR_NAK: on_rnr_nak(qp, packet, answer->aeth.value); break;
	case ROCE_NAK: on_nak(qp, packet, answer->aeth.value); break;
	case ROCE_ACK_RESERVED: stats->drop_malformed++; break;
	}
}

void soft_requester_congested(struct soft_qp *qp)
{
	struct soft_requester *rq = &qp->rq;
	qp->dev->stats.cnps_received++;
	/* Packets that are under way were sent before this side knew of the congestion. If they are
	 * marked or lost too, that is the same congestion. */
	if (qp->state != SOFT_QP_RTS || rq->acked < rq->recover || rq->sent == rq->acked)
		return;
	soft_window_marked(&rq->window, (uint32_t)(rq->sent - rq->acked));
	rq->recover = rq->sent;
}

/* ---- time and end */

void soft_requester_timer(struct soft_qp *qp)
{
	struct soft_requester *rq = &qp->rq;
	uint64_t now = qp->dev->now;
	if (!rq->deadline || now < rq->deadline)
		return;
	if (now < rq->not_ready_until) {
		rq->deadline = rq->not_ready_until;
		return;
	}
	discount_absence(rq, now);
	rq->deadline = 0;
	if (rq->not_ready_until) {
		rq->not_ready_until = 0;
		soft_qp_busy(qp);
		return;
	}
	if (rq->sent == rq->acked)
		return;
	qp->dev->stats.timeouts++;
	if (given_up(qp, now)) {
		soft_qp_fail(qp, RNIC_WC_RETRY_EXC_ERR);
		return;
	}
	rq->tries++;
	/* The kernel reports loss of carrier at once, but not more often than once a second. */
	if (rq->tries == TRIES_BEFORE_LOOK)
		soft_device_look(qp->dev);
	/* The answer may be in the socket: packets are sent again only when that was read. */
	rq->timed_out = true;
	rq->deadline = deadline(rq, now);
	soft_qp_busy(qp);
}

void soft_requester_set_retry(struct soft_qp *qp, unsigned int retry_ms)
{
	struct soft_requester *rq = &qp->rq;
	rq->retry_limit = (uint64_t)retry_ms * 1000;
	if (!rq->deadline || rq->not_ready_until)
		return; /* nothing is under way, or the peer has asked for a pause */
	uint64_t now = soft_clock();
	discount_absence(rq, now);
	uint64_t sooner = limit_reached(rq, now) ? now : deadline(rq, now);
	if (sooner < rq->deadline)
		rq->deadline = sooner;
	soft_qp_arm(qp);
}

void soft_requester_flush(struct soft_qp *qp, enum rnic_wc_status first)
{
	while (qp->rq.count > 0) {
		/* The user is told what went wrong by its first request. */
		const bool told = !wqe_at(&qp->rq, 0)->own;
		complete_head(qp, first);
		if (told)
			first = RNIC_WC_WR_FLUSH_ERR;
	}
}

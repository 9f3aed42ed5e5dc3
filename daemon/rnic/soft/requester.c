/* SPDX-License-Identifier: MIT */
/* The sending half of a queue pair (IBA 9.7.2..9.7.5): keeps the send queue, handles answers,
 * retransmits. After a loss it goes back to the packet that the peer misses and sends everything
 * from there again. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "daemon/rnic/soft/requester.h"

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

/* Places in the send queue that the user does not have: for ask_for_ack(). */
#define OWN_REQUESTS 1

int soft_requester_init(struct soft_requester *rq, unsigned int depth, unsigned int max_sge)
{
	rq->depth = depth + OWN_REQUESTS;
	rq->wqes = calloc(rq->depth, sizeof(*rq->wqes));
	rq->max_sge = MAX(max_sge, RNIC_FEW_SGE);
	if (rq->max_sge > RNIC_FEW_SGE)
		rq->sges = calloc((size_t)rq->depth * rq->max_sge, sizeof(*rq->sges));
	return rq->wqes && (rq->sges || rq->max_sge == RNIC_FEW_SGE) ? 0 : -ENOMEM;
}

void soft_requester_free(struct soft_requester *rq)
{
	free(rq->wqes);
	free(rq->sges);
	free(rq->reads);
	rq->wqes = NULL;
	rq->sges = NULL;
	rq->reads = NULL;
}

int soft_requester_start(struct soft_qp *qp, const struct rnic_qp_send_params *params)
{
	struct soft_requester *rq = &qp->rq;
	int r = params->reads_asked ? soft_reads_new(rq, params->reads_asked) : 0;
	rq->psn0 = params->sq_psn;
	rq->retry_limit = (uint64_t)params->retry_ms * 1000;
	rq->rnr_retry = params->rnr_retry;
	soft_window_init(&rq->window, qp->mtu);
	return r;
}

/* ---- posting */

/* Keep where the data are, or inline data themselves. */
static void keep_pieces(const struct soft_requester *rq, struct soft_wqe *wqe,
			const struct rnic_sge *sge, unsigned int num_sge)
{
	struct rnic_sge *pieces = soft_wqe_pieces(rq, wqe);
	for (unsigned int i = 0; i < num_sge; i++) {
		if (!(wqe->flags & RNIC_SEND_INLINE))
			pieces[i] = sge[i];
		else if (sge[i].length)
			memcpy(wqe->inline_data + wqe->length, sge[i].addr, sge[i].length);
		wqe->length += sge[i].length;
	}
}

static void post_one(struct soft_qp *qp, const struct rnic_send_wr *wr)
{
	struct soft_requester *rq = &qp->rq;
	struct soft_wqe *wqe = soft_wqe_at(rq, rq->count++);
	wqe->wr_id = wr->wr_id;
	wqe->remote_addr = wr->remote_addr;
	wqe->rkey = wr->rkey;
	wqe->opcode = (uint8_t)wr->opcode;
	wqe->flags = (uint8_t)wr->flags;
	wqe->num_sge = (uint8_t)wr->num_sge;
	wqe->own = false;
	wqe->length = 0;
	keep_pieces(rq, wqe, wr->pieces ? wr->pieces : wr->sge, wr->num_sge);
	wqe->first = rq->end;
	wqe->packets = wqe->length ? (wqe->length - 1) / qp->mtu + 1 : 1;
	/* Segmentation offload needs packets of one size. So a WRITE is sent as one WRITE ONLY
	 * message a packet, each with its RETH. */
	wqe->one_message = wr->opcode != RNIC_WR_RDMA_WRITE || !qp->dev->segmentation;
	wqe->send_ordinal = rq->sends_posted;
	rq->sends_posted += soft_wqe_is_send(wqe);
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
 * posted is enough, so the next waits for the ACK of the one before. A READ at the end is answered
 * at once in any case. */
static void ask_for_ack(struct soft_qp *qp)
{
	struct soft_requester *rq = &qp->rq;
	if (!rq->ack_wanted || rq->asking)
		return;
	rq->ack_wanted = false;
	if (rq->acked == rq->end || soft_wqe_at(rq, rq->count - 1)->opcode == RNIC_WR_RDMA_READ)
		return;
	post_one(qp, &(struct rnic_send_wr){ .opcode = RNIC_WR_RDMA_WRITE });
	soft_wqe_at(rq, rq->count - 1)->own = true;
	rq->asking = true;
}

void soft_requester_want_ack(struct soft_qp *qp)
{
	qp->rq.ack_wanted = true;
	ask_for_ack(qp);
}

/* ---- retries */

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

uint64_t soft_requester_deadline(const struct soft_requester *rq, uint64_t now)
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

/* Send again from `packet` on. */
static void go_back(struct soft_requester *rq, uint64_t packet)
{
	rq->next = packet;
	rq->cursor = 0;
	while (rq->cursor < rq->count && soft_wqe_end(soft_wqe_at(rq, rq->cursor)) <= packet)
		rq->cursor++;
	rq->sample_at = 0;
	rq->stuck = false;
	rq->timed_out = false;
	soft_requester_pass_taken(rq, &rq->next, &rq->cursor);
}

void soft_requester_start_again(struct soft_requester *rq)
{
	soft_window_timeout(&rq->window, (uint32_t)(rq->next - rq->acked));
	rq->recover = rq->sent;
	if (rq->reads)
		rq->reads->ask_again = false;
	go_back(rq, rq->acked);
}

void soft_requester_lost(struct soft_requester *rq, uint64_t packet)
{
	if (packet < rq->recover)
		return;
	soft_window_lost(&rq->window, (uint32_t)(rq->next - rq->acked));
	rq->recover = rq->sent;
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
	struct soft_wqe *wqe = soft_wqe_at(rq, 0);
	if (wqe->own)
		rq->asking = false;
	else if (status != RNIC_WC_SUCCESS || wqe->flags & RNIC_SEND_SIGNALED)
		soft_qp_complete(qp, &(struct rnic_wc){ .status = status,
							.wr_id = wqe->wr_id,
							.length = wqe->length });
	rq->sends_acked += soft_wqe_is_send(wqe);
	rq->head = rq->head + 1 < rq->depth ? rq->head + 1 : 0;
	rq->count--;
	if (rq->cursor > 0)
		rq->cursor--;
}

/* The timer after an answer: the pause that the peer has asked for goes on. */
static void set_timer(struct soft_requester *rq, uint64_t now)
{
	if (rq->not_ready_until)
		rq->deadline = rq->not_ready_until;
	else
		rq->deadline = rq->next > rq->acked ? soft_requester_deadline(rq, now) : 0;
}

void soft_requester_advance(struct soft_qp *qp, uint64_t packet, bool response)
{
	struct soft_requester *rq = &qp->rq;
	const uint64_t now = qp->dev->now, taken = rq->taken;
	rq->taken = MAX(taken, packet);
	if (rq->reads)
		packet = soft_reads_reach(rq, rq->acked);
	rq->taken = MAX(rq->taken, packet);
	if (packet <= rq->acked && rq->taken == taken)
		return;
	if (rq->taken > taken) { /* the request for which the peer was not ready is done */
		rq->rnr_tries = 0;
		rq->not_ready_until = 0;
	}
	if (rq->sample_at && rq->sample_packet < packet)
		measure(rq, now);
	soft_window_acked(&rq->window, (uint32_t)(packet - rq->acked), rq->window_full);
	/* An ACK is for many packets, a response is one of many. */
	rq->window_full = rq->window_full && response;
	rq->stuck = false;
	rq->timed_out = false;
	rq->acked = packet;
	rq->tries = 0;
	rq->may_give_up = false;
	rq->progress_at = now;
	while (rq->count > 0 && soft_wqe_end(soft_wqe_at(rq, 0)) <= packet)
		complete_head(qp, RNIC_WC_SUCCESS);
	ask_for_ack(qp);
	/* The answer may cover packets that were going to be sent again. */
	if (rq->next < packet) {
		rq->next = packet;
		rq->cursor = 0;
	}
	soft_requester_pass_taken(rq, &rq->next, &rq->cursor);
	set_timer(rq, now);
	soft_qp_arm(qp);
	soft_qp_busy(qp);
}

void soft_requester_credits(struct soft_requester *rq, uint8_t code)
{
	rq->credits_known = code != ROCE_CREDITS_UNLIMITED;
	rq->send_limit = rq->sends_acked + roce_credits_decode(code);
}

static void on_ack(struct soft_qp *qp, uint64_t packet, const struct roce_aeth *aeth)
{
	struct soft_requester *rq = &qp->rq;
	soft_requester_advance(qp, packet + 1, false);
	/* If the response to a READ before it is missing, it is not known yet how many SENDs before
	 * it are done. */
	if (rq->acked == packet + 1)
		soft_requester_credits(rq, aeth->value);
	soft_qp_busy(qp);
}

static void on_rnr_nak(struct soft_qp *qp, uint64_t packet, uint8_t timer_code)
{
	struct soft_requester *rq = &qp->rq;
	uint64_t now = qp->dev->now;
	qp->dev->stats.rnr_naks_received++;
	soft_requester_advance(qp, packet, false);
	if (rq->rnr_retry != 7 && rq->rnr_tries >= rq->rnr_retry) {
		soft_qp_fail(qp, RNIC_WC_RNR_RETRY_EXC_ERR);
		return;
	}
	rq->rnr_tries++;
	go_back(rq, packet);
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
	soft_requester_advance(qp, packet, false);
	if (given_up(qp, qp->dev->now)) {
		soft_qp_fail(qp, RNIC_WC_RETRY_EXC_ERR);
		return;
	}
	rq->tries++;
	soft_requester_lost(rq, packet);
	go_back(rq, packet);
	rq->deadline = soft_requester_deadline(rq, qp->dev->now);
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
	soft_requester_advance(qp, packet, false);
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
	int64_t ahead = roce_psn_diff(psn, soft_psn_of(rq, rq->acked));
	return qp->state == SOFT_QP_RTS && ahead >= 0 && ahead < (int64_t)(rq->sent - rq->acked);
}

/* @param packet  the last one that the peer received, or the first one that it did not: a NAK */
static void on_acknowledge(struct soft_qp *qp, uint64_t packet, const struct roce_aeth *aeth)
{
	struct soft_requester *rq = &qp->rq;
	if (aeth->kind == ROCE_NAK || aeth->kind == ROCE_RNR_NAK) {
		/* What the peer refuses begins with the request. */
		const struct soft_read *read = soft_read_of(rq->reads, packet);
		packet = read ? MAX(read->first, rq->acked) : packet;
		if (packet < rq->taken) {
			qp->dev->stats.duplicates++;
			return;
		}
	}
	switch (aeth->kind) {
	case ROCE_ACK: on_ack(qp, packet, aeth); break;
	case ROCE_RNR_NAK: on_rnr_nak(qp, packet, aeth->value); break;
	case ROCE_NAK: on_nak(qp, packet, aeth->value); break;
	case ROCE_ACK_RESERVED: qp->dev->stats.drop_malformed++; break;
	}
}

void soft_requester_answer(struct soft_qp *qp, const struct roce_packet *answer)
{
	struct soft_requester *rq = &qp->rq;
	struct rnic_stats *stats = &qp->dev->stats;
	if (qp->state != SOFT_QP_RTS) {
		stats->drop_psn++;
		return;
	}
	/* Position relative to the first packet that is not acknowledged. */
	int64_t ahead = roce_psn_diff(answer->bth.psn, soft_psn_of(rq, rq->acked));
	int64_t out = (int64_t)(rq->sent - rq->acked);
	bool response = answer->bth.opcode != ROCE_ACKNOWLEDGE;
	if (ahead >= out || ahead < -SOFT_PSN_WINDOW) {
		stats->drop_psn++;
		return;
	}
	/* The ACK of the packet before may tell of new credits. */
	if (ahead < -1 || (ahead < 0 && (response || answer->aeth.kind != ROCE_ACK))) {
		stats->duplicates++;
		return;
	}
	uint64_t packet = (uint64_t)((int64_t)rq->acked + ahead);
	discount_absence(rq, qp->dev->now);
	if (response)
		soft_read_response(qp, packet, answer);
	else
		on_acknowledge(qp, packet, &answer->aeth);
	if (rq->reads && qp->state == SOFT_QP_RTS)
		soft_reads_watch(qp);
}

void soft_requester_marked(struct soft_qp *qp)
{
	struct soft_requester *rq = &qp->rq;
	/* Packets that are under way were sent before this side knew of the congestion. If they are
	 * marked or lost too, that is the same congestion. */
	if (qp->state != SOFT_QP_RTS || rq->acked < rq->recover || rq->sent == rq->acked)
		return;
	soft_window_marked(&rq->window, (uint32_t)(rq->sent - rq->acked));
	rq->recover = rq->sent;
}

void soft_requester_congested(struct soft_qp *qp)
{
	qp->dev->stats.cnps_received++;
	soft_requester_marked(qp);
}

/* ---- time and end */

void soft_requester_timer(struct soft_qp *qp)
{
	struct soft_requester *rq = &qp->rq;
	uint64_t now = qp->dev->now;
	if (rq->gap_deadline && now >= rq->gap_deadline)
		soft_reads_timer(qp);
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
		set_timer(rq, now); /* for READs before the request that had to wait */
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
	rq->deadline = soft_requester_deadline(rq, now);
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
	uint64_t sooner = limit_reached(rq, now) ? now : soft_requester_deadline(rq, now);
	if (sooner < rq->deadline)
		rq->deadline = sooner;
	soft_qp_arm(qp);
}

void soft_requester_flush(struct soft_qp *qp, enum rnic_wc_status first)
{
	while (qp->rq.count > 0) {
		/* The user is told what went wrong by its first request. */
		const bool told = !soft_wqe_at(&qp->rq, 0)->own;
		complete_head(qp, first);
		if (told)
			first = RNIC_WC_WR_FLUSH_ERR;
	}
}

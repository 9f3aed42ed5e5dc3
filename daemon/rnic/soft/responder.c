/* SPDX-License-Identifier: MIT */
/* The receiving half of a queue pair (IBA 9.7.4, 9.9.3). It carries requests out strictly in the
 * order of their PSNs, each once. Packets that come early are held for a while (hold.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/rnic/soft/internal.h"

/* How long a gap may last before the missing packet counts as lost. On a veth pair a sender that
 * moves from core to core reorders hundreds of packets within this time. */
#define HOLD_US 1000

/* SENDs are acknowledged together after ACK_PACKETS packets or ACK_DELAY_US. In a ping-pong an ACK
 * for each message would cost both sides as much as the message. ACK_PACKETS is less than the
 * smallest window of a sender that has no losses (window.c). ACKs that are due leave at the end of
 * a round of the run loop. If the next round probably finds more packets, one ACK for both is
 * enough, as long as the sender may send more: it must not be kept waiting when no packet of it has
 * come in this round, nor when it waits for the ACK of half of its first window. A round receives
 * at most a quarter of that window. */
#define ACK_PACKETS    8
#define ACK_DELAY_US   1000
#define ACK_HOLD_BYTES (SOFT_WINDOW_START_BYTES / 2)

/* Least time between two congestion notifications. smcrd's requester slows down once a round trip,
 * however often it is told. */
#define NOTIFY_US 50

/* RNR NAK timer code 5 is 60 us, which the kernel's SMC-R uses too. Buffers are free again within
 * one run. */
#define RNR_TIMER_CODE 5

/* Kind of the message under way. */
enum {
	MESSAGE_NONE,
	MESSAGE_SEND,
	MESSAGE_WRITE,
};

/* Result of carrying out a packet. */
enum outcome {
	OUTCOME_DONE,
	OUTCOME_NOT_READY, /* no receive buffer */
	OUTCOME_INVALID_REQUEST,
	OUTCOME_REMOTE_ACCESS,
};

int soft_responder_init(struct soft_qp *qp)
{
	qp->rs.hold.budget = &qp->dev->hold_budget;
	qp->rs.buffers = malloc((size_t)qp->params.recv_depth * qp->params.recv_size);
	return qp->rs.buffers ? 0 : -ENOMEM;
}

void soft_responder_free(struct soft_responder *rs)
{
	soft_hold_clear(&rs->hold);
	free(rs->buffers);
	rs->buffers = NULL;
}

/* ---- answers */

static uint8_t credits(const struct soft_qp *qp)
{
	return roce_credits_encode(qp->params.recv_depth - qp->rs.buffers_used);
}

void soft_responder_congested(struct soft_qp *qp)
{
	struct soft_responder *rs = &qp->rs;
	if (qp->ep->blocked || (rs->notified_at && qp->dev->now - rs->notified_at < NOTIFY_US))
		return;
	rs->notified_at = qp->dev->now;
	soft_tx_congestion(qp);
}

void soft_responder_acked(struct soft_qp *qp)
{
	struct soft_responder *rs = &qp->rs;
	rs->ack_pending = rs->ack_hurry = false;
	rs->ack_deadline = 0;
	rs->unacked_packets = rs->unacked_before = 0;
}

static struct roce_aeth ack_of(const struct soft_qp *qp)
{
	return (struct roce_aeth){ .kind = ROCE_ACK, .value = credits(qp), .msn = qp->rs.msn };
}

bool soft_responder_ack_is_due(struct soft_qp *qp, bool more_comes)
{
	struct soft_responder *rs = &qp->rs;
	bool flows = rs->unacked_packets != rs->unacked_before;
	bool few = (uint64_t)rs->unacked_packets * qp->mtu < ACK_HOLD_BYTES;
	rs->unacked_before = rs->unacked_packets;
	return rs->ack_pending && !(more_comes && flows && few && !rs->ack_hurry);
}

void soft_responder_send_ack(struct soft_qp *qp)
{
	struct soft_responder *rs = &qp->rs;
	const struct roce_aeth aeth = ack_of(qp);
	if (qp->ep->blocked || soft_tx_ack(qp, rs->expected - 1, &aeth))
		return;
	soft_responder_acked(qp);
}

void soft_responder_offer_ack(struct soft_qp *qp)
{
	const struct soft_responder *rs = &qp->rs;
	const struct roce_aeth aeth = ack_of(qp);
	if (rs->ack_pending || rs->ack_deadline)
		soft_tx_add_ack(qp->dev->tx, rs->expected - 1, &aeth);
}

void soft_responder_settle(struct soft_qp *qp)
{
	/* The user may never be told of completions that wait now, so they must not be
	 * acknowledged. */
	if (qp->num_wcs > qp->send_wcs)
		return;
	if (qp->ep && (qp->rs.ack_pending || qp->rs.ack_deadline))
		soft_responder_send_ack(qp);
}

/* Send an ACK at the end of this round, or a little later if packets keep coming. */
static void ack_soon(struct soft_qp *qp)
{
	qp->rs.ack_pending = true;
	soft_qp_busy(qp);
}

/* Send an ACK at the end of this round. */
static void ack_now(struct soft_qp *qp)
{
	qp->rs.ack_hurry = true;
	ack_soon(qp);
}

static void ack_later(struct soft_qp *qp)
{
	struct soft_responder *rs = &qp->rs;
	if (rs->unacked_packets >= ACK_PACKETS) {
		ack_soon(qp);
	} else if (!rs->ack_deadline) {
		rs->ack_deadline = qp->dev->now + ACK_DELAY_US;
		soft_qp_arm(qp);
	}
}

/* Send a NAK, which also acknowledges everything before `expected`. If the socket is full the NAK
 * is dropped; the requester's timer makes up for that. */
static void send_nak(struct soft_qp *qp, enum roce_ack_kind kind, uint8_t value)
{
	struct roce_aeth aeth = { .kind = kind, .value = value, .msn = qp->rs.msn };
	if (kind == ROCE_NAK)
		qp->dev->stats.naks_sent++;
	else
		qp->dev->stats.rnr_naks_sent++;
	if (!soft_tx_ack(qp, qp->rs.expected, &aeth))
		soft_responder_acked(qp);
}

/* Send a NAK that ends the QP (IBA 9.9.3, class C). It is kept, to be repeated if it gets lost. */
static void refuse(struct soft_qp *qp, uint8_t code)
{
	send_nak(qp, ROCE_NAK, code);
	qp->rs.refused = true;
	qp->rs.refusal = (struct roce_aeth){ .kind = ROCE_NAK, .value = code, .msn = qp->rs.msn };
	soft_qp_fail(qp, RNIC_WC_WR_FLUSH_ERR);
}

/* Has the user been told of everything that was received? What it was not told of must not be
 * acknowledged. */
static bool has_told_everything(const struct soft_qp *qp)
{
	return !qp->flush && qp->num_wcs == 0;
}

bool soft_responder_refuse_again(struct soft_qp *qp, const struct roce_packet *packet)
{
	struct soft_responder *rs = &qp->rs;
	int32_t ahead = roce_psn_diff(packet->bth.psn, rs->expected);
	if (roce_is_answer(packet->bth.opcode) || ahead > 0 || qp->ep->blocked)
		return false;
	if (rs->refused && ahead == 0) {
		qp->dev->stats.duplicates++;
		send_nak(qp, rs->refusal.kind, rs->refusal.value);
		return true;
	}
	if (rs->refused || !has_told_everything(qp))
		return false;
	struct roce_aeth aeth = { .kind = ROCE_NAK,
				  .value = ROCE_NAK_REMOTE_OPERATIONAL,
				  .msn = rs->msn };
	qp->dev->stats.naks_sent++;
	soft_tx_ack(qp, packet->bth.psn, &aeth);
	return true;
}

/* ---- carrying out */

static enum outcome execute_send(struct soft_qp *qp, const struct roce_packet *p, bool first,
				 bool last)
{
	struct soft_responder *rs = &qp->rs;
	if (first) {
		if (rs->buffers_used == qp->params.recv_depth)
			return OUTCOME_NOT_READY;
		rs->send_length = 0;
	}
	if (p->payload_len > qp->params.recv_size - rs->send_length)
		return OUTCOME_INVALID_REQUEST;
	uint8_t *buffer = rs->buffers + (size_t)rs->buffer_head * qp->params.recv_size;
	memcpy(buffer + rs->send_length, p->payload, p->payload_len);
	rs->send_length += (uint32_t)p->payload_len;
	rs->message = last ? MESSAGE_NONE : MESSAGE_SEND;
	if (!last)
		return OUTCOME_DONE;
	rs->buffer_head = (rs->buffer_head + 1) % qp->params.recv_depth;
	rs->buffers_used++;
	soft_qp_complete(qp, &(struct rnic_wc){ .is_recv = true,
						.status = RNIC_WC_SUCCESS,
						.data = buffer,
						.length = rs->send_length });
	return OUTCOME_DONE;
}

static enum outcome execute_write(struct soft_qp *qp, const struct roce_packet *p, bool first,
				  bool last)
{
	struct soft_responder *rs = &qp->rs;
	if (first) {
		rs->write_rkey = p->reth.rkey;
		rs->write_va = p->reth.va;
		rs->write_left = p->reth.length;
		/* The whole message is checked at its start. */
		if (rs->write_left &&
		    !soft_mr_remote(qp->dev, qp->pd, rs->write_rkey, rs->write_va, rs->write_left))
			return OUTCOME_REMOTE_ACCESS;
	}
	if (p->payload_len > rs->write_left || (last && p->payload_len != rs->write_left))
		return OUTCOME_INVALID_REQUEST;
	if (p->payload_len) {
		/* Each packet is checked again: the memory may have been deregistered meanwhile. */
		uint8_t *to = soft_mr_remote(qp->dev, qp->pd, rs->write_rkey, rs->write_va,
					     (uint32_t)p->payload_len);
		if (!to)
			return OUTCOME_REMOTE_ACCESS;
		memcpy(to, p->payload, p->payload_len);
	}
	rs->write_va += p->payload_len;
	rs->write_left -= (uint32_t)p->payload_len;
	rs->message = last ? MESSAGE_NONE : MESSAGE_WRITE;
	return OUTCOME_DONE;
}

/* FIRST and MIDDLE packets carry exactly the path MTU, the others at most that (IBA 9.7.4.1.6). */
static bool length_ok(const struct soft_qp *qp, const struct roce_packet *p, bool last)
{
	return last ? p->payload_len <= qp->mtu : p->payload_len == qp->mtu;
}

static enum outcome execute(struct soft_qp *qp, const struct roce_packet *p)
{
	static const struct {
		uint8_t message;
		bool first, last;
	} forms[] = {
		[ROCE_SEND_FIRST] = { MESSAGE_SEND, true, false },
		[ROCE_SEND_MIDDLE] = { MESSAGE_SEND, false, false },
		[ROCE_SEND_LAST] = { MESSAGE_SEND, false, true },
		[ROCE_SEND_ONLY] = { MESSAGE_SEND, true, true },
		[ROCE_WRITE_FIRST] = { MESSAGE_WRITE, true, false },
		[ROCE_WRITE_MIDDLE] = { MESSAGE_WRITE, false, false },
		[ROCE_WRITE_LAST] = { MESSAGE_WRITE, false, true },
		[ROCE_WRITE_ONLY] = { MESSAGE_WRITE, true, true },
	};
	uint8_t message = forms[p->bth.opcode].message;
	bool first = forms[p->bth.opcode].first;
	bool last = forms[p->bth.opcode].last;
	/* A message may begin only when none is under way, and goes on with the kind that it began
	 * with. */
	if (qp->rs.message != (first ? MESSAGE_NONE : message) || !length_ok(qp, p, last))
		return OUTCOME_INVALID_REQUEST;
	enum outcome outcome = message == MESSAGE_SEND ? execute_send(qp, p, first, last)
						       : execute_write(qp, p, first, last);
	if (outcome == OUTCOME_DONE && last)
		qp->rs.msn = (qp->rs.msn + 1) & ROCE_PSN_MASK;
	return outcome;
}

/* Carry out the packet with the expected PSN. @return false: it was not carried out, and a NAK was
 * sent */
static bool take_turn(struct soft_qp *qp, const struct roce_packet *p, bool supported)
{
	struct soft_responder *rs = &qp->rs;
	enum outcome outcome = supported ? execute(qp, p) : OUTCOME_INVALID_REQUEST;
	switch (outcome) {
	case OUTCOME_DONE: break;
	case OUTCOME_NOT_READY:
		rs->rnr_sent = true;
		rs->nak_deadline = 0; /* the packet at `expected` was not lost */
		send_nak(qp, ROCE_RNR_NAK, RNR_TIMER_CODE);
		return false;
	case OUTCOME_INVALID_REQUEST: refuse(qp, ROCE_NAK_INVALID_REQUEST); return false;
	case OUTCOME_REMOTE_ACCESS:
		qp->dev->stats.drop_access++;
		refuse(qp, ROCE_NAK_REMOTE_ACCESS);
		return false;
	}
	rs->expected = (rs->expected + 1) & ROCE_PSN_MASK;
	rs->nak_sent = false;
	rs->rnr_sent = false;
	rs->rx_bytes += p->payload_len;
	rs->unacked_packets++;
	/* The user is told of a SEND and may answer with packets that can carry the ACK. It is not
	 * told of a WRITE. */
	if (p->bth.ack_req && p->bth.opcode >= ROCE_WRITE_FIRST)
		ack_soon(qp);
	else if (p->bth.ack_req)
		ack_later(qp);
	return true;
}

static void execute_held(struct soft_qp *qp)
{
	struct soft_responder *rs = &qp->rs;
	struct soft_held *held;
	bool on = true;
	while (on && (held = soft_hold_take(&rs->hold, rs->expected))) {
		struct roce_packet p;
		on = roce_decode(held->packet, held->len, &p) == 0 && take_turn(qp, &p, true);
		soft_hold_release(&rs->hold, held);
	}
}

/* ---- order */

/* Only a packet that could be carried out is held, so that a forged packet does not take the place
 * of a true one. */
static bool worth_holding(struct soft_qp *qp, const struct roce_packet *p)
{
	if (p->payload_len > qp->mtu)
		return false;
	return !roce_has_reth(p->bth.opcode) || p->reth.length == 0 ||
	       soft_mr_remote(qp->dev, qp->pd, p->reth.rkey, p->reth.va, p->reth.length);
}

static void send_sequence_nak(struct soft_qp *qp)
{
	qp->rs.nak_sent = true;
	qp->rs.nak_deadline = 0;
	send_nak(qp, ROCE_NAK, ROCE_NAK_PSN_SEQUENCE);
}

/* Set the time at which the missing packet counts as lost, or send the NAK if that has passed. */
static void watch_gap(struct soft_qp *qp)
{
	struct soft_responder *rs = &qp->rs;
	const struct soft_held *held = soft_hold_first(&rs->hold, rs->expected);
	rs->nak_deadline = held && !rs->nak_sent && !rs->rnr_sent ? held->at + HOLD_US : 0;
	if (rs->nak_deadline && qp->dev->now >= rs->nak_deadline)
		send_sequence_nak(qp);
	else if (rs->nak_deadline)
		soft_qp_arm(qp);
}

static void early(struct soft_qp *qp, const struct roce_packet *p, const uint8_t *buf, size_t len,
		  bool supported)
{
	struct soft_responder *rs = &qp->rs;
	struct rnic_stats *stats = &qp->dev->stats;
	stats->out_of_order++;
	if (!supported || !worth_holding(qp, p)) {
		stats->drop_access++;
		return;
	}
	switch (soft_hold_put(&rs->hold, rs->expected, p->bth.psn, buf, len, qp->dev->now)) {
	case SOFT_HOLD_KEPT:
		if (!rs->nak_deadline)
			watch_gap(qp);
		break;
	case SOFT_HOLD_DUPLICATE: stats->duplicates++; break;
	case SOFT_HOLD_FULL:
		/* The packet has to be sent again in any case, so report the gap now. */
		if (!rs->nak_sent && !rs->rnr_sent)
			send_sequence_nak(qp);
		break;
	}
}

void soft_responder_request(struct soft_qp *qp, const struct roce_packet *packet,
			    const uint8_t *buf, size_t len, bool supported)
{
	struct soft_responder *rs = &qp->rs;
	int32_t ahead = roce_psn_diff(packet->bth.psn, rs->expected);
	if (ahead >= SOFT_PSN_WINDOW || ahead < -SOFT_PSN_WINDOW) {
		qp->dev->stats.drop_psn++;
		return;
	}
	if (ahead > 0) {
		early(qp, packet, buf, len, supported);
		return;
	}
	if (ahead < 0) {
		/* It was carried out already. Acknowledge it again: the ACK may have been lost. */
		qp->dev->stats.duplicates++;
		ack_now(qp);
		return;
	}
	if (!take_turn(qp, packet, supported))
		return;
	if (rs->hold.count > 0 || rs->nak_deadline) {
		/* A gap was closed. Acknowledge at once: the sender waits for that. */
		execute_held(qp);
		if (qp->state == SOFT_QP_ERR)
			return;
		ack_now(qp);
		watch_gap(qp);
	}
}

void soft_responder_timer(struct soft_qp *qp)
{
	struct soft_responder *rs = &qp->rs;
	if (rs->nak_deadline && qp->dev->now >= rs->nak_deadline)
		send_sequence_nak(qp);
	if (rs->ack_deadline && qp->dev->now >= rs->ack_deadline) {
		rs->ack_deadline = 0;
		ack_now(qp);
	}
}

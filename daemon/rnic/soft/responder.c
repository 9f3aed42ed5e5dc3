/* SPDX-License-Identifier: MIT */
/* The receiving half of a queue pair (IBA 9.7.4, 9.9.3). It carries requests out strictly in the
 * order of their PSNs, each once. Packets that come early are held for a while (hold.h). Answers
 * leave in the same order: no ACK or NAK passes the response to an RDMA READ (response.c). */
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

/* RNR NAK timer code 5 is 60 us, which the kernel's SMC-R uses too. Buffers of the RNIC are free
 * again within one run. A user's may take longer, and the peer may ask a few times only: code 12 is
 * 640 us. */
#define RNR_TIMER_OWN  5
#define RNR_TIMER_USER 12

/* Kind of a message. */
enum {
	MESSAGE_NONE,
	MESSAGE_SEND,
	MESSAGE_WRITE,
	MESSAGE_READ,
};

int soft_responder_init(struct soft_qp *qp)
{
	qp->rs.hold.budget = &qp->dev->hold_budget;
	return soft_receives_init(qp);
}

void soft_responder_free(struct soft_responder *rs)
{
	soft_hold_clear(&rs->hold);
	soft_receives_free(&rs->receives);
	free(rs->responses);
	rs->responses = NULL;
}

/* ---- answers */

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

struct roce_aeth soft_responder_aeth(const struct soft_qp *qp)
{
	return (struct roce_aeth){ .kind = ROCE_ACK,
				   .value = roce_credits_encode(qp->rs.receives.ready),
				   .msn = qp->rs.msn };
}

bool soft_responder_ack_is_due(struct soft_qp *qp, bool more_comes)
{
	struct soft_responder *rs = &qp->rs;
	bool flows = rs->unacked_packets != rs->unacked_before;
	bool few = (uint64_t)rs->unacked_packets * qp->mtu < ACK_HOLD_BYTES;
	rs->unacked_before = rs->unacked_packets;
	return rs->ack_pending && !(more_comes && flows && few && !rs->ack_hurry) &&
	       !soft_responses_wait(rs);
}

void soft_responder_send_ack(struct soft_qp *qp)
{
	struct soft_responder *rs = &qp->rs;
	const struct roce_aeth aeth = soft_responder_aeth(qp);
	if (qp->ep->blocked || soft_responses_wait(rs) ||
	    soft_tx_ack(qp, soft_responses_acked(rs), &aeth))
		return;
	soft_responder_acked(qp);
}

void soft_responder_offer_ack(struct soft_qp *qp)
{
	const struct soft_responder *rs = &qp->rs;
	const struct roce_aeth aeth = soft_responder_aeth(qp);
	if ((rs->ack_pending || rs->ack_deadline) && !soft_responses_wait(rs))
		soft_tx_add_ack(qp->dev->tx, soft_responses_acked(rs), &aeth);
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

/* Send a NAK, which also acknowledges everything before `psn`. If the socket is full the NAK is
 * dropped; the requester's timer makes up for that. */
static void send_nak_for(struct soft_qp *qp, uint32_t psn, const struct roce_aeth *nak)
{
	if (nak->kind == ROCE_NAK)
		qp->dev->stats.naks_sent++;
	else
		qp->dev->stats.rnr_naks_sent++;
	if (!soft_tx_ack(qp, psn, nak))
		soft_responder_acked(qp);
}

/* Send a NAK for the expected packet: now, or behind the responses that wait. It acknowledges what
 * came before, so it also waits until the user was told of that. */
static void send_nak(struct soft_qp *qp, enum roce_ack_kind kind, uint8_t value)
{
	struct soft_responder *rs = &qp->rs;
	const struct roce_aeth nak = { .kind = kind, .value = value, .msn = rs->msn };
	if (!soft_responses_wait(rs) && qp->num_wcs == qp->send_wcs) {
		send_nak_for(qp, rs->expected, &nak);
		return;
	}
	rs->nak_waits = true;
	rs->waiting_psn = rs->expected;
	rs->waiting_nak = nak;
}

/* Send a NAK that ends the QP (IBA 9.9.3, class C). It is kept, to be repeated if it gets lost. */
static void refuse(struct soft_qp *qp, uint8_t code)
{
	struct soft_responder *rs = &qp->rs;
	send_nak(qp, ROCE_NAK, code);
	rs->refused = true;
	rs->refused_psn = rs->expected;
	rs->refusal = (struct roce_aeth){ .kind = ROCE_NAK, .value = code, .msn = rs->msn };
	rs->nak_deadline = 0; /* what is missing behind it will not be carried out */
	if (!rs->nak_waits)
		soft_qp_fail(qp, RNIC_WC_WR_FLUSH_ERR);
}

void soft_responder_break_off(struct soft_qp *qp, uint32_t psn)
{
	struct soft_responder *rs = &qp->rs;
	rs->refused = true;
	rs->refused_psn = psn;
	rs->refusal = (struct roce_aeth){ .kind = ROCE_NAK,
					  .value = ROCE_NAK_REMOTE_ACCESS,
					  .msn = rs->msn };
	send_nak_for(qp, psn, &rs->refusal);
	soft_qp_fail(qp, RNIC_WC_WR_FLUSH_ERR);
}

/* Has the user been told of everything that was received? What it was not told of must not be
 * acknowledged. */
static bool has_told_everything(const struct soft_qp *qp)
{
	return !qp->flush && qp->num_wcs == 0;
}

/* Is it the request that was refused? A READ may have been refused in the middle. */
static bool was_refused(const struct soft_responder *rs, const struct roce_packet *packet)
{
	int32_t ahead = roce_psn_diff(packet->bth.psn, rs->refused_psn);
	return ahead == 0 || (packet->bth.opcode == ROCE_READ_REQUEST && ahead < 0);
}

bool soft_responder_refuse_again(struct soft_qp *qp, const struct roce_packet *packet)
{
	struct soft_responder *rs = &qp->rs;
	if (roce_is_answer(packet->bth.opcode) || qp->ep->blocked ||
	    roce_psn_diff(packet->bth.psn, rs->expected) > 0)
		return false;
	if (rs->refused && was_refused(rs, packet)) {
		qp->dev->stats.duplicates++;
		send_nak_for(qp, rs->refused_psn, &rs->refusal);
		return true;
	}
	/* The peer of a connection is told by the connection manager. A NAK would come before that,
	 * as an error: Linux's SMB client hangs when a SEND of it has failed. */
	if (rs->refused || qp->params.user_receives || !has_told_everything(qp))
		return false;
	struct roce_aeth aeth = { .kind = ROCE_NAK,
				  .value = ROCE_NAK_REMOTE_OPERATIONAL,
				  .msn = rs->msn };
	qp->dev->stats.naks_sent++;
	soft_tx_ack(qp, packet->bth.psn, &aeth);
	return true;
}

/* ---- carrying out */

static enum soft_outcome execute_write(struct soft_qp *qp, const struct roce_packet *p, bool first,
				       bool last)
{
	struct soft_responder *rs = &qp->rs;
	if (first) {
		rs->write_rkey = p->reth.rkey;
		rs->write_va = p->reth.va;
		rs->write_left = p->reth.length;
		/* The whole message is checked at its start. */
		if (rs->write_left && !soft_mr_remote(qp, RNIC_ACCESS_REMOTE_WRITE, rs->write_rkey,
						      rs->write_va, rs->write_left))
			return SOFT_REMOTE_ACCESS;
	}
	if (p->payload_len > rs->write_left || (last && p->payload_len != rs->write_left))
		return SOFT_INVALID_REQUEST;
	if (p->payload_len) {
		/* Each packet is checked again: the memory may have been deregistered meanwhile. */
		uint8_t *to = soft_mr_remote(qp, RNIC_ACCESS_REMOTE_WRITE, rs->write_rkey,
					     rs->write_va, (uint32_t)p->payload_len);
		if (!to)
			return SOFT_REMOTE_ACCESS;
		memcpy(to, p->payload, p->payload_len);
	}
	rs->write_va += p->payload_len;
	rs->write_left -= (uint32_t)p->payload_len;
	return SOFT_DONE;
}

/* FIRST and MIDDLE packets carry exactly the path MTU, the others at most that (IBA 9.7.4.1.6). */
static bool length_ok(const struct soft_qp *qp, const struct roce_packet *p, bool last)
{
	return last ? p->payload_len <= qp->mtu : p->payload_len == qp->mtu;
}

static enum soft_outcome execute_read(struct soft_qp *qp, const struct roce_packet *p)
{
	struct soft_responder *rs = &qp->rs;
	uint32_t packets = 0;
	enum soft_outcome outcome = soft_response_take(qp, p, &packets);
	if (outcome != SOFT_DONE || packets == 1)
		return outcome;
	/* It has the PSNs of its response. */
	soft_hold_skip(&rs->hold, rs->expected + 1, packets - 1);
	rs->expected = (rs->expected + packets - 1) & ROCE_PSN_MASK;
	return outcome;
}

static enum soft_outcome execute(struct soft_qp *qp, const struct roce_packet *p)
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
		[ROCE_READ_REQUEST] = { MESSAGE_READ, true, true },
		[ROCE_SEND_LAST_INVALIDATE] = { MESSAGE_SEND, false, true },
		[ROCE_SEND_ONLY_INVALIDATE] = { MESSAGE_SEND, true, true },
	};
	uint8_t message = forms[p->bth.opcode].message;
	bool first = forms[p->bth.opcode].first;
	bool last = forms[p->bth.opcode].last;
	/* A message may begin only when none is under way, and goes on with the kind that it began
	 * with. */
	if (qp->rs.message != (first ? MESSAGE_NONE : message) || !length_ok(qp, p, last))
		return SOFT_INVALID_REQUEST;
	enum soft_outcome outcome = message == MESSAGE_WRITE  ? execute_write(qp, p, first, last)
				    : message == MESSAGE_SEND ? soft_receive(qp, p, first, last)
							      : execute_read(qp, p);
	if (outcome != SOFT_DONE)
		return outcome;
	qp->rs.message = last ? MESSAGE_NONE : message;
	if (last)
		qp->rs.msn = (qp->rs.msn + 1) & ROCE_PSN_MASK;
	return SOFT_DONE;
}

/* Carry out the packet with the expected PSN. @return false: it was not carried out, and a NAK was
 * sent */
static bool take_turn(struct soft_qp *qp, const struct roce_packet *p, bool supported)
{
	struct soft_responder *rs = &qp->rs;
	enum soft_outcome outcome = supported ? execute(qp, p) : SOFT_INVALID_REQUEST;
	switch (outcome) {
	case SOFT_DONE: break;
	case SOFT_NOT_READY:
		rs->rnr_sent = true;
		rs->nak_deadline = 0; /* the packet at `expected` was not lost */
		send_nak(qp, ROCE_RNR_NAK,
			 qp->params.user_receives ? RNR_TIMER_USER : RNR_TIMER_OWN);
		return false;
	case SOFT_INVALID_REQUEST: refuse(qp, ROCE_NAK_INVALID_REQUEST); return false;
	case SOFT_REMOTE_ACCESS:
		qp->dev->stats.drop_access++;
		refuse(qp, ROCE_NAK_REMOTE_ACCESS);
		return false;
	case SOFT_LOCAL_ERROR: refuse(qp, ROCE_NAK_REMOTE_OPERATIONAL); return false;
	}
	rs->expected = (rs->expected + 1) & ROCE_PSN_MASK;
	rs->nak_sent = false;
	rs->rnr_sent = false;
	rs->rx_bytes += p->payload_len;
	rs->unacked_packets++;
	/* The user is told of a SEND and may answer with packets that can carry the ACK. It is not
	 * told of a WRITE. A READ is answered by its response. */
	if (!p->bth.ack_req || p->bth.opcode == ROCE_READ_REQUEST)
		return true;
	if (p->bth.opcode >= ROCE_WRITE_FIRST && p->bth.opcode <= ROCE_WRITE_ONLY)
		ack_soon(qp);
	else
		ack_later(qp);
	return true;
}

/* A SEND that kills a token waits for the responses that are read through the token. The peer has
 * asked for them before, and the user may do with the memory what it likes when it is told. */
static bool has_to_wait(const struct soft_qp *qp, const struct roce_packet *p)
{
	return roce_invalidates(p->bth.opcode) && soft_responses_read(&qp->rs, p->invalidate);
}

static void execute_held(struct soft_qp *qp)
{
	struct soft_responder *rs = &qp->rs;
	struct soft_held *held;
	bool on = true;
	while (on && (held = soft_hold_at(&rs->hold, rs->expected))) {
		struct roce_packet p;
		on = roce_decode(held->packet, held->len, &p) == 0;
		if (on && has_to_wait(qp, &p))
			return;
		soft_hold_take(&rs->hold, rs->expected);
		on = on && take_turn(qp, &p, true);
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
	if (p->bth.opcode == ROCE_READ_REQUEST)
		return soft_response_allowed(qp, p);
	return !roce_has_reth(p->bth.opcode) || p->reth.length == 0 ||
	       soft_mr_remote(qp, RNIC_ACCESS_REMOTE_WRITE, p->reth.rkey, p->reth.va,
			      p->reth.length);
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

/* Go on with what came before its turn: a gap was closed. Acknowledge at once, since the sender
 * waits for that. */
static void go_on(struct soft_qp *qp)
{
	const struct soft_responder *rs = &qp->rs;
	execute_held(qp);
	if (rs->refused)
		return;
	ack_now(qp);
	watch_gap(qp);
}

void soft_responder_caught_up(struct soft_qp *qp)
{
	struct soft_responder *rs = &qp->rs;
	if (soft_responses_wait(rs))
		return;
	if (soft_hold_at(&rs->hold, rs->expected)) { /* it had to wait for them */
		/* It was perhaps missing for a while. */
		rs->nak_waits = false;
		go_on(qp);
		return;
	}
	if (!rs->nak_waits)
		return;
	rs->nak_waits = false;
	if (rs->waiting_psn == rs->expected) /* else the missing packet has come meanwhile */
		send_nak_for(qp, rs->expected, &rs->waiting_nak);
	if (rs->refused)
		soft_qp_fail(qp, RNIC_WC_WR_FLUSH_ERR);
}

/* It was carried out already. Acknowledge it again: the ACK may have been lost. Of a READ, the
 * response may have been lost. */
static void late(struct soft_qp *qp, const struct roce_packet *p)
{
	qp->dev->stats.duplicates++;
	if (p->bth.opcode == ROCE_READ_REQUEST)
		soft_response_repeat(qp, p);
	else
		ack_now(qp);
}

void soft_responder_request(struct soft_qp *qp, const struct roce_packet *packet,
			    const uint8_t *buf, size_t len, bool supported)
{
	struct soft_responder *rs = &qp->rs;
	int32_t ahead = roce_psn_diff(packet->bth.psn, rs->expected);
	if (ahead >= SOFT_PSN_WINDOW ||
	    (ahead < -SOFT_PSN_WINDOW && packet->bth.opcode != ROCE_READ_REQUEST)) {
		qp->dev->stats.drop_psn++;
		return;
	}
	if (ahead < 0) {
		late(qp, packet);
		return;
	}
	if (rs->refused) { /* the NAK waits for responses */
		qp->dev->stats.drop_qp++;
		return;
	}
	if (ahead > 0) {
		early(qp, packet, buf, len, supported);
		return;
	}
	if (has_to_wait(qp, packet)) {
		/* If there is no room for it, the peer sends it again. */
		soft_hold_put(&rs->hold, rs->expected, packet->bth.psn, buf, len, qp->dev->now);
		return;
	}
	if (take_turn(qp, packet, supported) && (rs->hold.count > 0 || rs->nak_deadline))
		go_on(qp);
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

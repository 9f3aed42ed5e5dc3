/* SPDX-License-Identifier: MIT */
/*
 * Responses to RDMA READs of the peer (IBA 9.7.4.1.4, 9.7.5.1). Each READ is carried out while its
 * response is sent, in batches, in turn with everything else that is to be sent. Until then no
 * later request is acknowledged, since an answer also acknowledges all requests before it.
 *
 * A peer asks again when it misses a part of a response: for all of it, or for the packets from
 * some PSN on. That is a response of its own then, behind those that wait already.
 */
#include <errno.h>
#include <stdlib.h>

#include "daemon/rnic/soft/internal.h"

/* Packets that one QP sends before the next QP has its turn. That is less than a requester sends:
 * nothing but the speed of this host limits how fast a response leaves, and in each round only a
 * few datagrams are read. */
#define QUANTUM SOFT_MAX_SEGMENTS

/* A larger READ would take so many PSNs that what follows it seems to be out of place. */
#define MAX_PACKETS SOFT_PSN_WINDOW

int soft_responses_new(unsigned int limit, struct soft_responses **ret_responses)
{
	struct soft_responses *rp = calloc(1, sizeof(*rp));
	if (!rp)
		return -ENOMEM;
	rp->limit = limit;
	*ret_responses = rp;
	return 0;
}

static struct soft_response *waiting_at(struct soft_responses *rp, unsigned int i)
{
	return &rp->waiting[(rp->head + i) % SOFT_MAX_RESPONSES];
}

static void add(struct soft_qp *qp, const struct soft_response *response)
{
	struct soft_responses *rp = qp->rs.responses;
	*waiting_at(rp, rp->count++) = *response;
	rp->repeats += response->again;
	soft_qp_busy(qp);
}

static void drop_head(struct soft_responses *rp)
{
	rp->repeats -= rp->waiting[rp->head].again;
	rp->head = (rp->head + 1) % SOFT_MAX_RESPONSES;
	rp->count--;
}

static struct soft_response response_to(const struct soft_qp *qp, const struct roce_packet *request)
{
	const uint32_t length = request->reth.length;
	return (struct soft_response){ .psn = request->bth.psn,
				       .packets = length ? (length - 1) / qp->mtu + 1 : 1,
				       .va = request->reth.va,
				       .rkey = request->reth.rkey,
				       .length = length };
}

bool soft_response_allowed(const struct soft_qp *qp, const struct roce_packet *request)
{
	/* A READ of no bytes needs no valid key or address (IBA 9.7.4.1.3). */
	return request->reth.length == 0 ||
	       soft_mr_remote(qp, RNIC_ACCESS_REMOTE_READ, request->reth.rkey, request->reth.va,
			      request->reth.length);
}

enum soft_outcome soft_response_take(struct soft_qp *qp, const struct roce_packet *request,
				     uint32_t *ret_packets)
{
	struct soft_responses *rp = qp->rs.responses;
	struct soft_response response = response_to(qp, request);
	if (!rp || rp->count - rp->repeats >= rp->limit || response.packets > MAX_PACKETS)
		return SOFT_INVALID_REQUEST;
	if (!soft_response_allowed(qp, request))
		return SOFT_REMOTE_ACCESS;
	response.msn = (qp->rs.msn + 1) & ROCE_PSN_MASK; /* with this READ (IBA 9.7.7.1) */
	add(qp, &response);
	rp->past[rp->num_past++ % SOFT_MAX_READS_ANSWERED] = response;
	*ret_packets = response.packets;
	return SOFT_DONE;
}

/* Is `part` what remains of `whole` from some packet on, or the beginning of that? */
static bool is_part(const struct soft_qp *qp, const struct soft_response *part,
		    const struct soft_response *whole)
{
	const uint32_t ahead = (part->psn - whole->psn) & ROCE_PSN_MASK;
	if (ahead >= whole->packets)
		return false;
	const uint32_t offset = ahead * qp->mtu;
	return part->rkey == whole->rkey && part->va == whole->va + offset &&
	       part->length <= whole->length - offset;
}

bool soft_response_repeat(struct soft_qp *qp, const struct roce_packet *request)
{
	struct soft_responses *rp = qp->rs.responses;
	struct soft_response part = response_to(qp, request);
	if (!rp)
		return false;
	unsigned int known =
		rp->num_past < SOFT_MAX_READS_ANSWERED ? rp->num_past : SOFT_MAX_READS_ANSWERED;
	for (unsigned int i = 0; i < known; i++) {
		if (!is_part(qp, &part, &rp->past[i]))
			continue;
		part.again = true;
		part.msn = rp->past[i].msn;
		if (rp->repeats < SOFT_MAX_REPEATS) /* else the peer will ask once more */
			add(qp, &part);
		return true;
	}
	return false;
}

bool soft_responses_read(const struct soft_responder *rs, uint32_t rkey)
{
	struct soft_responses *rp = rs->responses;
	for (unsigned int i = 0; rp && i < rp->count; i++) {
		if (waiting_at(rp, i)->rkey == rkey)
			return true;
	}
	return false;
}

uint32_t soft_responses_acked(const struct soft_responder *rs)
{
	const struct soft_responses *rp = rs->responses;
	uint32_t end = rs->expected;
	for (unsigned int i = 1; rp && i <= rp->num_past && i <= SOFT_MAX_READS_ANSWERED; i++) {
		const struct soft_response *read =
			&rp->past[(rp->num_past - i) % SOFT_MAX_READS_ANSWERED];
		if (((read->psn + read->packets) & ROCE_PSN_MASK) != end)
			break;
		end = read->psn;
	}
	return (end - 1) & ROCE_PSN_MASK;
}

void soft_responses_clear(struct soft_responder *rs)
{
	if (rs->responses)
		rs->responses->count = rs->responses->repeats = 0;
}

/* ---- sending */

bool soft_responses_ready(const struct soft_qp *qp)
{
	return soft_responses_wait(&qp->rs) && qp->state != SOFT_QP_ERR && !qp->ep->blocked;
}

static uint8_t opcode_of(const struct soft_response *response, uint32_t index)
{
	const bool last = index == response->packets - 1;
	if (index == 0)
		return last ? ROCE_READ_RESPONSE_ONLY : ROCE_READ_RESPONSE_FIRST;
	return last ? ROCE_READ_RESPONSE_LAST : ROCE_READ_RESPONSE_MIDDLE;
}

/* Add the packets of a response that are not sent yet. @return how many were added */
static uint32_t add_packets(struct soft_qp *qp, const struct soft_response *response, uint32_t most)
{
	union roce_ext ext = { .aeth = soft_responder_aeth(qp) };
	ext.aeth.msn = response->msn;
	const uint32_t from = response->sent * qp->mtu;
	uint32_t left = response->packets - response->sent, n = 0;
	uint8_t *at = NULL;
	if (response->length) {
		/* All that is left is looked at each time: the memory may have been deregistered,
		 * or the window that it was read through may have ended. */
		at = soft_mr_remote(qp, RNIC_ACCESS_REMOTE_READ, response->rkey,
				    response->va + from, response->length - from);
		if (!at)
			return 0;
	}
	for (left = left < most ? left : most; n < left; n++) {
		const uint32_t index = response->sent + n;
		struct iovec piece = { 0 };
		if (at) {
			const uint32_t rest = response->length - index * qp->mtu;
			piece.iov_base = at + (size_t)n * qp->mtu;
			piece.iov_len = rest < qp->mtu ? rest : qp->mtu;
		}
		struct roce_bth bth = { .opcode = opcode_of(response, index),
					.psn = (response->psn + index) & ROCE_PSN_MASK };
		/* A program that shares the memory may spoil a packet's ICRC by writing there. What
		 * is sent again is a private copy (see requester.c). */
		if (!soft_tx_add(qp->dev->tx, &bth, &ext, &piece, at != NULL, response->again))
			break;
	}
	return n;
}

/* The memory of the oldest response is gone. A peer that has asked for the first time learns that
 * the packet cannot come. What is asked for again was probably answered already, and is not needed
 * any more: the request may be a copy that was late. */
static void memory_is_gone(struct soft_qp *qp)
{
	struct soft_responses *rp = qp->rs.responses;
	const struct soft_response *oldest = waiting_at(rp, 0);
	qp->dev->stats.drop_access++;
	if (oldest->again)
		drop_head(rp);
	else
		soft_responder_break_off(qp, (oldest->psn + oldest->sent) & ROCE_PSN_MASK);
}

/* Fill a batch from the oldest response on. @return how many packets it has */
static uint32_t fill(struct soft_qp *qp)
{
	struct soft_responses *rp = qp->rs.responses;
	uint32_t n = 0;
	soft_tx_begin(qp->dev->tx, qp);
	for (unsigned int i = 0; i < rp->count && n < QUANTUM; i++) {
		const struct soft_response *response = waiting_at(rp, i);
		const uint32_t added = add_packets(qp, response, QUANTUM - n);
		n += added;
		if (added < response->packets - response->sent)
			break;
	}
	return n;
}

/* `n` packets, from the oldest response on, were sent. */
static void sent(struct soft_qp *qp, uint32_t n)
{
	struct soft_responses *rp = qp->rs.responses;
	while (n > 0) {
		struct soft_response *oldest = waiting_at(rp, 0);
		const uint32_t left = oldest->packets - oldest->sent;
		const uint32_t part = n < left ? n : left;
		if (oldest->again)
			qp->dev->stats.retransmits += part;
		oldest->sent += part;
		n -= part;
		if (part < left)
			break;
		/* A response acknowledges all requests before it. */
		if (((oldest->psn + oldest->packets) & ROCE_PSN_MASK) == qp->rs.expected)
			soft_responder_acked(qp);
		drop_head(rp);
	}
}

size_t soft_responses_transmit(struct soft_qp *qp)
{
	size_t total = 0;
	int r = -ERESTART;
	while (r == -ERESTART && soft_responses_ready(qp)) {
		size_t n;
		bool acked;
		if (fill(qp) == 0) {
			memory_is_gone(qp);
			continue;
		}
		r = soft_tx_flush(qp->dev->tx, qp->ep, &n, &acked);
		sent(qp, (uint32_t)n);
		total += n;
	}
	return total;
}

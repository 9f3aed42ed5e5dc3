/* SPDX-License-Identifier: MIT */
/*
 * The sending half of a queue pair: RDMA READs. A READ has the PSNs of the packets of its response,
 * which acknowledge it, and all requests before it (IBA 9.7.5.1.1). So the window, which counts
 * packets from the first one that has no answer on, also bounds the bytes that the peer may send at
 * a time: a long READ becomes several READ requests. The bytes of a packet go to their place as
 * soon as it comes, also if packets before it are missing. These are asked for again, and nothing
 * else, when they have not come within GAP_US.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "daemon/rnic/soft/requester.h"

/* How long packets of a response may be missing that later answers have overtaken. */
#define GAP_US 1000

/* If the window has no room for all of a READ, it waits until there is room for this part of the
 * window. Otherwise requests would become shorter and shorter. */
#define WINDOW_SHARES 4

int soft_reads_new(struct soft_requester *rq, unsigned int asked)
{
	rq->reads = calloc(1, sizeof(*rq->reads));
	if (!rq->reads)
		return -ENOMEM;
	rq->reads->asked = MIN(asked, SOFT_MAX_READS_ASKED);
	return 0;
}

static struct soft_read *read_at(struct soft_reads *reads, unsigned int i)
{
	return &reads->ring[(reads->head + i) % SOFT_MAX_READS_ASKED];
}

struct soft_read *soft_read_of(struct soft_reads *reads, uint64_t packet)
{
	for (unsigned int i = 0; reads && i < reads->count; i++) {
		struct soft_read *read = read_at(reads, i);
		if (packet >= read->first && packet < read->end)
			return read;
	}
	return NULL;
}

/* ---- asking */

/* Where a new READ request for packets from `packet` on would end; 0: it has to wait. */
static uint64_t room_for(const struct soft_requester *rq, const struct soft_wqe *wqe,
			 uint64_t packet)
{
	uint64_t used = packet - rq->acked;
	uint64_t left = soft_wqe_end(wqe) - packet;
	uint64_t room = used < rq->window.size ? rq->window.size - used : 0;
	if (rq->reads->count == rq->reads->asked || room == 0)
		return 0;
	if (room < left && room < rq->window.size / WINDOW_SHARES)
		return 0;
	return packet + MIN(left, room);
}

bool soft_read_may_go(const struct soft_requester *rq, const struct soft_wqe *wqe, uint64_t packet)
{
	return soft_read_of(rq->reads, packet) || room_for(rq, wqe, packet);
}

struct soft_read *soft_read_plan(struct soft_requester *rq, struct soft_wqe *wqe, uint64_t packet)
{
	struct soft_read *read = soft_read_of(rq->reads, packet);
	uint64_t end = read ? 0 : room_for(rq, wqe, packet);
	if (end) {
		read = read_at(rq->reads, rq->reads->count++);
		*read = (struct soft_read){ .wqe = wqe, .first = packet, .end = end };
	}
	return read;
}

bool soft_read_add(struct soft_qp *qp, const struct soft_read *read, uint64_t packet, uint64_t end)
{
	const struct soft_wqe *wqe = read->wqe;
	uint64_t from = (packet - wqe->first) * qp->mtu;
	uint64_t to = MIN((end - wqe->first) * qp->mtu, wqe->length);
	struct roce_bth bth = { .opcode = ROCE_READ_REQUEST, .psn = soft_psn_of(&qp->rq, packet) };
	union roce_ext ext = { .reth = { .va = wqe->remote_addr + from,
					 .rkey = wqe->rkey,
					 .length = (uint32_t)(to - from) } };
	return soft_tx_add(qp->dev->tx, &bth, &ext, NULL, 0, false);
}

/* ---- packets that came before their turn */

static uint64_t *early_word(struct soft_reads *reads, uint64_t packet)
{
	return &reads->early[packet % SOFT_READ_AHEAD / 64];
}

static bool is_early(struct soft_reads *reads, uint64_t packet)
{
	return *early_word(reads, packet) >> packet % 64 & 1;
}

static void set_early(struct soft_reads *reads, uint64_t packet)
{
	*early_word(reads, packet) |= UINT64_C(1) << packet % 64;
	reads->num_early++;
}

static void clear_early(struct soft_reads *reads, uint64_t packet)
{
	*early_word(reads, packet) &= ~(UINT64_C(1) << packet % 64);
	reads->num_early--;
}

uint64_t soft_reads_reach(struct soft_requester *rq, uint64_t to)
{
	struct soft_reads *reads = rq->reads;
	for (;;) {
		const struct soft_read *read = reads->count ? read_at(reads, 0) : NULL;
		if (read && read->end == to) {
			reads->head = (reads->head + 1) % SOFT_MAX_READS_ASKED;
			reads->count--;
		} else if (read && read->first <= to) {
			if (!is_early(reads, to))
				return to;
			clear_early(reads, to++);
		} else {
			uint64_t most = read ? MIN(rq->taken, read->first) : rq->taken;
			if (most <= to)
				return to;
			to = most;
		}
	}
}

/* ---- responses */

/* Does a packet of a response have the opcode and length that this one must have? */
static bool fits(const struct soft_read *read, uint64_t packet, const struct roce_packet *response,
		 uint32_t mtu)
{
	static const uint8_t opcodes[2][2] = {
		{ ROCE_READ_RESPONSE_MIDDLE, ROCE_READ_RESPONSE_LAST },
		{ ROCE_READ_RESPONSE_FIRST, ROCE_READ_RESPONSE_ONLY },
	};
	uint8_t opcode = opcodes[packet == read->first][packet == read->end - 1];
	return response->payload_len == soft_wqe_packet_len(read->wqe, packet, mtu) &&
	       (read->again || response->bth.opcode == opcode);
}

/* Put the bytes of a response where the user wants them. The memory may have been deregistered
 * since the READ was posted. @return false: it was */
static bool place(struct soft_qp *qp, struct soft_wqe *wqe, uint64_t packet,
		  const struct roce_packet *response)
{
	struct rnic_sge pieces[RNIC_MAX_SGE];
	uint32_t offset = (uint32_t)(packet - wqe->first) * qp->mtu;
	unsigned int n =
		soft_wqe_gather(&qp->rq, wqe, offset, (uint32_t)response->payload_len, pieces);
	const uint8_t *from = response->payload;
	for (unsigned int i = 0; i < n; i++) {
		if (!soft_mr_local_write_ok(qp->dev, qp->pd, pieces[i].lkey, pieces[i].addr,
					    pieces[i].length))
			return false;
		memcpy((void *)pieces[i].addr, from, pieces[i].length);
		from += pieces[i].length;
	}
	return true;
}

/* A packet cannot be taken. What comes early counts as missing; it may have been sent for an
 * earlier request.
 * @param due  it is the first one that is missing */
static void refuse(struct soft_qp *qp, bool due, uint64_t *counter, enum rnic_wc_status status)
{
	++*counter;
	if (due)
		soft_qp_fail(qp, status);
}

void soft_read_response(struct soft_qp *qp, uint64_t packet, const struct roce_packet *response)
{
	struct soft_requester *rq = &qp->rq;
	struct soft_reads *reads = rq->reads;
	struct rnic_stats *stats = &qp->dev->stats;
	struct soft_read *read = soft_read_of(reads, packet);
	bool has_aeth = response->bth.opcode != ROCE_READ_RESPONSE_MIDDLE;
	if (read) /* this also acknowledges what is before the READ */
		soft_requester_advance(qp, read->first, true);
	bool due = packet == rq->acked;
	if (!read || !fits(read, packet, response, qp->mtu) ||
	    (has_aeth && response->aeth.kind != ROCE_ACK)) {
		refuse(qp, due, &stats->drop_malformed, RNIC_WC_BAD_RESP_ERR);
		return;
	}
	if (packet - rq->acked >= SOFT_READ_AHEAD || is_early(reads, packet)) {
		stats->duplicates++;
		return;
	}
	if (!place(qp, read->wqe, packet, response)) {
		refuse(qp, due, &stats->drop_access, RNIC_WC_LOC_PROT_ERR);
		return;
	}
	rq->rx_bytes += response->payload_len;
	set_early(reads, packet);
	if (!due) {
		stats->out_of_order++;
		reads->early_end = MAX(reads->early_end, packet + 1);
		return;
	}
	soft_requester_advance(qp, packet, true);
	if (has_aeth && rq->acked == packet + 1)
		soft_requester_credits(rq, response->aeth.value);
}

/* ---- missing parts */

void soft_reads_watch(struct soft_qp *qp)
{
	struct soft_requester *rq = &qp->rq;
	struct soft_reads *reads = rq->reads;
	bool before = reads->gap && reads->gap_at == rq->acked;
	reads->gap = reads->num_early > 0 || rq->taken > rq->acked;
	if (!reads->gap)
		rq->gap_deadline = 0;
	if (!reads->gap || before)
		return;
	reads->gap_at = rq->acked;
	if (rq->acked >= reads->asked_end && rq->acked < reads->lost_end) {
		reads->ask_again = true;
		soft_qp_busy(qp);
	} else {
		rq->gap_deadline = qp->dev->now + GAP_US;
		soft_qp_arm(qp);
	}
}

void soft_reads_timer(struct soft_qp *qp)
{
	struct soft_requester *rq = &qp->rq;
	struct soft_reads *reads = rq->reads;
	rq->gap_deadline = 0;
	/* What is missing behind that is not waited for again. */
	reads->lost_end = MAX(reads->early_end, rq->taken);
	reads->ask_again = true;
	soft_qp_busy(qp);
}

size_t soft_reads_ask_again(struct soft_qp *qp)
{
	struct soft_requester *rq = &qp->rq;
	struct soft_reads *reads = rq->reads;
	struct soft_read *read = soft_read_of(reads, rq->acked);
	uint64_t end = rq->acked + 1;
	size_t n;
	bool acked;
	reads->ask_again = false;
	if (!read || !reads->gap)
		return 0; /* it has come */
	while (end < read->end && !is_early(reads, end))
		end++;
	soft_tx_begin(qp->dev->tx, qp);
	soft_read_add(qp, read, rq->acked, end); /* an empty batch has room */
	read->again = true;
	reads->ask_again = soft_tx_flush(qp->dev->tx, qp->ep, &n, &acked) == -EAGAIN;
	if (n == 0)
		return 0;
	reads->asked_end = end;
	rq->retransmits++;
	qp->dev->stats.retransmits++;
	rq->sample_at = 0;
	soft_requester_lost(rq, rq->acked);
	return n;
}

/* SPDX-License-Identifier: MIT */
/*
 * The queue of messages. Each goes whole before the next, so parts of different RPC messages never
 * mix (RR2-18). An RPC message is cut when it leaves, where the threshold asks for it (RR2-17,
 * RR2-128), at multiples of 4 (RR2-135).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "daemon/rpcrdma/internal.h"

#define EMPTY_LISTS_LEN (RPCRDMA_V2_HEADER_LEN - RPCRDMA_V2_PREFIX_LEN)

static uint8_t *copy_of(const uint8_t *bytes, size_t len)
{
	uint8_t *copy = malloc(len ? len : 1);
	if (copy && len)
		memcpy(copy, bytes, len);
	return copy;
}

static void free_out(struct rpcr_out *out)
{
	free(out->body);
	free(out->payload);
	free(out);
}

int rpcr_queue(struct rpcr *rpcr, const struct rpcr_out *out)
{
	struct rpcr_out *mine = malloc(sizeof(*mine));
	if (!mine)
		return -ENOMEM;
	*mine = *out;
	mine->body = copy_of(out->body, out->body_len);
	mine->payload = copy_of(out->payload, out->len);
	if (!mine->body || !mine->payload) {
		free_out(mine);
		return -ENOMEM;
	}
	DL_APPEND(rpcr->queue, mine);
	rpcr->send_due = true;
	return 0;
}

void rpcr_free_queue(struct rpcr *rpcr)
{
	while (rpcr->queue) {
		struct rpcr_out *out = rpcr->queue;
		DL_DELETE(rpcr->queue, out);
		free_out(out);
	}
}

/* RR2-60, RR2-81 */
bool rpcr_can_send(const struct rpcr *rpcr, size_t lists_len, size_t len, bool may_continue)
{
	const size_t most = rpcr_threshold(rpcr);
	const size_t head = rpcrdma_prefix_len(rpcr->version) + lists_len;
	if (head > most)
		return false;
	if (len <= most - head)
		return true;
	return may_continue && rpcr->version == RPCRDMA_V2 && most - head >= 4;
}

/* ---- one message */

/* A message of a version that is not spoken here is answered in that version, to somebody who
 * counts otherwise (RR2-36). */
static bool is_foreign(const struct rpcr *rpcr, const struct rpcr_out *out)
{
	return rpcr->version == 0 || out->version != rpcr->version;
}

static uint32_t credit_of(struct rpcr *rpcr, const struct rpcr_out *out)
{
	if (out->version == RPCRDMA_V1)
		return rpcr_v1_credit(rpcr, out);
	if (is_foreign(rpcr, out))
		return rpcrdma_credit((uint16_t)rpcr->rx_cap, 1);
	return rpcr_next_credit(rpcr);
}

/* Bytes of the payload that go with the next part. */
static size_t next_part(const struct rpcr *rpcr, const struct rpcr_out *out)
{
	const size_t most = rpcr_threshold(rpcr);
	const size_t left = out->len - out->sent;
	if (rpcrdma_prefix_len(out->version) + out->body_len + left <= most || left <= 4)
		return left;
	const size_t room = (most - RPCRDMA_V2_HEADER_LEN) & ~(size_t)3;
	const size_t all_but_one = (left - 1) & ~(size_t)3;
	return room < all_but_one ? room : all_but_one;
}

/* @return 0, or what the operation has returned */
static int send_part(struct rpcr *rpcr, const struct rpcr_out *out, size_t part)
{
	static const uint8_t empty_lists[EMPTY_LISTS_LEN];
	uint8_t head[RPCRDMA_V2_PREFIX_LEN + RPCRDMA_MOST_LISTS_LEN];
	const bool last = out->sent + part == out->len;
	const struct rpcrdma_prefix prefix = {
		.xid = out->xid,
		.version = out->version,
		.credit = credit_of(rpcr, out),
		.type = out->type,
		.flags = out->flags | (last ? 0 : RPCRDMA_F_MORE),
	};
	size_t len = rpcrdma_encode_prefix(&prefix, head);
	/* lists go with the last part alone (RR2-131) */
	const size_t body_len = last ? out->body_len : sizeof(empty_lists);
	memcpy(head + len, last ? out->body : empty_lists, body_len);
	len += body_len;
	return rpcr->ops->send(rpcr->ctx, head, len, part ? out->payload + out->sent : NULL, part,
			       out->has_handle && last ? &out->handle : NULL);
}

static bool is_call(const struct rpcr_out *out)
{
	return out->type != RPCRDMA_ERROR && !(out->flags & RPCRDMA_F_RESPONSE);
}

static void count_sent(struct rpcr *rpcr, const struct rpcr_out *out)
{
	rpcr->count.sent++;
	if (is_foreign(rpcr, out)) {
		rpcr->rx_out += rpcr->rx_new > 0; /* the peer may try once more */
		rpcr->rx_new -= rpcr->rx_new > 0;
	} else if (rpcr->version == RPCRDMA_V1) {
		rpcr->v1_out += is_call(out);
	} else {
		rpcr_note_credit(rpcr, false);
	}
}

static void note_sent(struct rpcr *rpcr, struct rpcr_out *out, size_t part)
{
	count_sent(rpcr, out);
	out->sent += part;
	if (out->sent < out->len)
		return;
	rpcr->queued_errors -= out->type == RPCRDMA_ERROR;
	DL_DELETE(rpcr->queue, out);
	free_out(out);
}

/* @return false: there is no room now, or the connection has ended */
static bool send_one(struct rpcr *rpcr, struct rpcr_out *out)
{
	const size_t part = next_part(rpcr, out);
	const int error = send_part(rpcr, out, part);
	if (error == -EAGAIN)
		return false;
	if (error < 0) {
		rpcr_end_with(rpcr, RPCR_END_LOST); /* RR2-166, RR2-168 */
		return false;
	}
	note_sent(rpcr, out, part);
	return true;
}

/* The message that may go now; NULL: none. In version 1 Calls wait, and do not hold up others. */
static struct rpcr_out *next_out(const struct rpcr *rpcr)
{
	struct rpcr_out *out = rpcr->queue;
	if (rpcr->version != RPCRDMA_V1)
		return out && (rpcr->tx > 0 || is_foreign(rpcr, out)) ? out : NULL;
	DL_FOREACH (rpcr->queue, out) {
		if (!is_call(out) || rpcr_v1_may_call(rpcr))
			return out;
	}
	return NULL;
}

/* RR2-47, RR2-190 */
static void send_grant(struct rpcr *rpcr)
{
	uint8_t message[RPCRDMA_CREDIT_ONLY_LEN] = { 0 };
	const struct rpcrdma_prefix prefix = {
		.version = RPCRDMA_V2,
		.credit = rpcr_next_credit(rpcr),
		.type = RPCRDMA_NOMSG,
	};
	rpcrdma_encode_prefix(&prefix, message);
	const int error = rpcr->ops->send(rpcr->ctx, message, sizeof(message), NULL, 0, NULL);
	if (error == -EAGAIN)
		return;
	if (error < 0) {
		rpcr_end_with(rpcr, RPCR_END_LOST);
		return;
	}
	rpcr_note_credit(rpcr, true);
	rpcr->count.sent++;
	rpcr->count.grants_sent++;
}

/* Out of credits, also between parts, it waits (RR2-44, RR2-48). */
void rpcr_run_sends(struct rpcr *rpcr)
{
	rpcr->send_due = false;
	while (rpcr->state != RPCR_GONE) {
		struct rpcr_out *out = next_out(rpcr);
		if (!out)
			break;
		if (!send_one(rpcr, out))
			return;
	}
	if (rpcr->state != RPCR_GONE && rpcr->version == RPCRDMA_V2 && rpcr->count.sent &&
	    rpcr_grant_is_due(rpcr))
		send_grant(rpcr);
}

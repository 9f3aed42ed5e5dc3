/* SPDX-License-Identifier: MIT */
/*
 * What is different in version 1 (RFC 8166): no flags, so the RPC message tells the direction; one
 * message for each RPC message; credits that count Calls, a number for each direction (RFC 8167).
 */
#include "daemon/rpcrdma/internal.h"
#include "proto/smcr/bytes.h"

uint32_t rpcr_v1_send_size(const struct rpcrdma_private *ours, const struct rpcrdma_private *theirs)
{
	if (!ours || !theirs)
		return RPCRDMA_V1_THRESHOLD; /* RR2-196 */
	return ours->send_size < theirs->receive_size ? ours->send_size : theirs->receive_size;
}

void rpcr_speak_version_1(struct rpcr *rpcr)
{
	const uint32_t size = rpcr->config.receive_size;
	rpcr->version = RPCRDMA_V1;
	rpcr->deadline = 0;
	rpcr->v1_grant = 1;                               /* before the first Reply (RR2-195) */
	rpcr->peer.segment_count = RPCRDMA_MOST_SEGMENTS; /* nothing is said about these */
	rpcr->peer.segment_size = UINT32_MAX;
	/* Calls of the other direction need receives of their own (RR2-202). */
	if (rpcr->ops->post_receives(rpcr->ctx, RPCR_V1_REVERSE, size) != RPCR_V1_REVERSE)
		rpcr_end_with(rpcr, RPCR_END_RESOURCES);
	else
		rpcr_established(rpcr);
}

/* A Call says how many the sender would like to have out, a Reply how many it may; both count the
 * direction of that Call. */
uint32_t rpcr_v1_credit(const struct rpcr *rpcr, const struct rpcr_out *out)
{
	const bool reply = out->flags & RPCRDMA_F_RESPONSE;
	const bool forward = (rpcr->side == RPCR_SERVER) == reply;
	return forward ? rpcr->config.receives : RPCR_V1_REVERSE;
}

bool rpcr_v1_may_call(const struct rpcr *rpcr)
{
	const uint32_t receives =
		rpcr->side == RPCR_CLIENT ? rpcr->config.receives : RPCR_V1_REVERSE;
	return rpcr->v1_out < rpcr->v1_grant && rpcr->v1_out < receives;
}

/* RR2-203 */
uint32_t rpcr_only_handle(const struct rpcrdma_lists *lists)
{
	uint32_t only = 0;
	if (lists->num_reads)
		only = lists->reads[0].segment.handle;
	else if (lists->num_segments)
		only = lists->segments[0].handle;
	for (uint32_t i = 0; i < lists->num_reads; i++) {
		if (lists->reads[i].segment.handle != only)
			return 0;
	}
	for (uint32_t i = 0; i < lists->num_segments; i++) {
		if (lists->segments[i].handle != only)
			return 0;
	}
	return only;
}

/* ---- messages */

static void got_error(struct rpcr *rpcr, const struct rpcrdma_prefix *prefix, const uint8_t *data,
		      size_t len)
{
	struct rpcrdma_error error;
	if (rpcrdma_decode_error(data, len, RPCRDMA_V1, &error) < 0 ||
	    !rpcrdma_error_is_known(RPCRDMA_V1, error.code)) {
		rpcr->count.dropped++;
		return;
	}
	rpcr->count.errors_received++;
	rpcr_fail_call(rpcr, prefix->xid, RPCR_FAILED_ERROR, &error);
}

/* Is it a Reply? A NOMSG goes forward only, an MSG tells (RR2-202). */
static bool is_reply(const struct rpcr *rpcr, uint32_t type, const uint8_t *payload, size_t len)
{
	if (type == RPCRDMA_NOMSG || len < 8)
		return rpcr->side == RPCR_CLIENT;
	return get_be32(payload + 4) != 0;
}

static void got_rpc(struct rpcr *rpcr, struct rpcrdma_prefix *prefix, const uint8_t *data,
		    size_t len, const uint32_t *handle)
{
	struct rpcrdma_lists lists;
	size_t lists_len;
	if (rpcrdma_decode_lists(data, len, RPCRDMA_V1, &lists, &lists_len) < 0) {
		rpcr_fault(rpcr, prefix, RPCRDMA_ERR_CHUNK);
		return;
	}
	const bool msg = prefix->type == RPCRDMA_MSG;
	const uint8_t *payload = msg ? data + lists_len : NULL;
	len -= lists_len;
	prefix->flags = is_reply(rpcr, prefix->type, payload, len) ? RPCRDMA_F_RESPONSE : 0;
	if (msg ? len < 8 || get_be32(payload) != prefix->xid : len > 0) {
		rpcr_fault(rpcr, prefix, RPCRDMA_ERR_CHUNK);
		return;
	}
	if (prefix->flags) {
		rpcr->v1_grant = prefix->credit ? prefix->credit : 1; /* RR2-195 */
		rpcr_got_reply(rpcr, prefix, &lists, payload, len, handle);
	} else {
		rpcr_got_call(rpcr, prefix, &lists, payload, len);
	}
}

void rpcr_v1_got_message(struct rpcr *rpcr, struct rpcrdma_prefix *prefix, const uint8_t *data,
			 size_t len, const uint32_t *handle)
{
	/* of what cannot be read, a client's peer has sent a Reply, as far as is known */
	switch (prefix->type) {
	case RPCRDMA_MSG:
	case RPCRDMA_NOMSG:
		if (rpcr->side == RPCR_CLIENT)
			prefix->flags = RPCRDMA_F_RESPONSE;
		got_rpc(rpcr, prefix, data, len, handle);
		break;
	case RPCRDMA_ERROR: got_error(rpcr, prefix, data, len); break;
	case RPCRDMA_DONE: rpcr->count.dropped++; break; /* RR2-194 */
	default:
		prefix->flags = rpcr->side == RPCR_CLIENT ? RPCRDMA_F_RESPONSE : 0;
		rpcr_fault(rpcr, prefix, RPCRDMA_ERR_CHUNK); /* RR2-204 */
		break;
	}
}

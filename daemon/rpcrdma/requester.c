/* SPDX-License-Identifier: MIT */
/* Calls of this side, in either direction, and the Replies to them. */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "daemon/rpcrdma/internal.h"
#include "proto/smcr/bytes.h"

#define RPC_CALL 0 /* msg_type, the second word of an RPC message */

struct rpcr_wait *rpcr_find(struct rpcr_wait *list, uint32_t xid)
{
	struct rpcr_wait *wait;
	DL_FOREACH (list, wait) {
		if (wait->xid == xid)
			return wait;
	}
	return NULL;
}

bool rpcr_has_handle(const struct rpcrdma_lists *lists, uint32_t handle)
{
	for (uint32_t i = 0; i < lists->num_reads; i++) {
		if (lists->reads[i].segment.handle == handle)
			return true;
	}
	for (uint32_t i = 0; i < lists->num_segments; i++) {
		if (lists->segments[i].handle == handle)
			return true;
	}
	return false;
}

/* ---- calls */

/* What the peer does in this direction. A client's Calls go forward, a server's in reverse
 * (RR2-138, RR2-141). */
static enum rpcrdma_reverse peer_level(const struct rpcr *rpcr)
{
	if (rpcr->version == RPCRDMA_V1 && rpcr->side == RPCR_SERVER)
		return RPCRDMA_REVERSE_SIMPLE; /* RR2-202 */
	return rpcr->side == RPCR_CLIENT ? RPCRDMA_REVERSE_GENERAL : rpcr->peer.reverse;
}

static bool segments_fit(const struct rpcr *rpcr, const struct rpcrdma_lists *lists)
{
	const uint32_t most = rpcr->peer.segment_size; /* RR2-65 */
	if (lists->num_reads > RPCRDMA_MOST_READS || lists->num_writes > RPCRDMA_MOST_WRITES ||
	    lists->num_segments > RPCRDMA_MOST_SEGMENTS ||
	    lists->num_reads + lists->num_segments > rpcr->peer.segment_count) /* RR2-100 */
		return false;
	for (uint32_t i = 0; i < lists->num_reads; i++) {
		if (lists->reads[i].segment.length > most || lists->reads[i].position % 4 != 0)
			return false;
	}
	for (uint32_t i = 0; i < lists->num_segments; i++) {
		if (lists->segments[i].length > most)
			return false;
	}
	return true;
}

/* Are these lists such as the peer takes? (RR2-142, RR2-115) */
static bool lists_fit(const struct rpcr *rpcr, const struct rpcrdma_lists *lists, bool special)
{
	if (peer_level(rpcr) != RPCRDMA_REVERSE_GENERAL && !rpcrdma_lists_empty(lists))
		return false;
	if (lists->inv_handle && !rpcr_has_handle(lists, lists->inv_handle))
		return false;
	bool has_all = false; /* the payload is in a chunk with position 0 (RR2-120) */
	for (uint32_t i = 0; i < lists->num_reads && i < RPCRDMA_MOST_READS; i++)
		has_all |= lists->reads[i].position == 0;
	return has_all == special && segments_fit(rpcr, lists);
}

static bool is_call(const uint8_t *payload, size_t len, uint32_t xid)
{
	return len >= 8 && len % 4 == 0 && get_be32(payload) == xid &&
	       get_be32(payload + 4) == RPC_CALL;
}

static int check_call(const struct rpcr *rpcr, uint32_t xid, const uint8_t *payload, size_t len,
		      const struct rpcrdma_lists *lists)
{
	if (rpcr->state != RPCR_ESTABLISHED)
		return -ENOTCONN; /* RR2-41 */
	if (peer_level(rpcr) == RPCRDMA_REVERSE_NONE)
		return -EOPNOTSUPP;
	if (xid == 0 || (payload && !is_call(payload, len, xid)))
		return -EINVAL; /* RR2-190 */
	if (xid == rpcr->connprop_xid || rpcr_find(rpcr->calls, xid))
		return -EEXIST; /* RR2-79 */
	return lists_fit(rpcr, lists, !payload) ? 0 : -EINVAL;
}

/* Remember and queue it. The body has the encoded lists. */
static int start_call(struct rpcr *rpcr, const struct rpcr_out *out,
		      const struct rpcrdma_lists *lists, void *cookie)
{
	struct rpcr_wait *call = malloc(sizeof(*call));
	if (!call)
		return -ENOMEM;
	call->xid = out->xid;
	call->cookie = cookie;
	call->lists = *lists;
	if (rpcr_queue(rpcr, out) < 0) {
		free(call);
		return -ENOMEM;
	}
	DL_APPEND(rpcr->calls, call);
	rpcr->num_calls++;
	return 0;
}

int rpcr_call(struct rpcr *rpcr, uint32_t xid, const uint8_t *payload, size_t len,
	      const struct rpcrdma_lists *lists, void *cookie, uint64_t now)
{
	static const struct rpcrdma_lists none;
	uint8_t body[RPCRDMA_MOST_LISTS_LEN];
	int error = check_call(rpcr, xid, payload, len, lists ? lists : &none);
	if (error < 0)
		return error;
	if (!lists)
		lists = &none;
	/* RR2-82, RR2-85, RR2-86, RR2-124 */
	const struct rpcr_out out = {
		.xid = xid,
		.version = rpcr->version,
		.type = payload ? RPCRDMA_MSG : RPCRDMA_NOMSG,
		.body = body,
		.body_len = rpcrdma_encode_lists(lists, rpcr->version, body, sizeof(body)),
		.payload = (uint8_t *)payload, /* is copied */
		.len = payload ? len : 0,
	};
	const bool may_continue = payload && peer_level(rpcr) >= RPCRDMA_REVERSE_CONTINUED;
	if (!rpcr_can_send(rpcr, out.body_len, out.len, may_continue))
		return -EMSGSIZE;
	rpcr_enter(rpcr, now);
	error = start_call(rpcr, &out, lists, cookie);
	rpcr_leave(rpcr);
	return error;
}

/* ---- their ends */

static void *take_call(struct rpcr *rpcr, struct rpcr_wait *call)
{
	void *cookie = call->cookie;
	DL_DELETE(rpcr->calls, call);
	rpcr->num_calls--;
	rpcr->v1_out -= rpcr->v1_out > 0;
	rpcr->send_due = true;
	free(call);
	return cookie;
}

void rpcr_fail_call(struct rpcr *rpcr, uint32_t xid, enum rpcr_failure why,
		    const struct rpcrdma_error *error)
{
	struct rpcr_wait *call = rpcr_find(rpcr->calls, xid);
	if (call)
		rpcr->ops->failed(rpcr->ctx, take_call(rpcr, call), why, error);
	else
		rpcr->count.dropped++;
}

void rpcr_fail_all(struct rpcr *rpcr)
{
	while (rpcr->calls) /* RR2-169 */
		rpcr->ops->failed(rpcr->ctx, take_call(rpcr, rpcr->calls), RPCR_FAILED_LOST, NULL);
}

/* ---- Replies */

static bool same_chunk(const struct rpcrdma_lists *offered, const struct rpcrdma_chunk *mine,
		       const struct rpcrdma_lists *returned, const struct rpcrdma_chunk *theirs)
{
	if (mine->count != theirs->count)
		return false;
	for (uint32_t i = 0; i < mine->count; i++) {
		const struct rpcrdma_segment *a = &offered->segments[mine->first + i];
		const struct rpcrdma_segment *b = &returned->segments[theirs->first + i];
		if (a->handle != b->handle || a->offset != b->offset || b->length > a->length)
			return false;
	}
	return true;
}

/* Are the lists of a Reply what was offered, with lengths that are not longer? (RR2-83, RR2-91,
 * RR2-111, RR2-114) */
static bool lists_agree(const struct rpcrdma_lists *offered, const struct rpcrdma_lists *returned)
{
	if (returned->num_reads > 0 || returned->num_writes != offered->num_writes ||
	    returned->num_segments > offered->num_segments)
		return false;
	for (uint32_t i = 0; i < offered->num_writes; i++) {
		if (!same_chunk(offered, &offered->writes[i], returned, &returned->writes[i]))
			return false;
	}
	if (!returned->has_reply)
		return true;
	return offered->has_reply &&
	       same_chunk(offered, &offered->reply, returned, &returned->reply);
}

/* RR2-139, RR2-152 */
void rpcr_got_reply(struct rpcr *rpcr, const struct rpcrdma_prefix *prefix,
		    const struct rpcrdma_lists *lists, const uint8_t *payload, size_t len,
		    const uint32_t *handle)
{
	struct rpcr_wait *call = rpcr_find(rpcr->calls, prefix->xid);
	if (!call) {
		rpcr->count.dropped++;
		return;
	}
	/* without payload it has to be in the Reply chunk (RR2-127) */
	if (!lists_agree(&call->lists, lists) || (!payload && !lists->has_reply)) {
		rpcr_fault(rpcr, prefix, RPCRDMA_ERR_BAD_XDR);
		return;
	}
	const struct rpcr_message reply = {
		.xid = prefix->xid,
		.payload = payload,
		.len = len,
		.lists = lists,
		.invalidated = handle != NULL,
	};
	rpcr->ops->replied(rpcr->ctx, take_call(rpcr, call), &reply);
}

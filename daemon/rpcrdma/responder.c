/* SPDX-License-Identifier: MIT */
/* Calls of the peer, in either direction, and our Replies to them. */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "daemon/rpcrdma/chunks.h"
#include "daemon/rpcrdma/internal.h"
#include "proto/smcr/bytes.h"

#define RPC_REPLY 1 /* msg_type, the second word of an RPC message */

/* What this side does for Calls: all for those of a client, what was declared for a server's. */
static enum rpcrdma_reverse own_level(const struct rpcr *rpcr)
{
	if (rpcr->side == RPCR_SERVER)
		return RPCRDMA_REVERSE_GENERAL;
	if (rpcr->version == RPCRDMA_V1 && rpcr->config.reverse)
		return RPCRDMA_REVERSE_SIMPLE; /* RR2-202 */
	return rpcr->config.reverse;
}

/* ---- Calls */

static struct rpcrdma_error error_of(uint32_t code, uint32_t first)
{
	return (struct rpcrdma_error){ .code = code, .first = first };
}

/* RR2-143, RR2-144 */
static struct rpcrdma_error wrong_without_chunks(const struct rpcrdma_lists *lists)
{
	if (lists->num_reads)
		return error_of(RPCRDMA_ERR_READ_CHUNKS, 0);
	if (lists->num_writes)
		return error_of(RPCRDMA_ERR_WRITE_CHUNKS, 0);
	return error_of(RPCRDMA_ERR_REPLY_RESOURCE, 0);
}

static bool segment_is_too_long(const struct rpcr *rpcr, const struct rpcrdma_lists *lists)
{
	for (uint32_t i = 0; i < lists->num_reads; i++) {
		if (lists->reads[i].segment.length > rpcr->config.segment_size)
			return true;
	}
	for (uint32_t i = 0; i < lists->num_segments; i++) {
		if (lists->segments[i].length > rpcr->config.segment_size)
			return true;
	}
	return false;
}

/* What is wrong with the chunks of a Call; code 0: nothing. Numbers come first: if there are too
 * many, the lists are not whole. */
static struct rpcrdma_error wrong_with_lists(const struct rpcr *rpcr,
					     const struct rpcrdma_lists *lists,
					     const uint8_t *payload, size_t len)
{
	const struct rpcr_config *config = &rpcr->config;
	uint64_t whole;
	if (own_level(rpcr) != RPCRDMA_REVERSE_GENERAL && !rpcrdma_lists_empty(lists))
		return wrong_without_chunks(lists);
	if ((uint64_t)lists->num_reads + lists->num_segments > config->segment_count)
		return error_of(RPCRDMA_ERR_SEGMENTS, config->segment_count);
	if (lists->num_writes > config->most_writes)
		return error_of(RPCRDMA_ERR_WRITE_CHUNKS, config->most_writes);
	if (rpcr_count_reads(lists) > config->most_reads)
		return error_of(RPCRDMA_ERR_READ_CHUNKS, config->most_reads);
	if (lists->inv_handle && !rpcr_has_handle(lists, lists->inv_handle))
		return error_of(RPCRDMA_ERR_BAD_XDR, 0); /* RR2-115 */
	if (rpcr_check_reads(lists, payload != NULL, len, &whole) < 0)
		return error_of(RPCRDMA_ERR_BAD_XDR, 0);
	if (whole > config->most_joined || segment_is_too_long(rpcr, lists))
		return error_of(RPCRDMA_ERR_SYSTEM, 0); /* [X28] (RR2-99, RR2-181) */
	return error_of(0, 0);
}

static struct rpcr_wait *remember(struct rpcr *rpcr, uint32_t xid,
				  const struct rpcrdma_lists *lists)
{
	struct rpcr_wait *call = malloc(sizeof(*call));
	if (!call)
		return NULL;
	call->xid = xid;
	call->cookie = NULL;
	call->lists = *lists;
	DL_APPEND(rpcr->served, call);
	rpcr->num_served++;
	return call;
}

void rpcr_got_call(struct rpcr *rpcr, const struct rpcrdma_prefix *prefix,
		   const struct rpcrdma_lists *lists, const uint8_t *payload, size_t len)
{
	if (own_level(rpcr) == RPCRDMA_REVERSE_NONE) {
		rpcr_fault(rpcr, prefix, RPCRDMA_ERR_SYSTEM); /* [X28] */
		return;
	}
	const struct rpcrdma_error error = wrong_with_lists(rpcr, lists, payload, len);
	if (error.code) {
		rpcr->count.dropped++;
		rpcr_send_error(rpcr, prefix, &error);
		return;
	}
	if (rpcr_find(rpcr->served, prefix->xid)) {
		rpcr->count.dropped++; /* [X31] */
		return;
	}
	if (rpcr->num_served >= rpcr->config.most_calls || !remember(rpcr, prefix->xid, lists)) {
		rpcr_fault(rpcr, prefix, RPCRDMA_ERR_SYSTEM);
		return;
	}
	const struct rpcr_message call = {
		.xid = prefix->xid,
		.payload = payload,
		.len = len,
		.lists = lists,
	};
	rpcr->ops->called(rpcr->ctx, &call);
}

/* ---- Replies */

static void forget(struct rpcr *rpcr, struct rpcr_wait *call)
{
	DL_DELETE(rpcr->served, call);
	rpcr->num_served--;
	free(call);
}

void rpcr_free_served(struct rpcr *rpcr)
{
	while (rpcr->served)
		forget(rpcr, rpcr->served);
}

/* The lists of a Reply: those of the Call, without its Read list and its handle (RR2-83, RR2-118),
 * with the bytes that were written. @return false: more than a chunk holds */
static bool return_lists(const struct rpcr_wait *call, const struct rpcr_used *used,
			 struct rpcrdma_lists *ret_lists)
{
	static const struct rpcr_used nothing;
	if (!used)
		used = &nothing;
	*ret_lists = call->lists;
	ret_lists->inv_handle = 0;
	ret_lists->num_reads = 0;
	for (uint32_t i = 0; i < ret_lists->num_writes; i++) {
		const uint32_t len = used->writes ? used->writes[i] : 0;
		if (!rpcr_set_written(ret_lists, &ret_lists->writes[i], len))
			return false;
	}
	return !ret_lists->has_reply || rpcr_set_written(ret_lists, &ret_lists->reply, used->reply);
}

/* RR2-60, RR2-87, RR2-125, RR2-142; the Reply chunk comes before many parts [X11] */
static enum rpcr_way way_of(const struct rpcr *rpcr, const struct rpcr_wait *call, size_t len)
{
	struct rpcrdma_lists lists;
	return_lists(call, NULL, &lists);
	const size_t lists_len = rpcrdma_lists_len(&lists, rpcr->version);
	const bool may_continue = own_level(rpcr) >= RPCRDMA_REVERSE_CONTINUED;
	if (rpcr_can_send(rpcr, lists_len, len, false))
		return RPCR_INLINE;
	if (lists.has_reply && rpcr_chunk_len(&call->lists, &call->lists.reply) >= len &&
	    rpcr_can_send(rpcr, lists_len, 0, false))
		return RPCR_REPLY_CHUNK;
	return rpcr_can_send(rpcr, lists_len, len, may_continue) ? RPCR_INLINE : RPCR_NO_WAY;
}

enum rpcr_way rpcr_reply_way(const struct rpcr *rpcr, uint32_t xid, size_t len)
{
	const struct rpcr_wait *call = rpcr_find(rpcr->served, xid);
	return call ? way_of(rpcr, call, len) : RPCR_NO_WAY;
}

static bool is_reply(const uint8_t *payload, size_t len, uint32_t xid)
{
	return len >= 8 && len % 4 == 0 && get_be32(payload) == xid &&
	       get_be32(payload + 4) == RPC_REPLY;
}

/* RR2-127: without payload, the Reply chunk has it. */
static bool can_reply(const struct rpcr_wait *call, const uint8_t *payload, size_t len,
		      const struct rpcr_used *used, struct rpcrdma_lists *ret_lists)
{
	if (payload && !is_reply(payload, len, call->xid))
		return false;
	if (!payload && (!call->lists.has_reply || !used || used->reply == 0))
		return false;
	if (used && used->reply && (payload || !call->lists.has_reply))
		return false;
	return return_lists(call, used, ret_lists);
}

/* What the Reply invalidates; 0: nothing (RR2-116, RR2-203). */
static uint32_t handle_of(const struct rpcr *rpcr, const struct rpcr_wait *call)
{
	if (!rpcr->config.invalidates)
		return 0;
	if (rpcr->version == RPCRDMA_V2)
		return call->lists.inv_handle;
	return rpcr->config.v1_invalidates ? rpcr_only_handle(&call->lists) : 0;
}

int rpcr_reply(struct rpcr *rpcr, uint32_t xid, const uint8_t *payload, size_t len,
	       const struct rpcr_used *used, uint64_t now)
{
	struct rpcr_wait *call = rpcr_find(rpcr->served, xid);
	struct rpcrdma_lists lists;
	uint8_t body[RPCRDMA_MOST_LISTS_LEN];
	if (!call)
		return -ENOENT;
	if (!can_reply(call, payload, len, used, &lists))
		return -EINVAL;
	if (way_of(rpcr, call, payload ? len : 0) != RPCR_INLINE)
		return -EMSGSIZE;
	const uint32_t handle = handle_of(rpcr, call);
	const struct rpcr_out out = {
		.xid = xid,
		.version = rpcr->version,
		.type = payload ? RPCRDMA_MSG : RPCRDMA_NOMSG,
		.flags = RPCRDMA_F_RESPONSE,
		.body = body,
		.body_len = rpcrdma_encode_lists(&lists, rpcr->version, body, sizeof(body)),
		.payload = (uint8_t *)payload, /* is copied */
		.len = payload ? len : 0,
		.has_handle = handle != 0,
		.handle = handle,
	};
	rpcr_enter(rpcr, now);
	const int error = rpcr_queue(rpcr, &out);
	if (error == 0)
		forget(rpcr, call);
	rpcr_leave(rpcr);
	return error;
}

int rpcr_refuse(struct rpcr *rpcr, uint32_t xid, const struct rpcrdma_error *error, uint64_t now)
{
	struct rpcr_wait *call = rpcr_find(rpcr->served, xid);
	const struct rpcrdma_prefix about = { .xid = xid, .version = rpcr->version };
	if (!call)
		return -ENOENT;
	rpcr_enter(rpcr, now);
	forget(rpcr, call);
	rpcr_send_error(rpcr, &about, error); /* RR2-89, RR2-163 */
	rpcr_leave(rpcr);
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * Messages that come: the prefix is looked at first, then the type, then the flags, then lists, and
 * parts are put together. What breaks a rule is dropped, and never reaches the user (RR2-151).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/rpcrdma/internal.h"

/* A message behind its prefix. */
struct arrival {
	struct rpcrdma_prefix prefix;
	struct rpcrdma_lists lists;
	const uint8_t *data; /* the payload; of a CONNPROP, its body */
	size_t len;
	const uint32_t *handle;
};

/* ---- parts */

static void close_join(struct rpcr *rpcr)
{
	rpcr->join.open = false;
	rpcr->join.len = 0;
}

static bool keep_part(struct rpcr_join *join, const uint8_t *data, size_t len)
{
	if (len > join->room - join->len) {
		const size_t room = 2 * (join->len + len);
		uint8_t *larger = realloc(join->data, room);
		if (!larger)
			return false;
		join->data = larger;
		join->room = room;
	}
	if (len)
		memcpy(join->data + join->len, data, len);
	join->len += len;
	return true;
}

static bool is_reply(const struct rpcrdma_prefix *prefix)
{
	return prefix->flags & RPCRDMA_F_RESPONSE;
}

/* Drop a message that should have fitted into the open sequence, and that sequence. Both are told
 * of [X15]; what follows of this one is dropped too, until its last part (RR2-132). */
static void break_sequence(struct rpcr *rpcr, const struct arrival *a, uint32_t code)
{
	struct rpcr_join *join = &rpcr->join;
	const struct rpcrdma_prefix was = { join->xid, RPCRDMA_V2, 0, join->type, join->flags };
	const bool other =
		join->open && (was.xid != a->prefix.xid || is_reply(&was) != is_reply(&a->prefix));
	close_join(rpcr);
	join->discard = a->prefix.flags & RPCRDMA_F_MORE;
	join->xid = a->prefix.xid;
	if (other)
		rpcr_fault(rpcr, &was, code);
	rpcr_fault(rpcr, &a->prefix, code);
}

/* Does it go on where the last part has ended? (RR2-129) */
static bool fits_sequence(const struct rpcr_join *join, const struct arrival *a)
{
	const struct rpcrdma_prefix was = { .flags = join->flags };
	return join->xid == a->prefix.xid && join->type == a->prefix.type &&
	       is_reply(&was) == is_reply(&a->prefix);
}

/* Put a part to those before it. @return true: the message is whole, and `a` has all of it */
static bool join_part(struct rpcr *rpcr, struct arrival *a)
{
	struct rpcr_join *join = &rpcr->join;
	const bool more = a->prefix.flags & RPCRDMA_F_MORE;
	if (join->discard && join->xid == a->prefix.xid) {
		join->discard = more;
		rpcr->count.dropped++;
		return false;
	}
	join->discard = false;
	if (join->open && !fits_sequence(join, a)) {
		break_sequence(rpcr, a, RPCRDMA_ERR_INVAL_CONT);
		return false;
	}
	if (more && (a->prefix.type == RPCRDMA_NOMSG || !rpcrdma_lists_empty(&a->lists))) {
		break_sequence(rpcr, a, RPCRDMA_ERR_INVAL_CONT); /* RR2-130, RR2-131 */
		return false;
	}
	if (!join->open && !more)
		return true;
	if (a->len > rpcr->config.most_joined - join->len) {
		break_sequence(rpcr, a, RPCRDMA_ERR_SYSTEM); /* RR2-133, RR2-186 */
		return false;
	}
	if (!keep_part(join, a->data, a->len)) {
		rpcr_end_with(rpcr, RPCR_END_RESOURCES);
		return false;
	}
	join->open = true;
	join->xid = a->prefix.xid;
	join->type = a->prefix.type;
	join->flags = a->prefix.flags;
	a->data = join->data;
	a->len = join->len;
	return !more;
}

/* ---- RPC messages */

static uint32_t word_at(const struct arrival *a, size_t at)
{
	const uint8_t *p = a->data + at;
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Is the beginning of the payload what the prefix says? (RR2-21, RR2-27, RR2-28) */
static bool payload_agrees(const struct arrival *a)
{
	if (a->prefix.type == RPCRDMA_NOMSG)
		return a->len == 0;
	if (a->len < 4 || word_at(a, 0) != a->prefix.xid)
		return false;
	return a->len < 8 || word_at(a, 4) == (a->prefix.flags & RPCRDMA_F_RESPONSE);
}

/* Requests and answers of both directions come here; the flag tells which it is (RR2-140). */
static void deliver(struct rpcr *rpcr, const struct arrival *a)
{
	const uint8_t *payload = a->prefix.type == RPCRDMA_NOMSG ? NULL : a->data;
	if (!payload_agrees(a))
		rpcr_fault(rpcr, &a->prefix, RPCRDMA_ERR_BAD_XDR);
	else if (a->prefix.flags & RPCRDMA_F_RESPONSE)
		rpcr_got_reply(rpcr, &a->prefix, &a->lists, payload, a->len, a->handle);
	else
		rpcr_got_call(rpcr, &a->prefix, &a->lists, payload, a->len);
}

static void got_rpc(struct rpcr *rpcr, struct arrival *a)
{
	size_t lists_len;
	const bool first = !rpcr->join.open;
	const int error = rpcrdma_decode_lists(a->data, a->len, RPCRDMA_V2, &a->lists, &lists_len);
	if (error == -EBADMSG) {
		break_sequence(rpcr, a, RPCRDMA_ERR_BAD_XDR); /* RR2-154 */
		return;
	}
	rpcr_established(rpcr); /* a peer that tells no properties has the default ones (RR2-80) */
	if (rpcr->state == RPCR_GONE)
		return;
	a->data += lists_len;
	a->len -= lists_len;
	/* the first part has the XID (RR2-28) */
	if (first && !rpcr->join.discard && a->prefix.type == RPCRDMA_MSG &&
	    (a->len < 4 || word_at(a, 0) != a->prefix.xid)) {
		break_sequence(rpcr, a, RPCRDMA_ERR_BAD_XDR);
		return;
	}
	if (!join_part(rpcr, a))
		return;
	close_join(rpcr); /* its bytes stay until the next part comes */
	deliver(rpcr, a);
}

/* ---- by type */

static void got_connprop(struct rpcr *rpcr, struct arrival *a)
{
	const struct rpcrdma_error late = { .code = RPCRDMA_ERR_INVAL_HTYPE };
	if (rpcr->peer_done) {
		rpcr->count.dropped++;
		rpcr_send_error(rpcr, &a->prefix, &late); /* RR2-75 */
		return;
	}
	a->lists.num_reads = a->lists.num_writes = 0;
	a->lists.has_reply = false;
	/* A continued one is joined [X3] (RR2-136). */
	if (!join_part(rpcr, a))
		return;
	close_join(rpcr);
	rpcr_got_properties(rpcr, &a->prefix, a->data, a->len);
}

static void got_type(struct rpcr *rpcr, struct arrival *a)
{
	const struct rpcrdma_error unknown = { .code = RPCRDMA_ERR_INVAL_HTYPE };
	const bool is_error = a->prefix.type == RPCRDMA_ERROR;
	if ((a->prefix.flags & RPCRDMA_F_TPMORE) && a->prefix.type != RPCRDMA_CONNPROP) {
		rpcr->count.dropped++;
		if (!is_error)
			rpcr_send_error(rpcr, &a->prefix, &unknown); /* RR2-24 */
		return;
	}
	switch (a->prefix.type) {
	case RPCRDMA_MSG:
	case RPCRDMA_NOMSG: got_rpc(rpcr, a); break;
	case RPCRDMA_ERROR: rpcr_got_error(rpcr, &a->prefix, a->data, a->len); break;
	case RPCRDMA_CONNPROP: got_connprop(rpcr, a); break;
	default:
		rpcr->count.dropped++;
		rpcr_send_error(rpcr, &a->prefix, &unknown); /* RR2-20 */
		break;
	}
}

/* A NOMSG without XID and lists carries nothing but credits; it may come at any time, also between
 * parts (RR2-47, RR2-49, RR2-134, RR2-190). */
static bool is_credit_only(const struct arrival *a)
{
	static const uint8_t empty[RPCRDMA_V2_HEADER_LEN - RPCRDMA_V2_PREFIX_LEN];
	return a->prefix.version == RPCRDMA_V2 && a->prefix.type == RPCRDMA_NOMSG &&
	       a->prefix.xid == 0 && a->len == sizeof(empty) &&
	       memcmp(a->data, empty, sizeof(empty)) == 0;
}

/* RR2-119: only a whole Reply may invalidate, and only what its Call has offered. */
static bool handle_is_offered(const struct rpcr *rpcr, const struct arrival *a)
{
	const uint32_t must = RPCRDMA_F_RESPONSE;
	const struct rpcr_wait *call = rpcr_find(rpcr->calls, a->prefix.xid);
	if (rpcr->version == RPCRDMA_V1)
		return a->prefix.type <= RPCRDMA_NOMSG && call &&
		       rpcr_has_handle(&call->lists, *a->handle);
	return a->prefix.version == RPCRDMA_V2 && a->prefix.type <= RPCRDMA_NOMSG &&
	       (a->prefix.flags & (must | RPCRDMA_F_MORE)) == must && call &&
	       call->lists.inv_handle && call->lists.inv_handle == *a->handle;
}

void rpcr_got_message(struct rpcr *rpcr, const uint8_t *data, size_t len, const uint32_t *handle)
{
	struct arrival a = { .handle = handle };
	rpcr->count.received++;
	if (rpcrdma_decode_prefix(data, len, &a.prefix) < 0) {
		rpcr->count.dropped++; /* RR2-25 */
		rpcr_take_credits(rpcr, NULL, false);
		return;
	}
	const size_t prefix_len = rpcrdma_prefix_len(a.prefix.version);
	a.data = data + prefix_len;
	a.len = len - prefix_len;
	const bool credit_only = is_credit_only(&a);
	if (!rpcr_take_credits(rpcr, &a.prefix, credit_only))
		return;
	if (handle && !handle_is_offered(rpcr, &a)) {
		rpcr_end_with(rpcr, RPCR_END_HANDLE);
		return;
	}
	if (!rpcr_choose_version(rpcr, &a.prefix, data, len) || credit_only)
		return;
	if (rpcr->version == RPCRDMA_V1)
		rpcr_v1_got_message(rpcr, &a.prefix, a.data, a.len, a.handle);
	else
		got_type(rpcr, &a);
}

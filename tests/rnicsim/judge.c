/* SPDX-License-Identifier: MIT */
/* What a queue pair tells its user has to be true. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rnicsim/conn.h"
#include "tests/rnicsim/host.h"
#include "tests/rnicsim/sights.h"

/* A requester notices later than at its limit that a peer is silent: its timers double. */
#define LATE (500 * MSEC)

struct request *request_at(const struct end *end, size_t i)
{
	return &end->requests[(end->first + i) % end->cap];
}

struct request *request_add(struct end *end)
{
	if (end->count == end->cap) {
		size_t cap = end->cap ? 2 * end->cap : 32;
		struct request *requests = sim_alloc(cap * sizeof(*requests));
		for (size_t i = 0; i < end->count; i++)
			requests[i] = *request_at(end, i);
		free(end->requests);
		end->requests = requests;
		end->first = 0;
		end->cap = cap;
	}
	struct request *request = request_at(end, end->count++);
	*request = (struct request){ .allowed = ALLOWS(RNIC_WC_SUCCESS), .posted_at = now() };
	return request;
}

struct message *message_add(struct end *end)
{
	if (end->num_messages == end->messages_cap) {
		size_t cap = end->messages_cap ? 2 * end->messages_cap : 32;
		struct message *messages = sim_alloc(cap * sizeof(*messages));
		if (end->num_messages)
			memcpy(messages, end->messages, end->num_messages * sizeof(*messages));
		free(end->messages);
		end->messages = messages;
		end->messages_cap = cap;
	}
	struct message *message = &end->messages[end->num_messages++];
	*message = (struct message){ .request = end->done + end->count };
	return message;
}

/* ---- what has happened at the peer */

/* All requests before `number` have taken effect. */
static void has_happened(struct end *end, uint64_t number)
{
	for (; end->happened < number; end->happened++) {
		const struct request *r = request_at(end, (size_t)(end->happened - end->done));
		if (r->target)
			region_happened(r->target, r->store);
	}
}

/* The bytes of a READ are those of the peer's memory at some time after the READ was posted, and
 * before its token died. */
static void judge_read(struct end *end, const struct request *r)
{
	const struct read *read = r->read;
	const struct region *region = r->token->region;
	size_t stores = r->token->dead ? r->token->stores : region->num_stores, at = 0;
	bool later = false;
	for (unsigned int i = 0; i < read->pieces && !world->failed; i++) {
		const uint8_t *got = read->piece[i].addr;
		if (r->spoilt) {
			if (!arena_is_fresh(got, read->piece[i].length))
				world_fail("%s: READ %" PRIu64 " wrote into memory that was freed",
					   end->name, r->wr_id);
			continue;
		}
		for (uint32_t k = 0; k < read->piece[i].length; k++, at++) {
			if (got[k] == read->expected[at])
				continue;
			later = true;
			if (region_could_have(region, read->offset + at, got[k], read->stores,
					      stores))
				continue;
			world_fail("%s: READ %" PRIu64
				   " got a byte %zu of %zu that was never there",
				   end->name, r->wr_id, at, read->len);
			return;
		}
	}
	if (read->len > end->conn->mtu)
		saw(SAW_LONG_READ);
	if (later)
		saw(SAW_CHANGED_READ);
}

static bool is_send(const struct request *r)
{
	return r->opcode == RNIC_WR_SEND || r->opcode == RNIC_WR_SEND_INVALIDATE;
}

static void done(struct end *end, const struct request *r)
{
	struct end *peer = end->peer;
	if (!(r->allowed & ALLOWS(RNIC_WC_SUCCESS)))
		world_fail("%s: request %" PRIu64 " succeeded, which must be refused", end->name,
			   r->wr_id);
	if (is_send(r) && end->told <= r->message)
		world_fail("%s: SEND %" PRIu64 " succeeded, and %s was not told of it", end->name,
			   r->wr_id, peer->name);
	static const enum sight kinds[] = { SAW_SEND, SAW_WRITE, SAW_READ, SAW_SEND_INVALIDATE };
	saw(kinds[r->opcode]);
	has_happened(end, end->done + 1);
	if (r->read)
		judge_read(end, r);
	end->last_done |= r->is_last;
}

/* The first request leaves the queue. */
static void leave(struct end *end)
{
	arena_give(&end->source, request_at(end, 0)->source_mark);
	arena_give(&end->sink, request_at(end, 0)->sink_mark);
	free(request_at(end, 0)->read);
	request_at(end, 0)->read = NULL;
	end->first = (end->first + 1) % end->cap;
	end->count--;
	end->done++;
	if (end->happened < end->done)
		end->happened = end->done;
}

/* ---- failures */

static bool network_is_to_blame(const struct end *end)
{
	uint64_t limit = (uint64_t)end->longest_retry_ms * MSEC + LATE;
	return end->peer->over || net_was_bad(end->host, end->peer->host, now() - limit);
}

/* A READ whose response has not come may fail because of what the peer says of a later request. */
static bool later_has_cause(const struct end *end, enum rnic_wc_status status)
{
	for (size_t i = 0; i < end->count; i++) {
		if (request_at(end, i)->allowed & ALLOWS(status))
			return true;
	}
	return false;
}

/* May the first request that fails do so with this status? */
static bool has_cause(const struct end *end, const struct request *r, enum rnic_wc_status status)
{
	if (r->allowed & ALLOWS(status) || (r->read && later_has_cause(end, status)))
		return true;
	switch (status) {
	case RNIC_WC_RETRY_EXC_ERR: return network_is_to_blame(end);
	case RNIC_WC_RNR_RETRY_EXC_ERR: return end->send_params.rnr_retry != 7;
	case RNIC_WC_REM_OP_ERR: return end->peer->over;
	case RNIC_WC_WR_FLUSH_ERR: return end->gave_cause || end->peer->gave_cause;
	default: return false;
	}
}

static void failed(struct end *end, const struct request *r, enum rnic_wc_status status)
{
	bool is_first = !end->failed;
	if (!is_first && status != RNIC_WC_WR_FLUSH_ERR)
		world_fail("%s: request %" PRIu64 " failed with status %d behind another that did",
			   end->name, r->wr_id, status);
	if (!is_first)
		return;
	end->failed = true;
	saw(SAW_FAILURE + status);
	if (!has_cause(end, r, status))
		world_fail("%s: request %" PRIu64 " failed without cause: %s", end->name, r->wr_id,
			   rnic_wc_status_text(status));
}

static void on_sent(struct end *end, const struct rnic_wc *wc)
{
	const struct request *r = end->count ? request_at(end, 0) : NULL;
	/* Those that are not signaled are done without a word. */
	while (r && !r->signaled && r->wr_id != wc->wr_id) {
		if (end->failed)
			world_fail("%s: request %" PRIu64 " was not completed", end->name,
				   r->wr_id);
		done(end, r);
		leave(end);
		r = end->count ? request_at(end, 0) : NULL;
	}
	if (!r || r->wr_id != wc->wr_id) {
		world_fail("%s: request %" PRIu64 " was completed, it was the turn of %" PRId64,
			   end->name, wc->wr_id, r ? (int64_t)r->wr_id : -1);
		return;
	}
	if (wc->status == RNIC_WC_SUCCESS && (!r->signaled || end->failed))
		world_fail("%s: request %" PRIu64 " succeeded %s", end->name, wc->wr_id,
			   end->failed ? "behind one that failed" : "aloud, it was not signaled");
	if (wc->length != r->length)
		world_fail("%s: request %" PRIu64 " has %u bytes, not %u", end->name, wc->wr_id,
			   r->length, wc->length);
	if (wc->status == RNIC_WC_SUCCESS)
		done(end, r);
	else
		failed(end, r, wc->status);
	leave(end);
}

/* ---- receives */

/* A message is in the oldest buffer that the user has posted, and nothing is behind it. */
static void judge_buffer(struct end *end, const struct rnic_wc *wc, size_t used)
{
	if (!end->num_buffers) {
		world_fail("%s gets back a buffer that it did not post", end->name);
		return;
	}
	const struct buffer *b = &end->buffers[end->first_buffer];
	if (wc->wr_id != b->wr_id || wc->data != b->addr)
		world_fail("%s gets back buffer %" PRIu64 ", it is the turn of %" PRIu64, end->name,
			   wc->wr_id, b->wr_id);
	else if (used > b->length || !arena_is_fresh(b->addr + used, b->length - used))
		world_fail("%s: something is behind the message in buffer %" PRIu64, end->name,
			   b->wr_id);
	end->inbox_mark = b->mark;
	end->first_buffer = (end->first_buffer + 1) % end->params.recv_depth;
	end->num_buffers--;
}

static void judge_invalidation(struct end *end, const struct rnic_wc *wc, const struct message *m)
{
	if (wc->invalidated != (m->kills != NULL) ||
	    (m->kills && wc->invalidated_rkey != m->kills->rkey)) {
		world_fail("%s is not told right what a message has invalidated", end->name);
		return;
	}
	if (!m->kills)
		return;
	if (m->kills->dead)
		world_fail("%s: a message has invalidated a token that was dead", end->name);
	memory_token_died(end, m->kills->region, m->request + 1);
}

static void on_message(struct end *end, const struct rnic_wc *wc)
{
	struct end *peer = end->peer;
	if (peer->told == peer->num_messages) {
		world_fail("%s received a message that nobody sent", end->name);
		return;
	}
	const struct message *m = &peer->messages[peer->told++];
	if (!m->sound)
		world_fail("%s received message %zu, which must be refused", end->name,
			   peer->told - 1);
	if (wc->length != m->length || !pattern_is(wc->data, m->tag, 0, m->length))
		world_fail("%s received a wrong message in place of message %zu (%u bytes)",
			   end->name, peer->told - 1, m->length);
	if (end->params.user_receives) {
		saw(SAW_USER_BUFFER);
		judge_buffer(end, wc, m->length);
	}
	if (m->request >= peer->done)
		has_happened(peer, m->request);
	else if (!peer->failed && !peer->over)
		world_fail("message %zu was done before %s was told of it", peer->told - 1,
			   end->name);
	judge_invalidation(end, wc, m);
}

/* Buffers that were not used come back, oldest first; the last word has no buffer. */
static bool is_unused_buffer(struct end *end, const struct rnic_wc *wc)
{
	if (!end->num_buffers)
		return false;
	judge_buffer(end, wc, end->buffers[end->first_buffer].length);
	return true;
}

static void on_end(struct end *end)
{
	if (end->over)
		world_fail("%s is told twice that it has ended", end->name);
	/* Those that are left were done without a word. */
	while (end->count > 0 && !world->failed) {
		const struct request *r = request_at(end, 0);
		if (end->failed || r->signaled)
			world_fail("%s has ended, and request %" PRIu64 " was not completed",
				   end->name, r->wr_id);
		done(end, r);
		leave(end);
	}
	/* What the RNIC itself asks for, because of rnic_qp_want_ack(), may fail too. */
	if (!end->failed && !end->gave_cause && !end->peer->gave_cause && !network_is_to_blame(end))
		world_fail("%s has ended without cause", end->name);
	end_is_over(end);
}

/* ---- callbacks */

/* Messages stay as they are until the callback returns, whatever the user does in it. */
static void look_again(const struct end *end, const struct rnic_wc *wc, size_t n, size_t told)
{
	for (size_t i = 0; i < n; i++) {
		const struct message *m = &end->peer->messages[told];
		if (!wc[i].is_recv || wc[i].status != RNIC_WC_SUCCESS)
			continue;
		told++;
		if (!pattern_is(wc[i].data, m->tag, 0, m->length))
			world_fail("a message of %s has changed during the callback", end->name);
	}
}

static bool acts(const struct end *end)
{
	return !end->over && !world->draining && chance(world->set.in_callbacks);
}

/* What happens in a callback concerns other queue pairs of the host, too. */
static void another_acts(const struct end *end)
{
	const struct conn *conn = world->conns[choose(0, world->num_conns - 1)];
	struct end *other = (struct end *)(uintptr_t)&conn->ends[choose(0, 1)];
	if (other->host != end->host || other->in_callback || !acts(other))
		return;
	if (world->set.ends && chance(150))
		user_end(other);
	else
		user_step(other);
	if (!other->qp)
		saw(SAW_DESTROY_OF_ANOTHER);
}

static void user_acts(struct end *end, const struct rnic_wc *wc, size_t n, size_t told)
{
	for (unsigned int i = 0; i < 3 && acts(end); i++) {
		user_step(end);
		if (end->qp)
			look_again(end, wc, n, told);
	}
	another_acts(end);
	if (chance(world->set.in_callbacks / 2))
		rnic_poll(end->host->rnic);
	if (end->over && end->qp && chance(300))
		end_destroy(end);
}

void judge_completions(void *ctx, struct rnic_qp *qp, const struct rnic_wc *wc, size_t n)
{
	struct end *end = ctx;
	size_t told = end->peer->told;
	bool was_inside = host_leave();
	if (!end->qp || qp != end->qp || end->in_callback)
		world_fail("%s: a callback that must not be", end->name);
	end->in_callback = true;
	for (size_t i = 0; i < n && !world->failed; i++) {
		world_note(wc[i].wr_id ^ (uint64_t)wc[i].status << 8 ^
			   (uint64_t)wc[i].length << 16);
		world_log("%s: %s %" PRIu64 ", %s, %u bytes", end->name,
			  wc[i].is_recv ? "receive" : "send", wc[i].wr_id,
			  rnic_wc_status_text(wc[i].status), wc[i].length);
		if (!wc[i].is_recv)
			on_sent(end, &wc[i]);
		else if (wc[i].status == RNIC_WC_SUCCESS)
			on_message(end, &wc[i]);
		else if (!is_unused_buffer(end, &wc[i]))
			on_end(end);
	}
	if (!world->failed)
		user_acts(end, wc, n, told);
	if (!end->qp)
		saw(SAW_DESTROY_IN_CALLBACK);
	arena_give(&end->inbox, end->inbox_mark);
	end->in_callback = false;
	if (was_inside)
		host_enter();
}

bool judge_may_give_up(void *ctx, struct rnic_qp *qp, uint64_t silent_us)
{
	struct end *end = ctx;
	struct rnic_qp_stats stats;
	(void)silent_us;
	rnic_qp_get_stats(qp, &stats);
	return !end->asks_to_give_up || world->draining || chance(700);
}

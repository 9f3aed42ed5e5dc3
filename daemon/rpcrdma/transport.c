/* SPDX-License-Identifier: MIT */
/* How a connection begins and ends, what comes to it, and its timer. */
#include "daemon/rpcrdma/transport.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/rpcrdma/internal.h"

/* ---- begin and end */

int rpcr_new(const struct rpcr_config *config, enum rpcr_side side, const struct rpcr_ops *ops,
	     void *ctx, uint64_t now, struct rpcr **ret_rpcr)
{
	const char *why;
	if (rpcr_config_check(config, &why) < 0)
		return -EINVAL;
	struct rpcr *rpcr = calloc(1, sizeof(*rpcr));
	if (!rpcr)
		return -ENOMEM;
	rpcr->config = *config;
	rpcr_config_fill(&rpcr->config);
	rpcr->ops = ops;
	rpcr->ctx = ctx;
	rpcr->side = side;
	rpcr->now = now;
	rpcr->peer = rpcrdma_default_properties; /* RR2-58 */
	if (!rpcr_start_credits(rpcr)) {
		free(rpcr);
		return -ENOBUFS;
	}
	*ret_rpcr = rpcr;
	return 0;
}

void rpcr_free(struct rpcr *rpcr)
{
	if (!rpcr)
		return;
	rpcr_free_queue(rpcr);
	rpcr_free_served(rpcr);
	while (rpcr->calls) {
		struct rpcr_wait *call = rpcr->calls;
		rpcr->calls = call->next;
		free(call);
	}
	free(rpcr->join.data);
	free(rpcr->early);
	free(rpcr);
}

static void end_with(struct rpcr *rpcr, enum rpcr_end end, bool send_first)
{
	if (rpcr->state == RPCR_GONE)
		return;
	rpcr->state = RPCR_GONE;
	rpcr->end = end;
	rpcr->deadline = 0;
	rpcr_free_queue(rpcr);
	rpcr_free_served(rpcr);
	rpcr_fail_all(rpcr);
	rpcr->ops->ended(rpcr->ctx, end, send_first);
}

void rpcr_end_with(struct rpcr *rpcr, enum rpcr_end end)
{
	end_with(rpcr, end, false);
}

void rpcr_end_behind_sends(struct rpcr *rpcr, enum rpcr_end end)
{
	end_with(rpcr, end, true);
}

void rpcr_established(struct rpcr *rpcr)
{
	if (rpcr->state != RPCR_WAITING)
		return;
	rpcr->state = RPCR_ESTABLISHED;
	rpcr->peer_done = true;
	rpcr->ops->established(rpcr->ctx);
}

/* ---- what happens */

void rpcr_enter(struct rpcr *rpcr, uint64_t now)
{
	rpcr->now = now;
	rpcr->depth++;
}

void rpcr_leave(struct rpcr *rpcr)
{
	if (rpcr->depth == 1 && rpcr->send_due)
		rpcr_run_sends(rpcr);
	rpcr->depth--;
}

void rpcr_connected(struct rpcr *rpcr, uint64_t now)
{
	if (rpcr->connected)
		return;
	rpcr_enter(rpcr, now);
	rpcr->connected = true;
	if (rpcr->side == RPCR_CLIENT) {
		rpcr->version = RPCRDMA_V2;
		rpcr->deadline = now + rpcr->config.answer_us;
		rpcr_send_properties(rpcr); /* RR2-29 */
	} else if (rpcr->early) {
		rpcr_got_message(rpcr, rpcr->early, rpcr->early_len, NULL);
	}
	rpcr_leave(rpcr);
}

/* The queue pair may tell of the first message before it is told to be there. A client sends one
 * before it gets an answer (RR2-30). */
static void keep_early(struct rpcr *rpcr, const uint8_t *data, size_t len)
{
	if (rpcr->early || rpcr->side == RPCR_CLIENT) {
		rpcr_end_with(rpcr, RPCR_END_CREDITS);
		return;
	}
	rpcr->early = malloc(len + 1);
	if (!rpcr->early) {
		rpcr_end_with(rpcr, RPCR_END_RESOURCES);
		return;
	}
	if (len)
		memcpy(rpcr->early, data, len);
	rpcr->early_len = len;
}

void rpcr_received(struct rpcr *rpcr, const uint8_t *data, size_t len, const uint32_t *handle,
		   uint64_t now)
{
	rpcr_enter(rpcr, now);
	if (rpcr->state != RPCR_GONE && rpcr->connected)
		rpcr_got_message(rpcr, data, len, handle);
	else if (rpcr->state != RPCR_GONE)
		keep_early(rpcr, data, len);
	rpcr_leave(rpcr);
}

void rpcr_sent(struct rpcr *rpcr, uint64_t now)
{
	rpcr_enter(rpcr, now);
	rpcr->send_due = true;
	rpcr_leave(rpcr);
}

void rpcr_lost(struct rpcr *rpcr, uint64_t now)
{
	rpcr_enter(rpcr, now);
	rpcr_end_with(rpcr, RPCR_END_LOST);
	rpcr_leave(rpcr);
}

void rpcr_close(struct rpcr *rpcr)
{
	rpcr_end_with(rpcr, RPCR_END_CLOSED);
}

uint64_t rpcr_timer(struct rpcr *rpcr, uint64_t now)
{
	rpcr_enter(rpcr, now);
	if (rpcr->deadline && now >= rpcr->deadline)
		rpcr_end_with(rpcr, RPCR_END_SILENT); /* RR2-40 */
	rpcr_leave(rpcr);
	return rpcr->deadline ? rpcr->deadline : UINT64_MAX;
}

/* ---- views */

void rpcr_get_view(const struct rpcr *rpcr, struct rpcr_view *ret_view)
{
	struct rpcr_view view = rpcr->count;
	view.state = rpcr->state;
	view.end = rpcr->end;
	view.version = rpcr->version;
	view.send_threshold = rpcr_threshold(rpcr);
	view.receive_threshold = rpcr->config.receive_size < rpcr->peer.send_size
					 ? rpcr->config.receive_size
					 : rpcr->peer.send_size;
	view.peer = rpcr->peer;
	view.new_credits = rpcr->rx_new;
	view.out_credits = rpcr->rx_out;
	view.credit_limit = rpcr->rx_cap;
	view.send_credits = rpcr->tx;
	view.calls = rpcr->num_calls;
	view.served = rpcr->num_served;
	*ret_view = view;
}

const char *rpcr_end_text(enum rpcr_end end)
{
	switch (end) {
	case RPCR_END_NONE: return "it has not ended";
	case RPCR_END_CLOSED: return "this host has closed it";
	case RPCR_END_LOST: return "the peer has disconnected, or the RDMA connection was lost";
	case RPCR_END_SILENT: return "the server did not answer the first message in time";
	case RPCR_END_VERSION:
		return "the peer speaks no version of RPC-over-RDMA that smcrd may speak";
	case RPCR_END_PROPERTY: return "a property has a bad value";
	case RPCR_END_CREDITS: return "the peer has sent more messages than it had credits for";
	case RPCR_END_HANDLE: return "the peer has invalidated memory that it was not offered";
	case RPCR_END_FLOOD: return "the peer makes too many errors, or has too many properties";
	case RPCR_END_RESOURCES: return "this host has no memory, or no receive for it";
	}
	return "for no known reason";
}

/* SPDX-License-Identifier: MIT */
/*
 * Credits of version 2: one is room for one message (RR2-42). Each message grants what was posted
 * since the last one, so each grant has a receive behind it (RR2-51). One receive more than that is
 * always posted, for a message that only grants credits (RR2-46).
 */
#include "daemon/rpcrdma/internal.h"

/* Until the peer knows our size, it may send what it may by default (RR2-61, RR2-187). */
static uint32_t receive_size(const struct rpcr *rpcr)
{
	const uint32_t size = rpcr->config.receive_size;
	return !rpcr->peer_done && size < RPCRDMA_V2_THRESHOLD ? RPCRDMA_V2_THRESHOLD : size;
}

static bool post(struct rpcr *rpcr, uint32_t n)
{
	return rpcr->ops->post_receives(rpcr->ctx, n, receive_size(rpcr)) == n;
}

bool rpcr_start_credits(struct rpcr *rpcr)
{
	const uint32_t most = rpcr->config.receives;
	const bool server = rpcr->side == RPCR_SERVER;
	rpcr->rx_cap = 2 * most < UINT16_MAX ? 2 * most : UINT16_MAX;
	rpcr->rx_out = server ? 1 : 0; /* the client's first message was never granted */
	rpcr->rx_new = most - rpcr->rx_out;
	rpcr->tx = server ? 0 : 1;
	return post(rpcr, most + 1);
}

static void add_credits(struct rpcr *rpcr, uint32_t credit)
{
	const uint32_t limit = credit >> 16, granted = credit & 0xFFFF;
	rpcr->tx += granted; /* 0 is no error */
	if (limit && rpcr->tx > limit)
		rpcr->tx = limit;
	if (rpcr->tx > UINT16_MAX)
		rpcr->tx = UINT16_MAX;
}

bool rpcr_take_credits(struct rpcr *rpcr, const struct rpcrdma_prefix *prefix, bool credit_only)
{
	bool again = true;
	credit_only |= rpcr->version == RPCRDMA_V1; /* Calls count there, and receives do not */
	if (!credit_only) {
		if (rpcr->rx_out == 0) {
			rpcr_end_with(rpcr, RPCR_END_CREDITS);
			return false;
		}
		rpcr->rx_out--;
		again = rpcr->rx_out + rpcr->rx_new < rpcr->config.receives; /* RR2-45 */
	}
	if (again && !post(rpcr, 1)) {
		rpcr_end_with(rpcr, RPCR_END_RESOURCES);
		return false;
	}
	rpcr->rx_new += again && !credit_only;
	if (prefix && prefix->version == RPCRDMA_V2)
		add_credits(rpcr, prefix->credit);
	rpcr->send_due = true;
	return true;
}

/* A message has to grant something, so that the peer can answer; beyond the cap it holds credits
 * anyhow (RR2-43, RR2-57). */
uint32_t rpcr_next_credit(struct rpcr *rpcr)
{
	if (rpcr->rx_new == 0 && rpcr->rx_out < rpcr->rx_cap && post(rpcr, 1))
		rpcr->rx_new = 1;
	return rpcrdma_credit((uint16_t)rpcr->rx_cap, (uint16_t)rpcr->rx_new);
}

void rpcr_note_credit(struct rpcr *rpcr, bool credit_only)
{
	rpcr->rx_out += rpcr->rx_new;
	rpcr->rx_new = 0;
	rpcr->tx -= credit_only ? 0 : 1;
}

/* There is something to grant only where a message has come since the last grant, so there is at
 * most one between two that come (RR2-55). A peer that has used all its credits has left at least
 * as many receives as are kept posted, which is more than half. */
bool rpcr_grant_is_due(const struct rpcr *rpcr)
{
	if (rpcr->queue && rpcr->tx > 0)
		return false; /* what is queued carries it */
	return rpcr->rx_new >= (rpcr->config.receives + 1) / 2;
}

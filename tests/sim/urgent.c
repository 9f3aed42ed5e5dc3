/* SPDX-License-Identifier: MIT */
#include "tests/sim/urgent.h"

#include "tests/sim/host.h"

#define URGENT_PERMILLE 120 /* of connections */

void urgent_plan(struct pair *pair)
{
	struct prng rng;
	prng_seed(&rng, prng_mix(pair->world->seed) ^ pair->number);
	bool wanted = prng_chance(&rng, URGENT_PERMILLE);
	for (int s = 0; s < 2; s++) {
		struct plan *plan = &pair->side[s].plan;
		uint64_t total = plan->tx_total;
		uint64_t gap = prng_size(&rng, 1 + total / 100, 1 + total);
		if (wanted && !plan->urgent_gap && prng_chance(&rng, 700))
			plan->urgent_gap = (uint32_t)gap;
	}
}

uint64_t urgent_limit(const struct side *side, uint64_t limit)
{
	if (!side->plan.urgent_gap || side->mode != SIDE_SMC)
		return limit;
	uint64_t end = urgent_after(&side->plan, side->committed);
	if (!smcr_conn_tx_urgent_ready(side->conn))
		end--;
	return end < limit ? end : limit;
}

void urgent_announce(struct side *side)
{
	if (!side->plan.urgent_gap || side->mode != SIDE_SMC || urgent_is_announced(side))
		return;
	uint64_t end = urgent_after(&side->plan, side->committed);
	if (end > side->plan.tx_total || prng_mix(side->world->seed ^ end) % 2)
		return;
	side->urgent_announced = end;
	smcr_conn_tx_announce_urgent(side->conn);
}

void urgent_commit(struct side *side, size_t len)
{
	counted_tx(side->host, len);
	if (!urgent_before(&side->plan, side->committed))
		smcr_conn_tx_commit(side->conn, len);
	else if (smcr_conn_tx_commit_urgent(side->conn, len) < 0)
		world_fail(side->world, "URG-8",
			   "connection %u, %s: ready for an urgent byte, yet it was refused",
			   side->pair->number, side_name(side));
}

static void fail(struct side *side, const char *id, const char *what, uint64_t end)
{
	world_fail(side->world, id, "connection %u, %s has read %llu, urgent byte before %llu: %s",
		   side->pair->number, side_name(side), (unsigned long long)side->consumed,
		   (unsigned long long)end, what);
}

void urgent_read(struct side *side, size_t len, size_t have)
{
	const struct plan *plan = &side_peer(side)->plan;
	size_t offset = 0;
	if (!plan->urgent_gap || side->world->set.hostile)
		return;
	uint64_t end = urgent_after(plan, side->consumed);
	bool present = smcr_conn_rx_urgent(side->conn, &offset) == SMCR_URGENT_PRESENT;
	if (present && side->consumed + offset + 1 != end)
		fail(side, "URG-5", "the mark is elsewhere", end);
	else if (present && side->consumed + have < end)
		fail(side, "URG-5", "the mark is there, the byte is not", end);
	else if (!present && side->consumed + have >= end)
		fail(side, "URG-5", "the byte came without a mark", end);
	else if (side->consumed + have > end)
		fail(side, "URG-3", "more came before it was read", end);
	else if (present && !side->urgent_events)
		fail(side, "URG-4", "no event told of it", end);
	if (side->consumed + len == end)
		side->urgent_events = 0;
}

void urgent_raised(struct side *side)
{
	const struct side *peer = side_peer(side);
	if (side->world->set.hostile)
		return;
	if (!peer->plan.urgent_gap)
		fail(side, "URG-4", "an event, but the peer sends none", 0);
	else if (peer->committed < urgent_after(&peer->plan, side->consumed) &&
		 !urgent_is_announced(peer))
		fail(side, "URG-4", "an event, but the peer has not sent it",
		     urgent_after(&peer->plan, side->consumed));
	else if (++side->urgent_events > 2) /* one when announced, one when it is there */
		fail(side, "URG-4", "one event too many",
		     urgent_after(&peer->plan, side->consumed));
}

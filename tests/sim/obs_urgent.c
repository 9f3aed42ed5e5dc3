/* SPDX-License-Identifier: MIT */
/* Urgent data on the wire: P, U, and when the writer must wait (URG). */
#include "tests/sim/obs.h"
#include "tests/sim/urgent.h"

static uint64_t known_consumed(const struct obs_flow *flow)
{
	return flow->conn->flow[!flow->writer].seen_consumed;
}

static void fail(const struct obs_flow *flow, const char *id, const char *what, uint64_t pos)
{
	world_fail(flow->conn->group->obs->world, id, "connection %u, %s, at %llu: %s",
		   flow->conn->pair->number, side_text(flow->writer), (unsigned long long)pos,
		   what);
}

void obs_urgent_write(struct obs_flow *flow, uint32_t len)
{
	const struct plan *plan = &flow_writer(flow)->plan;
	if (!plan->urgent_gap)
		return;
	uint64_t next = urgent_after(plan, flow->written), last = next - plan->urgent_gap;
	if (flow->written + len > next)
		fail(flow, "URG-3", "a WRITE goes beyond an urgent byte", flow->written);
	if (known_consumed(flow) < last)
		fail(flow, "URG-3", "a WRITE, but the urgent byte before it is not read",
		     flow->written);
}

void obs_urgent_cdc(struct obs_flow *flow, const struct smcr_cdc *cdc, uint64_t produced)
{
	const struct side *side = flow_writer(flow);
	struct observer *obs = flow->conn->group->obs;
	bool pending = cdc->prod_flags & SMCR_CDC_URGENT_PENDING;
	bool present = cdc->prod_flags & SMCR_CDC_URGENT_PRESENT;
	bool at_mark = urgent_before(&side->plan, produced);
	bool more = side->plan.urgent_gap && side->committed >= urgent_after(&side->plan, produced);
	bool repeats = flow->conn->group->dialect == SMCR_DIALECT_RFC;
	bool again = flow->any_cdc && produced == flow->produced &&
		     flow->last.prod_flags & SMCR_CDC_URGENT_PRESENT;
	if (present)
		obs_see(obs, SEEN_URGENT);
	else if (pending)
		obs_see(obs, SEEN_URGENT_PENDING);
	if (present && !pending)
		fail(flow, "URG-1", "U without P", produced);
	else if (present && !at_mark)
		fail(flow, again ? "URG-1" : "URG-7", "U, but the byte before is not urgent",
		     produced);
	else if (present && more)
		fail(flow, "URG-7", "U, but the next one is on its way", produced);
	else if (pending && !present && !more && !urgent_is_announced(side))
		fail(flow, "URG-2", "P, but no urgent byte waits", produced);
	else if (more && !pending)
		fail(flow, "URG-2", "an urgent byte waits, but P is not set", produced);
	else if (at_mark && !more && !present && produced > flow->produced)
		fail(flow, "URG-1", "an urgent byte was written, but U is not set", produced);
	else if (again && at_mark && !more && !present && repeats &&
		 !((flow->moved || urgent_is_announced(side)) && known_consumed(flow) >= produced))
		fail(flow, "CDC-4", "U is taken back before normal data", produced);
	else if (again && present && !repeats && !flow->moved)
		fail(flow, "URG-7", "U is told twice in the deployed dialect", produced);
}

bool obs_urgent_consumed(const struct obs_flow *flow, uint64_t from, uint64_t to)
{
	const struct plan *plan = &side_peer(flow_writer(flow))->plan;
	return plan->urgent_gap && urgent_after(plan, from) <= to;
}

/* SPDX-License-Identifier: MIT */
/* WRITEs that try whether full-size packets pass (A67). They must be harmless, and be over before
 * anything relies on them. Violations are reported as PATH. */
#include <string.h>

#include "tests/sim/obs.h"

static uint32_t full_size(const struct qp *qp)
{
	return smcr_mtu_bytes(qp->peer.mtu);
}

static bool all_zero(const uint8_t *p, size_t len)
{
	return !len || (!p[0] && !memcmp(p, p + 1, len - 1));
}

/** Does the WRITE go to the end of the first connection's element, which has no data yet? */
static bool is_proof(const struct obs_flow *flow, const struct smcr_wr *wr, uint64_t offset)
{
	return flow->conn == flow->conn->group->first && !flow->written && offset &&
	       offset + wr->length == flow->rmb->element_size &&
	       wr->length <= smcr_mtu_bytes(SMCR_MTU_4096);
}

/** May the side write into the peer's memory? A deployed server registers its memory before it
 * sends CONFIRM LINK, a deployed client only when CONFIRM LINK has come. So the server has to wait
 * for the client's reply. */
static bool may_write(const struct obs_link *link, int side)
{
	return side == SERVER ? link->active[SERVER] : link->confirmed && !link->active[CLIENT];
}

bool proof_posted(struct observer *obs, struct qp *qp, struct request *req, struct obs_flow *flow,
		  uint64_t offset)
{
	struct obs_link *link = qp->link;
	int side = flow->writer;
	if (!is_proof(flow, &req->wr, offset))
		return false;
	if (!may_write(link, side))
		world_fail(obs->world, "PATH",
			   "group %u: the %s writes when the peer's memory may not be ready",
			   link->group->number, side_text(side));
	else if (req->wr.length > full_size(qp) || !all_zero(req->wr.addr, req->wr.length))
		world_fail(obs->world, "PATH", "group %u: the %s writes %u bytes that do harm",
			   link->group->number, side_text(side), req->wr.length);
	req->proof = flow;
	link->proofs_open[side]++;
	return true;
}

void proof_lands(struct observer *obs, const struct request *req, const uint8_t *target)
{
	if (!all_zero(req->wr.addr, req->wr.length) || !all_zero(target, req->wr.length))
		world_fail(obs->world, "PATH", "zeros that show what passes overwrite data");
}

void proof_settled(struct observer *obs, struct qp *qp, const struct request *req, bool ok)
{
	struct obs_link *link = qp->link;
	int side = req->proof->writer;
	link->proofs_open[side]--;
	if (!ok || req->wr.length < full_size(qp))
		return;
	link->proven[side] = true;
	obs_see(obs, SEEN_PROOF);
	if (side == SERVER)
		server_goes_on(link);
}

void proof_check(struct observer *obs, const struct obs_conn *conn, int side)
{
	const struct obs_group *group = conn->group;
	const struct obs_link *link;
	if (conn != group->first)
		return;
	DL_FOREACH (group->links, link) {
		if (!link->qp[side] || link->qp[side]->state != QP_RTS)
			continue;
		if (link->proofs_open[side])
			world_fail(obs->world, "PATH",
				   "group %u: the %s's data may meet its own zeros", group->number,
				   side_text(side));
		else if (link->active[side] && !link->gone[side] && !link->doomed &&
			 !link->proven[side])
			world_fail(obs->world, "PATH",
				   "group %u: the %s goes on, but no full-size packet has passed "
				   "on link %u",
				   group->number, side_text(side), link->number);
	}
}

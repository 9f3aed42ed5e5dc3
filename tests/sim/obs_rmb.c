/* SPDX-License-Identifier: MIT */
/* RMBs as CLC and LLC messages describe them: elements, and a token for every link. */
#include <string.h>

#include "tests/sim/obs.h"

/* PeerAbortWait in the configurations of the simulator: the default. */
#define ABORT_WAIT (10 * SEC)

struct block *rmb_block(struct observer *obs, struct qp *qp, uint32_t rkey, uint64_t vaddr,
			const char *what)
{
	struct world *w = obs->world;
	struct mr *mr = fabric_mr_find(w->fabric, rkey);
	if (!mr || mr->qp != qp || !mr->remote || mr->vaddr != vaddr ||
	    mr->addr != mr->block->base) {
		world_fail(w, "RMB-10", "%s tells an RToken that is not valid on QP %06x of %s",
			   what, qp->qpn, qp->host->name);
		return NULL;
	}
	return mr->block;
}

struct obs_rmb *rmb_new(struct obs_group *group, int owner, struct block *block)
{
	struct world *w = group->obs->world;
	if (block->rmb) {
		world_fail(w, "PLG-3", "group %u: the %s's RMB belongs to group %u", group->number,
			   side_text(owner), block->rmb->group->number);
		return NULL;
	}
	struct obs_rmb *rmb = sim_zalloc(sizeof(*rmb));
	rmb->group = group;
	rmb->owner = owner;
	rmb->block = block;
	block->rmb = rmb;
	DL_APPEND(group->rmbs, rmb);
	if (rmb_count(group, owner) > SMCR_MAX_RMBS)
		world_fail(w, "LG-13", "group %u: the %s has more than 255 RMBs", group->number,
			   side_text(owner));
	return rmb;
}

struct obs_token *rmb_token(struct obs_rmb *rmb, const struct obs_link *link)
{
	for (size_t i = 0; i < sizeof(rmb->token) / sizeof(rmb->token[0]); i++) {
		if (rmb->token[i].link == link)
			return &rmb->token[i];
	}
	return NULL;
}

void rmb_set_token(struct obs_rmb *rmb, struct obs_link *link, uint32_t rkey, uint64_t vaddr,
		   bool told)
{
	struct obs_token *token = rmb_token(rmb, link);
	if (!token)
		token = rmb_token(rmb, NULL);
	if (!token) {
		world_fail(rmb->group->obs->world, "LG-6", "group %u has too many links",
			   rmb->group->number);
		return;
	}
	*token = (struct obs_token){ .link = link, .rkey = rkey, .vaddr = vaddr, .told = told };
}

void rmb_drop_tokens(struct obs_group *group, const struct obs_link *link)
{
	struct obs_rmb *rmb;
	DL_FOREACH (group->rmbs, rmb) {
		struct obs_token *token = rmb_token(rmb, link);
		if (token)
			*token = (struct obs_token){ 0 };
	}
}

/* ---- elements ---- */

static bool ended(const struct obs_flow *flow, bool seen)
{
	uint8_t flags = seen ? flow->seen.conn_flags : flow->last.conn_flags;
	bool any = seen ? flow->seen_any : flow->any_cdc;
	return any && flags & (SMCR_CDC_CLOSED | SMCR_CDC_ABORT);
}

/** May the owner give the element that `flow` wrote into to someone else? */
static void check_free(struct obs_rmb *rmb, const struct obs_flow *flow)
{
	struct world *w = rmb->group->obs->world;
	const struct obs_conn *conn = flow->conn;
	int owner = rmb->owner;
	if (!conn->gone[owner]) {
		world_fail(w, "RMB-7", "group %u: the %s gives an element to two connections",
			   rmb->group->number, side_text(owner));
		return;
	}
	const struct side *side = &conn->pair->side[owner];
	/* A side that still waits for the peer's C or A may free the element after PeerAbortWait.
	 */
	if (conn->decline_seen[owner] || conn->decline_sent[owner] || !conn->confirm_sent ||
	    w->set.timeouts || w->set.failures || w->clock.now >= side->over_at + ABORT_WAIT)
		return;
	/* The peer's Accept may give its element to another connection, which shows that the peer
	 * is done, while the peer's C is still on its way (RMB-9). */
	const struct obs_flow *back = &conn->flow[owner];
	bool evicted = back->rmb && back->rmb->user[back->index] != back;
	if (!ended(flow, !evicted) || !ended(back, false))
		world_fail(w, "RMB-8",
			   "group %u: the %s reuses the element of connection %u, but %s",
			   rmb->group->number, side_text(owner), conn->pair->number,
			   ended(flow, !evicted) ? "has not said C or A itself"
						 : "the peer has not said C or A");
}

void rmb_claim(struct obs_rmb *rmb, uint8_t index, uint32_t element_size, struct obs_flow *flow)
{
	struct world *w = rmb->group->obs->world;
	if (rmb->element_size && rmb->element_size != element_size)
		world_fail(w, "RMB-1", "group %u: one RMB, element sizes %u and %u",
			   rmb->group->number, rmb->element_size, element_size);
	rmb->element_size = element_size;
	if (rmb->user[index]) {
		obs_see(rmb->group->obs, SEEN_REUSE);
		check_free(rmb, rmb->user[index]);
	}
	rmb->user[index] = flow;
	flow->rmb = rmb;
	flow->index = index;
}

bool rmb_in_use(const struct obs_rmb *rmb)
{
	for (size_t i = 1; i <= SMCR_MAX_ELEMENTS; i++) {
		if (rmb->user[i] && !rmb->user[i]->conn->gone[rmb->owner])
			return true;
	}
	return false;
}

size_t rmb_count(const struct obs_group *group, int owner)
{
	const struct obs_rmb *rmb;
	size_t n = 0;
	DL_FOREACH (group->rmbs, rmb) {
		if (rmb->owner == owner && rmb->announced && !rmb->deleted)
			n++;
	}
	return n;
}

void rmb_check_complete(struct obs_group *group, int side)
{
	struct world *w = group->obs->world;
	struct obs_rmb *rmb;
	struct obs_link *link;
	if (group->ended || group->shaky || group->known[side])
		return;
	DL_FOREACH (group->rmbs, rmb) {
		/* An RMB that the owner does not regard as announced is announced again when it is
		 * needed. An RMB under DELETE RKEY gets no further tokens. */
		if (rmb->owner == side || !rmb->announced || !rmb->confirmed || rmb->deleting)
			continue;
		DL_FOREACH (group->links, link) {
			struct obs_token *token = rmb_token(rmb, link);
			if (link->active[side] && !link->gone[side] && (!token || !token->told))
				world_fail(w, "RKEY-11",
					   "group %u: the %s has no token of an RMB on link %u",
					   group->number, side_text(side), link->number);
		}
	}
}

/* ---- what owners do with the memory ---- */

static bool peer_may_write(const struct obs_rmb *rmb, const struct obs_link *link)
{
	const struct obs_group *group = rmb->group;
	int peer = !rmb->owner;
	return !group->ended && !group->shaky && !rmb->delete_confirmed && rmb->announced &&
	       link->active[peer] && !link->gone[peer];
}

void obs_mr_deregister(struct observer *obs, struct mr *mr)
{
	struct obs_rmb *rmb = mr->block->rmb;
	struct obs_link *link = mr->qp->link;
	if (obs_blind(obs) || !rmb || !link || !mr->remote || mr->qp->state >= QP_ERR)
		return;
	if (peer_may_write(rmb, link) && !link->gone[rmb->owner])
		world_fail(obs->world, "RKEY-13",
			   "group %u: the %s deregisters an RMB before the peer agreed",
			   rmb->group->number, side_text(rmb->owner));
}

void obs_mem_free(struct observer *obs, struct block *block)
{
	struct obs_rmb *rmb = block->rmb;
	if (obs_blind(obs) || !rmb)
		return;
	if (rmb_in_use(rmb) && !rmb->group->ended && !obs->world->set.failures)
		world_fail(obs->world, "RKEY-13", "group %u: the %s frees an RMB in use",
			   rmb->group->number, side_text(rmb->owner));
}

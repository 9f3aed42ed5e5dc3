/* SPDX-License-Identifier: MIT */
/*
 * RTokens for a new link (ADDL-8, ADDL-9, ADDL-10): each side tells the RTokens of its RMBs, in ADD
 * LINK CONTINUATIONs or, in version 2, in ADD LINK itself.
 */
#include "daemon/smcr/data.h"
#include "daemon/smcr/llc_rtokens.h"

/* ---- rules ---- */

unsigned int smcr_llc_rtokens_pairs(uint8_t left)
{
	return left < 2 ? left : 2;
}

uint8_t smcr_llc_rtokens_next(uint8_t left)
{
	return left > 2 ? (uint8_t)(left - 2) : 0;
}

/* ---- own RTokens ---- */

/* An RMB whose DELETE RKEY exchange was broken off is left out: the peer may have forgotten it, and
 * does not need it any more. */
void smcr_llc_rtokens_list(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	struct smcr_slab *slab;
	flow->own_count = flow->own_next = 0;
	flow->peer_counted = false;
	flow->peer_left = 0;
	DL_FOREACH (lgr->rmbs, slab)
		if (slab->reg[flow->carrier->slot].told && slab->state != SMCR_SLAB_DELETING)
			flow->own[flow->own_count++] = slab;
}

/* ADDL-8, ADDL-9. */
void smcr_llc_rtokens_send_cont(struct smcr_lgr *lgr, bool reply)
{
	struct smcr_llc_flow *flow = lgr->llc;
	struct smcr_llc_msg msg = { .type = SMCR_LLC_ADD_LINK_CONT, .reply = reply };
	struct smcr_llc_add_link_cont *cont = &msg.add_link_cont;
	cont->link_number = flow->subject->number;
	cont->num_rtokens = (uint8_t)(flow->own_count - flow->own_next);
	for (unsigned int i = 0; i < smcr_llc_rtokens_pairs(cont->num_rtokens); i++) {
		const struct smcr_slab *slab = flow->own[flow->own_next++];
		cont->pair[i].ref_rkey = slab->reg[flow->carrier->slot].rkey;
		cont->pair[i].new_rkey = slab->reg[flow->subject->slot].rkey;
		cont->pair[i].new_vaddr = slab->reg[flow->subject->slot].vaddr;
	}
	smcr_llc_send(flow->carrier, &msg);
}

struct smcr_llc_rtokens smcr_llc_rtokens_own(const struct smcr_llc_flow *flow)
{
	struct smcr_llc_rtokens rtokens = { .count = (uint8_t)flow->own_count };
	for (unsigned int i = 0; i < flow->own_count; i++) {
		const struct smcr_slab *slab = flow->own[i];
		rtokens.pair[i] = (struct smcr_llc_rtoken_pair){
			.ref_rkey = slab->reg[flow->carrier->slot].rkey,
			.new_rkey = slab->reg[flow->subject->slot].rkey,
			.new_vaddr = slab->reg[flow->subject->slot].vaddr,
		};
	}
	return rtokens;
}

/* ---- the peer's ---- */

static bool written_to(const struct smcr_peer_rmb *rmb)
{
	for (unsigned int i = 1; i <= SMCR_MAX_ELEMENTS && rmb->users; i++)
		if (rmb->user[i] &&
		    (rmb->user[i]->phase != SMCR_PHASE_OPEN || smcr_data_flowing(rmb->user[i])))
			return true;
	return false;
}

/** Has every RMB of the peer that connections use an RToken on the new link (ADDL-10)? An unused
 * RMB may have none: either the reply to its CONFIRM RKEY was lost with a link, and the peer will
 * announce it again, or its DELETE RKEY is on its way. */
static bool peer_complete(const struct smcr_lgr *lgr)
{
	const struct smcr_peer_rmb *rmb;
	DL_FOREACH (lgr->peer_rmbs, rmb)
		if (!rmb->withdrawn && !rmb->token[lgr->llc->subject->slot].valid &&
		    written_to(rmb))
			return false;
	return true;
}

/** Has the peer as many pairs left as it said before? A deployed peer announces a pair for each
 * connection, and has fewer if some connections have no RMB yet. */
static bool count_fits(const struct smcr_lgr *lgr, uint8_t num_rtokens)
{
	const struct smcr_llc_flow *flow = lgr->llc;
	if (!flow->peer_counted || num_rtokens == flow->peer_left)
		return true;
	return lgr->dialect == SMCR_DIALECT_DEPLOYED && num_rtokens < flow->peer_left;
}

/* A deployed peer has a pair for each RMB in use, even for an RMB that it announces for all links
 * only when this exchange is over. */
bool smcr_llc_rtokens_take_cont(struct smcr_lgr *lgr, const struct smcr_llc_add_link_cont *cont)
{
	struct smcr_llc_flow *flow = lgr->llc;
	if (cont->link_number != flow->subject->number || !count_fits(lgr, cont->num_rtokens))
		return false;
	for (unsigned int i = 0; i < smcr_llc_rtokens_pairs(cont->num_rtokens); i++) {
		const struct smcr_llc_rtoken_pair *pair = &cont->pair[i];
		struct smcr_peer_rmb *rmb = smcr_peer_rmb_find(lgr, flow->carrier, pair->ref_rkey);
		if (!rmb && lgr->dialect == SMCR_DIALECT_DEPLOYED)
			continue;
		if (!rmb || rmb->token[flow->subject->slot].valid)
			return false;
		smcr_peer_rmb_set(rmb, flow->subject, pair->new_rkey, pair->new_vaddr);
	}
	flow->peer_counted = true;
	flow->peer_left = smcr_llc_rtokens_next(cont->num_rtokens);
	return flow->peer_left || peer_complete(lgr);
}

/* RTokens of an RMB that is not known here are ignored. */
bool smcr_llc_rtokens_take_all(struct smcr_lgr *lgr)
{
	const struct smcr_llc_flow *flow = lgr->llc;
	for (unsigned int i = 0; i < flow->rtokens.count; i++) {
		const struct smcr_llc_rtoken_pair *pair = &flow->rtokens.pair[i];
		struct smcr_peer_rmb *rmb = smcr_peer_rmb_find(lgr, flow->carrier, pair->ref_rkey);
		if (rmb)
			smcr_peer_rmb_set(rmb, flow->subject, pair->new_rkey, pair->new_vaddr);
	}
	if (peer_complete(lgr))
		return true;
	smcr_row(lgr, SMCR_ROW_ERR_55);
	return false;
}

bool smcr_llc_rtokens_left(const struct smcr_lgr *lgr)
{
	const struct smcr_llc_flow *flow = lgr->llc;
	return flow->peer_left || flow->own_next < flow->own_count;
}

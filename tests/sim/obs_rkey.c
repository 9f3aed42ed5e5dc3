/* SPDX-License-Identifier: MIT */
/* How RTokens are told and withdrawn: ADD LINK CONTINUATION, CONFIRM RKEY, DELETE RKEY. */
#include <string.h>

#include "tests/sim/obs.h"

static unsigned int rkey_bit(int side)
{
	return side == SERVER ? X_RKEY_SERVER : X_RKEY_CLIENT;
}

static void start_own(const struct obs_link *link, int side)
{
	exchange_start(link->group, side, rkey_bit(side));
	link->group->rkey_link[side] = link;
}

static struct obs_rmb *rmb_by_key(struct obs_group *group, int owner, struct obs_link *link,
				  uint32_t rkey)
{
	struct obs_rmb *rmb;
	DL_FOREACH (group->rmbs, rmb) {
		struct obs_token *token = rmb_token(rmb, link);
		if (rmb->owner == owner && token && token->rkey == rkey)
			return rmb;
	}
	return NULL;
}

/* ---- ADD LINK CONTINUATION ---- */

/** How many RMBs the side has to tell. The side may tell or leave out an RMB under DELETE RKEY, or
 * one whose CONFIRM RKEY was answered on a link that failed. */
static void rmbs_to_tell(const struct obs_group *group, int side, size_t *ret_min, size_t *ret_max)
{
	const struct obs_rmb *rmb;
	*ret_min = *ret_max = 0;
	DL_FOREACH (group->rmbs, rmb) {
		if (rmb->owner != side || !rmb->announced || rmb->deleted)
			continue;
		++*ret_max;
		*ret_min += !rmb->deleting && !group->shaky;
	}
}

static void tell_pair(struct obs_group *group, struct obs_link *carrier, int from,
		      const struct smcr_llc_rtoken_pair *pair)
{
	struct observer *obs = group->obs;
	struct obs_rmb *rmb = rmb_by_key(group, from, carrier, pair->ref_rkey);
	struct block *block = rmb_block(obs, group->adding->qp[from], pair->new_rkey,
					pair->new_vaddr, "ADD LINK CONTINUATION");
	if (!block)
		return;
	if (!rmb || block != rmb->block) {
		world_fail(obs->world, "ADDL-10",
			   "group %u: the %s's CONTINUATION does not match its RMBs", group->number,
			   side_text(from));
		return;
	}
	if (rmb_token(rmb, group->adding)) {
		world_fail(obs->world, "ADDL-10", "group %u: the %s tells an RMB twice",
			   group->number, side_text(from));
		return;
	}
	rmb_set_token(rmb, group->adding, pair->new_rkey, pair->new_vaddr, false);
	group->cont_told[from]++;
}

void rtokens_posted(struct obs_link *link, int from, const struct smcr_llc_rtokens *rtokens)
{
	struct obs_group *group = link->group;
	struct world *w = group->obs->world;
	size_t min, max;
	rmbs_to_tell(group, from, &min, &max);
	if (rtokens->count < min || (rtokens->count > max && !group->shaky))
		world_fail(w, "ADDL-9", "group %u: the %s tells %u RTokens, it has %zu RMBs",
			   group->number, side_text(from), rtokens->count, max);
	group->cont_left[from] = 0;
	for (unsigned int i = 0; i < rtokens->count && !w->failed; i++)
		tell_pair(group, link, from, &rtokens->pair[i]);
}

void rtokens_delivered(struct obs_link *link, int to, const struct smcr_llc_rtokens *rtokens)
{
	struct obs_group *group = link->group;
	for (unsigned int i = 0; group->adding && i < rtokens->count; i++) {
		struct obs_rmb *rmb = rmb_by_key(group, !to, link, rtokens->pair[i].ref_rkey);
		struct obs_token *token = rmb ? rmb_token(rmb, group->adding) : NULL;
		if (token)
			token->told = true;
	}
}

void cont_posted(struct obs_link *link, int from, const struct smcr_llc_msg *msg)
{
	struct obs_group *group = link->group;
	struct world *w = group->obs->world;
	const struct smcr_llc_add_link_cont *m = &msg->add_link_cont;
	size_t min, max;
	if (!group->adding || link != group->carrier || m->link_number != group->adding->number ||
	    group->cont_turn_client != (from == CLIENT)) {
		if (!group->shaky)
			world_fail(w, "ADDL-8", "group %u: CONTINUATION of the %s out of turn",
				   group->number, side_text(from));
		return;
	}
	group->cont_turn_client = from == SERVER;
	int left = group->cont_left[from];
	rmbs_to_tell(group, from, &min, &max);
	if (left < 0 ? m->num_rtokens < min || (m->num_rtokens > max && !group->shaky)
		     : m->num_rtokens != (left > 2 ? left - 2 : 0))
		world_fail(w, "ADDL-9", "group %u: the %s has %u tokens left, %d before, %zu RMBs",
			   group->number, side_text(from), m->num_rtokens, left, max);
	group->cont_left[from] = m->num_rtokens;
	if (m->num_rtokens > 2)
		obs_see(group->obs, SEEN_CONT_MORE);
	for (unsigned int i = 0; i < 2 && i < m->num_rtokens && !w->failed; i++)
		tell_pair(group, link, from, &m->pair[i]);
}

void cont_delivered(struct obs_link *link, int to, const struct smcr_llc_msg *msg)
{
	struct obs_group *group = link->group;
	const struct smcr_llc_add_link_cont *m = &msg->add_link_cont;
	for (unsigned int i = 0; group->adding && i < 2 && i < m->num_rtokens; i++) {
		struct obs_rmb *rmb = rmb_by_key(group, !to, link, m->pair[i].ref_rkey);
		struct obs_token *token = rmb ? rmb_token(rmb, group->adding) : NULL;
		if (token)
			token->told = true;
	}
}

void cont_check_complete(struct obs_group *group)
{
	struct world *w = group->obs->world;
	for (int s = 0; s < 2; s++) {
		size_t min, max;
		rmbs_to_tell(group, s, &min, &max);
		if (group->cont_left[s] < 0)
			world_fail(w, "ADDL-11", "group %u: CONFIRM LINK before any CONTINUATION",
				   group->number);
		else if (group->cont_left[s] > 2 || group->cont_told[s] < min)
			world_fail(w, "ADDL-10", "group %u: the %s told %zu of %zu RMBs",
				   group->number, side_text(s), group->cont_told[s], min);
	}
}

/* ---- CONFIRM RKEY ---- */

static void stage_token(struct obs_group *group, int from, uint8_t number, uint32_t rkey,
			uint64_t vaddr)
{
	struct world *w = group->obs->world;
	struct obs_stage *stage = &group->stage[from];
	struct obs_link *link = link_by_number(group, number);
	bool was_there = memchr(stage->others, number, stage->num_others) != NULL;
	if (was_there && (!link || link->gone[from]))
		return; /* the link was deleted during the announcement, which still counts it */
	if (!link || !link->active[from] || link->gone[from]) {
		world_fail(w, "RKEY-3", "group %u: CONFIRM RKEY of the %s for link %u",
			   group->number, side_text(from), number);
		return;
	}
	for (size_t i = 0; i < stage->num; i++) {
		if (stage->token[i].link == link)
			world_fail(w, "RKEY-3", "group %u: CONFIRM RKEY tells link %u twice",
				   group->number, number);
	}
	struct block *block = rmb_block(group->obs, link->qp[from], rkey, vaddr, "CONFIRM RKEY");
	if (block && block != stage->rmb->block)
		world_fail(w, "RKEY-3", "group %u: CONFIRM RKEY mixes RMBs", group->number);
	if (!w->failed && stage->num < sizeof(stage->token) / sizeof(stage->token[0]))
		stage->token[stage->num++] =
			(struct obs_token){ .link = link, .rkey = rkey, .vaddr = vaddr };
}

/** Has the peer got the RMB's token for every link? If it was not listed for a link just added, its
 * owner announces the RMB again (RKEY-11). */
static bool known_everywhere(struct obs_rmb *rmb, int from)
{
	struct obs_link *link;
	DL_FOREACH (rmb->group->links, link) {
		const struct obs_token *token = rmb_token(rmb, link);
		if (link->active[from] && !link->gone[from] && !(token && token->told))
			return false;
	}
	return true;
}

static void confirm_request(struct obs_link *link, int from, const struct smcr_llc_confirm_rkey *m)
{
	struct obs_group *group = link->group;
	struct world *w = group->obs->world;
	struct obs_stage *stage = &group->stage[from];
	struct obs_link *other;
	start_own(link, from);
	struct block *block =
		rmb_block(group->obs, link->qp[from], m->rkey, m->vaddr, "CONFIRM RKEY");
	if (!block)
		return;
	struct obs_rmb *rmb = block->rmb ? block->rmb : rmb_new(group, from, block);
	if (!rmb || rmb->group != group ||
	    (rmb->announced && known_everywhere(rmb, from) && !group->shaky)) {
		world_fail(w, "RKEY-1", "group %u: the %s announces an RMB that is not new",
			   group->number, side_text(from));
		return;
	}
	*stage = (struct obs_stage){ .rmb = rmb };
	DL_FOREACH (group->links, other) {
		if (other != link && other->active[from] && !other->gone[from] &&
		    stage->num_others < sizeof(stage->others))
			stage->others[stage->num_others++] = other->number;
	}
	if (m->num_tokens != stage->num_others && !group->shaky)
		world_fail(w, "RKEY-4",
			   "group %u: CONFIRM RKEY of the %s for %u other links of %zu",
			   group->number, side_text(from), m->num_tokens, stage->num_others);
	stage->left = m->num_tokens > 2 ? m->num_tokens - 2 : 0;
	stage_token(group, from, link->number, m->rkey, m->vaddr);
	for (unsigned int i = 0; i < 2 && i < m->num_tokens && !w->failed; i++)
		stage_token(group, from, m->other[i].link_number, m->other[i].rkey,
			    m->other[i].vaddr);
	obs_see(group->obs, SEEN_CONFIRM_RKEY);
}

static void confirm_cont(struct obs_link *link, int from,
			 const struct smcr_llc_confirm_rkey_cont *m)
{
	struct obs_group *group = link->group;
	struct world *w = group->obs->world;
	struct obs_stage *stage = &group->stage[from];
	if (!(group->known[from] & rkey_bit(from)) || !stage->rmb || m->num_left != stage->left) {
		world_fail(w, "RKEY-4", "group %u: CONFIRM RKEY CONTINUATION with %u left, not %u",
			   group->number, m->num_left, stage->left);
		return;
	}
	obs_see(group->obs, SEEN_RKEY_MORE);
	stage->left = m->num_left > 3 ? m->num_left - 3 : 0;
	for (unsigned int i = 0; i < 3 && i < m->num_left && !w->failed; i++)
		stage_token(group, from, m->other[i].link_number, m->other[i].rkey,
			    m->other[i].vaddr);
}

static bool negative(const struct smcr_llc_msg *msg)
{
	return msg->type == SMCR_LLC_CONFIRM_RKEY ? msg->confirm_rkey.negative
						  : msg->confirm_rkey_cont.negative;
}

static size_t links_known_to(const struct obs_group *group, int side)
{
	const struct obs_link *link;
	size_t n = 0;
	DL_FOREACH (group->links, link)
		n += (link->active[side] || link == group->adding) && !link->gone[side];
	return n;
}

/** The tokens are valid at the peer once all have come (RKEY-8). */
static void confirm_reply(struct obs_link *link, int from, const struct smcr_llc_msg *msg,
			  const struct obs_request *request)
{
	struct obs_group *group = link->group;
	struct world *w = group->obs->world;
	struct obs_stage *stage = &group->stage[!from];
	uint8_t raw[SMCR_LLC_LEN];
	if (!request || !stage->rmb)
		return;
	if (group_encode(group, msg, NULL, raw, sizeof(raw)) < 0 ||
	    memcmp(raw + 4, request->raw + 4, SMCR_LLC_LEN - 4) != 0)
		world_fail(w, "RKEY-5", "group %u: CONFIRM RKEY is not echoed", group->number);
	bool first = msg->type == SMCR_LLC_CONFIRM_RKEY;
	/* While the CONFIRM RKEY was on its way, an exchange on another link has added a link
	 * (RKEY-6). */
	bool overtaken = first && negative(msg) && msg->confirm_rkey.retry &&
			 links_known_to(group, from) > stage->num;
	if (negative(msg) != request->expect_negative && !overtaken && !group->shaky &&
	    !w->set.failures && !w->set.op_fail_permille)
		world_fail(w, "SER-4", "group %u: CONFIRM RKEY %s", group->number,
			   negative(msg) ? "refused without a collision"
					 : "accepted in the midst of an exchange");
	if (negative(msg)) {
		if (first && request->expect_negative && !msg->confirm_rkey.retry)
			world_fail(w, "RKEY-7", "group %u: refused for a collision without C",
				   group->number);
		obs_see(group->obs, SEEN_RKEY_REFUSED);
		exchange_end(group, from, rkey_bit(!from));
		return;
	}
	if (stage->left)
		return;
	for (size_t i = 0; i < stage->num; i++)
		rmb_set_token(stage->rmb, stage->token[i].link, stage->token[i].rkey,
			      stage->token[i].vaddr, true);
	stage->rmb->announced = true;
	/* The owner may announce the RMB again before the peer has answered its DELETE RKEY. */
	stage->rmb->deleting = stage->rmb->deleted = stage->rmb->delete_confirmed = false;
	exchange_end(group, from, rkey_bit(!from));
}

/* ---- DELETE RKEY ---- */

static void delete_request(struct obs_link *link, int from, const struct smcr_llc_delete_rkey *m)
{
	struct obs_group *group = link->group;
	struct world *w = group->obs->world;
	start_own(link, from);
	for (unsigned int i = 0; i < m->count; i++) {
		struct obs_rmb *rmb = rmb_by_key(group, from, link, m->rkey[i]);
		if (group->shaky && (!rmb || rmb->deleting))
			continue; /* the exchange was broken by a failure, and is repeated */
		if (!rmb || rmb->deleting)
			world_fail(w, "RKEY-13", "group %u: the %s withdraws an unknown RMB",
				   group->number, side_text(from));
		else if (rmb_in_use(rmb))
			world_fail(w, "RKEY-13", "group %u: the %s withdraws an RMB in use",
				   group->number, side_text(from));
		else
			rmb->deleting = true;
	}
	obs_see(group->obs, SEEN_DELETE_RKEY);
}

static void delete_reply(struct obs_link *link, int from, const struct smcr_llc_delete_rkey *m,
			 const struct obs_request *request)
{
	struct obs_group *group = link->group;
	struct world *w = group->obs->world;
	if (!request)
		return;
	bool v2 = group_is_v2(group);
	const struct smcr_llc_delete_rkey *asked = &request->msg.delete_rkey;
	if (asked->count != m->count || (!v2 && memcmp(asked->rkey, m->rkey, sizeof(m->rkey)) != 0))
		world_fail(w, "RKEY-14", "group %u: DELETE RKEY is not echoed", group->number);
	/* A16: the server answers when its exchange about links is over. */
	if (from == SERVER && group->known[SERVER] & (X_ADD | X_DEL) && !group->shaky && !v2)
		world_fail(w, "SER-4", "group %u: DELETE RKEY answered in the midst of an exchange",
			   group->number);
	if ((m->negative || m->error_mask || m->num_invalid) && !group->shaky)
		world_fail(w, "RKEY-14", "group %u: DELETE RKEY of known keys refused",
			   group->number);
	for (unsigned int i = 0; i < m->count; i++) {
		struct obs_rmb *rmb = rmb_by_key(group, !from, link, asked->rkey[i]);
		if (rmb)
			rmb->deleted = true;
	}
	exchange_end(group, from, rkey_bit(!from));
}

/* ---- taps ---- */

void rkey_posted(struct obs_link *link, int from, const struct smcr_llc_msg *msg,
		 const struct obs_request *request)
{
	switch (msg->type) {
	case SMCR_LLC_CONFIRM_RKEY:
		if (!msg->reply) {
			confirm_request(link, from, &msg->confirm_rkey);
			return;
		}
		break;
	case SMCR_LLC_CONFIRM_RKEY_CONT:
		if (!msg->reply) {
			confirm_cont(link, from, &msg->confirm_rkey_cont);
			return;
		}
		break;
	default:
		if (msg->reply)
			delete_reply(link, from, &msg->delete_rkey, request);
		else
			delete_request(link, from, &msg->delete_rkey);
		return;
	}
	confirm_reply(link, from, msg, request);
}

void rkey_delivered(struct obs_link *link, int to, const struct smcr_llc_msg *msg)
{
	struct obs_group *group = link->group;
	if (!msg->reply) {
		exchange_learnt(group, to, rkey_bit(!to));
		return;
	}
	if (msg->type == SMCR_LLC_DELETE_RKEY && group_is_v2(group)) {
		struct obs_rmb *rmb; /* the reply repeats no keys */
		DL_FOREACH (group->rmbs, rmb)
			rmb->delete_confirmed |= rmb->owner == to && rmb->deleted;
		exchange_end(group, to, rkey_bit(to));
	} else if (msg->type == SMCR_LLC_DELETE_RKEY) {
		for (unsigned int i = 0; i < msg->delete_rkey.count; i++) {
			struct obs_rmb *rmb = rmb_by_key(group, to, link, msg->delete_rkey.rkey[i]);
			if (rmb)
				rmb->delete_confirmed = true;
		}
		exchange_end(group, to, rkey_bit(to));
	} else if (negative(msg) || !group->stage[to].left) {
		if (!negative(msg) && group->stage[to].rmb && link->qp[to]->state < QP_ERR)
			group->stage[to].rmb->confirmed = true;
		exchange_end(group, to, rkey_bit(to));
	}
}

/* SPDX-License-Identifier: MIT */
/* CLC as seen on TCP: who may send which message when, and whether its contents are true. */
#include <string.h>

#include "tests/sim/obs.h"

struct obs_conn *obs_conn_of(struct observer *obs, struct pair *pair)
{
	if (!pair->obs) {
		struct obs_conn *conn = sim_zalloc(sizeof(*conn));
		conn->pair = pair;
		for (int s = 0; s < 2; s++) {
			conn->flow[s].conn = conn;
			conn->flow[s].writer = s;
		}
		DL_APPEND(obs->conns, conn);
		pair->obs = conn;
	}
	return pair->obs;
}

static struct device *device_by_gid(struct world *w, const struct host *host,
				    const uint8_t gid[SMCR_GID_LEN])
{
	for (size_t i = 0; i < w->fabric->num_devices; i++) {
		struct device *device = w->fabric->devices[i];
		if (device->host == host && memcmp(device->info.gid, gid, SMCR_GID_LEN) == 0)
			return device;
	}
	return NULL;
}

static void check_identity(struct world *w, const struct host *host, const uint8_t *peer_id,
			   const uint8_t *gid, const uint8_t *mac)
{
	if (memcmp(peer_id, host->config.peer_id, SMCR_PEER_ID_LEN) != 0)
		world_fail(w, "PEER-1", "%s: a CLC message with another peer ID", host->name);
	if (!gid)
		return;
	struct device *device = device_by_gid(w, host, gid);
	if (!device || memcmp(device->info.mac, mac, SMCR_MAC_LEN) != 0)
		world_fail(w, "RV-4", "%s: GID and MAC of no own RNIC", host->name);
}

/* ---- Proposal ---- */

static void proposal_sent(struct observer *obs, struct obs_conn *conn, struct side *side,
			  const struct smcr_clc_proposal *msg)
{
	struct world *w = obs->world;
	if (side->index != CLIENT || conn->proposal_sent || conn->decline_sent[CLIENT])
		world_fail(w, "CLC-16", "connection %u: Proposal out of turn", conn->pair->number);
	version_proposal_sent(w, side, msg);
	bool v4 = msg->offers_r_v1 && msg->num_prefixes == 0;
	if (v4 && (msg->ipv4_mask_len != 24 || (msg->ipv4_subnet & 0xff)))
		world_fail(w, "CLC-6", "connection %u: subnet %08x/%u", conn->pair->number,
			   msg->ipv4_subnet, msg->ipv4_mask_len);
	check_identity(w, side->host, msg->peer_id, msg->gid, msg->mac);
	conn->proposal_sent = true;
}

/* ---- Accept and Confirm ---- */

/** Accept and Confirm alike: the QP, the RMB and the element exist and are the sender's. */
static struct block *check_credentials(struct observer *obs, struct side *side,
				       const struct smcr_clc_accept *msg, struct qp **ret_qp)
{
	struct world *w = obs->world;
	struct qp *qp = fabric_qp_find(w->fabric, msg->qpn);
	check_identity(w, side->host, msg->peer_id, msg->gid, msg->mac);
	if (!qp || qp->host != side->host || qp->state == QP_DESTROYED ||
	    (qp->state == QP_ERR && !w->set.failures) ||
	    memcmp(qp->device->info.gid, msg->gid, SMCR_GID_LEN) != 0) {
		world_fail(w, "RV-4", "%s: CLC names QP %06x, which is not its own",
			   side->host->name, msg->qpn);
		return NULL;
	}
	struct block *block = rmb_block(obs, qp, msg->rkey, msg->rmb_vaddr, "CLC");
	if (!block)
		return NULL;
	uint64_t size = smcr_bsize_bytes(msg->bsize);
	if (!msg->rmbe_index || msg->rmbe_index * size > block->len) {
		world_fail(w, "CLC-11", "%s: element %u of %llu bytes in an RMB of %zu",
			   side->host->name, msg->rmbe_index, (unsigned long long)size, block->len);
		return NULL;
	}
	*ret_qp = qp;
	return block;
}

static void add_token(struct observer *obs, struct obs_flow *flow, struct host *owner,
		      uint32_t token)
{
	struct world *w = obs->world;
	struct obs_flow *old;
	if (!token)
		world_fail(w, "CLC-12", "%s: alert token 0", owner->name);
	flow->key.host = (uint32_t)owner->index;
	flow->key.token = token;
	flow->token = token;
	HASH_FIND(hh, obs->tokens, &flow->key, sizeof(flow->key), old);
	if (old) {
		world_fail(w, "CLC-12", "%s: alert token %08x given twice", owner->name, token);
		return;
	}
	HASH_ADD(hh, obs->tokens, key, sizeof(flow->key), flow);
}

/** The RMB that CLC names is the group's and was announced on that link (RS-4). */
static struct obs_rmb *known_rmb(struct obs_group *group, int owner, struct block *block,
				 struct obs_link *link, uint32_t rkey)
{
	struct world *w = group->obs->world;
	struct obs_rmb *rmb = block->rmb;
	if (!rmb || rmb->group != group || rmb->owner != owner) {
		world_fail(w, rmb ? "PLG-3" : "RKEY-1",
			   "group %u: CLC of the %s names an RMB that %s", group->number,
			   side_text(owner),
			   rmb ? "belongs to another group" : "was not announced");
		return NULL;
	}
	struct obs_token *token = rmb_token(rmb, link);
	if (!rmb->announced || !token || token->rkey != rkey)
		world_fail(w, "RKEY-1",
			   "group %u: CLC of the %s names an RMB not announced on link %u",
			   group->number, side_text(owner), link->number);
	if (rmb->deleted)
		world_fail(w, "RKEY-16", "group %u: CLC of the %s names a withdrawn RMB",
			   group->number, side_text(owner));
	return rmb;
}

/** Does a first contact between these hosts take longer than connections wait for it, or did it
 * until it failed? Then further first contacts begin beside it (A68). */
static bool one_is_slow(const struct observer *obs, const struct obs_group *fresh)
{
	const struct obs_group *group;
	DL_FOREACH (obs->groups, group)
		if (group->host[0] == fresh->host[0] && group->host[1] == fresh->host[1] &&
		    !group->first->pair->side[SERVER].established &&
		    obs->world->clock.now - group->began >= 2 * SEC)
			return true;
	return false;
}

static void check_single_group(struct observer *obs, struct obs_group *fresh)
{
	struct obs_group *group;
	struct obs_link *link;
	bool slow = one_is_slow(obs, fresh);
	DL_FOREACH (obs->groups, group) {
		if (group->host[0] == fresh->host[1] && group->host[1] == fresh->host[0])
			obs_see(obs, SEEN_REVERSED);
		if (group == fresh || group->ended || group->host[0] != fresh->host[0] ||
		    group->host[1] != fresh->host[1] || group->version != fresh->version ||
		    version_may_be_full(group))
			continue;
		DL_FOREACH (group->links, link) {
			if (!link->gone[CLIENT] && !link->gone[SERVER] && !group->shaky && !slow)
				world_fail(obs->world, "RV-15",
					   "group %u: first contact although group %u is usable",
					   fresh->number, group->number);
		}
	}
}

static struct obs_group *new_group(struct observer *obs, struct obs_conn *conn, struct qp *qp,
				   const struct smcr_clc_accept *msg)
{
	struct obs_group *group = sim_zalloc(sizeof(*group));
	struct obs_link *link = sim_zalloc(sizeof(*link));
	group->obs = obs;
	group->number = ++obs->next_group;
	group->host[CLIENT] = conn->pair->side[CLIENT].host;
	group->host[SERVER] = conn->pair->side[SERVER].host;
	group->first = conn;
	group->began = obs->world->clock.now;
	group->version = msg->version;
	group->agreed_links = msg->fce.release ? msg->fce.max_links : 2;
	group->agreed_conns = msg->fce.release ? msg->fce.max_conns : 0;
	if (group_is_v2(group))
		group->dialect = SMCR_DIALECT_DEPLOYED;
	DL_APPEND(obs->groups, group);
	link->group = group;
	link->first = true;
	link->qp[SERVER] = qp;
	qp->link = link;
	DL_APPEND(group->links, link);
	obs_see(obs, SEEN_GROUP);
	conn->group = group;
	check_single_group(obs, group);
	return group;
}

static void accept_sent(struct observer *obs, struct obs_conn *conn, struct side *side,
			const struct smcr_clc_accept *msg)
{
	struct world *w = obs->world;
	struct qp *qp = NULL;
	struct obs_rmb *rmb;
	if (side->index != SERVER || !conn->proposal_seen || conn->accept_sent ||
	    conn->decline_sent[SERVER] || conn->decline_seen[SERVER])
		world_fail(w, "CLC-16", "connection %u: Accept out of turn", conn->pair->number);
	struct block *block = check_credentials(obs, side, msg, &qp);
	if (!block)
		return;
	version_accept_sent(w, conn, side, msg);
	if (msg->first_contact) {
		if (qp->link)
			world_fail(w, "RV-4", "connection %u: first contact on a QP in use",
				   conn->pair->number);
		obs_see(obs, SEEN_FIRST_CONTACT);
		rmb = rmb_new(new_group(obs, conn, qp, msg), SERVER, block);
		if (rmb)
			rmb_set_token(rmb, qp->link, msg->rkey, msg->rmb_vaddr, false);
	} else {
		obs_see(obs, SEEN_SUBSEQUENT);
		if (!qp->link || !qp->link->active[SERVER] || link_side(qp->link, qp) != SERVER ||
		    qp->link->group->host[CLIENT] != conn->pair->side[CLIENT].host) {
			world_fail(w, "RS-2",
				   "connection %u: Accept names no active link to this client",
				   conn->pair->number);
			return;
		}
		conn->group = qp->link->group;
		rmb = known_rmb(conn->group, SERVER, block, qp->link, msg->rkey);
	}
	version_joined(conn, msg);
	conn->accept = *msg;
	conn->accept_sent = true;
	add_token(obs, &conn->flow[CLIENT], side->host, msg->alert_token);
	if (rmb)
		rmb_claim(rmb, msg->rmbe_index, smcr_bsize_bytes(msg->bsize), &conn->flow[CLIENT]);
}

static void confirm_sent(struct observer *obs, struct obs_conn *conn, struct side *side,
			 const struct smcr_clc_accept *msg)
{
	struct world *w = obs->world;
	struct qp *qp = NULL;
	struct obs_rmb *rmb;
	if (side->index != CLIENT || !conn->accept_seen || conn->confirm_sent ||
	    conn->decline_sent[CLIENT])
		world_fail(w, "CLC-16", "connection %u: Confirm out of turn", conn->pair->number);
	struct block *block = check_credentials(obs, side, msg, &qp);
	if (!block || !conn->group)
		return;
	version_confirm_sent(w, conn, side, msg);
	struct obs_link *link = conn->group->links;
	if (conn->accept.first_contact) {
		if (qp->link)
			world_fail(w, "RV-6", "connection %u: first contact on a QP in use",
				   conn->pair->number);
		if (qp->state < QP_RTR)
			world_fail(w, "RV-6", "connection %u: Confirm before the QP is in RTR",
				   conn->pair->number);
		link->qp[CLIENT] = qp;
		qp->link = link;
		rmb = rmb_new(conn->group, CLIENT, block);
		if (rmb)
			rmb_set_token(rmb, link, msg->rkey, msg->rmb_vaddr, false);
	} else {
		link = qp->link;
		if (!link || link->group != conn->group || !link->active[CLIENT] ||
		    link_side(link, qp) != CLIENT) {
			world_fail(w, "RS-5",
				   "connection %u: Confirm names no active link of the group",
				   conn->pair->number);
			return;
		}
		if (conn->group->dialect == SMCR_DIALECT_DEPLOYED &&
		    link->qp[SERVER]->qpn != conn->accept.qpn)
			world_fail(w, "DIALECT",
				   "connection %u: deployed dialect, client did not adopt the link",
				   conn->pair->number);
		rmb = known_rmb(conn->group, CLIENT, block, link, msg->rkey);
	}
	conn->confirm = *msg;
	conn->confirm_sent = true;
	add_token(obs, &conn->flow[SERVER], side->host, msg->alert_token);
	if (rmb)
		rmb_claim(rmb, msg->rmbe_index, smcr_bsize_bytes(msg->bsize), &conn->flow[SERVER]);
}

/* ---- Decline ---- */

/** ERR-1, 3..8: a side may decline in place of its own message that is due, and in first contact up
 *  to its own point of no return. */
static bool may_decline(const struct obs_conn *conn, int side)
{
	bool fc = conn->accept_sent && conn->accept.first_contact;
	if (conn->decline_sent[side] || conn->decline_seen[side])
		return false;
	if (side == CLIENT) {
		if (!conn->proposal_sent)
			return true;
		if (!conn->confirm_sent)
			return conn->accept_seen;
		return fc && !conn->pnr[CLIENT];
	}
	if (!conn->accept_sent)
		return conn->proposal_seen;
	return fc && conn->confirm_seen && !conn->pnr[SERVER];
}

static void decline_sent(struct observer *obs, struct obs_conn *conn, struct side *side,
			 const struct smcr_clc_decline *msg)
{
	struct world *w = obs->world;
	if (!may_decline(conn, side->index))
		world_fail(w, "ERR-3", "connection %u: the %s declines when it must not",
			   conn->pair->number, side_text(side->index));
	check_identity(w, side->host, msg->peer_id, NULL, NULL);
	version_decline_sent(w, conn, side, msg);
	conn->decline_sent[side->index] = true;
	obs_see(obs, conn->confirm_sent ? SEEN_LATE_DECLINE : SEEN_DECLINE);
	if (conn->group && conn->group->first == conn)
		conn->group->ended = true;
	if (msg->out_of_sync && !w->set.failures)
		world_fail(w, "ERR-9", "connection %u: out of sync", conn->pair->number);
}

/* ---- taps ---- */

void obs_clc_send(struct observer *obs, struct side *side, const uint8_t *data, size_t len)
{
	struct world *w = obs->world;
	struct smcr_clc_msg msg;
	uint8_t again[SMCR_CLC_MAX_LEN];
	if (obs_blind(obs))
		return;
	struct obs_conn *conn = obs_conn_of(obs, side->pair);
	world_log(w, side->host->name, "connection %u: > %s", side->pair->number,
		  describe_clc(data, len));
	world_note(w, 5, side->pair->number, data[4]);
	if (smcr_clc_decode(data, len, &msg) != 0 || msg.length != len) {
		world_fail(w, "CLC-1", "connection %u: malformed CLC message", side->pair->number);
		return;
	}
	if (smcr_clc_encode(&msg, again, sizeof(again)) != (int)len ||
	    memcmp(again, data, len) != 0)
		world_fail(w, "CLC-3", "connection %u: reserved fields of CLC are not 0",
			   side->pair->number);
	switch (msg.type) {
	case SMCR_CLC_PROPOSAL: proposal_sent(obs, conn, side, &msg.proposal); break;
	case SMCR_CLC_ACCEPT: accept_sent(obs, conn, side, &msg.accept); break;
	case SMCR_CLC_CONFIRM: confirm_sent(obs, conn, side, &msg.accept); break;
	case SMCR_CLC_DECLINE: decline_sent(obs, conn, side, &msg.decline); break;
	}
}

static void told(struct obs_rmb *rmb, const struct obs_link *link)
{
	struct obs_token *token = rmb && link ? rmb_token(rmb, link) : NULL;
	if (token)
		token->told = true;
	if (rmb)
		rmb->announced = rmb->confirmed = true;
}

void obs_clc_recv(struct observer *obs, struct side *side, const uint8_t *data, size_t len)
{
	struct smcr_clc_msg msg;
	if (obs_blind(obs) || smcr_clc_decode(data, len, &msg) != 0)
		return;
	struct obs_conn *conn = obs_conn_of(obs, side->pair);
	bool fc = conn->group && conn->group->first == conn;
	world_log(obs->world, side->host->name, "connection %u: < %s", side->pair->number,
		  describe_clc(data, len));
	switch (msg.type) {
	case SMCR_CLC_PROPOSAL:
		conn->proposal_seen = true;
		conn->proposal = msg.proposal;
		conn->ueid_changes = side->host->ueid_changes;
		break;
	case SMCR_CLC_ACCEPT:
		conn->accept_seen = true;
		if (fc)
			told(conn->flow[CLIENT].rmb, conn->group->links);
		break;
	case SMCR_CLC_CONFIRM:
		conn->confirm_seen = true;
		if (fc)
			told(conn->flow[SERVER].rmb, conn->group->links);
		break;
	case SMCR_CLC_DECLINE: conn->decline_seen[side->index] = true; break;
	}
}

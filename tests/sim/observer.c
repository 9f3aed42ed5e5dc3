/* SPDX-License-Identifier: MIT */
#include "tests/sim/observer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/obs.h"

struct observer *obs_new(struct world *w)
{
	struct observer *obs = sim_zalloc(sizeof(*obs));
	obs->world = w;
	return obs;
}

void obs_free(struct observer *obs)
{
	struct obs_group *group, *next_group;
	struct obs_conn *conn, *next_conn;
	HASH_CLEAR(hh, obs->tokens);
	DL_FOREACH_SAFE (obs->groups, group, next_group) {
		struct obs_link *link, *next_link;
		struct obs_rmb *rmb, *next_rmb;
		DL_FOREACH_SAFE (group->links, link, next_link) {
			free(link);
		}
		DL_FOREACH_SAFE (group->rmbs, rmb, next_rmb) {
			free(rmb);
		}
		free(group);
	}
	DL_FOREACH_SAFE (obs->conns, conn, next_conn) {
		free(conn);
	}
	free(obs);
}

const struct witnesses *obs_seen(const struct observer *obs)
{
	return &obs->seen;
}

void obs_see(struct observer *obs, enum witness what)
{
	obs->seen.count[what]++;
}

/* ---- RDMA ---- */

void obs_post(struct observer *obs, struct qp *qp, struct request *req)
{
	struct obs_link *link = qp->link;
	if (obs_blind(obs))
		return;
	if (req->wr.is_write) {
		write_posted(obs, qp, req);
		return;
	}
	if (req->payload[0] == SMCR_CDC_TYPE && req->wr.length != SIM_MESSAGE_LEN)
		world_fail(obs->world, "LLC-1", "CDC of %u bytes", req->wr.length);
	else if (req->payload[0] == SMCR_CDC_TYPE)
		cdc_posted(obs, qp, req);
	else if (!link || !link->qp[CLIENT] || !link->qp[SERVER])
		world_fail(obs->world, "RV-8", "LLC message on QP %06x, which is no link yet",
			   qp->qpn);
	else
		llc_posted(obs, link, link_side(link, qp), request_bytes(req), req->wr.length);
}

void obs_recv(struct observer *obs, struct qp *qp, const uint8_t *data, size_t len)
{
	struct obs_link *link = qp->link;
	if (obs_blind(obs) || !link)
		return;
	if (data[0] == SMCR_CDC_TYPE)
		cdc_delivered(obs, qp, data, len);
	else
		llc_delivered(obs, link, link_side(link, qp), data, len);
}

void obs_settled(struct observer *obs, struct qp *qp, struct request *req, bool ok)
{
	struct obs_link *link = qp->link;
	if (obs_blind(obs) || !link)
		return;
	if (!req->wr.is_write && req->wr.length > SMCR_LLC_LEN)
		link->group->longs[link_side(link, qp)]--;
	if (req->flow)
		flow_settled(req, ok);
	else if (req->proof)
		proof_settled(obs, qp, req, ok);
	else if (ok && !req->wr.is_write)
		llc_done(obs, link, link_side(link, qp), request_bytes(req), req->wr.length);
}

/** From here on either side may give exchanges up, until settle() finds the group quiet again. */
static void disturb(struct obs_group *group)
{
	group->shaky = group->changed = true;
	group->busy_at = group->obs->world->clock.now;
}

void obs_qp_error(struct observer *obs, struct qp *qp)
{
	struct obs_link *link = qp->link;
	if (!link || !obs->world->set.failures || obs->world->failed)
		return;
	disturb(link->group);
	if (obs->world->set.no_reset && link == link->group->anchor && !link->doomed &&
	    !link->group->ended)
		world_fail(obs->world, "FO-1", "group %u: link %u is given up, which was sound",
			   link->group->number, link->number);
}

void obs_disturbed(struct observer *obs, struct obs_link *link)
{
	(void)obs;
	disturb(link->group);
}

void obs_frozen(struct observer *obs, const struct host *host)
{
	struct obs_group *group;
	DL_FOREACH (obs->groups, group) {
		if (group->host[CLIENT] != host && group->host[SERVER] != host)
			continue;
		disturb(group);
		group->busy_at = host_frozen(host);
	}
}

void obs_qp_destroy(struct observer *obs, struct qp *qp)
{
	struct obs_link *link = qp->link;
	if (!link || obs_blind(obs))
		return;
	struct obs_group *group = link->group;
	int side = link_side(link, qp);
	/* The sides have not agreed on the link's end: this side has given the link up. */
	if (!link->gone[side] && !group->ended && obs->world->set.failures)
		disturb(group);
	link->gone[side] = true;
	requests_void(link, side);
	if (link->gone[!side] || !link->qp[!side])
		rmb_drop_tokens(group, link);
	group->dirty = true;
}

/* ---- connections ---- */

void obs_established(struct observer *obs, struct side *side)
{
	struct world *w = obs->world;
	const struct obs_conn *conn = obs_conn_of(obs, side->pair);
	struct obs_group *group = conn->group;
	int s = side->index;
	if (obs_blind(obs))
		return;
	if (!group || !(s == CLIENT ? conn->confirm_sent : conn->confirm_seen)) {
		world_fail(w, s == CLIENT ? "RS-8" : "RS-9", "connection %u: open before Confirm",
			   side->pair->number);
		return;
	}
	if (conn->decline_sent[0] || conn->decline_sent[1])
		world_fail(w, "ERR-2", "connection %u: open after a Decline", side->pair->number);
	/* Version 2: a client waits two seconds for ADD LINK, then opens with one link. */
	bool one_link =
		group_is_v2(group) && (group->agreed_links == 1 ||
				       (s == CLIENT && w->clock.now >= group->proven_at + 2 * SEC));
	group->gate[s] |= one_link;
	if (!group->gate[s])
		world_fail(w, "RV-12", "connection %u: open before the gate", side->pair->number);
	proof_check(obs, conn, s);
	if (!group->add_attempted && !one_link)
		world_fail(w, "ADDL-2", "group %u: no second link was tried", group->number);
}

void obs_side_gone(struct observer *obs, struct side *side)
{
	struct obs_conn *conn = obs_conn_of(obs, side->pair);
	if (obs_blind(obs))
		return;
	conn->gone[side->index] = true;
	/* A group does not outlive a first contact that fails (RV-14). */
	if (conn->group && conn->group->first == conn && !side->established)
		conn->group->ended = true;
}

bool obs_must_survive(const struct observer *obs, const struct pair *pair)
{
	return obs->world->set.no_reset && pair->clean && pair->obs && pair->obs->group &&
	       !pair->obs->group->exposed;
}

void obs_host_died(struct observer *obs, struct host *host)
{
	struct obs_group *group;
	DL_FOREACH (obs->groups, group) {
		if (group->host[CLIENT] == host || group->host[SERVER] == host)
			group->ended = true;
	}
}

/* ---- steps ---- */

void obs_step(struct observer *obs, struct host *host)
{
	struct obs_group *group;
	DL_FOREACH (obs->groups, group) {
		if (!group->dirty || (group->host[CLIENT] != host && group->host[SERVER] != host))
			continue;
		group->dirty = false;
		rmb_check_complete(group, CLIENT);
		rmb_check_complete(group, SERVER);
	}
}

bool obs_quiet(const struct observer *obs, char *ret_text, size_t len)
{
	const struct obs_group *group;
	DL_FOREACH (obs->groups, group) {
		if (group->ended || group->shaky)
			continue;
		for (size_t i = 0; i < OBS_MAX_REQUESTS; i++) {
			const struct obs_request *request = &group->requests[i];
			if (!request->used)
				continue;
			snprintf(ret_text, len, "group %u: %s of the %s was not answered",
				 group->number, smcr_llc_type_name(request->msg.type),
				 request->from == SERVER ? "server" : "client");
			return false;
		}
		if (group->known[CLIENT] || group->known[SERVER]) {
			snprintf(ret_text, len, "group %u: exchange %x/%x never ended",
				 group->number, group->known[CLIENT], group->known[SERVER]);
			return false;
		}
	}
	return true;
}

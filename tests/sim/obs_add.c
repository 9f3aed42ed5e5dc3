/* SPDX-License-Identifier: MIT */
/* Links of a group: CONFIRM LINK, ADD LINK, DELETE LINK (RV, LG, ADDL, DELL). */
#include <string.h>

#include "tests/sim/harm.h"
#include "tests/sim/obs.h"

static void check_qp(struct obs_group *group, const struct qp *qp, const char *what,
		     const uint8_t *mac, const uint8_t *gid, uint32_t qpn)
{
	if (!qp || qp->qpn != qpn || memcmp(qp->device->info.mac, mac, SMCR_MAC_LEN) != 0 ||
	    memcmp(qp->device->info.gid, gid, SMCR_GID_LEN) != 0)
		world_fail(group->obs->world, "LLC-7",
			   "group %u: %s does not tell the sender's MAC, GID and QP number",
			   group->number, what);
}

static bool live(const struct obs_link *link)
{
	return link->qp[CLIENT] && link->qp[SERVER] && !link->gone[CLIENT] && !link->gone[SERVER] &&
	       link->qp[CLIENT]->state < QP_ERR && link->qp[SERVER]->state < QP_ERR;
}

/** LG-11: not 0, not in use, not used again before all were. */
static void take_number(struct obs_group *group, uint8_t number)
{
	uint8_t *byte = &group->used_numbers[number / 8];
	uint8_t bit = (uint8_t)(1u << number % 8);
	unsigned int used = 0;
	for (size_t i = 0; i < sizeof(group->used_numbers); i++)
		used += (unsigned int)__builtin_popcount(group->used_numbers[i]);
	if (used == 255) {
		memset(group->used_numbers, 0, sizeof(group->used_numbers));
		struct obs_link *link;
		DL_FOREACH (group->links, link) {
			if (link->number && live(link))
				group->used_numbers[link->number / 8] |=
					(uint8_t)(1u << link->number % 8);
		}
	}
	if (!number || *byte & bit)
		world_fail(group->obs->world, "LG-11", "group %u: link number %u %s", group->number,
			   number, number ? "is used again" : "is not allowed");
	*byte |= bit;
}

/* ---- CONFIRM LINK ---- */

static void open_gate(struct obs_group *group, int side)
{
	group->gate[side] = true;
}

static void fix_dialect(struct obs_group *group)
{
	const enum smcr_dialect_policy force[2] = { group->host[CLIENT]->config.dialect,
						    group->host[SERVER]->config.dialect };
	bool both = group->confirm_flags[CLIENT] & 3 && group->confirm_flags[SERVER] & 3;
	for (int s = 0; s < 2; s++) {
		bool sends = group->confirm_flags[s] & 3;
		if (force[s] == SMCR_DIALECT_FORCE_RFC ? sends : !sends)
			world_fail(group->obs->world, "DIALECT",
				   "group %u: CONFIRM LINK flags %x of the %s against its setting",
				   group->number, group->confirm_flags[s], side_text(s));
	}
	group->dialect = both ? SMCR_DIALECT_DEPLOYED : SMCR_DIALECT_RFC;
	group->dialect_known = true;
}

static void check_user_id(struct obs_link *link, int side, uint32_t uid)
{
	struct observer *obs = link->group->obs;
	struct obs_group *group;
	struct obs_link *other;
	link->uid[side] = uid;
	DL_FOREACH (obs->groups, group) {
		DL_FOREACH (group->links, other) {
			for (int s = 0; s < 2; s++) {
				if (other != link && other->uid[s] == uid && live(other) &&
				    group->host[s] == link->group->host[side] && group->number)
					world_fail(obs->world, "LG-12",
						   "%s gives link user ID %08x twice",
						   group->host[s]->name, uid);
			}
		}
	}
}

void confirm_link_posted(struct obs_link *link, int from, const struct smcr_llc_msg *msg,
			 const struct obs_request *request)
{
	struct obs_group *group = link->group;
	const struct smcr_llc_confirm_link *m = &msg->confirm_link;
	check_qp(group, link->qp[from], "CONFIRM LINK", m->mac, m->gid, m->qpn);
	check_user_id(link, from, m->link_user_id);
	group->confirm_flags[from] = m->flags;
	if (group_is_v2(group)) {
		group->max_links[from] = m->max_links;
		if (m->max_links != group->agreed_links || m->max_conns != group->agreed_conns)
			world_fail(group->obs->world, "LG-7", "group %u: limits %u/%u of the %s",
				   group->number, m->max_links, m->max_conns, side_text(from));
	} else if (link->first) {
		group->max_links[from] = m->max_links;
		if (m->max_links < 2 || m->max_links > SMCR_MAX_LINKS ||
		    (msg->reply && m->max_links > group->max_links[SERVER]))
			world_fail(group->obs->world, "LG-7", "group %u: max links %u of the %s",
				   group->number, m->max_links, side_text(from));
	}
	if (!msg->reply) {
		if (link->first) {
			link->number = m->link_number;
			take_number(group, m->link_number);
		} else {
			cont_check_complete(group);
		}
		if (m->link_number != link->number)
			world_fail(group->obs->world, "LLC-6",
				   "group %u: CONFIRM LINK for link %u on link %u", group->number,
				   m->link_number, link->number);
		return;
	}
	if (request && request->msg.confirm_link.link_number != m->link_number)
		world_fail(group->obs->world, "RV-9", "group %u: link number is not echoed",
			   group->number);
	if (link->first && !group->dialect_known)
		fix_dialect(group);
	link->active[CLIENT] = true;
	if (link->first)
		group->proven_at = group->obs->world->clock.now;
	if (link->first && group->agreed_links == 1 && group_is_v2(group))
		group->first->pnr[CLIENT] = true;
	if (!link->first) {
		exchange_end(group, CLIENT, X_ADD);
		open_gate(group, CLIENT);
	}
}

void confirm_link_delivered(struct obs_link *link, int to, const struct smcr_llc_msg *msg)
{
	struct obs_group *group = link->group;
	if (to == CLIENT) {
		if (!link->first)
			group->first->pnr[CLIENT] = true;
		return;
	}
	if (!msg->reply)
		return;
	link->active[SERVER] = true;
	if (group->gate[SERVER]) /* after first contact the path is not tried */
		server_goes_on(link);
}

void server_goes_on(struct obs_link *link)
{
	struct obs_group *group = link->group;
	if (link->first && group_is_v2(group) && link->qp[SERVER]->state < QP_ERR)
		group->first->pnr[SERVER] = true;
	if (!link->first) {
		exchange_end(group, SERVER, X_ADD);
		open_gate(group, SERVER);
		group->adding = NULL;
		obs_see(group->obs, SEEN_LINK_ADDED);
	}
}

/* ---- ADD LINK ---- */

/** LG-3, LG-4, LG-8: no two links between the same RNICs, and all but one share no RNIC. */
static void check_topology(struct obs_group *group)
{
	struct obs_link *a, *b, *links[SMCR_MAX_LINKS_TOTAL + 8];
	size_t n = 0;
	struct world *w = group->obs->world;
	DL_FOREACH (group->links, a) {
		if (live(a) && n < sizeof(links) / sizeof(links[0]))
			links[n++] = a;
	}
	bool symmetric = false, with_one = false;
	for (size_t drop = 0; drop <= n; drop++) {
		bool shared = false;
		for (size_t i = 0; i < n; i++) {
			for (size_t k = 0; k < i; k++) {
				a = links[i];
				b = links[k];
				bool s = a->qp[SERVER]->device == b->qp[SERVER]->device;
				bool c = a->qp[CLIENT]->device == b->qp[CLIENT]->device;
				if (s && c)
					world_fail(w, "LG-3",
						   "group %u: links %u and %u are parallel",
						   group->number, a->number, b->number);
				shared |= (s || c) && i != drop && k != drop;
			}
		}
		symmetric |= !shared && drop == n;
		with_one |= !shared;
	}
	if (!symmetric)
		obs_see(group->obs, SEEN_ASYMMETRIC);
	if (n > 2)
		obs_see(group->obs, SEEN_MANY_LINKS);
	if (!with_one && !group->shaky)
		world_fail(w, "LG-4", "group %u has more than one asymmetric link", group->number);
	uint8_t limit = group->max_links[CLIENT] < group->max_links[SERVER]
				? group->max_links[CLIENT]
				: group->max_links[SERVER];
	if (n - (symmetric ? 0 : 1) > limit && !group->shaky)
		world_fail(w, "LG-8", "group %u: %zu links, agreed were %u", group->number, n,
			   limit);
}

static bool device_used(struct obs_group *group, const struct device *device,
			const struct obs_link *except)
{
	struct obs_link *link;
	DL_FOREACH (group->links, link) {
		for (int s = 0; s < 2; s++) {
			if (link != except && link->qp[s] && link->qp[s]->device == device &&
			    !link->gone[s])
				return true;
		}
	}
	return false;
}

static bool client_has_spare(struct obs_group *group)
{
	struct fabric *fabric = group->obs->world->fabric;
	const struct device *server = group->adding->qp[SERVER]->device;
	for (size_t i = 0; i < fabric->num_devices; i++) {
		struct device *device = fabric->devices[i];
		if (device->host == group->host[CLIENT] && device->present && device->port_up &&
		    device->info.gid[13] == server->info.gid[13] &&
		    !device_used(group, device, NULL))
			return true;
	}
	return false;
}

/** ADDL-3: when may the client refuse? */
static bool may_reject(struct obs_group *group)
{
	const struct settings *set = &group->obs->world->set;
	bool server_used = device_used(group, group->adding->qp[SERVER]->device, group->adding);
	bool spare = client_has_spare(group);
	struct obs_link *link;
	size_t links = 0;
	DL_FOREACH (group->links, link) {
		links += live(link);
	}
	/* One of two links may be asymmetric already. */
	bool asymmetric = server_used == spare;
	if (group->ended)
		return true; /* the server has freed its links already */
	return (server_used && !spare) || (asymmetric && links > 1) || set->op_fail_permille ||
	       set->failures || set->short_memory;
}

/** Version 2: does the server, which cannot add a link, send ADD LINK only to have it rejected? */
static bool is_excuse(const struct obs_group *group, const struct smcr_llc_add_link *m)
{
	return group_is_v2(group) && !m->mtu && !m->qpn;
}

static void add_request_posted(struct obs_link *link, const struct smcr_llc_add_link *m)
{
	struct obs_group *group = link->group;
	struct world *w = group->obs->world;
	struct qp *qp = fabric_qp_find(w->fabric, m->qpn);
	if (is_excuse(group, m)) {
		group->add_attempted = true;
		obs_see(group->obs, SEEN_EXCUSE);
		return;
	}
	group->changed |= group->add_attempted;
	exchange_start(group, SERVER, X_ADD);
	take_number(group, m->link_number);
	group->add_attempted = true;
	if (!qp || qp->host != group->host[SERVER] || qp->link) {
		world_fail(w, "ADDL-1", "group %u: ADD LINK names QP %06x", group->number, m->qpn);
		return;
	}
	struct obs_link *fresh = sim_zalloc(sizeof(*fresh));
	fresh->group = group;
	fresh->number = m->link_number;
	fresh->qp[SERVER] = qp;
	qp->link = fresh;
	DL_APPEND(group->links, fresh);
	group->adding = fresh;
	group->carrier = link;
	group->cont_left[CLIENT] = group->cont_left[SERVER] = -1;
	group->cont_told[CLIENT] = group->cont_told[SERVER] = 0;
	group->cont_turn_client = false;
	check_qp(group, qp, "ADD LINK", m->mac, m->gid, m->qpn);
}

static void add_reply_posted(struct obs_link *link, const struct smcr_llc_add_link *m,
			     const struct obs_request *request)
{
	struct obs_group *group = link->group;
	struct world *w = group->obs->world;
	if (is_excuse(group, m)) {
		if (!m->reject)
			world_fail(w, "ADDL-5", "group %u: ADD LINK of no link accepted",
				   group->number);
		open_gate(group, CLIENT);
		return;
	}
	if (!group->adding || !request) {
		if (!group->shaky)
			world_fail(w, "LLC-5", "group %u: ADD LINK reply out of turn",
				   group->number);
		return;
	}
	if (m->link_number != request->msg.add_link.link_number)
		world_fail(w, "ADDL-4", "group %u: link number is not echoed", group->number);
	if (m->reject) {
		uint8_t reason = group_is_v2(group) ? 0 : SMCR_LLC_REJECT_NO_ALT_PATH;
		if (m->reject_reason != reason || !may_reject(group))
			world_fail(w, "ADDL-5", "group %u: ADD LINK rejected for reason %u",
				   group->number, m->reject_reason);
		exchange_end(group, CLIENT, X_ADD);
		open_gate(group, CLIENT);
		group->first->pnr[CLIENT] = true;
		obs_see(group->obs, SEEN_LINK_REJECTED);
		return;
	}
	struct qp *qp = fabric_qp_find(w->fabric, m->qpn);
	if (!qp || qp->host != group->host[CLIENT] || qp->link) {
		world_fail(w, "ADDL-4", "group %u: ADD LINK reply names QP %06x", group->number,
			   m->qpn);
		return;
	}
	group->adding->qp[CLIENT] = qp;
	qp->link = group->adding;
	check_qp(group, qp, "ADD LINK reply", m->mac, m->gid, m->qpn);
	check_topology(group);
}

/** ADDL-15: the MAC and the GID of an own RNIC on the LAN, and nothing else. */
static void notice_posted(struct obs_link *link, const struct smcr_llc_add_link *m)
{
	struct obs_group *group = link->group;
	struct world *w = group->obs->world;
	struct smcr_llc_add_link rest = *m;
	const struct device *found = NULL;
	for (size_t i = 0; i < w->fabric->num_devices; i++) {
		const struct device *device = w->fabric->devices[i];
		if (device->host == group->host[CLIENT] &&
		    memcmp(device->info.gid, m->gid, SMCR_GID_LEN) == 0 &&
		    memcmp(device->info.mac, m->mac, SMCR_MAC_LEN) == 0)
			found = device;
	}
	memset(rest.gid, 0, sizeof(rest.gid));
	memset(rest.mac, 0, sizeof(rest.mac));
	const struct smcr_llc_add_link zero = { 0 };
	if (!found || found->info.gid[13] != link->qp[CLIENT]->device->info.gid[13] ||
	    memcmp(&rest, &zero, sizeof(rest)) != 0)
		world_fail(w, "ADDL-15", "group %u: the client's ADD LINK tells no RNIC of it",
			   group->number);
	obs_see(group->obs, SEEN_NOTICE);
}

void request_posted(struct obs_link *link, int from, const struct smcr_llc_msg *msg)
{
	struct obs_group *group = link->group;
	struct world *w = group->obs->world;
	const struct smcr_llc_request_add_link *m = &msg->request_add_link;
	if (from == SERVER) {
		if (m->num_gids || m->reject || !group->asked)
			world_fail(w, "ADDL-16", "group %u: REQUEST ADD LINK refused out of turn",
				   group->number);
		else
			group->asked--;
		obs_see(group->obs, SEEN_ADD_REFUSED);
		return;
	}
	const struct device *own = link->qp[CLIENT]->device, *found = NULL;
	for (size_t i = 0; i < w->fabric->num_devices; i++) {
		const struct device *device = w->fabric->devices[i];
		if (device->host == group->host[CLIENT] && device != own &&
		    memcmp(device->info.gid, m->gid[1], SMCR_GID_LEN) == 0)
			found = device;
	}
	if (m->num_gids != 2 || memcmp(m->gid[0], own->info.gid, SMCR_GID_LEN) != 0 || !found ||
	    found->info.gid[13] != own->info.gid[13])
		world_fail(w, "ADDL-15", "group %u: REQUEST ADD LINK tells no RNIC of the client",
			   group->number);
	group->asked++;
	obs_see(group->obs, SEEN_NOTICE);
}

/** Check what version 2 adds to ADD LINK. */
static void extension_posted(struct obs_link *link, int from, const struct smcr_llc_add_link *m,
			     const struct smcr_llc_rtokens *rtokens)
{
	struct obs_group *group = link->group;
	if (!group_is_v2(group) || m->reject || is_excuse(group, m) || !group->adding ||
	    group->obs->world->failed)
		return;
	if (memcmp(m->target_gid, m->gid, SMCR_GID_LEN) != 0 || !m->direct)
		world_fail(group->obs->world, "ADDL-1", "group %u: ADD LINK with another GID",
			   group->number);
	rtokens_posted(link, from, rtokens);
}

void add_posted(struct obs_link *link, int from, const struct smcr_llc_msg *msg,
		const struct smcr_llc_rtokens *rtokens, const struct obs_request *request)
{
	if (msg->reply)
		add_reply_posted(link, &msg->add_link, request);
	else if (from == SERVER)
		add_request_posted(link, &msg->add_link);
	else if (group_is_v2(link->group))
		world_fail(link->group->obs->world, "ADDL-15",
			   "group %u: the client's ADD LINK in version 2", link->group->number);
	else
		notice_posted(link, &msg->add_link);
	extension_posted(link, from, &msg->add_link, rtokens);
}

void add_delivered(struct obs_link *link, int to, const struct smcr_llc_msg *msg,
		   const struct smcr_llc_rtokens *rtokens)
{
	struct obs_group *group = link->group;
	if (is_excuse(group, &msg->add_link)) {
		if (to == SERVER)
			open_gate(group, SERVER);
		else if (link->qp[CLIENT]->state < QP_ERR)
			group->first->pnr[CLIENT] = true;
		return;
	}
	rtokens_delivered(link, to, rtokens);
	if (to == CLIENT) {
		exchange_learnt(group, CLIENT, X_ADD);
		if (group_is_v2(group) && link->qp[CLIENT]->state < QP_ERR)
			group->first->pnr[CLIENT] = true;
		return;
	}
	if (!msg->reply)
		return;
	if (link->qp[SERVER]->state < QP_ERR)
		group->first->pnr[SERVER] = true;
	if (msg->add_link.reject) {
		exchange_end(group, SERVER, X_ADD);
		open_gate(group, SERVER);
		group->adding = NULL;
	}
}

/* ---- DELETE LINK ---- */

static bool conns_live(const struct obs_group *group, int side)
{
	const struct obs_conn *conn;
	DL_FOREACH (group->obs->conns, conn) {
		if (conn->group == group && !conn->gone[side])
			return true;
	}
	return false;
}

/** LG-5: an asymmetric link goes when a symmetric one is there. */
static void check_replaced(const struct obs_link *link)
{
	struct obs_group *group = link->group;
	struct obs_link *other;
	bool shared = false;
	size_t others = 0;
	DL_FOREACH (group->links, other) {
		if (other == link || !live(other) || !live(link))
			continue;
		others++;
		shared |= other->qp[SERVER]->device == link->qp[SERVER]->device ||
			  other->qp[CLIENT]->device == link->qp[CLIENT]->device;
	}
	if (!group->shaky && (!shared || others < 2))
		world_fail(group->obs->world, "LG-5",
			   "group %u: link %u is deleted as asymmetric with %zu others",
			   group->number, link->number, others);
}

static void link_deleted(struct obs_link *link, int side)
{
	struct obs_group *group = link->group;
	link->gone[side] = true;
	link->active[side] = false;
	exchange_end(group, side, X_DEL | X_ADD);
	open_gate(group, side);
	if (link->gone[!side])
		rmb_drop_tokens(group, link);
	if (group->adding == link && link->gone[!side])
		group->adding = NULL;
}

/** Has the client an RKEY exchange of its own under way on the link, as far as it knows? The reply
 * may be on its way. */
static bool client_has_rkey_exchange(const struct obs_link *link)
{
	const struct obs_group *group = link->group;
	return group->known[CLIENT] & X_RKEY_CLIENT && group->rkey_link[CLIENT] == link;
}

void delete_link_posted(struct obs_link *link, int from, const struct smcr_llc_msg *msg,
			const struct obs_request *request)
{
	struct obs_group *group = link->group;
	struct world *w = group->obs->world;
	const struct smcr_llc_delete_link *m = &msg->delete_link;
	if (m->all) {
		if (m->link_number)
			world_fail(w, "LLC-7", "group %u: link number with DELETE LINK of all",
				   group->number);
		if (conns_live(group, from) && !w->set.failures)
			world_fail(w, "LG-16", "group %u: the %s ends it with connections in it",
				   group->number, side_text(from));
		/* A client that asks for the group's end gives up its own exchanges. */
		group->shaky = true;
		if (from == SERVER) {
			group->ended = true;
			obs_see(group->obs, SEEN_GROUP_DELETED);
		}
		return;
	}
	struct obs_link *target = link_by_number(group, m->link_number);
	if (!target) {
		if (m->reason != SMCR_LLC_DEL_UNKNOWN_LINK)
			world_fail(w, "DELL-1", "group %u: DELETE LINK of unknown link %u",
				   group->number, m->link_number);
		return;
	}
	target->doomed |= !msg->reply;
	if (from == CLIENT && msg->reply && client_has_rkey_exchange(target))
		group->shaky = true; /* the client repeats that exchange on another link */
	if (w->set.no_reset && target == group->anchor)
		harm_anchor(group);
	if (!msg->reply)
		group->changed = true; /* connections leave the link at the client's request, too */
	if (from == SERVER && !msg->reply) {
		exchange_start(group, SERVER, X_DEL);
		if (m->reason == SMCR_LLC_DEL_ASYMMETRIC_NOT_NEEDED) {
			obs_see(group->obs, SEEN_ASYMMETRIC_GONE);
			check_replaced(target);
		}
	}
	if (from == SERVER && msg->reply && m->reason != SMCR_LLC_DEL_UNKNOWN_LINK)
		world_fail(w, "DELL-6", "group %u: the server replies to DELETE LINK of link %u",
			   group->number, m->link_number);
	if (from == CLIENT && !msg->reply)
		obs_see(group->obs, SEEN_DELETE_ASKED);
	if (from == CLIENT && msg->reply) {
		if (request && request->msg.delete_link.link_number != m->link_number)
			world_fail(w, "DELL-2", "group %u: link number is not echoed",
				   group->number);
		bool again = group_is_v2(group) && target->gone[CLIENT] &&
			     m->reason == SMCR_LLC_DEL_UNKNOWN_LINK;
		if (!again)
			link_deleted(target, CLIENT);
	}
}

void delete_link_delivered(struct obs_link *link, int to, const struct smcr_llc_msg *msg)
{
	struct obs_group *group = link->group;
	const struct smcr_llc_delete_link *m = &msg->delete_link;
	struct obs_link *target = link_by_number(group, m->link_number);
	if (m->all)
		group->ended = true;
	if (m->all || !target)
		return;
	if (to == CLIENT && !msg->reply)
		exchange_learnt(group, CLIENT, X_DEL);
	if (to == SERVER && msg->reply) {
		link_deleted(target, SERVER);
		obs_see(group->obs, SEEN_LINK_DELETED);
	}
}

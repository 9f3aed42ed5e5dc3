/* SPDX-License-Identifier: MIT */
/* Rendezvous as the server: Proposal, Accept, Confirm (RFC 7609 3.5.1, 3.5.2). */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <syslog.h>

#include "daemon/smcr/clc.h"
#include "daemon/smcr/llc_first_contact.h"
#include "proto/smcr/bytes.h"

/* ---- which LAN ---- */

static uint32_t mask_of(unsigned int bits)
{
	return bits ? UINT32_MAX << (32 - bits) : 0;
}

/** The IPv4 network that a Proposal names. The field is the network number, but some peers send the
 * mask there; then the client's address gives the network (A1). */
static uint32_t proposed_network(const struct smcr_clc_proposal *proposal,
				 const struct smcr_addr *client)
{
	uint32_t mask = mask_of(proposal->ipv4_mask_len);
	if (proposal->ipv4_subnet == mask)
		return get_be32(client->ip) & mask;
	return proposal->ipv4_subnet & mask;
}

bool smcr_clc_names_prefix(const struct smcr_clc_proposal *proposal, const struct smcr_addr *client,
			   const struct smcr_prefix *prefix)
{
	if (prefix->family == AF_INET)
		return client->family == AF_INET && proposal->num_prefixes == 0 &&
		       prefix->prefix_len == proposal->ipv4_mask_len &&
		       (get_be32(prefix->ip) & mask_of(prefix->prefix_len)) ==
			       proposed_network(proposal, client);
	for (unsigned int i = 0; i < proposal->num_prefixes; i++)
		if (proposal->prefixes[i].len == prefix->prefix_len &&
		    smcr_prefix_match(proposal->prefixes[i].addr, prefix->ip, prefix->prefix_len))
			return true;
	return false;
}

/** The prefix of the device that the Proposal names, or NULL. */
static const struct smcr_prefix *common_prefix(const struct smcr_conn *conn,
					       const struct smcr_device *device)
{
	for (size_t i = 0; i < device->info.num_prefixes; i++)
		if (smcr_clc_names_prefix(&conn->rv.proposal, &conn->params.peer,
					  &device->info.prefixes[i]))
			return &device->info.prefixes[i];
	return NULL;
}

/** Version 1: an RNIC on the common LAN (SEC-2), rather the one with the TCP connection's address
 * (RV-3, RV-4). */
static struct smcr_device *choose_device(const struct smcr_conn *conn,
					 struct smcr_prefix *ret_prefix, bool *ret_drained)
{
	struct smcr_device *device, *best = NULL;
	DL_FOREACH (conn->engine->devices, device) {
		const struct smcr_prefix *prefix = common_prefix(conn, device);
		if (!device->info.active || device->info.vlan != conn->params.vlan || !prefix)
			continue;
		*ret_drained |= device->drained;
		if (device->drained)
			continue;
		bool own = smcr_device_owns_address(device, &conn->params.local);
		if (best && !own)
			continue;
		best = device;
		*ret_prefix = *prefix;
		if (own)
			break;
	}
	return best;
}

/* ---- which group ---- */

/** Has the group a link on the LAN that the Proposal names, or, in version 2, on the LAN of the
 * address that the client has connected to? */
static bool on_lan(const struct smcr_conn *conn, const struct smcr_lgr *lgr)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		const struct smcr_device *device = lgr->links[i] ? lgr->links[i]->device : NULL;
		if (!device)
			continue;
		if (lgr->version == SMCR_CLC_VERSION_1
			    ? common_prefix(conn, device) != NULL
			    : smcr_device_has_address(device, &conn->params.local,
						      conn->params.local_prefix_len))
			return true;
	}
	return false;
}

/** Does a link of the group, or the Proposal that began the group, have this GID of the client? */
static bool leads_to(const struct smcr_lgr *lgr, const uint8_t gid[SMCR_GID_LEN])
{
	if (lgr->state == SMCR_LGR_FIRST_CONTACT)
		return !memcmp(lgr->v2.gid, gid, SMCR_GID_LEN);
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		if (lgr->links[i] && smcr_link_works(lgr->links[i]) &&
		    !memcmp(lgr->links[i]->peer_gid, gid, SMCR_GID_LEN))
			return true;
	return false;
}

static bool is_known(const uint8_t peer_id[SMCR_PEER_ID_LEN])
{
	static const uint8_t none[SMCR_PEER_ID_LEN];
	return memcmp(peer_id, none, SMCR_PEER_ID_LEN) != 0;
}

/** PEER-4. A peer that has started anew has another ID and is a new peer (PEER-5). Deployed clients
 * that offer only version 2 tell no peer ID: they are known by their RoCE address. If another
 * instance has that address now, the client declines as out of sync. */
static bool with_peer(const struct smcr_lgr *lgr, const struct smcr_clc_proposal *proposal)
{
	if (lgr->version == SMCR_CLC_VERSION_1 ||
	    (is_known(lgr->peer_id) && is_known(proposal->peer_id)))
		return !memcmp(lgr->peer_id, proposal->peer_id, SMCR_PEER_ID_LEN);
	return leads_to(lgr, proposal->v2.gid);
}

/** How long connections wait for the group's first contact (A68). */
static uint64_t waited_for_until(const struct smcr_lgr *lgr)
{
	return lgr->fc.began + lgr->engine->config.hold_timeout;
}

/**
 * Is it worth waiting for this first contact (RV-15, A68)? Not if it makes no progress. If it came
 * from another TCP address, it may be of an attacker who claims to be this peer, because peer IDs
 * and RoCE addresses are no secrets. For such a first contact a connection waits only once, and not
 * at all if either Proposal has named no peer ID.
 */
static bool is_waited_for(const struct smcr_lgr *lgr, const struct smcr_conn *conn)
{
	bool named = lgr->version == SMCR_CLC_VERSION_1 ||
		     (is_known(lgr->peer_id) && is_known(conn->rv.proposal.peer_id));
	if (!smcr_same_host(&lgr->peer, &conn->params.peer) && (!named || conn->rv.has_waited))
		return false;
	return conn->engine->now < waited_for_until(lgr);
}

/** May the client need more RMBs than a group may have (LG-13)? Deployed clients have an RMB for
 * each connection. Connections in rendezvous have not named theirs yet. */
static bool peer_out_of_rmbs(const struct smcr_lgr *lgr)
{
	unsigned int n = smcr_peer_rmb_in_use(lgr);
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		n += lgr->links[i] ? lgr->links[i]->num_named : 0;
	return n >= SMCR_MAX_RMBS;
}

/** Version 2 limits the connections of a group, both versions its RMBs. A connection more needs
 * another group (LG-14). */
static bool is_full(const struct smcr_conn *conn, const struct smcr_lgr *lgr)
{
	if (lgr->version == SMCR_CLC_VERSION_2 && lgr->num_conns >= lgr->max_conns)
		return true;
	return peer_out_of_rmbs(lgr) || smcr_slab_out_of_rmbs(lgr, smcr_clc_element_bsize(conn));
}

/** A group of the agreed version with this peer of which this side is the server (RV-2, PLG-4): a
 * usable one, else one that is being set up. All connections with the peer share it (GEN-12), and
 * no configuration has to name the peer (GEN-7). If the group is full, a second one is made
 * (PLG-1). */
static struct smcr_lgr *find_lgr(const struct smcr_conn *conn)
{
	struct smcr_lgr *lgr, *coming = NULL;
	DL_FOREACH (conn->engine->lgrs, lgr) {
		if (lgr->role != SMCR_ROLE_SERVER || lgr->state == SMCR_LGR_TERMINATING ||
		    lgr->doubted || lgr->vlan != conn->params.vlan ||
		    lgr->version != conn->rv.agreed.version ||
		    !with_peer(lgr, &conn->rv.proposal) || !on_lan(conn, lgr))
			continue;
		if (lgr->state == SMCR_LGR_FIRST_CONTACT)
			coming = is_waited_for(lgr, conn) ? lgr : coming;
		else if (smcr_lgr_least_loaded(lgr) && !is_full(conn, lgr))
			return lgr;
	}
	return coming;
}

/* ---- which version ---- */

/** Choose version 2 if the client offers it and it can be used, else version 1 if that can be used.
 * @return NONE: the version is in rv.agreed; else why none can be used */
static enum smcr_reason choose_version(struct smcr_conn *conn)
{
	const struct smcr_config *config = &conn->engine->config;
	const struct smcr_clc_proposal *proposal = &conn->rv.proposal;
	enum smcr_reason reason = smcr_clc_take_v2(config, proposal, &conn->rv.agreed);
	if (!reason && (find_lgr(conn) || smcr_clc_choose_device(conn, true)))
		return SMCR_REASON_NONE;
	conn->rv.agreed = (struct smcr_agreed){ .version = SMCR_CLC_VERSION_1 };
	if (proposal->offers_r_v1 && smcr_clc_version_allowed(config, 1))
		return SMCR_REASON_NONE;
	return reason ? reason : SMCR_REASON_NO_R_DEVICE;
}

static void hold(struct smcr_conn *conn, struct smcr_lgr *lgr)
{
	uint64_t now = conn->engine->now, until = waited_for_until(lgr);
	conn->rv.held_by = lgr;
	DL_APPEND2(lgr->fc.held, conn, rv.held_prev, rv.held_next);
	smcr_clc_owe(conn, SMCR_RV_S_HELD);
	if (until < conn->rv.answer_by)
		smcr_timer_start(conn->engine, &conn->rv.clc_timer, until - now);
}

void smcr_clc_server_held_long(struct smcr_conn *conn)
{
	smcr_clc_unhold(conn);
	conn->rv.has_waited = true;
	if (conn->engine->now < conn->rv.answer_by)
		smcr_clc_server_decide(conn);
	else
		smcr_clc_decline(conn, SMCR_REASON_NO_ACTIVE_LINK, false); /* RV-15 */
}

/** Set up a new group as far as Accept needs it (RV-4). @return 0 or why that failed */
static enum smcr_reason prepare_first_contact(struct smcr_conn *conn, struct smcr_device *device,
					      const struct smcr_prefix *prefix)
{
	struct smcr_lgr *lgr;
	struct smcr_link *link;
	int rc = smcr_lgr_new(conn->engine, SMCR_ROLE_SERVER, conn->rv.proposal.peer_id,
			      conn->params.vlan, prefix, &lgr);
	if (rc)
		return SMCR_REASON_NO_MEMORY;
	smcr_lgr_add_conn(lgr, conn);
	smcr_clc_agree_group(lgr, &conn->rv.agreed);
	memcpy(lgr->v2.gid, conn->rv.proposal.v2.gid, SMCR_GID_LEN);
	lgr->near = smcr_device_near(device, &conn->params.peer);
	lgr->peer = conn->params.peer;
	lgr->fc.conn = conn;
	lgr->fc.began = conn->engine->now;
	conn->rv.first_contact = true;
	if (smcr_link_new(lgr, device, 0, &link))
		return SMCR_REASON_QP_NOT_READY;
	link->mtu = smcr_path_mtu(conn->engine, link->local_gid,
				  conn->rv.agreed.version == SMCR_CLC_VERSION_2
					  ? conn->rv.proposal.v2.gid
					  : conn->rv.proposal.gid,
				  link->mtu);
	rc = smcr_clc_take_memory(conn);
	if (rc)
		return smcr_clc_memory_reason(conn, rc);
	conn->rx.element.slab->state = SMCR_SLAB_READY; /* CLC announces it (RKEY-12) */
	smcr_conn_name_link(conn, link);
	return SMCR_REASON_NONE;
}

static void first_contact(struct smcr_conn *conn)
{
	struct smcr_prefix lan = smcr_clc_own_lan(conn);
	bool v2 = conn->rv.agreed.version == SMCR_CLC_VERSION_2, drained = false;
	struct smcr_device *device =
		v2 ? smcr_clc_choose_device(conn, true) : choose_device(conn, &lan, &drained);
	if (!device) {
		smcr_clc_decline(
			conn, v2 || drained ? SMCR_REASON_NO_R_DEVICE : SMCR_REASON_PREFIX_MISMATCH,
			false);
		return;
	}
	if (!smcr_clc_may_begin_group(conn)) {
		smcr_clc_decline(conn, SMCR_REASON_LIMIT, false);
		return;
	}
	if (v2)
		conn->rv.agreed.direct = smcr_device_reaches(device, conn->rv.proposal.v2.gid);
	enum smcr_reason reason = prepare_first_contact(conn, device, &lan);
	if (reason) {
		smcr_clc_decline(conn, reason, false);
		return;
	}
	smcr_clc_send_credentials(conn, SMCR_CLC_ACCEPT);
	smcr_clc_await(conn, SMCR_RV_S_AWAIT_CONFIRM);
}

/** RS-1: take an element in an existing group, without LLC messages unless a new RMB is needed. */
static void subsequent_contact(struct smcr_conn *conn, struct smcr_lgr *lgr)
{
	conn->rv.first_contact = false;
	smcr_lgr_add_conn(lgr, conn);
	int rc = smcr_clc_take_memory(conn);
	if (rc) {
		smcr_clc_decline(conn, smcr_clc_memory_reason(conn, rc), false); /* LG-14 */
		return;
	}
	smcr_conn_name_link(conn, smcr_lgr_least_loaded(lgr)); /* RS-2, LG-17 */
	if (conn->rx.element.slab->state == SMCR_SLAB_READY) {
		smcr_clc_server_accept(conn);
		return;
	}
	smcr_clc_owe(conn, SMCR_RV_S_ANNOUNCE); /* RS-3 */
	smcr_llc_kick(lgr);
}

void smcr_clc_server_decide(struct smcr_conn *conn)
{
	struct smcr_lgr *lgr;
	enum smcr_reason reason;
	conn->rv.step = SMCR_RV_S_DECIDES; /* a Decline may be sent instead of Accept */
	if (conn->engine->shutting_down) {
		smcr_clc_decline(conn, SMCR_REASON_SHUTTING_DOWN, false);
	} else if (conn->rv.give_up) {
		smcr_clc_decline(conn, conn->rv.give_up_reason, false);
	} else if (smcr_clc_is_impostor(conn, conn->rv.proposal.peer_id)) {
		smcr_clc_decline(conn, SMCR_REASON_OWN_HOST, false);
	} else if ((reason = choose_version(conn)) != SMCR_REASON_NONE) {
		smcr_clc_decline(conn, reason, false); /* CLC-4 */
	} else if ((lgr = find_lgr(conn)) == NULL) {
		first_contact(conn);
	} else if (lgr->state == SMCR_LGR_FIRST_CONTACT) {
		hold(conn, lgr);                    /* RV-15 */
	} else if (smcr_drain_is_everywhere(lgr)) { /* its last link stays for connections it has */
		smcr_clc_decline(conn, SMCR_REASON_NO_R_DEVICE, false);
	} else {
		subsequent_contact(conn, lgr);
	}
}

/** The own element may be told now: send Accept of a subsequent contact. */
void smcr_clc_server_accept(struct smcr_conn *conn)
{
	if (!conn->rv.link || conn->rv.link->state != SMCR_LINK_ACTIVE)
		smcr_conn_name_link(conn, smcr_lgr_least_loaded(conn->lgr));
	if (!conn->rv.link) {
		smcr_clc_decline(conn, SMCR_REASON_NO_ACTIVE_LINK, false);
		return;
	}
	smcr_clc_send_credentials(conn, SMCR_CLC_ACCEPT);
	smcr_clc_await(conn, SMCR_RV_S_AWAIT_CONFIRM);
}

/* ---- Confirm ---- */

/** RV-7: the client's end of link 1 is known; go on to CONFIRM LINK. */
static void confirm_first_contact(struct smcr_conn *conn, const struct smcr_clc_accept *msg)
{
	struct smcr_link *link = conn->rv.link;
	if (!smcr_link_usable(link)) {
		smcr_clc_decline(conn, SMCR_REASON_NO_R_DEVICE, false);
		return;
	}
	smcr_clc_learn_peer(conn->lgr, msg);
	int rc = smcr_link_connect(link, msg->gid, msg->mac, msg->qpn, msg->psn, msg->mtu);
	if (!rc)
		rc = smcr_link_start(link);
	if (rc) {
		smcr_log_peer(conn->engine, &conn->params.peer, LOG_WARNING, "connect",
			      "%s: cannot connect the queue pair: %s", link->device_name,
			      strerror(-rc));
		smcr_clc_decline(conn, SMCR_REASON_QP_NOT_READY, false);
		return;
	}
	rc = smcr_clc_learn_rmb(link, msg);
	if (!rc)
		rc = smcr_clc_claim_element(conn, link, msg);
	if (rc) {
		smcr_clc_decline(conn, SMCR_REASON_RTOKEN, false);
		return;
	}
	smcr_llc_first_contact(conn->lgr, link);
}

/** Is only the reply to CONFIRM LINK missing on this link? A client that names the link has sent
 * the reply, but TCP was faster. */
static bool being_confirmed(const struct smcr_link *link)
{
	const struct smcr_llc_flow *flow = link->lgr->llc;
	return flow->step == SMCR_LLC_S_CONFIRM_ADDED && flow->subject == link;
}

/** The active link that the client names; it may be any of the group (RS-6). */
static struct smcr_link *named_link(const struct smcr_lgr *lgr, const struct smcr_clc_accept *msg)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		struct smcr_link *link = lgr->links[i];
		if (link && (smcr_link_is_named(link, msg) ||
			     (being_confirmed(link) && smcr_link_leads_to(link, msg))))
			return link;
	}
	return NULL;
}

/** The link that the client names, if it has failed since or is being deleted: it still tells which
 * RMB is meant. The client cannot fall back any more, so both sides move to another link (ERR-4,
 * A59). */
static struct smcr_link *former_link(const struct smcr_lgr *lgr, const struct smcr_clc_accept *msg)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		struct smcr_link *link = lgr->links[i];
		if (link && link->state != SMCR_LINK_ACTIVATING && smcr_link_matches(link, msg))
			return link;
	}
	return NULL;
}

static void confirm_subsequent_contact(struct smcr_conn *conn, const struct smcr_clc_accept *msg)
{
	struct smcr_link *link = named_link(conn->lgr, msg);
	if (!link)
		link = former_link(conn->lgr, msg);
	int rc = smcr_clc_claim_element(conn, link, msg);
	if (rc == -EBUSY) {
		smcr_clc_contest(conn, msg);
		return;
	}
	if (rc) { /* RS-7, RKEY-16 */
		smcr_clc_fail(conn, ECONNRESET,
			      rc == -EEXIST ? SMCR_REASON_RTOKEN : SMCR_REASON_UNKNOWN_LINK);
		return;
	}
	struct smcr_link *own = conn->rv.link; /* the link in our Accept, if it still exists */
	if (!own || own->state != SMCR_LINK_ACTIVE)
		own = link && link->state == SMCR_LINK_ACTIVE ? link
							      : smcr_lgr_least_loaded(conn->lgr);
	if (own)
		smcr_clc_open(conn, own); /* RS-10 */
	else
		smcr_clc_fail(conn, ECONNRESET, SMCR_REASON_NO_ACTIVE_LINK);
}

/** Has Confirm the peer ID of the Proposal, if that had one, and of the group, if it is known? */
static bool is_from_peer(const struct smcr_conn *conn, const struct smcr_clc_accept *msg)
{
	const uint8_t *proposed = conn->rv.proposal.peer_id;
	const uint8_t *known = conn->lgr ? conn->lgr->peer_id : proposed;
	return (!is_known(proposed) || !memcmp(msg->peer_id, proposed, SMCR_PEER_ID_LEN)) &&
	       (!is_known(known) || !memcmp(msg->peer_id, known, SMCR_PEER_ID_LEN));
}

void smcr_clc_server_confirm(struct smcr_conn *conn, const struct smcr_clc_accept *msg,
			     enum smcr_reason wrong)
{
	bool right_peer = is_from_peer(conn, msg);
	smcr_clc_proceed(conn, SMCR_RV_LLC);
	if (!wrong && !right_peer) {
		smcr_clc_fail(conn, EPROTO, SMCR_REASON_NONE);
		return;
	}
	if (conn->rv.give_up && !wrong)
		wrong = conn->rv.give_up_reason;
	if (conn->rv.first_contact && conn->lgr && right_peer)
		memcpy(conn->lgr->peer_id, msg->peer_id, SMCR_PEER_ID_LEN);
	if (wrong && conn->rv.first_contact)
		smcr_clc_decline(conn, wrong, false);
	else if (wrong) /* too late for a Decline (ERR-4) */
		smcr_clc_fail(conn, conn->rv.give_up ? ECONNRESET : EPROTO, wrong);
	else if (conn->rv.first_contact)
		confirm_first_contact(conn, msg);
	else
		confirm_subsequent_contact(conn, msg);
}

void smcr_clc_server_retry(struct smcr_conn *conn, const struct smcr_clc_accept *msg)
{
	confirm_subsequent_contact(conn, msg);
}

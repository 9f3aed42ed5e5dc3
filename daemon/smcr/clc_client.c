/* SPDX-License-Identifier: MIT */
/* Rendezvous as the client: Proposal, Accept, Confirm (RFC 7609 3.5.1, 3.5.2). */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <syslog.h>

#include "daemon/smcr/clc.h"
#include "daemon/smcr/llc_first_contact.h"

/* ---- Proposal ---- */

static void clear_host_bits(uint8_t *ip, size_t len, unsigned int bits)
{
	for (size_t i = 0; i < len; i++) {
		unsigned int keep = bits > 8 * i ? bits - 8 * (unsigned int)i : 0;
		if (keep < 8)
			ip[i] &= (uint8_t)(0xFF << (8 - keep));
	}
}

static void add_prefix(struct smcr_clc_proposal *proposal, const uint8_t ip[16], uint8_t len)
{
	struct smcr_clc_prefix *prefix = &proposal->prefixes[proposal->num_prefixes];
	memcpy(prefix->addr, ip, 16);
	clear_host_bits(prefix->addr, 16, len);
	prefix->len = len;
	for (unsigned int i = 0; i < proposal->num_prefixes; i++)
		if (!memcmp(&proposal->prefixes[i], prefix, sizeof(*prefix)))
			return;
	proposal->num_prefixes++;
}

static bool link_local(const struct smcr_prefix *prefix)
{
	return prefix->ip[0] == 0xFE && (prefix->ip[1] & 0xC0) == 0x80;
}

/** CLC-6, CLC-7: the network of the interface that the TCP connection uses. */
static void fill_network(struct smcr_clc_proposal *proposal, const struct smcr_conn *conn)
{
	const struct smcr_addr *local = &conn->params.local;
	uint8_t len = conn->params.local_prefix_len;
	if (local->family == AF_INET) {
		uint8_t ip[4];
		memcpy(ip, local->ip, 4);
		clear_host_bits(ip, 4, len);
		proposal->ipv4_subnet = (uint32_t)ip[0] << 24 | (uint32_t)ip[1] << 16 |
					(uint32_t)ip[2] << 8 | ip[3];
		proposal->ipv4_mask_len = len;
		return;
	}
	add_prefix(proposal, local->ip, len);
	const struct smcr_device_info *info = &conn->rv.device->info;
	for (size_t i = 0; i < info->num_prefixes; i++)
		if (info->prefixes[i].family == AF_INET6 && !link_local(&info->prefixes[i]) &&
		    proposal->num_prefixes < SMCR_CLC_MAX_PREFIXES)
			add_prefix(proposal, info->prefixes[i].ip, info->prefixes[i].prefix_len);
}

/**
 * Choose the RNIC to propose; the versions to offer depend on it. Like deployed clients, offer
 * version 2 on IPv4 connections only. @return NONE or why nothing can be offered
 */
static enum smcr_reason prepare_proposal(struct smcr_conn *conn)
{
	const struct smcr_config *config = &conn->engine->config;
	struct smcr_clc_proposal *proposal = &conn->rv.proposal;
	struct smcr_device *v2 = NULL, *v1 = NULL;
	if (conn->engine->shutting_down)
		return SMCR_REASON_SHUTTING_DOWN;
	if (conn->params.local.family == AF_INET && smcr_clc_version_allowed(config, 2))
		v2 = smcr_clc_choose_device(conn, true);
	if (!v2)
		v1 = smcr_clc_choose_device(conn, false);
	if (!v2 && !v1)
		return SMCR_REASON_NO_R_DEVICE;
	*proposal =
		(struct smcr_clc_proposal){ .version = SMCR_CLC_VERSION_1,
					    .offers_r_v1 = smcr_clc_version_allowed(config, 1) };
	if (!v2 && !proposal->offers_r_v1)
		return SMCR_REASON_CONFIG;
	conn->rv.device = v2 ? v2 : v1;
	const struct smcr_device_info *info = &conn->rv.device->info;
	memcpy(proposal->peer_id, config->peer_id, SMCR_PEER_ID_LEN);
	memcpy(proposal->gid, info->gid, SMCR_GID_LEN);
	memcpy(proposal->mac, info->mac, SMCR_MAC_LEN);
	if (proposal->offers_r_v1)
		fill_network(proposal, conn);
	if (v2)
		smcr_clc_offer_v2(config, info->gid, proposal);
	return SMCR_REASON_NONE;
}

/* RV-1: the Proposal is the same whether there is a group with the server or not. */
void smcr_clc_client_start(struct smcr_conn *conn)
{
	uint8_t buf[SMCR_CLC_MAX_LEN];
	enum smcr_reason reason =
		conn->rv.give_up ? conn->rv.give_up_reason : prepare_proposal(conn);
	if (reason) {
		smcr_clc_start_outcome(conn, reason);
		return;
	}
	int len = smcr_clc_encode_proposal(&conn->rv.proposal, buf, sizeof(buf));
	smcr_clc_send(conn, buf, (size_t)len);
	smcr_clc_await(conn, SMCR_RV_C_AWAIT_ACCEPT);
}

/* ---- Accept ---- */

/** May an Accept name a link of this group? This side must be the group's client (PLG-4), and the
 * version must be the same. */
static bool may_be_named(const struct smcr_lgr *lgr, const struct smcr_conn *conn,
			 const struct smcr_clc_accept *msg)
{
	return lgr->role == SMCR_ROLE_CLIENT && lgr->state != SMCR_LGR_TERMINATING &&
	       lgr->vlan == conn->params.vlan && lgr->version == msg->version &&
	       !memcmp(lgr->peer_id, msg->peer_id, SMCR_PEER_ID_LEN);
}

/** The link that an Accept names, in a group of which this side is the client (RV-5). */
static struct smcr_link *find_link(const struct smcr_conn *conn, const struct smcr_clc_accept *msg)
{
	struct smcr_lgr *lgr;
	DL_FOREACH (conn->engine->lgrs, lgr) {
		if (!may_be_named(lgr, conn, msg) || lgr->state != SMCR_LGR_ACTIVE)
			continue;
		for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
			if (lgr->links[i] && smcr_link_is_named(lgr->links[i], msg))
				return lgr->links[i];
	}
	return NULL;
}

/** Does the Accept name a link of a group that works, but which was freed while the Accept was on
 * its way? Then the sides are not out of sync. Nor are they if a deployed server without a second
 * link has finished the first contact, while this side still waits for ADD LINK (version 2). */
static bool has_gone(const struct smcr_conn *conn, const struct smcr_clc_accept *msg)
{
	struct smcr_lgr *lgr;
	DL_FOREACH (conn->engine->lgrs, lgr)
		if (may_be_named(lgr, conn, msg) &&
		    (lgr->state == SMCR_LGR_ACTIVE || smcr_lgr_is_v2(lgr)) &&
		    smcr_lgr_any_link(lgr, NULL) && smcr_link_is_or_was_named(lgr, msg))
			return true;
	return false;
}

/** Version 2: has the RNIC another GID now than in the Proposal? Deployed servers connect their QP
 * to that of the Proposal. */
static bool has_moved(const struct smcr_conn *conn)
{
	const struct smcr_device_info *info = &conn->rv.device->info;
	const struct smcr_clc_proposal *said = &conn->rv.proposal;
	return conn->rv.agreed.version == SMCR_CLC_VERSION_2 &&
	       (memcmp(info->gid, said->v2.gid, SMCR_GID_LEN) != 0 ||
		memcmp(info->mac, said->mac, SMCR_MAC_LEN) != 0);
}

/** Set up this side of a new group (RV-6). @return 0 or why that failed */
static enum smcr_reason prepare_first_contact(struct smcr_conn *conn,
					      const struct smcr_clc_accept *msg)
{
	struct smcr_prefix lan = smcr_clc_own_lan(conn);
	struct smcr_lgr *lgr;
	struct smcr_link *link;
	if (!conn->rv.device || !conn->rv.device->info.active || has_moved(conn))
		return SMCR_REASON_NO_R_DEVICE; /* ERR-3 */
	if (!smcr_clc_may_begin_group(conn))
		return SMCR_REASON_LIMIT;
	if (smcr_lgr_new(conn->engine, SMCR_ROLE_CLIENT, msg->peer_id, conn->params.vlan, &lan,
			 &lgr))
		return SMCR_REASON_NO_MEMORY;
	smcr_lgr_add_conn(lgr, conn);
	smcr_clc_agree_group(lgr, &conn->rv.agreed);
	smcr_clc_learn_peer(lgr, msg);
	lgr->near = smcr_device_near(conn->rv.device, &conn->params.peer);
	lgr->peer = conn->params.peer;
	lgr->fc.conn = conn;
	conn->rv.first_contact = true;
	if (smcr_link_new(lgr, conn->rv.device, 0, &link))
		return SMCR_REASON_QP_NOT_READY;
	int rc = smcr_clc_take_memory(conn);
	if (rc)
		return smcr_clc_memory_reason(conn, rc);
	conn->rx.element.slab->state = SMCR_SLAB_READY; /* CLC announces it (RKEY-12) */
	smcr_conn_name_link(conn, link);
	uint8_t mtu = smcr_path_mtu(conn->engine, link->local_gid, msg->gid, msg->mtu);
	rc = smcr_link_connect(link, msg->gid, msg->mac, msg->qpn, msg->psn, mtu);
	if (rc) {
		smcr_log_peer(conn->engine, &conn->params.peer, LOG_WARNING, "connect",
			      "%s: cannot connect the queue pair: %s", link->device_name,
			      strerror(-rc));
		return SMCR_REASON_QP_NOT_READY;
	}
	if (smcr_clc_learn_rmb(link, msg) || smcr_clc_claim_element(conn, link, msg))
		return SMCR_REASON_RTOKEN;
	return SMCR_REASON_NONE;
}

static void first_contact(struct smcr_conn *conn, const struct smcr_clc_accept *msg)
{
	enum smcr_reason reason = prepare_first_contact(conn, msg);
	if (reason) {
		smcr_clc_decline(conn, reason, false);
		return;
	}
	smcr_clc_send_credentials(conn, SMCR_CLC_CONFIRM);
	smcr_clc_proceed(conn, SMCR_RV_LLC);
	smcr_llc_first_contact(conn->lgr, conn->rv.link);
}

static void take_element(struct smcr_conn *conn, struct smcr_link *link,
			 const struct smcr_clc_accept *msg)
{
	int rc = smcr_clc_claim_element(conn, link, msg);
	if (rc == -EBUSY) {
		smcr_clc_contest(conn, msg);
		return;
	}
	if (rc) {
		smcr_clc_decline(conn, SMCR_REASON_RTOKEN, false);
		return;
	}
	rc = smcr_clc_take_memory(conn);
	if (rc) {
		smcr_clc_decline(conn, smcr_clc_memory_reason(conn, rc), false);
	} else if (conn->rx.element.slab->state == SMCR_SLAB_READY) {
		smcr_clc_client_confirm(conn);
	} else {
		smcr_clc_owe(conn, SMCR_RV_C_ANNOUNCE); /* RS-5 */
		smcr_llc_kick(link->lgr);
	}
}

static void subsequent_contact(struct smcr_conn *conn, struct smcr_link *link,
			       const struct smcr_clc_accept *msg)
{
	smcr_lgr_add_conn(link->lgr, conn);
	conn->rv.first_contact = false;
	smcr_conn_name_link(conn, link);
	take_element(conn, link, msg);
}

void smcr_clc_client_retry(struct smcr_conn *conn, const struct smcr_clc_accept *msg)
{
	struct smcr_link *link = conn->rv.link;
	smcr_clc_proceed(conn, SMCR_RV_C_ANNOUNCE); /* a Decline may be sent instead of Confirm */
	if (link)
		take_element(conn, link, msg);
	else
		smcr_clc_decline(conn, SMCR_REASON_NO_ACTIVE_LINK, false);
}

void smcr_clc_client_accept(struct smcr_conn *conn, const struct smcr_clc_accept *msg)
{
	struct smcr_link *link = find_link(conn, msg);
	smcr_clc_asked(conn);
	/* The next message is ours: it may be a Decline. */
	smcr_clc_proceed(conn, SMCR_RV_C_ANNOUNCE);
	if (conn->rv.give_up) {
		smcr_clc_decline(conn, conn->rv.give_up_reason, false);
		return;
	}
	if (smcr_clc_is_impostor(conn, msg->peer_id)) {
		smcr_clc_decline(conn, SMCR_REASON_OWN_HOST, false);
		return;
	}
	switch (smcr_clc_classify(msg->first_contact, link != NULL)) {
	case SMCR_CONTACT_FIRST: /* even if there is another group (PLG-2) */
		first_contact(conn, msg);
		break;
	case SMCR_CONTACT_SUBSEQUENT: subsequent_contact(conn, link, msg); break;
	case SMCR_CONTACT_OUT_OF_SYNC:
		if (has_gone(conn, msg))
			smcr_clc_decline(conn, SMCR_REASON_NO_ACTIVE_LINK, false);
		else
			smcr_clc_decline(conn, SMCR_REASON_OUT_OF_SYNC, true); /* ERR-9 */
		break;
	}
}

/* ---- Confirm of a subsequent contact ---- */

/** The link to name in Confirm. By the RFC any active link will do (RS-6). But the server may not
 * know yet that a link just added is active (RS-7), so the link that the server has named itself is
 * the safe choice. Deployed servers keep our RToken for that link only. */
static struct smcr_link *link_to_name(const struct smcr_conn *conn)
{
	struct smcr_link *link = conn->rv.link;
	if (link && link->state == SMCR_LINK_ACTIVE)
		return link;
	if (conn->lgr->dialect == SMCR_DIALECT_DEPLOYED)
		return NULL;
	return smcr_lgr_least_loaded(conn->lgr);
}

void smcr_clc_client_confirm(struct smcr_conn *conn)
{
	struct smcr_link *link = link_to_name(conn);
	if (!link) {
		smcr_clc_decline(conn, SMCR_REASON_NO_ACTIVE_LINK, false);
	} else if (conn->tx.rmb->withdrawn) {
		smcr_clc_decline(conn, SMCR_REASON_RTOKEN, false); /* RKEY-16 */
	} else {
		smcr_conn_name_link(conn, link);
		smcr_clc_send_credentials(conn, SMCR_CLC_CONFIRM);
		if (conn->lgr->dialect == SMCR_DIALECT_RFC) /* RS-11 */
			link = smcr_lgr_least_loaded(conn->lgr);
		smcr_clc_open(conn, link); /* RS-8 */
	}
}

/* SPDX-License-Identifier: MIT */
/* Rendezvous: what both roles do. The steps are enum smcr_rv_step in clc.h. */
#include <string.h>
#include <syslog.h>

#include "daemon/smcr/clc.h"
#include "daemon/smcr/data.h"

bool smcr_clc_is_impostor(const struct smcr_conn *conn, const uint8_t peer_id[SMCR_PEER_ID_LEN])
{
	const struct smcr_engine *engine = conn->engine;
	const struct smcr_device *device;
	if (!memcmp(peer_id, engine->config.peer_id, SMCR_PEER_ID_LEN))
		return false;
	DL_FOREACH (engine->devices, device)
		if (smcr_device_owns_address(device, &conn->params.peer))
			return true;
	return false;
}

struct smcr_prefix smcr_clc_own_lan(const struct smcr_conn *conn)
{
	struct smcr_prefix lan = { .family = conn->params.local.family,
				   .prefix_len = conn->params.local_prefix_len };
	memcpy(lan.ip, conn->params.local.ip, sizeof(lan.ip));
	return lan;
}

/* SEC-1: only an RNIC of the connection's VLAN (LG-2). */
struct smcr_device *smcr_clc_choose_device(const struct smcr_conn *conn, bool ipv4)
{
	struct smcr_device *device, *best = NULL;
	DL_FOREACH (conn->engine->devices, device) {
		if (!device->info.active || device->drained ||
		    device->info.vlan != conn->params.vlan ||
		    (ipv4 && !smcr_gid_is_ipv4(device->info.gid)) ||
		    !smcr_device_has_address(device, &conn->params.local,
					     conn->params.local_prefix_len))
			continue;
		if (smcr_device_owns_address(device, &conn->params.local))
			return device;
		if (!best)
			best = device;
	}
	return best;
}

/* How many first contacts with a host may be under way. One is enough for two hosts, but a host may
 * have several networks and instances. Each first contact has a queue pair and memory, and anybody
 * can begin one. */
#define FIRST_CONTACTS_MAX 16

bool smcr_clc_may_begin_group(const struct smcr_conn *conn)
{
	struct smcr_engine *engine = conn->engine;
	const struct smcr_addr *peer = &conn->params.peer;
	const struct smcr_lgr *lgr;
	unsigned int n = 0;
	DL_FOREACH (engine->lgrs, lgr)
		n += lgr->state == SMCR_LGR_FIRST_CONTACT && smcr_same_host(&lgr->peer, peer);
	if (n < FIRST_CONTACTS_MAX)
		return true;
	engine->count.first_contacts_refused++;
	smcr_log_peer(engine, peer, LOG_WARNING, "first contacts",
		      "%u link groups are being set up with this peer: connections that need one "
		      "more stay TCP",
		      n);
	return false;
}

void smcr_clc_send_credentials(struct smcr_conn *conn, uint8_t type)
{
	struct smcr_engine *engine = conn->engine;
	struct smcr_link *link = conn->rv.link;
	struct smcr_slab *slab = conn->rx.element.slab;
	uint8_t buf[SMCR_CLC_MAX_LEN];
	if (!conn->token)
		smcr_conn_new_token(conn);
	struct smcr_clc_accept msg = {
		.type = type,
		.first_contact = type == SMCR_CLC_ACCEPT && conn->rv.first_contact,
		.qpn = link->qpn,
		.rkey = slab->reg[link->slot].rkey,
		.rmbe_index = conn->rx.element.index,
		.alert_token = conn->token,
		.bsize = slab->bsize,
		.mtu = link->mtu,
		.rmb_vaddr = slab->reg[link->slot].vaddr,
		.psn = link->psn, /* CLC-10 */
	};
	memcpy(msg.peer_id, engine->config.peer_id, SMCR_PEER_ID_LEN);
	memcpy(msg.gid, link->local_gid, SMCR_GID_LEN);
	memcpy(msg.mac, link->local_mac, SMCR_MAC_LEN);
	if (conn->rv.agreed.version == SMCR_CLC_VERSION_2)
		smcr_clc_fill_v2(conn, &msg);
	if (conn->rv.first_contact)
		slab->reg[link->slot].told = true; /* RKEY-12 */
	int len = smcr_clc_encode_accept(&msg, buf, sizeof(buf));
	smcr_clc_send(conn, buf, (size_t)len);
}

int smcr_clc_learn_rmb(struct smcr_link *link, const struct smcr_clc_accept *msg)
{
	struct smcr_peer_rmb *rmb;
	int rc = smcr_peer_rmb_add(link->lgr, &rmb);
	if (rc)
		return rc;
	smcr_peer_rmb_set(rmb, link, msg->rkey, msg->rmb_vaddr);
	return 0;
}

/** CLC has named a link, but the operator wants no writes on it: the choice is ours (RS-11). */
static struct smcr_link *unless_disabled(const struct smcr_conn *conn, struct smcr_link *link)
{
	struct smcr_link *other = smcr_lgr_least_loaded(conn->lgr);
	bool usable = other && conn->tx.rmb && conn->tx.rmb->token[other->slot].valid;
	return link && link->disabled && usable ? other : link;
}

void smcr_clc_open(struct smcr_conn *conn, struct smcr_link *link)
{
	smcr_timer_stop(conn->engine, &conn->rv.clc_timer);
	smcr_timer_stop(conn->engine, &conn->rv.total_timer);
	smcr_conn_name_link(conn, NULL);
	smcr_link_assign(conn, unless_disabled(conn, link));
	conn->phase = SMCR_PHASE_OPEN;
	smcr_data_open(conn);
}

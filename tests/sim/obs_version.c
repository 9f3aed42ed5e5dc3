/* SPDX-License-Identifier: MIT */
/* Which version of SMC-R a connection may use, and what version 2 says in CLC (docs/version-2.md).
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/sim/obs.h"

#define OWN_RELEASE 1
#define OWN_LINKS   3 /* LLC of version 2 cannot tell keys for more */
#define OWN_OS      2 /* Linux */

static bool allows(const struct smcr_config *config, uint8_t version)
{
	if (version == 1)
		return config->versions != SMCR_VERSIONS_2_ONLY;
	return config->versions != SMCR_VERSIONS_1_ONLY &&
	       config->dialect != SMCR_DIALECT_FORCE_RFC;
}

static uint8_t own_links(const struct host *host)
{
	uint8_t links = host->config.max_links ? host->config.max_links : 4;
	return links < OWN_LINKS ? links : OWN_LINKS;
}

static struct device *device_of(struct world *w, const struct host *host,
				const uint8_t gid[SMCR_GID_LEN])
{
	for (size_t i = 0; i < w->fabric->num_devices; i++) {
		struct device *device = w->fabric->devices[i];
		if (device->host == host && !memcmp(device->info.gid, gid, SMCR_GID_LEN))
			return device;
	}
	return NULL;
}

/* ---- Proposal ---- */

void version_proposal_sent(struct world *w, const struct side *side,
			   const struct smcr_clc_proposal *msg)
{
	const struct smcr_config *config = &side->host->config;
	const struct smcr_clc_proposal_v2 *v2 = &msg->v2;
	unsigned int number = side->pair->number;
	bool two = config->num_ueids && allows(config, 2) && side->pair->family == AF_INET;
	if (msg->offers_r_v1 != allows(config, 1) || msg->offers_r_v2 != two || msg->offers_d ||
	    msg->version != (two ? 2 : 1) || msg->ip_offset != (two && msg->offers_r_v1 ? 40 : 0)) {
		world_fail(w, "CLC-4", "connection %u: Proposal of version %u that offers%s%s",
			   number, msg->version, msg->offers_r_v1 ? " 1" : "",
			   msg->offers_r_v2 ? " 2" : "");
		return;
	}
	if (!two)
		return;
	const struct device *device = device_of(w, side->host, v2->gid);
	if (v2->num_eids != config->num_ueids ||
	    memcmp(v2->eids, config->ueids, (size_t)v2->num_eids * SMCR_EID_LEN) != 0)
		world_fail(w, "VERSION", "connection %u: other UEIDs than configured", number);
	else if (v2->release != OWN_RELEASE || v2->max_conns != 255 ||
		 v2->max_links != own_links(side->host) || v2->features)
		world_fail(w, "VERSION", "connection %u: offers release %u, limits %u and %u",
			   number, v2->release, v2->max_conns, v2->max_links);
	else if (!device || memcmp(device->info.mac, msg->mac, SMCR_MAC_LEN) != 0)
		world_fail(w, "VERSION", "connection %u: GID of version 2 and MAC of no own RNIC",
			   number);
}

/* ---- Accept ---- */

/** The first of the client's UEIDs that the server has too. */
static const uint8_t *common_ueid(const struct smcr_clc_proposal *msg,
				  const struct smcr_config *config)
{
	for (size_t i = 0; i < msg->v2.num_eids; i++) {
		for (size_t k = 0; k < config->num_ueids; k++) {
			if (!memcmp(msg->v2.eids[i], config->ueids[k], SMCR_EID_LEN))
				return msg->v2.eids[i];
		}
	}
	return NULL;
}

/** Does a host have an RNIC in the subnet of that end of the connection? */
static bool has_rnic(struct world *w, const struct side *side)
{
	for (size_t i = 0; i < w->fabric->num_devices; i++) {
		const struct device *device = w->fabric->devices[i];
		if (device->host == side->host && device->known && device->port_up &&
		    device->info.gid[13] == side->lan)
			return true;
	}
	return false;
}

static uint8_t smaller(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

static void check_name(struct world *w, const struct side *side,
		       const struct smcr_clc_first_contact *fce)
{
	char name[SMCR_EID_LEN + 1];
	snprintf(name, sizeof(name), "%-32s", side->host->name);
	if (fce->os != OWN_OS || memcmp(fce->host, name, SMCR_EID_LEN) != 0)
		world_fail(w, "VERSION", "connection %u: the %s does not tell its system and name",
			   side->pair->number, side_text(side->index));
}

static void check_extension(struct world *w, const struct obs_conn *conn, const struct side *side,
			    const struct smcr_clc_accept *msg)
{
	const struct smcr_clc_proposal_v2 *v2 = &conn->proposal.v2;
	const struct smcr_clc_first_contact *fce = &msg->fce;
	uint8_t release = smaller(v2->release, OWN_RELEASE);
	uint8_t conns = release ? v2->max_conns : 0;
	uint8_t links = release ? smaller(v2->max_links, own_links(side->host)) : 0;
	if (fce->release != release || fce->max_conns != conns || fce->max_links != links ||
	    fce->features)
		world_fail(w, "VERSION",
			   "connection %u: release %u, limits %u and %u agreed, not %u, %u and %u",
			   conn->pair->number, fce->release, fce->max_conns, fce->max_links,
			   release, conns, links);
	if (fce->direct != (memcmp(msg->gid, v2->gid, SMCR_GID_LEN - 1) == 0))
		world_fail(w, "VERSION", "connection %u: direct %u", conn->pair->number,
			   fce->direct);
	check_name(w, side, fce);
}

void version_accept_sent(struct world *w, const struct obs_conn *conn, const struct side *side,
			 const struct smcr_clc_accept *msg)
{
	const struct smcr_clc_proposal *p = &conn->proposal;
	const struct smcr_config *config = &side->host->config;
	unsigned int number = conn->pair->number;
	/* UEIDs may have changed while the Proposal waited. */
	bool settled = conn->ueid_changes == side->host->ueid_changes;
	const uint8_t *eid = p->offers_r_v2 && allows(config, 2) ? common_ueid(p, config) : NULL;
	bool offered = msg->version == 1 ? p->offers_r_v1 : p->offers_r_v2;
	if (!offered || !allows(config, msg->version))
		world_fail(w, "CLC-4", "connection %u: version %u was not offered, or is not taken",
			   number, msg->version);
	else if (msg->version == 1 && eid && settled && !w->set.failures && has_rnic(w, side))
		world_fail(w, "VERSION", "connection %u: version 1, but they have a UEID in common",
			   number);
	else if (msg->version == 2 && settled && (!eid || memcmp(eid, msg->eid, SMCR_EID_LEN)))
		world_fail(w, "VERSION",
			   "connection %u: not the first UEID that they have in common", number);
	else if (msg->version == 2 && msg->first_contact)
		check_extension(w, conn, side, msg);
}

/* ---- Confirm ---- */

/** Does Confirm list GIDs of own RNICs on that LAN, each once, with the link's GID first? */
static bool gids_right(struct world *w, const struct side *side, const struct smcr_clc_accept *msg)
{
	if (!msg->num_gids || memcmp(msg->gids[0], msg->gid, SMCR_GID_LEN) != 0)
		return false;
	for (size_t i = 0; i < msg->num_gids; i++) {
		if (!device_of(w, side->host, msg->gids[i]) || msg->gids[i][13] != msg->gid[13])
			return false;
		for (size_t k = 0; k < i; k++) {
			if (!memcmp(msg->gids[i], msg->gids[k], SMCR_GID_LEN))
				return false;
		}
	}
	return true;
}

void version_confirm_sent(struct world *w, const struct obs_conn *conn, const struct side *side,
			  const struct smcr_clc_accept *msg)
{
	const struct smcr_clc_accept *accept = &conn->accept;
	unsigned int number = conn->pair->number;
	if (msg->version != accept->version ||
	    msg->first_contact != (msg->version == 2 && accept->first_contact)) {
		world_fail(w, "CLC-4", "connection %u: Confirm of version %u%s", number,
			   msg->version, msg->first_contact ? " with F" : "");
		return;
	}
	if (msg->version == 1)
		return;
	if (memcmp(msg->eid, accept->eid, SMCR_EID_LEN) != 0)
		world_fail(w, "VERSION", "connection %u: Confirm with another EID", number);
	if (!msg->first_contact)
		return;
	if (msg->fce.release != accept->fce.release ||
	    msg->fce.max_conns != accept->fce.max_conns ||
	    msg->fce.max_links != accept->fce.max_links || msg->fce.features)
		world_fail(w, "VERSION", "connection %u: Confirm does not repeat what was agreed",
			   number);
	if (memcmp(msg->gid, conn->proposal.v2.gid, SMCR_GID_LEN) != 0)
		world_fail(w, "VERSION", "connection %u: Confirm with another GID than proposed",
			   number);
	if (!gids_right(w, side, msg))
		world_fail(w, "VERSION", "connection %u: wrong GIDs in Confirm", number);
	check_name(w, side, &msg->fce);
}

/* ---- Decline ---- */

void version_decline_sent(struct world *w, const struct obs_conn *conn, const struct side *side,
			  const struct smcr_clc_decline *msg)
{
	uint8_t version = 1;
	if (side->index == SERVER)
		version = conn->proposal.version;
	else if (conn->accept_seen)
		version = conn->accept.version;
	if (msg->version != version || msg->os != (version == 2 ? OWN_OS : 0))
		world_fail(w, "VERSION", "connection %u: Decline of the %s in version %u",
			   conn->pair->number, side_text(side->index), msg->version);
}

/* ---- groups ---- */

static unsigned int max_conns(const struct obs_group *group)
{
	return group->agreed_conns ? group->agreed_conns : 255;
}

void version_joined(struct obs_conn *conn, const struct smcr_clc_accept *msg)
{
	struct obs_group *group = conn->group;
	struct world *w = group->obs->world;
	unsigned int conns = 1;
	const struct obs_conn *other;
	if (msg->first_contact)
		obs_see(group->obs, group_is_v2(group) ? SEEN_VERSION_2 : SEEN_VERSION_1);
	if (group->version != msg->version)
		world_fail(w, "VERSION", "group %u of version %u: Accept of version %u",
			   group->number, group->version, msg->version);
	if (!group_is_v2(group))
		return;
	DL_FOREACH (group->obs->conns, other)
		conns += other != conn && other->group == group && !other->gone[SERVER];
	if (conns > max_conns(group))
		world_fail(w, "VERSION", "group %u: %u connections, %u may be", group->number,
			   conns, max_conns(group));
}

/** Version 2 limits a group's connections; both versions limit its RMBs, of which a side may need
 *  one for each connection (LG-14). */
bool version_may_be_full(const struct obs_group *group)
{
	unsigned int conns = 0;
	const struct obs_conn *conn;
	DL_FOREACH (group->obs->conns, conn)
		conns += conn->pair->side[CLIENT].host == group->host[CLIENT] &&
			 conn->pair->side[SERVER].host == group->host[SERVER];
	return conns > max_conns(group);
}

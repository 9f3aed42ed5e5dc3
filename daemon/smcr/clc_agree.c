/* SPDX-License-Identifier: MIT */
/* What client and server agree on: version, EID, release, limits (docs/version-2.md). */
#include <string.h>

#include "daemon/smcr/clc.h"
#include "daemon/smcr/llc.h"
#include "proto/smcr/eid.h"

bool smcr_clc_version_allowed(const struct smcr_config *config, uint8_t version)
{
	if (version == SMCR_CLC_VERSION_1)
		return config->versions != SMCR_VERSIONS_2_ONLY;
	return config->versions != SMCR_VERSIONS_1_ONLY && config->num_ueids &&
	       config->dialect != SMCR_DIALECT_FORCE_RFC;
}

static uint8_t smaller(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

static uint8_t own_max_links(const struct smcr_config *config)
{
	return smaller(config->max_links, SMCR_V2_LINKS_TOTAL);
}

/** Release 0 has no limits to negotiate. */
static void release_0_limits(struct smcr_agreed *agreed)
{
	agreed->max_conns = SMCR_CLC_RELEASE_0_MAX_CONNS;
	agreed->max_links = SMCR_CLC_RELEASE_0_MAX_LINKS;
}

void smcr_clc_offer_v2(const struct smcr_config *config, const uint8_t gid[SMCR_GID_LEN],
		       struct smcr_clc_proposal *proposal)
{
	proposal->version = SMCR_CLC_VERSION_2;
	proposal->offers_r_v2 = true;
	proposal->v2 = (struct smcr_clc_proposal_v2){ .num_eids = config->num_ueids,
						      .release = SMCR_CLC_RELEASE,
						      .max_conns = UINT8_MAX,
						      .max_links = own_max_links(config) };
	memcpy(proposal->v2.eids, config->ueids, sizeof(config->ueids));
	memcpy(proposal->v2.gid, gid, SMCR_GID_LEN);
}

/* ---- server ---- */

/** From release 1 on: the smaller limits of both sides. */
static enum smcr_reason agree_limits(const struct smcr_config *config,
				     const struct smcr_clc_proposal_v2 *v2, struct smcr_agreed *ret)
{
	ret->release = smaller(v2->release, SMCR_CLC_RELEASE);
	if (ret->release == 0) {
		release_0_limits(ret);
		return SMCR_REASON_NONE;
	}
	ret->max_conns = v2->max_conns;
	ret->max_links = smaller(v2->max_links, own_max_links(config));
	if (ret->max_conns < SMCR_CLC_MIN_MAX_CONNS)
		return SMCR_REASON_MAX_CONNS;
	return ret->max_links ? SMCR_REASON_NONE : SMCR_REASON_MAX_LINKS;
}

enum smcr_reason smcr_clc_take_v2(const struct smcr_config *config,
				  const struct smcr_clc_proposal *proposal, struct smcr_agreed *ret)
{
	const struct smcr_clc_proposal_v2 *v2 = &proposal->v2;
	if (!proposal->offers_r_v2 || config->versions == SMCR_VERSIONS_1_ONLY ||
	    config->dialect == SMCR_DIALECT_FORCE_RFC)
		return SMCR_REASON_VERSION_MISMATCH;
	if (!v2->num_eids)
		return SMCR_REASON_NO_UEID;
	int eid = smcr_eid_choose(v2->eids, v2->num_eids, config->ueids, config->num_ueids);
	if (eid < 0)
		return SMCR_REASON_UEID_MISMATCH;
	struct smcr_agreed agreed = { .version = SMCR_CLC_VERSION_2 };
	enum smcr_reason reason = agree_limits(config, v2, &agreed);
	if (reason)
		return reason;
	memcpy(agreed.eid, v2->eids[eid], SMCR_EID_LEN);
	*ret = agreed;
	return SMCR_REASON_NONE;
}

enum smcr_reason smcr_clc_check_confirm(const struct smcr_agreed *agreed,
					const struct smcr_clc_accept *msg)
{
	if (agreed->version < SMCR_CLC_VERSION_2)
		return SMCR_REASON_NONE;
	if (!msg->first_contact || msg->fce.release != agreed->release)
		return SMCR_REASON_RELEASE_MISMATCH;
	if (agreed->release == 0)
		return SMCR_REASON_NONE;
	if (msg->fce.max_conns != agreed->max_conns)
		return SMCR_REASON_MAX_CONNS;
	return msg->fce.max_links == agreed->max_links ? SMCR_REASON_NONE : SMCR_REASON_MAX_LINKS;
}

/* ---- client ---- */

/** Check the first contact extension: the server may lower the limits that we offered, but not
 * raise them. */
static enum smcr_reason check_extension(const struct smcr_clc_proposal_v2 *v2,
					const struct smcr_clc_first_contact *fce,
					struct smcr_agreed *agreed)
{
	if (fce->release > v2->release)
		return SMCR_REASON_RELEASE_MISMATCH;
	agreed->release = fce->release;
	agreed->direct = fce->direct;
	release_0_limits(agreed);
	if (fce->release == 0)
		return SMCR_REASON_NONE;
	if (fce->max_conns < SMCR_CLC_MIN_MAX_CONNS || fce->max_conns > v2->max_conns)
		return SMCR_REASON_MAX_CONNS;
	if (!fce->max_links || fce->max_links > v2->max_links)
		return SMCR_REASON_MAX_LINKS;
	agreed->max_conns = fce->max_conns;
	agreed->max_links = fce->max_links;
	return SMCR_REASON_NONE;
}

enum smcr_reason smcr_clc_check_accept(const struct smcr_clc_proposal *proposal,
				       const struct smcr_clc_accept *msg, struct smcr_agreed *ret)
{
	const struct smcr_clc_proposal_v2 *v2 = &proposal->v2;
	if (msg->version < SMCR_CLC_VERSION_2) {
		ret->version = SMCR_CLC_VERSION_1;
		return proposal->offers_r_v1 ? SMCR_REASON_NONE : SMCR_REASON_VERSION_MISMATCH;
	}
	if (!proposal->offers_r_v2)
		return SMCR_REASON_VERSION_MISMATCH;
	ret->version = SMCR_CLC_VERSION_2; /* a Decline has that version from here on */
	if (smcr_eid_choose(&msg->eid, 1, v2->eids, v2->num_eids) < 0)
		return SMCR_REASON_UEID_MISMATCH;
	memcpy(ret->eid, msg->eid, SMCR_EID_LEN);
	return msg->first_contact ? check_extension(v2, &msg->fce, ret) : SMCR_REASON_NONE;
}

/* ---- both ---- */

void smcr_clc_agree_group(struct smcr_lgr *lgr, const struct smcr_agreed *agreed)
{
	lgr->version = agreed->version;
	if (agreed->version < SMCR_CLC_VERSION_2)
		return;
	lgr->release = agreed->release;
	lgr->max_conns = agreed->max_conns;
	lgr->max_links = agreed->max_links;
	lgr->dialect = SMCR_DIALECT_DEPLOYED;
	lgr->v2.direct = agreed->direct;
	memcpy(lgr->v2.eid, agreed->eid, SMCR_EID_LEN);
}

void smcr_clc_learn_peer(struct smcr_lgr *lgr, const struct smcr_clc_accept *msg)
{
	lgr->v2.os = msg->fce.os;
	memcpy(lgr->v2.host, msg->fce.host, sizeof(lgr->v2.host));
}

/** The GIDs of RNICs that the group may use, first that of its first link: deployed servers choose
 * among them.
 */
static void fill_gids(const struct smcr_conn *conn, struct smcr_clc_accept *msg)
{
	const struct smcr_lgr *lgr = conn->lgr;
	const struct smcr_device *device;
	memcpy(msg->gids[msg->num_gids++], msg->gid, SMCR_GID_LEN);
	DL_FOREACH (conn->engine->devices, device) {
		if (msg->num_gids == SMCR_CLC_MAX_GIDS)
			return;
		if (device->info.active && !device->drained && device->info.vlan == lgr->vlan &&
		    device != conn->rv.link->device && smcr_gid_is_ipv4(device->info.gid) &&
		    smcr_device_on_prefix(device, &lgr->prefix))
			memcpy(msg->gids[msg->num_gids++], device->info.gid, SMCR_GID_LEN);
	}
}

void smcr_clc_fill_v2(const struct smcr_conn *conn, struct smcr_clc_accept *msg)
{
	const struct smcr_config *config = &conn->engine->config;
	const struct smcr_agreed *agreed = &conn->rv.agreed;
	msg->version = SMCR_CLC_VERSION_2;
	memcpy(msg->eid, agreed->eid, SMCR_EID_LEN);
	if (!conn->rv.first_contact)
		return;
	msg->first_contact = true; /* in a Confirm too */
	msg->fce = (struct smcr_clc_first_contact){ .direct = agreed->direct,
						    .os = SMCR_CLC_OS_LINUX,
						    .release = agreed->release };
	if (agreed->release) {
		msg->fce.max_conns = agreed->max_conns;
		msg->fce.max_links = agreed->max_links;
	}
	memset(msg->fce.host, ' ', sizeof(msg->fce.host));
	memcpy(msg->fce.host, config->host_name, strnlen(config->host_name, SMCR_EID_LEN));
	if (msg->type == SMCR_CLC_CONFIRM)
		fill_gids(conn, msg);
}

/* Deployed peers have no code for this and use the code for no device. */
uint32_t smcr_clc_diagnosis(enum smcr_reason reason)
{
	return reason == SMCR_REASON_UEID_MISMATCH ? SMCR_REASON_NO_DEVICE : reason;
}

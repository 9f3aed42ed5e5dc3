/* SPDX-License-Identifier: MIT */
/*
 * RNICs that an operator takes out of use: they get no new links, and their links are deleted in
 * good order if their group has another link. The last link of a group stays until another link
 * takes its place or its connections have ended.
 */
#include <errno.h>

#include "daemon/smcr/llc_delete_link.h"
#include "daemon/smcr/llc_links.h"
#include "daemon/smcr/view.h"

static bool is_drained(const struct smcr_link *link)
{
	return link->device && link->device->drained;
}

bool smcr_drain_is_everywhere(const struct smcr_lgr *lgr)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		const struct smcr_link *link = lgr->links[i];
		if (link && smcr_link_works(link) && !is_drained(link))
			return false;
	}
	return true;
}

/** Is a link of the group being deleted already, for whatever reason? */
static bool one_goes(const struct smcr_lgr *lgr)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		const struct smcr_link *link = lgr->links[i];
		if (link &&
		    (link->deletion.state != SMCR_DELETION_NONE ||
		     link->state == SMCR_LINK_DEACTIVATING || link->state == SMCR_LINK_FAILED))
			return true;
	}
	return false;
}

/* One link at a time: others may fail meanwhile, so the next one may be the last. */
void smcr_drain_leave(struct smcr_lgr *lgr)
{
	if (lgr->state != SMCR_LGR_ACTIVE || one_goes(lgr))
		return;
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		struct smcr_link *link = lgr->links[i];
		if (!link || !smcr_link_works(link) || !is_drained(link) ||
		    !smcr_llc_another_stays(link))
			continue;
		smcr_llc_delete_in_order(link);
		link->deletion.for_drain = true;
		return;
	}
}

/** The group's links are all on drained RNICs: try for a link on another RNIC. */
static void want_another(struct smcr_lgr *lgr)
{
	if (lgr->state == SMCR_LGR_ACTIVE && smcr_drain_is_everywhere(lgr))
		smcr_llc_want_link(lgr, SMCR_ADD_OPERATOR);
}

/** Keep links whose deletion the server has not begun. A client has asked for the deletion
 * already. */
static void keep_links(struct smcr_engine *engine, const struct smcr_device *device)
{
	struct smcr_link *link, *next;
	HASH_ITER (hh, engine->links, link, next)
		if (link->device == device && link->deletion.for_drain &&
		    link->deletion.state == SMCR_DELETION_WANTED && link->state == SMCR_LINK_ACTIVE)
			smcr_llc_cancel_deletion(link);
}

int smcr_engine_device_drain(struct smcr_engine *engine, uint32_t id, bool drained)
{
	struct smcr_device *device = smcr_device_by_id(engine, id);
	struct smcr_lgr *lgr;
	if (!device)
		return -ENODEV;
	if (device->drained == drained)
		return 0;
	device->drained = drained;
	if (!drained) {
		keep_links(engine, device);
		if (device->info.active)
			smcr_llc_rnic_appeared(engine, device);
		return 0;
	}
	DL_FOREACH (engine->lgrs, lgr) {
		want_another(lgr);
		smcr_llc_kick(lgr);
	}
	return 0;
}

bool smcr_engine_device_drained(const struct smcr_engine *engine, uint32_t id)
{
	const struct smcr_device *device = smcr_device_by_id((struct smcr_engine *)engine, id);
	return device && device->drained;
}

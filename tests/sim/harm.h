/* SPDX-License-Identifier: MIT */
/**
 * @file harm.h
 * What breaks and is mended in a run. With set.no_reset one link of every group, its anchor, is
 * spared. As long as a group has a sound anchor, none of its connections may be reset.
 */
#ifndef SMCRD_TESTS_SIM_HARM_H
#define SMCRD_TESTS_SIM_HARM_H

#include "tests/sim/host.h"

struct obs_group;

enum harm {
	HARM_PORT,   /* a port goes down */
	HARM_UNPLUG, /* a device is removed */
	HARM_FAULT,  /* one QP of a link goes into error */
	HARM_CUT,    /* packets between the devices of a link vanish */
	HARM_CUT_ONE_WAY,
	HARM_KINDS,
};

/** Break the port, device, QP or path at once, unless that would harm an anchor. What can be mended
 *  is mended after `time` (0: never). The host learns of each change a little later.
 * @return false: nothing was broken, to spare an anchor */
bool harm_port(struct device *device, uint64_t time);
bool harm_unplug(struct device *device, uint64_t time);
bool harm_cut(struct device *from, struct device *to, bool both, uint64_t time);
bool harm_fault(struct qp *qp);
/** Break one end of the link, or its path. */
bool harm_link(struct obs_link *link, enum harm kind, int end, uint64_t time);
/** At `when`, break something that is in use; sometimes more than one thing, at both ends of a link
 *  or shortly after one another. All of it is mended within `time`. */
void harm_something_at(struct world *w, uint64_t when, uint64_t time);
/** Mend everything, now. */
void harm_mend(struct world *w);

/** A port goes down or comes up by itself; its host is told later. */
void harm_set_port(struct device *device, bool up);
void harm_replug(struct device *device);

/** Choose (again) the link of the group that nothing may harm. Without a sound one the group is
 *  exposed: its connections may be reset. */
void harm_anchor(struct obs_group *group);
/** Is the link sound and known to both sides? */
bool harm_works(const struct obs_link *link);
/** Does the link work, and is its deletion not under way? */
bool harm_sound(const struct obs_link *link);

#endif

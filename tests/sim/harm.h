/* SPDX-License-Identifier: MIT */
/**
 * @file harm.h
 * What breaks and is mended in a run. With set.no_reset one link of every group is spared, its
 * anchor: as long as it is there and sound, no connection of the group may suffer.
 */
#ifndef SMCRD_TESTS_SIM_HARM_H
#define SMCRD_TESTS_SIM_HARM_H

#include "tests/sim/host.h"

struct obs_group;

enum harm {
	HARM_PORT,   /* goes down */
	HARM_UNPLUG, /* the device is gone */
	HARM_FAULT,  /* of one QP of a link */
	HARM_CUT,    /* packets between the devices of a link vanish */
	HARM_CUT_ONE_WAY,
	HARM_KINDS,
};

/** Break it at once, unless it would harm an anchor. What can be mended is mended after `time`
 *  (0: never). The host learns of it a little later.
 * @return false: spared */
bool harm_port(struct device *device, uint64_t time);
bool harm_unplug(struct device *device, uint64_t time);
bool harm_cut(struct device *from, struct device *to, bool both, uint64_t time);
bool harm_fault(struct qp *qp);
/** Break something of the link: at one of its ends, or its path. */
bool harm_link(struct obs_link *link, enum harm kind, int end, uint64_t time);
/** Break something that is in use, at `when`; with some luck more than one thing, at both ends or
 *  shortly after one another. Mended within `time`. */
void harm_something_at(struct world *w, uint64_t when, uint64_t time);
/** Everything is mended, now. */
void harm_mend(struct world *w);

/** A port state that nobody asked for is told to its host, late. */
void harm_set_port(struct device *device, bool up);
void harm_replug(struct device *device);

/** Choose (again) the link of the group that nothing may harm. Without a sound one the group is
 *  exposed: its connections may be reset. */
void harm_anchor(struct obs_group *group);
/** Is the link sound and known to both sides? */
bool harm_works(const struct obs_link *link);
/** And does it stay? */
bool harm_sound(const struct obs_link *link);

#endif

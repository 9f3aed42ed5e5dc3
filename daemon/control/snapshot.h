/* SPDX-License-Identifier: MIT */
/** @file snapshot.h All counts of smcrd at one moment, for `stats` and `metrics`. */
#ifndef SMCRD_CONTROL_SNAPSHOT_H
#define SMCRD_CONTROL_SNAPSHOT_H

#include "daemon/conns/view.h"
#include "daemon/control/control.h"
#include "daemon/smcr/stats.h"
#include "daemon/smcr/view.h"

struct snapshot {
	const struct control *control;
	uint64_t uptime_us;
	struct smcr_engine_view engine;
	struct smcr_engine_stats stats;
	struct conns_view conns;
	struct rdv_listeners listeners;
	struct egress_view egress;
};

void snapshot_take(const struct control *control, struct snapshot *ret_snapshot);

/** "8K" .. "512K", ">512K": name of a class of sizes. Static storage. */
const char *snapshot_size_name(unsigned int class);
/** "16K" .. "512K": name of a size code of buffers. Static storage. */
const char *snapshot_buffer_name(unsigned int code);

#endif

/* SPDX-License-Identifier: MIT */
/** @file snapshot.h All counts of smcrd at one moment, for `stats` and `metrics`. */
#ifndef SMCRD_CONTROL_SNAPSHOT_H
#define SMCRD_CONTROL_SNAPSHOT_H

#include "daemon/cm/cm.h"
#include "daemon/conns/view.h"
#include "daemon/control/control.h"
#include "daemon/smbgate/gate.h"
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
	struct cm_stats cm;
	uint64_t cm_conns[CM_STATE_ENDED]; /* how many are in each state but the last */
	uint64_t cm_listeners;
	struct smbgate_stats smbdirect;
	uint64_t smbdirect_conns[SMBGATE_ENDED]; /* as of cm */
	uint64_t smbdirect_listeners;
};

void snapshot_take(const struct control *control, struct snapshot *ret_snapshot);

/** "8K" .. "512K", ">512K": name of a class of sizes. Static storage. */
const char *snapshot_size_name(unsigned int class);
/** "16K" .. "512K": name of a size code of buffers. Static storage. */
const char *snapshot_buffer_name(unsigned int code);
/** "REQ" .. "SIDR_REP": name of a message, by its index in struct cm_stats. Static storage. */
const char *snapshot_cm_name(unsigned int message);

#define SNAPSHOT_CM_MESSAGES (sizeof((struct cm_stats){ 0 }.sent) / sizeof(uint64_t))

#endif

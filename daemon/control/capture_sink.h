/* SPDX-License-Identifier: MIT */
/** @file capture_sink.h One capture: turns messages into records (proto/capture/). */
#ifndef SMCRD_CONTROL_CAPTURE_SINK_H
#define SMCRD_CONTROL_CAPTURE_SINK_H

#include "daemon/cm/cm.h"
#include "daemon/control/internal.h"
#include "proto/capture/ring.h"

struct capture_sink {
	struct capture_ring ring;
	struct filter filter;          /* only its peer and link group are used */
	bool writes;                   /* the capture has RDMA WRITEs too */
	bool hide_keys;                /* the caller may not see RTokens and PSNs */
	unsigned int mark;             /* which of fabric_message.marks belongs to this capture */
	uint64_t serial;               /* unique number of the capture; 1.. */
	uint32_t rnics[CAPTURE_RNICS]; /* ids of the devices that were captured */
	unsigned int num_rnics;
};

/** Write a message into the ring if the filter lets it pass and it fits. */
void capture_sink_take(struct capture_sink *sink, const struct smcr_engine *engine,
		       const struct fabric_message *message);
/** The same for a message of the connection manager. A capture of a link group has none.
 *  @param fabric  knows the ids of devices */
void capture_sink_take_cm(struct capture_sink *sink, struct fabric *fabric,
			  const struct cm_message *message);

#endif

/* SPDX-License-Identifier: MIT */
/** @file capture_sink.h One capture: messages in, records out (proto/capture/). */
#ifndef SMCRD_CONTROL_CAPTURE_SINK_H
#define SMCRD_CONTROL_CAPTURE_SINK_H

#include "daemon/control/internal.h"
#include "proto/capture/ring.h"

struct capture_sink {
	struct capture_ring ring;
	struct filter filter;          /* peer and link group count */
	bool writes;                   /* RDMA WRITEs too */
	bool hide_keys;                /* RTokens and PSNs are not for who asks */
	unsigned int mark;             /* which of fabric_message.marks is its own */
	uint64_t serial;               /* no other capture has had it; 1.. */
	uint32_t rnics[CAPTURE_RNICS]; /* ids of the devices that were seen */
	unsigned int num_rnics;
};

/** Write a message into the ring if it is wanted and fits. */
void capture_sink_take(struct capture_sink *sink, const struct smcr_engine *engine,
		       const struct fabric_message *message);

#endif

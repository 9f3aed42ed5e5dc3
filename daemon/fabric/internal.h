/* SPDX-License-Identifier: MIT */
/** @file internal.h What the files of the fabric share: its structures. */
#ifndef SMCRD_FABRIC_INTERNAL_H
#define SMCRD_FABRIC_INTERNAL_H

#include <utlist.h>

#include "daemon/fabric/fabric.h"
#include "daemon/fabric/outbox.h"

struct alarm;

struct fabric_device {
	struct fabric *fabric;
	uint32_t id;
	uint16_t vlan;
	struct rnic *rnic;
	struct smcr_device_info info; /* as the engine was told */
	bool complained;              /* that memory cannot be registered */
	struct fabric_device *next, *prev;
};

struct fabric_qp {
	struct fabric *fabric;
	struct fabric_device *device;
	struct rnic_pd *pd; /* its own (A18) */
	struct rnic_qp *qp;
	uint64_t link_ref;
	struct outbox outbox;
	uint64_t first_wr_id; /* of those in the outbox; with an error, of those not posted */
	int post_error;       /* the engine is to be told of it */
	bool dirty;           /* on the list */
	struct fabric_qp *dirty_prev, *dirty_next;
	/* The one SEND that is too long to be posted inline, once there was one. */
	uint8_t *long_send;
	struct rnic_mr *long_mr;
	bool *destroyed; /* set through this when destroyed inside its own callback */
	uint64_t marks[FABRIC_MARKS];
};

struct fabric {
	struct fabric_params params;
	struct smcr_engine *engine;
	struct alarm *timer;
	uint32_t next_device_id;
	uint64_t activity; /* batches of completions so far */
	struct fabric_device *devices;
	struct fabric_qp *dirty;      /* with something in their outbox */
	const struct fabric_tap *tap; /* NULL: nobody looks */
};

/** Work of this kind begins. @return now */
uint64_t fabric_begin_work(struct fabric *fabric, enum fabric_work work);
/** Take what has arrived on any link (FO-8, see smcr_engine_recv()). The links of one device are no
 *  less separate than those of two; the QP that is being told is left alone by rnic_poll(). */
void fabric_poll_devices(struct fabric *fabric);
/** Post what is in outboxes. In no callback of the engine's. */
void fabric_post_all(struct fabric *fabric);

#endif

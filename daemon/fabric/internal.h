/* SPDX-License-Identifier: MIT */
/** @file internal.h The structures of the fabric, which its files share. */
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
	bool complained;              /* the log was told that memory cannot be registered */
	bool told_addresses;          /* the log was told that peers learn addresses */
	struct fabric_device *next, *prev;
};

struct fabric_qp {
	struct fabric *fabric;
	struct fabric_device *device;
	struct rnic_pd *pd; /* a PD of this QP alone (A18) */
	struct rnic_qp *qp;
	uint64_t link_ref;
	struct outbox outbox;
	uint64_t first_wr_id; /* first request of the outbox; with post_error: not posted */
	int post_error;       /* an error that the engine has to be told */
	bool dirty;           /* on the list fabric->dirty */
	bool want_ack;        /* of what the outbox has, too */
	struct fabric_qp *dirty_prev, *dirty_next;
	/* Memory for a SEND that is too long to be posted inline, once there was one. */
	uint8_t *long_send;
	struct rnic_mr *long_mr;
	bool *destroyed; /* where to note that the QP was destroyed inside its own callback */
	uint64_t marks[FABRIC_MARKS];
};

struct fabric {
	struct fabric_params params;
	struct smcr_engine *engine;
	struct alarm *timer;
	uint32_t next_device_id;
	uint64_t activity; /* how many batches of completions there were */
	struct fabric_device *devices;
	struct fabric_qp *dirty;      /* QPs with requests in their outbox */
	const struct fabric_tap *tap; /* NULL: none */
};

/** Tell params.at_work that work of this kind begins. @return the time */
uint64_t fabric_begin_work(struct fabric *fabric, enum fabric_work work);
/** Take everything that has arrived on any link (FO-8, see smcr_engine_recv()). This includes the
 * other links of the same device; rnic_poll() leaves out the QP whose callback is running. */
void fabric_poll_devices(struct fabric *fabric);
/** Post the requests of all outboxes. Not to be called inside an operation of the engine. */
void fabric_post_all(struct fabric *fabric);

#endif

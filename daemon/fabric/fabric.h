/* SPDX-License-Identifier: MIT */
/**
 * @file fabric.h
 * Where the engine meets the RDMA devices: gives it the RDMA operations of engine/ops.h on top of
 * rnic/rnic.h, and turns completions, device events and the passing of time into its inputs.
 * One event loop, one thread.
 */
#ifndef SMCRD_FABRIC_FABRIC_H
#define SMCRD_FABRIC_FABRIC_H

#include "daemon/engine/engine.h"
#include "daemon/engine/ops.h"
#include "daemon/rnic/rnic.h"

struct event_base;
struct fabric;

enum fabric_work {
	FABRIC_COMPLETIONS,
	FABRIC_TIMERS,  /* of the engine */
	FABRIC_DEVICES, /* something about an RNIC has changed */
};

struct fabric_params {
	struct event_base *base;
	const struct rnic_host_ops *host_ops;
	void *host_ctx;
	/** This is worked off from `now` on; may be NULL. */
	void (*at_work)(void *ctx, enum fabric_work work, uint64_t now);
	void *work_ctx;
	/** A device has gone and was closed: from inside its event, where none may be opened. May
	 * be NULL. */
	void (*device_gone)(void *ctx);
	void *gone_ctx;
	/** For operators: a device is in use, or its port is active again; or (`up` false) it has
	 * gone, or its port. `text` is a sentence about it. May be NULL. */
	void (*device_told)(void *ctx, const char *name, bool up, const char *text);
	void *told_ctx;
};

/** What captures keep on a link, zero at first. */
#define FABRIC_MARKS 2

/** Something that goes to an RNIC, or has come from one. */
struct fabric_message {
	uint64_t link_ref;  /* smcr_engine_get_link() tells of the link */
	uint32_t device_id; /* of its RNIC, as in fabric_each_device() */
	uint64_t *marks;    /* FABRIC_MARKS of them, of the link; the tap's to use */
	bool sent;          /* else received */
	bool is_write;      /* an RDMA WRITE, else a SEND */
	const uint8_t *data;
	uint32_t length;
	uint64_t remote_addr; /* WRITE */
	uint32_t rkey;        /* WRITE */
};

/** Who looks at messages: as they are posted, in their order; and before the engine is given them.
 *  A write of the peer is seen when the message comes that announces its bytes. */
struct fabric_tap {
	bool writes; /* of RDMA WRITEs too */
	/** Must not call the engine but for what is [anywhere]. */
	void (*message)(void *ctx, const struct fabric_message *message);
	void *ctx;
};

/** For the engine's operations (ops.h); the fabric is their context. */
extern const struct smcr_rdma_ops fabric_rdma_ops;

/** A fabric without an engine and without devices. @return 0 or -ENOMEM */
int fabric_new(const struct fabric_params *params, struct fabric **ret_fabric);
/** The engine that has the fabric's operations. To be called before anything below that the engine
 *  hears of: devices, turns, taps. */
void fabric_attach(struct fabric *fabric, struct smcr_engine *engine);
/** Closes every device. The engine has been freed before, and its queue pairs with it. NULL is
 *  allowed. */
void fabric_free(struct fabric *fabric);

/** From now on `tap` looks at all messages, in the place of the one before; it outlives that.
 *  NULL: nobody does, which costs nothing. */
void fabric_set_tap(struct fabric *fabric, const struct fabric_tap *tap);

/** Microseconds of CLOCK_MONOTONIC: the engine's time. */
uint64_t fabric_now(void);

/** Give the RNICs what was posted, and arm the timer for the engine's next deadline. To be called
 * after each turn of the event loop. May be called earlier, but not in a callback of the engine's.
 */
void fabric_end_turn(struct fabric *fabric);

/** A count that grows with each batch of completions: has anything happened lately? */
uint64_t fabric_activity(const struct fabric *fabric);

/**
 * Open an RNIC and give it to the engine. `vlan` is that of its interface, or SMCR_NO_VLAN.
 * @return 0, or as rnic_open() with its sentence; -EEXIST if it is open
 */
int fabric_add_device(struct fabric *fabric, const char *name, uint16_t vlan,
		      char ret_error[RNIC_ERROR_LEN]);
/** Close one that fabric_add_device() has opened. Links that use it fail.
 *  @param why  in words, for operators */
void fabric_remove_device(struct fabric *fabric, const char *name, const char *why);
/** Take one out of use, or use it again: smcr_engine_device_drain(). @return 0; -ENODEV: it is not
 *  open */
int fabric_drain_device(struct fabric *fabric, const char *name, bool drained);
/** The process is about to end: what the engine destroys from now on goes on to answer its peers
 *  until then, rnic_leave(). */
void fabric_leave(struct fabric *fabric);
/** Is a device open on which something new may come? */
bool fabric_takes_new(const struct fabric *fabric);
/** Is there a link that uses it? */
bool fabric_device_in_use(const struct fabric *fabric, const char *name);
/** May the pages of RMBs and send buffers change? Verbs devices hold on to those that were
 *  registered. */
bool fabric_can_share(struct fabric *fabric);
/** Number of devices that are open. */
size_t fabric_num_devices(const struct fabric *fabric);
/** The RNIC of a kind on that interface, or on any if `ifindex` is 0; or NULL. */
struct rnic *fabric_find_rnic(struct fabric *fabric, enum rnic_kind kind, unsigned int ifindex);

/** For views: every device with the engine's id of it. */
void fabric_each_device(struct fabric *fabric,
			void (*fn)(void *arg, uint32_t id, struct rnic *rnic), void *arg);
/** Counters of the QP behind a `struct smcr_link_view.qp` handle. */
void fabric_qp_stats(void *qp, struct rnic_qp_stats *ret_stats);

#endif

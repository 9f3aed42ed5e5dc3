/* SPDX-License-Identifier: MIT */
/**
 * @file fabric.h
 * Where the engine meets the RDMA devices: gives it the RDMA operations of daemon/smcr/ops.h on top
 * of rnic/rnic.h, and turns completions, device events and the passing of time into its inputs. One
 * event loop, one thread.
 */
#ifndef SMCRD_FABRIC_FABRIC_H
#define SMCRD_FABRIC_FABRIC_H

#include "daemon/rnic/rnic.h"
#include "daemon/smcr/engine.h"
#include "daemon/smcr/ops.h"

struct event_base;
struct fabric;

enum fabric_work {
	FABRIC_COMPLETIONS,
	FABRIC_TIMERS,  /* timers of the engine */
	FABRIC_DEVICES, /* changes of RNICs */
};

/** What an RNIC's other users have to know. */
enum fabric_change {
	FABRIC_DEVICE_OPENED,
	FABRIC_DEVICE_CHANGED, /* as RNIC_EVENT_CHANGED, _PORT_ACTIVE or _PORT_DOWN */
	FABRIC_DEVICE_CLOSING, /* it is still there */
};

struct fabric_params {
	struct event_base *base;
	const struct rnic_host_ops *host_ops;
	void *host_ctx;
	/** Work of this kind begins at `now`; may be NULL. */
	void (*at_work)(void *ctx, enum fabric_work work, uint64_t now);
	void *work_ctx;
	/** A device is gone and was closed. Called inside the device's event, where no device may
	 * be opened. May be NULL. */
	void (*device_gone)(void *ctx);
	void *gone_ctx;
	/** For operators: a device is in use or its port is active again, or (`up` false) the
	 * device is gone or its port is down. `text` is a sentence about that. May be NULL. */
	void (*device_told)(void *ctx, const char *name, bool up, const char *text);
	void *told_ctx;

	/** For who uses RNICs beside the engine. No device may be opened or closed inside. May be
	 * NULL. */
	void (*device_changed)(void *ctx, struct rnic *rnic, enum fabric_change change);
	void *changed_ctx;

	/** The device goes by another name now, that of its interface. May be NULL. */
	void (*device_renamed)(void *ctx, const char *before, const char *now);
	void *renamed_ctx;
};

/** How many numbers a tap keeps with each link; zero at first. */
#define FABRIC_MARKS 2

/** A message, or an RDMA WRITE, that goes to an RNIC or has come from one. */
struct fabric_message {
	uint64_t link_ref;  /* the link, for smcr_engine_get_link() */
	uint32_t device_id; /* the link's RNIC, as in fabric_each_device() */
	uint64_t *marks;    /* FABRIC_MARKS numbers of the link, for use by the tap */
	bool sent;          /* false: received */
	bool is_write;      /* false: a SEND */
	const uint8_t *data;
	uint32_t length;
	uint64_t remote_addr; /* WRITE */
	uint32_t rkey;        /* WRITE */
};

/** A tap gets all messages: sent ones when they are posted, in their order, and received ones
 * before the engine gets them. A write of the peer is shown when the message comes that announces
 * its bytes. */
struct fabric_tap {
	bool writes; /* the tap gets RDMA WRITEs too */
	/** May call only those functions of the engine that are [anywhere]. */
	void (*message)(void *ctx, const struct fabric_message *message);
	void *ctx;
};

/** The RDMA operations for the engine (ops.h); their context is the fabric. */
extern const struct smcr_rdma_ops fabric_rdma_ops;

/** Make a fabric without an engine and without devices. @return 0 or -ENOMEM */
int fabric_new(const struct fabric_params *params, struct fabric **ret_fabric);
/** Set the engine, which was made with the fabric's operations. To be called before all functions
 * below that call the engine: those about devices, turns and taps. */
void fabric_attach(struct fabric *fabric, struct smcr_engine *engine);
/** Close every device and free the fabric. The engine must have been freed before, and its queue
 * pairs with it. NULL is allowed. */
void fabric_free(struct fabric *fabric);

/** From now on `tap` gets all messages, instead of the tap before; it must exist until it is
 * replaced. NULL: no tap, which costs no time. */
void fabric_set_tap(struct fabric *fabric, const struct fabric_tap *tap);

/** Microseconds of CLOCK_MONOTONIC: the engine's time. */
uint64_t fabric_now(void);

/** Give posted requests to the RNICs, and arm the timer for the engine's next deadline. To be
 * called after each turn of the event loop. May be called earlier too, but not inside an operation
 * of the engine.
 */
void fabric_end_turn(struct fabric *fabric);

/** A count of batches of completions: it shows whether anything has happened since it was read
 * last. */
uint64_t fabric_activity(const struct fabric *fabric);

/**
 * Open an RNIC and give it to the engine. `vlan` is that of its interface, or SMCR_NO_VLAN.
 * @return 0, or as rnic_open() with its sentence; -EEXIST if it is open
 */
int fabric_add_device(struct fabric *fabric, const char *name, uint16_t vlan,
		      char ret_error[RNIC_ERROR_LEN]);
/** Close a device that fabric_add_device() has opened. Links that use it fail.
 *  @param why  in words, for operators */
void fabric_remove_device(struct fabric *fabric, const char *name, const char *why);
/** Take a device out of use, or use it again: smcr_engine_device_drain(). @return 0; -ENODEV: it is
 * not open */
int fabric_drain_device(struct fabric *fabric, const char *name, bool drained);
/** The process is about to end: queue pairs that the engine destroys from now on go on answering
 * peers until then, see rnic_leave(). */
void fabric_leave(struct fabric *fabric);
/** Is a device open that may get new links? */
bool fabric_takes_new(const struct fabric *fabric);
/** Does a link use the device? */
bool fabric_device_in_use(const struct fabric *fabric, const char *name);
/** May the pages of RMBs and send buffers be replaced? Not with verbs devices, which keep using the
 * pages that were registered. */
bool fabric_can_share(struct fabric *fabric);
/** Number of devices that are open. */
size_t fabric_num_devices(const struct fabric *fabric);
/** An RNIC of that kind on the interface, or on any if `ifindex` is 0; or NULL. */
struct rnic *fabric_find_rnic(struct fabric *fabric, enum rnic_kind kind, unsigned int ifindex);

/** For views: call `fn` for every device, with the id that the engine has for it. */
void fabric_each_device(struct fabric *fabric,
			void (*fn)(void *arg, uint32_t id, struct rnic *rnic), void *arg);
/** Counters of the QP behind a `struct smcr_link_view.qp` handle. */
void fabric_qp_stats(void *qp, struct rnic_qp_stats *ret_stats);

#endif

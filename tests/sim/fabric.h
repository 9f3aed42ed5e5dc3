/* SPDX-License-Identifier: MIT */
/**
 * @file fabric.h
 * A fake RNIC and its network: reliable-connected QPs as rnic.h describes them.
 *
 * Requests of a QP execute at the peer once, in order, each after a delay of its own; a WRITE
 * copies into the registered memory behind (PD, rkey, bounds), a SEND is queued for the receiver.
 * Then an acknowledgement travels back, and completions are reported in batches: a signaled success
 * covers all earlier requests. A request that finds the peer not ready, the path cut or a port down
 * is tried again until the QP's retry limit; then it fails and everything behind it is flushed,
 * although it may have been executed if only the acknowledgement was lost. Breaking the rules of
 * the RNIC (bad rkey, bounds, a changed send buffer) is a violation.
 */
#ifndef SMCRD_TESTS_SIM_FABRIC_H
#define SMCRD_TESTS_SIM_FABRIC_H

#include <uthash.h>
#include <utlist.h>

#include "daemon/smcr/ops.h"
#include "tests/sim/world.h"

#define SIM_MESSAGE_LEN 44

enum qp_state {
	QP_INIT,
	QP_RTR,
	QP_RTS,
	QP_ERR,
	QP_DESTROYED,
};

struct obs_rmb;
struct obs_link;
struct obs_flow;

struct device {
	struct world *world;
	struct host *host;
	size_t index; /* in the fabric */
	struct smcr_device_info info;
	bool present; /* plugged in */
	bool known;   /* to its host's engine */
	bool port_up;
	uint32_t num_qps;
};

/** Memory that a host's engine asked for. Lives as long as the world, its bytes until mem_free. */
struct block {
	struct host *host;
	uint32_t id;
	uint8_t *base;
	size_t len;
	bool freed;
	uint32_t num_mrs;
	struct obs_rmb *rmb; /* once a peer was told of it */
	struct block *next, *prev;
};

struct mr {
	uint32_t key; /* lkey and rkey */
	struct qp *qp;
	struct block *block;
	uint8_t *addr;
	uint64_t vaddr; /* for the peer: not its address */
	size_t len;
	bool remote;
	UT_hash_handle hh;
};

enum wr_state {
	WR_FLYING,
	WR_EXECUTED,
	WR_ACKED,
	WR_FAILED,
	WR_FLUSHED,
};

/** What a scenario has decided to do to a request. */
enum fate {
	FATE_NONE,
	FATE_LOST,       /* acknowledged, but never handed to the peer's engine */
	FATE_FAILS,      /* it fails before it is executed at the peer */
	FATE_FAILS_LATE, /* it fails after it was executed at the peer */
};

/** A posted request on its way. */
struct request {
	struct smcr_wr wr;
	enum fate fate;
	uint8_t payload[SIM_MESSAGE_LEN]; /* of a SEND, or its beginning */
	uint8_t *longer;                  /* all of it, if it is longer */
	enum wr_state state;
	uint64_t ready_at; /* when it reaches the peer */
	uint64_t ack_at;
	uint64_t first_try; /* 0: not tried yet */
	bool rnr_done;
	uint64_t hash;          /* of a WRITE's bytes when it was posted */
	struct obs_flow *flow;  /* the flow that it carries data or a CDC of */
	struct obs_flow *proof; /* a WRITE that only tries the path: the flow of the element */
	uint64_t pos;           /* WRITE: position of its first byte in the stream */
};

struct message {
	uint64_t when;
	uint64_t order; /* of arrival, over all QPs */
	uint8_t data[SIM_MESSAGE_LEN];
	uint8_t *longer; /* the message, if it does not fit there */
	uint32_t len;
};

static inline const uint8_t *request_bytes(const struct request *req)
{
	return req->longer ? req->longer : req->payload;
}

static inline const uint8_t *message_bytes(const struct message *msg)
{
	return msg->longer ? msg->longer : msg->data;
}

struct qp {
	struct world *world;
	struct device *device;
	struct host *host;
	uint64_t link_ref;
	uint32_t qpn;
	enum qp_state state;
	uint32_t depth;
	uint32_t recv_len; /* of its receive buffers */
	uint32_t num_mrs;
	struct smcr_qp_peer peer;
	uint32_t psn;
	uint64_t retry_us;
	/* send queue: counters of requests; request i stands at sq[i % depth] */
	struct request *sq;
	uint64_t posted, executed, acked, reported;
	uint64_t last_ready, last_ack;
	bool arrive_pending, ack_pending, cq_pending;
	/* receive queue */
	struct message *rq;
	size_t rq_len, rq_cap;
	uint64_t last_recv;
	bool recv_pending;
	struct obs_link *link;
	UT_hash_handle hh;
};

struct fabric {
	struct world *world;
	struct device *devices[SIM_MAX_DEVICES];
	size_t num_devices;
	bool cut[SIM_MAX_DEVICES][SIM_MAX_DEVICES]; /* no packet passes from row to column */
	/** Packets with more bytes of data than this vanish from row to column; 0: no limit. */
	uint32_t most[SIM_MAX_DEVICES][SIM_MAX_DEVICES];
	struct qp *qps; /* by number, destroyed ones included */
	struct mr *mrs; /* by key */
	struct block *blocks;
	uint32_t next_block;
	uint64_t next_message;
};

struct fabric *fabric_new(struct world *w);
void fabric_free(struct fabric *fabric);

/** A device of `host` on LAN number `lan`: its addresses are 10.lan.0.x/24 and fd00:lan::x/64. */
struct device *fabric_device_new(struct world *w, struct host *host, unsigned int lan, uint8_t mtu);
/** Packets from one device to another vanish, or come through again. */
void fabric_cut_one(struct fabric *fabric, size_t from, size_t to, bool cut);
/** Both directions between two devices. */
void fabric_cut(struct fabric *fabric, size_t a, size_t b, bool cut);
/** Packets from one device to another with more than `most` bytes of data vanish; 0: no limit. */
void fabric_limit(struct fabric *fabric, size_t from, size_t to, uint32_t most);
/** Unplug: its QPs are in error at once. The host must be told. */
void fabric_device_unplug(struct device *device);

/** A live QP of any host goes into error by itself; its host is told soon after. */
void fabric_qp_fault(struct fabric *fabric);

/* The host's operations on memory and queue pairs. */
int fabric_mem_alloc(struct host *host, size_t len, struct block **ret_block);
void fabric_mem_free(struct host *host, void *addr, size_t len);
struct block *fabric_block_at(struct host *host, const void *addr);
int fabric_qp_create(struct device *device, uint64_t link_ref, uint32_t depth, uint32_t recv_len,
		     struct qp **ret_qp);
int fabric_qp_connect(struct qp *qp, const struct smcr_qp_peer *peer);
int fabric_qp_start(struct qp *qp, uint32_t psn, uint32_t retry_ms);
void fabric_qp_set_retry(struct qp *qp, uint32_t retry_ms);
void fabric_qp_want_ack(const struct qp *qp);
void fabric_qp_error(struct qp *qp);
void fabric_qp_destroy(struct qp *qp);
int fabric_mr_register(struct qp *qp, void *addr, size_t len, bool remote, struct mr **ret_mr);
void fabric_mr_deregister(struct mr *mr);
int fabric_post(struct qp *qp, const struct smcr_wr *wr, size_t n);
struct qp *fabric_qp_find(struct fabric *fabric, uint32_t qpn);
struct mr *fabric_mr_find(struct fabric *fabric, uint32_t key);

#endif

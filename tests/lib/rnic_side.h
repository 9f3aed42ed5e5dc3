/* SPDX-License-Identifier: MIT */
/**
 * @file rnic_side.h
 * One end of an RNIC test: a device with a PD, registered memory and a queue pair, and a record of
 * everything that the RNIC reported. Failures abort with a message.
 */
#ifndef SMCRD_TESTS_RNIC_SIDE_H
#define SMCRD_TESTS_RNIC_SIDE_H

#include <event2/event.h>

#include "daemon/rnic/rnic.h"

struct rnic_message {
	uint32_t length;
	uint8_t *data;
};

struct rnic_side {
	struct event_base *base;
	struct rnic *rnic;
	struct rnic_pd *pd;
	struct rnic_mr *mr;     /* `mem`, for writes of the peer */
	struct rnic_mr *source; /* `mem`, for own requests */
	uint8_t *mem;
	size_t mem_len;
	struct rnic_qp *qp;
	uint32_t psn; /* own initial send PSN */
	/* To be set before rnic_side_qp() and rnic_side_connect(), if they shall not be 0. */
	unsigned int max_sge;
	uint8_t reads_asked, reads_answered;

	struct rnic_wc *sends; /* completions of work requests, in order */
	size_t num_sends;
	struct rnic_message *messages; /* SENDs received, in order */
	size_t num_messages;
	size_t recv_errors;
	struct rnic_wc *recvs; /* completions of receives, in order */
	size_t num_recvs;
	size_t batches;         /* callback runs */
	unsigned int events[4]; /* by enum rnic_event_type */

	/** If set, called for each completion. */
	void (*hook)(struct rnic_side *side, const struct rnic_wc *wc);
	void *hook_ctx;
	/** If set before rnic_side_qp(), rnic_qp_params.user_receives. */
	bool user_receives;
	/** If set before rnic_side_qp(), what rnic_qp_params.may_give_up answers. */
	bool (*may_give_up)(struct rnic_side *side, uint64_t silent_us);
};

/** Open "soft:IFNAME" in the calling thread's namespace, a PD and `mem_len` bytes for remote
 * writes. */
void rnic_side_open(struct rnic_side *side, struct event_base *base, const char *name,
		    size_t mem_len);
/** Create the queue pair. */
void rnic_side_qp(struct rnic_side *side, unsigned int send_depth, unsigned int recv_depth,
		  unsigned int recv_size);
/** What the peer must know about this side's queue pair. `gid` is the index of a GID. */
struct rnic_qp_peer rnic_side_peer(const struct rnic_side *side, size_t gid, uint8_t path_mtu);
/** Bring the queue pair to RTR and RTS. */
void rnic_side_connect(struct rnic_side *side, const struct rnic_qp_peer *peer,
		       unsigned int retry_ms, unsigned int rnr_retry);
/** Connect two sides with each other, path MTU code `path_mtu`, retry limit 4 s. */
void rnic_side_join(struct rnic_side *a, struct rnic_side *b, uint8_t path_mtu);
/** Destroy the queue pair, if there is one. */
void rnic_side_qp_destroy(struct rnic_side *side);
/** Another queue pair can be made of `ret_twin`: the same device and memory, an empty record, no
 * hook.
 */
void rnic_side_twin(const struct rnic_side *side, struct rnic_side *ret_twin);
/** Empty the record. */
void rnic_side_forget(struct rnic_side *side);
void rnic_side_close(struct rnic_side *side);

/** Post one signaled WRITE of own memory [from, from+len) to the peer's [to, ...), and one SEND. */
int rnic_side_write(struct rnic_side *side, size_t from, uint32_t len, const struct rnic_side *peer,
		    size_t to, uint64_t wr_id);
int rnic_side_send(struct rnic_side *side, const void *data, uint32_t len, uint64_t wr_id);
/** Post one signaled READ into own memory [to, to+len), from `remote_addr` of the peer with `rkey`.
 */
int rnic_side_read(struct rnic_side *side, size_t to, uint32_t len, uint64_t remote_addr,
		   uint32_t rkey, uint64_t wr_id);
/** Post a buffer for receives, own memory [at, at+len). */
int rnic_side_post_recv(struct rnic_side *side, size_t at, uint32_t len, uint64_t wr_id);

/** Run the event loop until `*count >= want`. @return false after `ms` */
bool rnic_side_wait(struct event_base *base, const size_t *count, size_t want, unsigned int ms);
/** Run the event loop for a time in which nothing is expected. */
void rnic_side_idle(struct event_base *base, unsigned int ms);

/** Deterministic bytes. */
void rnic_side_pattern(uint8_t *mem, size_t len, uint32_t seed);

#endif

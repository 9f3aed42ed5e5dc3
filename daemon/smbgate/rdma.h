/* SPDX-License-Identifier: MIT */
/**
 * @file rdma.h
 * The RDMA side of a connection of the gateway: a queue pair with its memory, and SMB Direct on it
 * (daemon/smbdirect). Messages, and transfers between blocks and the peer's memory, in the order in
 * which they were asked for.
 *
 * Threads: one, the event loop's. Operations of the user are called from the event loop, and inside
 * rdma_connected(), rdma_send() and the like. Inside an operation everything here may be called but
 * rdma_free().
 */
#ifndef SMCRD_SMBGATE_RDMA_H
#define SMCRD_SMBGATE_RDMA_H

#include <event2/event.h>

#include "daemon/rnic/rnic.h"
#include "daemon/smbdirect/transport.h"
#include "daemon/smbgate/memory.h"
#include "proto/smbdirect/smbdirect.h"

struct rdma;

/** What the user hears; all are required. */
struct rdma_ops {
	/** A message of SMB Direct of `len` bytes is sent, or has come: for those who want to
	 * watch. Of what is sent the head alone is at `bytes`. @param negotiates  a Negotiate
	 * message, else a Data Transfer message */
	void (*seen)(void *ctx, bool sent, bool negotiates, const uint8_t *bytes, size_t len);
	void (*established)(void *ctx);
	/** A message has come. `data` is valid until the call returns. @param token a token of
	 * rdma_offer() that the peer has invalidated with it; NULL: none */
	void (*message)(void *ctx, const uint8_t *data, size_t len, const uint32_t *token);
	/** All transfers of one rdma_read() or rdma_write() are done. */
	void (*transferred)(void *ctx, void *tag);
	/** Messages that waited have left, or blocks are free: there may be room again. */
	void (*room)(void *ctx);
	/** The last operation: the connection is at its end, and the queue pair in error. Transfers
	 * that are not done will never be. */
	void (*ended)(void *ctx, enum smbd_end end);
};

struct rdma_params {
	struct event_base *base;
	struct rnic *rnic;
	enum smbd_role role;
	struct smbd_config config;
	struct memory_budget *budget;
	size_t most_memory;
	const struct rdma_ops *ops;
	void *ctx;
};

/** Make a queue pair in INIT, with its first receive posted.
 * @return 0, or a negative errno with a sentence */
int rdma_new(const struct rdma_params *params, struct rdma **ret_rdma,
	     char ret_error[RNIC_ERROR_LEN]);
/** Free it. The user holds no block any more. NULL is allowed. */
void rdma_free(struct rdma *rdma);

struct rnic_qp *rdma_qp(struct rdma *rdma);
/** The connection manager has connected the queue pair. */
void rdma_connected(struct rdma *rdma);

/** As smbd_send(). Leaves behind all transfers that were asked for before. */
int rdma_send(struct rdma *rdma, uint8_t *data, size_t len, const uint32_t *token);
/** Take no further messages for the moment, or take them again. */
void rdma_hold(struct rdma *rdma, bool hold);

/** A piece of a transfer: bytes of a block from `at` on, and as many of the peer's memory. */
struct rdma_piece {
	size_t at;
	struct smbdirect_descriptor remote;
};

/**
 * Fetch the peer's memory into a block, or write bytes of a block there (SMBD-152, SMBD-153). The
 * block is held until it is done.
 * @param n    pieces, at least 1
 * @param tag  for `transferred`
 * @return 0; -ENOMEM; -ENOTCONN
 */
int rdma_read(struct rdma *rdma, struct block *block, const struct rdma_piece *pieces, size_t n,
	      void *tag);
int rdma_write(struct rdma *rdma, struct block *block, const struct rdma_piece *pieces, size_t n,
	       void *tag);

/** A block of this connection's memory, see block_get(). After -EAGAIN `room` follows. */
struct block *rdma_block(struct rdma *rdma, enum block_use use, size_t len, int *ret_error);
/** Bytes of its memory, see memory_used(). */
size_t rdma_memory(const struct rdma *rdma);

/** Memory that was given to the peer. */
struct rdma_offer;

/**
 * Give the peer a token for bytes of an offered block (SMBD-143).
 * @param write  the peer writes there; else the peer reads
 * @param ret_descriptor  what the peer has to be told
 * @return 0; -ENOMEM; -EAGAIN: the send queue is full for the moment
 */
int rdma_offer(struct rdma *rdma, struct block *block, size_t at, uint32_t len, bool write,
	       struct rdma_offer **ret_offer, struct smbdirect_descriptor *ret_descriptor);
/** Take it back: the peer cannot reach the memory any more (SMBD-148). */
void rdma_offer_end(struct rdma_offer *offer);

/** Has everything that was asked for arrived at the peer? */
bool rdma_is_idle(const struct rdma *rdma);
void rdma_get_view(const struct rdma *rdma, struct smbd_view *ret_view);
/** Payload bytes by RDMA READ and WRITE of this side. */
void rdma_get_bytes(const struct rdma *rdma, uint64_t *ret_read, uint64_t *ret_written);

#endif

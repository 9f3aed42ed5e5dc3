/* SPDX-License-Identifier: MIT */
/**
 * @file memory.h
 * Memory that is registered with the RNIC of one connection, in blocks that are used again: to
 * register memory costs more than to copy it. Its sum is bounded for each connection, and for all.
 * Blocks that a connection does not use at the moment give way to those that others need; and
 * whoever was refused is told when there may be room again.
 *
 * Threads: the event loop's.
 */
#ifndef SMCRD_SMBGATE_MEMORY_H
#define SMCRD_SMBGATE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/rnic/rnic.h"

/** The largest block, which has to hold a whole SMB message. */
#define BLOCK_MOST (17u << 20)

enum block_use {
	BLOCK_OWN,     /* own requests read and write it, the peer does not */
	BLOCK_OFFERED, /* the peer may read and write what a token is given for */
	BLOCK_USES,
};

struct memory;

/** What all connections may use together. Zeros but for `most` at first. */
struct memory_budget {
	size_t used, most;  /* bytes */
	struct memory *all; /* of all connections */
};

struct block {
	uint8_t *bytes;
	size_t size; /* at least what was asked for */
	struct rnic_mr *mr;
	enum block_use use;
	unsigned int holders;
	struct memory *memory;
	struct block *next;
};

/**
 * Memory of a protection domain.
 * @param most  bytes of this connection's blocks
 * @param room  called once after a refusal, when there may be room again; from inside calls for
 *              any memory of the budget, so it must not call back
 */
int memory_new(struct rnic_pd *pd, struct memory_budget *budget, size_t most,
	       void (*room)(void *ctx), void *ctx, struct memory **ret_memory);
/** Free it. Nobody may hold a block any more. NULL is allowed. */
void memory_free(struct memory *memory);

/** A block of at least `len` bytes, with one holder. Its bytes are those of earlier use.
 * @return NULL: `*ret_error` is -EAGAIN, the bounds are reached; or another negative errno: there
 * is no memory, the RNIC cannot register it, or none is so large */
struct block *block_get(struct memory *memory, enum block_use use, size_t len, int *ret_error);
void block_hold(struct block *block);
/** A holder is done; NULL is allowed. */
void block_put(struct block *block);
/** Count `bytes` of memory that is not registered; they replace those that were counted before. The
 * bound for all connections alone holds. @return false: they are not counted */
bool memory_reserve(struct memory *memory, size_t bytes);
/** Bytes of all blocks, and of what is reserved. */
size_t memory_used(const struct memory *memory);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file chunks.h
 * Where data goes in chunks of RPC-over-RDMA. All functions only compute; the lists come from the
 * peer, and every number in them is checked here.
 */
#ifndef SMCRD_RPCRDMA_CHUNKS_H
#define SMCRD_RPCRDMA_CHUNKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/rpcrdma/rpcrdma.h"

/** How many Read chunks there are: different positions (RR2-101). */
uint32_t rpcr_count_reads(const struct rpcrdma_lists *lists);

/**
 * Check the Read list of a Call, and find how long the RPC message is with its data in it. Padding
 * of a chunk is not in it, and comes back into the message (RR2-97, RR2-104).
 * @param is_msg     the message has `len` bytes beside the chunks, and no chunk with position 0
 *                   [X29]; else it is one chunk with that position, and those within it (RR2-127)
 * @return 0; -EBADMSG: positions that are no multiples of 4 (RR2-102), or lie behind the end,
 *         or within another chunk (RR2-106)
 */
int rpcr_check_reads(const struct rpcrdma_lists *lists, bool is_msg, size_t len, uint64_t *ret_len);

/**
 * Put a Call together (RR2-103). To be called after rpcr_check_reads().
 * @param payload  the bytes beside the chunks; NULL: they are in the chunk with position 0
 * @param data     of each segment in the order of the Read list, one behind the other
 * @param ret_call room for all of it
 */
void rpcr_rebuild(const struct rpcrdma_lists *lists, const uint8_t *payload, size_t len,
		  const uint8_t *data, uint8_t *ret_call);

/** Bytes of a chunk: the sum of its segments (RR2-98). */
uint64_t rpcr_chunk_len(const struct rpcrdma_lists *lists, const struct rpcrdma_chunk *chunk);

/** Set the lengths of a chunk's segments to what data of `len` bytes takes of each: they are filled
 * one after the other (RR2-108, RR2-109). @return false: it is longer than the chunk */
bool rpcr_set_written(struct rpcrdma_lists *lists, const struct rpcrdma_chunk *chunk, uint32_t len);

#endif

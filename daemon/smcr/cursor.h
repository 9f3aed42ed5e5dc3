/* SPDX-License-Identifier: MIT */
/**
 * @file cursor.h
 * Position arithmetic (RFC 7609 section 4.7, A.4; CDC-7, CDC-8): the one place where stream
 * positions become wire cursors and element offsets, and back.
 *
 * A position is a 64-bit count of bytes since the start of a direction. An element of E bytes has U
 * usable ones: its first E - U bytes are not data (the eye catcher in the RFC dialect: U = E - 4;
 * deployed: U = E), so offsets run from E - U to E - 1. E need not be a power of two. The wire has
 * 16 bits of wrap count: cursors repeat every 65536 * U bytes, far beyond the U that can be in
 * flight, so that a cursor names one position near a known one: with equal offsets an empty element
 * and a full one differ by their wrap counts (CDC-9).
 */
#ifndef SMCRD_SMCR_CURSOR_H
#define SMCRD_SMCR_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/smcr/cdc.h"

/** An element as both sides count in it. 0 < U <= E. */
struct smcr_ring {
	uint32_t size;   /* E */
	uint32_t usable; /* U */
};

/** Offset in the element of the byte at this position (CDC-7). */
static inline uint32_t smcr_ring_offset(struct smcr_ring ring, uint64_t pos)
{
	return ring.size - ring.usable + (uint32_t)(pos % ring.usable);
}

/** Bytes from this position to the end of the element, 1..U. */
static inline uint32_t smcr_ring_run(struct smcr_ring ring, uint64_t pos)
{
	return ring.usable - (uint32_t)(pos % ring.usable);
}

/** The cursor on the wire for a position; its wrap count follows from the position (CDC-8). */
struct smcr_cdc_cursor smcr_cursor_encode(struct smcr_ring ring, uint64_t pos);

/**
 * The position that a received cursor names, given the last position that was accepted. A cursor up
 * to U bytes behind that position is not wrong, but says nothing new: a peer that replays after a
 * failover (FO-9) counts from where its old writes completed (A44).
 * @param known    last position accepted
 * @param limit    furthest position the peer may name, known <= limit <= known + U
 * @param ret_pos  known..limit
 * @return 0, or -ERANGE (CDC-12: offset outside the element, or position beyond the limit)
 */
int smcr_cursor_decode(struct smcr_ring ring, struct smcr_cdc_cursor cursor, uint64_t known,
		       uint64_t limit, uint64_t *ret_pos);

/** Is CDC number `a` newer than `b`? Serial arithmetic modulo 2^16 (CDC-3, A23). */
static inline bool smcr_cdc_seq_newer(uint16_t a, uint16_t b)
{
	return (int16_t)(uint16_t)(a - b) > 0;
}

#endif

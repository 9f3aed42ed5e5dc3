/* SPDX-License-Identifier: MIT */
/**
 * @file hold.h
 * Keeps packets that came before their turn for a short time, until the missing ones arrive. So
 * reordering on the way causes no retransmission. The number of packets of a QP and the bytes of a
 * device are bounded.
 */
#ifndef SMCRD_RNIC_SOFT_HOLD_H
#define SMCRD_RNIC_SOFT_HOLD_H

#include <stddef.h>
#include <stdint.h>

#define SOFT_HOLD_PACKETS 4096 /* how far ahead a kept PSN may be; a power of two */

struct soft_held {
	uint64_t at; /* when the packet came */
	uint32_t psn;
	size_t len;
	uint8_t packet[]; /* UDP payload */
};

/** Zero-initialized: empty. */
struct soft_hold {
	struct soft_held **slots; /* by PSN modulo SOFT_HOLD_PACKETS; allocated at first use */
	unsigned int count;
	size_t *budget; /* bytes that may still be held on the device */
};

enum soft_hold_result {
	SOFT_HOLD_KEPT,
	SOFT_HOLD_DUPLICATE,
	SOFT_HOLD_FULL,
};

/**
 * Keep a copy of a packet.
 * @param expected  the PSN that the QP waits for; `psn` is that or ahead of it
 */
enum soft_hold_result soft_hold_put(struct soft_hold *hold, uint32_t expected, uint32_t psn,
				    const uint8_t *packet, size_t len, uint64_t now);
/** The packet with this PSN, or NULL. It stays where it is. */
struct soft_held *soft_hold_at(const struct soft_hold *hold, uint32_t psn);
/** Take out the packet with this PSN, or NULL. The caller gives it to soft_hold_release(). */
struct soft_held *soft_hold_take(struct soft_hold *hold, uint32_t psn);
void soft_hold_release(struct soft_hold *hold, struct soft_held *held);
/** The first packet that is held and comes after `expected`, or NULL. */
const struct soft_held *soft_hold_first(const struct soft_hold *hold, uint32_t expected);
/** Free what is held of `n` PSNs from `psn` on, which do not come any more. `psn` is the one behind
 * the expected one. */
void soft_hold_skip(struct soft_hold *hold, uint32_t psn, uint32_t n);
/** Free all packets. */
void soft_hold_clear(struct soft_hold *hold);

#endif

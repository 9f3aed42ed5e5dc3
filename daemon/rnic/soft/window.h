/* SPDX-License-Identifier: MIT */
/**
 * @file window.h
 * How many packets a requester may have in flight. The window grows additively, after a slow start.
 * A congestion mark takes three tenths of it away, a loss a half. Counts packets of the path MTU.
 * The functions only compute.
 */
#ifndef SMCRD_RNIC_SOFT_WINDOW_H
#define SMCRD_RNIC_SOFT_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

/** The first window. */
#define SOFT_WINDOW_START_BYTES (1u << 20)

struct soft_window {
	uint32_t size;      /* packets that may be in flight now */
	uint32_t threshold; /* slow start ends here */
	uint32_t max;
	uint32_t step;  /* packets by which the window grows when a whole window was acknowledged */
	uint32_t acked; /* packets acknowledged since the last step */
};

/** @param mtu  path MTU in bytes, 256..4096 */
void soft_window_init(struct soft_window *window, uint32_t mtu);
/** `n` packets were acknowledged. `full`: the requester would have sent more if the window had
 * allowed it. */
void soft_window_acked(struct soft_window *window, uint32_t n, bool full);
/** The network marked a packet, because a queue is long, while `in_flight` packets were out. To be
 * called once a window.
 */
void soft_window_marked(struct soft_window *window, uint32_t in_flight);
/** A packet was lost (sequence error NAK) while `in_flight` packets were out. To be called once a
 * loss. */
void soft_window_lost(struct soft_window *window, uint32_t in_flight);
/** No answer came before the timeout. */
void soft_window_timeout(struct soft_window *window, uint32_t in_flight);

#endif

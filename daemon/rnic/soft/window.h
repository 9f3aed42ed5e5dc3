/* SPDX-License-Identifier: MIT */
/**
 * @file window.h
 * How many packets a requester may have in flight: additive increase; a congestion mark takes three
 * tenths away, a loss half, with a slow start. Pure; counts packets of the path MTU.
 */
#ifndef SMCRD_RNIC_SOFT_WINDOW_H
#define SMCRD_RNIC_SOFT_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

struct soft_window {
	uint32_t size;      /* packets that may be in flight now */
	uint32_t threshold; /* slow start ends here */
	uint32_t max;
	uint32_t step;  /* packets more a window's worth of acknowledgements */
	uint32_t acked; /* counted towards the next step */
};

/** @param mtu  path MTU in bytes, 256..4096 */
void soft_window_init(struct soft_window *window, uint32_t mtu);
/** `n` packets were acknowledged; `full`: the window was what held the requester back. */
void soft_window_acked(struct soft_window *window, uint32_t n, bool full);
/** The network marked a packet because a queue is long, with `in_flight` packets out. Once a
 * window.
 */
void soft_window_marked(struct soft_window *window, uint32_t in_flight);
/** A packet was lost (sequence error NAK) with `in_flight` packets out. Once a loss. */
void soft_window_lost(struct soft_window *window, uint32_t in_flight);
/** Nothing came back in time. */
void soft_window_timeout(struct soft_window *window, uint32_t in_flight);

#endif

/* SPDX-License-Identifier: MIT */
#include "daemon/rnic/soft/window.h"

#include "daemon/rnic/soft/hold.h"

/* With less than 512 KiB throughput suffers. The peer's socket buffer has room for several windows
 * (endpoint.c), and a soft RNIC can hold a whole window behind a lost packet. */
#define WINDOW_MAX_BYTES  (4u << 20)
#define WINDOW_STEP_BYTES (32u << 10)

/* In packets: a window has to be large enough for the peer to notice a gap. */
#define WINDOW_MIN           16
#define WINDOW_AFTER_TIMEOUT 4
/* A mark reduces the window to so many tenths, as in TCP's CUBIC (RFC 9438 4.6, 4.7). */
#define MARK_TENTHS 7
#define MARK_MIN    4

static uint32_t min(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint32_t max(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

void soft_window_init(struct soft_window *window, uint32_t mtu)
{
	*window = (struct soft_window){
		.size = SOFT_WINDOW_START_BYTES / mtu,
		.threshold = SOFT_WINDOW_START_BYTES / mtu,
		.max = min(WINDOW_MAX_BYTES / mtu, SOFT_HOLD_PACKETS),
		.step = WINDOW_STEP_BYTES / mtu,
	};
}

void soft_window_acked(struct soft_window *window, uint32_t n, bool full)
{
	if (!full)
		return;
	if (window->size < window->threshold) {
		/* One answer may cover packets that the peer had held, so the window at most
		 * doubles. */
		n = min(n, window->size);
		window->size = min(window->size + n, window->threshold);
		return;
	}
	window->acked += n;
	if (window->acked >= window->size) {
		window->acked = 0;
		window->size = min(window->size + window->step, window->max);
	}
}

void soft_window_marked(struct soft_window *window, uint32_t in_flight)
{
	window->size = max(min(in_flight, window->size) * MARK_TENTHS / 10, MARK_MIN);
	window->threshold = window->size;
	window->acked = 0;
}

void soft_window_lost(struct soft_window *window, uint32_t in_flight)
{
	/* The peer may hold the packets after the lost one, so send little until it acknowledges
	 * them. */
	window->threshold = max(min(in_flight, window->size) / 2, WINDOW_MIN);
	window->size = min(window->size, WINDOW_MIN);
	window->acked = 0;
}

void soft_window_timeout(struct soft_window *window, uint32_t in_flight)
{
	window->threshold = max(min(in_flight, window->size) / 2, WINDOW_MIN);
	window->size = WINDOW_AFTER_TIMEOUT;
	window->acked = 0;
}

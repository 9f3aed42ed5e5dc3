/* SPDX-License-Identifier: MIT */
#include "daemon/rnic/soft/hold.h"

#include <stdlib.h>
#include <string.h>

#include "proto/roce/roce.h"

#define SLOT(psn) ((psn) & (SOFT_HOLD_PACKETS - 1))

enum soft_hold_result soft_hold_put(struct soft_hold *hold, uint32_t expected, uint32_t psn,
				    const uint8_t *packet, size_t len, uint64_t now)
{
	int32_t ahead = roce_psn_diff(psn, expected);
	if (ahead < 0 || ahead >= SOFT_HOLD_PACKETS)
		return SOFT_HOLD_FULL;
	if (!hold->slots) {
		hold->slots = calloc(SOFT_HOLD_PACKETS, sizeof(*hold->slots));
		if (!hold->slots)
			return SOFT_HOLD_FULL;
	}
	if (hold->slots[SLOT(psn)])
		return SOFT_HOLD_DUPLICATE;
	size_t size = sizeof(struct soft_held) + len;
	if (size > *hold->budget)
		return SOFT_HOLD_FULL;
	struct soft_held *held = malloc(size);
	if (!held)
		return SOFT_HOLD_FULL;
	held->at = now;
	held->psn = psn;
	held->len = len;
	memcpy(held->packet, packet, len);
	hold->slots[SLOT(psn)] = held;
	hold->count++;
	*hold->budget -= size;
	return SOFT_HOLD_KEPT;
}

struct soft_held *soft_hold_at(const struct soft_hold *hold, uint32_t psn)
{
	return hold->count > 0 ? hold->slots[SLOT(psn)] : NULL;
}

struct soft_held *soft_hold_take(struct soft_hold *hold, uint32_t psn)
{
	struct soft_held *held = soft_hold_at(hold, psn);
	if (held) {
		hold->slots[SLOT(psn)] = NULL;
		hold->count--;
	}
	return held;
}

void soft_hold_release(struct soft_hold *hold, struct soft_held *held)
{
	*hold->budget += sizeof(*held) + held->len;
	free(held);
}

const struct soft_held *soft_hold_first(const struct soft_hold *hold, uint32_t expected)
{
	if (hold->count == 0)
		return NULL;
	for (uint32_t i = 1; i < SOFT_HOLD_PACKETS; i++) {
		const struct soft_held *held = hold->slots[SLOT(expected + i)];
		if (held)
			return held;
	}
	return NULL;
}

void soft_hold_skip(struct soft_hold *hold, uint32_t psn, uint32_t n)
{
	for (uint32_t i = 0; hold->count > 0 && i < n && i < SOFT_HOLD_PACKETS; i++) {
		struct soft_held *held = hold->slots[SLOT(psn + i)];
		if (held && ((held->psn - psn) & ROCE_PSN_MASK) < n)
			soft_hold_release(hold, soft_hold_take(hold, held->psn));
	}
}

void soft_hold_clear(struct soft_hold *hold)
{
	for (uint32_t i = 0; hold->count > 0 && i < SOFT_HOLD_PACKETS; i++) {
		struct soft_held *held = soft_hold_take(hold, i);
		if (held)
			soft_hold_release(hold, held);
	}
	free(hold->slots);
	hold->slots = NULL;
}

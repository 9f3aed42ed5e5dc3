/* SPDX-License-Identifier: MIT */
#include "daemon/smcr/cursor.h"

#include <errno.h>

#define WRAPS 65536u

struct smcr_cdc_cursor smcr_cursor_encode(struct smcr_ring ring, uint64_t pos)
{
	return (struct smcr_cdc_cursor){
		.wrap = (uint16_t)(pos / ring.usable % WRAPS),
		.offset = smcr_ring_offset(ring, pos),
	};
}

int smcr_cursor_decode(struct smcr_ring ring, struct smcr_cdc_cursor cursor, uint64_t known,
		       uint64_t limit, uint64_t *ret_pos)
{
	uint32_t base = ring.size - ring.usable;
	if (cursor.offset < base || cursor.offset >= ring.size)
		return -ERANGE;
	uint64_t period = (uint64_t)WRAPS * ring.usable;
	uint64_t named = (uint64_t)cursor.wrap * ring.usable + (cursor.offset - base);
	uint64_t ahead = (named + period - known % period) % period;
	if (ahead <= limit - known) {
		*ret_pos = known + ahead;
		return 0;
	}
	if (period - ahead <= ring.usable && period - ahead <= known) {
		*ret_pos = known;
		return 0;
	}
	return -ERANGE;
}

/* SPDX-License-Identifier: MIT */
#include "daemon/host/turns.h"

#include <inttypes.h>

#include "daemon/host/log.h"

#define TELL_US 60000000ull

const char *turns_name(enum turns_work work)
{
	switch (work) {
	case TURNS_PROGRAMS: return "programs";
	case TURNS_TOOLS: return "tools";
	case TURNS_ROCE: return "roce";
	case TURNS_TIMERS: return "timers";
	case TURNS_CM: return "cm";
	case TURNS_HOST: return "host";
	}
	return "unknown";
}

static void tell(struct turns *turns, uint64_t took_us, uint64_t now_us)
{
	turns->untold++;
	if (turns->told_us && now_us - turns->told_us < TELL_US)
		return;
	log_message(LOG_NOTICE,
		    "work for %s kept everything else waiting for %" PRIu64
		    " ms, or this host is busy (times since the last line: %" PRIu64 ")",
		    turns_name(turns->work), took_us / 1000, turns->untold);
	turns->told_us = now_us;
	turns->untold = 0;
}

void turns_end(struct turns *turns, uint64_t now_us)
{
	if (!turns->at_work)
		return;
	uint64_t took_us = now_us - turns->since_us;
	struct turns_count *count = &turns->counts[turns->work];
	turns->at_work = false;
	if (took_us > count->longest_us)
		count->longest_us = took_us;
	if (took_us <= TURNS_LIMIT_US)
		return;
	count->times++;
	tell(turns, took_us, now_us);
}

void turns_begin(struct turns *turns, enum turns_work work, uint64_t now_us)
{
	turns_end(turns, now_us);
	turns->at_work = true;
	turns->work = work;
	turns->since_us = now_us;
}

/* SPDX-License-Identifier: MIT */
#include "daemon/host/trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "daemon/host/log.h"

#define SECOND_MS 1000

unsigned int trace_categories;

static struct trace_limit limits[IPC_NUM_TRACES];

unsigned int trace_limit_take(struct trace_limit *limit, uint64_t now_ms)
{
	if (now_ms - limit->began_ms < SECOND_MS)
		return 0;
	unsigned int left_out = limit->left_out;
	limit->left_out = 0;
	return left_out;
}

bool trace_limit_passes(struct trace_limit *limit, uint64_t now_ms, unsigned int *ret_left_out)
{
	*ret_left_out = trace_limit_take(limit, now_ms);
	if (now_ms - limit->began_ms >= SECOND_MS) {
		limit->began_ms = now_ms;
		limit->lines = 0;
	}
	if (limit->lines < TRACE_LINES_MAX) {
		limit->lines++;
		return true;
	}
	limit->left_out++;
	return false;
}

static uint64_t now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
	return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

static void tell_left_out(enum ipc_trace category, unsigned int lines)
{
	char text[128];
	if (!lines)
		return;
	snprintf(text, sizeof(text), "%u line%s left out: more than %d in a second", lines,
		 lines == 1 ? " was" : "s were", TRACE_LINES_MAX);
	log_trace(ipc_trace_name(category), text);
}

void trace_set(unsigned int categories)
{
	for (unsigned int i = 0; i < IPC_NUM_TRACES; i++) {
		if (categories & IPC_TRACE_BIT(i))
			continue;
		tell_left_out((enum ipc_trace)i, limits[i].left_out);
		limits[i] = (struct trace_limit){ 0 };
	}
	trace_categories = categories;
}

void trace_tell(enum ipc_trace category, const char *line)
{
	unsigned int left_out;
	bool passes = trace_limit_passes(&limits[category], now(), &left_out);
	tell_left_out(category, left_out);
	if (passes)
		log_trace(ipc_trace_name(category), line);
}

void trace_tellf(enum ipc_trace category, const char *format, ...)
{
	char line[512];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	trace_tell(category, line);
}

void trace_tell_left_out(void)
{
	for (unsigned int i = 0; i < IPC_NUM_TRACES; i++)
		if (limits[i].left_out)
			tell_left_out((enum ipc_trace)i, trace_limit_take(&limits[i], now()));
}

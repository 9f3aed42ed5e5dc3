/* SPDX-License-Identifier: MIT */
/**
 * @file trace.h
 * The protocol trace in the log: which categories are on, and how many lines a category may write.
 * A busy category must not keep the event loop from its work: what is more than the limit is left
 * out, and a line tells how much. Not thread safe: one event loop.
 */
#ifndef SMCRD_HOST_TRACE_H
#define SMCRD_HOST_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/ipc/trace.h"

/** Lines of a category in a second. */
#define TRACE_LINES_MAX 1000

/** What a category has written in the present second. Zeros at first. */
struct trace_limit {
	uint64_t began_ms;
	unsigned int lines, left_out;
};

/**
 * May a line be written now?
 * @param now_ms  milliseconds of a clock that only goes forward
 * @param ret_left_out  how many lines were left out before; to be told now. 0: none, or it is too
 *                      early to tell
 */
bool trace_limit_passes(struct trace_limit *limit, uint64_t now_ms, unsigned int *ret_left_out);

/** How many lines were left out in a second that is over, to be told now; 0: none. */
unsigned int trace_limit_take(struct trace_limit *limit, uint64_t now_ms);

/** Trace these categories (IPC_TRACE_BIT() of each) from now on, and no others. */
void trace_set(unsigned int categories);

/** Write a line, if the category has not written too many. It is on, as the caller has found. */
void trace_tell(enum ipc_trace category, const char *line);
/** The same, formatted as by printf(). */
void trace_tellf(enum ipc_trace category, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/** Tell of lines that were left out, if nobody else does because the category is silent now. To be
 * called about once a second. */
void trace_tell_left_out(void);

/** The set of categories; only trace_set() changes it. */
extern unsigned int trace_categories;

static inline bool trace_is_on(enum ipc_trace category)
{
	return __builtin_expect(trace_categories & IPC_TRACE_BIT(category), 0);
}

#endif

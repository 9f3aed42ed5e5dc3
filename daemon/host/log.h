/* SPDX-License-Identifier: MIT */
/**
 * @file log.h
 * The daemon's log: the journal when standard error is connected to it, else standard error.
 * Levels are syslog's and mean what syslog(3) says. Not thread safe: one event loop.
 */
#ifndef SMCRD_HOST_LOG_H
#define SMCRD_HOST_LOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <syslog.h>

/**
 * Choose the destination and drop what is less important than `level` (LOG_ERR .. LOG_DEBUG).
 * @param detached  standard error will be closed: use the journal whatever it is now
 */
void log_open(int level, bool detached);
void log_message(int priority, const char *format, ...) __attribute__((format(printf, 2, 3)));
void log_messagev(int priority, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));

/** LOG_ERR .. LOG_DEBUG for "error", "warning", "notice", "info", "debug"; -1 for anything else. */
int log_level_parse(const char *name);

#endif

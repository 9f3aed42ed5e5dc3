/* SPDX-License-Identifier: MIT */
/**
 * @file log.h
 * The daemon's log: the journal when standard error is connected to it, or when smcrd is in the
 * background (syslog, where no journal runs); else standard error.
 * Levels are syslog's and mean what syslog(3) says. Not thread safe: one event loop.
 */
#ifndef SMCRD_HOST_LOG_H
#define SMCRD_HOST_LOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <syslog.h>

/**
 * Choose the destination and drop what is less important than `level` (LOG_ERR .. LOG_DEBUG).
 * @param detached  standard error will be closed: use the journal whatever it is now
 */
void log_open(int level, bool detached);
/** Is there nobody to keep it: neither the journal nor syslog, and standard error is not read? */
bool log_is_lost(void);
/** From here on `level` decides what is dropped. */
void log_set_level(int level);
/** Whoever started smcrd waits and reads standard error: what is a warning or worse goes there too,
 *  wherever else the log goes. */
void log_tell_starter(bool tell);
void log_message(int priority, const char *format, ...) __attribute__((format(printf, 2, 3)));
void log_messagev(int priority, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));

/** What a line says, for programs that read the journal. */
struct log_field {
	const char *name;  /* capital letters and underscores */
	const char *value; /* "": it is left out */
};

#define LOG_MAX_FIELDS 12

/** A line, in the journal with at most LOG_MAX_FIELDS fields. */
void log_fields(int priority, const char *line, const struct log_field *fields, size_t num_fields);

/** LOG_ERR .. LOG_DEBUG for "error", "warning", "notice", "info", "debug"; -1 for anything else. */
int log_level_parse(const char *name);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file log.h
 * The daemon's log: the journal when standard error is connected to it, or when smcrd is in the
 * background (syslog, where no journal runs); else standard error, where each line begins with the
 * time.
 * Levels are syslog's and mean what syslog(3) says. Not thread safe: one event loop.
 */
#ifndef SMCRD_HOST_LOG_H
#define SMCRD_HOST_LOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <syslog.h>

/**
 * Choose the destination, and drop lines that are less important than `level` (LOG_ERR ..
 * LOG_DEBUG).
 * @param detached  standard error will be closed: use the journal or syslog whatever standard error
 *                  is now
 */
void log_open(int level, bool detached);
/**
 * From now on a thread writes lines to the journal or syslog, where they may have to wait
 * (log_writer.h). Lines to standard error are written at once. Call it when the process has given
 * up the privileges that it does not need: the thread keeps what it has.
 * @return 0 or a negative errno: lines are written at once as before
 */
int log_start_writer(void);
/** Have the thread write what waits, for a second at most, and end it. */
void log_stop_writer(void);
/** Is the log lost, because it does not go to standard error, and neither the journal nor syslog
 * runs? */
bool log_is_lost(void);
/** Drop lines that are less important than `level` from now on. */
void log_set_level(int level);
/** While the process that started smcrd waits and reads standard error, warnings and worse go there
 * too, wherever else the log goes. */
void log_tell_starter(bool tell);
void log_message(int priority, const char *format, ...) __attribute__((format(printf, 2, 3)));
void log_messagev(int priority, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));

/** A part of a line's meaning, for programs that read the journal. */
struct log_field {
	const char *name;  /* capital letters and underscores */
	const char *value; /* "": the field is left out */
};

#define LOG_MAX_FIELDS 12

/** Log a line; in the journal it has the fields too, at most LOG_MAX_FIELDS. */
void log_fields(int priority, const char *line, const struct log_field *fields, size_t num_fields);

/**
 * Log a line of the protocol trace, whatever the level is. It is of level LOG_DEBUG in the journal,
 * where the field TRACE has the category.
 */
void log_trace(const char *category, const char *line);

/** LOG_ERR .. LOG_DEBUG for "error", "warning", "notice", "info", "debug"; -1 for anything else. */
int log_level_parse(const char *name);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file log_writer.h
 * Writes the log's lines on a thread. A line to the journal or to syslog waits while nobody takes
 * it there, and any user of the host can fill the queues of their sockets. The event loop must not
 * wait for that: it puts its lines into a bounded queue. When the queue is full lines are left out,
 * and a line says later how many.
 *
 * The functions are for one thread, that of the event loop.
 */
#ifndef SMCRD_HOST_LOG_WRITER_H
#define SMCRD_HOST_LOG_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

/** Bytes of lines that wait, with what is needed to keep them. */
#define LOG_WRITER_BYTES (1u << 20)
/** How long log_writer_stop() waits for lines to be taken. */
#define LOG_WRITER_STOP_MS 1000

/** Write a line now. @param fields  the first one is "MESSAGE=" and the text; behind the length of
 * each is a zero byte */
typedef void log_writer_write(int priority, const struct iovec *fields, int num);

/**
 * Start the thread, which has the caller's credentials.
 * @param write  called on the thread; may block
 * @return 0 or a negative errno
 */
int log_writer_start(log_writer_write *write);

/**
 * Put a line into the queue. Never waits for whoever takes the lines.
 * @param fields  are copied
 * @return false: the thread does not run, the caller writes the line by itself
 */
bool log_writer_put(int priority, const struct iovec *fields, int num);

/** Have all lines written, and end the thread. If they are not taken in time the thread is left to
 * the end of the process. */
void log_writer_stop(void);

#endif

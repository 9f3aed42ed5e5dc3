/* SPDX-License-Identifier: MIT */
/**
 * @file log.h
 * What smcr-run -v shows: for each connection a line on standard error that says what became of it.
 * Nothing is written without -v, nor if the program has replaced its standard error. All but
 * pre_log_text() use snprintf(), with formats for which the C library allocates nothing.
 */
#ifndef SMCRD_LIB_SMCR_LOG_H
#define SMCRD_LIB_SMCR_LOG_H

#include <stdbool.h>
#include <stdint.h>

/** connect() has returned before the daemon knows what carries the connection. */
#define PRE_LOG_OPEN                                                                               \
	"connected; the peer has not answered the rendezvous yet: 'smcrctl connection' shows the " \
	"outcome"

/** Remember which file standard error is. Called once, before the program can have replaced it. */
void pre_log_begin(void);

/**
 * "smcr-run[PID]: fd 5 10.0.0.1:40000 > 10.0.0.2:80: TEXT". Does nothing without -v.
 * @param fd  a TCP socket or a pair end, whose addresses are shown
 */
void pre_log(int fd, const char *text);

/** As pre_log(), with "TCP: ", `text` unless NULL, and the name and sentence of an enum
 * smcr_reason. */
void pre_log_fallback(int fd, const char *text, uint32_t reason);

/** "smcr-run[PID]: fd 3 listens at 10.0.0.2:80: TEXT", with "plain TCP: " before the text if
 * `plain`. Does nothing without -v, or without `text`. */
void pre_log_listener(int fd, bool plain, const char *text);

/**
 * "smcr-run[PID]: TEXT", also without -v, for messages that must be seen. Safe in children of
 * vfork(), where snprintf() must not be called.
 * @param parts  parts of the text, ended by NULL
 */
void pre_log_text(const char *const parts[]);

#endif

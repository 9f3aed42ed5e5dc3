/* SPDX-License-Identifier: MIT */
/**
 * @file status.h
 * The line that the service manager shows of the daemon (`systemctl status`). It is sent when it
 * has changed, at most every five seconds.
 */
#ifndef SMCRD_STATUS_H
#define SMCRD_STATUS_H

#include <event2/event.h>
#include <stdbool.h>

#define STATUS_LEN 160

struct status {
	struct event *timer; /* NULL: there is no service manager */
	void (*describe)(void *ctx, char ret_text[STATUS_LEN]);
	void *ctx;
	char told[STATUS_LEN];
};

/**
 * Start, if there is a service manager (NOTIFY_SOCKET).
 * @param describe  makes the line
 * @return 0 or -ENOMEM
 */
int status_start(struct status *status, struct event_base *base,
		 void (*describe)(void *ctx, char ret_text[STATUS_LEN]), void *ctx);
/** The daemon is ready, for the first time or again. */
void status_ready(struct status *status);
/** Something that the line shows has changed: send it at once. */
void status_changed(struct status *status);
/** The daemon reads its configuration, until status_ready(). */
void status_reloading(struct status *status);
/** The daemon stops: no line is sent any more. */
void status_stopping(struct status *status);
/** May be called without a start. */
void status_end(struct status *status);

#endif

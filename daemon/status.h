/* SPDX-License-Identifier: MIT */
/**
 * @file status.h
 * What the service manager shows of the daemon in one line (`systemctl status`): told when it has
 * changed, and every five seconds at most.
 */
#ifndef SMCRD_STATUS_H
#define SMCRD_STATUS_H

#include <event2/event.h>
#include <stdbool.h>

#define STATUS_LEN 160

struct status {
	struct event *timer; /* NULL: nobody wants to know */
	void (*describe)(void *ctx, char ret_text[STATUS_LEN]);
	void *ctx;
	char told[STATUS_LEN];
};

/**
 * Begin, if there is a service manager (NOTIFY_SOCKET).
 * @param describe  makes the line
 * @return 0 or -ENOMEM
 */
int status_start(struct status *status, struct event_base *base,
		 void (*describe)(void *ctx, char ret_text[STATUS_LEN]), void *ctx);
/** The daemon serves, from here on or again. */
void status_ready(struct status *status);
/** Something has changed that shows: tell it at once. */
void status_changed(struct status *status);
/** It reads its configuration, until status_ready(). */
void status_reloading(struct status *status);
/** It stops: nothing is told any more. */
void status_stopping(struct status *status);
/** May be called without a start. */
void status_end(struct status *status);

#endif

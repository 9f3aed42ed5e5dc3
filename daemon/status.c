/* SPDX-License-Identifier: MIT */
#include "daemon/status.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "daemon/fabric/fabric.h"

#define PERIOD_SECONDS 5

void status_changed(struct status *status)
{
	char text[STATUS_LEN] = "";
	if (!status->timer)
		return;
	status->describe(status->ctx, text);
	if (!strcmp(text, status->told))
		return;
	memcpy(status->told, text, sizeof(status->told));
	sd_notifyf(0, "STATUS=%s", text);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	status_changed(arg);
}

int status_start(struct status *status, struct event_base *base,
		 void (*describe)(void *ctx, char ret_text[STATUS_LEN]), void *ctx)
{
	const struct timeval period = { .tv_sec = PERIOD_SECONDS };
	*status = (struct status){ .describe = describe, .ctx = ctx };
	if (!getenv("NOTIFY_SOCKET"))
		return 0;
	status->timer = event_new(base, -1, EV_PERSIST, on_timer, status);
	return status->timer && event_add(status->timer, &period) == 0 ? 0 : -ENOMEM;
}

void status_ready(struct status *status)
{
	char text[STATUS_LEN] = "";
	status->describe(status->ctx, text);
	memcpy(status->told, text, sizeof(status->told));
	sd_notifyf(0, "READY=1\nSTATUS=%s", text);
}

void status_reloading(struct status *status)
{
	snprintf(status->told, sizeof(status->told), "reads its configuration");
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64 "\nSTATUS=%s", fabric_now(),
		   status->told);
}

void status_stopping(struct status *status)
{
	status_end(status);
	sd_notify(0, "STOPPING=1\nSTATUS=ends connections and link groups");
}

void status_end(struct status *status)
{
	if (status->timer)
		event_free(status->timer);
	status->timer = NULL;
}

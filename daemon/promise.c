/* SPDX-License-Identifier: MIT */
/*
 * Are peers promised SMC-R? No TCP handshake carries the option while smcrd stops, while an
 * operator drains it, or without an RNIC (TCPO-8). Whoever changes one of these calls
 * promise_update().
 */
#include "daemon/internal.h"

#define DRAIN_LOOK_US 100000 /* how often a drain checks for the last connection */

void promise_update(struct smcrd *smcrd)
{
	enum smcr_reason reason = SMCR_REASON_NONE;
	if (smcrd->stopping)
		reason = SMCR_REASON_SHUTTING_DOWN;
	else if (smcrd->control.drain.on)
		reason = SMCR_REASON_DRAINING;
	else if (!fabric_takes_new(smcrd->fabric))
		reason = SMCR_REASON_NO_DEVICE;
	if (smcrd->option)
		rdv_option_hold(smcrd->option, reason);
}

/* The option and the RNICs of the host are there by now. */
int setup_promise(struct smcrd *smcrd)
{
	promise_update(smcrd);
	return 0;
}

/* ---- drain: no new connections ---- */

size_t promise_drain_changed(void *ctx)
{
	struct smcrd *smcrd = ctx;
	const struct timeval often = { .tv_usec = DRAIN_LOOK_US };
	promise_update(smcrd);
	status_changed(&smcrd->status);
	if (smcrd->control.drain.on)
		event_add(smcrd->drain_check, &often);
	else
		event_del(smcrd->drain_check);
	return conns_active(smcrd->conns);
}

void promise_on_drain_check(evutil_socket_t fd, short what, void *arg)
{
	struct smcrd *smcrd = arg;
	(void)fd;
	(void)what;
	if (!smcrd->stopping && control_drain_look(&smcrd->control, conns_active(smcrd->conns)))
		return;
	event_del(smcrd->drain_check);
	if (!smcrd->stopping)
		status_changed(&smcrd->status);
}

/* SPDX-License-Identifier: MIT */
/* Drain: smcrd takes no new SMC-R connections, so that it can be replaced when the old ones have
 * ended. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "daemon/control/internal.h"

/** A caller that waits until no connection is left. */
struct control_waiter {
	struct waiter waiter;
	struct control_waiter *prev, *next;
};

static json_t *result_of(size_t left, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static json_t *result_of(size_t left, const char *format, ...)
{
	char text[160];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return json_pack("{s:s, s:I}", "text", text, "connections", (json_int_t)left);
}

static json_t *none_left(void)
{
	return result_of(0, "no connection is left that smcrd carries: smcrd may be stopped or "
			    "restarted now");
}

static void answer(struct control *control, json_t *result, const struct refusal *refusal)
{
	struct control_waiter *waiter, *next;
	DL_FOREACH_SAFE (control->drain.waiters, waiter, next) {
		waiter_reply(&waiter->waiter, json_incref(result), refusal);
		DL_DELETE(control->drain.waiters, waiter);
		free(waiter);
	}
	json_decref(result);
}

/* The last connection has ended: tell that once. */
static void tell_end(struct control *control)
{
	struct refusal refusal = { 0 };
	json_t *result = none_left();
	control->drain.empty = true;
	if (control->events)
		events_command(control->events, "drain", false,
			       json_string_value(json_object_get(result, "text")));
	if (!result)
		refuse(&refusal, ENOMEM, "no-memory",
		       "no connection is left, but smcrd has no memory to tell it");
	answer(control, result, &refusal);
}

static bool wait_for_the_end(struct control *control, const struct clients_asker *asker)
{
	struct control_waiter *waiter = calloc(1, sizeof(*waiter));
	if (!waiter)
		return false;
	waiter->waiter = waiter_of(asker);
	DL_APPEND(control->drain.waiters, waiter);
	return true;
}

/* No caller was waiting, or smcrd has not checked yet. */
static json_t *ended_already(struct control *control, bool begun_before)
{
	if (begun_before && !control->drain.empty)
		tell_end(control);
	control->drain.empty = true;
	return none_left();
}

static json_t *wait_or_refuse(struct control *control, const struct command_call *call,
			      bool *ret_later)
{
	*ret_later = wait_for_the_end(control, call->asker);
	if (!*ret_later)
		return refuse(
			call->refusal, ENOMEM, "no-memory",
			"smcrd takes no new SMC-R connections, but has no memory to tell "
			"when the last one has ended: 'smcrctl info' shows how many are left");
	if (control->events)
		events_command(control->events, call->text, false, "new connections are plain TCP");
	return NULL;
}

json_t *drain_begin(struct control *control, const struct command_call *call, bool *ret_later)
{
	struct control_drain *drain = &control->drain;
	bool begun_before = drain->on;
	if (!begun_before)
		*drain = (struct control_drain){ .on = true, .since = fabric_now() };
	size_t left = control->drained(control->ctx);
	if (left == 0)
		return ended_already(control, begun_before);
	drain->empty = false;
	if (call->params->wait)
		return wait_or_refuse(control, call, ret_later);
	return result_of(left,
			 "new connections are plain TCP; %zu that smcrd carries %s on: 'smcrctl "
			 "drain --wait' waits for the end of the last one",
			 left, left == 1 ? "goes" : "go");
}

json_t *drain_end(struct control *control, const struct params *params, struct refusal *refusal)
{
	struct refusal over = { 0 };
	(void)params;
	(void)refusal;
	if (!control->drain.on)
		return result_of(0, "smcrd was not draining: new connections may use SMC-R");
	control->drain.on = false;
	size_t left = control->drained(control->ctx);
	if (left == 0 && !control->drain.empty)
		tell_end(control); /* the drain ended before this command came */
	refuse(&over, ECANCELED, "failed",
	       "the drain was taken back (drain --off) while %zu connection%s of smcrd went on: "
	       "new ones may use SMC-R; 'smcrctl drain --wait' begins again",
	       left, left == 1 ? "" : "s");
	answer(control, NULL, &over);
	return result_of(left, "new connections may use SMC-R again");
}

bool control_drain_look(struct control *control, size_t left)
{
	struct control_drain *drain = &control->drain;
	if (!drain->on || drain->empty || left > 0)
		return drain->on && !drain->empty;
	tell_end(control);
	return false;
}

bool drain_forget(struct control *control, uint64_t request)
{
	struct control_waiter *waiter;
	DL_SEARCH_SCALAR(control->drain.waiters, waiter, waiter.request, request);
	if (!waiter)
		return false;
	DL_DELETE(control->drain.waiters, waiter);
	free(waiter);
	return true;
}

void drain_forget_all(struct control *control)
{
	while (control->drain.waiters)
		drain_forget(control, control->drain.waiters->waiter.request);
}

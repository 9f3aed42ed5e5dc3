/* SPDX-License-Identifier: MIT */
/*
 * Commands of operators. Each starts one of the exchanges that the engine has anyway, and waits for
 * its outcome: the exchanges know nothing of commands, they only tell what has happened.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/engine/llc.h"

/** A command whose outcome is awaited. */
struct smcr_pending {
	uint64_t id;
	struct smcr_command command;
	struct smcr_engine *engine;
	struct smcr_timer timer; /* command_timeout, or zero when the outcome is known */
	bool known;              /* `result` is the outcome */
	struct smcr_command_result result;
	struct smcr_pending *next, *prev;
};

static struct smcr_lgr *lgr_by_id(struct smcr_engine *engine, uint32_t id)
{
	struct smcr_lgr *lgr;
	DL_FOREACH (engine->lgrs, lgr)
		if (lgr->id == id)
			return lgr;
	return NULL;
}

static void drop(struct smcr_pending *pending)
{
	struct smcr_engine *engine = pending->engine;
	smcr_timer_stop(engine, &pending->timer);
	smcr_timer_unreserve(engine, 1);
	DL_DELETE(engine->commands, pending);
	free(pending);
}

/** The outcome, told from the timer queue. The first one counts. */
static void finish(struct smcr_pending *pending, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static void finish(struct smcr_pending *pending, int error, const char *format, ...)
{
	va_list ap;
	if (pending->known)
		return;
	pending->known = true;
	pending->result.error = error;
	va_start(ap, format);
	vsnprintf(pending->result.text, sizeof(pending->result.text), format, ap);
	va_end(ap);
	smcr_timer_start(pending->engine, &pending->timer, 0);
}

static void on_timer(struct smcr_engine *engine, void *arg)
{
	struct smcr_pending *pending = arg;
	if (!pending->known)
		finish(pending, -ETIMEDOUT, "No outcome in time.");
	struct smcr_command_result result = pending->result;
	uint64_t id = pending->id;
	drop(pending);
	engine->ops->command_done(engine->ctx, id, &result);
}

/* ---- what happens ---- */

static bool about(const struct smcr_pending *pending, enum smcr_command_type type,
		  const struct smcr_link *link)
{
	return pending->command.type == type && pending->command.lgr == link->lgr->id &&
	       pending->command.link == link->number;
}

void smcr_command_tested(struct smcr_link *link, uint64_t rtt)
{
	struct smcr_pending *pending;
	DL_FOREACH (link->lgr->engine->commands, pending) {
		if (!about(pending, SMCR_COMMAND_LINK_TEST, link))
			continue;
		pending->result.rtt = rtt;
		finish(pending, 0, "Link %u/%u answered in %llu microseconds.", link->lgr->id,
		       link->number, (unsigned long long)rtt);
	}
}

void smcr_command_link_failed(struct smcr_link *link)
{
	struct smcr_pending *pending;
	DL_FOREACH (link->lgr->engine->commands, pending)
		if (about(pending, SMCR_COMMAND_LINK_TEST, link))
			finish(pending, -ENETDOWN, "Link %u/%u has failed: %s.", link->lgr->id,
			       link->number, link->last_error);
}

void smcr_command_lgr_gone(struct smcr_lgr *lgr)
{
	struct smcr_pending *pending;
	DL_FOREACH (lgr->engine->commands, pending) {
		if (pending->command.lgr != lgr->id)
			continue;
		if (pending->command.type == SMCR_COMMAND_LGR_DELETE)
			finish(pending, 0, "Link group %u is deleted; %u connections were reset.",
			       lgr->id, pending->result.connections);
		else
			finish(pending, -ENOENT, "Link group %u has gone meanwhile.", lgr->id);
	}
}

void smcr_command_free_all(struct smcr_engine *engine)
{
	while (engine->commands)
		drop(engine->commands);
}

/* ---- what is asked ---- */

static void link_test(struct smcr_pending *pending, struct smcr_link *link)
{
	(void)pending;
	smcr_llc_test_link(link);
}

static void lgr_delete(struct smcr_pending *pending, struct smcr_lgr *lgr)
{
	pending->result.connections = lgr->num_conns;
	smcr_llc_delete_all(lgr, SMCR_LLC_DEL_OPERATOR, ECONNRESET);
}

/** Can it be started? @return 0 and the group and link it is about, or as smcr_engine_command() */
static int find(struct smcr_engine *engine, const struct smcr_command *command,
		struct smcr_lgr **ret_lgr, struct smcr_link **ret_link)
{
	struct smcr_lgr *lgr = lgr_by_id(engine, command->lgr);
	struct smcr_link *link = NULL;
	bool needs_link = command->type == SMCR_COMMAND_LINK_TEST;
	if (!lgr)
		return -ENOENT;
	if (command->type != SMCR_COMMAND_LINK_TEST && command->type != SMCR_COMMAND_LGR_DELETE)
		return -EOPNOTSUPP;
	if (needs_link) {
		link = smcr_lgr_link_by_number(lgr, command->link);
		if (!link || link->agreed_gone)
			return -ENOENT;
		if (link->state != SMCR_LINK_ACTIVE)
			return -EBUSY;
	}
	if (lgr->state != SMCR_LGR_ACTIVE)
		return -EBUSY;
	*ret_lgr = lgr;
	*ret_link = link;
	return 0;
}

int smcr_engine_command(struct smcr_engine *engine, const struct smcr_command *command,
			uint64_t *ret_id)
{
	struct smcr_lgr *lgr;
	struct smcr_link *link;
	int rc = find(engine, command, &lgr, &link);
	if (rc)
		return rc;
	struct smcr_pending *pending = calloc(1, sizeof(*pending));
	if (!pending || smcr_timer_reserve(engine, 1)) {
		free(pending);
		return -ENOMEM;
	}
	pending->id = ++engine->last_command_id;
	pending->command = *command;
	pending->engine = engine;
	smcr_timer_init(&pending->timer, on_timer, pending);
	smcr_timer_start(engine, &pending->timer, engine->config.command_timeout);
	DL_APPEND(engine->commands, pending);
	*ret_id = pending->id;
	if (command->type == SMCR_COMMAND_LINK_TEST)
		link_test(pending, link);
	else
		lgr_delete(pending, lgr);
	return 0;
}

void smcr_engine_command_forget(struct smcr_engine *engine, uint64_t id)
{
	struct smcr_pending *pending;
	DL_SEARCH_SCALAR(engine->commands, pending, id, id);
	if (pending)
		drop(pending);
}

/* SPDX-License-Identifier: MIT */
/*
 * Commands of operators. Each starts an exchange that the engine has anyway, and waits for its
 * outcome. The exchanges do not know commands: they tell news (news.h).
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/smcr/llc_delete_all.h"
#include "daemon/smcr/llc_delete_link.h"
#include "daemon/smcr/llc_links.h"
#include "daemon/smcr/llc_test_link.h"

/** A command whose outcome is awaited. */
struct smcr_pending {
	uint64_t id;
	struct smcr_command command;
	struct smcr_engine *engine;
	struct smcr_timer timer; /* command_timeout, or zero if the outcome is known at once */
	bool starting;           /* smcr_engine_command() has not returned yet */
	bool known;              /* `result` is the outcome */
	bool asks;               /* we are the client: the server has to act */
	bool moves;              /* `result` is the outcome when no connection is moving any more */
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
	DL_DELETE(engine->commands, pending);
	free(pending);
}

static const char *plural(uint32_t connections)
{
	return connections == 1 ? "connection" : "connections";
}

/** Tell the outcome and free the command. */
static void tell(struct smcr_pending *pending)
{
	const struct smcr_ops *ops = &pending->engine->ops;
	const struct smcr_command_result result = pending->result;
	const uint64_t id = pending->id;
	drop(pending);
	ops->command_done(ops->command_ctx, id, &result);
}

/** Set the outcome; the first one counts. It is told and the command freed at once, unless the
 * command is just being started: the caller has to learn the id before the outcome, which then
 * comes from the timer queue. */
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
	if (pending->starting)
		smcr_timer_start(pending->engine, &pending->timer, 0);
	else
		tell(pending);
}

static bool moving(const struct smcr_lgr *lgr)
{
	const struct smcr_conn *conn;
	DL_FOREACH2 (lgr->conns, conn, lgr_next)
		if (conn->phase == SMCR_PHASE_OPEN && conn->tx.moving)
			return true;
	return false;
}

/** Connections have been told to move: this is the outcome when they have. */
static void finish_moves(struct smcr_pending *pending, const struct smcr_lgr *lgr,
			 unsigned int moved, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
static void finish_moves(struct smcr_pending *pending, const struct smcr_lgr *lgr,
			 unsigned int moved, const char *format, ...)
{
	char text[SMCR_COMMAND_TEXT_LEN];
	va_list ap;
	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	pending->result.connections = moved;
	pending->moves = moving(lgr);
	if (!pending->moves)
		finish(pending, 0, "%s", text);
	else
		memcpy(pending->result.text, text, sizeof(text));
}

/** A connection has moved or is gone: finish if no other one is moving. */
static void finish_moved(struct smcr_pending *pending, const struct smcr_lgr *lgr)
{
	char text[SMCR_COMMAND_TEXT_LEN];
	if (moving(lgr))
		return;
	memcpy(text, pending->result.text, sizeof(text));
	finish(pending, 0, "%s", text);
}

static void on_timer(struct smcr_engine *engine, void *arg)
{
	struct smcr_pending *pending = arg;
	if (pending->known) {
		tell(pending);
	} else if (pending->asks) {
		pending->result.requested = true;
		finish(pending, 0, "The server was asked; it has not acted yet.");
	} else {
		finish(pending, -ETIMEDOUT,
		       "It has not ended within %u seconds and goes on: smcrctl link and smcrctl "
		       "event show what comes of it.",
		       (unsigned int)(engine->config.command_timeout / 1000000));
	}
}

/* ---- what happens ---- */

/** A LINK_TEST hears news of its link. */
static void test_hears(struct smcr_pending *pending, const struct smcr_news *news)
{
	const struct smcr_link *link = news->link;
	switch (news->type) {
	case SMCR_NEWS_LINK_ANSWERED:
		pending->result.rtt = news->rtt;
		finish(pending, 0,
		       link->passed >= link->mtu
			       ? "Link %u/%u answered in %llu microseconds; packets of %u bytes "
				 "have passed from here since it was set up."
			       : "Link %u/%u answered in %llu microseconds; it is not known "
				 "whether packets of %u bytes pass.",
		       link->lgr->id, link->number, (unsigned long long)news->rtt,
		       smcr_mtu_bytes(link->mtu));
		break;
	case SMCR_NEWS_LINK_BROKEN:
		finish(pending, -ENETDOWN, "Link %u/%u has failed: %s.", link->lgr->id,
		       link->number, link->last_error);
		break;
	case SMCR_NEWS_LINK_GONE:
		finish(pending, -ENETDOWN, "Link %u/%u was deleted meanwhile.", link->lgr->id,
		       link->number);
		break;
	default: break;
	}
}

/** A LINK_ADD hears news of its group. */
static void add_hears(struct smcr_pending *pending, const struct smcr_news *news)
{
	if (news->type == SMCR_NEWS_ADD_FAILED) {
		finish(pending, -ENOLINK, "No link was added to link group %u: %s.", news->lgr->id,
		       news->why);
	} else if (news->type == SMCR_NEWS_LINK_ADDED) {
		pending->result.link = news->link->number;
		finish(pending, 0, "Link %u/%u is active.", news->lgr->id, news->link->number);
	}
}

/** A command hears that its group is being freed. */
static void hears_of_end(struct smcr_pending *pending, const struct smcr_lgr *lgr)
{
	if (pending->command.type == SMCR_COMMAND_LGR_DELETE)
		finish(pending, 0, "Link group %u is deleted, with %u %s.", lgr->id,
		       pending->result.connections, plural(pending->result.connections));
	else
		finish(pending, -ENOENT, "Link group %u has gone meanwhile.", lgr->id);
}

/** A command hears news of its group. */
static void hears(struct smcr_pending *pending, const struct smcr_news *news)
{
	const struct smcr_link *link = news->link;
	const bool own = link && link->number == pending->command.link;
	if (news->type == SMCR_NEWS_LGR_GONE)
		hears_of_end(pending, news->lgr);
	else if (news->type == SMCR_NEWS_CONN_MOVED && pending->moves)
		finish_moved(pending, news->lgr);
	else if (pending->command.type == SMCR_COMMAND_LINK_ADD)
		add_hears(pending, news);
	else if (pending->command.type == SMCR_COMMAND_LINK_TEST && own)
		test_hears(pending, news);
	else if (pending->command.type == SMCR_COMMAND_LINK_DELETE && own &&
		 news->type == SMCR_NEWS_LINK_GONE)
		finish(pending, 0, "Link %u/%u is deleted; %u %s left it.", news->lgr->id,
		       link->number, pending->result.connections,
		       plural(pending->result.connections));
}

void smcr_command_hear(const struct smcr_news *news)
{
	struct smcr_pending *pending, *next;
	DL_FOREACH_SAFE (news->lgr->engine->commands, pending, next)
		if (!pending->known && pending->command.lgr == news->lgr->id)
			hears(pending, news);
}

void smcr_command_free_all(struct smcr_engine *engine)
{
	while (engine->commands)
		drop(engine->commands);
}

/* ---- what is asked ---- */

/** LINK_DELETE (DELL-11). The client can only ask the server, for the end of a link that works, or
 * of one that it declares dead (DELL-5). */
static void link_delete(struct smcr_pending *pending, struct smcr_lgr *lgr, struct smcr_link *link)
{
	pending->result.connections = link->num_conns;
	if (!smcr_llc_another_stays(link)) {
		finish(pending, -EBUSY, "Link %u/%u is the last of its group: delete the group.",
		       lgr->id, link->number);
	} else if (!pending->command.orderly) {
		smcr_link_fail(link, SMCR_LLC_DEL_OPERATOR, "deleted by the operator");
	} else {
		smcr_llc_delete_in_order(link);
	}
}

/** LINK_ADD (ADDL-14). The client tells the server of an RNIC without a link (ADDL-15). */
static void link_add(struct smcr_pending *pending, struct smcr_lgr *lgr)
{
	bool server = lgr->role == SMCR_ROLE_SERVER;
	if (smcr_llc_symmetric_links(lgr) >= lgr->max_links) {
		finish(pending, -EBUSY, "Link group %u has the %u links that were agreed.", lgr->id,
		       lgr->max_links);
	} else if (server ? !smcr_llc_add_candidate(lgr, true)
			  : !smcr_llc_unused_device(lgr, NULL)) {
		finish(pending, -ENODEV,
		       "Every RNIC on the LAN of link group %u has a link already.", lgr->id);
	} else {
		smcr_llc_want_link(lgr, SMCR_ADD_OPERATOR);
	}
}

/** LINK_DISABLE: own writes only, so nothing has to be agreed with the peer. */
static void link_disable(struct smcr_pending *pending, struct smcr_lgr *lgr, struct smcr_link *link)
{
	link->disabled = true;
	if (!smcr_lgr_any_link(lgr, link)) {
		finish(pending, 0,
		       "Link %u/%u is disabled, but stays in use: it is the last of its group.",
		       lgr->id, link->number);
		return;
	}
	unsigned int moved = smcr_failover_move_all(link, NULL);
	finish_moves(pending, lgr, moved, "Link %u/%u is disabled; %u %s moved to others.", lgr->id,
		     link->number, moved, plural(moved));
}

static void link_enable(struct smcr_pending *pending, struct smcr_lgr *lgr, struct smcr_link *link)
{
	bool was = link->disabled;
	link->disabled = false;
	if (was)
		smcr_failover_rebalance(lgr);
	finish_moves(pending, lgr, link->num_conns, "Link %u/%u is %s; %u %s on it.", lgr->id,
		     link->number, was ? "enabled" : "enabled already", link->num_conns,
		     plural(link->num_conns));
}

static void failover(struct smcr_pending *pending, struct smcr_lgr *lgr, struct smcr_link *from,
		     struct smcr_link *to)
{
	unsigned int moved = from || to ? 0 : smcr_failover_rebalance(lgr);
	if (from && !smcr_lgr_any_link(lgr, from)) {
		finish(pending, -EBUSY, "Link %u/%u is the last of its group.", lgr->id,
		       from->number);
		return;
	}
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		struct smcr_link *link = lgr->links[i];
		if (link && link != to && (from ? link == from : to != NULL))
			moved += smcr_failover_move_all(link, to);
	}
	finish_moves(pending, lgr, moved, "%u %s of link group %u moved.", moved, plural(moved),
		     lgr->id);
}

static void lgr_delete(struct smcr_pending *pending, struct smcr_lgr *lgr)
{
	pending->result.connections = lgr->num_conns;
	smcr_event_lgr_why(lgr, "an operator wants it");
	smcr_llc_delete_all(lgr, SMCR_LLC_DEL_OPERATOR, ECONNRESET);
}

static void start(struct smcr_pending *pending, struct smcr_lgr *lgr, struct smcr_link *link,
		  struct smcr_link *to)
{
	switch (pending->command.type) {
	case SMCR_COMMAND_LINK_DELETE: link_delete(pending, lgr, link); break;
	case SMCR_COMMAND_LINK_ADD: link_add(pending, lgr); break;
	case SMCR_COMMAND_LINK_TEST: smcr_llc_test_link(link); break;
	case SMCR_COMMAND_LINK_DISABLE: link_disable(pending, lgr, link); break;
	case SMCR_COMMAND_LINK_ENABLE: link_enable(pending, lgr, link); break;
	case SMCR_COMMAND_LGR_DELETE: lgr_delete(pending, lgr); break;
	case SMCR_COMMAND_FAILOVER: failover(pending, lgr, link, to); break;
	}
}

/** What each type of command needs. */
static const struct {
	enum ipc_takes takes;
	bool asks; /* at the client it is a request to the server */
} rows[] = {
#define COMMAND_ROW(type, method, object, word, takes, asks, help) { IPC_TAKES_##takes, asks },
	IPC_COMMANDS(COMMAND_ROW)
#undef COMMAND_ROW
};

/** A link by its number. @return 0 and the link, or NULL for number 0; -ENOENT; -EBUSY: not active
 */
static int find_link(const struct smcr_lgr *lgr, uint8_t number, struct smcr_link **ret_link)
{
	struct smcr_link *link = number ? smcr_lgr_link_by_number(lgr, number) : NULL;
	if (number && (!link || link->deletion.state == SMCR_DELETION_AGREED))
		return -ENOENT;
	if (number && !smcr_link_works(link))
		return -EBUSY;
	*ret_link = link;
	return 0;
}

/** Find the group and the links that the command names. @return 0 or as smcr_engine_command() */
static int find(struct smcr_engine *engine, const struct smcr_command *command,
		struct smcr_lgr **ret_lgr, struct smcr_link **ret_link, struct smcr_link **ret_to)
{
	struct smcr_lgr *lgr = lgr_by_id(engine, command->lgr);
	if ((size_t)command->type >= sizeof(rows) / sizeof(rows[0]))
		return -EINVAL;
	const enum ipc_takes takes = rows[command->type].takes;
	const bool optional = takes == IPC_TAKES_GROUP_AND_TWO, none = takes == IPC_TAKES_GROUP;
	if (!lgr)
		return -ENOENT;
	if (none ? command->link : !command->link && !optional)
		return -EINVAL;
	if (command->to && (!optional || command->to == command->link))
		return -EINVAL;
	int rc = find_link(lgr, command->link, ret_link);
	if (!rc)
		rc = find_link(lgr, command->to, ret_to);
	if (!rc && lgr->state != SMCR_LGR_ACTIVE)
		rc = -EBUSY;
	if (!rc)
		*ret_lgr = lgr;
	return rc;
}

int smcr_engine_command(struct smcr_engine *engine, const struct smcr_command *command,
			uint64_t *ret_id)
{
	struct smcr_lgr *lgr = NULL;
	struct smcr_link *link = NULL, *to = NULL;
	int rc = find(engine, command, &lgr, &link, &to);
	if (rc)
		return rc;
	struct smcr_pending *pending = calloc(1, sizeof(*pending));
	if (!pending)
		return -ENOMEM;
	pending->id = ++engine->last_command_id;
	pending->command = *command;
	pending->engine = engine;
	pending->asks = lgr->role == SMCR_ROLE_CLIENT && rows[command->type].asks;
	smcr_timer_init(&pending->timer, on_timer, pending);
	smcr_timer_start(engine, &pending->timer, engine->config.command_timeout);
	DL_APPEND(engine->commands, pending);
	*ret_id = pending->id;
	pending->starting = true;
	start(pending, lgr, link, to);
	pending->starting = false;
	return 0;
}

void smcr_engine_command_forget(struct smcr_engine *engine, uint64_t id)
{
	struct smcr_pending *pending;
	DL_SEARCH_SCALAR(engine->commands, pending, id, id);
	if (pending)
		drop(pending);
}

/* SPDX-License-Identifier: MIT */
/* Commands of the engine, which end later than they start: this file keeps who has asked for
 * which. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "daemon/control/internal.h"
#include "daemon/smcr/view.h"

struct control_pending {
	uint64_t id; /* the engine's id of the command */
	struct waiter waiter;
	enum smcr_command_type type;
	char text[COMMAND_TEXT_LEN]; /* what is wanted, and by whom */
	struct control_pending *prev, *next;
};

/* ---- refusals in words ---- */

struct search {
	uint32_t lgr;
	uint8_t link;
	bool has_lgr;
	const char *state; /* state of the link; NULL: there is no link */
};

static void look_at_lgr(void *arg, const struct smcr_lgr_view *view)
{
	struct search *search = arg;
	search->has_lgr |= view->id == search->lgr;
}

static void look_at_link(void *arg, const struct smcr_link_view *view)
{
	struct search *search = arg;
	if (view->lgr_id == search->lgr && view->number == search->link)
		search->state = smcr_link_state_name(view->state);
}

static struct search search_for(const struct control *control, uint32_t lgr, uint8_t link)
{
	struct search search = { .lgr = lgr, .link = link };
	smcr_engine_each_lgr(control->engine, look_at_lgr, &search);
	smcr_engine_each_link(control->engine, look_at_link, &search);
	return search;
}

static void refuse_missing(const struct control *control, const struct smcr_command *command,
			   struct refusal *refusal)
{
	struct search search = search_for(control, command->lgr, command->link);
	if (!search.has_lgr) {
		refuse(refusal, ENOENT, "not-found",
		       "there is no link group %u; 'smcrctl linkgroup' lists them", command->lgr);
		return;
	}
	bool first_is_there = !command->link || search.state;
	refuse(refusal, ENOENT, "not-found",
	       "link group %u has no link %u; 'smcrctl link' lists them", command->lgr,
	       command->to && first_is_there ? command->to : command->link);
}

static void refuse_busy(const struct control *control, const struct smcr_command *command,
			struct refusal *refusal)
{
	uint8_t links[] = { command->link, command->to };
	for (size_t i = 0; i < sizeof(links); i++) {
		struct search search = search_for(control, command->lgr, links[i]);
		if (search.state && strcmp(search.state, "active")) {
			refuse(refusal, EBUSY, "busy", "link %u/%u is not active but %s",
			       command->lgr, links[i], search.state);
			return;
		}
	}
	refuse(refusal, EBUSY, "busy",
	       "link group %u, or the link, is just being set up or ended: try again in a moment",
	       command->lgr);
}

static const char *error_code(int error)
{
	switch (error) {
	case ENOENT: return "not-found";
	case EBUSY: return "busy";
	case ETIMEDOUT: return "timeout";
	case ENOMEM: return "no-memory";
	default: return "failed";
	}
}

/* The engine tells only by an errno why the command did not start. */
static void refuse_start(const struct control *control, const struct smcr_command *command,
			 int error, struct refusal *refusal)
{
	if (error == ENOENT)
		refuse_missing(control, command, refusal);
	else if (error == EBUSY)
		refuse_busy(control, command, refusal);
	else
		refuse(refusal, error, error_code(error), "smcrd cannot do this: %s",
		       strerror(error));
}

/* ---- start ---- */

static void fill_command(enum smcr_command_type type, const struct params *params,
			 struct smcr_command *ret)
{
	*ret = (struct smcr_command){ .type = type,
				      .lgr = params->linkgroup,
				      .link = params->link,
				      .orderly = !params->disorderly };
	if (type == SMCR_COMMAND_FAILOVER) {
		ret->link = params->from;
		ret->to = params->to;
	}
}

bool command_start(struct control *control, const struct clients_asker *asker,
		   enum smcr_command_type type, const struct params *params, const char *text,
		   struct refusal *refusal)
{
	struct smcr_command command;
	fill_command(type, params, &command);
	if (command.link && command.link == command.to) {
		refuse(refusal, EINVAL, "bad-parameter", "\"from\" and \"to\" are the same link");
		refusal->parameter = "to";
		return false;
	}
	struct control_pending *pending = calloc(1, sizeof(*pending));
	int error =
		pending ? smcr_engine_command(control->engine, &command, &pending->id) : -ENOMEM;
	if (error) {
		free(pending);
		refuse_start(control, &command, -error, refusal);
		return false;
	}
	pending->waiter = waiter_of(asker);
	pending->type = type;
	snprintf(pending->text, sizeof(pending->text), "%s", text);
	DL_APPEND(control->pending, pending);
	return true;
}

/* ---- end ---- */

static json_t *known(bool is_known, uint64_t value)
{
	return is_known ? json_integer((json_int_t)value) : json_null();
}

static json_t *result_json(enum smcr_command_type type, const struct smcr_command_result *result)
{
	bool done = !result->requested;
	bool is_add = type == SMCR_COMMAND_LINK_ADD, is_test = type == SMCR_COMMAND_LINK_TEST;
	return json_pack("{s:s, s:b, s:o, s:o, s:o}", "text", result->text, "requested",
			 result->requested, "link", known(done && is_add, result->link),
			 "connections", known(done && !is_add && !is_test, result->connections),
			 "rtt_us", known(done && is_test, result->rtt));
}

static void note_outcome(const struct control *control, const struct control_pending *pending,
			 bool failed, const char *outcome)
{
	if (control->events)
		events_command(control->events, pending->text, failed, outcome);
}

void control_command_done(void *ctx, uint64_t id, const struct smcr_command_result *result)
{
	struct control *control = ctx;
	struct control_pending *pending;
	struct refusal refusal = { 0 };
	json_t *json = NULL;
	DL_SEARCH_SCALAR(control->pending, pending, id, id);
	if (!pending)
		return;
	note_outcome(control, pending, result->error, result->text);
	if (result->error)
		refuse(&refusal, -result->error, error_code(-result->error), "%s", result->text);
	else if (!(json = result_json(pending->type, result)))
		refuse(&refusal, ENOMEM, "no-memory", "out of memory");
	waiter_reply(&pending->waiter, json, &refusal);
	DL_DELETE(control->pending, pending);
	free(pending);
}

void control_forget(void *ctx, uint64_t request)
{
	struct control *control = ctx;
	struct control_pending *pending;
	DL_SEARCH_SCALAR(control->pending, pending, waiter.request, request);
	if (!pending) {
		capture_forget(control, request);
		if (!drain_forget(control, request) && !cm_check_forget(control, request))
			config_reload_forget(control, request);
		return;
	}
	note_outcome(control, pending, false, "begun; nobody waited for the outcome");
	smcr_engine_command_forget(control->engine, pending->id);
	DL_DELETE(control->pending, pending);
	free(pending);
}

void control_close(struct control *control)
{
	config_reload_forget_all(control);
	capture_forget_all(control);
	drain_forget_all(control);
	cm_check_forget_all(control);
	while (control->pending)
		control_forget(control, control->pending->waiter.request);
}

/* SPDX-License-Identifier: MIT */
#include "daemon/control/control.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/control/internal.h"
#include "daemon/control/methods.h"
#include "daemon/control/views.h"
#include "daemon/host/words.h"

#define NEEDS(name) (1u << PARAM_##name)
#define OF_GROUP    (NEEDS(AFTER) | NEEDS(PEER) | NEEDS(LINKGROUP))
#define OF_CONN     (OF_GROUP | NEEDS(PORT) | NEEDS(PID) | NEEDS(UID) | NEEDS(MODE) | NEEDS(STATE))

/* The parameters of commands, by enum ipc_takes (proto/ipc/commands.h). */
#define REQUIRED_GROUP          NEEDS(LINKGROUP)
#define OPTIONAL_GROUP          0
#define REQUIRED_LINK           NEEDS(LINKGROUP) | NEEDS(LINK)
#define OPTIONAL_LINK           0
#define REQUIRED_LINK_AND_ORDER REQUIRED_LINK
#define OPTIONAL_LINK_AND_ORDER NEEDS(DISORDERLY)
#define REQUIRED_GROUP_AND_TWO  NEEDS(LINKGROUP)
#define OPTIONAL_GROUP_AND_TWO  NEEDS(FROM) | NEEDS(TO)

/** A method either shows something, or changes something. Methods that change are for
 * administrators, and act at once, or as a command of the engine, or later in another way. */
static const struct method {
	const char *name;
	json_t *(*show)(struct control *control, struct page *page, struct refusal *refusal);
	enum smcr_command_type command;
	unsigned int required, optional; /* parameters */
	json_t *(*change)(struct control *control, const struct params *params,
			  struct refusal *refusal);
	/** @return the result; NULL: refused, or the result comes later */
	json_t *(*start)(struct control *control, const struct command_call *call, bool *ret_later);
	bool rows, session; /* methods.h */
} methods[] = {
	{ "info.show", control_show_info },
	{ "host.show", control_show_host },
	{ "device.show", control_show_devices, .rows = true },
	{ "device.add", .required = NEEDS(NAME), .change = device_add },
	{ "device.remove", .required = NEEDS(NAME), .change = device_remove },
	{ "device.drain", .required = NEEDS(NAME), .change = device_drain },
	{ "device.enable", .required = NEEDS(NAME), .change = device_enable },
	{ "linkgroup.show", control_show_linkgroups, .optional = OF_GROUP, .rows = true },
	{ "link.show", control_show_links, .optional = OF_GROUP | NEEDS(STATE), .rows = true },
	{ "connection.show", control_show_connections, .optional = OF_CONN, .rows = true },
	{ "rmb.show", control_show_rmbs, .optional = NEEDS(AFTER) | NEEDS(LINKGROUP),
	  .rows = true },
	{ "stats.show", control_show_stats },
	{ "metrics.show", control_show_metrics },
	{ "event.show", control_show_events, .optional = OF_GROUP, .rows = true },
	{ "event.wait", control_wait_for_events, .optional = OF_GROUP, .session = true },
	{ "cm.show", control_show_cm,
	  .optional = NEEDS(AFTER) | NEEDS(PEER) | NEEDS(PORT) | NEEDS(STATE) },
	{ "cm.check", .required = NEEDS(PEER) | NEEDS(PORT), .start = cm_check_start },
	{ "smbdirect.show", control_show_smbdirect,
	  .optional = NEEDS(AFTER) | NEEDS(PEER) | NEEDS(PORT) | NEEDS(STATE) },
	{ "smbdirect.disconnect", .required = NEEDS(ID), .change = smbdirect_disconnect },
	{ "ueid.show", control_show_ueids, .rows = true },
	{ "ueid.add", .required = NEEDS(NAME), .change = ueid_add },
	{ "ueid.remove", .required = NEEDS(NAME), .change = ueid_remove },
	{ "config.show", control_show_config, .optional = NEEDS(AFTER), .rows = true },
	{ "config.set", .required = NEEDS(NAME) | NEEDS(VALUE), .change = config_set },
	{ "config.reload", .start = config_reload },
	{ "capture.run", .start = capture_start,
	  .optional = NEEDS(PEER) | NEEDS(LINKGROUP) | NEEDS(DATA), .session = true },
	{ "drain.begin", .optional = NEEDS(WAIT), .start = drain_begin },
	{ "drain.end", .change = drain_end },
	{ "policy.show", control_show_policy, .optional = NEEDS(AFTER) },
	{ "policy.judge", control_judge, .required = NEEDS(PEER),
	  .optional = NEEDS(PORT) | NEEDS(LOCAL) | NEEDS(PROGRAM) },
	{ "policy.add", .required = NEEDS(RULE), .change = policy_add },
	{ "policy.delete", .required = NEEDS(RULE), .change = policy_delete },
	{ "policy.forget", .optional = NEEDS(PEER) | NEEDS(PORT), .change = policy_forget_place },
#define COMMAND_METHOD(type, method, object, word, takes, asks, help)                              \
	{ method, NULL, SMCR_COMMAND_##type, REQUIRED_##takes, OPTIONAL_##takes },
	IPC_COMMANDS(COMMAND_METHOD)
#undef COMMAND_METHOD
};

static const struct method *find_method(const char *name)
{
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (!strcmp(methods[i].name, name))
			return &methods[i];
	return NULL;
}

bool control_method(size_t number, struct control_method *ret_method)
{
	if (number >= sizeof(methods) / sizeof(methods[0]))
		return false;
	const struct method *method = &methods[number];
	*ret_method = (struct control_method){ .name = method->name,
					       .result = CONTROL_OUTCOME,
					       .session = method->session,
					       .required = method->required,
					       .optional = method->optional };
	if (method->show)
		ret_method->result = method->rows ? CONTROL_ROWS : CONTROL_OBJECT;
	return true;
}

void *refuse(struct refusal *refusal, int error, const char *code, const char *format, ...)
{
	va_list args;
	refusal->error = error;
	refusal->code = code;
	va_start(args, format);
	vsnprintf(refusal->text, sizeof(refusal->text), format, args);
	va_end(args);
	words_mend(refusal->text); /* parts of it are from the request, and may be cut */
	return NULL;
}

/* ---- who may ---- */

static bool in_group(const struct clients_asker *asker, gid_t gid)
{
	if (asker->cred.gid == gid)
		return true;
	for (size_t i = 0; i < asker->num_groups; i++)
		if (asker->groups[i] == gid)
			return true;
	return false;
}

bool control_is_administrator(void *ctx, const struct clients_asker *asker)
{
	const struct control *control = ctx;
	return asker->cred.uid == 0 ||
	       (*control->config->admin_group && in_group(asker, control->config->admin_gid));
}

/* Without the method's name, which those who ask by other words do not know. */
static void refuse_change(const struct control *control, struct refusal *refusal)
{
	const char *group = control->config->admin_group;
	if (*group)
		refuse(refusal, EPERM, "not-permitted",
		       "this is for root and members of group %.64s; a new member logs in again "
		       "first",
		       group);
	else
		refuse(refusal, EPERM, "not-permitted",
		       "this is for root: run it as root, or name an admin_group in smcrd.conf, "
		       "for its members");
}

/* ---- requests ---- */

/* The beginning of a sentence: who wants what. */
static void describe(const struct method *method, const struct clients_asker *asker,
		     const json_t *params, char ret_text[COMMAND_TEXT_LEN])
{
	char *text = json_dumps(params, JSON_COMPACT | JSON_ENSURE_ASCII);
	snprintf(ret_text, COMMAND_TEXT_LEN, "%s %.120s by uid %u, pid %d", method->name,
		 text ? text : "", (unsigned int)asker->cred.uid, (int)asker->cred.pid);
	free(text);
}

/* Log who has changed what, and the outcome. @return as call() */
static json_t *command(struct control *control, const struct method *method,
		       const struct clients_asker *asker, const json_t *json_params,
		       const struct params *params, struct refusal *refusal, bool *ret_later)
{
	char text[COMMAND_TEXT_LEN];
	json_t *result = NULL;
	describe(method, asker, json_params, text);
	if (method->change)
		result = method->change(control, params, refusal);
	else if (method->start)
		result = method->start(control,
				       &(const struct command_call){ .params = params,
								     .asker = asker,
								     .text = text,
								     .refusal = refusal },
				       ret_later);
	else
		*ret_later = command_start(control, asker, method->command, params, text, refusal);
	if (*ret_later || !control->events)
		return result;
	const char *said = json_string_value(json_object_get(result, "text"));
	events_command(control->events, text, !result, result ? said : refusal->text);
	return result;
}

static json_t *show(struct control *control, const struct method *method, struct page *page,
		    struct refusal *refusal)
{
	json_t *result = method->show(control, page, refusal);
	if (page->incomplete) {
		json_decref(result);
		result = NULL;
	}
	if (!result && !refusal->code && !page->wait)
		refuse(refusal, ENOMEM, "no-memory", "out of memory");
	return result;
}

/* @return the result; NULL: refused, or *ret_later: it comes later, or page->wait: there is none
 *         yet */
static json_t *call(struct control *control, const struct clients_asker *asker,
		    const json_t *request, struct page *page, struct refusal *refusal,
		    bool *ret_later)
{
	struct params params;
	const json_t *json_params = json_object_get(request, "params");
	const char *name = json_string_value(json_object_get(request, "method"));
	if (!name)
		return refuse(refusal, EINVAL, "bad-request",
			      "the request has no \"method\" string");
	const struct method *method = find_method(name);
	if (!method)
		return refuse(refusal, EOPNOTSUPP, "unknown-method",
			      "this smcrd (%s) has no method \"%.64s\"", SMCRD_VERSION, name);
	page->administrator = control_is_administrator(control, asker);
	if (!method->show && !page->administrator) {
		refuse_change(control, refusal);
		return NULL;
	}
	if (!params_take(json_params, method->required, method->optional, &params, refusal))
		return NULL;
	if (!method->show)
		return command(control, method, asker, json_params, &params, refusal, ret_later);
	page->after = params.after;
	page->uid = asker->cred.uid;
	page->params = &params;
	return show(control, method, page, refusal);
}

static json_t *reply_json(json_t *result, const char *next, const struct refusal *refusal)
{
	json_t *reply;
	if (result) {
		reply = json_pack("{s:i, s:o}", "schema", CONTROL_SCHEMA, "result", result);
		if (*next)
			json_object_set_new(reply, "next", json_string(next));
	} else {
		reply = json_pack("{s:i, s:{s:s, s:i, s:s}}", "schema", CONTROL_SCHEMA, "error",
				  "code", refusal->code, "errno", refusal->error, "text",
				  refusal->text);
		if (refusal->parameter)
			json_object_set_new(json_object_get(reply, "error"), "parameter",
					    json_string(refusal->parameter));
		if (json_array_size(refusal->errors) > 0)
			json_object_set(json_object_get(reply, "error"), "errors", refusal->errors);
	}
	return reply;
}

struct waiter waiter_of(const struct clients_asker *asker)
{
	return (struct waiter){ asker->request, asker->reply, asker->reply_ctx };
}

void waiter_reply(const struct waiter *waiter, json_t *result, const struct refusal *refusal)
{
	json_t *reply = reply_json(result, "", refusal);
	char *text = reply ? json_dumps(reply, JSON_COMPACT) : NULL;
	json_decref(reply);
	waiter->reply(waiter->ctx, waiter->request, text);
}

/* @return the reply; NULL: *ret_status says why */
static json_t *serve(struct control *control, const struct clients_asker *asker,
		     const json_t *request, struct refusal *refusal, int *ret_status)
{
	struct page page = { 0 };
	json_t *result = NULL;
	bool later = false;
	*ret_status = 0;
	if (!refusal->code)
		result = call(control, asker, request, &page, refusal, &later);
	if (later || page.wait) {
		*ret_status = later ? -EINPROGRESS : -EAGAIN;
		return NULL;
	}
	json_t *reply = reply_json(result, page.next, refusal);
	if (!reply)
		*ret_status = -ENOMEM;
	return reply;
}

int control_handle_json(struct control *control, const struct clients_asker *asker,
			const json_t *request, json_t **ret_reply)
{
	struct refusal refusal = { 0 };
	int status;
	json_t *reply = serve(control, asker, request, &refusal, &status);
	if (reply)
		*ret_reply = reply;
	return status;
}

static int handle(struct control *control, const struct clients_asker *asker, const char *json,
		  size_t len, char **ret_reply)
{
	struct refusal refusal = { 0 };
	json_error_t where;
	int status;
	json_t *request = json_loadb(json, len, JSON_REJECT_DUPLICATES, &where);
	if (!json_is_object(request))
		refuse(&refusal, EINVAL, "bad-request", "the request is not a JSON object: %.160s",
		       request ? "it is another value" : where.text);
	json_t *reply = serve(control, asker, request, &refusal, &status);
	json_decref(request); /* not earlier: the refusal may point into it */
	char *text = reply ? json_dumps(reply, JSON_COMPACT) : NULL;
	json_decref(reply);
	if (status)
		return status;
	if (!text)
		return -ENOMEM;
	*ret_reply = text;
	return 0;
}

static void at_work(struct control *control, enum turns_work work)
{
	if (control->turns)
		turns_begin(control->turns, work, fabric_now());
}

int control_handle(void *ctx, const struct clients_asker *asker, const char *json, size_t len,
		   char **ret_reply)
{
	struct control *control = ctx;
	at_work(control, TURNS_TOOLS);
	int r = handle(control, asker, json, len, ret_reply);
	at_work(control, TURNS_PROGRAMS);
	return r;
}

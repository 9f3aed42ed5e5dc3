/* SPDX-License-Identifier: MIT */
/*
 * Method calls. A D-Bus message does not say reliably who sends it, so the bus is asked for each
 * call: it tells user, groups and process as they were when the sender connected. The arguments are
 * read before that, so that no long message is kept: sd-bus does not tell the length of a message,
 * but the types are those of the method, and each value and each name of an option is bounded.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "daemon/bus/internal.h"
#include "daemon/bus/values.h"
#include "daemon/fabric/fabric.h"

#define MAX_GROUPS 65536 /* the most that Linux allows a process */

struct call {
	struct bus_thread *thread;
	sd_bus_message *message;
	const struct form *form;
	json_t *request;
	sd_bus_slot *asking; /* the question to the bus who calls; NULL: answered */
	uint64_t id;         /* request number once the loop has it; else 0 */
	struct call *prev, *next;
};

static void end(struct call *call)
{
	struct bus_thread *thread = call->thread;
	DL_DELETE(thread->calls, call);
	thread->num_calls--;
	sd_bus_slot_unref(call->asking);
	sd_bus_message_unref(call->message);
	json_decref(call->request);
	free(call);
}

/* If there is no memory for the letter, the answer comes and is dropped. */
static void tell_gone(const struct call *call)
{
	struct letter *letter = call->id ? letter_new(LETTER_GONE) : NULL;
	if (!letter)
		return;
	letter->request = call->id;
	box_put(&call->thread->orders->loop, letter);
}

void calls_forget(struct bus_thread *thread)
{
	while (thread->calls) {
		tell_gone(thread->calls);
		end(thread->calls);
	}
}

/* ---- answers ---- */

/* Errors that D-Bus has a name for use that name, except AccessDenied, for which tools of systemd
 * show a text of their own. */
static void error_name(const char *code, char *ret_name, size_t len)
{
	static const char *const names[][2] = {
		{ "bad-parameter", SD_BUS_ERROR_INVALID_ARGS },
		{ "no-memory", SD_BUS_ERROR_NO_MEMORY },
		{ "timeout", SD_BUS_ERROR_TIMEOUT },
	};
	char camel[FORM_NAME_LEN];
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i][0], code)) {
			snprintf(ret_name, len, "%s", names[i][1]);
			return;
		}
	form_camel(code, camel);
	snprintf(ret_name, len, BUS_ERROR_NAME "%s", camel);
}

/* One sentence per line: the errors of a configuration are a list. */
static char *error_text(const json_t *error)
{
	const json_t *more = json_object_get(error, "errors");
	const char *text = json_string_value(json_object_get(error, "text"));
	char *all = NULL;
	size_t size;
	FILE *out = open_memstream(&all, &size);
	if (!out)
		return NULL;
	fputs(text ? text : "", out);
	for (size_t i = 0; i < json_array_size(more); i++)
		fprintf(out, "\n%s", json_string_value(json_array_get(more, i)));
	return fclose(out) == 0 ? all : NULL;
}

static int answer_error(const struct call *call, const json_t *error)
{
	const char *code = json_string_value(json_object_get(error, "code"));
	char name[sizeof(BUS_ERROR_NAME) + FORM_NAME_LEN];
	char *text = error_text(error);
	error_name(code ? code : "failed", name, sizeof(name));
	int r = sd_bus_reply_method_errorf(call->message, name, "%s", text ? text : "");
	free(text);
	return r;
}

static enum form_class class_of_rows(const struct form *form)
{
	static const char *const shows[NUM_FORM_CLASSES] = { [FORM_DEVICE] = "device.show",
							     [FORM_LINKGROUP] = "linkgroup.show",
							     [FORM_LINK] = "link.show" };
	enum form_class class = NUM_FORM_CLASSES;
	while (--class > FORM_MANAGER)
		if (!strcmp(shows[class], form->method.name))
			break;
	return class;
}

/* Add the path of its object to a row. */
static void name_objects(const struct form *form, json_t *rows)
{
	const enum form_class class = class_of_rows(form);
	char path[BUS_PATH_LEN];
	for (size_t i = 0; class != FORM_MANAGER && i < json_array_size(rows); i++) {
		objects_path(class, json_array_get(rows, i), path);
		if (*path)
			json_object_set_new(json_array_get(rows, i), "object", json_string(path));
	}
}

static int fill(sd_bus_message *message, const struct form *form, json_t *result,
		const json_t *next)
{
	int r;
	if (form->method.result == CONTROL_OUTCOME) {
		r = values_append(message, "s", json_object_get(result, "text"));
		json_object_del(result, "text");
		return r < 0 ? r : values_append_object(message, result);
	}
	if (form->method.result == CONTROL_ROWS) {
		name_objects(form, result);
		r = values_append_rows(message, result);
	} else {
		r = values_append_object(message, result);
	}
	return r < 0 || !form->parts ? r : values_append(message, "s", next);
}

static int answer_result(const struct call *call, json_t *result, const json_t *next)
{
	sd_bus_message *message = NULL;
	int r = sd_bus_message_new_method_return(call->message, &message);
	if (r >= 0)
		r = fill(message, call->form, result, next);
	if (r >= 0)
		r = sd_bus_send(call->thread->sd, message, NULL);
	sd_bus_message_unref(message);
	return r;
}

/* End the call. @param reply NULL: there was no memory for it */
static void answer(struct call *call, const json_t *reply)
{
	const json_t *error = json_object_get(reply, "error");
	json_t *result = json_object_get(reply, "result");
	int r = -ENOMEM;
	if (error)
		r = answer_error(call, error);
	else if (result)
		r = answer_result(call, result, json_object_get(reply, "next"));
	if (r < 0)
		sd_bus_reply_method_errnof(call->message, r, "smcrd cannot answer: %s",
					   strerror(-r));
	end(call);
}

void calls_answer(struct bus_thread *thread)
{
	struct letter *letter;
	struct call *call;
	while ((letter = box_take_kind(&thread->orders->thread, LETTER_ANSWER))) {
		json_t *reply = letter->text ? json_loads(letter->text, 0, NULL)
					     : json_incref(letter->json);
		DL_SEARCH_SCALAR(thread->calls, call, id, letter->request);
		if (call)
			answer(call, reply);
		json_decref(reply);
		letter_free(letter);
	}
}

/* ---- who asks ---- */

struct credentials {
	uint32_t uid, pid;
	bool has_uid;
	const uint32_t *groups; /* belongs to the message */
	size_t num_groups;
};

static int read_credential(sd_bus_message *message, struct credentials *ret)
{
	const char *name;
	const void *groups;
	size_t size;
	int r = sd_bus_message_read_basic(message, 's', &name);
	if (r < 0)
		return r;
	if (!strcmp(name, "UnixUserID")) {
		ret->has_uid = true;
		return sd_bus_message_read(message, "v", "u", &ret->uid);
	}
	if (!strcmp(name, "ProcessID"))
		return sd_bus_message_read(message, "v", "u", &ret->pid);
	if (strcmp(name, "UnixGroupIDs") != 0)
		return sd_bus_message_skip(message, "v");
	r = sd_bus_message_enter_container(message, 'v', "au");
	if (r >= 0)
		r = sd_bus_message_read_array(message, 'u', &groups, &size);
	if (r < 0)
		return r;
	ret->groups = groups;
	ret->num_groups = size / sizeof(uint32_t) <= MAX_GROUPS ? size / sizeof(uint32_t) : 0;
	return sd_bus_message_exit_container(message);
}

/* @return 0; else the reply of the bus is not usable */
static int read_credentials(sd_bus_message *message, struct credentials *ret)
{
	int r = sd_bus_message_is_method_error(message, NULL) ? -EACCES : 0;
	if (r == 0)
		r = sd_bus_message_enter_container(message, 'a', "{sv}");
	while (r >= 0) {
		r = sd_bus_message_enter_container(message, 'e', "sv");
		if (r == 0)
			break;
		if (r > 0)
			r = read_credential(message, ret);
		if (r >= 0)
			r = sd_bus_message_exit_container(message);
	}
	return r < 0 || ret->has_uid ? r : -EACCES;
}

/* @return NULL: there is no memory */
static struct letter *write_call(const struct credentials *credentials)
{
	_Static_assert(sizeof(gid_t) == sizeof(uint32_t), "groups are passed as they come");
	const size_t size = credentials->num_groups * sizeof(gid_t);
	struct letter *letter = letter_new(LETTER_CALL);
	if (letter && size && !(letter->groups = malloc(size))) {
		letter_free(letter);
		return NULL;
	}
	if (!letter)
		return NULL;
	if (size)
		memcpy(letter->groups, credentials->groups, size);
	letter->num_groups = credentials->num_groups;
	letter->cred = (struct ucred){ .pid = (pid_t)credentials->pid,
				       .uid = credentials->uid,
				       .gid = (gid_t)-1 }; /* the group is among `groups` */
	return letter;
}

static void pass_on(struct call *call, const struct credentials *credentials)
{
	struct letter *letter = write_call(credentials);
	if (!letter) {
		answer(call, NULL);
		return;
	}
	call->id = letter->request = thread_next_request(call->thread);
	letter->json = call->request;
	call->request = NULL;
	box_put(&call->thread->orders->loop, letter);
}

/* sd-bus makes such an error, in the name of the bus, if the bus does not answer in time. */
static void refuse_unknown(const struct call *call, sd_bus_message *message)
{
	if (sd_bus_message_is_method_error(message, SD_BUS_ERROR_NO_REPLY) > 0 ||
	    sd_bus_message_is_method_error(message, SD_BUS_ERROR_TIMEOUT) > 0)
		sd_bus_reply_method_errorf(call->message, SD_BUS_ERROR_TIMEOUT,
					   "the bus has not said in time who asks: call again");
	else
		sd_bus_reply_method_errorf(call->message, BUS_ERROR_NAME "NotPermitted",
					   "the bus does not say who asks");
}

static bool is_of_the_bus(sd_bus_message *message)
{
	const char *sender = sd_bus_message_get_sender(message);
	return sender && !strcmp(sender, "org.freedesktop.DBus");
}

static int on_credentials(sd_bus_message *message, void *userdata, sd_bus_error *ret_error)
{
	struct call *call = userdata;
	struct credentials credentials = { 0 };
	(void)ret_error;
	call->asking = sd_bus_slot_unref(call->asking);
	if (is_of_the_bus(message) && read_credentials(message, &credentials) == 0) {
		pass_on(call, &credentials);
		return 0;
	}
	refuse_unknown(call, message);
	end(call);
	return 0;
}

/* ---- what is wanted ---- */

static const struct form *find_form(const struct bus_class *class, const char *member)
{
	for (size_t i = 0; i < class->num_forms; i++)
		if (!strcmp(class->forms[i].member, member))
			return &class->forms[i];
	return NULL;
}

/* The parameters that the path gives, with the names of daemon/control. */
static void put_bound(const struct bus_object *object, json_t *params)
{
	if (object->class == FORM_DEVICE)
		json_object_set_new(params, "name", json_string(object->name));
	if (object->class == FORM_LINKGROUP || object->class == FORM_LINK)
		json_object_set_new(params, "linkgroup", json_integer(object->linkgroup));
	if (object->class == FORM_LINK)
		json_object_set_new(params, "link", json_integer(object->link));
}

static int read_arguments(sd_bus_message *message, const struct form *form, json_t *params,
			  sd_bus_error *error)
{
	struct control_param param;
	for (unsigned int i = 0; control_param(i, &param); i++) {
		json_t *value;
		if (!(form->arguments & 1u << i))
			continue;
		int r = values_read(message, form_type(&param), &value);
		if (r < 0)
			return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS,
						 "argument \"%s\" is too long, or no text",
						 param.name);
		json_object_set_new(params, param.name, value);
	}
	return form->options ? values_read_options(message, params, error) : 0;
}

/* Options are read last, so that they cannot replace the path and the arguments. */
static json_t *read_request(sd_bus_message *message, const struct bus_object *object,
			    const struct form *form, sd_bus_error *error)
{
	json_t *params = json_object();
	put_bound(object, params);
	int r = read_arguments(message, form, params, error);
	if (r < 0 && !sd_bus_error_is_set(error))
		sd_bus_error_set_errno(error, r);
	if (r < 0) {
		json_decref(params);
		return NULL;
	}
	return json_pack("{s:s, s:o}", "method", form->method.name, "params", params);
}

static bool too_many(const struct bus_thread *thread, const char *sender)
{
	const struct call *call;
	size_t num = 0;
	DL_FOREACH (thread->calls, call)
		num += !strcmp(sd_bus_message_get_sender(call->message), sender);
	return num >= BUS_MAX_CALLS_OF_SENDER || thread->num_calls >= BUS_MAX_CALLS;
}

static int begin(struct call *call)
{
	return sd_bus_call_method_async(call->thread->sd, &call->asking, "org.freedesktop.DBus",
					"/org/freedesktop/DBus", "org.freedesktop.DBus",
					"GetConnectionCredentials", on_credentials, call, "s",
					sd_bus_message_get_sender(call->message));
}

/* Calls of the standard interfaces only ask, so they are dropped if the caller wants no answer.
 * Changes are made all the same. */
static bool asks_in_vain(sd_bus_message *message)
{
	const char *interface = sd_bus_message_get_interface(message);
	return !sd_bus_message_get_expect_reply(message) && interface &&
	       !strncmp(interface, "org.freedesktop.", strlen("org.freedesktop."));
}

/* sd-bus looks up each prefix of a path and hashes it, so the time grows with the square of the
 * length: a path of the 64 KiB that it allows takes a third of a second. */
static bool is_no_path_of_ours(sd_bus_message *message)
{
	return strlen(sd_bus_message_get_path(message)) >= BUS_PATH_LEN;
}

static bool asks_for_all(sd_bus_message *message)
{
	return !strcmp(sd_bus_message_get_member(message), "GetManagedObjects");
}

static int refuse(sd_bus_message *message, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* @return as calls_admit() */
static int refuse(sd_bus_message *message, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int r = sd_bus_reply_method_errorfv(message, SD_BUS_ERROR_LIMITS_EXCEEDED, format, args);
	va_end(args);
	return r < 0 ? r : 1;
}

int calls_admit(struct bus_thread *thread, sd_bus_message *message)
{
	const char *sender = sd_bus_message_get_sender(message);
	if (asks_in_vain(message))
		return 1;
	if (is_no_path_of_ours(message)) {
		int r = sd_bus_reply_method_errorf(message, SD_BUS_ERROR_UNKNOWN_OBJECT,
						   "smcrd has no object whose path has %d bytes "
						   "or more",
						   BUS_PATH_LEN);
		return r < 0 ? r : 1;
	}
	const uint64_t now = fabric_now();
	const bool all = asks_for_all(message);
	const unsigned int weight = all ? BUS_MAX_CALLS_A_SECOND / BUS_MAX_ALL_A_SECOND : 1;
	if (sender && !callers_admit(thread, sender, weight, now))
		return refuse(message,
			      "no connection to the bus may call more than %d times a second: "
			      "call again in a second",
			      BUS_MAX_CALLS_A_SECOND);
	if (all && now < thread->all_at)
		return refuse(message, "all objects are asked for too often, by all callers: call "
				       "again in a second");
	return 0;
}

int calls_on_method(sd_bus_message *message, void *userdata, sd_bus_error *ret_error)
{
	const struct bus_object *object = userdata;
	struct bus_thread *thread = object->thread;
	const char *sender = sd_bus_message_get_sender(message);
	const struct form *form =
		find_form(&thread->classes[object->class], sd_bus_message_get_member(message));
	if (!form || !sender)
		return -EINVAL;
	if (form->method.result != CONTROL_OUTCOME && !sd_bus_message_get_expect_reply(message))
		return 1;
	if (too_many(thread, sender))
		return sd_bus_error_set_const(ret_error, SD_BUS_ERROR_LIMITS_EXCEEDED,
					      "too many calls wait for their answers: wait for "
					      "some of them first");
	json_t *request = read_request(message, object, form, ret_error);
	struct call *call = request ? calloc(1, sizeof(*call)) : NULL;
	if (!call) {
		json_decref(request);
		return sd_bus_error_is_set(ret_error) ? -sd_bus_error_get_errno(ret_error)
						      : -ENOMEM;
	}
	*call = (struct call){ .thread = thread,
			       .message = sd_bus_message_ref(message),
			       .form = form,
			       .request = request };
	DL_APPEND(thread->calls, call);
	thread->num_calls++;
	int r = begin(call);
	if (r < 0)
		end(call);
	return r < 0 ? r : 1;
}

/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/top_ask.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "cli/smcrctl/pages.h"

#define PATIENCE_S 5 /* keys, such as that for the end, wait as long as smcrd's answer */

static const struct {
	const char *method;
	const char *parameters[3]; /* those of the filter that the method takes; NULL: all */
} views[TOP_KINDS] = {
	[TOP_GROUPS] = { "linkgroup.show", { "peer", "linkgroup" } },
	[TOP_LINKS] = { "link.show", { "peer", "linkgroup" } },
	[TOP_CONNECTIONS] = { "connection.show" },
};

uint64_t top_ask_now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static char *request_of(enum top_kind kind, const json_t *filter)
{
	json_t *params = kind == TOP_CONNECTIONS ? json_copy((json_t *)filter) : NULL;
	if (!params)
		params = json_object();
	for (const char *const *key = views[kind].parameters; *key; key++)
		if (json_object_get(filter, *key))
			json_object_set(params, *key, json_object_get(filter, *key));
	json_t *request = json_pack("{s:s, s:o}", "method", views[kind].method, "params", params);
	char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
	json_decref(request);
	return text;
}

static int no_memory(char ret_error[SESSION_ERROR_LEN])
{
	snprintf(ret_error, SESSION_ERROR_LEN, "out of memory");
	return -ENOMEM;
}

static bool follows(const struct top_ask *ask, const struct top_sample *sample)
{
	return ask->has_now && ask->now.smcrd == sample->smcrd;
}

/* @return 1: there is another page that is wanted; 0: there is none; a negative errno */
static int take_reply(struct top_ask *ask, struct top_sample *sample, enum top_kind kind,
		      const json_t *reply, char ret_error[SESSION_ERROR_LEN])
{
	const json_int_t last_ended = follows(ask, sample) ? ask->now.last_ended : TOP_NOT_KNOWN;
	json_t *error = json_object_get(reply, "error");
	const json_t *result = json_object_get(reply, "result");
	if (error) {
		const char *text = json_string_value(json_object_get(error, "text"));
		snprintf(ret_error, SESSION_ERROR_LEN, "%s", text ? text : "smcrd gave no reason");
		json_decref(ask->refusal);
		ask->refusal = json_incref(error);
		return -ENOENT;
	}
	if (!json_is_array(result)) {
		snprintf(ret_error, SESSION_ERROR_LEN, "smcrd's reply has no rows");
		return -EBADMSG;
	}
	const int more = top_sample_add(sample, kind, result, top_ask_now(), last_ended);
	if (more < 0)
		return no_memory(ret_error);
	return more && pages_next(reply);
}

static int ask_view(struct top_ask *ask, struct session *session, struct top_sample *sample,
		    enum top_kind kind, char ret_error[SESSION_ERROR_LEN])
{
	char *request = request_of(kind, ask->filter);
	json_t *reply = NULL, *last = NULL;
	int more = request ? 1 : no_memory(ret_error);
	while (more > 0) {
		const int error = pages_ask(session, request, last ? pages_next(last) : NULL,
					    &reply, ret_error);
		json_decref(last);
		last = NULL;
		if (error) {
			more = error;
			break;
		}
		last = reply;
		more = take_reply(ask, sample, kind, reply, ret_error);
	}
	json_decref(last);
	free(request);
	return more;
}

static pid_t daemon_of(const struct session *session)
{
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);
	if (getsockopt(session->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return 0;
	return cred.pid;
}

int top_ask(struct top_ask *ask, char ret_error[SESSION_ERROR_LEN])
{
	struct session session;
	struct top_sample sample = { .begun_us = top_ask_now() };
	int error = session_open(&session, ask->socket_path, PATIENCE_S, ret_error);
	if (error)
		return error;
	sample.smcrd = daemon_of(&session);
	for (enum top_kind kind = 0; !error && kind < TOP_KINDS; kind++)
		error = ask_view(ask, &session, &sample, kind, ret_error);
	session_close(&session);
	if (error) {
		top_sample_free(&sample);
		return error;
	}
	top_sample_free(&ask->before);
	ask->has_before = follows(ask, &sample);
	ask->before = ask->now;
	ask->now = sample;
	ask->has_now = true;
	return 0;
}

void top_ask_filter(struct top_ask *ask, const json_t *filter)
{
	ask->filter = filter;
	ask->has_now = ask->has_before = false;
	top_sample_free(&ask->before);
	top_sample_free(&ask->now);
}

void top_ask_free(struct top_ask *ask)
{
	top_ask_filter(ask, NULL);
	json_decref(ask->refusal);
	ask->refusal = NULL;
}

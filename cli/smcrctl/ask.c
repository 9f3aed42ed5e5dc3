/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/ask.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "cli/smcrctl/pages.h"

static int take_result(json_t *reply, json_t **ret_result, char ret_error[SESSION_ERROR_LEN])
{
	const json_t *error = json_object_get(reply, "error");
	const char *text = json_string_value(json_object_get(error, "text"));
	json_t *result = json_object_get(reply, "result");
	if (result && !error) {
		*ret_result = json_incref(result);
		return 0;
	}
	snprintf(ret_error, SESSION_ERROR_LEN, "%s", text ? text : "smcrd gave no reason");
	return -ENOENT;
}

int ask_smcrd(const char *socket_path, unsigned int seconds, const char *method, json_t *params,
	      json_t **ret_result, char ret_error[SESSION_ERROR_LEN])
{
	struct session session;
	json_t *reply;
	json_t *request = json_pack("{s:s, s:o*}", "method", method, "params", params);
	char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
	json_decref(request);
	if (!text) {
		snprintf(ret_error, SESSION_ERROR_LEN, "out of memory");
		return -ENOMEM;
	}
	int error = session_open(&session, socket_path, seconds, ret_error);
	if (!error)
		error = pages_request(&session, text, &reply, ret_error);
	session_close(&session);
	free(text);
	if (error)
		return error;
	error = take_result(reply, ret_result, ret_error);
	json_decref(reply);
	return error;
}

pid_t ask_pid(const char *socket_path)
{
	char error[SESSION_ERROR_LEN];
	struct session session;
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);
	if (session_open(&session, socket_path, 1, error))
		return 0;
	if (getsockopt(session.fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		cred.pid = 0;
	session_close(&session);
	return cred.pid;
}

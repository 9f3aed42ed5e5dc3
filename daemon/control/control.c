/* SPDX-License-Identifier: MIT */
#include "daemon/control/control.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "daemon/control/views.h"

/** A refusal: jansson cannot carry one, so methods return NULL and fill this. */
struct refusal {
	const char *code; /* short, stable */
	int error;        /* positive errno */
	char text[256];
};

struct method {
	const char *name;
	json_t *(*show)(struct control *control);
};

/* Unknown parameters are refused, so that a client of a later version learns that we ignore them.
 */
static const struct method methods[] = {
	{ "info.show", control_show_info },
	{ "device.show", control_show_devices },
	{ "linkgroup.show", control_show_linkgroups },
	{ "link.show", control_show_links },
	{ "connection.show", control_show_connections },
};

static const struct method *find_method(const char *name)
{
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (!strcmp(methods[i].name, name))
			return &methods[i];
	return NULL;
}

static json_t *refuse(struct refusal *refusal, int error, const char *code, const char *text)
{
	refusal->error = error;
	refusal->code = code;
	snprintf(refusal->text, sizeof(refusal->text), "%s", text);
	return NULL;
}

static json_t *call(struct control *control, json_t *request, struct refusal *refusal)
{
	const char *name = json_string_value(json_object_get(request, "method"));
	json_t *params = json_object_get(request, "params");
	char text[256];
	if (!name)
		return refuse(refusal, EINVAL, "bad-request",
			      "the request has no \"method\" string");
	const struct method *method = find_method(name);
	if (!method) {
		snprintf(text, sizeof(text), "this smcrd (%s) has no method \"%.64s\"",
			 SMCRD_VERSION, name);
		return refuse(refusal, EOPNOTSUPP, "unknown-method", text);
	}
	if (params && json_object_size(params) > 0) {
		snprintf(text, sizeof(text), "%s takes no parameters", method->name);
		return refuse(refusal, EINVAL, "bad-parameter", text);
	}
	json_t *result = method->show(control);
	return result ? result : refuse(refusal, ENOMEM, "no-memory", "out of memory");
}

static json_t *make_reply(json_t *result, const struct refusal *refusal)
{
	if (result)
		return json_pack("{s:i, s:o}", "schema", CONTROL_SCHEMA, "result", result);
	return json_pack("{s:i, s:{s:s, s:i, s:s}}", "schema", CONTROL_SCHEMA, "error", "code",
			 refusal->code, "errno", refusal->error, "text", refusal->text);
}

int control_handle(struct control *control, const struct ucred *cred, const char *json, size_t len,
		   char **ret_reply)
{
	struct refusal refusal = { 0 };
	json_error_t where;
	json_t *result = NULL;
	(void)cred; /* every method of the table only shows */
	json_t *request = json_loadb(json, len, JSON_REJECT_DUPLICATES, &where);
	if (json_is_object(request)) {
		result = call(control, request, &refusal);
	} else {
		char text[256];
		snprintf(text, sizeof(text), "the request is not a JSON object: %.160s",
			 request ? "it is another value" : where.text);
		refuse(&refusal, EINVAL, "bad-request", text);
	}
	json_decref(request);
	json_t *reply = make_reply(result, &refusal);
	char *text = reply ? json_dumps(reply, JSON_COMPACT) : NULL;
	json_decref(reply);
	if (!text)
		return -ENOMEM;
	*ret_reply = text;
	return 0;
}

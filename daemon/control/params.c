/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/control/internal.h"
#include "daemon/control/methods.h"

#define LINK_MAX_NUMBER UINT8_MAX /* one byte in LLC messages */

/* Most numbers start at 1, like those of link groups and links. */
static const struct {
	const char *name;
	json_int_t max; /* of a number; 0: the parameter is no number */
	bool text;      /* not a number: a text; false: true or false */
	bool zero;      /* may the number be 0? */
} table[NUM_PARAMS] = {
	[PARAM_LINKGROUP] = { "linkgroup", UINT32_MAX },
	[PARAM_LINK] = { "link", LINK_MAX_NUMBER },
	[PARAM_FROM] = { "from", LINK_MAX_NUMBER },
	[PARAM_TO] = { "to", LINK_MAX_NUMBER },
	[PARAM_DISORDERLY] = { "disorderly", 0 },
	[PARAM_NAME] = { "name", 0, true },
	[PARAM_RULE] = { "rule", 0, true },
	[PARAM_PEER] = { "peer", 0, true },
	[PARAM_PORT] = { "port", UINT16_MAX },
	[PARAM_AFTER] = { "after", 0, true },
	[PARAM_LOCAL] = { "local", 0, true },
	[PARAM_PROGRAM] = { "program", 0, true },
	[PARAM_PID] = { "pid", INT32_MAX },
	[PARAM_UID] = { "uid", UINT32_MAX, .zero = true },
	[PARAM_MODE] = { "mode", 0, true },
	[PARAM_STATE] = { "state", 0, true },
	[PARAM_VALUE] = { "value", 0, true },
	[PARAM_DATA] = { "data", 0 },
	[PARAM_WAIT] = { "wait", 0 },
	[PARAM_ID] = { "id", UINT32_MAX },
};

bool control_param(unsigned int number, struct control_param *ret_param)
{
	if (number >= NUM_PARAMS)
		return false;
	*ret_param = (struct control_param){ .name = table[number].name,
					     .type = CONTROL_TRUTH,
					     .max = (uint32_t)table[number].max };
	if (table[number].max)
		ret_param->type = CONTROL_NUMBER;
	else if (table[number].text)
		ret_param->type = CONTROL_TEXT;
	return true;
}

static void store(struct params *params, enum param_name name, const json_t *value)
{
	json_int_t number = json_integer_value(value);
	switch (name) {
	case PARAM_LINKGROUP: params->linkgroup = (uint32_t)number; break;
	case PARAM_LINK: params->link = (uint8_t)number; break;
	case PARAM_FROM: params->from = (uint8_t)number; break;
	case PARAM_TO: params->to = (uint8_t)number; break;
	case PARAM_DISORDERLY: params->disorderly = json_is_true(value); break;
	case PARAM_NAME: params->name = json_string_value(value); break;
	case PARAM_RULE: params->rule = json_string_value(value); break;
	case PARAM_PEER: params->peer = json_string_value(value); break;
	case PARAM_PORT: params->port = (uint16_t)number; break;
	case PARAM_AFTER: params->after = json_string_value(value); break;
	case PARAM_LOCAL: params->local = json_string_value(value); break;
	case PARAM_PROGRAM: params->program = json_string_value(value); break;
	case PARAM_PID: params->pid = (uint32_t)number; break;
	case PARAM_UID: params->uid = (uint32_t)number; break;
	case PARAM_MODE: params->mode = json_string_value(value); break;
	case PARAM_STATE: params->state = json_string_value(value); break;
	case PARAM_VALUE: params->value = json_string_value(value); break;
	case PARAM_DATA: params->data = json_is_true(value); break;
	case PARAM_WAIT: params->wait = json_is_true(value); break;
	case PARAM_ID: params->id = (uint32_t)number; break;
	case NUM_PARAMS: break;
	}
	params->given |= 1u << name;
}

static bool wrong(struct refusal *refusal, enum param_name name, const char *what)
{
	if (table[name].max)
		refuse(refusal, EINVAL, "bad-parameter",
		       "parameter \"%s\" %s; it is a number from %d to %" JSON_INTEGER_FORMAT,
		       table[name].name, what, table[name].zero ? 0 : 1, table[name].max);
	else
		refuse(refusal, EINVAL, "bad-parameter", "parameter \"%s\" %s; it is %s",
		       table[name].name, what, table[name].text ? "a string" : "true or false");
	refusal->parameter = table[name].name;
	return false;
}

static bool take(const json_t *value, enum param_name name, struct params *params,
		 struct refusal *refusal)
{
	bool right = table[name].max    ? json_is_integer(value)
		     : table[name].text ? json_is_string(value)
					: json_is_boolean(value);
	if (!right)
		return wrong(refusal, name, "is of the wrong type");
	if (table[name].max != 0 && (json_integer_value(value) < (table[name].zero ? 0 : 1) ||
				     json_integer_value(value) > table[name].max))
		return wrong(refusal, name, "is out of range");
	store(params, name, value);
	return true;
}

/* "linkgroup, link" */
static void list_names(unsigned int set, char *text, size_t len)
{
	size_t at = 0;
	snprintf(text, len, "none");
	for (int name = 0; name < NUM_PARAMS; name++)
		if (set & 1u << name)
			at += (size_t)snprintf(text + at, len - at, "%s%s", at ? ", " : "",
					       table[name].name);
}

static bool known_only(const json_t *json, unsigned int allowed, struct refusal *refusal)
{
	char names[128];
	const char *key;
	json_t *value;
	json_object_foreach((json_t *)json, key, value)
	{
		int name = 0;
		while (name < NUM_PARAMS && strcmp(table[name].name, key))
			name++;
		if (name < NUM_PARAMS && allowed & 1u << name)
			continue;
		list_names(allowed, names, sizeof(names));
		refuse(refusal, EINVAL, "bad-parameter",
		       "there is no parameter \"%.64s\" here; there is: %s", key, names);
		refusal->parameter = key;
		return false;
	}
	return true;
}

bool params_take(const json_t *json, unsigned int required, unsigned int optional,
		 struct params *ret_params, struct refusal *refusal)
{
	struct params params = { 0 };
	if (json && !json_is_object(json)) {
		refuse(refusal, EINVAL, "bad-request", "\"params\" is not a JSON object");
		return false;
	}
	if (!known_only(json, required | optional, refusal))
		return false;
	for (int name = 0; name < NUM_PARAMS; name++) {
		const json_t *value = json_object_get(json, table[name].name);
		if (!value && required & 1u << name)
			return wrong(refusal, (enum param_name)name, "is missing");
		if (value && !take(value, (enum param_name)name, &params, refusal))
			return false;
	}
	*ret_params = params;
	return true;
}

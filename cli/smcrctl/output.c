/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/smcrctl/session.h"

void output_json(const struct output *output, const char *key, const json_t *value)
{
	FILE *to = output->to ? output->to : stdout;
	json_t *document = json_pack("{s:i, s:O}", "schema", 1, key, value);
	json_dumpf(document, to, output->pretty ? JSON_INDENT(2) : JSON_COMPACT);
	putc('\n', to);
	json_decref(document);
}

/* Words of the command line need not be UTF-8; JSON is UTF-8 only. */
static json_t *text_json(const char *text)
{
	json_t *json = json_string(text);
	char *copy = json ? NULL : strdup(text);
	for (char *at = copy; at && *at; at++)
		*at = *at & (char)0x80 ? '?' : *at;
	if (!json)
		json = json_string(copy ? copy : "");
	free(copy);
	return json;
}

int output_error(const struct output *output, enum exit_status status, const char *code,
		 const char *text)
{
	fprintf(stderr, "smcrctl: %s\n", text);
	if (output->json) {
		json_t *error = json_pack("{s:s, s:o}", "code", code, "text", text_json(text));
		output_json(output, "error", error);
		json_decref(error);
	}
	return status;
}

int output_failure(const struct output *output, int error, const char *text)
{
	char whole[SESSION_ERROR_LEN + 80];
	if (error == -ECONNREFUSED) {
		snprintf(whole, sizeof(whole),
			 "%s; start it: systemctl start smcrd ('smcrctl doctor' tells more)", text);
		return output_error(output, STATUS_NO_DAEMON, "no-daemon", whole);
	}
	if (error == -ETIMEDOUT || error == -EACCES) {
		snprintf(whole, sizeof(whole), "%s; 'smcrctl doctor' tells what to do", text);
		return output_error(output, STATUS_FAILED, "failed", whole);
	}
	if (error == -EPIPE)
		return output_error(output, STATUS_NO_DAEMON, "no-daemon", text);
	if (error == -EBADMSG)
		return output_error(output, STATUS_FAILED, "bad-reply", text);
	return output_error(output, STATUS_FAILED, "failed", text);
}

static bool has_code(const json_t *error, const char *code)
{
	const char *given = json_string_value(json_object_get(error, "code"));
	return given && !strcmp(given, code);
}

/* A wrong value is wrong usage, whoever notices it. */
static enum exit_status status_of(const json_t *error)
{
	if (has_code(error, "bad-parameter"))
		return STATUS_USAGE;
	return json_integer_value(json_object_get(error, "errno")) == ENOENT ? STATUS_NOT_FOUND
									     : STATUS_FAILED;
}

int output_refusal(const struct output *output, const json_t *error)
{
	const char *text = json_string_value(json_object_get(error, "text"));
	/* smcrd's sentence does not name the command, or names it as the method that it is. */
	bool naming = has_code(error, "not-permitted") || has_code(error, "unknown-method");
	size_t i;
	json_t *one;
	fprintf(stderr, "smcrctl: %s%s%s\n", naming ? output->words : "", naming ? ": " : "",
		text ? text : "smcrd gave no reason");
	json_array_foreach(json_object_get(error, "errors"), i, one)
	{
		fprintf(stderr, "  %s\n", json_string_value(one));
	}
	if (output->json)
		output_json(output, "error", error);
	return status_of(error);
}

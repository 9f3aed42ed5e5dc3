/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/smcrctl/pages.h"
#include "cli/smcrctl/table.h"
#include "cli/smcrctl/words.h"
#include "proto/ipc/trace.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define OFF          "off"
#define LEVEL_KEY    "log_level"
#define TRACE_KEY    "log_trace"

const char *const log_levels[] = { "error", "warning", "notice", "info", "debug", NULL };

const char *const log_traces[] = {
#define TRACE_WORD(type, name) name,
	IPC_TRACES(TRACE_WORD)
#undef TRACE_WORD
		IPC_TRACE_ALL,
	OFF, NULL
};

/* ---- show ---- */

/* "clc llc" as an array. */
static json_t *categories(const char *value)
{
	json_t *list = json_array();
	char *words = strdup(value ? value : ""), *rest = words;
	for (char *word; words && (word = strsep(&rest, " "));)
		if (*word && strcmp(word, IPC_TRACE_NONE) != 0)
			json_array_append_new(list, json_string(word));
	free(words);
	return list;
}

static const char *value_of(const json_t *rows, const char *key)
{
	size_t i;
	json_t *row;
	json_array_foreach(rows, i, row)
	{
		const char *name = json_string_value(json_object_get(row, "key"));
		if (name && !strcmp(name, key))
			return json_string_value(json_object_get(row, "value"));
	}
	return NULL;
}

int log_gather(struct session *session, const char *request, json_t **ret_reply,
	       char ret_error[SESSION_ERROR_LEN])
{
	json_t *reply;
	(void)request;
	int error = pages_request(session, "{\"method\":\"config.show\"}", &reply, ret_error);
	if (error)
		return error;
	const json_t *rows = json_object_get(reply, "result");
	if (!rows) {
		*ret_reply = reply;
		return 0;
	}
	*ret_reply = json_pack("{s:i, s:{s:s?, s:o}}", "schema", 1, "result", "level",
			       value_of(rows, LEVEL_KEY), "trace",
			       categories(value_of(rows, TRACE_KEY)));
	json_decref(reply);
	return 0;
}

static char *trace_text(const json_t *result)
{
	char *text = NULL;
	size_t size = 0, i;
	json_t *word;
	const json_t *list = json_object_get(result, "trace");
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	json_array_foreach(list, i, word)
	{
		fprintf(out, "%s%s", i ? " " : "", json_string_value(word));
	}
	if (!json_array_size(list))
		fputs(OFF, out);
	fclose(out);
	return text;
}

static const struct column columns[] = {
	{ "LEVEL", "level" },
	{ "TRACE", NULL, .format = trace_text },
};

void log_print(const json_t *result, bool details)
{
	table_print_object(result, columns, COUNT(columns), details);
}

/* ---- commands ---- */

/* "a, b, c" */
static void list_words(const char *const *words, char *text, size_t len)
{
	size_t at = 0;
	*text = '\0';
	for (size_t i = 0; words[i] && at < len; i++)
		at += (size_t)snprintf(text + at, len - at, "%s%s", i ? ", " : "", words[i]);
}

static size_t count(const char *const *words)
{
	size_t n = 0;
	while (words[n])
		n++;
	return n;
}

/* The whole word; NULL after an error message. */
static const char *find_word(const char *word, const char *what, const char *const *words)
{
	char list[128], hint[WORDS_HINT_LEN];
	const char *other = NULL;
	int found = word ? words_match(word, words, count(words), &other) : -1;
	if (found >= 0 && !other)
		return words[found];
	list_words(words, list, sizeof(list));
	if (!word)
		words_refuse("which %s? %s; 'smcrctl log' shows what holds", what, list);
	else if (other)
		words_refuse("'%s' may be %s or %s", word, words[found], other);
	else
		words_refuse("'%s' is no %s: it is one of %s%s", word, what, list,
			     words_hint(word, words, count(words), hint));
	return NULL;
}

static bool set(json_t *params, const char *key, const char *value)
{
	return (!json_object_set_new(params, "name", json_string(key)) &&
		!json_object_set_new(params, "value", json_string(value))) ||
	       words_refuse("out of memory");
}

int log_level_argument(int argc, char **argv, json_t *params)
{
	const char *level = find_word(argc > 0 ? argv[0] : NULL, "level", log_levels);
	return level && set(params, LEVEL_KEY, level) ? 1 : -1;
}

int log_trace_arguments(int argc, char **argv, json_t *params)
{
	char value[128] = "";
	size_t at = 0;
	for (int i = 0; i < argc || i == 0; i++) {
		const char *word = find_word(i < argc ? argv[i] : NULL, "category", log_traces);
		if (!word)
			return -1;
		if (!strcmp(word, OFF) && argc > 1) {
			words_refuse("'off' turns all categories off: no other word goes with it");
			return -1;
		}
		if (!strcmp(word, OFF))
			word = IPC_TRACE_NONE;
		if (at < sizeof(value))
			at += (size_t)snprintf(value + at, sizeof(value) - at, "%s%s", i ? " " : "",
					       word);
	}
	if (at >= sizeof(value)) {
		words_refuse("too many categories");
		return -1;
	}
	return set(params, TRACE_KEY, value) ? argc : -1;
}

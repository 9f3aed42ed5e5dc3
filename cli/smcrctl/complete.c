/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/complete.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/smcrctl/ask.h"
#include "cli/smcrctl/commands.h"
#include "cli/smcrctl/filters.h"
#include "cli/smcrctl/log.h"
#include "cli/smcrctl/options.h"
#include "cli/smcrctl/output.h"
#include "proto/ipc/ipc.h"
#include "proto/ipc/trace.h"

#define ASK           "--complete"
#define SOCKET        "socket"
#define MOST_WORDS    32
#define PATIENCE_S    2 /* the user waits for the shell's answer */
#define NOT_AN_OPTION -1

struct question {
	const char *last;              /* the word to be completed */
	const char *words[MOST_WORDS]; /* the words before it, without options */
	int num_words;
	const char *option; /* whose value the last word is; NULL: it is no value */
	const char *socket_path;
};

static void offer(const struct question *question, const char *word)
{
	if (!strncmp(word, question->last, strlen(question->last)))
		puts(word);
}

static void offer_all(const struct question *question, const char *const *words)
{
	for (; *words; words++)
		offer(question, *words);
}

/* ---- the words before ---- */

/* @return 1: the next word is the option's value; 0: the option has no value; NOT_AN_OPTION
 * @param ret_name  the option's long name */
static int look_at_option(const char *word, const char **ret_name)
{
	const char *name;
	bool has_value;
	char letter;
	if (word[0] != '-' || !word[1])
		return NOT_AN_OPTION;
	for (unsigned int i = 0; (name = options_name(i, &has_value, &letter)); i++) {
		bool is_long = word[1] == '-' && !strcmp(word + 2, name);
		/* -jw: the last letter counts */
		bool is_short = word[1] != '-' && letter && word[strlen(word) - 1] == letter;
		if (!is_long && !is_short)
			continue;
		*ret_name = name;
		return has_value;
	}
	return 0;
}

static void read_words(struct question *question, int argc, char **argv)
{
	const char *value_of = NULL;
	for (int i = 0; i + 1 < argc; i++) {
		const char *name = NULL;
		if (value_of) {
			if (!strcmp(value_of, SOCKET))
				question->socket_path = argv[i];
			value_of = NULL;
			continue;
		}
		if (!strncmp(argv[i], "--" SOCKET "=", strlen("--" SOCKET "=")))
			question->socket_path = argv[i] + strlen("--" SOCKET "=");
		int value = look_at_option(argv[i], &name);
		if (value == 1)
			value_of = name;
		else if (value == NOT_AN_OPTION && question->num_words < MOST_WORDS)
			question->words[question->num_words++] = argv[i];
	}
	question->option = value_of;
	question->last = argc > 0 ? argv[argc - 1] : "";
}

/* Exact words only: a prefix may mean several objects. */
static const struct object *object_of(const struct question *question)
{
	for (size_t i = 0; question->num_words > 0 && i < num_objects; i++)
		if (!strcmp(objects[i].name, question->words[0]))
			return &objects[i];
	return NULL;
}

static const struct command *command_of(const struct object *object, const char *word)
{
	for (size_t i = 0; i < num_commands; i++)
		if (!strcmp(commands[i].object, object->name) && commands[i].name &&
		    !strcmp(commands[i].name, word))
			return &commands[i];
	return NULL;
}

/* ---- what smcrd has ---- */

/* Text of a row: one key's value, or two of them with a slash between. */
static bool value_of_row(const json_t *row, const char *key, const char *second, char *text,
			 size_t len)
{
	const json_t *value = json_object_get(row, key);
	if (json_is_string(value))
		return snprintf(text, len, "%s", json_string_value(value)) > 0;
	if (!json_is_integer(value))
		return false;
	int at = snprintf(text, len, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	if (second)
		snprintf(text + at, len - (size_t)at, "/%" JSON_INTEGER_FORMAT,
			 json_integer_value(json_object_get(row, second)));
	return true;
}

/* Offers only texts that begin with `begin`. */
static void offer_rows(const struct question *question, const char *method, const char *list,
		       const char *key, const char *second, const char *begin)
{
	char error[SESSION_ERROR_LEN], text[512];
	json_t *result, *row, *offered = json_object();
	size_t i;
	if (ask_smcrd(question->socket_path, PATIENCE_S, method, NULL, &result, error)) {
		json_decref(offered);
		return; /* without smcrd's answer the user has to type the word */
	}
	json_array_foreach(list ? json_object_get(result, list) : result, i, row)
	{
		if (!value_of_row(row, key, second, text, sizeof(text)) ||
		    json_object_get(offered, text) || strncmp(text, begin, strlen(begin)))
			continue;
		json_object_set_new(offered, text, json_true());
		offer(question, text);
	}
	json_decref(offered);
	json_decref(result);
}

/* Those of SMB Direct that have not ended, which come first. */
static void offer_live(const struct question *question)
{
	offer_rows(question, "smbdirect.show", "connections", "id", NULL, "");
}

static void offer_values(const struct question *question, enum commands_value value)
{
	switch (value) {
	case COMMANDS_GROUP: offer_rows(question, "linkgroup.show", NULL, "id", NULL, ""); break;
	case COMMANDS_LINK:
		offer_rows(question, "link.show", NULL, "linkgroup", "number", "");
		break;
	case COMMANDS_UEID: offer_rows(question, "ueid.show", NULL, "name", NULL, ""); break;
	case COMMANDS_RULE: offer_rows(question, "policy.show", "rules", "rule", NULL, ""); break;
	case COMMANDS_DEVICE: offer_rows(question, "device.show", NULL, "name", NULL, ""); break;
	case COMMANDS_SMBDIRECT: offer_live(question); break;
	case COMMANDS_LOG_LEVEL: offer_all(question, log_levels); break;
	case COMMANDS_LOG_TRACE: offer_all(question, log_traces); break;
	case COMMANDS_OTHER: break;
	}
}

/* ---- keys of the configuration, and their values ---- */

#define TRACE_WORD(type, name) name,

/* For keys whose values are words. */
static const struct {
	const char *key;
	const char *words[10];
} known_values[] = {
	{ "dbus", { "yes", "no", "auto" } },
	{ "log_level", { "error", "warning", "notice", "info", "debug" } },
	{ "log_trace", { IPC_TRACE_NONE, IPC_TRACE_ALL, IPC_TRACES(TRACE_WORD) } },
	{ "dialect", { "auto", "rfc", "deployed" } },
	{ "versions", { "auto", "1", "2" } },
	{ "shared_memory", { "yes", "no" } },
	{ "egress_guard", { "yes", "no" } },
};

/* The keys that `config set` can change. */
static void offer_keys(const struct question *question)
{
	char error[SESSION_ERROR_LEN];
	json_t *rows, *row;
	size_t i;
	if (ask_smcrd(question->socket_path, PATIENCE_S, "config.show", NULL, &rows, error))
		return;
	json_array_foreach(rows, i, row)
	{
		const char *key = json_string_value(json_object_get(row, "key"));
		if (key && json_is_true(json_object_get(row, "settable")))
			offer(question, key);
	}
	json_decref(rows);
}

static void offer_key_values(const struct question *question, const char *key)
{
	for (size_t i = 0; i < sizeof(known_values) / sizeof(known_values[0]); i++)
		if (!strcmp(known_values[i].key, key))
			offer_all(question, known_values[i].words);
}

/* ---- filters ---- */

static void offer_filter_value(const struct question *question, const char *object,
			       const char *filter)
{
	static const char *const modes[] = { "pending", "smcr", "tcp", NULL };
	static const char *const link_states[] = { "activating", "active", "deactivating", "failed",
						   NULL };
	static const char *const conn_states[] = { "init",
						   "active",
						   "peer-close-wait-1",
						   "peer-close-wait-2",
						   "app-close-wait-1",
						   "app-close-wait-2",
						   "app-fin-close-wait",
						   "peer-fin-close-wait",
						   "peer-abort-wait",
						   "process-abort",
						   "closed",
						   "failed",
						   "handed-back",
						   "plain",
						   NULL };
	static const char *const cm_states[] = { "asking", "asked", "accepting", "connected",
						 "ending", "ended", NULL };
	static const char *const smbdirect_states[] = { "connecting", "negotiating", "open",
							"draining",   "ended",       NULL };
	if (!strcmp(filter, "mode"))
		offer_all(question, modes);
	else if (!strcmp(filter, "state") && !strcmp(object, "cm"))
		offer_all(question, cm_states);
	else if (!strcmp(filter, "state") && !strcmp(object, "smbdirect"))
		offer_all(question, smbdirect_states);
	else if (!strcmp(filter, "state"))
		offer_all(question, strcmp(object, "link") ? conn_states : link_states);
	else if (!strcmp(filter, "peer"))
		offer_rows(question, "linkgroup.show", NULL, "peer", NULL, "");
	else if (!strcmp(filter, "group"))
		offer_values(question, COMMANDS_GROUP);
}

/* `at` is the first word that belongs to the filters. */
static void offer_filters(const struct question *question, const char *object, int at)
{
	int given = question->num_words - at;
	if (given % 2) {
		offer_filter_value(question, object, question->words[question->num_words - 1]);
		return;
	}
	for (unsigned int i = 0; filters_name(object, i); i++) {
		bool there = false;
		for (int w = at; w < question->num_words; w += 2)
			there |= !strcmp(question->words[w], filters_name(object, i));
		if (!there)
			offer(question, filters_name(object, i));
	}
}

/* ---- which kind of word comes next ---- */

static void offer_options(const struct question *question)
{
	const char *name;
	char text[40], letter;
	bool has_value;
	for (unsigned int i = 0; (name = options_name(i, &has_value, &letter)); i++) {
		snprintf(text, sizeof(text), "--%s", name);
		offer(question, text);
	}
}

static void offer_objects(const struct question *question)
{
	for (size_t i = 0; i < num_objects; i++)
		offer(question, objects[i].name);
}

static void offer_commands(const struct question *question, const struct object *object)
{
	if (object->print)
		offer(question, "show");
	for (size_t i = 0; i < num_commands; i++)
		if (!strcmp(commands[i].object, object->name) && commands[i].name)
			offer(question, commands[i].name);
	offer(question, "help");
}

/* The titles of a table's columns, in lower case, with the hyphen that was typed before. */
static void offer_columns(const struct question *question)
{
	const struct object *object = object_of(question);
	const char *minus = *question->last == '-' ? "-" : "";
	char text[64];
	for (size_t c = 0; object && c < object->num_columns; c++) {
		int n = snprintf(text, sizeof(text), "%s%s", minus, object->columns[c].title);
		for (int i = 0; i < n && i < (int)sizeof(text); i++)
			text[i] = (char)tolower((unsigned char)text[i]);
		offer(question, text);
	}
}

static void offer_links_of(const struct question *question, const char *group)
{
	char begin[40];
	snprintf(begin, sizeof(begin), "%.38s/", group);
	offer_rows(question, "link.show", NULL, "linkgroup", "number", begin);
}

/* Words behind an object that is itself a command. */
static void offer_own(const struct question *question, const struct object *object,
		      const struct command *own)
{
	if (!own->parse)
		offer_filters(question, FILTERS_OF_EVENTS, 1);
	else if (question->num_words == 1)
		offer_values(question, own->value);
	else if (!strcmp(object->name, "failover") && question->num_words % 2 == 0)
		offer_all(question, (const char *const[]){ "from", "to", NULL });
	else if (!strcmp(object->name, "failover"))
		offer_links_of(question, question->words[1]);
}

/* HOST [PORT] [program PATH] */
static void offer_check(const struct question *question)
{
	if (question->num_words == 1)
		offer_filter_value(question, "check", "peer");
	else if (question->num_words <= 3 &&
		 strcmp(question->words[question->num_words - 1], "program") != 0)
		offer(question, "program");
}

static void offer_behind(const struct question *question, const struct object *object)
{
	const struct command *own = commands_own(object), *command;
	if (object->run) {
		if (!strcmp(object->name, "check"))
			offer_check(question);
		else
			offer_filters(question, object->name, 1);
		return;
	}
	if (own) {
		offer_own(question, object, own);
		return;
	}
	if (question->num_words == 1) {
		offer_commands(question, object);
		offer_filters(question, object->name, 1);
		return;
	}
	if (!strcmp(object->name, "config") && !strcmp(question->words[1], "set")) {
		if (question->num_words == 2)
			offer_keys(question);
		else if (question->num_words == 3)
			offer_key_values(question, question->words[2]);
		return;
	}
	bool show = !strcmp(question->words[1], "show");
	command = command_of(object, question->words[1]);
	if (show || filters_begin(object->name, question->words[1]))
		offer_filters(question, object->name, show ? 2 : 1);
	else if (command && (question->num_words == 2 || command->value == COMMANDS_LOG_TRACE))
		offer_values(question, command->value);
}

static void offer_help(const struct question *question)
{
	struct question about = *question;
	about.num_words--;
	memmove(about.words, about.words + 1, sizeof(about.words) - sizeof(about.words[0]));
	const struct object *object = object_of(&about);
	if (about.num_words == 0)
		offer_objects(question);
	else if (object && about.num_words == 1 && !object->run && !commands_own(object))
		offer_commands(question, object);
}

bool complete_is_wanted(int argc, char **argv)
{
	return argc > 1 && !strcmp(argv[1], ASK);
}

int complete(int argc, char **argv)
{
	const char *path = getenv(IPC_SOCKET_ENV);
	struct question question = { .socket_path = path && *path ? path : IPC_DEFAULT_SOCKET };
	read_words(&question, argc, argv);
	const struct object *object = object_of(&question);
	if (question.option && !strcmp(question.option, "sort"))
		offer_columns(&question);
	else if (question.option)
		return STATUS_DONE;
	else if (*question.last == '-')
		offer_options(&question);
	else if (question.num_words == 0) {
		offer_objects(&question);
		offer(&question, "help");
	} else if (!strcmp(question.words[0], "help"))
		offer_help(&question);
	else if (object)
		offer_behind(&question, object);
	return STATUS_DONE;
}

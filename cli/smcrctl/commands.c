/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/commands.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/smcrctl/filters.h"
#include "cli/smcrctl/log.h"
#include "cli/smcrctl/words.h"
#include "proto/ipc/commands.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SHOW         "show"
#define MAX_OBJECTS  64
#define MAX_LINK     UINT8_MAX

/* GROUP/NUMBER */
static bool parse_link(const char *word, uint64_t *ret_group, uint64_t *ret_number)
{
	const char *slash = strchr(word, '/');
	if (slash && words_number(word, (size_t)(slash - word), WORDS_MAX_GROUP, ret_group) &&
	    words_number(slash + 1, strlen(slash + 1), MAX_LINK, ret_number))
		return true;
	return words_refuse("'%s' is no link: links are named GROUP/NUMBER, such as 3/2", word);
}

/* ---- arguments of commands; the caller refuses words that are left over ---- */

static int group_argument(int argc, char **argv, json_t *params)
{
	uint64_t group;
	if (argc < 1) {
		words_refuse("which link group? 'smcrctl linkgroup' lists them");
		return -1;
	}
	return words_group(argv[0], &group) && words_set(params, "linkgroup", group) ? 1 : -1;
}

static int link_argument(int argc, char **argv, json_t *params)
{
	uint64_t group, number;
	if (argc < 1) {
		words_refuse("which link? 'smcrctl link' lists them");
		return -1;
	}
	return parse_link(argv[0], &group, &number) && words_set(params, "linkgroup", group) &&
			       words_set(params, "link", number)
		       ? 1
		       : -1;
}

/* The word is NUMBER or GROUP/NUMBER; `params` has the group. */
static bool link_of_group(const char *key, const char *word, json_t *params)
{
	uint64_t group, number;
	uint64_t known = (uint64_t)json_integer_value(json_object_get(params, "linkgroup"));
	if (json_object_get(params, key))
		return words_refuse("'%s' is there twice", key);
	if (!word)
		return words_refuse("'%s' is not followed by a link", key);
	if (words_number(word, strlen(word), MAX_LINK, &number))
		return words_set(params, key, number);
	if (!parse_link(word, &group, &number))
		return false;
	if (group != known)
		return words_refuse("link %s is not in link group %llu", word,
				    (unsigned long long)known);
	return words_set(params, key, number);
}

/* GROUP [from LINK] [to LINK] */
static int failover_arguments(int argc, char **argv, json_t *params)
{
	static const char *const keys[] = { "from", "to" };
	const char *other;
	int taken = group_argument(argc, argv, params);
	while (taken > 0 && taken < argc) {
		int key = words_match(argv[taken], keys, COUNT(keys), &other);
		if (key < 0)
			break;
		const char *word = taken + 1 < argc ? argv[taken + 1] : NULL;
		if (!link_of_group(keys[key], word, params))
			return -1;
		taken += 2;
	}
	return taken;
}

static int ueid_argument(int argc, char **argv, json_t *params)
{
	if (argc < 1) {
		words_refuse("which UEID? 'smcrctl ueid' lists them");
		return -1;
	}
	if (json_object_set_new(params, "name", json_string(argv[0]))) {
		words_refuse("'%s' is no UEID", argv[0]);
		return -1;
	}
	return 1;
}

static int device_argument(int argc, char **argv, json_t *params)
{
	if (argc < 1) {
		words_refuse("which device? 'smcrctl device' lists them");
		return -1;
	}
	if (json_object_set_new(params, "name", json_string(argv[0]))) {
		words_refuse("'%s' is no device", argv[0]);
		return -1;
	}
	return 1;
}

static int smbdirect_argument(int argc, char **argv, json_t *params)
{
	uint64_t number;
	if (argc < 1)
		words_refuse("which connection? 'smcrctl smbdirect' lists them");
	else if (!words_number(argv[0], strlen(argv[0]), UINT32_MAX, &number))
		words_refuse("'%s' is no number of a connection: 'smcrctl smbdirect' lists them",
			     argv[0]);
	else
		return words_set(params, "id", number) ? 1 : -1;
	return -1;
}

/* All words together are a rule as in smcrd.conf(5). */
static int rule_arguments(int argc, char **argv, json_t *params)
{
	char *text = NULL, number[WORDS_USER_LEN];
	size_t size;
	FILE *out = open_memstream(&text, &size);
	if (argc < 1)
		words_refuse("which rule? For example: deny port 22");
	bool good = out && argc >= 1;
	for (int i = 0; good && i < argc; i++) {
		const char *word = argv[i];
		bool name = i > 0 && !strcmp(argv[i - 1], "uid") && !isdigit((unsigned char)*word);
		if (name)
			word = words_user(word, number);
		good = word != NULL;
		if (good)
			fprintf(out, "%s%s", i ? " " : "", word);
	}
	if (out)
		fclose(out);
	if (good && json_object_set_new(params, "rule", json_string(text)))
		good = words_refuse("'%s' is no rule", text);
	free(text);
	return good ? argc : -1;
}

/* [ADDRESS] [port NUMBER] */
static int place_arguments(int argc, char **argv, json_t *params)
{
	uint64_t port;
	int at = argc > 0 && strcmp(argv[0], "port") ? 1 : 0;
	bool good = !at || !json_object_set_new(params, "peer", json_string(argv[0]));
	if (good && at && argc == 1)
		return 1;
	if (good && argc >= at + 2 && !strcmp(argv[at], "port") &&
	    words_number(argv[at + 1], strlen(argv[at + 1]), UINT16_MAX, &port))
		return words_set(params, "port", port) ? at + 2 : -1;
	words_refuse("what is to be forgotten? A peer's address, 'port' and a number, or both: "
		     "'smcrctl policy' lists them");
	return -1;
}

/* KEY VALUE; a value may have blanks, as in the files. */
static int value_arguments(int argc, char **argv, json_t *params)
{
	if (argc != 2)
		words_refuse("which key, and which value? For example: config set log_level debug");
	else if (!json_object_set_new(params, "name", json_string(argv[0])) &&
		 !json_object_set_new(params, "value", json_string(argv[1])))
		return 2;
	else
		words_refuse("'%s' is no value", argv[1]);
	return -1;
}

static int no_argument_at_all(int argc, char **argv, json_t *params)
{
	(void)argc;
	(void)argv;
	(void)params;
	return 0;
}

/* ---- the commands ---- */

/* For each kind of arguments in proto/ipc/commands.h: their text in the help, their parser, the
 * options, and what the first argument names. */
#define TEXT_GROUP           "GROUP"
#define PARSE_GROUP          group_argument
#define FLAGS_GROUP          0
#define VALUE_GROUP          COMMANDS_GROUP
#define TEXT_LINK            "GROUP/NUMBER"
#define PARSE_LINK           link_argument
#define FLAGS_LINK           0
#define VALUE_LINK           COMMANDS_LINK
#define TEXT_LINK_AND_ORDER  "GROUP/NUMBER [--disorderly]"
#define PARSE_LINK_AND_ORDER link_argument
#define FLAGS_LINK_AND_ORDER COMMANDS_DISORDERLY
#define VALUE_LINK_AND_ORDER COMMANDS_LINK
#define TEXT_GROUP_AND_TWO   "GROUP [from LINK] [to LINK]"
#define PARSE_GROUP_AND_TWO  failover_arguments
#define FLAGS_GROUP_AND_TWO  0
#define VALUE_GROUP_AND_TWO  COMMANDS_GROUP

const struct command commands[] = {
	{ "device", "add", "NAME", "use this device too, until the files are read again",
	  device_argument },
	{ "device", "remove", "NAME", "do not use this device, until the files are read again",
	  device_argument, .value = COMMANDS_DEVICE },
	{ "device", "drain", "NAME", "no new links on this device; delete its links in good order",
	  device_argument, .value = COMMANDS_DEVICE },
	{ "device", "enable", "NAME", "use this device again", device_argument,
	  .value = COMMANDS_DEVICE },
	{ "drain", NULL, "[--wait | --off]", "no new connections over SMC-R; old ones go on",
	  no_argument_at_all, COMMANDS_WAIT | COMMANDS_OFF, .method = "drain.begin" },
	{ "monitor", NULL, "[FILTER ..]", "events as they happen", NULL, .method = "event.wait" },
	{ "smbdirect", "disconnect", "NUMBER", "end this connection of SMB Direct",
	  smbdirect_argument, .value = COMMANDS_SMBDIRECT },
	{ "ueid", "add", "NAME", "new connections may use version 2 with this name",
	  ueid_argument },
	{ "ueid", "remove", "NAME", "new connections do not use this name", ueid_argument,
	  .value = COMMANDS_UEID },
	{ "log", "level", "LEVEL", "least important lines that are logged", log_level_argument,
	  .method = "config.set", .value = COMMANDS_LOG_LEVEL },
	{ "log", "trace", "CATEGORY .. | off", "log each message of these categories",
	  log_trace_arguments, .method = "config.set", .value = COMMANDS_LOG_TRACE },
	{ "config", "set", "KEY VALUE", "set a value until a reload or restart", value_arguments },
	{ "config", "reload", "", "read the files again, if all of them are right",
	  no_argument_at_all },
	{ "policy", "add", "RULE", "the rule holds for new connections", rule_arguments },
	{ "policy", "delete", "RULE", "the rule does not hold for new connections", rule_arguments,
	  .value = COMMANDS_RULE },
	{ "policy", "forget", "[PEER] [port NUMBER]", "forget what was seen there; try SMC-R again",
	  place_arguments },
#define ENGINE_COMMAND(type, method, object, word, takes, asks, help)                              \
	{ object, word, TEXT_##takes, help, PARSE_##takes, FLAGS_##takes, method, VALUE_##takes },
	IPC_COMMANDS(ENGINE_COMMAND)
#undef ENGINE_COMMAND
};

const size_t num_commands = COUNT(commands);

const struct object *commands_find_object(const char *word)
{
	const char *names[MAX_OBJECTS], *other;
	char hint[WORDS_HINT_LEN];
	size_t n = num_objects < MAX_OBJECTS ? num_objects : MAX_OBJECTS;
	for (size_t i = 0; i < n; i++)
		names[i] = objects[i].name;
	int found = words_match(word, names, n, &other);
	if (other)
		words_refuse("'%s' may be %s or %s", word, objects[found].name, other);
	else if (found < 0)
		words_refuse("there is no object '%s': 'smcrctl help' lists them%s", word,
			     words_hint(word, names, n, hint));
	return other || found < 0 ? NULL : &objects[found];
}

/* "show, add, delete" */
static void list_commands(const char *const *names, size_t n, char *text, size_t len)
{
	size_t at = 0;
	*text = '\0';
	for (size_t i = 0; i < n && at < len; i++)
		at += (size_t)snprintf(text + at, len - at, "%s%s", i ? ", " : "", names[i]);
}

bool commands_find(const struct object *object, const char *word,
		   const struct command **ret_command)
{
	const struct command *candidates[COUNT(commands) + 1] = { NULL };
	const char *names[COUNT(commands) + 1] = { SHOW }, *other;
	char text[128], hint[WORDS_HINT_LEN];
	size_t n = 1;
	for (size_t i = 0; i < COUNT(commands); i++) {
		if (strcmp(commands[i].object, object->name) || !commands[i].name)
			continue;
		names[n] = commands[i].name;
		candidates[n++] = &commands[i];
	}
	int found = words_match(word, names, n, &other);
	if (other)
		return words_refuse("%s %s may be %s or %s", object->name, word, names[found],
				    other);
	if (found < 0) {
		list_commands(names, n, text, sizeof(text));
		return words_refuse("%s has no command '%s'; it has: %s%s", object->name, word,
				    text, words_hint(word, names, n, hint));
	}
	*ret_command = candidates[found];
	return true;
}

const struct command *commands_own(const struct object *object)
{
	for (size_t i = 0; i < COUNT(commands); i++)
		if (!commands[i].name && !strcmp(commands[i].object, object->name))
			return &commands[i];
	return NULL;
}

/* ---- the request ---- */

/* "link.delete" */
static void name_method(const struct object *object, const struct command *command,
			unsigned int flags, char ret_method[64])
{
	const char *name = command ? command->name : SHOW;
	if (flags & COMMANDS_OFF)
		snprintf(ret_method, 64, "%s.end", object->name);
	else if (command && command->method)
		snprintf(ret_method, 64, "%s", command->method);
	else
		snprintf(ret_method, 64, "%s%s%s", object->name, name ? "." : "", name ? name : "");
}

static char *request_text(const struct object *object, const struct command *command,
			  unsigned int flags, const json_t *params)
{
	char method[64];
	name_method(object, command, flags, method);
	json_t *request = json_pack("{s:s, s:O}", "method", method, "params", params);
	char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
	json_decref(request);
	return text;
}

/* The words are filters of a show or the monitor, or arguments of a command. */
static bool take_words(const struct object *object, const struct command *command, int argc,
		       char **argv, json_t *params)
{
	if (!command || !command->parse)
		return filters_take(command ? FILTERS_OF_EVENTS : object->name, argc, argv, params);
	int taken = command->parse(argc, argv, params);
	return taken == argc ||
	       (taken >= 0 && words_refuse("unexpected argument '%s'", argv[taken]));
}

/* @param command  NULL: a show or a tool, which takes none of these options */
static bool flags_fit(const struct command *command, unsigned int flags)
{
	unsigned int wrong = flags & ~(command ? command->flags : 0);
	if (wrong & COMMANDS_DISORDERLY)
		return words_refuse("--disorderly goes with 'link delete' only");
	if (wrong)
		return words_refuse("--wait and --off go with 'drain' only");
	if (flags & COMMANDS_WAIT && flags & COMMANDS_OFF)
		return words_refuse("--wait and --off are opposites: one of them");
	return true;
}

static bool take_arguments(const struct object *object, const struct command *command, int argc,
			   char **argv, unsigned int flags, json_t *params)
{
	if (!take_words(object, command, argc, argv, params) || !flags_fit(command, flags))
		return false;
	if ((flags & COMMANDS_DISORDERLY &&
	     json_object_set_new(params, "disorderly", json_true())) ||
	    (flags & COMMANDS_WAIT && json_object_set_new(params, "wait", json_true())))
		return words_refuse("out of memory");
	return true;
}

int commands_parse(int argc, char **argv, unsigned int flags, struct request *ret_request)
{
	const struct object *object = commands_find_object(argv[0]);
	const struct command *command = NULL;
	if (!object)
		return -EINVAL;
	if (object->run) {
		if (!flags_fit(NULL, flags))
			return -EINVAL;
		*ret_request =
			(struct request){ .object = object, .argc = argc - 1, .argv = argv + 1 };
		return 0;
	}
	int at = 1;
	if (!object->print)
		command = commands_own(object);
	else if (argc > 1 && !filters_begin(object->name, argv[1]) &&
		 !commands_find(object, argv[at++], &command))
		return -EINVAL;
	json_t *params = json_object();
	char *text = NULL;
	if (take_arguments(object, command, argc - at, argv + at, flags, params)) {
		text = request_text(object, command, flags, params);
		if (!text)
			words_refuse("out of memory");
	}
	json_decref(params);
	if (!text)
		return -EINVAL;
	*ret_request = (struct request){ .object = object,
					 .show = !command,
					 .monitor = command && !command->parse,
					 .patient = flags & COMMANDS_WAIT,
					 .text = text,
					 .command = command };
	return 0;
}

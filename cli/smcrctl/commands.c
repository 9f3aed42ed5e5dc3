/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/commands.h"

#include <ctype.h>
#include <errno.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SHOW         "show"
#define MAX_GROUP    UINT32_MAX
#define MAX_LINK     UINT8_MAX

static bool refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

static bool refuse(const char *format, ...)
{
	va_list args;
	fputs("smcrctl: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return false;
}

/* ---- words ---- */

/* The one of `names` that the word is, or is a prefix of. @return its index or -1; *ret_other is
 * the second one that fits, or NULL if none does */
static int match(const char *word, const char *const *names, size_t n, const char **ret_other)
{
	int found = -1;
	*ret_other = NULL;
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(names[i], word)) {
			*ret_other = NULL;
			return (int)i;
		}
		if (!*word || strncmp(names[i], word, strlen(word)))
			continue;
		if (found >= 0)
			*ret_other = names[i];
		else
			found = (int)i;
	}
	return found;
}

static bool parse_number(const char *text, size_t len, uint64_t max, uint64_t *ret)
{
	uint64_t value = 0;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(text[i] - '0');
		if (value > max)
			return false;
	}
	*ret = value;
	return len > 0 && value > 0;
}

static bool parse_group(const char *word, uint64_t *ret)
{
	return parse_number(word, strlen(word), MAX_GROUP, ret) ||
	       refuse("'%s' is no link group: 'smcrctl linkgroup' lists them by their numbers",
		      word);
}

/* GROUP/NUMBER */
static bool parse_link(const char *word, uint64_t *ret_group, uint64_t *ret_number)
{
	const char *slash = strchr(word, '/');
	if (slash && parse_number(word, (size_t)(slash - word), MAX_GROUP, ret_group) &&
	    parse_number(slash + 1, strlen(slash + 1), MAX_LINK, ret_number))
		return true;
	return refuse("'%s' is no link: links are named GROUP/NUMBER, such as 3/2", word);
}

static bool set(json_t *params, const char *name, uint64_t value)
{
	return json_object_set_new(params, name, json_integer((json_int_t)value)) == 0 ||
	       refuse("out of memory");
}

/* ---- arguments of commands; words that are left over are refused by the caller ---- */

/* @return how many words were taken, or -1 */
typedef int (*parser)(int argc, char **argv, json_t *params);

static int no_argument_at_all(int argc, char **argv, json_t *params)
{
	(void)argc;
	(void)argv;
	(void)params;
	return 0;
}

static int group_argument(int argc, char **argv, json_t *params)
{
	uint64_t group;
	if (argc < 1) {
		refuse("which link group? 'smcrctl linkgroup' lists them");
		return -1;
	}
	return parse_group(argv[0], &group) && set(params, "linkgroup", group) ? 1 : -1;
}

static int link_argument(int argc, char **argv, json_t *params)
{
	uint64_t group, number;
	if (argc < 1) {
		refuse("which link? 'smcrctl link' lists them");
		return -1;
	}
	return parse_link(argv[0], &group, &number) && set(params, "linkgroup", group) &&
			       set(params, "link", number)
		       ? 1
		       : -1;
}

/* NUMBER or GROUP/NUMBER; the group is known. */
static bool link_of_group(const char *key, const char *word, json_t *params)
{
	uint64_t group, number;
	uint64_t known = (uint64_t)json_integer_value(json_object_get(params, "linkgroup"));
	if (json_object_get(params, key))
		return refuse("'%s' is there twice", key);
	if (!word)
		return refuse("'%s' is not followed by a link", key);
	if (parse_number(word, strlen(word), MAX_LINK, &number))
		return set(params, key, number);
	if (!parse_link(word, &group, &number))
		return false;
	if (group != known)
		return refuse("link %s is not in link group %llu", word, (unsigned long long)known);
	return set(params, key, number);
}

/* GROUP [from LINK] [to LINK] */
static int failover_arguments(int argc, char **argv, json_t *params)
{
	static const char *const keys[] = { "from", "to" };
	const char *other;
	int taken = group_argument(argc, argv, params);
	while (taken > 0 && taken < argc) {
		int key = match(argv[taken], keys, COUNT(keys), &other);
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
		refuse("which UEID? 'smcrctl ueid' lists them");
		return -1;
	}
	if (json_object_set_new(params, "name", json_string(argv[0]))) {
		refuse("'%s' is no UEID", argv[0]);
		return -1;
	}
	return 1;
}

/* What a number is needed for: smcrd looks no name up, which may take long. */
static const char *user_number(const char *name, char number[16])
{
	const struct passwd *user = getpwnam(name);
	if (!user) {
		refuse("this host has no user '%s'", name);
		return NULL;
	}
	snprintf(number, 16, "%u", (unsigned int)user->pw_uid);
	return number;
}

/* Every word that is left, a rule as in smcrd.conf(5). */
static int rule_arguments(int argc, char **argv, json_t *params)
{
	char *text = NULL, number[16];
	size_t size;
	FILE *out = open_memstream(&text, &size);
	if (argc < 1)
		refuse("which rule? For example: deny port 22");
	bool good = out && argc >= 1;
	for (int i = 0; good && i < argc; i++) {
		const char *word = argv[i];
		bool name = i > 0 && !strcmp(argv[i - 1], "uid") && !isdigit((unsigned char)*word);
		if (name)
			word = user_number(word, number);
		good = word != NULL;
		if (good)
			fprintf(out, "%s%s", i ? " " : "", word);
	}
	if (out)
		fclose(out);
	if (good && json_object_set_new(params, "rule", json_string(text)))
		good = refuse("'%s' is no rule", text);
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
	    parse_number(argv[at + 1], strlen(argv[at + 1]), UINT16_MAX, &port))
		return set(params, "port", port) ? at + 2 : -1;
	refuse("what is to be forgotten? A peer's address, 'port' and a number, or both: "
	       "'smcrctl policy' lists them");
	return -1;
}

/* ---- the commands ---- */

static const struct command {
	const char *object;
	const char *name; /* NULL: the object itself is the command */
	const char *arguments;
	const char *help;
	parser parse;
	bool disorderly;    /* --disorderly makes sense */
	const char *method; /* of smcrd, if it has another name */
} commands[] = {
	{ "linkgroup", "delete", "GROUP", "end it; its connections are reset", group_argument },
	{ "link", "add", "GROUP", "add one between free RDMA devices", group_argument },
	{ "link", "delete", "GROUP/NUMBER [--disorderly]", "take it down; connections move first",
	  link_argument, true },
	{ "link", "test", "GROUP/NUMBER", "does the peer answer, and how fast?", link_argument },
	{ "link", "disable", "GROUP/NUMBER", "write on others, if there are any", link_argument },
	{ "link", "enable", "GROUP/NUMBER", "use it again", link_argument },
	{ "failover", NULL, "GROUP [from LINK] [to LINK]", "move what this host writes",
	  failover_arguments },
	{ "monitor", NULL, "", "events as they happen", no_argument_at_all,
	  .method = "event.wait" },
	{ "ueid", "add", "NAME", "new connections may use version 2 by it", ueid_argument },
	{ "ueid", "remove", "NAME", "new connections do not use it", ueid_argument },
	{ "policy", "add", "RULE", "new connections go by it", rule_arguments },
	{ "policy", "delete", "RULE", "new connections do not go by it", rule_arguments },
	{ "policy", "forget", "[PEER] [port NUMBER]", "what was seen of it; try SMC-R again",
	  place_arguments },
};

static const struct object *find_object(const char *word)
{
	const char *names[16], *other;
	for (size_t i = 0; i < num_objects; i++)
		names[i] = objects[i].name;
	int found = match(word, names, num_objects, &other);
	if (other)
		refuse("'%s' may be %s or %s", word, objects[found].name, other);
	else if (found < 0)
		refuse("there is no object '%s'; see smcrctl --help", word);
	return other || found < 0 ? NULL : &objects[found];
}

/* "show, add, delete" */
static void list_commands(const struct object *object, char *text, size_t len)
{
	int at = snprintf(text, len, "%s", SHOW);
	for (size_t i = 0; i < COUNT(commands); i++)
		if (!strcmp(commands[i].object, object->name))
			at += snprintf(text + at, len - (size_t)at, ", %s", commands[i].name);
}

/* @return true with the command, NULL for show; false with a sentence on standard error */
static bool find_command(const struct object *object, const char *word,
			 const struct command **ret_command)
{
	const struct command *candidates[COUNT(commands) + 1] = { NULL };
	const char *names[COUNT(commands) + 1] = { SHOW }, *other;
	char text[128];
	size_t n = 1;
	for (size_t i = 0; i < COUNT(commands); i++) {
		if (strcmp(commands[i].object, object->name))
			continue;
		names[n] = commands[i].name;
		candidates[n++] = &commands[i];
	}
	int found = match(word, names, n, &other);
	if (other)
		return refuse("%s %s may be %s or %s", object->name, word, names[found], other);
	if (found < 0) {
		list_commands(object, text, sizeof(text));
		return refuse("%s has no command '%s'; it has: %s", object->name, word, text);
	}
	*ret_command = candidates[found];
	return true;
}

static const struct command *own_command(const struct object *object)
{
	for (size_t i = 0; i < COUNT(commands); i++)
		if (!commands[i].name && !strcmp(commands[i].object, object->name))
			return &commands[i];
	return NULL;
}

/* ---- the request ---- */

/* "link.delete" */
static void name_method(const struct object *object, const struct command *command,
			char ret_method[64])
{
	const char *name = command ? command->name : SHOW;
	if (command && command->method)
		snprintf(ret_method, 64, "%s", command->method);
	else
		snprintf(ret_method, 64, "%s%s%s", object->name, name ? "." : "", name ? name : "");
}

static char *request_text(const struct object *object, const struct command *command,
			  const json_t *params)
{
	char method[64];
	name_method(object, command, method);
	json_t *request = json_pack("{s:s, s:O}", "method", method, "params", params);
	char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
	json_decref(request);
	return text;
}

static bool take_arguments(const struct command *command, int argc, char **argv, bool disorderly,
			   json_t *params)
{
	int taken = command ? command->parse(argc, argv, params) : 0;
	if (taken < 0)
		return false;
	if (taken < argc)
		return refuse("unexpected argument '%s'", argv[taken]);
	if (disorderly && (!command || !command->disorderly))
		return refuse("--disorderly goes with 'link delete' only");
	if (disorderly && json_object_set_new(params, "disorderly", json_true()))
		return refuse("out of memory");
	return true;
}

int commands_parse(int argc, char **argv, bool disorderly, struct request *ret_request)
{
	const struct object *object = find_object(argv[0]);
	const struct command *command = NULL;
	if (!object)
		return -EINVAL;
	int at = 1;
	if (!object->print)
		command = own_command(object);
	else if (argc > 1 && !find_command(object, argv[at++], &command))
		return -EINVAL;
	json_t *params = json_object();
	char *text = NULL;
	if (take_arguments(command, argc - at, argv + at, disorderly, params)) {
		text = request_text(object, command, params);
		if (!text)
			refuse("out of memory");
	}
	json_decref(params);
	if (!text)
		return -EINVAL;
	*ret_request = (struct request){ .object = object,
					 .show = !command,
					 .monitor = command && command->method,
					 .text = text };
	return 0;
}

void commands_list(FILE *out)
{
	char line[80];
	for (size_t i = 0; i < num_objects; i++) {
		const struct object *object = &objects[i];
		if (object->print) {
			snprintf(line, sizeof(line), "%s [%s]", object->name, SHOW);
			fprintf(out, "  %-40s %s\n", line, object->help);
		}
		for (size_t c = 0; c < COUNT(commands); c++) {
			if (strcmp(commands[c].object, object->name))
				continue;
			snprintf(line, sizeof(line), "%s%s%s %s", object->name,
				 commands[c].name ? " " : "",
				 commands[c].name ? commands[c].name : "", commands[c].arguments);
			fprintf(out, "  %-40s %s\n", line, commands[c].help);
		}
	}
}

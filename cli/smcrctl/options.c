/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/options.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "cli/smcrctl/help.h"
#include "cli/smcrctl/words.h"
#include "proto/ipc/ipc.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MAX_NUMBER   1000 /* as many events as smcrd keeps */
#define MIN_WATCH_S  0.1
#define MAX_WATCH_S  86400.0
#define TOP_S        1.0 /* between frames, by default */
#define ERROR_LEN    256

static const struct option long_options[] = {
	{ "json", no_argument, NULL, 'j' },
	{ "pretty", no_argument, NULL, 'p' },
	{ "details", no_argument, NULL, 'd' },
	{ "socket", required_argument, NULL, 's' },
	{ "bytes", no_argument, NULL, 'B' },
	{ "sort", required_argument, NULL, 'S' },
	{ "watch", required_argument, NULL, 'w' },
	{ "number", required_argument, NULL, 'N' },
	{ "write", required_argument, NULL, 'W' },
	{ "data", no_argument, NULL, 'A' },
	{ "count", required_argument, NULL, 'C' },
	{ "seconds", required_argument, NULL, 'T' },
	{ "disorderly", no_argument, NULL, 'D' },
	{ "wait", no_argument, NULL, 'I' },
	{ "off", no_argument, NULL, 'O' },
	{ "batch", no_argument, NULL, 'b' },
	{ "rules", no_argument, NULL, 'R' },
	{ "cm", no_argument, NULL, 'M' },
	/* With these smcrctl does nothing else. */
	{ "version", no_argument, NULL, 'V' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

/* These letters stand for options that have a long name only. */
static bool long_only(int letter)
{
	return strchr("BSNDWACTIObRM", letter) != NULL;
}

const char *options_name(unsigned int nth, bool *ret_has_value, char *ret_letter)
{
	if (nth + 1 >= COUNT(long_options))
		return NULL;
	*ret_has_value = long_options[nth].has_arg == required_argument;
	*ret_letter = long_only(long_options[nth].val) ? '\0' : (char)long_options[nth].val;
	return long_options[nth].name;
}

static const char *default_socket(void)
{
	const char *path = getenv(IPC_SOCKET_ENV);
	return path && *path ? path : IPC_DEFAULT_SOCKET;
}

/* ---- errors: the first one is printed, when all options are read, --json among them ---- */

static void fail(char error[ERROR_LEN], const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void fail(char error[ERROR_LEN], const char *format, ...)
{
	va_list args;
	if (*error)
		return;
	va_start(args, format);
	vsnprintf(error, ERROR_LEN, format, args);
	va_end(args);
}

static void unknown_option(const char *word, char error[ERROR_LEN])
{
	const char *names[COUNT(long_options) - 1], *other;
	char written[COUNT(names)][20], name[32], hint[WORDS_HINT_LEN];
	for (size_t i = 0; i < COUNT(names); i++) {
		snprintf(written[i], sizeof(written[i]), "--%s", long_options[i].name);
		names[i] = written[i];
	}
	if (optopt && strncmp(word, "--", 2)) {
		fail(error, "there is no option '-%c'", optopt);
		return;
	}
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
	if (optopt)
		fail(error, "option '%s' takes no value", name);
	else if (words_match(name, names, COUNT(names), &other) >= 0)
		fail(error, "'%s' may be %s or others", name, other);
	else
		fail(error, "there is no option '%s'%s", name,
		     words_hint(name, names, COUNT(names), hint));
}

static void take_number(const char *text, struct arguments *args, char error[ERROR_LEN])
{
	char *end;
	unsigned long number = strtoul(text, &end, 10);
	args->number = (unsigned int)number;
	if (*text < '0' || *text > '9' || *end || number < 1 || number > MAX_NUMBER)
		fail(error, "--number: '%s' is no number from 1 to %d", text, MAX_NUMBER);
}

static double take_seconds(const char *option, const char *text, char error[ERROR_LEN])
{
	char *end;
	double seconds = strtod(text, &end);
	if (end == text || *end || !(seconds >= MIN_WATCH_S && seconds <= MAX_WATCH_S))
		fail(error, "--%s: '%s' is no number of seconds from %g to %g", option, text,
		     MIN_WATCH_S, MAX_WATCH_S);
	return seconds;
}

static uint64_t take_count(const char *text, char error[ERROR_LEN])
{
	uint64_t count = 0;
	if (!words_number(text, strlen(text), UINT32_MAX, &count))
		fail(error, "--count: '%s' is no number from 1 to %u", text, UINT32_MAX);
	return count;
}

/* ---- the whole command line ---- */

/* -w is --write for a capture, as in other tools that capture, and --watch for all else. */
static bool settle_w(struct arguments *args)
{
	char error[ERROR_LEN] = "";
	if (args->w && args->request.object->run == capture_run)
		args->capture.file = args->w;
	else if (args->w)
		args->watch = take_seconds("watch", args->w, error);
	return !*error || words_refuse("%s", error);
}

/* Options that only one or two tools take. */
static bool tools_fit(const struct arguments *args)
{
	const struct tool_capture *capture = &args->capture;
	int (*const tool)(const struct tool_call *) = args->request.object->run;
	if ((capture->file || capture->data || capture->seconds > 0) && tool != capture_run)
		return words_refuse("--write, --data and --seconds go with 'capture' only");
	if (capture->count && tool != capture_run && tool != top_run)
		return words_refuse("--count goes with 'capture' and 'top' only");
	if (args->top.batch && tool != top_run)
		return words_refuse("--batch goes with 'top' only");
	if (args->rules && tool != doctor_run)
		return words_refuse("--rules goes with 'doctor' only");
	if (args->cm && tool != check_run)
		return words_refuse("--cm goes with 'check' only");
	return true;
}

static void settle_top(struct arguments *args)
{
	args->top.at_least = args->watch <= 0;
	args->top.seconds = args->top.at_least ? TOP_S : args->watch;
	args->top.frames = args->capture.count;
	args->top.number = args->number;
	args->top.order = args->order;
}

/* Options that have a meaning for some objects only. */
static bool options_fit(struct arguments *args)
{
	const struct request *request = &args->request;
	const bool is_top = request->object->run == top_run;
	const size_t most = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;
	if (strlen(args->socket_path) > most)
		return words_refuse("'%.40s..' is no socket of smcrd: a socket path has at most "
				    "%zu bytes",
				    args->socket_path, most);
	if (!settle_w(args) || !tools_fit(args))
		return false;
	if (args->watch > 0 && !request->show && !is_top)
		return words_refuse("--watch goes with objects that are shown, not with commands");
	if (args->number && !request->monitor && !is_top)
		return words_refuse("--number goes with 'monitor' and 'top' only");
	if (args->sort && !request->show && !is_top)
		return words_refuse("--sort goes with tables");
	if (args->sort && !sort_parse(args->sort, request->object, &args->order))
		return false;
	settle_top(args);
	return true;
}

/* "config set", also if the operator has typed "conf se". */
static void name_words(struct arguments *args)
{
	const struct command *command = args->request.command;
	const char *name = command ? command->name : NULL;
	snprintf(args->output.words, sizeof(args->output.words), "%s%s%s",
		 args->request.object->name, name ? " " : "", name ? name : "");
}

/* @return as options_parse() */
static int parse_words(int argc, char **argv, struct arguments *args)
{
	if (argc == 0) {
		if (args->output.json)
			words_refuse("no object is named: 'smcrctl help' lists them");
		else
			help_usage(stderr);
		return STATUS_USAGE;
	}
	if (help_is_wanted(argc, argv))
		return help_words(argc, argv) ? STATUS_DONE : STATUS_USAGE;
	for (int i = 0, at = 0; i < argc && at < OPTIONS_TITLE_LEN; i++)
		at += snprintf(args->title + at, (size_t)(OPTIONS_TITLE_LEN - at), "%s%s",
			       i ? " " : "", argv[i]);
	if (commands_parse(argc, argv, args->flags, &args->request) || !options_fit(args))
		return STATUS_USAGE;
	name_words(args);
	return -1;
}

/* @return as options_parse() */
static int take_option(int letter, const char *word, bool is_long, struct arguments *args,
		       char error[ERROR_LEN])
{
	switch (letter) {
	case 'j': args->output.json = true; break;
	case 'p': args->output.json = args->output.pretty = true; break;
	case 'd': args->output.details = true; break;
	case 's': args->socket_path = optarg; break;
	case 'B': args->output.exact_bytes = true; break;
	case 'S': args->sort = optarg; break;
	case 'w':
		if (is_long)
			args->watch = take_seconds("watch", optarg, error);
		else
			args->w = optarg;
		break;
	case 'W': args->capture.file = optarg; break;
	case 'A': args->capture.data = true; break;
	case 'C': args->capture.count = take_count(optarg, error); break;
	case 'T': args->capture.seconds = take_seconds("seconds", optarg, error); break;
	case 'N': take_number(optarg, args, error); break;
	case 'D': args->flags |= COMMANDS_DISORDERLY; break;
	case 'I': args->flags |= COMMANDS_WAIT; break;
	case 'O': args->flags |= COMMANDS_OFF; break;
	case 'b': args->top.batch = true; break;
	case 'R': args->rules = true; break;
	case 'M': args->cm = true; break;
	case 'V': puts("smcrctl " SMCRD_VERSION); return STATUS_DONE;
	case 'h': help_usage(stdout); return STATUS_DONE;
	case ':': fail(error, "option '%s' is not followed by its value", word); break;
	default: unknown_option(word, error);
	}
	return -1;
}

int options_parse(int argc, char **argv, struct arguments *ret_args)
{
	struct arguments *args = ret_args;
	char error[ERROR_LEN] = "";
	int letter, index = -1;
	args->socket_path = default_socket();
	opterr = 0;
	while ((letter = getopt_long(argc, argv, ":jpds:w:Vh", long_options, &index)) != -1) {
		int status = take_option(letter, argv[optind - 1], index >= 0, args, error);
		if (status >= 0)
			return status;
		index = -1;
	}
	words_say_as(&args->output);
	if (!*error)
		return parse_words(argc - optind, argv + optind, args);
	words_refuse("%s", error);
	help_hint(stderr);
	return STATUS_USAGE;
}

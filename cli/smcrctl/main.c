/* SPDX-License-Identifier: MIT */
/* smcrctl(8): what operators see of smcrd, and what they tell it. */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/smcrctl/commands.h"
#include "cli/smcrctl/monitor.h"
#include "cli/smcrctl/output.h"
#include "cli/smcrctl/pages.h"
#include "cli/smcrctl/session.h"
#include "cli/smcrctl/sort.h"
#include "cli/smcrctl/watch.h"
#include "cli/smcrctl/words.h"
#include "proto/ipc/ipc.h"

/* Commands take smcrd up to ten seconds; it tells when time is over itself. */
#define SHOW_PATIENCE_S    10
#define COMMAND_PATIENCE_S 30
#define MAX_NUMBER         1000 /* of events that smcrd has */
#define MIN_WATCH_S        0.1
#define MAX_WATCH_S        86400.0

struct arguments {
	struct output output;
	bool disorderly;
	double watch;     /* seconds; 0: once */
	const char *sort; /* as it was given; NULL: not at all */
	struct sort order;
	char title[128];     /* the words after the options */
	unsigned int number; /* --number; 0: not given */
	const char *socket_path;
	struct request request;
};

static void usage(FILE *out)
{
	fputs("usage: smcrctl [OPTIONS] OBJECT [COMMAND] [ARGUMENTS]\n\n", out);
	commands_list(out);
	fputs("\nWords may be shortened to a prefix that fits one only; LINK is NUMBER or\n"
	      "GROUP/NUMBER; FILTER is a word and a value, such as 'peer 192.0.2.1'. What changes "
	      "something is for root and the administrators' group.\n\n"
	      "  -j, --json          JSON on one line\n"
	      "  -p, --pretty        JSON, indented\n"
	      "  -d, --details       more columns\n"
	      "      --bytes         exact numbers of bytes, not 1.2M\n"
	      "      --sort COLUMN   of a table; -COLUMN: the largest first\n"
	      "  -w, --watch SECONDS show it again and again, until interrupted\n"
	      "  -s, --socket PATH   of smcrd (default $" IPC_SOCKET_ENV " or " IPC_DEFAULT_SOCKET
	      ")\n"
	      "      --number N      with 'monitor': the last N events first\n"
	      "      --disorderly    with 'link delete': at once, as if the link had failed\n"
	      "  -V, --version       print the version\n"
	      "  -h, --help          print this\n\n"
	      "Exit status: 0 done or requested of the peer, 1 refused or failed, 2 usage,\n"
	      "3 no daemon, 4 not found.\n",
	      out);
}

static const char *default_socket(void)
{
	const char *path = getenv(IPC_SOCKET_ENV);
	return path && *path ? path : IPC_DEFAULT_SOCKET;
}

/* What some options say has a meaning for some objects only. */
static bool options_fit(struct arguments *args)
{
	const struct request *request = &args->request;
	if (args->watch > 0 && !request->show)
		return words_refuse("--watch goes with what shows something");
	if (args->number && !request->monitor)
		return words_refuse("--number goes with 'monitor' only");
	if (args->sort && !request->show)
		return words_refuse("--sort goes with tables");
	return !args->sort || sort_parse(args->sort, request->object, &args->order);
}

/* The words after the options. @return -1 to go on, or an exit status */
static int parse_words(int argc, char **argv, struct arguments *args)
{
	if (optind >= argc) {
		usage(stderr);
		return STATUS_USAGE;
	}
	if (!strcmp(argv[optind], "help")) {
		usage(stdout);
		return STATUS_DONE;
	}
	for (int i = optind, at = 0; i < argc && at < (int)sizeof(args->title); i++)
		at += snprintf(args->title + at, sizeof(args->title) - (size_t)at, " %s", argv[i]);
	if (commands_parse(argc - optind, argv + optind, args->disorderly, &args->request) ||
	    !options_fit(args))
		return STATUS_USAGE;
	return -1;
}

static bool take_number(const char *text, struct arguments *args)
{
	char *end;
	unsigned long number = strtoul(text, &end, 10);
	args->number = (unsigned int)number;
	return (*text >= '0' && *text <= '9' && !*end && number >= 1 && number <= MAX_NUMBER) ||
	       words_refuse("--number: '%s' is no number from 1 to %d", text, MAX_NUMBER);
}

static bool take_seconds(const char *text, struct arguments *args)
{
	char *end;
	args->watch = strtod(text, &end);
	return (end != text && !*end && args->watch >= MIN_WATCH_S && args->watch <= MAX_WATCH_S) ||
	       words_refuse("--watch: '%s' is no number of seconds from %g to %g", text,
			    MIN_WATCH_S, MAX_WATCH_S);
}

static int parse_arguments(int argc, char **argv, struct arguments *args)
{
	static const struct option long_options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "pretty", no_argument, NULL, 'p' },
		{ "details", no_argument, NULL, 'd' },
		{ "socket", required_argument, NULL, 's' },
		{ "bytes", no_argument, NULL, 'B' },
		{ "sort", required_argument, NULL, 'S' },
		{ "watch", required_argument, NULL, 'w' },
		{ "number", required_argument, NULL, 'N' },
		{ "disorderly", no_argument, NULL, 'D' },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int c;
	args->socket_path = default_socket();
	while ((c = getopt_long(argc, argv, "jpds:w:Vh", long_options, NULL)) != -1) {
		switch (c) {
		case 'j': args->output.json = true; break;
		case 'p': args->output.json = args->output.pretty = true; break;
		case 'd': args->output.details = true; break;
		case 's': args->socket_path = optarg; break;
		case 'B': args->output.exact_bytes = true; break;
		case 'S': args->sort = optarg; break;
		case 'w':
			if (!take_seconds(optarg, args))
				return STATUS_USAGE;
			break;
		case 'N':
			if (!take_number(optarg, args))
				return STATUS_USAGE;
			break;
		case 'D': args->disorderly = true; break;
		case 'V': puts("smcrctl " SMCRD_VERSION); return STATUS_DONE;
		case 'h': usage(stdout); return STATUS_DONE;
		default: usage(stderr); return STATUS_USAGE;
		}
	}
	return parse_words(argc, argv, args);
}

/* A command's result is a sentence for people. */
static void print_result(const struct arguments *args, json_t *result)
{
	const char *text = json_string_value(json_object_get(result, "text"));
	if (args->output.json)
		output_json(&args->output,
			    args->request.show ? args->request.object->name : "result", result);
	else if (args->request.show)
		args->request.object->print(result, args->output.details);
	else
		printf("%s\n", text ? text : "done");
}

static int print_reply(const struct arguments *args, json_t *reply)
{
	json_t *error = json_object_get(reply, "error");
	json_t *result = json_object_get(reply, "result");
	if (error)
		return output_refusal(&args->output, error);
	if (!result)
		return output_error(&args->output, STATUS_FAILED, "bad-reply",
				    "smcrd's reply has no result");
	json_t *rows = sort_rows(&args->order, result);
	print_result(args, rows);
	json_decref(rows);
	return STATUS_DONE;
}

static int run_tool(const struct arguments *args)
{
	const struct tool_call call = { .socket_path = args->socket_path,
					.output = &args->output,
					.argc = args->request.argc,
					.argv = args->request.argv };
	return args->request.object->run(&call);
}

static int request(const struct arguments *args, struct session *session)
{
	char text[SESSION_ERROR_LEN];
	json_t *reply;
	int (*ask)(struct session *, const char *, json_t **, char *) =
		args->request.show ? args->request.object->gather : NULL;
	int error = (ask ? ask : pages_request)(session, args->request.text, &reply, text);
	if (error)
		return output_failure(&args->output, error, text);
	int status = print_reply(args, reply);
	json_decref(reply);
	return status;
}

static unsigned int patience(const struct request *request)
{
	if (request->monitor)
		return 0;
	return request->show ? SHOW_PATIENCE_S : COMMAND_PATIENCE_S;
}

static void set_style(const struct arguments *args)
{
	unsigned short columns, lines;
	watch_screen(&columns, &lines);
	table_set_style(&(const struct table_style){ .exact_bytes = args->output.exact_bytes,
						     .width = columns });
}

static int run(const struct arguments *args)
{
	char text[SESSION_ERROR_LEN];
	struct session session;
	int error = session_open(&session, args->socket_path, patience(&args->request), text);
	if (error)
		return output_failure(&args->output, error, text);
	int status = args->request.monitor ? monitor_run(&session, args->request.text, args->number,
							 &args->output)
					   : request(args, &session);
	session_close(&session);
	return status;
}

/* A session each time: between them smcrd need not keep it. */
static int run_once(void *ctx)
{
	const struct arguments *args = ctx;
	set_style(args);
	return run(args);
}

static int run_as_wanted(struct arguments *args)
{
	unsigned short columns, lines;
	watch_screen(&columns, &lines);
	const struct watch watch = { .seconds = args->watch,
				     .terminal = columns && !args->output.json,
				     .title = args->output.json ? NULL : args->title + 1,
				     .print = run_once,
				     .ctx = args };
	return args->watch > 0 ? watch_run(&watch) : run_once(args);
}

int main(int argc, char **argv)
{
	struct arguments args = { 0 };
	int status = parse_arguments(argc, argv, &args);
	if (status < 0)
		status = args.request.object->run ? run_tool(&args) : run_as_wanted(&args);
	free(args.request.text);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "smcrctl: cannot write the output: %s\n", strerror(errno));
		return STATUS_FAILED;
	}
	return status;
}

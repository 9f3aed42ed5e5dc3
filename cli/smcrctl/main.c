/* SPDX-License-Identifier: MIT */
/* smcrctl(8): what operators see of smcrd, and what they tell it. */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/smcrctl/commands.h"
#include "cli/smcrctl/pages.h"
#include "cli/smcrctl/session.h"
#include "proto/ipc/ipc.h"

enum exit_status {
	STATUS_DONE = 0,
	STATUS_FAILED = 1,
	STATUS_USAGE = 2,
	STATUS_NO_DAEMON = 3,
	STATUS_NOT_FOUND = 4,
};

/* Commands take smcrd up to ten seconds; it tells when time is over itself. */
#define SHOW_PATIENCE_S    10
#define COMMAND_PATIENCE_S 30

struct arguments {
	bool json, pretty, details, disorderly;
	const char *socket_path;
	struct request request;
};

static void usage(FILE *out)
{
	fputs("usage: smcrctl [OPTIONS] OBJECT [COMMAND] [ARGUMENTS]\n\n", out);
	commands_list(out);
	fputs("\nWords may be shortened to a prefix that fits one only; LINK is NUMBER or\n"
	      "GROUP/NUMBER. What changes something is for root and the administrators' group.\n\n"
	      "  -j, --json          JSON on one line\n"
	      "  -p, --pretty        JSON, indented\n"
	      "  -d, --details       more columns\n"
	      "  -s, --socket PATH   of smcrd (default $" IPC_SOCKET_ENV " or " IPC_DEFAULT_SOCKET
	      ")\n"
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
	return commands_parse(argc - optind, argv + optind, args->disorderly, &args->request)
		       ? STATUS_USAGE
		       : -1;
}

static int parse_arguments(int argc, char **argv, struct arguments *args)
{
	static const struct option long_options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "pretty", no_argument, NULL, 'p' },
		{ "details", no_argument, NULL, 'd' },
		{ "socket", required_argument, NULL, 's' },
		{ "disorderly", no_argument, NULL, 'D' },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int c;
	args->socket_path = default_socket();
	while ((c = getopt_long(argc, argv, "jpds:Vh", long_options, NULL)) != -1) {
		switch (c) {
		case 'j': args->json = true; break;
		case 'p': args->json = args->pretty = true; break;
		case 'd': args->details = true; break;
		case 's': args->socket_path = optarg; break;
		case 'D': args->disorderly = true; break;
		case 'V': puts("smcrctl " SMCRD_VERSION); return STATUS_DONE;
		case 'h': usage(stdout); return STATUS_DONE;
		default: usage(stderr); return STATUS_USAGE;
		}
	}
	return parse_words(argc, argv, args);
}

static void print_json(const struct arguments *args, const char *key, json_t *value)
{
	json_t *output = json_pack("{s:i, s:O}", "schema", 1, key, value);
	json_dumpf(output, stdout, args->pretty ? JSON_INDENT(2) : JSON_COMPACT);
	putchar('\n');
	json_decref(output);
}

/* With --json errors are objects too, on standard output, beside the sentence for people. */
static int report(const struct arguments *args, int status, const char *code, const char *text)
{
	fprintf(stderr, "smcrctl: %s\n", text);
	if (args->json) {
		json_t *error = json_pack("{s:s, s:s}", "code", code, "text", text);
		print_json(args, "error", error);
		json_decref(error);
	}
	return status;
}

/* smcrd refuses, and says why. */
static int print_error(const struct arguments *args, json_t *error)
{
	const char *text = json_string_value(json_object_get(error, "text"));
	bool missing = json_integer_value(json_object_get(error, "errno")) == ENOENT;
	fprintf(stderr, "smcrctl: %s\n", text ? text : "smcrd gave no reason");
	if (args->json)
		print_json(args, "error", error);
	return missing ? STATUS_NOT_FOUND : STATUS_FAILED;
}

/* A command's result is a sentence for people. */
static void print_result(const struct arguments *args, json_t *result)
{
	const char *text = json_string_value(json_object_get(result, "text"));
	if (args->json)
		print_json(args, args->request.show ? args->request.object->name : "result",
			   result);
	else if (args->request.show)
		args->request.object->print(result, args->details);
	else
		printf("%s\n", text ? text : "done");
}

static int print_reply(const struct arguments *args, json_t *reply)
{
	json_t *error = json_object_get(reply, "error");
	json_t *result = json_object_get(reply, "result");
	if (error)
		return print_error(args, error);
	if (!result)
		return report(args, STATUS_FAILED, "bad-reply", "smcrd's reply has no result");
	print_result(args, result);
	return STATUS_DONE;
}

static int run(const struct arguments *args)
{
	char text[SESSION_ERROR_LEN];
	struct session session;
	json_t *reply;
	int error = session_open(&session, args->socket_path,
				 args->request.show ? SHOW_PATIENCE_S : COMMAND_PATIENCE_S, text);
	if (!error)
		error = pages_request(&session, args->request.text, &reply, text);
	session_close(&session);
	if (error == -ECONNREFUSED)
		return report(args, STATUS_NO_DAEMON, "no-daemon", text);
	if (error == -EBADMSG)
		return report(args, STATUS_FAILED, "bad-reply", text);
	if (error)
		return report(args, STATUS_FAILED, "failed", text);
	int status = print_reply(args, reply);
	json_decref(reply);
	return status;
}

int main(int argc, char **argv)
{
	struct arguments args = { 0 };
	int status = parse_arguments(argc, argv, &args);
	if (status < 0)
		status = run(&args);
	free(args.request.text);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "smcrctl: cannot write the output: %s\n", strerror(errno));
		return STATUS_FAILED;
	}
	return status;
}

/* SPDX-License-Identifier: MIT */
/* smcrctl(8): what operators see of smcrd. */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/smcrctl/objects.h"
#include "cli/smcrctl/session.h"
#include "proto/ipc/ipc.h"

enum exit_status {
	STATUS_DONE = 0,
	STATUS_FAILED = 1,
	STATUS_USAGE = 2,
	STATUS_NO_DAEMON = 3,
	STATUS_NOT_FOUND = 4,
};

struct arguments {
	bool json, pretty, details;
	const char *socket_path;
	const struct object *object;
};

static void usage(FILE *out)
{
	fputs("usage: smcrctl [OPTIONS] OBJECT [show]\n\n", out);
	for (size_t i = 0; i < num_objects; i++)
		fprintf(out, "  %-12s %s\n", objects[i].name, objects[i].help);
	fputs("\nObjects and commands may be shortened to a prefix that fits one only.\n\n"
	      "  -j, --json          JSON on one line\n"
	      "  -p, --pretty        JSON, indented\n"
	      "  -d, --details       more columns\n"
	      "  -s, --socket PATH   of smcrd (default $" IPC_SOCKET_ENV " or " IPC_DEFAULT_SOCKET
	      ")\n"
	      "  -V, --version       print the version\n"
	      "  -h, --help          print this\n\n"
	      "Exit status: 0 done, 1 refused or failed, 2 usage, 3 no daemon, 4 not found.\n",
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
	args->object = object_find(argv[optind]);
	if (!args->object)
		return STATUS_USAGE;
	const char *command = optind + 1 < argc ? argv[optind + 1] : COMMAND_SHOW;
	if (!*command || strncmp(COMMAND_SHOW, command, strlen(command))) {
		fprintf(stderr, "smcrctl: %s has no command '%s'; it has: %s\n", args->object->name,
			command, COMMAND_SHOW);
		return STATUS_USAGE;
	}
	if (optind + 2 < argc) {
		fprintf(stderr, "smcrctl: unexpected argument '%s'\n", argv[optind + 2]);
		return STATUS_USAGE;
	}
	return -1;
}

static int parse_arguments(int argc, char **argv, struct arguments *args)
{
	static const struct option long_options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "pretty", no_argument, NULL, 'p' },
		{ "details", no_argument, NULL, 'd' },
		{ "socket", required_argument, NULL, 's' },
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
		case 'V': puts("smcrctl " SMCRD_VERSION); return STATUS_DONE;
		case 'h': usage(stdout); return STATUS_DONE;
		default: usage(stderr); return STATUS_USAGE;
		}
	}
	return parse_words(argc, argv, args);
}

/* With --json errors are objects too, on standard output, beside the sentence for people. */
static int report(const struct arguments *args, int status, const char *code, const char *text)
{
	fprintf(stderr, "smcrctl: %s\n", text);
	if (!args->json)
		return status;
	json_t *error =
		json_pack("{s:i, s:{s:s, s:s}}", "schema", 1, "error", "code", code, "text", text);
	json_dumpf(error, stdout, args->pretty ? JSON_INDENT(2) : JSON_COMPACT);
	putchar('\n');
	json_decref(error);
	return status;
}

static void print_json(const struct arguments *args, json_t *result)
{
	json_t *output = json_pack("{s:i, s:O}", "schema", 1, args->object->name, result);
	json_dumpf(output, stdout, args->pretty ? JSON_INDENT(2) : JSON_COMPACT);
	putchar('\n');
	json_decref(output);
}

static int print_reply(const struct arguments *args, json_t *reply)
{
	json_t *error = json_object_get(reply, "error");
	json_t *result = json_object_get(reply, "result");
	if (error) {
		const char *code = json_string_value(json_object_get(error, "code"));
		const char *text = json_string_value(json_object_get(error, "text"));
		bool missing = json_integer_value(json_object_get(error, "errno")) == ENOENT;
		return report(args, missing ? STATUS_NOT_FOUND : STATUS_FAILED,
			      code ? code : "unknown", text ? text : "smcrd gave no reason");
	}
	if (!result)
		return report(args, STATUS_FAILED, "bad-reply", "smcrd's reply has no result");
	if (args->json)
		print_json(args, result);
	else
		args->object->print(result, args->details);
	return STATUS_DONE;
}

static int run(const struct arguments *args)
{
	char text[SESSION_ERROR_LEN], request[128];
	char *raw;
	snprintf(request, sizeof(request), "{\"method\":\"%s.%s\"}", args->object->name,
		 COMMAND_SHOW);
	int error = session_request(args->socket_path, request, &raw, text);
	if (error == -ECONNREFUSED)
		return report(args, STATUS_NO_DAEMON, "no-daemon", text);
	if (error)
		return report(args, STATUS_FAILED, "failed", text);
	json_error_t where;
	json_t *reply = json_loads(raw, 0, &where);
	free(raw);
	int status = reply ? print_reply(args, reply)
			   : report(args, STATUS_FAILED, "bad-reply", "smcrd's reply is not JSON");
	json_decref(reply);
	return status;
}

int main(int argc, char **argv)
{
	struct arguments args = { 0 };
	int status = parse_arguments(argc, argv, &args);
	if (status < 0)
		status = run(&args);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "smcrctl: cannot write the output: %s\n", strerror(errno));
		return STATUS_FAILED;
	}
	return status;
}

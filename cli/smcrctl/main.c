/* SPDX-License-Identifier: MIT */
/* smcrctl(8): shows operators what smcrd does, and gives their commands to smcrd. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/smcrctl/complete.h"
#include "cli/smcrctl/monitor.h"
#include "cli/smcrctl/options.h"
#include "cli/smcrctl/output.h"
#include "cli/smcrctl/pages.h"
#include "cli/smcrctl/session.h"
#include "cli/smcrctl/sort.h"
#include "cli/smcrctl/watch.h"

/* A command takes smcrd ten seconds at most: smcrd itself then says that the time is over. */
#define SHOW_PATIENCE_S    10
#define COMMAND_PATIENCE_S 30

/* A command's result has a sentence, which is all that people get. */
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
					.capture = &args->capture,
					.top = &args->top,
					.rules = args->rules,
					.cm = args->cm,
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
	/* Of these smcrd is asked to greet, or to answer for the first time, at once. What comes
	 * then may take any time. */
	if (request->monitor || request->patient)
		return SHOW_PATIENCE_S;
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
	session.patient = args->request.patient;
	int status = args->request.monitor ? monitor_run(&session, args->request.text, args->number,
							 &args->output)
					   : request(args, &session);
	session_close(&session);
	return status;
}

/* Each call has a session of its own, so that smcrd keeps none between two calls. */
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
				     .title = args->output.json ? NULL : args->title,
				     .print = run_once,
				     .ctx = args };
	return args->watch > 0 ? watch_run(&watch) : run_once(args);
}

/* If a standard descriptor were left closed, the socket to smcrd would get its number, and output
 * would go to smcrd. Each is opened for the wrong direction, so that its use still fails. */
static void open_standard_descriptors(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
			_exit(STATUS_FAILED);
}

int main(int argc, char **argv)
{
	struct arguments args = { 0 };
	open_standard_descriptors();
	if (complete_is_wanted(argc, argv))
		return complete(argc - 2, argv + 2);
	int status = options_parse(argc, argv, &args);
	if (status < 0)
		status = args.request.object->run ? run_tool(&args) : run_as_wanted(&args);
	free(args.request.text);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "smcrctl: cannot write the output: %s\n", strerror(errno));
		return STATUS_FAILED;
	}
	return status;
}

/* SPDX-License-Identifier: MIT */
/*
 * smcrctl capture. smcrctl makes the memory and sends its descriptor with the request. smcrd writes
 * into the memory, and smcrctl reads it a hundred times a second. The capture ends with the
 * session.
 */
#include "cli/smcrctl/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/smcrctl/capture_out.h"
#include "cli/smcrctl/filters.h"
#include "cli/smcrctl/pages.h"
#include "cli/smcrctl/tools.h"
#include "cli/smcrctl/words.h"
#include "proto/capture/record.h"

#define PATIENCE_S   10
#define LOOK_MS      10
#define SIZE         (4u << 20) /* 40,000 messages */
#define SIZE_OF_DATA CAPTURE_MAX_SIZE
#define RECORD_MAX   (sizeof(struct capture_message) + CAPTURE_DATA_MAX)
#define RECORDS_MAX  256 /* records between two checks whether the capture is over */
#define TO_STDOUT    "-"

struct capture {
	const struct tool_call *call;
	const struct tool_capture *options;
	struct output output; /* for errors: the capture may go to standard output */
	char *request;
	int memory_fd;
	void *memory;
	size_t size;
	struct capture_ring ring;
	struct session session;
	bool answered; /* smcrd has refused or ended the capture: there is a reply to take */
	struct capture_out out;
	struct capture_file *file;
	uint8_t *record;         /* RECORD_MAX */
	uint64_t messages, lost; /* messages: those that are certainly in the file */
	char ended[128];         /* why smcrd has ended the capture in good order; "": it has not */
};

static int fail(const struct capture *capture, const char *what, const char *why)
{
	char text[SESSION_ERROR_LEN];
	snprintf(text, sizeof(text), "%s: %s", what, why);
	return output_error(&capture->output, STATUS_FAILED, "failed", text);
}

static bool to_stdout(const struct capture *capture)
{
	return !capture->options->file || !strcmp(capture->options->file, TO_STDOUT);
}

static const char *file_name(const struct capture *capture)
{
	return to_stdout(capture) ? "standard output" : capture->options->file;
}

static int fail_to_write(const struct capture *capture, const char *why)
{
	char text[SESSION_ERROR_LEN];
	snprintf(text, sizeof(text), "cannot write the capture to %.300s: %s", file_name(capture),
		 why);
	return output_error(&capture->output, STATUS_FAILED, "failed", text);
}

/* ---- the request ---- */

static bool parse(struct capture *capture)
{
	const struct tool_call *call = capture->call;
	json_t *params = json_object();
	bool good = filters_take("capture", call->argc, call->argv, params);
	if (good && to_stdout(capture) && isatty(STDOUT_FILENO))
		good = words_refuse("a capture is no text for a terminal: -w FILE, or -w - and a "
				    "pipe, such as 'smcrctl capture -w - | tshark -r -'");
	if (good && capture->options->data)
		json_object_set_new(params, "data", json_true());
	json_t *request = json_pack("{s:s, s:o}", "method", "capture.run", "params", params);
	capture->request = good && request ? json_dumps(request, JSON_COMPACT) : NULL;
	json_decref(request);
	return good && (capture->request || words_refuse("out of memory"));
}

/* ---- the memory ---- */

static bool make_memory(struct capture *capture)
{
	const size_t size = capture->options->data ? SIZE_OF_DATA : SIZE;
	capture->memory_fd = memfd_create("smcrctl-capture", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (capture->memory_fd < 0 || ftruncate(capture->memory_fd, (off_t)size) < 0 ||
	    fcntl(capture->memory_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return false;
	/* The pages are allocated now, and on smcrctl's account: smcrd allocates none. */
	int error = posix_fallocate(capture->memory_fd, 0, (off_t)size);
	if (error) {
		errno = error;
		return false;
	}
	capture->memory =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, capture->memory_fd, 0);
	capture->size = size;
	capture->record = malloc(RECORD_MAX);
	return capture->memory != MAP_FAILED && capture->record &&
	       capture_ring_init(&capture->ring, capture->memory, size);
}

static void free_memory(struct capture *capture)
{
	if (capture->size && capture->memory != MAP_FAILED)
		munmap(capture->memory, capture->size);
	if (capture->memory_fd >= 0)
		close(capture->memory_fd);
	free(capture->record);
	free(capture->request);
}

/* ---- begin ---- */

/* Takes the reply that says why smcrd has ended the capture. @return the exit status */
static int take_answer(struct capture *capture)
{
	const struct output *output = &capture->output;
	char text[SESSION_ERROR_LEN];
	char *reply;
	int error = session_end(&capture->session, &reply, text);
	if (error)
		return output_failure(output, error, text);
	json_t *json = json_loads(reply, 0, NULL);
	const json_t *refusal = json_object_get(json, "error");
	const char *ended =
		json_string_value(json_object_get(json_object_get(json, "result"), "text"));
	int status = STATUS_DONE;
	if (refusal)
		status = output_refusal(output, refusal);
	else if (ended)
		snprintf(capture->ended, sizeof(capture->ended), "%s", ended);
	else
		status = output_error(output, STATUS_FAILED, "bad-reply",
				      "smcrd has ended the capture without a reason");
	json_decref(json);
	free(reply);
	return status;
}

/* Waits until smcrd has begun, or says why not. */
static void wait_for_begin(struct capture *capture)
{
	struct pollfd fd = { .fd = capture->session.fd, .events = POLLIN };
	const uint64_t end = capture_out_now() + PATIENCE_S * 1000;
	while (!capture_ring_has_begun(&capture->ring) && !capture->answered &&
	       capture_out_now() < end)
		capture->answered = poll(&fd, 1, LOOK_MS) > 0;
}

/* Waits until a FIFO has a reader, or the capture is over. @return as capture_out_open() */
static int open_file(struct capture *capture)
{
	const char *name = to_stdout(capture) ? NULL : capture->options->file;
	struct pollfd fd = { .fd = capture->session.fd, .events = POLLIN };
	int error;
	while ((error = capture_out_open(&capture->out, name)) == -EAGAIN && !capture->answered &&
	       !capture_out_is_over(&capture->out))
		capture->answered = poll(&fd, 1, LOOK_MS) > 0;
	return error;
}

/* @return 0 or an exit status; if smcrd has ended the capture, the status for that */
static int begin_file(struct capture *capture)
{
	const char *name = file_name(capture);
	int error = open_file(capture);
	if (error == -EAGAIN && capture->answered) {
		int status = take_answer(capture);
		return status ? status : fail(capture, name, capture->ended);
	}
	if (error)
		return fail(capture, name,
			    error == -EAGAIN ? "nobody reads this FIFO" : strerror(-error));
	capture->file = capture_file_new(capture->out.file);
	if (!capture->file)
		return fail(capture, name, "out of memory");
	fflush(capture->out.file);
	return capture->out.problem ? fail(capture, name, capture->out.problem) : 0;
}

/* ---- while it runs ---- */

static bool is_enough(const struct capture *capture)
{
	return capture->options->count &&
	       capture_file_messages(capture->file) >= capture->options->count;
}

/* A position that is behind `at` means a damaged ring, which the next read notices. */
static bool is_before(const struct capture *capture, uint64_t position)
{
	return position != capture->ring.at;
}

static int take_record(struct capture *capture)
{
	ssize_t len = capture_ring_get(&capture->ring, capture->record, RECORD_MAX);
	int error = -EBADMSG;
	if (len > 0)
		error = capture_file_add(capture->file, capture->record, (size_t)len);
	if (error == -ENOMEM)
		return fail_to_write(capture, strerror(ENOMEM));
	if (error)
		return output_error(&capture->output, STATUS_FAILED, "bad-reply",
				    "smcrd writes records that this smcrctl does not understand: "
				    "are both of the same version?");
	return 0;
}

static bool is_problem(const struct capture *capture)
{
	return capture->out.problem || ferror(capture->out.file);
}

/* Reads some of the records before `end`. smcrd writes meanwhile, so reading until the ring is
 * empty might never end. @return 0 or an exit status */
static int drain(struct capture *capture, uint64_t end)
{
	int status = 0;
	unsigned int records = 0;
	for (; !status && records < RECORDS_MAX && is_before(capture, end) && !is_enough(capture) &&
	       !is_problem(capture);
	     records++)
		status = take_record(capture);
	if (status || !records)
		return status;
	fflush(capture->out.file);
	if (is_problem(capture))
		return fail_to_write(capture,
				     capture->out.problem ? capture->out.problem : strerror(EIO));
	capture->messages = capture_file_messages(capture->file);
	return 0;
}

/* @param wait  there was nothing to read
 * @return true: a signal, the time or smcrd has ended the capture */
static bool is_over(struct capture *capture, bool wait)
{
	struct pollfd fd = { .fd = capture->session.fd, .events = POLLIN };
	capture->answered = poll(&fd, 1, wait ? LOOK_MS : 0) > 0;
	return capture->answered || capture_out_is_over(&capture->out);
}

static int run(struct capture *capture)
{
	int status = 0;
	uint64_t end;
	fprintf(stderr, "smcrctl: capturing; %s\n",
		capture->options->seconds > 0 || capture->options->count
			? "an interrupt ends it, too"
			: "an interrupt ends it");
	do {
		end = capture_ring_written(&capture->ring);
		status = drain(capture, end);
	} while (!status && !is_enough(capture) && !is_over(capture, !is_before(capture, end)));
	/* Read what smcrd has written by now, and no more. */
	end = capture_ring_written(&capture->ring);
	while (!status && !is_enough(capture) && is_before(capture, end))
		status = drain(capture, end);
	return status;
}

/* ---- the end ---- */

/* @param status  the exit status so far: after an error no second one is printed */
static int end_file(struct capture *capture, int status)
{
	if (capture->file) {
		const uint64_t taken = capture_file_messages(capture->file);
		capture->lost = capture_file_end(capture->file, &capture->ring);
		capture->lost += taken - capture->messages; /* these are not in the file */
	}
	if (capture_out_close(&capture->out) || status)
		return status;
	return fail_to_write(capture, capture->out.problem);
}

static void tell(const struct capture *capture)
{
	if (*capture->ended)
		fprintf(stderr, "smcrctl: %s, and the capture with it\n", capture->ended);
	fprintf(stderr, "smcrctl: %" PRIu64 " message%s captured, %" PRIu64 " lost\n",
		capture->messages, capture->messages == 1 ? "" : "s", capture->lost);
}

/* What has ended the capture; of several causes the first one here. */
static const char *end_of(const struct capture *capture)
{
	const struct tool_capture *options = capture->options;
	if (*capture->ended)
		return "linkgroup";
	if (options->count && capture->messages >= options->count)
		return "count";
	return capture_out_is_interrupted() ? "signal" : "time";
}

static void tell_json(const struct capture *capture)
{
	if (!capture->output.json || to_stdout(capture))
		return;
	json_t *result = json_pack("{s:s, s:I, s:I, s:s}", "file", capture->options->file,
				   "messages", (json_int_t)capture->messages, "lost",
				   (json_int_t)capture->lost, "end", end_of(capture));
	output_json(&capture->output, "capture", result);
	json_decref(result);
}

/* @return the exit status */
static int capture_with(struct capture *capture)
{
	char text[SESSION_ERROR_LEN];
	int error = session_begin(&capture->session, capture->request, capture->memory_fd, text);
	if (error)
		return output_failure(&capture->output, error, text);
	wait_for_begin(capture);
	if (!capture_ring_has_begun(&capture->ring))
		return capture->answered ? take_answer(capture)
					 : output_error(&capture->output, STATUS_FAILED, "failed",
							"smcrd has not begun the capture in time");
	if (capture_out_take_signals() < 0)
		return fail(capture, "cannot wait for signals", strerror(errno));
	if (capture->options->seconds > 0)
		capture->out.end_ms =
			capture_out_now() + (uint64_t)(capture->options->seconds * 1000);
	int status = begin_file(capture);
	if (status)
		return end_file(capture, status);
	status = run(capture);
	status = end_file(capture, status);
	int answer = capture->answered && !status ? take_answer(capture) : 0;
	tell(capture);
	if (!status)
		status = answer;
	if (!status)
		tell_json(capture);
	return status;
}

int capture_run(const struct tool_call *call)
{
	struct capture capture = {
		.call = call, .options = call->capture, .output = *call->output, .memory_fd = -1
	};
	char text[SESSION_ERROR_LEN];
	if (to_stdout(&capture))
		capture.output.to = stderr;
	words_say_as(&capture.output);
	const bool good = parse(&capture);
	words_say_as(call->output);
	if (!good) {
		free(capture.request);
		return STATUS_USAGE;
	}
	int status, error = 0;
	if (!make_memory(&capture))
		status = fail(&capture, "no memory for the capture", strerror(errno));
	else if ((error = session_open(&capture.session, call->socket_path, PATIENCE_S, text)))
		status = output_failure(&capture.output, error, text);
	else {
		status = capture_with(&capture);
		session_close(&capture.session);
	}
	free_memory(&capture);
	return status;
}

/* SPDX-License-Identifier: MIT */
/*
 * smcrctl capture. smcrd writes into memory that is made here and goes with the request; here it is
 * looked at a hundred times a second. The capture ends with the session.
 */
#include "cli/smcrctl/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

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
#define FILE_BUFFER  (1u << 18)
#define TO_STDOUT    "-"

struct capture {
	const struct tool_call *call;
	const struct tool_capture *options;
	char *request;
	int memory_fd;
	void *memory;
	size_t size;
	struct capture_ring ring;
	struct session session;
	bool answered; /* smcrd has refused, or has ended: the reply can be taken */
	int signals;   /* a signalfd */
	FILE *out;
	struct capture_file *file;
	uint8_t *record; /* RECORD_MAX */
	uint64_t end_ms; /* 0: it has no end */
	uint64_t messages, lost;
};

static int fail(const struct capture *capture, const char *what, int error)
{
	char text[SESSION_ERROR_LEN];
	snprintf(text, sizeof(text), "%s: %s", what, strerror(error));
	return output_error(capture->call->output, STATUS_FAILED, "failed", text);
}

static uint64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- what is wanted ---- */

static bool to_stdout(const struct capture *capture)
{
	return !capture->options->file || !strcmp(capture->options->file, TO_STDOUT);
}

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
	/* Now, and on our account: smcrd finds the pages there. */
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

/* Until smcrd has begun, or says why not. */
static void wait_for_begin(struct capture *capture)
{
	struct pollfd fd = { .fd = capture->session.fd, .events = POLLIN };
	const uint64_t end = now_ms() + PATIENCE_S * 1000;
	while (!capture_ring_has_begun(&capture->ring) && !capture->answered && now_ms() < end)
		capture->answered = poll(&fd, 1, LOOK_MS) > 0;
}

/* SIGINT and SIGTERM end the capture, and what has come by then is written. */
static bool take_signals(struct capture *capture)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	capture->signals = signalfd(-1, &set, SFD_CLOEXEC);
	return capture->signals >= 0 && sigprocmask(SIG_BLOCK, &set, NULL) == 0;
}

/* Programs' data and what links are known by are in it: the file is its owner's. */
static FILE *open_file(const struct capture *capture)
{
	if (to_stdout(capture))
		return stdout;
	int fd = open(capture->options->file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (!out && fd >= 0)
		close(fd);
	return out;
}

static bool begin_file(struct capture *capture)
{
	capture->out = open_file(capture);
	if (!capture->out)
		return false;
	setvbuf(capture->out, NULL, _IOFBF, FILE_BUFFER);
	capture->file = capture_file_new(capture->out);
	return capture->file && fflush(capture->out) == 0;
}

/* ---- while it runs ---- */

static bool is_enough(const struct capture *capture)
{
	return capture->options->count &&
	       capture_file_messages(capture->file) >= capture->options->count;
}

/* What is there by now, all of it. @return 0 or an exit status */
static int drain(struct capture *capture)
{
	ssize_t len = 0;
	int error = 0;
	bool any = false;
	while (!error && !is_enough(capture) &&
	       (len = capture_ring_get(&capture->ring, capture->record, RECORD_MAX)) > 0) {
		error = capture_file_add(capture->file, capture->record, (size_t)len);
		any = true;
	}
	if (len < 0 || error)
		return output_error(capture->call->output, STATUS_FAILED, "bad-reply",
				    "smcrd writes what this smcrctl does not understand: are both "
				    "of the same version?");
	if (any && (fflush(capture->out) || ferror(capture->out)))
		return fail(capture, "cannot write the capture", errno);
	return 0;
}

/* @return true: it is over, for a signal, the time, or smcrd */
static bool wait_for_more(struct capture *capture)
{
	struct pollfd fds[] = { { .fd = capture->session.fd, .events = POLLIN },
				{ .fd = capture->signals, .events = POLLIN } };
	poll(fds, 2, LOOK_MS);
	capture->answered = fds[0].revents != 0;
	return fds[0].revents || fds[1].revents || (capture->end_ms && now_ms() >= capture->end_ms);
}

static int run(struct capture *capture)
{
	bool over = false;
	fprintf(stderr, "smcrctl: capturing; %s\n",
		capture->options->seconds > 0 || capture->options->count
			? "an interrupt ends it, too"
			: "an interrupt ends it");
	if (capture->options->seconds > 0)
		capture->end_ms = now_ms() + (uint64_t)(capture->options->seconds * 1000);
	for (;;) {
		int status = drain(capture);
		if (status || over || is_enough(capture))
			return status;
		over = wait_for_more(capture);
	}
}

/* ---- the end ---- */

/* Why smcrd has ended it. @return the exit status */
static int take_answer(struct capture *capture)
{
	const struct output *output = capture->call->output;
	char text[SESSION_ERROR_LEN];
	char *reply;
	int error = session_end(&capture->session, &reply, text);
	if (error)
		return output_failure(output, error, text);
	json_t *json = json_loads(reply, 0, NULL);
	const json_t *refusal = json_object_get(json, "error");
	int status = refusal ? output_refusal(output, refusal)
			     : output_error(output, STATUS_FAILED, "bad-reply",
					    "smcrd has ended the capture without a reason");
	json_decref(json);
	free(reply);
	return status;
}

static int end_file(struct capture *capture)
{
	int failed = 0;
	if (capture->file) {
		capture->messages = capture_file_messages(capture->file);
		capture->lost = capture_file_end(capture->file, &capture->ring);
	}
	if (capture->out)
		failed = capture->out == stdout ? fflush(stdout) : fclose(capture->out);
	return failed ? fail(capture, "cannot write the capture", errno) : STATUS_DONE;
}

static void tell(const struct capture *capture)
{
	fprintf(stderr, "smcrctl: %" PRIu64 " message%s captured, %" PRIu64 " lost\n",
		capture->messages, capture->messages == 1 ? "" : "s", capture->lost);
	if (!capture->call->output->json || to_stdout(capture))
		return;
	json_t *result =
		json_pack("{s:s, s:I, s:I}", "file", capture->options->file, "messages",
			  (json_int_t)capture->messages, "lost", (json_int_t)capture->lost);
	output_json(capture->call->output, "capture", result);
	json_decref(result);
}

/* @return the exit status */
static int capture_with(struct capture *capture)
{
	char text[SESSION_ERROR_LEN];
	int error = session_begin(&capture->session, capture->request, capture->memory_fd, text);
	if (error)
		return output_failure(capture->call->output, error, text);
	wait_for_begin(capture);
	if (capture->answered)
		return take_answer(capture);
	if (!capture_ring_has_begun(&capture->ring))
		return output_error(capture->call->output, STATUS_FAILED, "failed",
				    "smcrd has not begun the capture in time");
	if (!take_signals(capture))
		return fail(capture, "cannot wait for signals", errno);
	if (!begin_file(capture))
		return fail(capture,
			    capture->options->file ? capture->options->file : "standard output",
			    errno);
	int status = run(capture);
	int ended = end_file(capture);
	tell(capture);
	if (!status && capture->answered)
		status = take_answer(capture);
	return status ? status : ended;
}

int capture_run(const struct tool_call *call)
{
	struct capture capture = {
		.call = call, .options = call->capture, .memory_fd = -1, .signals = -1
	};
	char text[SESSION_ERROR_LEN];
	if (!parse(&capture)) {
		free(capture.request);
		return STATUS_USAGE;
	}
	int status, error = 0;
	if (!make_memory(&capture))
		status = fail(&capture, "no memory for the capture", errno);
	else if ((error = session_open(&capture.session, call->socket_path, PATIENCE_S, text)))
		status = output_failure(call->output, error, text);
	else {
		status = capture_with(&capture);
		session_close(&capture.session);
	}
	if (capture.signals >= 0)
		close(capture.signals);
	free_memory(&capture);
	return status;
}

/* SPDX-License-Identifier: MIT */
/*
 * smcrctl capture: what goes to RNICs and comes from them. Whoever asks brings the memory that it
 * is written to, and its session is the capture: it ends with that. Two may run at a time.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "daemon/control/capture_sink.h"

struct capture {
	uint64_t request; /* 0: there is none */
	void *memory;
	size_t length;
	struct capture_sink sink;
	char text[COMMAND_TEXT_LEN]; /* who wants what */
};

struct control_captures {
	struct control *control;
	struct fabric_tap tap;
	uint64_t serial; /* of the last one */
	struct capture list[FABRIC_MARKS];
};

static void on_message(void *ctx, const struct fabric_message *message)
{
	struct control_captures *captures = ctx;
	for (size_t i = 0; i < FABRIC_MARKS; i++)
		if (captures->list[i].request)
			capture_sink_take(&captures->list[i].sink, captures->control->engine,
					  message);
}

/* There is a tap as long as there is a capture. */
static void set_tap(struct control_captures *captures)
{
	bool any = false;
	captures->tap.writes = false;
	for (size_t i = 0; i < FABRIC_MARKS; i++) {
		any |= captures->list[i].request != 0;
		captures->tap.writes |= captures->list[i].request && captures->list[i].sink.writes;
	}
	fabric_set_tap(captures->control->fabric, any ? &captures->tap : NULL);
}

static struct capture *unused(struct control *control)
{
	if (!control->captures) {
		control->captures = calloc(1, sizeof(*control->captures));
		if (!control->captures)
			return NULL;
		control->captures->control = control;
		control->captures->tap.message = on_message;
		control->captures->tap.ctx = control->captures;
	}
	for (size_t i = 0; i < FABRIC_MARKS; i++)
		if (!control->captures->list[i].request)
			return &control->captures->list[i];
	return NULL;
}

/* Memory that stays as large as it is: else who brought it could end smcrd (SIGBUS). What has been
 * taken out of it comes back as zeros. Memory of huge pages may not. */
static bool is_sound(int fd, size_t *ret_length)
{
	struct statfs fs;
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstatfs(fd, &fs) < 0 ||
	    fs.f_type != TMPFS_MAGIC || fstat(fd, &st) < 0 || st.st_size < CAPTURE_MIN_SIZE ||
	    st.st_size > CAPTURE_MAX_SIZE)
		return false;
	*ret_length = (size_t)st.st_size;
	return true;
}

static bool open_memory(struct capture *capture, int fd, struct refusal *refusal)
{
	if (fd < 0 || !is_sound(fd, &capture->length)) {
		refuse(refusal, EINVAL, "bad-request",
		       "a capture is written to a memfd of %u to %u bytes, sealed against "
		       "shrinking, "
		       "that comes with the request",
		       CAPTURE_MIN_SIZE, CAPTURE_MAX_SIZE);
		return false;
	}
	capture->memory = mmap(NULL, capture->length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (capture->memory == MAP_FAILED) {
		refuse(refusal, errno, "failed", "the memory of the capture cannot be used: %s",
		       strerror(errno));
		return false;
	}
	if (capture_ring_init(&capture->sink.ring, capture->memory, capture->length))
		return true;
	munmap(capture->memory, capture->length);
	refuse(refusal, EINVAL, "bad-request", "the memory of a capture is whole pages");
	return false;
}

static bool may_ask(const struct clients_asker *asker, const struct params *params,
		    struct refusal *refusal)
{
	if (!params->data || asker->cred.uid == 0)
		return true;
	refuse(refusal, EPERM, "not-permitted",
	       "what programs send and receive is for root only; LLC and CDC messages can be "
	       "captured "
	       "without \"data\"");
	return false;
}

static bool begin(struct control *control, const struct clients_asker *asker,
		  const struct params *params, const char *text, struct refusal *refusal)
{
	struct capture *capture = unused(control);
	struct filter filter;
	if (!may_ask(asker, params, refusal) || !filter_take(params, NULL, &filter, refusal))
		return false;
	if (!capture) {
		if (control->captures)
			refuse(refusal, EBUSY, "busy",
			       "%d captures run already; one of them has to end first",
			       FABRIC_MARKS);
		else
			refuse(refusal, ENOMEM, "no-memory", "out of memory");
		return false;
	}
	struct control_captures *captures = control->captures;
	*capture = (struct capture){ .sink = {
					     .filter = filter,
					     .writes = params->data,
					     .hide_keys = asker->cred.uid != 0,
					     .mark = (unsigned int)(capture - captures->list),
					     .serial = captures->serial + 1,
				     } };
	if (!open_memory(capture, asker->fd, refusal))
		return false;
	captures->serial++;
	capture->request = asker->request;
	snprintf(capture->text, sizeof(capture->text), "%s", text);
	set_tap(captures);
	capture_ring_begin(&capture->sink.ring);
	if (control->events)
		events_command(control->events, text, false, "begun");
	return true;
}

json_t *capture_start(struct control *control, const struct command_call *call, bool *ret_later)
{
	*ret_later = begin(control, call->asker, call->params, call->text, call->refusal);
	return NULL;
}

static void end(struct control *control, struct capture *capture)
{
	if (control->events)
		events_command(control->events, capture->text, false, "ended");
	munmap(capture->memory, capture->length);
	capture->request = 0;
	set_tap(control->captures);
}

void capture_forget(struct control *control, uint64_t request)
{
	for (size_t i = 0; control->captures && i < FABRIC_MARKS; i++)
		if (control->captures->list[i].request == request)
			end(control, &control->captures->list[i]);
}

void capture_forget_all(struct control *control)
{
	for (size_t i = 0; control->captures && i < FABRIC_MARKS; i++)
		if (control->captures->list[i].request)
			end(control, &control->captures->list[i]);
	free(control->captures);
	control->captures = NULL;
}

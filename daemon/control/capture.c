/* SPDX-License-Identifier: MIT */
/*
 * smcrctl capture: messages to and from RNICs. The caller brings the memory that they are written
 * to. A capture ends when the caller's session ends, or the link group that it is about. Two
 * captures may run at a time.
 */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>

#include "daemon/control/capture_sink.h"
#include "daemon/host/program.h"
#include "daemon/smcr/view.h"

/* The engine does not tell the end of a link group whose first contact has failed, so a timer
 * checks for that. */
#define GROUP_LOOK_US 100000

struct capture {
	struct waiter waiter; /* nobody: there is no capture */
	void *memory;
	size_t length;
	struct capture_sink sink;
	char text[COMMAND_TEXT_LEN]; /* who wants what, for the log */
	pid_t pid;
	uid_t uid;
	char program[PROGRAM_NAME_LEN]; /* "": not known */
	time_t since;
};

struct control_captures {
	struct control *control;
	struct fabric_tap tap;
	uint64_t serial; /* serial of the last capture */
	struct capture list[FABRIC_MARKS];
	struct program_names names;
	struct event *look; /* checks for link groups that have ended; NULL without a loop */
};

static void on_message(void *ctx, const struct fabric_message *message)
{
	struct control_captures *captures = ctx;
	for (size_t i = 0; i < FABRIC_MARKS; i++)
		if (captures->list[i].waiter.request)
			capture_sink_take(&captures->list[i].sink, captures->control->engine,
					  message);
}

void control_cm_message(struct control *control, const struct cm_message *message)
{
	struct control_captures *captures = control->captures;
	for (size_t i = 0; captures && i < FABRIC_MARKS; i++)
		if (captures->list[i].waiter.request)
			capture_sink_take_cm(&captures->list[i].sink, control->fabric, message);
}

/* There is a tap while there is a capture, and the timer runs while a capture is about a link
 * group. */
static void set_tap(struct control_captures *captures)
{
	const struct timeval often = { .tv_usec = GROUP_LOOK_US };
	bool any = false, of_group = false;
	captures->tap.writes = false;
	for (size_t i = 0; i < FABRIC_MARKS; i++) {
		const struct capture *capture = &captures->list[i];
		if (!capture->waiter.request)
			continue;
		any = true;
		of_group |= capture->sink.filter.linkgroup != 0;
		captures->tap.writes |= capture->sink.writes;
	}
	fabric_set_tap(captures->control->fabric, any ? &captures->tap : NULL);
	if (captures->look && of_group)
		event_add(captures->look, &often);
	else if (captures->look)
		event_del(captures->look);
}

static void on_look(evutil_socket_t fd, short what, void *arg);

static struct control_captures *new_captures(struct control *control)
{
	struct control_captures *captures = calloc(1, sizeof(*captures));
	if (!captures)
		return NULL;
	captures->control = control;
	captures->tap.message = on_message;
	captures->tap.ctx = captures;
	if (!control->base)
		return captures;
	captures->look = event_new(control->base, -1, EV_PERSIST, on_look, captures);
	if (captures->look)
		return captures;
	free(captures);
	return NULL;
}

static void refuse_busy(const struct control_captures *captures, struct refusal *refusal)
{
	char holders[200] = "", since[40];
	for (size_t i = 0, at = 0; i < FABRIC_MARKS && at < sizeof(holders); i++) {
		const struct capture *capture = &captures->list[i];
		struct tm tm;
		localtime_r(&capture->since, &tm);
		strftime(since, sizeof(since), "%F %T", &tm);
		at += (size_t)snprintf(holders + at, sizeof(holders) - at,
				       "%s%s (pid %d, uid %u) since %s", i ? ", " : "",
				       *capture->program ? capture->program : "a process",
				       (int)capture->pid, (unsigned int)capture->uid, since);
	}
	refuse(refusal, EBUSY, "busy", "%d captures run already: %s; one of them has to end first",
	       FABRIC_MARKS, holders);
}

/* A place for another capture. @return NULL: refused */
static struct capture *unused(struct control *control, struct refusal *refusal)
{
	if (!control->captures)
		control->captures = new_captures(control);
	if (!control->captures)
		return refuse(refusal, ENOMEM, "no-memory", "out of memory");
	for (size_t i = 0; i < FABRIC_MARKS; i++)
		if (!control->captures->list[i].waiter.request)
			return &control->captures->list[i];
	refuse_busy(control->captures, refusal);
	return NULL;
}

static bool look_at_group(void *arg, const struct smcr_lgr_view *view)
{
	*(uint32_t *)arg = view->id;
	return false;
}

static bool has_group(const struct control *control, uint32_t linkgroup)
{
	uint32_t next = 0; /* the first id that is not smaller */
	smcr_engine_walk_lgrs(control->engine, linkgroup - 1, look_at_group, &next);
	return next == linkgroup;
}

/* The memory must be sealed against shrinking: otherwise the caller could end smcrd with SIGBUS.
 * Pages that the caller has punched out come back as zeros. Huge pages may not, so they are
 * refused. */
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

/* Ids of link groups are not used again: an id that does not exist now never will. */
static bool take_filter(const struct control *control, const struct params *params,
			struct filter *ret_filter, struct refusal *refusal)
{
	if (!filter_take(params, NULL, ret_filter, refusal))
		return false;
	if (!ret_filter->linkgroup || has_group(control, ret_filter->linkgroup))
		return true;
	refuse(refusal, ENOENT, "not-found",
	       "there is no link group %u; 'smcrctl linkgroup' lists them", ret_filter->linkgroup);
	refusal->parameter = "linkgroup";
	return false;
}

static bool begin(struct control *control, const struct clients_asker *asker,
		  const struct params *params, const char *text, struct refusal *refusal)
{
	struct filter filter;
	if (!may_ask(asker, params, refusal) || !take_filter(control, params, &filter, refusal))
		return false;
	struct capture *capture = unused(control, refusal);
	if (!capture)
		return false;
	struct control_captures *captures = control->captures;
	*capture = (struct capture){ .sink = {
					     .filter = filter,
					     .writes = params->data,
					     .hide_keys = asker->cred.uid != 0,
					     .mark = (unsigned int)(capture - captures->list),
					     .serial = captures->serial + 1,
				     },
				     .pid = asker->cred.pid,
				     .uid = asker->cred.uid,
				     .since = time(NULL) };
	if (!open_memory(capture, asker->fd, refusal))
		return false;
	captures->serial++;
	program_name(&captures->names, capture->pid, capture->program);
	capture->waiter = waiter_of(asker);
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

static void end(struct control *control, struct capture *capture, const char *how)
{
	if (control->events)
		events_command(control->events, capture->text, false, how);
	munmap(capture->memory, capture->length);
	capture->waiter.request = 0;
	set_tap(control->captures);
}

/* No further message can come. Tell the caller, which then reads the rest of the ring. */
static void end_with_group(struct control *control, struct capture *capture)
{
	struct refusal refusal = { 0 };
	char text[64];
	snprintf(text, sizeof(text), "link group %u has ended", capture->sink.filter.linkgroup);
	json_t *result = json_pack("{s:s}", "text", text);
	if (!result)
		refuse(&refusal, ENOMEM, "no-memory", "%s, and there is no memory to tell", text);
	waiter_reply(&capture->waiter, result, &refusal);
	end(control, capture, text);
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
	struct control_captures *captures = arg;
	(void)fd;
	(void)what;
	for (size_t i = 0; i < FABRIC_MARKS; i++) {
		struct capture *capture = &captures->list[i];
		const uint32_t linkgroup = capture->sink.filter.linkgroup;
		if (capture->waiter.request && linkgroup &&
		    !has_group(captures->control, linkgroup))
			end_with_group(captures->control, capture);
	}
}

void capture_forget(struct control *control, uint64_t request)
{
	for (size_t i = 0; control->captures && i < FABRIC_MARKS; i++)
		if (control->captures->list[i].waiter.request == request)
			end(control, &control->captures->list[i], "ended");
}

void capture_forget_all(struct control *control)
{
	struct control_captures *captures = control->captures;
	if (!captures)
		return;
	for (size_t i = 0; i < FABRIC_MARKS; i++)
		if (captures->list[i].waiter.request)
			end(control, &captures->list[i], "ended");
	if (captures->look)
		event_free(captures->look);
	program_names_close(&captures->names);
	free(captures);
	control->captures = NULL;
}

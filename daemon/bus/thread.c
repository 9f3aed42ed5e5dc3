/* SPDX-License-Identifier: MIT */
/*
 * The thread with the connection to the bus. sd-bus reads and checks a message in one call, however
 * large the bus allows it to be: that takes 50 ms for 32 MiB, and sd-bus does not tell the size
 * before. So this is done outside the event loop. The thread asks the loop by letters, within the
 * loop's time for the bus (bus.c).
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/bus/internal.h"
#include "daemon/fabric/fabric.h"

#define SYSTEM_BUS "unix:path=/run/dbus/system_bus_socket"

#define TURN_MESSAGES 64
#define TURN_US       10000
#define NAME_IN_QUEUE 2 /* DBUS_REQUEST_NAME_REPLY_IN_QUEUE */
#define WAIT_FIRST_S  1
#define WAIT_MOST_S   60
#define SECOND        UINT64_C(1000000)
#define LONG_PAUSE    3             /* times as long as a long answer took */
#define ANSWER_US     (25 * SECOND) /* how long the bus may take to answer */
#define NEVER         UINT64_MAX

/* ---- letters to the loop ---- */

uint64_t thread_next_request(struct bus_thread *thread)
{
	return BUS_REQUESTS | ++thread->last_request;
}

static void tell(struct bus_thread *thread, enum bus_told told, const char *why)
{
	struct letter *letter = letter_new(LETTER_TOLD);
	if (!letter)
		return; /* the next letter tells it */
	letter->told = told;
	letter->text = why ? strdup(why) : NULL;
	box_put(&thread->orders->loop, letter);
}

/* @return NULL: smcrd ends */
static struct letter *wait_for_look(struct bus_thread *thread)
{
	struct box *box = &thread->orders->thread;
	struct pollfd pollfd = { .fd = box->fd, .events = POLLIN };
	struct letter *letter;
	while (!(letter = box_take_kind(box, LETTER_LOOKED)) &&
	       !atomic_load(&thread->orders->ends)) {
		poll(&pollfd, 1, -1);
		box_heard(box);
	}
	thread->poked = true; /* the box may have had other letters */
	return letter;
}

json_t *thread_look(struct bus_thread *thread, const char *method, json_t *params,
		    char ret_next[BUS_PLACE_LEN])
{
	struct letter *letter = letter_new(LETTER_LOOK);
	json_t *request = json_pack("{s:s, s:o?}", "method", method, "params",
				    params ? params : json_object());
	if (ret_next)
		*ret_next = '\0';
	if (!letter || !request) {
		letter_free(letter);
		json_decref(request);
		return NULL;
	}
	letter->request = thread_next_request(thread);
	letter->json = request;
	box_put(&thread->orders->loop, letter);
	letter = wait_for_look(thread);
	if (!letter)
		return NULL;
	json_t *result = json_incref(json_object_get(letter->json, "result"));
	const char *next = json_string_value(json_object_get(letter->json, "next"));
	if (ret_next && next)
		snprintf(ret_next, BUS_PLACE_LEN, "%s", next);
	letter_free(letter);
	return result;
}

/* ---- one connection ---- */

static uint64_t queued(const struct bus_thread *thread)
{
	uint64_t number;
	return sd_bus_get_n_queued_write(thread->sd, &number) < 0 ? 0 : number;
}

/* A bus that takes no messages may be stopped. Or it holds so many answers of smcrd for callers
 * that do not read them that it takes no more from this connection: then a new connection helps. */
static bool is_stuck(struct bus_thread *thread, uint64_t now)
{
	const uint64_t number = queued(thread);
	if (!number || number != thread->num_queued)
		thread->queued_since = now;
	thread->num_queued = number;
	return now - thread->queued_since >= thread->orders->patience_us;
}

/* Bound the part of the time that long answers to all callers take. */
static void note_sent(struct bus_thread *thread, uint64_t now)
{
	if (!thread->long_answer || queued(thread))
		return;
	thread->long_answer = false;
	thread->all_at = now + LONG_PAUSE * (now - thread->all_since);
}

bool thread_is_clogged(const struct bus_thread *thread)
{
	return queued(thread) >= (thread->long_answer ? 1 : BUS_MAX_QUEUED);
}

static void hang_up(struct bus_thread *thread)
{
	calls_forget(thread);
	callers_forget(thread);
	track_forget(thread);
	thread->sd = sd_bus_close_unref(thread->sd);
	thread->failed = 0;
	thread->long_answer = false;
	thread->all_at = thread->num_queued = 0;
	thread->rests_until = thread->signals_at = thread->lost = 0;
	thread->events_begun = thread->served = thread->refused = thread->queued = false;
}

static void lose(struct bus_thread *thread, int error)
{
	if (!thread->refused)
		tell(thread, thread->served ? BUS_TOLD_GONE : BUS_TOLD_ABSENT, strerror(-error));
	hang_up(thread);
	thread->tries_at = fabric_now() + thread->wait_s * SECOND;
	thread->wait_s = thread->wait_s * 2 < WAIT_MOST_S ? thread->wait_s * 2 : WAIT_MOST_S;
}

/* @return 0, or why the connection cannot go on */
static int work_off(struct bus_thread *thread, uint64_t begun)
{
	int r = 1;
	/* If too many messages wait, do not let sd-bus read: it would queue more answers. */
	if (thread_is_clogged(thread) && !thread->writable)
		return 0;
	for (int i = 0; r > 0 && i < TURN_MESSAGES; i++) {
		r = sd_bus_process(thread->sd, NULL);
		thread->asks_for_all = false;
		if (thread->failed)
			r = thread->failed;
		/* Read all objects before the first call, so that changes are told from then on. */
		if (thread->served && !thread->tracks)
			break;
		if (fabric_now() - begun >= TURN_US || thread_is_clogged(thread))
			break;
	}
	return r < 0 ? r : 0;
}

static uint64_t used_us(void)
{
	struct timespec used;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return (uint64_t)used.tv_sec * SECOND + (uint64_t)used.tv_nsec / 1000;
}

/* Afterwards rest for as long as the turn took, so that a flood of calls takes half a processor at
 * most. */
static void work(struct bus_thread *thread)
{
	const uint64_t used = used_us();
	note_sent(thread, fabric_now());
	int r = work_off(thread, fabric_now());
	thread->writable = false;
	if (r < 0) {
		lose(thread, r);
		return;
	}
	signals_send(thread, fabric_now());
	track_send(thread);
	thread->rests_until = fabric_now() + used_us() - used;
}

/* ---- coming to the bus ---- */

static int on_name(sd_bus_message *message, void *userdata, sd_bus_error *ret_error)
{
	struct bus_thread *thread = userdata;
	uint32_t what;
	(void)ret_error;
	if (sd_bus_message_is_method_error(message, SD_BUS_ERROR_NO_REPLY)) {
		thread->failed = sd_bus_is_open(thread->sd) > 0 ? -ETIMEDOUT : -ECONNRESET;
	} else if (sd_bus_message_is_method_error(message, NULL) ||
		   sd_bus_message_read(message, "u", &what) < 0) {
		const sd_bus_error *error = sd_bus_message_get_error(message);
		tell(thread, BUS_TOLD_REFUSED, error ? error->message : NULL);
		thread->refused = true;
		thread->failed = -EACCES;
	} else {
		thread->queued = what == NAME_IN_QUEUE;
		tell(thread, thread->queued ? BUS_TOLD_QUEUED : BUS_TOLD_SERVED, NULL);
		thread->served = true;
		thread->wait_s = WAIT_FIRST_S;
	}
	return 0;
}

/* The bus tells when smcrd gets a name that it has waited for. Calls are counted before anything is
 * done for them. */
static int on_message(sd_bus_message *message, void *userdata, sd_bus_error *ret_error)
{
	struct bus_thread *thread = userdata;
	const char *name, *sender = sd_bus_message_get_sender(message);
	(void)ret_error;
	if (sd_bus_message_is_method_call(message, NULL, NULL) > 0)
		return calls_admit(thread, message);
	if (!thread->queued || !sender || strcmp(sender, "org.freedesktop.DBus") != 0 ||
	    !sd_bus_message_is_signal(message, "org.freedesktop.DBus", "NameAcquired"))
		return 0;
	if (sd_bus_message_read(message, "s", &name) > 0 && !strcmp(name, BUS_NAME)) {
		thread->queued = false;
		tell(thread, BUS_TOLD_SERVED, NULL);
	}
	sd_bus_message_rewind(message, true);
	return 0;
}

/* @return 0 or a negative errno; then thread->sd may be there all the same */
static int open_connection(struct bus_thread *thread)
{
	const char *address = thread->address;
	if (!address)
		address = secure_getenv("DBUS_SYSTEM_BUS_ADDRESS");
	int r = sd_bus_new(&thread->sd);
	if (r >= 0)
		r = sd_bus_set_address(thread->sd, address ? address : SYSTEM_BUS);
	if (r >= 0)
		r = sd_bus_set_bus_client(thread->sd, true);
	if (r >= 0)
		r = sd_bus_negotiate_fds(thread->sd, false);
	if (r >= 0)
		r = sd_bus_set_method_call_timeout(thread->sd, ANSWER_US);
	if (r >= 0)
		r = objects_add(thread);
	if (r >= 0)
		r = sd_bus_add_filter(thread->sd, NULL, on_message, thread);
	if (r >= 0)
		r = sd_bus_start(thread->sd);
	if (r >= 0)
		r = sd_bus_request_name_async(thread->sd, NULL, BUS_NAME, SD_BUS_NAME_QUEUE,
					      on_name, thread);
	return r < 0 ? r : 0;
}

/* After a new order try at once. */
static void follow_orders(struct bus_thread *thread)
{
	const unsigned int given = atomic_load(&thread->orders->given);
	const bool new = given != thread->followed;
	thread->followed = given;
	if (!atomic_load(&thread->orders->wanted)) {
		if (new) {
			hang_up(thread);
			tell(thread, BUS_TOLD_NOTHING, NULL);
		}
		thread->tries_at = NEVER;
		return;
	}
	if (new && !thread->sd) {
		thread->wait_s = WAIT_FIRST_S;
		thread->tries_at = 0;
	}
	if (thread->sd || fabric_now() < thread->tries_at)
		return;
	int r = open_connection(thread);
	if (r < 0)
		lose(thread, r);
}

/* ---- waiting ---- */

/* The events of the bus to wait for, and until when. @return 0, or why the connection cannot go
 * on */
static int expect(struct bus_thread *thread, uint64_t now, struct pollfd *ret_pollfd,
		  uint64_t *ret_until)
{
	int fd = sd_bus_get_fd(thread->sd), events = sd_bus_get_events(thread->sd);
	int r = sd_bus_get_timeout(thread->sd, ret_until);
	if (fd < 0 || events < 0 || r < 0)
		return fd < 0 ? fd : events < 0 ? events : r;
	if (is_stuck(thread, now))
		return -ETIMEDOUT;
	*ret_pollfd = (struct pollfd){ .fd = fd, .events = (short)events };
	if (thread_is_clogged(thread)) {
		ret_pollfd->events &= ~POLLIN;
		*ret_until = thread->queued_since + thread->orders->patience_us;
		return 0;
	}
	if (thread->signals_at && thread->signals_at < *ret_until)
		*ret_until = thread->signals_at;
	if (thread->served && track_due(thread) < *ret_until)
		*ret_until = track_due(thread);
	return 0;
}

static int milliseconds(uint64_t until, uint64_t now)
{
	if (until == NEVER)
		return -1;
	if (until <= now)
		return 0;
	const uint64_t ms = (until - now + 999) / 1000;
	return ms < INT32_MAX ? (int)ms : INT32_MAX;
}

/* While the thread rests, wait for letters only. */
static void wait_for_more(struct bus_thread *thread)
{
	const uint64_t now = fabric_now();
	struct pollfd pollfds[] = { { .fd = thread->orders->thread.fd, .events = POLLIN },
				    { .fd = -1 } };
	uint64_t until = thread->tries_at;
	int r = 0;
	if (thread->sd && now < thread->rests_until)
		until = thread->rests_until;
	else if (thread->sd)
		r = expect(thread, now, &pollfds[1], &until);
	if (r < 0) {
		lose(thread, r);
		return;
	}
	poll(pollfds, 2, thread->poked ? 0 : milliseconds(until, now));
	thread->poked = false;
	thread->writable = pollfds[1].revents & ~POLLIN; /* or the connection has ended */
	box_heard(&thread->orders->thread);
}

static void *run(void *arg)
{
	struct bus_thread *thread = arg;
	while (!atomic_load(&thread->orders->ends)) {
		follow_orders(thread);
		calls_answer(thread);
		if (thread->sd && fabric_now() >= thread->rests_until)
			work(thread);
		wait_for_more(thread);
	}
	hang_up(thread);
	return NULL;
}

/* ---- */

static void free_thread(struct bus_thread *thread)
{
	objects_free(thread);
	free(thread);
}

/* Signals are handled by the event loop. */
int thread_start(struct orders *orders, const char *address, struct bus_thread **ret_thread)
{
	sigset_t all, before;
	struct bus_thread *thread = calloc(1, sizeof(*thread));
	if (!thread)
		return -ENOMEM;
	thread->orders = orders;
	thread->address = address;
	thread->tries_at = NEVER;
	int error = -objects_make(thread);
	if (!error) {
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		error = pthread_create(&thread->id, NULL, run, thread);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	if (error) {
		free_thread(thread);
		return -error;
	}
	*ret_thread = thread;
	return 0;
}

void thread_end(struct bus_thread *thread)
{
	if (!thread)
		return;
	atomic_store(&thread->orders->ends, true);
	box_poke(&thread->orders->thread);
	pthread_join(thread->id, NULL);
	free_thread(thread);
}

/* SPDX-License-Identifier: MIT */
/*
 * The connection to the bus, driven by the event loop. A turn of it works off a few messages; then
 * the loop does something else for four times as long as that took, so that no flood of calls
 * delays the data of programs by more than a fifth.
 */
#include "daemon/bus/bus.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/bus/internal.h"
#include "daemon/fabric/fabric.h"
#include "daemon/host/log.h"

#define ON_THE_BUS "smcrd is on the system bus as " BUS_NAME
#define SYSTEM_BUS "unix:path=/run/dbus/system_bus_socket"

#define REQUESTS      (UINT64_C(1) << 63) /* sessions of the Unix socket do not count so far */
#define TURN_MESSAGES 64
#define TURN_US       1000
#define NAME_IN_QUEUE 2 /* DBUS_REQUEST_NAME_REPLY_IN_QUEUE */
#define REST          4 /* times what a turn took */
#define WAIT_FIRST_S  1
#define WAIT_MOST_S   60
#define ANSWER_US     25000000 /* the bus has so long to answer */

/* ---- asking the control ---- */

bool bus_is_request(uint64_t request)
{
	return request & REQUESTS;
}

uint64_t bus_next_request(struct bus *bus)
{
	return REQUESTS | ++bus->last_request;
}

json_t *bus_look(struct bus *bus, const char *method, json_t *params, bool *ret_more)
{
	/* Nobody in particular: it is not known who looks at properties and hears signals. */
	const struct clients_asker asker = { .request = bus_next_request(bus),
					     .cred = { .uid = (uid_t)-1, .gid = (gid_t)-1 },
					     .fd = -1 };
	json_t *request = json_pack("{s:s, s:o?}", "method", method, "params",
				    params ? params : json_object());
	json_t *reply = NULL, *result = NULL;
	if (request && bus->params.call(bus->params.ctx, &asker, request, &reply) == 0)
		result = json_incref(json_object_get(reply, "result"));
	if (ret_more)
		*ret_more = json_object_get(reply, "next") != NULL;
	json_decref(reply);
	json_decref(request);
	return result;
}

/* ---- what the log is told ---- */

/* @return is it new? */
static bool tells(struct bus *bus, enum bus_told what)
{
	const bool new = bus->told != what;
	bus->told = what;
	return new;
}

static void tell_absence(struct bus *bus, int error)
{
	if (!tells(bus, BUS_TOLD_ABSENT))
		return;
	if (bus->served)
		log_message(LOG_WARNING,
			    "the system bus has gone (%s): smcrd goes on, and comes back to it",
			    strerror(error));
	else
		log_message(bus->wanted == CONFIG_DBUS_YES ? LOG_WARNING : LOG_INFO,
			    "the system bus cannot be reached (%s): smcrd goes on without D-Bus, "
			    "and tries again now and then",
			    strerror(error));
}

static void tell_refusal(struct bus *bus, const sd_bus_error *error)
{
	if (tells(bus, BUS_TOLD_REFUSED))
		log_message(bus->wanted == CONFIG_DBUS_YES ? LOG_WARNING : LOG_NOTICE,
			    "the system bus refuses the name " BUS_NAME " (%s): is " BUS_NAME
			    ".conf in its directory system.d?",
			    error && error->message ? error->message : "it gives no reason");
}

static void tell_success(struct bus *bus, bool queued)
{
	if (!tells(bus, BUS_TOLD_SERVED))
		return;
	if (queued)
		log_message(LOG_NOTICE, "another program has the name " BUS_NAME
					" on the system bus: smcrd gets it when that one ends");
	else
		log_message(LOG_INFO, ON_THE_BUS);
}

/* ---- when it is the bus's turn ---- */

static void arm_timer(struct bus *bus, uint64_t us)
{
	const struct timeval wait = { .tv_sec = (time_t)(us / 1000000),
				      .tv_usec = (suseconds_t)(us % 1000000) };
	evtimer_add(bus->timer, &wait);
}

void bus_kick(struct bus *bus)
{
	bus->kicked = true;
	if (bus->sd && !bus->resting)
		arm_timer(bus, 0);
}

void bus_wake(struct bus *bus)
{
	if (bus && bus->served && !bus->signals_at)
		bus_kick(bus); /* else it has a turn at that time */
}

bool bus_is_clogged(const struct bus *bus)
{
	uint64_t queued;
	return sd_bus_get_n_queued_write(bus->sd, &queued) >= 0 && queued >= BUS_MAX_QUEUED;
}

static void on_io(evutil_socket_t fd, short what, void *arg);

/* sd-bus may have another descriptor than before, or the same number for another one. */
static int arm_io(struct bus *bus)
{
	int fd = sd_bus_get_fd(bus->sd), events = sd_bus_get_events(bus->sd);
	short what = 0;
	if (fd < 0 || events < 0)
		return fd < 0 ? fd : events;
	if (events & POLLOUT)
		what |= EV_WRITE;
	if (events & POLLIN && !bus_is_clogged(bus))
		what |= EV_READ;
	if (event_assign(bus->io, bus->params.base, fd, what, on_io, bus) < 0)
		return -ENOMEM;
	return what && event_add(bus->io, NULL) < 0 ? -ENOMEM : 0;
}

/* @return 0, or why the connection cannot go on */
static int wait_for_more(struct bus *bus, uint64_t now)
{
	uint64_t at;
	int r = sd_bus_get_timeout(bus->sd, &at);
	if (r >= 0)
		r = arm_io(bus);
	if (r < 0)
		return r;
	if (bus->signals_at && bus->signals_at < at)
		at = bus->signals_at;
	if (bus->kicked)
		arm_timer(bus, 0);
	else if (at != UINT64_MAX && !bus_is_clogged(bus))
		arm_timer(bus, at > now ? at - now : 0);
	return 0;
}

/* ---- one connection ---- */

static void hang_up(struct bus *bus)
{
	event_del(bus->io);
	evtimer_del(bus->timer);
	calls_forget(bus);
	callers_forget(bus);
	bus->sd = sd_bus_close_unref(bus->sd);
	bus->failed = 0;
	bus->signals_at = bus->lost = 0;
	bus->events_begun = bus->resting = bus->kicked = bus->served = bus->refused = false;
}

static void leave(struct bus *bus)
{
	hang_up(bus);
	bus->told = BUS_TOLD_NOTHING;
}

static void lose(struct bus *bus, int error)
{
	if (!bus->refused)
		tell_absence(bus, -error);
	hang_up(bus);
	arm_timer(bus, (uint64_t)bus->wait_s * 1000000);
	bus->wait_s = bus->wait_s * 2 < WAIT_MOST_S ? bus->wait_s * 2 : WAIT_MOST_S;
}

/* @return 0, or why the connection cannot go on */
static int work_off(struct bus *bus, uint64_t begun)
{
	int r = 1;
	/* sd-bus reads whenever it can, and would queue the answers. */
	if (bus_is_clogged(bus) && !bus->writable)
		return 0;
	for (int i = 0; r > 0 && i < TURN_MESSAGES; i++) {
		r = sd_bus_process(bus->sd, NULL);
		if (bus->failed)
			r = bus->failed;
		if (fabric_now() - begun >= TURN_US || bus_is_clogged(bus))
			break;
	}
	return r < 0 ? r : 0;
}

static void work(struct bus *bus)
{
	const uint64_t begun = fabric_now();
	if (bus->params.at_work)
		bus->params.at_work(bus->params.ctx);
	bus->kicked = false;
	bus->working = true;
	calls_answer(bus);
	int r = work_off(bus, begun);
	bus->working = false;
	if (bus->wanted == CONFIG_DBUS_NO) {
		leave(bus); /* as a call has said */
		return;
	}
	if (r < 0) {
		lose(bus, r);
		return;
	}
	signals_send(bus, fabric_now());
	const uint64_t took = fabric_now() - begun;
	bus->resting = true;
	arm_timer(bus, REST * took);
}

static void on_io(evutil_socket_t fd, short what, void *arg)
{
	struct bus *bus = arg;
	(void)fd;
	evtimer_del(bus->timer);
	bus->writable = what & EV_WRITE;
	work(bus);
	bus->writable = false;
}

static void connect_to(struct bus *bus);

static void look_again(struct bus *bus)
{
	int r = wait_for_more(bus, fabric_now());
	if (r < 0)
		lose(bus, r);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct bus *bus = arg;
	(void)fd;
	(void)what;
	if (!bus->sd) {
		connect_to(bus);
	} else if (bus->resting) {
		bus->resting = false;
		look_again(bus);
	} else {
		event_del(bus->io);
		work(bus);
	}
}

/* ---- coming to the bus ---- */

static int on_name(sd_bus_message *message, void *userdata, sd_bus_error *ret_error)
{
	struct bus *bus = userdata;
	uint32_t what;
	(void)ret_error;
	if (sd_bus_message_is_method_error(message, SD_BUS_ERROR_NO_REPLY)) {
		bus->failed = sd_bus_is_open(bus->sd) > 0 ? -ETIMEDOUT : -ECONNRESET;
	} else if (sd_bus_message_is_method_error(message, NULL) ||
		   sd_bus_message_read(message, "u", &what) < 0) {
		tell_refusal(bus, sd_bus_message_get_error(message));
		bus->refused = true;
		bus->failed = -EACCES;
	} else {
		bus->queued = what == NAME_IN_QUEUE;
		tell_success(bus, bus->queued);
		bus->served = true;
		bus->wait_s = WAIT_FIRST_S;
	}
	return 0;
}

/* The bus tells whoever waited for a name. Calls are counted before anything is done for them. */
static int on_message(sd_bus_message *message, void *userdata, sd_bus_error *ret_error)
{
	struct bus *bus = userdata;
	const char *name, *sender = sd_bus_message_get_sender(message);
	(void)ret_error;
	if (sd_bus_message_is_method_call(message, NULL, NULL) > 0)
		return calls_admit(bus, message);
	if (!bus->queued || !sender || strcmp(sender, "org.freedesktop.DBus") != 0 ||
	    !sd_bus_message_is_signal(message, "org.freedesktop.DBus", "NameAcquired"))
		return 0;
	if (sd_bus_message_read(message, "s", &name) > 0 && !strcmp(name, BUS_NAME)) {
		bus->queued = false;
		log_message(LOG_INFO, ON_THE_BUS);
	}
	sd_bus_message_rewind(message, true);
	return 0;
}

/* @return 0 or a negative errno; then bus->sd may be there all the same */
static int open_connection(struct bus *bus)
{
	const char *address = bus->params.address;
	if (!address)
		address = secure_getenv("DBUS_SYSTEM_BUS_ADDRESS");
	int r = sd_bus_new(&bus->sd);
	if (r >= 0)
		r = sd_bus_set_address(bus->sd, address ? address : SYSTEM_BUS);
	if (r >= 0)
		r = sd_bus_set_bus_client(bus->sd, true);
	if (r >= 0)
		r = sd_bus_negotiate_fds(bus->sd, false);
	if (r >= 0)
		r = sd_bus_set_method_call_timeout(bus->sd, ANSWER_US);
	if (r >= 0)
		r = objects_add(bus);
	if (r >= 0)
		r = sd_bus_add_filter(bus->sd, NULL, on_message, bus);
	if (r >= 0)
		r = sd_bus_start(bus->sd);
	if (r >= 0)
		r = sd_bus_request_name_async(bus->sd, NULL, BUS_NAME, SD_BUS_NAME_QUEUE, on_name,
					      bus);
	return r < 0 ? r : 0;
}

static void connect_to(struct bus *bus)
{
	int r = open_connection(bus);
	if (r < 0)
		lose(bus, r);
	else
		look_again(bus);
}

/* ---- */

void bus_configure(struct bus *bus, enum config_dbus wanted)
{
	bus->wanted = wanted;
	if (bus->working)
		return;
	if (wanted == CONFIG_DBUS_NO) {
		leave(bus);
	} else if (!bus->sd) {
		evtimer_del(bus->timer);
		bus->wait_s = WAIT_FIRST_S;
		connect_to(bus);
	}
}

const char *bus_state(const struct bus *bus)
{
	if (!bus || bus->wanted == CONFIG_DBUS_NO)
		return "off";
	if (bus->served)
		return bus->queued ? "waits" : "on";
	return bus->told == BUS_TOLD_REFUSED ? "refused" : "unreachable";
}

int bus_new(const struct bus_params *params, struct bus **ret_bus)
{
	struct bus *bus = calloc(1, sizeof(*bus));
	if (!bus)
		return -ENOMEM;
	bus->params = *params;
	bus->wanted = CONFIG_DBUS_NO;
	bus->io = event_new(params->base, -1, 0, on_io, bus);
	bus->timer = evtimer_new(params->base, on_timer, bus);
	if (!bus->io || !bus->timer || objects_make(bus) < 0) {
		bus_free(bus);
		return -ENOMEM;
	}
	*ret_bus = bus;
	return 0;
}

void bus_free(struct bus *bus)
{
	if (!bus)
		return;
	if (bus->io && bus->timer)
		hang_up(bus);
	objects_free(bus);
	if (bus->io)
		event_free(bus->io);
	if (bus->timer)
		event_free(bus->timer);
	free(bus);
}

/* SPDX-License-Identifier: MIT */
#include "daemon/heartbeat.h"

#include <errno.h>
#include <systemd/sd-daemon.h>

#include "daemon/fabric/fabric.h"
#include "daemon/host/log.h"
#include "daemon/host/trace.h"

/* How often the service manager is told within its time limit. */
#define TOLD 4

#define LOG_US 60000000 /* pause between lines about the same */

static void tell_manager(struct heartbeat *heartbeat)
{
	uint64_t now = fabric_now();
	if (heartbeat->watchdog_us == 0 || now - heartbeat->told_us < heartbeat->watchdog_us / TOLD)
		return;
	heartbeat->told_us = now;
	sd_notify(0, "WATCHDOG=1");
}

static void log_refused(struct heartbeat *heartbeat)
{
	struct rdv_listeners listeners;
	uint64_t now = fabric_now();
	rdv_option_get_listeners(heartbeat->option, &listeners);
	if (listeners.refused == heartbeat->refused ||
	    (heartbeat->logged_us && now - heartbeat->logged_us < LOG_US))
		return;
	unsigned int refused = (unsigned int)(listeners.refused - heartbeat->refused);
	log_message(
		LOG_WARNING,
		"%u %s plain TCP, the last one of user %u: all users have %u, and one has no more "
		"than are left",
		refused, refused == 1 ? "listener stays" : "listeners stay",
		(unsigned int)listeners.refused_uid, listeners.claimed);
	heartbeat->refused = listeners.refused;
	heartbeat->logged_us = now;
}

static void tell_refused(struct heartbeat *heartbeat, enum egress_kind kind)
{
	char text[RDV_TEXT_MAX];
	uint64_t now = fabric_now(), *told_us = &heartbeat->egress_us[kind];
	if (!egress_has_news(heartbeat->egress, kind) || (*told_us && now - *told_us < LOG_US))
		return;
	*told_us = now;
	egress_take_news(heartbeat->egress, kind, text);
	events_refused(heartbeat->events, text);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct heartbeat *heartbeat = arg;
	(void)fd;
	(void)what;
	turns_begin(heartbeat->turns, TURNS_HOST, fabric_now());
	rdv_option_beat(heartbeat->option);
	tell_manager(heartbeat);
	log_refused(heartbeat);
	trace_tell_left_out();
	for (int i = 0; i < NUM_EGRESS_KINDS; i++)
		tell_refused(heartbeat, (enum egress_kind)i);
	plain_look(heartbeat->plain);
}

static uint64_t interval_us(const struct heartbeat *heartbeat)
{
	uint64_t interval = RDV_BEAT_MS * 1000;
	uint64_t watchdog = heartbeat->watchdog_us / TOLD;
	bool looked_at = heartbeat->option || heartbeat->egress;
	if (watchdog && (watchdog < interval || !looked_at))
		interval = watchdog;
	return interval;
}

int heartbeat_start(struct heartbeat *heartbeat, struct event_base *base,
		    const struct heartbeat_of *of)
{
	*heartbeat = (struct heartbeat){ .option = of->option,
					 .plain = of->plain,
					 .egress = of->egress,
					 .events = of->events,
					 .turns = of->turns };
	if (sd_watchdog_enabled(0, &heartbeat->watchdog_us) <= 0)
		heartbeat->watchdog_us = 0;
	if (!of->option && !of->egress && !heartbeat->watchdog_us)
		return 0;
	uint64_t us = interval_us(heartbeat);
	const struct timeval interval = { .tv_sec = (time_t)(us / 1000000),
					  .tv_usec = (suseconds_t)(us % 1000000) };
	heartbeat->timer = event_new(base, -1, EV_PERSIST, on_timer, heartbeat);
	if (!heartbeat->timer || event_add(heartbeat->timer, &interval) < 0)
		return -ENOMEM;
	rdv_option_beat(of->option);
	return 0;
}

void heartbeat_stop(struct heartbeat *heartbeat)
{
	if (heartbeat->timer)
		event_free(heartbeat->timer);
	heartbeat->timer = NULL;
}

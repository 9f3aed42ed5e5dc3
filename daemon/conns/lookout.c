/* SPDX-License-Identifier: MIT */
/*
 * Control pages of shared memory that the daemon polls. It polls for a short while after activity,
 * so that the program need not wake the daemon. It also polls while a reader or the holder of the
 * lock may be dead, so that nothing waits for a dead process for ever.
 *
 * A page whose writers' lock a program holds without writing is looked at less and less often.
 */
#include <errno.h>
#include <sched.h>

#include "daemon/conns/internal.h"

#define SOON_US        1000
#define PAUSE_FIRST_US 10
#define PAUSE_MOST_US  1000000

/* One timer serves all pages. It is not put off if another page is due earlier. */
static void arm(struct conns *conns, uint64_t now, uint64_t us)
{
	const uint64_t at = now + us;
	if (evtimer_pending(conns->look_timer, NULL) && conns->look_at <= at)
		return;
	conns->look_at = at;
	const struct timeval wait = { .tv_sec = (time_t)(us / 1000000),
				      .tv_usec = (suseconds_t)(us % 1000000) };
	evtimer_add(conns->look_timer, &wait);
}

void lookout_forget(struct conn *conn)
{
	if (!conn->looked_at)
		return;
	conn->looked_at = false;
	DL_DELETE2(conn->conns->looked_at, conn, look_prev, look_next);
}

void lookout_update(struct conn *conn)
{
	struct conns *conns = conn->conns;
	struct shared *shared = &conn->shared;
	bool busy = shared->active == shared->now && conns->config.busy_poll_us > 0;
	if (busy) {
		shared_poll(shared);
		conn->look_pause = 0;
	}
	if (conn->looked_at && !busy && !shared_is_timed(shared))
		return;
	if (!shared->polled && !shared_is_timed(shared)) {
		lookout_forget(conn);
		return;
	}
	if (!conn->looked_at) {
		conn->looked_at = true;
		DL_APPEND2(conns->looked_at, conn, look_prev, look_next);
	}
	conn->look_due = shared->now;
	arm(conns, shared->now, busy ? 0 : SOON_US);
}

/* A writer has the lock and may have read `polled`, so the daemon has to go on looking, but less
 * often. */
static void pause_looking(struct conn *conn, uint64_t now)
{
	conn->look_pause = conn->look_pause ? conn->look_pause * 2 : PAUSE_FIRST_US;
	if (conn->look_pause > PAUSE_MOST_US)
		conn->look_pause = PAUSE_MOST_US;
	conn->look_due = now + conn->look_pause;
}

/* @return when to look again, microseconds from now */
static uint64_t look(struct conn *conn, uint64_t now, bool *inout_news)
{
	struct shared *shared = &conn->shared;
	if (now < conn->look_due)
		return conn->look_due - now;
	if (shared_has_news(shared, now)) {
		conn_mark(conn);
		*inout_news = true;
		return shared->polled ? 0 : SOON_US;
	}
	if (shared->polled && now - shared->active < conn->conns->config.busy_poll_us)
		return 0;
	if (shared->polled && !shared_stop_polling(shared)) {
		pause_looking(conn, now);
		return conn->look_pause;
	}
	if (shared_is_timed(shared))
		return SOON_US;
	lookout_forget(conn);
	return UINT64_MAX;
}

void lookout_on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct conns *conns = arg;
	struct conn *conn, *next;
	uint64_t now = conns_now_us(), soonest = UINT64_MAX;
	bool news = false;
	(void)fd;
	(void)what;
	for (conn = conns->looked_at; conn; conn = next) {
		next = conn->look_next;
		uint64_t us = look(conn, now, &news);
		soonest = us < soonest ? us : soonest;
	}
	if (soonest == 0 && !news)
		sched_yield(); /* the programs that the daemon waits for may need the core */
	if (soonest != UINT64_MAX)
		arm(conns, now, soonest);
}

/* SPDX-License-Identifier: MIT */
/*
 * How much of the event loop's time tools may have. A view of many connections takes milliseconds,
 * so a tool that asks for views without end would hold up the data of all programs. So requests of
 * users other than root get a fifth of the time: after each one the loop serves no other for four
 * times as long as the request took. Of the users who wait, the one who was served longest ago
 * comes next.
 *
 * Root's requests go first. In one turn of the event loop one request is answered at most,
 * whoever's, so other ready events never wait for more than one.
 */
#include <errno.h>

#include "daemon/clients/internal.h"

#define REST 4 /* pause after a request, as a multiple of the time that it took */

/* Root, and administrators whose session is beyond the limits. */
static bool goes_first(const struct session *session)
{
	return session->cred.uid == 0 || session->reserved;
}

static void arm(struct pace *pace, uint64_t us)
{
	const struct timeval wait = { .tv_sec = (time_t)(us / 1000000),
				      .tv_usec = (suseconds_t)(us % 1000000) };
	evtimer_add(pace->timer, &wait);
}

static void rest(struct pace *pace, uint64_t begun)
{
	uint64_t now = conns_now_us();
	pace->next_us = now + REST * (now - begun);
}

bool pace_admits(struct session *session)
{
	struct pace *pace = &session->clients->pace;
	uint64_t now = conns_now_us();
	bool free = goes_first(session) || (!pace->waiting && now >= pace->next_us);
	if (session->admitted || (free && !pace->served)) {
		session->admitted = false;
		return true;
	}
	session->paced = true;
	DL_APPEND2(pace->waiting, session, pace_prev, pace_next);
	if (!evtimer_pending(pace->timer, NULL))
		arm(pace, pace->next_us > now ? pace->next_us - now : 0);
	return false;
}

void pace_forget(struct session *session)
{
	struct pace *pace = &session->clients->pace;
	if (!session->paced)
		return;
	session->paced = false;
	DL_DELETE2(pace->waiting, session, pace_prev, pace_next);
}

void pace_end(struct session *session, uint64_t begun)
{
	struct pace *pace = &session->clients->pace;
	if (!goes_first(session))
		rest(pace, begun);
	pace->served = true;
	arm(pace, 0); /* fires after this turn of the event loop */
}

/* @return the session whose turn it is; NULL: it is nobody's yet */
static struct session *next_in_turn(const struct pace *pace, uint64_t now)
{
	struct session *session, *next = NULL;
	DL_FOREACH2 (pace->waiting, session, pace_next) {
		if (goes_first(session))
			return session;
		if (now >= pace->next_us && (!next || session->quota->served < next->quota->served))
			next = session;
	}
	return next;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct clients *clients = arg;
	struct pace *pace = &clients->pace;
	const uint64_t now = conns_now_us();
	(void)fd;
	(void)what;
	pace->served = false;
	if (!pace->waiting)
		return;
	struct session *session = next_in_turn(pace, now);
	if (!session) {
		arm(pace, pace->next_us > now ? pace->next_us - now : 0);
		return;
	}
	const bool first = goes_first(session);
	batch_begin(clients->batch);
	pace_forget(session);
	session->admitted = true;
	session->quota->served = ++pace->turn;
	session_resume(session);
	batch_end(clients->batch);
	if (!first)
		rest(pace, now); /* the time for choosing counts too */
	if (pace->waiting && !evtimer_pending(pace->timer, NULL))
		arm(pace, 0);
}

int pace_init(struct clients *clients)
{
	clients->pace.timer = evtimer_new(clients->config.base, on_timer, clients);
	return clients->pace.timer ? 0 : -ENOMEM;
}

void pace_free(struct clients *clients)
{
	if (clients->pace.timer)
		event_free(clients->pace.timer);
}

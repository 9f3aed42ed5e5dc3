/* SPDX-License-Identifier: MIT */
/*
 * TCP sockets of connections that have ended and wait for the peer's FIN.
 *
 * With TCP, the port of the side that closes first stays in use for a minute (TIME_WAIT), and a
 * server can listen again at once if its clients have closed first. With SMC-R both sides close TCP
 * when the end of the connection is agreed upon (CLOSE-2), and the one that is a little earlier
 * would have TIME_WAIT. So the side whose peer has ended first waits for that peer's FIN, though
 * not for long: the peer may keep its TCP connection.
 */
#include <event2/event.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <utlist.h>

#include "daemon/conns/internal.h"

/* The peer sends its FIN as soon as it knows that the connection has ended. */
static const struct timeval patience = { .tv_sec = 1 };
/* More sockets do not wait, nor more of one user than half: each takes a descriptor. */
#define FINS_MAX 64

struct fin {
	struct fin *prev, *next;
	struct event *event;
	struct conns *conns;
	struct quota *quota;
	int tcp;
};

static void end(struct fin *fin)
{
	struct conns *conns = fin->conns;
	DL_DELETE(conns->fins, fin);
	event_free(fin->event);
	tcp_finish(fin->tcp, fin->quota);
	fin->quota->fins--;
	limits_count_files(conns, fin->quota, -1);
	quota_put(conns, fin->quota);
	conns->num_fins--;
	free(fin);
}

/* A FIN or a reset has come, or has not come in time. */
static void on_end(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	end(arg);
}

void fins_close(struct conns *conns)
{
	while (conns->fins)
		end(conns->fins);
}

bool fins_add(struct conns *conns, int tcp, struct quota *quota)
{
	const struct linger background = { 0 };
	bool room = conns->num_fins < FINS_MAX && quota->fins < FINS_MAX / 2;
	struct fin *fin =
		room && !conns->stopped && !conns->freeing ? calloc(1, sizeof(*fin)) : NULL;
	if (!fin)
		return false;
	*fin = (struct fin){ .conns = conns, .quota = quota, .tcp = tcp };
	fin->event = event_new(conns->config.base, tcp, EV_READ, on_end, fin);
	if (!fin->event || event_add(fin->event, &patience) < 0) {
		if (fin->event)
			event_free(fin->event);
		free(fin);
		return false;
	}
	rdv_linger_restore(tcp, &background); /* the end of smcrd is no reset */
	quota->fins++;
	limits_count_files(conns, quota, 1);
	conns->num_fins++;
	DL_APPEND(conns->fins, fin);
	return true;
}

/* SPDX-License-Identifier: MIT */
#include "daemon/conns/poller.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <unistd.h>

#define ROUND 64 /* events handled in one go, before other events of the loop get their turn */

struct poller {
	int fd;
	struct event *event;
	void (*batch)(void *ctx, bool begin);
	void *ctx;
	struct epoll_event round[ROUND];
	int round_at, round_len; /* events [round_at, round_len) have not been handled yet */
};

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct poller *poller = arg;
	(void)what;
	int n = epoll_wait(fd, poller->round, ROUND, 0);
	if (n <= 0)
		return;
	poller->round_len = n;
	if (poller->batch)
		poller->batch(poller->ctx, true);
	for (poller->round_at = 0; poller->round_at < poller->round_len;) {
		struct epoll_event *event = &poller->round[poller->round_at++];
		struct watch *watch = event->data.ptr;
		if (watch) /* NULL: an earlier callback of this round removed the watch */
			watch->ready(watch, event->events);
	}
	poller->round_at = poller->round_len = 0;
	if (poller->batch)
		poller->batch(poller->ctx, false);
}

int poller_new(struct event_base *base, void (*batch)(void *ctx, bool begin), void *ctx,
	       struct poller **ret_poller)
{
	struct poller *poller = calloc(1, sizeof(*poller));
	if (!poller)
		return -ENOMEM;
	poller->batch = batch;
	poller->ctx = ctx;
	poller->fd = epoll_create1(EPOLL_CLOEXEC);
	if (poller->fd < 0) {
		int r = -errno;
		free(poller);
		return r;
	}
	poller->event = event_new(base, poller->fd, EV_READ | EV_PERSIST, on_readable, poller);
	if (!poller->event || event_add(poller->event, NULL) < 0) {
		poller_free(poller);
		return -ENOMEM;
	}
	*ret_poller = poller;
	return 0;
}

void poller_free(struct poller *poller)
{
	if (!poller)
		return;
	if (poller->event)
		event_free(poller->event);
	close(poller->fd);
	free(poller);
}

static int control(struct poller *poller, int op, int fd, uint32_t events, struct watch *watch)
{
	struct epoll_event event = { .events = events | EPOLLET, .data.ptr = watch };
	return epoll_ctl(poller->fd, op, fd, &event) < 0 ? -errno : 0;
}

int poller_add(struct poller *poller, struct watch *watch, int fd, uint32_t events,
	       void (*ready)(struct watch *watch, uint32_t events))
{
	int r = control(poller, EPOLL_CTL_ADD, fd, events, watch);
	if (r < 0)
		return r;
	watch->fd = fd;
	watch->events = events;
	watch->ready = ready;
	return 0;
}

void poller_modify(struct poller *poller, struct watch *watch, uint32_t events)
{
	if (watch->fd < 0 || watch->events == events)
		return;
	if (control(poller, EPOLL_CTL_MOD, watch->fd, events, watch) == 0)
		watch->events = events;
}

void poller_remove(struct poller *poller, struct watch *watch)
{
	if (watch->fd < 0)
		return;
	epoll_ctl(poller->fd, EPOLL_CTL_DEL, watch->fd, NULL);
	poller_forget(poller, watch);
}

void poller_forget(struct poller *poller, struct watch *watch)
{
	watch->fd = -1;
	for (int i = poller->round_at; i < poller->round_len; i++)
		if (poller->round[i].data.ptr == watch)
			poller->round[i].data.ptr = NULL;
}

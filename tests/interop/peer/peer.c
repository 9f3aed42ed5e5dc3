/* SPDX-License-Identifier: MIT */
#include "tests/interop/peer/peer.h"

#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct event *whole_time;

void peer_die(const struct peer *peer, const char *format, ...)
{
	va_list args;
	printf("FAILED %s: ", peer->doing);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	exit(1);
}

void peer_say(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
}

static void on_time_over(evutil_socket_t fd, short what, void *arg)
{
	struct peer *peer = arg;
	(void)fd;
	(void)what;
	peer->late = true;
}

/* Tell what the connection manager tells operators: it helps when a cell fails. */
static void on_told(void *ctx, const struct cm_told *told)
{
	static const char *const what[] = { "connected", "ended", "refused" };
	(void)ctx;
	fprintf(stderr, "cm: a connection has been %s: %s%s%s\n", what[told->what],
		told->what == CM_TOLD_ENDED ? cm_end_name(told->end) : "",
		told->what == CM_TOLD_ENDED ? ", " : "", told->text);
}

static void on_rnic_event(void *ctx, struct rnic *rnic, const struct rnic_event *event)
{
	struct peer *peer = ctx;
	if (event->type == RNIC_EVENT_REMOVED)
		peer_die(peer, "the RNIC is gone");
	if (peer->cm)
		cm_rnic_changed(peer->cm, rnic);
}

void peer_open(struct peer *peer, const char *rnic, unsigned int seconds)
{
	char error[RNIC_ERROR_LEN > CM_ERROR_LEN ? RNIC_ERROR_LEN : CM_ERROR_LEN];
	struct timeval limit = { .tv_sec = seconds };
	peer->base = event_base_new();
	whole_time = evtimer_new(peer->base, on_time_over, peer);
	evtimer_add(whole_time, &limit);
	struct rnic_open_params open = { .base = peer->base,
					 .on_event = on_rnic_event,
					 .event_ctx = peer };
	struct cm_params cm = { .base = peer->base, .told = on_told, .ctx = peer };
	if (rnic_open(rnic, &open, &peer->rnic, error))
		peer_die(peer, "%s", error);
	rnic_get_info(peer->rnic, &peer->info);
	if (rnic_pd_alloc(peer->rnic, &peer->pd) || cm_new(&cm, &peer->cm))
		peer_die(peer, "out of memory");
	if (cm_add_rnic(peer->cm, peer->rnic, error))
		peer_die(peer, "%s", error);
}

void peer_close(struct peer *peer)
{
	cm_remove_rnic(peer->cm, peer->rnic);
	cm_free(peer->cm);
	rnic_pd_free(peer->pd);
	rnic_close(peer->rnic);
	event_free(whole_time);
	event_base_free(peer->base);
}

void peer_turn(struct peer *peer, const char *what)
{
	if (peer->late)
		peer_die(peer, "the time is over, still waiting for %s", what);
	event_base_loop(peer->base, EVLOOP_ONCE);
}

static void on_pause_over(evutil_socket_t fd, short what, void *arg)
{
	bool *over = arg;
	(void)fd;
	(void)what;
	*over = true;
}

void peer_pause(struct peer *peer, const char *what)
{
	struct timeval tenth = { .tv_usec = 100000 };
	bool over = false;
	event_base_once(peer->base, -1, EV_TIMEOUT, on_pause_over, &over, &tenth);
	while (!over)
		peer_turn(peer, what);
}

/* ---- memory */

void peer_mem_new(struct peer *peer, size_t len, unsigned int access, struct peer_mem *ret_mem)
{
	ret_mem->len = len;
	ret_mem->addr = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ret_mem->addr == MAP_FAILED ||
	    rnic_mr_register(peer->pd, ret_mem->addr, len, access, &ret_mem->mr))
		peer_die(peer, "no memory of %zu bytes", len);
}

void peer_mem_free(struct peer_mem *mem)
{
	rnic_mr_deregister(mem->mr);
	munmap(mem->addr, mem->len);
}

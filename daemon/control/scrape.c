/* SPDX-License-Identifier: MIT */
#include "daemon/control/scrape.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/control/openmetrics.h"
#include "daemon/control/scrape_request.h"
#include "daemon/fabric/fabric.h"
#include "daemon/host/tcp_socket.h"
#include "daemon/host/unix_socket.h"

#define BACKLOG      64
#define PLAIN        "text/plain; charset=utf-8"
#define MILLISECONDS 1000

/* One text for all visitors at the same time; freed when the last one has it. */
struct answer {
	char *text;
	size_t len;
	unsigned int users;
};

struct visitor {
	struct scrape *scrape;
	struct bufferevent *bev;
	struct event *deadline;
	bool answered;
	struct visitor *prev, *next;
};

/* A place to listen. All zero: closed. */
struct door {
	char *at;
	struct unix_socket local; /* of SCRAPE_LOCAL; the path is `at` */
	int tcp;                  /* of SCRAPE_TCP */
	struct event *event;
};

struct scrape {
	struct scrape_params params;
	struct door doors[SCRAPE_DOORS];
	struct event *window;     /* runs while `in_window` counts */
	unsigned int in_window;   /* connections accepted in the window */
	struct visitor *visitors; /* oldest first */
	unsigned int num_visitors;
	struct answer *latest;
	uint64_t made_us;
};

/* ---- answers ---- */

static void answer_put(const void *data, size_t len, void *arg)
{
	struct answer *answer = arg;
	(void)data;
	(void)len;
	if (--answer->users)
		return;
	free(answer->text);
	free(answer);
}

static void forget_latest(struct scrape *scrape)
{
	if (scrape->latest)
		answer_put(NULL, 0, scrape->latest);
	scrape->latest = NULL;
}

/* @return a text that is not too old; NULL: no memory */
static struct answer *get_answer(struct scrape *scrape)
{
	const uint64_t now = fabric_now();
	if (scrape->latest && now - scrape->made_us < SCRAPE_FRESH_MS * MILLISECONDS)
		return scrape->latest;
	forget_latest(scrape);
	struct answer *answer = calloc(1, sizeof(*answer));
	char *text = answer ? scrape->params.text(scrape->params.ctx) : NULL;
	if (!text) {
		free(answer);
		return NULL;
	}
	*answer = (struct answer){ .text = text, .len = strlen(text), .users = 1 };
	scrape->made_us = now;
	scrape->latest = answer;
	return answer;
}

/* ---- one connection ---- */

static void leave(struct visitor *visitor)
{
	struct scrape *scrape = visitor->scrape;
	DL_DELETE(scrape->visitors, visitor);
	scrape->num_visitors--;
	if (visitor->deadline)
		event_free(visitor->deadline);
	if (visitor->bev)
		bufferevent_free(visitor->bev);
	free(visitor);
}

static void put_head(struct visitor *visitor, const char *status, const char *type, size_t len)
{
	evbuffer_add_printf(bufferevent_get_output(visitor->bev),
			    "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
			    "Cache-Control: no-store\r\nConnection: close\r\n%s\r\n",
			    status, type, len,
			    strncmp(status, "405", 3) ? "" : "Allow: GET, HEAD\r\n");
}

static void put_sentence(struct visitor *visitor, const char *status, const char *sentence,
			 bool with_body)
{
	put_head(visitor, status, PLAIN, strlen(sentence) + 1);
	if (with_body)
		evbuffer_add_printf(bufferevent_get_output(visitor->bev), "%s\n", sentence);
}

static void put_metrics(struct visitor *visitor, bool with_body)
{
	struct answer *answer = get_answer(visitor->scrape);
	if (!answer) {
		put_sentence(visitor, "503 Service Unavailable", "smcrd is out of memory",
			     with_body);
		return;
	}
	put_head(visitor, "200 OK", OPENMETRICS_TYPE, answer->len);
	if (!with_body)
		return;
	answer->users++;
	if (evbuffer_add_reference(bufferevent_get_output(visitor->bev), answer->text, answer->len,
				   answer_put, answer) < 0)
		answer_put(NULL, 0, answer);
}

static void put_answer(struct visitor *visitor, enum scrape_request request, bool head)
{
	switch (request) {
	case SCRAPE_INCOMPLETE: break;
	case SCRAPE_METRICS: put_metrics(visitor, !head); break;
	case SCRAPE_TOO_LONG:
		put_sentence(visitor, "431 Request Header Fields Too Large",
			     "the request is too long", true);
		break;
	case SCRAPE_MALFORMED:
		put_sentence(visitor, "400 Bad Request",
			     "smcrd understands GET " SCRAPE_PATH " HTTP/1.1", true);
		break;
	case SCRAPE_OTHER_METHOD:
		put_sentence(visitor, "405 Method Not Allowed", "only GET and HEAD are allowed",
			     true);
		break;
	case SCRAPE_OTHER_PATH:
		put_sentence(visitor, "404 Not Found", "smcrd's metrics are at " SCRAPE_PATH,
			     !head);
		break;
	}
}

/* Ignore further input; the connection ends when all has been sent. */
static void finish(struct visitor *visitor)
{
	struct evbuffer *input = bufferevent_get_input(visitor->bev);
	visitor->answered = true;
	evbuffer_drain(input, evbuffer_get_length(input));
}

static void on_read(struct bufferevent *bev, void *arg)
{
	struct visitor *visitor = arg;
	struct evbuffer *input = bufferevent_get_input(bev);
	bool head = false;
	if (visitor->answered) {
		finish(visitor);
		return;
	}
	size_t len = evbuffer_get_length(input);
	const char *data = (const char *)evbuffer_pullup(input, -1); /* NULL: without memory */
	enum scrape_request request =
		data ? scrape_request_read(data, len, &head) : SCRAPE_MALFORMED;
	if (request == SCRAPE_INCOMPLETE)
		return;
	put_answer(visitor, request, head);
	finish(visitor);
}

static void on_written(struct bufferevent *bev, void *arg)
{
	struct visitor *visitor = arg;
	(void)bev;
	if (visitor->answered)
		leave(visitor);
}

/* The client may have shut down its side after the request. */
static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct visitor *visitor = arg;
	bool waits = visitor->answered && evbuffer_get_length(bufferevent_get_output(bev)) > 0;
	if (what & BEV_EVENT_EOF && waits)
		bufferevent_disable(bev, EV_READ);
	else
		leave(visitor);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	leave(arg);
}

static void welcome(struct scrape *scrape, int fd)
{
	const struct timeval limit = { .tv_sec = SCRAPE_SECONDS };
	struct visitor *visitor = calloc(1, sizeof(*visitor));
	if (!visitor) {
		close(fd);
		return;
	}
	if (scrape->num_visitors == SCRAPE_MAX_CONNS)
		leave(scrape->visitors);
	visitor->scrape = scrape;
	DL_APPEND(scrape->visitors, visitor);
	scrape->num_visitors++;
	visitor->bev = bufferevent_socket_new(scrape->params.base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (!visitor->bev)
		close(fd);
	else
		visitor->deadline = evtimer_new(scrape->params.base, on_deadline, visitor);
	if (!visitor->deadline || evtimer_add(visitor->deadline, &limit) < 0) {
		leave(visitor);
		return;
	}
	bufferevent_setcb(visitor->bev, on_read, on_written, on_event, visitor);
	bufferevent_setwatermark(visitor->bev, EV_READ, 0, SCRAPE_MAX_REQUEST);
	bufferevent_enable(visitor->bev, EV_READ | EV_WRITE);
}

/* ---- accepting ---- */

static void accept_more(struct scrape *scrape, bool wanted)
{
	for (size_t i = 0; i < SCRAPE_DOORS; i++) {
		struct event *event = scrape->doors[i].event;
		if (event && wanted)
			event_add(event, NULL);
		else if (event)
			event_del(event);
	}
}

static void on_window_over(evutil_socket_t fd, short what, void *arg)
{
	struct scrape *scrape = arg;
	(void)fd;
	(void)what;
	scrape->in_window = 0;
	accept_more(scrape, true);
}

static void on_connection(evutil_socket_t listen_fd, short what, void *arg)
{
	const struct timeval window = { .tv_usec = SCRAPE_WINDOW_MS * MILLISECONDS };
	struct scrape *scrape = arg;
	(void)what;
	if (!evtimer_pending(scrape->window, NULL))
		evtimer_add(scrape->window, &window);
	/* If there is no descriptor, try again when the window is over. */
	int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	bool none_left = fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM);
	if (fd >= 0)
		welcome(scrape, fd);
	if (++scrape->in_window >= SCRAPE_CONNS_A_WINDOW || none_left)
		accept_more(scrape, false);
}

/* ---- listening ---- */

static void close_door(struct door *door, enum scrape_door which)
{
	if (!door->at)
		return;
	if (door->event)
		event_free(door->event);
	if (which == SCRAPE_LOCAL)
		unix_socket_close(&door->local);
	else if (door->tcp >= 0)
		close(door->tcp);
	free(door->at);
	*door = (struct door){ .at = NULL };
}

/* @return descriptor or a negative errno */
static int open_socket(struct door *door, enum scrape_door which, char *ret_text, size_t len)
{
	const struct unix_socket_params params = { .path = door->at,
						   .backlog = BACKLOG,
						   .what = "another process,",
						   .advice = "choose another metrics_socket" };
	if (which == SCRAPE_TCP)
		return door->tcp = tcp_socket_listen(door->at, BACKLOG, ret_text, len);
	int r = unix_socket_open(&params, &door->local, ret_text, len);
	return r < 0 ? r : door->local.fd;
}

static int open_door(struct scrape *scrape, enum scrape_door which, const char *at,
		     struct door *ret_door, char *ret_text, size_t len)
{
	struct door door = { .at = strdup(at), .local.fd = -1, .tcp = -1 };
	int fd = door.at ? open_socket(&door, which, ret_text, len) : -ENOMEM;
	if (fd >= 0)
		door.event = event_new(scrape->params.base, fd, EV_READ | EV_PERSIST, on_connection,
				       scrape);
	if (fd < 0 || !door.event || event_add(door.event, NULL) < 0) {
		if (fd >= 0 || !door.at)
			snprintf(ret_text, len, "out of memory");
		close_door(&door, which);
		return fd < 0 ? fd : -ENOMEM;
	}
	*ret_door = door;
	return 0;
}

/* Does the open door prevent opening `at`? A door at all addresses of a port does, and so does the
 * same path in another form. */
static bool in_the_way(const struct door *door, enum scrape_door which, const char *at)
{
	struct stat st;
	if (!door->at)
		return false;
	if (which == SCRAPE_TCP)
		return !strcmp(strrchr(door->at, ':'), strrchr(at, ':'));
	return lstat(at, &st) == 0 && st.st_dev == door->local.dev && st.st_ino == door->local.ino;
}

/* Close the open door first, and open it again if the new one fails. */
static int reopen_door(struct scrape *scrape, enum scrape_door which, const char *at,
		       char *ret_text, size_t len)
{
	struct door *door = &scrape->doors[which];
	char *before = strdup(door->at);
	char other[256];
	if (!before) {
		snprintf(ret_text, len, "out of memory");
		return -ENOMEM;
	}
	close_door(door, which);
	int r = open_door(scrape, which, at, door, ret_text, len);
	if (r < 0)
		open_door(scrape, which, before, door, other, sizeof(other));
	free(before);
	return r;
}

int scrape_listen(struct scrape *scrape, enum scrape_door which, const char *at, char *ret_text,
		  size_t len)
{
	struct door *door = &scrape->doors[which], new;
	if (!strcmp(scrape_at(scrape, which), at))
		return 0;
	if (!*at) {
		close_door(door, which);
		return 0;
	}
	int r = open_door(scrape, which, at, &new, ret_text, len);
	if (r == -EADDRINUSE && in_the_way(door, which, at))
		return reopen_door(scrape, which, at, ret_text, len);
	if (r < 0)
		return r;
	close_door(door, which);
	*door = new;
	return 0;
}

const char *scrape_at(const struct scrape *scrape, enum scrape_door door)
{
	return scrape->doors[door].at ? scrape->doors[door].at : "";
}

int scrape_new(const struct scrape_params *params, struct scrape **ret_scrape)
{
	struct scrape *scrape = calloc(1, sizeof(*scrape));
	if (!scrape)
		return -ENOMEM;
	scrape->params = *params;
	scrape->window = evtimer_new(params->base, on_window_over, scrape);
	if (!scrape->window) {
		free(scrape);
		return -ENOMEM;
	}
	*ret_scrape = scrape;
	return 0;
}

void scrape_close(struct scrape *scrape)
{
	if (!scrape)
		return;
	while (scrape->visitors)
		leave(scrape->visitors);
	for (enum scrape_door which = SCRAPE_LOCAL; which < SCRAPE_DOORS; which++)
		close_door(&scrape->doors[which], which);
	event_free(scrape->window);
	forget_latest(scrape);
	free(scrape);
}

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

/* One text for all that ask at the same time; it lasts until the last of them has it. */
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

struct scrape {
	struct scrape_params params;
	char *path; /* of `local` */
	struct unix_socket local;
	int tcp; /* -1: none */
	struct event *on_local, *on_tcp;
	struct event *window;     /* runs while it counts */
	unsigned int in_window;   /* accepted */
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

/* @return one that is not too old; NULL: no memory */
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

/* Nothing that comes counts any more; it is over when all has been sent. */
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

/* Who has asked may have shut down its side. */
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
	struct event *const events[] = { scrape->on_local, scrape->on_tcp };
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		if (events[i] && wanted)
			event_add(events[i], NULL);
		else if (events[i])
			event_del(events[i]);
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
	/* Without a descriptor it is tried again when the window is over. */
	int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	bool none_left = fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM);
	if (fd >= 0)
		welcome(scrape, fd);
	if (++scrape->in_window >= SCRAPE_CONNS_A_WINDOW || none_left)
		accept_more(scrape, false);
}

/* ---- listening ---- */

static int watch(struct scrape *scrape, int fd, struct event **ret_event)
{
	*ret_event =
		event_new(scrape->params.base, fd, EV_READ | EV_PERSIST, on_connection, scrape);
	return *ret_event && event_add(*ret_event, NULL) == 0 ? 0 : -ENOMEM;
}

static int open_local(struct scrape *scrape, char *ret_text, size_t len)
{
	if (!*scrape->params.socket_path)
		return 0;
	scrape->path = strdup(scrape->params.socket_path);
	if (!scrape->path)
		return -ENOMEM;
	int r = unix_socket_open(&scrape->local, scrape->path, BACKLOG, "another process,",
				 "choose another metrics_socket", ret_text, len);
	return r < 0 ? r : watch(scrape, scrape->local.fd, &scrape->on_local);
}

static int open_tcp(struct scrape *scrape, char *ret_text, size_t len)
{
	if (!*scrape->params.address)
		return 0;
	scrape->tcp = tcp_socket_listen(scrape->params.address, BACKLOG, ret_text, len);
	return scrape->tcp < 0 ? scrape->tcp : watch(scrape, scrape->tcp, &scrape->on_tcp);
}

int scrape_open(const struct scrape_params *params, struct scrape **ret_scrape, char *ret_text,
		size_t len)
{
	struct scrape *scrape = calloc(1, sizeof(*scrape));
	snprintf(ret_text, len, "out of memory");
	if (!scrape)
		return -ENOMEM;
	scrape->params = *params;
	scrape->local.fd = scrape->tcp = -1;
	scrape->window = evtimer_new(params->base, on_window_over, scrape);
	int r = scrape->window ? open_local(scrape, ret_text, len) : -ENOMEM;
	if (r == 0)
		r = open_tcp(scrape, ret_text, len);
	if (r < 0) {
		scrape_close(scrape);
		return r;
	}
	*ret_scrape = scrape;
	return 0;
}

void scrape_close(struct scrape *scrape)
{
	if (!scrape)
		return;
	struct event *const events[] = { scrape->on_local, scrape->on_tcp, scrape->window };
	while (scrape->visitors)
		leave(scrape->visitors);
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		if (events[i])
			event_free(events[i]);
	forget_latest(scrape);
	unix_socket_close(&scrape->local);
	if (scrape->tcp >= 0)
		close(scrape->tcp);
	free(scrape->path);
	free(scrape);
}

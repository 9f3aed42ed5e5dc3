/* SPDX-License-Identifier: MIT */
#include "daemon/smbgate/tcp.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LENGTH_LEN 4          /* a zero byte, and three with the length */
#define LOW_WATER  (1u << 18) /* queued bytes at which `drained` is called */
#define READ_MOST  (1u << 18) /* bytes that are kept of a message that has begun */

struct tcp_side {
	const struct tcp_ops *ops;
	void *ctx;
	struct bufferevent *bev;
	bool connecting, paused, finishing, ended;
	size_t len;     /* of the message that comes */
	uint8_t *bytes; /* where it goes; NULL: none has begun */
	size_t have;
	bool waits; /* for room */
};

static void end(struct tcp_side *side, enum tcp_end end, int error)
{
	if (side->ended)
		return;
	side->ended = true;
	bufferevent_disable(side->bev, EV_READ | EV_WRITE);
	side->ops->ended(side->ctx, end, error);
}

/* ---- reading */

/* The length of the next message. @return false: it is not there yet, or cannot be */
static bool begin_message(struct tcp_side *side, struct evbuffer *in)
{
	uint8_t length[LENGTH_LEN];
	if (!side->waits) {
		if (evbuffer_get_length(in) < LENGTH_LEN)
			return false;
		evbuffer_remove(in, length, sizeof(length));
		side->len = (size_t)length[1] << 16 | (size_t)length[2] << 8 | length[3];
		if (length[0] != 0 || side->len == 0 || side->len > TCP_MESSAGE_MOST) {
			end(side, TCP_END_BAD_DATA, EBADMSG);
			return false;
		}
	}
	side->have = 0;
	side->bytes = side->ops->room(side->ctx, side->len);
	side->waits = !side->bytes;
	if (side->waits)
		tcp_side_pause(side);
	return !side->waits;
}

/* @return whether a whole message was told */
static bool read_message(struct tcp_side *side, struct evbuffer *in)
{
	if (!side->bytes && !begin_message(side, in))
		return false;
	int n = evbuffer_remove(in, side->bytes + side->have, side->len - side->have);
	if (n > 0)
		side->have += (size_t)n;
	if (side->have < side->len)
		return false;
	side->bytes = NULL;
	side->ops->message(side->ctx, side->len);
	return true;
}

static void on_read(struct bufferevent *bev, void *arg)
{
	struct tcp_side *side = arg;
	struct evbuffer *in = bufferevent_get_input(bev);
	while (!side->paused && !side->ended && read_message(side, in))
		;
}

void tcp_side_pause(struct tcp_side *side)
{
	side->paused = true;
	bufferevent_disable(side->bev, EV_READ);
}

void tcp_side_resume(struct tcp_side *side)
{
	if (side->ended || side->finishing || !side->paused)
		return;
	side->paused = false;
	bufferevent_enable(side->bev, EV_READ);
	/* What has come already tells of itself no more. */
	bufferevent_trigger(side->bev, EV_READ,
			    BEV_TRIG_IGNORE_WATERMARKS | BEV_TRIG_DEFER_CALLBACKS);
}

/* ---- writing */

int tcp_side_begin(struct tcp_side *side, size_t len)
{
	if (len > TCP_MESSAGE_MOST)
		return -EMSGSIZE;
	const uint8_t length[LENGTH_LEN] = { 0, (uint8_t)(len >> 16), (uint8_t)(len >> 8),
					     (uint8_t)len };
	return tcp_side_add(side, length, sizeof(length));
}

int tcp_side_add(struct tcp_side *side, const void *bytes, size_t len)
{
	return bufferevent_write(side->bev, bytes, len) ? -ENOMEM : 0;
}

struct done {
	void (*fn)(void *arg);
	void *arg;
};

static void on_done(const void *bytes, size_t len, void *arg)
{
	const struct done done = *(struct done *)arg;
	(void)bytes;
	(void)len;
	free(arg);
	done.fn(done.arg);
}

int tcp_side_add_memory(struct tcp_side *side, const void *bytes, size_t len, void (*fn)(void *arg),
			void *arg)
{
	struct done *done = malloc(sizeof(*done));
	if (done) {
		*done = (struct done){ fn, arg };
		if (evbuffer_add_reference(bufferevent_get_output(side->bev), bytes, len, on_done,
					   done) == 0)
			return 0;
		free(done);
	}
	fn(arg);
	return -ENOMEM;
}

size_t tcp_side_queued(const struct tcp_side *side)
{
	return evbuffer_get_length(bufferevent_get_output(side->bev));
}

static void on_write(struct bufferevent *bev, void *arg)
{
	struct tcp_side *side = arg;
	if (side->ended)
		return;
	if (side->finishing && evbuffer_get_length(bufferevent_get_output(bev)) == 0)
		end(side, TCP_END_CLOSED, 0);
	else
		side->ops->drained(side->ctx);
}

void tcp_side_finish(struct tcp_side *side)
{
	side->finishing = true;
	tcp_side_pause(side);
	bufferevent_setwatermark(side->bev, EV_WRITE, 0, 0);
	bufferevent_trigger(side->bev, EV_WRITE, BEV_TRIG_DEFER_CALLBACKS);
}

/* ---- life */

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct tcp_side *side = arg;
	const int error = EVUTIL_SOCKET_ERROR();
	(void)bev;
	if (side->ended)
		return;
	if (what & BEV_EVENT_CONNECTED) {
		side->connecting = false;
		bufferevent_set_timeouts(side->bev, NULL, NULL);
		side->ops->connected(side->ctx);
	} else if (what & BEV_EVENT_TIMEOUT) {
		end(side, TCP_END_REFUSED, ETIMEDOUT);
	} else if (what & BEV_EVENT_EOF) {
		end(side, TCP_END_CLOSED, 0);
	} else if (what & BEV_EVENT_ERROR) {
		end(side, side->connecting ? TCP_END_REFUSED : TCP_END_RESET, error);
	}
}

static int side_new(struct event_base *base, int fd, const struct tcp_ops *ops, void *ctx,
		    struct tcp_side **ret_side)
{
	struct tcp_side *side = calloc(1, sizeof(*side));
	if (!side)
		return -ENOMEM;
	*side = (struct tcp_side){ .ops = ops, .ctx = ctx, .paused = true };
	/* Deferred: no callback inside a call of the user. */
	side->bev =
		bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
	if (!side->bev) {
		free(side);
		return -ENOMEM;
	}
	bufferevent_setcb(side->bev, on_read, on_write, on_event, side);
	bufferevent_setwatermark(side->bev, EV_READ, 0, READ_MOST);
	bufferevent_setwatermark(side->bev, EV_WRITE, LOW_WATER, 0);
	bufferevent_disable(side->bev, EV_READ);
	bufferevent_enable(side->bev, EV_WRITE);
	*ret_side = side;
	return 0;
}

/* Small answers leave at once, and a peer whose host has died is noticed. */
static void set_options(int fd)
{
	const int on = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* fails on a Unix socket */
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

int tcp_side_connect(struct event_base *base, const struct sockaddr *addr, socklen_t len,
		     unsigned int timeout_ms, const struct tcp_ops *ops, void *ctx,
		     struct tcp_side **ret_side)
{
	const struct timeval timeout = { .tv_sec = timeout_ms / 1000,
					 .tv_usec = timeout_ms % 1000 * 1000 };
	struct tcp_side *side;
	int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	int error = side_new(base, fd, ops, ctx, &side);
	if (error) {
		close(fd);
		return error;
	}
	set_options(fd);
	side->connecting = true;
	bufferevent_set_timeouts(side->bev, NULL, &timeout);
	/* An error comes by on_event(). */
	bufferevent_socket_connect(side->bev, addr, (int)len);
	*ret_side = side;
	return 0;
}

int tcp_side_adopt(struct event_base *base, int fd, const struct tcp_ops *ops, void *ctx,
		   struct tcp_side **ret_side)
{
	int error = evutil_make_socket_nonblocking(fd) < 0 ? -errno : 0;
	if (!error)
		error = side_new(base, fd, ops, ctx, ret_side);
	if (error) {
		close(fd);
		return error;
	}
	set_options(fd);
	return 0;
}

void tcp_side_free(struct tcp_side *side, bool reset)
{
	const struct linger hard = { .l_onoff = 1 };
	if (!side)
		return;
	if (reset || tcp_side_queued(side) > 0)
		setsockopt(bufferevent_getfd(side->bev), SOL_SOCKET, SO_LINGER, &hard,
			   sizeof(hard));
	/* The memory that was queued is given back at once: its owner may go now. */
	evbuffer_drain(bufferevent_get_output(side->bev), tcp_side_queued(side));
	bufferevent_free(side->bev);
	free(side);
}

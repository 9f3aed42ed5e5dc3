/* SPDX-License-Identifier: MIT */
/*
 * A socket with events of its own, not a bufferevent: long messages are read straight into
 * registered memory, and memory that was queued is given back when the side is freed, not later.
 */
#include "daemon/smbgate/tcp.h"

#include <errno.h>
#include <event2/buffer.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LENGTH_LEN  4 /* a zero byte, and three with the length */
#define STAGE_LEN   16384
#define READ_BUDGET (1u << 20) /* bytes that are read before others get their turn */

struct tcp_side {
	const struct tcp_ops *ops;
	void *ctx;
	int fd;
	struct event *readable, *writable;
	struct evbuffer *out;
	bool connecting, paused, finishing, ended;

	/* What was read and belongs to no message's memory yet. */
	uint8_t stage[STAGE_LEN];
	size_t staged, taken;
	size_t len;     /* of the message that comes; 0: none has begun */
	uint8_t *bytes; /* where it goes; NULL: there is no room for it yet */
	size_t have;
};

static void end(struct tcp_side *side, enum tcp_end end, int error)
{
	if (side->ended)
		return;
	side->ended = true;
	event_del(side->readable);
	event_del(side->writable);
	side->ops->ended(side->ctx, end, error);
}

/* ---- reading */

/* Read into `to`. @return bytes; 0: nothing there now, or the end was told */
static size_t read_some(struct tcp_side *side, uint8_t *to, size_t len)
{
	ssize_t n = recv(side->fd, to, len, 0);
	if (n > 0)
		return (size_t)n;
	if (n == 0)
		end(side, TCP_END_CLOSED, 0);
	else if (errno != EAGAIN && errno != EINTR)
		end(side, TCP_END_RESET, errno);
	return 0;
}

static size_t left_in_stage(const struct tcp_side *side)
{
	return side->staged - side->taken;
}

/* Fill the stage. @return false: nothing there now */
static bool fill_stage(struct tcp_side *side)
{
	memmove(side->stage, side->stage + side->taken, left_in_stage(side));
	side->staged -= side->taken;
	side->taken = 0;
	size_t n = read_some(side, side->stage + side->staged, STAGE_LEN - side->staged);
	side->staged += n;
	return n > 0;
}

/* Learn the length of the next message. @return false: it is not there yet, or cannot be */
static bool begin_message(struct tcp_side *side)
{
	while (left_in_stage(side) < LENGTH_LEN) {
		if (!fill_stage(side))
			return false;
	}
	const uint8_t *length = side->stage + side->taken;
	side->taken += LENGTH_LEN;
	side->len = (size_t)length[1] << 16 | (size_t)length[2] << 8 | length[3];
	side->have = 0;
	if (length[0] == 0 && side->len > 0 && side->len <= TCP_MESSAGE_MOST)
		return true;
	end(side, TCP_END_BAD_DATA, EBADMSG);
	return false;
}

/* Bytes of the message that are in the stage; then straight from the socket. @return false: nothing
 * there now */
static bool read_body(struct tcp_side *side)
{
	size_t left = side->len - side->have;
	size_t n = left_in_stage(side) < left ? left_in_stage(side) : left;
	if (n > 0) {
		memcpy(side->bytes + side->have, side->stage + side->taken, n);
		side->taken += n;
	} else {
		n = read_some(side, side->bytes + side->have, left);
	}
	side->have += n;
	return n > 0;
}

/* Go on with the message that comes. @return bytes of a message that was told; 0: nothing more can
 * be done now */
static size_t read_message(struct tcp_side *side)
{
	if (side->len == 0 && !begin_message(side))
		return 0;
	if (!side->bytes) {
		side->bytes = side->ops->room(side->ctx, side->len);
		if (!side->bytes)
			tcp_side_pause(side);
	}
	while (side->bytes && side->have < side->len) {
		if (!read_body(side))
			return 0;
	}
	if (!side->bytes)
		return 0;
	const size_t len = side->len;
	side->len = 0;
	side->bytes = NULL;
	side->ops->message(side->ctx, len);
	return len;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct tcp_side *side = arg;
	size_t budget = READ_BUDGET;
	(void)fd;
	(void)what;
	while (!side->paused && !side->ended) {
		size_t n = read_message(side);
		if (n == 0)
			return;
		if (n >= budget) { /* the stage may hold more, which no event would tell */
			event_active(side->readable, EV_READ, 0);
			return;
		}
		budget -= n;
	}
}

void tcp_side_pause(struct tcp_side *side)
{
	side->paused = true;
	event_del(side->readable);
}

void tcp_side_resume(struct tcp_side *side)
{
	if (side->ended || side->finishing || side->connecting || !side->paused)
		return;
	side->paused = false;
	event_add(side->readable, NULL);
	event_active(side->readable, EV_READ, 0); /* for what is in the stage */
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

/* Something was queued: it leaves from the event loop. */
static void queued(struct tcp_side *side)
{
	if (!side->ended && !side->connecting)
		event_add(side->writable, NULL);
}

int tcp_side_add(struct tcp_side *side, const void *bytes, size_t len)
{
	if (evbuffer_add(side->out, bytes, len))
		return -ENOMEM;
	queued(side);
	return 0;
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
	if (done)
		*done = (struct done){ fn, arg };
	if (!done || evbuffer_add_reference(side->out, bytes, len, on_done, done)) {
		free(done);
		fn(arg);
		return -ENOMEM;
	}
	queued(side);
	return 0;
}

size_t tcp_side_queued(const struct tcp_side *side)
{
	return evbuffer_get_length(side->out);
}

static void write_some(struct tcp_side *side)
{
	if (tcp_side_queued(side) > 0 && evbuffer_write(side->out, side->fd) < 0 &&
	    errno != EAGAIN && errno != EINTR) {
		end(side, TCP_END_RESET, errno);
		return;
	}
	if (tcp_side_queued(side) > 0)
		event_add(side->writable, NULL);
	else if (side->finishing)
		end(side, TCP_END_CLOSED, 0);
	if (!side->ended)
		side->ops->drained(side->ctx);
}

static void connect_done(struct tcp_side *side, bool timeout)
{
	int error = 0;
	socklen_t len = sizeof(error);
	if (timeout)
		error = ETIMEDOUT;
	else if (getsockopt(side->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	if (error) {
		end(side, TCP_END_REFUSED, error);
		return;
	}
	side->connecting = false;
	if (tcp_side_queued(side) > 0)
		event_add(side->writable, NULL);
	side->ops->connected(side->ctx);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct tcp_side *side = arg;
	(void)fd;
	if (side->connecting)
		connect_done(side, what & EV_TIMEOUT);
	else
		write_some(side);
}

void tcp_side_finish(struct tcp_side *side)
{
	if (side->ended)
		return;
	side->finishing = true;
	tcp_side_pause(side);
	event_active(side->writable, EV_WRITE, 0);
}

/* ---- life */

static int side_new(struct event_base *base, int fd, const struct tcp_ops *ops, void *ctx,
		    struct tcp_side **ret_side)
{
	struct tcp_side *side = calloc(1, sizeof(*side));
	if (!side) {
		close(fd);
		return -ENOMEM;
	}
	side->ops = ops;
	side->ctx = ctx;
	side->fd = fd;
	side->paused = true;
	side->out = evbuffer_new();
	side->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, side);
	side->writable = event_new(base, fd, EV_WRITE, on_writable, side);
	if (!side->out || !side->readable || !side->writable) {
		tcp_side_free(side, true);
		return -ENOMEM;
	}
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
	int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	set_options(fd);
	/* A Unix socket whose server is busy gives EAGAIN, and cannot be waited for. */
	if (connect(fd, addr, len) < 0 && errno != EINPROGRESS) {
		int error = -errno;
		close(fd);
		return error;
	}
	int error = side_new(base, fd, ops, ctx, ret_side);
	if (error)
		return error;
	(*ret_side)->connecting = true;
	event_add((*ret_side)->writable, &timeout);
	return 0;
}

int tcp_side_adopt(struct event_base *base, int fd, const struct tcp_ops *ops, void *ctx,
		   struct tcp_side **ret_side)
{
	if (evutil_make_socket_nonblocking(fd) < 0) {
		close(fd);
		return -EINVAL;
	}
	set_options(fd);
	return side_new(base, fd, ops, ctx, ret_side);
}

void tcp_side_free(struct tcp_side *side, bool reset)
{
	const struct linger hard = { .l_onoff = 1 };
	if (!side)
		return;
	/* What was queued a moment ago had no turn to leave: it does if the socket takes it. */
	if (!reset && !side->ended && !side->connecting)
		evbuffer_write(side->out, side->fd);
	if (reset || (side->out && tcp_side_queued(side) > 0))
		setsockopt(side->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	if (side->readable)
		event_free(side->readable);
	if (side->writable)
		event_free(side->writable);
	if (side->out)
		evbuffer_free(side->out);
	close(side->fd);
	free(side);
}

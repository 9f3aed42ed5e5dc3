/* SPDX-License-Identifier: MIT */
#include "daemon/rendezvous/clc_stream.h"

#include <errno.h>
#include <event2/event.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "daemon/rendezvous/spoken.h"
#include "proto/smcr/clc.h"

#define OUT_MAX 4096

struct clc_stream {
	int fd;
	const struct clc_stream_callbacks *callbacks;
	void *ctx;
	enum clc_stream_mode mode;
	bool fin_seen;
	bool reset_seen;
	bool *ret_freed; /* while callbacks run: where to note that the stream was freed */
	struct event *read_event;
	struct event *write_event;
	struct event *broken_event; /* tells of a failed send from the event loop */
	int send_error;
	int lowat;        /* the present SO_RCVLOWAT */
	int lowat_before; /* the program's SO_RCVLOWAT */
	struct spoken spoken;
	size_t out_len;
	uint8_t out[OUT_MAX];
};

/* What is at the head of the receive queue. */
enum head {
	HEAD_MESSAGE, /* a message, which was taken */
	HEAD_NOT_YET,
	HEAD_GREW, /* bytes came meanwhile: look again */
	HEAD_GARBAGE,
	HEAD_FIN, /* FIN, perhaps behind a part of a message */
	HEAD_BROKEN,
};

static void set_lowat(struct clc_stream *stream, int lowat)
{
	if (stream->lowat == lowat)
		return;
	/* Cannot fail on TCP. If it did, the only effect would be more wake-ups. */
	if (!setsockopt(stream->fd, SOL_SOCKET, SO_RCVLOWAT, &lowat, sizeof(lowat)))
		stream->lowat = lowat;
}

/** The errno that broke the connection; reading it clears it in the socket. */
static int take_error(int fd)
{
	int error = 0;
	socklen_t len = sizeof(error);
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		return errno;
	return error ? error : ECONNRESET;
}

static bool is_closed(int fd)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);
	memset(&info, 0, sizeof(info));
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
		return true;
	return info.tcpi_state == TCP_CLOSE;
}

static bool has_fin(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };
	return poll(&p, 1, 0) > 0 && (p.revents & POLLRDHUP);
}

/** The connection is broken: the socket has an error, or had one that another process has read
 * already. */
static bool is_broken(int fd)
{
	struct pollfd p = { .fd = fd };
	if (poll(&p, 1, 0) <= 0)
		return false;
	return (p.revents & (POLLERR | POLLNVAL)) || ((p.revents & POLLHUP) && is_closed(fd));
}

/** How many bytes wait to be read. */
static size_t queued(int fd)
{
	int n = 0;
	return ioctl(fd, SIOCINQ, &n) < 0 || n < 0 ? 0 : (size_t)n;
}

/**
 * Fewer than `bytes` were in the queue. Sleep until there are as many, unless none will follow. FIN
 * and RST still wake the stream, and so does setting the mark if bytes came meanwhile.
 */
static enum head wait_for(struct clc_stream *stream, size_t bytes)
{
	bool broken = is_broken(stream->fd);
	if (broken || has_fin(stream->fd)) {
		if (queued(stream->fd) >= bytes)
			return HEAD_GREW;
		return broken ? HEAD_BROKEN : HEAD_FIN;
	}
	set_lowat(stream, (int)bytes);
	return HEAD_NOT_YET;
}

/**
 * Take the message at the head of the queue if it is whole; nothing is taken otherwise (CLC-15).
 * A wrong eye catcher is noticed from its first byte on, so that an application that sends less
 * than a header and then waits does not have to wait for a timer.
 */
static enum head take_message(struct clc_stream *stream, uint8_t *buf, size_t *ret_len)
{
	static const uint8_t eye[] = { SMCR_EYE_CATCHER >> 24, SMCR_EYE_CATCHER >> 16 & 0xFF,
				       SMCR_EYE_CATCHER >> 8 & 0xFF, SMCR_EYE_CATCHER & 0xFF };
	ssize_t n = recv(stream->fd, buf, SMCR_CLC_MAX_LEN, MSG_PEEK | MSG_DONTWAIT);
	if (n == 0)
		return HEAD_FIN;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? HEAD_NOT_YET : HEAD_BROKEN;
	if (memcmp(buf, eye, (size_t)n < sizeof(eye) ? (size_t)n : sizeof(eye)) != 0)
		return HEAD_GARBAGE;
	if (n < SMCR_CLC_HEADER_LEN)
		return wait_for(stream, SMCR_CLC_HEADER_LEN);
	int length = smcr_clc_peek_length(buf, (size_t)n);
	if (length < SMCR_CLC_HEADER_LEN || length > SMCR_CLC_MAX_LEN)
		return HEAD_GARBAGE;
	if (n < length)
		return wait_for(stream, (size_t)length);
	if (!stream->callbacks->wanted(stream->ctx, buf, (size_t)length))
		return HEAD_GARBAGE;
	n = recv(stream->fd, buf, (size_t)length, MSG_DONTWAIT);
	if (n != length)
		return HEAD_BROKEN;
	spoken_hear(&stream->spoken, (size_t)n);
	set_lowat(stream, 1);
	*ret_len = (size_t)length;
	return HEAD_MESSAGE;
}

static void report_reset(struct clc_stream *stream, int error)
{
	if (stream->reset_seen)
		return;
	stream->reset_seen = true;
	clc_stream_set_mode(stream, CLC_STREAM_OFF);
	stream->out_len = 0;
	event_del(stream->write_event);
	stream->callbacks->tcp_event(stream->ctx, SMCR_TCP_RESET, error);
}

static void report_garbage(struct clc_stream *stream)
{
	clc_stream_set_mode(stream, CLC_STREAM_OFF);
	stream->callbacks->garbage(stream->ctx);
}

/** The peer has sent FIN, and perhaps RST after it. */
static void report_fin(struct clc_stream *stream)
{
	bool *freed = stream->ret_freed;
	if (!stream->fin_seen) {
		stream->fin_seen = true;
		stream->callbacks->tcp_event(stream->ctx, SMCR_TCP_FIN, 0);
	}
	if (!*freed && stream->mode != CLC_STREAM_OFF && is_broken(stream->fd))
		report_reset(stream, take_error(stream->fd));
}

/* Another process has used the socket: the bytes here may be only a part of what the peer has sent,
 * or answer something that smcrd has not sent. */
static void report_message(struct clc_stream *stream, const uint8_t *msg, size_t len)
{
	if (spoken_alone(&stream->spoken))
		stream->callbacks->message(stream->ctx, msg, len);
	else
		report_reset(stream, CLC_STREAM_MEDDLED);
}

static void read_messages(struct clc_stream *stream)
{
	bool *freed = stream->ret_freed;
	while (!*freed && stream->mode == CLC_STREAM_CLC) {
		uint8_t buf[SMCR_CLC_MAX_LEN];
		size_t len = 0;
		switch (take_message(stream, buf, &len)) {
		case HEAD_MESSAGE: report_message(stream, buf, len); break;
		case HEAD_NOT_YET: return;
		case HEAD_GREW: break;
		case HEAD_GARBAGE: report_garbage(stream); return;
		case HEAD_FIN: report_fin(stream); return;
		case HEAD_BROKEN: report_reset(stream, take_error(stream->fd)); return;
		}
	}
}

static void watch(struct clc_stream *stream)
{
	uint8_t byte;
	ssize_t n = recv(stream->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	if (n > 0)
		report_garbage(stream);
	else if (n == 0)
		report_fin(stream);
	else if (errno != EAGAIN && errno != EINTR)
		report_reset(stream, errno);
}

/* Repeat as long as callbacks change the mode. */
static void look(struct clc_stream *stream)
{
	bool *freed = stream->ret_freed;
	enum clc_stream_mode mode = CLC_STREAM_OFF;
	while (!*freed && stream->mode != mode) {
		mode = stream->mode;
		if (mode == CLC_STREAM_CLC)
			read_messages(stream);
		else if (mode == CLC_STREAM_WATCH)
			watch(stream);
	}
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct clc_stream *stream = arg;
	bool freed = false;
	(void)fd;
	(void)what;
	stream->ret_freed = &freed;
	look(stream);
	if (!freed)
		stream->ret_freed = NULL;
}

static void on_broken(evutil_socket_t fd, short what, void *arg)
{
	struct clc_stream *stream = arg;
	(void)fd;
	(void)what;
	report_reset(stream, stream->send_error);
}

static void send_failed(struct clc_stream *stream, int error)
{
	stream->out_len = 0;
	event_del(stream->write_event);
	stream->send_error = error;
	event_active(stream->broken_event, EV_TIMEOUT, 0);
}

/** @return bytes that the kernel took, or -1 when the connection is broken */
static ssize_t send_some(struct clc_stream *stream, const uint8_t *buf, size_t len)
{
	ssize_t n = send(stream->fd, buf, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n >= 0)
		return n;
	if (errno == EAGAIN || errno == EINTR)
		return 0;
	send_failed(stream, errno);
	return -1;
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct clc_stream *stream = arg;
	(void)fd;
	(void)what;
	ssize_t n = send_some(stream, stream->out, stream->out_len);
	if (n <= 0)
		return;
	stream->out_len -= (size_t)n;
	memmove(stream->out, stream->out + n, stream->out_len);
	if (stream->out_len)
		return;
	event_del(stream->write_event);
	if (stream->callbacks->flushed)
		stream->callbacks->flushed(stream->ctx);
}

int clc_stream_send(struct clc_stream *stream, const uint8_t *msg, size_t len)
{
	if (stream->reset_seen || stream->send_error)
		return 0;
	if (len > sizeof(stream->out) - stream->out_len)
		return -ENOBUFS;
	int r = spoken_alone(&stream->spoken) ? spoken_say(&stream->spoken, msg, len)
					      : -CLC_STREAM_MEDDLED;
	if (r == -ENOBUFS)
		return r;
	if (r < 0) {
		send_failed(stream, -r);
		return 0;
	}
	if (!stream->out_len) {
		ssize_t n = send_some(stream, msg, len);
		if (n < 0 || (size_t)n == len)
			return 0;
		msg += n;
		len -= (size_t)n;
	}
	memcpy(stream->out + stream->out_len, msg, len);
	stream->out_len += len;
	if (event_add(stream->write_event, NULL) < 0)
		send_failed(stream, ENOMEM);
	return 0;
}

bool clc_stream_broken(const struct clc_stream *stream)
{
	return stream->reset_seen || stream->send_error;
}

size_t clc_stream_unsent(const struct clc_stream *stream)
{
	return stream->out_len;
}

enum clc_stream_mode clc_stream_mode(const struct clc_stream *stream)
{
	return stream->mode;
}

int clc_stream_set_mode(struct clc_stream *stream, enum clc_stream_mode mode)
{
	if (mode == CLC_STREAM_OFF || stream->reset_seen) {
		stream->mode = CLC_STREAM_OFF;
		event_del(stream->read_event);
		set_lowat(stream, stream->lowat_before);
		return 0;
	}
	bool was_off = stream->mode == CLC_STREAM_OFF;
	if (was_off && event_add(stream->read_event, NULL) < 0)
		return -ENOMEM;
	stream->mode = mode;
	set_lowat(stream, 1);
	/* Edges that were seen in the old mode do not come again. If the descriptor is added again,
	 * the kernel reports what is there already; and a loop that is reading goes on in the new
	 * mode. */
	if (!was_off && !stream->ret_freed)
		event_active(stream->read_event, EV_READ, 0);
	return 0;
}

static int init_stream(struct clc_stream *stream, struct event_base *base)
{
	socklen_t len = sizeof(stream->lowat);
	if (!(event_base_get_features(base) & EV_FEATURE_ET))
		return -EOPNOTSUPP;
	if (getsockopt(stream->fd, SOL_SOCKET, SO_RCVLOWAT, &stream->lowat, &len) < 0)
		return -errno;
	stream->lowat_before = stream->lowat;
	/* Edge-triggered, because a FIN or an error stays readable forever. */
	stream->read_event =
		event_new(base, stream->fd, EV_READ | EV_ET | EV_PERSIST, on_readable, stream);
	stream->write_event =
		event_new(base, stream->fd, EV_WRITE | EV_ET | EV_PERSIST, on_writable, stream);
	stream->broken_event = event_new(base, -1, 0, on_broken, stream);
	if (!stream->read_event || !stream->write_event || !stream->broken_event)
		return -ENOMEM;
	return 0;
}

int clc_stream_new(struct event_base *base, int fd, const struct clc_stream_callbacks *callbacks,
		   void *ctx, struct clc_stream **ret_stream)
{
	struct clc_stream *stream = calloc(1, sizeof(*stream));
	if (!stream)
		return -ENOMEM;
	stream->fd = fd;
	stream->callbacks = callbacks;
	stream->ctx = ctx;
	spoken_begin(&stream->spoken, fd);
	int r = init_stream(stream, base);
	if (r < 0) {
		clc_stream_free(stream);
		return r;
	}
	*ret_stream = stream;
	return 0;
}

static void free_event(struct event *event)
{
	if (event)
		event_free(event);
}

void clc_stream_free(struct clc_stream *stream)
{
	if (!stream)
		return;
	if (stream->ret_freed)
		*stream->ret_freed = true;
	set_lowat(stream, stream->lowat_before);
	free_event(stream->read_event);
	free_event(stream->write_event);
	free_event(stream->broken_event);
	spoken_end(&stream->spoken);
	free(stream);
}

/* SPDX-License-Identifier: MIT */
#include "lib/preload/send_all.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/param.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#include "lib/preload/data_pieces.h"
#include "lib/preload/data_wait.h"
#include "lib/smcr/next.h"
#include "lib/smcr/pair.h"
#include "lib/smcr/sys.h"

#define KNOWN_FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE | MSG_EOR)

/* The kernel moves no more bytes by one call. */
#define CALL_MAX 0x7FFFF000u

/* poll() does not tell that another thread has called shutdown(): look so often. */
#define LOOK_MS 100

static bool concerns(int fd, size_t len)
{
	const int saved = errno;
	const bool is_long = len > SEND_ALL_PART && pre_pair_is_named(fd);
	errno = saved;
	return is_long;
}

/* Has this side been shut down for writing? A send of nothing tells, and takes no error. */
static bool is_shut(int fd)
{
	struct msghdr nothing = { 0 };
	return sys_sendmsg(fd, &nothing, MSG_DONTWAIT | MSG_NOSIGNAL) == -EPIPE;
}

/* poll() for room for one part, at most so long. @return poll's events; 0: the time is over; or a
 * negative errno */
static int look_for_room(int fd, int ms)
{
	const struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
	short revents = 0;
	int rc = sys_poll_one(fd, POLLOUT, &ts, &revents);
	return rc < 0 ? rc : revents;
}

/* @param quiet  nothing may be sent to find out whether the socket is shut */
static bool room_comes(int fd, int64_t deadline, bool cancellable, bool quiet)
{
	for (;;) {
		if (cancellable)
			pthread_testcancel();
		const int left = data_left_ms(deadline);
		int events = look_for_room(fd, left < 0 || left > LOOK_MS ? LOOK_MS : left);
		if (events != 0)
			return events == POLLOUT;
		if (left == 0 || (!quiet && is_shut(fd)))
			return false;
	}
}

bool send_all_has_room(int fd, int64_t deadline, bool cancellable)
{
	return room_comes(fd, deadline, cancellable, false);
}

/* The end of a call that has sent `sent` bytes before a part failed. A reset is reported now, since
 * the kernel does not report it again. */
static ssize_t ended(size_t sent)
{
	return sent > 0 && errno != ECONNRESET ? (ssize_t)sent : -1;
}

/* ---- send(), sendmsg(), write(), writev() */

struct call {
	int fd;
	enum send_all_way way;
	const struct iovec *iov;
	int count;
	size_t len;
	int flags; /* of send() and sendmsg() */
	int64_t began;
};

/* Only a call that has sent nothing may wait in the kernel, or raise a signal. @return as the
 * kernel; 0: the program has shortened its list of pieces, there are no more bytes */
static ssize_t send_part(const struct call *call, size_t sent)
{
	struct iovec pieces[DATA_PIECES];
	struct msghdr msg = { .msg_iov = pieces };
	const int flags = call->flags | (sent > 0 ? MSG_DONTWAIT | MSG_NOSIGNAL : 0);
	if (data_slice(call->iov, call->count, sent, MIN(call->len - sent, SEND_ALL_PART), pieces,
		       &msg.msg_iovlen) == 0)
		return 0;
	switch (call->way) {
	case SEND_ALL_SEND:
		return pre_next.send(call->fd, pieces[0].iov_base, pieces[0].iov_len, flags);
	case SEND_ALL_WRITE: return pre_next.write(call->fd, pieces[0].iov_base, pieces[0].iov_len);
	case SEND_ALL_WRITEV: return pre_next.writev(call->fd, pieces, (int)msg.msg_iovlen);
	case SEND_ALL_SENDMSG: break;
	}
	return pre_next.sendmsg(call->fd, &msg, flags);
}

static bool is_write(const struct call *call)
{
	return call->way == SEND_ALL_WRITE || call->way == SEND_ALL_WRITEV;
}

static bool await_room(const struct call *call)
{
	const int64_t deadline = data_deadline(call->fd, call->flags, call->began, SO_SNDTIMEO);
	return room_comes(call->fd, deadline, true, is_write(call));
}

/* write() cannot be told not to wait. It does not, where the socket has room. */
static ssize_t send_parts(const struct call *call)
{
	size_t sent = 0;
	while (sent < call->len) {
		if (is_write(call) && sent > 0 && !await_room(call))
			break;
		ssize_t n = send_part(call, sent);
		if (n == 0)
			break;
		if (n > 0)
			sent += (size_t)n;
		else if (sent == 0 || errno != EAGAIN)
			return ended(sent);
		else if (!is_write(call) && !await_room(call))
			break;
	}
	return (ssize_t)sent;
}

bool send_all(int fd, enum send_all_way way, const struct iovec *iov, int count, int flags,
	      ssize_t *ret)
{
	const int saved = errno;
	struct call call = { .fd = fd,
			     .way = way,
			     .iov = iov,
			     .count = count,
			     .len = MIN(data_length(iov, count), CALL_MAX),
			     .flags = flags };
	if (flags & ~KNOWN_FLAGS || !concerns(fd, call.len))
		return false;
	/* Not before: where seccomp is strict, a program that reads the clock is killed. */
	call.began = sys_now_ms();
	*ret = send_parts(&call);
	if (*ret >= 0)
		errno = saved;
	return true;
}

/* ---- sendfile() */

/* sendfile() cannot be told not to wait. It does not, where the socket has room. */
static ssize_t send_file_parts(int out, int in, off_t *offset, size_t len)
{
	const int64_t deadline = data_deadline(out, 0, sys_now_ms(), SO_SNDTIMEO);
	size_t sent = 0;
	while (sent < len && (sent == 0 || send_all_has_room(out, deadline, false))) {
		ssize_t n = pre_next.sendfile(out, in, offset, MIN(len - sent, SEND_ALL_PART));
		if (n < 0)
			return ended(sent);
		if (n == 0)
			break;
		sent += (size_t)n;
	}
	return (ssize_t)sent;
}

bool send_all_file(int out, int in, off_t *offset, size_t len, ssize_t *ret)
{
	const int saved = errno;
	if (len > SSIZE_MAX || !concerns(out, len))
		return false;
	*ret = send_file_parts(out, in, offset, MIN(len, CALL_MAX));
	if (*ret >= 0)
		errno = saved;
	return true;
}

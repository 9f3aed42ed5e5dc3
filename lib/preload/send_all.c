/* SPDX-License-Identifier: MIT */
#include "lib/preload/send_all.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/param.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#include "lib/preload/data.h"
#include "lib/smcr/next.h"
#include "lib/smcr/pair.h"
#include "lib/smcr/sys.h"

#define KNOWN_FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE | MSG_EOR)

/* The kernel moves no more bytes by one call. */
#define CALL_MAX 0x7FFFF000u

/* poll() does not tell that another thread has called shutdown(): look so often. */
#define LOOK_MS 100

static bool may_wait(int fd, int flags)
{
	return !(flags & MSG_DONTWAIT) && !data_is_nonblocking(fd);
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

bool send_all_has_room(int fd, int limit_ms, bool cancellable)
{
	for (int left = limit_ms;;) {
		if (cancellable)
			pthread_testcancel();
		int slice = left < 0 || left > LOOK_MS ? LOOK_MS : left;
		int events = look_for_room(fd, slice);
		if (events != 0)
			return events == POLLOUT;
		left -= left < 0 ? 0 : slice;
		if (left == 0 || is_shut(fd))
			return false;
	}
}

/* The end of a call that has sent `sent` bytes before a part failed. A reset is reported now, since
 * the kernel does not report it again. */
static ssize_t ended(size_t sent)
{
	return sent > 0 && errno != ECONNRESET ? (ssize_t)sent : -1;
}

static ssize_t send_part(int fd, const struct iovec *iov, int count, size_t sent, size_t len,
			 int flags)
{
	struct iovec pieces[DATA_PIECES];
	struct msghdr msg = { .msg_iov = pieces };
	data_slice(iov, count, sent, MIN(len - sent, SEND_ALL_PART), pieces, &msg.msg_iovlen);
	/* Only a call that has sent nothing may wait in the kernel, or raise a signal. */
	if (sent > 0)
		flags |= MSG_DONTWAIT | MSG_NOSIGNAL;
	return pre_next.sendmsg(fd, &msg, flags);
}

static ssize_t send_parts(int fd, const struct iovec *iov, int count, size_t len, int flags)
{
	size_t sent = 0;
	while (sent < len) {
		ssize_t n = send_part(fd, iov, count, sent, len, flags);
		if (n > 0)
			sent += (size_t)n;
		else if (n == 0 || sent == 0 || errno != EAGAIN)
			return ended(sent);
		else if (!may_wait(fd, flags) ||
			 !send_all_has_room(fd, data_send_limit_ms(fd), true))
			break;
	}
	return (ssize_t)sent;
}

bool send_all(int fd, const struct iovec *iov, int count, int flags, ssize_t *ret)
{
	const int saved = errno;
	const size_t len = MIN(data_length(iov, count), CALL_MAX);
	if (len <= SEND_ALL_PART || flags & ~KNOWN_FLAGS || !pre_pair_is_named(fd)) {
		errno = saved;
		return false;
	}
	*ret = send_parts(fd, iov, count, len, flags);
	if (*ret >= 0)
		errno = saved;
	return true;
}

/* sendfile() cannot be told not to wait. It does not, where the socket has room. */
static ssize_t send_file_parts(int out, int in, off_t *offset, size_t len)
{
	const int limit_ms = may_wait(out, 0) ? data_send_limit_ms(out) : 0;
	size_t sent = 0;
	while (sent < len && (sent == 0 || send_all_has_room(out, limit_ms, false))) {
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
	if (len <= SEND_ALL_PART || len > SSIZE_MAX || !pre_pair_is_named(out)) {
		errno = saved;
		return false;
	}
	*ret = send_file_parts(out, in, offset, MIN(len, CALL_MAX));
	if (*ret >= 0)
		errno = saved;
	return true;
}

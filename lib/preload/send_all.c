/* SPDX-License-Identifier: MIT */
#include "lib/preload/send_all.h"

#include <errno.h>
#include <poll.h>
#include <sys/param.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#include "lib/preload/data.h"
#include "lib/smcr/next.h"
#include "lib/smcr/pair.h"

/* What the kernel puts into one buffer of a Unix socket whose send buffer is as large as a pair's.
 */
#define PART 32768

#define KNOWN_FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE | MSG_EOR)

/* @return false: the call ends with the bytes it has, because of an error, which the next call
 * gets, a signal, SO_SNDTIMEO, or because it may not wait */
static bool has_room(int fd, bool waits)
{
	struct pollfd pfd = { .fd = fd, .events = POLLOUT };
	return poll(&pfd, 1, waits ? data_send_limit_ms(fd) : 0) > 0 && pfd.revents == POLLOUT;
}

static bool may_wait(int fd, int flags)
{
	return !(flags & MSG_DONTWAIT) && !data_is_nonblocking(fd);
}

/* The end of a call that has sent `sent` bytes before a part failed. A reset is reported now, since
 * the kernel does not report it again. */
static ssize_t ended(size_t sent)
{
	return sent > 0 && errno != ECONNRESET ? (ssize_t)sent : -1;
}

static ssize_t send_part(int fd, const struct iovec *iov, int count, size_t sent, int flags)
{
	struct iovec pieces[DATA_PIECES];
	struct msghdr msg = { .msg_iov = pieces };
	data_slice(iov, count, sent, PART, pieces, &msg.msg_iovlen);
	/* Only a call that has sent nothing may wait in the kernel, or raise a signal. */
	if (sent > 0)
		flags |= MSG_DONTWAIT | MSG_NOSIGNAL;
	return pre_next.sendmsg(fd, &msg, flags);
}

static ssize_t send_parts(int fd, const struct iovec *iov, int count, size_t len, int flags)
{
	size_t sent = 0;
	while (sent < len) {
		ssize_t n = send_part(fd, iov, count, sent, flags);
		if (n > 0)
			sent += (size_t)n;
		else if (n == 0 || sent == 0 || errno != EAGAIN)
			return ended(sent);
		else if (!may_wait(fd, flags) || !has_room(fd, true))
			break;
	}
	return (ssize_t)sent;
}

bool send_all(int fd, const struct iovec *iov, int count, int flags, ssize_t *ret)
{
	const int saved = errno;
	const size_t len = data_length(iov, count);
	if (len <= PART || flags & ~KNOWN_FLAGS || !pre_pair_is_named(fd))
		return false;
	*ret = send_parts(fd, iov, count, len, flags);
	if (*ret >= 0)
		errno = saved;
	return true;
}

/* sendfile() cannot be told not to wait. It does not, where the socket has room. */
static ssize_t send_file_parts(int out, int in, off_t *offset, size_t len)
{
	const bool waits = may_wait(out, 0);
	size_t sent = 0;
	while (sent < len && (sent == 0 || has_room(out, waits))) {
		ssize_t n = pre_next.sendfile(out, in, offset, MIN(len - sent, PART));
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
	if (len <= PART || !pre_pair_is_named(out))
		return false;
	*ret = send_file_parts(out, in, offset, len);
	if (*ret >= 0)
		errno = saved;
	return true;
}

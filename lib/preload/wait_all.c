/* SPDX-License-Identifier: MIT */
#include "lib/preload/wait_all.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/param.h>
#include <sys/socket.h>

#include "lib/preload/data_pieces.h"
#include "lib/preload/data_wait.h"
#include "lib/smcr/next.h"
#include "lib/smcr/pair.h"
#include "lib/smcr/sys.h"

/* Without MSG_PEEK: on a Unix socket a peek ends with the bytes that have come, whatever it asks
 * for, and so does not take the error behind them. */
#define BYTES_ONLY (MSG_WAITALL | MSG_DONTWAIT | MSG_NOSIGNAL | MSG_CMSG_CLOEXEC)

_Atomic bool wait_all_low_used;

void wait_all_note_low(const void *value)
{
	int low;
	memcpy(&low, value, sizeof(low));
	if (low != 1 && low != 0)
		atomic_store(&wait_all_low_used, true);
}

static size_t low_mark(int fd)
{
	int low = 1;
	if (atomic_load_explicit(&wait_all_low_used, memory_order_relaxed))
		sys_get_int(fd, SOL_SOCKET, SO_RCVLOWAT, &low);
	return low > 1 ? (size_t)low : 1;
}

/* Wait for the next part. @return false: the call ends with the bytes it has, because of a reset, a
 * signal, the deadline or an urgent byte, as with TCP */
static bool comes_more(int fd, int64_t deadline)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	int at_mark = 0, unread = 0;
	if (poll(&pfd, 1, data_left_ms(deadline)) <= 0)
		return false;
	if (ioctl(fd, SIOCATMARK, &at_mark) == 0 && at_mark)
		return false;
	if (pfd.revents & POLLERR)
		return ioctl(fd, FIONREAD, &unread) == 0 && unread > 0;
	return true;
}

/* A call for more bytes than there are waits in the kernel for as many as SO_RCVLOWAT says, and
 * loses a reset that ends the wait. So no call asks for more; the first one, which may wait, for
 * one byte.
 */
static size_t limit_of(int fd, size_t got)
{
	int there = 0;
	ioctl(fd, FIONREAD, &there);
	return there > 0 ? (size_t)there : got == 0;
}

/* @param low  SO_RCVLOWAT */
static ssize_t receive_parts(int fd, const struct iovec *iov, int count, int flags, size_t low)
{
	const int64_t deadline = data_deadline(fd, flags, sys_now_ms(), SO_RCVTIMEO);
	const size_t len = data_length(iov, count);
	const size_t least = flags & MSG_WAITALL || low > len ? len : low;
	size_t got = 0;
	ssize_t n = 0;
	do {
		struct iovec pieces[DATA_PIECES];
		struct msghdr msg = { .msg_iov = pieces };
		const size_t part = low > 1 ? MIN(len - got, limit_of(fd, got)) : len - got;
		if (part == 0)
			break;
		if (data_slice(iov, count, got, part, pieces, &msg.msg_iovlen) == 0)
			break; /* the program has shortened its list */
		n = pre_next.recvmsg(fd, &msg, flags & ~MSG_WAITALL);
		if (n > 0)
			got += (size_t)n;
	} while (n > 0 && got < least && comes_more(fd, deadline));
	return got > 0 ? (ssize_t)got : n;
}

static bool concerns(int fd, const struct msghdr *msg, int flags, size_t *ret_low)
{
	if (!wait_all_may_concern(flags) || flags & ~BYTES_ONLY || !pre_pair_is_named(fd))
		return false;
	*ret_low = low_mark(fd);
	return (flags & MSG_WAITALL || *ret_low > 1) && msg->msg_iovlen <= INT_MAX &&
	       data_length(msg->msg_iov, (int)msg->msg_iovlen) > 0;
}

bool wait_all_receive(int fd, const struct msghdr *msg, int flags, ssize_t *ret)
{
	const int saved = errno;
	size_t low;
	const bool done = concerns(fd, msg, flags, &low);
	if (done)
		*ret = receive_parts(fd, msg->msg_iov, (int)msg->msg_iovlen, flags, low);
	if (!done || *ret >= 0)
		errno = saved;
	return done;
}

/* SPDX-License-Identifier: MIT */
#include "lib/preload/wait_all.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "lib/preload/data.h"
#include "lib/smcr/next.h"
#include "lib/smcr/pair.h"
#include "lib/smcr/sys.h"

#define BYTES_ONLY (MSG_WAITALL | MSG_DONTWAIT | MSG_NOSIGNAL | MSG_CMSG_CLOEXEC)

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

static ssize_t receive_parts(int fd, const struct iovec *iov, int count, int flags)
{
	const int64_t deadline = data_deadline(fd, flags, sys_now_ms(), SO_RCVTIMEO);
	const size_t len = data_length(iov, count);
	size_t got = 0;
	ssize_t n;
	do {
		struct iovec pieces[DATA_PIECES];
		struct msghdr msg = { .msg_iov = pieces };
		data_slice(iov, count, got, len - got, pieces, &msg.msg_iovlen);
		n = pre_next.recvmsg(fd, &msg, flags & ~MSG_WAITALL);
		if (n > 0)
			got += (size_t)n;
	} while (n > 0 && got < len && comes_more(fd, deadline));
	return got > 0 ? (ssize_t)got : n;
}

bool wait_all_receive(int fd, const struct msghdr *msg, int flags, ssize_t *ret)
{
	const int saved = errno;
	const bool concerns = flags & MSG_WAITALL && !(flags & ~BYTES_ONLY) &&
			      pre_pair_is_named(fd) && msg->msg_iovlen <= INT_MAX &&
			      data_length(msg->msg_iov, (int)msg->msg_iovlen) > 0;
	if (concerns)
		*ret = receive_parts(fd, msg->msg_iov, (int)msg->msg_iovlen, flags);
	if (!concerns || *ret >= 0)
		errno = saved;
	return concerns;
}

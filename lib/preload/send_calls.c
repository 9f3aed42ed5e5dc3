/* SPDX-License-Identifier: MIT */
/* The interposed functions that send (data_calls.h): write(), send() and the like. */
#include <errno.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lib/preload/answers.h"
#include "lib/preload/data.h"
#include "lib/preload/data_calls.h"
#include "lib/preload/passed.h"
#include "lib/preload/send_all.h"
#include "lib/smcr/calls.h"
#include "lib/smcr/holders.h"
#include "lib/smcr/next.h"
#include "lib/smcr/path.h"
#include "lib/smcr/ready.h"
#include "lib/smcr/settings.h"

/* The result of a call on a descriptor that is not known as a pair end, but may be one. */
static ssize_t sent(int fd, ssize_t n)
{
	if (n < 0 && errno == EPIPE)
		answers_send_failed(fd);
	return n;
}

/*
 * TCP reports a reset to the call that comes next; only the calls after that give EPIPE, with
 * SIGPIPE. A pair end gives EPIPE at once. So send() on a pair end asks for no signal, and a call
 * that shall raise one is repeated: the connection is over, so the second call fails as the first.
 *
 * write() cannot be told to raise no signal, and stays write(): a program may have forbidden itself
 * other system calls, as sshd does before it knows its user.
 *
 * @return true: repeat the call as the program has made it
 */
static bool must_repeat(int fd, ssize_t n, int flags)
{
	return n < 0 && errno == EPIPE && !answers_send_failed(fd) && !(flags & MSG_NOSIGNAL);
}

static ssize_t write_to_pair(int fd, const struct iovec *iov)
{
	ssize_t n;
	return send_all(fd, SEND_ALL_WRITE, iov, 1, 0, &n)
		       ? n
		       : pre_next.write(fd, iov->iov_base, iov->iov_len);
}

EXPORT ssize_t write(int fd, const void *buf, size_t len)
{
	struct iovec iov = one(buf, len);
	ssize_t n;
	if (!pre_path_is_pair(fd))
		return sent(fd, pre_next.write(fd, buf, len));
	if (!pre_path_concerns(fd) || !data_send(fd, &iov, 1, 0, &n))
		n = moved(fd, write_to_pair(fd, &iov));
	return sent(fd, n);
}

static ssize_t writev_to_pair(int fd, const struct iovec *iov, int count)
{
	ssize_t n;
	return send_all(fd, SEND_ALL_WRITEV, iov, count, 0, &n) ? n
								: pre_next.writev(fd, iov, count);
}

EXPORT ssize_t writev(int fd, const struct iovec *iov, int count)
{
	ssize_t n;
	if (!pre_path_is_pair(fd))
		return sent(fd, pre_next.writev(fd, iov, count));
	if (!pre_path_concerns(fd) || !data_send(fd, iov, count, 0, &n))
		n = moved(fd, writev_to_pair(fd, iov, count));
	return sent(fd, n);
}

/* @return false: the call fails, errno is set */
static bool may_send(int fd, int *flags)
{
	return !(*flags & MSG_ZEROCOPY) || answers_zerocopy(fd, flags);
}

static ssize_t send_to_pair(int fd, const struct iovec *iov, int flags)
{
	ssize_t n;
	flags |= MSG_NOSIGNAL;
	return send_all(fd, SEND_ALL_SEND, iov, 1, flags, &n)
		       ? n
		       : pre_next.send(fd, iov->iov_base, iov->iov_len, flags);
}

EXPORT ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	struct iovec iov = one(buf, len);
	ssize_t n;
	if (!may_send(fd, &flags))
		return -1;
	if (!pre_path_is_pair(fd))
		return sent(fd, pre_next.send(fd, buf, len, flags));
	if (!pre_path_concerns(fd) || !data_send(fd, &iov, 1, flags, &n))
		n = moved(fd, send_to_pair(fd, &iov, flags));
	return must_repeat(fd, n, flags) ? pre_next.send(fd, buf, len, flags) : n;
}

/* @return false: the call fails, errno is set */
static bool may_open(int fd, int flags)
{
	if (!(flags & MSG_FASTOPEN) || !pre_ready())
		return true;
	int saved = errno;
	int rc = pre_fast_open(fd, pre_settings.require ? PRE_REQUIRE : PRE_PREFER);
	errno = rc < 0 ? -rc : saved;
	return rc == 0;
}

EXPORT ssize_t sendto(int fd, const void *buf, size_t len, int flags, __CONST_SOCKADDR_ARG addr,
		      socklen_t addr_len)
{
	if (!may_open(fd, flags))
		return -1;
	if (!addr.__sockaddr__)
		return send(fd, buf, len, flags);
	if (!may_send(fd, &flags))
		return -1;
	int saved = errno;
	ssize_t n = moved(fd, pre_next.sendto(fd, buf, len, flags, addr.__sockaddr__, addr_len));
	if (n >= 0 || errno != EISCONN || !answers_ignores_address(fd))
		return n;
	errno = saved;
	return send(fd, buf, len, flags);
}

static ssize_t send_message_to_pair(int fd, const struct msghdr *msg, int flags)
{
	ssize_t n;
	flags |= MSG_NOSIGNAL;
	if (is_plain(msg) && msg->msg_iovlen <= INT32_MAX &&
	    send_all(fd, SEND_ALL_SENDMSG, msg->msg_iov, (int)msg->msg_iovlen, flags, &n))
		return n;
	return pre_next.sendmsg(fd, msg, flags);
}

/* Who receives it, perhaps this process, has another descriptor of it. */
static void note_passed(int fd)
{
	pre_holders_set(fd, PRE_HOLDERS_PASSED);
}

/* A socket that is no pair end may pass descriptors. */
static ssize_t send_with_descriptors(int fd, const struct msghdr *msg, int flags)
{
	ssize_t n = pre_next.sendmsg(fd, msg, flags);
	if (n >= 0 && msg && msg->msg_controllen > 0)
		passed_each(msg, note_passed);
	return n;
}

static ssize_t send_message(int fd, const struct msghdr *msg, int flags)
{
	ssize_t n;
	if (!may_send(fd, &flags))
		return -1;
	if (!pre_path_is_pair(fd))
		return sent(fd, send_with_descriptors(fd, msg, flags));
	if (!pre_path_concerns(fd) || !is_plain(msg) || msg->msg_iovlen > INT32_MAX ||
	    !data_send(fd, msg->msg_iov, (int)msg->msg_iovlen, flags, &n))
		n = moved(fd, send_message_to_pair(fd, msg, flags));
	return must_repeat(fd, n, flags) ? pre_next.sendmsg(fd, msg, flags) : n;
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	if (!may_open(fd, flags))
		return -1;
	int saved = errno;
	ssize_t n = send_message(fd, msg, flags);
	if (n >= 0 || errno != EISCONN || !msg->msg_name || !answers_ignores_address(fd))
		return n;
	errno = saved;
	struct msghdr unaddressed = *msg;
	unaddressed.msg_name = NULL;
	unaddressed.msg_namelen = 0;
	return send_message(fd, &unaddressed, flags);
}

static ssize_t send_file_to_pair(int out, int in, off_t *offset, size_t len)
{
	ssize_t n;
	if (answers_send_would_fail(out))
		return -1;
	return send_all_file(out, in, offset, len, &n) ? n
						       : pre_next.sendfile(out, in, offset, len);
}

EXPORT ssize_t sendfile(int out, int in, off_t *offset, size_t len)
{
	ssize_t n;
	if (!pre_path_is_pair(out))
		return sent(out, pre_next.sendfile(out, in, offset, len));
	if (!pre_path_concerns(out) || !data_send_file(out, in, offset, len, &n))
		n = moved(out, send_file_to_pair(out, in, offset, len));
	return sent(out, n);
}

/* ---- other names of these functions in the C library */

_Static_assert(sizeof(off_t) == sizeof(off64_t), "one sendfile() serves both names");

EXPORT ssize_t __write(int fd, const void *buf, size_t len) __attribute__((alias("write")));
EXPORT ssize_t __send(int fd, const void *buf, size_t len, int flags)
	__attribute__((alias("send")));
EXPORT ssize_t sendfile64(int out, int in, off64_t *offset, size_t len)
	__attribute__((alias("sendfile")));

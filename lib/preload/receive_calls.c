/* SPDX-License-Identifier: MIT */
/* The interposed functions that receive (data_calls.h): read(), recv() and the like. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lib/preload/answers.h"
#include "lib/preload/data.h"
#include "lib/preload/data_calls.h"
#include "lib/preload/passed.h"
#include "lib/preload/wait_all.h"
#include "lib/smcr/next.h"
#include "lib/smcr/pair.h"
#include "lib/smcr/path.h"
#include "lib/smcr/readable.h"

/* The result of a call that receives. A stream does not go on behind a reset, though the memory may
 * still have bytes if the daemon was killed. */
static ssize_t received(int fd, ssize_t n)
{
	if (n < 0 && errno == ECONNRESET) {
		pre_path_reads_outside(fd);
		answers_receive_failed(fd);
	}
	return n;
}

static bool is_unusual(int flags)
{
	return flags & (MSG_ERRQUEUE | MSG_TRUNC);
}

/* Receiving where no shared memory is used: any descriptor comes here.
 *
 * read() stays read() where nothing is unusual: a program may have forbidden itself other system
 * calls. */
static ssize_t read_unshared(int fd, void *buf, size_t len)
{
	struct iovec iov = one(buf, len);
	const struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;
	return wait_all_receive(fd, &msg, 0, &n) ? n : pre_next.read(fd, buf, len);
}

EXPORT ssize_t read(int fd, void *buf, size_t len)
{
	struct iovec iov = one(buf, len);
	ssize_t n;
	if (!pre_path_concerns(fd))
		n = read_unshared(fd, buf, len);
	else if (!data_receive(fd, &iov, 1, 0, &n))
		n = moved(fd, read_unshared(fd, buf, len));
	return received(fd, n);
}

static ssize_t readv_unshared(int fd, const struct iovec *iov, int count)
{
	const struct msghdr msg = { .msg_iov = (struct iovec *)(uintptr_t)iov,
				    .msg_iovlen = (size_t)count };
	ssize_t n;
	return count > 0 && wait_all_receive(fd, &msg, 0, &n) ? n : pre_next.readv(fd, iov, count);
}

EXPORT ssize_t readv(int fd, const struct iovec *iov, int count)
{
	ssize_t n;
	if (!pre_path_concerns(fd))
		n = readv_unshared(fd, iov, count);
	else if (!data_receive(fd, iov, count, 0, &n))
		n = moved(fd, readv_unshared(fd, iov, count));
	return received(fd, n);
}

static ssize_t recv_unshared(int fd, void *buf, size_t len, int flags)
{
	struct iovec iov = one(buf, len);
	const struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;
	if (is_unusual(flags) && answers_receive(fd, len, flags, &n))
		return n;
	return wait_all_receive(fd, &msg, flags, &n) ? n : pre_next.recv(fd, buf, len, flags);
}

EXPORT ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	struct iovec iov = one(buf, len);
	ssize_t n;
	if (!pre_path_concerns(fd))
		n = recv_unshared(fd, buf, len, flags);
	else if (!data_receive(fd, &iov, 1, flags, &n))
		n = moved(fd, recv_unshared(fd, buf, len, flags));
	return received(fd, n);
}

static ssize_t recvfrom_unshared(int fd, void *buf, size_t len, int flags, struct sockaddr *addr,
				 socklen_t *addr_len)
{
	struct iovec iov = one(buf, len);
	const struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;
	if (!(is_unusual(flags) && answers_receive(fd, len, flags, &n)) &&
	    !wait_all_receive(fd, &msg, flags, &n))
		return pre_next.recvfrom(fd, buf, len, flags, addr, addr_len);
	if (n >= 0 && addr && addr_len)
		*addr_len = 0;
	return n;
}

EXPORT ssize_t recvfrom(int fd, void *restrict buf, size_t len, int flags, __SOCKADDR_ARG addr,
			socklen_t *restrict addr_len)
{
	if (!addr.__sockaddr__)
		return recv(fd, buf, len, flags);
	ssize_t n = recvfrom_unshared(fd, buf, len, flags, addr.__sockaddr__, addr_len);
	return received(fd, moved(fd, n));
}

/* It may be a pair end. Nobody is asked whether it is: the program may have forbidden itself all
 * but a few system calls. */
static void note_received(int fd)
{
	pre_path_note_pair(fd);
}

/* A message that is received without the kernel has bytes only. */
static ssize_t bytes_only(struct msghdr *msg, ssize_t n)
{
	if (n >= 0) {
		msg->msg_flags = 0;
		msg->msg_namelen = 0;
		msg->msg_controllen = 0;
	}
	return n;
}

/* Programs that ask for messages of the error queue have no use for bytes. */
static bool is_readable(const struct msghdr *msg, int flags)
{
	if (flags & MSG_ERRQUEUE && pre_is_readable(msg, sizeof(*msg)) && msg->msg_iovlen == 0)
		return true;
	return data_message_readable(msg);
}

/* Are there flags with which the library may receive for the program, and may it read the message?
 * Else the kernel says what is wrong. */
static bool may_receive_message(int fd, const struct msghdr *msg, int flags)
{
	const int saved = errno;
	const bool may = (is_unusual(flags) || wait_all_may_concern(flags)) &&
			 pre_pair_is_named(fd) && is_readable(msg, flags);
	errno = saved;
	return may;
}

/* @return false: the call is left to the kernel */
static bool receive_message(int fd, struct msghdr *msg, int flags, ssize_t *ret)
{
	if (!may_receive_message(fd, msg, flags))
		return false;
	const size_t len = data_length(msg->msg_iov, (int)msg->msg_iovlen);
	if (!(is_unusual(flags) && answers_receive(fd, len, flags, ret)) &&
	    !wait_all_receive(fd, msg, flags, ret))
		return false;
	bytes_only(msg, *ret);
	return true;
}

static ssize_t recvmsg_unshared(int fd, struct msghdr *msg, int flags)
{
	ssize_t n;
	if (receive_message(fd, msg, flags, &n))
		return n;
	n = pre_next.recvmsg(fd, msg, flags);
	if (n >= 0 && msg->msg_controllen > 0)
		passed_each(msg, note_received);
	return n;
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	ssize_t n;
	if (pre_path_concerns(fd) && is_plain(msg) && msg->msg_iovlen <= INT32_MAX &&
	    data_receive(fd, msg->msg_iov, (int)msg->msg_iovlen, flags, &n))
		return received(fd, bytes_only(msg, n));
	return received(fd, moved(fd, recvmsg_unshared(fd, msg, flags)));
}

/* Programs compiled with _FORTIFY_SOURCE call these. */
extern void __chk_fail(void) __attribute__((noreturn));
ssize_t __read_chk(int fd, void *buf, size_t len, size_t size);
ssize_t __recv_chk(int fd, void *buf, size_t len, size_t size, int flags);
ssize_t __recvfrom_chk(int fd, void *restrict buf, size_t len, size_t size, int flags,
		       __SOCKADDR_ARG addr, socklen_t *restrict addr_len);

EXPORT ssize_t __read_chk(int fd, void *buf, size_t len, size_t size)
{
	if (len > size)
		__chk_fail();
	return read(fd, buf, len);
}

EXPORT ssize_t __recv_chk(int fd, void *buf, size_t len, size_t size, int flags)
{
	if (len > size)
		__chk_fail();
	return recv(fd, buf, len, flags);
}

EXPORT ssize_t __recvfrom_chk(int fd, void *restrict buf, size_t len, size_t size, int flags,
			      __SOCKADDR_ARG addr, socklen_t *restrict addr_len)
{
	if (len > size)
		__chk_fail();
	return recvfrom(fd, buf, len, flags, addr, addr_len);
}

/* Another name of read() in the C library. */
EXPORT ssize_t __read(int fd, void *buf, size_t len) __attribute__((alias("read")));

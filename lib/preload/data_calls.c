/* SPDX-License-Identifier: MIT */
/*
 * The interposed functions that move data. Each tries these ways in turn:
 *
 *     data_receive(), data_send()   through shared memory (data.h), if the descriptor may have
 *                                   some. To ask that (pre_path_concerns()) costs one load
 *     .._unshared(), .._to_pair()   through the kernel: in parts where that is needed (wait_all.h,
 *                                   send_all.h), else the program's call as it is (pre_next)
 *
 * Where the kernel's answer to a pair end is not TCP's, answers.h has TCP's.
 */
#include <errno.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lib/preload/answers.h"
#include "lib/preload/data.h"
#include "lib/preload/data_pieces.h"
#include "lib/preload/send_all.h"
#include "lib/preload/wait_all.h"
#include "lib/smcr/calls.h"
#include "lib/smcr/holders.h"
#include "lib/smcr/next.h"
#include "lib/smcr/pair.h"
#include "lib/smcr/path.h"
#include "lib/smcr/ready.h"
#include "lib/smcr/settings.h"

#define EXPORT __attribute__((visibility("default")))

/* Note that the kernel has moved `n` bytes, if that is positive. */
static ssize_t moved(int fd, ssize_t n)
{
	if (n > 0)
		pre_path_moved(fd, (size_t)n);
	return n;
}

static struct iovec one(const void *buf, size_t len)
{
	return (struct iovec){ (void *)(uintptr_t)buf, len };
}

/* ---- receiving */

/* The result of a call that receives. */
static ssize_t received(int fd, ssize_t n)
{
	if (n < 0 && errno == ECONNRESET)
		answers_receive_failed(fd);
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

/* Call `note` for each descriptor that is passed with a message. */
static void each_descriptor(const struct msghdr *msg, void (*note)(int fd))
{
	struct msghdr *m = (struct msghdr *)msg;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = CMSG_LEN(0); at + sizeof(int) <= c->cmsg_len; at += sizeof(int)) {
			int fd;
			__builtin_memcpy(&fd, (uint8_t *)c + at, sizeof(fd));
			note(fd);
		}
	}
}

/* It may be a pair end. Nobody is asked whether it is: the program may have forbidden itself all
 * but a few system calls. */
static void note_received(int fd)
{
	pre_path_note_pair(fd);
}

/* Who receives it, perhaps this process, has another descriptor of it. */
static void note_passed(int fd)
{
	pre_holders_set(fd, PRE_HOLDERS_PASSED);
}

/* Does the message ask for bytes only? */
static bool is_plain(const struct msghdr *msg)
{
	return !data_is_nowhere(msg) && !msg->msg_name && msg->msg_controllen == 0;
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

/* Are there flags with which the library may receive for the program, and may it read the message?
 * Else the kernel says what is wrong. */
static bool may_receive_message(int fd, const struct msghdr *msg, int flags)
{
	const int saved = errno;
	const bool may = (is_unusual(flags) || wait_all_may_concern(flags)) &&
			 pre_pair_is_named(fd) && data_message_readable(msg);
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
		each_descriptor(msg, note_received);
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

/* ---- sending */

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

/* A socket that is no pair end may pass descriptors. */
static ssize_t send_with_descriptors(int fd, const struct msghdr *msg, int flags)
{
	ssize_t n = pre_next.sendmsg(fd, msg, flags);
	if (n >= 0 && msg && msg->msg_controllen > 0)
		each_descriptor(msg, note_passed);
	return n;
}

static ssize_t send_message(int fd, const struct msghdr *msg, int flags)
{
	ssize_t n;
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

EXPORT ssize_t __read(int fd, void *buf, size_t len) __attribute__((alias("read")));
EXPORT ssize_t __write(int fd, const void *buf, size_t len) __attribute__((alias("write")));
EXPORT ssize_t __send(int fd, const void *buf, size_t len, int flags)
	__attribute__((alias("send")));
EXPORT ssize_t sendfile64(int out, int in, off64_t *offset, size_t len)
	__attribute__((alias("sendfile")));

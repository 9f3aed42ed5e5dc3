/* SPDX-License-Identifier: MIT */
/*
 * The functions that programs call instead of the C library's (GEN-1), but for those that move data
 * (receive_calls.c, send_calls.c), those that descriptors come and go with (descriptors.c), and
 * those that start programs (exec.c).
 *
 * Each keeps the C library's contract: -1 and errno on failure, errno untouched on success. What it
 * does with a pair end is what it does with a TCP socket (SOCK-1). The work is done by its namesake
 * in lib/smcr (calls.h), which returns a negative errno.
 *
 * Where pre_ready() is false the library is just being begun, by a constructor or an allocator that
 * opens a socket: the call is the kernel's.
 */
#include <errno.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/preload/data.h"
#include "lib/preload/wait_all.h"
#include "lib/smcr/calls.h"
#include "lib/smcr/next.h"
#include "lib/smcr/path.h"
#include "lib/smcr/ready.h"
#include "lib/smcr/settings.h"

#define EXPORT __attribute__((visibility("default")))

const bool pre_sees_calls = true;

static enum pre_policy policy(void)
{
	return pre_settings.require ? PRE_REQUIRE : PRE_PREFER;
}

/* What the core has returned, in the form of the C library. */
static int finish(int rc, int saved_errno)
{
	errno = rc < 0 ? -rc : saved_errno;
	return rc < 0 ? -1 : rc;
}

EXPORT int connect(int fd, __CONST_SOCKADDR_ARG addr, socklen_t len)
{
	int saved = errno;
	if (!pre_ready())
		return (int)syscall(SYS_connect, fd, addr.__sockaddr__, len);
	return finish(pre_connect(fd, addr.__sockaddr__, len, policy()), saved);
}

/* The C library exports this name too. */
EXPORT int __connect(int fd, __CONST_SOCKADDR_ARG addr, socklen_t len)
	__attribute__((alias("connect")));

EXPORT int accept(int fd, __SOCKADDR_ARG addr, socklen_t *restrict len)
{
	int saved = errno;
	if (!pre_ready())
		return (int)syscall(SYS_accept4, fd, addr.__sockaddr__, len, 0);
	return finish(pre_accept(fd, addr.__sockaddr__, len, policy()), saved);
}

EXPORT int accept4(int fd, __SOCKADDR_ARG addr, socklen_t *restrict len, int flags)
{
	int saved = errno;
	if (!pre_ready())
		return (int)syscall(SYS_accept4, fd, addr.__sockaddr__, len, flags);
	return finish(pre_accept4(fd, addr.__sockaddr__, len, flags, policy()), saved);
}

EXPORT int listen(int fd, int backlog)
{
	int saved = errno;
	if (!pre_ready())
		return (int)syscall(SYS_listen, fd, backlog);
	return finish(pre_listen(fd, backlog, policy()), saved);
}

EXPORT int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	int saved = errno;
	if (!pre_ready())
		return (int)syscall(SYS_epoll_ctl, epfd, op, fd, event);
	return finish(pre_epoll_ctl(epfd, op, fd, event), saved);
}

EXPORT int getsockname(int fd, __SOCKADDR_ARG addr, socklen_t *restrict len)
{
	int saved = errno;
	if (!pre_ready())
		return (int)syscall(SYS_getsockname, fd, addr.__sockaddr__, len);
	return finish(pre_getsockname(fd, addr.__sockaddr__, len), saved);
}

EXPORT int getpeername(int fd, __SOCKADDR_ARG addr, socklen_t *restrict len)
{
	int saved = errno;
	if (!pre_ready())
		return (int)syscall(SYS_getpeername, fd, addr.__sockaddr__, len);
	return finish(pre_getpeername(fd, addr.__sockaddr__, len), saved);
}

EXPORT int getsockopt(int fd, int level, int name, void *restrict value, socklen_t *restrict len)
{
	int saved = errno;
	if (!pre_ready())
		return (int)syscall(SYS_getsockopt, fd, level, name, value, len);
	return finish(pre_getsockopt(fd, level, name, value, len), saved);
}

EXPORT int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	int saved = errno;
	if (!pre_ready())
		return (int)syscall(SYS_setsockopt, fd, level, name, value, len);
	int rc = pre_setsockopt(fd, level, name, value, len);
	if (rc == 0 && level == SOL_SOCKET && (name == SO_RCVLOWAT || name == SO_PEEK_OFF))
		pre_path_reads_outside(fd);
	if (rc == 0 && level == SOL_SOCKET && name == SO_RCVLOWAT)
		wait_all_note_low(value);
	return finish(rc, saved);
}

EXPORT int shutdown(int fd, int how)
{
	int saved = errno;
	if (!pre_ready())
		return (int)syscall(SYS_shutdown, fd, how);
	int rc = pre_shutdown(fd, how);
	if (rc == 0 && how != SHUT_RD)
		pre_path_writes_outside(fd);
	return finish(rc, saved);
}

/* FIONREAD: bytes in shared memory can be read too. */
static int count_readable(int fd, int *count)
{
	int rc = pre_next.ioctl(fd, FIONREAD, count);
	if (rc == 0)
		*count += (int)data_readable(fd);
	return rc;
}

/* Every request of ioctl() has at most one argument, of the size of a pointer. */
EXPORT int ioctl(int fd, unsigned long request, ...)
{
	int saved = errno;
	va_list args;
	va_start(args, request);
	void *arg = va_arg(args, void *);
	va_end(args);
	if (!pre_ready())
		return (int)syscall(SYS_ioctl, fd, request, arg);
	if (request == FIONREAD && pre_path_concerns(fd))
		return count_readable(fd, arg);
	if (!pre_ioctl_concerns(request))
		return pre_next.ioctl(fd, request, arg);
	return finish(pre_ioctl(fd, request, arg), saved);
}

/* SPDX-License-Identifier: MIT */
/**
 * @file sys.h
 * System calls of the library, made directly. So they are async-signal-safe; they are no
 * cancellation points (a thread must not end in the middle of a hand-over); and other preloaded
 * libraries do not see them. Each returns a negative errno on failure.
 *
 * errno may change; the interposed functions restore it before they return.
 */
#ifndef SMCRD_LIB_SMCR_SYS_H
#define SMCRD_LIB_SMCR_SYS_H

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(long) == 8, "the system calls below have the 64-bit argument layout");

static inline int sys_result(long rc)
{
	return rc < 0 ? -errno : (int)rc;
}

static inline int sys_socket(int domain, int type, int protocol)
{
	return sys_result(syscall(SYS_socket, domain, type, protocol));
}

static inline int sys_connect(int fd, const void *addr, socklen_t len)
{
	return sys_result(syscall(SYS_connect, fd, addr, len));
}

/** Reset a connection; the socket can be connected again. */
static inline int sys_disconnect(int fd)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };
	return sys_connect(fd, &none, sizeof(none));
}

static inline int sys_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	return sys_result(syscall(SYS_getsockopt, fd, level, name, value, len));
}

static inline int sys_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	return sys_result(syscall(SYS_setsockopt, fd, level, name, value, len));
}

static inline int sys_getpeername(int fd, void *addr, socklen_t *len)
{
	return sys_result(syscall(SYS_getpeername, fd, addr, len));
}

static inline int sys_getsockname(int fd, void *addr, socklen_t *len)
{
	return sys_result(syscall(SYS_getsockname, fd, addr, len));
}

static inline int sys_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return sys_result(syscall(SYS_sendmsg, fd, msg, flags));
}

static inline int sys_recvmsg(int fd, struct msghdr *msg, int flags)
{
	return sys_result(syscall(SYS_recvmsg, fd, msg, flags));
}

static inline int sys_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	return sys_result(syscall(SYS_epoll_ctl, epfd, op, fd, event));
}

/** @return length of the text in `buf`, which has no NUL */
static inline int sys_readlink(const char *path, char *buf, size_t len)
{
	return sys_result(syscall(SYS_readlinkat, AT_FDCWD, path, buf, len));
}

static inline int sys_fcntl(int fd, int cmd, uintptr_t arg)
{
	return sys_result(syscall(SYS_fcntl, fd, cmd, arg));
}

static inline int sys_dup3(int fd, int new_fd, int flags)
{
	return sys_result(syscall(SYS_dup3, fd, new_fd, flags));
}

static inline int sys_close(int fd)
{
	return sys_result(syscall(SYS_close, fd));
}

static inline int sys_write(int fd, const void *buf, size_t len)
{
	return sys_result(syscall(SYS_write, fd, buf, len));
}

static inline int sys_openat(int dirfd, const char *path, int flags)
{
	return sys_result(syscall(SYS_openat, dirfd, path, flags, 0));
}

static inline int sys_pread(int fd, void *buf, size_t len, off_t offset)
{
	return sys_result(syscall(SYS_pread64, fd, buf, len, offset));
}

static inline int sys_ioctl(int fd, unsigned long request, void *arg)
{
	return sys_result(syscall(SYS_ioctl, fd, request, arg));
}

/** Are two descriptors of this process duplicates? False also where the kernel does not tell. */
static inline bool sys_is_same(int a, int b)
{
	const pid_t self = getpid();
	return syscall(SYS_kcmp, self, self, KCMP_FILE, a, b) == 0;
}

/** Can 8 bytes be read there? Changes nothing. @return 0, -EFAULT, or the error of a sandbox that
 * forbids to ask */
static inline int sys_probe(const void *at)
{
	const int no_such_change = -1; /* which the kernel finds after it has read the signals */
	int rc = sys_result(
		syscall(SYS_rt_sigprocmask, no_such_change, at, NULL, (size_t)(_NSIG / 8)));
	if (rc == 0)
		return -EFAULT; /* NULL, which the kernel takes for no signals */
	return rc == -EINVAL ? 0 : rc;
}

/** Can all these bytes be read? Costs a system call for each page. If a sandbox forbids to ask,
 * they count as readable. @param len  not 0 */
static inline bool sys_is_readable(const void *at, size_t len)
{
	const uintptr_t page = 4096; /* no page is smaller */
	const uintptr_t last = (uintptr_t)at + len - 1;
	uintptr_t word = (uintptr_t)at & ~(uintptr_t)7;
	while (sys_probe((const void *)word) != -EFAULT) {
		word = (word | (page - 1)) + 1;
		if (word > last)
			return true;
	}
	return false;
}

/** May the process, with its effective ids, write to the file? */
static inline int sys_may_write(const char *path)
{
	return sys_result(syscall(SYS_faccessat2, AT_FDCWD, path, W_OK, AT_EACCESS));
}

static inline int sys_stat(const char *path, struct stat *ret)
{
	return sys_result(syscall(SYS_newfstatat, AT_FDCWD, path, ret, 0));
}

/** @param timeout NULL: no limit */
static inline int sys_poll_one(int fd, short events, const struct timespec *timeout,
			       short *ret_revents)
{
	struct pollfd p = { .fd = fd, .events = events };
	/* The kernel may write the remaining time back. */
	struct timespec left = timeout ? *timeout : (struct timespec){ 0 };
	int rc = sys_result(
		syscall(SYS_ppoll, &p, 1UL, timeout ? &left : NULL, NULL, (size_t)(_NSIG / 8)));
	if (rc >= 0)
		*ret_revents = p.revents;
	return rc;
}

/** An integer socket option. @return 0 or a negative errno */
static inline int sys_get_int(int fd, int level, int name, int *ret_value)
{
	int value = 0;
	socklen_t len = sizeof(value);
	int rc = sys_getsockopt(fd, level, name, &value, &len);
	if (rc < 0)
		return rc;
	*ret_value = value;
	return 0;
}

/** Milliseconds of CLOCK_MONOTONIC; no system call on the usual hosts (vDSO). */
static inline int64_t sys_now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The interposed functions that make and close descriptors: they keep the table of descriptors with
 * shared memory up to date (lib/smcr/path.h). Other ways to close (raw system calls, fclose() and
 * others inside the C library) leave an outdated entry, which is noticed when it is used. And they
 * note what kinds of sockets there are (lib/smcr/unasked.h).
 */
#include <fcntl.h>
#include <linux/close_range.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/smcr/next.h"
#include "lib/smcr/path.h"
#include "lib/smcr/unasked.h"

#define EXPORT __attribute__((visibility("default")))

static int made(int fd)
{
	if (fd >= 0)
		pre_path_forget(fd);
	return fd;
}

EXPORT int socket(int domain, int type, int protocol)
{
	pre_unasked_note_socket(domain, type, protocol);
	int fd = pre_next.socket(domain, type, protocol);
	pre_path_note_socket(fd);
	return fd;
}

EXPORT int socketpair(int domain, int type, int protocol, int ends[2])
{
	int rc = pre_next.socketpair(domain, type, protocol, ends);
	if (rc == 0) {
		made(ends[0]);
		made(ends[1]);
	}
	return rc;
}

/* Entries are removed before the kernel frees or replaces a number: afterwards it may already be
 * that of another thread's new socket. */

EXPORT int close(int fd)
{
	pre_path_forget(fd);
	return pre_next.close(fd);
}

EXPORT int close_range(unsigned int first, unsigned int last, int flags)
{
	if (!(flags & (int)CLOSE_RANGE_CLOEXEC))
		pre_path_forget_range(first, last);
	return pre_next.close_range(first, last, flags);
}

EXPORT void closefrom(int first)
{
	pre_path_forget_range(first < 0 ? 0 : (unsigned int)first, ~0u);
	pre_next.closefrom(first);
}

static int copied(int from, int to)
{
	if (to >= 0)
		pre_path_copied(from, to);
	return to;
}

EXPORT int dup(int fd)
{
	return copied(fd, pre_next.dup(fd));
}

EXPORT int dup2(int fd, int to)
{
	if (fd == to)
		return pre_next.dup2(fd, to);
	pre_path_forget(to);
	return copied(fd, pre_next.dup2(fd, to));
}

EXPORT int dup3(int fd, int to, int flags)
{
	if (fd != to)
		pre_path_forget(to);
	return copied(fd, pre_next.dup3(fd, to, flags));
}

/* Every command of fcntl() has at most one argument, of the size of a pointer. */

EXPORT int fcntl(int fd, int cmd, ...)
{
	va_list args;
	va_start(args, cmd);
	void *arg = va_arg(args, void *);
	va_end(args);
	int rc = pre_next.fcntl(fd, cmd, arg);
	return cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC ? copied(fd, rc) : rc;
}

EXPORT int fcntl64(int fd, int cmd, ...)
{
	va_list args;
	va_start(args, cmd);
	void *arg = va_arg(args, void *);
	va_end(args);
	int rc = pre_next.fcntl64(fd, cmd, arg);
	return cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC ? copied(fd, rc) : rc;
}

EXPORT int __close(int fd) __attribute__((alias("close")));
EXPORT int __dup2(int fd, int to) __attribute__((alias("dup2"), leaf, nothrow));
EXPORT int __fcntl(int fd, int cmd, ...) __attribute__((alias("fcntl")));

/* SPDX-License-Identifier: MIT */
#include "lib/smcr/next.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* If there is no next function (in a program with its own loader), the system call is made. */

static int kernel_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	return (int)syscall(SYS_connect, fd, addr, len);
}

static int kernel_accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	return (int)syscall(SYS_accept4, fd, addr, len, 0);
}

static int kernel_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	return (int)syscall(SYS_accept4, fd, addr, len, flags);
}

static int kernel_listen(int fd, int backlog)
{
	return (int)syscall(SYS_listen, fd, backlog);
}

static int kernel_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	return (int)syscall(SYS_epoll_ctl, epfd, op, fd, event);
}

static int kernel_getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	return (int)syscall(SYS_getsockname, fd, addr, len);
}

static int kernel_getpeername(int fd, struct sockaddr *addr, socklen_t *len)
{
	return (int)syscall(SYS_getpeername, fd, addr, len);
}

static int kernel_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	return (int)syscall(SYS_getsockopt, fd, level, name, value, len);
}

static int kernel_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	return (int)syscall(SYS_setsockopt, fd, level, name, value, len);
}

static int kernel_shutdown(int fd, int how)
{
	return (int)syscall(SYS_shutdown, fd, how);
}

static int kernel_ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	va_start(args, request);
	void *arg = va_arg(args, void *);
	va_end(args);
	return (int)syscall(SYS_ioctl, fd, request, arg);
}

static ssize_t kernel_read(int fd, void *buf, size_t len)
{
	return syscall(SYS_read, fd, buf, len);
}

static ssize_t kernel_readv(int fd, const struct iovec *iov, int count)
{
	return syscall(SYS_readv, fd, iov, count);
}

static ssize_t kernel_recvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *addr,
			       socklen_t *addr_len)
{
	return syscall(SYS_recvfrom, fd, buf, len, flags, addr, addr_len);
}

static ssize_t kernel_recv(int fd, void *buf, size_t len, int flags)
{
	return kernel_recvfrom(fd, buf, len, flags, NULL, NULL);
}

static ssize_t kernel_recvmsg(int fd, struct msghdr *msg, int flags)
{
	return syscall(SYS_recvmsg, fd, msg, flags);
}

static ssize_t kernel_write(int fd, const void *buf, size_t len)
{
	return syscall(SYS_write, fd, buf, len);
}

static ssize_t kernel_writev(int fd, const struct iovec *iov, int count)
{
	return syscall(SYS_writev, fd, iov, count);
}

static ssize_t kernel_sendto(int fd, const void *buf, size_t len, int flags,
			     const struct sockaddr *addr, socklen_t addr_len)
{
	return syscall(SYS_sendto, fd, buf, len, flags, addr, addr_len);
}

static ssize_t kernel_send(int fd, const void *buf, size_t len, int flags)
{
	return kernel_sendto(fd, buf, len, flags, NULL, 0);
}

static ssize_t kernel_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return syscall(SYS_sendmsg, fd, msg, flags);
}

static ssize_t kernel_sendfile(int out, int in, off_t *offset, size_t len)
{
	return syscall(SYS_sendfile, out, in, offset, len);
}

static int kernel_socket(int domain, int type, int protocol)
{
	return (int)syscall(SYS_socket, domain, type, protocol);
}

static int kernel_socketpair(int domain, int type, int protocol, int ends[2])
{
	return (int)syscall(SYS_socketpair, domain, type, protocol, ends);
}

static int kernel_close(int fd)
{
	return (int)syscall(SYS_close, fd);
}

static int kernel_close_range(unsigned int first, unsigned int last, int flags)
{
	return (int)syscall(SYS_close_range, first, last, flags);
}

static void kernel_closefrom(int first)
{
	kernel_close_range(first < 0 ? 0 : (unsigned int)first, ~0u, 0);
}

static int kernel_dup(int fd)
{
	return (int)syscall(SYS_dup, fd);
}

static int kernel_dup3(int fd, int to, int flags)
{
	return (int)syscall(SYS_dup3, fd, to, flags);
}

/* Not every architecture has the system call dup2(), and dup3() refuses two equal numbers. */
static int kernel_dup2(int fd, int to)
{
	if (fd == to)
		return syscall(SYS_fcntl, fd, F_GETFD) < 0 ? -1 : to;
	return kernel_dup3(fd, to, 0);
}

static int kernel_fcntl(int fd, int cmd, ...)
{
	va_list args;
	va_start(args, cmd);
	void *arg = va_arg(args, void *);
	va_end(args);
	return (int)syscall(SYS_fcntl, fd, cmd, arg);
}

#define kernel_fcntl64 kernel_fcntl

/* Each member of struct pre_next. */
#define EACH_NEXT(DO)                                                                              \
	DO(connect)                                                                                \
	DO(accept)                                                                                 \
	DO(accept4)                                                                                \
	DO(listen)                                                                                 \
	DO(epoll_ctl)                                                                              \
	DO(getsockname)                                                                            \
	DO(getpeername)                                                                            \
	DO(getsockopt)                                                                             \
	DO(setsockopt)                                                                             \
	DO(shutdown)                                                                               \
	DO(ioctl)                                                                                  \
	DO(read)                                                                                   \
	DO(readv)                                                                                  \
	DO(recv)                                                                                   \
	DO(recvfrom)                                                                               \
	DO(recvmsg)                                                                                \
	DO(write)                                                                                  \
	DO(writev)                                                                                 \
	DO(send)                                                                                   \
	DO(sendto)                                                                                 \
	DO(sendmsg)                                                                                \
	DO(sendfile)                                                                               \
	DO(socket)                                                                                 \
	DO(socketpair)                                                                             \
	DO(close)                                                                                  \
	DO(close_range)                                                                            \
	DO(closefrom)                                                                              \
	DO(dup)                                                                                    \
	DO(dup2)                                                                                   \
	DO(dup3)                                                                                   \
	DO(fcntl)                                                                                  \
	DO(fcntl64)

#define VALUE(name) .name = kernel_##name,
struct pre_next pre_next = { EACH_NEXT(VALUE) };

#define COUNT(name) +1
_Static_assert(sizeof(struct pre_next) == (0 EACH_NEXT(COUNT)) * sizeof(void (*)(void)),
	       "EACH_NEXT() lacks a member");

/* A data pointer that holds a function's address, as POSIX asks of dlsym(). */
void pre_next_symbol(const char *name, void *function, size_t size)
{
	void *symbol = dlsym(RTLD_NEXT, name);
	if (symbol)
		memcpy(function, &symbol, size);
}

void pre_next_find(void)
{
#define FIND(name) pre_next_symbol(#name, &pre_next.name, sizeof(pre_next.name));
	EACH_NEXT(FIND)
#undef FIND
}

/* SPDX-License-Identifier: MIT */
#include "lib/smcr/next.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "lib/smcr/log.h"
#include "lib/smcr/pair.h"
#include "lib/smcr/pending.h"
#include "lib/smcr/sys.h"
#include "lib/smcr/unanswered.h"
#include "proto/ipc/ipc.h"

struct pre_settings pre_settings;

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

/* Which the kernel has not on every architecture; with two equal numbers it is no dup3(). */
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

struct pre_next pre_next = {
	.connect = kernel_connect,
	.accept = kernel_accept,
	.accept4 = kernel_accept4,
	.listen = kernel_listen,
	.epoll_ctl = kernel_epoll_ctl,
	.getsockname = kernel_getsockname,
	.getpeername = kernel_getpeername,
	.getsockopt = kernel_getsockopt,
	.setsockopt = kernel_setsockopt,
	.shutdown = kernel_shutdown,
	.ioctl = kernel_ioctl,
	.read = kernel_read,
	.readv = kernel_readv,
	.recv = kernel_recv,
	.recvfrom = kernel_recvfrom,
	.recvmsg = kernel_recvmsg,
	.write = kernel_write,
	.writev = kernel_writev,
	.send = kernel_send,
	.sendto = kernel_sendto,
	.sendmsg = kernel_sendmsg,
	.sendfile = kernel_sendfile,
	.socket = kernel_socket,
	.socketpair = kernel_socketpair,
	.close = kernel_close,
	.close_range = kernel_close_range,
	.closefrom = kernel_closefrom,
	.dup = kernel_dup,
	.dup2 = kernel_dup2,
	.dup3 = kernel_dup3,
	.fcntl = kernel_fcntl,
	.fcntl64 = kernel_fcntl,
};

/* A data pointer that holds a function's address, as POSIX asks of dlsym(). */
static void find(const char *name, void *function, size_t size)
{
	void *symbol = dlsym(RTLD_NEXT, name);
	if (symbol)
		memcpy(function, &symbol, size);
}

static void find_next(void)
{
#define FIND(name) find(#name, &pre_next.name, sizeof(pre_next.name))
	FIND(connect);
	FIND(accept);
	FIND(accept4);
	FIND(listen);
	FIND(epoll_ctl);
	FIND(getsockname);
	FIND(getpeername);
	FIND(getsockopt);
	FIND(setsockopt);
	FIND(shutdown);
	FIND(ioctl);
	FIND(read);
	FIND(readv);
	FIND(recv);
	FIND(recvfrom);
	FIND(recvmsg);
	FIND(write);
	FIND(writev);
	FIND(send);
	FIND(sendto);
	FIND(sendmsg);
	FIND(sendfile);
	FIND(socket);
	FIND(socketpair);
	FIND(close);
	FIND(close_range);
	FIND(closefrom);
	FIND(dup);
	FIND(dup2);
	FIND(dup3);
	FIND(fcntl);
	FIND(fcntl64);
#undef FIND
}

static bool is_set(const char *name)
{
	const char *value = secure_getenv(name);
	return value && *value && strcmp(value, "0") != 0;
}

static enum pre_sharing sharing(void)
{
	const char *value = secure_getenv(PRE_SHARED_ENV);
	if (value && strcmp(value, "always") == 0)
		return PRE_SHARING_ALWAYS;
	return value && strcmp(value, "yes") == 0 ? PRE_SHARING_YES : PRE_SHARING_NO;
}

/* While /proc is in sight: a program may change its root later. Without /proc what execve() was
 * given has to do, if it says where the program is. */
static uint64_t own_program(void)
{
	char path[PATH_MAX];
	int len = sys_readlink("/proc/self/exe", path, sizeof(path));
	if (len > 0)
		return ipc_program_id(path, (size_t)len);
	const char *given = (const char *)getauxval(AT_EXECFN);
	return given && *given == '/' ? ipc_program_id(given, strlen(given)) : 0;
}

void pre_set_daemon(const char *path)
{
	size_t len = strlen(path);
	pre_settings.daemon_len = pre_settings.daemon_abstract_len = 0;
	if (len >= sizeof(pre_settings.daemon.sun_path))
		return;
	pre_settings.daemon = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(pre_settings.daemon.sun_path, path, len);
	pre_settings.daemon_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + 1);
	pre_settings.daemon_abstract_len =
		(socklen_t)ipc_abstract_address(path, &pre_settings.daemon_abstract);
	pre_pair_note_owner();
}

static void read_settings(void)
{
	const char *path = secure_getenv(IPC_SOCKET_ENV);
	pre_settings = (struct pre_settings){
		.program = own_program(),
		.require = is_set(PRE_REQUIRE_ENV),
		.verbose = is_set(PRE_VERBOSE_ENV),
		.sharing = sharing(),
	};
	pre_set_daemon(path && *path ? path : IPC_DEFAULT_SOCKET);
}

enum { NOT_STARTED, UNDER_WAY, DONE };
static _Atomic int state = NOT_STARTED;

/*
 * pthread_once() would not do: dlsym() and pthread_atfork() may allocate memory, a preloaded
 * allocator may open a socket, and then this function is called again on the same thread.
 */
bool pre_ready(void)
{
	int expected = NOT_STARTED;
	if (atomic_load_explicit(&state, memory_order_acquire) == DONE)
		return true;
	if (!atomic_compare_exchange_strong(&state, &expected, UNDER_WAY))
		return expected == DONE;
	int saved = errno;
	find_next();
	read_settings();
	pre_log_open();
	pre_pending_open();
	pre_unanswered_open();
	errno = saved;
	atomic_store_explicit(&state, DONE, memory_order_release);
	return true;
}

/* Call it early, while there is one thread and no signal handler runs: dlsym() is not
 * async-signal-safe. */
__attribute__((constructor)) static void prepare(void)
{
	pre_ready();
}

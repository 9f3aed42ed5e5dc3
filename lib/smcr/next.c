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
#include "proto/ipc/ipc.h"

struct pre_next pre_next;
struct pre_settings pre_settings;

/* Where there is no next function (a program with a loader of its own) the kernel is asked. */

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

/* A data pointer that holds a function's address, as POSIX asks of dlsym(). */
static void find(const char *name, void *function, size_t size)
{
	void *symbol = dlsym(RTLD_NEXT, name);
	if (symbol)
		memcpy(function, &symbol, size);
}

static void find_next(void)
{
	pre_next = (struct pre_next){
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
	};
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
#undef FIND
}

static bool is_set(const char *name)
{
	const char *value = secure_getenv(name);
	return value && *value && strcmp(value, "0") != 0;
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

static void read_settings(void)
{
	const char *path = secure_getenv(IPC_SOCKET_ENV);
	if (!path || !*path)
		path = IPC_DEFAULT_SOCKET;
	size_t len = strlen(path);
	pre_settings = (struct pre_settings){
		.program = own_program(),
		.require = is_set(PRE_REQUIRE_ENV),
		.verbose = is_set(PRE_VERBOSE_ENV),
	};
	if (len >= sizeof(pre_settings.daemon.sun_path))
		return;
	pre_settings.daemon.sun_family = AF_UNIX;
	memcpy(pre_settings.daemon.sun_path, path, len);
	pre_settings.daemon_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + 1);
	pre_settings.daemon_abstract_len =
		(socklen_t)ipc_abstract_address(path, &pre_settings.daemon_abstract);
	pre_pair_note_owner();
}

enum { NOT_STARTED, UNDER_WAY, DONE };
static _Atomic int state = NOT_STARTED;

/*
 * Not pthread_once(): dlsym() and pthread_atfork() may allocate, an allocator preloaded beside us
 * may open a socket, and then this is entered again on the same thread.
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
	errno = saved;
	atomic_store_explicit(&state, DONE, memory_order_release);
	return true;
}

/* Early, while there is one thread and no signal handler: dlsym() is not for signal handlers. */
__attribute__((constructor)) static void prepare(void)
{
	pre_ready();
}

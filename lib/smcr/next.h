/* SPDX-License-Identifier: MIT */
/**
 * @file next.h
 * The functions behind the interposed ones (those of the C library, or of another preloaded
 * library), and the settings that smcr-run puts into the environment. Both are found out once.
 */
#ifndef SMCRD_LIB_SMCR_NEXT_H
#define SMCRD_LIB_SMCR_NEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#define PRE_REQUIRE_ENV "SMCR_REQUIRE"
#define PRE_VERBOSE_ENV "SMCR_VERBOSE"
#define PRE_SHARED_ENV  "SMCRD_SHARED" /* "no", "yes" or "always" */

/** As their namesakes: -1 and errno on failure. */
struct pre_next {
	int (*connect)(int fd, const struct sockaddr *addr, socklen_t len);
	int (*accept)(int fd, struct sockaddr *addr, socklen_t *len);
	int (*accept4)(int fd, struct sockaddr *addr, socklen_t *len, int flags);
	int (*listen)(int fd, int backlog);
	int (*epoll_ctl)(int epfd, int op, int fd, struct epoll_event *event);
	int (*getsockname)(int fd, struct sockaddr *addr, socklen_t *len);
	int (*getpeername)(int fd, struct sockaddr *addr, socklen_t *len);
	int (*getsockopt)(int fd, int level, int name, void *value, socklen_t *len);
	int (*setsockopt)(int fd, int level, int name, const void *value, socklen_t len);
	int (*shutdown)(int fd, int how);
	int (*ioctl)(int fd, unsigned long request, ...);
	/* The functions of the data path. */
	ssize_t (*read)(int fd, void *buf, size_t len);
	ssize_t (*readv)(int fd, const struct iovec *iov, int count);
	ssize_t (*recv)(int fd, void *buf, size_t len, int flags);
	ssize_t (*recvfrom)(int fd, void *buf, size_t len, int flags, struct sockaddr *addr,
			    socklen_t *addr_len);
	ssize_t (*recvmsg)(int fd, struct msghdr *msg, int flags);
	ssize_t (*write)(int fd, const void *buf, size_t len);
	ssize_t (*writev)(int fd, const struct iovec *iov, int count);
	ssize_t (*send)(int fd, const void *buf, size_t len, int flags);
	ssize_t (*sendto)(int fd, const void *buf, size_t len, int flags,
			  const struct sockaddr *addr, socklen_t addr_len);
	ssize_t (*sendmsg)(int fd, const struct msghdr *msg, int flags);
	ssize_t (*sendfile)(int out, int in, off_t *offset, size_t len);
	/* The functions by which descriptors come and go. */
	int (*socket)(int domain, int type, int protocol);
	int (*socketpair)(int domain, int type, int protocol, int ends[2]);
	int (*close)(int fd);
	int (*close_range)(unsigned int first, unsigned int last, int flags);
	void (*closefrom)(int first);
	int (*dup)(int fd);
	int (*dup2)(int fd, int to);
	int (*dup3)(int fd, int to, int flags);
	int (*fcntl)(int fd, int cmd, ...);
	int (*fcntl64)(int fd, int cmd, ...);
};

/** Does the program's process share memory with smcrd (path.h)? */
enum pre_sharing {
	PRE_SHARING_NO,
	PRE_SHARING_YES,    /* for connections that move many bytes */
	PRE_SHARING_ALWAYS, /* for all connections, at once */
};

struct pre_settings {
	struct sockaddr_un daemon;          /* where smcrd listens */
	socklen_t daemon_len;               /* 0: the path in the environment is too long */
	struct sockaddr_un daemon_abstract; /* ipc_abstract_address() of it */
	socklen_t daemon_abstract_len;
	uint64_t program; /* ipc_program_id() of this program; 0: its path is unknown */
	bool require;     /* use PRE_REQUIRE instead of PRE_PREFER */
	bool verbose;     /* say on standard error what became of each connection */
	enum pre_sharing sharing;
};

/**
 * Find the next functions and read the environment, if that was not done before.
 * @return true: pre_next and pre_settings may be used; false: another thread, or this one further
 *         up the stack, is doing that right now, and the caller has to make the system call
 *         directly
 */
bool pre_ready(void);

/**
 * Use another smcrd than the environment's. For programs of smcrd itself (smcrctl), before they
 * have threads.
 * @param path  path of its socket; if it is too long, no smcrd is used
 */
void pre_set_daemon(const char *path);

/* Written once, before pre_ready() returns true for the first time; before that the functions of
 * pre_next make system calls. Tests change them. */
extern struct pre_next pre_next;
extern struct pre_settings pre_settings;

#endif

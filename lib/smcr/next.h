/* SPDX-License-Identifier: MIT */
/**
 * @file next.h
 * The functions behind the interposed ones: those of the C library, or of another preloaded
 * library. The core calls them where the call is the program's own, so that other preloaded
 * libraries see it. What the library does beside the program's call is in sys.h.
 */
#ifndef SMCRD_LIB_SMCR_NEXT_H
#define SMCRD_LIB_SMCR_NEXT_H

#include <stddef.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

/** As their namesakes: -1 and errno on failure. A new member also needs a place in the list of
 * next.c, which does not compile without it. */
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

/** Written once, before pre_ready() returns true for the first time. Before that, and for functions
 * that are not found, the members make system calls. Tests change them. */
extern struct pre_next pre_next;

/** For pre_ready(): find the next functions. Not async-signal-safe. */
void pre_next_find(void);

/**
 * Find a next function that is no member of pre_next. Not async-signal-safe.
 * @param function  a pointer to a function, which stays as it is if there is none of that name
 * @param size      of that pointer
 */
void pre_next_symbol(const char *name, void *function, size_t size);

#endif

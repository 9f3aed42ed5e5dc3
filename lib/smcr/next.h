/* SPDX-License-Identifier: MIT */
/**
 * @file next.h
 * The functions behind the interposed ones (the C library's, or another preloaded library's) and
 * the settings that smcr-run puts into the environment. Both are read once.
 */
#ifndef SMCRD_LIB_SMCR_NEXT_H
#define SMCRD_LIB_SMCR_NEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#define PRE_REQUIRE_ENV "SMCR_REQUIRE"
#define PRE_VERBOSE_ENV "SMCR_VERBOSE"

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
};

struct pre_settings {
	struct sockaddr_un daemon; /* where smcrd listens */
	socklen_t daemon_len;      /* 0: the path in the environment does not fit an address */
	struct sockaddr_un daemon_abstract; /* ipc_abstract_address() of it */
	socklen_t daemon_abstract_len;
	uint64_t program; /* ipc_program_id() of this one; 0: nobody tells its path */
	bool require;     /* PRE_REQUIRE where PRE_PREFER was asked for */
	bool verbose;     /* say on standard error what became of each connection */
};

/**
 * Find the next functions and read the environment, if that has not happened.
 * @return true: pre_next and pre_settings may be used. False in calls that come while another
 * thread, or this one further up the stack, is still busy with it: the caller passes its call
 * straight to the kernel.
 */
bool pre_ready(void);

/* Written once before pre_ready() first returns true; tests change them. */
extern struct pre_next pre_next;
extern struct pre_settings pre_settings;

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file calls.h
 * What the interposed functions do. They take the arguments of their namesakes, some also a policy,
 * and return a non-negative result or a negative errno. errno may change, and the caller restores
 * it.
 *
 * `fd` is the program's and may be anything. Where the functions say that a descriptor becomes
 * another file, its duplicates and epoll registrations do so too (replace.h), and no descriptor is
 * left over.
 *
 * Unless its header says otherwise, every function of lib/smcr and lib/preload is async-signal-safe
 * and thread safe, since programs may call what is interposed in signal handlers. So nothing is
 * allocated, and nothing is locked but the memory that a call writes into: data_send.c gives up
 * after a millisecond if another writer has the lock. The functions are no cancellation points,
 * except where the program's own call is one.
 */
#ifndef SMCRD_LIB_SMCR_CALLS_H
#define SMCRD_LIB_SMCR_CALLS_H

#include <linux/sockios.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "lib/smcr/policy.h"

/** connect.c. `fd` may be a pair end afterwards. */
int pre_connect(int fd, const struct sockaddr *addr, socklen_t len, enum pre_policy policy);
/** outcome.c. Put the TCP socket back in the place of a pair end. @return 0: `fd` is the TCP
 * socket; or a negative errno */
int pre_take_back(int fd);
/** accept.c. The result may be a pair end. */
int pre_accept(int fd, struct sockaddr *addr, socklen_t *len, enum pre_policy policy);
int pre_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags, enum pre_policy policy);
int pre_listen(int fd, int backlog, enum pre_policy policy);
/** epoll.c */
int pre_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
/** names.c */
int pre_getsockname(int fd, struct sockaddr *addr, socklen_t *len);
int pre_getpeername(int fd, struct sockaddr *addr, socklen_t *len);
/** sockopt.c. SO_ERROR may put the TCP socket back in the place of a pair end. */
int pre_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int pre_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
/** sockopt.c. Is it a pair end that has SO_ZEROCOPY of its listener? Then the program believes that
 * the kernel tells when it has sent what goes with MSG_ZEROCOPY. The kernel does not, as pair ends
 * have no error queue. It answers ENOBUFS where it cannot promise to tell. */
bool pre_zerocopy_would_fail(int fd);
/** control.c. While a connect() goes on, `fd` becomes a TCP socket that can be connected again. */
int pre_shutdown(int fd, int how);
/** connect.c. May a send with MSG_FASTOPEN go on? With PRE_REQUIRE it must not connect a TCP
 * socket, because it does so past SMC-R. @return 0, or -EOPNOTSUPP as where TCP Fast Open is off */
int pre_fast_open(int fd, enum pre_policy policy);
/** control.c. To be called for requests for which pre_ioctl_concerns() is true. */
int pre_ioctl(int fd, unsigned long request, void *arg);

/** May a pair end have to answer this request differently from a Unix socket? */
static inline bool pre_ioctl_concerns(unsigned long request)
{
	return request == TIOCOUTQ || _IOC_TYPE(request) == SOCK_IOC_TYPE;
}

/** The caller's address length before the kernel overwrites it. 0 for NULL and misaligned pointers,
 * which the kernel refuses. */
static inline socklen_t pre_room_at(const socklen_t *len)
{
	return len && (uintptr_t)len % _Alignof(socklen_t) == 0 ? *len : 0;
}

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file watch.h
 * Which epoll instances watch a socket that may yet be replaced, and for what. When the socket is
 * replaced, its registrations are moved to the new file; the kernel does not tell them.
 *
 * A table of fixed size without locks: no allocation, usable in signal handlers, unharmed by a fork
 * at any moment. The kernel stays the judge: an entry whose registration is gone does nothing.
 * Two threads that change the registration of one descriptor at one epoll instance at once get the
 * result of either, as with the kernel.
 */
#ifndef SMCRD_LIB_SMCR_WATCH_H
#define SMCRD_LIB_SMCR_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

#define PRE_WATCH_MAX 8 /* epoll instances that watch one descriptor */

struct pre_watch {
	int epfd;
	struct epoll_event event;
};

/** EPOLL_CTL_ADD has succeeded. @param cookie  of the socket at `fd` */
void pre_watch_set(int epfd, int fd, uint64_t cookie, const struct epoll_event *event);

/** EPOLL_CTL_MOD has succeeded. Does nothing for what is not remembered. */
void pre_watch_change(int epfd, int fd, const struct epoll_event *event);

/** EPOLL_CTL_DEL has succeeded, or the number belongs to another file now. */
void pre_watch_drop(int epfd, int fd);

/** Nothing about this descriptor is needed any more. */
void pre_watch_forget(int fd);

/** @return number of registrations remembered for the socket, at most PRE_WATCH_MAX */
size_t pre_watch_list(int fd, uint64_t cookie, struct pre_watch ret_list[PRE_WATCH_MAX]);

/** False: a registration that may be of this descriptor found no room. The socket must not be
 *  replaced then. */
bool pre_watch_complete(int fd);

#endif

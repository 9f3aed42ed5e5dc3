/* SPDX-License-Identifier: MIT */
/**
 * @file watch.h
 * Remembers which epoll instances watch a socket that may still be replaced, and for which events.
 * When the socket is replaced, its registrations are moved to the new file; the kernel cannot list
 * them.
 *
 * A table of fixed size without locks and allocation: usable in signal handlers, and not harmed by
 * a fork at any moment. An entry whose registration is gone has no effect. If two threads change
 * one registration at the same time, either result may hold, as with the kernel.
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

/** EPOLL_CTL_ADD has succeeded. If the table has no place for that, pre_watch_complete() is false
 * from now on. @param cookie  pre_cookie() of the socket at `fd` */
void pre_watch_set(int epfd, int fd, uint64_t cookie, const struct epoll_event *event);

/** EPOLL_CTL_MOD has succeeded. Does nothing if there is no entry. Like pre_watch_drop() it finds
 * an entry that was made by another number of the same epoll instance. */
void pre_watch_change(int epfd, int fd, const struct epoll_event *event);

/** EPOLL_CTL_DEL has succeeded, or `fd` is another file now. */
void pre_watch_drop(int epfd, int fd);

/** Remove all entries of this descriptor. */
void pre_watch_forget(int fd);

/** The registrations of the socket at `fd` that are remembered. The kernel may not have all of them
 * any more. @param cookie  pre_cookie() of the socket: entries of an earlier file of that number do
 * not count. @return how many, at most PRE_WATCH_MAX */
size_t pre_watch_list(int fd, uint64_t cookie, struct pre_watch ret_list[PRE_WATCH_MAX]);

/** False: the table had no place for a registration that may be of this descriptor, so the socket
 * must not be replaced. */
bool pre_watch_complete(int fd);

#endif

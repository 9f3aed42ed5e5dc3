/* SPDX-License-Identifier: MIT */
/**
 * @file poller.h
 * Edge-triggered readiness of many descriptors, as one event of the libevent base.
 *
 * The data path has to distinguish end of file (EPOLLRDHUP), close (EPOLLHUP), errors and urgent
 * data. Events of libevent merge these. So the descriptors are in an epoll instance of their own,
 * and libevent watches that instance.
 */
#ifndef SMCRD_DAEMON_CONNS_POLLER_H
#define SMCRD_DAEMON_CONNS_POLLER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

struct event_base;
struct poller;

/** What the owner of a descriptor embeds. */
struct watch {
	int fd;          /* -1: not watched */
	uint32_t events; /* EPOLL bits that are asked for */
	/** Called with EPOLL bits once for each change. It may remove this watch and others. */
	void (*ready)(struct watch *watch, uint32_t events);
};

/**
 * @param batch  NULL, or called around the callbacks of each round: before them with true, after
 *               them with false
 */
int poller_new(struct event_base *base, void (*batch)(void *ctx, bool begin), void *ctx,
	       struct poller **ret_poller);
/** All watches must have been removed. */
void poller_free(struct poller *poller);

/** What to watch for while no room is needed. A Unix socket reports EPOLLOUT whenever its reader
 * reads, so ask for EPOLLOUT only while it is needed. */
#define POLLER_INPUT ((uint32_t)(EPOLLIN | EPOLLRDHUP | EPOLLPRI))

/** Watch for `events`, edge-triggered; EPOLLHUP and EPOLLERR are always reported. */
int poller_add(struct poller *poller, struct watch *watch, int fd, uint32_t events,
	       void (*ready)(struct watch *watch, uint32_t events));
/** Watch for other events. Those of them that hold already are reported once more. */
void poller_modify(struct poller *poller, struct watch *watch, uint32_t events);
/** Stop watching; no callback follows. The descriptor must still be open. Nothing happens if it is
 * not watched. */
void poller_remove(struct poller *poller, struct watch *watch);
/** As poller_remove() without its system call. Only for a file of which this is the last
 * descriptor, and which is closed before the event loop runs again. */
void poller_forget(struct poller *poller, struct watch *watch);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file poller.h
 * Edge-triggered readiness of many descriptors, as one event of the libevent base.
 *
 * The data path must tell end of file (EPOLLRDHUP) from close (EPOLLHUP), an error and urgent data
 * apart, which libevent's events merge. So these descriptors live in an epoll instance of their
 * own, and libevent watches that instance.
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
	uint32_t events; /* asked for */
	/** Called with EPOLL bits once for each change; `watch` may be removed in it, others too.
	 */
	void (*ready)(struct watch *watch, uint32_t events);
};

/**
 * @param batch  NULL or called with true before and with false after the callbacks of one round
 */
int poller_new(struct event_base *base, void (*batch)(void *ctx, bool begin), void *ctx,
	       struct poller **ret_poller);
/** All watches must have been removed. */
void poller_free(struct poller *poller);

/** What an owner that never waits for room asks for. Room on a Unix socket is told whenever the
 *  reader reads, wanted or not: ask for EPOLLOUT only while it is needed. */
#define POLLER_INPUT ((uint32_t)(EPOLLIN | EPOLLRDHUP | EPOLLPRI))

/** Watch for `events` (EPOLLHUP and EPOLLERR are always told), edge-triggered. */
int poller_add(struct poller *poller, struct watch *watch, int fd, uint32_t events,
	       void (*ready)(struct watch *watch, uint32_t events));
/** Change what is watched for. What holds already of it is told again. */
void poller_modify(struct poller *poller, struct watch *watch, uint32_t events);
/** No callback follows. The descriptor must still be open. Nothing happens if it is not watched. */
void poller_remove(struct poller *poller, struct watch *watch);
/** As poller_remove(), of a descriptor that nobody else holds and that is closed before the poller
 *  looks again: that saves a system call. */
void poller_forget(struct poller *poller, struct watch *watch);

#endif

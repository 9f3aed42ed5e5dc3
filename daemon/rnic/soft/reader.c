/* SPDX-License-Identifier: MIT */
/* Reads the interface's state in a thread of its own. The kernel answers RTM_GETLINK under a lock
 * that every change of any interface takes, in all network namespaces. So a reader may have to wait
 * for a process that holds the lock and has no processor. The thread that moves data must not wait.
 */
#include <errno.h>
#include <event2/event.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/rnic/soft/internal.h"

struct soft_reader {
	/* used by the event loop */
	void (*on_read)(void *ctx, int result, const struct rnic_netdev *netdev);
	void *ctx;
	struct event *event;
	/* used by the thread */
	struct nl_sock *nl;
	unsigned int ifindex;
	/* used by both, under the lock; `fd` wakes the event loop */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	unsigned int users;
	bool asked, quit;
	int result;
	struct rnic_netdev netdev;
	int fd;
};

static void destroy(struct soft_reader *reader)
{
	if (reader->nl)
		nl_socket_free(reader->nl);
	if (reader->fd >= 0)
		close(reader->fd);
	pthread_cond_destroy(&reader->wake);
	pthread_mutex_destroy(&reader->lock);
	free(reader);
}

/* The thread or the event loop has done with the reader; the last one frees it. The lock is held
 * before and not after. */
static void leave(struct soft_reader *reader)
{
	bool last = --reader->users == 0;
	pthread_mutex_unlock(&reader->lock);
	if (last)
		destroy(reader);
}

static void *run(void *arg)
{
	struct soft_reader *reader = arg;
	pthread_mutex_lock(&reader->lock);
	while (!reader->quit) {
		struct rnic_netdev netdev = { 0 };
		if (!reader->asked) {
			pthread_cond_wait(&reader->wake, &reader->lock);
			continue;
		}
		reader->asked = false; /* a request from here on causes another reading */
		pthread_mutex_unlock(&reader->lock);
		int result = rnic_netdev_read(reader->nl, reader->ifindex, &netdev);
		pthread_mutex_lock(&reader->lock);
		reader->result = result;
		reader->netdev = netdev;
		eventfd_write(reader->fd, 1);
	}
	leave(reader);
	return NULL;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct soft_reader *reader = arg;
	eventfd_t times;
	(void)what;
	if (eventfd_read(fd, &times))
		return;
	pthread_mutex_lock(&reader->lock);
	int result = reader->result;
	struct rnic_netdev netdev = reader->netdev;
	pthread_mutex_unlock(&reader->lock);
	reader->on_read(reader->ctx, result, &netdev);
}

/* Start the thread, with all signals blocked: the event loop handles them. */
static int start(struct soft_reader *reader)
{
	pthread_t thread;
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = pthread_create(&thread, NULL, run, reader);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error)
		return -error;
	pthread_detach(thread);
	return 0;
}

int soft_reader_new(struct event_base *base, unsigned int ifindex,
		    void (*on_read)(void *ctx, int result, const struct rnic_netdev *netdev),
		    void *ctx, struct soft_reader **ret_reader)
{
	struct soft_reader *reader = calloc(1, sizeof(*reader));
	if (!reader)
		return -ENOMEM;
	reader->on_read = on_read;
	reader->ctx = ctx;
	reader->ifindex = ifindex;
	reader->users = 2;
	pthread_mutex_init(&reader->lock, NULL);
	pthread_cond_init(&reader->wake, NULL);
	reader->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int r = reader->fd < 0 ? -errno : -ENOMEM;
	reader->nl = nl_socket_alloc();
	if (reader->fd >= 0 && reader->nl)
		reader->event =
			event_new(base, reader->fd, EV_READ | EV_PERSIST, on_readable, reader);
	if (reader->event && event_add(reader->event, NULL) == 0)
		r = nl_connect(reader->nl, NETLINK_ROUTE) < 0 ? -EIO : start(reader);
	if (r) {
		if (reader->event)
			event_free(reader->event);
		destroy(reader);
		return r;
	}
	*ret_reader = reader;
	return 0;
}

void soft_reader_ask(struct soft_reader *reader)
{
	pthread_mutex_lock(&reader->lock);
	reader->asked = true;
	pthread_cond_signal(&reader->wake);
	pthread_mutex_unlock(&reader->lock);
}

void soft_reader_free(struct soft_reader *reader)
{
	if (!reader)
		return;
	event_free(reader->event);
	pthread_mutex_lock(&reader->lock);
	reader->quit = true;
	pthread_cond_signal(&reader->wake);
	leave(reader);
}

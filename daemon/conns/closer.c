/* SPDX-License-Identifier: MIT */
/*
 * Descriptors that clients sent are closed here. close() of some files waits for others: a TCP
 * socket with SO_LINGER for its peer, a file of a user-space file system for the program behind it.
 * The event loop must not wait for either, so those are closed by threads, few at a time; and the
 * sessions of a user who sends many of them are ended.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/conns/internal.h"

#define THREADS_MAX 32
#define OVERDUE     64 /* of one user: more is not taken */
#define STACK_BYTES (64 * 1024)

struct waiting {
	int fd;
	struct quota *quota; /* stays as long as something is counted in it */
	struct waiting *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct waiting *queue; /* no thread has taken them yet */
static unsigned int threads;

static bool may_block(int fd)
{
	struct linger linger;
	socklen_t len = sizeof(linger);
	if (getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &len) < 0)
		return errno == ENOTSOCK;
	return linger.l_onoff && linger.l_linger > 0;
}

static void *close_queued(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&lock);
	while (queue) {
		struct waiting *item = queue;
		LL_DELETE(queue, item);
		pthread_mutex_unlock(&lock);
		close(item->fd);
		pthread_mutex_lock(&lock);
		if (--item->quota->closing == 0 && item->quota->abandoned)
			free(item->quota);
		free(item);
	}
	threads--;
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* Called with the lock held. */
static void start_thread(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	if (threads == THREADS_MAX || pthread_attr_init(&attr) != 0)
		return;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	if (pthread_create(&thread, &attr, close_queued, NULL) == 0)
		threads++; /* it stays in the queue otherwise, for the next one */
	pthread_attr_destroy(&attr);
}

uint32_t close_pending(const struct quota *quota)
{
	pthread_mutex_lock(&lock);
	uint32_t closing = quota->closing;
	pthread_mutex_unlock(&lock);
	return closing;
}

bool close_overdue(const struct quota *quota)
{
	return close_pending(quota) >= OVERDUE;
}

void close_abandon(struct quota *quota)
{
	pthread_mutex_lock(&lock);
	quota->abandoned = true;
	if (quota->closing == 0)
		free(quota);
	pthread_mutex_unlock(&lock);
}

void close_foreign(int fd, struct quota *quota)
{
	if (fd < 0)
		return;
	struct waiting *item = may_block(fd) ? malloc(sizeof(*item)) : NULL;
	if (!item) {
		close(fd);
		return;
	}
	item->fd = fd;
	item->quota = quota;
	pthread_mutex_lock(&lock);
	quota->closing++;
	LL_APPEND(queue, item);
	start_thread();
	pthread_mutex_unlock(&lock);
}

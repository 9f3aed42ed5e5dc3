/* SPDX-License-Identifier: MIT */
/*
 * Descriptors that clients sent are closed here. close() of some files waits for others: a TCP
 * socket with SO_LINGER for its peer, a file of a user-space file system for the program behind it.
 * The event loop must not wait for either, so those are closed by threads, few at a time; and the
 * sessions of a user who sends many of them are ended. A user gets few threads, and no more than it
 * leaves to others: nobody waits for what somebody else has closed.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/conns/internal.h"

#define THREADS_MAX     64
#define THREADS_OF_USER 4
#define OVERDUE         64 /* of one user: more is not taken */
#define STACK_BYTES     (64 * 1024)

struct waiting {
	int fd;
	struct quota *quota; /* stays as long as something is counted in it */
	struct waiting *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct waiting *queue; /* no thread has taken them yet */
static unsigned int threads;  /* each with one that it closes */

static bool may_block(int fd)
{
	struct linger linger;
	socklen_t len = sizeof(linger);
	if (getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &len) < 0)
		return errno == ENOTSOCK;
	return linger.l_onoff && linger.l_linger > 0;
}

/* All below are called with the lock held, save for close_some(). */

static bool may_have_thread(const struct quota *quota)
{
	unsigned int free = THREADS_MAX - threads;
	return quota->closers < THREADS_OF_USER && quota->closers < free;
}

/* The thread gives itself back, and takes the next one that may have it. */
static struct waiting *next_of(struct waiting *done)
{
	struct quota *quota = done->quota;
	struct waiting *item;
	threads--;
	quota->closers--;
	if (--quota->closing == 0 && quota->abandoned)
		free(quota);
	free(done);
	LL_FOREACH (queue, item)
		if (may_have_thread(item->quota))
			break;
	if (!item)
		return NULL;
	LL_DELETE(queue, item);
	item->quota->closers++;
	threads++;
	return item;
}

static void *close_some(void *arg)
{
	struct waiting *item = arg;
	while (item) {
		close(item->fd);
		pthread_mutex_lock(&lock);
		item = next_of(item);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

/* @return false: there is no thread to be had */
static bool start_thread(struct waiting *item)
{
	pthread_attr_t attr;
	pthread_t thread;
	if (!may_have_thread(item->quota) || pthread_attr_init(&attr) != 0)
		return false;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	bool started = pthread_create(&thread, &attr, close_some, item) == 0;
	pthread_attr_destroy(&attr);
	if (started) {
		item->quota->closers++;
		threads++;
	}
	return started;
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
	if (!start_thread(item))
		LL_APPEND(queue, item); /* for a thread that has done something else */
	pthread_mutex_unlock(&lock);
}

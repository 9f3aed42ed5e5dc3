/* SPDX-License-Identifier: MIT */
/*
 * This file closes descriptors that clients sent. close() of some files blocks: that of a TCP
 * socket with SO_LINGER until its peer has answered, that of a file of a user-space file system
 * until the program behind it has. The event loop must not block, so threads close such files. If
 * too many of a user's descriptors wait to be closed, the user's sessions are ended. A user gets
 * few threads, and never more than are left for others, so no user waits for files of another one.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/conns/internal.h"

#define THREADS_MAX     64
#define THREADS_OF_USER 4
#define OVERDUE         64 /* waiting closes of one user, at which no more descriptors are taken */
#define STACK_BYTES     (64 * 1024)

struct waiting {
	int fd;
	struct quota *quota; /* is not freed before quota->closing is 0 */
	struct waiting *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct waiting *queue; /* descriptors that no thread has taken yet */
static unsigned int threads;  /* how many run; each closes one descriptor */
static unsigned int pending;  /* descriptors in the queue and of threads */

static bool may_block(int fd)
{
	struct linger linger;
	socklen_t len = sizeof(linger);
	if (getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &len) < 0)
		return errno == ENOTSOCK;
	return linger.l_onoff && linger.l_linger > 0;
}

/* The lock is held in next_of(), start_thread() and may_have_thread(). */

static bool may_have_thread(const struct quota *quota)
{
	unsigned int free = THREADS_MAX - threads;
	return quota->closers < THREADS_OF_USER && quota->closers < free;
}

/* A thread has closed `done`. @return the next descriptor for this thread; NULL: the thread ends */
static struct waiting *next_of(struct waiting *done)
{
	struct quota *quota = done->quota;
	struct waiting *item;
	threads--;
	pending--;
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

/* @return false: the user may not have another thread, or none could be made */
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

uint32_t close_pending_of_all(void)
{
	pthread_mutex_lock(&lock);
	uint32_t closing = pending;
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
	pending++;
	if (!start_thread(item))
		LL_APPEND(queue, item); /* for a thread whose close() returns */
	pthread_mutex_unlock(&lock);
}

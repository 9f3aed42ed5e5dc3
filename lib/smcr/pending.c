/* SPDX-License-Identifier: MIT */
#include "lib/smcr/pending.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "lib/smcr/pair.h"

#define SLOTS 4096 /* cookies modulo this share a slot; the newest connect() gets it */

/* `cookie` is written last and cleared first. 0, which no socket has: empty. */
struct entry {
	_Atomic uint64_t cookie;
	_Atomic int fd;
	_Atomic uint32_t forks;         /* how many forks there had been when the entry was made */
	_Atomic uint32_t registrations; /* with epoll instances, since then */
};

/* After so many the program has long used the connection without asking for its outcome. */
#define REGISTRATIONS_MAX 4

static struct entry table[SLOTS];
static _Atomic uint32_t entries; /* also of pair ends that were closed since */
static _Atomic uint32_t forks;

/* Counted before and after a fork, so that an entry that another thread makes in between does not
 * count as the child's own. */
static void count_fork(void)
{
	atomic_fetch_add(&forks, 1);
}

void pre_pending_begin(void)
{
	pthread_atfork(count_fork, count_fork, count_fork);
}

static struct entry *find(uint64_t cookie)
{
	struct entry *entry = &table[cookie % SLOTS];
	return atomic_load(&entry->cookie) == cookie ? entry : NULL;
}

void pre_pending_add(int fd, uint64_t cookie)
{
	struct entry *entry = &table[cookie % SLOTS];
	if (atomic_exchange(&entry->cookie, 0) == 0)
		atomic_fetch_add(&entries, 1);
	atomic_store(&entry->fd, fd);
	atomic_store(&entry->forks, atomic_load(&forks));
	atomic_store(&entry->registrations, 0);
	atomic_store(&entry->cookie, cookie);
}

bool pre_pending_open_at(int fd)
{
	uint64_t cookie;
	return atomic_load(&entries) > 0 && pre_cookie(fd, &cookie) == 0 && find(cookie);
}

bool pre_pending_registered(int fd, uint64_t *ret_cookie)
{
	if (atomic_load(&entries) == 0 || pre_cookie(fd, ret_cookie) < 0)
		return false;
	struct entry *entry = find(*ret_cookie);
	if (!entry)
		return false;
	if (atomic_fetch_add(&entry->registrations, 1) < REGISTRATIONS_MAX)
		return true;
	pre_pending_drop(*ret_cookie);
	return false;
}

bool pre_pending_is_ours(uint64_t cookie, int *ret_fd)
{
	struct entry *entry = find(cookie);
	if (!entry || atomic_load(&entry->forks) != atomic_load(&forks))
		return false;
	*ret_fd = atomic_load(&entry->fd);
	return true;
}

void pre_pending_drop(uint64_t cookie)
{
	struct entry *entry = find(cookie);
	if (entry && atomic_compare_exchange_strong(&entry->cookie, &cookie, 0))
		atomic_fetch_sub(&entries, 1);
}

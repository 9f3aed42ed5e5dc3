/* SPDX-License-Identifier: MIT */
#include "lib/smcr/pending.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "lib/smcr/pair.h"

#define SLOTS 4096 /* descriptor numbers modulo this share a slot; the newest connect() gets it */

enum { NONE, OPEN, SETTLED };

/* `key` is written last and cleared first. An entry that is written in part has a cookie that no
 * socket has. */
struct entry {
	_Atomic uint32_t key; /* descriptor + 1, 0: empty */
	_Atomic uint32_t state;
	_Atomic uint32_t forks; /* how many forks there had been when the entry was made */
	_Atomic uint64_t cookie;
};

static struct entry table[SLOTS];
static _Atomic uint32_t forks;

/* Counted before and after a fork, so that an entry that another thread makes in between does not
 * count as the child's own. */
static void count_fork(void)
{
	atomic_fetch_add(&forks, 1);
}

void pre_pending_open(void)
{
	pthread_atfork(count_fork, count_fork, count_fork);
}

static struct entry *slot_of(int fd)
{
	return &table[(unsigned)fd % SLOTS];
}

static struct entry *find(int fd, uint64_t cookie)
{
	struct entry *entry = slot_of(fd);
	if (atomic_load(&entry->key) != (uint32_t)fd + 1 || atomic_load(&entry->cookie) != cookie)
		return NULL;
	return entry;
}

void pre_pending_add(int fd, uint64_t cookie)
{
	struct entry *entry = slot_of(fd);
	atomic_store(&entry->key, 0);
	atomic_store(&entry->cookie, cookie);
	atomic_store(&entry->state, OPEN);
	atomic_store(&entry->forks, atomic_load(&forks));
	atomic_store(&entry->key, (uint32_t)fd + 1);
}

bool pre_pending_open_at(int fd)
{
	struct entry *entry = slot_of(fd);
	uint64_t cookie;
	return atomic_load(&entry->key) == (uint32_t)fd + 1 && atomic_load(&entry->state) == OPEN &&
	       pre_cookie(fd, &cookie) == 0 && cookie == atomic_load(&entry->cookie);
}

bool pre_pending_is_ours(int fd, uint64_t cookie)
{
	struct entry *entry = find(fd, cookie);
	return entry && atomic_load(&entry->state) == OPEN &&
	       atomic_load(&entry->forks) == atomic_load(&forks);
}

void pre_pending_settle(int fd, uint64_t cookie)
{
	struct entry *entry = find(fd, cookie);
	if (entry)
		atomic_store(&entry->state, SETTLED);
}

bool pre_pending_report(int fd, uint64_t cookie)
{
	struct entry *entry = find(fd, cookie);
	return entry && atomic_exchange(&entry->key, 0) != 0;
}

void pre_pending_drop(int fd)
{
	struct entry *entry = slot_of(fd);
	uint32_t key = (uint32_t)fd + 1;
	atomic_compare_exchange_strong(&entry->key, &key, 0);
}

/* SPDX-License-Identifier: MIT */
#include "lib/smcr/watch.h"

#include <stdatomic.h>

#include "lib/smcr/pair.h"
#include "lib/smcr/sys.h"

#define BUCKETS 4096 /* descriptors below this have a bucket of their own */

/*
 * The key of a slot is that of a registration (key_of()), or one of these. A slot is filled while
 * it is BUSY, so that nobody takes half an entry for a whole one:
 *
 *     FREE, or a key  -- seize() -->  BUSY  -- fill() -->  a key  -- drop, forget -->  FREE
 *
 * If a process forks while another thread fills a slot, that slot is lost to the child.
 */
#define FREE 0ULL
#define BUSY UINT64_MAX

struct slot {
	_Atomic uint64_t key; /* the other members count only while this is a registration's */
	_Atomic uint64_t cookie;
	_Atomic uint64_t data;
	_Atomic uint32_t events;
};

struct bucket {
	struct slot slots[PRE_WATCH_MAX];
};

static struct bucket table[BUCKETS];
static _Atomic bool overflowed[BUCKETS];

static size_t index_of(int fd)
{
	return (unsigned)fd % BUCKETS;
}

static uint64_t key_of(int epfd, int fd)
{
	return ((uint64_t)((uint32_t)epfd + 1) << 32) | (uint32_t)fd;
}

static int key_fd(uint64_t key)
{
	return (int)(uint32_t)key;
}

static int key_epfd(uint64_t key)
{
	return (int)(uint32_t)(key >> 32) - 1;
}

static bool holds_entry(uint64_t key)
{
	return key != FREE && key != BUSY;
}

static struct slot *find(int epfd, int fd)
{
	struct bucket *bucket = &table[index_of(fd)];
	for (size_t i = 0; i < PRE_WATCH_MAX; i++)
		if (atomic_load(&bucket->slots[i].key) == key_of(epfd, fd))
			return &bucket->slots[i];
	return NULL;
}

/* @return true: this thread may fill the slot */
static bool seize(struct slot *slot, uint64_t key)
{
	return atomic_compare_exchange_strong(&slot->key, &key, BUSY);
}

/* Is the entry's socket closed? close() ends registrations without a call of epoll_ctl(). */
static bool is_stale(const struct slot *slot, uint64_t key)
{
	uint64_t cookie;
	return pre_cookie(key_fd(key), &cookie) < 0 || cookie != atomic_load(&slot->cookie);
}

/* Find a registration that the program may have made by another number of the epoll instance: it
 * has duplicated that. */
static struct slot *find_any(int epfd, int fd, uint64_t *ret_key)
{
	struct slot *slot = find(epfd, fd);
	struct bucket *bucket = &table[index_of(fd)];
	*ret_key = key_of(epfd, fd);
	for (size_t i = 0; i < PRE_WATCH_MAX && !slot; i++) {
		const uint64_t key = atomic_load(&bucket->slots[i].key);
		if (!holds_entry(key) || key_fd(key) != fd || is_stale(&bucket->slots[i], key) ||
		    !sys_is_same(key_epfd(key), epfd))
			continue;
		slot = &bucket->slots[i];
		*ret_key = key;
	}
	return slot;
}

static struct slot *seize_any(struct bucket *bucket)
{
	for (size_t i = 0; i < PRE_WATCH_MAX; i++)
		if (seize(&bucket->slots[i], FREE))
			return &bucket->slots[i];
	for (size_t i = 0; i < PRE_WATCH_MAX; i++) {
		struct slot *slot = &bucket->slots[i];
		uint64_t key = atomic_load(&slot->key);
		if (holds_entry(key) && is_stale(slot, key) && seize(slot, key))
			return slot;
	}
	return NULL;
}

static void fill(struct slot *slot, uint64_t key, uint64_t cookie, const struct epoll_event *event)
{
	atomic_store_explicit(&slot->cookie, cookie, memory_order_relaxed);
	atomic_store_explicit(&slot->data, event->data.u64, memory_order_relaxed);
	atomic_store_explicit(&slot->events, event->events, memory_order_relaxed);
	atomic_store(&slot->key, key);
}

void pre_watch_set(int epfd, int fd, uint64_t cookie, const struct epoll_event *event)
{
	uint64_t key = key_of(epfd, fd);
	struct slot *slot = find(epfd, fd);
	if (!slot || !seize(slot, key))
		slot = seize_any(&table[index_of(fd)]);
	if (slot)
		fill(slot, key, cookie, event);
	else
		atomic_store(&overflowed[index_of(fd)], true);
}

void pre_watch_change(int epfd, int fd, const struct epoll_event *event)
{
	uint64_t key;
	struct slot *slot = find_any(epfd, fd, &key);
	if (slot && seize(slot, key))
		fill(slot, key, atomic_load(&slot->cookie), event);
}

void pre_watch_drop(int epfd, int fd)
{
	uint64_t key;
	struct slot *slot = find_any(epfd, fd, &key);
	if (slot)
		atomic_compare_exchange_strong(&slot->key, &key, FREE);
}

void pre_watch_forget(int fd)
{
	struct bucket *bucket = &table[index_of(fd)];
	for (size_t i = 0; i < PRE_WATCH_MAX; i++) {
		uint64_t key = atomic_load(&bucket->slots[i].key);
		if (holds_entry(key) && key_fd(key) == fd)
			atomic_compare_exchange_strong(&bucket->slots[i].key, &key, FREE);
	}
}

size_t pre_watch_list(int fd, uint64_t cookie, struct pre_watch ret_list[PRE_WATCH_MAX])
{
	struct bucket *bucket = &table[index_of(fd)];
	size_t count = 0;
	for (size_t i = 0; i < PRE_WATCH_MAX; i++) {
		struct slot *slot = &bucket->slots[i];
		uint64_t key = atomic_load(&slot->key);
		if (!holds_entry(key) || key_fd(key) != fd || atomic_load(&slot->cookie) != cookie)
			continue;
		ret_list[count++] = (struct pre_watch){
			.epfd = key_epfd(key),
			.event = { .events = atomic_load(&slot->events),
				   .data = { .u64 = atomic_load(&slot->data) } },
		};
	}
	return count;
}

bool pre_watch_complete(int fd)
{
	return !atomic_load(&overflowed[index_of(fd)]);
}

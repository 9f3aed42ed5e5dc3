/* SPDX-License-Identifier: MIT */
#include "daemon/host/neigh.h"

#include <errno.h>
#include <linux/neighbour.h>
#include <netlink/netlink.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <utlist.h>

#include "daemon/host/arp.h"
#include "daemon/host/neigh_entry.h"

/* Usually it is less than a millisecond; with more the links of others would suffer. */
#define SETTLE_MS 20
/* How long a neighbour may take to answer ARP before others get their turn. */
#define ANSWER_MS 20
/* One that has not answered is asked again, after twice the time each time, until it counts as a
 * liar or as out of reach: after 25 s. */
#define AGAIN_MS 100
#define TRIES    9

#define STATIC_STATES (NUD_PERMANENT | NUD_NOARP) /* an administrator's, or of no use for ARP */

struct entry {
	struct neigh_key key;
	uint8_t mac[6];
	unsigned int users;
	struct entry *next, *prev;
};

/* Have the entry in the kernel, or not. */
struct change {
	struct entry entry;
	bool present;
	unsigned int tries; /* that have failed */
	int64_t due;        /* the next one, in milliseconds */
	struct change *next, *prev;
};

struct neigh_table {
	struct entry *entries;
	pthread_t thread;
	/* the thread's */
	struct nl_sock *nl;
	struct change *doubtful; /* not confirmed, tried again */
	/* under the lock */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct change *todo;
	bool busy, quit;
};

static int64_t now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static struct timespec time_of(int64_t ms)
{
	return (struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
}

static bool same_key(const struct neigh_key *a, const struct neigh_key *b)
{
	return a->ifindex == b->ifindex && a->family == b->family &&
	       !memcmp(a->addr, b->addr, sizeof(a->addr));
}

/* ---- the thread: one entry */

static bool is_ours(const struct neigh_entry *found)
{
	return found->state && found->protocol == NEIGH_PROTOCOL;
}

/* What the kernel has found out by itself counts like an answer. */
static bool is_confirmed(const struct entry *entry, const struct neigh_entry *found)
{
	if (found->state & (NUD_REACHABLE | NUD_STALE | NUD_DELAY) && found->has_mac &&
	    !memcmp(found->mac, entry->mac, sizeof(entry->mac)))
		return true;
	return entry->key.family == AF_INET &&
	       arp_confirms(entry->key.ifindex, entry->key.addr, entry->mac, ANSWER_MS);
}

/* @return false: to be tried again. It fails while the interface is down, or when it is gone: so is
 * the entry then. */
static bool establish(struct nl_sock *nl, const struct entry *entry)
{
	struct neigh_entry found;
	if (neigh_entry_read(nl, &entry->key, &found) < 0)
		return false;
	if (is_ours(&found) ? !memcmp(found.mac, entry->mac, sizeof(entry->mac))
			    : (found.state & STATIC_STATES) != 0)
		return true;
	return is_confirmed(entry, &found) &&
	       neigh_entry_write(nl, &entry->key, entry->mac, NEIGH_PROTOCOL) == 0;
}

static void withdraw(struct nl_sock *nl, const struct entry *entry)
{
	struct neigh_entry found;
	if (neigh_entry_read(nl, &entry->key, &found) == 0 && is_ours(&found))
		neigh_entry_delete(nl, &entry->key);
}

/* ---- the thread: all of them */

static struct change *find_doubtful(struct neigh_table *table, const struct neigh_key *key)
{
	struct change *change;
	DL_FOREACH (table->doubtful, change) {
		if (same_key(&change->entry.key, key))
			return change;
	}
	return NULL;
}

static void try(struct neigh_table *table, struct change *change)
{
	if (establish(table->nl, &change->entry) || ++change->tries == TRIES) {
		free(change);
		return;
	}
	change->due = now_ms() + ((int64_t)AGAIN_MS << (change->tries - 1));
	DL_APPEND(table->doubtful, change);
}

static void apply(struct neigh_table *table, struct change *change)
{
	struct change *before = find_doubtful(table, &change->entry.key);
	if (before) {
		DL_DELETE(table->doubtful, before);
		free(before);
	}
	if (change->present) {
		try(table, change);
		return;
	}
	withdraw(table->nl, &change->entry);
	free(change);
}

/* The one that is due next, or NULL. */
static struct change *next_doubtful(struct neigh_table *table)
{
	struct change *change, *next = table->doubtful;
	DL_FOREACH (table->doubtful, change) {
		if (change->due < next->due)
			next = change;
	}
	return next;
}

static void try_again(struct neigh_table *table)
{
	struct change *change = next_doubtful(table);
	if (!change || now_ms() < change->due)
		return;
	DL_DELETE(table->doubtful, change);
	try(table, change);
}

static void note_ours(void *ctx, const struct neigh_key *key, const struct neigh_entry *found)
{
	struct change **list = ctx, *change = is_ours(found) ? calloc(1, sizeof(*change)) : NULL;
	if (!change)
		return;
	change->entry.key = *key;
	DL_APPEND(*list, change);
}

/* What a daemon that was killed has left. */
static void purge(struct neigh_table *table)
{
	struct change *list = NULL, *change, *next;
	neigh_entry_each(table->nl, note_ours, &list);
	DL_FOREACH_SAFE (list, change, next) {
		neigh_entry_delete(table->nl, &change->entry.key);
		free(change);
	}
}

/* With the lock held: until there is something to do. */
static void wait_for_work(struct neigh_table *table)
{
	const struct change *next = next_doubtful(table);
	if (!next) {
		pthread_cond_wait(&table->changed, &table->lock);
		return;
	}
	const struct timespec due = time_of(next->due);
	pthread_cond_clockwait(&table->changed, &table->lock, CLOCK_MONOTONIC, &due);
}

/* What is asked for goes before what is tried again. */
static void work(struct neigh_table *table)
{
	struct change *change = table->todo;
	if (change) {
		DL_DELETE(table->todo, change);
		table->busy = true;
	}
	pthread_mutex_unlock(&table->lock);
	if (change)
		apply(table, change);
	else
		try_again(table);
	pthread_mutex_lock(&table->lock);
	table->busy = false;
	pthread_cond_broadcast(&table->changed);
}

static void *run(void *arg)
{
	struct neigh_table *table = arg;
	struct change *change, *next;
	purge(table);
	pthread_mutex_lock(&table->lock);
	table->busy = false;
	while (table->todo || !table->quit) {
		work(table);
		if (!table->todo && !table->quit)
			wait_for_work(table);
	}
	pthread_mutex_unlock(&table->lock);
	DL_FOREACH_SAFE (table->doubtful, change, next)
		free(change);
	return NULL;
}

/* ---- the table */

static int ask(struct neigh_table *table, const struct entry *entry, bool present)
{
	struct change *change = malloc(sizeof(*change));
	if (!change)
		return -ENOMEM;
	*change = (struct change){ .entry = *entry, .present = present };
	pthread_mutex_lock(&table->lock);
	DL_APPEND(table->todo, change);
	pthread_cond_broadcast(&table->changed);
	pthread_mutex_unlock(&table->lock);
	return 0;
}

/* Signals are the event loop's. */
static int start(struct neigh_table *table)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = pthread_create(&table->thread, NULL, run, table);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -error;
}

static void destroy(struct neigh_table *table)
{
	pthread_cond_destroy(&table->changed);
	pthread_mutex_destroy(&table->lock);
	nl_socket_free(table->nl);
	free(table);
}

int neigh_table_new(struct neigh_table **ret_table)
{
	struct neigh_table *table = calloc(1, sizeof(*table));
	if (!table)
		return -ENOMEM;
	table->busy = true; /* until what was left is gone */
	pthread_mutex_init(&table->lock, NULL);
	pthread_cond_init(&table->changed, NULL);
	table->nl = nl_socket_alloc();
	int error = table->nl && nl_connect(table->nl, NETLINK_ROUTE) >= 0 ? start(table) : -EIO;
	if (error) {
		destroy(table);
		return error;
	}
	*ret_table = table;
	return 0;
}

static void drop(struct neigh_table *table, struct entry *entry)
{
	ask(table, entry, false);
	DL_DELETE(table->entries, entry);
	free(entry);
}

void neigh_table_free(struct neigh_table *table)
{
	if (!table)
		return;
	while (table->entries)
		drop(table, table->entries);
	pthread_mutex_lock(&table->lock);
	table->quit = true;
	pthread_cond_broadcast(&table->changed);
	pthread_mutex_unlock(&table->lock);
	pthread_join(table->thread, NULL);
	destroy(table);
}

static struct neigh_key key_of(unsigned int ifindex, int family, const void *addr)
{
	struct neigh_key key = { .ifindex = ifindex, .family = family };
	memcpy(key.addr, addr, family == AF_INET ? 4 : 16);
	return key;
}

static struct entry *find(struct neigh_table *table, const struct neigh_key *key)
{
	struct entry *entry;
	DL_FOREACH (table->entries, entry) {
		if (same_key(&entry->key, key))
			return entry;
	}
	return NULL;
}

int neigh_set(struct neigh_table *table, unsigned int ifindex, int family, const void *addr,
	      const uint8_t mac[6])
{
	const struct neigh_key key = key_of(ifindex, family, addr);
	struct entry *known = find(table, &key);
	struct entry *entry = known ? known : calloc(1, sizeof(*entry));
	if (!entry)
		return -ENOMEM;
	entry->key = key;
	/* Also when known: the MAC may have changed. */
	memcpy(entry->mac, mac, sizeof(entry->mac));
	int error = ask(table, entry, true);
	if (error) {
		if (!known)
			free(entry);
		return error;
	}
	if (!known)
		DL_APPEND(table->entries, entry);
	entry->users++;
	return 0;
}

void neigh_unset(struct neigh_table *table, unsigned int ifindex, int family, const void *addr)
{
	const struct neigh_key key = key_of(ifindex, family, addr);
	struct entry *entry = find(table, &key);
	if (entry && --entry->users == 0)
		drop(table, entry);
}

void neigh_restore(struct neigh_table *table, unsigned int ifindex)
{
	struct entry *entry;
	DL_FOREACH (table->entries, entry) {
		if (entry->key.ifindex == ifindex)
			ask(table, entry, true);
	}
}

bool neigh_settle(struct neigh_table *table)
{
	const struct timespec end = time_of(now_ms() + SETTLE_MS);
	int late = 0;
	pthread_mutex_lock(&table->lock);
	while ((table->todo || table->busy) && !late)
		late = pthread_cond_clockwait(&table->changed, &table->lock, CLOCK_MONOTONIC, &end);
	bool settled = !table->todo && !table->busy;
	pthread_mutex_unlock(&table->lock);
	return settled;
}

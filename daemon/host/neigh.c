/* SPDX-License-Identifier: MIT */
#include "daemon/host/neigh.h"

#include <errno.h>
#include <linux/neighbour.h>
#include <netlink/errno.h>
#include <netlink/netlink.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <utlist.h>

#include "daemon/host/neigh_entry.h"

/* Usually it is some ten microseconds; with more the links of others would suffer. */
#define SETTLE_MS 100

#define STATIC_STATES (NUD_PERMANENT | NUD_NOARP) /* an operator's, or of no use for ARP */
/* Others may change an entry between our look at it and our change. */
#define LOOKS 3

struct entry {
	struct neigh_key key;
	uint8_t mac[6];
	unsigned int users;
	struct entry *next, *prev;
};

enum what {
	PRESENT, /* have the entry in the kernel */
	ABSENT,  /* or not */
	PURGE,   /* have none that an earlier daemon has left */
};

/* What to do; or an entry that was written. */
struct change {
	enum what what;
	struct neigh_key key;
	uint8_t mac[6];
	struct change *next, *prev;
};

struct neigh_table {
	struct entry *entries;
	pthread_t thread;
	/* the thread's */
	struct nl_sock *nl;
	struct change *written; /* what we have made, and not taken back */
	/* under the lock */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct change *todo;
	bool busy, quit;
};

static bool same_key(const struct neigh_key *a, const struct neigh_key *b)
{
	return a->ifindex == b->ifindex && a->family == b->family &&
	       !memcmp(a->addr, b->addr, sizeof(a->addr));
}

static bool same_mac(const uint8_t a[6], const uint8_t b[6])
{
	return !memcmp(a, b, 6);
}

static void free_list(struct change **list)
{
	struct change *change, *next;
	DL_FOREACH_SAFE (*list, change, next) {
		DL_DELETE(*list, change);
		free(change);
	}
}

/* ---- the thread */

static struct change *find_written(const struct neigh_table *table, const struct neigh_key *key)
{
	struct change *written;
	DL_FOREACH (table->written, written) {
		if (same_key(&written->key, key))
			return written;
	}
	return NULL;
}

/* Is it as we wrote it? Where an operator puts another MAC into an entry of ours the kernel goes on
 * to call it ours. */
static bool is_ours(const struct neigh_entry *found, const struct change *written)
{
	return written && found->state & NUD_PERMANENT && found->protocol == NEIGH_PROTOCOL &&
	       found->has_mac && same_mac(found->mac, written->mac);
}

/* Remember it before it is there, so that nothing is there that nobody remembers. */
static struct change *note_written(struct neigh_table *table, const struct change *change)
{
	struct change *written = find_written(table, &change->key);
	if (!written) {
		written = calloc(1, sizeof(*written));
		if (!written)
			return NULL;
		written->key = change->key;
		DL_APPEND(table->written, written);
	}
	memcpy(written->mac, change->mac, sizeof(written->mac));
	return written;
}

/* An operator's entry stays: he knows better. It fails while the interface is down, or when it is
 * gone: so is the entry then. */
static void establish(struct neigh_table *table, const struct change *change)
{
	struct neigh_entry found;
	for (int i = 0; i < LOOKS; i++) {
		if (neigh_entry_read(table->nl, &change->key, &found) < 0)
			return;
		if (found.state & STATIC_STATES &&
		    !is_ours(&found, find_written(table, &change->key)))
			return;
		if (!note_written(table, change) ||
		    neigh_entry_write(table->nl, &change->key, change->mac, NEIGH_PROTOCOL,
				      found.state != 0) != -NLE_EXIST)
			return;
	}
}

static void withdraw(struct neigh_table *table, const struct neigh_key *key)
{
	struct change *written = find_written(table, key);
	struct neigh_entry found;
	if (!written)
		return;
	if (neigh_entry_read(table->nl, key, &found) == 0 && is_ours(&found, written))
		neigh_entry_delete(table->nl, key);
	DL_DELETE(table->written, written);
	free(written);
}

struct purge {
	struct neigh_table *table;
	struct change *left;
};

static void note_left(void *ctx, const struct neigh_key *key, const struct neigh_entry *found)
{
	struct purge *purge = ctx;
	bool left = found->state & NUD_PERMANENT && found->protocol == NEIGH_PROTOCOL &&
		    !find_written(purge->table, key);
	struct change *change = left ? calloc(1, sizeof(*change)) : NULL;
	if (!change)
		return;
	change->key = *key;
	DL_APPEND(purge->left, change);
}

static void purge(struct neigh_table *table)
{
	struct purge purge = { .table = table };
	struct change *change;
	neigh_entry_each(table->nl, note_left, &purge);
	DL_FOREACH (purge.left, change)
		neigh_entry_delete(table->nl, &change->key);
	free_list(&purge.left);
}

static void apply(struct neigh_table *table, const struct change *change)
{
	switch (change->what) {
	case PRESENT: establish(table, change); break;
	case ABSENT: withdraw(table, &change->key); break;
	case PURGE: purge(table); break;
	}
}

static void *run(void *arg)
{
	struct neigh_table *table = arg;
	pthread_mutex_lock(&table->lock);
	while (table->todo || !table->quit) {
		struct change *change = table->todo;
		if (!change) {
			pthread_cond_wait(&table->changed, &table->lock);
			continue;
		}
		DL_DELETE(table->todo, change);
		table->busy = true;
		pthread_mutex_unlock(&table->lock);
		apply(table, change);
		free(change);
		pthread_mutex_lock(&table->lock);
		table->busy = false;
		pthread_cond_broadcast(&table->changed);
	}
	pthread_mutex_unlock(&table->lock);
	free_list(&table->written);
	return NULL;
}

/* ---- the table */

static int ask(struct neigh_table *table, enum what what, const struct entry *entry)
{
	struct change *change = calloc(1, sizeof(*change));
	if (!change)
		return -ENOMEM;
	change->what = what;
	if (entry) {
		change->key = entry->key;
		memcpy(change->mac, entry->mac, sizeof(change->mac));
	}
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
	ask(table, ABSENT, entry);
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
	int error = ask(table, PRESENT, entry);
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
			ask(table, PRESENT, entry);
	}
}

int neigh_purge(struct neigh_table *table)
{
	return ask(table, PURGE, NULL);
}

bool neigh_settle(struct neigh_table *table)
{
	struct timespec end;
	int late = 0;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_nsec += SETTLE_MS * 1000000l;
	end.tv_sec += end.tv_nsec / 1000000000l;
	end.tv_nsec %= 1000000000l;
	pthread_mutex_lock(&table->lock);
	while ((table->todo || table->busy) && !late)
		late = pthread_cond_clockwait(&table->changed, &table->lock, CLOCK_MONOTONIC, &end);
	bool settled = !table->todo && !table->busy;
	pthread_mutex_unlock(&table->lock);
	return settled;
}

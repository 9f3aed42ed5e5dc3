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

/* Usually it is less than a millisecond; with more the links of others would suffer. So after one
 * that took longer nobody waits for a while: somebody may name addresses that nobody has. */
#define SETTLE_MS    20
#define IMPATIENT_MS 400
/* How long a neighbour may take to answer ARP before others get their turn. */
#define ANSWER_MS 20
/* One that has not answered is asked again, after twice the time each time, until it counts as a
 * liar or as out of reach: after 51 s, so that a switch's port may learn for 30 s first. */
#define AGAIN_MS 100
#define TRIES    10
/* A second daemon, started by mistake, has ended by then, and leaves the first one's entries. */
#define PURGE_MS 1000

/* States in which the kernel has a MAC to send to. */
#define VALID_STATES  (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY)
#define STATIC_STATES (NUD_PERMANENT | NUD_NOARP) /* an administrator's, or of no use for ARP */

/* More than one peer may name a MAC for an address, and one of them may lie: the first and the last
 * other one are remembered. */
struct entry {
	struct neigh_key key;
	uint8_t macs[2][6];
	unsigned int num_macs;
	unsigned int users;
	struct entry *next, *prev;
};

/* Have an entry in the kernel, or not; or one that was written there. */
struct change {
	struct neigh_key key;
	uint8_t mac[6];
	bool present;
	unsigned int tries; /* that have failed */
	int64_t due;        /* the next one, in milliseconds */
	struct change *next, *prev;
};

struct neigh_table {
	struct entry *entries;
	int64_t impatient_until;
	pthread_t thread;
	/* the thread's */
	struct nl_sock *nl;
	int64_t purge_at;        /* 0: it was done */
	struct change *doubtful; /* not confirmed, tried again */
	struct change *written;  /* what we have made */
	/* under the lock */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct change *todo;
	bool busy, quit;
	bool reachable; /* what was asked for last: by our entry or by the kernel's own */
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

static bool same_mac(const uint8_t a[6], const uint8_t b[6])
{
	return !memcmp(a, b, 6);
}

/* ---- the thread: one entry */

static struct change *find_written(const struct neigh_table *table, const struct neigh_key *key)
{
	struct change *written;
	DL_FOREACH (table->written, written) {
		if (same_key(&written->key, key))
			return written;
	}
	return NULL;
}

/* Is it what we wrote? Somebody may have put another one in its place, or the interface was down.
 */
static bool is_ours(const struct neigh_entry *found, const struct change *written)
{
	return written && found->state & NUD_PERMANENT && found->has_mac &&
	       same_mac(found->mac, written->mac);
}

/* What the kernel has asked for by itself counts for IPv6. */
static bool is_confirmed(const struct change *change, const struct neigh_entry *found)
{
	if (change->key.family == AF_INET)
		return arp_confirms(change->key.ifindex, change->key.addr, change->mac, ANSWER_MS);
	return found->state & NUD_REACHABLE && found->has_mac && same_mac(found->mac, change->mac);
}

static bool write_entry(struct neigh_table *table, const struct change *change)
{
	struct change *written = find_written(table, &change->key);
	if (!written) {
		written = malloc(sizeof(*written));
		if (!written)
			return false;
		written->key = change->key;
		DL_APPEND(table->written, written);
	}
	memcpy(written->mac, change->mac, sizeof(written->mac));
	return neigh_entry_write(table->nl, &change->key, change->mac, NEIGH_PROTOCOL) == 0;
}

/* @param ret_reachable  does the kernel know a way, this one or another?
 * @return false: to be tried again. It fails while the interface is down, or when it is gone: so is
 * the entry then. */
static bool establish(struct neigh_table *table, const struct change *change, bool *ret_reachable)
{
	struct neigh_entry found;
	*ret_reachable = false;
	if (neigh_entry_read(table->nl, &change->key, &found) < 0)
		return false;
	*ret_reachable = found.state & VALID_STATES;
	if (is_ours(&found, find_written(table, &change->key))) {
		if (same_mac(found.mac, change->mac))
			return true;
	} else if (found.state & STATIC_STATES) {
		return true;
	}
	if (!is_confirmed(change, &found) || !write_entry(table, change))
		return false;
	*ret_reachable = true;
	return true;
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

/* ---- the thread: all of them */

static void free_list(struct change **list)
{
	struct change *change, *next;
	DL_FOREACH_SAFE (*list, change, next) {
		DL_DELETE(*list, change);
		free(change);
	}
}

/* @return does the kernel know a way? */
static bool try(struct neigh_table *table, struct change *change)
{
	bool reachable;
	if (establish(table, change, &reachable) || ++change->tries == TRIES) {
		free(change);
		return reachable;
	}
	change->due = now_ms() + ((int64_t)AGAIN_MS << (change->tries - 1));
	DL_APPEND(table->doubtful, change);
	return reachable;
}

/* What was doubtful about an address is not any more, or is about to be tried.
 * @param mac  only with this one; NULL: with any */
static void forget_doubts(struct neigh_table *table, const struct neigh_key *key,
			  const uint8_t *mac)
{
	struct change *change, *next;
	DL_FOREACH_SAFE (table->doubtful, change, next) {
		if (!same_key(&change->key, key) || (mac && !same_mac(change->mac, mac)))
			continue;
		DL_DELETE(table->doubtful, change);
		free(change);
	}
}

/* @return as try() */
static bool apply(struct neigh_table *table, struct change *change)
{
	forget_doubts(table, &change->key, change->present ? change->mac : NULL);
	if (change->present)
		return try(table, change);
	withdraw(table, &change->key);
	free(change);
	return true;
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

/* What a daemon that was killed has left. */
static void purge(struct neigh_table *table)
{
	struct purge purge = { .table = table };
	struct change *change;
	neigh_entry_each(table->nl, note_left, &purge);
	DL_FOREACH (purge.left, change)
		neigh_entry_delete(table->nl, &change->key);
	free_list(&purge.left);
	table->purge_at = 0;
}

/* With the lock held: until there is something to do. */
static void wait_for_work(struct neigh_table *table)
{
	const struct change *next = next_doubtful(table);
	int64_t due = next ? next->due : INT64_MAX;
	if (table->purge_at && table->purge_at < due)
		due = table->purge_at;
	if (due == INT64_MAX) {
		pthread_cond_wait(&table->changed, &table->lock);
		return;
	}
	const struct timespec until = time_of(due);
	pthread_cond_clockwait(&table->changed, &table->lock, CLOCK_MONOTONIC, &until);
}

/* What is asked for goes before what is tried again. At the end nothing is made any more. */
static void work(struct neigh_table *table)
{
	struct change *change = table->todo;
	bool asked = change && change->present, reachable = false;
	if (change) {
		DL_DELETE(table->todo, change);
		table->busy = true;
	}
	if (asked && table->quit) {
		free(change);
		return;
	}
	pthread_mutex_unlock(&table->lock);
	if (change)
		reachable = apply(table, change);
	else if (table->purge_at && now_ms() >= table->purge_at)
		purge(table);
	else
		try_again(table);
	pthread_mutex_lock(&table->lock);
	table->busy = false;
	if (asked)
		table->reachable = reachable;
	pthread_cond_broadcast(&table->changed);
}

static void *run(void *arg)
{
	struct neigh_table *table = arg;
	table->purge_at = now_ms() + PURGE_MS;
	pthread_mutex_lock(&table->lock);
	while (table->todo || !table->quit) {
		work(table);
		if (!table->todo && !table->quit)
			wait_for_work(table);
	}
	pthread_mutex_unlock(&table->lock);
	free_list(&table->doubtful);
	free_list(&table->written);
	return NULL;
}

/* ---- the table */

static int ask(struct neigh_table *table, const struct neigh_key *key, const uint8_t mac[6],
	       bool present)
{
	struct change *change = calloc(1, sizeof(*change));
	if (!change)
		return -ENOMEM;
	change->key = *key;
	memcpy(change->mac, mac, sizeof(change->mac));
	change->present = present;
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
	ask(table, &entry->key, entry->macs[0], false);
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

static void remember_mac(struct entry *entry, const uint8_t mac[6])
{
	if (entry->num_macs > 0 && same_mac(entry->macs[0], mac))
		return;
	unsigned int at = entry->num_macs == 0 ? 0 : 1;
	memcpy(entry->macs[at], mac, sizeof(entry->macs[at]));
	entry->num_macs = at + 1;
}

int neigh_set(struct neigh_table *table, unsigned int ifindex, int family, const void *addr,
	      const uint8_t mac[6])
{
	const struct neigh_key key = key_of(ifindex, family, addr);
	struct entry *entry = find(table, &key);
	if (!entry) {
		entry = calloc(1, sizeof(*entry));
		if (!entry)
			return -ENOMEM;
		entry->key = key;
		DL_APPEND(table->entries, entry);
	}
	int error = ask(table, &key, mac, true);
	if (error && entry->users == 0) {
		DL_DELETE(table->entries, entry);
		free(entry);
	}
	if (error)
		return error;
	remember_mac(entry, mac);
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
		for (unsigned int i = 0; entry->key.ifindex == ifindex && i < entry->num_macs; i++)
			ask(table, &entry->key, entry->macs[i], true);
	}
}

bool neigh_settle(struct neigh_table *table)
{
	const int64_t begun = now_ms();
	const struct timespec end = time_of(begun + SETTLE_MS);
	int late = begun < table->impatient_until;
	pthread_mutex_lock(&table->lock);
	while ((table->todo || table->busy) && !late)
		late = pthread_cond_clockwait(&table->changed, &table->lock, CLOCK_MONOTONIC, &end);
	bool settled = !table->todo && !table->busy && table->reachable;
	pthread_mutex_unlock(&table->lock);
	if (now_ms() - begun >= ANSWER_MS / 2)
		table->impatient_until = begun + IMPATIENT_MS;
	return settled;
}

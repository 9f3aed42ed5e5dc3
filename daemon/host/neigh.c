/* SPDX-License-Identifier: MIT */
#include "daemon/host/neigh.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/host/log.h"
#include "daemon/host/neigh_keeper.h"
#include "daemon/smcr/log_limit.h"

/* neigh_settle() usually takes less than a millisecond; longer waits hold up other links. A peer
 * may name addresses that no host has, so after a wait that timed out the next ones are brief for a
 * while.
 */
#define SETTLE_MS    100
#define BRIEFLY_MS   5
#define IMPATIENT_MS 2000
/* Doubts that the event loop has not logged yet. More are dropped: then somebody names many
 * addresses. */
#define MAX_DOUBTS 100

struct entry {
	struct neigh_key key;
	uint8_t mac[6];
	unsigned int users;
	struct entry *next, *prev;
};

enum what {
	PRESENT, /* make an entry */
	ABSENT,  /* take it away */
	PURGE,   /* delete what an earlier daemon left */
};

struct change {
	enum what what;
	struct neigh_key key;
	uint8_t mac[6];
	uint64_t number; /* of PRESENT: counts from 1 */
	struct change *next, *prev;
};

struct doubt {
	struct neigh_doubt doubt;
	struct doubt *next, *prev;
};

struct neigh_table {
	struct entry *entries;
	int64_t impatient_until;
	struct event *doubt_event;
	struct log_limit limit;
	pthread_t thread;
	bool running;
	int wake_fd, doubt_fd; /* eventfds: wake the thread; tell the event loop of doubts */
	/* used by the thread */
	struct neigh_keeper *keeper;
	struct change last; /* the last one of kind PRESENT */
	/* under the lock */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct change *todo;
	struct doubt *doubts;
	unsigned int num_doubts;
	uint64_t asked; /* number of the last PRESENT */
	uint64_t told;  /* number of the PRESENT that `way` belongs to */
	enum neigh_way way;
	bool quit;
};

static void call(int fd)
{
	const uint64_t one = 1;
	if (write(fd, &one, sizeof(one)) < 0)
		return; /* it is readable already */
}

static void hear(int fd)
{
	uint64_t calls;
	if (read(fd, &calls, sizeof(calls)) < 0)
		return;
}

/* ---- the thread */

static void on_doubt(void *ctx, const struct neigh_doubt *doubt)
{
	struct neigh_table *table = ctx;
	struct doubt *copy = malloc(sizeof(*copy));
	if (!copy)
		return;
	copy->doubt = *doubt;
	pthread_mutex_lock(&table->lock);
	bool room = table->num_doubts < MAX_DOUBTS;
	if (room) {
		DL_APPEND(table->doubts, copy);
		table->num_doubts++;
	}
	pthread_mutex_unlock(&table->lock);
	if (room)
		call(table->doubt_fd);
	else
		free(copy);
}

static void apply(struct neigh_table *table, const struct change *change)
{
	switch (change->what) {
	case PRESENT:
		neigh_keeper_want(table->keeper, &change->key, change->mac);
		table->last = *change;
		break;
	case ABSENT: neigh_keeper_release(table->keeper, &change->key, change->mac); break;
	case PURGE: neigh_keeper_purge(table->keeper); break;
	}
}

/* For neigh_settle(). */
static void tell_way(struct neigh_table *table)
{
	struct change *last = &table->last;
	if (!last->number)
		return;
	enum neigh_way way = neigh_keeper_way(table->keeper, &last->key, last->mac);
	pthread_mutex_lock(&table->lock);
	table->told = last->number;
	table->way = way;
	pthread_cond_broadcast(&table->changed);
	pthread_mutex_unlock(&table->lock);
	if (way == NEIGH_RIGHT)
		last->number = 0;
}

static void wait_for_work(struct neigh_table *table)
{
	const int64_t due = neigh_keeper_due(table->keeper);
	const int64_t left = due == INT64_MAX ? -1 : due - neigh_keeper_now();
	struct pollfd fds[] = { { .fd = table->wake_fd, .events = POLLIN },
				{ .fd = neigh_keeper_fd(table->keeper), .events = POLLIN } };
	poll(fds, 2, due == INT64_MAX ? -1 : left > 0 ? (int)left : 0);
	if (fds[0].revents)
		hear(table->wake_fd);
}

/* @return the next change, or NULL. Once the table is being freed, entries are not made any more.
 *         @param ret_quit the table is being freed */
static struct change *take(struct neigh_table *table, bool *ret_quit)
{
	pthread_mutex_lock(&table->lock);
	struct change *change = table->todo;
	while (change && table->quit && change->what == PRESENT) {
		DL_DELETE(table->todo, change);
		free(change);
		change = table->todo;
	}
	if (change)
		DL_DELETE(table->todo, change);
	*ret_quit = table->quit;
	pthread_mutex_unlock(&table->lock);
	return change;
}

static void *run(void *arg)
{
	struct neigh_table *table = arg;
	for (;;) {
		bool quit;
		struct change *change = take(table, &quit);
		if (change) {
			apply(table, change);
			free(change);
		} else if (quit) {
			return NULL;
		} else {
			wait_for_work(table);
		}
		neigh_keeper_work(table->keeper);
		tell_way(table);
	}
}

/* ---- what was not believed */

static void addr_text(const struct neigh_key *key, char ret_text[INET6_ADDRSTRLEN])
{
	if (!inet_ntop(key->family, key->addr, ret_text, INET6_ADDRSTRLEN))
		ret_text[0] = '\0';
}

static void mac_text(const uint8_t mac[6], char ret_text[18])
{
	snprintf(ret_text, 18, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3],
		 mac[4], mac[5]);
}

static void log_doubt(struct neigh_table *table, const struct neigh_doubt *doubt)
{
	char addr[INET6_ADDRSTRLEN], ifname[IF_NAMESIZE], mac[18], other[18], more[LOG_LIMIT_TEXT];
	if (!log_limit_passes(&table->limit, "doubt", doubt->key.addr, neigh_keeper_now(), more))
		return;
	if (!if_indextoname(doubt->key.ifindex, ifname))
		snprintf(ifname, sizeof(ifname), "#%u", doubt->key.ifindex);
	addr_text(&doubt->key, addr);
	mac_text(doubt->mac, mac);
	mac_text(doubt->other, other);
	if (doubt->other_known)
		log_message(LOG_WARNING,
			    "peer %s on %s names the MAC %s for its RNIC, the network %s, "
			    "which is used%s",
			    addr, ifname, mac, other, more);
	else
		log_message(LOG_WARNING,
			    "peer %s on %s names the MAC %s for its RNIC, but nobody answers for "
			    "that address: no link will work%s",
			    addr, ifname, mac, more);
}

static void on_doubts(evutil_socket_t fd, short what, void *arg)
{
	struct neigh_table *table = arg;
	struct doubt *doubt, *next;
	(void)what;
	hear(fd);
	pthread_mutex_lock(&table->lock);
	struct doubt *doubts = table->doubts;
	table->doubts = NULL;
	table->num_doubts = 0;
	pthread_mutex_unlock(&table->lock);
	DL_FOREACH_SAFE (doubts, doubt, next) {
		log_doubt(table, &doubt->doubt);
		free(doubt);
	}
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
	if (what == PRESENT)
		change->number = ++table->asked;
	DL_APPEND(table->todo, change);
	pthread_mutex_unlock(&table->lock);
	call(table->wake_fd);
	return 0;
}

/* Start the thread, with all signals blocked: the event loop handles them. */
static int start(struct neigh_table *table)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = pthread_create(&table->thread, NULL, run, table);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	table->running = !error;
	return -error;
}

static int open_table(struct neigh_table *table, struct event_base *base)
{
	table->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	table->doubt_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (table->wake_fd < 0 || table->doubt_fd < 0)
		return -errno;
	table->doubt_event =
		event_new(base, table->doubt_fd, EV_READ | EV_PERSIST, on_doubts, table);
	if (!table->doubt_event || event_add(table->doubt_event, NULL))
		return -ENOMEM;
	int error = neigh_keeper_new(on_doubt, table, &table->keeper);
	return error ? error : start(table);
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void destroy(struct neigh_table *table)
{
	struct doubt *doubt, *next;
	DL_FOREACH_SAFE (table->doubts, doubt, next)
		free(doubt);
	if (table->doubt_event)
		event_free(table->doubt_event);
	neigh_keeper_free(table->keeper);
	close_fd(table->wake_fd);
	close_fd(table->doubt_fd);
	pthread_cond_destroy(&table->changed);
	pthread_mutex_destroy(&table->lock);
	free(table);
}

int neigh_table_new(struct event_base *base, struct neigh_table **ret_table)
{
	struct neigh_table *table = calloc(1, sizeof(*table));
	if (!table)
		return -ENOMEM;
	table->wake_fd = table->doubt_fd = -1;
	pthread_mutex_init(&table->lock, NULL);
	pthread_cond_init(&table->changed, NULL);
	int error = open_table(table, base);
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
	pthread_mutex_unlock(&table->lock);
	call(table->wake_fd);
	pthread_join(table->thread, NULL);
	destroy(table);
}

static struct neigh_key key_of(unsigned int ifindex, int family, const void *addr)
{
	struct neigh_key key = { .ifindex = ifindex, .family = family };
	memcpy(key.addr, addr, family == AF_INET ? 4 : 16);
	return key;
}

static struct entry *find(struct neigh_table *table, const struct neigh_key *key,
			  const uint8_t mac[6])
{
	struct entry *entry;
	DL_FOREACH (table->entries, entry) {
		if (!memcmp(&entry->key, key, sizeof(*key)) &&
		    !memcmp(entry->mac, mac, sizeof(entry->mac)))
			return entry;
	}
	return NULL;
}

int neigh_set(struct neigh_table *table, unsigned int ifindex, int family, const void *addr,
	      const uint8_t mac[6])
{
	const struct neigh_key key = key_of(ifindex, family, addr);
	struct entry *known = find(table, &key, mac);
	struct entry *entry = known ? known : calloc(1, sizeof(*entry));
	if (!entry)
		return -ENOMEM;
	entry->key = key;
	memcpy(entry->mac, mac, sizeof(entry->mac));
	/* Ask even if the entry is known: the interface may have been down. */
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

void neigh_unset(struct neigh_table *table, unsigned int ifindex, int family, const void *addr,
		 const uint8_t mac[6])
{
	const struct neigh_key key = key_of(ifindex, family, addr);
	struct entry *entry = find(table, &key, mac);
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

/* To be called with the lock held. */
static enum neigh_way known_way(const struct neigh_table *table)
{
	return table->told == table->asked ? table->way : NEIGH_NONE;
}

bool neigh_settle(struct neigh_table *table)
{
	const int64_t now = neigh_keeper_now();
	const bool patient = now >= table->impatient_until;
	const int64_t until = now + (patient ? SETTLE_MS : BRIEFLY_MS);
	const struct timespec end = { .tv_sec = until / 1000, .tv_nsec = until % 1000 * 1000000 };
	int late = 0;
	pthread_mutex_lock(&table->lock);
	while (known_way(table) != NEIGH_RIGHT && !late)
		late = pthread_cond_clockwait(&table->changed, &table->lock, CLOCK_MONOTONIC, &end);
	enum neigh_way way = known_way(table);
	pthread_mutex_unlock(&table->lock);
	if (way != NEIGH_RIGHT && patient)
		table->impatient_until = now + SETTLE_MS + IMPATIENT_MS;
	return way != NEIGH_NONE;
}

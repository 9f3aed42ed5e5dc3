/* SPDX-License-Identifier: MIT */
#include "daemon/host/neigh.h"

#include <errno.h>
#include <linux/neighbour.h>
#include <netlink/netlink.h>
#include <netlink/route/neighbour.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <utlist.h>

/* Usually it is some ten microseconds; with more the links of others would suffer. */
#define SETTLE_MS 100

struct entry {
	unsigned int ifindex;
	int family;
	uint8_t addr[16];
	uint8_t mac[6];
	unsigned int users;
	struct entry *next, *prev;
};

/** Have the entry in the kernel, or not. */
struct change {
	struct entry entry;
	bool present;
	struct change *next, *prev;
};

struct neigh_table {
	struct entry *entries;
	struct nl_sock *nl; /* the thread's */
	pthread_t thread;
	/* under the lock */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct change *todo;
	bool busy, quit;
};

static size_t addr_len(int family)
{
	return family == AF_INET ? 4 : 16;
}

/* ---- the thread */

/* Fails while the interface is down, or when it is gone: so is the entry then. */
static void apply(struct nl_sock *nl, const struct change *change)
{
	const struct entry *entry = &change->entry;
	struct rtnl_neigh *neigh = rtnl_neigh_alloc();
	struct nl_addr *dst = nl_addr_build(entry->family, entry->addr, addr_len(entry->family));
	struct nl_addr *lladdr = nl_addr_build(AF_LLC, entry->mac, sizeof(entry->mac));
	if (neigh && dst && lladdr) {
		rtnl_neigh_set_ifindex(neigh, (int)entry->ifindex);
		rtnl_neigh_set_dst(neigh, dst);
		if (change->present) {
			rtnl_neigh_set_lladdr(neigh, lladdr);
			rtnl_neigh_set_state(neigh, NUD_PERMANENT);
			rtnl_neigh_add(nl, neigh, NLM_F_CREATE | NLM_F_REPLACE);
		} else {
			rtnl_neigh_delete(nl, neigh, 0);
		}
	}
	nl_addr_put(lladdr);
	nl_addr_put(dst);
	rtnl_neigh_put(neigh);
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
		apply(table->nl, change);
		free(change);
		pthread_mutex_lock(&table->lock);
		table->busy = false;
		pthread_cond_broadcast(&table->changed);
	}
	pthread_mutex_unlock(&table->lock);
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

static struct entry *find(struct neigh_table *table, unsigned int ifindex, int family,
			  const void *addr)
{
	struct entry *entry;
	DL_FOREACH (table->entries, entry) {
		if (entry->ifindex == ifindex && entry->family == family &&
		    !memcmp(entry->addr, addr, addr_len(family)))
			return entry;
	}
	return NULL;
}

int neigh_set(struct neigh_table *table, unsigned int ifindex, int family, const void *addr,
	      const uint8_t mac[6])
{
	struct entry *known = find(table, ifindex, family, addr);
	struct entry *entry = known ? known : calloc(1, sizeof(*entry));
	if (!entry)
		return -ENOMEM;
	entry->ifindex = ifindex;
	entry->family = family;
	memcpy(entry->addr, addr, addr_len(family));
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
	struct entry *entry = find(table, ifindex, family, addr);
	if (entry && --entry->users == 0)
		drop(table, entry);
}

void neigh_restore(struct neigh_table *table, unsigned int ifindex)
{
	struct entry *entry;
	DL_FOREACH (table->entries, entry) {
		if (entry->ifindex == ifindex)
			ask(table, entry, true);
	}
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

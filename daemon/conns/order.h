/* SPDX-License-Identifier: MIT */
/**
 * @file order.h
 * Items in the order of their numbers. Numbers only grow. A walk may stop and go on later where it
 * stopped, whatever was added and removed in between. Finding the place again takes a binary
 * search.
 */
#ifndef SMCRD_DAEMON_CONNS_ORDER_H
#define SMCRD_DAEMON_CONNS_ORDER_H

#include <stddef.h>
#include <stdint.h>

struct order_entry {
	uint64_t number;
	void *item; /* NULL: it was removed */
};

/** Zeroed: empty. */
struct order {
	struct order_entry *entries;
	size_t len, room, gone; /* `gone` of the `len` entries were removed */
};

/** @param number  larger than any before. @return 0 or -ENOMEM */
int order_add(struct order *order, uint64_t number, void *item);
/** Nothing happens if no item has this number. */
void order_remove(struct order *order, uint64_t number);
/** The item with the largest number below `number`. @return NULL: there is none */
void *order_before(const struct order *order, uint64_t number);
void order_free(struct order *order);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file order.h
 * Items in the order of their numbers, which only grow, so that whoever looks at a few of them at a
 * time goes on where the last look ended, whatever came and went in between. Finding that place
 * takes a binary search, however many there are.
 */
#ifndef SMCRD_DAEMON_CONNS_ORDER_H
#define SMCRD_DAEMON_CONNS_ORDER_H

#include <stddef.h>
#include <stdint.h>

struct order_entry {
	uint64_t number;
	void *item; /* NULL: it has gone */
};

/** Zeroed: empty. */
struct order {
	struct order_entry *entries;
	size_t len, room, gone; /* `gone` of `len` are no items any more */
};

/** @param number  larger than any before. @return 0 or -ENOMEM */
int order_add(struct order *order, uint64_t number, void *item);
/** Nothing happens if there is none of this number. */
void order_remove(struct order *order, uint64_t number);
/** The item with the largest number below `number`. @return NULL: there is none */
void *order_before(const struct order *order, uint64_t number);
void order_free(struct order *order);

#endif

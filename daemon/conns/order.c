/* SPDX-License-Identifier: MIT */
#include "daemon/conns/order.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_ROOM 64

/* The number of entries below `number`. */
static size_t count_below(const struct order *order, uint64_t number)
{
	size_t low = 0, high = order->len;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (order->entries[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int make_room(struct order *order)
{
	size_t room = order->room ? 2 * order->room : FIRST_ROOM;
	if (order->len < order->room)
		return 0;
	struct order_entry *entries = realloc(order->entries, room * sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	order->entries = entries;
	order->room = room;
	return 0;
}

int order_add(struct order *order, uint64_t number, void *item)
{
	int r = make_room(order);
	if (r == 0)
		order->entries[order->len++] = (struct order_entry){ number, item };
	return r;
}

/* Squeeze out removed entries. This runs when they are the majority, so each removal costs
 * little. */
static void close_ranks(struct order *order)
{
	size_t kept = 0;
	for (size_t i = 0; i < order->len; i++)
		if (order->entries[i].item)
			order->entries[kept++] = order->entries[i];
	order->len = kept;
	order->gone = 0;
}

void order_remove(struct order *order, uint64_t number)
{
	size_t at = count_below(order, number);
	if (at == order->len || order->entries[at].number != number || !order->entries[at].item)
		return;
	order->entries[at].item = NULL;
	order->gone++;
	if (order->gone > order->len / 2)
		close_ranks(order);
}

void *order_before(const struct order *order, uint64_t number)
{
	for (size_t at = count_below(order, number); at > 0; at--)
		if (order->entries[at - 1].item)
			return order->entries[at - 1].item;
	return NULL;
}

void order_free(struct order *order)
{
	free(order->entries);
	*order = (struct order){ 0 };
}

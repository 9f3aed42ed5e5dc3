/* SPDX-License-Identifier: MIT */
/* Walks over many connections, a few at a time, while connections come and go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/conns/internal.h"
#include "tests/lib/tries.h"

#define MANY 1000

/* ---- the order alone ---- */

static void the_next_lower_number_is_found(void **state)
{
	(void)state;
	struct order order = { 0 };
	int items[4];
	assert_null(order_before(&order, UINT64_MAX));
	order_remove(&order, 1);
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(order_add(&order, 10 * (i + 1), &items[i]), 0);
	assert_ptr_equal(order_before(&order, UINT64_MAX), &items[3]);
	assert_ptr_equal(order_before(&order, 40), &items[2]);
	assert_ptr_equal(order_before(&order, 11), &items[0]);
	assert_null(order_before(&order, 10));
	order_remove(&order, 20);
	order_remove(&order, 20);
	order_remove(&order, 25);
	assert_ptr_equal(order_before(&order, 30), &items[0]);
	order_remove(&order, 10);
	assert_null(order_before(&order, 30));
	assert_ptr_equal(order_before(&order, 31), &items[2]);
	order_free(&order);
}

/* However numbers come and go, the order finds the same ones as a plain list, and its memory stays
 * bounded. */
static void it_agrees_with_a_plain_list(void **state)
{
	(void)state;
	static bool there[20 * MANY + 1];
	struct order order = { 0 };
	uint64_t seed = 1, last = 0, alive = 0;
	for (int i = 0; i < 20 * MANY; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		uint64_t chosen = last ? (seed >> 33) % last + 1 : 0;
		if (alive < 100 || seed >> 63) {
			last++;
			assert_int_equal(order_add(&order, last, &there[last]), 0);
			there[last] = true;
			alive++;
		} else if (there[chosen]) {
			order_remove(&order, chosen);
			there[chosen] = false;
			alive--;
		}
		uint64_t below = chosen;
		while (below > 1 && !there[below - 1])
			below--;
		assert_ptr_equal(order_before(&order, chosen),
				 below > 1 ? &there[below - 1] : NULL);
		assert_true(order.len - order.gone == alive);
		assert_true(order.gone <= order.len / 2 + 1);
	}
	order_free(&order);
}

/* ---- walks over connections ---- */

struct fixture {
	struct conns conns;
	struct conn all[MANY + 10];
	uint64_t seen[2 * MANY]; /* numbers of connections, in the order of the walk */
	bool ended[2 * MANY];
	size_t num_seen, room;
};

static void come(struct fixture *f)
{
	struct conn *conn = &f->all[f->conns.last_number];
	*conn = (struct conn){ .conns = &f->conns, .number = ++f->conns.last_number };
	assert_int_equal(order_add(&f->conns.order, conn->number, conn), 0);
}

static void go(struct fixture *f, uint64_t number)
{
	order_remove(&f->conns.order, number);
	history_add(&f->all[number - 1], CONN_MODE_SMCR, IPC_CONN_CLOSED);
}

static void open_fixture(struct fixture *f, uint32_t history)
{
	*f = (struct fixture){ .conns.config.limits.history = history, .room = 1 };
	assert_int_equal(history_new(&f->conns), 0);
}

static void close_fixture(struct fixture *f)
{
	history_free(&f->conns);
	order_free(&f->conns.order);
}

static bool see(void *arg, const struct conn_view *view)
{
	struct fixture *f = arg;
	f->seen[f->num_seen] = view->number;
	f->ended[f->num_seen++] = view->ended;
	return f->num_seen % f->room != 0;
}

static void a_walk_shows_each_once_the_newest_first(void **state)
{
	(void)state;
	static struct fixture f;
	const size_t rooms[] = { 1, 7, 10, 13, 1000 };
	for (size_t r = 0; r < sizeof(rooms) / sizeof(rooms[0]); r++) {
		TRIES("row %zu", r);
		struct conns_place place = { 0 };
		open_fixture(&f, 5);
		f.room = rooms[r];
		for (int i = 0; i < 20; i++)
			come(&f);
		for (uint64_t i = 1; i <= 10; i++)
			go(&f, i); /* the last five of these are remembered */
		unsigned int parts = 1;
		while (!conns_walk(&f.conns, &place, see, &f))
			parts++;
		assert_int_equal(f.num_seen, 15);
		assert_int_equal(parts, 15 / rooms[r] + 1);
		for (size_t i = 0; i < 15; i++) {
			assert_int_equal(f.seen[i], 20 - i);
			assert_int_equal(f.ended[i], i >= 10);
		}
		close_fixture(&f);
	}
}

/* Between two parts of a walk connections end before the place, behind it and at it, and new ones
 * come. */
static void connections_that_come_and_go_in_between_do_no_harm(void **state)
{
	(void)state;
	static struct fixture f;
	struct conns_place place = { 0 };
	static unsigned int times[MANY + 10];
	memset(times, 0, sizeof(times));
	open_fixture(&f, 2 * MANY);
	f.room = 10;
	for (int i = 0; i < MANY; i++)
		come(&f);
	for (int part = 0; !conns_walk(&f.conns, &place, see, &f); part++) {
		if (part == 10) {
			assert_int_equal(f.seen[f.num_seen - 1], MANY - 109);
			go(&f, MANY - 109); /* the one at the place */
			go(&f, MANY - 110); /* the next one */
			go(&f, MANY);       /* the first one that the walk has shown */
			go(&f, 1);          /* one far behind */
			come(&f);
		}
		if (part == 20)
			go(&f, MANY - 300); /* one behind; others have ended already */
	}
	for (size_t i = 0; i < f.num_seen; i++)
		times[f.seen[i]]++;
	for (uint64_t i = 1; i <= MANY; i++) {
		/* once as a live connection, once as an ended one */
		bool twice = i == MANY - 109 || i == MANY;
		assert_int_equal(times[i], twice ? 2 : 1);
	}
	assert_int_equal(times[MANY + 1], 0); /* came after the walk was past its place */
	close_fixture(&f);
}

/* A caller may ask for a place that no walk has come to. */
static void any_place_is_good(void **state)
{
	(void)state;
	static struct fixture f;
	const struct conns_place places[] = {
		{ .number = 1 },
		{ .number = UINT64_MAX },
		{ .ended = true, .number = 1 },
		{ .ended = true, .number = 3 },
		{ .ended = true, .number = UINT64_MAX },
	};
	const size_t rows[] = { 2, 5, 0, 1, 2 };
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		TRIES("row %zu", i);
		struct conns_place place = places[i];
		open_fixture(&f, 2);
		f.room = 100;
		for (int n = 0; n < 6; n++)
			come(&f);
		for (uint64_t n = 1; n <= 3; n++)
			go(&f, n);
		assert_true(conns_walk(&f.conns, &place, see, &f));
		assert_int_equal(f.num_seen, rows[i]);
		close_fixture(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_next_lower_number_is_found),
		cmocka_unit_test(it_agrees_with_a_plain_list),
		cmocka_unit_test(a_walk_shows_each_once_the_newest_first),
		cmocka_unit_test(connections_that_come_and_go_in_between_do_no_harm),
		cmocka_unit_test(any_place_is_good),
	};
	return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}

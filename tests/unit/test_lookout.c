/* SPDX-License-Identifier: MIT */
/* When the daemon polls pages that it shares with programs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <event2/event.h>

#include "daemon/conns/internal.h"

struct fixture {
	struct conns conns;
	struct conn conn;
	struct path_page page;
};

static void open_fixture(struct fixture *f)
{
	*f = (struct fixture){ .conns.config.busy_poll_us = 50 };
	struct event_base *base = event_base_new();
	assert_non_null(base);
	f->conns.look_timer = evtimer_new(base, lookout_on_timer, &f->conns);
	assert_non_null(f->conns.look_timer);
	f->conn.conns = &f->conns;
	path_tx_open(&f->conn.shared.tx, &f->page, 4096, 0, 0);
	f->conn.shared.page = &f->page;
}

static void close_fixture(struct fixture *f)
{
	struct event_base *base = event_get_base(f->conns.look_timer);
	lookout_forget(&f->conn);
	event_free(f->conns.look_timer);
	event_base_free(base);
}

/* When the event loop will poll, by its own clock; 0: it does not poll. */
static uint64_t due(const struct fixture *f)
{
	struct timeval tv = { 0 };
	evtimer_pending(f->conns.look_timer, &tv);
	return (uint64_t)tv.tv_sec * 1000000 + (uint64_t)tv.tv_usec;
}

/* The page is polled all the time. Its connection also waits for a program, at which the daemon
 * looks later. */
static void a_later_time_does_not_put_off_an_earlier_one(void **state)
{
	(void)state;
	struct fixture f;
	open_fixture(&f);
	struct shared *shared = &f.conn.shared;
	shared->now = shared->active = conns_now_us();
	lookout_update(&f.conn);
	const uint64_t at = due(&f);
	assert_true(at > 0);
	shared->now++;
	shared->head_due = shared->now + 4000;
	lookout_update(&f.conn);
	assert_int_equal(due(&f), at);
	close_fixture(&f);
}

/* The daemon looks later at a page whose connection only waits for a program. When bytes move, it
 * looks sooner. */
static void an_earlier_time_replaces_a_later_one(void **state)
{
	(void)state;
	struct fixture f;
	open_fixture(&f);
	struct shared *shared = &f.conn.shared;
	shared->now = conns_now_us();
	shared->head_due = shared->now + 4000;
	lookout_update(&f.conn);
	const uint64_t at = due(&f);
	assert_true(at > 0);
	shared->active = shared->now;
	lookout_update(&f.conn);
	assert_true(due(&f) < at);
	close_fixture(&f);
}

/* The daemon polls a page for as long as is set after bytes have moved, and stops then. */
static void polling_ends_after_its_time(void **state)
{
	(void)state;
	const uint64_t minute = 60000000;
	struct fixture f;
	open_fixture(&f);
	f.conns.config.busy_poll_us = (uint32_t)minute;
	struct shared *shared = &f.conn.shared;
	shared->now = shared->active = conns_now_us();
	lookout_update(&f.conn);
	assert_true(shared->polled);
	lookout_on_timer(-1, EV_TIMEOUT, &f.conns);
	assert_true(shared->polled);
	assert_true(f.conn.looked_at);
	shared->active -= minute;
	lookout_on_timer(-1, EV_TIMEOUT, &f.conns);
	assert_false(shared->polled);
	assert_false(f.conn.looked_at);
	close_fixture(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_later_time_does_not_put_off_an_earlier_one),
		cmocka_unit_test(an_earlier_time_replaces_a_later_one),
		cmocka_unit_test(polling_ends_after_its_time),
	};
	return cmocka_run_group_tests_name("lookout", tests, NULL, NULL);
}

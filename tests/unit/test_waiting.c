/* SPDX-License-Identifier: MIT */
/* Whether the event loop polls for more work before it sleeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/host/waiting.h"

#define MOST 50

struct fixture {
	struct waiting waiting;
	uint64_t work, now;
};

static void open_fixture(struct fixture *f, uint32_t most_us)
{
	*f = (struct fixture){ .now = 1000000 };
	waiting_init(&f->waiting, most_us);
}

static bool look(struct fixture *f)
{
	return waiting_look(&f->waiting, f->work, f->now);
}

/* Work comes so long after the last work. Until then the loop polls every 10 us, or sleeps. */
static void work_after(struct fixture *f, uint64_t us)
{
	const uint64_t end = f->now + us;
	while (look(f) && f->now + 10 < end)
		f->now += 10;
	f->now = end;
	f->work++;
}

static void the_loop_polls_for_a_while_after_work(void **state)
{
	struct fixture f;
	(void)state;
	open_fixture(&f, MOST);
	assert_false(look(&f)); /* there is no work yet */
	f.work++;
	assert_true(look(&f));
	f.now += MOST - 1;
	assert_true(look(&f));
	f.now++;
	assert_false(look(&f));
	f.now += 1000000;
	assert_false(look(&f)); /* a timer has woken the loop: no work */
	assert_int_equal(f.waiting.counts.spins, 1);
	assert_int_equal(f.waiting.counts.vain, 1);
	assert_int_equal(f.waiting.counts.sleeps, 3);
}

static void a_poll_that_finds_work_is_not_vain(void **state)
{
	struct fixture f;
	(void)state;
	open_fixture(&f, MOST);
	for (int i = 0; i < 100; i++)
		work_after(&f, 30);
	assert_true(look(&f));
	assert_true(f.waiting.counts.spins >= 99);
	assert_int_equal(f.waiting.counts.vain, 0);
	assert_true(f.waiting.counts.sleeps <= 1); /* before the first work */
}

static void polling_ends_where_it_finds_nothing(void **state)
{
	struct fixture f;
	(void)state;
	open_fixture(&f, MOST);
	for (int i = 0; i < 1000; i++)
		work_after(&f, 500);
	assert_false(look(&f));
	assert_in_range(f.waiting.counts.vain, 5, 20);
	assert_true(f.waiting.counts.sleeps >= 1000);
}

static void polling_begins_again_where_it_would_find_work(void **state)
{
	struct fixture f;
	(void)state;
	open_fixture(&f, MOST);
	for (int i = 0; i < 100; i++)
		work_after(&f, 500);
	assert_false(look(&f));
	/* The loop slept, and so found this work later than it came. */
	for (int i = 0; i < 10; i++)
		work_after(&f, MOST + 10);
	assert_true(look(&f));
}

/* A request every millisecond, whose answer and ACK come soon after it: two of three polls find
 * work. */
static void two_polls_of_three_find_work(void **state)
{
	struct fixture f;
	(void)state;
	open_fixture(&f, MOST);
	for (int i = 0; i < 100; i++) {
		work_after(&f, 1000);
		work_after(&f, 40);
		work_after(&f, 600);
	}
	assert_true(look(&f));
	for (int i = 0; i < 100; i++) {
		work_after(&f, 1000);
		work_after(&f, 40);
		work_after(&f, 600);
		work_after(&f, 600);
	}
	assert_false(look(&f));
}

static void zero_always_sleeps(void **state)
{
	struct fixture f;
	(void)state;
	open_fixture(&f, 0);
	for (int i = 0; i < 100; i++) {
		assert_false(look(&f));
		f.work++;
	}
	assert_int_equal(f.waiting.counts.spins, 0);
	assert_int_equal(f.waiting.counts.sleeps, 100);
}

static void the_time_of_polling_can_be_changed(void **state)
{
	struct fixture f;
	(void)state;
	open_fixture(&f, 0);
	assert_false(look(&f));
	waiting_set_most(&f.waiting, 50);
	f.work++;
	assert_true(look(&f));
	waiting_set_most(&f.waiting, 0);
	f.work++;
	assert_false(look(&f));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_loop_polls_for_a_while_after_work),
		cmocka_unit_test(a_poll_that_finds_work_is_not_vain),
		cmocka_unit_test(polling_ends_where_it_finds_nothing),
		cmocka_unit_test(polling_begins_again_where_it_would_find_work),
		cmocka_unit_test(two_polls_of_three_find_work),
		cmocka_unit_test(zero_always_sleeps),
		cmocka_unit_test(the_time_of_polling_can_be_changed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* The window of the soft RNIC's requester: how it grows, and when it shrinks. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/rnic/soft/hold.h"
#include "daemon/rnic/soft/window.h"

#define MTU 1024

static struct soft_window window;

static int begin(void **state)
{
	(void)state;
	soft_window_init(&window, MTU);
	return 0;
}

/* A window full of packets was sent and acknowledged. */
static void round_trip(void)
{
	soft_window_acked(&window, window.size, true);
}

static void grows_up_to_its_maximum(void **state)
{
	(void)state;
	assert_int_equal(window.size, 1024); /* 1 MiB */
	round_trip();
	assert_int_equal(window.size, 1024 + 32);
	for (int i = 0; i < 200; i++)
		round_trip();
	assert_int_equal(window.size, window.max);
	assert_true(window.max <= SOFT_HOLD_PACKETS);
}

/* The largest window is 4 MiB, or as many packets as the peer can hold behind a lost one. */
static void maximum_is_bytes_or_packets(void **state)
{
	(void)state;
	soft_window_init(&window, 4096);
	assert_int_equal(window.max, (4u << 20) / 4096);
	soft_window_init(&window, 256);
	assert_int_equal(window.max, SOFT_HOLD_PACKETS);
}

static void stays_when_the_user_sends_little(void **state)
{
	(void)state;
	soft_window_acked(&window, 1024, false);
	assert_int_equal(window.size, 1024);
}

static void a_mark_takes_three_tenths(void **state)
{
	(void)state;
	soft_window_marked(&window, 1024);
	assert_int_equal(window.size, 716);
	round_trip();
	assert_int_equal(window.size, 716 + 32); /* it grows by steps from there on */
	soft_window_marked(&window, 100);        /* the number of packets in flight decides */
	assert_int_equal(window.size, 70);
	soft_window_marked(&window, 1);
	assert_int_equal(window.size, 4);
}

static void a_loss_takes_half(void **state)
{
	(void)state;
	soft_window_lost(&window, 200);
	assert_int_equal(window.size, 16);
	assert_int_equal(window.threshold, 100);
	for (int i = 0; i < 3; i++)
		round_trip();
	assert_int_equal(window.size, 100);
	round_trip();
	assert_int_equal(window.size, 132);
}

/* Two senders share a queue that marks the packets of both when it is too long: their windows
 * become equal. */
static void two_become_fair(void **state)
{
	(void)state;
	struct soft_window other;
	soft_window_init(&other, MTU);
	soft_window_marked(&other, 20);
	for (int i = 0; i < 3000; i++) {
		soft_window_acked(&window, window.size, true);
		soft_window_acked(&other, other.size, true);
		if (window.size + other.size > 1000) {
			soft_window_marked(&window, window.size);
			soft_window_marked(&other, other.size);
		}
	}
	assert_in_range(other.size * 100 / window.size, 90, 111);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(grows_up_to_its_maximum, begin),
		cmocka_unit_test(maximum_is_bytes_or_packets),
		cmocka_unit_test_setup(stays_when_the_user_sends_little, begin),
		cmocka_unit_test_setup(a_mark_takes_three_tenths, begin),
		cmocka_unit_test_setup(a_loss_takes_half, begin),
		cmocka_unit_test_setup(two_become_fair, begin),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

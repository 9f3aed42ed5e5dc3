/* SPDX-License-Identifier: MIT */
/* Soft RNIC: early packets that are kept until it is their turn, and the memory for them. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "daemon/rnic/soft/hold.h"
#include "proto/roce/roce.h"

#define LEN  100
#define ROOM (3 * (sizeof(struct soft_held) + LEN))
/* PSNs wrap after this one. */
#define EXPECTED 0xFFFFFE

static size_t budget;
static struct soft_hold hold;

static int setup(void **state)
{
	(void)state;
	budget = ROOM;
	hold = (struct soft_hold){ .budget = &budget };
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	soft_hold_clear(&hold);
	return 0;
}

static uint32_t psn(uint32_t ahead)
{
	return (EXPECTED + ahead) & ROCE_PSN_MASK;
}

static enum soft_hold_result put(uint32_t ahead, size_t len)
{
	uint8_t packet[LEN];
	memset(packet, (int)ahead, sizeof(packet));
	return soft_hold_put(&hold, EXPECTED, psn(ahead), packet, len, 1000 + ahead);
}

static void expect_kept(uint32_t ahead, size_t len)
{
	struct soft_held *held = soft_hold_take(&hold, psn(ahead));
	uint8_t packet[LEN];
	memset(packet, (int)ahead, sizeof(packet));
	assert_non_null(held);
	assert_int_equal(held->psn, psn(ahead));
	assert_int_equal(held->at, 1000 + ahead);
	assert_int_equal(held->len, len);
	assert_memory_equal(held->packet, packet, len);
	soft_hold_release(&hold, held);
}

static void kept_and_taken_by_psn(void **state)
{
	(void)state;
	assert_null(soft_hold_take(&hold, psn(1)));
	assert_null(soft_hold_first(&hold, EXPECTED));
	assert_int_equal(put(3, LEN), SOFT_HOLD_KEPT);
	assert_int_equal(put(1, 1), SOFT_HOLD_KEPT);
	assert_int_equal(hold.count, 2);
	assert_int_equal(put(3, LEN), SOFT_HOLD_DUPLICATE);
	assert_int_equal(hold.count, 2);
	assert_null(soft_hold_take(&hold, psn(2)));
	assert_int_equal(soft_hold_first(&hold, EXPECTED)->psn, psn(1));
	expect_kept(1, 1);
	assert_int_equal(soft_hold_first(&hold, psn(1))->psn, psn(3));
	assert_null(soft_hold_first(&hold, psn(3))); /* it is not behind itself */
	assert_null(soft_hold_take(&hold, psn(1)));
	expect_kept(3, LEN);
	assert_int_equal(hold.count, 0);
	assert_null(soft_hold_first(&hold, EXPECTED));
}

/* An earlier packet than the one that is due is not kept, nor one that is too far ahead. */
static void only_what_comes_early(void **state)
{
	(void)state;
	assert_int_equal(put(0u - 1, LEN), SOFT_HOLD_FULL);
	assert_int_equal(put(SOFT_HOLD_PACKETS, LEN), SOFT_HOLD_FULL);
	assert_int_equal(put(SOFT_HOLD_PACKETS - 1, LEN), SOFT_HOLD_KEPT);
	assert_int_equal(soft_hold_first(&hold, EXPECTED)->psn, psn(SOFT_HOLD_PACKETS - 1));
	expect_kept(SOFT_HOLD_PACKETS - 1, LEN);
	assert_true(budget == ROOM);
}

/* The packet that is due may have to wait, too. It is not behind itself. */
static void what_is_due(void **state)
{
	(void)state;
	assert_null(soft_hold_at(&hold, EXPECTED));
	assert_int_equal(put(0, LEN), SOFT_HOLD_KEPT);
	assert_int_equal(put(0, LEN), SOFT_HOLD_DUPLICATE);
	assert_int_equal(soft_hold_at(&hold, EXPECTED)->psn, EXPECTED);
	assert_null(soft_hold_first(&hold, EXPECTED));
	expect_kept(0, LEN);
	assert_null(soft_hold_at(&hold, EXPECTED));
	assert_true(budget == ROOM);
}

/* All queue pairs of a device share the memory: what one does not give back is lost to all. */
static void budget_is_kept_to_and_given_back(void **state)
{
	(void)state;
	for (int round = 0; round < 3; round++) {
		for (uint32_t n = 1; n <= 3; n++)
			assert_int_equal(put(n, LEN), SOFT_HOLD_KEPT);
		assert_true(budget == 0);
		assert_int_equal(put(4, 0), SOFT_HOLD_FULL);
		assert_int_equal(put(4, 1), SOFT_HOLD_FULL);
		for (uint32_t n = 1; n <= 3; n++)
			expect_kept(n, LEN);
		assert_true(budget == ROOM);
	}
	assert_int_equal(put(1, 7), SOFT_HOLD_KEPT);
	assert_true(budget == ROOM - sizeof(struct soft_held) - 7);
	budget = sizeof(struct soft_held) + LEN - 1;
	assert_int_equal(put(2, LEN), SOFT_HOLD_FULL);
	assert_int_equal(put(2, LEN - 1), SOFT_HOLD_KEPT);
}

static void cleared_as_a_whole(void **state)
{
	(void)state;
	assert_int_equal(put(1, LEN), SOFT_HOLD_KEPT);
	assert_int_equal(put(2, 1), SOFT_HOLD_KEPT);
	assert_int_equal(put(SOFT_HOLD_PACKETS - 1, LEN), SOFT_HOLD_KEPT);
	soft_hold_clear(&hold);
	assert_true(budget == ROOM);
	assert_int_equal(hold.count, 0);
	assert_null(hold.slots);
	assert_null(soft_hold_take(&hold, psn(1)));
	/* The place can be used again. */
	assert_int_equal(put(2, LEN), SOFT_HOLD_KEPT);
	expect_kept(2, LEN);
}

int main(void)
{
#define FRESH(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		FRESH(kept_and_taken_by_psn), FRESH(only_what_comes_early),
		FRESH(what_is_due),           FRESH(budget_is_kept_to_and_given_back),
		FRESH(cleared_as_a_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

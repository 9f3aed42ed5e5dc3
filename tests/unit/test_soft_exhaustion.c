/* SPDX-License-Identifier: MIT */
/* A soft RNIC whose allocations fail, one after the other: each call returns the error, leaves
 * nothing behind, and works when there is memory again. The Makefile links this test so that
 * malloc() and calloc() are those below. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>

#include "daemon/rnic/soft/internal.h"
#include "tests/lib/rnic_side.h"
#include "tests/lib/testnet.h"

void *__real_calloc(size_t n, size_t size);
void *__real_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t size);

/* Counts down to the allocation that fails; 0: no allocation fails. Volatile, as the compiler
 * takes allocation for a function that reads no variable. */
static volatile unsigned int failing;

static bool fails(void)
{
	return failing && --failing == 0;
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

static struct testnet net;
static struct event_base *base;
static struct rnic_side side;

static int setup(void **state)
{
	(void)state;
	testnet_new(&net, 1500);
	base = event_base_new();
	rnic_side_open(&side, base, "soft:t0", 4096);
	rnic_side_qp(&side, 1, 1, 64); /* so that the device has its tables */
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rnic_side_close(&side);
	event_base_free(base);
	testnet_free(&net);
	return 0;
}

static void protection_domain(void **state)
{
	(void)state;
	struct rnic_pd *pd = NULL;
	failing = 1;
	assert_int_equal(rnic_pd_alloc(side.rnic, &pd), -ENOMEM);
	assert_null(pd);
	assert_int_equal(rnic_pd_alloc(side.rnic, &pd), 0);
	rnic_pd_free(pd);
}

static void memory_region(void **state)
{
	(void)state;
	struct rnic_mr *mr = NULL;
	failing = 1;
	assert_int_equal(rnic_mr_register(side.pd, side.mem, 64, 0, &mr), -ENOMEM);
	assert_null(mr);
	assert_int_equal(rnic_mr_register(side.pd, side.mem, 64, 0, &mr), 0);
	rnic_mr_deregister(mr);
}

static void on_completion(void *ctx, struct rnic_qp *qp, const struct rnic_wc *wc, size_t n)
{
	(void)ctx;
	(void)qp;
	(void)wc;
	(void)n;
}

/* The allocations for a queue pair, its completions, its send queue and its receive buffers. */
static void queue_pair(void **state)
{
	(void)state;
	struct rnic_qp_params params = {
		.send_depth = 8, .recv_depth = 4, .recv_size = 64, .on_completion = on_completion
	};
	struct rnic_qp *qp = NULL;
	unsigned int users = ((struct soft_pd *)side.pd)->users;
	for (unsigned int n = 1; n <= 4; n++) {
		failing = n;
		assert_int_equal(rnic_qp_create(side.pd, &params, &qp), -ENOMEM);
		assert_int_equal(failing, 0);
		assert_null(qp);
		assert_int_equal(((struct soft_pd *)side.pd)->users, users);
	}
	assert_int_equal(rnic_qp_create(side.pd, &params, &qp), 0);
	rnic_qp_destroy(qp);
}

/* A packet for which there is no memory has to be sent again. */
static void held_packet(void **state)
{
	(void)state;
	size_t budget = 1000;
	struct soft_hold hold = { .budget = &budget };
	for (unsigned int n = 1; n <= 2; n++) {
		failing = n;
		assert_int_equal(soft_hold_put(&hold, 0, 1, (const uint8_t *)"x", 1, 0),
				 SOFT_HOLD_FULL);
		assert_int_equal(hold.count, 0);
		assert_true(budget == 1000);
	}
	failing = 0;
	assert_int_equal(soft_hold_put(&hold, 0, 1, (const uint8_t *)"x", 1, 0), SOFT_HOLD_KEPT);
	soft_hold_clear(&hold);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(protection_domain),
		cmocka_unit_test(memory_region),
		cmocka_unit_test(queue_pair),
		cmocka_unit_test(held_packet),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

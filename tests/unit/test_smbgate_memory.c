/* SPDX-License-Identifier: MIT */
/* Memory of the gateway's connections: bounds, use again, and who is told of room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "daemon/smbgate/memory.h"
#include "tests/lib/tries.h"

#define KIB 1024u
#define MIB (1024u * KIB)

/* ---- registration without an RNIC */

static size_t registered; /* regions */
static int register_error;
static unsigned int last_access;

int __wrap_rnic_mr_register(struct rnic_pd *pd, void *addr, size_t len, unsigned int access,
			    struct rnic_mr **ret_mr);
void __wrap_rnic_mr_deregister(struct rnic_mr *mr);

int __wrap_rnic_mr_register(struct rnic_pd *pd, void *addr, size_t len, unsigned int access,
			    struct rnic_mr **ret_mr)
{
	(void)pd;
	assert_int_equal((uintptr_t)addr % 4096, 0);
	memset(addr, 1, len); /* all of it is there */
	if (register_error)
		return register_error;
	registered++;
	last_access = access;
	*ret_mr = (struct rnic_mr *)&registered;
	return 0;
}

void __wrap_rnic_mr_deregister(struct rnic_mr *mr)
{
	assert_ptr_equal(mr, &registered);
	registered--;
}

/* ---- the fixture */

static struct memory_budget budget;
static unsigned int told[2];

static void on_room(void *ctx)
{
	++*(unsigned int *)ctx;
}

static struct memory *fresh(unsigned int which, size_t most)
{
	struct memory *memory;
	assert_int_equal(memory_new(NULL, &budget, most, on_room, &told[which], &memory), 0);
	return memory;
}

static int setup(void **state)
{
	(void)state;
	budget = (struct memory_budget){ .most = 16 * MIB };
	told[0] = told[1] = 0;
	register_error = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_int_equal(registered, 0);
	assert_int_equal(budget.used, 0);
	assert_null(budget.all);
	return 0;
}

static struct block *get(struct memory *memory, enum block_use use, size_t len, int expect)
{
	int error = 1;
	struct block *block = block_get(memory, use, len, &error);
	assert_int_equal(error, expect);
	assert_int_equal(block != NULL, expect == 0);
	return block;
}

/* ---- tests */

static void sizes_and_rights(void **state)
{
	(void)state;
	static const struct {
		size_t len, size;
	} cases[] = {
		{ 1, 16 * KIB },
		{ 16 * KIB, 16 * KIB },
		{ 16 * KIB + 1, 32 * KIB },
		{ 600 * KIB, 1 * MIB },
		{ MIB, MIB },
		{ MIB + 1, 2 * MIB },
		{ 8 * MIB + 112, 9 * MIB },
	};
	struct memory *memory = fresh(0, 16 * MIB);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TRIES("%zu bytes", cases[i].len);
		struct block *block = get(memory, BLOCK_OWN, cases[i].len, 0);
		if (block->size != cases[i].size)
			assert_true(block->size >= cases[i].len); /* an idle one */
		block_put(block);
	}
	block_put(get(memory, BLOCK_OFFERED, 100, 0));
	assert_true(last_access & RNIC_ACCESS_REMOTE_READ &&
		    last_access & RNIC_ACCESS_REMOTE_WRITE);
	memory_free(memory);
	memory = fresh(0, 16 * MIB);
	block_put(get(memory, BLOCK_OWN, 100, 0));
	assert_int_equal(last_access, RNIC_ACCESS_LOCAL_WRITE);
	struct block *large = get(memory, BLOCK_OWN, 8 * MIB + 112, 0);
	assert_int_equal(large->size, 9 * MIB);
	block_put(large);
	memory_free(memory);
}

static void blocks_are_used_again(void **state)
{
	(void)state;
	struct memory *memory = fresh(0, 16 * MIB);
	struct block *block = get(memory, BLOCK_OWN, 64 * KIB, 0);
	block_hold(block);
	block_put(block);
	struct block *second = get(memory, BLOCK_OWN, 64 * KIB, 0);
	assert_ptr_not_equal(second, block); /* which has a holder */
	block_put(block);
	assert_ptr_equal(get(memory, BLOCK_OWN, 40 * KIB, 0), block);
	assert_int_equal(registered, 2);
	block_put(block);
	block_put(second);
	/* Not for the other use, and not if they are far too large. */
	block_put(get(memory, BLOCK_OFFERED, 64 * KIB, 0));
	assert_int_equal(registered, 3);
	block_put(get(memory, BLOCK_OWN, 1, 0));
	assert_int_equal(registered, 3);
	struct block *large = get(memory, BLOCK_OWN, MIB, 0);
	block_put(large);
	struct block *small = get(memory, BLOCK_OWN, 64 * KIB, 0);
	assert_ptr_not_equal(small, large);
	block_put(small);
	block_put(NULL);
	memory_free(memory);
}

static void a_connection_has_a_bound(void **state)
{
	(void)state;
	struct memory *memory = fresh(0, 4 * MIB);
	struct block *first = get(memory, BLOCK_OWN, 3 * MIB, 0);
	get(memory, BLOCK_OWN, 2 * MIB, -EAGAIN);
	assert_int_equal(told[0], 0);
	block_put(first);
	assert_int_equal(told[0], 1); /* once for the refusal */
	/* The idle block gives way to one of another use. */
	struct block *second = get(memory, BLOCK_OFFERED, 2 * MIB, 0);
	assert_int_equal(registered, 1);
	block_put(second);
	assert_int_equal(told[0], 1);
	/* What can never be is not waited for. */
	get(memory, BLOCK_OWN, 5 * MIB, -EMSGSIZE);
	get(memory, BLOCK_OWN, BLOCK_MOST + 1, -EMSGSIZE);
	memory_free(memory);
}

/* Blocks that one connection keeps for later do not keep others waiting, and those that wait are
 * told when the others give something back. */
static void connections_share_the_budget(void **state)
{
	(void)state;
	struct memory *one = fresh(0, 64 * MIB), *two = fresh(1, 64 * MIB);
	struct block *blocks[2];
	for (size_t i = 0; i < 2; i++)
		blocks[i] = get(one, BLOCK_OWN, 8 * MIB, 0);
	get(two, BLOCK_OWN, 8 * MIB, -EAGAIN);
	block_put(blocks[0]); /* idle now, in the other one's hands */
	assert_int_equal(told[1], 1);
	assert_int_equal(told[0], 0);
	struct block *block = get(two, BLOCK_OWN, 8 * MIB, 0);
	assert_int_equal(budget.used, 16 * MIB);
	get(two, BLOCK_OWN, 1, -EAGAIN);
	block_put(blocks[1]);
	memory_free(one); /* a connection that ends gives room, too */
	assert_int_equal(told[1], 2);
	block_put(block);
	memory_free(two);
}

static void reserved_bytes_count(void **state)
{
	(void)state;
	struct memory *one = fresh(0, 4 * MIB), *two = fresh(1, 64 * MIB);
	assert_true(memory_reserve(one, 9 * MIB)); /* the connection's own bound is of blocks */
	assert_int_equal(memory_used(one), 9 * MIB);
	assert_false(memory_reserve(two, 8 * MIB));
	assert_int_equal(memory_used(two), 0);
	get(two, BLOCK_OWN, 8 * MIB, -EAGAIN);
	assert_true(memory_reserve(one, 16 * MIB));
	assert_int_equal(told[1], 0);
	assert_true(memory_reserve(one, MIB));
	assert_int_equal(told[1], 1);
	assert_int_equal(budget.used, MIB);
	block_put(get(two, BLOCK_OWN, 8 * MIB, 0));
	assert_true(memory_reserve(one, 15 * MIB)); /* the idle block goes */
	memory_free(one);
	assert_int_equal(budget.used, 0);
	memory_free(two);
}

static void a_registration_that_fails(void **state)
{
	(void)state;
	struct memory *memory = fresh(0, 4 * MIB);
	register_error = -ENOSPC;
	get(memory, BLOCK_OWN, 1, -ENOSPC);
	assert_int_equal(memory_used(memory), 0);
	assert_int_equal(budget.used, 0);
	memory_free(memory);
	memory_free(NULL);
}

/* Not more than a few of either use wait for use. */
static void idle_blocks_are_few(void **state)
{
	(void)state;
	struct memory *memory = fresh(0, 16 * MIB);
	struct block *blocks[20];
	for (size_t i = 0; i < 20; i++)
		blocks[i] = get(memory, BLOCK_OWN, 1, 0);
	for (size_t i = 0; i < 20; i++)
		block_put(blocks[i]);
	assert_int_equal(registered, 8);
	memory_free(memory);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sizes_and_rights),         TEST(blocks_are_used_again),
		TEST(a_connection_has_a_bound), TEST(connections_share_the_budget),
		TEST(reserved_bytes_count),     TEST(a_registration_that_fails),
		TEST(idle_blocks_are_few),
	};
	return cmocka_run_group_tests_name("smbgate_memory", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* An engine whose allocations fail, one after the other in each test. Nothing leaks, both sides
 * agree on the outcome of the connection, and the next connection works. The Makefile links this
 * test so that calloc() and realloc() are those below. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/smcr/internal.h"
#include "tests/lib/enginepair_fabric.h"
#include "tests/lib/enginepair_v2.h"
#include "tests/lib/tries.h"

#define S      PAIR_SERVER
#define C      PAIR_CLIENT
#define SECOND 1000000

/* ---- the C library ---- */

void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

/* Counts down to the allocation that fails. 0: no allocation fails. */
static unsigned int failing;

/* uthash ends the process when it gets no memory for its tables, so those allocations never
 * fail. */
static bool is_for_hash(size_t size)
{
	return size == sizeof(UT_hash_table) ||
	       size == HASH_INITIAL_NUM_BUCKETS * sizeof(UT_hash_bucket);
}

static bool fails(size_t size)
{
	return !pair_allocating && !is_for_hash(size) && failing && --failing == 0;
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails(n * size) ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return fails(size) ? NULL : __real_realloc(p, size);
}

/* ---- checks ---- */

/* Never does one end of a connection use SMC-R while the other end uses plain TCP. */
static void expect_agreement(struct pair *pair, int c, unsigned int n)
{
	const struct pair_end *s = pair_end(pair, c, S), *k = pair_end(pair, c, C);
	bool broken = s->failed || s->reset || k->failed || k->reset;
	if (!broken && (s->fallback != k->fallback || s->established != k->established ||
			s->fallback + s->established != 1))
		fail_msg("allocation %u: server fallback %u established %u, client %u %u", n,
			 s->fallback, s->established, k->fallback, k->established);
}

/* The engine is unharmed: another connection is set up, and its data arrive. */
static void expect_recovery(struct pair *pair)
{
	failing = 0;
	pair_run(pair, 60 * (uint64_t)SECOND);
	int c = pair_connected(pair);
	pair_exchange(pair, c);
	pair_close(pair, c);
}

static struct pair *pair_of_version(bool v2)
{
	struct smcr_config server = pair_config_with(S, v2 ? "A" : "");
	struct smcr_config client = pair_config_with(C, v2 ? "A" : "");
	return pair_new(&server, &client, 2, 2);
}

/** A first contact with two links, in version 1 and in version 2. */
static void first_contact(void **state)
{
	(void)state;
	for (int v2 = 0; v2 < 2; v2++) {
		TRIES("v2 %d", v2);
		bool over = false;
		unsigned int n = 0;
		while (!over) {
			struct pair *pair = pair_of_version(v2);
			int c = pair_connect(pair, C);
			failing = ++n;
			pair_run(pair, 60 * (uint64_t)SECOND);
			over = failing > 0;
			expect_agreement(pair, c, n);
			expect_recovery(pair);
			pair_free(pair);
		}
		assert_true(n > 15); /* groups, links and their queues, buffers, RMBs of the peer */
	}
}

/** Subsequent contacts, until another RMB is needed. */
static void subsequent_contact(void **state)
{
	(void)state;
	bool over = false;
	unsigned int n = 0;
	while (!over) {
		struct pair *pair = pair_new(NULL, NULL, 2, 2);
		int c[6];
		(void)pair_connected(pair);
		for (int i = 0; i < 6; i++)
			c[i] = pair_connect(pair, C);
		failing = ++n;
		pair_run(pair, 60 * (uint64_t)SECOND);
		over = failing > 0;
		for (int i = 0; i < 6; i++)
			expect_agreement(pair, c[i], n);
		expect_recovery(pair);
		pair_free(pair);
	}
	assert_true(n > 3);
}

/** Another link is added to a group of one. */
static void another_link(void **state)
{
	(void)state;
	bool over = false;
	unsigned int n = 0;
	while (!over) {
		struct pair *pair = pair_new(NULL, NULL, 1, 1);
		int c = pair_connected(pair);
		struct smcr_device_info info[2] = { pair_device(S, 1), pair_device(C, 1) };
		for (int i = 0; i < 2; i++)
			pair_add_device(pair, i, &info[i]);
		failing = ++n;
		pair_run(pair, 60 * (uint64_t)SECOND);
		over = failing > 0;
		pair_exchange(pair, c);
		expect_recovery(pair);
		pair_free(pair);
	}
	assert_true(n > 3);
}

/** Calls of the engine return the error. */
static void calls(void **state)
{
	(void)state;
	struct smcr_config config = pair_config(S);
	struct smcr_engine *engine = NULL;
	const struct smcr_ops ops = pair_ops(NULL);
	failing = 1;
	assert_int_equal(smcr_engine_new(&config, &ops, 0, &engine), -ENOMEM);
	assert_null(engine);
	smcr_engine_free(NULL);

	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	engine = pair->side[S].engine;
	struct smcr_device_info info = pair_device(S, 1);
	failing = 1;
	assert_int_equal(smcr_engine_device_add(engine, &info), -ENOMEM);
	int c = pair_connected(pair);
	struct smcr_command command = { .type = SMCR_COMMAND_LINK_TEST,
					.lgr = pair_lgr_view(pair, S).id,
					.link = 1 };
	uint64_t id = 0;
	failing = 1;
	assert_int_equal(smcr_engine_command(engine, &command, &id), -ENOMEM);
	assert_true(id == 0);
	struct smcr_conn_params params = pair_params(pair, S, SMCR_ROLE_SERVER, c);
	struct smcr_conn *conn = NULL;
	failing = 1;
	assert_int_equal(smcr_conn_start(engine, &params, &conn), -ENOMEM);
	assert_null(conn);
	assert_int_equal(failing, 0);
	pair_exchange(pair, c);
	pair_free(pair);
}

/** A structure that cannot be allocated leaves nothing behind. */
static void structures(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	struct smcr_engine *engine = pair->side[S].engine;
	int c = pair_connected(pair);
	struct smcr_command command = { .type = SMCR_COMMAND_LINK_TEST,
					.lgr = pair_lgr_view(pair, S).id,
					.link = 1 };
	struct smcr_conn_params params = pair_params(pair, S, SMCR_ROLE_SERVER, c);
	struct smcr_conn *conn = NULL;
	struct smcr_device_info info = pair_device(S, 1);
	pair_add_device_quietly(pair, S, &info);
	uint64_t id = 0;
	failing = 1;
	assert_int_equal(smcr_engine_command(engine, &command, &id), -ENOMEM);
	failing = 1;
	assert_int_equal(smcr_conn_start(engine, &params, &conn), -ENOMEM);
	struct smcr_lgr *lgr = pair_lgr(pair, S), *another = NULL;
	/* the allocations of the group and of its exchange */
	for (int which = 1; which <= 2; which++) {
		TRIES("which %d", which);
		failing = which;
		assert_int_equal(smcr_lgr_new(engine, SMCR_ROLE_SERVER, lgr->peer_id, lgr->vlan,
					      &lgr->prefix, &another),
				 -ENOMEM);
	}
	struct smcr_link *link = NULL;
	/* the allocations of the link and of its send queue */
	for (int which = 1; which <= 2; which++) {
		TRIES("which %d", which);
		failing = which;
		assert_int_equal(smcr_link_new(lgr, smcr_device_by_id(engine, info.id), 0, &link),
				 -ENOMEM);
	}
	struct smcr_slab *slab = NULL;
	failing = 1;
	assert_int_equal(smcr_slab_add(lgr, true, 0, 0, &slab), -ENOMEM);
	failing = 0;
	pair_exchange(pair, c);
	pair_free(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_contact), cmocka_unit_test(subsequent_contact),
		cmocka_unit_test(another_link),  cmocka_unit_test(calls),
		cmocka_unit_test(structures),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

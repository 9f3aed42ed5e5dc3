/* SPDX-License-Identifier: MIT */
/* The connection manager without memory: each allocation fails once. Calls return the error and
 * leave nothing behind, peers are refused, and all works when there is memory again. The Makefile
 * links this test so that these functions of the libraries are those below; libevent is told of its
 * own. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cm/internal.h"
#include "tests/lib/cmfix.h"
#include "tests/lib/rnic_side.h"
#include "tests/lib/testnet.h"
#include "tests/lib/tries.h"

void *__real_calloc(size_t n, size_t size);
void *__real_malloc(size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_realloc(void *old, size_t size);

/* Counts down to the call that fails; 0: no call fails. Volatile, as the compiler takes allocation
 * for a function that reads no variable. */
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

void *__wrap_realloc(void *old, size_t size)
{
	return fails() ? NULL : __real_realloc(old, size);
}

/* Let call `number` fail. */
static void fail_call(unsigned int number)
{
	TRIES("allocation %u fails", number);
	failing = number;
}

/* @return whether the call was made that had to fail */
static bool has_failed(void)
{
	const bool failed = failing == 0;
	failing = 0;
	return failed;
}

/* ---- the machine */

static struct cm_machine_sizes sizes_of(const struct cmfix *fix)
{
	struct cm_machine_sizes sizes;
	cm_machine_get_sizes(fix->machine, &sizes);
	return sizes;
}

static void is_empty(const struct cmfix *fix)
{
	const struct cm_machine_sizes sizes = sizes_of(fix);
	assert_int_equal(sizes.conns + sizes.leaving + sizes.time_wait + sizes.peers, 0);
	assert_true(cm_machine_deadline(fix->machine) == UINT64_MAX);
}

static void requests_are_refused(void **state)
{
	bool failed = true;
	(void)state;
	for (unsigned int number = 1; failed; number++) {
		struct cmfix *fix = cmfix_new(NULL);
		struct ibcm_msg req = cmfix_req(), rep;
		fail_call(number);
		cmfix_receive(fix, cmfix_peer, &req);
		failed = has_failed();
		if (failed) {
			assert_int_equal(cmfix_sent(fix, IBCM_REJ)->msg.rej.reason,
					 IBCM_REJ_NO_RESOURCES);
			cmfix_no_event(fix);
			is_empty(fix);
			struct cm_machine_conn *conn = cmfix_passive(fix, &req, 0, &rep);
			cm_machine_conn_free(conn);
		} else {
			assert_true(number > 6); /* peer, timers, connection, tables */
			cm_machine_conn_free(cmfix_event(fix, CM_REQUEST)->conn);
		}
		cmfix_free(fix);
	}
}

static void own_requests_fail(void **state)
{
	bool failed = true;
	(void)state;
	for (unsigned int number = 1; failed; number++) {
		struct cmfix *fix = cmfix_new(NULL);
		struct cm_machine_conn *conn = NULL;
		fail_call(number);
		int error = cmfix_connect(fix, &conn);
		failed = has_failed();
		assert_int_equal(error, failed ? -ENOMEM : 0);
		if (failed) {
			assert_null(conn);
			cmfix_silent(fix);
			is_empty(fix);
			assert_int_equal(cmfix_connect(fix, &conn), 0);
		}
		cm_machine_conn_free(conn);
		cmfix_free(fix);
	}
}

/* The peer has accepted, but its queue pair cannot be remembered. */
static void an_acceptance_is_refused(void **state)
{
	bool failed = true;
	unsigned int refused = 0;
	(void)state;
	for (unsigned int number = 1; failed; number++) {
		struct cmfix *fix = cmfix_new(NULL);
		struct cm_machine_conn *conn;
		assert_int_equal(cmfix_connect(fix, &conn), 0);
		struct ibcm_msg req = cmfix_sent(fix, IBCM_REQ)->msg, rep = cmfix_rep(&req);
		fail_call(number);
		cmfix_receive(fix, cmfix_peer, &rep);
		failed = has_failed();
		if (failed) {
			const struct ibcm_msg *rej = &cmfix_sent(fix, IBCM_REJ)->msg;
			assert_int_equal(rej->rej.reason, IBCM_REJ_NO_RESOURCES);
			assert_int_equal(rej->rej.subject, IBCM_SUBJECT_REP);
			assert_int_equal(cmfix_event(fix, CM_ENDED)->event.end, CM_END_LOCAL);
			assert_int_equal(fix->qps[0].state, CMFIX_ERR);
			refused++;
		} else {
			cmfix_sent(fix, IBCM_RTU);
			cmfix_event(fix, CM_CONNECTED);
		}
		cm_machine_conn_free(conn);
		cmfix_free(fix);
	}
	assert_true(refused > 0);
}

/* Without a record of it, a connection ends all the same. */
static void the_end_needs_no_memory(void **state)
{
	bool failed = true;
	(void)state;
	for (unsigned int number = 1; failed; number++) {
		struct cmfix *fix = cmfix_new(NULL);
		struct ibcm_msg req = cmfix_req();
		cmfix_receive(fix, cmfix_peer, &req);
		struct cm_machine_conn *conn = cmfix_event(fix, CM_REQUEST)->conn;
		fail_call(number);
		cm_machine_reject(conn, "no", 2);
		failed = has_failed();
		assert_int_equal(cmfix_sent(fix, IBCM_REJ)->msg.rej.reason, IBCM_REJ_CONSUMER);
		assert_int_equal(sizes_of(fix).time_wait, !failed);
		assert_int_equal(sizes_of(fix).peers, !failed);
		cmfix_free(fix);
	}
}

/* ---- the manager, of a software RNIC */

static struct testnet net;
static struct event_base *base;
static struct rnic_side side;
static struct cm *cm;
static struct cm_listener *listener;
static struct cm_conn *asked;
static size_t ended, requests;

static const struct cm_addr own = { .family = AF_INET, .addr = { 10, 77, 0, 1 }, .port = 5445 };

static void *event_malloc(size_t size)
{
	return __real_malloc(size);
}

static void *event_realloc(void *old, size_t size)
{
	return __real_realloc(old, size);
}

static int setup(void **state)
{
	(void)state;
	event_set_mem_functions(event_malloc, event_realloc, free);
	testnet_new(&net, 1500);
	base = event_base_new();
	rnic_side_open(&side, base, "soft:t0", 4096);
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

static void on_event(void *ctx, struct cm_conn *conn, const struct cm_event *event)
{
	(void)ctx;
	requests += event->type == CM_REQUEST;
	ended += event->type == CM_ENDED;
	if (event->type == CM_REQUEST)
		asked = conn;
}

static int open_all(void)
{
	const struct cm_params params = { .base = base };
	char error[CM_ERROR_LEN] = "";
	int r = cm_new(&params, &cm);
	if (r)
		return r;
	r = cm_add_rnic(cm, side.rnic, error);
	if (!r)
		r = cm_listen(cm, &own, on_event, NULL, &listener, error);
	if (r)
		assert_true(*error);
	return r;
}

static void close_all(void)
{
	cm_listener_free(listener);
	cm_free(cm);
	listener = NULL;
	cm = NULL;
}

static void what_is_begun_fails_or_works(void **state)
{
	bool failed = true;
	(void)state;
	for (unsigned int number = 1; failed; number++) {
		fail_call(number);
		const int error = open_all();
		failed = has_failed();
		assert_int_equal(error, failed ? -ENOMEM : 0);
		close_all();
	}
}

/* A connection with this host itself, as both sides: who asks gets an error, or a refusal. */
static void a_connection_fails_or_works(void **state)
{
	bool failed = true;
	struct cm_addr local = own;
	char error[CM_ERROR_LEN];
	(void)state;
	local.port = 0;
	assert_int_equal(open_all(), 0);
	for (unsigned int number = 1; failed; number++) {
		struct cm_conn *conn = NULL;
		rnic_side_qp(&side, 8, 8, 64);
		const struct cm_connect_params params = { .rnic = side.rnic,
							  .local = local,
							  .peer = own,
							  .qp = side.qp,
							  .fn = on_event };
		const size_t before = ended + requests;
		fail_call(number);
		const int r = cm_connect(cm, &params, &conn, error);
		for (int i = 0; !r && i < 30000 && ended + requests == before; i++)
			rnic_side_idle(base, 1);
		failed = has_failed();
		assert_int_equal(ended + requests - before, r ? 0 : 1);
		if (asked)
			cm_reject(asked, NULL, 0);
		asked = NULL;
		cm_conn_free(conn);
		rnic_side_qp_destroy(&side);
	}
	assert_true(requests > 0 && ended > 0);
	close_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_are_refused),
		cmocka_unit_test(own_requests_fail),
		cmocka_unit_test(an_acceptance_is_refused),
		cmocka_unit_test(the_end_needs_no_memory),
		cmocka_unit_test(what_is_begun_fails_or_works),
		cmocka_unit_test(a_connection_fails_or_works),
	};
	return cmocka_run_group_tests_name("cm_exhaustion", tests, setup, teardown);
}

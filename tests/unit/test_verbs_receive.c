/* SPDX-License-Identifier: MIT */
/* Receive buffers that the user posts to a verbs device which does not take all of them. There is
 * no device: the test has its own functions of libibverbs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>

#include "daemon/rnic/verbs/internal.h"
#include "tests/lib/tries.h"

#define DEPTH 200
#define LKEY  0x1234u

/* ---- libibverbs */

static unsigned int room;  /* buffers that the device still takes */
static unsigned int taken; /* those that it took, in order */
static unsigned int ended; /* how often it was set to ERR */

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)qp;
	for (; wr; wr = wr->next) {
		if (room == 0) {
			*bad = wr;
			return ENOMEM;
		}
		room--;
		assert_int_equal(wr->wr_id, VERBS_RECV_BIT | taken++ % DEPTH);
	}
	return 0;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)qp;
	assert_int_equal(attr->qp_state, IBV_QPS_ERR);
	assert_int_equal(mask, IBV_QP_STATE);
	ended++;
	return EIO; /* no timer is needed, then */
}

/* ---- a queue pair */

static uint8_t memory[4096];
static struct verbs_device dev;
static struct verbs_pd pd;
static struct verbs_mr mr;
static struct ibv_context context;
static struct ibv_qp device_qp;
static struct verbs_qp qp;
static struct rnic_recv_wr wrs[DEPTH + 1];

static int setup(void **state)
{
	(void)state;
	room = DEPTH;
	taken = ended = 0;
	/* As in a run: nothing waits for the event loop. */
	dev = (struct verbs_device){ .running = true };
	pd = (struct verbs_pd){ .qps = 1 };
	mr = (struct verbs_mr){ .base = { .lkey = LKEY },
				.pd = &pd,
				.addr = memory,
				.len = sizeof(memory),
				.access = RNIC_ACCESS_LOCAL_WRITE };
	HASH_ADD(hh, dev.regions, base.lkey, sizeof(mr.base.lkey), &mr);
	context = (struct ibv_context){ .ops = { .post_recv = post_recv } };
	device_qp = (struct ibv_qp){ .context = &context };
	qp = (struct verbs_qp){ .dev = &dev,
				.pd = &pd,
				.qp = &device_qp,
				.params = { .user_receives = true, .recv_depth = DEPTH },
				.recv_depth = DEPTH };
	for (uint64_t i = 0; i <= DEPTH; i++)
		wrs[i] = (struct rnic_recv_wr){ 5000 + i, memory + i, 1, LKEY };
	return verbs_recv_init(&qp);
}

static int teardown(void **state)
{
	(void)state;
	verbs_recv_free(&qp);
	HASH_CLEAR(hh, dev.regions);
	return 0;
}

/* The buffers that are out, oldest first, are those from `first` on. */
static void expect_out(uint64_t first, unsigned int num)
{
	assert_int_equal(qp.recvs_out, num);
	for (uint64_t i = first; i < first + num; i++) {
		const struct verbs_buffer *oldest = verbs_recv_oldest(&qp);
		assert_non_null(oldest);
		assert_int_equal(oldest->wr_id, 5000 + i);
		assert_ptr_equal(oldest->addr, memory + i);
		qp.recvs_out--;
	}
	assert_null(verbs_recv_oldest(&qp));
}

/* ---- the tests */

static void takes_all(void **state)
{
	(void)state;
	assert_int_equal(verbs_recv_post(&qp.base, wrs, DEPTH + 1), -ENOMEM);
	assert_int_equal(verbs_recv_post(&qp.base, wrs, DEPTH), 0);
	assert_int_equal(taken, DEPTH);
	assert_int_equal(verbs_recv_post(&qp.base, wrs, 1), -ENOMEM);
	expect_out(0, DEPTH);
}

/* Of a call of which the device has taken nothing nothing stays. */
static void takes_none(void **state)
{
	static const unsigned int calls[] = { 1, 63, 64, 65, 199 };
	(void)state;
	assert_int_equal(verbs_recv_post(&qp.base, wrs, 1), 0);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		TRIES("%u buffers", calls[i]);
		room = 0;
		assert_int_equal(verbs_recv_post(&qp.base, wrs + 1, calls[i]), -ENOMEM);
		assert_int_equal(qp.recvs_out, 1);
		assert_int_equal(ended, 0);
	}
	room = DEPTH;
	assert_int_equal(verbs_recv_post(&qp.base, wrs + 1, DEPTH - 1), 0);
	expect_out(0, DEPTH);
}

/* What it has taken cannot be undone: the call succeeds, and all buffers come back with the end of
 * the queue pair, in order. */
static void takes_some(void **state)
{
	static const unsigned int rooms[] = { 1, 63, 64, 65, 127, 128, 198 };
	for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
		TRIES("room for %u", rooms[i]);
		teardown(state);
		assert_int_equal(setup(state), 0);
		assert_int_equal(verbs_recv_post(&qp.base, wrs, 1), 0);
		room = rooms[i];
		assert_int_equal(verbs_recv_post(&qp.base, wrs + 1, DEPTH - 1), 0);
		assert_int_equal(ended, 1);
		assert_int_equal(taken, 1 + rooms[i]);
		assert_int_equal(verbs_recv_post(&qp.base, wrs, 1), -EIO);
		expect_out(0, DEPTH);
	}
}

/* A device that gives back what it does not have, or what there is not, changes nothing. */
static void gives_back_wrongly(void **state)
{
	(void)state;
	assert_true(verbs_recv_take(&qp, VERBS_RECV_BIT) == UINT64_MAX);
	assert_int_equal(verbs_recv_post(&qp.base, wrs, 2), 0);
	assert_true(verbs_recv_take(&qp, VERBS_RECV_BIT | DEPTH) == UINT64_MAX);
	expect_out(0, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(takes_all, setup, teardown),
		cmocka_unit_test_setup_teardown(takes_none, setup, teardown),
		cmocka_unit_test_setup_teardown(takes_some, setup, teardown),
		cmocka_unit_test_setup_teardown(gives_back_wrongly, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

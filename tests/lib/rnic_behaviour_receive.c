/* SPDX-License-Identifier: MIT */
/* Queue pairs whose user posts the receive buffers. */
#include "tests/lib/rnic_behaviour.h"

#include <errno.h>
#include <string.h>

#include "tests/lib/tries.h"

#define PATIENCE RNIC_BEHAVIOUR_PATIENCE
#define QUIET    30
#define HALF     (2u << 20) /* where the second half of a side's memory begins */
#define DEPTH    32         /* of rnic_behaviour_join() */
#define MIB      (1u << 20)

#define a behaviour_a
#define b behaviour_b

static void join(unsigned int retry_ms, unsigned int rnr_retry)
{
	rnic_behaviour_disconnect(NULL);
	a.user_receives = b.user_receives = true;
	rnic_behaviour_join(retry_ms, rnr_retry);
}

static int connect_receivers(void **state)
{
	(void)state;
	join(4000, 7);
	return 0;
}

/* Send from registered memory. */
static int send_from(struct rnic_side *side, size_t from, uint32_t len, uint64_t wr_id)
{
	struct rnic_send_wr wr = { .wr_id = wr_id,
				   .opcode = RNIC_WR_SEND,
				   .flags = RNIC_SEND_SIGNALED,
				   .num_sge = 1,
				   .sge = { { side->mem + from, len,
					      rnic_mr_lkey(side->source) } } };
	return rnic_post_send(side->qp, &wr, 1);
}

static void expect_recv(const struct rnic_side *side, size_t i, uint64_t wr_id, uint32_t length)
{
	assert_true(i < side->num_recvs);
	assert_int_equal(side->recvs[i].status, RNIC_WC_SUCCESS);
	assert_int_equal(side->recvs[i].wr_id, wr_id);
	assert_int_equal(side->recvs[i].length, length);
	assert_false(side->recvs[i].invalidated);
}

/* Messages of all sizes arrive in the buffers that were posted for them, and nothing beside them is
 * written. The callback gets the buffer itself. */
static void sizes(void **state)
{
	static const uint32_t lengths[] = { 0,    1,    3,     44,    1023,   1024,    1025, 4096,
					    8192, 8193, 65535, 65536, 100000, MIB - 1, MIB };
	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		for (uint32_t room = 0; room < 2; room++) {
			uint32_t len = lengths[i];
			TRIES("%u bytes, %u bytes more room", len, room);
			rnic_side_forget(&a);
			rnic_side_forget(&b);
			rnic_side_pattern(a.mem, len + 1, len);
			memset(b.mem + HALF, 0x55, len + 16);
			assert_int_equal(rnic_side_post_recv(&b, HALF + 8, len + room, i), 0);
			assert_int_equal(send_from(&a, 0, len, 1), 0);
			assert_true(rnic_side_wait(behaviour_base, &b.num_messages, 1, PATIENCE));
			expect_recv(&b, 0, i, len);
			if (len)
				assert_ptr_equal(b.recvs[0].data, b.mem + HALF + 8);
			assert_memory_equal(b.mem + HALF + 8, a.mem, len);
			for (uint32_t k = 0; k < 8; k++) {
				assert_int_equal(b.mem[HALF + k], 0x55);
				assert_int_equal(b.mem[HALF + 8 + len + k], 0x55);
			}
			rnic_behaviour_expect_done(&a, 1);
		}
	}
}

/* Buffers are used in the order in which they were posted, in one call or several, before the queue
 * pair was connected or after that, and their wr_ids come back whole. */
static void order(void **state)
{
	struct rnic_recv_wr wrs[20];
	uint64_t n = 0;
	(void)state;
	rnic_behaviour_disconnect(NULL);
	a.user_receives = b.user_receives = true;
	rnic_side_qp(&a, 64, DEPTH, 0);
	rnic_side_qp(&b, 64, DEPTH, 0);
	assert_int_equal(rnic_side_post_recv(&b, 0, 100, UINT64_MAX), 0);
	for (uint64_t i = 0; i < 20; i++)
		wrs[i] = (struct rnic_recv_wr){ UINT64_MAX - 1 - i, b.mem + 100 * (i + 1), 100,
						rnic_mr_lkey(b.source) };
	assert_int_equal(rnic_post_recv(b.qp, wrs, 20), 0);
	rnic_side_join(&a, &b, 3);
	assert_int_equal(rnic_side_post_recv(&b, 2100, 100, UINT64_MAX - 21), 0);
	for (; n < 22; n++)
		assert_int_equal(rnic_side_send(&a, &n, sizeof(n), n), 0);
	assert_true(rnic_side_wait(behaviour_base, &b.num_messages, 22, PATIENCE));
	for (uint64_t i = 0; i < 22; i++) {
		expect_recv(&b, i, UINT64_MAX - i, sizeof(i));
		assert_memory_equal(b.mem + 100 * i, &i, sizeof(i));
		assert_memory_equal(b.messages[i].data, &i, sizeof(i));
	}
}

static void post_again(struct rnic_side *side, const struct rnic_wc *wc)
{
	if (wc->is_recv && wc->status == RNIC_WC_SUCCESS)
		assert_int_equal(rnic_side_post_recv(side, wc->wr_id * 100, 100, wc->wr_id), 0);
}

/* A buffer is the user's again in the callback, which can post it at once. Far more messages arrive
 * than there are buffers. */
static void posted_again_in_callback(void **state)
{
	(void)state;
	b.hook = post_again;
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(rnic_side_post_recv(&b, i * 100, 100, i), 0);
	for (uint32_t n = 0; n < 1000;) {
		int r = rnic_side_send(&a, &n, sizeof(n), n);
		if (r == 0) {
			n++;
			continue;
		}
		assert_int_equal(r, -ENOMEM);
		event_base_loop(behaviour_base, EVLOOP_ONCE);
	}
	assert_true(rnic_side_wait(behaviour_base, &b.num_messages, 1000, PATIENCE));
	for (uint32_t i = 0; i < 1000; i++) {
		expect_recv(&b, i, i % 4, sizeof(i));
		assert_memory_equal(b.messages[i].data, &i, sizeof(i));
	}
}

/* ---- without a buffer */

/* With RNR retry 7 a message waits for its buffer. */
static void message_waits_for_buffer(void **state)
{
	(void)state;
	assert_int_equal(rnic_side_send(&a, "first", 5, 1), 0);
	assert_int_equal(rnic_side_send(&a, "second", 6, 2), 0);
	rnic_side_idle(behaviour_base, 300);
	assert_int_equal(a.num_sends + b.num_recvs, 0);
	assert_int_equal(rnic_side_post_recv(&b, 0, 100, 11), 0);
	assert_true(rnic_side_wait(behaviour_base, &b.num_messages, 1, PATIENCE));
	rnic_side_idle(behaviour_base, QUIET);
	assert_int_equal(b.num_recvs, 1);
	assert_int_equal(rnic_side_post_recv(&b, 100, 100, 12), 0);
	assert_true(rnic_side_wait(behaviour_base, &b.num_messages, 2, PATIENCE));
	expect_recv(&b, 0, 11, 5);
	expect_recv(&b, 1, 12, 6);
	assert_memory_equal(b.mem, "first", 5);
	assert_memory_equal(b.mem + 100, "second", 6);
	rnic_behaviour_expect_done(&a, 2);
}

/* With RNR retry 0 the first message without a buffer ends the connection; a WRITE needs none. */
static void message_without_buffer_ends(void **state)
{
	(void)state;
	join(4000, 0);
	assert_int_equal(rnic_side_post_recv(&b, 0, 100, 1), 0);
	assert_int_equal(rnic_side_send(&a, "x", 1, 1), 0);
	assert_int_equal(rnic_side_write(&a, 0, 100, &b, 1000, 2), 0);
	rnic_behaviour_expect_done(&a, 2);
	assert_int_equal(rnic_side_send(&a, "y", 1, 3), 0);
	assert_int_equal(rnic_side_send(&a, "z", 1, 4), 0);
	rnic_behaviour_expect_end(&a, 4);
	assert_int_equal(a.sends[2].status, RNIC_WC_RNR_RETRY_EXC_ERR);
	assert_int_equal(a.sends[3].status, RNIC_WC_WR_FLUSH_ERR);
	assert_int_equal(b.num_messages, 1);
}

/* A SEND that is longer than its buffer ends the connection, and leaves alone what is behind the
 * buffer. rdma_rxe (6.12) calls that an error of its own instead of an invalid request. */
static void message_too_long_ends(void **state)
{
	static const uint32_t lengths[] = { 101, 1025, 5000, MIB };
	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		const uint32_t len = lengths[i];
		TRIES("%u bytes", len);
		join(4000, 7);
		memset(b.mem, 0x55, 2 * MIB);
		memset(a.mem, 0x66, len);
		assert_int_equal(rnic_side_post_recv(&b, 0, len - 1, 7), 0);
		assert_int_equal(rnic_side_post_recv(&b, MIB, MIB, 8), 0);
		assert_int_equal(send_from(&a, 0, len, 1), 0);
		assert_int_equal(send_from(&a, 0, 10, 2), 0);
		assert_true(rnic_side_wait(behaviour_base, &b.recv_errors, 3, PATIENCE));
		assert_true(rnic_side_wait(behaviour_base, &a.recv_errors, 1, PATIENCE));
		rnic_side_idle(behaviour_base, QUIET);
		assert_int_equal(a.num_sends, 2);
		assert_int_equal(a.sends[0].status, rnic_behaviour_is_rxe(&b)
							    ? RNIC_WC_REM_OP_ERR
							    : RNIC_WC_REM_INV_REQ_ERR);
		assert_int_equal(a.sends[1].status, RNIC_WC_WR_FLUSH_ERR);
		assert_int_equal(b.num_recvs, 3);
		assert_int_equal(b.num_messages, 0);
		assert_int_equal(b.recvs[0].wr_id, 7);
		assert_int_equal(b.recvs[1].wr_id, 8);
		assert_int_equal(b.recvs[1].status, RNIC_WC_WR_FLUSH_ERR);
		for (uint32_t k = len - 1; k < 2 * MIB; k++)
			assert_int_equal(b.mem[k], 0x55);
	}
}

/* ---- the end */

/* Buffers that were not used come back in order, flushed, and the end behind them. */
static void buffers_are_flushed(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < DEPTH; i++)
		assert_int_equal(rnic_side_post_recv(&b, i * 100, 100, 1000 + i), 0);
	assert_int_equal(rnic_side_send(&a, "x", 1, 1), 0);
	assert_true(rnic_side_wait(behaviour_base, &b.num_messages, 1, PATIENCE));
	rnic_qp_error(b.qp);
	assert_int_equal(b.num_recvs, 1); /* callbacks come from the event loop only */
	assert_true(rnic_side_wait(behaviour_base, &b.num_recvs, DEPTH + 1, PATIENCE));
	rnic_side_idle(behaviour_base, QUIET);
	assert_int_equal(b.num_recvs, DEPTH + 1);
	assert_int_equal(b.num_sends, 0);
	for (uint64_t i = 1; i < DEPTH; i++) {
		assert_int_equal(b.recvs[i].wr_id, 1000 + i);
		assert_int_equal(b.recvs[i].status, RNIC_WC_WR_FLUSH_ERR);
	}
	assert_int_equal(b.recvs[DEPTH].status, RNIC_WC_WR_FLUSH_ERR);
	struct rnic_recv_wr wr = { 1, b.mem, 100, rnic_mr_lkey(b.source) };
	assert_int_equal(rnic_post_recv(b.qp, &wr, 1), -EIO);
}

/* The same before the queue pair is connected, and with requests under way. */
static void buffers_are_flushed_early(void **state)
{
	(void)state;
	rnic_behaviour_disconnect(NULL);
	a.user_receives = true;
	rnic_side_qp(&a, 8, 8, 0);
	assert_int_equal(rnic_side_post_recv(&a, 0, 100, 5), 0);
	rnic_qp_error(a.qp);
	assert_true(rnic_side_wait(behaviour_base, &a.num_recvs, 2, PATIENCE));
	assert_int_equal(a.recvs[0].wr_id, 5);
	assert_int_equal(a.recvs[0].status, RNIC_WC_WR_FLUSH_ERR);
	assert_int_equal(a.recvs[1].status, RNIC_WC_WR_FLUSH_ERR);
	join(4000, 7);
	assert_int_equal(rnic_side_post_recv(&a, 0, 100, 6), 0);
	assert_int_equal(rnic_side_send(&a, "no buffer there", 15, 1), 0);
	rnic_qp_error(a.qp);
	assert_true(rnic_side_wait(behaviour_base, &a.num_recvs, 2, PATIENCE));
	assert_int_equal(a.num_sends, 1);
	assert_int_equal(a.sends[0].status, RNIC_WC_WR_FLUSH_ERR);
	assert_int_equal(a.recvs[0].wr_id, 6);
}

static void destroy_hook(struct rnic_side *side, const struct rnic_wc *wc)
{
	(void)wc;
	rnic_side_qp_destroy(side);
}

/* A callback may destroy the queue pair while its buffers come back. */
static void destroyed_while_flushed(void **state)
{
	(void)state;
	b.hook = destroy_hook;
	for (uint64_t i = 0; i < 10; i++)
		assert_int_equal(rnic_side_post_recv(&b, i * 100, 100, i), 0);
	rnic_qp_error(b.qp);
	assert_true(rnic_side_wait(behaviour_base, &b.num_recvs, 1, PATIENCE));
	assert_null(b.qp);
	rnic_side_idle(behaviour_base, QUIET);
}

static void rules(void **state)
{
	struct rnic_recv_wr wrs[DEPTH + 1];
	struct rnic_pd *pd;
	struct rnic_mr *mr;
	(void)state;
	for (uint64_t i = 0; i <= DEPTH; i++)
		wrs[i] = (struct rnic_recv_wr){ i, b.mem + i * 100, 100, rnic_mr_lkey(b.source) };
	/* All or none, and not more than recv_depth. */
	assert_int_equal(rnic_post_recv(b.qp, wrs, DEPTH + 1), -ENOMEM);
	assert_int_equal(rnic_post_recv(b.qp, wrs, 0), 0);
	struct rnic_recv_wr bad[2] = { wrs[0], wrs[1] };
	bad[1].lkey ^= 0x55AA55;
	assert_int_equal(rnic_post_recv(b.qp, bad, 2), -EINVAL);
	bad[1] = wrs[1];
	bad[1].length = (uint32_t)b.mem_len;
	assert_int_equal(rnic_post_recv(b.qp, bad, 2), -EINVAL);
	assert_int_equal(rnic_pd_alloc(b.rnic, &pd), 0);
	assert_int_equal(rnic_mr_register(pd, b.mem, 100, RNIC_ACCESS_LOCAL_WRITE, &mr), 0);
	bad[0].lkey = rnic_mr_lkey(mr);
	assert_int_equal(rnic_post_recv(b.qp, bad, 1), -EINVAL);
	rnic_mr_deregister(mr);
	rnic_pd_free(pd);
	assert_int_equal(rnic_mr_register(b.pd, b.mem, 100, RNIC_ACCESS_REMOTE_READ, &mr), 0);
	bad[0].lkey = rnic_mr_lkey(mr);
	assert_int_equal(rnic_post_recv(b.qp, bad, 1), -EINVAL);
	rnic_mr_deregister(mr);
	/* Nothing of that was posted. */
	assert_int_equal(rnic_post_recv(b.qp, wrs, DEPTH), 0);
	assert_int_equal(rnic_post_recv(b.qp, wrs, 1), -ENOMEM);
	assert_int_equal(rnic_side_send(&a, "x", 1, 1), 0);
	assert_true(rnic_side_wait(behaviour_base, &b.num_messages, 1, PATIENCE));
	expect_recv(&b, 0, 0, 1);
	assert_int_equal(rnic_post_recv(b.qp, wrs, 2), -ENOMEM);
	assert_int_equal(rnic_post_recv(b.qp, wrs, 1), 0);
	/* A queue pair that posts buffers itself. */
	rnic_behaviour_disconnect(NULL);
	rnic_behaviour_join(4000, 7);
	assert_int_equal(rnic_post_recv(b.qp, wrs, 1), -EINVAL);
}

#define RECEIVERS(f)                                                                               \
	cmocka_unit_test_setup_teardown(f, connect_receivers, rnic_behaviour_disconnect)

static const struct CMUnitTest tests[] = {
	RECEIVERS(sizes),
	RECEIVERS(order),
	RECEIVERS(posted_again_in_callback),
	RECEIVERS(message_waits_for_buffer),
	RECEIVERS(message_without_buffer_ends),
	RECEIVERS(message_too_long_ends),
	RECEIVERS(buffers_are_flushed),
	RECEIVERS(buffers_are_flushed_early),
	RECEIVERS(destroyed_while_flushed),
	RECEIVERS(rules),
};
const struct rnic_behaviour_group rnic_behaviour_receive = { tests,
							     sizeof(tests) / sizeof(tests[0]) };

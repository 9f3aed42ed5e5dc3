/* SPDX-License-Identifier: MIT */
/* Memory windows, and SENDs that invalidate their tokens. `b` has the windows, `a` uses them. */
#include "tests/lib/rnic_behaviour.h"

#include <errno.h>
#include <string.h>

#include "tests/lib/tries.h"

#define PATIENCE RNIC_BEHAVIOUR_PATIENCE
#define HALF     (2u << 20) /* where the second half of a side's memory begins */
#define BOTH     (RNIC_ACCESS_REMOTE_READ | RNIC_ACCESS_REMOTE_WRITE)

#define a behaviour_a
#define b behaviour_b

static struct rnic_mr *region; /* the memory of `b`, for windows */
static struct rnic_window *window;
static bool without; /* the device has no windows */

static void join(void)
{
	rnic_behaviour_disconnect(NULL);
	a.reads_asked = b.reads_answered = 4;
	rnic_behaviour_join(4000, 7);
}

static int connect_windows(void **state)
{
	struct rnic_info info;
	(void)state;
	rnic_get_info(b.rnic, &info);
	without = !info.windows;
	assert_int_equal(
		rnic_mr_register(b.pd, b.mem, b.mem_len, RNIC_ACCESS_LOCAL_WRITE | BOTH, &region),
		0);
	assert_int_equal(rnic_window_new(b.pd, &window), without ? -EOPNOTSUPP : 0);
	join();
	return 0;
}

static int disconnect_windows(void **state)
{
	rnic_behaviour_disconnect(state);
	if (window)
		rnic_window_free(window);
	if (region)
		rnic_mr_deregister(region);
	window = NULL;
	region = NULL;
	return 0;
}

/* `side` sends a message after what it has posted, and its peer gets it. */
static void after_that(struct rnic_side *side, struct rnic_side *peer)
{
	const size_t sends = side->num_sends, messages = peer->num_messages;
	assert_int_equal(rnic_side_send(side, "so much for that", 16, 500), 0);
	assert_true(rnic_side_wait(behaviour_base, &peer->num_messages, messages + 1, PATIENCE));
	assert_true(rnic_side_wait(behaviour_base, &side->num_sends, sends + 1, PATIENCE));
	assert_int_equal(side->sends[sends].wr_id, 500);
	assert_int_equal(side->sends[sends].status, RNIC_WC_SUCCESS);
}

/* Bind [at, at + len) of the memory of `b`, and tell `a`. */
static void bind_part(struct rnic_window *w, size_t at, size_t len, unsigned int access)
{
	assert_int_equal(rnic_window_bind(w, b.qp, region, b.mem + at, len, access), 0);
	assert_true(rnic_window_vaddr(w) != 0);
	after_that(&b, &a);
}

/* `side` writes or reads `len` bytes at `at` of a window. */
static int use(struct rnic_side *side, enum rnic_opcode opcode, const struct rnic_window *w,
	       int64_t at, uint32_t len, uint32_t rkey)
{
	struct rnic_send_wr wr = {
		.wr_id = 77,
		.opcode = opcode,
		.flags = RNIC_SEND_SIGNALED,
		.num_sge = 1,
		.sge = { { side->mem + HALF, len, rnic_mr_lkey(side->source) } },
		.remote_addr = rnic_window_vaddr(w) + (uint64_t)at,
		.rkey = rkey,
	};
	return rnic_post_send(side->qp, &wr, 1);
}

static void expect_use(struct rnic_side *side, const struct rnic_window *w, size_t place, size_t at,
		       uint32_t len)
{
	const size_t sends = side->num_sends;
	const uint32_t rkey = rnic_window_rkey(w);
	rnic_side_pattern(side->mem + HALF, len, (uint32_t)place + len);
	memset(b.mem + place + at, 0, len);
	assert_int_equal(use(side, RNIC_WR_RDMA_WRITE, w, (int64_t)at, len, rkey), 0);
	assert_true(rnic_side_wait(behaviour_base, &side->num_sends, sends + 1, PATIENCE));
	assert_int_equal(side->sends[sends].status, RNIC_WC_SUCCESS);
	assert_memory_equal(b.mem + place + at, side->mem + HALF, len);
	rnic_side_pattern(b.mem + place + at, len, (uint32_t)place + len + 1);
	assert_int_equal(use(side, RNIC_WR_RDMA_READ, w, (int64_t)at, len, rkey), 0);
	assert_true(rnic_side_wait(behaviour_base, &side->num_sends, sends + 2, PATIENCE));
	assert_int_equal(side->sends[sends + 1].status, RNIC_WC_SUCCESS);
	assert_memory_equal(b.mem + place + at, side->mem + HALF, len);
}

/* `side` may not do that: its queue pair ends, and the window's memory, which begins at `place`,
 * stays as it is. */
static void expect_no_use(struct rnic_side *side, enum rnic_opcode opcode,
			  const struct rnic_window *w, size_t place, int64_t at, uint32_t rkey)
{
	const size_t sends = side->num_sends;
	memset(b.mem + place, 0x55, 5000);
	memset(side->mem + HALF, 0x66, 100);
	assert_int_equal(use(side, opcode, w, at, 100, rkey), 0);
	assert_true(rnic_side_wait(behaviour_base, &side->recv_errors, 1, PATIENCE));
	assert_int_equal(side->num_sends, sends + 1);
	assert_int_equal(side->sends[sends].status, RNIC_WC_REM_ACCESS_ERR);
	for (int i = 0; i < 5000; i++)
		assert_int_equal(b.mem[place + (size_t)i], 0x55);
	for (int i = 0; i < 100; i++)
		assert_int_equal(side->mem[HALF + i], 0x66);
}

/* ---- binding */

static void without_windows(void **state)
{
	(void)state;
	if (without)
		skip();
}

static void parts_are_used(void **state)
{
	static const struct {
		size_t at, len;
	} parts[] = { { 0, 1 }, { 100, 5000 }, { 4095, 4097 }, { 65536, 1u << 20 } };
	without_windows(state);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		const size_t len = parts[i].len;
		TRIES("part %zu", i);
		bind_part(window, parts[i].at, len, BOTH);
		expect_use(&a, window, parts[i].at, 0, (uint32_t)len);
		expect_use(&a, window, parts[i].at, len - 1, 1);
		expect_use(&a, window, parts[i].at, len, 0);
		assert_int_equal(rnic_window_invalidate(window, b.qp), 0);
	}
	/* The whole region. */
	bind_part(window, 0, b.mem_len, BOTH);
	expect_use(&a, window, 0, b.mem_len - 100, 100);
}

static void nothing_beside_them_is(void **state)
{
	static const struct {
		enum rnic_opcode opcode;
		int64_t at;
	} rows[] = { { RNIC_WR_RDMA_WRITE, 1901 }, { RNIC_WR_RDMA_WRITE, -1 },
		     { RNIC_WR_RDMA_WRITE, 2000 }, { RNIC_WR_RDMA_READ, 1901 },
		     { RNIC_WR_RDMA_READ, -1 },    { RNIC_WR_RDMA_READ, 100000 } };
	without_windows(state);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		join();
		rnic_window_free(window);
		assert_int_equal(rnic_window_new(b.pd, &window), 0);
		bind_part(window, 1000, 2000, BOTH);
		expect_no_use(&a, rows[i].opcode, window, 0, rows[i].at, rnic_window_rkey(window));
	}
}

/* A window gives no right but those that it was bound with. */
static void rights_are_kept(void **state)
{
	without_windows(state);
	bind_part(window, 0, 5000, RNIC_ACCESS_REMOTE_WRITE);
	assert_int_equal(use(&a, RNIC_WR_RDMA_WRITE, window, 0, 100, rnic_window_rkey(window)), 0);
	rnic_behaviour_expect_done(&a, 1);
	expect_no_use(&a, RNIC_WR_RDMA_READ, window, 0, 0, rnic_window_rkey(window));
	join();
	rnic_window_free(window);
	assert_int_equal(rnic_window_new(b.pd, &window), 0);
	bind_part(window, 0, 5000, RNIC_ACCESS_REMOTE_READ);
	assert_int_equal(use(&a, RNIC_WR_RDMA_READ, window, 0, 100, rnic_window_rkey(window)), 0);
	rnic_behaviour_expect_done(&a, 1);
	expect_no_use(&a, RNIC_WR_RDMA_WRITE, window, 0, 0, rnic_window_rkey(window));
}

/* The region may have fewer rights than the queue pair's peer has otherwise, and is named by where
 * it lies in this process. */
static void region_of_one_right(void **state)
{
	static const unsigned int rights[] = { RNIC_ACCESS_REMOTE_READ, RNIC_ACCESS_REMOTE_WRITE };
	without_windows(state);
	for (size_t i = 0; i < 2; i++) {
		struct rnic_mr *mr;
		TRIES("right %u", rights[i]);
		assert_int_equal(rnic_mr_register(b.pd, b.mem + 100, 10000,
						  RNIC_ACCESS_LOCAL_WRITE | rights[i], &mr),
				 0);
		assert_int_equal(rnic_window_bind(window, b.qp, mr, b.mem + 200, 100, BOTH),
				 -EINVAL);
		assert_int_equal(rnic_window_bind(window, b.qp, mr, b.mem + 200, 100, rights[i]),
				 0);
		after_that(&b, &a);
		rnic_side_forget(&a);
		rnic_side_pattern(b.mem, 400, 1);
		rnic_side_pattern(a.mem + HALF, 100, 2);
		assert_int_equal(use(&a,
				     rights[i] == RNIC_ACCESS_REMOTE_READ ? RNIC_WR_RDMA_READ
									  : RNIC_WR_RDMA_WRITE,
				     window, 0, 100, rnic_window_rkey(window)),
				 0);
		rnic_behaviour_expect_done(&a, 1);
		assert_memory_equal(a.mem + HALF, b.mem + 200, 100);
		assert_int_equal(rnic_window_invalidate(window, b.qp), 0);
		after_that(&b, &a);
		rnic_mr_deregister(mr);
	}
}

static void bind_rules(void **state)
{
	struct rnic_pd *pd;
	struct rnic_mr *mr;
	struct rnic_window *other;
	without_windows(state);
	assert_int_equal(rnic_window_bind(window, b.qp, region, b.mem - 1, 10, BOTH), -EINVAL);
	assert_int_equal(rnic_window_bind(window, b.qp, region, b.mem + 1, b.mem_len, BOTH),
			 -EINVAL);
	assert_int_equal(rnic_window_bind(window, b.qp, region, b.mem, 0, BOTH), -EINVAL);
	assert_int_equal(rnic_window_bind(window, b.qp, region, b.mem, SIZE_MAX, BOTH), -EINVAL);
	assert_int_equal(rnic_window_bind(window, b.qp, region, b.mem, 10, 0), -EINVAL);
	assert_int_equal(
		rnic_window_bind(window, b.qp, region, b.mem, 10, RNIC_ACCESS_LOCAL_WRITE | BOTH),
		-EINVAL);
	/* Another device, another protection domain. */
	assert_int_equal(rnic_window_bind(window, a.qp, region, b.mem, 10, BOTH), -EINVAL);
	assert_int_equal(rnic_window_bind(window, b.qp, a.mr, a.mem, 10, RNIC_ACCESS_REMOTE_WRITE),
			 -EINVAL);
	assert_int_equal(rnic_pd_alloc(b.rnic, &pd), 0);
	assert_int_equal(rnic_mr_register(pd, b.mem, 100, RNIC_ACCESS_LOCAL_WRITE | BOTH, &mr), 0);
	assert_int_equal(rnic_window_new(pd, &other), 0);
	assert_int_equal(rnic_window_bind(window, b.qp, mr, b.mem, 10, BOTH), -EINVAL);
	assert_int_equal(rnic_window_bind(other, b.qp, region, b.mem, 10, BOTH), -EINVAL);
	assert_int_equal(rnic_window_bind(other, b.qp, mr, b.mem, 10, BOTH), -EINVAL);
	rnic_window_free(other);
	rnic_mr_deregister(mr);
	rnic_pd_free(pd);
	/* It is bound. */
	bind_part(window, 0, 10, BOTH);
	assert_int_equal(rnic_window_bind(window, b.qp, region, b.mem, 10, BOTH), -EBUSY);
	assert_int_equal(rnic_window_invalidate(window, a.qp), -EINVAL);
	assert_int_equal(rnic_window_invalidate(window, b.qp), 0);
	assert_int_equal(rnic_window_bind(window, b.qp, region, b.mem, 10, BOTH), 0);
	after_that(&b, &a);
	/* The queue pair has ended, or does not send yet. */
	rnic_qp_error(b.qp);
	assert_int_equal(rnic_window_invalidate(window, b.qp), -EIO);
	rnic_behaviour_disconnect(NULL);
	rnic_side_qp(&b, 8, 8, 44);
	assert_int_equal(rnic_window_bind(window, b.qp, region, b.mem, 10, BOTH), -ENOTCONN);
}

/* ---- the end of a token */

static void invalidated_here(void **state)
{
	static const enum rnic_opcode opcodes[] = { RNIC_WR_RDMA_WRITE, RNIC_WR_RDMA_READ };
	without_windows(state);
	for (size_t i = 0; i < 2; i++) {
		TRIES("opcode %u", opcodes[i]);
		join();
		bind_part(window, 0, 5000, BOTH);
		expect_use(&a, window, 0, 0, 5000);
		assert_int_equal(rnic_window_invalidate(window, b.qp), 0);
		after_that(&b, &a);
		expect_no_use(&a, opcodes[i], window, 0, 0, rnic_window_rkey(window));
	}
}

/* Each binding has a token of its own, and those of before are dead. */
static void bound_again(void **state)
{
	uint32_t before[40];
	without_windows(state);
	for (size_t i = 0; i < 40; i++) {
		TRIES("binding %zu", i);
		bind_part(window, i * 100, 100, BOTH);
		before[i] = rnic_window_rkey(window);
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(before[k], before[i]);
		expect_use(&a, window, i * 100, 0, 100);
		if (i < 39)
			assert_int_equal(rnic_window_invalidate(window, b.qp), 0);
	}
	expect_no_use(&a, RNIC_WR_RDMA_WRITE, window, 3900, 0, before[38]);
}

/* Binding and invalidation follow each other without a wait, and the user hears nothing of them. */
static void bound_at_full_speed(void **state)
{
	without_windows(state);
	for (int i = 0; i < 500;) {
		int r = rnic_window_bind(window, b.qp, region, b.mem, 100, BOTH);
		if (r == 0) {
			while ((r = rnic_window_invalidate(window, b.qp)) == -ENOMEM)
				event_base_loop(behaviour_base, EVLOOP_ONCE);
			assert_int_equal(r, 0);
			i++;
			continue;
		}
		assert_int_equal(r, -ENOMEM);
		event_base_loop(behaviour_base, EVLOOP_ONCE);
	}
	for (int r; (r = rnic_window_bind(window, b.qp, region, b.mem, 100, BOTH));) {
		assert_int_equal(r, -ENOMEM);
		event_base_loop(behaviour_base, EVLOOP_ONCE);
	}
	for (int r; (r = rnic_side_send(&b, "done", 4, 1));) {
		assert_int_equal(r, -ENOMEM);
		event_base_loop(behaviour_base, EVLOOP_ONCE);
	}
	rnic_behaviour_expect_done(&b, 1);
	assert_true(rnic_side_wait(behaviour_base, &a.num_messages, 1, PATIENCE));
	expect_use(&a, window, 0, 0, 100);
}

#define SEVERAL 20

/* Several windows of one region, that overlap; each ends for itself. */
static void several(void **state)
{
	struct rnic_window *w[SEVERAL];
	without_windows(state);
	for (size_t i = 0; i < SEVERAL; i++) {
		assert_int_equal(rnic_window_new(b.pd, &w[i]), 0);
		assert_int_equal(rnic_window_bind(w[i], b.qp, region, b.mem + i * 500, 1000, BOTH),
				 0);
	}
	after_that(&b, &a);
	for (size_t i = 0; i < SEVERAL; i++)
		expect_use(&a, w[i], i * 500, 0, 1000);
	for (size_t i = 0; i < SEVERAL; i += 2)
		assert_int_equal(rnic_window_invalidate(w[i], b.qp), 0);
	after_that(&b, &a);
	for (size_t i = 1; i < SEVERAL; i += 2)
		expect_use(&a, w[i], i * 500, 0, 1000);
	expect_no_use(&a, RNIC_WR_RDMA_READ, w[4], 2000, 0, rnic_window_rkey(w[4]));
	for (size_t i = 0; i < SEVERAL; i++)
		rnic_window_free(w[i]);
}

static int send_invalidate(struct rnic_side *side, uint32_t rkey)
{
	struct rnic_send_wr wr = { .wr_id = 88,
				   .opcode = RNIC_WR_SEND_INVALIDATE,
				   .flags = RNIC_SEND_SIGNALED | RNIC_SEND_INLINE,
				   .num_sge = 1,
				   .sge = { { "enough", 6, 0 } },
				   .rkey = rkey };
	return rnic_post_send(side->qp, &wr, 1);
}

static bool dead_when_told; /* ..and so it could be bound again in the callback */

static void bind_hook(struct rnic_side *side, const struct rnic_wc *wc)
{
	if (wc->is_recv && wc->invalidated)
		dead_when_told = rnic_window_bind(window, side->qp, region, side->mem + 5000, 5000,
						  BOTH) == 0;
}

/* The peer ends the token: it is dead when the message is told, and not before. */
static void invalidated_by_peer(void **state)
{
	without_windows(state);
	bind_part(window, 0, 5000, BOTH);
	const uint32_t rkey = rnic_window_rkey(window);
	const size_t told = b.num_recvs;
	b.hook = bind_hook;
	dead_when_told = false;
	assert_int_equal(use(&a, RNIC_WR_RDMA_READ, window, 0, 5000, rkey), 0);
	rnic_behaviour_expect_done(&a, 1);
	assert_int_equal(use(&a, RNIC_WR_RDMA_WRITE, window, 0, 5000, rkey), 0);
	assert_int_equal(send_invalidate(&a, rkey), 0);
	rnic_behaviour_expect_done(&a, 3);
	assert_true(rnic_side_wait(behaviour_base, &b.num_recvs, told + 1, PATIENCE));
	assert_int_equal(b.recvs[told].status, RNIC_WC_SUCCESS);
	assert_true(b.recvs[told].invalidated);
	assert_int_equal(b.recvs[told].invalidated_rkey, rkey);
	assert_int_equal(b.recvs[told].length, 6);
	assert_memory_equal(b.messages[b.num_messages - 1].data, "enough", 6);
	assert_true(dead_when_told);
	after_that(&b, &a);
	expect_use(&a, window, 5000, 0, 5000);
	after_that(&a, &b);
	assert_int_equal(b.num_recvs, told + 2);
	assert_false(b.recvs[told + 1].invalidated);
	expect_no_use(&a, RNIC_WR_RDMA_WRITE, window, 0, -5000, rkey);
}

/* The same where the user posts the buffers, and with a message of several packets. */
static void invalidated_by_long_message(void **state)
{
	without_windows(state);
	rnic_behaviour_disconnect(NULL);
	a.reads_asked = b.reads_answered = 4;
	b.user_receives = true;
	rnic_behaviour_join(4000, 7);
	bind_part(window, 0, 5000, BOTH);
	struct rnic_send_wr wr = { .wr_id = 1,
				   .opcode = RNIC_WR_SEND_INVALIDATE,
				   .flags = RNIC_SEND_SIGNALED | RNIC_SEND_SOLICITED,
				   .num_sge = 1,
				   .sge = { { a.mem, 100000, rnic_mr_lkey(a.source) } },
				   .rkey = rnic_window_rkey(window) };
	rnic_side_pattern(a.mem, 100000, 6);
	assert_int_equal(rnic_side_post_recv(&b, HALF, 100000, 9), 0);
	assert_int_equal(rnic_post_send(a.qp, &wr, 1), 0);
	assert_true(rnic_side_wait(behaviour_base, &b.num_recvs, 1, PATIENCE));
	assert_int_equal(b.recvs[0].wr_id, 9);
	assert_true(b.recvs[0].invalidated);
	assert_int_equal(b.recvs[0].invalidated_rkey, wr.rkey);
	assert_memory_equal(b.mem + HALF, a.mem, 100000);
	rnic_behaviour_expect_done(&a, 1);
	expect_no_use(&a, RNIC_WR_RDMA_READ, window, 0, 0, wr.rkey);
}

/* ---- what is not the peer's */

/* Another queue pair of both sides. */
static void join_others(struct rnic_side *x, struct rnic_side *y)
{
	rnic_side_twin(&a, x);
	rnic_side_twin(&b, y);
	rnic_side_qp(x, 64, 32, 8192);
	rnic_side_qp(y, 64, 32, 8192);
	rnic_side_join(x, y, 3);
}

static void leave_others(struct rnic_side *x, struct rnic_side *y)
{
	rnic_side_qp_destroy(x);
	rnic_side_qp_destroy(y);
	rnic_side_forget(x);
	rnic_side_forget(y);
}

/* The peer of another queue pair cannot use a window. */
static void used_by_another_peer(void **state)
{
	static const enum rnic_opcode opcodes[] = { RNIC_WR_RDMA_WRITE, RNIC_WR_RDMA_READ };
	struct rnic_side x, y;
	without_windows(state);
	bind_part(window, 0, 5000, BOTH);
	for (size_t i = 0; i < 2; i++) {
		TRIES("opcode %u", opcodes[i]);
		join_others(&x, &y);
		expect_no_use(&x, opcodes[i], window, 0, 0, rnic_window_rkey(window));
		leave_others(&x, &y);
		expect_use(&a, window, 0, 0, 5000);
	}
}

/* A SEND may not end that token: the connection ends, on both sides, and nobody is told of the
 * message. rdma_rxe (6.12) tells the sender nothing: its requests find nobody who answers. */
static void expect_no_invalidation(uint32_t rkey)
{
	struct rnic_side x, y;
	join_others(&x, &y);
	rnic_qp_set_retry(x.qp, 300);
	assert_int_equal(send_invalidate(&x, rkey), 0);
	assert_true(rnic_side_wait(behaviour_base, &y.recv_errors, 1, PATIENCE));
	assert_int_equal(y.num_messages, 0);
	rnic_side_send(&x, "anybody", 7, 2);
	assert_true(rnic_side_wait(behaviour_base, &x.recv_errors, 1, PATIENCE));
	if (!rnic_behaviour_is_rxe(&b))
		assert_int_equal(x.sends[0].status, RNIC_WC_REM_ACCESS_ERR);
	leave_others(&x, &y);
}

static void foreign_tokens(void **state)
{
	without_windows(state);
	bind_part(window, 0, 5000, BOTH);
	/* The peer of another queue pair. rdma_rxe (6.12) does not look whose the window is: the
	 * message ends that connection, as the RNIC sees to it, but the token is dead. */
	expect_no_invalidation(rnic_window_rkey(window));
	if (!rnic_behaviour_is_rxe(&b))
		expect_use(&a, window, 0, 0, 5000);
}

static void tokens_that_are_no_windows(void **state)
{
	without_windows(state);
	expect_no_invalidation(rnic_mr_rkey(region));
	expect_no_invalidation(rnic_mr_rkey(region) ^ 0x55AA55);
	/* The region is as it was. */
	rnic_side_pattern(a.mem, 1000, 9);
	struct rnic_send_wr wr = { .opcode = RNIC_WR_RDMA_WRITE,
				   .flags = RNIC_SEND_SIGNALED,
				   .num_sge = 1,
				   .sge = { { a.mem, 1000, rnic_mr_lkey(a.source) } },
				   .remote_addr = rnic_mr_vaddr(region),
				   .rkey = rnic_mr_rkey(region) };
	assert_int_equal(rnic_post_send(a.qp, &wr, 1), 0);
	rnic_behaviour_expect_done(&a, 1);
	assert_memory_equal(b.mem, a.mem, 1000);
}

/* ---- what a window outlives, and what outlives it */

static void freed_while_bound(void **state)
{
	without_windows(state);
	bind_part(window, 0, 5000, BOTH);
	const struct rnic_window *gone = window;
	const uint32_t rkey = rnic_window_rkey(gone);
	const uint64_t vaddr = rnic_window_vaddr(gone);
	rnic_window_free(window);
	window = NULL;
	memset(b.mem, 0x55, 100);
	struct rnic_send_wr wr = { .opcode = RNIC_WR_RDMA_WRITE,
				   .num_sge = 1,
				   .sge = { { a.mem, 100, rnic_mr_lkey(a.source) } },
				   .remote_addr = vaddr,
				   .rkey = rkey };
	memset(a.mem, 0x66, 100);
	assert_int_equal(rnic_post_send(a.qp, &wr, 1), 0);
	rnic_behaviour_expect_end(&a, 1);
	assert_int_equal(a.sends[0].status, RNIC_WC_REM_ACCESS_ERR);
	assert_int_equal(b.mem[0], 0x55);
}

/* A window is freed while requests about it are under way, which goes unnoticed. */
static void freed_at_once(void **state)
{
	without_windows(state);
	for (int i = 0; i < 50; i++) {
		struct rnic_window *w;
		TRIES("round %d", i);
		assert_int_equal(rnic_window_new(b.pd, &w), 0);
		assert_int_equal(rnic_window_bind(w, b.qp, region, b.mem, 100, BOTH), 0);
		if (i & 1)
			assert_int_equal(rnic_window_invalidate(w, b.qp), 0);
		rnic_window_free(w);
		if (i % 10 == 9)
			after_that(&b, &a);
	}
	assert_int_equal(a.recv_errors + b.recv_errors, 0);
}

/* A region takes its windows along, with or without a token that lives. */
static void region_goes_first(void **state)
{
	without_windows(state);
	for (int bound = 0; bound < 2; bound++) {
		struct rnic_mr *mr;
		TRIES("bound %d", bound);
		join();
		assert_int_equal(
			rnic_mr_register(b.pd, b.mem, 10000, RNIC_ACCESS_LOCAL_WRITE | BOTH, &mr),
			0);
		assert_int_equal(rnic_window_bind(window, b.qp, mr, b.mem, 5000, BOTH), 0);
		after_that(&b, &a);
		expect_use(&a, window, 0, 0, 5000);
		if (!bound) {
			assert_int_equal(rnic_window_invalidate(window, b.qp), 0);
			after_that(&b, &a);
		}
		rnic_mr_deregister(mr);
		bind_part(window, 5000, 5000, BOTH);
		expect_use(&a, window, 5000, 0, 5000);
		assert_int_equal(rnic_window_invalidate(window, b.qp), 0);
		after_that(&b, &a);
		assert_int_equal(
			rnic_mr_register(b.pd, b.mem, 10000, RNIC_ACCESS_LOCAL_WRITE | BOTH, &mr),
			0);
		assert_int_equal(rnic_window_bind(window, b.qp, mr, b.mem, 5000, BOTH), 0);
		after_that(&b, &a);
		rnic_mr_deregister(mr);
		expect_no_use(&a, RNIC_WR_RDMA_WRITE, window, 0, 0, rnic_window_rkey(window));
	}
}

/* So does a queue pair, and the windows can be bound for the next one. */
static void queue_pair_goes_first(void **state)
{
	without_windows(state);
	for (int way = 0; way < 4; way++) {
		TRIES("way %d", way);
		join();
		bind_part(window, 0, 5000, BOTH);
		expect_use(&a, window, 0, 0, 5000);
		if (way & 1) {
			assert_int_equal(rnic_window_invalidate(window, b.qp), 0);
			if (way & 2)
				rnic_qp_error(b.qp);
		}
	}
	join();
	bind_part(window, 0, 5000, BOTH);
	expect_use(&a, window, 0, 0, 5000);
}

/* A window that was invalidated can be bound for another queue pair. */
static void moved_to_another_peer(void **state)
{
	struct rnic_side x, y;
	without_windows(state);
	join_others(&x, &y);
	bind_part(window, 0, 5000, BOTH);
	const uint32_t rkey = rnic_window_rkey(window);
	assert_int_equal(rnic_window_invalidate(window, b.qp), 0);
	after_that(&b, &a);
	assert_int_equal(rnic_window_bind(window, y.qp, region, b.mem, 5000, BOTH), 0);
	after_that(&y, &x);
	expect_use(&x, window, 0, 0, 5000);
	expect_no_use(&a, RNIC_WR_RDMA_WRITE, window, 0, 0, rkey);
	leave_others(&x, &y);
}

#define WINDOWS(f) cmocka_unit_test_setup_teardown(f, connect_windows, disconnect_windows)

static const struct CMUnitTest tests[] = {
	WINDOWS(parts_are_used),
	WINDOWS(nothing_beside_them_is),
	WINDOWS(rights_are_kept),
	WINDOWS(region_of_one_right),
	WINDOWS(bind_rules),
	WINDOWS(invalidated_here),
	WINDOWS(bound_again),
	WINDOWS(bound_at_full_speed),
	WINDOWS(several),
	WINDOWS(invalidated_by_peer),
	WINDOWS(invalidated_by_long_message),
	WINDOWS(used_by_another_peer),
	WINDOWS(foreign_tokens),
	WINDOWS(tokens_that_are_no_windows),
	WINDOWS(freed_while_bound),
	WINDOWS(freed_at_once),
	WINDOWS(region_goes_first),
	WINDOWS(queue_pair_goes_first),
	WINDOWS(moved_to_another_peer),
};
const struct rnic_behaviour_group rnic_behaviour_window = { tests,
							    sizeof(tests) / sizeof(tests[0]) };

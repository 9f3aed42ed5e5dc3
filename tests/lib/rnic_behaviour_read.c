/* SPDX-License-Identifier: MIT */
/* RDMA READ, and requests of many pieces. */
#include "tests/lib/rnic_behaviour.h"

#include <errno.h>
#include <string.h>

#include "tests/lib/tries.h"

#define PATIENCE RNIC_BEHAVIOUR_PATIENCE
#define HALF     (2u << 20) /* where the second half of a side's memory begins */
#define PIECES   RNIC_MAX_SGE

#define a behaviour_a
#define b behaviour_b

/* The memory of each side, as its peer may read it. */
static struct rnic_mr *readable_a, *readable_b;

static struct rnic_mr *readable(struct rnic_side *side)
{
	struct rnic_mr *mr;
	assert_int_equal(rnic_mr_register(side->pd, side->mem, side->mem_len,
					  RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_READ, &mr),
			 0);
	return mr;
}

static void join_readers(uint8_t asked, uint8_t answered)
{
	rnic_behaviour_disconnect(NULL);
	a.reads_asked = b.reads_asked = asked;
	a.reads_answered = b.reads_answered = answered;
	rnic_behaviour_join(4000, 7);
}

static int connect_readers(void **state)
{
	(void)state;
	readable_a = readable(&a);
	readable_b = readable(&b);
	join_readers(4, 4);
	return 0;
}

static int disconnect_readers(void **state)
{
	rnic_behaviour_disconnect(state);
	rnic_mr_deregister(readable_a);
	rnic_mr_deregister(readable_b);
	return 0;
}

/* `a` reads of `b`. */
static int read_b(size_t to, uint32_t len, size_t from, uint64_t wr_id)
{
	return rnic_side_read(&a, to, len, rnic_mr_vaddr(readable_b) + from,
			      rnic_mr_rkey(readable_b), wr_id);
}

/* ---- what is read */

static void expect_guarded(const struct rnic_side *side, uint32_t len)
{
	for (uint32_t k = 0; k < 8; k++) {
		assert_int_equal(side->mem[HALF + k], 0x55);
		assert_int_equal(side->mem[HALF + 8 + len + k], 0x55);
	}
}

/* Lengths around every boundary, in both directions at once. */
static void read_lengths(void)
{
	static const uint32_t lengths[] = { 0,     1,     2,      3,      4,    63,   64,
					    255,   256,   257,    1023,   1024, 1025, 2047,
					    2048,  2049,  4095,   4096,   8191, 9000, 65535,
					    65536, 65537, 262144, 1000001 };
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint32_t len = lengths[i];
		TRIES("%u bytes", len);
		rnic_side_forget(&a);
		rnic_side_forget(&b);
		rnic_side_pattern(a.mem, len + 1, len);
		rnic_side_pattern(b.mem, len + 1, len + 1);
		memset(a.mem + HALF, 0x55, len + 16);
		memset(b.mem + HALF, 0x55, len + 16);
		assert_int_equal(read_b(HALF + 8, len, 1, 1), 0);
		assert_int_equal(rnic_side_read(&b, HALF + 8, len, rnic_mr_vaddr(readable_a) + 1,
						rnic_mr_rkey(readable_a), 2),
				 0);
		rnic_behaviour_expect_done(&a, 1);
		rnic_behaviour_expect_done(&b, 1);
		assert_memory_equal(a.mem + HALF + 8, b.mem + 1, len);
		assert_memory_equal(b.mem + HALF + 8, a.mem + 1, len);
		expect_guarded(&a, len);
		expect_guarded(&b, len);
	}
	assert_int_equal(a.num_messages + b.num_messages, 0);
	assert_int_equal(a.recv_errors + b.recv_errors, 0);
}

void rnic_behaviour_reads(void **state)
{
	connect_readers(state);
	read_lengths();
	disconnect_readers(state);
}

/* Every path MTU, each with PSNs that wrap in the middle of the responses. */
static void reads_of_all_path_mtus(void **state)
{
	const uint32_t len = 200000;
	(void)state;
	for (uint8_t mtu = 1; mtu <= 5; mtu++) {
		TRIES("path MTU code %u", mtu);
		rnic_behaviour_disconnect(NULL);
		a.psn = 0xFFFFF0;
		a.reads_asked = b.reads_answered = 2;
		rnic_side_qp(&a, 8, 8, 44);
		rnic_side_qp(&b, 8, 8, 44);
		rnic_side_join(&a, &b, mtu);
		rnic_side_pattern(b.mem, len, mtu);
		memset(a.mem, 0, len);
		for (uint32_t i = 0; i < 4; i++)
			assert_int_equal(read_b(i * len / 4, len / 4, i * len / 4, i), 0);
		rnic_behaviour_expect_done(&a, 4);
		assert_memory_equal(a.mem, b.mem, len);
	}
}

/* Many more READs than may be under way, and other requests between them: all are done in the order
 * in which they were posted. */
static void reads_among_others(void **state)
{
	const uint32_t len = 5000;
	size_t sends = 0;
	(void)state;
	rnic_side_pattern(a.mem, HALF, 1);
	rnic_side_pattern(b.mem, HALF, 2);
	memset(b.mem + HALF, 0, 20 * len);
	for (uint32_t i = 0; i < 20; i++) {
		assert_int_equal(read_b(HALF + i * len, len, i * len, sends++), 0);
		assert_int_equal(rnic_side_write(&a, i * len, len, &b, HALF + i * len, sends++), 0);
		assert_int_equal(rnic_side_send(&a, &i, sizeof(i), sends++), 0);
	}
	rnic_behaviour_expect_done(&a, sends);
	for (size_t i = 0; i < sends; i++)
		assert_int_equal(a.sends[i].wr_id, i);
	assert_memory_equal(a.mem + HALF, b.mem, 20 * len);
	assert_memory_equal(b.mem + HALF, a.mem, 20 * len);
	assert_true(rnic_side_wait(behaviour_base, &b.num_messages, 20, PATIENCE));
	for (uint32_t i = 0; i < 20; i++)
		assert_memory_equal(b.messages[i].data, &i, sizeof(i));
}

/* A READ gets what a WRITE in front of it has brought. */
static void read_sees_write_before(void **state)
{
	const uint32_t len = 70000;
	(void)state;
	for (uint32_t i = 0; i < 10; i++) {
		TRIES("round %u", i);
		rnic_side_forget(&a);
		rnic_side_pattern(a.mem, len, i);
		assert_int_equal(rnic_side_write(&a, 0, len, &b, 0, 1), 0);
		assert_int_equal(read_b(HALF, len, 0, 2), 0);
		rnic_behaviour_expect_done(&a, 2);
		assert_memory_equal(a.mem + HALF, a.mem, len);
	}
}

/* Both sides read, write and send at the same time. */
static void reads_both_ways(void **state)
{
	const uint32_t len = 100000;
	(void)state;
	rnic_side_pattern(a.mem, HALF, 3);
	rnic_side_pattern(b.mem, HALF, 4);
	for (uint32_t i = 0; i < 10; i++) {
		size_t at = (size_t)i * len;
		assert_int_equal(read_b(HALF + at, len, at, i), 0);
		assert_int_equal(rnic_side_read(&b, HALF + at, len, rnic_mr_vaddr(readable_a) + at,
						rnic_mr_rkey(readable_a), i),
				 0);
		assert_int_equal(rnic_side_send(&a, "x", 1, 100), 0);
		assert_int_equal(rnic_side_send(&b, "y", 1, 100), 0);
	}
	rnic_behaviour_expect_done(&a, 20);
	rnic_behaviour_expect_done(&b, 20);
	assert_memory_equal(a.mem + HALF, b.mem, 10 * len);
	assert_memory_equal(b.mem + HALF, a.mem, 10 * len);
}

/* READs that are not signaled make room in the send queue as other requests do. */
static void unsignaled_reads(void **state)
{
	struct rnic_send_wr wr = { .opcode = RNIC_WR_RDMA_READ,
				   .num_sge = 1,
				   .sge = { { a.mem + HALF, 3000, rnic_mr_lkey(a.source) } },
				   .remote_addr = rnic_mr_vaddr(readable_b),
				   .rkey = rnic_mr_rkey(readable_b) };
	(void)state;
	rnic_side_pattern(b.mem, 3000, 5);
	for (int i = 0; i < 300;) {
		int r = rnic_post_send(a.qp, &wr, 1);
		if (r == 0) {
			i++;
			continue;
		}
		assert_int_equal(r, -ENOMEM);
		event_base_loop(behaviour_base, EVLOOP_ONCE);
	}
	assert_int_equal(a.num_sends, 0);
	for (int r; (r = read_b(HALF, 3000, 0, 7));) {
		assert_int_equal(r, -ENOMEM);
		event_base_loop(behaviour_base, EVLOOP_ONCE);
	}
	rnic_behaviour_expect_done(&a, 1);
	assert_int_equal(a.sends[0].wr_id, 7);
	assert_memory_equal(a.mem + HALF, b.mem, 3000);
}

/* Memory that the peer may only read can be the source of own requests as well. */
static void readable_memory_is_sent(void **state)
{
	struct rnic_send_wr wr = { .wr_id = 1,
				   .opcode = RNIC_WR_RDMA_WRITE,
				   .flags = RNIC_SEND_SIGNALED,
				   .num_sge = 1,
				   .sge = { { a.mem, 5000, rnic_mr_lkey(readable_a) } },
				   .remote_addr = rnic_mr_vaddr(b.mr),
				   .rkey = rnic_mr_rkey(b.mr) };
	(void)state;
	rnic_side_pattern(a.mem, 5000, 8);
	assert_int_equal(rnic_post_send(a.qp, &wr, 1), 0);
	rnic_behaviour_expect_done(&a, 1);
	assert_memory_equal(b.mem, a.mem, 5000);
}

/* ---- what is not read */

/* The READ ends both queue pairs, and brings nothing; another pair of the same PD goes on. */
static void expect_read_refused(const char *name, uint64_t remote_addr, uint32_t rkey)
{
	TRIES("%s", name);
	join_readers(4, 4);
	struct rnic_side x, y;
	rnic_side_twin(&a, &x);
	rnic_side_twin(&b, &y);
	rnic_side_qp(&x, 8, 8, 44);
	rnic_side_qp(&y, 8, 8, 44);
	rnic_side_join(&x, &y, 3);
	memset(a.mem + HALF, 0x55, 5000);
	assert_int_equal(rnic_side_read(&a, HALF, 5000, remote_addr, rkey, 1), 0);
	rnic_side_send(&a, "behind", 6, 2);
	rnic_behaviour_expect_end(&a, 2);
	assert_int_equal(a.sends[0].status, RNIC_WC_REM_ACCESS_ERR);
	assert_int_equal(a.sends[1].status, RNIC_WC_WR_FLUSH_ERR);
	rnic_behaviour_expect_end(&b, 0);
	assert_int_equal(b.num_messages, 0);
	for (int i = 0; i < 5000; i++)
		assert_int_equal(a.mem[HALF + i], 0x55);
	assert_int_equal(rnic_side_send(&x, "others go on", 12, 1), 0);
	assert_true(rnic_side_wait(behaviour_base, &y.num_messages, 1, PATIENCE));
	rnic_side_qp_destroy(&x);
	rnic_side_qp_destroy(&y);
	rnic_side_forget(&x);
	rnic_side_forget(&y);
}

static void reads_are_refused(void **state)
{
	const uint64_t start = rnic_mr_vaddr(readable_b);
	const uint32_t rkey = rnic_mr_rkey(readable_b);
	struct rnic_pd *pd;
	struct rnic_mr *mr;
	(void)state;
	expect_read_refused("behind the end", start + b.mem_len - 4999, rkey);
	expect_read_refused("before the beginning", start - 1, rkey);
	expect_read_refused("far away", UINT64_MAX - 100, rkey);
	expect_read_refused("a token that there is not", start, rkey ^ 0x55AA55);
	expect_read_refused("memory that may only be written", rnic_mr_vaddr(b.mr),
			    rnic_mr_rkey(b.mr));
	assert_int_equal(rnic_mr_register(b.pd, b.mem, b.mem_len, RNIC_ACCESS_LOCAL_WRITE, &mr), 0);
	expect_read_refused("memory of this host alone", rnic_mr_vaddr(mr), rnic_mr_rkey(mr));
	rnic_mr_deregister(mr);
	assert_int_equal(rnic_pd_alloc(b.rnic, &pd), 0);
	assert_int_equal(rnic_mr_register(pd, b.mem, b.mem_len, RNIC_ACCESS_REMOTE_READ, &mr), 0);
	expect_read_refused("another protection domain", rnic_mr_vaddr(mr), rnic_mr_rkey(mr));
	rnic_mr_deregister(mr);
	rnic_pd_free(pd);
}

/* Memory that may be read may not be written for that. */
static void readable_is_not_writable(void **state)
{
	struct rnic_send_wr wr = { .wr_id = 1,
				   .opcode = RNIC_WR_RDMA_WRITE,
				   .num_sge = 1,
				   .sge = { { a.mem, 100, rnic_mr_lkey(a.source) } },
				   .remote_addr = rnic_mr_vaddr(readable_b),
				   .rkey = rnic_mr_rkey(readable_b) };
	(void)state;
	memset(b.mem, 0x55, 100);
	memset(a.mem, 0x66, 100);
	assert_int_equal(rnic_post_send(a.qp, &wr, 1), 0);
	rnic_behaviour_expect_end(&a, 1);
	assert_int_equal(a.sends[0].status, RNIC_WC_REM_ACCESS_ERR);
	assert_int_equal(b.mem[0], 0x55);
	assert_int_equal(b.mem[99], 0x55);
}

/* The memory into which a READ goes is checked. */
static void target_is_checked(void **state)
{
	struct rnic_mr *fixed;
	(void)state;
	assert_int_equal(rnic_mr_register(a.pd, a.mem, a.mem_len, RNIC_ACCESS_REMOTE_READ, &fixed),
			 0);
	const struct rnic_sge targets[] = {
		{ a.mem + a.mem_len - 50, 100, rnic_mr_lkey(a.source) },
		{ a.mem, 100, rnic_mr_lkey(a.source) ^ 0x55AA55 },
		{ a.mem, 100, rnic_mr_lkey(fixed) },
	};
	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		TRIES("target %zu", i);
		join_readers(4, 4);
		memset(a.mem, 0x55, 100);
		struct rnic_send_wr wr = { .wr_id = 1,
					   .opcode = RNIC_WR_RDMA_READ,
					   .num_sge = 1,
					   .sge = { targets[i] },
					   .remote_addr = rnic_mr_vaddr(readable_b),
					   .rkey = rnic_mr_rkey(readable_b) };
		assert_int_equal(rnic_post_send(a.qp, &wr, 1), 0);
		rnic_behaviour_expect_end(&a, 1);
		if (!rnic_behaviour_is_rxe(&a) || a.sends[0].status != RNIC_WC_WR_FLUSH_ERR)
			assert_int_equal(a.sends[0].status, RNIC_WC_LOC_PROT_ERR);
		assert_int_equal(a.mem[0], 0x55);
	}
	rnic_mr_deregister(fixed);
}

static void read_rules(void **state)
{
	struct rnic_info info;
	struct rnic_send_wr wr = { .opcode = RNIC_WR_RDMA_READ,
				   .flags = RNIC_SEND_INLINE,
				   .num_sge = 1,
				   .sge = { { a.mem, 10, rnic_mr_lkey(a.source) } },
				   .remote_addr = rnic_mr_vaddr(readable_b),
				   .rkey = rnic_mr_rkey(readable_b) };
	(void)state;
	assert_int_equal(rnic_post_send(a.qp, &wr, 1), -EINVAL);
	rnic_get_info(a.rnic, &info);
	assert_true(info.max_reads_asked >= 1 && info.max_reads_answered >= 1);
	/* Without a share of READs none may be posted. */
	join_readers(0, 4);
	assert_int_equal(read_b(HALF, 10, 0, 1), -EINVAL);
	assert_int_equal(rnic_side_send(&a, "x", 1, 2), 0);
	rnic_behaviour_expect_done(&a, 1);
	/* More than the device can. */
	rnic_behaviour_disconnect(NULL);
	rnic_side_qp(&a, 8, 8, 44);
	rnic_side_qp(&b, 8, 8, 44);
	struct rnic_qp_peer peer = rnic_side_peer(&b, 0, 3);
	struct rnic_qp_send_params params = { .retry_ms = 300 };
	if (info.max_reads_answered < UINT8_MAX) {
		peer.reads_answered = (uint8_t)(info.max_reads_answered + 1);
		assert_int_equal(rnic_qp_connect(a.qp, &peer), -EINVAL);
		peer.reads_answered = info.max_reads_answered;
	}
	assert_int_equal(rnic_qp_connect(a.qp, &peer), 0);
	if (info.max_reads_asked < UINT8_MAX) {
		params.reads_asked = (uint8_t)(info.max_reads_asked + 1);
		assert_int_equal(rnic_qp_start(a.qp, &params), -EINVAL);
	}
	params.reads_asked = info.max_reads_asked;
	assert_int_equal(rnic_qp_start(a.qp, &params), 0);
}

/* Whom nobody has allowed READs gets none, with whichever token. */
static void reads_are_not_answered(void **state)
{
	(void)state;
	join_readers(4, 0);
	memset(a.mem + HALF, 0x55, 100);
	assert_int_equal(read_b(HALF, 100, 0, 1), 0);
	rnic_behaviour_expect_end(&a, 1);
	assert_int_equal(a.sends[0].status, RNIC_WC_REM_INV_REQ_ERR);
	assert_int_equal(a.mem[HALF], 0x55);
}

/* A peer that has more READs under way than are answered at a time. rdma_rxe (6.12) does not count
 * them: it answers all. */
static void too_many_reads(void **state)
{
	struct rnic_send_wr wrs[4];
	(void)state;
	join_readers(4, 1);
	for (uint64_t i = 0; i < 4; i++)
		wrs[i] = (struct rnic_send_wr){ .wr_id = i,
						.opcode = RNIC_WR_RDMA_READ,
						.flags = RNIC_SEND_SIGNALED,
						.num_sge = 1,
						.sge = { { a.mem + HALF, 1u << 20,
							   rnic_mr_lkey(a.source) } },
						.remote_addr = rnic_mr_vaddr(readable_b),
						.rkey = rnic_mr_rkey(readable_b) };
	assert_int_equal(rnic_post_send(a.qp, wrs, 4), 0);
	if (rnic_behaviour_is_rxe(&b)) {
		rnic_behaviour_expect_done(&a, 4);
		return;
	}
	rnic_behaviour_expect_end(&a, 4);
	size_t first = 0;
	while (first < 4 && a.sends[first].status == RNIC_WC_SUCCESS)
		first++;
	assert_true(first < 4);
	assert_int_equal(a.sends[first].status, RNIC_WC_REM_INV_REQ_ERR);
	rnic_behaviour_expect_end(&b, 0);
}

/* READs that are under way when the queue pair ends are reported, and write nothing any more. */
static void reads_are_flushed(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 10; i++)
		assert_int_equal(read_b(HALF, 100000, 0, i), 0);
	rnic_qp_error(a.qp);
	rnic_behaviour_expect_end(&a, 10);
	bool flushed = false;
	for (uint64_t i = 0; i < 10; i++) {
		assert_int_equal(a.sends[i].wr_id, i);
		flushed |= a.sends[i].status != RNIC_WC_SUCCESS;
		assert_int_equal(a.sends[i].status,
				 flushed ? RNIC_WC_WR_FLUSH_ERR : RNIC_WC_SUCCESS);
	}
	rnic_side_qp_destroy(&a);
	memset(a.mem + HALF, 0x55, 100000);
	rnic_side_idle(behaviour_base, 30);
	for (int i = 0; i < 100000; i++)
		assert_int_equal(a.mem[HALF + i], 0x55);
}

/* ---- many pieces */

/* Pieces of 0, 1, 2.. times `unit` bytes in the second half of `a`, the last one first. @return how
 * many bytes in all */
static uint32_t cut(struct rnic_sge pieces[PIECES], uint32_t unit)
{
	uint32_t all = 0;
	for (uint32_t i = 0; i < PIECES; i++) {
		size_t at = HALF + (size_t)(PIECES - i) * PIECES * unit;
		pieces[i] = (struct rnic_sge){ a.mem + at, i * unit, rnic_mr_lkey(a.source) };
		all += i * unit;
	}
	return all;
}

static void expect_pieces(const struct rnic_sge pieces[PIECES], const uint8_t *whole)
{
	for (int i = 0; i < PIECES; i++) {
		if (pieces[i].length)
			assert_memory_equal(whole, pieces[i].addr, pieces[i].length);
		whole += pieces[i].length;
	}
}

static void one_of_pieces(enum rnic_opcode opcode, const struct rnic_mr *remote,
			  const struct rnic_sge *pieces, uint64_t wr_id)
{
	struct rnic_send_wr wr = { .wr_id = wr_id,
				   .opcode = opcode,
				   .flags = RNIC_SEND_SIGNALED,
				   .num_sge = PIECES,
				   .pieces = pieces,
				   .remote_addr = rnic_mr_vaddr(remote),
				   .rkey = rnic_mr_rkey(remote) };
	struct rnic_sge copy[PIECES];
	memcpy(copy, pieces, sizeof(copy));
	wr.pieces = copy;
	assert_int_equal(rnic_post_send(a.qp, &wr, 1), 0);
	memset(copy, 0xFF, sizeof(copy)); /* the RNIC has read them */
	rnic_behaviour_expect_done(&a, wr_id);
}

static void many_pieces(void **state)
{
	static const uint32_t units[] = { 1, 3, 64, 67, 1000 };
	struct rnic_sge pieces[PIECES];
	(void)state;
	rnic_behaviour_disconnect(NULL);
	a.max_sge = PIECES;
	a.reads_asked = b.reads_answered = 4;
	rnic_behaviour_join(4000, 7);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		TRIES("pieces of %u bytes and more", units[i]);
		rnic_side_forget(&a);
		rnic_side_forget(&b);
		uint32_t all = cut(pieces, units[i]);
		rnic_side_pattern(a.mem, a.mem_len, units[i]);
		memset(b.mem, 0, all + 1);
		one_of_pieces(RNIC_WR_RDMA_WRITE, b.mr, pieces, 1);
		expect_pieces(pieces, b.mem);
		assert_int_equal(b.mem[all], 0);
		rnic_side_pattern(b.mem, all, units[i] + 1);
		one_of_pieces(RNIC_WR_RDMA_READ, readable_b, pieces, 2);
		expect_pieces(pieces, b.mem);
		if (all > 8192)
			continue;
		one_of_pieces(RNIC_WR_SEND, b.mr, pieces, 3);
		assert_true(rnic_side_wait(behaviour_base, &b.num_messages, 1, PATIENCE));
		assert_int_equal(b.messages[0].length, all);
		expect_pieces(pieces, b.messages[0].data);
	}
}

static void no_completion(void *ctx, struct rnic_qp *qp, const struct rnic_wc *wc, size_t n)
{
	(void)ctx;
	(void)qp;
	(void)wc;
	(void)n;
}

static void too_many_pieces(void **state)
{
	struct rnic_sge pieces[PIECES + 1];
	struct rnic_send_wr wr = { .opcode = RNIC_WR_SEND, .num_sge = 6, .pieces = pieces };
	(void)state;
	for (int i = 0; i <= PIECES; i++)
		pieces[i] = (struct rnic_sge){ a.mem, 1, rnic_mr_lkey(a.source) };
	assert_int_equal(rnic_post_send(a.qp, &wr, 1), -EINVAL); /* more than RNIC_FEW_SGE */
	rnic_behaviour_disconnect(NULL);
	a.max_sge = 5;
	rnic_behaviour_join(4000, 7);
	assert_int_equal(rnic_post_send(a.qp, &wr, 1), -EINVAL);
	wr.num_sge = PIECES + 1;
	assert_int_equal(rnic_post_send(a.qp, &wr, 1), -EINVAL);
	wr.num_sge = 5;
	wr.flags = RNIC_SEND_INLINE | RNIC_SEND_SIGNALED;
	assert_int_equal(rnic_post_send(a.qp, &wr, 1), 0);
	a.mem[0] ^= 0xFF; /* inline data were copied */
	rnic_behaviour_expect_done(&a, 1);
	assert_true(rnic_side_wait(behaviour_base, &b.num_messages, 1, PATIENCE));
	assert_int_equal(b.messages[0].length, 5);
	assert_int_equal(b.messages[0].data[4], a.mem[0] ^ 0xFF);
	/* A queue pair with more than the interface has. */
	rnic_behaviour_disconnect(NULL);
	struct rnic_qp *qp;
	struct rnic_qp_params params = { .send_depth = 4,
					 .recv_depth = 4,
					 .recv_size = 44,
					 .max_sge = PIECES + 1,
					 .on_completion = no_completion };
	assert_int_equal(rnic_qp_create(a.pd, &params, &qp), -EINVAL);
}

static void all_lengths(void **state)
{
	(void)state;
	read_lengths();
}

#define READERS(f) cmocka_unit_test_setup_teardown(f, connect_readers, disconnect_readers)

static const struct CMUnitTest tests[] = {
	READERS(all_lengths),
	READERS(reads_of_all_path_mtus),
	READERS(reads_among_others),
	READERS(read_sees_write_before),
	READERS(reads_both_ways),
	READERS(unsignaled_reads),
	READERS(readable_memory_is_sent),
	READERS(reads_are_refused),
	READERS(readable_is_not_writable),
	READERS(target_is_checked),
	READERS(read_rules),
	READERS(reads_are_not_answered),
	READERS(too_many_reads),
	READERS(reads_are_flushed),
	READERS(many_pieces),
	READERS(too_many_pieces),
};
const struct rnic_behaviour_group rnic_behaviour_read = { tests, sizeof(tests) / sizeof(tests[0]) };

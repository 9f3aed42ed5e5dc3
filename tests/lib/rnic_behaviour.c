/* SPDX-License-Identifier: MIT */
#include "tests/lib/rnic_behaviour.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE RNIC_BEHAVIOUR_PATIENCE
#define QUIET    30

struct event_base *behaviour_base;
struct rnic_side behaviour_a, behaviour_b;

/* Short names for the two sides, which nearly every line uses. */
#define a behaviour_a
#define b behaviour_b

void rnic_behaviour_join(unsigned int retry_ms, unsigned int rnr_retry)
{
	rnic_side_qp(&a, 64, 32, 8192);
	rnic_side_qp(&b, 64, 32, 8192);
	struct rnic_qp_peer peer_a = rnic_side_peer(&a, 0, 3);
	struct rnic_qp_peer peer_b = rnic_side_peer(&b, 0, 3);
	rnic_side_connect(&a, &peer_b, retry_ms, rnr_retry);
	rnic_side_connect(&b, &peer_a, retry_ms, rnr_retry);
}

int rnic_behaviour_connect(void **state)
{
	(void)state;
	rnic_behaviour_join(4000, 7);
	return 0;
}

int rnic_behaviour_disconnect(void **state)
{
	(void)state;
	rnic_side_qp_destroy(&a);
	rnic_side_qp_destroy(&b);
	rnic_side_forget(&a);
	rnic_side_forget(&b);
	a.hook = b.hook = NULL;
	a.psn = b.psn = 0x123456;
	a.reads_asked = a.reads_answered = b.reads_asked = b.reads_answered = 0;
	a.user_receives = b.user_receives = false;
	a.max_sge = b.max_sge = 0;
	return 0;
}

void rnic_behaviour_expect_done(struct rnic_side *side, size_t num_sends)
{
	assert_true(rnic_side_wait(behaviour_base, &side->num_sends, num_sends, PATIENCE));
	assert_int_equal(side->num_sends, num_sends);
	for (size_t i = 0; i < num_sends; i++)
		assert_int_equal(side->sends[i].status, RNIC_WC_SUCCESS);
}

bool rnic_behaviour_is_rxe(const struct rnic_side *side)
{
	struct rnic_info info;
	rnic_get_info(side->rnic, &info);
	return info.kind == RNIC_VERBS && strncmp(info.name, "verbs:rxe", 9) == 0;
}

/* A WRITE, and a SEND behind it: when the message is received, the data are in memory. */
static void write_then_send(void **state)
{
	(void)state;
	rnic_side_pattern(a.mem, 64, 1);
	memset(b.mem, 0, 100);
	assert_int_equal(rnic_side_write(&a, 0, 64, &b, 10, 1), 0);
	assert_int_equal(rnic_side_send(&a, "0123456789012345678901234567890123456789abcd", 44, 2),
			 0);
	assert_true(rnic_side_wait(behaviour_base, &b.num_messages, 1, PATIENCE));
	assert_memory_equal(b.mem + 10, a.mem, 64);
	assert_int_equal(b.mem[9], 0);
	assert_int_equal(b.mem[74], 0);
	assert_int_equal(b.messages[0].length, 44);
	assert_memory_equal(b.messages[0].data, "0123456789012345678901234567890123456789abcd", 44);
	assert_true(rnic_side_wait(behaviour_base, &a.num_sends, 2, PATIENCE));
	assert_int_equal(a.sends[0].wr_id, 1);
	assert_int_equal(a.sends[1].wr_id, 2);
	assert_int_equal(a.sends[0].status, RNIC_WC_SUCCESS);
	assert_int_equal(a.sends[1].status, RNIC_WC_SUCCESS);
	struct rnic_qp_stats stats;
	rnic_qp_get_stats(a.qp, &stats);
	assert_int_equal(stats.tx_bytes, 108);
	struct rnic_info info;
	rnic_get_info(b.rnic, &info);
	rnic_qp_get_stats(b.qp, &stats);
	assert_int_equal(stats.rx_bytes, info.kind == RNIC_VERBS ? 44 : 108);
}

/* Lengths around every boundary, both forms of WRITE, both directions at once. */
void rnic_behaviour_writes(void **state)
{
	(void)state;
	static const uint32_t lengths[] = { 0,     1,     2,      3,      4,    63,   64,
					    255,   256,   257,    1023,   1024, 1025, 2047,
					    2048,  2049,  4095,   4096,   8191, 9000, 65535,
					    65536, 65537, 262144, 1000001 };
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint32_t len = lengths[i];
		rnic_side_forget(&a);
		rnic_side_forget(&b);
		rnic_side_pattern(a.mem, len, len);
		memset(b.mem + (2u << 20), 0x55, len + 16);
		rnic_side_pattern(b.mem, len, len + 1);
		memset(a.mem + (2u << 20), 0x55, len + 16);
		assert_int_equal(rnic_side_write(&a, 0, len, &b, (2u << 20) + 8, 1), 0);
		assert_int_equal(rnic_side_send(&a, "x", 1, 2), 0);
		assert_int_equal(rnic_side_write(&b, 0, len, &a, (2u << 20) + 8, 1), 0);
		assert_int_equal(rnic_side_send(&b, "y", 1, 2), 0);
		assert_true(rnic_side_wait(behaviour_base, &b.num_messages, 1, PATIENCE));
		assert_true(rnic_side_wait(behaviour_base, &a.num_messages, 1, PATIENCE));
		assert_memory_equal(b.mem + (2u << 20) + 8, a.mem, len);
		assert_memory_equal(a.mem + (2u << 20) + 8, b.mem, len);
		for (int k = 0; k < 8; k++) {
			assert_int_equal(b.mem[(2u << 20) + k], 0x55);
			assert_int_equal(b.mem[(2u << 20) + 8 + len + (unsigned int)k], 0x55);
		}
		assert_true(rnic_side_wait(behaviour_base, &a.num_sends, 2, PATIENCE));
		assert_true(rnic_side_wait(behaviour_base, &b.num_sends, 2, PATIENCE));
	}
}

/* SENDs longer than the path MTU, gathered from two pieces. */
static void long_sends(void **state)
{
	(void)state;
	rnic_side_pattern(a.mem, 8192, 7);
	for (uint32_t len = 1; len <= 8192; len = len < 1000 ? len * 3 : len + 1021) {
		uint32_t split = len / 3;
		struct rnic_send_wr wr = {
			.wr_id = len,
			.opcode = RNIC_WR_SEND,
			.flags = RNIC_SEND_SIGNALED,
			.num_sge = 2,
			.sge = { { a.mem + split, len - split, rnic_mr_lkey(a.source) },
				 { a.mem, split, rnic_mr_lkey(a.source) } },
		};
		size_t before = b.num_messages;
		assert_int_equal(rnic_post_send(a.qp, &wr, 1), 0);
		assert_true(rnic_side_wait(behaviour_base, &b.num_messages, before + 1, PATIENCE));
		const struct rnic_message *m = &b.messages[before];
		assert_int_equal(m->length, len);
		assert_memory_equal(m->data, a.mem + split, len - split);
		assert_memory_equal(m->data + len - split, a.mem, split);
	}
}

/* Every path MTU, each with a PSN that wraps in the middle. */
static void path_mtus_and_psn_wrap(void **state)
{
	(void)state;
	for (uint8_t mtu = 1; mtu <= 5; mtu++) {
		rnic_behaviour_disconnect(NULL);
		a.psn = 0xFFFFF0;
		b.psn = 0xFFFFFF;
		rnic_side_qp(&a, 8, 8, 44);
		rnic_side_qp(&b, 8, 8, 44);
		rnic_side_join(&a, &b, mtu);
		uint32_t len = 200000;
		rnic_side_pattern(a.mem, len, mtu);
		memset(b.mem, 0, len);
		assert_int_equal(rnic_side_write(&a, 0, len, &b, 0, 1), 0);
		assert_int_equal(rnic_side_send(&a, "x", 1, 2), 0);
		assert_true(rnic_side_wait(behaviour_base, &b.num_messages, 1, PATIENCE));
		assert_memory_equal(b.mem, a.mem, len);
		assert_int_equal(rnic_side_send(&b, "y", 1, 3), 0);
		assert_int_equal(rnic_side_send(&b, "z", 1, 4), 0);
		assert_true(rnic_side_wait(behaviour_base, &b.num_sends, 2, PATIENCE));
		assert_true(rnic_side_wait(behaviour_base, &a.num_sends, 2, PATIENCE));
		assert_true(rnic_side_wait(behaviour_base, &a.num_messages, 2, PATIENCE));
		struct rnic_qp_stats stats;
		rnic_qp_get_stats(a.qp, &stats);
		assert_int_equal(stats.tx_bytes, len + 1);
		assert_int_equal(stats.retransmits, 0);
	}
}

/* Far more messages than the peer has buffers for, posted at once: each arrives once, in order. */
static void many_sends(void **state)
{
	(void)state;
	uint32_t n = 0;
	while (n < 5000) {
		int r = rnic_side_send(&a, &n, sizeof(n), n);
		if (r == 0) {
			n++;
			continue;
		}
		assert_int_equal(r, -ENOMEM);
		event_base_loop(behaviour_base, EVLOOP_ONCE);
	}
	assert_true(rnic_side_wait(behaviour_base, &b.num_messages, n, PATIENCE));
	for (uint32_t i = 0; i < n; i++)
		assert_memory_equal(b.messages[i].data, &i, sizeof(i));
	assert_true(rnic_side_wait(behaviour_base, &a.num_sends, n, PATIENCE));
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(a.sends[i].wr_id, i);
		assert_int_equal(a.sends[i].status, RNIC_WC_SUCCESS);
	}
}

static void post_rules(void **state)
{
	(void)state;
	struct rnic_send_wr wr[65] = { 0 };
	for (int i = 0; i < 65; i++)
		wr[i] = (struct rnic_send_wr){ .opcode = RNIC_WR_SEND, .wr_id = (uint64_t)i };
	/* The RNIC takes all requests of a call or none. */
	assert_int_equal(rnic_post_send(a.qp, wr, 65), -ENOMEM);
	assert_int_equal(rnic_post_send(a.qp, wr, 60), 0);
	assert_int_equal(rnic_post_send(a.qp, wr, 5), -ENOMEM);
	wr[3].flags = RNIC_SEND_SIGNALED;
	assert_int_equal(rnic_post_send(a.qp, wr, 4), 0);
	assert_true(rnic_side_wait(behaviour_base, &a.num_sends, 1, PATIENCE));
	assert_int_equal(a.sends[0].wr_id, 3);
	assert_true(rnic_side_wait(behaviour_base, &b.num_messages, 64, PATIENCE));
	assert_int_equal(a.num_sends, 1);

	struct rnic_send_wr bad = { .opcode = RNIC_WR_SEND, .num_sge = 3 };
	assert_int_equal(rnic_post_send(a.qp, &bad, 1), -EINVAL);
	bad = (struct rnic_send_wr){ .opcode = RNIC_WR_SEND,
				     .flags = RNIC_SEND_INLINE,
				     .num_sge = 1,
				     .sge = { { a.mem, RNIC_MAX_INLINE + 1, 0 } } };
	assert_int_equal(rnic_post_send(a.qp, &bad, 1), -EINVAL);
}

/* Inline data may change after the post. No callback runs inside a call. */
static void inline_is_copied(void **state)
{
	(void)state;
	char data[] = "before";
	assert_int_equal(rnic_side_send(&a, data, 6, 1), 0);
	memcpy(data, "after!", 6);
	assert_int_equal(a.batches + b.batches, 0);
	assert_true(rnic_side_wait(behaviour_base, &b.num_messages, 1, PATIENCE));
	assert_memory_equal(b.messages[0].data, "before", 6);
}

#define PAIRS 8

/* Several queue pairs at once all make progress. */
static void queue_pairs_share(void **state)
{
	(void)state;
	struct rnic_side x[PAIRS], y[PAIRS];
	for (int i = 0; i < PAIRS; i++) {
		x[i] = a;
		y[i] = b;
		x[i].hook = y[i].hook = NULL;
		rnic_side_qp(&x[i], 32, 32, 44);
		rnic_side_qp(&y[i], 32, 32, 44);
	}
	for (int i = 0; i < PAIRS; i++) {
		rnic_side_join(&x[i], &y[i], 3);
		memset(b.mem + i * 400000, 0, 400000);
	}
	rnic_side_pattern(a.mem, PAIRS * 400000, 99);
	for (int i = 0; i < PAIRS; i++) {
		size_t at = (size_t)i * 400000;
		assert_int_equal(rnic_side_write(&x[i], at, 400000, &y[i], at, 1), 0);
		assert_int_equal(rnic_side_send(&x[i], "x", 1, 2), 0);
	}
	for (int i = 0; i < PAIRS; i++) {
		assert_true(rnic_side_wait(behaviour_base, &y[i].num_messages, 1, PATIENCE));
		assert_true(rnic_side_wait(behaviour_base, &x[i].num_sends, 2, PATIENCE));
	}
	assert_memory_equal(b.mem, a.mem, PAIRS * 400000);
	for (int i = 0; i < PAIRS; i++) {
		rnic_side_qp_destroy(&x[i]);
		rnic_side_qp_destroy(&y[i]);
		rnic_side_forget(&x[i]);
		rnic_side_forget(&y[i]);
	}
}

static struct rnic_side *behind;
static size_t behind_had; /* messages of `behind` when the callback of the other QP returned */

static void poll_hook(struct rnic_side *side, const struct rnic_wc *wc)
{
	if (!wc->is_recv)
		return;
	for (int i = 0; i < 1000 && !behind->num_messages; i++) {
		rnic_poll(side->rnic);
		usleep(1000); /* an RNIC with its own hardware or thread may need a moment */
	}
	behind_had = behind->num_messages;
}

/* rnic_poll() reports messages that have arrived for any QP of the device before it returns, also
 * when the callback of another QP calls it. */
static void polled_in_callback(void **state)
{
	(void)state;
	struct rnic_side x = a, y = b;
	rnic_side_qp(&x, 32, 32, 44);
	rnic_side_qp(&y, 32, 32, 44);
	rnic_side_join(&x, &y, 3);
	behind = &y;
	behind_had = 0;
	b.hook = poll_hook;
	assert_int_equal(rnic_side_send(&a, "told first", 10, 1), 0);
	assert_int_equal(rnic_side_send(&x, "came as well", 12, 1), 0);
	assert_true(rnic_side_wait(behaviour_base, &b.num_messages, 1, PATIENCE));
	assert_int_equal(behind_had, 1);
	assert_true(rnic_side_wait(behaviour_base, &y.num_messages, 1, PATIENCE));
	assert_true(rnic_side_wait(behaviour_base, &x.num_sends, 1, PATIENCE));
	assert_true(rnic_side_wait(behaviour_base, &a.num_sends, 1, PATIENCE));
	assert_int_equal(y.num_messages, 1);
	rnic_side_qp_destroy(&x);
	rnic_side_qp_destroy(&y);
	rnic_side_forget(&x);
	rnic_side_forget(&y);
}

/* ---- the end of a queue pair */

void rnic_behaviour_expect_end(struct rnic_side *side, size_t num_sends)
{
	assert_true(rnic_side_wait(behaviour_base, &side->recv_errors, 1, PATIENCE));
	assert_int_equal(side->num_sends, num_sends);
	assert_int_equal(rnic_side_send(side, "x", 1, 99), -EIO);
	rnic_qp_error(side->qp);
	rnic_side_idle(behaviour_base, QUIET);
	assert_int_equal(side->num_sends, num_sends);
	assert_int_equal(side->recv_errors, 1);
}

/* @return whether any request was flushed; a fast device may have executed all of them before */
static bool flush_five(void)
{
	bool flushed = false;
	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(rnic_side_write(&a, 0, 100000, &b, 0, i), 0);
	rnic_qp_error(a.qp);
	assert_int_equal(a.num_sends, 0); /* callbacks come from the event loop only */
	assert_int_equal(a.recv_errors, 0);
	rnic_behaviour_expect_end(&a, 5);
	for (uint64_t i = 0; i < 5; i++) {
		assert_int_equal(a.sends[i].wr_id, i);
		flushed |= a.sends[i].status != RNIC_WC_SUCCESS;
		assert_int_equal(a.sends[i].status,
				 flushed ? RNIC_WC_WR_FLUSH_ERR : RNIC_WC_SUCCESS);
	}
	return flushed;
}

static void error_flushes(void **state)
{
	(void)state;
	bool flushed = flush_five();
	for (int attempt = 1; attempt < 10 && !flushed; attempt++) {
		rnic_behaviour_disconnect(NULL);
		rnic_behaviour_connect(NULL);
		flushed = flush_five();
	}
	assert_true(flushed);
}

/* The user learns of an error also when no request is outstanding, and before the queue pair is
 * connected. */
static void error_without_work(void **state)
{
	(void)state;
	rnic_qp_error(a.qp);
	rnic_behaviour_expect_end(&a, 0);
	rnic_behaviour_disconnect(NULL);
	rnic_side_qp(&a, 8, 8, 44);
	assert_int_equal(rnic_side_send(&a, "x", 1, 1), -ENOTCONN);
	rnic_qp_error(a.qp);
	rnic_behaviour_expect_end(&a, 0);
}

/* A request that the RNIC refuses is reported, even if it is unsignaled. */
static void expect_refused(const struct rnic_send_wr *bad, enum rnic_wc_status status)
{
	struct rnic_send_wr after = { .wr_id = 3, .opcode = RNIC_WR_SEND };
	rnic_behaviour_disconnect(NULL);
	rnic_behaviour_connect(NULL);
	assert_int_equal(rnic_side_send(&a, "before", 6, 1), 0);
	assert_true(rnic_side_wait(behaviour_base, &a.num_sends, 1, PATIENCE));
	assert_int_equal(rnic_post_send(a.qp, bad, 1), 0);
	assert_int_equal(rnic_post_send(a.qp, &after, 1), 0);
	rnic_behaviour_expect_end(&a, 3);
	assert_int_equal(a.sends[0].status, RNIC_WC_SUCCESS);
	assert_int_equal(a.sends[1].wr_id, 2);
	/* If the own side refuses a request, rdma_rxe (6.12) reports it as flushed, like the
	 * requests after it. */
	struct rnic_info info;
	rnic_get_info(a.rnic, &info);
	if (info.kind != RNIC_VERBS || status != RNIC_WC_LOC_PROT_ERR ||
	    a.sends[1].status != RNIC_WC_WR_FLUSH_ERR)
		assert_int_equal(a.sends[1].status, status);
	assert_int_equal(a.sends[2].wr_id, 3);
	assert_int_equal(a.sends[2].status, RNIC_WC_WR_FLUSH_ERR);
	assert_int_equal(b.num_messages, 1);
}

static void remote_access_is_refused(void **state)
{
	(void)state;
	struct rnic_send_wr wr = { .wr_id = 2,
				   .opcode = RNIC_WR_RDMA_WRITE,
				   .num_sge = 1,
				   .sge = { { a.mem, 100, rnic_mr_lkey(a.source) } },
				   .remote_addr = rnic_mr_vaddr(b.mr) + b.mem_len - 99,
				   .rkey = rnic_mr_rkey(b.mr) };
	expect_refused(&wr, RNIC_WC_REM_ACCESS_ERR); /* past the end of the memory */
	rnic_behaviour_expect_end(&b, 0);            /* the responder's QP ends too */
	wr.remote_addr = rnic_mr_vaddr(b.mr) - 1;
	expect_refused(&wr, RNIC_WC_REM_ACCESS_ERR);
	wr.remote_addr = rnic_mr_vaddr(b.mr);
	wr.rkey ^= 0x55AA55;
	expect_refused(&wr, RNIC_WC_REM_ACCESS_ERR);
	/* Another protection domain's key. */
	struct rnic_pd *pd;
	struct rnic_mr *mr;
	assert_int_equal(rnic_pd_alloc(b.rnic, &pd), 0);
	assert_int_equal(rnic_mr_register(pd, b.mem, b.mem_len,
					  RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE, &mr),
			 0);
	wr.rkey = rnic_mr_rkey(mr);
	wr.remote_addr = rnic_mr_vaddr(mr);
	expect_refused(&wr, RNIC_WC_REM_ACCESS_ERR);
	rnic_mr_deregister(mr);
	/* The peer's memory that was registered without remote access. */
	assert_int_equal(rnic_mr_register(b.pd, b.mem, b.mem_len, RNIC_ACCESS_LOCAL_WRITE, &mr), 0);
	wr.rkey = rnic_mr_rkey(mr);
	wr.remote_addr = rnic_mr_vaddr(mr);
	expect_refused(&wr, RNIC_WC_REM_ACCESS_ERR);
	rnic_mr_deregister(mr);
	rnic_pd_free(pd);
}

static void own_memory_is_checked(void **state)
{
	(void)state;
	struct rnic_send_wr wr = { .wr_id = 2,
				   .opcode = RNIC_WR_RDMA_WRITE,
				   .num_sge = 1,
				   .sge = { { a.mem + a.mem_len - 50, 100,
					      rnic_mr_lkey(a.source) } },
				   .remote_addr = rnic_mr_vaddr(b.mr),
				   .rkey = rnic_mr_rkey(b.mr) };
	expect_refused(&wr, RNIC_WC_LOC_PROT_ERR);
	wr.sge[0].addr = a.mem;
	wr.sge[0].lkey ^= 0x55AA55;
	expect_refused(&wr, RNIC_WC_LOC_PROT_ERR);
}

static void silence_ends(void **state)
{
	(void)state;
	rnic_behaviour_disconnect(NULL);
	rnic_side_qp(&a, 64, 32, 8192);
	rnic_side_qp(&b, 64, 32, 8192);
	struct rnic_qp_peer nobody = rnic_side_peer(&b, 0, 3);
	nobody.qpn ^= 0x800;
	rnic_side_connect(&a, &nobody, 300, 7);
	assert_int_equal(rnic_side_send(&a, "anybody", 7, 1), 0);
	assert_int_equal(rnic_side_send(&a, "there", 5, 2), 0);
	rnic_behaviour_expect_end(&a, 2);
	assert_int_equal(a.sends[0].status, RNIC_WC_RETRY_EXC_ERR);
	assert_int_equal(a.sends[1].status, RNIC_WC_WR_FLUSH_ERR);
}

/* ---- callbacks */

static void destroy_hook(struct rnic_side *side, const struct rnic_wc *wc)
{
	(void)wc;
	rnic_side_qp_destroy(side);
}

/* A callback may destroy the queue pair that it is called for. After that nothing is reported. */
static void destroyed_in_callback(void **state)
{
	(void)state;
	a.hook = destroy_hook;
	assert_int_equal(rnic_side_send(&a, "x", 1, 1), 0);
	assert_true(rnic_side_wait(behaviour_base, &a.num_sends, 1, PATIENCE));
	assert_null(a.qp);
	size_t batches = a.batches;
	rnic_side_idle(behaviour_base, QUIET);
	assert_int_equal(a.batches, batches);
}

/* The same, when the completions are those that report the end of the queue pair. */
static void destroyed_in_the_end(void **state)
{
	(void)state;
	a.hook = destroy_hook;
	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(rnic_side_write(&a, 0, 100000, &b, 0, i), 0);
	rnic_qp_error(a.qp);
	assert_true(rnic_side_wait(behaviour_base, &a.num_sends, 1, PATIENCE));
	assert_null(a.qp);
	rnic_side_idle(behaviour_base, QUIET);
}

static void answer_hook(struct rnic_side *side, const struct rnic_wc *wc)
{
	uint32_t n;
	if (!wc->is_recv)
		return;
	memcpy(&n, wc->data, sizeof(n));
	n++;
	if (n <= 200)
		assert_int_equal(rnic_side_send(side, &n, sizeof(n), n), 0);
}

/* Each callback sends the received message back. */
static void posted_in_callback(void **state)
{
	(void)state;
	uint32_t n = 0;
	a.hook = b.hook = answer_hook;
	assert_int_equal(rnic_side_send(&a, &n, sizeof(n), 0), 0);
	assert_true(rnic_side_wait(behaviour_base, &b.num_messages, 101, PATIENCE));
	assert_true(rnic_side_wait(behaviour_base, &a.num_messages, 100, PATIENCE));
	assert_int_equal(a.recv_errors + b.recv_errors, 0);
}

/* Unsignaled requests do not fill the send queue for ever. */
static void unsignaled_requests(void **state)
{
	(void)state;
	struct rnic_send_wr wr = { .opcode = RNIC_WR_RDMA_WRITE,
				   .num_sge = 1,
				   .sge = { { a.mem, 64, rnic_mr_lkey(a.source) } },
				   .remote_addr = rnic_mr_vaddr(b.mr),
				   .rkey = rnic_mr_rkey(b.mr) };
	struct rnic_send_wr list[7];
	for (int i = 0; i < 7; i++)
		list[i] = wr;
	for (int i = 0; i < 1000;) {
		int r = rnic_post_send(a.qp, list, 7);
		if (r == 0)
			i += 7;
		else
			assert_int_equal(r, -ENOMEM);
		if (r)
			event_base_loop(behaviour_base, EVLOOP_ONCE);
	}
	assert_int_equal(a.num_sends, 0);
	for (int r; (r = rnic_side_send(&a, "done", 4, 1));) {
		assert_int_equal(r, -ENOMEM);
		event_base_loop(behaviour_base, EVLOOP_ONCE);
	}
	assert_true(rnic_side_wait(behaviour_base, &a.num_sends, 1, PATIENCE));
	assert_int_equal(a.sends[0].wr_id, 1);
	assert_int_equal(a.num_sends, 1);
}

static void parameters_are_checked(void **state)
{
	(void)state;
	rnic_behaviour_disconnect(NULL);
	rnic_side_qp(&a, 8, 8, 44);
	rnic_side_qp(&b, 8, 8, 44);
	struct rnic_qp_peer peer = rnic_side_peer(&b, 0, 3), bad = peer;
	struct rnic_qp_send_params params = { .retry_ms = 300, .rnr_retry = 7 };
	assert_int_equal(rnic_qp_start(a.qp, &params), -EINVAL); /* not connected */
	bad.sgid_index = RNIC_MAX_GIDS;
	assert_int_equal(rnic_qp_connect(a.qp, &bad), -EADDRNOTAVAIL);
	bad = peer;
	bad.path_mtu = 6;
	assert_int_equal(rnic_qp_connect(a.qp, &bad), -EINVAL);
	assert_int_equal(rnic_qp_connect(a.qp, &peer), 0);
	assert_int_equal(rnic_qp_connect(a.qp, &peer), -EINVAL); /* twice */
	assert_int_equal(rnic_side_send(&a, "x", 1, 1), -ENOTCONN);
	assert_int_equal(rnic_qp_start(a.qp, &params), 0);
	assert_int_equal(rnic_qp_start(a.qp, &params), -EINVAL);
	assert_int_equal(rnic_post_send(a.qp, NULL, 0), 0);
}

#define CONNECTED(f)                                                                               \
	cmocka_unit_test_setup_teardown(f, rnic_behaviour_connect, rnic_behaviour_disconnect)

static const struct CMUnitTest tests[] = {
	CONNECTED(write_then_send),
	CONNECTED(rnic_behaviour_writes),
	CONNECTED(long_sends),
	CONNECTED(path_mtus_and_psn_wrap),
	CONNECTED(many_sends),
	CONNECTED(post_rules),
	CONNECTED(inline_is_copied),
	CONNECTED(queue_pairs_share),
	CONNECTED(polled_in_callback),
	CONNECTED(error_flushes),
	CONNECTED(error_without_work),
	CONNECTED(remote_access_is_refused),
	CONNECTED(own_memory_is_checked),
	CONNECTED(silence_ends),
	CONNECTED(destroyed_in_callback),
	CONNECTED(destroyed_in_the_end),
	CONNECTED(posted_in_callback),
	CONNECTED(unsignaled_requests),
	CONNECTED(parameters_are_checked),
};
const struct rnic_behaviour_group rnic_behaviour_basic = { tests,
							   sizeof(tests) / sizeof(tests[0]) };

int rnic_behaviour_run(const char *name, const struct CMUnitTest *own, size_t num_own,
		       CMFixtureFunction setup, CMFixtureFunction teardown)
{
	const struct rnic_behaviour_group groups[] = { { own, num_own },
						       rnic_behaviour_basic,
						       rnic_behaviour_read,
						       rnic_behaviour_receive,
						       rnic_behaviour_window };
	const size_t num_groups = sizeof(groups) / sizeof(groups[0]);
	size_t num = 0, at = 0;
	for (size_t i = 0; i < num_groups; i++)
		num += groups[i].num;
	struct CMUnitTest *all = calloc(num, sizeof(*all));
	for (size_t i = 0; i < num_groups; i++) {
		memcpy(all + at, groups[i].tests, groups[i].num * sizeof(*all));
		at += groups[i].num;
	}
	int failed = _cmocka_run_group_tests(name, all, num, setup, teardown);
	free(all);
	return failed;
}

/* SPDX-License-Identifier: MIT */
/* Soft RNIC, requester, against a scripted peer: which packets leave, and what each answer does. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <time.h>

#include "daemon/rnic/soft.h"
#include "tests/lib/rnic_side.h"
#include "tests/lib/roce_peer.h"
#include "tests/lib/testnet.h"
#include "tests/lib/tries.h"

#define MEM      (1u << 20)
#define MTU_CODE 3
#define MTU      1024
#define PEER_QPN 0x000077
#define PEER_PSN 0x000100
#define OWN_PSN  0xFFFFFE /* wraps early */
#define PATIENCE 30000    /* milliseconds: of a busy machine */
#define QUIET    30
#define FAR_ADDR 0x1000000020000000
#define FAR_KEY  0xCAFE0001

static struct testnet net;
static struct event_base *base;
static struct rnic_side side;
static struct roce_peer peer;
static struct rnic_stats before;

static int setup(void **state)
{
	(void)state;
	testnet_new(&net, 1500);
	base = event_base_new();
	rnic_side_open(&side, base, "soft:t0", MEM);
	side.psn = OWN_PSN;
	rnic_side_pattern(side.mem, MEM, 42);
	testnet_enter(&net, 1);
	roce_peer_open(&peer, base, "10.77.0.2", "10.77.0.1", ROCE_UDP_PORT);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rnic_side_close(&side);
	roce_peer_close(&peer);
	event_base_free(base);
	testnet_free(&net);
	return 0;
}

static void connect_with(unsigned int retry_ms, unsigned int rnr_retry)
{
	struct rnic_qp_peer to = { .gid = { [10] = 0xFF, 0xFF, 10, 77, 0, 2 },
				   .qpn = PEER_QPN,
				   .rq_psn = PEER_PSN,
				   .path_mtu = MTU_CODE };
	rnic_side_qp(&side, 64, 4, 64);
	rnic_side_connect(&side, &to, retry_ms, rnr_retry);
	rnic_get_stats(side.rnic, &before);
}

static int connect_one(void **state)
{
	(void)state;
	connect_with(4000, 7);
	return 0;
}

static int disconnect(void **state)
{
	(void)state;
	struct roce_packet left;
	rnic_side_qp_destroy(&side);
	rnic_side_forget(&side);
	side.hook = NULL;
	rnic_soft_set_segmentation(side.rnic, true);
	while (roce_peer_receive(&peer, &left, 1))
		;
	return 0;
}

#define GREW(counter) (stats_now().counter - before.counter)

static struct rnic_stats stats_now(void)
{
	struct rnic_stats stats;
	rnic_get_stats(side.rnic, &stats);
	return stats;
}

static void answer(enum roce_ack_kind kind, uint32_t n, uint8_t value)
{
	struct roce_peer_packet p = { .opcode = ROCE_ACKNOWLEDGE,
				      .qpn = rnic_qp_num(side.qp),
				      .psn = OWN_PSN + n,
				      .aeth = { .kind = kind, .value = value } };
	roce_peer_send(&peer, &p);
}

static void ack(uint32_t n)
{
	answer(ROCE_ACK, n, ROCE_CREDITS_UNLIMITED);
}

/* The next packet must be number `n` of the QP. An earlier one does not count: the timer has
 * repeated it because this process was slow. */
static struct roce_packet expect_packet(uint32_t n, uint8_t opcode)
{
	struct roce_packet p;
	do {
		assert_true(roce_peer_receive(&peer, &p, PATIENCE));
	} while (roce_psn_diff(p.bth.psn, (OWN_PSN + n) & ROCE_PSN_MASK) < 0);
	assert_int_equal(p.bth.psn, (OWN_PSN + n) & ROCE_PSN_MASK);
	assert_int_equal(p.bth.opcode, opcode);
	assert_int_equal(p.bth.dest_qp, PEER_QPN);
	assert_int_equal(p.bth.pkey, ROCE_PKEY_DEFAULT);
	return p;
}

/* No packet after the first `n` has left. Repetitions by the timer do not count. */
static void expect_no_more_than(uint64_t n)
{
	rnic_side_idle(base, 5);
	assert_int_equal(GREW(tx_packets) - GREW(retransmits), n);
}

static void expect_silence(void)
{
	struct roce_packet p;
	assert_false(roce_peer_receive(&peer, &p, QUIET));
}

static int post_write(size_t from, uint32_t len, uint64_t wr_id)
{
	struct rnic_send_wr wr = { .wr_id = wr_id,
				   .opcode = RNIC_WR_RDMA_WRITE,
				   .flags = RNIC_SEND_SIGNALED,
				   .num_sge = 1,
				   .sge = { { side.mem + from, len, rnic_mr_lkey(side.source) } },
				   .remote_addr = FAR_ADDR,
				   .rkey = FAR_KEY };
	return rnic_post_send(side.qp, &wr, 1);
}

static int post_send(uint64_t wr_id)
{
	return rnic_side_send(&side, "hello", 5, wr_id);
}

static void expect_done(size_t n, uint64_t wr_id, enum rnic_wc_status status)
{
	assert_true(rnic_side_wait(base, &side.num_sends, n + 1, PATIENCE));
	assert_int_equal(side.sends[n].wr_id, wr_id);
	assert_int_equal(side.sends[n].status, status);
}

static void a_write_and_a_send_leave(void **state)
{
	(void)state;
	assert_int_equal(post_write(3, MTU + 1, 1), 0);
	struct rnic_send_wr wr = { .wr_id = 2,
				   .opcode = RNIC_WR_SEND,
				   .flags = RNIC_SEND_SOLICITED | RNIC_SEND_INLINE,
				   .num_sge = 1,
				   .sge = { { "hello", 5, 0 } } };
	assert_int_equal(rnic_post_send(side.qp, &wr, 1), 0);
	struct roce_packet p = expect_packet(0, ROCE_WRITE_ONLY);
	assert_true(p.reth.va == FAR_ADDR);
	assert_int_equal(p.reth.rkey, FAR_KEY);
	assert_int_equal(p.reth.length, MTU);
	assert_int_equal(p.payload_len, MTU);
	assert_memory_equal(p.payload, side.mem + 3, MTU);
	assert_false(p.bth.ack_req);
	p = expect_packet(1, ROCE_WRITE_ONLY);
	assert_true(p.reth.va == FAR_ADDR + MTU);
	assert_int_equal(p.reth.length, 1);
	assert_int_equal(p.payload_len, 1);
	assert_int_equal(p.payload[0], side.mem[3 + MTU]);
	assert_int_equal(p.bth.pad, 3);
	assert_false(p.bth.solicited);
	p = expect_packet(2, ROCE_SEND_ONLY);
	assert_int_equal(p.payload_len, 5);
	assert_memory_equal(p.payload, "hello", 5);
	assert_true(p.bth.solicited);
	assert_true(p.bth.ack_req);
	ack(2);
	expect_done(0, 1, RNIC_WC_SUCCESS);
	rnic_side_idle(base, QUIET);
	assert_int_equal(side.num_sends, 1); /* the SEND was not signaled */
}

static void first_middle_last(void **state)
{
	(void)state;
	rnic_soft_set_segmentation(side.rnic, false);
	assert_int_equal(post_write(0, 3 * MTU - 8, 1), 0);
	struct roce_packet p = expect_packet(0, ROCE_WRITE_FIRST);
	assert_true(p.reth.va == FAR_ADDR);
	assert_int_equal(p.reth.length, 3 * MTU - 8);
	expect_packet(1, ROCE_WRITE_MIDDLE);
	p = expect_packet(2, ROCE_WRITE_LAST);
	assert_int_equal(p.payload_len, MTU - 8);
	assert_memory_equal(p.payload, side.mem + 2 * MTU, MTU - 8);
	ack(2);
	expect_done(0, 1, RNIC_WC_SUCCESS);
}

/* A SEND of any length. Its pieces need not be as long as packets. */
static void long_send(void **state)
{
	(void)state;
	disconnect(NULL);
	side.max_sge = RNIC_MAX_SGE;
	connect_with(4000, 7);
	side.max_sge = 0;
	struct rnic_sge pieces[RNIC_MAX_SGE];
	uint8_t expected[5 * MTU];
	uint32_t total = 0;
	for (unsigned int i = 0; i < RNIC_MAX_SGE; i++) {
		uint32_t len = i == 5 ? 0 : 200 + 17 * i;
		pieces[i] = (struct rnic_sge){ side.mem + (size_t)i * 5000, len,
					       rnic_mr_lkey(side.source) };
		memcpy(expected + total, pieces[i].addr, len);
		total += len;
	}
	struct rnic_send_wr wr = { .wr_id = 1,
				   .opcode = RNIC_WR_SEND,
				   .flags = RNIC_SEND_SIGNALED | RNIC_SEND_SOLICITED,
				   .num_sge = RNIC_MAX_SGE,
				   .pieces = pieces };
	assert_int_equal(rnic_post_send(side.qp, &wr, 1), 0);
	memset(pieces, 0xFF, sizeof(pieces)); /* they were read by the post */
	assert_int_equal(total / MTU, 4);
	for (uint32_t n = 0; n <= 4; n++) {
		struct roce_packet p = expect_packet(n, n == 0   ? ROCE_SEND_FIRST
							: n == 4 ? ROCE_SEND_LAST
								 : ROCE_SEND_MIDDLE);
		assert_int_equal(p.payload_len, n == 4 ? total % MTU : MTU);
		assert_memory_equal(p.payload, expected + n * MTU, p.payload_len);
		assert_int_equal(p.bth.solicited, n == 4);
	}
	ack(4);
	expect_done(0, 1, RNIC_WC_SUCCESS);
	assert_int_equal(side.sends[0].length, total);
}

/* The last packet of a SEND with invalidate has the token, so it may be longer than the others. */
static void send_with_invalidate(void **state)
{
	(void)state;
	static const uint32_t lengths[] = { 5, 2 * MTU };
	for (size_t i = 0; i < 2; i++) {
		struct rnic_send_wr wr = {
			.wr_id = i,
			.opcode = RNIC_WR_SEND_INVALIDATE,
			.flags = RNIC_SEND_SIGNALED,
			.num_sge = 1,
			.sge = { { side.mem, lengths[i], rnic_mr_lkey(side.source) } },
			.rkey = FAR_KEY,
		};
		assert_int_equal(rnic_post_send(side.qp, &wr, 1), 0);
	}
	struct roce_packet p = expect_packet(0, ROCE_SEND_ONLY_INVALIDATE);
	assert_int_equal(p.invalidate, FAR_KEY);
	assert_int_equal(p.payload_len, 5);
	expect_packet(1, ROCE_SEND_FIRST);
	p = expect_packet(2, ROCE_SEND_LAST_INVALIDATE);
	assert_int_equal(p.invalidate, FAR_KEY);
	assert_int_equal(p.payload_len, MTU);
	assert_memory_equal(p.payload, side.mem + MTU, MTU);
	ack(2);
	expect_done(0, 0, RNIC_WC_SUCCESS);
	expect_done(1, 1, RNIC_WC_SUCCESS);
}

static void acknowledgements(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 6; i++)
		assert_int_equal(post_send(i), 0);
	for (uint32_t n = 0; n < 6; n++)
		expect_packet(n, ROCE_SEND_ONLY);
	/* An ACK for several packets, also one in the middle of a message; an old ACK changes
	 * nothing. */
	ack(2);
	expect_done(2, 2, RNIC_WC_SUCCESS);
	assert_int_equal(side.num_sends, 3);
	ack(0);
	rnic_side_idle(base, 5);
	assert_int_equal(side.num_sends, 3);
	assert_int_equal(GREW(duplicates), 1);
	/* An ACK for packets that were never sent. */
	ack(6);
	answer(ROCE_NAK, 6, ROCE_NAK_REMOTE_ACCESS);
	ack(1u << 22);
	ack(0u - (1u << 22));
	rnic_side_idle(base, 5);
	assert_int_equal(side.num_sends, 3);
	assert_int_equal(GREW(drop_psn), 4);
	answer(ROCE_ACK_RESERVED, 3, 0);
	rnic_side_idle(base, 5);
	assert_int_equal(GREW(drop_malformed), 1);
	ack(5);
	expect_done(5, 5, RNIC_WC_SUCCESS);
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(side.sends[i].wr_id, i);
}

static void sequence_error_resends(void **state)
{
	(void)state;
	assert_int_equal(post_write(0, 5 * MTU, 1), 0);
	for (uint32_t n = 0; n < 5; n++)
		expect_packet(n, ROCE_WRITE_ONLY);
	answer(ROCE_NAK, 3, ROCE_NAK_PSN_SEQUENCE);
	struct roce_packet p = expect_packet(3, ROCE_WRITE_ONLY);
	assert_memory_equal(p.payload, side.mem + 3 * MTU, MTU);
	p = expect_packet(4, ROCE_WRITE_ONLY);
	assert_true(p.bth.ack_req);
	ack(4);
	expect_done(0, 1, RNIC_WC_SUCCESS);
	assert_int_equal(GREW(naks_received), 1);
	assert_int_equal(GREW(retransmits), 2);
	struct rnic_qp_stats stats;
	rnic_qp_get_stats(side.qp, &stats);
	assert_int_equal(stats.retransmits, 2);
	assert_int_equal(stats.tx_bytes, 5 * MTU);
	/* The same NAK a second time. */
	answer(ROCE_NAK, 3, ROCE_NAK_PSN_SEQUENCE);
	expect_silence();
}

/* If a program writes into a buffer that is being sent, the ICRC of one transmission does not fit,
 * and the next one has what was posted. */
static void resends_a_private_copy(void **state)
{
	(void)state;
	uint8_t old[MTU];
	memcpy(old, side.mem, MTU);
	assert_int_equal(post_write(0, MTU, 1), 0);
	expect_packet(0, ROCE_WRITE_ONLY);
	memset(side.mem, 0x77, MTU);
	struct roce_packet p = expect_packet(0, ROCE_WRITE_ONLY); /* sent by the timer */
	assert_memory_equal(p.payload, side.mem, MTU);
	ack(0);
	expect_done(0, 1, RNIC_WC_SUCCESS);
	memcpy(side.mem, old, MTU);
}

static uint64_t now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void silence_ends_the_qp(void **state)
{
	(void)state;
	disconnect(NULL);
	connect_with(400, 7);
	uint64_t start = now_ms();
	assert_int_equal(post_send(1), 0);
	assert_int_equal(post_write(0, 3 * MTU, 2), 0);
	expect_done(0, 1, RNIC_WC_RETRY_EXC_ERR);
	uint64_t took = now_ms() - start;
	assert_in_range(took, 400, 3900);
	expect_done(1, 2, RNIC_WC_WR_FLUSH_ERR);
	assert_int_equal(side.recv_errors, 1);
	assert_true(GREW(timeouts) >= 4);
	assert_true(GREW(retransmits) >= 4);
	assert_int_equal(post_send(3), -EIO);
	/* In ERR nothing is sent. */
	disconnect(NULL);
}

/* The limit for retries counts from the last progress, not from the start. */
static void slow_peer_is_borne_with(void **state)
{
	(void)state;
	disconnect(NULL);
	connect_with(400, 7);
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(post_send(i), 0);
	for (uint32_t n = 0; n < 4; n++) {
		rnic_side_idle(base, 250);
		ack(n);
		expect_done(n, n, RNIC_WC_SUCCESS);
	}
}

/* The short limit for retries of a link that has an alternative. */
static void short_patience(void **state)
{
	(void)state;
	disconnect(NULL);
	connect_with(300, 7);
	uint64_t start = now_ms();
	assert_int_equal(post_send(1), 0);
	expect_done(0, 1, RNIC_WC_RETRY_EXC_ERR);
	uint64_t took = now_ms() - start;
	/* A machine may be late, but other links have 4000 ms. */
	print_message("# given up after %lu ms of 300\n", took);
	assert_in_range(took, 300, 3900);
	assert_true(GREW(retransmits) >= 4);
}

/* The limit may change while requests are outstanding. */
static void patience_changes(void **state)
{
	(void)state;
	uint64_t start = now_ms();
	/* A shorter limit that is not over yet. */
	assert_int_equal(post_send(1), 0);
	rnic_side_idle(base, 50);
	rnic_qp_set_retry(side.qp, 300);
	expect_done(0, 1, RNIC_WC_RETRY_EXC_ERR);
	assert_in_range(now_ms() - start, 300, 3900);

	/* A shorter limit that is over already: the queue pair fails at once, but not inside the
	 * call. On a busy machine one of five tries shows that. */
	uint64_t took = 300;
	for (int i = 0; i < 5 && took >= 300; i++) {
		disconnect(NULL);
		connect_with(4000, 7);
		assert_int_equal(post_send(1), 0);
		rnic_side_idle(base, 700);
		assert_int_equal(side.num_sends, 0);
		start = now_ms();
		rnic_qp_set_retry(side.qp, 300);
		assert_int_equal(side.num_sends, 0);
		expect_done(0, 1, RNIC_WC_RETRY_EXC_ERR);
		took = now_ms() - start;
	}
	assert_in_range(took, 0, 299);

	/* A longer limit. */
	disconnect(NULL);
	connect_with(300, 7);
	assert_int_equal(post_send(1), 0);
	rnic_side_idle(base, 200);
	rnic_qp_set_retry(side.qp, 4000);
	rnic_side_idle(base, 500);
	assert_int_equal(side.num_sends, 0);
	ack(0);
	expect_done(0, 1, RNIC_WC_SUCCESS);
	rnic_qp_set_retry(side.qp, 300); /* without outstanding requests */
	rnic_side_idle(base, 400);
	assert_int_equal(side.recv_errors, 0);

	/* A QP that cannot send yet, and one that has failed. */
	disconnect(NULL);
	rnic_side_qp(&side, 64, 4, 64);
	rnic_qp_set_retry(side.qp, 300);
	rnic_qp_error(side.qp);
	rnic_qp_set_retry(side.qp, 300);
}

static unsigned int asked, denied;
static uint64_t first_silence;

static bool agree_after_denials(struct rnic_side *s, uint64_t silent_us)
{
	(void)s;
	if (asked++ == 0)
		first_silence = silent_us;
	if (denied == 0)
		return true;
	denied--;
	return false;
}

static uint64_t heard_us(void)
{
	struct rnic_qp_stats stats;
	rnic_qp_get_stats(side.qp, &stats);
	return stats.heard_us;
}

/* The queue pair fails only if its user agrees twice. Between the two questions the peer has
 * another chance. */
static void user_is_asked_before_giving_up(void **state)
{
	(void)state;
	disconnect(NULL);
	side.may_give_up = agree_after_denials;
	connect_with(300, 7);
	asked = 0;
	denied = 15; /* more than there are timers in 300 ms */
	assert_true(heard_us() == UINT64_MAX);
	assert_int_equal(post_send(1), 0);
	rnic_side_idle(base, 20);
	assert_int_equal(asked, 0);
	uint64_t start = now_ms();
	while (denied > 1 && now_ms() < start + PATIENCE)
		rnic_side_idle(base, 5);
	assert_in_range(first_silence, 150000, 300000);
	assert_in_range(now_ms() - start, 350, PATIENCE);
	assert_int_equal(side.num_sends, 0);
	ack(0);
	expect_done(0, 1, RNIC_WC_SUCCESS);
	assert_in_range(heard_us(), 0, 5000000);

	/* Earlier agreement does not count after progress, and one agreement is not enough. */
	asked = denied = 0;
	assert_int_equal(post_send(2), 0);
	while (asked < 2)
		rnic_side_idle(base, 1);
	ack(1);
	expect_done(1, 2, RNIC_WC_SUCCESS);
	asked = 0;
	denied = 7;
	assert_int_equal(post_send(3), 0);
	expect_done(2, 3, RNIC_WC_RETRY_EXC_ERR);
	assert_int_equal(denied, 0);
	assert_true(asked >= 9);
	side.may_give_up = NULL;
}

/* This process does not run for a time, as when a signal has stopped it. */
static void absent(unsigned int ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000L };
	nanosleep(&ts, NULL);
}

/* Time in which this process did not run does not count as silence of the peer. */
static void own_absence_is_not_counted(void **state)
{
	(void)state;
	disconnect(NULL);
	connect_with(300, 7);
	assert_int_equal(post_write(0, 3 * MTU, 1), 0);
	rnic_side_idle(base, 50);
	absent(1000);
	rnic_side_idle(base, 50);
	absent(400);
	assert_int_equal(side.num_sends, 0);
	/* The same if the first packet after that is an answer that the peer had sent before. */
	absent(1000);
	answer(ROCE_NAK, 0, ROCE_NAK_PSN_SEQUENCE);
	rnic_side_idle(base, 20);
	assert_int_equal(side.num_sends, 0);
	ack(2);
	expect_done(0, 1, RNIC_WC_SUCCESS);

	/* The rest of the limit counts in full. */
	assert_int_equal(post_send(2), 0);
	rnic_side_idle(base, 150);
	absent(500);
	uint64_t start = now_ms();
	expect_done(1, 2, RNIC_WC_RETRY_EXC_ERR);
	assert_in_range(now_ms() - start, 50, 3900);
}

static void refusals_end_the_qp(void **state)
{
	(void)state;
	static const struct {
		uint8_t code;
		enum rnic_wc_status status;
	} cases[] = {
		{ ROCE_NAK_INVALID_REQUEST, RNIC_WC_REM_INV_REQ_ERR },
		{ ROCE_NAK_REMOTE_ACCESS, RNIC_WC_REM_ACCESS_ERR },
		{ ROCE_NAK_REMOTE_OPERATIONAL, RNIC_WC_REM_OP_ERR },
		{ 4, RNIC_WC_GENERAL_ERR },
	};
	for (size_t i = 0; i < 4; i++) {
		disconnect(NULL);
		connect_one(NULL);
		assert_int_equal(post_send(1), 0);
		assert_int_equal(post_write(0, 2 * MTU, 2), 0);
		assert_int_equal(post_send(3), 0);
		expect_packet(0, ROCE_SEND_ONLY);
		answer(ROCE_NAK, 2, cases[i].code);
		/* The request before it is done, this one has failed, the one behind it was never
		 * sent */
		expect_done(0, 1, RNIC_WC_SUCCESS);
		expect_done(1, 2, cases[i].status);
		expect_done(2, 3, RNIC_WC_WR_FLUSH_ERR);
		assert_int_equal(side.recv_errors, 1);
		assert_int_equal(post_send(4), -EIO);
	}
}

static void receiver_not_ready(void **state)
{
	(void)state;
	assert_int_equal(post_send(1), 0);
	assert_int_equal(post_send(2), 0);
	expect_packet(0, ROCE_SEND_ONLY);
	expect_packet(1, ROCE_SEND_ONLY);
	/* RNR NAK with 20.48 ms for the second message; the first one has arrived. */
	uint64_t start = now_ms();
	answer(ROCE_RNR_NAK, 1, 22);
	expect_done(0, 1, RNIC_WC_SUCCESS);
	expect_packet(1, ROCE_SEND_ONLY);
	assert_true(now_ms() - start >= 20);
	/* An RNR NAK may come any number of times. */
	for (int i = 0; i < 20; i++) {
		answer(ROCE_RNR_NAK, 1, 1);
		expect_packet(1, ROCE_SEND_ONLY);
	}
	ack(1);
	expect_done(1, 2, RNIC_WC_SUCCESS);
	assert_int_equal(GREW(rnr_naks_received), 21);
}

static void receiver_not_ready_limit(void **state)
{
	(void)state;
	static const unsigned int limits[] = { 0, 2 };
	for (size_t i = 0; i < 2; i++) {
		TRIES("%u", limits[i]);
		disconnect(NULL);
		connect_with(4000, limits[i]);
		assert_int_equal(post_send(1), 0);
		for (unsigned int tries = 0; tries <= limits[i]; tries++) {
			expect_packet(0, ROCE_SEND_ONLY);
			answer(ROCE_RNR_NAK, 0, 1);
		}
		expect_done(0, 1, RNIC_WC_RNR_RETRY_EXC_ERR);
		assert_int_equal(side.recv_errors, 1);
		assert_int_equal(GREW(rnr_naks_received), limits[i] + 1);
	}
}

/* SENDs wait if the peer says that it has no buffers for them. If nothing is outstanding, one is
 * sent all the same. */
static void credits(void **state)
{
	(void)state;
	assert_int_equal(post_send(0), 0);
	expect_packet(0, ROCE_SEND_ONLY);
	answer(ROCE_ACK, 0, 2);
	expect_done(0, 0, RNIC_WC_SUCCESS);
	for (uint64_t i = 1; i <= 5; i++)
		assert_int_equal(post_send(i), 0);
	expect_packet(1, ROCE_SEND_ONLY);
	expect_packet(2, ROCE_SEND_ONLY);
	expect_no_more_than(3);
	/* The peer has no buffer left, and both SENDs are done: one is sent. */
	answer(ROCE_ACK, 2, 0);
	expect_packet(3, ROCE_SEND_ONLY);
	expect_no_more_than(4);
	/* An ACK without progress tells that a buffer was posted. */
	answer(ROCE_ACK, 2, 2);
	expect_packet(4, ROCE_SEND_ONLY);
	expect_no_more_than(5);
	answer(ROCE_ACK, 4, ROCE_CREDITS_UNLIMITED);
	expect_packet(5, ROCE_SEND_ONLY);
	ack(5);
	expect_done(5, 5, RNIC_WC_SUCCESS);
}

/* A SEND that has begun has its buffer, so it goes on whatever the peer says of others. */
static void credits_within_a_message(void **state)
{
	(void)state;
	disconnect(NULL);
	connect_with(4000, 7);
	const uint32_t packets = MEM / MTU; /* as many as the first window */
	assert_int_equal(post_send(1), 0);
	struct rnic_send_wr wr = { .wr_id = 2,
				   .opcode = RNIC_WR_SEND,
				   .flags = RNIC_SEND_SIGNALED,
				   .num_sge = 1,
				   .sge = { { side.mem, MEM, rnic_mr_lkey(side.source) } } };
	assert_int_equal(rnic_post_send(side.qp, &wr, 1), 0);
	expect_packet(0, ROCE_SEND_ONLY);
	expect_packet(1, ROCE_SEND_FIRST);
	for (uint32_t n = 2; n < packets; n++)
		expect_packet(n, ROCE_SEND_MIDDLE);
	answer(ROCE_ACK, packets / 2, 0);
	expect_packet(packets, ROCE_SEND_LAST);
	ack(packets);
	expect_done(1, 2, RNIC_WC_SUCCESS);
}

/* The user waits for completions: a WRITE without bytes asks the peer for an ACK at once. One is
 * under way at most, and the user is not told of it. Only a soft RNIC puts ACKs off, and the first
 * packet that comes tells of one. */
static void asks_for_an_ack(void **state)
{
	(void)state;
	assert_int_equal(post_send(0), 0);
	rnic_qp_want_ack(side.qp); /* the peer is not known */
	expect_packet(0, ROCE_SEND_ONLY);
	expect_no_more_than(1);
	ack(0);
	expect_done(0, 0, RNIC_WC_SUCCESS);
	rnic_qp_want_ack(side.qp); /* nothing is outstanding */
	expect_no_more_than(1);

	assert_int_equal(post_send(1), 0);
	rnic_qp_want_ack(side.qp);
	expect_packet(1, ROCE_SEND_ONLY);
	struct roce_packet p = expect_packet(2, ROCE_WRITE_ONLY);
	assert_int_equal(p.payload_len, 0);
	assert_int_equal(p.reth.length, 0);
	assert_true(p.bth.ack_req);
	assert_int_equal(post_send(2), 0);
	rnic_qp_want_ack(side.qp);
	expect_packet(3, ROCE_SEND_ONLY);
	expect_no_more_than(4);
	ack(1);
	expect_done(1, 1, RNIC_WC_SUCCESS);
	expect_no_more_than(4);
	ack(2);
	expect_packet(4, ROCE_WRITE_ONLY);
	ack(4);
	expect_done(2, 2, RNIC_WC_SUCCESS);
	rnic_side_idle(base, 5);
	expect_no_more_than(5);
	assert_int_equal(side.num_sends, 3);
}

/* The peer answers SEND 0, and so is known as a soft RNIC. Behind SEND 1 an ACK is asked for. */
static void ask_behind_a_send(void)
{
	assert_int_equal(post_send(0), 0);
	expect_packet(0, ROCE_SEND_ONLY);
	ack(0);
	expect_done(0, 0, RNIC_WC_SUCCESS);
	assert_int_equal(post_send(1), 0);
	rnic_qp_want_ack(side.qp);
}

/* What asks for an ACK takes no place of the user's, and ends with the queue pair without a
 * completion. */
static void asking_takes_no_place(void **state)
{
	(void)state;
	ask_behind_a_send();
	expect_packet(2, ROCE_WRITE_ONLY);
	for (uint64_t i = 2; i <= 64; i++)
		assert_int_equal(post_send(i), 0);
	assert_int_equal(post_send(65), -ENOMEM);
	rnic_qp_want_ack(side.qp);
	ack(65); /* all but the one that asks for the rest */
	assert_true(rnic_side_wait(base, &side.num_sends, 65, PATIENCE));
	rnic_side_idle(base, 5);
	assert_int_equal(side.num_sends, 65);
	for (uint64_t i = 65; i < 65 + 64; i++)
		assert_int_equal(post_send(i), 0);
	rnic_qp_want_ack(side.qp);
	rnic_qp_error(side.qp);
	assert_true(rnic_side_wait(base, &side.recv_errors, 1, PATIENCE));
	assert_int_equal(side.num_sends, 65 + 64);
}

/* If the peer falls silent behind all that the user waited for, the user's next request says so:
 * its path is dead. */
static void silence_after_asking(void **state)
{
	(void)state;
	disconnect(NULL);
	connect_with(400, 7);
	ask_behind_a_send();
	assert_int_equal(post_send(2), 0);
	assert_int_equal(post_send(3), 0);
	expect_packet(2, ROCE_WRITE_ONLY);
	ack(1);
	expect_done(1, 1, RNIC_WC_SUCCESS);
	expect_done(2, 2, RNIC_WC_RETRY_EXC_ERR);
	expect_done(3, 3, RNIC_WC_WR_FLUSH_ERR);
	assert_int_equal(side.num_sends, 4);
}

static void own_memory_errors(void **state)
{
	(void)state;
	struct rnic_pd *other_pd;
	struct rnic_mr *other_mr, *gone_mr;
	assert_int_equal(rnic_pd_alloc(side.rnic, &other_pd), 0);
	assert_int_equal(rnic_mr_register(other_pd, side.mem, MEM, 0, &other_mr), 0);
	const struct {
		uint32_t lkey;
		size_t from;
		uint32_t len;
	} cases[] = {
		{ rnic_mr_lkey(side.source) ^ 1, 0, 4 },
		{ rnic_mr_lkey(other_mr), 0, 4 },
		{ rnic_mr_lkey(side.source), MEM - 3, 4 },
		{ rnic_mr_lkey(side.mr), 0, 4 }, /* peers may write there */
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TRIES("row %zu", i);
		disconnect(NULL);
		connect_one(NULL);
		assert_int_equal(post_send(1), 0);
		struct rnic_send_wr wr = {
			.wr_id = 2,
			.opcode = RNIC_WR_RDMA_WRITE,
			.num_sge = 1,
			.sge = { { side.mem + cases[i].from, cases[i].len, cases[i].lkey } },
		};
		assert_int_equal(rnic_post_send(side.qp, &wr, 1), 0);
		assert_int_equal(post_send(3), 0);
		expect_packet(0, ROCE_SEND_ONLY);
		expect_no_more_than(1);
		/* Requests posted before it complete first, even if they have to be sent again. */
		expect_packet(0, ROCE_SEND_ONLY);
		assert_int_equal(side.num_sends, 0);
		ack(0);
		expect_done(0, 1, RNIC_WC_SUCCESS);
		expect_done(1, 2, RNIC_WC_LOC_PROT_ERR);
		expect_done(2, 3, RNIC_WC_WR_FLUSH_ERR);
	}
	rnic_mr_deregister(other_mr);
	rnic_pd_free(other_pd);

	/* A request whose memory is deregistered is not sent again. */
	disconnect(NULL);
	connect_one(NULL);
	assert_int_equal(rnic_mr_register(side.pd, side.mem, MEM, 0, &gone_mr), 0);
	struct rnic_send_wr wr = { .wr_id = 1,
				   .opcode = RNIC_WR_RDMA_WRITE,
				   .num_sge = 1,
				   .sge = { { side.mem, 512, rnic_mr_lkey(gone_mr) } } };
	assert_int_equal(rnic_post_send(side.qp, &wr, 1), 0);
	expect_packet(0, ROCE_WRITE_ONLY);
	rnic_mr_deregister(gone_mr);
	expect_done(0, 1, RNIC_WC_LOC_PROT_ERR);
}

static void error_flushes(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(post_send(i), 0);
	expect_packet(0, ROCE_SEND_ONLY);
	ack(1);
	expect_done(1, 1, RNIC_WC_SUCCESS);
	rnic_qp_error(side.qp);
	assert_int_equal(side.num_sends, 2); /* from the event loop only */
	for (uint64_t i = 2; i < 5; i++)
		expect_done(i, i, RNIC_WC_WR_FLUSH_ERR);
	assert_int_equal(side.recv_errors, 1);
	rnic_qp_error(side.qp);
	rnic_side_idle(base, 5);
	assert_int_equal(side.num_sends, 5);
	assert_int_equal(side.recv_errors, 1);
}

static void destroy_hook(struct rnic_side *s, const struct rnic_wc *wc)
{
	(void)wc;
	if (s->qp)
		rnic_side_qp_destroy(s);
}

/* A callback may destroy the QP of its completion. After that no callback comes. */
static void destroyed_in_callback(void **state)
{
	(void)state;
	side.hook = destroy_hook;
	assert_int_equal(post_send(1), 0);
	expect_packet(0, ROCE_SEND_ONLY);
	ack(0);
	expect_done(0, 1, RNIC_WC_SUCCESS);
	assert_null(side.qp);
	size_t batches = side.batches;
	rnic_side_idle(base, QUIET);
	assert_int_equal(side.batches, batches);
}

static void post_hook(struct rnic_side *s, const struct rnic_wc *wc)
{
	if (!wc->is_recv && wc->wr_id < 100)
		assert_int_equal(rnic_side_send(s, "again", 5, wc->wr_id + 1), 0);
}

static void posted_in_callback(void **state)
{
	(void)state;
	side.hook = post_hook;
	assert_int_equal(post_send(1), 0);
	for (uint32_t n = 0; n < 99; n++) {
		expect_packet(n, ROCE_SEND_ONLY);
		ack(n);
	}
	expect_done(98, 99, RNIC_WC_SUCCESS);
}

/* How many packets have left at least once, when no new ones come any more. */
static uint32_t settled(void)
{
	struct roce_packet p;
	uint32_t highest = 0;
	while (roce_peer_receive(&peer, &p, 5)) {
		int32_t n = roce_psn_diff(p.bth.psn, OWN_PSN);
		if (n >= 0 && (uint32_t)n >= highest)
			highest = (uint32_t)n + 1;
	}
	return highest;
}

/* When all packets are lost the sender's window shrinks; with answers it grows again. */
static void window_shrinks_on_loss(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(post_write(0, MEM, i), 0);
	assert_int_equal(settled(), 1024); /* 1 MiB at first */
	while (GREW(timeouts) == 0)
		event_base_loop(base, EVLOOP_ONCE);
	ack(1023);
	expect_packet(1024, ROCE_WRITE_ONLY);
	assert_int_equal(settled(), 1032);
	uint32_t out = 1032;
	for (int i = 0; out < 1800; i++) {
		const uint64_t timeouts = GREW(timeouts);
		ack(out - 1);
		expect_packet(out, ROCE_WRITE_ONLY);
		uint32_t now = settled();
		assert_true(now > out);
		/* It doubles at most, and does not stay small for ever. */
		assert_true(i < 12);
		assert_true(now - out <= 8u << (i + 1));
		out = now;
		if (GREW(timeouts) != timeouts) /* on a busy machine: it has shrunk again */
			i = -1;
	}
}

int main(void)
{
#define CONNECTED(f) cmocka_unit_test_setup_teardown(f, connect_one, disconnect)
	const struct CMUnitTest tests[] = {
		CONNECTED(a_write_and_a_send_leave),
		CONNECTED(first_middle_last),
		CONNECTED(long_send),
		CONNECTED(send_with_invalidate),
		CONNECTED(acknowledgements),
		CONNECTED(sequence_error_resends),
		CONNECTED(resends_a_private_copy),
		CONNECTED(silence_ends_the_qp),
		CONNECTED(slow_peer_is_borne_with),
		CONNECTED(short_patience),
		CONNECTED(patience_changes),
		CONNECTED(user_is_asked_before_giving_up),
		CONNECTED(own_absence_is_not_counted),
		CONNECTED(refusals_end_the_qp),
		CONNECTED(receiver_not_ready),
		CONNECTED(receiver_not_ready_limit),
		CONNECTED(credits),
		CONNECTED(credits_within_a_message),
		CONNECTED(asks_for_an_ack),
		CONNECTED(asking_takes_no_place),
		CONNECTED(silence_after_asking),
		CONNECTED(own_memory_errors),
		CONNECTED(error_flushes),
		CONNECTED(destroyed_in_callback),
		CONNECTED(posted_in_callback),
		CONNECTED(window_shrinks_on_loss),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

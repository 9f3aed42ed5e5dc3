/* SPDX-License-Identifier: MIT */
/* Soft RNIC, RDMA READs as requester, against a scripted peer: what is asked for, where the
 * responses go, and what is asked for again. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <netinet/ip.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/rnic/soft.h"
#include "tests/lib/rnic_side.h"
#include "tests/lib/roce_peer.h"
#include "tests/lib/testnet.h"
#include "tests/lib/tries.h"

#define MEM      (4u << 20)
#define MTU_CODE 3
#define MTU      1024
#define PEER_QPN 0x000077
#define PEER_PSN 0x000100
#define OWN_PSN  0xFFFFFE /* wraps early */
#define PATIENCE 30000    /* milliseconds: of a busy machine */
#define FAR_ADDR 0x1000000020000000
#define FAR_KEY  0xCAFE0001
#define WINDOW   ((1u << 20) / MTU) /* the first window, packets */

static struct testnet net;
static struct event_base *base;
static struct rnic_side side;
static struct roce_peer peer;
static struct rnic_stats before;
static unsigned int rnr_retry = 7;
static uint8_t far[MEM]; /* the peer's memory at FAR_ADDR */
static int32_t newest;   /* the highest number that was asked for or sent to the peer; -1: none */

static int setup(void **state)
{
	(void)state;
	testnet_new(&net, 1500);
	base = event_base_new();
	rnic_side_open(&side, base, "soft:t0", MEM);
	side.psn = OWN_PSN;
	rnic_side_pattern(far, MEM, 7);
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

static void connect_with(uint8_t reads_asked)
{
	struct rnic_qp_peer to = { .gid = { [10] = 0xFF, 0xFF, 10, 77, 0, 2 },
				   .qpn = PEER_QPN,
				   .rq_psn = PEER_PSN,
				   .path_mtu = MTU_CODE };
	side.reads_asked = reads_asked;
	newest = -1;
	rnic_side_qp(&side, 64, 4, 64);
	rnic_side_connect(&side, &to, 4000, rnr_retry);
	rnic_get_stats(side.rnic, &before);
}

static int connect_one(void **state)
{
	(void)state;
	side.max_sge = RNIC_MAX_SGE;
	connect_with(4);
	memset(side.mem, 0, MEM);
	return 0;
}

static int disconnect(void **state)
{
	(void)state;
	struct roce_packet left;
	rnic_side_qp_destroy(&side);
	rnic_side_forget(&side);
	while (roce_peer_receive(&peer, &left, 1))
		;
	return 0;
}

/* A new queue pair. */
static void reconnect(uint8_t reads_asked)
{
	disconnect(NULL);
	connect_with(reads_asked);
}

#define GREW(counter) (stats_now().counter - before.counter)

static struct rnic_stats stats_now(void)
{
	struct rnic_stats stats;
	rnic_get_stats(side.rnic, &stats);
	return stats;
}

/* ---- the peer */

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

/* Packet `n` of the QP is answered with `len` bytes of the peer's memory from `from` on. */
static void respond_len(uint32_t n, uint8_t opcode, size_t from, size_t len)
{
	struct roce_peer_packet p = { .opcode = opcode,
				      .qpn = rnic_qp_num(side.qp),
				      .psn = OWN_PSN + n,
				      .aeth = { .kind = ROCE_ACK, .value = ROCE_CREDITS_UNLIMITED },
				      .payload = far + from,
				      .len = len };
	roce_peer_send(&peer, &p);
}

static void respond(uint32_t n, uint8_t opcode, size_t from)
{
	respond_len(n, opcode, from, MTU);
}

/* The whole response to a READ of whole packets. */
static void respond_all(uint32_t n, uint32_t packets, size_t from)
{
	for (uint32_t i = 0; i < packets; i++) {
		uint8_t opcode = packets == 1       ? ROCE_READ_RESPONSE_ONLY
				 : i == 0           ? ROCE_READ_RESPONSE_FIRST
				 : i == packets - 1 ? ROCE_READ_RESPONSE_LAST
						    : ROCE_READ_RESPONSE_MIDDLE;
		respond(n + i, opcode, from + (size_t)i * MTU);
		if (i % 128 == 127) /* the socket has room for some */
			rnic_side_idle(base, 1);
	}
}

/* Packet `n` of the QP must come. Others do not count if they were there before: the timer has
 * repeated them because this process was slow. */
static struct roce_packet expect_packet(uint32_t n, uint8_t opcode)
{
	struct roce_packet p;
	int32_t number;
	do {
		assert_true(roce_peer_receive(&peer, &p, PATIENCE));
		number = roce_psn_diff(p.bth.psn, OWN_PSN & ROCE_PSN_MASK);
	} while (number != (int32_t)n && number <= newest);
	assert_int_equal(number, n);
	assert_int_equal(p.bth.opcode, opcode);
	assert_int_equal(p.bth.dest_qp, PEER_QPN);
	if (opcode == ROCE_READ_REQUEST && p.reth.length > 0)
		number += (int32_t)((p.reth.length - 1) / MTU);
	newest = number > newest ? number : newest;
	return p;
}

/* The timer has repeated something because this process was slow. */
static bool disturbed(void)
{
	return GREW(timeouts) > 0;
}

/* Packet `n` asks for `len` bytes from `from` on. */
static void expect_request(uint32_t n, size_t from, uint32_t len)
{
	struct roce_packet p = expect_packet(n, ROCE_READ_REQUEST);
	assert_true(p.reth.va == FAR_ADDR + from);
	assert_int_equal(p.reth.rkey, FAR_KEY);
	assert_int_equal(p.reth.length, len);
}

/* Nothing has left but `n` packets. Repetitions do not count. */
static void expect_no_more_than(uint64_t n)
{
	rnic_side_idle(base, 5);
	assert_int_equal(GREW(tx_packets) - GREW(retransmits), n);
}

/* ---- the user */

static struct rnic_send_wr read_wr(size_t from, uint32_t len, uint64_t wr_id)
{
	return (struct rnic_send_wr){
		.wr_id = wr_id,
		.opcode = RNIC_WR_RDMA_READ,
		.flags = RNIC_SEND_SIGNALED,
		.num_sge = 1,
		.sge = { { side.mem + from, len, rnic_mr_lkey(side.source) } },
		.remote_addr = FAR_ADDR + from,
		.rkey = FAR_KEY,
	};
}

/* The bytes have the same place in both memories. */
static void post_read(size_t from, uint32_t len, uint64_t wr_id)
{
	struct rnic_send_wr wr = read_wr(from, len, wr_id);
	assert_int_equal(rnic_post_send(side.qp, &wr, 1), 0);
}

static void post_write(uint32_t len, uint64_t wr_id)
{
	struct rnic_send_wr wr = { .wr_id = wr_id,
				   .opcode = RNIC_WR_RDMA_WRITE,
				   .flags = RNIC_SEND_SIGNALED,
				   .num_sge = 1,
				   .sge = { { side.mem, len, rnic_mr_lkey(side.source) } },
				   .remote_addr = FAR_ADDR,
				   .rkey = FAR_KEY };
	assert_int_equal(rnic_post_send(side.qp, &wr, 1), 0);
}

static void post_send(uint64_t wr_id)
{
	assert_int_equal(rnic_side_send(&side, "hello", 5, wr_id), 0);
}

static void expect_done(size_t n, uint64_t wr_id, enum rnic_wc_status status)
{
	assert_true(rnic_side_wait(base, &side.num_sends, n + 1, PATIENCE));
	assert_int_equal(side.sends[n].wr_id, wr_id);
	assert_int_equal(side.sends[n].status, status);
}

/* [from, from + len) has been read, and nothing around it. */
static void expect_bytes(size_t from, size_t len)
{
	assert_memory_equal(side.mem + from, far + from, len);
	assert_int_equal(side.mem[from + len], 0);
	if (from > 0)
		assert_int_equal(side.mem[from - 1], 0);
}

static uint64_t rx_bytes(void)
{
	struct rnic_qp_stats stats;
	rnic_qp_get_stats(side.qp, &stats);
	return stats.rx_bytes;
}

/* ---- a READ */

static void read_of_one_packet(void **state)
{
	(void)state;
	post_read(100, 5, 1);
	expect_request(0, 100, 5);
	respond_len(0, ROCE_READ_RESPONSE_ONLY, 100, 5);
	expect_done(0, 1, RNIC_WC_SUCCESS);
	assert_int_equal(side.sends[0].length, 5);
	expect_bytes(100, 5);
	assert_int_equal(rx_bytes(), 5);
	struct rnic_qp_stats stats;
	rnic_qp_get_stats(side.qp, &stats);
	assert_int_equal(stats.tx_bytes, 0);
}

/* A READ has the PSNs of its response, so the SEND behind it has the one after that. */
static void read_of_many_packets(void **state)
{
	(void)state;
	post_read(7, 3 * MTU + 5, 1);
	post_send(2);
	expect_request(0, 7, 3 * MTU + 5);
	expect_packet(4, ROCE_SEND_ONLY);
	respond(0, ROCE_READ_RESPONSE_FIRST, 7);
	respond(1, ROCE_READ_RESPONSE_MIDDLE, 7 + MTU);
	respond(2, ROCE_READ_RESPONSE_MIDDLE, 7 + 2 * MTU);
	rnic_side_idle(base, 5);
	assert_int_equal(side.num_sends, 0);
	respond_len(3, ROCE_READ_RESPONSE_LAST, 7 + 3 * MTU, 5);
	expect_done(0, 1, RNIC_WC_SUCCESS);
	expect_bytes(7, 3 * MTU + 5);
	assert_int_equal(rx_bytes(), 3 * MTU + 5);
	ack(4);
	expect_done(1, 2, RNIC_WC_SUCCESS);
	assert_true(disturbed() || GREW(retransmits) == 0);
}

static void read_of_nothing(void **state)
{
	(void)state;
	struct rnic_send_wr wr = { .wr_id = 1,
				   .opcode = RNIC_WR_RDMA_READ,
				   .flags = RNIC_SEND_SIGNALED,
				   .remote_addr = FAR_ADDR,
				   .rkey = FAR_KEY };
	assert_int_equal(rnic_post_send(side.qp, &wr, 1), 0);
	expect_request(0, 0, 0);
	respond_len(0, ROCE_READ_RESPONSE_ONLY, 0, 0);
	expect_done(0, 1, RNIC_WC_SUCCESS);
}

/* Pieces need not be as long as packets, and may be empty. */
static void read_into_pieces(void **state)
{
	(void)state;
	struct rnic_sge pieces[RNIC_MAX_SGE];
	struct rnic_send_wr wr = read_wr(0, 0, 1);
	uint32_t total = 0;
	for (unsigned int i = 0; i < RNIC_MAX_SGE; i++) {
		uint32_t len = i == 3 ? 0 : 150 + 40 * i;
		pieces[i] = (struct rnic_sge){ side.mem + (size_t)i * 2048, len,
					       rnic_mr_lkey(side.source) };
		total += len;
	}
	wr.pieces = pieces;
	wr.num_sge = RNIC_MAX_SGE;
	assert_int_equal(rnic_post_send(side.qp, &wr, 1), 0);
	memset(pieces, 0xFF, sizeof(pieces)); /* they were read by the post */
	assert_int_equal(total / MTU, 6);
	expect_request(0, 0, total);
	respond(0, ROCE_READ_RESPONSE_FIRST, 0);
	for (uint32_t n = 1; n < 6; n++)
		respond(n, ROCE_READ_RESPONSE_MIDDLE, (size_t)n * MTU);
	respond_len(6, ROCE_READ_RESPONSE_LAST, 6 * MTU, total % MTU);
	expect_done(0, 1, RNIC_WC_SUCCESS);
	size_t at = 0;
	for (unsigned int i = 0; i < RNIC_MAX_SGE; i++) {
		uint32_t len = i == 3 ? 0 : 150 + 40 * i;
		assert_memory_equal(side.mem + (size_t)i * 2048, far + at, len);
		assert_int_equal(side.mem[(size_t)i * 2048 + len], 0);
		at += len;
	}
}

static void unsound_reads(void **state)
{
	(void)state;
	struct rnic_sge pieces[RNIC_MAX_SGE + 1] = { 0 };
	struct rnic_send_wr wr = read_wr(0, 8, 1);
	wr.flags |= RNIC_SEND_INLINE;
	assert_int_equal(rnic_post_send(side.qp, &wr, 1), -EINVAL);
	wr = read_wr(0, 8, 1);
	wr.num_sge = RNIC_FEW_SGE + 1; /* there is no room for so many in the request */
	assert_int_equal(rnic_post_send(side.qp, &wr, 1), -EINVAL);
	wr.pieces = pieces;
	wr.num_sge = RNIC_MAX_SGE + 1;
	assert_int_equal(rnic_post_send(side.qp, &wr, 1), -EINVAL);
	pieces[0].length = (1u << 31) + 1;
	wr.num_sge = 1;
	assert_int_equal(rnic_post_send(side.qp, &wr, 1), -EINVAL);
	wr.opcode = (enum rnic_opcode)77;
	pieces[0].length = 0;
	assert_int_equal(rnic_post_send(side.qp, &wr, 1), -EINVAL);

	side.max_sge = 3;
	reconnect(0);
	wr = read_wr(0, 8, 1);
	assert_int_equal(rnic_post_send(side.qp, &wr, 1), -EINVAL); /* none may be posted */
	wr.opcode = RNIC_WR_RDMA_WRITE;
	wr.pieces = pieces;
	wr.num_sge = 4;
	assert_int_equal(rnic_post_send(side.qp, &wr, 1), -EINVAL);
	wr.num_sge = 3;
	assert_int_equal(rnic_post_send(side.qp, &wr, 1), 0);

	struct rnic_info info;
	rnic_get_info(side.rnic, &info);
	assert_int_equal(info.max_reads_asked, 16);
	struct rnic_qp_send_params many = { .retry_ms = 1, .reads_asked = 17 };
	assert_int_equal(rnic_qp_start(side.qp, &many), -EINVAL);
}

/* ---- several under way */

/* Further READs wait, and what is posted behind them with them. */
static void initiator_depth(void **state)
{
	(void)state;
	reconnect(2);
	post_read(0, 10, 1);
	post_write(10, 2);
	post_read(100, 2 * MTU, 3);
	post_read(4000, 10, 4);
	post_send(5);
	expect_request(0, 0, 10);
	expect_packet(1, ROCE_WRITE_ONLY);
	expect_request(2, 100, 2 * MTU);
	expect_no_more_than(3);
	/* Part of a response is not enough. */
	ack(1);
	rnic_side_idle(base, 20);
	expect_no_more_than(3);
	respond_len(0, ROCE_READ_RESPONSE_ONLY, 0, 10);
	expect_done(0, 1, RNIC_WC_SUCCESS);
	expect_done(1, 2, RNIC_WC_SUCCESS);
	expect_request(4, 4000, 10);
	expect_packet(5, ROCE_SEND_ONLY);
	respond_all(2, 2, 100);
	expect_done(2, 3, RNIC_WC_SUCCESS);
	respond_len(4, ROCE_READ_RESPONSE_ONLY, 4000, 10);
	expect_done(3, 4, RNIC_WC_SUCCESS);
	ack(5);
	expect_done(4, 5, RNIC_WC_SUCCESS);
	expect_bytes(100, 2 * MTU);
}

/* The window bounds what the peer may send at a time: a long READ becomes several requests, which
 * lie behind each other, and are not short. */
static void long_read(void **state)
{
	(void)state;
	const uint32_t len = 3 * WINDOW * MTU;
	post_read(0, len, 1);
	uint32_t at = 0, requests = 0;
	while (at < 3 * WINDOW) {
		struct roce_packet p = expect_packet(at, ROCE_READ_REQUEST);
		assert_true(p.reth.va == FAR_ADDR + (uint64_t)at * MTU);
		assert_int_equal(p.reth.length % MTU, 0);
		assert_true(p.reth.length >= WINDOW / 4 * MTU || at * MTU + p.reth.length == len);
		respond_all(at, p.reth.length / MTU, (size_t)at * MTU);
		at += p.reth.length / MTU;
		requests++;
	}
	assert_in_range(requests, 3, 12);
	expect_done(0, 1, RNIC_WC_SUCCESS);
	assert_int_equal(side.num_sends, 1);
	assert_memory_equal(side.mem, far, len);
}

/* The network marks what the peer sends. */
static void mark(bool on)
{
	const int tos = on ? IPTOS_ECN_CE : IPTOS_ECN_NOT_ECT;
	assert_int_equal(setsockopt(peer.fd, IPPROTO_IP, IP_TOS, &tos, sizeof(tos)), 0);
}

/* The network marks a response: the side that asks, and so decides how much comes, asks for less.
 */
static void marked_response(void **state)
{
	(void)state;
	post_read(0, 2 * WINDOW * MTU, 1);
	expect_request(0, 0, WINDOW * MTU);
	mark(true);
	respond(0, ROCE_READ_RESPONSE_FIRST, 0);
	mark(false);
	/* Without the mark there would be room for a request. */
	const uint32_t some = WINDOW * 3 / 8;
	for (uint32_t n = 1; n < some; n++) {
		respond(n, ROCE_READ_RESPONSE_MIDDLE, (size_t)n * MTU);
		if (n % 128 == 0)
			rnic_side_idle(base, 1);
	}
	const uint64_t enough = some * MTU;
	for (int i = 0; i < PATIENCE && rx_bytes() < enough; i++)
		rnic_side_idle(base, 1);
	assert_true(rx_bytes() == enough);
	rnic_side_idle(base, 5);
	assert_true(disturbed() || GREW(tx_packets) == 1);
}

/* ---- acknowledgement */

/* A response acknowledges the requests before the READ. */
static void response_acknowledges(void **state)
{
	(void)state;
	post_send(1);
	post_write(2 * MTU, 2);
	post_read(0, 2 * MTU, 3);
	expect_packet(0, ROCE_SEND_ONLY);
	expect_packet(1, ROCE_WRITE_ONLY);
	expect_packet(2, ROCE_WRITE_ONLY);
	expect_request(3, 0, 2 * MTU);
	respond(3, ROCE_READ_RESPONSE_FIRST, 0);
	expect_done(0, 1, RNIC_WC_SUCCESS);
	expect_done(1, 2, RNIC_WC_SUCCESS);
	assert_int_equal(side.num_sends, 2);
	respond(4, ROCE_READ_RESPONSE_LAST, MTU);
	expect_done(2, 3, RNIC_WC_SUCCESS);
	assert_true(disturbed() || GREW(retransmits) == 0);
}

static bool only_the_read_is_repeated(void)
{
	post_write(MTU, 1);
	post_read(0, 2 * MTU, 2);
	post_write(MTU, 3);
	post_send(4);
	expect_packet(0, ROCE_WRITE_ONLY);
	expect_request(1, 0, 2 * MTU);
	expect_packet(3, ROCE_WRITE_ONLY);
	expect_packet(4, ROCE_SEND_ONLY);
	ack(4);
	expect_request(1, 0, 2 * MTU);
	if (disturbed())
		return false;
	expect_done(0, 1, RNIC_WC_SUCCESS);
	assert_int_equal(side.num_sends, 1);
	/* Now the timer asks. */
	for (int i = 0; i < 2; i++) {
		struct roce_packet p;
		assert_true(roce_peer_receive(&peer, &p, PATIENCE));
		assert_int_equal(p.bth.opcode, ROCE_READ_REQUEST);
	}
	respond_all(1, 2, 0);
	expect_done(1, 2, RNIC_WC_SUCCESS);
	expect_done(2, 3, RNIC_WC_SUCCESS);
	expect_done(3, 4, RNIC_WC_SUCCESS);
	expect_bytes(0, 2 * MTU);
	return true;
}

/* An ACK of a later request, or of the READ itself, does not complete a READ: its response was
 * lost. What the peer has carried out is not sent again. */
static void ack_does_not_complete_a_read(void **state)
{
	(void)state;
	while (!only_the_read_is_repeated())
		reconnect(4);
	post_read(0, 8, 5);
	expect_request(5, 0, 8);
	ack(5);
	expect_request(5, 0, 8);
	assert_int_equal(side.num_sends, 4);
	respond_len(5, ROCE_READ_RESPONSE_ONLY, 0, 8);
	expect_done(4, 5, RNIC_WC_SUCCESS);
}

/* An ACK that has overtaken the response counts when the response comes. */
static void ack_overtakes_the_response(void **state)
{
	(void)state;
	post_read(0, 2 * MTU, 1);
	post_send(2);
	post_read(5000, MTU, 3);
	post_send(4);
	expect_request(0, 0, 2 * MTU);
	expect_packet(2, ROCE_SEND_ONLY);
	expect_request(3, 5000, MTU);
	expect_packet(4, ROCE_SEND_ONLY);
	ack(4);
	respond(3, ROCE_READ_RESPONSE_ONLY, 5000);
	respond_all(0, 2, 0);
	for (uint64_t i = 0; i < 4; i++)
		expect_done(i, i + 1, RNIC_WC_SUCCESS);
	expect_bytes(0, 2 * MTU);
	expect_bytes(5000, MTU);
}

/* Credits come with responses too. */
static void response_has_credits(void **state)
{
	(void)state;
	post_read(0, 8, 1);
	expect_request(0, 0, 8);
	struct roce_peer_packet p = { .opcode = ROCE_READ_RESPONSE_ONLY,
				      .qpn = rnic_qp_num(side.qp),
				      .psn = OWN_PSN,
				      .aeth = { .kind = ROCE_ACK, .value = 1 },
				      .payload = far,
				      .len = 8 };
	roce_peer_send(&peer, &p);
	expect_done(0, 1, RNIC_WC_SUCCESS);
	post_send(2);
	post_send(3);
	expect_packet(1, ROCE_SEND_ONLY);
	expect_no_more_than(2);
	ack(1);
	expect_packet(2, ROCE_SEND_ONLY);
}

/* ---- losses */

static bool gap_is_closed(void)
{
	post_read(0, 6 * MTU, 1);
	expect_request(0, 0, 6 * MTU);
	respond(0, ROCE_READ_RESPONSE_FIRST, 0);
	respond(3, ROCE_READ_RESPONSE_MIDDLE, 3 * MTU);
	respond(5, ROCE_READ_RESPONSE_LAST, 5 * MTU);
	struct roce_packet p = expect_packet(1, ROCE_READ_REQUEST);
	if (disturbed())
		return false;
	assert_true(p.reth.va == FAR_ADDR + MTU);
	assert_int_equal(p.reth.length, 2 * MTU);
	respond(1, ROCE_READ_RESPONSE_FIRST, MTU);
	respond(2, ROCE_READ_RESPONSE_LAST, 2 * MTU);
	/* The second gap was there when the first one was reported. */
	p = expect_packet(4, ROCE_READ_REQUEST);
	if (disturbed())
		return false;
	assert_true(p.reth.va == FAR_ADDR + 4 * MTU);
	assert_int_equal(p.reth.length, MTU);
	respond(4, ROCE_READ_RESPONSE_ONLY, 4 * MTU);
	expect_done(0, 1, RNIC_WC_SUCCESS);
	expect_bytes(0, 6 * MTU);
	assert_int_equal(rx_bytes(), 6 * MTU);
	assert_int_equal(GREW(out_of_order), 2);
	return true;
}

/* Only what is missing is asked for again, with its address and length. */
static void gap_in_a_response(void **state)
{
	(void)state;
	while (!gap_is_closed())
		reconnect(4);
}

/* Reordered responses are all taken, and nothing is asked for again. */
static void responses_in_any_order(void **state)
{
	(void)state;
	static const uint32_t order[] = { 6, 5, 1, 3, 2, 0, 4 };
	post_read(0, 4 * MTU, 1);
	post_read(4 * MTU, 3 * MTU, 2);
	expect_request(0, 0, 4 * MTU);
	expect_request(4, 4 * MTU, 3 * MTU);
	for (size_t i = 0; i < 7; i++) {
		uint32_t n = order[i];
		respond(n,
			n == 0 || n == 4   ? ROCE_READ_RESPONSE_FIRST
			: n == 3 || n == 6 ? ROCE_READ_RESPONSE_LAST
					   : ROCE_READ_RESPONSE_MIDDLE,
			(size_t)n * MTU);
	}
	expect_done(0, 1, RNIC_WC_SUCCESS);
	expect_done(1, 2, RNIC_WC_SUCCESS);
	expect_bytes(0, 7 * MTU);
	assert_int_equal(rx_bytes(), 7 * MTU);
}

/* Doubled packets of a response are dropped, whether they are in their turn, early or late. */
static void doubled_responses(void **state)
{
	(void)state;
	post_read(0, 4 * MTU, 1);
	expect_request(0, 0, 4 * MTU);
	respond(0, ROCE_READ_RESPONSE_FIRST, 0);
	respond(0, ROCE_READ_RESPONSE_FIRST, 0);
	respond(2, ROCE_READ_RESPONSE_MIDDLE, 2 * MTU);
	respond(2, ROCE_READ_RESPONSE_MIDDLE, 2 * MTU);
	respond(1, ROCE_READ_RESPONSE_MIDDLE, MTU);
	respond(1, ROCE_READ_RESPONSE_MIDDLE, MTU);
	respond(2, ROCE_READ_RESPONSE_MIDDLE, 2 * MTU);
	respond(3, ROCE_READ_RESPONSE_LAST, 3 * MTU);
	expect_done(0, 1, RNIC_WC_SUCCESS);
	memset(side.mem, 0, MEM); /* what is done may not change any more */
	respond(3, ROCE_READ_RESPONSE_LAST, 3 * MTU);
	respond(1, ROCE_READ_RESPONSE_ONLY, MTU);
	rnic_side_idle(base, 5);
	assert_int_equal(side.mem[0] | side.mem[MTU] | side.mem[3 * MTU], 0);
	assert_int_equal(GREW(duplicates), 6);
	assert_int_equal(rx_bytes(), 4 * MTU);
	assert_true(disturbed() || GREW(retransmits) == 0);
	post_send(2);
	expect_packet(4, ROCE_SEND_ONLY);
}

/* A request or the end of its response is lost: the timer asks again, from the first missing packet
 * on. Late packets of the first try fit in, whatever their opcode is. */
static void end_of_a_response_is_lost(void **state)
{
	(void)state;
	post_read(0, 4 * MTU, 1);
	expect_request(0, 0, 4 * MTU);
	expect_request(0, 0, 4 * MTU);
	assert_true(GREW(timeouts) >= 1);
	respond(0, ROCE_READ_RESPONSE_FIRST, 0);
	respond(1, ROCE_READ_RESPONSE_MIDDLE, MTU);
	expect_request(2, 2 * MTU, 2 * MTU);
	respond(2, ROCE_READ_RESPONSE_MIDDLE, 2 * MTU); /* late */
	respond(2, ROCE_READ_RESPONSE_FIRST, 2 * MTU);
	respond(3, ROCE_READ_RESPONSE_LAST, 3 * MTU);
	expect_done(0, 1, RNIC_WC_SUCCESS);
	expect_bytes(0, 4 * MTU);
}

/* When the timer fires, several READs are asked for again, each as it was asked for. */
static void timer_asks_for_all(void **state)
{
	(void)state;
	post_read(0, 2 * MTU, 1);
	post_send(2);
	post_read(5000, 10, 3);
	expect_request(0, 0, 2 * MTU);
	expect_packet(2, ROCE_SEND_ONLY);
	expect_request(3, 5000, 10);
	expect_request(0, 0, 2 * MTU);
	expect_packet(2, ROCE_SEND_ONLY);
	expect_request(3, 5000, 10);
	respond_all(0, 2, 0);
	respond_len(3, ROCE_READ_RESPONSE_ONLY, 5000, 10);
	for (uint64_t i = 0; i < 3; i++)
		expect_done(i, i + 1, RNIC_WC_SUCCESS);
}

/* A NAK has the requester go back to the request that the peer misses. READs before it are not
 * asked for again by that. */
static void sequence_error(void **state)
{
	(void)state;
	post_read(0, 2 * MTU, 1);
	post_write(MTU, 2);
	post_read(5000, 2 * MTU, 3);
	post_send(4);
	expect_request(0, 0, 2 * MTU);
	expect_packet(2, ROCE_WRITE_ONLY);
	expect_request(3, 5000, 2 * MTU);
	expect_packet(5, ROCE_SEND_ONLY);
	answer(ROCE_NAK, 2, ROCE_NAK_PSN_SEQUENCE);
	respond_all(0, 2, 0);
	expect_done(0, 1, RNIC_WC_SUCCESS);
	expect_packet(2, ROCE_WRITE_ONLY);
	expect_request(3, 5000, 2 * MTU);
	expect_packet(5, ROCE_SEND_ONLY);
	assert_true(disturbed() || GREW(retransmits) == 3);
	/* The peer misses the READ. */
	answer(ROCE_NAK, 3, ROCE_NAK_PSN_SEQUENCE);
	expect_done(1, 2, RNIC_WC_SUCCESS);
	expect_request(3, 5000, 2 * MTU);
	expect_packet(5, ROCE_SEND_ONLY);
	respond_all(3, 2, 5000);
	ack(5);
	expect_done(2, 3, RNIC_WC_SUCCESS);
	expect_done(3, 4, RNIC_WC_SUCCESS);
	/* A NAK that is older than an ACK says nothing. */
	post_read(0, 2 * MTU, 5);
	post_write(MTU, 6);
	post_write(MTU, 7);
	expect_request(6, 0, 2 * MTU);
	expect_packet(8, ROCE_WRITE_ONLY);
	expect_packet(9, ROCE_WRITE_ONLY);
	ack(9);
	answer(ROCE_NAK, 8, ROCE_NAK_PSN_SEQUENCE);
	expect_request(6, 0, 2 * MTU);
	respond_all(6, 2, 0);
	expect_done(6, 7, RNIC_WC_SUCCESS);
	assert_int_equal(GREW(duplicates), 1);
}

static void reader_not_ready(void **state)
{
	(void)state;
	post_read(0, MTU, 1);
	post_read(5000, 2 * MTU, 2);
	expect_request(0, 0, MTU);
	expect_request(1, 5000, 2 * MTU);
	answer(ROCE_RNR_NAK, 1, 1);
	respond(0, ROCE_READ_RESPONSE_ONLY, 0);
	expect_request(1, 5000, 2 * MTU);
	respond_all(1, 2, 5000);
	expect_done(0, 1, RNIC_WC_SUCCESS);
	expect_done(1, 2, RNIC_WC_SUCCESS);
}

/* A pause that the peer has asked for ends, and the window is full of a READ before it: the timer
 * watches over that. */
static void window_is_full_after_a_pause(void **state)
{
	(void)state;
	const uint32_t packets = WINDOW - 24;
	post_read(0, packets * MTU, 1);
	post_send(2);
	expect_request(0, 0, packets * MTU);
	expect_packet(packets, ROCE_SEND_ONLY);
	mark(true);
	respond(0, ROCE_READ_RESPONSE_FIRST, 0);
	mark(false);
	answer(ROCE_RNR_NAK, packets, 1);
	for (int i = 0; i < 3; i++)
		expect_request(1, MTU, (packets - 1) * MTU);
	assert_int_equal(side.num_sends, 0);
}

/* A response shows that the peer was ready for what is before it, so the number of RNR NAKs counts
 * anew; and it does not shorten the pause that the peer has asked for behind it. */
static void reader_not_ready_limit(void **state)
{
	(void)state;
	rnr_retry = 1;
	reconnect(4);
	rnr_retry = 7;
	for (uint32_t n = 0; n < 10; n += 2) {
		TRIES("%u", n);
		post_send(n);
		post_read(0, 8, n + 1);
		expect_packet(n, ROCE_SEND_ONLY);
		expect_request(n + 1, 0, 8);
		answer(ROCE_RNR_NAK, n, 1);
		expect_packet(n, ROCE_SEND_ONLY);
		expect_request(n + 1, 0, 8);
		respond_len(n + 1, ROCE_READ_RESPONSE_ONLY, 0, 8);
		expect_done(n + 1, n + 1, RNIC_WC_SUCCESS);
	}
	post_read(0, 8, 10);
	post_send(11);
	expect_request(10, 0, 8);
	expect_packet(11, ROCE_SEND_ONLY);
	const struct rnic_stats now = stats_now();
	answer(ROCE_RNR_NAK, 11, 22); /* 20 ms */
	respond_len(10, ROCE_READ_RESPONSE_ONLY, 0, 8);
	expect_done(10, 10, RNIC_WC_SUCCESS);
	assert_int_equal(stats_now().tx_packets, now.tx_packets);
	expect_packet(11, ROCE_SEND_ONLY);
	answer(ROCE_RNR_NAK, 11, 1);
	expect_done(11, 11, RNIC_WC_RNR_RETRY_EXC_ERR);
}

/* The user waits for completions: behind a READ nothing has to ask for an ACK. */
static void asks_for_no_ack_behind_a_read(void **state)
{
	(void)state;
	post_read(0, 8, 1);
	expect_request(0, 0, 8);
	respond_len(0, ROCE_READ_RESPONSE_ONLY, 0, 8);
	expect_done(0, 1, RNIC_WC_SUCCESS);
	post_read(0, 8, 2);
	rnic_qp_want_ack(side.qp);
	expect_request(1, 0, 8);
	expect_no_more_than(2);
	post_send(3);
	rnic_qp_want_ack(side.qp);
	expect_packet(2, ROCE_SEND_ONLY);
	expect_packet(3, ROCE_WRITE_ONLY);
	ack(3);
	respond_len(1, ROCE_READ_RESPONSE_ONLY, 0, 8);
	expect_done(1, 2, RNIC_WC_SUCCESS);
	expect_done(2, 3, RNIC_WC_SUCCESS);
}

/* ---- ends */

static void refused_reads(void **state)
{
	(void)state;
	static const struct {
		uint8_t code;
		enum rnic_wc_status status;
	} cases[] = {
		{ ROCE_NAK_INVALID_REQUEST, RNIC_WC_REM_INV_REQ_ERR },
		{ ROCE_NAK_REMOTE_ACCESS, RNIC_WC_REM_ACCESS_ERR },
		{ ROCE_NAK_REMOTE_OPERATIONAL, RNIC_WC_REM_OP_ERR },
	};
	for (size_t i = 0; i < 3; i++) {
		TRIES("code %u", cases[i].code);
		reconnect(4);
		post_send(1);
		post_read(0, 4 * MTU, 2);
		post_read(8000, MTU, 3);
		expect_packet(0, ROCE_SEND_ONLY);
		expect_request(1, 0, 4 * MTU);
		answer(ROCE_NAK, 1, cases[i].code);
		expect_done(0, 1, RNIC_WC_SUCCESS);
		expect_done(1, 2, cases[i].status);
		expect_done(2, 3, RNIC_WC_WR_FLUSH_ERR);
		assert_int_equal(side.recv_errors, 1);
	}
	/* The peer's memory ends in the middle of the response. */
	reconnect(4);
	post_read(0, 4 * MTU, 1);
	expect_request(0, 0, 4 * MTU);
	respond(0, ROCE_READ_RESPONSE_FIRST, 0);
	answer(ROCE_NAK, 1, ROCE_NAK_REMOTE_ACCESS);
	expect_done(0, 1, RNIC_WC_REM_ACCESS_ERR);
}

static void bad_responses(void **state)
{
	(void)state;
	/* To a READ of three packets, the last one of 10 bytes, behind a SEND. */
	static const struct {
		uint32_t good; /* so many packets are right */
		uint8_t opcode;
		size_t len;
	} cases[] = {
		{ 0, ROCE_READ_RESPONSE_MIDDLE, MTU }, { 0, ROCE_READ_RESPONSE_ONLY, MTU },
		{ 0, ROCE_READ_RESPONSE_LAST, MTU },   { 0, ROCE_READ_RESPONSE_FIRST, MTU - 4 },
		{ 0, ROCE_READ_RESPONSE_FIRST, 1028 }, { 1, ROCE_READ_RESPONSE_FIRST, MTU },
		{ 1, ROCE_READ_RESPONSE_LAST, 10 },    { 1, ROCE_READ_RESPONSE_MIDDLE, 8 },
		{ 2, ROCE_READ_RESPONSE_MIDDLE, MTU }, { 2, ROCE_READ_RESPONSE_LAST, 9 },
		{ 2, ROCE_READ_RESPONSE_LAST, 11 },    { 2, ROCE_READ_RESPONSE_LAST, 12 },
		{ 2, ROCE_READ_RESPONSE_LAST, MTU },   { 2, ROCE_READ_RESPONSE_ONLY, 10 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TRIES("case %zu", i);
		reconnect(4);
		memset(side.mem, 0, MEM);
		post_send(1);
		post_read(0, 2 * MTU + 10, 2);
		post_send(3);
		expect_packet(0, ROCE_SEND_ONLY);
		expect_request(1, 0, 2 * MTU + 10);
		expect_packet(4, ROCE_SEND_ONLY);
		if (cases[i].good > 0)
			respond(1, ROCE_READ_RESPONSE_FIRST, 0);
		if (cases[i].good > 1)
			respond(2, ROCE_READ_RESPONSE_MIDDLE, MTU);
		respond_len(1 + cases[i].good, cases[i].opcode, 0, cases[i].len);
		expect_done(0, 1, RNIC_WC_SUCCESS);
		expect_done(1, 2, RNIC_WC_BAD_RESP_ERR);
		expect_done(2, 3, RNIC_WC_WR_FLUSH_ERR);
		assert_int_equal(side.recv_errors, 1);
		assert_int_equal(side.mem[cases[i].good * MTU], 0);
		assert_int_equal(GREW(drop_malformed), 1);
	}
	/* A response that is no ACK, and one to a SEND. */
	reconnect(4);
	post_read(0, 8, 1);
	expect_request(0, 0, 8);
	struct roce_peer_packet p = { .opcode = ROCE_READ_RESPONSE_ONLY,
				      .qpn = rnic_qp_num(side.qp),
				      .psn = OWN_PSN,
				      .aeth = { .kind = ROCE_NAK },
				      .payload = far,
				      .len = 8 };
	roce_peer_send(&peer, &p);
	expect_done(0, 1, RNIC_WC_BAD_RESP_ERR);
	reconnect(4);
	post_send(1);
	expect_packet(0, ROCE_SEND_ONLY);
	respond_len(0, ROCE_READ_RESPONSE_ONLY, 0, 0);
	expect_done(0, 1, RNIC_WC_BAD_RESP_ERR);
	reconnect(0);
	post_send(1);
	expect_packet(0, ROCE_SEND_ONLY);
	respond_len(0, ROCE_READ_RESPONSE_ONLY, 0, 0);
	expect_done(0, 1, RNIC_WC_BAD_RESP_ERR);
}

/* A bad packet that comes early is not taken. Whether it ends the QP is seen when its turn comes.
 */
static void bad_early_responses(void **state)
{
	(void)state;
	post_read(0, 3 * MTU, 1);
	post_send(2);
	expect_request(0, 0, 3 * MTU);
	expect_packet(3, ROCE_SEND_ONLY);
	respond(1, ROCE_READ_RESPONSE_LAST, MTU);
	respond(3, ROCE_READ_RESPONSE_ONLY, MTU);
	respond(2, ROCE_READ_RESPONSE_FIRST, MTU);
	rnic_side_idle(base, 5);
	assert_int_equal(GREW(drop_malformed), 3);
	assert_int_equal(side.num_sends, 0);
	/* Not sent yet, or long done. */
	respond(4, ROCE_READ_RESPONSE_ONLY, 0);
	respond(0u - (1u << 22), ROCE_READ_RESPONSE_ONLY, 0);
	rnic_side_idle(base, 5);
	assert_int_equal(GREW(drop_psn), 2);
	respond_all(0, 3, 0);
	ack(3);
	expect_done(0, 1, RNIC_WC_SUCCESS);
	expect_done(1, 2, RNIC_WC_SUCCESS);
}

/* Memory for READs has to be registered with the right to write there, and be so still when the
 * bytes come. */
static void own_memory_errors(void **state)
{
	(void)state;
	struct rnic_mr *mr;
	struct rnic_send_wr wr = read_wr(0, 8, 2);
	assert_int_equal(rnic_mr_register(side.pd, side.mem, 4 * MTU, 0, &mr), 0);
	wr.sge[0].lkey = rnic_mr_lkey(mr);
	post_send(1);
	assert_int_equal(rnic_post_send(side.qp, &wr, 1), 0);
	expect_packet(0, ROCE_SEND_ONLY);
	expect_no_more_than(1);
	ack(0);
	expect_done(0, 1, RNIC_WC_SUCCESS);
	expect_done(1, 2, RNIC_WC_LOC_PROT_ERR);
	rnic_mr_deregister(mr);

	reconnect(4);
	wr = read_wr(0, 8, 1);
	wr.sge[0].lkey = rnic_mr_lkey(side.mr); /* that is for the peer */
	assert_int_equal(rnic_post_send(side.qp, &wr, 1), 0);
	expect_done(0, 1, RNIC_WC_LOC_PROT_ERR);

	reconnect(4);
	assert_int_equal(rnic_mr_register(side.pd, side.mem, 4 * MTU, RNIC_ACCESS_LOCAL_WRITE, &mr),
			 0);
	wr = read_wr(0, 4 * MTU, 2);
	wr.sge[0].lkey = rnic_mr_lkey(mr);
	post_read(8000, MTU, 1);
	assert_int_equal(rnic_post_send(side.qp, &wr, 1), 0);
	expect_request(0, 8000, MTU);
	expect_request(1, 0, 4 * MTU);
	memset(side.mem, 0, 16000);
	rnic_mr_deregister(mr);
	/* Early packets are dropped, and the QP goes on until their turn comes. */
	respond(2, ROCE_READ_RESPONSE_MIDDLE, MTU);
	rnic_side_idle(base, 5);
	assert_int_equal(GREW(drop_access), 1);
	assert_int_equal(side.num_sends, 0);
	respond(0, ROCE_READ_RESPONSE_ONLY, 8000);
	respond(1, ROCE_READ_RESPONSE_FIRST, 0);
	expect_done(0, 1, RNIC_WC_SUCCESS);
	expect_done(1, 2, RNIC_WC_LOC_PROT_ERR);
	expect_bytes(8000, MTU);
	assert_int_equal(side.mem[0] | side.mem[MTU], 0);
}

static void silence_ends_the_qp(void **state)
{
	(void)state;
	post_read(0, 4 * MTU, 1);
	post_send(2);
	rnic_qp_set_retry(side.qp, 400);
	expect_request(0, 0, 4 * MTU);
	respond(0, ROCE_READ_RESPONSE_FIRST, 0);
	respond(2, ROCE_READ_RESPONSE_MIDDLE, 2 * MTU);
	expect_done(0, 1, RNIC_WC_RETRY_EXC_ERR);
	expect_done(1, 2, RNIC_WC_WR_FLUSH_ERR);
	assert_int_equal(side.recv_errors, 1);
	/* Nothing is taken any more. */
	respond(1, ROCE_READ_RESPONSE_MIDDLE, MTU);
	rnic_side_idle(base, 5);
	assert_int_equal(side.mem[MTU], 0);
}

static void error_flushes(void **state)
{
	(void)state;
	post_read(0, 2 * MTU, 1);
	post_read(5000, MTU, 2);
	expect_request(0, 0, 2 * MTU);
	respond(0, ROCE_READ_RESPONSE_FIRST, 0);
	respond(2, ROCE_READ_RESPONSE_ONLY, 5000);
	rnic_qp_error(side.qp);
	expect_done(0, 1, RNIC_WC_WR_FLUSH_ERR);
	expect_done(1, 2, RNIC_WC_WR_FLUSH_ERR);
	assert_int_equal(side.recv_errors, 1);
}

int main(void)
{
#define CONNECTED(f) cmocka_unit_test_setup_teardown(f, connect_one, disconnect)
	const struct CMUnitTest tests[] = {
		CONNECTED(read_of_one_packet),
		CONNECTED(read_of_many_packets),
		CONNECTED(read_of_nothing),
		CONNECTED(read_into_pieces),
		CONNECTED(unsound_reads),
		CONNECTED(initiator_depth),
		CONNECTED(long_read),
		CONNECTED(marked_response),
		CONNECTED(response_acknowledges),
		CONNECTED(ack_does_not_complete_a_read),
		CONNECTED(ack_overtakes_the_response),
		CONNECTED(response_has_credits),
		CONNECTED(gap_in_a_response),
		CONNECTED(responses_in_any_order),
		CONNECTED(doubled_responses),
		CONNECTED(end_of_a_response_is_lost),
		CONNECTED(timer_asks_for_all),
		CONNECTED(sequence_error),
		CONNECTED(reader_not_ready),
		CONNECTED(window_is_full_after_a_pause),
		CONNECTED(reader_not_ready_limit),
		CONNECTED(asks_for_no_ack_behind_a_read),
		CONNECTED(refused_reads),
		CONNECTED(bad_responses),
		CONNECTED(bad_early_responses),
		CONNECTED(own_memory_errors),
		CONNECTED(silence_ends_the_qp),
		CONNECTED(error_flushes),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

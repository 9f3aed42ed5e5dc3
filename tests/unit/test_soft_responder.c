/* SPDX-License-Identifier: MIT */
/* Soft RNIC, responder, against a scripted peer: answers, order, refusals, packets that do not
 * belong here. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sock_diag.h>
#include <linux/udp.h>
#include <netinet/ip.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/rnic/soft/internal.h"
#include "proto/smcr/bytes.h"
#include "tests/lib/proves.h"
#include "tests/lib/rnic_side.h"
#include "tests/lib/roce_peer.h"
#include "tests/lib/testnet.h"
#include "tests/lib/tries.h"

#define MEM      65536
#define MTU_CODE 3
#define MTU      1024
#define PEER_QPN 0x000077
#define PEER_PSN 0xFFFFFE /* wraps early */
#define PATIENCE 30000    /* milliseconds: of a busy machine */
#define QUIET    30
#define RECV     64 /* receive buffer, bytes */

static struct testnet net;
static struct event_base *base;
static struct rnic_side side;
static struct roce_peer peer, stranger;
static struct rnic_stats before;

static int setup(void **state)
{
	(void)state;
	testnet_new(&net, 1500);
	base = event_base_new();
	rnic_side_open(&side, base, "soft:t0", MEM);
	testnet_enter(&net, 1);
	testnet_addr_add("t1", "10.77.0.3/24");
	roce_peer_open(&peer, base, "10.77.0.2", "10.77.0.1", ROCE_UDP_PORT);
	roce_peer_open(&stranger, base, "10.77.0.3", "10.77.0.1", ROCE_UDP_PORT);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rnic_side_close(&side);
	roce_peer_close(&peer);
	roce_peer_close(&stranger);
	event_base_free(base);
	testnet_free(&net);
	return 0;
}

static struct rnic_qp_peer scripted(void)
{
	return (struct rnic_qp_peer){ .gid = { [10] = 0xFF, 0xFF, 10, 77, 0, 2 },
				      .qpn = PEER_QPN,
				      .rq_psn = PEER_PSN,
				      .path_mtu = MTU_CODE };
}

static int connect_one(void **state)
{
	(void)state;
	struct rnic_qp_peer to = scripted();
	rnic_side_qp(&side, 8, 4, RECV);
	rnic_side_connect(&side, &to, 1000, 7);
	memset(side.mem, 0, MEM);
	rnic_get_stats(side.rnic, &before);
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

static int reconnect(void)
{
	disconnect(NULL);
	return connect_one(NULL);
}

/* How much a counter of the device has grown since the QP was connected. */
#define GREW(counter) (stats_now().counter - before.counter)

static struct rnic_stats stats_now(void)
{
	struct rnic_stats stats;
	rnic_get_stats(side.rnic, &stats);
	return stats;
}

static struct roce_peer_packet send_only(uint32_t n, const char *text)
{
	return (struct roce_peer_packet){ .opcode = ROCE_SEND_ONLY,
					  .qpn = rnic_qp_num(side.qp),
					  .psn = PEER_PSN + n,
					  .ack_req = true,
					  .payload = text,
					  .len = strlen(text) };
}

static struct roce_peer_packet write_packet(uint32_t n, uint8_t opcode, size_t at, size_t total,
					    const void *payload, size_t len)
{
	return (struct roce_peer_packet){ .opcode = opcode,
					  .qpn = rnic_qp_num(side.qp),
					  .psn = PEER_PSN + n,
					  .reth = { .va = rnic_mr_vaddr(side.mr) + at,
						    .rkey = rnic_mr_rkey(side.mr),
						    .length = (uint32_t)total },
					  .payload = payload,
					  .len = len };
}

static void expect_answer(enum roce_ack_kind kind, uint32_t n, int value)
{
	struct roce_packet p;
	assert_true(roce_peer_receive(&peer, &p, PATIENCE));
	assert_int_equal(p.bth.opcode, ROCE_ACKNOWLEDGE);
	assert_int_equal(p.bth.dest_qp, PEER_QPN);
	assert_int_equal(p.bth.psn, (PEER_PSN + n) & ROCE_PSN_MASK);
	assert_int_equal(p.aeth.kind, kind);
	if (value >= 0)
		assert_int_equal(p.aeth.value, value);
}

static void expect_ack(uint32_t n)
{
	expect_answer(ROCE_ACK, n, -1);
}

static void expect_nak(uint32_t n, enum roce_nak_code code)
{
	expect_answer(ROCE_NAK, n, (int)code);
}

static void expect_silence(void)
{
	struct roce_packet p;
	assert_false(roce_peer_receive(&peer, &p, QUIET));
}

static void sends_are_answered(void **state)
{
	(void)state;
	struct roce_packet p;
	struct roce_peer_packet one = send_only(0, "one");
	roce_peer_send(&peer, &one);
	assert_true(roce_peer_receive(&peer, &p, PATIENCE));
	assert_int_equal(p.bth.psn, PEER_PSN);
	assert_int_equal(p.aeth.kind, ROCE_ACK);
	assert_int_equal(p.aeth.msn, 1);
	/* Four receive buffers, all free again when the message was handed on. */
	assert_int_equal(roce_credits_decode(p.aeth.value), 4);
	assert_int_equal(side.num_messages, 1);
	assert_memory_equal(side.messages[0].data, "one", 3);

	/* An ACK is sent only when asked for, and acknowledges all packets before. */
	struct roce_peer_packet two = send_only(1, "two");
	two.ack_req = false;
	roce_peer_send(&peer, &two);
	expect_silence();
	assert_int_equal(side.num_messages, 2);
	struct roce_peer_packet three = send_only(2, "three");
	roce_peer_send(&peer, &three);
	expect_ack(2);
	assert_int_equal(side.num_messages, 3);
	expect_silence();
}

static void first_middle_last(void **state)
{
	(void)state;
	uint8_t data[2 * MTU + 5];
	rnic_side_pattern(data, sizeof(data), 3);
	struct roce_peer_packet p;
	p = write_packet(0, ROCE_WRITE_FIRST, 100, sizeof(data), data, MTU);
	roce_peer_send(&peer, &p);
	p = write_packet(1, ROCE_WRITE_MIDDLE, 0, 0, data + MTU, MTU);
	roce_peer_send(&peer, &p);
	p = write_packet(2, ROCE_WRITE_LAST, 0, 0, data + 2 * MTU, 5);
	p.ack_req = true;
	roce_peer_send(&peer, &p);
	struct roce_packet ack;
	assert_true(roce_peer_receive(&peer, &ack, PATIENCE));
	assert_int_equal(ack.aeth.msn, 1);
	assert_memory_equal(side.mem + 100, data, sizeof(data));
	assert_int_equal(side.mem[99], 0);
	assert_int_equal(side.mem[100 + sizeof(data)], 0);
	struct rnic_qp_stats stats;
	rnic_qp_get_stats(side.qp, &stats);
	assert_int_equal(stats.rx_bytes, sizeof(data));
}

/* A WRITE of zero bytes needs no valid key or address (IBA 9.7.4.1.3). */
static void empty_write(void **state)
{
	(void)state;
	struct roce_peer_packet p = write_packet(0, ROCE_WRITE_ONLY, 0, 0, NULL, 0);
	p.reth.rkey ^= 0x5555;
	p.ack_req = true;
	roce_peer_send(&peer, &p);
	expect_ack(0);
}

static void reordering_costs_nothing(void **state)
{
	(void)state;
	struct roce_peer_packet p;
	for (uint32_t n = 3; n-- > 1;) {
		p = send_only(n, n == 2 ? "c" : "b");
		roce_peer_send(&peer, &p);
	}
	event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(side.num_messages, 0);
	p = send_only(0, "a");
	roce_peer_send(&peer, &p);
	expect_ack(2);
	assert_int_equal(side.num_messages, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(side.messages[i].data[0], "abc"[i]);
	assert_int_equal(GREW(out_of_order), 2);
	assert_int_equal(GREW(naks_sent), 0);
	expect_silence();
}

static void duplicates_are_answered_not_repeated(void **state)
{
	(void)state;
	struct roce_peer_packet one = send_only(0, "one");
	roce_peer_send(&peer, &one);
	expect_ack(0);
	roce_peer_send(&peer, &one);
	expect_ack(0);
	struct roce_peer_packet w = write_packet(1, ROCE_WRITE_ONLY, 0, 4, "AAAA", 4);
	w.ack_req = true;
	roce_peer_send(&peer, &w);
	expect_ack(1);
	assert_memory_equal(side.mem, "AAAA", 4);
	memcpy(side.mem, "BBBB", 4);
	roce_peer_send(&peer, &w);
	expect_ack(1);
	roce_peer_send(&peer, &one);
	expect_ack(1);
	assert_memory_equal(side.mem, "BBBB", 4);
	assert_int_equal(side.num_messages, 1);
	assert_int_equal(GREW(duplicates), 3);
}

/* A gap is reported once, after a while. Packets that came behind the gap need not be sent
 * again. */
static void gap_is_reported(void **state)
{
	(void)state;
	struct roce_peer_packet p = send_only(1, "b");
	roce_peer_send(&peer, &p);
	expect_nak(0, ROCE_NAK_PSN_SEQUENCE);
	p = send_only(2, "c");
	roce_peer_send(&peer, &p);
	roce_peer_send(&peer, &p);
	expect_silence();
	assert_int_equal(GREW(duplicates), 1);
	p = send_only(0, "a");
	roce_peer_send(&peer, &p);
	expect_ack(2);
	assert_int_equal(side.num_messages, 3);
	assert_int_equal(GREW(naks_sent), 1);

	/* Another gap, of two packets: both the first and the second are asked for. */
	p = send_only(4, "e");
	roce_peer_send(&peer, &p);
	p = send_only(6, "g");
	roce_peer_send(&peer, &p);
	expect_nak(3, ROCE_NAK_PSN_SEQUENCE);
	p = send_only(3, "d");
	p.ack_req = false;
	roce_peer_send(&peer, &p);
	expect_nak(5, ROCE_NAK_PSN_SEQUENCE);
	assert_int_equal(GREW(naks_sent), 3);
}

static void far_packets_are_not_held(void **state)
{
	(void)state;
	struct roce_peer_packet p = send_only(5000, "x");
	roce_peer_send(&peer, &p);
	expect_nak(0, ROCE_NAK_PSN_SEQUENCE);
	p = send_only(1u << 21, "x");
	roce_peer_send(&peer, &p);
	p = send_only(0u - (1u << 21), "x");
	roce_peer_send(&peer, &p);
	expect_silence();
	assert_int_equal(GREW(drop_psn), 2);
	p = send_only(0, "a");
	roce_peer_send(&peer, &p);
	expect_ack(0);
	assert_int_equal(side.num_messages, 1);
}

/* An early packet with a wrong RKey does not take the place of the genuine one. */
static void forged_early_packet(void **state)
{
	(void)state;
	struct roce_peer_packet p = write_packet(1, ROCE_WRITE_ONLY, 0, 4, "evil", 4);
	p.reth.rkey ^= 1;
	roce_peer_send(&peer, &p);
	p = write_packet(1, ROCE_WRITE_ONLY, 0, 4, "good", 4);
	roce_peer_send(&peer, &p);
	p = send_only(0, "a");
	roce_peer_send(&peer, &p);
	expect_ack(1);
	assert_memory_equal(side.mem, "good", 4);
	assert_int_equal(GREW(drop_access), 1);
}

/* A message as long as a receive buffer, and one that is a byte longer. */
static void messages_that_just_fit(void **state)
{
	(void)state;
	char text[RECV + 2];
	memset(text, 'x', sizeof(text));
	text[RECV] = '\0';
	struct roce_peer_packet p = send_only(0, text);
	assert_int_equal(p.len, RECV);
	roce_peer_send(&peer, &p);
	expect_ack(0);
	assert_true(rnic_side_wait(base, &side.num_messages, 1, PATIENCE));
	assert_int_equal(side.messages[0].length, RECV);
	text[RECV] = 'x';
	text[RECV + 1] = '\0';
	p = send_only(1, text);
	roce_peer_send(&peer, &p);
	expect_nak(1, ROCE_NAK_INVALID_REQUEST);
}

/* Messages come faster than they are handed on: the third finds no receive buffer and is sent
 * again later. */
static void receiver_not_ready(void **state)
{
	(void)state;
	disconnect(NULL);
	struct rnic_qp_peer to = scripted();
	rnic_side_qp(&side, 8, 2, RECV);
	rnic_side_connect(&side, &to, 1000, 7);
	rnic_get_stats(side.rnic, &before);
	struct roce_peer_packet p;
	for (uint32_t n = 0; n < 4; n++) {
		p = send_only(n, "m");
		roce_peer_send(&peer, &p);
	}
	struct roce_packet answer;
	assert_true(roce_peer_receive(&peer, &answer, PATIENCE));
	assert_int_equal(answer.aeth.kind, ROCE_RNR_NAK);
	assert_int_equal(answer.bth.psn, (PEER_PSN + 2) & ROCE_PSN_MASK);
	assert_int_equal(roce_rnr_timer_us(answer.aeth.value), 60);
	assert_int_equal(GREW(rnr_naks_sent), 1);
	assert_true(rnic_side_wait(base, &side.num_messages, 2, PATIENCE));
	/* The packet behind it is not reported as a gap. */
	expect_silence();
	p = send_only(2, "m");
	roce_peer_send(&peer, &p);
	expect_ack(3);
	assert_int_equal(side.num_messages, 4);
	assert_int_equal(GREW(naks_sent), 0);
	PROVES("LLC-8");
}

/* Such a NAK leaves the QP in ERR. If the NAK is lost, a repeated packet gets another one. */
static void expect_end(const struct roce_peer_packet *packet, uint32_t n, enum roce_nak_code code)
{
	expect_nak(n, code);
	assert_true(rnic_side_wait(base, &side.recv_errors, 1, PATIENCE));
	assert_int_equal(rnic_side_send(&side, "x", 1, 1), -EIO);
	roce_peer_send(&peer, packet);
	expect_nak(n, code);
	uint64_t dropped = GREW(drop_qp);
	struct roce_peer_packet next = send_only(n + 1, "x");
	roce_peer_send(&peer, &next);
	expect_silence();
	assert_int_equal(GREW(drop_qp), dropped + 1);
	assert_int_equal(side.recv_errors, 1);
}

static void invalid_requests(void **state)
{
	(void)state;
	static const uint8_t data[2 * MTU];
	static const struct {
		const char *what;
		size_t n;
		struct {
			uint8_t opcode;
			size_t total, len;
		} packets[2];
	} cases[] = {
		{ "SEND MIDDLE first", 1, { { ROCE_SEND_MIDDLE, 0, MTU } } },
		{ "SEND LAST first", 1, { { ROCE_SEND_LAST, 0, 4 } } },
		{ "WRITE MIDDLE first", 1, { { ROCE_WRITE_MIDDLE, 0, MTU } } },
		{ "WRITE LAST first", 1, { { ROCE_WRITE_LAST, 0, 4 } } },
		{ "SEND in a WRITE",
		  2,
		  { { ROCE_WRITE_FIRST, 2 * MTU, MTU }, { ROCE_SEND_ONLY, 0, 4 } } },
		{ "SEND LAST in a WRITE",
		  2,
		  { { ROCE_WRITE_FIRST, 2 * MTU, MTU }, { ROCE_SEND_LAST, 0, 4 } } },
		{ "two WRITE FIRST",
		  2,
		  { { ROCE_WRITE_FIRST, 2 * MTU, MTU }, { ROCE_WRITE_FIRST, 2 * MTU, MTU } } },
		{ "WRITE ends early",
		  2,
		  { { ROCE_WRITE_FIRST, 2 * MTU, MTU }, { ROCE_WRITE_LAST, 0, MTU - 4 } } },
		{ "WRITE too long",
		  2,
		  { { ROCE_WRITE_FIRST, MTU + 4, MTU }, { ROCE_WRITE_MIDDLE, 0, MTU } } },
		{ "WRITE ONLY shorter than said", 1, { { ROCE_WRITE_ONLY, 8, 4 } } },
		{ "WRITE ONLY longer than said", 1, { { ROCE_WRITE_ONLY, 4, 8 } } },
		{ "FIRST of half a path MTU", 1, { { ROCE_WRITE_FIRST, MTU, MTU / 2 } } },
		{ "more than the path MTU", 1, { { ROCE_WRITE_ONLY, MTU + 4, MTU + 4 } } },
		{ "SEND larger than the buffer", 1, { { ROCE_SEND_ONLY, 0, RECV + 1 } } },
		{ "RDMA READ", 1, { { ROCE_READ_REQUEST, 16, 0 } } },
		{ "SEND with immediate", 1, { { 0x05, 0, 16 } } },
		{ "compare and swap", 1, { { 0x13, 0, 28 } } },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TRIES("%s", cases[i].what);
		struct roce_peer_packet p;
		reconnect();
		for (size_t k = 0; k < cases[i].n; k++) {
			p = write_packet((uint32_t)k, cases[i].packets[k].opcode, 0,
					 cases[i].packets[k].total, data, cases[i].packets[k].len);
			roce_peer_send(&peer, &p);
		}
		expect_end(&p, (uint32_t)cases[i].n - 1, ROCE_NAK_INVALID_REQUEST);
	}
}

static void remote_access(void **state)
{
	(void)state;
	struct rnic_pd *other_pd;
	struct rnic_mr *other_mr, *local_mr, *gone_mr;
	unsigned int remote = RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE;
	uint64_t mem = rnic_mr_vaddr(side.mr);
	assert_int_equal(rnic_pd_alloc(side.rnic, &other_pd), 0);
	assert_int_equal(rnic_mr_register(other_pd, side.mem, MEM, remote, &other_mr), 0);
	assert_int_equal(
		rnic_mr_register(side.pd, side.mem, MEM, RNIC_ACCESS_LOCAL_WRITE, &local_mr), 0);
	assert_int_equal(rnic_mr_register(side.pd, side.mem, MEM, remote, &gone_mr), 0);
	uint32_t gone = rnic_mr_rkey(gone_mr);
	uint64_t gone_mem = rnic_mr_vaddr(gone_mr);
	rnic_mr_deregister(gone_mr);
	uint32_t key = rnic_mr_rkey(side.mr);
	const struct {
		const char *what;
		uint32_t rkey;
		uint64_t va;
		uint32_t total;
		uint8_t opcode;
	} cases[] = {
		{ "wrong rkey", key ^ 1, mem, 8, ROCE_WRITE_ONLY },
		{ "rkey 0", 0, mem, 8, ROCE_WRITE_ONLY },
		{ "rkey of another PD", rnic_mr_rkey(other_mr), rnic_mr_vaddr(other_mr), 8,
		  ROCE_WRITE_ONLY },
		{ "no right to write", rnic_mr_rkey(local_mr), rnic_mr_vaddr(local_mr), 8,
		  ROCE_WRITE_ONLY },
		{ "deregistered", gone, gone_mem, 8, ROCE_WRITE_ONLY },
		{ "before the start", key, mem - 1, 8, ROCE_WRITE_ONLY },
		{ "past the end", key, mem + MEM - 7, 8, ROCE_WRITE_ONLY },
		{ "behind the end", key, mem + MEM, 8, ROCE_WRITE_ONLY },
		{ "where it is for us", key, (uintptr_t)side.mem, 8, ROCE_WRITE_ONLY },
		{ "address 0", key, 0, 8, ROCE_WRITE_ONLY },
		{ "around the end of memory", key, UINT64_MAX - 3, 8, ROCE_WRITE_ONLY },
		{ "whole message past the end", key, mem + 8, MEM, ROCE_WRITE_FIRST },
		{ "4 GiB", key, mem, UINT32_MAX, ROCE_WRITE_FIRST },
	};
	static const uint8_t data[MTU] = { [0 ... MTU - 1] = 0xEE };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TRIES("%s", cases[i].what);
		reconnect();
		struct roce_peer_packet p =
			write_packet(0, cases[i].opcode, 0, cases[i].total, data,
				     cases[i].opcode == ROCE_WRITE_FIRST ? MTU : cases[i].total);
		p.reth.rkey = cases[i].rkey;
		p.reth.va = cases[i].va;
		roce_peer_send(&peer, &p);
		expect_end(&p, 0, ROCE_NAK_REMOTE_ACCESS);
		assert_int_equal(GREW(drop_access), 1);
		for (size_t k = 0; k < MEM; k++)
			assert_int_equal(side.mem[k], 0);
	}
	/* The last byte of the memory may be written. */
	reconnect();
	struct roce_peer_packet p = write_packet(0, ROCE_WRITE_ONLY, MEM - 8, 8, data, 8);
	p.ack_req = true;
	roce_peer_send(&peer, &p);
	expect_ack(0);
	rnic_mr_deregister(other_mr);
	rnic_mr_deregister(local_mr);
	rnic_pd_free(other_pd);
	PROVES("LG-15");
}

/* Memory that is deregistered between FIRST and LAST is not written any more. */
static void deregistered_under_way(void **state)
{
	(void)state;
	static const uint8_t data[MTU] = { [0 ... MTU - 1] = 0xEE };
	struct rnic_mr *mr;
	assert_int_equal(rnic_mr_register(side.pd, side.mem, MEM,
					  RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE, &mr),
			 0);
	struct roce_peer_packet p = write_packet(0, ROCE_WRITE_FIRST, 0, MTU + 4, data, MTU);
	p.reth.rkey = rnic_mr_rkey(mr);
	p.reth.va = rnic_mr_vaddr(mr);
	p.ack_req = true;
	roce_peer_send(&peer, &p);
	expect_ack(0);
	rnic_mr_deregister(mr);
	p = write_packet(1, ROCE_WRITE_LAST, 0, 0, data, 4);
	roce_peer_send(&peer, &p);
	expect_end(&p, 1, ROCE_NAK_REMOTE_ACCESS);
	assert_int_equal(side.mem[MTU], 0);
}

/* A peer that repeats its requests for ever has to learn that the queue pair has ended. It must
 * not get an ACK for messages that were not handed on. */
static void ended_by_its_user(void **state)
{
	(void)state;
	struct roce_peer_packet one = send_only(0, "one"), two = send_only(1, "two"),
				three = send_only(2, "three");
	roce_peer_send(&peer, &one);
	expect_ack(0);
	rnic_qp_error(side.qp);
	assert_true(rnic_side_wait(base, &side.recv_errors, 1, PATIENCE));
	roce_peer_send(&peer, &three);
	expect_silence();
	roce_peer_send(&peer, &two);
	expect_nak(1, ROCE_NAK_REMOTE_OPERATIONAL);
	roce_peer_send(&peer, &two);
	expect_nak(1, ROCE_NAK_REMOTE_OPERATIONAL);
	roce_peer_send(&peer, &one);
	expect_nak(0, ROCE_NAK_REMOTE_OPERATIONAL);
	assert_int_equal(side.num_messages, 1);
}

/* The peer of a destroyed queue pair learns the same, for a while. */
static void destroyed_by_its_user(void **state)
{
	(void)state;
	struct roce_peer_packet one = send_only(0, "one"), two = send_only(1, "two"),
				three = send_only(2, "three");
	roce_peer_send(&peer, &one);
	expect_ack(0);
	rnic_side_qp_destroy(&side);
	roce_peer_send(&peer, &three);
	expect_silence();
	roce_peer_send(&peer, &two);
	expect_nak(1, ROCE_NAK_REMOTE_OPERATIONAL);
	roce_peer_send(&peer, &one);
	expect_nak(0, ROCE_NAK_REMOTE_OPERATIONAL);
	rnic_side_idle(base, 1100);
	roce_peer_send(&peer, &two);
	expect_silence();
	assert_int_equal(side.num_messages, 1);
}

static void set_port(int up)
{
	enum rnic_event_type type = up ? RNIC_EVENT_PORT_ACTIVE : RNIC_EVENT_PORT_DOWN;
	testnet_enter(&net, 0);
	testnet_link_up("t0", up);
	for (int i = 0; i < PATIENCE && side.events[type] == 0; i++) {
		rnic_link_changed(side.rnic);
		rnic_side_idle(base, 1);
	}
	assert_int_equal(side.events[type], 1);
}

/* While the port is down the peer cannot hear the answer: the time counts from when the port is up
 * again. */
static void destroyed_while_the_port_is_down(void **state)
{
	(void)state;
	struct roce_peer_packet one = send_only(0, "one");
	set_port(0);
	rnic_side_qp_destroy(&side);
	rnic_side_idle(base, 1500);
	set_port(1);
	roce_peer_send(&peer, &one);
	expect_nak(0, ROCE_NAK_REMOTE_OPERATIONAL);
	rnic_side_idle(base, 2200);
	roce_peer_send(&peer, &one);
	expect_silence();
}

/* No such packet is answered or has an effect, and each is counted. */
static void stray_packets(void **state)
{
	(void)state;
	uint8_t buf[ROCE_MAX_LEN];
	size_t len;
	struct roce_peer_packet p = send_only(0, "forged!!");

	p.qpn ^= 1;
	roce_peer_send(&peer, &p);
	expect_silence();
	assert_int_equal(GREW(drop_qp), 1);

	p = send_only(0, "forged!!");
	roce_peer_send(&stranger, &p);
	expect_silence();
	assert_int_equal(GREW(drop_peer), 1);

	len = roce_peer_build(&peer, &p, 0, buf);
	buf[ROCE_BTH_LEN] ^= 1;
	roce_peer_send_raw(&peer, buf, len);
	expect_silence();
	assert_int_equal(GREW(drop_icrc), 1);
	/* The ICRC fits other addresses. */
	len = roce_peer_build(&stranger, &p, 0, buf);
	roce_peer_send_raw(&peer, buf, len);
	expect_silence();
	assert_int_equal(GREW(drop_icrc), 2);

	len = roce_peer_build(&peer, &p, 0, buf);
	roce_peer_send_raw(&peer, buf, len - 1);
	roce_peer_send_raw(&peer, buf, ROCE_MIN_LEN - 1);
	roce_peer_send_raw(&peer, buf, 0);
	buf[1] |= 1; /* version of the BTH */
	roce_peer_send_raw(&peer, buf, len);
	p.opcode = ROCE_UD_SEND_ONLY;
	roce_peer_send(&peer, &p);
	p.opcode = ROCE_SEND_ONLY;
	p.pkey = 0x1234;
	roce_peer_send(&peer, &p);
	expect_silence();
	assert_int_equal(GREW(drop_malformed), 6);

	/* ACKs for packets that were never sent. */
	struct roce_peer_packet ack = { .opcode = ROCE_ACKNOWLEDGE,
					.qpn = rnic_qp_num(side.qp),
					.psn = side.psn };
	roce_peer_send(&peer, &ack);
	ack.aeth.kind = ROCE_NAK;
	roce_peer_send(&peer, &ack);
	expect_silence();
	assert_int_equal(GREW(drop_psn), 2);

	assert_int_equal(side.num_messages + side.recv_errors + side.num_sends, 0);
	assert_int_equal(GREW(naks_sent), 0);
	p = send_only(0, "true");
	roce_peer_send(&peer, &p);
	expect_ack(0);
	assert_int_equal(GREW(rx_packets), 13);
}

static void not_ready_to_receive(void **state)
{
	(void)state;
	disconnect(NULL);
	rnic_get_stats(side.rnic, &before);
	rnic_side_qp(&side, 8, 4, RECV);
	assert_true(rnic_qp_num(side.qp) > 1 && rnic_qp_num(side.qp) <= ROCE_QPN_MASK);
	struct roce_peer_packet p = send_only(0, "early");
	roce_peer_send(&peer, &p);
	expect_silence();
	assert_int_equal(GREW(drop_qp), 1);
	assert_int_equal(rnic_side_send(&side, "x", 1, 1), -ENOTCONN);

	/* In RTR the queue pair receives and answers, but does not send yet. */
	struct rnic_qp_peer to = scripted();
	assert_int_equal(rnic_qp_connect(side.qp, &to), 0);
	assert_int_equal(rnic_qp_connect(side.qp, &to), -EINVAL);
	roce_peer_send(&peer, &p);
	expect_ack(0);
	assert_int_equal(side.num_messages, 1);
	assert_int_equal(rnic_side_send(&side, "x", 1, 1), -ENOTCONN);
	PROVES("LLC-8");
}

static void destroy_at_once(struct rnic_side *on, const struct rnic_wc *wc)
{
	if (wc->is_recv)
		rnic_side_qp_destroy(on);
}

/* The peer's last message: the user destroys the QP in the callback of its completion. The sender
 * still gets the ACK, as from hardware. */
static void delivered_messages_are_acknowledged_before_the_end(void **state)
{
	(void)state;
	struct roce_packet answer;
	struct roce_peer_packet last = send_only(0, "bye");
	side.hook = destroy_at_once;
	roce_peer_send(&peer, &last);
	assert_true(roce_peer_receive(&peer, &answer, PATIENCE));
	side.hook = NULL;
	assert_int_equal(answer.bth.opcode, ROCE_ACKNOWLEDGE);
	assert_int_equal(answer.aeth.kind, ROCE_ACK);
	assert_int_equal(answer.bth.psn, PEER_PSN);
	assert_null(side.qp);
}

static void error_at_once(struct rnic_side *on, const struct rnic_wc *wc)
{
	if (wc->is_recv && wc->status == RNIC_WC_SUCCESS)
		rnic_qp_error(on->qp);
}

/* The same if the user ends the queue pair and keeps it. */
static void delivered_messages_are_acknowledged_before_an_error(void **state)
{
	(void)state;
	struct roce_peer_packet last = send_only(0, "bye");
	side.hook = error_at_once;
	roce_peer_send(&peer, &last);
	assert_true(rnic_side_wait(base, &side.recv_errors, 1, PATIENCE));
	side.hook = NULL;
	assert_int_equal(GREW(tx_packets), 1);
	expect_ack(0);
}

static void answer_twice(struct rnic_side *on, const struct rnic_wc *wc)
{
	for (int i = 0; wc->is_recv && i < 2; i++)
		assert_int_equal(rnic_side_send(on, "answer", 6, 0), 0);
}

/* An ACK that would be due a little later leaves with packets that are sent meanwhile, in one
 * datagram. */
static void an_ack_goes_with_data(void **state)
{
	(void)state;
	const int on = 1, off = 0;
	const size_t answer = ROCE_BTH_LEN + 6 + 2 + ROCE_ICRC_LEN;
	struct roce_peer_packet question = send_only(0, "question");
	struct roce_packet p;
	uint8_t buf[ROCE_MAX_LEN], repeated[ROCE_MAX_LEN];
	assert_int_equal(setsockopt(peer.fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on)), 0);
	side.hook = answer_twice;
	roce_peer_send(&peer, &question);
	assert_true(rnic_side_wait(base, &side.num_messages, 1, PATIENCE));
	rnic_side_idle(base, QUIET);
	side.hook = NULL;
	/* The ACK is in the first datagram: the sender repeats its packets, which nobody
	 * acknowledges. */
	assert_int_equal(recv(peer.fd, buf, sizeof(buf), MSG_DONTWAIT), 2 * answer + ROCE_ACK_LEN);
	/* A repetition that was received as one datagram would stay one. */
	while (recv(peer.fd, repeated, sizeof(repeated), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(setsockopt(peer.fd, IPPROTO_UDP, UDP_GRO, &off, sizeof(off)), 0);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(roce_decode(buf + i * answer, answer, &p), 0);
		assert_int_equal(p.bth.opcode, ROCE_SEND_ONLY);
		assert_int_equal(p.bth.ack_req, i == 1);
	}
	assert_int_equal(roce_decode(buf + 2 * answer, ROCE_ACK_LEN, &p), 0);
	assert_int_equal(p.bth.opcode, ROCE_ACKNOWLEDGE);
	assert_int_equal(p.bth.psn, PEER_PSN);
	assert_int_equal(p.aeth.kind, ROCE_ACK);
	assert_int_equal(p.aeth.msn, 1);
	/* The ACK is the third packet of the datagram. */
	const struct roce_flow flow = { .saddr = peer.flow.daddr,
					.daddr = peer.flow.saddr,
					.sport = peer.flow.dport,
					.dport = peer.flow.sport };
	struct roce_icrc_flow icrc;
	roce_icrc_flow_init(&icrc, &flow);
	uint16_t ip_id;
	assert_true(
		roce_icrc_check(&peer.tables, &icrc, buf + 2 * answer, ROCE_ACK_LEN, 0, &ip_id));
	assert_int_equal(ip_id, 2);
}

/* Bytes that the kernel charges the device's socket for datagrams that wait in it. */
static uint32_t charged(void)
{
	uint32_t info[SK_MEMINFO_VARS] = { 0 };
	socklen_t len = sizeof(info);
	int fd = soft_device_of(side.rnic)->endpoints->fd;
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &len), 0);
	return info[SK_MEMINFO_RMEM_ALLOC];
}

/* Let so many WRITEs that ask for an answer wait in the device's socket. */
static void writes_wait(uint32_t from, uint32_t n)
{
	uint32_t one = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct roce_peer_packet packet =
			write_packet(from + i, ROCE_WRITE_ONLY, 0, 4, "data", 4);
		packet.ack_req = true;
		roce_peer_send(&peer, &packet);
		for (int ms = 0; charged() <= i * one && ms < PATIENCE; ms++)
			usleep(1000);
		one = i == 0 ? charged() : one;
		assert_int_equal(charged(), (i + 1) * one);
	}
}

/* A round receives four datagrams. What the rounds of a run receive is answered together. */
static void one_ack_for_a_run(void **state)
{
	(void)state;
	writes_wait(0, 1);
	expect_ack(0);
	writes_wait(1, 10);
	expect_ack(10);
	expect_silence();
	/* Four rounds are a run. */
	writes_wait(11, 20);
	expect_ack(26);
	expect_ack(30);
	expect_silence();
}

static void mark_packets(int ecn)
{
	assert_int_equal(setsockopt(peer.fd, IPPROTO_IP, IP_TOS, &ecn, sizeof(ecn)), 0);
}

/* The sender of packets that the network has marked is told. */
static void marks_are_told(void **state)
{
	(void)state;
	struct roce_peer_packet packet = send_only(0, "marked");
	struct roce_packet p;
	mark_packets(IPTOS_ECN_CE);
	roce_peer_send(&peer, &packet);
	assert_true(roce_peer_receive(&peer, &p, PATIENCE));
	assert_int_equal(p.bth.opcode, ROCE_CONGESTION);
	assert_int_equal(p.bth.dest_qp, PEER_QPN);
	expect_ack(0);
	mark_packets(IPTOS_ECN_ECT0);
	packet = send_only(1, "not marked");
	roce_peer_send(&peer, &packet);
	expect_ack(1);
	assert_int_equal(GREW(cnps_sent), 1);
	mark_packets(0);
}

/* A program on the peer's host: it has the peer's address, but its socket has another port. */
static void open_neighbour(struct roce_peer *neighbour)
{
	roce_peer_open(neighbour, base, "10.77.0.2", "10.77.0.1", ROCE_UDP_PORT + 1);
	neighbour->to.sin_port = neighbour->flow.dport = htons(ROCE_UDP_PORT);
}

static void expect_message(unsigned int n, const char *text)
{
	assert_int_equal(side.num_messages, n + 1);
	assert_memory_equal(side.messages[n].data, text, strlen(text));
}

/* The neighbour knows all numbers and keys, and yet none of its packets counts, not even later. */
static void a_neighbour_of_the_peer_puts_nothing_between(void **state)
{
	(void)state;
	struct roce_peer neighbour;
	struct roce_peer_packet genuine = send_only(0, "genuine 0"),
				forged = send_only(1, "forged 1");
	open_neighbour(&neighbour);
	roce_peer_send(&neighbour, &forged);
	roce_peer_send(&peer, &genuine);
	expect_ack(0);
	expect_message(0, "genuine 0");
	roce_peer_send(&neighbour, &forged);
	forged = send_only(2, "forged 2");
	roce_peer_send(&neighbour, &forged);
	expect_silence();
	assert_int_equal(GREW(drop_peer), 3);
	for (uint32_t n = 1; n <= 2; n++) {
		char text[16];
		snprintf(text, sizeof(text), "genuine %u", n);
		genuine = send_only(n, text);
		roce_peer_send(&peer, &genuine);
		expect_ack(n);
		expect_message(n, text);
	}
	roce_peer_close(&neighbour);
	PROVES("SEC-6");
}

/* Hardware sends from another port: the first packet that is due decides which port counts from
 * then on. */
static void the_port_of_the_first_packet_that_was_due_counts(void **state)
{
	(void)state;
	struct roce_peer hardware;
	struct roce_peer_packet packet = send_only(3, "early");
	open_neighbour(&hardware);
	roce_peer_send(&hardware, &packet);
	expect_silence();
	assert_int_equal(GREW(drop_peer), 1);
	packet = send_only(0, "due");
	roce_peer_send(&hardware, &packet);
	expect_ack(0);
	packet = send_only(1, "from the port of RoCEv2");
	roce_peer_send(&peer, &packet);
	expect_silence();
	assert_int_equal(GREW(drop_peer), 2);
	packet = send_only(1, "again");
	roce_peer_send(&hardware, &packet);
	expect_ack(1);
	expect_message(1, "again");
	roce_peer_close(&hardware);
}

/* Send the message number `n` in a datagram with this IPv4 identification. */
static void send_identified(struct roce_peer *from, uint32_t n, uint16_t id)
{
	struct roce_peer_packet p = send_only(n, "identified");
	/* The kernel replaces an identification of 0 in packets of raw sockets. */
	if (id == 0) {
		roce_peer_send(from, &p);
		return;
	}
	uint8_t packet[28 + ROCE_MAX_LEN] = { 0x45, [6] = 0x40, [8] = 64, [9] = IPPROTO_UDP };
	size_t len = roce_peer_build(from, &p, id, packet + 28);
	put_be16(packet + 4, id);
	memcpy(packet + 12, &from->flow.saddr, 4);
	memcpy(packet + 16, &from->flow.daddr, 4);
	memcpy(packet + 20, &from->flow.sport, 2);
	memcpy(packet + 22, &from->flow.dport, 2);
	put_be16(packet + 24, (uint16_t)(len + 8));
	int raw = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
	assert_true(raw >= 0);
	assert_int_equal(
		sendto(raw, packet, 28 + len, 0, (struct sockaddr *)&from->to, sizeof(from->to)),
		28 + len);
	close(raw);
}

/* Other senders (kernel rxe, hardware) increment the IPv4 identification. */
static void other_rnics_give_any_identification(void **state)
{
	(void)state;
	static const uint16_t ids[] = { 0, 1, 0x1234, 0xFFFF };
	struct roce_peer hardware;
	open_neighbour(&hardware);
	for (uint32_t n = 0; n < 4; n++) {
		send_identified(&hardware, n, ids[n]);
		expect_ack(n);
	}
	roce_peer_close(&hardware);
	assert_int_equal(GREW(drop_icrc), 0);
	assert_int_equal(side.num_messages, 4);
}

/* smcrd numbers the packets of a send from 0. What would need another identification is damaged. */
static void a_soft_peer_gives_small_identifications(void **state)
{
	(void)state;
	static const uint16_t others[] = { 128, 0x1234, 0xFFFF };
	send_identified(&peer, 0, 0);
	expect_ack(0);
	send_identified(&peer, 1, 127);
	expect_ack(1);
	for (size_t i = 0; i < 3; i++)
		send_identified(&peer, 2, others[i]);
	expect_silence();
	assert_int_equal(GREW(drop_icrc), 3);
	send_identified(&peer, 2, 5);
	expect_ack(2);
	assert_int_equal(side.num_messages, 3);
}

/* It is none of smcrd's, though it sends from the same port. */
static void another_rnic_at_the_port_of_rocev2(void **state)
{
	(void)state;
	send_identified(&peer, 0, 0x1234);
	expect_ack(0);
	send_identified(&peer, 1, 0xFFFF);
	expect_ack(1);
	assert_int_equal(GREW(drop_icrc), 0);
}

/* An ACK that is in the socket when the timer fires is no timeout, even if it is behind many other
 * packets. */
static void answer_behind_others(void **state)
{
	(void)state;
	uint32_t at = 0;
	for (unsigned int ahead = 0; ahead <= 40; ahead += 40) {
		TRIES("%u packets ahead", ahead);
		struct roce_packet p;
		assert_int_equal(rnic_side_send(&side, "question", 8, 0), 0);
		do
			assert_true(roce_peer_receive(&peer, &p, PATIENCE));
		while (p.bth.opcode == ROCE_ACKNOWLEDGE);
		const uint64_t sent_again = stats_now().retransmits;
		for (unsigned int i = 0; i < ahead; i++) {
			struct roce_peer_packet w =
				write_packet(at++, ROCE_WRITE_ONLY, 0, 4, "data", 4);
			roce_peer_send(&peer, &w);
		}
		struct roce_peer_packet ack = { .opcode = ROCE_ACKNOWLEDGE,
						.qpn = rnic_qp_num(side.qp),
						.psn = p.bth.psn,
						.aeth = { .kind = ROCE_ACK,
							  .value = ROCE_CREDITS_UNLIMITED } };
		roce_peer_send(&peer, &ack);
		nanosleep(&(struct timespec){ .tv_nsec = 300000000 }, NULL);
		rnic_side_idle(base, QUIET);
		assert_int_equal(stats_now().retransmits, sent_again);
	}
}

int main(void)
{
#define CONNECTED(f) cmocka_unit_test_setup_teardown(f, connect_one, disconnect)
	const struct CMUnitTest tests[] = {
		CONNECTED(an_ack_goes_with_data),
		CONNECTED(answer_behind_others),
		CONNECTED(one_ack_for_a_run),
		CONNECTED(marks_are_told),
		CONNECTED(a_neighbour_of_the_peer_puts_nothing_between),
		CONNECTED(the_port_of_the_first_packet_that_was_due_counts),
		CONNECTED(other_rnics_give_any_identification),
		CONNECTED(a_soft_peer_gives_small_identifications),
		CONNECTED(another_rnic_at_the_port_of_rocev2),
		CONNECTED(delivered_messages_are_acknowledged_before_the_end),
		CONNECTED(delivered_messages_are_acknowledged_before_an_error),
		CONNECTED(sends_are_answered),
		CONNECTED(first_middle_last),
		CONNECTED(empty_write),
		CONNECTED(reordering_costs_nothing),
		CONNECTED(duplicates_are_answered_not_repeated),
		CONNECTED(gap_is_reported),
		CONNECTED(far_packets_are_not_held),
		CONNECTED(forged_early_packet),
		CONNECTED(messages_that_just_fit),
		CONNECTED(receiver_not_ready),
		CONNECTED(invalid_requests),
		CONNECTED(remote_access),
		CONNECTED(deregistered_under_way),
		CONNECTED(ended_by_its_user),
		CONNECTED(destroyed_by_its_user),
		CONNECTED(destroyed_while_the_port_is_down),
		CONNECTED(stray_packets),
		CONNECTED(not_ready_to_receive),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

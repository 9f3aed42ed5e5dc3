/* SPDX-License-Identifier: MIT */
/* Soft RNIC, RDMA READs of a scripted peer: responses and their PSNs, what is asked for again,
 * order, refusals, memory that goes away, a peer that asks endlessly. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "daemon/rnic/soft.h"
#include "tests/lib/respfix.h"
#include "tests/lib/tries.h"

#define MTU  RESPFIX_MTU
#define LONG (4u << 20) /* more than a run of the loop sends */

static struct respfix fix;

static int setup(void **state)
{
	(void)state;
	respfix_open(&fix);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	respfix_close(&fix);
	return 0;
}

static int connect_one(void **state)
{
	(void)state;
	fix.reads_answered = SOFT_MAX_READS_ANSWERED;
	respfix_connect(&fix);
	return 0;
}

static int disconnect(void **state)
{
	(void)state;
	respfix_disconnect(&fix);
	return 0;
}

static struct soft_qp *qp(void)
{
	return soft_qp_of(fix.side.qp);
}

static void ask(uint32_t n, size_t at, uint32_t len)
{
	struct roce_peer_packet p = respfix_read(&fix, n, at, len);
	respfix_post(&fix, &p);
}

static void send_text(uint32_t n, const char *text)
{
	struct roce_peer_packet p = respfix_send(&fix, n, text);
	respfix_post(&fix, &p);
}

/* Run the loop until the RNIC answers a READ that is too long for one run. */
static void begin_to_answer(void)
{
	while (!soft_responses_wait(&qp()->rs))
		event_base_loop(fix.base, EVLOOP_ONCE);
}

/* A READ takes as many PSNs as its response has packets, and counts as one message. */
static void reads_are_answered(void **state)
{
	(void)state;
	static const uint32_t lens[] = { 1,       4,       MTU - 1,     MTU, MTU + 1,
					 2 * MTU, 3 * MTU, 3 * MTU + 5, 0 };
	uint32_t n = 0;
	for (uint32_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		TRIES("%u bytes", lens[i]);
		ask(n, 100 + i, lens[i]);
		assert_int_equal(respfix_expect_bytes(&fix, n, 100 + i, lens[i]), 2 * i + 1);
		n += lens[i] ? (lens[i] - 1) / MTU + 1 : 1;
		send_text(n, "x");
		respfix_expect_ack(&fix, n++);
		rnic_side_forget(&fix.side);
	}
	respfix_expect_silence(&fix);
	assert_int_equal(RESPFIX_GREW(&fix, duplicates) + RESPFIX_GREW(&fix, retransmits), 0);
}

static void without_segmentation(void **state)
{
	(void)state;
	rnic_soft_set_segmentation(fix.side.rnic, false);
	ask(0, 5, 20 * MTU + 3);
	respfix_expect_bytes(&fix, 0, 5, 20 * MTU + 3);
	rnic_soft_set_segmentation(fix.side.rnic, true);
}

/* The response says how many receive buffers are free. */
static void responses_carry_credits(void **state)
{
	(void)state;
	struct roce_packet p;
	ask(0, 0, 4);
	assert_true(roce_peer_receive(&fix.peer, &p, RESPFIX_PATIENCE));
	assert_int_equal(roce_credits_decode(p.aeth.value), RESPFIX_DEPTH);
}

/* A READ of no bytes needs no valid key or address (IBA 9.7.4.1.3). */
static void empty_read(void **state)
{
	(void)state;
	struct roce_peer_packet p = respfix_read(&fix, 0, 0, 0);
	p.reth.rkey ^= 0x5555;
	respfix_post(&fix, &p);
	respfix_expect_bytes(&fix, 0, 0, 0);
}

static void many_at_a_time(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < SOFT_MAX_READS_ANSWERED; i++)
		ask(2 * i, 1000 * i, MTU + 8);
	for (uint32_t i = 0; i < SOFT_MAX_READS_ANSWERED; i++)
		assert_int_equal(respfix_expect_bytes(&fix, 2 * i, 1000 * i, MTU + 8), i + 1);
}

/* One more than was agreed. Those before it are answered. */
static void too_many_at_a_time(void **state)
{
	(void)state;
	fix.reads_answered = 2;
	respfix_reconnect(&fix);
	for (uint32_t round = 0; round < 3; round++) {
		ask(4 * round, 0, 2 * MTU);
		ask(4 * round + 2, 50, 2 * MTU);
		respfix_expect_bytes(&fix, 4 * round, 0, 2 * MTU);
		respfix_expect_bytes(&fix, 4 * round + 2, 50, 2 * MTU);
	}
	ask(12, 0, 2 * MTU);
	ask(14, 50, 2 * MTU);
	ask(16, 0, 8);
	respfix_expect_bytes(&fix, 12, 0, 2 * MTU);
	respfix_expect_bytes(&fix, 14, 50, 2 * MTU);
	struct roce_peer_packet p = respfix_read(&fix, 16, 0, 8);
	respfix_expect_end(&fix, &p, 16, ROCE_NAK_INVALID_REQUEST);
}

static void not_agreed(void **state)
{
	(void)state;
	fix.reads_answered = 0;
	respfix_reconnect(&fix);
	struct roce_peer_packet p = respfix_read(&fix, 0, 0, 8);
	respfix_post(&fix, &p);
	respfix_expect_end(&fix, &p, 0, ROCE_NAK_INVALID_REQUEST);
}

static void more_than_the_device_answers(void **state)
{
	(void)state;
	struct rnic_info info;
	rnic_get_info(fix.side.rnic, &info);
	assert_int_equal(info.max_reads_answered, SOFT_MAX_READS_ANSWERED);
	struct rnic_qp_peer peer = { .gid = { [10] = 0xFF, 0xFF, 10, 77, 0, 2 },
				     .qpn = RESPFIX_PEER_QPN,
				     .path_mtu = RESPFIX_MTU_CODE,
				     .reads_answered = SOFT_MAX_READS_ANSWERED + 1 };
	rnic_side_qp_destroy(&fix.side);
	rnic_side_qp(&fix.side, 8, 4, RESPFIX_RECV);
	assert_int_equal(rnic_qp_connect(fix.side.qp, &peer), -EINVAL);
	peer.reads_answered--;
	assert_int_equal(rnic_qp_connect(fix.side.qp, &peer), 0);
}

static void in_the_middle_of_a_message(void **state)
{
	(void)state;
	static const uint8_t data[MTU];
	struct roce_peer_packet p = respfix_write(&fix, 0, 0, data, MTU);
	p.opcode = ROCE_WRITE_FIRST;
	p.reth.length = 2 * MTU;
	p.ack_req = false;
	respfix_post(&fix, &p);
	p = respfix_read(&fix, 1, 0, 8);
	respfix_post(&fix, &p);
	respfix_expect_end(&fix, &p, 1, ROCE_NAK_INVALID_REQUEST);
}

static void rights_and_bounds(void **state)
{
	(void)state;
	const unsigned int remote = RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE;
	struct rnic_side *side = &fix.side;
	struct rnic_pd *other_pd;
	struct rnic_mr *other, *gone;
	uint64_t mem = rnic_mr_vaddr(fix.readable);
	uint32_t key = rnic_mr_rkey(fix.readable);
	assert_int_equal(rnic_pd_alloc(side->rnic, &other_pd), 0);
	assert_int_equal(
		rnic_mr_register(other_pd, side->mem, MTU, RNIC_ACCESS_REMOTE_READ, &other), 0);
	assert_int_equal(
		rnic_mr_register(side->pd, side->mem, MTU, remote | RNIC_ACCESS_REMOTE_READ, &gone),
		0);
	const uint32_t gone_key = rnic_mr_rkey(gone);
	const uint64_t gone_mem = rnic_mr_vaddr(gone);
	rnic_mr_deregister(gone);
	const struct {
		const char *what;
		uint32_t rkey;
		uint64_t va;
		uint32_t len;
	} cases[] = {
		{ "wrong key", key ^ 1, mem, 8 },
		{ "key 0", 0, mem, 8 },
		{ "another PD", rnic_mr_rkey(other), rnic_mr_vaddr(other), 8 },
		{ "may only be written", rnic_mr_rkey(side->mr), rnic_mr_vaddr(side->mr), 8 },
		{ "for own requests", rnic_mr_rkey(side->source), rnic_mr_vaddr(side->source), 8 },
		{ "deregistered", gone_key, gone_mem, 8 },
		{ "before the start", key, mem - 1, 8 },
		{ "past the end", key, mem + RESPFIX_MEM - 7, 8 },
		{ "behind the end", key, mem + RESPFIX_MEM, 1 },
		{ "all and a byte", key, mem, RESPFIX_MEM + 1 },
		{ "where it is for us", key, (uintptr_t)side->mem, 8 },
		{ "around the end of memory", key, UINT64_MAX - 3, 8 },
		{ "1 GiB", key, mem, 1u << 30 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TRIES("%s", cases[i].what);
		respfix_reconnect(&fix);
		struct roce_peer_packet p = respfix_read(&fix, 0, 0, cases[i].len);
		p.reth.rkey = cases[i].rkey;
		p.reth.va = cases[i].va;
		respfix_post(&fix, &p);
		respfix_expect_end(&fix, &p, 0, ROCE_NAK_REMOTE_ACCESS);
		assert_int_equal(RESPFIX_GREW(&fix, drop_access), 1);
	}
	/* More PSNs than may be under way. */
	respfix_reconnect(&fix);
	struct roce_peer_packet p = respfix_read(&fix, 0, 0, UINT32_MAX);
	respfix_post(&fix, &p);
	respfix_expect_end(&fix, &p, 0, ROCE_NAK_INVALID_REQUEST);
	/* The last bytes may be read. */
	respfix_reconnect(&fix);
	ask(0, RESPFIX_MEM - 8, 8);
	respfix_expect_bytes(&fix, 0, RESPFIX_MEM - 8, 8);
	rnic_mr_deregister(other);
	rnic_pd_free(other_pd);
}

/* ---- again */

static void asked_for_again(void **state)
{
	(void)state;
	const uint32_t len = 3 * MTU + 5;
	ask(0, 64, len);
	ask(4, 9000, 8);
	respfix_expect_bytes(&fix, 0, 64, len);
	respfix_expect_bytes(&fix, 4, 9000, 8);
	send_text(5, "x");
	respfix_expect_ack(&fix, 5);
	/* All of it, and with the bytes that the memory has now. */
	memset(fix.side.mem + 64, 'n', 2 * MTU);
	ask(0, 64, len);
	assert_int_equal(respfix_expect_bytes(&fix, 0, 64, len), 1);
	/* From each packet on. */
	for (uint32_t i = 1; i < 4; i++) {
		ask(i, 64 + (size_t)i * MTU, len - i * MTU);
		respfix_expect_bytes(&fix, i, 64 + (size_t)i * MTU, len - i * MTU);
	}
	/* Only a part from the middle. */
	ask(1, 64 + MTU, MTU);
	respfix_expect_bytes(&fix, 1, 64 + MTU, MTU);
	ask(4, 9000, 8);
	assert_int_equal(respfix_expect_bytes(&fix, 4, 9000, 8), 2);
	respfix_expect_silence(&fix);
	assert_int_equal(RESPFIX_GREW(&fix, duplicates), 6);
	assert_int_equal(RESPFIX_GREW(&fix, retransmits), 4 + 3 + 2 + 1 + 1 + 1);
	/* Nothing of this took a PSN. */
	send_text(6, "x");
	respfix_expect_ack(&fix, 6);
}

/* What was not asked for before is no part of it. */
static void repeats_that_are_none(void **state)
{
	(void)state;
	const struct {
		const char *what;
		uint32_t n;
		size_t at;
		uint32_t len;
	} cases[] = {
		{ "longer", 0, 0, 3 * MTU + 1 },
		{ "elsewhere", 0, 8, 8 },
		{ "in the middle, with the address of the start", 1, 0, MTU },
		{ "beyond its end", 1, MTU, 2 * MTU + 1 },
		{ "where a SEND was", 3, 0, 8 },
		{ "before everything", 0u - 5, 0, 8 },
	};
	ask(0, 0, 3 * MTU);
	respfix_expect_bytes(&fix, 0, 0, 3 * MTU);
	send_text(3, "x");
	respfix_expect_ack(&fix, 3);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TRIES("%s", cases[i].what);
		ask(cases[i].n, cases[i].at, cases[i].len);
		respfix_expect_silence(&fix);
	}
	struct roce_peer_packet p = respfix_read(&fix, 0, 0, 3 * MTU);
	p.reth.rkey = rnic_mr_rkey(fix.both);
	respfix_post(&fix, &p);
	respfix_expect_silence(&fix);
	assert_int_equal(RESPFIX_GREW(&fix, drop_access), 0); /* its memory was not looked for */
	ask(0, 0, 3 * MTU);
	respfix_expect_bytes(&fix, 0, 0, 3 * MTU);
}

/* A READ may have so many PSNs that it is out of the window of others when its repetition comes. */
static void asked_for_again_long_after(void **state)
{
	(void)state;
	ask(0, 0, 3 * MTU);
	respfix_expect_bytes(&fix, 0, 0, 3 * MTU);
	qp()->rs.expected = (qp()->rs.expected + SOFT_PSN_WINDOW) & ROCE_PSN_MASK;
	ask(0, 0, 3 * MTU);
	respfix_expect_bytes(&fix, 0, 0, 3 * MTU);
	send_text(2, "x");
	respfix_expect_silence(&fix);
	assert_int_equal(RESPFIX_GREW(&fix, drop_psn), 1);
}

/* The last READs are remembered, as many as can be under way. */
static void the_oldest_is_forgotten(void **state)
{
	(void)state;
	for (uint32_t i = 0; i <= SOFT_MAX_READS_ANSWERED; i++) {
		ask(i, i, 8);
		respfix_expect_bytes(&fix, i, i, 8);
	}
	ask(0, 0, 8);
	respfix_expect_silence(&fix);
	ask(1, 1, 8);
	respfix_expect_bytes(&fix, 1, 1, 8);
}

/* A requester could take an ACK whose PSN is that of a READ for its response. So a SEND that is
 * repeated in front of READs is acknowledged by its own PSN. */
static void no_ack_names_a_read(void **state)
{
	(void)state;
	send_text(0, "x");
	ask(1, 0, 2 * MTU);
	ask(3, 0, 8);
	respfix_expect_bytes(&fix, 1, 0, 2 * MTU);
	respfix_expect_bytes(&fix, 3, 0, 8);
	respfix_expect_silence(&fix); /* that was the ACK of the SEND, too */
	send_text(0, "x");
	respfix_expect_ack(&fix, 0);
	send_text(4, "y");
	respfix_expect_ack(&fix, 4);
	send_text(0, "x");
	respfix_expect_ack(&fix, 4);
}

/* ---- order */

static void acks_wait_for_the_response(void **state)
{
	(void)state;
	static const uint8_t data[8] = "written";
	struct roce_peer_packet w = respfix_write(&fix, 4098, LONG, data, 8);
	send_text(0, "before");
	ask(1, 0, LONG);
	send_text(4097, "behind");
	respfix_post(&fix, &w);
	/* Both are carried out, and told, while the response is under way. */
	respfix_expect_some(&fix, 1, 0, LONG, 16);
	assert_true(rnic_side_wait(fix.base, &fix.side.num_messages, 2, RESPFIX_PATIENCE));
	assert_memory_equal(fix.side.mem + LONG, data, 8);
	struct roce_packet p;
	for (uint32_t i = 16; i < 4096; i++) {
		assert_true(roce_peer_receive(&fix.peer, &p, RESPFIX_PATIENCE));
		assert_int_equal(p.bth.psn, (RESPFIX_PEER_PSN + 1 + i) & ROCE_PSN_MASK);
		assert_int_not_equal(p.bth.opcode, ROCE_ACKNOWLEDGE);
	}
	assert_int_equal(p.bth.opcode, ROCE_READ_RESPONSE_LAST);
	assert_int_equal(p.aeth.msn, 2);
	respfix_expect_ack(&fix, 4098);
	respfix_expect_silence(&fix);
}

/* The ACK that could go with a packet of the queue pair's own waits, too. */
static void acks_that_could_ride_along_wait(void **state)
{
	(void)state;
	ask(0, 0, LONG);
	send_text(4096, "behind");
	begin_to_answer();
	assert_int_equal(rnic_side_send(&fix.side, "own", 3, 1), 0);
	struct roce_packet p;
	uint32_t next = 0;
	bool own = false;
	while (next < 4096) {
		assert_true(roce_peer_receive(&fix.peer, &p, RESPFIX_PATIENCE));
		if (p.bth.opcode == ROCE_SEND_ONLY) {
			own = true;
			continue;
		}
		assert_int_not_equal(p.bth.opcode, ROCE_ACKNOWLEDGE);
		assert_int_equal(p.bth.psn, (RESPFIX_PEER_PSN + next++) & ROCE_PSN_MASK);
	}
	assert_true(own); /* it did not wait for the end of the response */
	respfix_expect_ack(&fix, 4096);
}

/* A gap behind a READ is reported behind its response, if it is still there. */
static void gaps_are_reported_behind_the_response(void **state)
{
	(void)state;
	ask(0, 0, LONG);
	send_text(4097, "b"); /* 4096 is missing */
	respfix_expect_bytes(&fix, 0, 0, LONG);
	respfix_expect_nak(&fix, 4096, ROCE_NAK_PSN_SEQUENCE);
	send_text(4096, "a");
	respfix_expect_ack(&fix, 4097);

	ask(4098, 0, LONG);
	send_text(8195, "d");
	begin_to_answer();
	qp()->ep->blocked = true; /* the response waits until the gap counts as a loss */
	while (!qp()->rs.nak_waits)
		event_base_loop(fix.base, EVLOOP_ONCE);
	send_text(8194, "c");
	soft_device_hear(qp()->dev);
	soft_endpoint_block(qp()->ep); /* now the event loop sees that the socket is writable */
	respfix_expect_bytes(&fix, 4098, 0, LONG);
	respfix_expect_ack(&fix, 8195);
	assert_int_equal(fix.side.num_messages, 4);
	assert_int_equal(RESPFIX_GREW(&fix, naks_sent), 1);
	respfix_expect_silence(&fix);
}

static void refusals_come_behind_the_response(void **state)
{
	(void)state;
	struct roce_peer_packet bad = respfix_read(&fix, 4096, 0, 8);
	bad.reth.rkey ^= 1;
	ask(0, 0, LONG);
	respfix_post(&fix, &bad);
	send_text(4097, "x"); /* that is not carried out any more */
	send_text(4096, "x");
	begin_to_answer();
	/* A part of the response may still be asked for again. */
	ask(1, MTU, MTU);
	respfix_expect_bytes(&fix, 0, 0, LONG);
	respfix_expect_bytes(&fix, 1, MTU, MTU);
	respfix_expect_end(&fix, &bad, 4096, ROCE_NAK_REMOTE_ACCESS);
	assert_int_equal(fix.side.num_messages, 0);
}

/* The refusal of a packet stays what the peer has to learn, also if packets behind it wait for ones
 * that are missing, whatever came first. */
static void refusals_are_not_replaced(void **state)
{
	(void)state;
	for (int held = 0; held < 2; held++) {
		TRIES("%s", held ? "it came early" : "it came in its turn");
		const uint32_t n = 4096 + (uint32_t)held;
		struct roce_peer_packet bad = respfix_read(&fix, n, 0, 8);
		bad.reth.va += RESPFIX_MEM;
		respfix_reconnect(&fix);
		bad.qpn = rnic_qp_num(fix.side.qp);
		ask(0, 0, LONG);
		begin_to_answer();
		qp()->ep->blocked = true;
		send_text(n + 2, "x");
		if (held) { /* what could not be carried out is not held */
			bad = respfix_send(&fix, n, "ok");
			bad.opcode = ROCE_SEND_MIDDLE;
			bad.payload = fix.side.mem;
			bad.len = MTU;
		}
		respfix_post(&fix, &bad);
		if (held)
			send_text(4096, "before");
		while (!qp()->rs.refused)
			event_base_loop(fix.base, EVLOOP_ONCE);
		/* Meanwhile it counts as lost what is missing. */
		for (uint64_t end = soft_clock() + 5000; soft_clock() < end;)
			event_base_loop(fix.base, EVLOOP_NONBLOCK);
		soft_endpoint_block(qp()->ep);
		respfix_expect_bytes(&fix, 0, 0, LONG);
		respfix_expect_end(&fix, &bad, n,
				   held ? ROCE_NAK_INVALID_REQUEST : ROCE_NAK_REMOTE_ACCESS);
		assert_int_equal(RESPFIX_GREW(&fix, naks_sent), 2); /* with the repeated one */
	}
}

static void not_ready_comes_behind_the_response(void **state)
{
	(void)state;
	/* All come in one round, so the user is told of nothing in between. */
	for (uint32_t n = 0; n < RESPFIX_DEPTH; n++)
		send_text(n, "x");
	ask(RESPFIX_DEPTH, 0, 2 * MTU);
	send_text(RESPFIX_DEPTH + 2, "y");
	rnic_poll(fix.side.rnic); /* reads all of it, and sends nothing */
	respfix_expect_bytes(&fix, RESPFIX_DEPTH, 0, 2 * MTU);
	respfix_expect_answer(&fix, ROCE_RNR_NAK, RESPFIX_DEPTH + 2, -1);
	send_text(RESPFIX_DEPTH + 2, "y");
	respfix_expect_ack(&fix, RESPFIX_DEPTH + 2);
}

/* Requests that come early are held, also READs and what is behind them. */
static void out_of_order(void **state)
{
	(void)state;
	send_text(7, "c");
	ask(1, 50, 3 * MTU);
	ask(4, 60, 2 * MTU + 1);
	soft_device_hear(qp()->dev);
	assert_int_equal(qp()->rs.hold.count, 3);
	send_text(0, "a");
	respfix_expect_bytes(&fix, 1, 50, 3 * MTU);
	respfix_expect_bytes(&fix, 4, 60, 2 * MTU + 1);
	respfix_expect_ack(&fix, 7);
	assert_int_equal(fix.side.num_messages, 2);
	assert_int_equal(RESPFIX_GREW(&fix, naks_sent), 0);

	/* A READ that could not be carried out does not take the place of the right one. */
	struct roce_peer_packet forged = respfix_read(&fix, 9, 0, 8);
	forged.reth.rkey ^= 1;
	respfix_post(&fix, &forged);
	ask(9, 0, 8);
	send_text(8, "d");
	respfix_expect_bytes(&fix, 9, 0, 8);
	assert_int_equal(RESPFIX_GREW(&fix, drop_access), 1);
}

/* What is held for PSNs that turn out to be those of a READ's response is never carried out. */
static void held_packets_inside_of_a_read(void **state)
{
	(void)state;
	send_text(2, "wrong");
	send_text(4, "right");
	ask(0, 0, 4 * MTU);
	respfix_expect_bytes(&fix, 0, 0, 4 * MTU);
	respfix_expect_ack(&fix, 4);
	assert_int_equal(qp()->rs.hold.count, 0);
	assert_int_equal(fix.side.num_messages, 1);
	assert_memory_equal(fix.side.messages[0].data, "right", 5);
}

/* ---- memory that goes away */

static struct rnic_mr *register_readable(void)
{
	struct rnic_mr *mr;
	assert_int_equal(
		rnic_mr_register(fix.side.pd, fix.side.mem, LONG, RNIC_ACCESS_REMOTE_READ, &mr), 0);
	return mr;
}

static struct roce_peer_packet read_of(const struct rnic_mr *mr, uint32_t n, size_t at,
				       uint32_t len)
{
	struct roce_peer_packet p = respfix_read(&fix, n, 0, len);
	p.reth.rkey = rnic_mr_rkey(mr);
	p.reth.va = rnic_mr_vaddr(mr) + at;
	return p;
}

static void deregistered_under_way(void **state)
{
	(void)state;
	struct rnic_mr *mr = register_readable();
	struct roce_peer_packet p = read_of(mr, 0, 0, LONG);
	respfix_post(&fix, &p);
	begin_to_answer();
	const uint32_t sent = qp()->rs.responses->waiting[qp()->rs.responses->head].sent;
	assert_true(sent > 0 && sent < LONG / MTU);
	rnic_mr_deregister(mr);
	respfix_expect_some(&fix, 0, 0, LONG, sent);
	respfix_expect_end(&fix, &p, sent, ROCE_NAK_REMOTE_ACCESS);
	/* What the peer asks for again, from that packet on, gets the same answer. */
	p.psn = RESPFIX_PEER_PSN + sent;
	p.reth.va += (uint64_t)sent * MTU;
	p.reth.length -= sent * MTU;
	respfix_post(&fix, &p);
	respfix_expect_nak(&fix, sent, ROCE_NAK_REMOTE_ACCESS);
	assert_int_equal(RESPFIX_GREW(&fix, drop_access), 1);
}

/* A copy of a request that comes late, when the memory was deregistered, ends nothing. */
static void deregistered_before_it_is_asked_for_again(void **state)
{
	(void)state;
	struct rnic_mr *mr = register_readable();
	struct roce_peer_packet p = read_of(mr, 0, 0, 3 * MTU);
	respfix_post(&fix, &p);
	respfix_expect_bytes(&fix, 0, 0, 3 * MTU);
	rnic_mr_deregister(mr);
	respfix_post(&fix, &p);
	respfix_expect_silence(&fix);
	send_text(3, "x");
	respfix_expect_ack(&fix, 3);

	/* Also if the response to the copy is under way. */
	mr = register_readable();
	p = read_of(mr, 4, 0, LONG);
	respfix_post(&fix, &p);
	respfix_expect_bytes(&fix, 4, 0, LONG);
	respfix_post(&fix, &p);
	begin_to_answer();
	rnic_mr_deregister(mr);
	send_text(4100, "y");
	struct roce_packet answer;
	do {
		assert_true(roce_peer_receive(&fix.peer, &answer, RESPFIX_PATIENCE));
	} while (answer.bth.opcode != ROCE_ACKNOWLEDGE);
	assert_int_equal(answer.aeth.kind, ROCE_ACK);
	assert_int_equal(answer.bth.psn, (RESPFIX_PEER_PSN + 4100) & ROCE_PSN_MASK);
	assert_int_equal(fix.side.recv_errors, 0);
}

static void destroyed_under_way(void **state)
{
	(void)state;
	struct roce_peer_packet p = respfix_read(&fix, 0, 0, LONG);
	respfix_post(&fix, &p);
	begin_to_answer();
	rnic_side_qp_destroy(&fix.side);
	respfix_drain(&fix);
	respfix_post(&fix, &p);
	respfix_expect_nak(&fix, 0, ROCE_NAK_REMOTE_OPERATIONAL);
}

static void ended_under_way(void **state)
{
	(void)state;
	struct roce_peer_packet p = respfix_read(&fix, 0, 0, LONG);
	respfix_post(&fix, &p);
	send_text(4096, "x");
	begin_to_answer();
	assert_true(rnic_side_wait(fix.base, &fix.side.num_messages, 1, RESPFIX_PATIENCE));
	begin_to_answer();
	rnic_qp_error(fix.side.qp);
	assert_true(rnic_side_wait(fix.base, &fix.side.recv_errors, 1, RESPFIX_PATIENCE));
	struct roce_packet answer;
	while (roce_peer_receive(&fix.peer, &answer, 1))
		assert_int_not_equal(answer.bth.opcode, ROCE_ACKNOWLEDGE);
	respfix_post(&fix, &p);
	respfix_expect_nak(&fix, 0, ROCE_NAK_REMOTE_OPERATIONAL);
}

/* ---- turns */

/* Another queue pair gets a WRITE while READs are answered: it is carried out and acknowledged
 * while these still wait. What the peer's socket has no room for does not matter. */
static void expect_a_turn_for_others(void)
{
	struct rnic_qp *another = respfix_another_qp(&fix);
	const struct soft_responder *rs = &soft_qp_of(another)->rs;
	struct roce_peer_packet p = respfix_write(&fix, 0, LONG, "w", 1);
	fix.side.mem[LONG] = 0;
	p.qpn = rnic_qp_num(another);
	begin_to_answer();
	respfix_post(&fix, &p);
	const uint64_t sent = RESPFIX_GREW(&fix, tx_packets);
	while (fix.side.mem[LONG] != 'w' || rs->ack_pending)
		event_base_loop(fix.base, EVLOOP_ONCE);
	print_message("# answered behind %u packets\n",
		      (unsigned int)(RESPFIX_GREW(&fix, tx_packets) - sent));
	assert_true(soft_responses_wait(&qp()->rs));
	assert_int_equal(rs->unacked_packets, 0);
	rnic_qp_destroy(another);
}

static void others_have_their_turn(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < SOFT_MAX_READS_ANSWERED; i++)
		ask(i * LONG / MTU, 0, LONG);
	expect_a_turn_for_others();
}

/* A peer that asks again and again gets what it asks for, but only some responses wait, and the
 * others do not starve. */
static void flood(void **state)
{
	(void)state;
	ask(0, 0, LONG);
	respfix_expect_bytes(&fix, 0, 0, LONG);
	for (int i = 0; i < 2000; i++)
		ask(0, 0, LONG);
	expect_a_turn_for_others();
	assert_true(qp()->rs.responses->count <= SOFT_MAX_REPEATS);
	while (RESPFIX_GREW(&fix, duplicates) < 2000)
		event_base_loop(fix.base, EVLOOP_ONCE);
	assert_true(qp()->rs.responses->count <= SOFT_MAX_REPEATS);
}

/* A socket that is full delays the response. */
static void full_socket(void **state)
{
	(void)state;
	struct soft_endpoint *ep = qp()->ep;
	ask(0, 0, LONG);
	begin_to_answer();
	const struct soft_responses *rp = qp()->rs.responses;
	const uint32_t sent = rp->waiting[rp->head].sent;
	ep->blocked = true; /* the event that the socket is writable is not waited for yet */
	for (int i = 0; i < 4; i++)
		event_base_loop(fix.base, EVLOOP_NONBLOCK);
	assert_int_equal(rp->waiting[rp->head].sent, sent);
	soft_endpoint_block(ep);
	respfix_expect_bytes(&fix, 0, 0, LONG);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, connect_one, disconnect)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(reads_are_answered),
		TEST(without_segmentation),
		TEST(responses_carry_credits),
		TEST(empty_read),
		TEST(many_at_a_time),
		TEST(too_many_at_a_time),
		TEST(not_agreed),
		TEST(more_than_the_device_answers),
		TEST(in_the_middle_of_a_message),
		TEST(rights_and_bounds),
		TEST(asked_for_again),
		TEST(repeats_that_are_none),
		TEST(asked_for_again_long_after),
		TEST(the_oldest_is_forgotten),
		TEST(no_ack_names_a_read),
		TEST(acks_wait_for_the_response),
		TEST(acks_that_could_ride_along_wait),
		TEST(gaps_are_reported_behind_the_response),
		TEST(refusals_come_behind_the_response),
		TEST(refusals_are_not_replaced),
		TEST(not_ready_comes_behind_the_response),
		TEST(out_of_order),
		TEST(held_packets_inside_of_a_read),
		TEST(deregistered_under_way),
		TEST(deregistered_before_it_is_asked_for_again),
		TEST(destroyed_under_way),
		TEST(ended_under_way),
		TEST(others_have_their_turn),
		TEST(flood),
		TEST(full_socket),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

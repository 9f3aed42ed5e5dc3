/* SPDX-License-Identifier: MIT */
/* Soft RNIC, receive buffers that the user posts: completions, credits, buffers that are missing,
 * too short, or not writable, and the end of the queue pair. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "tests/lib/respfix.h"
#include "tests/lib/tries.h"

#define MTU   RESPFIX_MTU
#define DEPTH RESPFIX_DEPTH
#define PLACE 8192 /* of a buffer in the memory, bytes */

static struct respfix fix;

static int setup(void **state)
{
	(void)state;
	respfix_open(&fix);
	fix.side.user_receives = true;
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
	respfix_connect(&fix);
	return 0;
}

static int disconnect(void **state)
{
	(void)state;
	fix.side.hook = NULL;
	respfix_disconnect(&fix);
	return 0;
}

static struct rnic_recv_wr buffer(uint64_t id, uint32_t length)
{
	return (struct rnic_recv_wr){ .wr_id = id,
				      .addr = fix.side.mem + id * PLACE,
				      .length = length,
				      .lkey = rnic_mr_lkey(fix.side.source) };
}

static int post(uint64_t id, uint32_t length)
{
	struct rnic_recv_wr wr = buffer(id, length);
	return rnic_post_recv(fix.side.qp, &wr, 1);
}

static void send_text(uint32_t n, const char *text)
{
	struct roce_peer_packet p = respfix_send(&fix, n, text);
	respfix_post(&fix, &p);
}

static void expect_recv(size_t i, uint64_t id, enum rnic_wc_status status, uint32_t length)
{
	assert_true(rnic_side_wait(fix.base, &fix.side.num_recvs, i + 1, RESPFIX_PATIENCE));
	const struct rnic_wc *wc = &fix.side.recvs[i];
	assert_true(wc->is_recv);
	assert_int_equal(wc->status, status);
	assert_int_equal(wc->wr_id, id);
	assert_ptr_equal(wc->data, fix.side.mem + id * PLACE);
	assert_int_equal(wc->length, length);
	assert_false(wc->invalidated);
}

/* The completion that tells of the end, which is of no buffer. */
static void expect_last(size_t i)
{
	assert_true(rnic_side_wait(fix.base, &fix.side.num_recvs, i + 1, RESPFIX_PATIENCE));
	assert_int_equal(fix.side.recvs[i].status, RNIC_WC_WR_FLUSH_ERR);
	assert_null(fix.side.recvs[i].data);
	rnic_side_idle(fix.base, 1);
	assert_int_equal(fix.side.num_recvs, i + 1);
}

static void messages_fill_buffers_in_order(void **state)
{
	(void)state;
	struct roce_packet p;
	const struct rnic_recv_wr two[] = { buffer(7, 100), buffer(3, 5) };
	assert_int_equal(rnic_post_recv(fix.side.qp, two, 2), 0);
	assert_int_equal(post(5, 0), 0);
	send_text(0, "first");
	assert_true(roce_peer_receive(&fix.peer, &p, RESPFIX_PATIENCE));
	/* Credits are the buffers that are posted. */
	assert_int_equal(roce_credits_decode(p.aeth.value), 2);
	send_text(1, "other");
	respfix_expect_ack(&fix, 1);
	send_text(2, "");
	assert_true(roce_peer_receive(&fix.peer, &p, RESPFIX_PATIENCE));
	assert_int_equal(roce_credits_decode(p.aeth.value), 0);
	expect_recv(0, 7, RNIC_WC_SUCCESS, 5);
	expect_recv(1, 3, RNIC_WC_SUCCESS, 5);
	expect_recv(2, 5, RNIC_WC_SUCCESS, 0);
	/* They stay the user's. */
	assert_memory_equal(fix.side.mem + 7 * PLACE, "first", 5);
	assert_memory_equal(fix.side.mem + 3 * PLACE, "other", 5);
}

static void long_messages(void **state)
{
	(void)state;
	uint8_t data[2 * MTU + 7];
	rnic_side_pattern(data, sizeof(data), 9);
	assert_int_equal(post(1, sizeof(data)), 0);
	for (uint32_t n = 0; n < 3; n++) {
		static const uint8_t opcodes[] = { ROCE_SEND_FIRST, ROCE_SEND_MIDDLE,
						   ROCE_SEND_LAST };
		struct roce_peer_packet p = respfix_send(&fix, n, "");
		p.opcode = opcodes[n];
		p.payload = data + (size_t)n * MTU;
		p.len = n < 2 ? MTU : 7;
		respfix_post(&fix, &p);
	}
	respfix_expect_ack(&fix, 2);
	expect_recv(0, 1, RNIC_WC_SUCCESS, sizeof(data));
	assert_memory_equal(fix.side.mem + PLACE, data, sizeof(data));
}

/* A peer whose message finds no buffer is told to ask later, with a pause that lets a user post. */
static void none_is_posted(void **state)
{
	(void)state;
	struct roce_packet p;
	send_text(0, "early");
	assert_true(roce_peer_receive(&fix.peer, &p, RESPFIX_PATIENCE));
	assert_int_equal(p.aeth.kind, ROCE_RNR_NAK);
	assert_int_equal(p.bth.psn, RESPFIX_PEER_PSN);
	assert_int_equal(roce_rnr_timer_us(p.aeth.value), 640);
	send_text(1, "behind");
	respfix_expect_silence(&fix);
	assert_int_equal(post(1, 64), 0);
	assert_int_equal(post(2, 64), 0);
	send_text(0, "early");
	respfix_expect_ack(&fix, 1);
	expect_recv(0, 1, RNIC_WC_SUCCESS, 5);
	expect_recv(1, 2, RNIC_WC_SUCCESS, 6);
	assert_int_equal(RESPFIX_GREW(&fix, naks_sent), 0);
}

/* A message that is longer than its buffer ends the connection, and all buffers come back. */
static void too_long(void **state)
{
	(void)state;
	struct roce_peer_packet p = respfix_send(&fix, 1, "just fits not");
	assert_int_equal(post(1, 13), 0);
	assert_int_equal(post(2, 12), 0);
	assert_int_equal(post(3, 64), 0);
	send_text(0, "it just fits.");
	respfix_expect_ack(&fix, 0);
	respfix_post(&fix, &p);
	respfix_expect_end(&fix, &p, 1, ROCE_NAK_INVALID_REQUEST);
	expect_recv(0, 1, RNIC_WC_SUCCESS, 13);
	expect_recv(1, 2, RNIC_WC_WR_FLUSH_ERR, 0);
	expect_recv(2, 3, RNIC_WC_WR_FLUSH_ERR, 0);
	expect_last(3);
	assert_int_equal(post(4, 64), -EIO);
}

/* Also if it is so in its second packet, and nothing is written behind the buffer. */
static void too_long_at_its_end(void **state)
{
	(void)state;
	static const uint8_t data[MTU] = { [0 ... MTU - 1] = 0xEE };
	assert_int_equal(post(1, MTU + 3), 0);
	struct roce_peer_packet p = respfix_send(&fix, 0, "");
	p.opcode = ROCE_SEND_FIRST;
	p.payload = data;
	p.len = MTU;
	respfix_post(&fix, &p);
	respfix_expect_ack(&fix, 0);
	const uint8_t behind = fix.side.mem[PLACE + MTU];
	p = respfix_send(&fix, 1, "four");
	p.opcode = ROCE_SEND_LAST;
	respfix_post(&fix, &p);
	respfix_expect_end(&fix, &p, 1, ROCE_NAK_INVALID_REQUEST);
	assert_int_equal(fix.side.mem[PLACE + MTU], behind);
	expect_recv(0, 1, RNIC_WC_WR_FLUSH_ERR, 0);
	expect_last(1);
}

static void ended_by_the_user(void **state)
{
	(void)state;
	for (uint64_t id = 1; id <= DEPTH; id++)
		assert_int_equal(post(id, 64), 0);
	assert_int_equal(rnic_side_send(&fix.side, "x", 1, 1), 0);
	rnic_qp_error(fix.side.qp);
	assert_int_equal(post(9, 64), -EIO);
	for (uint64_t id = 1; id <= DEPTH; id++)
		expect_recv(id - 1, id, RNIC_WC_WR_FLUSH_ERR, 0);
	expect_last(DEPTH);
	assert_int_equal(fix.side.num_sends, 1);
}

/* The peer learns of the end by the connection manager, not by a NAK. */
static void ended_without_a_word(void **state)
{
	(void)state;
	const struct roce_peer_packet first = respfix_send(&fix, 0, "first"),
				      second = respfix_send(&fix, 1, "second");
	assert_int_equal(post(1, 64), 0);
	assert_int_equal(post(2, 64), 0);
	respfix_post(&fix, &first);
	respfix_expect_ack(&fix, 0);
	rnic_qp_error(fix.side.qp);
	assert_true(rnic_side_wait(fix.base, &fix.side.recv_errors, 2, RESPFIX_PATIENCE));
	respfix_post(&fix, &second);
	respfix_expect_silence(&fix);
	rnic_side_qp_destroy(&fix.side);
	respfix_post(&fix, &second);
	respfix_expect_silence(&fix);
}

static void what_may_be_posted(void **state)
{
	(void)state;
	struct rnic_mr *readable;
	struct rnic_recv_wr wr = buffer(1, 64);
	assert_int_equal(rnic_mr_register(fix.side.pd, fix.side.mem, PLACE, RNIC_ACCESS_REMOTE_READ,
					  &readable),
			 0);
	const struct {
		const char *what;
		uint8_t *addr;
		uint32_t length, lkey;
	} cases[] = {
		{ "no key", wr.addr, 64, 0 },
		{ "past the end", fix.side.mem + RESPFIX_MEM - 63, 64, wr.lkey },
		{ "before the start", fix.side.mem - 1, 64, wr.lkey },
		{ "of peers", wr.addr, 64, rnic_mr_lkey(fix.side.mr) },
		{ "not writable", fix.side.mem, 64, rnic_mr_lkey(readable) },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TRIES("%s", cases[i].what);
		const struct rnic_recv_wr both[] = {
			wr, { 2, cases[i].addr, cases[i].length, cases[i].lkey }
		};
		assert_int_equal(rnic_post_recv(fix.side.qp, both, 2), -EINVAL);
	}
	rnic_mr_deregister(readable);
	/* All or none: the first of each two was not posted either. */
	for (uint64_t id = 1; id <= DEPTH; id++)
		assert_int_equal(post(id, 64), 0);
	assert_int_equal(post(9, 64), -ENOMEM);
	send_text(0, "x");
	respfix_expect_ack(&fix, 0);
	expect_recv(0, 1, RNIC_WC_SUCCESS, 1);
	const struct rnic_recv_wr two[] = { buffer(5, 64), buffer(6, 64) };
	assert_int_equal(rnic_post_recv(fix.side.qp, two, 2), -ENOMEM);
	assert_int_equal(rnic_post_recv(fix.side.qp, two, 1), 0);
}

static void the_rnics_own_buffers(void **state)
{
	(void)state;
	fix.side.user_receives = false;
	respfix_reconnect(&fix);
	assert_int_equal(post(1, 64), -EINVAL);
	fix.side.user_receives = true;
}

/* Buffers may be posted before the queue pair is connected. */
static void posted_in_init(void **state)
{
	(void)state;
	struct rnic_qp_peer to = { .gid = { [10] = 0xFF, 0xFF, 10, 77, 0, 2 },
				   .qpn = RESPFIX_PEER_QPN,
				   .rq_psn = RESPFIX_PEER_PSN,
				   .path_mtu = RESPFIX_MTU_CODE };
	respfix_disconnect(&fix);
	rnic_side_qp(&fix.side, 8, DEPTH, RESPFIX_RECV);
	assert_int_equal(post(1, 64), 0);
	rnic_side_connect(&fix.side, &to, 1000, 7);
	send_text(0, "x");
	respfix_expect_ack(&fix, 0);
	expect_recv(0, 1, RNIC_WC_SUCCESS, 1);
}

/* What was filled takes a place until the user is told of it. */
static void posted_before_it_is_told(void **state)
{
	(void)state;
	for (uint64_t id = 0; id < DEPTH; id++)
		assert_int_equal(post(id, 64), 0);
	for (uint32_t n = 0; n < DEPTH; n++)
		send_text(n, "x");
	soft_device_hear(soft_device_of(fix.side.rnic));
	assert_int_equal(fix.side.num_recvs, 0);
	assert_int_equal(post(DEPTH, 64), -ENOMEM);
	respfix_expect_ack(&fix, DEPTH - 1);
	expect_recv(DEPTH - 1, DEPTH - 1, RNIC_WC_SUCCESS, 1);
	assert_int_equal(post(DEPTH, 64), 0);
}

static uint64_t next_id;

static void post_again(struct rnic_side *side, const struct rnic_wc *wc)
{
	(void)side;
	if (wc->is_recv && wc->status == RNIC_WC_SUCCESS)
		assert_int_equal(post(next_id++, 64), 0);
}

/* A callback may post a buffer for each that it is told of. */
static void posted_in_the_callback(void **state)
{
	(void)state;
	for (next_id = 0; next_id < DEPTH; next_id++)
		assert_int_equal(post(next_id, 64), 0);
	fix.side.hook = post_again;
	for (uint32_t n = 0; n < 10 * DEPTH; n += DEPTH) {
		for (uint32_t i = 0; i < DEPTH; i++)
			send_text(n + i, "x");
		rnic_poll(fix.side.rnic);
		respfix_expect_ack(&fix, n + DEPTH - 1);
	}
	for (uint32_t i = 0; i < 10 * DEPTH; i++)
		expect_recv(i, i, RNIC_WC_SUCCESS, 1);
	assert_int_equal(RESPFIX_GREW(&fix, rnr_naks_sent), 0);
}

/* Memory that was deregistered while its buffer was posted is not written. That is this side's
 * fault: the user is told so, and the peer too. */
static void deregistered(void **state)
{
	(void)state;
	static const uint8_t data[MTU];
	struct rnic_mr *mr;
	struct rnic_recv_wr wr = buffer(1, 2 * MTU);
	assert_int_equal(
		rnic_mr_register(fix.side.pd, wr.addr, wr.length, RNIC_ACCESS_LOCAL_WRITE, &mr), 0);
	wr.lkey = rnic_mr_lkey(mr);
	assert_int_equal(rnic_post_recv(fix.side.qp, &wr, 1), 0);
	assert_int_equal(post(2, 64), 0);
	struct roce_peer_packet p = respfix_send(&fix, 0, "");
	p.opcode = ROCE_SEND_FIRST;
	p.payload = data;
	p.len = MTU;
	respfix_post(&fix, &p);
	respfix_expect_ack(&fix, 0);
	rnic_mr_deregister(mr);
	const uint8_t before = fix.side.mem[PLACE + MTU];
	p = respfix_send(&fix, 1, "last");
	p.opcode = ROCE_SEND_LAST;
	respfix_post(&fix, &p);
	respfix_expect_end(&fix, &p, 1, ROCE_NAK_REMOTE_OPERATIONAL);
	assert_int_equal(fix.side.mem[PLACE + MTU], before);
	expect_recv(0, 1, RNIC_WC_LOC_PROT_ERR, 0);
	expect_recv(1, 2, RNIC_WC_WR_FLUSH_ERR, 0);
	expect_last(2);
}

/* A queue pair that is destroyed with posted buffers tells nothing of them. */
static void destroyed(void **state)
{
	(void)state;
	for (uint64_t id = 0; id < DEPTH; id++)
		assert_int_equal(post(id, 64), 0);
	rnic_side_qp_destroy(&fix.side);
	rnic_side_idle(fix.base, 1);
	assert_int_equal(fix.side.num_recvs, 0);
}

/* Two soft RNICs. The sender does not repeat what finds no buffer, so its connection ends. */
static void no_retry(void **state)
{
	(void)state;
	struct rnic_side sender;
	testnet_addr_add("t1", "10.77.0.4/24");
	roce_peer_close(&fix.peer);
	rnic_side_open(&sender, fix.base, "soft:t1", 4096);
	respfix_disconnect(&fix);
	rnic_side_qp(&fix.side, 8, DEPTH, RESPFIX_RECV);
	rnic_side_qp(&sender, 8, DEPTH, RESPFIX_RECV);
	struct rnic_qp_peer to = rnic_side_peer(&fix.side, 0, RESPFIX_MTU_CODE);
	struct rnic_qp_peer from = rnic_side_peer(&sender, 0, RESPFIX_MTU_CODE);
	rnic_side_connect(&sender, &to, 4000, 0);
	rnic_side_connect(&fix.side, &from, 4000, 0);
	assert_int_equal(post(1, 64), 0);
	assert_int_equal(rnic_side_send(&sender, "x", 1, 1), 0);
	expect_recv(0, 1, RNIC_WC_SUCCESS, 1);
	assert_int_equal(rnic_side_send(&sender, "x", 1, 2), 0);
	assert_true(rnic_side_wait(fix.base, &sender.num_sends, 2, RESPFIX_PATIENCE));
	assert_int_equal(sender.sends[0].status, RNIC_WC_SUCCESS);
	assert_int_equal(sender.sends[1].status, RNIC_WC_RNR_RETRY_EXC_ERR);
	rnic_side_close(&sender);
	testnet_addr_delete("t1", "10.77.0.4/24");
	roce_peer_open(&fix.peer, fix.base, "10.77.0.2", "10.77.0.1", ROCE_UDP_PORT);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, connect_one, disconnect)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(messages_fill_buffers_in_order),
		TEST(long_messages),
		TEST(none_is_posted),
		TEST(too_long),
		TEST(too_long_at_its_end),
		TEST(ended_by_the_user),
		TEST(ended_without_a_word),
		TEST(what_may_be_posted),
		TEST(the_rnics_own_buffers),
		TEST(posted_in_init),
		TEST(posted_before_it_is_told),
		TEST(posted_in_the_callback),
		TEST(deregistered),
		TEST(destroyed),
		TEST(no_retry),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

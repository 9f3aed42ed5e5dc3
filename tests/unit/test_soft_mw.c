/* SPDX-License-Identifier: MIT */
/* Soft RNIC, memory windows against a scripted peer: what a token gives, who may use it, and how it
 * ends, by its user or by a SEND that invalidates it. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "tests/lib/respfix.h"
#include "tests/lib/tries.h"

#define MTU      RESPFIX_MTU
#define AT       5000 /* where the window begins in the memory */
#define LEN      3000
#define LONG     (4u << 20) /* a READ that is too long for one run of the loop */
#define BOTH     (RNIC_ACCESS_REMOTE_READ | RNIC_ACCESS_REMOTE_WRITE)
#define ON(what) (fix.side.mem + (what))

static struct respfix fix;
static struct rnic_window *window;

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
	respfix_connect(&fix);
	assert_int_equal(rnic_window_new(fix.side.pd, &window), 0);
	return 0;
}

static int disconnect(void **state)
{
	(void)state;
	if (window)
		rnic_window_free(window);
	window = NULL;
	respfix_disconnect(&fix);
	return 0;
}

static int bind_it(unsigned int access)
{
	return rnic_window_bind(window, fix.side.qp, fix.both, ON(AT), LEN, access);
}

static struct roce_peer_packet read_it(uint32_t n, uint64_t offset, uint32_t len)
{
	struct roce_peer_packet p = respfix_read(&fix, n, 0, len);
	p.reth.rkey = rnic_window_rkey(window);
	p.reth.va = rnic_window_vaddr(window) + offset;
	return p;
}

static struct roce_peer_packet write_it(uint32_t n, uint64_t offset, const void *data, size_t len)
{
	struct roce_peer_packet p = respfix_write(&fix, n, 0, data, len);
	p.reth.rkey = rnic_window_rkey(window);
	p.reth.va = rnic_window_vaddr(window) + offset;
	return p;
}

static struct roce_peer_packet kill_it(uint32_t n, uint32_t rkey, const char *text)
{
	struct roce_peer_packet p = respfix_send(&fix, n, text);
	p.opcode = ROCE_SEND_ONLY_INVALIDATE;
	p.invalidate = rkey;
	return p;
}

/* The peer cannot reach the memory with the token that the window had. */
static void expect_dead(uint32_t n)
{
	struct roce_peer_packet p = read_it(n, 0, 8);
	respfix_post(&fix, &p);
	respfix_expect_end(&fix, &p, n, ROCE_NAK_REMOTE_ACCESS);
}

static void read_and_written(void **state)
{
	(void)state;
	struct rnic_info info;
	rnic_get_info(fix.side.rnic, &info);
	assert_true(info.windows);
	assert_int_equal(bind_it(BOTH), 0);
	struct roce_peer_packet p = read_it(0, 0, LEN);
	respfix_post(&fix, &p);
	respfix_expect_bytes(&fix, 0, AT, LEN);
	p = write_it(3, LEN - 4, "last", 4);
	respfix_post(&fix, &p);
	respfix_expect_ack(&fix, 3);
	assert_memory_equal(ON(AT + LEN - 4), "last", 4);
	p = read_it(4, LEN - 8, 8);
	respfix_post(&fix, &p);
	respfix_expect_bytes(&fix, 4, AT + LEN - 8, 8);
}

static void bounds(void **state)
{
	(void)state;
	static const struct {
		const char *what;
		uint64_t offset;
		uint32_t len;
	} cases[] = {
		{ "before it", UINT64_MAX, 8 },
		{ "past its end", LEN - 7, 8 },
		{ "behind it", LEN, 1 },
		{ "longer", 0, LEN + 1 },
		{ "where the region is", 0u - (uint64_t)AT, 8 },
	};
	for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
		const bool write = i & 1;
		TRIES("%s %s", write ? "WRITE" : "READ", cases[i / 2].what);
		disconnect(NULL);
		connect_one(NULL);
		assert_int_equal(bind_it(BOTH), 0);
		struct roce_peer_packet p =
			write ? write_it(0, cases[i / 2].offset, "xxxxxxxx", 8)
			      : read_it(0, cases[i / 2].offset, cases[i / 2].len);
		if (write && cases[i / 2].len > MTU)
			continue;
		respfix_post(&fix, &p);
		respfix_expect_end(&fix, &p, 0, ROCE_NAK_REMOTE_ACCESS);
	}
}

static void rights(void **state)
{
	(void)state;
	assert_int_equal(bind_it(RNIC_ACCESS_REMOTE_READ), 0);
	struct roce_peer_packet p = write_it(0, 0, "w", 1);
	respfix_post(&fix, &p);
	respfix_expect_end(&fix, &p, 0, ROCE_NAK_REMOTE_ACCESS);
	disconnect(NULL);
	connect_one(NULL);
	assert_int_equal(bind_it(RNIC_ACCESS_REMOTE_WRITE), 0);
	p = read_it(0, 0, 1);
	respfix_post(&fix, &p);
	respfix_expect_end(&fix, &p, 0, ROCE_NAK_REMOTE_ACCESS);
}

/* The token is no key for own requests. */
static void not_for_own_requests(void **state)
{
	(void)state;
	assert_int_equal(bind_it(RNIC_ACCESS_REMOTE_READ), 0);
	struct rnic_send_wr wr = { .wr_id = 1,
				   .opcode = RNIC_WR_SEND,
				   .num_sge = 1,
				   .sge = { { ON(AT), 4, rnic_window_rkey(window) } } };
	assert_int_equal(rnic_post_send(fix.side.qp, &wr, 1), 0);
	assert_true(rnic_side_wait(fix.base, &fix.side.num_sends, 1, RESPFIX_PATIENCE));
	assert_int_equal(fix.side.sends[0].status, RNIC_WC_LOC_PROT_ERR);
}

/* Each binding has a token and an address of its own. */
static void bound_again(void **state)
{
	(void)state;
	uint32_t keys[16];
	uint64_t addrs[16];
	for (size_t i = 0; i < 16; i++) {
		assert_int_equal(bind_it(BOTH), 0);
		assert_int_equal(bind_it(BOTH), -EBUSY);
		keys[i] = rnic_window_rkey(window);
		addrs[i] = rnic_window_vaddr(window);
		assert_int_not_equal(keys[i], 0);
		assert_true(addrs[i] != 0 && addrs[i] != (uintptr_t)ON(AT));
		for (size_t k = 0; k < i; k++)
			assert_true(keys[k] != keys[i] && addrs[k] != addrs[i]);
		if (i < 15)
			assert_int_equal(rnic_window_invalidate(window, fix.side.qp), 0);
	}
	struct roce_peer_packet p = read_it(0, 0, 8);
	respfix_post(&fix, &p);
	respfix_expect_bytes(&fix, 0, AT, 8);
	/* The token of before is dead, at the address of before and of now. */
	p = read_it(1, 0, 8);
	p.reth.rkey = keys[14];
	respfix_post(&fix, &p);
	respfix_expect_end(&fix, &p, 1, ROCE_NAK_REMOTE_ACCESS);
	disconnect(NULL);
	connect_one(NULL);
	assert_int_equal(bind_it(BOTH), 0);
	p = read_it(0, 0, 8);
	p.reth.va = addrs[15];
	respfix_post(&fix, &p);
	respfix_expect_end(&fix, &p, 0, ROCE_NAK_REMOTE_ACCESS);
}

static void invalidated_by_the_user(void **state)
{
	(void)state;
	assert_int_equal(rnic_window_invalidate(window, fix.side.qp), 0); /* it is not bound */
	assert_int_equal(bind_it(BOTH), 0);
	assert_int_equal(rnic_window_invalidate(window, fix.side.qp), 0);
	expect_dead(0);
}

static void what_can_be_bound(void **state)
{
	(void)state;
	struct rnic_qp *qp = fix.side.qp;
	struct rnic_pd *pd;
	struct rnic_mr *foreign;
	struct rnic_window *alien;
	assert_int_equal(rnic_pd_alloc(fix.side.rnic, &pd), 0);
	assert_int_equal(rnic_mr_register(pd, fix.side.mem, LEN, RNIC_ACCESS_REMOTE_READ, &foreign),
			 0);
	assert_int_equal(rnic_window_new(pd, &alien), 0);
	const struct {
		const char *what;
		struct rnic_window *window;
		struct rnic_mr *mr;
		const uint8_t *addr;
		size_t len;
		unsigned int access;
	} cases[] = {
		{ "no bytes", window, fix.both, ON(AT), 0, BOTH },
		{ "no address", window, fix.both, NULL, LEN, BOTH },
		{ "no right", window, fix.both, ON(AT), LEN, 0 },
		{ "a local right", window, fix.both, ON(AT), LEN, RNIC_ACCESS_LOCAL_WRITE },
		{ "before the region", window, fix.both, ON(0) - 1, 8, BOTH },
		{ "past its end", window, fix.both, ON(RESPFIX_MEM - 7), 8, BOTH },
		{ "all and a byte", window, fix.both, ON(0), RESPFIX_MEM + 1, BOTH },
		{ "around the end of memory", window, fix.both, ON(8), SIZE_MAX - 3, BOTH },
		{ "READ of what may be written", window, fix.side.mr, ON(AT), LEN, BOTH },
		{ "WRITE of what may be read", window, fix.readable, ON(AT), LEN, BOTH },
		{ "own memory", window, fix.side.source, ON(AT), LEN, RNIC_ACCESS_REMOTE_READ },
		{ "region of another PD", window, foreign, ON(0), 8, RNIC_ACCESS_REMOTE_READ },
		{ "window of another PD", alien, fix.both, ON(0), 8, BOTH },
		{ "both of another PD", alien, foreign, ON(0), 8, RNIC_ACCESS_REMOTE_READ },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TRIES("%s", cases[i].what);
		assert_int_equal(rnic_window_bind(cases[i].window, qp, cases[i].mr, cases[i].addr,
						  cases[i].len, cases[i].access),
				 -EINVAL);
	}
	rnic_window_free(alien);
	rnic_mr_deregister(foreign);
	rnic_pd_free(pd);
	/* All of the region, and its last byte. */
	assert_int_equal(rnic_window_bind(window, qp, fix.both, ON(0), RESPFIX_MEM, BOTH), 0);
	assert_int_equal(rnic_window_invalidate(window, qp), 0);
	assert_int_equal(rnic_window_bind(window, qp, fix.both, ON(RESPFIX_MEM - 1), 1, BOTH), 0);
}

/* As for requests, the queue pair has to be able to send. */
static void state_of_the_queue_pair(void **state)
{
	(void)state;
	struct rnic_qp_peer to = { .gid = { [10] = 0xFF, 0xFF, 10, 77, 0, 2 },
				   .qpn = RESPFIX_PEER_QPN,
				   .rq_psn = RESPFIX_PEER_PSN,
				   .path_mtu = RESPFIX_MTU_CODE };
	respfix_disconnect(&fix);
	rnic_side_qp(&fix.side, 8, 4, RESPFIX_RECV);
	assert_int_equal(bind_it(BOTH), -ENOTCONN);
	assert_int_equal(rnic_window_invalidate(window, fix.side.qp), -ENOTCONN);
	rnic_side_connect(&fix.side, &to, 1000, 7);
	assert_int_equal(bind_it(BOTH), 0);
	rnic_qp_error(fix.side.qp);
	assert_int_equal(rnic_window_invalidate(window, fix.side.qp), -EIO);
	rnic_window_free(window);
	assert_int_equal(rnic_window_new(fix.side.pd, &window), 0);
	assert_int_equal(bind_it(BOTH), -EIO);
}

/* ---- whose it is */

/* The peer of another queue pair, of the same PD, can neither use nor kill the token. */
static void of_another_queue_pair(void **state)
{
	(void)state;
	struct rnic_qp *another = respfix_another_qp(&fix);
	assert_int_equal(rnic_window_bind(window, another, fix.both, ON(AT), LEN, BOTH), 0);
	struct roce_peer_packet mine = read_it(0, 0, 8);
	mine.qpn = rnic_qp_num(another);
	expect_dead(0);
	respfix_reconnect(&fix);
	struct roce_peer_packet p = write_it(0, 0, "w", 1);
	respfix_post(&fix, &p);
	respfix_expect_end(&fix, &p, 0, ROCE_NAK_REMOTE_ACCESS);
	respfix_reconnect(&fix);
	p = kill_it(0, rnic_window_rkey(window), "x");
	respfix_post(&fix, &p);
	respfix_expect_end(&fix, &p, 0, ROCE_NAK_REMOTE_ACCESS);
	assert_int_equal(fix.side.num_messages, 0);
	/* It still serves the one that it is for. */
	respfix_reconnect(&fix);
	respfix_post(&fix, &mine);
	respfix_expect_bytes(&fix, 0, AT, 8);
	/* A queue pair cannot end what is bound for another one, as with a verbs device. */
	assert_int_equal(rnic_window_invalidate(window, fix.side.qp), -EINVAL);
	mine.psn++;
	respfix_post(&fix, &mine);
	respfix_expect_bytes(&fix, 1, AT, 8);
	/* Bound anew, for this one, it does not any more. */
	assert_int_equal(rnic_window_invalidate(window, another), 0);
	assert_int_equal(bind_it(BOTH), 0);
	p = read_it(0, 0, 8);
	respfix_post(&fix, &p);
	respfix_expect_bytes(&fix, 0, AT, 8);
	rnic_qp_destroy(another);
}

/* Windows end with their queue pair, and with their region, and the other way round. */
static void ends_of_others(void **state)
{
	(void)state;
	struct rnic_mr *mr;
	assert_int_equal(rnic_mr_register(fix.side.pd, ON(0), LEN, RNIC_ACCESS_REMOTE_READ, &mr),
			 0);
	assert_int_equal(
		rnic_window_bind(window, fix.side.qp, mr, ON(0), 8, RNIC_ACCESS_REMOTE_READ), 0);
	struct roce_peer_packet p = read_it(0, 0, 8);
	respfix_post(&fix, &p);
	respfix_expect_bytes(&fix, 0, 0, 8);
	rnic_mr_deregister(mr);
	expect_dead(1);
	assert_int_equal(RESPFIX_GREW(&fix, drop_access), 1);

	respfix_reconnect(&fix);
	assert_int_equal(bind_it(BOTH), 0); /* the region's end has ended the binding */
	respfix_reconnect(&fix);
	expect_dead(0);
	respfix_reconnect(&fix);
	assert_int_equal(bind_it(BOTH), 0); /* the queue pair's, too */
	rnic_window_free(window);
	window = NULL;
	p = respfix_read(&fix, 0, AT, 8);
	respfix_post(&fix, &p);
	respfix_expect_bytes(&fix, 0, AT, 8);
}

static void freed_while_it_is_bound(void **state)
{
	(void)state;
	assert_int_equal(bind_it(BOTH), 0);
	struct roce_peer_packet p = read_it(0, 0, 8);
	rnic_window_free(window);
	window = NULL;
	respfix_post(&fix, &p);
	respfix_expect_end(&fix, &p, 0, ROCE_NAK_REMOTE_ACCESS);
}

/* Many windows of a region and a queue pair, freed in another order. */
static void many(void **state)
{
	(void)state;
	struct rnic_window *windows[64];
	for (size_t i = 0; i < 64; i++) {
		assert_int_equal(rnic_window_new(fix.side.pd, &windows[i]), 0);
		assert_int_equal(
			rnic_window_bind(windows[i], fix.side.qp, fix.both, ON(64 * i), 64, BOTH),
			0);
	}
	for (size_t i = 0; i < 64; i += 2)
		rnic_window_free(windows[i]);
	for (uint32_t i = 1; i < 64; i += 2) {
		struct roce_peer_packet p = respfix_read(&fix, i / 2, 0, 64);
		p.reth.rkey = rnic_window_rkey(windows[i]);
		p.reth.va = rnic_window_vaddr(windows[i]);
		respfix_post(&fix, &p);
		respfix_expect_bytes(&fix, i / 2, 64 * (size_t)i, 64);
	}
	for (size_t i = 1; i < 64; i += 2)
		rnic_window_free(windows[i]);
}

/* A response that is under way ends with the window. */
static void invalidated_under_way(void **state)
{
	(void)state;
	struct soft_responder *rs = &soft_qp_of(fix.side.qp)->rs;
	assert_int_equal(rnic_window_bind(window, fix.side.qp, fix.both, ON(0), LONG, BOTH), 0);
	struct roce_peer_packet p = read_it(0, 0, LONG);
	respfix_post(&fix, &p);
	while (!soft_responses_wait(rs))
		event_base_loop(fix.base, EVLOOP_ONCE);
	const uint32_t sent = rs->responses->waiting[rs->responses->head].sent;
	assert_int_equal(rnic_window_invalidate(window, fix.side.qp), 0);
	respfix_expect_some(&fix, 0, 0, LONG, sent);
	respfix_expect_end(&fix, &p, sent, ROCE_NAK_REMOTE_ACCESS);
}

/* ---- invalidated by the peer */

static uint32_t key_in_callback;

static void look_at_token(struct rnic_side *side, const struct rnic_wc *wc)
{
	if (wc->invalidated) {
		struct soft_device *dev = soft_device_of(side->rnic);
		key_in_callback = wc->invalidated_rkey;
		assert_null(soft_token_find(dev, wc->invalidated_rkey));
	}
}

/* The token dies before the user is told of the message. */
static void invalidated_by_the_peer(void **state)
{
	(void)state;
	assert_int_equal(bind_it(BOTH), 0);
	struct roce_peer_packet p = kill_it(0, rnic_window_rkey(window), "done");
	fix.side.hook = look_at_token;
	respfix_post(&fix, &p);
	/* As that of any SEND, the ACK waits for something that it can go with. */
	soft_device_hear(soft_device_of(fix.side.rnic));
	assert_false(soft_qp_of(fix.side.qp)->rs.ack_pending);
	assert_true(soft_qp_of(fix.side.qp)->rs.ack_deadline != 0);
	respfix_expect_ack(&fix, 0);
	fix.side.hook = NULL;
	assert_int_equal(key_in_callback, rnic_window_rkey(window));
	assert_int_equal(fix.side.num_recvs, 1);
	assert_true(fix.side.recvs[0].invalidated);
	assert_int_equal(fix.side.messages[0].length, 4);
	assert_memory_equal(fix.side.messages[0].data, "done", 4);
	/* A copy of it changes nothing. A SEND without a token tells of none. */
	respfix_post(&fix, &p);
	respfix_expect_ack(&fix, 0);
	p = respfix_send(&fix, 1, "plain");
	respfix_post(&fix, &p);
	respfix_expect_ack(&fix, 1);
	assert_int_equal(fix.side.num_recvs, 2);
	assert_false(fix.side.recvs[1].invalidated);
	/* The window can be bound again without the user's help. */
	assert_int_equal(bind_it(BOTH), 0);
	p = read_it(2, 0, 8);
	respfix_post(&fix, &p);
	respfix_expect_bytes(&fix, 2, AT, 8);
}

static void invalidated_by_a_long_message(void **state)
{
	(void)state;
	static const uint8_t data[MTU];
	fix.side.user_receives = true;
	respfix_reconnect(&fix);
	fix.side.user_receives = false;
	struct rnic_recv_wr wr = { 1, ON(0), 2 * MTU, rnic_mr_lkey(fix.side.source) };
	assert_int_equal(rnic_post_recv(fix.side.qp, &wr, 1), 0);
	assert_int_equal(bind_it(BOTH), 0);
	struct roce_peer_packet p = respfix_send(&fix, 0, "");
	p.opcode = ROCE_SEND_FIRST;
	p.payload = data;
	p.len = MTU;
	respfix_post(&fix, &p);
	respfix_expect_ack(&fix, 0);
	p = kill_it(1, rnic_window_rkey(window), "end");
	p.opcode = ROCE_SEND_LAST_INVALIDATE;
	respfix_post(&fix, &p);
	respfix_expect_ack(&fix, 1);
	assert_int_equal(fix.side.num_recvs, 1);
	assert_true(fix.side.recvs[0].invalidated);
	assert_int_equal(fix.side.recvs[0].invalidated_rkey, rnic_window_rkey(window));
	assert_int_equal(fix.side.recvs[0].length, MTU + 3);
	expect_dead(2);
}

/* Run the loop until the RNIC answers a READ that is too long for one run, and has the response
 * wait until let_go(). */
static struct soft_responder *begin_to_answer(void)
{
	struct soft_qp *qp = soft_qp_of(fix.side.qp);
	while (!soft_responses_wait(&qp->rs))
		event_base_loop(fix.base, EVLOOP_ONCE);
	qp->ep->blocked = true;
	return &qp->rs;
}

static void let_go(void)
{
	soft_endpoint_block(soft_qp_of(fix.side.qp)->ep);
}

static void nothing_waits(struct rnic_side *side, const struct rnic_wc *wc)
{
	look_at_token(side, wc);
	assert_false(soft_responses_wait(&soft_qp_of(side->qp)->rs));
}

/* A peer may ask for the end of a token that it still reads through: the response comes first, and
 * the user is told when it has left. What is behind that waits, and nothing is reported missing. */
static void invalidated_behind_a_read(void **state)
{
	(void)state;
	const uint32_t packets = LONG / MTU;
	assert_int_equal(rnic_window_bind(window, fix.side.qp, fix.both, ON(0), LONG, BOTH), 0);
	struct roce_peer_packet p = read_it(0, 0, LONG);
	struct roce_peer_packet kill = kill_it(packets, rnic_window_rkey(window), "done");
	struct roce_peer_packet last = respfix_send(&fix, packets + 1, "last");
	fix.side.hook = nothing_waits;
	respfix_post(&fix, &p);
	respfix_post(&fix, &kill);
	respfix_post(&fix, &last);
	respfix_post(&fix, &kill); /* a copy */
	struct soft_responder *rs = begin_to_answer();
	while (rs->hold.count < 2)
		event_base_loop(fix.base, EVLOOP_ONCE);
	for (uint64_t end = soft_clock() + 5000; soft_clock() < end;)
		event_base_loop(fix.base, EVLOOP_NONBLOCK); /* longer than a gap lasts */
	assert_int_equal(fix.side.num_recvs, 0);
	let_go();
	respfix_expect_bytes(&fix, 0, 0, LONG);
	respfix_expect_ack(&fix, packets + 1);
	fix.side.hook = NULL;
	assert_int_equal(fix.side.num_recvs, 2);
	assert_int_equal(fix.side.recvs[0].invalidated_rkey, rnic_window_rkey(window));
	assert_false(fix.side.recvs[1].invalidated);
	assert_int_equal(rs->hold.count, 0);
	assert_int_equal(RESPFIX_GREW(&fix, naks_sent), 0);
	expect_dead(packets + 2);
}

/* It came before what is in front of it, and is not missing any more when it has come. */
static void invalidated_behind_a_read_out_of_order(void **state)
{
	(void)state;
	const uint32_t packets = LONG / MTU;
	assert_int_equal(rnic_window_bind(window, fix.side.qp, fix.both, ON(0), LONG, BOTH), 0);
	struct roce_peer_packet p = read_it(0, 0, LONG);
	struct roce_peer_packet first = respfix_send(&fix, packets, "first");
	struct roce_peer_packet kill = kill_it(packets + 1, rnic_window_rkey(window), "done");
	struct roce_peer_packet last = respfix_send(&fix, packets + 2, "last");
	respfix_post(&fix, &p);
	struct soft_responder *rs = begin_to_answer();
	respfix_post(&fix, &last);
	while (!rs->nak_waits) /* the gap lasts for too long */
		event_base_loop(fix.base, EVLOOP_ONCE);
	respfix_post(&fix, &kill);
	respfix_post(&fix, &first);
	while (fix.side.num_recvs < 1)
		event_base_loop(fix.base, EVLOOP_ONCE);
	assert_true(soft_responses_wait(rs));
	let_go();
	respfix_expect_bytes(&fix, 0, 0, LONG);
	respfix_expect_ack(&fix, packets + 2);
	assert_int_equal(fix.side.num_recvs, 3);
	assert_true(fix.side.recvs[1].invalidated);
	assert_int_equal(RESPFIX_GREW(&fix, naks_sent), 0);
}

/* Only responses that are read through the token count. */
static void invalidated_beside_a_read(void **state)
{
	(void)state;
	assert_int_equal(bind_it(BOTH), 0);
	struct roce_peer_packet p = respfix_read(&fix, 0, 0, LONG);
	struct roce_peer_packet kill = kill_it(LONG / MTU, rnic_window_rkey(window), "done");
	respfix_post(&fix, &p);
	struct soft_responder *rs = begin_to_answer();
	respfix_post(&fix, &kill);
	while (fix.side.num_recvs < 1)
		event_base_loop(fix.base, EVLOOP_ONCE);
	assert_true(soft_responses_wait(rs));
	let_go();
	respfix_expect_bytes(&fix, 0, 0, LONG);
	respfix_expect_ack(&fix, LONG / MTU);
}

/* While it waits, there may be no buffer for it, and the queue pair may end. */
static void ends_while_it_waits(void **state)
{
	(void)state;
	fix.side.user_receives = true;
	respfix_reconnect(&fix);
	fix.side.user_receives = false;
	assert_int_equal(rnic_window_bind(window, fix.side.qp, fix.both, ON(0), LONG, BOTH), 0);
	struct roce_peer_packet p = read_it(0, 0, LONG);
	struct roce_peer_packet kill = kill_it(LONG / MTU, rnic_window_rkey(window), "done");
	respfix_post(&fix, &p);
	respfix_post(&fix, &kill);
	respfix_expect_bytes(&fix, 0, 0, LONG);
	respfix_expect_answer(&fix, ROCE_RNR_NAK, LONG / MTU, -1);

	respfix_reconnect(&fix);
	assert_int_equal(rnic_window_bind(window, fix.side.qp, fix.both, ON(0), LONG, BOTH), 0);
	p = read_it(0, 0, LONG);
	kill = kill_it(LONG / MTU, rnic_window_rkey(window), "done");
	respfix_post(&fix, &p);
	respfix_post(&fix, &kill);
	struct soft_responder *rs = begin_to_answer();
	while (rs->hold.count < 1)
		event_base_loop(fix.base, EVLOOP_ONCE);
	rnic_qp_error(fix.side.qp);
	let_go();
	assert_true(rnic_side_wait(fix.base, &fix.side.recv_errors, 1, RESPFIX_PATIENCE));
	assert_int_equal(fix.side.num_messages, 0);
	assert_non_null(soft_token_find(soft_device_of(fix.side.rnic), rnic_window_rkey(window)));
}

/* What is no token of the connection's windows ends the connection, and the user is not told of the
 * message. */
static void tokens_that_cannot_be_killed(void **state)
{
	(void)state;
	const char *const cases[] = { "0", "a region", "own memory", "dead", "nobody's" };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TRIES("%s", cases[i]);
		disconnect(NULL);
		connect_one(NULL);
		assert_int_equal(bind_it(BOTH), 0);
		const uint32_t keys[] = { 0, rnic_mr_rkey(fix.both), rnic_mr_rkey(fix.side.source),
					  rnic_window_rkey(window), rnic_window_rkey(window) ^ 1 };
		if (i == 3)
			assert_int_equal(rnic_window_invalidate(window, fix.side.qp), 0);
		struct roce_peer_packet p = kill_it(0, keys[i], "x");
		respfix_post(&fix, &p);
		respfix_expect_end(&fix, &p, 0, ROCE_NAK_REMOTE_ACCESS);
		assert_int_equal(fix.side.num_messages, 0);
		assert_int_equal(RESPFIX_GREW(&fix, drop_access), 1);
	}
}

/* A message that cannot be taken kills nothing. */
static void refused_before_the_token_dies(void **state)
{
	(void)state;
	char text[RESPFIX_RECV + 2];
	memset(text, 'x', sizeof(text));
	text[RESPFIX_RECV + 1] = '\0';
	assert_int_equal(bind_it(BOTH), 0);
	struct roce_peer_packet p = kill_it(0, rnic_window_rkey(window), text);
	respfix_post(&fix, &p);
	respfix_expect_end(&fix, &p, 0, ROCE_NAK_INVALID_REQUEST);
	assert_non_null(soft_token_find(soft_device_of(fix.side.rnic), rnic_window_rkey(window)));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, connect_one, disconnect)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(read_and_written),
		TEST(bounds),
		TEST(rights),
		TEST(not_for_own_requests),
		TEST(bound_again),
		TEST(invalidated_by_the_user),
		TEST(what_can_be_bound),
		TEST(state_of_the_queue_pair),
		TEST(of_another_queue_pair),
		TEST(ends_of_others),
		TEST(freed_while_it_is_bound),
		TEST(many),
		TEST(invalidated_under_way),
		TEST(invalidated_by_the_peer),
		TEST(invalidated_by_a_long_message),
		TEST(invalidated_behind_a_read),
		TEST(invalidated_behind_a_read_out_of_order),
		TEST(invalidated_beside_a_read),
		TEST(ends_while_it_waits),
		TEST(tokens_that_cannot_be_killed),
		TEST(refused_before_the_token_dies),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

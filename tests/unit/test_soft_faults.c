/* SPDX-License-Identifier: MIT */
/* A soft RNIC on a bad network, and with a peer that is stopped. When a SEND completes, the WRITE
 * before it is in place, and every SEND completes once, in order. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/rnic/soft.h"
#include "tests/lib/mangler.h"
#include "tests/lib/random.h"
#include "tests/lib/rnic_side.h"
#include "tests/lib/testnet.h"

#define SLOTS    32
#define SLOT     16384
#define MEM      (2 * SLOTS * SLOT) /* bytes to send, and bytes received */
#define PATIENCE 20000

/* A SEND describes the WRITE before it. */
struct note {
	uint32_t seq;
	uint32_t len;
	uint32_t seed;
};

struct stream {
	struct rnic_side side;
	struct stream *peer;
	struct random random;
	uint32_t to_send; /* number of messages in all */
	uint32_t sent;    /* posted */
	size_t received;
	size_t done; /* SENDs that have completed */
};

static struct testnet net;
static struct event_base *base;
static struct mangler mangler;
static struct stream streams[2];

static void post_more(struct stream *s)
{
	while (s->sent < s->to_send && s->sent < s->done + SLOTS) {
		struct note note = { .seq = s->sent, .seed = (uint32_t)random_u64(&s->random) };
		size_t at = (s->sent % SLOTS) * SLOT;
		note.len = random_below(&s->random, 4) ? random_below(&s->random, 300)
						       : random_below(&s->random, SLOT);
		rnic_side_pattern(s->side.mem + at, note.len, note.seed);
		struct rnic_send_wr wr[2] = {
			{ .opcode = RNIC_WR_RDMA_WRITE,
			  .num_sge = 1,
			  .sge = { { s->side.mem + at, note.len, rnic_mr_lkey(s->side.source) } },
			  .remote_addr = rnic_mr_vaddr(s->peer->side.mr) + MEM / 2 + at,
			  .rkey = rnic_mr_rkey(s->peer->side.mr) },
			{ .wr_id = s->sent,
			  .opcode = RNIC_WR_SEND,
			  .flags = RNIC_SEND_SIGNALED | RNIC_SEND_INLINE,
			  .num_sge = 1,
			  .sge = { { &note, sizeof(note), 0 } } },
		};
		assert_int_equal(rnic_post_send(s->side.qp, wr, 2), 0);
		s->sent++;
	}
}

static void on_told(struct rnic_side *side, const struct rnic_wc *wc)
{
	struct stream *s = side->hook_ctx;
	assert_int_equal(wc->status, RNIC_WC_SUCCESS);
	if (wc->is_recv) {
		static uint8_t expect[SLOT];
		struct note note;
		assert_int_equal(wc->length, sizeof(note));
		memcpy(&note, wc->data, sizeof(note));
		assert_int_equal(note.seq, s->received);
		rnic_side_pattern(expect, note.len, note.seed);
		assert_memory_equal(side->mem + MEM / 2 + (note.seq % SLOTS) * SLOT, expect,
				    note.len);
		s->received++;
	} else {
		assert_int_equal(wc->wr_id, s->done);
		s->done++;
		post_more(s);
	}
}

static int setup(void **state)
{
	(void)state;
	testnet_new(&net, 1500);
	base = event_base_new();
	for (int i = 0; i < 2; i++) {
		testnet_enter(&net, i);
		rnic_side_open(&streams[i].side, base, i ? "soft:t1" : "soft:t0", MEM);
		streams[i].peer = &streams[!i];
	}
	mangler_open(&mangler, &net, base, 1);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	mangler_close(&mangler);
	for (int i = 0; i < 2; i++)
		rnic_side_close(&streams[i].side);
	event_base_free(base);
	testnet_free(&net);
	return 0;
}

static void report(const char *what)
{
	for (int i = 0; i < 2; i++) {
		struct rnic_stats s;
		rnic_get_stats(streams[i].side.rnic, &s);
		print_message("# %s: tx %lu rx %lu retransmits %lu naks %lu/%lu timeouts %lu "
			      "duplicates %lu out_of_order %lu icrc %lu\n",
			      what, s.tx_packets, s.rx_packets, s.retransmits, s.naks_sent,
			      s.naks_received, s.timeouts, s.duplicates, s.out_of_order,
			      s.drop_icrc);
	}
}

/* Sends in both directions at once through the relay. */
static void run_streams(const char *what, uint64_t seed, uint32_t messages,
			struct mangler_faults faults)
{
	mangler.random.state = seed;
	mangler.faults = faults;
	for (int i = 0; i < 2; i++) {
		struct stream *s = &streams[i];
		s->random.state = seed + (uint64_t)i + 1;
		s->to_send = messages;
		s->sent = 0;
		s->received = s->done = 0;
		s->side.hook = on_told;
		s->side.hook_ctx = s;
		s->side.psn = (0xFFFFF0 + (uint32_t)seed) & 0xFFFFFF;
		rnic_side_qp(&s->side, 2 * SLOTS, 16, 64);
	}
	for (int i = 0; i < 2; i++) {
		struct rnic_qp_peer peer = rnic_side_peer(&streams[!i].side, 0, 3);
		mangler_gid(i, peer.gid);
		rnic_side_connect(&streams[i].side, &peer, 4000, 7);
	}
	for (int i = 0; i < 2; i++)
		post_more(&streams[i]);
	for (int i = 0; i < 2; i++) {
		if (!rnic_side_wait(base, &streams[i].done, messages, PATIENCE) ||
		    !rnic_side_wait(base, &streams[i].received, messages, PATIENCE)) {
			report(what);
			fail_msg("%s, seed %lu: stuck at %zu done, %zu received", what, seed,
				 streams[i].done, streams[i].received);
		}
	}
	for (int i = 0; i < 2; i++) {
		rnic_side_qp_destroy(&streams[i].side);
		rnic_side_forget(&streams[i].side);
		streams[i].side.hook = NULL;
	}
	report(what);
}

static void good_network(void **state)
{
	(void)state;
	run_streams("no faults", 1, 500, (struct mangler_faults){ 0 });
	struct rnic_stats s;
	rnic_get_stats(streams[0].side.rnic, &s);
	assert_int_equal(s.drop_icrc + s.drop_access + s.drop_psn + s.drop_malformed, 0);
}

static void lost(void **state)
{
	(void)state;
	run_streams("5 % lost", 2, 300, (struct mangler_faults){ .lose = 50 });
	assert_true(mangler.lost > 0);
}

static void reordered(void **state)
{
	(void)state;
	struct rnic_stats s0, s1;
	rnic_get_stats(streams[0].side.rnic, &s0);
	run_streams("5 % delayed", 3, 500, (struct mangler_faults){ .delay = 50 });
	rnic_get_stats(streams[0].side.rnic, &s1);
	assert_true(s1.out_of_order > s0.out_of_order);
}

static void duplicated(void **state)
{
	(void)state;
	struct rnic_stats s0, s1;
	rnic_get_stats(streams[0].side.rnic, &s0);
	run_streams("5 % doubled", 4, 500, (struct mangler_faults){ .duplicate = 50 });
	rnic_get_stats(streams[0].side.rnic, &s1);
	assert_true(s1.duplicates > s0.duplicates);
}

static void everything_at_once(void **state)
{
	(void)state;
	struct rnic_stats s0, s1;
	rnic_get_stats(streams[0].side.rnic, &s0);
	for (uint64_t seed = 10; seed < 13; seed++)
		run_streams("5 % of each", seed, 100, (struct mangler_faults){ 50, 50, 50, 50 });
	rnic_get_stats(streams[0].side.rnic, &s1);
	assert_true(s1.drop_icrc > s0.drop_icrc);
	assert_true(s1.retransmits > s0.retransmits);
}

/* Large packets vanish, also the one that asks for an ACK. The packets before it are acknowledged
 * all the same, before the queue pair fails: this shows that small ones pass (A67). */
static void large_packets_vanish(void **state)
{
	(void)state;
	const uint32_t sizes[] = { 256, 512, 1024 };
	struct rnic_side *side = &streams[0].side, *other = &streams[1].side;
	mangler.faults = (struct mangler_faults){ .most = 600 };
	for (int i = 0; i < 2; i++)
		rnic_side_qp(&streams[i].side, SLOTS, 16, 64);
	for (int i = 0; i < 2; i++) {
		struct rnic_qp_peer peer = rnic_side_peer(&streams[!i].side, 0, 3);
		mangler_gid(i, peer.gid);
		rnic_side_connect(&streams[i].side, &peer, 600, 7);
	}
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(rnic_side_write(side, 0, sizes[i], other, MEM / 2, i), 0);
	assert_true(rnic_side_wait(base, &side->num_sends, 3, PATIENCE));
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(side->sends[i].wr_id, i);
		assert_int_equal(side->sends[i].status,
				 i < 2 ? RNIC_WC_SUCCESS : RNIC_WC_RETRY_EXC_ERR);
	}
	for (int i = 0; i < 2; i++) {
		rnic_side_qp_destroy(&streams[i].side);
		rnic_side_forget(&streams[i].side);
	}
}

static void without_segmentation(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		rnic_soft_set_segmentation(streams[i].side.rnic, false);
	run_streams("FIRST/MIDDLE/LAST", 20, 150, (struct mangler_faults){ 50, 50, 50, 0 });
	for (int i = 0; i < 2; i++)
		rnic_soft_set_segmentation(streams[i].side.rnic, true);
}

/* The two processes of the next test exchange this over a socket pair. */
struct hello {
	struct rnic_qp_peer peer;
	uint64_t mem;
	uint32_t rkey;
};

static void swap_hello(int fd, struct rnic_side *side, struct hello *ret_other)
{
	struct hello own = { .peer = rnic_side_peer(side, 0, 3),
			     .mem = rnic_mr_vaddr(side->mr),
			     .rkey = rnic_mr_rkey(side->mr) };
	assert_int_equal(write(fd, &own, sizeof(own)), sizeof(own));
	assert_int_equal(read(fd, ret_other, sizeof(*ret_other)), sizeof(*ret_other));
}

/* Answers each message with the same message. */
static void echo(struct rnic_side *side, const struct rnic_wc *wc)
{
	if (wc->is_recv && wc->status == RNIC_WC_SUCCESS)
		rnic_side_send(side, wc->data, wc->length, 0);
}

static void echo_process(const struct testnet *n, int fd)
{
	struct rnic_side side;
	struct hello other;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	testnet_enter(n, 1);
	struct event_base *own = event_base_new();
	rnic_side_open(&side, own, "soft:t1", 4096);
	side.hook = echo;
	rnic_side_qp(&side, 4096, 1024, 64);
	swap_hello(fd, &side, &other);
	rnic_side_connect(&side, &other.peer, 4000, 7);
	for (;;)
		event_base_loop(own, EVLOOP_ONCE);
}

/* A peer is stopped for a second: no message is lost, and no error is reported. */
static void stopped_peer(void **state)
{
	(void)state;
	int fds[2];
	struct testnet own;
	struct rnic_side side;
	struct hello other;
	testnet_new(&own, 1500);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	pid_t child = fork();
	if (child == 0)
		echo_process(&own, fds[1]);
	struct event_base *loop = event_base_new();
	rnic_side_open(&side, loop, "soft:t0", 4096);
	rnic_side_qp(&side, 4096, 1024, 64);
	swap_hello(fds[0], &side, &other);
	rnic_side_connect(&side, &other.peer, 4000, 7);

	uint32_t n = 0;
	for (; n < 100; n++)
		assert_int_equal(rnic_side_send(&side, &n, sizeof(n), n), 0);
	assert_true(rnic_side_wait(loop, &side.num_messages, n, PATIENCE));
	kill(child, SIGSTOP);
	for (; n < 1000; n++)
		assert_int_equal(rnic_side_send(&side, &n, sizeof(n), n), 0);
	rnic_side_idle(loop, 1000);
	kill(child, SIGCONT);
	assert_true(rnic_side_wait(loop, &side.num_messages, n, PATIENCE));
	assert_true(rnic_side_wait(loop, &side.num_sends, n, PATIENCE));
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(side.sends[i].status, RNIC_WC_SUCCESS);
		assert_memory_equal(side.messages[i].data, &i, sizeof(i));
	}
	assert_int_equal(side.recv_errors, 0);
	struct rnic_stats stats;
	rnic_get_stats(side.rnic, &stats);
	assert_true(stats.timeouts > 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	rnic_side_close(&side);
	event_base_free(loop);
	testnet_free(&own);
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_network),
		cmocka_unit_test(lost),
		cmocka_unit_test(reordered),
		cmocka_unit_test(duplicated),
		cmocka_unit_test(everything_at_once),
		cmocka_unit_test(large_packets_vanish),
		cmocka_unit_test(without_segmentation),
		cmocka_unit_test(stopped_peer),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

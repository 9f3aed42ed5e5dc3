/* SPDX-License-Identifier: MIT */
/* RDMA READs between two soft RNICs on a bad network, among other requests in both directions. A
 * READ behind a WRITE finds what the WRITE has brought, nothing is written beside the place of a
 * READ, and all requests complete once, in order. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "daemon/rnic/soft.h"
#include "tests/lib/mangler.h"
#include "tests/lib/random.h"
#include "tests/lib/rnic_side.h"
#include "tests/lib/testnet.h"
#include "tests/lib/tries.h"

#define SLOTS    16
#define SLOT     32768
#define AREA     (SLOTS * SLOT)
#define PATIENCE 60000

/* Three areas in memory: what is written to the peer, what the peer writes here, and what is read
 * from the peer. */
enum area {
	OWN,
	FROM_PEER,
	READ_BACK,
	AREAS,
};

struct op {
	uint32_t at, len; /* of the READ, within the slot */
	uint32_t seed;
};

struct stream {
	struct rnic_side side;
	struct rnic_mr *readable; /* all of its memory, for the peer to read and write */
	struct stream *peer;
	struct random random;
	struct op ops[SLOTS];
	uint64_t to_do, posted;
	size_t done;
};

static struct testnet net;
static struct event_base *base;
static struct mangler mangler;
static struct stream streams[2];

static uint8_t *slot(struct stream *s, enum area area, uint64_t number)
{
	return s->side.mem + (size_t)area * AREA + number % SLOTS * SLOT;
}

/* WRITE a slot of the peer, READ a part of it back into two pieces, and tell the peer. */
static void post_one(struct stream *s)
{
	struct op *op = &s->ops[s->posted % SLOTS];
	uint8_t *own = slot(s, OWN, s->posted), *back = slot(s, READ_BACK, s->posted);
	const uint64_t far =
		rnic_mr_vaddr(s->peer->readable) + FROM_PEER * AREA + s->posted % SLOTS * SLOT;
	const uint32_t rkey = rnic_mr_rkey(s->peer->readable);
	const uint32_t lkey = rnic_mr_lkey(s->side.source);
	op->seed = (uint32_t)random_u64(&s->random);
	op->len = random_below(&s->random, random_below(&s->random, 2) ? SLOT : 3000);
	op->at = random_below(&s->random, SLOT - op->len);
	const uint32_t first = random_below(&s->random, op->len + 1);
	rnic_side_pattern(own, SLOT, op->seed);
	memset(back, 0, SLOT);
	const struct rnic_send_wr wr[] = {
		{ .opcode = RNIC_WR_RDMA_WRITE,
		  .num_sge = 1,
		  .sge = { { own, SLOT, lkey } },
		  .remote_addr = far,
		  .rkey = rkey },
		{ .wr_id = s->posted,
		  .opcode = RNIC_WR_RDMA_READ,
		  .flags = RNIC_SEND_SIGNALED,
		  .num_sge = 2,
		  .sge = { { back + op->at, first, lkey },
			   { back + op->at + first, op->len - first, lkey } },
		  .remote_addr = far + op->at,
		  .rkey = rkey },
		{ .opcode = RNIC_WR_SEND,
		  .flags = RNIC_SEND_INLINE,
		  .num_sge = 1,
		  .sge = { { "done", 4, 0 } } },
	};
	assert_int_equal(rnic_post_send(s->side.qp, wr, 3), 0);
	s->posted++;
}

static void post_more(struct stream *s)
{
	while (s->posted < s->to_do && s->posted < s->done + SLOTS)
		post_one(s);
}

static void check(struct stream *s, uint64_t number)
{
	const struct op *op = &s->ops[number % SLOTS];
	const uint8_t *own = slot(s, OWN, number), *back = slot(s, READ_BACK, number);
	assert_memory_equal(back + op->at, own + op->at, op->len);
	for (uint32_t i = 0; i < SLOT; i++)
		if (i < op->at || i >= op->at + op->len)
			assert_int_equal(back[i], 0);
}

static void on_told(struct rnic_side *side, const struct rnic_wc *wc)
{
	struct stream *s = side->hook_ctx;
	assert_int_equal(wc->status, RNIC_WC_SUCCESS);
	if (wc->is_recv)
		return;
	assert_int_equal(wc->wr_id, s->done);
	check(s, s->done);
	s->done++;
	post_more(s);
}

static int setup(void **state)
{
	(void)state;
	testnet_new(&net, 1500);
	base = event_base_new();
	for (int i = 0; i < 2; i++) {
		struct stream *s = &streams[i];
		testnet_enter(&net, i);
		rnic_side_open(&s->side, base, i ? "soft:t1" : "soft:t0", AREAS * AREA);
		assert_int_equal(rnic_mr_register(s->side.pd, s->side.mem, AREAS * AREA,
						  RNIC_ACCESS_LOCAL_WRITE |
							  RNIC_ACCESS_REMOTE_WRITE |
							  RNIC_ACCESS_REMOTE_READ,
						  &s->readable),
				 0);
		s->peer = &streams[!i];
		s->side.hook = on_told;
		s->side.hook_ctx = s;
	}
	mangler_open(&mangler, &net, base, 1);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	mangler_close(&mangler);
	for (int i = 0; i < 2; i++) {
		rnic_mr_deregister(streams[i].readable);
		rnic_side_close(&streams[i].side);
	}
	event_base_free(base);
	testnet_free(&net);
	return 0;
}

static void start(int which, uint64_t seed, uint64_t to_do, uint8_t reads)
{
	struct stream *s = &streams[which];
	s->random.state = seed + (uint64_t)which + 1;
	s->to_do = to_do;
	s->posted = s->done = 0;
	s->side.psn = (0xFFFF00 + (uint32_t)seed) & 0xFFFFFF;
	s->side.reads_asked = reads;
	rnic_side_qp(&s->side, 8 * SLOTS, 16, 64);
}

/* @param reads  READs at a time */
static void run_streams(const char *what, uint64_t seed, uint64_t to_do, uint8_t reads,
			struct mangler_faults faults)
{
	TRIES("%s, seed %lu", what, seed);
	mangler.random.state = seed;
	mangler.faults = faults;
	for (int i = 0; i < 2; i++)
		start(i, seed, to_do, reads);
	for (int i = 0; i < 2; i++) {
		struct rnic_qp_peer peer = rnic_side_peer(&streams[!i].side, 0, 3);
		mangler_gid(i, peer.gid);
		peer.reads_answered = reads;
		rnic_side_connect(&streams[i].side, &peer, 4000, 7);
	}
	for (int i = 0; i < 2; i++)
		post_more(&streams[i]);
	for (int i = 0; i < 2; i++)
		if (!rnic_side_wait(base, &streams[i].done, to_do, PATIENCE))
			fail_msg("stuck at %zu done", streams[i].done);
	for (int i = 0; i < 2; i++) {
		struct rnic_stats s;
		rnic_side_qp_destroy(&streams[i].side);
		rnic_side_forget(&streams[i].side);
		rnic_get_stats(streams[i].side.rnic, &s);
		print_message("# %s: tx %lu rx %lu retransmits %lu naks %lu/%lu timeouts %lu "
			      "duplicates %lu out_of_order %lu malformed %lu\n",
			      what, s.tx_packets, s.rx_packets, s.retransmits, s.naks_sent,
			      s.naks_received, s.timeouts, s.duplicates, s.out_of_order,
			      s.drop_malformed);
		assert_int_equal(s.drop_access, 0);
		if (mangler.damaged == 0)
			assert_int_equal(s.drop_malformed, 0);
	}
}

static void good_network(void **state)
{
	(void)state;
	run_streams("no faults", 1, 200, 4, (struct mangler_faults){ 0 });
	run_streams("one at a time", 2, 200, 1, (struct mangler_faults){ 0 });
}

static void lost(void **state)
{
	(void)state;
	run_streams("2 % lost", 3, 60, 16, (struct mangler_faults){ .lose = 20 });
	run_streams("2 % lost, one at a time", 4, 60, 1, (struct mangler_faults){ .lose = 20 });
}

static void reordered(void **state)
{
	(void)state;
	run_streams("5 % delayed", 5, 100, 4, (struct mangler_faults){ .delay = 50 });
}

static void duplicated(void **state)
{
	(void)state;
	run_streams("5 % doubled", 6, 100, 4, (struct mangler_faults){ .duplicate = 50 });
}

static void everything_at_once(void **state)
{
	(void)state;
	for (uint64_t seed = 10; seed < 14; seed++)
		run_streams("3 % of each", seed, 20, seed % 2 ? 1 : 8,
			    (struct mangler_faults){ 30, 30, 30, 30 });
}

static void without_segmentation(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		rnic_soft_set_segmentation(streams[i].side.rnic, false);
	run_streams("FIRST/MIDDLE/LAST", 20, 30, 4, (struct mangler_faults){ 30, 30, 30, 0 });
	for (int i = 0; i < 2; i++)
		rnic_soft_set_segmentation(streams[i].side.rnic, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_network),       cmocka_unit_test(lost),
		cmocka_unit_test(reordered),          cmocka_unit_test(duplicated),
		cmocka_unit_test(everything_at_once), cmocka_unit_test(without_segmentation),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

/* SPDX-License-Identifier: MIT */
/* Soft RNIC: two devices on a veth pair move data. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/rnic/soft.h"
#include "tests/lib/rnic_side.h"
#include "tests/lib/testnet.h"

#define MEM      (4u << 20)
#define PATIENCE 5000

static struct testnet net;
static struct event_base *base;
static struct rnic_side a, b;

static int setup(void **state)
{
	(void)state;
	testnet_new(&net, 9000);
	base = event_base_new();
	rnic_side_open(&a, base, "soft:t0", MEM);
	testnet_enter(&net, 1);
	rnic_side_open(&b, base, "soft:t1", MEM);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rnic_side_close(&a);
	rnic_side_close(&b);
	event_base_free(base);
	testnet_free(&net);
	return 0;
}

static int connect_default(void **state)
{
	(void)state;
	rnic_side_qp(&a, 64, 32, 8192);
	rnic_side_qp(&b, 64, 32, 8192);
	rnic_side_join(&a, &b, 3);
	return 0;
}

static int disconnect(void **state)
{
	(void)state;
	rnic_side_qp_destroy(&a);
	rnic_side_qp_destroy(&b);
	rnic_side_forget(&a);
	rnic_side_forget(&b);
	rnic_soft_set_segmentation(a.rnic, true);
	rnic_soft_set_segmentation(b.rnic, true);
	a.psn = b.psn = 0x123456;
	return 0;
}

static void device_says_what_it_is(void **state)
{
	(void)state;
	struct rnic_info info;
	rnic_get_info(a.rnic, &info);
	assert_string_equal(info.name, "soft:t0");
	assert_string_equal(info.netdev, "t0");
	assert_int_equal(info.kind, RNIC_SOFT);
	assert_int_equal(info.port, 1);
	assert_int_equal(info.state, RNIC_PORT_ACTIVE);
	assert_int_equal(info.max_path_mtu, 5);
	assert_int_equal(info.num_gids, 1);
	static const uint8_t gid[16] = { [10] = 0xFF, 0xFF, 10, 77, 0, 1 };
	assert_memory_equal(info.gids[0].raw, gid, 16);
	assert_int_equal(info.gids[0].prefix_len, 24);
	assert_int_equal(info.gids[0].type, RNIC_GID_ROCE_V2);
	testnet_enter(&net, 0);
	uint8_t mac[6];
	testnet_link_mac("t0", mac);
	assert_memory_equal(info.mac, mac, 6);
}

/* A WRITE and the SEND behind it: when the message is told, the data are there. */
static void write_then_send(void **state)
{
	(void)state;
	rnic_side_pattern(a.mem, 64, 1);
	memset(b.mem, 0, 100);
	assert_int_equal(rnic_side_write(&a, 0, 64, &b, 10, 1), 0);
	assert_int_equal(rnic_side_send(&a, "0123456789012345678901234567890123456789abcd", 44, 2),
			 0);
	assert_true(rnic_side_wait(base, &b.num_messages, 1, PATIENCE));
	assert_memory_equal(b.mem + 10, a.mem, 64);
	assert_int_equal(b.mem[9], 0);
	assert_int_equal(b.mem[74], 0);
	assert_int_equal(b.messages[0].length, 44);
	assert_memory_equal(b.messages[0].data, "0123456789012345678901234567890123456789abcd", 44);
	assert_true(rnic_side_wait(base, &a.num_sends, 2, PATIENCE));
	assert_int_equal(a.sends[0].wr_id, 1);
	assert_int_equal(a.sends[1].wr_id, 2);
	assert_int_equal(a.sends[0].status, RNIC_WC_SUCCESS);
	assert_int_equal(a.sends[1].status, RNIC_WC_SUCCESS);
	struct rnic_qp_stats stats;
	rnic_qp_get_stats(a.qp, &stats);
	assert_int_equal(stats.tx_bytes, 108);
	rnic_qp_get_stats(b.qp, &stats);
	assert_int_equal(stats.rx_bytes, 108);
}

/* Lengths around every boundary, both forms of WRITE, both directions at once. */
static void writes_of_every_length(void **state)
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
		assert_true(rnic_side_wait(base, &b.num_messages, 1, PATIENCE));
		assert_true(rnic_side_wait(base, &a.num_messages, 1, PATIENCE));
		assert_memory_equal(b.mem + (2u << 20) + 8, a.mem, len);
		assert_memory_equal(a.mem + (2u << 20) + 8, b.mem, len);
		for (int k = 0; k < 8; k++) {
			assert_int_equal(b.mem[(2u << 20) + k], 0x55);
			assert_int_equal(b.mem[(2u << 20) + 8 + len + (unsigned int)k], 0x55);
		}
		assert_true(rnic_side_wait(base, &a.num_sends, 2, PATIENCE));
		assert_true(rnic_side_wait(base, &b.num_sends, 2, PATIENCE));
	}
}

static void writes_without_segmentation(void **state)
{
	rnic_soft_set_segmentation(a.rnic, false);
	rnic_soft_set_segmentation(b.rnic, false);
	writes_of_every_length(state);
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
			.sge = { { a.mem + split, len - split, rnic_mr_lkey(a.mr) },
				 { a.mem, split, rnic_mr_lkey(a.mr) } },
		};
		size_t before = b.num_messages;
		assert_int_equal(rnic_post_send(a.qp, &wr, 1), 0);
		assert_true(rnic_side_wait(base, &b.num_messages, before + 1, PATIENCE));
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
		disconnect(NULL);
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
		assert_true(rnic_side_wait(base, &b.num_messages, 1, PATIENCE));
		assert_memory_equal(b.mem, a.mem, len);
		assert_int_equal(rnic_side_send(&b, "y", 1, 3), 0);
		assert_int_equal(rnic_side_send(&b, "z", 1, 4), 0);
		assert_true(rnic_side_wait(base, &b.num_sends, 2, PATIENCE));
		assert_true(rnic_side_wait(base, &a.num_sends, 2, PATIENCE));
		assert_int_equal(a.num_messages, 2);
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
		if (rnic_side_send(&a, &n, sizeof(n), n) == 0)
			n++;
		else
			event_base_loop(base, EVLOOP_ONCE);
	}
	assert_true(rnic_side_wait(base, &b.num_messages, n, PATIENCE));
	for (uint32_t i = 0; i < n; i++)
		assert_memory_equal(b.messages[i].data, &i, sizeof(i));
	assert_true(rnic_side_wait(base, &a.num_sends, n, PATIENCE));
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
	/* All or nothing. */
	assert_int_equal(rnic_post_send(a.qp, wr, 65), -ENOMEM);
	assert_int_equal(rnic_post_send(a.qp, wr, 60), 0);
	assert_int_equal(rnic_post_send(a.qp, wr, 5), -ENOMEM);
	wr[3].flags = RNIC_SEND_SIGNALED;
	assert_int_equal(rnic_post_send(a.qp, wr, 4), 0);
	assert_true(rnic_side_wait(base, &a.num_sends, 1, PATIENCE));
	assert_int_equal(a.sends[0].wr_id, 3);
	assert_int_equal(b.num_messages, 64);
	assert_int_equal(a.num_sends, 1);

	struct rnic_send_wr bad = { .opcode = RNIC_WR_SEND, .num_sge = 3 };
	assert_int_equal(rnic_post_send(a.qp, &bad, 1), -EINVAL);
	bad = (struct rnic_send_wr){ .opcode = RNIC_WR_SEND,
				     .flags = RNIC_SEND_INLINE,
				     .num_sge = 1,
				     .sge = { { a.mem, RNIC_MAX_INLINE + 1, 0 } } };
	assert_int_equal(rnic_post_send(a.qp, &bad, 1), -EINVAL);
}

/* Inline data may change after the post, and no callback runs inside a call. */
static void inline_is_copied(void **state)
{
	(void)state;
	char data[] = "before";
	assert_int_equal(rnic_side_send(&a, data, 6, 1), 0);
	memcpy(data, "after!", 6);
	assert_int_equal(a.batches + b.batches, 0);
	assert_true(rnic_side_wait(base, &b.num_messages, 1, PATIENCE));
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
		assert_true(rnic_side_wait(base, &y[i].num_messages, 1, PATIENCE));
		assert_true(rnic_side_wait(base, &x[i].num_sends, 2, PATIENCE));
	}
	assert_memory_equal(b.mem, a.mem, PAIRS * 400000);
	for (int i = 0; i < PAIRS; i++) {
		rnic_side_qp_destroy(&x[i]);
		rnic_side_qp_destroy(&y[i]);
		rnic_side_forget(&x[i]);
		rnic_side_forget(&y[i]);
	}
}

int main(void)
{
#define CONNECTED(f) cmocka_unit_test_setup_teardown(f, connect_default, disconnect)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(device_says_what_it_is),
		CONNECTED(write_then_send),
		CONNECTED(writes_of_every_length),
		CONNECTED(writes_without_segmentation),
		CONNECTED(long_sends),
		CONNECTED(path_mtus_and_psn_wrap),
		CONNECTED(many_sends),
		CONNECTED(post_rules),
		CONNECTED(inline_is_copied),
		CONNECTED(queue_pairs_share),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

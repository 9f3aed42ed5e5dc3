/* SPDX-License-Identifier: MIT */
/* Soft RNIC: datagrams of queue pair 1, against a scripted peer. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "daemon/rnic/soft/internal.h"
#include "tests/lib/proves.h"
#include "tests/lib/rnic_side.h"
#include "tests/lib/roce_peer.h"
#include "tests/lib/testnet.h"
#include "tests/lib/tries.h"

#define PATIENCE 30000 /* milliseconds: of a busy machine */
#define QKEY     0x80010000u
#define MTU_CODE 3

static struct testnet net;
static struct event_base *base;
static struct rnic_side side;
static struct roce_peer peer, stranger;

/* What came. */
static size_t num;
static struct rnic_gsi_datagram last;
static uint8_t last_data[RNIC_GSI_LEN];

static const uint8_t own_gid[16] = { [10] = 0xFF, 0xFF, 10, 77, 0, 1 };
static const uint8_t peer_gid[16] = { [10] = 0xFF, 0xFF, 10, 77, 0, 2 };

static void on_datagram(void *ctx, const struct rnic_gsi_datagram *datagram)
{
	assert_ptr_equal(ctx, &side);
	last = *datagram;
	memcpy(last_data, datagram->data, sizeof(last_data));
	num++;
}

static int setup(void **state)
{
	(void)state;
	testnet_new(&net, 1500);
	base = event_base_new();
	rnic_side_open(&side, base, "soft:t0", 4096);
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

static int begin(void **state)
{
	(void)state;
	num = 0;
	rnic_soft_set_gsi(side.rnic, on_datagram, &side);
	return 0;
}

static struct rnic_stats stats_now(void)
{
	struct rnic_stats stats;
	rnic_get_stats(side.rnic, &stats);
	return stats;
}

static struct roce_peer_packet datagram(const uint8_t *data, size_t len)
{
	return (struct roce_peer_packet){ .opcode = ROCE_UD_SEND_ONLY,
					  .qpn = 1,
					  .deth = { .qkey = QKEY, .src_qp = 1 },
					  .payload = data,
					  .len = len };
}

/* Run until the RNIC has read so many packets since `before`. */
static void read_packets(const struct rnic_stats *before, size_t packets)
{
	for (int i = 0; i < PATIENCE && stats_now().rx_packets < before->rx_packets + packets; i++)
		rnic_side_idle(base, 1);
	assert_int_equal(stats_now().rx_packets, before->rx_packets + packets);
}

static void comes_in(void **state)
{
	(void)state;
	uint8_t data[RNIC_GSI_LEN];
	rnic_side_pattern(data, sizeof(data), 1);
	struct roce_peer_packet packet = datagram(data, sizeof(data));
	roce_peer_send(&peer, &packet);
	assert_true(rnic_side_wait(base, &num, 1, PATIENCE));
	assert_memory_equal(last_data, data, sizeof(data));
	assert_memory_equal(last.local_gid, own_gid, 16);
	assert_memory_equal(last.peer_gid, peer_gid, 16);
	assert_int_equal(last.peer_port, ROCE_UDP_PORT);
}

/* CM-3: what differs between peers. */
static void any_sender_is_taken(void **state)
{
	(void)state;
	const uint8_t data[RNIC_GSI_LEN] = { 1 };
	struct roce_peer other;
	roce_peer_open(&other, base, "10.77.0.2", "10.77.0.1", 55410);
	other.to.sin_port = htons(ROCE_UDP_PORT);
	other.flow.dport = htons(ROCE_UDP_PORT);
	struct roce_peer_packet packet = datagram(data, sizeof(data));
	packet.psn = 0x7FFFFF;
	packet.ack_req = true;
	packet.pkey = 0x7FFF;
	packet.deth.src_qp = 2;
	roce_peer_send(&other, &packet);
	assert_true(rnic_side_wait(base, &num, 1, PATIENCE));
	assert_int_equal(last.peer_port, 55410);
	/* Another IP identification, a solicited event and a PSN that was there already. */
	uint8_t buf[ROCE_MAX_LEN];
	size_t len = roce_peer_build(&other, &packet, 0, buf);
	buf[1] |= 0x80;
	struct roce_icrc_flow flow;
	roce_icrc_flow_init(&flow, &other.flow);
	uint32_t crc = roce_icrc_begin(&other.flow, len, 0, buf, ROCE_BTH_LEN + ROCE_DETH_LEN);
	crc = roce_icrc_update(crc, data, sizeof(data));
	roce_icrc_put(crc, buf + len - ROCE_ICRC_LEN);
	roce_peer_send_raw(&other, buf, len);
	assert_true(rnic_side_wait(base, &num, 2, PATIENCE));
	roce_peer_close(&other);
	PROVES("CM-3");
}

static void others_are_dropped(void **state)
{
	(void)state;
	static const uint8_t data[RNIC_GSI_LEN + 4];
	struct roce_peer_packet bad[] = {
		datagram(data, RNIC_GSI_LEN),      datagram(data, RNIC_GSI_LEN),
		datagram(data, RNIC_GSI_LEN - 56), datagram(data, RNIC_GSI_LEN + 4),
		datagram(data, RNIC_GSI_LEN - 1),  datagram(data, 0),
		datagram(data, RNIC_GSI_LEN)
	};
	bad[0].deth.qkey = QKEY + 1;
	bad[1].pkey = 0x1234;
	bad[6].opcode = ROCE_SEND_ONLY;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		TRIES("packet %zu", i);
		const struct rnic_stats before = stats_now();
		roce_peer_send(&peer, &bad[i]);
		read_packets(&before, 1);
		const struct rnic_stats after = stats_now();
		assert_int_equal(after.drop_access - before.drop_access, i == 0);
		assert_int_equal(after.drop_malformed - before.drop_malformed, i != 0);
	}
	/* One bit is damaged. */
	const struct rnic_stats before = stats_now();
	uint8_t buf[ROCE_MAX_LEN];
	const struct roce_peer_packet good = datagram(data, RNIC_GSI_LEN);
	size_t len = roce_peer_build(&peer, &good, 0, buf);
	buf[100] ^= 1;
	buf[200] ^= 4;
	roce_peer_send_raw(&peer, buf, len);
	read_packets(&before, 1);
	assert_int_equal(stats_now().drop_icrc - before.drop_icrc, 1);
	assert_int_equal(num, 0);
	PROVES("CM-2");
}

static void nobody_wants_them(void **state)
{
	(void)state;
	static const uint8_t data[RNIC_GSI_LEN];
	const struct roce_peer_packet packet = datagram(data, RNIC_GSI_LEN);
	rnic_soft_set_gsi(side.rnic, NULL, NULL);
	const struct rnic_stats before = stats_now();
	roce_peer_send(&peer, &packet);
	read_packets(&before, 1);
	assert_int_equal(stats_now().drop_qp - before.drop_qp, 1);
	assert_int_equal(num, 0);
}

/* What Linux needs to see. */
static void goes_out(void **state)
{
	(void)state;
	uint8_t data[RNIC_GSI_LEN];
	struct roce_packet packet;
	rnic_side_pattern(data, sizeof(data), 2);
	assert_int_equal(rnic_soft_gsi_send(side.rnic, own_gid, peer_gid, data), 0);
	assert_true(roce_peer_receive(&peer, &packet, PATIENCE)); /* with the right ICRC */
	assert_int_equal(packet.bth.opcode, ROCE_UD_SEND_ONLY);
	assert_int_equal(packet.bth.dest_qp, 1);
	assert_int_equal(packet.bth.pkey, 0xFFFF);
	assert_int_equal(packet.deth.qkey, QKEY);
	assert_int_equal(packet.deth.src_qp, 1);
	assert_int_equal(packet.payload_len, sizeof(data));
	assert_memory_equal(packet.payload, data, sizeof(data));
	const uint32_t psn = packet.bth.psn;
	assert_int_equal(rnic_soft_gsi_send(side.rnic, own_gid, peer_gid, data), 0);
	assert_true(roce_peer_receive(&peer, &packet, PATIENCE));
	assert_int_equal(packet.bth.psn, psn + 1);
	PROVES("CM-1");
}

static void goes_nowhere(void **state)
{
	(void)state;
	static const uint8_t data[RNIC_GSI_LEN];
	static const uint8_t ipv6[16] = { 0xFE, 0x80, [15] = 1 };
	assert_int_equal(rnic_soft_gsi_send(side.rnic, peer_gid, own_gid, data), -EADDRNOTAVAIL);
	assert_int_equal(rnic_soft_gsi_send(side.rnic, own_gid, ipv6, data), -EINVAL);
	assert_int_equal(rnic_soft_gsi_send(side.rnic, ipv6, peer_gid, data), -EINVAL);
}

static void send_many(struct roce_peer *from, size_t times)
{
	static const uint8_t data[RNIC_GSI_LEN];
	const struct roce_peer_packet packet = datagram(data, RNIC_GSI_LEN);
	for (size_t i = 0; i < times; i++)
		roce_peer_send(from, &packet);
}

/* rnic_poll() takes all that is in the socket, and makes one round of it. */
static void flood_takes_a_share(void **state)
{
	(void)state;
	const struct rnic_stats before = stats_now();
	send_many(&peer, 300);
	send_many(&stranger, 1);
	size_t polls = 0;
	for (; stats_now().rx_packets < before.rx_packets + 301; polls++)
		rnic_poll(side.rnic);
	assert_true(num <= polls * SOFT_GSI_SHARE + 1);
	/* At most a share of each poll; the other sender is heard. */
	assert_int_equal(stats_now().rx_packets - before.rx_packets,
			 num + stats_now().drop_qp - before.drop_qp);
	assert_true(stats_now().drop_qp > before.drop_qp);
	assert_memory_equal(last.peer_gid, ((const uint8_t[16]){ [10] = 0xFF, 0xFF, 10, 77, 0, 3 }),
			    16);
	/* The next round is open again. */
	num = 0;
	send_many(&peer, 1);
	assert_true(rnic_side_wait(base, &num, 1, PATIENCE));
	PROVES("CM-29");
}

static void answer(void *ctx, const struct rnic_gsi_datagram *datagram)
{
	on_datagram(ctx, datagram);
	rnic_poll(side.rnic); /* does not come here again */
	assert_int_equal(rnic_soft_gsi_send(side.rnic, datagram->local_gid, datagram->peer_gid,
					    datagram->data),
			 0);
	rnic_soft_set_gsi(side.rnic, NULL, NULL);
}

/* Of two datagrams of one round the user takes the first, and wants no more. */
static void callback_calls_anything(void **state)
{
	(void)state;
	struct roce_packet packet;
	rnic_soft_set_gsi(side.rnic, answer, &side);
	send_many(&peer, 2);
	assert_true(rnic_side_wait(base, &num, 1, PATIENCE));
	assert_true(roce_peer_receive(&peer, &packet, PATIENCE));
	assert_int_equal(num, 1);
}

static void close_now(void *ctx, const struct rnic_gsi_datagram *datagram)
{
	on_datagram(ctx, datagram);
	rnic_side_close(&side);
}

static void callback_closes(void **state)
{
	(void)state;
	rnic_soft_set_gsi(side.rnic, close_now, &side);
	send_many(&peer, 2);
	assert_true(rnic_side_wait(base, &num, 1, PATIENCE));
	assert_int_equal(num, 1);
	testnet_enter(&net, 0);
	rnic_side_open(&side, base, "soft:t0", 4096);
	testnet_enter(&net, 1);
}

/* A queue pair works beside. */
static void queue_pairs_go_on(void **state)
{
	(void)state;
	const struct rnic_qp_peer to = { .gid = { [10] = 0xFF, 0xFF, 10, 77, 0, 2 },
					 .qpn = 0x77,
					 .rq_psn = 5,
					 .path_mtu = MTU_CODE };
	rnic_side_qp(&side, 8, 4, 64);
	rnic_side_connect(&side, &to, 1000, 7);
	send_many(&stranger, 100);
	const struct roce_peer_packet send = { .opcode = ROCE_SEND_ONLY,
					       .qpn = rnic_qp_num(side.qp),
					       .psn = 5,
					       .payload = "hello",
					       .len = 5 };
	roce_peer_send(&peer, &send);
	assert_true(rnic_side_wait(base, &side.num_messages, 1, PATIENCE));
	assert_true(num > 0);
	rnic_side_qp_destroy(&side);
	rnic_side_forget(&side);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(comes_in, begin),
		cmocka_unit_test_setup(any_sender_is_taken, begin),
		cmocka_unit_test_setup(others_are_dropped, begin),
		cmocka_unit_test_setup(nobody_wants_them, begin),
		cmocka_unit_test_setup(goes_out, begin),
		cmocka_unit_test_setup(goes_nowhere, begin),
		cmocka_unit_test_setup(flood_takes_a_share, begin),
		cmocka_unit_test_setup(callback_calls_anything, begin),
		cmocka_unit_test_setup(callback_closes, begin),
		cmocka_unit_test_setup(queue_pairs_go_on, begin),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

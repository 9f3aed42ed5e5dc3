/* SPDX-License-Identifier: MIT */
/* The soft RNIC's frames on the wire: the ICRC of each fits its own IPv4 header, also if the
 * kernel or a network card has cut one send into packets. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/rnic/soft.h"
#include "proto/roce/icrc.h"
#include "tests/lib/rnic_side.h"
#include "tests/lib/testnet.h"

#define MEM      (1u << 20)
#define PATIENCE 30000 /* milliseconds: of a busy machine */

static struct testnet net;
static struct event_base *base;
static struct rnic_side a, b;
static int tap; /* gets all frames that leave and enter t1 */

static int setup(void **state)
{
	(void)state;
	testnet_new(&net, 1500);
	base = event_base_new();
	rnic_side_open(&a, base, "soft:t0", MEM);
	testnet_enter(&net, 1);
	rnic_side_open(&b, base, "soft:t1", MEM);
	tap = socket(AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, htons(ETH_P_IP));
	assert_true(tap >= 0);
	struct sockaddr_ll ll = { .sll_family = AF_PACKET,
				  .sll_protocol = htons(ETH_P_IP),
				  .sll_ifindex = (int)if_nametoindex("t1") };
	assert_int_equal(bind(tap, (struct sockaddr *)&ll, sizeof(ll)), 0);
	int size = 8 << 20;
	assert_int_equal(setsockopt(tap, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)), 0);
	rnic_side_qp(&a, 64, 32, 64);
	rnic_side_qp(&b, 64, 32, 64);
	rnic_side_join(&a, &b, 3);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(tap);
	rnic_side_close(&a);
	rnic_side_close(&b);
	event_base_free(base);
	testnet_free(&net);
	return 0;
}

/* Without checksum offload t0 cannot segment sends either: the kernel does it. */
static void offloads_of_interface(bool on)
{
	struct ethtool_value value = { .cmd = ETHTOOL_STXCSUM, .data = on };
	struct ifreq ifr = { .ifr_name = "t0", .ifr_data = (void *)&value };
	testnet_enter(&net, 0);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(ioctl(fd, SIOCETHTOOL, &ifr), 0);
	close(fd);
}

struct seen {
	/* `numbered`: those with an IPv4 identification other than 0. */
	size_t packets, numbered;
	size_t may_be_marked;
	size_t largest;
};

static struct seen check_frames(void)
{
	static uint8_t frame[65536];
	struct seen seen = { 0 };
	ssize_t n;
	while ((n = recv(tap, frame, sizeof(frame), 0)) > 0) {
		assert_int_equal(frame[0], 0x45);
		if (frame[9] != IPPROTO_UDP)
			continue;
		assert_int_equal(frame[6] << 8 | frame[7], 0x4000); /* DF */
		assert_int_equal(frame[8], 64);
		const uint8_t *buf = frame + 28;
		size_t len = (size_t)(frame[24] << 8 | frame[25]) - 8;
		assert_int_equal(len, n - 28);
		struct roce_flow flow;
		memcpy(&flow.saddr, frame + 12, 4);
		memcpy(&flow.daddr, frame + 16, 4);
		memcpy(&flow.sport, frame + 20, 2);
		memcpy(&flow.dport, frame + 22, 2);
		assert_int_equal(ntohs(flow.dport), ROCE_UDP_PORT);
		struct roce_packet p;
		assert_int_equal(roce_decode(buf, len, &p), 0);
		uint16_t id = (uint16_t)(frame[4] << 8 | frame[5]);
		uint32_t crc = roce_icrc_begin(&flow, len, id, buf, p.header_len);
		crc = roce_icrc_update(crc, p.payload, len - p.header_len - ROCE_ICRC_LEN);
		assert_int_equal(crc, p.icrc);
		seen.packets++;
		seen.numbered += id != 0;
		assert_int_equal(frame[1] & ~IPTOS_ECN_ECT0, 0);
		seen.may_be_marked += frame[1] == IPTOS_ECN_ECT0;
		if (len > seen.largest)
			seen.largest = len;
	}
	return seen;
}

/* Sends a WRITE of this length and a SEND. @return what the wire has seen */
static struct seen exchange(uint32_t len)
{
	rnic_side_forget(&a);
	rnic_side_forget(&b);
	rnic_side_pattern(a.mem, len, len);
	memset(b.mem, 0, len);
	assert_int_equal(rnic_side_write(&a, 0, len, &b, 0, 1), 0);
	assert_int_equal(rnic_side_send(&a, "x", 1, 2), 0);
	assert_true(rnic_side_wait(base, &b.num_messages, 1, PATIENCE));
	assert_memory_equal(a.mem, b.mem, len);
	assert_true(rnic_side_wait(base, &a.num_sends, 2, PATIENCE));
	return check_frames();
}

static void cut_by_the_kernel(void **state)
{
	(void)state;
	offloads_of_interface(false);
	struct seen seen = exchange(200000);
	/* 196 packets of 1 KiB and the SEND, up to 62 in one send. */
	assert_true(seen.packets >= 197);
	assert_true(seen.numbered >= 180);
	assert_int_equal(seen.largest, ROCE_MAX_HEADER + 1024 + ROCE_ICRC_LEN);
	offloads_of_interface(true);
	struct rnic_stats stats;
	rnic_get_stats(b.rnic, &stats);
	assert_int_equal(stats.drop_icrc + stats.drop_malformed, 0);
}

/* Once the peer is known to be a soft RNIC too, its packets tell the network that it may mark
 * them. */
static void may_be_marked(void **state)
{
	(void)state;
	offloads_of_interface(false);
	exchange(1000);
	struct seen seen = exchange(20000);
	offloads_of_interface(true);
	assert_true(seen.packets >= 21);
	assert_int_equal(seen.may_be_marked, seen.packets);
}

static void one_datagram_a_packet(void **state)
{
	(void)state;
	rnic_soft_set_segmentation(a.rnic, false);
	struct seen seen = exchange(100000);
	assert_true(seen.packets >= 99);
	assert_int_equal(seen.numbered, 0);
	rnic_soft_set_segmentation(a.rnic, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cut_by_the_kernel),
		cmocka_unit_test(may_be_marked),
		cmocka_unit_test(one_datagram_a_packet),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

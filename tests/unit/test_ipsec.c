/* SPDX-License-Identifier: MIT */
/* To which connections the kernel's IPsec policies apply. The tests set real policies in a network
 * namespace of their own. Needs root. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <linux/ipsec.h>
#include <linux/xfrm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/host/ipsec.h"
#include "tests/lib/proves.h"
#include "tests/lib/testnet.h"
#include "tests/lib/tries.h"

static struct testnet net;
static struct event_base *base;
static struct ipsec_watch *watch;
static unsigned int changes;

static void on_change(void *ctx)
{
	(void)ctx;
	changes++;
}

static int setup(void **state)
{
	(void)state;
	testnet_new(&net, 1500);
	base = event_base_new();
	changes = 0;
	return ipsec_watch_new(base, on_change, NULL, &watch);
}

static int teardown(void **state)
{
	(void)state;
	ipsec_watch_free(watch);
	event_base_free(base);
	testnet_free(&net);
	return 0;
}

static void policy(const char *words)
{
	char command[400];
	snprintf(command, sizeof(command), "ip xfrm policy %s", words);
	if (system(command) != 0)
		fail_msg("%s", command);
}

static struct smcr_addr addr(const char *text, uint16_t port)
{
	struct smcr_addr addr = { .family = strchr(text, ':') ? AF_INET6 : AF_INET, .port = port };
	assert_int_equal(inet_pton(addr.family, text, addr.ip), 1);
	return addr;
}

static bool applies(const char *local, uint16_t local_port, const char *peer, uint16_t peer_port,
		    uint32_t mark)
{
	struct smcr_addr a = addr(local, local_port), b = addr(peer, peer_port);
	return ipsec_applies(watch, &a, &b, mark);
}

static bool usual(void)
{
	return applies("10.77.0.1", 40000, "10.77.0.2", 5001, 0);
}

#define ESP " tmpl proto esp mode transport"

/* There is only this policy: does it apply to a connection from 10.77.0.1:40000 to
 * 10.77.0.2:5001? */
static void one_policy(void **state)
{
	(void)state;
	static const struct {
		const char *words;
		bool applies;
	} rows[] = {
		{ "src 10.77.0.1/32 dst 10.77.0.2/32 dir out" ESP, true },
		{ "src 10.77.0.2/32 dst 10.77.0.1/32 dir in" ESP, true },
		{ "src 10.77.0.1/32 dst 10.77.0.2/32 dir out" ESP " level use", true },
		{ "src 10.77.0.2/32 dst 10.77.0.1/32 dir out" ESP, false },
		{ "src 10.77.0.1/32 dst 10.77.0.2/32 dir in" ESP, false },
		{ "src 10.77.0.2/32 dst 10.77.0.1/32 dir fwd" ESP, false },
		{ "src 10.77.0.0/24 dst 10.77.0.0/24 dir out" ESP, true },
		{ "src 10.76.0.0/15 dst 10.64.0.0/10 dir out" ESP, true },
		{ "src 10.77.0.0/31 dst 10.77.0.2/31 dir out" ESP, true },
		{ "src 10.77.0.2/31 dst 10.77.0.2/31 dir out" ESP, false },
		{ "src 0.0.0.0/0 dst 0.0.0.0/0 dir out" ESP, true },
		{ "src 10.77.0.1/32 dst 10.77.1.0/24 dir out" ESP, false },
		{ "src ::/0 dst ::/0 dir out" ESP, false },
		{ "src 10.77.0.1/32 dst 10.77.0.2/32 proto tcp dir out" ESP, true },
		{ "src 10.77.0.1/32 dst 10.77.0.2/32 proto udp dir out" ESP, false },
		{ "src 10.77.0.1/32 dst 10.77.0.2/32 proto tcp dport 5001 dir out" ESP, true },
		{ "src 10.77.0.1/32 dst 10.77.0.2/32 proto tcp dport 5002 dir out" ESP, false },
		{ "src 10.77.0.1/32 dst 10.77.0.2/32 proto tcp sport 40000 dir out" ESP, true },
		{ "src 10.77.0.2/32 dst 10.77.0.1/32 proto tcp sport 5001 dir in" ESP, true },
		{ "src 10.77.0.2/32 dst 10.77.0.1/32 proto tcp dport 5001 dir in" ESP, false },
		{ "src 10.77.0.1/32 dst 10.77.0.2/32 dir out action block", true },
		/* lets packets pass as they are */
		{ "src 10.77.0.1/32 dst 10.77.0.2/32 dir out", false },
		{ "src 10.77.0.1/32 dst 10.77.0.2/32 dir out mark 7 mask 0xff" ESP, false },
		{ "src 10.77.0.1/32 dst 10.77.0.2/32 dir out if_id 5" ESP, false },
		{ "src 10.77.0.1/32 dst 10.77.0.2/32 dir out ptype sub" ESP, true },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("%s", rows[i].words);
		char words[200];
		snprintf(words, sizeof(words), "add %s", rows[i].words);
		assert_false(usual());
		policy(words);
		if (usual() != rows[i].applies)
			fail_msg("%s: applies: %d", rows[i].words, !rows[i].applies);
		policy("flush");
		policy("flush ptype sub");
	}
	PROVES("SEC-4");
}

static void marks(void **state)
{
	(void)state;
	policy("add src 10.77.0.1/32 dst 10.77.0.2/32 dir out mark 7 mask 0xff" ESP);
	assert_true(applies("10.77.0.1", 1, "10.77.0.2", 2, 7));
	assert_true(applies("10.77.0.1", 1, "10.77.0.2", 2, 0x107));
	assert_false(applies("10.77.0.1", 1, "10.77.0.2", 2, 6));
}

static void ipv6(void **state)
{
	(void)state;
	policy("add src fd00:1::/32 dst fd00:1:0:1::2/128 dir out" ESP);
	assert_true(applies("fd00:1::1", 1, "fd00:1:0:1::2", 2, 0));
	assert_false(applies("fd00:1::1", 1, "fd00:1:0:1::3", 2, 0));
	assert_false(usual());
}

/* The smaller priority decides, for each direction alone. */
static void priorities(void **state)
{
	(void)state;
	policy("add src 10.77.0.0/24 dst 10.77.0.0/24 dir out priority 100");
	policy("add src 0.0.0.0/0 dst 0.0.0.0/0 dir out priority 200" ESP);
	assert_false(usual());
	assert_true(applies("10.77.0.1", 1, "10.78.0.2", 2, 0));
	policy("add src 0.0.0.0/0 dst 0.0.0.0/0 dir in priority 50" ESP);
	assert_true(usual());
	policy("delete src 0.0.0.0/0 dst 0.0.0.0/0 dir in");
	assert_false(usual());
	policy("update src 0.0.0.0/0 dst 0.0.0.0/0 dir out priority 99" ESP);
	assert_true(usual());
	policy("update src 0.0.0.0/0 dst 0.0.0.0/0 dir out priority 100" ESP);
	assert_true(usual()); /* of two with the same priority either may decide */
}

/* Programs set policies on their own sockets; key daemons mostly set exemptions. The dump has
 * these policies too, but they apply to no other connection. */
static void policies_of_sockets(void **state)
{
	(void)state;
	struct {
		struct xfrm_userpolicy_info info;
		struct xfrm_user_tmpl tmpl;
	} given = {
		.info = { .sel.family = AF_INET,
			  .lft = { .soft_byte_limit = XFRM_INF,
				   .hard_byte_limit = XFRM_INF,
				   .soft_packet_limit = XFRM_INF,
				   .hard_packet_limit = XFRM_INF },
			  .action = XFRM_POLICY_ALLOW,
			  .dir = XFRM_POLICY_OUT },
		.tmpl = { .id.proto = IPPROTO_ESP,
			  .family = AF_INET,
			  .aalgos = ~0u,
			  .ealgos = ~0u,
			  .calgos = ~0u },
	};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_XFRM_POLICY, &given, sizeof(given)), 0);
	policy("add src 10.1.0.0/16 dst 10.2.0.0/16 dir out" ESP); /* all policies are read again */
	assert_false(usual());
	assert_true(applies("10.1.0.1", 1, "10.2.0.1", 1, 0));
	close(fd);
}

/* Changes also come through the event loop. */
static void told_by_the_loop(void **state)
{
	(void)state;
	struct timeval limit = { .tv_sec = 3 };
	policy("add src 10.77.0.1/32 dst 10.77.0.2/32 dir out" ESP);
	event_base_loopexit(base, &limit);
	while (!changes && !event_base_got_exit(base))
		event_base_loop(base, EVLOOP_ONCE);
	assert_int_equal(changes, 1);
	struct smcr_prefix prefix;
	assert_int_equal(ipsec_prefixes(watch, &prefix, 1), 1);
}

/* The kernel announces more changes than the socket holds: no policy is missed. */
static void many_at_once(void **state)
{
	(void)state;
	char name[] = "/tmp/smcr-policies-XXXXXX";
	int fd = mkstemp(name);
	assert_true(fd >= 0);
	for (int i = 0; i < 2000; i++)
		dprintf(fd, "xfrm policy add src 10.9.%d.%d/32 dst 10.77.0.2/32 dir out" ESP "\n",
			i / 250, i % 250);
	dprintf(fd, "xfrm policy add src 10.77.0.1/32 dst 10.77.0.2/32 dir out" ESP "\n");
	close(fd);
	char command[100];
	snprintf(command, sizeof(command), "ip -batch %s", name);
	int status = system(command);
	unlink(name);
	assert_int_equal(status, 0);
	assert_true(usual());
	policy("flush");
	assert_false(usual());
}

/* ---- prefixes for the option ---- */

static void prefixes(void **state)
{
	(void)state;
	static const struct {
		const char *words;
		const char *prefix; /* NULL: no prefix */
		uint8_t len;
	} rows[] = {
		{ "add src 10.77.0.1/32 dst 10.77.0.2/32 dir out" ESP, "10.77.0.2", 32 },
		{ "add src 10.77.0.2/32 dst 10.77.0.1/32 dir in" ESP, "10.77.0.2", 32 },
		{ "add src 10.77.0.1/32 dst 0.0.0.0/0 dir out" ESP, "10.77.0.1", 32 },
		{ "add src 0.0.0.0/0 dst 0.0.0.0/0 dir out" ESP, "0.0.0.0", 0 },
		{ "add src 10.77.0.1/32 dst 10.77.0.99/24 dir out" ESP, "10.77.0.0", 24 },
		{ "add src 10.77.0.1/32 dst 10.77.0.2/32 proto tcp dport 1 dir out" ESP, NULL, 0 },
		{ "add src 10.77.0.1/32 dst 10.77.0.2/32 proto udp dir out" ESP, NULL, 0 },
		{ "add src 10.77.0.1/32 dst 10.77.0.2/32 dir out mark 1" ESP, NULL, 0 },
		{ "add src 10.77.0.1/32 dst 10.77.0.2/32 dir out", NULL, 0 },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("%s", rows[i].words);
		struct smcr_prefix got[4];
		policy(rows[i].words);
		usual();
		size_t n = ipsec_prefixes(watch, got, 4);
		if (n != (rows[i].prefix != NULL))
			fail_msg("%s: %zu prefixes", rows[i].words, n);
		if (n) {
			struct smcr_addr want = addr(rows[i].prefix, 0);
			assert_memory_equal(got[0].ip, want.ip, 16);
			assert_int_equal(got[0].prefix_len, rows[i].len);
		}
		policy("flush");
	}
}

/* A policy that exempts a part takes its prefix out of the list: each connection there is judged
 * by itself. */
static void prefixes_with_exceptions(void **state)
{
	(void)state;
	struct smcr_prefix got[4];
	policy("add src 0.0.0.0/0 dst 0.0.0.0/0 dir out priority 200" ESP);
	policy("add src 10.77.0.1/32 dst 10.77.0.0/24 dir out priority 100");
	assert_false(usual());
	assert_int_equal(ipsec_prefixes(watch, got, 4), 0);
	policy("add src 10.77.0.1/32 dst 10.1.0.0/16 dir out priority 50" ESP);
	policy("add src 10.1.0.0/16 dst 10.77.0.1/32 dir in priority 50" ESP);
	assert_false(usual());
	assert_int_equal(ipsec_prefixes(watch, got, 4), 1); /* both policies name the same prefix */
	assert_int_equal(got[0].prefix_len, 16);
	assert_int_equal(ipsec_prefixes(watch, got, 0), 0);
}

static void no_watch(void **state)
{
	(void)state;
	struct smcr_addr any = addr("10.77.0.1", 1);
	assert_false(ipsec_applies(NULL, &any, &any, 0));
	ipsec_watch_free(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_policy),
		TEST(marks),
		TEST(ipv6),
		TEST(priorities),
		TEST(policies_of_sockets),
		TEST(told_by_the_loop),
		TEST(many_at_once),
		TEST(prefixes),
		TEST(prefixes_with_exceptions),
		cmocka_unit_test(no_watch),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

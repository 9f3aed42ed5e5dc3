/* SPDX-License-Identifier: MIT */
/* A queue pair of libibverbs is connected only if the host knows the MAC for the peer's address:
 * otherwise the kernel would wait for it, and with it all links of smcrd. There is no device: the
 * test has its own ibv_modify_qp(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/rnic/verbs/internal.h"
#include "tests/lib/tries.h"

static unsigned int modified;

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)qp;
	(void)mask;
	assert_int_equal(attr->qp_state, IBV_QPS_RTR);
	modified++;
	return 0;
}

/* ---- the host */

static struct {
	unsigned int set, unset, settled;
	bool known;
	uint8_t mac[6];
} host;

static int neigh_set(void *ctx, unsigned int ifindex, int family, const void *addr,
		     const uint8_t mac[6])
{
	(void)ctx;
	(void)addr;
	assert_int_equal(ifindex, 3);
	assert_true(family == AF_INET || family == AF_INET6);
	memcpy(host.mac, mac, sizeof(host.mac));
	host.set++;
	return 0;
}

static void neigh_unset(void *ctx, unsigned int ifindex, int family, const void *addr,
			const uint8_t mac[6])
{
	(void)ctx;
	(void)ifindex;
	(void)family;
	(void)addr;
	assert_memory_equal(mac, host.mac, sizeof(host.mac));
	host.unset++;
}

static bool neigh_settle(void *ctx)
{
	(void)ctx;
	host.settled++;
	return host.known;
}

static const struct rnic_host_ops ops = { neigh_set, neigh_unset, neigh_settle };

/* ---- a queue pair */

#define IPV4(a, b, c, d) [10] = 0xFF, 0xFF, a, b, c, d

static struct verbs_device dev;
static struct verbs_qp qp;

static int setup(void **state)
{
	(void)state;
	memset(&host, 0, sizeof(host));
	modified = 0;
	dev = (struct verbs_device){
		.base = { .params = { .host_ops = &ops },
			  .info = { .ifindex = 3,
				    .port = 1,
				    .max_path_mtu = 3,
				    .num_gids = 2,
				    .gids = { { .raw = { IPV4(10, 0, 4, 1) }, .prefix_len = 22 },
					      { .raw = { 0x20, 1, [15] = 1 },
						.prefix_len = 64 } } } }
	};
	qp = (struct verbs_qp){ .dev = &dev };
	return 0;
}

static struct rnic_qp_peer peer_at(const uint8_t gid[16], bool named)
{
	struct rnic_qp_peer peer = { .qpn = 17, .path_mtu = 3 };
	memcpy(peer.gid, gid, sizeof(peer.gid));
	if (named)
		memcpy(peer.mac, (const uint8_t[]){ 2, 0, 0, 0, 0, 9 }, sizeof(peer.mac));
	return peer;
}

/** No host answers for the address: the queue pair is not connected, and nothing is left behind. */
static void a_peer_that_nobody_answers_for(void **state)
{
	static const uint8_t near[] = { IPV4(10, 0, 7, 255) }, near6[16] = { 0x20, 1, [15] = 9 };
	(void)state;
	for (int i = 0; i < 4; i++) {
		TRIES("case %d", i);
		struct rnic_qp_peer peer = peer_at(i & 1 ? near6 : near, i & 2);
		setup(NULL);
		assert_int_equal(verbs_qp_connect(&qp.base, &peer), -EHOSTUNREACH);
		assert_int_equal(modified, 0);
		assert_int_equal(host.set, 1);
		assert_int_equal(host.unset, 1);
		assert_int_equal(qp.state, VERBS_QP_INIT);
		assert_false(qp.neigh);
		/* now a host answers */
		host.known = true;
		assert_int_equal(verbs_qp_connect(&qp.base, &peer), 0);
		assert_int_equal(modified, 1);
		assert_true(qp.neigh);
		assert_int_equal(qp.state, VERBS_QP_RTR);
	}
}

/** The host is asked about a peer behind a gateway that has told no MAC, and about any peer that
 *  has told one. It is not asked about addresses that tell the MAC, nor about this host. */
static void peers_that_the_host_is_asked_about(void **state)
{
	static const struct {
		uint8_t gid[16];
		bool named, asked;
	} rows[] = {
		{ { IPV4(10, 0, 8, 1) }, false, false },
		{ { IPV4(10, 0, 8, 1) }, true, true },
		{ { IPV4(10, 0, 4, 1) }, true, false },           /* this host */
		{ { 0xFE, 0x80, [15] = 5 }, true, false },        /* the address contains the MAC */
		{ { 0x20, 1, [7] = 1, [15] = 5 }, false, false }, /* another network */
		{ { 0x20, 1, [15] = 5 }, false, true },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		struct rnic_qp_peer peer = peer_at(rows[i].gid, rows[i].named);
		setup(NULL);
		host.known = true;
		assert_int_equal(verbs_qp_connect(&qp.base, &peer), 0);
		assert_int_equal(host.settled, rows[i].asked);
		assert_int_equal(modified, 1);
	}
}

/** The host cannot tell whether it knows the MAC. */
static void a_host_that_cannot_tell(void **state)
{
	static const struct rnic_host_ops silent = { neigh_set, neigh_unset, NULL };
	static const uint8_t gid[16] = { IPV4(10, 0, 4, 9) };
	struct rnic_qp_peer peer = peer_at(gid, true);
	(void)state;
	dev.base.params.host_ops = &silent;
	assert_int_equal(verbs_qp_connect(&qp.base, &peer), 0);
	assert_int_equal(host.set, 1);
	setup(NULL);
	dev.base.params.host_ops = NULL;
	assert_int_equal(verbs_qp_connect(&qp.base, &peer), 0);
	assert_int_equal(modified, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_peer_that_nobody_answers_for, setup),
		cmocka_unit_test_setup(peers_that_the_host_is_asked_about, setup),
		cmocka_unit_test_setup(a_host_that_cannot_tell, setup),
	};
	return cmocka_run_group_tests_name("verbs_connect", tests, NULL, NULL);
}

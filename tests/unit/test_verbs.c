/* SPDX-License-Identifier: MIT */
/* RNICs of libibverbs, as far as this needs no device: names, GIDs, attributes, the places of the
 * send queue, counters, and the messages when a device cannot be used. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/rnic/verbs/internal.h"
#include "tests/lib/tries.h"

/* ---- names */

static void names(void **state)
{
	(void)state;
	char dev[RNIC_NAME_LEN], full[RNIC_NAME_LEN];
	uint8_t port = 0;
	assert_int_equal(verbs_parse_name("mlx5_0", dev, &port), 0);
	assert_string_equal(dev, "mlx5_0");
	assert_int_equal(port, 1);
	assert_int_equal(verbs_parse_name("rxe_eth0/255", dev, &port), 0);
	assert_string_equal(dev, "rxe_eth0");
	assert_int_equal(port, 255);
	static const char *const bad[] = { "",         "/1",        "mlx5_0/",    "mlx5_0/0",
					   "mlx5_0/x", "mlx5_0/1x", "mlx5_0/256", "mlx5_0/-1" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		TRIES("%s", bad[i]);
		assert_int_equal(verbs_parse_name(bad[i], dev, &port), -EINVAL);
	}
	char longest[64];
	memset(longest, 'd', sizeof(longest));
	longest[53] = '\0';
	assert_int_equal(verbs_parse_name(longest, dev, &port), 0);
	longest[53] = 'd';
	longest[54] = '\0';
	assert_int_equal(verbs_parse_name(longest, dev, &port), -EINVAL);
	rnic_verbs_full_name("verbs:mlx5_0", full);
	assert_string_equal(full, "verbs:mlx5_0/1");
	rnic_verbs_full_name("verbs:mlx5_0/2", full);
	assert_string_equal(full, "verbs:mlx5_0/2");
	rnic_verbs_full_name("soft:eth0", full);
	assert_string_equal(full, "soft:eth0");
}

/* ---- GIDs */

#define IPV4(a, b, c, d)                                                                           \
	{                                                                                          \
		.raw = { [10] = 0xFF, 0xFF, a, b, c, d }                                           \
	}
#define IPV6(last)                                                                                 \
	{                                                                                          \
		.raw = { 0x20, 0x01, 0x0D, 0xB8, [15] = last }                                     \
	}
#define LINK_LOCAL(last)                                                                           \
	{                                                                                          \
		.raw = { 0xFE, 0x80, [15] = last }                                                 \
	}
/* Of MAC 02:00:00:00:00:05: the universal/local bit is the other way round. */
#define DEFAULT_GID                                                                                \
	{                                                                                          \
		.raw = { 0xFE, 0x80, [11] = 0xFF, 0xFE, 0, 0, 5 }                                  \
	}
#define V1 IBV_GID_TYPE_ROCE_V1
#define V2 IBV_GID_TYPE_ROCE_V2

static const struct rnic_netdev netdevs[] = {
	{ .name = "eth5",
	  .ifindex = 5,
	  .mac = { 2, 0, 0, 0, 0, 5 },
	  .num_addrs = 3,
	  .addrs = { { AF_INET, { 10, 0, 0, 5 }, 24 },
		     { AF_INET6, { 0x20, 0x01, 0x0D, 0xB8, [15] = 5 }, 56 },
		     { AF_INET6, { 0xFE, 0x80, [15] = 0x55 }, 64 } } },
	{ .name = "eth6",
	  .ifindex = 6,
	  .mac = { 2, 0, 0, 0, 0, 6 },
	  .num_addrs = 1,
	  .addrs = { { AF_INET, { 10, 0, 0, 6 }, 16 } } },
};

struct expected {
	size_t num;
	const char *netdev;
	uint8_t index[8];
};

static void expect_choice(const struct ibv_gid_entry *entries, size_t num,
			  const struct expected *expected)
{
	struct verbs_gids gids;
	memset(&gids, 0x55, sizeof(gids));
	bool any = verbs_choose_gids(entries, num, 1, netdevs, 2, &gids);
	assert_int_equal(any, expected->num > 0);
	if (!any)
		return;
	assert_int_equal(gids.num, expected->num);
	assert_string_equal(gids.netdev->name, expected->netdev);
	assert_memory_equal(gids.index, expected->index, expected->num);
}

#define CHOICE(table, ...)                                                                         \
	expect_choice(table, sizeof(table) / sizeof(table[0]), &(struct expected){ __VA_ARGS__ })

static void gids_in_order(void **state)
{
	(void)state;
	/* The GIDs of a port with two addresses. */
	static const struct ibv_gid_entry usual[] = {
		{ DEFAULT_GID, 0, 1, V1, 5 },       { DEFAULT_GID, 1, 1, V2, 5 },
		{ IPV6(5), 2, 1, V1, 5 },           { IPV6(5), 3, 1, V2, 5 },
		{ IPV4(10, 0, 0, 5), 4, 1, V1, 5 }, { IPV4(10, 0, 0, 5), 5, 1, V2, 5 },
		{ LINK_LOCAL(0x55), 6, 1, V2, 5 },
	};
	CHOICE(usual, 7, "eth5", { 5, 3, 4, 2, 1, 6, 0 });
	struct verbs_gids gids;
	assert_true(verbs_choose_gids(usual, 7, 1, netdevs, 2, &gids));
	static const uint8_t prefix_lens[] = { 24, 56, 24, 56, 64, 64, 64 };
	for (size_t i = 0; i < 7; i++) {
		assert_int_equal(gids.gid[i].prefix_len, prefix_lens[i]);
		assert_int_equal(gids.gid[i].type, usual[gids.index[i]].gid_type == V2
							   ? RNIC_GID_ROCE_V2
							   : RNIC_GID_ROCE_V1);
		assert_memory_equal(gids.gid[i].raw, usual[gids.index[i]].gid.raw, 16);
	}
}

static void gids_of_one_interface(void **state)
{
	(void)state;
	static const struct ibv_gid_entry two[] = { { IPV4(10, 0, 0, 6), 0, 1, V1, 6 },
						    { DEFAULT_GID, 1, 1, V2, 5 },
						    { IPV4(10, 0, 0, 5), 2, 1, V2, 5 },
						    { IPV4(10, 0, 0, 6), 3, 1, V2, 6 } };
	CHOICE(two, 2, "eth5", { 2, 1 });
	static const struct ibv_gid_entry v1_only[] = { { DEFAULT_GID, 0, 1, V2, 5 },
							{ IPV4(10, 0, 0, 6), 9, 1, V1, 6 } };
	CHOICE(v1_only, 1, "eth6", { 9 });
}

static void gids_that_do_not_count(void **state)
{
	(void)state;
	static const struct ibv_gid_entry other_port[] = { { IPV4(10, 0, 0, 5), 0, 2, V2, 5 } };
	/* Interfaces of another network namespace; the index of one belongs to another interface
	 * here. */
	static const struct ibv_gid_entry elsewhere[] = {
		{ IPV4(10, 0, 0, 5), 0, 1, V2, 7 }, { IPV4(10, 9, 9, 9), 1, 1, V2, 5 },
		{ IPV6(9), 2, 1, V2, 5 },           { IPV4(10, 0, 0, 5), 3, 1, V2, 6 },
		{ DEFAULT_GID, 4, 1, V2, 6 },       { LINK_LOCAL(9), 5, 1, V1, 5 }
	};
	static const struct ibv_gid_entry infiniband[] = {
		{ LINK_LOCAL(0x55), 0, 1, IBV_GID_TYPE_IB, 5 },
		{ IPV4(10, 0, 0, 5), 0, 1, 99, 5 },
	};
	static const struct ibv_gid_entry far[] = { { IPV4(10, 0, 0, 5), 256, 1, V2, 5 } };
	CHOICE(other_port, 0);
	CHOICE(elsewhere, 0);
	CHOICE(infiniband, 0);
	CHOICE(far, 0); /* the attribute of a QP has 8 bits for it */
}

static void more_gids_than_we_have_room_for(void **state)
{
	(void)state;
	struct rnic_netdev netdev = netdevs[0];
	struct ibv_gid_entry entries[RNIC_NETDEV_ADDRS];
	struct verbs_gids gids;
	netdev.num_addrs = RNIC_NETDEV_ADDRS;
	for (unsigned int i = 0; i < RNIC_NETDEV_ADDRS; i++) {
		netdev.addrs[i] = (struct rnic_netdev_addr){ AF_INET, { 10, 1, 0, (uint8_t)i }, 8 };
		entries[i] = (struct ibv_gid_entry){ IPV4(10, 1, 0, (uint8_t)i), i, 1, V2, 5 };
	}
	assert_true(verbs_choose_gids(entries, RNIC_NETDEV_ADDRS, 1, &netdev, 1, &gids));
	assert_int_equal(gids.num, RNIC_MAX_GIDS);
	assert_int_equal(gids.index[RNIC_MAX_GIDS - 1], RNIC_MAX_GIDS - 1);
}

/* ---- attributes */

static void patience(void **state)
{
	(void)state;
	static const struct {
		unsigned int retry_ms;
		bool endless;
		uint8_t timeout;
	} cases[] = {
		{ 1, false, 11 },     /* 67 ms */
		{ 300, false, 14 },   /* 537 ms */
		{ 4000, false, 17 },  /* 4.3 s */
		{ 60000, false, 21 }, /* 69 s */
		{ 1, true, 14 },      { 60000, true, 14 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TRIES("row %zu", i);
		struct verbs_patience p = verbs_patience_for(cases[i].retry_ms, cases[i].endless);
		assert_int_equal(p.timeout, cases[i].timeout);
		assert_int_equal(p.retry_cnt, 7);
	}
	/* At least what was asked for, and less than twice as much, except for the smallest
	 * values. */
	for (unsigned int ms = 68; ms < 1000000; ms += ms / 3 + 1) {
		uint64_t us = verbs_patience_us(verbs_patience_for(ms, false));
		assert_true(us >= ms * UINT64_C(1000) && us < ms * UINT64_C(2000));
	}
	struct verbs_patience most = verbs_patience_for(UINT32_MAX, false);
	assert_true(most.timeout <= 31 && most.retry_cnt <= 7);
}

static void attributes(void **state)
{
	(void)state;
	struct ibv_qp_attr attr;
	int mask = verbs_attr_init(2, &attr);
	assert_int_equal(mask,
			 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	assert_int_equal(attr.qp_state, IBV_QPS_INIT);
	assert_int_equal(attr.port_num, 2);
	assert_int_equal(attr.qp_access_flags, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	struct rnic_qp_peer peer = { .gid = { [10] = 0xFF, 0xFF, 10, 0, 0, 9 },
				     .qpn = 0xABCDEF,
				     .rq_psn = 0x123456,
				     .path_mtu = 3,
				     .sgid_index = 1 };
	mask = verbs_attr_rtr(2, 7, &peer, &attr);
	assert_int_equal(mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_MIN_RNR_TIMER);
	assert_int_equal(attr.qp_state, IBV_QPS_RTR);
	assert_int_equal(attr.path_mtu, IBV_MTU_1024);
	assert_int_equal(attr.dest_qp_num, 0xABCDEF);
	assert_int_equal(attr.rq_psn, 0x123456);
	assert_int_equal(attr.ah_attr.is_global, 1);
	assert_int_equal(attr.ah_attr.port_num, 2);
	assert_int_equal(attr.ah_attr.grh.sgid_index, 7);
	assert_int_equal(attr.ah_attr.grh.hop_limit, 64);
	assert_memory_equal(attr.ah_attr.grh.dgid.raw, peer.gid, 16);

	/* Who may not read does not get the right, and the others get it with their limit. */
	peer.reads_answered = 5;
	assert_int_equal(verbs_attr_rtr(2, 7, &peer, &attr), mask | IBV_QP_ACCESS_FLAGS);
	assert_int_equal(attr.max_dest_rd_atomic, 5);
	assert_int_equal(attr.qp_access_flags,
			 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);

	struct rnic_qp_send_params params = { .sq_psn = 0x654321, .retry_ms = 300, .rnr_retry = 7 };
	mask = verbs_attr_rts(&params, false, &attr);
	assert_int_equal(mask, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.sq_psn, 0x654321);
	assert_int_equal(attr.timeout, 14);
	assert_int_equal(attr.retry_cnt, 7);
	assert_int_equal(attr.rnr_retry, 7);
	assert_int_equal(attr.max_rd_atomic, 1);
	params.reads_asked = 9;
	assert_int_equal(verbs_attr_rts(&params, false, &attr), mask);
	assert_int_equal(attr.max_rd_atomic, 9);
}

static void statuses(void **state)
{
	(void)state;
	assert_int_equal(verbs_wc_status(IBV_WC_SUCCESS), RNIC_WC_SUCCESS);
	assert_int_equal(verbs_wc_status(IBV_WC_LOC_PROT_ERR), RNIC_WC_LOC_PROT_ERR);
	assert_int_equal(verbs_wc_status(IBV_WC_REM_ACCESS_ERR), RNIC_WC_REM_ACCESS_ERR);
	assert_int_equal(verbs_wc_status(IBV_WC_REM_INV_REQ_ERR), RNIC_WC_REM_INV_REQ_ERR);
	assert_int_equal(verbs_wc_status(IBV_WC_REM_OP_ERR), RNIC_WC_REM_OP_ERR);
	assert_int_equal(verbs_wc_status(IBV_WC_RETRY_EXC_ERR), RNIC_WC_RETRY_EXC_ERR);
	assert_int_equal(verbs_wc_status(IBV_WC_RNR_RETRY_EXC_ERR), RNIC_WC_RNR_RETRY_EXC_ERR);
	assert_int_equal(verbs_wc_status(IBV_WC_BAD_RESP_ERR), RNIC_WC_BAD_RESP_ERR);
	assert_int_equal(verbs_wc_status(IBV_WC_MW_BIND_ERR), RNIC_WC_LOC_PROT_ERR);
	assert_int_equal(verbs_wc_status(IBV_WC_WR_FLUSH_ERR), RNIC_WC_WR_FLUSH_ERR);
	assert_int_equal(verbs_wc_status(IBV_WC_FATAL_ERR), RNIC_WC_GENERAL_ERR);
	assert_int_equal(verbs_wc_status((enum ibv_wc_status)999), RNIC_WC_GENERAL_ERR);
}

/* ---- send queue */

static void places(void **state)
{
	(void)state;
	struct verbs_sendq q;
	assert_int_equal(verbs_sendq_init(&q, 3), 0);
	assert_int_equal(verbs_sendq_room(&q), 3);
	assert_null(verbs_sendq_retire(&q, 0));
	assert_int_equal(verbs_sendq_push(&q, 100, false), 0);
	assert_int_equal(verbs_sendq_push(&q, 101, false), 1);
	assert_int_equal(verbs_sendq_push(&q, 102, true), 2);
	assert_int_equal(verbs_sendq_room(&q), 0);
	/* A completion also completes the requests before it. */
	const struct verbs_slot *slot = verbs_sendq_retire(&q, 1);
	assert_int_equal(slot->wr_id, 101);
	assert_false(slot->wanted);
	assert_int_equal(verbs_sendq_room(&q), 2);
	assert_false(slot->own);
	assert_null(verbs_sendq_retire(&q, 1)); /* not a second time */
	assert_null(verbs_sendq_retire(&q, 0));
	assert_null(verbs_sendq_retire(&q, 3)); /* not before it is posted */
	assert_int_equal(verbs_sendq_push(&q, 103, true), 3);
	verbs_sendq_unpush(&q, 1);
	assert_int_equal(verbs_sendq_push(&q, 104, true), 3);
	slot = verbs_sendq_retire(&q, 2);
	assert_int_equal(slot->wr_id, 102);
	assert_true(slot->wanted);
	assert_int_equal(verbs_sendq_retire(&q, 3)->wr_id, 104);
	assert_int_equal(verbs_sendq_room(&q), 3);
	/* A request of the RNIC's own leaves nothing of what was in its place. */
	assert_int_equal(verbs_sendq_push_own(&q), 4);
	assert_int_equal(verbs_sendq_room(&q), 2);
	slot = verbs_sendq_retire(&q, 4);
	assert_true(slot->own);
	assert_false(slot->wanted);
	verbs_sendq_free(&q);
}

/* ---- messages ---- */

static char root[] = "/tmp/smcrd-verbs-XXXXXX";

static int make_root(void **state)
{
	(void)state;
	strcpy(root, "/tmp/smcrd-verbs-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
	(void)state;
	char command[sizeof(root) + 16];
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

static void put(const char *path, const char *text)
{
	char full[200];
	for (const char *at = strchr(path, '/'); at; at = strchr(at + 1, '/')) {
		snprintf(full, sizeof(full), "%s/%.*s", root, (int)(at - path), path);
		mkdir(full, 0755);
	}
	snprintf(full, sizeof(full), "%s/%s", root, path);
	FILE *f = fopen(full, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void why_a_device_is_not_listed(void **state)
{
	(void)state;
	char error[RNIC_ERROR_LEN];
	assert_int_equal(verbs_absence_of(root, "rxe0"), VERBS_NO_SUCH_DEVICE);
	put("class/infiniband/rxe0/node_guid", "");
	assert_int_equal(verbs_absence_of(root, "rxe0"), VERBS_NO_UVERBS);
	put("class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n");
	put("class/infiniband_verbs/abi_version", "6\n");
	assert_int_equal(verbs_absence_of(root, "rxe0"), VERBS_NO_UVERBS);
	put("class/infiniband_verbs/uverbs1/ibdev", "rxe0\n");
	assert_int_equal(verbs_absence_of(root, "rxe0"), VERBS_NO_PROVIDER);
	assert_int_equal(verbs_absence_of(root, "rxe"), VERBS_NO_SUCH_DEVICE);

	verbs_explain_absence("verbs:rxe0/1", VERBS_NO_UVERBS, "", error);
	assert_string_equal(error, "rnic verbs:rxe0/1: the kernel has the device, but not its "
				   "module ib_uverbs; load it (modprobe ib_uverbs)");
	verbs_explain_absence("verbs:rxe0/1", VERBS_NO_PROVIDER, "", error);
	assert_string_equal(error, "rnic verbs:rxe0/1: libibverbs has no driver for the device; "
				   "install the package ibverbs-providers");
	verbs_explain_absence("verbs:rxe0/1", VERBS_NO_SUCH_DEVICE, "mlx5_0, mlx5_1", error);
	assert_string_equal(error, "rnic verbs:rxe0/1: no such RDMA device; this host has mlx5_0, "
				   "mlx5_1");
	verbs_explain_absence("verbs:rxe0/1", VERBS_NO_SUCH_DEVICE, "", error);
	assert_non_null(strstr(error, "this host has no RDMA device; load "));
}

static void why_a_device_cannot_be_used(void **state)
{
	(void)state;
	char error[RNIC_ERROR_LEN];
	verbs_explain_open("verbs:rxe0/1", "/dev/infiniband/uverbs0", -EACCES, error);
	assert_string_equal(error, "rnic verbs:rxe0/1: cannot open /dev/infiniband/uverbs0: "
				   "Permission denied; run smcrd as root, or give its user the "
				   "right to open it");
	verbs_explain_open("verbs:rxe0/1", "/dev/infiniband/uverbs0", -ENOENT, error);
	assert_non_null(strstr(error, "No such file or directory; there is no such file: mount "));
	verbs_explain_open("verbs:rxe0/1", "/dev/infiniband/uverbs0", -ENOMEM, error);
	assert_non_null(strstr(error, "LimitMEMLOCK"));
	verbs_explain_open("verbs:rxe0/1", "/dev/infiniband/uverbs0", -EIO, error);
	assert_non_null(strstr(error, "dmesg"));
	verbs_explain_no_gid("verbs:rxe0/1", error);
	assert_non_null(strstr(error, "no RoCE GID for an interface of this network namespace; "));
}

static void why_memory_cannot_be_registered(void **state)
{
	(void)state;
	char error[RNIC_ERROR_LEN];
	struct rlimit before, low;
	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
	low = (struct rlimit){ 65536, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &low), 0);
	rnic_verbs_explain_memory("verbs:rxe0/1", 524288, -ENOMEM, error);
	assert_string_equal(error, "rnic verbs:rxe0/1: cannot register 524288 bytes: Cannot "
				   "allocate memory; locked memory is limited to 65536 bytes: "
				   "raise LimitMEMLOCK of smcrd.service");
	rnic_verbs_explain_memory("verbs:rxe0/1", 1, -EIO, error);
	assert_string_equal(error,
			    "rnic verbs:rxe0/1: cannot register 1 bytes: Input/output error");
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
}

static void open_says_what_is_wrong(void **state)
{
	(void)state;
	struct rnic_open_params params = { 0 };
	struct rnic *rnic = NULL;
	char error[RNIC_ERROR_LEN];
	assert_int_equal(rnic_open("verbs:nosuch9/3", &params, &rnic, error), -ENODEV);
	assert_non_null(strstr(error, "rnic verbs:nosuch9/3: "));
	assert_int_equal(rnic_open("verbs:nosuch9/0", &params, &rnic, error), -EINVAL);
	assert_string_equal(error, "verbs:nosuch9/0: not a verbs device; use verbs:DEV[/PORT]");
	assert_null(rnic);
}

/* ---- counters */

static void counters(void **state)
{
	(void)state;
	struct rnic_stats stats, before;
	char dir[100];
	snprintf(dir, sizeof(dir), "%s/ports/1", root);
	verbs_counters_read(dir, &stats);
	assert_int_equal(stats.tx_packets, 0);
	put("ports/1/hw_counters/sent_pkts", "17\n");
	put("ports/1/hw_counters/duplicate_request", "3\n");
	put("ports/1/hw_counters/rcvd_seq_err", "nonsense\n");
	verbs_counters_read(dir, &before);
	assert_int_equal(before.tx_packets, 17);
	assert_int_equal(before.duplicates, 3);
	assert_int_equal(before.naks_received, 0);
	put("ports/1/counters/port_xmit_packets", "40\n"); /* this counter was not there before */
	put("ports/1/counters/port_xmit_data", "100\n");   /* words of 4 bytes */
	put("ports/1/hw_counters/duplicate_request", "1\n");
	verbs_counters_read(dir, &stats);
	assert_int_equal(stats.tx_packets, 40);
	assert_int_equal(stats.tx_bytes, 400);
	verbs_counters_subtract(&stats, &before);
	assert_int_equal(stats.tx_packets, 23);
	assert_int_equal(stats.tx_bytes, 400);
	assert_int_equal(stats.duplicates, 1); /* the device has set it back */
}

int main(void)
{
#define ROOTED(f) cmocka_unit_test_setup_teardown(f, make_root, remove_root)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(gids_in_order),
		cmocka_unit_test(gids_of_one_interface),
		cmocka_unit_test(gids_that_do_not_count),
		cmocka_unit_test(more_gids_than_we_have_room_for),
		cmocka_unit_test(patience),
		cmocka_unit_test(attributes),
		cmocka_unit_test(statuses),
		cmocka_unit_test(places),
		ROOTED(why_a_device_is_not_listed),
		cmocka_unit_test(why_a_device_cannot_be_used),
		cmocka_unit_test(why_memory_cannot_be_registered),
		cmocka_unit_test(open_says_what_is_wrong),
		ROOTED(counters),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

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
#include "tests/lib/rnic_behaviour.h"
#include "tests/lib/testnet.h"

static struct testnet net;

static int setup(void **state)
{
	(void)state;
	testnet_new(&net, 9000);
	behaviour_base = event_base_new();
	rnic_side_open(&behaviour_a, behaviour_base, "soft:t0", RNIC_BEHAVIOUR_MEM);
	testnet_enter(&net, 1);
	rnic_side_open(&behaviour_b, behaviour_base, "soft:t1", RNIC_BEHAVIOUR_MEM);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rnic_side_close(&behaviour_a);
	rnic_side_close(&behaviour_b);
	event_base_free(behaviour_base);
	testnet_free(&net);
	return 0;
}

static void device_says_what_it_is(void **state)
{
	(void)state;
	struct rnic_info info;
	rnic_get_info(behaviour_a.rnic, &info);
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

static void writes_without_segmentation(void **state)
{
	rnic_soft_set_segmentation(behaviour_a.rnic, false);
	rnic_soft_set_segmentation(behaviour_b.rnic, false);
	rnic_behaviour_writes(state);
	rnic_soft_set_segmentation(behaviour_a.rnic, true);
	rnic_soft_set_segmentation(behaviour_b.rnic, true);
}

int main(void)
{
	const struct CMUnitTest own[] = {
		cmocka_unit_test(device_says_what_it_is),
		cmocka_unit_test_setup_teardown(writes_without_segmentation, rnic_behaviour_connect,
						rnic_behaviour_disconnect),
	};
	return rnic_behaviour_run("soft RNIC", own, sizeof(own) / sizeof(own[0]), setup, teardown);
}

/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/host/peer_id.h"
#include "tests/lib/proves.h"

static void no_instance_repeats_its_predecessor(void **state)
{
	/* a clock that stands still, goes back, and wraps its low 16 bits */
	static const int64_t steps[] = { 0, 1, -1, 65536, 0, 0, 2, -65536, -3 };
	uint64_t seconds = 1700000000;
	uint16_t previous = 0;
	bool known = false;
	(void)state;
	for (size_t i = 0; i < 1000; i++) {
		uint16_t instance = peer_id_next_instance(known, previous, seconds);
		if (known)
			assert_int_not_equal(instance, previous);
		previous = instance;
		known = true;
		seconds += (uint64_t)steps[i % (sizeof(steps) / sizeof(steps[0]))];
	}
}

/* 1000 daemons one after the other on one socket: none has the ID of the one before. */
static void restarts_differ_through_the_file(void **state)
{
	static const uint8_t mac[SMCR_MAC_LEN] = { 2, 0, 0, 0, 0, 1 };
	char socket_path[] = "/tmp/smcrd-peer-id-XXXXXX", file[64];
	uint8_t previous[SMCR_PEER_ID_LEN], id[SMCR_PEER_ID_LEN];
	(void)state;
	int fd = mkstemp(socket_path);
	assert_true(fd >= 0);
	close(fd);
	snprintf(file, sizeof(file), "%s.instance", socket_path);
	peer_id_make(mac, socket_path, previous);
	for (int i = 0; i < 1000; i++) {
		peer_id_make(mac, socket_path, id);
		assert_memory_not_equal(id, previous, 2);
		assert_memory_equal(id + 2, mac, SMCR_MAC_LEN);
		memcpy(previous, id, sizeof(id));
	}
	unlink(file);
	unlink(socket_path);
	PROVES("PEER-2");
}

static void without_a_mac_it_is_local_and_random(void **state)
{
	uint8_t first[SMCR_PEER_ID_LEN], second[SMCR_PEER_ID_LEN];
	(void)state;
	peer_id_make(NULL, "/nonexistent/smcrd.sock", first);
	peer_id_make(NULL, "/nonexistent/smcrd.sock", second);
	assert_int_equal(first[2] & 0x03, 0x02);
	assert_memory_not_equal(first + 2, second + 2, SMCR_MAC_LEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_instance_repeats_its_predecessor),
		cmocka_unit_test(restarts_differ_through_the_file),
		cmocka_unit_test(without_a_mac_it_is_local_and_random),
	};
	return cmocka_run_group_tests_name("peer_id", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* RDMA uses the network of the IP connection and no other. Both hosts have RNICs on one LAN and on
 * several VLANs, all with the same IP prefix, so that only the VLAN tells them apart (SEC-1). */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/lib/enginepair.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define S PAIR_SERVER
#define C PAIR_CLIENT

#define VLAN_A 5
#define VLAN_B 7

static void add(struct pair *pair, int side, size_t n, uint16_t vlan)
{
	struct smcr_device_info info = pair_device(side, n);
	info.vlan = vlan;
	pair_add_device(pair, side, &info);
}

/* Two RNICs on each VLAN at both hosts; the two sides list them in different orders. */
static struct pair *three_lans(void)
{
	static const uint16_t vlans[] = { VLAN_A, SMCR_NO_VLAN, VLAN_B };
	struct pair *pair = pair_new(NULL, NULL, 0, 0);
	for (size_t n = 0; n < 6; n++) {
		add(pair, S, n, vlans[n % 3]);
		add(pair, C, n, vlans[2 - n / 2]);
	}
	return pair;
}

static int connect_on(struct pair *pair, uint16_t vlan)
{
	pair->side[S].vlan = pair->side[C].vlan = vlan;
	int c = pair_connect(pair, C);
	pair_pump(pair);
	return c;
}

static bool get_lgr(void *arg, const struct smcr_lgr_view *view)
{
	*(struct smcr_lgr_view *)arg = *view;
	return false;
}

static uint16_t vlan_of_lgr(const struct pair_side *side, uint32_t id)
{
	struct smcr_lgr_view view = { 0 };
	assert_false(smcr_engine_walk_lgrs(side->engine, id - 1, get_lgr, &view));
	assert_int_equal(view.id, id);
	return view.vlan;
}

static uint16_t vlan_of_device(const struct pair_side *side, uint32_t id)
{
	size_t i = 0;
	while (i < side->num_devices && side->devices[i].id != id)
		i++;
	assert_true(i < side->num_devices);
	return side->devices[i].vlan;
}

struct links {
	const struct pair_side *side;
	unsigned int count;
};

static void check_link(void *arg, const struct smcr_link_view *view)
{
	struct links *links = arg;
	assert_int_equal(vlan_of_device(links->side, view->device_id),
			 vlan_of_lgr(links->side, view->lgr_id));
	links->count++;
}

/* Each link of each group has RNICs of the group's VLAN at both ends. @return number of links */
static unsigned int check_links(const struct pair *pair)
{
	struct links links = { 0 };
	for (int side = 0; side < 2; side++) {
		links.side = &pair->side[side];
		smcr_engine_each_link(links.side->engine, check_link, &links);
	}
	return links.count;
}

static void each_on_its_own(void **state)
{
	(void)state;
	static const uint16_t order[] = { SMCR_NO_VLAN, VLAN_B, VLAN_A, VLAN_B, SMCR_NO_VLAN };
	struct pair *pair = three_lans();
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		TRIES("row %zu", i);
		int c = connect_on(pair, order[i]);
		assert_true(pair_both_established(pair, c));
		for (int side = 0; side < 2; side++) {
			uint32_t lgr = pair_conn_view(pair, c, side).lgr_id;
			assert_int_equal(vlan_of_lgr(&pair->side[side], lgr), order[i]);
		}
		pair_exchange(pair, c);
		check_links(pair);
	}
	assert_int_equal(pair_engine_view(pair, S).num_lgrs, 3); /* a group for each VLAN */
	assert_int_equal(pair_engine_view(pair, C).num_lgrs, 3);
	assert_int_equal(check_links(pair), 12); /* two links each, as each VLAN has two RNICs */
	pair_free(pair);
	PROVES("SEC-1 LG-2");
}

/* All RNICs are on other VLANs. */
static void none_there(void **state)
{
	(void)state;
	for (int without = 0; without < 2; without++) {
		TRIES("without %d", without);
		struct pair *pair = pair_new(NULL, NULL, 0, 0);
		add(pair, without, 0, VLAN_A);
		add(pair, without, 1, SMCR_NO_VLAN);
		add(pair, !without, 0, VLAN_B);
		int c = connect_on(pair, VLAN_B);
		assert_int_equal(pair_end(pair, c, S)->fallback, 1);
		assert_int_equal(pair_end(pair, c, C)->fallback, 1);
		assert_int_equal(pair_num_qps(pair, S) + pair_num_qps(pair, C), 0);
		pair_free(pair);
	}
	PROVES("SEC-1");
}

/* New RNICs give links only to a group of their VLAN, whichever side has them. */
static void growing(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 0, 0);
	add(pair, S, 0, VLAN_A);
	add(pair, C, 0, VLAN_A);
	int c = connect_on(pair, VLAN_A);
	assert_true(pair_both_established(pair, c));
	for (int side = 0; side < 2; side++) {
		add(pair, side, 1, VLAN_B);
		add(pair, side, 2, SMCR_NO_VLAN);
		pair_run(pair, 1000000);
	}
	assert_int_equal(check_links(pair), 2);
	add(pair, S, 3, VLAN_A);
	add(pair, C, 3, VLAN_A);
	pair_run(pair, 60000000);
	assert_int_equal(check_links(pair), 4);
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("SEC-1");
}

/* The group's RNIC leaves its VLAN: the link over it ends. */
static void leaving(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 0, 0);
	for (int side = 0; side < 2; side++)
		for (size_t n = 0; n < 2; n++)
			add(pair, side, n, VLAN_A);
	int c = connect_on(pair, VLAN_A);
	assert_int_equal(check_links(pair), 4);
	struct smcr_device_info info = pair->side[S].devices[0];
	info.vlan = VLAN_B;
	assert_int_equal(smcr_engine_device_update(pair->side[S].engine, &info), 0);
	pair_run(pair, 10000000);
	check_links(pair);
	assert_true(pair_both_established(pair, c));
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("SEC-1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_on_its_own),
		cmocka_unit_test(none_there),
		cmocka_unit_test(growing),
		cmocka_unit_test(leaving),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

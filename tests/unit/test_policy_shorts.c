/* SPDX-License-Identifier: MIT */
/* Where connections are too short for SMC-R: learnt and forgotten. The test has its own clock. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>
#include <sys/socket.h>

#include "daemon/policy/shorts.h"

static const struct shorts_config usual = { .rate = 20, .ms = 1000, .bytes = 65536 };

struct fixture {
	struct shorts *shorts;
	uint64_t now_ms;
	uint64_t handshakes; /* handshakes at the place since it counts as short */
};

static int setup(void **state)
{
	struct fixture *fixture = test_calloc(1, sizeof(*fixture));
	fixture->shorts = shorts_new(&usual);
	fixture->now_ms = 1000000;
	*state = fixture;
	return fixture->shorts ? 0 : -1;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;
	shorts_free(fixture->shorts);
	test_free(fixture);
	return 0;
}

static struct smcr_addr peer(uint8_t last, uint16_t port)
{
	return (struct smcr_addr){ .family = AF_INET, .ip = { 10, 0, 0, last }, .port = port };
}

/* A connection to port 80 of 10.0.0.1 ends `gap_ms` after the one before. */
static enum shorts_change ended(struct fixture *fixture, uint64_t gap_ms, uint64_t ms,
				uint64_t bytes)
{
	const struct smcr_addr where = peer(1, 80);
	const struct short_place *place;
	fixture->now_ms += gap_ms;
	return shorts_note(fixture->shorts, &where, ms, bytes, fixture->now_ms, &place);
}

/* Up to `most` short connections end, so many a second. @return how many it took until the place
 * counted as short, 0 if it never did */
static unsigned int until_short(struct fixture *fixture, unsigned int a_second, unsigned int most)
{
	for (unsigned int i = 1; i <= most; i++) {
		enum shorts_change change = ended(fixture, 1000 / a_second, 5, 1000);
		if (change == SHORTS_BEGINS)
			return i;
		assert_int_equal(change, SHORTS_SAME);
	}
	return 0;
}

static enum shorts_change look(struct fixture *fixture, uint64_t handshakes)
{
	const struct smcr_addr where = peer(1, 80);
	fixture->now_ms += SHORTS_LOOK_MS;
	fixture->handshakes += handshakes;
	return shorts_look(fixture->shorts, &where, fixture->handshakes, fixture->now_ms);
}

static void many_short_ones_in_a_row_are_noticed(void **state)
{
	/* At least 20 a second during ten seconds: 200 connections, however fast they come. */
	assert_in_range(until_short(*state, 100, 1000), 200, 240);
	assert_true(shorts_any(((struct fixture *)*state)->shorts));
}

static void twenty_five_a_second_take_some_more(void **state)
{
	assert_in_range(until_short(*state, 25, 5000), 200, 600);
}

static void slow_ones_never_are(void **state)
{
	assert_int_equal(until_short(*state, 15, 20000), 0);
	assert_false(shorts_any(((struct fixture *)*state)->shorts));
}

static void a_burst_is_not_enough(void **state)
{
	struct fixture *fixture = *state;
	for (int round = 0; round < 50; round++) {
		assert_int_equal(until_short(fixture, 1000, 150), 0);
		fixture->now_ms += 60000;
	}
}

static void long_or_large_ones_keep_it_off(void **state)
{
	struct fixture *fixture = *state;
	/* One of seven connections lasts, or carries many bytes. */
	for (int i = 0; i < 5000; i++) {
		bool lasts = i % 14 == 0, large = i % 14 == 7;
		assert_int_equal(ended(fixture, 2, lasts ? 1001 : 5, large ? 65536 : 65535),
				 SHORTS_SAME);
	}
	/* One of fifty does not matter. */
	unsigned int n = 0;
	while (ended(fixture, 2, n % 50 == 0 ? 1001 : 1000, 65535) != SHORTS_BEGINS)
		assert_true(++n < 500);
}

static void others_are_judged_by_themselves(void **state)
{
	struct fixture *fixture = *state;
	const struct smcr_addr others[] = { peer(2, 80), peer(1, 81), { .port = 80 } };
	const struct short_place *place;
	for (int i = 0; i < 1000; i++)
		for (size_t k = 0; k < 3; k++)
			shorts_note(fixture->shorts, &others[k], 5000, 1000, fixture->now_ms++,
				    &place);
	assert_in_range(until_short(fixture, 100, 1000), 200, 240);
	for (size_t k = 0; k < 3; k++) {
		shorts_note(fixture->shorts, &others[k], 5000, 1000, fixture->now_ms, &place);
		assert_false(place->is_short);
		assert_int_equal(place->seen, 1001);
	}
}

static void the_sample_shows_a_change(void **state)
{
	struct fixture *fixture = *state;
	assert_true(until_short(fixture, 100, 1000) > 0);
	/* As many connections as before: 100 a second, of which smcrd sees 3. */
	for (int i = 0; i < 20; i++) {
		for (int k = 0; k < 31; k++)
			assert_int_equal(ended(fixture, 1, 5, 1000), SHORTS_SAME);
		assert_int_equal(look(fixture, 1000), SHORTS_SAME);
	}
	/* Now connections last. */
	unsigned int n = 1;
	while (ended(fixture, 320, 60000, 1000) != SHORTS_ENDS)
		assert_true(++n < 10);
	assert_in_range(n, 3, 8);
	assert_false(shorts_any(fixture->shorts));
	/* and the place counts as short after as many connections as the first time */
	assert_in_range(until_short(fixture, 100, 1000), 200, 260);
}

static void one_long_sample_changes_nothing(void **state)
{
	struct fixture *fixture = *state;
	assert_true(until_short(fixture, 100, 1000) > 0);
	for (int i = 0; i < 200; i++)
		assert_int_equal(ended(fixture, 320, i % 8 == 0 ? 60000 : 5, 1000), SHORTS_SAME);
}

static void quiet_places_are_forgotten(void **state)
{
	struct fixture *fixture = *state;
	assert_true(until_short(fixture, 100, 1000) > 0);
	assert_int_equal(look(fixture, 1000), SHORTS_SAME);
	assert_int_equal(look(fixture, 101), SHORTS_SAME); /* 10.1 a second */
	assert_int_equal(look(fixture, 99), SHORTS_ENDS);
	assert_int_equal(look(fixture, 0), SHORTS_SAME);
	assert_false(shorts_any(fixture->shorts));
}

static void collect(void *arg, const struct short_place *place)
{
	struct short_place *last = arg;
	*last = *place;
}

static void a_place_can_be_forgotten(void **state)
{
	struct fixture *fixture = *state;
	struct short_place gone = { 0 };
	const struct smcr_addr own = { .port = 80 };
	const struct short_place *place;
	assert_true(until_short(fixture, 100, 1000) > 0);
	shorts_note(fixture->shorts, &own, 5, 5, fixture->now_ms, &place);
	struct smcr_addr where = peer(1, 81);
	assert_int_equal(shorts_forget(fixture->shorts, &where, collect, &gone), 0);
	where.port = 0;
	assert_int_equal(shorts_forget(fixture->shorts, &where, collect, &gone), 1);
	assert_int_equal(gone.where.port, 80);
	assert_int_equal(gone.where.ip[3], 1);
	assert_false(shorts_any(fixture->shorts));
	memset(&gone, 0, sizeof(gone));
	assert_int_equal(shorts_forget(fixture->shorts, &own, collect, &gone), 1);
	assert_int_equal(gone.where.port, 0); /* the place did not count as short */
}

static bool collect_one(void *arg, const struct short_place *place)
{
	collect(arg, place);
	return true;
}

static void rates_fade_in_the_view(void **state)
{
	struct fixture *fixture = *state;
	struct short_place seen = { 0 };
	assert_int_equal(until_short(fixture, 10, 100), 0);
	shorts_walk(fixture->shorts, fixture->now_ms, 0, collect_one, &seen);
	assert_true(seen.rate > 5 && seen.rate < 11 && seen.share > 0.9 && seen.seen == 100);
	shorts_walk(fixture->shorts, fixture->now_ms + 60000, 0, collect_one, &seen);
	assert_true(seen.rate < 0.5);
}

static void with_rate_0_nothing_is_learnt(void **state)
{
	const struct shorts_config off = { .rate = 0, .ms = 1000, .bytes = 65536 };
	const struct smcr_addr where = peer(1, 80);
	const struct short_place *place;
	struct shorts *shorts = shorts_new(&off);
	(void)state;
	for (int i = 0; i < 10000; i++)
		assert_int_equal(shorts_note(shorts, &where, 1, 1, (uint64_t)i, &place),
				 SHORTS_SAME);
	assert_null(place);
	shorts_free(shorts);
}

static void count_ended(void *arg, const struct short_place *place)
{
	unsigned int *n = arg;
	assert_true(place->is_short);
	(*n)++;
}

/* A new rate applies from now on. Rate 0 makes all places forgotten. */
static void the_rate_can_be_changed(void **state)
{
	struct fixture *fixture = *state;
	struct shorts_config config = usual;
	unsigned int n = 0;
	config.rate = 50;
	shorts_configure(fixture->shorts, &config, count_ended, &n);
	assert_int_equal(until_short(fixture, 40, 2000), 0);
	config.rate = 20;
	shorts_configure(fixture->shorts, &config, count_ended, &n);
	assert_int_not_equal(until_short(fixture, 40, 2000), 0);
	assert_int_equal(n, 0);
	config.rate = 0;
	shorts_configure(fixture->shorts, &config, count_ended, &n);
	assert_int_equal(n, 1);
	assert_false(shorts_any(fixture->shorts));
	assert_int_equal(until_short(fixture, 40, 2000), 0);
}

static void the_number_of_places_is_limited(void **state)
{
	struct fixture *fixture = *state;
	const struct short_place *place;
	for (uint32_t i = 0; i < 5000; i++) {
		struct smcr_addr where = peer((uint8_t)(i / 64), (uint16_t)(i % 64 + 1));
		shorts_note(fixture->shorts, &where, 5, 5, fixture->now_ms, &place);
		assert_int_equal(place != NULL, i < 4096);
	}
	/* A place that was not seen for a while is given up for a new one. */
	struct smcr_addr where = peer(99, 1);
	fixture->now_ms += SHORTS_LOOK_MS + 1;
	shorts_note(fixture->shorts, &where, 5, 5, fixture->now_ms, &place);
	assert_non_null(place);
}

/* Places of one peer are limited. Ports of this host belong to all its users, and are not. */
static void the_ports_of_a_peer_are_limited(void **state)
{
	struct fixture *fixture = *state;
	const struct short_place *place;
	for (uint16_t port = 1; port <= 2000; port++) {
		struct smcr_addr where = peer(1, port), own = { .port = port };
		shorts_note(fixture->shorts, &where, 5, 5, fixture->now_ms, &place);
		assert_int_equal(place != NULL, port <= 64);
		shorts_note(fixture->shorts, &own, 5, 5, fixture->now_ms, &place);
		assert_int_equal(place != NULL, port <= 1024);
	}
	struct smcr_addr other = peer(2, 1), quiet = peer(1, 3000);
	shorts_note(fixture->shorts, &other, 5, 5, fixture->now_ms, &place);
	assert_non_null(place);
	fixture->now_ms += SHORTS_LOOK_MS + 1;
	shorts_note(fixture->shorts, &quiet, 5, 5, fixture->now_ms, &place);
	assert_non_null(place);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(many_short_ones_in_a_row_are_noticed),
		CASE(twenty_five_a_second_take_some_more),
		CASE(slow_ones_never_are),
		CASE(a_burst_is_not_enough),
		CASE(long_or_large_ones_keep_it_off),
		CASE(others_are_judged_by_themselves),
		CASE(the_sample_shows_a_change),
		CASE(one_long_sample_changes_nothing),
		CASE(quiet_places_are_forgotten),
		CASE(a_place_can_be_forgotten),
		CASE(rates_fade_in_the_view),
		CASE(with_rate_0_nothing_is_learnt),
		CASE(the_rate_can_be_changed),
		CASE(the_number_of_places_is_limited),
		CASE(the_ports_of_a_peer_are_limited),
	};
	return cmocka_run_group_tests_name("policy_shorts", tests, NULL, NULL);
}

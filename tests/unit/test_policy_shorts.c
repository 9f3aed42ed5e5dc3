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
	uint64_t handshakes;     /* handshakes at the place since it counts as short */
	struct short_place gone; /* the last place that counted as short and was forgotten */
	unsigned int num_gone;
};

static void collect(void *arg, const struct short_place *place)
{
	struct fixture *fixture = arg;
	fixture->gone = *place;
	fixture->num_gone++;
}

static int setup(void **state)
{
	struct fixture *fixture = test_calloc(1, sizeof(*fixture));
	fixture->shorts = shorts_new(&usual, collect, fixture);
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

#define UID   1000
#define OTHER 1001

static struct rdv_place to(uid_t uid, uint8_t last, uint16_t port)
{
	return (struct rdv_place){
		.uid = uid, .peer = { .family = AF_INET, .ip = { 10, 0, 0, last }, .port = port }
	};
}

/* Connections that a peer makes to a port of this host. */
static struct rdv_place from(uint8_t last, uid_t uid, uint16_t port)
{
	struct rdv_place where = to(uid, last, port);
	where.server = true;
	where.local = (struct smcr_addr){ .family = AF_INET, .ip = { 10, 0, 0, 254 } };
	return where;
}

/* As to(), of an address of the 2^16 networks fd00:0:0:NETWORK::/64. */
static struct rdv_place to6(uid_t uid, uint16_t network, uint16_t host, uint16_t port)
{
	struct rdv_place where = { .uid = uid, .peer = { .family = AF_INET6, .port = port } };
	where.peer.ip[0] = 0xfd;
	memcpy(where.peer.ip + 6, &network, sizeof(network));
	memcpy(where.peer.ip + 14, &host, sizeof(host));
	return where;
}

/* A short connection ends. @return whether the place is remembered */
static bool one(struct fixture *fixture, struct rdv_place where)
{
	const struct short_place *place;
	shorts_note(fixture->shorts, &where, 5, 5, fixture->now_ms, &place);
	return place != NULL;
}

/* Up to `most` short connections end there, so many a second. @return how many it took until the
 * place counted as short, 0 if it never did */
static unsigned int until_short_at(struct fixture *fixture, struct rdv_place where,
				   unsigned int a_second, unsigned int most)
{
	const struct short_place *place;
	for (unsigned int i = 1; i <= most; i++) {
		fixture->now_ms += 1000 / a_second;
		if (shorts_note(fixture->shorts, &where, 5, 1000, fixture->now_ms, &place) ==
		    SHORTS_BEGINS)
			return i;
	}
	return 0;
}

static bool is_short(const struct fixture *fixture, struct rdv_place where)
{
	return shorts_is_short(fixture->shorts, &where);
}

/* A connection to port 80 of 10.0.0.1 ends `gap_ms` after the one before. */
static enum shorts_change ended(struct fixture *fixture, uint64_t gap_ms, uint64_t ms,
				uint64_t bytes)
{
	const struct rdv_place where = to(UID, 1, 80);
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
	const struct rdv_place where = to(UID, 1, 80);
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
	const struct rdv_place others[] = { to(UID, 2, 80), to(UID, 1, 81), to(OTHER, 1, 80),
					    from(1, UID, 80) };
	const struct short_place *place;
	for (int i = 0; i < 1000; i++)
		for (size_t k = 0; k < 4; k++)
			shorts_note(fixture->shorts, &others[k], 5000, 1000, fixture->now_ms++,
				    &place);
	assert_in_range(until_short(fixture, 100, 1000), 200, 240);
	for (size_t k = 0; k < 4; k++) {
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

static void a_place_can_be_forgotten(void **state)
{
	struct fixture *fixture = *state;
	struct smcr_addr where = to(0, 1, 81).peer;
	const struct smcr_addr own = { .port = 80 };
	assert_true(until_short(fixture, 100, 1000) > 0);
	assert_true(until_short_at(fixture, to(OTHER, 1, 80), 100, 1000) > 0);
	one(fixture, from(2, UID, 80));
	one(fixture, from(3, OTHER, 80));
	one(fixture, from(3, OTHER, 81));
	assert_int_equal(shorts_forget(fixture->shorts, &where), 0);
	assert_int_equal(fixture->num_gone, 0);
	where.port = 0;
	assert_int_equal(shorts_forget(fixture->shorts, &where), 2);
	assert_int_equal(fixture->num_gone, 2);
	assert_int_equal(fixture->gone.where.peer.port, 80);
	assert_int_equal(fixture->gone.where.peer.ip[3], 1);
	assert_false(shorts_any(fixture->shorts));
	assert_int_equal(shorts_forget(fixture->shorts, &own), 2);
	assert_int_equal(fixture->num_gone, 2); /* these did not count as short */
	where = to(0, 3, 0).peer;
	assert_int_equal(shorts_forget(fixture->shorts, &where), 1);
}

static bool collect_one(void *arg, const struct short_place *place)
{
	struct short_place *last = arg;
	*last = *place;
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
	const struct rdv_place where = to(UID, 1, 80);
	const struct short_place *place;
	struct shorts *shorts = shorts_new(&off, NULL, NULL);
	(void)state;
	for (int i = 0; i < 10000; i++)
		assert_int_equal(shorts_note(shorts, &where, 1, 1, (uint64_t)i, &place),
				 SHORTS_SAME);
	assert_null(place);
	shorts_free(shorts);
}

/* A new rate applies from now on. Rate 0 makes all places forgotten. */
static void the_rate_can_be_changed(void **state)
{
	struct fixture *fixture = *state;
	struct shorts_config config = usual;
	config.rate = 50;
	shorts_configure(fixture->shorts, &config);
	assert_int_equal(until_short(fixture, 40, 2000), 0);
	config.rate = 20;
	shorts_configure(fixture->shorts, &config);
	assert_int_not_equal(until_short(fixture, 40, 2000), 0);
	assert_int_equal(fixture->num_gone, 0);
	config.rate = 0;
	shorts_configure(fixture->shorts, &config);
	assert_int_equal(fixture->num_gone, 1);
	assert_true(fixture->gone.is_short);
	assert_false(shorts_any(fixture->shorts));
	assert_int_equal(until_short(fixture, 40, 2000), 0);
}

/* One user's short connections leave those of others alone. */
static void a_user_decides_for_himself(void **state)
{
	struct fixture *fixture = *state;
	assert_true(until_short(fixture, 1000, 5000) > 0);
	assert_true(is_short(fixture, to(UID, 1, 80)));
	assert_false(is_short(fixture, to(OTHER, 1, 80)));
	assert_false(is_short(fixture, to(UID, 1, 81)));
	assert_false(is_short(fixture, from(1, UID, 80)));
}

/* A peer's short connections to a server leave those of other peers alone, and those to servers of
 * other users. */
static void a_peer_decides_for_itself(void **state)
{
	struct fixture *fixture = *state;
	assert_true(until_short_at(fixture, from(1, UID, 80), 1000, 5000) > 0);
	assert_true(is_short(fixture, from(1, UID, 80)));
	assert_false(is_short(fixture, from(2, UID, 80)));
	assert_false(is_short(fixture, from(1, OTHER, 80)));
	assert_false(is_short(fixture, to(UID, 1, 80)));
}

/* A client counts the addresses of a server apart, so with several of them the connections of one
 * user are few for the client's host, and must not be many for the server. */
static void addresses_of_a_server_are_counted_apart(void **state)
{
	struct fixture *fixture = *state;
	struct rdv_place server = from(1, UID, 80);
	for (unsigned int i = 0; i < 5000; i++) {
		server.local.ip[3] = (uint8_t)(i % 5);
		one(fixture, server);
		fixture->now_ms += 10; /* 100 a second, 20 to each */
	}
	assert_false(shorts_any(fixture->shorts));
	server.local.ip[3] = 0;
	assert_true(until_short_at(fixture, server, 100, 5000) > 0);
	server.local.ip[3] = 1;
	assert_false(is_short(fixture, server));
	assert_int_equal(shorts_forget(fixture->shorts, &(struct smcr_addr){ .port = 80 }), 5);
}

/* A server sees the connections of all users of a peer's host. It leaves the time to decide to that
 * host: with the sample, which has no more than 20 a second, it sees too few. */
static void a_server_is_more_patient(void **state)
{
	struct fixture *fixture = *state;
	struct rdv_place server = from(1, UID, 80);
	const struct short_place *place;
	unsigned int client = until_short(fixture, 1000, 5000);
	assert_int_equal(until_short_at(fixture, server, 1000, client), 0);
	assert_int_equal(until_short_at(fixture, server, 20, 10000), 0);
	assert_int_equal(until_short_at(fixture, server, 70, 10000), 0);
	/* Four times as many as a client. */
	assert_in_range(until_short_at(fixture, from(2, UID, 80), 1000, 5000), 800, 900);
	server = from(2, UID, 80);
	fixture->now_ms += SHORTS_LOOK_MS;
	assert_int_equal(shorts_look(fixture->shorts, &server, 401, fixture->now_ms), SHORTS_SAME);
	fixture->now_ms += SHORTS_LOOK_MS;
	assert_int_equal(shorts_look(fixture->shorts, &server, 800, fixture->now_ms), SHORTS_ENDS);
	shorts_note(fixture->shorts, &server, 5, 5, fixture->now_ms, &place);
	assert_false(place->is_short);
}

static unsigned int count_of(const struct fixture *fixture, uid_t uid, bool server);

/* A user has a quarter of the places, whatever he does, and others keep theirs. */
static void a_user_has_a_share_of_the_places(void **state)
{
	struct fixture *fixture = *state;
	assert_true(until_short(fixture, 1000, 5000) > 0);
	for (uint32_t i = 0; i < 3000; i++)
		assert_true(one(fixture, to6(OTHER, (uint16_t)(i / 4), 1, (uint16_t)(i % 4 + 1))));
	assert_int_equal(count_of(fixture, OTHER, false), 1024);
	assert_true(is_short(fixture, to(UID, 1, 80)));
	/* Those of his servers are counted by themselves. */
	for (uint32_t i = 0; i < 3000; i++) {
		struct rdv_place where = to6(UID, (uint16_t)i, 1, 80);
		where.server = true;
		assert_true(one(fixture, where));
	}
	assert_int_equal(count_of(fixture, UID, true), 1024);
	assert_true(is_short(fixture, to(UID, 1, 80)));
	assert_int_equal(fixture->num_gone, 0);
}

static bool count_place(void *arg, const struct short_place *place)
{
	struct short_place *searched = arg;
	searched->seen += place->where.uid == searched->where.uid &&
			  place->where.server == searched->where.server;
	return true;
}

static unsigned int count_of(const struct fixture *fixture, uid_t uid, bool server)
{
	struct short_place searched = { .where = { .uid = uid, .server = server } };
	shorts_walk(fixture->shorts, fixture->now_ms, 0, count_place, &searched);
	return (unsigned int)searched.seen;
}

/* All 4096 are taken: who has the most loses one. */
static void many_users_displace_nobody_who_has_few(void **state)
{
	struct fixture *fixture = *state;
	assert_true(until_short(fixture, 1000, 5000) > 0);
	for (uid_t uid = 2000; uid < 2005; uid++)
		for (uint16_t i = 1; i <= 1000; i++)
			assert_true(one(fixture, to6(uid, i, 1, 80)));
	assert_true(is_short(fixture, to(UID, 1, 80)));
	assert_int_equal(fixture->num_gone, 0);
}

/* A peer with all addresses of an IPv6 /64 has 256 places, at each address 64. */
static void a_network_has_a_share_of_the_places(void **state)
{
	struct fixture *fixture = *state;
	struct rdv_place other = to6(UID, 2, 1, 80);
	other.server = true;
	assert_true(until_short_at(fixture, other, 1000, 5000) > 0);
	for (uint16_t i = 0; i < 1000; i++) {
		struct rdv_place where = to6(UID, 1, i, 80);
		where.server = true;
		assert_true(one(fixture, where));
	}
	assert_int_equal(count_of(fixture, UID, true), 257);
	for (uint16_t port = 1; port < 1000; port++)
		assert_true(one(fixture, from(1, UID, port)));
	assert_int_equal(count_of(fixture, UID, true), 257 + 64);
	assert_true(is_short(fixture, other));
}

/* In a share that is full, the place that was unused for longest is given up, and first those that
 * do not count as short. What is given up is told. */
static void places_that_count_stay_longest(void **state)
{
	struct fixture *fixture = *state;
	for (uint16_t port = 1; port <= 63; port++)
		assert_true(until_short_at(fixture, to(UID, 1, port), 1000, 5000) > 0);
	one(fixture, to(UID, 1, 100));
	one(fixture, to(UID, 1, 101));
	assert_int_equal(fixture->num_gone, 0);
	assert_true(until_short_at(fixture, to(UID, 1, 101), 1000, 5000) > 0);
	one(fixture, to(UID, 1, 1)); /* used again */
	one(fixture, to(UID, 1, 102));
	assert_int_equal(fixture->num_gone, 1);
	assert_int_equal(fixture->gone.where.peer.port, 2);
	assert_true(is_short(fixture, to(UID, 1, 1)));
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
		CASE(a_user_decides_for_himself),
		CASE(a_peer_decides_for_itself),
		CASE(addresses_of_a_server_are_counted_apart),
		CASE(a_server_is_more_patient),
		CASE(a_user_has_a_share_of_the_places),
		CASE(many_users_displace_nobody_who_has_few),
		CASE(a_network_has_a_share_of_the_places),
		CASE(places_that_count_stay_longest),
	};
	return cmocka_run_group_tests_name("policy_shorts", tests, NULL, NULL);
}

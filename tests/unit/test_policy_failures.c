/* SPDX-License-Identifier: MIT */
/* Peers and ports with which SMC-R failed: for how long SMC-R is not tried with them. The test has
 * its own clock. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>
#include <sys/socket.h>

#include "daemon/policy/failures.h"
#include "tests/lib/tries.h"

#define SECOND 1000ull
#define HOUR   (3600 * SECOND)

#define UID    1000
#define OTHERS 1001

struct fixture {
	struct failures *failures;
	uint64_t now;
	size_t forgotten;
};

static void count(void *arg, const struct failure *failure)
{
	struct fixture *fixture = arg;
	(void)failure;
	fixture->forgotten++;
}

static int setup(void **state)
{
	struct fixture *fixture = test_calloc(1, sizeof(*fixture));
	fixture->failures = failures_new(60, count, fixture);
	fixture->now = 5000000;
	*state = fixture;
	return fixture->failures ? 0 : -1;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;
	failures_free(fixture->failures);
	test_free(fixture);
	return 0;
}

static struct smcr_addr peer(uint8_t last, uint16_t port)
{
	return (struct smcr_addr){ .family = AF_INET, .ip = { 10, 0, 0, last }, .port = port };
}

static struct smcr_addr peer6(uint64_t network, uint32_t host, uint16_t port)
{
	struct smcr_addr addr = { .family = AF_INET6, .port = port };
	memcpy(addr.ip, &network, sizeof(network));
	memcpy(addr.ip + 12, &host, sizeof(host));
	return addr;
}

static struct failure fails_for(struct fixture *fixture, uid_t uid, struct smcr_addr who,
				enum failure_kind kind)
{
	const struct failure *failure =
		failures_note(fixture->failures, uid, &who, kind, fixture->now);
	assert_non_null(failure);
	return *failure;
}

static struct failure fails(struct fixture *fixture, struct smcr_addr who, enum failure_kind kind)
{
	return fails_for(fixture, UID, who, kind);
}

static bool is_skipped(const struct fixture *fixture, uid_t uid, struct smcr_addr who)
{
	return failures_find(fixture->failures, uid, &who, fixture->now) != NULL;
}

static uint64_t left(const struct fixture *fixture, const struct failure *failure)
{
	return failure->until_ms > fixture->now ? (failure->until_ms - fixture->now) / SECOND : 0;
}

static bool count_one(void *arg, const struct failure *failure)
{
	(void)failure;
	++*(size_t *)arg;
	return true;
}

static size_t remembered(struct fixture *fixture)
{
	size_t n = 0;
	failures_walk(fixture->failures, fixture->now, 0, count_one, &n);
	return n;
}

static size_t work(struct fixture *fixture, struct smcr_addr who)
{
	size_t before = fixture->forgotten;
	failures_worked(fixture->failures, UID, &who, fixture->now);
	return fixture->forgotten - before;
}

static void a_dead_path_concerns_the_whole_peer(void **state)
{
	struct fixture *fixture = *state;
	struct failure failure = fails(fixture, peer(1, 80), FAILURE_PATH);
	assert_int_equal(failure.peer.port, 0);
	assert_int_equal(failure.peer.ip[3], 1);
	assert_int_equal(left(fixture, &failure), 60);
	failure = fails(fixture, peer(1, 80), FAILURE_ANSWER);
	assert_int_equal(failure.peer.port, 80);
	assert_int_equal(left(fixture, &failure), 60);
	assert_int_equal(remembered(fixture), 2);
}

/* Such a server may belong to any user of its host, so only its port is concerned. */
static void a_server_whose_rnic_does_not_answer_concerns_its_port(void **state)
{
	struct fixture *fixture = *state;
	for (uint16_t port = 80; port < 90; port++) {
		struct failure failure = fails(fixture, peer(1, port), FAILURE_LINK);
		assert_int_equal(failure.peer.port, port);
		assert_int_equal(left(fixture, &failure), 60);
	}
	assert_int_equal(remembered(fixture), 10); /* no peer as a whole */
}

static void time_doubles_with_each_attempt_up_to_an_hour(void **state)
{
	static const uint64_t times[] = { 60, 120, 240, 480, 960, 1920, 3600, 3600 };
	struct fixture *fixture = *state;
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		TRIES("row %zu", i);
		struct failure failure = fails(fixture, peer(1, 80), FAILURE_ANSWER);
		assert_int_equal(left(fixture, &failure), times[i]);
		assert_int_equal(failure.attempts, i + 1);
		fixture->now = failure.until_ms;
	}
}

static void failures_at_the_same_time_count_once(void **state)
{
	struct fixture *fixture = *state;
	struct failure failure = fails(fixture, peer(1, 80), FAILURE_PATH);
	fixture->now += 10 * SECOND;
	for (int i = 0; i < 100; i++)
		failure = fails(fixture, peer(1, (uint16_t)(80 + i)), FAILURE_PATH);
	assert_int_equal(failure.times, 101);
	assert_int_equal(failure.attempts, 1);
	assert_int_equal(failure.seconds, 60);
	/* the last failure still leaves the port out for as long as a first failure would */
	assert_int_equal(left(fixture, &failure), 60);
}

static void resets_are_over_soon_at_first(void **state)
{
	static const uint64_t times[] = { 2, 4, 8, 16 };
	struct fixture *fixture = *state;
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		TRIES("row %zu", i);
		struct failure failure = fails(fixture, peer(1, 80), FAILURE_RESET);
		assert_int_equal(left(fixture, &failure), times[i]);
		fixture->now = failure.until_ms + SECOND;
	}
	/* A worse failure counts for itself: its time is that of a first failure. */
	struct failure failure = fails(fixture, peer(1, 80), FAILURE_ANSWER);
	assert_int_equal(left(fixture, &failure), 60);
}

static void success_forgets_the_port_and_the_whole(void **state)
{
	struct fixture *fixture = *state;
	fails(fixture, peer(1, 80), FAILURE_PATH);
	fails(fixture, peer(1, 80), FAILURE_ANSWER);
	fails(fixture, peer(1, 81), FAILURE_ANSWER);
	fails(fixture, peer(2, 80), FAILURE_PATH);
	assert_int_equal(work(fixture, peer(1, 80)), 2);
	assert_int_equal(work(fixture, peer(1, 80)), 0);
	assert_int_equal(remembered(fixture), 2);
	/* and begins with the shortest time */
	struct failure failure = fails(fixture, peer(1, 80), FAILURE_PATH);
	assert_int_equal(left(fixture, &failure), 60);
}

static void an_hour_of_silence_forgets(void **state)
{
	struct fixture *fixture = *state;
	struct failure failure = fails(fixture, peer(1, 80), FAILURE_PATH);
	fixture->now = failure.until_ms + HOUR - 1;
	assert_int_equal(remembered(fixture), 1);
	failure = fails(fixture, peer(1, 80), FAILURE_PATH);
	assert_int_equal(left(fixture, &failure), 120);
	fixture->now = failure.until_ms + HOUR;
	assert_int_equal(remembered(fixture), 0);
	failure = fails(fixture, peer(1, 80), FAILURE_PATH);
	assert_int_equal(left(fixture, &failure), 60);
}

static void operators_can_forget(void **state)
{
	struct fixture *fixture = *state;
	const struct smcr_addr one = peer(1, 0);
	fails(fixture, peer(1, 80), FAILURE_PATH);
	fails(fixture, peer(1, 80), FAILURE_ANSWER);
	fails(fixture, peer(1, 81), FAILURE_ANSWER);
	fails(fixture, peer(2, 80), FAILURE_ANSWER);
	assert_int_equal(failures_forget(fixture->failures, &one, 81), 1);
	assert_int_equal(failures_forget(fixture->failures, &one, 81), 0);
	assert_int_equal(failures_forget(fixture->failures, &one, 0), 2);
	assert_int_equal(fixture->forgotten, 3);
	assert_int_equal(remembered(fixture), 1);
}

/* ---- the option is offered again */

static void several_ports_without_an_answer_are_an_echo(void **state)
{
	struct fixture *fixture = *state;
	struct failure failure;
	for (uint16_t port = 1; port <= 2; port++) {
		failure = fails(fixture, peer(1, port), FAILURE_ANSWER);
		assert_int_equal(failure.kind, FAILURE_ANSWER);
		/* Ports of another peer do not count. */
		fails(fixture, peer(2, port), FAILURE_ANSWER);
	}
	failure = fails(fixture, peer(1, 1), FAILURE_ANSWER); /* the same port counts once */
	assert_int_equal(failure.kind, FAILURE_ANSWER);
	failure = fails(fixture, peer(1, 3), FAILURE_ANSWER);
	assert_int_equal(failure.kind, FAILURE_ECHO);
	assert_int_equal(failure.peer.port, 0);
	assert_int_equal(left(fixture, &failure), 3600);
	/* SMC-R is tried again with one port: its failure is enough to know that nothing has
	 * changed. */
	fixture->now = failure.until_ms + HOUR / 2;
	failure = fails(fixture, peer(1, 4), FAILURE_ANSWER);
	assert_int_equal(failure.kind, FAILURE_ECHO);
	assert_int_equal(left(fixture, &failure), 7200);
	for (int i = 0; i < 5; i++) {
		fixture->now = failure.until_ms;
		failure = fails(fixture, peer(1, 4), FAILURE_ANSWER);
	}
	assert_int_equal(left(fixture, &failure), 86400);
}

static void a_peer_that_has_worked_is_no_echo(void **state)
{
	struct fixture *fixture = *state;
	work(fixture, peer(1, 7));
	for (uint16_t port = 1; port <= 6; port++) {
		struct failure failure = fails(fixture, peer(1, port), FAILURE_ANSWER);
		assert_int_equal(failure.kind, FAILURE_ANSWER);
	}
	/* The failures are long ago: there may be another server now. */
	fixture->now += 2 * HOUR;
	for (uint16_t port = 1; port <= 3; port++)
		assert_int_equal(fails(fixture, peer(1, port), FAILURE_ANSWER).kind,
				 port < 3 ? FAILURE_ANSWER : FAILURE_ECHO);
}

static void the_resets_of_a_restart_are_no_echo(void **state)
{
	struct fixture *fixture = *state;
	for (uint16_t port = 1; port <= 6; port++)
		assert_int_equal(fails(fixture, peer(1, port), FAILURE_RESET).kind, FAILURE_RESET);
	/* but if the same ports reset once more, that is an echo */
	fixture->now += 5 * SECOND;
	for (uint16_t port = 1; port <= 3; port++)
		assert_int_equal(fails(fixture, peer(1, port), FAILURE_RESET).kind,
				 port < 3 ? FAILURE_RESET : FAILURE_ECHO);
}

static void success_ends_an_echo(void **state)
{
	struct fixture *fixture = *state;
	for (uint16_t port = 1; port <= 3; port++)
		fails(fixture, peer(1, port), FAILURE_ANSWER);
	assert_int_equal(work(fixture, peer(1, 9)), 1);
	assert_int_equal(fails(fixture, peer(1, 4), FAILURE_ANSWER).kind, FAILURE_ANSWER);
}

static void the_oldest_make_room(void **state)
{
	struct fixture *fixture = *state;
	for (uint16_t i = 0; i < 5000; i++)
		fails_for(fixture, i % 8, peer((uint8_t)(i / 8), i), FAILURE_ANSWER);
	assert_int_equal(remembered(fixture), 4096);
	assert_int_equal(fixture->forgotten, 5000 - 4096);
}

/** One peer, or a program that connects to many ports of one peer, gets a part of the table only.
 */
static void one_peer_makes_nobody_forgotten(void **state)
{
	struct fixture *fixture = *state;
	fails(fixture, peer(1, 80), FAILURE_ANSWER);
	fails(fixture, peer(9, 1), FAILURE_PATH);
	for (uint16_t port = 1; port <= 5000; port++)
		fails(fixture, peer(9, port), FAILURE_ANSWER);
	assert_int_equal(remembered(fixture), 1 + 1 + 64);
	assert_int_equal(fails(fixture, peer(1, 80), FAILURE_ANSWER).times, 2);
	assert_int_equal(fails(fixture, peer(9, 5000), FAILURE_ANSWER).peer.port, 0);
	assert_int_equal(remembered(fixture), 1 + 1 + 64);
}

/** A host can have all addresses of an IPv6 /64, as a client and as a server: of these a part of
 * the table is kept. */
static void nor_does_a_peer_with_many_addresses(void **state)
{
	struct fixture *fixture = *state;
	fails(fixture, peer6(1, 1, 80), FAILURE_ANSWER);
	fails(fixture, peer6(1, 1, 0), FAILURE_PATH);
	for (uint32_t host = 1; host <= 5000; host++) {
		fails(fixture, peer6(2, host, 0), FAILURE_PATH);
		fails(fixture, peer6(2, host, 80), FAILURE_ANSWER);
	}
	assert_int_equal(remembered(fixture), 2 + 256 + 256);
	assert_int_equal(fixture->forgotten, 2 * (5000 - 256));
	assert_true(is_skipped(fixture, UID, peer6(1, 1, 80)));
	assert_true(is_skipped(fixture, UID, peer6(2, 5000, 80)));
	assert_true(is_skipped(fixture, UID, peer6(2, 5000 - 255, 80)));
	assert_false(is_skipped(fixture, UID, peer6(2, 5000 - 256, 80)));
}

/** A user that makes connections fail with ever more peers uses up a quarter of the table. */
static void nor_does_a_user(void **state)
{
	struct fixture *fixture = *state;
	fails_for(fixture, OTHERS, peer(1, 80), FAILURE_ANSWER);
	for (uint32_t network = 1; network <= 5000; network++)
		fails(fixture, peer6(network, 1, 80), FAILURE_PATH);
	assert_int_equal(remembered(fixture), 1 + 1024);
	assert_int_equal(fixture->forgotten, 5000 - 1024);
	/* The same with ports of the others' peer, and success there. */
	for (uint16_t port = 1; port <= 5000; port++)
		fails(fixture, peer(1, port), FAILURE_ANSWER);
	work(fixture, peer(1, 80));
	assert_true(is_skipped(fixture, OTHERS, peer(1, 80)));
	assert_int_equal(fails_for(fixture, OTHERS, peer(1, 80), FAILURE_ANSWER).times, 2);
}

/** Nor do several users together, each with as many entries as a user may have. */
static void nor_do_several_users(void **state)
{
	struct fixture *fixture = *state;
	fails_for(fixture, OTHERS, peer(1, 80), FAILURE_ANSWER);
	for (uid_t uid = 2000; uid < 2008; uid++)
		for (uint32_t network = 1; network <= 1024; network++)
			fails_for(fixture, uid, peer6(network, 1, 80), FAILURE_PATH);
	assert_int_equal(remembered(fixture), 4096);
	assert_true(is_skipped(fixture, OTHERS, peer(1, 80)));
	/* The last one has as many as the others. */
	size_t n = 0;
	for (uint32_t network = 1; network <= 1024; network++)
		n += is_skipped(fixture, 2007, peer6(network, 1, 80));
	assert_in_range(n, 4095 / 8, 4095 / 8 + 1);
}

/** A program can make its connections fail, with any server: it may have a second descriptor of the
 * socket, and set what it likes there. No other user stays on TCP for that. */
static void a_user_is_not_left_to_tcp_for_another_one(void **state)
{
	struct fixture *fixture = *state;
	for (uint16_t port = 80; port < 83; port++)
		fails(fixture, peer(1, port), FAILURE_ANSWER);
	fails(fixture, peer(2, 80), FAILURE_PATH);
	for (uint8_t last = 1; last <= 2; last++) {
		TRIES("peer %u", last);
		assert_true(is_skipped(fixture, UID, peer(last, 80)));
		assert_true(is_skipped(fixture, UID, peer(last, 9)));
		assert_false(is_skipped(fixture, OTHERS, peer(last, 80)));
		assert_false(is_skipped(fixture, OTHERS, peer(last, 9)));
	}
	/* nor does a second port of another user make an echo */
	assert_int_equal(fails_for(fixture, OTHERS, peer(1, 80), FAILURE_ANSWER).kind,
			 FAILURE_ANSWER);
}

/** That SMC-R works with many addresses makes nobody forget that it worked with another one. */
static void those_that_worked_are_remembered_by_shares_too(void **state)
{
	struct fixture *fixture = *state;
	work(fixture, peer(1, 80));
	for (uint32_t host = 1; host <= 5000; host++)
		work(fixture, peer6(2, host, 80));
	for (uint16_t port = 1; port <= 3; port++)
		assert_int_equal(fails(fixture, peer(1, port), FAILURE_ANSWER).kind,
				 FAILURE_ANSWER);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(a_dead_path_concerns_the_whole_peer),
		CASE(a_server_whose_rnic_does_not_answer_concerns_its_port),
		CASE(time_doubles_with_each_attempt_up_to_an_hour),
		CASE(failures_at_the_same_time_count_once),
		CASE(resets_are_over_soon_at_first),
		CASE(success_forgets_the_port_and_the_whole),
		CASE(an_hour_of_silence_forgets),
		CASE(operators_can_forget),
		CASE(several_ports_without_an_answer_are_an_echo),
		CASE(a_peer_that_has_worked_is_no_echo),
		CASE(the_resets_of_a_restart_are_no_echo),
		CASE(success_ends_an_echo),
		CASE(the_oldest_make_room),
		CASE(one_peer_makes_nobody_forgotten),
		CASE(nor_does_a_peer_with_many_addresses),
		CASE(nor_does_a_user),
		CASE(nor_do_several_users),
		CASE(a_user_is_not_left_to_tcp_for_another_one),
		CASE(those_that_worked_are_remembered_by_shares_too),
	};
	return cmocka_run_group_tests_name("policy_failures", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* How many TCP sockets wait for their peer's FIN: of one user, and of all. */
#include <event2/event.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/conns/internal.h"

#define MOST_OF_ALL  64
#define MOST_OF_USER 32

/* No test runs the event loop, so that no socket stops waiting because of the time. */
struct fixture {
	struct conns conns;
	struct quota users[3];
	int far[MOST_OF_ALL + 1];
	int num_far;
};

static int setup(void **state)
{
	static struct fixture fixture;
	fixture = (struct fixture){ .conns.config.base = event_base_new() };
	for (unsigned int i = 0; i < 3; i++)
		fixture.users[i] = (struct quota){ .uid = i, .conns = 1 };
	*state = &fixture;
	return fixture.conns.config.base ? 0 : -1;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;
	fins_close(&fixture->conns);
	for (int i = 0; i < fixture->num_far; i++)
		close(fixture->far[i]);
	event_base_free(fixture->conns.config.base);
	return 0;
}

/* Lets further sockets of that user wait, at most `most`. @return how many do */
static int wait_with(struct fixture *fixture, int user, int most)
{
	int n = 0;
	for (; n < most; n++) {
		int fds[2];
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
		if (!fins_add(&fixture->conns, fds[0], &fixture->users[user])) {
			close(fds[0]);
			close(fds[1]);
			break;
		}
		fixture->far[fixture->num_far++] = fds[1];
	}
	return n;
}

static void a_user_leaves_places_to_others(void **state)
{
	struct fixture *fixture = *state;
	assert_int_equal(wait_with(fixture, 0, MOST_OF_ALL + 1), MOST_OF_USER);
	assert_int_equal(wait_with(fixture, 1, 1), 1);
}

static void all_users_have_so_many_places(void **state)
{
	struct fixture *fixture = *state;
	assert_int_equal(wait_with(fixture, 0, MOST_OF_USER), MOST_OF_USER);
	assert_int_equal(wait_with(fixture, 1, MOST_OF_USER - 1), MOST_OF_USER - 1);
	assert_int_equal(wait_with(fixture, 2, 2), 1);
	assert_int_equal(wait_with(fixture, 1, 1), 0);
}

/* What waited is counted no more, and its peer gets the end of TCP. */
static void places_are_free_again(void **state)
{
	struct fixture *fixture = *state;
	assert_int_equal(wait_with(fixture, 0, MOST_OF_USER + 1), MOST_OF_USER);
	assert_int_equal(fixture->users[0].files, MOST_OF_USER);
	fins_close(&fixture->conns);
	assert_int_equal(fixture->users[0].files, 0);
	for (int i = 0; i < MOST_OF_USER; i++) {
		struct pollfd pfd = { .fd = fixture->far[i], .events = POLLRDHUP };
		assert_int_equal(poll(&pfd, 1, 30000), 1);
	}
	assert_int_equal(wait_with(fixture, 0, MOST_OF_USER + 1), MOST_OF_USER);
}

static void nothing_waits_when_the_daemon_stops(void **state)
{
	struct fixture *fixture = *state;
	fixture->conns.stopped = true;
	assert_int_equal(wait_with(fixture, 0, 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_user_leaves_places_to_others, setup, teardown),
		cmocka_unit_test_setup_teardown(all_users_have_so_many_places, setup, teardown),
		cmocka_unit_test_setup_teardown(places_are_free_again, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_waits_when_the_daemon_stops, setup,
						teardown),
	};
	return cmocka_run_group_tests_name("fins", tests, NULL, NULL);
}

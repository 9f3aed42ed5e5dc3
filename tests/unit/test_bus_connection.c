/* SPDX-License-Identifier: MIT */
/* smcrd's connection to the bus: buses and the name on the bus come and go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/lib/busfix.h"

static bool is(const struct busfix *busfix, const char *state)
{
	return !strcmp(bus_state(busfix->bus), state);
}

static void the_connection_comes_back_with_the_bus(void **state)
{
	struct busfix *busfix = busfix_on_the_bus(state);
	busfix->as_root = true;
	busfix->fix->pair->side[PAIR_CLIENT].blocked = true;
	busfix_start(busfix, BUSFIX_ROOT, BUSFIX_MANAGER, "TestLink", "uy", 1, 1);
	busfix_until(busfix, busfix->asked == 1);
	busfix->client = sd_bus_close_unref(busfix->client);
	busfix_end_daemon(busfix);
	busfix_until(busfix, busfix->gone == 1);
	busfix_start_daemon(busfix);
	busfix->client = busfix_connect(busfix);
	busfix_until(busfix, busfix_is_owned(busfix));
	busfix_show(busfix, "ShowInfo", "");
}

static void without_a_bus_nothing_happens(void **state)
{
	struct busfix *busfix = *state;
	assert_true(is(busfix, "off"));
	bus_configure(busfix->bus, CONFIG_DBUS_AUTO);
	assert_true(is(busfix, "unreachable"));
	for (int i = 0; i < 50; i++)
		busfix_turn(busfix);
	busfix_happen(busfix, 1);
	busfix_start_daemon(busfix);
	busfix->client = busfix_connect(busfix);
	busfix_until(busfix, busfix_is_owned(busfix));
}

static void a_name_that_is_refused_is_asked_for_again(void **state)
{
	struct busfix *busfix = *state;
	busfix_write_config(busfix, "<deny own=\"*\"/>");
	busfix_start_daemon(busfix);
	busfix->client = busfix_connect(busfix);
	bus_configure(busfix->bus, CONFIG_DBUS_AUTO);
	busfix_until(busfix, is(busfix, "refused"));
	assert_false(busfix_is_owned(busfix));
	busfix_write_config(busfix, "<allow own=\"*\"/>");
	kill(busfix->daemon, SIGHUP);
	busfix_until(busfix, busfix_is_owned(busfix));
	busfix_until(busfix, is(busfix, "on"));
}

static void a_name_that_another_has_is_waited_for(void **state)
{
	struct busfix *busfix = *state;
	busfix_start_daemon(busfix);
	busfix->client = busfix_connect(busfix);
	assert_true(sd_bus_request_name(busfix->client, BUS_NAME, 0) >= 0);
	bus_configure(busfix->bus, CONFIG_DBUS_AUTO);
	busfix_until(busfix, is(busfix, "waits"));
	assert_true(sd_bus_release_name(busfix->client, BUS_NAME) >= 0);
	busfix_show(busfix, "ShowInfo", "");
	busfix_until(busfix, is(busfix, "on"));
}

/* The bus accepts the connection and then says nothing, or does not even accept it. */
static void a_bus_that_stands_still_holds_nobody_up(void **state)
{
	struct busfix *busfix = *state;
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/bus", busfix->dir);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(fd, 0), 0);
	const double begun = busfix_seconds(CLOCK_THREAD_CPUTIME_ID);
	for (int i = 0; i < 3; i++) {
		bus_configure(busfix->bus, CONFIG_DBUS_NO);
		bus_configure(busfix->bus, CONFIG_DBUS_YES);
		for (int j = 0; j < 100; j++)
			busfix_turn(busfix);
	}
	/* Nor does the loop spin: 300 turns of a millisecond take little processor time. */
	assert_true(busfix_seconds(CLOCK_THREAD_CPUTIME_ID) - begun < 2);
	close(fd);
	unlink(addr.sun_path);
}

/* Changes every object: that makes more signals than the socket's buffer takes. */
static void change_all(struct busfix *busfix)
{
	busfix->state = strcmp(busfix->state, "active") ? "active" : "inactive";
	busfix_happen(busfix, 1);
}

/* A bus behaves like this when it keeps too many answers for callers that do not read them. */
static void a_bus_that_takes_nothing_is_left(void **state)
{
	struct busfix *busfix = *state;
	busfix->makes_up = true;
	busfix->made_up = 3000;
	busfix_on_the_bus(state);
	busfix_until(busfix, is(busfix, "on"));
	kill(busfix->daemon, SIGSTOP);
	busfix_until(busfix, (change_all(busfix), !is(busfix, "on")));
	kill(busfix->daemon, SIGCONT);
	busfix_until(busfix, is(busfix, "on"));
	busfix_show(busfix, "ShowInfo", "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BUSFIX_CASE(the_connection_comes_back_with_the_bus),
		BUSFIX_CASE(without_a_bus_nothing_happens),
		BUSFIX_CASE(a_name_that_is_refused_is_asked_for_again),
		BUSFIX_CASE(a_name_that_another_has_is_waited_for),
		BUSFIX_CASE(a_bus_that_stands_still_holds_nobody_up),
		cmocka_unit_test_setup_teardown(a_bus_that_takes_nothing_is_left,
						busfix_setup_impatient, busfix_teardown),
	};
	return cmocka_run_group_tests_name("bus_connection", tests, NULL, NULL);
}

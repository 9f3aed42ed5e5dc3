/* SPDX-License-Identifier: MIT */
/* Wrong calls over the bus, and too many calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/bus/form.h"
#include "tests/lib/busfix.h"

/* ---- wrong calls ---- */

/* A call of the manager is refused. The last arguments are those of sd_bus_message_append(). */
#define refuses(busfix, words, member, ...)                                                        \
	busfix_expect_error(busfix_ask(busfix, BUSFIX_ROOT, BUSFIX_MANAGER, member, __VA_ARGS__),  \
			    SD_BUS_ERROR_INVALID_ARGS, words)
#define refuses_option(busfix, words, ...)                                                         \
	refuses(busfix, words, "ShowLink", "a{sv}", 1, __VA_ARGS__)

static void wrong_calls_are_refused(void **state)
{
	struct busfix *busfix = busfix_on_the_bus(state);
	char longest[5000];
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	const char *longest_name = longest + sizeof(longest) - FORM_NAME_LEN;
	refuses_option(busfix, "no parameter \"nonsense\"", "nonsense", "u", 1);
	refuses_option(busfix, "out of range", "linkgroup", "i", -1);
	refuses_option(busfix, "no text, whole number", "linkgroup", "t", UINT64_MAX);
	refuses_option(busfix, "no text, whole number", "linkgroup", "as", 0);
	refuses_option(busfix, "longer than 4096", "peer", "s", longest);
	refuses_option(busfix, "no text", "peer", "d", 1.0);
	refuses_option(busfix, "name of an option is longer than 63 bytes", longest, "b", 1);
	refuses_option(busfix, "no parameter", longest_name, "b", 1);
	refuses(busfix, "twice", "ShowLink", "a{sv}", 2, "peer", "s", "a", "peer", "s", "b");
	refuses(busfix, "too long", "AddUeid", "s", longest);
	refuses(busfix, "", "TestLink", "uu", 1, 1);
	busfix_expect_error(busfix_ask(busfix, BUSFIX_ROOT, BUSFIX_MANAGER, "Nonsense", ""),
			    SD_BUS_ERROR_UNKNOWN_METHOD, "Nonsense");
	/* The path already names the link. */
	busfix_expect_error(busfix_ask(busfix, "/org/smcrd/link/1_1", "org.smcrd.Link1", "Delete",
				       "a{sv}", 1, "link", "y", 2),
			    SD_BUS_ERROR_INVALID_ARGS, "twice");
}

/* If each beginning of such a path were looked up, one call would take a third of a second. */
static void long_paths_cost_little(void **state)
{
	enum { CALLS = 16, LONGEST = 65000 };
	struct busfix *busfix = busfix_on_the_bus(state);
	char path[LONGEST + 1];
	for (size_t i = 0; i < LONGEST; i++)
		path[i] = i % 2 ? 'a' : '/';
	path[LONGEST] = '\0';
	const double used = busfix_seconds(CLOCK_PROCESS_CPUTIME_ID);
	for (int i = 0; i < CALLS; i++)
		busfix_expect_error(busfix_ask(busfix, path, BUSFIX_MANAGER, "ShowInfo", ""),
				    SD_BUS_ERROR_UNKNOWN_OBJECT, "no object whose path has 256");
	assert_true(busfix_seconds(CLOCK_PROCESS_CPUTIME_ID) - used < 2);
}

/* To read such a message takes sd-bus 20 ms of processor time, which is not the event loop's. */
static void large_messages_keep_no_turn_long(void **state)
{
	enum { LARGE = 16 << 20, TIMES = 2 };
	struct busfix *busfix = busfix_on_the_bus(state);
	char *text = malloc(LARGE);
	assert_non_null(text);
	memset(text, 'a', LARGE);
	text[LARGE - 1] = '\0';
	busfix->longest_turn = 0;
	for (int i = 0; i < TIMES; i++)
		refuses(busfix, "too long", "AddUeid", "s", text);
	free(text);
	assert_true(busfix->longest_turn < 0.01);
}

/* ---- too many calls ---- */

static void calls_that_wait_are_bounded(void **state)
{
	struct busfix *busfix = busfix_on_the_bus(state);
	const char *text;
	busfix->as_root = true;
	busfix->fix->pair->side[PAIR_CLIENT].blocked = true;
	for (int i = 0; i < BUS_MAX_CALLS_OF_SENDER; i++)
		busfix_start(busfix, BUSFIX_ROOT, BUSFIX_MANAGER, "TestLink", "uy", 1, 1);
	busfix_until(busfix, busfix->asked == BUS_MAX_CALLS_OF_SENDER);
	busfix_expect_error(busfix_ask(busfix, BUSFIX_ROOT, BUSFIX_MANAGER, "TestLink", "uy", 1, 1),
			    SD_BUS_ERROR_LIMITS_EXCEEDED, "too many calls");
	/* Reading of properties is answered all the same. */
	busfix_get(busfix, BUSFIX_ROOT, BUSFIX_MANAGER, "Version", "s", &text);
	bus_configure(busfix->bus, CONFIG_DBUS_NO);
	busfix_until(busfix, busfix->gone == BUS_MAX_CALLS_OF_SENDER);
	busfix_until(busfix, !busfix_is_owned(busfix));
}

static void calls_without_a_reply_read_no_view(void **state)
{
	struct busfix *busfix = busfix_on_the_bus(state);
	busfix_show(busfix, "ShowInfo", "");
	const unsigned int looks = busfix->looks;
	for (int i = 0; i < 50; i++) {
		busfix_send(busfix, BUSFIX_MANAGER, "ShowInfo", NULL, false);
		busfix_send(busfix, BUSFIX_PROPERTIES, "GetAll", BUSFIX_MANAGER, false);
	}
	busfix_send(busfix, BUSFIX_MANAGER, "AddUeid", "x", false); /* only root may call AddUeid */
	busfix_show(busfix, "ShowInfo", "");
	busfix_until(busfix, busfix->asked == 3);
	assert_int_equal(busfix->looks, looks);
}

/* Calls of another connection, which come later, are answered all the same. */
static void calls_of_a_second_are_bounded(void **state)
{
	enum { FLOOD = 20 * BUS_MAX_CALLS_A_SECOND };
	struct busfix *busfix = busfix_on_the_bus(state);
	for (int i = 0; i < FLOOD; i++)
		busfix_send(busfix, BUSFIX_MANAGER, "AddUeid", "x", false);
	assert_true(sd_bus_flush(busfix->client) >= 0);
	sd_bus *flooder = busfix->client;
	busfix->client = busfix_connect(busfix);
	busfix_show(busfix, "ShowInfo", "");
	assert_in_range(busfix->asked, 2, FLOOD / 2);
	assert_int_equal(busfix->limited, 0);
	sd_bus_close_unref(flooder);
	for (int i = 0; i < FLOOD / 2; i++)
		busfix_start(busfix, BUSFIX_ROOT, "org.freedesktop.DBus.Peer", "Ping", "");
	busfix_until(busfix, busfix->limited > 0);
}

/* The event loop has most of its time for others, however many calls wait. The bus has all calls
 * before the loop looks for them. */
static void a_flood_has_a_part_of_the_loop(void **state)
{
	enum { FLOOD = 2000, LOOKS = 40 };
	struct busfix *busfix = busfix_on_the_bus(state);
	const struct timeval often = { .tv_usec = 10000 };
	for (int i = 0; i < FLOOD; i++)
		busfix_send(busfix, BUSFIX_PROPERTIES, "GetAll", BUSFIX_MANAGER, true);
	assert_true(sd_bus_flush(busfix->client) >= 0);
	busfix->slow = true;
	const double wall = busfix_seconds(CLOCK_MONOTONIC),
		     used = busfix_seconds(CLOCK_THREAD_CPUTIME_ID);
	const unsigned int looks = busfix->looks + LOOKS;
	while (busfix->looks < looks && busfix_seconds(CLOCK_MONOTONIC) - wall < BUSFIX_PATIENCE) {
		event_base_loopexit(busfix->fix->base, &often);
		event_base_loop(busfix->fix->base, EVLOOP_ONCE);
	}
	assert_true(busfix->looks >= looks);
	assert_true(busfix_seconds(CLOCK_THREAD_CPUTIME_ID) - used <
		    0.4 * (busfix_seconds(CLOCK_MONOTONIC) - wall));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BUSFIX_CASE(wrong_calls_are_refused),
		BUSFIX_CASE(long_paths_cost_little),
		BUSFIX_CASE(large_messages_keep_no_turn_long),
		BUSFIX_CASE(calls_that_wait_are_bounded),
		BUSFIX_CASE(calls_without_a_reply_read_no_view),
		BUSFIX_CASE(calls_of_a_second_are_bounded),
		BUSFIX_CASE(a_flood_has_a_part_of_the_loop),
	};
	return cmocka_run_group_tests_name("bus_limits", tests, NULL, NULL);
}

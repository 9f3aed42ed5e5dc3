/* SPDX-License-Identifier: MIT */
/* Events as signals on the bus. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/busfix.h"

#define KEPT 8

/* The signals that came. */
static unsigned int num_signals;
static char members[KEPT][64]; /* of the latest signals */

static int on_signal(sd_bus_message *message, void *userdata, sd_bus_error *error)
{
	uint64_t id, time_us;
	const char *text;
	(void)userdata;
	(void)error;
	if (!strcmp(sd_bus_message_get_member(message), "Command")) {
		assert_true(sd_bus_message_has_signature(message, "ttsa{sv}"));
		assert_true(sd_bus_message_read(message, "tts", &id, &time_us, &text) > 0);
		assert_string_equal(text, "link.delete: done");
	}
	snprintf(members[num_signals % KEPT], sizeof(members[0]), "%s",
		 sd_bus_message_get_member(message));
	num_signals++;
	return 0;
}

/* Subscribes to signals. The call that follows makes sure that earlier events are not signalled to
 * this test. */
static struct busfix *listen_on_the_bus(void **state)
{
	struct busfix *busfix = busfix_on_the_bus(state);
	num_signals = 0;
	assert_true(sd_bus_match_signal(busfix->client, NULL, BUS_NAME, BUSFIX_ROOT, BUSFIX_MANAGER,
					NULL, on_signal, NULL) >= 0);
	busfix_show(busfix, "ShowInfo", "");
	return busfix;
}

static void events_are_signals(void **state)
{
	busfix_happen(*state, 5); /* nobody was subscribed */
	struct busfix *busfix = listen_on_the_bus(state);
	busfix_happen(busfix, 1);
	busfix_until(busfix, num_signals == 1);
	assert_string_equal(members[0], "Command");
	events_rnic(busfix->fix->control.events, "soft:eth0", false, "its port is down");
	busfix_until(busfix, num_signals == 2);
	assert_string_equal(members[1], "RnicDown");
}

static void signals_that_cannot_be_sent_are_counted(void **state)
{
	struct busfix *busfix = listen_on_the_bus(state);
	busfix_wraps.signals_to_fail = 1;
	busfix_happen(busfix, 2);
	busfix_until(busfix, num_signals == 2);
	assert_string_equal(members[0], "EventsLost");
	assert_string_equal(members[1], "Command");
}

static void signals_that_come_too_fast_are_counted(void **state)
{
	struct busfix *busfix = listen_on_the_bus(state);
	busfix_happen(busfix, EVENTS_OF_A_PEER + 7);
	busfix_until(busfix, num_signals == EVENTS_OF_A_PEER + 1);
	assert_string_equal(members[EVENTS_OF_A_PEER % KEPT], "Command");
}

/* Peers and programs cause events, so signals get a limited part of the loop's time. */
static void signals_come_in_parts(void **state)
{
	struct busfix *busfix = listen_on_the_bus(state);
	const double begun = busfix_seconds(CLOCK_MONOTONIC);
	busfix_happen(busfix, 200);
	busfix_until(busfix, num_signals == 200);
	/* Parts of 64, 64, 64 and 8 signals. */
	assert_true((busfix_seconds(CLOCK_MONOTONIC) - begun) * 1000 >=
		    3 * BUS_SIGNALS_PAUSE_MS - 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BUSFIX_CASE(events_are_signals),
		BUSFIX_CASE(signals_that_cannot_be_sent_are_counted),
		BUSFIX_CASE(signals_that_come_too_fast_are_counted),
		BUSFIX_CASE(signals_come_in_parts),
	};
	return cmocka_run_group_tests_name("bus_signals", tests, NULL, NULL);
}

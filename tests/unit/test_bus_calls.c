/* SPDX-License-Identifier: MIT */
/* Calls of methods over the bus: views, and who may change something. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/bus/form.h"
#include "daemon/bus/values.h"
#include "tests/lib/busfix.h"

static const char not_permitted[] = "org.smcrd.Error.NotPermitted";

/* ---- views ---- */

static void shows_answer_everybody(void **state)
{
	struct busfix *busfix = busfix_on_the_bus(state);
	const char *text;
	int64_t number;
	sd_bus_message *reply = busfix_show(busfix, "ShowLink", "a{sv}", 1, "linkgroup", "u", 1);
	assert_true(sd_bus_message_has_signature(reply, "aa{sv}s"));
	assert_true(sd_bus_message_enter_container(reply, 'a', "a{sv}") > 0);
	assert_true(busfix_find(reply, "object", "s", &text));
	assert_string_equal(text, "/org/smcrd/link/1_1");
	assert_true(busfix_find(reply, "number", "x", &number));
	assert_int_equal(number, 2);
	assert_int_equal(busfix->asked, 1);
	assert_true(busfix_find(busfix_show(busfix, "ShowInfo", ""), "pid", "x", &number));
	assert_int_equal(number, getpid());
	assert_true(busfix_find(busfix_show(busfix, "ShowMetrics", ""), "text", "s", &text));
	assert_non_null(strstr(text, "# EOF"));
}

/* Every method that shows rows answers in the form that the table of methods gives. */
static void every_view_has_the_form_of_the_table(void **state)
{
	struct busfix *busfix = busfix_on_the_bus(state);
	struct control_method method;
	struct form form;
	for (size_t i = 0; control_method(i, &method); i++) {
		/* The fixture has no policy and no configuration. */
		bool leave =
			!strncmp(method.name, "policy.", 7) || !strncmp(method.name, "config.", 7);
		if (method.result == CONTROL_OUTCOME || leave ||
		    !form_make(&method, FORM_MANAGER, &form))
			continue;
		sd_bus_message *reply = form.options ? busfix_show(busfix, form.member, "a{sv}", 0)
						     : busfix_show(busfix, form.member, "");
		assert_true(sd_bus_message_has_signature(reply, form.out));
		json_t *direct = controlfix_ask(busfix->fix, true, method.name);
		assert_int_equal(json_is_array(json_object_get(direct, "result")),
				 method.result == CONTROL_ROWS);
		json_decref(direct);
	}
}

static void long_views_come_in_parts(void **state)
{
	struct busfix *busfix = busfix_on_the_bus(state);
	const char *next;
	char place[64];
	busfix_happen(busfix, 100);
	sd_bus_message *reply = busfix_show(busfix, "ShowEvent", "a{sv}", 0);
	assert_int_equal(busfix_count_rows(reply), 64);
	assert_true(sd_bus_message_read(reply, "s", &next) > 0);
	snprintf(place, sizeof(place), "%s", next);
	reply = busfix_show(busfix, "ShowEvent", "a{sv}", 1, "after", "s", place);
	assert_int_equal(busfix_count_rows(reply), 36);
	assert_true(sd_bus_message_read(reply, "s", &next) > 0);
	assert_string_equal(next, "");
}

/* U+FFFE and bytes that are no character are replaced; the rest of the message goes out
 * unchanged. */
static void text_that_d_bus_refuses_is_replaced(void **state)
{
	struct busfix *busfix = busfix_on_the_bus(state);
	sd_bus_message *message = NULL;
	const char *text;
	json_t *object = json_pack("{s:s, s:s}", "ke\xEF\xBF\xBE", "fine\t", "b",
				   "\xEF\xB7\x90 \xF0\x9F\xBF\xBF");
	assert_non_null(object);
	assert_true(sd_bus_message_new_method_call(busfix->client, &message, BUS_NAME, "/a", "a.b",
						   "C") >= 0);
	assert_true(values_append_object(message, object) >= 0);
	assert_true(sd_bus_message_seal(message, 1, 0) >= 0);
	assert_true(busfix_find(message, "ke???", "s", &text));
	assert_string_equal(text, "fine\t");
	assert_true(sd_bus_message_rewind(message, true) >= 0);
	assert_true(busfix_find(message, "b", "s", &text));
	assert_string_equal(text, "??? ????");
	sd_bus_message_unref(message);
	json_decref(object);
}

/* ---- who calls ---- */

static void changes_are_for_administrators(void **state)
{
	struct busfix *busfix = busfix_on_the_bus(state);
	busfix_expect_error(
		busfix_ask(busfix, BUSFIX_ROOT, BUSFIX_MANAGER, "DeleteLinkgroup", "u", 1),
		not_permitted, "is for root: run it as root, or name an admin_group in smcrd.conf");
	busfix_expect_error(
		busfix_ask(busfix, "/org/smcrd/link/1_1", "org.smcrd.Link1", "Disable", ""),
		not_permitted, "is for root: run it as root, or name an admin_group in smcrd.conf");
	assert_int_equal(busfix->asked, 2);
}

/* In place of the bus the client itself is asked who calls: it does not answer, or says that
 * everybody is root. */
static int on_who_asks(sd_bus_message *message, void *userdata, sd_bus_error *error)
{
	const bool *lies = userdata;
	(void)error;
	if (sd_bus_message_is_method_call(message, NULL, "GetConnectionCredentials") <= 0)
		return 0;
	if (*lies)
		assert_true(sd_bus_reply_method_return(message, "a{sv}", 1, "UnixUserID", "u", 0) >=
			    0);
	return 1;
}

/* @return the answer to a call when smcrd asks the client itself who calls */
static sd_bus_message *ask_while_another_says(struct busfix *busfix, bool lies)
{
	sd_bus_slot *slot = NULL;
	assert_true(sd_bus_add_filter(busfix->client, &slot, on_who_asks, &lies) >= 0);
	assert_true(sd_bus_get_unique_name(busfix->client, &busfix_wraps.who_is_asked) >= 0);
	sd_bus_message *reply = busfix_ask(busfix, BUSFIX_ROOT, BUSFIX_MANAGER, "ShowInfo", "");
	busfix_wraps.who_is_asked = NULL;
	sd_bus_slot_unref(slot);
	return reply;
}

static void only_the_bus_says_who_asks(void **state)
{
	struct busfix *busfix = busfix_on_the_bus(state);
	busfix_expect_error(ask_while_another_says(busfix, true), not_permitted,
			    "does not say who asks");
	assert_int_equal(busfix->asked, 0);
}

static void a_bus_that_answers_late_does_not_refuse_the_call(void **state)
{
	struct busfix *busfix = busfix_on_the_bus(state);
	busfix_expect_error(ask_while_another_says(busfix, false), SD_BUS_ERROR_TIMEOUT,
			    "not said in time");
	busfix_show(busfix, "ShowInfo", "");
}

/* ---- commands ---- */

static void commands_are_answered_when_they_have_ended(void **state)
{
	struct busfix *busfix = busfix_on_the_bus(state);
	const char *text;
	int64_t rtt;
	busfix->as_root = true;
	busfix_start(busfix, "/org/smcrd/link/1_2", "org.smcrd.Link1", "Test", "");
	busfix_until(busfix, busfix->asked == 1);
	for (int i = 0; i < 20; i++)
		busfix_turn(busfix);
	assert_false(busfix->answered);
	pair_run(busfix->fix->pair, 1000);
	busfix_until(busfix, busfix->answered);
	busfix_expect_good(busfix->reply);
	assert_true(sd_bus_message_read(busfix->reply, "s", &text) > 0);
	assert_true(*text);
	assert_true(busfix_find(busfix->reply, "rtt_us", "x", &rtt));
	busfix_expect_error(busfix_ask(busfix, BUSFIX_ROOT, BUSFIX_MANAGER, "TestLink", "uy", 1, 9),
			    "org.smcrd.Error.NotFound",
			    "link group 1 has no link 9; 'smcrctl link' lists them");
}

/* For example the probe of a link cannot be sent: the command fails in the turn of the event loop
 * that began it. */
static void a_command_may_end_while_it_is_begun(void **state)
{
	struct busfix *busfix = busfix_on_the_bus(state);
	busfix->ends_at_once = true;
	busfix_start(busfix, "/org/smcrd/link/1_2", "org.smcrd.Link1", "Test", "");
	busfix_until(busfix, busfix->answered);
	busfix->ends_at_once = false;
	busfix_show(busfix, "ShowInfo", "");
}

/* A call may end the connection to the bus, as SetConfig "dbus no" does. */
static void a_call_may_end_the_connection(void **state)
{
	struct busfix *busfix = busfix_on_the_bus(state);
	busfix->leaves = true;
	busfix_start(busfix, BUSFIX_ROOT, BUSFIX_MANAGER, "ShowInfo", "");
	/* The bus answers for the connection that has gone. */
	busfix_until(busfix, busfix->answered);
	busfix_expect_error(busfix->reply, SD_BUS_ERROR_NO_REPLY, "disconnected");
	busfix_until(busfix, !busfix_is_owned(busfix));
	busfix->leaves = false;
	bus_configure(busfix->bus, CONFIG_DBUS_AUTO);
	busfix_until(busfix, busfix_is_owned(busfix));
	busfix_show(busfix, "ShowInfo", "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BUSFIX_CASE(shows_answer_everybody),
		BUSFIX_CASE(every_view_has_the_form_of_the_table),
		BUSFIX_CASE(long_views_come_in_parts),
		BUSFIX_CASE(text_that_d_bus_refuses_is_replaced),
		BUSFIX_CASE(changes_are_for_administrators),
		BUSFIX_CASE(only_the_bus_says_who_asks),
		BUSFIX_CASE(a_bus_that_answers_late_does_not_refuse_the_call),
		BUSFIX_CASE(commands_are_answered_when_they_have_ended),
		BUSFIX_CASE(a_command_may_end_while_it_is_begun),
		BUSFIX_CASE(a_call_may_end_the_connection),
	};
	return cmocka_run_group_tests_name("bus_calls", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* Objects on the bus that programs follow: the list of all, and signals when one is added, changes
 * or goes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/busfix.h"

#define OBJECT_MANAGER "org.freedesktop.DBus.ObjectManager"
#define LINK_FACE      "org.smcrd.Link1"
#define LINK(group)    "/org/smcrd/link/" group "_1"
/* In seconds. An ordinary build needs a tenth of this. */
#define TURN_LIMIT 0.02

/* ---- all at once ---- */

/* How many objects have this interface. @param find  path of the object whose state is returned */
static unsigned int count_objects(sd_bus_message *reply, const char *interface, const char *find,
				  const char **ret_state)
{
	const char *path, *face;
	unsigned int num = 0;
	assert_true(sd_bus_message_enter_container(reply, 'a', "{oa{sa{sv}}}") > 0);
	while (sd_bus_message_enter_container(reply, 'e', "oa{sa{sv}}") > 0) {
		assert_true(sd_bus_message_read(reply, "o", &path) > 0);
		assert_true(sd_bus_message_enter_container(reply, 'a', "{sa{sv}}") > 0);
		while (sd_bus_message_enter_container(reply, 'e', "sa{sv}") > 0) {
			assert_true(sd_bus_message_read(reply, "s", &face) > 0);
			num += !strcmp(face, interface);
			if (!strcmp(face, interface) && !strcmp(path, find))
				assert_true(busfix_find(reply, "State", "s", ret_state));
			else
				assert_true(sd_bus_message_skip(reply, "a{sv}") >= 0);
			assert_true(sd_bus_message_exit_container(reply) >= 0);
		}
		assert_true(sd_bus_message_exit_container(reply) >= 0);
		assert_true(sd_bus_message_exit_container(reply) >= 0);
	}
	assert_true(sd_bus_message_rewind(reply, true) >= 0);
	return num;
}

static sd_bus_message *ask_for_all(struct busfix *busfix)
{
	sd_bus_message *reply =
		busfix_ask(busfix, BUSFIX_ROOT, OBJECT_MANAGER, "GetManagedObjects", "");
	busfix_expect_good(reply);
	return reply;
}

static void all_objects_come_at_once(void **state)
{
	struct busfix *busfix = busfix_on_the_bus(state);
	const char *text = "";
	sd_bus_message *reply = ask_for_all(busfix);
	assert_int_equal(count_objects(reply, LINK_FACE, "/org/smcrd/link/1_2", &text), 2);
	assert_string_equal(text, "active");
	assert_int_equal(count_objects(reply, "org.smcrd.Linkgroup1", "", NULL), 1);
	/* the manager is above the object manager's path */
	assert_int_equal(count_objects(reply, BUSFIX_MANAGER, "", NULL), 0);
}

/* A turn of the loop takes one page of objects, and one view is enough for all their properties. */
static void thousands_of_objects_keep_no_turn_long(void **state)
{
	enum { MANY = 3000 };
	struct busfix *busfix = *state;
	const char *text = "";
	busfix->makes_up = true;
	busfix->made_up = MANY;
	busfix_on_the_bus(state);
	const unsigned int looks = busfix->looks;
	busfix->longest_turn = 0;
	sd_bus_message *reply = ask_for_all(busfix);
	assert_int_equal(count_objects(reply, LINK_FACE, LINK("4000"), &text), MANY);
	assert_string_equal(text, "active");
	assert_true(busfix->longest_turn < TURN_LIMIT);
	assert_true(busfix->looks - looks < MANY / 4);
}

static void more_than_the_limit_are_left_out(void **state)
{
	struct busfix *busfix = *state;
	busfix->makes_up = true;
	busfix->made_up = BUS_MAX_OBJECTS + 100;
	busfix_on_the_bus(state);
	assert_int_equal(count_objects(ask_for_all(busfix), LINK_FACE, "", NULL), BUS_MAX_OBJECTS);
	busfix_expect_good(
		busfix_ask(busfix, LINK("5196"), BUSFIX_PROPERTIES, "GetAll", "s", LINK_FACE));
}

/* However many connections ask for all objects, other calls are answered in between. */
static void asking_for_all_has_a_part_of_the_time(void **state)
{
	struct busfix *busfix = *state;
	busfix->makes_up = true;
	busfix->made_up = 1000;
	busfix_on_the_bus(state);
	/* As many as one connection may ask for. */
	for (int i = 0; i < BUS_MAX_ALL_A_SECOND - 1; i++)
		busfix_start(busfix, BUSFIX_ROOT, OBJECT_MANAGER, "GetManagedObjects", "");
	busfix_until(busfix, busfix->limited > 0);
}

/* ---- signals about changes ---- */

static struct heard {
	unsigned int added, removed, changed;
	char path[64]; /* of the last object */
	bool state, counter, interfaces;
	/* Of the manager: */
	unsigned int manager, draining, links;
	uint32_t num_links;
	bool used;
} heard;

static void note_path(const char *path)
{
	snprintf(heard.path, sizeof(heard.path), "%s", path);
}

static int on_added(sd_bus_message *message, void *userdata, sd_bus_error *error)
{
	const char *path;
	(void)userdata;
	(void)error;
	assert_true(sd_bus_message_read(message, "o", &path) > 0);
	assert_true(sd_bus_message_has_signature(message, "oa{sa{sv}}"));
	note_path(path);
	heard.added++;
	return 0;
}

static int on_removed(sd_bus_message *message, void *userdata, sd_bus_error *error)
{
	const char *path, *face;
	(void)userdata;
	(void)error;
	assert_true(sd_bus_message_read(message, "o", &path) > 0);
	assert_true(sd_bus_message_enter_container(message, 'a', "s") > 0);
	heard.interfaces = false;
	while (sd_bus_message_read(message, "s", &face) > 0)
		heard.interfaces |= !strcmp(face, LINK_FACE);
	note_path(path);
	heard.removed++;
	return 0;
}

/* The values of PropertiesChanged come next. */
static void rewind_to_values(sd_bus_message *message)
{
	assert_true(sd_bus_message_rewind(message, true) >= 0);
	assert_true(sd_bus_message_skip(message, "s") >= 0);
}

/* A property that is no simple value, and is in the signal. */
static bool tells_of(sd_bus_message *message, const char *property)
{
	const char *name;
	bool found = false;
	rewind_to_values(message);
	assert_true(sd_bus_message_enter_container(message, 'a', "{sv}") > 0);
	while (sd_bus_message_enter_container(message, 'e', "sv") > 0) {
		assert_true(sd_bus_message_read(message, "s", &name) > 0);
		found |= !strcmp(name, property);
		assert_true(sd_bus_message_skip(message, "v") >= 0);
		assert_true(sd_bus_message_exit_container(message) >= 0);
	}
	return found;
}

static int on_manager_changed(sd_bus_message *message)
{
	uint64_t bytes;
	rewind_to_values(message);
	heard.links += busfix_find(message, "EngineLinks", "u", &heard.num_links);
	rewind_to_values(message);
	heard.used |= busfix_find(message, "EngineMemoryUsedBytes", "t", &bytes);
	heard.draining += tells_of(message, "Draining");
	heard.manager++;
	return 0;
}

static int on_changed(sd_bus_message *message, void *userdata, sd_bus_error *error)
{
	const char *face, *text;
	uint64_t bytes;
	(void)userdata;
	(void)error;
	if (!strcmp(sd_bus_message_get_path(message), BUSFIX_ROOT))
		return on_manager_changed(message);
	assert_true(sd_bus_message_read(message, "s", &face) > 0);
	if (strcmp(face, LINK_FACE) != 0)
		return 0; /* the link group */
	note_path(sd_bus_message_get_path(message));
	heard.state = busfix_find(message, "State", "s", &text);
	rewind_to_values(message);
	heard.counter = busfix_find(message, "TxBytes", "t", &bytes);
	heard.changed++;
	return 0;
}

static void hear(struct busfix *busfix, const char *interface, const char *member,
		 sd_bus_message_handler_t handler)
{
	assert_true(sd_bus_match_signal(busfix->client, NULL, BUS_NAME, NULL, interface, member,
					handler, NULL) >= 0);
}

static struct busfix *follow(void **state, unsigned int links)
{
	struct busfix *busfix = *state;
	busfix->makes_up = true;
	busfix->made_up = links;
	busfix_on_the_bus(state);
	heard = (struct heard){ 0 };
	hear(busfix, OBJECT_MANAGER, "InterfacesAdded", on_added);
	hear(busfix, OBJECT_MANAGER, "InterfacesRemoved", on_removed);
	hear(busfix, BUSFIX_PROPERTIES, "PropertiesChanged", on_changed);
	busfix_show(busfix, "ShowInfo", "");
	return busfix;
}

static void objects_that_come_and_go_are_told(void **state)
{
	struct busfix *busfix = follow(state, 2);
	busfix->made_up = 5;
	busfix_happen(busfix, 1);
	busfix_until(busfix, heard.added == 3);
	assert_string_equal(heard.path, LINK("1005"));
	busfix->made_up = 4;
	busfix_happen(busfix, 1);
	busfix_until(busfix, heard.removed == 1);
	assert_string_equal(heard.path, LINK("1005"));
	assert_true(heard.interfaces);
	/* Objects that were there before are not signalled again. */
	assert_int_equal(heard.added, 3);
	assert_int_equal(heard.changed, 0);
}

static void changes_are_told_without_counters(void **state)
{
	struct busfix *busfix = follow(state, 1);
	busfix->state = "inactive";
	busfix_happen(busfix, 1);
	busfix_until(busfix, heard.changed == 1);
	assert_string_equal(heard.path, LINK("1001"));
	assert_true(heard.state);
	assert_false(heard.counter);
}

static void changes_without_an_event_are_seen(void **state)
{
	struct busfix *busfix = follow(state, 1);
	busfix->state = "inactive";
	busfix_until(busfix, heard.changed == 1);
}

/* Counters and ages that go on are not told. */
static void the_manager_tells_what_changes_seldom(void **state)
{
	struct busfix *busfix = follow(state, 0);
	struct control_drain *drain = &busfix->fix->control.drain;
	*drain = (struct control_drain){ .on = true, .since = 1 };
	busfix_happen(busfix, 1);
	busfix_until(busfix, heard.draining == 1);
	const unsigned int looks = busfix->looks;
	for (int i = 0; i < 5; i++)
		busfix_happen(busfix, 1);
	busfix_until(busfix, busfix->looks > looks + 8); /* the age has changed meanwhile */
	drain->on = false;
	busfix_happen(busfix, 1);
	busfix_until(busfix, heard.draining == 2);
	assert_int_equal(heard.manager, 2);
	assert_false(heard.used);
	assert_int_equal(heard.added + heard.removed + heard.changed, 0);
}

static void the_manager_tells_how_many_links_there_are(void **state)
{
	struct busfix *busfix = follow(state, 0);
	pair_fail_link(busfix->fix->pair, PAIR_SERVER, 1);
	pair_pump(busfix->fix->pair);
	busfix_happen(busfix, 1);
	busfix_until(busfix, heard.links == 1);
	assert_int_equal(heard.num_links, 1);
}

/* Thousands of links come and go: the bus hears of some of them, and of the final state. */
static void a_flood_of_changes_is_bounded(void **state)
{
	enum { ROUNDS = 3000, MANY = 200 };
	struct busfix *busfix = follow(state, 0);
	busfix->longest_turn = 0;
	for (unsigned int i = 0; i < ROUNDS; i++) {
		busfix->made_up = i % MANY;
		busfix_happen(busfix, 1);
		if (i % 10 == 0)
			busfix_turn(busfix);
	}
	busfix->made_up = 7;
	busfix_happen(busfix, 1);
	busfix_until(busfix, heard.added - heard.removed == 7);
	assert_true(heard.added < ROUNDS * MANY / 100);
	assert_true(busfix->longest_turn < TURN_LIMIT);
}

/* Changes whose signals could not be sent are signalled later. */
static void signals_that_failed_are_made_up_for(void **state)
{
	struct busfix *busfix = follow(state, 0);
	busfix_wraps.signals_to_fail = 1; /* the signal about the event */
	busfix->made_up = 500;            /* more than may wait to be sent at a time */
	busfix_happen(busfix, 1);
	busfix_until(busfix, heard.added == 500);
	busfix->made_up = 0;
	busfix_until(busfix, heard.removed == 500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BUSFIX_CASE(all_objects_come_at_once),
		BUSFIX_CASE(thousands_of_objects_keep_no_turn_long),
		BUSFIX_CASE(more_than_the_limit_are_left_out),
		BUSFIX_CASE(asking_for_all_has_a_part_of_the_time),
		BUSFIX_CASE(objects_that_come_and_go_are_told),
		BUSFIX_CASE(changes_are_told_without_counters),
		BUSFIX_CASE(changes_without_an_event_are_seen),
		BUSFIX_CASE(the_manager_tells_what_changes_seldom),
		BUSFIX_CASE(the_manager_tells_how_many_links_there_are),
		BUSFIX_CASE(a_flood_of_changes_is_bounded),
		BUSFIX_CASE(signals_that_failed_are_made_up_for),
	};
	return cmocka_run_group_tests_name("bus_tracked", tests, NULL, NULL);
}

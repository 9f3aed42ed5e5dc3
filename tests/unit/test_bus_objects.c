/* SPDX-License-Identifier: MIT */
/* The objects of smcrd on the bus: paths, properties, introspection. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/bus/form.h"
#include "tests/lib/busfix.h"
#include "tests/lib/tries.h"

#define LINKGROUP      "/org/smcrd/linkgroup/1"
#define LINKGROUP_FACE "org.smcrd.Linkgroup1"
#define LINK(number)   "/org/smcrd/link/1_" number
#define LINK_FACE      "org.smcrd.Link1"

static void has_text(struct busfix *busfix, const char *path, const char *interface,
		     const char *name, const char *value)
{
	const char *text;
	busfix_get(busfix, path, interface, name, "s", &text);
	assert_string_equal(text, value);
}

static void has_number(struct busfix *busfix, const char *path, const char *interface,
		       const char *name, const char *type, uint64_t value)
{
	uint64_t number = 0; /* little endian: an integer of any type fits */
	busfix_get(busfix, path, interface, name, type, &number);
	assert_int_equal(number, value);
}

static void objects_have_typed_properties(void **state)
{
	struct busfix *busfix = busfix_on_the_bus(state);
	uint32_t number;
	has_text(busfix, BUSFIX_ROOT, BUSFIX_MANAGER, "Version", SMCRD_VERSION);
	has_text(busfix, BUSFIX_ROOT, BUSFIX_MANAGER, "TcpOptionError", "not here");
	has_number(busfix, BUSFIX_ROOT, BUSFIX_MANAGER, "Pid", "u", (uint64_t)getpid());
	has_number(busfix, BUSFIX_ROOT, BUSFIX_MANAGER, "TcpOptionAvailable", "b", false);
	has_number(busfix, BUSFIX_ROOT, BUSFIX_MANAGER, "EngineLinks", "u", 2);
	has_text(busfix, LINKGROUP, LINKGROUP_FACE, "Role", "server");
	has_number(busfix, LINKGROUP, LINKGROUP_FACE, "Connections", "u", 1);
	has_text(busfix, LINK("2"), LINK_FACE, "State", "active");
	has_number(busfix, LINK("2"), LINK_FACE, "Number", "y", 2);
	has_number(busfix, LINK("2"), LINK_FACE, "TxBytes", "t", 0);
	has_text(busfix, LINK("2"), LINK_FACE, "LastError", ""); /* an empty text: not known */
	busfix_expect_good(
		busfix_ask(busfix, LINK("1"), BUSFIX_PROPERTIES, "GetAll", "s", LINK_FACE));
	assert_true(busfix_find(busfix->reply, "Linkgroup", "u", &number));
	assert_int_equal(number, 1);
	assert_int_equal(busfix->asked, 0); /* smcrd did not ask who calls */
}

static void paths_without_a_row_are_no_objects(void **state)
{
	static const char *const paths[] = {
		LINK("3"),
		"/org/smcrd/link/2_1",
		LINK("01"),
		"/org/smcrd/link/1",
		LINK("257"),
		"/org/smcrd/linkgroup/2",
		"/org/smcrd/linkgroup/01",
		"/org/smcrd/linkgroup/1/1",
		"/org/smcrd/linkgroup/x",
		"/org/smcrd/device/x",
		"/org/smcrd/linkgroup/4294967297",
		"/org/smcrd/nonsense",
		"/org/smcrd/linkgroup/1_1",
		"/org/smcrd/link/4294967297_1",
	};
	struct busfix *busfix = busfix_on_the_bus(state);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		sd_bus_message *reply =
			busfix_ask(busfix, paths[i], BUSFIX_PROPERTIES, "GetAll", "s", LINK_FACE);
		if (!sd_bus_message_get_error(reply))
			fail_msg("there is something at %s", paths[i]);
	}
}

static void introspection_shows_objects_and_methods(void **state)
{
	struct busfix *busfix = busfix_on_the_bus(state);
	const char *text = busfix_introspect(busfix, "/org/smcrd/link");
	assert_non_null(strstr(text, "<node name=\"1_1\"/>"));
	assert_non_null(strstr(text, "<node name=\"1_2\"/>"));
	text = busfix_introspect(busfix, BUSFIX_ROOT);
	assert_non_null(strstr(text, "<node name=\"linkgroup\"/>"));
	assert_non_null(strstr(text, "<arg type=\"y\" name=\"link\" direction=\"in\"/>"));
	assert_non_null(strstr(text, "<signal name=\"LinkFailed\">"));
	assert_non_null(strstr(text, "<method name=\"ShowConnection\">"));
	assert_null(strstr(text, "WaitEvent"));
	text = busfix_introspect(busfix, LINKGROUP);
	assert_non_null(strstr(text, "<method name=\"AddLink\">"));
	assert_null(strstr(text, "<method name=\"Enable\">"));
}

/* @return how the manager's property is told of when it changes; "": with its value */
static const char *emission_of(const char *text, const char *property)
{
	static char how[16];
	char begin[96], annotation[] = "EmitsChangedSignal\" value=\"";
	snprintf(begin, sizeof(begin), "<property name=\"%s\"", property);
	const char *at = strstr(text, begin);
	assert_non_null(at);
	const char *end = strchr(at, '>'), *found = strstr(at, annotation);
	assert_non_null(end);
	const char *next = strstr(end, "<property");
	if (end[-1] == '/' || !found || (next && found > next))
		return "";
	assert_int_equal(sscanf(found + strlen(annotation), "%15[a-z]", how), 1);
	return how;
}

/* Programs that cache properties, as GDBus and sd-bus do, must know which changes are signalled. */
static void introspection_says_which_changes_are_told(void **state)
{
	static const char *const paths[] = { BUSFIX_ROOT, LINKGROUP, LINK("1") };
	static const struct {
		size_t path;
		const char *property, *how;
	} rows[] = {
		{ 0, "Version", "const" },
		{ 0, "TcpOptionAvailable", "const" },
		{ 0, "Socket", "const" }, /* a change takes a restart */
		{ 0, "Devices", "" },
		{ 0, "EngineLinkgroups", "" },
		{ 0, "EngineLinks", "" },
		{ 0, "EngineMemoryBudgetBytes", "" },
		{ 0, "Draining", "" },
		{ 0, "EngineMemoryUsedBytes", "false" },
		{ 0, "ConnectionsSmcr", "false" },
		{ 0, "ConnectionsTxBytes", "false" },
		{ 0, "UptimeMs", "false" },
		{ 1, "Role", "const" },
		{ 1, "Links", "" },
		{ 1, "Dialect", "" },  /* known with the first link's CONFIRM LINK */
		{ 1, "PeerHost", "" }, /* at the server, with the CLC Confirm */
		{ 1, "Connections", "false" },
		{ 2, "Number", "const" },
		{ 2, "State", "" },
		{ 2, "PeerUid", "" }, /* known with CONFIRM LINK */
		{ 2, "PeerGid", "" }, /* known with the answer to ADD LINK */
		{ 2, "TxBytes", "false" },
	};
	struct busfix *busfix = busfix_on_the_bus(state);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("%s of %s", rows[i].property, paths[rows[i].path]);
		const char *text = busfix_introspect(busfix, paths[rows[i].path]);
		text = strstr(text, "<interface name=\"org.smcrd.");
		assert_non_null(text);
		assert_string_equal(emission_of(text, rows[i].property), rows[i].how);
	}
}

/* The manual page has the names of all methods, properties and signals that introspection shows. */
static void expect_members_in_manual(struct busfix *busfix, const char *path)
{
	char name[FORM_NAME_LEN];
	const char *at = strstr(busfix_introspect(busfix, path), "<interface name=\"org.smcrd.");
	assert_non_null(at);
	while ((at = strstr(at, " name=\""))) {
		bool is_arg = at[-1] == '"'; /* the name of an argument follows its type */
		bool is_node = !strncmp(at - strlen("<node"), "<node", 5);
		at += strlen(" name=\"");
		if (is_node)
			break;
		if (is_arg)
			continue;
		assert_int_equal(sscanf(at, "%63[^\"]", name), 1);
		if (!strchr(name, '.')) /* not an interface or an annotation */
			busfix_expect_in_manual(name);
	}
}

static void the_manual_page_has_all_names(void **state)
{
	struct busfix *busfix = busfix_on_the_bus(state);
	expect_members_in_manual(busfix, BUSFIX_ROOT);
	expect_members_in_manual(busfix, LINKGROUP);
	expect_members_in_manual(busfix, LINK("1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BUSFIX_CASE(objects_have_typed_properties),
		BUSFIX_CASE(paths_without_a_row_are_no_objects),
		BUSFIX_CASE(introspection_shows_objects_and_methods),
		BUSFIX_CASE(introspection_says_which_changes_are_told),
		BUSFIX_CASE(the_manual_page_has_all_names),
	};
	return cmocka_run_group_tests_name("bus_objects", tests, NULL, NULL);
}

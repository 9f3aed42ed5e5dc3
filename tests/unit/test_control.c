/* SPDX-License-Identifier: MIT */
/* The control methods without a transport: what is refused, and what the shows look like. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>
#include <jansson.h>

#include "daemon/control/control.h"

struct fixture {
	struct event_base *base;
	struct config config;
	struct control control;
};

static void no_clc(void *user, const uint8_t *msg, size_t len)
{
	(void)user;
	(void)msg;
	(void)len;
	fail_msg("there is no connection");
}

static void no_event(void *user, const struct smcr_conn_event *event)
{
	(void)user;
	(void)event;
	fail_msg("there is no connection");
}

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	char text[CONFIG_ERROR_LEN];
	fixture->base = event_base_new();
	if (config_load("/dev/null", &fixture->config, text) < 0)
		return -1;
	struct fabric_params params = { .base = fixture->base,
					.config = &fixture->config.engine,
					.clc_send = no_clc,
					.conn_event = no_event };
	fixture->control = (struct control){ .config = &fixture->config,
					     .option_error = "not here",
					     .started = fabric_now() };
	if (fabric_new(&params, &fixture->control.fabric) < 0)
		return -1;
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;
	fabric_free(fixture->control.fabric);
	config_free(&fixture->config);
	event_base_free(fixture->base);
	free(fixture);
	return 0;
}

/* The parsed reply; its schema was looked at. */
static json_t *ask(struct fixture *fixture, const char *request, size_t len)
{
	static const struct ucred nobody = { .pid = 1, .uid = 65534, .gid = 65534 };
	char *text = NULL;
	assert_int_equal(control_handle(&fixture->control, &nobody, request, len, &text), 0);
	json_t *reply = json_loads(text, 0, NULL);
	free(text);
	assert_non_null(reply);
	assert_int_equal(json_integer_value(json_object_get(reply, "schema")), CONTROL_SCHEMA);
	return reply;
}

static void bad_requests_are_refused_by_name(void **state)
{
	static const struct {
		const char *request, *code;
	} cases[] = {
		{ "", "bad-request" },
		{ "{", "bad-request" },
		{ "[]", "bad-request" },
		{ "42", "bad-request" },
		{ "{\"method\":1}", "bad-request" },
		{ "{\"method\":\"info.show\",\"method\":\"link.show\"}", "bad-request" },
		{ "{\"method\":\"nonsense\"}", "unknown-method" },
		{ "{\"method\":\"link.show\",\"params\":{\"a\":1}}", "bad-parameter" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *reply = ask(*state, cases[i].request, strlen(cases[i].request));
		json_t *error = json_object_get(reply, "error");
		assert_null(json_object_get(reply, "result"));
		assert_string_equal(json_string_value(json_object_get(error, "code")),
				    cases[i].code);
		assert_true(json_integer_value(json_object_get(error, "errno")) > 0);
		assert_true(strlen(json_string_value(json_object_get(error, "text"))) > 10);
		json_decref(reply);
	}
}

/* A request ends where its length says, whatever lies behind it. */
static void the_length_counts(void **state)
{
	static const char request[] = "{\"method\":\"info.show\"}garbage";
	json_t *reply = ask(*state, request, sizeof(request) - sizeof("garbage"));
	json_t *result = json_object_get(reply, "result");
	json_t *option = json_object_get(result, "tcp_option");
	assert_true(json_is_false(json_object_get(option, "available")));
	assert_string_equal(json_string_value(json_object_get(option, "error")), "not here");
	json_decref(reply);
}

static void empty_lists_are_arrays(void **state)
{
	static const char *const methods[] = { "device.show", "linkgroup.show", "link.show",
					       "connection.show" };
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		char request[64];
		int len = snprintf(request, sizeof(request), "{\"method\":\"%s\",\"params\":{}}",
				   methods[i]);
		json_t *reply = ask(*state, request, (size_t)len);
		json_t *result = json_object_get(reply, "result");
		assert_true(json_is_array(result));
		assert_int_equal(json_array_size(result), 0);
		json_decref(reply);
	}
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(bad_requests_are_refused_by_name),
		CASE(the_length_counts),
		CASE(empty_lists_are_arrays),
	};
	return cmocka_run_group_tests_name("control", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* The control methods without a socket: what is refused, and how views look. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <event2/event.h>
#include <jansson.h>

#include "daemon/conns/conns.h"
#include "daemon/control/control.h"
#include "daemon/host/log.h"
#include "daemon/rendezvous/handshake.h"
#include "daemon/smcr/internal.h"
#include "tests/lib/enginepair.h"
#include "tests/lib/fabricfix.h"
#include "tests/lib/tries.h"

/* Commands go to an engine of a pair that has a link group. The fabric of the views is empty. */
struct fixture {
	struct event_base *base;
	struct config config;
	struct control control;
	struct smcr_engine *engine; /* the fabric's engine */
	struct pair *pair;
	unsigned int num_replies;
	uint64_t request; /* number of the latest reply that came later */
	json_t *reply;
	size_t left;          /* connections that smcrd has */
	unsigned int drained; /* how often the host was told that a drain begins or ends */
};

static void on_reply(void *ctx, uint64_t request, char *reply)
{
	struct fixture *fixture = ctx;
	fixture->num_replies++;
	fixture->request = request;
	json_decref(fixture->reply);
	fixture->reply = json_loads(reply, 0, NULL);
	free(reply);
}

static void on_done(void *ctx, uint64_t id, const struct smcr_command_result *result)
{
	struct fixture *fixture = ctx;
	control_command_done(&fixture->control, id, result);
}

static size_t on_drained(void *ctx)
{
	struct fixture *fixture = ctx;
	fixture->drained++;
	return fixture->left;
}

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	const struct config_source source = { .path = "/dev/null" };
	struct config_notes errors = { .num = 0 };
	fixture->base = event_base_new();
	if (config_load(&source, &fixture->config, &errors) < 0)
		return -1;
	struct fabric_params params = { .base = fixture->base };
	fixture->control = (struct control){ .config = &fixture->config,
					     .option_error = "not here",
					     .started = fabric_now(),
					     .drained = on_drained,
					     .ctx = fixture };
	if (fabric_new(&params, &fixture->control.fabric) < 0)
		return -1;
	fixture->engine = fabricfix_engine(fixture->control.fabric, &fixture->config.engine, NULL);
	fixture->control.engine = fixture->engine;
	const struct policy_params policy = { .base = fixture->base,
					      .skip_seconds = 60,
					      .shorts = fixture->config.shorts };
	if (policy_new(&policy, &fixture->control.policy) < 0)
		return -1;
	log_open(-1, false); /* the log lines about who asked for a command would only disturb */
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;
	control_close(&fixture->control);
	if (fixture->pair)
		pair_free(fixture->pair);
	policy_free(fixture->control.policy);
	smcr_engine_free(fixture->engine);
	fabric_free(fixture->control.fabric);
	config_free(&fixture->config);
	event_base_free(fixture->base);
	json_decref(fixture->reply);
	free(fixture);
	return 0;
}

/* Makes a link group with two links. @return its id */
static uint32_t have_group(struct fixture *fixture)
{
	int conn;
	fixture->pair = pair_grouped(2, &conn);
	struct pair_side *side = &fixture->pair->side[PAIR_SERVER];
	side->on_command_done = on_done;
	side->on_command_ctx = fixture;
	fixture->control.engine = side->engine;
	return pair_lgr_view(fixture->pair, PAIR_SERVER).id;
}

static const struct clients_asker nobody = { .request = 1,
					     .cred = { .pid = 1, .uid = 65534, .gid = 65534 } };

/* @return the parsed reply, which was checked against its schema */
static json_t *ask_as(struct fixture *fixture, const struct clients_asker *asker,
		      const char *request, size_t len)
{
	char *text = NULL;
	assert_int_equal(control_handle(&fixture->control, asker, request, len, &text), 0);
	json_t *reply = json_loads(text, 0, NULL);
	free(text);
	assert_non_null(reply);
	assert_int_equal(json_integer_value(json_object_get(reply, "schema")), CONTROL_SCHEMA);
	return reply;
}

static json_t *ask(struct fixture *fixture, const char *request, size_t len)
{
	return ask_as(fixture, &nobody, request, len);
}

/* Begins a request of root that is answered later. */
static void start(struct fixture *fixture, uint64_t number, const char *request)
{
	const struct clients_asker root = { .request = number,
					    .reply = on_reply,
					    .reply_ctx = fixture };
	char *text = NULL;
	assert_int_equal(control_handle(&fixture->control, &root, request, strlen(request), &text),
			 -EINPROGRESS);
	assert_null(text);
}

static void expect_error(json_t *reply, const char *code, const char *parameter, const char *words)
{
	json_t *error = json_object_get(reply, "error");
	const char *text = json_string_value(json_object_get(error, "text"));
	assert_null(json_object_get(reply, "result"));
	assert_string_equal(json_string_value(json_object_get(error, "code")), code);
	assert_true(json_integer_value(json_object_get(error, "errno")) > 0);
	assert_non_null(text);
	if (!strstr(text, words))
		fail_msg("\"%s\" does not say \"%s\"", text, words);
	if (parameter)
		assert_string_equal(json_string_value(json_object_get(error, "parameter")),
				    parameter);
	else
		assert_null(json_object_get(error, "parameter"));
	json_decref(reply);
}

static json_t *result_of(json_t *reply, const char *key)
{
	return json_object_get(json_object_get(reply, "result"), key);
}

static void bad_requests_are_refused_by_name(void **state)
{
	static const struct {
		const char *request, *code, *parameter, *words;
	} cases[] = {
		{ "", "bad-request", NULL, "JSON" },
		{ "{", "bad-request", NULL, "JSON" },
		{ "[]", "bad-request", NULL, "JSON" },
		{ "42", "bad-request", NULL, "JSON" },
		{ "{\"method\":1}", "bad-request", NULL, "method" },
		{ "{\"method\":\"info.show\",\"method\":\"link.show\"}", "bad-request", NULL,
		  "duplicate" },
		{ "{\"method\":\"nonsense\"}", "unknown-method", NULL, "nonsense" },
		{ "{\"method\":\"info.show\",\"params\":{\"a\":1}}", "bad-parameter", "a", "none" },
		{ "{\"method\":\"device.show\",\"params\":{\"after\":\"live:1\"}}", "bad-parameter",
		  "after", "none" },
		{ "{\"method\":\"link.show\",\"params\":[]}", "bad-request", NULL, "params" },
		{ "{\"method\":\"link.show\",\"params\":{\"link\":1}}", "bad-parameter", "link",
		  "there is: linkgroup, peer, after, state" },
		{ "{\"method\":\"link.show\",\"params\":{\"after\":1}}", "bad-parameter", "after",
		  "a string" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TRIES("%s", cases[i].words);
		expect_error(ask(*state, cases[i].request, strlen(cases[i].request)), cases[i].code,
			     cases[i].parameter, cases[i].words);
	}
}

/* Text of the asker is cut at any byte, and still makes a valid reply. */
static void text_that_is_cut_makes_a_valid_reply(void **state)
{
	char request[160] = "{\"method\":\"";
	for (size_t i = 0; i < 63; i++)
		strcat(request, "a");
	strcat(request, "\xC3\xA9\"}");
	expect_error(ask(*state, request, strlen(request)), "unknown-method", NULL, "aaa?\"");
}

/* A view begins again only at places that a reply has named. */
static void only_places_of_the_view_are_taken(void **state)
{
	static const struct {
		const char *method, *after;
		bool good;
	} cases[] = {
		{ "connection.show", "live:1", true },
		{ "connection.show", "ended:18446744073709551615", true },
		{ "link.show", "linkgroup:18446744073709551615", true },
		{ "linkgroup.show", "linkgroup:0", true },
		{ "policy.show", "learnt:7", true },
		{ "cm.show", "listener:1", true },
		{ "cm.show", "live:1", true },
		{ "cm.show", "ended:7", true },
		{ "smbdirect.show", "live:1", true },
		{ "connection.show", "", false },
		{ "connection.show", "live", false },
		{ "connection.show", "live:", false },
		{ "connection.show", "live:x", false },
		{ "connection.show", "live:-1", false },
		{ "connection.show", "live: 1", false },
		{ "connection.show", "live:01", false },
		{ "connection.show", "live:1x", false },
		{ "connection.show", "live:18446744073709551616", false },
		{ "connection.show", "rules:1", false },
		{ "policy.show", "live:1", false },
		{ "link.show", "link:1", false },
		{ "cm.show", "plain:1", false },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TRIES("%s", cases[i].method);
		char text[128];
		int len = snprintf(text, sizeof(text),
				   "{\"method\":\"%s\",\"params\":{\"after\":\"%s\"}}",
				   cases[i].method, cases[i].after);
		json_t *reply = ask(*state, text, (size_t)len);
		if (!cases[i].good) {
			expect_error(reply, "bad-parameter", "after", "next");
			continue;
		}
		assert_non_null(json_object_get(reply, "result"));
		assert_null(json_object_get(reply, "next"));
		json_decref(reply);
	}
}

/* A request ends where its length says, whatever bytes follow. */
static void a_request_ends_at_its_length(void **state)
{
	static const char request[] = "{\"method\":\"info.show\"}garbage";
	json_t *reply = ask(*state, request, sizeof(request) - sizeof("garbage"));
	json_t *result = json_object_get(reply, "result");
	json_t *option = json_object_get(result, "tcp_option");
	assert_true(json_is_false(json_object_get(option, "available")));
	assert_string_equal(json_string_value(json_object_get(option, "error")), "not here");
	json_decref(reply);
}

static void on_engine(void *ctx)
{
	(void)ctx;
}

static void on_outcome(struct conn_asker *asker, enum ipc_outcome outcome, int error,
		       uint32_t reason, int fd)
{
	(void)asker;
	(void)reason;
	assert_int_equal(outcome, IPC_OUTCOME_TCP);
	assert_int_equal(error, 0);
	assert_int_equal(fd, -1);
}

/* A socket without addresses is shown without, not with bytes from smcrd's memory. */
static void a_socket_without_addresses_is_shown_without(void **state)
{
	static const char request[] = "{\"method\":\"connection.show\"}";
	struct fixture *fixture = *state;
	const struct conns_config config = { .base = fixture->base,
					     .engine = fixture->control.engine,
					     .callbacks = { .engine_enter = on_engine,
							    .engine_leave = on_engine } };
	const struct ipc_handover msg = { .kind = IPC_HANDOVER_CONNECTED };
	const struct rdv_verdict verdict = { 0 };
	struct conn_asker asker = { .outcome = on_outcome };
	assert_int_equal(conns_new(&config, &fixture->control.conns), 0);
	const struct conn_offer offer = { .msg = &msg,
					  .quota = quota_get(fixture->control.conns, 0),
					  .verdict_error = -ENOTCONN,
					  .verdict = &verdict,
					  .asker = &asker };
	int unconnected = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(conns_adopt(fixture->control.conns, &offer, unconnected), 0);
	json_t *reply = ask(fixture, request, strlen(request));
	json_t *row = json_array_get(json_object_get(reply, "result"), 0);
	assert_non_null(row);
	assert_true(json_is_null(json_object_get(row, "local")));
	assert_true(json_is_null(json_object_get(row, "peer")));
	json_decref(reply);
	conns_free(fixture->control.conns);
}

static void empty_lists_are_arrays(void **state)
{
	static const char *const methods[] = { "device.show", "linkgroup.show", "link.show",
					       "connection.show", "ueid.show" };
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		TRIES("%s", methods[i]);
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

/* ---- commands ---- */

static void parameters_are_checked_by_name(void **state)
{
	static const struct {
		const char *method, *params, *parameter, *words;
	} cases[] = {
		{ "link.delete", "{}", "linkgroup", "missing" },
		{ "link.delete", "{\"linkgroup\":1}", "link", "missing" },
		{ "link.delete", "{\"linkgroup\":\"1\",\"link\":1}", "linkgroup", "type" },
		{ "link.delete", "{\"linkgroup\":1,\"link\":1.0}", "link", "type" },
		{ "link.delete", "{\"linkgroup\":1,\"link\":null}", "link", "type" },
		{ "link.delete", "{\"linkgroup\":0,\"link\":1}", "linkgroup", "range" },
		{ "link.delete", "{\"linkgroup\":-1,\"link\":1}", "linkgroup", "range" },
		{ "link.delete", "{\"linkgroup\":4294967296,\"link\":1}", "linkgroup", "range" },
		{ "link.delete", "{\"linkgroup\":1,\"link\":0}", "link", "range" },
		{ "link.delete", "{\"linkgroup\":1,\"link\":256}", "link", "range" },
		{ "link.delete", "{\"linkgroup\":1,\"link\":1,\"disorderly\":1}", "disorderly",
		  "true or false" },
		{ "link.delete", "{\"linkgroup\":1,\"link\":1,\"orderly\":true}", "orderly",
		  "linkgroup, link, disorderly" },
		{ "link.delete", "{\"linkgroup\":1,\"link\":1,\"to\":2}", "to", "no parameter" },
		{ "link.test", "{\"linkgroup\":1,\"link\":1,\"disorderly\":true}", "disorderly",
		  "no parameter" },
		{ "link.add", "{\"linkgroup\":1,\"link\":1}", "link", "there is: linkgroup" },
		{ "link.test", "{\"link\":1}", "linkgroup", "missing" },
		{ "link.disable", "{\"linkgroup\":1}", "link", "missing" },
		{ "link.enable", "{\"linkgroup\":1}", "link", "missing" },
		{ "linkgroup.delete", "{}", "linkgroup", "missing" },
		{ "failover", "{\"linkgroup\":1,\"from\":300}", "from", "range" },
		{ "failover", "{\"linkgroup\":1,\"to\":\"x\"}", "to", "type" },
		{ "failover", "{\"linkgroup\":1,\"from\":2,\"to\":2}", "to", "same link" },
		{ "ueid.add", "{}", "name", "missing" },
		{ "ueid.add", "{\"name\":1}", "name", "a string" },
		{ "ueid.add", "{\"name\":\"\"}", "name", "1 to 32" },
		{ "ueid.add", "{\"name\":\"lower\"}", "name", "'lower' is no UEID" },
		{ "ueid.remove", "{\"name\":\"A B\"}", "name", "'A B' is no UEID" },
		{ "ueid.add", "{\"name\":\"A\",\"link\":1}", "link", "there is: name" },
		{ "policy.add", "{}", "rule", "missing" },
		{ "policy.add", "{\"rule\":[]}", "rule", "a string" },
		{ "policy.add", "{\"rule\":\"\"}", "rule", "begins with" },
		{ "policy.add", "{\"rule\":\"deny uid root\"}", "rule", "no user number" },
		{ "policy.delete", "{\"rule\":\"deny port x\"}", "rule", "'x' is no TCP port" },
		{ "policy.forget", "{}", "peer", "missing" },
		{ "policy.forget", "{\"peer\":\"10.0.0\"}", "peer", "'10.0.0' is no address" },
		{ "policy.forget", "{\"port\":65536}", "port", "65535" },
		{ "policy.forget", "{\"port\":\"80\"}", "port", "type" },
		{ "policy.judge", "{}", "peer", "missing" },
		{ "policy.judge", "{\"peer\":\"10.0.0\"}", "peer", "'10.0.0' is no address" },
		{ "policy.judge", "{\"peer\":\"::1\",\"local\":\"x\"}", "local",
		  "'x' is no address" },
		{ "policy.judge", "{\"peer\":\"::1\",\"program\":1}", "program", "a string" },
	};
	struct fixture *fixture = *state;
	const struct clients_asker root = { .request = 1 };
	assert_int_equal(have_group(fixture), 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TRIES("%s", cases[i].words);
		char text[200];
		int len = snprintf(text, sizeof(text), "{\"method\":\"%s\",\"params\":%s}",
				   cases[i].method, cases[i].params);
		expect_error(ask_as(fixture, &root, text, (size_t)len), "bad-parameter",
			     cases[i].parameter, cases[i].words);
	}
}

static void missing_groups_and_links_are_named(void **state)
{
	static const struct {
		const char *request, *words;
	} cases[] = {
		{ "{\"method\":\"link.add\",\"params\":{\"linkgroup\":77}}",
		  "there is no link group 77; 'smcrctl linkgroup' lists them" },
		{ "{\"method\":\"link.test\",\"params\":{\"linkgroup\":1,\"link\":9}}",
		  "link group 1 has no link 9; 'smcrctl link' lists them" },
		{ "{\"method\":\"link.test\",\"params\":{\"linkgroup\":77,\"link\":1}}",
		  "there is no link group 77; 'smcrctl linkgroup' lists them" },
		{ "{\"method\":\"failover\",\"params\":{\"linkgroup\":1,\"to\":8}}",
		  "link group 1 has no link 8; 'smcrctl link' lists them" },
		{ "{\"method\":\"failover\",\"params\":{\"linkgroup\":1,\"from\":1,\"to\":8}}",
		  "link group 1 has no link 8; 'smcrctl link' lists them" },
		{ "{\"method\":\"failover\",\"params\":{\"linkgroup\":1,\"from\":7,\"to\":8}}",
		  "link group 1 has no link 7; 'smcrctl link' lists them" },
	};
	const struct clients_asker root = { .request = 1 };
	assert_int_equal(have_group(*state), 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TRIES("%s", cases[i].words);
		expect_error(ask_as(*state, &root, cases[i].request, strlen(cases[i].request)),
			     "not-found", NULL, cases[i].words);
	}
}

#define TEST_LINK_1  "{\"method\":\"link.test\",\"params\":{\"linkgroup\":1,\"link\":1}}"
#define TEST_LINK_2  "{\"method\":\"link.test\",\"params\":{\"linkgroup\":1,\"link\":2}}"
#define DELETE_GROUP "{\"method\":\"linkgroup.delete\",\"params\":{\"linkgroup\":1}}"

/* Root may, and so may members of the group that the configuration names, be it their primary group
 * or another. */
static void only_administrators_may_change(void **state)
{
	struct fixture *fixture = *state;
	const gid_t others[] = { 7, 8 }, with[] = { 7, 123, 200000 };
	struct clients_asker asker = nobody;
	assert_int_equal(have_group(fixture), 1);
	size_t len = strlen(TEST_LINK_1);
	asker.cred.gid = 0; /* membership in root's group is not enough */
	expect_error(ask_as(fixture, &asker, TEST_LINK_1, len), "not-permitted", NULL, "root");

	free(fixture->config.admin_group);
	fixture->config.admin_group = strdup("operators");
	fixture->config.admin_gid = 123;
	expect_error(ask_as(fixture, &asker, TEST_LINK_1, len), "not-permitted", NULL, "operators");
	asker.groups = others;
	asker.num_groups = 2;
	expect_error(ask_as(fixture, &asker, TEST_LINK_1, len), "not-permitted", NULL, "operators");
	assert_int_equal(fixture->num_replies, 0);

	char *text = NULL;
	asker.groups = with;
	asker.num_groups = 3;
	assert_int_equal(control_handle(&fixture->control, &asker, TEST_LINK_1, len, &text),
			 -EINPROGRESS);
	asker.num_groups = 0;
	asker.cred.gid = 123;
	assert_int_equal(control_handle(&fixture->control, &asker, TEST_LINK_1, len, &text),
			 -EINPROGRESS);
}

/* A command is refused to a user without rights before its parameters are looked at. */
static void a_stranger_learns_nothing(void **state)
{
	expect_error(ask(*state, DELETE_GROUP, strlen(DELETE_GROUP)), "not-permitted", NULL,
		     "root");
}

static void replies_come_when_commands_end(void **state)
{
	struct fixture *fixture = *state;
	assert_int_equal(have_group(fixture), 1);
	start(fixture, 41, TEST_LINK_1);
	start(fixture, 42, TEST_LINK_2);
	start(fixture, 43, TEST_LINK_2);
	assert_int_equal(fixture->num_replies, 0);
	pair_run(fixture->pair, 1000);
	assert_int_equal(fixture->num_replies, 3);
	assert_in_range(fixture->request, 41, 43);
	assert_true(json_is_integer(result_of(fixture->reply, "rtt_us")));
	assert_true(json_is_false(result_of(fixture->reply, "requested")));
	assert_true(json_is_null(result_of(fixture->reply, "link")));
	assert_true(json_is_null(result_of(fixture->reply, "connections")));
	assert_non_null(json_string_value(result_of(fixture->reply, "text")));
	assert_null(fixture->control.pending);
}

static void failures_come_as_errors(void **state)
{
	struct fixture *fixture = *state;
	assert_int_equal(have_group(fixture), 1);
	fixture->pair->side[PAIR_CLIENT].blocked = true;
	start(fixture, 5, TEST_LINK_2);
	pair_run(fixture->pair, 20000000);
	assert_int_equal(fixture->num_replies, 1);
	assert_int_equal(fixture->request, 5);
	expect_error(json_incref(fixture->reply), "failed", NULL, "1/2");
}

static void a_deleted_group_counts_its_connections(void **state)
{
	struct fixture *fixture = *state;
	assert_int_equal(have_group(fixture), 1);
	start(fixture, 6, DELETE_GROUP);
	pair_run(fixture->pair, 5000000);
	assert_int_equal(fixture->num_replies, 1);
	assert_int_equal(json_integer_value(result_of(fixture->reply, "connections")), 1);
	assert_true(json_is_null(result_of(fixture->reply, "rtt_us")));
}

#define ADD_LINK "{\"method\":\"link.add\",\"params\":{\"linkgroup\":1}}"

/* The engine tells that a link was added, or that it was only asked for. */
static void results_of_added_links(void **state)
{
	struct fixture *fixture = *state;
	const struct smcr_command_result added = { .link = 3, .text = "It is there." };
	const struct smcr_command_result asked = { .requested = true, .text = "It was asked for." };
	assert_int_equal(have_group(fixture), 1);
	start(fixture, 1, ADD_LINK);
	start(fixture, 2, ADD_LINK);
	control_command_done(&fixture->control, 1, &added); /* the engine counts commands from 1 */
	assert_int_equal(fixture->request, 1);
	assert_int_equal(json_integer_value(result_of(fixture->reply, "link")), 3);
	assert_true(json_is_false(result_of(fixture->reply, "requested")));
	control_command_done(&fixture->control, 2, &asked);
	assert_int_equal(fixture->request, 2);
	assert_true(json_is_true(result_of(fixture->reply, "requested")));
	assert_string_equal(json_string_value(result_of(fixture->reply, "text")),
			    "It was asked for.");
	const char *keys[] = { "link", "connections", "rtt_us" };
	for (size_t i = 0; i < 3; i++)
		assert_true(json_is_null(result_of(fixture->reply, keys[i])));
	/* Nobody waits for this outcome any more. */
	control_command_done(&fixture->control, 2, &asked);
	assert_int_equal(fixture->num_replies, 2);
}

/* The asker has gone: no reply is sent, and the command goes on. */
static void an_asker_who_goes_gets_no_reply(void **state)
{
	struct fixture *fixture = *state;
	assert_int_equal(have_group(fixture), 1);
	start(fixture, 7, TEST_LINK_2);
	start(fixture, 8, DELETE_GROUP);
	control_forget(&fixture->control, 8);
	control_forget(&fixture->control, 99);
	pair_run(fixture->pair, 5000000);
	assert_int_equal(fixture->num_replies, 1);
	assert_int_equal(fixture->request, 7);
	assert_null(pair_lgr(fixture->pair, PAIR_SERVER));
}

/* ---- UEIDs ---- */

static json_t *change_ueid(struct fixture *fixture, const char *method, const char *name)
{
	const struct clients_asker root = { .request = 1 };
	char text[128];
	int len = snprintf(text, sizeof(text), "{\"method\":\"%s\",\"params\":{\"name\":\"%s\"}}",
			   method, name);
	return ask_as(fixture, &root, text, (size_t)len);
}

static void expect_text(json_t *reply, const char *words)
{
	const char *text = json_string_value(result_of(reply, "text"));
	assert_non_null(text);
	if (!strstr(text, words))
		fail_msg("\"%s\" does not say \"%s\"", text, words);
	json_decref(reply);
}

static void expect_ueids(struct fixture *fixture, size_t n, const char *first)
{
	static const char show[] = "{\"method\":\"ueid.show\"}";
	json_t *reply = ask(fixture, show, sizeof(show) - 1);
	json_t *list = json_object_get(reply, "result");
	assert_int_equal(json_array_size(list), n);
	if (n) {
		json_t *entry = json_array_get(list, 0);
		assert_string_equal(json_string_value(json_object_get(entry, "name")), first);
		assert_int_equal(json_integer_value(json_object_get(entry, "linkgroups")), 0);
	}
	json_decref(reply);
}

static void ueids_come_and_go(void **state)
{
	struct fixture *fixture = *state;
	static const char add[] = "{\"method\":\"ueid.add\",\"params\":{\"name\":\"A\"}}";
	expect_error(ask(fixture, add, sizeof(add) - 1), "not-permitted", NULL, "root");
	expect_ueids(fixture, 0, NULL);
	expect_text(change_ueid(fixture, "ueid.add", "SMCLAB"), "SMCLAB");
	expect_error(change_ueid(fixture, "ueid.add", "SMCLAB"), "exists", NULL, "already");
	expect_ueids(fixture, 1, "SMCLAB");
	expect_error(change_ueid(fixture, "ueid.remove", "OTHER"), "not-found", NULL, "OTHER");
	for (char c = '1'; c <= '7'; c++)
		expect_text(change_ueid(fixture, "ueid.add", (char[]){ c, '\0' }), "version 2");
	expect_error(change_ueid(fixture, "ueid.add", "8"), "full", NULL, "8");
	expect_ueids(fixture, 8, "SMCLAB");
	expect_text(change_ueid(fixture, "ueid.remove", "SMCLAB"), "SMCLAB");
	expect_ueids(fixture, 7, "1");
	fixture->config.engine.versions = SMCR_VERSIONS_1_ONLY;
	expect_text(change_ueid(fixture, "ueid.add", "8"), "version 1 only");
}

/* ---- policy ---- */

static json_t *change_rule(struct fixture *fixture, const char *method, const char *rule)
{
	const struct clients_asker root = { .request = 1 };
	char text[160];
	int len = snprintf(text, sizeof(text), "{\"method\":\"%s\",\"params\":{\"rule\":\"%s\"}}",
			   method, rule);
	return ask_as(fixture, &root, text, (size_t)len);
}

/* Compares the texts of the rules, separated by commas and followed by what happens to other
 * connections. */
static void expect_policy(struct fixture *fixture, const char *words)
{
	static const char show[] = "{\"method\":\"policy.show\"}";
	char text[512] = "";
	size_t i;
	json_t *rule, *reply = ask(fixture, show, sizeof(show) - 1);
	json_array_foreach(result_of(reply, "rules"), i, rule)
	{
		strcat(text, json_string_value(json_object_get(rule, "rule")));
		strcat(text,
		       json_is_true(json_object_get(rule, "configured")) ? " (conf), " : ", ");
		assert_int_equal(json_integer_value(json_object_get(rule, "hits")), 0);
	}
	strcat(text, json_string_value(result_of(reply, "default")));
	assert_string_equal(text, words);
	json_decref(reply);
}

static void rules_come_and_go(void **state)
{
	struct fixture *fixture = *state;
	static const char add[] = "{\"method\":\"policy.add\",\"params\":{\"rule\":\"deny all\"}}";
	struct policy_rule rule;
	char why[POLICY_WHY_LEN];
	expect_error(ask(fixture, add, sizeof(add) - 1), "not-permitted", NULL, "root");
	expect_policy(fixture, "allow");
	assert_int_equal(policy_rule_parse("deny port 22", false, &rule, why), 0);
	assert_int_equal(policy_add_rule(fixture->control.policy, &rule, true), 0);
	expect_text(change_rule(fixture, "policy.add", "allow  uid 7"), "allow uid 7: new");
	expect_error(change_rule(fixture, "policy.add", "allow uid 7"), "exists", NULL,
		     "allow uid 7");
	expect_text(change_rule(fixture, "policy.add", "deny port 23"), "deny port 23");
	expect_policy(fixture, "deny port 22 (conf), allow uid 7, deny port 23, deny");
	expect_error(change_rule(fixture, "policy.delete", "deny port 24"), "not-found", NULL,
		     "deny port 24");
	expect_text(change_rule(fixture, "policy.delete", "deny port 22"), "after a restart");
	/* A new rule takes the memory of a deleted rule, but stands last. */
	expect_text(change_rule(fixture, "policy.add", "deny port 25"), "deny port 25");
	expect_policy(fixture, "allow uid 7, deny port 23, deny port 25, deny");
	expect_text(change_rule(fixture, "policy.delete", "allow uid 7"), "do not go by it");
	expect_policy(fixture, "deny port 23, deny port 25, allow");
}

static void the_number_of_rules_is_limited(void **state)
{
	struct fixture *fixture = *state;
	char text[32];
	for (int i = 1; i <= SMCR_MAX_RULES; i++) {
		snprintf(text, sizeof(text), "deny port %d", i);
		expect_text(change_rule(fixture, "policy.add", text), text);
	}
	expect_error(change_rule(fixture, "policy.add", "deny all"), "full", NULL, "256");
}

/* ---- drain ---- */

#define DRAIN      "{\"method\":\"drain.begin\"}"
#define DRAIN_WAIT "{\"method\":\"drain.begin\",\"params\":{\"wait\":true}}"
#define DRAIN_OFF  "{\"method\":\"drain.end\"}"

/* Asks for a drain that is answered when it has ended. */
static void ask_to_wait(struct fixture *fixture, uint64_t request)
{
	const struct clients_asker root = { .request = request,
					    .reply = on_reply,
					    .reply_ctx = fixture };
	char *text = NULL;
	assert_int_equal(
		control_handle(&fixture->control, &root, DRAIN_WAIT, strlen(DRAIN_WAIT), &text),
		-EINPROGRESS);
	assert_null(text);
}

static json_t *ask_root(struct fixture *fixture, const char *request)
{
	const struct clients_asker root = { .request = 1 };
	return ask_as(fixture, &root, request, strlen(request));
}

/* A drain is begun once, and smcrd looks until the last connection has ended. Then the asker is
 * told. */
static void a_drain_ends_with_the_last_connection(void **state)
{
	static const char show[] = "{\"method\":\"info.show\"}";
	struct fixture *fixture = *state;
	fixture->left = 2;
	expect_error(ask(fixture, DRAIN, strlen(DRAIN)), "not-permitted", NULL, "root");
	assert_false(fixture->control.drain.on);
	json_t *reply = ask(fixture, show, strlen(show));
	assert_true(json_is_null(result_of(reply, "draining")));
	json_decref(reply);
	expect_text(ask_root(fixture, DRAIN), "plain TCP; 2 that smcrd carries go on");
	assert_true(fixture->control.drain.on);
	assert_int_equal(fixture->drained, 1);
	reply = ask(fixture, show, strlen(show));
	assert_true(json_is_object(result_of(reply, "draining")));
	json_decref(reply);
	ask_to_wait(fixture, 7);
	ask_to_wait(fixture, 8);
	ask_to_wait(fixture, 9);
	control_forget(&fixture->control, 8);
	assert_true(control_drain_look(&fixture->control, 1));
	assert_int_equal(fixture->num_replies, 0);
	assert_false(control_drain_look(&fixture->control, 0));
	assert_int_equal(fixture->num_replies, 2);
	assert_int_equal(fixture->request, 9);
	assert_int_equal(json_integer_value(result_of(fixture->reply, "connections")), 0);
	/* the drain stays on, and its end is told once */
	assert_false(control_drain_look(&fixture->control, 0));
	assert_int_equal(fixture->num_replies, 2);
	assert_true(fixture->control.drain.on);
	fixture->left = 0;
	expect_text(ask_root(fixture, DRAIN_WAIT), "no connection is left");
}

static void a_drain_that_is_taken_back_is_an_error_for_askers(void **state)
{
	struct fixture *fixture = *state;
	fixture->left = 3;
	expect_text(ask_root(fixture, DRAIN_OFF), "was not draining");
	assert_int_equal(fixture->drained, 0);
	ask_to_wait(fixture, 7);
	expect_text(ask_root(fixture, DRAIN_OFF), "may use SMC-R again");
	assert_false(fixture->control.drain.on);
	assert_int_equal(fixture->drained, 2);
	assert_int_equal(fixture->num_replies, 1);
	json_t *error = json_object_get(fixture->reply, "error");
	assert_string_equal(json_string_value(json_object_get(error, "code")), "failed");
	assert_false(control_drain_look(&fixture->control, 0));
	assert_int_equal(fixture->num_replies, 1);
	ask_to_wait(fixture, 8); /* left open: the end of the test forgets this request */
}

struct told {
	unsigned int ends;  /* events about the end of a drain */
	unsigned int lines; /* all events */
};

static bool count_event(void *arg, const struct event_record *event)
{
	struct told *told = arg;
	told->lines++;
	told->ends += !strncmp(event->text, "drain: no connection is left", 28);
	return true;
}

static void expect_told(const struct fixture *fixture, unsigned int ends, unsigned int lines)
{
	struct told told = { 0 };
	events_walk(fixture->control.events, 0, count_event, &told);
	assert_int_equal(told.ends, ends);
	assert_int_equal(told.lines, lines);
}

/* The last connection ends, and a new one begins before smcrd looks again. The asker is told all
 * the same, and the log has one line about it. */
static void the_end_of_a_drain_is_told_once(void **state)
{
	struct fixture *fixture = *state;
	assert_int_equal(events_new(&fixture->control.events), 0);
	fixture->left = 1;
	ask_to_wait(fixture, 7);
	ask_to_wait(fixture, 8);
	expect_told(fixture, 0, 2);
	fixture->left = 0;
	expect_text(ask_root(fixture, DRAIN_WAIT), "no connection is left");
	assert_int_equal(fixture->num_replies, 2);
	assert_int_equal(json_integer_value(result_of(fixture->reply, "connections")), 0);
	expect_told(fixture, 1, 4);
	assert_false(control_drain_look(&fixture->control, 0));
	expect_text(ask_root(fixture, DRAIN), "no connection is left");
	assert_int_equal(fixture->num_replies, 2);
	expect_told(fixture, 1, 5);
	/* a drain whose end nobody has waited for */
	expect_text(ask_root(fixture, DRAIN_OFF), "may use SMC-R again");
	expect_text(ask_root(fixture, DRAIN), "no connection is left");
	assert_false(control_drain_look(&fixture->control, 0));
	expect_told(fixture, 1, 7);
	events_free(fixture->control.events);
	fixture->control.events = NULL;
}

static void a_drain_that_had_ended_is_a_success_for_askers(void **state)
{
	struct fixture *fixture = *state;
	fixture->left = 1;
	ask_to_wait(fixture, 7);
	ask_to_wait(fixture, 8);
	fixture->left = 0;
	expect_text(ask_root(fixture, DRAIN_OFF), "may use SMC-R again");
	assert_int_equal(fixture->num_replies, 2);
	assert_non_null(json_object_get(fixture->reply, "result"));
	/* the next drain ends for itself */
	fixture->left = 1;
	ask_to_wait(fixture, 9);
	assert_true(control_drain_look(&fixture->control, 1));
	assert_false(control_drain_look(&fixture->control, 0));
	assert_int_equal(fixture->num_replies, 3);
}

/* ---- views in parts ---- */

#define UID       65534 /* of ask() */
#define MOST_ROWS 64    /* in one reply */

struct counts {
	unsigned int rules[SMCR_MAX_RULES + 1]; /* how often the rule of each port was shown */
	/* how often each peer was shown, by the last byte of its address */
	unsigned int failed[256];
};

static size_t count_rows(const json_t *reply, struct counts *counts)
{
	json_t *rules = result_of((json_t *)reply, "rules"), *row;
	json_t *failed = result_of((json_t *)reply, "failed");
	size_t i;
	json_array_foreach(rules, i, row)
	{
		int port = 0;
		sscanf(json_string_value(json_object_get(row, "rule")), "deny port %d", &port);
		counts->rules[port]++;
	}
	json_array_foreach(failed, i, row)
	{
		int last = 0;
		sscanf(json_string_value(json_object_get(row, "peer")), "10.0.0.%d", &last);
		counts->failed[last]++;
	}
	return json_array_size(rules) + json_array_size(failed);
}

static json_t *ask_policy(struct fixture *fixture, const char *after)
{
	char text[128] = "{\"method\":\"policy.show\"}";
	if (after)
		snprintf(text, sizeof(text),
			 "{\"method\":\"policy.show\",\"params\":{\"after\":\"%s\"}}", after);
	return ask(fixture, text, strlen(text));
}

static json_t *forget(struct fixture *fixture, const char *params);

/* No reply is long. All parts of a view together have each row once, even if rows come and go
 * meanwhile. */
static void long_views_come_in_parts(void **state)
{
	struct fixture *fixture = *state;
	static struct counts counts;
	struct smcr_addr peer = { .family = AF_INET, .ip = { 10 }, .port = 0 };
	char text[32];
	for (int i = 1; i <= 100; i++) {
		snprintf(text, sizeof(text), "deny port %d", i);
		json_decref(change_rule(fixture, "policy.add", text));
	}
	for (uint8_t i = 1; i <= 200; i++) {
		peer.ip[3] = i;
		policy_failed(fixture->control.policy, UID, &peer, FAILURE_PATH);
	}
	memset(&counts, 0, sizeof(counts));
	json_t *reply = ask_policy(fixture, NULL), *next;
	unsigned int parts = 1;
	for (; (next = json_object_get(reply, "next")); parts++) {
		assert_int_equal(count_rows(reply, &counts), MOST_ROWS);
		/* the row at the place goes, one before it and one behind it; a new one comes */
		if (parts == 1) {
			json_decref(change_rule(fixture, "policy.delete", "deny port 64"));
			json_decref(change_rule(fixture, "policy.delete", "deny port 1"));
			json_decref(change_rule(fixture, "policy.delete", "deny port 65"));
			json_decref(change_rule(fixture, "policy.add", "deny port 101"));
		}
		if (parts == 3) {
			json_decref(forget(fixture, "{\"peer\":\"10.0.0.1\"}"));
			json_decref(forget(fixture, "{\"peer\":\"10.0.0.199\"}"));
		}
		json_t *then = ask_policy(fixture, json_string_value(next));
		json_decref(reply);
		reply = then;
	}
	assert_true(count_rows(reply, &counts) < MOST_ROWS);
	json_decref(reply);
	assert_int_equal(parts, 5); /* 100 rules and 199 peers, 64 in a part */
	for (int i = 1; i <= 101; i++)
		assert_int_equal(counts.rules[i], i != 65);
	for (int i = 1; i <= 200; i++)
		assert_int_equal(counts.failed[i], i != 199);
}

static json_t *forget(struct fixture *fixture, const char *params)
{
	const struct clients_asker root = { .request = 1 };
	char text[128];
	int len = snprintf(text, sizeof(text), "{\"method\":\"policy.forget\",\"params\":%s}",
			   params);
	return ask_as(fixture, &root, text, (size_t)len);
}

static void expect_lists(struct fixture *fixture, size_t failed, size_t learnt)
{
	static const char show[] = "{\"method\":\"policy.show\"}";
	json_t *reply = ask(fixture, show, sizeof(show) - 1);
	assert_int_equal(json_array_size(result_of(reply, "failed")), failed);
	assert_int_equal(json_array_size(result_of(reply, "learnt")), learnt);
	json_decref(reply);
}

static void failures_and_short_places_are_shown_and_forgotten(void **state)
{
	struct fixture *fixture = *state;
	struct policy *policy = fixture->control.policy;
	static const char show[] = "{\"method\":\"policy.show\"}";
	const struct smcr_addr peer = { .family = AF_INET, .ip = { 10, 0, 0, 2 }, .port = 80 };
	const struct smcr_addr peer6 = { .family = AF_INET6, .ip = { 0xfd }, .port = 80 };
	const struct smcr_addr own6 = { .family = AF_INET6, .ip = { 0xfe } };
	const struct rdv_place to = { .uid = UID, .peer = peer };
	const struct rdv_place own = {
		.uid = UID + 1, .server = true, .peer = peer6, .local = own6
	};
	const struct smcr_needs needs = { 1, UINT32_MAX };
	expect_lists(fixture, 0, 0);
	policy_failed(policy, UID, &peer, FAILURE_PATH);
	policy_failed(policy, UID, &peer, FAILURE_RESET);
	policy_failed(policy, UID, &peer6, FAILURE_ANSWER);
	policy_ended(policy, &to, 5, 100, &needs);
	policy_ended(policy, &own, 5, 100, &needs);
	expect_lists(fixture, 3, 2);

	json_t *reply = ask(fixture, show, sizeof(show) - 1);
	json_t *first = json_array_get(result_of(reply, "failed"), 0);
	assert_string_equal(json_string_value(json_object_get(first, "peer")), "10.0.0.2");
	assert_true(json_is_null(json_object_get(first, "port")));
	assert_string_equal(json_string_value(json_object_get(first, "kind")), "path");
	assert_in_range(json_integer_value(json_object_get(first, "seconds_left")), 50, 60);
	json_t *second = json_array_get(result_of(reply, "failed"), 1);
	assert_int_equal(json_integer_value(json_object_get(second, "port")), 80);
	assert_int_equal(json_integer_value(json_object_get(second, "uid")), UID);
	assert_in_range(json_integer_value(json_object_get(second, "seconds_left")), 1, 2);
	json_t *place = json_array_get(result_of(reply, "learnt"), 1);
	assert_string_equal(json_string_value(json_object_get(place, "peer")), "fd00::");
	assert_string_equal(json_string_value(json_object_get(place, "local")), "fe00::");
	assert_int_equal(json_integer_value(json_object_get(place, "port")), 80);
	assert_int_equal(json_integer_value(json_object_get(place, "uid")), UID + 1);
	assert_string_equal(json_string_value(json_object_get(place, "role")), "server");
	place = json_array_get(result_of(reply, "learnt"), 0);
	assert_int_equal(json_integer_value(json_object_get(place, "uid")), UID);
	assert_string_equal(json_string_value(json_object_get(place, "role")), "client");
	assert_true(json_is_null(json_object_get(place, "local")));
	assert_int_equal(json_integer_value(json_object_get(place, "connections")), 1);
	assert_true(json_is_false(json_object_get(place, "left_on_tcp")));
	json_decref(reply);

	expect_error(forget(fixture, "{\"peer\":\"10.0.0.3\"}"), "not-found", NULL, "nothing");
	expect_error(forget(fixture, "{\"port\":81}"), "not-found", NULL, "nothing");
	assert_int_equal(policy_expect(policy, &own).snd, UINT32_MAX);
	expect_text(forget(fixture, "{\"port\":80}"), "1 entry is forgotten");
	expect_lists(fixture, 3, 1);
	assert_int_equal(policy_expect(policy, &own).snd, 0);
	assert_int_equal(policy_expect(policy, &to).snd, UINT32_MAX);
	expect_text(forget(fixture, "{\"peer\":\"fd00::\",\"port\":80}"), "1 entry is forgotten");
	expect_text(forget(fixture, "{\"peer\":\"10.0.0.2\"}"), "3 entries are forgotten");
	expect_lists(fixture, 0, 0);
	policy_failed(policy, UID, &peer, FAILURE_PATH);
	policy_worked(policy, UID, &peer);
	expect_lists(fixture, 0, 0);
}

/* That packets are too large for a path says nothing about whether SMC-R is used. */
static void paths_are_shown_and_forgotten(void **state)
{
	struct fixture *fixture = *state;
	struct smcr_engine *engine = fixture->control.engine;
	static const char show[] = "{\"method\":\"policy.show\"}";
	const struct smcr_addr peer = { .family = AF_INET, .ip = { 10, 0, 0, 2 }, .port = 80 };
	engine->paths[3] = (struct smcr_path){
		.host = peer,
		.peer = { [10] = 0xff, 0xff, 10, 9, 0, 2 },
		.mtu = SMCR_MTU_1024,
		.proven = true,
		.until = engine->now + 5500000,
	};
	json_t *reply = ask(fixture, show, sizeof(show) - 1);
	assert_int_equal(json_array_size(result_of(reply, "paths")), 1);
	json_t *path = json_array_get(result_of(reply, "paths"), 0);
	assert_string_equal(json_string_value(json_object_get(path, "peer")), "10.0.0.2");
	assert_string_equal(json_string_value(json_object_get(path, "peer_gid")),
			    "::ffff:10.9.0.2");
	assert_true(json_is_null(json_object_get(path, "rnic")));
	assert_true(json_is_true(json_object_get(path, "proven")));
	assert_int_equal(json_integer_value(json_object_get(path, "mtu")), 1024);
	assert_int_equal(json_integer_value(json_object_get(path, "seconds_left")), 6);
	json_decref(reply);
	expect_error(forget(fixture, "{\"peer\":\"10.0.0.2\",\"port\":80}"), "not-found", NULL,
		     "nothing");
	expect_error(forget(fixture, "{\"peer\":\"10.9.0.3\"}"), "not-found", NULL, "nothing");
	expect_text(forget(fixture, "{\"peer\":\"10.9.0.2\"}"), "links try packets of full size");
	engine->paths[3].until = engine->now + 1;
	policy_failed(fixture->control.policy, UID, &peer, FAILURE_PATH);
	expect_text(forget(fixture, "{\"peer\":\"10.0.0.2\"}"),
		    "2 entries are forgotten: new connections try SMC-R, new links packets");
	assert_int_equal(engine->paths[3].until, 0);
}

/* Where the BPF programs do not decide, or a rule came late, smcrd counts the hits itself. */
static void hits_at_the_hand_over_are_shown(void **state)
{
	struct fixture *fixture = *state;
	static const char show[] = "{\"method\":\"policy.show\"}";
	const struct smcr_subject subject = { .uid = 7, .port = 22 }, other = { .port = 23 };
	struct policy *policy = fixture->control.policy;
	assert_int_equal(policy_judge(policy, &subject), SMCR_REASON_NONE);
	json_decref(change_rule(fixture, "policy.add", "deny uid 7"));
	assert_int_equal(policy_judge(policy, &subject), SMCR_REASON_LOCAL_POLICY);
	assert_int_equal(policy_judge(policy, &subject), SMCR_REASON_LOCAL_POLICY);
	assert_int_equal(policy_judge(policy, &other), SMCR_REASON_NONE);
	json_decref(change_rule(fixture, "policy.add", "allow port 22"));
	assert_int_equal(policy_judge(policy, &other), SMCR_REASON_LOCAL_POLICY);
	json_t *reply = ask(fixture, show, sizeof(show) - 1);
	json_t *rule = json_array_get(result_of(reply, "rules"), 0);
	assert_int_equal(json_integer_value(json_object_get(rule, "hits")), 2);
	assert_int_equal(json_integer_value(result_of(reply, "default_hits")), 1);
	json_decref(reply);
}

/* A user without rights asks for the reasons against SMC-R. They have to be `reasons`, such as
 * "no-bpf local-policy". */
static void expect_reasons(struct fixture *fixture, const char *params, const char *reasons)
{
	char request[256], names[256] = "";
	size_t i;
	json_t *row;
	snprintf(request, sizeof(request), "{\"method\":\"policy.judge\",\"params\":%s}", params);
	json_t *reply = ask(fixture, request, strlen(request));
	json_array_foreach(result_of(reply, "reasons"), i, row)
	{
		size_t at = strlen(names);
		snprintf(names + at, sizeof(names) - at, "%s%s", i ? " " : "",
			 json_string_value(json_object_get(row, "reason")));
	}
	assert_string_equal(names, reasons);
	assert_true(json_is_false(result_of(reply, "tried")));
	json_decref(reply);
}

static void a_connection_is_judged_beforehand(void **state)
{
	static const char peer_80[] = "{\"peer\":\"10.0.0.2\",\"port\":80}";
	static const char by_a[] = "{\"peer\":\"10.0.0.2\",\"port\":80,\"program\":\"/bin/a\"}";
	struct fixture *fixture = *state;
	struct policy *policy = fixture->control.policy;
	const struct smcr_addr peer = { .family = AF_INET, .ip = { 10, 0, 0, 2 }, .port = 80 };
	expect_reasons(fixture, peer_80, "no-bpf");
	expect_reasons(fixture, "{\"peer\":\"127.0.0.9\"}", "no-bpf own-host");
	expect_reasons(fixture, "{\"peer\":\"::1\"}", "no-bpf own-host");
	expect_reasons(fixture, "{\"peer\":\"fe80::1\"}", "no-bpf");
	expect_reasons(fixture, "{\"peer\":\"::1\"}", "no-bpf own-host");
	json_decref(change_rule(fixture, "policy.add", "deny program /bin/a"));
	expect_reasons(fixture, peer_80, "no-bpf");
	expect_reasons(fixture, by_a, "no-bpf local-policy");
	json_decref(change_rule(fixture, "policy.add", "deny uid 65534 port 80"));
	json_decref(change_rule(fixture, "policy.add", "deny local 10.9.0.0/16"));
	expect_reasons(fixture, peer_80, "no-bpf local-policy");
	expect_reasons(fixture, "{\"peer\":\"10.0.0.2\",\"local\":\"10.9.0.1\"}",
		       "no-bpf local-policy");
	expect_reasons(fixture, "{\"peer\":\"10.0.0.2\",\"local\":\"10.8.0.1\"}", "no-bpf");
	/* first another user's connection has failed, then one port of the peer, then the peer */
	policy_failed(policy, UID + 1, &peer, FAILURE_PATH);
	expect_reasons(fixture, "{\"peer\":\"10.0.0.2\",\"port\":81}", "no-bpf");
	policy_failed(policy, UID, &peer, FAILURE_ANSWER);
	expect_reasons(fixture, "{\"peer\":\"10.0.0.2\",\"port\":81}", "no-bpf");
	policy_failed(policy, UID, &peer, FAILURE_PATH);
	expect_reasons(fixture, "{\"peer\":\"10.0.0.2\",\"port\":81}", "no-bpf peer-skipped");
}

static void a_judgement_names_rule_and_failure(void **state)
{
	static const char request[] =
		"{\"method\":\"policy.judge\",\"params\":{\"peer\":\"10.0.0.2\",\"port\":80}}";
	struct fixture *fixture = *state;
	const struct smcr_addr peer = { .family = AF_INET, .ip = { 10, 0, 0, 2 }, .port = 80 };
	json_t *reply = ask(fixture, request, strlen(request));
	assert_true(json_is_null(result_of(reply, "rule")));
	assert_true(json_is_false(result_of(reply, "by_program")));
	assert_true(json_is_null(result_of(reply, "failure")));
	json_decref(reply);
	json_decref(change_rule(fixture, "policy.add", "deny program /bin/a"));
	json_decref(change_rule(fixture, "policy.add", "deny port 80"));
	policy_failed(fixture->control.policy, UID, &peer, FAILURE_ANSWER);
	reply = ask(fixture, request, strlen(request));
	assert_string_equal(json_string_value(result_of(reply, "failure")),
			    failure_text(FAILURE_ANSWER));
	assert_int_equal(json_integer_value(result_of(reply, "failure_port")), 80);
	json_decref(reply);
	policy_failed(fixture->control.policy, UID, &peer, FAILURE_PATH);
	reply = ask(fixture, request, strlen(request));
	assert_string_equal(json_string_value(result_of(reply, "rule")), "deny port 80");
	assert_true(json_is_true(result_of(reply, "by_program")));
	assert_string_equal(json_string_value(result_of(reply, "failure")),
			    failure_text(FAILURE_PATH));
	assert_true(json_is_null(result_of(reply, "failure_port")));
	assert_in_range(json_integer_value(result_of(reply, "seconds_left")), 50, 60);
	json_decref(reply);
}

static void the_host_is_described(void **state)
{
	static const char request[] = "{\"method\":\"host.show\"}";
	json_t *reply = ask(*state, request, sizeof(request) - 1);
	uint64_t cookie;
	assert_int_equal(rdv_netns_cookie(&cookie), 0);
	assert_int_equal(json_integer_value(result_of(reply, "netns_cookie")), (json_int_t)cookie);
	assert_int_equal(json_integer_value(result_of(reply, "uid")), geteuid());
	assert_true(json_is_array(result_of(reply, "missing_rnics")));
	assert_true(json_is_null(result_of(reply, "egress_guard")));
	const json_t *file = result_of(reply, "config_file");
	assert_true(json_is_string(json_object_get(file, "path")));
	assert_true(json_is_boolean(json_object_get(file, "read")));
	json_decref(reply);
}

/* ---- filters ---- */

#define CONNS 1500

static union ipc_addr name(unsigned int host, uint16_t port)
{
	return (union ipc_addr){ .in = { .sin_family = AF_INET,
					 .sin_port = htons(port),
					 .sin_addr.s_addr = htonl(0x0A000000 + host) } };
}

/* Makes connection number `i`, which stays on TCP. */
static void have_connection(struct fixture *fixture, unsigned int i, uid_t uid)
{
	const struct ipc_handover msg = { .kind = IPC_HANDOVER_CONNECTED };
	const struct rdv_verdict verdict = { .local_name = name(1, (uint16_t)(1000 + i)),
					     .peer_name = name(i % 5, (uint16_t)(80 + i % 2)) };
	struct conn_asker asker = { .outcome = on_outcome };
	const struct conn_offer offer = { .msg = &msg,
					  .cred = { .pid = (pid_t)i, .uid = uid },
					  .quota = quota_get(fixture->control.conns, uid),
					  .verdict_error = -ENOTCONN,
					  .verdict = &verdict,
					  .asker = &asker };
	int unconnected = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(conns_adopt(fixture->control.conns, &offer, unconnected), 0);
}

static void open_conns(struct fixture *fixture)
{
	const struct conns_config config = { .base = fixture->base,
					     .engine = fixture->control.engine,
					     .limits = { .history = CONNS },
					     .callbacks = { .engine_enter = on_engine,
							    .engine_leave = on_engine } };
	assert_int_equal(conns_new(&config, &fixture->control.conns), 0);
}

/* Makes connections of three users with five peers: number i belongs to user i % 3. */
static void have_connections(struct fixture *fixture)
{
	open_conns(fixture);
	for (unsigned int i = 1; i <= CONNS; i++)
		have_connection(fixture, i, i % 3);
}

/* Expects so many rows that match, in so many parts. */
static void expect_rows(struct fixture *fixture, const char *method, const char *params,
			size_t rows, unsigned int parts)
{
	char request[256], after[64] = "";
	size_t seen = 0;
	for (;; parts--) {
		snprintf(request, sizeof(request), "{\"method\":\"%s\",\"params\":{%s%s%s%s}}",
			 method, params, *after ? ",\"after\":\"" : "", after, *after ? "\"" : "");
		json_t *reply = ask(fixture, request, strlen(request));
		const char *next = json_string_value(json_object_get(reply, "next"));
		assert_true(json_is_array(json_object_get(reply, "result")));
		seen += json_array_size(json_object_get(reply, "result"));
		if (next)
			snprintf(after, sizeof(after), "%s", next);
		json_decref(reply);
		if (!next)
			break;
	}
	assert_int_equal(seen, rows);
	assert_int_equal(parts, 1);
}

/* User namespaces and directories of users give numbers of 32 bits. */
static void user_numbers_have_32_bits(void **state)
{
	static const char request[] =
		"{\"method\":\"connection.show\",\"params\":{\"uid\":4294967290}}";
	struct fixture *fixture = *state;
	open_conns(fixture);
	have_connection(fixture, 1, 4294967290);
	json_t *reply = ask(fixture, request, strlen(request));
	json_t *row = json_array_get(json_object_get(reply, "result"), 0);
	assert_int_equal(json_integer_value(json_object_get(row, "uid")), 4294967290);
	json_decref(reply);
	conns_free(fixture->control.conns);
}

/* Filters apply before rows are written, and smcrd looks at a bounded number of rows for each
 * part. */
static void connections_are_chosen(void **state)
{
	static const char method[] = "connection.show";
	struct fixture *fixture = *state;
	have_connections(fixture);
	/* after 1024 rows looked at a part ends */
	expect_rows(fixture, method, "\"uid\":4294967295", 0, 2);
	expect_rows(fixture, method, "\"pid\":1500", 1, 2); /* the newest connection */
	expect_rows(fixture, method, "\"pid\":1", 1, 2);
	expect_rows(fixture, method, "\"uid\":0", 500, 8); /* after 64 rows written a part ends */
	expect_rows(fixture, method, "\"peer\":\"10.0.0.3\"", 300, 5);
	expect_rows(fixture, method, "\"peer\":\"::ffff:10.0.0.3\"", 300, 5);
	expect_rows(fixture, method, "\"peer\":\"10.0.0.5\"", 0, 2);
	expect_rows(fixture, method, "\"peer\":\"a00:3::\"", 0, 2);
	expect_rows(fixture, method, "\"port\":80,\"uid\":1", 250, 4);
	expect_rows(fixture, method, "\"port\":1007", 1, 2);
	expect_rows(fixture, method, "\"mode\":\"TCP\",\"pid\":7", 1, 2);
	expect_rows(fixture, method, "\"mode\":\"smcr\"", 0, 2);
	expect_rows(fixture, method, "\"state\":\"PeerCloseWait1\",\"pid\":7", 0, 2);
	expect_rows(fixture, method, "\"state\":\"HandedBack\",\"pid\":7", 1, 2);
	expect_rows(fixture, method, "\"state\":\"plain\"", 0, 2);
	expect_rows(fixture, method, "\"linkgroup\":1", 0, 2);
	expect_rows(fixture, method, "\"uid\":1,\"after\":\"ended:1\"", 0, 1);
	conns_free(fixture->control.conns);
}

static void filters_are_checked(void **state)
{
	static const struct {
		const char *method, *params, *parameter, *words;
	} cases[] = {
		{ "connection.show", "\"peer\":\"host\"", "peer", "'host' is no address" },
		{ "connection.show", "\"port\":0", "port", "from 1 to 65535" },
		{ "connection.show", "\"uid\":-1", "uid", "from 0 to 4294967295" },
		{ "connection.show", "\"pid\":0", "pid", "from 1 to 2147483647" },
		{ "connection.show", "\"mode\":\"rdma\"", "mode",
		  "'rdma' is no mode; there is: pending, smcr, tcp" },
		{ "connection.show", "\"state\":\"x\"", "state",
		  "failed, handed-back, plain, init, active, " },
		{ "connection.show", "\"state\":\"\"", "state", "'' is no state" },
		{ "link.show", "\"state\":\"x\"", "state",
		  "activating, active, deactivating, failed" },
		{ "link.show", "\"uid\":1", "uid", "there is: linkgroup, peer, after, state" },
		{ "linkgroup.show", "\"state\":\"x\"", "state",
		  "there is: linkgroup, peer, after" },
		{ "event.show", "\"peer\":\"\"", "peer", "'' is no address" },
		{ "event.wait", "\"peer\":\"10.0.0.\"", "peer", "no address" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TRIES("%s", cases[i].words);
		char request[128];
		int len = snprintf(request, sizeof(request), "{\"method\":\"%s\",\"params\":{%s}}",
				   cases[i].method, cases[i].params);
		expect_error(ask(*state, request, (size_t)len), "bad-parameter", cases[i].parameter,
			     cases[i].words);
	}
}

/* Only filters are looked at: the queue pairs of these links cannot be shown. */
static void groups_and_links_are_chosen(void **state)
{
	struct fixture *fixture = *state;
	assert_int_equal(have_group(fixture), 1);
	expect_rows(fixture, "linkgroup.show", "\"peer\":\"10.0.0.101\"", 1, 1);
	expect_rows(fixture, "linkgroup.show", "\"peer\":\"192.0.2.99\"", 0, 1);
	expect_rows(fixture, "linkgroup.show", "\"linkgroup\":1", 1, 1);
	expect_rows(fixture, "linkgroup.show", "\"linkgroup\":2", 0, 1);
	expect_rows(fixture, "link.show", "\"peer\":\"192.0.2.99\"", 0, 1);
	expect_rows(fixture, "link.show", "\"state\":\"failed\"", 0, 1);
	expect_rows(fixture, "link.show", "\"linkgroup\":2", 0, 1);
}

/* ---- events ---- */

/* The result of event.wait behind a place, which the caller owns. @return NULL if the request
 * waits */
static json_t *wait_for(struct fixture *fixture, const char *after, char ret_next[64])
{
	char request[128] = "{\"method\":\"event.wait\"}", *text = NULL;
	if (*after)
		snprintf(request, sizeof(request),
			 "{\"method\":\"event.wait\",\"params\":{\"after\":\"%s\"}}", after);
	int r = control_handle(&fixture->control, &nobody, request, strlen(request), &text);
	if (r == -EAGAIN)
		return NULL;
	assert_int_equal(r, 0);
	json_t *reply = json_loads(text, 0, NULL);
	free(text);
	const char *next = json_string_value(json_object_get(reply, "next"));
	assert_non_null(next);
	snprintf(ret_next, 64, "%s", next);
	json_t *result = json_incref(json_object_get(reply, "result"));
	json_decref(reply);
	return result;
}

static void expect_events(json_t *result, size_t rows, json_int_t first_id, json_int_t lost)
{
	json_t *events = json_object_get(result, "events");
	assert_int_equal(json_array_size(events), rows);
	assert_int_equal(json_integer_value(json_object_get(result, "lost")), lost);
	if (rows)
		assert_int_equal(
			json_integer_value(json_object_get(json_array_get(events, 0), "id")),
			first_id);
	json_decref(result);
}

static void happen(struct events *events, unsigned int times)
{
	while (times-- > 0)
		events_command(events, "link.delete", false, "done");
}

/* A reader that asks behind the last place it was told misses no event, and learns how many are no
 * longer kept. */
static void events_are_waited_for(void **state)
{
	struct fixture *fixture = *state;
	char next[64];
	struct events *events;
	assert_int_equal(events_new(&events), 0);
	fixture->control.events = events;
	expect_events(wait_for(fixture, "", next), 0, 0, 0);
	assert_string_equal(next, "event:0");
	assert_null(wait_for(fixture, next, next));
	happen(events, 3);
	expect_events(wait_for(fixture, next, next), 3, 1, 0);
	assert_string_equal(next, "event:3");
	assert_null(wait_for(fixture, next, next));
	happen(events, 100);
	expect_events(wait_for(fixture, next, next), 64, 4, 0);
	expect_events(wait_for(fixture, next, next), 36, 68, 0);
	assert_null(wait_for(fixture, next, next));

	happen(events, EVENTS_OF_A_PEER + 7);
	expect_events(wait_for(fixture, next, next), 64, 111, 7);
	expect_events(wait_for(fixture, next, next), 64, 175, 0);
	expect_events(wait_for(fixture, "", next), 0, 0, 0);
	assert_null(wait_for(fixture, next, next));
	static const char future[] =
		"{\"method\":\"event.wait\",\"params\":{\"after\":\"event:361\"}}";
	expect_error(ask(fixture, future, strlen(future)), "bad-parameter", "after",
		     "has not happened");
	fixture->control.events = NULL;
	events_free(events);
}

/* A reader that waits for some kinds of events is also told how far the other events have come. */
static void events_are_chosen(void **state)
{
	struct fixture *fixture = *state;
	const struct smcr_event of_group = { .type = SMCR_EVENT_LGR_UP,
					     .lgr = 7,
					     .peer = { .family = AF_INET, .ip = { 192, 0, 2, 9 } },
					     .text = "" };
	static const char wait[] = "{\"method\":\"event.wait\",\"params\":{\"linkgroup\":7,"
				   "\"after\":\"event:0\"}}";
	struct events *events;
	assert_int_equal(events_new(&events), 0);
	fixture->control.events = events;
	happen(events, 3);
	json_t *reply = ask(fixture, wait, strlen(wait));
	assert_int_equal(json_array_size(result_of(reply, "events")), 0);
	assert_int_equal(json_integer_value(result_of(reply, "lost")), 0);
	assert_string_equal(json_string_value(json_object_get(reply, "next")), "event:3");
	json_decref(reply);
	events_engine(events, &of_group);
	happen(events, 1);
	reply = ask(fixture, wait, strlen(wait));
	assert_int_equal(json_array_size(result_of(reply, "events")), 1);
	assert_string_equal(json_string_value(json_object_get(reply, "next")), "event:5");
	json_decref(reply);
	expect_rows(fixture, "event.show", "\"peer\":\"192.0.2.9\"", 1, 1);
	expect_rows(fixture, "event.show", "\"peer\":\"192.0.2.8\"", 0, 1);
	expect_rows(fixture, "event.show", "\"linkgroup\":7", 1, 1);
	fixture->control.events = NULL;
	events_free(events);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(bad_requests_are_refused_by_name),
		CASE(only_places_of_the_view_are_taken),
		CASE(long_views_come_in_parts),
		CASE(text_that_is_cut_makes_a_valid_reply),
		CASE(a_request_ends_at_its_length),
		CASE(a_socket_without_addresses_is_shown_without),
		CASE(empty_lists_are_arrays),
		CASE(parameters_are_checked_by_name),
		CASE(missing_groups_and_links_are_named),
		CASE(only_administrators_may_change),
		CASE(a_stranger_learns_nothing),
		CASE(replies_come_when_commands_end),
		CASE(failures_come_as_errors),
		CASE(a_deleted_group_counts_its_connections),
		CASE(results_of_added_links),
		CASE(an_asker_who_goes_gets_no_reply),
		CASE(ueids_come_and_go),
		CASE(rules_come_and_go),
		CASE(the_number_of_rules_is_limited),
		CASE(failures_and_short_places_are_shown_and_forgotten),
		CASE(paths_are_shown_and_forgotten),
		CASE(a_drain_ends_with_the_last_connection),
		CASE(a_drain_that_is_taken_back_is_an_error_for_askers),
		CASE(the_end_of_a_drain_is_told_once),
		CASE(a_drain_that_had_ended_is_a_success_for_askers),
		CASE(hits_at_the_hand_over_are_shown),
		CASE(a_connection_is_judged_beforehand),
		CASE(a_judgement_names_rule_and_failure),
		CASE(the_host_is_described),
		CASE(user_numbers_have_32_bits),
		CASE(connections_are_chosen),
		CASE(filters_are_checked),
		CASE(groups_and_links_are_chosen),
		CASE(events_are_waited_for),
		CASE(events_are_chosen),
	};
	return cmocka_run_group_tests_name("control", tests, NULL, NULL);
}

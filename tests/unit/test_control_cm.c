/* SPDX-License-Identifier: MIT */
/* RDMA connections as views, counters and metrics: which rows, in which order, and who may see
 * what. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/cm/cm.h"
#include "tests/lib/controlfix.h"
#include "tests/lib/tries.h"

/* ---- what the connection manager has ---- */

#define MOST 400

static struct {
	struct cm_conn_view conns[MOST];
	size_t num_conns;
	unsigned int num_listeners;
	struct cm_stats stats;
} has;

void __wrap_cm_each_conn(struct cm *cm, bool (*fn)(void *arg, const struct cm_conn_view *view),
			 void *arg);
void __wrap_cm_each_listener(struct cm *cm,
			     void (*fn)(void *arg, const struct cm_listener_view *view), void *arg);
void __wrap_cm_get_stats(const struct cm *cm, struct cm_stats *ret_stats);

void __wrap_cm_each_conn(struct cm *cm, bool (*fn)(void *arg, const struct cm_conn_view *view),
			 void *arg)
{
	(void)cm;
	for (size_t i = 0; i < has.num_conns; i++)
		if (!fn(arg, &has.conns[i]))
			return;
}

void __wrap_cm_each_listener(struct cm *cm,
			     void (*fn)(void *arg, const struct cm_listener_view *view), void *arg)
{
	(void)cm;
	for (unsigned int i = 0; i < has.num_listeners; i++) {
		const struct cm_listener_view view = { .local = { .family = AF_INET,
								  .port = (uint16_t)(i + 1) },
						       .requests = 5,
						       .accepted = 3,
						       .refused = 1,
						       .waiting = 1 };
		fn(arg, &view);
	}
}

void __wrap_cm_get_stats(const struct cm *cm, struct cm_stats *ret_stats)
{
	(void)cm;
	*ret_stats = has.stats;
}

static struct cm_conn_view *add_conn(uint64_t number, enum cm_state state)
{
	struct cm_conn_view *view = &has.conns[has.num_conns++];
	assert_true(has.num_conns <= MOST);
	*view = (struct cm_conn_view){
		.number = number,
		.state = state,
		.active = true,
		.rnic = "soft:eth0",
		.local = { .family = AF_INET, .addr = { 192, 0, 2, 1 }, .port = 40000 },
		.peer = { .family = AF_INET, .addr = { 192, 0, 2, 9 }, .port = 445 },
		.local_qpn = 0x1234,
		.local_id = 0xFFFFFFFF,
		.path_mtu = 3,
		.reads_answered = 16,
		.reads_asked = 8,
		.private_data = { 0xAB, 0, 0xCD },
		.private_len = 196,
		.age_us = 5000000,
		.idle_us = 1000000,
		.resends = 2,
	};
	return view;
}

static int setup(void **state)
{
	memset(&has, 0, sizeof(has));
	if (controlfix_setup(state))
		return -1;
	((struct controlfix *)*state)->control.cm = (struct cm *)&has; /* never used */
	return 0;
}

/* ---- asking ---- */

static json_t *ask(struct controlfix *fix, uid_t uid, const char *params)
{
	const struct clients_asker asker = { .request = 1, .cred = { .uid = uid, .gid = 65534 } };
	char request[256], *text = NULL;
	int len = snprintf(request, sizeof(request), "{\"method\":\"cm.show\",\"params\":{%s}}",
			   params);
	assert_int_equal(control_handle(&fix->control, &asker, request, (size_t)len, &text), 0);
	json_t *reply = json_loads(text, 0, NULL);
	free(text);
	assert_non_null(json_object_get(reply, "result"));
	return reply;
}

static const json_t *rows_of(const json_t *reply, const char *list)
{
	return json_object_get(json_object_get(reply, "result"), list);
}

static const char *text_at(const json_t *row, const char *key)
{
	return json_string_value(json_object_get(row, key));
}

static json_int_t number_at(const json_t *row, const char *key)
{
	if (!json_is_integer(json_object_get(row, key)))
		fail_msg("%s is no number", key);
	return json_integer_value(json_object_get(row, key));
}

/* ---- rows ---- */

static void a_connection_has_its_values(void **state)
{
	add_conn(7, CM_STATE_CONNECTED);
	json_t *reply = ask(*state, 0, "");
	const json_t *row = json_array_get(rows_of(reply, "connections"), 0);
	assert_int_equal(number_at(row, "id"), 7);
	assert_string_equal(text_at(row, "state"), "connected");
	assert_string_equal(text_at(row, "direction"), "active");
	assert_string_equal(text_at(row, "local"), "192.0.2.1:40000");
	assert_string_equal(text_at(row, "peer"), "192.0.2.9:445");
	assert_string_equal(text_at(row, "rnic"), "soft:eth0");
	assert_int_equal(number_at(row, "local_qpn"), 0x1234);
	assert_true(json_is_null(json_object_get(row, "peer_qpn"))); /* not known */
	assert_int_equal(number_at(row, "local_id"), 0xFFFFFFFF);
	assert_int_equal(number_at(row, "path_mtu"), 1024);
	assert_int_equal(number_at(row, "reads_answered"), 16);
	assert_int_equal(number_at(row, "reads_asked"), 8);
	assert_int_equal(number_at(row, "age_ms"), 5000);
	assert_int_equal(number_at(row, "idle_ms"), 1000);
	assert_int_equal(number_at(row, "resends"), 2);
	/* without the zeros at the end of the field */
	assert_string_equal(text_at(row, "private_data"), "ab00cd");
	assert_true(json_is_null(json_object_get(row, "end")));
	assert_true(json_is_null(json_object_get(row, "text")));
	assert_true(json_is_null(json_object_get(row, "reject_code")));
	json_decref(reply);
}

static void an_end_is_told_with_its_reason(void **state)
{
	struct cm_conn_view *view = add_conn(7, CM_STATE_ENDED);
	view->end = CM_END_NO_LISTENER;
	view->reject_reason = 8;
	view->active = false;
	snprintf(view->text, sizeof(view->text), "the peer has refused");
	json_t *reply = ask(*state, 0, "");
	const json_t *row = json_array_get(rows_of(reply, "connections"), 0);
	assert_string_equal(text_at(row, "direction"), "passive");
	assert_string_equal(text_at(row, "end"), "no-listener");
	assert_string_equal(text_at(row, "text"), "the peer has refused");
	assert_int_equal(number_at(row, "reject_code"), 8);
	assert_string_equal(text_at(row, "reject_reason"), "invalid-service-id");
	assert_string_equal(text_at(row, "reject_text"), "nobody listens on that port");
	json_decref(reply);
}

static void secrets_are_for_administrators(void **state)
{
	static const char *const secrets[] = { "local_qpn", "peer_qpn", "local_id", "peer_id",
					       "private_data" };
	struct cm_conn_view *view = add_conn(7, CM_STATE_CONNECTED);
	view->peer_qpn = view->peer_id = 1;
	for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++) {
		TRIES("%s", secrets[i]);
		json_t *mine = ask(*state, 0, ""), *others = ask(*state, 65534, "");
		const json_t *row = json_array_get(rows_of(mine, "connections"), 0);
		assert_false(json_is_null(json_object_get(row, secrets[i])));
		row = json_array_get(rows_of(others, "connections"), 0);
		assert_true(json_is_null(json_object_get(row, secrets[i])));
		json_decref(mine);
		json_decref(others);
	}
}

static void listeners_are_told_with_their_counts(void **state)
{
	has.num_listeners = 2;
	json_t *reply = ask(*state, 65534, "");
	const json_t *row = json_array_get(rows_of(reply, "listeners"), 1);
	assert_string_equal(text_at(row, "local"), "0.0.0.0:2");
	assert_int_equal(number_at(row, "requests"), 5);
	assert_int_equal(number_at(row, "accepted"), 3);
	assert_int_equal(number_at(row, "refused"), 1);
	assert_int_equal(number_at(row, "waiting"), 1);
	json_decref(reply);
}

static void expect_num(void **state, const char *params, size_t connections, size_t listeners)
{
	TRIES("%s", params);
	json_t *reply = ask(*state, 65534, params);
	assert_int_equal(json_array_size(rows_of(reply, "connections")), connections);
	assert_int_equal(json_array_size(rows_of(reply, "listeners")), listeners);
	json_decref(reply);
}

static void filters_limit_the_rows(void **state)
{
	has.num_listeners = 3;
	add_conn(3, CM_STATE_CONNECTED);
	add_conn(2, CM_STATE_ASKING)->peer.addr[3] = 8;
	add_conn(1, CM_STATE_ENDED)->peer.port = 2;
	expect_num(state, "", 3, 3);
	expect_num(state, "\"peer\":\"192.0.2.8\"", 1, 0);
	expect_num(state, "\"port\":2", 1, 1);
	expect_num(state, "\"port\":40000", 3, 0);
	expect_num(state, "\"state\":\"Ended\"", 1, 0);
	expect_num(state, "\"state\":\"connected\",\"peer\":\"192.0.2.9\",\"port\":445", 1, 0);
	expect_num(state, "\"state\":\"accepting\"", 0, 0);
}

/* Without the connection manager there is nothing to show, and no check. */
static void while_there_is_none(void **state)
{
	struct controlfix *fix = *state;
	fix->control.cm = NULL;
	expect_num(state, "", 0, 0);
	const struct clients_asker root = { .request = 1 };
	const char *request = "{\"method\":\"cm.check\",\"params\":{\"peer\":\"::1\",\"port\":1}}";
	char *text = NULL;
	assert_int_equal(control_handle(&fix->control, &root, request, strlen(request), &text), 0);
	assert_non_null(strstr(text, "\"not-available\""));
	free(text);
}

/* ---- parts ---- */

/* All connections, part by part: live ones first, and each kind from the newest to the oldest,
 * whatever the order in which the connection manager has them. */
static void many_come_in_parts(void **state)
{
	json_int_t last[2] = { 1000, 1000 };
	size_t num = 0, parts = 0, listeners = 0;
	char after[64] = "", params[128] = "";
	bool ended = false;
	has.num_listeners = 70;
	for (unsigned int i = 0; i < 300; i++) /* 7 and 300 have no common divisor */
		add_conn(1 + i * 7 % 300, i % 3 ? CM_STATE_ENDED : CM_STATE_CONNECTED);
	do {
		json_t *reply = ask(*state, 65534, params), *row;
		size_t i;
		json_array_foreach(rows_of(reply, "connections"), i, row)
		{
			const bool is_ended = !strcmp(text_at(row, "state"), "ended");
			assert_true(is_ended || !ended);
			ended = is_ended;
			assert_true(number_at(row, "id") < last[is_ended]);
			last[is_ended] = number_at(row, "id");
			num++;
		}
		listeners += json_array_size(rows_of(reply, "listeners"));
		const char *next = text_at(reply, "next");
		snprintf(after, sizeof(after), "%s", next ? next : "");
		snprintf(params, sizeof(params), "\"after\":\"%s\"", after);
		json_decref(reply);
		assert_true(parts++ < 20);
	} while (*after);
	assert_int_equal(num, 300);
	assert_int_equal(listeners, 70);
	assert_true(parts >= 6);
}

/* ---- sums ---- */

static void have_counts(void)
{
	has.num_listeners = 2;
	add_conn(5, CM_STATE_ASKING);
	add_conn(4, CM_STATE_CONNECTED);
	add_conn(3, CM_STATE_CONNECTED);
	add_conn(2, CM_STATE_ENDED);
	has.stats = (struct cm_stats){ .sent = { [0] = 11, [8] = 12 },
				       .received = { [0] = 13, [2] = 14 },
				       .resent = 1,
				       .dropped = 2,
				       .refused = 3,
				       .limited = 4,
				       .connected = 5,
				       .disconnected = 6,
				       .failed = 7 };
}

static void counters_are_in_the_sums(void **state)
{
	static const struct {
		const char *path;
		json_int_t value;
	} rows[] = {
		{ "cm.connections_now", 3 }, { "cm.listeners_now", 2 },  { "cm.resent", 1 },
		{ "cm.dropped", 2 },         { "cm.refused", 3 },        { "cm.limited", 4 },
		{ "cm.connected", 5 },       { "cm.disconnected", 6 },   { "cm.failed", 7 },
		{ "cm.sent.REQ", 11 },       { "cm.sent.SIDR_REP", 12 }, { "cm.received.REQ", 13 },
		{ "cm.received.REJ", 14 },   { "cm.received.DREP", 0 },
	};
	have_counts();
	json_t *reply = controlfix_ask(*state, false, "stats.show");
	const json_t *result = json_object_get(reply, "result");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("%s", rows[i].path);
		assert_int_equal(controlfix_number(result, rows[i].path), rows[i].value);
	}
	json_decref(reply);
	reply = controlfix_ask(*state, false, "info.show");
	result = json_object_get(reply, "result");
	assert_int_equal(controlfix_number(result, "cm.connections"), 3);
	assert_int_equal(controlfix_number(result, "cm.listeners"), 2);
	json_decref(reply);
}

static void counters_are_metrics(void **state)
{
	static const char *const samples[] = {
		"smcrd_cm_connections{state=\"asking\"} 1",
		"smcrd_cm_connections{state=\"connected\"} 2",
		"smcrd_cm_connections{state=\"ending\"} 0",
		"smcrd_cm_listeners 2",
		"smcrd_cm_connection_events_total{event=\"connected\"} 5",
		"smcrd_cm_connection_events_total{event=\"disconnected\"} 6",
		"smcrd_cm_connection_events_total{event=\"failed\"} 7",
		"smcrd_cm_messages_total{type=\"REQ\",direction=\"sent\"} 11",
		"smcrd_cm_messages_total{type=\"REJ\",direction=\"received\"} 14",
		"smcrd_cm_messages_resent_total 1",
		"smcrd_cm_messages_dropped_total 2",
		"smcrd_cm_requests_refused_total 3",
		"smcrd_cm_requests_limited_total 4",
	};
	have_counts();
	json_t *reply = controlfix_ask(*state, false, "metrics.show");
	const char *text = text_at(json_object_get(reply, "result"), "text");
	assert_non_null(text);
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		char line[160];
		snprintf(line, sizeof(line), "\n%s\n", samples[i]);
		if (!strstr(text, line))
			fail_msg("no sample %s", samples[i]);
	}
	assert_null(strstr(text, "state=\"ended\""));
	json_decref(reply);
}

#define WITH_SMCRD(test) cmocka_unit_test_setup_teardown(test, setup, controlfix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_SMCRD(a_connection_has_its_values),
		WITH_SMCRD(an_end_is_told_with_its_reason),
		WITH_SMCRD(secrets_are_for_administrators),
		WITH_SMCRD(listeners_are_told_with_their_counts),
		WITH_SMCRD(filters_limit_the_rows),
		WITH_SMCRD(while_there_is_none),
		WITH_SMCRD(many_come_in_parts),
		WITH_SMCRD(counters_are_in_the_sums),
		WITH_SMCRD(counters_are_metrics),
	};
	return cmocka_run_group_tests_name("control_cm", tests, NULL, NULL);
}

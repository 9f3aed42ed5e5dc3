/* SPDX-License-Identifier: MIT */
/* Connections of SMB Direct as views, counters and metrics, and who may end them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/smbgate/gate.h"
#include "tests/lib/controlfix.h"
#include "tests/lib/tries.h"

/* ---- what the gateway has ---- */

#define MOST 300

static struct {
	struct smbgate_view conns[MOST];
	size_t num_conns;
	struct smbgate_listener_view listeners[2];
	struct smbgate_stats stats;
	uint64_t disconnected;
} has;

void __wrap_smbgate_each(struct smbgate *gate,
			 bool (*fn)(void *arg, const struct smbgate_view *view), void *arg);
void __wrap_smbgate_each_listener(const struct smbgate *gate,
				  void (*fn)(void *arg, const struct smbgate_listener_view *view),
				  void *arg);
void __wrap_smbgate_get_stats(const struct smbgate *gate, struct smbgate_stats *ret_stats);
int __wrap_smbgate_disconnect(struct smbgate *gate, uint64_t number);

void __wrap_smbgate_each(struct smbgate *gate,
			 bool (*fn)(void *arg, const struct smbgate_view *view), void *arg)
{
	(void)gate;
	for (size_t i = 0; i < has.num_conns; i++)
		if (!fn(arg, &has.conns[i]))
			return;
}

void __wrap_smbgate_each_listener(const struct smbgate *gate,
				  void (*fn)(void *arg, const struct smbgate_listener_view *view),
				  void *arg)
{
	(void)gate;
	for (size_t i = 0; i < 2 && *has.listeners[i].listen; i++)
		fn(arg, &has.listeners[i]);
}

void __wrap_smbgate_get_stats(const struct smbgate *gate, struct smbgate_stats *ret_stats)
{
	(void)gate;
	*ret_stats = has.stats;
}

int __wrap_smbgate_disconnect(struct smbgate *gate, uint64_t number)
{
	(void)gate;
	has.disconnected = number;
	return number == 7 ? 0 : -ENOENT;
}

static struct smbgate_view *add_conn(uint64_t number, enum smbgate_state state)
{
	struct smbgate_view *view = &has.conns[has.num_conns++];
	assert_true(has.num_conns <= MOST);
	*view = (struct smbgate_view){
		.number = number,
		.state = state,
		.serves = true,
		.rnic = "soft:eth0",
		.local = { .family = AF_INET, .addr = { 192, 0, 2, 1 }, .port = 445 },
		.peer = { .family = AF_INET, .addr = { 192, 0, 2, 9 }, .port = 40000 },
		.user = "127.0.0.1:445",
		.smbd = { .send_credits = 11,
			  .receive_credits = 12,
			  .max_fragmented_send_size = 1048576,
			  .bytes_sent = 100,
			  .bytes_received = 200 },
		.rdma_read = 300,
		.rdma_written = 400,
		.channels_served = 5,
		.channels_refused = 6,
		.memory = 4096,
		.age_us = 5000000,
		.lasted_us = 4000000,
	};
	return view;
}

static int setup(void **state)
{
	memset(&has, 0, sizeof(has));
	if (controlfix_setup(state))
		return -1;
	((struct controlfix *)*state)->control.smbgate = (struct smbgate *)&has; /* never used */
	return 0;
}

/* ---- asking ---- */

static json_t *request(struct controlfix *fix, uid_t uid, const char *method, const char *params)
{
	const struct clients_asker asker = { .request = 1, .cred = { .uid = uid, .gid = 65534 } };
	char text[256], *reply = NULL;
	int len =
		snprintf(text, sizeof(text), "{\"method\":\"%s\",\"params\":{%s}}", method, params);
	assert_int_equal(control_handle(&fix->control, &asker, text, (size_t)len, &reply), 0);
	json_t *json = json_loads(reply, 0, NULL);
	free(reply);
	return json;
}

static const json_t *rows_of(const json_t *reply, const char *list)
{
	return json_object_get(json_object_get(reply, "result"), list);
}

static void expect_number(const json_t *row, const char *key, json_int_t value)
{
	TRIES("%s", key);
	assert_true(json_is_integer(json_object_get(row, key)));
	assert_int_equal(json_integer_value(json_object_get(row, key)), value);
}

static void expect_text(const json_t *row, const char *key, const char *value)
{
	TRIES("%s", key);
	assert_string_equal(json_string_value(json_object_get(row, key)), value);
}

/* ---- rows ---- */

static void a_connection_has_its_values(void **state)
{
	add_conn(7, SMBGATE_OPEN);
	json_t *reply = request(*state, 65534, "smbdirect.show", "");
	const json_t *row = json_array_get(rows_of(reply, "connections"), 0);
	expect_number(row, "id", 7);
	expect_text(row, "state", "open");
	expect_text(row, "side", "server");
	expect_text(row, "local", "192.0.2.1:445");
	expect_text(row, "peer", "192.0.2.9:40000");
	expect_text(row, "rnic", "soft:eth0");
	expect_text(row, "tcp", "127.0.0.1:445");
	expect_number(row, "send_credits", 11);
	expect_number(row, "receive_credits", 12);
	expect_number(row, "max_message_sent_bytes", 1048576);
	expect_number(row, "tx_bytes", 100);
	expect_number(row, "rx_bytes", 200);
	expect_number(row, "rdma_read_bytes", 300);
	expect_number(row, "rdma_write_bytes", 400);
	expect_number(row, "channels_served", 5);
	expect_number(row, "channels_refused", 6);
	expect_number(row, "memory_bytes", 4096);
	expect_number(row, "age_ms", 5000);
	expect_number(row, "lasted_ms", 4000);
	assert_true(json_is_null(json_object_get(row, "text")));
	json_decref(reply);
}

/* A connection that is still being made knows little; one that has ended says why. */
static void beginnings_and_ends(void **state)
{
	struct smbgate_view *view = add_conn(2, SMBGATE_CONNECTING);
	memset(&view->local, 0, sizeof(view->local));
	view->serves = false;
	*view->rnic = '\0';
	view = add_conn(1, SMBGATE_ENDED);
	snprintf(view->why, sizeof(view->why), "the TCP side has closed");
	json_t *reply = request(*state, 0, "smbdirect.show", "");
	const json_t *row = json_array_get(rows_of(reply, "connections"), 0);
	expect_text(row, "side", "client");
	assert_true(json_is_null(json_object_get(row, "local")));
	assert_true(json_is_null(json_object_get(row, "rnic")));
	row = json_array_get(rows_of(reply, "connections"), 1);
	expect_text(row, "text", "the TCP side has closed");
	json_decref(reply);
}

static void listeners_are_told(void **state)
{
	has.listeners[0] = (struct smbgate_listener_view){ .serves = true,
							   .listen = "0.0.0.0:445",
							   .leads_to = "127.0.0.1:445",
							   .taken = 3,
							   .refused = 1 };
	has.listeners[1] = (struct smbgate_listener_view){ .listen = "127.0.0.1:1445",
							   .leads_to = "192.0.2.1",
							   .error = -EADDRINUSE,
							   .text = "it is in use" };
	json_t *reply = request(*state, 65534, "smbdirect.show", "");
	const json_t *rows = rows_of(reply, "listeners");
	expect_text(json_array_get(rows, 0), "side", "server");
	expect_text(json_array_get(rows, 0), "leads_to", "127.0.0.1:445");
	expect_number(json_array_get(rows, 0), "taken", 3);
	expect_number(json_array_get(rows, 0), "refused", 1);
	assert_true(json_is_null(json_object_get(json_array_get(rows, 0), "error")));
	expect_text(json_array_get(rows, 1), "listens", "127.0.0.1:1445");
	expect_number(json_array_get(rows, 1), "errno", EADDRINUSE);
	expect_text(json_array_get(rows, 1), "error", "it is in use");
	json_decref(reply);
	/* By their port, but not by a peer. */
	reply = request(*state, 0, "smbdirect.show", "\"port\":1445");
	assert_int_equal(json_array_size(rows_of(reply, "listeners")), 1);
	json_decref(reply);
	reply = request(*state, 0, "smbdirect.show", "\"peer\":\"192.0.2.1\"");
	assert_int_equal(json_array_size(rows_of(reply, "listeners")), 0);
	json_decref(reply);
}

static void filters_limit_the_rows(void **state)
{
	static const struct {
		const char *params;
		size_t rows;
	} cases[] = {
		{ "\"state\":\"open\"", 1 },     { "\"state\":\"ended\"", 2 },
		{ "\"port\":40000", 3 },         { "\"port\":446", 0 },
		{ "\"peer\":\"192.0.2.9\"", 3 }, { "\"peer\":\"192.0.2.8\"", 0 },
	};
	add_conn(1, SMBGATE_OPEN);
	add_conn(2, SMBGATE_ENDED);
	add_conn(3, SMBGATE_ENDED);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TRIES("%s", cases[i].params);
		json_t *reply = request(*state, 0, "smbdirect.show", cases[i].params);
		assert_int_equal(json_array_size(rows_of(reply, "connections")), cases[i].rows);
		json_decref(reply);
	}
}

/* Newest first, each once, over as many replies as it takes. */
static void many_come_in_parts(void **state)
{
	char params[64] = "";
	json_int_t last = 0;
	size_t rows = 0, parts = 0;
	for (unsigned int i = 0; i < MOST; i++) /* in any order */
		add_conn((i * 7) % MOST + 1, i % 3 ? SMBGATE_OPEN : SMBGATE_ENDED);
	bool ended = false, more = true;
	while (more) {
		json_t *reply = request(*state, 0, "smbdirect.show", params), *row;
		const char *next = json_string_value(json_object_get(reply, "next"));
		size_t i;
		json_array_foreach(rows_of(reply, "connections"), i, row)
		{
			const bool this =
				!strcmp(json_string_value(json_object_get(row, "state")), "ended");
			const json_int_t id = json_integer_value(json_object_get(row, "id"));
			assert_true(this >= ended); /* the ended ones behind the others */
			assert_true(last == 0 || this != ended || id < last);
			ended = this;
			last = id;
			rows++;
		}
		more = next != NULL;
		if (more)
			snprintf(params, sizeof(params), "\"after\":\"%s\"", next);
		json_decref(reply);
		assert_true(++parts < 100);
	}
	assert_int_equal(rows, MOST);
	assert_true(parts > 1);
}

/* ---- disconnecting ---- */

static void administrators_disconnect(void **state)
{
	json_t *reply = request(*state, 0, "smbdirect.disconnect", "\"id\":7");
	assert_int_equal(has.disconnected, 7);
	expect_text(json_object_get(reply, "result"), "text", "SMB Direct connection 7 is ended");
	json_decref(reply);
	reply = request(*state, 0, "smbdirect.disconnect", "\"id\":8");
	expect_text(json_object_get(reply, "error"), "code", "not-found");
	json_decref(reply);
	has.disconnected = 0;
	reply = request(*state, 65534, "smbdirect.disconnect", "\"id\":7");
	expect_text(json_object_get(reply, "error"), "code", "not-permitted");
	json_decref(reply);
	reply = request(*state, 0, "smbdirect.disconnect", "");
	expect_text(json_object_get(reply, "error"), "parameter", "id");
	json_decref(reply);
	assert_int_equal(has.disconnected, 0);
}

/* ---- sums ---- */

static void sums_are_counters_and_metrics(void **state)
{
	static const char *const samples[] = {
		"smcrd_smbdirect_connections{state=\"open\"} 1",
		"smcrd_smbdirect_connections{state=\"negotiating\"} 0",
		"smcrd_smbdirect_listeners 1",
		"smcrd_smbdirect_connection_events_total{event=\"refused\"} 3",
		"smcrd_smbdirect_bytes_total{operation=\"send\",direction=\"received\"} 5",
		"smcrd_smbdirect_bytes_total{operation=\"write\",direction=\"sent\"} 8",
		"smcrd_smbdirect_channels_total{outcome=\"served\"} 10",
		"smcrd_smbdirect_memory_bytes 12",
	};
	add_conn(1, SMBGATE_ENDED); /* not freed yet: in front of others */
	add_conn(2, SMBGATE_OPEN);
	snprintf(has.listeners[0].listen, 64, "0.0.0.0:445");
	snprintf(has.listeners[1].listen, 64, "0.0.0.0:5445");
	has.listeners[1].error = -EADDRINUSE; /* nobody listens there */
	has.stats = (struct smbgate_stats){ .established = 1,
					    .ended = 2,
					    .refused = 3,
					    .sent = 4,
					    .received = 5,
					    .read_sent = 6,
					    .read_received = 7,
					    .write_sent = 8,
					    .write_received = 9,
					    .channels_served = 10,
					    .channels_refused = 11,
					    .memory = 12,
					    .memory_most = 13 };
	json_t *reply = controlfix_ask(*state, false, "stats.show");
	const json_t *sums = json_object_get(json_object_get(reply, "result"), "smbdirect");
	expect_number(sums, "connections_now", 1);
	expect_number(sums, "listeners_now", 1);
	expect_number(sums, "refused", 3);
	expect_number(sums, "rdma_read_tx_bytes", 6);
	expect_number(sums, "rdma_write_rx_bytes", 9);
	expect_number(sums, "memory_most_bytes", 13);
	json_decref(reply);
	reply = controlfix_ask(*state, false, "metrics.show");
	const char *text =
		json_string_value(json_object_get(json_object_get(reply, "result"), "text"));
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		char line[160];
		snprintf(line, sizeof(line), "\n%s\n", samples[i]);
		if (!strstr(text, line))
			fail_msg("no sample %s", samples[i]);
	}
	json_decref(reply);
}

static void while_there_is_none(void **state)
{
	((struct controlfix *)*state)->control.smbgate = NULL;
	json_t *reply = request(*state, 0, "smbdirect.show", "");
	assert_int_equal(json_array_size(rows_of(reply, "connections")), 0);
	json_decref(reply);
	reply = request(*state, 0, "smbdirect.disconnect", "\"id\":7");
	expect_text(json_object_get(reply, "error"), "code", "not-found");
	json_decref(reply);
}

#define WITH_SMCRD(test) cmocka_unit_test_setup_teardown(test, setup, controlfix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_SMCRD(a_connection_has_its_values),
		WITH_SMCRD(beginnings_and_ends),
		WITH_SMCRD(listeners_are_told),
		WITH_SMCRD(filters_limit_the_rows),
		WITH_SMCRD(many_come_in_parts),
		WITH_SMCRD(administrators_disconnect),
		WITH_SMCRD(sums_are_counters_and_metrics),
		WITH_SMCRD(while_there_is_none),
	};
	return cmocka_run_group_tests_name("control_smbdirect", tests, NULL, NULL);
}

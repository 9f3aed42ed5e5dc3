/* SPDX-License-Identifier: MIT */
/* A check of RDMA connections, between two software RNICs in namespaces: what is answered when. And
 * the trace and captures of the messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/cm/cm.h"
#include "daemon/cm/trace.h"
#include "daemon/control/capture_sink.h"
#include "daemon/host/log.h"
#include "daemon/host/trace.h"
#include "daemon/rnic/soft.h"
#include "proto/capture/record.h"
#include "proto/ibcm/ibcm.h"
#include "tests/lib/controlfix.h"
#include "tests/lib/rnic_side.h"
#include "tests/lib/testnet.h"

#define PATIENCE 30000 /* milliseconds: of a busy machine */
#define PORT     5445
#define DEVICE   5 /* id of the RNIC of host a in the fabric */

/** Host a checks, host b has a listener. */
struct host {
	struct rnic_side side;
	struct cm *cm;
};

static struct testnet net;
static struct event_base *base;
static struct host a, b;
static struct cm_listener *listener;
static struct cm_conn *conn_of_b;
static bool accepts, mute; /* b accepts, or refuses; b leaves requests unanswered */
static bool goes;          /* b accepts, and hears nothing from then on */
static size_t b_ended;
static struct controlfix *fix;
static struct capture_sink *sink; /* of the messages of a */

static struct {
	size_t num;
	uint64_t request;
	json_t *json;
} reply;

/* The fabric of the fixture has no RNIC. */
void __wrap_fabric_each_device(struct fabric *fabric,
			       void (*fn)(void *arg, uint32_t id, struct rnic *rnic), void *arg);

void __wrap_fabric_each_device(struct fabric *fabric,
			       void (*fn)(void *arg, uint32_t id, struct rnic *rnic), void *arg)
{
	(void)fabric;
	if (a.side.rnic)
		fn(arg, DEVICE, a.side.rnic);
}

/* ---- hosts */

static void on_b(void *ctx, struct cm_conn *conn, const struct cm_event *event)
{
	const struct cm_offer offer = { .reads_answered = 4,
					.reads_asked = 2,
					.rnr_retry = 7,
					.private_data = "hello",
					.private_len = 5 };
	char error[CM_ERROR_LEN] = "";
	(void)ctx;
	if (event->type == CM_REQUEST && accepts) {
		conn_of_b = conn;
		rnic_side_qp(&b.side, 8, 8, 64);
		if (cm_accept(conn, b.side.qp, &offer, 4000, on_b, NULL, error))
			fail_msg("%s", error);
		if (goes)
			rnic_soft_set_gsi(b.side.rnic, NULL, NULL);
	} else if (event->type == CM_REQUEST && mute) {
		conn_of_b = conn;
	} else if (event->type == CM_REQUEST) {
		cm_reject(conn, "no, thanks", 10);
	} else if (event->type == CM_ENDED) {
		b_ended++;
	}
}

static void on_message(void *ctx, const struct cm_message *message)
{
	(void)ctx;
	cm_trace(message);
	if (sink)
		capture_sink_take_cm(sink, fix->control.fabric, message);
}

static void host_open(struct host *host, int ns, const char *name)
{
	const struct cm_params params = { .base = base };
	char error[CM_ERROR_LEN];
	testnet_enter(&net, ns);
	rnic_side_open(&host->side, base, name, 4096);
	assert_int_equal(cm_new(&params, &host->cm), 0);
	assert_int_equal(cm_add_rnic(host->cm, host->side.rnic, error), 0);
}

static void host_close(struct host *host)
{
	cm_free(host->cm);
	rnic_side_close(&host->side);
}

static int setup(void **state)
{
	const struct cm_addr local = { .family = AF_INET, .port = PORT };
	char error[CM_ERROR_LEN];
	testnet_new(&net, 1500);
	base = event_base_new();
	host_open(&b, 1, "soft:t1");
	host_open(&a, 0, "soft:t0"); /* checks look for the route in this namespace */
	assert_int_equal(cm_listen(b.cm, &local, on_b, NULL, &listener, error), 0);
	if (controlfix_setup(state))
		return -1;
	fix = *state;
	fix->control.cm = a.cm;
	fix->control.base = base;
	cm_set_tap(a.cm, on_message, NULL);
	return 0;
}

static int teardown(void **state)
{
	control_close(&fix->control);
	if (conn_of_b)
		cm_conn_free(conn_of_b);
	conn_of_b = NULL;
	rnic_side_qp_destroy(&b.side);
	cm_listener_free(listener);
	if (a.cm)
		host_close(&a);
	host_close(&b);
	event_base_free(base);
	testnet_free(&net);
	json_decref(reply.json);
	memset(&reply, 0, sizeof(reply));
	memset(&a, 0, sizeof(a));
	accepts = mute = goes = false;
	sink = NULL;
	b_ended = 0;
	return controlfix_teardown(state);
}

/* ---- checks */

static void on_reply(void *ctx, uint64_t request, char *text)
{
	(void)ctx;
	reply.num++;
	reply.request = request;
	json_decref(reply.json);
	reply.json = json_loads(text, 0, NULL);
	free(text);
}

/* @return NULL: the answer comes later; else the answer */
static json_t *check(uint64_t number, const char *peer, int port)
{
	const struct clients_asker root = { .request = number, .reply = on_reply };
	char request[160], *text = NULL;
	int len = snprintf(request, sizeof(request),
			   "{\"method\":\"cm.check\",\"params\":{\"peer\":\"%s\",\"port\":%d}}",
			   peer, port);
	int r = control_handle(&fix->control, &root, request, (size_t)len, &text);
	assert_int_equal(r, text ? 0 : -EINPROGRESS);
	json_t *json = text ? json_loads(text, 0, NULL) : NULL;
	free(text);
	return json;
}

/* The answer to a check of b. */
static const json_t *outcome(int port)
{
	assert_null(check(7, "10.77.0.2", port));
	assert_true(rnic_side_wait(base, &reply.num, 1, PATIENCE));
	assert_int_equal(reply.request, 7);
	const json_t *result = json_object_get(reply.json, "result");
	assert_non_null(result);
	return result;
}

static const char *text_at(const json_t *result, const char *key)
{
	const char *text = json_string_value(json_object_get(result, key));
	return text ? text : "";
}

static json_int_t number_at(const json_t *result, const char *key)
{
	return json_integer_value(json_object_get(result, key));
}

static bool count_live(void *arg, const struct cm_conn_view *view)
{
	*(size_t *)arg += view->state != CM_STATE_ENDED;
	return true;
}

static size_t live(void)
{
	size_t num = 0;
	cm_each_conn(a.cm, count_live, &num);
	return num;
}

static void who_accepts_is_connected_and_left(void **state)
{
	(void)state;
	accepts = true;
	const json_t *result = outcome(PORT);
	assert_true(json_is_true(json_object_get(result, "connected")));
	assert_string_equal(text_at(result, "rnic"), "soft:t0");
	assert_string_equal(text_at(result, "local"), "10.77.0.1");
	assert_string_equal(text_at(result, "peer"), "10.77.0.2:5445");
	assert_string_equal(text_at(result, "end"), "disconnected");
	assert_string_equal(text_at(result, "private_data"), "68656c6c6f"); /* "hello" */
	assert_true(number_at(result, "answer_us") > 0);
	assert_non_null(strstr(text_at(result, "text"), "10.77.0.2:5445 accepts RDMA connections"));
	assert_true(rnic_side_wait(base, &b_ended, 1, PATIENCE)); /* the peer hears of the end */
	assert_int_equal(live(), 0);
}

static void who_refuses_says_why(void **state)
{
	(void)state;
	const json_t *result = outcome(PORT);
	assert_true(json_is_false(json_object_get(result, "connected")));
	assert_string_equal(text_at(result, "end"), "refused");
	assert_int_equal(number_at(result, "reject_code"), 28);
	assert_string_equal(text_at(result, "reject_reason"), "consumer");
	assert_string_equal(text_at(result, "private_data"), "6e6f2c207468616e6b73");
	assert_true(number_at(result, "answer_us") > 0);
	assert_int_equal(live(), 0);
}

static void where_nobody_listens(void **state)
{
	(void)state;
	const json_t *result = outcome(PORT + 1);
	assert_string_equal(text_at(result, "end"), "no-listener");
	assert_int_equal(number_at(result, "reject_code"), 8);
	assert_non_null(strstr(text_at(result, "text"),
			       "no RDMA connection to 10.77.0.2:5446 over soft:t0"));
}

/* That is known at once. */
static void where_no_rnic_leads(void **state)
{
	(void)state;
	json_t *json = check(1, "127.0.0.1", PORT);
	const json_t *result = json_object_get(json, "result");
	assert_non_null(result);
	assert_true(json_is_false(json_object_get(result, "connected")));
	assert_true(json_is_null(json_object_get(result, "rnic")));
	assert_true(json_is_null(json_object_get(result, "answer_us")));
	assert_true(*text_at(result, "why"));
	json_decref(json);
}

static void refused_with(json_t *json, const char *code)
{
	assert_string_equal(text_at(json_object_get(json, "error"), "code"), code);
	json_decref(json);
}

/* Four at a time. One whose caller goes makes room, and its connection ends. */
static void few_at_a_time(void **state)
{
	(void)state;
	mute = true;
	for (uint64_t i = 1; i <= 4; i++)
		assert_null(check(i, "10.77.0.2", PORT));
	refused_with(check(5, "10.77.0.2", PORT), "busy");
	refused_with(check(5, "nonsense", PORT), "bad-parameter");
	assert_int_equal(live(), 4);
	control_forget(&fix->control, 2);
	assert_int_equal(live(), 3);
	assert_null(check(6, "10.77.0.2", PORT));
	refused_with(check(5, "10.77.0.2", PORT), "busy");
	control_close(&fix->control);
	assert_int_equal(live(), 0);
	assert_int_equal(reply.num, 0);
}

/* What a check has at an RNIC is gone before the RNIC is closed, and the caller is told. */
static void an_rnic_that_goes_ends_the_check(void **state)
{
	(void)state;
	mute = true;
	assert_null(check(3, "10.77.0.2", PORT));
	cm_remove_rnic(a.cm, a.side.rnic);
	host_close(&a); /* stops the test if a queue pair is left */
	fix->control.cm = a.cm = NULL;
	assert_int_equal(reply.num, 1);
	assert_int_equal(reply.request, 3);
	assert_string_equal(text_at(json_object_get(reply.json, "result"), "end"), "local");
}

/* The peer goes when the connection is made. The outcome comes before smcrctl gives up. */
static void who_does_not_answer_the_end_is_not_waited_for(void **state)
{
	(void)state;
	accepts = goes = true;
	const json_t *result = outcome(PORT);
	assert_true(json_is_true(json_object_get(result, "connected")));
	assert_string_equal(text_at(result, "end"), "timeout");
	assert_true(*text_at(result, "why"));
	assert_int_equal(live(), 0);
}

/* ---- messages */

/* All of a connection's life, in the order in which it happens. */
static void messages_are_traced(void **state)
{
	static const char *const lines[] = {
		"cm: sent to 10.77.0.2, soft:t0: REQ to port 5445, from 10.77.0.1:",
		"cm: received from 10.77.0.2, soft:t0: REP, answers ",
		"cm: sent to 10.77.0.2, soft:t0: RTU\n",
		"cm: sent to 10.77.0.2, soft:t0: DREQ\n",
		"cm: received from 10.77.0.2, soft:t0: DREP\n",
	};
	char text[16384] = "";
	const char *at = text;
	FILE *written = tmpfile();
	const int before = dup(STDERR_FILENO);
	(void)state;
	unsetenv("JOURNAL_STREAM");
	fflush(stderr);
	dup2(fileno(written), STDERR_FILENO);
	log_open(LOG_ERR, false);
	trace_set(IPC_TRACE_BIT(IPC_TRACE_CM));
	accepts = true;
	outcome(PORT);
	trace_set(0);
	log_open(-1, false);
	fflush(stderr);
	dup2(before, STDERR_FILENO);
	close(before);
	rewind(written);
	text[fread(text, 1, sizeof(text) - 1, written)] = '\0';
	fclose(written);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		at = strstr(at, lines[i]);
		if (!at)
			fail_msg("the trace lacks \"%s\" in its place: %s", lines[i], text);
	}
}

/* @return number of messages in the ring, each of which was checked */
static size_t read_ring(struct capture_ring *reader, bool hidden)
{
	static uint8_t record[1000];
	struct ibcm_msg msg;
	size_t num = 0;
	ssize_t len;
	while ((len = capture_ring_get(reader, record, sizeof(record))) > 0) {
		struct capture_mad mad;
		const uint8_t *bytes;
		assert_true(capture_mad_take(record, (size_t)len, &mad, &bytes));
		assert_int_equal(ibcm_decode(bytes, IBCM_MAD_LEN, &msg), 0);
		const bool sent = mad.flags & CAPTURE_SENT;
		const bool has_psn = msg.type == IBCM_REQ || msg.type == IBCM_REP;
		assert_string_equal(mad.name, "soft:t0");
		assert_int_equal(mad.local.gid[15], 1);
		assert_int_equal(mad.peer.gid[15], 2);
		assert_int_equal(mad.local.qpn, IBCM_QPN);
		assert_int_equal(mad.peer_port, 4791);
		assert_int_equal(sent, msg.type == IBCM_REQ || msg.type == IBCM_RTU ||
					       msg.type == IBCM_DREQ);
		assert_int_equal(!!(mad.flags & CAPTURE_HIDDEN), hidden && has_psn);
		if (hidden && msg.type == IBCM_REQ)
			assert_int_equal(msg.req.starting_psn, 0);
		num++;
	}
	return num;
}

/* A capture has all messages with the peers that it wants, unless it is about a link group. */
static void messages_are_captured(void **state)
{
	static const struct {
		uint8_t peer; /* 10.77.0.x; 0: any */
		uint32_t linkgroup;
		bool hidden;
		size_t messages;
	} rows[] = {
		{ 0, 0, false, 5 }, { 2, 0, true, 5 }, { 3, 0, false, 0 }, { 0, 1, false, 0 }
	};
	static uint8_t memory[CAPTURE_MIN_SIZE] __attribute__((aligned(4096)));
	(void)state;
	accepts = true;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct capture_ring reader;
		struct capture_sink to = { .serial = i + 1, .hide_keys = rows[i].hidden };
		memset(memory, 0, sizeof(memory));
		assert_true(capture_ring_init(&to.ring, memory, sizeof(memory)));
		assert_true(capture_ring_init(&reader, memory, sizeof(memory)));
		to.filter.linkgroup = rows[i].linkgroup;
		if (rows[i].peer)
			to.filter.peer = (struct smcr_addr){ .family = AF_INET,
							     .ip = { 10, 77, 0, rows[i].peer } };
		sink = &to;
		reply.num = b_ended = 0;
		outcome(PORT);
		assert_true(rnic_side_wait(base, &b_ended, 1, PATIENCE));
		sink = NULL;
		cm_conn_free(conn_of_b);
		conn_of_b = NULL;
		rnic_side_qp_destroy(&b.side);
		assert_int_equal(read_ring(&reader, rows[i].hidden), rows[i].messages);
	}
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(who_accepts_is_connected_and_left),
		TEST(who_refuses_says_why),
		TEST(where_nobody_listens),
		TEST(where_no_rnic_leads),
		TEST(few_at_a_time),
		TEST(an_rnic_that_goes_ends_the_check),
		TEST(who_does_not_answer_the_end_is_not_waited_for),
		TEST(messages_are_traced),
		TEST(messages_are_captured),
	};
	return cmocka_run_group_tests_name("control_cm_check", tests, NULL, NULL);
}

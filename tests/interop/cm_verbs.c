/* SPDX-License-Identifier: MIT */
/* The connection manager over the kernel's rdma_cm, with rdma_rxe. Runs in the guest "rnic": rxe0
 * on t0. A host connects with itself, so that both sides are this program.
 *
 *   cm_verbs          all tests; the module rdma_ucm is loaded
 *   cm_verbs missing  the module is not loaded
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>

#include "daemon/cm/cm.h"
#include "proto/ibcm/ibcm.h"
#include "tests/lib/rnic_side.h"

#define PATIENCE 20000
#define PORT     5445
#define RETRY_MS 4000

enum manners {
	WAIT,
	ACCEPT,
	REFUSE,
};

/** An end of a connection; both are at the same RNIC. */
struct end {
	struct rnic_side side;
	struct cm_conn *conn;
	enum manners manners;
	size_t requests, connected, ended;
	enum cm_end end;
	uint16_t reject_reason;
	uint8_t private_data[CM_PRIVATE_MAX];
};

static struct event_base *base;
static struct cm *cm;
static struct end active, passive;
static struct cm_listener *listener;

static const struct cm_addr local = { .family = AF_INET, .addr = { 10, 77, 0, 1 } };
static const struct cm_addr to = { .family = AF_INET, .addr = { 10, 77, 0, 1 }, .port = PORT };

static void on_event(void *ctx, struct cm_conn *conn, const struct cm_event *event);

static void accept_it(struct end *end, struct cm_conn *conn)
{
	char error[CM_ERROR_LEN] = "";
	const struct cm_offer offer = { .rnr_retry = 7,
					.private_data = "from passive",
					.private_len = 12 };
	rnic_side_qp(&end->side, 8, 8, 64);
	if (cm_accept(conn, end->side.qp, &offer, RETRY_MS, on_event, end, error))
		fail_msg("%s", error);
}

static void on_event(void *ctx, struct cm_conn *conn, const struct cm_event *event)
{
	struct end *end = ctx;
	memcpy(end->private_data, event->private_data, event->private_len);
	switch (event->type) {
	case CM_REQUEST:
		end->requests++;
		end->conn = conn;
		if (end->manners == ACCEPT)
			accept_it(end, conn);
		if (end->manners == REFUSE) {
			end->conn = NULL;
			cm_reject(conn, "no, thanks", 10);
		}
		break;
	case CM_CONNECTED: end->connected++; break;
	case CM_ENDED:
		end->ended++;
		end->end = event->end;
		end->reject_reason = event->reject_reason;
		break;
	}
}

static int setup(void **state)
{
	(void)state;
	char error[CM_ERROR_LEN];
	base = event_base_new();
	rnic_side_open(&active.side, base, "verbs:rxe0", 4096);
	rnic_side_open(&passive.side, base, "verbs:rxe0", 4096);
	assert_int_equal(cm_new(&(struct cm_params){ .base = base }, &cm), 0);
	if (cm_add_rnic(cm, active.side.rnic, error))
		fail_msg("%s", error);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	cm_free(cm);
	rnic_side_close(&active.side);
	rnic_side_close(&passive.side);
	event_base_free(base);
	return 0;
}

static void end_forget(struct end *end)
{
	cm_conn_free(end->conn);
	rnic_side_qp_destroy(&end->side);
	rnic_side_forget(&end->side);
	*end = (struct end){ .side = end->side };
}

static int clear(void **state)
{
	(void)state;
	end_forget(&active);
	end_forget(&passive);
	cm_listener_free(listener);
	listener = NULL;
	return 0;
}

static void listen_now(void)
{
	char error[CM_ERROR_LEN] = "";
	const struct cm_addr any = { .family = AF_INET, .port = PORT };
	if (cm_listen(cm, &any, on_event, &passive, &listener, error))
		fail_msg("%s", error);
}

static void connect_now(unsigned int timeout_ms)
{
	char error[CM_ERROR_LEN] = "";
	rnic_side_qp(&active.side, 8, 8, 64);
	const struct cm_connect_params params = {
		.rnic = active.side.rnic,
		.local = local,
		.peer = to,
		.qp = active.side.qp,
		.offer = { .rnr_retry = 7, .private_data = "from active", .private_len = 11 },
		.timeout_ms = timeout_ms,
		.retry_ms = RETRY_MS,
		.fn = on_event,
		.ctx = &active
	};
	if (cm_connect(cm, &params, &active.conn, error))
		fail_msg("%s", error);
}

static bool wait_for(const size_t *count, size_t want)
{
	return rnic_side_wait(base, count, want, PATIENCE);
}

static void connect_both(void)
{
	passive.manners = ACCEPT;
	listen_now();
	connect_now(0);
	assert_true(wait_for(&active.connected, 1));
	assert_true(wait_for(&passive.connected, 1));
}

static void talk(struct end *from, struct end *to_end, const char *text)
{
	const size_t before = to_end->side.num_messages;
	assert_int_equal(rnic_side_send(&from->side, text, (uint32_t)strlen(text), before), 0);
	assert_true(wait_for(&to_end->side.num_messages, before + 1));
	assert_memory_equal(to_end->side.messages[before].data, text, strlen(text));
}

static void nobody_listens(void **state)
{
	(void)state;
	connect_now(0);
	assert_true(wait_for(&active.ended, 1));
	assert_int_equal(active.end, CM_END_NO_LISTENER);
	assert_int_equal(active.reject_reason, IBCM_REJ_INVALID_SERVICE_ID);
}

static bool first_connected(void *arg, const struct cm_conn_view *view)
{
	*(struct cm_conn_view *)arg = *view;
	return view->state != CM_STATE_CONNECTED;
}

static void data_flow_both_ways(void **state)
{
	(void)state;
	struct cm_conn_view view;
	connect_both();
	assert_memory_equal(passive.private_data, "from active\0", 12);
	assert_memory_equal(active.private_data, "from passive\0", 13);
	talk(&active, &passive, "one");
	talk(&passive, &active, "two");
	cm_each_conn(cm, first_connected, &view);
	assert_int_equal(view.state, CM_STATE_CONNECTED);
	assert_string_equal(view.rnic, "verbs:rxe0/1");
	assert_true(view.local_qpn != 0 && view.peer_qpn != 0);
	assert_true(view.path_mtu >= 1);
}

static void active_side_disconnects(void **state)
{
	(void)state;
	connect_both();
	cm_disconnect(active.conn);
	assert_true(wait_for(&passive.ended, 1));
	assert_true(wait_for(&active.ended, 1));
	assert_int_equal(active.end, CM_END_DISCONNECTED);
	assert_int_equal(passive.end, CM_END_PEER_DISCONNECTED);
}

static void passive_side_disconnects(void **state)
{
	(void)state;
	connect_both();
	cm_disconnect(passive.conn);
	assert_true(wait_for(&passive.ended, 1));
	assert_true(wait_for(&active.ended, 1));
	assert_int_equal(passive.end, CM_END_DISCONNECTED);
	assert_int_equal(active.end, CM_END_PEER_DISCONNECTED);
}

static void freed_connection_ends(void **state)
{
	(void)state;
	connect_both();
	rnic_side_qp_destroy(&passive.side);
	cm_conn_free(passive.conn);
	passive.conn = NULL;
	assert_true(wait_for(&active.ended, 1));
	assert_int_equal(active.end, CM_END_PEER_DISCONNECTED);
}

static void user_refuses(void **state)
{
	(void)state;
	passive.manners = REFUSE;
	listen_now();
	connect_now(0);
	assert_true(wait_for(&active.ended, 1));
	assert_int_equal(active.end, CM_END_REFUSED);
	assert_int_equal(active.reject_reason, IBCM_REJ_CONSUMER);
	assert_memory_equal(active.private_data, "no, thanks\0", 11);
}

/* The kernel does not tell the passive side that its peer has given up. */
static void nobody_answers(void **state)
{
	(void)state;
	listen_now();
	connect_now(500);
	assert_true(wait_for(&passive.requests, 1));
	assert_true(wait_for(&active.ended, 1));
	assert_int_equal(active.end, CM_END_TIMEOUT);
}

static void listener_goes_before_the_answer(void **state)
{
	(void)state;
	listen_now();
	connect_now(0);
	assert_true(wait_for(&passive.requests, 1));
	cm_listener_free(listener);
	listener = NULL;
	passive.conn = NULL;
	assert_true(wait_for(&active.ended, 1));
	assert_int_equal(active.end, CM_END_REFUSED);
}

/* Another program has the port. */
static void port_is_taken(void **state)
{
	(void)state;
	char error[CM_ERROR_LEN];
	struct rdma_cm_id *id;
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	assert_non_null(channel);
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&sin), 0);
	assert_int_equal(rdma_listen(id, 1), 0);
	assert_int_equal(cm_listen(cm, &to, on_event, &passive, &listener, error), -EADDRINUSE);
	assert_string_equal(error, "rnic verbs:rxe0/1: cannot listen for RDMA connections at "
				   "10.77.0.1:5445: another program listens there");
	assert_null(listener);
	rdma_destroy_id(id);
	rdma_destroy_event_channel(channel);
	listen_now();
}

static void rnic_goes(void **state)
{
	(void)state;
	char error[CM_ERROR_LEN];
	connect_both();
	cm_remove_rnic(cm, active.side.rnic);
	assert_true(wait_for(&active.ended, 1));
	assert_true(wait_for(&passive.ended, 1));
	assert_int_equal(active.end, CM_END_LOCAL);
	assert_int_equal(cm_add_rnic(cm, active.side.rnic, error), 0);
	cm_conn_free(active.conn);
	cm_conn_free(passive.conn);
	rnic_side_qp_destroy(&active.side);
	rnic_side_qp_destroy(&passive.side);
	connect_now(0);
	assert_true(wait_for(&active.connected, 2));
}

static void finds_a_way(void **state)
{
	(void)state;
	char error[CM_ERROR_LEN] = "";
	struct rnic *rnic;
	struct cm_addr own;
	if (cm_resolve(cm, &to, &rnic, &own, error))
		fail_msg("%s", error);
	assert_ptr_equal(rnic, active.side.rnic);
	assert_memory_equal(own.addr, local.addr, 4);
}

static void module_is_missing(void **state)
{
	(void)state;
	char error[CM_ERROR_LEN];
	struct cm *without;
	base = event_base_new();
	rnic_side_open(&active.side, base, "verbs:rxe0", 4096);
	assert_int_equal(cm_new(&(struct cm_params){ .base = base }, &without), 0);
	assert_int_equal(cm_add_rnic(without, active.side.rnic, error), -ENOENT);
	assert_string_equal(error, "rnic verbs:rxe0/1: no RDMA connections by IP address: the "
				   "kernel has no /dev/infiniband/rdma_cm; load its module "
				   "(modprobe rdma_ucm)");
	cm_free(without);
	rnic_side_close(&active.side);
	event_base_free(base);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, clear, clear)

int main(int argc, char **argv)
{
	const struct CMUnitTest missing[] = { cmocka_unit_test(module_is_missing) };
	const struct CMUnitTest tests[] = {
		TEST(nobody_listens),
		TEST(data_flow_both_ways),
		TEST(active_side_disconnects),
		TEST(passive_side_disconnects),
		TEST(freed_connection_ends),
		TEST(user_refuses),
		TEST(nobody_answers),
		TEST(listener_goes_before_the_answer),
		TEST(port_is_taken),
		TEST(rnic_goes),
		TEST(finds_a_way),
	};
	if (argc > 1 && !strcmp(argv[1], "missing"))
		return cmocka_run_group_tests(missing, NULL, NULL);
	return cmocka_run_group_tests(tests, setup, teardown);
}

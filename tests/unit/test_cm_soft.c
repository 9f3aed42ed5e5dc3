/* SPDX-License-Identifier: MIT */
/* The connection manager over software RNICs: two hosts in namespaces, and a scripted peer. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/cm/internal.h"
#include "daemon/rnic/soft/internal.h"
#include "proto/ibcm/ip.h"
#include "tests/lib/proves.h"
#include "tests/lib/rnic_side.h"
#include "tests/lib/roce_peer.h"
#include "tests/lib/testnet.h"
#include "tests/lib/tries.h"

#define PATIENCE 30000 /* milliseconds: of a busy machine */
#define PORT     5445
#define RETRY_MS 4000

/** What a side does with a request. */
enum manners {
	WAIT,
	ACCEPT,
	REFUSE,
};

/** A host with a connection manager, and what that has told. */
struct host {
	struct rnic_side side;
	struct cm *cm;
	struct cm_listener *listener;
	struct cm_conn *conn;
	enum manners manners;
	bool deny;   /* may_use says no */
	bool breaks; /* leave the event loop when a connection is there, before the user hears */
	size_t work; /* how often it began */
	size_t requests, connected, ended, told_refused;
	enum cm_end end;
	uint16_t reject_reason;
	uint8_t private_data[CM_PRIVATE_MAX];
	size_t private_len;
	/** An attribute id: such messages do not come here. */
	uint16_t deaf_to;
	size_t unheard;
	rnic_gsi_fn *gsi;
	void *gsi_ctx;
};

static struct testnet net;
static struct event_base *base;
static struct host a, b;
static struct roce_peer stranger;

static const struct cm_addr addr_a = { .family = AF_INET, .addr = { 10, 77, 0, 1 } };
static const struct cm_addr addr_b = { .family = AF_INET, .addr = { 10, 77, 0, 2 }, .port = PORT };
static const uint8_t gid_stranger[16] = { [10] = 0xFF, 0xFF, 10, 77, 0, 3 };

/* ---- hosts */

static void accept_it(struct host *host, struct cm_conn *conn);

static void on_event(void *ctx, struct cm_conn *conn, const struct cm_event *event)
{
	struct host *host = ctx;
	memcpy(host->private_data, event->private_data, event->private_len);
	host->private_len = event->private_len;
	switch (event->type) {
	case CM_REQUEST:
		host->requests++;
		host->conn = conn;
		if (host->manners == ACCEPT)
			accept_it(host, conn);
		if (host->manners == REFUSE) {
			host->conn = NULL;
			cm_reject(conn, "no, thanks", 10);
		}
		break;
	case CM_CONNECTED: host->connected++; break;
	case CM_ENDED:
		host->ended++;
		host->end = event->end;
		host->reject_reason = event->reject_reason;
		assert_true(*event->text);
		break;
	}
}

static bool may_use(void *ctx, struct rnic *rnic, const struct cm_addr *local,
		    const struct cm_addr *peer)
{
	const struct host *host = ctx;
	assert_ptr_equal(rnic, host->side.rnic);
	assert_int_equal(local->family, AF_INET);
	assert_int_equal(peer->family, AF_INET);
	return !host->deny;
}

static void told(void *ctx, const struct cm_told *what)
{
	struct host *host = ctx;
	host->told_refused += what->what == CM_TOLD_REFUSED;
	if (host->breaks && what->what == CM_TOLD_CONNECTED)
		event_base_loopbreak(base);
}

static void at_work(void *ctx, uint64_t now)
{
	struct host *host = ctx;
	assert_true(now > 0);
	host->work++;
}

/* Stands before the connection manager, and loses what the host is deaf to. */
static void filter(void *ctx, const struct rnic_gsi_datagram *datagram)
{
	struct host *host = ctx;
	const uint16_t type = (uint16_t)(datagram->data[16] << 8 | datagram->data[17]);
	if (host->deaf_to == type)
		host->unheard++;
	else
		host->gsi(host->gsi_ctx, datagram);
}

static void host_add(struct host *host)
{
	char error[CM_ERROR_LEN];
	struct soft_gsi *gsi = &soft_device_of(host->side.rnic)->gsi;
	assert_int_equal(cm_add_rnic(host->cm, host->side.rnic, error), 0);
	host->gsi = gsi->fn;
	host->gsi_ctx = gsi->ctx;
	rnic_soft_set_gsi(host->side.rnic, filter, host);
}

static void host_open(struct host *host, int ns, const char *name)
{
	const struct cm_params params = {
		.base = base, .may_use = may_use, .told = told, .at_work = at_work, .ctx = host
	};
	testnet_enter(&net, ns);
	rnic_side_open(&host->side, base, name, 4096);
	assert_int_equal(cm_new(&params, &host->cm), 0);
	host_add(host);
}

static void host_close(struct host *host)
{
	cm_free(host->cm);
	rnic_side_close(&host->side);
}

static void listen_at(struct host *host, const struct cm_addr *addr)
{
	char error[CM_ERROR_LEN];
	assert_int_equal(cm_listen(host->cm, addr, on_event, host, &host->listener, error), 0);
}

static int setup(void **state)
{
	(void)state;
	testnet_new(&net, 1500);
	base = event_base_new();
	host_open(&a, 0, "soft:t0");
	host_open(&b, 1, "soft:t1");
	/* The RNIC is not told of this address. */
	testnet_addr_add("t1", "10.77.0.3/24");
	roce_peer_open(&stranger, base, "10.77.0.3", "10.77.0.1", ROCE_UDP_PORT);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	roce_peer_close(&stranger);
	host_close(&a);
	host_close(&b);
	event_base_free(base);
	testnet_free(&net);
	return 0;
}

static void forget(struct host *host)
{
	cm_conn_free(host->conn);
	cm_listener_free(host->listener);
	rnic_side_qp_destroy(&host->side);
	rnic_side_forget(&host->side);
	host->conn = NULL;
	host->listener = NULL;
	host->manners = WAIT;
	host->deny = host->breaks = false;
	host->deaf_to = 0;
	host->work = host->requests = host->connected = host->ended = host->told_refused =
		host->unheard = 0;
	host->end = CM_END_NONE;
	host->reject_reason = 0;
	host->private_len = 0;
}

static int begin(void **state)
{
	(void)state;
	forget(&a);
	forget(&b);
	return 0;
}

static int end(void **state)
{
	return begin(state);
}

/* ---- connections */

static const struct cm_offer friendly = { .rnr_retry = 7,
					  .private_data = "hello from a",
					  .private_len = 12 };

static void connect_to(struct host *host, const struct cm_addr *peer, const struct cm_addr *local,
		       unsigned int timeout_ms)
{
	char error[CM_ERROR_LEN] = "";
	rnic_side_qp(&host->side, 8, 8, 64);
	const struct cm_connect_params params = { .rnic = host->side.rnic,
						  .local = *local,
						  .peer = *peer,
						  .qp = host->side.qp,
						  .offer = friendly,
						  .timeout_ms = timeout_ms,
						  .retry_ms = RETRY_MS,
						  .fn = on_event,
						  .ctx = host };
	if (cm_connect(host->cm, &params, &host->conn, error))
		fail_msg("%s", error);
}

static void accept_it(struct host *host, struct cm_conn *conn)
{
	char error[CM_ERROR_LEN] = "";
	const struct cm_offer offer = { .rnr_retry = 7,
					.private_data = "hello from b",
					.private_len = 12 };
	rnic_side_qp(&host->side, 8, 8, 64);
	if (cm_accept(conn, host->side.qp, &offer, RETRY_MS, on_event, host, error))
		fail_msg("%s", error);
}

static bool wait_for(const size_t *count, size_t want)
{
	return rnic_side_wait(base, count, want, PATIENCE);
}

/* a has asked, and both are connected. */
static void connect_both(void)
{
	b.manners = ACCEPT;
	listen_at(&b, &addr_b);
	connect_to(&a, &addr_b, &addr_a, 0);
	assert_true(wait_for(&a.connected, 1));
	assert_true(wait_for(&b.connected, 1));
}

static void talk(struct host *from, struct host *to, const char *text)
{
	const size_t before = to->side.num_messages;
	assert_int_equal(rnic_side_send(&from->side, text, (uint32_t)strlen(text), before), 0);
	assert_true(wait_for(&to->side.num_messages, before + 1));
	assert_int_equal(to->side.messages[before].length, strlen(text));
	assert_memory_equal(to->side.messages[before].data, text, strlen(text));
}

struct found {
	size_t num;
	struct cm_conn_view views[CM_HISTORY + 8];
};

static bool find(void *arg, const struct cm_conn_view *view)
{
	struct found *found = arg;
	assert_true(found->num < CM_HISTORY + 8);
	found->views[found->num++] = *view;
	return true;
}

/* ---- tests */

static void nobody_listens(void **state)
{
	(void)state;
	struct cm_stats stats;
	connect_to(&a, &addr_b, &addr_a, 0);
	assert_true(wait_for(&a.ended, 1));
	assert_int_equal(a.end, CM_END_NO_LISTENER);
	assert_int_equal(a.reject_reason, IBCM_REJ_INVALID_SERVICE_ID);
	assert_int_equal(a.connected, 0);
	assert_int_equal(b.told_refused, 1);
	assert_int_equal(b.work, 1); /* the datagram */
	assert_int_equal(a.work, 3); /* the datagram, the machine's timer, the event */
	cm_get_stats(b.cm, &stats);
	assert_true(stats.refused >= 1);
	assert_true(stats.received[IBCM_REQ - IBCM_REQ] >= 1);
	PROVES("CM-8");
}

static void data_flow_both_ways(void **state)
{
	(void)state;
	struct found found = { 0 };
	struct cm_addr local, peer;
	connect_both();
	/* Of the active side: with what came with the acceptance. */
	assert_int_equal(a.private_len, IBCM_REP_PRIVATE_LEN);
	assert_memory_equal(a.private_data, "hello from b\0", 13);
	talk(&a, &b, "one");
	talk(&b, &a, "two");
	talk(&a, &b, "three");
	cm_conn_addrs(b.conn, &local, &peer);
	assert_int_equal(local.port, PORT);
	assert_memory_equal(peer.addr, addr_a.addr, 4);
	assert_true(peer.port != 0);
	assert_ptr_equal(cm_conn_rnic(b.conn), b.side.rnic);
	cm_each_conn(b.cm, find, &found);
	assert_true(found.num >= 1);
	assert_int_equal(found.views[0].state, CM_STATE_CONNECTED);
	assert_string_equal(found.views[0].rnic, "soft:t1");
	assert_false(found.views[0].active);
	assert_int_equal(found.views[0].local_qpn, rnic_qp_num(b.side.qp));
	assert_int_equal(found.views[0].peer_qpn, rnic_qp_num(a.side.qp));
	assert_int_equal(found.views[0].path_mtu, 3);
	assert_memory_equal(found.views[0].private_data, "hello from a\0", 13);
	PROVES("CM-6 CM-12 CM-16");
}

static void active_side_disconnects(void **state)
{
	(void)state;
	connect_both();
	cm_disconnect(a.conn);
	cm_disconnect(a.conn);              /* changes nothing */
	assert_int_equal(a.ended, 0);       /* from the event loop only */
	assert_true(wait_for(&b.ended, 1)); /* the DREQ */
	assert_true(wait_for(&a.ended, 1)); /* the DREP */
	assert_int_equal(a.end, CM_END_DISCONNECTED);
	assert_int_equal(b.end, CM_END_PEER_DISCONNECTED);
	/* The queue pairs of both are in ERR. */
	assert_true(wait_for(&a.side.recv_errors, 1));
	assert_true(wait_for(&b.side.recv_errors, 1));
	assert_int_equal(rnic_side_send(&a.side, "x", 1, 0), -EIO);
}

static void passive_side_disconnects(void **state)
{
	(void)state;
	connect_both();
	cm_disconnect(b.conn);
	assert_true(wait_for(&a.ended, 1));
	assert_true(wait_for(&b.ended, 1));
	assert_int_equal(b.end, CM_END_DISCONNECTED);
	assert_int_equal(a.end, CM_END_PEER_DISCONNECTED);
}

/* The connection is there, but its user has not heard of it when he ends it. */
static void user_disconnects_before_he_hears(void **state)
{
	(void)state;
	struct found found = { 0 };
	b.manners = ACCEPT;
	listen_at(&b, &addr_b);
	a.breaks = true;
	connect_to(&a, &addr_b, &addr_a, 0);
	do {
		event_base_loop(base, EVLOOP_ONCE);
		found.num = 0;
		cm_each_conn(a.cm, find, &found);
	} while (found.views[0].state != CM_STATE_CONNECTED);
	assert_int_equal(a.connected, 0);
	cm_disconnect(a.conn);
	assert_true(wait_for(&a.ended, 1));
	assert_int_equal(a.end, CM_END_DISCONNECTED);
	assert_int_equal(a.connected, 0);
	assert_true(wait_for(&b.ended, 1));
}

static void both_disconnect(void **state)
{
	(void)state;
	connect_both();
	cm_disconnect(a.conn);
	cm_disconnect(b.conn);
	assert_true(wait_for(&a.ended, 1));
	assert_true(wait_for(&b.ended, 1));
	assert_int_equal(a.ended + b.ended, 2);
	PROVES("CM-25");
}

/* A user that forgets its connection does not leave the peer alone. */
static void freed_connection_ends(void **state)
{
	(void)state;
	connect_both();
	rnic_side_qp_destroy(&b.side);
	cm_conn_free(b.conn);
	b.conn = NULL;
	assert_true(wait_for(&a.ended, 1));
	assert_int_equal(a.end, CM_END_PEER_DISCONNECTED);
	assert_int_equal(b.ended, 0);
}

static void user_refuses(void **state)
{
	(void)state;
	struct found found = { 0 };
	b.manners = REFUSE;
	listen_at(&b, &addr_b);
	connect_to(&a, &addr_b, &addr_a, 0);
	assert_true(wait_for(&a.ended, 1));
	assert_int_equal(a.end, CM_END_REFUSED);
	assert_int_equal(a.reject_reason, IBCM_REJ_CONSUMER);
	assert_int_equal(a.private_len, IBCM_REJ_PRIVATE_LEN);
	assert_memory_equal(a.private_data, "no, thanks\0", 11);
	/* What came with the request is kept for operators. */
	cm_each_conn(b.cm, find, &found);
	assert_true(found.num >= 1);
	assert_int_equal(found.views[0].state, CM_STATE_ENDED);
	assert_int_equal(found.views[0].end, CM_END_REJECTED);
	assert_memory_equal(found.views[0].private_data, "hello from a\0", 13);
	PROVES("CM-32");
}

static void note_listener(void *arg, const struct cm_listener_view *view)
{
	*(struct cm_listener_view *)arg = *view;
}

static void listener_goes_before_the_answer(void **state)
{
	(void)state;
	struct cm_listener_view view = { 0 };
	listen_at(&b, &addr_b);
	connect_to(&a, &addr_b, &addr_a, 0);
	assert_true(wait_for(&b.requests, 1));
	cm_each_listener(b.cm, note_listener, &view);
	assert_int_equal(view.requests, 1);
	assert_int_equal(view.waiting, 1);
	cm_listener_free(b.listener);
	b.listener = NULL;
	b.conn = NULL; /* is freed */
	assert_true(wait_for(&a.ended, 1));
	assert_int_equal(a.end, CM_END_REFUSED);
}

/* The peer gives up before the user has answered. */
static void asker_goes_before_the_answer(void **state)
{
	(void)state;
	char error[CM_ERROR_LEN];
	const struct cm_offer offer = { .rnr_retry = 7 };
	listen_at(&b, &addr_b);
	connect_to(&a, &addr_b, &addr_a, 0);
	assert_true(wait_for(&b.requests, 1));
	rnic_side_qp_destroy(&a.side);
	cm_conn_free(a.conn);
	a.conn = NULL;
	assert_true(wait_for(&b.ended, 1));
	rnic_side_qp(&b.side, 8, 8, 64);
	assert_int_equal(cm_accept(b.conn, b.side.qp, &offer, RETRY_MS, on_event, &b, error),
			 -ENOTCONN);
}

/* The RTU is lost: data count. */
static void data_come_before_the_rtu(void **state)
{
	(void)state;
	b.manners = ACCEPT;
	b.deaf_to = IBCM_RTU;
	listen_at(&b, &addr_b);
	connect_to(&a, &addr_b, &addr_a, 0);
	assert_true(wait_for(&a.connected, 1));
	assert_int_equal(rnic_side_send(&a.side, "early", 5, 0), 0);
	assert_true(wait_for(&b.side.num_messages, 1));
	assert_int_equal(b.connected, 0);
	cm_conn_heard(b.conn);
	assert_int_equal(b.connected, 0); /* from the event loop only */
	assert_true(wait_for(&b.connected, 1));
	talk(&b, &a, "late");
	assert_true(b.unheard >= 1);
	PROVES("CM-17");
}

/* The first RTU is lost: the repeated REP gets one more. */
static void rtu_comes_again(void **state)
{
	(void)state;
	b.manners = ACCEPT;
	b.deaf_to = IBCM_RTU;
	listen_at(&b, &addr_b);
	connect_to(&a, &addr_b, &addr_a, 0);
	assert_true(wait_for(&b.unheard, 1));
	b.deaf_to = 0;
	assert_true(wait_for(&b.connected, 1));
	talk(&b, &a, "it works");
	PROVES("CM-19");
}

static void rnic_goes(void **state)
{
	(void)state;
	connect_both();
	cm_remove_rnic(b.cm, b.side.rnic);
	assert_null(cm_conn_rnic(b.conn));
	assert_int_equal(b.ended, 1); /* at once: the queue pair has to go before the RNIC */
	assert_int_equal(b.end, CM_END_LOCAL);
	assert_true(wait_for(&a.ended, 1));
	assert_int_equal(a.end, CM_END_PEER_DISCONNECTED);
	cm_disconnect(b.conn);
	cm_conn_free(b.conn);
	b.conn = NULL;
	assert_false(cm_has_rnic(b.cm, b.side.rnic));
	host_add(&b);
	assert_true(cm_has_rnic(b.cm, b.side.rnic));
	/* The listener is at the RNIC again. */
	cm_conn_free(a.conn);
	rnic_side_qp_destroy(&a.side);
	rnic_side_qp_destroy(&b.side);
	connect_to(&a, &addr_b, &addr_a, 0);
	assert_true(wait_for(&a.connected, 2));
}

static void peer_is_silent(void **state)
{
	(void)state;
	b.deaf_to = IBCM_REQ;
	connect_to(&a, &addr_b, &addr_a, 200);
	assert_true(wait_for(&a.ended, 1));
	assert_int_equal(a.end, CM_END_TIMEOUT);
	assert_true(b.unheard >= 1);
}

static void rules_deny(void **state)
{
	(void)state;
	char error[CM_ERROR_LEN];
	struct cm_addr local;
	struct rnic *rnic;
	listen_at(&b, &addr_b);
	b.deny = true;
	connect_to(&a, &addr_b, &addr_a, 0);
	assert_true(wait_for(&a.ended, 1));
	assert_int_equal(b.requests, 0);
	assert_int_equal(b.told_refused, 1);
	a.deny = true;
	const struct cm_connect_params params = { .rnic = a.side.rnic,
						  .local = addr_a,
						  .peer = addr_b,
						  .qp = a.side.qp,
						  .fn = on_event };
	assert_int_equal(cm_connect(a.cm, &params, &a.conn, error), -EACCES);
	testnet_enter(&net, 0);
	assert_int_equal(cm_resolve(a.cm, &addr_b, &rnic, &local, error), -EACCES);
	testnet_enter(&net, 1);
	a.deny = false;
}

static void too_much_is_refused(void **state)
{
	(void)state;
	char error[CM_ERROR_LEN];
	struct cm_connect_params params = { .rnic = a.side.rnic,
					    .local = addr_a,
					    .peer = addr_b,
					    .offer = { .private_data = "x",
						       .private_len = CM_REQUEST_PRIVATE_MAX + 1 },
					    .fn = on_event };
	rnic_side_qp(&a.side, 8, 8, 64);
	params.qp = a.side.qp;
	assert_int_equal(cm_connect(a.cm, &params, &a.conn, error), -EINVAL);
	assert_string_equal(error, "57 bytes of private data, of 56 that fit");
	params.offer = (struct cm_offer){ .rnr_retry = 8 };
	assert_int_equal(cm_connect(a.cm, &params, &a.conn, error), -EINVAL);
	assert_string_equal(error, "8 RNR retries, of 7 that there are");
	params.offer = (struct cm_offer){ 0 };
	params.local = addr_b;
	assert_int_equal(cm_connect(a.cm, &params, &a.conn, error), -EADDRNOTAVAIL);
	params.local = addr_a;
	params.rnic = b.side.rnic;
	assert_int_equal(cm_connect(a.cm, &params, &a.conn, error), -ENODEV);
	assert_null(a.conn);
}

static void listeners(void **state)
{
	(void)state;
	char error[CM_ERROR_LEN];
	struct cm_listener *other = NULL;
	const struct cm_addr any = { .family = AF_INET, .port = PORT };
	struct cm_addr wrong = any;
	wrong.port = 0;
	assert_int_equal(cm_listen(b.cm, &wrong, on_event, &b, &other, error), -EINVAL);
	listen_at(&b, &any);
	assert_int_equal(cm_listen(b.cm, &any, on_event, &b, &other, error), -EADDRINUSE);
	assert_string_equal(error, "cannot listen for RDMA connections at 0.0.0.0:5445: smcrd "
				   "listens there already");
	/* One of an address has what comes to it. */
	assert_int_equal(cm_listen(b.cm, &addr_b, on_event, &a, &other, error), 0);
	connect_to(&a, &addr_b, &addr_a, 0);
	struct cm_conn *own = a.conn;
	assert_true(wait_for(&a.requests, 1));
	assert_int_equal(b.requests, 0);
	cm_conn_free(a.conn); /* refuses */
	a.conn = own;
	assert_true(wait_for(&a.ended, 1));
	cm_listener_free(other);
	cm_conn_free(a.conn);
	rnic_side_qp_destroy(&a.side);
	connect_to(&a, &addr_b, &addr_a, 0);
	assert_true(wait_for(&b.requests, 1));
}

static void finds_a_way(void **state)
{
	(void)state;
	char error[CM_ERROR_LEN] = "";
	struct cm_addr local;
	struct rnic *rnic;
	const struct cm_addr far = { .family = AF_INET, .addr = { 192, 0, 2, 1 } };
	const struct cm_addr loopback = { .family = AF_INET, .addr = { 127, 0, 0, 1 } };
	const struct cm_addr ipv6 = { .family = AF_INET6, .addr = { 0x20, 1, 0xD, 0xB8 } };
	const struct cm_addr none = { .family = AF_UNIX };
	testnet_enter(&net, 0);
	if (cm_resolve(a.cm, &addr_b, &rnic, &local, error))
		fail_msg("%s", error);
	assert_ptr_equal(rnic, a.side.rnic);
	assert_int_equal(local.family, AF_INET);
	assert_memory_equal(local.addr, addr_a.addr, 16);
	assert_int_equal(local.port, 0);
	/* This host itself. */
	assert_int_equal(cm_resolve(a.cm, &addr_a, &rnic, &local, error), 0);
	assert_memory_equal(local.addr, addr_a.addr, 16);
	assert_int_equal(cm_resolve(a.cm, &far, &rnic, &local, error), -ENETUNREACH);
	assert_string_equal(error, "no way to 192.0.2.1:0 for RDMA: the host has no route");
	assert_int_equal(cm_resolve(a.cm, &ipv6, &rnic, &local, error), -ENETUNREACH);
	assert_int_equal(cm_resolve(a.cm, &loopback, &rnic, &local, error), -ENETUNREACH);
	assert_int_equal(cm_resolve(a.cm, &none, &rnic, &local, error), -EAFNOSUPPORT);
	testnet_enter(&net, 1);
}

static void connects_with_itself(void **state)
{
	(void)state;
	const struct cm_addr to = { .family = AF_INET, .addr = { 10, 77, 0, 1 }, .port = PORT };
	struct cm_conn *own;
	listen_at(&a, &to);
	connect_to(&a, &to, &addr_a, 0);
	own = a.conn;
	assert_true(wait_for(&a.requests, 1));
	cm_reject(a.conn, NULL, 0);
	a.conn = own;
	assert_true(wait_for(&a.ended, 1));
	assert_int_equal(a.end, CM_END_REFUSED);
}

/* ---- a scripted peer */

static void send_mad(const uint8_t mad[IBCM_MAD_LEN], uint32_t qkey, uint16_t pkey)
{
	const struct roce_peer_packet packet = { .opcode = ROCE_UD_SEND_ONLY,
						 .qpn = IBCM_QPN,
						 .pkey = pkey,
						 .deth = { .qkey = qkey, .src_qp = IBCM_QPN },
						 .payload = mad,
						 .len = IBCM_MAD_LEN };
	roce_peer_send(&stranger, &packet);
}

/* A request of the stranger to a. */
static void build_req(uint32_t number, uint8_t mad[IBCM_MAD_LEN])
{
	static const uint8_t gid_a[16] = { [10] = 0xFF, 0xFF, 10, 77, 0, 1 };
	struct ibcm_msg msg = { .type = IBCM_REQ,
				.transaction_id = number,
				.local_id = number,
				.req = { .service_id = IBCM_SERVICE_TCP + PORT,
					 .qpn = 0x100 + number,
					 .remote_timeout = 20,
					 .starting_psn = 7,
					 .local_timeout = 20,
					 .retry_count = 7,
					 .pkey = ROCE_PKEY_DEFAULT,
					 .path_mtu = 3,
					 .rnr_retry = 7,
					 .max_cm_retries = 15 } };
	const struct ibcm_ip ip = { .version = 4,
				    .source_port = 40000,
				    .source = { 10, 77, 0, 3 },
				    .destination = { 10, 77, 0, 1 } };
	memcpy(msg.req.primary.local_gid, gid_stranger, 16);
	memcpy(msg.req.primary.remote_gid, gid_a, 16);
	assert_int_equal(ibcm_ip_encode(&ip, msg.private_data), 0);
	assert_int_equal(ibcm_encode(&msg, mad), 0);
}

static struct ibcm_msg next_answer(void)
{
	struct roce_packet packet;
	struct ibcm_msg msg;
	assert_true(roce_peer_receive(&stranger, &packet, PATIENCE));
	assert_int_equal(ibcm_decode(packet.payload, packet.payload_len, &msg), 0);
	return msg;
}

static void wrong_keys_get_no_answer(void **state)
{
	(void)state;
	uint8_t mad[IBCM_MAD_LEN];
	build_req(1, mad);
	send_mad(mad, IBCM_QKEY ^ 1, 0);
	build_req(2, mad);
	send_mad(mad, IBCM_QKEY, 0x1234);
	build_req(3, mad);
	send_mad(mad, IBCM_QKEY, 0x7FFF);
	/* The first answer is to the third. */
	const struct ibcm_msg answer = next_answer();
	assert_int_equal(answer.type, IBCM_REJ);
	assert_int_equal(answer.remote_id, 3);
	assert_int_equal(answer.rej.reason, IBCM_REJ_INVALID_SERVICE_ID);
	PROVES("CM-2");
}

static void nonsense_gets_no_answer(void **state)
{
	(void)state;
	uint8_t mad[IBCM_MAD_LEN];
	struct cm_stats before, after;
	cm_get_stats(a.cm, &before);
	for (size_t at = 0; at < 24; at++) {
		build_req(10, mad);
		mad[at] ^= 0x40;
		/* Of the header only these are looked at; an attribute id is in 16 and 17. */
		if (at >= 6 && at != 16 && at != 17)
			continue;
		send_mad(mad, IBCM_QKEY, 0);
	}
	rnic_side_pattern(mad, sizeof(mad), 77);
	send_mad(mad, IBCM_QKEY, 0);
	build_req(11, mad);
	send_mad(mad, IBCM_QKEY, 0);
	const struct ibcm_msg answer = next_answer();
	assert_int_equal(answer.remote_id, 11);
	cm_get_stats(a.cm, &after);
	assert_true(after.dropped - before.dropped >= 7);
}

struct tapped {
	size_t sent, received;
	uint16_t type;
};

static void tap(void *ctx, const struct cm_message *message)
{
	struct tapped *tapped = ctx;
	assert_ptr_equal(message->rnic, a.side.rnic);
	assert_memory_equal(message->peer_gid, gid_stranger, 16);
	assert_int_equal(message->peer_port, ROCE_UDP_PORT);
	tapped->sent += message->sent;
	tapped->received += !message->sent;
	tapped->type = (uint16_t)(message->mad[16] << 8 | message->mad[17]);
}

static void tap_sees_messages(void **state)
{
	(void)state;
	struct tapped tapped = { 0 };
	uint8_t mad[IBCM_MAD_LEN];
	cm_set_tap(a.cm, tap, &tapped);
	build_req(20, mad);
	send_mad(mad, IBCM_QKEY, 0);
	(void)next_answer();
	assert_int_equal(tapped.received, 1);
	assert_int_equal(tapped.sent, 1);
	assert_int_equal(tapped.type, IBCM_REJ);
	cm_set_tap(a.cm, NULL, NULL);
	build_req(21, mad);
	send_mad(mad, IBCM_QKEY, 0);
	(void)next_answer();
	assert_int_equal(tapped.received, 1);
}

static bool count_asked(void *arg, const struct cm_conn_view *view)
{
	*(size_t *)arg += view->state == CM_STATE_ASKED;
	return true;
}

/* A stranger asks for many connections, which nobody answers. He gets his share, and b is served.
 */
static void flood_leaves_room_for_others(void **state)
{
	(void)state;
	const struct cm_addr to = { .family = AF_INET, .addr = { 10, 77, 0, 1 }, .port = PORT };
	struct cm_addr from = addr_b;
	struct cm_stats before, after;
	struct roce_packet packet;
	uint8_t mad[IBCM_MAD_LEN];
	size_t asked = 0;
	cm_get_stats(a.cm, &before);
	listen_at(&a, &to);
	for (uint32_t number = 100; number < 400; number++) {
		build_req(number, mad);
		send_mad(mad, IBCM_QKEY, 0);
		rnic_side_idle(base, 0);
	}
	do
		cm_get_stats(a.cm, &after);
	while (after.limited == before.limited && roce_peer_receive(&stranger, &packet, PATIENCE));
	assert_true(after.limited > before.limited);
	cm_each_conn(a.cm, count_asked, &asked);
	assert_int_equal(asked, 64);
	/* b is served. */
	from.port = 0;
	const size_t requests = a.requests;
	a.manners = ACCEPT;
	connect_to(&b, &to, &from, 0);
	assert_true(wait_for(&b.connected, 1));
	assert_int_equal(a.requests, requests + 1);
	talk(&b, &a, "still here");
	while (roce_peer_receive(&stranger, &packet, 1))
		;
	PROVES("CM-29");
}

/* Requests that take all of the room for requests leave room for own connections. */
static void requests_leave_room_for_own(void **state)
{
	(void)state;
	const struct cm_limits limits = a.cm->params.limits;
	uint8_t mad[IBCM_MAD_LEN];
	struct cm_stats before, after;
	const struct cm_addr to = { .family = AF_INET, .addr = { 10, 77, 0, 1 }, .port = PORT };
	struct roce_packet packet;
	while (roce_peer_receive(&stranger, &packet, 1)) /* answers of tests before */
		;
	a.cm->params.limits.conns = 2;
	listen_at(&a, &to);
	cm_get_stats(a.cm, &before);
	for (uint32_t number = 500; number < 503; number++) {
		build_req(number, mad);
		send_mad(mad, IBCM_QKEY, 0);
	}
	assert_int_equal(next_answer().remote_id, 502); /* the third one is refused */
	cm_get_stats(a.cm, &after);
	assert_int_equal(a.requests, 2);
	assert_int_equal(after.limited - before.limited, 1);
	connect_to(&a, &addr_b, &addr_a, 0);
	assert_true(wait_for(&a.ended, 1));
	assert_int_equal(a.end, CM_END_NO_LISTENER);
	a.cm->params.limits = limits;
}

static void free_all(void *ctx, struct cm_conn *conn, const struct cm_event *event)
{
	struct host *host = ctx;
	on_event(ctx, conn, event);
	if (event->type != CM_ENDED)
		return;
	rnic_side_qp_destroy(&host->side);
	cm_conn_free(conn);
}

/* One connection is up, and one waits for its user, who hears of both at once, and destroys the
 * queue pair before the RNIC is closed. */
static void rnic_goes_with_everything(void **state)
{
	(void)state;
	char error[CM_ERROR_LEN];
	uint8_t mad[IBCM_MAD_LEN];
	const struct cm_offer offer = { .rnr_retry = 7 };
	const struct cm_addr to = { .family = AF_INET, .addr = { 10, 77, 0, 1 }, .port = PORT };
	struct cm_addr from = addr_b;
	from.port = 0;
	listen_at(&a, &to);
	connect_to(&b, &to, &from, 0);
	assert_true(wait_for(&a.requests, 1));
	rnic_side_qp(&a.side, 8, 8, 64);
	assert_int_equal(cm_accept(a.conn, a.side.qp, &offer, RETRY_MS, free_all, &a, error), 0);
	assert_true(wait_for(&a.connected, 1));
	build_req(30, mad);
	send_mad(mad, IBCM_QKEY, 0);
	assert_true(wait_for(&a.requests, 2));
	cm_remove_rnic(a.cm, a.side.rnic);
	assert_int_equal(a.ended, 2);
	assert_null(a.side.qp);
	rnic_side_close(&a.side); /* it has no queue pair */
	assert_true(wait_for(&b.ended, 1));
	testnet_enter(&net, 0);
	rnic_side_open(&a.side, base, "soft:t0", 4096);
	testnet_enter(&net, 1);
	host_add(&a);
}

/* Connections that nobody took, of a peer that is not there any more, make room for newer ones. A
 * peer whose connections come to nothing one after the other does not have what is kept for
 * operators to itself either. */
static void history_is_bounded_and_shared(void **state)
{
	(void)state;
	const struct cm_addr to = { .family = AF_INET, .addr = { 10, 77, 0, 1 }, .port = PORT };
	struct found found = { 0 };
	uint8_t mad[IBCM_MAD_LEN];
	a.cm->num_history = 0; /* of tests before */
	for (int i = 0; i < CM_HISTORY + 3; i++) {
		TRIES("connection %d", i);
		begin(NULL);
		connect_to(&a, &addr_b, &addr_a, 0);
		assert_true(wait_for(&a.ended, 1));
	}
	cm_each_conn(a.cm, find, &found);
	assert_int_equal(found.num, CM_HISTORY + 1); /* the last one is not freed yet */
	for (size_t i = 1; i < found.num; i++) {
		assert_int_equal(found.views[i].number, found.views[0].number - i);
		assert_int_equal(found.views[i].end, CM_END_NO_LISTENER);
	}
	begin(NULL);
	const uint64_t newest = found.views[0].number;
	listen_at(&a, &to);
	a.manners = REFUSE;
	for (uint32_t i = 0; i < 2 * CM_HISTORY; i++) {
		build_req(1000 + i, mad);
		send_mad(mad, IBCM_QKEY, 0);
		assert_true(wait_for(&a.requests, i + 1));
	}
	found.num = 0;
	cm_each_conn(a.cm, find, &found);
	assert_int_equal(found.num, CM_HISTORY);
	const size_t rest = CM_HISTORY / 2 + 1; /* of as many, the older ones go */
	for (size_t i = 0; i < CM_HISTORY; i++) {
		const bool of_b = i >= rest;
		assert_int_equal(found.views[i].peer.addr[3], of_b ? 2 : 3);
		assert_int_equal(found.views[i].number,
				 of_b ? newest - (i - rest) : newest + 2 * CM_HISTORY - i);
	}
}

static void names(void **state)
{
	(void)state;
	for (int i = CM_STATE_ASKING; i <= CM_STATE_ENDED; i++)
		assert_true(strcmp(cm_state_name((enum cm_state)i), "unknown") != 0);
	for (int i = CM_END_NONE; i <= CM_END_LOCAL; i++)
		assert_true(strcmp(cm_end_name((enum cm_end)i), "unknown") != 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nobody_listens),
		TEST(data_flow_both_ways),
		TEST(active_side_disconnects),
		TEST(passive_side_disconnects),
		TEST(user_disconnects_before_he_hears),
		TEST(both_disconnect),
		TEST(freed_connection_ends),
		TEST(user_refuses),
		TEST(listener_goes_before_the_answer),
		TEST(asker_goes_before_the_answer),
		TEST(data_come_before_the_rtu),
		TEST(rtu_comes_again),
		TEST(rnic_goes),
		TEST(peer_is_silent),
		TEST(rules_deny),
		TEST(too_much_is_refused),
		TEST(listeners),
		TEST(finds_a_way),
		TEST(connects_with_itself),
		TEST(wrong_keys_get_no_answer),
		TEST(nonsense_gets_no_answer),
		TEST(tap_sees_messages),
		TEST(flood_leaves_room_for_others),
		TEST(requests_leave_room_for_own),
		TEST(rnic_goes_with_everything),
		TEST(history_is_bounded_and_shared),
		cmocka_unit_test(names),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

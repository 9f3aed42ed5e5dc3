/* SPDX-License-Identifier: MIT */
/* Two engines on soft RNICs with two NICs each: what the fabric does between engine and RNICs. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <event2/event.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "daemon/fabric/fabric.h"
#include "daemon/smcr/view.h"
#include "proto/smcr/eid.h"
#include "tests/lib/fabricfix.h"
#include "tests/lib/proves.h"
#include "tests/lib/rnic_side.h"
#include "tests/lib/testnet.h"

#define PATIENCE_US 60000000
#define DATA        10000
#define INBOX       8

struct side {
	struct smcr_config config;
	struct event_base *base;
	struct fabric *fabric;
	struct smcr_engine *engine;
	unsigned int ifindex[2];
	struct smcr_conn *conn;
	bool established, over;
	struct {
		uint8_t bytes[512];
		size_t len;
	} inbox[INBOX]; /* CLC messages that wait to be read */
	size_t num_inbox;
};

static struct testnet net;
static struct side a, b; /* server in namespace 0, client in 1 */
static bool version_2;

static void on_clc_send(void *user, const uint8_t *msg, size_t len)
{
	struct side *to = user == &a ? &b : &a;
	assert_true(to->num_inbox < INBOX && len <= sizeof(to->inbox[0].bytes));
	memcpy(to->inbox[to->num_inbox].bytes, msg, len);
	to->inbox[to->num_inbox++].len = len;
}

static void on_conn_event(void *user, const struct smcr_conn_event *event)
{
	struct side *side = user;
	switch (event->type) {
	case SMCR_CONN_ESTABLISHED: side->established = true; break;
	case SMCR_CONN_READABLE:
	case SMCR_CONN_WRITABLE:
	case SMCR_CONN_OUTGROWN: break;
	default: side->over = true;
	}
}

static void on_unshare(void *user)
{
	(void)user;
	fail_msg("no memory is shared");
}

/* One turn of the event loop. */
static void turn(struct side *side)
{
	smcr_engine_run(side->engine, fabric_now());
	for (size_t i = 0; i < side->num_inbox; i++)
		smcr_conn_clc_input(side->conn, side->inbox[i].bytes, side->inbox[i].len);
	side->num_inbox = 0;
	fabric_end_turn(side->fabric);
	event_base_loop(side->base, EVLOOP_NONBLOCK);
}

#define TURN_UNTIL(condition, turns)                                                               \
	do {                                                                                       \
		uint64_t limit_ = fabric_now() + PATIENCE_US;                                      \
		while (!(condition) && fabric_now() < limit_) {                                    \
			turns;                                                                     \
		}                                                                                  \
		assert_true(condition);                                                            \
	} while (0)

static void side_open(struct side *side, int which, const char *const names[2])
{
	static const struct smcr_conn_ops conn_ops = { .clc_send = on_clc_send,
						       .event = on_conn_event,
						       .unshare = on_unshare };
	struct fabric_params params = { 0 };
	char error[RNIC_ERROR_LEN];
	memset(side, 0, sizeof(*side));
	side->config = (struct smcr_config){
		.bsize = 0xFF, .bsize_min = 0xFF, .retry_ms = 4000, .retry_alternative_ms = 300
	};
	memset(side->config.peer_id, which + 1, sizeof(side->config.peer_id));
	if (version_2)
		assert_int_equal(smcr_ueid_parse("FABRIC", side->config.ueids[0]), 0);
	side->config.num_ueids = version_2;
	side->base = params.base = event_base_new();
	assert_int_equal(fabric_new(&params, &side->fabric), 0);
	side->engine = fabricfix_engine(side->fabric, &side->config, &conn_ops);
	testnet_enter(&net, which);
	for (int i = 0; i < 2; i++) {
		char name[RNIC_NAME_LEN] = "soft:";
		strncat(name, names[i], IF_NAMESIZE);
		assert_int_equal(fabric_add_device(side->fabric, name, SMCR_NO_VLAN, error), 0);
		side->ifindex[i] = if_nametoindex(names[i]);
	}
}

static void connect_one(struct side *side, enum smcr_role role)
{
	struct smcr_conn_params params = {
		.role = role,
		.local = { .family = AF_INET, .ip = { 10, 77, 0, side == &a ? 1 : 2 }, .port = 1 },
		.peer = { .family = AF_INET, .ip = { 10, 77, 0, side == &a ? 2 : 1 }, .port = 1 },
		.local_prefix_len = 24,
		.vlan = SMCR_NO_VLAN,
		.user = side,
	};
	assert_int_equal(smcr_conn_start(side->engine, &params, &side->conn), 0);
}

struct tally {
	unsigned int active;
	struct smcr_link_view in_use; /* the link that carries the connection */
};

static void tally_link(void *arg, const struct smcr_link_view *view)
{
	struct tally *tally = arg;
	tally->active += !strcmp(smcr_link_state_name(view->state), "active");
	if (view->num_conns)
		tally->in_use = *view;
}

static struct tally links_of(const struct side *side)
{
	struct tally tally = { 0 };
	smcr_engine_each_link(side->engine, tally_link, &tally);
	return tally;
}

static void note_version(void *arg, const struct smcr_lgr_view *view)
{
	*(unsigned int *)arg = view->version;
}

static unsigned int group_version(const struct side *side)
{
	unsigned int version = 0;
	smcr_engine_each_lgr(side->engine, note_version, &version);
	return version;
}

static struct rnic *nic(const struct side *side, int i)
{
	return fabric_find_rnic(side->fabric, RNIC_SOFT, side->ifindex[i]);
}

/* A group with two links, whose setup is over. */
static int setup(void **state)
{
	(void)state;
	static const char *const names[2][2] = { { "t0", "u0" }, { "t1", "u1" } };
	testnet_new(&net, 1500);
	testnet_enter(&net, 1);
	testnet_veth_add(&net, "u0", "u1", 1500);
	for (int i = 1; i >= 0; i--) {
		testnet_enter(&net, i);
		testnet_addr_add(names[i][1], i ? "10.77.0.12/24" : "10.77.0.11/24");
		testnet_link_up(names[i][1], 1);
	}
	struct timespec settle = { 0, 100000000 };
	/* time for the kernel to see the carrier of the new interfaces; devices read it when they
	 * are opened */
	nanosleep(&settle, NULL);
	side_open(&a, 0, names[0]);
	side_open(&b, 1, names[1]);
	connect_one(&a, SMCR_ROLE_SERVER);
	connect_one(&b, SMCR_ROLE_CLIENT);
	TURN_UNTIL(a.established && b.established, turn(&a); turn(&b));
	TURN_UNTIL(links_of(&a).active == 2 && links_of(&b).active == 2, turn(&a); turn(&b));
	for (int i = 0; i < 20; i++) {
		rnic_side_idle(a.base, 1);
		rnic_side_idle(b.base, 1);
	}
	return 0;
}

static int setup_version_2(void **state)
{
	version_2 = true;
	int rc = setup(state);
	version_2 = false;
	return rc;
}

static int teardown(void **state)
{
	(void)state;
	struct side *sides[] = { &a, &b };
	for (int i = 0; i < 2; i++) {
		smcr_engine_free(sides[i]->engine);
		fabric_free(sides[i]->fabric);
		event_base_free(sides[i]->base);
	}
	testnet_free(&net);
	return 0;
}

static uint64_t packets(const struct side *side, int i, bool received)
{
	struct rnic_stats stats;
	rnic_get_stats(nic(side, i), &stats);
	return received ? stats.rx_packets : stats.tx_packets;
}

static void send_data(struct side *side, size_t len, uint32_t seed)
{
	static uint8_t data[DATA];
	struct iovec iov[2];
	rnic_side_pattern(data, len, seed);
	smcr_engine_run(side->engine, fabric_now());
	assert_true(smcr_conn_tx_space(side->conn, iov) > 0);
	assert_true(iov[0].iov_len >= len);
	memcpy(iov[0].iov_base, data, len);
	smcr_conn_tx_commit(side->conn, len);
}

static size_t readable(struct side *side)
{
	struct iovec iov[2];
	size_t len = 0;
	int n = smcr_conn_rx_data(side->conn, iov);
	for (int i = 0; i < n; i++)
		len += iov[i].iov_len;
	return len;
}

static void expect_data(struct side *side, size_t len, uint32_t seed)
{
	static uint8_t data[DATA];
	struct iovec iov[2];
	rnic_side_pattern(data, len, seed);
	assert_int_equal(smcr_conn_rx_data(side->conn, iov), 1);
	assert_int_equal(iov[0].iov_len, len);
	assert_memory_equal(iov[0].iov_base, data, len);
	smcr_conn_rx_consume(side->conn, len);
}

/* A NIC's link dies. Packets that wait in this NIC's socket are handled before a failover message
 * that came through the other NIC. */
static void failover_message_comes_after_what_has_arrived(void **state)
{
	(void)state;
	static const char *const client_names[2] = { "t1", "u1" };
	int dead = strcmp(links_of(&b).in_use.device_name, "soft:t1") ? 1 : 0;
	uint64_t before = packets(&a, dead, true);
	uint64_t left = packets(&b, dead, false);

	/* The server does not run from here on. */
	send_data(&b, DATA, 5);
	TURN_UNTIL(packets(&b, dead, false) - left > DATA / 1024, turn(&b));
	left = packets(&b, !dead, false);
	testnet_enter(&net, 1);
	testnet_link_up(client_names[dead], 0);
	rnic_link_changed(nic(&b, dead));
	/* The client sends validation, the data once more, and a new CDC. */
	TURN_UNTIL(packets(&b, !dead, false) - left > 2 + DATA / 1024, turn(&b));
	assert_int_equal(packets(&a, dead, true), before);
	assert_int_equal(readable(&a), 0);

	uint64_t on_time = packets(&a, !dead, true);
	smcr_engine_run(a.engine, fabric_now());
	rnic_poll(nic(&a, !dead));
	assert_true(packets(&a, !dead, true) > on_time);
	assert_true(packets(&a, dead, true) - before > DATA / 1024);
	expect_data(&a, DATA, 5);

	/* The connection goes on. */
	TURN_UNTIL(links_of(&b).active == 1, turn(&a); turn(&b));
	send_data(&b, DATA, 6);
	TURN_UNTIL(readable(&a) == DATA, turn(&a); turn(&b));
	expect_data(&a, DATA, 6);
	assert_false(a.over || b.over);
	PROVES("FO-8");
}

/* The peer does not run, so all links fall silent at the same time. No link fails before the
 * longest time for retries is over, though there is another link. */
static void silence_everywhere_costs_no_link(void **state)
{
	(void)state;
	send_data(&b, DATA, 7);
	uint64_t until = fabric_now() + 1000000;
	while (fabric_now() < until)
		turn(&b);
	assert_int_equal(links_of(&b).active, 2);
	TURN_UNTIL(readable(&a) == DATA, turn(&a); turn(&b));
	expect_data(&a, DATA, 7);
	assert_int_equal(links_of(&a).active, 2);
	assert_int_equal(links_of(&b).active, 2);
}

/* End of file has to wait until the data are acknowledged. So a packet that asks for the ACK leaves
 * behind the data and their CDC. */
static void end_of_data_asks_for_an_ack(void **state)
{
	(void)state;
	int used = strcmp(links_of(&b).in_use.device_name, "soft:t1") ? 1 : 0;
	uint64_t before = packets(&b, used, false);
	send_data(&b, 100, 8);
	smcr_conn_shutdown(b.conn);
	turn(&b);
	assert_int_equal(packets(&b, used, false) - before, 3);
	TURN_UNTIL(readable(&a) == 100, turn(&a); turn(&b));
	expect_data(&a, 100, 8);
}

/* ADD LINK of version 2, which has added the second link, is too long to be posted inline, and too
 * long for receive buffers of version 1. */
static void long_messages(void **state)
{
	(void)state;
	static const char *const client_names[2] = { "t1", "u1" };
	assert_int_equal(group_version(&a), 2);
	assert_int_equal(group_version(&b), 2);
	for (int round = 0; round < 2; round++) {
		send_data(&b, DATA, 9);
		TURN_UNTIL(readable(&a) == DATA, turn(&a); turn(&b));
		expect_data(&a, DATA, 9);
		/* once more: the added link carries the ADD LINK for another one */
		testnet_enter(&net, 1);
		testnet_link_up(client_names[round], 0);
		rnic_link_changed(nic(&b, round));
		TURN_UNTIL(links_of(&a).active == 1 && links_of(&b).active == 1, turn(&a);
			   turn(&b));
		testnet_enter(&net, 1);
		testnet_link_up(client_names[round], 1);
		rnic_link_changed(nic(&b, round));
		TURN_UNTIL(links_of(&a).active == 2 && links_of(&b).active == 2, turn(&a);
			   turn(&b));
	}
	assert_false(a.over || b.over);
}

static bool failed_link(const struct side *side, uint64_t *ret_at)
{
	if (links_of(side).active == 2)
		return false;
	*ret_at = fabric_now();
	return true;
}

/* One path is silent, and the other one is idle. The idle link is probed, and the silent one fails
 * in time. */
static void silence_of_one_link_costs_it(void **state)
{
	(void)state;
	int dead = strcmp(links_of(&b).in_use.device_name, "soft:t1") ? 1 : 0;
	static const char *const server_names[2] = { "t0", "u0" };
	uint64_t start = fabric_now(), at = 0;
	/* The server's NIC gets another MAC: it keeps its carrier, but hears nothing. */
	testnet_enter(&net, 0);
	testnet_link_set_mac(server_names[dead], (const unsigned char[6]){ 2, 0, 0, 0, 0, 1 });
	send_data(&b, DATA, 8);
	TURN_UNTIL(failed_link(&b, &at), turn(&a); turn(&b));
	print_message("# given up after %lu us\n", at - start);
	/* Without another link it would take retry_ms. A busy machine needs a part of that. */
	assert_in_range(at - start, 300000, 3900000);
	TURN_UNTIL(readable(&a) == DATA, turn(&a); turn(&b));
	expect_data(&a, DATA, 8);
	assert_false(a.over || b.over);
}

/* The messages that a tap has seen: [received or sent][SENDs or WRITEs], in their order. */
struct seen {
	struct {
		uint8_t bytes[2 * DATA];
		size_t len;
		unsigned int messages;
		uint64_t first_addr;
		uint32_t rkey;
	} kind[2][2];
	uint64_t link_ref;
};

static void see(void *ctx, const struct fabric_message *message)
{
	struct seen *seen = ctx;
	const unsigned int sent = message->sent, is_write = message->is_write;
	const size_t at = seen->kind[sent][is_write].len;
	assert_true(at + message->length <= sizeof(seen->kind[0][0].bytes));
	memcpy(seen->kind[sent][is_write].bytes + at, message->data, message->length);
	seen->kind[sent][is_write].len += message->length;
	seen->kind[sent][is_write].rkey = message->rkey;
	if (seen->kind[sent][is_write].messages++ == 0)
		seen->kind[sent][is_write].first_addr = message->remote_addr;
	assert_true(message->marks[0] == 0 || message->marks[0] == message->link_ref);
	message->marks[0] = message->link_ref; /* the marks belong to the link */
	seen->link_ref = message->link_ref;
}

/* Each side's tap sees as received what the other side's tap has seen as sent, in the same
 * order. */
static void taps_see_what_passes(void **state)
{
	(void)state;
	static struct seen at_a, at_b;
	const struct fabric_tap tap_a = { .writes = true, .message = see, .ctx = &at_a };
	struct fabric_tap tap_b = { .writes = true, .message = see, .ctx = &at_b };
	uint8_t data[DATA];
	struct smcr_link_view view;
	memset(&at_a, 0, sizeof(at_a));
	memset(&at_b, 0, sizeof(at_b));
	fabric_set_tap(a.fabric, &tap_a);
	fabric_set_tap(b.fabric, &tap_b);
	send_data(&b, DATA, 11);
	TURN_UNTIL(readable(&a) == DATA, turn(&a); turn(&b));
	rnic_side_pattern(data, DATA, 11);
	for (int i = 0; i < 2; i++) {
		const struct seen *seen = i ? &at_b : &at_a;
		assert_int_equal(seen->kind[i][1].len, DATA);
		assert_memory_equal(seen->kind[i][1].bytes, data, DATA);
	}
	assert_int_equal(at_a.kind[0][1].first_addr, at_b.kind[1][1].first_addr);
	assert_int_equal(at_a.kind[0][1].rkey, at_b.kind[1][1].rkey);
	assert_true(at_b.kind[1][0].messages > 0);
	assert_int_equal(at_a.kind[0][0].len, at_b.kind[1][0].len);
	assert_memory_equal(at_a.kind[0][0].bytes, at_b.kind[1][0].bytes, at_a.kind[0][0].len);
	assert_true(smcr_engine_get_link(a.engine, at_a.link_ref, &view));
	assert_int_equal(view.number, links_of(&a).in_use.number);
	assert_false(smcr_engine_get_link(a.engine, at_a.link_ref + 1000, &view));

	/* First without WRITEs, then no tap at all. */
	fabric_set_tap(a.fabric, NULL);
	tap_b.writes = false;
	const unsigned int messages = at_a.kind[0][0].messages, writes = at_b.kind[1][1].messages;
	const unsigned int sends = at_b.kind[1][0].messages;
	expect_data(&a, DATA, 11);
	send_data(&b, DATA, 12);
	TURN_UNTIL(readable(&a) == DATA, turn(&a); turn(&b));
	assert_int_equal(at_a.kind[0][0].messages, messages);
	assert_int_equal(at_b.kind[1][1].messages, writes);
	assert_true(at_b.kind[1][0].messages > sends);
	fabric_set_tap(b.fabric, NULL);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(failover_message_comes_after_what_has_arrived),
		CASE(silence_everywhere_costs_no_link),
		CASE(end_of_data_asks_for_an_ack),
		CASE(silence_of_one_link_costs_it),
		CASE(taps_see_what_passes),
		cmocka_unit_test_setup_teardown(long_messages, setup_version_2, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

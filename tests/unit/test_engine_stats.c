/* SPDX-License-Identifier: MIT */
/* What an engine counts for operators. Both ends of a connection count the same, and connections
 * that have ended stay counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "daemon/smcr/stats.h"
#include "tests/lib/enginepair_filter.h"
#include "tests/lib/tries.h"

#define S       PAIR_SERVER
#define C       PAIR_CLIENT
#define KIB     1024u
#define ELEMENT 16384

static struct smcr_engine_stats stats_of(const struct pair *pair, int side)
{
	struct smcr_engine_stats stats;
	smcr_engine_get_stats(pair->side[side].engine, &stats);
	return stats;
}

static struct smcr_conn_view view_of(struct pair *pair, int conn, int side)
{
	struct smcr_conn_view view;
	smcr_conn_get_view(pair_end(pair, conn, side)->smc, &view);
	return view;
}

static uint64_t sum(const uint64_t *counts, size_t n)
{
	uint64_t total = 0;
	while (n--)
		total += counts[n];
	return total;
}

static void sizes_have_classes(void **state)
{
	static const struct {
		uint64_t size;
		unsigned int class;
	} rows[] = {
		{ 0, 0 },          { 1, 0 },
		{ 8 * KIB, 0 },    { 8 * KIB + 1, 1 },
		{ 16 * KIB, 1 },   { 16 * KIB + 1, 2 },
		{ 512 * KIB, 6 },  { 512 * KIB + 1, 7 },
		{ UINT64_MAX, 7 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		assert_int_equal(smcr_size_class(rows[i].size), rows[i].class);
		assert_true(rows[i].size <= smcr_size_class_end(rows[i].class));
	}
}

static void times_have_classes(void **state)
{
	(void)state;
	const uint64_t *ends = smcr_time_ends();
	struct smcr_times times = { 0 };
	for (unsigned int i = 1; i < SMCR_TIME_CLASSES - 1; i++)
		assert_true(ends[i] > ends[i - 1]);
	smcr_times_add(&times, 0);
	smcr_times_add(&times, ends[0]);
	smcr_times_add(&times, ends[0] + 1);
	smcr_times_add(&times, ends[SMCR_TIME_CLASSES - 2] + 1);
	assert_int_equal(times.counts[0], 2);
	assert_int_equal(times.counts[1], 1);
	assert_int_equal(times.counts[SMCR_TIME_CLASSES - 1], 1);
	assert_int_equal(times.sum_us, 2 * ends[0] + 2 + ends[SMCR_TIME_CLASSES - 2]);
}

static void outcomes_are_counted_by_role(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 2, 2);
	pair_connected(pair);
	pair_connected(pair);
	pair->side[C].refuse = SMCR_REASON_LOCAL_POLICY;
	pair_connect(pair, C);
	pair_run(pair, 10000000);
	for (int side = S; side <= C; side++) {
		struct smcr_engine_stats stats = stats_of(pair, side);
		int role = side == S ? SMCR_ROLE_SERVER : SMCR_ROLE_CLIENT;
		assert_int_equal(sum(stats.established[role], 2), 2);
		assert_int_equal(sum(stats.established[!role], 2), 0);
		assert_int_equal(stats.fallbacks[role], 1);
		assert_int_equal(stats.fallbacks[!role], 0);
		/* Each rendezvous has its time; the first one has made the group. */
		assert_int_equal(sum(stats.handshakes[1].counts, SMCR_TIME_CLASSES), 1);
		assert_int_equal(sum(stats.handshakes[0].counts, SMCR_TIME_CLASSES), 1);
		assert_int_equal(stats.groups_up, 1);
		assert_int_equal(stats.links_up, 2);
		assert_int_equal(sum(stats.rx.buffers, SMCR_BSIZE_MAX + 1), 2);
		assert_int_equal(sum(stats.tx.buffers, SMCR_BSIZE_MAX + 1), 2);
		assert_int_equal(stats.rx.downgrades + stats.tx.downgrades, 0);
	}
	pair_free(pair);
}

/** The time of a rendezvous runs from its first message until data may flow. */
static void handshakes_are_timed(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	pair->side[S].hung = true;
	pair_connect(pair, C);
	pair_run(pair, 30000);
	pair->side[S].hung = false;
	pair_run(pair, 1000000);
	struct smcr_engine_stats stats = stats_of(pair, C);
	assert_true(stats.handshakes[1].sum_us >= 30000);
	assert_int_equal(sum(stats.handshakes[1].counts, 6), 0); /* none within 20 ms */
	assert_int_equal(stats.handshakes[1].counts[6], 1);
	pair_free(pair);
}

/** Each side has received the messages that the other side has sent, also after the connection has
 *  ended. */
static void both_sides_count_the_same(void **state)
{
	int c;
	(void)state;
	struct pair *pair = pair_grouped(2, &c);
	struct smcr_engine_stats before = stats_of(pair, S);
	pair_send(pair, c, S, 9000, 1);
	pair_pump(pair);
	pair_expect(pair, c, C, 9000, 1);
	pair_send(pair, c, C, 10, 2);
	pair_pump(pair);
	pair_expect(pair, c, S, 10, 2);
	struct smcr_conn_view view = view_of(pair, c, S);
	assert_int_equal(view.tx_requests, before.tx.requests + 1);
	assert_true(view.rx_requests > 0);
	pair_close(pair, c);
	struct smcr_engine_stats server = stats_of(pair, S), client = stats_of(pair, C);
	assert_int_equal(server.tx.bytes - before.tx.bytes, 9000);
	assert_int_equal(server.tx.bytes, client.rx.bytes);
	assert_int_equal(server.rx.bytes, client.tx.bytes);
	assert_int_equal(server.tx.messages, client.rx.messages);
	assert_int_equal(server.tx.cdcs, client.rx.cdcs);
	assert_int_equal(client.tx.cdcs, server.rx.cdcs);
	assert_int_equal(server.tx.sizes[1] - before.tx.sizes[1], 1);
	assert_int_equal(server.tx.request_bytes, server.tx.bytes);
	assert_int_equal(client.rx.request_bytes, client.rx.bytes);
	assert_int_equal(sum(server.tx.sizes, SMCR_SIZE_CLASSES), server.tx.requests);
	assert_int_equal(sum(client.rx.sizes, SMCR_SIZE_CLASSES), client.rx.requests);
	pair_free(pair);
}

/** A buffer counts once each time that it becomes full, whatever else is sent while it is full. */
static void full_buffers_are_counted(void **state)
{
	int c;
	(void)state;
	struct pair *pair = pair_grouped(1, &c);
	struct smcr_conn_view view = view_of(pair, c, S);
	size_t window = view.tx_window;
	assert_true(window > 0 && window <= ELEMENT);
	pair_send(pair, c, S, window, 1);
	pair_pump(pair);
	view = view_of(pair, c, S);
	assert_int_equal(view.tx_window, 0);
	assert_int_equal(view.tx_in_peer, window);
	assert_int_equal(view.tx_window_full, 1);
	assert_int_equal(view_of(pair, c, C).rx_full, 1);
	assert_int_equal(view_of(pair, c, C).rx_unread, window);
	assert_int_equal(view_of(pair, c, C).rx_window, 0);
	pair_send(pair, c, S, view.sndbuf_size, 2); /* fills the peer's window */
	pair_pump(pair);
	assert_int_equal(view_of(pair, c, S).tx_full, window == view.sndbuf_size ? 2 : 1);
	assert_int_equal(view_of(pair, c, S).tx_window_full, 1);
	pair_expect(pair, c, C, window, 1);
	pair_pump(pair);
	assert_int_equal(view_of(pair, c, S).tx_window_full, 2);
	struct smcr_engine_stats server = stats_of(pair, S), client = stats_of(pair, C);
	assert_int_equal(server.tx.window_full, 2);
	assert_int_equal(client.rx.full, 2);
	assert_int_equal(server.tx.full, view_of(pair, c, S).tx_full);
	pair_free(pair);
}

static void messages_have_ages_and_a_round_trip(void **state)
{
	int c;
	(void)state;
	struct pair *pair = pair_grouped(1, &c);
	pair_run(pair, 1000);
	pair->side[S].hold_completions = true;
	pair_send(pair, c, S, 1, 1);
	pair_pump(pair);
	pair_run(pair, 700);
	struct smcr_conn_view view = view_of(pair, c, S);
	assert_int_equal(view.said_us, 700);
	pair->side[S].hold_completions = false;
	pair_run(pair, 300);
	view = view_of(pair, c, S);
	assert_int_equal(view.said_us, 1000);
	assert_true(view.rtt_us >= 700 && view.rtt_us <= 1000);
	assert_int_equal(view_of(pair, c, C).heard_us, 1000);
	pair_send(pair, c, S, 1, 1); /* a CDC is timed if no other is on its way */
	pair_pump(pair);
	assert_int_equal(view_of(pair, c, S).rtt_us, 1);
	pair_free(pair);
}

static void urgent_bytes_are_counted(void **state)
{
	int c;
	struct iovec iov[2];
	(void)state;
	struct pair *pair = pair_grouped(1, &c);
	struct smcr_conn *conn = pair_end(pair, c, S)->smc;
	assert_true(smcr_conn_tx_space(conn, iov) > 0);
	*(char *)iov[0].iov_base = '!';
	assert_int_equal(smcr_conn_tx_commit_urgent(conn, 1), 0);
	pair_pump(pair);
	assert_int_equal(stats_of(pair, S).tx.urgent, 1);
	assert_int_equal(stats_of(pair, C).rx.urgent, 1);
	pair_free(pair);
}

/** Links fail: moves and failovers are counted, and how long connections stood still is measured.
 */
static void failovers_are_counted_and_timed(void **state)
{
	int c;
	(void)state;
	struct pair *pair = pair_grouped(2, &c);
	uint8_t used = pair_conn_view(pair, c, S).link_number;
	pair->side[S].hold_completions = true;
	pair->side[S].hold_link = used;
	pair_send(pair, c, S, 10, 1);
	pair->side[C].hung = true; /* the client does not confirm that the link may go */
	pair_fail_link(pair, S, used);
	pair_run(pair, 7000); /* requests in flight on the old link are waited for */
	pair->side[S].hold_completions = pair->side[C].hung = false;
	pair_run(pair, 1000);
	pair_expect(pair, c, C, 10, 1);
	struct smcr_engine_stats stats = stats_of(pair, S);
	assert_int_equal(stats.links_failed, 1);
	assert_int_equal(stats.failovers, 1);
	assert_int_equal(stats.moves, 1);
	assert_int_equal(view_of(pair, c, S).moves, 1);
	assert_int_equal(sum(stats.failover_gaps.counts, SMCR_TIME_CLASSES), 1);
	assert_in_range(stats.failover_gaps.sum_us, 6000, 8000);
	assert_int_equal(stats.tx.bytes, stats_of(pair, C).rx.bytes); /* a replay does not count */
	pair_free(pair);
}

/** A connection that ends while it waits for a link does not count as a failover. */
static void a_connection_that_never_moves_has_no_gap(void **state)
{
	int c;
	(void)state;
	struct pair *pair = pair_grouped(1, &c);
	pair_fail_link(pair, S, 1);
	pair_run(pair, 1000);
	struct smcr_engine_stats stats = stats_of(pair, S);
	assert_int_equal(stats.links_failed, 1);
	assert_int_equal(stats.failovers + stats.moves, 0);
	assert_int_equal(stats.resets, 1);
	assert_int_equal(stats.groups_down, 1);
	assert_int_equal(sum(stats.failover_gaps.counts, SMCR_TIME_CLASSES), 0);
	pair_free(pair);
}

/** A buffer counts as smaller if it would be larger with all memory free. A buffer that is small
 *  because little is needed does not count. */
static void smaller_buffers_for_want_of_memory_are_counted(void **state)
{
	(void)state;
	struct smcr_config config = pair_config(S);
	config.bsize = 2;
	config.bsize_min = 0xFF;
	config.elements_per_rmb = 1;
	config.memory_budget = 512 * KIB;
	struct pair *pair = pair_new(&config, NULL, 1, 1);
	pair_connected(pair);
	pair_connected(pair);
	struct smcr_engine_stats stats = stats_of(pair, S);
	assert_int_equal(stats.rx.downgrades + stats.tx.downgrades, 0);
	assert_int_equal(stats.rx.buffers[2], 2);
	pair_connected(pair); /* six sixteenths of the memory are used */
	stats = stats_of(pair, S);
	assert_int_equal(stats.rx.downgrades, 1);
	assert_int_equal(stats.rx.buffers[2], 2);
	assert_int_equal(sum(stats.rx.buffers, 2), 1);
	assert_int_equal(stats_of(pair, C).rx.downgrades, 0);
	pair_free(pair);

	pair = pair_new(&config, NULL, 1, 1);
	pair->side[S].expected.rcv = 20000;
	pair_connected(pair);
	stats = stats_of(pair, S);
	assert_int_equal(stats.rx.downgrades, 0);
	assert_int_equal(stats.rx.buffers[1], 1);
	assert_int_equal(stats.tx.buffers[2], 1);
	pair_free(pair);
}

struct rmbs {
	unsigned int rmbs, buffers, used;
	struct smcr_rmb_view last;
	void *owner;
	bool enough;
};

static bool on_rmb(void *arg, const struct smcr_rmb_view *view)
{
	struct rmbs *rmbs = arg;
	rmbs->rmbs += view->is_rmb;
	rmbs->buffers += !view->is_rmb;
	rmbs->used += view->used;
	if (view->is_rmb && view->num_owners)
		rmbs->owner = view->owners[0];
	rmbs->last = *view;
	return !rmbs->enough;
}

static void rmbs_have_owners_and_fill(void **state)
{
	int c;
	(void)state;
	struct pair *pair = pair_grouped(2, &c);
	struct smcr_engine *engine = pair->side[C].engine;
	struct smcr_rmb_place place = { 0 };
	struct rmbs rmbs = { 0 };
	pair_send(pair, c, S, 123, 1);
	pair_pump(pair);
	assert_true(smcr_engine_walk_rmbs(engine, place, on_rmb, &rmbs));
	assert_true(rmbs.rmbs > 0 && rmbs.buffers > 0);
	assert_int_equal(rmbs.used, 2);
	assert_ptr_equal(rmbs.owner, pair_end(pair, c, C));

	/* A walk that shows one RMB at a time shows the same RMBs. */
	struct rmbs one = { .enough = true };
	uint64_t fill = 0;
	unsigned int n = 0;
	while (!smcr_engine_walk_rmbs(engine, place, on_rmb, &one)) {
		assert_int_equal(one.last.lgr_id, pair_lgr_view(pair, C).id);
		assert_true(one.last.number > place.number);
		assert_int_equal(one.last.registered, 2);
		assert_string_equal(one.last.state, "ready");
		fill += one.last.is_rmb ? one.last.fill : 0;
		place = (struct smcr_rmb_place){ one.last.lgr_id, one.last.number };
		n++;
	}
	assert_int_equal(n, rmbs.rmbs + rmbs.buffers);
	assert_int_equal(fill, 123);
	pair_free(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_have_classes),
		cmocka_unit_test(times_have_classes),
		cmocka_unit_test(outcomes_are_counted_by_role),
		cmocka_unit_test(handshakes_are_timed),
		cmocka_unit_test(both_sides_count_the_same),
		cmocka_unit_test(full_buffers_are_counted),
		cmocka_unit_test(messages_have_ages_and_a_round_trip),
		cmocka_unit_test(urgent_bytes_are_counted),
		cmocka_unit_test(failovers_are_counted_and_timed),
		cmocka_unit_test(a_connection_that_never_moves_has_no_gap),
		cmocka_unit_test(smaller_buffers_for_want_of_memory_are_counted),
		cmocka_unit_test(rmbs_have_owners_and_fill),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

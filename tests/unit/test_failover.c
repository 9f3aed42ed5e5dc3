/* SPDX-License-Identifier: MIT */
/* Connections move between links (RFC 7609 4.6): what is posted on the new link, byte for byte,
 * and what the receiver does with it. */
#include <errno.h>

#include "tests/lib/connfix.h"

#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define D SMCR_CDC_SENDING_DONE
#define C SMCR_CDC_CLOSED
#define A SMCR_CDC_ABORT
#define B SMCR_CDC_WRITE_BLOCKED

static struct connfix *with_links(unsigned int links)
{
	struct connfix_params params = { .links = links };
	return connfix_new(&params);
}

/* The checks that follow look only at what is posted from now on. */
static void caught_up(struct connfix *f)
{
	f->seen = f->num_posts;
	f->out_seq = f->conn->tx.cdc_seq;
}

/* The next requests are posted on this link. */
static void expect_on(struct connfix *f, const struct smcr_link *link)
{
	assert_true(f->seen < f->num_posts);
	for (size_t i = f->seen; i < f->num_posts; i++)
		assert_int_equal(f->posts[i].link_ref, link->ref);
}

/* The peer sends a CDC: it has consumed `n` bytes more. */
static void peer_consumes(struct connfix *f, uint64_t n)
{
	f->peer_cons += n;
	connfix_peer_cdc(f);
}

/* ---- sending ---- */

/* Nothing was ever sent: the validation has number 0, and there is nothing to replay. */
static void idle_connection(void **state)
{
	(void)state;
	struct connfix *f = with_links(2);
	connfix_break_link(f, f->link);
	expect_on(f, f->link2);
	expect_validation(f, 0);
	expect_none(f);
	expect_no_event(f);
	connfix_complete(f);
	connfix_write(f, 10);
	expect_on(f, f->link2);
	expect_w(f, 4, 13);
	expect_cdc(f, 0, 14, 0, 4, 0, 0);
	connfix_free(f);
	PROVES("FO-2 FO-4 FO-5 DELL-3");
}

/* All requests have completed: the validation has the number of the last CDC, and there is nothing
 * to replay. */
static void all_completed(void **state)
{
	(void)state;
	struct connfix *f = with_links(2);
	connfix_write(f, 100);
	connfix_write(f, 20);
	connfix_complete(f);
	caught_up(f);
	connfix_break_link(f, f->link);
	expect_validation(f, 2);
	expect_none(f);
	connfix_free(f);
	PROVES("FO-5");
}

/* No request has completed: one replay of all data, with a new number. */
static void nothing_completed(void **state)
{
	(void)state;
	struct connfix *f = with_links(2);
	connfix_write(f, 100);
	connfix_write(f, 50);
	caught_up(f);
	const struct smcr_flow_stats counted = f->conn->engine->stats.tx;
	connfix_break_link(f, f->link);
	expect_on(f, f->link2);
	expect_validation(f, 0);
	expect_w(f, 4, 153);
	expect_cdc(f, 0, 154, 0, 4, 0, 0);
	expect_none(f);
	assert_int_equal(f->out_seq, 3);
	/* data that are sent again count once */
	assert_int_equal(f->conn->engine->stats.tx.messages, counted.messages);
	assert_int_equal(f->conn->engine->stats.tx.bytes, counted.bytes);
	connfix_complete(f);
	expect_none(f);
	assert_int_equal(connfix_space(f), 65536);
	connfix_free(f);
	PROVES("FO-5 FO-9 FO-10");
}

/* A WRITE has completed, and its CDC has not: the data are not sent again, the cursor is. */
static void write_completed_only(void **state)
{
	(void)state;
	struct connfix *f = with_links(2);
	connfix_write(f, 100); /* W, CDC 1 */
	connfix_write(f, 50);  /* W, CDC 2 */
	connfix_complete_n(f, 3);
	caught_up(f);
	connfix_break_link(f, f->link);
	expect_validation(f, 1);
	expect_cdc(f, 0, 154, 0, 4, 0, 0);
	expect_none(f);
	connfix_free(f);
	PROVES("FO-5 FO-9");
}

/* A request that failed shows that the requests before it arrived. A flushed request shows
 * nothing. */
static void what_a_failure_shows(void **state)
{
	(void)state;
	static const struct {
		enum smcr_send_status status;
		uint16_t known;
	} rows[] = { { SMCR_SEND_FAILED, 1 }, { SMCR_SEND_FLUSHED, 0 } };
	for (size_t i = 0; i < 2; i++) {
		TRIES("case %zu", i);
		struct connfix *f = with_links(2);
		connfix_write(f, 100); /* W, CDC 1 */
		connfix_write(f, 50);  /* W, CDC 2 */
		caught_up(f);
		smcr_engine_send_done(f->engine, f->link->ref, f->posts[f->num_posts - 1].wr_id,
				      rows[i].status, "made to fail");
		connfix_run(f, 0);
		expect_on(f, f->link2);
		expect_validation(f, rows[i].known);
		connfix_free(f);
	}
	PROVES("FO-5");
}

/* Data that the peer has read have arrived, though their completion is lost (A32): their send
 * buffer is free. */
static void consumed_is_skipped(void **state)
{
	(void)state;
	struct connfix *f = with_links(2);
	connfix_write(f, 100);
	peer_consumes(f, 60);
	assert_int_equal(connfix_space(f), 65536 - 100);
	caught_up(f);
	connfix_break_link(f, f->link);
	expect_validation(f, 0);
	expect_w(f, 64, 103);
	expect_cdc(f, 0, 104, 0, 4, 0, 0);
	assert_int_equal(connfix_space(f), 65536 - 40);
	connfix_free(f);
	PROVES("FO-10");
}

/* The replay goes over the ends of element and send buffer, and includes data written meanwhile. */
static void replay_wraps_and_takes_new_data(void **state)
{
	(void)state;
	struct connfix_params params = {
		.links = 2, .sndbuf = 4096, .tx = { 0, 9900 }, .element = 10000
	};
	struct connfix *f = connfix_new(&params);
	connfix_write(f, 300);
	caught_up(f);
	smcr_link_fail(f->link, SMCR_LLC_DEL_LOST_PATH, "broken by the test");
	connfix_run(f, 0);
	connfix_write(f, 50);
	expect_none(f); /* FO-3: wait until the old link is flushed */
	connfix_break_link(f, f->link);
	expect_on(f, f->link2);
	expect_validation(f, 0);
	expect_w(f, 9900, 9999);
	expect_w(f, 4, 253);
	expect_cdc(f, 1, 254, 0, 4, 0, 0);
	expect_none(f);
	connfix_free(f);
	PROVES("FO-3 FO-9 FO-10");
}

/* The peer's window is full: the same bytes are written again, no others, and B is set again. */
static void window_shut(void **state)
{
	(void)state;
	struct connfix_params params = { .links = 2, .element = 1000 };
	struct connfix *f = connfix_new(&params);
	connfix_write(f, 2000);
	caught_up(f);
	connfix_break_link(f, f->link);
	expect_validation(f, 0);
	expect_w(f, 4, 999);
	expect_cdc(f, 1, 4, 0, 4, B, 0);
	expect_none(f);
	connfix_complete(f);
	peer_consumes(f, 996);
	expect_w(f, 4, 999);
	expect_cdc(f, 2, 4, 0, 4, B, 0);
	connfix_free(f);
	PROVES("FO-9 FO-10");
}

/* A second link fails during the failover, in its first list of requests or later: the same again,
 * with the same number. */
static void double_failure(void **state)
{
	(void)state;
	struct connfix *f = with_links(3);
	connfix_write(f, 10);
	connfix_complete(f);
	connfix_write(f, 100);
	caught_up(f);
	connfix_break_link(f, f->link);
	expect_validation(f, 1);
	expect_w(f, 14, 113);
	expect_cdc(f, 0, 114, 0, 4, 0, 0);
	struct smcr_link *second = f->conn->tx.link;
	struct smcr_link *third = second == f->link2 ? f->link3 : f->link2;
	connfix_break_link(f, second);
	expect_on(f, third);
	expect_validation(f, 1);
	expect_w(f, 14, 113);
	expect_cdc(f, 0, 114, 0, 4, 0, 0);
	assert_int_equal(f->out_seq, 4);
	connfix_complete(f);
	expect_none(f);
	connfix_free(f);

	/* The validation has arrived, the requests after it have not. */
	f = with_links(3);
	connfix_write(f, 10);
	connfix_complete(f);
	connfix_write(f, 100);
	connfix_break_link(f, f->link);
	connfix_complete_n(f, 1);
	caught_up(f);
	second = f->conn->tx.link;
	connfix_break_link(f, second);
	expect_validation(f, 1);
	expect_w(f, 14, 113);
	connfix_free(f);
	PROVES("FO-14");
}

/* ---- D, C and A sent on the old link ---- */

/* D, C and A that may not have arrived are sent again, in each state that follows them. */
static void ends_are_repeated(void **state)
{
	(void)state;
	static const struct {
		void (*end)(struct smcr_conn *conn);
		uint8_t flags;
	} rows[] = { { smcr_conn_shutdown, D }, { smcr_conn_abort, A } };
	for (size_t i = 0; i < 2; i++) {
		TRIES("case %zu", i);
		struct connfix *f = with_links(2);
		connfix_write(f, 100);
		connfix_complete(f);
		caught_up(f);
		rows[i].end(f->conn);
		expect_flags(f, 0, rows[i].flags);
		connfix_break_link(f, f->link);
		expect_on(f, f->link2);
		expect_validation(f, 1);
		expect_flags(f, 0, rows[i].flags);
		expect_none(f);
		connfix_free(f);
	}
	struct connfix *f = with_links(2);
	smcr_conn_close(f->conn, false);
	expect_flags(f, 0, C);
	connfix_break_link(f, f->link);
	expect_validation(f, 0);
	expect_flags(f, 0, C);
	connfix_complete(f);
	/* The own C has completed: no link is needed any more. */
	connfix_break_link(f, f->link2);
	expect_none(f);
	connfix_free(f);
	PROVES("FO-9 CLOSE-3");
}

/* Both sides have sent C, and the own C was lost with its link. The peer waits for it. */
static void last_word_of_a_closed_connection(void **state)
{
	(void)state;
	struct connfix *f = with_links(2);
	connfix_peer_flags(f, 0, C);
	caught_up(f);
	smcr_conn_close(f->conn, false);
	expect_flags(f, 0, C);
	expect_state(f, SMCR_STATE_CLOSED);
	connfix_break_link(f, f->link);
	assert_false(connfix_gone(f));
	expect_on(f, f->link2);
	expect_validation(f, 0);
	expect_flags(f, 0, C);
	f->events_seen = f->num_events;
	connfix_complete(f);
	expect_closed(f, false);
	assert_true(connfix_gone(f));
	connfix_free(f);

	/* The same for the A that answers an A. */
	f = with_links(2);
	connfix_peer_flags(f, 0, A);
	expect_event(f, SMCR_CONN_RESET);
	expect_flags(f, 0, A);
	connfix_break_link(f, f->link);
	expect_validation(f, 0);
	expect_flags(f, 0, A);
	connfix_complete(f);
	expect_closed(f, true);
	connfix_free(f);
	PROVES("FO-9 ABORT-1");
}

/* D waits for the last completions, and the link fails before that. Data are sent again, and D
 * when they have completed. */
static void end_comes_after_the_replay(void **state)
{
	(void)state;
	struct connfix *f = with_links(2);
	connfix_write(f, 100);
	smcr_conn_shutdown(f->conn);
	caught_up(f);
	connfix_break_link(f, f->link);
	expect_validation(f, 0);
	expect_w(f, 4, 103);
	expect_cdc(f, 0, 104, 0, 4, 0, 0);
	expect_none(f);
	connfix_complete(f);
	expect_flags(f, 0, D);
	connfix_free(f);
	PROVES("FO-9 CLOSE-2");
}

/* A connection whose link has failed while 100 bytes were on their way. */
static struct connfix *moving(void)
{
	struct connfix *f = with_links(2);
	connfix_write(f, 100);
	caught_up(f);
	smcr_link_fail(f->link, SMCR_LLC_DEL_LOST_PATH, "broken by the test");
	connfix_run(f, 0);
	return f;
}

/* A connection that is aborted while it moves replays no data: validation and A. */
static void abort_while_moving(void **state)
{
	(void)state;
	struct connfix *f = moving();
	smcr_close_local_abort(f->conn, ECONNRESET, "aborted by the test");
	expect_event(f, SMCR_CONN_RESET);
	expect_none(f);
	connfix_break_link(f, f->link);
	expect_validation(f, 0);
	expect_flags(f, 0, A);
	connfix_free(f);
	PROVES("FO-3 ABORT-1");
}

/* The program shuts writing down and closes with bytes unread while the connection moves. D goes
 * with A, as on a link that works: the peer knows whether all data have arrived. */
static void shut_and_abort_while_moving(void **state)
{
	(void)state;
	struct connfix *f = moving();
	smcr_conn_shutdown(f->conn);
	smcr_conn_close(f->conn, true);
	expect_none(f);
	connfix_break_link(f, f->link);
	expect_validation(f, 0);
	expect_flags(f, 0, D | A);
	expect_no_event(f);
	connfix_complete(f);
	expect_closed(f, true);
	connfix_free(f);
}

/* ---- choice of the link ---- */

/* A link needs an RToken of the peer's RMB. A disabled link is used if there is no other. Without
 * a link the connection waits, and ends with the group. */
static void choice(void **state)
{
	(void)state;
	struct connfix *f = with_links(3);
	f->conn->tx.rmb->token[f->link2->slot].valid = false;
	connfix_break_link(f, f->link);
	assert_ptr_equal(f->conn->tx.link, f->link3);
	connfix_free(f);

	f = with_links(3);
	f->link2->disabled = true;
	connfix_break_link(f, f->link);
	assert_ptr_equal(f->conn->tx.link, f->link3);
	connfix_complete(f);
	connfix_break_link(f, f->link3);
	assert_ptr_equal(f->conn->tx.link, f->link2);
	connfix_free(f);

	f = with_links(2);
	f->link2->state = SMCR_LINK_ACTIVATING;
	connfix_write(f, 10);
	caught_up(f);
	smcr_failover_move(f->conn, NULL);
	connfix_complete(f);
	connfix_write(f, 10);
	expect_none(f);
	f->link2->state = SMCR_LINK_ACTIVE;
	f->link->state = SMCR_LINK_FAILED;
	smcr_failover_rebalance(f->lgr);
	expect_on(f, f->link2);
	expect_validation(f, 1);
	expect_w(f, 14, 23);
	f->link->state = SMCR_LINK_ACTIVE;
	connfix_free(f);

	f = with_links(1);
	connfix_break_link(f, f->link);
	expect_event(f, SMCR_CONN_RESET);
	expect_closed(f, true);
	connfix_free(f);
	PROVES("RMB-10 FO-13 LG-17");
}

/* For balance, or because an operator asks: requests in flight complete first, and nothing is
 * replayed (FO-11). */
static void voluntary_move(void **state)
{
	(void)state;
	struct connfix *f = with_links(2);
	connfix_write(f, 100);
	connfix_write(f, 50);
	caught_up(f);
	assert_int_equal(smcr_failover_move_all(f->link, NULL), 1);
	assert_ptr_equal(f->conn->tx.link, f->link2);
	connfix_write(f, 10);
	connfix_complete_n(f, 3);
	expect_none(f);
	connfix_complete(f);
	expect_on(f, f->link2);
	expect_validation(f, 2);
	expect_w(f, 154, 163);
	expect_cdc(f, 0, 164, 0, 4, 0, 0);
	assert_int_equal(f->link->num_conns, 0);
	assert_int_equal(f->link2->num_conns, 1);
	/* The old link does not matter any more. */
	connfix_complete(f);
	connfix_break_link(f, f->link);
	expect_none(f);
	connfix_free(f);
	PROVES("FO-3 FO-11 FO-12");
}

/* The connection moves back before it has left the first link. */
static void moves_there_and_back(void **state)
{
	(void)state;
	struct connfix *f = with_links(2);
	connfix_write(f, 100);
	caught_up(f);
	smcr_failover_move(f->conn, f->link2);
	smcr_failover_move(f->conn, f->link);
	expect_none(f);
	connfix_complete(f);
	expect_on(f, f->link);
	expect_validation(f, 1);
	expect_none(f);
	connfix_free(f);
	PROVES("FO-11");
}

/* The requests of the failover wait until the send queue of the new link takes all of them. */
static void room_on_the_new_link(void **state)
{
	(void)state;
	struct connfix_params params = { .links = 2, .send_depth = 64 };
	struct connfix *f = connfix_new(&params);
	struct smcr_wr wr = { .addr = "x", .length = 1 };
	const struct smcr_tx_entry entry = { .kind = SMCR_TX_WRITE };
	connfix_write(f, 100);
	while (smcr_link_room(f->link2, 1))
		smcr_link_post(f->link2, &wr, &entry, 1);
	f->num_posts = f->seen = 2;
	f->out_seq = 1;
	connfix_break_link(f, f->link);
	expect_none(f);
	smcr_engine_send_done(f->engine, f->link2->ref, f->link2->tx_next - 1, SMCR_SEND_OK, NULL);
	expect_validation(f, 0);
	expect_w(f, 4, 103);
	expect_cdc(f, 0, 104, 0, 4, 0, 0);
	connfix_free(f);
	PROVES("FO-4");
}

/* ---- receiving ---- */

static void validation(struct connfix *f, uint16_t seq)
{
	connfix_inject(f, &(struct smcr_cdc){ .seq = seq, .prod_flags = SMCR_CDC_FAILOVER });
}

/* The receiver goes on if the last sequence number it has is at least the number of the
 * validation; otherwise data are lost. The comparison is serial. */
static void judged(void **state)
{
	(void)state;
	static const struct {
		uint16_t received, number;
		bool lost;
	} rows[] = {
		{ 0, 0, false },         { 0, 1, true },     { 1, 0, false },
		{ 5, 5, false },         { 5, 6, true },     { 5, 4, false },
		{ 65535, 65535, false }, { 65535, 0, true }, { 0, 65535, false },
		{ 2, 65534, false },     { 65534, 2, true },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		struct connfix *f = with_links(1);
		f->conn->rx.cdc_seq = rows[i].received;
		validation(f, rows[i].number);
		if (rows[i].lost) {
			expect_event(f, SMCR_CONN_RESET);
			expect_flags(f, 0, A);
			expect_state(f, SMCR_STATE_PEER_ABORT_WAIT);
		} else {
			expect_no_event(f);
			expect_none(f);
			assert_int_equal(f->conn->rx.cdc_seq, rows[i].received);
		}
		connfix_free(f);
	}
	PROVES("FO-6 FO-7");
}

/* Of a validation only token, number and F count: its cursors of zero mean nothing. A replayed CDC
 * that the receiver has already is dropped. */
static void validation_says_nothing_else(void **state)
{
	(void)state;
	struct connfix *f = with_links(1);
	connfix_peer_writes(f, 100);
	connfix_peer_cdc(f);
	f->events_seen = f->num_events;
	validation(f, 1);
	assert_int_equal(connfix_readable(f), 100);
	expect_no_event(f);
	f->in_seq = 0; /* CDC 1 again, as peers send it that replay without changes */
	connfix_peer_cdc(f);
	expect_no_event(f);
	assert_int_equal(f->engine->count.cdc_dropped_old, 1);
	connfix_peer_writes(f, 10);
	connfix_peer_cdc(f);
	assert_int_equal(connfix_readable(f), 110);
	connfix_free(f);
	PROVES("FO-4 FO-14 CDC-3");
}

/* The validation comes before the gate opens: it is compared with what came before it. */
static void before_the_gate(void **state)
{
	(void)state;
	struct connfix_params params = { .gate_shut = true };
	for (uint16_t number = 0; number < 3; number++) {
		TRIES("number %u", number);
		struct connfix *f = connfix_new(&params);
		connfix_peer_cdc(f); /* number 1 */
		validation(f, number);
		connfix_open(f);
		if (number == 2)
			assert_int_equal(f->conn->state, SMCR_STATE_PEER_ABORT_WAIT);
		else
			expect_state(f, SMCR_STATE_ACTIVE);
		connfix_free(f);
	}
	PROVES("FO-7 RV-13");
}

/* ---- both sides ---- */

static const struct connfix_params joined = { .links = 3, .element = 4096 };

/* The link breaks at every point, with any part of the messages arrived and any part known to have
 * arrived: each byte comes once. */
static void every_point(void **state)
{
	(void)state;
	for (size_t arrived = 0; arrived <= 6; arrived++) {
		TRIES("arrived %zu", arrived);
		for (size_t known = 0; known <= arrived; known++) {
			TRIES("known %zu", known);
			struct connfix *a, *b;
			connfix_new_pair(&joined, &joined, &a, &b);
			connfix_write(a, 1000);
			connfix_write(a, 2000);
			connfix_write(a, 500); /* 3 x (W, CDC) */
			size_t all = a->num_posts;
			assert_int_equal(all, 6);
			a->num_posts = arrived;
			connfix_deliver(a);
			a->num_posts = all;
			connfix_complete_n(a, known);
			connfix_lose(a);
			connfix_break_link(a, a->link);
			connfix_deliver(a);
			assert_int_equal(connfix_readable(b), 3500);
			connfix_read(b, 3500);
			connfix_deliver(b);
			connfix_complete(b);
			connfix_complete(a);
			connfix_write(a, 4000);
			connfix_deliver(a);
			connfix_read(b, 4000);
			assert_false(connfix_gone(a) || connfix_gone(b));
			connfix_free(a);
			connfix_free(b);
		}
	}
	PROVES("FO-2 FO-7 FO-9 FO-10");
}

/* The RNIC acknowledged a message, but the peer never got it: the receiver notices. */
static void acknowledged_and_lost(void **state)
{
	(void)state;
	struct connfix *a, *b;
	connfix_new_pair(&joined, &joined, &a, &b);
	connfix_write(a, 1000);
	connfix_complete(a);
	connfix_lose(a);
	connfix_break_link(a, a->link);
	connfix_deliver(a);
	expect_event(b, SMCR_CONN_RESET);
	connfix_free(a);
	connfix_free(b);
	PROVES("FO-7");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(idle_connection),
		cmocka_unit_test(all_completed),
		cmocka_unit_test(nothing_completed),
		cmocka_unit_test(write_completed_only),
		cmocka_unit_test(what_a_failure_shows),
		cmocka_unit_test(consumed_is_skipped),
		cmocka_unit_test(replay_wraps_and_takes_new_data),
		cmocka_unit_test(window_shut),
		cmocka_unit_test(double_failure),
		cmocka_unit_test(ends_are_repeated),
		cmocka_unit_test(last_word_of_a_closed_connection),
		cmocka_unit_test(end_comes_after_the_replay),
		cmocka_unit_test(abort_while_moving),
		cmocka_unit_test(shut_and_abort_while_moving),
		cmocka_unit_test(choice),
		cmocka_unit_test(voluntary_move),
		cmocka_unit_test(moves_there_and_back),
		cmocka_unit_test(room_on_the_new_link),
		cmocka_unit_test(judged),
		cmocka_unit_test(validation_says_nothing_else),
		cmocka_unit_test(before_the_gate),
		cmocka_unit_test(every_point),
		cmocka_unit_test(acknowledged_and_lost),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

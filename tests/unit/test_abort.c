/* SPDX-License-Identifier: MIT */
/* Abnormal termination (RFC 7609 4.8.2, 4.8.3): each event of group ABORT of requirements.tsv in
 * every state in which it can come; loss of links; RMB-9. */
#include "tests/lib/connfix.h"

#include <errno.h>
#include <string.h>

#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define D SMCR_CDC_SENDING_DONE
#define C SMCR_CDC_CLOSED
#define A SMCR_CDC_ABORT

#define SECOND 1000000ull

static void peer(struct connfix *f, uint8_t conn_flags)
{
	connfix_peer_reads_all(f);
	connfix_peer_flags(f, 0, conn_flags);
}

/* ---- the states in which the own C is not sent ---- */

static void to_active(struct connfix *f)
{
	(void)f;
}

static void to_peer_close_wait_1(struct connfix *f)
{
	smcr_conn_shutdown(f->conn);
	connfix_complete(f);
}

static void to_peer_close_wait_2(struct connfix *f)
{
	to_peer_close_wait_1(f);
	peer(f, D);
}

static void to_app_close_wait_1(struct connfix *f)
{
	peer(f, D);
}

static void to_app_close_wait_2(struct connfix *f)
{
	peer(f, D);
	smcr_conn_shutdown(f->conn);
	connfix_complete(f);
}

static const struct {
	void (*enter)(struct connfix *f);
	enum smcr_conn_state state;
} states[] = {
	{ to_active, SMCR_STATE_ACTIVE },
	{ to_peer_close_wait_1, SMCR_STATE_PEER_CLOSE_WAIT_1 },
	{ to_peer_close_wait_2, SMCR_STATE_PEER_CLOSE_WAIT_2 },
	{ to_app_close_wait_1, SMCR_STATE_APP_CLOSE_WAIT_1 },
	{ to_app_close_wait_2, SMCR_STATE_APP_CLOSE_WAIT_2 },
};
#define NUM_STATES (sizeof(states) / sizeof(states[0]))

/* The checks that follow look only at what happens from now on. */
static void caught_up(struct connfix *f)
{
	f->events_seen = f->num_events;
	f->seen = f->num_posts;
	f->out_seq = f->conn->tx.cdc_seq;
}

static struct connfix *in_state(size_t i)
{
	struct connfix *f = connfix_new(NULL);
	states[i].enter(f);
	expect_state(f, states[i].state);
	caught_up(f);
	return f;
}

/* ---- local causes ---- */

/* RST is taken when A has had time to come. */
static void cause_tcp_reset(struct connfix *f)
{
	smcr_conn_tcp_event(f->conn, SMCR_TCP_RESET);
	connfix_run(f, SECOND / 10 - 1);
	expect_no_event(f);
	connfix_run(f, 1);
}

static void cause_application(struct connfix *f)
{
	smcr_conn_abort(f->conn);
}

static void cause_unread(struct connfix *f)
{
	smcr_conn_close(f->conn, true);
}

static void cause_integrity(struct connfix *f)
{
	f->peer_prod += 20000;
	connfix_peer_cdc(f);
}

static void cause_engine(struct connfix *f)
{
	smcr_close_local_abort(f->conn, ETIMEDOUT, "its end stalled");
}

static const struct {
	const char *name;
	void (*happen)(struct connfix *f);
	bool closes; /* the program is gone after this cause */
} causes[] = {
	{ "TCP reset", cause_tcp_reset, false },
	{ "abort of the program", cause_application, true },
	{ "close with unread data", cause_unread, true },
	{ "wrong cursor", cause_integrity, false },
	{ "abort of the engine", cause_engine, false },
};
#define NUM_CAUSES (sizeof(causes) / sizeof(causes[0]))

/* The program may still get what came before A or RST. After a broken rule nothing from the peer is
 * trusted. */
static void last_data(void **state)
{
	(void)state;
	static const struct {
		void (*happen)(struct connfix *f);
		size_t readable;
	} ends[] = { { NULL, 10 }, { cause_tcp_reset, 10 }, { cause_integrity, 0 } };
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		TRIES("row %zu", i);
		struct connfix *f = in_state(0);
		connfix_peer_writes(f, 10);
		connfix_peer_cdc(f);
		caught_up(f);
		if (ends[i].happen)
			ends[i].happen(f);
		else
			connfix_peer_flags(f, 0, A);
		expect_event(f, SMCR_CONN_RESET);
		assert_int_equal(f->readable_in_reset, ends[i].readable);
		assert_int_equal(connfix_readable(f), 0);
		connfix_free(f);
	}
}

/* Did the peer end its data before the reset? Then the program gets end of file behind them. */
static void end_of_data_before_the_reset(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		uint8_t before, last; /* flags of two messages; last 0: TCP is reset instead */
		size_t missing;       /* bytes that only the last message tells of */
		bool ended;
	} rows[] = {
		{ "A", 0, A, 0, false },
		{ "D and A", 0, D | A, 0, true },
		{ "D, then both", D, D | A, 0, true },
		{ "D, then RST", D, 0, 0, true },
		{ "C, then RST", C, 0, 0, true },
		{ "RST", 0, 0, 0, false },
		{ "D and A, and data are missing", 0, D | A, 5, false },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("%s", rows[i].name);
		struct connfix *f = in_state(0);
		connfix_peer_writes(f, 10);
		connfix_peer_flags(f, 0, rows[i].before);
		caught_up(f);
		f->peer_prod += rows[i].missing;
		if (rows[i].last)
			connfix_peer_flags(f, 0, rows[i].last);
		else
			cause_tcp_reset(f);
		expect_event(f, SMCR_CONN_RESET);
		assert_int_equal(f->readable_in_reset, 10);
		assert_int_equal(f->events[f->num_events - 1].rx_ended, rows[i].ended);
		connfix_free(f);
	}
}

/* The program shuts writing down and aborts before D was posted: D goes with A if all that the
 * program wrote was written. */
static void shut_before_the_abort(void **state)
{
	(void)state;
	static const struct {
		size_t len;
		uint8_t prod_flags, conn_flags;
	} rows[] = { { 100, 0, A | D }, { 12000, SMCR_CDC_WRITE_BLOCKED, A } };
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("%zu bytes", rows[i].len);
		struct connfix *f = in_state(0);
		connfix_write(f, rows[i].len);
		smcr_conn_shutdown(f->conn);
		caught_up(f);
		cause_unread(f);
		expect_flags(f, rows[i].prod_flags, rows[i].conn_flags);
		connfix_complete(f);
		expect_closed(f, true);
		connfix_free(f);
	}
}

static void local_cause(void **state)
{
	(void)state;
	for (size_t i = 0; i < NUM_STATES; i++) {
		TRIES("%s", smcr_conn_state_name((int)states[i].state));
		for (size_t j = 0; j < NUM_CAUSES; j++) {
			TRIES("%s", causes[j].name);
			struct connfix *f = in_state(i);
			uint8_t d = f->conn->tx.done_sent ? D : 0;
			causes[j].happen(f);
			if (!causes[j].closes)
				expect_event(f, SMCR_CONN_RESET);
			expect_no_event(f);
			expect_flags(f, 0, A | d);
			expect_state(f, SMCR_STATE_PEER_ABORT_WAIT);
			/* Data from the peer are ignored, calls of the program do nothing. */
			connfix_peer_writes(f, 10);
			connfix_peer_flags(f, SMCR_CDC_CONS_UPDATE_REQ, 0);
			assert_int_equal(connfix_readable(f), 0);
			assert_int_equal(connfix_space(f), 0);
			smcr_conn_tx_commit(f->conn, 1);
			smcr_conn_rx_consume(f->conn, 1);
			smcr_conn_shutdown(f->conn);
			smcr_conn_tcp_event(f->conn, SMCR_TCP_RESET);
			smcr_conn_tcp_event(f->conn, SMCR_TCP_FIN);
			expect_no_event(f);
			connfix_complete(f);
			if (causes[j].closes) /* A has arrived, and TCP is reset */
				expect_closed(f, true);
			connfix_run(f, 2 * SECOND);
			expect_no_event(f);
			expect_none(f); /* CDC-13 */
			expect_state(f, SMCR_STATE_PEER_ABORT_WAIT);
			connfix_free(f);
		}
	}
	PROVES("ABORT-1 ABORT-2 CDC-13");
}

/* The program's own close resets: RST must not overtake A and the data before A. But where A does
 * not arrive, RST does not wait for long. */
static void reset_waits_for_the_arrival_of_abort(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		bool completes, answered;
	} rows[] = { { "A arrives", true, false },
		     { "the peer answers", false, true },
		     { "A does not arrive", false, false } };
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("%s", rows[i].name);
		struct connfix *f = in_state(0);
		connfix_write(f, 100);
		caught_up(f);
		cause_unread(f);
		expect_flags(f, 0, A);
		connfix_run(f, SECOND - 1);
		expect_no_event(f);
		if (rows[i].answered)
			connfix_peer_flags(f, 0, A);
		if (rows[i].completes)
			connfix_complete(f);
		else
			connfix_run(f, 1);
		expect_closed(f, true);
		connfix_complete(f);
		expect_no_event(f);
		connfix_free(f);
	}
	PROVES("ABORT-2");
}

/* RST has come, and something else ends the connection before A does: the program may read what
 * came before the RST. */
static void other_end_behind_the_reset(void **state)
{
	(void)state;
	for (int group_ends = 0; group_ends < 2; group_ends++) {
		TRIES("%d", group_ends);
		struct connfix *f = in_state(0);
		connfix_peer_writes(f, 100);
		connfix_peer_cdc(f);
		expect_event(f, SMCR_CONN_READABLE);
		smcr_conn_tcp_event(f->conn, SMCR_TCP_RESET);
		expect_no_event(f);
		if (group_ends)
			connfix_break_link(f, f->link);
		else
			smcr_close_evict(f->conn);
		expect_event(f, SMCR_CONN_RESET);
		assert_true(f->events[f->events_seen - 1].rx_intact);
		assert_int_equal(f->readable_in_reset, 100);
		connfix_free(f);
	}
	PROVES("ABORT-2");
}

/* The peer has closed and takes nothing more: its program's bytes, and their end, have all come. */
static void answer_before_a_close_that_takes_nothing_more(void **state)
{
	(void)state;
	for (int rst = 0; rst < 2; rst++) {
		TRIES("%d", rst);
		struct connfix *f = connfix_new(NULL);
		connfix_write(f, 20000); /* more than the peer's element has room for */
		connfix_peer_writes(f, 100);
		if (rst)
			smcr_conn_tcp_event(f->conn, SMCR_TCP_RESET);
		connfix_peer_flags(f, 0, C);
		expect_event(f, SMCR_CONN_RESET);
		assert_true(f->events[f->events_seen - 1].rx_intact);
		assert_true(f->events[f->events_seen - 1].rx_ended);
		assert_int_equal(f->readable_in_reset, 100);
		connfix_complete(f);
		connfix_free(f);
	}
	PROVES("ABORT-2");
}

static void peer_abort_wait_answered(void **state)
{
	(void)state;
	for (size_t i = 0; i < NUM_STATES; i++) {
		TRIES("%s", smcr_conn_state_name((int)states[i].state));
		struct connfix *f = in_state(i);
		cause_tcp_reset(f);
		expect_event(f, SMCR_CONN_RESET);
		connfix_complete(f);
		peer(f, A);
		expect_closed(f, true);
		assert_true(connfix_gone(f));
		connfix_free(f);
	}
	PROVES("ABORT-1");
}

static void peer_abort_wait_timer(void **state)
{
	(void)state;
	struct connfix *f = in_state(0);
	cause_tcp_reset(f);
	expect_event(f, SMCR_CONN_RESET);
	connfix_complete(f);
	connfix_run(f, 10 * SECOND - 1);
	expect_no_event(f);
	connfix_run(f, 1);
	expect_closed(f, true);
	assert_true(connfix_gone(f));
	connfix_free(f);

	/* Without completions the buffers are still in use, and the element stays taken. */
	f = in_state(0);
	connfix_write(f, 100);
	smcr_conn_abort(f->conn);
	connfix_run(f, 20 * SECOND);
	expect_closed(f, true);
	assert_false(connfix_gone(f));
	connfix_complete(f);
	assert_true(connfix_gone(f));
	connfix_free(f);
	PROVES("ABORT-1 ABORT-4 ABORT-5");
}

/* ---- A from the peer ---- */

static void abort_received(void **state)
{
	(void)state;
	for (size_t i = 0; i < NUM_STATES; i++) {
		TRIES("%s", smcr_conn_state_name((int)states[i].state));
		struct connfix *f = in_state(i);
		uint8_t d = f->conn->tx.done_sent ? D : 0;
		if (!d) { /* unsent data are discarded */
			connfix_write(f, 12000);
			connfix_complete(f);
			caught_up(f);
		}
		if (!f->conn->rx.done) { /* unread data are discarded */
			connfix_peer_writes(f, 10);
			connfix_peer_cdc(f);
			caught_up(f);
		}
		connfix_peer_flags(f, 0, A);
		expect_event(f, SMCR_CONN_RESET);
		assert_int_equal(f->events[f->num_events - 1].error, ECONNRESET);
		assert_int_equal(connfix_readable(f), 0);
		expect_flags(f, d ? 0 : SMCR_CDC_WRITE_BLOCKED, A | d);
		expect_state(f, SMCR_STATE_PROCESS_ABORT);
		smcr_conn_tcp_event(f->conn, SMCR_TCP_RESET); /* ABORT-2: RST after A */
		expect_no_event(f);
		connfix_complete(f);
		expect_closed(f, true);
		assert_true(connfix_gone(f));
		connfix_free(f);
	}
	PROVES("ABORT-1 ABORT-2 ABORT-5");
}

/* The own A is on its way. A second A of the peer changes nothing, and does not end the wait for
 * the arrival of the own one. */
static void abort_received_twice(void **state)
{
	(void)state;
	struct connfix *f = in_state(0);
	connfix_peer_flags(f, 0, A);
	expect_event(f, SMCR_CONN_RESET);
	expect_flags(f, 0, A);
	connfix_peer_flags(f, 0, A);
	expect_no_event(f);
	expect_state(f, SMCR_STATE_PROCESS_ABORT);
	connfix_complete(f);
	expect_closed(f, true);
	assert_true(connfix_gone(f));
	connfix_free(f);
	PROVES("ABORT-1");
}

/* A counts whatever else is in the message. */
static void abort_with_nonsense(void **state)
{
	(void)state;
	struct connfix *f = in_state(0);
	struct smcr_cdc cdc = {
		.seq = 1,
		.producer = { 9, 77777 },
		.consumer = { 8, 1 },
		.conn_flags = A | C | D,
	};
	connfix_inject(f, &cdc);
	expect_event(f, SMCR_CONN_RESET);
	expect_state(f, SMCR_STATE_PROCESS_ABORT);
	assert_int_equal(f->log_lines, 0);
	connfix_free(f);
	PROVES("ABORT-1 SEC-6");
}

/* The program had closed, and C was waiting for completions: the program is told once. */
static void abort_received_while_closing(void **state)
{
	(void)state;
	struct connfix *f = in_state(0);
	connfix_write(f, 10);
	smcr_conn_close(f->conn, false);
	caught_up(f);
	connfix_peer_flags(f, 0, A);
	expect_closed(f, true);
	expect_flags(f, 0, A);
	connfix_complete(f);
	expect_no_event(f);
	assert_true(connfix_gone(f));
	connfix_free(f);
	PROVES("ABORT-1");
}

/* ---- the own C is already sent ---- */

static struct connfix *own_closed_sent(bool completed)
{
	struct connfix *f = in_state(0);
	smcr_conn_close(f->conn, false);
	expect_flags(f, 0, C);
	if (completed)
		connfix_complete(f);
	return f;
}

static void own_closed_sent_abort_received(void **state)
{
	(void)state;
	struct connfix *f = own_closed_sent(true);
	peer(f, A);
	expect_closed(f, true);
	assert_true(connfix_gone(f));
	expect_none(f);
	connfix_free(f);

	f = own_closed_sent(false); /* C is still on its way */
	peer(f, A);
	expect_closed(f, true);
	assert_false(connfix_gone(f));
	expect_none(f);
	connfix_complete(f);
	assert_true(connfix_gone(f));
	connfix_free(f);
	PROVES("ABORT-1 CDC-13");
}

/* TCP is reset at once and nothing is posted. The element is not given to another connection until
 * the peer says C or A, or the timer runs out (RMB-8, A42). */
static void own_closed_sent_cause(void **state)
{
	(void)state;
	static const uint8_t answers[] = { A, C, 0 };
	for (size_t i = 0; i < sizeof(answers); i++) {
		TRIES("row %zu", i);
		struct connfix *f = own_closed_sent(true);
		cause_tcp_reset(f);
		expect_closed(f, true);
		assert_false(connfix_gone(f));
		if (answers[i])
			peer(f, answers[i]);
		else
			connfix_run(f, 10 * SECOND);
		assert_true(connfix_gone(f));
		expect_none(f);
		connfix_free(f);
	}
	PROVES("ABORT-1 RMB-8 CDC-13");
}

/* ---- no usable link ---- */

static void no_link(void **state)
{
	(void)state;
	for (size_t i = 0; i < NUM_STATES; i++) {
		TRIES("%s", smcr_conn_state_name((int)states[i].state));
		struct connfix *f = in_state(i);
		if (!f->conn->tx.done_sent)
			connfix_write(f, 100);
		caught_up(f);
		connfix_break_link(f, f->link);
		expect_event(f, SMCR_CONN_RESET);
		expect_closed(f, true);
		assert_true(connfix_gone(f));
		expect_none(f); /* there is no link to send A on */
		connfix_free(f);
	}
	PROVES("ABORT-1 FO-13 GEN-5");
}

static void no_link_after_close(void **state)
{
	(void)state;
	struct connfix *f = own_closed_sent(true);
	connfix_break_link(f, f->link);
	expect_closed(f, true);
	assert_true(connfix_gone(f));
	connfix_free(f);

	f = in_state(0); /* in the middle of an abort */
	smcr_conn_abort(f->conn);
	expect_no_event(f);
	connfix_break_link(f, f->link);
	expect_closed(f, true);
	assert_true(connfix_gone(f));
	connfix_free(f);
	PROVES("ABORT-5 FO-13");
}

/* The device refuses a request while the program writes. The program is told later, by a timer. */
static void post_fails(void **state)
{
	(void)state;
	struct connfix *f = in_state(0);
	f->post_fails = true;
	connfix_write(f, 100);
	expect_no_event(f);
	connfix_write(f, 100); /* the program may still write */
	connfix_run(f, 0);
	expect_event(f, SMCR_CONN_RESET);
	expect_closed(f, true);
	assert_true(connfix_gone(f));
	connfix_free(f);
	PROVES("GEN-5 ABORT-5");
}

/* The host took requests, and then could not post the last of them. The connection waits for
 * completions of those that were posted. */
static void posting_fails_later(void **state)
{
	(void)state;
	struct connfix *f = in_state(0);
	const size_t before = f->num_posts;
	connfix_write(f, 100);
	connfix_write(f, 100);
	assert_int_equal(f->num_posts, before + 4); /* each call posts a write and its CDC */
	const struct connfix_post *first = &f->posts[before + 1], *lost = &f->posts[before + 2];
	smcr_engine_not_posted(f->engine, lost->link_ref, lost->wr_id, "of the test");
	assert_int_equal(f->conn->tx.outstanding, 4);
	smcr_engine_send_done(f->engine, first->link_ref, first->wr_id, SMCR_SEND_OK, NULL);
	assert_int_equal(f->conn->tx.outstanding, 0);
	connfix_run(f, 0);
	expect_event(f, SMCR_CONN_RESET);
	expect_closed(f, true);
	assert_true(connfix_gone(f));
	connfix_free(f);
}

/* If the group has another link, the program notices nothing. */
static void link_lost_other_left(void **state)
{
	(void)state;
	struct connfix_params params = { .links = 2 };
	struct connfix *f = connfix_new(&params);
	connfix_write(f, 100);
	caught_up(f);
	connfix_break_link(f, f->link);
	expect_no_event(f);
	expect_state(f, SMCR_STATE_ACTIVE);
	assert_ptr_equal(f->conn->tx.link, f->link2);
	connfix_free(f);

	/* The own C has completed: the link does not matter any more. */
	f = connfix_new(&params);
	smcr_conn_close(f->conn, false);
	connfix_complete(f);
	connfix_break_link(f, f->link);
	expect_no_event(f);
	expect_state(f, SMCR_STATE_PEER_CLOSE_WAIT_1);
	connfix_peer_flags(f, 0, C);
	expect_closed(f, false);
	connfix_free(f);
	PROVES("GEN-5");
}

/* The peer aborts while the send queue is full: the own A is sent once an earlier request
 * completes. */
static void answer_waits_for_room(void **state)
{
	(void)state;
	struct connfix_params params = { .send_depth = 64 };
	struct connfix *f = connfix_new(&params);
	struct smcr_wr wr = { .addr = "x", .length = 1 };
	const struct smcr_tx_entry entry = { .kind = SMCR_TX_WRITE };
	connfix_write(f, 100);
	caught_up(f);
	while (smcr_link_room(f->link, 1))
		smcr_link_post(f->link, &wr, &entry, 1);
	f->num_posts = f->seen = 2; /* other connections posted these */
	connfix_peer_flags(f, 0, A);
	expect_event(f, SMCR_CONN_RESET);
	expect_none(f);
	smcr_engine_send_done(f->engine, f->link->ref, f->posts[1].wr_id, SMCR_SEND_OK, NULL);
	expect_no_event(f);
	expect_flags(f, 0, A);
	smcr_engine_send_done(f->engine, f->link->ref, f->link->tx_next - 1, SMCR_SEND_OK, NULL);
	expect_closed(f, true);
	assert_true(connfix_gone(f));
	connfix_free(f);
	PROVES("ABORT-1");
}

/* A waits for a place in the send queue, and its link fails: A is sent on the next link. */
static void abort_waits_for_room(void **state)
{
	(void)state;
	struct connfix_params params = { .links = 2, .send_depth = 64 };
	struct connfix *f = connfix_new(&params);
	struct smcr_wr wr = { .addr = "x", .length = 1 };
	const struct smcr_tx_entry entry = { .kind = SMCR_TX_WRITE };
	while (smcr_link_room(f->link, 1))
		smcr_link_post(f->link, &wr, &entry, 1);
	cause_tcp_reset(f);
	expect_event(f, SMCR_CONN_RESET);
	expect_none(f);
	/* ABORT-3: the A of the peer crosses; the peer waits for the own A all the same. */
	connfix_peer_flags(f, 0, A);
	expect_no_event(f);
	expect_state(f, SMCR_STATE_PROCESS_ABORT);
	smcr_link_fail(f->link, SMCR_LLC_DEL_LOST_PATH, "broken by the test");
	connfix_run(f, 0);
	expect_validation(f, 0);
	expect_flags(f, 0, A);
	connfix_complete(f);
	expect_closed(f, true);
	assert_true(connfix_gone(f));
	connfix_free(f);
	PROVES("ABORT-3 ABORT-5");
}

/* ---- two engines ---- */

static void both_abort_at_once(void **state)
{
	(void)state;
	struct connfix *a, *b;
	connfix_new_pair(NULL, NULL, &a, &b);
	connfix_write(a, 100);
	connfix_write(b, 100);
	smcr_conn_abort(a->conn);
	smcr_conn_abort(b->conn);
	connfix_complete(a);
	connfix_complete(b);
	connfix_deliver(a);
	connfix_deliver(b);
	expect_closed(a, true);
	expect_closed(b, true);
	assert_true(connfix_gone(a) && connfix_gone(b));
	connfix_free(a);
	connfix_free(b);
	PROVES("ABORT-3");
}

/* ABORT-2: the other side ends in the same way whether RST or A comes first, and its program may
 * read what was written before, as with TCP. */
static void reset_and_abort_in_either_order(void **state)
{
	(void)state;
	for (unsigned int rst_first = 0; rst_first < 2; rst_first++) {
		TRIES("rst first %u", rst_first);
		struct connfix *a, *b;
		connfix_new_pair(NULL, NULL, &a, &b);
		connfix_write(b, 300);
		connfix_write(a, 200);
		smcr_conn_shutdown(a->conn);
		smcr_conn_abort(a->conn);
		if (rst_first)
			smcr_conn_tcp_event(b->conn, SMCR_TCP_RESET);
		connfix_deliver(a);
		connfix_complete(a);
		if (!rst_first)
			smcr_conn_tcp_event(b->conn, SMCR_TCP_RESET);
		expect_event(b, SMCR_CONN_READABLE);
		expect_event(b, SMCR_CONN_RESET);
		assert_int_equal(b->readable_in_reset, 200);
		assert_true(b->events[b->num_events - 1].rx_ended);
		connfix_deliver(b);
		connfix_complete(b);
		expect_closed(b, true);
		expect_closed(a, true);
		assert_true(connfix_gone(a) && connfix_gone(b));
		connfix_free(a);
		connfix_free(b);
	}
	PROVES("ABORT-2");
}

/* ---- end of the group, reuse of the element ---- */

static void killed(void **state)
{
	(void)state;
	struct connfix *f = in_state(0);
	connfix_peer_writes(f, 10);
	connfix_peer_cdc(f);
	connfix_write(f, 100); /* outstanding: the send buffer outlives the connection */
	caught_up(f);
	smcr_close_kill(f->conn, ECONNRESET);
	expect_event(f, SMCR_CONN_RESET);
	expect_closed(f, true);
	assert_true(connfix_gone(f));
	expect_none(f);
	connfix_complete(f);
	connfix_free(f);

	f = own_closed_sent(false); /* both sides have sent C: the end stays orderly */
	peer(f, C);
	smcr_close_kill(f->conn, ECONNRESET);
	expect_closed(f, false);
	assert_true(connfix_gone(f));
	connfix_free(f);
	PROVES("ABORT-5 FO-13");
}

/* RMB-9: the peer has given the element that this side writes into to a new connection. */
static void evicted(void **state)
{
	(void)state;
	static const uint8_t answers[] = { A, C, 0 };
	for (size_t i = 0; i < sizeof(answers); i++) {
		TRIES("row %zu", i);
		struct connfix *f = in_state(0);
		struct smcr_peer_rmb *rmb = f->conn->tx.rmb;
		connfix_peer_writes(f, 10);
		connfix_peer_cdc(f);
		connfix_write(f, 12000);
		connfix_complete(f);
		caught_up(f);
		smcr_close_evict(f->conn);
		expect_event(f, SMCR_CONN_RESET);
		assert_int_equal(connfix_readable(f), 0); /* unread data are ignored */
		/* the new connection may take the own element */
		assert_int_equal(rmb->users, 0);
		if (answers[i])
			peer(f, answers[i]);
		else
			connfix_run(f, 10 * SECOND);
		expect_closed(f, true);
		assert_true(connfix_gone(f));
		expect_none(f); /* no RDMA write, no CDC */
		connfix_free(f);
	}
	PROVES("RMB-9 RMB-8");
}

/* CLC of the new connection overtakes the last C of the old connection, which ended in good
 * order. */
static void evicted_after_close(void **state)
{
	(void)state;
	struct connfix *f = own_closed_sent(true);
	struct smcr_peer_rmb *rmb = f->conn->tx.rmb;
	smcr_close_evict(f->conn);
	expect_no_event(f);
	assert_int_equal(rmb->users, 0);
	peer(f, C);
	expect_closed(f, false);
	assert_true(connfix_gone(f));
	connfix_free(f);
	PROVES("RMB-9");
}

/* An A that waits for a place in the send queue is not sent any more: the element is another
 * connection's. */
static void evicted_while_aborting(void **state)
{
	(void)state;
	for (unsigned int answered = 0; answered < 2; answered++) {
		TRIES("answered %u", answered);
		struct connfix_params params = { .send_depth = 64 };
		struct connfix *f = connfix_new(&params);
		struct smcr_wr wr = { .addr = "x", .length = 1 };
		const struct smcr_tx_entry entry = { .kind = SMCR_TX_WRITE };
		while (smcr_link_room(f->link, 1))
			smcr_link_post(f->link, &wr, &entry, 1);
		cause_tcp_reset(f);
		expect_event(f, SMCR_CONN_RESET);
		if (answered)
			connfix_peer_flags(f, 0, A);
		smcr_close_evict(f->conn);
		if (!answered) {
			expect_no_event(f);
			connfix_peer_flags(f, 0, A);
		}
		expect_closed(f, true);
		assert_true(connfix_gone(f));
		smcr_engine_send_done(f->engine, f->link->ref, f->link->tx_next - 1, SMCR_SEND_OK,
				      NULL);
		expect_none(f);
		connfix_free(f);
	}
	PROVES("RMB-9");
}

/* The rendezvous broke after Accept had offered the element: the client may be writing into it
 * already. */
static void lingers(void **state)
{
	(void)state;
	struct connfix_params params = { .gate_shut = true };
	struct connfix *f = connfix_new(&params);
	struct smcr_slab *rmb = f->lgr->rmbs;
	f->conn->peer_token = 0; /* Confirm has not come */
	smcr_close_linger(f->conn);
	connfix_peer_writes(f, 10);
	connfix_peer_cdc(f);
	connfix_peer_flags(f, 0, A);
	connfix_run(f, 10 * SECOND - 1);
	assert_int_equal(rmb->used, 1);
	connfix_run(f, 1);
	assert_true(connfix_gone(f));
	assert_int_equal(rmb->used, 0);
	expect_no_event(f); /* the host was told when the rendezvous broke */
	expect_none(f);
	connfix_free(f);
	PROVES("RMB-8");
}

/* The peer chooses its token freely (CLC-12): 0 is a valid token. */
static void token_zero(void **state)
{
	(void)state;
	struct connfix *f = in_state(0);
	smcr_conn_abort(f->conn);
	expect_flags(f, 0, A);
	connfix_complete(f);
	expect_closed(f, true);
	f->conn->peer_token = 0; /* set this late because the fixture sends with another token */
	connfix_peer_flags(f, 0, A);
	assert_true(connfix_gone(f));
	connfix_free(f);
	PROVES("ABORT-1");
}

/* RKEY-16: the peer deletes the RMB while the connection writes into it. */
static void rmb_withdrawn(void **state)
{
	(void)state;
	struct connfix *f = in_state(0);
	smcr_peer_rmb_withdraw(f->lgr, f->conn->tx.rmb);
	connfix_write(f, 100);
	expect_event(f, SMCR_CONN_RESET);
	expect_flags(f, 0, A);
	expect_none(f);
	assert_non_null(strstr(f->last_log, "withdrew"));
	connfix_free(f);
	PROVES("RKEY-16");
}

/* ABORT-5: after any of these ends the group holds no element, token or claim. */
static void nothing_left(void **state)
{
	(void)state;
	for (size_t i = 0; i < NUM_STATES; i++) {
		TRIES("%s", smcr_conn_state_name((int)states[i].state));
		for (size_t j = 0; j < NUM_CAUSES; j++) {
			TRIES("%s", causes[j].name);
			struct connfix *f = in_state(i);
			struct smcr_slab *rmb = f->lgr->rmbs, *sndbuf = f->lgr->sndbufs;
			assert_int_equal(rmb->used, 1);
			assert_int_equal(sndbuf->used, 1);
			causes[j].happen(f);
			connfix_complete(f);
			connfix_run(f, 10 * SECOND);
			assert_true(connfix_gone(f));
			assert_true(f->closed_raised);
			assert_int_equal(rmb->used, 0);
			assert_int_equal(sndbuf->used, 0);
			assert_null(f->engine->tokens);
			assert_int_equal(f->lgr->num_conns, 0);
			assert_int_equal(f->lgr->peer_rmbs->users, 0);
			assert_int_equal(f->link->num_conns, 0);
			connfix_free(f);
		}
	}
	PROVES("ABORT-5");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(last_data),
		cmocka_unit_test(local_cause),
		cmocka_unit_test(end_of_data_before_the_reset),
		cmocka_unit_test(shut_before_the_abort),
		cmocka_unit_test(reset_waits_for_the_arrival_of_abort),
		cmocka_unit_test(peer_abort_wait_answered),
		cmocka_unit_test(answer_before_a_close_that_takes_nothing_more),
		cmocka_unit_test(other_end_behind_the_reset),
		cmocka_unit_test(peer_abort_wait_timer),
		cmocka_unit_test(abort_received),
		cmocka_unit_test(abort_received_twice),
		cmocka_unit_test(abort_with_nonsense),
		cmocka_unit_test(abort_received_while_closing),
		cmocka_unit_test(own_closed_sent_abort_received),
		cmocka_unit_test(own_closed_sent_cause),
		cmocka_unit_test(no_link),
		cmocka_unit_test(no_link_after_close),
		cmocka_unit_test(post_fails),
		cmocka_unit_test(posting_fails_later),
		cmocka_unit_test(link_lost_other_left),
		cmocka_unit_test(answer_waits_for_room),
		cmocka_unit_test(abort_waits_for_room),
		cmocka_unit_test(both_abort_at_once),
		cmocka_unit_test(reset_and_abort_in_either_order),
		cmocka_unit_test(killed),
		cmocka_unit_test(evicted),
		cmocka_unit_test(evicted_after_close),
		cmocka_unit_test(evicted_while_aborting),
		cmocka_unit_test(lingers),
		cmocka_unit_test(token_zero),
		cmocka_unit_test(rmb_withdrawn),
		cmocka_unit_test(nothing_left),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

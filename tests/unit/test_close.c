/* SPDX-License-Identifier: MIT */
/* Normal termination (RFC 7609 4.8.1; group CLOSE of requirements.tsv): a test for each event in
 * each state, named state_event. The test speaks for the peer. D, C and A are the flags that the
 * engine posts. */
#include "tests/lib/connfix.h"

#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define D SMCR_CDC_SENDING_DONE
#define C SMCR_CDC_CLOSED
#define A SMCR_CDC_ABORT

#define SECOND 1000000ull

/* The peer has read everything, and sends a CDC with these connection flags. */
static void peer(struct connfix *f, uint8_t conn_flags)
{
	connfix_peer_reads_all(f);
	connfix_peer_flags(f, 0, conn_flags);
}

static void peer_data(struct connfix *f, size_t n)
{
	connfix_peer_writes(f, n);
	connfix_peer_cdc(f);
}

static struct connfix *active(void)
{
	return connfix_new(NULL);
}

/* shutdown(WR) with nothing to send. */
static struct connfix *peer_close_wait_1(void)
{
	struct connfix *f = active();
	smcr_conn_shutdown(f->conn);
	expect_flags(f, 0, D);
	connfix_complete(f);
	expect_state(f, SMCR_STATE_PEER_CLOSE_WAIT_1);
	return f;
}

static struct connfix *peer_close_wait_2(void)
{
	struct connfix *f = peer_close_wait_1();
	peer(f, D);
	expect_event(f, SMCR_CONN_READABLE);
	expect_state(f, SMCR_STATE_PEER_CLOSE_WAIT_2);
	return f;
}

static struct connfix *app_close_wait_1(uint8_t flags)
{
	struct connfix *f = active();
	peer(f, flags);
	expect_event(f, SMCR_CONN_READABLE);
	expect_state(f, SMCR_STATE_APP_CLOSE_WAIT_1);
	return f;
}

static struct connfix *app_close_wait_2(uint8_t flags)
{
	struct connfix *f = app_close_wait_1(flags);
	smcr_conn_shutdown(f->conn);
	expect_flags(f, 0, D);
	connfix_complete(f);
	expect_state(f, SMCR_STATE_APP_CLOSE_WAIT_2);
	return f;
}

static struct connfix *app_fin_close_wait(void)
{
	struct connfix *f = peer_close_wait_1();
	peer(f, C);
	expect_event(f, SMCR_CONN_READABLE);
	expect_state(f, SMCR_STATE_APP_FIN_CLOSE_WAIT);
	return f;
}

static struct connfix *peer_fin_close_wait(void)
{
	struct connfix *f = app_close_wait_1(D);
	smcr_conn_close(f->conn, false);
	expect_flags(f, 0, C);
	connfix_complete(f);
	expect_state(f, SMCR_STATE_PEER_FIN_CLOSE_WAIT);
	return f;
}

/* The connection has ended in good order, and nothing is left of it. */
static void expect_over(struct connfix *f)
{
	expect_closed(f, false);
	assert_true(connfix_gone(f));
	expect_none(f);
	connfix_free(f);
}

/* The host closes TCP in the order in which the programs have ended the connection. */
static void expect_over_in_order(struct connfix *f, bool peer_first)
{
	expect_event(f, SMCR_CONN_CLOSED);
	assert_int_equal(f->events[f->events_seen - 1].peer_first, peer_first);
	connfix_free(f);
}

/* ---- a test for each row of the table ---- */

static void closed_rendezvous_complete(void **state)
{
	(void)state;
	struct connfix_params params = { .gate_shut = true };
	struct connfix *f = connfix_new(&params);
	expect_state(f, SMCR_STATE_INIT);
	smcr_data_open(f->conn);
	expect_event(f, SMCR_CONN_ESTABLISHED);
	expect_no_event(f);
	expect_state(f, SMCR_STATE_ACTIVE);
	expect_none(f);
	connfix_free(f);
	PROVES("CLOSE-1");
}

static void active_shutdown(void **state)
{
	(void)state;
	struct connfix *f = active();
	connfix_write(f, 100);
	expect_w(f, 4, 103);
	expect_flags(f, 0, 0);
	smcr_conn_shutdown(f->conn);
	expect_none(f); /* D waits: the data have not completed */
	expect_state(f, SMCR_STATE_ACTIVE);
	assert_int_equal(connfix_space(f), 0);
	connfix_complete(f);
	expect_cdc(f, 0, 104, 0, 4, 0, D);
	expect_state(f, SMCR_STATE_PEER_CLOSE_WAIT_1);
	expect_no_event(f);
	connfix_free(f);
	PROVES("CLOSE-1");
}

/* End of file waits for the completions, so the RNIC is asked to hurry them, once for each CDC.
 * While data wait for the window nothing is asked. */
static void end_hurries_completions(void **state)
{
	(void)state;
	struct connfix *f = active();
	connfix_write(f, 100);
	assert_int_equal(f->acks_wanted, 0);
	smcr_conn_shutdown(f->conn);
	assert_int_equal(f->acks_wanted, 1);
	smcr_conn_close(f->conn, false);
	assert_int_equal(f->acks_wanted, 1);
	connfix_complete(f);
	assert_int_equal(f->acks_wanted, 1);
	connfix_free(f);

	f = active();
	smcr_conn_shutdown(f->conn); /* D goes at once */
	assert_int_equal(f->acks_wanted, 0);
	smcr_conn_close(f->conn, false);
	assert_int_equal(f->acks_wanted, 1);
	connfix_free(f);

	f = active();
	connfix_write(f, 100);
	smcr_conn_shutdown(f->conn);
	connfix_complete(f); /* D goes */
	smcr_conn_close(f->conn, false);
	assert_int_equal(f->acks_wanted, 2);
	connfix_free(f);

	f = active();
	connfix_write(f, 20000); /* the element has 10000 */
	smcr_conn_close(f->conn, false);
	assert_int_equal(f->acks_wanted, 0);
	connfix_complete(f);
	connfix_peer_reads_all(f);
	connfix_peer_cdc(f);
	connfix_complete(f);
	connfix_peer_reads_all(f);
	connfix_peer_cdc(f);
	assert_int_equal(f->acks_wanted, 1);
	connfix_free(f);

	f = active();
	smcr_conn_close(f->conn, false); /* nothing is outstanding */
	assert_int_equal(f->acks_wanted, 0);
	connfix_free(f);
}

/* Data that wait for a window are sent before D. D also waits for completions of CDCs, not only of
 * writes. */
static void active_shutdown_window_closed(void **state)
{
	(void)state;
	struct connfix *f = active();
	connfix_write(f, 10996);
	expect_w(f, 4, 9999);
	expect_flags(f, SMCR_CDC_WRITE_BLOCKED, 0);
	smcr_conn_shutdown(f->conn);
	connfix_complete(f);
	expect_none(f); /* 1000 bytes still have to be written */
	connfix_peer_reads_all(f);
	connfix_peer_cdc(f);
	expect_w(f, 4, 1003);
	expect_flags(f, 0, 0);
	connfix_complete_n(f, 1);
	expect_none(f); /* the CDC has not completed */
	connfix_complete(f);
	expect_flags(f, 0, D);
	connfix_free(f);
	PROVES("CLOSE-1");
}

/* A program that keeps reading must not put D off for ever: consumer updates are sent with D. */
static void active_shutdown_while_reading(void **state)
{
	(void)state;
	struct connfix *f = active();
	connfix_peer_writes(f, 9996);
	connfix_peer_flags(f, SMCR_CDC_WRITE_BLOCKED, 0);
	connfix_read(f, 1);
	expect_cdc(f, 0, 4, 0, 5, 0, 0);
	smcr_conn_shutdown(f->conn);
	connfix_read(f, 1);
	expect_none(f);
	connfix_complete(f);
	expect_cdc(f, 0, 4, 0, 6, 0, D);
	connfix_read(f, 1);
	expect_cdc(f, 0, 4, 0, 7, 0, D); /* CLOSE-6: updates still go out, with D set */
	connfix_free(f);
	PROVES("CLOSE-6 CDC-4");
}

static void active_close_unread(void **state)
{
	(void)state;
	struct connfix *f = active();
	peer_data(f, 10);
	expect_event(f, SMCR_CONN_READABLE);
	smcr_conn_close(f->conn, false);
	expect_flags(f, 0, A);
	expect_no_event(f);
	connfix_complete(f);
	expect_closed(f, true); /* the program is gone: TCP is reset behind A */
	expect_state(f, SMCR_STATE_PEER_ABORT_WAIT);
	connfix_free(f);

	f = active(); /* the program did not read what the daemon took from the engine */
	peer_data(f, 10);
	expect_event(f, SMCR_CONN_READABLE);
	connfix_read(f, 10);
	smcr_conn_close(f->conn, true);
	expect_flags(f, 0, A);
	connfix_complete(f);
	expect_closed(f, true);
	expect_state(f, SMCR_STATE_PEER_ABORT_WAIT);
	connfix_free(f);
	PROVES("CLOSE-1");
}

static void active_close(void **state)
{
	(void)state;
	struct connfix *f = active();
	peer_data(f, 10);
	connfix_read(f, 10);
	expect_event(f, SMCR_CONN_READABLE);
	connfix_write(f, 100);
	expect_w(f, 4, 103);
	expect_flags(f, 0, 0);
	smcr_conn_close(f->conn, false); /* CLOSE-7: the call returns, the engine sends the rest */
	expect_none(f);
	expect_state(f, SMCR_STATE_ACTIVE);
	connfix_complete(f);
	expect_cdc(f, 0, 104, 0, 14, 0, C);
	expect_state(f, SMCR_STATE_PEER_CLOSE_WAIT_1);
	expect_no_event(f);
	connfix_free(f);
	PROVES("CLOSE-1 CLOSE-7");
}

static void active_done(void **state)
{
	(void)state;
	struct connfix *f = active();
	connfix_peer_writes(f, 10);
	peer(f, D);
	expect_event(f, SMCR_CONN_READABLE);
	expect_state(f, SMCR_STATE_APP_CLOSE_WAIT_1);
	assert_false(smcr_conn_rx_eof(f->conn)); /* the program reads the remaining data first */
	connfix_read(f, 10);
	assert_true(smcr_conn_rx_eof(f->conn));
	connfix_write(f, 5); /* the other direction goes on */
	expect_w(f, 4, 8);
	expect_flags(f, 0, 0);
	connfix_free(f);
	PROVES("CLOSE-1");
}

static void active_closed(void **state)
{
	(void)state;
	struct connfix *f = active();
	connfix_peer_writes(f, 10);
	peer(f, C);
	expect_event(f, SMCR_CONN_READABLE);
	expect_state(f, SMCR_STATE_APP_CLOSE_WAIT_1);
	connfix_read(f, 10);
	assert_true(smcr_conn_rx_eof(f->conn));
	expect_none(f);
	connfix_free(f);
	PROVES("CLOSE-1");
}

/* The peer's C comes while data wait that cannot be sent any more; in each of the three states.
 * Nothing more will come from the peer, so the connection ends when the own A completes. */
static void c_with_data_to_send(struct connfix *f)
{
	connfix_write(f, 10000);
	f->seen = f->num_posts; /* 9996 bytes are written, 4 wait */
	f->out_seq++;
	connfix_peer_flags(f, 0, C | f->peer_conn_flags);
	expect_event(f, SMCR_CONN_RESET);
	expect_flags(f, SMCR_CDC_WRITE_BLOCKED, A | (f->conn->tx.done_sent ? D : 0));
	assert_int_equal(connfix_readable(f), 0);
	connfix_complete(f);
	expect_closed(f, true);
	assert_true(connfix_gone(f));
	connfix_free(f);
}

static void active_closed_with_data_to_send(void **state)
{
	(void)state;
	c_with_data_to_send(active());
	c_with_data_to_send(app_close_wait_1(D));

	/* AppCloseWait2 begins with everything sent. Data that still wait belong to a shutdown that
	 * is pending in AppCloseWait1. */
	struct connfix *f = app_close_wait_1(D);
	connfix_write(f, 10000);
	f->seen = f->num_posts;
	f->out_seq++;
	smcr_conn_shutdown(f->conn);
	connfix_peer_flags(f, 0, C | D);
	expect_event(f, SMCR_CONN_RESET);
	expect_flags(f, SMCR_CDC_WRITE_BLOCKED, A);
	connfix_free(f);
	PROVES("CLOSE-1");
}

static void peer_close_wait_1_done(void **state)
{
	(void)state;
	struct connfix *f = peer_close_wait_1();
	connfix_peer_writes(f, 10);
	peer(f, D);
	expect_event(f, SMCR_CONN_READABLE);
	expect_state(f, SMCR_STATE_PEER_CLOSE_WAIT_2);
	connfix_read(f, 10);
	assert_true(smcr_conn_rx_eof(f->conn));
	connfix_free(f);
	PROVES("CLOSE-1");
}

static void peer_close_wait_closed_after_close(void **state)
{
	(void)state;
	struct connfix *f = active(); /* PeerCloseWait1 */
	smcr_conn_close(f->conn, false);
	expect_flags(f, 0, C);
	connfix_complete(f);
	expect_no_event(f);
	peer(f, C);
	expect_over(f);

	f = active(); /* PeerCloseWait2 */
	smcr_conn_close(f->conn, false);
	expect_flags(f, 0, C);
	connfix_complete(f);
	peer(f, D);
	expect_state(f, SMCR_STATE_PEER_CLOSE_WAIT_2);
	peer(f, D | C);
	expect_over(f);
	PROVES("CLOSE-1 CLOSE-2 RMB-8");
}

/* The peer answers the own C before the C completes: CLOSED waits for the completion. */
static void peer_close_wait_closed_early(void **state)
{
	(void)state;
	struct connfix *f = active();
	smcr_conn_close(f->conn, false);
	expect_flags(f, 0, C);
	peer(f, C);
	expect_no_event(f);
	expect_state(f, SMCR_STATE_CLOSED);
	connfix_complete(f);
	expect_over(f);
	PROVES("CLOSE-2");
}

static void who_has_ended_first(void **state)
{
	(void)state;
	struct connfix *f = peer_close_wait_1();
	peer(f, C);
	expect_event(f, SMCR_CONN_READABLE);
	smcr_conn_close(f->conn, false);
	connfix_complete(f);
	expect_over_in_order(f, false);

	f = active(); /* both at once */
	smcr_conn_close(f->conn, false);
	peer(f, C);
	connfix_complete(f);
	expect_over_in_order(f, false);

	f = app_close_wait_1(C);
	smcr_conn_close(f->conn, false);
	connfix_complete(f);
	expect_over_in_order(f, true);

	f = app_close_wait_1(D);
	smcr_conn_close(f->conn, false);
	connfix_complete(f);
	peer(f, D | C);
	expect_over_in_order(f, true);
}

static void peer_close_wait_closed_after_shutdown(void **state)
{
	(void)state;
	struct connfix *f = peer_close_wait_1();
	connfix_peer_writes(f, 10);
	peer(f, C);
	expect_event(f, SMCR_CONN_READABLE);
	expect_state(f, SMCR_STATE_APP_FIN_CLOSE_WAIT);
	connfix_read(f, 10);
	assert_true(smcr_conn_rx_eof(f->conn));
	connfix_free(f);

	f = peer_close_wait_2();
	peer(f, D | C);
	expect_event(f, SMCR_CONN_READABLE);
	expect_state(f, SMCR_STATE_APP_FIN_CLOSE_WAIT);
	assert_true(smcr_conn_rx_eof(f->conn));
	connfix_run(f, 10000 * SECOND); /* the program may take its time: no timer runs any more */
	expect_no_event(f);
	expect_state(f, SMCR_STATE_APP_FIN_CLOSE_WAIT);
	connfix_free(f);
	PROVES("CLOSE-1");
}

static void peer_close_wait_close_after_shutdown(void **state)
{
	(void)state;
	struct connfix *f = peer_close_wait_1();
	smcr_conn_close(f->conn, false);
	expect_flags(f, 0, C | D);
	connfix_complete(f);
	expect_state(f, SMCR_STATE_PEER_CLOSE_WAIT_1);
	peer(f, C);
	expect_over(f);

	f = peer_close_wait_2();
	smcr_conn_close(f->conn, false);
	expect_flags(f, 0, C | D);
	connfix_complete(f);
	expect_state(f, SMCR_STATE_PEER_CLOSE_WAIT_2);
	peer(f, C | D);
	expect_over(f);

	f = peer_close_wait_1(); /* with unread data */
	peer_data(f, 10);
	expect_event(f, SMCR_CONN_READABLE);
	smcr_conn_close(f->conn, false);
	expect_flags(f, 0, A | D);
	connfix_complete(f);
	expect_closed(f, true);
	expect_state(f, SMCR_STATE_PEER_ABORT_WAIT);
	connfix_free(f);
	PROVES("CLOSE-1");
}

/* D is posted but has not completed when the program closes and the peer's C comes. C still goes
 * out. */
static void peer_close_wait_closed_while_c_waits(void **state)
{
	(void)state;
	struct connfix *f = active();
	smcr_conn_shutdown(f->conn);
	expect_flags(f, 0, D);
	smcr_conn_close(f->conn, false);
	expect_none(f);
	peer(f, C);
	expect_none(f);
	expect_no_event(f);
	expect_state(f, SMCR_STATE_APP_FIN_CLOSE_WAIT);
	connfix_complete(f);
	expect_flags(f, 0, D | C);
	connfix_complete(f);
	expect_over(f);
	PROVES("CLOSE-1");
}

/* The own C was sent, so only TCP is reset (A40). */
static void peer_close_wait_timer(void **state)
{
	(void)state;
	struct connfix *f = active();
	smcr_conn_close(f->conn, false);
	expect_flags(f, 0, C);
	connfix_complete(f);
	connfix_run(f, 60 * SECOND - 1);
	expect_no_event(f);
	connfix_run(f, 1);
	expect_closed(f, true);
	assert_true(connfix_gone(f)); /* the element is free */
	expect_none(f);               /* no RDMA write, no CDC */
	connfix_free(f);

	f = active(); /* PeerCloseWait2 */
	smcr_conn_close(f->conn, false);
	connfix_complete(f);
	connfix_run(f, 59 * SECOND);
	peer(f, D); /* does not put the end off */
	f->seen = f->num_posts;
	connfix_run(f, SECOND);
	expect_closed(f, true);
	expect_none(f);
	connfix_free(f);
	PROVES("CLOSE-1 CLOSE-4");
}

/* The reset costs the peer's program what it has not read. So the peer gets more time for it than
 * for its own end (A41). */
static void a_busy_reader_gets_the_last_bytes(void **state)
{
	(void)state;
	const struct connfix_params params = { .element = 1000 };
	for (int unsent = 0; unsent < 2; unsent++) {
		TRIES("unsent %d", unsent);
		struct connfix *f = connfix_new(&params);
		f->engine->config.last_bytes_timeout = 340 * SECOND;
		connfix_write(f, unsent ? 1400 : 900);
		connfix_complete(f);
		smcr_conn_close(f->conn, false);
		connfix_complete(f);
		connfix_run(f, 339 * SECOND);
		assert_false(f->closed_raised);
		connfix_peer_reads_all(f);
		connfix_peer_flags(f, 0, 0);
		connfix_complete(f);
		connfix_complete(f);
		connfix_run(f, 339 * SECOND);
		assert_true(f->closed_raised); /* the rest fills half of the element */
		assert_true(connfix_gone(f));
		connfix_free(f);

		f = connfix_new(&params); /* a reader that is dead */
		f->engine->config.last_bytes_timeout = 340 * SECOND;
		connfix_write(f, unsent ? 1400 : 900);
		connfix_complete(f);
		smcr_conn_close(f->conn, false);
		connfix_complete(f);
		connfix_run(f, 340 * SECOND);
		assert_true(f->closed_raised);
		connfix_complete(f);
		connfix_run(f, 10 * SECOND);
		assert_true(connfix_gone(f));
		connfix_free(f);
	}
}

/* After shutdown(WR) two hours may pass without a CDC; each CDC starts the timer anew. The own C
 * was not sent, so the connection is aborted (ABORT-4, A40). */
static void peer_close_wait_half_close_timer(void **state)
{
	(void)state;
	struct connfix *f = peer_close_wait_1();
	connfix_run(f, 7199 * SECOND);
	peer_data(f, 1);
	connfix_read(f, 1);
	expect_event(f, SMCR_CONN_READABLE);
	connfix_run(f, 7199 * SECOND);
	expect_no_event(f);
	connfix_run(f, SECOND);
	expect_event(f, SMCR_CONN_RESET);
	expect_flags(f, 0, A | D);
	expect_state(f, SMCR_STATE_PEER_ABORT_WAIT);
	connfix_complete(f);
	peer(f, A);
	expect_closed(f, true);
	connfix_free(f);
	PROVES("CLOSE-4 ABORT-4");
}

static void app_fin_close_wait_close(void **state)
{
	(void)state;
	struct connfix *f = app_fin_close_wait();
	smcr_conn_close(f->conn, false);
	expect_flags(f, 0, C | D);
	expect_no_event(f);
	connfix_complete(f);
	expect_over(f);

	f = peer_close_wait_1(); /* unread data do not matter: the peer's C was seen (A22) */
	connfix_peer_writes(f, 10);
	peer(f, C);
	expect_event(f, SMCR_CONN_READABLE);
	smcr_conn_close(f->conn, true);
	expect_flags(f, 0, C | D);
	connfix_complete(f);
	expect_over(f);
	PROVES("CLOSE-1 CLOSE-2");
}

static void app_close_wait_1_shutdown(void **state)
{
	(void)state;
	struct connfix *f = app_close_wait_1(D);
	connfix_write(f, 100);
	expect_w(f, 4, 103);
	expect_flags(f, 0, 0);
	smcr_conn_shutdown(f->conn);
	expect_none(f);
	expect_state(f, SMCR_STATE_APP_CLOSE_WAIT_1);
	connfix_complete(f);
	expect_flags(f, 0, D);
	expect_state(f, SMCR_STATE_APP_CLOSE_WAIT_2);
	connfix_free(f);
	PROVES("CLOSE-1");
}

static void app_close_wait_closed(void **state)
{
	(void)state;
	struct connfix *f = app_close_wait_1(D);
	peer(f, D | C);
	expect_event(f, SMCR_CONN_READABLE);
	expect_state(f, SMCR_STATE_APP_CLOSE_WAIT_1);
	expect_none(f);
	connfix_free(f);

	f = app_close_wait_2(D);
	peer(f, D | C);
	expect_state(f, SMCR_STATE_APP_CLOSE_WAIT_2);
	expect_none(f);
	connfix_free(f);
	PROVES("CLOSE-1");
}

/* After the peer's C nothing can be sent any more: a program that writes gets an error. */
static void app_close_wait_write_after_closed(void **state)
{
	(void)state;
	struct connfix *f = app_close_wait_1(C);
	connfix_write(f, 10);
	expect_event(f, SMCR_CONN_RESET);
	expect_flags(f, 0, A);
	connfix_complete(f);
	expect_closed(f, true);
	connfix_free(f);
}

static void app_close_wait_close_closed_seen(void **state)
{
	(void)state;
	struct connfix *f = app_close_wait_1(C);
	smcr_conn_close(f->conn, false);
	expect_flags(f, 0, C);
	expect_no_event(f);
	connfix_complete(f);
	expect_over(f);

	f = app_close_wait_2(C);
	smcr_conn_close(f->conn, false);
	expect_flags(f, 0, C | D);
	connfix_complete(f);
	expect_over(f);

	f = app_close_wait_1(D); /* C comes while the own C is waiting for completions */
	connfix_write(f, 10);
	expect_w(f, 4, 13);
	expect_flags(f, 0, 0);
	smcr_conn_close(f->conn, false);
	peer(f, D | C);
	expect_none(f);
	connfix_complete(f);
	expect_flags(f, 0, C);
	connfix_complete(f);
	expect_over(f);
	PROVES("CLOSE-1");
}

static void app_close_wait_close_closed_not_seen(void **state)
{
	(void)state;
	struct connfix *f = app_close_wait_1(D);
	connfix_write(f, 10);
	expect_w(f, 4, 13);
	expect_flags(f, 0, 0);
	smcr_conn_close(f->conn, false);
	expect_none(f); /* the data that wait go out first */
	connfix_complete(f);
	expect_flags(f, 0, C);
	expect_state(f, SMCR_STATE_PEER_FIN_CLOSE_WAIT);
	connfix_free(f);

	f = app_close_wait_2(D);
	smcr_conn_close(f->conn, false);
	expect_flags(f, 0, C | D);
	expect_state(f, SMCR_STATE_PEER_FIN_CLOSE_WAIT);
	connfix_free(f);
	PROVES("CLOSE-1");
}

static void peer_fin_close_wait_closed(void **state)
{
	(void)state;
	struct connfix *f = peer_fin_close_wait();
	expect_no_event(f);
	peer(f, D | C);
	expect_over(f);
	PROVES("CLOSE-1 RMB-8");
}

/* Before another connection gets the element, all that the last peer may have written is zeroed.
 * After C that is as far as the peer's cursor went; otherwise it is the whole element. */
static void what_is_zeroed_next(void **state)
{
	(void)state;
	for (int orderly = 0; orderly < 2; orderly++) {
		TRIES("orderly %d", orderly);
		struct connfix *f = active();
		struct smcr_slab *slab = f->conn->rx.element.slab;
		unsigned int i = f->conn->rx.element.index - 1u;
		uint32_t size = f->conn->rx.element.size;
		assert_int_equal(slab->dirty[i], size);
		peer_data(f, 3000);
		expect_event(f, SMCR_CONN_READABLE);
		connfix_read(f, 3000);
		if (orderly) {
			smcr_conn_close(f->conn, false);
			connfix_complete(f);
			peer(f, D | C);
		} else {
			smcr_conn_abort(f->conn);
			connfix_complete(f);
			connfix_run(f, 60 * SECOND);
		}
		assert_true(connfix_gone(f));
		assert_int_equal(slab->dirty[i], orderly ? 4 + 3000 : size);
		connfix_free(f);
	}
	PROVES("RMB-3");
}

static void peer_fin_close_wait_timer(void **state)
{
	(void)state;
	struct connfix *f = peer_fin_close_wait();
	connfix_run(f, 60 * SECOND - 1);
	expect_no_event(f);
	connfix_run(f, 1);
	expect_closed(f, true);
	assert_true(connfix_gone(f));
	expect_none(f);
	connfix_free(f);
	PROVES("CLOSE-1 CLOSE-4");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(closed_rendezvous_complete),
		cmocka_unit_test(active_shutdown),
		cmocka_unit_test(end_hurries_completions),
		cmocka_unit_test(active_shutdown_window_closed),
		cmocka_unit_test(active_shutdown_while_reading),
		cmocka_unit_test(active_close_unread),
		cmocka_unit_test(active_close),
		cmocka_unit_test(active_done),
		cmocka_unit_test(active_closed),
		cmocka_unit_test(active_closed_with_data_to_send),
		cmocka_unit_test(peer_close_wait_1_done),
		cmocka_unit_test(peer_close_wait_closed_after_close),
		cmocka_unit_test(peer_close_wait_closed_early),
		cmocka_unit_test(peer_close_wait_closed_after_shutdown),
		cmocka_unit_test(peer_close_wait_close_after_shutdown),
		cmocka_unit_test(peer_close_wait_closed_while_c_waits),
		cmocka_unit_test(peer_close_wait_timer),
		cmocka_unit_test(a_busy_reader_gets_the_last_bytes),
		cmocka_unit_test(peer_close_wait_half_close_timer),
		cmocka_unit_test(app_fin_close_wait_close),
		cmocka_unit_test(app_close_wait_1_shutdown),
		cmocka_unit_test(app_close_wait_closed),
		cmocka_unit_test(app_close_wait_write_after_closed),
		cmocka_unit_test(app_close_wait_close_closed_seen),
		cmocka_unit_test(app_close_wait_close_closed_not_seen),
		cmocka_unit_test(peer_fin_close_wait_closed),
		cmocka_unit_test(who_has_ended_first),
		cmocka_unit_test(what_is_zeroed_next),
		cmocka_unit_test(peer_fin_close_wait_timer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

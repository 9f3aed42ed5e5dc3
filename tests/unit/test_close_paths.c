/* SPDX-License-Identifier: MIT */
/* Normal termination (RFC 7609 4.8.1) where several rows of its table meet: both sides close at
 * once, data and FIN come at the wrong time, peers stall. test_close.c has a test for each row. */
#include "tests/lib/connfix.h"

#include "tests/lib/proves.h"

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

/* CLOSE-3: both sides close at once, and both take the active path. */
static void both_close_at_once(void **state)
{
	(void)state;
	struct connfix *a, *b;
	connfix_new_pair(NULL, NULL, &a, &b);
	smcr_conn_close(a->conn, false);
	smcr_conn_close(b->conn, false);
	expect_state(a, SMCR_STATE_PEER_CLOSE_WAIT_1);
	expect_state(b, SMCR_STATE_PEER_CLOSE_WAIT_1);
	connfix_complete(a);
	connfix_complete(b);
	connfix_deliver(a);
	connfix_deliver(b);
	expect_closed(a, false);
	expect_closed(b, false);
	assert_true(connfix_gone(a) && connfix_gone(b));
	connfix_free(a);
	connfix_free(b);
	PROVES("CLOSE-3");
}

/* Both sides half-close, one after the other, with data in both directions meanwhile. */
static void half_close_and_answer(void **state)
{
	(void)state;
	struct connfix *a, *b;
	connfix_new_pair(NULL, NULL, &a, &b);
	connfix_write(a, 500);
	smcr_conn_shutdown(a->conn);
	connfix_deliver(a);
	connfix_complete(a);
	connfix_deliver(a); /* D */
	connfix_complete(a);
	expect_state(b, SMCR_STATE_APP_CLOSE_WAIT_1);
	connfix_read(b, 500);
	assert_true(smcr_conn_rx_eof(b->conn));
	connfix_write(b, 9000);
	connfix_deliver(b);
	connfix_read(a, 9000); /* a consumer update goes out after D */
	connfix_complete(b);
	connfix_deliver(a);
	connfix_complete(a);
	smcr_conn_close(b->conn, false);
	connfix_deliver(b);
	connfix_complete(b);
	expect_state(b, SMCR_STATE_PEER_FIN_CLOSE_WAIT);
	expect_state(a, SMCR_STATE_APP_FIN_CLOSE_WAIT);
	assert_true(smcr_conn_rx_eof(a->conn));
	smcr_conn_close(a->conn, false);
	connfix_deliver(a);
	connfix_complete(a);
	assert_true(a->closed_raised && b->closed_raised);
	assert_true(connfix_gone(a) && connfix_gone(b));
	connfix_free(a);
	connfix_free(b);
	PROVES("CLOSE-6");
}

/* CLOSE-6, CDC-13: after C nothing is posted, whatever comes from the peer. */
static void nothing_after_closed(void **state)
{
	(void)state;
	struct connfix *f = active();
	smcr_conn_close(f->conn, false);
	expect_flags(f, 0, C);
	connfix_complete(f);
	connfix_peer_flags(f, SMCR_CDC_WRITE_BLOCKED | SMCR_CDC_CONS_UPDATE_REQ, 0);
	connfix_peer_flags(f, 0, D);
	smcr_conn_close(f->conn, false);
	smcr_conn_tx_commit(f->conn, 5);
	smcr_tx_resume(f->conn);
	connfix_run(f, SECOND);
	expect_none(f);
	connfix_free(f);
	PROVES("CLOSE-6 CDC-13");
}

/* CLOSE-8: data that come after the own C are discarded. TCP is reset, no CDC goes out, and the
 * element is kept until the peer has sent C. */
static void data_after_own_closed(void **state)
{
	(void)state;
	struct connfix *f = active();
	smcr_conn_close(f->conn, false);
	expect_flags(f, 0, C);
	connfix_complete(f);
	peer_data(f, 10);
	expect_closed(f, true);
	expect_none(f);
	assert_false(connfix_gone(f));
	peer(f, A);
	assert_true(connfix_gone(f));
	connfix_free(f);

	f = active(); /* if C is in the same message, the connection ends at once */
	smcr_conn_close(f->conn, false);
	expect_flags(f, 0, C);
	connfix_complete(f);
	connfix_peer_writes(f, 10);
	peer(f, C);
	expect_closed(f, true);
	connfix_run(f, 0);
	assert_true(connfix_gone(f));
	expect_none(f);
	connfix_free(f);
	PROVES("CLOSE-8 CDC-13");
}

/* Data come between close() and the own C: nobody will read them, as on TCP. */
static void data_while_closing(void **state)
{
	(void)state;
	struct connfix *f = active();
	connfix_write(f, 10);
	expect_w(f, 4, 13);
	expect_flags(f, 0, 0);
	smcr_conn_close(f->conn, false);
	peer_data(f, 10);
	expect_flags(f, 0, A | D);
	expect_no_event(f); /* RST must not overtake the data, nor A */
	connfix_complete(f);
	expect_closed(f, true);
	connfix_free(f);

	f = active(); /* more was written than the peer has room for: its program gets no end */
	connfix_write(f, 20000);
	f->seen = f->num_posts;
	f->out_seq++;
	smcr_conn_close(f->conn, false);
	peer_data(f, 10);
	expect_flags(f, SMCR_CDC_WRITE_BLOCKED, A);
	expect_no_event(f);
	connfix_run(f, SECOND);
	expect_closed(f, true);
	connfix_complete(f);
	connfix_free(f);
}

/* The same, as the peer's program sees it: all that was written, and the end. */
static void answer_before_data_while_closing(void **state)
{
	(void)state;
	struct connfix *a, *b;
	connfix_new_pair(NULL, NULL, &a, &b);
	connfix_write(a, 200);
	smcr_conn_close(a->conn, false);
	connfix_write(b, 10);
	connfix_deliver(b);
	assert_false(a->closed_raised);
	connfix_deliver(a);
	expect_event(b, SMCR_CONN_READABLE);
	expect_event(b, SMCR_CONN_RESET);
	assert_int_equal(b->readable_in_reset, 200);
	assert_true(b->events[b->num_events - 1].rx_ended);
	connfix_complete(a);
	expect_closed(a, true);
	connfix_deliver(b);
	connfix_complete(b);
	expect_closed(b, true);
	connfix_free(a);
	connfix_free(b);
	PROVES("ABORT-2");
}

/* If the peer consumes nothing any more, a closing connection lasts for a limited time. A peer that
 * still consumes keeps it alive (ABORT-4). */
static void drain_stalls(void **state)
{
	(void)state;
	struct connfix *f = active();
	connfix_write(f, 20000);
	f->seen = f->num_posts;
	f->out_seq++;
	connfix_complete(f);
	smcr_conn_close(f->conn, false);
	connfix_run(f, 59 * SECOND);
	f->peer_cons += 100;
	connfix_peer_cdc(f);
	f->seen = f->num_posts;
	f->out_seq++;
	connfix_run(f, 30 * SECOND);
	connfix_complete(f); /* the completion of 100 bytes is progress too */
	connfix_run(f, 59 * SECOND);
	connfix_peer_cdc(f); /* a CDC with nothing new is no progress */
	expect_no_event(f);
	connfix_run(f, SECOND);
	expect_closed(f, true);
	expect_flags(f, SMCR_CDC_WRITE_BLOCKED, A);
	expect_state(f, SMCR_STATE_PEER_ABORT_WAIT);
	connfix_free(f);
	PROVES("ABORT-4");
}

/* TERM-3, A28: FIN comes before D or C. */
static void fin_before_cdc(void **state)
{
	(void)state;
	struct connfix *f = active(); /* the CDC with D or C follows in time */
	smcr_conn_tcp_event(f->conn, SMCR_TCP_FIN);
	connfix_run(f, SECOND / 2);
	peer(f, D);
	expect_event(f, SMCR_CONN_READABLE);
	connfix_run(f, 10 * SECOND);
	expect_no_event(f);
	expect_state(f, SMCR_STATE_APP_CLOSE_WAIT_1);
	connfix_free(f);

	f = active(); /* other CDCs come first: each shows that the peer is at work */
	smcr_conn_tcp_event(f->conn, SMCR_TCP_FIN);
	for (unsigned int i = 0; i < 5; i++) {
		connfix_run(f, SECOND - 1);
		connfix_peer_cdc(f);
	}
	expect_no_event(f);
	connfix_run(f, SECOND);
	expect_event(f, SMCR_CONN_RESET);
	connfix_free(f);

	f = active(); /* no CDC follows */
	smcr_conn_tcp_event(f->conn, SMCR_TCP_FIN);
	connfix_run(f, SECOND - 1);
	expect_no_event(f);
	connfix_run(f, 1);
	expect_event(f, SMCR_CONN_RESET);
	expect_flags(f, 0, A);
	expect_state(f, SMCR_STATE_PEER_ABORT_WAIT);
	connfix_free(f);

	f = active(); /* the peer may be waiting for this side's program to read */
	peer_data(f, 10);
	expect_event(f, SMCR_CONN_READABLE);
	smcr_conn_tcp_event(f->conn, SMCR_TCP_FIN);
	connfix_run(f, 20 * SECOND);
	expect_no_event(f);
	connfix_read(f, 10);
	connfix_run(f, 2 * SECOND);
	expect_event(f, SMCR_CONN_RESET);
	connfix_free(f);

	f = active(); /* D came before: FIN is expected and starts no timer */
	peer(f, D);
	expect_event(f, SMCR_CONN_READABLE);
	smcr_conn_tcp_event(f->conn, SMCR_TCP_FIN);
	connfix_run(f, 10 * SECOND);
	expect_no_event(f);
	connfix_free(f);

	/* FIN even comes before the gate opens. */
	struct connfix_params params = { .gate_shut = true };
	f = connfix_new(&params);
	f->conn->tcp_fin = true;
	connfix_open(f);
	connfix_run(f, SECOND);
	expect_event(f, SMCR_CONN_RESET);
	connfix_free(f);
	PROVES("TERM-3");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_close_at_once),
		cmocka_unit_test(half_close_and_answer),
		cmocka_unit_test(nothing_after_closed),
		cmocka_unit_test(data_after_own_closed),
		cmocka_unit_test(data_while_closing),
		cmocka_unit_test(drain_stalls),
		cmocka_unit_test(answer_before_data_while_closing),
		cmocka_unit_test(fin_before_cdc),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

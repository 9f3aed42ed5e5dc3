/* SPDX-License-Identifier: MIT */
/* Receiving CDC messages: order, gates, hostile cursors, the own element (CDC-2..5, 12, 15;
 * RMB-2..5; RV-13). */
#include "tests/lib/connfix.h"

#include <string.h>
#include <sys/mman.h>

#include "daemon/smcr/llc.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

/* Injects CDC number `seq`, which says that the peer has written `n` bytes since the start. */
static void data_cdc(struct connfix *f, uint16_t seq, uint32_t n)
{
	struct smcr_cdc cdc = {
		.seq = seq,
		.producer = { 0, 4 + n },
		.consumer = { 0, 4 },
	};
	connfix_inject(f, &cdc);
}

static void duplicates_and_gaps(void **state)
{
	(void)state;
	struct connfix *f = connfix_new(NULL);
	connfix_peer_writes(f, 5000);
	data_cdc(f, 1, 100);
	assert_int_equal(connfix_readable(f), 100);
	data_cdc(f, 1, 200); /* the sequence number is used already */
	assert_int_equal(connfix_readable(f), 100);
	data_cdc(f, 5, 300);
	assert_int_equal(connfix_readable(f), 300);
	data_cdc(f, 3, 400); /* late */
	assert_int_equal(connfix_readable(f), 300);
	data_cdc(f, 0, 400); /* 0 comes before 5 */
	data_cdc(f, 65535, 400);
	assert_int_equal(connfix_readable(f), 300);
	assert_int_equal(f->engine->count.cdc_dropped_old, 4);
	data_cdc(f, 6, 500);
	assert_int_equal(connfix_readable(f), 500);
	connfix_read(f, 500);
	connfix_free(f);
	PROVES("CDC-3 CDC-4");
}

static void sequence_wraps(void **state)
{
	(void)state;
	struct connfix *f = connfix_new(NULL);
	connfix_peer_writes(f, 1000);
	data_cdc(f, 30000, 100);
	data_cdc(f, 60000, 200);
	data_cdc(f, 65535, 300);
	assert_int_equal(connfix_readable(f), 300);
	data_cdc(f, 0, 400);
	assert_int_equal(connfix_readable(f), 400);
	data_cdc(f, 65535, 500);
	assert_int_equal(connfix_readable(f), 400);
	data_cdc(f, 1, 500);
	assert_int_equal(connfix_readable(f), 500);
	connfix_free(f);

	/* The own sequence numbers: 1, 2, .. 65535, 0, 1. */
	f = connfix_new(NULL);
	assert_int_equal(f->conn->tx.cdc_seq, 0);
	f->conn->tx.cdc_seq = 65533;
	f->out_seq = 65533;
	for (unsigned int i = 0; i < 4; i++) {
		connfix_write(f, 1);
		expect_w(f, 4 + i, 4 + i);
		expect_flags(f, 0, 0);
	}
	assert_int_equal(f->conn->tx.cdc_seq, 1);
	connfix_free(f);
	PROVES("CDC-2 CDC-3");
}

/* RV-13, RS-9: CDC messages that come before the own gate opens wait for it. Only the newest is
 * kept. */
static void early(void **state)
{
	(void)state;
	struct connfix_params params = { .gate_shut = true };
	struct connfix *f = connfix_new(&params);
	connfix_peer_writes(f, 300);
	data_cdc(f, 1, 100);
	data_cdc(f, 3, 300);
	data_cdc(f, 2, 200);
	expect_no_event(f);
	smcr_data_open(f->conn);
	expect_event(f, SMCR_CONN_ESTABLISHED);
	expect_event(f, SMCR_CONN_READABLE);
	expect_no_event(f);
	assert_int_equal(connfix_readable(f), 300);
	connfix_read(f, 300);
	data_cdc(f, 3, 200); /* CDC 3 was processed when the gate opened */
	assert_int_equal(f->engine->count.cdc_dropped_old, 1);
	assert_int_equal(f->engine->stats.rx.cdcs, 4); /* CDC 3, which waited, counts once */
	connfix_free(f);
	PROVES("RV-13 RS-9");
}

/* The peer ends before the gate opens: the host is told ESTABLISHED first, and then the end. */
static void early_end(void **state)
{
	(void)state;
	struct connfix_params params = { .gate_shut = true };
	struct connfix *f = connfix_new(&params);
	connfix_peer_writes(f, 10);
	connfix_peer_flags(f, 0, SMCR_CDC_SENDING_DONE);
	smcr_data_open(f->conn);
	expect_event(f, SMCR_CONN_ESTABLISHED);
	expect_event(f, SMCR_CONN_READABLE);
	assert_false(smcr_conn_rx_eof(f->conn));
	connfix_read(f, 10);
	assert_true(smcr_conn_rx_eof(f->conn));
	expect_state(f, SMCR_STATE_APP_CLOSE_WAIT_1);
	connfix_free(f);

	f = connfix_new(&params);
	connfix_peer_flags(f, 0, SMCR_CDC_ABORT);
	smcr_data_open(f->conn);
	expect_event(f, SMCR_CONN_ESTABLISHED);
	expect_event(f, SMCR_CONN_RESET);
	expect_flags(f, 0, SMCR_CDC_ABORT);
	connfix_complete(f);
	expect_closed(f, true);
	assert_true(connfix_gone(f));
	connfix_free(f);
	PROVES("RV-13");
}

/* An open connection: 1000 bytes written and 3000 received, of which 2000 are read; no CDC tells
 * that yet. */
static struct connfix *in_the_middle(void)
{
	struct connfix *f = connfix_new(NULL);
	connfix_write(f, 1000);
	expect_w(f, 4, 1003);
	expect_cdc(f, 0, 1004, 0, 4, 0, 0);
	connfix_complete(f);
	connfix_peer_writes(f, 3000);
	data_cdc(f, 1, 3000);
	connfix_read(f, 2000);
	expect_none(f);
	f->num_events = f->events_seen = 0;
	return f;
}

static void expect_aborted(struct connfix *f)
{
	expect_event(f, SMCR_CONN_RESET);
	expect_no_event(f);
	expect_state(f, SMCR_STATE_PEER_ABORT_WAIT);
	assert_int_equal(connfix_readable(f), 0); /* a bad cursor gives nothing to read */
	assert_int_equal(connfix_space(f), 0);
	expect_flags(f, 0, SMCR_CDC_ABORT);
	expect_none(f);
	assert_int_equal(f->log_lines, 1);
	connfix_free(f);
}

static void bad_cursors(void **state)
{
	(void)state;
	static const struct {
		struct smcr_cdc_cursor producer, consumer;
	} bad[] = {
		{ { 0, 3 }, { 0, 4 } }, /* in the eye catcher */
		{ { 0, 0 }, { 0, 4 } },
		{ { 0, 10000 }, { 0, 4 } }, /* the size of the element is never a cursor */
		{ { 0, 0xFFFFFFFF }, { 0, 4 } },
		{ { 1, 5 }, { 0, 4 } }, /* one byte more than the window that the peer was told of
					 */
		{ { 2, 3004 }, { 0, 4 } },
		{ { 65535, 3004 }, { 0, 4 } },
		{ { 0, 3004 }, { 0, 3 } },
		{ { 0, 3004 }, { 0, 10000 } },
		{ { 0, 3004 }, { 0, 1005 } }, /* one byte more than was written */
		{ { 0, 3004 }, { 1, 4 } },
		{ { 0, 3004 }, { 65535, 9999 } },
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		TRIES("row %zu", i);
		struct connfix *f = in_the_middle();
		struct smcr_cdc cdc = {
			.seq = 2,
			.producer = bad[i].producer,
			.consumer = bad[i].consumer,
		};
		connfix_inject(f, &cdc);
		expect_aborted(f);
	}
	PROVES("CDC-12 SEC-6");
}

/* The furthest cursors that are right: the peer uses its whole window and has consumed all that was
 * written. */
static void extreme_cursors(void **state)
{
	(void)state;
	struct connfix *f = in_the_middle();
	struct smcr_cdc cdc = { .seq = 2, .producer = { 1, 4 }, .consumer = { 0, 1004 } };
	connfix_inject(f, &cdc);
	assert_int_equal(connfix_readable(f), 9996 - 2000);
	expect_event(f, SMCR_CONN_READABLE);
	expect_no_event(f);
	/* A CDC that is repeated after a failover may have older cursors (FO-9). */
	cdc = (struct smcr_cdc){ .seq = 3, .producer = { 0, 2504 }, .consumer = { 0, 504 } };
	connfix_inject(f, &cdc);
	assert_int_equal(connfix_readable(f), 9996 - 2000);
	expect_no_event(f);
	connfix_free(f);
	PROVES("CDC-12");
}

static void data_after_end(void **state)
{
	(void)state;
	struct connfix *f = in_the_middle();
	struct smcr_cdc cdc = {
		.seq = 2,
		.producer = { 0, 3004 },
		.consumer = { 0, 1004 },
		.conn_flags = SMCR_CDC_SENDING_DONE,
	};
	connfix_inject(f, &cdc);
	expect_event(f, SMCR_CONN_READABLE);
	cdc.seq = 3; /* a new consumer cursor and the repeated flag are allowed */
	connfix_inject(f, &cdc);
	expect_no_event(f);
	cdc.seq = 4;
	cdc.producer.offset = 3005;
	connfix_inject(f, &cdc);
	expect_aborted(f);
	PROVES("CLOSE-6");
}

/* RMB-2, RMB-3: a new element has the eye catcher and then zeros, whatever was in it before. */
static void element_is_prepared(void **state)
{
	(void)state;
	struct connfix *f = connfix_new(NULL);
	uint8_t *element = f->conn->rx.element.addr;
	static const uint8_t eye_catcher[4] = { 0xE2, 0xD4, 0xC3, 0xD9 };
	memset(element, 0x5A, 10000);
	smcr_rx_prepare(f->conn);
	assert_memory_equal(element, eye_catcher, 4);
	for (unsigned int i = 4; i < 10000; i++)
		assert_int_equal(element[i], 0);
	connfix_free(f);
	PROVES("RMB-2 RMB-3");
}

/* RMB-5: the overwritten eye catcher is found with the next CDC, or at the latest when the program
 * reads. */
static void eye_catcher_overwritten(void **state)
{
	(void)state;
	struct connfix *f = in_the_middle();
	f->conn->rx.element.addr[3] ^= 1;
	connfix_peer_writes(f, 1);
	data_cdc(f, 2, 3001);
	assert_non_null(strstr(f->last_log, "eye catcher"));
	expect_aborted(f);

	f = in_the_middle();
	f->conn->rx.element.addr[0] = 0;
	assert_int_equal(connfix_readable(f), 0);
	assert_non_null(strstr(f->last_log, "eye catcher"));
	expect_aborted(f);

	/* In the deployed dialect these bytes are data. */
	struct connfix_params params = { .deployed = true };
	f = connfix_new(&params);
	connfix_peer_writes(f, 10);
	connfix_peer_cdc(f);
	connfix_read(f, 10);
	connfix_free(f);
	PROVES("RMB-5");
}

/* RMB-4: from its announcement to its end only the peer writes to the element. */
static void owner_only_reads(void **state)
{
	(void)state;
	struct connfix_params params = { .element = 65536 };
	struct connfix *f = connfix_new(&params);
	uint8_t *element = f->conn->rx.element.addr;
	connfix_peer_writes(f, 60000);
	assert_int_equal(mprotect(element, 65536, PROT_READ), 0);
	connfix_peer_cdc(f);
	connfix_read(f, 59000);
	expect_flags(f, 0, 0);
	connfix_read(f, 1000);
	connfix_complete(f);
	connfix_peer_flags(f, 0, SMCR_CDC_SENDING_DONE);
	smcr_conn_close(f->conn, false);
	expect_flags(f, 0, SMCR_CDC_CLOSED);
	connfix_complete(f);
	connfix_peer_flags(f, 0, SMCR_CDC_CLOSED);
	assert_true(connfix_gone(f));
	assert_int_equal(mprotect(element, 65536, PROT_READ | PROT_WRITE), 0);
	connfix_free(f);
	PROVES("RMB-4");
}

/* CDC-5: a CDC whose token nobody has, or whose connection has ended, changes nothing. */
static void unknown_token(void **state)
{
	(void)state;
	struct connfix *f = connfix_new(NULL);
	uint8_t msg[SMCR_CDC_LEN];
	struct smcr_cdc cdc = {
		.seq = 1,
		.alert_token = f->conn->token ^ 1,
		.producer = { 0, 104 },
		.consumer = { 0, 4 },
		.conn_flags = SMCR_CDC_ABORT,
	};
	smcr_cdc_encode(&cdc, msg, sizeof(msg));
	smcr_engine_recv(f->engine, f->link->ref, msg, sizeof(msg));
	assert_int_equal(f->engine->count.cdc_dropped_token, 1);
	expect_no_event(f);
	expect_state(f, SMCR_STATE_ACTIVE);

	uint32_t token = f->conn->token;
	smcr_close_kill(f->conn, 104);
	assert_true(connfix_gone(f));
	cdc.alert_token = token;
	connfix_inject(f, &cdc);
	assert_int_equal(f->engine->count.cdc_dropped_token, 2);
	connfix_free(f);
	PROVES("CDC-5");
}

/* CDC-14: requests about links and RMBs wait for one another. A CDC waits for none of them. */
static void before_llc(void **state)
{
	(void)state;
	struct connfix_params params = { .links = 2 };
	struct connfix *f = connfix_new(&params);
	struct smcr_llc_msg request = {
		.type = SMCR_LLC_DELETE_RKEY,
		.delete_rkey = { .count = 1, .rkey = { 0x7777 } },
	};
	uint8_t msg[SMCR_LLC_LEN];
	smcr_llc_enter(f->lgr, SMCR_LLC_S_DELETE, f->link, f->link2);
	smcr_llc_encode(&request, f->lgr->dialect, msg, sizeof(msg));
	smcr_engine_recv(f->engine, f->link->ref, msg, sizeof(msg));
	assert_int_equal(f->lgr->llc->queued, 1);
	connfix_peer_writes(f, 10);
	connfix_peer_cdc(f);
	expect_event(f, SMCR_CONN_READABLE);
	connfix_read(f, 10);
	connfix_write(f, 5);
	expect_w(f, 4, 8);
	expect_cdc(f, 0, 9, 0, 14, 0, 0);
	assert_int_equal(f->lgr->llc->queued, 1);
	connfix_free(f);
	PROVES("CDC-14");
}

/* FO-7 at the receiver: the connection goes on if nothing is lost, and is reset otherwise. */
static void failover_validation(void **state)
{
	(void)state;
	struct connfix *f = in_the_middle(); /* the last CDC that was processed has number 1 */
	struct smcr_cdc cdc = { .seq = 1, .prod_flags = SMCR_CDC_FAILOVER };
	connfix_inject(f, &cdc);
	cdc.seq = 0;
	connfix_inject(f, &cdc);
	expect_no_event(f);
	assert_int_equal(connfix_readable(f), 1000);
	data_cdc(f, 2, 3000); /* a CDC with F uses no sequence number */
	assert_int_equal(f->engine->count.cdc_dropped_old, 0);
	cdc.seq = 3;
	connfix_inject(f, &cdc);
	expect_aborted(f);
	PROVES("FO-7 CDC-2");
}

/* Random CDC messages: the engine's positions stay within bounds, or the connection is aborted. */
static void fuzzed(void **state)
{
	(void)state;
	uint64_t seed = 42;
	unsigned int aborted = 0, lived = 0;
	for (unsigned int round = 0; round < 300; round++) {
		TRIES("round %u", round);
		struct connfix_params params = { .deployed = round % 2 };
		struct connfix *f = connfix_new(&params);
		connfix_write(f, 3000);
		for (unsigned int i = 0; i < 50; i++) {
			uint64_t r[3];
			for (unsigned int j = 0; j < 3; j++)
				r[j] = seed = seed * 6364136223846793005u + 1442695040888963407u;
			struct smcr_cdc cdc = {
				.seq = (uint16_t)(f->conn->rx.cdc_seq + (r[0] >> 60) - 2),
				.producer = { r[0] >> 20 & 1, (r[0] >> 32) % 10010 },
				.consumer = { 0, (r[1] >> 32) % 3010 },
			};
			if (r[1] % 7 == 0)
				cdc.producer.offset = (uint32_t)(r[2] >> 32);
			if (r[1] % 11 == 0)
				cdc.consumer.wrap = (uint16_t)r[2];
			if (r[1] % 3 == 0)
				cdc.prod_flags = (uint8_t)(r[2] >> 40);
			if (r[1] % 13 == 0)
				cdc.conn_flags = (uint8_t)(r[2] >> 48);
			connfix_inject(f, &cdc);
			if (connfix_gone(f) || f->conn->state == SMCR_STATE_PEER_ABORT_WAIT ||
			    f->conn->state == SMCR_STATE_PROCESS_ABORT) {
				aborted++;
				break;
			}
			lived++;
			const struct smcr_conn *conn = f->conn;
			assert_true(conn->rx.produced - conn->rx.consumed_sent <= conn->rx.usable);
			assert_true(conn->rx.consumed <= conn->rx.produced);
			assert_true(conn->tx.peer_consumed <= conn->tx.written);
			assert_true(conn->tx.written - conn->tx.peer_consumed <= conn->tx.usable);
			size_t n = connfix_readable(f);
			smcr_conn_rx_consume(f->conn, n / 2);
			n = connfix_space(f);
			connfix_write(f, n < 100 ? n : 100);
		}
		connfix_free(f);
	}
	assert_true(aborted > 100 && lived > 100);
	PROVES("CDC-12 SEC-6 RMB-11");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(duplicates_and_gaps),
		cmocka_unit_test(sequence_wraps),
		cmocka_unit_test(early),
		cmocka_unit_test(early_end),
		cmocka_unit_test(bad_cursors),
		cmocka_unit_test(extreme_cursors),
		cmocka_unit_test(data_after_end),
		cmocka_unit_test(element_is_prepared),
		cmocka_unit_test(eye_catcher_overwritten),
		cmocka_unit_test(owner_only_reads),
		cmocka_unit_test(unknown_token),
		cmocka_unit_test(before_llc),
		cmocka_unit_test(failover_validation),
		cmocka_unit_test(fuzzed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* Urgent data in both directions and both dialects (RFC 7609 4.7.5, 4.7.6, A.4; URG-1..7). The
 * sequences of the RFC itself are in test_data_sequences.c. */
#include "tests/lib/connfix.h"

#include <errno.h>

#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define E 10000u

enum {
	B_FLAG = SMCR_CDC_WRITE_BLOCKED,
	P_FLAG = SMCR_CDC_URGENT_PENDING,
	U_FLAG = SMCR_CDC_URGENT_PRESENT,
};

/* The first cursor of an element. */
static uint32_t base(const struct connfix *f)
{
	return f->params.deployed ? 0 : 4;
}

static uint32_t usable(const struct connfix *f)
{
	return E - base(f);
}

/* A fixture whose directions start `lead` bytes before the end of an element. */
static struct connfix *before_the_end(bool deployed, uint32_t lead)
{
	struct connfix_params params = {
		.deployed = deployed,
		.tx = { 5, E - lead },
		.rx = { 5, E - lead },
	};
	return connfix_new(&params);
}

static void expect_mark(struct connfix *f, size_t offset)
{
	size_t at = SIZE_MAX;
	assert_int_equal(smcr_conn_rx_urgent(f->conn, &at), SMCR_URGENT_PRESENT);
	assert_int_equal(at, offset);
}

static void expect_no_mark(struct connfix *f, enum smcr_urgent state)
{
	size_t at = SIZE_MAX;
	assert_int_equal(smcr_conn_rx_urgent(f->conn, &at), state);
	assert_int_equal(at, SIZE_MAX);
}

/* The peer has read everything and sends its consumer cursor. */
static void acknowledge(struct connfix *f)
{
	connfix_complete(f);
	connfix_peer_reads_all(f);
	connfix_peer_cdc(f);
}

/* Other tests look at what was posted until now. */
static void pass_over(struct connfix *f)
{
	f->seen = f->num_posts;
	f->out_seq = f->conn->tx.cdc_seq;
	connfix_complete(f);
}

/* ---- sending ---- */

/* Wherever the urgent byte is in the element, the producer cursor is one byte behind it. Bytes
 * that the program gave before it are in the same write, bytes that it gives later are not. */
static void one_past_the_byte(void **state)
{
	(void)state;
	static const struct {
		uint32_t lead, before, urgent, wrap, cursor; /* cursor: bytes from the base */
	} rows[] = {
		{ 1000, 0, 500, 5, E - 500 },
		{ 1000, 300, 200, 5, E - 500 },
		{ 1000, 0, 999, 5, E - 1 },
		{ 1000, 0, 1000, 6, 0 }, /* the urgent byte is the last of the element */
		{ 1000, 999, 1, 6, 0 },
		{ 1000, 0, 1001, 6, 1 }, /* the first byte of the next round */
		{ 1, 0, 1, 6, 0 },
	};
	for (int deployed = 0; deployed < 2; deployed++) {
		TRIES("deployed %d", deployed);
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			TRIES("row %zu", i);
			struct connfix *f = before_the_end(deployed, rows[i].lead);
			uint32_t cursor =
				rows[i].wrap == 5 ? rows[i].cursor : base(f) + rows[i].cursor;
			/* the link is full: everything waits, and goes at once later */
			f->link->tx_depth = 2;
			if (rows[i].before)
				connfix_write(f, rows[i].before);
			connfix_write_urgent(f, rows[i].urgent);
			connfix_write(f, 77);
			f->link->tx_depth = 256;
			expect_none(f);
			smcr_tx_push(f->conn);
			uint32_t len = rows[i].before + rows[i].urgent;
			uint32_t from = E - rows[i].lead;
			expect_w(f, from, len < rows[i].lead ? from + len - 1 : E - 1);
			if (len > rows[i].lead)
				expect_w(f, base(f), base(f) + len - rows[i].lead - 1);
			expect_cdc(f, (uint16_t)rows[i].wrap, cursor, 5, E - rows[i].lead,
				   P_FLAG | U_FLAG, 0);
			connfix_complete(f);
			expect_none(f);
			connfix_free(f);
		}
	}
	PROVES("URG-1 URG-3");
}

/* The window is closed: P is sent at once, and B stays. The window opens in part: as much as fits
 * is sent, with P. Then the rest, with U. */
static void window_closed(void **state)
{
	(void)state;
	for (int deployed = 0; deployed < 2; deployed++) {
		TRIES("deployed %d", deployed);
		struct connfix *f = before_the_end(deployed, 1000);
		connfix_write(f, usable(f));
		pass_over(f);
		connfix_write_urgent(f, 500);
		expect_cdc(f, 6, E - 1000, 5, E - 1000, B_FLAG | P_FLAG, 0);
		connfix_write(f, 10);
		connfix_complete(f);
		expect_none(f); /* once only */
		f->peer_cons += 200;
		connfix_peer_cdc(f);
		expect_w(f, E - 1000, E - 801);
		expect_cdc(f, 6, E - 800, 5, E - 1000, B_FLAG | P_FLAG, 0);
		connfix_complete(f);
		f->peer_cons += usable(f) - 200;
		connfix_peer_cdc(f);
		expect_w(f, E - 800, E - 501);
		expect_cdc(f, 6, E - 500, 5, E - 1000, P_FLAG | U_FLAG, 0);
		connfix_complete(f);
		expect_none(f);
		connfix_free(f);
	}
	PROVES("URG-2 CDC-16");
}

/* The urgent byte does not fit into the send buffer: P is sent at once, once, and with every CDC
 * until the byte is written. Meanwhile a CDC that sets the flags for an earlier urgent byte is in
 * flight. */
static void announced_before_it_fits(void **state)
{
	(void)state;
	for (int deployed = 0; deployed < 2; deployed++) {
		TRIES("deployed %d", deployed);
		struct connfix *f = before_the_end(deployed, 1000);
		connfix_write(f, usable(f));
		pass_over(f);
		smcr_conn_tx_announce_urgent(f->conn);
		expect_cdc(f, 6, E - 1000, 5, E - 1000, B_FLAG | P_FLAG, 0);
		smcr_conn_tx_announce_urgent(f->conn);
		connfix_complete(f);
		expect_none(f);
		f->peer_cons += usable(f);
		connfix_peer_cdc(f);
		expect_flags(f, P_FLAG, 0);
		connfix_write(f, 10);
		expect_w(f, E - 1000, E - 991);
		expect_flags(f, P_FLAG, 0);
		connfix_write_urgent(f, 1);
		expect_w(f, E - 990, E - 990);
		expect_flags(f, P_FLAG | U_FLAG, 0);
		smcr_conn_tx_announce_urgent(f->conn);
		expect_none(f);
		acknowledge(f);
		expect_flags(f, P_FLAG, 0);
		smcr_conn_shutdown(f->conn);
		smcr_conn_tx_announce_urgent(f->conn);
		connfix_free(f);
	}
	PROVES("URG-2 URG-3");
}

/* Then the byte fits into the send buffer, and the window is still closed: no other CDC is sent. */
static void announced_and_committed(void **state)
{
	(void)state;
	for (int deployed = 0; deployed < 2; deployed++) {
		TRIES("deployed %d", deployed);
		struct connfix *f = before_the_end(deployed, 1000);
		connfix_write(f, usable(f));
		pass_over(f);
		smcr_conn_tx_announce_urgent(f->conn);
		expect_cdc(f, 6, E - 1000, 5, E - 1000, B_FLAG | P_FLAG, 0);
		connfix_complete(f);
		connfix_write_urgent(f, 1);
		expect_none(f);
		f->peer_cons += usable(f);
		connfix_peer_cdc(f);
		expect_w(f, E - 1000, E - 1000);
		expect_cdc(f, 6, E - 999, 5, E - 1000, P_FLAG | U_FLAG, 0);
		connfix_free(f);
	}
	PROVES("URG-2");
}

/* P is a state: a CDC for another reason repeats it while the byte waits. */
static void pending_is_repeated(void **state)
{
	(void)state;
	for (int deployed = 0; deployed < 2; deployed++) {
		TRIES("deployed %d", deployed);
		struct connfix *f = before_the_end(deployed, 1000);
		connfix_write(f, usable(f));
		connfix_write_urgent(f, 1);
		pass_over(f);
		connfix_peer_writes(f, usable(f));
		connfix_peer_flags(f, B_FLAG, 0);
		connfix_read(f, usable(f));
		expect_cdc(f, 6, E - 1000, 6, E - 1000, B_FLAG | P_FLAG, 0);
		connfix_free(f);
	}
	PROVES("URG-2 CDC-4");
}

/* After U more bytes are sent only when the consumer cursor has reached the urgent byte. A larger
 * window does not count, nor a consumer cursor before it. Another urgent byte waits with the
 * caller. */
static void waits_for_the_reader(void **state)
{
	(void)state;
	for (int deployed = 0; deployed < 2; deployed++) {
		TRIES("deployed %d", deployed);
		struct connfix *f = before_the_end(deployed, 5000);
		assert_true(smcr_conn_tx_urgent_ready(f->conn));
		connfix_write_urgent(f, 500);
		expect_w(f, E - 5000, E - 4501);
		expect_flags(f, P_FLAG | U_FLAG, 0);
		connfix_write(f, 300);
		connfix_complete(f);
		assert_false(smcr_conn_tx_urgent_ready(f->conn));
		assert_int_equal(smcr_conn_tx_commit_urgent(f->conn, 1), -EAGAIN);
		assert_int_equal(f->conn->tx.committed - f->conn->tx.written, 300);
		f->peer_cons += 499;
		connfix_peer_cdc(f);
		expect_none(f);
		assert_false(smcr_conn_tx_urgent_ready(f->conn));
		unsigned int writable = f->writable;
		f->peer_cons += 1;
		connfix_peer_cdc(f);
		assert_int_equal(f->writable, writable + 1);
		assert_true(smcr_conn_tx_urgent_ready(f->conn));
		expect_w(f, E - 4500, E - 4201);
		expect_cdc(f, 5, E - 4200, 5, E - 5000, 0, 0);
		connfix_write_urgent(f, 1);
		expect_w(f, E - 4200, E - 4200);
		expect_cdc(f, 5, E - 4199, 5, E - 5000, P_FLAG | U_FLAG, 0);
		connfix_free(f);
	}
	PROVES("URG-3");
}

/* P and U after they were sent: in the RFC's dialect every CDC has them until normal data follow.
 * In the deployed dialect a CDC that repeats them would announce another urgent byte. */
static void cleared_by_normal_data(void **state)
{
	(void)state;
	for (int deployed = 0; deployed < 2; deployed++) {
		TRIES("deployed %d", deployed);
		struct connfix *f = before_the_end(deployed, 5000);
		uint8_t standing = deployed ? 0 : P_FLAG | U_FLAG;
		connfix_write_urgent(f, 500);
		expect_w(f, E - 5000, E - 4501);
		expect_flags(f, P_FLAG | U_FLAG, 0);
		for (int acknowledged = 0; acknowledged < 2; acknowledged++) {
			if (acknowledged)
				acknowledge(f);
			connfix_peer_writes(f, 1);
			connfix_peer_flags(f, SMCR_CDC_CONS_UPDATE_REQ, 0);
			expect_flags(f, standing, 0);
			connfix_read(f, 1);
			expect_flags(f, standing, 0);
			connfix_complete(f);
			connfix_peer_flags(f, 0, 0);
		}
		connfix_write(f, 1);
		expect_w(f, E - 4500, E - 4500);
		expect_flags(f, 0, 0);
		connfix_peer_flags(f, SMCR_CDC_CONS_UPDATE_REQ, 0);
		expect_flags(f, 0, 0);
		connfix_free(f);
	}
	PROVES("URG-7");
}

/* Two urgent bytes in a row: P is cleared only if other data follow. */
static void one_after_another(void **state)
{
	(void)state;
	for (int deployed = 0; deployed < 2; deployed++) {
		TRIES("deployed %d", deployed);
		struct connfix *f = before_the_end(deployed, 2);
		uint32_t at = E - 2;
		for (unsigned int i = 0; i < 5; i++) {
			connfix_write_urgent(f, 1);
			expect_w(f, at, at);
			at = at == E - 1 ? base(f) : at + 1;
			expect_cdc(f, i < 1 ? 5 : 6, at, 5, E - 2, P_FLAG | U_FLAG, 0);
			acknowledge(f);
			expect_none(f);
		}
		connfix_free(f);
	}
	PROVES("URG-1 URG-3");
}

/* The program ends: all data behind an urgent byte are written first. */
static void then_the_end(void **state)
{
	(void)state;
	for (int deployed = 0; deployed < 2; deployed++) {
		TRIES("deployed %d", deployed);
		struct connfix *f = before_the_end(deployed, 5000);
		connfix_write_urgent(f, 500);
		connfix_write(f, 300);
		smcr_conn_shutdown(f->conn);
		assert_int_equal(smcr_conn_tx_commit_urgent(f->conn, 1), -EPIPE);
		assert_int_equal(smcr_conn_tx_commit_urgent(f->conn, 0), -EINVAL);
		expect_w(f, E - 5000, E - 4501);
		expect_flags(f, P_FLAG | U_FLAG, 0);
		connfix_complete(f);
		expect_none(f);
		unsigned int writable = f->writable;
		acknowledge(f);
		assert_int_equal(f->writable, writable); /* the program may not write any more */
		expect_w(f, E - 4500, E - 4201);
		expect_flags(f, 0, 0);
		connfix_complete(f);
		expect_flags(f, 0, SMCR_CDC_SENDING_DONE);
		connfix_free(f);

		/* No data behind the urgent byte: D need not wait for the peer's program. */
		f = before_the_end(deployed, 5000);
		connfix_write_urgent(f, 500);
		smcr_conn_shutdown(f->conn);
		expect_w(f, E - 5000, E - 4501);
		expect_flags(f, P_FLAG | U_FLAG, 0);
		connfix_complete(f);
		expect_flags(f, deployed ? 0 : P_FLAG | U_FLAG, SMCR_CDC_SENDING_DONE);
		connfix_free(f);
	}
	PROVES("URG-3 CLOSE-1");
}

/* After a move to another link an urgent byte that may not have arrived is announced again, with
 * its data or without, and no bytes behind it are sent until it is read. One that has arrived is
 * not announced again in the deployed dialect; in the RFC's dialect its flags stay. */
static void told_again_after_a_move(void **state)
{
	(void)state;
	for (int deployed = 0; deployed < 2; deployed++) {
		TRIES("deployed %d", deployed);
		/* how many requests of write and CDC have completed */
		for (size_t done = 0; done < 3; done++) {
			TRIES("done %zu", done);
			struct connfix_params params = { .deployed = deployed, .links = 2 };
			struct connfix *f = connfix_new(&params);
			uint32_t at = base(f);
			connfix_write_urgent(f, 500);
			connfix_write(f, 300);
			expect_w(f, at, at + 499);
			expect_cdc(f, 0, at + 500, 0, at, P_FLAG | U_FLAG, 0);
			connfix_complete_n(f, done);
			connfix_break_link(f, f->link);
			expect_validation(f, done == 2);
			if (done == 0)
				expect_w(f, at, at + 499);
			if (done < 2)
				expect_cdc(f, 0, at + 500, 0, at, P_FLAG | U_FLAG, 0);
			connfix_complete(f);
			connfix_peer_writes(f, 1);
			connfix_peer_flags(f, SMCR_CDC_CONS_UPDATE_REQ, 0);
			expect_flags(f, deployed ? 0 : P_FLAG | U_FLAG, 0);
			connfix_read(f, 1);
			expect_flags(f, deployed ? 0 : P_FLAG | U_FLAG, 0);
			expect_none(f);
			acknowledge(f);
			expect_w(f, at + 500, at + 799);
			expect_cdc(f, 0, at + 800, 0, at + 1, 0, 0);
			connfix_free(f);
		}
	}
	PROVES("URG-3 FO-9");
}

/* The urgent byte was read before the link broke: the replay leaves it out, and goes on with the
 * bytes that waited. */
static void read_before_the_move(void **state)
{
	(void)state;
	for (int deployed = 0; deployed < 2; deployed++) {
		TRIES("deployed %d", deployed);
		struct connfix_params params = { .deployed = deployed, .links = 2 };
		struct connfix *f = connfix_new(&params);
		uint32_t at = base(f);
		connfix_write_urgent(f, 500);
		connfix_write(f, 300);
		expect_w(f, at, at + 499);
		expect_flags(f, P_FLAG | U_FLAG, 0);
		connfix_peer_reads_all(f);
		connfix_peer_cdc(f);
		expect_w(f, at + 500, at + 799);
		expect_flags(f, 0, 0);
		connfix_break_link(f, f->link);
		expect_validation(f, 0);
		expect_w(f, at + 500, at + 799);
		expect_cdc(f, 0, at + 800, 0, at, 0, 0);
		connfix_free(f);
	}
	PROVES("URG-7 FO-10");
}

/* Announced, but not written: P is sent again. */
static void announced_before_the_move(void **state)
{
	(void)state;
	struct connfix_params params = { .links = 2 };
	struct connfix *f = connfix_new(&params);
	connfix_write(f, usable(f));
	connfix_write_urgent(f, 1);
	pass_over(f);
	connfix_break_link(f, f->link);
	expect_validation(f, 2);
	connfix_complete(f);
	connfix_peer_reads_all(f);
	connfix_peer_cdc(f);
	expect_w(f, 4, 4);
	expect_cdc(f, 1, 5, 0, 4, P_FLAG | U_FLAG, 0);
	connfix_free(f);

	f = connfix_new(&params);
	connfix_write(f, usable(f));
	pass_over(f);
	connfix_write_urgent(f, 1);
	expect_flags(f, B_FLAG | P_FLAG, 0);
	connfix_break_link(f, f->link);
	expect_validation(f, 1);
	expect_flags(f, B_FLAG | P_FLAG, 0);
	connfix_free(f);
	PROVES("URG-2 FO-9");
}

/* ---- receiving ---- */

/* The urgent byte is the one before the producer cursor; it may be the last byte of the element's
 * round before. */
static void byte_before_the_producer(void **state)
{
	(void)state;
	static const uint32_t leads[] = { 1000, 501, 500, 499, 1 };
	for (int deployed = 0; deployed < 2; deployed++) {
		TRIES("deployed %d", deployed);
		for (size_t i = 0; i < sizeof(leads) / sizeof(leads[0]); i++) {
			TRIES("row %zu", i);
			struct iovec iov[2];
			struct connfix *f = before_the_end(deployed, leads[i]);
			connfix_peer_writes(f, 500);
			connfix_peer_flags(f, P_FLAG | U_FLAG, 0);
			expect_event(f, SMCR_CONN_URGENT);
			expect_event(f, SMCR_CONN_READABLE);
			expect_mark(f, 499);
			int n = smcr_conn_rx_data(f->conn, iov);
			uint8_t *byte = (uint8_t *)iov[n - 1].iov_base + iov[n - 1].iov_len - 1;
			uint32_t producer =
				leads[i] > 500 ? E - leads[i] + 500 : base(f) + 500 - leads[i];
			uint32_t place = producer == base(f) ? E - 1 : producer - 1;
			assert_ptr_equal(byte, f->conn->rx.element.addr + place);
			connfix_read(f, 499);
			expect_mark(f, 0);
			connfix_read(f, 1);
			expect_no_mark(f, SMCR_URGENT_NONE);
			connfix_free(f);
		}
	}
	PROVES("URG-5");
}

/* A CDC tells that the urgent byte was read, however large the window is. Reading less sends none,
 * and nothing is told twice. */
static void consumption_is_told(void **state)
{
	(void)state;
	for (int deployed = 0; deployed < 2; deployed++) {
		TRIES("deployed %d", deployed);
		struct connfix *f = before_the_end(deployed, 5000);
		connfix_peer_writes(f, 10);
		connfix_peer_flags(f, P_FLAG | U_FLAG, 0);
		connfix_read(f, 9);
		expect_none(f);
		connfix_read(f, 1);
		expect_cdc(f, 5, E - 5000, 5, E - 4990, 0, 0);
		connfix_complete(f);
		connfix_peer_cdc(f); /* the flags again */
		expect_none(f);
		connfix_peer_writes(f, 10);
		connfix_peer_flags(f, 0, 0);
		connfix_read(f, 10);
		expect_none(f);
		/* Reading beyond the urgent byte sends one update. */
		connfix_peer_writes(f, 10);
		connfix_peer_flags(f, P_FLAG | U_FLAG, 0);
		connfix_peer_writes(f, 10);
		connfix_peer_flags(f, 0, 0);
		connfix_read(f, 20);
		expect_cdc(f, 5, E - 5000, 5, E - 4960, 0, 0);
		expect_none(f);
		connfix_free(f);
	}
	PROVES("URG-6");
}

/* If the link is full, the update waits. */
static void consumption_is_told_later(void **state)
{
	(void)state;
	struct connfix *f = before_the_end(true, 5000);
	connfix_peer_writes(f, 10);
	connfix_peer_flags(f, P_FLAG | U_FLAG, 0);
	uint32_t depth = f->link->tx_depth;
	f->link->tx_depth = 1;
	connfix_read(f, 10);
	expect_none(f);
	expect_no_mark(f, SMCR_URGENT_NONE);
	f->link->tx_depth = depth;
	smcr_tx_push(f->conn);
	expect_cdc(f, 5, E - 5000, 5, E - 4990, 0, 0);
	connfix_free(f);
	PROVES("URG-6");
}

/* The program is told once that an urgent byte is announced, and once that it has come. */
static void announced(void **state)
{
	(void)state;
	for (int deployed = 0; deployed < 2; deployed++) {
		TRIES("deployed %d", deployed);
		struct connfix *f = before_the_end(deployed, 5000);
		connfix_peer_flags(f, P_FLAG, 0);
		expect_event(f, SMCR_CONN_URGENT);
		expect_no_event(f);
		expect_no_mark(f, SMCR_URGENT_PENDING);
		connfix_peer_writes(f, 10);
		connfix_peer_cdc(f);
		expect_event(f, SMCR_CONN_READABLE);
		expect_no_event(f);
		expect_no_mark(f, SMCR_URGENT_PENDING);
		connfix_peer_writes(f, 10);
		connfix_peer_flags(f, P_FLAG | U_FLAG, 0);
		expect_event(f, SMCR_CONN_URGENT);
		expect_event(f, SMCR_CONN_READABLE);
		expect_mark(f, 19);
		connfix_peer_flags(f, P_FLAG | U_FLAG, 0);
		expect_no_event(f);
		connfix_read(f, 20);
		/* The next urgent byte follows without a CDC between that has neither flag. */
		connfix_peer_writes(f, 1);
		connfix_peer_flags(f, P_FLAG, 0);
		expect_event(f, SMCR_CONN_URGENT);
		expect_event(f, SMCR_CONN_READABLE);
		connfix_peer_writes(f, 1);
		connfix_peer_flags(f, P_FLAG | U_FLAG, 0);
		expect_event(f, SMCR_CONN_URGENT);
		expect_event(f, SMCR_CONN_READABLE);
		expect_mark(f, 1);
		connfix_free(f);
	}
	PROVES("URG-5");
}

/* A peer sets U at a position that it has sent before (if unread, the byte becomes urgent; if
 * read, it is too late, but the peer gets its update), or at an old position (replay), or at
 * none. */
static void odd_positions(void **state)
{
	(void)state;
	for (int deployed = 0; deployed < 2; deployed++) {
		TRIES("deployed %d", deployed);
		struct connfix_params params = { .deployed = deployed };
		struct connfix *f = connfix_new(&params);
		connfix_peer_flags(f, P_FLAG | U_FLAG, 0); /* no byte was ever written */
		expect_no_event(f);
		connfix_peer_writes(f, 10);
		connfix_peer_flags(f, 0, 0);
		expect_event(f, SMCR_CONN_READABLE);
		connfix_peer_flags(f, P_FLAG | U_FLAG, 0);
		expect_event(f, SMCR_CONN_URGENT);
		expect_mark(f, 9);
		connfix_read(f, 10);
		expect_flags(f, 0, 0);
		connfix_peer_writes(f, 10);
		connfix_peer_flags(f, 0, 0);
		expect_event(f, SMCR_CONN_READABLE);
		connfix_read(f, 10);
		expect_none(f);
		connfix_peer_flags(f, P_FLAG | U_FLAG, 0);
		expect_no_event(f);
		expect_cdc(f, 0, base(f), 0, base(f) + 20, 0, 0);
		connfix_peer_writes(f, 10);
		connfix_peer_flags(f, 0, 0);
		expect_event(f, SMCR_CONN_READABLE);
		f->peer_prod -= 5; /* a replay that has not come as far again */
		connfix_peer_flags(f, P_FLAG | U_FLAG, 0);
		expect_no_event(f);
		expect_no_mark(f, SMCR_URGENT_NONE);
		connfix_read(f, 10);
		expect_none(f);
		connfix_free(f);
	}
	PROVES("URG-5 URG-6 SEC-6");
}

/* A newer urgent byte replaces one that was not reached, as with TCP. */
static void newer_mark(void **state)
{
	(void)state;
	struct connfix *f = connfix_new(NULL);
	connfix_peer_writes(f, 10);
	connfix_peer_flags(f, P_FLAG | U_FLAG, 0);
	connfix_peer_writes(f, 10);
	connfix_peer_flags(f, P_FLAG | U_FLAG, 0);
	expect_event(f, SMCR_CONN_URGENT);
	expect_event(f, SMCR_CONN_READABLE);
	expect_event(f, SMCR_CONN_URGENT);
	expect_event(f, SMCR_CONN_READABLE);
	expect_mark(f, 19);
	connfix_free(f);
	PROVES("URG-5");
}

/* Before the gate opens only the newest CDC is kept. Flags that an earlier CDC had at the same
 * position still count. */
static void before_the_gate_opens(void **state)
{
	(void)state;
	for (int deployed = 0; deployed < 2; deployed++) {
		TRIES("deployed %d", deployed);
		struct connfix_params params = { .deployed = deployed, .gate_shut = true };
		struct connfix *f = connfix_new(&params);
		connfix_peer_writes(f, 10);
		connfix_peer_flags(f, P_FLAG | U_FLAG, 0);
		connfix_peer_flags(f, 0, 0);
		connfix_open(f);
		expect_event(f, SMCR_CONN_URGENT);
		expect_event(f, SMCR_CONN_READABLE);
		expect_mark(f, 9);
		connfix_free(f);

		/* Data that follow show that the urgent byte was read: there is none any more. */
		f = connfix_new(&params);
		connfix_peer_writes(f, 10);
		connfix_peer_flags(f, P_FLAG | U_FLAG, 0);
		connfix_peer_writes(f, 10);
		connfix_peer_flags(f, 0, 0);
		connfix_open(f);
		expect_event(f, SMCR_CONN_READABLE);
		expect_no_mark(f, SMCR_URGENT_NONE);
		connfix_free(f);
	}
	PROVES("URG-5 RV-13");
}

/* A program that has closed is told nothing. */
static void after_close(void **state)
{
	(void)state;
	struct connfix *f = connfix_new(NULL);
	smcr_conn_close(f->conn, false);
	expect_flags(f, 0, SMCR_CDC_CLOSED);
	connfix_peer_flags(f, P_FLAG, 0);
	expect_no_event(f);
	expect_no_mark(f, SMCR_URGENT_NONE);
	assert_false(smcr_conn_tx_urgent_ready(f->conn));
	assert_int_equal(smcr_conn_tx_commit_urgent(f->conn, 1), -EPIPE);
	connfix_free(f);
	PROVES("CLOSE-3");
}

/* ---- both directions ---- */

/* Data of every size go from end to end through two windows, and one in `gap` writes is urgent.
 * All bytes arrive in order (the pattern), each urgent byte is where it belongs, and no byte
 * behind it comes before it is read. */
static void stream_of_marks(void **state)
{
	(void)state;
	static const uint32_t gaps[] = { 1, 7, 4096, 9996, 10000, 12345 };
	for (int deployed = 0; deployed < 2; deployed++) {
		TRIES("deployed %d", deployed);
		for (size_t g = 0; g < sizeof(gaps) / sizeof(gaps[0]); g++) {
			TRIES("row %zu", g);
			struct connfix_params params = { .deployed = deployed, .sndbuf = 16384 };
			struct connfix *a, *b;
			uint32_t gap = gaps[g], marks = 0, turn = 0;
			connfix_new_pair(&params, &params, &a, &b);
			while (marks < 20) {
				/* The stream does not stand still. */
				assert_in_range(turn, 0, 1000);
				uint64_t sent = a->conn->tx.committed;
				uint64_t part = gap - sent % gap, space = connfix_space(a);
				if (part > 3000)
					connfix_write(a, space < 3000 ? space : 3000);
				else if (smcr_conn_tx_urgent_ready(a->conn) && part <= space)
					connfix_write_urgent(a, part);
				connfix_deliver(a);
				connfix_complete(a);
				size_t have = connfix_readable(b), offset;
				uint64_t from = b->conn->rx.consumed;
				if (smcr_conn_rx_urgent(b->conn, &offset) == SMCR_URGENT_PRESENT) {
					assert_int_equal(offset + 1, have);
					assert_int_equal((from + have) % gap, 0);
				} else {
					assert_true(from % gap + have < gap);
				}
				size_t n = ++turn % 2 ? (have + 1) / 2 : have;
				connfix_read(b, n);
				marks += (uint32_t)((from + n) / gap - from / gap);
				connfix_deliver(b);
				connfix_complete(b);
				connfix_forget(a);
				connfix_forget(b);
				b->num_events = b->events_seen = 0;
			}
			connfix_free(a);
			connfix_free(b);
		}
	}
	PROVES("URG-1 URG-3 URG-5 URG-6");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_past_the_byte),
		cmocka_unit_test(window_closed),
		cmocka_unit_test(announced_before_it_fits),
		cmocka_unit_test(announced_and_committed),
		cmocka_unit_test(pending_is_repeated),
		cmocka_unit_test(waits_for_the_reader),
		cmocka_unit_test(cleared_by_normal_data),
		cmocka_unit_test(one_after_another),
		cmocka_unit_test(then_the_end),
		cmocka_unit_test(told_again_after_a_move),
		cmocka_unit_test(read_before_the_move),
		cmocka_unit_test(announced_before_the_move),
		cmocka_unit_test(byte_before_the_producer),
		cmocka_unit_test(consumption_is_told),
		cmocka_unit_test(consumption_is_told_later),
		cmocka_unit_test(announced),
		cmocka_unit_test(odd_positions),
		cmocka_unit_test(newer_mark),
		cmocka_unit_test(before_the_gate_opens),
		cmocka_unit_test(after_close),
		cmocka_unit_test(stream_of_marks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

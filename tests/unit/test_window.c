/* SPDX-License-Identifier: MIT */
/* Window updates and small sends (RFC 7609 4.5; requirements WIN-1..7, CDC-10, CDC-16). */
#include "tests/lib/connfix.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define B_FLAG SMCR_CDC_WRITE_BLOCKED
#define R_FLAG SMCR_CDC_CONS_UPDATE_REQ

/* WIN-1 as a table: U, the window that the sender knows, bytes consumed since, and whether a CDC
 * is sent. */
static void update_rule(void **state)
{
	(void)state;
	static const struct {
		uint32_t usable, ws, gain;
		bool update;
	} rows[] = {
		/* the worked examples of WIN-1, 64 KiB buffer */
		{ 65536, 50 * 1024, 1024, false },
		{ 65536, 30 * 1024, 1024, false },
		{ 65536, 30 * 1024, 34 * 1024, true },
		/* strictly less than half */
		{ 10000, 5000, 5000, false },
		{ 10000, 4999, 5000, true },
		{ 9999, 5000, 4999, false }, /* half is 4999.5 */
		{ 9999, 4999, 5000, true },
		/* at least a tenth; exact where U/10 is no integer */
		{ 10000, 100, 999, false },
		{ 10000, 100, 1000, true },
		{ 9996, 100, 999, false },
		{ 9996, 100, 1000, true },
		{ 9999, 0, 999, false },
		{ 9999, 0, 1000, true },
		/* nothing consumed */
		{ 10000, 0, 0, false },
		{ 16380, 0, 16380, true },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		struct smcr_conn conn = { 0 };
		conn.rx.usable = rows[i].usable;
		conn.rx.consumed_sent = 123456;
		conn.rx.produced = conn.rx.consumed_sent + rows[i].usable - rows[i].ws;
		conn.rx.consumed = conn.rx.consumed_sent + rows[i].gain;
		assert_true(conn.rx.consumed <= conn.rx.produced);
		if (smcr_rx_update_due(&conn) != rows[i].update)
			fail_msg("row %zu", i);
	}
	PROVES("WIN-1");
}

/* The same with the engine: the program reads in small steps, and one CDC is sent when both
 * conditions hold. */
static void update_while_reading(void **state)
{
	(void)state;
	struct connfix *f = connfix_new(NULL); /* U = 9996 */
	connfix_peer_writes(f, 9000);
	connfix_peer_cdc(f);
	for (unsigned int i = 0; i < 9; i++)
		connfix_read(f, 111);
	expect_none(f);     /* gain 999 < 999.6 */
	connfix_read(f, 1); /* gain 1000 */
	expect_cdc(f, 0, 4, 0, 1004, 0, 0);
	connfix_complete(f);
	connfix_read(f, 999);
	expect_none(f);
	connfix_read(f, 5001); /* gain 6000, Ws 1996 */
	expect_cdc(f, 0, 4, 0, 7004, 0, 0);
	connfix_complete(f);
	connfix_read(f, 2000); /* Ws 7996: not below half */
	expect_none(f);
	connfix_free(f);
	PROVES("WIN-1");
}

/* WIN-2: a CDC for data has the consumer cursor, and counts as an update. */
static void data_carries_the_position(void **state)
{
	(void)state;
	struct connfix *f = connfix_new(NULL);
	connfix_peer_writes(f, 9000);
	connfix_peer_cdc(f);
	connfix_read(f, 900);
	expect_none(f);
	connfix_write(f, 10);
	expect_w(f, 4, 13);
	expect_cdc(f, 0, 14, 0, 904, 0, 0);
	connfix_read(f, 999); /* counted from 900 on: less than a tenth */
	expect_none(f);
	connfix_free(f);
	PROVES("WIN-2");
}

/* WIN-3: while B is set, the peer gets a CDC after every consumption. */
static void blocked_peer(void **state)
{
	(void)state;
	struct connfix *f = connfix_new(NULL);
	connfix_peer_writes(f, 9996);
	connfix_peer_flags(f, B_FLAG, 0);
	expect_none(f);
	connfix_read(f, 1);
	expect_cdc(f, 0, 4, 0, 5, 0, 0);
	connfix_read(f, 2);
	expect_cdc(f, 0, 4, 0, 7, 0, 0);
	connfix_complete(f);
	connfix_peer_writes(f, 3);
	connfix_peer_flags(f, 0, 0);
	connfix_read(f, 5);
	expect_none(f);
	connfix_free(f);
	PROVES("WIN-3");
}

/* WIN-7: the peer sets B though everything was read here. No further consumption will send it the
 * cursor, so it gets a CDC at once. */
static void blocked_peer_with_an_old_position(void **state)
{
	(void)state;
	struct connfix *f = connfix_new(NULL);
	connfix_peer_writes(f, 500);
	connfix_peer_cdc(f);
	connfix_read(f, 400);
	connfix_peer_flags(f, B_FLAG, 0);
	expect_none(f); /* 100 bytes are still unread */
	connfix_peer_flags(f, 0, 0);
	connfix_read(f, 100);
	expect_none(f);
	connfix_peer_flags(f, B_FLAG, 0);
	expect_cdc(f, 0, 4, 0, 504, 0, 0);
	connfix_free(f);
	PROVES("WIN-7");
}

/* WIN-4: R asks for the consumer cursor at once, even if it is not new (A66), and after each
 * consumption. */
static void update_requested(void **state)
{
	(void)state;
	struct connfix *f = connfix_new(NULL);
	connfix_peer_flags(f, R_FLAG, 0);
	expect_cdc(f, 0, 4, 0, 4, 0, 0);
	connfix_peer_writes(f, 100);
	connfix_peer_flags(f, 0, 0);
	connfix_read(f, 60);
	expect_none(f);
	connfix_peer_flags(f, R_FLAG, 0);
	expect_cdc(f, 0, 4, 0, 64, 0, 0);
	connfix_read(f, 10);
	expect_cdc(f, 0, 4, 0, 74, 0, 0);
	connfix_peer_flags(f, 0, 0);
	connfix_read(f, 10);
	expect_none(f);
	connfix_free(f);
	PROVES("WIN-4");
}

/* WIN-5: small writes are not delayed, whatever is outstanding. */
static void small_sends(void **state)
{
	(void)state;
	struct connfix *f = connfix_new(NULL);
	for (uint32_t i = 0; i < 20; i++) {
		connfix_write(f, 1);
		expect_w(f, 4 + i, 4 + i);
		expect_cdc(f, 0, 5 + i, 0, 4, 0, 0);
	}
	connfix_free(f);
	PROVES("WIN-5");
}

/* CDC-10, CDC-16: no write goes beyond what the peer has read. B is set when the window is full,
 * and cleared by the next CDC; if there are no data, a CDC is sent for that alone. */
static void own_window(void **state)
{
	(void)state;
	struct connfix *f = connfix_new(NULL);
	connfix_write(f, 9995);
	expect_w(f, 4, 9998);
	expect_cdc(f, 0, 9999, 0, 4, 0, 0); /* one byte short of full: not blocked */
	connfix_write(f, 1);
	expect_w(f, 9999, 9999);
	expect_cdc(f, 1, 4, 0, 4, B_FLAG, 0); /* exactly full (A36) */
	connfix_write(f, 1000);
	expect_none(f);
	f->peer_cons += 300;
	connfix_peer_cdc(f);
	expect_w(f, 4, 303);
	expect_cdc(f, 1, 304, 0, 4, B_FLAG, 0); /* 700 bytes wait */
	f->peer_cons += 700;
	connfix_peer_cdc(f);
	expect_w(f, 304, 1003);
	expect_cdc(f, 1, 1004, 0, 4, B_FLAG, 0); /* no bytes wait, but the window is full */
	f->peer_cons += 1;
	connfix_peer_cdc(f);
	expect_cdc(f, 1, 1004, 0, 4, 0, 0);
	f->peer_cons += 1;
	connfix_peer_cdc(f);
	expect_none(f);
	connfix_free(f);
	PROVES("CDC-10 CDC-16");
}

/* A connection takes half of a link's send queue at most, goes on when its own requests complete,
 * and then sends one CDC for all that waits. */
static void share_of_the_link(void **state)
{
	(void)state;
	struct connfix_params params = { .send_depth = 64 };
	struct connfix *f = connfix_new(&params);
	for (unsigned int i = 0; i < 40; i++)
		connfix_write(f, 1);
	assert_in_range(connfix_in_flight(f), 31, 32);
	f->seen = f->num_posts;
	f->out_seq = (uint16_t)(f->num_posts / 2);
	connfix_complete_n(f, 2);
	expect_w(f, 4 + 16, 4 + 39);
	expect_cdc(f, 0, 4 + 40, 0, 4, 0, 0);
	connfix_complete(f);
	expect_none(f);
	connfix_free(f);
}

/* The link is full: consumer updates and data wait, and later one list has them all. */
static void no_room_on_the_link(void **state)
{
	(void)state;
	struct connfix_params params = { .send_depth = 64 };
	struct connfix *f = connfix_new(&params);
	struct smcr_wr wr = { .addr = "x", .length = 1 };
	const struct smcr_tx_entry entry = { .kind = SMCR_TX_WRITE };
	uint64_t first = f->link->tx_next;
	while (smcr_link_room(f->link, 1)) /* requests of other connections */
		smcr_link_post(f->link, &wr, &entry, 1);
	uint64_t last = f->link->tx_next - 1;
	connfix_write(f, 100);
	connfix_write(f, 200);
	connfix_peer_writes(f, 9996);
	connfix_peer_flags(f, B_FLAG, 0);
	connfix_read(f, 10);
	connfix_read(f, 20);
	expect_none(f);
	smcr_engine_send_done(f->engine, f->link->ref, first, SMCR_SEND_OK, NULL);
	expect_none(f); /* a write and its CDC need two places */
	smcr_engine_send_done(f->engine, f->link->ref, last, SMCR_SEND_OK, NULL);
	expect_w(f, 4, 303);
	expect_cdc(f, 0, 304, 0, 34, 0, 0);
	expect_none(f);
	connfix_free(f);
	PROVES("WIN-2 CDC-4");
}

static uint32_t random32(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*seed >> 33);
}

/* WIN-7, CDC-10, RMB-11: whatever the two programs do, in both dialects, all bytes arrive in order
 * (the readers check them), no write leaves the window (the RNIC checks), and no program waits for
 * ever. */
static void flow(uint64_t seed, bool deployed, uint32_t element)
{
	static const size_t total = 200000;
	struct connfix_params params = {
		.deployed = deployed,
		.element = element,
		.sndbuf = 1u << (6 + random32(&seed) % 11),
		.send_depth = 64,
		.tx = { 65530, deployed ? 0 : 4 }, /* the wrap numbers wrap too */
		.rx = { 65530, deployed ? 0 : 4 },
	};
	struct connfix *f[2];
	size_t sent[2] = { 0 }, got[2] = { 0 };
	unsigned int stalled = 0;
	connfix_new_pair(&params, &params, &f[0], &f[1]);
	while (got[0] < total || got[1] < total) {
		unsigned int i = random32(&seed) % 2;
		size_t before = got[0] + got[1] + sent[0] + sent[1], n;
		switch (random32(&seed) % 4) {
		case 0:
			n = connfix_space(f[i]);
			if (n > total - sent[i])
				n = total - sent[i];
			n = n ? random32(&seed) % n + 1 : 0;
			connfix_write(f[i], n);
			sent[i] += n;
			break;
		case 1:
			n = connfix_readable(f[i]);
			n = n ? random32(&seed) % n + 1 : 0;
			connfix_read(f[i], n);
			got[i] += n;
			break;
		case 2: connfix_deliver(f[i]); break;
		default: /* acknowledged later than carried out */
			n = connfix_in_flight(f[i]);
			n = n ? random32(&seed) % n + 1 : 0;
			if (n)
				connfix_deliver(f[i]);
			connfix_complete_n(f[i], n);
		}
		stalled = before == got[0] + got[1] + sent[0] + sent[1] ? stalled + 1 : 0;
		assert_true(stalled < 1000);
		for (i = 0; i < 2; i++)
			if (f[i]->num_posts > CONNFIX_LOG / 2)
				connfix_forget(f[i]);
		f[0]->num_events = f[1]->num_events = 0;
	}
	assert_int_equal(sent[0], total);
	assert_int_equal(sent[1], total);
	f[0]->events_seen = f[1]->events_seen = 0;
	connfix_free(f[0]);
	connfix_free(f[1]);
}

static void progress(void **state)
{
	(void)state;
	static const uint32_t elements[] = { 64, 1000, 4096, 10000, 65536 };
	for (uint64_t seed = 1; seed <= 6; seed++)
		for (size_t i = 0; i < sizeof(elements) / sizeof(elements[0]); i++)
			flow(seed * 977 + i, seed % 2, elements[i]);
	PROVES("WIN-7 CDC-10 RMB-11 CDC-2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(update_rule),
		cmocka_unit_test(update_while_reading),
		cmocka_unit_test(data_carries_the_position),
		cmocka_unit_test(blocked_peer),
		cmocka_unit_test(blocked_peer_with_an_old_position),
		cmocka_unit_test(update_requested),
		cmocka_unit_test(small_sends),
		cmocka_unit_test(own_window),
		cmocka_unit_test(share_of_the_link),
		cmocka_unit_test(no_room_on_the_link),
		cmocka_unit_test(progress),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

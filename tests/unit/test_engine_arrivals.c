/* SPDX-License-Identifier: MIT */
/* The bytes that a CDC announces, asked of the engine before it gets the CDC; captures use this. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "daemon/smcr/internal.h"
#include "daemon/smcr/view.h"
#include "tests/lib/enginepair.h"

#define S PAIR_SERVER
#define C PAIR_CLIENT

#define ROUND 5000

struct seen {
	unsigned int most;
	uint8_t bytes[ROUND]; /* announced since the test has read */
	size_t len;
	const uint8_t *addr[2]; /* of the latest announcement */
};

static size_t arrivals_of(struct pair *pair, const struct pair_msg *msg,
			  struct smcr_arrival arrivals[2])
{
	uint8_t wire[SMCR_CDC_LEN];
	const struct smcr_link *link = pair_link(pair, !msg->from, msg->link);
	assert_int_equal(smcr_cdc_encode(&msg->cdc, wire, sizeof(wire)), SMCR_CDC_LEN);
	return smcr_engine_arrivals(pair->side[!msg->from].engine, link->ref, wire, sizeof(wire),
				    arrivals);
}

/* RKey and address are those that the peer got in CLC and LLC messages of the link. */
static void check_place(const struct smcr_link *link, const struct smcr_arrival *arrival)
{
	const struct smcr_slab *slab;
	DL_FOREACH (link->lgr->rmbs, slab)
		if (slab->reg[link->slot].rkey == arrival->rkey) {
			assert_int_equal(arrival->remote_addr - slab->reg[link->slot].vaddr,
					 arrival->addr - slab->base);
			return;
		}
	fail_msg("no RMB has that key on this link");
}

static enum pair_verdict look(struct pair *pair, const struct pair_msg *msg, void *arg)
{
	struct seen *seen = arg;
	struct smcr_arrival arrivals[2];
	if (!msg->is_cdc || msg->from != C)
		return PAIR_PASS;
	unsigned int n = (unsigned int)arrivals_of(pair, msg, arrivals);
	for (unsigned int i = 0; i < n; i++) {
		check_place(pair_link(pair, S, msg->link), &arrivals[i]);
		assert_true(seen->len + arrivals[i].length <= sizeof(seen->bytes));
		memcpy(seen->bytes + seen->len, arrivals[i].addr, arrivals[i].length);
		seen->len += arrivals[i].length;
		seen->addr[i] = arrivals[i].addr;
	}
	seen->most = n > seen->most ? n : seen->most;
	return PAIR_PASS;
}

/* The program is about to read the bytes that were announced. */
static void compare(const struct seen *seen, struct smcr_conn *conn)
{
	struct iovec iov[2];
	size_t at = 0;
	const int n = smcr_conn_rx_data(conn, iov);
	for (int i = 0; i < n; i++) {
		assert_true(at + iov[i].iov_len <= seen->len);
		assert_memory_equal(seen->bytes + at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	assert_int_equal(at, ROUND);
	assert_int_equal(seen->len, ROUND);
}

/* On each of two links every byte is announced once, in at most two pieces: the second begins at
 * the start of the element. */
static void bytes_are_found_in_their_place(void **state)
{
	int conns[2];
	struct seen seen = { 0 };
	struct pair *pair = pair_grouped(2, &conns[0]);
	(void)state;
	conns[1] = pair_connected(pair);
	assert_ptr_not_equal(pair_end(pair, conns[0], C)->smc->tx.link,
			     pair_end(pair, conns[1], C)->smc->tx.link);
	pair->filter = look;
	pair->filter_arg = &seen;
	for (uint8_t round = 0; round < 24; round++) {
		const int conn = conns[round % 2];
		seen.len = 0;
		pair_send(pair, conn, C, ROUND, round);
		pair_pump(pair);
		compare(&seen, pair_end(pair, conn, S)->smc);
		pair_expect(pair, conn, S, ROUND, round);
	}
	assert_int_equal(seen.most, 2);
	assert_true(seen.addr[1] < seen.addr[0]);
	pair->filter = NULL;
	pair_free(pair);
}

static enum pair_verdict keep(struct pair *pair, const struct pair_msg *msg, void *arg)
{
	(void)pair;
	if (msg->is_cdc && msg->from == C)
		*(struct pair_msg *)arg = *msg;
	return PAIR_PASS;
}

static void nothing_is_found_out_of_order(void **state)
{
	int conn;
	struct pair_msg last;
	struct smcr_arrival arrivals[2];
	struct pair *pair = pair_grouped(1, &conn);
	(void)state;
	pair->filter = keep;
	pair->filter_arg = &last;
	pair_send(pair, conn, C, 100, 1);
	pair_pump(pair);
	pair->filter = NULL;
	assert_int_equal(arrivals_of(pair, &last, arrivals), 0); /* this CDC was processed */
	last.cdc.seq++;
	assert_int_equal(arrivals_of(pair, &last, arrivals), 0); /* nothing new in it */
	last.cdc.producer.offset += 10;
	assert_int_equal(arrivals_of(pair, &last, arrivals), 1);
	assert_int_equal(arrivals[0].length, 10);
	last.cdc.prod_flags = SMCR_CDC_FAILOVER;
	assert_int_equal(arrivals_of(pair, &last, arrivals), 0);
	last.cdc.prod_flags = 0;
	const struct smcr_conn *to = pair_end(pair, conn, S)->smc;
	const struct smcr_cdc_cursor now = last.cdc.producer;
	last.cdc.producer.offset = UINT32_MAX; /* outside the element */
	assert_int_equal(arrivals_of(pair, &last, arrivals), 0);
	/* behind the window: the 100 bytes that are there have not been read */
	last.cdc.producer = now;
	last.cdc.producer.wrap++;
	assert_int_equal(arrivals_of(pair, &last, arrivals), 0);
	last.cdc.producer.offset -= 110; /* exactly the window */
	assert_int_equal(arrivals_of(pair, &last, arrivals), 1);
	assert_int_equal(arrivals[0].length, to->rx.usable - 100);
	last.cdc.alert_token++;
	assert_int_equal(arrivals_of(pair, &last, arrivals), 0);
	const uint8_t llc[44] = { 7, 44 };
	assert_int_equal(smcr_engine_arrivals(pair->side[S].engine, 1, llc, 44, arrivals), 0);
	assert_int_equal(smcr_engine_arrivals(pair->side[S].engine, 99, llc, 44, arrivals), 0);
	assert_int_equal(smcr_engine_arrivals(pair->side[S].engine, 1, llc, 0, arrivals), 0);
	pair_expect(pair, conn, S, 100, 1);
	pair_free(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_found_in_their_place),
		cmocka_unit_test(nothing_is_found_out_of_order),
	};
	return cmocka_run_group_tests_name("engine arrivals", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* What a CDC message announces, before the engine is given it: for captures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "daemon/engine/view.h"
#include "tests/lib/enginepair.h"

#define S PAIR_SERVER
#define C PAIR_CLIENT

struct seen {
	unsigned int messages, arrivals, most;
	uint64_t bytes;
	uint64_t pieces[2]; /* where the last ones began, for the peer */
	uint8_t first;
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

static enum pair_verdict look(struct pair *pair, const struct pair_msg *msg, void *arg)
{
	struct seen *seen = arg;
	struct smcr_arrival arrivals[2];
	if (!msg->is_cdc || msg->from != C)
		return PAIR_PASS;
	unsigned int n = (unsigned int)arrivals_of(pair, msg, arrivals);
	for (unsigned int i = 0; i < n; i++) {
		seen->bytes += arrivals[i].length;
		seen->pieces[i] = arrivals[i].remote_addr;
		assert_int_not_equal(arrivals[i].rkey, 0);
	}
	if (n)
		seen->first = arrivals[0].addr[0];
	seen->messages++;
	seen->arrivals += n;
	seen->most = n > seen->most ? n : seen->most;
	return PAIR_PASS;
}

/* Every byte is announced once, in at most two pieces: the second where the element begins anew. */
static void bytes_are_found_where_they_lie(void **state)
{
	int conn;
	struct seen seen = { 0 };
	struct pair *pair = pair_grouped(1, &conn);
	(void)state;
	pair->filter = look;
	pair->filter_arg = &seen;
	uint64_t sent = 0;
	for (uint8_t seed = 1; seed < 12; seed++) {
		pair_send(pair, conn, C, 5000, seed);
		pair_pump(pair);
		sent += 5000;
		assert_int_equal(seen.bytes, sent);
		const struct smcr_conn *to = pair_end(pair, conn, S)->smc;
		struct iovec iov[2];
		assert_true(smcr_conn_rx_data((struct smcr_conn *)to, iov) > 0);
		pair_expect(pair, conn, S, 5000, seed);
	}
	assert_int_equal(seen.most, 2);
	assert_true(seen.pieces[0] != seen.pieces[1]);
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
	assert_int_equal(arrivals_of(pair, &last, arrivals), 0); /* it was taken */
	last.cdc.seq++;
	assert_int_equal(arrivals_of(pair, &last, arrivals), 0); /* it announces nothing */
	last.cdc.producer.offset += 10;
	assert_int_equal(arrivals_of(pair, &last, arrivals), 1);
	assert_int_equal(arrivals[0].length, 10);
	last.cdc.prod_flags = SMCR_CDC_FAILOVER;
	assert_int_equal(arrivals_of(pair, &last, arrivals), 0);
	last.cdc.prod_flags = 0;
	last.cdc.producer.offset = UINT32_MAX; /* outside of the element */
	assert_int_equal(arrivals_of(pair, &last, arrivals), 0);
	last.cdc.producer.offset = 200;
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
		cmocka_unit_test(bytes_are_found_where_they_lie),
		cmocka_unit_test(nothing_is_found_out_of_order),
	};
	return cmocka_run_group_tests_name("engine arrivals", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* The sequences of RFC 7609 4.7 (group DATA of requirements.tsv), E = 10000. A and B are two
 * connections of the engine, each the other's peer. Every write, cursor and flag is checked, and
 * that no other CDC is sent. */
#include "tests/lib/connfix.h"
#include "tests/lib/proves.h"

enum {
	B_FLAG = SMCR_CDC_WRITE_BLOCKED,
	P_FLAG = SMCR_CDC_URGENT_PENDING,
	U_FLAG = SMCR_CDC_URGENT_PRESENT,
};

/* A writes from `data` on, and B reads from there. The other direction is at its start. */
static void pair_at(struct connfix_pos data, struct connfix **a, struct connfix **b)
{
	struct connfix_params pa = { .element = 10000, .sndbuf = 65536, .tx = data };
	struct connfix_params pb = { .element = 10000, .sndbuf = 65536, .rx = data };
	connfix_new_pair(&pa, &pb, a, b);
}

static void free_pair(struct connfix *a, struct connfix *b)
{
	expect_none(a);
	expect_none(b);
	connfix_free(a);
	connfix_free(b);
}

/* What `f` posted reaches the peer and completes. */
static void transfer(struct connfix *f)
{
	connfix_deliver(f);
	connfix_complete(f);
}

static void data_1_window_open(void **state)
{
	(void)state;
	struct connfix *a, *b;
	pair_at((struct connfix_pos){ 0, 4 }, &a, &b);
	connfix_write(a, 1000);
	expect_w(a, 4, 1003);
	expect_cdc(a, 0, 1004, 0, 4, 0, 0);
	transfer(a);
	expect_event(b, SMCR_CONN_READABLE);
	connfix_read(b, 1000);
	expect_none(b); /* Ws = 8996 >= half */
	free_pair(a, b);
	PROVES("DATA-1 CDC-15 CDC-6");
}

static void data_2_answer(void **state)
{
	(void)state;
	struct connfix *a, *b;
	pair_at((struct connfix_pos){ 0, 4 }, &a, &b);
	connfix_write(a, 1000);
	expect_w(a, 4, 1003);
	expect_cdc(a, 0, 1004, 0, 4, 0, 0);
	transfer(a);
	connfix_read(b, 1000);
	expect_none(b);
	connfix_write(b, 500);
	expect_w(b, 4, 503);
	expect_cdc(b, 0, 504, 0, 1004, 0, 0);
	transfer(b);
	connfix_read(a, 500);
	expect_none(a);
	free_pair(a, b);
	PROVES("DATA-2 WIN-2");
}

static void data_3_window_constrained(void **state)
{
	(void)state;
	struct connfix *a, *b;
	pair_at((struct connfix_pos){ 0, 4 }, &a, &b);
	connfix_write(a, 3000);
	expect_w(a, 4, 3003);
	expect_cdc(a, 0, 3004, 0, 4, 0, 0);
	transfer(a);
	connfix_read(b, 3000);
	expect_none(b); /* Ws = 6996 >= half */
	connfix_write(a, 4000);
	expect_w(a, 3004, 7003);
	expect_cdc(a, 0, 7004, 0, 4, 0, 0);
	transfer(a);
	expect_none(b);
	connfix_read(b, 4000);
	expect_cdc(b, 0, 4, 0, 7004, 0, 0);
	transfer(b);
	free_pair(a, b);
	PROVES("DATA-3 WIN-1");
}

static void data_4_full_window(void **state)
{
	(void)state;
	struct connfix *a, *b;
	pair_at((struct connfix_pos){ 1, 1004 }, &a, &b);
	connfix_write(a, 20000);
	expect_w(a, 1004, 9999);
	expect_w(a, 4, 1003);
	expect_cdc(a, 2, 1004, 0, 4, B_FLAG, 0);
	expect_none(a); /* 10004 bytes wait */
	transfer(a);
	assert_int_equal(connfix_readable(b), 9996);
	connfix_read(b, 9996);
	expect_cdc(b, 0, 4, 2, 1004, 0, 0);
	transfer(b);
	expect_w(a, 1004, 9999);
	expect_w(a, 4, 1003);
	expect_cdc(a, 3, 1004, 0, 4, B_FLAG, 0);
	expect_none(a);
	transfer(a);
	connfix_read(b, 9996);
	expect_cdc(b, 0, 4, 3, 1004, 0, 0);
	transfer(b);
	expect_w(a, 1004, 1011);
	expect_cdc(a, 3, 1012, 0, 4, 0, 0);
	transfer(a);
	connfix_read(b, 8);
	expect_none(b); /* Ws = 9988 */
	free_pair(a, b);
	PROVES("DATA-4 CDC-9 CDC-11 CDC-16 WIN-3");
}

static void expect_urgent(struct connfix *f, enum smcr_urgent state, size_t offset)
{
	size_t at = SIZE_MAX;
	assert_int_equal(smcr_conn_rx_urgent(f->conn, &at), state);
	if (state == SMCR_URGENT_PRESENT)
		assert_int_equal(at, offset);
}

static void data_5_urgent_window_open(void **state)
{
	(void)state;
	struct connfix *a, *b;
	pair_at((struct connfix_pos){ 1, 1000 }, &a, &b);
	connfix_write_urgent(a, 500);
	expect_w(a, 1000, 1499);
	expect_cdc(a, 1, 1500, 0, 4, P_FLAG | U_FLAG, 0);
	connfix_write(a, 1000);
	transfer(a);
	expect_none(a); /* nothing before the CDC with c=(1,1500) */
	expect_event(b, SMCR_CONN_URGENT);
	expect_urgent(b, SMCR_URGENT_PRESENT, 499); /* the urgent byte is at 1499 */
	expect_event(b, SMCR_CONN_READABLE);
	expect_none(b);
	connfix_read(b, 500);
	expect_cdc(b, 0, 4, 1, 1500, 0, 0); /* this update must be sent */
	transfer(b);
	expect_w(a, 1500, 2499);
	expect_cdc(a, 1, 2500, 0, 4, 0, 0);
	transfer(a);
	connfix_read(b, 1000);
	expect_none(b); /* Ws = 8996 */
	free_pair(a, b);
	PROVES("DATA-5 URG-1 URG-3 URG-6 URG-7");
}

static void data_6_urgent_window_closed(void **state)
{
	(void)state;
	struct connfix *a, *b;
	pair_at((struct connfix_pos){ 1, 1000 }, &a, &b);
	connfix_write(a, 9996);
	expect_w(a, 1000, 9999);
	expect_w(a, 4, 999);
	expect_cdc(a, 2, 1000, 0, 4, B_FLAG, 0);
	transfer(a);
	expect_event(b, SMCR_CONN_READABLE);
	connfix_write_urgent(a, 500);
	expect_cdc(a, 2, 1000, 0, 4, B_FLAG | P_FLAG, 0);
	connfix_write(a, 1000);
	expect_none(a);
	transfer(a);
	expect_event(b, SMCR_CONN_URGENT);
	expect_urgent(b, SMCR_URGENT_PENDING, 0);
	expect_no_event(b);
	expect_none(b);
	connfix_read(b, 9996);
	expect_cdc(b, 0, 4, 2, 1000, 0, 0);
	transfer(b);
	expect_w(a, 1000, 1499);
	expect_cdc(a, 2, 1500, 0, 4, P_FLAG | U_FLAG, 0);
	expect_none(a);
	transfer(a);
	expect_event(b, SMCR_CONN_URGENT);
	expect_event(b, SMCR_CONN_READABLE);
	expect_urgent(b, SMCR_URGENT_PRESENT, 499);
	connfix_read(b, 300);
	expect_none(b);
	connfix_read(b, 200);
	expect_cdc(b, 0, 4, 2, 1500, 0, 0);
	transfer(b);
	expect_w(a, 1500, 2499);
	expect_cdc(a, 2, 2500, 0, 4, 0, 0);
	transfer(a);
	expect_event(b, SMCR_CONN_READABLE);
	expect_no_event(b);
	connfix_read(b, 1000);
	expect_none(b);
	free_pair(a, b);
	PROVES("DATA-6 URG-1 URG-2 URG-3 URG-6 URG-7");
}

/* DATA-7, CDC-17: the program may forget its bytes at once. Their space in the send buffer is free
 * after the completion, not before. */
static void send_buffer(void **state)
{
	(void)state;
	struct connfix_params params = { .sndbuf = 4096 };
	struct connfix *f = connfix_new(&params);
	assert_int_equal(connfix_space(f), 4096);
	connfix_write(f, 3000);
	assert_int_equal(connfix_space(f), 1096);
	expect_w(f, 4, 3003);
	expect_cdc(f, 0, 3004, 0, 4, 0, 0);
	connfix_write(f, 1096);
	expect_w(f, 3004, 4099);
	expect_cdc(f, 0, 4100, 0, 4, 0, 0);
	assert_int_equal(connfix_space(f), 0);
	connfix_peer_reads_all(f);
	connfix_peer_cdc(f);
	/* The peer has read them, but they have not completed. */
	assert_int_equal(connfix_space(f), 0);
	assert_int_equal(f->writable, 0);
	connfix_complete_n(f, 2);
	assert_int_equal(connfix_space(f), 3000);
	assert_int_equal(f->writable, 1);
	/* The next write wraps in the send buffer: two requests, one CDC. */
	connfix_write(f, 3000);
	expect_w(f, 4100, 7099);
	expect_cdc(f, 0, 7100, 0, 4, 0, 0);
	connfix_complete(f);
	assert_int_equal(connfix_space(f), 4096);
	connfix_write(f, 2000); /* from 3000 of 4096 on, and again from 0 */
	expect_w(f, 7100, 8195);
	expect_w(f, 8196, 9099);
	expect_cdc(f, 0, 9100, 0, 4, 0, 0);
	expect_none(f);
	connfix_free(f);
	PROVES("DATA-7 CDC-17 CDC-11");
}

/* A range needs three writes at most: it wraps in the element and in the send buffer. */
static void three_writes(void **state)
{
	(void)state;
	struct connfix_params params = { .sndbuf = 4096, .tx = { 0, 8196 } };
	struct connfix *f = connfix_new(&params); /* position 8192 = start of the send buffer */
	connfix_write(f, 1000);
	expect_w(f, 8196, 9195);
	expect_cdc(f, 0, 9196, 0, 4, 0, 0);
	connfix_complete(f);
	connfix_peer_reads_all(f);
	connfix_peer_cdc(f);
	connfix_write(f, 4096); /* element ends after 804, buffer after 3096 */
	expect_w(f, 9196, 9999);
	expect_w(f, 4, 2295);
	expect_w(f, 2296, 3295);
	expect_cdc(f, 1, 3296, 0, 4, 0, 0);
	expect_none(f);
	connfix_free(f);
	PROVES("CDC-11 RMB-11");
}

/* The same bytes in the deployed dialect: every offset is four less, and U = E. */
static void deployed_dialect(void **state)
{
	(void)state;
	struct connfix_params params = { .deployed = true, .element = 16384 };
	struct connfix *a, *b;
	connfix_new_pair(&params, &params, &a, &b);
	connfix_write(a, 20000);
	expect_w(a, 0, 16383);
	expect_cdc(a, 1, 0, 0, 0, B_FLAG, 0);
	transfer(a);
	connfix_read(b, 16384);
	expect_cdc(b, 0, 0, 1, 0, 0, 0);
	transfer(b);
	expect_w(a, 0, 3615);
	expect_cdc(a, 1, 3616, 0, 0, 0, 0);
	transfer(a);
	connfix_read(b, 3616);
	free_pair(a, b);
	PROVES("CDC-16");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(data_1_window_open),
		cmocka_unit_test(data_2_answer),
		cmocka_unit_test(data_3_window_constrained),
		cmocka_unit_test(data_4_full_window),
		cmocka_unit_test(data_5_urgent_window_open),
		cmocka_unit_test(data_6_urgent_window_closed),
		cmocka_unit_test(send_buffer),
		cmocka_unit_test(three_writes),
		cmocka_unit_test(deployed_dialect),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

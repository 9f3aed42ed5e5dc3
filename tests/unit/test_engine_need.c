/* SPDX-License-Identifier: MIT */
/* How large an element and a send buffer a connection needs: how that is measured and used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/smcr/internal.h"
#include "tests/lib/enginepair_filter.h"
#include "tests/lib/tries.h"

#define S   PAIR_SERVER
#define C   PAIR_CLIENT
#define KIB 1024u

/** A connection that needs little gets a quarter of what others get, or what it needs if that is
 *  more; however much memory is left. */
static void size_by_need(void **state)
{
	static const struct {
		uint64_t used;
		uint32_t need;
		uint8_t bsize;
	} rows[] = {
		{ 0, 0, 5 },
		{ 0, UINT32_MAX, 5 },
		{ 0, 1, 3 },
		{ 0, 128 * KIB - 4, 3 },
		{ 0, 128 * KIB, 4 },
		{ 0, 256 * KIB, 5 },
		{ 500u << 20, 0, 3 }, /* 128 KiB */
		{ 500u << 20, UINT32_MAX, 3 },
		{ 500u << 20, 1, 1 },
		{ 500u << 20, 40 * KIB, 2 },
		{ 600u << 20, 0, 1 }, /* 32 KiB */
		{ 600u << 20, 1, 0 },
		{ 600u << 20, 20 * KIB, 1 },
		{ 700u << 20, UINT32_MAX, 0 },
		{ 700u << 20, 1, 0 },
	};
	(void)state;
	struct smcr_config config = pair_config(S);
	config.bsize = config.bsize_min = 0xFF;
	struct pair *pair = pair_new(&config, NULL, 1, 1);
	struct smcr_engine *engine = pair->side[S].engine;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		engine->memory_used = rows[i].used;
		assert_int_equal(smcr_bsize_choose(engine, rows[i].need), rows[i].bsize);
	}
	engine->memory_used = 0;
	pair_free(pair);
}

/** Elements and send buffers of 64 KiB, or of 16 KiB if little is needed. */
static struct pair *pair_with(struct smcr_needs server, struct smcr_needs client)
{
	struct smcr_config config[2] = { pair_config(S), pair_config(C) };
	config[S].bsize = config[C].bsize = 2;
	struct pair *pair = pair_new(&config[S], &config[C], 1, 1);
	pair->side[S].expected = server;
	pair->side[C].expected = client;
	return pair;
}

/** Each direction is measured by itself: a connection that sends much and receives little gets a
 *  large send buffer. */
static void directions(void **state)
{
	(void)state;
	struct pair *pair = pair_with((struct smcr_needs){ 1, UINT32_MAX },
				      (struct smcr_needs){ 40 * KIB, 20 * KIB });
	int c = pair_connected(pair);
	const struct smcr_conn *server = pair_end(pair, c, S)->smc;
	const struct smcr_conn *client = pair_end(pair, c, C)->smc;
	assert_int_equal(server->rx.element.size, 16 * KIB);
	assert_int_equal(server->tx.buf.size, 64 * KIB);
	assert_int_equal(client->rx.element.size, 64 * KIB);
	assert_int_equal(client->tx.buf.size, 32 * KIB);
	pair_exchange(pair, c);
	pair_free(pair);
}

/** All bytes that come within ten milliseconds are added up, whether read or not. Bytes that wait
 *  always count. */
static void measure(void **state)
{
	(void)state;
	struct pair *pair = pair_with((struct smcr_needs){ 0 }, (struct smcr_needs){ 0 });
	int c = pair_connected(pair);
	pair_run(pair, 20000);
	for (unsigned int i = 0; i < 3; i++) {
		pair_send(pair, c, C, 100, (uint8_t)i);
		pair_pump(pair);
		pair_expect(pair, c, S, 100, (uint8_t)i);
		pair_run(pair, 4000);
	}
	assert_int_equal(smcr_need_of(pair_end(pair, c, S)->smc).rcv, 300);
	assert_int_equal(smcr_need_of(pair_end(pair, c, S)->smc).snd, 1);
	assert_int_equal(smcr_need_of(pair_end(pair, c, C)->smc).snd, 300);
	for (unsigned int i = 0; i < 4; i++) {
		pair_run(pair, 20000);
		pair_send(pair, c, C, 200, (uint8_t)i);
		pair_pump(pair);
		if (i < 2)
			pair_expect(pair, c, S, 200, (uint8_t)i);
	}
	assert_int_equal(smcr_need_of(pair_end(pair, c, S)->smc).rcv, 400);
	assert_int_equal(smcr_need_of(pair_end(pair, c, C)->smc).snd, 300);
	pair_expect(pair, c, S, 200, 2);
	pair_expect(pair, c, S, 200, 3);
	pair_close(pair, c);
	assert_int_equal(pair_end(pair, c, S)->last.needs.rcv, 400);
	assert_int_equal(pair_end(pair, c, S)->last.needs.snd, 1);
	assert_int_equal(pair_end(pair, c, C)->last.needs.snd, 300);
	assert_int_equal(pair_end(pair, c, S)->outgrown + pair_end(pair, c, C)->outgrown, 0);
	pair_free(pair);
}

/** A full buffer is told at once, and once only. It is not told if the buffer could not be
 *  larger. */
static void outgrown(void **state)
{
	(void)state;
	for (int large = 0; large < 2; large++) {
		TRIES("large %d", large);
		uint32_t need = large ? 0 : 1, size = large ? 64 * KIB : 16 * KIB;
		struct pair *pair = pair_with((struct smcr_needs){ need, need },
					      (struct smcr_needs){ need, need });
		int c = pair_connected(pair);
		const struct pair_end *server = pair_end(pair, c, S);
		const struct pair_end *client = pair_end(pair, c, C);
		for (unsigned int i = 0; i < 2; i++) {
			pair_send(pair, c, C, size, (uint8_t)i);
			pair_pump(pair);
			pair_expect(pair, c, S, size, (uint8_t)i);
			pair_pump(pair);
		}
		assert_int_equal(client->outgrown, !large);
		assert_int_equal(server->outgrown, !large);
		if (!large) {
			assert_int_equal(client->last.needs.snd, UINT32_MAX);
			assert_int_equal(client->last.needs.rcv, 1);
			assert_int_equal(server->last.needs.rcv, UINT32_MAX);
		}
		pair_close(pair, c);
		assert_int_equal(client->last.needs.snd, UINT32_MAX);
		assert_int_equal(server->last.needs.rcv, UINT32_MAX);
		assert_int_equal(server->last.needs.snd, 1);
		pair_free(pair);
	}
}

/** If the program has set the size, what was measured does not count for other connections. */
static void set_by_the_program(void **state)
{
	(void)state;
	struct pair *pair = pair_with((struct smcr_needs){ 0 }, (struct smcr_needs){ 0 });
	pair->side[S].rcvbuf = pair->side[C].sndbuf = 10 * KIB;
	int c = pair_connected(pair);
	pair_send(pair, c, C, 16 * KIB, 1);
	pair_pump(pair);
	pair_expect(pair, c, S, 16 * KIB, 1);
	pair_close(pair, c);
	assert_int_equal(pair_end(pair, c, S)->outgrown + pair_end(pair, c, C)->outgrown, 0);
	assert_int_equal(pair_end(pair, c, S)->last.needs.rcv, 0);
	assert_int_equal(pair_end(pair, c, S)->last.needs.snd, 1);
	assert_int_equal(pair_end(pair, c, C)->last.needs.snd, 0);
	pair_free(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(size_by_need),
		cmocka_unit_test(directions),
		cmocka_unit_test(measure),
		cmocka_unit_test(outgrown),
		cmocka_unit_test(set_by_the_program),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

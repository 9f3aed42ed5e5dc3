/* SPDX-License-Identifier: MIT */
/* RMBs and send buffers: sizes, counts, the memory limit, and who holds an element (RFC 7609 2.1,
 * 4.1, 4.2). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/smcr/clc.h"
#include "daemon/smcr/data.h"
#include "tests/lib/enginepair_filter.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define S   PAIR_SERVER
#define C   PAIR_CLIENT
#define KIB 1024u

static void element_for_a_receive_buffer(void **state)
{
	static const struct {
		uint32_t want;
		uint8_t bsize;
	} rows[] = {
		{ 1, 0 },          { 16 * KIB - 4, 0 },  { 16 * KIB - 3, 1 },
		{ 16 * KIB, 1 },   { 32 * KIB - 4, 1 },  { 32 * KIB, 2 },
		{ 64 * KIB, 3 },   { 128 * KIB, 4 },     { 212992, 4 },
		{ 256 * KIB, 5 },  { 512 * KIB - 4, 5 }, { 512 * KIB, 5 },
		{ UINT32_MAX, 5 },
	};
	(void)state;
	struct smcr_config config = pair_config(S);
	config.bsize = config.bsize_min = 0xFF;
	struct pair *pair = pair_new(&config, NULL, 1, 1);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		assert_int_equal(smcr_bsize_holding(rows[i].want), rows[i].bsize);
	}
	pair_free(pair);
	PROVES("RMB-6");
}

/** The default size of an element shrinks from 512 KiB to 16 KiB as memory is used up. */
static void default_shrinks_under_pressure(void **state)
{
	(void)state;
	struct smcr_config config = pair_config(S);
	config.bsize = config.bsize_min = 0xFF;
	config.memory_budget = 1 << 30;
	struct pair *pair = pair_new(&config, NULL, 1, 1);
	struct smcr_engine *engine = pair->side[S].engine;
	static const struct {
		uint64_t used;
		uint8_t bsize;
	} rows[] = {
		{ 0, 5 },          { 384u << 20, 5 }, { (384u << 20) + 1, 4 }, { 448u << 20, 4 },
		{ 449u << 20, 3 }, { 512u << 20, 3 }, { 513u << 20, 2 },       { 576u << 20, 2 },
		{ 577u << 20, 1 }, { 640u << 20, 1 }, { 641u << 20, 0 },       { 1u << 30, 0 },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		engine->memory_used = rows[i].used;
		assert_int_equal(smcr_bsize_choose(engine, 0), rows[i].bsize);
	}
	engine->memory_used = 0;
	pair_free(pair);
	PROVES("RMB-12");
}

/** 10,000 open connections to one peer fit into the default memory limit, each with an element and
 *  a send buffer, in RMBs of one link group. */
static void ten_thousand_connections(void **state)
{
	enum { COUNT = 10000 };
	(void)state;
	struct smcr_config config = pair_config(S);
	config.elements_per_rmb = 0;
	config.bsize = config.bsize_min = 0xFF;
	config.memory_budget = 0;
	struct pair *pair = pair_new(&config, NULL, 1, 1);
	pair_connected(pair);
	struct smcr_engine *engine = pair->side[S].engine;
	struct smcr_lgr *lgr = pair_lgr(pair, S);
	const struct smcr_conn_params params = { .role = SMCR_ROLE_SERVER };
	struct smcr_conn **conns = calloc(COUNT, sizeof(struct smcr_conn *));
	size_t full = 0;
	for (size_t i = 0; i < COUNT; i++) {
		assert_int_equal(smcr_conn_new(engine, &params, &conns[i]), 0);
		smcr_lgr_add_conn(lgr, conns[i]);
		assert_int_equal(smcr_clc_take_memory(conns[i]), 0);
		assert_true(conns[i]->tx.buf.size >= conns[i]->rx.element.size);
		assert_true(i == 0 || conns[i]->rx.element.size <= conns[i - 1]->rx.element.size);
		full += conns[i]->rx.element.size == 512 * KIB;
	}
	assert_int_equal(conns[COUNT - 1]->rx.element.size, 16 * KIB);
	assert_in_range(full, 380, 400);
	assert_in_range(engine->memory_used, 1, UINT64_C(1) << 30);
	assert_in_range(smcr_slab_num_rmbs(lgr), 1, SMCR_MAX_RMBS);
	for (size_t i = 0; i < COUNT; i++)
		smcr_conn_free(conns[i]);
	free(conns);
	pair_free(pair);
	PROVES("RMB-12");
}

static size_t resident(const struct smcr_slab *slab)
{
	size_t len = (size_t)slab->count * slab->element_size, n = 0;
	unsigned char *pages = calloc(len / 4096, 1);
	assert_int_equal(mincore(slab->base, len, pages), 0);
	for (size_t i = 0; i < len / 4096; i++)
		n += pages[i] & 1;
	free(pages);
	return n;
}

/** Memory that no byte has passed through has no pages. */
static void unused_memory_is_not_touched(void **state)
{
	(void)state;
	struct smcr_config config = pair_config(S);
	config.elements_per_rmb = 0;
	config.bsize = 0xFF;
	struct pair *pair = pair_new(&config, NULL, 1, 1);
	int c = pair_connected(pair);
	struct smcr_lgr *lgr = pair_lgr(pair, S);
	assert_int_equal(lgr->rmbs->element_size, 512 * KIB);
	/* pages of the eye catcher, and of the packets that showed the path MTU (A67) */
	assert_int_equal(resident(lgr->rmbs), 2);
	assert_int_equal(resident(lgr->sndbufs), 1);
	pair_exchange(pair, c);
	assert_int_equal(resident(lgr->rmbs), 2);
	assert_int_equal(resident(lgr->sndbufs), 1);
	pair_free(pair);
	PROVES("RMB-3");
}

/** Pages that connections have used go back to the system some time after their end. Other
 *  connections of the same RMB keep theirs. */
static void used_memory_goes_back(void **state)
{
	(void)state;
	for (int refused = 0; refused < 2; refused++) {
		TRIES("refused %d", refused);
		struct smcr_config config = pair_config(S);
		config.elements_per_rmb = 0;
		config.bsize = 0xFF;
		struct pair *pair = pair_new(&config, NULL, 1, 1);
		int first = pair_connected(pair), second = pair_connected(pair);
		const struct smcr_lgr *lgr = pair_lgr(pair, S);
		size_t unused[2] = { resident(lgr->rmbs), resident(lgr->sndbufs) };
		/* pages of eye catchers, and of path MTU packets (A67) */
		assert_int_equal(unused[0] + unused[1], 4);
		for (unsigned int i = 0; i < 6; i++) {
			for (int c = first; c <= second; c++) {
				pair_send(pair, c, C, 12 * KIB, (uint8_t)i);
				pair_pump(pair);
				pair_expect(pair, c, S, 12 * KIB, (uint8_t)i);
				pair_send(pair, c, S, 12 * KIB, (uint8_t)i);
				pair_pump(pair);
				pair_expect(pair, c, C, 12 * KIB, (uint8_t)i);
			}
		}
		size_t rmb = resident(lgr->rmbs), sndbuf = resident(lgr->sndbufs);
		assert_int_equal(rmb, 37);
		assert_int_equal(sndbuf, 36);
		pair->side[S].keep_memory = refused;
		pair_close(pair, first);
		assert_int_equal(resident(lgr->rmbs), rmb);
		pair_run(pair, 61 * 1000 * 1000);
		assert_int_equal(resident(lgr->rmbs), refused ? rmb : rmb / 2);
		assert_int_equal(resident(lgr->sndbufs), refused ? sndbuf : sndbuf / 2);
		/* the next connection finds zeros behind the eye catcher */
		int third = pair_connected(pair);
		for (size_t i = 4; i < lgr->rmbs->element_size; i++)
			assert_int_equal(lgr->rmbs->base[i], 0);
		pair_exchange(pair, second);
		pair_exchange(pair, third);
		pair_free(pair);
	}
	PROVES("RMB-3");
}

static void slabs_and_elements(void **state)
{
	(void)state;
	struct smcr_config config = pair_config(S);
	config.elements_per_rmb = 0;
	config.bsize = 0xFF;
	struct pair *pair = pair_new(&config, NULL, 1, 1);
	int c = pair_connected(pair);
	struct smcr_lgr *lgr = pair_lgr(pair, S);
	struct smcr_slab *slab;
	lgr->rmbs->state = SMCR_SLAB_DELETING; /* not to be chosen again */
	/* min(255, 4 MiB / E) elements */
	static const uint16_t counts[] = { 255, 128, 64, 32, 16, 8 };
	for (uint8_t bsize = 0; bsize <= SMCR_BSIZE_MAX; bsize++) {
		TRIES("bsize %u", bsize);
		assert_int_equal(smcr_slab_add(lgr, true, bsize, bsize, &slab), 0);
		assert_int_equal(slab->count, counts[bsize]);
		assert_int_equal(slab->element_size, 16384u << bsize);
		assert_int_equal(slab->state, SMCR_SLAB_NEW);
		struct smcr_element *e = calloc(slab->count, sizeof(*e));
		for (unsigned int i = 0; i < slab->count; i++) {
			assert_int_equal(smcr_element_take(lgr, true, bsize, SMCR_BSIZE_MAX, &e[i]),
					 0);
			assert_ptr_equal(e[i].slab, slab);
			assert_int_equal(e[i].index, i + 1);
			assert_ptr_equal(e[i].addr, slab->base + (size_t)i * slab->element_size);
			assert_int_equal(e[i].size, slab->element_size);
		}
		assert_int_equal(slab->used, slab->count);
		for (unsigned int i = 0; i < slab->count; i++)
			smcr_element_release(&e[i]);
		assert_int_equal(slab->used, 0);
		free(e);
		smcr_slab_free(slab);
	}
	lgr->rmbs->state = SMCR_SLAB_READY;
	pair_exchange(pair, c);
	pair_close(pair, c);
	pair_free(pair);
	PROVES("RMB-1 RMB-7 LG-13");
}

static void best_fit(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	int c = pair_connected(pair);
	struct smcr_lgr *lgr = pair_lgr(pair, S);
	struct smcr_slab *small, *large;
	struct smcr_element e;
	assert_int_equal(smcr_slab_add(lgr, true, 3, 3, &large), 0);
	assert_int_equal(smcr_slab_add(lgr, true, 1, 1, &small), 0);
	small->state = large->state = SMCR_SLAB_READY;
	assert_int_equal(smcr_element_take(lgr, true, 1, SMCR_BSIZE_MAX, &e), 0);
	assert_ptr_equal(e.slab, small);
	smcr_element_release(&e);
	assert_int_equal(smcr_element_take(lgr, true, 2, SMCR_BSIZE_MAX, &e), 0);
	assert_ptr_equal(e.slab, large);
	smcr_element_release(&e);
	/* an RMB that is announced already is taken before one that is not */
	small->state = SMCR_SLAB_NEW;
	assert_int_equal(smcr_element_take(lgr, true, 1, SMCR_BSIZE_MAX, &e), 0);
	assert_ptr_equal(e.slab, large);
	smcr_element_release(&e);
	/* an RMB that is being withdrawn is not taken */
	large->state = SMCR_SLAB_DELETING;
	assert_int_equal(smcr_element_take(lgr, true, 2, SMCR_BSIZE_MAX, &e), -ENOENT);
	smcr_slab_free(small);
	smcr_slab_free(large);
	pair_close(pair, c);
	pair_free(pair);
	PROVES("RMB-6");
}

/** The memory limit is reached: connections that do not fit stay on TCP, the others go on. */
static void budget(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		struct smcr_config config[2] = { pair_config(S), pair_config(C) };
		config[side].memory_budget = 7 * 16384;
		struct pair *pair = pair_new(&config[S], &config[C], 1, 1);
		int c[4];
		/* 4 + 3 elements: the second RMB is as large as the rest of the memory */
		for (int i = 0; i < 3; i++)
			c[i] = pair_connected(pair);
		assert_int_equal(pair_engine_view(pair, side).memory_used, 7 * 16384);
		c[3] = pair_connect(pair, C);
		pair_pump(pair);
		assert_int_equal(pair_end(pair, c[3], S)->fallback, 1);
		assert_int_equal(pair_end(pair, c[3], C)->fallback, 1);
		assert_int_equal(pair_end(pair, c[3], side)->last.reason,
				 SMCR_REASON_RMBE_EXHAUSTED);
		for (int i = 0; i < 3; i++)
			pair_exchange(pair, c[i]);
		/* an element that becomes free serves the next connection */
		pair_close(pair, c[0]);
		c[0] = pair_connected(pair);
		pair_exchange(pair, c[0]);
		pair_free(pair);
	}
	PROVES("RMB-12 LG-14 ERR-1");
}

/**
 * A program that has set its receive buffer gets this size or none (RMB-6). When memory is short
 * the default shrinks, but this connection stays on TCP.
 */
static void a_receive_buffer_does_not_shrink(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++)
		for (int asked = 0; asked < 2; asked++) {
			TRIES("side %d, asked %d", side, asked);
			struct smcr_config config[2] = { pair_config(S), pair_config(C) };
			config[side].elements_per_rmb = 1;
			config[side].bsize = 2; /* 64 KiB, the size that the program sets */
			config[side].memory_budget = 11 * 16384;
			struct pair *pair = pair_new(&config[S], &config[C], 1, 1);
			pair->side[side].rcvbuf = asked ? 60 * KIB : 0;
			int c[2] = { pair_connect(pair, C), -1 };
			pair_pump(pair);
			assert_true(pair_both_established(pair, c[0]));
			c[1] = pair_connect(pair, C); /* 48 KiB are left */
			pair_run(pair, 300000);
			if (!asked) {
				assert_true(pair_both_established(pair, c[1]));
				pair_exchange(pair, c[1]);
			} else {
				for (int i = 0; i < 2; i++)
					assert_int_equal(pair_end(pair, c[1], i)->fallback, 1);
				assert_int_equal(pair_end(pair, c[1], side)->last.reason,
						 SMCR_REASON_RMBE_EXHAUSTED);
			}
			pair_exchange(pair, c[0]);
			pair_free(pair);
		}
	PROVES("RMB-6 RMB-12");
}

static uint32_t sndbuf_of(struct pair *pair, int conn, int side)
{
	struct smcr_conn_view view;
	smcr_conn_get_view(pair_end(pair, conn, side)->smc, &view);
	assert_int_equal(view.sndbuf_size, pair_conn_view(pair, conn, side).sndbuf_size);
	return view.sndbuf_size;
}

/** The send buffer has the size that the program has set, even if larger ones are free. So the
 *  program can write that much beyond the peer's window, and no more. */
static void a_send_buffer_as_asked_for(void **state)
{
	static const struct {
		uint32_t asked, got;
	} rows[] = { { 0, 64 * KIB },          { 1, 16 * KIB },          { 16 * KIB, 16 * KIB },
		     { 40 * KIB, 64 * KIB },   { 200 * KIB, 256 * KIB }, { 512 * KIB, 512 * KIB },
		     { 513 * KIB, 512 * KIB }, { UINT32_MAX, 512 * KIB } };
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		struct smcr_config config[2] = { pair_config(S), pair_config(C) };
		config[side].bsize = 2;
		config[side].memory_budget = 64 << 20;
		struct pair *pair = pair_new(&config[S], &config[C], 1, 1);
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			TRIES("row %zu", i);
			struct iovec iov[2] = { 0 };
			pair->side[side].sndbuf = rows[i].asked;
			int c = pair_connect(pair, C);
			pair_pump(pair);
			assert_true(pair_both_established(pair, c));
			assert_int_equal(sndbuf_of(pair, c, side), rows[i].got);
			smcr_conn_tx_space(pair_end(pair, c, side)->smc, iov);
			assert_int_equal(iov[0].iov_len + iov[1].iov_len, rows[i].got);
		}
		pair_free(pair);
	}
	PROVES("SOCK-2");
}

/** When memory is short a connection gets another send buffer than the program has set. */
static void a_send_buffer_when_memory_is_short(void **state)
{
	(void)state;
	for (int larger = 0; larger < 2; larger++) {
		TRIES("larger %d", larger);
		struct smcr_config config = pair_config(C);
		config.bsize = 2; /* 64 KiB */
		config.elements_per_rmb = 2;
		config.memory_budget = 18 * 16384;
		struct pair *pair = pair_new(NULL, &config, 1, 1);
		/* two elements and two send buffers of 64 KiB leave 32 KiB */
		int first = pair_connected(pair);
		if (!larger) {
			pair->side[C].sndbuf = 40 * KIB;
			int second = pair_connected(pair);
			assert_int_equal(sndbuf_of(pair, second, C), 64 * KIB);
			pair_close(pair, second);
			pair->side[C].sndbuf = 300 * KIB;
		} else {
			pair->side[C].engine->config.memory_budget = 16 * 16384;
			pair->side[C].sndbuf = 16 * KIB;
		}
		int c = pair_connected(pair);
		assert_int_equal(sndbuf_of(pair, c, C), larger ? 64 * KIB : 16 * KIB);
		pair_exchange(pair, first);
		pair_exchange(pair, c);
		pair_free(pair);
	}
	PROVES("RMB-12");
}

/** Element n of an RMB starts at VA + (n - 1) * E on both sides: bytes that the client writes are
 *  where the server's Accept says. There is no element 0. */
static void elements_count_from_one(void **state)
{
	(void)state;
	for (int rfc = 0; rfc < 2; rfc++) {
		TRIES("rfc %d", rfc);
		struct smcr_config config[2] = { pair_config(S), pair_config(C) };
		if (rfc)
			config[S].dialect = config[C].dialect = SMCR_DIALECT_FORCE_RFC;
		struct pair *pair = pair_new(&config[S], &config[C], 1, 1);
		for (unsigned int n = 1; n <= 4; n++) {
			int c = pair_connected(pair);
			struct smcr_clc_msg msg = pair_last_clc(pair, S, SMCR_CLC_ACCEPT)->clc;
			const uint8_t *rmb = pair_lgr(pair, S)->rmbs->base;
			assert_int_equal(msg.accept.rmbe_index, n);
			assert_int_equal(msg.accept.rmb_vaddr, (uintptr_t)rmb);
			pair_send(pair, c, C, 8, (uint8_t)n);
			pair_pump(pair);
			const uint8_t *data =
				rmb + (n - 1) * smcr_bsize_bytes(msg.accept.bsize) + (rfc ? 4 : 0);
			for (unsigned int i = 0; i < 8; i++)
				assert_int_equal(data[i], n + 7 * i);
			pair_expect(pair, c, S, 8, (uint8_t)n);

			uint8_t buf[SMCR_CLC_ACCEPT_LEN];
			assert_int_equal(smcr_clc_encode(&msg, buf, sizeof(buf)), sizeof(buf));
			assert_int_equal(buf[45], n);
			buf[45] = 0;
			assert_int_equal(smcr_clc_decode(buf, sizeof(buf), &msg), -EBADMSG);
		}
		pair_free(pair);
	}
	PROVES("CLC-11 RMB-2");
}

/** The peer may write to RMBs but not to send buffers. Both are registered on every link (A18). */
static void only_rmbs_take_remote_writes(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 2, 2);
	int c = pair_connected(pair);
	for (unsigned int slot = 0; slot < 2; slot++) {
		struct smcr_conn *conn = pair_end(pair, c, C)->smc;
		struct smcr_rtoken *token = &conn->tx.rmb->token[slot];
		const struct smcr_slab *rmb = pair_lgr(pair, S)->rmbs;
		const struct smcr_slab *sndbuf = pair_lgr(pair, S)->sndbufs;
		assert_non_null(rmb->reg[slot].mr);
		assert_non_null(sndbuf->reg[slot].mr);
		assert_int_equal(token->rkey, rmb->reg[slot].rkey);
	}
	/* the RNIC refuses a client's write with the RKey of the server's send buffers */
	pair->tolerant = true;
	struct smcr_conn *conn = pair_end(pair, c, C)->smc;
	for (unsigned int slot = 0; slot < 2; slot++) {
		const struct smcr_slab *sndbuf = pair_lgr(pair, S)->sndbufs;
		conn->tx.rmb->token[slot].rkey = sndbuf->reg[slot].rkey;
		conn->tx.rmb->token[slot].vaddr = (uintptr_t)sndbuf->base;
	}
	pair_send(pair, c, C, 100, 1);
	pair_pump(pair);
	assert_int_equal(pair_end(pair, c, C)->reset, 1);
	pair_free(pair);
	PROVES("RMB-1");
}

static void at_most_255_rmbs(void **state)
{
	(void)state;
	struct smcr_config config = pair_config(S);
	config.elements_per_rmb = 1;
	struct pair *pair = pair_new(&config, NULL, 1, 1);
	int c = pair_connected(pair);
	struct smcr_lgr *lgr = pair_lgr(pair, S);
	struct smcr_slab *slab;
	for (int i = 1; i < SMCR_MAX_RMBS; i++)
		assert_int_equal(smcr_slab_add(lgr, true, 0, 0, &slab), 0);
	assert_int_equal(smcr_slab_add(lgr, true, 0, 0, &slab), -ENOSPC);
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("LG-13");
}

/** A connection is aborted with writes posted: nobody else gets its send buffer before the RNIC is
 *  done with it (CDC-17). */
static void send_buffer_is_kept_for_the_rnic(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	int c = pair_connected(pair);
	pair->side[C].blocked = true;
	pair_send(pair, c, C, 1000, 1);
	struct smcr_slab *slab = pair_lgr(pair, C)->sndbufs;
	assert_int_equal(slab->used, 1);
	smcr_close_kill(pair_end(pair, c, C)->smc, ECONNRESET);
	assert_int_equal(pair_lgr_view(pair, C).num_conns, 0);
	assert_int_equal(slab->used, 1);
	pair->side[C].blocked = false;
	pair_pump(pair);
	assert_int_equal(slab->used, 0);
	pair_free(pair);
	PROVES("CDC-17");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(element_for_a_receive_buffer),
		cmocka_unit_test(default_shrinks_under_pressure),
		cmocka_unit_test(ten_thousand_connections),
		cmocka_unit_test(unused_memory_is_not_touched),
		cmocka_unit_test(used_memory_goes_back),
		cmocka_unit_test(slabs_and_elements),
		cmocka_unit_test(best_fit),
		cmocka_unit_test(budget),
		cmocka_unit_test(a_receive_buffer_does_not_shrink),
		cmocka_unit_test(a_send_buffer_as_asked_for),
		cmocka_unit_test(a_send_buffer_when_memory_is_short),
		cmocka_unit_test(elements_count_from_one),
		cmocka_unit_test(only_rmbs_take_remote_writes),
		cmocka_unit_test(at_most_255_rmbs),
		cmocka_unit_test(send_buffer_is_kept_for_the_rnic),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

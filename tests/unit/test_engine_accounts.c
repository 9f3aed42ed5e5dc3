/* SPDX-License-Identifier: MIT */
/* How much memory one user or one peer may have, so that others get theirs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/smcr/clc.h"
#include "tests/lib/enginepair_filter.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define S     PAIR_SERVER
#define C     PAIR_CLIENT
#define KIB   1024u
#define MIB   (UINT64_C(1) << 20)
#define GIB   (UINT64_C(1) << 30)
#define GREED 1000u /* a user who takes all that is given */
#define OTHER 2000u /* a user who takes little */

static struct smcr_config defaults(int side)
{
	struct smcr_config config = pair_config(side);
	config.elements_per_rmb = 0;
	config.bsize = config.bsize_min = 0xFF;
	config.memory_budget = 0;
	return config;
}

struct crowd {
	struct pair *pair;
	struct smcr_engine *engine;
	struct smcr_conn **conns;
	size_t count;
	bool ipv6;
};

enum { CROWD_MAX = 20000 };

static struct crowd crowd_new(void)
{
	struct smcr_config config = defaults(S);
	struct pair *pair = pair_new(&config, NULL, 1, 1);
	pair_connected(pair);
	return (struct crowd){ .pair = pair,
			       .engine = pair->side[S].engine,
			       .conns = calloc(CROWD_MAX, sizeof(struct smcr_conn *)) };
}

static void crowd_free(struct crowd *crowd)
{
	char text[256];
	assert_int_equal(smcr_engine_check(crowd->engine, text, sizeof(text)), 0);
	for (size_t i = 0; i < crowd->count; i++)
		smcr_conn_free(crowd->conns[i]);
	free(crowd->conns);
	pair_free(crowd->pair);
}

/** A new connection of this user with this peer, in the existing group. @return size of its
 *  element, 0 if it gets none */
static uint32_t join(struct crowd *crowd, uint32_t uid, uint8_t peer, uint32_t rcvbuf,
		     uint32_t sndbuf)
{
	const struct smcr_addr ipv4 = { .family = AF_INET, .ip = { 10, 0, 0, peer } };
	const struct smcr_addr ipv6 = { .family = AF_INET6, .ip = { 0xfd, [15] = peer } };
	const struct smcr_conn_params params = { .role = SMCR_ROLE_SERVER,
						 .peer = crowd->ipv6 ? ipv6 : ipv4,
						 .uid = uid,
						 .rcvbuf = rcvbuf,
						 .sndbuf = sndbuf };
	struct smcr_conn *conn;
	assert_true(crowd->count < CROWD_MAX);
	assert_int_equal(smcr_conn_new(crowd->engine, &params, &conn), 0);
	smcr_lgr_add_conn(pair_lgr(crowd->pair, S), conn);
	int rc = smcr_clc_take_memory(conn);
	if (rc) {
		assert_int_equal(smcr_clc_memory_reason(conn, rc), SMCR_REASON_RMBE_EXHAUSTED);
		smcr_conn_free(conn);
		return 0;
	}
	crowd->conns[crowd->count++] = conn;
	return conn->rx.element.size;
}

/** A user who asks for the largest buffers gets them until this user's share of the memory is used.
 *  After that the user gets buffers as everybody does. Others still get more than the smallest. */
static void large_buffers_asked_for(void **state)
{
	(void)state;
	struct crowd crowd = crowd_new();
	while (join(&crowd, GREED, 7, 500 * KIB, 500 * KIB))
		;
	assert_in_range(crowd.count, 380, 400);
	assert_in_range(crowd.engine->memory_held, 380 * MIB, 400 * MIB);
	assert_int_equal(crowd.engine->count.memory_refused, 1);
	/* the greedy user gets some memory when not asking for much */
	assert_int_equal(join(&crowd, GREED, 7, 0, 0), 256 * KIB);
	assert_int_equal(join(&crowd, GREED, 7, 0, 500 * KIB), 256 * KIB);
	assert_int_equal(crowd.conns[crowd.count - 1]->tx.buf.size, 256 * KIB);
	/* Another user gets what is asked for, also from the same peer. So do other peers of the
	 * greedy user, as either the user or the peer may be the cause. */
	for (int i = 0; i < 8; i++)
		assert_int_equal(join(&crowd, OTHER, 7, 500 * KIB, 0), 512 * KIB);
	assert_int_equal(join(&crowd, GREED, 8, 500 * KIB, 0), 512 * KIB);
	crowd_free(&crowd);
	PROVES("RMB-6 RMB-12");
}

/** One user with one peer takes all that is given: the last sixteenth is left to others. */
static void the_last_sixteenth(void **state)
{
	(void)state;
	struct crowd crowd = crowd_new();
	while (join(&crowd, GREED, 7, 0, 0))
		;
	assert_in_range(crowd.count, 12000, 14000);
	assert_in_range(crowd.engine->memory_held, 950 * MIB, 961 * MIB);
	/* The same user with other peers gets 4 MiB for each peer, .. */
	for (int peer = 8; peer < 16; peer++)
		for (int i = 0; i < 128; i++)
			assert_int_equal(join(&crowd, GREED, (uint8_t)peer, 0, 0), 16 * KIB);
	assert_int_equal(join(&crowd, GREED, 8, 0, 0), 0);
	/* .. and so do other users with this peer. */
	for (int i = 0; i < 128; i++)
		assert_int_equal(join(&crowd, OTHER, 7, 0, 0), 16 * KIB);
	assert_int_equal(join(&crowd, OTHER, 7, 0, 0), 0);
	assert_in_range(crowd.engine->memory_used, 1, GIB);
	/* memory of connections that end is given again */
	smcr_conn_free(crowd.conns[--crowd.count]);
	assert_int_equal(join(&crowd, OTHER, 7, 0, 0), 16 * KIB);
	crowd_free(&crowd);
	PROVES("RMB-12");
}

/** Peers whose IPv6 addresses begin alike, as those of one site do, each have a share. */
static void peers_of_one_prefix(void **state)
{
	(void)state;
	struct crowd crowd = crowd_new();
	crowd.ipv6 = true;
	while (join(&crowd, GREED, 7, 0, 0))
		;
	assert_int_equal(join(&crowd, GREED, 8, 0, 0), 16 * KIB);
	crowd_free(&crowd);
}

/** Connections that have ended leave their buffers to the group for a while, up to nearly all of
 * the budget. Peers that come meanwhile get memory all the same. */
static void memory_of_ended_connections_keeps_no_peer_out(void **state)
{
	enum { PEERS = 32, OF_AN_ADDRESS = 16 };
	(void)state;
	struct crowd crowd = crowd_new();
	struct pair *pair = crowd.pair;
	struct smcr_clc_msg msg = pair_last_clc(pair, C, SMCR_CLC_PROPOSAL)->clc;
	while (join(&crowd, GREED, 7, 0, 0))
		;
	while (crowd.count)
		smcr_conn_free(crowd.conns[--crowd.count]);
	assert_in_range(crowd.engine->memory_held, 0, 2 * MIB);
	assert_in_range(crowd.engine->memory_used, 950 * MIB, GIB);
	for (int i = 0; i < PEERS; i++) {
		TRIES("peer %d", i);
		pair->side[S].far = i >= OF_AN_ADDRESS; /* another host */
		int c = pair_start_alone(pair, S, SMCR_ROLE_SERVER);
		msg.proposal.peer_id[0] = 0x79;
		msg.proposal.peer_id[1] = (uint8_t)i;
		pair_inject_clc(pair, c, C, &msg);
		pair_pump(pair);
		assert_int_equal(pair_end(pair, c, S)->fallback, 0);
		assert_int_equal(pair_end(pair, c, S)->failed, 0);
	}
	assert_in_range(crowd.engine->memory_used, 950 * MIB, GIB);
	crowd_free(&crowd);
}

/** Proposals of many instances behind one address, which never go on: few are answered by an
 *  Accept, and those take little memory. Other hosts do not notice. */
static void half_open(void **state)
{
	enum { PROPOSALS = 128, TAKEN = 16 };
	(void)state;
	struct smcr_config config = defaults(S);
	struct pair *pair = pair_new(&config, NULL, 1, 1);
	struct smcr_engine *engine = pair->side[S].engine;
	pair_close(pair, pair_connected(pair));
	struct smcr_clc_msg msg = pair_last_clc(pair, C, SMCR_CLC_PROPOSAL)->clc;
	uint64_t before = engine->memory_used;
	int first = 0;
	for (int i = 0; i < PROPOSALS; i++) {
		int c = pair_start_alone(pair, S, SMCR_ROLE_SERVER);
		msg.proposal.peer_id[0] = 0x77;
		msg.proposal.peer_id[1] = (uint8_t)i;
		pair_inject_clc(pair, c, C, &msg);
		pair_pump(pair);
		first = i ? first : c;
		assert_int_equal(pair_end(pair, c, S)->fallback, i >= TAKEN);
		assert_int_equal(pair_end(pair, c, S)->failed, 0);
		if (i >= TAKEN)
			assert_int_equal(pair_end(pair, c, S)->last.reason, SMCR_REASON_LIMIT);
	}
	assert_in_range(engine->memory_used - before, MIB, TAKEN * 2 * MIB);
	assert_int_equal(engine->count.first_contacts_refused, PROPOSALS - TAKEN);
	/* a Proposal from another host is accepted */
	pair->side[S].far = true;
	int c = pair_start_alone(pair, S, SMCR_ROLE_SERVER);
	msg.proposal.peer_id[0] = 0x78;
	pair_inject_clc(pair, c, C, &msg);
	pair_pump(pair);
	assert_int_equal(pair_end(pair, c, S)->fallback, 0);
	/* an existing group goes on, whatever else its peer begins */
	pair->side[S].far = false;
	pair_exchange(pair, pair_connected(pair));
	/* when the abandoned first contacts have ended, a new one is accepted */
	pair_run(pair, 31000000);
	assert_int_equal(pair_end(pair, first, S)->failed, 1);
	c = pair_start_alone(pair, S, SMCR_ROLE_SERVER);
	msg.proposal.peer_id[0] = 0x79;
	pair_inject_clc(pair, c, C, &msg);
	pair_pump(pair);
	assert_int_equal(pair_end(pair, c, S)->fallback, 0);
	pair_free(pair);
	PROVES("RMB-12 LG-14");
}

/** A connection whose user and peer hold so much. */
static void hold(struct smcr_conn *conn, uint64_t bytes)
{
	conn->rx.element.size = (uint32_t)bytes;
	smcr_account_settle(conn);
	assert_true(conn->engine->memory_held == bytes);
}

/** The shares of the budget, to the byte. */
static void shares_are_exact(void **state)
{
	(void)state;
	static const struct {
		uint64_t budget, set_aside;
	} rows[] = { { 256 * MIB, 16 * MIB },
		     { 21 * MIB, 5 * 256 * KIB }, /* in steps */
		     { 4 * MIB, 256 * KIB },
		     { 4 * MIB - 1, 0 } };
	static struct smcr_engine engine;
	static struct smcr_conn conn;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		engine.config.memory_budget = rows[i].budget;
		assert_true(smcr_account_set_aside(&engine) == rows[i].set_aside);
	}
	engine.config.memory_budget = 256 * MIB;
	conn.engine = &engine;
	conn.params.peer = (struct smcr_addr){ .family = AF_INET, .ip = { 10, 0, 0, 1 } };
	assert_int_equal(smcr_account_open(&conn), 0);
	hold(&conn, MIB - 1); /* a 256th */
	assert_true(smcr_account_is_small(&conn));
	hold(&conn, MIB);
	assert_false(smcr_account_is_small(&conn));
	hold(&conn, 96 * MIB); /* six sixteenths */
	assert_false(smcr_account_is_large(&conn));
	hold(&conn, 96 * MIB + 1);
	assert_true(smcr_account_is_large(&conn));
	hold(&conn, 240 * MIB - 1);
	assert_true(smcr_account_allows(&conn));
	hold(&conn, 240 * MIB); /* what is left is set aside */
	assert_false(smcr_account_allows(&conn));
	smcr_account_close(&conn);
	assert_true(engine.memory_held == 0);
	assert_null(engine.accounts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(large_buffers_asked_for),
		cmocka_unit_test(the_last_sixteenth),
		cmocka_unit_test(shares_are_exact),
		cmocka_unit_test(peers_of_one_prefix),
		cmocka_unit_test(memory_of_ended_connections_keeps_no_peer_out),
		cmocka_unit_test(half_open),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* An Accept names an element that the peer's RMB does not have, so the peer's RNIC denies the write
 * there (A69). That costs one link, once, and the liar its connection. Other connections go on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "daemon/smcr/internal.h"
#include "tests/lib/enginepair_filter.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define S      PAIR_SERVER
#define C      PAIR_CLIENT
#define SECOND UINT64_C(1000000)

/** Opens a connection at the client with a forged Accept: it is true about a link and an RMB, and
 *  names an element far behind the end of the RMB. The server's engine does not know the
 *  connection. @return the connection */
static int open_beyond_the_end(struct pair *pair, uint32_t token)
{
	const struct smcr_link *link = smcr_lgr_any_link(pair_lgr(pair, S), NULL);
	const struct smcr_slab *slab = pair_lgr(pair, S)->rmbs;
	struct smcr_config config = pair_config(S);
	struct smcr_clc_msg msg = { .type = SMCR_CLC_ACCEPT };
	msg.accept = (struct smcr_clc_accept){ .type = SMCR_CLC_ACCEPT,
					       .qpn = link->qpn,
					       .rkey = slab->reg[link->slot].rkey,
					       .rmbe_index = (uint8_t)(200 + token),
					       .alert_token = token,
					       .bsize = slab->bsize,
					       .mtu = link->mtu,
					       .rmb_vaddr = slab->reg[link->slot].vaddr,
					       .psn = link->psn };
	memcpy(msg.accept.peer_id, config.peer_id, SMCR_PEER_ID_LEN);
	memcpy(msg.accept.gid, link->local_gid, SMCR_GID_LEN);
	memcpy(msg.accept.mac, link->local_mac, SMCR_MAC_LEN);
	int conn = pair_start_alone(pair, C, SMCR_ROLE_CLIENT);
	pair_inject_clc(pair, conn, S, &msg);
	pair_pump(pair);
	assert_int_equal(pair_end(pair, conn, C)->established, 1);
	return conn;
}

/** The program of such a connection writes, and the peer's RNIC denies the write. */
static int lose_a_link(struct pair *pair)
{
	int conn = open_beyond_the_end(pair, 1);
	unsigned int qps = pair_num_qps(pair, C);
	pair_send(pair, conn, C, 100, 1);
	pair_pump(pair);
	assert_int_equal(pair_num_qps(pair, C), qps - 1);
	return conn;
}

static struct pair *two_links(int *ret_conn)
{
	struct pair *pair = pair_grouped(2, ret_conn);
	pair->denies = true;
	pair_exchange(pair, *ret_conn);
	return pair;
}

static void only_the_liar_is_reset(void **state)
{
	(void)state;
	int c;
	struct pair *pair = two_links(&c);
	int liar = lose_a_link(pair);
	pair_exchange(pair, c);
	assert_int_equal(pair_end(pair, liar, C)->reset, 0); /* the peer may still answer */
	pair_run(pair, 11 * SECOND);
	assert_int_equal(pair_end(pair, liar, C)->reset, 1);
	assert_int_equal(pair_end(pair, c, C)->reset + pair_end(pair, c, S)->reset, 0);
	assert_int_equal(pair_num_qps(pair, C), 1);
	pair_exchange(pair, c);
	pair_exchange(pair, pair_connected(pair));
	pair_run(pair, 11 * SECOND);
	pair_free(pair);
	PROVES("SEC-6 RMB-11");
}

/** For ten minutes the peer has to show that it knows a new connection before the connection
 *  writes. */
static void the_next_liar_loses_no_link(void **state)
{
	(void)state;
	int c;
	struct pair *pair = two_links(&c);
	(void)lose_a_link(pair);
	for (uint32_t token = 2; token < 5; token++) {
		TRIES("token %u", token);
		int liar = open_beyond_the_end(pair, token);
		pair_send(pair, liar, C, 100, 1);
		pair_exchange(pair, c);
		pair_run(pair, 11 * SECOND);
		assert_int_equal(pair_end(pair, liar, C)->reset, 1);
		assert_int_equal(pair_num_qps(pair, C), 1);
	}
	pair_run(pair, 600 * SECOND);
	int conn = pair_connected(pair);
	assert_false(pair_end(pair, conn, C)->smc->tx.held_back);
	pair_free(pair);
	PROVES("SEC-6");
}

/** The ten minutes are whole ones, and no more. */
static void ten_minutes(void **state)
{
	(void)state;
	int c;
	struct pair *pair = two_links(&c);
	(void)lose_a_link(pair);
	pair_run(pair, 600 * SECOND - SECOND / 2);
	int liar = open_beyond_the_end(pair, 2);
	assert_true(pair_end(pair, liar, C)->smc->tx.held_back);
	pair_run(pair, SECOND);
	liar = open_beyond_the_end(pair, 3);
	assert_false(pair_end(pair, liar, C)->smc->tx.held_back);
	pair_free(pair);
}

/** The engine asks about genuine connections of which the peer has sent nothing, and they go on:
 *  one whose write was flushed behind the denied one, one that waits on the other link, and one
 *  that closes. */
static void genuine_ones_go_on(void **state)
{
	(void)state;
	int c[5];
	struct pair *pair = two_links(&c[0]);
	for (int i = 1; i < 5; i++)
		c[i] = pair_connected(pair);
	int liar = open_beyond_the_end(pair, 1);
	pair_send(pair, liar, C, 100, 1);
	for (int i = 1; i < 5; i++) {
		assert_int_equal(pair_end(pair, c[i], C)->smc->rx.heard, 0);
		pair_send(pair, c[i], C, 5000, (uint8_t)i);
	}
	smcr_conn_shutdown(pair_end(pair, c[4], C)->smc);
	pair_pump(pair);
	assert_int_equal(pair_num_qps(pair, C), 1);
	for (int i = 1; i < 5; i++) {
		pair_expect(pair, c[i], S, 5000, (uint8_t)i);
		assert_false(pair_end(pair, c[i], C)->smc->tx.held_back);
		if (i < 4)
			pair_exchange(pair, c[i]);
	}
	pair_run(pair, 20 * SECOND);
	for (int i = 0; i < 5; i++)
		assert_int_equal(pair_end(pair, c[i], C)->reset, 0);
	pair_free(pair);
	PROVES("SEC-6 FO-9");
}

/** A connection of which the peer has sent a CDC before is not held up until the next CDC. */
static void known_connections_do_not_wait(void **state)
{
	(void)state;
	int c[2];
	struct pair *pair = two_links(&c[0]);
	c[1] = pair_connected(pair);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_CDC, .verdict = PAIR_HOLD };
	int liar = open_beyond_the_end(pair, 1);
	pair_set_pick(pair, &pick);
	pair_send(pair, liar, C, 100, 1);
	pair_pump(pair);
	for (int i = 0; i < 2; i++)
		pair_send(pair, c[i], C, 300, 7);
	pair_pump(pair);
	pair_expect(pair, c[0], S, 300, 7);
	assert_int_equal(pair_end(pair, c[1], S)->readable, 0);
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	pair_expect(pair, c[1], S, 300, 7);
	pair_free(pair);
}

/** Connections that open while the group is wary ask before they write. The answer comes at once.
 */
static void new_connections_ask_first(void **state)
{
	(void)state;
	int c;
	struct pair *pair = two_links(&c);
	(void)lose_a_link(pair);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_CDC, .verdict = PAIR_HOLD };
	pair_set_pick(pair, &pick);
	int fresh = pair_connect(pair, C);
	pair_pump(pair);
	pair_send(pair, fresh, C, 300, 3);
	pair_pump(pair);
	assert_int_equal(pair_end(pair, fresh, S)->readable, 0);
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	pair_expect(pair, fresh, S, 300, 3);
	pair_exchange(pair, fresh);
	pair_run(pair, 20 * SECOND);
	assert_true(pair_both_established(pair, fresh));
	assert_int_equal(pair_end(pair, fresh, C)->reset, 0);
	pair_free(pair);
}

/** The peer moves a connection to another link: that shows that the peer knows it, even if the
 *  question was lost. */
static void a_move_is_an_answer(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(3, &c);
	pair->denies = true;
	pair_exchange(pair, c);
	(void)lose_a_link(pair);
	struct pair_pick pick = { .from = C, .type = SMCR_LLC_CDC, .verdict = PAIR_HOLD };
	pair_set_pick(pair, &pick);
	int fresh = pair_connect(pair, C);
	pair_pump(pair);
	const struct smcr_conn *conn = pair_end(pair, fresh, C)->smc;
	pair_send(pair, fresh, C, 300, 3);
	pair_pump(pair);
	assert_int_equal(conn->tx.written, 0);
	struct smcr_conn *peer = pair_end(pair, fresh, S)->smc;
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		struct smcr_link *link = pair_lgr(pair, S)->links[i];
		if (link && link != peer->tx.link) {
			smcr_failover_move(peer, link);
			break;
		}
	}
	pair_pump(pair);
	assert_int_equal(conn->tx.written, 300);
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	pair_expect(pair, fresh, S, 300, 3);
	pair_free(pair);
	PROVES("FO-4");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_liar_is_reset),
		cmocka_unit_test(the_next_liar_loses_no_link),
		cmocka_unit_test(ten_minutes),
		cmocka_unit_test(genuine_ones_go_on),
		cmocka_unit_test(known_connections_do_not_wait),
		cmocka_unit_test(new_connections_ask_first),
		cmocka_unit_test(a_move_is_an_answer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

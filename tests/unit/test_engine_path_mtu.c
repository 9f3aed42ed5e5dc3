/* SPDX-License-Identifier: MIT */
/* Paths on which full-size packets do not pass but small ones do (A67). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/smcr/llc.h"
#include "tests/lib/enginepair_filter.h"
#include "tests/lib/enginepair_v2.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define S      PAIR_SERVER
#define C      PAIR_CLIENT
#define SECOND 1000000
#define MILLI  1000
#define HOUR   (UINT64_C(3600) * SECOND)

/** RNICs with the largest path MTU. */
static struct pair *large_pair(size_t rnics, bool v2)
{
	struct pair *pair = v2 ? pair_new_with("A", "A", 0) : pair_new(NULL, NULL, 0, 0);
	for (int side = 0; side < 2; side++)
		for (size_t n = 0; n < rnics; n++) {
			struct smcr_device_info info = pair_device(side, n);
			info.mtu = SMCR_MTU_4096;
			pair_add_device(pair, side, &info);
		}
	return pair;
}

/** Both sides have plain TCP after one Decline, which gives the reason. Neither side leaves the
 *  other out of SMC-R for a time. */
static void assert_declined(struct pair *pair, int c, int by)
{
	assert_int_equal(pair_count_clc(pair, by, SMCR_CLC_DECLINE), 1);
	assert_int_equal(pair_count_clc(pair, !by, SMCR_CLC_DECLINE), 0);
	pair_run(pair, SECOND); /* a Decline of the other side might cross */
	const struct pair_end *own = pair_end(pair, c, by), *other = pair_end(pair, c, !by);
	assert_int_equal(own->fallback, 1);
	assert_int_equal(own->last.reason, SMCR_REASON_PATH_MTU);
	assert_int_equal(other->fallback, 1);
	assert_int_equal(other->last.reason, SMCR_REASON_PEER_DECLINED);
	assert_int_equal(other->last.peer_reason, SMCR_REASON_PATH_MTU);
	assert_false(own->last.path_dead);
	assert_false(other->last.path_dead);
}

/** Large packets are lost in either direction, in either version: the first connection soon goes
 *  back to TCP, and the next one uses packets that pass. */
static void next_one_is_smaller(void **state)
{
	(void)state;
	for (int v2 = 0; v2 < 2; v2++)
		for (int side = 0; side < 2; side++)
			for (uint8_t mtu = SMCR_MTU_256; mtu < SMCR_MTU_4096; mtu++) {
				TRIES("v2 %d, side %d, mtu %u", v2, side, mtu);
				struct pair *pair = large_pair(1, v2);
				pair->side[side].most = smcr_mtu_bytes(mtu);
				int c = pair_connect(pair, C);
				pair_run(pair, 1600 * MILLI);
				assert_declined(pair, c, side);
				assert_null(pair_lgr(pair, S));
				c = pair_connected(pair);
				for (int i = 0; i < 2; i++) {
					assert_int_equal(pair_link_view(pair, i, 1).mtu, mtu);
					assert_int_equal(pair_link(pair, i, 1)->passed, mtu);
				}
				pair_send(pair, c, side, 12000, 1);
				pair_pump(pair);
				pair_expect(pair, c, !side, 12000, 1);
				pair_free(pair);
			}
	PROVES("GEN-4");
}

/** Large packets are lost in both directions: the client notices, as it tries first. */
static void both_ways(void **state)
{
	(void)state;
	struct pair *pair = large_pair(1, false);
	pair->side[S].most = 1024;
	pair->side[C].most = 1024;
	int c = pair_connect(pair, C);
	pair_run(pair, 1600 * MILLI);
	assert_declined(pair, c, C);
	pair_connected(pair);
	assert_int_equal(pair_link_view(pair, S, 1).mtu, SMCR_MTU_1024);
	assert_int_equal(pair_link(pair, S, 1)->passed, SMCR_MTU_1024);
	pair_free(pair);
}

/** The device gives up before the engine does. */
static void device_gives_up(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		struct smcr_config config[2] = { pair_config(S), pair_config(C) };
		config[side].retry_ms = 100;
		struct pair *pair = pair_new(&config[S], &config[C], 1, 1);
		pair->side[side].most = 512;
		int c = pair_connect(pair, C);
		pair_run(pair, 200 * MILLI);
		assert_declined(pair, c, side);
		pair_connected(pair);
		assert_int_equal(pair_link_view(pair, S, 1).mtu, SMCR_MTU_512);
		pair_free(pair);
	}
}

/** No packet passes at all: size is not the cause. */
static void nothing_passes(void **state)
{
	(void)state;
	struct pair *pair = large_pair(1, false);
	pair->side[C].blocked = true;
	int c = pair_connect(pair, C);
	pair_run(pair, 2 * SECOND);
	assert_int_equal(pair_end(pair, c, S)->fallback, 1);
	assert_int_equal(pair_end(pair, c, S)->last.reason, SMCR_REASON_CONFIRM_LINK_FAILED);
	assert_true(pair_end(pair, c, S)->last.path_dead);
	pair->side[C].blocked = false;
	pair_connected(pair);
	assert_int_equal(pair_link_view(pair, S, 1).mtu, SMCR_MTU_4096);
	pair_free(pair);
}

/** The packets of the test carry zeros into an element that has zeros, and are over when data may
 *  flow. */
static void it_is_harmless(void **state)
{
	(void)state;
	struct pair *pair = large_pair(2, false);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_ADD_LINK, .verdict = PAIR_HOLD };
	pair_set_pick(pair, &pick);
	int c = pair_connect(pair, C);
	pair_pump(pair);
	for (int side = 0; side < 2; side++) {
		const struct smcr_conn *conn = pair_end(pair, c, side)->smc;
		assert_int_equal(pair_link(pair, side, 1)->passed, SMCR_MTU_4096);
		assert_int_equal(conn->tx.outstanding, 0);
		const uint8_t *element = conn->rx.element.addr;
		for (uint32_t i = SMCR_EYE_CATCHER_LEN; i < conn->rx.element.size; i++)
			assert_int_equal(element[i], 0);
	}
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	assert_true(pair_both_established(pair, c));
	for (int side = 0; side < 2; side++)
		assert_int_equal(pair_link(pair, side, 2)->passed, SMCR_MTU_4096);
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("RV-11 RMB-3");
}

/** Each side waits for its own test before it sends the message that the peer relies on: the client
 *  before its reply to CONFIRM LINK, the server before ADD LINK. */
static void nothing_before_that(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		struct pair *pair = large_pair(2, false);
		pair->side[side].most = 2048;
		int c = pair_connect(pair, C);
		pair_run(pair, 500 * MILLI);
		assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_CONFIRM_LINK, true), side == S);
		assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_ADD_LINK, false), 0);
		/* Large packets pass after all, perhaps because the route has changed. */
		pair->side[side].most = 0;
		pair_pump(pair);
		assert_true(pair_both_established(pair, c));
		pair_exchange(pair, c);
		pair_free(pair);
	}
}

/** Full-size packets do not pass on a second link: it is not added, whichever side finds out. The
 *  connection opens with the first link, and the next attempt uses smaller packets. */
static void second_link_is_smaller(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		struct smcr_config config[2] = { pair_config(S), pair_config(C) };
		config[S].add_link_retry = 3 * SECOND;
		struct pair *pair = pair_new(&config[S], &config[C], 2, 2);
		struct pair_pick pick = { .from = S,
					  .type = SMCR_LLC_ADD_LINK,
					  .verdict = PAIR_HOLD };
		pair_set_pick(pair, &pick);
		int c = pair_connect(pair, C);
		pair_pump(pair);
		pair->side[side].most = 512; /* link 1 was tested before */
		pair_set_pick(pair, NULL);
		pair_run(pair, 2 * SECOND);
		assert_true(pair_both_established(pair, c));
		assert_null(pair_link(pair, S, 2));
		assert_null(pair_link(pair, C, 2));
		assert_int_equal(pair->side[side].events[SMCR_EVENT_LINK_REFUSED], 1);
		pair_run(pair, 10 * SECOND);
		const struct smcr_lgr *lgr = pair_lgr(pair, side);
		const struct smcr_link *second = NULL;
		for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
			if (lgr->links[i] && lgr->links[i]->number != 1)
				second = lgr->links[i];
		assert_non_null(second);
		assert_int_equal(second->mtu, SMCR_MTU_512);
		pair_free(pair);
	}
	PROVES("ERR-22 ERR-28 RV-12");
}

/** @return a link of the client that was added after the first contact, NULL if there is none */
static struct smcr_link *added_link(struct pair *pair)
{
	const struct smcr_lgr *lgr = pair_lgr(pair, C);
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		if (lgr->links[i] && lgr->links[i]->number != 1)
			return lgr->links[i];
	return NULL;
}

static void add_large_devices(struct pair *pair, size_t n)
{
	for (int side = 0; side < 2; side++) {
		struct smcr_device_info info = pair_device(side, n);
		info.mtu = SMCR_MTU_4096;
		pair_add_device(pair, side, &info);
		if (n > 0)
			pair_pump(pair);
	}
}

/** A connection writes on a link that was added while there were connections. Its full-size packets
 *  do not pass on that link, and are under way. */
static struct pair *stalled_pair(int *ret_conn, struct smcr_link **ret_link)
{
	struct smcr_config config = pair_config(S);
	config.add_link_retry = SECOND;
	struct pair *pair = pair_new(&config, NULL, 0, 0);
	add_large_devices(pair, 0);
	pair_connected(pair);
	*ret_conn = pair_connected(pair);
	add_large_devices(pair, 1);
	pair_run(pair, 2 * SECOND);
	struct smcr_link *link = added_link(pair);
	assert_non_null(link);
	assert_int_equal(link->mtu, SMCR_MTU_4096);
	assert_true(link->passed < SMCR_MTU_4096);
	smcr_failover_move(pair_end(pair, *ret_conn, C)->smc, link);
	pair_pump(pair);
	pair->side[C].most = 2048;
	pair_send(pair, *ret_conn, C, 8000, 3);
	pair_pump(pair);
	*ret_link = link;
	return pair;
}

/** The first full-size data on a link that was added later do not pass, and nothing else is wrong:
 *  the connection moves, and the link is added again with smaller packets. */
static void stalls_on_large_packets(void **state)
{
	(void)state;
	int c;
	struct smcr_link *link;
	struct pair *pair = stalled_pair(&c, &link);
	uint8_t number = link->number;
	pair_run(pair, 5 * SECOND);
	assert_int_equal(pair_end(pair, c, C)->reset, 0);
	assert_null(pair_link(pair, C, number));
	pair->side[C].most = 0; /* link 1 takes another path */
	pair_run(pair, 10 * SECOND);
	pair_expect(pair, c, S, 8000, 3);
	link = added_link(pair);
	assert_non_null(link);
	assert_int_equal(link->mtu, SMCR_MTU_1024);
	pair_free(pair);
	PROVES("FO-1");
}

/** The same data are refused by the peer's RNIC, or flushed, or behind a small message that is not
 *  acknowledged either: size is not the cause. */
static void other_failures(void **state)
{
	static const enum smcr_send_status how[] = { SMCR_SEND_REFUSED, SMCR_SEND_FLUSHED,
						     SMCR_SEND_FAILED };
	(void)state;
	for (size_t i = 0; i < sizeof(how) / sizeof(how[0]); i++) {
		TRIES("row %zu", i);
		int c;
		struct smcr_link *link;
		struct pair *pair = stalled_pair(&c, &link);
		struct smcr_engine *engine = pair->side[C].engine;
		uint64_t first = link->tx_done;
		if (how[i] == SMCR_SEND_FAILED) /* as if the write before were small */
			link->tx[first % link->tx_depth].length = 2000;
		smcr_engine_send_done(engine, link->ref, first, how[i], "as told");
		assert_int_equal(link->state, SMCR_LINK_FAILED);
		assert_string_equal(link->last_error, "as told");
		assert_false(link->too_large);
		for (unsigned int k = 0; k < SMCR_PATHS_MAX; k++)
			assert_true(engine->paths[k].until == 0);
		pair->side[C].most = 0;
		pair_run(pair, 10 * SECOND);
		pair_expect(pair, c, S, 8000, 3);
		pair_free(pair);
	}
}

/** Let time pass until the client has found out about a path. @return how long it will remember
 * that, to the millisecond */
static uint64_t will_be_remembered(struct pair *pair)
{
	const struct smcr_engine *engine = pair->side[C].engine;
	for (int ms = 0; ms < 10000; ms++) {
		for (unsigned int i = 0; i < SMCR_PATHS_MAX; i++)
			if (engine->paths[i].until > engine->now)
				return engine->paths[i].until - engine->now;
		pair_run(pair, MILLI);
	}
	return 0;
}

/** What was proven is remembered for an hour, what is suspected for a minute. */
static void it_is_remembered(void **state)
{
	(void)state;
	int c;
	struct smcr_link *link;
	struct pair *pair = large_pair(1, false);
	pair->side[C].most = 1024;
	pair_connect(pair, C);
	assert_in_range(will_be_remembered(pair), HOUR - MILLI, HOUR);
	pair_free(pair);
	pair = stalled_pair(&c, &link);
	assert_in_range(will_be_remembered(pair), 60 * SECOND - MILLI, 60 * SECOND);
	pair->side[C].most = 0;
	pair_run(pair, 10 * SECOND);
	pair_expect(pair, c, S, 8000, 3);
	pair_free(pair);
}

/** What was found is forgotten after an hour, or when the RNIC gets another MTU. */
static void it_is_forgotten(void **state)
{
	(void)state;
	for (int way = 0; way < 3; way++) {
		TRIES("way %d", way);
		struct pair *pair = large_pair(1, false);
		pair->side[C].most = 1024;
		pair_connect(pair, C);
		pair_run(pair, 2 * SECOND);
		pair->side[C].most = 0;
		if (way == 0)
			pair_run(pair, HOUR - 10 * SECOND);
		else if (way == 1)
			pair_run(pair, HOUR);
		if (way == 2) {
			struct smcr_device_info info = pair_device(C, 0);
			info.mtu = SMCR_MTU_2048;
			pair_update_device(pair, C, &info);
		}
		pair_connected(pair);
		uint8_t expected = way == 0   ? SMCR_MTU_1024
				   : way == 1 ? SMCR_MTU_4096
					      : SMCR_MTU_2048;
		assert_int_equal(pair_link_view(pair, S, 1).mtu, expected);
		pair_free(pair);
	}
}

static bool note_path(void *arg, const struct smcr_path_view *view)
{
	*(struct smcr_path_view *)arg = *view;
	return true;
}

/** An operator sees paths with a smaller MTU, and has them forgotten by the address of the peer or
 *  of its RNIC. */
static void an_operator_has_it_forgotten(void **state)
{
	(void)state;
	for (int way = 0; way < 2; way++) {
		TRIES("way %d", way);
		struct pair *pair = large_pair(1, false);
		struct smcr_engine *engine = pair->side[C].engine;
		struct smcr_path_view view = { .number = 0 };
		const struct smcr_addr other = { .family = AF_INET, .ip = { 192, 0, 2, 99 } };
		pair->side[C].most = 1024;
		pair_connect(pair, C);
		pair_run(pair, 2 * SECOND);
		pair->side[C].most = 0;
		assert_true(smcr_engine_walk_paths(engine, 0, note_path, &view));
		assert_int_equal(view.number, 1);
		assert_int_equal(view.mtu, SMCR_MTU_1024);
		assert_true(view.proven);
		assert_true(view.left_us > HOUR - 3 * SECOND && view.left_us <= HOUR);
		assert_string_equal(view.device_name, pair_device(C, 0).name);
		struct smcr_device_info peer = pair_device(S, 0);
		assert_memory_equal(view.peer_gid, peer.gid, SMCR_GID_LEN);
		assert_int_equal(smcr_engine_forget_paths(engine, &other), 0);
		struct smcr_addr where = view.peer;
		where.port++;
		if (way == 1) {
			where = (struct smcr_addr){ .family = AF_INET6 };
			memcpy(where.ip, peer.gid, SMCR_GID_LEN);
		}
		assert_int_equal(smcr_engine_forget_paths(engine, &where), 1);
		assert_int_equal(smcr_engine_forget_paths(engine, &where), 0);
		view.number = 0;
		assert_true(smcr_engine_walk_paths(engine, 0, note_path, &view));
		assert_int_equal(view.number, 0);
		pair_connected(pair);
		assert_int_equal(pair_link_view(pair, S, 1).mtu, SMCR_MTU_4096);
		pair_free(pair);
	}
}

/** If there are more paths than the engine remembers, the oldest are forgotten. */
static void memory_is_bounded(void **state)
{
	(void)state;
	struct pair *pair = large_pair(1, false);
	struct smcr_engine *engine = pair->side[C].engine;
	pair_connected(pair);
	struct smcr_link *link = pair_link(pair, C, 1);
	uint8_t gid[SMCR_GID_LEN];
	memcpy(gid, link->peer_gid, SMCR_GID_LEN);
	/* Each of many peers gets the same problem: packets that are not acknowledged on a link of
	 * a first contact. */
	pair->side[C].most = 256;
	for (unsigned int i = 0; i < SMCR_PATHS_MAX + 3; i++) {
		smcr_engine_set_time(engine, pair->now + (i + 1) * SECOND);
		struct smcr_path *path = &engine->paths[0];
		for (unsigned int k = 1; k < SMCR_PATHS_MAX; k++)
			if (engine->paths[k].until < path->until)
				path = &engine->paths[k];
		assert_int_equal(path->until != 0, i >= SMCR_PATHS_MAX);
		link->peer_gid[0] = (uint8_t)(i + 1);
		link->passed = SMCR_MTU_256;
		pair_lgr(pair, C)->llc->proving = link;
		assert_true(smcr_path_blame(link, link->tx_next));
		assert_int_equal(path->peer[0], i + 1);
		link->state = SMCR_LINK_ACTIVE; /* for the next peer */
	}
	pair_free(pair);
}

/** `smcrctl link test` tells which packets pass. */
static void a_test_tells(void **state)
{
	(void)state;
	struct pair *pair = large_pair(1, false);
	pair_connected(pair);
	for (int known = 1; known >= 0; known--) {
		if (!known)
			pair_link(pair, C, 1)->passed = 0;
		struct smcr_command command = { .type = SMCR_COMMAND_LINK_TEST,
						.lgr = pair_lgr_view(pair, C).id,
						.link = 1 };
		uint64_t id;
		assert_int_equal(smcr_engine_command(pair->side[C].engine, &command, &id), 0);
		pair_run(pair, SECOND);
		assert_int_equal(pair->side[C].command_result.error, 0);
		assert_non_null(strstr(pair->side[C].command_result.text,
				       known ? "packets of 4096 bytes have passed"
					     : "not known whether packets of 4096 bytes pass"));
	}
	pair_free(pair);
}

/** A server breaks the rules if it uses a second link while the client is still testing it: only a
 *  server knows by then that the other side has confirmed the link. */
static void nothing_is_taken_while_the_client_proves(void **state)
{
	(void)state;
	for (int v2 = 0; v2 < 2; v2++) {
		TRIES("v2 %d", v2);
		struct pair *pair = large_pair(2, v2);
		struct pair_pick pick = { .from = S,
					  .type = SMCR_LLC_ADD_LINK,
					  .verdict = PAIR_HOLD };
		pair->tolerant = true;
		pair_set_pick(pair, &pick);
		int conn = pair_connect(pair, C);
		pair_pump(pair);
		pair->side[C].most = 2048; /* otherwise the server withholds its acknowledgements */
		pair_set_pick(pair, NULL);
		pair_pump(pair);
		assert_ptr_equal(pair_lgr(pair, C)->llc->proving, pair_link(pair, C, 2));
		struct smcr_device_info info = pair_device(S, 1);
		struct smcr_llc_msg msg = {
			.type = SMCR_LLC_ADD_LINK,
			.add_link = { .link_number = 9, .mtu = SMCR_MTU_1024, .qpn = 77 }
		};
		memcpy(msg.add_link.gid, info.gid, SMCR_GID_LEN);
		memcpy(msg.add_link.mac, info.mac, SMCR_MAC_LEN);
		pair_inject_llc(pair, S, 2, &msg);
		pair_run(pair, 10 * SECOND);
		assert_true(pair_end(pair, conn, C)->established);
		assert_null(pair_link(pair, C, 9));
		pair_free(pair);
	}
}

/** The client has given up the second link while it was testing it, and knows that its connection
 *  is open. Its test writes on that link have not completed yet. */
static struct pair *given_up_while_proving(int *ret_conn)
{
	struct pair *pair = large_pair(2, false);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_ADD_LINK, .verdict = PAIR_HOLD };
	pair_set_pick(pair, &pick);
	*ret_conn = pair_connect(pair, C);
	pair_pump(pair);
	pair->side[C].most = 512;
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	assert_ptr_equal(pair_lgr(pair, C)->llc->proving, pair_link(pair, C, 2));
	pair->side[C].hold_completions = true;
	pair_fail_link(pair, S, 2);
	pair_pump(pair);
	assert_true(pair_both_established(pair, *ret_conn));
	assert_true(pair_end(pair, *ret_conn, C)->smc->tx.outstanding > 0);
	return pair;
}

/** The RNIC reads the send buffer for the test writes. The program can fill the buffer when they
 * are over, and is told so. */
static void data_follow_the_proof(void **state)
{
	(void)state;
	int c;
	struct iovec iov[2];
	struct pair *pair = given_up_while_proving(&c);
	const struct pair_end *end = pair_end(pair, c, C);
	assert_int_equal(smcr_conn_tx_space(end->smc, iov), 0);
	unsigned int told = end->writable;
	pair->side[C].hold_completions = false;
	pair_pump(pair);
	assert_int_equal(end->writable, told + 1);
	pair->side[C].most = 0;
	pair_exchange(pair, c);
	pair_close(pair, c);
	pair_free(pair);
	PROVES("CDC-17");
}

/** The connection's last CDC waits for the test writes, and no longer, so that both ends end. */
static void the_last_word_follows_the_proof(void **state)
{
	(void)state;
	for (int shut = 0; shut < 2; shut++) {
		int c;
		struct pair *pair = given_up_while_proving(&c);
		struct smcr_conn *conn = pair_end(pair, c, C)->smc;
		struct smcr_conn *peer = pair_end(pair, c, S)->smc;
		if (shut)
			smcr_conn_shutdown(conn);
		else
			smcr_conn_close(conn, false);
		pair_pump(pair);
		assert_false(smcr_conn_rx_eof(peer));
		pair->side[C].hold_completions = false;
		pair_pump(pair);
		assert_true(smcr_conn_rx_eof(peer));
		if (shut)
			smcr_conn_close(conn, false);
		smcr_conn_close(peer, false);
		pair_pump(pair);
		assert_int_equal(pair_end(pair, c, C)->closed, 1);
		assert_int_equal(pair_end(pair, c, S)->closed, 1);
		pair_free(pair);
	}
	PROVES("CLOSE-1");
}

/** The send buffer of an aborted connection is freed when the RNIC does not read it any more,
 *  though all else completed before. */
static void an_abort_outlasts_the_proof(void **state)
{
	(void)state;
	int c;
	struct pair *pair = given_up_while_proving(&c);
	struct smcr_engine *engine = pair->side[C].engine;
	const struct smcr_link *link = pair_link(pair, C, 1);
	smcr_conn_abort(pair_end(pair, c, C)->smc);
	pair_pump(pair);
	/* All requests on the first link complete at once. */
	smcr_engine_send_done(engine, link->ref, link->tx_next - 1, SMCR_SEND_OK, NULL);
	assert_non_null(engine->conns);
	assert_int_equal(engine->conns->state, SMCR_STATE_CLOSED);
	pair->side[C].hold_completions = false;
	pair_pump(pair);
	assert_null(engine->conns);
	assert_null(pair->side[S].engine->conns);
	pair_free(pair);
	PROVES("ABORT-5");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(next_one_is_smaller),
		cmocka_unit_test(both_ways),
		cmocka_unit_test(device_gives_up),
		cmocka_unit_test(nothing_passes),
		cmocka_unit_test(it_is_harmless),
		cmocka_unit_test(nothing_before_that),
		cmocka_unit_test(second_link_is_smaller),
		cmocka_unit_test(stalls_on_large_packets),
		cmocka_unit_test(other_failures),
		cmocka_unit_test(it_is_remembered),
		cmocka_unit_test(it_is_forgotten),
		cmocka_unit_test(an_operator_has_it_forgotten),
		cmocka_unit_test(memory_is_bounded),
		cmocka_unit_test(a_test_tells),
		cmocka_unit_test(nothing_is_taken_while_the_client_proves),
		cmocka_unit_test(data_follow_the_proof),
		cmocka_unit_test(the_last_word_follows_the_proof),
		cmocka_unit_test(an_abort_outlasts_the_proof),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

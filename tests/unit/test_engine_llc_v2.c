/* SPDX-License-Identifier: MIT */
/* LLC of version 2 between two engines, and with peers that behave as deployed ones do
 * (docs/version-2.md). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "daemon/smcr/llc_delete_all.h"
#include "daemon/smcr/llc_links.h"
#include "proto/smcr/eid.h"
#include "tests/lib/enginepair_filter.h"
#include "tests/lib/tries.h"

#define S  PAIR_SERVER
#define C  PAIR_CLIENT
#define MS UINT64_C(1000)

static struct pair *new_pair_within(uint8_t max_links, size_t server_rnics, size_t client_rnics)
{
	struct smcr_config config[2];
	for (int i = 0; i < 2; i++) {
		config[i] = pair_config(i);
		config[i].max_links = max_links;
		assert_int_equal(smcr_ueid_parse("LLC", config[i].ueids[0]), 0);
		config[i].num_ueids = 1;
	}
	return pair_new(&config[S], &config[C], server_rnics, client_rnics);
}

static struct pair *new_pair(size_t server_rnics, size_t client_rnics)
{
	return new_pair_within(0, server_rnics, client_rnics);
}

/** Two RNICs and two links, one connection; the log is empty. */
static struct pair *grouped(size_t rnics, int *ret_conn)
{
	struct pair *pair = new_pair(rnics, rnics);
	*ret_conn = pair_connected(pair);
	assert_int_equal(pair_lgr_view(pair, S).version, SMCR_CLC_VERSION_2);
	pair_clear_log(pair);
	return pair;
}

static void done(struct pair *pair, int conn)
{
	pair_exchange(pair, conn);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pair_engine_view(pair, i).llc_protocol_errors, 0);
	pair_close(pair, conn);
	pair_free(pair);
}

static void assert_links(struct pair *pair, unsigned int number, bool there)
{
	for (int i = 0; i < 2; i++) {
		const struct smcr_link *link = pair_link(pair, i, (uint8_t)number);
		assert_int_equal(link && link->state == SMCR_LINK_ACTIVE, there);
	}
}

/* ---- first contact ---- */

static void two_links(void **state)
{
	(void)state;
	struct pair *pair = new_pair(2, 2);
	int c = pair_connected(pair);
	const struct pair_msg *confirm = pair_last_llc(pair, S, SMCR_LLC_CONFIRM_LINK, false);
	const struct pair_msg *add = pair_last_llc(pair, S, SMCR_LLC_ADD_LINK, false);
	const struct pair_msg *reply = pair_last_llc(pair, C, SMCR_LLC_ADD_LINK, true);
	struct smcr_device_info second = pair_device(S, 1);
	assert_int_equal(confirm->llc.confirm_link.max_links, pair_lgr_view(pair, S).max_links);
	assert_int_equal(confirm->llc.confirm_link.max_conns, 255);
	assert_int_equal(confirm->llc.confirm_link.flags, SMCR_LLC_CONFIRM_LINK_NO_EYE_CATCHER);
	assert_int_equal(add->length, 72 + 16); /* as in the captures */
	assert_int_equal(add->num_rtokens, 1);
	assert_true(add->llc.add_link.direct);
	assert_memory_equal(add->llc.add_link.gid, second.gid, SMCR_GID_LEN);
	assert_memory_equal(add->llc.add_link.target_gid, second.gid, SMCR_GID_LEN);
	assert_int_equal(reply->length, 72 + 16);
	assert_int_equal(reply->num_rtokens, 1);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_CONFIRM_LINK, false), 2);
	assert_links(pair, 2, true);
	done(pair, c);
}

/** The refusal repeats 44 bytes of the request and gives no reason. */
static void one_rnic(void **state)
{
	(void)state;
	struct pair *pair = new_pair(1, 1);
	int c = pair_connected(pair);
	const struct pair_msg *add = pair_last_llc(pair, S, SMCR_LLC_ADD_LINK, false);
	const struct pair_msg *reply = pair_last_llc(pair, C, SMCR_LLC_ADD_LINK, true);
	assert_int_equal(reply->length, SMCR_LLC_LEN);
	assert_true(reply->llc.add_link.reject);
	assert_int_equal(reply->llc.add_link.reject_reason, 0);
	assert_int_equal(reply->llc.add_link.qpn, add->llc.add_link.qpn);
	assert_int_equal(reply->llc.add_link.psn, add->llc.add_link.psn);
	done(pair, c);
}

/** Holds the Confirm, so that both sides have groups whose link is not confirmed yet. */
static int connecting(struct pair *pair, struct pair_pick *pick)
{
	*pick = (struct pair_pick){
		.from = C, .clc = true, .type = SMCR_CLC_CONFIRM, .verdict = PAIR_HOLD
	};
	pair_set_pick(pair, pick);
	int c = pair_connect(pair, C);
	pair_pump(pair);
	pair_set_pick(pair, NULL);
	return c;
}

/** A limit of one link: no side asks for a second, and none waits for it. */
static void one_link(void **state)
{
	(void)state;
	struct pair *pair = new_pair(2, 2);
	struct pair_pick pick;
	int c = connecting(pair, &pick);
	pair_lgr(pair, S)->max_links = pair_lgr(pair, C)->max_links = 1;
	pair_pump(pair);
	assert_true(pair_both_established(pair, c));
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_ADD_LINK, false), 0);
	assert_int_equal(
		pair_last_llc(pair, S, SMCR_LLC_CONFIRM_LINK, false)->llc.confirm_link.max_links,
		1);
	done(pair, c);
}

/** Release 0 has no limits. */
static void release_0(void **state)
{
	(void)state;
	struct pair *pair = new_pair(2, 2);
	struct pair_pick pick;
	int c = connecting(pair, &pick);
	for (int i = 0; i < 2; i++) {
		pair_lgr(pair, i)->release = 0;
		pair_lgr(pair, i)->max_links = 2;
		pair->conns[c].end[i].smc->rv.agreed.release = 1;
	}
	pair_pump(pair);
	const struct pair_msg *confirm = pair_last_llc(pair, S, SMCR_LLC_CONFIRM_LINK, false);
	assert_int_equal(confirm->llc.confirm_link.max_links, 2);
	assert_int_equal(confirm->llc.confirm_link.max_conns, 0);
	assert_links(pair, 2, true);
	done(pair, c);
}

/** A server that cannot set up a second link does not let the client wait. */
static void a_link_that_cannot_be(void **state)
{
	(void)state;
	struct pair *pair = new_pair(2, 2);
	struct pair_pick pick;
	int c = connecting(pair, &pick);
	pair->side[S].fail_qp_create = 1;
	pair_pump(pair);
	const struct pair_msg *add = pair_last_llc(pair, S, SMCR_LLC_ADD_LINK, false);
	assert_int_equal(add->llc.add_link.mtu, 0);
	assert_true(pair_both_established(pair, c));
	assert_links(pair, 1, true);
	assert_links(pair, 2, false);
	done(pair, c);
}

/** Deployed servers may stay silent then: the client goes on after two seconds. */
static void no_add_link(void **state)
{
	(void)state;
	struct pair *pair = new_pair(2, 2);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_ADD_LINK, .verdict = PAIR_LOSE };
	pair_set_pick(pair, &pick);
	int c = pair_connect(pair, C);
	pair_run(pair, 1900 * MS);
	assert_int_equal(pair_end(pair, c, C)->established, 0);
	pair_run(pair, 200 * MS);
	assert_int_equal(pair_end(pair, c, C)->established, 1);
	pair_free(pair);
}

/** A silent server uses the link for the next connection while the client still waits. That
 *  connection stays on TCP, and the group is not out of sync. */
static void accept_while_waiting(void **state)
{
	(void)state;
	struct pair *pair = new_pair(1, 1);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_ADD_LINK, .verdict = PAIR_LOSE };
	pair_set_pick(pair, &pick);
	int a = pair_connect(pair, C);
	pair_pump(pair);
	struct smcr_clc_msg msg = pair_last_clc(pair, S, SMCR_CLC_ACCEPT)->clc;
	int b = pair_start_alone(pair, C, SMCR_ROLE_CLIENT);
	msg.accept.first_contact = false;
	pair_inject_clc(pair, b, S, &msg);
	pair_pump(pair);
	struct smcr_clc_msg answer;
	/* the message behind the Proposal */
	const struct pair_clc *out = pair_end(pair, b, S)->in->next;
	assert_int_equal(smcr_clc_decode(out->buf, out->len, &answer), 0);
	assert_int_equal(answer.type, SMCR_CLC_DECLINE);
	assert_int_equal(answer.decline.diagnosis, SMCR_REASON_NO_ACTIVE_LINK);
	assert_false(answer.decline.out_of_sync);
	pair_run(pair, 2100 * MS);
	assert_int_equal(pair_end(pair, a, C)->established, 1);
	pair_free(pair);
}

/** A peer whose elements seem to have eye catchers: version 2 has no eye catchers. */
static void other_dialect(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		struct pair *pair = new_pair(1, 1);
		struct pair_pick pick;
		int c = connecting(pair, &pick);
		pick = (struct pair_pick){ .from = !side,
					   .type = SMCR_LLC_CONFIRM_LINK,
					   .reply = side == S,
					   .verdict = PAIR_LOSE };
		pair_set_pick(pair, &pick);
		pair_pump(pair);
		struct smcr_llc_msg msg = { .type = SMCR_LLC_CONFIRM_LINK, .reply = side == S };
		memcpy(msg.confirm_link.gid, pair_link_view(pair, side, 1).peer_gid, SMCR_GID_LEN);
		memcpy(msg.confirm_link.mac, pair_link_view(pair, side, 1).peer_mac, SMCR_MAC_LEN);
		msg.confirm_link.qpn = pair_link_view(pair, side, 1).peer_qpn;
		msg.confirm_link.link_number = 1;
		msg.confirm_link.max_links = 2;
		pair_inject_llc(pair, !side, 1, &msg);
		pair_run(pair, 1000 * MS);
		assert_int_equal(pair_end(pair, c, side)->fallback, 1);
		assert_int_equal(pair_last_clc(pair, side, SMCR_CLC_DECLINE)->clc.decline.diagnosis,
				 SMCR_REASON_EYE_CATCHER);
		pair_free(pair);
	}
}

/** Deployed clients drop a CONFIRM LINK that comes before they wait for it, so it is repeated. */
static void confirm_link_is_repeated(void **state)
{
	(void)state;
	for (int link = 1; link <= 2; link++) {
		TRIES("link %d", link);
		struct pair *pair = new_pair(2, 2);
		struct pair_pick pick = {
			.from = S, .type = SMCR_LLC_CONFIRM_LINK, .link = link, .verdict = PAIR_LOSE
		};
		pair_set_pick(pair, &pick);
		int c = pair_connect(pair, C);
		pair_pump(pair);
		assert_int_equal(pick.seen, 1);
		pair_set_pick(pair, NULL);
		pair_run(pair, 499 * MS);
		assert_int_equal(pair_end(pair, c, S)->established, 0);
		pair_run(pair, 2 * MS);
		assert_true(pair_both_established(pair, c));
		assert_links(pair, 2, true);
		done(pair, c);
	}
}

/** A slow client gets CONFIRM LINK twice, and answers once. */
static void heard_twice(void **state)
{
	(void)state;
	struct pair *pair = new_pair(2, 2);
	struct pair_pick pick = {
		.from = C, .type = SMCR_LLC_CONFIRM_LINK, .reply = true, .verdict = PAIR_HOLD
	};
	pair_set_pick(pair, &pick);
	int c = pair_connect(pair, C);
	pair_run(pair, 600 * MS);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_CONFIRM_LINK, false), 2);
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	assert_true(pair_both_established(pair, c));
	/* one on each link */
	assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_CONFIRM_LINK, true), 2);
	done(pair, c);
}

/* ---- links ---- */

static void a_client_asks_for_a_link(void **state)
{
	(void)state;
	struct pair *pair = new_pair(2, 1);
	int c = pair_connected(pair);
	struct smcr_device_info first = pair_device(C, 0), second = pair_device(C, 1);
	pair_clear_log(pair);
	pair_add_device(pair, C, &second);
	pair_pump(pair);
	const struct pair_msg *msg = pair_last_llc(pair, C, SMCR_LLC_REQUEST_ADD_LINK, false);
	assert_int_equal(msg->length, 60); /* as in the captures */
	assert_int_equal(msg->llc.request_add_link.num_gids, 2);
	assert_memory_equal(msg->llc.request_add_link.gid[0], first.gid, SMCR_GID_LEN);
	assert_memory_equal(msg->llc.request_add_link.gid[1], second.gid, SMCR_GID_LEN);
	assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_ADD_LINK, false), 0);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_REQUEST_ADD_LINK, true), 0);
	assert_int_equal(smcr_llc_symmetric_links(pair_lgr(pair, S)), 2);
	done(pair, c);
}

/** A server that cannot add a link says so, at once or after an attempt. */
static void the_server_refuses_a_link(void **state)
{
	(void)state;
	int c;
	struct smcr_llc_msg ask = { .type = SMCR_LLC_REQUEST_ADD_LINK,
				    .request_add_link = { .num_gids = 1 } };
	for (int limited = 0; limited < 2; limited++) {
		struct pair *pair = grouped(2, &c);
		for (int i = 0; i < 2 && limited; i++)
			pair_lgr(pair, i)->max_links = 2;
		pair_inject_llc(pair, C, 1, &ask);
		pair_pump(pair);
		const struct pair_msg *reply =
			pair_last_llc(pair, S, SMCR_LLC_REQUEST_ADD_LINK, true);
		assert_non_null(reply);
		assert_int_equal(reply->length, SMCR_LLC_LEN);
		assert_int_equal(reply->llc.request_add_link.num_gids, 0);
		assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_ADD_LINK, false), 0);
		done(pair, c);
	}
}

/** An operator at the client is told that the server refused. */
static void refusal_of_a_command(void **state)
{
	(void)state;
	int c;
	struct pair *pair = grouped(1, &c);
	struct smcr_device_info second = pair_device(C, 1);
	pair_add_device_quietly(pair, C, &second);
	struct smcr_command command = { .type = SMCR_COMMAND_LINK_ADD,
					.lgr = pair_lgr_view(pair, C).id };
	uint64_t id;
	pair->side[S].fail_qp_create = 1;
	assert_int_equal(smcr_engine_command(pair->side[C].engine, &command, &id), 0);
	pair_run(pair, 1000);
	assert_int_equal(pair->side[C].commands_done, 1);
	assert_int_not_equal(pair->side[C].command_result.error, 0);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_REQUEST_ADD_LINK, true), 1);
	done(pair, c);
}

/** Beside the link that carries it CONFIRM RKEY can name two links. */
static void three_links_at_most(void **state)
{
	(void)state;
	struct pair *pair = new_pair(4, 4);
	int c = pair_connected(pair);
	for (int i = 0; i < 2; i++)
		pair_lgr(pair, i)->max_links = 8;
	struct smcr_command command = { .type = SMCR_COMMAND_LINK_ADD,
					.lgr = pair_lgr_view(pair, S).id };
	uint64_t id;
	for (int n = 0; n < 3; n++) {
		assert_int_equal(smcr_engine_command(pair->side[S].engine, &command, &id), 0);
		pair_run(pair, 1000);
	}
	assert_links(pair, 3, true);
	assert_null(pair_link(pair, S, 4));
	/* nor does a client accept a fourth */
	struct smcr_llc_msg add = { .type = SMCR_LLC_ADD_LINK };
	memset(add.add_link.gid, 7, SMCR_GID_LEN);
	add.add_link.qpn = 0x777;
	add.add_link.link_number = 9;
	add.add_link.mtu = SMCR_MTU_1024;
	pair_inject_llc(pair, S, 1, &add);
	pair_pump(pair);
	assert_true(pair_last_llc(pair, C, SMCR_LLC_ADD_LINK, true)->llc.add_link.reject);
	done(pair, c);
}

/** The peer may have one buffer only for messages of more than 44 bytes. */
static void long_messages_one_at_a_time(void **state)
{
	(void)state;
	struct pair *pair = new_pair(2, 1);
	int c = pair_connected(pair);
	struct smcr_device_info second = pair_device(C, 1);
	pair_clear_log(pair);
	pair->side[C].hold_completions = true;
	pair_add_device(pair, C, &second);
	pair_pump(pair);
	assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_REQUEST_ADD_LINK, false), 1);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_ADD_LINK, false), 1);
	assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_ADD_LINK, true), 0);
	pair->side[C].hold_completions = false;
	pair_pump(pair);
	assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_ADD_LINK, true), 1);
	assert_int_equal(smcr_llc_symmetric_links(pair_lgr(pair, C)), 2);
	done(pair, c);
}

/** A long message that waits is lost with its link. */
static void a_long_message_that_waits(void **state)
{
	(void)state;
	struct pair *pair = new_pair(2, 1);
	int c = pair_connected(pair);
	struct smcr_device_info second = pair_device(C, 1);
	pair->side[C].hold_completions = true;
	pair_add_device(pair, C, &second);
	pair_pump(pair);
	pair_fail_link(pair, C, 1);
	pair->side[C].hold_completions = false;
	pair_run(pair, 20000 * MS);
	(void)c;
	pair_free(pair);
}

/** Every RMB that the peer knows is listed, as when each connection has an RMB. */
static void many_rtokens(void **state)
{
	(void)state;
	struct smcr_config config[2];
	for (int i = 0; i < 2; i++) {
		config[i] = pair_config(i);
		assert_int_equal(smcr_ueid_parse("LLC", config[i].ueids[0]), 0);
		config[i].num_ueids = 1;
		config[i].elements_per_rmb = 1;
	}
	struct pair *pair = pair_new(&config[S], &config[C], 1, 1);
	int conns[40];
	for (size_t i = 0; i < 40; i++)
		conns[i] = pair_connected(pair);
	pair_clear_log(pair);
	for (int i = 0; i < 2; i++) {
		struct smcr_device_info second = pair_device(i, 1);
		pair_add_device(pair, i, &second);
	}
	pair_pump(pair);
	const struct pair_msg *add = pair_last_llc(pair, S, SMCR_LLC_ADD_LINK, false);
	const struct pair_msg *reply = pair_last_llc(pair, C, SMCR_LLC_ADD_LINK, true);
	assert_int_equal(add->num_rtokens, 40);
	assert_int_equal(add->length, 72 + 40 * 16);
	assert_int_equal(reply->num_rtokens, 40);
	assert_int_equal(smcr_llc_symmetric_links(pair_lgr(pair, S)), 2);
	pair_fail_link(pair, S, 1);
	pair_pump(pair);
	for (size_t i = 0; i < 40; i++) {
		pair_exchange(pair, conns[i]);
		pair_close(pair, conns[i]);
	}
	pair_free(pair);
}

/** The server's ADD LINK for link 9, on its second RNIC. It lists no RToken. */
static struct smcr_llc_msg add_link_without_rtokens(struct pair *pair)
{
	struct smcr_llc_msg add = { .type = SMCR_LLC_ADD_LINK };
	for (int i = 0; i < 2; i++) {
		struct smcr_device_info second = pair_device(i, 1);
		pair_add_device_quietly(pair, i, &second);
	}
	struct smcr_device_info second = pair_device(S, 1);
	memcpy(add.add_link.gid, second.gid, SMCR_GID_LEN);
	memcpy(add.add_link.mac, second.mac, SMCR_MAC_LEN);
	add.add_link.qpn = 0x777;
	add.add_link.link_number = 9;
	add.add_link.mtu = SMCR_MTU_1024;
	return add;
}

/** An RMB in use has no RToken on the new link: that link cannot be used. */
static void a_missing_rtoken(void **state)
{
	(void)state;
	int c;
	struct pair *pair = grouped(1, &c);
	struct smcr_llc_msg add = add_link_without_rtokens(pair);
	struct pair_pick pick = {
		.from = C, .type = SMCR_LLC_ADD_LINK, .reply = true, .verdict = PAIR_PASS
	};
	pair_set_pick(pair, &pick);
	pair_inject_llc(pair, S, 1, &add);
	pair_pump(pair);
	assert_int_equal(pick.seen, 1);
	assert_true(pair_last_llc(pair, C, SMCR_LLC_ADD_LINK, true)->llc.add_link.reject);
	assert_int_equal(smcr_engine_row(pair->side[C].engine, SMCR_ROW_ERR_55, SMCR_ROLE_CLIENT),
			 1);
	assert_links(pair, 1, true);
	done(pair, c);
}

/** The only connection with an element in that RMB has been aborted, and writes no more. */
static void a_missing_rtoken_that_nobody_needs(void **state)
{
	(void)state;
	int c;
	struct pair *pair = grouped(1, &c);
	struct smcr_llc_msg add = add_link_without_rtokens(pair);
	struct pair_pick answer = { .from = S, .type = SMCR_LLC_CDC, .verdict = PAIR_LOSE };
	pair_set_pick(pair, &answer); /* to the abort: the connection stays */
	smcr_conn_abort(pair_end(pair, c, C)->smc);
	pair_pump(pair);
	assert_true(answer.seen > 0);
	assert_int_equal(pair_lgr(pair, C)->peer_rmbs->users, 1);
	struct pair_pick reply = {
		.from = C, .type = SMCR_LLC_ADD_LINK, .reply = true, .verdict = PAIR_HOLD
	};
	pair_set_pick(pair, &reply);
	pair_inject_llc(pair, S, 1, &add);
	pair_pump(pair);
	assert_true(reply.seen > 0);
	assert_int_equal(smcr_engine_row(pair->side[C].engine, SMCR_ROW_ERR_55, SMCR_ROLE_CLIENT),
			 0);
	assert_non_null(pair_link(pair, C, 9));
	pair_free(pair);
}

/** The count of RTokens is in the byte order of the peer's processor. */
static void byte_order(void **state)
{
	(void)state;
	int c;
	struct pair *pair = grouped(1, &c);
	struct smcr_lgr *lgr = pair_lgr(pair, S);
	uint8_t test[SMCR_LLC_LEN] = { 0x27, 0x00, 0x2C };
	assert_int_equal(lgr->order, SMCR_ORDER_LITTLE);
	lgr->order = SMCR_ORDER_UNKNOWN;
	pair_inject_raw(pair, C, 1, test, sizeof(test));
	assert_int_equal(lgr->order, SMCR_ORDER_BIG);
	struct smcr_device_info second = pair_device(S, 1);
	pair_add_device(pair, S, &second);
	pair_pump(pair);
	assert_int_equal(pair_last_llc(pair, S, SMCR_LLC_ADD_LINK, false)->llc.order,
			 SMCR_ORDER_BIG);
	done(pair, c);
}

/* ---- RKEY exchanges and new links at once ---- */

/** Starts so many connections that the client needs another RMB. */
static void fill(struct pair *pair, int conns[3])
{
	for (int i = 0; i < 3; i++)
		conns[i] = pair_connected(pair);
}

/** End a test that has called fill(), and then connected `last`. */
static void done_filled(struct pair *pair, int conn, const int conns[3], int last)
{
	pair_close(pair, last);
	for (int i = 0; i < 3; i++)
		pair_close(pair, conns[i]);
	done(pair, conn);
}

/** An ADD LINK that meets the own CONFIRM RKEY is answered after the RKEY exchange, or half a
 *  second later. */
static void add_link_waits_for_rkey(void **state)
{
	(void)state;
	for (int patient = 0; patient < 2; patient++) {
		int c, conns[3];
		struct pair *pair = grouped(1, &c);
		struct smcr_llc_msg add = { .type = SMCR_LLC_ADD_LINK };
		fill(pair, conns);
		struct pair_pick pick = { .from = S,
					  .type = SMCR_LLC_CONFIRM_RKEY,
					  .reply = true,
					  .verdict = PAIR_HOLD };
		pair_set_pick(pair, &pick);
		int d = pair_connect(pair, C);
		pair_pump(pair);
		assert_int_equal(pair_lgr(pair, C)->llc->rkey.step, SMCR_RKEY_CONFIRM);
		memcpy(add.add_link.gid, pair_link_view(pair, C, 1).peer_gid, SMCR_GID_LEN);
		add.add_link.qpn = 0x777;
		add.add_link.link_number = 9;
		add.add_link.mtu = SMCR_MTU_1024;
		/* the server's engine does not wait for the answer */
		pair_inject_llc(pair, S, 1, &add);
		pair_pump(pair);
		assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_ADD_LINK, true), 0);
		if (patient)
			pair_set_pick(pair, NULL);
		else
			pair_run(pair, 600 * MS);
		pair_pump(pair);
		assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_ADD_LINK, true), 1);
		pair_set_pick(pair, NULL);
		pair_pump(pair);
		assert_true(pair_both_established(pair, d));
		done_filled(pair, c, conns, d);
	}
}

/** A server that has as many symmetric links as it may have refuses at once, also while it awaits
 * the reply to its CONFIRM RKEY. The asymmetric link beside them does not count. */
static void refusal_does_not_wait_for_rkey(void **state)
{
	(void)state;
	int conns[3];
	struct smcr_llc_msg ask = { .type = SMCR_LLC_REQUEST_ADD_LINK,
				    .request_add_link = { .num_gids = 1 } };
	struct pair_pick pick = {
		.from = C, .type = SMCR_LLC_CONFIRM_RKEY, .reply = true, .verdict = PAIR_HOLD
	};
	struct pair *pair = new_pair_within(2, 3, 1);
	int c = pair_connected(pair);
	struct smcr_device_info second = pair_device(C, 1);
	pair_add_device(pair, C, &second);
	pair_pump(pair);
	assert_int_equal(smcr_llc_symmetric_links(pair_lgr(pair, S)), 2);
	assert_non_null(smcr_llc_asymmetric_link(pair_lgr(pair, S)));
	fill(pair, conns);
	pair_set_pick(pair, &pick);
	int d = pair_connect(pair, C);
	pair_pump(pair);
	assert_true(pick.seen > 0);
	assert_int_equal(pair_lgr(pair, S)->llc->rkey.step, SMCR_RKEY_CONFIRM);
	pair_inject_llc(pair, C, 1, &ask);
	pair_pump(pair);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_REQUEST_ADD_LINK, true), 1);
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	assert_true(pair_both_established(pair, d));
	done_filled(pair, c, conns, d);
}

/** A server does not put off the client's RKEY exchange: the client sent CONFIRM RKEY before it saw
 *  ADD LINK, and a deployed client answers ADD LINK only after it. */
static void rkey_during_add_link(void **state)
{
	(void)state;
	int c, conns[3];
	struct pair *pair = grouped(1, &c);
	fill(pair, conns);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_ADD_LINK, .verdict = PAIR_HOLD };
	for (int i = 0; i < 2; i++) {
		struct smcr_device_info second = pair_device(i, 1);
		pair_add_device_quietly(pair, i, &second);
	}
	int d = pair_connect(pair, C);
	struct pair_pick held = { .from = C, .type = SMCR_LLC_CONFIRM_RKEY, .verdict = PAIR_HOLD };
	pair_set_pick(pair, &held);
	pair_pump(pair);
	pair_set_pick(pair, &pick);
	pair_add_link(pair, S);
	smcr_engine_run(pair->side[S].engine, pair->now);
	assert_int_equal(pair_lgr(pair, S)->llc->step, SMCR_LLC_S_ADD);
	pair_set_pick(pair, NULL);
	pair_clear_log(pair);
	pair_pump(pair);
	const struct pair_msg *reply = pair_last_llc(pair, S, SMCR_LLC_CONFIRM_RKEY, true);
	assert_non_null(reply);
	assert_false(reply->llc.confirm_rkey.negative);
	assert_int_equal(pair_last_llc(pair, C, SMCR_LLC_ADD_LINK, true)->num_rtokens, 2);
	assert_true(pair_both_established(pair, d));
	assert_int_equal(smcr_llc_symmetric_links(pair_lgr(pair, S)), 2);
	pair_fail_link(pair, C, 1);
	pair_pump(pair);
	pair_exchange(pair, d);
	done_filled(pair, c, conns, d);
}

/** A message that counts more other links than fit into it is an error. */
static void too_many_other_links(void **state)
{
	(void)state;
	int c;
	struct pair *pair = grouped(1, &c);
	struct smcr_llc_msg msg = { .type = SMCR_LLC_CONFIRM_RKEY };
	msg.confirm_rkey.num_tokens = 3;
	msg.confirm_rkey.rkey = 0x1234;
	msg.confirm_rkey.vaddr = 0x7000;
	msg.confirm_rkey.other[0].link_number = 7;
	msg.confirm_rkey.other[1].link_number = 8;
	pair_inject_llc(pair, C, 1, &msg);
	pair_pump(pair);
	const struct pair_msg *reply = pair_last_llc(pair, S, SMCR_LLC_CONFIRM_RKEY, true);
	assert_true(reply->llc.confirm_rkey.negative && reply->llc.confirm_rkey.retry);
	done(pair, c);
}

static void delete_rkey_counts(void **state)
{
	(void)state;
	int c;
	struct pair *pair = grouped(1, &c);
	struct smcr_llc_msg msg = { .type = SMCR_LLC_DELETE_RKEY };
	uint32_t known = pair_lgr(pair, C)->rmbs->reg[0].rkey;
	msg.delete_rkey.count = 12;
	for (uint32_t i = 0; i < 12; i++)
		msg.delete_rkey.rkey[i] = 0xDEAD0000 + i;
	msg.delete_rkey.rkey[0] = known;
	pair_inject_llc(pair, C, 1, &msg);
	pair_pump(pair);
	const struct pair_msg *reply = pair_last_llc(pair, S, SMCR_LLC_DELETE_RKEY, true);
	assert_int_equal(reply->length, 8 + 4 * 12);
	assert_true(reply->llc.delete_rkey.negative);
	assert_int_equal(reply->llc.delete_rkey.count, 12);
	assert_int_equal(reply->llc.delete_rkey.num_invalid, 11);
	assert_int_equal(reply->llc.delete_rkey.rkey[0], 0xDEAD0001);
	assert_int_equal(reply->llc.delete_rkey.rkey[11], 0);
	pair_free(pair);
}

/** Deployed peers withdraw an RMB after every connection, and announce it again for the next one.
 */
static void withdrawn_and_announced_again(void **state)
{
	(void)state;
	int c;
	struct pair *pair = grouped(2, &c);
	struct smcr_lgr *lgr = pair_lgr(pair, S);
	struct smcr_llc_msg confirm = { .type = SMCR_LLC_CONFIRM_RKEY };
	struct smcr_llc_msg gone = { .type = SMCR_LLC_DELETE_RKEY };
	unsigned int rmbs = smcr_peer_rmb_count(lgr);
	confirm.confirm_rkey.num_tokens = 1;
	confirm.confirm_rkey.rkey = 0x1234;
	confirm.confirm_rkey.vaddr = 0x7000;
	confirm.confirm_rkey.other[0].link_number = 2;
	confirm.confirm_rkey.other[0].rkey = 0x2345;
	confirm.confirm_rkey.other[0].vaddr = 0x7000;
	gone.delete_rkey.count = 1;
	gone.delete_rkey.rkey[0] = 0x1234;
	for (int i = 0; i < 3; i++) {
		pair_inject_llc(pair, C, 1, &confirm);
		pair_pump(pair);
		assert_int_equal(smcr_peer_rmb_count(lgr), rmbs + 1);
		pair_inject_llc(pair, C, 1, &confirm); /* a repetition does no harm */
		pair_pump(pair);
		assert_int_equal(smcr_peer_rmb_count(lgr), rmbs + 1);
		pair_inject_llc(pair, C, 1, &gone);
		pair_pump(pair);
		assert_int_equal(smcr_peer_rmb_count(lgr), rmbs);
	}
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_CONFIRM_RKEY, true), 6);
	assert_false(
		pair_last_llc(pair, S, SMCR_LLC_CONFIRM_RKEY, true)->llc.confirm_rkey.negative);
	assert_false(pair_last_llc(pair, S, SMCR_LLC_DELETE_RKEY, true)->llc.delete_rkey.negative);
	done(pair, c);
}

/* ---- messages that are dropped ---- */

/** Answers without a request, and messages of the other version. */
static void strays(void **state)
{
	(void)state;
	int c;
	struct pair *pair = grouped(2, &c);
	static const uint8_t types[] = { SMCR_LLC_CONFIRM_LINK,    SMCR_LLC_ADD_LINK,
					 SMCR_LLC_DELETE_LINK,     SMCR_LLC_CONFIRM_RKEY,
					 SMCR_LLC_DELETE_RKEY,     SMCR_LLC_TEST_LINK,
					 SMCR_LLC_REQUEST_ADD_LINK };
	for (size_t i = 0; i < sizeof(types); i++) {
		struct smcr_llc_msg msg = { .type = types[i], .reply = true };
		msg.delete_rkey.count += types[i] == SMCR_LLC_DELETE_RKEY;
		int from = types[i] == SMCR_LLC_REQUEST_ADD_LINK ? S : C;
		pair_inject_llc(pair, from, 1, &msg);
	}
	for (uint8_t type = 0; type < 0xFD; type++) {
		uint8_t raw[SMCR_LLC_LEN] = { type, SMCR_LLC_LEN };
		if ((type & 0xF0) != SMCR_LLC_V2_TYPE || type == 0x23 || type == 0x28)
			pair_inject_raw(pair, C, 1, raw, sizeof(raw));
	}
	pair_pump(pair);
	assert_links(pair, 1, true);
	assert_links(pair, 2, true);
	done(pair, c);
}

static void version_2_in_version_1(void **state)
{
	(void)state;
	int c;
	for (uint8_t type = 0x20; type < 0x30; type++) {
		TRIES("type %u", type);
		struct pair *pair = pair_grouped(2, &c);
		uint8_t raw[SMCR_LLC_LEN] = { type, SMCR_LLC_LEN };
		pair_inject_raw(pair, C, 2, raw, sizeof(raw));
		assert_int_equal(pair_link_view(pair, S, 2).state, SMCR_LINK_FAILED);
		pair_pump(pair);
		assert_int_equal(pair_engine_view(pair, S).llc_protocol_errors, 1);
		pair_exchange(pair, c);
		pair_free(pair);
	}
}

/** A message of less than 44 bytes is out of sync in any version. */
static void malformed(void **state)
{
	(void)state;
	int c;
	struct pair *pair = grouped(2, &c);
	uint8_t raw[SMCR_LLC_LEN - 1] = { 0x27, SMCR_LLC_LEN };
	pair_inject_raw(pair, C, 2, raw, sizeof(raw));
	assert_int_equal(pair_link_view(pair, S, 2).state, SMCR_LINK_FAILED);
	pair_pump(pair);
	pair_exchange(pair, c);
	pair_free(pair);
}

/* ---- the end ---- */

/** A request to end a group is answered by a request, not by a reply. */
static void delete_all(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		int c;
		struct pair *pair = grouped(2, &c);
		pair_close(pair, c);
		smcr_llc_delete_all(pair_lgr(pair, side), SMCR_LLC_DEL_OPERATOR, ECONNRESET);
		pair_pump(pair);
		const struct pair_msg *msg = pair_last_llc(pair, S, SMCR_LLC_DELETE_LINK, false);
		assert_true(msg->llc.delete_link.all);
		assert_int_equal(msg->llc.delete_link.reason, SMCR_LLC_DEL_OPERATOR);
		assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_DELETE_LINK, true), 0);
		assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_DELETE_LINK, true), 0);
		assert_null(pair_lgr(pair, S));
		assert_null(pair_lgr(pair, C));
		pair_free(pair);
	}
}

/** The server does not act on DELETE LINK, as deployed servers may while their own writes are in
 *  flight. */
static void server_takes_its_time(void **state)
{
	(void)state;
	int c;
	struct pair *pair = grouped(2, &c);
	struct pair_pick pick = { .from = C, .type = SMCR_LLC_DELETE_LINK, .verdict = PAIR_LOSE };
	pair_set_pick(pair, &pick);
	pair_fail_link(pair, C, 2);
	pair_run(pair, 60000 * MS);
	assert_int_equal(pick.seen, 1);
	assert_true(pair_count_llc(pair, C, SMCR_LLC_TEST_LINK, false) > 1);
	assert_int_equal(pair_link_view(pair, C, 1).state, SMCR_LINK_ACTIVE);
	pair_exchange(pair, c);
	pair_set_pick(pair, NULL);
	pair_fail_link(pair, S, 2); /* now the server's link fails too */
	pair_pump(pair);
	assert_null(pair_link(pair, C, 2));
	assert_int_equal(pair_link_view(pair, C, 1).state, SMCR_LINK_ACTIVE);
	done(pair, c);
}

/** The client does not answer DELETE LINK: the group goes on, and the exchange too when the answer
 *  comes. */
static void client_takes_its_time(void **state)
{
	(void)state;
	int c;
	struct pair *pair = grouped(2, &c);
	struct pair_pick pick = {
		.from = C, .type = SMCR_LLC_DELETE_LINK, .reply = true, .verdict = PAIR_LOSE
	};
	pair_set_pick(pair, &pick);
	pair_fail_link(pair, S, 2);
	pair_run(pair, 60000 * MS);
	assert_true(pick.seen > 0);
	assert_true(pair_count_llc(pair, S, SMCR_LLC_TEST_LINK, false) > 1);
	assert_true(pair_count_llc(pair, S, SMCR_LLC_DELETE_LINK, false) > 1);
	assert_int_equal(pair_link_view(pair, S, 1).state, SMCR_LINK_ACTIVE);
	pair_exchange(pair, c);
	pair_set_pick(pair, NULL);
	struct smcr_llc_msg reply = { .type = SMCR_LLC_DELETE_LINK, .reply = true };
	reply.delete_link.link_number = 2;
	pair_inject_llc(pair, C, 1, &reply);
	pair_pump(pair);
	pair_inject_llc(pair, C, 1, &reply); /* the reply to the second request */
	pair_pump(pair);
	assert_null(pair_link(pair, S, 2));
	assert_int_equal(pair_link_view(pair, S, 1).state, SMCR_LINK_ACTIVE);
	done(pair, c);
}

static enum pair_verdict lose_from_client(struct pair *pair, const struct pair_msg *msg, void *arg)
{
	(void)pair;
	(void)arg;
	return msg->from == C ? PAIR_LOSE : PAIR_PASS;
}

static enum pair_verdict lose_from_server(struct pair *pair, const struct pair_msg *msg, void *arg)
{
	(void)pair;
	(void)arg;
	return msg->from == S ? PAIR_LOSE : PAIR_PASS;
}

/** The carrier is tested before it counts as failed (ERR-33, ERR-36). */
static void peer_is_out_of_reach(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		int c;
		struct pair *pair = grouped(2, &c);
		pair->filter = side == C ? lose_from_client : lose_from_server;
		pair_fail_link(pair, side, 2);
		pair_run(pair, 7900 * MS);
		assert_non_null(pair_lgr(pair, side));
		pair_run(pair, 200 * MS);
		assert_null(pair_lgr(pair, side));
		assert_int_equal(pair_end(pair, c, side)->reset, 1);
		pair->filter = NULL;
		pair_run(pair, 10000 * MS);
		pair_free(pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_links),
		cmocka_unit_test(one_rnic),
		cmocka_unit_test(one_link),
		cmocka_unit_test(release_0),
		cmocka_unit_test(a_link_that_cannot_be),
		cmocka_unit_test(no_add_link),
		cmocka_unit_test(accept_while_waiting),
		cmocka_unit_test(other_dialect),
		cmocka_unit_test(confirm_link_is_repeated),
		cmocka_unit_test(heard_twice),
		cmocka_unit_test(a_client_asks_for_a_link),
		cmocka_unit_test(the_server_refuses_a_link),
		cmocka_unit_test(refusal_of_a_command),
		cmocka_unit_test(three_links_at_most),
		cmocka_unit_test(long_messages_one_at_a_time),
		cmocka_unit_test(a_long_message_that_waits),
		cmocka_unit_test(many_rtokens),
		cmocka_unit_test(a_missing_rtoken),
		cmocka_unit_test(a_missing_rtoken_that_nobody_needs),
		cmocka_unit_test(byte_order),
		cmocka_unit_test(add_link_waits_for_rkey),
		cmocka_unit_test(refusal_does_not_wait_for_rkey),
		cmocka_unit_test(rkey_during_add_link),
		cmocka_unit_test(too_many_other_links),
		cmocka_unit_test(delete_rkey_counts),
		cmocka_unit_test(withdrawn_and_announced_again),
		cmocka_unit_test(strays),
		cmocka_unit_test(version_2_in_version_1),
		cmocka_unit_test(malformed),
		cmocka_unit_test(delete_all),
		cmocka_unit_test(server_takes_its_time),
		cmocka_unit_test(client_takes_its_time),
		cmocka_unit_test(peer_is_out_of_reach),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

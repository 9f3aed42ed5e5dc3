/* SPDX-License-Identifier: MIT */
/* Rendezvous that go wrong: fallback or reset, neither too early nor too late (Appendix C). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/smcr/llc.h"
#include "tests/lib/enginepair_filter.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define S      PAIR_SERVER
#define C      PAIR_CLIENT
#define SECOND 1000000

/** Neither side keeps anything of the rendezvous (RV-14). */
static void all_freed(struct pair *pair)
{
	for (int side = 0; side < 2; side++) {
		struct smcr_engine_view view;
		pair_pump(pair);
		smcr_engine_get_view(pair->side[side].engine, &view);
		assert_int_equal(view.num_lgrs + view.num_links + view.num_qps + view.num_mrs +
					 view.num_rmbs + view.num_conns + view.num_timers,
				 0);
		assert_int_equal(view.memory_used, 0);
		assert_true(smcr_engine_idle(pair->side[side].engine));
	}
}

static void both_fell_back(struct pair *pair, int c)
{
	/* a side that has declined late waits for the peer's Decline */
	pair_run(pair, SECOND + SECOND / 4);
	for (int side = 0; side < 2; side++) {
		assert_int_equal(pair_end(pair, c, side)->fallback, 1);
		assert_int_equal(pair_end(pair, c, side)->failed, 0);
		assert_int_equal(pair_end(pair, c, side)->established, 0);
		/* no CLC message is left for the program to read */
		assert_null(pair_end(pair, c, side)->in);
	}
}

static void both_were_reset(struct pair *pair, int c)
{
	for (int side = 0; side < 2; side++) {
		const struct pair_end *end = pair_end(pair, c, side);
		assert_int_equal(end->fallback, 0);
		assert_true(end->failed == 1 || end->reset == 1);
	}
}

/** Both sides have plain TCP, or the TCP connection was reset: never plain TCP on one side only. */
static void ended_alike(struct pair *pair, int c)
{
	const struct pair_end *s = pair_end(pair, c, S), *e = pair_end(pair, c, C);
	if (s->failed || s->reset || e->failed || e->reset)
		return;
	both_fell_back(pair, c);
}

/* ---- local resources run out (ERR-1, GEN-4) ---- */

/** The n-th call of one operation fails, for every n until no call fails any more. Each time both
 *  ends agree on the outcome, and nothing leaks. */
static void fail_each(size_t rnics, size_t offset, int existing)
{
	for (int side = 0; side < 2; side++)
		for (int n = 1;; n++) {
			struct pair *pair = pair_new(NULL, NULL, rnics, rnics);
			int first[4] = { -1, -1, -1, -1 };
			for (int i = 0; i < existing; i++)
				first[i] = pair_connected(pair);
			int *fault = (int *)((char *)&pair->side[side] + offset);
			*fault = n;
			int c = pair_connect(pair, C);
			pair_run(pair, 100);
			bool hit = *fault == 0;
			*fault = 0;
			if (!pair_both_established(pair, c))
				pair_run(pair, 40 * SECOND);
			if (pair_both_established(pair, c)) {
				pair_exchange(pair, c);
				pair_close(pair, c);
			} else {
				ended_alike(pair, c);
			}
			for (int i = 0; i < existing; i++)
				if (pair_both_established(pair, first[i]))
					pair_exchange(pair, first[i]);
			/* without the fault the pair works again */
			pair_run(pair, 20 * SECOND);
			int again = pair_connected(pair);
			pair_exchange(pair, again);
			pair_free(pair);
			if (!hit)
				break;
		}
}

static void resources_fail(void **state)
{
	(void)state;
	for (int existing = 0; existing <= 4; existing += 4)
		for (size_t rnics = 1; rnics <= 2; rnics++) {
			fail_each(rnics, offsetof(struct pair_side, fail_qp_create), existing);
			fail_each(rnics, offsetof(struct pair_side, fail_qp_connect), existing);
			fail_each(rnics, offsetof(struct pair_side, fail_qp_start), existing);
			fail_each(rnics, offsetof(struct pair_side, fail_mr_register), existing);
			fail_each(rnics, offsetof(struct pair_side, fail_mem_alloc), existing);
			fail_each(rnics, offsetof(struct pair_side, fail_post), existing);
		}
	PROVES("ERR-1 ERR-2 GEN-4 RV-14 RMB-12 LG-14");
}

/** What is told as an internal error has a line in the log that says more. */
static void internal_errors_are_logged(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++)
		for (int existing = 0; existing < 2; existing++) {
			TRIES("side %d, existing %d", side, existing);
			struct pair *pair = pair_new(NULL, NULL, 1, 1);
			/* its element has to come from a new RMB */
			if (existing)
				pair_connected(pair);
			pair->side[side].rcvbuf = existing ? 512 << 10 : 0;
			pair->side[side].mr_error = -EIO;
			pair->side[side].fail_mr_register = 1;
			int c = pair_connect(pair, C);
			pair_run(pair, 40 * SECOND);
			both_fell_back(pair, c);
			assert_int_equal(pair_end(pair, c, side)->last.reason,
					 SMCR_REASON_INTERNAL);
			assert_non_null(strstr(pair->side[side].log_line,
					       "a connection gets no buffers: Input/output error"));
			pair_free(pair);
		}
}

static void no_device(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 0);
	int c = pair_connect(pair, C);
	/* smcr_conn_start() returns before it tells the outcome */
	assert_int_equal(pair_end(pair, c, C)->fallback, 0);
	assert_non_null(pair_end(pair, c, C)->smc);
	assert_false(smcr_conn_wants_clc(pair_end(pair, c, C)->smc));
	pair_pump(pair);
	both_fell_back(pair, c);
	assert_int_equal(pair_end(pair, c, S)->last.peer_reason, SMCR_REASON_NO_R_DEVICE);
	all_freed(pair);
	pair_free(pair);
	PROVES("ERR-1");
}

/** The host refuses SMC-R for the connection after its handshake has agreed on it. The side that
 *  knows declines in its first message, also if a group exists. */
static void refused_by_the_host(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		struct pair *pair = pair_new(NULL, NULL, 1, 1);
		for (int existing = 0; existing < 2; existing++) {
			if (existing)
				pair_connected(pair);
			pair->side[side].refuse = SMCR_REASON_IPSEC;
			unsigned int proposals = pair_count_clc(pair, C, SMCR_CLC_PROPOSAL);
			unsigned int accepts = pair_count_clc(pair, S, SMCR_CLC_ACCEPT);
			int c = pair_connect(pair, C);
			pair_pump(pair);
			both_fell_back(pair, c);
			assert_int_equal(pair_end(pair, c, side)->last.reason, SMCR_REASON_IPSEC);
			assert_int_equal(pair_end(pair, c, !side)->last.peer_reason,
					 SMCR_REASON_IPSEC);
			assert_int_equal(pair_count_clc(pair, C, SMCR_CLC_PROPOSAL) - proposals,
					 side == S);
			assert_int_equal(pair_count_clc(pair, S, SMCR_CLC_ACCEPT), accepts);
			pair->side[side].refuse = SMCR_REASON_NONE;
		}
		pair_free(pair);
	}
	PROVES("SEC-4 ERR-2");
}

/** The client's RNIC goes after the Proposal: the client waits for the Accept before it declines
 *  (ERR-3). */
static void no_chasing(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	struct pair_pick pick = {
		.from = C, .clc = true, .type = SMCR_CLC_PROPOSAL, .verdict = PAIR_HOLD
	};
	pair_set_pick(pair, &pick);
	int c = pair_connect(pair, C);
	pair_pump(pair);
	pair_remove_device(pair, C, pair->side[C].devices[0].id);
	pair_pump(pair);
	assert_int_equal(pair_end(pair, c, C)->fallback, 0);
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	assert_int_equal(pair_count_clc(pair, S, SMCR_CLC_ACCEPT), 1);
	both_fell_back(pair, c);
	all_freed(pair);
	pair_free(pair);
	/* the server's RNIC goes after its Accept: the server waits for the Confirm */
	pair = pair_new(NULL, NULL, 1, 1);
	pick.type = SMCR_CLC_CONFIRM;
	pair_set_pick(pair, &pick);
	c = pair_connect(pair, C);
	pair_pump(pair);
	pair_remove_device(pair, S, pair->side[S].devices[0].id);
	pair_pump(pair);
	assert_int_equal(pair_end(pair, c, S)->fallback, 0);
	assert_int_equal(pair_num_qps(pair, S), 0);
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	both_fell_back(pair, c);
	all_freed(pair);
	pair_free(pair);
	PROVES("ERR-3");
}

static void giving_up(void **state)
{
	static const struct {
		int side; /* the side that gives up */
		bool clc;
		uint8_t type; /* the message that is held meanwhile */
		int from;
		bool reply, fallback;
	} rows[] = {
		{ C, true, SMCR_CLC_PROPOSAL, C, false, true },
		{ S, true, SMCR_CLC_PROPOSAL, C, false, true },
		{ S, true, SMCR_CLC_CONFIRM, C, false, true },
		{ C, false, SMCR_LLC_CONFIRM_LINK, S, false, true },
		{ S, false, SMCR_LLC_CONFIRM_LINK, S, false, true },
		{ C, false, SMCR_LLC_ADD_LINK, S, false, true },
		{ S, false, SMCR_LLC_ADD_LINK, S, false, true },
		{ S, false, SMCR_LLC_ADD_LINK, C, true, false }, /* ADD LINK was completed */
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		struct pair *pair = pair_new(NULL, NULL, 2, 2);
		struct pair_pick pick = { .from = rows[i].from,
					  .clc = rows[i].clc,
					  .type = rows[i].type,
					  .reply = rows[i].reply,
					  .verdict = PAIR_HOLD };
		pair_set_pick(pair, &pick);
		int c = pair_connect(pair, C);
		pair_pump(pair);
		smcr_conn_give_up(pair_end(pair, c, rows[i].side)->smc, SMCR_REASON_INTERNAL);
		pair_set_pick(pair, NULL);
		pair_pump(pair);
		if (rows[i].fallback)
			both_fell_back(pair, c);
		else
			both_were_reset(pair, c);
		pair_run(pair, 5 * SECOND);
		all_freed(pair);
		pair_free(pair);
	}
	PROVES("ERR-5 ERR-6 ERR-7");
}

/* ---- CLC protocol errors ---- */

static void wrong_clc(void **state)
{
	(void)state;
	for (int variant = 0; variant < 8; variant++) {
		TRIES("variant %d", variant);
		struct pair *pair = pair_new(NULL, NULL, 1, 1);
		int side = variant < 4 ? S : C;
		int c = pair_start_alone(pair, side,
					 side == S ? SMCR_ROLE_SERVER : SMCR_ROLE_CLIENT);
		struct smcr_clc_msg msg = { .type = SMCR_CLC_ACCEPT };
		uint8_t buf[SMCR_CLC_MAX_LEN] = { 0xE2, 0xD4, 0xC3, 0xD9, 1, 0, 52, 0x10 };
		msg.accept = (struct smcr_clc_accept){ .type = SMCR_CLC_ACCEPT,
						       .rmbe_index = 1,
						       .mtu = SMCR_MTU_1024 };
		struct pair_end *end = pair_end(pair, c, side);
		switch (variant) {
		case 0: /* the server gets a message that only a server sends */
			pair_inject_clc(pair, c, C, &msg);
			break;
		case 1: /* the first message is a Confirm */
		case 4:
			msg.type = msg.accept.type = SMCR_CLC_CONFIRM;
			pair_inject_clc(pair, c, !side, &msg);
			break;
		case 2: /* the trailing eye catcher is missing */
		case 5: pair_inject_clc_raw(pair, c, !side, buf, 52); break;
		case 3:
		case 6: smcr_conn_clc_garbage(end->smc); break;
		case 7: /* the client gets a Proposal */
			memcpy(buf + 48, buf, 4);
			pair_inject_clc_raw(pair, c, S, buf, 52);
			break;
		}
		pair_pump(pair);
		assert_int_equal(end->failed, 1);
		assert_int_equal(end->last.error, EPROTO);
		assert_int_equal(end->fallback, 0);
		assert_true(smcr_engine_idle(pair->side[side].engine));
		pair_free(pair);
	}
	PROVES("CLC-2 CLC-16 ERR-11 ERR-13");
}

static void change_enum(struct pair *pair, int from, uint8_t bsize, uint8_t mtu)
{
	int c = pair_start_alone(pair, from == S ? C : S,
				 from == S ? SMCR_ROLE_CLIENT : SMCR_ROLE_SERVER);
	struct pair_end *end = pair_end(pair, c, !from);
	struct smcr_clc_msg proposal = { .type = SMCR_CLC_PROPOSAL };
	struct smcr_config config = pair_config(from);
	if (from == C) {
		proposal.proposal = (struct smcr_clc_proposal){ .version = 1,
								.offers_r_v1 = true,
								.ipv4_subnet = 0x0A000000,
								.ipv4_mask_len = 24 };
		memcpy(proposal.proposal.peer_id, config.peer_id, SMCR_PEER_ID_LEN);
		pair_inject_clc(pair, c, C, &proposal);
		pair_pump(pair);
	}
	struct smcr_clc_msg msg = { .type = from == S ? SMCR_CLC_ACCEPT : SMCR_CLC_CONFIRM };
	msg.accept = (struct smcr_clc_accept){ .type = (uint8_t)msg.type,
					       .first_contact = from == S,
					       .qpn = 0x77,
					       .rmbe_index = 1,
					       .mtu = SMCR_MTU_1024 };
	memcpy(msg.accept.peer_id, config.peer_id, SMCR_PEER_ID_LEN);
	uint8_t buf[SMCR_CLC_ACCEPT_LEN];
	assert_int_equal(smcr_clc_encode(&msg, buf, sizeof(buf)), SMCR_CLC_ACCEPT_LEN);
	buf[50] = (uint8_t)(bsize << 4 | mtu);
	pair_inject_clc_raw(pair, c, from, buf, sizeof(buf));
	pair_run(pair, 1100000); /* the server's Decline might cross one of the client */
	assert_int_equal(end->fallback, 1);
	assert_int_equal(end->last.reason, SMCR_REASON_BAD_ENUM);
	all_freed(pair);
}

static void reserved_values(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	for (int from = 0; from < 2; from++) {
		change_enum(pair, from, 6, SMCR_MTU_1024);
		change_enum(pair, from, 15, SMCR_MTU_1024);
		change_enum(pair, from, 2, 0);
		change_enum(pair, from, 2, 6);
		change_enum(pair, from, 2, 15);
	}
	pair_free(pair);
	PROVES("ERR-12 CLC-8 CLC-9");
}

/* ---- waiting for CLC ---- */

static void silent_peer(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	int server = pair_start_alone(pair, S, SMCR_ROLE_SERVER);
	int client = pair_start_alone(pair, C, SMCR_ROLE_CLIENT);
	pair_run(pair, 9 * SECOND);
	assert_int_equal(pair_end(pair, server, S)->failed, 0);
	pair_run(pair, 2 * SECOND);
	assert_int_equal(pair_end(pair, server, S)->failed, 1);
	assert_int_equal(pair_end(pair, client, C)->failed, 1);
	assert_int_equal(pair_end(pair, client, C)->last.error, ETIMEDOUT);
	all_freed(pair);
	/* Confirm does not come */
	struct pair_pick pick = {
		.from = C, .clc = true, .type = SMCR_CLC_CONFIRM, .verdict = PAIR_LOSE
	};
	pair_set_pick(pair, &pick);
	int c = pair_connect(pair, C);
	pair_run(pair, 11 * SECOND);
	both_were_reset(pair, c);
	all_freed(pair);
	pair_free(pair);
	PROVES("ERR-10");
}

static void tcp_ends_meanwhile(void **state)
{
	(void)state;
	for (int event = 0; event < 2; event++)
		for (int side = 0; side < 2; side++) {
			TRIES("event %d, side %d", event, side);
			struct pair *pair = pair_new(NULL, NULL, 1, 1);
			int c = pair_start_alone(pair, side,
						 side == S ? SMCR_ROLE_SERVER : SMCR_ROLE_CLIENT);
			smcr_conn_tcp_event(pair_end(pair, c, side)->smc,
					    event ? SMCR_TCP_RESET : SMCR_TCP_FIN);
			assert_int_equal(pair_end(pair, c, side)->failed, 1);
			assert_int_equal(pair_end(pair, c, side)->last.error, ECONNRESET);
			pair_free(pair);
		}
	/* in first contact */
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_CONFIRM_LINK, .verdict = PAIR_HOLD };
	pair_set_pick(pair, &pick);
	int c = pair_connect(pair, C);
	pair_pump(pair);
	smcr_conn_tcp_event(pair_end(pair, c, S)->smc, SMCR_TCP_RESET);
	pair_pump(pair);
	both_were_reset(pair, c);
	all_freed(pair);
	pair_free(pair);
}

/** Once application data may come, no bytes are read as CLC any more. */
static void no_clc_after_the_end(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 2, 2);
	struct pair_pick pick = {
		.from = C, .type = SMCR_LLC_ADD_LINK, .reply = true, .verdict = PAIR_HOLD
	};
	pair_set_pick(pair, &pick);
	int c = pair_connect(pair, C);
	pair_pump(pair);
	/* the server is past its point of no return, but must still see a late Decline (ERR-6) */
	assert_true(smcr_conn_wants_clc(pair_end(pair, c, S)->smc));
	assert_true(smcr_conn_wants_clc(pair_end(pair, c, C)->smc));
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	assert_false(smcr_conn_wants_clc(pair_end(pair, c, S)->smc));
	assert_false(smcr_conn_wants_clc(pair_end(pair, c, C)->smc));
	/* a subsequent contact: the client after its Confirm */
	pick = (struct pair_pick){
		.from = C, .clc = true, .type = SMCR_CLC_CONFIRM, .verdict = PAIR_HOLD
	};
	pair_set_pick(pair, &pick);
	c = pair_connect(pair, C);
	pair_pump(pair);
	assert_false(smcr_conn_wants_clc(pair_end(pair, c, C)->smc));
	assert_true(smcr_conn_wants_clc(pair_end(pair, c, S)->smc));
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	assert_false(smcr_conn_wants_clc(pair_end(pair, c, S)->smc));
	pair_free(pair);
	PROVES("ERR-14");
}

/* ---- first contact on a RoCE path that does not work ---- */

static void path_is_dead(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		struct pair *pair = pair_new(NULL, NULL, 2, 2);
		pair->side[side].blocked = true;
		int c = pair_connect(pair, C);
		pair_run(pair, 2 * SECOND);
		both_fell_back(pair, c);
		assert_true(pair_end(pair, c, S)->last.path_dead);
		assert_true(pair_end(pair, c, C)->last.path_dead);
		/* the server alone declines: Declines do not cross */
		assert_int_equal(pair_count_clc(pair, S, SMCR_CLC_DECLINE), 1);
		assert_int_equal(pair_count_clc(pair, C, SMCR_CLC_DECLINE), 0);
		all_freed(pair);
		pair_free(pair);
	}
	PROVES("ERR-17 ERR-18 RV-14 GEN-4");
}

/** Each of the four SENDs fails before the point of no return: its sender declines (ERR-18). A
 *  client gives the server time to decline first, so that two Declines do not cross. */
static void send_fails(void **state)
{
	static const struct pair_pick rows[] = {
		{ .from = S, .type = SMCR_LLC_CONFIRM_LINK },
		{ .from = C, .type = SMCR_LLC_CONFIRM_LINK, .reply = true },
		{ .from = S, .type = SMCR_LLC_ADD_LINK },
		{ .from = C, .type = SMCR_LLC_ADD_LINK, .reply = true },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		struct pair *pair = pair_new(NULL, NULL, 2, 2);
		struct pair_pick pick = rows[i];
		pick.verdict = PAIR_FAIL;
		pair_set_pick(pair, &pick);
		int c = pair_connect(pair, C);
		pair_run(pair, 2 * SECOND);
		assert_int_equal(pair_count_clc(pair, rows[i].from, SMCR_CLC_DECLINE), 1);
		assert_int_equal(pair_count_clc(pair, !rows[i].from, SMCR_CLC_DECLINE), 0);
		if (i < 3) {
			both_fell_back(pair, c);
			/* the server's ADD LINK was completed: the server cannot go back any more
			 * (ERR-6) */
		} else {
			both_were_reset(pair, c);
		}
		pair_run(pair, 5 * SECOND);
		all_freed(pair);
		pair_free(pair);
	}
	PROVES("ERR-18 ERR-8 ERR-6 RV-14");
}

/** Both sides decline at the same time while links are set up: neither program gets the other
 *  side's Decline as data (A52). */
static void declines_cross(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 2, 2);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_CONFIRM_LINK, .verdict = PAIR_HOLD };
	pair_set_pick(pair, &pick);
	int c = pair_connect(pair, C);
	pair_pump(pair);
	for (int side = 0; side < 2; side++)
		smcr_conn_give_up(pair_end(pair, c, side)->smc, SMCR_REASON_INTERNAL);
	for (int side = 0; side < 2; side++) {
		assert_non_null(pair_end(pair, c, side)->in); /* on its way */
		assert_int_equal(pair_end(pair, c, side)->fallback, 0);
	}
	pair_pump(pair); /* no time passes */
	for (int side = 0; side < 2; side++) {
		assert_int_equal(pair_count_clc(pair, side, SMCR_CLC_DECLINE), 1);
		assert_int_equal(pair_end(pair, c, side)->fallback, 1);
	}
	both_fell_back(pair, c);
	all_freed(pair);
	pair_free(pair);
	PROVES("ERR-5 GEN-4");
}

/** A side that has declined gives its program all bytes that are not the peer's Decline. */
static void program_talks_after_a_decline(void **state)
{
	(void)state;
	for (int row = 0; row < 2; row++) {
		TRIES("row %d", row);
		struct pair *pair = pair_new(NULL, NULL, 2, 2);
		struct pair_pick pick = { .from = S,
					  .type = SMCR_LLC_CONFIRM_LINK,
					  .verdict = PAIR_HOLD };
		pair_set_pick(pair, &pick);
		int c = pair_connect(pair, C);
		pair_pump(pair);
		struct smcr_conn *smc = pair_end(pair, c, C)->smc;
		smcr_conn_give_up(smc, SMCR_REASON_INTERNAL);
		assert_int_equal(pair_end(pair, c, C)->fallback, 0);
		assert_true(smcr_conn_wants_clc(smc));
		struct smcr_clc_decline nobodys = { .version = 1 };
		uint8_t buf[SMCR_CLC_DECLINE_LEN];
		assert_int_equal(smcr_clc_encode_decline(&nobodys, buf, sizeof(buf)), sizeof(buf));
		assert_false(smcr_conn_takes_clc(smc, buf, sizeof(buf)));
		if (row)
			smcr_conn_tcp_event(smc, SMCR_TCP_FIN);
		else
			smcr_conn_clc_garbage(smc);
		assert_int_equal(pair_end(pair, c, C)->fallback, 1);
		both_fell_back(pair, c);
		all_freed(pair);
		pair_free(pair);
	}
	PROVES("ERR-5 ERR-14 GEN-4");
}

/** A Proposal of version 0, which is reserved, is well formed but cannot be used: Decline (C.6). */
static void proposal_of_a_reserved_version(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	int model = pair_start_alone(pair, C, SMCR_ROLE_CLIENT);
	const struct pair_clc *proposal = pair_end(pair, model, S)->in;
	uint8_t raw[SMCR_CLC_MAX_LEN];
	memcpy(raw, proposal->buf, proposal->len);
	raw[7] &= 0x0F;
	int c = pair_start_alone(pair, S, SMCR_ROLE_SERVER);
	pair_inject_clc_raw(pair, c, C, raw, proposal->len);
	pair_run(pair, 1000);
	assert_int_equal(pair_end(pair, c, S)->fallback, 1);
	assert_int_equal(pair_end(pair, c, S)->failed, 0);
	struct smcr_clc_msg answer;
	const struct pair_clc *in = pair_end(pair, c, C)->in;
	assert_non_null(in);
	assert_int_equal(smcr_clc_decode(in->buf, in->len, &answer), 0);
	assert_int_equal(answer.type, SMCR_CLC_DECLINE);
	assert_int_equal(answer.decline.diagnosis, SMCR_REASON_VERSION_MISMATCH);
	pair_free(pair);
	PROVES("CLC-4");
}

/** The time for the whole rendezvous ends while a side waits for a Decline that could cross its
 *  own: the outcome stays as decided. */
static void total_time_ends_after_a_decline(void **state)
{
	(void)state;
	struct smcr_config config[2] = { pair_config(S), pair_config(C) };
	config[S].clc_total_timeout = config[C].clc_total_timeout = SECOND / 2;
	struct pair *pair = pair_new(&config[S], &config[C], 2, 2);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_CONFIRM_LINK, .verdict = PAIR_HOLD };
	pair_set_pick(pair, &pick);
	int c = pair_connect(pair, C);
	pair_run(pair, SECOND / 2 - 1000);
	for (int side = 0; side < 2; side++)
		smcr_conn_give_up(pair_end(pair, c, side)->smc, SMCR_REASON_INTERNAL);
	struct pair_clc *late[2]; /* TCP delivers these late */
	for (int side = 0; side < 2; side++) {
		late[side] = pair_end(pair, c, side)->in;
		pair_end(pair, c, side)->in = NULL;
	}
	pair_run(pair, 2000);
	for (int side = 0; side < 2; side++)
		pair_end(pair, c, side)->in = late[side];
	both_fell_back(pair, c);
	all_freed(pair);
	pair_free(pair);
	PROVES("ERR-5 GEN-4");
}

/** The server's engine sends nothing but CONFIRM LINK. The test sends the rest. */
static enum pair_verdict only_confirm_link(struct pair *pair, const struct pair_msg *msg, void *arg)
{
	bool *scripted = arg;
	(void)pair;
	bool add = !msg->is_clc && !msg->is_cdc && msg->llc.type == SMCR_LLC_ADD_LINK;
	bool decline = msg->is_clc && msg->clc.type == SMCR_CLC_DECLINE && !*scripted;
	return msg->from == S && (add || decline) ? PAIR_LOSE : PAIR_PASS;
}

/** The client waits for ADD LINK. When the server's engine gives up, TCP stays whole. */
static int awaiting_add_link(struct pair *pair, bool *scripted)
{
	*scripted = false;
	pair->filter = only_confirm_link;
	pair->filter_arg = scripted;
	int c = pair_connect(pair, C);
	pair_pump(pair);
	pair_end(pair, c, S)->tcp_dead = true;
	assert_int_equal(pair_lgr(pair, C)->llc->step, SMCR_LLC_C_AWAIT_ADD);
	assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_CONFIRM_LINK, true), 1);
	return c;
}

static void inject_delete_all(struct pair *pair)
{
	struct smcr_llc_msg end = { .type = SMCR_LLC_DELETE_LINK };
	end.delete_link.all = true;
	end.delete_link.reason = 0x00030000; /* "program initiated" */
	pair_inject_llc(pair, S, 1, &end);
	pair_run(pair, 1000);
	assert_null(pair_lgr(pair, C));
}

/**
 * A deployed server that cannot use what CONFIRM LINK says ends the group with DELETE LINK and
 * declines after it, here later than any grace. The client does not answer with a Decline of its
 * own, which the server's program would read (A58).
 */
static void server_deletes_then_declines(void **state)
{
	(void)state;
	for (int impatient = 0; impatient < 2; impatient++) {
		TRIES("impatient %d", impatient);
		struct pair *pair = pair_new(NULL, NULL, 2, 2);
		bool scripted;
		int c = awaiting_add_link(pair, &scripted);
		inject_delete_all(pair);
		pair_run(pair, SECOND);
		if (impatient) /* meanwhile the client fails for a reason of its own */
			smcr_conn_give_up(pair_end(pair, c, C)->smc, SMCR_REASON_SHUTTING_DOWN);
		assert_int_equal(pair_end(pair, c, C)->fallback, 0);
		scripted = true;
		struct smcr_clc_msg msg = { .type = SMCR_CLC_DECLINE };
		msg.decline.version = SMCR_CLC_VERSION_1;
		msg.decline.diagnosis = SMCR_REASON_EYE_CATCHER;
		pair_inject_clc(pair, c, S, &msg);
		pair_run(pair, 1000);
		const struct pair_end *end = pair_end(pair, c, C);
		assert_int_equal(end->fallback, 1);
		assert_int_equal(end->failed, 0);
		assert_int_equal(end->last.peer_reason, SMCR_REASON_EYE_CATCHER);
		assert_null(end->in);
		assert_int_equal(pair_count_clc(pair, C, SMCR_CLC_DECLINE), 0);
		pair_free(pair);
	}
	PROVES("ERR-6 DELL-9");
}

/** The server has ended the connection, or stays silent: the client must not take this for plain
 *  TCP. */
static void server_deletes_and_resets(void **state)
{
	(void)state;
	for (int silent = 0; silent < 2; silent++) {
		TRIES("silent %d", silent);
		struct pair *pair = pair_new(NULL, NULL, 2, 2);
		bool scripted;
		int c = awaiting_add_link(pair, &scripted);
		inject_delete_all(pair);
		if (silent) {
			pair_run(pair, 9900000);
			assert_int_equal(pair_end(pair, c, C)->failed, 0);
			pair_run(pair, 200000);
			assert_int_equal(pair_end(pair, c, C)->last.error, ETIMEDOUT);
		} else {
			smcr_conn_tcp_event(pair_end(pair, c, C)->smc, SMCR_TCP_RESET);
			assert_int_equal(pair_end(pair, c, C)->last.error, ECONNRESET);
		}
		assert_int_equal(pair_end(pair, c, C)->failed, 1);
		assert_int_equal(pair_count_clc(pair, C, SMCR_CLC_DECLINE), 0);
		pair_free(pair);
	}
	PROVES("ERR-10 ERR-11 DELL-9");
}

/** A message is lost although its sender believes that it arrived, so timers decide (C.7.1). Both
 *  sides come to the same end. test_engine_silence.c shows what each side does by itself. */
static void answers_that_do_not_come(void **state)
{
	static const struct {
		struct pair_pick pick;
		bool established;
	} rows[] = {
		/* ERR-19 client, ERR-21 server */
		{ { .from = S, .type = SMCR_LLC_CONFIRM_LINK }, false },
		/* ERR-21 server, ERR-24 client */
		{ { .from = C, .type = SMCR_LLC_CONFIRM_LINK, .reply = true }, false },
		/* ERR-24 client, ERR-25 server */
		{ { .from = S, .type = SMCR_LLC_ADD_LINK }, false },
		/* ERR-25 server, ERR-27 client */
		{ { .from = C, .type = SMCR_LLC_ADD_LINK, .reply = true }, false },
		/* ERR-30 server, ERR-27 client */
		{ { .from = S, .type = SMCR_LLC_ADD_LINK_CONT }, false },
		{ { .from = C, .type = SMCR_LLC_ADD_LINK_CONT, .reply = true }, false },
		/* ERR-22 server, ERR-28 client: one link is left */
		{ { .from = S, .type = SMCR_LLC_CONFIRM_LINK, .link = 2 }, true },
		{ { .from = C, .type = SMCR_LLC_CONFIRM_LINK, .link = 2, .reply = true }, true },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		struct pair *pair = pair_new(NULL, NULL, 2, 2);
		struct pair_pick pick = rows[i].pick;
		pick.verdict = PAIR_LOSE;
		pair_set_pick(pair, &pick);
		int c = pair_connect(pair, C);
		pair_run(pair, 9900000);
		assert_int_equal(pick.seen, 1);
		assert_int_equal(pair_end(pair, c, S)->failed + pair_end(pair, c, C)->failed, 0);
		assert_int_equal(pair_end(pair, c, S)->established, 0);
		pair_run(pair, 400000);
		if (rows[i].established) {
			assert_int_equal(pair_end(pair, c, S)->established, 1);
			assert_int_equal(pair_end(pair, c, C)->established, 1);
			assert_string_equal(pair_lgr_view(pair, S).type, "single");
			assert_string_equal(pair_lgr_view(pair, C).type, "single");
			pair_set_pick(pair, NULL);
			if (pair_end(pair, c, C)->smc && pair_end(pair, c, S)->smc) {
				pair_exchange(pair, c);
				pair_close(pair, c);
			}
		} else {
			both_were_reset(pair, c);
			pair_run(pair, 5 * SECOND);
			all_freed(pair);
		}
		pair_free(pair);
	}
	PROVES("ERR-15 ERR-22 ERR-30");
}

/** ERR-16: a first-contact timer leaves the peer enough time for a failed write and some
 *  Declines. */
static void timers_are_long_enough(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 0, 0);
	const struct smcr_config *config = &pair->side[S].engine->config;
	uint64_t write = (uint64_t)config->retry_ms * 1000;
	assert_true(config->llc_fc_timeout >= write + 3 * SECOND);
	assert_true(config->llc_fc_timeout > config->fc_send_timeout_client);
	assert_true(config->fc_send_timeout_client > config->fc_send_timeout_server);
	assert_true(config->clc_timeout >= config->llc_timeout);
	pair_free(pair);
	PROVES("ERR-16");
}

static void past_the_point_of_no_return(void **state)
{
	(void)state;
	/* link 1 dies while link 2 is being set up, after the ADD LINK exchange */
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		struct pair *pair = pair_new(NULL, NULL, 2, 2);
		struct pair_pick pick = {
			.from = S, .type = SMCR_LLC_CONFIRM_LINK, .link = 2, .verdict = PAIR_HOLD
		};
		pair_set_pick(pair, &pick);
		int c = pair_connect(pair, C);
		pair_pump(pair);
		pair_fail_link(pair, side, 1);
		pair_pump(pair);
		both_were_reset(pair, c);
		assert_int_equal(pair_count_clc(pair, S, SMCR_CLC_DECLINE), 0);
		assert_int_equal(pair_count_clc(pair, C, SMCR_CLC_DECLINE), 0);
		pair_run(pair, 5 * SECOND);
		all_freed(pair);
		pair_free(pair);
	}
	/* the host has read a Decline already */
	struct pair *pair = pair_new(NULL, NULL, 2, 2);
	struct pair_pick pick = {
		.from = C, .type = SMCR_LLC_ADD_LINK, .reply = true, .verdict = PAIR_HOLD
	};
	pair_set_pick(pair, &pick);
	int c = pair_connect(pair, C);
	pair_pump(pair);
	uint8_t buf[SMCR_CLC_DECLINE_LEN];
	const struct smcr_clc_decline decline = { .version = 1 };
	assert_int_equal(smcr_clc_encode_decline(&decline, buf, sizeof(buf)), sizeof(buf));
	smcr_conn_clc_input(pair_end(pair, c, S)->smc, buf, sizeof(buf));
	assert_int_equal(pair_end(pair, c, S)->failed, 1);
	pair_run(pair, 5 * SECOND);
	all_freed(pair);
	pair_free(pair);
	PROVES("ERR-6 ERR-7 GEN-5");
}

/* ---- first contact: wrong LLC ---- */

static void wrong_link_information(void **state)
{
	(void)state;
	/* sent by the server: wrong MAC, GID, QPN, link number */
	for (int field = 0; field < 4; field++) {
		TRIES("field %d", field);
		struct pair *pair = pair_new(NULL, NULL, 1, 1);
		struct pair_pick pick = { .from = S,
					  .type = SMCR_LLC_CONFIRM_LINK,
					  .verdict = PAIR_LOSE };
		pair_set_pick(pair, &pick);
		int c = pair_connect(pair, C);
		pair_pump(pair);
		struct smcr_link *link = pair_link(pair, S, 1);
		struct smcr_llc_msg msg = { .type = SMCR_LLC_CONFIRM_LINK };
		msg.confirm_link = pair_lgr(pair, S)->llc->request;
		assert_int_equal(msg.confirm_link.qpn, link->qpn);
		if (field == 0)
			msg.confirm_link.mac[3] ^= 1;
		else if (field == 1)
			msg.confirm_link.gid[3] ^= 1;
		else if (field == 2)
			msg.confirm_link.qpn ^= 1;
		else
			msg.confirm_link.link_number = 0;
		pair_inject_llc(pair, S, 1, &msg);
		pair_pump(pair);
		both_fell_back(pair, c); /* ERR-51 */
		assert_int_equal(pair_count_clc(pair, C, SMCR_CLC_DECLINE), 1);
		all_freed(pair);
		pair_free(pair);
	}
	/* sent by the client: the same, and another link number */
	for (int field = 0; field < 4; field++) {
		TRIES("field %d", field);
		struct pair *pair = pair_new(NULL, NULL, 1, 1);
		struct pair_pick pick = { .from = C,
					  .type = SMCR_LLC_CONFIRM_LINK,
					  .reply = true,
					  .verdict = PAIR_LOSE };
		pair_set_pick(pair, &pick);
		int c = pair_connect(pair, C);
		pair_pump(pair);
		struct smcr_llc_msg msg = { .type = SMCR_LLC_CONFIRM_LINK, .reply = true };
		msg.confirm_link.link_number = 1;
		msg.confirm_link.qpn = pair_link_view(pair, C, 1).local_qpn;
		memcpy(msg.confirm_link.gid, pair_link_view(pair, C, 1).local_gid, SMCR_GID_LEN);
		memcpy(msg.confirm_link.mac, pair_link_view(pair, C, 1).local_mac, SMCR_MAC_LEN);
		if (field == 0)
			msg.confirm_link.mac[3] ^= 1;
		else if (field == 1)
			msg.confirm_link.gid[3] ^= 1;
		else if (field == 2)
			msg.confirm_link.qpn ^= 1;
		else
			msg.confirm_link.link_number = 2;
		pair_inject_llc(pair, C, 1, &msg);
		pair_pump(pair);
		both_fell_back(pair, c);
		all_freed(pair);
		pair_free(pair);
	}
	PROVES("RV-9 RV-10 ERR-51");
}

static void reserved_mtu_in_add_link(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 2, 2);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_ADD_LINK, .verdict = PAIR_LOSE };
	pair_set_pick(pair, &pick);
	int c = pair_connect(pair, C);
	pair_pump(pair);
	struct smcr_llc_msg msg = { .type = SMCR_LLC_ADD_LINK };
	msg.add_link.link_number = 2;
	msg.add_link.qpn = pair_link_view(pair, S, 2).local_qpn;
	msg.add_link.mtu = 9;
	memcpy(msg.add_link.gid, pair_link_view(pair, S, 2).local_gid, SMCR_GID_LEN);
	memcpy(msg.add_link.mac, pair_link_view(pair, S, 2).local_mac, SMCR_MAC_LEN);
	pair_inject_llc(pair, S, 1, &msg);
	pair_pump(pair);
	const struct pair_msg *reply = pair_last_llc(pair, C, SMCR_LLC_ADD_LINK, true);
	assert_true(reply->llc.add_link.reject);
	assert_int_equal(reply->llc.add_link.reject_reason, SMCR_LLC_REJECT_INVALID_MTU);
	assert_int_equal(reply->llc.add_link.link_number, 2);
	assert_true(pair_both_established(pair, c));
	pair_exchange(pair, c);
	pair_close(pair, c);
	pair_free(pair);
	PROVES("ERR-52 ADDL-5");
}

/** The client's ADD LINK reply would make a parallel link, or has a reserved MTU. */
static void bad_add_link_reply(void **state)
{
	(void)state;
	for (int variant = 0; variant < 3; variant++) {
		TRIES("variant %d", variant);
		struct pair *pair = pair_new(NULL, NULL, 1, 2);
		struct pair_pick pick = {
			.from = C, .type = SMCR_LLC_ADD_LINK, .reply = true, .verdict = PAIR_LOSE
		};
		pair_set_pick(pair, &pick);
		int c = pair_connect(pair, C);
		pair_pump(pair);
		struct smcr_llc_msg msg = { .type = SMCR_LLC_ADD_LINK, .reply = true };
		struct smcr_link *link = pair_link(pair, C, 2);
		msg.add_link.link_number = variant == 2 ? 3 : 2;
		msg.add_link.qpn = link->qpn;
		msg.add_link.mtu = variant == 1 ? 6 : link->mtu;
		/* variant 0: the RNIC of link 1 at both ends */
		const struct smcr_link *rnic = variant == 0 ? pair_link(pair, C, 1) : link;
		memcpy(msg.add_link.gid, rnic->local_gid, SMCR_GID_LEN);
		memcpy(msg.add_link.mac, rnic->local_mac, SMCR_MAC_LEN);
		pair_set_pick(pair, NULL);
		pair_inject_llc(pair, C, 1, &msg);
		pair_pump(pair);
		/* link 2 is deleted over link 1; the gates open after that */
		const struct pair_msg *del = pair_last_llc(pair, S, SMCR_LLC_DELETE_LINK, false);
		assert_non_null(del);
		assert_int_equal(del->llc.delete_link.link_number, 2);
		assert_int_equal(del->llc.delete_link.reason, SMCR_LLC_DEL_PROTOCOL_VIOLATION);
		assert_int_equal(
			smcr_engine_row(pair->side[S].engine, SMCR_ROW_ERR_53, SMCR_ROLE_SERVER),
			1);
		assert_true(pair_both_established(pair, c));
		assert_int_equal(pair_num_qps(pair, S), 1);
		assert_int_equal(pair_num_qps(pair, C), 1);
		pair_exchange(pair, c);
		pair_close(pair, c);
		pair_free(pair);
	}
	PROVES("ERR-53 ADDL-7 LG-3");
}

/** RTokens that are more or less than announced, or name an RMB or link that does not exist
 *  (ERR-55). */
static void bad_continuation(void **state)
{
	(void)state;
	for (int from = 0; from < 2; from++)
		for (int variant = 0; variant < 4; variant++) {
			TRIES("from %d, variant %d", from, variant);
			struct pair *pair = pair_new(NULL, NULL, 2, 2);
			struct pair_pick pick = { .from = from,
						  .type = SMCR_LLC_ADD_LINK_CONT,
						  .reply = from == C,
						  .verdict = PAIR_LOSE };
			pair_set_pick(pair, &pick);
			int c = pair_connect(pair, C);
			pair_pump(pair);
			struct smcr_llc_msg msg = { .type = SMCR_LLC_ADD_LINK_CONT,
						    .reply = from == C };
			struct smcr_llc_add_link_cont *cont = &msg.add_link_cont;
			const struct smcr_slab *slab = pair_lgr(pair, from)->rmbs;
			cont->link_number = variant == 0 ? 3 : 2;
			cont->num_rtokens = variant == 1 ? 2 : variant == 2 ? 0 : 1;
			cont->pair[0].ref_rkey = slab->reg[0].rkey + (variant == 3);
			cont->pair[0].new_rkey = slab->reg[1].rkey;
			cont->pair[0].new_vaddr = (uintptr_t)slab->base;
			cont->pair[1] = cont->pair[0]; /* variant 1: the same pair twice */
			pair_inject_llc(pair, from, 1, &msg);
			pair_pump(pair);
			/* the link fails, and in first contact there is no other link */
			both_were_reset(pair, c);
			pair_run(pair, 5 * SECOND);
			all_freed(pair);
			pair_free(pair);
		}
	PROVES("ERR-55 ADDL-10 ADDL-11");
}

/**
 * The client's CONFIRM RKEY comes while link 2 is added in first contact. The server refuses it for
 * now, as at any other time (3.5.5.3.1), for on link 1 it may overtake the message on link 2 that
 * ends the first contact. The first contact goes on.
 */
static void rkey_during_first_contact(void **state)
{
	static const struct {
		struct pair_pick held;
		enum smcr_llc_step step; /* the step at which the server waits */
	} rows[] = {
		{ { .from = C, .type = SMCR_LLC_ADD_LINK, .reply = true }, SMCR_LLC_S_ADD },
		{ { .from = C, .type = SMCR_LLC_ADD_LINK_CONT, .reply = true },
		  SMCR_LLC_S_ADD_CONT },
		{ { .from = C, .type = SMCR_LLC_CONFIRM_LINK, .reply = true, .link = 2 },
		  SMCR_LLC_S_CONFIRM_ADDED },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		struct pair *pair = pair_new(NULL, NULL, 2, 2);
		struct pair_pick pick = rows[i].held;
		pick.verdict = PAIR_HOLD;
		pair_set_pick(pair, &pick);
		int c = pair_connect(pair, C);
		pair_pump(pair);
		assert_int_equal(pair_lgr(pair, S)->llc->step, rows[i].step);
		struct smcr_llc_msg rkey = { .type = SMCR_LLC_CONFIRM_RKEY };
		rkey.confirm_rkey.rkey = 0x7777;
		rkey.confirm_rkey.num_tokens = 1;
		rkey.confirm_rkey.other[0].link_number = 2;
		rkey.confirm_rkey.other[0].rkey = 0x7778;
		/* The client's engine has not asked, and would take the reply for an error. */
		pair->side[C].hung = true;
		pair_inject_llc(pair, C, 1, &rkey);
		pair_pump(pair);
		pair->side[C].hung = false;
		const struct pair_msg *reply = pair_last_llc(pair, S, SMCR_LLC_CONFIRM_RKEY, true);
		assert_non_null(reply);
		assert_int_equal(reply->link, 1);
		assert_true(reply->llc.confirm_rkey.negative && reply->llc.confirm_rkey.retry);
		assert_int_equal(reply->llc.confirm_rkey.rkey, 0x7777);
		assert_int_equal(pair_lgr_view(pair, S).num_peer_rmbs, 1);
		pair_set_pick(pair, NULL);
		pair_pump(pair);
		assert_true(pair_both_established(pair, c));
		assert_string_equal(pair_lgr_view(pair, S).type, "symmetric");
		pair_exchange(pair, c);
		pair_close(pair, c);
		pair_free(pair);
	}
	PROVES("SER-4 RKEY-7");
}

static void unexpected_llc_in_first_contact(void **state)
{
	(void)state;
	static const struct smcr_llc_msg rows[] = {
		{ .type = SMCR_LLC_ADD_LINK, .reply = true },
		{ .type = SMCR_LLC_ADD_LINK_CONT, .reply = true },
		{ .type = SMCR_LLC_CONFIRM_RKEY },
		{ .type = SMCR_LLC_CONFIRM_RKEY, .reply = true },
		{ .type = SMCR_LLC_DELETE_RKEY, .delete_rkey = { .count = 1 } },
		{ .type = SMCR_LLC_DELETE_LINK, .reply = true },
		{ .type = SMCR_LLC_TEST_LINK, .reply = true },
		{ .type = SMCR_LLC_TEST_LINK },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		struct pair *pair = pair_new(NULL, NULL, 1, 1);
		struct pair_pick pick = { .from = C,
					  .type = SMCR_LLC_CONFIRM_LINK,
					  .reply = true,
					  .verdict = PAIR_HOLD };
		pair_set_pick(pair, &pick);
		int c = pair_connect(pair, C);
		pair_pump(pair);
		pair_inject_llc(pair, C, 1, &rows[i]); /* instead of the CONFIRM LINK reply */
		pair_set_pick(pair, NULL);
		pair_pump(pair);
		both_fell_back(pair, c);
		all_freed(pair);
		pair_free(pair);
	}
	PROVES("ERR-63 LLC-3");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(resources_fail),
		cmocka_unit_test(internal_errors_are_logged),
		cmocka_unit_test(no_device),
		cmocka_unit_test(refused_by_the_host),
		cmocka_unit_test(no_chasing),
		cmocka_unit_test(giving_up),
		cmocka_unit_test(wrong_clc),
		cmocka_unit_test(reserved_values),
		cmocka_unit_test(silent_peer),
		cmocka_unit_test(tcp_ends_meanwhile),
		cmocka_unit_test(no_clc_after_the_end),
		cmocka_unit_test(path_is_dead),
		cmocka_unit_test(send_fails),
		cmocka_unit_test(declines_cross),
		cmocka_unit_test(program_talks_after_a_decline),
		cmocka_unit_test(proposal_of_a_reserved_version),
		cmocka_unit_test(total_time_ends_after_a_decline),
		cmocka_unit_test(server_deletes_then_declines),
		cmocka_unit_test(server_deletes_and_resets),
		cmocka_unit_test(answers_that_do_not_come),
		cmocka_unit_test(timers_are_long_enough),
		cmocka_unit_test(past_the_point_of_no_return),
		cmocka_unit_test(wrong_link_information),
		cmocka_unit_test(reserved_mtu_in_add_link),
		cmocka_unit_test(bad_add_link_reply),
		cmocka_unit_test(bad_continuation),
		cmocka_unit_test(rkey_during_first_contact),
		cmocka_unit_test(unexpected_llc_in_first_contact),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

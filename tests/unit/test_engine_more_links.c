/* SPDX-License-Identifier: MIT */
/* Which links an established group gets, and when (RFC 7609 2.2.1, 2.2.2, 3.5.5.1, C.8). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "daemon/smcr/llc_links.h"
#include "daemon/smcr/llc_rkey.h"
#include "tests/lib/enginepair_filter.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define S      PAIR_SERVER
#define C      PAIR_CLIENT
#define SECOND 1000000

/** A pair with so many RNICs on each side, whose server tries again for missing links. */
static struct pair *living_in(enum smcr_dialect_policy dialect, size_t server, size_t client,
			      uint8_t limit)
{
	struct smcr_config config[2] = { pair_config(S), pair_config(C) };
	config[S].add_link_retry = config[C].add_link_retry = 2 * SECOND;
	config[S].dialect = config[C].dialect = dialect;
	config[S].max_links = limit;
	config[C].max_links = SMCR_MAX_LINKS;
	return pair_new(&config[S], &config[C], server, client);
}

static struct pair *living(size_t server, size_t client, uint8_t limit)
{
	return living_in(SMCR_DIALECT_AUTO, server, client, limit);
}

static unsigned int active_links(struct pair *pair, int side)
{
	unsigned int n = 0;
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		const struct smcr_link *link = pair_lgr(pair, side)->links[i];
		n += link && link->state == SMCR_LINK_ACTIVE;
	}
	return n;
}

static void assert_links(struct pair *pair, unsigned int n, unsigned int symmetric)
{
	for (int side = 0; side < 2; side++) {
		assert_int_equal(active_links(pair, side), n);
		assert_int_equal(pair_num_qps(pair, side), n);
		assert_int_equal(smcr_llc_symmetric_links(pair_lgr(pair, side)), symmetric);
		assert_true(smcr_llc_topology_ok(pair_lgr(pair, side)));
		assert_int_equal(pair_lgr(pair, side)->llc->step, SMCR_LLC_IDLE);
	}
}

static unsigned int requests(const struct pair *pair)
{
	return pair_count_llc(pair, S, SMCR_LLC_ADD_LINK, false);
}

static unsigned int notices(const struct pair *pair)
{
	return pair_count_llc(pair, C, SMCR_LLC_ADD_LINK, false);
}

static void one_more(struct pair *pair, int side, size_t n)
{
	struct smcr_device_info info = pair_device(side, n);
	pair_add_device(pair, side, &info);
	pair_pump(pair);
}

/* ---- links after the first contact ---- */

static void as_many_links_as_rnics_and_limit_allow(void **state)
{
	static const struct {
		size_t server, client;
		uint8_t limit;
		unsigned int links, symmetric;
		const char *type;
	} rows[] = {
		{ 1, 1, 4, 1, 1, "single" },     { 2, 1, 4, 2, 1, "asymmetric" },
		{ 1, 2, 4, 2, 1, "asymmetric" }, { 2, 2, 4, 2, 2, "symmetric" },
		{ 3, 2, 4, 3, 2, "symmetric" }, /* and an asymmetric link beside them */
		{ 4, 2, 4, 3, 2, "symmetric" }, /* a second asymmetric one is refused */
		{ 3, 3, 4, 3, 3, "symmetric" },  { 5, 5, 3, 3, 3, "symmetric" },
		{ 5, 5, 2, 2, 2, "symmetric" },  { 8, 8, 8, 8, 8, "symmetric" },
		{ 9, 9, 8, 8, 8, "symmetric" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		struct pair *pair = living(rows[i].server, rows[i].client, rows[i].limit);
		int c = pair_connected(pair);
		assert_links(pair, rows[i].links, rows[i].symmetric);
		assert_ptr_equal(strstr(pair_lgr_view(pair, S).type, rows[i].type),
				 pair_lgr_view(pair, S).type);
		pair_run(pair, 700 * (uint64_t)SECOND); /* further attempts change nothing */
		assert_links(pair, rows[i].links, rows[i].symmetric);
		pair_exchange(pair, c);
		pair_free(pair);
	}
	PROVES("LG-3 LG-4 LG-6 LG-8 ADDL-14");
}

/** Eight symmetric links and one asymmetric: nine, and each gets the RTokens of every RMB. */
static void nine_links(void **state)
{
	(void)state;
	struct pair *pair = living(9, 1, 8);
	int c = pair_connected(pair);
	assert_links(pair, 2, 1);
	for (size_t n = 1; n < 8; n++)
		one_more(pair, C, n);
	assert_links(pair, 9, 8);
	pair_clear_log(pair);
	for (int i = 0; i < 5; i++) /* the fifth connection needs another RMB on both sides */
		c = pair_connected(pair);
	for (int side = 0; side < 2; side++) {
		static const uint8_t left[] = { 6, 3 };
		size_t n = 0;
		assert_int_equal(pair_lgr_view(pair, side).num_rmbs, 2);
		assert_int_equal(pair_last_llc(pair, side, SMCR_LLC_CONFIRM_RKEY, false)
					 ->llc.confirm_rkey.num_tokens,
				 8);
		for (size_t i = 0; i < pair->log_len; i++) {
			const struct pair_msg *msg = &pair->log[i];
			if (msg->is_clc || msg->is_cdc || msg->from != side || msg->llc.reply ||
			    msg->llc.type != SMCR_LLC_CONFIRM_RKEY_CONT)
				continue;
			assert_true(n < 2);
			assert_int_equal(msg->llc.confirm_rkey_cont.num_left, left[n++]);
		}
		assert_int_equal(n, 2);
	}
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("LG-6 RKEY-3 RKEY-4 RKEY-5 RKEY-11");
}

/** A side with 255 RMBs lists them all for a new link. */
static void many_rmbs_for_a_new_link(void **state)
{
	(void)state;
	struct smcr_config config[2] = { pair_config(S), pair_config(C) };
	config[S].elements_per_rmb = config[C].elements_per_rmb = 1;
	config[S].rmb_idle_timeout = config[C].rmb_idle_timeout = 3600 * (uint64_t)SECOND;
	struct pair *pair = pair_new(&config[S], &config[C], 1, 1);
	int c = pair_connected(pair);
	for (int side = 0; side < 2; side++)
		while (pair_lgr_view(pair, side).num_rmbs < SMCR_MAX_RMBS) {
			struct smcr_slab *slab;
			assert_int_equal(smcr_slab_add(pair_lgr(pair, side), true, 0, 0, &slab), 0);
			smcr_llc_confirm_rkey(slab);
			pair_pump(pair);
		}
	assert_int_equal(pair_lgr_view(pair, S).num_peer_rmbs, SMCR_MAX_RMBS);
	assert_int_equal(pair_lgr_view(pair, C).num_peer_rmbs, SMCR_MAX_RMBS);
	pair_clear_log(pair);
	one_more(pair, S, 1);
	assert_links(pair, 2, 1);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_ADD_LINK_CONT, false), 128);
	assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_ADD_LINK_CONT, true), 128);
	for (int side = 0; side < 2; side++) {
		const struct smcr_peer_rmb *rmb;
		DL_FOREACH (pair_lgr(pair, side)->peer_rmbs, rmb)
			for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
				assert_int_equal(rmb->token[i].valid,
						 pair_lgr(pair, side)->links[i] != NULL);
	}
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("LG-13 ADDL-9 ADDL-10 RKEY-11");
}

/** The operators' count of what came during an exchange: CONFIRM LINK of a new link comes while the
 * client adds that link, and nothing else is going on. */
static void confirm_link_is_counted(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	const struct smcr_engine *client = pair->side[C].engine;
	assert_int_equal(smcr_engine_row(client, SMCR_ROW_CONFIRM_LINK, SMCR_ROLE_CLIENT), 1);
	assert_int_equal(
		smcr_engine_row(client, SMCR_ROW_CONFIRM_LINK_DURING_DELETE_LINK, SMCR_ROLE_CLIENT),
		0);
	assert_int_equal(
		smcr_engine_row(client, SMCR_ROW_CONFIRM_LINK_DURING_RKEY, SMCR_ROLE_CLIENT), 0);
	pair_free(pair);
}

/** The client's new queue pair cannot be connected. The client refuses the link and has nothing
 * left of it. */
static void a_link_that_cannot_be_connected(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(1, &c);
	one_more(pair, S, 1);
	pair_run(pair, SECOND);
	assert_links(pair, 2, 1); /* asymmetric */
	pair->side[C].fail_qp_connect = 1;
	one_more(pair, C, 1);
	pair_run(pair, SECOND);
	assert_int_equal(pair->side[C].fail_qp_connect, 0);
	assert_true(pair_last_llc(pair, C, SMCR_LLC_ADD_LINK, true)->llc.add_link.reject);
	assert_links(pair, 2, 1);
	pair_add_link(pair, S);
	pair_run(pair, SECOND);
	assert_links(pair, 2, 2);
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("ADDL-5");
}

/* ---- new RNICs ---- */

/** The server has another RNIC on the LAN: a link is added. The client has one: it tells the server
 *  first. */
static void a_new_rnic_gets_a_link(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++)
		/* a new RNIC is there; the port of an RNIC comes up */
		for (int update = 0; update < 2; update++) {
			TRIES("side %d, update %d", side, update);
			struct pair *pair = living(side == S ? 1 : 2, side == S ? 2 : 1, 4);
			struct smcr_device_info info = pair_device(side, 1);
			if (update) {
				info.active = false;
				pair_add_device(pair, side, &info);
			}
			int c = pair_connected(pair);
			assert_links(pair, 2, 1);
			pair_clear_log(pair);
			if (update)
				pair_set_port(pair, side, 1, true);
			else
				pair_add_device(pair, side, &info);
			info.active = true;
			pair_pump(pair);
			assert_int_equal(requests(pair), 1);
			assert_int_equal(notices(pair), side == C);
			if (side == C) {
				struct smcr_llc_msg expected = { .type = SMCR_LLC_ADD_LINK };
				const struct smcr_llc_msg *got =
					&pair_last_llc(pair, C, SMCR_LLC_ADD_LINK, false)->llc;
				memcpy(expected.add_link.mac, info.mac, SMCR_MAC_LEN);
				memcpy(expected.add_link.gid, info.gid, SMCR_GID_LEN);
				assert_int_equal(got->reply, false);
				assert_memory_equal(&got->add_link, &expected.add_link,
						    sizeof(expected.add_link)); /* A29 */
			}
			assert_links(pair, 2, 2);
			pair_exchange(pair, c);
			pair_free(pair);
		}
	PROVES("ADDL-14 ADDL-15");
}

/** The client waits for no answer to its notice. Nothing breaks if none comes and data flow
 *  meanwhile. */
static void a_notice_needs_no_answer(void **state)
{
	(void)state;
	/* In the deployed dialect the server would try again by itself (test_engine_deployed.c). */
	struct pair *pair = living_in(SMCR_DIALECT_FORCE_RFC, 2, 1, 4);
	int c = pair_connected(pair);
	struct pair_pick pick = { .from = C, .type = SMCR_LLC_ADD_LINK, .verdict = PAIR_LOSE };
	pair_set_pick(pair, &pick);
	one_more(pair, C, 1);
	assert_int_equal(pick.seen, 1);
	pair_run(pair, 60 * SECOND);
	assert_links(pair, 2, 1); /* no link was added, and nothing broke */
	assert_int_equal(pair_lgr(pair, C)->llc->step, SMCR_LLC_IDLE);
	pair_exchange(pair, c);
	/* with the next notice the link is added */
	pair_set_pick(pair, NULL);
	one_more(pair, C, 2);
	assert_links(pair, 2, 2);
	pair_free(pair);
	PROVES("ADDL-15 SER-1");
}

/** LG-5, A45: the missing RNIC returns. First the symmetric link is added, then the asymmetric link
 *  is deleted. */
static void the_missing_rnic_returns(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		struct pair *pair = living(2, 2, 4);
		int c[4];
		for (int i = 0; i < 4; i++)
			c[i] = pair_connected(pair);
		assert_links(pair, 2, 2);
		pair_set_port(pair, side, 1, false);
		pair_run(pair, 3 * SECOND);
		assert_links(pair, 2, 1);
		assert_null(pair_link(pair, S, 2));
		assert_int_equal(pair_link_view(pair, S, 3).state, SMCR_LINK_ACTIVE);
		pair_clear_log(pair);
		pair_set_port(pair, side, 1, true);
		pair_pump(pair);
		assert_links(pair, 2, 2);
		assert_null(pair_link(pair, S, 3));
		assert_int_equal(pair_link_view(pair, S, 4).state, SMCR_LINK_ACTIVE);
		assert_string_equal(pair_lgr_view(pair, C).type, "symmetric");
		const struct pair_msg *gone = pair_last_llc(pair, S, SMCR_LLC_DELETE_LINK, false);
		const struct pair_msg *there = pair_last_llc(pair, C, SMCR_LLC_CONFIRM_LINK, true);
		assert_true(there && gone && there < gone); /* in this order */
		assert_int_equal(gone->llc.delete_link.link_number, 3);
		assert_int_equal(gone->llc.delete_link.reason, SMCR_LLC_DEL_ASYMMETRIC_NOT_NEEDED);
		assert_true(gone->llc.delete_link.orderly);
		for (int i = 0; i < 4; i++)
			pair_exchange(pair, c[i]); /* the connections have not suffered */
		pair_free(pair);
	}
	PROVES("LG-5 ADDL-13 DELL-3 FO-12");
}

/** The same, but the missing RNIC goes again before the server has begun to delete the asymmetric
 * link, on which its messages have not completed. The group needs that link again, and keeps it. */
static void the_missing_rnic_goes_again(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		struct pair *pair = living(2, 2, 4);
		int c[4], on_it = -1;
		for (int i = 0; i < 4; i++)
			c[i] = pair_connected(pair);
		pair_set_port(pair, side, 1, false);
		pair_run(pair, 3 * SECOND);
		assert_links(pair, 2, 1);
		for (int i = 0; i < 4; i++)
			if (pair_end(pair, c[i], S)->smc->tx.link->number == 3)
				on_it = i;
		assert_true(on_it >= 0);
		pair->side[S].hold_link = 3;
		pair->side[S].hold_completions = true;
		pair_send(pair, c[on_it], S, 1000, 1);
		pair_clear_log(pair);
		pair_set_port(pair, side, 1, true);
		pair_pump(pair);
		const struct smcr_link *odd = pair_link(pair, S, 3);
		assert_int_equal(odd->deletion.state, SMCR_DELETION_WANTED);
		assert_int_equal(odd->deletion.reason, SMCR_LLC_DEL_ASYMMETRIC_NOT_NEEDED);
		assert_true(odd->disabled);
		assert_non_null(pair_link(pair, S, 4));
		unsigned int told = pair->side[S].events[SMCR_EVENT_LINK_UP];
		pair_set_port(pair, side, 1, false);
		pair_pump(pair);
		assert_null(pair_link(pair, S, 4));
		assert_int_equal(odd->deletion.state, SMCR_DELETION_NONE);
		assert_false(odd->disabled);
		assert_int_equal(pair->side[S].events[SMCR_EVENT_LINK_UP], told + 1);
		pair->side[S].hold_completions = false;
		pair_run(pair, 60 * (uint64_t)SECOND);
		assert_links(pair, 2, 1);
		assert_ptr_equal(pair_link(pair, S, 3), odd);
		pair_expect(pair, c[on_it], C, 1000, 1);
		for (int i = 0; i < 4; i++)
			pair_exchange(pair, c[i]);
		pair_free(pair);
	}
}

/** ADDL-17: no link to an RNIC on another VLAN, on another subnet, or with its port down. */
static void only_rnics_on_the_lan(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++)
		for (int wrong = 0; wrong < 3; wrong++) {
			TRIES("side %d, wrong %d", side, wrong);
			struct pair *pair = living(side == S ? 1 : 2, side == S ? 2 : 1, 4);
			(void)pair_connected(pair);
			struct smcr_device_info info = pair_device(side, 1);
			info.vlan = wrong == 0 ? 5 : SMCR_NO_VLAN;
			info.prefixes[0].ip[2] = wrong == 1;
			info.active = wrong != 2;
			pair_clear_log(pair);
			pair_add_device(pair, side, &info);
			pair_pump(pair);
			assert_int_equal(requests(pair) + notices(pair), 0);
			assert_links(pair, 2, 1);
			pair_set_port(pair, side, 1, true); /* now the RNIC fits */
			pair_pump(pair);
			assert_links(pair, 2, 2);
			pair_free(pair);
		}
	PROVES("ADDL-17 ADDL-14 ADDL-15");
}

/* ---- what the server does at a client's notice ---- */

static void what_a_notice_means(void **state)
{
	static const struct {
		unsigned int links;
		bool asymmetric, one_client_rnic;
		uint8_t limit;
		enum smcr_notice_answer answer;
	} rows[] = {
		{ 1, false, false, 2, SMCR_NOTICE_MUST }, /* only one link */
		{ 1, false, false, 8, SMCR_NOTICE_MUST },
		/* only an asymmetric link, on the client's one RNIC */
		{ 2, true, true, 2, SMCR_NOTICE_MUST },
		{ 2, true, true, 8, SMCR_NOTICE_MUST },
		{ 2, true, false, 4, SMCR_NOTICE_MAY },
		{ 2, false, false, 4, SMCR_NOTICE_MAY }, /* symmetric, below the limit of links */
		{ 3, true, true, 4, SMCR_NOTICE_MAY },
		{ 2, false, false, 2, SMCR_NOTICE_IGNORE }, /* at the limit of links */
		{ 3, true, true, 2, SMCR_NOTICE_IGNORE },
		{ 8, false, false, 8, SMCR_NOTICE_IGNORE },
		{ 9, true, false, 8, SMCR_NOTICE_IGNORE },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		assert_int_equal(smcr_llc_notice_decide(rows[i].links, rows[i].asymmetric,
							rows[i].one_client_rnic, rows[i].limit),
				 rows[i].answer);
	}
	/* and the server acts so */
	static const struct {
		size_t server, client;
		uint8_t limit;
		unsigned int requests;
	} groups[] = {
		/* the same RNIC again: the client rejects the link, but the server has to try */
		{ 1, 1, 4, 1 },
		{ 2, 1, 4, 1 },
		{ 2, 2, 4, 0 }, /* the server may try, but has no RNIC */
		{ 3, 3, 2, 0 }, /* at the limit of links */
	};
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		TRIES("row %zu", i);
		struct pair *pair = living(groups[i].server, groups[i].client, groups[i].limit);
		(void)pair_connected(pair);
		pair_clear_log(pair);
		struct smcr_llc_msg notice = { .type = SMCR_LLC_ADD_LINK };
		notice.add_link.gid[15] = 99;
		pair_inject_llc(pair, C, 1, &notice);
		pair_pump(pair);
		assert_int_equal(requests(pair), groups[i].requests);
		pair_free(pair);
	}
	PROVES("ADDL-16 LG-8");
}

/* ---- C.8 ---- */

/** Without a second link the group goes on, and the server tries again after 2 s, 4 s and so on, up
 *  to ten minutes. */
static void the_server_tries_again(void **state)
{
	(void)state;
	struct pair *pair = living(1, 1, 4);
	int c = pair_connected(pair);
	uint64_t pause = 2 * SECOND;
	for (int i = 0; i < 14; i++) {
		unsigned int before = requests(pair);
		assert_string_equal(pair_lgr_view(pair, S).type, "single");
		pair_exchange(pair, c);
		pair_run(pair, pause - 100000);
		assert_int_equal(requests(pair), before);
		pair_run(pair, 100000);
		assert_int_equal(requests(pair), before + 1);
		pause = 2 * pause < 600 * (uint64_t)SECOND ? 2 * pause : 600 * (uint64_t)SECOND;
	}
	assert_true(pause == 600 * (uint64_t)SECOND);
	struct smcr_engine *engine = pair->side[S].engine;
	assert_true(smcr_engine_row(engine, SMCR_ROW_ERR_70, SMCR_ROLE_SERVER) > 0);
	assert_true(smcr_engine_row(engine, SMCR_ROW_ERR_71_TIMER, SMCR_ROLE_SERVER) > 0);
	assert_true(smcr_engine_row(engine, SMCR_ROW_ERR_72, SMCR_ROLE_SERVER) > 0);
	pair_free(pair);
	PROVES("ERR-70 ERR-71 ERR-72 ADDL-6");
}

/** A new RNIC on either side ends the pause, and the next pause is short again. */
static void an_rnic_ends_the_pause(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		struct pair *pair = living(1, 1, 4);
		(void)pair_connected(pair);
		pair_run(pair,
			 100 * (uint64_t)SECOND); /* tries at 62 s; the next would be at 126 s */
		/* the attempt for the new RNIC is rejected as well */
		struct pair_pick pick = { .from = S,
					  .type = SMCR_LLC_ADD_LINK,
					  .verdict = PAIR_LOSE };
		pair_set_pick(pair, &pick);
		one_more(pair, side, 1);
		assert_int_equal(pick.seen, 1);
		const struct smcr_llc_msg rejection = {
			.type = SMCR_LLC_ADD_LINK,
			.reply = true,
			.add_link = { .reject = true,
				      .reject_reason = SMCR_LLC_REJECT_NO_ALT_PATH,
				      .link_number = pair_lgr(pair, S)->llc->subject->number },
		};
		pair_inject_llc(pair, C, 1, &rejection);
		pair_pump(pair);
		assert_int_equal(pair_lgr(pair, S)->llc->step, SMCR_LLC_IDLE);
		pair_run(pair, 2 * SECOND - 100000);
		assert_int_equal(pick.seen, 1);
		pair_set_pick(pair, NULL);
		pair_run(pair, 100000); /* 2 s later, not 64 */
		assert_links(pair, 2, 1);
		assert_int_equal(
			smcr_engine_row(pair->side[S].engine,
					side == S ? SMCR_ROW_ERR_71_RNIC : SMCR_ROW_ERR_71_NOTICE,
					SMCR_ROLE_SERVER),
			1);
		pair_free(pair);
	}
	PROVES("ERR-71 ERR-72");
}

/** A successful attempt ends the pauses too: when the new link is lost, the first pause is short.
 */
static void success_ends_the_pause(void **state)
{
	(void)state;
	/* in the deployed dialect a notice of the client ends the pause as well */
	struct pair *pair = living_in(SMCR_DIALECT_FORCE_RFC, 1, 1, 4);
	int c = pair_connected(pair);
	pair_run(pair, 40 * SECOND); /* tried at 30 s; the next would be at 62 s */
	struct smcr_device_info info = pair_device(C, 1);
	pair_add_device_quietly(pair, C, &info);
	pair_run(pair, 30 * SECOND);
	assert_links(pair, 2, 1);
	pair_remove_device(pair, C, info.id);
	unsigned int before = requests(pair);
	pair_run(pair, 1000);
	assert_int_equal(requests(pair), before + 1); /* tried at once, and rejected */
	pair_run(pair, 2 * SECOND - 100000);
	assert_int_equal(requests(pair), before + 1);
	pair_run(pair, 100000);
	assert_int_equal(requests(pair), before + 2);
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("ERR-72");
}

/** A dead path: the attempt fails at CONFIRM LINK, the new link is deleted, and the pause grows. */
static void a_dead_path_is_tried_again(void **state)
{
	(void)state;
	struct pair *pair = living(1, 1, 4);
	int c = pair_connected(pair);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_CONFIRM_LINK, .verdict = PAIR_LOSE };
	pair_set_pick(pair, &pick);
	for (int side = 0; side < 2; side++) {
		struct smcr_device_info info = pair_device(side, 1);
		pair_add_device(pair, side, &info);
	}
	pair_run(pair, 40 * SECOND);
	unsigned int tried = pick.seen;
	assert_in_range(tried, 2, 6);
	pair_exchange(pair, c);
	pair_set_pick(pair, NULL);
	pair_run(pair, 80 * (uint64_t)SECOND);
	assert_links(pair, 2, 2);
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("ERR-23 ERR-29 ERR-70 ERR-71 ADDL-13");
}

/** ERR-29: after a failed attempt the client has an RNIC without a link, and tells the server
 *  again. */
static void the_client_asks_again(void **state)
{
	(void)state;
	struct smcr_config config[2] = { pair_config(S), pair_config(C) };
	config[C].add_link_retry = 3 * SECOND; /* the server never tries again by itself */
	struct pair *pair = pair_new(&config[S], &config[C], 2, 1);
	(void)pair_connected(pair);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_CONFIRM_LINK, .verdict = PAIR_LOSE };
	pair_set_pick(pair, &pick);
	one_more(pair, C, 1);
	assert_int_equal(pick.seen, 1);
	assert_int_equal(notices(pair), 1);
	pair_run(pair, 5 * SECOND); /* nothing comes through on the link: it fails */
	pair_set_pick(pair, NULL);
	assert_links(pair, 2, 1);
	pair_run(pair, 4 * SECOND);
	assert_int_equal(notices(pair), 2);
	assert_links(pair, 2, 2);
	pair_free(pair);
	PROVES("ERR-29 ADDL-15");
}

/** A lost link is replaced on the RNICs that are there. If the last attempt was a moment ago, the
 *  server waits (ERR-26: if more links are needed, on another carrier). */
static void a_lost_link_is_replaced(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		struct pair *pair = living(3, 3, 3);
		int c = pair_connected(pair);
		assert_links(pair, 3, 3);
		pair_run(pair, 10 * SECOND);
		pair_clear_log(pair);
		pair_fail_link(pair, side, 2);
		pair_pump(pair);
		assert_links(pair, 3, 3); /* replaced at once */
		assert_int_equal(requests(pair), 1);
		assert_non_null(pair_link(pair, S, 4));
		pair_fail_link(pair, side, 4);
		pair_pump(pair);
		assert_links(pair, 2, 2);
		pair_run(pair, 2 * SECOND);
		assert_links(pair, 3, 3);
		pair_exchange(pair, c);
		pair_free(pair);
	}
	PROVES("ADDL-14 ERR-26");
}

/* @return the number of the server's link that was made last, or 0: it has none */
static uint8_t newest_link(struct pair *pair)
{
	uint8_t number = 0;
	uint64_t ref = 0;
	for (unsigned int k = 0; k < SMCR_LINK_SLOTS; k++) {
		const struct smcr_link *link = pair_lgr(pair, S)->links[k];
		if (!link || link->ref < ref)
			continue;
		number = link->number;
		ref = link->ref;
	}
	return number;
}

/** LG-11: a link number is not used again before all others were. */
static void numbers_go_round(void **state)
{
	(void)state;
	bool seen[256] = { false };
	struct pair *pair = living(2, 2, 2);
	(void)pair_connected(pair);
	unsigned int distinct = 0;
	for (int i = 0; i < 300; i++) {
		pair_run(pair, 3 * SECOND);
		assert_links(pair, 2, 2);
		uint8_t number = newest_link(pair);
		assert_true(number > 1); /* link 1 is still there */
		if (distinct < 254) {
			assert_false(seen[number]);
			distinct++;
		}
		seen[number] = true;
		pair_fail_link(pair, S, number);
		pair_pump(pair);
		pair_clear_log(pair);
	}
	pair_free(pair);
	PROVES("LG-11");
}

/* ---- retries of queue pairs ---- */

static void patience_follows_the_number_of_links(void **state)
{
	(void)state;
	struct smcr_config config[2] = { pair_config(S), pair_config(C) };
	for (int side = 0; side < 2; side++) {
		config[side].retry_ms = 4000;
		config[side].retry_alternative_ms = 300;
	}
	struct pair *pair = pair_new(&config[S], &config[C], 2, 2);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_ADD_LINK, .verdict = PAIR_HOLD };
	pair_set_pick(pair, &pick);
	int c = pair_connect(pair, C);
	pair_pump(pair);
	for (int side = 0; side < 2; side++)
		assert_int_equal(pair_retry_ms(pair, side, 1), 4000);
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	for (int side = 0; side < 2; side++) {
		assert_int_equal(pair_retry_ms(pair, side, 1), 300);
		assert_int_equal(pair_retry_ms(pair, side, 2), 300);
	}
	/* the other link fails: at that very moment link 2 becomes the last one */
	pair_qp_fails(pair, C, 1);
	assert_int_equal(pair_retry_ms(pair, C, 2), 4000);
	pair_pump(pair);
	assert_int_equal(pair_retry_ms(pair, S, 2), 4000);
	pair_exchange(pair, c);
	pair_free(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_many_links_as_rnics_and_limit_allow),
		cmocka_unit_test(nine_links),
		cmocka_unit_test(many_rmbs_for_a_new_link),
		cmocka_unit_test(confirm_link_is_counted),
		cmocka_unit_test(a_link_that_cannot_be_connected),
		cmocka_unit_test(a_new_rnic_gets_a_link),
		cmocka_unit_test(a_notice_needs_no_answer),
		cmocka_unit_test(the_missing_rnic_returns),
		cmocka_unit_test(the_missing_rnic_goes_again),
		cmocka_unit_test(only_rnics_on_the_lan),
		cmocka_unit_test(what_a_notice_means),
		cmocka_unit_test(the_server_tries_again),
		cmocka_unit_test(an_rnic_ends_the_pause),
		cmocka_unit_test(success_ends_the_pause),
		cmocka_unit_test(a_dead_path_is_tried_again),
		cmocka_unit_test(the_client_asks_again),
		cmocka_unit_test(a_lost_link_is_replaced),
		cmocka_unit_test(numbers_go_round),
		cmocka_unit_test(patience_follows_the_number_of_links),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

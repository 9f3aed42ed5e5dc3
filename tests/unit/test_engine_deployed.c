/* SPDX-License-Identifier: MIT */
/* Link groups of version 1 with a peer that does as the Linux kernel does (docs/dialects.md). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "daemon/smcr/llc_delete_link.h"
#include "daemon/smcr/llc_links.h"
#include "tests/lib/enginepair_filter.h"
#include "tests/lib/enginepair_v2.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define S      PAIR_SERVER
#define C      PAIR_CLIENT
#define SECOND UINT64_C(1000000)

static void no_protocol_error(struct pair *pair)
{
	for (int i = 0; i < 2; i++)
		assert_int_equal(pair_engine_view(pair, i).llc_protocol_errors, 0);
}

static void assert_link(struct pair *pair, uint8_t number, bool active)
{
	for (int i = 0; i < 2; i++) {
		const struct smcr_link *link = pair_link(pair, i, number);
		assert_int_equal(link && link->state == SMCR_LINK_ACTIVE, active);
	}
}

/* ---- a client that refuses a link after its deletion ---- */

/** CONFIRM LINK of the second link did not get through, and the server has deleted that link. Link
 *  1 and one connection are left. */
static struct pair *second_link_failed(int *ret_conn)
{
	struct pair *pair = pair_new(NULL, NULL, 2, 2);
	struct pair_pick pick = {
		.from = S, .type = SMCR_LLC_CONFIRM_LINK, .link = 2, .verdict = PAIR_FAIL
	};
	pair_set_pick(pair, &pick);
	*ret_conn = pair_connected(pair);
	pair_set_pick(pair, NULL);
	assert_int_equal(pick.seen, 1);
	assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_DELETE_LINK, true), 1);
	assert_link(pair, 1, true);
	assert_null(pair_link(pair, S, 2));
	return pair;
}

static void refuse(struct pair *pair, uint8_t number)
{
	struct smcr_llc_msg msg = pair_last_llc(pair, S, SMCR_LLC_ADD_LINK, false)->llc;
	msg.reply = true;
	msg.add_link.link_number = number;
	msg.add_link.reject = true;
	msg.add_link.reject_reason = SMCR_LLC_REJECT_NO_ALT_PATH;
	pair_inject_llc(pair, C, 1, &msg);
	pair_run(pair, 1000);
}

/** The client has answered DELETE LINK. If it also refuses the deleted link, nothing changes, but
 *  only once. */
static void refusal_of_what_is_gone(void **state)
{
	(void)state;
	int c;
	struct pair *pair = second_link_failed(&c);
	refuse(pair, 2);
	assert_link(pair, 1, true);
	no_protocol_error(pair);
	pair_exchange(pair, c);
	refuse(pair, 2);
	assert_int_equal(pair_engine_view(pair, S).llc_protocol_errors, 1);
	assert_null(pair_link(pair, S, 1));
	pair_free(pair);
	PROVES("ADDL-6 ERR-63");
}

/** The refusal of the deleted link is no answer to the ADD LINK that has gone out since. */
static void refusal_while_the_next_is_asked_for(void **state)
{
	(void)state;
	int c;
	struct pair *pair = second_link_failed(&c);
	struct pair_pick pick = {
		.from = C, .type = SMCR_LLC_ADD_LINK, .reply = true, .verdict = PAIR_HOLD
	};
	pair_set_pick(pair, &pick);
	pair_add_link(pair, S);
	pair_run(pair, 1000);
	assert_int_equal(pair_lgr(pair, S)->llc->step, SMCR_LLC_S_ADD);
	assert_int_equal(pair_lgr(pair, S)->llc->subject->number, 3);
	struct smcr_llc_msg reply = pair_last_llc(pair, S, SMCR_LLC_ADD_LINK, false)->llc;
	reply.reply = reply.add_link.reject = true;
	reply.add_link.link_number = 2;
	uint8_t buf[SMCR_LLC_LEN];
	assert_int_equal(smcr_llc_encode(&reply, SMCR_DIALECT_DEPLOYED, buf, sizeof(buf)),
			 SMCR_LLC_LEN);
	smcr_engine_recv(pair->side[S].engine, pair_link_ref(pair, S, 1), buf, sizeof(buf));
	assert_int_equal(pair_lgr(pair, S)->llc->step, SMCR_LLC_S_ADD);
	pair_set_pick(pair, NULL);
	pair_run(pair, 1000);
	assert_link(pair, 1, true);
	assert_link(pair, 3, true);
	no_protocol_error(pair);
	pair_exchange(pair, c);
	pair_close(pair, c);
	pair_free(pair);
	PROVES("ADDL-6");
}

/* ---- RTokens of a peer that has an RMB for each connection ---- */

/** ADD LINK CONTINUATION as the kernel writes it. It has the pair of an RMB that no CONFIRM RKEY
 *  has told yet, for CONFIRM RKEY waits until the link is added. `left` is the number of pairs that
 *  it says are left, its own included. */
static void send_pairs(struct pair *pair, int from, uint8_t left, bool known)
{
	const struct smcr_slab *slab = pair_lgr(pair, from)->rmbs;
	struct smcr_llc_msg msg = { .type = SMCR_LLC_ADD_LINK_CONT, .reply = from == C };
	struct smcr_llc_add_link_cont *cont = &msg.add_link_cont;
	cont->link_number = 2;
	cont->num_rtokens = left;
	for (int i = 0; i < 2; i++) {
		bool real = known && i == 0;
		cont->pair[i].ref_rkey = slab->reg[0].rkey + (real ? 0 : 1000);
		cont->pair[i].new_rkey = slab->reg[1].rkey + (real ? 0 : 1000);
		cont->pair[i].new_vaddr = (uintptr_t)slab->base;
	}
	pair_inject_llc(pair, from, 1, &msg);
}

/** The pairs that `from` sends about its RMBs for the second link are lost. */
static struct pair *without_pairs(enum smcr_dialect_policy dialect, int from, int *ret_conn)
{
	struct smcr_config config = pair_config(from);
	config.dialect = dialect;
	struct smcr_config other = pair_config(!from);
	other.dialect = dialect;
	struct pair *pair =
		from == S ? pair_new(&config, &other, 2, 2) : pair_new(&other, &config, 2, 2);
	struct pair_pick pick = { .from = from,
				  .type = SMCR_LLC_ADD_LINK_CONT,
				  .reply = from == C,
				  .verdict = PAIR_LOSE };
	pair_set_pick(pair, &pick);
	*ret_conn = pair_connect(pair, C);
	pair_pump(pair);
	assert_int_equal(pick.seen, 1);
	pair_set_pick(pair, NULL);
	return pair;
}

static void rmb_not_told_yet(void **state)
{
	(void)state;
	for (int from = 0; from < 2; from++) {
		TRIES("from %d", from);
		int c;
		struct pair *pair = without_pairs(SMCR_DIALECT_AUTO, from, &c);
		send_pairs(pair, from, 2, true);
		pair_run(pair, 1000);
		assert_link(pair, 1, true);
		assert_link(pair, 2, true);
		no_protocol_error(pair);
		pair_exchange(pair, c);
		pair_close(pair, c);
		pair_free(pair);
		/* By the RFC it is an error. */
		pair = without_pairs(SMCR_DIALECT_FORCE_RFC, from, &c);
		send_pairs(pair, from, 2, true);
		pair_run(pair, 1000);
		assert_int_equal(pair_engine_view(pair, !from).llc_protocol_errors, 1);
		pair_free(pair);
	}
	PROVES("ERR-55");
}

/** The client has announced a pair for each of three connections, one of which has no RMB yet. */
static struct pair *three_pairs_announced(int *ret_c)
{
	struct pair *pair = without_pairs(SMCR_DIALECT_AUTO, C, ret_c);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_ADD_LINK_CONT, .verdict = PAIR_LOSE };
	/* the client's engine has sent all its pairs, and must not ask for more */
	pair_set_pick(pair, &pick);
	send_pairs(pair, C, 3, true);
	pair_run(pair, 1000);
	assert_int_equal(pick.seen, 1);
	pair_set_pick(pair, NULL);
	return pair;
}

static void fewer_rmbs_than_announced(void **state)
{
	(void)state;
	int c;
	struct pair *pair = three_pairs_announced(&c);
	send_pairs(pair, C, 0, false);
	pair_run(pair, 1000);
	assert_link(pair, 2, true);
	no_protocol_error(pair);
	pair_exchange(pair, c);
	pair_close(pair, c);
	pair_free(pair);
	PROVES("ERR-55");
}

/** Fewer pairs may follow than announced, but not more. */
static void more_rmbs_than_announced(void **state)
{
	(void)state;
	int c;
	struct pair *pair = three_pairs_announced(&c);
	send_pairs(pair, C, 2, false);
	pair_run(pair, 1000);
	assert_int_equal(pair_engine_view(pair, S).llc_protocol_errors, 1);
	pair_free(pair);
	PROVES("ERR-55");
}

/* ---- the first RNIC of one side goes and returns ---- */

/** Counts ADD LINK messages, and those that the kernel's client refuses or to which its server
 *  answers with the wrong RNIC. */
struct strict {
	unsigned int asked, wrong;
};

static enum pair_verdict strict_filter(struct pair *pair, const struct pair_msg *msg, void *arg)
{
	struct strict *strict = arg;
	bool add = msg->llc.type == SMCR_LLC_ADD_LINK;
	if (msg->is_clc || msg->is_cdc || msg->llc.reply ||
	    (!add && msg->llc.type != SMCR_LLC_REQUEST_ADD_LINK))
		return PAIR_PASS;
	const struct smcr_lgr *client = pair_lgr(pair, C);
	const struct smcr_link *carrier = smcr_lgr_link_by_number(client, msg->link);
	bool refused = msg->from == S && strcmp(smcr_lgr_type_name(client), "single") != 0 &&
		       !memcmp(carrier->peer_gid, msg->llc.add_link.gid, SMCR_GID_LEN);
	strict->asked++;
	strict->wrong += refused || (msg->from == C && carrier == smcr_llc_asymmetric_link(client));
	return PAIR_PASS;
}

/** Two RNICs on each side; a lost link is soon replaced. */
static struct pair *pair_of(uint8_t version)
{
	struct smcr_config config[2];
	for (int i = 0; i < 2; i++) {
		config[i] = version == 2 ? pair_config_with(i, "K") : pair_config(i);
		config[i].add_link_retry = SECOND;
	}
	return pair_new(&config[S], &config[C], 2, 2);
}

/** An asymmetric link takes the place and the slot of the first link. So the next exchange must not
 *  take the link of the first slot for its carrier. */
static void first_rnic_returns(void **state)
{
	(void)state;
	for (int row = 0; row < 4; row++) {
		TRIES("row %d", row);
		struct pair *pair = pair_of(row / 2 ? 2 : 1);
		struct strict strict = { 0 };
		int side = row % 2;
		int c = pair_connected(pair);
		pair_set_port(pair, side, 0, false);
		pair_run(pair, 5 * SECOND);
		struct smcr_link *odd = smcr_llc_asymmetric_link(pair_lgr(pair, S));
		assert_non_null(odd);
		assert_int_equal(odd->slot, 0);
		pair->filter = strict_filter;
		pair->filter_arg = &strict;
		pair_set_port(pair, side, 0, true);
		pair_run(pair, 5 * SECOND);
		assert_true(strict.asked > 0);
		assert_int_equal(strict.wrong, 0);
		for (int i = 0; i < 2; i++)
			assert_string_equal(pair_lgr_view(pair, i).type, "symmetric");
		no_protocol_error(pair);
		pair_exchange(pair, c);
		pair_close(pair, c);
		pair_free(pair);
	}
	PROVES("LG-5 ADDL-15");
}

/** The RNIC of the kernel's client returns while a link is added: the client drops its own
 *  notice. */
static void notice_that_is_dropped(void **state)
{
	(void)state;
	for (uint8_t version = 1; version <= 2; version++) {
		TRIES("version %u", version);
		struct pair *pair = pair_of(version);
		struct pair_pick pick = { .from = C, .verdict = PAIR_LOSE };
		pick.type = version == 1 ? SMCR_LLC_ADD_LINK : SMCR_LLC_REQUEST_ADD_LINK;
		int c = pair_connected(pair);
		pair_set_port(pair, C, 0, false);
		pair_run(pair, 5 * SECOND);
		assert_string_equal(pair_lgr_view(pair, S).type, "asymmetric-peer");
		pair_set_pick(pair, &pick);
		pair_set_port(pair, C, 0, true);
		pair_run(pair, 1000);
		assert_int_equal(pick.seen, 1);
		pair_run(pair, 20 * SECOND);
		pair_set_pick(pair, NULL);
		for (int i = 0; i < 2; i++)
			assert_string_equal(pair_lgr_view(pair, i).type, "symmetric");
		no_protocol_error(pair);
		pair_exchange(pair, c);
		pair_close(pair, c);
		pair_free(pair);
	}
	PROVES("LG-5");
}

/** How many notices about its RNICs the client has sent. */
static unsigned int notices(const struct pair *pair)
{
	return pair_count_llc(pair, C, SMCR_LLC_ADD_LINK, false) +
	       pair_count_llc(pair, C, SMCR_LLC_REQUEST_ADD_LINK, false);
}

/** The server does not try again by itself, so the client asks after a second. */
static struct pair *pair_with_idle_server(uint8_t version, int *ret_conn)
{
	struct smcr_config config[2];
	for (int i = 0; i < 2; i++)
		config[i] = version == 2 ? pair_config_with(i, "K") : pair_config(i);
	config[C].add_link_retry = SECOND;
	struct pair *pair = pair_new(&config[S], &config[C], 2, 2);
	*ret_conn = pair_connected(pair);
	pair_clear_log(pair);
	return pair;
}

static void assert_types(struct pair *pair, const char *server, const char *client)
{
	assert_string_equal(pair_lgr_view(pair, S).type, server);
	assert_string_equal(pair_lgr_view(pair, C).type, client);
}

/** The kernel's server adds a link before its returned RNIC is active, and never tries again. The
 *  client asks for a link, ever less often. This changes nothing while the server has no RNIC to
 *  offer. */
static void server_that_does_not_try_again(void **state)
{
	(void)state;
	for (uint8_t version = 1; version <= 2; version++) {
		TRIES("version %u", version);
		int c;
		struct pair *pair = pair_with_idle_server(version, &c);
		pair_set_port(pair, S, 1, false);
		pair_pump(pair);
		assert_types(pair, "single", "single");
		assert_int_equal(notices(pair), 0);
		pair_run(pair, SECOND + 1000);
		assert_int_equal(notices(pair), 1);
		assert_types(pair, "asymmetric-local", "asymmetric-peer");
		pair_clear_log(pair);
		pair_run(pair, 8 * SECOND); /* asked after 1, 2, 4, 8 s */
		assert_int_equal(notices(pair), 4);
		pair_run(pair, 3600 * SECOND); /* every ten minutes in the end */
		assert_int_equal(notices(pair), 15);
		assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_ADD_LINK, false), 0);
		/* The server's first attempt fails, when its RNIC returns. */
		pair->side[S].fail_qp_create = 1;
		pair_set_port(pair, S, 1, true);
		pair_run(pair, SECOND);
		assert_int_equal(pair->side[S].fail_qp_create, 0);
		assert_types(pair, "asymmetric-local", "asymmetric-peer");
		pair_run(pair, 600 * SECOND);
		assert_types(pair, "symmetric", "symmetric");
		assert_int_equal(pair_num_qps(pair, C), 2);
		assert_int_equal(notices(pair), 16);
		pair_run(pair, 3600 * SECOND);
		assert_int_equal(notices(pair), 16);
		no_protocol_error(pair);
		pair_exchange(pair, c);
		pair_close(pair, c);
		pair_free(pair);
	}
	PROVES("LG-5 ADDL-15 ERR-72");
}

/** An operator of that side deletes a link in good order. */
static void want_deleted(struct pair *pair, int side, uint8_t number)
{
	struct smcr_command delete = { .type = SMCR_COMMAND_LINK_DELETE,
				       .lgr = pair_lgr_view(pair, side).id,
				       .link = number,
				       .orderly = true };
	uint64_t id;
	assert_int_equal(smcr_engine_command(pair->side[side].engine, &delete, &id), 0);
}

/** The client's RNIC comes back while an operator of the server deletes the asymmetric link. The
 *  server drops the client's notice if it crosses DELETE LINK, as it may be an attempt to have that
 *  link again (A50). So the client tells once more. */
static void the_clients_rnic_comes_meanwhile(void **state)
{
	enum { VERSION_1, VERSION_2, RFC, KINDS };
	(void)state;
	for (int row = 0; row < 2 * KINDS; row++) {
		TRIES("row %d", row);
		const int kind = row / 2;
		struct smcr_config config[2];
		for (int i = 0; i < 2; i++) {
			config[i] = kind == VERSION_2 ? pair_config_with(i, "K") : pair_config(i);
			if (kind == RFC)
				config[i].dialect = SMCR_DIALECT_FORCE_RFC;
		}
		config[C].add_link_retry = SECOND;
		struct pair *pair = pair_new(&config[S], &config[C], 2, 2);
		(void)pair_connected(pair);
		pair_set_port(pair, C, 1, false);
		pair_run(pair, 3 * SECOND);
		if (strcmp(pair_lgr_view(pair, S).type, "single") == 0)
			pair_add_link(pair, S);
		pair_run(pair, 3 * SECOND);
		uint8_t number = 2;
		while (!pair_link(pair, S, number))
			number++;
		struct pair_pick pick = { .from = S,
					  .type = SMCR_LLC_DELETE_LINK,
					  .verdict = PAIR_HOLD };
		if (row % 2)
			pair_set_pick(pair, &pick);
		want_deleted(pair, S, number);
		pair_pump(pair);
		pair_set_port(pair, C, 1, true);
		pair_pump(pair);
		pair_set_pick(pair, NULL);
		pair_run(pair, 60 * SECOND);
		assert_types(pair, "symmetric", "symmetric");
		pair_free(pair);
	}
	PROVES("ADDL-15");
}

/** The server's DELETE LINK is held so long that a pause ends meanwhile. */
static void delete_by_operator(struct pair *pair, int side, uint8_t number)
{
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_DELETE_LINK, .verdict = PAIR_HOLD };
	want_deleted(pair, side, number);
	if (side == C) {
		pair_set_pick(pair, &pick);
		pair_run(pair, 3 * SECOND);
		assert_true(pick.seen > 0);
		pair_set_pick(pair, NULL);
	}
	pair_run(pair, 1000);
	assert_types(pair, "single", "single");
}

/** A link that an operator of either side has deleted stays away, even if the client would ask the
 *  server for a link (A50). */
static void operator_is_not_overruled(void **state)
{
	(void)state;
	for (int row = 0; row < 4; row++) {
		TRIES("row %d", row);
		int c;
		struct pair *pair = pair_with_idle_server(1, &c);
		if (row / 2) {
			pair_fail_link(pair, C, 2);
			pair_run(pair, SECOND / 2);
			assert_types(pair, "single", "single");
			pair_set_port(pair, S, 1, false);
			pair_run(pair, SECOND);
			assert_types(pair, "asymmetric-local", "asymmetric-peer");
		}
		pair_clear_log(pair);
		delete_by_operator(pair, row % 2, row / 2 ? 3 : 2);
		pair_run(pair, 3600 * SECOND);
		assert_types(pair, "single", "single");
		assert_int_equal(notices(pair), 0);
		pair_exchange(pair, c);
		pair_close(pair, c);
		pair_free(pair);
	}
}

/** While the server deletes a link, and the client has not answered yet, it is asked for a link:
 * by the client, which did not know yet, and perhaps by somebody else. */
static void deletion_that_is_crossed(uint8_t version, bool by_rnic, bool by_operator)
{
	int c;
	uint64_t id;
	struct pair *pair = pair_with_idle_server(version, &c);
	struct pair_pick pick = {
		.from = C, .type = SMCR_LLC_DELETE_LINK, .reply = true, .verdict = PAIR_HOLD
	};
	struct smcr_llc_msg notice = { .type = version == 1 ? SMCR_LLC_ADD_LINK
							    : SMCR_LLC_REQUEST_ADD_LINK };
	struct smcr_command delete = { .type = SMCR_COMMAND_LINK_DELETE,
				       .lgr = pair_lgr_view(pair, S).id,
				       .link = 3,
				       .orderly = true };
	const struct smcr_command add = { .type = SMCR_COMMAND_LINK_ADD, .lgr = delete.lgr };
	pair_set_port(pair, S, 1, false);
	pair_run(pair, SECOND + 1000);
	assert_types(pair, "asymmetric-local", "asymmetric-peer");
	pair_clear_log(pair);
	pair_set_pick(pair, &pick);
	assert_int_equal(smcr_engine_command(pair->side[S].engine, &delete, &id), 0);
	pair_pump(pair);
	assert_true(pick.seen > 0);
	if (by_rnic)
		pair_set_port(pair, S, 1, true);
	if (by_operator)
		assert_int_equal(smcr_engine_command(pair->side[S].engine, &add, &id), 0);
	pair_inject_llc(pair, C, 1, &notice);
	pair_set_pick(pair, NULL);
	pair_run(pair, 3600 * (uint64_t)SECOND);
	const char *expected = by_rnic ? "symmetric" : "single";
	if (by_operator)
		assert_types(pair, "asymmetric-local", "asymmetric-peer");
	else
		assert_types(pair, expected, expected);
	if (!by_rnic && !by_operator)
		assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_REQUEST_ADD_LINK, true),
				 version == 2);
	no_protocol_error(pair);
	pair_exchange(pair, c);
	pair_free(pair);
}

/** A notice that crosses an operator's DELETE LINK does not bring the link back. An RNIC that
 * appears meanwhile is used, and an operator who wants a link gets one (A50). */
static void notice_that_crosses_a_deletion(void **state)
{
	(void)state;
	for (uint8_t version = 1; version <= 2; version++) {
		TRIES("version %u", version);
		deletion_that_is_crossed(version, false, false);
		deletion_that_is_crossed(version, true, false);
		deletion_that_is_crossed(version, false, true);
	}
}

/** A client that cannot take what the server offers asks ever less often. */
static enum pair_verdict spoil_offers(struct pair *pair, const struct pair_msg *msg, void *arg)
{
	(void)arg;
	if (msg->from == S && !msg->is_clc && !msg->is_cdc && msg->llc.type == SMCR_LLC_ADD_LINK)
		pair->side[C].fail_qp_create = 1;
	return PAIR_PASS;
}

static void client_that_refuses(void **state)
{
	(void)state;
	for (uint8_t version = 1; version <= 2; version++) {
		TRIES("version %u", version);
		int c;
		struct pair *pair = pair_with_idle_server(version, &c);
		pair_set_port(pair, S, 1, false);
		pair_pump(pair);
		pair->filter = spoil_offers;
		const uint64_t began = pair->now;
		for (unsigned int n = 1; n <= 8; n++) { /* after 1, 2, 4, .. s */
			uint64_t next = began + ((uint64_t)SECOND << (n - 1));
			pair_run(pair, next - pair->now - 1000);
			assert_int_equal(notices(pair), n - 1);
			pair_run(pair, 2000);
			assert_int_equal(notices(pair), n);
		}
		pair->filter = NULL;
		pair_free(pair);
	}
	PROVES("ERR-72");
}

/** The order of an operator of the server is on its way to delete link 3, and the link fails. A
 * peer may then repeat the order with another reason before the client's reply arrives (the own
 * engine keeps the reason). */
static void delete_failing_by_operator(struct pair *pair)
{
	struct pair_pick reply = {
		.from = C, .type = SMCR_LLC_DELETE_LINK, .reply = true, .verdict = PAIR_HOLD
	};
	pair_set_pick(pair, &reply);
	want_deleted(pair, S, 3);
	pair_pump(pair);
	struct smcr_llc_msg order = pair_last_llc(pair, S, SMCR_LLC_DELETE_LINK, false)->llc;
	assert_int_equal(order.delete_link.reason, SMCR_LLC_DEL_OPERATOR);
	order.delete_link.reason = SMCR_LLC_DEL_LOST_PATH;
	pair_inject_llc(pair, S, 1, &order);
	pair_pump(pair);
	reply = (struct pair_pick){ .from = C,
				    .type = SMCR_LLC_DELETE_LINK,
				    .reply = true,
				    .skip = 1,
				    .verdict = PAIR_LOSE };
	pair_pump(pair);
	assert_int_equal(reply.seen, 1); /* the server's engine awaits one reply */
	pair_set_pick(pair, NULL);
	assert_types(pair, "single", "single");
}

/** A question that had no answer when an operator deleted a link is over with that link. It does
 * not lengthen the pauses that the client makes after a later loss. */
static void unanswered_before_a_deletion(void **state)
{
	(void)state;
	for (uint8_t version = 1; version <= 2; version++) {
		TRIES("version %u", version);
		int c;
		struct pair *pair = pair_with_idle_server(version, &c);
		struct pair_pick pick = { .from = C, .verdict = PAIR_LOSE };
		pick.type = version == 1 ? SMCR_LLC_ADD_LINK : SMCR_LLC_REQUEST_ADD_LINK;
		pair_set_port(pair, S, 1, false);
		pair_run(pair, SECOND + 1000);
		assert_types(pair, "asymmetric-local", "asymmetric-peer");
		pair_clear_log(pair);
		pair_run(pair, SECOND);
		assert_int_equal(notices(pair), 1);
		delete_failing_by_operator(pair);
		const uint64_t began = pair->now;
		pair_set_pick(pair, &pick);
		for (unsigned int n = 1; n <= 4; n++) { /* after 1, 2, 4, .. s */
			uint64_t next = began + ((uint64_t)SECOND << (n - 1));
			pair_run(pair, next - pair->now - 1000);
			assert_int_equal(pick.seen, n - 1);
			pair_run(pair, 2000);
			assert_int_equal(pick.seen, n);
		}
		pair_set_pick(pair, NULL);
		no_protocol_error(pair);
		pair_exchange(pair, c);
		pair_free(pair);
	}
	PROVES("ERR-72");
}

/** By the RFC a server tries again by itself (ERR-70), and the client tells it only of new RNICs.
 */
static void server_of_the_rfc_is_not_asked(void **state)
{
	(void)state;
	struct smcr_config config[2] = { pair_config(S), pair_config(C) };
	config[S].dialect = config[C].dialect = SMCR_DIALECT_FORCE_RFC;
	config[C].add_link_retry = SECOND;
	struct pair *pair = pair_new(&config[S], &config[C], 1, 2);
	(void)pair_connected(pair);
	assert_types(pair, "asymmetric-local", "asymmetric-peer");
	pair_run(pair, 3600 * SECOND);
	assert_int_equal(notices(pair), 0);
	pair_free(pair);
}

/* ---- DELETE LINK that waits for writes in flight ---- */

static struct pair *grouped(int *ret_conn)
{
	struct pair *pair = pair_grouped(2, ret_conn);
	assert_int_equal(pair_lgr_view(pair, S).version, SMCR_CLC_VERSION_1);
	assert_int_equal(pair_lgr_view(pair, S).dialect, SMCR_DIALECT_DEPLOYED);
	return pair;
}

/** The kernel's server does not act on DELETE LINK until its own writes on that link are over. */
static void server_takes_its_time(void **state)
{
	(void)state;
	int c;
	struct pair *pair = grouped(&c);
	struct pair_pick pick = { .from = C, .type = SMCR_LLC_DELETE_LINK, .verdict = PAIR_LOSE };
	pair_set_pick(pair, &pick);
	pair_fail_link(pair, C, 2);
	pair_run(pair, 60 * SECOND);
	assert_int_equal(pick.seen, 1);
	assert_true(pair_count_llc(pair, C, SMCR_LLC_TEST_LINK, false) > 1);
	assert_link(pair, 1, true);
	pair_exchange(pair, c);
	pair_set_pick(pair, NULL);
	pair_fail_link(pair, S, 2); /* now the server's link fails too */
	pair_pump(pair);
	assert_null(pair_link(pair, C, 2));
	assert_link(pair, 1, true);
	no_protocol_error(pair);
	pair_exchange(pair, c);
	pair_close(pair, c);
	pair_free(pair);
}

/** The kernel's client does not answer DELETE LINK at first, and then answers it as often as it was
 *  sent. */
static void client_takes_its_time(void **state)
{
	(void)state;
	int c;
	struct pair *pair = grouped(&c);
	struct pair_pick pick = {
		.from = C, .type = SMCR_LLC_DELETE_LINK, .reply = true, .verdict = PAIR_LOSE
	};
	pair_set_pick(pair, &pick);
	pair_fail_link(pair, S, 2);
	pair_run(pair, 60 * SECOND);
	unsigned int asked = pair_count_llc(pair, S, SMCR_LLC_DELETE_LINK, false);
	assert_true(asked > 1);
	assert_true(pair_count_llc(pair, S, SMCR_LLC_TEST_LINK, false) > 1);
	assert_link(pair, 1, true);
	pair_exchange(pair, c);
	pair_set_pick(pair, NULL);
	struct smcr_llc_msg reply = { .type = SMCR_LLC_DELETE_LINK, .reply = true };
	reply.delete_link.link_number = 2;
	for (unsigned int i = 0; i < asked; i++) {
		pair_inject_llc(pair, C, 1, &reply);
		pair_pump(pair);
	}
	assert_null(pair_link(pair, S, 2));
	assert_link(pair, 1, true);
	no_protocol_error(pair);
	pair_exchange(pair, c);
	pair_inject_llc(pair, C, 1, &reply); /* a reply without a request */
	pair_pump(pair);
	assert_int_equal(pair_engine_view(pair, S).llc_protocol_errors, 1);
	pair_free(pair);
	PROVES("ERR-63");
}

static enum pair_verdict lose_from(struct pair *pair, const struct pair_msg *msg, void *arg)
{
	(void)pair;
	return msg->from == *(const int *)arg ? PAIR_LOSE : PAIR_PASS;
}

/** Nobody answers TEST LINK either: the carrier fails, and the group with it. */
static void peer_is_out_of_reach(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		int c;
		struct pair *pair = grouped(&c);
		pair->filter = lose_from;
		pair->filter_arg = &side;
		pair_fail_link(pair, side, 2);
		pair_run(pair, 7900000);
		assert_non_null(pair_lgr(pair, side));
		pair_run(pair, 200000);
		assert_null(pair_lgr(pair, side));
		assert_int_equal(pair_end(pair, c, side)->reset, 1);
		pair->filter = NULL;
		pair_run(pair, 10 * SECOND);
		pair_free(pair);
	}
	PROVES("ERR-38 FO-13");
}

/* ---- one side is late with ADD LINK, or gives the new link up ---- */

/** Messages of a peer that are not sent, or that do not arrive. */
struct hush {
	struct pair_pick pick[4];
};

static enum pair_verdict hush_filter(struct pair *pair, const struct pair_msg *msg, void *arg)
{
	struct hush *hush = arg;
	(void)pair;
	for (size_t i = 0; i < 4; i++) {
		if (!hush->pick[i].type || !pair_picked(&hush->pick[i], msg))
			continue;
		if (hush->pick[i].skip) {
			hush->pick[i].skip--;
			continue;
		}
		hush->pick[i].seen++;
		return PAIR_LOSE;
	}
	return PAIR_PASS;
}

/** The side `quiet` waits for ever, so that whatever happens comes from the other side. Three
 *  connections with an RMB each, so that their RTokens need two CONTINUATIONs. */
static struct pair *pair_with_quiet(uint8_t version, int quiet)
{
	struct smcr_config config[2];
	for (int i = 0; i < 2; i++) {
		config[i] = version == 2 ? pair_config_with(i, "K") : pair_config(i);
		config[i].elements_per_rmb = 1;
		config[i].lgr_idle_timeout = 3600 * SECOND;
	}
	config[quiet].llc_timeout = config[quiet].llc_fc_timeout = 1000 * SECOND;
	config[!quiet].add_link_retry = 20 * SECOND;
	return pair_new(&config[S], &config[C], 2, 2);
}

/** A third link is asked for on link 1. From here on the messages that `hush` names are lost. */
static void ask_for_third(struct pair *pair, struct hush *hush)
{
	pair->filter = hush_filter;
	pair->filter_arg = hush;
	for (int side = 0; side < 2; side++) {
		struct smcr_device_info info = pair_device(side, 2);
		pair_add_device_quietly(pair, side, &info);
	}
	pair_add_link(pair, S);
	pair_run(pair, 1000);
}

/** `side` has nothing left of the third link, and can begin another exchange. */
static void assert_rid_of_third(struct pair *pair, int side)
{
	assert_null(pair_link(pair, side, 3));
	assert_int_equal(pair_num_qps(pair, side), 2);
	assert_int_equal(pair_lgr(pair, side)->llc->step, SMCR_LLC_IDLE);
	assert_link(pair, 1, true);
	assert_link(pair, 2, true);
	no_protocol_error(pair);
}

static int test_link(struct pair *pair, int side, uint8_t number)
{
	return smcr_engine_test_link(pair->side[side].engine, pair_lgr_view(pair, side).id, number);
}

/** CONTINUATIONs about the third link that come after the client has given it up do no harm. */
static void late_cont(struct pair *pair)
{
	struct smcr_llc_msg msg = { .type = SMCR_LLC_ADD_LINK_CONT };
	msg.add_link_cont.link_number = 3;
	pair_inject_llc(pair, S, 1, &msg);
	pair_run(pair, 1000);
	assert_link(pair, 1, true);
	no_protocol_error(pair);
	msg.add_link_cont.link_number = 4; /* no message has named this link before */
	pair_inject_llc(pair, S, 1, &msg);
	pair_run(pair, 1000);
	assert_int_equal(pair_engine_view(pair, C).llc_protocol_errors, 1);
}

/** The server does not act on a request to delete a link that was in use. The link that carried the
 * request is tested after the time for an answer, and from then on each twice that time. */
static void server_that_deletes_nothing(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	struct pair_pick pick = { .from = C, .type = SMCR_LLC_DELETE_LINK, .verdict = PAIR_LOSE };
	pair_set_pick(pair, &pick);
	pair_qp_fails(pair, C, 2);
	pair_pump(pair);
	assert_int_equal(pick.seen, 1);
	const uint64_t began = pair->now;
	for (unsigned int n = 1; n <= 3; n++) { /* after 4, 12, 20 s */
		uint64_t next = began + (8 * n - 4) * SECOND;
		pair_run(pair, next - pair->now - 1000);
		assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_TEST_LINK, false), n - 1);
		pair_run(pair, 2000);
		assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_TEST_LINK, false), n);
	}
	assert_int_equal(pair_link_view(pair, C, 1).state, SMCR_LINK_ACTIVE);
	assert_int_equal(pick.seen, 1);
	no_protocol_error(pair);
	pair_free(pair);
	PROVES("ERR-33");
}

/** The kernel's server waits two seconds for the reply to ADD LINK and to each CONTINUATION. Then
 *  it gives the link up without a word, and does not answer a request to delete it. It offers the
 *  client's RNIC once more when the client has told of it. */
static void server_gives_up_without_a_word(void **state)
{
	static const struct {
		uint8_t version;
		struct hush hush;
		bool asks; /* the client asks the server first, with DELETE LINK */
	} rows[] = {
		{ 1, { { { .from = S, .type = SMCR_LLC_ADD_LINK_CONT } } }, false },
		{ 1, { { { .from = S, .type = SMCR_LLC_ADD_LINK_CONT, .skip = 1 } } }, false },
		{ 1,
		  { { { .from = S, .type = SMCR_LLC_CONFIRM_LINK },
		      { .from = C, .type = SMCR_LLC_DELETE_LINK } } },
		  true },
		{ 2,
		  { { { .from = S, .type = SMCR_LLC_CONFIRM_LINK },
		      { .from = C, .type = SMCR_LLC_DELETE_LINK } } },
		  true },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		struct pair *pair = pair_with_quiet(rows[i].version, S);
		struct hush hush = rows[i].hush;
		uint64_t patience = (rows[i].asks ? 8 : 4) * SECOND;
		for (int n = 0; n < 3; n++)
			(void)pair_connected(pair);
		pair_clear_log(pair);
		ask_for_third(pair, &hush);
		pair_run(pair, patience - SECOND);
		/* The server has time left, so its answer to TEST LINK decides nothing yet. */
		assert_int_equal(test_link(pair, C, 1), 0);
		pair_run(pair, SECOND - 100000);
		assert_true(hush.pick[0].seen > 0);
		assert_int_equal(hush.pick[1].seen, rows[i].asks);
		assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_TEST_LINK, false), 1);
		assert_non_null(pair_link(pair, C, 3));
		pair_run(pair, 200000);
		assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_TEST_LINK, false), 2);
		assert_rid_of_third(pair, C);
		pair->filter = NULL;
		for (int c = 0; c < 3; c++)
			pair_exchange(pair, c);
		/* The kernel has forgotten the link long ago. */
		struct smcr_llc_flow *flow = pair_lgr(pair, S)->llc;
		smcr_llc_link_agreed_gone(flow->subject);
		smcr_llc_end(pair_lgr(pair, S), SMCR_LLC_GIVEN_UP, "silence");
		pair_run(pair, 1000);
		assert_rid_of_third(pair, S);
		pair_run(pair, 20 * SECOND);
		assert_link(pair, 4, true);
		no_protocol_error(pair);
		pair_free(pair);
	}
	PROVES("ADDL-15");
}

static void late_word_about_what_is_given_up(void **state)
{
	(void)state;
	struct pair *pair = pair_with_quiet(1, S);
	struct hush hush = { { { .from = S, .type = SMCR_LLC_ADD_LINK_CONT } } };
	(void)pair_connected(pair);
	ask_for_third(pair, &hush);
	pair_run(pair, 5 * SECOND);
	assert_rid_of_third(pair, C);
	late_cont(pair);
	pair_free(pair);
	PROVES("ERR-63");
}

/** In first contact the client cannot know whether a server that stays silent has opened the
 *  connection or is about to reset it. The program hears nothing before the server answers. */
static void first_contact_is_not_cut_short(void **state)
{
	(void)state;
	struct pair *pair = pair_with_quiet(1, S);
	struct hush hush = { { { .from = S, .type = SMCR_LLC_CONFIRM_LINK, .link = 2 },
			       { .from = C, .type = SMCR_LLC_DELETE_LINK } } };
	pair->filter = hush_filter;
	pair->filter_arg = &hush;
	int c = pair_connect(pair, C);
	pair_run(pair, 25 * SECOND);
	assert_int_equal(hush.pick[1].seen, 1);
	assert_true(pair_count_llc(pair, S, SMCR_LLC_TEST_LINK, true) > 0);
	assert_int_equal(pair_end(pair, c, C)->established, 0);
	assert_int_equal(pair_lgr(pair, C)->llc->step, SMCR_LLC_C_AWAIT_DELETE);
	pair_free(pair);
	PROVES("ERR-28 RV-12");
}

/** The test sends `msg` about the third link in the name of the kernel's client. */
static void client_says(struct pair *pair, const struct pair_msg *like, bool reject)
{
	struct smcr_llc_msg msg = like->llc;
	msg.reply = true;
	msg.add_link.reject = reject;
	pair_inject_llc(pair, C, 1, &msg);
	pair_run(pair, 1000);
	assert_link(pair, 1, true);
	no_protocol_error(pair);
}

/** The kernel's client is held up and answers ADD LINK late. When it hears nothing for two seconds
 *  after that, it refuses the link that it has accepted. Meanwhile the server has asked it to
 *  delete the link; the client answers that in the end. */
static void client_is_late_with_add_link(void **state)
{
	(void)state;
	for (int row = 0; row < 3; row++) {
		TRIES("row %d", row);
		bool cont = row == 1;
		struct pair *pair = pair_with_quiet(row == 2 ? 2 : 1, C);
		struct hush hush = {
			{ { .from = C,
			    .type = cont ? SMCR_LLC_ADD_LINK_CONT : SMCR_LLC_ADD_LINK,
			    .reply = true },
			  { .from = C, .type = SMCR_LLC_DELETE_LINK, .reply = true } }
		};
		int c = pair_connected(pair);
		pair_clear_log(pair);
		ask_for_third(pair, &hush);
		assert_int_equal(hush.pick[0].seen, 1);
		pair_run(pair, 3900000);
		assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_TEST_LINK, false), 0);
		pair_run(pair, 200000);
		assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_TEST_LINK, false), 1);
		const struct pair_msg *order = pair_last_llc(pair, S, SMCR_LLC_DELETE_LINK, false);
		assert_int_equal(order->link, 1);
		assert_int_equal(order->llc.delete_link.link_number, 3);
		struct pair_msg add = *pair_last_llc(pair, S, SMCR_LLC_ADD_LINK, false);
		struct smcr_llc_msg gone = order->llc;
		if (row == 0)
			client_says(pair, &add, false);
		client_says(pair, &add, true);
		assert_int_equal(pair_lgr(pair, S)->llc->step, SMCR_LLC_S_DELETE_ADDED);
		gone.reply = true;
		pair_inject_llc(pair, C, 1, &gone);
		pair_run(pair, 1000);
		assert_rid_of_third(pair, S);
		pair_exchange(pair, c);
		pair_free(pair);
	}
	PROVES("ADDL-6 ADDL-13");
}

/** Nobody answers TEST LINK: the carrier has failed, as by the RFC (ERR-26, ERR-27). */
static void add_link_on_a_dead_carrier(void **state)
{
	(void)state;
	for (int quiet = 0; quiet < 2; quiet++) {
		TRIES("quiet %d", quiet);
		struct pair *pair = pair_with_quiet(1, quiet);
		struct hush hush = {
			{ { .from = quiet,
			    .type = quiet == S ? SMCR_LLC_ADD_LINK_CONT : SMCR_LLC_ADD_LINK,
			    .reply = quiet == C },
			  { .from = quiet, .type = SMCR_LLC_TEST_LINK, .reply = true, .link = 1 } }
		};
		int c = pair_connected(pair);
		ask_for_third(pair, &hush);
		pair_run(pair, 5 * SECOND);
		/* A test of link 2 decides nothing. */
		assert_int_equal(test_link(pair, !quiet, 2), 0);
		pair_run(pair, 2900000);
		assert_int_equal(hush.pick[1].seen, 1);
		assert_int_not_equal(pair_link_view(pair, !quiet, 3).state, SMCR_LINK_FAILED);
		assert_int_equal(pair_link_view(pair, !quiet, 1).state, SMCR_LINK_ACTIVE);
		pair_run(pair, 200000);
		assert_null(pair_link(pair, !quiet, 1));
		assert_null(pair_link(pair, !quiet, 3));
		pair->filter = NULL;
		pair_run(pair, 10 * SECOND);
		assert_link(pair, 2, true);
		pair_exchange(pair, c);
		pair_free(pair);
	}
	PROVES("ERR-26 ERR-27 ERR-38");
}

/** The client does not answer CONFIRM LINK on a new link, and waits for ever. The server has the
 *  new link deleted, and nothing else. */
static void client_does_not_confirm(void **state)
{
	(void)state;
	struct pair *pair = pair_with_quiet(1, C);
	struct hush hush = { { { .from = S, .type = SMCR_LLC_CONFIRM_LINK } } };
	for (int n = 0; n < 3; n++)
		(void)pair_connected(pair);
	pair_clear_log(pair);
	ask_for_third(pair, &hush);
	pair_run(pair, 4 * SECOND - 100000);
	assert_int_equal(pair_lgr(pair, S)->llc->step, SMCR_LLC_S_CONFIRM_ADDED);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_DELETE_LINK, false), 0);
	pair_run(pair, 200000);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_DELETE_LINK, false), 1);
	assert_rid_of_third(pair, S);
	assert_rid_of_third(pair, C);
	pair_free(pair);
	PROVES("ERR-23");
}

/** The server's DELETE LINK comes late, when the client already tests the carrier. An answer to
 *  TEST LINK does not show that the client's reply has arrived: the link stays until the reply has
 *  completed (DELL-2). */
static void order_that_comes_late(void **state)
{
	(void)state;
	struct pair *pair = pair_with_quiet(1, S);
	struct hush hush = { { { .from = S, .type = SMCR_LLC_CONFIRM_LINK },
			       { .from = C, .type = SMCR_LLC_DELETE_LINK },
			       { .from = C, .type = SMCR_LLC_DELETE_LINK, .reply = true },
			       { .from = S, .type = SMCR_LLC_TEST_LINK, .reply = true } } };
	struct smcr_llc_msg order = { .type = SMCR_LLC_DELETE_LINK };
	struct smcr_llc_msg answer = { .type = SMCR_LLC_TEST_LINK, .reply = true };
	for (int n = 0; n < 3; n++)
		(void)pair_connected(pair);
	ask_for_third(pair, &hush);
	pair_run(pair, 8 * SECOND + 100000);
	assert_int_equal(pair_link(pair, C, 3)->deletion.state, SMCR_DELETION_DOUBTED);
	pair->side[C].hold_completions = true;
	order.delete_link.link_number = 3;
	order.delete_link.reason = SMCR_LLC_DEL_LOST_PATH;
	pair_inject_llc(pair, S, 1, &order);
	memcpy(answer.test_link.user_data, pair_link(pair, C, 1)->test_data,
	       sizeof(answer.test_link.user_data));
	pair_inject_llc(pair, S, 1, &answer);
	pair_run(pair, 1000);
	assert_false(smcr_timer_running(&pair_link(pair, C, 1)->test_timer));
	assert_non_null(pair_link(pair, C, 3));
	assert_int_equal(pair_link(pair, C, 3)->deletion.state, SMCR_DELETION_ANSWERED);
	pair->side[C].hold_completions = false;
	pair_run(pair, 1000);
	assert_rid_of_third(pair, C);
	pair_free(pair);
	PROVES("DELL-2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refusal_of_what_is_gone),
		cmocka_unit_test(refusal_while_the_next_is_asked_for),
		cmocka_unit_test(rmb_not_told_yet),
		cmocka_unit_test(fewer_rmbs_than_announced),
		cmocka_unit_test(more_rmbs_than_announced),
		cmocka_unit_test(first_rnic_returns),
		cmocka_unit_test(notice_that_is_dropped),
		cmocka_unit_test(notice_that_crosses_a_deletion),
		cmocka_unit_test(client_that_refuses),
		cmocka_unit_test(unanswered_before_a_deletion),
		cmocka_unit_test(the_clients_rnic_comes_meanwhile),
		cmocka_unit_test(server_that_does_not_try_again),
		cmocka_unit_test(operator_is_not_overruled),
		cmocka_unit_test(server_of_the_rfc_is_not_asked),
		cmocka_unit_test(server_takes_its_time),
		cmocka_unit_test(client_takes_its_time),
		cmocka_unit_test(peer_is_out_of_reach),
		cmocka_unit_test(server_that_deletes_nothing),
		cmocka_unit_test(server_gives_up_without_a_word),
		cmocka_unit_test(late_word_about_what_is_given_up),
		cmocka_unit_test(first_contact_is_not_cut_short),
		cmocka_unit_test(client_does_not_confirm),
		cmocka_unit_test(order_that_comes_late),
		cmocka_unit_test(client_is_late_with_add_link),
		cmocka_unit_test(add_link_on_a_dead_carrier),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

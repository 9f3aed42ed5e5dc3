/* SPDX-License-Identifier: MIT */
/* Version 2 in CLC: what is offered, accepted and agreed on (docs/version-2.md). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/smcr/clc.h"
#include "daemon/smcr/llc_delete_all.h"
#include "proto/smcr/eid.h"
#include "tests/lib/enginepair_filter.h"
#include "tests/lib/enginepair_v2.h"
#include "tests/lib/pcap.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define S PAIR_SERVER
#define C PAIR_CLIENT

static void assert_text(const uint8_t eid[SMCR_EID_LEN], const char *text)
{
	char is[SMCR_EID_TEXT_LEN];
	smcr_eid_text(eid, is);
	assert_string_equal(is, text);
}

/* ---- what the server decides ---- */

#define V2 SMCR_CLC_VERSION_2
#define V1 SMCR_CLC_VERSION_1

/** What a Proposal offers, what the server has, and what the server decides. */
static const struct decision {
	const char *what;
	const char *offered; /* UEIDs of the client */
	bool r_v1, r_v2;
	uint8_t release, max_conns, max_links;
	const char *own;
	enum smcr_versions versions;
	enum smcr_dialect_policy dialect;
	/* expected */
	enum smcr_reason reason;
	const char *eid;
	uint8_t is_release, is_conns, is_links;
} decisions[] = {
	{ "common UEID", "A", true, true, 1, 255, 2, "A", 0, 0, 0, "A", 1, 255, 2 },
	{ "client's order", "BA", true, true, 1, 255, 2, "AB", 0, 0, 0, "B", 1, 255, 2 },
	{ "first that is known", "XBA", false, true, 1, 200, 2, "AB", 0, 0, 0, "B", 1, 200, 2 },
	{ "later release", "A", false, true, 7, 255, 2, "A", 0, 0, 0, "A", 1, 255, 2 },
	{ "release 0", "A", false, true, 0, 0, 0, "A", 0, 0, 0, "A", 0, 255, 2 },
	{ "fewest connections", "A", false, true, 1, 16, 2, "A", 0, 0, 0, "A", 1, 16, 2 },
	{ "too few", "A", false, true, 1, 15, 2, "A", 0, 0, SMCR_REASON_MAX_CONNS },
	{ "one link", "A", false, true, 1, 255, 1, "A", 0, 0, 0, "A", 1, 255, 1 },
	{ "no link", "A", false, true, 1, 255, 0, "A", 0, 0, SMCR_REASON_MAX_LINKS },
	{ "many links", "A", false, true, 1, 255, 8, "A", 0, 0, 0, "A", 1, 255, 3 },
	{ "none in common", "AB", true, true, 1, 255, 2, "C", 0, 0, SMCR_REASON_UEID_MISMATCH },
	{ "none here", "A", true, true, 1, 255, 2, "", 0, 0, SMCR_REASON_UEID_MISMATCH },
	{ "none offered", "", true, true, 1, 255, 2, "A", 0, 0, SMCR_REASON_NO_UEID },
	{ "not offered", "", true, false, 0, 0, 0, "A", 0, 0, SMCR_REASON_VERSION_MISMATCH },
	{ "not wanted", "A", true, true, 1, 255, 2, "A", SMCR_VERSIONS_1_ONLY, 0,
	  SMCR_REASON_VERSION_MISMATCH },
	{ "RFC's dialect", "A", true, true, 1, 255, 2, "A", 0, SMCR_DIALECT_FORCE_RFC,
	  SMCR_REASON_VERSION_MISMATCH },
};

static void decisions_of_a_server(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(decisions) / sizeof(decisions[0]); i++) {
		TRIES("%s", decisions[i].what);
		const struct decision *d = &decisions[i];
		struct smcr_config config = pair_config_with(S, d->own),
				   client = pair_config_with(C, d->offered);
		struct smcr_agreed agreed = { 0 };
		struct smcr_clc_proposal proposal = {
			.version = V2,
			.offers_r_v1 = d->r_v1,
			.offers_r_v2 = d->r_v2,
			.v2 = { .num_eids = client.num_ueids,
				.release = d->release,
				.max_conns = d->max_conns,
				.max_links = d->max_links },
		};
		memcpy(proposal.v2.eids, client.ueids, sizeof(client.ueids));
		config.versions = d->versions;
		config.dialect = d->dialect;
		config.max_links = 4;
		assert_int_equal(smcr_clc_take_v2(&config, &proposal, &agreed), d->reason);
		if (d->reason) {
			assert_int_equal(agreed.version, 0);
			continue;
		}
		assert_int_equal(agreed.version, V2);
		assert_text(agreed.eid, d->eid);
		assert_int_equal(agreed.release, d->is_release);
		assert_int_equal(agreed.max_conns, d->is_conns);
		assert_int_equal(agreed.max_links, d->is_links);
	}
}

/* ---- an Accept at the client, a Confirm at the server ---- */

static const struct judgement {
	const char *what;
	uint8_t version;
	const char *eid;
	bool first;
	uint8_t release, max_conns, max_links;
	enum smcr_reason reason;
} judgements[] = {
	{ "as offered", V2, "B", true, 1, 255, 2, 0 },
	{ "lower limits", V2, "A", true, 1, 16, 1, 0 },
	{ "release 0", V2, "A", true, 0, 0, 0, 0 },
	{ "release too high", V2, "A", true, 2, 255, 2, SMCR_REASON_RELEASE_MISMATCH },
	{ "too few connections", V2, "A", true, 1, 15, 2, SMCR_REASON_MAX_CONNS },
	{ "no link", V2, "A", true, 1, 255, 0, SMCR_REASON_MAX_LINKS },
	{ "too many links", V2, "A", true, 1, 255, 4, SMCR_REASON_MAX_LINKS },
	{ "another EID", V2, "X", true, 1, 255, 2, SMCR_REASON_UEID_MISMATCH },
	{ "later contact", V2, "A", false, 0, 0, 0, 0 },
	{ "later contact, another EID", V2, "X", false, 0, 0, 0, SMCR_REASON_UEID_MISMATCH },
	{ "version 1", V1, "", true, 0, 0, 0, 0 },
};

static struct smcr_clc_accept message_of(const struct judgement *j, uint8_t type)
{
	struct smcr_clc_accept msg = {
		.type = type,
		.version = j->version,
		.first_contact = j->first,
		.fce = { .release = j->release,
			 .max_conns = j->max_conns,
			 .max_links = j->max_links,
			 .direct = true },
	};
	memset(msg.eid, ' ', sizeof(msg.eid));
	msg.eid[0] = (uint8_t)j->eid[0];
	return msg;
}

static void decisions_of_a_client(void **state)
{
	(void)state;
	struct smcr_config config = pair_config_with(C, "AB");
	struct smcr_clc_proposal proposal = { .version = V2, .offers_r_v1 = true };
	config.max_links = 4;
	smcr_clc_offer_v2(&config, pair_device(C, 0).gid, &proposal);
	assert_int_equal(proposal.v2.max_links, 3); /* as many RKeys as fit into LLC messages */
	for (size_t i = 0; i < sizeof(judgements) / sizeof(judgements[0]); i++) {
		TRIES("%s", judgements[i].what);
		const struct judgement *j = &judgements[i];
		struct smcr_clc_accept msg = message_of(j, SMCR_CLC_ACCEPT);
		struct smcr_agreed agreed = { 0 };
		assert_int_equal(smcr_clc_check_accept(&proposal, &msg, &agreed), j->reason);
		assert_int_equal(agreed.version, j->version); /* the form of a Decline */
		if (j->reason || j->version == V1 || !j->first)
			continue;
		assert_true(agreed.direct);
		assert_int_equal(agreed.release, j->release);
		assert_int_equal(agreed.max_conns, j->release ? j->max_conns : 255);
		assert_int_equal(agreed.max_links, j->release ? j->max_links : 2);
	}
	/* a version that was not offered is not accepted */
	struct smcr_agreed agreed = { 0 };
	struct smcr_clc_accept msg = message_of(&judgements[0], SMCR_CLC_ACCEPT);
	proposal.offers_r_v1 = false;
	msg.version = V1;
	assert_int_equal(smcr_clc_check_accept(&proposal, &msg, &agreed),
			 SMCR_REASON_VERSION_MISMATCH);
	proposal.offers_r_v1 = true;
	proposal.offers_r_v2 = false;
	msg.version = V2;
	assert_int_equal(smcr_clc_check_accept(&proposal, &msg, &agreed),
			 SMCR_REASON_VERSION_MISMATCH);
}

static void what_a_confirm_must_repeat(void **state)
{
	(void)state;
	struct smcr_agreed agreed = {
		.version = V2, .release = 1, .max_conns = 100, .max_links = 2
	};
	static const struct judgement confirms[] = {
		{ "the same", V2, "A", true, 1, 100, 2, 0 },
		{ "release", V2, "A", true, 0, 0, 0, SMCR_REASON_RELEASE_MISMATCH },
		{ "no extension", V2, "A", false, 0, 0, 0, SMCR_REASON_RELEASE_MISMATCH },
		{ "connections", V2, "A", true, 1, 99, 2, SMCR_REASON_MAX_CONNS },
		{ "links", V2, "A", true, 1, 100, 1, SMCR_REASON_MAX_LINKS },
	};
	for (size_t i = 0; i < sizeof(confirms) / sizeof(confirms[0]); i++) {
		TRIES("%s", confirms[i].what);
		struct smcr_clc_accept msg = message_of(&confirms[i], SMCR_CLC_CONFIRM);
		assert_int_equal(smcr_clc_check_confirm(&agreed, &msg), confirms[i].reason);
	}
	struct smcr_clc_accept msg = message_of(&confirms[1], SMCR_CLC_CONFIRM);
	agreed = (struct smcr_agreed){ .version = V2, .max_conns = 255, .max_links = 2 };
	assert_int_equal(smcr_clc_check_confirm(&agreed, &msg), SMCR_REASON_NONE);
}

/* ---- two engines ---- */

static void first_and_later_contact(void **state)
{
	(void)state;
	struct pair *pair = pair_new_with("BA", "XAB", 2);
	int a = pair_connected_well(pair);
	const struct smcr_clc_proposal *p =
		&pair_last_clc(pair, C, SMCR_CLC_PROPOSAL)->clc.proposal;
	const struct smcr_clc_accept *accept = &pair_last_clc(pair, S, SMCR_CLC_ACCEPT)->clc.accept;
	const struct smcr_clc_accept *confirm =
		&pair_last_clc(pair, C, SMCR_CLC_CONFIRM)->clc.accept;
	struct smcr_device_info first = pair_device(C, 0), second = pair_device(C, 1);
	assert_int_equal(p->version, V2);
	assert_true(p->offers_r_v1 && p->offers_r_v2 && !p->offers_d);
	assert_int_equal(p->v2.num_eids, 3);
	assert_memory_equal(p->v2.gid, first.gid, SMCR_GID_LEN);
	assert_memory_equal(p->mac, first.mac, SMCR_MAC_LEN); /* deployed servers use this MAC */
	assert_int_equal(accept->version, V2);
	assert_text(accept->eid, "A");
	assert_text(accept->fce.host, "host0");
	assert_true(accept->first_contact && accept->fce.direct);
	assert_int_equal(accept->fce.os, SMCR_CLC_OS_LINUX);
	assert_text(confirm->eid, "A");
	assert_text(confirm->fce.host, "host1");
	assert_int_equal(confirm->fce.max_conns, accept->fce.max_conns);
	assert_int_equal(confirm->fce.max_links, accept->fce.max_links);
	assert_int_equal(confirm->num_gids, 2);
	assert_memory_equal(confirm->gids[0], confirm->gid, SMCR_GID_LEN);
	assert_memory_equal(confirm->gids[0], p->v2.gid, SMCR_GID_LEN);
	assert_memory_equal(confirm->gids[1], second.gid, SMCR_GID_LEN);
	for (int side = 0; side < 2; side++) {
		const struct smcr_lgr *lgr = pair_lgr(pair, side);
		assert_int_equal(lgr->version, V2);
		assert_int_equal(lgr->release, 1);
		assert_int_equal(lgr->max_links, 3);
		assert_int_equal(lgr->dialect, SMCR_DIALECT_DEPLOYED);
		assert_text(lgr->v2.eid, "A");
		assert_true(lgr->v2.direct);
	}
	pair_clear_log(pair);
	int b = pair_connected_well(pair);
	accept = &pair_last_clc(pair, S, SMCR_CLC_ACCEPT)->clc.accept;
	confirm = &pair_last_clc(pair, C, SMCR_CLC_CONFIRM)->clc.accept;
	assert_false(accept->first_contact || confirm->first_contact);
	assert_int_equal(accept->version, V2);
	assert_text(accept->eid, "A");
	assert_text(confirm->eid, "A");
	assert_int_equal(pair_lgr_view(pair, S).num_conns, 2);
	pair_close(pair, a);
	pair_close(pair, b);
	pair_free(pair);
}

/** No UEID in common: version 1, if both sides allow it. */
static void version_one_is_left(void **state)
{
	(void)state;
	static const char *const ueids[][2] = {
		{ "A", "B" }, { "", "A" }, { "A", "" }, { "", "" }
	};
	for (size_t i = 0; i < sizeof(ueids) / sizeof(ueids[0]); i++) {
		TRIES("row %zu", i);
		struct pair *pair = pair_new_with(ueids[i][0], ueids[i][1], 1);
		int conn = pair_connected_well(pair);
		assert_int_equal(pair_last_clc(pair, C, SMCR_CLC_PROPOSAL)->clc.proposal.version,
				 *ueids[i][1] ? V2 : V1);
		assert_int_equal(pair_last_clc(pair, S, SMCR_CLC_ACCEPT)->clc.accept.version, V1);
		assert_int_equal(pair_last_clc(pair, C, SMCR_CLC_CONFIRM)->clc.accept.version, V1);
		assert_int_equal(pair_lgr_view(pair, S).version, V1);
		assert_int_equal(pair_lgr_view(pair, C).version, V1);
		pair_close(pair, conn);
		pair_free(pair);
	}
}

static void one_version_only(void **state)
{
	(void)state;
	/* without version 1 the connection falls back to TCP, and both sides know why */
	struct smcr_config s = pair_config_with(S, "A"), c = pair_config_with(C, "B");
	s.versions = c.versions = SMCR_VERSIONS_2_ONLY;
	struct pair *pair = pair_new(&s, &c, 1, 1);
	int conn = pair_connect(pair, C);
	pair_pump(pair);
	const struct smcr_clc_decline *d = &pair_last_clc(pair, S, SMCR_CLC_DECLINE)->clc.decline;
	assert_int_equal(d->version, 2);
	assert_int_equal(d->os, SMCR_CLC_OS_LINUX);
	assert_int_equal(d->diagnosis, SMCR_REASON_NO_DEVICE);
	assert_int_equal(pair_end(pair, conn, S)->last.reason, SMCR_REASON_UEID_MISMATCH);
	assert_int_equal(pair_end(pair, conn, C)->last.peer_reason, SMCR_REASON_NO_DEVICE);
	pair_free(pair);
	/* a client that offers only version 1, and a server without version 1 */
	c = pair_config_with(C, "");
	pair = pair_new(&s, &c, 1, 1);
	conn = pair_connect(pair, C);
	pair_pump(pair);
	d = &pair_last_clc(pair, S, SMCR_CLC_DECLINE)->clc.decline;
	assert_int_equal(d->version, 1);
	assert_int_equal(d->diagnosis, SMCR_REASON_VERSION_MISMATCH);
	pair_free(pair);
	/* a client that may not offer any version */
	c.versions = SMCR_VERSIONS_2_ONLY;
	pair = pair_new(&s, &c, 1, 1);
	conn = pair_connect(pair, C);
	pair_run(pair, 1000);
	d = &pair_last_clc(pair, C, SMCR_CLC_DECLINE)->clc.decline;
	assert_int_equal(d->version, 1);
	assert_int_equal(d->diagnosis, SMCR_REASON_CONFIG);
	assert_int_equal(pair_end(pair, conn, C)->fallback, 1);
	assert_int_equal(pair_end(pair, conn, S)->fallback, 1);
	pair_free(pair);
	/* version 1, although the client has UEIDs */
	s = pair_config_with(S, "A");
	c = pair_config_with(C, "A");
	s.versions = SMCR_VERSIONS_1_ONLY;
	pair = pair_new(&s, &c, 1, 1);
	conn = pair_connected_well(pair);
	assert_int_equal(pair_lgr_view(pair, S).version, V1);
	pair_close(pair, conn);
	pair_free(pair);
}

/** Without an IPv4 GID version 2 cannot be used. */
static void only_ipv4_gids(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		struct pair *pair = pair_new_with("A", "A", 0);
		for (int i = 0; i < 2; i++) {
			struct smcr_device_info info = pair_device(i, 0);
			if (i == side)
				memcpy(info.gid, (uint8_t[]){ 0xFE, 0x80, [15] = 7 }, 16);
			pair_add_device(pair, i, &info);
		}
		int conn = pair_connected_well(pair);
		assert_int_equal(pair_last_clc(pair, C, SMCR_CLC_PROPOSAL)->clc.proposal.version,
				 side == C ? V1 : V2);
		assert_int_equal(pair_lgr_view(pair, S).version, V1);
		pair_close(pair, conn);
		pair_free(pair);
	}
}

/** UEIDs are added and removed. A peer may have a group of each version; no group mixes them. */
static void a_group_of_each_version(void **state)
{
	(void)state;
	uint8_t ueid[SMCR_EID_LEN], all[SMCR_MAX_UEIDS][SMCR_EID_LEN];
	struct pair *pair = pair_new_with("", "", 1);
	struct smcr_engine *server = pair->side[S].engine, *client = pair->side[C].engine;
	int conns[4];
	assert_int_equal(smcr_ueid_parse("A", ueid), 0);
	conns[0] = pair_connected_well(pair);
	assert_int_equal(smcr_engine_add_ueid(server, ueid), 0);
	assert_int_equal(smcr_engine_add_ueid(server, ueid), -EEXIST);
	assert_int_equal(smcr_engine_add_ueid(client, ueid), 0);
	conns[1] = pair_connected_well(pair);
	assert_int_equal(smcr_engine_get_ueids(client, all), 1);
	assert_text(all[0], "A");
	assert_int_equal(smcr_engine_remove_ueid(server, ueid), 0);
	assert_int_equal(smcr_engine_remove_ueid(server, ueid), -ENOENT);
	conns[2] = pair_connected_well(pair);
	assert_int_equal(smcr_engine_add_ueid(server, ueid), 0);
	conns[3] = pair_connected_well(pair);
	for (int side = 0; side < 2; side++) {
		const struct smcr_lgr *v1 = pair_lgr(pair, side);
		assert_int_equal(v1->version, V1);
		assert_int_equal(v1->next->version, V2);
		assert_null(v1->next->next);
		assert_int_equal(v1->num_conns, 2);
		assert_int_equal(v1->next->num_conns, 2);
		for (int i = 0; i < 4; i++)
			assert_ptr_equal(pair_end(pair, conns[i], side)->smc->lgr,
					 i % 2 ? v1->next : v1);
	}
	/* there can be eight UEIDs, and a deletion leaves the others in their order */
	for (char c = 'B'; c <= 'H'; c++) {
		assert_int_equal(smcr_ueid_parse((char[]){ c, '\0' }, ueid), 0);
		assert_int_equal(smcr_engine_add_ueid(server, ueid), 0);
	}
	assert_int_equal(smcr_ueid_parse("I", ueid), 0);
	assert_int_equal(smcr_engine_add_ueid(server, ueid), -ENOSPC);
	assert_int_equal(smcr_ueid_parse("B", ueid), 0);
	assert_int_equal(smcr_engine_remove_ueid(server, ueid), 0);
	assert_int_equal(smcr_engine_get_ueids(server, all), 7);
	assert_text(all[0], "A");
	assert_text(all[1], "C");
	assert_text(all[6], "H");
	for (int i = 0; i < 4; i++)
		pair_close(pair, conns[i]);
	pair_free(pair);
}

/** An Accept names a link of a group of the other version: out of sync. */
static void accept_of_the_other_version(void **state)
{
	(void)state;
	struct pair *pair = pair_new_with("A", "A", 1);
	int a = pair_connected_well(pair);
	struct smcr_clc_msg msg = pair_last_clc(pair, S, SMCR_CLC_ACCEPT)->clc;
	int b = pair_start_alone(pair, C, SMCR_ROLE_CLIENT);
	msg.accept.version = V1;
	msg.accept.first_contact = false;
	pair_inject_clc(pair, b, S, &msg);
	pair_pump(pair);
	struct smcr_clc_msg answer;
	/* the message behind the Proposal */
	const struct pair_clc *out = pair_end(pair, b, S)->in->next;
	assert_int_equal(smcr_clc_decode(out->buf, out->len, &answer), 0);
	assert_int_equal(answer.type, SMCR_CLC_DECLINE);
	assert_int_equal(answer.decline.version, 1);
	assert_int_equal(answer.decline.diagnosis, SMCR_REASON_OUT_OF_SYNC);
	assert_true(answer.decline.out_of_sync);
	pair_close(pair, a);
	pair_free(pair);
}

/** The client's answer to the last Accept, changed to one of a subsequent contact. */
static struct smcr_clc_msg answer_to_named_link(struct pair *pair)
{
	struct smcr_clc_msg msg = pair_last_clc(pair, S, SMCR_CLC_ACCEPT)->clc, answer;
	int conn = pair_start_alone(pair, C, SMCR_ROLE_CLIENT);
	msg.accept.first_contact = false;
	msg.accept.rmbe_index = 2;
	msg.accept.alert_token ^= 1;
	pair_inject_clc(pair, conn, S, &msg);
	pair_pump(pair);
	/* the message behind the Proposal */
	const struct pair_clc *out = pair_end(pair, conn, S)->in->next;
	assert_int_equal(smcr_clc_decode(out->buf, out->len, &answer), 0);
	return answer;
}

/** The Accept names a link of a group that is ending. The client has no working link of that
 *  number, so it is out of sync. */
static void accept_of_a_group_that_ends(void **state)
{
	(void)state;
	struct pair *pair = pair_new_with("A", "A", 1);
	struct pair_pick pick = { .from = C, .type = SMCR_LLC_DELETE_LINK, .verdict = PAIR_HOLD };
	(void)pair_connected_well(pair);
	assert_int_equal(answer_to_named_link(pair).type, SMCR_CLC_CONFIRM);
	pair_set_pick(pair, &pick);
	smcr_llc_delete_all(pair_lgr(pair, C), SMCR_LLC_DEL_OPERATOR, ECONNRESET);
	assert_int_equal(pair_link_view(pair, C, 1).state, SMCR_LINK_ACTIVE);
	struct smcr_clc_msg answer = answer_to_named_link(pair);
	assert_int_equal(answer.type, SMCR_CLC_DECLINE);
	assert_int_equal(answer.decline.diagnosis, SMCR_REASON_OUT_OF_SYNC);
	pair_set_pick(pair, NULL);
	pair_run(pair, 1000);
	pair_free(pair);
	PROVES("ERR-9");
}

/** The server's new queue pair has the number to which a link of version 2 leads, and the server
 *  now uses version 1: that link is dead. */
static void first_contact_of_the_other_version(void **state)
{
	(void)state;
	struct pair *pair = pair_new_with("A", "A", 1);
	int a = pair_connected_well(pair);
	struct smcr_config config = pair_config(S);
	smcr_engine_free(pair->side[S].engine);
	pair_end(pair, a, S)->smc = NULL;
	pair->side[S].next_qpn = pair_link_view(pair, C, 1).peer_qpn;
	pair_start_engine(&pair->side[S], &config);
	assert_int_equal(smcr_engine_device_add(pair->side[S].engine, &pair->side[S].devices[0]),
			 0);
	int b = pair_connected_well(pair);
	assert_int_equal(pair_end(pair, b, C)->smc->lgr->version, V1);
	assert_int_equal(pair_num_qps(pair, C), 1);
	assert_int_equal(pair_end(pair, a, C)->reset, 1);
	pair_close(pair, b);
	pair_free(pair);
	PROVES("PLG-5");
}

/** A full group takes no more connections; the next connection makes another group. */
static void a_full_group(void **state)
{
	(void)state;
	struct pair *pair = pair_new_with("A", "A", 1);
	int conns[18];
	conns[0] = pair_connected_well(pair);
	pair_lgr(pair, S)->max_conns = 16;
	for (size_t i = 1; i < 18; i++)
		conns[i] = pair_connected_well(pair);
	const struct smcr_lgr *lgr = pair_lgr(pair, S);
	assert_int_equal(lgr->num_conns, 16);
	assert_int_equal(lgr->next->num_conns, 2);
	assert_int_equal(pair_lgr(pair, C)->next->num_conns, 2);
	/* when a connection has left, the group takes another one */
	pair_close(pair, conns[3]);
	conns[3] = pair_connected_well(pair);
	assert_int_equal(lgr->num_conns, 16);
	for (size_t i = 0; i < 18; i++)
		pair_close(pair, conns[i]);
	pair_free(pair);
}

/** Many connections wait for one first contact. One of those that do not fit makes the next group,
 *  and the others wait for that. */
static void a_crowd(void **state)
{
	(void)state;
	struct pair *pair = pair_new_with("A", "A", 1);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_CONFIRM_LINK, .verdict = PAIR_HOLD };
	int conns[40];
	pair_set_pick(pair, &pick);
	for (size_t i = 0; i < 40; i++)
		conns[i] = pair_connect(pair, C);
	pair_pump(pair);
	pair_lgr(pair, S)->max_conns = 16;
	pair_set_pick(pair, NULL);
	pair_run(pair, 1000);
	for (size_t i = 0; i < 40; i++)
		assert_true(pair_both_established(pair, conns[i]));
	const struct smcr_lgr *lgr = pair_lgr(pair, S);
	assert_int_equal(lgr->num_conns, 16);
	assert_int_equal(lgr->next->num_conns, 24);
	assert_null(lgr->next->next);
	for (size_t i = 0; i < 40; i++)
		pair_close(pair, conns[i]);
	pair_free(pair);
}

/* ---- messages of deployed peers (tests/captures) ---- */

#define MAX_CAPTURED 8

struct captured {
	uint8_t msg[MAX_CAPTURED][SMCR_CLC_MAX_LEN];
	size_t len[MAX_CAPTURED];
	size_t num;
};

/** Reads the first CLC messages of the capture, each in a segment of its own. */
static void read_capture(struct captured *ret)
{
	struct pcap *pcap;
	struct pcap_packet p;
	assert_int_equal(pcap_open("tests/captures/linux-smcr-v2.pcap.gz", &pcap), 0);
	ret->num = 0;
	while (ret->num < MAX_CAPTURED && pcap_next(pcap, &p) == 1) {
		int len = p.protocol == IPPROTO_TCP ? smcr_clc_peek_length(p.payload, p.payload_len)
						    : -EAGAIN;
		if (len < 0 || (size_t)len != p.payload_len)
			continue;
		memcpy(ret->msg[ret->num], p.payload, p.payload_len);
		ret->len[ret->num++] = p.payload_len;
	}
	pcap_close(pcap);
	assert_int_equal(ret->num, MAX_CAPTURED);
}

static struct smcr_clc_msg decoded(const uint8_t *buf, size_t len)
{
	struct smcr_clc_msg msg;
	assert_int_equal(smcr_clc_decode(buf, len, &msg), 0);
	return msg;
}

static struct pair *pair_for_capture(int side)
{
	struct smcr_config config = pair_config(side);
	pair_add_ueid(&config, "SMCLAB");
	return side == S ? pair_new(&config, NULL, 1, 1) : pair_new(NULL, &config, 1, 1);
}

/** The latest message to the other end, which the test speaks for. */
static struct smcr_clc_msg answer_to(struct pair *pair, int conn, int side)
{
	const struct pair_clc *out = pair_end(pair, conn, side)->in;
	assert_non_null(out);
	while (out->next)
		out = out->next;
	return decoded(out->buf, out->len);
}

static void a_deployed_client(void **state)
{
	(void)state;
	static struct captured captured;
	read_capture(&captured);
	struct pair *pair = pair_for_capture(S);
	int conn = pair_start_alone(pair, S, SMCR_ROLE_SERVER);
	pair_inject_clc_raw(pair, conn, C, captured.msg[0], captured.len[0]);
	pair_pump(pair);
	struct smcr_clc_msg accept = answer_to(pair, conn, C);
	struct smcr_clc_msg theirs = decoded(captured.msg[1], captured.len[1]);
	assert_int_equal(accept.type, SMCR_CLC_ACCEPT);
	assert_int_equal(accept.length, theirs.length);
	assert_memory_equal(accept.accept.eid, theirs.accept.eid, SMCR_EID_LEN);
	assert_int_equal(accept.accept.fce.release, theirs.accept.fce.release);
	assert_int_equal(accept.accept.fce.max_conns, theirs.accept.fce.max_conns);
	assert_int_equal(accept.accept.fce.max_links, theirs.accept.fce.max_links);
	assert_true(accept.accept.fce.direct);
	struct smcr_clc_msg confirm = decoded(captured.msg[2], captured.len[2]);
	assert_int_equal(confirm.type, SMCR_CLC_CONFIRM);
	pair_inject_clc_raw(pair, conn, C, captured.msg[2], captured.len[2]);
	pair_pump(pair);
	const struct smcr_lgr *lgr = pair_lgr(pair, S);
	assert_non_null(lgr); /* the group waits for the answer to CONFIRM LINK */
	assert_memory_equal(lgr->peer_id, confirm.accept.peer_id, SMCR_PEER_ID_LEN);
	assert_int_equal(lgr->v2.os, SMCR_CLC_OS_LINUX);
	assert_int_equal(pair_link_view(pair, S, 1).peer_qpn, confirm.accept.qpn);
	assert_memory_equal(pair_link_view(pair, S, 1).peer_gid, confirm.accept.gid, SMCR_GID_LEN);
	pair_free(pair);
}

static void a_deployed_server(void **state)
{
	(void)state;
	static struct captured captured;
	read_capture(&captured);
	struct pair *pair = pair_for_capture(C);
	int conn = pair_start_alone(pair, C, SMCR_ROLE_CLIENT);
	struct smcr_clc_msg theirs = decoded(captured.msg[2], captured.len[2]);
	pair_inject_clc_raw(pair, conn, S, captured.msg[1], captured.len[1]);
	pair_pump(pair);
	struct smcr_clc_msg confirm = answer_to(pair, conn, S);
	assert_int_equal(confirm.type, SMCR_CLC_CONFIRM);
	assert_int_equal(confirm.accept.version, V2);
	assert_memory_equal(confirm.accept.eid, theirs.accept.eid, SMCR_EID_LEN);
	assert_int_equal(confirm.accept.fce.release, theirs.accept.fce.release);
	assert_int_equal(confirm.accept.fce.max_conns, theirs.accept.fce.max_conns);
	assert_int_equal(confirm.accept.fce.max_links, theirs.accept.fce.max_links);
	assert_int_equal(confirm.accept.num_gids, 1);
	const struct smcr_lgr *lgr = pair_lgr(pair, C);
	assert_int_equal(lgr->version, V2);
	assert_text(lgr->v2.eid, "SMCLAB");
	assert_string_equal(pair_lgr_view(pair, C).eid, "SMCLAB");
	pair_free(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(decisions_of_a_server),
		cmocka_unit_test(decisions_of_a_client),
		cmocka_unit_test(what_a_confirm_must_repeat),
		cmocka_unit_test(first_and_later_contact),
		cmocka_unit_test(version_one_is_left),
		cmocka_unit_test(one_version_only),
		cmocka_unit_test(only_ipv4_gids),
		cmocka_unit_test(a_group_of_each_version),
		cmocka_unit_test(accept_of_the_other_version),
		cmocka_unit_test(accept_of_a_group_that_ends),
		cmocka_unit_test(first_contact_of_the_other_version),
		cmocka_unit_test(a_full_group),
		cmocka_unit_test(a_crowd),
		cmocka_unit_test(a_deployed_client),
		cmocka_unit_test(a_deployed_server),
	};
	return cmocka_run_group_tests_name("engine_version", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* Version 2 in CLC with peers that tell less than smcrd, or something else, and with hosts that
 * pretend to be one of them (docs/version-2.md). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/smcr/device.h"
#include "tests/lib/enginepair_filter.h"
#include "tests/lib/enginepair_v2.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define S PAIR_SERVER
#define C PAIR_CLIENT

/** Takes the client's messages of one type off the wire. The test changes them and sends them on.
 */
struct caught {
	uint8_t type;
	struct smcr_clc_msg msg;
	int conn;
	unsigned int times;
};

static enum pair_verdict catch_one(struct pair *pair, const struct pair_msg *msg, void *arg)
{
	struct caught *caught = arg;
	(void)pair;
	if (!msg->is_clc || msg->from != C || msg->clc.type != caught->type)
		return PAIR_PASS;
	caught->msg = msg->clc;
	caught->conn = msg->conn;
	caught->times++;
	return PAIR_LOSE;
}

static struct smcr_clc_msg catch_clc(struct pair *pair, uint8_t type, int *ret_conn)
{
	struct caught caught = { .type = type };
	pair->filter = catch_one;
	pair->filter_arg = &caught;
	*ret_conn = pair_connect(pair, C);
	pair_pump(pair);
	pair->filter = NULL;
	assert_int_equal(caught.times, 1);
	assert_int_equal(caught.conn, *ret_conn);
	return caught.msg;
}

/** Deployed clients that offer version 2 only do not tell peer ID, GID and MAC of version 1. */
static int connect_without_id(struct pair *pair)
{
	int conn;
	struct smcr_clc_msg msg = catch_clc(pair, SMCR_CLC_PROPOSAL, &conn);
	msg.proposal.offers_r_v1 = false;
	memset(msg.proposal.peer_id, 0, SMCR_PEER_ID_LEN);
	memset(msg.proposal.gid, 0, SMCR_GID_LEN);
	memset(msg.proposal.mac, 0, SMCR_MAC_LEN);
	pair_inject_clc(pair, conn, C, &msg);
	pair_pump(pair);
	return conn;
}

/** The Confirm tells who the peer is. After that connections with and without peer ID find the
 *  group. */
static void a_proposal_without_peer_id(void **state)
{
	(void)state;
	struct pair *pair = pair_new_with("A", "A", 2);
	struct smcr_config client = pair_config(C);
	int conns[4];
	conns[0] = connect_without_id(pair);
	pair_exchange(pair, conns[0]);
	assert_memory_equal(pair_lgr_view(pair, S).peer_id, client.peer_id, SMCR_PEER_ID_LEN);
	conns[1] = connect_without_id(pair);
	conns[2] = pair_connected_well(pair);
	conns[3] = connect_without_id(pair);
	for (int i = 0; i < 4; i++)
		assert_true(pair_both_established(pair, conns[i]));
	assert_int_equal(pair_engine_view(pair, S).num_lgrs, 1);
	assert_int_equal(pair_engine_view(pair, C).num_lgrs, 1);
	for (int i = 0; i < 4; i++)
		pair_close(pair, conns[i]);
	pair_free(pair);
}

/** The latest group of all is left in `arg`. */
static void copy_lgr(void *arg, const struct smcr_lgr_view *view)
{
	*(struct smcr_lgr_view *)arg = *view;
}

/** Another instance at the same address does not know the group: it declines as out of sync, and
 *  the next connection makes a new group. */
static void a_peer_without_id_starts_again(void **state)
{
	(void)state;
	struct pair *pair = pair_new_with("A", "A", 1);
	int first = connect_without_id(pair);
	pair_exchange(pair, first);
	struct smcr_config config = pair_config_with(C, "A");
	config.peer_id[1] ^= 0x55;
	smcr_engine_free(pair->side[C].engine);
	pair_end(pair, first, C)->smc = NULL;
	pair_start_engine(&pair->side[C], &config);
	assert_int_equal(smcr_engine_device_add(pair->side[C].engine, &pair->side[C].devices[0]),
			 0);
	int second = connect_without_id(pair);
	const struct smcr_clc_decline *d = &pair_last_clc(pair, C, SMCR_CLC_DECLINE)->clc.decline;
	assert_int_equal(d->version, 2);
	assert_true(d->out_of_sync);
	assert_int_equal(pair_end(pair, second, S)->fallback, 1);
	assert_int_equal(pair_end(pair, second, C)->fallback, 1);
	int third = connect_without_id(pair);
	pair_exchange(pair, third);
	struct smcr_lgr_view last;
	smcr_engine_each_lgr(pair->side[S].engine, copy_lgr, &last);
	assert_int_equal(pair_engine_view(pair, S).num_lgrs, 2);
	assert_memory_equal(last.peer_id, config.peer_id, SMCR_PEER_ID_LEN);
	pair_run(pair, 5000000); /* nobody answers on the old group */
	assert_int_equal(pair_end(pair, first, S)->reset, 1);
	assert_int_equal(pair_engine_view(pair, S).num_lgrs, 1);
	assert_memory_equal(pair_lgr_view(pair, S).peer_id, config.peer_id, SMCR_PEER_ID_LEN);
	pair_close(pair, third);
	pair_free(pair);
}

/** A client waits for a first contact of its own host. It does not wait for a first contact without
 *  peer ID that another host forges from its address. */
static void somebody_else_is_first(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		TRIES("case %d", i);
		bool far = i & 1;
		struct pair *pair = pair_new_with("A", "A", 1);
		int conn, first = pair_start_alone(pair, S, SMCR_ROLE_SERVER);
		struct smcr_clc_msg msg = catch_clc(pair, SMCR_CLC_PROPOSAL, &conn);
		struct smcr_clc_msg with_id = msg;
		memset(msg.proposal.peer_id, 0, SMCR_PEER_ID_LEN);
		pair_inject_clc(pair, first, C, &msg);
		pair_pump(pair);
		pair->side[S].far = far;
		int second = pair_start_alone(pair, S, SMCR_ROLE_SERVER);
		pair_inject_clc(pair, second, C, i & 2 ? &with_id : &msg);
		pair_pump(pair);
		assert_non_null(pair_end(pair, first, C)->in);
		if (far)
			assert_non_null(pair_end(pair, second, C)->in);
		else
			assert_null(pair_end(pair, second, C)->in);
		pair_run(pair, 30000000);
		pair_free(pair);
	}
	PROVES("RV-15 SEC-6");
}

/** A client's Proposal names a peer, by address or ID, so that the server offers the group with it.
 *  The client declines as out of sync. */
static void says_out_of_sync(struct pair *pair, const struct smcr_clc_msg *proposal,
			     const uint8_t peer_id[SMCR_PEER_ID_LEN])
{
	struct smcr_clc_msg decline = { .type = SMCR_CLC_DECLINE,
					.decline = { .version = proposal->proposal.version,
						     .out_of_sync = true,
						     .diagnosis = SMCR_REASON_OUT_OF_SYNC } };
	memcpy(decline.decline.peer_id, peer_id, SMCR_PEER_ID_LEN);
	int conn = pair_start_alone(pair, S, SMCR_ROLE_SERVER);
	pair_inject_clc(pair, conn, C, proposal);
	pair_pump(pair);
	pair_inject_clc(pair, conn, C, &decline);
	pair_pump(pair);
	assert_int_equal(pair_end(pair, conn, S)->fallback, 1);
}

/** @return true if the server's answer to that Proposal makes a first contact */
static bool makes_first_contact(struct pair *pair, const struct smcr_clc_msg *proposal)
{
	struct smcr_clc_msg accept;
	int conn = pair_start_alone(pair, S, SMCR_ROLE_SERVER);
	pair_inject_clc(pair, conn, C, proposal);
	pair_pump(pair);
	const struct pair_clc *in = pair_end(pair, conn, C)->in;
	assert_int_equal(smcr_clc_decode(in->buf, in->len, &accept), 0);
	return accept.accept.first_contact;
}

/** The group does not end at once: its peer is asked on a link whether it still knows the group.
 *  This is so even if the Decline has the peer's ID, which anybody can know. */
static void out_of_sync_says_somebody_else(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		TRIES("case %d", i);
		bool v2 = i & 1;
		struct pair *pair = v2 ? pair_new_with("A", "A", 2) : pair_new_with("", "", 2);
		int first = v2 ? connect_without_id(pair) : pair_connected_well(pair);
		struct smcr_clc_msg proposal = pair_last_clc(pair, C, SMCR_CLC_PROPOSAL)->clc;
		uint8_t id[SMCR_PEER_ID_LEN] = { 6, 6, 6 };
		assert_int_equal(pair_lgr_view(pair, S).version, v2 ? 2 : 1);
		if (i & 2)
			memcpy(id, pair_lgr_view(pair, S).peer_id, sizeof(id));
		pair_clear_log(pair);
		says_out_of_sync(pair, &proposal, id);
		assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_TEST_LINK, false), 2);
		assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_TEST_LINK, true), 2);
		pair_exchange(pair, first);
		int second = v2 ? connect_without_id(pair) : pair_connected(pair);
		pair_exchange(pair, second);
		assert_int_equal(pair_engine_view(pair, S).num_lgrs, 1);
		/* as long as the peer has not answered, the group gets no new connection */
		struct pair_pick pick = { .from = S,
					  .type = SMCR_LLC_TEST_LINK,
					  .verdict = PAIR_HOLD };
		pair_set_pick(pair, &pick);
		says_out_of_sync(pair, &proposal, id);
		assert_true(makes_first_contact(pair, &proposal));
		pair_set_pick(pair, NULL);
		pair_pump(pair);
		pair_exchange(pair, first);
		pair_exchange(pair, second);
		pair_run(pair, 30000000);
		assert_true(pair_both_established(pair, first));
		assert_true(pair_both_established(pair, second));
		assert_false(makes_first_contact(pair, &proposal));
		pair_free(pair);
	}
	PROVES("CLC-14 ERR-9 SEC-6");
}

/** The peer has lost the group: it does not answer, and the group ends. */
static void out_of_sync_is_true(void **state)
{
	(void)state;
	struct pair *pair = pair_new_with("", "", 2);
	int first = pair_connected_well(pair);
	struct smcr_clc_msg proposal = pair_last_clc(pair, C, SMCR_CLC_PROPOSAL)->clc;
	uint8_t id[SMCR_PEER_ID_LEN];
	memcpy(id, pair_lgr_view(pair, S).peer_id, sizeof(id));
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_TEST_LINK, .verdict = PAIR_LOSE };
	pair_set_pick(pair, &pick);
	says_out_of_sync(pair, &proposal, id);
	assert_int_equal(pair_end(pair, first, S)->reset, 0);
	pair_run(pair, 30000000);
	assert_int_equal(pair_end(pair, first, S)->reset, 1);
	assert_null(pair_lgr(pair, S));
	pair_free(pair);
	PROVES("CLC-14 ERR-9");
}

static void decline_is_last(struct pair *pair, int conn, int to, enum smcr_reason reason)
{
	struct smcr_clc_msg answer;
	const struct pair_clc *last = pair_end(pair, conn, to)->in->prev;
	assert_int_equal(smcr_clc_decode(last->buf, last->len, &answer), 0);
	assert_int_equal(answer.type, SMCR_CLC_DECLINE);
	assert_int_equal(answer.decline.diagnosis, reason);
}

/** A Proposal from an address of this host claims to come from another host's smcrd. */
static void a_peer_at_an_own_address(void **state)
{
	(void)state;
	for (int version = 1; version <= 2; version++) {
		TRIES("version %d", version);
		struct pair *pair =
			version == 2 ? pair_new_with("A", "A", 1) : pair_new_with("", "", 1);
		int first = pair_connected_well(pair), conn;
		struct smcr_clc_msg proposal = pair_last_clc(pair, C, SMCR_CLC_PROPOSAL)->clc;
		struct smcr_clc_msg accept = pair_last_clc(pair, S, SMCR_CLC_ACCEPT)->clc;
		pair->side[S].self = pair->side[C].self = true;
		conn = pair_start_alone(pair, S, SMCR_ROLE_SERVER);
		pair_inject_clc(pair, conn, C, &proposal);
		pair_pump(pair);
		decline_is_last(pair, conn, C, SMCR_REASON_OWN_HOST);
		conn = pair_start_alone(pair, C, SMCR_ROLE_CLIENT);
		pair_inject_clc(pair, conn, S, &accept);
		pair_pump(pair);
		decline_is_last(pair, conn, S, SMCR_REASON_OWN_HOST);
		/* this host's smcrd may connect to itself */
		struct smcr_config own = pair_config(S);
		memcpy(proposal.proposal.peer_id, own.peer_id, SMCR_PEER_ID_LEN);
		pair->side[S].self = pair->side[C].self = true;
		conn = pair_start_alone(pair, S, SMCR_ROLE_SERVER);
		pair_inject_clc(pair, conn, C, &proposal);
		pair_pump(pair);
		assert_non_null(pair_end(pair, conn, S)->smc);
		pair_exchange(pair, first);
		pair_free(pair);
	}
	PROVES("SEC-6");
}

/** The Confirm decides who the group's peer is, also if the Proposal did not say it. */
static void a_confirm_of_somebody_else(void **state)
{
	(void)state;
	struct pair *pair = pair_new_with("A", "A", 1);
	int first = connect_without_id(pair), conn;
	struct smcr_clc_msg msg = catch_clc(pair, SMCR_CLC_CONFIRM, &conn);
	msg.accept.peer_id[7] ^= 1;
	pair_inject_clc(pair, conn, C, &msg);
	pair_pump(pair);
	assert_int_equal(pair_end(pair, conn, S)->failed, 1);
	assert_int_equal(pair_end(pair, conn, S)->last.error, EPROTO);
	pair_exchange(pair, first);
	pair_close(pair, first);
	pair_free(pair);
}

/** Deployed servers connect their QP to GID and MAC of the Proposal. If the client's RNIC has
 *  changed meanwhile, the client cannot confirm. */
static void an_rnic_that_changes(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		TRIES("case %d", i);
		struct pair *pair = pair_new_with("A", "A", 1);
		struct smcr_device_info info = pair_device(C, 0);
		struct pair_pick pick = {
			.from = S, .clc = true, .type = SMCR_CLC_ACCEPT, .verdict = PAIR_HOLD
		};
		pair_set_pick(pair, &pick);
		int conn = pair_connect(pair, C);
		pair_pump(pair);
		info.gid[15] ^= i == 1;
		info.mac[5] ^= i == 2 ? 0x40 : 0;
		pair_update_device(pair, C, &info);
		pair_set_pick(pair, NULL);
		pair_pump(pair);
		if (i == 0) {
			pair_exchange(pair, conn);
		} else {
			assert_int_equal(
				pair_last_clc(pair, C, SMCR_CLC_DECLINE)->clc.decline.diagnosis,
				SMCR_REASON_NO_R_DEVICE);
			assert_int_equal(pair_end(pair, conn, C)->fallback, 1);
		}
		pair_free(pair);
	}
	PROVES("ERR-3");
}

/** A client that has nothing to offer may decline instead of a Proposal, in either form. No group
 *  can be out of sync then. */
static void a_decline_in_place_of_a_proposal(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		TRIES("case %d", i);
		struct pair *pair = pair_new_with("A", "A", 1);
		struct smcr_clc_msg msg = { .type = SMCR_CLC_DECLINE,
					    .decline = { .version = i & 1 ? 2 : 1,
							 .out_of_sync = i & 2,
							 .diagnosis = SMCR_REASON_NO_DEVICE } };
		int conn = pair_start_alone(pair, S, SMCR_ROLE_SERVER);
		pair_inject_clc(pair, conn, C, &msg);
		pair_pump(pair);
		assert_int_equal(pair_end(pair, conn, S)->fallback, 1);
		assert_int_equal(pair_end(pair, conn, S)->last.peer_reason, SMCR_REASON_NO_DEVICE);
		assert_null(pair_end(pair, conn, C)->in); /* the server answers none of them */
		pair_free(pair);
	}
	PROVES("ERR-1");
}

/** If the server tells that it reaches the client through a gateway, deployed clients look for
 *  their own gateway and decline if there is none. If the server does not tell it, they send
 *  packets that no router forwards. */
static void through_a_router(void **state)
{
	(void)state;
	for (int routed = 0; routed < 2; routed++) {
		TRIES("routed %d", routed);
		struct pair *pair = pair_new_with("A", "A", 1);
		int conn;
		struct smcr_clc_msg msg = catch_clc(pair, SMCR_CLC_PROPOSAL, &conn);
		if (routed)
			msg.proposal.v2.gid[13] = 9;
		pair_inject_clc(pair, conn, C, &msg);
		pair_pump(pair);
		assert_int_equal(pair_last_clc(pair, S, SMCR_CLC_ACCEPT)->clc.accept.fce.direct,
				 !routed);
		assert_int_equal(pair_last_clc(pair, C, SMCR_CLC_CONFIRM)->clc.accept.fce.direct,
				 !routed);
		assert_int_equal(
			pair_last_llc(pair, S, SMCR_LLC_ADD_LINK, false)->llc.add_link.direct,
			!routed);
		pair_exchange(pair, conn);
		pair_close(pair, conn);
		pair_free(pair);
	}
}

static bool uses_mac(struct pair *pair, int side, uint8_t link)
{
	static const uint8_t none[SMCR_MAC_LEN];
	return memcmp(pair_qp_peer(pair, side, link)->mac, none, SMCR_MAC_LEN) != 0;
}

/** An RNIC writes the MAC that a peer tells into the host's neighbour entry for the address of the
 *  GID. A peer behind a router must not choose that MAC: it could give the router's address another
 *  one. */
static void a_mac_from_afar(void **state)
{
	(void)state;
	for (int version = 1; version <= 2; version++) {
		TRIES("version %d", version);
		struct pair *pair =
			version == 2 ? pair_new_with("A", "A", 2) : pair_new_with("", "", 2);
		pair->side[S].far = true;
		int conn = pair_connected_well(pair);
		assert_int_equal(pair_lgr_view(pair, S).version, version);
		for (uint8_t link = 1; link <= 2; link++) {
			assert_false(uses_mac(pair, S, link));
			assert_true(uses_mac(pair, C, link));
		}
		pair_close(pair, conn);
		pair_free(pair);
	}
	/* an address of another network is behind a router too */
	struct pair *pair = pair_new_with("A", "A", 1);
	int conn;
	struct smcr_clc_msg msg = catch_clc(pair, SMCR_CLC_CONFIRM, &conn);
	msg.accept.gid[13] = 9;
	pair_inject_clc(pair, conn, C, &msg);
	pair_step(pair);
	assert_memory_equal(pair_qp_peer(pair, S, 1)->gid, msg.accept.gid, SMCR_GID_LEN);
	assert_false(uses_mac(pair, S, 1));
	assert_true(uses_mac(pair, C, 1));
	pair_run(pair, 20000000);
	pair_free(pair);
	PROVES("SEC-2 SEC-6");
}

/** A Confirm with this GID or MAC, if not NULL, is declined. Frees the pair. */
static void expect_no_peer(struct pair *pair, const uint8_t *gid, const uint8_t *mac)
{
	int conn;
	struct smcr_clc_msg msg = catch_clc(pair, SMCR_CLC_CONFIRM, &conn);
	if (gid)
		memcpy(msg.accept.gid, gid, SMCR_GID_LEN);
	if (mac)
		memcpy(msg.accept.mac, mac, SMCR_MAC_LEN);
	pair_inject_clc(pair, conn, C, &msg);
	pair_run(pair, 1100000); /* the server's Decline might cross one of the client */
	assert_int_equal(pair_last_clc(pair, S, SMCR_CLC_DECLINE)->clc.decline.diagnosis,
			 SMCR_REASON_QP_NOT_READY);
	assert_int_equal(pair_end(pair, conn, S)->fallback, 1);
	assert_null(pair_lgr(pair, S));
	pair_free(pair);
}

/** Beside its own addresses the server's RNIC gets 10.99.5.1/22, 10.98.0.0/31 and fd00::9/64. */
static void add_networks(struct pair *pair)
{
	struct smcr_device_info info = pair->side[S].devices[0];
	info.prefixes[info.num_prefixes++] = (struct smcr_prefix){ AF_INET, { 10, 99, 5, 1 }, 22 };
	info.prefixes[info.num_prefixes++] = (struct smcr_prefix){ AF_INET, { 10, 98 }, 31 };
	info.prefixes[info.num_prefixes++] =
		(struct smcr_prefix){ AF_INET6, { [0] = 0xFD, [15] = 9 }, 64 };
	pair_update_device(pair, S, &info);
}

/** No other host's RNIC can have such a GID. Packets to it would reach this host, all hosts, or no
 *  host. */
static void gids_that_no_peer_has(void **state)
{
	(void)state;
	static const uint8_t gids[][SMCR_GID_LEN] = {
		{ 0 },
		{ [15] = 1 },
		{ [0] = 0xFF, [1] = 2, [15] = 1 },
		{ [10] = 0xFF, [11] = 0xFF },
		{ [10] = 0xFF, [11] = 0xFF, [12] = 127, [15] = 1 },
		{ [10] = 0xFF, [11] = 0xFF, [12] = 224, [15] = 1 },
		{ [10] = 0xFF, [11] = 0xFF, [12] = 255, [13] = 255, [14] = 255, [15] = 255 },
	};
	const size_t count = sizeof(gids) / sizeof(gids[0]);
	for (size_t i = 0; i <= count; i++) { /* at last the server's own GID */
		TRIES("row %zu", i);
		struct pair *pair = pair_new_with("A", "A", 1);
		const uint8_t *own = pair->side[S].devices[0].gid;
		expect_no_peer(pair, i < count ? gids[i] : own, NULL);
	}
	PROVES("SEC-6");
}

/** Broadcast addresses of networks of this host belong to no single host, and other addresses of
 *  this host to no other. A network of two hosts has no broadcast address. */
static void addresses_of_our_networks(void **state)
{
	(void)state;
	static const uint8_t gids[][SMCR_GID_LEN] = {
		{ [10] = 0xFF, [11] = 0xFF, [12] = 10, [13] = 99, [14] = 4, [15] = 0 },
		{ [10] = 0xFF, [11] = 0xFF, [12] = 10, [13] = 99, [14] = 7, [15] = 255 },
		{ [10] = 0xFF, [11] = 0xFF, [12] = 10, [13] = 99, [14] = 5, [15] = 1 },
		{ [0] = 0xFD, [15] = 9 },
	};
	static const uint8_t single[][SMCR_GID_LEN] = {
		{ [10] = 0xFF, [11] = 0xFF, [12] = 10, [13] = 99, [14] = 5, [15] = 255 },
		{ [10] = 0xFF, [11] = 0xFF, [12] = 10, [13] = 98, [14] = 0, [15] = 1 },
		{ [0] = 0xFD, [15] = 8 },
	};
	for (size_t i = 0; i < sizeof(gids) / sizeof(gids[0]); i++) {
		TRIES("row %zu", i);
		struct pair *pair = pair_new_with("A", "A", 1);
		add_networks(pair);
		expect_no_peer(pair, gids[i], NULL);
	}
	struct pair *pair = pair_new_with("A", "A", 1);
	add_networks(pair);
	for (size_t i = 0; i < sizeof(single) / sizeof(single[0]); i++) {
		TRIES("row %zu", i);
		assert_true(smcr_gid_may_be_peer(pair->side[S].engine, single[i]));
	}
	/* a network that the RNIC has lost, though its place still has the address */
	struct smcr_device_info info = pair->side[S].devices[0];
	const size_t before = pair_device(S, 0).num_prefixes;
	info.num_prefixes = before;
	pair_update_device(pair, S, &info);
	assert_int_equal(info.prefixes[before].prefix_len, 22);
	assert_true(smcr_gid_may_be_peer(pair->side[S].engine, gids[0]));
	pair_free(pair);
	PROVES("SEC-6");
}

/** The server's RNIC has lost the network that the Proposal names, though its place still has the
 * address: there is no common LAN. */
static void network_that_is_lost(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	struct smcr_device_info info = pair->side[S].devices[0];
	info.num_prefixes = 0;
	pair_update_device(pair, S, &info);
	int conn = pair_connect(pair, C);
	pair_pump(pair);
	assert_int_equal(pair_last_clc(pair, S, SMCR_CLC_DECLINE)->clc.decline.diagnosis,
			 SMCR_REASON_PREFIX_MISMATCH);
	assert_int_equal(pair_end(pair, conn, S)->fallback, 1);
	pair_free(pair);
	PROVES("SEC-2");
}

static void macs_that_no_peer_has(void **state)
{
	(void)state;
	static const uint8_t macs[][SMCR_MAC_LEN] = { { 0 },
						      { 1, 0, 0x5E, 0, 0, 1 },
						      { 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF } };
	for (size_t i = 0; i < sizeof(macs) / sizeof(macs[0]); i++) {
		TRIES("row %zu", i);
		expect_no_peer(pair_new_with("A", "A", 1), NULL, macs[i]);
		expect_no_peer(pair_new_with("", "", 1), NULL, macs[i]);
	}
	PROVES("SEC-6");
}

/** The client breaks the rules of the protocol at once. */
static void breaks_the_rules(struct pair *pair)
{
	static const uint8_t garbage[44] = { 1 };
	int conn = pair_start_alone(pair, S, SMCR_ROLE_SERVER);
	pair_inject_clc_raw(pair, conn, C, garbage, sizeof(garbage));
	pair_pump(pair);
	assert_int_equal(pair_end(pair, conn, S)->failed, 1);
}

/** The log names the peer that breaks the rules, and has one line a minute about it. */
static void the_log_names_who_breaks_the_rules(void **state)
{
	(void)state;
	struct pair *pair = pair_new_with("", "", 1);
	const struct pair_side *server = &pair->side[S];
	for (int i = 0; i < 3; i++)
		breaks_the_rules(pair);
	assert_int_equal(server->log_lines, 1);
	assert_string_equal(server->log_line, "peer 10.0.0.101: rendezvous: malformed CLC "
					      "message; the TCP connection is reset");
	pair->side[S].far = true;
	breaks_the_rules(pair);
	assert_int_equal(server->log_lines, 2);
	assert_non_null(strstr(server->log_line, "peer 192.0.2.7: "));
	pair->side[S].far = false;
	pair_run(pair, 61000000);
	breaks_the_rules(pair);
	assert_int_equal(server->log_lines, 3);
	assert_non_null(strstr(server->log_line, "(and 2 times before)"));
	pair_free(pair);
}

static void confirms_that_are_declined(void **state)
{
	(void)state;
	static const enum smcr_reason reasons[] = { SMCR_REASON_VERSION_MISMATCH,
						    SMCR_REASON_RELEASE_MISMATCH,
						    SMCR_REASON_MAX_CONNS, SMCR_REASON_MAX_LINKS };
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		TRIES("row %zu", i);
		struct pair *pair = pair_new_with("A", "A", 1);
		int conn;
		struct smcr_clc_msg msg = catch_clc(pair, SMCR_CLC_CONFIRM, &conn);
		if (reasons[i] == SMCR_REASON_VERSION_MISMATCH) {
			msg.accept.version = SMCR_CLC_VERSION_1;
			msg.accept.num_gids = 0;
		}
		msg.accept.fce.release -= reasons[i] == SMCR_REASON_RELEASE_MISMATCH;
		msg.accept.fce.max_conns -= reasons[i] == SMCR_REASON_MAX_CONNS;
		msg.accept.fce.max_links -= reasons[i] == SMCR_REASON_MAX_LINKS;
		pair_inject_clc(pair, conn, C, &msg);
		pair_run(pair, 1100000); /* the server's Decline might cross one of the client */
		const struct smcr_clc_decline *d =
			&pair_last_clc(pair, S, SMCR_CLC_DECLINE)->clc.decline;
		assert_int_equal(d->version, 2);
		assert_int_equal(d->diagnosis, reasons[i]);
		assert_false(d->out_of_sync);
		assert_int_equal(pair_end(pair, conn, S)->fallback, 1);
		assert_int_equal(pair_end(pair, conn, C)->fallback, 1);
		assert_int_equal(pair_end(pair, conn, C)->last.peer_reason, reasons[i]);
		assert_null(pair_lgr(pair, S));
		assert_null(pair_lgr(pair, C));
		pair_free(pair);
	}
}

/* ---- hosts that can be reached ---- */

static void a_host_is_reached_while_it_has_an_active_link(void **state)
{
	(void)state;
	int conn;
	struct pair *pair = pair_grouped(2, &conn);
	struct smcr_addr peer = pair_params(pair, C, SMCR_ROLE_CLIENT, conn).peer, other = peer;
	const struct smcr_engine *engine = pair->side[C].engine;
	other.ip[3]++;
	peer.port++; /* any port of the peer */
	assert_true(smcr_engine_reaches(engine, &peer));
	assert_false(smcr_engine_reaches(engine, &other));
	pair_fail_link(pair, C, 1);
	assert_true(smcr_engine_reaches(engine, &peer));
	pair_fail_link(pair, C, 2);
	assert_false(smcr_engine_reaches(engine, &peer));
	pair_run(pair, 60000000);
	pair_free(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_proposal_without_peer_id),
		cmocka_unit_test(a_peer_without_id_starts_again),
		cmocka_unit_test(somebody_else_is_first),
		cmocka_unit_test(out_of_sync_says_somebody_else),
		cmocka_unit_test(out_of_sync_is_true),
		cmocka_unit_test(a_peer_at_an_own_address),
		cmocka_unit_test(a_confirm_of_somebody_else),
		cmocka_unit_test(a_decline_in_place_of_a_proposal),
		cmocka_unit_test(through_a_router),
		cmocka_unit_test(an_rnic_that_changes),
		cmocka_unit_test(a_mac_from_afar),
		cmocka_unit_test(gids_that_no_peer_has),
		cmocka_unit_test(addresses_of_our_networks),
		cmocka_unit_test(network_that_is_lost),
		cmocka_unit_test(macs_that_no_peer_has),
		cmocka_unit_test(the_log_names_who_breaks_the_rules),
		cmocka_unit_test(confirms_that_are_declined),
		cmocka_unit_test(a_host_is_reached_while_it_has_an_active_link),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* Subsequent contact, and parallel groups (RFC 7609 3.5.2, 3.5.3). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/smcr/llc_links.h"
#include "tests/lib/enginepair_filter.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define S PAIR_SERVER
#define C PAIR_CLIENT

static void reuse_of_the_group(void **state)
{
	(void)state;
	int first;
	struct pair *pair = pair_grouped(2, &first);
	unsigned int qps = pair_num_qps(pair, S);
	int second = pair_connected(pair);
	const struct smcr_clc_accept *a = &pair_last_clc(pair, S, SMCR_CLC_ACCEPT)->clc.accept;
	assert_false(a->first_contact);
	for (size_t i = 0; i < pair->log_len; i++)
		assert_true(pair->log[i].is_clc); /* no LLC message */
	assert_int_equal(pair_num_qps(pair, S), qps);
	/* another element of the same RMB, another token */
	assert_int_equal(a->rmbe_index, 2);
	pair_exchange(pair, first);
	pair_exchange(pair, second);
	pair_close(pair, first);
	pair_close(pair, second);
	pair_free(pair);
	PROVES("RS-1 RS-2 RS-3 RMB-7 CLC-12");
}

/** An alert token names a connection, not an element: a CDC with the token of an old connection
 *  does not count for the connection that has the element now. */
static void stale_token(void **state)
{
	(void)state;
	int first;
	struct pair *pair = pair_grouped(1, &first);
	uint32_t token = pair_end(pair, first, S)->smc->token;
	pair_close(pair, first);
	int second = pair_connected(pair);
	assert_int_equal(pair_end(pair, second, S)->smc->rx.element.index, 1);
	assert_true(pair_end(pair, second, S)->smc->token != token);
	uint8_t buf[SMCR_CDC_LEN];
	const struct smcr_cdc cdc = { .seq = 1,
				      .alert_token = token,
				      .conn_flags = SMCR_CDC_ABORT };
	assert_int_equal(smcr_cdc_encode(&cdc, buf, sizeof(buf)), SMCR_CDC_LEN);
	pair_inject_raw(pair, C, 1, buf, sizeof(buf));
	pair_pump(pair);
	assert_int_equal(pair_engine_view(pair, S).cdc_dropped_token, 1);
	assert_int_equal(pair_link_view(pair, S, 1).state, SMCR_LINK_ACTIVE);
	pair_exchange(pair, second);
	/* a token of another group's connection does not count in this group */
	int back = pair_connect(pair, S);
	pair_pump(pair);
	struct smcr_cdc other = cdc;
	other.alert_token = pair_end(pair, back, S)->smc->token;
	assert_int_equal(smcr_cdc_encode(&other, buf, sizeof(buf)), SMCR_CDC_LEN);
	pair_inject_raw(pair, C, 1, buf, sizeof(buf));
	pair_pump(pair);
	assert_int_equal(pair_engine_view(pair, S).cdc_dropped_token, 2);
	assert_true(pair_both_established(pair, back));
	pair_free(pair);
	PROVES("CLC-12 CDC-5 SEC-6");
}

static size_t readable(struct smcr_conn *conn)
{
	struct iovec iov[2];
	size_t len = 0;
	for (int i = 0, n = smcr_conn_rx_data(conn, iov); i < n; i++)
		len += iov[i].iov_len;
	return len;
}

/** A peer has written farther than its cursor told, and closed in good order. Its bytes stay in the
 *  element (A62), but nobody reads them: the next connection has only what its own peer tells. */
static void leftovers_of_a_disorderly_peer(void **state)
{
	(void)state;
	int first;
	struct pair *pair = pair_grouped(1, &first);
	uint8_t *element = pair_end(pair, first, S)->smc->rx.element.addr;
	pair_send(pair, first, C, 100, 1);
	pair_pump(pair);
	memset(element + 300, 0xEE, 1000);
	assert_int_equal(readable(pair_end(pair, first, S)->smc), 100);
	pair_expect(pair, first, S, 100, 1);
	pair_close(pair, first);
	int second = pair_connected(pair);
	struct smcr_conn *conn = pair_end(pair, second, S)->smc;
	assert_ptr_equal(conn->rx.element.addr, element);
	assert_int_equal(element[99], 0);
	assert_int_equal(element[300], 0xEE);
	assert_int_equal(readable(conn), 0);
	pair_send(pair, second, C, 310, 2);
	pair_pump(pair);
	assert_int_equal(readable(conn), 310);
	pair_expect(pair, second, S, 310, 2);
	assert_int_equal(readable(conn), 0);
	pair_close(pair, second);
	pair_free(pair);
	PROVES("RMB-3");
}

static void client_may_write_at_once(void **state)
{
	(void)state;
	int first;
	struct pair *pair = pair_grouped(1, &first);
	struct pair_pick pick = {
		.from = C, .clc = true, .type = SMCR_CLC_CONFIRM, .verdict = PAIR_HOLD
	};
	pair_set_pick(pair, &pick);
	int second = pair_connect(pair, C);
	pair_pump(pair);
	/* the Confirm is on its way: the client is open, the server is not */
	assert_int_equal(pair_end(pair, second, C)->established, 1);
	assert_int_equal(pair_end(pair, second, S)->established, 0);
	pair_send(pair, second, C, 500, 5);
	pair_pump(pair);
	assert_int_equal(pair_end(pair, second, S)->readable, 0);
	pair_set_pick(pair, NULL);
	pair_pump(pair); /* the data were kept, and are delivered now */
	assert_int_equal(pair_end(pair, second, S)->established, 1);
	pair_expect(pair, second, S, 500, 5);
	/* the server writes as soon as it has processed the Confirm */
	pair_send(pair, second, S, 400, 6);
	pair_pump(pair);
	pair_expect(pair, second, C, 400, 6);
	pair_close(pair, first);
	pair_close(pair, second);
	pair_free(pair);
	PROVES("RS-8 RS-9 RS-10 RV-13");
}

/* ---- names in CLC messages ---- */

static struct smcr_clc_msg accept_for(struct pair *pair, const struct smcr_link *link,
				      const struct smcr_slab *slab, uint8_t index)
{
	struct smcr_clc_msg msg = { .type = SMCR_CLC_ACCEPT };
	msg.accept = (struct smcr_clc_accept){ .type = SMCR_CLC_ACCEPT,
					       .qpn = link->qpn,
					       .rkey = slab->reg[link->slot].rkey,
					       .rmbe_index = index,
					       .alert_token = 0x11223344,
					       .bsize = slab->bsize,
					       .mtu = link->mtu,
					       .rmb_vaddr = (uintptr_t)slab->base,
					       .psn = link->psn };
	struct smcr_config config = pair_config(link->lgr->role == SMCR_ROLE_SERVER ? S : C);
	(void)pair;
	memcpy(msg.accept.peer_id, config.peer_id, SMCR_PEER_ID_LEN);
	memcpy(msg.accept.gid, link->local_gid, SMCR_GID_LEN);
	memcpy(msg.accept.mac, link->local_mac, SMCR_MAC_LEN);
	return msg;
}

/** The client's engine gets this Accept; the connection has no other end. @return its answer */
static struct smcr_clc_msg client_answer(struct pair *pair, const struct smcr_clc_msg *accept,
					 int *ret_conn)
{
	struct smcr_clc_msg answer = { 0 };
	int c = pair_start_alone(pair, C, SMCR_ROLE_CLIENT);
	*ret_conn = c;
	pair_inject_clc(pair, c, S, accept);
	pair_pump(pair);
	const struct pair_clc *last = pair_end(pair, c, S)->in->prev;
	assert_int_equal(smcr_clc_decode(last->buf, last->len, &answer), 0);
	return answer;
}

static void accepts_that_do_not_match(void **state)
{
	(void)state;
	int c, t;
	struct pair *pair = pair_grouped(2, &c);
	const struct smcr_slab *slab = pair_lgr(pair, S)->rmbs;
	struct smcr_link *link = pair_link(pair, S, 1);
	const struct smcr_clc_msg good = accept_for(pair, link, slab, 3);
	struct smcr_clc_msg bad, answer = client_answer(pair, &good, &t);
	assert_int_equal(answer.type, SMCR_CLC_CONFIRM);
	/* peer ID, GID, MAC and QPN must all belong to an active link; otherwise the client is out
	 * of sync (ERR-9) */
	for (int i = 0; i < 4; i++) {
		bad = good;
		bad.accept.rmbe_index = 4;
		if (i == 0)
			bad.accept.peer_id[7] ^= 1;
		else if (i == 1)
			bad.accept.gid[15] ^= 1;
		else if (i == 2)
			bad.accept.mac[5] ^= 1;
		else
			bad.accept.qpn ^= 1;
		answer = client_answer(pair, &bad, &t);
		assert_int_equal(answer.type, SMCR_CLC_DECLINE);
		assert_true(answer.decline.out_of_sync);
		assert_int_equal(pair_end(pair, t, C)->fallback, 1);
	}
	/* an RToken that was never announced for that link: Decline, but not out of sync */
	bad = good;
	bad.accept.rkey ^= 0x5555;
	answer = client_answer(pair, &bad, &t);
	assert_int_equal(answer.type, SMCR_CLC_DECLINE);
	assert_false(answer.decline.out_of_sync);
	bad = good;
	bad.accept.rmb_vaddr += 4096;
	assert_int_equal(client_answer(pair, &bad, &t).type, SMCR_CLC_DECLINE);
	/* the RToken of one link is not valid on another */
	bad = good;
	bad.accept.rkey = slab->reg[pair_link(pair, S, 2)->slot].rkey;
	assert_int_equal(client_answer(pair, &bad, &t).type, SMCR_CLC_DECLINE);
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("RV-5 ERR-9 CLC-14 RS-4 RKEY-16");
}

static void assert_out_of_sync(const struct smcr_clc_msg *answer)
{
	assert_int_equal(answer->type, SMCR_CLC_DECLINE);
	assert_int_equal(answer->decline.diagnosis, SMCR_REASON_OUT_OF_SYNC);
	assert_true(answer->decline.out_of_sync);
}

/** The Accept names a link of a group with the roles reversed, or of another VLAN; all else in it
 *  is right. */
static void accepts_of_a_group_that_is_none_of_theirs(void **state)
{
	(void)state;
	for (int vlan = 0; vlan < 2; vlan++) {
		TRIES("vlan %d", vlan);
		int t;
		struct pair *pair = pair_new(NULL, NULL, 1, 1);
		int c = pair_connect(pair, vlan ? C : S);
		pair_pump(pair);
		assert_true(pair_both_established(pair, c));
		struct smcr_clc_msg msg =
			accept_for(pair, pair_link(pair, S, 1), pair_lgr(pair, S)->rmbs, 2);
		struct smcr_config config = pair_config(S);
		memcpy(msg.accept.peer_id, config.peer_id, SMCR_PEER_ID_LEN);
		if (vlan) {
			struct smcr_device_info info = pair_device(C, 1);
			info.vlan = pair->side[C].vlan = 5;
			pair_add_device_quietly(pair, C, &info);
		}
		struct smcr_clc_msg answer = client_answer(pair, &msg, &t);
		assert_out_of_sync(&answer);
		assert_int_equal(pair_end(pair, t, C)->fallback, 1);
		assert_int_equal(pair_link_view(pair, C, 1).num_conns, 1);
		pair_exchange(pair, c);
		pair_free(pair);
	}
	PROVES("RV-5 ERR-9 PLG-4");
}

/** All CDCs of a side are lost, as if it did not know the connection any more. */
static enum pair_verdict deaf(struct pair *pair, const struct pair_msg *msg, void *arg)
{
	(void)pair;
	return msg->is_cdc && msg->from == *(const int *)arg ? PAIR_LOSE : PAIR_PASS;
}

static void make_deaf(struct pair *pair, const int *side)
{
	pair->filter = side ? deaf : NULL;
	pair->filter_arg = (void *)side;
}

/** An Accept names an element that a connection of this client has. The peer does not answer for
 *  the old connection, so that one ends. */
static void reused_element_evicts_the_old_connection(void **state)
{
	(void)state;
	static const int server = S;
	int c, t;
	struct pair *pair = pair_grouped(2, &c);
	const struct smcr_slab *slab = pair_lgr(pair, S)->rmbs;
	/* the server names the element of the first connection, by its RToken on the other link */
	struct smcr_clc_msg accept = accept_for(pair, pair_link(pair, S, 2), slab, 1);
	make_deaf(pair, &server);
	struct smcr_clc_msg answer = client_answer(pair, &accept, &t);
	/* no answer yet: the peer is asked about the old connection */
	assert_int_equal(answer.type, SMCR_CLC_PROPOSAL);
	pair_run(pair, 1000000);
	assert_int_equal(pair_end(pair, t, C)->established, 0);
	assert_int_equal(pair_end(pair, c, C)->reset, 0);
	pair_run(pair, 1100000);
	assert_int_equal(pair_end(pair, t, C)->established, 1);
	assert_int_equal(pair_end(pair, c, C)->reset, 1);
	pair_run(pair, 10000000);
	assert_int_equal(pair_end(pair, c, C)->closed, 1);
	assert_true(pair_end(pair, c, C)->last.tcp_reset);
	pair_free(pair);
	PROVES("RS-4 RMB-9");
}

/** A client looks after 250 us, 500, 1000, .. 8000, and then every 16,000 us whether the element is
 * free. If a look falls on the very end of the time, it is the last one. */
static void the_last_look_is_in_time(void **state)
{
	(void)state;
	static const int server = S;
	const uint64_t ends = 250 + 500 + 1000 + 2000 + 4000 + 8000;
	struct smcr_config config = pair_config(C);
	int t;
	config.llc_timeout = 2 * ends;
	struct pair *pair = pair_new(NULL, &config, 2, 2);
	int c = pair_connected(pair);
	struct smcr_clc_msg accept =
		accept_for(pair, pair_link(pair, S, 2), pair_lgr(pair, S)->rmbs, 1);
	make_deaf(pair, &server);
	(void)client_answer(pair, &accept, &t);
	pair_run(pair, ends - 1);
	assert_int_equal(pair_end(pair, t, C)->established, 0);
	assert_int_equal(pair_end(pair, c, C)->reset, 0);
	pair_run(pair, 1);
	assert_int_equal(pair_end(pair, t, C)->established, 1);
	assert_int_equal(pair_end(pair, c, C)->reset, 1);
	pair_free(pair);
	PROVES("RMB-9");
}

/** Accepts that name an element of another program's connection, with the right RToken. That
 *  connection lives on, and the program that has connected to the liar gets plain TCP. */
static void an_element_of_somebody_else(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		TRIES("case %d", i);
		int c, t;
		struct pair *pair = pair_grouped(2, &c);
		const struct smcr_slab *slab = pair_lgr(pair, S)->rmbs;
		struct smcr_clc_msg accept = accept_for(pair, pair_link(pair, S, 2), slab, 1);
		bool last_word = i >= 2;
		if (i == 1)
			smcr_conn_shutdown(pair_end(pair, c, C)->smc);
		int writer = i == 2 ? C : S;
		if (last_word) { /* the CDC that came before was not read */
			pair_send(pair, c, writer, 100, 1);
			smcr_conn_close(pair_end(pair, c, writer)->smc, false);
		}
		pair_pump(pair);
		(void)client_answer(pair, &accept, &t);
		pair_run(pair, last_word ? 2100000 : 20000);
		const struct pair_clc *last = pair_end(pair, t, S)->in->prev;
		struct smcr_clc_msg answer;
		assert_int_equal(smcr_clc_decode(last->buf, last->len, &answer), 0);
		assert_int_equal(answer.type, SMCR_CLC_DECLINE);
		assert_int_equal(answer.decline.diagnosis, SMCR_REASON_RTOKEN);
		assert_int_equal(pair_end(pair, t, C)->fallback, 1);
		assert_int_equal(pair_end(pair, c, C)->reset, 0);
		if (i == 0)
			pair_exchange(pair, c);
		if (last_word)
			pair_expect(pair, c, !writer, 100, 1);
		pair_free(pair);
	}
	PROVES("RMB-7 SEC-6");
}

/** Elements that would overlap others, or reach beyond the last address: all elements of an RMB
 *  have one size, and no RMB is beyond. */
static void elements_that_cannot_be(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		TRIES("case %d", i);
		int c, t;
		struct pair *pair = pair_grouped(1, &c);
		struct smcr_peer_rmb *rmb = pair_lgr(pair, C)->peer_rmbs;
		struct smcr_clc_msg accept =
			accept_for(pair, pair_link(pair, S, 1), pair_lgr(pair, S)->rmbs, 4);
		const uint64_t vaddr = rmb->token[0].vaddr;
		if (i == 0)
			accept.accept.bsize++;
		else
			accept.accept.rmb_vaddr = rmb->token[0].vaddr = UINT64_MAX - 4 * 16384 + 1;
		struct smcr_clc_msg answer = client_answer(pair, &accept, &t);
		assert_int_equal(answer.type, SMCR_CLC_DECLINE);
		assert_int_equal(answer.decline.diagnosis, SMCR_REASON_RTOKEN);
		if (i == 1) { /* the element before it ends at the last address */
			accept.accept.rmbe_index = 3;
			assert_int_equal(client_answer(pair, &accept, &t).type, SMCR_CLC_CONFIRM);
			rmb->token[0].vaddr = vaddr;
		}
		pair_exchange(pair, c);
		pair_free(pair);
	}
	PROVES("RMB-1 SEC-6");
}

/** An Accept with the alert token of another connection: CDCs with that token would count for that
 *  connection. */
static void a_token_of_somebody_else(void **state)
{
	(void)state;
	int c, t;
	struct pair *pair = pair_grouped(1, &c);
	struct smcr_clc_msg accept =
		accept_for(pair, pair_link(pair, S, 1), pair_lgr(pair, S)->rmbs, 4);
	accept.accept.alert_token = pair_end(pair, c, S)->smc->token;
	(void)client_answer(pair, &accept, &t);
	pair_run(pair, 20000);
	assert_int_equal(pair_end(pair, t, C)->fallback, 1);
	assert_int_equal(pair_end(pair, t, C)->last.reason, SMCR_REASON_RTOKEN);
	pair_exchange(pair, c);
	/* the peer does not know the other connection any more */
	static const int server = S;
	make_deaf(pair, &server);
	assert_int_equal(client_answer(pair, &accept, &t).type, SMCR_CLC_PROPOSAL);
	pair_run(pair, 2100000);
	assert_int_equal(pair_end(pair, t, C)->established, 1);
	assert_int_equal(pair_end(pair, c, C)->reset, 1);
	pair_free(pair);
	PROVES("CLC-12 SEC-6");
}

/** CLC overtakes the last CDC of the connection that had the element: the new connection waits for
 *  it. */
static void the_last_word_comes_late(void **state)
{
	(void)state;
	int c, t;
	struct pair *pair = pair_grouped(2, &c);
	const struct smcr_slab *slab = pair_lgr(pair, S)->rmbs;
	struct smcr_clc_msg accept = accept_for(pair, pair_link(pair, S, 2), slab, 1);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_CDC, .verdict = PAIR_HOLD };
	pair_set_pick(pair, &pick);
	smcr_conn_abort(pair_end(pair, c, S)->smc);
	pair_pump(pair);
	assert_int_equal(client_answer(pair, &accept, &t).type, SMCR_CLC_PROPOSAL);
	pair_run(pair, 100000);
	assert_int_equal(pair_end(pair, t, C)->established, 0);
	pair_set_pick(pair, NULL);
	pair_run(pair, 20000);
	assert_int_equal(pair_end(pair, c, C)->reset, 1);
	assert_int_equal(pair_end(pair, t, C)->established, 1);
	pair_free(pair);
	PROVES("RS-4 RMB-9");
}

/** The link that CLC named, or the whole group, goes while the peer is asked about the old
 *  connection. */
static void a_contest_without_link(void **state)
{
	(void)state;
	static const int server = S;
	for (int group = 0; group < 2; group++) {
		TRIES("group %d", group);
		int c, t;
		struct pair *pair = pair_grouped(2, &c);
		const struct smcr_slab *slab = pair_lgr(pair, S)->rmbs;
		struct smcr_clc_msg accept = accept_for(pair, pair_link(pair, S, 2), slab, 1);
		make_deaf(pair, &server);
		(void)client_answer(pair, &accept, &t);
		if (group)
			smcr_lgr_end(pair_lgr(pair, C), ECONNRESET);
		else
			pair_qp_fails(pair, C, 2);
		pair_run(pair, 30000);
		assert_int_equal(pair_end(pair, t, C)->fallback, 1);
		pair_free(pair);
	}
	PROVES("RS-4 ERR-1");
}

/** After the server's Accept it gets a Confirm that the test has made. @return the server's end */
static struct pair_end *server_confirm(struct pair *pair,
				       void (*change)(struct pair *pair, struct smcr_clc_accept *))
{
	int c = pair_start_alone(pair, S, SMCR_ROLE_SERVER);
	struct smcr_link *link = pair_link(pair, C, 1);
	struct smcr_clc_msg proposal = { .type = SMCR_CLC_PROPOSAL };
	struct smcr_config config = pair_config(C);
	proposal.proposal = (struct smcr_clc_proposal){
		.version = 1, .offers_r_v1 = true, .ipv4_subnet = 0x0A000000, .ipv4_mask_len = 24
	};
	memcpy(proposal.proposal.peer_id, config.peer_id, SMCR_PEER_ID_LEN);
	memcpy(proposal.proposal.gid, link->local_gid, SMCR_GID_LEN);
	memcpy(proposal.proposal.mac, link->local_mac, SMCR_MAC_LEN);
	pair_inject_clc(pair, c, C, &proposal);
	pair_pump(pair);
	struct smcr_clc_msg confirm = accept_for(pair, link, pair_lgr(pair, C)->rmbs, 4);
	confirm.type = confirm.accept.type = SMCR_CLC_CONFIRM;
	if (change)
		change(pair, &confirm.accept);
	pair_inject_clc(pair, c, C, &confirm);
	pair_pump(pair);
	return pair_end(pair, c, S);
}

static void other_qpn(struct pair *pair, struct smcr_clc_accept *confirm)
{
	(void)pair;
	confirm->qpn ^= 3;
}

static void other_gid(struct pair *pair, struct smcr_clc_accept *confirm)
{
	(void)pair;
	confirm->gid[3] ^= 3;
}

static void other_mac(struct pair *pair, struct smcr_clc_accept *confirm)
{
	(void)pair;
	confirm->mac[5] ^= 3;
}

/** Puts MAC and GID of the client's other RNIC into the Confirm. */
static void gid_of_the_other_link(struct pair *pair, struct smcr_clc_accept *confirm)
{
	memcpy(confirm->gid, pair_link_view(pair, C, 2).local_gid, SMCR_GID_LEN);
	memcpy(confirm->mac, pair_link_view(pair, C, 2).local_mac, SMCR_MAC_LEN);
}

static void other_address(struct pair *pair, struct smcr_clc_accept *confirm)
{
	(void)pair;
	confirm->rmb_vaddr += 4096;
}

/** Puts the RMB's RToken on the other link into the Confirm. */
static void rkey_of_the_other_link(struct pair *pair, struct smcr_clc_accept *confirm)
{
	confirm->rkey = pair_lgr(pair, C)->rmbs->reg[pair_link(pair, C, 2)->slot].rkey;
}

static void other_rkey(struct pair *pair, struct smcr_clc_accept *confirm)
{
	(void)pair;
	confirm->rkey ^= 3;
}

static void name_link(struct pair *pair, struct smcr_clc_accept *confirm, uint8_t number)
{
	struct smcr_link *link = pair_link(pair, C, number);
	confirm->qpn = link->qpn;
	confirm->rkey = pair_lgr(pair, C)->rmbs->reg[link->slot].rkey;
	memcpy(confirm->gid, link->local_gid, SMCR_GID_LEN);
	memcpy(confirm->mac, link->local_mac, SMCR_MAC_LEN);
}

static void other_active_link(struct pair *pair, struct smcr_clc_accept *confirm)
{
	name_link(pair, confirm, 2);
}

static void third_link(struct pair *pair, struct smcr_clc_accept *confirm)
{
	name_link(pair, confirm, 3);
}

/** The client has confirmed a third link, which the server does not know yet: a Confirm may name
 *  that link (RS-6). */
static void link_that_is_being_confirmed(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	struct pair_pick pick = {
		.from = C, .type = SMCR_LLC_CONFIRM_LINK, .reply = true, .verdict = PAIR_HOLD
	};
	for (int side = 0; side < 2; side++) {
		struct smcr_device_info info = pair_device(side, 2);
		pair_add_device_quietly(pair, side, &info);
	}
	pair_set_pick(pair, &pick);
	pair_add_link(pair, S);
	pair_pump(pair);
	assert_int_equal(pair_lgr(pair, S)->llc->step, SMCR_LLC_S_CONFIRM_ADDED);
	assert_int_equal(pair_link_view(pair, C, 3).state, SMCR_LINK_ACTIVE);
	assert_int_equal(server_confirm(pair, third_link)->established, 1);
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("RS-6");
}

static void other_size(struct pair *pair, struct smcr_clc_accept *confirm)
{
	(void)pair;
	confirm->bsize++;
}

static void taken_element(struct pair *pair, struct smcr_clc_accept *confirm)
{
	(void)pair;
	confirm->rmbe_index = 1;
}

static void confirms_that_do_not_match(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	assert_int_equal(server_confirm(pair, NULL)->established, 1);
	/* a Confirm may name any active link of the group */
	pair_free(pair);
	pair = pair_grouped(2, &c);
	assert_int_equal(server_confirm(pair, other_active_link)->established, 1);
	/* too late for a Decline: the TCP connection is reset */
	void (*const wrong[])(struct pair *, struct smcr_clc_accept *) = {
		other_qpn,
		other_gid,
		other_mac,
		gid_of_the_other_link,
		rkey_of_the_other_link,
		other_rkey,
		other_address,
		other_size,
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		TRIES("row %zu", i);
		struct pair_end *end = server_confirm(pair, wrong[i]);
		assert_int_equal(end->failed, 1);
		assert_int_equal(end->established + end->fallback, 0);
		assert_int_equal(end->last.error, ECONNRESET);
		assert_true(end->tcp_dead);
		const struct pair_clc *said;
		struct smcr_clc_msg msg;
		DL_FOREACH (pair_end(pair, end->conn, C)->in, said)
			assert_true(!smcr_clc_decode(said->buf, said->len, &msg) &&
				    msg.type == SMCR_CLC_ACCEPT);
	}
	pair_exchange(pair, c);
	/* an element in use: the peer is asked, and still has the old connection */
	struct pair_end *end = server_confirm(pair, taken_element);
	assert_int_equal(end->established + end->failed, 0);
	pair_run(pair, 20000);
	assert_int_equal(end->failed, 1);
	assert_int_equal(end->last.reason, SMCR_REASON_RTOKEN);
	assert_true(end->tcp_dead);
	pair_exchange(pair, c);
	/* the peer does not have it: the old connection ends, the new one lives (RMB-9) */
	static const int client = C;
	make_deaf(pair, &client);
	end = server_confirm(pair, taken_element);
	pair_run(pair, 1900000);
	assert_int_equal(end->established + end->failed, 0);
	pair_run(pair, 200000);
	assert_int_equal(end->established, 1);
	assert_int_equal(pair_end(pair, c, S)->reset, 1);
	pair_free(pair);
	PROVES("RS-6 RS-7 RMB-9 ERR-4");
}

/** The group ends while the client waits for the outcome. */
static void a_contest_without_group(void **state)
{
	(void)state;
	static const int client = C;
	int c;
	struct pair *pair = pair_grouped(1, &c);
	make_deaf(pair, &client);
	struct pair_end *end = server_confirm(pair, taken_element);
	pair_run(pair, 20000);
	smcr_lgr_end(pair_lgr(pair, S), ECONNRESET);
	pair_run(pair, 20000);
	assert_int_equal(end->failed, 1);
	assert_true(end->tcp_dead);
	assert_null(pair_lgr(pair, S));
	pair_free(pair);
	PROVES("ERR-4");
}

/** The client's smcrd is stopped between Proposal and Confirm: the message that ends the group
 *  overtakes CLC. If it declines, both sides keep a whole TCP connection. If its Confirm was on its
 *  way, TCP is reset. */
static void the_group_ends_before_the_clients_answer(void **state)
{
	(void)state;
	for (int confirmed = 0; confirmed < 2; confirmed++) {
		TRIES("confirmed %d", confirmed);
		int first;
		struct pair *pair = pair_grouped(1, &first);
		struct pair_pick pick = { .from = confirmed ? C : S,
					  .clc = true,
					  .type = confirmed ? SMCR_CLC_CONFIRM : SMCR_CLC_ACCEPT,
					  .verdict = PAIR_HOLD };
		pair_set_pick(pair, &pick);
		int second = pair_connect(pair, C);
		pair_pump(pair);
		assert_int_equal(pair_end(pair, second, C)->established, confirmed);
		smcr_engine_shutdown(pair->side[C].engine);
		pair_pump(pair);
		assert_null(pair_lgr(pair, S));
		/* TCP was reset after a Confirm */
		assert_int_equal(pair_end(pair, second, S)->failed, confirmed);
		pair_set_pick(pair, NULL);
		pair_pump(pair);
		assert_int_equal(pair_end(pair, second, S)->fallback, !confirmed);
		assert_int_equal(pair_end(pair, second, S)->failed, confirmed);
		assert_int_equal(pair_end(pair, second, C)->fallback, !confirmed);
		pair_free(pair);
	}
	PROVES("ERR-3 ERR-4");
}

/* ---- choice of the group ---- */

static int connect_in(struct pair *pair, uint8_t net)
{
	pair->side[S].net = pair->side[C].net = net;
	int c = pair_connect(pair, C);
	pair_pump(pair);
	return c;
}

static struct smcr_lgr *group_of(struct pair *pair, int conn, int side)
{
	return pair_end(pair, conn, side)->smc->lgr;
}

/** The server chooses by peer and LAN: an existing group, a new group, or none. */
static void one_group_for_each_lan(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 0, 0);
	for (int side = 0; side < 2; side++)
		for (uint8_t net = 0; net < 2; net++) {
			struct smcr_device_info info = pair_device(side, net);
			info.gid[14] = info.prefixes[0].ip[2] = net;
			pair_add_device(pair, side, &info);
		}
	int c[4];
	for (int i = 0; i < 4; i++) {
		c[i] = connect_in(pair, i % 2);
		assert_true(pair_both_established(pair, c[i]));
		const struct smcr_clc_accept *a =
			&pair_last_clc(pair, S, SMCR_CLC_ACCEPT)->clc.accept;
		assert_int_equal(a->first_contact, i < 2);
		assert_int_equal(a->gid[14], i % 2);
	}
	for (int side = 0; side < 2; side++) {
		assert_ptr_equal(group_of(pair, c[0], side), group_of(pair, c[2], side));
		assert_ptr_equal(group_of(pair, c[1], side), group_of(pair, c[3], side));
		assert_ptr_not_equal(group_of(pair, c[0], side), group_of(pair, c[1], side));
	}
	/* The client's third LAN is not one of the server's: the server declines. */
	struct smcr_device_info info = pair_device(C, 2);
	info.gid[14] = info.prefixes[0].ip[2] = 2;
	pair_add_device_quietly(pair, C, &info);
	pair->side[S].net = pair->side[C].net = 2;
	int plain = pair_connect(pair, C);
	while (!pair_end(pair, plain, S)->fallback)
		assert_true(pair_step(pair));
	assert_int_equal(pair_end(pair, plain, S)->last.reason, SMCR_REASON_PREFIX_MISMATCH);
	/* the client has not read the Decline yet */
	assert_int_equal(pair_end(pair, plain, C)->fallback, 0);
	pair_pump(pair);
	assert_int_equal(pair_end(pair, plain, C)->fallback, 1);
	for (int i = 0; i < 4; i++)
		pair_exchange(pair, c[i]);
	pair_free(pair);
	PROVES("RV-2 RV-3");
}

/* ---- parallel and reversed groups ---- */

static void reversed_roles(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(1, &c);
	int back = pair_connect(pair, S); /* the server's host opens a connection to the client's */
	pair_pump(pair);
	assert_true(pair_both_established(pair, back));
	assert_true(pair_last_clc(pair, C, SMCR_CLC_ACCEPT)->clc.accept.first_contact);
	assert_int_equal(pair_num_qps(pair, S), 2);
	pair_exchange(pair, c);
	pair_exchange(pair, back);
	/* each RMB belongs to one group (PLG-3) */
	const struct smcr_lgr *one = pair_lgr(pair, S), *two = one->next;
	assert_true(one->role != two->role);
	assert_true(one->rmbs->reg[0].rkey != two->rmbs->reg[0].rkey);
	assert_true(one->rmbs->base != two->rmbs->base);
	pair_close(pair, c);
	pair_close(pair, back);
	pair_free(pair);
	PROVES("PLG-3 PLG-4 LG-15 RV-2");
}

/** The server has lost its group, and says so with F=1 (A65). */
static void server_starts_anew(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(1, &c);
	struct smcr_config config = pair_config(S);
	smcr_engine_free(pair->side[S].engine);
	pair_end(pair, c, S)->smc = NULL;
	pair_start_engine(&pair->side[S], &config);
	assert_int_equal(smcr_engine_device_add(pair->side[S].engine, &pair->side[S].devices[0]),
			 0);
	/* PLG-2: another group, with a QP and an RMB of its own. */
	int second = pair_connected(pair);
	assert_int_equal(pair_num_qps(pair, C), 2);
	pair_exchange(pair, second);
	pair_send(pair, c, C, 10, 1); /* the old connection finds its link dead */
	pair_run(pair, 5000000);
	assert_int_equal(pair_num_qps(pair, C), 1);
	assert_int_equal(pair_end(pair, c, C)->reset, 1);
	pair_exchange(pair, second);
	pair_close(pair, second);
	pair_free(pair);
	PROVES("PLG-2");
}

static void server_reuses_the_qpn(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(1, &c);
	struct smcr_config config = pair_config(S);
	smcr_engine_free(pair->side[S].engine);
	pair_end(pair, c, S)->smc = NULL;
	pair->side[S].next_qpn = pair_link_view(pair, C, 1).peer_qpn;
	pair_start_engine(&pair->side[S], &config);
	assert_int_equal(smcr_engine_device_add(pair->side[S].engine, &pair->side[S].devices[0]),
			 0);
	int second = pair_connected(pair);
	/* the old link has failed at once, not when it was used */
	assert_int_equal(pair_num_qps(pair, C), 1);
	assert_int_equal(pair_end(pair, c, C)->reset, 1);
	pair_exchange(pair, second);
	pair_close(pair, second);
	pair_free(pair);
	PROVES("PLG-5");
}

/** Any host can claim that it has a new queue pair with the number to which a link leads. The link
 *  stays until a message of the claimed peer has come over it. */
static void somebody_claims_the_qpn(void **state)
{
	(void)state;
	int c, t;
	struct pair *pair = pair_grouped(1, &c);
	struct smcr_clc_msg accept =
		accept_for(pair, pair_link(pair, S, 1), pair_lgr(pair, S)->rmbs, 2);
	accept.accept.first_contact = true;
	assert_int_equal(client_answer(pair, &accept, &t).type, SMCR_CLC_CONFIRM);
	pair_exchange(pair, c);
	pair_run(pair, 30000000);
	assert_int_equal(pair_end(pair, t, C)->established, 0);
	assert_null(pair_end(pair, t, C)->smc);
	assert_int_equal(pair_link_view(pair, C, 1).state, SMCR_LINK_ACTIVE);
	pair_exchange(pair, c);
	pair_close(pair, c);
	pair_free(pair);
	PROVES("PLG-5 SEC-6");
}

/** In the RFC's dialect each side chooses a link for itself. */
static void links_are_chosen_independently(void **state)
{
	(void)state;
	struct smcr_config config = pair_config(S);
	config.dialect = SMCR_DIALECT_FORCE_RFC;
	struct pair *pair = pair_new(&config, NULL, 2, 2);
	int first = pair_connected(pair);
	/* make the client's link 1 look busy */
	pair_link(pair, C, 1)->num_named += 10;
	pair_link(pair, S, 2)->num_named += 10;
	struct smcr_conn *smc;
	int second = pair_start_alone(pair, S, SMCR_ROLE_SERVER);
	struct smcr_conn_params params = pair_params(pair, C, SMCR_ROLE_CLIENT, second);
	assert_int_equal(smcr_conn_start(pair->side[C].engine, &params, &smc), 0);
	pair_end(pair, second, C)->smc = smc;
	while (!pair_end(pair, second, S)->established) {
		/* without pair_pump(), which would notice that the counts are wrong on purpose */
		struct pair_clc *clc;
		for (int i = 0; i < 2; i++)
			if ((clc = pair_end(pair, second, i)->in) != NULL) {
				DL_DELETE(pair_end(pair, second, i)->in, clc);
				smcr_conn_clc_input(pair_end(pair, second, i)->smc, clc->buf,
						    clc->len);
				free(clc);
			}
	}
	pair_link(pair, C, 1)->num_named -= 10;
	pair_link(pair, S, 2)->num_named -= 10;
	assert_int_equal(pair_conn_view(pair, second, C).link_number, 2);
	assert_int_equal(pair_conn_view(pair, second, S).link_number, 1);
	pair_exchange(pair, second);
	pair_close(pair, first);
	pair_close(pair, second);
	pair_free(pair);
	PROVES("RS-11");
}

/** The link that CLC has named is disabled meanwhile: the connection uses the other link, unless
 *  the peer's RMB has no RToken there. */
static void named_link_is_disabled(void **state)
{
	(void)state;
	for (int announced = 0; announced < 2; announced++) {
		TRIES("announced %d", announced);
		int first;
		struct pair *pair = pair_grouped(2, &first);
		struct pair_pick pick = {
			.from = C, .clc = true, .type = SMCR_CLC_CONFIRM, .verdict = PAIR_HOLD
		};
		pair_set_pick(pair, &pick);
		int second = pair_connect(pair, C);
		pair_pump(pair);
		struct smcr_conn *conn = pair_end(pair, second, S)->smc;
		struct smcr_link *named = conn->rv.link;
		struct smcr_link *other = pair_link(pair, S, 3 - named->number);
		struct smcr_rtoken *token = &pair_lgr(pair, S)->peer_rmbs->token[other->slot];
		named->disabled = true;
		token->valid = announced;
		pair_lgr(pair, S)->llc->rkey.hold = true; /* RTokens are still being announced */
		pair_set_pick(pair, NULL);
		while (!pair_end(pair, second, S)->established)
			assert_true(pair_step(pair));
		assert_ptr_equal(conn->tx.link, announced ? other : named);
		token->valid = true;
		pair_lgr(pair, S)->llc->rkey.hold = false;
		pair_exchange(pair, first);
		pair_exchange(pair, second);
		pair_close(pair, first);
		pair_close(pair, second);
		pair_free(pair);
	}
	PROVES("RS-11");
}

/** The peer waits for Accept or Confirm while an RMB is announced on one link after the other. A
 *  Decline goes out in time: later the peer would break the TCP connection. */
static void an_announcement_takes_too_long(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		int conns[4], late;
		struct pair *pair = pair_grouped(2, &conns[0]);
		for (int i = 1; i < 4; i++)
			conns[i] = pair_connected(pair); /* the first RMB is full */
		struct pair_pick pick = { .from = side,
					  .type = SMCR_LLC_CONFIRM_RKEY,
					  .verdict = PAIR_LOSE };
		pair_set_pick(pair, &pick);
		late = pair_connect(pair, C);
		pair_run(pair, 4900000);
		assert_int_equal(pick.seen, 2);
		assert_int_equal(pair_count_clc(pair, side, SMCR_CLC_DECLINE), 0);
		pair_run(pair, 200000);
		assert_int_equal(pair_count_clc(pair, side, SMCR_CLC_DECLINE), 1);
		assert_int_equal(pair_last_clc(pair, side, SMCR_CLC_DECLINE)->clc.decline.diagnosis,
				 SMCR_REASON_RKEY_EXCHANGE);
		for (int i = 0; i < 2; i++)
			assert_int_equal(pair_end(pair, late, i)->fallback, 1);
		for (int i = 0; i < 4; i++)
			pair_exchange(pair, conns[i]);
		pair_free(pair);
	}
	PROVES("RKEY-9 ERR-10");
}

/** TCP may be far behind the links: the link that Confirm names has gone, and so have those that
 *  replaced it one after the other. Confirm still tells which RMB is meant (A59). */
static void confirm_many_links_late(void **state)
{
	(void)state;
	int first;
	struct pair *pair = pair_grouped(2, &first);
	struct pair_pick pick = {
		.from = C, .clc = true, .type = SMCR_CLC_CONFIRM, .verdict = PAIR_HOLD
	};
	pair_set_pick(pair, &pick);
	int c = pair_connect(pair, C);
	pair_pump(pair);
	assert_int_equal(pair_end(pair, c, C)->established, 1);
	for (int i = 0; i < 24; i++) {
		const struct smcr_lgr *lgr = pair_lgr(pair, S);
		uint8_t oldest = smcr_lgr_any_link(lgr, NULL)->number;
		for (unsigned int slot = 0; slot < SMCR_LINK_SLOTS; slot++)
			if (lgr->links[slot] && lgr->links[slot]->number < oldest)
				oldest = lgr->links[slot]->number;
		pair_fail_link(pair, S, oldest);
		pair_pump(pair);
		pair_add_link(pair, S);
		pair_pump(pair);
		assert_null(pair_link(pair, S, oldest));
		assert_int_equal(smcr_llc_symmetric_links(lgr), 2);
	}
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	assert_true(pair_both_established(pair, c));
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("RS-7 ERR-4");
}

/** The link that Confirm names has failed, and the client has not agreed yet to delete it (A59). */
static void confirm_names_a_link_that_has_failed(void **state)
{
	(void)state;
	for (uint8_t number = 1; number <= 2; number++) {
		TRIES("link %d", number);
		int first, c[2];
		struct pair *pair = pair_grouped(2, &first);
		struct pair_pick pick = {
			.from = C, .clc = true, .type = SMCR_CLC_CONFIRM, .verdict = PAIR_HOLD
		};
		bool named = false;
		pair_set_pick(pair, &pick);
		for (int i = 0; i < 2; i++) {
			c[i] = pair_connect(pair, C);
			pair_pump(pair);
			assert_int_equal(pair_end(pair, c[i], C)->established, 1);
			named |= pair_conn_view(pair, c[i], C).link_number == number;
		}
		assert_true(named);
		struct pair_pick order = { .from = S,
					   .type = SMCR_LLC_DELETE_LINK,
					   .verdict = PAIR_HOLD };
		pair_fail_link(pair, S, number);
		pair_set_pick(pair, &order);
		pair_pump(pair);
		assert_int_equal(pair_link_view(pair, S, number).state, SMCR_LINK_FAILED);
		for (int i = 0; i < 2; i++)
			assert_int_equal(pair_end(pair, c[i], S)->established, 1);
		pair_set_pick(pair, NULL);
		pair_pump(pair);
		for (int i = 0; i < 2; i++)
			pair_exchange(pair, c[i]);
		pair_free(pair);
	}
	PROVES("RS-7 ERR-4");
}

/**
 * As in the kernel the client has an RMB for each connection, and a group has 255 at most. Further
 * connections use another group; none is declined (LG-14). They come one by one, or all during the
 * first contact, so that many RMBs are promised that are not announced yet.
 */
static void one_rmb_a_connection(void **state)
{
	(void)state;
	for (int at_once = 0; at_once < 2; at_once++) {
		TRIES("at once %d", at_once);
		struct smcr_config config[2] = { pair_config(S), pair_config(C) };
		config[S].elements_per_rmb = 0;
		config[C].elements_per_rmb = 1;
		struct pair *pair = pair_new(&config[S], &config[C], 1, 1);
		int c[SMCR_MAX_RMBS + 3];
		for (int i = 0; i < SMCR_MAX_RMBS + 3; i++)
			c[i] = at_once ? pair_connect(pair, C) : pair_connected(pair);
		pair_run(pair, 1000000);
		for (int i = 0; i < SMCR_MAX_RMBS + 3; i++)
			assert_true(pair_both_established(pair, c[i]));
		const struct smcr_lgr *lgr = pair_lgr(pair, S);
		assert_int_equal(lgr->version, SMCR_CLC_VERSION_1);
		assert_int_equal(lgr->num_conns, SMCR_MAX_RMBS);
		assert_int_equal(lgr->next->num_conns, 3);
		pair_exchange(pair, c[SMCR_MAX_RMBS + 2]);
		/* when a connection has left, the group takes another one */
		pair_close(pair, c[7]);
		c[7] = pair_connected(pair);
		assert_int_equal(lgr->num_conns, SMCR_MAX_RMBS);
		pair_exchange(pair, c[7]);
		pair_free(pair);
	}
	PROVES("LG-13 LG-14");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reuse_of_the_group),
		cmocka_unit_test(stale_token),
		cmocka_unit_test(leftovers_of_a_disorderly_peer),
		cmocka_unit_test(client_may_write_at_once),
		cmocka_unit_test(accepts_that_do_not_match),
		cmocka_unit_test(accepts_of_a_group_that_is_none_of_theirs),
		cmocka_unit_test(reused_element_evicts_the_old_connection),
		cmocka_unit_test(the_last_look_is_in_time),
		cmocka_unit_test(an_element_of_somebody_else),
		cmocka_unit_test(the_last_word_comes_late),
		cmocka_unit_test(elements_that_cannot_be),
		cmocka_unit_test(a_token_of_somebody_else),
		cmocka_unit_test(a_contest_without_link),
		cmocka_unit_test(a_contest_without_group),
		cmocka_unit_test(confirms_that_do_not_match),
		cmocka_unit_test(link_that_is_being_confirmed),
		cmocka_unit_test(the_group_ends_before_the_clients_answer),
		cmocka_unit_test(one_group_for_each_lan),
		cmocka_unit_test(reversed_roles),
		cmocka_unit_test(server_starts_anew),
		cmocka_unit_test(server_reuses_the_qpn),
		cmocka_unit_test(somebody_claims_the_qpn),
		cmocka_unit_test(links_are_chosen_independently),
		cmocka_unit_test(named_link_is_disabled),
		cmocka_unit_test(an_announcement_takes_too_long),
		cmocka_unit_test(confirm_many_links_late),
		cmocka_unit_test(confirm_names_a_link_that_has_failed),
		cmocka_unit_test(one_rmb_a_connection),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* Subsequent contact, and RMBs that come and go in a running group (RFC 7609 3.5.2, 3.5.5.2). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/enginepair_filter.h"
#include "tests/lib/proves.h"

#define S PAIR_SERVER
#define C PAIR_CLIENT

static int connected(struct pair *pair)
{
	int c = pair_connect(pair, C);
	pair_pump(pair);
	assert_true(pair_both_established(pair, c));
	return c;
}

/** A pair with a group, and one connection in it. */
static struct pair *grouped(size_t rnics, int *ret_conn)
{
	struct pair *pair = pair_new(NULL, NULL, rnics, rnics);
	*ret_conn = connected(pair);
	pair_clear_log(pair);
	return pair;
}

static void reuse_of_the_group(void **state)
{
	(void)state;
	int first;
	struct pair *pair = grouped(2, &first);
	unsigned int qps = pair_num_qps(pair, S);
	int second = connected(pair);
	const struct smcr_clc_accept *a = &pair_last_clc(pair, S, SMCR_CLC_ACCEPT)->clc.accept;
	assert_false(a->first_contact);
	for (size_t i = 0; i < pair->log_len; i++)
		assert_true(pair->log[i].is_clc); /* no LLC at all */
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

/** An alert token names a connection, not an element: that of an old one is not taken for the one
 *  that has the element now. */
static void stale_token(void **state)
{
	(void)state;
	int first;
	struct pair *pair = grouped(1, &first);
	uint32_t token = pair_end(pair, first, S)->smc->token;
	pair_close(pair, first);
	int second = connected(pair);
	assert_int_equal(pair_end(pair, second, S)->smc->rx.element.index, 1);
	assert_true(pair_end(pair, second, S)->smc->token != token);
	uint8_t buf[SMCR_CDC_LEN];
	const struct smcr_cdc cdc = { .seq = 1,
				      .alert_token = token,
				      .conn_flags = SMCR_CDC_ABORT };
	assert_int_equal(smcr_cdc_encode(&cdc, buf, sizeof(buf)), SMCR_CDC_LEN);
	pair_inject_raw(pair, C, 1, buf, sizeof(buf));
	pair_pump(pair);
	assert_int_equal(pair->side[S].engine->count.cdc_dropped_token, 1);
	assert_int_equal(pair_link(pair, S, 1)->state, SMCR_LINK_ACTIVE);
	pair_exchange(pair, second);
	/* a token of another group is no token here either */
	int back = pair_connect(pair, S);
	pair_pump(pair);
	struct smcr_cdc other = cdc;
	other.alert_token = pair_end(pair, back, S)->smc->token;
	assert_int_equal(smcr_cdc_encode(&other, buf, sizeof(buf)), SMCR_CDC_LEN);
	pair_inject_raw(pair, C, 1, buf, sizeof(buf));
	pair_pump(pair);
	assert_int_equal(pair->side[S].engine->count.cdc_dropped_token, 2);
	assert_true(pair_both_established(pair, back));
	pair_free(pair);
	PROVES("CLC-12 CDC-5 SEC-6");
}

static void client_may_write_at_once(void **state)
{
	(void)state;
	int first;
	struct pair *pair = grouped(1, &first);
	struct pair_pick pick = {
		.from = C, .clc = true, .type = SMCR_CLC_CONFIRM, .verdict = PAIR_HOLD
	};
	pair_set_pick(pair, &pick);
	int second = pair_connect(pair, C);
	pair_pump(pair);
	/* its Confirm is on its way: the client is open, the server is not */
	assert_int_equal(pair_end(pair, second, C)->established, 1);
	assert_int_equal(pair_end(pair, second, S)->established, 0);
	pair_send(pair, second, C, 500, 5);
	pair_pump(pair);
	assert_int_equal(pair_end(pair, second, S)->readable, 0);
	pair_set_pick(pair, NULL);
	pair_pump(pair); /* kept, and delivered now */
	assert_int_equal(pair_end(pair, second, S)->established, 1);
	pair_expect(pair, second, S, 500, 5);
	/* the server writes as soon as it has processed Confirm */
	pair_send(pair, second, S, 400, 6);
	pair_pump(pair);
	pair_expect(pair, second, C, 400, 6);
	pair_close(pair, first);
	pair_close(pair, second);
	pair_free(pair);
	PROVES("RS-8 RS-9 RS-10 RV-13");
}

static void both_sides_add_an_rmb(void **state)
{
	(void)state;
	int c[9];
	struct pair *pair = grouped(2, &c[0]);
	for (int i = 1; i < 4; i++)
		c[i] = connected(pair);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_CONFIRM_RKEY, false), 0);
	pair_clear_log(pair);
	c[4] = connected(pair); /* four elements an RMB */
	/* server's CONFIRM RKEY before Accept, client's before Confirm */
	static const struct {
		int from;
		bool clc;
		uint8_t type;
		bool reply;
	} order[] = {
		{ C, true, SMCR_CLC_PROPOSAL, false },
		{ S, false, SMCR_LLC_CONFIRM_RKEY, false },
		{ C, false, SMCR_LLC_CONFIRM_RKEY, true },
		{ S, true, SMCR_CLC_ACCEPT, false },
		{ C, false, SMCR_LLC_CONFIRM_RKEY, false },
		{ S, false, SMCR_LLC_CONFIRM_RKEY, true },
		{ C, true, SMCR_CLC_CONFIRM, false },
	};
	assert_int_equal(pair->log_len, sizeof(order) / sizeof(order[0]));
	for (size_t i = 0; i < pair->log_len; i++) {
		const struct pair_msg *m = &pair->log[i];
		assert_int_equal(m->from, order[i].from);
		assert_int_equal(m->is_clc, order[i].clc);
		assert_int_equal(m->is_clc ? m->clc.type : m->llc.type, order[i].type);
		assert_int_equal(m->is_clc ? false : m->llc.reply, order[i].reply);
	}
	/* the message tells the own link's RToken and that of the other one; the reply echoes */
	const struct smcr_llc_confirm_rkey *r =
		&pair_last_llc(pair, S, SMCR_LLC_CONFIRM_RKEY, false)->llc.confirm_rkey;
	const struct smcr_llc_confirm_rkey *e =
		&pair_last_llc(pair, C, SMCR_LLC_CONFIRM_RKEY, true)->llc.confirm_rkey;
	uint8_t carrier = pair_last_llc(pair, S, SMCR_LLC_CONFIRM_RKEY, false)->link;
	const struct smcr_slab *slab = pair_lgr(pair, S)->rmbs->next;
	struct smcr_link *other = pair_link(pair, S, carrier == 1 ? 2 : 1);
	assert_int_equal(r->num_tokens, 1);
	assert_int_equal(r->rkey, slab->reg[pair_link(pair, S, carrier)->slot].rkey);
	assert_int_equal(r->other[0].link_number, other->number);
	assert_int_equal(r->other[0].rkey, slab->reg[other->slot].rkey);
	assert_true(r->vaddr == (uintptr_t)slab->base);
	assert_memory_equal(r, e, sizeof(*r));
	/* on the link that the first connection of the RMB uses (RKEY-2) */
	assert_int_equal(pair_link(pair, S, carrier)->qpn,
			 pair_last_clc(pair, S, SMCR_CLC_ACCEPT)->clc.accept.qpn);
	for (int i = 0; i < 5; i++)
		pair_exchange(pair, c[i]);
	for (int i = 0; i < 5; i++)
		pair_close(pair, c[i]);
	pair_free(pair);
	PROVES("RS-3 RS-5 RKEY-1 RKEY-2 RKEY-3 RKEY-5 RKEY-11 LLC-5 RMB-10 SER-3");
}

static void fill_first_rmb(struct pair *pair, int *conns, int n)
{
	for (int i = 0; i < n; i++)
		conns[i] = connected(pair);
	pair_clear_log(pair);
}

static void unused_rmb_is_deleted(void **state)
{
	(void)state;
	int c[6];
	struct pair *pair = grouped(2, &c[0]);
	fill_first_rmb(pair, c + 1, 5);
	assert_int_equal(smcr_lgr_num_rmbs(pair_lgr(pair, S)), 2);
	uint64_t memory = pair->side[S].engine->memory_used;
	pair_close(pair, c[4]);
	pair_run(pair, 59000000);
	pair_close(pair, c[5]);
	pair_run(pair, 59000000); /* a delay against thrashing, from the last use */
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_DELETE_RKEY, false), 0);
	/* the memory stays until the reply has come */
	struct pair_pick pick = {
		.from = C, .type = SMCR_LLC_DELETE_RKEY, .reply = true, .verdict = PAIR_HOLD
	};
	pair_set_pick(pair, &pick);
	pair_run(pair, 1100000);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_DELETE_RKEY, false), 1);
	assert_int_equal(smcr_lgr_num_rmbs(pair_lgr(pair, S)), 2);
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	assert_int_equal(smcr_lgr_num_rmbs(pair_lgr(pair, S)), 1);
	assert_int_equal(smcr_lgr_num_rmbs(pair_lgr(pair, C)), 1);
	assert_int_equal(smcr_peer_rmb_count(pair_lgr(pair, S)), 1);
	assert_true(pair->side[S].engine->memory_used < memory);
	assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_DELETE_RKEY, false), 1);
	/* one stays for the next connection */
	for (int i = 0; i < 4; i++)
		pair_close(pair, c[i]);
	pair_run(pair, 120000000);
	assert_int_equal(smcr_lgr_num_rmbs(pair_lgr(pair, S)), 1);
	c[0] = connected(pair);
	pair_exchange(pair, c[0]);
	pair_close(pair, c[0]);
	pair_free(pair);
	PROVES("RKEY-13 RKEY-14");
}

static void delete_unknown_rkeys(void **state)
{
	(void)state;
	int c;
	struct pair *pair = grouped(2, &c);
	struct smcr_llc_msg msg = { .type = SMCR_LLC_DELETE_RKEY };
	msg.delete_rkey.count = 4;
	msg.delete_rkey.rkey[0] = 0xDEAD;
	msg.delete_rkey.rkey[1] = 0xBEEF;
	/* the only known one, by its name on link 2 */
	msg.delete_rkey.rkey[2] = pair_lgr(pair, C)->rmbs->reg[pair_link(pair, C, 2)->slot].rkey;
	msg.delete_rkey.rkey[3] = 0;
	struct pair_pick pick = {
		.from = S, .type = SMCR_LLC_DELETE_RKEY, .reply = true, .verdict = PAIR_LOSE
	};
	pair_set_pick(pair, &pick);
	pair_inject_llc(pair, C, 2, &msg);
	assert_int_equal(smcr_peer_rmb_count(pair_lgr(pair, S)), 0);
	/* not to be written with any more, on any link (RKEY-16) */
	struct smcr_peer_rmb *rmb = pair_lgr(pair, S)->peer_rmbs;
	assert_true(rmb->withdrawn && !rmb->token[0].valid && !rmb->token[1].valid);
	pair_pump(pair);
	assert_int_equal(pick.seen, 1);
	pair_free(pair);
}

/** The scripted peer sees the reply to its DELETE RKEY. */
static enum pair_verdict see_reply(struct pair *pair, const struct pair_msg *msg, void *arg)
{
	(void)pair;
	if (msg->is_clc || msg->is_cdc || !msg->llc.reply)
		return PAIR_PASS;
	*(struct smcr_llc_msg *)arg = msg->llc;
	return PAIR_LOSE;
}

static void delete_rkey_reply(void **state)
{
	(void)state;
	int c;
	struct pair *pair = grouped(1, &c);
	struct smcr_llc_msg msg = { .type = SMCR_LLC_DELETE_RKEY }, reply = { 0 };
	msg.delete_rkey.count = 8;
	for (int i = 0; i < 8; i++)
		msg.delete_rkey.rkey[i] = 0xDEAD0000u + (unsigned int)i;
	msg.delete_rkey.rkey[5] = pair_lgr(pair, C)->rmbs->reg[0].rkey;
	pair->filter = see_reply;
	pair->filter_arg = &reply;
	pair_inject_llc(pair, C, 1, &msg);
	pair_pump(pair);
	assert_int_equal(reply.type, SMCR_LLC_DELETE_RKEY);
	assert_true(reply.delete_rkey.negative);
	assert_int_equal(reply.delete_rkey.error_mask, 0xFB);
	assert_memory_equal(reply.delete_rkey.rkey, msg.delete_rkey.rkey,
			    sizeof(msg.delete_rkey.rkey));
	assert_int_equal(smcr_peer_rmb_count(pair_lgr(pair, S)), 0);
	pair_free(pair);
	PROVES("RKEY-14 RKEY-16 ERR-59");
}

static void negative_delete_is_only_logged(void **state)
{
	(void)state;
	int c[5];
	struct pair *pair = grouped(1, &c[0]);
	fill_first_rmb(pair, c + 1, 4);
	/* the client forgets the server's second RMB by itself */
	struct smcr_peer_rmb *rmb = pair_lgr(pair, C)->peer_rmbs->next;
	pair_close(pair, c[4]);
	smcr_peer_rmb_withdraw(pair_lgr(pair, C), rmb);
	pair_run(pair, 61000000);
	const struct pair_msg *reply = pair_last_llc(pair, C, SMCR_LLC_DELETE_RKEY, true);
	assert_true(reply->llc.delete_rkey.negative);
	assert_int_equal(smcr_lgr_num_rmbs(pair_lgr(pair, S)), 1);
	assert_int_equal(pair_link(pair, S, 1)->state, SMCR_LINK_ACTIVE);
	for (int i = 0; i < 4; i++)
		pair_close(pair, c[i]);
	pair_free(pair);
	PROVES("RKEY-15");
}

/* ---- CONFIRM RKEY that does not go through ---- */

/** Answer the first CONFIRM RKEY of one side negatively, in the name of the other. */
struct refusal {
	int from;
	bool retry;
	int times;
};

static enum pair_verdict refuse(struct pair *pair, const struct pair_msg *msg, void *arg)
{
	struct refusal *r = arg;
	(void)pair;
	if (msg->is_clc || msg->is_cdc || msg->from != r->from || msg->llc.reply ||
	    msg->llc.type != SMCR_LLC_CONFIRM_RKEY)
		return PAIR_PASS;
	return r->times > 0 ? PAIR_LOSE : PAIR_PASS;
}

/** Let one connection run into `times` refusals of its side's RMB. */
static int refused(struct pair *pair, struct refusal *r)
{
	int c = pair_connect(pair, C);
	pair->filter = refuse;
	pair->filter_arg = r;
	for (; r->times > 0; r->times--) {
		pair_run(pair, 200000);
		struct smcr_lgr *lgr = pair_lgr(pair, r->from);
		assert_int_equal(lgr->llc->rkey.step, SMCR_RKEY_CONFIRM);
		struct smcr_llc_msg reply = { .type = SMCR_LLC_CONFIRM_RKEY, .reply = true };
		reply.confirm_rkey.negative = true;
		reply.confirm_rkey.retry = r->retry;
		reply.confirm_rkey.rkey = lgr->llc->rkey.slab->reg[lgr->llc->rkey.link->slot].rkey;
		pair_inject_llc(pair, !r->from, lgr->llc->rkey.link->number, &reply);
	}
	pair_run(pair, 500000);
	pair->filter = NULL;
	return c;
}

static void refused_with_retry(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		int c[4];
		struct pair *pair = grouped(1, &c[0]);
		fill_first_rmb(pair, c + 1, 3);
		struct refusal r = { .from = side, .retry = true, .times = 3 };
		int last = refused(pair, &r);
		assert_true(pair_both_established(pair, last));
		pair_exchange(pair, last);
		pair_free(pair);
	}
	PROVES("RKEY-6 RKEY-7");
}

static void refused_for_good(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		int c[4];
		struct pair *pair = grouped(1, &c[0]);
		fill_first_rmb(pair, c + 1, 3);
		struct refusal r = { .from = side, .retry = false, .times = 1 };
		int last = refused(pair, &r);
		/* Decline in place of the own next CLC message */
		assert_int_equal(pair_end(pair, last, S)->fallback, 1);
		assert_int_equal(pair_end(pair, last, C)->fallback, 1);
		assert_int_equal(pair_end(pair, last, side)->last.reason,
				 SMCR_REASON_RKEY_EXCHANGE);
		pair_exchange(pair, c[0]);
		/* the next connection that needs an RMB is the trigger for the next attempt */
		assert_true(pair_count_llc(pair, side, SMCR_LLC_CONFIRM_RKEY, false) == 0);
		last = connected(pair);
		assert_int_equal(pair_count_llc(pair, side, SMCR_LLC_CONFIRM_RKEY, false), 1);
		pair_exchange(pair, last);
		pair_free(pair);
	}
	PROVES("RKEY-7 RKEY-9 ERR-1");
}

/* ---- the peer's CONFIRM RKEY with CONTINUATION ---- */

static struct smcr_llc_msg confirm_rkey(uint8_t others, uint32_t rkey)
{
	struct smcr_llc_msg msg = { .type = SMCR_LLC_CONFIRM_RKEY };
	msg.confirm_rkey.num_tokens = others;
	msg.confirm_rkey.rkey = rkey;
	msg.confirm_rkey.vaddr = 0x100000;
	for (uint8_t i = 0; i < 2 && i < others; i++)
		msg.confirm_rkey.other[i] =
			(struct smcr_llc_link_rtoken){ (uint8_t)(2 + i), rkey + 1u + i, 0x100000 };
	return msg;
}

static struct smcr_llc_msg confirm_rkey_cont(uint8_t left, uint8_t first_link, uint32_t rkey)
{
	struct smcr_llc_msg msg = { .type = SMCR_LLC_CONFIRM_RKEY_CONT };
	msg.confirm_rkey_cont.num_left = left;
	for (uint8_t i = 0; i < 3 && i < left; i++)
		msg.confirm_rkey_cont.other[i] =
			(struct smcr_llc_link_rtoken){ (uint8_t)(first_link + i), rkey + 10u + i,
						       0x100000 };
	return msg;
}

static void tokens_come_into_force_together(void **state)
{
	(void)state;
	int c;
	struct pair *pair = grouped(2, &c);
	struct smcr_lgr *lgr = pair_lgr(pair, S);
	struct smcr_llc_msg reply = { 0 }, msg = confirm_rkey(8, 0x7000);
	pair->filter = see_reply;
	pair->filter_arg = &reply;
	pair_inject_llc(pair, C, 1, &msg);
	pair_pump(pair);
	assert_true(reply.reply && !reply.confirm_rkey.negative);
	assert_int_equal(reply.confirm_rkey.num_tokens, 8);
	assert_int_equal(smcr_peer_rmb_count(lgr), 1); /* nothing is in force yet */
	msg = confirm_rkey_cont(6, 4, 0x7000);
	pair_inject_llc(pair, C, 1, &msg);
	pair_pump(pair);
	assert_int_equal(reply.type, SMCR_LLC_CONFIRM_RKEY_CONT);
	assert_int_equal(smcr_peer_rmb_count(lgr), 1);
	msg = confirm_rkey_cont(3, 7, 0x8000);
	pair_inject_llc(pair, C, 1, &msg);
	pair_pump(pair);
	assert_false(reply.confirm_rkey_cont.negative);
	assert_int_equal(smcr_peer_rmb_count(lgr), 2);
	const struct smcr_peer_rmb *rmb = lgr->peer_rmbs->next;
	assert_int_equal(rmb->token[pair_link(pair, S, 1)->slot].rkey, 0x7000);
	assert_int_equal(rmb->token[pair_link(pair, S, 2)->slot].rkey, 0x7001);
	/* announced again, as deployed peers do after each connection: still one RMB */
	msg = confirm_rkey(1, 0x7000);
	pair_inject_llc(pair, C, 1, &msg);
	pair_pump(pair);
	assert_int_equal(smcr_peer_rmb_count(lgr), 2);
	pair_free(pair);
	PROVES("RKEY-8 RKEY-5");
}

static void broken_continuations(void **state)
{
	(void)state;
	for (int variant = 0; variant < 4; variant++) {
		int c;
		struct pair *pair = grouped(2, &c);
		struct smcr_llc_msg reply = { 0 }, msg = confirm_rkey(4, 0x7000);
		pair->filter = see_reply;
		pair->filter_arg = &reply;
		pair_inject_llc(pair, C, 1, &msg);
		pair_pump(pair);
		if (variant == 0) /* the count does not fit */
			msg = confirm_rkey_cont(3, 4, 0x7000);
		else if (variant == 1) /* a second request before the first is complete */
			msg = confirm_rkey(1, 0x9000);
		else if (variant == 2)
			msg = (struct smcr_llc_msg){ .type = SMCR_LLC_DELETE_RKEY,
						     .delete_rkey = { .count = 1 } };
		else /* a reply to nothing */
			msg = (struct smcr_llc_msg){ .type = SMCR_LLC_CONFIRM_RKEY_CONT,
						     .reply = true,
						     .confirm_rkey_cont = { .num_left = 1 } };
		pair_inject_llc(pair, C, 1, &msg);
		/* out of sync: the link goes down, the others live (ERR-63) */
		assert_int_equal(pair_link(pair, S, 1)->state, SMCR_LINK_FAILED);
		assert_int_equal(pair_link(pair, S, 2)->state, SMCR_LINK_ACTIVE);
		assert_int_equal(smcr_peer_rmb_count(pair_lgr(pair, S)), 1);
		pair->filter = NULL;
		pair_pump(pair);
		pair_free(pair);
	}
	PROVES("SER-7 ERR-63");
}

static void missing_tokens_fail_the_link(void **state)
{
	(void)state;
	int c;
	struct pair *pair = grouped(2, &c);
	struct smcr_llc_msg msg = confirm_rkey(0, 0x7000);
	struct pair_pick pick = {
		.from = S, .type = SMCR_LLC_CONFIRM_RKEY, .reply = true, .verdict = PAIR_LOSE
	};
	pair_set_pick(pair, &pick);
	pair_inject_llc(pair, C, 1, &msg);
	assert_int_equal(pair_link(pair, S, 2)->state, SMCR_LINK_FAILED);
	pair_pump(pair);
	assert_null(pair_link(pair, S, 2)); /* deleted with the client's consent */
	assert_null(pair_link(pair, C, 2));
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("ERR-58");
}

static void contradicting_tokens(void **state)
{
	(void)state;
	int c;
	struct pair *pair = grouped(2, &c);
	const struct smcr_slab *slab = pair_lgr(pair, C)->rmbs;
	struct smcr_llc_msg reply = { 0 }, msg;
	pair->filter = see_reply;
	pair->filter_arg = &reply;
	/* an RKey in use, with another address */
	msg = confirm_rkey(1, slab->reg[pair_link(pair, C, 1)->slot].rkey);
	pair_inject_llc(pair, C, 1, &msg);
	pair_pump(pair);
	assert_true(reply.confirm_rkey.negative && !reply.confirm_rkey.retry);
	/* another RMB's RKey on the other link */
	msg = confirm_rkey(1, 0x7000);
	msg.confirm_rkey.other[0].rkey = slab->reg[pair_link(pair, C, 2)->slot].rkey;
	pair_inject_llc(pair, C, 1, &msg);
	pair_pump(pair);
	assert_true(reply.confirm_rkey.negative);
	/* one link twice, and the carrying link among the others */
	msg = confirm_rkey(2, 0x7000);
	msg.confirm_rkey.other[1].link_number = 2;
	pair_inject_llc(pair, C, 1, &msg);
	pair_pump(pair);
	assert_true(reply.confirm_rkey.negative);
	msg.confirm_rkey.other[1].link_number = 1;
	pair_inject_llc(pair, C, 1, &msg);
	pair_pump(pair);
	assert_true(reply.confirm_rkey.negative);
	assert_int_equal(smcr_peer_rmb_count(pair_lgr(pair, S)), 1);
	pair->filter = NULL;
	pair_exchange(pair, c);
	pair_free(pair);
}

static void too_many_rmbs(void **state)
{
	(void)state;
	int c;
	struct pair *pair = grouped(1, &c);
	struct smcr_llc_msg reply = { 0 }, msg;
	pair->filter = see_reply;
	pair->filter_arg = &reply;
	for (unsigned int i = 1; i < SMCR_MAX_RMBS; i++) {
		msg = confirm_rkey(0, 0x70000 + i);
		pair_inject_llc(pair, C, 1, &msg);
		pair_pump(pair);
		assert_true(reply.reply && !reply.confirm_rkey.negative);
	}
	assert_int_equal(smcr_peer_rmb_count(pair_lgr(pair, S)), SMCR_MAX_RMBS);
	msg = confirm_rkey(0, 0x80000);
	pair_inject_llc(pair, C, 1, &msg);
	pair_pump(pair);
	assert_true(reply.confirm_rkey.negative);
	pair->filter = NULL;
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("LG-13");
}

/* ---- what CLC may name ---- */

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

/** What the client says to an Accept of ours; it is the only end of its connection. */
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
	struct pair *pair = grouped(2, &c);
	const struct smcr_slab *slab = pair_lgr(pair, S)->rmbs;
	struct smcr_link *link = pair_link(pair, S, 1);
	const struct smcr_clc_msg good = accept_for(pair, link, slab, 3);
	struct smcr_clc_msg bad, answer = client_answer(pair, &good, &t);
	assert_int_equal(answer.type, SMCR_CLC_CONFIRM);
	/* peer ID, GID, MAC and QPN must all be those of an active link; else out of sync (ERR-9)
	 */
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
	/* an RToken that was never announced for that link: no SMC-R, but nothing is out of sync */
	bad = good;
	bad.accept.rkey ^= 0x5555;
	answer = client_answer(pair, &bad, &t);
	assert_int_equal(answer.type, SMCR_CLC_DECLINE);
	assert_false(answer.decline.out_of_sync);
	bad = good;
	bad.accept.rmb_vaddr += 4096;
	assert_int_equal(client_answer(pair, &bad, &t).type, SMCR_CLC_DECLINE);
	/* the link's token on another link is no token here */
	bad = good;
	bad.accept.rkey = slab->reg[pair_link(pair, S, 2)->slot].rkey;
	assert_int_equal(client_answer(pair, &bad, &t).type, SMCR_CLC_DECLINE);
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("RV-5 ERR-9 CLC-14 RS-4 RKEY-16");
}

static void reused_element_evicts_the_old_connection(void **state)
{
	(void)state;
	int c, t;
	struct pair *pair = grouped(2, &c);
	const struct smcr_slab *slab = pair_lgr(pair, S)->rmbs;
	/* the server names the element of the first connection, by its RToken on the other link */
	struct smcr_clc_msg accept = accept_for(pair, pair_link(pair, S, 2), slab, 1);
	struct smcr_clc_msg answer = client_answer(pair, &accept, &t);
	assert_int_equal(answer.type, SMCR_CLC_CONFIRM);
	assert_int_equal(pair_end(pair, t, C)->established, 1);
	assert_int_equal(pair_end(pair, c, C)->reset, 1);
	assert_int_equal(pair_end(pair, c, C)->closed, 1);
	assert_true(pair_end(pair, c, C)->last.tcp_reset);
	pair_free(pair);
	PROVES("RS-4 RMB-9");
}

/** Send a Confirm of ours to the server after its Accept; returns its end. */
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

static void other_rkey(struct pair *pair, struct smcr_clc_accept *confirm)
{
	(void)pair;
	confirm->rkey ^= 3;
}

static void other_active_link(struct pair *pair, struct smcr_clc_accept *confirm)
{
	struct smcr_link *link = pair_link(pair, C, 2);
	confirm->qpn = link->qpn;
	confirm->rkey = pair_lgr(pair, C)->rmbs->reg[link->slot].rkey;
	memcpy(confirm->gid, link->local_gid, SMCR_GID_LEN);
	memcpy(confirm->mac, link->local_mac, SMCR_MAC_LEN);
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
	struct pair *pair = grouped(2, &c);
	assert_int_equal(server_confirm(pair, NULL)->established, 1);
	/* any active link of the group will do */
	pair_free(pair);
	pair = grouped(2, &c);
	assert_int_equal(server_confirm(pair, other_active_link)->established, 1);
	/* too late for a Decline: the TCP connection is reset */
	struct pair_end *end = server_confirm(pair, other_qpn);
	assert_int_equal(end->failed, 1);
	assert_int_equal(end->last.error, ECONNRESET);
	assert_int_equal(server_confirm(pair, other_rkey)->failed, 1);
	pair_exchange(pair, c);
	/* an element in use: the old connection goes, the new one lives (RMB-9) */
	assert_int_equal(server_confirm(pair, taken_element)->established, 1);
	assert_int_equal(pair_end(pair, c, S)->reset, 1);
	pair_free(pair);
	PROVES("RS-6 RS-7 RMB-9 ERR-4");
}

/* ---- parallel and reversed groups ---- */

static void reversed_roles(void **state)
{
	(void)state;
	int c;
	struct pair *pair = grouped(1, &c);
	int back = pair_connect(pair, S); /* the server's host opens a connection */
	pair_pump(pair);
	assert_true(pair_both_established(pair, back));
	assert_true(pair_last_clc(pair, C, SMCR_CLC_ACCEPT)->clc.accept.first_contact);
	assert_int_equal(pair_num_qps(pair, S), 2);
	pair_exchange(pair, c);
	pair_exchange(pair, back);
	/* RMBs belong to one group each (PLG-3) */
	const struct smcr_lgr *one = pair_lgr(pair, S), *two = one->next;
	assert_true(one->role != two->role);
	assert_true(one->rmbs->reg[0].rkey != two->rmbs->reg[0].rkey);
	assert_true(one->rmbs->base != two->rmbs->base);
	pair_close(pair, c);
	pair_close(pair, back);
	pair_free(pair);
	PROVES("PLG-3 PLG-4 LG-15");
}

/** The server has lost its group and says so with F=1. */
static void server_starts_anew(void **state)
{
	(void)state;
	int c;
	struct pair *pair = grouped(1, &c);
	struct smcr_config config = pair_config(S);
	smcr_engine_free(pair->side[S].engine);
	pair_end(pair, c, S)->smc = NULL;
	assert_int_equal(smcr_engine_new(&config, pair->side[C].engine->ops, &pair->side[S],
					 pair->now, &pair->side[S].engine),
			 0);
	assert_int_equal(smcr_engine_device_add(pair->side[S].engine, &pair->side[S].devices[0]),
			 0);
	int second = connected(pair); /* PLG-2: a group more, with a QP and RMB of its own */
	assert_int_equal(pair_num_qps(pair, C), 2);
	pair_exchange(pair, second);
	pair_send(pair, c, C, 10, 1); /* the old one is found dead */
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
	struct pair *pair = grouped(1, &c);
	struct smcr_config config = pair_config(S);
	smcr_engine_free(pair->side[S].engine);
	pair_end(pair, c, S)->smc = NULL;
	pair->side[S].next_qpn = pair_link(pair, C, 1)->peer_qpn;
	assert_int_equal(smcr_engine_new(&config, pair->side[C].engine->ops, &pair->side[S],
					 pair->now, &pair->side[S].engine),
			 0);
	assert_int_equal(smcr_engine_device_add(pair->side[S].engine, &pair->side[S].devices[0]),
			 0);
	int second = connected(pair);
	/* the old link was failed at once, not found out later */
	assert_int_equal(pair_num_qps(pair, C), 1);
	assert_int_equal(pair_end(pair, c, C)->reset, 1);
	pair_exchange(pair, second);
	pair_close(pair, second);
	pair_free(pair);
	PROVES("PLG-5");
}

/** RFC dialect: each side chooses for itself. */
static void links_are_chosen_independently(void **state)
{
	(void)state;
	struct smcr_config config = pair_config(S);
	config.dialect = SMCR_DIALECT_FORCE_RFC;
	struct pair *pair = pair_new(&config, NULL, 2, 2);
	int first = connected(pair);
	/* make the client's link 1 look busy */
	pair_link(pair, C, 1)->num_promised += 10;
	pair_link(pair, S, 2)->num_promised += 10;
	struct smcr_conn *smc;
	int second = pair_start_alone(pair, S, SMCR_ROLE_SERVER);
	struct smcr_conn_params params = pair_params(pair, C, SMCR_ROLE_CLIENT, second);
	assert_int_equal(smcr_conn_start(pair->side[C].engine, &params, &smc), 0);
	pair_end(pair, second, C)->smc = smc;
	while (!pair_end(pair, second, S)->established) {
		/* without the checks of the harness: the counts are off on purpose */
		struct pair_clc *clc;
		for (int i = 0; i < 2; i++)
			if ((clc = pair_end(pair, second, i)->in) != NULL) {
				DL_DELETE(pair_end(pair, second, i)->in, clc);
				smcr_conn_clc_input(pair_end(pair, second, i)->smc, clc->buf,
						    clc->len);
				free(clc);
			}
	}
	pair_link(pair, C, 1)->num_promised -= 10;
	pair_link(pair, S, 2)->num_promised -= 10;
	assert_int_equal(pair_end(pair, second, C)->smc->tx.link->number, 2);
	assert_int_equal(pair_end(pair, second, S)->smc->tx.link->number, 1);
	pair_exchange(pair, second);
	pair_close(pair, first);
	pair_close(pair, second);
	pair_free(pair);
	PROVES("RS-11");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reuse_of_the_group),
		cmocka_unit_test(stale_token),
		cmocka_unit_test(client_may_write_at_once),
		cmocka_unit_test(both_sides_add_an_rmb),
		cmocka_unit_test(unused_rmb_is_deleted),
		cmocka_unit_test(delete_unknown_rkeys),
		cmocka_unit_test(delete_rkey_reply),
		cmocka_unit_test(negative_delete_is_only_logged),
		cmocka_unit_test(refused_with_retry),
		cmocka_unit_test(refused_for_good),
		cmocka_unit_test(tokens_come_into_force_together),
		cmocka_unit_test(broken_continuations),
		cmocka_unit_test(missing_tokens_fail_the_link),
		cmocka_unit_test(contradicting_tokens),
		cmocka_unit_test(too_many_rmbs),
		cmocka_unit_test(accepts_that_do_not_match),
		cmocka_unit_test(reused_element_evicts_the_old_connection),
		cmocka_unit_test(confirms_that_do_not_match),
		cmocka_unit_test(reversed_roles),
		cmocka_unit_test(server_starts_anew),
		cmocka_unit_test(server_reuses_the_qpn),
		cmocka_unit_test(links_are_chosen_independently),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* RMBs are announced and withdrawn in a running group (RFC 7609 3.5.5.2). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "daemon/smcr/llc_rkey.h"
#include "tests/lib/enginepair_filter.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define S      PAIR_SERVER
#define C      PAIR_CLIENT
#define SECOND 1000000

static void both_sides_add_an_rmb(void **state)
{
	(void)state;
	int c[9];
	struct pair *pair = pair_grouped(2, &c[0]);
	for (int i = 1; i < 4; i++)
		c[i] = pair_connected(pair);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_CONFIRM_RKEY, false), 0);
	pair_clear_log(pair);
	c[4] = pair_connected(pair); /* an RMB has four elements */
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
	/* the message has the RTokens of its own link and of the other link; the reply repeats
	 * them */
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
	assert_int_equal(pair_link_view(pair, S, carrier).local_qpn,
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
		conns[i] = pair_connected(pair);
	pair_clear_log(pair);
}

static void unused_rmb_is_deleted(void **state)
{
	(void)state;
	int c[6];
	struct pair *pair = pair_grouped(2, &c[0]);
	fill_first_rmb(pair, c + 1, 5);
	assert_int_equal(pair_lgr_view(pair, S).num_rmbs, 2);
	uint64_t memory = pair_engine_view(pair, S).memory_used;
	pair_close(pair, c[4]);
	pair_run(pair, 59000000);
	pair_close(pair, c[5]);
	pair_run(pair, 59000000); /* an RMB stays for a minute after its last use */
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_DELETE_RKEY, false), 0);
	/* the memory stays until the reply comes */
	struct pair_pick pick = {
		.from = C, .type = SMCR_LLC_DELETE_RKEY, .reply = true, .verdict = PAIR_HOLD
	};
	pair_set_pick(pair, &pick);
	pair_run(pair, 1100000);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_DELETE_RKEY, false), 1);
	assert_int_equal(pair_lgr_view(pair, S).num_rmbs, 2);
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	assert_int_equal(pair_lgr_view(pair, S).num_rmbs, 1);
	assert_int_equal(pair_lgr_view(pair, C).num_rmbs, 1);
	assert_int_equal(pair_lgr_view(pair, S).num_peer_rmbs, 1);
	assert_true(pair_engine_view(pair, S).memory_used < memory);
	assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_DELETE_RKEY, false), 1);
	/* one RMB stays for the next connection */
	for (int i = 0; i < 4; i++)
		pair_close(pair, c[i]);
	pair_run(pair, 120000000);
	assert_int_equal(pair_lgr_view(pair, S).num_rmbs, 1);
	c[0] = pair_connected(pair);
	pair_exchange(pair, c[0]);
	pair_close(pair, c[0]);
	pair_free(pair);
	PROVES("RKEY-13 RKEY-14");
}

/** An RMB is being withdrawn, and the peer has its RToken on no link any more, because the link of
 * the DELETE RKEY was the only one: the RMB is freed without a message. ADD LINK, which has to wait
 * for such an RMB, follows at once. */
static void add_link_follows_a_silent_end(void **state)
{
	(void)state;
	int c[6];
	struct pair *pair = pair_grouped(2, &c[0]);
	uint64_t id;
	fill_first_rmb(pair, c + 1, 5);
	pair_close(pair, c[4]);
	pair_close(pair, c[5]);
	for (int side = 0; side < 2; side++) {
		struct smcr_device_info info = pair_device(side, 2);
		pair_add_device_quietly(pair, side, &info);
	}
	struct smcr_slab *slab = pair_lgr(pair, S)->rmbs->next;
	slab->state = SMCR_SLAB_DELETING;
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		slab->reg[i].told = false;
	const struct smcr_command add = { .type = SMCR_COMMAND_LINK_ADD,
					  .lgr = pair_lgr_view(pair, S).id };
	assert_int_equal(smcr_engine_command(pair->side[S].engine, &add, &id), 0);
	pair_pump(pair);
	assert_int_equal(pair_lgr_view(pair, S).num_rmbs, 1);
	assert_int_equal(pair_link_view(pair, S, 3).state, SMCR_LINK_ACTIVE);
	assert_int_equal(pair_link_view(pair, C, 3).state, SMCR_LINK_ACTIVE);
	pair_exchange(pair, c[0]);
	pair_free(pair);
}

static void delete_unknown_rkeys(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	struct smcr_llc_msg msg = { .type = SMCR_LLC_DELETE_RKEY };
	msg.delete_rkey.count = 4;
	msg.delete_rkey.rkey[0] = 0xDEAD;
	msg.delete_rkey.rkey[1] = 0xBEEF;
	/* the only known RMB, by its RKey on link 2 */
	msg.delete_rkey.rkey[2] = pair_lgr(pair, C)->rmbs->reg[pair_link(pair, C, 2)->slot].rkey;
	msg.delete_rkey.rkey[3] = 0;
	struct pair_pick pick = {
		.from = S, .type = SMCR_LLC_DELETE_RKEY, .reply = true, .verdict = PAIR_LOSE
	};
	pair_set_pick(pair, &pick);
	pair_inject_llc(pair, C, 2, &msg);
	assert_int_equal(pair_lgr_view(pair, S).num_peer_rmbs, 0);
	/* no connection may write with this RToken any more, on any link (RKEY-16) */
	struct smcr_peer_rmb *rmb = pair_lgr(pair, S)->peer_rmbs;
	assert_true(rmb->withdrawn && !rmb->token[0].valid && !rmb->token[1].valid);
	pair_pump(pair);
	assert_int_equal(pick.seen, 1);
	pair_free(pair);
}

/** The test speaks for the peer, and sees the reply to its DELETE RKEY. */
static enum pair_verdict see_reply(struct pair *pair, const struct pair_msg *msg, void *arg)
{
	(void)pair;
	if (msg->is_clc || msg->is_cdc || !msg->llc.reply || msg->llc.type == SMCR_LLC_DELETE_LINK)
		return PAIR_PASS;
	*(struct smcr_llc_msg *)arg = msg->llc;
	return PAIR_LOSE;
}

static void delete_rkey_reply(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(1, &c);
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
	assert_int_equal(pair_lgr_view(pair, S).num_peer_rmbs, 0);
	/* a mask has no bit of a key that the message does not have */
	msg.delete_rkey.count = 1;
	pair_inject_llc(pair, C, 1, &msg);
	pair_pump(pair);
	assert_int_equal(reply.delete_rkey.error_mask, 0x80);
	pair_free(pair);
	PROVES("RKEY-14 RKEY-16 ERR-59");
}

static void negative_delete_is_only_logged(void **state)
{
	(void)state;
	int c[5];
	struct pair *pair = pair_grouped(1, &c[0]);
	fill_first_rmb(pair, c + 1, 4);
	/* the client's engine is made to forget the server's second RMB */
	struct smcr_peer_rmb *rmb = pair_lgr(pair, C)->peer_rmbs->next;
	pair_close(pair, c[4]);
	smcr_peer_rmb_withdraw(pair_lgr(pair, C), rmb);
	pair_run(pair, 61000000);
	const struct pair_msg *reply = pair_last_llc(pair, C, SMCR_LLC_DELETE_RKEY, true);
	assert_true(reply->llc.delete_rkey.negative);
	assert_int_equal(pair_lgr_view(pair, S).num_rmbs, 1);
	assert_int_equal(pair_link_view(pair, S, 1).state, SMCR_LINK_ACTIVE);
	for (int i = 0; i < 4; i++)
		pair_close(pair, c[i]);
	pair_free(pair);
	PROVES("RKEY-15");
}

/* ---- CONFIRM RKEY that is refused ---- */

/** The test refuses the first CONFIRM RKEYs of one side, in the name of the other side. */
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

/** How long a refused side waits before it tries again. A short time is enough: the message that it
 *  waits for has been sent already. */
#define RETRY_PAUSE 100000

/** One connection has its side's RMB refused `times` times. */
static int refused(struct pair *pair, struct refusal *r)
{
	int c = pair_connect(pair, C);
	pair->filter = refuse;
	pair->filter_arg = r;
	pair_run(pair, 200000);
	for (bool again = false; r->times > 0; r->times--, again = true) {
		struct smcr_lgr *lgr = pair_lgr(pair, r->from);
		if (again) {
			pair_run(pair, RETRY_PAUSE - 1);
			assert_int_equal(lgr->llc->rkey.step, SMCR_RKEY_IDLE);
			pair_run(pair, 1);
		}
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
		TRIES("side %d", side);
		int c[4];
		struct pair *pair = pair_grouped(1, &c[0]);
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
		TRIES("side %d", side);
		int c[4];
		struct pair *pair = pair_grouped(1, &c[0]);
		fill_first_rmb(pair, c + 1, 3);
		struct refusal r = { .from = side, .retry = false, .times = 1 };
		int last = refused(pair, &r);
		/* Decline instead of the next CLC message */
		assert_int_equal(pair_end(pair, last, S)->fallback, 1);
		assert_int_equal(pair_end(pair, last, C)->fallback, 1);
		assert_int_equal(pair_end(pair, last, side)->last.reason,
				 SMCR_REASON_RKEY_EXCHANGE);
		pair_exchange(pair, c[0]);
		/* the next connection that needs an RMB announces it again */
		assert_true(pair_count_llc(pair, side, SMCR_LLC_CONFIRM_RKEY, false) == 0);
		last = pair_connected(pair);
		assert_int_equal(pair_count_llc(pair, side, SMCR_LLC_CONFIRM_RKEY, false), 1);
		pair_exchange(pair, last);
		pair_free(pair);
	}
	PROVES("RKEY-7 RKEY-9 ERR-1");
}

/** An announcement with fewer links than the one before changes nothing for the link that it leaves
 *  out. */
static void fewer_links_than_before(void **state)
{
	int c;
	(void)state;
	struct pair *pair = pair_grouped(3, &c);
	for (int i = 0; i < 4; i++)
		pair_exchange(pair, pair_connected(pair));
	struct smcr_command delete = { .type = SMCR_COMMAND_LINK_DELETE,
				       .lgr = pair_lgr_view(pair, S).id,
				       .link = 2,
				       .orderly = true };
	uint64_t id;
	assert_int_equal(smcr_engine_command(pair->side[S].engine, &delete, &id), 0);
	pair_pump(pair);
	assert_null(pair_link(pair, C, 2));
	pair_clear_log(pair);
	for (int i = 0; i < 4; i++)
		pair_exchange(pair, pair_connected(pair));
	for (int side = 0; side < 2; side++) {
		assert_int_equal(pair_count_llc(pair, side, SMCR_LLC_CONFIRM_RKEY, false), 1);
		const struct pair_msg *reply =
			pair_last_llc(pair, side, SMCR_LLC_CONFIRM_RKEY, true);
		assert_false(reply->llc.confirm_rkey.negative);
	}
	pair_free(pair);
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
	struct pair *pair = pair_grouped(2, &c);
	struct smcr_lgr *lgr = pair_lgr(pair, S);
	struct smcr_llc_msg reply = { 0 }, msg = confirm_rkey(8, 0x7000);
	pair->filter = see_reply;
	pair->filter_arg = &reply;
	pair_inject_llc(pair, C, 1, &msg);
	pair_pump(pair);
	assert_true(reply.reply && !reply.confirm_rkey.negative);
	assert_int_equal(reply.confirm_rkey.num_tokens, 8);
	assert_int_equal(smcr_peer_rmb_count(lgr), 1); /* no RToken is in force yet */
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
		TRIES("variant %d", variant);
		int c;
		struct pair *pair = pair_grouped(2, &c);
		struct smcr_llc_msg reply = { 0 }, msg = confirm_rkey(4, 0x7000);
		pair->filter = see_reply;
		pair->filter_arg = &reply;
		pair_inject_llc(pair, C, 1, &msg);
		pair_pump(pair);
		if (variant == 0) /* the count is wrong */
			msg = confirm_rkey_cont(3, 4, 0x7000);
		else if (variant == 1) /* a second request before the first one is complete */
			msg = confirm_rkey(1, 0x9000);
		else if (variant == 2)
			msg = (struct smcr_llc_msg){ .type = SMCR_LLC_DELETE_RKEY,
						     .delete_rkey = { .count = 1 } };
		else /* a reply without a request */
			msg = (struct smcr_llc_msg){ .type = SMCR_LLC_CONFIRM_RKEY_CONT,
						     .reply = true,
						     .confirm_rkey_cont = { .num_left = 1 } };
		pair_inject_llc(pair, C, 1, &msg);
		/* out of sync: the link has failed, other links live (ERR-63) */
		assert_int_equal(pair_link_view(pair, S, 1).state, SMCR_LINK_FAILED);
		assert_int_equal(pair_link_view(pair, S, 2).state, SMCR_LINK_ACTIVE);
		assert_int_equal(pair_lgr_view(pair, S).num_peer_rmbs, 1);
		pair->filter = NULL;
		pair_pump(pair);
		pair_free(pair);
	}
	PROVES("SER-7 ERR-63");
}

/** A link that failed meanwhile is deleted after the exchange, even if the RMB is refused. */
static void a_deletion_follows_the_refusal(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(3, &c);
	struct smcr_llc_msg reply = { 0 }, msg = confirm_rkey(5, 0x7000);
	pair->filter = see_reply;
	pair->filter_arg = &reply;
	pair_inject_llc(pair, C, 1, &msg);
	pair_pump(pair);
	pair_fail_link(pair, S, 2);
	pair_pump(pair);
	assert_non_null(pair_link(pair, S, 2)); /* its deletion would break the exchange */
	msg = confirm_rkey_cont(3, 1, 0x7000);  /* names the link that carries it */
	pair_inject_llc(pair, C, 1, &msg);
	pair_pump(pair);
	assert_true(reply.confirm_rkey_cont.negative);
	assert_null(pair_link(pair, S, 2));
	pair->filter = NULL;
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("SER-2");
}

/** The peer announces CONTINUATIONs and does not send the next one: the link that carries them has
 * failed after a time, which begins anew with each of them. So what waits for the end of the
 * exchange does not wait for ever (A71). */
static void continuation_that_does_not_come(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++)
		for (unsigned int sent = 0; sent < 2; sent++) {
			TRIES("side %d, %u sent", side, sent);
			int c;
			struct pair *pair = pair_grouped(3, &c);
			struct smcr_llc_msg reply = { 0 }, msg = confirm_rkey(8, 0x7000);
			uint64_t time = 4 * SECOND; /* llc_timeout */
			pair->filter = see_reply;
			pair->filter_arg = &reply;
			pair_inject_llc(pair, !side, 1, &msg);
			pair_pump(pair);
			pair_fail_link(pair, S, 2);
			if (sent) {
				pair_run(pair, time - 1000);
				msg = confirm_rkey_cont(6, 4, 0x7000);
				pair_inject_llc(pair, !side, 1, &msg);
			}
			pair_run(pair, time - 1000);
			assert_int_equal(pair_link_view(pair, side, 1).state, SMCR_LINK_ACTIVE);
			if (side == S)
				assert_non_null(pair_link(pair, S, 2));
			pair_run(pair, 2000);
			for (int i = 0; i < 2; i++) {
				assert_null(pair_link(pair, i, 1));
				assert_null(pair_link(pair, i, 2));
				assert_int_equal(pair_link_view(pair, i, 3).state,
						 SMCR_LINK_ACTIVE);
			}
			assert_int_equal(pair_lgr_view(pair, side).num_peer_rmbs, 1);
			pair->filter = NULL;
			pair_exchange(pair, c);
			pair_free(pair);
		}
	PROVES("RKEY-8");
}

static void missing_tokens_fail_the_link(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	struct smcr_llc_msg msg = confirm_rkey(0, 0x7000);
	struct pair_pick pick = {
		.from = S, .type = SMCR_LLC_CONFIRM_RKEY, .reply = true, .verdict = PAIR_LOSE
	};
	pair_set_pick(pair, &pick);
	pair_run(pair, 5000000); /* so long that no message of that link can still come */
	pair_inject_llc(pair, C, 1, &msg);
	assert_int_equal(pair_link_view(pair, S, 2).state, SMCR_LINK_FAILED);
	pair_pump(pair);
	assert_null(pair_link(pair, S, 2)); /* deleted with the client's consent */
	assert_null(pair_link(pair, C, 2));
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("ERR-58");
}

/** An ADD LINK on another link has overtaken CONFIRM RKEY. Its sender knows of the new link by now,
 *  and announces the RMB again. */
static void overtaken_by_a_link(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	struct smcr_llc_msg msg = confirm_rkey(0, 0x7000), reply = { 0 };
	pair->filter = see_reply;
	pair->filter_arg = &reply;
	pair_inject_llc(pair, C, 1, &msg);
	assert_int_equal(pair_link_view(pair, S, 2).state, SMCR_LINK_ACTIVE);
	pair_pump(pair);
	assert_true(reply.confirm_rkey.negative && reply.confirm_rkey.retry);
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("RKEY-6");
}

static void contradicting_tokens(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
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
	/* one link twice, and the carrier among the others */
	msg = confirm_rkey(2, 0x7000);
	msg.confirm_rkey.other[1].link_number = 2;
	pair_inject_llc(pair, C, 1, &msg);
	pair_pump(pair);
	assert_true(reply.confirm_rkey.negative);
	msg.confirm_rkey.other[1].link_number = 1;
	pair_inject_llc(pair, C, 1, &msg);
	pair_pump(pair);
	assert_true(reply.confirm_rkey.negative);
	assert_int_equal(pair_lgr_view(pair, S).num_peer_rmbs, 1);
	pair->filter = NULL;
	pair_exchange(pair, c);
	pair_free(pair);
}

static void too_many_rmbs(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(1, &c);
	struct smcr_llc_msg reply = { 0 }, msg;
	pair->filter = see_reply;
	pair->filter_arg = &reply;
	for (unsigned int i = 1; i < SMCR_MAX_RMBS; i++) {
		msg = confirm_rkey(0, 0x70000 + i);
		pair_inject_llc(pair, C, 1, &msg);
		pair_pump(pair);
		assert_true(reply.reply && !reply.confirm_rkey.negative);
	}
	assert_int_equal(pair_lgr_view(pair, S).num_peer_rmbs, SMCR_MAX_RMBS);
	msg = confirm_rkey(0, 0x80000);
	pair_inject_llc(pair, C, 1, &msg);
	pair_pump(pair);
	assert_true(reply.confirm_rkey.negative);
	pair->filter = NULL;
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("LG-13");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_sides_add_an_rmb),
		cmocka_unit_test(unused_rmb_is_deleted),
		cmocka_unit_test(add_link_follows_a_silent_end),
		cmocka_unit_test(delete_unknown_rkeys),
		cmocka_unit_test(delete_rkey_reply),
		cmocka_unit_test(negative_delete_is_only_logged),
		cmocka_unit_test(refused_with_retry),
		cmocka_unit_test(fewer_links_than_before),
		cmocka_unit_test(refused_for_good),
		cmocka_unit_test(tokens_come_into_force_together),
		cmocka_unit_test(broken_continuations),
		cmocka_unit_test(a_deletion_follows_the_refusal),
		cmocka_unit_test(continuation_that_does_not_come),
		cmocka_unit_test(missing_tokens_fail_the_link),
		cmocka_unit_test(overtaken_by_a_link),
		cmocka_unit_test(contradicting_tokens),
		cmocka_unit_test(too_many_rmbs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

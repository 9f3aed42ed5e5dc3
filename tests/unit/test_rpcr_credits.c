/* SPDX-License-Identifier: MIT */
/* Credits of RPC-over-RDMA version 2: step by step, and with two sides and random delays. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/proves.h"
#include "tests/lib/random.h"
#include "tests/lib/rpcrfix.h"
#include "tests/lib/tries.h"

#define FAR_TOO_MANY 1000000

static const struct rpcr_config usual = { .receives = 8 };

static void get_grant(struct rpcrfix *fix, uint16_t limit, uint16_t granted)
{
	const struct rpcrdma_prefix prefix = { 0, RPCRDMA_V2, rpcrdma_credit(limit, granted),
					       RPCRDMA_NOMSG, 0 };
	uint8_t message[RPCRDMA_CREDIT_ONLY_LEN] = { 0 };
	rpcrdma_encode_prefix(&prefix, message);
	rpcrfix_get(fix, message, sizeof(message), NULL);
}

/* A Call of the peer that is short, with these credits. */
static void get_call(struct rpcrfix *fix, uint32_t xid)
{
	rpcrfix_get_rpc(fix, RPCRDMA_MSG, 0, xid, NULL, 0, 40);
}

static void sends_use_credits(void **state)
{
	(void)state;
	struct rpcrfix fix;
	rpcrfix_establish(&fix, &usual, RPCR_CLIENT, NULL, 3);
	for (uint32_t xid = 1; xid <= 5; xid++)
		assert_int_equal(rpcrfix_call(&fix, xid, 40, NULL), 0);
	for (uint32_t xid = 1; xid <= 3; xid++)
		assert_int_equal(rpcrfix_next_prefix(&fix).xid, xid);
	assert_true(rpcrfix_is_silent(&fix)); /* the others wait */
	assert_int_equal(rpcrfix_view(&fix).send_credits, 0);
	get_grant(&fix, 64, 1);
	assert_int_equal(rpcrfix_next_prefix(&fix).xid, 4);
	assert_true(rpcrfix_is_silent(&fix));
	get_grant(&fix, 0, 40);
	assert_int_equal(rpcrfix_next_prefix(&fix).xid, 5);
	assert_int_equal(rpcrfix_view(&fix).send_credits, 39);
	rpcrfix_free(&fix);
	PROVES("RR2-42 RR2-44 RR2-50");
}

static void what_comes_adds_up(void **state)
{
	(void)state;
	struct rpcrfix fix;
	rpcrfix_establish(&fix, &usual, RPCR_CLIENT, NULL, 3);
	get_grant(&fix, 64, 0); /* no grant, and no error */
	assert_int_equal(rpcrfix_view(&fix).send_credits, 3);
	get_grant(&fix, 64, 5);
	assert_int_equal(rpcrfix_view(&fix).send_credits, 8);
	get_grant(&fix, 6, 5); /* the peer's limit cuts */
	assert_int_equal(rpcrfix_view(&fix).send_credits, 6);
	get_grant(&fix, 0, 65535); /* and without one, the number */
	get_grant(&fix, 0, 65535);
	assert_int_equal(rpcrfix_view(&fix).send_credits, 65535);
	rpcrfix_free(&fix);
	PROVES("RR2-54");
}

/* Each message tells of what was posted since the last one; with nothing to tell, one receive more
 * is posted, up to the cap. */
static void messages_carry_grants(void **state)
{
	(void)state;
	struct rpcrfix fix;
	rpcrfix_establish(&fix, &usual, RPCR_CLIENT, NULL, 100);
	struct rpcr_view view = rpcrfix_view(&fix);
	assert_int_equal(view.credit_limit, 16);
	assert_int_equal(view.out_credits + view.new_credits, 8);
	uint32_t out = view.out_credits, fresh = view.new_credits;
	for (uint32_t xid = 1; xid <= 20; xid++) {
		TRIES("Call %u", xid);
		assert_int_equal(rpcrfix_call(&fix, xid, 40, NULL), 0);
		const uint32_t granted = fresh ? fresh : out < 16;
		assert_int_equal(rpcrfix_next_prefix(&fix).credit,
				 rpcrdma_credit(16, (uint16_t)granted));
		out += granted;
		fresh = 0;
		view = rpcrfix_view(&fix);
		assert_int_equal(view.out_credits, out);
		assert_int_equal(view.new_credits, 0);
		rpcrfix_check(&fix);
	}
	assert_int_equal(out, 16);
	/* those beyond what is kept posted are not posted again */
	for (uint32_t xid = 1; xid <= 20 && out > 0; xid++) {
		rpcrfix_get_rpc(&fix, RPCRDMA_MSG, RPCRDMA_F_RESPONSE, xid, NULL, 0, 40);
		out = rpcrfix_view(&fix).out_credits;
		if (out + rpcrfix_view(&fix).new_credits <= 8)
			break;
		assert_int_equal(rpcrfix_view(&fix).new_credits, 0);
	}
	rpcrfix_free(&fix);
	PROVES("RR2-43 RR2-45 RR2-51 RR2-53 RR2-54 RR2-57");
}

static void a_grant_when_half_is_used(void **state)
{
	(void)state;
	struct rpcrfix fix;
	rpcrfix_establish(&fix, &usual, RPCR_SERVER, NULL, 8);
	for (uint32_t xid = 1; xid <= 3; xid++)
		get_call(&fix, xid);
	assert_true(rpcrfix_is_silent(&fix)); /* the user may reply soon */
	get_call(&fix, 4);
	const struct rpcrfix_sent *sent = rpcrfix_next(&fix);
	static const uint8_t expected[RPCRDMA_CREDIT_ONLY_LEN] = { 0, 0,  0, 0, 0, 0, 0, 2,
								   0, 16, 0, 4, 0, 0, 0, 1 };
	assert_int_equal(sent->len, sizeof(expected));
	assert_memory_equal(sent->bytes, expected, sizeof(expected));
	assert_int_equal(rpcrfix_view(&fix).send_credits, 11); /* it has used none */
	assert_int_equal(rpcrfix_view(&fix).grants_sent, 1);
	assert_true(rpcrfix_is_silent(&fix));
	rpcrfix_free(&fix);
	PROVES("RR2-46 RR2-47 RR2-49 RR2-55 RR2-56");
}

/* What a credit-only message brings is not answered, and neither is it if there is one receive. */
static void grants_are_not_answered(void **state)
{
	(void)state;
	static const uint32_t receives[] = { 1, 2, 8 };
	for (size_t i = 0; i < 3; i++) {
		TRIES("%u receives", receives[i]);
		const struct rpcr_config config = { .receives = receives[i] };
		struct rpcrfix client, server;
		rpcrfix_join(&client, &config, &server, &config);
		for (int k = 0; k < 10; k++) {
			get_grant(&client, 16, 1);
			get_grant(&server, 16, 1);
		}
		assert_true(rpcrfix_is_silent(&client));
		assert_true(rpcrfix_is_silent(&server));
		rpcrfix_free(&client);
		rpcrfix_free(&server);
	}
	PROVES("RR2-55");
}

static void a_message_without_a_credit(void **state)
{
	(void)state;
	struct rpcrfix fix;
	rpcrfix_new(&fix, &usual, RPCR_SERVER);
	rpcr_connected(fix.rpcr, fix.now);
	fix.send_room = 0; /* so that it grants nothing */
	rpcrfix_get_properties(&fix, &rpcrdma_default_properties, 0, 1);
	get_call(&fix, 1);
	assert_int_equal(fix.end, RPCR_END_CREDITS);
	assert_int_equal(fix.called.times, 0);
	rpcrfix_free(&fix);
}

static void messages_that_say_nothing_use_receives(void **state)
{
	(void)state;
	static const size_t lengths[] = { 0, 4, 16, 19 };
	const uint8_t zeros[20] = { 0 };
	struct rpcrfix fix;
	rpcrfix_establish(&fix, &usual, RPCR_SERVER, NULL, 8);
	for (size_t i = 0; i < 4; i++)
		rpcrfix_get(&fix, zeros, lengths[i], NULL);
	assert_int_equal(rpcrfix_view(&fix).dropped, 4);
	assert_int_equal(rpcrfix_view(&fix).errors_sent, 0);
	assert_int_equal(fix.ended, 0);
	rpcrfix_free(&fix);
	PROVES("RR2-25");
}

static void no_receive_can_be_posted(void **state)
{
	(void)state;
	struct rpcrfix fix;
	rpcrfix_establish(&fix, &usual, RPCR_SERVER, NULL, 8);
	fix.post_room = 0;
	get_call(&fix, 1);
	assert_int_equal(fix.end, RPCR_END_RESOURCES);
	rpcrfix_free(&fix);
}

static void room_for_sends(void **state)
{
	(void)state;
	struct rpcrfix fix;
	rpcrfix_establish(&fix, &usual, RPCR_CLIENT, NULL, 8);
	fix.send_room = 1;
	for (uint32_t xid = 1; xid <= 3; xid++)
		assert_int_equal(rpcrfix_call(&fix, xid, 40, NULL), 0);
	assert_int_equal(rpcrfix_next_prefix(&fix).xid, 1);
	rpcrfix_check(&fix);
	fix.send_room = 8;
	rpcr_sent(fix.rpcr, fix.now);
	assert_int_equal(rpcrfix_next_prefix(&fix).xid, 2);
	assert_int_equal(rpcrfix_next_prefix(&fix).xid, 3);
	fix.send_error = -EIO;
	assert_int_equal(rpcrfix_call(&fix, 4, 40, NULL), 0);
	assert_int_equal(fix.end, RPCR_END_LOST);
	assert_int_equal(fix.failed, 4); /* and so are those that wait */
	assert_int_equal(fix.why, RPCR_FAILED_LOST);
	rpcrfix_free(&fix);
	PROVES("RR2-166 RR2-168 RR2-169");
}

/* ---- two sides, with delays between a SEND, its receive, and its completion */

struct direction {
	struct rpcrfix *from, *to;
	size_t delivered; /* of from's SENDs; those up to from->taken are processed */
	unsigned int waits;
};

static bool is_grant(const struct rpcrfix_sent *sent)
{
	return sent->len == RPCRDMA_CREDIT_ONLY_LEN && sent->bytes[15] == RPCRDMA_NOMSG;
}

/* The next SEND meets a receive. Only the spare one may be missing for a moment, for one that
 * grants credits, or because such ones are not processed yet. */
static void deliver(struct direction *d)
{
	if (d->delivered == d->from->num_sent)
		return;
	const size_t waiting = d->delivered - d->from->taken;
	bool grants = is_grant(&d->from->sent[d->delivered]);
	for (size_t i = d->from->taken; i < d->delivered; i++)
		grants |= is_grant(&d->from->sent[i]);
	if (d->to->posted > waiting) {
		d->delivered++;
		return;
	}
	assert_true(grants);
	d->waits++;
}

static void process(struct direction *d)
{
	if (d->from->taken == d->delivered)
		return;
	const struct rpcrfix_sent *sent = rpcrfix_next(d->from);
	rpcrfix_get(d->to, sent->bytes, sent->len, NULL);
}

static bool is_idle(const struct direction *d)
{
	return d->from->taken == d->from->num_sent;
}

static void step(struct random *random, struct direction both[2])
{
	struct direction *d = &both[random_below(random, 2)];
	if (random_below(random, 2))
		deliver(d);
	else
		process(d);
}

/* Calls one way or both ways, echoed or not answered, in one part or many: everything comes, each
 * message has its receive, and at the end both sides are silent. */
static void random_traffic(void **state)
{
	(void)state;
	static const uint32_t receives[] = { 1, 2, 8, 32 };
	static struct rpcrfix client, server;
	struct random random = { 20261129 };
	for (int run = 0; run < 160; run++) {
		TRIES("run %d", run);
		const struct rpcr_config a = { .receives = receives[run % 4],
					       .send_size = 128,
					       .most_calls = 1000,
					       .reverse = RPCRDMA_REVERSE_CONTINUED };
		const struct rpcr_config b = { .receives = receives[run / 4 % 4],
					       .send_size = 256,
					       .most_calls = 1000 };
		const bool reverse = random_below(&random, 2);
		uint32_t calls = 0, reverse_calls = 0;
		rpcrfix_join(&client, &a, &server, &b);
		client.echo = server.echo = random_below(&random, 3) > 0;
		struct direction both[2] = { { &client, &server, 0, 0 },
					     { &server, &client, 0, 0 } };
		for (int i = 0; i < 600; i++) {
			const size_t len = 8 + 4 * (size_t)random_below(&random, 200);
			if (random_below(&random, 6) == 0)
				assert_int_equal(rpcrfix_call(&client, ++calls, len, NULL), 0);
			else if (reverse && random_below(&random, 6) == 0)
				assert_int_equal(rpcrfix_call(&server, ++reverse_calls, len, NULL),
						 0);
			else
				step(&random, both);
		}
		int steps = 0;
		while (!is_idle(&both[0]) || !is_idle(&both[1])) {
			step(&random, both);
			assert_true(steps++ < FAR_TOO_MANY);
		}
		assert_int_equal(client.ended + server.ended, 0);
		assert_int_equal(server.called.times, calls);
		assert_int_equal(client.called.times, reverse_calls);
		assert_int_equal(client.replied.times, server.echo ? calls : 0);
		assert_int_equal(server.replied.times, client.echo ? reverse_calls : 0);
		/* what each side may send is what the other has granted and not got back */
		assert_int_equal(rpcrfix_view(&client).send_credits,
				 rpcrfix_view(&server).out_credits);
		assert_int_equal(rpcrfix_view(&server).send_credits,
				 rpcrfix_view(&client).out_credits);
		rpcrfix_free(&client);
		rpcrfix_free(&server);
	}
	PROVES("RR2-44 RR2-48 RR2-50 RR2-51 RR2-53 RR2-54 RR2-55 RR2-56 RR2-57 RR2-188");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sends_use_credits),
		cmocka_unit_test(what_comes_adds_up),
		cmocka_unit_test(messages_carry_grants),
		cmocka_unit_test(a_grant_when_half_is_used),
		cmocka_unit_test(grants_are_not_answered),
		cmocka_unit_test(a_message_without_a_credit),
		cmocka_unit_test(messages_that_say_nothing_use_receives),
		cmocka_unit_test(no_receive_can_be_posted),
		cmocka_unit_test(room_for_sends),
		cmocka_unit_test(random_traffic),
	};
	return cmocka_run_group_tests_name("rpcr: credits", tests, NULL, NULL);
}

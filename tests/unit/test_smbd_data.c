/* SPDX-License-Identifier: MIT */
/* Data Transfer messages of SMB Direct: fragments, putting together, what ends the connection,
 * tokens, keepalive, and the end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/proves.h"
#include "tests/lib/random.h"
#include "tests/lib/smbdfix.h"
#include "tests/lib/tries.h"

static const struct smbd_config many = {
	.receive_credit_max = 255,
	.send_credit_target = 255,
	.max_send_size = 1024,
	.max_receive_size = 1024,
	.max_fragmented_size = 131072,
	.max_read_write_size = 0x00100000,
};

/* ---- fragments that are sent */

/* 65,536 bytes leave in 65 fragments of 1,000 bytes and one of 536. */
static void fragments(void **state)
{
	(void)state;
	struct smbdfix fix;
	smbdfix_establish(&fix, &many, SMBD_ACTIVE, 255, 255);
	assert_int_equal(smbdfix_send(&fix, 65536, 7), 0);
	for (uint32_t k = 1; k <= 66; k++) {
		TRIES("fragment %u", k);
		const struct smbdirect_data data = smbdfix_next_data(&fix);
		const uint8_t *padding = fix.sent[fix.taken - 1].bytes + 20;
		assert_int_equal(data.offset, 24);
		assert_int_equal(data.length, k < 66 ? 1000 : 536);
		assert_int_equal(data.remaining, k < 66 ? 65536 - 1000 * k : 0);
		assert_int_equal(data.credits_requested, 255);
		assert_memory_equal(padding, "\0\0\0", 4);
	}
	assert_true(smbdfix_is_silent(&fix));
	assert_int_equal(smbdfix_view(&fix).send_credits, 255 - 66);
	smbdfix_free(&fix);
	PROVES("SMBD-79 SMBD-80 SMBD-81 SMBD-82 SMBD-92 SMBD-105");
}

/* SENDs of 128 bytes, the least that a peer may take, have 104 bytes of payload. */
/* A message that asks for no credits is not looked at further, whatever is in it. */
static void nothing_of_a_bad_message_is_taken(void **state)
{
	(void)state;
	struct smbdfix fix;
	const struct smbdirect_data bad = { .credits_granted = 7, .length = 10 };
	smbdfix_establish(&fix, &many, SMBD_PASSIVE, 255, 255);
	smbdfix_get_data(&fix, &bad, 0);
	assert_int_equal(fix.end, SMBD_END_BAD_DATA);
	assert_int_equal(fix.num_messages, 0);
	smbdfix_free(&fix);
	PROVES("SMBD-110");
}

static void one_byte(void **state)
{
	(void)state;
	struct smbdfix fix;
	smbdfix_establish(&fix, &many, SMBD_PASSIVE, 255, 255);
	assert_int_equal(smbdfix_send(&fix, 1, 0), 0);
	assert_int_equal(smbdfix_next_data(&fix).length, 1);
	assert_int_equal(smbdfix_view(&fix).fragments_sent, 1);
	assert_int_equal(smbdfix_view(&fix).messages_sent, 1);
	assert_int_equal(smbdfix_view(&fix).bytes_sent, 1);
	smbdfix_free(&fix);
}

static void the_smallest_fragments(void **state)
{
	(void)state;
	struct smbdfix active, passive;
	const struct smbd_config small = { .max_receive_size = 128 };
	smbdfix_join(&active, &many, &passive, &small);
	assert_int_equal(smbdfix_send(&active, 250, 1), 0);
	assert_int_equal(active.sent[0].len, 128);
	smbdfix_pump(&active, &passive);
	smbdfix_expect_message(&passive, 250, 1);
	const struct smbd_view sent = smbdfix_view(&active), got = smbdfix_view(&passive);
	assert_int_equal(sent.fragments_sent, 3);
	assert_int_equal(got.fragments_received, 3);
	assert_int_equal(sent.messages_sent, 1);
	assert_int_equal(got.messages_received, 1);
	assert_int_equal(sent.bytes_sent, 250);
	assert_int_equal(got.bytes_received, 250);
	assert_int_equal(got.empty_received, sent.empty_sent);
	smbdfix_free(&active);
	smbdfix_free(&passive);
	PROVES("SMBD-79");
}

static void lengths_of_upper_messages(void **state)
{
	(void)state;
	struct smbdfix fix;
	smbdfix_establish(&fix, &many, SMBD_ACTIVE, 255, 255);
	assert_int_equal(smbdfix_send(&fix, 0, 0), -EINVAL);
	assert_int_equal(smbdfix_send(&fix, 131073, 0), -EMSGSIZE);
	assert_true(smbdfix_is_silent(&fix));
	assert_int_equal(smbdfix_send(&fix, 131072, 0), 0);
	assert_int_equal(smbdfix_next_data(&fix).remaining, 131072 - 1000);
	smbdfix_free(&fix);
	PROVES("SMBD-77");
}

/* Messages leave in their order, whole, also when credits come in between. */
static void messages_do_not_mix(void **state)
{
	(void)state;
	struct smbdfix active, passive;
	struct random random = { 1 };
	smbdfix_join(&active, &smbdfix_config, &passive, &smbdfix_config);
	size_t sizes[1000];
	for (size_t i = 0; i < 1000; i++) {
		sizes[i] = 1 + random_below(&random, i % 10 == 0 ? 20000 : 1500);
		assert_int_equal(smbdfix_send(&active, sizes[i], (uint8_t)i), 0);
		if (i % 3 == 0)
			assert_int_equal(smbdfix_send(&passive, 5, 0), 0);
		smbdfix_pump(&active, &passive);
		smbdfix_expect_message(&passive, sizes[i], (uint8_t)i);
		assert_int_equal(passive.num_messages, i + 1);
	}
	for (size_t i = 0; i < 1000; i++) /* all at once */
		assert_int_equal(smbdfix_send(&active, sizes[i], (uint8_t)i), 0);
	smbdfix_pump(&active, &passive);
	assert_int_equal(passive.num_messages, 2000);
	assert_int_equal(smbdfix_view(&active).queued_bytes, 0);
	smbdfix_free(&active);
	smbdfix_free(&passive);
	PROVES("SMBD-20 SMBD-85 SMBD-87 SMBD-97 SMBD-132");
}

/* ---- fragments that come */

struct fragment {
	uint32_t length, remaining;
};

/* @return how the connection has ended */
static enum smbd_end take(const struct fragment *fragments, size_t n, size_t *ret_messages)
{
	struct smbdfix fix;
	smbdfix_establish(&fix, &many, SMBD_PASSIVE, 255, 255);
	for (size_t i = 0; i < n && !fix.ended; i++) {
		const struct smbdirect_data data = { .credits_requested = 255,
						     .remaining = fragments[i].remaining,
						     .length = fragments[i].length };
		smbdfix_get_data(&fix, &data, 0);
	}
	enum smbd_end end = fix.end;
	*ret_messages = fix.num_messages;
	smbdfix_free(&fix);
	return end;
}

static void sequences(void **state)
{
	(void)state;
	static const struct {
		struct fragment fragments[4];
		size_t n, messages;
		enum smbd_end end;
	} tries[] = {
		{ { { 10, 0 }, { 20, 0 } }, 2, 2, SMBD_END_NONE },
		{ { { 10, 20 }, { 15, 5 }, { 5, 0 } }, 3, 1, SMBD_END_NONE },
		{ { { 10, 20 }, { 15, 0 } }, 2, 0, SMBD_END_BAD_SEQUENCE },  /* too short */
		{ { { 10, 20 }, { 25, 0 } }, 2, 0, SMBD_END_BAD_SEQUENCE },  /* too long */
		{ { { 10, 20 }, { 15, 6 } }, 2, 0, SMBD_END_BAD_SEQUENCE },  /* inconsistent */
		{ { { 10, 20 }, { 10, 20 } }, 2, 0, SMBD_END_BAD_SEQUENCE }, /* begun anew */
		{ { { 10, 20 }, { 0, 0 }, { 20, 0 } }, 3, 1, SMBD_END_NONE },
		{ { { 0, 30 }, { 10, 0 } }, 2, 1, SMBD_END_NONE }, /* says nothing */
		{ { { 0, 0xFFFFFFFF }, { 10, 0 } }, 2, 1, SMBD_END_NONE },
		{ { { 1000, 130072 } }, 1, 0, SMBD_END_NONE },
		{ { { 1000, 130073 } }, 1, 0, SMBD_END_TOO_LONG },
		{ { { 1000, 0xFFFFFFFF } }, 1, 0, SMBD_END_TOO_LONG },
		{ { { 1000, 0xFFFFFC18 } }, 1, 0, SMBD_END_TOO_LONG }, /* the sum wraps to 0 */
	};
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		TRIES("sequence %zu", i);
		size_t messages;
		assert_int_equal(take(tries[i].fragments, tries[i].n, &messages), tries[i].end);
		assert_int_equal(messages, tries[i].messages);
	}
	PROVES("SMBD-113 SMBD-115 SMBD-123 SMBD-124 SMBD-125 SMBD-126 SMBD-127 SMBD-128");
}

static void bytes_are_in_their_places(void **state)
{
	(void)state;
	struct smbdfix active, passive;
	smbdfix_join(&active, &many, &passive, &many);
	assert_int_equal(smbdfix_send(&active, 131072, 3), 0);
	smbdfix_pump(&active, &passive);
	smbdfix_expect_message(&passive, 131072, 3);
	assert_int_equal(smbdfix_send(&passive, 100000, 9), 0);
	smbdfix_pump(&active, &passive);
	smbdfix_expect_message(&active, 100000, 9);
	smbdfix_free(&active);
	smbdfix_free(&passive);
	PROVES("SMBD-123 SMBD-132");
}

/* A message has far more fragments than there are receives. */
static void receives_are_free_at_once(void **state)
{
	(void)state;
	struct smbdfix active, passive;
	smbdfix_join(&active, &smbdfix_config, &passive, &smbdfix_config);
	assert_int_equal(smbdfix_send(&active, 131072, 5), 0);
	smbdfix_pump(&active, &passive);
	smbdfix_expect_message(&passive, 131072, 5);
	assert_true(passive.posted <= 11);
	smbdfix_free(&active);
	smbdfix_free(&passive);
	PROVES("SMBD-97 SMBD-160 SMBD-175");
}

static void bad_messages(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		TRIES("message %d", i);
		struct smbdfix fix;
		uint8_t buf[64] = { 10, 0 };
		size_t len = 20;
		enum smbd_end end = SMBD_END_BAD_DATA;
		smbdfix_establish(&fix, &many, SMBD_PASSIVE, 255, 255);
		if (i == 0)
			len = 19;
		if (i == 1)
			buf[0] = 0; /* requests no credit */
		if (i == 2)
			buf[12] = 25; /* offset */
		if (i == 3)
			len = 24, end = SMBD_END_NONE; /* an empty message with padding */
		smbdfix_get(&fix, buf, len, NULL);
		assert_int_equal(fix.end, end);
		smbdfix_free(&fix);
	}
	PROVES("SMBD-109 SMBD-110 SMBD-111 SMBD-116");
}

/* ---- tokens */

static void a_token_goes_with_the_last_fragment(void **state)
{
	(void)state;
	struct smbdfix fix;
	const uint32_t token = 0x1234;
	uint8_t *bytes = calloc(1, 2500);
	assert_non_null(bytes);
	smbdfix_establish(&fix, &many, SMBD_PASSIVE, 255, 255);
	assert_int_equal(smbd_send(fix.smbd, bytes, 2500, &token, fix.now), 0);
	assert_false(smbdfix_next(&fix)->has_token);
	assert_false(smbdfix_next(&fix)->has_token);
	const struct smbdfix_sent *last = smbdfix_next(&fix);
	assert_true(last->has_token);
	assert_int_equal(last->token, token);
	smbdfix_free(&fix);
	PROVES("SMBD-83");
}

static void get_fragment(struct smbdfix *fix, uint32_t length, uint32_t remaining,
			 const uint32_t *token)
{
	uint8_t buf[1024] = { 0 };
	const struct smbdirect_data data = { .credits_requested = 255,
					     .remaining = remaining,
					     .length = length };
	smbdfix_get(fix, buf, smbdirect_encode_data(&data, buf) + length, token);
}

static void tokens_are_told_with_the_message(void **state)
{
	(void)state;
	struct smbdfix fix;
	const uint32_t token = 0x77;
	smbdfix_establish(&fix, &many, SMBD_PASSIVE, 255, 255);
	fix.own_token = token;
	get_fragment(&fix, 10, 20, &token); /* any fragment may have it */
	assert_int_equal(fix.num_messages, 0);
	get_fragment(&fix, 20, 0, NULL);
	assert_true(fix.message_has_token);
	assert_int_equal(fix.message_token, token);
	get_fragment(&fix, 20, 0, NULL);
	assert_false(fix.message_has_token);
	const uint32_t foreign = 0x78;
	get_fragment(&fix, 20, 0, &foreign);
	assert_int_equal(fix.end, SMBD_END_TOKEN);
	assert_int_equal(fix.num_messages, 2);
	smbdfix_free(&fix);
	PROVES("SMBD-4 SMBD-83 SMBD-129 SMBD-130 SMBD-131");
}

static void the_last_token_counts(void **state)
{
	(void)state;
	struct smbdfix fix;
	uint32_t token = 1;
	smbdfix_establish(&fix, &many, SMBD_PASSIVE, 255, 255);
	fix.own_token = token;
	get_fragment(&fix, 10, 20, &token);
	fix.own_token = token = 2;
	get_fragment(&fix, 20, 0, &token);
	assert_int_equal(fix.message_token, 2);
	smbdfix_free(&fix);
	PROVES("SMBD-129");
}

/* ---- keepalive */

static void an_idle_peer_is_asked_and_answers(void **state)
{
	(void)state;
	struct smbdfix active, passive;
	smbdfix_join(&active, &many, &passive, &many);
	smbdfix_send(&active, 10, 0);
	smbdfix_pump(&active, &passive);
	passive.now = smbd_deadline(passive.smbd);
	assert_int_equal(passive.now, 1000000 + 120000000);
	smbd_timer(passive.smbd, passive.now - 1);
	assert_true(smbdfix_is_silent(&passive));
	smbd_timer(passive.smbd, passive.now);
	assert_int_equal(smbd_deadline(passive.smbd), passive.now + 5000000);
	const struct smbdfix_sent ask = passive.sent[passive.taken];
	assert_int_equal(ask.len, 20);
	assert_int_equal(ask.bytes[4], 1);
	active.now = passive.now;
	smbdfix_pump(&passive, &active);
	/* The answer does not ask itself: then neither would ever stop. */
	assert_int_equal(smbdfix_view(&active).empty_sent, 2); /* one began */
	assert_int_equal(smbdfix_view(&passive).empty_sent, 1);
	assert_int_equal(smbd_deadline(passive.smbd), passive.now + 120000000);
	smbdfix_free(&active);
	smbdfix_free(&passive);
	PROVES("SMBD-19 SMBD-93 SMBD-94 SMBD-108 SMBD-120 SMBD-134 SMBD-136 SMBD-138 SMBD-139");
}

static void a_queued_message_asks_too(void **state)
{
	(void)state;
	struct smbdfix fix;
	smbdfix_establish(&fix, &many, SMBD_PASSIVE, 255, 0);
	assert_int_equal(smbdfix_send(&fix, 10, 0), 0); /* no credit: it waits */
	fix.now = smbd_deadline(fix.smbd);
	smbd_timer(fix.smbd, fix.now);
	assert_true(smbdfix_is_silent(&fix));
	/* The time for an answer runs all the same. */
	assert_int_equal(smbd_deadline(fix.smbd), fix.now + 5000000);
	fix.now += 5000000;
	smbd_timer(fix.smbd, fix.now);
	assert_int_equal(fix.end, SMBD_END_SILENT);
	smbdfix_free(&fix);

	smbdfix_establish(&fix, &many, SMBD_ACTIVE, 255, 2);
	smbdfix_send(&fix, 1500, 0);
	assert_false(smbdfix_next_data(&fix).response_requested);
	fix.now = smbd_deadline(fix.smbd);
	smbd_timer(fix.smbd, fix.now);
	const struct smbdirect_data grant = { .credits_requested = 255, .credits_granted = 9 };
	smbdfix_get_data(&fix, &grant, 0);
	/* What came in between has answered already. */
	struct smbdirect_data second = smbdfix_next_data(&fix);
	assert_int_equal(second.length, 500);
	assert_false(second.response_requested);
	smbdfix_free(&fix);
	PROVES("SMBD-19 SMBD-108 SMBD-135 SMBD-137");
}

static void a_peer_that_does_not_answer_is_given_up(void **state)
{
	(void)state;
	struct smbdfix fix;
	smbdfix_establish(&fix, &many, SMBD_ACTIVE, 255, 255);
	fix.now = smbd_deadline(fix.smbd);
	smbd_timer(fix.smbd, fix.now);
	assert_true(smbdfix_next_data(&fix).response_requested);
	/* What this side sends is no sign of the peer, and asks no second time. */
	smbdfix_send(&fix, 10, 0);
	assert_false(smbdfix_next_data(&fix).response_requested);
	smbd_timer(fix.smbd, fix.now + 4999999);
	assert_int_equal(fix.ended, 0);
	smbd_timer(fix.smbd, fix.now + 5000000);
	assert_int_equal(fix.end, SMBD_END_SILENT);
	smbdfix_free(&fix);
	PROVES("SMBD-93 SMBD-134 SMBD-135");
}

/* ---- the end */

static void the_end_is_told_once(void **state)
{
	(void)state;
	struct smbdfix fix;
	smbdfix_establish(&fix, &many, SMBD_PASSIVE, 255, 1);
	get_fragment(&fix, 10, 20, NULL); /* a part of a message */
	smbdfix_send(&fix, 100000, 0);    /* the most of it waits */
	smbd_lost(fix.smbd, fix.now);
	smbd_lost(fix.smbd, fix.now);
	smbd_close(fix.smbd);
	assert_int_equal(fix.ended, 1);
	assert_int_equal(fix.end, SMBD_END_LOST);
	assert_int_equal(smbd_deadline(fix.smbd), UINT64_MAX);
	assert_int_equal(smbdfix_view(&fix).queued_bytes, 0);
	assert_int_equal(smbdfix_send(&fix, 10, 0), -ENOTCONN);
	const size_t sent = fix.num_sent;
	get_fragment(&fix, 20, 0, NULL);
	smbd_sent(fix.smbd, fix.now);
	smbd_timer(fix.smbd, fix.now + 1000000000);
	assert_int_equal(fix.num_sent, sent);
	assert_int_equal(fix.num_messages, 0);
	smbdfix_free(&fix);
	PROVES("SMBD-5 SMBD-141 SMBD-142");
}

static void a_failing_send_ends_it(void **state)
{
	(void)state;
	struct smbdfix fix;
	smbdfix_establish(&fix, &many, SMBD_ACTIVE, 255, 255);
	fix.send_error = -EIO;
	assert_int_equal(smbdfix_send(&fix, 10, 0), 0);
	assert_int_equal(fix.end, SMBD_END_LOST);
	smbdfix_free(&fix);
	PROVES("SMBD-86 SMBD-95");
}

static void a_full_send_queue_waits(void **state)
{
	(void)state;
	struct smbdfix fix;
	smbdfix_establish(&fix, &many, SMBD_ACTIVE, 255, 255);
	fix.send_room = 2;
	smbdfix_send(&fix, 5000, 0);
	assert_int_equal(smbdfix_next_data(&fix).remaining, 4000);
	assert_int_equal(smbdfix_next_data(&fix).remaining, 3000);
	assert_true(smbdfix_is_silent(&fix));
	fix.send_room = 10;
	smbd_sent(fix.smbd, fix.now);
	assert_int_equal(smbdfix_next_data(&fix).remaining, 2000);
	assert_int_equal(fix.num_sent, 7);
	smbdfix_free(&fix);
}

static void close_now(struct smbdfix *fix)
{
	smbdfix_send(fix, 10, 0);
	smbd_close(fix->smbd);
}

static void a_user_ends_it_while_it_gets_a_message(void **state)
{
	(void)state;
	struct smbdfix fix;
	smbdfix_establish(&fix, &many, SMBD_PASSIVE, 255, 255);
	fix.on_message = close_now;
	get_fragment(&fix, 10, 0, NULL);
	assert_int_equal(fix.end, SMBD_END_CLOSED);
	assert_true(smbdfix_is_silent(&fix));
	smbdfix_free(&fix);
	PROVES("SMBD-141");
}

static void hold_it(struct smbdfix *fix)
{
	smbd_hold(fix->smbd, true, fix->now);
}

/* Who holds the connection while a message comes does not keep what waits for the credits that have
 * come with it. */
static void a_hold_inside_a_message_lets_sends_leave(void **state)
{
	(void)state;
	struct smbdfix fix;
	smbdfix_establish(&fix, &many, SMBD_ACTIVE, 255, 2);
	assert_int_equal(smbdfix_send(&fix, 3000, 0), 0);
	while (!smbdfix_is_silent(&fix))
		smbdfix_next(&fix);
	assert_true(smbdfix_view(&fix).queued_bytes > 0);
	fix.on_message = hold_it;
	const struct smbdirect_data data = { .credits_requested = 255,
					     .credits_granted = 10,
					     .length = 10 };
	smbdfix_get_data(&fix, &data, 0);
	assert_int_equal(fix.num_messages, 1);
	assert_int_equal(smbdfix_view(&fix).queued_bytes, 0);
	smbdfix_free(&fix);
}

/* ---- long messages */

static void room_of_a_long_message_is_given_back(void **state)
{
	(void)state;
	struct smbdfix active, passive;
	const struct smbd_config large = { .max_fragmented_size = 4u << 20 };
	smbdfix_join(&active, &large, &passive, &large);
	passive.reserve_most = 4u << 20;
	assert_int_equal(smbdfix_send(&active, 3u << 20, 3), 0);
	smbdfix_pump(&active, &passive);
	smbdfix_expect_message(&passive, 3u << 20, 3);
	assert_int_equal(passive.reserved, 0);
	assert_int_equal(smbdfix_send(&active, 100000, 4), 0); /* whose room stays */
	smbdfix_pump(&active, &passive);
	smbdfix_expect_message(&passive, 100000, 4);
	assert_int_equal(passive.reserved, 100000);
	passive.reserve_most = 200000; /* of others there is not more now */
	assert_int_equal(smbdfix_send(&active, 200001, 5), 0);
	smbdfix_pump(&active, &passive);
	assert_int_equal(passive.end, SMBD_END_RESOURCES);
	assert_int_equal(passive.num_messages, 2);
	smbdfix_free(&active);
	smbdfix_free(&passive);
}

static void ends_have_words(void **state)
{
	(void)state;
	for (enum smbd_end end = SMBD_END_NONE; end <= SMBD_END_RESOURCES; end++)
		assert_string_not_equal(smbd_end_text(end), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fragments),
		cmocka_unit_test(nothing_of_a_bad_message_is_taken),
		cmocka_unit_test(one_byte),
		cmocka_unit_test(the_smallest_fragments),
		cmocka_unit_test(lengths_of_upper_messages),
		cmocka_unit_test(messages_do_not_mix),
		cmocka_unit_test(sequences),
		cmocka_unit_test(bytes_are_in_their_places),
		cmocka_unit_test(receives_are_free_at_once),
		cmocka_unit_test(bad_messages),
		cmocka_unit_test(a_token_goes_with_the_last_fragment),
		cmocka_unit_test(tokens_are_told_with_the_message),
		cmocka_unit_test(the_last_token_counts),
		cmocka_unit_test(an_idle_peer_is_asked_and_answers),
		cmocka_unit_test(a_queued_message_asks_too),
		cmocka_unit_test(a_peer_that_does_not_answer_is_given_up),
		cmocka_unit_test(the_end_is_told_once),
		cmocka_unit_test(a_failing_send_ends_it),
		cmocka_unit_test(a_full_send_queue_waits),
		cmocka_unit_test(a_user_ends_it_while_it_gets_a_message),
		cmocka_unit_test(a_hold_inside_a_message_lets_sends_leave),
		cmocka_unit_test(room_of_a_long_message_is_given_back),
		cmocka_unit_test(ends_have_words),
	};
	return cmocka_run_group_tests_name("smbd: data", tests, NULL, NULL);
}

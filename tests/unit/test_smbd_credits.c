/* SPDX-License-Identifier: MIT */
/* Credits of SMB Direct: which receives are posted, when they are granted, and that two sides
 * neither wait for each other nor talk for ever. */
#include <errno.h>
#include <stdlib.h>

#include "tests/lib/proves.h"
#include "tests/lib/random.h"
#include "tests/lib/smbdfix.h"
#include "tests/lib/tries.h"

static struct smbd_config with_credits(uint32_t most, uint32_t target)
{
	struct smbd_config config = smbdfix_config;
	config.receive_credit_max = most;
	config.send_credit_target = target;
	return config;
}

/* A message of the peer that asks for and grants so many. */
static void get_empty(struct smbdfix *fix, uint16_t requested, uint16_t granted)
{
	const struct smbdirect_data data = { .credits_requested = requested,
					     .credits_granted = granted };
	smbdfix_get_data(fix, &data, 0);
}

static void get_payload(struct smbdfix *fix, uint16_t requested, uint16_t granted)
{
	const struct smbdirect_data data = { .credits_requested = requested,
					     .credits_granted = granted,
					     .length = 10 };
	smbdfix_get_data(fix, &data, 0);
}

/* ---- what is posted */

static void the_peer_gets_what_it_asks_for_within_limits(void **state)
{
	(void)state;
	static const struct {
		uint16_t asked;
		uint32_t most, posted;
	} tries[] = {
		{ 10, 255, 10 }, { 300, 255, 255 }, { 255, 10, 10 },
		{ 1, 255, 3 },   { 2, 255, 3 },     { 65535, 300, 300 },
	};
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		TRIES("%u asked, %u at most", tries[i].asked, tries[i].most);
		struct smbd_config config = with_credits(tries[i].most, 10);
		struct smbdfix fix;
		smbdfix_establish(&fix, &config, SMBD_PASSIVE, tries[i].asked, 0);
		assert_int_equal(fix.posted, tries[i].posted);
		smbdfix_free(&fix);
	}
	PROVES("SMBD-98 SMBD-101 SMBD-102 SMBD-174");
}

static void the_target_changes(void **state)
{
	(void)state;
	struct smbd_config config = with_credits(100, 10);
	struct smbdfix fix;
	smbdfix_establish(&fix, &config, SMBD_PASSIVE, 10, 10);
	assert_int_equal(fix.posted, 10);
	get_payload(&fix, 20, 0);
	assert_int_equal(fix.posted, 20);
	assert_int_equal(smbdfix_view(&fix).receive_target, 20);
	get_payload(&fix, 5, 0); /* what is posted stays */
	assert_int_equal(fix.posted, 19);
	smbdfix_free(&fix);
	PROVES("SMBD-98 SMBD-117 SMBD-119");
}

static void grants_add_up(void **state)
{
	(void)state;
	struct smbdfix fix;
	struct smbd_config config = with_credits(100, 10);
	smbdfix_establish(&fix, &config, SMBD_PASSIVE, 100, 10);
	assert_int_equal(smbdfix_view(&fix).send_credits, 10);
	get_empty(&fix, 100, 1);
	assert_int_equal(smbdfix_view(&fix).send_credits, 11);
	get_empty(&fix, 100, 0);
	assert_int_equal(smbdfix_view(&fix).send_credits, 11);
	assert_int_equal(fix.ended, 0);
	smbdfix_free(&fix);
	PROVES("SMBD-104 SMBD-121");
}

static void more_credits_than_can_be(void **state)
{
	(void)state;
	struct smbdfix fix;
	smbdfix_establish(&fix, &smbdfix_config, SMBD_PASSIVE, 10, 65535);
	assert_int_equal(smbdfix_view(&fix).send_credits, 65535);
	get_empty(&fix, 10, 1);
	assert_int_equal(fix.end, SMBD_END_CREDITS);
	smbdfix_free(&fix);
	PROVES("SMBD-24");
}

/* A peer that sends without credits is lost to its own harm: an RNIC has no receive for that. */
static void a_message_without_a_receive(void **state)
{
	(void)state;
	struct smbdfix fix;
	smbdfix_establish(&fix, &smbdfix_config, SMBD_PASSIVE, 10, 0);
	fix.post_room = 0;
	for (int i = 0; i < 10; i++)
		get_empty(&fix, 10, 0);
	assert_int_equal(fix.ended, 0);
	get_empty(&fix, 10, 0);
	assert_int_equal(fix.end, SMBD_END_CREDITS);
	smbdfix_free(&fix);
	PROVES("SMBD-172");
}

/* A receive is there, and the peer has not been told of it: it has used a credit that it has not.
 */
static void a_message_without_a_credit(void **state)
{
	(void)state;
	struct smbdfix fix;
	smbdfix_establish(&fix, &smbdfix_config, SMBD_PASSIVE, 10, 0);
	for (int i = 0; i < 10; i++)
		get_empty(&fix, 10, 0);
	/* it has no credit to tell of the new ones */
	assert_int_equal(smbdfix_view(&fix).pending_grant, 10);
	assert_int_equal(fix.posted, 10);
	get_empty(&fix, 10, 0);
	assert_int_equal(fix.end, SMBD_END_CREDITS);
	smbdfix_free(&fix);
	PROVES("SMBD-23 SMBD-172");
}

/* ---- what is granted */

static void grants_go_with_messages(void **state)
{
	(void)state;
	struct smbd_config config = with_credits(100, 10);
	struct smbdfix fix;
	smbdfix_establish(&fix, &config, SMBD_ACTIVE, 100, 10);
	assert_int_equal(smbdfix_view(&fix).pending_grant, 0);
	for (int i = 0; i < 3; i++)
		get_payload(&fix, 100, 0);
	assert_int_equal(fix.posted, 100);
	assert_true(smbdfix_is_silent(&fix)); /* three of a hundred can wait */
	smbdfix_send(&fix, 10, 0);
	assert_int_equal(smbdfix_next_data(&fix).credits_granted, 3);
	smbdfix_send(&fix, 10, 0);
	assert_int_equal(smbdfix_next_data(&fix).credits_granted, 0);
	smbdfix_free(&fix);
	PROVES("SMBD-22 SMBD-23 SMBD-89 SMBD-106 SMBD-118");
}

/* Wireshark takes a message that grants more than 255 for something else. */
static void many_grants_take_many_messages(void **state)
{
	(void)state;
	struct smbd_config config = with_credits(600, 10);
	struct smbdfix fix;
	smbdfix_establish(&fix, &config, SMBD_ACTIVE, 600, 10);
	assert_int_equal(smbdfix_view(&fix).pending_grant, 600 - 255);
	smbdfix_send(&fix, 10, 0);
	smbdfix_send(&fix, 10, 0);
	assert_int_equal(smbdfix_next_data(&fix).credits_granted, 255);
	assert_int_equal(smbdfix_next_data(&fix).credits_granted, 90);
	smbdfix_free(&fix);
	PROVES("SMBD-177");
}

/* The peer has one credit left, and only one can be granted. */
static void an_empty_message_grants_when_little_is_left(void **state)
{
	(void)state;
	struct smbdfix fix;
	smbdfix_establish(&fix, &smbdfix_config, SMBD_ACTIVE, 10, 10);
	fix.post_room = 0;
	for (int i = 0; i < 8; i++)
		get_payload(&fix, 10, 0);
	assert_int_equal(fix.posted, 2);
	assert_true(smbdfix_is_silent(&fix));
	fix.post_room = 1;
	get_payload(&fix, 10, 0);
	const struct smbdirect_data data = smbdfix_next_data(&fix);
	assert_int_equal(data.length, 0);
	assert_int_equal(data.credits_granted, 1);
	smbdfix_free(&fix);
	PROVES("SMBD-173");
}

static void an_empty_message_grants_when_much_is_due(void **state)
{
	(void)state;
	struct smbdfix fix;
	struct smbd_config config = with_credits(100, 10);
	smbdfix_establish(&fix, &config, SMBD_PASSIVE, 100, 10);
	for (int i = 0; i < 23; i++) /* and one message has granted credits */
		get_payload(&fix, 100, 0);
	assert_true(smbdfix_is_silent(&fix));
	get_payload(&fix, 100, 0);
	struct smbdirect_data data = smbdfix_next_data(&fix);
	assert_int_equal(data.credits_granted, 25);
	assert_int_equal(data.length, 0);
	assert_true(smbdfix_is_silent(&fix));
	smbdfix_free(&fix);
	PROVES("SMBD-118 SMBD-173");
}

static void answer(struct smbdfix *fix)
{
	assert_int_equal(smbdfix_send(fix, 20, 1), 0);
}

/* What the user sends when it gets a message carries the grant: there is no second message. */
static void an_answer_carries_the_grant(void **state)
{
	(void)state;
	struct smbdfix fix;
	smbdfix_establish(&fix, &smbdfix_config, SMBD_PASSIVE, 10, 10);
	fix.on_message = answer;
	const struct smbdirect_data ask = { .credits_requested = 10,
					    .credits_granted = 2,
					    .response_requested = true,
					    .length = 10 };
	smbdfix_get_data(&fix, &ask, 0);
	struct smbdirect_data data = smbdfix_next_data(&fix);
	assert_int_equal(data.length, 20);
	assert_int_equal(data.credits_granted, 2); /* for this message and that which granted */
	assert_true(smbdfix_is_silent(&fix));
	smbdfix_free(&fix);
	PROVES("SMBD-88 SMBD-96 SMBD-120 SMBD-122");
}

static void a_flag_is_answered_once(void **state)
{
	(void)state;
	struct smbdfix fix;
	smbdfix_establish(&fix, &smbdfix_config, SMBD_PASSIVE, 10, 10);
	const struct smbdirect_data ask = { .credits_requested = 10, .response_requested = true };
	smbdfix_get_data(&fix, &ask, 0);
	struct smbdirect_data data = smbdfix_next_data(&fix);
	assert_int_equal(data.length, 0);
	assert_false(data.response_requested);
	assert_true(smbdfix_is_silent(&fix));
	get_empty(&fix, 10, 0);
	assert_true(smbdfix_is_silent(&fix));
	smbdfix_free(&fix);
	PROVES("SMBD-88 SMBD-96 SMBD-120 SMBD-139");
}

/* ---- the last credit */

static void the_last_credit_goes_with_a_grant(void **state)
{
	(void)state;
	struct smbdfix fix;
	smbdfix_establish(&fix, &smbdfix_config, SMBD_PASSIVE, 10, 1);
	/* the grant for the message that brought the credit can go with it */
	smbdfix_send(&fix, 10, 0);
	assert_true(smbdfix_next_data(&fix).credits_granted >= 1);
	smbdfix_send(&fix, 10, 0);
	assert_true(smbdfix_is_silent(&fix)); /* no credit: no message, and no error */
	assert_int_equal(fix.ended, 0);
	smbdfix_free(&fix);
	PROVES("SMBD-90 SMBD-97");
}

/* All that the peer wants is posted and granted, and still one more receive is posted for it. */
static void the_last_credit_gets_a_receive_beyond_the_target(void **state)
{
	(void)state;
	struct smbdfix fix;
	struct smbd_config config = with_credits(20, 10);
	smbdfix_establish(&fix, &config, SMBD_ACTIVE, 10, 1);
	smbdfix_send(&fix, 10, 0);
	assert_int_equal(smbdfix_next_data(&fix).credits_granted, 1);
	assert_int_equal(fix.posted, 11);
	smbdfix_free(&fix);
	PROVES("SMBD-91 SMBD-99 SMBD-100");
}

/* The same when the message before has left nothing to grant. */
static void the_credit_before_takes_the_grant_along(void **state)
{
	(void)state;
	struct smbdfix fix;
	struct smbd_config config = with_credits(20, 10);
	smbdfix_establish(&fix, &config, SMBD_PASSIVE, 10, 0);
	const struct smbdirect_data grant = { .credits_requested = 10, .credits_granted = 2 };
	smbdfix_send(&fix, 10, 0);
	smbdfix_send(&fix, 10, 0);
	smbdfix_get_data(&fix, &grant, 0);
	assert_int_equal(smbdfix_next_data(&fix).credits_granted, 1); /* of that message */
	assert_int_equal(fix.posted, 11);
	assert_int_equal(smbdfix_next_data(&fix).credits_granted, 1);
	assert_int_equal(smbdfix_view(&fix).send_credits, 0);
	smbdfix_free(&fix);
	PROVES("SMBD-91 SMBD-99 SMBD-100");
}

static void the_last_credit_waits_without_a_receive(void **state)
{
	(void)state;
	struct smbdfix fix;
	struct smbd_config config = with_credits(10, 10); /* no receive beyond these */
	smbdfix_establish(&fix, &config, SMBD_ACTIVE, 10, 1);
	smbdfix_send(&fix, 10, 0);
	assert_true(smbdfix_is_silent(&fix));
	get_payload(&fix, 10, 0); /* its receive can be granted again */
	assert_int_equal(smbdfix_next_data(&fix).credits_granted, 1);
	assert_int_equal(fix.posted, 10);
	smbdfix_free(&fix);
	PROVES("SMBD-91 SMBD-99 SMBD-100");
}

static void a_held_connection_grants_nothing(void **state)
{
	(void)state;
	struct smbdfix fix;
	smbdfix_establish(&fix, &smbdfix_config, SMBD_PASSIVE, 10, 10);
	smbd_hold(fix.smbd, true, fix.now);
	for (int i = 0; i < 10; i++)
		get_payload(&fix, 10, 0);
	assert_int_equal(fix.posted, 0);
	while (!smbdfix_is_silent(&fix)) /* what was posted before may be told */
		assert_true(smbdfix_next_data(&fix).credits_granted <= 1);
	smbd_hold(fix.smbd, true, fix.now);
	assert_int_equal(fix.posted, 0);
	smbd_hold(fix.smbd, false, fix.now);
	assert_int_equal(fix.posted, 10);
	assert_int_equal(smbdfix_next_data(&fix).credits_granted, 10);
	smbdfix_free(&fix);
}

static void hold_now(struct smbdfix *fix)
{
	smbd_hold(fix->smbd, true, fix->now);
}

/* The message has brought credits for what waits. Whoever holds waits perhaps for just that. */
static void a_user_holds_while_it_gets_a_message(void **state)
{
	(void)state;
	struct smbdfix fix;
	smbdfix_establish(&fix, &smbdfix_config, SMBD_PASSIVE, 10, 0);
	smbdfix_send(&fix, 10, 0);
	assert_true(smbdfix_is_silent(&fix));
	assert_int_equal(smbdfix_view(&fix).queued_bytes, 10);
	fix.on_message = hold_now;
	get_payload(&fix, 10, 2);
	assert_int_equal(smbdfix_next_data(&fix).length, 10);
	assert_int_equal(fix.posted, 9);
	smbdfix_free(&fix);
	PROVES("SMBD-97 SMBD-121");
}

static void tell_room(struct smbdfix *fix)
{
	smbd_sent(fix->smbd, fix->now);
}

static void room_is_told_while_a_flag_waits_for_its_answer(void **state)
{
	(void)state;
	struct smbdfix fix;
	smbdfix_establish(&fix, &smbdfix_config, SMBD_PASSIVE, 10, 10);
	fix.on_message = tell_room;
	const struct smbdirect_data data = { .credits_requested = 10,
					     .response_requested = true,
					     .length = 10 };
	smbdfix_get_data(&fix, &data, 0);
	assert_int_equal(smbdfix_next_data(&fix).length, 0);
	smbdfix_free(&fix);
	PROVES("SMBD-120 SMBD-139");
}

/* ---- two sides */

static void one_message_is_followed_by_one_at_most(void **state)
{
	(void)state;
	static const uint32_t credits[] = { 3, 4, 8, 10, 255 };
	for (size_t i = 0; i < 5; i++)
		for (size_t k = 0; k < 5; k++) {
			TRIES("%u and %u", credits[i], credits[k]);
			struct smbd_config a = with_credits(credits[i], credits[k]);
			struct smbd_config b = with_credits(credits[k], credits[i]);
			struct smbdfix active, passive;
			smbdfix_join(&active, &a, &passive, &b);
			for (int n = 0; n < 20; n++) {
				const struct smbd_view before = smbdfix_view(&passive);
				const struct smbd_view mine = smbdfix_view(&active);
				assert_int_equal(smbdfix_send(&active, 10, 0), 0);
				smbdfix_pump(&active, &passive);
				assert_int_equal(passive.num_messages, n + 1);
				assert_true(smbdfix_view(&passive).empty_sent - before.empty_sent +
						    smbdfix_view(&active).empty_sent -
						    mine.empty_sent <=
					    2);
			}
			smbdfix_free(&active);
			smbdfix_free(&passive);
		}
	PROVES("SMBD-173 SMBD-174");
}

/* Random traffic in one direction, or both, with few credits: everything arrives, no SEND meets no
 * receive (smbdfix_pump() fails then), and both sides fall silent. */
static void random_traffic_arrives_and_ends(void **state)
{
	(void)state;
	struct random random = { 20261129 };
	for (int run = 0; run < 400; run++) {
		TRIES("run %d", run);
		struct smbd_config a =
			with_credits(3 + random_below(&random, 12), 3 + random_below(&random, 12));
		struct smbd_config b =
			with_credits(3 + random_below(&random, 12), 3 + random_below(&random, 12));
		const bool both = random_below(&random, 2);
		struct smbdfix active, passive;
		size_t sent_a = 0, sent_b = 0;
		smbdfix_join(&active, &a, &passive, &b);
		for (int step = 0; step < 100; step++) {
			if (random_below(&random, 2)) {
				assert_int_equal(
					smbdfix_send(&active, 1 + random_below(&random, 5000), 0),
					0);
				sent_a++;
			}
			if (both && random_below(&random, 2)) {
				assert_int_equal(
					smbdfix_send(&passive, 1 + random_below(&random, 5000), 0),
					0);
				sent_b++;
			}
			if (random_below(&random, 3) == 0)
				smbdfix_pump(&active, &passive);
		}
		smbdfix_pump(&active, &passive);
		assert_int_equal(passive.num_messages, sent_a);
		assert_int_equal(active.num_messages, sent_b);
		smbdfix_free(&active);
		smbdfix_free(&passive);
	}
	PROVES("SMBD-23 SMBD-89 SMBD-97 SMBD-132 SMBD-173 SMBD-180");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_peer_gets_what_it_asks_for_within_limits),
		cmocka_unit_test(the_target_changes),
		cmocka_unit_test(grants_add_up),
		cmocka_unit_test(more_credits_than_can_be),
		cmocka_unit_test(a_message_without_a_receive),
		cmocka_unit_test(a_message_without_a_credit),
		cmocka_unit_test(grants_go_with_messages),
		cmocka_unit_test(many_grants_take_many_messages),
		cmocka_unit_test(an_empty_message_grants_when_little_is_left),
		cmocka_unit_test(an_empty_message_grants_when_much_is_due),
		cmocka_unit_test(an_answer_carries_the_grant),
		cmocka_unit_test(a_flag_is_answered_once),
		cmocka_unit_test(the_last_credit_goes_with_a_grant),
		cmocka_unit_test(the_last_credit_gets_a_receive_beyond_the_target),
		cmocka_unit_test(the_credit_before_takes_the_grant_along),
		cmocka_unit_test(the_last_credit_waits_without_a_receive),
		cmocka_unit_test(a_held_connection_grants_nothing),
		cmocka_unit_test(a_user_holds_while_it_gets_a_message),
		cmocka_unit_test(room_is_told_while_a_flag_waits_for_its_answer),
		cmocka_unit_test(one_message_is_followed_by_one_at_most),
		cmocka_unit_test(random_traffic_arrives_and_ends),
	};
	return cmocka_run_group_tests_name("smbd: credits", tests, NULL, NULL);
}

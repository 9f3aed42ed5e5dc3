/* SPDX-License-Identifier: MIT */
/* The first messages of SMB Direct: what is sent, what is taken, and what ends the connection. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/proves.h"
#include "tests/lib/smbdfix.h"
#include "tests/lib/tries.h"

/* A Request and a Response that are in order, with the small sizes of the examples. */
static const struct smbdirect_request good_request = { 0x0100, 0x0100, 10, 1024, 1024, 131072 };
static const struct smbdirect_response good_response = {
	0x0100, 0x0100, 0x0100, 10, 10, 0, 0x00100000, 1024, 1024, 131072,
};

static void get_request(struct smbdfix *fix, const struct smbdirect_request *request)
{
	uint8_t buf[SMBDIRECT_REQUEST_LEN];
	smbdirect_encode_request(request, buf);
	smbdfix_get(fix, buf, sizeof(buf), NULL);
}

static void get_response(struct smbdfix *fix, const struct smbdirect_response *response)
{
	uint8_t buf[SMBDIRECT_RESPONSE_LEN];
	smbdirect_encode_response(response, buf);
	smbdfix_get(fix, buf, sizeof(buf), NULL);
}

static struct smbdirect_response next_response(struct smbdfix *fix)
{
	const struct smbdfix_sent *sent = smbdfix_next(fix);
	struct smbdirect_response response;
	assert_int_equal(sent->len, SMBDIRECT_RESPONSE_LEN);
	assert_int_equal(smbdirect_decode_response(sent->bytes, sent->len, &response), 0);
	return response;
}

static void start(struct smbdfix *fix, enum smbd_role role)
{
	smbdfix_new(fix, &smbdfix_config, role);
	smbd_connected(fix->smbd, fix->now);
}

/* ---- the configuration */

static void configurations(void **state)
{
	(void)state;
	const struct {
		struct smbd_config config;
		bool good;
	} tries[] = {
		{ { 0 }, true },
		{ { .receive_credit_max = 2 }, false },
		{ { .receive_credit_max = 3, .send_credit_target = 3 }, true },
		{ { .send_credit_target = 2 }, false },
		{ { .send_credit_target = 65535 }, true },
		{ { .send_credit_target = 65536 }, false },
		{ { .max_send_size = 127 }, false },
		{ { .max_send_size = 8136 }, true },
		{ { .max_send_size = 8137 }, false },
		{ { .max_receive_size = 127 }, false },
		{ { .max_fragmented_size = 131071 }, false },
		{ { .max_read_write_size = 65535 }, false },
	};
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		TRIES("configuration %zu", i);
		const char *why = NULL;
		assert_int_equal(smbd_config_check(&tries[i].config, &why),
				 tries[i].good ? 0 : -EINVAL);
		assert_true(tries[i].good == (why == NULL));
	}
	PROVES("SMBD-26 SMBD-159 SMBD-174 SMBD-178");
}

static void defaults(void **state)
{
	(void)state;
	const struct smbd_config none = { 0 };
	struct smbdfix fix;
	smbdfix_new(&fix, &none, SMBD_ACTIVE);
	smbd_connected(fix.smbd, fix.now);
	const struct smbdfix_sent *sent = smbdfix_next(&fix);
	struct smbdirect_request request;
	assert_int_equal(smbdirect_decode_request(sent->bytes, sent->len, &request), 0);
	assert_int_equal(request.credits_requested, 255);
	assert_int_equal(request.preferred_send_size, 1364);
	assert_int_equal(request.max_receive_size, 8192);
	assert_int_equal(request.max_fragmented_size, 1048576);
	struct smbd_view view = smbdfix_view(&fix);
	assert_int_equal(view.max_read_write_size, 8388608);
	assert_int_equal(view.keepalive_us, 120000000);
	assert_int_equal(smbd_deadline(fix.smbd), fix.now + 120000000);
	smbdfix_free(&fix);
	PROVES("SMBD-27 SMBD-156 SMBD-157 SMBD-158");
}

/* ---- the active side */

static void the_active_side_asks_first(void **state)
{
	(void)state;
	struct smbdfix fix;
	uint8_t expected[SMBDIRECT_REQUEST_LEN];
	smbdfix_new(&fix, &smbdfix_config, SMBD_ACTIVE);
	assert_true(smbdfix_is_silent(&fix));
	struct smbd_view view = smbdfix_view(&fix);
	assert_int_equal(view.role, SMBD_ACTIVE);
	assert_int_equal(view.send_credits + view.receive_credits + view.queued_bytes, 0);
	assert_int_equal(smbdfix_send(&fix, 1, 0), -ENOTCONN);
	smbd_connected(fix.smbd, fix.now);
	const struct smbdfix_sent *sent = smbdfix_next(&fix);
	smbdirect_encode_request(&good_request, expected);
	assert_int_equal(sent->len, sizeof(expected));
	assert_memory_equal(sent->bytes, expected, sizeof(expected));
	smbd_connected(fix.smbd, fix.now);
	assert_true(smbdfix_is_silent(&fix));
	smbdfix_free(&fix);
	PROVES("SMBD-7 SMBD-12 SMBD-18 SMBD-25 SMBD-28 SMBD-30 SMBD-38 SMBD-39 SMBD-179");
}

static void a_good_response(void **state)
{
	(void)state;
	struct smbdfix fix;
	start(&fix, SMBD_ACTIVE);
	struct smbdirect_response response = good_response;
	response.min_version = 7; /* these two mean nothing to the active side */
	response.max_version = 9;
	response.credits_requested = 4;
	response.credits_granted = 6;
	response.max_read_write_size = 70000;
	response.preferred_send_size = 512;
	response.max_receive_size = 256;
	response.max_fragmented_size = 173910;
	get_response(&fix, &response);
	struct smbd_view view = smbdfix_view(&fix);
	assert_int_equal(fix.established, 1);
	assert_int_equal(view.receive_credits, 4);
	/* The peer had none, and is granted them at once. */
	smbdfix_next(&fix); /* the Request */
	const struct smbdirect_data grant = smbdfix_next_data(&fix);
	assert_int_equal(grant.length, 0);
	assert_int_equal(grant.credits_granted, 4);
	assert_int_equal(view.pending_grant, 0);
	assert_int_equal(view.send_credits, 6 - 1);
	assert_int_equal(view.max_receive_size, 512);
	assert_int_equal(fix.posted_size, 512);
	assert_int_equal(view.max_send_size, 256);
	assert_int_equal(view.max_fragmented_send_size, 173910);
	assert_int_equal(view.max_fragmented_receive_size, 131072);
	assert_int_equal(view.max_read_write_size, 70000);
	assert_int_equal(smbd_deadline(fix.smbd), fix.now + 120000000);
	smbdfix_free(&fix);
	PROVES("SMBD-21 SMBD-31 SMBD-71 SMBD-72 SMBD-73 SMBD-75 SMBD-76 SMBD-103 SMBD-140 "
	       "SMBD-182");
}

static void speak_at_once(struct smbdfix *fix)
{
	assert_int_equal(smbdfix_send(fix, 10, 0), 0);
}

/* A message that is there at once takes the credits along (MS-SMBD 4.1.3). */
static void the_first_message_grants(void **state)
{
	(void)state;
	struct smbdfix fix;
	start(&fix, SMBD_ACTIVE);
	fix.on_established = speak_at_once;
	get_response(&fix, &good_response);
	smbdfix_next(&fix); /* the Request */
	const struct smbdirect_data first = smbdfix_next_data(&fix);
	assert_int_equal(first.length, 10);
	assert_int_equal(first.credits_requested, 10);
	assert_int_equal(first.credits_granted, 10);
	assert_true(smbdfix_is_silent(&fix));
	smbdfix_free(&fix);
	PROVES("SMBD-22 SMBD-61 SMBD-88 SMBD-122");
}

/* Who accepts can speak without having been spoken to. */
static void the_passive_side_begins(void **state)
{
	(void)state;
	struct smbdfix active, passive;
	smbdfix_join(&active, &smbdfix_config, &passive, &smbdfix_config);
	assert_int_equal(smbdfix_send(&passive, 10, 0), 0);
	smbdfix_pump(&active, &passive);
	assert_int_equal(active.num_messages, 1);
	smbdfix_free(&active);
	smbdfix_free(&passive);
	PROVES("SMBD-61 SMBD-173 SMBD-107");
}

static void bad_responses(void **state)
{
	(void)state;
	for (int i = 0; i < 9; i++) {
		TRIES("response %d", i);
		struct smbdirect_response response = good_response;
		enum smbd_end end = SMBD_END_BAD_NEGOTIATE;
		struct smbdfix fix;
		switch (i) {
		case 0: response.version = 0, end = SMBD_END_VERSION; break;
		case 1: response.version = 0x0101, end = SMBD_END_VERSION; break;
		case 2: response.max_receive_size = 127; break;
		case 3: response.max_fragmented_size = 131071; break;
		case 4: response.credits_granted = 0; break;
		case 5: response.credits_requested = 0; break;
		case 6: response.preferred_send_size = 1025; break;
		case 7: response.status = 0xC00000BB, end = SMBD_END_REFUSED; break;
		case 8: /* the status is looked at first */
			response = (struct smbdirect_response){ .status = 0xC00000BB };
			end = SMBD_END_REFUSED;
			break;
		}
		start(&fix, SMBD_ACTIVE);
		get_response(&fix, &response);
		assert_int_equal(fix.ended, 1);
		assert_int_equal(fix.end, end);
		assert_int_equal(fix.established, 0);
		assert_int_equal(smbdfix_view(&fix).status, response.status);
		smbdfix_free(&fix);
	}
	PROVES("SMBD-13 SMBD-29 SMBD-62 SMBD-64 SMBD-65 SMBD-66 SMBD-67 SMBD-68 SMBD-69 SMBD-70");
}

static void least_values_of_a_response_are_taken(void **state)
{
	(void)state;
	struct smbdfix fix;
	struct smbdirect_response response = good_response;
	start(&fix, SMBD_ACTIVE);
	response.max_receive_size = 128;
	response.preferred_send_size = 0; /* below the floor of receives */
	response.credits_granted = 1;
	response.credits_requested = 1;
	response.max_read_write_size = 0; /* no RDMA */
	get_response(&fix, &response);
	assert_int_equal(fix.established, 1);
	assert_int_equal(smbdfix_view(&fix).max_receive_size, 128);
	assert_int_equal(smbdfix_view(&fix).max_read_write_size, 0);
	assert_int_equal(fix.posted, 3); /* one is too few for either side */
	smbdfix_free(&fix);
	PROVES("SMBD-72 SMBD-73 SMBD-174");
}

static void no_receives_for_the_active_side(void **state)
{
	(void)state;
	struct smbdfix fix;
	start(&fix, SMBD_ACTIVE);
	fix.post_room = 0;
	get_response(&fix, &good_response);
	assert_int_equal(fix.end, SMBD_END_RESOURCES);
	smbdfix_free(&fix);
	PROVES("SMBD-74");
}

/* ---- the passive side */

static void the_passive_side_answers(void **state)
{
	(void)state;
	struct smbdfix fix;
	uint8_t expected[SMBDIRECT_RESPONSE_LEN];
	start(&fix, SMBD_PASSIVE);
	assert_true(smbdfix_is_silent(&fix));
	assert_int_equal(smbd_deadline(fix.smbd), fix.now + 5000000);
	get_request(&fix, &good_request);
	assert_int_equal(fix.posted, 10); /* before the Response, which is seen by its grant */
	const struct smbdfix_sent *sent = smbdfix_next(&fix);
	smbdirect_encode_response(&good_response, expected);
	assert_int_equal(sent->len, sizeof(expected));
	assert_memory_equal(sent->bytes, expected, sizeof(expected));
	assert_int_equal(fix.established, 1);
	struct smbd_view view = smbdfix_view(&fix);
	assert_int_equal(view.send_credits, 0);
	assert_int_equal(view.pending_grant, 0);
	assert_int_equal(smbd_deadline(fix.smbd), fix.now + 120000000);
	/* It cannot send before it is granted credits. */
	assert_int_equal(smbdfix_send(&fix, 10, 1), 0);
	assert_true(smbdfix_is_silent(&fix));
	const struct smbdirect_data grant = { .credits_requested = 10, .credits_granted = 10 };
	smbdfix_get_data(&fix, &grant, 0);
	assert_int_equal(smbdfix_next_data(&fix).length, 10);
	smbdfix_free(&fix);
	PROVES("SMBD-32 SMBD-33 SMBD-34 SMBD-35 SMBD-36 SMBD-37 SMBD-40 SMBD-43 SMBD-44 SMBD-47 "
	       "SMBD-57 "
	       "SMBD-58 SMBD-59 SMBD-60 SMBD-61 SMBD-161");
}

static void sizes_of_a_request(void **state)
{
	(void)state;
	static const struct {
		uint32_t send, receive, want_receive, want_send;
	} tries[] = {
		{ 1364, 128, 1024, 128 },
		{ 512, 8192, 512, 1024 },
		{ 127, 1000, 128, 1000 },
		{ 0, 4000000000u, 128, 1024 },
	};
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		TRIES("sizes %zu", i);
		struct smbdirect_request request = good_request;
		struct smbdfix fix;
		request.preferred_send_size = tries[i].send;
		request.max_receive_size = tries[i].receive;
		start(&fix, SMBD_PASSIVE);
		get_request(&fix, &request);
		struct smbdirect_response response = next_response(&fix);
		assert_int_equal(response.preferred_send_size, tries[i].want_send);
		assert_true(response.preferred_send_size <= request.max_receive_size);
		assert_int_equal(response.max_receive_size, tries[i].want_receive);
		assert_int_equal(fix.posted_size, tries[i].want_receive);
		smbdfix_free(&fix);
	}
	PROVES("SMBD-45 SMBD-55 SMBD-56 SMBD-57 SMBD-103");
}

static void versions(void **state)
{
	(void)state;
	static const struct {
		uint16_t min, max;
		bool good;
	} tries[] = {
		{ 0x0100, 0x0100, true },  { 0x0000, 0xFFFF, true },  { 0x0101, 0x0102, false },
		{ 0x0001, 0x00FF, false }, { 0x0200, 0x0100, false }, { 0x0100, 0x0000, false },
	};
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		TRIES("versions %x to %x", tries[i].min, tries[i].max);
		struct smbdirect_request request = good_request;
		struct smbdfix fix;
		request.min_version = tries[i].min;
		request.max_version = tries[i].max;
		if (!tries[i].good && i % 2)
			request.credits_requested = 0; /* what comes later is not looked at */
		start(&fix, SMBD_PASSIVE);
		get_request(&fix, &request);
		static const uint8_t refusal[32] = { 0x00, 0x01, 0x00, 0x01, 0,    0, 0, 0,
						     0,    0,    0,    0,    0xBB, 0, 0, 0xC0 };
		const struct smbdfix_sent *sent = smbdfix_next(&fix);
		assert_int_equal(sent->len, 32);
		assert_int_equal(fix.established, tries[i].good);
		if (!tries[i].good) {
			assert_memory_equal(sent->bytes, refusal, sizeof(refusal));
			assert_int_equal(fix.end, SMBD_END_VERSION);
			assert_true(fix.end_send_first);
		}
		smbdfix_free(&fix);
	}
	PROVES("SMBD-13 SMBD-41 SMBD-42 SMBD-49 SMBD-50 SMBD-54 SMBD-162");
}

static void bad_requests(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		TRIES("request %d", i);
		struct smbdirect_request request = good_request;
		uint8_t buf[SMBDIRECT_REQUEST_LEN];
		struct smbdfix fix;
		if (i == 0)
			request.credits_requested = 0;
		if (i == 1)
			request.max_receive_size = 127;
		if (i == 2)
			request.max_fragmented_size = 131071;
		start(&fix, SMBD_PASSIVE);
		smbdirect_encode_request(&request, buf);
		smbdfix_get(&fix, buf, i == 3 ? 19 : 20, NULL);
		assert_int_equal(fix.end, SMBD_END_BAD_NEGOTIATE);
		assert_true(smbdfix_is_silent(&fix));
		smbdfix_free(&fix);
	}
	PROVES("SMBD-48 SMBD-51 SMBD-52 SMBD-53");
}

static void a_long_request_is_taken(void **state)
{
	(void)state;
	struct smbdfix fix;
	uint8_t buf[SMBD_NEGOTIATE_SIZE] = { 0 };
	start(&fix, SMBD_PASSIVE);
	smbdirect_encode_request(&good_request, buf);
	smbdfix_get(&fix, buf, sizeof(buf), NULL);
	assert_int_equal(fix.established, 1);
	smbdfix_free(&fix);
	PROVES("SMBD-48");
}

static void no_receives_for_the_passive_side(void **state)
{
	(void)state;
	struct smbdfix fix;
	start(&fix, SMBD_PASSIVE);
	fix.post_room = 0;
	get_request(&fix, &good_request);
	assert_int_equal(next_response(&fix).status, 0xC000009A);
	assert_int_equal(fix.end, SMBD_END_RESOURCES);
	assert_true(fix.end_send_first);
	smbdfix_free(&fix);
	PROVES("SMBD-58 SMBD-163");
}

static void the_first_receive_cannot_be_posted(void **state)
{
	(void)state;
	struct smbdfix fix;
	struct smbd *smbd = NULL;
	smbdfix_new(&fix, &smbdfix_config, SMBD_PASSIVE);
	fix.post_room = 0;
	/* the operations are those of `fix`, which counts its receives */
	assert_int_equal(smbdfix_view(&fix).role, SMBD_PASSIVE);
	assert_int_equal(smbdfix_again(&fix, SMBD_PASSIVE, &smbd), -ENOBUFS);
	assert_null(smbd);
	smbdfix_free(&fix);
	PROVES("SMBD-34");
}

/* The Request is there before the queue pair is said to be. */
static void an_early_request_waits(void **state)
{
	(void)state;
	struct smbdfix fix;
	smbdfix_new(&fix, &smbdfix_config, SMBD_PASSIVE);
	uint8_t buf[SMBD_NEGOTIATE_SIZE] = { 0 }; /* as long as can come */
	smbdirect_encode_request(&good_request, buf);
	smbdfix_get(&fix, buf, sizeof(buf), NULL);
	assert_true(smbdfix_is_silent(&fix));
	assert_int_equal(smbd_deadline(fix.smbd), fix.now + 5000000);
	smbd_connected(fix.smbd, fix.now);
	assert_int_equal(next_response(&fix).status, 0);
	assert_int_equal(fix.established, 1);
	smbdfix_free(&fix);
	PROVES("SMBD-176");
}

/* More than there is a receive for cannot come; if it does it is not kept. */
static void a_long_early_message_ends_it(void **state)
{
	(void)state;
	static const uint8_t bytes[SMBD_NEGOTIATE_SIZE + 200] = { 1 };
	struct smbdfix fix;
	smbdfix_new(&fix, &smbdfix_config, SMBD_PASSIVE);
	smbdfix_get(&fix, bytes, sizeof(bytes), NULL);
	assert_int_equal(fix.end, SMBD_END_BAD_NEGOTIATE);
	assert_int_equal(smbd_deadline(fix.smbd), UINT64_MAX);
	smbd_connected(fix.smbd, fix.now);
	assert_true(smbdfix_is_silent(&fix));
	smbdfix_free(&fix);
}

static void a_short_response(void **state)
{
	(void)state;
	struct smbdfix fix;
	uint8_t buf[SMBDIRECT_RESPONSE_LEN];
	start(&fix, SMBD_ACTIVE);
	smbdirect_encode_response(&good_response, buf);
	smbdfix_get(&fix, buf, SMBDIRECT_RESPONSE_LEN - 1, NULL);
	assert_int_equal(fix.end, SMBD_END_BAD_NEGOTIATE);
	smbdfix_free(&fix);
	PROVES("SMBD-62 SMBD-63");
}

static void a_second_early_message_ends_it(void **state)
{
	(void)state;
	struct smbdfix fix;
	smbdfix_new(&fix, &smbdfix_config, SMBD_PASSIVE);
	get_request(&fix, &good_request);
	get_request(&fix, &good_request);
	assert_int_equal(fix.end, SMBD_END_BAD_NEGOTIATE);
	smbd_connected(fix.smbd, fix.now);
	assert_true(smbdfix_is_silent(&fix));
	smbdfix_free(&fix);
}

/* ---- time, and errors of the RNIC */

static void silent_peers(void **state)
{
	(void)state;
	static const uint64_t patience[] = { [SMBD_ACTIVE] = 120000000, [SMBD_PASSIVE] = 5000000 };
	for (enum smbd_role role = SMBD_ACTIVE; role <= SMBD_PASSIVE; role++) {
		TRIES("role %d", role);
		struct smbdfix fix;
		start(&fix, role);
		smbd_timer(fix.smbd, fix.now + patience[role] - 1);
		assert_int_equal(fix.ended, 0);
		assert_int_equal(smbd_timer(fix.smbd, fix.now + patience[role]), UINT64_MAX);
		assert_int_equal(fix.end, SMBD_END_NO_NEGOTIATION);
		smbdfix_free(&fix);
	}
	PROVES("SMBD-27 SMBD-33 SMBD-133 SMBD-171");
}

static void a_send_that_fails_ends_it(void **state)
{
	(void)state;
	struct smbdfix fix;
	smbdfix_new(&fix, &smbdfix_config, SMBD_ACTIVE);
	fix.send_error = -EIO;
	smbd_connected(fix.smbd, fix.now);
	assert_int_equal(fix.end, SMBD_END_LOST);
	smbdfix_free(&fix);
	PROVES("SMBD-46");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(configurations),
		cmocka_unit_test(defaults),
		cmocka_unit_test(the_active_side_asks_first),
		cmocka_unit_test(a_good_response),
		cmocka_unit_test(the_first_message_grants),
		cmocka_unit_test(the_passive_side_begins),
		cmocka_unit_test(bad_responses),
		cmocka_unit_test(least_values_of_a_response_are_taken),
		cmocka_unit_test(no_receives_for_the_active_side),
		cmocka_unit_test(the_passive_side_answers),
		cmocka_unit_test(sizes_of_a_request),
		cmocka_unit_test(versions),
		cmocka_unit_test(bad_requests),
		cmocka_unit_test(a_long_request_is_taken),
		cmocka_unit_test(no_receives_for_the_passive_side),
		cmocka_unit_test(the_first_receive_cannot_be_posted),
		cmocka_unit_test(an_early_request_waits),
		cmocka_unit_test(a_long_early_message_ends_it),
		cmocka_unit_test(a_short_response),
		cmocka_unit_test(a_second_early_message_ends_it),
		cmocka_unit_test(silent_peers),
		cmocka_unit_test(a_send_that_fails_ends_it),
	};
	return cmocka_run_group_tests_name("smbd: negotiate", tests, NULL, NULL);
}

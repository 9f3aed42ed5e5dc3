/* SPDX-License-Identifier: MIT */
/* The first messages of RPC-over-RDMA: versions, properties, and what ends the connection. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/proves.h"
#include "tests/lib/rpcrfix.h"
#include "tests/lib/tries.h"

static const struct rpcr_config usual = { 0 };

static void start(struct rpcrfix *fix, enum rpcr_side side)
{
	rpcrfix_new(fix, &usual, side);
	rpcr_connected(fix->rpcr, fix->now);
}

static void configurations(void **state)
{
	(void)state;
	const struct {
		struct rpcr_config config;
		bool good;
	} tries[] = {
		{ { 0 }, true },
		{ { .receives = 65535 }, true },
		{ { .receives = 65536 }, false },
		{ { .send_size = 127 }, false },
		{ { .send_size = 128, .receive_size = 128 }, true },
		{ { .receive_size = 127 }, false },
		{ { .receive_size = 1048577 }, false },
		{ { .segment_count = 64 }, true },
		{ { .segment_count = 65 }, false },
		{ { .most_writes = 33 }, false },
		{ { .reverse = RPCRDMA_REVERSE_GENERAL + 1 }, false },
	};
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		TRIES("configuration %zu", i);
		const char *why = NULL;
		struct rpcr *rpcr = NULL;
		assert_int_equal(rpcr_config_check(&tries[i].config, &why),
				 tries[i].good ? 0 : -EINVAL);
		assert_true(tries[i].good == (why == NULL));
		if (!tries[i].good)
			assert_int_equal(
				rpcr_new(&tries[i].config, RPCR_CLIENT, NULL, NULL, 0, &rpcr),
				-EINVAL);
	}
}

static void a_client_begins(void **state)
{
	(void)state;
	struct rpcrfix fix;
	rpcrfix_new(&fix, &usual, RPCR_CLIENT);
	assert_int_equal(fix.posted, 33);
	assert_true(rpcrfix_is_silent(&fix));
	assert_int_equal(rpcr_timer(fix.rpcr, fix.now), UINT64_MAX);
	rpcr_connected(fix.rpcr, fix.now);
	assert_int_equal(rpcr_timer(fix.rpcr, fix.now), fix.now + 30000000);
	const struct rpcrfix_sent *sent = rpcrfix_next(&fix);
	struct rpcrdma_prefix prefix;
	assert_int_equal(rpcrdma_decode_prefix(sent->bytes, sent->len, &prefix), 0);
	assert_int_equal(prefix.version, RPCRDMA_V2);
	assert_int_equal(prefix.type, RPCRDMA_CONNPROP);
	assert_int_equal(prefix.flags, 0);
	assert_int_equal(prefix.credit, rpcrdma_credit(64, 32));
	assert_true(prefix.xid != 0);
	assert_in_range(sent->len, 28, 1024);
	rpcr_connected(fix.rpcr, fix.now);
	assert_int_equal(rpcrfix_call(&fix, 5, 40, NULL), -ENOTCONN);
	assert_true(rpcrfix_is_silent(&fix)); /* nothing more before an answer */
	struct rpcr_view view = rpcrfix_view(&fix);
	assert_int_equal(view.send_credits, 0);
	assert_int_equal(view.out_credits, 32);
	assert_int_equal(view.state, RPCR_WAITING);
	rpcrfix_get_properties(&fix, &rpcrdma_default_properties, 0, 7);
	assert_int_equal(fix.established, 1);
	assert_int_equal(rpcrfix_view(&fix).send_credits, 7);
	assert_int_equal(rpcr_timer(fix.rpcr, fix.now + 30000000), UINT64_MAX);
	assert_int_equal(rpcrfix_call(&fix, 5, 40, NULL), 0);
	rpcrfix_free(&fix);
	PROVES("RR2-23 RR2-29 RR2-30 RR2-31 RR2-32 RR2-41 RR2-52 RR2-79");
}

static void a_server_answers(void **state)
{
	(void)state;
	struct rpcrfix fix;
	start(&fix, RPCR_SERVER);
	assert_true(rpcrfix_is_silent(&fix));
	struct rpcr_view view = rpcrfix_view(&fix);
	assert_int_equal(view.version, 0);
	assert_int_equal(view.out_credits, 1);
	assert_int_equal(view.new_credits, 31);
	assert_int_equal(view.send_credits, 0);
	rpcrfix_get_properties(&fix, &rpcrdma_default_properties, 0, 7);
	assert_int_equal(fix.established, 1);
	const struct rpcrdma_prefix prefix = rpcrfix_next_prefix(&fix);
	assert_int_equal(prefix.version, RPCRDMA_V2);
	assert_int_equal(prefix.type, RPCRDMA_CONNPROP);
	assert_int_equal(prefix.credit, rpcrdma_credit(64, 32));
	assert_true(rpcrfix_is_silent(&fix));
	assert_int_equal(rpcrfix_view(&fix).send_credits, 6);
	rpcrfix_free(&fix);
	PROVES("RR2-32 RR2-33 RR2-34 RR2-52");
}

/* The queue pair may tell of the first message before it is told to be there. */
static void a_first_message_that_is_early(void **state)
{
	(void)state;
	struct rpcrfix fix;
	rpcrfix_new(&fix, &usual, RPCR_SERVER);
	fix.posted++; /* it is counted when it is taken */
	const struct rpcrdma_prefix prefix = { 9, RPCRDMA_V2, 5, RPCRDMA_CONNPROP, 0 };
	uint8_t message[128];
	size_t len = rpcrdma_encode_prefix(&prefix, message);
	len += rpcrdma_encode_properties(&rpcrdma_default_properties, message + len, 100);
	rpcr_received(fix.rpcr, message, len, NULL, fix.now);
	assert_true(rpcrfix_is_silent(&fix));
	rpcr_connected(fix.rpcr, fix.now);
	assert_int_equal(rpcrfix_next_prefix(&fix).type, RPCRDMA_CONNPROP);
	assert_int_equal(fix.established, 1);
	rpcrfix_free(&fix);

	rpcrfix_new(&fix, &usual, RPCR_SERVER); /* a second one cannot be */
	rpcr_received(fix.rpcr, message, len, NULL, fix.now);
	rpcr_received(fix.rpcr, message, len, NULL, fix.now);
	assert_int_equal(fix.end, RPCR_END_CREDITS);
	rpcrfix_free(&fix);
}

static void a_silent_server(void **state)
{
	(void)state;
	struct rpcrfix fix;
	start(&fix, RPCR_CLIENT);
	rpcr_timer(fix.rpcr, fix.now + 29999999);
	assert_int_equal(fix.ended, 0);
	rpcr_timer(fix.rpcr, fix.now + 30000000);
	assert_int_equal(fix.end, RPCR_END_SILENT);
	rpcrfix_free(&fix);
	PROVES("RR2-40");
}

static void sizes_are_agreed(void **state)
{
	(void)state;
	const struct {
		uint32_t our_send, our_receive, peer_send, peer_receive, send, receive;
	} tries[] = {
		{ 4096, 4096, 4096, 4096, 4096, 4096 },
		{ 8192, 8192, 4096, 4096, 4096, 4096 },
		{ 4096, 8192, 8192, 2048, 2048, 8192 },
		{ 1024, 4096, 512, 128, 128, 512 },
		{ 1048576, 4096, 4096, 0xFFFFFFFF, 1048576, 4096 },
	};
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		TRIES("row %zu", i);
		const struct rpcr_config config = { .send_size = tries[i].our_send,
						    .receive_size = tries[i].our_receive };
		struct rpcrdma_properties peer = rpcrdma_default_properties;
		struct rpcrfix fix;
		peer.send_size = tries[i].peer_send;
		peer.receive_size = tries[i].peer_receive;
		rpcrfix_establish(&fix, &config, RPCR_SERVER, &peer, 8);
		assert_int_equal(rpcrfix_view(&fix).send_threshold, tries[i].send);
		assert_int_equal(rpcrfix_view(&fix).receive_threshold, tries[i].receive);
		rpcrfix_free(&fix);
	}
	PROVES("RR2-7 RR2-59");
}

/* Receives are as long as the default until the peer cannot count on that any more. */
static void receives_are_long_at_first(void **state)
{
	(void)state;
	const struct rpcr_config config = { .receive_size = 2048 };
	struct rpcrfix fix;
	rpcrfix_new(&fix, &config, RPCR_SERVER);
	assert_int_equal(fix.posted_size, 4096);
	rpcr_connected(fix.rpcr, fix.now);
	rpcrfix_get_properties(&fix, &rpcrdma_default_properties, RPCRDMA_F_TPMORE, 8);
	assert_int_equal(fix.posted_size, 4096);
	rpcrfix_get_properties(&fix, &rpcrdma_default_properties, 0, 8);
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, 0, 5, NULL, 0, 40);
	assert_int_equal(fix.posted_size, 2048);
	rpcrfix_free(&fix);
	PROVES("RR2-61 RR2-187");
}

static void properties_in_many_messages(void **state)
{
	(void)state;
	struct rpcrdma_properties peer = rpcrdma_default_properties;
	struct rpcrfix fix;
	start(&fix, RPCR_CLIENT);
	rpcrfix_next(&fix);
	peer.receive_size = 1024;
	rpcrfix_get_properties(&fix, &peer, RPCRDMA_F_TPMORE, 8);
	rpcrfix_get_properties(&fix, &peer, RPCRDMA_F_TPMORE, 8);
	assert_int_equal(fix.established, 0);
	assert_int_equal(rpcrfix_call(&fix, 5, 40, NULL), -ENOTCONN);
	peer.receive_size = 512;
	rpcrfix_get_properties(&fix, &peer, 0, 8);
	assert_int_equal(fix.established, 1);
	assert_int_equal(rpcrfix_view(&fix).send_threshold, 512);
	/* one behind the last */
	fix.taken = fix.num_sent;
	rpcrfix_get_properties(&fix, &rpcrdma_default_properties, 0, 1);
	rpcrfix_expect_error(&fix, 0x77, RPCRDMA_ERR_INVAL_HTYPE, 0, 0);
	assert_int_equal(rpcrfix_view(&fix).send_threshold, 512);
	assert_int_equal(fix.ended, 0);
	rpcrfix_free(&fix);
	PROVES("RR2-41 RR2-74 RR2-75 RR2-156");
}

/* Cut by MORE instead: joined. */
static void properties_in_parts(void **state)
{
	(void)state;
	struct rpcrfix fix;
	start(&fix, RPCR_SERVER);
	rpcrfix_get_hex(&fix, "00000077 00000002 00400002 00000005 00000002 00000001 00000002");
	assert_int_equal(fix.established, 0);
	rpcrfix_get_hex(&fix, "00000077 00000002 00400001 00000005 00000000 00000004 00000300");
	assert_int_equal(fix.established, 1);
	assert_int_equal(rpcrfix_view(&fix).send_threshold, 0x300);
	rpcrfix_free(&fix);
	PROVES("RR2-136");
}

static void properties_without_end(void **state)
{
	(void)state;
	struct rpcrfix fix;
	start(&fix, RPCR_SERVER);
	for (int i = 0; i < 2000 && !fix.ended; i++)
		rpcrfix_get_properties(&fix, &rpcrdma_default_properties, RPCRDMA_F_TPMORE, 1);
	assert_int_equal(fix.end, RPCR_END_FLOOD);
	rpcrfix_free(&fix);
	PROVES("RR2-79 RR2-186");
}

static void a_property_with_a_bad_value(void **state)
{
	(void)state;
	struct rpcrfix fix;
	start(&fix, RPCR_SERVER);
	rpcrfix_get_hex(&fix, "00000077 00000002 00400004 00000005 00000000 00000002 00000001 "
			      "00000004 00000200 00000002 00000004 0000007F");
	rpcrfix_next(&fix); /* our own properties */
	rpcrfix_expect_error(&fix, 0x77, RPCRDMA_ERR_BAD_PROPVAL, 0, 0);
	assert_int_equal(fix.end, RPCR_END_PROPERTY);
	assert_true(fix.end_send_first);
	assert_int_equal(rpcrfix_view(&fix).peer.send_size, 4096); /* the good one neither */
	rpcrfix_free(&fix);

	start(&fix, RPCR_CLIENT); /* the server does not like one of ours */
	const uint32_t xid = rpcrfix_next_prefix(&fix).xid;
	rpcrfix_get_properties(&fix, &rpcrdma_default_properties, 0, 4);
	const struct rpcrdma_prefix prefix = { xid, RPCRDMA_V2, 1, RPCRDMA_ERROR,
					       RPCRDMA_F_RESPONSE };
	uint8_t message[24] = { 0 };
	rpcrdma_encode_prefix(&prefix, message);
	message[23] = RPCRDMA_ERR_BAD_PROPVAL;
	rpcrfix_get(&fix, message, sizeof(message), NULL);
	assert_int_equal(fix.end, RPCR_END_PROPERTY);
	rpcrfix_free(&fix);
	PROVES("RR2-72 RR2-73 RR2-155 RR2-189");
}

/* A peer that begins with an RPC message: it has the default properties, and may not tell others
 * later. */
static void a_peer_without_properties(void **state)
{
	(void)state;
	struct rpcrfix fix;
	start(&fix, RPCR_SERVER);
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, 0, 5, NULL, 0, 40);
	assert_int_equal(fix.established, 1);
	assert_int_equal(fix.called.times, 1);
	assert_int_equal(rpcrfix_view(&fix).send_threshold, 4096);
	assert_int_equal(rpcrfix_next_prefix(&fix).type, RPCRDMA_CONNPROP);
	rpcrfix_get_properties(&fix, &rpcrdma_default_properties, 0, 1);
	rpcrfix_expect_error(&fix, 0x77, RPCRDMA_ERR_INVAL_HTYPE, 0, 0);
	rpcrfix_free(&fix);
	PROVES("RR2-58 RR2-80");
}

static void versions_that_a_server_does_not_speak(void **state)
{
	(void)state;
	static const uint32_t versions[] = { 0, 1, 3, 0xFFFFFFFF };
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		TRIES("version %u", versions[i]);
		struct rpcrfix fix;
		uint8_t message[28] = { 0x11, 0x11, 0x11, 0x11 }, expected[32] = { 0 };
		start(&fix, RPCR_SERVER);
		for (int k = 0; k < 4; k++)
			message[4 + k] = (uint8_t)(versions[i] >> (24 - 8 * k));
		memset(message + 12, 0xFF, 16); /* what follows is not looked at */
		rpcrfix_get(&fix, message, sizeof(message), NULL);
		const struct rpcrfix_sent *sent = rpcrfix_next(&fix);
		size_t at = 16;
		memcpy(expected, message, 8);
		expected[9] = versions[i] == 1 ? 0 : 64;
		expected[11] = versions[i] == 1 ? 32 : 1;
		expected[15] = RPCRDMA_ERROR;
		if (versions[i] != 1) {
			expected[19] = 1; /* flags */
			at = 20;
		}
		expected[at + 3] = RPCRDMA_ERR_VERS;
		expected[at + 7] = expected[at + 11] = 2;
		assert_int_equal(sent->len, at + 12);
		assert_memory_equal(sent->bytes, expected, at + 12);
		assert_int_equal(fix.ended, 0);
		/* the connection is as before */
		rpcrfix_get_properties(&fix, &rpcrdma_default_properties, 0, 7);
		assert_int_equal(fix.established, 1);
		rpcrfix_free(&fix);
	}
	PROVES("RR2-15 RR2-36 RR2-39 RR2-153");
}

static void a_server_that_does_not_speak_ours(void **state)
{
	(void)state;
	static const char *const tries[] = {
		"11111111 00000002 00000020 00000004 00000001 00000001 00000001",
		"11111111 00000002 00000040 00000004 00000002",
	};
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		TRIES("%s", tries[i]);
		struct rpcrfix fix;
		start(&fix, RPCR_CLIENT);
		rpcrfix_next(&fix);
		rpcrfix_get_hex(&fix, tries[i]);
		assert_int_equal(fix.end, RPCR_END_VERSION);
		assert_true(rpcrfix_is_silent(&fix));
		rpcrfix_free(&fix);
	}
	PROVES("RR2-35 RR2-37 RR2-38 RR2-39");
}

/* A message of another version is no answer. */
static void a_client_passes_over_other_versions(void **state)
{
	(void)state;
	struct rpcrfix fix;
	start(&fix, RPCR_CLIENT);
	rpcrfix_next(&fix);
	rpcrfix_get_hex(&fix, "11111111 00000003 00400020 00000005 00000000 00000000");
	assert_int_equal(rpcrfix_view(&fix).send_credits, 0);
	assert_int_equal(fix.established + fix.ended, 0);
	/* nor is an ERROR that is about something else */
	rpcrfix_get_hex(&fix, "736D6372 00000002 00400001 00000004 00000001 00000002");
	assert_int_equal(fix.established + fix.ended, 0);
	assert_true(rpcr_timer(fix.rpcr, fix.now) != UINT64_MAX);
	rpcrfix_free(&fix);
	PROVES("RR2-30");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(configurations),
		cmocka_unit_test(a_client_begins),
		cmocka_unit_test(a_server_answers),
		cmocka_unit_test(a_first_message_that_is_early),
		cmocka_unit_test(a_silent_server),
		cmocka_unit_test(sizes_are_agreed),
		cmocka_unit_test(receives_are_long_at_first),
		cmocka_unit_test(properties_in_many_messages),
		cmocka_unit_test(properties_in_parts),
		cmocka_unit_test(properties_without_end),
		cmocka_unit_test(a_property_with_a_bad_value),
		cmocka_unit_test(a_peer_without_properties),
		cmocka_unit_test(versions_that_a_server_does_not_speak),
		cmocka_unit_test(a_server_that_does_not_speak_ours),
		cmocka_unit_test(a_client_passes_over_other_versions),
	};
	return cmocka_run_group_tests_name("rpcr: first messages", tests, NULL, NULL);
}

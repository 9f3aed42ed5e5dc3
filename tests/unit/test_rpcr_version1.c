/* SPDX-License-Identifier: MIT */
/* RPC-over-RDMA version 1: how it is chosen, and what is different. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/proves.h"
#include "tests/lib/rpcrfix.h"
#include "tests/lib/tries.h"

static const struct rpcr_config both = { .version_1 = true,
					 .receives = 8,
					 .reverse = RPCRDMA_REVERSE_GENERAL };

/* An MSG or NOMSG of version 1. */
static void get_rpc(struct rpcrfix *fix, uint32_t type, bool reply, uint32_t xid, uint32_t credit,
		    const struct rpcrdma_lists *lists, size_t len, const uint32_t *handle)
{
	static const struct rpcrdma_lists none;
	const struct rpcrdma_prefix prefix = { xid, RPCRDMA_V1, credit, type, 0 };
	uint8_t message[RPCRDMA_V1_PREFIX_LEN + RPCRDMA_MOST_LISTS_LEN + 4096];
	size_t at = rpcrdma_encode_prefix(&prefix, message);
	at += rpcrdma_encode_lists(lists ? lists : &none, RPCRDMA_V1, message + at,
				   RPCRDMA_MOST_LISTS_LEN);
	rpcrfix_fill(message + at, len, xid, reply);
	rpcrfix_get(fix, message, at + len, handle);
}

/* A client that has asked in version 2, and a server that knows only version 1. */
static void fall_back(struct rpcrfix *fix, const struct rpcr_config *config)
{
	rpcrfix_new(fix, config, RPCR_CLIENT);
	rpcr_connected(fix->rpcr, fix->now);
	assert_int_equal(rpcrfix_next_prefix(fix).version, RPCRDMA_V2);
	rpcrfix_get_hex(fix, "736D6372 00000002 00000040 00000004 00000001 00000001 00000001");
}

static void serve(struct rpcrfix *fix, const struct rpcr_config *config)
{
	rpcrfix_new(fix, config, RPCR_SERVER);
	rpcr_connected(fix->rpcr, fix->now);
	get_rpc(fix, RPCRDMA_MSG, false, 1, 32, NULL, 40, NULL);
	assert_int_equal(fix->established, 1);
	assert_int_equal(fix->called.times, 1);
}

static void a_client_falls_back(void **state)
{
	(void)state;
	struct rpcrfix fix;
	fall_back(&fix, &both);
	assert_int_equal(fix.established, 1);
	assert_int_equal(rpcrfix_view(&fix).version, RPCRDMA_V1);
	assert_int_equal(rpcr_timer(fix.rpcr, fix.now), UINT64_MAX);
	assert_true(rpcrfix_is_silent(&fix));
	assert_int_equal(fix.posted, 8 + 1 + 2);
	assert_int_equal(rpcrfix_call(&fix, 5, 40, NULL), 0);
	const struct rpcrfix_sent *sent = rpcrfix_next(&fix);
	static const uint8_t head[28] = { 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 8 };
	assert_int_equal(sent->len, 68);
	assert_memory_equal(sent->bytes, head, sizeof(head));
	get_rpc(&fix, RPCRDMA_MSG, true, 5, 64, NULL, 24, NULL);
	rpcrfix_expect(&fix.replied, 5, 24, true);
	/* for good */
	rpcrfix_get_properties(&fix, &rpcrdma_default_properties, 0, 5);
	assert_int_equal(rpcrfix_view(&fix).version, RPCRDMA_V1);
	assert_true(rpcrfix_is_silent(&fix));
	rpcrfix_free(&fix);
	PROVES("RR2-35 RR2-37 RR2-193 RR2-199");
}

static void answers_about_versions(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		bool version_1, falls_back;
	} tries[] = {
		{ "736D6372 00000002 00000040 00000004 00000001 00000001 00000001", false, false },
		{ "736D6372 00000002 00400001 00000004 00000001 00000001 00000001 00000001", true,
		  true },
		{ "736D6372 00000002 00400001 00000004 00000001 00000001 00000000 00000003", true,
		  true },
		{ "736D6372 00000002 00400001 00000004 00000001 00000001 00000003 00000004", true,
		  false },
		{ "736D6372 00000002 00000040 00000004 00000001 00000003 00000004", true, false },
		{ "736D6372 00000002 00000040 00000004 00000002", true, false },
	};
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		TRIES("row %zu", i);
		const struct rpcr_config config = { .version_1 = tries[i].version_1 };
		struct rpcrfix fix;
		rpcrfix_new(&fix, &config, RPCR_CLIENT);
		rpcr_connected(fix.rpcr, fix.now);
		rpcrfix_next(&fix);
		rpcrfix_get_hex(&fix, tries[i].text);
		assert_int_equal(fix.established, tries[i].falls_back);
		assert_int_equal(fix.end, tries[i].falls_back ? RPCR_END_NONE : RPCR_END_VERSION);
		rpcrfix_free(&fix);
	}
	PROVES("RR2-37 RR2-38 RR2-39");
}

static void the_first_message_chooses(void **state)
{
	(void)state;
	struct rpcrfix fix;
	serve(&fix, &both);
	assert_int_equal(rpcrfix_view(&fix).version, RPCRDMA_V1);
	assert_true(rpcrfix_is_silent(&fix)); /* no properties */
	assert_int_equal(rpcrfix_reply(&fix, 1, 40, NULL), 0);
	struct rpcrdma_prefix prefix = rpcrfix_next_prefix(&fix);
	assert_int_equal(prefix.version, RPCRDMA_V1);
	assert_int_equal(prefix.credit, 8);
	/* version 2 is not to be had any more */
	rpcrfix_get_properties(&fix, &rpcrdma_default_properties, 0, 5);
	rpcrfix_expect_error(&fix, 0x77, RPCRDMA_ERR_VERS, 1, 1);
	rpcrfix_free(&fix);
	/* nor version 1, where that was first */
	rpcrfix_establish(&fix, &both, RPCR_SERVER, NULL, 8);
	get_rpc(&fix, RPCRDMA_MSG, false, 1, 32, NULL, 40, NULL);
	const struct rpcrfix_sent *sent = rpcrfix_next(&fix);
	static const uint8_t expected[28] = { 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0,
					      0, 4, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2 };
	assert_int_equal(sent->len, 28);
	assert_memory_equal(sent->bytes, expected, 28);
	assert_int_equal(fix.called.times, 0);
	rpcrfix_free(&fix);
	/* before the choice, the range has both */
	rpcrfix_new(&fix, &both, RPCR_SERVER);
	rpcr_connected(fix.rpcr, fix.now);
	rpcrfix_get_hex(&fix, "00000009 00000003 00000040 00000000 00000000");
	sent = rpcrfix_next(&fix);
	assert_int_equal(sent->len, 32);
	assert_int_equal(sent->bytes[27], 1);
	assert_int_equal(sent->bytes[31], 2);
	rpcrfix_free(&fix);
	PROVES("RR2-34 RR2-36 RR2-39 RR2-200 RR2-201");
}

/* One Call before the first Reply, then as many as that has granted, within our receives. */
static void credits_count_calls(void **state)
{
	(void)state;
	struct rpcrfix fix;
	fall_back(&fix, &both);
	for (uint32_t xid = 1; xid <= 20; xid++)
		assert_int_equal(rpcrfix_call(&fix, xid, 40, NULL), 0);
	assert_int_equal(rpcrfix_next_prefix(&fix).xid, 1);
	assert_true(rpcrfix_is_silent(&fix));
	get_rpc(&fix, RPCRDMA_MSG, true, 1, 3, NULL, 40, NULL);
	for (uint32_t xid = 2; xid <= 4; xid++)
		assert_int_equal(rpcrfix_next_prefix(&fix).xid, xid);
	assert_true(rpcrfix_is_silent(&fix));
	get_rpc(&fix, RPCRDMA_MSG, true, 3, 0, NULL, 40, NULL); /* 0 is 1 */
	assert_true(rpcrfix_is_silent(&fix));
	get_rpc(&fix, RPCRDMA_MSG, true, 2, 0, NULL, 40, NULL);
	assert_true(rpcrfix_is_silent(&fix));
	get_rpc(&fix, RPCRDMA_MSG, true, 4, 1000, NULL, 40, NULL);
	for (uint32_t xid = 5; xid <= 12; xid++)
		assert_int_equal(rpcrfix_next_prefix(&fix).xid, xid);
	assert_true(rpcrfix_is_silent(&fix)); /* 8 are out, and so many receives are there */
	assert_int_equal(fix.posted, 8 + 1 + 2);
	rpcrfix_free(&fix);
	PROVES("RR2-195");
}

static void sizes(void **state)
{
	(void)state;
	const struct rpcrdma_private ours = { false, 4096, 4096 }, theirs = { true, 8192, 2048 };
	assert_int_equal(rpcr_v1_send_size(NULL, &theirs), 1024);
	assert_int_equal(rpcr_v1_send_size(&ours, NULL), 1024);
	assert_int_equal(rpcr_v1_send_size(&ours, &theirs), 2048);
	assert_int_equal(rpcr_v1_send_size(&theirs, &ours), 4096);
	struct rpcr_config config = both;
	for (int i = 0; i < 2; i++) {
		struct rpcrfix fix;
		config.v1_send_size = i ? 4096 : 0;
		const size_t most = i ? 4096 : 1024;
		fall_back(&fix, &config);
		assert_int_equal(rpcrfix_call(&fix, 5, most - 24, NULL), -EMSGSIZE);
		assert_int_equal(rpcrfix_call(&fix, 5, most - 28, NULL), 0);
		assert_int_equal(rpcrfix_next(&fix)->len, most);
		rpcrfix_free(&fix);
		serve(&fix, &config);
		assert_int_equal(rpcr_reply_way(fix.rpcr, 1, most - 24), RPCR_NO_WAY);
		assert_int_equal(rpcr_reply_way(fix.rpcr, 1, most - 28), RPCR_INLINE);
		rpcrfix_free(&fix);
	}
	PROVES("RR2-196 RR2-197");
}

/* As the kernel's client and server do it: results in a Reply chunk, and its handle invalidated. */
static void chunks(void **state)
{
	(void)state;
	struct rpcr_config config = both;
	const struct rpcrdma_lists lists = rpcrfix_lists(0, 4000, 0, 7000);
	const struct rpcrdma_lists back = rpcrfix_lists(0, 0, 0, 6000);
	const uint32_t handle = 0xB004, other = 0xB005;
	const struct rpcr_used used = { .reply = 6000 };
	struct rpcrfix fix;
	fall_back(&fix, &config);
	assert_int_equal(rpcr_call(fix.rpcr, 5, NULL, 0, &lists, NULL, 0), 0);
	assert_int_equal(rpcrfix_next_prefix(&fix).type, RPCRDMA_NOMSG);
	get_rpc(&fix, RPCRDMA_NOMSG, true, 5, 8, &back, 0, &handle);
	assert_int_equal(fix.replied.times, 1);
	assert_true(fix.replied.invalidated);
	assert_int_equal(fix.replied.lists.segments[0].length, 6000);
	assert_int_equal(rpcr_call(fix.rpcr, 6, NULL, 0, &lists, NULL, 0), 0);
	get_rpc(&fix, RPCRDMA_NOMSG, true, 6, 8, &back, 0, &other);
	assert_int_equal(fix.end, RPCR_END_HANDLE);
	rpcrfix_free(&fix);

	config.invalidates = config.v1_invalidates = true;
	serve(&fix, &config);
	get_rpc(&fix, RPCRDMA_MSG, false, 5, 8, &back, 40, NULL);   /* one handle */
	get_rpc(&fix, RPCRDMA_NOMSG, false, 6, 8, &lists, 0, NULL); /* two */
	assert_int_equal(fix.called.times, 3);
	assert_int_equal(rpcr_reply(fix.rpcr, 5, NULL, 0, &used, 0), 0);
	const struct rpcrfix_sent *sent = rpcrfix_next(&fix);
	assert_true(sent->has_handle);
	assert_int_equal(sent->handle, 0xB004);
	assert_int_equal(sent->len, 48);
	assert_int_equal(rpcr_reply(fix.rpcr, 6, NULL, 0, &used, 0), 0);
	assert_false(rpcrfix_next(&fix)->has_handle);
	rpcrfix_free(&fix);
	PROVES("RR2-193 RR2-203");
}

static void errors(void **state)
{
	(void)state;
	struct rpcrfix fix;
	static const uint8_t chunk[20] = { 0, 0, 0, 5, 0, 0, 0, 1, 0, 0,
					   0, 8, 0, 0, 0, 4, 0, 0, 0, 2 };
	static const char *const wrong[] = {
		"00000005 00000001 00000020 00000002 00000000",          /* MSGP */
		"00000005 00000001 00000020 00000009 00000000",          /* unknown */
		"00000005 00000001 00000020 00000000 00000001 00000000", /* cut */
		"00000005 00000001 00000020 00000000 00000000 00000000 00000000 00000006 00000000",
		"00000005 00000001 00000020 00000001 00000000 00000000 00000000", /* nothing */
	};
	serve(&fix, &both);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		TRIES("%s", wrong[i]);
		rpcrfix_get_hex(&fix, wrong[i]);
		const struct rpcrfix_sent *sent = rpcrfix_next(&fix);
		assert_int_equal(sent->len, sizeof(chunk));
		assert_memory_equal(sent->bytes, chunk, sizeof(chunk));
	}
	/* these are dropped: DONE, an ERROR, an unknown one */
	rpcrfix_get_hex(&fix, "00000005 00000001 00000020 00000003 00000000");
	rpcrfix_get_hex(&fix, "00000005 00000001 00000020 00000004 00000002");
	rpcrfix_get_hex(&fix, "00000005 00000001 00000020 00000004 00000003");
	assert_true(rpcrfix_is_silent(&fix));
	assert_int_equal(fix.called.times, 1);
	rpcrfix_free(&fix);

	fall_back(&fix, &both); /* an ERROR ends the Call, and the next one goes */
	assert_int_equal(rpcrfix_call(&fix, 5, 40, NULL), 0);
	assert_int_equal(rpcrfix_call(&fix, 6, 40, NULL), 0);
	rpcrfix_next(&fix);
	rpcrfix_get_hex(&fix, "00000005 00000001 00000020 00000004 00000002");
	assert_int_equal(fix.failed, 1);
	assert_int_equal(fix.error.code, RPCRDMA_ERR_CHUNK);
	assert_int_equal(rpcrfix_next_prefix(&fix).xid, 6);
	rpcrfix_get_hex(&fix, "00000006 00000001 00000020 00000000 00000001"); /* a bad Reply */
	assert_int_equal(fix.failed, 2);
	assert_int_equal(fix.why, RPCR_FAILED_REPLY);
	assert_true(rpcrfix_is_silent(&fix));
	rpcrfix_free(&fix);
	PROVES("RR2-194 RR2-204");
}

static void reverse_direction(void **state)
{
	(void)state;
	const struct rpcrdma_lists lists = rpcrfix_lists(8, 100, 0, 0);
	struct rpcrfix client, server;
	fall_back(&client, &both);
	serve(&server, &both);
	assert_int_equal(rpcrfix_reply(&server, 1, 40, NULL), 0);
	server.taken = server.num_sent;
	/* a Call of the server beside one of the client, with the same XID */
	assert_int_equal(rpcrfix_call(&client, 5, 40, NULL), 0);
	assert_int_equal(rpcrfix_call(&server, 5, 80, &lists), -EINVAL);
	assert_int_equal(rpcrfix_call(&server, 5, 2000, NULL), -EMSGSIZE);
	assert_int_equal(rpcrfix_call(&server, 5, 80, NULL), 0);
	assert_int_equal(server.sent[server.taken].bytes[11], 2); /* credits */
	rpcrfix_pump(&client, &server);
	rpcrfix_expect(&client.called, 5, 80, false);
	rpcrfix_expect(&server.called, 5, 40, false);
	assert_int_equal(rpcrfix_reply(&client, 5, 84, NULL), 0);
	assert_int_equal(client.sent[client.num_sent - 1].bytes[11], 2);
	assert_int_equal(rpcrfix_reply(&server, 5, 44, NULL), 0);
	rpcrfix_pump(&client, &server);
	rpcrfix_expect(&server.replied, 5, 84, true);
	rpcrfix_expect(&client.replied, 5, 44, true);
	/* two of them at a time */
	for (uint32_t xid = 6; xid <= 8; xid++)
		assert_int_equal(rpcrfix_call(&server, xid, 40, NULL), 0);
	assert_int_equal(server.num_sent - server.taken, 2);
	rpcrfix_free(&client);
	rpcrfix_free(&server);
	PROVES("RR2-195 RR2-202");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_falls_back),
		cmocka_unit_test(answers_about_versions),
		cmocka_unit_test(the_first_message_chooses),
		cmocka_unit_test(credits_count_calls),
		cmocka_unit_test(sizes),
		cmocka_unit_test(chunks),
		cmocka_unit_test(errors),
		cmocka_unit_test(reverse_direction),
	};
	return cmocka_run_group_tests_name("rpcr: version 1", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* Calls and Replies of RPC-over-RDMA version 2: formats, chunks, parts, both directions, errors. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/proves.h"
#include "tests/lib/rpcrfix.h"
#include "tests/lib/tries.h"

static const struct rpcr_config usual = { 0 };
static const struct rpcr_config with_invalidate = { .invalidates = true };

/* The lists of a SEND of the connection. */
static struct rpcrdma_lists lists_of(const struct rpcrfix_sent *sent, size_t *ret_payload)
{
	struct rpcrdma_lists lists;
	size_t len;
	assert_int_equal(
		rpcrdma_decode_lists(sent->bytes + 20, sent->len - 20, RPCRDMA_V2, &lists, &len),
		0);
	*ret_payload = sent->len - 20 - len;
	return lists;
}

static struct rpcrdma_prefix prefix_of(const struct rpcrfix_sent *sent)
{
	struct rpcrdma_prefix prefix;
	assert_int_equal(rpcrdma_decode_prefix(sent->bytes, sent->len, &prefix), 0);
	return prefix;
}

/* A Call of the test that the connection serves now. */
static void get_call(struct rpcrfix *fix, uint32_t xid, const struct rpcrdma_lists *lists)
{
	const unsigned int before = fix->called.times;
	rpcrfix_get_rpc(fix, RPCRDMA_MSG, 0, xid, lists, 0, 80);
	assert_int_equal(fix->called.times, before + 1);
}

/* ---- sizes and parts */

static void a_message_of_the_threshold_is_one(void **state)
{
	(void)state;
	struct rpcrfix fix;
	size_t payload;
	rpcrfix_establish(&fix, &usual, RPCR_CLIENT, NULL, 8);
	assert_int_equal(rpcrfix_call(&fix, 1, 4060, NULL), 0);
	const struct rpcrfix_sent *sent = rpcrfix_next(&fix);
	assert_int_equal(sent->len, 4096);
	assert_int_equal(prefix_of(sent).flags, 0);
	/* one unit more takes two, of 4 bytes at least */
	assert_int_equal(rpcrfix_call(&fix, 2, 4064, NULL), 0);
	sent = rpcrfix_next(&fix);
	assert_int_equal(prefix_of(sent).flags, RPCRDMA_F_MORE);
	lists_of(sent, &payload);
	assert_int_equal(payload % 4, 0);
	sent = rpcrfix_next(&fix);
	assert_int_equal(prefix_of(sent).flags, 0);
	assert_int_equal(sent->len, 36 + 4064 - payload);
	assert_true(sent->len >= 40);
	rpcrfix_free(&fix);
	PROVES("RR2-7 RR2-17 RR2-60 RR2-81 RR2-128 RR2-135");
}

/* Lists go with the last part alone, and every part is within the threshold. */
static void parts_of_any_number(void **state)
{
	(void)state;
	static const uint32_t thresholds[] = { 128, 132, 512, 4096 };
	for (size_t i = 0; i < 4; i++)
		for (size_t len = 8; len < 6000; len += len < 300 ? 4 : 996) {
			TRIES("%u, %zu bytes", thresholds[i], len);
			const struct rpcr_config config = { .send_size = thresholds[i] };
			const struct rpcrdma_lists lists = rpcrfix_lists(8, 1021, 0, 500);
			struct rpcrfix client, server;
			rpcrfix_establish(&client, &config, RPCR_CLIENT, NULL, 200);
			rpcrfix_establish(&server, &usual, RPCR_SERVER, NULL, 200);
			assert_int_equal(rpcrfix_call(&client, 7, len, &lists), 0);
			while (!rpcrfix_is_silent(&client)) {
				const struct rpcrfix_sent *sent = rpcrfix_next(&client);
				size_t payload;
				const struct rpcrdma_lists found = lists_of(sent, &payload);
				const bool last = !(prefix_of(sent).flags & RPCRDMA_F_MORE);
				assert_true(sent->len <= thresholds[i]);
				assert_int_equal(payload % 4, 0);
				assert_true(payload >= 4);
				assert_int_equal(last, rpcrfix_is_silent(&client));
				assert_int_equal(rpcrdma_lists_empty(&found), !last);
				assert_int_equal(server.called.times, 0);
				rpcrfix_get(&server, sent->bytes, sent->len, NULL);
			}
			assert_int_equal(server.called.times, 1);
			rpcrfix_expect(&server.called, 7, len, false);
			assert_int_equal(server.called.lists.num_reads, 1);
			assert_true(server.called.lists.has_reply);
			rpcrfix_free(&client);
			rpcrfix_free(&server);
		}
	PROVES("RR2-17 RR2-128 RR2-131 RR2-133 RR2-135 RR2-137");
}

static void parts_are_cut_anywhere(void **state)
{
	(void)state;
	struct rpcrfix fix;
	rpcrfix_establish(&fix, &usual, RPCR_SERVER, NULL, 8);
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, RPCRDMA_F_MORE, 5, NULL, 0, 5);
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, RPCRDMA_F_MORE, 5, NULL, 5, 0);
	/* credits and ERRORs come between */
	rpcrfix_get_hex(&fix, "00000000 00000002 00400001 00000001 00000000 00000000 00000000 "
			      "00000000 00000000");
	rpcrfix_get_hex(&fix, "00000009 00000002 00400001 00000004 00000001 00000002");
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, RPCRDMA_F_MORE, 5, NULL, 5, 34);
	assert_int_equal(fix.called.times, 0);
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, 0, 5, NULL, 39, 1);
	assert_int_equal(fix.called.times, 1);
	rpcrfix_expect(&fix.called, 5, 40, false);
	rpcrfix_free(&fix);
	PROVES("RR2-28 RR2-49 RR2-134 RR2-135");
}

/* In one direction messages go one after the other. */
static void messages_do_not_mix(void **state)
{
	(void)state;
	struct rpcrfix fix;
	rpcrfix_establish(&fix, &usual, RPCR_CLIENT, NULL, 1);
	assert_int_equal(rpcrfix_call(&fix, 1, 20000, NULL), 0);
	assert_int_equal(rpcrfix_call(&fix, 2, 20000, NULL), 0);
	for (int i = 0; i < 10; i++)
		rpcrfix_get_hex(&fix, "00000000 00000002 00400001 00000001 00000000 00000000 "
				      "00000000 00000000 00000000");
	for (int i = 0; i < 10; i++)
		assert_int_equal(rpcrfix_next_prefix(&fix).xid, 1 + i / 5);
	rpcrfix_free(&fix);
	PROVES("RR2-18 RR2-48");
}

static void broken_sequences(void **state)
{
	(void)state;
	const struct rpcrdma_lists lists = rpcrfix_lists(0, 0, 0, 500);
	struct rpcrfix fix;
	rpcrfix_establish(&fix, &usual, RPCR_SERVER, NULL, 100);
	/* another XID: both are told of */
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, RPCRDMA_F_MORE, 5, NULL, 0, 40);
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, RPCRDMA_F_MORE, 6, NULL, 0, 40);
	rpcrfix_expect_error(&fix, 5, RPCRDMA_ERR_INVAL_CONT, 0, 0);
	rpcrfix_expect_error(&fix, 6, RPCRDMA_ERR_INVAL_CONT, 0, 0);
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, RPCRDMA_F_MORE, 6, NULL, 40, 40);
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, 0, 6, NULL, 80, 40); /* late parts */
	assert_true(rpcrfix_is_silent(&fix));
	/* another type */
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, RPCRDMA_F_MORE, 7, NULL, 0, 40);
	rpcrfix_get_rpc(&fix, RPCRDMA_NOMSG, 0, 7, &lists, 0, 0);
	rpcrfix_expect_error(&fix, 7, RPCRDMA_ERR_INVAL_CONT, 0, 0);
	assert_true(rpcrfix_is_silent(&fix));
	/* the other direction */
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, RPCRDMA_F_MORE, 7, NULL, 0, 40);
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, RPCRDMA_F_RESPONSE, 7, NULL, 40, 40);
	rpcrfix_expect_error(&fix, 7, RPCRDMA_ERR_INVAL_CONT, 0, 0);
	assert_true(rpcrfix_is_silent(&fix));
	/* MORE on a NOMSG, and with a list */
	rpcrfix_get_rpc(&fix, RPCRDMA_NOMSG, RPCRDMA_F_MORE, 8, &lists, 0, 0);
	rpcrfix_expect_error(&fix, 8, RPCRDMA_ERR_INVAL_CONT, 0, 0);
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, RPCRDMA_F_MORE, 9, &lists, 0, 40);
	rpcrfix_expect_error(&fix, 9, RPCRDMA_ERR_INVAL_CONT, 0, 0);
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, 0, 9, NULL, 40, 40);
	assert_true(rpcrfix_is_silent(&fix));
	assert_int_equal(fix.called.times, 0);
	/* and all is well again */
	get_call(&fix, 9, NULL);
	rpcrfix_expect(&fix.called, 9, 80, false);
	rpcrfix_free(&fix);
	PROVES("RR2-129 RR2-130 RR2-131 RR2-132 RR2-151 RR2-157");
}

static void a_message_that_is_too_long(void **state)
{
	(void)state;
	const struct rpcr_config config = { .most_joined = 1000 };
	struct rpcrfix fix;
	rpcrfix_establish(&fix, &config, RPCR_SERVER, NULL, 100);
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, RPCRDMA_F_MORE, 5, NULL, 0, 600);
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, 0, 5, NULL, 600, 400);
	assert_int_equal(fix.called.times, 1);
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, RPCRDMA_F_MORE, 6, NULL, 0, 600);
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, RPCRDMA_F_MORE, 6, NULL, 600, 404);
	rpcrfix_expect_error(&fix, 6, RPCRDMA_ERR_SYSTEM, 0, 0);
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, 0, 6, NULL, 1004, 4);
	assert_true(rpcrfix_is_silent(&fix));
	assert_int_equal(fix.called.times, 1);
	rpcrfix_free(&fix);
	PROVES("RR2-133 RR2-163 RR2-186");
}

/* ---- Calls that the user may not make */

static void calls_that_cannot_be(void **state)
{
	(void)state;
	struct rpcrdma_properties peer = rpcrdma_default_properties;
	struct rpcrfix fix;
	uint8_t reply[40], call[40];
	peer.segment_count = 3;
	peer.segment_size = 4096;
	rpcrfix_establish(&fix, &usual, RPCR_CLIENT, &peer, 8);
	rpcrfix_fill(reply, sizeof(reply), 5, true);
	rpcrfix_fill(call, sizeof(call), 5, false);
	assert_int_equal(rpcrfix_call(&fix, 0, 40, NULL), -EINVAL);
	assert_int_equal(rpcr_call(fix.rpcr, 5, reply, 40, NULL, NULL, 0), -EINVAL);
	assert_int_equal(rpcr_call(fix.rpcr, 6, call, 40, NULL, NULL, 0), -EINVAL);
	assert_int_equal(rpcr_call(fix.rpcr, 5, call, 38, NULL, NULL, 0), -EINVAL);
	assert_int_equal(rpcr_call(fix.rpcr, 5, NULL, 0, NULL, NULL, 0), -EINVAL);
	struct rpcrdma_lists lists = rpcrfix_lists(8, 4096, 0, 0);
	assert_int_equal(rpcr_call(fix.rpcr, 5, NULL, 0, &lists, NULL, 0), -EINVAL);
	lists.reads[0].position = 0; /* is for a Call without payload */
	assert_int_equal(rpcr_call(fix.rpcr, 5, call, 40, &lists, NULL, 0), -EINVAL);
	lists.reads[0].position = 6;
	assert_int_equal(rpcr_call(fix.rpcr, 5, call, 40, &lists, NULL, 0), -EINVAL);
	lists = rpcrfix_lists(8, 4097, 0, 0); /* longer than the peer takes */
	assert_int_equal(rpcr_call(fix.rpcr, 5, call, 40, &lists, NULL, 0), -EINVAL);
	lists = rpcrfix_lists(8, 0, 8194, 0);
	assert_int_equal(rpcr_call(fix.rpcr, 5, call, 40, &lists, NULL, 0), -EINVAL);
	lists = rpcrfix_lists(8, 1, 2, 1); /* four segments */
	assert_int_equal(rpcr_call(fix.rpcr, 5, call, 40, &lists, NULL, 0), -EINVAL);
	lists = rpcrfix_lists(8, 4096, 8192, 0);
	lists.inv_handle = 0xB004; /* is not among them */
	assert_int_equal(rpcr_call(fix.rpcr, 5, call, 40, &lists, NULL, 0), -EINVAL);
	lists.inv_handle = 0xB003;
	assert_int_equal(rpcr_call(fix.rpcr, 5, call, 40, &lists, NULL, 0), 0);
	assert_int_equal(rpcrfix_call(&fix, 5, 40, NULL), -EEXIST);
	assert_int_equal(rpcrfix_view(&fix).calls, 1);
	rpcrfix_free(&fix);
	PROVES("RR2-26 RR2-65 RR2-66 RR2-100 RR2-115 RR2-190");
}

static void a_peer_without_segments(void **state)
{
	(void)state;
	struct rpcrdma_properties peer = rpcrdma_default_properties;
	const struct rpcrdma_lists lists = rpcrfix_lists(8, 100, 0, 0);
	struct rpcrfix fix;
	peer.segment_count = 0;
	rpcrfix_establish(&fix, &usual, RPCR_CLIENT, &peer, 8);
	assert_int_equal(rpcrfix_call(&fix, 5, 40, &lists), -EINVAL);
	assert_int_equal(rpcrfix_call(&fix, 5, 40, NULL), 0);
	rpcrfix_free(&fix);
	PROVES("RR2-78 RR2-100");
}

/* ---- a Call and its Reply, with every list */

static void chunks_there_and_back(void **state)
{
	(void)state;
	struct rpcrfix client, server;
	struct rpcrdma_lists lists = rpcrfix_lists(0x8, 1021, 8192, 8192);
	rpcrfix_join(&client, &usual, &server, &with_invalidate);
	lists.inv_handle = 0xB002;
	assert_int_equal(rpcrfix_call(&client, 5, 40, &lists), 0);
	rpcrfix_pump(&client, &server);
	rpcrfix_expect(&server.called, 5, 40, false);
	assert_int_equal(server.called.lists.reads[0].segment.length, 1021);
	assert_int_equal(server.called.lists.segments[2].handle, 0xB004);
	const uint32_t too_much[] = { 8193 }, written[] = { 5000 };
	const struct rpcr_used wrong = { .writes = too_much }, used = { .writes = written };
	assert_int_equal(rpcrfix_reply(&server, 5, 60, &wrong), -EINVAL);
	assert_int_equal(rpcrfix_reply(&server, 6, 60, &used), -ENOENT);
	assert_int_equal(rpcrfix_reply(&server, 5, 60, &used), 0);
	assert_int_equal(rpcrfix_reply(&server, 5, 60, &used), -ENOENT);
	assert_true(server.sent[server.num_sent - 1].has_handle);
	assert_int_equal(server.sent[server.num_sent - 1].handle, 0xB002);
	rpcrfix_pump(&client, &server);
	assert_int_equal(client.replied.times, 1);
	rpcrfix_expect(&client.replied, 5, 60, true);
	assert_ptr_equal(client.cookie, &client);
	assert_true(client.replied.invalidated);
	const struct rpcrdma_lists *back = &client.replied.lists;
	assert_int_equal(back->num_reads, 0);
	assert_int_equal(back->inv_handle, 0);
	assert_int_equal(back->segments[0].length, 4096);
	assert_int_equal(back->segments[1].length, 904);
	assert_true(back->has_reply); /* not used */
	assert_int_equal(back->segments[2].length, 0);
	assert_int_equal(rpcrfix_view(&client).calls + rpcrfix_view(&server).served, 0);
	rpcrfix_free(&client);
	rpcrfix_free(&server);
	PROVES("RR2-83 RR2-85 RR2-86 RR2-91 RR2-108 RR2-109 RR2-116 RR2-118 RR2-139");
}

/* A Responder that cannot, or is not asked to, sends without Invalidate. */
static void replies_without_invalidate(void **state)
{
	(void)state;
	for (int asked = 0; asked < 2; asked++) {
		TRIES("asked %d", asked);
		struct rpcrdma_lists lists = rpcrfix_lists(8, 100, 0, 0);
		struct rpcrfix fix;
		lists.inv_handle = asked ? 0xB001 : 0;
		rpcrfix_establish(&fix, asked ? &usual : &with_invalidate, RPCR_SERVER, NULL, 8);
		get_call(&fix, 5, &lists);
		assert_int_equal(rpcrfix_reply(&fix, 5, 40, NULL), 0);
		assert_false(rpcrfix_next(&fix)->has_handle);
		rpcrfix_free(&fix);
	}
	PROVES("RR2-9 RR2-116 RR2-117");
}

static void special_calls_and_replies(void **state)
{
	(void)state;
	struct rpcrfix client, server;
	const struct rpcrdma_lists lists = rpcrfix_lists(0, 4096, 0, 100000);
	const struct rpcr_used used = { .reply = 90000 }, too_much = { .reply = 100001 };
	rpcrfix_join(&client, &usual, &server, &usual);
	assert_int_equal(rpcr_call(client.rpcr, 5, NULL, 0, &lists, &client, 0), 0);
	assert_int_equal(client.sent[client.num_sent - 1].bytes[15], RPCRDMA_NOMSG);
	rpcrfix_pump(&client, &server);
	assert_int_equal(server.called.times, 1);
	assert_false(server.called.has_payload);
	assert_int_equal(rpcr_reply_way(server.rpcr, 5, 90000), RPCR_REPLY_CHUNK);
	assert_int_equal(rpcr_reply(server.rpcr, 5, NULL, 0, NULL, 0), -EINVAL);
	assert_int_equal(rpcr_reply(server.rpcr, 5, NULL, 0, &too_much, 0), -EINVAL);
	assert_int_equal(rpcrfix_reply(&server, 5, 40, &used), -EINVAL); /* both */
	assert_int_equal(rpcrfix_reply(&server, 5, 90000, NULL), -EMSGSIZE);
	assert_int_equal(rpcr_reply(server.rpcr, 5, NULL, 0, &used, 0), 0);
	rpcrfix_pump(&client, &server);
	assert_int_equal(client.replied.times, 1);
	assert_false(client.replied.has_payload);
	assert_int_equal(client.replied.lists.segments[0].length, 90000);
	rpcrfix_free(&client);
	rpcrfix_free(&server);
	PROVES("RR2-120 RR2-121 RR2-124");
}

/* Inline; else by the Reply chunk; else in many parts; else not at all. */
static void ways_of_a_reply(void **state)
{
	(void)state;
	const struct rpcrdma_lists lists = rpcrfix_lists(0, 0, 0, 10000);
	struct rpcrfix fix;
	rpcrfix_establish(&fix, &usual, RPCR_SERVER, NULL, 8);
	get_call(&fix, 5, &lists);
	/* a chunk of one segment takes 20 bytes more */
	assert_int_equal(rpcr_reply_way(fix.rpcr, 5, 4040), RPCR_INLINE);
	assert_int_equal(rpcr_reply_way(fix.rpcr, 5, 4044), RPCR_REPLY_CHUNK);
	assert_int_equal(rpcr_reply_way(fix.rpcr, 5, 10000), RPCR_REPLY_CHUNK);
	assert_int_equal(rpcr_reply_way(fix.rpcr, 5, 10004), RPCR_INLINE);
	assert_int_equal(rpcr_reply_way(fix.rpcr, 6, 8), RPCR_NO_WAY);
	assert_int_equal(rpcrfix_reply(&fix, 5, 10004, NULL), 0);
	assert_int_equal(rpcrfix_next_prefix(&fix).flags, RPCRDMA_F_RESPONSE | RPCRDMA_F_MORE);
	assert_int_equal(rpcrfix_next_prefix(&fix).flags, RPCRDMA_F_RESPONSE | RPCRDMA_F_MORE);
	assert_int_equal(rpcrfix_next_prefix(&fix).flags, RPCRDMA_F_RESPONSE);
	rpcrfix_free(&fix);
	/* in the reverse direction a client of level SIMPLE answers with one part */
	const struct rpcr_config simple = { .reverse = RPCRDMA_REVERSE_SIMPLE };
	rpcrfix_establish(&fix, &simple, RPCR_CLIENT, NULL, 8);
	get_call(&fix, 5, NULL);
	assert_int_equal(rpcr_reply_way(fix.rpcr, 5, 4060), RPCR_INLINE);
	assert_int_equal(rpcr_reply_way(fix.rpcr, 5, 4064), RPCR_NO_WAY);
	assert_int_equal(rpcrfix_reply(&fix, 5, 4064, NULL), -EMSGSIZE);
	const struct rpcrdma_error error = { RPCRDMA_ERR_REPLY_RESOURCE, 4064, 0 };
	assert_int_equal(rpcr_refuse(fix.rpcr, 5, &error, fix.now), 0);
	assert_int_equal(rpcr_refuse(fix.rpcr, 5, &error, fix.now), -ENOENT);
	rpcrfix_expect_error(&fix, 5, RPCRDMA_ERR_REPLY_RESOURCE, 4064, 0);
	rpcrfix_free(&fix);
	PROVES("RR2-60 RR2-87 RR2-88 RR2-125 RR2-142 RR2-162");
}

/* ---- Replies that are wrong */

static void replies_that_are_wrong(void **state)
{
	(void)state;
	const struct {
		const char *what;
		struct rpcrdma_lists lists;
		uint32_t type;
		size_t len;
	} tries[] = {
		{ "a Read list", rpcrfix_lists(8, 4, 8192, 100), RPCRDMA_MSG, 40 },
		{ "no Write list", rpcrfix_lists(0, 0, 0, 100), RPCRDMA_MSG, 40 },
		{ "longer than offered", rpcrfix_lists(0, 0, 8194, 100), RPCRDMA_MSG, 40 },
		{ "a longer Reply chunk", rpcrfix_lists(0, 0, 8192, 101), RPCRDMA_MSG, 40 },
		{ "no payload at all", rpcrfix_lists(0, 0, 8192, 0), RPCRDMA_NOMSG, 0 },
		{ "bytes behind a NOMSG", rpcrfix_lists(0, 0, 8192, 100), RPCRDMA_NOMSG, 4 },
	};
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		TRIES("%s", tries[i].what);
		const struct rpcrdma_lists offered = rpcrfix_lists(8, 1000, 8192, 100);
		struct rpcrfix fix;
		rpcrfix_establish(&fix, &usual, RPCR_CLIENT, NULL, 8);
		assert_int_equal(rpcrfix_call(&fix, 5, 40, &offered), 0);
		rpcrfix_next(&fix);
		rpcrfix_get_rpc(&fix, tries[i].type, RPCRDMA_F_RESPONSE, 5, &tries[i].lists, 0,
				tries[i].len);
		assert_int_equal(fix.replied.times, 0);
		assert_int_equal(fix.failed, 1);
		assert_int_equal(fix.why, RPCR_FAILED_REPLY);
		assert_int_equal(rpcrfix_view(&fix).errors_sent, 0);
		assert_int_equal(fix.ended, 0);
		rpcrfix_free(&fix);
	}
	/* another handle, another offset */
	for (int i = 0; i < 2; i++) {
		TRIES("changed %d", i);
		struct rpcrdma_lists lists = rpcrfix_lists(0, 0, 8192, 0);
		struct rpcrfix fix;
		rpcrfix_establish(&fix, &usual, RPCR_CLIENT, NULL, 8);
		assert_int_equal(rpcrfix_call(&fix, 5, 40, &lists), 0);
		lists.segments[1].handle += i == 0;
		lists.segments[1].offset += i == 1;
		rpcrfix_get_rpc(&fix, RPCRDMA_MSG, RPCRDMA_F_RESPONSE, 5, &lists, 0, 40);
		assert_int_equal(fix.failed, 1);
		rpcrfix_free(&fix);
	}
	PROVES("RR2-83 RR2-114 RR2-127 RR2-151 RR2-152");
}

static void replies_to_nothing(void **state)
{
	(void)state;
	struct rpcrfix fix;
	rpcrfix_establish(&fix, &usual, RPCR_CLIENT, NULL, 8);
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, RPCRDMA_F_RESPONSE, 5, NULL, 0, 40);
	assert_int_equal(rpcrfix_view(&fix).dropped, 1);
	assert_int_equal(rpcrfix_view(&fix).errors_sent + fix.failed + fix.ended, 0);
	rpcrfix_free(&fix);
	PROVES("RR2-152");
}

static void handles_that_were_not_offered(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		TRIES("case %d", i);
		struct rpcrdma_lists lists = rpcrfix_lists(8, 100, 0, 0);
		static const struct rpcrdma_lists none;
		const uint32_t handle = i == 0 ? 0xB002 : 0xB001;
		const struct rpcrdma_prefix prefix = { 5, RPCRDMA_V2, 1, RPCRDMA_MSG,
						       i == 1 ? 0 : RPCRDMA_F_RESPONSE };
		struct rpcrfix fix;
		uint8_t message[76];
		lists.inv_handle = i == 2 ? 0 : 0xB001; /* none was offered; in a Call; another */
		rpcrfix_establish(&fix, &usual, RPCR_CLIENT, NULL, 8);
		assert_int_equal(rpcrfix_call(&fix, 5, 40, &lists), 0);
		rpcrdma_encode_prefix(&prefix, message);
		rpcrdma_encode_lists(&none, RPCRDMA_V2, message + 20, 16);
		rpcrfix_fill(message + 36, 40, 5, i != 1);
		rpcrfix_get(&fix, message, sizeof(message), &handle);
		assert_int_equal(fix.end, RPCR_END_HANDLE);
		assert_int_equal(fix.why, RPCR_FAILED_LOST);
		rpcrfix_free(&fix);
	}
	PROVES("RR2-119");
}

/* ---- Calls that are wrong */

static void calls_that_are_wrong(void **state)
{
	(void)state;
	static const struct {
		const char *what, *text;
		uint32_t code, first;
	} tries[] = {
		{ "unknown type", "5 2 00400001 00000009 00000000", RPCRDMA_ERR_INVAL_HTYPE, 0 },
		{ "MSGP of version 1", "5 2 00400001 00000002 00000000", RPCRDMA_ERR_INVAL_HTYPE,
		  0 },
		{ "DONE of version 1", "5 2 00400001 00000003 00000000", RPCRDMA_ERR_INVAL_HTYPE,
		  0 },
		{ "TPMORE",
		  "5 2 00400001 00000000 00000004 00000000 00000000 00000000 00000000 00000005 "
		  "00000000",
		  RPCRDMA_ERR_INVAL_HTYPE, 0 },
		{ "cut lists", "5 2 00400001 00000000 00000000 00000000 00000001 00000000",
		  RPCRDMA_ERR_BAD_XDR, 0 },
		{ "no payload",
		  "5 2 00400001 00000000 00000000 00000000 00000000 00000000 00000000",
		  RPCRDMA_ERR_BAD_XDR, 0 },
		{ "another XID",
		  "5 2 00400001 00000000 00000000 00000000 00000000 00000000 00000000 00000006 "
		  "00000000",
		  RPCRDMA_ERR_BAD_XDR, 0 },
		{ "a Reply with the flag of a Call",
		  "5 2 00400001 00000000 00000000 00000000 00000000 00000000 00000000 00000005 "
		  "00000001",
		  RPCRDMA_ERR_BAD_XDR, 0 },
		{ "NOMSG without lists",
		  "5 2 00400001 00000001 00000000 00000000 00000000 00000000 00000000",
		  RPCRDMA_ERR_BAD_XDR, 0 },
		{ "bytes behind a NOMSG",
		  "5 2 00400001 00000001 00000000 00000000 00000001 00000000 0000B001 00000004 "
		  "00000000 00000000 00000000 00000000 00000000 00000000",
		  RPCRDMA_ERR_BAD_XDR, 0 },
		{ "a handle that is not there",
		  "5 2 00400001 00000001 00000000 0000B002 00000001 00000000 0000B001 00000004 "
		  "00000000 00000000 00000000 00000000 00000000",
		  RPCRDMA_ERR_BAD_XDR, 0 },
		{ "an odd position",
		  "5 2 00400001 00000000 00000000 00000000 00000001 00000006 0000B001 00000004 "
		  "00000000 00000000 00000000 00000000 00000000 00000005 00000000",
		  RPCRDMA_ERR_BAD_XDR, 0 },
		{ "a segment that is too long",
		  "5 2 00400001 00000000 00000000 00000000 00000001 00000008 0000B001 00100001 "
		  "00000000 00000000 00000000 00000000 00000000 00000005 00000000",
		  RPCRDMA_ERR_SYSTEM, 0 },
	};
	struct rpcrfix fix;
	rpcrfix_establish(&fix, &usual, RPCR_SERVER, NULL, 100);
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		TRIES("%s", tries[i].what);
		char text[512] = "00000005 00000002 ";
		strcat(text, tries[i].text + 4);
		rpcrfix_get_hex(&fix, text);
		rpcrfix_expect_error(&fix, 5, tries[i].code, tries[i].first, 0);
		while (!rpcrfix_is_silent(&fix)) /* a grant */
			assert_int_equal(rpcrfix_next_prefix(&fix).xid, 0);
	}
	assert_int_equal(fix.called.times + fix.ended, 0);
	get_call(&fix, 5, NULL);
	rpcrfix_free(&fix);
	PROVES("RR2-20 RR2-21 RR2-24 RR2-27 RR2-28 RR2-102 RR2-115 RR2-127 RR2-148 RR2-151 "
	       "RR2-154 RR2-156 RR2-181");
}

static void calls_with_too_many_chunks(void **state)
{
	(void)state;
	const struct rpcr_config config = { .segment_count = 6, .most_reads = 2, .most_writes = 1 };
	struct rpcrdma_lists lists = { .num_reads = 7 };
	struct rpcrfix fix;
	rpcrfix_establish(&fix, &config, RPCR_SERVER, NULL, 100);
	for (uint32_t i = 0; i < 7; i++)
		lists.reads[i] = (struct rpcrdma_read){ 8, { 1, 4, 0 } };
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, 0, 5, &lists, 0, 80);
	rpcrfix_expect_error(&fix, 5, RPCRDMA_ERR_SEGMENTS, 6, 0);
	lists.num_reads = 6;
	get_call(&fix, 6, &lists); /* one chunk */
	lists.reads[1].position = 32;
	get_call(&fix, 7, &lists); /* two */
	lists.reads[2].position = 36;
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, 0, 8, &lists, 0, 80);
	rpcrfix_expect_error(&fix, 8, RPCRDMA_ERR_READ_CHUNKS, 2, 0);
	lists = (struct rpcrdma_lists){ .num_writes = 2 };
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, 0, 9, &lists, 0, 80);
	rpcrfix_expect_error(&fix, 9, RPCRDMA_ERR_WRITE_CHUNKS, 1, 0);
	lists.num_writes = 1;
	get_call(&fix, 10, &lists);
	rpcrfix_free(&fix);
	PROVES("RR2-158 RR2-159 RR2-160");
}

/* A Special Call whose XID is 0 is one, and no grant. */
static void a_call_with_xid_0(void **state)
{
	(void)state;
	const struct rpcrdma_lists lists = rpcrfix_lists(0, 100, 0, 0);
	struct rpcrfix fix;
	rpcrfix_establish(&fix, &usual, RPCR_SERVER, NULL, 8);
	rpcrfix_get_rpc(&fix, RPCRDMA_NOMSG, 0, 0, &lists, 0, 0);
	assert_int_equal(fix.called.times, 1);
	assert_int_equal(fix.called.xid, 0);
	assert_int_equal(rpcrfix_reply(&fix, 0, 40, NULL), 0);
	rpcrfix_free(&fix);
	PROVES("RR2-190");
}

static void calls_twice_and_too_many(void **state)
{
	(void)state;
	const struct rpcr_config config = { .most_calls = 2 };
	struct rpcrfix fix;
	rpcrfix_establish(&fix, &config, RPCR_SERVER, NULL, 8);
	get_call(&fix, 5, NULL);
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, 0, 5, NULL, 0, 80);
	assert_int_equal(fix.called.times, 1);
	assert_true(rpcrfix_is_silent(&fix));
	get_call(&fix, 6, NULL);
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, 0, 7, NULL, 0, 80);
	rpcrfix_expect_error(&fix, 7, RPCRDMA_ERR_SYSTEM, 0, 0);
	assert_int_equal(rpcrfix_reply(&fix, 5, 40, NULL), 0);
	get_call(&fix, 7, NULL);
	rpcrfix_free(&fix);
	PROVES("RR2-163 RR2-186");
}

static void errors_without_end(void **state)
{
	(void)state;
	struct rpcrfix fix;
	rpcrfix_establish(&fix, &usual, RPCR_SERVER, NULL, 1);
	for (int i = 0; i < 100 && !fix.ended; i++)
		rpcrfix_get_hex(&fix, "00000005 00000002 00400000 00000009 00000000");
	assert_int_equal(fix.end, RPCR_END_FLOOD);
	rpcrfix_free(&fix);
	PROVES("RR2-186");
}

/* ---- ERRORs that come */

static void errors_end_calls(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		struct rpcrdma_error error;
	} tries[] = {
		{ "00000001 00000002 00000002", { RPCRDMA_ERR_VERS, 2, 2 } },
		{ "00000002", { RPCRDMA_ERR_BAD_XDR, 0, 0 } },
		{ "00000004", { RPCRDMA_ERR_INVAL_HTYPE, 0, 0 } },
		{ "00000005", { RPCRDMA_ERR_INVAL_CONT, 0, 0 } },
		{ "00000006 00000000", { RPCRDMA_ERR_READ_CHUNKS, 0, 0 } },
		{ "00000007 00000001", { RPCRDMA_ERR_WRITE_CHUNKS, 1, 0 } },
		{ "00000008 00000010", { RPCRDMA_ERR_SEGMENTS, 16, 0 } },
		{ "00000009 00000000 00000000", { RPCRDMA_ERR_WRITE_RESOURCE, 0, 0 } },
		{ "0000000A 00002328", { RPCRDMA_ERR_REPLY_RESOURCE, 9000, 0 } },
		{ "00000064", { RPCRDMA_ERR_SYSTEM, 0, 0 } },
	};
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		TRIES("%s", tries[i].text);
		char text[128] = "00000005 00000002 00400001 00000004 00000001 ";
		struct rpcrfix fix;
		rpcrfix_establish(&fix, &usual, RPCR_CLIENT, NULL, 8);
		assert_int_equal(rpcrfix_call(&fix, 5, 40, NULL), 0);
		rpcrfix_next(&fix);
		strcat(text, tries[i].text);
		rpcrfix_get_hex(&fix, text);
		assert_int_equal(fix.failed, 1);
		assert_int_equal(fix.why, RPCR_FAILED_ERROR);
		assert_memory_equal(&fix.error, &tries[i].error, sizeof(fix.error));
		assert_int_equal(rpcrfix_view(&fix).calls, 0);
		rpcrfix_get_hex(&fix, text); /* once */
		assert_int_equal(fix.failed, 1);
		assert_true(rpcrfix_is_silent(&fix));
		rpcrfix_free(&fix);
	}
	PROVES("RR2-90 RR2-153 RR2-156 RR2-157 RR2-158 RR2-159 RR2-160 RR2-161 RR2-162 RR2-163");
}

static void errors_that_are_dropped(void **state)
{
	(void)state;
	static const char *const tries[] = {
		"00000005 00000002 00400001 00000004 00000001 0000000B",
		"00000005 00000002 00400001 00000004 00000001 00000065",
		"00000005 00000002 00400001 00000004 00000001",          /* no code */
		"00000005 00000002 00400001 00000004 00000001 00000006", /* too short */
		"00000005 00000002 00400001 00000004 00000005 00000002", /* TPMORE */
		"00000005 00000003 00400001 00000004 00000001 00000002", /* another version */
	};
	struct rpcrfix fix;
	rpcrfix_establish(&fix, &usual, RPCR_SERVER, NULL, 8);
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		TRIES("%s", tries[i]);
		rpcrfix_get_hex(&fix, tries[i]);
		assert_true(rpcrfix_is_silent(&fix));
		assert_int_equal(fix.failed + fix.ended, 0);
	}
	rpcrfix_free(&fix);
	PROVES("RR2-24 RR2-149 RR2-150");
}

/* ---- reverse direction */

static void reverse_levels(void **state)
{
	(void)state;
	const struct rpcrdma_lists lists = rpcrfix_lists(8, 100, 0, 0);
	static const struct {
		enum rpcrdma_reverse level;
		int simple, continued, chunks;
	} tries[] = {
		{ RPCRDMA_REVERSE_NONE, -EOPNOTSUPP, -EOPNOTSUPP, -EOPNOTSUPP },
		{ RPCRDMA_REVERSE_SIMPLE, 0, -EMSGSIZE, -EINVAL },
		{ RPCRDMA_REVERSE_CONTINUED, 0, 0, -EINVAL },
		{ RPCRDMA_REVERSE_GENERAL, 0, 0, 0 },
	};
	for (size_t i = 0; i < 4; i++) {
		TRIES("level %zu", i);
		const struct rpcr_config config = { .reverse = tries[i].level };
		struct rpcrfix client, server;
		rpcrfix_join(&client, &config, &server, &usual);
		assert_int_equal(rpcrfix_view(&server).peer.reverse, tries[i].level);
		assert_int_equal(rpcrfix_view(&client).peer.reverse, RPCRDMA_REVERSE_NONE);
		assert_int_equal(rpcrfix_call(&server, 5, 40, NULL), tries[i].simple);
		assert_int_equal(rpcrfix_call(&server, 6, 10000, NULL), tries[i].continued);
		assert_int_equal(rpcrfix_call(&server, 7, 40, &lists), tries[i].chunks);
		client.echo = true;
		rpcrfix_pump(&client, &server);
		assert_int_equal(server.replied.times, (tries[i].simple == 0) +
							       (tries[i].continued == 0) +
							       (tries[i].chunks == 0));
		rpcrfix_free(&client);
		rpcrfix_free(&server);
	}
	PROVES("RR2-67 RR2-138 RR2-139 RR2-141 RR2-142");
}

/* One XID in both directions at a time: the flag tells them apart. */
static void the_same_xid_both_ways(void **state)
{
	(void)state;
	const struct rpcr_config config = { .reverse = RPCRDMA_REVERSE_SIMPLE };
	struct rpcrfix client, server;
	rpcrfix_join(&client, &config, &server, &usual);
	assert_int_equal(rpcrfix_call(&client, 5, 40, NULL), 0);
	assert_int_equal(rpcrfix_call(&server, 5, 80, NULL), 0);
	rpcrfix_pump(&client, &server);
	rpcrfix_expect(&server.called, 5, 40, false);
	rpcrfix_expect(&client.called, 5, 80, false);
	assert_int_equal(rpcrfix_reply(&client, 5, 84, NULL), 0);
	assert_int_equal(rpcrfix_reply(&server, 5, 44, NULL), 0);
	rpcrfix_pump(&client, &server);
	rpcrfix_expect(&server.replied, 5, 84, true);
	rpcrfix_expect(&client.replied, 5, 44, true);
	rpcrfix_free(&client);
	rpcrfix_free(&server);
	PROVES("RR2-26 RR2-138 RR2-139 RR2-140");
}

static void reverse_calls_with_chunks(void **state)
{
	(void)state;
	const struct rpcr_config config = { .reverse = RPCRDMA_REVERSE_CONTINUED };
	const struct rpcrdma_lists read = rpcrfix_lists(8, 100, 0, 0);
	const struct rpcrdma_lists write = rpcrfix_lists(8, 0, 100, 0);
	const struct rpcrdma_lists reply = rpcrfix_lists(8, 0, 0, 100);
	struct rpcrfix fix;
	rpcrfix_establish(&fix, &config, RPCR_CLIENT, NULL, 100);
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, 0, 5, &read, 0, 40);
	rpcrfix_expect_error(&fix, 5, RPCRDMA_ERR_READ_CHUNKS, 0, 0);
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, 0, 6, &write, 0, 40);
	rpcrfix_expect_error(&fix, 6, RPCRDMA_ERR_WRITE_CHUNKS, 0, 0);
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, 0, 7, &reply, 0, 40);
	rpcrfix_expect_error(&fix, 7, RPCRDMA_ERR_REPLY_RESOURCE, 0, 0);
	get_call(&fix, 8, NULL);
	rpcrfix_free(&fix);
	rpcrfix_establish(&fix, &usual, RPCR_CLIENT, NULL, 100); /* it has declared none at all */
	rpcrfix_get_rpc(&fix, RPCRDMA_MSG, 0, 5, NULL, 0, 40);
	rpcrfix_expect_error(&fix, 5, RPCRDMA_ERR_SYSTEM, 0, 0);
	assert_int_equal(fix.called.times, 0);
	rpcrfix_free(&fix);
	PROVES("RR2-143 RR2-144");
}

/* ---- the end */

static void the_end_fails_calls(void **state)
{
	(void)state;
	for (int lost = 0; lost < 2; lost++) {
		TRIES("lost %d", lost);
		struct rpcrfix fix;
		rpcrfix_establish(&fix, &usual, RPCR_CLIENT, NULL, 8);
		assert_int_equal(rpcrfix_call(&fix, 5, 40, NULL), 0);
		assert_int_equal(rpcrfix_call(&fix, 6, 40, NULL), 0);
		if (lost)
			rpcr_lost(fix.rpcr, fix.now);
		else
			rpcr_close(fix.rpcr);
		assert_int_equal(fix.end, lost ? RPCR_END_LOST : RPCR_END_CLOSED);
		assert_int_equal(fix.failed, 2);
		assert_int_equal(fix.why, RPCR_FAILED_LOST);
		assert_int_equal(rpcrfix_call(&fix, 7, 40, NULL), -ENOTCONN);
		rpcr_received(fix.rpcr, NULL, 0, NULL, fix.now);
		rpcr_close(fix.rpcr);
		assert_int_equal(fix.ended, 1);
		rpcrfix_free(&fix);
	}
	PROVES("RR2-169");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_of_the_threshold_is_one),
		cmocka_unit_test(parts_of_any_number),
		cmocka_unit_test(parts_are_cut_anywhere),
		cmocka_unit_test(messages_do_not_mix),
		cmocka_unit_test(broken_sequences),
		cmocka_unit_test(a_message_that_is_too_long),
		cmocka_unit_test(calls_that_cannot_be),
		cmocka_unit_test(a_peer_without_segments),
		cmocka_unit_test(chunks_there_and_back),
		cmocka_unit_test(replies_without_invalidate),
		cmocka_unit_test(special_calls_and_replies),
		cmocka_unit_test(ways_of_a_reply),
		cmocka_unit_test(replies_that_are_wrong),
		cmocka_unit_test(replies_to_nothing),
		cmocka_unit_test(handles_that_were_not_offered),
		cmocka_unit_test(calls_that_are_wrong),
		cmocka_unit_test(calls_with_too_many_chunks),
		cmocka_unit_test(a_call_with_xid_0),
		cmocka_unit_test(calls_twice_and_too_many),
		cmocka_unit_test(errors_without_end),
		cmocka_unit_test(errors_end_calls),
		cmocka_unit_test(errors_that_are_dropped),
		cmocka_unit_test(reverse_levels),
		cmocka_unit_test(the_same_xid_both_ways),
		cmocka_unit_test(reverse_calls_with_chunks),
		cmocka_unit_test(the_end_fails_calls),
	};
	return cmocka_run_group_tests_name("rpcr: Calls and Replies", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "tests/lib/rpcrfix.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/smcr/bytes.h"
#include "tests/lib/hex.h"

/* ---- operations */

static uint32_t op_post_receives(void *ctx, uint32_t n, uint32_t size)
{
	struct rpcrfix *fix = ctx;
	assert_true(n > 0);
	if (n > fix->post_room)
		n = fix->post_room;
	fix->post_room -= n;
	fix->posted += n;
	fix->posted_size = size;
	return n;
}

static int op_send(void *ctx, const uint8_t *head, size_t head_len, const uint8_t *payload,
		   size_t len, const uint32_t *handle)
{
	struct rpcrfix *fix = ctx;
	assert_int_equal(fix->ended, 0);
	if (fix->send_error)
		return fix->send_error;
	if (fix->send_room == 0)
		return -EAGAIN;
	fix->send_room--;
	assert_true(fix->num_sent < RPCRFIX_MOST);
	struct rpcrfix_sent *sent = &fix->sent[fix->num_sent++];
	sent->len = head_len + len;
	sent->bytes = malloc(sent->len);
	assert_non_null(sent->bytes);
	memcpy(sent->bytes, head, head_len);
	if (len)
		memcpy(sent->bytes + head_len, payload, len);
	sent->has_handle = handle;
	sent->handle = handle ? *handle : 0;
	return 0;
}

static void op_established(void *ctx)
{
	struct rpcrfix *fix = ctx;
	fix->established++;
	assert_int_equal(rpcrfix_view(fix).state, RPCR_ESTABLISHED);
}

static void keep(struct rpcrfix_message *kept, const struct rpcr_message *message)
{
	free(kept->payload);
	kept->times++;
	kept->xid = message->xid;
	kept->has_payload = message->payload;
	kept->invalidated = message->invalidated;
	kept->payload = exact_copy(message->payload, message->len);
	kept->len = message->len;
	kept->lists = *message->lists;
}

static void op_called(void *ctx, const struct rpcr_message *call)
{
	struct rpcrfix *fix = ctx;
	assert_int_equal(fix->ended, 0);
	keep(&fix->called, call);
	if (fix->echo)
		assert_int_equal(rpcrfix_reply(fix, call->xid, call->len, NULL), 0);
}

static void op_replied(void *ctx, void *cookie, const struct rpcr_message *reply)
{
	struct rpcrfix *fix = ctx;
	keep(&fix->replied, reply);
	fix->cookie = cookie;
}

static void op_failed(void *ctx, void *cookie, enum rpcr_failure why,
		      const struct rpcrdma_error *error)
{
	struct rpcrfix *fix = ctx;
	fix->failed++;
	fix->cookie = cookie;
	fix->why = why;
	fix->error = error ? *error : (struct rpcrdma_error){ 0 };
}

static void op_ended(void *ctx, enum rpcr_end end, bool send_first)
{
	struct rpcrfix *fix = ctx;
	fix->ended++;
	fix->end = end;
	fix->end_send_first = send_first;
}

static const struct rpcr_ops ops = {
	.post_receives = op_post_receives,
	.send = op_send,
	.established = op_established,
	.called = op_called,
	.replied = op_replied,
	.failed = op_failed,
	.ended = op_ended,
};

/* ---- connections */

static void forget_sent(struct rpcrfix *fix)
{
	for (size_t i = 0; i < fix->num_sent; i++)
		free(fix->sent[i].bytes);
	fix->num_sent = fix->taken = 0;
}

void rpcrfix_new(struct rpcrfix *fix, const struct rpcr_config *config, enum rpcr_side side)
{
	memset(fix, 0, sizeof(*fix));
	fix->side = side;
	fix->now = 1000000;
	fix->post_room = UINT32_MAX;
	fix->send_room = SIZE_MAX;
	assert_int_equal(rpcr_new(config, side, &ops, fix, fix->now, &fix->rpcr), 0);
}

void rpcrfix_free(struct rpcrfix *fix)
{
	assert_int_equal(fix->ended, rpcrfix_view(fix).state == RPCR_GONE);
	rpcr_free(fix->rpcr);
	forget_sent(fix);
	free(fix->called.payload);
	free(fix->replied.payload);
}

void rpcrfix_establish(struct rpcrfix *fix, const struct rpcr_config *config, enum rpcr_side side,
		       const struct rpcrdma_properties *peer, uint16_t granted)
{
	struct rpcrdma_properties usual = rpcrdma_default_properties;
	usual.reverse = RPCRDMA_REVERSE_CONTINUED;
	rpcrfix_new(fix, config, side);
	rpcr_connected(fix->rpcr, fix->now);
	rpcrfix_get_properties(fix, peer ? peer : &usual, 0, granted);
	assert_int_equal(rpcrfix_next_prefix(fix).type, RPCRDMA_CONNPROP);
	assert_int_equal(fix->established, 1);
	fix->taken = fix->num_sent; /* a grant for the peer's CONNPROP */
}

void rpcrfix_join(struct rpcrfix *client, const struct rpcr_config *client_config,
		  struct rpcrfix *server, const struct rpcr_config *server_config)
{
	rpcrfix_new(client, client_config, RPCR_CLIENT);
	rpcrfix_new(server, server_config, RPCR_SERVER);
	rpcr_connected(server->rpcr, server->now);
	rpcr_connected(client->rpcr, client->now);
	rpcrfix_pump(client, server);
	assert_int_equal(client->established, 1);
	assert_int_equal(server->established, 1);
}

/* One message of `from`, if there is one, to `to`. */
static bool pump_one(struct rpcrfix *from, struct rpcrfix *to)
{
	if (rpcrfix_is_silent(from) || to->ended)
		return false;
	const struct rpcrfix_sent *sent = rpcrfix_next(from);
	rpcrfix_get(to, sent->bytes, sent->len, sent->has_handle ? &sent->handle : NULL);
	free(sent->bytes);
	from->sent[from->taken - 1].bytes = NULL;
	if (rpcrfix_is_silent(from))
		forget_sent(from);
	return true;
}

void rpcrfix_pump(struct rpcrfix *a, struct rpcrfix *b)
{
	size_t n = 0;
	for (bool any = true; any;) {
		any = pump_one(a, b);
		any |= pump_one(b, a);
		assert_true(n++ < 100000);
	}
}

/* ---- messages */

void rpcrfix_get(struct rpcrfix *fix, const void *bytes, size_t len, const uint32_t *handle)
{
	uint8_t *copy = exact_copy(bytes, len);
	assert_true(fix->posted > 0); /* or the RNIC would refuse it */
	fix->posted--;
	rpcr_received(fix->rpcr, copy, len, handle, fix->now);
	free(copy);
	rpcrfix_check(fix);
}

void rpcrfix_get_hex(struct rpcrfix *fix, const char *text)
{
	uint8_t bytes[4096];
	const size_t len = hex_bytes(text, bytes, sizeof(bytes));
	rpcrfix_get(fix, bytes, len, NULL);
}

void rpcrfix_fill(uint8_t *bytes, size_t len, uint32_t xid, bool reply)
{
	for (size_t i = 8; i < len; i++)
		bytes[i] = (uint8_t)(i + i / 251 + xid);
	if (len >= 4)
		put_be32(bytes, xid);
	if (len >= 8)
		put_be32(bytes + 4, reply);
}

void rpcrfix_get_rpc(struct rpcrfix *fix, uint32_t type, uint32_t flags, uint32_t xid,
		     const struct rpcrdma_lists *lists, size_t from, size_t len)
{
	static const struct rpcrdma_lists none;
	const struct rpcrdma_prefix prefix = { xid, RPCRDMA_V2, rpcrdma_credit(64, 1), type,
					       flags };
	uint8_t message[RPCRDMA_V2_PREFIX_LEN + RPCRDMA_MOST_LISTS_LEN + 8192];
	uint8_t *whole = calloc(1, from + len + 1);
	assert_non_null(whole);
	assert_true(len <= 8192);
	size_t at = rpcrdma_encode_prefix(&prefix, message);
	at += rpcrdma_encode_lists(lists ? lists : &none, RPCRDMA_V2, message + at,
				   RPCRDMA_MOST_LISTS_LEN);
	rpcrfix_fill(whole, from + len, xid, flags & RPCRDMA_F_RESPONSE);
	memcpy(message + at, whole + from, len);
	rpcrfix_get(fix, message, at + len, NULL);
	free(whole);
}

void rpcrfix_get_properties(struct rpcrfix *fix, const struct rpcrdma_properties *properties,
			    uint32_t flags, uint16_t granted)
{
	const struct rpcrdma_prefix prefix = { 0x77, RPCRDMA_V2, rpcrdma_credit(0, granted),
					       RPCRDMA_CONNPROP, flags };
	uint8_t message[1024];
	size_t len = rpcrdma_encode_prefix(&prefix, message);
	len += rpcrdma_encode_properties(properties, message + len, sizeof(message) - len);
	rpcrfix_get(fix, message, len, NULL);
}

const struct rpcrfix_sent *rpcrfix_next(struct rpcrfix *fix)
{
	assert_true(fix->taken < fix->num_sent);
	return &fix->sent[fix->taken++];
}

struct rpcrdma_prefix rpcrfix_next_prefix(struct rpcrfix *fix)
{
	const struct rpcrfix_sent *sent = rpcrfix_next(fix);
	struct rpcrdma_prefix prefix;
	assert_int_equal(rpcrdma_decode_prefix(sent->bytes, sent->len, &prefix), 0);
	return prefix;
}

void rpcrfix_expect_error(struct rpcrfix *fix, uint32_t xid, uint32_t code, uint32_t first,
			  uint32_t second)
{
	const struct rpcrfix_sent *sent = rpcrfix_next(fix);
	struct rpcrdma_prefix prefix;
	struct rpcrdma_error error;
	assert_int_equal(rpcrdma_decode_prefix(sent->bytes, sent->len, &prefix), 0);
	assert_int_equal(prefix.xid, xid);
	assert_int_equal(prefix.version, RPCRDMA_V2);
	assert_int_equal(prefix.type, RPCRDMA_ERROR);
	assert_int_equal(prefix.flags, RPCRDMA_F_RESPONSE);
	assert_int_equal(rpcrdma_decode_error(sent->bytes + 20, sent->len - 20, 2, &error), 0);
	assert_int_equal(error.code, code);
	assert_int_equal(error.first, first);
	assert_int_equal(error.second, second);
}

bool rpcrfix_is_silent(const struct rpcrfix *fix)
{
	return fix->taken == fix->num_sent;
}

int rpcrfix_call(struct rpcrfix *fix, uint32_t xid, size_t len, const struct rpcrdma_lists *lists)
{
	uint8_t *bytes = malloc(len + 1);
	assert_non_null(bytes);
	rpcrfix_fill(bytes, len, xid, false);
	int error = rpcr_call(fix->rpcr, xid, bytes, len, lists, fix, fix->now);
	free(bytes);
	return error;
}

int rpcrfix_reply(struct rpcrfix *fix, uint32_t xid, size_t len, const struct rpcr_used *used)
{
	uint8_t *bytes = malloc(len + 1);
	assert_non_null(bytes);
	rpcrfix_fill(bytes, len, xid, true);
	int error = rpcr_reply(fix->rpcr, xid, bytes, len, used, fix->now);
	free(bytes);
	return error;
}

void rpcrfix_expect(const struct rpcrfix_message *message, uint32_t xid, size_t len, bool reply)
{
	uint8_t *expected = malloc(len + 1);
	assert_non_null(expected);
	rpcrfix_fill(expected, len, xid, reply);
	assert_int_equal(message->xid, xid);
	assert_int_equal(message->len, len);
	assert_memory_equal(message->payload, expected, len);
	free(expected);
}

struct rpcr_view rpcrfix_view(const struct rpcrfix *fix)
{
	struct rpcr_view view;
	rpcr_get_view(fix->rpcr, &view);
	return view;
}

void rpcrfix_check(const struct rpcrfix *fix)
{
	const struct rpcr_view view = rpcrfix_view(fix);
	if (view.state == RPCR_GONE || view.version == RPCRDMA_V1)
		return;
	assert_int_equal(view.new_credits + view.out_credits + 1, fix->posted);
	assert_true(view.out_credits <= view.credit_limit);
}

struct rpcrdma_lists rpcrfix_lists(uint32_t position, uint32_t read, uint32_t write, uint32_t reply)
{
	struct rpcrdma_lists lists = { 0 };
	if (read) {
		lists.num_reads = 1;
		lists.reads[0] = (struct rpcrdma_read){ position, { 0xB001, read, 0x30000 } };
	}
	if (write) {
		lists.num_writes = 1;
		lists.writes[0] = (struct rpcrdma_chunk){ 0, 2 };
		lists.num_segments = 2;
		lists.segments[0] = (struct rpcrdma_segment){ 0xB002, write / 2, 0x40000 };
		lists.segments[1] = (struct rpcrdma_segment){ 0xB003, write - write / 2, 0x50000 };
	}
	if (reply) {
		lists.has_reply = true;
		lists.reply = (struct rpcrdma_chunk){ lists.num_segments, 1 };
		lists.segments[lists.num_segments++] =
			(struct rpcrdma_segment){ 0xB004, reply, 0x60000 };
	}
	return lists;
}

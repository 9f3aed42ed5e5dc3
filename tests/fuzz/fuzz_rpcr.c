/* SPDX-License-Identifier: MIT */
/*
 * daemon/rpcrdma: a connection whose peer sends what the input says, and whose user calls, replies
 * and refuses in between. Each record is a step. Each Call of the user has to end once, receives
 * have to be where the counters say, and nothing may be left at the end.
 */
#include <string.h>

#include "daemon/rpcrdma/chunks.h"
#include "daemon/rpcrdma/transport.h"
#include "tests/fuzz/fuzz.h"

#define MOST_SERVED 16

static struct user {
	struct rpcr *rpcr;
	uint32_t posted;
	unsigned int made, ended_calls;
	bool ended;
	uint32_t served[MOST_SERVED];
	unsigned int num_served;
} user;

static uint32_t post_receives(void *ctx, uint32_t n, uint32_t size)
{
	(void)ctx;
	must(n > 0 && size >= RPCRDMA_LEAST_SIZE);
	user.posted += n;
	return n;
}

static int send_message(void *ctx, const uint8_t *head, size_t head_len, const uint8_t *payload,
			size_t len, const uint32_t *handle)
{
	struct rpcr_view view;
	struct rpcrdma_prefix prefix;
	(void)ctx;
	(void)payload;
	must(!user.ended);
	must(handle == NULL || *handle != 0);
	must(rpcrdma_decode_prefix(head, head_len, &prefix) == 0);
	rpcr_get_view(user.rpcr, &view);
	must(head_len + len <= view.send_threshold || prefix.type == RPCRDMA_ERROR ||
	     prefix.type == RPCRDMA_CONNPROP);
	return 0;
}

static void established(void *ctx)
{
	(void)ctx;
}

/* The Call is put together as a user would, with data that is zeros. */
static void called(void *ctx, const struct rpcr_message *call)
{
	uint64_t len;
	(void)ctx;
	must(rpcr_check_reads(call->lists, call->payload != NULL, call->len, &len) == 0);
	uint8_t *data = calloc(1, (size_t)len + 1), *whole = malloc((size_t)len + 1);
	must(data && whole);
	rpcr_rebuild(call->lists, call->payload, call->len, data, whole);
	free(data);
	free(whole);
	if (user.num_served < MOST_SERVED)
		user.served[user.num_served++] = call->xid;
}

static void replied(void *ctx, void *cookie, const struct rpcr_message *reply)
{
	(void)ctx;
	(void)reply;
	must(cookie == &user);
	user.ended_calls++;
}

static void failed(void *ctx, void *cookie, enum rpcr_failure why,
		   const struct rpcrdma_error *error)
{
	(void)ctx;
	must(cookie == &user);
	must((why == RPCR_FAILED_ERROR) == (error != NULL));
	user.ended_calls++;
}

static void ended(void *ctx, enum rpcr_end end, bool send_first)
{
	(void)ctx;
	(void)send_first;
	must(!user.ended && end != RPCR_END_NONE);
	user.ended = true;
}

static const struct rpcr_ops ops = {
	.post_receives = post_receives,
	.send = send_message,
	.established = established,
	.called = called,
	.replied = replied,
	.failed = failed,
	.ended = ended,
};

/* ---- steps */

static void call(uint8_t xid, uint8_t how)
{
	static struct rpcrdma_lists lists;
	const size_t len = 8 + 4 * (size_t)how;
	uint8_t payload[8 + 4 * 255] = { 0, 0, 0, xid };
	lists = (struct rpcrdma_lists){ 0 };
	if (how & 1) {
		lists.has_reply = true;
		lists.reply = (struct rpcrdma_chunk){ 0, 1 };
		lists.num_segments = 1;
		lists.segments[0] = (struct rpcrdma_segment){ xid, 4096, 0 };
		lists.inv_handle = xid;
	}
	user.made += rpcr_call(user.rpcr, xid, payload, len, &lists, &user, 1) == 0;
}

static void answer(uint8_t how)
{
	if (user.num_served == 0)
		return;
	const uint32_t xid = user.served[--user.num_served];
	const struct rpcrdma_error error = { .code = 1 + how % 10 };
	uint8_t payload[1024] = { (uint8_t)(xid >> 24),
				  (uint8_t)(xid >> 16),
				  (uint8_t)(xid >> 8),
				  (uint8_t)xid,
				  0,
				  0,
				  0,
				  1 };
	if (how < 128 && rpcr_reply(user.rpcr, xid, payload, 8 + 4 * (size_t)how, NULL, 1) == 0)
		return;
	(void)rpcr_refuse(user.rpcr, xid, &error, 1);
}

/* The peer's message comes in a block of its own, so that a read behind it is seen. */
static void receive(const uint8_t *data, size_t len, bool with_handle, uint8_t handle)
{
	const uint32_t invalidated = handle;
	uint8_t *copy = malloc(len + 1);
	if (user.posted == 0 || !copy) {
		free(copy);
		return; /* no receive: the RNIC would have it wait */
	}
	user.posted--;
	if (len)
		memcpy(copy, data, len);
	copy = realloc(copy, len ? len : 1);
	rpcr_received(user.rpcr, copy, len, with_handle ? &invalidated : NULL, 1);
	free(copy);
}

static void check(void)
{
	struct rpcr_view view;
	rpcr_get_view(user.rpcr, &view);
	must(user.ended == (view.state == RPCR_GONE));
	must(user.made == user.ended_calls + view.calls);
	if (!user.ended && view.version != RPCRDMA_V1)
		must(view.new_credits + view.out_credits + 1 == user.posted);
	must(view.out_credits <= view.credit_limit);
}

/* A record: what, two numbers, the length of a message, and that. */
static size_t step(const uint8_t *data, size_t size)
{
	const size_t room = size - 4;
	const size_t len = data[3] < room ? data[3] : room;
	switch (data[0] % 4) {
	case 0:
	case 1: receive(data + 4, len, data[1] & 1, data[2]); break;
	case 2: call(data[1], data[2]); return 4;
	case 3: answer(data[2]); return 4;
	}
	return 4 + len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 4)
		return 0;
	const struct rpcr_config config = {
		.receives = 1 + data[0] % 8,
		.send_size = 128 + data[1],
		.receive_size = 4096,
		.most_joined = 2048,
		.most_calls = 4,
		.reverse = data[2] % 4,
		.version_1 = data[2] & 4,
		.invalidates = data[2] & 8,
		.v1_invalidates = data[2] & 16,
	};
	user = (struct user){ 0 };
	must(rpcr_new(&config, data[3] & 1 ? RPCR_CLIENT : RPCR_SERVER, &ops, &user, 1,
		      &user.rpcr) == 0);
	rpcr_connected(user.rpcr, 1);
	for (size_t at = 4; at + 4 <= size && !user.ended;) {
		at += step(data + at, size - at);
		check();
	}
	rpcr_close(user.rpcr);
	must(user.made == user.ended_calls);
	rpcr_free(user.rpcr);
	return 0;
}

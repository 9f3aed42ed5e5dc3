/* SPDX-License-Identifier: MIT */
/*
 * A peer that negotiates and sends messages by the rules, with what is odd and allowed, until it
 * breaks one rule. It is code of its own: it does not share what it may have wrong.
 */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "proto/smbdirect/smbdirect.h"
#include "tests/smbdsim/run.h"

#define HEAD     20
#define GAP_MOST 20000 /* microseconds between its messages */
#define BURST    20

static void put_le(uint8_t *at, uint64_t value, unsigned int size)
{
	for (unsigned int i = 0; i < size; i++)
		at[i] = (uint8_t)(value >> 8 * i);
}

static uint32_t get_le(const uint8_t *at, unsigned int size)
{
	uint32_t value = 0;
	for (unsigned int i = 0; i < size; i++)
		value |= (uint32_t)at[i] << 8 * i;
	return value;
}

static struct side *victim_of(struct run *run)
{
	return &run->sides[!run->hostile_index];
}

static void put(struct run *run, const uint8_t *bytes, size_t len, const uint32_t *token)
{
	wire_put(run, !run->hostile_index, bytes, len, NULL, 0, token);
}

/* ---- negotiation */

/* The fields that both Negotiate messages have: credits, sizes. */
struct sizes {
	uint32_t credits, granted, send, receive, message, status, version;
	size_t len;
};

static struct sizes good_sizes(struct run *run, size_t len)
{
	struct random *random = &run->random;
	return (struct sizes){
		.credits = (uint32_t)random_size(random, 3, 400),
		.granted = (uint32_t)random_size(random, 10, 400),
		.send = (uint32_t)random_size(random, 128, 8192),
		.receive = (uint32_t)random_size(random, 128, 8192),
		.message = (uint32_t)random_size(random, 131072, 300000),
		.version = 0x0100,
		.len = len,
	};
}

static void break_sizes(struct run *run, struct sizes *sizes, uint32_t peer_receive)
{
	struct random *random = &run->random;
	struct hostile *hostile = run->hostile;
	hostile->broken = true;
	switch (hostile->breach) {
	case BREACH_NEGOTIATE_SHORT: sizes->len = random_range(random, 0, sizes->len - 1); break;
	case BREACH_NEGOTIATE_NO_CREDITS: sizes->credits = 0; break;
	case BREACH_NEGOTIATE_NO_GRANT: sizes->granted = 0; break;
	case BREACH_NEGOTIATE_RECEIVE_SIZE:
		sizes->receive = (uint32_t)random_range(random, 0, 127);
		break;
	case BREACH_NEGOTIATE_MESSAGE_SIZE:
		sizes->message = (uint32_t)random_range(random, 0, 131071);
		break;
	case BREACH_NEGOTIATE_VERSION:
		do
			sizes->version = (uint32_t)random_range(random, 0, 0xFFFF);
		while (sizes->version == 0x0100);
		break;
	case BREACH_NEGOTIATE_STATUS:
		sizes->status = (uint32_t)random_range(random, 1, UINT32_MAX);
		break;
	case BREACH_NEGOTIATE_SEND_SIZE:
		sizes->send = (uint32_t)random_range(random, peer_receive + 1, UINT32_MAX);
		break;
	default: hostile->broken = false; break;
	}
}

static void send_request(struct run *run)
{
	struct sizes sizes = good_sizes(run, 20 + random_range(&run->random, 0, 40));
	uint8_t bytes[64] = { 0 };
	break_sizes(run, &sizes, 0);
	if (run->hostile->breach == BREACH_NEGOTIATE_SHORT)
		sizes.len %= 20;
	put_le(bytes, sizes.version, 2);
	put_le(bytes + 2, sizes.version, 2);
	put_le(bytes + 4, random_next(&run->random), 2); /* reserved */
	put_le(bytes + 6, sizes.credits, 2);
	put_le(bytes + 8, sizes.send, 4);
	put_le(bytes + 12, sizes.receive, 4);
	put_le(bytes + 16, sizes.message, 4);
	run->hostile->send_size = sizes.send;
	put(run, bytes, sizes.len, NULL);
}

static void send_response(struct run *run, const uint8_t *request)
{
	struct hostile *hostile = run->hostile;
	const uint32_t peer_receive = get_le(request + 12, 4);
	struct sizes sizes = good_sizes(run, 32);
	uint8_t bytes[32] = { 0 };
	if (sizes.send > peer_receive)
		sizes.send = peer_receive;
	break_sizes(run, &sizes, peer_receive);
	put_le(bytes, random_next(&run->random), 4); /* versions, which nobody looks at */
	put_le(bytes + 4, sizes.version, 2);
	put_le(bytes + 6, random_next(&run->random), 2); /* reserved */
	put_le(bytes + 8, sizes.credits, 2);
	put_le(bytes + 10, sizes.granted, 2);
	put_le(bytes + 12, sizes.status, 4);
	put_le(bytes + 16, random_next(&run->random), 4);
	put_le(bytes + 20, sizes.send, 4);
	put_le(bytes + 24, sizes.receive, 4);
	put_le(bytes + 28, sizes.message, 4);
	hostile->send_size = sizes.send;
	hostile->open = true;
	put(run, bytes, sizes.len, NULL);
}

/* ---- Data Transfer messages */

/** One message. What is not set is drawn at random, within what is allowed. */
struct message {
	uint32_t requested, granted, remaining, offset, length;
	size_t len; /* bytes in all; 0: as long as the payload needs */
	const uint8_t *payload;
	const uint32_t *token;
};

static void put_message(struct run *run, const struct message *message)
{
	struct hostile *hostile = run->hostile;
	const size_t len = message->len ? message->len : message->offset + message->length;
	uint8_t bytes[8192 + 64];
	for (size_t i = 0; i < len && i < 64; i++)
		bytes[i] = (uint8_t)random_next(&run->random);
	put_le(bytes, message->requested, 2);
	put_le(bytes + 2, message->granted, 2);
	/* flags that mean nothing, and now and then the one that asks for an answer */
	put_le(bytes + 4,
	       random_next(&run->random) & (random_chance(&run->random, 100) ? 0xFFFF : 0xFFFE), 2);
	put_le(bytes + 8, message->remaining, 4);
	put_le(bytes + 12, message->offset, 4);
	put_le(bytes + 16, message->length, 4);
	if (message->payload)
		memcpy(bytes + message->offset, message->payload, message->length);
	if (hostile->credits)
		hostile->credits--;
	hostile->owed -= message->granted <= hostile->owed ? message->granted : hostile->owed;
	put(run, bytes, len, message->token);
}

/* The last credit goes with a grant. */
static bool may_send(const struct hostile *hostile)
{
	return hostile->credits > 1 || (hostile->credits == 1 && hostile->owed > 0);
}

static struct message good_message(struct run *run)
{
	return (struct message){
		.requested = (uint32_t)random_size(&run->random, 1, 400),
		.granted = run->hostile->owed,
	};
}

static void send_empty(struct run *run)
{
	struct random *random = &run->random;
	struct message message = good_message(run);
	message.len = HEAD + random_range(random, 0, 20);
	message.offset = random_chance(random, 300) && message.len >= 24 ? 24 : 0;
	/* announces what does not follow: not looked at without payload */
	message.remaining = random_chance(random, 200) ? (uint32_t)random_next(random) : 0;
	put_message(run, &message);
}

/* A token of the victim, which goes with any fragment of a message. */
static const uint32_t *good_token(struct run *run, struct note *note)
{
	struct side *victim = victim_of(run);
	const size_t i = random_range(&run->random, 0, TOKENS - 1);
	if (note->has_token || victim->token_used[i] || !random_chance(&run->random, 100))
		return NULL;
	victim->token_used[i] = true;
	note->has_token = true;
	note->token = victim->tokens[i];
	return &note->token;
}

/* Of a message under way, or of a new one. Its offset is any that is allowed. */
static struct message next_fragment(struct run *run)
{
	struct random *random = &run->random;
	struct hostile *hostile = run->hostile;
	struct message message = good_message(run);
	message.offset = 24 + 8 * (uint32_t)random_range(random, 0, 3);
	const uint32_t room = hostile->send_size - message.offset;
	if (hostile->remaining == 0) {
		const uint32_t most = victim_of(run)->config.max_fragmented_size;
		hostile->remaining =
			(uint32_t)random_size(random, 1, most < 20 * room ? most : 20 * room);
		hostile->at = random_range(random, 0, PATTERN_LEN - hostile->remaining);
		struct note *note = calloc(1, sizeof(*note));
		note->at = hostile->at;
		note->len = hostile->remaining;
		DL_APPEND(victim_of(run)->notes, note);
	}
	const uint32_t most = hostile->remaining < room ? hostile->remaining : room;
	message.length = (uint32_t)random_range(random, most / 2 + 1, most);
	message.remaining = hostile->remaining - message.length;
	message.payload = pattern + hostile->at;
	return message;
}

static void send_fragment(struct run *run)
{
	struct hostile *hostile = run->hostile;
	struct message message = next_fragment(run);
	message.token = good_token(run, victim_of(run)->notes->prev);
	hostile->remaining -= message.length;
	hostile->at += message.length;
	put_message(run, &message);
}

static void send_good(struct run *run)
{
	if (random_chance(&run->random, 300))
		send_empty(run);
	else
		send_fragment(run);
}

/* ---- breaches */

static bool needs_sequence(enum breach breach)
{
	return breach >= BREACH_SEQUENCE_ENDLESS && breach <= BREACH_SEQUENCE_RESTART;
}

/* A message with payload that breaks a rule. */
static void send_bad(struct run *run)
{
	struct random *random = &run->random;
	struct hostile *hostile = run->hostile;
	const uint32_t most = victim_of(run)->config.max_fragmented_size;
	uint32_t token;
	struct message message = next_fragment(run);
	const size_t len = message.offset + message.length;
	hostile->broken = true;
	switch (hostile->breach) {
	case BREACH_DATA_SHORT: message.len = random_range(random, 1, HEAD - 1); break;
	case BREACH_DATA_NO_CREDITS: message.requested = 0; break;
	case BREACH_DATA_ALIGNMENT:
		message.len = len;
		message.offset -= (uint32_t)random_range(random, 1, 7);
		break;
	case BREACH_DATA_BEHIND_END: message.len = len - 1; break;
	case BREACH_DATA_WRAPS:
		message.len = len;
		message.length =
			UINT32_MAX - message.offset + 1 + (uint32_t)random_range(random, 0, 20);
		message.payload = NULL;
		break;
	case BREACH_DATA_IN_HEAD:
		message.len = len;
		message.payload = NULL;
		message.offset = 8 * (uint32_t)random_range(random, 0, 2);
		break;
	case BREACH_TOO_LONG:
		message.remaining = most - message.length + (uint32_t)random_size(random, 1, 1000);
		break;
	case BREACH_TOO_LONG_WRAPS: message.remaining = UINT32_MAX; break;
	case BREACH_SEQUENCE_ENDLESS: message.remaining = hostile->remaining; break;
	case BREACH_SEQUENCE_SHORT:
		if (message.remaining == 0)
			message.length--;
		message.remaining = 0;
		break;
	case BREACH_SEQUENCE_OVERLONG:
		message.remaining = hostile->remaining + 1 + (uint32_t)random_range(random, 0, 100);
		break;
	case BREACH_SEQUENCE_RESTART: /* the first one again */
		message.remaining = hostile->remaining * 2 - message.length;
		break;
	case BREACH_CREDIT_FLOOD:
		message.granted = UINT16_MAX;
		put_message(run, &message);
		break;
	case BREACH_TOKEN:
		token = victim_of(run)->tokens[0] + 1;
		message.token = &token;
		break;
	default: break;
	}
	if (message.length == 0) /* there was one byte left: take another breach of the same */
		message.length = 1, message.remaining = 7;
	put_message(run, &message);
	hostile->silent = true;
}

/* It grants nothing any more and goes on without credits: the other one cannot grant either when
 * it has used its own. */
static void send_burst(struct run *run)
{
	struct message message = { .requested = 400, .len = HEAD };
	run->hostile->broken = true;
	for (int i = 0; i < BURST; i++)
		put_message(run, &message);
}

static void send_flood(struct run *run)
{
	struct hostile *hostile = run->hostile;
	if (!hostile->broken) {
		hostile->broken = true;
		hostile->flood = 300;
		hostile->empties_before = victim_of(run)->empties;
	}
	while (hostile->flood > 0 && may_send(hostile)) {
		struct message message = { .requested = 400,
					   .granted = hostile->owed,
					   .len = HEAD };
		hostile->flood--;
		hostile->flooded++;
		put_message(run, &message);
	}
	if (hostile->flood > 0)
		return;
	const uint64_t answers = victim_of(run)->empties - hostile->empties_before;
	if (answers > hostile->flooded / 2 + 8)
		fail(run, "%" PRIu64 " empty messages were answered by %" PRIu64 " such",
		     hostile->flooded, answers);
	hostile->silent = true;
	wire_cut(run, !run->hostile_index, true);
}

static void go_silent(struct run *run)
{
	struct hostile *hostile = run->hostile;
	hostile->broken = true;
	hostile->silent = true;
	if (hostile->breach == BREACH_GONE)
		wire_cut(run, !run->hostile_index, random_chance(&run->random, 500));
}

static void do_breach(struct run *run)
{
	struct hostile *hostile = run->hostile;
	switch (hostile->breach) {
	case BREACH_CREDIT_OVERRUN: send_burst(run); break;
	case BREACH_EMPTY_FLOOD: send_flood(run); break;
	case BREACH_SILENCE:
	case BREACH_GONE: go_silent(run); break;
	default:
		if (hostile->credits < 3) { /* it needs two */
			if (may_send(hostile))
				send_empty(run);
			return;
		}
		if (needs_sequence(hostile->breach) && hostile->remaining == 0)
			send_fragment(run);
		else
			send_bad(run);
		break;
	}
}

void hostile_act(struct run *run)
{
	struct hostile *hostile = run->hostile;
	hostile->act_at = NEVER;
	if (hostile->silent || victim_of(run)->ended)
		return;
	hostile->act_at = run->now + random_size(&run->random, 1, GAP_MOST);
	if (!hostile->open) {
		hostile->act_at = NEVER;
		if (hostile->breach == BREACH_NEGOTIATE_SILENT) {
			hostile->broken = true;
			return;
		}
		if (run->hostile_index == 0)
			send_request(run);
		if (hostile->breach == BREACH_NEGOTIATE_EARLY) {
			send_request(run);
			hostile->broken = true;
		}
		return;
	}
	if (hostile->good == 0) {
		do_breach(run);
		return;
	}
	if (!may_send(hostile))
		return;
	hostile->good--;
	send_good(run);
}

/* ---- what comes */

void hostile_take(struct run *run, const struct parcel *parcel)
{
	struct hostile *hostile = run->hostile;
	if (hostile->silent)
		return;
	if (!hostile->open) {
		if (hostile->breach == BREACH_NEGOTIATE_SILENT) {
			hostile->broken = true;
			return;
		}
		if (run->hostile_index == 1)
			send_response(run, parcel->bytes);
		else
			hostile->credits = get_le(parcel->bytes + 10, 2);
		hostile->open = !hostile->broken;
		const uint32_t room = victim_of(run)->config.max_receive_size;
		hostile->send_size = hostile->send_size < room ? hostile->send_size : room;
		if (hostile->send_size < 128)
			hostile->send_size = 128;
		hostile->owed = run->hostile_index == 0 ? 10 : 0;
		hostile->act_at = run->now + 1;
		return;
	}
	hostile->credits += get_le(parcel->bytes + 2, 2);
	if (hostile->breach != BREACH_CREDIT_OVERRUN || !hostile->broken)
		hostile->owed++;
}

void hostile_begin(struct run *run)
{
	struct hostile *hostile = run->hostile;
	const uint64_t at = victim_of(run)->connected_at;
	if (run->hostile_index == 0 || hostile->breach == BREACH_NEGOTIATE_EARLY)
		hostile->act_at = at + random_range(&run->random, 0, 1000);
	if (hostile->breach == BREACH_NEGOTIATE_EARLY) /* the other one is connected much later */
		victim_of(run)->connected_at = at + 2000000;
}

enum smbd_end hostile_end(const struct run *run)
{
	static const enum smbd_end ends[BREACHES] = {
		[BREACH_NEGOTIATE_SHORT] = SMBD_END_BAD_NEGOTIATE,
		[BREACH_NEGOTIATE_NO_CREDITS] = SMBD_END_BAD_NEGOTIATE,
		[BREACH_NEGOTIATE_RECEIVE_SIZE] = SMBD_END_BAD_NEGOTIATE,
		[BREACH_NEGOTIATE_MESSAGE_SIZE] = SMBD_END_BAD_NEGOTIATE,
		[BREACH_NEGOTIATE_VERSION] = SMBD_END_VERSION,
		[BREACH_NEGOTIATE_SILENT] = SMBD_END_NO_NEGOTIATION,
		[BREACH_NEGOTIATE_EARLY] = SMBD_END_BAD_NEGOTIATE,
		[BREACH_NEGOTIATE_STATUS] = SMBD_END_REFUSED,
		[BREACH_NEGOTIATE_NO_GRANT] = SMBD_END_BAD_NEGOTIATE,
		[BREACH_NEGOTIATE_SEND_SIZE] = SMBD_END_BAD_NEGOTIATE,
		[BREACH_DATA_SHORT] = SMBD_END_BAD_DATA,
		[BREACH_DATA_NO_CREDITS] = SMBD_END_BAD_DATA,
		[BREACH_DATA_ALIGNMENT] = SMBD_END_BAD_DATA,
		[BREACH_DATA_BEHIND_END] = SMBD_END_BAD_DATA,
		[BREACH_DATA_WRAPS] = SMBD_END_BAD_DATA,
		[BREACH_DATA_IN_HEAD] = SMBD_END_BAD_DATA,
		[BREACH_TOO_LONG] = SMBD_END_TOO_LONG,
		[BREACH_TOO_LONG_WRAPS] = SMBD_END_TOO_LONG,
		[BREACH_SEQUENCE_ENDLESS] = SMBD_END_BAD_SEQUENCE,
		[BREACH_SEQUENCE_SHORT] = SMBD_END_BAD_SEQUENCE,
		[BREACH_SEQUENCE_OVERLONG] = SMBD_END_BAD_SEQUENCE,
		[BREACH_SEQUENCE_RESTART] = SMBD_END_BAD_SEQUENCE,
		[BREACH_CREDIT_FLOOD] = SMBD_END_CREDITS,
		[BREACH_CREDIT_OVERRUN] = SMBD_END_CREDITS,
		[BREACH_TOKEN] = SMBD_END_TOKEN,
		[BREACH_SILENCE] = SMBD_END_SILENT,
		[BREACH_EMPTY_FLOOD] = SMBD_END_LOST,
		[BREACH_GONE] = SMBD_END_LOST,
	};
	return ends[run->hostile->breach];
}

const char *breach_name(enum breach breach)
{
	static const char *const names[BREACHES] = {
		[BREACH_NEGOTIATE_SHORT] = "a short Negotiate message",
		[BREACH_NEGOTIATE_NO_CREDITS] = "a Negotiate message that asks for no credits",
		[BREACH_NEGOTIATE_RECEIVE_SIZE] = "a receive size below 128",
		[BREACH_NEGOTIATE_MESSAGE_SIZE] = "a message size below 131072",
		[BREACH_NEGOTIATE_VERSION] = "another version",
		[BREACH_NEGOTIATE_SILENT] = "no Negotiate message",
		[BREACH_NEGOTIATE_EARLY] = "too many messages before it is connected",
		[BREACH_NEGOTIATE_STATUS] = "a Response that refuses",
		[BREACH_NEGOTIATE_NO_GRANT] = "a Response that grants nothing",
		[BREACH_NEGOTIATE_SEND_SIZE] = "a send size beyond the receives",
		[BREACH_DATA_SHORT] = "a short message",
		[BREACH_DATA_NO_CREDITS] = "a message that asks for no credits",
		[BREACH_DATA_ALIGNMENT] = "payload on an odd offset",
		[BREACH_DATA_BEHIND_END] = "payload beyond the message",
		[BREACH_DATA_WRAPS] = "a length that wraps",
		[BREACH_DATA_IN_HEAD] = "payload within the head",
		[BREACH_TOO_LONG] = "a message that is too long",
		[BREACH_TOO_LONG_WRAPS] = "a message whose length wraps",
		[BREACH_SEQUENCE_ENDLESS] = "fragments without an end",
		[BREACH_SEQUENCE_SHORT] = "a message that ends early",
		[BREACH_SEQUENCE_OVERLONG] = "a message that grows",
		[BREACH_SEQUENCE_RESTART] = "a message that begins again",
		[BREACH_CREDIT_FLOOD] = "too many credits",
		[BREACH_CREDIT_OVERRUN] = "messages without credits",
		[BREACH_TOKEN] = "a foreign token",
		[BREACH_SILENCE] = "silence",
		[BREACH_EMPTY_FLOOD] = "a flood of empty messages",
		[BREACH_GONE] = "to be gone within a message",
	};
	return breach ? names[breach] : "nothing";
}

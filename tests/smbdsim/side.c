/* SPDX-License-Identifier: MIT */
/*
 * A connection with its owner, which has receives and a send queue with little room, and with its
 * user, which sends messages, holds, closes, and answers from within callbacks.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "tests/smbdsim/run.h"

static struct side *peer_of(struct side *side)
{
	return &side->run->sides[!side->index];
}

bool side_is_up(const struct side *side)
{
	return side->smbd && side->established && !side->ended;
}

/* ---- the user's messages */

/* A token of the peer, with which the message is to be sent. */
static bool pick_token(struct side *side, uint32_t *ret_token)
{
	struct side *peer = peer_of(side);
	const size_t i = random_range(&side->run->random, 0, TOKENS - 1);
	if (!peer->smbd || !peer->tokens[i] || peer->token_used[i])
		return false;
	peer->token_used[i] = true;
	*ret_token = peer->tokens[i];
	return true;
}

static void send_message(struct side *side)
{
	struct run *run = side->run;
	struct smbd_view view;
	smbd_get_view(side->smbd, &view);
	size_t len = random_size(&run->random, 1, view.max_fragmented_send_size);
	if (random_chance(&run->random, 20))
		len = view.max_fragmented_send_size;
	if (len > PATTERN_LEN)
		len = PATTERN_LEN;
	struct note *note = calloc(1, sizeof(*note));
	note->len = len;
	note->at = random_range(&run->random, 0, PATTERN_LEN - len);
	note->has_token = random_chance(&run->random, 200) && pick_token(side, &note->token);
	uint8_t *data = malloc(len);
	memcpy(data, pattern + note->at, len);
	/* it may arrive inside the call */
	DL_APPEND(peer_of(side)->notes, note);
	int error =
		smbd_send(side->smbd, data, len, note->has_token ? &note->token : NULL, run->now);
	say(run, "%u sends a message of %zu bytes: %d", side->index, len, error);
	if (error) {
		fail(run, "smbd_send() of %zu bytes has returned %d", len, error);
		free(data);
	}
}

static void hold(struct side *side, bool held)
{
	if (side->held == held)
		return;
	say(side->run, "%u %s", side->index, held ? "holds" : "goes on");
	side->held = held;
	smbd_hold(side->smbd, held, side->run->now);
}

static void hold_for_a_while(struct side *side)
{
	const uint64_t until =
		side->run->now + random_range(&side->run->random, 0, side->hold_most);
	hold(side, true);
	if (side->act_at > until)
		side->act_at = until;
}

static void answer(struct side *side)
{
	struct run *run = side->run;
	if (run->finishing || side->ended)
		return;
	if (side->answers > 0 && random_chance(&run->random, 300)) {
		side->answers--;
		send_message(side);
	}
	if (side->actions > 0 && side->hold_most && random_chance(&run->random, 50))
		hold_for_a_while(side);
	if (random_chance(&run->random, side->closes))
		smbd_close(side->smbd);
}

/* ---- operations */

static uint32_t op_post_receives(void *ctx, uint32_t n, uint32_t size)
{
	struct side *side = ctx;
	struct run *run = side->run;
	if (n == 0 || side->ended)
		fail(run, "%u posts %u receives%s", side->index, n,
		     side->ended ? " after its end" : "");
	if (!side->smbd) { /* of smbd_new() */
		side->small_posted = true;
		return 1;
	}
	if (side->held)
		fail(run, "%u posts receives while it holds", side->index);
	if (random_chance(&run->random, side->post_failures))
		n = random_range(&run->random, 0, n - 1);
	if (side->posted_size && side->posted_size != size)
		fail(run, "%u changes the size of receives", side->index);
	side->posted_size = size;
	side->posted += n;
	return n;
}

static int op_send(void *ctx, const uint8_t *head, size_t head_len, const uint8_t *payload,
		   size_t len, const uint32_t *token)
{
	struct side *side = ctx;
	struct run *run = side->run;
	if (side->ended)
		fail(run, "%u sends after its end", side->index);
	if (side->sends_out == side->send_room ||
	    (side->established && random_chance(&run->random, side->no_room))) {
		if (!side->blocked && !side->acks_at)
			side->acks_at = run->now + random_size(&run->random, 1, run->delay_most);
		side->blocked = true;
		return -EAGAIN;
	}
	side->asked = false;
	side->sends++;
	side->sends_out++;
	side->fragments += len > 0;
	side->empties += len == 0;
	wire_put(run, !side->index, head, head_len, payload, len, token);
	return 0;
}

static bool op_has_token(void *ctx, uint32_t token)
{
	const struct side *side = ctx;
	for (size_t i = 0; i < TOKENS; i++) {
		if (token && side->tokens[i] == token)
			return true;
	}
	return false;
}

static void op_established(void *ctx)
{
	struct side *side = ctx;
	struct run *run = side->run;
	say(run, "%u is established", side->index);
	if (side->established++ || side->ended)
		fail(run, "%u is established twice, or after its end", side->index);
	if (side->speaks_at_once)
		send_message(side);
	side->act_at = run->now + random_size(&run->random, 1, side->gap_most);
}

/* The token of a message is memory that is given back, and that others are registered for. */
static void drop_token(struct side *side, uint32_t token)
{
	for (size_t i = 0; i < TOKENS; i++) {
		if (side->tokens[i] != token)
			continue;
		side->tokens[i] = (uint32_t)random_range(&side->run->random, 1, UINT32_MAX);
		side->token_used[i] = false;
	}
}

static void op_message(void *ctx, const uint8_t *data, size_t len, const uint32_t *token)
{
	struct side *side = ctx;
	struct run *run = side->run;
	struct note *note = side->notes;
	say(run, "%u gets a message of %zu bytes", side->index, len);
	if (side->ended)
		fail(run, "%u gets a message after its end", side->index);
	if (!note || note->len != len || memcmp(data, pattern + note->at, len) != 0) {
		fail(run, "%u gets a message of %zu bytes that is not the next one", side->index,
		     len);
		return;
	}
	if (note->has_token != (token != NULL) || (token && *token != note->token))
		fail(run, "%u gets a message without its token, or with another one", side->index);
	if (token)
		drop_token(side, *token);
	DL_DELETE(side->notes, note);
	free(note);
	answer(side);
}

static void op_ended(void *ctx, enum smbd_end end, bool send_first)
{
	struct side *side = ctx;
	struct run *run = side->run;
	say(run, "%u ends: %s", side->index, smbd_end_text(end));
	if (side->ended++)
		fail(run, "%u ends twice", side->index);
	side->end = end;
	side->end_behind_sends = send_first;
	side->ended_at = run->now;
	wire_cut(run, !side->index, send_first);
}

static const struct smbd_ops ops = {
	.post_receives = op_post_receives,
	.send = op_send,
	.has_token = op_has_token,
	.established = op_established,
	.message = op_message,
	.ended = op_ended,
};

/* ---- what happens */

void side_begin(struct side *side)
{
	struct smbd *smbd = NULL;
	const enum smbd_role role = side->index ? SMBD_PASSIVE : SMBD_ACTIVE;
	if (smbd_new(&side->config, role, &ops, side, side->run->now, &smbd) < 0)
		fail(side->run, "%u cannot be made", side->index);
	side->smbd = smbd;
}

void side_free(struct side *side)
{
	struct note *note, *next;
	smbd_free(side->smbd);
	DL_FOREACH_SAFE (side->notes, note, next)
		free(note);
}

void side_take(struct side *side, const struct parcel *parcel)
{
	struct run *run = side->run;
	const size_t room = side->small_posted ? SMBD_NEGOTIATE_SIZE
			    : side->posted     ? side->posted_size
					       : 0;
	side->heard_at = run->now;
	if (room < parcel->len) {
		/* The queue pair fails. */
		if (!run->hostile)
			fail(run, "a message of %zu bytes for %u meets a receive of %zu",
			     parcel->len, side->index, room);
		smbd_lost(side->smbd, run->now);
		return;
	}
	if (side->small_posted)
		side->small_posted = false;
	else
		side->posted--;
	side->asked |= parcel->asks;
	smbd_received(side->smbd, parcel->bytes, parcel->len,
		      parcel->has_token ? &parcel->token : NULL, run->now);
}

void side_acked(struct side *side)
{
	side->acks++;
	if (!side->acks_at)
		side->acks_at = side->run->now + random_range(&side->run->random, 0, 20);
}

static void tell_room(struct side *side)
{
	side->acks_at = 0;
	side->sends_out -= side->acks;
	side->acks = 0;
	if (!side->blocked && !random_chance(&side->run->random, 300))
		return;
	side->blocked = false;
	smbd_sent(side->smbd, side->run->now);
}

static void act(struct side *side)
{
	struct run *run = side->run;
	side->actions--;
	side->act_at = NEVER;
	if (side->actions > 0)
		side->act_at = run->now + random_size(&run->random, 1, side->gap_most);
	if (side->held)
		hold(side, false);
	else if (side->actions > 0 && side->hold_most && random_chance(&run->random, 200))
		hold_for_a_while(side);
	else if (random_chance(&run->random, side->closes))
		smbd_close(side->smbd);
	else
		send_message(side);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t side_due(const struct side *side)
{
	if (!side->smbd || side->ended)
		return NEVER;
	uint64_t due = smbd_deadline(side->smbd);
	if (!side->connected)
		due = earlier(due, side->connected_at);
	if (side->acks_at)
		due = earlier(due, side->acks_at);
	if (side->established)
		due = earlier(due, side->act_at);
	return due;
}

void side_step(struct side *side)
{
	struct run *run = side->run;
	if (!side->connected && side->connected_at <= run->now) {
		side->connected = true;
		smbd_connected(side->smbd, run->now);
	} else if (side->acks_at && side->acks_at <= run->now) {
		tell_room(side);
	} else if (side->established && side->act_at <= run->now) {
		act(side);
	} else {
		uint64_t next = smbd_timer(side->smbd, run->now);
		if (next <= run->now)
			fail(run, "%u: the timer stands still", side->index);
	}
}

bool side_is_done(const struct side *side)
{
	return !side->smbd || side->ended || (side->established && side->actions == 0);
}

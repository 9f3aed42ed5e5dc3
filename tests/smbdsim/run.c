/* SPDX-License-Identifier: MIT */
/* The clock, the channel, and what has to hold at any time. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "proto/smbdirect/smbdirect.h"
#include "tests/smbdsim/run.h"

#define STEPS_MOST 3000000

uint8_t pattern[PATTERN_LEN];

void fail(struct run *run, const char *format, ...)
{
	va_list args;
	if (run->failed)
		return;
	run->failed = true;
	va_start(args, format);
	vsnprintf(run->why, sizeof(run->why), format, args);
	va_end(args);
	say(run, "FAILED: %s", run->why);
}

void say(struct run *run, const char *format, ...)
{
	va_list args;
	if (!run->verbose)
		return;
	printf("# %10" PRIu64 " ", run->now);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
}

/* ---- the channel */

/* What a Data Transfer message of a side that obeys may look like. */
static void check_sent(struct run *run, const struct side *from, struct parcel *parcel)
{
	struct smbdirect_data data;
	struct smbd_view view;
	if (smbdirect_decode_data(parcel->bytes, parcel->len, &data) < 0) {
		fail(run, "%u sends what cannot be decoded", from->index);
		return;
	}
	smbd_get_view(from->smbd, &view);
	if (parcel->len > view.max_send_size)
		fail(run, "%u sends %zu bytes, and may send %u", from->index, parcel->len,
		     view.max_send_size);
	if (view.send_credits == 0)
		fail(run, "%u sends without a credit", from->index);
	if (view.send_credits == 1 && data.credits_granted == 0)
		fail(run, "%u sends its last credit without a grant", from->index);
	if (data.credits_granted > 255 || data.credits_requested != from->config.send_credit_target)
		fail(run, "%u grants %u and asks for %u", from->index, data.credits_granted,
		     data.credits_requested);
	parcel->data = true;
	parcel->granted = data.credits_granted;
	parcel->asks = data.response_requested;
	say(run, "%u sends %u of %u bytes, grants %u%s", from->index, data.length,
	    data.length + data.remaining, data.credits_granted,
	    data.response_requested ? ", asks" : "");
}

void wire_put(struct run *run, unsigned int to, const uint8_t *head, size_t head_len,
	      const uint8_t *payload, size_t len, const uint32_t *token)
{
	struct wire *wire = &run->wires[to];
	const struct side *from = &run->sides[!to];
	struct parcel *parcel = calloc(1, sizeof(*parcel));
	parcel->len = head_len + len;
	parcel->bytes = malloc(parcel->len ? parcel->len : 1); /* no byte more: ASan sees */
	memcpy(parcel->bytes, head, head_len);
	if (len)
		memcpy(parcel->bytes + head_len, payload, len);
	parcel->has_token = token;
	parcel->token = token ? *token : 0;
	parcel->due = run->now + random_size(&run->random, 0, run->delay_most);
	if (parcel->due < wire->last_due)
		parcel->due = wire->last_due;
	wire->last_due = parcel->due;
	if (from->smbd && from->established)
		check_sent(run, from, parcel);
	wire->flying_data += parcel->data;
	wire->flying_grants += parcel->granted;
	DL_APPEND(wire->parcels, parcel);
}

void wire_cut(struct run *run, unsigned int to, bool behind_sends)
{
	struct wire *wire = &run->wires[to];
	if (wire->lost_at != NEVER)
		return;
	wire->lost_at = run->now + random_size(&run->random, 0, run->delay_most);
	if (behind_sends && wire->lost_at <= wire->last_due)
		wire->lost_at = wire->last_due + 1;
}

static void drop(struct wire *wire, struct parcel *parcel)
{
	wire->flying_data -= parcel->data;
	wire->flying_grants -= parcel->granted;
	DL_DELETE(wire->parcels, parcel);
	free(parcel->bytes);
	free(parcel);
}

static void deliver(struct run *run, unsigned int to)
{
	struct wire *wire = &run->wires[to];
	struct parcel *parcel = wire->parcels;
	struct side *side = &run->sides[to], *from = &run->sides[!to];
	/* What it grants is in the counters of the one that gets it, from now on. */
	wire->flying_data -= parcel->data;
	wire->flying_grants -= parcel->granted;
	parcel->data = false;
	parcel->granted = 0;
	if (side->smbd && !side->ended)
		side_take(side, parcel);
	else if (!side->smbd)
		hostile_take(run, parcel);
	if (from->smbd)
		side_acked(from);
	drop(wire, parcel);
}

/* ---- what has to hold */

/* SMBD-23: no credit is made or lost, wherever it is. */
static void check_credits(struct run *run, unsigned int to)
{
	const struct side *side = &run->sides[to], *from = &run->sides[!to];
	struct smbd_view view, from_view;
	smbd_get_view(side->smbd, &view);
	smbd_get_view(from->smbd, &from_view);
	const uint64_t sum = from_view.send_credits + run->wires[to].flying_data +
			     view.pending_grant + run->wires[!to].flying_grants;
	if (sum != view.receive_credits)
		fail(run, "%u has %u receives, and there are %" PRIu64 " credits for them", to,
		     view.receive_credits, sum);
}

/* Between calls nothing waits that could be sent, and no flag of the peer is unanswered (SMBD-139).
 */
static void check_prompt(struct run *run, const struct side *side, const struct smbd_view *view)
{
	if (side->blocked || view->send_credits < 2)
		return;
	if (view->queued_bytes > 0)
		fail(run, "%u has %u credits, and does not send", side->index, view->send_credits);
	if (side->asked)
		fail(run, "%u does not answer", side->index);
}

static void check_side(struct run *run, const struct side *side)
{
	struct smbd_view view;
	if (!side_is_up(side))
		return;
	smbd_get_view(side->smbd, &view);
	check_prompt(run, side, &view);
	if (view.receive_credits != side->posted)
		fail(run, "%u counts %u receives and has posted %u", side->index,
		     view.receive_credits, side->posted);
	if (view.pending_grant > view.receive_credits)
		fail(run, "%u has %u credits to grant, and %u receives", side->index,
		     view.pending_grant, view.receive_credits);
	if (view.receive_credits > side->config.receive_credit_max)
		fail(run, "%u has posted %u receives, and may %u", side->index,
		     view.receive_credits, side->config.receive_credit_max);
}

static bool both_are_up(const struct run *run)
{
	return side_is_up(&run->sides[0]) && side_is_up(&run->sides[1]);
}

static void check(struct run *run)
{
	for (unsigned int i = 0; i < 2; i++)
		check_side(run, &run->sides[i]);
	for (unsigned int i = 0; i < 2 && both_are_up(run); i++)
		check_credits(run, i);
}

/* Everything has arrived; nothing waits for a credit. */
static void check_arrived(struct run *run)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct smbd_view view;
		smbd_get_view(run->sides[i].smbd, &view);
		if (view.queued_bytes > 0 || run->sides[!i].notes)
			fail(run, "%u waits for ever with %" PRIu64 " bytes", i, view.queued_bytes);
	}
}

/* ---- the end of a run */

/* Does nothing move any more but timers? */
static bool is_quiet(const struct run *run)
{
	if (run->hostile || run->wires[0].parcels || run->wires[1].parcels || !both_are_up(run))
		return false;
	for (unsigned int i = 0; i < 2; i++) {
		const struct side *side = &run->sides[i];
		if (!side_is_done(side) || side->acks_at || side->blocked)
			return false;
	}
	return true;
}

static uint64_t sends_of_both(const struct run *run)
{
	return run->sides[0].sends + run->sides[1].sends;
}

static uint64_t patience(const struct run *run)
{
	const uint64_t a = run->sides[0].config.keepalive_us, b = run->sides[1].config.keepalive_us;
	return 3 * (a > b ? a : b);
}

/* Both have been quiet for three times their patience: they have asked each other a few times, and
 * nothing more (SMBD-173). */
static void check_silence(struct run *run)
{
	uint64_t most = 2;
	for (unsigned int i = 0; i < 2; i++)
		most += 3 * (patience(run) / run->sides[i].config.keepalive_us + 1);
	if (!run->may_lack && sends_of_both(run) - run->quiet_sends > most)
		fail(run, "%" PRIu64 " messages while nobody had anything to say",
		     sends_of_both(run) - run->quiet_sends);
}

/* Where receives cannot always be posted it goes on with each keepalive. */
static bool has_gone_on(struct run *run)
{
	const uint64_t sends = sends_of_both(run);
	if (!run->may_lack || (!run->sides[0].notes && !run->sides[1].notes) ||
	    sends == run->quiet_sends)
		return false;
	run->quiet_at = run->now;
	run->quiet_sends = sends;
	return true;
}

static void be_quiet(struct run *run)
{
	if (!run->finishing) {
		say(run, "all is quiet");
		run->finishing = true;
		run->quiet_at = run->now;
		run->quiet_sends = sends_of_both(run);
		if (!run->may_lack) /* else receives are tried again with the next keepalive */
			check_arrived(run);
	} else if (run->now >= run->quiet_at + patience(run)) {
		if (has_gone_on(run))
			return;
		check_arrived(run);
		check_silence(run);
		smbd_close(run->sides[random_range(&run->random, 0, 1)].smbd);
	}
}

/* May a side of two that obey end like this? */
static bool may_end(const struct run *run, const struct side *side)
{
	const struct side *peer = &run->sides[!side->index];
	switch (side->end) {
	case SMBD_END_CLOSED: return true;
	case SMBD_END_LOST: return run->wires[side->index].lost_at <= side->ended_at;
	case SMBD_END_RESOURCES: return run->may_lack && !side->established;
	case SMBD_END_REFUSED: return side->index == 0 && peer->end == SMBD_END_RESOURCES;
	case SMBD_END_SILENT: return run->may_be_silent;
	default: return false;
	}
}

/* A breach ends the connection at once; silence does when patience is over. */
static void check_breach(struct run *run, const struct side *victim)
{
	const struct hostile *hostile = run->hostile;
	const struct smbd_config *config = &victim->config;
	const uint64_t silence = victim->ended_at - victim->heard_at;
	if (!hostile->broken)
		fail(run, "it has ended before anything was broken: %s",
		     smbd_end_text(victim->end));
	/* The queue pair fails if no receive is left. */
	const bool may_fail = hostile->breach == BREACH_CREDIT_OVERRUN ||
			      hostile->breach == BREACH_NEGOTIATE_EARLY;
	if (victim->end != hostile_end(run) && !(may_fail && victim->end == SMBD_END_LOST))
		fail(run, "after %s: %s", breach_name(hostile->breach), smbd_end_text(victim->end));
	if (victim->end == SMBD_END_SILENT &&
	    (silence < config->keepalive_us + config->answer_us ||
	     silence > config->keepalive_us + 2 * config->answer_us))
		fail(run, "it was patient for %" PRIu64 " us", silence);
	if (victim->end == SMBD_END_VERSION && victim->end_behind_sends != (victim->index == 1))
		fail(run, "a refusal is not sent, or nothing is and it waits");
}

static void check_ends(struct run *run)
{
	for (unsigned int i = 0; i < 2; i++) {
		const struct side *side = &run->sides[i];
		if (!side->smbd)
			continue;
		if (side->ended != 1)
			fail(run, "%u has ended %u times", i, side->ended);
		else if (run->hostile)
			check_breach(run, side);
		else if (!may_end(run, side))
			fail(run, "%u has ended: %s", i, smbd_end_text(side->end));
	}
}

/* ---- the clock */

static uint64_t wire_due(const struct wire *wire)
{
	const uint64_t due = wire->parcels ? wire->parcels->due : NEVER;
	return due < wire->lost_at ? due : wire->lost_at;
}

static uint64_t next_due(const struct run *run)
{
	uint64_t due = run->link_fails_at;
	for (unsigned int i = 0; i < 2; i++) {
		const uint64_t side = side_due(&run->sides[i]);
		due = side < due ? side : due;
		if (!run->sides[i].ended && wire_due(&run->wires[i]) < due)
			due = wire_due(&run->wires[i]);
	}
	if (run->hostile && run->hostile->act_at < due)
		due = run->hostile->act_at;
	if (run->finishing && run->quiet_at + patience(run) > run->now &&
	    run->quiet_at + patience(run) < due)
		due = run->quiet_at + patience(run);
	return due;
}

static bool step_wire(struct run *run, unsigned int to)
{
	struct wire *wire = &run->wires[to];
	if (run->sides[to].ended || wire_due(wire) > run->now)
		return false;
	if (wire->parcels && wire->parcels->due <= run->now && wire->parcels->due <= wire->lost_at)
		deliver(run, to);
	else if (run->sides[to].smbd)
		smbd_lost(run->sides[to].smbd, run->now);
	else
		run->sides[to].ended = 1; /* the hostile one hears it */
	return true;
}

static void step(struct run *run)
{
	const unsigned int first = (unsigned int)random_range(&run->random, 0, 1);
	if (run->link_fails_at <= run->now) {
		run->link_fails_at = NEVER;
		wire_cut(run, 0, false);
		wire_cut(run, 1, false);
		return;
	}
	if (step_wire(run, first) || step_wire(run, !first))
		return;
	if (run->hostile && run->hostile->act_at <= run->now) {
		hostile_act(run);
		return;
	}
	for (unsigned int i = 0; i < 2; i++) {
		struct side *side = &run->sides[first ^ i];
		if (side_due(side) <= run->now) {
			side_step(side);
			return;
		}
	}
}

static bool is_over(const struct run *run)
{
	for (unsigned int i = 0; i < 2; i++) {
		if (run->sides[i].smbd && !run->sides[i].ended)
			return false;
	}
	return true;
}

static void go(struct run *run)
{
	while (!run->failed && !is_over(run)) {
		if (is_quiet(run))
			be_quiet(run);
		if (run->failed || is_over(run))
			break;
		const uint64_t due = next_due(run);
		if (due == NEVER || run->steps++ == STEPS_MOST) {
			fail(run, "it does not end");
			break;
		}
		if (due > run->now)
			run->now = due;
		step(run);
		check(run);
	}
	if (!run->failed)
		check_ends(run);
}

bool run_seed(uint64_t seed, bool verbose, char *why, size_t why_len)
{
	struct run *run = calloc(1, sizeof(*run));
	struct hostile hostile = { 0 };
	run->seed = seed;
	run->verbose = verbose;
	run->random.state = seed;
	run->hostile = random_chance(&run->random, 400) ? &hostile : NULL;
	plan_run(run);
	if (run->hostile)
		say(run, "%u will do: %s", run->hostile_index, breach_name(hostile.breach));
	for (unsigned int i = 0; i < 2; i++) {
		if (!run->hostile || i != run->hostile_index)
			side_begin(&run->sides[i]);
	}
	if (run->hostile)
		hostile_begin(run);
	go(run);
	for (unsigned int i = 0; i < 2; i++) {
		side_free(&run->sides[i]);
		while (run->wires[i].parcels)
			drop(&run->wires[i], run->wires[i].parcels);
	}
	const bool ok = !run->failed;
	snprintf(why, why_len, "%s", run->why);
	free(run);
	return ok;
}

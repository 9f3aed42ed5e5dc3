/* SPDX-License-Identifier: MIT */
/*
 * Data Transfer messages of the peer (MS-SMBD 3.1.5.8): credits, and upper messages from their
 * fragments. Each receive is free again when this returns, whether its upper message is whole or
 * not, so that a message may have more fragments than there are receives (SMBD-175).
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/smbdirect/internal.h"

/* ---- putting together */

/* Does a fragment go on where the one before has ended? (SMBD-125, SMBD-126) */
static bool fits_sequence(const struct smbd *smbd, const struct smbdirect_data *data)
{
	if (!smbd->in_sequence)
		return true;
	return data->length <= smbd->remaining && smbd->remaining - data->length == data->remaining;
}

/* Room that stays for the next message. */
#define KEPT_ROOM (256u * 1024)

static bool reserve(struct smbd *smbd, size_t len)
{
	return !smbd->ops->reserve || smbd->ops->reserve(smbd->ctx, len);
}

/* Make room for the whole upper message at its first fragment: its length is known then, and was
 * checked (SMBD-113, SMBD-127). */
static bool make_room(struct smbd *smbd, size_t len)
{
	if (len <= smbd->reassembly_room)
		return true;
	if (!reserve(smbd, len))
		return false;
	uint8_t *larger = realloc(smbd->reassembly, len);
	if (!larger)
		return false;
	smbd->reassembly = larger;
	smbd->reassembly_room = len;
	return true;
}

/* Whole, in order, once: receives come in their order, and each is looked at once (SMBD-132). */
static void deliver(struct smbd *smbd, const uint8_t *data, size_t len)
{
	const uint32_t token = smbd->invalidated_token;
	const bool invalidated = smbd->invalidated;
	smbd->invalidated = false;
	smbd->in_sequence = false;
	smbd->remaining = 0;
	smbd->reassembled = 0;
	smbd->count.messages_received++;
	smbd->ops->message(smbd->ctx, data, len, invalidated ? &token : NULL); /* SMBD-130 */
}

static void deliver_reassembled(struct smbd *smbd)
{
	deliver(smbd, smbd->reassembly, smbd->reassembled);
	if (smbd->reassembly_room <= KEPT_ROOM)
		return;
	free(smbd->reassembly);
	smbd->reassembly = NULL;
	smbd->reassembly_room = 0;
	reserve(smbd, 0);
}

static void take_fragment(struct smbd *smbd, const struct smbdirect_data *data,
			  const uint8_t *payload)
{
	if (!fits_sequence(smbd, data)) {
		smbd_end_with(smbd, SMBD_END_BAD_SEQUENCE);
		return;
	}
	smbd->count.fragments_received++;
	smbd->count.bytes_received += data->length;
	if (!smbd->in_sequence && data->remaining == 0) {
		deliver(smbd, payload, data->length); /* whole, and need not be copied */
		return;
	}
	if (!smbd->in_sequence && !make_room(smbd, (size_t)data->length + data->remaining)) {
		smbd_end_with(smbd, SMBD_END_RESOURCES);
		return;
	}
	memcpy(smbd->reassembly + smbd->reassembled, payload, data->length); /* SMBD-123 */
	smbd->reassembled += data->length;
	smbd->in_sequence = true;
	smbd->remaining = data->remaining; /* SMBD-124 */
	if (data->remaining == 0)
		deliver_reassembled(smbd);
}

/* ---- one message */

/* A message that this host's RNIC has let invalidate a token (SMBD-129, SMBD-131). */
static bool take_token(struct smbd *smbd, const uint32_t *token)
{
	if (!token)
		return true;
	if (!smbd->ops->has_token(smbd->ctx, *token)) {
		smbd_end_with(smbd, SMBD_END_TOKEN);
		return false;
	}
	smbd->invalidated = true;
	smbd->invalidated_token = *token;
	return true;
}

/* Checks beyond those of the decoder (SMBD-110, SMBD-113). A message without payload drives credits
 * and keepalive only, whatever its other fields say (SMBD-115). */
static enum smbd_end check(const struct smbd *smbd, const struct smbdirect_data *data)
{
	if (data->credits_requested == 0)
		return SMBD_END_BAD_DATA;
	if (data->length > 0 &&
	    (uint64_t)data->length + data->remaining > smbd->config.max_fragmented_size)
		return SMBD_END_TOO_LONG;
	/* More than any sender can count (SMBD-24). */
	if ((uint64_t)smbd->send_credits + data->credits_granted > SMBD_MAX_CREDITS)
		return SMBD_END_CREDITS;
	/* The peer had no credit for this, and yet a receive was there for it: one that it has not
	 * been told of. Counters would not add up any more (SMBD-23, SMBD-172). */
	if (smbd->receive_credits <= smbd->pending_grant)
		return SMBD_END_CREDITS;
	return SMBD_END_NONE;
}

/* R1 to R5 of the document. What is to be sent is sent once, behind the delivery, and receives are
 * posted then (SMBD-118, SMBD-122). */
static void take_credits(struct smbd *smbd, const struct smbdirect_data *data)
{
	smbd->receive_credits--;                        /* SMBD-117 */
	smbd->receive_target = data->credits_requested; /* SMBD-119 */
	smbd->send_credits += data->credits_granted;    /* SMBD-121 */
	smbd->send_immediate |=
		data->response_requested; /* SMBD-120; the answer asks nothing (X1) */
	smbd->send_due = true;
}

void smbd_got_data(struct smbd *smbd, const uint8_t *buf, size_t len, const uint32_t *token)
{
	struct smbdirect_data data;
	/* Any message shows that the peer is there, and what is sent does not (SMBD-108, SMBD-134,
	 * SMBD-138). */
	smbd->idle_deadline = smbd->now + smbd->config.keepalive_us;
	smbd->keepalive = SMBD_KEEPALIVE_NONE;
	if (smbdirect_decode_data(buf, len, &data) < 0) {
		smbd_end_with(smbd, SMBD_END_BAD_DATA);
		return;
	}
	enum smbd_end wrong = check(smbd, &data);
	if (wrong != SMBD_END_NONE) {
		smbd_end_with(smbd, wrong);
		return;
	}
	if (!take_token(smbd, token))
		return;
	take_credits(smbd, &data);
	if (data.length > 0)
		take_fragment(smbd, &data, buf + data.offset);
	else
		smbd->count.empty_received++; /* SMBD-128 */
}

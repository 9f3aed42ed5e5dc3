/* SPDX-License-Identifier: MIT */
/*
 * The send routine (MS-SMBD 3.1.5.1) and the building of Data Transfer messages (3.1.5.4). Upper
 * messages are cut when they leave, so the queue has whole ones. Nothing comes between the
 * fragments of a message, and no empty message does, because one is queued only if nothing else is
 * (SMBD-85).
 */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "daemon/smbdirect/internal.h"

/* With more than 255 in one message, tools take it for something else (SMBD-177). */
#define MOST_GRANTED 255

static int append(struct smbd *smbd, uint8_t *data, size_t len, const uint32_t *token)
{
	struct smbd_upper *upper = calloc(1, sizeof(*upper));
	if (!upper)
		return -ENOMEM;
	upper->data = data;
	upper->len = len;
	if (token) {
		upper->has_token = true;
		upper->token = *token;
	}
	DL_APPEND(smbd->queue, upper);
	smbd->queued_bytes += len;
	return 0;
}

static void remove_head(struct smbd *smbd)
{
	struct smbd_upper *upper = smbd->queue;
	DL_DELETE(smbd->queue, upper);
	smbd->queued_bytes -= upper->len - upper->sent;
	free(upper->data);
	free(upper);
}

void smbd_free_queue(struct smbd *smbd)
{
	while (smbd->queue)
		remove_head(smbd);
}

void smbd_queue_empty(struct smbd *smbd)
{
	if (smbd->queue)
		return;
	if (append(smbd, NULL, 0, NULL) < 0)
		smbd_end_with(smbd, SMBD_END_RESOURCES);
}

int smbd_send(struct smbd *smbd, uint8_t *data, size_t len, const uint32_t *token, uint64_t now)
{
	if (smbd->role != SMBD_ESTABLISHED)
		return -ENOTCONN;
	if (len == 0)
		return -EINVAL;
	if (len > smbd->max_fragmented_send_size)
		return -EMSGSIZE;
	if (append(smbd, data, len, token) < 0)
		return -ENOMEM;
	smbd->now = now;
	smbd->send_due = true;
	if (smbd->depth == 0) {
		smbd->depth++;
		smbd_run_sends(smbd);
		smbd->depth--;
	}
	return 0;
}

/* ---- one message */

/* The fields of the next message: a fragment of the head of the queue, or one without payload. */
static struct smbdirect_data next_head(const struct smbd *smbd)
{
	const struct smbd_upper *upper = smbd->queue;
	const size_t left = upper->len - upper->sent;
	const size_t room = smbd->max_send_size - SMBDIRECT_DATA_OFFSET;
	const size_t length = left < room ? left : room; /* SMBD-79, SMBD-80 */
	const uint32_t granted =
		smbd->pending_grant < MOST_GRANTED ? smbd->pending_grant : MOST_GRANTED;
	return (struct smbdirect_data){
		.credits_requested = (uint16_t)smbd->config.send_credit_target, /* SMBD-92 */
		.credits_granted = (uint16_t)granted,
		.response_requested = smbd->keepalive == SMBD_KEEPALIVE_PENDING, /* SMBD-93 */
		.remaining = (uint32_t)(left - length),                          /* SMBD-81 */
		.length = (uint32_t)length,
	};
}

/* It has left: what changes with that (SMBD-92 to SMBD-94, SMBD-105). */
static void note_sent(struct smbd *smbd, const struct smbdirect_data *data)
{
	struct smbd_upper *upper = smbd->queue;
	smbd->send_credits--;
	smbd->pending_grant -= data->credits_granted;
	smbd->send_immediate = false; /* SMBD-96: any message serves */
	if (data->response_requested) {
		smbd->keepalive = SMBD_KEEPALIVE_SENT;
		smbd->idle_deadline = smbd->now + smbd->config.answer_us;
	}
	upper->sent += data->length;
	smbd->queued_bytes -= data->length;
	smbd->count.fragments_sent += data->length > 0;
	smbd->count.empty_sent += data->length == 0;
	smbd->count.bytes_sent += data->length;
	if (data->remaining == 0) {
		smbd->count.messages_sent += data->length > 0;
		remove_head(smbd);
	}
}

/* Send the next message. @return false: there is no room now, or the connection has ended */
static bool send_next(struct smbd *smbd)
{
	const struct smbd_upper *upper = smbd->queue;
	const struct smbdirect_data data = next_head(smbd);
	uint8_t head[SMBDIRECT_DATA_OFFSET];
	const size_t head_len = smbdirect_encode_data(&data, head);
	/* The token goes with the last fragment alone: then the peer has everything (SMBD-83). */
	const bool last = data.remaining == 0;
	const uint32_t *token = upper->has_token && last ? &upper->token : NULL;
	const uint8_t *payload = data.length ? upper->data + upper->sent : NULL;
	int error = smbd->ops->send(smbd->ctx, head, head_len, payload, data.length, token);
	if (error == -EAGAIN)
		return false;
	if (error < 0) {
		smbd_end_with(smbd, SMBD_END_LOST); /* SMBD-86, SMBD-95 */
		return false;
	}
	note_sent(smbd, &data);
	return true;
}

/* ---- the routine */

/* May a message be sent? The last credit goes only with a grant, so that the peer can answer
 * (SMBD-90, SMBD-91). Who has none waits for the next grant, the passive side for its first
 * (SMBD-61, SMBD-97). */
static bool has_credit(struct smbd *smbd)
{
	if (smbd->send_credits == 0)
		return false;
	if (smbd->send_credits == 1 && smbd->pending_grant == 0)
		smbd_refill(smbd);
	return smbd->send_credits > 1 || smbd->pending_grant > 0;
}

void smbd_run_sends(struct smbd *smbd)
{
	smbd->send_due = false;
	if (smbd->role != SMBD_ESTABLISHED)
		return;
	smbd_refill(smbd); /* SMBD-89 */
	if (smbd->send_immediate || smbd_grant_is_due(smbd))
		smbd_queue_empty(smbd); /* SMBD-88; a queued message serves as well */
	while (smbd->role == SMBD_ESTABLISHED && smbd->queue && has_credit(smbd)) {
		if (!send_next(smbd))
			return;
	}
}

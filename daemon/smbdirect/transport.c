/* SPDX-License-Identifier: MIT */
/* How a connection begins and ends, what comes to it, and its timers. */
#include "daemon/smbdirect/transport.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/smbdirect/internal.h"

/* ---- begin and end */

int smbd_new(const struct smbd_config *config, enum smbd_role role, const struct smbd_ops *ops,
	     void *ctx, uint64_t now, struct smbd **ret_smbd)
{
	const char *why;
	if (smbd_config_check(config, &why) < 0)
		return -EINVAL;
	struct smbd *smbd = calloc(1, sizeof(*smbd)); /* SMBD-25, SMBD-35, SMBD-36 */
	if (!smbd)
		return -ENOMEM;
	smbd->config = *config;
	smbd_config_fill(&smbd->config, role);
	smbd->ops = ops;
	smbd->ctx = ctx;
	smbd->role = role;
	smbd->now = now;
	smbd->max_send_size = smbd->config.max_send_size; /* SMBD-26 */
	smbd->max_receive_size = smbd->config.max_receive_size;
	smbd->max_read_write_size = smbd->config.max_read_write_size;
	smbd->negotiation_deadline = now + smbd->config.negotiation_us; /* SMBD-27, SMBD-33 */
	if (ops->post_receives(ctx, 1, SMBD_NEGOTIATE_SIZE) != 1) {
		free(smbd);
		return -ENOBUFS;
	}
	*ret_smbd = smbd;
	return 0;
}

void smbd_free(struct smbd *smbd)
{
	if (!smbd)
		return;
	smbd_free_queue(smbd);
	free(smbd->reassembly);
	free(smbd);
}

static void end_with(struct smbd *smbd, enum smbd_end end, bool send_first)
{
	if (smbd->role == SMBD_GONE)
		return;
	smbd->role = SMBD_GONE;
	smbd->end = end;
	smbd->negotiation_deadline = 0;
	smbd->idle_deadline = 0;
	smbd_free_queue(smbd);
	smbd->ops->ended(smbd->ctx, end, send_first);
}

void smbd_end_with(struct smbd *smbd, enum smbd_end end)
{
	end_with(smbd, end, false);
}

void smbd_end_behind_sends(struct smbd *smbd, enum smbd_end end)
{
	end_with(smbd, end, true);
}

void smbd_established(struct smbd *smbd)
{
	if (smbd->role == SMBD_GONE)
		return;
	smbd->role = SMBD_ESTABLISHED;
	smbd->negotiation_deadline = 0;
	smbd->idle_deadline = smbd->now + smbd->config.keepalive_us;
	smbd->send_due = true;             /* the active side has credits to grant (SMBD-173) */
	smbd->ops->established(smbd->ctx); /* once, and not before it can send (SMBD-37) */
}

/* ---- what happens */

/* Each call of the owner is between these. Sends that it causes run once, at its end. */
static void enter(struct smbd *smbd, uint64_t now)
{
	smbd->now = now;
	smbd->depth++;
}

static void leave(struct smbd *smbd)
{
	if (smbd->depth == 1 && smbd->send_due)
		smbd_run_sends(smbd);
	smbd->depth--;
}

/* By what is waited for (SMBD-12, SMBD-87, SMBD-107). */
static void dispatch(struct smbd *smbd, const uint8_t *data, size_t len, const uint32_t *token)
{
	switch (smbd->role) {
	case SMBD_ACTIVE: smbd_got_response(smbd, data, len); break;
	case SMBD_PASSIVE: smbd_got_request(smbd, data, len); break;
	case SMBD_ESTABLISHED: smbd_got_data(smbd, data, len, token); break;
	case SMBD_GONE: break;
	}
}

void smbd_connected(struct smbd *smbd, uint64_t now)
{
	if (smbd->connected)
		return;
	enter(smbd, now);
	smbd->connected = true;
	if (smbd->role == SMBD_ACTIVE)
		smbd_send_request(smbd); /* SMBD-30 */
	else if (smbd->early_there)
		dispatch(smbd, smbd->early, smbd->early_len, NULL);
	leave(smbd);
}

/* The queue pair may tell of the first message before it is told to be there (SMBD-176). There is
 * one receive, so there cannot be a second message; the peer has none of our tokens. */
static void keep_early(struct smbd *smbd, const uint8_t *data, size_t len)
{
	if (smbd->early_there || smbd->role != SMBD_PASSIVE || len > sizeof(smbd->early)) {
		smbd_end_with(smbd, SMBD_END_BAD_NEGOTIATE);
		return;
	}
	memcpy(smbd->early, data, len);
	smbd->early_len = len;
	smbd->early_there = true;
}

void smbd_received(struct smbd *smbd, const uint8_t *data, size_t len, const uint32_t *token,
		   uint64_t now)
{
	enter(smbd, now);
	if (smbd->connected)
		dispatch(smbd, data, len, token);
	else
		keep_early(smbd, data, len);
	leave(smbd);
}

void smbd_sent(struct smbd *smbd, uint64_t now)
{
	enter(smbd, now);
	smbd->send_due |= smbd->queue != NULL;
	leave(smbd);
}

void smbd_hold(struct smbd *smbd, bool hold, uint64_t now)
{
	enter(smbd, now);
	smbd->send_due |= smbd->held && !hold; /* grants wait, and are due now */
	smbd->held = hold;
	leave(smbd);
}

void smbd_lost(struct smbd *smbd, uint64_t now)
{
	enter(smbd, now);
	smbd_end_with(smbd, SMBD_END_LOST);
	leave(smbd);
}

void smbd_close(struct smbd *smbd)
{
	smbd_end_with(smbd, SMBD_END_CLOSED);
}

/* ---- timers */

static uint64_t earlier(uint64_t a, uint64_t b)
{
	if (a == 0 || b == 0)
		return a ? a : b;
	return a < b ? a : b;
}

uint64_t smbd_deadline(const struct smbd *smbd)
{
	uint64_t deadline = earlier(smbd->negotiation_deadline, smbd->idle_deadline);
	return deadline ? deadline : UINT64_MAX;
}

/* The peer was silent. It is asked, and has the time for an answer from now on: also if no credit
 * is there to ask with (SMBD-136, SMBD-137). */
static void idle(struct smbd *smbd)
{
	if (smbd->keepalive != SMBD_KEEPALIVE_NONE) {
		smbd_end_with(smbd, SMBD_END_SILENT); /* SMBD-135 */
		return;
	}
	smbd->keepalive = SMBD_KEEPALIVE_PENDING;
	smbd->idle_deadline = smbd->now + smbd->config.answer_us;
	smbd->send_immediate = true;
	smbd->send_due = true;
}

uint64_t smbd_timer(struct smbd *smbd, uint64_t now)
{
	enter(smbd, now);
	if (smbd->negotiation_deadline && now >= smbd->negotiation_deadline)
		smbd_end_with(smbd, SMBD_END_NO_NEGOTIATION); /* SMBD-133 */
	else if (smbd->idle_deadline && now >= smbd->idle_deadline)
		idle(smbd);
	leave(smbd);
	return smbd_deadline(smbd);
}

/* ---- views */

void smbd_get_view(const struct smbd *smbd, struct smbd_view *ret_view)
{
	struct smbd_view view = smbd->count;
	view.role = smbd->role;
	view.end = smbd->end;
	view.status = smbd->status;
	view.max_send_size = smbd->max_send_size;
	view.max_fragmented_send_size = smbd->max_fragmented_send_size;
	view.max_receive_size = smbd->max_receive_size;
	view.max_fragmented_receive_size = smbd->config.max_fragmented_size;
	view.max_read_write_size = smbd->max_read_write_size;
	view.keepalive_us = smbd->config.keepalive_us;
	view.send_credits = smbd->send_credits;
	view.receive_credits = smbd->receive_credits;
	view.pending_grant = smbd->pending_grant;
	view.send_target = smbd->config.send_credit_target;
	view.receive_target = smbd->receive_target;
	view.queued_bytes = smbd->queued_bytes;
	*ret_view = view;
}

const char *smbd_end_text(enum smbd_end end)
{
	switch (end) {
	case SMBD_END_NONE: return "it has not ended";
	case SMBD_END_CLOSED: return "this host has closed it";
	case SMBD_END_LOST: return "the peer has disconnected, or the RDMA connection was lost";
	case SMBD_END_NO_NEGOTIATION: return "the peer did not negotiate in time";
	case SMBD_END_SILENT: return "the peer did not answer a keepalive in time";
	case SMBD_END_VERSION: return "the peer speaks no version of SMB Direct that smcrd knows";
	case SMBD_END_REFUSED: return "the peer has refused in its Negotiate Response";
	case SMBD_END_BAD_NEGOTIATE: return "the peer has sent a bad Negotiate message";
	case SMBD_END_BAD_DATA: return "the peer has sent a bad Data Transfer message";
	case SMBD_END_BAD_SEQUENCE: return "the peer has sent fragments that do not fit together";
	case SMBD_END_TOO_LONG: return "the peer has sent a message that is longer than allowed";
	case SMBD_END_CREDITS: return "the peer has broken the rules about credits";
	case SMBD_END_TOKEN:
		return "the peer has invalidated memory that is not of this connection";
	case SMBD_END_RESOURCES: return "memory or receive buffers are short on this host";
	}
	return "unknown";
}

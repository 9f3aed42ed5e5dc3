/* SPDX-License-Identifier: MIT */
/*
 * Credits: each message needs a receive at its receiver, and a credit tells of one. Grants add up,
 * and are told with any message (MS-SMBD 3.1.5.9).
 */
#include "daemon/smbdirect/internal.h"

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

uint32_t smbd_grant_target(const struct smbd *smbd)
{
	uint32_t target = least(smbd->receive_target, smbd->config.receive_credit_max);
	return target < SMBD_MIN_CREDITS ? SMBD_MIN_CREDITS : target; /* SMBD-174 */
}

/* Can nothing go on without a further receive? Asked before it is seen whether there are enough: a
 * last credit must not be used without granting one (SMBD-99, SMBD-100). */
static bool needs_one(const struct smbd *smbd)
{
	const bool last = smbd->send_credits == 1 && smbd->queue;
	return smbd->receive_credits == 0 || (last && smbd->pending_grant == 0);
}

/* How many receives have to be posted (SMBD-98, SMBD-101). */
static uint32_t missing(const struct smbd *smbd)
{
	const uint32_t target = smbd_grant_target(smbd);
	if (smbd->receive_credits >= smbd->config.receive_credit_max)
		return 0;
	if (smbd->receive_credits < target)
		return target - smbd->receive_credits;
	return needs_one(smbd) ? 1 : 0;
}

void smbd_refill(struct smbd *smbd)
{
	const uint32_t n = smbd->held ? 0 : missing(smbd);
	if (n == 0)
		return;
	/* Only a receive that is posted is granted, so no SEND needs RNR retries (SMBD-102,
	 * SMBD-106, SMBD-180). */
	uint32_t posted = smbd->ops->post_receives(smbd->ctx, n, smbd->max_receive_size);
	smbd->receive_credits += least(posted, n);
	smbd->pending_grant += least(posted, n);
}

/* Two sides that answer each message with one that only grants its credit would never stop. So a
 * grant waits until the peer is nearly without credits, or there is much to grant (SMBD-173). */
bool smbd_grant_is_due(const struct smbd *smbd)
{
	const uint32_t held = smbd->receive_credits - smbd->pending_grant;
	const uint32_t quarter = smbd_grant_target(smbd) / 4;
	const uint32_t much = quarter < 2 ? 2 : quarter;
	if (smbd->pending_grant == 0)
		return false;
	return held <= 1 || smbd->pending_grant >= much;
}

/* SPDX-License-Identifier: MIT */
/* The first two messages: versions, sizes and the first credits (MS-SMBD 3.1.5.2, 3.1.5.3, 3.1.5.6,
 * 3.1.5.7). They need no credits themselves (SMBD-47). */
#include "daemon/smbdirect/internal.h"

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint32_t most(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static void send_or_end(struct smbd *smbd, const uint8_t *buf, size_t len)
{
	if (smbd->ops->send(smbd->ctx, buf, len, NULL, 0, NULL) < 0)
		smbd_end_with(smbd, SMBD_END_LOST); /* SMBD-46 */
}

void smbd_send_request(struct smbd *smbd)
{
	uint8_t buf[SMBDIRECT_REQUEST_LEN];
	const struct smbdirect_request request = {
		.min_version = SMBDIRECT_VERSION,
		.max_version = SMBDIRECT_VERSION,
		.credits_requested = (uint16_t)smbd->config.send_credit_target, /* SMBD-39 */
		.preferred_send_size = smbd->max_send_size,
		.max_receive_size = smbd->max_receive_size,
		.max_fragmented_size = smbd->config.max_fragmented_size,
	};
	smbdirect_encode_request(&request, buf); /* SMBD-38 */
	send_or_end(smbd, buf, sizeof(buf));
}

/* ---- the passive side */

static void respond(struct smbd *smbd)
{
	uint8_t buf[SMBDIRECT_RESPONSE_LEN];
	const struct smbdirect_response response = {
		.min_version = SMBDIRECT_VERSION,
		.max_version = SMBDIRECT_VERSION,
		.version = SMBDIRECT_VERSION,
		.credits_requested = (uint16_t)smbd->config.send_credit_target, /* SMBD-44 */
		.credits_granted = (uint16_t)smbd->receive_credits,
		.status = SMBDIRECT_SUCCESS,
		.max_read_write_size = smbd->max_read_write_size,
		.preferred_send_size = smbd->max_send_size, /* within the peer's limit (SMBD-45) */
		.max_receive_size = smbd->max_receive_size,
		.max_fragmented_size = smbd->config.max_fragmented_size,
	};
	smbd->pending_grant = 0;
	smbdirect_encode_response(&response, buf); /* SMBD-40, SMBD-43 */
	send_or_end(smbd, buf, sizeof(buf));
}

/* The other fields of a Response that refuses are zeros (SMBD-41). */
static void refuse(struct smbd *smbd, uint32_t status, enum smbd_end end)
{
	uint8_t buf[SMBDIRECT_RESPONSE_LEN];
	const struct smbdirect_response response = {
		.min_version = SMBDIRECT_VERSION,
		.max_version = SMBDIRECT_VERSION,
		.status = status,
	};
	smbdirect_encode_response(&response, buf);
	send_or_end(smbd, buf, sizeof(buf));
	smbd_end_behind_sends(smbd, end);
}

/* Sizes that were announced, reduced to what the peer can do. */
static void agree_sizes(struct smbd *smbd, uint32_t peer_send_size, uint32_t peer_receive_size,
			uint32_t peer_fragmented_size)
{
	smbd->max_receive_size = most(least(smbd->max_receive_size, peer_send_size),
				      SMBDIRECT_MIN_RECEIVE_SIZE); /* SMBD-55, SMBD-56, SMBD-72 */
	smbd->max_send_size = least(smbd->max_send_size, peer_receive_size);
	smbd->max_fragmented_send_size = peer_fragmented_size; /* SMBD-182 */
}

void smbd_got_request(struct smbd *smbd, const uint8_t *buf, size_t len)
{
	struct smbdirect_request request;
	if (smbdirect_decode_request(buf, len, &request) < 0) {
		smbd_end_with(smbd, SMBD_END_BAD_NEGOTIATE);
		return;
	}
	/* Any range with our version in it will do (SMBD-49, SMBD-50), and a range without is told
	 * before anything else is looked at (SMBD-54). */
	if (request.min_version > SMBDIRECT_VERSION || request.max_version < SMBDIRECT_VERSION) {
		refuse(smbd, SMBDIRECT_NOT_SUPPORTED, SMBD_END_VERSION);
		return;
	}
	if (request.credits_requested == 0 ||                              /* SMBD-51 */
	    request.max_receive_size < SMBDIRECT_MIN_RECEIVE_SIZE ||       /* SMBD-52 */
	    request.max_fragmented_size < SMBDIRECT_MIN_FRAGMENTED_SIZE) { /* SMBD-53 */
		smbd_end_with(smbd, SMBD_END_BAD_NEGOTIATE);
		return;
	}
	agree_sizes(smbd, request.preferred_send_size, request.max_receive_size,
		    request.max_fragmented_size);
	smbd->receive_target = request.credits_requested; /* SMBD-57 */
	/* Receives come before the Response: data may follow it at once (SMBD-58, SMBD-60). */
	smbd_refill(smbd);
	if (smbd->receive_credits == 0) {
		refuse(smbd, SMBDIRECT_INSUFFICIENT_RESOURCES, SMBD_END_RESOURCES);
		return;
	}
	respond(smbd);
	smbd_established(smbd);
}

/* ---- the active side */

/* What is wrong with a Response. Its Status is looked at first: other fields mean nothing if it
 * refuses (SMBD-70). Its range of versions is not looked at (SMBD-76). */
static enum smbd_end wrong_with(const struct smbd *smbd, const struct smbdirect_response *response)
{
	if (response->status != SMBDIRECT_SUCCESS)
		return SMBD_END_REFUSED;
	if (response->version != SMBDIRECT_VERSION) /* SMBD-64 */
		return SMBD_END_VERSION;
	if (response->max_receive_size < SMBDIRECT_MIN_RECEIVE_SIZE ||       /* SMBD-65 */
	    response->max_fragmented_size < SMBDIRECT_MIN_FRAGMENTED_SIZE || /* SMBD-66 */
	    response->credits_granted == 0 ||                                /* SMBD-67 */
	    response->credits_requested == 0 ||                              /* SMBD-68 */
	    response->preferred_send_size > smbd->max_receive_size)          /* SMBD-69 */
		return SMBD_END_BAD_NEGOTIATE;
	return SMBD_END_NONE;
}

void smbd_got_response(struct smbd *smbd, const uint8_t *buf, size_t len)
{
	struct smbdirect_response response;
	if (smbdirect_decode_response(buf, len, &response) < 0) {
		smbd_end_with(smbd, SMBD_END_BAD_NEGOTIATE);
		return;
	}
	enum smbd_end wrong = wrong_with(smbd, &response);
	if (wrong != SMBD_END_NONE) {
		smbd->status = response.status;
		smbd_end_with(smbd, wrong); /* SMBD-62 */
		return;
	}
	agree_sizes(smbd, response.preferred_send_size, response.max_receive_size,
		    response.max_fragmented_size);
	/* 0 means that there is no RDMA (SMBD-73). */
	smbd->max_read_write_size = least(smbd->max_read_write_size, response.max_read_write_size);
	smbd->receive_target = response.credits_requested; /* SMBD-71 */
	smbd->send_credits = response.credits_granted;
	smbd_refill(smbd);
	if (smbd->receive_credits == 0) { /* SMBD-74 */
		smbd_end_with(smbd, SMBD_END_RESOURCES);
		return;
	}
	smbd_established(smbd);
}

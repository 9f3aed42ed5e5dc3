/* SPDX-License-Identifier: MIT */
#include "daemon/smbgate/offer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "proto/smb2/smb2.h"

/* A request whose response is due. */
struct offered {
	uint64_t message_id;
	uint32_t length;
	void *memory;
	UT_hash_handle hh;
};

struct offer {
	struct offer_config config;
	uint16_t dialect; /* 0: not negotiated yet */
	struct offered *offered;
};

int offer_new(const struct offer_config *config, struct offer **ret_offer)
{
	struct offer *offer = calloc(1, sizeof(*offer));
	if (!offer)
		return -ENOMEM;
	offer->config = *config;
	*ret_offer = offer;
	return 0;
}

static void forget(struct offer *offer, struct offered *offered)
{
	HASH_DEL(offer->offered, offered);
	free(offered);
}

void offer_free(struct offer *offer, void (*release)(void *ctx, void *memory), void *ctx)
{
	if (!offer)
		return;
	while (offer->offered) {
		release(ctx, offer->offered->memory);
		forget(offer, offer->offered);
	}
	free(offer);
}

size_t offer_pending(const struct offer *offer)
{
	return HASH_COUNT(offer->offered);
}

/* ---- requests */

static bool is_large(const struct offer *offer, uint32_t length)
{
	return length >= offer->config.least && length <= offer->config.max_read_write_size;
}

static void plan_read(const struct offer *offer, const uint8_t *buf, size_t len,
		      struct offer_plan *plan)
{
	struct smb2_read_request request;
	if (smb2_decode_read_request(buf, len, &request) < 0 ||
	    request.channel != SMB2_CHANNEL_NONE || !is_large(offer, request.length))
		return;
	plan->what = OFFER_READ;
	plan->length = request.length;
	plan->len = SMB2_READ_REQUEST_LEN + SMBDIRECT_DESCRIPTOR_LEN;
}

static void plan_write(const struct offer *offer, const uint8_t *buf, size_t len,
		       struct offer_plan *plan)
{
	struct smb2_write_request request;
	if (smb2_decode_write_request(buf, len, &request) < 0 ||
	    request.channel != SMB2_CHANNEL_NONE || !is_large(offer, request.length))
		return;
	plan->what = OFFER_WRITE;
	plan->data_at = request.data_offset;
	plan->length = request.length;
	plan->len = SMB2_WRITE_REQUEST_LEN + SMBDIRECT_DESCRIPTOR_LEN;
}

void offer_request(const struct offer *offer, const uint8_t *buf, size_t len,
		   struct offer_plan *ret_plan)
{
	struct smb2_header header;
	struct offered *known;
	*ret_plan = (struct offer_plan){ .what = OFFER_NOTHING };
	if (offer->dialect < SMB2_DIALECT_300)
		return;
	if (smb2_decode_header(buf, len, &header) < 0 || header.next != 0 ||
	    (header.flags & (SMB2_FLAG_SIGNED | SMB2_FLAG_RESPONSE | SMB2_FLAG_ASYNC)))
		return;
	HASH_FIND(hh, offer->offered, &header.message_id, sizeof(header.message_id), known);
	if (known) /* the server judges that */
		return;
	ret_plan->message_id = header.message_id;
	if (header.command == SMB2_READ)
		plan_read(offer, buf, len, ret_plan);
	else if (header.command == SMB2_WRITE)
		plan_write(offer, buf, len, ret_plan);
}

/* SMB 3.0 has no channel whose token the answer invalidates (MS-SMB2 2.2.19, 2.2.21). */
static uint32_t channel(const struct offer *offer)
{
	return offer->dialect == SMB2_DIALECT_300 ? SMB2_CHANNEL_RDMA_V1
						  : SMB2_CHANNEL_RDMA_V1_INVALIDATE;
}

int offer_build_request(struct offer *offer, const struct offer_plan *plan, const uint8_t *buf,
			const struct smbdirect_descriptor *descriptor, void *memory, uint8_t *out)
{
	struct offered *offered = calloc(1, sizeof(*offered));
	if (!offered)
		return -ENOMEM;
	offered->message_id = plan->message_id;
	offered->length = plan->length;
	offered->memory = memory;
	HASH_ADD(hh, offer->offered, message_id, sizeof(offered->message_id), offered);
	const size_t fixed = plan->len - SMBDIRECT_DESCRIPTOR_LEN;
	memcpy(out, buf, fixed);
	smbdirect_encode_descriptor(descriptor, out + fixed);
	if (plan->what == OFFER_READ) {
		const struct smb2_read_request request = {
			.length = plan->length,
			.channel = channel(offer),
			.info_offset = SMB2_READ_REQUEST_LEN,
			.info_length = SMBDIRECT_DESCRIPTOR_LEN,
		};
		smb2_put_read_request(out, &request);
	} else {
		const struct smb2_write_request request = {
			.channel = channel(offer),
			.remaining = plan->length,
			.info_offset = SMB2_WRITE_REQUEST_LEN,
			.info_length = SMBDIRECT_DESCRIPTOR_LEN,
		};
		smb2_put_write_request(out, &request);
	}
	return 0;
}

/* ---- responses */

/* The request that a message answers; NULL: none, or this is no answer yet. */
static struct offered *answered(struct offer *offer, const uint8_t *buf, size_t len)
{
	struct smb2_header header;
	struct offered *offered;
	if (smb2_decode_header(buf, len, &header) < 0 || header.next != 0 ||
	    !(header.flags & SMB2_FLAG_RESPONSE) ||
	    (header.command != SMB2_READ && header.command != SMB2_WRITE))
		return NULL;
	if ((header.flags & SMB2_FLAG_ASYNC) && header.status == SMB2_STATUS_PENDING)
		return NULL;
	HASH_FIND(hh, offer->offered, &header.message_id, sizeof(header.message_id), offered);
	return offered;
}

/* The server has chosen a dialect. It tells that without a signature, before there is a session. */
static void note_dialect(struct offer *offer, const uint8_t *buf, size_t len)
{
	struct smb2_header header;
	struct smb2_negotiate_response response;
	if (smb2_decode_header(buf, len, &header) == 0 && header.command == SMB2_NEGOTIATE &&
	    (header.flags & SMB2_FLAG_RESPONSE) &&
	    smb2_decode_negotiate_response(buf, len, &response) == 0)
		offer->dialect = response.dialect;
}

/* Bytes that the server has written into the memory of a READ; a response with data in it, an error
 * and the response to a WRITE have none. */
static uint32_t written_bytes(const uint8_t *buf, size_t len)
{
	struct smb2_header header;
	struct smb2_read_response response;
	if (smb2_decode_header(buf, len, &header) < 0 || header.command != SMB2_READ ||
	    smb2_decode_read_response(buf, len, &response) < 0 || response.length != 0)
		return 0;
	return response.remaining;
}

int offer_response(struct offer *offer, const uint8_t *buf, size_t len,
		   struct offer_answer *ret_answer)
{
	struct offered *offered = answered(offer, buf, len);
	*ret_answer = (struct offer_answer){ 0 };
	note_dialect(offer, buf, len);
	if (!offered)
		return 0;
	const uint32_t written = written_bytes(buf, len);
	if (written > offered->length)
		return -EPROTO; /* it stays, so that its memory is released with all */
	ret_answer->memory = offered->memory;
	ret_answer->length = written;
	forget(offer, offered);
	return 0;
}

void offer_build_head(const struct offer_answer *answer, const uint8_t *buf,
		      uint8_t out[OFFER_HEAD_LEN])
{
	const struct smb2_read_response response = {
		.data_offset = SMB2_READ_RESPONSE_LEN,
		.length = answer->length,
	};
	_Static_assert(OFFER_HEAD_LEN == SMB2_READ_RESPONSE_LEN, "data follow the head at once");
	memcpy(out, buf, OFFER_HEAD_LEN);
	smb2_put_read_response(out, &response);
}

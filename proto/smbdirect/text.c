/* SPDX-License-Identifier: MIT */
#include "proto/smbdirect/text.h"

#include <inttypes.h>

#include "proto/smcr/put.h"

const char *smbdirect_status_text(uint32_t status)
{
	switch (status) {
	case SMBDIRECT_SUCCESS: return "success";
	case SMBDIRECT_NOT_SUPPORTED: return "no common version";
	case SMBDIRECT_INSUFFICIENT_RESOURCES: return "too few resources";
	default: return "unknown";
	}
}

/* 0x0100 is 1.0 */
static void put_version(struct text *text, uint16_t version)
{
	put(text, "%u.%u", version >> 8, version & 0xFF);
}

static void put_versions(struct text *text, uint16_t min, uint16_t max)
{
	put(text, "versions ");
	put_version(text, min);
	put(text, " to ");
	put_version(text, max);
}

static void put_sizes(struct text *text, uint32_t send, uint32_t receive, uint32_t fragmented)
{
	put(text,
	    ", prefers SENDs of %" PRIu32 " bytes, takes %" PRIu32 ", whole messages of %" PRIu32,
	    send, receive, fragmented);
}

static void put_cannot(struct text *text, const char *what, size_t len)
{
	put(text, "%zu bytes that are no %s", len, what);
}

static void put_request(struct text *text, const uint8_t *buf, size_t len)
{
	struct smbdirect_request request;
	if (smbdirect_decode_request(buf, len, &request) < 0) {
		put_cannot(text, "Negotiate Request", len);
		return;
	}
	put(text, "Negotiate Request: ");
	put_versions(text, request.min_version, request.max_version);
	put(text, ", wants %u credits", request.credits_requested);
	put_sizes(text, request.preferred_send_size, request.max_receive_size,
		  request.max_fragmented_size);
}

static void put_response(struct text *text, const uint8_t *buf, size_t len)
{
	struct smbdirect_response response;
	if (smbdirect_decode_response(buf, len, &response) < 0) {
		put_cannot(text, "Negotiate Response", len);
		return;
	}
	put(text, "Negotiate Response: status 0x%08" PRIx32 ", %s, ", response.status,
	    smbdirect_status_text(response.status));
	put_versions(text, response.min_version, response.max_version);
	if (response.status != SMBDIRECT_SUCCESS)
		return;
	put(text, ", version ");
	put_version(text, response.version);
	put(text, ", grants %u credits, wants %u", response.credits_granted,
	    response.credits_requested);
	put_sizes(text, response.preferred_send_size, response.max_receive_size,
		  response.max_fragmented_size);
	put(text, ", RDMA of %" PRIu32 " bytes", response.max_read_write_size);
}

static void put_data(struct text *text, const uint8_t *head, size_t len)
{
	struct smbdirect_data data;
	if (smbdirect_decode_data(head, len, &data) < 0) {
		put_cannot(text, "Data Transfer message", len);
		return;
	}
	put(text,
	    "Data Transfer: %" PRIu32 " bytes, %" PRIu32 " follow, grants %u credits, wants %u",
	    data.length, data.remaining, data.credits_granted, data.credits_requested);
	if (data.response_requested)
		put(text, ", asks for an answer");
}

void smbdirect_text(enum smbdirect_kind kind, const uint8_t *buf, size_t len,
		    char ret_text[SMBDIRECT_TEXT_LEN])
{
	struct text text = { ret_text, SMBDIRECT_TEXT_LEN };
	*ret_text = '\0';
	switch (kind) {
	case SMBDIRECT_NEGOTIATE_REQUEST: put_request(&text, buf, len); break;
	case SMBDIRECT_NEGOTIATE_RESPONSE: put_response(&text, buf, len); break;
	case SMBDIRECT_DATA_TRANSFER: put_data(&text, buf, len); break;
	}
}

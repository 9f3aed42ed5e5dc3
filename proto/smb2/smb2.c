/* SPDX-License-Identifier: MIT */
#include "proto/smb2/smb2.h"

#include <errno.h>
#include <string.h>

#include "proto/smcr/bytes.h"

/* Offsets of fields, from the header (MS-SMB2 2.2.1, 2.2.4, 2.2.19, 2.2.20, 2.2.21). */
enum {
	HEADER_SIZE = 4,
	HEADER_STATUS = 8,
	HEADER_COMMAND = 12,
	HEADER_FLAGS = 16,
	HEADER_NEXT = 20,
	HEADER_MESSAGE_ID = 24,

	BODY_SIZE = 64, /* structure size of whatever follows the header */

	NEGOTIATE_DIALECT = 68,

	READ_LENGTH = 68,
	READ_CHANNEL = 100,
	READ_INFO_OFFSET = 108,
	READ_INFO_LENGTH = 110,

	WRITE_DATA_OFFSET = 66,
	WRITE_LENGTH = 68,
	WRITE_CHANNEL = 96,
	WRITE_REMAINING = 100,
	WRITE_INFO_OFFSET = 104,
	WRITE_INFO_LENGTH = 106,

	ANSWER_DATA_OFFSET = 66,
	ANSWER_LENGTH = 68,
	ANSWER_REMAINING = 72,
};

#define READ_WRITE_SIZE 49 /* structure size of either request */
#define ANSWER_SIZE     17
#define NEGOTIATE_SIZE  65
#define ALIGNMENT       8 /* of the messages of a compound */

static uint64_t get(const uint8_t *buf, size_t at, unsigned int size)
{
	struct bytes_reader r = bytes_reader(buf + at, size);
	return read_le(&r, size);
}

static void put(uint8_t *buf, size_t at, uint64_t value, unsigned int size)
{
	struct bytes_writer w = bytes_writer(buf + at, size);
	write_le(&w, value, size);
}

enum smb2_kind smb2_kind(const uint8_t *buf, size_t len)
{
	static const char plain[] = "\xFESMB", transform[] = "\xFDSMB", compressed[] = "\xFCSMB";
	if (len < 4)
		return SMB2_FOREIGN;
	if (memcmp(buf, plain, 4) == 0)
		return SMB2_PLAIN;
	if (memcmp(buf, transform, 4) == 0)
		return SMB2_TRANSFORM;
	return memcmp(buf, compressed, 4) == 0 ? SMB2_COMPRESSED : SMB2_FOREIGN;
}

int smb2_decode_header(const uint8_t *buf, size_t len, struct smb2_header *ret_header)
{
	if (len < SMB2_HEADER_LEN || smb2_kind(buf, len) != SMB2_PLAIN ||
	    get(buf, HEADER_SIZE, 2) != SMB2_HEADER_LEN)
		return -EBADMSG;
	struct smb2_header header = {
		.command = (uint16_t)get(buf, HEADER_COMMAND, 2),
		.status = (uint32_t)get(buf, HEADER_STATUS, 4),
		.flags = (uint32_t)get(buf, HEADER_FLAGS, 4),
		.next = (uint32_t)get(buf, HEADER_NEXT, 4),
		.message_id = get(buf, HEADER_MESSAGE_ID, 8),
	};
	if (header.next && (header.next < SMB2_HEADER_LEN || header.next % ALIGNMENT != 0 ||
			    header.next > len - SMB2_HEADER_LEN))
		return -EBADMSG;
	*ret_header = header;
	return 0;
}

/* Is [offset, offset + length) behind the fixed part and within the message? */
static bool is_within(size_t offset, size_t length, size_t fixed, size_t len)
{
	return length == 0 || (offset >= fixed && offset <= len && length <= len - offset);
}

int smb2_decode_read_request(const uint8_t *buf, size_t len, struct smb2_read_request *ret_request)
{
	if (len < SMB2_READ_REQUEST_LEN || get(buf, BODY_SIZE, 2) != READ_WRITE_SIZE)
		return -EBADMSG;
	struct smb2_read_request request = {
		.length = (uint32_t)get(buf, READ_LENGTH, 4),
		.channel = (uint32_t)get(buf, READ_CHANNEL, 4),
		.info_offset = (uint16_t)get(buf, READ_INFO_OFFSET, 2),
		.info_length = (uint16_t)get(buf, READ_INFO_LENGTH, 2),
	};
	if (!is_within(request.info_offset, request.info_length, SMB2_READ_REQUEST_LEN, len))
		return -EBADMSG;
	*ret_request = request;
	return 0;
}

int smb2_decode_write_request(const uint8_t *buf, size_t len,
			      struct smb2_write_request *ret_request)
{
	if (len < SMB2_WRITE_REQUEST_LEN || get(buf, BODY_SIZE, 2) != READ_WRITE_SIZE)
		return -EBADMSG;
	struct smb2_write_request request = {
		.data_offset = (uint16_t)get(buf, WRITE_DATA_OFFSET, 2),
		.length = (uint32_t)get(buf, WRITE_LENGTH, 4),
		.channel = (uint32_t)get(buf, WRITE_CHANNEL, 4),
		.remaining = (uint32_t)get(buf, WRITE_REMAINING, 4),
		.info_offset = (uint16_t)get(buf, WRITE_INFO_OFFSET, 2),
		.info_length = (uint16_t)get(buf, WRITE_INFO_LENGTH, 2),
	};
	if (!is_within(request.info_offset, request.info_length, SMB2_WRITE_REQUEST_LEN, len) ||
	    !is_within(request.data_offset, request.length, SMB2_WRITE_REQUEST_LEN, len))
		return -EBADMSG;
	*ret_request = request;
	return 0;
}

int smb2_decode_read_response(const uint8_t *buf, size_t len,
			      struct smb2_read_response *ret_response)
{
	if (len < SMB2_READ_RESPONSE_LEN || get(buf, BODY_SIZE, 2) != ANSWER_SIZE)
		return -EBADMSG;
	struct smb2_read_response response = {
		.data_offset = (uint8_t)get(buf, ANSWER_DATA_OFFSET, 1),
		.length = (uint32_t)get(buf, ANSWER_LENGTH, 4),
		.remaining = (uint32_t)get(buf, ANSWER_REMAINING, 4),
	};
	if (!is_within(response.data_offset, response.length, SMB2_READ_RESPONSE_LEN, len))
		return -EBADMSG;
	*ret_response = response;
	return 0;
}

int smb2_decode_negotiate_response(const uint8_t *buf, size_t len,
				   struct smb2_negotiate_response *ret_response)
{
	if (len < SMB2_NEGOTIATE_RESPONSE_LEN || get(buf, BODY_SIZE, 2) != NEGOTIATE_SIZE)
		return -EBADMSG;
	ret_response->dialect = (uint16_t)get(buf, NEGOTIATE_DIALECT, 2);
	return 0;
}

void smb2_put_next(uint8_t *buf, uint32_t next)
{
	put(buf, HEADER_NEXT, next, 4);
}

void smb2_put_read_request(uint8_t *buf, const struct smb2_read_request *request)
{
	put(buf, READ_LENGTH, request->length, 4);
	put(buf, READ_CHANNEL, request->channel, 4);
	put(buf, READ_INFO_OFFSET, request->info_offset, 2);
	put(buf, READ_INFO_LENGTH, request->info_length, 2);
}

void smb2_put_write_request(uint8_t *buf, const struct smb2_write_request *request)
{
	put(buf, WRITE_DATA_OFFSET, request->data_offset, 2);
	put(buf, WRITE_LENGTH, request->length, 4);
	put(buf, WRITE_CHANNEL, request->channel, 4);
	put(buf, WRITE_REMAINING, request->remaining, 4);
	put(buf, WRITE_INFO_OFFSET, request->info_offset, 2);
	put(buf, WRITE_INFO_LENGTH, request->info_length, 2);
}

void smb2_put_read_response(uint8_t *buf, const struct smb2_read_response *response)
{
	put(buf, ANSWER_DATA_OFFSET, response->data_offset, 1);
	put(buf, ANSWER_LENGTH, response->length, 4);
	put(buf, ANSWER_REMAINING, response->remaining, 4);
}

void smb2_spoil_request(uint8_t *buf)
{
	put(buf, BODY_SIZE, UINT16_MAX, 2);
}

/* SPDX-License-Identifier: MIT */
/**
 * @file smb2.h
 * The few fields of SMB 2 and 3 messages (MS-SMB2 2.2) that a gateway between TCP and SMB Direct
 * has to know: where the messages of a compound begin, and the channel and data of READ and WRITE.
 * Everything else is bytes that pass.
 *
 * As everything below proto/, these functions only compute and are thread safe. Numbers are in host
 * byte order; on the wire they are little-endian. Offsets are counted from the first byte of the
 * message's header, as SMB2 counts them.
 */
#ifndef SMCRD_PROTO_SMB2_SMB2_H
#define SMCRD_PROTO_SMB2_SMB2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SMB2_HEADER_LEN = 64,
	SMB2_READ_REQUEST_LEN = 112, /* header and fixed part; likewise the others */
	SMB2_WRITE_REQUEST_LEN = 112,
	SMB2_READ_RESPONSE_LEN = 80,
	SMB2_NEGOTIATE_RESPONSE_LEN = 128,
};

enum smb2_command {
	SMB2_NEGOTIATE = 0x0000,
	SMB2_READ = 0x0008,
	SMB2_WRITE = 0x0009,
};

/** Bits of a header's flags. */
enum {
	SMB2_FLAG_RESPONSE = 0x00000001,
	SMB2_FLAG_ASYNC = 0x00000002,
	SMB2_FLAG_SIGNED = 0x00000008,
};

/** Dialects, of which later ones have greater numbers. */
enum smb2_dialect {
	SMB2_DIALECT_300 = 0x0300,
	SMB2_DIALECT_302 = 0x0302,
	SMB2_DIALECT_311 = 0x0311,
};

/** Values of Channel: how the data of a READ or WRITE go. */
enum smb2_channel {
	SMB2_CHANNEL_NONE = 0,
	SMB2_CHANNEL_RDMA_V1 = 1, /* from SMB 3.0 on */
	SMB2_CHANNEL_RDMA_V1_INVALIDATE =
		2, /* from SMB 3.0.2 on: the answer invalidates the token */
};

enum {
	SMB2_STATUS_PENDING = 0x00000103,
};

/** What kind of message a transport has carried. */
enum smb2_kind {
	SMB2_PLAIN,     /* one SMB2 message or a compound of them */
	SMB2_TRANSFORM, /* encrypted */
	SMB2_COMPRESSED,
	SMB2_FOREIGN, /* SMB1, or nothing that is known */
};

struct smb2_header {
	uint16_t command;
	uint32_t status; /* of a response */
	uint32_t flags;
	uint32_t next; /* where the next message of the compound begins; 0: there is none */
	uint64_t message_id;
};

struct smb2_read_request {
	uint32_t length;
	uint32_t channel;
	uint16_t info_offset, info_length; /* of the descriptors */
};

struct smb2_write_request {
	uint16_t data_offset;
	uint32_t length;
	uint32_t channel;
	uint32_t remaining; /* with a channel: bytes of the data, which are not in the message */
	uint16_t info_offset, info_length;
};

struct smb2_read_response {
	uint8_t data_offset;
	uint32_t length;
	uint32_t remaining; /* with a channel: bytes that were written by RDMA */
};

struct smb2_negotiate_response {
	uint16_t dialect; /* also those that enum smb2_dialect has not */
};

enum smb2_kind smb2_kind(const uint8_t *buf, size_t len);

/**
 * Decode a header of a plain message.
 * @param len  bytes from the header to the end of the compound
 * @return 0; -EBADMSG: too short, no SMB2, or a next message that is not behind this header on a
 *         multiple of 8 and within `len`
 */
int smb2_decode_header(const uint8_t *buf, size_t len, struct smb2_header *ret_header);

/**
 * Decode a request or response from its header on.
 * @param len  bytes of this message alone, as smb2_message_len() tells
 * @return 0; -EBADMSG: too short, another structure size, or data or descriptors that are not
 *         within the message
 */
int smb2_decode_read_request(const uint8_t *buf, size_t len, struct smb2_read_request *ret_request);
int smb2_decode_write_request(const uint8_t *buf, size_t len,
			      struct smb2_write_request *ret_request);
int smb2_decode_read_response(const uint8_t *buf, size_t len,
			      struct smb2_read_response *ret_response);
int smb2_decode_negotiate_response(const uint8_t *buf, size_t len,
				   struct smb2_negotiate_response *ret_response);

/** Bytes of a message of a compound, without those that follow it. `left`: to the end of the
 * compound. */
static inline size_t smb2_message_len(const struct smb2_header *header, size_t left)
{
	return header->next ? header->next : left;
}

/* Write fields into a message that was decoded. */
void smb2_put_next(uint8_t *buf, uint32_t next);
void smb2_put_read_request(uint8_t *buf, const struct smb2_read_request *request);
void smb2_put_write_request(uint8_t *buf, const struct smb2_write_request *request);
void smb2_put_read_response(uint8_t *buf, const struct smb2_read_response *response);
/** Make a request one that every server answers with STATUS_INVALID_PARAMETER: its structure size
 * is wrong. So its message id and credits are used as the client expects. */
void smb2_spoil_request(uint8_t *buf);

#endif

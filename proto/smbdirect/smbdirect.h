/* SPDX-License-Identifier: MIT */
/**
 * @file smbdirect.h
 * Messages of SMB Direct 1.0 (MS-SMBD 2.2, SMBD-15): Negotiate Request and Response, Data Transfer,
 * and the Buffer Descriptor that SMB2 READ and WRITE requests carry. Each message is the payload of
 * one RDMA SEND.
 *
 * As everything below proto/, these functions only compute and are thread safe. Numbers are in host
 * byte order; on the wire they are little-endian and unsigned (SMBD-8). Reserved fields and padding
 * are sent as zeros and not looked at (SMBD-9, SMBD-10, SMBD-11).
 */
#ifndef SMCRD_PROTO_SMBDIRECT_SMBDIRECT_H
#define SMCRD_PROTO_SMBDIRECT_SMBDIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** The only version of the protocol (SMBD-13). */
#define SMBDIRECT_VERSION 0x0100

enum {
	SMBDIRECT_REQUEST_LEN = 20,
	SMBDIRECT_RESPONSE_LEN = 32,
	SMBDIRECT_DATA_LEN = 20,    /* a Data Transfer message without payload (SMBD-78) */
	SMBDIRECT_DATA_OFFSET = 24, /* of the payload, if there is one (SMBD-80) */
	SMBDIRECT_DESCRIPTOR_LEN = 16,
	/** Least values that a peer may announce. */
	SMBDIRECT_MIN_RECEIVE_SIZE = 128,
	SMBDIRECT_MIN_FRAGMENTED_SIZE = 131072,
};

/** Values of a Response's Status. All but SUCCESS are severe errors (SMBD-161, SMBD-162,
 * SMBD-163). */
enum {
	SMBDIRECT_SUCCESS = 0x00000000u,
	SMBDIRECT_NOT_SUPPORTED = 0xC00000BBu,
	SMBDIRECT_INSUFFICIENT_RESOURCES = 0xC000009Au,
};

struct smbdirect_request {
	uint16_t min_version, max_version;
	uint16_t credits_requested;
	uint32_t preferred_send_size; /* bytes of the largest SEND of the sender */
	uint32_t max_receive_size;    /* bytes of the largest SEND to the sender */
	uint32_t max_fragmented_size; /* bytes of the largest upper message to the sender */
};

struct smbdirect_response {
	uint16_t min_version, max_version, version;
	uint16_t credits_requested, credits_granted;
	uint32_t status;
	uint32_t max_read_write_size; /* bytes of an RDMA transfer for one SMB2 request */
	uint32_t preferred_send_size, max_receive_size, max_fragmented_size;
};

/** The head of a Data Transfer message. */
struct smbdirect_data {
	uint16_t credits_requested; /* how many the sender wants to have in all */
	uint16_t credits_granted;   /* how many more the receiver has from now on (SMBD-104) */
	bool response_requested;    /* answer soon (SMBD-139) */
	uint32_t remaining;         /* payload bytes of the same upper message that follow later */
	uint32_t offset;            /* of the payload; 0: there is none (SMBD-17) */
	uint32_t length;            /* of the payload */
};

/** Memory of the sender that the receiver may read or write (MS-SMBD 2.2.3.1). */
struct smbdirect_descriptor {
	uint64_t offset;
	uint32_t token;
	uint32_t length;
};

/** Decode. Bytes behind a message are not looked at. @return 0; -EBADMSG: too short (SMBD-48,
 * SMBD-63) */
int smbdirect_decode_request(const uint8_t *buf, size_t len, struct smbdirect_request *ret_request);
int smbdirect_decode_response(const uint8_t *buf, size_t len,
			      struct smbdirect_response *ret_response);
/**
 * Decode the head of a Data Transfer message. Flags other than that for a response are not looked
 * at (SMBD-16), nor are bytes behind the payload (SMBD-116). If 0 is returned the payload, if any,
 * is at buf + offset.
 * @return 0; -EBADMSG: too short (SMBD-109), or a payload that is not behind the head on a multiple
 *         of 8 and within the message (SMBD-111, SMBD-112, SMBD-114)
 */
int smbdirect_decode_data(const uint8_t *buf, size_t len, struct smbdirect_data *ret_data);
void smbdirect_decode_descriptor(const uint8_t buf[SMBDIRECT_DESCRIPTOR_LEN],
				 struct smbdirect_descriptor *ret_descriptor);

void smbdirect_encode_request(const struct smbdirect_request *request,
			      uint8_t buf[SMBDIRECT_REQUEST_LEN]);
void smbdirect_encode_response(const struct smbdirect_response *response,
			       uint8_t buf[SMBDIRECT_RESPONSE_LEN]);
/** Encode the head of a message with `data->length` bytes of payload, which follows at once. The
 * caller's `offset` is not used. @return bytes of the head with its padding: SMBDIRECT_DATA_OFFSET,
 * or SMBDIRECT_DATA_LEN without payload */
size_t smbdirect_encode_data(const struct smbdirect_data *data, uint8_t buf[SMBDIRECT_DATA_OFFSET]);
void smbdirect_encode_descriptor(const struct smbdirect_descriptor *descriptor,
				 uint8_t buf[SMBDIRECT_DESCRIPTOR_LEN]);

#endif

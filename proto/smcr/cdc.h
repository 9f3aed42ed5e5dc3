/* SPDX-License-Identifier: MIT */
/**
 * @file cdc.h
 * Connection Data Control message, a 44-byte SEND (RFC 7609 A.4; CDC-1).
 */
#ifndef SMCRD_PROTO_SMCR_CDC_H
#define SMCRD_PROTO_SMCR_CDC_H

#include "proto/smcr/wire.h"

#define SMCR_CDC_LEN  44
#define SMCR_CDC_TYPE 0xFE

/** Producer flags, byte 24. */
enum {
	SMCR_CDC_WRITE_BLOCKED = 0x80,   /* B */
	SMCR_CDC_URGENT_PENDING = 0x40,  /* P */
	SMCR_CDC_URGENT_PRESENT = 0x20,  /* U */
	SMCR_CDC_CONS_UPDATE_REQ = 0x10, /* R */
	SMCR_CDC_FAILOVER = 0x08,        /* F */
};

/** Connection state flags, byte 25. */
enum {
	SMCR_CDC_SENDING_DONE = 0x80, /* D, PeerDoneWriting */
	SMCR_CDC_CLOSED = 0x40,       /* C, PeerConnectionClosed */
	SMCR_CDC_ABORT = 0x20,        /* A, PeerConnAbort */
};

/** A position in an element as on the wire; its meaning depends on the dialect (docs/dialects.md).
 */
struct smcr_cdc_cursor {
	uint16_t wrap;
	uint32_t offset;
};

struct smcr_cdc {
	uint16_t seq;
	uint32_t alert_token; /* the connection's token at the receiver of this message */
	struct smcr_cdc_cursor producer; /* next byte the sender writes into the receiver's RMBE */
	struct smcr_cdc_cursor consumer; /* next byte the sender reads from its own RMBE */
	uint8_t prod_flags;
	uint8_t conn_flags;
};

/** Decode. @return 0, or -EBADMSG (length not 44, type or length byte wrong) */
int smcr_cdc_decode(const uint8_t *buf, size_t len, struct smcr_cdc *ret_cdc);

/** Is this a CDC message with the failover flag (FO-4)? `data` may be any message. */
bool smcr_cdc_is_failover(const uint8_t *data, size_t len);

/** Encode to exactly 44 bytes. @return 44 or -ENOBUFS */
int smcr_cdc_encode(const struct smcr_cdc *cdc, uint8_t *buf, size_t len);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file clc_parts.h
 * What the files of the CLC codec share. Private to proto/smcr.
 */
#ifndef SMCRD_PROTO_SMCR_CLC_PARTS_H
#define SMCRD_PROTO_SMCR_CLC_PARTS_H

#include "proto/smcr/bytes.h"
#include "proto/smcr/clc.h"

#define CLC_TRAILER_LEN     4
#define CLC_PROPOSAL_MIN    52 /* version 1 without growth area and prefixes */
#define CLC_PROPOSAL_V2_MIN 84 /* version 2 that offers nothing */

/** Byte 7: version in the high nibble, below it flags and types. */
enum {
	CLC_VERSION_SHIFT = 4,
	CLC_FLAG_FIRST_CONTACT = 0x08, /* F of Accept and Confirm */
	CLC_FLAG_OUT_OF_SYNC = 0x08,   /* S of Decline */
	CLC_SMC_TYPE_MASK = 0x03,      /* of Accept and Confirm in version 2 */
};

/** Version of a message as its receiver treats it: 0, 1 or 2. */
static inline uint8_t clc_version(const uint8_t *header)
{
	uint8_t version = header[7] >> CLC_VERSION_SHIFT;
	return version > SMCR_CLC_VERSION_2 ? SMCR_CLC_VERSION_2 : version;
}

/** Eye catcher, type, length, version and the low nibble of byte 7. */
static inline void clc_write_header(struct bytes_writer *w, uint8_t type, size_t length,
				    uint8_t version, uint8_t low_nibble)
{
	write_be32(w, SMCR_EYE_CATCHER);
	write_u8(w, type);
	write_be16(w, (uint16_t)length);
	write_u8(w, (uint8_t)(version << CLC_VERSION_SHIFT | low_nibble));
}

/* Readers get a whole message whose header, length and trailer were checked. They return what
 * smcr_clc_decode() does. */

int clc_read_proposal(const uint8_t *buf, size_t len, struct smcr_clc_proposal *p);
int clc_read_accept(const uint8_t *buf, size_t len, struct smcr_clc_accept *a);

/** May an Accept or Confirm of version 1 or 2 with this header be `length` bytes long? */
bool clc_accept_length_fits(const uint8_t *header, uint16_t length);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file llc_parts.h
 * What the codecs of the two LLC versions share. Private to proto/smcr.
 */
#ifndef SMCRD_PROTO_SMCR_LLC_PARTS_H
#define SMCRD_PROTO_SMCR_LLC_PARTS_H

#include "proto/smcr/bytes.h"
#include "proto/smcr/llc.h"

#define LLC_HEADER_LEN 4

/** Flags, byte 3. */
enum {
	LLC_FLAG_REPLY = 0x80,    /* R, every message */
	LLC_FLAG_REJECT = 0x40,   /* Z of ADD LINK and REQUEST ADD LINK */
	LLC_FLAG_ALL = 0x40,      /* A of DELETE LINK */
	LLC_FLAG_ORDERLY = 0x20,  /* O of DELETE LINK */
	LLC_FLAG_NEGATIVE = 0x20, /* Z of the RKEY messages */
	LLC_FLAG_RETRY = 0x10,    /* C of CONFIRM RKEY */
};

/** The header's variable part, and which dialect the ADD LINK fields follow. */
struct llc_header {
	uint8_t reason; /* of a reject: low nibble of byte 2, in version 2 of byte 3 */
	uint8_t flags;  /* byte 3 */
	enum smcr_dialect dialect;
};

/** How the 40 bytes behind the header are read and written; 0, -EBADMSG or -EINVAL. */
struct llc_codec {
	const char *name;
	int (*read)(struct bytes_reader *r, const struct llc_header *h, struct smcr_llc_msg *msg);
	int (*write)(struct bytes_writer *w, struct llc_header *h, const struct smcr_llc_msg *msg);
};

/** Of a version 1 type, or NULL. Version 2 has the same but where llc_v2.c says otherwise. */
const struct llc_codec *llc_codec_of(uint8_t type);

#endif

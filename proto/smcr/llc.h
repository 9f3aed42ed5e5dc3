/* SPDX-License-Identifier: MIT */
/**
 * @file llc.h
 * Link Layer Control messages of version 1: 44-byte SENDs (RFC 7609 3.3, A.3; LLC-1..8), in both
 * dialects. The dialect matters for ADD LINK only; reserved bytes are sent 0 and ignored.
 */
#ifndef SMCRD_PROTO_SMCR_LLC_H
#define SMCRD_PROTO_SMCR_LLC_H

#include "proto/smcr/wire.h"

#define SMCR_LLC_LEN 44

enum smcr_llc_type {
	SMCR_LLC_CONFIRM_LINK = 1,
	SMCR_LLC_ADD_LINK = 2,
	SMCR_LLC_ADD_LINK_CONT = 3,
	SMCR_LLC_DELETE_LINK = 4,
	SMCR_LLC_CONFIRM_RKEY = 6,
	SMCR_LLC_TEST_LINK = 7,
	SMCR_LLC_CONFIRM_RKEY_CONT = 8,
	SMCR_LLC_DELETE_RKEY = 9,
	SMCR_LLC_CDC = 0xFE, /* not LLC: see cdc.h */
};

/** CONFIRM LINK flag bits: both sides carry either bit -> deployed dialect. */
#define SMCR_LLC_CONFIRM_LINK_NO_EYE_CATCHER 0x03

enum smcr_llc_reject {
	SMCR_LLC_REJECT_NO_ALT_PATH = 1,
	SMCR_LLC_REJECT_INVALID_MTU = 2,
};

enum smcr_llc_delete_reason {
	SMCR_LLC_DEL_LOST_PATH = 0x00010000,
	SMCR_LLC_DEL_OPERATOR = 0x00020000,
	SMCR_LLC_DEL_INACTIVITY = 0x00030000,
	SMCR_LLC_DEL_PROTOCOL_VIOLATION = 0x00040000,
	SMCR_LLC_DEL_ASYMMETRIC_NOT_NEEDED = 0x00050000,
	SMCR_LLC_DEL_UNKNOWN_LINK = 0x00100000, /* replies only */
};

struct smcr_llc_confirm_link {
	uint8_t mac[SMCR_MAC_LEN];
	uint8_t gid[SMCR_GID_LEN];
	uint32_t qpn;
	uint8_t link_number;
	uint32_t link_user_id;
	uint8_t max_links;
	uint8_t max_conns; /* byte 35: version 2 peers; 0 in version 1 */
	uint8_t flags; /* low bits as on the wire, R excluded: SMCR_LLC_CONFIRM_LINK_NO_EYE_CATCHER
			*/
};

struct smcr_llc_add_link {
	bool reject;           /* Z, replies only */
	uint8_t reject_reason; /* enum smcr_llc_reject, with Z */
	uint8_t mac[SMCR_MAC_LEN];
	uint8_t gid[SMCR_GID_LEN];
	uint32_t qpn;
	uint8_t link_number;
	uint8_t mtu; /* enum smcr_mtu; reserved codes are passed on (ERR-52 answers them) */
	uint32_t psn;
};

struct smcr_llc_rtoken_pair {
	uint32_t ref_rkey; /* this RMB's RKey on the link that carries the message */
	uint32_t new_rkey; /* same RMB on the new link */
	uint64_t new_vaddr;
};

struct smcr_llc_add_link_cont {
	uint8_t link_number;
	uint8_t num_rtokens;                 /* still to send including this message (ADDL-9) */
	struct smcr_llc_rtoken_pair pair[2]; /* min(2, num_rtokens) are meaningful */
};

struct smcr_llc_delete_link {
	bool all;     /* A */
	bool orderly; /* O */
	uint8_t link_number;
	uint32_t reason;
};

struct smcr_llc_link_rtoken {
	uint8_t link_number;
	uint32_t rkey;
	uint64_t vaddr;
};

struct smcr_llc_confirm_rkey {
	bool negative;      /* Z, replies */
	bool retry;         /* C, replies */
	uint8_t num_tokens; /* other links, 0..8 (A10) */
	uint32_t rkey;      /* on the carrying link */
	uint64_t vaddr;
	struct smcr_llc_link_rtoken other[2]; /* min(2, num_tokens) are meaningful */
};

struct smcr_llc_confirm_rkey_cont {
	bool negative;
	uint8_t num_left;                     /* still to send including this message */
	struct smcr_llc_link_rtoken other[3]; /* min(3, num_left) are meaningful */
};

struct smcr_llc_delete_rkey {
	bool negative;
	uint8_t count;      /* 1..8 */
	uint8_t error_mask; /* replies: 0x80 = first failed */
	uint32_t rkey[8];
};

struct smcr_llc_test_link {
	uint8_t user_data[16];
};

/** A decoded LLC message. */
struct smcr_llc_msg {
	uint8_t type; /* enum smcr_llc_type */
	bool reply;   /* R */
	union {
		struct smcr_llc_confirm_link confirm_link;
		struct smcr_llc_add_link add_link;
		struct smcr_llc_add_link_cont add_link_cont;
		struct smcr_llc_delete_link delete_link;
		struct smcr_llc_confirm_rkey confirm_rkey;
		struct smcr_llc_confirm_rkey_cont confirm_rkey_cont;
		struct smcr_llc_delete_rkey delete_rkey;
		struct smcr_llc_test_link test_link;
	};
};

/**
 * Decode one SEND payload that is not a CDC.
 * @return 0; -EBADMSG (length not 44, length byte wrong, count out of range); -EOPNOTSUPP: unknown
 *         type whose top bits are 10, to be dropped silently (ERR-61); -EPROTO: any other unknown
 *         type, a protocol error (ERR-63)
 */
int smcr_llc_decode(const uint8_t *buf, size_t len, enum smcr_dialect dialect,
		    struct smcr_llc_msg *ret_msg);

/** Encode to exactly 44 bytes. @return 44, -ENOBUFS or -EINVAL (unknown type, count range) */
int smcr_llc_encode(const struct smcr_llc_msg *msg, enum smcr_dialect dialect, uint8_t *buf,
		    size_t len);

/** Name of a type as operators read it ("CONFIRM LINK"), or "unknown". Static storage. */
const char *smcr_llc_type_name(uint8_t type);

#endif

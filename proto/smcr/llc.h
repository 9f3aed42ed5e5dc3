/* SPDX-License-Identifier: MIT */
/**
 * @file llc.h
 * Link Layer Control messages: version 1, 44-byte SENDs (RFC 7609 3.3, A.3; LLC-1) in both
 * dialects, and version 2 (docs/version-2.md). The dialect matters for ADD LINK only; version 2 has
 * the deployed one. Reserved bytes are sent 0 and ignored.
 *
 * Both versions decode to the same structure and the same types, so that the handling of a message
 * need not know its version. The version of the link group says which functions to use; a link
 * carries messages of its version only. Version 2 differs in this:
 *  - Two numbers are in the byte order of the sender's processor: the length in the header, which
 *    means nothing (the receive completion tells how long a message is), and the count of RTokens
 *    in ADD LINK. The decoder tells the order of a message; keep it with the group and send in it
 *    what the peer shall read. Nothing with a count is ever sent before something was received.
 *  - ADD LINK carries the RTokens for the new link itself; there is no ADD LINK CONTINUATION and no
 *    CONFIRM RKEY CONTINUATION. Receive buffers must hold SMCR_LLC_V2_MAX_LEN bytes.
 *  - A client that wants another link sends REQUEST ADD LINK, not ADD LINK.
 *  - Deployed peers have one buffer a group for what is longer than 44 bytes: no two such messages
 *    to a peer may be in flight.
 */
#ifndef SMCRD_PROTO_SMCR_LLC_H
#define SMCRD_PROTO_SMCR_LLC_H

#include "proto/smcr/wire.h"

#define SMCR_LLC_LEN        44
#define SMCR_LLC_V2_MAX_LEN 8192 /* what a receiver of version 2 must take */
#define SMCR_LLC_V2_TYPE    0x20 /* added to the type on the wire */
#define SMCR_LLC_MAX_GIDS   8
/* The longest that we send: an ADD LINK with an RToken for each of 255 RMBs. */
#define SMCR_LLC_V2_SEND_MAX (72 + 16 * SMCR_MAX_RMBS)

enum smcr_llc_type {
	SMCR_LLC_CONFIRM_LINK = 1,
	SMCR_LLC_ADD_LINK = 2,
	SMCR_LLC_ADD_LINK_CONT = 3, /* version 1 */
	SMCR_LLC_DELETE_LINK = 4,
	SMCR_LLC_REQUEST_ADD_LINK = 5, /* version 2 */
	SMCR_LLC_CONFIRM_RKEY = 6,
	SMCR_LLC_TEST_LINK = 7,
	SMCR_LLC_CONFIRM_RKEY_CONT = 8, /* version 1 */
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
	SMCR_LLC_DEL_UNKNOWN_LINK = 0x00100000,  /* replies only */
	SMCR_LLC_DEL_UNKNOWN_GROUP = 0x00200000, /* replies only, of deployed peers */
};

/** Byte order of the sender's processor (version 2). */
enum smcr_byte_order {
	SMCR_ORDER_UNKNOWN, /* sent as little endian */
	SMCR_ORDER_LITTLE,
	SMCR_ORDER_BIG,
};

struct smcr_llc_confirm_link {
	uint8_t mac[SMCR_MAC_LEN];
	uint8_t gid[SMCR_GID_LEN];
	uint32_t qpn;
	uint8_t link_number;
	uint32_t link_user_id;
	uint8_t max_links;
	uint8_t max_conns; /* version 2, release 1 on, as negotiated; else 0 */
	uint8_t flags; /* low bits as on the wire, R excluded: SMCR_LLC_CONFIRM_LINK_NO_EYE_CATCHER
			*/
};

/**
 * In version 2 a request or an accepting reply has an extension, with RTokens in struct
 * smcr_llc_rtokens. A rejecting reply repeats the request's fields; deployed peers give no reason,
 * so any Z is a refusal.
 */
struct smcr_llc_add_link {
	bool reject;           /* Z, replies only */
	uint8_t reject_reason; /* enum smcr_llc_reject, with Z; version 2: 0 from deployed peers */
	uint8_t mac[SMCR_MAC_LEN];
	uint8_t gid[SMCR_GID_LEN];
	uint32_t qpn;
	uint8_t link_number;
	uint8_t mtu; /* enum smcr_mtu; reserved codes are passed on (ERR-52 answers them) */
	uint32_t psn;
	/* version 2 */
	bool direct; /* no gateway between the new link's RoCE addresses */
	/* From deployed peers the same as `gid`: send that, ignore it when received. */
	uint8_t target_gid[SMCR_GID_LEN];
};

struct smcr_llc_rtoken_pair {
	uint32_t ref_rkey; /* this RMB's RKey on the link that carries the message */
	uint32_t new_rkey; /* same RMB on the new link */
	uint64_t new_vaddr;
};

/** RTokens of a version 2 ADD LINK: every RMB of the sender that is in use. Not part of the
 * message, for its size: who puts the message aside keeps them too. */
struct smcr_llc_rtokens {
	uint8_t count;
	struct smcr_llc_rtoken_pair pair[SMCR_MAX_RMBS];
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

/** Client to server in version 2: a device came up (instead of version 1's ADD LINK notice). The
 *  answer is the server's ADD LINK, or a reply that says no, by reject or by num_gids 0. */
struct smcr_llc_request_add_link {
	bool reject; /* replies only */
	uint8_t reject_reason;
	uint8_t num_gids; /* 0..8, in a request at least the first; of a longer list the first 8 */
	uint8_t gid[SMCR_LLC_MAX_GIDS][SMCR_GID_LEN]; /* the carrying link's, then alternates */
};

struct smcr_llc_link_rtoken {
	uint8_t link_number;
	uint32_t rkey;
	uint64_t vaddr;
};

struct smcr_llc_confirm_rkey {
	bool negative; /* Z, replies */
	bool retry;    /* C, replies */
	/* Other links, 0..8 (A10). Version 2 has room for two: refuse more, negative and retry. */
	uint8_t num_tokens;
	uint32_t rkey; /* on the carrying link */
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
	uint8_t count;       /* 1..8; version 2: 1..255 */
	uint8_t error_mask;  /* replies, version 1: 0x80 = first failed */
	uint8_t num_invalid; /* replies, version 2: how many were unknown */
	/* Of a reply in version 2 do not check them: deployed peers clear them, others may list the
	 * unknown ones only. What is not there is 0; we put the unknown ones first. */
	uint32_t rkey[SMCR_MAX_RMBS];
};

struct smcr_llc_test_link {
	uint8_t user_data[16];
};

/** A decoded LLC message. */
struct smcr_llc_msg {
	uint8_t type;               /* enum smcr_llc_type */
	bool reply;                 /* R */
	enum smcr_byte_order order; /* version 2: of the sender; to be sent: of the peer */
	union {
		struct smcr_llc_confirm_link confirm_link;
		struct smcr_llc_add_link add_link;
		struct smcr_llc_add_link_cont add_link_cont;
		struct smcr_llc_delete_link delete_link;
		struct smcr_llc_request_add_link request_add_link;
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

/**
 * Decode one SEND payload of version 2 that is not a CDC.
 * @param len          bytes received; what the header says does not count
 * @param ret_rtokens  filled with ADD LINK, emptied with every other message
 * @return 0; -EBADMSG (shorter than 44 bytes or than its counts, longer than SMCR_LLC_V2_MAX_LEN,
 *         count out of range); -EOPNOTSUP: a type that is none of version 2, to be dropped silently
 *         as deployed peers do
 */
int smcr_llc_decode_v2(const uint8_t *buf, size_t len, struct smcr_llc_msg *ret_msg,
		       struct smcr_llc_rtokens *ret_rtokens);

/**
 * Encode a message of version 2 in the byte order `msg->order`.
 * @param rtokens  for ADD LINK that does not reject; NULL means none
 * @return the length (44; ADD LINK 72 + 16 * RTokens; longer REQUEST ADD LINK and DELETE RKEY),
 *         -ENOBUFS or -EINVAL (a type that version 2 has not, a value out of range)
 */
int smcr_llc_encode_v2(const struct smcr_llc_msg *msg, const struct smcr_llc_rtokens *rtokens,
		       uint8_t *buf, size_t len);

/** In which layout may an ADD LINK of version 1 be? For all other messages there is one. */
enum smcr_llc_forms {
	SMCR_LLC_FORM_RFC = 1,
	SMCR_LLC_FORM_DEPLOYED = 2,
	SMCR_LLC_FORM_ANY = 3, /* it is not known which */
};

/**
 * Put zeros where a message that is not a CDC has keys, of whatever version it is and whether it is
 * sound or not: RTokens (RKeys and addresses) and initial PSNs. Nobody can speak for a peer with
 * what is left: link numbers, counts, MTUs, reasons, GIDs and queue pairs. Nothing but the first
 * four bytes is left of a type that is not known, nor anything behind the end of a type's layout.
 * For those who may look at messages, but not at keys.
 * @param forms  enum smcr_llc_forms
 * @return is there anything that was hidden, zeros or not?
 */
bool smcr_llc_hide_keys(uint8_t *buf, size_t len, unsigned int forms);

/** Name of a type as operators read it ("CONFIRM LINK"), or "unknown". Static storage. */
const char *smcr_llc_type_name(uint8_t type);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file clc.h
 * Connection Layer Control messages of version 1 (RFC 7609 3.2, A.2; CLC-1..17), and as much of the
 * version 2 Proposal and Decline as is needed to answer them in version 1 or to decline them.
 */
#ifndef SMCRD_PROTO_SMCR_CLC_H
#define SMCRD_PROTO_SMCR_CLC_H

#include "proto/smcr/wire.h"

#define SMCR_CLC_HEADER_LEN     8
#define SMCR_CLC_MAX_LEN        652 /* largest message that any deployed peer sends */
#define SMCR_CLC_MAX_PREFIXES   8
#define SMCR_CLC_ACCEPT_LEN     68
#define SMCR_CLC_DECLINE_LEN    28
#define SMCR_CLC_DECLINE_V2_LEN 44
#define SMCR_CLC_VERSION_1      1

enum smcr_clc_type {
	SMCR_CLC_PROPOSAL = 1,
	SMCR_CLC_ACCEPT = 2,
	SMCR_CLC_CONFIRM = 3,
	SMCR_CLC_DECLINE = 4,
};

/** One IPv6 prefix of a Proposal. */
struct smcr_clc_prefix {
	uint8_t addr[16];
	uint8_t len; /* bits, 0..128 */
};

/** Client to server: what the client is and where (A.2.2, CLC-5..7). */
struct smcr_clc_proposal {
	uint8_t version;  /* as received; encode writes version 1 */
	bool offers_r_v1; /* true for version 1; of version 2 as its type bits say (SMC-R v1) */
	bool offers_r_v2; /* version 2 only */
	uint8_t peer_id[SMCR_PEER_ID_LEN];
	uint8_t gid[SMCR_GID_LEN];
	uint8_t mac[SMCR_MAC_LEN];
	uint16_t ip_offset;    /* O of A.2.2; encode writes 0..40, growth area zero */
	uint32_t ipv4_subnet;  /* host byte order, 0 for IPv6 (A1: subnet number or mask) */
	uint8_t ipv4_mask_len; /* bits 0..32 */
	uint8_t num_prefixes;  /* 0..8, 0 for IPv4 */
	struct smcr_clc_prefix prefixes[SMCR_CLC_MAX_PREFIXES];
};

/** Accept and Confirm: RDMA credentials of the sender (A.2.3, A.2.4). */
struct smcr_clc_accept {
	uint8_t type;       /* SMCR_CLC_ACCEPT or SMCR_CLC_CONFIRM */
	bool first_contact; /* flag F; in a Confirm reserved by the RFC, set by deployed peers */
	uint8_t peer_id[SMCR_PEER_ID_LEN];
	uint8_t gid[SMCR_GID_LEN];
	uint8_t mac[SMCR_MAC_LEN];
	uint32_t qpn;       /* 24 bits */
	uint32_t rkey;      /* RMB RKey on this link */
	uint8_t rmbe_index; /* 1..255 */
	uint32_t alert_token;
	uint8_t bsize;      /* element size code, 0..5 */
	uint8_t mtu;        /* enum smcr_mtu; checked here with first_contact only (CLC-9) */
	uint64_t rmb_vaddr; /* start of the RMB on this link */
	uint32_t psn;       /* sender's initial send PSN, 24 bits */
};

/** Either side: back to TCP (A.2.5, CLC-13, CLC-14). */
struct smcr_clc_decline {
	uint8_t version;  /* 1, or 2 for the 44-byte form */
	bool out_of_sync; /* flag S */
	uint8_t peer_id[SMCR_PEER_ID_LEN];
	uint32_t diagnosis; /* sender defined; see reason.h */
};

/** A decoded message. */
struct smcr_clc_msg {
	enum smcr_clc_type type;
	uint16_t length; /* bytes on the wire */
	union {
		struct smcr_clc_proposal proposal;
		struct smcr_clc_accept accept; /* Accept and Confirm */
		struct smcr_clc_decline decline;
	};
};

/**
 * How long is the message that starts at `buf`? Reads the 8-byte header only (CLC-15), so that a
 * stream reader can take exactly that many bytes from TCP and no application byte after them.
 * @return length in bytes (header and trailer included, 28..652), -EAGAIN if len < 8, or -EBADMSG
 *         (eye catcher, type 0 or > 4, or a length no message of that type and version can have;
 *         of Accept and Confirm version 1 only)
 */
int smcr_clc_peek_length(const uint8_t *buf, size_t len);

/**
 * Decode one whole message of exactly `len` bytes.
 * @return 0, -EAGAIN (buffer shorter than the header says), -EBADMSG, -ENOTSUP (see wire.h): Bsize
 *         above 5, reserved MTU, version 0 of a Proposal, any but version 1 of Accept and Confirm
 */
int smcr_clc_decode(const uint8_t *buf, size_t len, struct smcr_clc_msg *ret_msg);

/** Encode a version 1 Proposal: 52 + ip_offset + 17 * num_prefixes bytes. */
int smcr_clc_encode_proposal(const struct smcr_clc_proposal *msg, uint8_t *buf, size_t len);
/** Encode an Accept or Confirm: 68 bytes. */
int smcr_clc_encode_accept(const struct smcr_clc_accept *msg, uint8_t *buf, size_t len);
/** Encode a Decline: 28 bytes (version 1) or 44 (version 2). */
int smcr_clc_encode_decline(const struct smcr_clc_decline *msg, uint8_t *buf, size_t len);
/** Encode whatever `msg->type` says (of a version 2 Proposal: not possible, -EINVAL). */
int smcr_clc_encode(const struct smcr_clc_msg *msg, uint8_t *buf, size_t len);

#endif

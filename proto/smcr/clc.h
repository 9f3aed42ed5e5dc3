/* SPDX-License-Identifier: MIT */
/**
 * @file clc.h
 * Connection Layer Control messages: version 1 (RFC 7609 3.2, A.2; CLC-1)
 * and version 2 of SMC-R as deployed peers speak it (docs/version-2.md). SMC-D is recognised in a
 * Proposal and skipped; its Accept and Confirm, with an eye catcher of their own, are parsing
 * errors: nobody offers it here.
 *
 * One set of structures serves both versions. What version 2 adds is zero in version 1, and version
 * 0 in a structure to be encoded means 1. Of a received message `version` is 0, 1 or 2: higher ones
 * have the form of 2 and are told as 2, as deployed peers treat them.
 */
#ifndef SMCRD_PROTO_SMCR_CLC_H
#define SMCRD_PROTO_SMCR_CLC_H

#include "proto/smcr/wire.h"

#define SMCR_CLC_HEADER_LEN          8
#define SMCR_CLC_MAX_LEN             652 /* the largest message of any deployed peer */
#define SMCR_CLC_MAX_PREFIXES        8
#define SMCR_CLC_MAX_EIDS            8
#define SMCR_CLC_MAX_GIDS            8
#define SMCR_CLC_ACCEPT_LEN          68
#define SMCR_CLC_ACCEPT_V2_LEN       108 /* later contact */
#define SMCR_CLC_ACCEPT_V2_FIRST_LEN 160 /* first contact; a Confirm has the GID list behind it */
#define SMCR_CLC_DECLINE_LEN         28
#define SMCR_CLC_DECLINE_V2_LEN      44
#define SMCR_CLC_VERSION_1           1
#define SMCR_CLC_VERSION_2           2

/* Limits of a link group that release 1 of version 2 negotiates. Release 0 means 255 and 2. */
#define SMCR_CLC_MIN_MAX_CONNS       16
#define SMCR_CLC_RELEASE_0_MAX_CONNS 255
#define SMCR_CLC_RELEASE_0_MAX_LINKS 2

/** The release of version 2 that this side offers; the smaller one of both sides is used. */
#define SMCR_CLC_RELEASE 1

enum smcr_clc_type {
	SMCR_CLC_PROPOSAL = 1,
	SMCR_CLC_ACCEPT = 2,
	SMCR_CLC_CONFIRM = 3,
	SMCR_CLC_DECLINE = 4,
};

/** Which SMC an Accept or Confirm of version 2 is for. */
enum smcr_clc_smc_type {
	SMCR_CLC_SMC_R = 0,
	SMCR_CLC_SMC_D = 1,
};

/** Operating system of a peer, for operators (version 2). */
enum smcr_clc_os {
	SMCR_CLC_OS_ZOS = 1,
	SMCR_CLC_OS_LINUX = 2,
	SMCR_CLC_OS_AIX = 3,
	SMCR_CLC_OS_UNKNOWN = 15,
};

/** One IPv6 prefix of a Proposal. */
struct smcr_clc_prefix {
	uint8_t addr[16];
	uint8_t len; /* bits, 0..128 */
};

/**
 * What a Proposal says about version 2.
 *
 * The server chooses the first EID that it has too (smcr_eid_choose()), the smaller release, and
 * for release 1 the smaller max_conns and max_links. It declines max_conns below
 * SMCR_CLC_MIN_MAX_CONNS and max_links of 0. It may connect its QP to `gid`; deployed servers do.
 */
struct smcr_clc_proposal_v2 {
	uint8_t num_eids; /* 0..8; 0 cannot be accepted */
	uint8_t eids[SMCR_CLC_MAX_EIDS][SMCR_EID_LEN];
	uint8_t release;           /* 0..15 */
	uint8_t gid[SMCR_GID_LEN]; /* RoCEv2 GID of the client's link */
	uint8_t max_conns;         /* a link group; release 1 on, else 0 */
	uint8_t max_links;         /* release 1 on, else 0 */
	uint16_t features;         /* release 1 on, else 0; bit 0: emulated ISM, none of ours */
};

/**
 * Client to server: what the client is and where (A.2.2, CLC-5, CLC-6, CLC-7).
 *
 * A client that offers version 2 fills in peer ID, GID and MAC even if it does not offer version 1:
 * deployed servers connect their QP to this MAC and to v2.gid. A server must accept zeros there: a
 * deployed client fills them in with version 1 only. A link group is found again by the values of
 * the Proposal.
 */
struct smcr_clc_proposal {
	uint8_t version;  /* 1: the form of version 1; 2: version 2, whatever is offered */
	bool offers_r_v1; /* true for version 1; of version 2 as its type bits say (SMC-R v1) */
	bool offers_r_v2; /* version 2 only */
	bool offers_d;    /* received: SMC-D of either version */
	uint8_t peer_id[SMCR_PEER_ID_LEN];
	uint8_t gid[SMCR_GID_LEN];
	uint8_t mac[SMCR_MAC_LEN];
	uint16_t ip_offset;    /* O of A.2.2; encode: 0..40 in version 1, computed in version 2 */
	uint32_t ipv4_subnet;  /* host byte order, 0 for IPv6 (A1: subnet number or mask) */
	uint8_t ipv4_mask_len; /* bits 0..32 */
	uint8_t num_prefixes;  /* 0..8, 0 for IPv4 */
	struct smcr_clc_prefix prefixes[SMCR_CLC_MAX_PREFIXES];
	struct smcr_clc_proposal_v2 v2; /* encode: with offers_r_v2 */
};

/**
 * First contact extension of version 2. The client's Confirm has to repeat release, max_conns and
 * max_links of the Accept exactly, or it is declined. Its features are those that both sides have.
 */
struct smcr_clc_first_contact {
	bool direct;     /* there is no gateway between the RoCE addresses: hop limit 1 */
	uint8_t os;      /* enum smcr_clc_os, 0..15 */
	uint8_t release; /* server: the smaller one; 0..15 */
	uint8_t host[SMCR_EID_LEN]; /* ASCII padded with blanks; smcr_eid_text() shows it */
	uint8_t max_conns;          /* release 1 on, else received and sent as 0 */
	uint8_t max_links;          /* the same */
	uint16_t features;          /* the same */
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
	uint8_t bsize;      /* element size code, 0..5; version 2: 0..15 */
	uint8_t mtu;        /* enum smcr_mtu; checked here with first_contact only (CLC-9) */
	uint64_t rmb_vaddr; /* start of the RMB on this link */
	uint32_t psn;       /* sender's initial send PSN, 24 bits */
	/* The receiver checks that version and SMC type are what it offered (CLC-4), and declines
	 * with VERSION_MISMATCH or MODE_MISMATCH. */
	uint8_t version;
	uint8_t smc_type; /* received in version 2: 0..3; has no credentials unless SMC_R */
	uint8_t eid[SMCR_EID_LEN]; /* version 2: chosen by the server, repeated by the client */
	struct smcr_clc_first_contact fce; /* version 2 with F */
	/* Confirm of version 2 with F: the GID of the link first, then others; at least the first
	 * is sent. Of a longer list these are the first 8. */
	uint8_t num_gids;
	uint8_t gids[SMCR_CLC_MAX_GIDS][SMCR_GID_LEN];
};

/**
 * Either side goes back to TCP (A.2.5, CLC-13, CLC-14). A server declines in the version of the
 * Proposal, a client in version 1 until an Accept has told it the version. Both forms may come in
 * place of any message, even the Proposal.
 */
struct smcr_clc_decline {
	uint8_t version;  /* 1, or 2 for the 44-byte form */
	bool out_of_sync; /* flag S; to be sent only if the receiver has assigned a link group */
	uint8_t peer_id[SMCR_PEER_ID_LEN];
	uint32_t diagnosis; /* sender defined; see reason.h */
	uint8_t os;         /* version 2: enum smcr_clc_os, 0..15 */
	uint32_t more[4];   /* version 2: further diagnoses; deployed peers send 0 */
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
 * The length of the message that starts at `buf`. Reads the 8-byte header only (CLC-15), so that a
 * reader of the stream takes exactly that many bytes from TCP, and no byte of the application after
 * them.
 * @return length in bytes (header and trailer included, 28..652), -EAGAIN if len < 8, or -EBADMSG
 *         (eye catcher, type 0 or > 4, or a length no message of that type and version can have)
 */
int smcr_clc_peek_length(const uint8_t *buf, size_t len);

/**
 * Decode one whole message of exactly `len` bytes, of either version. Every byte of a Proposal must
 * be known; an Accept or Confirm of version 2 may be longer than its known fields.
 * @return 0, -EAGAIN (buffer shorter than the header says), -EBADMSG, -ENOTSUP (see wire.h): Bsize
 *         above 5 in version 1, reserved MTU, version 0 (but of a Decline), SMC type not SMC-R
 */
int smcr_clc_decode(const uint8_t *buf, size_t len, struct smcr_clc_msg *ret_msg);

/**
 * Encode a Proposal: in version 1 52 + ip_offset + 17 * num_prefixes bytes; in version 2 84, and if
 * version 1 is offered 8 + 17 * num_prefixes more, and if version 2 is 40 + 32 * num_eids more.
 * @return the length, -ENOBUFS, or -EINVAL (a value out of range, nothing offered, offers_d)
 */
int smcr_clc_encode_proposal(const struct smcr_clc_proposal *msg, uint8_t *buf, size_t len);
/**
 * Encode an Accept or Confirm: 68 bytes; in version 2 108, with F 160, and a Confirm with F 164 +
 * 16 * num_gids.
 * @return the length, -ENOBUFS, or -EINVAL (a value out of range, GIDs where none are sent)
 */
int smcr_clc_encode_accept(const struct smcr_clc_accept *msg, uint8_t *buf, size_t len);
/** Encode a Decline: 28 bytes (version 1) or 44 (version 2). */
int smcr_clc_encode_decline(const struct smcr_clc_decline *msg, uint8_t *buf, size_t len);
/** Encode whatever `msg->type` says. */
int smcr_clc_encode(const struct smcr_clc_msg *msg, uint8_t *buf, size_t len);

/** Name of an operating system as operators read it, or "unknown". Static storage. */
const char *smcr_clc_os_name(uint8_t os);

#endif

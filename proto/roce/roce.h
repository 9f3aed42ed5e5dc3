/* SPDX-License-Identifier: MIT */
/**
 * @file roce.h
 * RoCEv2 packets as the payload of a UDP datagram: BTH, at most one of RETH, AETH, IETH and DETH,
 * payload, padding, ICRC (InfiniBand Architecture Specification Volume 1, chapter 9, and Annex
 * A17).
 *
 * Of the reliable-connected service smcrd uses SEND, with or without invalidate, RDMA WRITE, RDMA
 * READ, ACKNOWLEDGE and congestion notifications. Other valid requests are recognised, so that they
 * can be answered with "invalid request". Of the unreliable datagrams it uses SEND ONLY, for
 * connection management.
 *
 * The functions only compute and are thread safe. Numbers in structures are in host byte order.
 */
#ifndef SMCRD_PROTO_ROCE_ROCE_H
#define SMCRD_PROTO_ROCE_ROCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROCE_UDP_PORT 4791
#define ROCE_BTH_LEN  12
#define ROCE_RETH_LEN 16
#define ROCE_AETH_LEN 4
#define ROCE_IETH_LEN 4
#define ROCE_DETH_LEN 8
#define ROCE_ICRC_LEN 4
#define ROCE_ACK_LEN  (ROCE_BTH_LEN + ROCE_AETH_LEN + ROCE_ICRC_LEN)
/** A congestion notification has 16 reserved bytes behind its BTH (A17.9.3). */
#define ROCE_CNP_RESERVED 16
#define ROCE_CNP_LEN      (ROCE_BTH_LEN + ROCE_CNP_RESERVED + ROCE_ICRC_LEN)
#define ROCE_MAX_HEADER   (ROCE_BTH_LEN + ROCE_RETH_LEN)
#define ROCE_MAX_PAYLOAD  4096
#define ROCE_MIN_LEN      (ROCE_BTH_LEN + ROCE_ICRC_LEN)
#define ROCE_MAX_LEN      (ROCE_MAX_HEADER + ROCE_MAX_PAYLOAD + ROCE_ICRC_LEN)
/** Bytes around a payload: IPv4 and UDP headers, and the largest RoCE header and trailer. */
#define ROCE_IPV4_OVERHEAD (20 + 8 + ROCE_MAX_HEADER + ROCE_ICRC_LEN)

#define ROCE_PKEY_DEFAULT 0xFFFF
#define ROCE_QPN_MASK     0xFFFFFFu
#define ROCE_PSN_MASK     0xFFFFFFu

/** Supported opcodes: those of the reliable-connected service, unreliable datagrams, and RoCEv2's
 * congestion notification. */
enum roce_opcode {
	ROCE_SEND_FIRST = 0x00,
	ROCE_SEND_MIDDLE = 0x01,
	ROCE_SEND_LAST = 0x02,
	ROCE_SEND_ONLY = 0x04,
	ROCE_WRITE_FIRST = 0x06,
	ROCE_WRITE_MIDDLE = 0x07,
	ROCE_WRITE_LAST = 0x08,
	ROCE_WRITE_ONLY = 0x0A,
	ROCE_READ_REQUEST = 0x0C,
	ROCE_READ_RESPONSE_FIRST = 0x0D,
	ROCE_READ_RESPONSE_MIDDLE = 0x0E,
	ROCE_READ_RESPONSE_LAST = 0x0F,
	ROCE_READ_RESPONSE_ONLY = 0x10,
	ROCE_ACKNOWLEDGE = 0x11,
	ROCE_SEND_LAST_INVALIDATE = 0x16,
	ROCE_SEND_ONLY_INVALIDATE = 0x17,
	ROCE_UD_SEND_ONLY = 0x64, /* unreliable datagram */
	ROCE_CONGESTION = 0x81,   /* CNP: the network has marked packets of the receiver's QP */
};

/** Base transport header. */
struct roce_bth {
	uint8_t opcode;
	bool solicited;
	bool migrated;
	uint8_t pad; /* 0..3 bytes between payload and ICRC */
	uint16_t pkey;
	bool becn;        /* backward congestion: set in a CNP */
	uint32_t dest_qp; /* 24 bits */
	bool ack_req;
	uint32_t psn; /* 24 bits */
};

/** RDMA extended transport header: FIRST and ONLY packets of an RDMA WRITE, and RDMA READ requests.
 */
struct roce_reth {
	uint64_t va;
	uint32_t rkey;
	uint32_t length; /* length of the whole message */
};

/** Kind of an AETH (top bits of its syndrome). */
enum roce_ack_kind {
	ROCE_ACK = 0,
	ROCE_RNR_NAK = 1,
	ROCE_ACK_RESERVED = 2,
	ROCE_NAK = 3,
};

enum roce_nak_code {
	ROCE_NAK_PSN_SEQUENCE = 0,
	ROCE_NAK_INVALID_REQUEST = 1,
	ROCE_NAK_REMOTE_ACCESS = 2,
	ROCE_NAK_REMOTE_OPERATIONAL = 3,
};

/** Credit code of an ACK whose responder gives no end-to-end credits. */
#define ROCE_CREDITS_UNLIMITED 31

/** ACK extended transport header. */
struct roce_aeth {
	enum roce_ack_kind kind;
	uint8_t value; /* 5 bits: credit code, RNR timer code or enum roce_nak_code */
	uint32_t msn;  /* 24 bits: messages completed by the responder */
};

/** Datagram extended transport header. */
struct roce_deth {
	uint32_t qkey;
	uint32_t src_qp; /* 24 bits */
};

/** The header behind the BTH. Which one it is, if any, depends on the opcode. */
union roce_ext {
	struct roce_reth reth; /* WRITE FIRST and ONLY, READ request */
	struct roce_aeth aeth; /* ACKNOWLEDGE, READ response FIRST, LAST and ONLY */
	uint32_t invalidate;   /* IETH, SEND WITH INVALIDATE: the rkey of the receiver that dies */
	struct roce_deth deth; /* UD */
};

/** A decoded packet; `payload` points into the decoded buffer. */
struct roce_packet {
	struct roce_bth bth;
	union {
		union roce_ext ext; /* and what is in it, by shorter names: */
		struct roce_reth reth;
		struct roce_aeth aeth;
		uint32_t invalidate;
		struct roce_deth deth;
	};
	size_t header_len;
	const uint8_t *payload;
	size_t payload_len; /* padding and ICRC excluded */
	uint32_t icrc;      /* as stored */
};

/** True for the opcodes that carry a RETH. */
static inline bool roce_has_reth(uint8_t opcode)
{
	return opcode == ROCE_WRITE_FIRST || opcode == ROCE_WRITE_ONLY ||
	       opcode == ROCE_READ_REQUEST;
}

/** True for the SENDs that carry an IETH. */
static inline bool roce_invalidates(uint8_t opcode)
{
	return opcode == ROCE_SEND_LAST_INVALIDATE || opcode == ROCE_SEND_ONLY_INVALIDATE;
}

/** True for what a responder sends: ACKNOWLEDGE and RDMA READ responses. Its PSNs are those of the
 * requester. */
static inline bool roce_is_answer(uint8_t opcode)
{
	return opcode >= ROCE_READ_RESPONSE_FIRST && opcode <= ROCE_ACKNOWLEDGE;
}

/** `a - b` of packet sequence numbers as a signed number, -2^23 .. 2^23 - 1. */
static inline int32_t roce_psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

/**
 * Decode a UDP payload. The ICRC is not checked here (icrc.h).
 * @return 0; -EBADMSG: too short or long, another transport or header version, an opcode that no
 *         requester or responder of ours can be sent, or lengths that do not fit the opcode;
 *         -ENOTSUP: a sound RC request that is not understood (atomic, immediate data): only `bth`,
 *         `header_len` and `icrc` of `ret_packet` are filled
 */
int roce_decode(const uint8_t *buf, size_t len, struct roce_packet *ret_packet);

/** Write a BTH, RETH or AETH to exactly ROCE_{BTH,RETH,AETH}_LEN bytes. */
void roce_encode_bth(const struct roce_bth *bth, uint8_t *buf);
void roce_encode_reth(const struct roce_reth *reth, uint8_t *buf);
void roce_encode_aeth(const struct roce_aeth *aeth, uint8_t *buf);
/** Length of the header that packets with a supported `opcode` have behind their BTH, 0 if none. */
size_t roce_ext_len(uint8_t opcode);
/** Write the header of `opcode` behind the BTH to exactly roce_ext_len() bytes. @return that length
 */
size_t roce_encode_ext(uint8_t opcode, const union roce_ext *ext, uint8_t *buf);

/** Number of receive buffers that a credit code 0..30 stands for. */
uint32_t roce_credits_decode(uint8_t code);
/** Largest credit code 0..30 that stands for no more than `credits` buffers. */
uint8_t roce_credits_encode(uint32_t credits);
/** Microseconds that an RNR NAK timer code 0..31 stands for. */
uint32_t roce_rnr_timer_us(uint8_t code);

/** Name of an opcode as operators read it ("RDMA WRITE ONLY"), or "unknown". Static storage. */
const char *roce_opcode_name(uint8_t opcode);

#endif

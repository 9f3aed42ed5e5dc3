/* SPDX-License-Identifier: MIT */
/**
 * @file reason.h
 * Why a connection did not use SMC-R: Decline diagnosis codes with a name and a sentence each.
 * The RFC leaves the values to the sender (CLC-13); ours are those that deployed peers use, where
 * one fits, and 0x0a...... for our own.
 */
#ifndef SMCRD_PROTO_SMCR_REASON_H
#define SMCRD_PROTO_SMCR_REASON_H

#include <stddef.h>
#include <stdint.h>

enum smcr_reason {
	SMCR_REASON_NONE = 0,
	SMCR_REASON_NO_MEMORY = 0x01010000,
	SMCR_REASON_CONFIRM_LINK_FAILED = 0x02010000,
	SMCR_REASON_ADD_LINK_FAILED = 0x02020000,
	SMCR_REASON_CONFIG = 0x03000000,
	SMCR_REASON_PEER_NO_SMC = 0x03010000,
	SMCR_REASON_LOCAL_POLICY = 0x03010001,
	SMCR_REASON_IPSEC = 0x03020000,
	SMCR_REASON_NO_DEVICE = 0x03030000,
	SMCR_REASON_NO_R_DEVICE = 0x03030002,
	/* version 2 */
	SMCR_REASON_NO_UEID = 0x03030008,
	SMCR_REASON_RELEASE_MISMATCH = 0x03030009,
	SMCR_REASON_MAX_CONNS = 0x0303000a,
	SMCR_REASON_MAX_LINKS = 0x0303000b,
	SMCR_REASON_MODE_MISMATCH = 0x03040000,
	SMCR_REASON_EYE_CATCHER = 0x03050000,
	SMCR_REASON_SOCKET_OPTION = 0x03060000,
	SMCR_REASON_PREFIX_MISMATCH = 0x03070000,
	SMCR_REASON_VLAN = 0x03080000,
	SMCR_REASON_NO_ACTIVE_LINK = 0x030a0000,
	SMCR_REASON_UNKNOWN_LINK = 0x030b0000,
	SMCR_REASON_VERSION_MISMATCH = 0x030c0000,
	SMCR_REASON_NO_ROUTE = 0x030e0000,     /* version 2 */
	SMCR_REASON_NOT_INDIRECT = 0x030f0000, /* version 2 */
	SMCR_REASON_OUT_OF_SYNC = 0x04000000,
	SMCR_REASON_PEER_DECLINED =
		0x05000000, /* local record only; the peer's code stands beside it */
	SMCR_REASON_INTERNAL = 0x09990000,
	SMCR_REASON_RTOKEN = 0x09990001,
	SMCR_REASON_QP_NOT_READY = 0x09990002,
	SMCR_REASON_RKEY_EXCHANGE = 0x09990003,
	SMCR_REASON_BAD_ENUM = 0x0a000001, /* reserved MTU or element size in a sound message */
	SMCR_REASON_RMBE_EXHAUSTED = 0x0a000002, /* 255 RMBs or the memory budget used up */
	SMCR_REASON_PEER_SKIPPED = 0x0a000003,   /* SMC-R with it failed a moment ago */
	SMCR_REASON_NO_BPF = 0x0a000004,         /* the TCP option cannot be sent on this host */
	SMCR_REASON_SHUTTING_DOWN = 0x0a000005,
	SMCR_REASON_NOT_CLAIMED = 0x0a000006,   /* socket was not prepared by the preload library */
	SMCR_REASON_NO_ANSWER = 0x0a000008,     /* local record only: the rendezvous broke */
	SMCR_REASON_PATH_MTU = 0x0a000009,      /* small packets pass, full-size ones do not */
	SMCR_REASON_UEID_MISMATCH = 0x0a000007, /* version 2: deployed peers say NO_DEVICE for it */
	SMCR_REASON_LIMIT = 0x0a000010,
	SMCR_REASON_NO_DESCRIPTORS = 0x0a000011,
	SMCR_REASON_NO_DAEMON = 0x0a000012, /* promised in the handshake, and nobody is there */
	SMCR_REASON_DRAINING = 0x0a000013,  /* an operator wants no new ones (smcrctl drain) */
	SMCR_REASON_OPTION_REMOVED = 0x0a000014, /* this host has taken the TCP option out */
	/* what this host steers by (smcrctl policy) */
	SMCR_REASON_OWN_HOST = 0x0a000020,
	SMCR_REASON_SHORT_CONNECTIONS = 0x0a000021,
	SMCR_REASON_BARRED = 0x0a000022,        /* others may accept from its listener */
	SMCR_REASON_OTHER_NETWORK = 0x0a000023, /* a network namespace without this smcrd */
	SMCR_REASON_TCP_MESSAGES = 0x0a000030,  /* the program wants timestamps, or the like */
};

/** Short stable name ("prefix-mismatch"), or "unknown". Static storage. */
const char *smcr_reason_name(uint32_t code);

/**
 * The reasons of both sides as one sentence.
 * @param own   this side's reason
 * @param peer  the code with which the peer declined; 0: it did not decline
 * @param len   size of `ret_text`; a longer sentence is cut
 */
void smcr_reason_sentence(uint32_t own, uint32_t peer, char *ret_text, size_t len);

/** A sentence for people, or "the peer gave a code that only its own documentation explains". */
const char *smcr_reason_text(uint32_t code);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file wire.h
 * What all SMC-R messages have in common. Version 1 is RFC 7609 Appendix A; version 2 is what
 * deployed peers send over RoCEv2 (docs/version-2.md).
 *
 * Functions below proto/ only compute: they do not allocate, do I/O, read a clock, use globals or
 * log. Decoders take a bounded buffer and never read past it. They return
 *   0         the message is sound and `ret_` was filled,
 *   -EAGAIN   more bytes are needed (stream messages only),
 *   -EBADMSG  parsing error: eye catcher, length or format (ERR-13),
 *   -ENOTSUP  sound message with a reserved enumerated value (ERR-12); `ret_` was filled.
 * Encoders return the number of bytes written, or -ENOBUFS / -EINVAL.
 * All functions are thread safe.
 */
#ifndef SMCRD_PROTO_SMCR_WIRE_H
#define SMCRD_PROTO_SMCR_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SMCR_EYE_CATCHER     0xE2D4C3D9u /* "SMCR" in IBM-1047; CLC, RMBE and the TCP option */
#define SMCR_PEER_ID_LEN     8
#define SMCR_GID_LEN         16
#define SMCR_MAC_LEN         6
#define SMCR_QPN_MAX         0xFFFFFFu
#define SMCR_PSN_MASK        0xFFFFFFu
#define SMCR_MAX_LINKS       8   /* symmetric links of a group (LG-6) */
#define SMCR_MAX_LINKS_TOTAL 9   /* these and one asymmetric link */
#define SMCR_MAX_RMBS        255 /* RMBs of one peer in a link group (LG-13) */
#define SMCR_MAX_ELEMENTS    255 /* elements of an RMB (LG-13) */
#define SMCR_BSIZE_MAX       5   /* element size code: 16 KiB << code (CLC-8) */
#define SMCR_BSIZE_MAX_V2    15  /* 512 MiB: received in version 2; no more than 5 is ever sent */
#define SMCR_EID_LEN         32  /* enterprise ID (version 2), see eid.h */

/** Which of two field layouts and cursor bases a link group uses (docs/dialects.md). */
enum smcr_dialect {
	SMCR_DIALECT_RFC,      /* ADD LINK as in RFC 7609 A.3.2, RMBE eye catcher, cursors from 4 */
	SMCR_DIALECT_DEPLOYED, /* ADD LINK fields two bytes later, no eye catcher, cursors from 0 */
};

/** Path MTU codes as on the wire (CLC-9): 1=256 2=512 3=1024 4=2048 5=4096. */
enum smcr_mtu {
	SMCR_MTU_256 = 1,
	SMCR_MTU_512 = 2,
	SMCR_MTU_1024 = 3,
	SMCR_MTU_2048 = 4,
	SMCR_MTU_4096 = 5,
};

/** True for the codes 1..5. */
static inline bool smcr_mtu_valid(uint8_t code)
{
	return code >= SMCR_MTU_256 && code <= SMCR_MTU_4096;
}

/** Bytes of a path MTU code; the code must be valid. */
static inline uint32_t smcr_mtu_bytes(uint8_t code)
{
	return 128u << code;
}

/** Element size in bytes of a Bsize code: 0..5 (16 KiB .. 512 KiB), in version 2 up to 15. */
static inline uint32_t smcr_bsize_bytes(uint8_t code)
{
	return 16384u << code;
}

#endif

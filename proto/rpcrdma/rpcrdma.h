/* SPDX-License-Identifier: MIT */
/**
 * @file rpcrdma.h
 * Headers of RPC-over-RDMA versions 1 (RFC 8166) and 2 (draft-ietf-nfsv4-rpcrdma-version-two-01),
 * and the private data of RFC 8797. docs/rpcrdma-readings.md has the layouts.
 *
 * A message is the payload of one RDMA SEND: a prefix, then what its type says, then, in an MSG,
 * the RPC message or a part of it (RR2-11).
 *
 *   header.c      the prefix
 *   lists.c       lists of chunks: MSG and NOMSG
 *   error.c       ERROR
 *   properties.c  CONNPROP
 *   private.c     RFC 8797
 *
 * As everything below proto/, these functions only compute and are thread safe. Numbers are in host
 * byte order; on the wire they are big-endian (RR2-10). Decoders go through lists in a loop, and
 * store no more than there is room for (RR2-14).
 */
#ifndef SMCRD_PROTO_RPCRDMA_RPCRDMA_H
#define SMCRD_PROTO_RPCRDMA_RPCRDMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RPCRDMA_V1 = 1, RPCRDMA_V2 = 2 };

/** Types of messages (RR2-19). MSGP and DONE are of version 1 only (RR2-20). */
enum {
	RPCRDMA_MSG = 0,
	RPCRDMA_NOMSG = 1,
	RPCRDMA_MSGP = 2,
	RPCRDMA_DONE = 3,
	RPCRDMA_ERROR = 4,
	RPCRDMA_CONNPROP = 5,
};

/** Flags of version 2. */
enum {
	RPCRDMA_F_RESPONSE = 0x1, /* it goes from a Responder to a Requester */
	RPCRDMA_F_MORE = 0x2,     /* the RPC message goes on in the next one */
	RPCRDMA_F_TPMORE = 0x4,   /* another CONNPROP follows */
	RPCRDMA_FLAGS = 0x7,      /* all that are known */
};

enum {
	RPCRDMA_LEAST_LEN = 20, /* of any message of either version (RR2-25) */
	RPCRDMA_V1_PREFIX_LEN = 16,
	RPCRDMA_V2_PREFIX_LEN = 20,
	RPCRDMA_V1_HEADER_LEN = 28, /* of MSG and NOMSG without chunks (RR2-193) */
	RPCRDMA_V2_HEADER_LEN = 36,
	RPCRDMA_CREDIT_ONLY_LEN = 36, /* a NOMSG that only grants credits (RR2-47) */
	/** Thresholds if nothing else was agreed (RR2-58, RR2-196). */
	RPCRDMA_V1_THRESHOLD = 1024,
	RPCRDMA_V2_THRESHOLD = 4096,
	RPCRDMA_V2_FIRST_LEN = 1024, /* the longest first message of a client (RR2-31) */
};

/* ---- the prefix */

struct rpcrdma_prefix {
	uint32_t xid;
	uint32_t version;
	uint32_t credit; /* version 1: a number; version 2: see rpcrdma_credit() */
	uint32_t type;
	uint32_t flags; /* version 2: those of RPCRDMA_FLAGS; else 0 */
};

/** The credit word of version 2: the most credits that the sender ever grants at one time, and how
 * many it grants with this message (RR2-43). */
static inline uint32_t rpcrdma_credit(uint16_t limit, uint16_t granted)
{
	return (uint32_t)limit << 16 | granted;
}

/** Bytes of the prefix in a version: 16 or 20. */
size_t rpcrdma_prefix_len(uint32_t version);
/**
 * Decode. The prefix of an unknown version has the fields that all versions have (RR2-15). Flags
 * that are not known are not looked at (RR2-12).
 * @return 0; -EBADMSG: shorter than any message
 */
int rpcrdma_decode_prefix(const uint8_t *buf, size_t len, struct rpcrdma_prefix *ret_prefix);
/** @return bytes: rpcrdma_prefix_len() */
size_t rpcrdma_encode_prefix(const struct rpcrdma_prefix *prefix,
			     uint8_t buf[RPCRDMA_V2_PREFIX_LEN]);

/* ---- lists of chunks */

enum {
	RPCRDMA_MOST_READS = 64,    /* segments of a Read list that are stored */
	RPCRDMA_MOST_WRITES = 32,   /* chunks of a Write list */
	RPCRDMA_MOST_SEGMENTS = 64, /* segments of the Write list and the Reply chunk together */
	/** The longest lists that can be stored, encoded. */
	RPCRDMA_MOST_LISTS_LEN = 4 + 4 + 24 * RPCRDMA_MOST_READS + 4 + 8 * RPCRDMA_MOST_WRITES + 8 +
				 16 * RPCRDMA_MOST_SEGMENTS,
};

/** Memory of the Requester (RR2-2). */
struct rpcrdma_segment {
	uint32_t handle;
	uint32_t length;
	uint64_t offset;
};

/** A segment of a Read chunk. Those with the same position are one chunk (RR2-101). */
struct rpcrdma_read {
	uint32_t position; /* in the payload before anything was taken out of it; 0: all of it */
	struct rpcrdma_segment segment;
};

/** A Write chunk, or the Reply chunk: some segments of the lists. */
struct rpcrdma_chunk {
	uint32_t first, count;
};

struct rpcrdma_lists {
	uint32_t inv_handle; /* version 2: what the Reply may invalidate; 0: nothing */
	uint32_t num_reads, num_writes, num_segments;
	bool has_reply;
	struct rpcrdma_chunk reply;
	struct rpcrdma_chunk writes[RPCRDMA_MOST_WRITES];
	struct rpcrdma_read reads[RPCRDMA_MOST_READS];
	struct rpcrdma_segment segments[RPCRDMA_MOST_SEGMENTS];
};

/**
 * Decode what follows the prefix of an MSG or NOMSG.
 * @param ret_len  bytes of the lists; the RPC message, if any, is behind them
 * @return 0; -EBADMSG: no such lists; -E2BIG: more than can be stored; then only the numbers in
 *         `ret_lists` are good, and `ret_len`
 */
int rpcrdma_decode_lists(const uint8_t *buf, size_t len, uint32_t version,
			 struct rpcrdma_lists *ret_lists, size_t *ret_len);
/** Bytes that the lists take, encoded. */
size_t rpcrdma_lists_len(const struct rpcrdma_lists *lists, uint32_t version);
/** @return bytes; 0: more than `room` */
size_t rpcrdma_encode_lists(const struct rpcrdma_lists *lists, uint32_t version, uint8_t *buf,
			    size_t room);
bool rpcrdma_lists_empty(const struct rpcrdma_lists *lists);

/* ---- errors */

enum {
	RPCRDMA_ERR_VERS = 1,
	RPCRDMA_ERR_BAD_XDR = 2,
	RPCRDMA_ERR_CHUNK = 2, /* in version 1 */
	RPCRDMA_ERR_BAD_PROPVAL = 3,
	RPCRDMA_ERR_INVAL_HTYPE = 4,
	RPCRDMA_ERR_INVAL_CONT = 5,
	RPCRDMA_ERR_READ_CHUNKS = 6,
	RPCRDMA_ERR_WRITE_CHUNKS = 7,
	RPCRDMA_ERR_SEGMENTS = 8,
	RPCRDMA_ERR_WRITE_RESOURCE = 9,
	RPCRDMA_ERR_REPLY_RESOURCE = 10,
	RPCRDMA_ERR_SYSTEM = 100,
};

/** What an ERROR says. The numbers are: VERS: lowest and highest version; READ_CHUNKS,
 * WRITE_CHUNKS and SEGMENTS: the most; WRITE_RESOURCE: the chunk, counted from 1, and bytes that it
 * needs; REPLY_RESOURCE: bytes needed. */
struct rpcrdma_error {
	uint32_t code;
	uint32_t first, second;
};

enum { RPCRDMA_ERROR_MOST_LEN = 12 };

/** Decode what follows the prefix of an ERROR. Of an unknown code only the code is looked at.
 * @return 0; -EBADMSG: not as long as its code asks */
int rpcrdma_decode_error(const uint8_t *buf, size_t len, uint32_t version,
			 struct rpcrdma_error *ret_error);
/** @return bytes */
size_t rpcrdma_encode_error(const struct rpcrdma_error *error, uint8_t buf[RPCRDMA_ERROR_MOST_LEN]);
/** Is it a code that the version knows? (RR2-149) */
bool rpcrdma_error_is_known(uint32_t version, uint32_t code);
/**
 * Is this whole message an ERROR in the form of version 1? A peer that speaks only that answers a
 * message of another version with its number (RR2-39).
 */
bool rpcrdma_decode_foreign_error(const uint8_t *buf, size_t len, struct rpcrdma_error *ret_error);

/* ---- properties */

/** What a peer does in the reverse direction. */
enum rpcrdma_reverse {
	RPCRDMA_REVERSE_NONE = 0,
	RPCRDMA_REVERSE_SIMPLE = 1,    /* Calls without chunks, in one message */
	RPCRDMA_REVERSE_CONTINUED = 2, /* or in many [X1] */
	RPCRDMA_REVERSE_GENERAL = 3,   /* as in the forward direction */
};

enum { RPCRDMA_LEAST_SIZE = 128 }; /* of a SEND that a peer may ask for (RR2-78) */

struct rpcrdma_properties {
	uint32_t send_size;     /* bytes of the longest SEND of the sender */
	uint32_t receive_size;  /* bytes of its smallest receive */
	uint32_t segment_size;  /* bytes of the longest segment */
	uint32_t segment_count; /* most segments in one header */
	enum rpcrdma_reverse reverse;
	const uint8_t *hostauth; /* NULL: not there */
	uint32_t hostauth_len;
};

/** The values of a peer that says nothing (RR2-63, RR2-64, RR2-65, RR2-66, RR2-67). */
extern const struct rpcrdma_properties rpcrdma_default_properties;

/**
 * Decode what follows the prefix of a CONNPROP, and change the properties that it has (RR2-71). A
 * value that is empty is the default (RR2-69). Unknown properties are passed over (RR2-70,
 * RR2-175).
 * @param properties  changed if 0 is returned; `hostauth` points into `buf` then
 * @return 0; -EBADMSG: no list of properties [X30]; -EINVAL: one has a bad value; nothing was
 *         changed (RR2-72, RR2-73)
 */
int rpcrdma_decode_properties(const uint8_t *buf, size_t len,
			      struct rpcrdma_properties *properties);
/** Encode all of them, HOSTAUTH if it is there. @return bytes; 0: more than `room` */
size_t rpcrdma_encode_properties(const struct rpcrdma_properties *properties, uint8_t *buf,
				 size_t room);
/** Is this number in a set of properties? The set is a count, then words of 32 bits (RR2-77).
 * @return 1 or 0; -EBADMSG: no such set */
int rpcrdma_propset_has(const uint8_t *buf, size_t len, uint32_t item);

/* ---- private data of RFC 8797 */

enum {
	RPCRDMA_PRIVATE_LEN = 8,
	RPCRDMA_PRIVATE_MOST_SIZE = 256 * 1024,
};

struct rpcrdma_private {
	bool invalidates;   /* a SEND with Invalidate may come to the sender */
	uint32_t send_size; /* bytes, 1024..262144 */
	uint32_t receive_size;
};

/** Encode. Sizes are rounded down to 1024 bytes (RR2-197). */
void rpcrdma_encode_private(const struct rpcrdma_private *private_data,
			    uint8_t buf[RPCRDMA_PRIVATE_LEN]);
/** @return 0; -EBADMSG: something else, which is to be ignored */
int rpcrdma_decode_private(const uint8_t *buf, size_t len, struct rpcrdma_private *ret_private);

#endif

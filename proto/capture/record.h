/* SPDX-License-Identifier: MIT */
/**
 * @file record.h
 * Records in the ring of a capture (ring.h). Each begins with its type. A link is described before
 * the first message on it, and again when smcrd no longer knows that it has described the link. A
 * message of the connection manager belongs to no link, and its record says all.
 */
#ifndef SMCRD_PROTO_CAPTURE_RECORD_H
#define SMCRD_PROTO_CAPTURE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/ibcm/ibcm.h"

#define CAPTURE_NAME_LEN 64
#define CAPTURE_PEER_LEN 48
/** Most bytes of a message in a record. Of a longer message the record has the first bytes. */
#define CAPTURE_DATA_MAX (1u << 20)

enum capture_type {
	CAPTURE_LINK = 1,
	CAPTURE_MESSAGE = 2,
	CAPTURE_MAD = 3,
};

/** One end of a link. */
struct capture_end {
	uint8_t gid[16]; /* IPv4 as ::ffff:a.b.c.d */
	uint8_t mac[6];  /* zero: not known */
	uint8_t reserved[2];
	uint32_t qpn;
	uint32_t reserved2;
};

struct capture_link {
	uint32_t type; /* CAPTURE_LINK */
	uint32_t rnic; /* 0..CAPTURE_RNICS - 1: index of its count of lost messages */
	uint64_t link; /* number by which messages refer to the link */
	uint32_t group;
	uint8_t number;   /* number of the link in its group */
	uint8_t path_mtu; /* code 1..5 = 256..4096 bytes */
	uint8_t reserved[2];
	struct capture_end local, peer;
	char name[CAPTURE_NAME_LEN];      /* name of the RNIC, NUL terminated */
	char peer_host[CAPTURE_PEER_LEN]; /* peer's address in the TCP connection, NUL terminated */
};

enum {
	CAPTURE_SENT = 1 << 0,   /* else it was received */
	CAPTURE_WRITE = 1 << 1,  /* an RDMA WRITE, else a SEND */
	CAPTURE_HIDDEN = 1 << 2, /* keys in the message are zero: only root may see them */
};

/** A message; its bytes follow in the record. */
struct capture_message {
	uint32_t type; /* CAPTURE_MESSAGE */
	uint32_t flags;
	uint64_t link;
	uint64_t time_ns;     /* since 1970 */
	uint64_t lost;        /* how many messages of the RNIC were lost before this one */
	uint64_t remote_addr; /* WRITE */
	uint32_t rkey;        /* WRITE */
	uint32_t length;      /* of the message; at most CAPTURE_DATA_MAX bytes of it follow */
};

/** A message of the connection manager; its IBCM_MAD_LEN bytes follow in the record. */
struct capture_mad {
	uint32_t type; /* CAPTURE_MAD */
	uint32_t flags;
	uint32_t rnic;      /* as in struct capture_link */
	uint16_t peer_port; /* the peer's UDP port; 0: not known */
	uint8_t reserved[2];
	uint64_t time_ns, lost; /* as in struct capture_message */
	struct capture_end local, peer;
	char name[CAPTURE_NAME_LEN];
};

_Static_assert(sizeof(struct capture_end) == 32 && sizeof(struct capture_link) == 200 &&
		       sizeof(struct capture_message) == 48 && sizeof(struct capture_mad) == 160,
	       "smcrd and smcrctl may be of different builds");

/** Decode a record of `len` bytes. @return false: it is of another type, or malformed */
bool capture_link_take(const void *record, size_t len, struct capture_link *ret_link);
bool capture_message_take(const void *record, size_t len, struct capture_message *ret_message,
			  const uint8_t **ret_data, uint32_t *ret_data_len);
bool capture_mad_take(const void *record, size_t len, struct capture_mad *ret_mad,
		      const uint8_t **ret_bytes);

#endif

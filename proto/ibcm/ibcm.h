/* SPDX-License-Identifier: MIT */
/**
 * @file ibcm.h
 * Messages of the InfiniBand connection manager (CM): the general management datagrams (MADs) by
 * which two hosts agree on a reliable-connected queue pair (InfiniBand Architecture Specification
 * Volume 1, chapter 12; chapter 13.4 for the MAD). A MAD is the payload of a SEND to queue pair 1.
 *
 * One side sends REQ, the other one REP, and the first one RTU. MRA asks for patience, REJ refuses,
 * DREQ and DREP end a connection. SIDR asks for a datagram queue pair, which smcrd has none of: its
 * request is decoded so that it can be refused.
 *
 * As everything below proto/, these functions only compute and are thread safe. Numbers are in host
 * byte order. GIDs and private data are bytes as on the wire.
 */
#ifndef SMCRD_PROTO_IBCM_IBCM_H
#define SMCRD_PROTO_IBCM_IBCM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IBCM_MAD_LEN 256
#define IBCM_GID_LEN 16
/** The queue pair of the CM, and the Q_Key that its datagrams have to carry (CM-1). */
#define IBCM_QPN  1
#define IBCM_QKEY 0x80010000u

/** A service id of the RDMA IP CM service (Annex A11): this plus a port of the space of TCP
 * (CM-5). */
#define IBCM_SERVICE_TCP 0x0000000001060000u

/** Attribute ids. */
enum ibcm_type {
	IBCM_REQ = 0x10,
	IBCM_MRA = 0x11,
	IBCM_REJ = 0x12,
	IBCM_REP = 0x13,
	IBCM_RTU = 0x14,
	IBCM_DREQ = 0x15,
	IBCM_DREP = 0x16,
	IBCM_SIDR_REQ = 0x17,
	IBCM_SIDR_REP = 0x18,
};

/** Which message a REJ or MRA is about. */
enum ibcm_subject {
	IBCM_SUBJECT_REQ = 0,
	IBCM_SUBJECT_REP = 1,
	IBCM_SUBJECT_OTHER = 2,
};

/** Reasons of a REJ (table 110): those that smcrd or Linux send. */
enum ibcm_reject_reason {
	IBCM_REJ_NO_QP = 1,
	IBCM_REJ_NO_RESOURCES = 3,
	IBCM_REJ_TIMEOUT = 4,
	IBCM_REJ_UNSUPPORTED_REQUEST = 5,
	IBCM_REJ_INVALID_COMM_ID = 6,
	IBCM_REJ_INVALID_SERVICE_ID = 8,
	IBCM_REJ_INVALID_TRANSPORT = 9,
	IBCM_REJ_STALE_CONNECTION = 10,
	IBCM_REJ_INVALID_GID = 12, /* the GID of the receiver's port; the right one comes along */
	IBCM_REJ_INVALID_MTU = 26,
	IBCM_REJ_CONSUMER = 28, /* the listener, or the layer of the IP addresses, refuses */
};

/** Status of a SIDR_REP. */
enum ibcm_sidr_status {
	IBCM_SIDR_VALID = 0,
	IBCM_SIDR_UNSUPPORTED = 1, /* no such service */
};

enum {
	IBCM_REQ_PRIVATE_LEN = 92,
	IBCM_MRA_PRIVATE_LEN = 222,
	IBCM_REJ_PRIVATE_LEN = 148,
	IBCM_REP_PRIVATE_LEN = 196,
	IBCM_RTU_PRIVATE_LEN = 224,
	IBCM_DREQ_PRIVATE_LEN = 220,
	IBCM_DREP_PRIVATE_LEN = 224,
	IBCM_SIDR_REQ_PRIVATE_LEN = 216,
	IBCM_SIDR_REP_PRIVATE_LEN = 136,
	IBCM_PRIVATE_MAX = 224,
	IBCM_INFO_LEN = 72, /* additional information of REJ and SIDR_REP */
};

/** A path of a REQ, as the sender of the REQ sees it. On Ethernet LIDs mean nothing: Linux sends
 * 0xFFFF and takes any. */
struct ibcm_path {
	uint16_t local_lid, remote_lid;
	uint8_t local_gid[IBCM_GID_LEN], remote_gid[IBCM_GID_LEN];
	uint32_t flow_label; /* 20 bits */
	uint8_t packet_rate; /* 6 bits */
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint8_t service_level; /* 4 bits */
	bool subnet_local;
	uint8_t ack_timeout; /* 5 bits: 4.096 us times 2 to the power of this; 0: none */
};

struct ibcm_req {
	uint64_t service_id;
	uint64_t ca_guid;
	uint32_t qkey; /* 0 of RC */
	uint32_t qpn;  /* 24 bits */
	/** RDMA READs that the sender answers at a time, and that it wants to have under way
	 * (CM-13). */
	uint8_t responder_resources, initiator_depth;
	uint8_t remote_timeout; /* 5 bits, as ack_timeout: the receiver's answer comes in time */
	uint8_t transport;      /* 2 bits: 0 is RC */
	bool flow_control;
	uint32_t starting_psn; /* 24 bits: the first PSN that the sender of the REQ expects (CM-12)
				*/
	uint8_t local_timeout; /* 5 bits: the sender's answer comes in time */
	uint8_t retry_count;   /* 3 bits */
	uint16_t pkey;
	uint8_t path_mtu;       /* 4 bits: code 1..5 = 256..4096 */
	bool rdc_exists;        /* of reliable datagrams */
	uint8_t rnr_retry;      /* 3 bits */
	uint8_t max_cm_retries; /* 4 bits */
	bool srq;
	uint8_t extended_transport; /* 3 bits */
	struct ibcm_path primary, alternate;
};

struct ibcm_rep {
	uint32_t qkey;
	uint32_t qpn;          /* 24 bits */
	uint32_t starting_psn; /* 24 bits: the first PSN that the sender of the REP expects */
	uint8_t responder_resources, initiator_depth;
	uint8_t ack_delay; /* 5 bits */
	uint8_t failover;  /* 2 bits: about the alternate path */
	bool flow_control;
	uint8_t rnr_retry; /* 3 bits */
	bool srq;
	uint64_t ca_guid;
};

struct ibcm_rej {
	enum ibcm_subject subject;
	uint16_t reason;  /* enum ibcm_reject_reason, or another one */
	uint8_t info_len; /* 0..IBCM_INFO_LEN bytes of `info` mean something */
	uint8_t info[IBCM_INFO_LEN];
};

struct ibcm_mra {
	enum ibcm_subject subject;
	uint8_t service_timeout; /* 5 bits, as ack_timeout: so much longer the answer takes */
};

struct ibcm_sidr_req {
	uint16_t pkey;
	uint64_t service_id;
};

struct ibcm_sidr_rep {
	uint8_t status; /* enum ibcm_sidr_status, or another one */
	uint8_t info_len;
	uint32_t qpn; /* 24 bits */
	uint64_t service_id;
	uint32_t qkey;
	uint8_t info[IBCM_INFO_LEN];
};

/** A message. `local_id` and `remote_id` are communication ids as its sender has them: `local_id`
 * names the connection at the sender, `remote_id` at the receiver. A REQ has no `remote_id`, and
 * the two messages of SIDR have their request id in `local_id`. */
struct ibcm_msg {
	enum ibcm_type type;
	uint64_t transaction_id;
	uint32_t local_id, remote_id;
	union {
		struct ibcm_req req;
		struct ibcm_mra mra;
		struct ibcm_rej rej;
		struct ibcm_rep rep;
		uint32_t dreq_qpn; /* 24 bits: the receiver's queue pair (CM-26) */
		struct ibcm_sidr_req sidr_req;
		struct ibcm_sidr_rep sidr_rep;
	};
	/** What the user of the CM sends along; as many bytes as ibcm_private_len() tells. */
	uint8_t private_data[IBCM_PRIVATE_MAX];
};

/** Bytes of private data that a message of this type has. 0: an unknown type. */
size_t ibcm_private_len(enum ibcm_type type);

/** Name of a type as operators read it ("REQ"), or "unknown". Static storage. */
const char *ibcm_type_name(enum ibcm_type type);

/**
 * Decode a MAD. Reserved bits are not looked at.
 * @param buf,len     payload of the SEND
 * @param ret_msg     filled if 0 is returned; bytes of `private_data` that the message does not
 *                    have are 0
 * @return 0; -EBADMSG: not IBCM_MAD_LEN bytes, or another version, class, method or status, or a
 *         length inside that is too large; -ENOTSUP: a CM message of another type. Linux drops
 *         all these without an answer, and so should the caller (CM-2).
 */
int ibcm_decode(const uint8_t *buf, size_t len, struct ibcm_msg *ret_msg);

/**
 * Set to zero what only root may see of a MAD (starting PSNs), for captures. Of a message that is
 * none of the CM's, or of another type, all behind the header of the MAD is set to zero.
 * @return whether there was such a thing
 */
bool ibcm_hide_psn(uint8_t mad[IBCM_MAD_LEN]);

/**
 * Encode a message into exactly IBCM_MAD_LEN bytes. Reserved bits are 0.
 * @return 0; -EINVAL: a number does not fit its field, or the type is unknown
 */
int ibcm_encode(const struct ibcm_msg *msg, uint8_t buf[IBCM_MAD_LEN]);

#endif

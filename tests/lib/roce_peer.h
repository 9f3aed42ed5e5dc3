/* SPDX-License-Identifier: MIT */
/**
 * @file roce_peer.h
 * A scripted RoCEv2 peer: it sends any packet, valid or not, and shows what comes back. It keeps no
 * state of a queue pair. Failures abort with a message.
 */
#ifndef SMCRD_TESTS_ROCE_PEER_H
#define SMCRD_TESTS_ROCE_PEER_H

#include <event2/event.h>
#include <netinet/in.h>

#include "proto/roce/icrc.h"
#include "proto/roce/roce.h"

struct roce_peer {
	struct event_base *base;
	int fd;
	struct sockaddr_in to;
	struct roce_flow flow; /* addresses and ports of its packets */
	struct roce_icrc_tables tables;
	uint8_t buf[ROCE_MAX_LEN]; /* the packet that came last */
};

/** A packet to send. */
struct roce_peer_packet {
	uint8_t opcode;
	uint32_t qpn;
	uint32_t psn;
	bool ack_req;
	uint16_t pkey; /* 0: the default */
	union {        /* the header behind the BTH, by the opcode */
		union roce_ext ext;
		struct roce_reth reth;
		struct roce_aeth aeth;
		uint32_t invalidate;
		struct roce_deth deth;
	};
	const void *payload;
	size_t len;
};

/** Bind `addr`:`port` in the calling thread's namespace; packets go to `to`, to the same port until
 *  peer->to and peer->flow.dport say otherwise. */
void roce_peer_open(struct roce_peer *peer, struct event_base *base, const char *addr,
		    const char *to, uint16_t port);
void roce_peer_close(struct roce_peer *peer);

/** Build a packet with its ICRC. @return its length */
size_t roce_peer_build(const struct roce_peer *peer, const struct roce_peer_packet *packet,
		       uint16_t ip_id, uint8_t buf[ROCE_MAX_LEN]);
/** Send bytes as they are. */
void roce_peer_send_raw(struct roce_peer *peer, const void *buf, size_t len);
void roce_peer_send(struct roce_peer *peer, const struct roce_peer_packet *packet);

/**
 * Run the event loop until a packet comes; check its ICRC and decode it into `ret_packet`.
 * @return false: none came within `ms`
 */
bool roce_peer_receive(struct roce_peer *peer, struct roce_packet *ret_packet, unsigned int ms);

#endif

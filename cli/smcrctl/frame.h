/* SPDX-License-Identifier: MIT */
/**
 * @file frame.h
 * The Ethernet frames that carry a message in RoCEv2, as they would be on the wire: Ethernet, IPv4
 * or IPv6, UDP to port 4791, BTH, RETH or DETH, payload, ICRC. smcrd sees messages only, so packet
 * sequence numbers and IP identifications are made up.
 */
#ifndef SMCRD_SMCRCTL_FRAME_H
#define SMCRD_SMCRCTL_FRAME_H

#include "proto/capture/record.h"
#include "proto/roce/roce.h"

/** Ethernet, IPv6, UDP, and the largest RoCE packet. */
#define FRAME_MAX (14 + 40 + 8 + ROCE_MAX_LEN)

/** A message that becomes frames, each with a path MTU of the message's bytes. */
struct frame_message {
	const struct capture_end *from, *to;
	uint16_t from_port; /* UDP; 0: not known, then it is 4791 too */
	bool is_write;
	bool is_datagram; /* of one frame, with `qkey` */
	uint32_t qkey;
	uint32_t path_mtu; /* bytes, 256..ROCE_MAX_PAYLOAD */
	uint32_t psn;      /* of the first frame */
	uint64_t remote_addr;
	uint32_t rkey;
	const uint8_t *data;
	uint32_t data_len; /* bytes of the message that were captured */
	uint32_t length;   /* bytes of the whole message; frames end where captured bytes end */
};

/** How many frames the message takes: at least 1. */
uint32_t frame_count(const struct frame_message *message);

/**
 * Write frame `nth` of the message, 0..frame_count() - 1.
 * @param ret_original  the frame's length on the wire. A frame that is cut has no ICRC
 * @return how many bytes were written
 */
size_t frame_write(const struct frame_message *message, uint32_t nth, uint8_t buf[FRAME_MAX],
		   size_t *ret_original);

#endif

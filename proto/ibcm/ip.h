/* SPDX-License-Identifier: MIT */
/**
 * @file ip.h
 * The RDMA IP CM service (Annex A11): the first bytes of a REQ's private data tell IP addresses and
 * the sender's port, so that programs can listen and connect by address and port (CM-6). The
 * service id of the REQ has the receiver's port.
 */
#ifndef SMCRD_PROTO_IBCM_IP_H
#define SMCRD_PROTO_IBCM_IP_H

#include <stddef.h>
#include <stdint.h>

#include "proto/ibcm/ibcm.h"

enum {
	IBCM_IP_LEN = 36,
	/** Bytes of private data of a REQ that are left for its user. */
	IBCM_IP_USER_LEN = IBCM_REQ_PRIVATE_LEN - IBCM_IP_LEN,
};

/** Addresses as the sender of the REQ sees them. */
struct ibcm_ip {
	uint8_t version; /* 4 or 6 */
	uint16_t source_port;
	/** Network byte order; of IPv4 the first 4 bytes, and the others are 0. */
	uint8_t source[16], destination[16];
};

/**
 * Decode the header at the beginning of a REQ's private data.
 * @return 0; -ENOTSUP: another version of the header, or neither IPv4 nor IPv6; -EBADMSG: of IPv4,
 *         the 12 bytes before an address are not 0. All these are answered with REJ and
 *         IBCM_REJ_CONSUMER (CM-7).
 */
int ibcm_ip_decode(const uint8_t buf[IBCM_IP_LEN], struct ibcm_ip *ret_ip);

/** Encode it. @return 0; -EINVAL: the version is neither 4 nor 6 */
int ibcm_ip_encode(const struct ibcm_ip *ip, uint8_t buf[IBCM_IP_LEN]);

/** The port that a service id stands for. @return 0: not of IBCM_SERVICE_TCP, or port 0 */
uint16_t ibcm_service_port(uint64_t service_id);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file icrc.h
 * Invariant CRC of RoCEv2 over IPv4 (Annex A17.3.3; checked against captures of Linux rxe).
 *
 * It is the Ethernet CRC-32 over 8 bytes FF, the IPv4 header with type of service, time to live and
 * header checksum FF, the UDP header with its checksum FFFF, the BTH with byte 4 FF, and the rest
 * up to the ICRC; stored least significant byte first. IPv4 options are not used by RoCEv2; the
 * flags are "do not fragment".
 *
 * The identification field is covered too, but a UDP socket never sees the one that came. A CRC is
 * linear: the difference between the stored ICRC and the one computed for an assumed identification
 * is caused by one of the 65,536 identifications or by damage, and which of the two is found by
 * running the CRC register backwards.
 *
 * Linear also means that length and identification change the CRC of the IP and UDP headers each by
 * an amount of its own, whatever the flow: those of a flow are taken once (struct roce_icrc_flow).
 */
#ifndef SMCRD_PROTO_ROCE_ICRC_H
#define SMCRD_PROTO_ROCE_ICRC_H

#include "proto/roce/roce.h"

/** Addresses and ports of a datagram, all in network byte order as the kernel hands them out. */
struct roce_flow {
	uint32_t saddr;
	uint32_t daddr;
	uint16_t sport;
	uint16_t dport;
};

/** A flow, and what the ICRCs of its datagrams have in common. */
struct roce_icrc_flow {
	struct roce_flow flow;
	uint32_t crc;
};

void roce_icrc_flow_init(struct roce_icrc_flow *icrc_flow, const struct roce_flow *flow);

/**
 * Start: everything up to the end of the RoCE headers. For who has no tables, see
 * roce_icrc_start().
 * @param flow     of the datagram
 * @param udp_len  bytes of UDP payload, ICRC included, ROCE_MIN_LEN..ROCE_MAX_LEN
 * @param ip_id    IPv4 identification, host byte order
 * @param header   BTH and extended headers
 * @param header_len  ROCE_BTH_LEN..ROCE_MAX_HEADER
 * @return the CRC so far, for roce_icrc_update()
 */
uint32_t roce_icrc_begin(const struct roce_flow *flow, size_t udp_len, uint16_t ip_id,
			 const uint8_t *header, size_t header_len);
/** Continue with payload and padding; the result after the last byte is the ICRC. */
uint32_t roce_icrc_update(uint32_t crc, const void *data, size_t len);
/** Store an ICRC in its four bytes. */
void roce_icrc_put(uint32_t icrc, uint8_t *buf);

/** What does not depend on the flow; 40 KB, of which a device that sends packets of a few lengths
 *  touches 7. */
struct roce_icrc_tables {
	/** For each packet length, the factor that takes a CRC difference back to the
	 *  identification. */
	uint32_t inverse[ROCE_MAX_LEN + 1];
	/** What length and identification change in the CRC of a flow. */
	uint32_t length[ROCE_MAX_LEN + 1];
	uint32_t id[2][256]; /* high byte, low byte */
	/** What a byte does to the CRC, behind which 0 to 3 more bytes follow. */
	uint32_t byte[4][256];
};

/** Fill the tables; once a process or device. */
void roce_icrc_tables_init(struct roce_icrc_tables *tables);

/**
 * The same as roce_icrc_begin(), faster, and only up to the end of the BTH: what follows it is for
 * roce_icrc_update().
 * @param bth  ROCE_BTH_LEN bytes
 */
uint32_t roce_icrc_start(const struct roce_icrc_tables *tables, const struct roce_icrc_flow *flow,
			 size_t udp_len, uint16_t ip_id, const uint8_t *bth);

/**
 * Check the ICRC of a received datagram.
 * @param flow     of the datagram
 * @param buf,len  UDP payload
 * @param ip_id_guess  identification that is likely (checked faster)
 * @return true if some identification explains the ICRC
 */
bool roce_icrc_check(const struct roce_icrc_tables *tables, const struct roce_icrc_flow *flow,
		     const uint8_t *buf, size_t len, uint16_t ip_id_guess);

#endif

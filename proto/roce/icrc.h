/* SPDX-License-Identifier: MIT */
/**
 * @file icrc.h
 * Invariant CRC of RoCEv2 over IPv4 (Annex A17.3.3; checked against captures of Linux rxe).
 *
 * It is the Ethernet CRC-32 over 8 bytes FF; the IPv4 header with type of service, time to live and
 * header checksum set to FF; the UDP header with its checksum set to FFFF; the BTH with byte 4 set
 * to FF; and the rest up to the ICRC. It is stored least significant byte first. RoCEv2 uses no
 * IPv4 options; the flags are "do not fragment".
 *
 * The CRC covers the IPv4 identification too, which a UDP socket cannot read. But a CRC is linear.
 * So the difference between the stored ICRC and the ICRC that is computed for an assumed
 * identification comes either from one of the 65,536 identifications or from damage. Running the
 * CRC register backwards tells which.
 *
 * Because of linearity, length and identification each change the CRC of the IP and UDP headers by
 * an amount that does not depend on the flow. So the CRC of a flow is computed once (struct
 * roce_icrc_flow).
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

/** A flow, and the part of the ICRC that all its datagrams have in common. */
struct roce_icrc_flow {
	struct roce_flow flow;
	uint32_t crc;
};

void roce_icrc_flow_init(struct roce_icrc_flow *icrc_flow, const struct roce_flow *flow);

/**
 * Begin a CRC: everything up to the end of the RoCE headers. Needs no tables; roce_icrc_start()
 * does.
 * @param flow     of the datagram
 * @param udp_len  bytes of UDP payload, ICRC included, ROCE_MIN_LEN..ROCE_MAX_LEN
 * @param ip_id    IPv4 identification, host byte order
 * @param header   BTH and extended headers
 * @param header_len  ROCE_BTH_LEN..ROCE_MAX_HEADER
 * @return the CRC so far, for roce_icrc_update()
 */
uint32_t roce_icrc_begin(const struct roce_flow *flow, size_t udp_len, uint16_t ip_id,
			 const uint8_t *header, size_t header_len);
/** Continue with payload and padding. The result after the last byte is the ICRC. */
uint32_t roce_icrc_update(uint32_t crc, const void *data, size_t len);
/** Store an ICRC in its four bytes. */
void roce_icrc_put(uint32_t icrc, uint8_t *buf);

/** Values that do not depend on the flow. 40 KB, of which a device that sends packets of a few
 * lengths uses 7. */
struct roce_icrc_tables {
	/** For each packet length, the factor that turns a CRC difference back into the
	 * identification. */
	uint32_t inverse[ROCE_MAX_LEN + 1];
	/** How length and identification change the CRC of a flow. */
	uint32_t length[ROCE_MAX_LEN + 1];
	uint32_t id[2][256]; /* high byte, low byte */
	/** How a byte that is followed by 0 to 3 more bytes changes the CRC. */
	uint32_t byte[4][256];
};

/** Fill the tables; once for a process or device. */
void roce_icrc_tables_init(struct roce_icrc_tables *tables);

/**
 * As roce_icrc_begin(), but faster, and only up to the end of the BTH: what follows goes to
 * roce_icrc_update().
 * @param bth  ROCE_BTH_LEN bytes
 */
uint32_t roce_icrc_start(const struct roce_icrc_tables *tables, const struct roce_icrc_flow *flow,
			 size_t udp_len, uint16_t ip_id, const uint8_t *bth);

/**
 * Check the ICRC of a received datagram.
 * @param flow     of the datagram
 * @param buf,len  UDP payload
 * @param ip_id_guess  a likely identification, which is checked faster
 * @param ret_ip_id  the identification for which the ICRC is right; set if that is true. The more
 *                   of them a caller takes, the more damage it takes for an identification.
 * @return true: the ICRC is right for some identification
 */
bool roce_icrc_check(const struct roce_icrc_tables *tables, const struct roce_icrc_flow *flow,
		     const uint8_t *buf, size_t len, uint16_t ip_id_guess, uint16_t *ret_ip_id);

#endif

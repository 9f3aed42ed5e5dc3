/* SPDX-License-Identifier: MIT */
#include "proto/ibcm/ip.h"

#include <errno.h>
#include <string.h>

#include "proto/smcr/bytes.h"

/* An IPv4 address is behind 12 bytes of 0, not in the form of a GID (::ffff:a.b.c.d). */
#define IPV4_AT 12

static int read_address(struct bytes_reader *r, uint8_t version, uint8_t address[16])
{
	static const uint8_t zeros[IPV4_AT];
	uint8_t bytes[16];
	read_bytes(r, bytes, sizeof(bytes));
	if (version == 6) {
		memcpy(address, bytes, sizeof(bytes));
		return 0;
	}
	memcpy(address, bytes + IPV4_AT, sizeof(bytes) - IPV4_AT);
	return memcmp(bytes, zeros, IPV4_AT) == 0 ? 0 : -EBADMSG;
}

static void write_address(struct bytes_writer *w, uint8_t version, const uint8_t address[16])
{
	if (version == 4)
		write_zeros(w, IPV4_AT);
	write_bytes(w, address, version == 4 ? 4 : 16);
}

int ibcm_ip_decode(const uint8_t buf[IBCM_IP_LEN], struct ibcm_ip *ret_ip)
{
	struct bytes_reader r = bytes_reader(buf, IBCM_IP_LEN);
	struct ibcm_ip ip = { 0 };
	uint8_t header_version = read_u8(&r);
	ip.version = read_u8(&r) >> 4;
	if (header_version != 0 || (ip.version != 4 && ip.version != 6))
		return -ENOTSUP;
	ip.source_port = read_be16(&r);
	int source = read_address(&r, ip.version, ip.source);
	int destination = read_address(&r, ip.version, ip.destination);
	if (source < 0 || destination < 0)
		return -EBADMSG;
	*ret_ip = ip;
	return 0;
}

int ibcm_ip_encode(const struct ibcm_ip *ip, uint8_t buf[IBCM_IP_LEN])
{
	struct bytes_writer w = bytes_writer(buf, IBCM_IP_LEN);
	if (ip->version != 4 && ip->version != 6)
		return -EINVAL;
	write_u8(&w, 0);
	write_u8(&w, (uint8_t)(ip->version << 4));
	write_be16(&w, ip->source_port);
	write_address(&w, ip->version, ip->source);
	write_address(&w, ip->version, ip->destination);
	return 0;
}

uint16_t ibcm_service_port(uint64_t service_id)
{
	return (service_id & ~(uint64_t)0xFFFF) == IBCM_SERVICE_TCP ? (uint16_t)service_id : 0;
}

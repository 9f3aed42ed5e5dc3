/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/frame.h"

#include <arpa/inet.h>
#include <string.h>

#include "proto/roce/icrc.h"
#include "proto/smcr/bytes.h"

#define ETHERNET_LEN 14
#define IPV4_LEN     20
#define IPV6_LEN     40
#define UDP_LEN      8
#define UDP          17
#define HOPS         64
#define GID_IPV4_AT  12

/* An ICRC covers InfiniBand's link-layer header. RoCEv2 has none: it counts as so many bytes of
 * ones. */
#define MASKED_LEN 8

static bool is_ipv4(const struct capture_end *end)
{
	static const uint8_t prefix[GID_IPV4_AT] = { [10] = 0xFF, [11] = 0xFF };
	return memcmp(end->gid, prefix, sizeof(prefix)) == 0;
}

static uint32_t add_up(uint32_t sum, const uint8_t *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		sum += i % 2 ? data[i] : (uint32_t)data[i] << 8;
	return sum;
}

/* RFC 1071 */
static uint16_t checksum(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xFFFF) + (sum >> 16);
	return (uint16_t)~sum;
}

/* ---- headers; each returns its length ---- */

static size_t put_ethernet(const struct frame_message *message, bool ipv4, uint8_t *at)
{
	memcpy(at, message->to->mac, 6);
	memcpy(at + 6, message->from->mac, 6);
	put_be16(at + 12, ipv4 ? 0x0800 : 0x86DD);
	return ETHERNET_LEN;
}

static size_t put_ipv4(const struct frame_message *message, size_t udp_len, uint8_t *at)
{
	memset(at, 0, IPV4_LEN);
	at[0] = 0x45;
	put_be16(at + 2, (uint16_t)(IPV4_LEN + udp_len));
	put_be16(at + 6, 0x4000); /* do not fragment */
	at[8] = HOPS;
	at[9] = UDP;
	memcpy(at + 12, message->from->gid + GID_IPV4_AT, 4);
	memcpy(at + 16, message->to->gid + GID_IPV4_AT, 4);
	put_be16(at + 10, checksum(add_up(0, at, IPV4_LEN)));
	return IPV4_LEN;
}

static size_t put_ipv6(const struct frame_message *message, size_t udp_len, uint8_t *at)
{
	memset(at, 0, IPV6_LEN);
	at[0] = 0x60;
	put_be16(at + 4, (uint16_t)udp_len);
	at[6] = UDP;
	at[7] = HOPS;
	memcpy(at + 8, message->from->gid, 16);
	memcpy(at + 24, message->to->gid, 16);
	return IPV6_LEN;
}

static size_t put_udp(const struct frame_message *message, size_t udp_len, uint8_t *at)
{
	put_be16(at, message->from_port ? message->from_port : ROCE_UDP_PORT);
	put_be16(at + 2, ROCE_UDP_PORT);
	put_be16(at + 4, (uint16_t)udp_len);
	put_be16(at + 6, 0);
	return UDP_LEN;
}

static uint8_t opcode_of(const struct frame_message *message, uint32_t nth, uint32_t count)
{
	const bool first = nth == 0, last = nth + 1 == count;
	if (message->is_datagram)
		return ROCE_UD_SEND_ONLY;
	if (message->is_write)
		return first && last ? ROCE_WRITE_ONLY
		       : first       ? ROCE_WRITE_FIRST
		       : last        ? ROCE_WRITE_LAST
				     : ROCE_WRITE_MIDDLE;
	return first && last ? ROCE_SEND_ONLY
	       : first       ? ROCE_SEND_FIRST
	       : last        ? ROCE_SEND_LAST
			     : ROCE_SEND_MIDDLE;
}

/** The part of the message that is in one frame. */
struct part {
	uint32_t at, len; /* of the message */
	uint32_t there;   /* bytes of the part that were captured */
	uint8_t opcode, pad;
	size_t roce_len; /* from BTH to ICRC */
};

static struct part part_of(const struct frame_message *message, uint32_t nth)
{
	const uint32_t at = nth * message->path_mtu;
	struct part part = { .at = at,
			     .len = message->length - at,
			     .there = message->data_len > at ? message->data_len - at : 0,
			     .opcode = opcode_of(message, nth, frame_count(message)) };
	if (part.len > message->path_mtu)
		part.len = message->path_mtu;
	if (part.there > part.len)
		part.there = part.len;
	part.pad = (uint8_t)((4 - part.len % 4) % 4);
	part.roce_len =
		ROCE_BTH_LEN + roce_ext_len(part.opcode) + part.len + part.pad + ROCE_ICRC_LEN;
	return part;
}

static union roce_ext ext_of(const struct frame_message *message)
{
	if (message->is_datagram)
		return (union roce_ext){ .deth = { .qkey = message->qkey,
						   .src_qp = message->from->qpn & ROCE_QPN_MASK } };
	return (union roce_ext){ .reth = { .va = message->remote_addr,
					   .rkey = message->rkey,
					   .length = message->length } };
}

static size_t put_roce(const struct frame_message *message, const struct part *part, uint32_t nth,
		       uint8_t *at)
{
	const bool last = part->at + part->len == message->length;
	const bool reliable = !message->is_datagram;
	const struct roce_bth bth = { .opcode = part->opcode,
				      .solicited = reliable && !message->is_write && last,
				      .migrated = reliable,
				      .pad = part->pad,
				      .pkey = ROCE_PKEY_DEFAULT,
				      .dest_qp = message->to->qpn & ROCE_QPN_MASK,
				      .ack_req = reliable && last,
				      .psn = (message->psn + nth) & ROCE_PSN_MASK };
	const union roce_ext ext = ext_of(message);
	roce_encode_bth(&bth, at);
	return ROCE_BTH_LEN + roce_encode_ext(part->opcode, &ext, at + ROCE_BTH_LEN);
}

/* ---- checksums ---- */

/* Annex A17.3.3: fields that routers change count as ones. */
static uint32_t icrc_of(bool ipv4, const uint8_t *ip, size_t ip_len, size_t roce_len)
{
	uint8_t masked[MASKED_LEN + IPV6_LEN + UDP_LEN + ROCE_BTH_LEN];
	const size_t headers = ip_len + UDP_LEN + ROCE_BTH_LEN;
	uint8_t *copy = masked + MASKED_LEN;
	memset(masked, 0xFF, MASKED_LEN);
	memcpy(copy, ip, headers);
	if (ipv4) {
		copy[1] = copy[8] = 0xFF;    /* type of service, time to live */
		put_be16(copy + 10, 0xFFFF); /* checksum */
	} else {
		copy[0] |= 0x0F; /* traffic class, flow label */
		memset(copy + 1, 0xFF, 3);
		copy[7] = 0xFF; /* hop limit */
	}
	put_be16(copy + ip_len + 6, 0xFFFF); /* of UDP */
	copy[ip_len + UDP_LEN + 4] = 0xFF;   /* of the BTH: FECN, BECN, reserved */
	uint32_t crc = roce_icrc_update(0, masked, MASKED_LEN + headers);
	return roce_icrc_update(crc, ip + headers, roce_len - ROCE_BTH_LEN - ROCE_ICRC_LEN);
}

/* IPv6 has UDP without a checksum only where both sides have agreed on that. */
static void put_udp_checksum(const uint8_t *ip, uint8_t *udp, size_t udp_len)
{
	uint32_t sum = add_up(0, ip + 8, 32) + UDP + (uint32_t)udp_len;
	uint16_t value = checksum(add_up(sum, udp, udp_len));
	put_be16(udp + 6, value ? value : 0xFFFF);
}

/* ---- whole frames ---- */

uint32_t frame_count(const struct frame_message *message)
{
	uint32_t count = (message->length + message->path_mtu - 1) / message->path_mtu;
	return count ? count : 1;
}

size_t frame_write(const struct frame_message *message, uint32_t nth, uint8_t buf[FRAME_MAX],
		   size_t *ret_original)
{
	const struct part part = part_of(message, nth);
	const bool ipv4 = is_ipv4(message->from) && is_ipv4(message->to);
	const size_t udp_len = UDP_LEN + part.roce_len;
	uint8_t *ip = buf + put_ethernet(message, ipv4, buf);
	const size_t ip_len =
		ipv4 ? put_ipv4(message, udp_len, ip) : put_ipv6(message, udp_len, ip);
	uint8_t *udp = ip + ip_len;
	uint8_t *roce = udp + put_udp(message, udp_len, udp);
	uint8_t *payload = roce + put_roce(message, &part, nth, roce);
	*ret_original = (size_t)(roce - buf) + part.roce_len;
	if (part.there)
		memcpy(payload, message->data + part.at, part.there);
	if (part.there < part.len)
		return (size_t)(payload - buf) + part.there;
	memset(payload + part.len, 0, part.pad);
	roce_icrc_put(icrc_of(ipv4, ip, ip_len, part.roce_len),
		      roce + part.roce_len - ROCE_ICRC_LEN);
	if (!ipv4)
		put_udp_checksum(ip, udp, udp_len);
	return *ret_original;
}

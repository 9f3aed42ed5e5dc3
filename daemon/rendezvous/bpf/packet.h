/* SPDX-License-Identifier: MIT */
/**
 * @file packet.h
 * The TCP header of a packet that leaves, as gate.bpf.c sees it: from the IP header on, before it
 * is cut into segments or fragments.
 */
#ifndef SMCRD_RENDEZVOUS_BPF_PACKET_H
#define SMCRD_RENDEZVOUS_BPF_PACKET_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <stdbool.h>

#define ETH_P_IP         0x0800
#define ETH_P_IPV6       0x86DD
#define IPPROTO_HOPOPTS  0
#define IPPROTO_TCP      6
#define IPPROTO_ROUTING  43
#define IPPROTO_DSTOPTS  60
#define IPV6_HEADER      40
#define IPV6_HEADERS_MAX 4 /* extension headers that are skipped */
#define TCP_HEADER       20

struct tcp_packet {
	__u32 seq, ack;     /* host byte order */
	__u32 options, end; /* offsets in the packet: of the options, and behind the header */
	__u8 flags;
};

static __always_inline bool is_extension(__u8 next)
{
	return next == IPPROTO_HOPOPTS || next == IPPROTO_ROUTING || next == IPPROTO_DSTOPTS;
}

enum sight {
	SEEN,
	NOTHING, /* no byte of the stream, or no TCP packet, as after IPsec */
	HIDDEN,  /* there may be bytes that cannot be read here */
};

/* @param ret_at offset of the TCP header */
static __always_inline enum sight find_tcp6(struct __sk_buff *skb, __u32 *ret_at)
{
	__u8 next, header[2];
	__u32 at = IPV6_HEADER;
	if (bpf_skb_load_bytes(skb, 6, &next, sizeof(next)))
		return HIDDEN;
	for (int i = 0; i < IPV6_HEADERS_MAX && is_extension(next); i++) {
		if (bpf_skb_load_bytes(skb, at, header, sizeof(header)))
			return HIDDEN;
		next = header[0];
		at += ((__u32)header[1] + 1) * 8;
	}
	*ret_at = at;
	if (is_extension(next))
		return HIDDEN;
	return next == IPPROTO_TCP ? SEEN : NOTHING;
}

/* @param ret_at offset of the TCP header */
static __always_inline enum sight find_tcp_header(struct __sk_buff *skb, __u32 *ret_at)
{
	__u8 length, protocol;
	if (skb->protocol == bpf_htons(ETH_P_IPV6))
		return find_tcp6(skb, ret_at);
	if (skb->protocol != bpf_htons(ETH_P_IP) ||
	    bpf_skb_load_bytes(skb, 0, &length, sizeof(length)) ||
	    bpf_skb_load_bytes(skb, 9, &protocol, sizeof(protocol)))
		return HIDDEN;
	*ret_at = (__u32)(length & 0xF) * 4;
	return protocol == IPPROTO_TCP ? SEEN : NOTHING;
}

static __always_inline enum sight find_tcp(struct __sk_buff *skb, struct tcp_packet *packet)
{
	__u8 header[14];
	__u32 at = 0;
	enum sight sight = find_tcp_header(skb, &at);
	if (sight != SEEN)
		return sight;
	if (bpf_skb_load_bytes(skb, at, header, sizeof(header)))
		return HIDDEN;
	__builtin_memcpy(&packet->seq, header + 4, 4);
	__builtin_memcpy(&packet->ack, header + 8, 4);
	packet->seq = bpf_ntohl(packet->seq);
	packet->ack = bpf_ntohl(packet->ack);
	packet->options = at + TCP_HEADER;
	packet->end = at + (header[12] >> 4) * 4;
	packet->flags = header[13];
	return SEEN;
}

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file leaving.h
 * Do SYN and SYN-ACK leave with the option that client.h and server.h have put in? Other BPF
 * programs and the firewall of this host come after those, and may have taken it out. The outcome
 * of the handshake has to be what the peer has seen.
 *
 * The kernel shows each packet here once, before it is sent, and repeated ones again. Before
 * Linux 6.6 it does not show SYN-ACKs over IPv6: there what was written counts.
 */
#ifndef SMCRD_RENDEZVOUS_BPF_LEAVING_H
#define SMCRD_RENDEZVOUS_BPF_LEAVING_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>
#include <stdbool.h>

#include "daemon/rendezvous/bpf/numbers.h"
#include "daemon/rendezvous/bpf/packet.h"
#include "daemon/rendezvous/bpf/smcr.h"
#include "daemon/rendezvous/bpf/socks.h"
#include "daemon/rendezvous/bpf/tcp_option.h"

#define OPTIONS_MAX 40 /* bytes of options in a TCP header */
#define OPTION_EOL  0
#define OPTION_NOP  1

/* ---- does a packet carry the option? */

struct option_search {
	struct __sk_buff *skb;
	__u32 at, end; /* offsets of the next option, and behind the options */
	bool found;
};

/* Look at the next option. @return 1: the search is over */
static long look_at_option(__u32 i, struct option_search *search)
{
	__u8 head[2], bytes[OPTION_LEN];
	(void)i;
	if (search->at >= search->end || bpf_skb_load_bytes(search->skb, search->at, head, 1) ||
	    head[0] == OPTION_EOL)
		return 1;
	if (head[0] == OPTION_NOP) {
		search->at++;
		return 0;
	}
	if (bpf_skb_load_bytes(search->skb, search->at, head, 2) || head[1] < 2)
		return 1;
	if (head[1] == OPTION_LEN && search->at + OPTION_LEN <= search->end &&
	    bpf_skb_load_bytes(search->skb, search->at, bytes, OPTION_LEN) == 0) {
		search->found = true;
		for (int j = 0; j < OPTION_LEN; j++)
			search->found &= bytes[j] == option[j];
	}
	search->at += head[1];
	return search->found;
}

static __always_inline bool carries_option(struct __sk_buff *skb, const struct tcp_packet *packet)
{
	struct option_search search = { .skb = skb, .at = packet->options, .end = packet->end };
	bpf_loop(OPTIONS_MAX, look_at_option, &search, 0);
	return search.found;
}

/* ---- SYN */

/* Of a socket that has the option in its SYN, as far as write_in_syn() knows. */
static __always_inline void look_at_syn(struct __sk_buff *skb, struct smcr_sock *sock)
{
	struct tcp_packet packet;
	if (!(sock->flags & SMCR_SOCK_SENT) || (sock->flags & SMCR_SOCK_PASSED) ||
	    find_tcp(skb, &packet) != SEEN ||
	    (packet.flags & (TCPHDR_SYN | TCPHDR_ACK)) != TCPHDR_SYN)
		return;
	if (carries_option(skb, &packet))
		sock->flags = (sock->flags | SMCR_SOCK_PASSED) & ~SMCR_SOCK_STRIPPED;
	else
		sock->flags |= SMCR_SOCK_STRIPPED;
}

/* ---- SYN-ACK */

/*
 * Of any listener. While it was written only the address was known, where others may listen that
 * are not claimed, or no more (listeners.h). Here the listener itself is known. @param sock  what
 * is known of it; NULL: it was never claimed
 * @return 0: the SYN-ACK must not leave. When it is repeated, it has no option
 */
static __always_inline int judge_synack(struct __sk_buff *skb, const struct smcr_sock *sock)
{
	struct tcp_packet packet;
	if (find_tcp(skb, &packet) != SEEN ||
	    (packet.flags & (TCPHDR_SYN | TCPHDR_ACK)) != (TCPHDR_SYN | TCPHDR_ACK))
		return 1;
	struct smcr_synack_key key = { .seq = packet.seq, .ack = packet.ack };
	__u32 *synack = bpf_map_lookup_elem(&synacks, &key);
	if (!synack)
		return 1;
	if (!carries_option(skb, &packet)) {
		*synack |= SMCR_SYNACK_WITHOUT;
		return 1;
	}
	/* What was promised while the listener was claimed is repeated also when it no longer is.
	 */
	bool claimed = sock && (sock->flags & SMCR_SOCK_CLAIMED);
	if (!claimed && !(*synack & SMCR_SYNACK_WITH)) {
		*synack |= SMCR_SYNACK_REFUSED;
		return 0;
	}
	*synack |= SMCR_SYNACK_WITH;
	return 1;
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What leaves claimed sockets: the handshakes' packets, with or without the option (leaving.h), and
 * which programs may send CLC.
 *
 * A peer that was promised SMC-R takes the bytes on the TCP connection as CLC of this host, and CLC
 * has no authentication. So on a socket with such a promise only three kinds of bytes pass:
 * messages that smcrd has announced (IPC_SO_SPOKEN), a Decline that harms nobody (the library sends
 * one if smcrd does not take the connection), and bytes that are no CLC from the first one on, with
 * which the peer ends the rendezvous. The last two open the gate once the peer has received them:
 * what follows belongs to the program. Until then they are checked each time they are sent, because
 * a program may change pages that the kernel sends from. Sockets that root has claimed are not
 * checked.
 *
 * Attached to the root of the cgroup hierarchy. A packet is checked before it is cut into segments
 * or fragments, and again whenever it is repeated. Refused bytes stay in the socket's queue, before
 * everything that is sent later.
 */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <stdbool.h>

#include "daemon/rendezvous/bpf/leaving.h"
#include "daemon/rendezvous/bpf/packet.h"
#include "daemon/rendezvous/bpf/refused.h"
#include "daemon/rendezvous/bpf/smcr.h"
#include "daemon/rendezvous/bpf/socks.h"

#define TCP_URG 0x20

/* proto/smcr/clc.h, which needs libc headers. */
#define CLC_HEADER      8
#define CLC_TRAILER     4
#define CLC_DECLINE     4
#define CLC_DECLINE_V1  28
#define CLC_DECLINE_V2  44
#define CLC_OUT_OF_SYNC 0x08 /* bit of the header's last byte */

/* Does the daemon want users to be kept from CLC (egress_guard in smcrd.conf)? */
bool guards;

/* The part of the socket's stream that a packet has. */
struct piece {
	__u32 at; /* offset in the packet */
	__u32 len;
	__u32 offset; /* offset in the stream */
	bool urgent;  /* a byte is urgent, so the peer may skip it */
};

static __always_inline enum sight find_piece(struct __sk_buff *skb, __u32 first,
					     struct piece *piece)
{
	struct tcp_packet packet;
	enum sight sight = find_tcp(skb, &packet);
	if (sight != SEEN)
		return sight;
	if (packet.end >= skb->len)
		return NOTHING;
	piece->at = packet.end;
	piece->len = skb->len - packet.end;
	piece->offset = packet.seq - first;
	piece->urgent = packet.flags & TCP_URG;
	return SEEN;
}

/* ---- what smcrd has said */

struct comparison {
	struct __sk_buff *skb;
	const struct smcr_spoken *said;
	struct piece piece;
	bool equal;
};

static long compare_byte(__u32 i, struct comparison *comparison)
{
	__u8 sent;
	__u64 place = comparison->piece.offset + i;
	if (bpf_skb_load_bytes(comparison->skb, comparison->piece.at + i, &sent, sizeof(sent)))
		return 1;
	barrier_var(place); /* keeps the bounds in one register for the verifier */
	if (place >= SMCR_SPOKEN_MAX)
		return 1;
	const __u8 *said = (const __u8 *)comparison->said->words + place;
	comparison->equal = *said == sent;
	return !comparison->equal;
}

static __always_inline bool was_said(struct __sk_buff *skb, const struct smcr_spoken *said,
				     const struct piece *piece)
{
	struct comparison comparison = { .skb = skb, .said = said, .piece = *piece };
	if (piece->offset >= said->length || piece->len > said->length - piece->offset)
		return false;
	bpf_loop(piece->len, compare_byte, &comparison, 0);
	return comparison.equal;
}

/* ---- what a program may say */

/* Peers handle whole messages, and check the eye catcher from its first byte on. */
static __always_inline bool may_be_clc(const __u8 *head, __u32 len)
{
	return head[0] == 0xE2 && (len < 2 || head[1] == 0xD4) && (len < 3 || head[2] == 0xC3);
}

/* A Decline with "out of sync" would end a link group, which other users use too. */
static __always_inline bool is_harmless_decline(const __u8 head[CLC_HEADER], __u32 len)
{
	__u32 length = (__u32)head[5] << 8 | head[6];
	return head[4] == CLC_DECLINE && !(head[7] & CLC_OUT_OF_SYNC) && length <= len &&
	       (length == CLC_DECLINE_V1 || length == CLC_DECLINE_V2);
}

static __always_inline bool is_allowed(struct __sk_buff *skb, const struct piece *piece)
{
	__u8 head[CLC_HEADER] = { 0 };
	long failed;
	if (piece->offset != 0 || piece->urgent)
		return false;
	/* The verifier needs constant lengths. */
	if (piece->len >= CLC_HEADER)
		failed = bpf_skb_load_bytes(skb, piece->at, head, CLC_HEADER);
	else if (piece->len >= 3)
		failed = bpf_skb_load_bytes(skb, piece->at, head, 3);
	else if (piece->len == 2)
		failed = bpf_skb_load_bytes(skb, piece->at, head, 2);
	else
		failed = bpf_skb_load_bytes(skb, piece->at, head, 1);
	if (failed)
		return false;
	return !may_be_clc(head, piece->len) ||
	       (piece->len >= CLC_HEADER && is_harmless_decline(head, piece->len));
}

/* Has the peer received the first bytes? Then they had passed, or there was no gate. */
static __always_inline bool has_arrived(struct bpf_sock *sk, const struct smcr_sock *sock)
{
	struct bpf_tcp_sock *tcp = bpf_tcp_sock(sk);
	return tcp && tcp->snd_una != sock->first;
}

static __always_inline bool may_leave(struct __sk_buff *skb, struct bpf_sock *sk,
				      struct smcr_sock *sock, const struct piece *piece)
{
	const struct smcr_spoken *said = bpf_sk_storage_get(&spoken, sk, NULL, 0);
	if (said && said->length && said->first == sock->first)
		return was_said(skb, said, piece);
	if (has_arrived(sk, sock)) {
		sock->flags &= ~(SMCR_SOCK_HELD | SMCR_SOCK_LET);
		return true;
	}
	if (piece->offset != 0)
		return sock->flags & SMCR_SOCK_LET;
	if (!is_allowed(skb, piece))
		return false;
	sock->flags |= SMCR_SOCK_LET;
	return true;
}

static __always_inline int judge(struct __sk_buff *skb, struct bpf_sock *sk, struct smcr_sock *sock)
{
	struct piece piece;
	__u32 uid = bpf_get_socket_uid(skb);
	if (uid == 0 && sock->by.uid == 0)
		return 1;
	enum sight sight = find_piece(skb, sock->first, &piece);
	if (sight == NOTHING || (sight == SEEN && may_leave(skb, sk, sock, &piece)))
		return 1;
	count_refused(uid);
	return 0;
}

/* Runs for every packet of the machine: nearly all packets end in the first lines. */
SEC("cgroup_skb/egress")
int smcr_gate(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	if (!sk)
		return 1;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return 1;
	struct smcr_sock *sock = bpf_sk_storage_get(&socks, sk, NULL, 0);
	if (sk->state == BPF_TCP_LISTEN)
		return judge_synack(skb, sock);
	if (!sock || !(sock->flags & (SMCR_SOCK_HELD | SMCR_SOCK_OFFER)))
		return 1;
	if (sock->flags & SMCR_SOCK_OFFER)
		look_at_syn(skb, sock);
	return guards && sock->flags & SMCR_SOCK_HELD ? judge(skb, sk, sock) : 1;
}

char LICENSE[] SEC("license") = "MIT";

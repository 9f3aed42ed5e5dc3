/* SPDX-License-Identifier: MIT */
/**
 * @file client.h
 * The client's side of a handshake. connect() of a claimed socket decides whether to offer SMC-R;
 * each SYN has the option as long as it is offered; the SYN-ACK says whether the peer agrees.
 */
#ifndef SMCRD_RENDEZVOUS_BPF_CLIENT_H
#define SMCRD_RENDEZVOUS_BPF_CLIENT_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/errno.h>
#include <stdbool.h>

#include "daemon/rendezvous/bpf/address.h"
#include "daemon/rendezvous/bpf/handshake.h"
#include "daemon/rendezvous/bpf/numbers.h"
#include "daemon/rendezvous/bpf/plain.h"
#include "daemon/rendezvous/bpf/policy.h"
#include "daemon/rendezvous/bpf/smcr.h"
#include "daemon/rendezvous/bpf/tcp_option.h"
#include "proto/smcr/reason.h"

/* ---- connect() */

/* A claim for connect() has had its connect(), or the claim was a listener's. Whoever calls the
 * next connect(), in whatever process, may not expect CLC. */
static __always_inline bool is_used_up(const struct smcr_sock *sock)
{
	bool ends = (sock->by.flags & IPC_CLAIM_TO_CONNECT) || sock->role == SMCR_SOCK_SERVER;
	return ends && !(sock->flags & SMCR_SOCK_FRESH);
}

/* SOCK-5: the claim asks for the option; the program's own calls do not show it. */
static __always_inline void on_connect(struct bpf_sock_ops *ctx)
{
	struct smcr_sock *sock = any_storage_of(ctx);
	if (!sock)
		return;
	if (!(sock->flags & SMCR_SOCK_CLAIMED)) {
		switch_off(ctx, sock);
		return;
	}
	if (is_used_up(sock)) {
		end_claim(ctx, sock);
		return;
	}
	sock->flags = SMCR_SOCK_CLAIMED;
	sock->role = SMCR_SOCK_CLIENT;
	sock->negotiated = IPC_NEGOTIATED_UNKNOWN;
	sock->peer_port = bpf_ntohl(ctx->remote_port);
	remote_addr(ctx, &sock->peer);
	struct rule_search search = search_of(&sock->by, sock->peer_port);
	sock->reason = policy(ctx, &search, false, true);
	if (sock->reason) {
		/* The outcome is known already, so a non-blocking program need not ask the
		 * daemon. */
		sock->negotiated = IPC_NEGOTIATED_NO;
		return;
	}
	sock->flags |= SMCR_SOCK_OFFER;
	switch_on(ctx, sock, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
}

/* ---- the SYN */

/* From now on SYNs do not carry the option. If an earlier SYN did, the SYN-ACK tells whether the
 * peer has seen that one. */
static __always_inline void offer_no_more(struct smcr_sock *sock, __u32 reason)
{
	sock->flags &= ~SMCR_SOCK_OFFER;
	sock->reason = reason;
}

/* TCP Fast Open: the SYN has application bytes, which would come before CLC. They are sent first
 * even if the SYN has to be repeated without them. */
static __always_inline void no_fastopen(struct smcr_sock *sock)
{
	offer_no_more(sock, SMCR_REASON_SOCKET_OPTION);
}

/* The kernel asks how long the options are before it asks for them: write_in_syn(). */
static __always_inline void reserve_in_syn(struct bpf_sock_ops *ctx)
{
	struct smcr_sock *sock = storage_of(ctx);
	if (!sock || !(sock->flags & SMCR_SOCK_OFFER))
		return;
	if (ctx->skb_len > 0) {
		no_fastopen(sock);
		return;
	}
	if (stands_still()) {
		offer_no_more(sock, SMCR_REASON_NO_DAEMON);
		return;
	}
	/* If there is no room, other BPF programs have taken it for options of theirs. */
	bpf_reserve_hdr_opt(ctx, OPTION_LEN, 0);
}

/* TCPO-2: each SYN has the option, repeated ones too. */
static __always_inline void write_in_syn(struct bpf_sock_ops *ctx)
{
	struct smcr_sock *sock = storage_of(ctx);
	if (!sock || !(sock->flags & SMCR_SOCK_OFFER))
		return;
	/* A SYN that asks for a Fast Open cookie has no data yet, but the program has queued
	 * some. */
	if (has_kind(ctx, TCPOPT_FASTOPEN, 0)) {
		no_fastopen(sock);
		return;
	}
	if (is_signed(ctx, 0)) {
		offer_no_more(sock, SMCR_REASON_SOCKET_OPTION);
		return;
	}
	long r = bpf_store_hdr_opt(ctx, option, OPTION_LEN, 0);
	/* -EEXIST: another daemon of this namespace has written it. */
	if (r == 0 || r == -EEXIST)
		sock->flags |= SMCR_SOCK_SENT;
}

/* ---- the SYN-ACK */

/* No SYN was written with the option, and nothing here was against it. Other BPF programs may have
 * answered a callback with 0, switched it off (bpf_sock_ops_cb_flags_set()), or taken the room; so
 * may a signature. With TCP_REPAIR there was no handshake, and there is no packet to look at. */
static __always_inline __u32 why_unsent(struct bpf_sock_ops *ctx)
{
	bool repaired = look_for_option(ctx, 0) == -EPERM;
	return repaired || is_signed(ctx, 0) ? SMCR_REASON_SOCKET_OPTION
					     : SMCR_REASON_OPTION_REMOVED;
}

/* A SYN was written with the option: did the peer agree (TCPO-5)? Judged by the peer's own packet
 * (TCPO-6). */
static __always_inline __u32 active_outcome(struct bpf_sock_ops *ctx, const struct smcr_sock *sock)
{
	if (has_option(ctx, 0))
		return 0;
	return sock->flags & SMCR_SOCK_STRIPPED ? SMCR_REASON_OPTION_REMOVED
						: SMCR_REASON_PEER_NO_SMC;
}

/* Also counts a connection that the library has left on TCP while it was being made
 * (step_aside()). */
static __always_inline void on_active_established(struct bpf_sock_ops *ctx)
{
	struct smcr_sock *sock = any_storage_of(ctx);
	if (sock && (sock->flags & SMCR_SOCK_ASIDE) && !(sock->flags & SMCR_SOCK_COUNTED))
		note_plain(ctx, sock);
	if (!sock || !(sock->flags & SMCR_SOCK_CLAIMED))
		return;
	__u32 reason = sock->reason;
	if (sock->flags & SMCR_SOCK_SENT)
		reason = active_outcome(ctx, sock);
	else if (!reason)
		reason = why_unsent(ctx);
	settle(sock, SMCR_SOCK_CLIENT, reason);
	switch_off(ctx, sock);
	if (reason)
		note_plain(ctx, sock);
	else
		hold(ctx, sock);
}

#endif

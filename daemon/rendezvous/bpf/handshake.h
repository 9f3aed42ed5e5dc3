/* SPDX-License-Identifier: MIT */
/**
 * @file handshake.h
 * What client.h, listeners.h and server.h have in common: finding what is known of a claimed
 * socket, switching callbacks on and off, and noting the outcome of the handshake.
 *
 * The kernel runs smcr_sockops() at connect(), listen() and the end of a handshake of every socket.
 * For packets and state changes it does so only where a callback flag of the socket is on. Children
 * inherit the flags from their listener.
 */
#ifndef SMCRD_RENDEZVOUS_BPF_HANDSHAKE_H
#define SMCRD_RENDEZVOUS_BPF_HANDSHAKE_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "daemon/rendezvous/bpf/numbers.h"
#include "daemon/rendezvous/bpf/smcr.h"
#include "daemon/rendezvous/bpf/socks.h"
#include "proto/smcr/reason.h"

/* @return what is known of the socket, claimed or not (as of barred ones); NULL: nothing */
static __always_inline struct smcr_sock *any_storage_of(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	return sk ? bpf_sk_storage_get(&socks, sk, NULL, 0) : NULL;
}

/* @return what is known of the socket; NULL: it is not claimed */
static __always_inline struct smcr_sock *storage_of(struct bpf_sock_ops *ctx)
{
	struct smcr_sock *sock = any_storage_of(ctx);
	return sock && (sock->flags & SMCR_SOCK_CLAIMED) ? sock : NULL;
}

/* Remembers which flags were off before: other BPF programs may have switched on the rest. */
static __always_inline void switch_on(struct bpf_sock_ops *ctx, struct smcr_sock *sock, __u32 flags)
{
	__u32 now = ctx->bpf_sock_ops_cb_flags;
	sock->cb_flags |= flags & ~now;
	bpf_sock_ops_cb_flags_set(ctx, now | flags);
}

/* Only before or after a handshake: during it a SYN may have to be sent again. */
static __always_inline void switch_off(struct bpf_sock_ops *ctx, struct smcr_sock *sock)
{
	if (sock->cb_flags)
		bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags & ~sock->cb_flags);
	sock->cb_flags = 0;
}

/* connect() or listen() has no claim: it goes on as plain TCP. */
static __always_inline void end_claim(struct bpf_sock_ops *ctx, struct smcr_sock *sock)
{
	switch_off(ctx, sock);
	sock->flags = 0;
	sock->negotiated = IPC_NEGOTIATED_UNKNOWN;
}

/* The outcome of the handshake. @param reason  0: both sides have sent the option; else why not */
static __always_inline void settle(struct smcr_sock *sock, __u32 role, __u32 reason)
{
	sock->flags = SMCR_SOCK_CLAIMED;
	sock->role = role;
	sock->reason = reason;
	sock->negotiated = reason ? IPC_NEGOTIATED_NO : IPC_NEGOTIATED_YES;
}

/* The outcome of a server's handshake that the peer may take for either. */
static __always_inline void settle_in_doubt(struct smcr_sock *sock)
{
	settle(sock, SMCR_SOCK_SERVER, SMCR_REASON_OPTION_REMOVED);
	sock->negotiated = IPC_NEGOTIATED_DOUBTFUL;
}

/* After an outcome of 0, or in doubt. From now on the peer takes bytes as CLC until the rendezvous
 * is over, so gate.bpf.c lets only messages of smcrd pass. */
static __always_inline void hold(struct bpf_sock_ops *ctx, struct smcr_sock *sock)
{
	sock->first = ctx->snd_nxt;
	sock->flags = (sock->flags & ~SMCR_SOCK_LET) | SMCR_SOCK_HELD;
}

#endif

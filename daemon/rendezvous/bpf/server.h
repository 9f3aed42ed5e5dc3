/* SPDX-License-Identifier: MIT */
/**
 * @file server.h
 * The server's side of a handshake. If a SYN with the option comes to an address of claimed
 * listeners, the SYN-ACK has the option too, or `answers` has the reason why not. When the
 * handshake is over, the child socket is told which of the two it was.
 *
 * Three sockets take part: the listener; the request, which stands for the handshake, is no full
 * socket and has no storage; and the child, which accept() will return. It is made at the end of
 * the handshake, has the request's cookie, and a copy of the listener's storage and callback flags.
 */
#ifndef SMCRD_RENDEZVOUS_BPF_SERVER_H
#define SMCRD_RENDEZVOUS_BPF_SERVER_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/errno.h>
#include <stdbool.h>

#include "daemon/rendezvous/bpf/handshake.h"
#include "daemon/rendezvous/bpf/listeners.h"
#include "daemon/rendezvous/bpf/numbers.h"
#include "daemon/rendezvous/bpf/plain.h"
#include "daemon/rendezvous/bpf/policy.h"
#include "daemon/rendezvous/bpf/smcr.h"
#include "daemon/rendezvous/bpf/socks.h"
#include "daemon/rendezvous/bpf/tcp_option.h"
#include "proto/smcr/reason.h"

/* ---- what was answered */

/*
 * How a SYN with the option was answered, by the cookie of the request socket, which its child
 * inherits: 0 with the option, else an enum smcr_reason. Later answers have to be the same as the
 * first one, as the client may have seen any of them. A request has no storage of its own, so this
 * map keeps the answers, and drops the oldest ones if there are too many. An answer is removed when
 * its handshake is over, so only unfinished handshakes can fill the map, and each listener's
 * backlog limits those.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, __u32);
} answers SEC(".maps");

/* In `answers`, instead of a reason: the first SYN-ACK was sent before the listener was claimed,
 * perhaps by BPF programs of another daemon. */
#define ANSWER_UNSURE 0xFFFFFFFF
/* Likewise: room for the option was reserved, and write_in_synack() was not called yet. It is not
 * if another BPF program has answered the callback for the room with 0. */
#define ANSWER_RESERVED 0xFFFFFFFE
/* Not in `answers`: nothing is known there; the peer may have seen one answer or the other. */
#define ANSWER_NONE     0xFFFFFFFD
#define ANSWER_DOUBTFUL 0xFFFFFFFC

/* No handshake takes longer: SYN-ACKs are repeated for a minute by default. */
#define HANDSHAKE_NS (64 * 1000000000ull)

/* @param adopted  when the listener was claimed, if it listened already; else 0 */
static __always_inline bool is_recent(__u64 adopted)
{
	return adopted && bpf_ktime_get_ns() - adopted < HANDSHAKE_NS;
}

/* ---- the SYN-ACK */

/* The whole SYN is available only for the first SYN-ACK. TCP_SAVE_SYN keeps it for later ones,
 * without the link-layer header. */
static __always_inline bool is_repeated(struct bpf_sock_ops *ctx)
{
	__u8 header[16];
	return bpf_getsockopt(ctx, SOL_TCP, TCP_BPF_SYN_MAC, header, sizeof(header)) == -ENOENT;
}

/* Decide once for each request whether the SYN-ACK has the option; only if the SYN had it (TCPO-3).
 * @param count  as policy() has it
 * @return 0: it has the option; else why not */
static __always_inline __u32 answer(struct bpf_sock_ops *ctx, __u64 cookie, bool count)
{
	__u32 *before = bpf_map_lookup_elem(&answers, &cookie);
	if (before)
		return *before == ANSWER_RESERVED ? 0 : *before;
	if (!has_option(ctx, BPF_LOAD_HDR_OPT_TCP_SYN))
		return SMCR_REASON_PEER_NO_SMC;
	if (is_signed(ctx, BPF_LOAD_HDR_OPT_TCP_SYN))
		return SMCR_REASON_SOCKET_OPTION;
	struct smcr_listen *listen = find_listener(ctx);
	if (listen && !listen->heard)
		listen->heard = 1;
	if ((!listen || is_recent(listen->adopted)) && is_repeated(ctx))
		return ANSWER_UNSURE;
	if (!listen)
		return SMCR_REASON_NOT_CLAIMED;
	/* The SYN may have come to that listener of the address that is barred, or has lost its
	 * claim: its callbacks stay on. */
	if (listen->barred)
		return SMCR_REASON_BARRED;
	if (listen->quiet)
		return SMCR_REASON_NOT_CLAIMED;
	struct rule_search search = search_of(&listen->by, ctx->local_port);
	return policy(ctx, &search, true, count);
}

/* The kernel asks how long the options are before it asks for them: write_in_synack(). */
static __always_inline void reserve_in_synack(struct bpf_sock_ops *ctx)
{
	/* With SYN cookies there is no state, so the ACK could not be judged. */
	if (ctx->args[0] == BPF_WRITE_HDR_TCP_SYNACK_COOKIE || did_not_ask(ctx))
		return;
	__u64 cookie = bpf_get_socket_cookie(ctx);
	__u32 *before = bpf_map_lookup_elem(&answers, &cookie);
	/* A SYN-ACK had room for the option and has left without. */
	if (before && *before == ANSWER_RESERVED)
		*before = SMCR_REASON_OPTION_REMOVED;
	__u32 reason = answer(ctx, cookie, true);
	if (reason == SMCR_REASON_PEER_NO_SMC)
		return;
	if (!reason)
		reason = bpf_reserve_hdr_opt(ctx, OPTION_LEN, 0) < 0 ? SMCR_REASON_OPTION_REMOVED
								     : ANSWER_RESERVED;
	bpf_map_update_elem(&answers, &cookie, &reason, BPF_NOEXIST);
}

/* An answer that was only reserved becomes one that is final, and others stay. */
static __always_inline void settle_answer(__u64 cookie, __u32 reason)
{
	__u32 *before = bpf_map_lookup_elem(&answers, &cookie);
	if (before && *before == ANSWER_RESERVED)
		*before = reason;
	else if (!before)
		bpf_map_update_elem(&answers, &cookie, &reason, BPF_NOEXIST);
}

/* @return the entry in `synacks` of the handshake, NULL: it has none */
static __always_inline __u32 *synack_of(struct bpf_sock_ops *ctx, struct smcr_synack_key *key)
{
	const __u8 *tcp = ctx->skb_data;
	if (tcp + 12 > (const __u8 *)ctx->skb_data_end)
		return NULL;
	key->seq = bpf_ntohl(*(const __u32 *)(tcp + 4));
	key->ack = bpf_ntohl(*(const __u32 *)(tcp + 8));
	return bpf_map_lookup_elem(&synacks, key);
}

/* Why no other SYN-ACK of this handshake gets the option: what gate.bpf.c has seen of earlier ones,
 * or what on_passive_established() has noted. */
static __always_inline __u32 forbidden(const __u32 *synack)
{
	__u32 seen = synack ? *synack : 0;
	if (seen & SMCR_SYNACK_REFUSED)
		return SMCR_REASON_NOT_CLAIMED;
	if ((seen & SMCR_SYNACK_WITHOUT) && !(seen & SMCR_SYNACK_WITH))
		return SMCR_REASON_OPTION_REMOVED;
	return 0;
}

static __always_inline void write_in_synack(struct bpf_sock_ops *ctx)
{
	struct smcr_synack_key key = { 0 };
	__u64 cookie = bpf_get_socket_cookie(ctx);
	__u32 written = SMCR_SYNACK_WRITTEN;
	if (ctx->args[0] == BPF_WRITE_HDR_TCP_SYNACK_COOKIE)
		return;
	__u32 reason = answer(ctx, cookie, false);
	if (reason == SMCR_REASON_PEER_NO_SMC)
		return;
	__u32 *synack = synack_of(ctx, &key);
	if (!reason)
		reason = forbidden(synack);
	if (!reason) {
		long r = bpf_store_hdr_opt(ctx, option, OPTION_LEN, 0);
		/* -EEXIST: another daemon of this namespace has written it. */
		if (r && r != -EEXIST)
			reason = SMCR_REASON_OPTION_REMOVED;
		else if (!synack)
			bpf_map_update_elem(&synacks, &key, &written, BPF_NOEXIST);
	}
	/* Also if the policy has changed since room for the option was reserved: without this note
	 * the answer would count as lost, and so as sent with the option. */
	settle_answer(cookie, reason);
}

/* ---- the outcome, from the child's point of view */

/* The listener was claimed during the handshake: BPF programs of another daemon, or none, may have
 * answered the SYN. */
static __always_inline bool is_unsure(struct bpf_sock_ops *ctx, const struct smcr_sock *sock)
{
	__u64 cookie = bpf_get_socket_cookie(ctx);
	__u32 *answered = bpf_map_lookup_elem(&answers, &cookie);
	if (answered)
		return *answered == ANSWER_UNSURE;
	return is_recent(sock->adopted) && has_option(ctx, BPF_LOAD_HDR_OPT_TCP_SYN);
}

/* Not for a listener that was claimed so late that its callbacks stay off: then no SYN was answered
 * here. Nor where another BPF program has switched them off. */
static __always_inline bool answers_syns(struct bpf_sock_ops *ctx)
{
	return ctx->bpf_sock_ops_cb_flags & BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG;
}

/* Most connections: the SYN has no option, and passive_outcome() need not search the maps.
 * @param listed  the callbacks of the listener were switched on */
static __always_inline bool is_ordinary(struct bpf_sock_ops *ctx, bool listed)
{
	return !(ctx->skb_tcp_flags & TCPHDR_SYN) && (listed || answers_syns(ctx)) &&
	       did_not_ask(ctx);
}

/* Before the child has sent or received anything. */
static __always_inline struct smcr_synack_key synack_key(struct bpf_sock_ops *ctx)
{
	return (struct smcr_synack_key){ .seq = ctx->snd_nxt - 1, .ack = ctx->rcv_nxt };
}

/* What the SYN-ACKs have told the peer. What has really left counts more than what was written.
 * @return 0: they had the option; why they had not; or an ANSWER_... */
static __always_inline __u32 synack_verdict(struct bpf_sock_ops *ctx)
{
	struct smcr_synack_key key = synack_key(ctx);
	__u64 cookie = bpf_get_socket_cookie(ctx);
	__u32 *answered = bpf_map_lookup_elem(&answers, &cookie);
	__u32 *synack = bpf_map_lookup_elem(&synacks, &key);
	__u32 left = synack ? *synack & (SMCR_SYNACK_WITH | SMCR_SYNACK_WITHOUT) : 0;
	if (left == (SMCR_SYNACK_WITH | SMCR_SYNACK_WITHOUT))
		return ANSWER_DOUBTFUL;
	if (left == SMCR_SYNACK_WITH)
		return 0;
	if (answered && *answered && *answered != ANSWER_RESERVED)
		return *answered;
	if (left || (answered && *answered))
		return SMCR_REASON_OPTION_REMOVED;
	return answered ? 0 : ANSWER_NONE;
}

/* Has this reason held as long as a handshake takes? These have, unless an administrator has just
 * changed something. */
static __always_inline bool is_lasting(__u32 reason)
{
	switch (reason) {
	case SMCR_REASON_OWN_HOST:
	case SMCR_REASON_LOCAL_POLICY:
	case SMCR_REASON_IPSEC: return true;
	default: return false;
	}
}

/*
 * The answer is missing because the LRU map has dropped it: assume that the option was sent, unless
 * it cannot have been. If that is wrong, the peer's data will be refused as CLC; the opposite
 * mistake would give the peer's CLC to the application.
 */
static __noinline __u32 lost_answer(struct bpf_sock_ops *ctx, const struct smcr_claimant *by)
{
	struct rule_search search = search_of(by, ctx->local_port);
	__u32 reason = policy(ctx, &search, true, false);
	return is_lasting(reason) ? reason : 0;
}

/* No SYN-ACK was seen here, as the callbacks are off. Were they off for the listener too? Another
 * BPF program may have switched them off for its children only. */
static __always_inline __u32 unseen_outcome(struct bpf_sock_ops *ctx, const struct smcr_sock *sock,
					    bool listed)
{
	if (!listed)
		return sock->flags & SMCR_SOCK_REFUSED ? SMCR_REASON_LIMIT
						       : SMCR_REASON_NOT_CLAIMED;
	const struct smcr_listen *listen = find_listener(ctx);
	return listen && listen->heard ? ANSWER_DOUBTFUL : SMCR_REASON_OPTION_REMOVED;
}

/* @return 0: the peer's SYN had the option, and our SYN-ACK too; ANSWER_DOUBTFUL; else why not */
static __always_inline __u32 passive_outcome(struct bpf_sock_ops *ctx, const struct smcr_sock *sock,
					     bool listed)
{
	__u32 verdict = synack_verdict(ctx);
	if (verdict != ANSWER_NONE)
		return verdict;
	if (!answers_syns(ctx))
		return unseen_outcome(ctx, sock, listed);
	/* -ENOENT after a SYN cookie: no SYN was kept. */
	return has_option(ctx, BPF_LOAD_HDR_OPT_TCP_SYN) ? lost_answer(ctx, &sock->by)
							 : SMCR_REASON_PEER_NO_SMC;
}

/* The handshake is over: remove the answer, so that a flood of connections does not fill the
 * maps. */
static __always_inline void forget_answer(struct bpf_sock_ops *ctx)
{
	struct smcr_synack_key key = synack_key(ctx);
	__u64 cookie = bpf_get_socket_cookie(ctx);
	bpf_map_delete_elem(&answers, &cookie);
	bpf_map_delete_elem(&synacks, &key);
}

/*
 * TCP Fast Open: the connection exists before our SYN-ACK, which is not to have the option. The
 * request has no cookie yet, so write_in_synack() learns that by the numbers of the SYN-ACK, which
 * acknowledges the data too.
 */
static __always_inline void forbid_option(struct bpf_sock_ops *ctx)
{
	struct smcr_synack_key key = synack_key(ctx);
	const __u8 *tcp = ctx->skb_data;
	__u32 refused = SMCR_SYNACK_REFUSED;
	if (!has_option(ctx, 0) || tcp + 13 > (const __u8 *)ctx->skb_data_end)
		return;
	key.ack += ctx->skb_len - (tcp[12] >> 4) * 4;
	bpf_map_update_elem(&synacks, &key, &refused, BPF_ANY);
}

/* ---- the child */

/* The library and the next daemon find the promise on the socket itself (proto/ipc/ipc.h). */
static __always_inline void mark_promise(struct bpf_sock_ops *ctx, struct smcr_sock *sock)
{
	int before = 0, mark = IPC_PROMISE_MARK;
	bpf_getsockopt(ctx, SOL_TCP, TCP_SYNCNT, &before, sizeof(before));
	if (bpf_setsockopt(ctx, SOL_TCP, TCP_SYNCNT, &mark, sizeof(mark)) == 0)
		sock->syn_retries = before;
}

/* This child of a listener whose claim was withdrawn was promised nothing. Without this note the
 * library would have to look at the peer's first bytes. */
static __always_inline void note_unclaimed(struct bpf_sock_ops *ctx)
{
	struct smcr_sock *sock = any_storage_of(ctx);
	if (sock && !(sock->flags & SMCR_SOCK_BARRED))
		sock->negotiated = IPC_NEGOTIATED_UNCLAIMED;
}

/* The listener's claim was withdrawn after it had answered with the option: the answer counts. */
static __always_inline struct smcr_sock *late_child(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	__u32 verdict = synack_verdict(ctx);
	if (verdict == ANSWER_NONE)
		return NULL;
	if ((verdict && verdict != ANSWER_DOUBTFUL) || !sk) {
		if (verdict && verdict != ANSWER_UNSURE)
			note_unclaimed(ctx);
		forget_answer(ctx);
		return NULL;
	}
	return bpf_sk_storage_get(&socks, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
}

/* A child of a listener that is barred or whose claim was withdrawn: switch off the inherited
 * callbacks, which would run for every packet. */
static __always_inline void leave_unclaimed(struct bpf_sock_ops *ctx)
{
	struct smcr_sock *sock = any_storage_of(ctx);
	if (!sock)
		return;
	switch_off(ctx, sock);
	sock->flags &= ~(SMCR_SOCK_LISTED | SMCR_SOCK_QUIET);
	if (sock->flags & SMCR_SOCK_BARRED)
		note_plain(ctx, sock);
}

/* Settles the handshake of a child of a claimed listener. */
static __always_inline void judge_child(struct bpf_sock_ops *ctx, struct smcr_sock *sock,
					bool listed)
{
	if (ctx->skb_tcp_flags & TCPHDR_SYN) {
		settle(sock, SMCR_SOCK_SERVER, SMCR_REASON_SOCKET_OPTION);
		forbid_option(ctx);
		return;
	}
	if (!is_unsure(ctx, sock)) {
		__u32 outcome = passive_outcome(ctx, sock, listed);
		if (outcome == ANSWER_DOUBTFUL)
			settle_in_doubt(sock);
		else
			settle(sock, SMCR_SOCK_SERVER, outcome);
	}
	forget_answer(ctx);
}

/* Not always a child: after a simultaneous open it is the socket of connect(). */
static __always_inline void on_passive_established(struct bpf_sock_ops *ctx)
{
	struct smcr_sock *sock = storage_of(ctx);
	if (!sock && answers_syns(ctx))
		sock = late_child(ctx);
	if (!sock) {
		leave_unclaimed(ctx);
		return;
	}
	bool listed = sock->flags & SMCR_SOCK_LISTED;
	sock->flags &= ~SMCR_SOCK_LISTED; /* only the listener is counted */
	/* Both sides have connected to each other (simultaneous open): there is no server. */
	if (sock->role == SMCR_SOCK_CLIENT)
		settle(sock, SMCR_SOCK_CLIENT, SMCR_REASON_SOCKET_OPTION);
	else if (is_ordinary(ctx, listed))
		settle(sock, SMCR_SOCK_SERVER, SMCR_REASON_PEER_NO_SMC);
	else
		judge_child(ctx, sock, listed);
	if (sock->negotiated == IPC_NEGOTIATED_YES)
		mark_promise(ctx, sock);
	if (sock->negotiated == IPC_NEGOTIATED_YES || sock->negotiated == IPC_NEGOTIATED_DOUBTFUL)
		hold(ctx, sock);
	switch_off(ctx, sock);
	if (sock->negotiated == IPC_NEGOTIATED_NO)
		note_plain(ctx, sock);
}

#endif

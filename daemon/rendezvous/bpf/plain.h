/* SPDX-License-Identifier: MIT */
/**
 * @file plain.h
 * Connections that stay plain TCP: each is counted by its reason, and told to the daemon with
 * addresses, user and process if there is room. The daemon reads both (daemon/rendezvous/tally.c).
 *
 * Connections of claimed sockets are noted when their handshake is over (note_plain()). Of others
 * the library tells: step_aside(), add_unasked().
 */
#ifndef SMCRD_RENDEZVOUS_BPF_PLAIN_H
#define SMCRD_RENDEZVOUS_BPF_PLAIN_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/errno.h>
#include <stdbool.h>

#include "daemon/rendezvous/bpf/address.h"
#include "daemon/rendezvous/bpf/caller.h"
#include "daemon/rendezvous/bpf/numbers.h"
#include "daemon/rendezvous/bpf/smcr.h"
#include "daemon/rendezvous/bpf/socks.h"
#include "proto/smcr/reason.h"

/* How many there were, by enum smcr_reason. One count for each processor, so that processors do not
 * wait for each other. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, SMCR_MAX_REASONS);
	__type(key, __u32);
	__type(value, struct smcr_plain_count);
} plain_counts SEC(".maps");

/* The latest ones, as struct smcr_plain, until the daemon has read them. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, SMCR_PLAIN_BYTES);
} plain_told SEC(".maps");

/* How many of these each user has, by a hash of the user. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << SMCR_PLAIN_USER_BITS);
	__type(key, __u32);
	__type(value, struct smcr_plain_share);
} plain_shares SEC(".maps");

/* How often the daemon has read the latest ones: with each time, users' shares begin anew. */
__u32 plain_round;

/* ---- counting and telling */

static __always_inline void count_plain(__u32 reason, __u32 connections, bool told)
{
	struct smcr_plain_count *count = bpf_map_lookup_elem(&plain_counts, &reason);
	if (!count) {
		struct smcr_plain_count none = { 0 };
		bpf_map_update_elem(&plain_counts, &reason, &none, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&plain_counts, &reason);
	}
	if (!count)
		return;
	__sync_fetch_and_add(&count->connections, connections);
	if (!told)
		__sync_fetch_and_add(&count->untold, connections);
}

/* May another connection of this user be told? Two processors at the same time may count only one,
 * but this is only a limit. */
static __always_inline bool has_share(__u32 uid)
{
	__u32 place = uid * 0x9E3779B1u >> (32 - SMCR_PLAIN_USER_BITS);
	struct smcr_plain_share *share = bpf_map_lookup_elem(&plain_shares, &place);
	if (!share)
		return false;
	if (share->round != plain_round) {
		share->round = plain_round;
		share->told = 0;
	}
	if (share->told >= SMCR_PLAIN_OF_A_USER)
		return false;
	share->told++;
	return true;
}

/* The daemon reads the map regularly: waking it up would cost more than everything else here. */
static __noinline int tell_plain(struct smcr_plain *plain)
{
	plain->time = bpf_ktime_get_ns();
	bool told = has_share(plain->uid) &&
		    bpf_ringbuf_output(&plain_told, plain, sizeof(*plain), BPF_RB_NO_WAKEUP) == 0;
	count_plain(plain->reason, plain->unasked ? plain->unasked : 1, told);
	return 0;
}

/* All but the addresses and the cookie. */
static __always_inline void plain_of(const struct smcr_sock *sock, struct smcr_plain *plain)
{
	plain->role = sock->role;
	plain->reason = sock->reason;
	plain->uid = sock->by.uid;
	plain->process = sock->process;
	plain->unasked = 0;
}

/* ---- when a handshake is over */

/* The handshake of this socket is over, and the connection is plain TCP. */
static __always_inline void note_plain(struct bpf_sock_ops *ctx, struct smcr_sock *sock)
{
	struct smcr_plain plain;
	sock->flags |= SMCR_SOCK_COUNTED;
	plain_of(sock, &plain);
	remote_addr(ctx, &plain.peer);
	local_addr(ctx, &plain.local);
	plain.peer_port = bpf_ntohl(LOAD(ctx, remote_port));
	plain.local_port = LOAD(ctx, local_port);
	plain.cookie = sock->cookie = bpf_get_socket_cookie(ctx);
	tell_plain(&plain);
}

/* ---- when the library tells (setsockopt()) */

/* @param unasked  0: this connection; else so many others to its peer */
static __always_inline void note_plain_socket(struct bpf_sock *sk, const struct smcr_sock *sock,
					      __u32 unasked)
{
	struct smcr_plain plain;
	plain_of(sock, &plain);
	if (sk->family == AF_INET6) {
		SET_IP6(&plain.local, sk, src_ip6);
		SET_IP6(&plain.peer, sk, dst_ip6);
	} else {
		set_ip4(&plain.local, LOAD(sk, src_ip4));
		set_ip4(&plain.peer, LOAD(sk, dst_ip4));
	}
	plain.local_port = sk->src_port;
	plain.peer_port = bpf_ntohs(sk->dst_port);
	plain.cookie = 0; /* not available to this kind of BPF program */
	if (unasked) {
		plain.cookie = sock->cookie;
		plain.reason = SMCR_REASON_PEER_NO_SMC;
		plain.unasked = unasked;
	}
	tell_plain(&plain);
}

/* Reasons that the library may give: bounded, so that there is room for all. */
static __always_inline bool is_reason_to_step_aside(__u32 reason)
{
	switch (reason) {
	case SMCR_REASON_SOCKET_OPTION:
	case SMCR_REASON_TCP_MESSAGES:
	case SMCR_REASON_NOT_CLAIMED:
	case SMCR_REASON_NO_DAEMON:
	case SMCR_REASON_LIMIT:
	case SMCR_REASON_NO_DESCRIPTORS:
	case SMCR_REASON_INTERNAL:
	case SMCR_REASON_OPTION_REMOVED:
	case SMCR_REASON_BARRED: return true;
	default: return false;
	}
}

/* IPC_SO_PLAIN: counted once per socket. While connect() is in progress, it is counted when that
 * succeeds (on_active_established()). */
static __always_inline int step_aside(struct bpf_sock *sk, const struct smcr_aside *aside,
				      const struct caller *caller)
{
	if (!is_tcp(sk))
		return -EOPNOTSUPP;
	if (!is_reason_to_step_aside(aside->reason) || sk->state == BPF_TCP_LISTEN ||
	    sk->state == BPF_TCP_CLOSE)
		return -EINVAL;
	struct smcr_sock *sock = bpf_sk_storage_get(&socks, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!sock)
		return -ENOMEM;
	if (sock->flags & (SMCR_SOCK_COUNTED | SMCR_SOCK_ASIDE))
		return -EALREADY;
	bool connecting = sk->state == BPF_TCP_SYN_SENT || sk->state == BPF_TCP_SYN_RECV;
	if (connecting && sock->flags & SMCR_SOCK_CLAIMED)
		return -EBUSY;
	sock->by.uid = caller->by.uid;
	sock->process = caller->process;
	sock->role = aside->flags & IPC_PLAIN_ACCEPTED ? SMCR_SOCK_SERVER : SMCR_SOCK_CLIENT;
	sock->reason = aside->reason;
	sock->flags |= SMCR_SOCK_ASIDE;
	if (!connecting) {
		sock->flags |= SMCR_SOCK_COUNTED;
		note_plain_socket(sk, sock, 0);
	}
	return 0;
}

/* IPC_SO_UNASKED. Told once after each handshake of a claimed client, so the number of connections
 * stays in proportion to those that the kernel has made. */
static __always_inline int add_unasked(struct bpf_sock *sk, __u32 number)
{
	if (!is_tcp(sk))
		return -EOPNOTSUPP;
	struct smcr_sock *sock = bpf_sk_storage_get(&socks, sk, NULL, 0);
	if (!sock || !(sock->flags & SMCR_SOCK_CLAIMED) || sock->role != SMCR_SOCK_CLIENT ||
	    !(sock->flags & (SMCR_SOCK_COUNTED | SMCR_SOCK_HELD)) || number > SMCR_UNASKED_MAX)
		return -EINVAL;
	if (sock->flags & SMCR_SOCK_UNASKED)
		return -EALREADY;
	sock->flags |= SMCR_SOCK_UNASKED;
	if (number)
		note_plain_socket(sk, sock, number);
	return sock->reason == SMCR_REASON_PEER_NO_SMC ? 0 : -ENODATA;
}

#endif

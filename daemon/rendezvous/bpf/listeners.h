/* SPDX-License-Identifier: MIT */
/**
 * @file listeners.h
 * The claimed listeners of the network namespace, by their address: how many there are, and who has
 * claimed them. While a SYN is answered (server.h) the listener itself cannot be accessed, only the
 * address that the SYN came to, so `listeners` has what the answer depends on. That a callback runs
 * shows only that some BPF program wanted header options on that listener. Several sockets may
 * listen at an address (SO_REUSEPORT).
 *
 * A listener is counted as long as it listens: from listen() on (on_listen()), or from its claim on
 * if that came later (adopt_listener() in claims.h). It is SMCR_SOCK_LISTED meanwhile.
 */
#ifndef SMCRD_RENDEZVOUS_BPF_LISTENERS_H
#define SMCRD_RENDEZVOUS_BPF_LISTENERS_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/errno.h>
#include <stdbool.h>

#include "daemon/rendezvous/bpf/address.h"
#include "daemon/rendezvous/bpf/handshake.h"
#include "daemon/rendezvous/bpf/numbers.h"
#include "daemon/rendezvous/bpf/smcr.h"

/* Claimed listeners at an address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SMCR_MAX_LISTENERS);
	__type(key, struct smcr_listen_key);
	__type(value, struct smcr_listen);
} listeners SEC(".maps");

/* How many of these sockets each user has claimed. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SMCR_MAX_LISTENERS);
	__type(key, __u32);
	__type(value, struct smcr_count);
} listening SEC(".maps");

/* The number of claimed listeners, how many were too many for their users, and the last such
 * user. */
__u32 num_listening, num_refused, refused_uid;

/* ---- counts that begin and end with their entry in a map */

/* An entry whose count falls to 0 is marked `over` and will be deleted. Code that finds it marked
 * makes another entry once it is gone, so no count is lost. */
#define COUNT_TRIES 8

/* @return -EAGAIN: the entry is over; -EDQUOT: it has reached `limit`; -ENOENT: it has reached
 *         `limit` with a count of 0, so it is over and the caller deletes it */
static __always_inline int count_up(struct smcr_count *count, __u32 limit)
{
	int r = -EAGAIN;
	bpf_spin_lock(&count->lock);
	if (!count->over && count->n < limit) {
		count->n++;
		r = 0;
	} else if (!count->over) {
		count->over = !count->n;
		r = count->n ? -EDQUOT : -ENOENT;
	}
	bpf_spin_unlock(&count->lock);
	return r;
}

/* @return true: the entry is over, and the caller deletes it */
static __always_inline bool count_down(struct smcr_count *count)
{
	bpf_spin_lock(&count->lock);
	if (count->n)
		count->n--;
	bool over = !count->n && !count->over;
	count->over |= over;
	bpf_spin_unlock(&count->lock);
	return over;
}

/* ---- a user's share */

/* A user may have no more listeners than can still be claimed by others. So users that claim as
 * many as they can leave as many as each of them has. */
static __noinline int take_place(__u32 uid)
{
	int r = -EAGAIN;
	__u32 taken = num_listening;
	__u32 free = taken < SMCR_MAX_LISTENERS ? SMCR_MAX_LISTENERS - taken : 0;
	for (int i = 0; i < COUNT_TRIES && r == -EAGAIN; i++) {
		struct smcr_count none = { 0 };
		bpf_map_update_elem(&listening, &uid, &none, BPF_NOEXIST);
		struct smcr_count *user = bpf_map_lookup_elem(&listening, &uid);
		if (user)
			r = count_up(user, free);
		if (r == -ENOENT)
			bpf_map_delete_elem(&listening, &uid);
	}
	if (r == 0) {
		__sync_fetch_and_add(&num_listening, 1);
	} else {
		refused_uid = uid;
		__sync_fetch_and_add(&num_refused, 1);
	}
	return r;
}

static __noinline int leave_place(__u32 uid)
{
	struct smcr_count *user = bpf_map_lookup_elem(&listening, &uid);
	if (user && count_down(user))
		bpf_map_delete_elem(&listening, &uid);
	__sync_fetch_and_add(&num_listening, -1);
	return 0;
}

/* ---- listeners at an address */

/* 0.0.0.0 and :: both mean all addresses: a socket on :: takes IPv4 connections too. */
static __always_inline void unify_any(struct smcr_addr16 *addr)
{
	if (!addr->word[0] && !addr->word[1] && addr->word[2] == bpf_htonl(0xFFFF) &&
	    !addr->word[3])
		addr->word[2] = 0;
}

static __always_inline void set_claimant(struct smcr_listen *listen, const struct smcr_sock *sock)
{
	listen->by = sock->by;
	listen->adopted = sock->adopted;
}

/* Count another listener at an address. @return 0, or an error if it cannot be counted */
static __always_inline int note_listener(const struct smcr_listen_key *key,
					 const struct smcr_sock *sock)
{
	int r = -EAGAIN;
	for (int i = 0; i < COUNT_TRIES && r == -EAGAIN; i++) {
		struct smcr_listen none = { .n = 0 };
		bpf_map_update_elem(&listeners, key, &none, BPF_NOEXIST);
		struct smcr_listen *listen = bpf_map_lookup_elem(&listeners, key);
		if (listen)
			r = count_up((struct smcr_count *)listen, 0xFFFFFFFF);
		if (listen && r == 0)
			set_claimant(listen, sock);
	}
	return r;
}

/* Begin to count a listener. One that cannot be counted stays plain TCP, and its children know why.
 * @param key  the address, which is changed: unify_any()
 * @return whether it is counted */
static __always_inline bool add_listener(struct smcr_listen_key *key, struct smcr_sock *sock)
{
	__u32 uid = sock->by.uid;
	unify_any(&key->local);
	sock->flags &= ~(SMCR_SOCK_LISTED | SMCR_SOCK_REFUSED);
	int r = take_place(uid);
	if (r == 0 && note_listener(key, sock)) {
		leave_place(uid);
		r = -EAGAIN;
	}
	sock->flags |= r ? SMCR_SOCK_REFUSED : SMCR_SOCK_LISTED;
	sock->listed_uid = uid;
	return r == 0;
}

/* Count the listener no more, if it was counted. */
static __always_inline void remove_listener(struct smcr_listen_key *key, struct smcr_sock *sock)
{
	if (!(sock->flags & SMCR_SOCK_LISTED))
		return;
	sock->flags &= ~SMCR_SOCK_LISTED;
	unify_any(&key->local);
	struct smcr_listen *listen = bpf_map_lookup_elem(&listeners, key);
	if (listen && (sock->flags & SMCR_SOCK_BARRED))
		__sync_fetch_and_add(&listen->barred, -1);
	if (listen && (sock->flags & SMCR_SOCK_QUIET))
		__sync_fetch_and_add(&listen->quiet, -1);
	sock->flags &= ~SMCR_SOCK_QUIET;
	if (listen && count_down((struct smcr_count *)listen))
		bpf_map_delete_elem(&listeners, key);
	leave_place(sock->listed_uid);
}

/* Find the listeners at the address that the SYN came to, else those at all addresses.
 * @return their entry; NULL: none is claimed */
static __always_inline struct smcr_listen *find_listener(struct bpf_sock_ops *ctx)
{
	struct smcr_listen_key key;
	local_addr(ctx, &key.local);
	key.port = ctx->local_port;
	struct smcr_listen *listen = bpf_map_lookup_elem(&listeners, &key);
	if (listen && listen->n > 0)
		return listen;
	__builtin_memset(&key.local, 0, sizeof(key.local));
	listen = bpf_map_lookup_elem(&listeners, &key);
	return listen && listen->n > 0 ? listen : NULL;
}

/* ---- the same, of a socket while a program calls setsockopt() */

static __always_inline void listener_address(struct bpf_sock *sk, struct smcr_listen_key *key)
{
	if (sk->family == AF_INET6)
		SET_IP6(&key->local, sk, src_ip6);
	else
		set_ip4(&key->local, LOAD(sk, src_ip4));
	key->port = sk->src_port;
}

/* @return the entry of the listener's address, or NULL */
static __always_inline struct smcr_listen *entry_of(struct bpf_sock *sk)
{
	struct smcr_listen_key key;
	listener_address(sk, &key);
	unify_any(&key.local);
	return bpf_map_lookup_elem(&listeners, &key);
}

/* A listener that is counted is claimed again, perhaps by another user, as by a worker that has
 * changed its user. */
static __always_inline void change_claimant(struct bpf_sock *sk, const struct smcr_sock *sock)
{
	struct smcr_listen *listen = entry_of(sk);
	if (listen)
		set_claimant(listen, sock);
}

/* remove_listener() of the socket's address. */
static __always_inline void discount_listener(struct bpf_sock *sk, struct smcr_sock *sock)
{
	struct smcr_listen_key key;
	listener_address(sk, &key);
	remove_listener(&key, sock);
}

/* ---- beginning and end */

/* The program calls listen(). */
static __always_inline void on_listen(struct bpf_sock_ops *ctx)
{
	struct smcr_sock *sock = any_storage_of(ctx);
	struct smcr_listen_key key;
	int one = 1, have = 0;
	if (!sock)
		return;
	/* The socket may have listened with a claim before. Its callbacks would answer for others
	 * at its address. */
	if (!(sock->flags & SMCR_SOCK_CLAIMED)) {
		switch_off(ctx, sock);
		return;
	}
	/* Whoever accepts, in whatever process, may not expect CLC. */
	if (sock->by.flags & IPC_CLAIM_TO_CONNECT) {
		end_claim(ctx, sock);
		return;
	}
	/* Without the saved SYN, repeated SYN-ACKs would lack the option. The program itself may
	 * have set this. */
	if (bpf_getsockopt(ctx, SOL_TCP, TCP_SAVE_SYN, &have, sizeof(have)) || !have)
		bpf_setsockopt(ctx, SOL_TCP, TCP_SAVE_SYN, &one, sizeof(one));
	sock->flags = SMCR_SOCK_CLAIMED;
	sock->role = SMCR_SOCK_SERVER;
	sock->negotiated = IPC_NEGOTIATED_UNKNOWN;
	local_addr(ctx, &key.local);
	key.port = ctx->local_port;
	if (add_listener(&key, sock))
		switch_on(ctx, sock,
			  BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG | BPF_SOCK_OPS_STATE_CB_FLAG);
}

/* The socket leaves the state args[0]. If that was LISTEN, a listener ends. */
static __always_inline void on_state(struct bpf_sock_ops *ctx)
{
	struct smcr_listen_key key;
	struct smcr_sock *sock = ctx->args[0] == BPF_TCP_LISTEN ? any_storage_of(ctx) : NULL;
	if (!sock)
		return;
	local_addr(ctx, &key.local);
	key.port = ctx->local_port;
	remove_listener(&key, sock);
}

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file claims.h
 * Claims and bars of sockets, which programs set with the private options IPC_SO_CLAIM and
 * IPC_SO_BAR (proto/ipc/ipc.h says what they mean). A claim is noted in the socket's storage, where
 * connect() and listen() find it (client.h, listeners.h).
 *
 * Most of this is about sockets that listen already, for which no other callback will come: they
 * are counted in `listeners` here.
 */
#ifndef SMCRD_RENDEZVOUS_BPF_CLAIMS_H
#define SMCRD_RENDEZVOUS_BPF_CLAIMS_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>
#include <linux/errno.h>
#include <stdbool.h>

#include "daemon/rendezvous/bpf/address.h"
#include "daemon/rendezvous/bpf/caller.h"
#include "daemon/rendezvous/bpf/listeners.h"
#include "daemon/rendezvous/bpf/numbers.h"
#include "daemon/rendezvous/bpf/smcr.h"
#include "daemon/rendezvous/bpf/socks.h"
#include "proto/smcr/reason.h"

/* ---- a socket that listens already */

/*
 * Switch the callbacks of a listener on that listened before it was claimed. Before kernel 6.12
 * this cannot be done. There a listener that keeps SYNs is taken for one that was claimed with an
 * earlier daemon, whose callbacks are still on. False: its end would not be reported, so it must
 * not be counted, and stays plain TCP.
 */
static __always_inline bool callbacks_on(struct bpf_sock *sk, int wanted)
{
	int now = 0, keeps_syn = 0;
	bpf_getsockopt(sk, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &now, sizeof(now));
	now |= wanted;
	if (bpf_setsockopt(sk, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &now, sizeof(now)) == 0)
		return true;
	return bpf_getsockopt(sk, SOL_TCP, TCP_SAVE_SYN, &keeps_syn, sizeof(keeps_syn)) == 0 &&
	       keeps_syn;
}

/* A socket that listens already is claimed or barred: one that was claimed with an earlier daemon,
 * or one that never was. */
static __always_inline void adopt_listener(struct bpf_sock *sk, struct smcr_sock *sock)
{
	struct smcr_listen_key key;
	int one = 1;
	int wanted = BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG | BPF_SOCK_OPS_STATE_CB_FLAG;
	sock->role = SMCR_SOCK_SERVER;
	if (!callbacks_on(sk, wanted))
		return;
	sock->adopted = bpf_ktime_get_ns();
	listener_address(sk, &key);
	if (!add_listener(&key, sock)) {
		sock->adopted = 0;
		return;
	}
	bpf_setsockopt(sk, SOL_TCP, TCP_SAVE_SYN, &one, sizeof(one));
	sock->cb_flags = wanted;
}

/* ---- the end of a claim */

/*
 * Forget all but the callbacks that are on: a connect() that failed has left them on, and children
 * inherit those of a listener. They run for every packet unless the next connect(), or the child
 * when it is established, knows of them. A listener's storage stays also for late_child(), where
 * making one could fail.
 */
static __always_inline void forget(struct bpf_sock *sk, struct smcr_sock *sock)
{
	__u32 cb_flags = sock->cb_flags;
	if (!cb_flags && sk->state != BPF_TCP_LISTEN) {
		bpf_sk_storage_delete(&socks, sk);
		return;
	}
	__builtin_memset(sock, 0, sizeof(*sock));
	sock->cb_flags = cb_flags;
}

/*
 * A claim or bar of a listener ends. The callbacks of the listener stay on, for handshakes that
 * were begun with its claim, and so it would answer for others at its address that are claimed.
 * None of them answers a SYN as long as it listens.
 */
static __always_inline void fall_silent(struct bpf_sock *sk, struct smcr_sock *sock)
{
	if (!(sock->flags & SMCR_SOCK_LISTED)) {
		forget(sk, sock);
		return;
	}
	struct smcr_listen *listen = entry_of(sk);
	if (listen && (sock->flags & SMCR_SOCK_BARRED))
		__sync_fetch_and_add(&listen->barred, -1);
	if (listen && !(sock->flags & SMCR_SOCK_QUIET))
		__sync_fetch_and_add(&listen->quiet, 1);
	sock->flags = SMCR_SOCK_LISTED | SMCR_SOCK_QUIET;
	sock->negotiated = IPC_NEGOTIATED_UNKNOWN;
	sock->reason = 0;
}

/* ---- claims */

static __always_inline int claim(struct bpf_sock *sk, const struct caller *caller)
{
	struct smcr_sock *sock = bpf_sk_storage_get(&socks, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!sock)
		return -ENOMEM;
	if (sock->flags & SMCR_SOCK_BARRED)
		return -EPERM;
	sock->flags &= ~(SMCR_SOCK_ASIDE | SMCR_SOCK_COUNTED);
	sock->by = caller->by;
	sock->process = caller->process;
	if (sock->flags & SMCR_SOCK_QUIET)
		discount_listener(sk, sock);
	if (sk->state == BPF_TCP_LISTEN && !(sock->flags & SMCR_SOCK_LISTED))
		adopt_listener(sk, sock);
	else if (sk->state == BPF_TCP_LISTEN)
		change_claimant(sk, sock);
	sock->flags |= SMCR_SOCK_CLAIMED;
	if (sk->state != BPF_TCP_LISTEN)
		sock->flags |= SMCR_SOCK_FRESH;
	return 0;
}

static __always_inline int unclaim(struct bpf_sock *sk)
{
	struct smcr_sock *sock = bpf_sk_storage_get(&socks, sk, NULL, 0);
	if (!sock)
		return 0;
	if (sock->flags & SMCR_SOCK_BARRED) {
		sock->flags &= ~SMCR_SOCK_WAS_CLAIMED;
		return 0;
	}
	if (sk->state == BPF_TCP_LISTEN)
		fall_silent(sk, sock);
	else
		forget(sk, sock);
	return 0;
}

/* ---- bars */

/* Others at the address of a barred listener that are claimed answer no SYN meanwhile: the listener
 * itself would answer for them. So it is counted too, also if it was claimed with an earlier
 * daemon, whose callbacks are still on. */
static __always_inline void count_barred(struct bpf_sock *sk, struct smcr_sock *sock)
{
	if (!(sock->flags & SMCR_SOCK_LISTED))
		adopt_listener(sk, sock);
	if (!(sock->flags & SMCR_SOCK_LISTED))
		return;
	struct smcr_listen *listen = entry_of(sk);
	if (listen)
		__sync_fetch_and_add(&listen->barred, 1);
}

/* Children inherit `negotiated` from the listener's storage, so that accept() does not try to claim
 * them again. */
static __always_inline int bar(struct bpf_sock *sk, const struct caller *caller)
{
	if (sk->state != BPF_TCP_LISTEN)
		return -EINVAL;
	struct smcr_sock *sock = bpf_sk_storage_get(&socks, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!sock)
		return -ENOMEM;
	if (sock->flags & SMCR_SOCK_BARRED)
		return -EALREADY;
	__u32 was_claimed = 0;
	if (sock->flags & SMCR_SOCK_CLAIMED) {
		was_claimed = SMCR_SOCK_WAS_CLAIMED;
	} else {
		sock->by = caller->by;
		sock->process = caller->process;
	}
	if (sock->flags & SMCR_SOCK_QUIET)
		discount_listener(sk, sock);
	count_barred(sk, sock);
	sock->flags = SMCR_SOCK_BARRED | was_claimed | (sock->flags & SMCR_SOCK_LISTED);
	sock->role = SMCR_SOCK_SERVER;
	sock->negotiated = IPC_NEGOTIATED_NO;
	sock->reason = SMCR_REASON_BARRED;
	return 0;
}

static __always_inline int unbar(struct bpf_sock *sk)
{
	struct smcr_sock *sock = bpf_sk_storage_get(&socks, sk, NULL, 0);
	if (!sock || !(sock->flags & SMCR_SOCK_BARRED))
		return 0;
	bool was_claimed = sock->flags & SMCR_SOCK_WAS_CLAIMED;
	struct caller before = { .by = sock->by, .process = sock->process };
	if (!was_claimed) {
		fall_silent(sk, sock);
		return 0;
	}
	discount_listener(sk, sock);
	forget(sk, sock);
	return claim(sk, &before);
}

/* ---- both */

/* IPC_SO_CLAIM, IPC_SO_BAR. @return 0, or a negative error */
static __always_inline int set_claim(struct bpf_sock *sk, int name, bool on,
				     const struct caller *caller)
{
	if (!is_tcp(sk))
		return -EOPNOTSUPP;
	bool listens = sk->state == BPF_TCP_LISTEN && !(caller->by.flags & IPC_CLAIM_TO_CONNECT);
	if (sk->state != BPF_TCP_CLOSE && !listens)
		return -EISCONN;
	if (name == IPC_SO_BAR)
		return on ? bar(sk, caller) : unbar(sk);
	return on ? claim(sk, caller) : unclaim(sk);
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The SMC-R TCP option (RFC 7609 3.1, 3.5.1.1, A.1) on claimed sockets of one network namespace.
 *
 * This file has the three BPF programs that the kernel calls. What they do is in headers, each of
 * which has one subject:
 *
 *   claims.h        setsockopt(): a program claims a socket, or bars a listener
 *   client.h        connect(), the SYN with the option, and the outcome
 *   listeners.h     listen(): the claimed listeners, by address
 *   server.h        the SYN-ACK with the option, and the outcome
 *   handshake.h     what those three have in common
 *   policy.h        why a claimed socket does not send the option
 *   plain.h         counts connections that stay plain TCP, and tells the daemon of them
 *   spoken.h        setsockopt(): smcrd announces its CLC messages
 *   tcp_option.h    the option itself, and finding options in a packet
 *   leaving.h       in gate.bpf.c: what really leaves
 *   address.h       addresses of sockets
 *   caller.h        the process that calls setsockopt()
 *   socks.h         what is kept with each socket; gate.bpf.c uses it too
 *   smcr.h, rule.h, serving.h  types that the daemon uses too; SMCR_SOCK_... are the states of a
 *                   socket
 *   numbers.h       numbers from headers that cannot be included
 *
 * The way of a connection, as far as these programs see it:
 *
 *                client                        server
 *   claimed      claim()                       claim()
 *   begins       connect(): on_connect()       listen(): on_listen()
 *   SYN          reserve_in_syn(),
 *                write_in_syn()
 *   SYN-ACK                                    reserve_in_synack(),
 *                                              write_in_synack()
 *   established  on_active_established()       on_passive_established(), for the child
 *   asked        tell_of_socket()              tell_of_socket(), for the child
 *
 * In on_connect() and reserve_in_synack() policy() decides whether the option is sent. If not both
 * packets have it, note_plain() counts the connection as soon as it is established.
 *
 * These are headers, not objects that are linked: a function that another object calls must be
 * global, and the verifier checks global functions alone, without what their callers know.
 *
 * Attached to the root of the cgroup hierarchy, because the daemon and its clients are in different
 * cgroups. Several daemons, one per namespace, may be attached there. So every BPF program first
 * checks that the socket is of its own namespace, and otherwise does nothing.
 *
 * Uses only helpers that kernels 6.1 to 6.18 have, and no kernel types, so nothing depends on the
 * kernel's BTF.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>
#include <linux/errno.h>
#include <stdbool.h>

#include "daemon/rendezvous/bpf/caller.h"
#include "daemon/rendezvous/bpf/claims.h"
#include "daemon/rendezvous/bpf/client.h"
#include "daemon/rendezvous/bpf/listeners.h"
#include "daemon/rendezvous/bpf/numbers.h"
#include "daemon/rendezvous/bpf/plain.h"
#include "daemon/rendezvous/bpf/policy.h"
#include "daemon/rendezvous/bpf/server.h"
#include "daemon/rendezvous/bpf/serving.h"
#include "daemon/rendezvous/bpf/smcr.h"
#include "daemon/rendezvous/bpf/socks.h"
#include "daemon/rendezvous/bpf/spoken.h"

/* option.c writes these before it loads the programs. */
const volatile __u64 netns_cookie;
const volatile __s32 page_size = 4096;
struct smcr_serving serving;

/* The number in the daemon's abstract address; 0: it has none. */
volatile __u64 address_number;

/* ---- handshakes */

enum packet_kind { NEITHER, A_SYN, A_SYNACK };

/*
 * Which packet of a handshake the callback is about; no ACK has the option (TCPO-4). ctx->sk is a
 * client's own socket (is_fullsock), or a request, which stands for a server's handshake. The
 * callback flag that is on is the client's, or the listener's.
 *
 * Both ends may connect to each other's port (simultaneous open), or a socket to itself. Then the
 * client's own socket sends a SYN-ACK. With the option the peer would take it for a server's.
 */
static __always_inline enum packet_kind kind_of(struct bpf_sock_ops *ctx)
{
	bool ack = ctx->skb_tcp_flags & TCPHDR_ACK;
	if (!(ctx->skb_tcp_flags & TCPHDR_SYN) || (bool)ctx->is_fullsock == ack)
		return NEITHER;
	return ack ? A_SYNACK : A_SYN;
}

static __always_inline void on_hdr_opt_len(struct bpf_sock_ops *ctx)
{
	switch (kind_of(ctx)) {
	case A_SYN: reserve_in_syn(ctx); break;
	case A_SYNACK: reserve_in_synack(ctx); break;
	case NEITHER: break;
	}
}

static __always_inline void on_write_hdr_opt(struct bpf_sock_ops *ctx)
{
	switch (kind_of(ctx)) {
	case A_SYN: write_in_syn(ctx); break;
	case A_SYNACK: write_in_synack(ctx); break;
	case NEITHER: break;
	}
}

SEC("sockops")
int smcr_sockops(struct bpf_sock_ops *ctx)
{
	/* The kernel also asks for timeouts, windows and the like of every connection. */
	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
	case BPF_SOCK_OPS_STATE_CB:
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB: break;
	default: return 1;
	}
	if (bpf_get_netns_cookie(ctx) != netns_cookie)
		return 1;
	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB: on_connect(ctx); break;
	case BPF_SOCK_OPS_TCP_LISTEN_CB: on_listen(ctx); break;
	case BPF_SOCK_OPS_STATE_CB: on_state(ctx); break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB: on_hdr_opt_len(ctx); break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB: on_write_hdr_opt(ctx); break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB: on_active_established(ctx); break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB: on_passive_established(ctx); break;
	}
	return 1;
}

/* ---- private socket options (proto/ipc/ipc.h) */

/* BPF programs do not see buffers larger than a page, and kernels before 6.4 fail such a call with
 * EFAULT unless each program lets it pass. */
static __always_inline int leave_alone(struct bpf_sockopt *ctx)
{
	if (ctx->optlen > page_size)
		ctx->optlen = 0;
	return 1;
}

/* ---- setsockopt() */

/* The private options that can be set. */
static __always_inline bool is_private(int name)
{
	return name == IPC_SO_CLAIM || name == IPC_SO_BAR || name == IPC_SO_PLAIN ||
	       name == IPC_SO_SPOKEN || name == IPC_SO_UNASKED;
}

SEC("cgroup/setsockopt")
int smcr_setsockopt(struct bpf_sockopt *ctx)
{
	if (ctx->level != IPC_SOL_SMCR || !is_private(ctx->optname) || !ctx->sk ||
	    bpf_get_netns_cookie(ctx) != netns_cookie)
		return leave_alone(ctx);
	const struct smcr_claim *value = ctx->optval;
	const struct smcr_aside *aside = ctx->optval;
	const __u32 *number = ctx->optval;
	struct caller caller = { 0 };
	int r = -EINVAL;
	who_calls(&caller);
	if (ctx->optname == IPC_SO_SPOKEN) {
		r = speak(ctx->sk, ctx->optval, ctx->optval_end, caller.by.uid);
	} else if (ctx->optname == IPC_SO_PLAIN) {
		if ((void *)(aside + 1) <= ctx->optval_end)
			r = step_aside(ctx->sk, aside, &caller);
	} else if (ctx->optname == IPC_SO_UNASKED) {
		if ((void *)(number + 1) <= ctx->optval_end)
			r = add_unasked(ctx->sk, *number);
	} else {
		if ((void *)(value + 1) <= ctx->optval_end) {
			caller.by.program = value->program;
			caller.by.flags = value->flags;
		}
		if ((void *)(&value->wanted + 1) <= ctx->optval_end)
			r = set_claim(ctx->sk, ctx->optname, value->wanted != 0, &caller);
	}
	ctx->optlen = -1; /* skip the kernel's own handler */
	if (r < 0)
		bpf_set_retval(r);
	return 1;
}

/* ---- getsockopt() */

/* Two daemons that start in one namespace at the same time are both attached for a moment, until
 * the second one finds the first one's answer to IPC_SO_SERVING and ends. So an answer that is
 * there stays: it is of the daemon that was attached first. */

/* @return room for the answer, or NULL: there is too little, and the call fails */
static __always_inline __s32 *room_of(struct bpf_sockopt *ctx)
{
	__s32 *value = ctx->optval;
	if ((void *)(value + 1) <= ctx->optval_end)
		return value;
	ctx->retval = -EINVAL;
	return NULL;
}

static __always_inline void succeed(struct bpf_sockopt *ctx, __s32 length)
{
	ctx->optlen = length;
	barrier(); /* else both become one store, which the verifier forbids */
	ctx->retval = 0;
}

static __always_inline void tell_of_socket(struct bpf_sockopt *ctx, struct bpf_sock *sk)
{
	struct smcr_sock *sock = bpf_sk_storage_get(&socks, sk, NULL, 0);
	/* The other daemon, to which the socket is claimed, may have answered. */
	if ((!sock || !sock->flags) && ctx->retval == 0)
		return;
	__s32 *value = room_of(ctx);
	if (!value)
		return;
	if (ctx->optname == IPC_SO_REASON)
		*value = sock && sock->negotiated == IPC_NEGOTIATED_NO ? (__s32)sock->reason : 0;
	else
		*value = sock ? (__s32)sock->negotiated : IPC_NEGOTIATED_UNKNOWN;
	succeed(ctx, sizeof(*value));
}

/* Of two daemons one that beats is enough. */
static __always_inline void tell_of_daemon(struct bpf_sockopt *ctx)
{
	bool still = stands_still();
	if (still && ctx->retval == 0)
		return;
	__s32 *value = room_of(ctx);
	if (!value)
		return;
	*value = still;
	succeed(ctx, sizeof(*value));
}

static __always_inline void tell_who_serves(struct bpf_sockopt *ctx)
{
	struct smcr_serving *value = ctx->optval;
	if (ctx->retval == 0)
		return;
	if ((void *)(value + 1) > ctx->optval_end) {
		ctx->retval = -EINVAL;
		return;
	}
	*value = serving;
	value->flags = 0;
	if (stands_still())
		value->flags |= SMCR_SERVING_STANDS_STILL;
	if (hold_reason == SMCR_REASON_SHUTTING_DOWN)
		value->flags |= SMCR_SERVING_STOPS;
	succeed(ctx, sizeof(*value));
}

/* A user can bind only names that can be foretold, and who answers here is the daemon itself. */
static __always_inline void tell_of_address(struct bpf_sockopt *ctx)
{
	__u64 number = address_number;
	__u64 *value = ctx->optval;
	if (!number || ctx->retval == 0)
		return;
	if ((void *)(value + 1) > ctx->optval_end) {
		ctx->retval = -EINVAL;
		return;
	}
	*value = number;
	succeed(ctx, sizeof(*value));
}

SEC("cgroup/getsockopt")
int smcr_getsockopt(struct bpf_sockopt *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	int name = ctx->optname;
	if (ctx->level != IPC_SOL_SMCR || !sk || bpf_get_netns_cookie(ctx) != netns_cookie)
		return leave_alone(ctx);
	switch (name) {
	case IPC_SO_NEGOTIATED:
	case IPC_SO_REASON: tell_of_socket(ctx, sk); break;
	case IPC_SO_STANDS_STILL: tell_of_daemon(ctx); break;
	case IPC_SO_ADDRESS: tell_of_address(ctx); break;
	case IPC_SO_SERVING: tell_who_serves(ctx); break;
	default: return leave_alone(ctx);
	}
	return 1;
}

char LICENSE[] SEC("license") = "MIT";

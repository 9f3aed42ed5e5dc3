/* SPDX-License-Identifier: MIT */
/**
 * @file address.h
 * Addresses of sockets, IPv4 as IPv4-mapped IPv6. BPF programs see a socket in one of two ways:
 * struct bpf_sock_ops during the handshake, struct bpf_sock while a program calls setsockopt().
 */
#ifndef SMCRD_RENDEZVOUS_BPF_ADDRESS_H
#define SMCRD_RENDEZVOUS_BPF_ADDRESS_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <stdbool.h>

#include "daemon/rendezvous/bpf/numbers.h"
#include "daemon/rendezvous/bpf/smcr.h"

static __always_inline bool is_tcp(const struct bpf_sock *sk)
{
	return (sk->family == AF_INET || sk->family == AF_INET6) && sk->type == SOCK_STREAM &&
	       sk->protocol == IPPROTO_TCP; /* not MPTCP */
}

static __always_inline void set_ip4(struct smcr_addr16 *addr, __u32 ip4)
{
	addr->word[0] = addr->word[1] = 0;
	addr->word[2] = bpf_htonl(0xFFFF);
	addr->word[3] = ip4;
}

static __always_inline void set_ip6(struct smcr_addr16 *addr, __u32 a, __u32 b, __u32 c, __u32 d)
{
	addr->word[0] = a;
	addr->word[1] = b;
	addr->word[2] = c;
	addr->word[3] = d;
}

/* A load directly from the context `ctx` (or a struct bpf_sock): compilers may compute the address
 * of the field first, which the verifier forbids. */
#define LOAD(ctx, field)                                                                           \
	({                                                                                         \
		__u32 loaded;                                                                      \
		asm volatile("%0 = *(u32 *)(%1 + %2)"                                              \
			     : "=r"(loaded)                                                        \
			     : "r"(ctx), "i"(__builtin_offsetof(__typeof__(*(ctx)), field)));      \
		loaded;                                                                            \
	})
#define SET_IP6(addr, ctx, field)                                                                  \
	set_ip6(addr, LOAD(ctx, field[0]), LOAD(ctx, field[1]), LOAD(ctx, field[2]),               \
		LOAD(ctx, field[3]))

static __always_inline void remote_addr(struct bpf_sock_ops *ctx, struct smcr_addr16 *addr)
{
	if (ctx->family == AF_INET6)
		SET_IP6(addr, ctx, remote_ip6);
	else
		set_ip4(addr, LOAD(ctx, remote_ip4));
}

static __always_inline void local_addr(struct bpf_sock_ops *ctx, struct smcr_addr16 *addr)
{
	if (ctx->family == AF_INET6)
		SET_IP6(addr, ctx, local_ip6);
	else
		set_ip4(addr, LOAD(ctx, local_ip4));
}

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file tcp_option.h
 * The SMC-R option (RFC 7609 3.1, A.1), and finding it and other TCP options in a packet.
 *
 * `flags` says in which packet: 0: the one that the callback is about, received or to be sent;
 * BPF_LOAD_HDR_OPT_TCP_SYN: the client's SYN.
 */
#ifndef SMCRD_RENDEZVOUS_BPF_TCP_OPTION_H
#define SMCRD_RENDEZVOUS_BPF_TCP_OPTION_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>
#include <linux/errno.h>
#include <stdbool.h>

#include "daemon/rendezvous/bpf/numbers.h"

#define OPTION_LEN 6

/* TCPO-1 */
static const __u8 option[OPTION_LEN] = { 0xFE, 0x06, 0xE2, 0xD4, 0xC3, 0xD9 };

/* @return OPTION_LEN: the packet has exactly our kind, length and ExID (TCPO-7); -ENOSPC: it has a
 * longer option of the same ExID; -ENOMSG: it has none; other errors: nobody knows */
static __always_inline long look_for_option(struct bpf_sock_ops *ctx, __u64 flags)
{
	__u8 found[OPTION_LEN];
	__builtin_memcpy(found, option, sizeof(found));
	return bpf_load_hdr_opt(ctx, found, sizeof(found), flags);
}

static __always_inline bool has_option(struct bpf_sock_ops *ctx, __u64 flags)
{
	return look_for_option(ctx, flags) == OPTION_LEN;
}

/* The peer's SYN is known and has no option, like those of most peers. */
static __always_inline bool did_not_ask(struct bpf_sock_ops *ctx)
{
	return look_for_option(ctx, BPF_LOAD_HDR_OPT_TCP_SYN) == -ENOMSG;
}

/* For an option that is longer than two bytes the kernel returns ENOSPC. */
static __always_inline bool has_kind(struct bpf_sock_ops *ctx, __u8 kind, __u64 flags)
{
	__u8 found[2] = { kind };
	long r = bpf_load_hdr_opt(ctx, found, sizeof(found), flags);
	return r > 0 || r == -ENOSPC;
}

/* TCP-MD5 (RFC 2385) or TCP-AO (RFC 5925): the program wants each segment authenticated, which
 * RDMA writes are not. */
static __always_inline bool is_signed(struct bpf_sock_ops *ctx, __u64 flags)
{
	return has_kind(ctx, TCPOPT_MD5SIG, flags) || has_kind(ctx, TCPOPT_AO, flags);
}

#endif

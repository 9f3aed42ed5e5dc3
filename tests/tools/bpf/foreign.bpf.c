/* SPDX-License-Identifier: MIT */
/*
 * Stands for other people's BPF programs on a host: sock_ops programs that answer callbacks with 0,
 * set the callbacks that they want and no others, add TCP options of their own, or put sockets into
 * a sockmap. Acts on one network namespace only. foreign_bpf.c loads it and says what it is to do.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#define OPTION_MAX 40

const volatile __u64 netns_cookie;

/* What to do, at the callbacks (BPF_SOCK_OPS_..) whose bits are set. */
__u32 zero_at;  /* answer 0 */
__u32 flags_at; /* overwrite the callback flags by `flags` */
__u32 flags;
__u32 option_at; /* reserve or store an option of `option_len` bytes */
__u32 option_len;
__u32 map_at; /* put the socket into the sockmap */
__u32 mapped; /* how often that was done */

struct {
	__uint(type, BPF_MAP_TYPE_SOCKHASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, __u64);
} sockets SEC(".maps");

static __always_inline void add_option(struct bpf_sock_ops *ctx)
{
	__u8 option[OPTION_MAX] = { 253 };
	__u32 len = option_len;
	if (len < 4 || len > OPTION_MAX)
		return;
	option[1] = len;
	option[2] = 0xF0;
	option[3] = 0x0D;
	if (ctx->op == BPF_SOCK_OPS_HDR_OPT_LEN_CB)
		bpf_reserve_hdr_opt(ctx, len, 0);
	else
		bpf_store_hdr_opt(ctx, option, len, 0);
}

static __always_inline void put_into_map(struct bpf_sock_ops *ctx)
{
	__u64 key = bpf_get_socket_cookie(ctx);
	if (bpf_sock_hash_update(ctx, &sockets, &key, BPF_ANY) == 0)
		__sync_fetch_and_add(&mapped, 1);
}

SEC("sockops")
int foreign_sockops(struct bpf_sock_ops *ctx)
{
	if (bpf_get_netns_cookie(ctx) != netns_cookie || ctx->op >= 32)
		return 1;
	__u32 bit = 1u << ctx->op;
	if (option_at & bit)
		add_option(ctx);
	if (flags_at & bit)
		bpf_sock_ops_cb_flags_set(ctx, flags);
	if (map_at & bit)
		put_into_map(ctx);
	return !(zero_at & bit);
}

SEC("sk_msg")
int foreign_msg(struct sk_msg_md *msg)
{
	return SK_PASS;
}

SEC("sk_skb")
int foreign_verdict(struct __sk_buff *skb)
{
	return SK_PASS;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

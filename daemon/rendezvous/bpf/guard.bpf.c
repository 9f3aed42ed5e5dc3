/* SPDX-License-Identifier: MIT */
/*
 * Which users may send to UDP port 4791. RoCEv2 has no authentication: any program that can send
 * there from an address of this host can put bytes into the memory of its peers. So in one network
 * namespace only root and the daemon's own user may use the port in system calls. Attached to the
 * root of the cgroup hierarchy; calls of other namespaces pass.
 *
 * Before a packet goes to that port of a peer, a socket was connected to it or the call named it.
 * If a socket of one family is used with addresses of the other, the kernel runs the program of one
 * of the two families; none of them reads the address.
 */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <stdbool.h>

#include "daemon/rendezvous/bpf/refused.h"

#define IPPROTO_UDP   17
#define ROCE_UDP_PORT 4791 /* proto/roce/roce.h, which needs libc headers */

const volatile __u64 netns_cookie;
const volatile __u32 own_uid;

/** @return 1: the system call goes on; 0: it fails with EPERM */
static __always_inline int judge(struct bpf_sock_addr *ctx)
{
	if (ctx->user_port != bpf_htons(ROCE_UDP_PORT) || ctx->protocol != IPPROTO_UDP ||
	    bpf_get_netns_cookie(ctx) != netns_cookie)
		return 1;
	__u32 uid = (__u32)bpf_get_current_uid_gid();
	if (uid == 0 || uid == own_uid)
		return 1;
	count_refused(uid);
	return 0;
}

SEC("cgroup/bind4")
int guard_bind4(struct bpf_sock_addr *ctx)
{
	return judge(ctx);
}

SEC("cgroup/bind6")
int guard_bind6(struct bpf_sock_addr *ctx)
{
	return judge(ctx);
}

SEC("cgroup/connect4")
int guard_connect4(struct bpf_sock_addr *ctx)
{
	return judge(ctx);
}

SEC("cgroup/connect6")
int guard_connect6(struct bpf_sock_addr *ctx)
{
	return judge(ctx);
}

SEC("cgroup/sendmsg4")
int guard_sendmsg4(struct bpf_sock_addr *ctx)
{
	return judge(ctx);
}

SEC("cgroup/sendmsg6")
int guard_sendmsg6(struct bpf_sock_addr *ctx)
{
	return judge(ctx);
}

char LICENSE[] SEC("license") = "MIT";

/* SPDX-License-Identifier: MIT */
/*
 * The SMC-R TCP option (RFC 7609 3.1, 3.5.1.1, A.1) on claimed sockets of one network namespace.
 *
 * Attached to the root of the cgroup hierarchy, because the daemon and its clients are in different
 * cgroups. Several daemons, one per namespace, may be attached there. So every BPF program first
 * checks that the socket is of its own namespace, and otherwise does nothing.
 *
 * Uses only helpers that kernels 6.1 to 6.18 have, and no kernel types, so nothing depends on the
 * kernel's BTF.
 */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/errno.h>
#include <stdbool.h>

#include "daemon/rendezvous/bpf/smcr.h"
#include "daemon/rendezvous/bpf/socks.h"
#include "proto/smcr/reason.h"

/* From uapi headers that need libc headers, and (the last) newer than Debian 12's headers. */
#define AF_INET                   2
#define AF_INET6                  10
#define SOCK_STREAM               1
#define IPPROTO_TCP               6
#define SOL_TCP                   6
#define TCP_SYNCNT                7
#define TCP_SAVE_SYN              27
#define TCPOPT_MD5SIG             19
#define TCPOPT_AO                 29
#define TCPOPT_FASTOPEN           34
#define TCPHDR_SYN                0x02
#define TCPHDR_ACK                0x10
#define TCP_BPF_SYN_MAC           1007
#define TCP_BPF_SOCK_OPS_CB_FLAGS 1008 /* since 6.12 */

/* proto/ipc/ipc.h, which needs libc headers too; option.c checks that these are the same. */
#define IPC_SOL_SMCR           0x534d4352
#define IPC_SO_CLAIM           1
#define IPC_SO_NEGOTIATED      2
#define IPC_SO_REASON          3
#define IPC_CLAIM_REQUIRED     (1 << 0)
#define IPC_CLAIM_TO_CONNECT   (1 << 1)
#define IPC_SO_BAR             4
#define IPC_SO_STANDS_STILL    5
#define IPC_SO_PLAIN           6
#define IPC_PLAIN_ACCEPTED     (1 << 0)
#define IPC_SO_SPOKEN          7
#define IPC_SO_UNASKED         8
#define IPC_NEGOTIATED_UNKNOWN 0
#define IPC_NEGOTIATED_YES     1
#define IPC_NEGOTIATED_NO      2
#define IPC_PROMISE_MARK       113

#define OPTION_LEN 6

/* No handshake takes longer: SYN-ACKs are repeated for a minute by default. */
#define HANDSHAKE_NS (64 * 1000000000ull)

/* In `answers`, instead of a reason: the first SYN-ACK was sent before the listener was claimed,
 * perhaps by BPF programs of another daemon. */
#define ANSWER_UNSURE 0xFFFFFFFF

const volatile __u64 netns_cookie;
const volatile __u32 own_uid;
const volatile __s32 page_size = 4096;

/* The daemon's last beat (bpf_ktime_get_ns); 0: the daemon does not beat. */
volatile __u64 last_beat;
/* enum smcr_reason: do not send the option on any connection, for this reason; 0: send it. */
__u32 hold_reason;
/* The same, while the daemon lacks resources for connections. */
__u32 limit_reason;
/* Numbers of entries in `limited`, `skipped`, `excluded`, `own` and `shorts`: an empty map is not
 * searched.
 */
__u32 num_limited, num_skipped, num_excluded, num_own, num_short;
/* How many places of `rules` are in use, and how many rules allow. */
__u32 num_rules, num_allow;

/*
 * Claimed listeners at an address. While a SYN is answered the listener itself cannot be accessed
 * (ctx->sk is the request). That the callback runs only shows that some BPF program wanted header
 * options on that listener.
 */
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

/* Peers to which the option is not sent until a time (bpf_ktime_get_ns). The daemon deletes entries
 * to make room, by shares of users: an LRU map would drop those of others. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SMCR_MAX_SKIPPED);
	__type(key, struct smcr_skip_key);
	__type(value, __u64);
} skipped SEC(".maps");

/* Local and remote prefixes that stay plain TCP, and why. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SMCR_MAX_EXCLUDED);
	__type(key, struct smcr_prefix_key);
	__type(value, __u32);
} excluded SEC(".maps");

/* Users that may have no further connections now, and why. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SMCR_MAX_LIMITED);
	__type(key, __u32);
	__type(value, __u32);
} limited SEC(".maps");

/* The administrator's rules, and how often each has decided; the last place counts connections that
 * no rule has allowed. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SMCR_MAX_RULES);
	__type(key, __u32);
	__type(value, struct smcr_rule);
} rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SMCR_MAX_RULES + 1);
	__type(key, __u32);
	__type(value, __u64);
} rule_hits SEC(".maps");

/* Addresses of this host. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SMCR_MAX_OWN);
	__type(key, struct smcr_addr16);
	__type(value, __u32);
} own SEC(".maps");

/* Where connections are too short for SMC-R. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SMCR_MAX_SHORT);
	__type(key, struct smcr_short_key);
	__type(value, struct smcr_short_counts);
} shorts SEC(".maps");

/* Connections that are plain TCP: counts by reason; the latest ones, for the daemon to read; and
 * how many of these each user has. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, SMCR_MAX_REASONS);
	__type(key, __u32);
	__type(value, struct smcr_plain_count);
} plain_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, SMCR_PLAIN_BYTES);
} plain_told SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << SMCR_PLAIN_USER_BITS);
	__type(key, __u32);
	__type(value, struct smcr_plain_share);
} plain_shares SEC(".maps");

/* How often the daemon has read the latest ones. */
__u32 plain_round;

/* The number of claimed listeners, how many were too many for their users, and the last such
 * user. */
__u32 num_listening, num_refused, refused_uid;

/* TCPO-1 */
static const __u8 option[OPTION_LEN] = { 0xFE, 0x06, 0xE2, 0xD4, 0xC3, 0xD9 };

/* ---- addresses */

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

/* A load directly from the context: compilers may compute the address of the field first, which the
 * verifier forbids. */
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

/* ---- what stays plain TCP */

/* One for each processor, so that processors do not wait for each other. */
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

/* Two processors at the same time may count only one, but this is only a limit. */
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

static __always_inline void plain_of(const struct smcr_sock *sock, struct smcr_plain *plain)
{
	plain->role = sock->role;
	plain->reason = sock->reason;
	plain->uid = sock->by.uid;
	plain->process = sock->process;
	plain->unasked = 0;
}

/* The handshake of this socket is over. */
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

/* ---- policy */

static __always_inline __u32 exclusion(const struct smcr_addr16 *addr)
{
	struct smcr_prefix_key key = { .bits = 128, .prefix = *addr };
	__u32 *reason = bpf_map_lookup_elem(&excluded, &key);
	return reason ? *reason : 0;
}

static __always_inline bool is_skipped(const struct smcr_subject *subject, __u32 port)
{
	struct smcr_skip_key key = { .peer = subject->peer, .port = port, .uid = subject->uid };
	__u64 *until = bpf_map_lookup_elem(&skipped, &key);
	return until && *until > bpf_ktime_get_ns();
}

/* For connections of the host to itself RDMA is no better than the kernel's loopback. */
static __always_inline bool is_own_host(const struct smcr_subject *subject)
{
	const __u32 *peer = subject->peer.word;
	if (!num_own)
		return false;
	bool mapped = !peer[0] && !peer[1] && peer[2] == bpf_htonl(0xFFFF);
	if (mapped && (peer[3] & bpf_htonl(0xFF000000)) == bpf_htonl(0x7F000000))
		return true;
	if (!peer[0] && !peer[1] && !peer[2] && peer[3] == bpf_htonl(1))
		return true;
	return bpf_map_lookup_elem(&own, &subject->peer) != NULL;
}

/* Signed, because the daemon's clock may be slightly ahead. */
static __always_inline bool stands_still(void)
{
	__u64 beat = last_beat;
	return beat && (__s64)(bpf_ktime_get_ns() - beat) > SMCR_STANDSTILL_NS;
}

struct rule_search {
	struct smcr_subject subject;
	__s32 denied, allowed; /* place of the rule that decides so, or -1 */
	__u32 flags;           /* IPC_CLAIM_... */
};

/* A subject without addresses, which are filled in later. */
static __always_inline struct rule_search search_of(const struct smcr_claimant *by, __u32 port)
{
	struct rule_search search = { .flags = by->flags };
	search.subject.program = by->program;
	search.subject.uid = by->uid;
	search.subject.port = port;
	return search;
}

static long look_at_rule(__u32 place, struct rule_search *search)
{
	const struct smcr_rule *rule = bpf_map_lookup_elem(&rules, &place);
	if (!rule)
		return 1;
	if (!smcr_rule_matches(rule, &search->subject))
		return 0;
	if (rule->flags & SMCR_RULE_DENY) {
		search->denied = (__s32)place;
		return 1;
	}
	if (search->allowed < 0)
		search->allowed = (__s32)place;
	return 0;
}

static __always_inline void count_hit(__u32 place)
{
	__u64 *hits = bpf_map_lookup_elem(&rule_hits, &place);
	if (hits)
		__sync_fetch_and_add(hits, 1);
}

/* Deny wins. If any rules allow, connections that none of them matches are denied. */
static __always_inline __u32 judge_by_rules(struct rule_search *search, bool count)
{
	search->denied = search->allowed = -1;
	bpf_loop(num_rules, look_at_rule, search, 0);
	__s32 decides = search->denied >= 0 ? search->denied : search->allowed;
	if (decides < 0 && !num_allow)
		return 0;
	if (count)
		count_hit(decides < 0 ? SMCR_MAX_RULES : (__u32)decides);
	return search->allowed >= 0 && search->denied < 0 ? 0 : SMCR_REASON_LOCAL_POLICY;
}

/* By the socket's cookie, so that every packet of a handshake gets the same answer. */
static __always_inline bool is_sample(__u64 cookie)
{
	return (cookie * 0x9E3779B97F4A7C15ull) >> (64 - SMCR_SHORT_SAMPLE_BITS) == 0;
}

static __always_inline __u32 judge_by_length(const struct smcr_subject *subject, bool server,
					     __u64 cookie, bool count)
{
	struct smcr_short_key key = { .port = subject->port };
	if (!server)
		key.peer = subject->peer;
	struct smcr_short_counts *counts = bpf_map_lookup_elem(&shorts, &key);
	if (!counts)
		return 0;
	bool sample = is_sample(cookie);
	if (count)
		__sync_fetch_and_add(sample ? &counts->tried : &counts->left, 1);
	return sample ? 0 : SMCR_REASON_SHORT_CONNECTIONS;
}

/*
 * Why the option is not sent on this connection, or 0 (TCPO-8).
 * @param search  search_of() of our side
 * @param count   whether this handshake is judged for the first time
 */
static __always_inline __u32 policy(struct bpf_sock_ops *ctx, struct rule_search *search,
				    bool server, bool count)
{
	struct smcr_subject *subject = &search->subject;
	__u32 reason = 0;
	if (stands_still())
		return SMCR_REASON_NO_DAEMON;
	if (hold_reason)
		return hold_reason;
	if (limit_reason)
		return limit_reason;
	__u32 *limit = num_limited ? bpf_map_lookup_elem(&limited, &subject->uid) : NULL;
	if (limit)
		return *limit;
	remote_addr(ctx, &subject->peer);
	local_addr(ctx, &subject->local);
	if (is_own_host(subject))
		return SMCR_REASON_OWN_HOST;
	if (num_excluded) {
		reason = exclusion(&subject->peer);
		if (!reason)
			reason = exclusion(&subject->local);
	}
	if (!reason && num_rules)
		reason = judge_by_rules(search, count);
	if (reason)
		return reason;
	if (num_skipped &&
	    (is_skipped(subject, 0) || (!server && is_skipped(subject, subject->port))))
		return SMCR_REASON_PEER_SKIPPED;
	if (!num_short || search->flags & IPC_CLAIM_REQUIRED)
		return 0;
	return judge_by_length(subject, server, bpf_get_socket_cookie(ctx), count);
}

/* ---- the option */

/* @return OPTION_LEN: exactly our kind, length and ExID (TCPO-7); -ENOSPC: a longer option of the
 * same ExID; -ENOMSG: none; other errors: nobody knows */
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

/* Of an option that is longer the kernel gives the first two bytes, and ENOSPC. */
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

static __always_inline struct smcr_sock *any_storage_of(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	return sk ? bpf_sk_storage_get(&socks, sk, NULL, 0) : NULL;
}

static __always_inline struct smcr_sock *storage_of(struct bpf_sock_ops *ctx)
{
	struct smcr_sock *sock = any_storage_of(ctx);
	return sock && (sock->flags & SMCR_SOCK_CLAIMED) ? sock : NULL;
}

static __always_inline void switch_on(struct bpf_sock_ops *ctx, struct smcr_sock *sock, __u32 flags)
{
	__u32 now = ctx->bpf_sock_ops_cb_flags;
	sock->cb_flags |= flags & ~now;
	bpf_sock_ops_cb_flags_set(ctx, now | flags);
}

/* Only when established: before that a SYN may have to be sent again. */
static __always_inline void switch_off(struct bpf_sock_ops *ctx, struct smcr_sock *sock)
{
	if (sock->cb_flags)
		bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags & ~sock->cb_flags);
	sock->cb_flags = 0;
}

static __always_inline void settle(struct smcr_sock *sock, __u32 role, __u32 reason)
{
	sock->flags = SMCR_SOCK_CLAIMED;
	sock->role = role;
	sock->reason = reason;
	sock->negotiated = reason ? IPC_NEGOTIATED_NO : IPC_NEGOTIATED_YES;
}

/* From now on the peer takes bytes as CLC until the rendezvous is over, so gate.bpf.c lets only
 * messages of smcrd pass. */
static __always_inline void hold(struct bpf_sock_ops *ctx, struct smcr_sock *sock)
{
	sock->first = ctx->snd_nxt;
	sock->flags = (sock->flags & ~SMCR_SOCK_LET) | SMCR_SOCK_HELD;
}

/* ---- client */

/* A claim for connect() has had its connect(), or the claim was a listener's. Whoever calls the
 * next connect(), in whatever process, may not expect CLC. */
static __always_inline bool is_used_up(const struct smcr_sock *sock)
{
	bool ends = (sock->by.flags & IPC_CLAIM_TO_CONNECT) || sock->role == SMCR_SOCK_SERVER;
	return ends && !(sock->flags & SMCR_SOCK_FRESH);
}

static __always_inline void end_claim(struct bpf_sock_ops *ctx, struct smcr_sock *sock)
{
	switch_off(ctx, sock);
	sock->flags = 0;
	sock->negotiated = IPC_NEGOTIATED_UNKNOWN;
}

/* SOCK-5: the claim asks for the option; the program's own calls do not show it. */
static __always_inline void on_connect(struct bpf_sock_ops *ctx)
{
	struct smcr_sock *sock = any_storage_of(ctx);
	if (!sock)
		return;
	if (!(sock->flags & SMCR_SOCK_CLAIMED)) {
		switch_off(ctx, sock);
		return;
	}
	if (is_used_up(sock)) {
		end_claim(ctx, sock);
		return;
	}
	sock->flags = SMCR_SOCK_CLAIMED;
	sock->role = SMCR_SOCK_CLIENT;
	sock->negotiated = IPC_NEGOTIATED_UNKNOWN;
	sock->peer_port = bpf_ntohl(ctx->remote_port);
	remote_addr(ctx, &sock->peer);
	struct rule_search search = search_of(&sock->by, sock->peer_port);
	sock->reason = policy(ctx, &search, false, true);
	if (sock->reason) {
		/* The outcome is known already, so a non-blocking program need not ask the
		 * daemon. */
		sock->negotiated = IPC_NEGOTIATED_NO;
		return;
	}
	sock->flags |= SMCR_SOCK_OFFER;
	switch_on(ctx, sock, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
}

/* From now on SYNs do not carry the option. If an earlier SYN did, the SYN-ACK tells whether the
 * peer has seen that one. */
static __always_inline void offer_no_more(struct smcr_sock *sock, __u32 reason)
{
	sock->flags &= ~SMCR_SOCK_OFFER;
	sock->reason = reason;
}

/* TCP Fast Open: the SYN has application bytes, which would come before CLC. They are sent first
 * even if the SYN has to be repeated without them. */
static __always_inline void no_fastopen(struct smcr_sock *sock)
{
	offer_no_more(sock, SMCR_REASON_SOCKET_OPTION);
}

static __always_inline void reserve_in_syn(struct bpf_sock_ops *ctx)
{
	struct smcr_sock *sock = storage_of(ctx);
	if (!sock || !(sock->flags & SMCR_SOCK_OFFER))
		return;
	if (ctx->skb_len > 0) {
		no_fastopen(sock);
		return;
	}
	if (stands_still()) {
		offer_no_more(sock, SMCR_REASON_NO_DAEMON);
		return;
	}
	if (bpf_reserve_hdr_opt(ctx, OPTION_LEN, 0) < 0)
		sock->reason = SMCR_REASON_SOCKET_OPTION;
}

/* TCPO-2: each SYN has the option, repeated ones too. */
static __always_inline void write_in_syn(struct bpf_sock_ops *ctx)
{
	struct smcr_sock *sock = storage_of(ctx);
	if (!sock || !(sock->flags & SMCR_SOCK_OFFER))
		return;
	/* A SYN that asks for a Fast Open cookie has no data yet, but the program has queued
	 * some. */
	if (has_kind(ctx, TCPOPT_FASTOPEN, 0)) {
		no_fastopen(sock);
		return;
	}
	if (is_signed(ctx, 0)) {
		offer_no_more(sock, SMCR_REASON_SOCKET_OPTION);
		return;
	}
	long r = bpf_store_hdr_opt(ctx, option, OPTION_LEN, 0);
	/* -EEXIST: another daemon of this namespace has written it. */
	if (r == 0 || r == -EEXIST)
		sock->flags |= SMCR_SOCK_SENT;
}

static __always_inline void on_active_established(struct bpf_sock_ops *ctx)
{
	struct smcr_sock *sock = any_storage_of(ctx);
	if (sock && (sock->flags & SMCR_SOCK_ASIDE) && !(sock->flags & SMCR_SOCK_COUNTED))
		note_plain(ctx, sock);
	if (!sock || !(sock->flags & SMCR_SOCK_CLAIMED))
		return;
	__u32 reason = sock->reason;
	if (sock->flags & SMCR_SOCK_SENT) /* TCPO-5, judged by the peer's own packet (TCPO-6) */
		reason = has_option(ctx, 0) ? 0 : SMCR_REASON_PEER_NO_SMC;
	else if (!reason)
		reason = SMCR_REASON_INTERNAL;
	settle(sock, SMCR_SOCK_CLIENT, reason);
	switch_off(ctx, sock);
	if (reason)
		note_plain(ctx, sock);
	else
		hold(ctx, sock);
}

/* ---- server */

/* 0.0.0.0 and :: both mean all addresses: a socket on :: takes IPv4 connections too. */
static __always_inline void unify_any(struct smcr_addr16 *addr)
{
	if (!addr->word[0] && !addr->word[1] && addr->word[2] == bpf_htonl(0xFFFF) &&
	    !addr->word[3])
		addr->word[2] = 0;
}

static __always_inline void tell_listener(struct smcr_listen *listen, const struct smcr_sock *sock)
{
	listen->by = sock->by;
	listen->adopted = sock->adopted;
}

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
			tell_listener(listen, sock);
	}
	return r;
}

/* A listener that cannot be counted stays plain TCP, and its children know why. */
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

static __always_inline const struct smcr_listen *find_listener(struct bpf_sock_ops *ctx)
{
	struct smcr_listen_key key;
	local_addr(ctx, &key.local);
	key.port = ctx->local_port;
	const struct smcr_listen *listen = bpf_map_lookup_elem(&listeners, &key);
	if (listen && listen->n > 0)
		return listen;
	__builtin_memset(&key.local, 0, sizeof(key.local));
	listen = bpf_map_lookup_elem(&listeners, &key);
	return listen && listen->n > 0 ? listen : NULL;
}

static __always_inline void on_listen(struct bpf_sock_ops *ctx)
{
	struct smcr_sock *sock = any_storage_of(ctx);
	struct smcr_listen_key key;
	int one = 1, have = 0;
	if (!sock)
		return;
	/* It may have listened before. Its callbacks would answer for others at its address. */
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

static __always_inline bool is_recent(__u64 adopted)
{
	return adopted && bpf_ktime_get_ns() - adopted < HANDSHAKE_NS;
}

/* The whole SYN is available only for the first SYN-ACK. TCP_SAVE_SYN keeps it for later ones,
 * without the link-layer header. */
static __always_inline bool is_repeated(struct bpf_sock_ops *ctx)
{
	__u8 header[16];
	return bpf_getsockopt(ctx, SOL_TCP, TCP_BPF_SYN_MAC, header, sizeof(header)) == -ENOENT;
}

/* Decide once for each request whether the SYN-ACK has the option; only if the SYN had it (TCPO-3).
 * @return 0: it has the option; else why not */
static __always_inline __u32 answer(struct bpf_sock_ops *ctx, __u64 cookie, bool count)
{
	__u32 *before = bpf_map_lookup_elem(&answers, &cookie);
	if (before)
		return *before;
	if (!has_option(ctx, BPF_LOAD_HDR_OPT_TCP_SYN))
		return SMCR_REASON_PEER_NO_SMC;
	if (is_signed(ctx, BPF_LOAD_HDR_OPT_TCP_SYN))
		return SMCR_REASON_SOCKET_OPTION;
	const struct smcr_listen *listen = find_listener(ctx);
	if (!listen)
		return SMCR_REASON_NOT_CLAIMED;
	if (is_recent(listen->adopted) && is_repeated(ctx))
		return ANSWER_UNSURE;
	/* The SYN may have come to the one that is barred or without a claim, whose callbacks stay
	 * on. */
	if (listen->barred)
		return SMCR_REASON_BARRED;
	if (listen->quiet)
		return SMCR_REASON_NOT_CLAIMED;
	struct rule_search search = search_of(&listen->by, ctx->local_port);
	return policy(ctx, &search, true, count);
}

static __always_inline void reserve_in_synack(struct bpf_sock_ops *ctx)
{
	/* With SYN cookies there is no state, so the ACK could not be judged. */
	if (ctx->args[0] == BPF_WRITE_HDR_TCP_SYNACK_COOKIE || did_not_ask(ctx))
		return;
	__u64 cookie = bpf_get_socket_cookie(ctx);
	__u32 reason = answer(ctx, cookie, true);
	if (reason == SMCR_REASON_PEER_NO_SMC)
		return;
	if (!reason && bpf_reserve_hdr_opt(ctx, OPTION_LEN, 0) < 0)
		reason = SMCR_REASON_SOCKET_OPTION;
	if (reason)
		bpf_map_update_elem(&answers, &cookie, &reason, BPF_NOEXIST);
}

static __always_inline void write_in_synack(struct bpf_sock_ops *ctx)
{
	__u64 cookie = bpf_get_socket_cookie(ctx);
	__u32 sent = 0;
	if (ctx->args[0] == BPF_WRITE_HDR_TCP_SYNACK_COOKIE)
		return;
	__u32 reason = answer(ctx, cookie, false);
	if (reason) {
		/* The policy has changed since room for the option was reserved: without this note
		 * the answer would count as lost, and so as sent with the option. */
		if (reason != SMCR_REASON_PEER_NO_SMC)
			bpf_map_update_elem(&answers, &cookie, &reason, BPF_NOEXIST);
		return;
	}
	long r = bpf_store_hdr_opt(ctx, option, OPTION_LEN, 0);
	if (r == 0 || r == -EEXIST)
		bpf_map_update_elem(&answers, &cookie, &sent, BPF_NOEXIST);
}

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
 * here. */
static __always_inline bool answers_syns(struct bpf_sock_ops *ctx)
{
	return ctx->bpf_sock_ops_cb_flags & BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG;
}

/* passive_outcome() for most connections, without searching `answers`. */
static __always_inline bool is_ordinary(struct bpf_sock_ops *ctx)
{
	return !(ctx->skb_tcp_flags & TCPHDR_SYN) && answers_syns(ctx) && did_not_ask(ctx);
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

/* The peer's SYN had the option and our SYN-ACK did. */
static __always_inline __u32 passive_outcome(struct bpf_sock_ops *ctx, const struct smcr_sock *sock)
{
	__u64 cookie = bpf_get_socket_cookie(ctx);
	__u32 *answered = bpf_map_lookup_elem(&answers, &cookie);
	/* TCP Fast Open: the connection exists before our SYN-ACK, which has no option. */
	if (ctx->skb_tcp_flags & TCPHDR_SYN)
		return SMCR_REASON_SOCKET_OPTION;
	if (answered)
		return *answered;
	if (!answers_syns(ctx))
		return sock->flags & SMCR_SOCK_REFUSED ? SMCR_REASON_LIMIT
						       : SMCR_REASON_NOT_CLAIMED;
	/* -ENOENT after a SYN cookie: no SYN was kept. */
	return has_option(ctx, BPF_LOAD_HDR_OPT_TCP_SYN) ? lost_answer(ctx, &sock->by)
							 : SMCR_REASON_PEER_NO_SMC;
}

/* The library and the next daemon find the promise on the socket itself (proto/ipc/ipc.h). */
static __always_inline void mark_promise(struct bpf_sock_ops *ctx, struct smcr_sock *sock)
{
	int before = 0, mark = IPC_PROMISE_MARK;
	bpf_getsockopt(ctx, SOL_TCP, TCP_SYNCNT, &before, sizeof(before));
	if (bpf_setsockopt(ctx, SOL_TCP, TCP_SYNCNT, &mark, sizeof(mark)) == 0)
		sock->syn_retries = before;
}

/* The handshake is over: remove the answer, so that a flood of connections does not fill the
 * map. */
static __always_inline void forget_answer(struct bpf_sock_ops *ctx)
{
	__u64 cookie = bpf_get_socket_cookie(ctx);
	bpf_map_delete_elem(&answers, &cookie);
}

/* The listener's claim was withdrawn after it had answered with the option: the answer counts. */
static __always_inline struct smcr_sock *late_child(struct bpf_sock_ops *ctx)
{
	__u64 cookie = bpf_get_socket_cookie(ctx);
	__u32 *answered = bpf_map_lookup_elem(&answers, &cookie);
	struct bpf_sock *sk = ctx->sk;
	if (!answered)
		return NULL;
	if (*answered || !sk) {
		bpf_map_delete_elem(&answers, &cookie);
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

static __always_inline void on_passive_established(struct bpf_sock_ops *ctx)
{
	struct smcr_sock *sock = storage_of(ctx);
	if (!sock && answers_syns(ctx))
		sock = late_child(ctx);
	if (!sock) {
		leave_unclaimed(ctx);
		return;
	}
	sock->flags &= ~SMCR_SOCK_LISTED; /* only the listener is counted */
	/* Both sides have connected to each other (simultaneous open): there is no server. */
	if (sock->role == SMCR_SOCK_CLIENT) {
		settle(sock, SMCR_SOCK_CLIENT, SMCR_REASON_SOCKET_OPTION);
	} else if (is_ordinary(ctx)) {
		settle(sock, SMCR_SOCK_SERVER, SMCR_REASON_PEER_NO_SMC);
	} else {
		if (!is_unsure(ctx, sock))
			settle(sock, SMCR_SOCK_SERVER, passive_outcome(ctx, sock));
		forget_answer(ctx);
	}
	if (sock->negotiated == IPC_NEGOTIATED_YES) {
		mark_promise(ctx, sock);
		hold(ctx, sock);
	}
	switch_off(ctx, sock);
	if (sock->negotiated == IPC_NEGOTIATED_NO)
		note_plain(ctx, sock);
}

/* ---- programs */

/* A SYN or SYN-ACK of a request socket, of which only the listener's callback flag is known, or of
 * a client's own socket. */
static __always_inline void on_hdr_opt_len(struct bpf_sock_ops *ctx)
{
	if (!(ctx->skb_tcp_flags & TCPHDR_SYN)) /* no ACK has it (TCPO-4) */
		return;
	if (ctx->is_fullsock)
		reserve_in_syn(ctx);
	else if (ctx->skb_tcp_flags & TCPHDR_ACK)
		reserve_in_synack(ctx);
}

static __always_inline void on_write_hdr_opt(struct bpf_sock_ops *ctx)
{
	if (!(ctx->skb_tcp_flags & TCPHDR_SYN))
		return;
	if (ctx->is_fullsock)
		write_in_syn(ctx);
	else if (ctx->skb_tcp_flags & TCPHDR_ACK)
		write_in_synack(ctx);
}

SEC("sockops")
int smcr_sockops(struct bpf_sock_ops *ctx)
{
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

static __always_inline void listener_address(struct bpf_sock *sk, struct smcr_listen_key *key)
{
	if (sk->family == AF_INET6)
		SET_IP6(&key->local, sk, src_ip6);
	else
		set_ip4(&key->local, LOAD(sk, src_ip4));
	key->port = sk->src_port;
}

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

/* A socket that listens already is claimed: one that was claimed with an earlier daemon, or one
 * that never was. */
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

/* The entry of a listener's address */
static __always_inline struct smcr_listen *entry_of(struct bpf_sock *sk)
{
	struct smcr_listen_key key;
	listener_address(sk, &key);
	unify_any(&key.local);
	return bpf_map_lookup_elem(&listeners, &key);
}

/* It is claimed already, perhaps by another user, as by a worker that has changed its user. */
static __always_inline void retell_listener(struct bpf_sock *sk, const struct smcr_sock *sock)
{
	struct smcr_listen *listen = entry_of(sk);
	if (listen)
		tell_listener(listen, sock);
}

static __always_inline void discount_listener(struct bpf_sock *sk, struct smcr_sock *sock)
{
	struct smcr_listen_key key;
	listener_address(sk, &key);
	remove_listener(&key, sock);
}

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
 * The callbacks of this listener stay on, for handshakes that were begun with its claim, and so it
 * would answer for others at its address that are claimed. None of them answers a SYN as long as
 * it listens.
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

/* The process that calls setsockopt(). */
struct caller {
	struct smcr_claimant by;
	struct smcr_process process;
};

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
		retell_listener(sk, sock);
	sock->flags |= SMCR_SOCK_CLAIMED;
	if (sk->state != BPF_TCP_LISTEN)
		sock->flags |= SMCR_SOCK_FRESH;
	return 0;
}

/* Others at its address that are claimed answer no SYN meanwhile: the listener itself would answer
 * for them. So it is counted too, also if it was claimed with an earlier daemon, whose callbacks
 * are still on. */
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

static __always_inline bool is_tcp(const struct bpf_sock *sk)
{
	return (sk->family == AF_INET || sk->family == AF_INET6) && sk->type == SOCK_STREAM &&
	       sk->protocol == IPPROTO_TCP; /* not MPTCP */
}

static __always_inline int set_private(struct bpf_sock *sk, int name, bool on,
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

/* Reasons that the library may give: bounded, so that there is room for all. */
static __always_inline bool is_reason_to_step_aside(__u32 reason)
{
	switch (reason) {
	case SMCR_REASON_SOCKET_OPTION:
	case SMCR_REASON_NOT_CLAIMED:
	case SMCR_REASON_NO_DAEMON:
	case SMCR_REASON_LIMIT:
	case SMCR_REASON_NO_DESCRIPTORS:
	case SMCR_REASON_BARRED: return true;
	default: return false;
	}
}

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

/* IPC_SO_PLAIN: counted once per socket. While connect() is in progress, it is counted when that
 * succeeds. */
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

/* IPC_SO_SPOKEN, for root and smcrd only. Has no effect on a socket that is not HELD. */
static __always_inline int speak(struct bpf_sock *sk, const struct smcr_spoken *said, void *end,
				 __u32 uid)
{
	if (uid != 0 && uid != own_uid)
		return -EPERM;
	if ((void *)(&said->length + 1) > end)
		return -EINVAL;
	struct smcr_sock *sock = bpf_sk_storage_get(&socks, sk, NULL, 0);
	if (!sock || !(sock->flags & SMCR_SOCK_HELD))
		return 0;
	if (said->length == SMCR_SPOKEN_FREED) {
		sock->flags &= ~SMCR_SOCK_HELD;
		bpf_sk_storage_delete(&spoken, sk);
		return 0;
	}
	if ((void *)(said + 1) > end || said->length > SMCR_SPOKEN_MAX)
		return -EINVAL;
	struct smcr_spoken *known =
		bpf_sk_storage_get(&spoken, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!known)
		return -ENOMEM;
	for (int i = 0; i < SMCR_SPOKEN_MAX / 8; i++) {
		known->words[i] = said->words[i];
		barrier(); /* else the compiler would call memcpy(), which does not exist here */
	}
	known->length = said->length;
	known->first = sock->first;
	return 0;
}

/* BPF programs do not see buffers larger than a page, and kernels before 6.4 fail such a call with
 * EFAULT unless each program lets it pass. */
static __always_inline int leave_alone(struct bpf_sockopt *ctx)
{
	if (ctx->optlen > page_size)
		ctx->optlen = 0;
	return 1;
}

static __always_inline void who_calls(struct caller *caller)
{
	caller->by.uid = (__u32)bpf_get_current_uid_gid();
	caller->process.pid = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(caller->process.comm, sizeof(caller->process.comm));
}

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
			r = set_private(ctx->sk, ctx->optname, value->wanted != 0, &caller);
	}
	ctx->optlen = -1; /* skip the kernel's own handler */
	if (r < 0)
		bpf_set_retval(r);
	return 1;
}

/* @return room for the answer, or NULL: there is too little, and the call fails */
static __always_inline __s32 *room_of(struct bpf_sockopt *ctx)
{
	__s32 *value = ctx->optval;
	if ((void *)(value + 1) <= ctx->optval_end)
		return value;
	ctx->retval = -EINVAL;
	return NULL;
}

static __always_inline void answered(struct bpf_sockopt *ctx)
{
	ctx->optlen = sizeof(__s32);
	barrier(); /* else both become one store, which the verifier forbids */
	ctx->retval = 0;
}

static __always_inline void tell_of_socket(struct bpf_sockopt *ctx, struct bpf_sock *sk)
{
	struct smcr_sock *sock = bpf_sk_storage_get(&socks, sk, NULL, 0);
	/* Another daemon of this namespace, to which the socket is claimed, may have answered. */
	if ((!sock || !sock->flags) && ctx->retval == 0)
		return;
	__s32 *value = room_of(ctx);
	if (!value)
		return;
	if (ctx->optname == IPC_SO_REASON)
		*value = sock && sock->negotiated == IPC_NEGOTIATED_NO ? (__s32)sock->reason : 0;
	else
		*value = sock ? (__s32)sock->negotiated : IPC_NEGOTIATED_UNKNOWN;
	answered(ctx);
}

/* If this namespace has several daemons, one that beats is enough. */
static __always_inline void tell_of_daemon(struct bpf_sockopt *ctx)
{
	bool still = stands_still();
	if (still && ctx->retval == 0)
		return;
	__s32 *value = room_of(ctx);
	if (!value)
		return;
	*value = still;
	answered(ctx);
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
	default: return leave_alone(ctx);
	}
	return 1;
}

char LICENSE[] SEC("license") = "MIT";

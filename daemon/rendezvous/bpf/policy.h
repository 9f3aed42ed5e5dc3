/* SPDX-License-Identifier: MIT */
/**
 * @file policy.h
 * Why a claimed socket does not send the option (TCPO-8): the daemon's state, the administrator's
 * rules and prefixes, and what was learnt of peers. The daemon fills maps and variables
 * (daemon/rendezvous/option.c); here they are only looked at, and hits are counted.
 */
#ifndef SMCRD_RENDEZVOUS_BPF_POLICY_H
#define SMCRD_RENDEZVOUS_BPF_POLICY_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <stdbool.h>

#include "daemon/rendezvous/bpf/address.h"
#include "daemon/rendezvous/bpf/numbers.h"
#include "daemon/rendezvous/bpf/rule.h"
#include "daemon/rendezvous/bpf/smcr.h"
#include "proto/smcr/reason.h"

/* ---- what the daemon says */

/* The daemon's last beat (bpf_ktime_get_ns); 0: the daemon does not beat. */
volatile __u64 last_beat;
/* enum smcr_reason: do not send the option on any connection, for this reason; 0: send it. */
__u32 hold_reason;
/* The same, while the daemon lacks resources for connections. */
__u32 limit_reason;
/* Numbers of entries in `limited`, `skipped`, `excluded`, `own` and `shorts`: an empty map is not
 * searched. */
__u32 num_limited, num_skipped, num_excluded, num_own, num_short;
/* The least time between two connect() calls to a place that are tried as a sample. */
__u64 sample_gap_ns;
/* How many places of `rules` are in use, and how many rules allow. */
__u32 num_rules, num_allow;

/* Users that may have no further connections now, and why. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SMCR_MAX_LIMITED);
	__type(key, __u32);
	__type(value, __u32);
} limited SEC(".maps");

/* Addresses of this host. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SMCR_MAX_OWN);
	__type(key, struct smcr_addr16);
	__type(value, __u32);
} own SEC(".maps");

/* Local and remote prefixes that stay plain TCP, and why. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SMCR_MAX_EXCLUDED);
	__type(key, struct smcr_prefix_key);
	__type(value, __u32);
} excluded SEC(".maps");

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

/* Peers to which the option is not sent until a time (bpf_ktime_get_ns). The daemon deletes entries
 * to make room, by shares of users: an LRU map would drop those of others. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SMCR_MAX_SKIPPED);
	__type(key, struct smcr_skip_key);
	__type(value, __u64);
} skipped SEC(".maps");

/* Where connections are too short for SMC-R. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SMCR_MAX_SHORT);
	__type(key, struct smcr_short_key);
	__type(value, struct smcr_short_counts);
} shorts SEC(".maps");

/* ---- the daemon's state */

/* Signed, because the daemon's clock may be slightly ahead. */
static __always_inline bool stands_still(void)
{
	__u64 beat = last_beat;
	return beat && (__s64)(bpf_ktime_get_ns() - beat) > SMCR_STANDSTILL_NS;
}

/* ---- addresses and peers */

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

/* ---- the administrator's rules */

struct rule_search {
	struct smcr_subject subject;
	__s32 denied, allowed; /* place of the rule that decides so, or -1 */
	__u32 flags;           /* IPC_CLAIM_... */
};

/* Of our side: policy() adds the addresses. */
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

/* ---- short connections */

/* By the socket's cookie, so that every packet of a handshake gets the same answer. */
static __always_inline bool is_chosen(__u64 cookie)
{
	return (cookie * 0x9E3779B97F4A7C15ull) >> (64 - SMCR_SHORT_SAMPLE_BITS) == 0;
}

/* The sample of a user who connects very often must not make the server leave connections of other
 * users of this host on TCP. Two that come at the same time may both be tried. */
static __always_inline bool is_too_soon(struct smcr_short_counts *counts)
{
	__u64 now = bpf_ktime_get_ns();
	if (now - counts->last < sample_gap_ns)
		return true;
	counts->last = now;
	return false;
}

/* connect() decides once, the server for each packet of a handshake. */
static __always_inline __u32 judge_by_length(const struct smcr_subject *subject, bool server,
					     __u64 cookie, bool count)
{
	struct smcr_short_key key = { .peer = subject->peer,
				      .port = subject->port,
				      .uid = subject->uid,
				      .role = server ? SMCR_SOCK_SERVER : SMCR_SOCK_CLIENT };
	if (server)
		key.local = subject->local;
	struct smcr_short_counts *counts = bpf_map_lookup_elem(&shorts, &key);
	if (!counts)
		return 0;
	bool tried = is_chosen(cookie) && (server || !is_too_soon(counts));
	if (count)
		__sync_fetch_and_add(tried ? &counts->tried : &counts->left, 1);
	return tried ? 0 : SMCR_REASON_SHORT_CONNECTIONS;
}

/* ---- the decision */

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

#endif

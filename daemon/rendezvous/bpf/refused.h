/* SPDX-License-Identifier: MIT */
/**
 * @file refused.h
 * Counts how often users were refused something, for BPF programs that refuse;
 * daemon/rendezvous/refused.h reads the counts. The count of a user may be dropped after a while,
 * the sum never is.
 */
#ifndef SMCRD_RENDEZVOUS_BPF_REFUSED_H
#define SMCRD_RENDEZVOUS_BPF_REFUSED_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

__u64 num_refused;

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, __u64);
} refused SEC(".maps");

static __always_inline void count_refused(__u32 uid)
{
	const __u64 none = 0;
	__sync_fetch_and_add(&num_refused, 1);
	__u64 *times = bpf_map_lookup_elem(&refused, &uid);
	if (!times) {
		bpf_map_update_elem(&refused, &uid, &none, BPF_NOEXIST);
		times = bpf_map_lookup_elem(&refused, &uid);
	}
	if (times)
		__sync_fetch_and_add(times, 1);
}

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file socks.h
 * Storage that BPF programs keep with a socket, which is freed with the socket, and with a
 * handshake. smcr.bpf.c defines these maps, and gate.c makes gate.bpf.c use the same ones.
 */
#ifndef SMCRD_RENDEZVOUS_BPF_SOCKS_H
#define SMCRD_RENDEZVOUS_BPF_SOCKS_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "daemon/rendezvous/bpf/smcr.h"

/* The children of a listener get a copy. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct smcr_sock);
} socks SEC(".maps");

/* CLC messages that smcrd has announced on a HELD socket. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct smcr_spoken);
} spoken SEC(".maps");

/* SMCR_SYNACK_... of handshakes. The oldest ones are dropped if there are too many; a handshake
 * that is over is removed (server.h). */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct smcr_synack_key);
	__type(value, __u32);
} synacks SEC(".maps");

#endif

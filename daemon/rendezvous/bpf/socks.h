/* SPDX-License-Identifier: MIT */
/**
 * @file socks.h
 * What BPF programs keep with a socket; it goes with the socket. smcr.bpf.c has these maps, and
 * gate.c has gate.bpf.c use the same ones.
 */
#ifndef SMCRD_RENDEZVOUS_BPF_SOCKS_H
#define SMCRD_RENDEZVOUS_BPF_SOCKS_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "daemon/rendezvous/bpf/smcr.h"

/* Children of a listener begin with a copy. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct smcr_sock);
} socks SEC(".maps");

/* What smcrd says in CLC on a socket that is held. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct smcr_spoken);
} spoken SEC(".maps");

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file smcr.h
 * Map keys and values that the BPF programs (smcr.bpf.c) share with option.c. Fixed-width types and
 * explicit padding only: both sides compile it on their own. Addresses are 16 bytes, IPv4 as
 * IPv4-mapped IPv6.
 */
#ifndef SMCRD_RENDEZVOUS_BPF_SMCR_H
#define SMCRD_RENDEZVOUS_BPF_SMCR_H

#include <linux/bpf.h>
#include <linux/types.h>

#include "daemon/rendezvous/bpf/rule.h"

enum {
	SMCR_SOCK_CLAIMED = 1 << 0,
	SMCR_SOCK_OFFER = 1 << 1,       /* this connect() sends the option */
	SMCR_SOCK_SENT = 1 << 2,        /* a SYN with the option has left */
	SMCR_SOCK_BARRED = 1 << 3,      /* IPC_SO_BAR: never together with CLAIMED */
	SMCR_SOCK_WAS_CLAIMED = 1 << 4, /* BARRED: to be claimed again when that is over */
	SMCR_SOCK_LISTED = 1 << 5,      /* a listener that counts */
	SMCR_SOCK_REFUSED = 1 << 6,     /* a listener that is one too many, and its children */
	SMCR_SOCK_ASIDE = 1 << 7,       /* IPC_SO_PLAIN before the handshake was over */
	SMCR_SOCK_COUNTED = 1 << 8,     /* among the connections that are plain TCP */
	SMCR_SOCK_HELD = 1 << 9,        /* the peer was promised SMC-R: gate.bpf.c */
	SMCR_SOCK_LET = 1 << 10,        /* HELD, and its first bytes were let pass */
};

enum {
	SMCR_SOCK_CLIENT = 1,
	SMCR_SOCK_SERVER = 2,
};

/** Who has claimed a socket. */
struct smcr_claimant {
	__u64 program; /* what it says it is (struct ipc_claim); 0: nothing */
	__u32 uid;     /* real user of the process, in the first user namespace */
	__u32 flags;   /* IPC_CLAIM_... */
};

#define SMCR_COMM_LEN 16

/** The process that has claimed a socket, or barred it, or wants it to be plain TCP. */
struct smcr_process {
	__u32 pid; /* in the first pid namespace */
	char comm[SMCR_COMM_LEN];
	__u32 padding;
};

/** Socket storage of a claimed socket, and of the children of a claimed listener. */
struct smcr_sock {
	__u32 flags;      /* SMCR_SOCK_... */
	__u32 cb_flags;   /* sock_ops callbacks that we switched on for this socket */
	__u32 role;       /* SMCR_SOCK_CLIENT, SMCR_SOCK_SERVER; 0 before a handshake */
	__u32 negotiated; /* enum ipc_negotiated */
	__u32 reason;     /* enum smcr_reason: why NO */
	__u32 peer_port;  /* host byte order, of the last connect() */
	struct smcr_addr16 peer;
	struct smcr_claimant by;
	struct smcr_process process;
	__u32 listed_uid;  /* LISTED: with whose listeners it counts */
	__u32 syn_retries; /* TCP_SYNCNT before IPC_PROMISE_MARK took its place; 0: it did not */
	__u64 adopted; /* bpf_ktime_get_ns() when the claim came after listen(); 0: it did not */
	__u32 first;   /* HELD: sequence number of the first byte that the socket sends */
	__u32 padding;
};

/** Where a claimed listener listens; all-zero address: everywhere. */
struct smcr_listen_key {
	struct smcr_addr16 local;
	__u32 port; /* host byte order */
};

/** How many there are of something, at the start of a map's value. */
struct smcr_count {
	struct bpf_spin_lock lock;
	__u32 n;
	__u32 over; /* it is being deleted */
	__u32 padding;
};

/** The claimed listeners at an address, and who claimed the last one. */
struct smcr_listen {
	struct bpf_spin_lock
		lock; /* as struct smcr_count: the kernel finds no lock further inside */
	__u32 n;
	__u32 over;
	__u32 padding;
	struct smcr_claimant by;
	__u64 adopted;
};

/** proto/ipc/ipc.h: struct ipc_claim. */
struct smcr_claim {
	__s32 wanted;
	__u32 flags;
	__u64 program;
};

/** proto/ipc/ipc.h: struct ipc_spoken. */
#define SMCR_SPOKEN_MAX   1024
#define SMCR_SPOKEN_FREED 0xFFFFFFFF

/** All that smcrd has said in CLC on a socket that it has taken over. */
struct smcr_spoken {
	__u32 length; /* or SMCR_SPOKEN_FREED, without what follows */
	__u32 first;  /* smcr_sock's: of this connection, the socket may have had others */
	__u64 words[SMCR_SPOKEN_MAX / 8];
};

/** A peer that is skipped. */
struct smcr_skip_key {
	struct smcr_addr16 peer;
	__u32 port; /* host byte order, of a server there; 0: all of the peer, also as a client */
};

/** Where connections are short: a peer and a TCP port of it; or no address and a port of ours. */
struct smcr_short_key {
	struct smcr_addr16 peer;
	__u32 port; /* host byte order */
};

/** Handshakes there since it was noted. */
struct smcr_short_counts {
	__u64 left;  /* left on TCP */
	__u64 tried; /* not, to see whether that is still right */
};

/** proto/ipc/ipc.h: struct ipc_plain. */
struct smcr_aside {
	__u32 reason;
	__u32 flags;
};

/** A connection of a claimed socket, or of one that was to be, whose handshake has ended as plain
 *  TCP. */
struct smcr_plain {
	__u64 time;   /* bpf_ktime_get_ns() */
	__u64 cookie; /* of the socket */
	struct smcr_addr16 local, peer;
	__u32 local_port, peer_port; /* host byte order */
	__u32 role;                  /* SMCR_SOCK_CLIENT, SMCR_SOCK_SERVER */
	__u32 reason;                /* enum smcr_reason */
	__u32 uid;                   /* of who has claimed it */
	struct smcr_process process;
	__u32 padding;
};

/** How many there were for a reason. */
struct smcr_plain_count {
	__u64 connections;
	__u64 untold; /* of these, without a struct smcr_plain: there was no room */
};

/** What was told of users whose numbers fall into one place. */
struct smcr_plain_share {
	__u32 round; /* plain_round when that was counted */
	__u32 told;
};

struct smcr_prefix_key {
	__u32 bits; /* 0..128 */
	struct smcr_addr16 prefix;
};

/* A daemon that shows itself every half a second (RDV_BEAT_MS) and has not for so long stands
 * still: it was stopped or hangs. The five beats that may be late or missing are for a busy
 * machine. */
#define SMCR_STANDSTILL_NS 3000000000ll

#define SMCR_MAX_LISTENERS 16384
#define SMCR_MAX_SKIPPED   4096
#define SMCR_MAX_EXCLUDED  1024
#define SMCR_MAX_LIMITED   4096
#define SMCR_MAX_OWN       4096
#define SMCR_MAX_SHORT     1024
#define SMCR_MAX_REASONS   64

/* Connections that are plain TCP wait here until the daemon looks, twice a second. One user has a
 * quarter of the room at most, so that none hides what others do. */
#define SMCR_PLAIN_BYTES     (512 * 1024)
#define SMCR_PLAIN_MAX       (SMCR_PLAIN_BYTES / (sizeof(struct smcr_plain) + 8))
#define SMCR_PLAIN_OF_A_USER (SMCR_PLAIN_MAX / 4)
#define SMCR_PLAIN_USER_BITS 8 /* users are told apart by so many bits of a hash */

/* Of connections to where they are short, about one of so many is not left on TCP. */
#define SMCR_SHORT_SAMPLE_BITS 5

#endif

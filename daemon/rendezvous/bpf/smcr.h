/* SPDX-License-Identifier: MIT */
/**
 * @file smcr.h
 * Map keys and values that the BPF programs (smcr.bpf.c) share with the daemon (option.c, tally.c).
 * Only fixed-width types and explicit padding, because both sides compile this on their own.
 * Addresses are 16 bytes, IPv4 as IPv4-mapped IPv6.
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
	SMCR_SOCK_BARRED = 1 << 3,      /* IPC_SO_BAR; never together with CLAIMED */
	SMCR_SOCK_WAS_CLAIMED = 1 << 4, /* BARRED: claim it again when that is over */
	SMCR_SOCK_LISTED = 1 << 5,      /* a listener that is counted */
	SMCR_SOCK_REFUSED = 1 << 6,     /* a listener that is too many, and its children */
	SMCR_SOCK_ASIDE = 1 << 7,       /* IPC_SO_PLAIN before the handshake was over */
	SMCR_SOCK_COUNTED = 1 << 8,     /* counted as a connection that is plain TCP */
	SMCR_SOCK_HELD = 1 << 9,        /* the peer was promised SMC-R: gate.bpf.c */
	SMCR_SOCK_LET = 1 << 10,        /* HELD, and its first bytes have passed */
	SMCR_SOCK_FRESH = 1 << 11,      /* claimed, and no connect() has begun since */
	SMCR_SOCK_UNASKED = 1 << 12,    /* IPC_SO_UNASKED was told of this handshake */
	SMCR_SOCK_QUIET = 1 << 13,      /* LISTED, and its claim was withdrawn */
	SMCR_SOCK_PASSED = 1 << 14,     /* SENT, and gate.bpf.c has seen a SYN with the option */
	SMCR_SOCK_STRIPPED = 1 << 15,   /* SENT, and no SYN that it has seen had the option */
};

enum {
	SMCR_SOCK_CLIENT = 1,
	SMCR_SOCK_SERVER = 2,
};

/** The program and user that have claimed a socket. */
struct smcr_claimant {
	__u64 program; /* what the program says it is (struct ipc_claim); 0: nothing */
	__u32 uid;     /* real user of the process, in the first user namespace */
	__u32 flags;   /* IPC_CLAIM_... */
};

#define SMCR_COMM_LEN 16

/** The process that has claimed a socket, has barred it, or wants it to be plain TCP. */
struct smcr_process {
	__u32 pid; /* in the first pid namespace */
	char comm[SMCR_COMM_LEN];
	__u32 padding;
};

/** Socket storage of a claimed socket, and of the children of a claimed listener. */
struct smcr_sock {
	__u32 flags;      /* SMCR_SOCK_... */
	__u32 cb_flags;   /* sock_ops callbacks that these programs have switched on */
	__u32 role;       /* SMCR_SOCK_CLIENT, SMCR_SOCK_SERVER; 0 before a handshake */
	__u32 negotiated; /* enum ipc_negotiated */
	__u32 reason;     /* enum smcr_reason: why NO */
	__u32 peer_port;  /* host byte order, of the last connect() */
	struct smcr_addr16 peer;
	struct smcr_claimant by;
	struct smcr_process process;
	__u32 listed_uid;  /* LISTED: the user it is counted for */
	__u32 syn_retries; /* TCP_SYNCNT before IPC_PROMISE_MARK replaced it; 0: it has not */
	__u64 adopted;     /* if the claim came after listen(): when (bpf_ktime_get_ns()); else 0 */
	__u32 first;       /* HELD: sequence number of the first byte that the socket sends */
	__u32 padding;
	__u64 cookie; /* COUNTED: of the socket, as in struct smcr_plain */
};

/*
 * What became of a handshake's SYN-ACKs in which write_in_synack() has put the option. By the time
 * they leave, others may have taken it out: the kernel does if another BPF program answers the same
 * callback with 0.
 */
enum {
	SMCR_SYNACK_WRITTEN = 1 << 0,
	SMCR_SYNACK_WITH = 1 << 1,    /* one has left with the option */
	SMCR_SYNACK_WITHOUT = 1 << 2, /* one has left without */
	SMCR_SYNACK_REFUSED =
		1 << 3, /* nobody who speaks CLC would accept: no option from now on */
};

/** Names the handshake in packets and in the child socket. Unlike addresses and ports, translation
 * of addresses (NAT) leaves these numbers alone. */
struct smcr_synack_key {
	__u32 seq, ack; /* host byte order, of the SYN-ACK */
};

/** Where a claimed listener listens; all-zero address: everywhere. */
struct smcr_listen_key {
	struct smcr_addr16 local;
	__u32 port; /* host byte order */
};

/** A count, at the start of a map's value. */
struct smcr_count {
	struct bpf_spin_lock lock;
	__u32 n;
	__u32 over; /* the entry is being deleted */
	__u32 padding;
};

/** The listeners at an address that are or were claimed, or are barred, and who claimed the last
 * one. */
struct smcr_listen {
	struct bpf_spin_lock
		lock; /* like struct smcr_count, whose lock the kernel does not find nested */
	__u32 n;
	__u32 over;
	__u32 barred; /* how many of them are barred */
	__u32 quiet;  /* how many of them are QUIET */
	__u32 heard;  /* 1: a SYN-ACK that was asked for was seen here */
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

/** All CLC messages that smcrd has announced on a socket that it has taken over. */
struct smcr_spoken {
	__u32 length; /* or SMCR_SPOKEN_FREED, and nothing follows */
	__u32 first;  /* as in smcr_sock: names the connection, as the socket may have had others */
	__u64 words[SMCR_SPOKEN_MAX / 8];
};

/** A peer that is skipped by connections of a user. */
struct smcr_skip_key {
	struct smcr_addr16 peer;
	__u32 port; /* host byte order, of a server there; 0: the whole peer, also as a client */
	__u32 uid;
};

/** A place where connections of a user are short. */
struct smcr_short_key {
	struct smcr_addr16 local; /* of a server: where the peer connects to; else zero */
	struct smcr_addr16 peer;
	__u32 port; /* host byte order, of the server */
	__u32 uid;
	__u32 role; /* of this host: SMCR_SOCK_CLIENT, SMCR_SOCK_SERVER */
};

/** Handshakes there since the place counts as short. */
struct smcr_short_counts {
	__u64 left;  /* left on TCP */
	__u64 tried; /* tried with SMC-R, as a sample */
	__u64 last;  /* when a connect() was last tried (bpf_ktime_get_ns) */
};

/** proto/ipc/ipc.h: struct ipc_plain. */
struct smcr_aside {
	__u32 reason;
	__u32 flags;
};

/** A connection of a socket that was claimed, or should have been, whose handshake has ended as
 * plain TCP. Or, after it, that others to the same peer were made before it (IPC_SO_UNASKED). */
struct smcr_plain {
	__u64 time;   /* bpf_ktime_get_ns() */
	__u64 cookie; /* of the socket */
	struct smcr_addr16 local, peer;
	__u32 local_port, peer_port; /* host byte order */
	__u32 role;                  /* SMCR_SOCK_CLIENT, SMCR_SOCK_SERVER */
	__u32 reason;                /* enum smcr_reason */
	__u32 uid;                   /* user that has claimed the socket */
	struct smcr_process process;
	__u32 unasked; /* how many others; 0: this is the connection itself */
};

/** How many such connections there were for a reason. */
struct smcr_plain_count {
	__u64 connections;
	__u64 untold; /* of these, how many have no struct smcr_plain for lack of room */
};

/** IPC_UNASKED_MAX. */
#define SMCR_UNASKED_MAX 32

/** How many struct smcr_plain users with the same hash have. */
struct smcr_plain_share {
	__u32 round; /* plain_round when this was counted */
	__u32 told;
};

struct smcr_prefix_key {
	__u32 bits; /* 0..128 */
	struct smcr_addr16 prefix;
};

/* A daemon beats every half a second (RDV_BEAT_MS). If it has not for this time, it stands still:
 * it was stopped or hangs. On a busy machine up to five beats may be late or missing. */
#define SMCR_STANDSTILL_NS 3000000000ll

#define SMCR_MAX_LISTENERS 16384
#define SMCR_MAX_SKIPPED   4096
#define SMCR_MAX_EXCLUDED  1024
#define SMCR_MAX_LIMITED   4096
#define SMCR_MAX_OWN       4096
#define SMCR_MAX_SHORT     4096
#define SMCR_MAX_REASONS   64

/* How many plain TCP connections are kept until the daemon reads them, twice a second. One user has
 * a quarter of the room at most, and so cannot hide what others do. */
#define SMCR_PLAIN_BYTES     (512 * 1024)
#define SMCR_PLAIN_MAX       (SMCR_PLAIN_BYTES / (sizeof(struct smcr_plain) + 8))
#define SMCR_PLAIN_OF_A_USER (SMCR_PLAIN_MAX / 4)
#define SMCR_PLAIN_USER_BITS 8 /* users are told apart by this many bits of a hash */

/* In a place where connections are short, about one of so many still tries SMC-R. */
#define SMCR_SHORT_SAMPLE_BITS 5

#endif

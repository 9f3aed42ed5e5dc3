/* SPDX-License-Identifier: MIT */
/**
 * @file numbers.h
 * Numbers of headers that smcr.bpf.c cannot include, because these headers need headers of libc.
 */
#ifndef SMCRD_RENDEZVOUS_BPF_NUMBERS_H
#define SMCRD_RENDEZVOUS_BPF_NUMBERS_H

/* The kernel's. */
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
#define TCP_BPF_SOCK_OPS_CB_FLAGS 1008 /* since Linux 6.12, newer than Debian 12's headers */

/* proto/ipc/ipc.h; option.c checks that these are the same. */
#define IPC_SOL_SMCR             0x534d4352
#define IPC_SO_CLAIM             1
#define IPC_SO_NEGOTIATED        2
#define IPC_SO_REASON            3
#define IPC_SO_BAR               4
#define IPC_SO_STANDS_STILL      5
#define IPC_SO_PLAIN             6
#define IPC_SO_SPOKEN            7
#define IPC_SO_UNASKED           8
#define IPC_SO_ADDRESS           9
#define IPC_SO_SERVING           10
#define IPC_CLAIM_REQUIRED       (1 << 0)
#define IPC_CLAIM_TO_CONNECT     (1 << 1)
#define IPC_PLAIN_ACCEPTED       (1 << 0)
#define IPC_NEGOTIATED_UNKNOWN   0
#define IPC_NEGOTIATED_YES       1
#define IPC_NEGOTIATED_NO        2
#define IPC_NEGOTIATED_UNCLAIMED 3
#define IPC_NEGOTIATED_DOUBTFUL  4
#define IPC_PROMISE_MARK         113

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file pre_net.h
 * Sockets for tests of the preload library, and an imitation of the private socket options that
 * smcrd's BPF programs offer. All functions fail the test on error. No wait is longer than 10
 * seconds.
 */
#ifndef SMCRD_TESTS_LIB_PRE_NET_H
#define SMCRD_TESTS_LIB_PRE_NET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#include "proto/ipc/ipc.h"

/** A TCP listener on loopback that the library does not know, as if another program had it.
 *  @param family  AF_INET or AF_INET6 */
int pre_net_listen(int family, union ipc_addr *ret_addr);
/** @param type  SOCK_STREAM and flags */
int pre_net_socket(int family, int type);
socklen_t pre_net_len(const union ipc_addr *addr);
/** connect() through the library. @return 0 or errno */
int pre_net_connect(int fd, const union ipc_addr *addr);
/** accept() without the library. */
int pre_net_accept_plain(int listener);

/** SO_DOMAIN as the kernel tells it: AF_UNIX for a pair end. */
int pre_net_kernel_family(int fd);
/** Wait for poll events. @return revents */
short pre_net_wait(int fd, short events);
/** poll() without waiting. */
short pre_net_poll_now(int fd, short events);
/** Send through one socket and receive from the other, in both directions. */
void pre_net_exchange(int a, int b);
/** The next read must fail with ECONNRESET. */
void pre_net_expect_reset(int fd);
/** The next bytes must be a Decline of version 1 with this reason, which does not end link groups.
 */
void pre_net_expect_decline(int fd, uint32_t reason);
/** Pass a copy of `fd`, with one byte, through the Unix socket `via`. */
void pre_net_pass(int via, int fd);
/** write() one byte in a process that may only read, write and exit; `peer` must get it. */
void pre_net_write_confined(int fd, int peer);
/** Number of open descriptors of this process. */
size_t pre_net_count_fds(void);

/** How the imitated BPF programs answer, and what they were told. */
struct pre_net_option {
	bool absent;     /* as without BPF: ENOPROTOOPT */
	int claim_error; /* errno for every claim, 0: claims succeed where they can */
	bool cannot_unclaim;
	enum ipc_negotiated negotiated;
	int claims, unclaims;
	int last_claimed;
	uint64_t last_program;
	bool last_required;
	int plain_told; /* IPC_SO_PLAIN */
	struct ipc_plain last_plain;
	int unasked_told;     /* IPC_SO_UNASKED: how often, */
	uint32_t unasked;     /* and of how many connections */
	bool answers_unasked; /* else ENOPROTOOPT, as a smcrd that does not know it */
	int bars;             /* listeners that are barred now */
	int last_barred;
	uint64_t address;           /* IPC_SO_ADDRESS; 0: as a smcrd that has none */
	bool (*stands_still)(void); /* IPC_SO_STANDS_STILL; NULL: smcrd does not */
};
extern struct pre_net_option pre_net_option;
/** Answer these socket options in place of the kernel. Sets all fields to zero. */
void pre_net_play_option(void);

#endif

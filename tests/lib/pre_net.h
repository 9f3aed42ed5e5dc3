/* SPDX-License-Identifier: MIT */
/**
 * @file pre_net.h
 * Sockets for tests of the preload library, and the SMC option's private socket options played
 * without BPF. All fail the test on error; waits are bounded by 10 seconds.
 */
#ifndef SMCRD_TESTS_LIB_PRE_NET_H
#define SMCRD_TESTS_LIB_PRE_NET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#include "proto/ipc/ipc.h"

/** A TCP listener on loopback that the library knows nothing of, as if another program had it.
 *  @param family  AF_INET or AF_INET6 */
int pre_net_listen(int family, union ipc_addr *ret_addr);
/** @param type  SOCK_STREAM and flags */
int pre_net_socket(int family, int type);
socklen_t pre_net_len(const union ipc_addr *addr);
/** connect() of the interposed kind; @return 0 or errno */
int pre_net_connect(int fd, const union ipc_addr *addr);
/** accept() that passes the library by. */
int pre_net_accept_plain(int listener);

/** SO_DOMAIN as the kernel has it: AF_UNIX for a pair end. */
int pre_net_kernel_family(int fd);
/** Wait for poll events. @return revents */
short pre_net_wait(int fd, short events);
/** poll() without waiting. */
short pre_net_poll_now(int fd, short events);
/** Send through one and receive from the other, both directions. */
void pre_net_exchange(int a, int b);
/** The next read must fail with ECONNRESET. */
void pre_net_expect_reset(int fd);
/** Descriptors of this process. */
size_t pre_net_count_fds(void);

/** What the played cgroup programs say and have been told. */
struct pre_net_option {
	bool absent;     /* as without BPF: ENOPROTOOPT */
	int claim_error; /* 0, or what claiming a socket that can be claimed gives */
	bool cannot_unclaim;
	enum ipc_negotiated negotiated;
	int claims, unclaims;
	int last_claimed;
	uint64_t last_program;
	bool last_required;
	int plain_told; /* IPC_SO_PLAIN */
	struct ipc_plain last_plain;
	int bars; /* less those that were taken back */
	int last_barred;
};
extern struct pre_net_option pre_net_option;
/** Put them in front of the kernel's options. All fields are zero then. */
void pre_net_play_option(void);

#endif

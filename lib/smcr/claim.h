/* SPDX-License-Identifier: MIT */
/**
 * @file claim.h
 * Claims TCP sockets for the SMC-R option, and asks what the handshake agreed upon. Uses private
 * socket options that smcrd's BPF programs handle (proto/ipc/ipc.h).
 */
#ifndef SMCRD_LIB_SMCR_CLAIM_H
#define SMCRD_LIB_SMCR_CLAIM_H

#include <stdbool.h>

#include "lib/smcr/policy.h"
#include "proto/ipc/ipc.h"

enum pre_claim {
	PRE_CLAIM_UNASKED, /* not tried */
	PRE_CLAIM_MADE,    /* the handshake carries the option, unless smcrd prevents it */
	PRE_CLAIM_NO_BPF,  /* no BPF program handles the private options: smcrd decides */
	PRE_CLAIM_REFUSED, /* this socket cannot be claimed */
	PRE_CLAIM_NO_TCP,  /* this is no TCP socket, perhaps no socket at all */
	PRE_CLAIM_LATE,    /* a TCP socket for which connect() or listen() was called before */
};

/** Claim before listen(). @return never NO_TCP or LATE */
enum pre_claim pre_claim(int fd, enum pre_policy policy);

/** Claim before connect(). `fd` may be any descriptor: the one system call also tells what it
 * is. */
enum pre_claim pre_claim_to_connect(int fd, enum pre_policy policy);

/** End the claim: later handshakes carry no option. @return 0 or a negative errno */
int pre_unclaim(int fd);

/** What the handshake agreed upon. @return enum ipc_negotiated; -ENOPROTOOPT or -EOPNOTSUPP: no BPF
 * program handles the private options, or this socket cannot have them; or another negative
 * errno */
int pre_negotiated(int fd);

/**
 * Tell smcrd, for its operators, that the library has left this connection on TCP. One system call
 * that does not block, after accept() or connect(), also while connect() is in progress.
 * @param reason    one of those of struct ipc_plain; SMCR_REASON_NONE: nothing is told
 * @param accepted  the program is the server
 */
void pre_tell_plain(int fd, uint32_t reason, bool accepted);

/**
 * Tell smcrd how many connections to the same peer were made without a claim before this one, which
 * was made with a claim and whose handshake is over.
 * @param number  0..IPC_UNASKED_MAX
 * @return 0: this peer has not answered the option; -ENODATA: it has, or was not asked; or another
 *         negative errno: nothing was counted
 */
int pre_tell_unasked(int fd, uint32_t number);

/** Was smcrd stopped, or does it hang? `fd` may be any socket. False if that cannot be found
 * out. */
bool pre_stands_still(int fd);

/** Does smcrd run, and will it answer at once? `fd` may be any socket. False if that cannot be
 * found out. */
bool pre_daemon_serves(int fd);

/** The number in smcrd's abstract address (ipc_abstract_address()). `fd` may be any socket.
 * @return 0, or a negative errno: there are no BPF programs that tell it */
int pre_address_number(int fd, uint64_t *ret_number);

/** Why the handshake agreed upon NO: enum smcr_reason; SMCR_REASON_PEER_NO_SMC if no reason is
 * known. */
uint32_t pre_reason_of_no(int fd);

/** The same for the log, which asks only with -v. */
uint32_t pre_negotiated_reason(int fd);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file claim.h
 * Asking for the SMC option on a TCP socket, and what came of it in the handshake: private socket
 * options that smcrd's cgroup programs answer (proto/ipc/ipc.h).
 */
#ifndef SMCRD_LIB_SMCR_CLAIM_H
#define SMCRD_LIB_SMCR_CLAIM_H

#include <stdbool.h>

#include "lib/smcr/policy.h"
#include "proto/ipc/ipc.h"

enum pre_claim {
	PRE_CLAIM_UNASKED, /* nobody has tried */
	PRE_CLAIM_MADE,    /* the handshake will carry the option if smcrd lets it */
	PRE_CLAIM_NO_BPF,  /* nobody knows the private options: smcrd decides, if it is there */
	PRE_CLAIM_REFUSED, /* not for this socket */
	PRE_CLAIM_NO_TCP,  /* this is no TCP socket, perhaps no socket at all */
	PRE_CLAIM_LATE,    /* a TCP socket for which connect() was called before, or listen() */
};

/** Before listen(). @return not NO_TCP, and not LATE */
enum pre_claim pre_claim(int fd, enum pre_policy policy);

/** Before connect(), of any descriptor: one system call that tells all there is to know. */
enum pre_claim pre_claim_to_connect(int fd, enum pre_policy policy);

/** From the next connect() or incoming connection on no option. @return 0 or a negative errno */
int pre_unclaim(int fd);

/** @return enum ipc_negotiated; -ENOPROTOOPT or -EOPNOTSUPP: nobody knows the private options, or
 *  this is no socket that could have them; another negative errno */
int pre_negotiated(int fd);

/**
 * Tell smcrd, for its operators, that this connection is on TCP by the library's choice: one system
 * call that waits for nobody. After accept() or connect(), also while that goes on.
 * @param reason    as struct ipc_plain has them; SMCR_REASON_NONE: it is not told
 * @param accepted  the program is the server
 */
void pre_tell_plain(int fd, uint32_t reason, bool accepted);

/** Does smcrd make no progress? On any socket; no, where nobody can tell. */
bool pre_stands_still(int fd);

/** Why the handshake negotiated NO: enum smcr_reason; the peer, where nobody says. */
uint32_t pre_reason_of_no(int fd);

/** The same for the log: only asked with -v. */
uint32_t pre_negotiated_reason(int fd);

#endif

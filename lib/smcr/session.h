/* SPDX-License-Identifier: MIT */
/**
 * @file session.h
 * Requests to the daemon. Each function opens a session, makes one request and closes the session,
 * so no descriptor of the library stays open in the program.
 *
 * Every wait has a limit. Signals do not end it unless said so, because half a hand-over cannot be
 * undone. A hand-over stops waiting if smcrd stands still.
 */
#ifndef SMCRD_LIB_SMCR_SESSION_H
#define SMCRD_LIB_SMCR_SESSION_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/smcr/policy.h"
#include "proto/ipc/ipc.h"

#define PRE_REPLY_MS 10000 /* limit for answers that the daemon gives at once */

enum pre_handed {
	PRE_HANDED_PAIR,   /* the pair end is in `fd` */
	PRE_HANDED_OPEN,   /* the same; whether SMC-R or TCP carries the bytes is undecided */
	PRE_HANDED_TCP,    /* the socket is the program's again; `reason` says why */
	PRE_HANDED_FAILED, /* the connection is gone; `error` says why */
	/** There is no daemon, or it refused, or the process has too few descriptors. The socket is
	 * untouched. If the handshake promised SMC-R, the caller has to decline or connect
	 * again. */
	PRE_NOT_HANDED,
	PRE_HANDED_LOST, /* the daemon has it and gave no valid answer: reset it */
};

/** `error` of a hand-over if smcrd was stopped or hangs. */
#define PRE_STANDS_STILL ETIME

struct pre_handover {
	enum pre_handed handed;
	int fd;          /* PAIR, OPEN: the pair end, with FD_CLOEXEC; the caller owns it */
	int error;       /* FAILED, NOT_HANDED: positive errno, or PRE_STANDS_STILL */
	uint32_t reason; /* TCP: enum smcr_reason */
	bool short_of;   /* NOT_HANDED: this process or smcrd has no descriptor or no memory left */
	/** NOT_HANDED: why, as a sentence that may be cut. */
	char text[IPC_TEXT_MAX + sizeof("smcrd cannot be asked: ")];
};

/**
 * Hand a TCP socket over. `fd` stays open in this process.
 * @param peer  CONNECTING: address of the peer; NULL with the other kinds
 */
void pre_ask_handover(int fd, enum ipc_handover_kind kind, const union ipc_addr *peer,
		      enum pre_policy policy, struct pre_handover *ret_handover);

/** enum smcr_reason for the error with which a socket was NOT_HANDED. */
uint32_t pre_reason_not_handed(int error);

/**
 * Ask for the state of the connection behind a pair end.
 * @param flags    IPC_STATUS_MAY_TAKE_BACK, IPC_STATUS_DISCONNECT or IPC_STATUS_LOOK, or none
 * @param ret_tcp  the TCP socket if the daemon gave it back, which the caller owns then; else -1
 * @return 0, or a negative errno: the daemon is gone, or does not know the connection (any more)
 */
int pre_ask_status(int fd, uint8_t flags, struct ipc_status *ret_status, int *ret_tcp);

/**
 * Ask what became of a connection.
 * @param fd    a pair end, or a TCP socket that was handed over and given back
 * @param wait  wait until it is settled whether SMC-R or TCP carries the data, or a signal comes
 * @param limit_ms  the longest wait
 * @return 0; -ETIMEDOUT, -EINTR; another negative errno: the daemon is gone, or does not know the
 *         connection (any more)
 */
int pre_ask_info(int fd, bool wait, int limit_ms, struct ipc_info *ret_info);

/**
 * getsockopt(), setsockopt() or ioctl() on the TCP connection behind a pair end.
 * @param inout_option  the request; on success replaced by the answer
 * @return 0, or a negative errno: of the option, or because the daemon could not be asked
 */
int pre_ask_sockopt(int fd, struct ipc_sockopt *inout_option);

/**
 * setsockopt() with a value that the kernel takes: the daemon is told, and nobody waits for its
 * answer. A later pre_ask_sockopt() finds the value, since the daemon serves sessions in order.
 * @return 0, or a negative errno: the daemon could not be told
 */
int pre_tell_sockopt(int fd, const struct ipc_sockopt *option);

/**
 * The program has called shutdown() on a pair end: show the pair end to the daemon, whose own end
 * cannot tell any more what was shut down once the program has closed. Nobody waits for an answer:
 * the request itself keeps the pair end open until the daemon has looked. A daemon that stands
 * still is not told.
 */
void pre_tell_shutdown(int fd);

/**
 * Ask for the memory of a pair end (path.h).
 * @param ret_memfd  the memory if it is granted, with FD_CLOEXEC, owned by the caller; else -1
 * @return 0, or a negative errno: the daemon is gone, does not know the connection (any more), or
 *         does not know this request
 */
int pre_ask_memory(int fd, struct ipc_memory *ret_answer, int *ret_memfd);

#endif

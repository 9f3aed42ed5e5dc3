/* SPDX-License-Identifier: MIT */
/**
 * @file session.h
 * Asking the daemon: each function opens a session, makes one request and closes it, so that no
 * descriptor of the library's stays in the program.
 *
 * Every wait has a limit. Signals do not end it where not said: half a hand-over cannot be taken
 * back. A hand-over waits no longer than smcrd moves.
 */
#ifndef SMCRD_LIB_SMCR_SESSION_H
#define SMCRD_LIB_SMCR_SESSION_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/smcr/policy.h"
#include "proto/ipc/ipc.h"

/**
 * May this process hope to reach the daemon? To be asked before the SMC option is promised to a
 * peer. Looks, once, whether the process may open a Unix socket and write to the daemon's; after a
 * failure the answer is no for a second, for a minute after the daemon turned out to be another
 * network namespace's, or for ever where a sandbox forbids the socket.
 * @param alive  the daemon's programs have just shown that it is there: what was noted before does
 *               not count
 */
bool pre_daemon_usable(bool alive);

/** The same without looking: false as long as nobody has looked. */
bool pre_daemon_known(void);

#define PRE_REPLY_MS 10000 /* for answers that the daemon gives at once */

enum pre_handed {
	PRE_HANDED_PAIR,   /* the pair end is in ret_fd */
	PRE_HANDED_OPEN,   /* the same; the daemon does not know yet whether it will be SMC-R or TCP
			    */
	PRE_HANDED_TCP,    /* the socket is the program's again; `reason` says why */
	PRE_HANDED_FAILED, /* the connection is gone; `error` says why */
	/** No daemon, or it refused, or the process has too few descriptors left: the socket was
	 * never touched. What the handshake promised is still to be kept. */
	PRE_NOT_HANDED,
	PRE_HANDED_LOST, /* it took the socket and did not answer as it must: nobody knows what the
			    peer was told */
};

/** `error` of a hand-over: smcrd was stopped or hangs. */
#define PRE_STANDS_STILL ETIME

struct pre_handover {
	enum pre_handed handed;
	int fd;          /* PAIR, OPEN: with FD_CLOEXEC; the caller's */
	int error;       /* FAILED, NOT_HANDED: positive errno, or PRE_STANDS_STILL */
	uint32_t reason; /* TCP: enum smcr_reason */
	/** NOT_HANDED: why, a sentence or the beginning of one. */
	char text[IPC_TEXT_MAX + sizeof("smcrd cannot be asked: ")];
};

/**
 * Hand a TCP socket over. `fd` stays open here.
 * @param peer  CONNECTING: whom the handshake goes to; NULL with the other kinds
 */
void pre_ask_handover(int fd, enum ipc_handover_kind kind, const union ipc_addr *peer,
		      enum pre_policy policy, struct pre_handover *ret_handover);

/** enum smcr_reason for the error with which a socket was NOT_HANDED. */
uint32_t pre_reason_not_handed(int error);

/**
 * How is the connection behind a pair end?
 * @param flags    IPC_STATUS_MAY_TAKE_BACK or IPC_STATUS_DISCONNECT, or none
 * @param ret_tcp  the TCP socket if the daemon gave it back (the caller's then), else -1
 * @return 0, or a negative errno: the daemon is gone, or does not know the connection (any more)
 */
int pre_ask_status(int fd, uint8_t flags, struct ipc_status *ret_status, int *ret_tcp);

/**
 * What became of a connection?
 * @param fd    a pair end, or a TCP socket that was handed over and stayed
 * @param wait  until it is settled whether SMC-R or TCP carries the data; a signal ends that
 * @param limit_ms  how long
 * @return 0; -ETIMEDOUT, -EINTR; another negative errno: the daemon is gone, or does not know the
 *         connection (any more)
 */
int pre_ask_info(int fd, bool wait, int limit_ms, struct ipc_info *ret_info);

/**
 * getsockopt(), setsockopt() or ioctl() on the TCP connection behind a pair end.
 * @param inout_option  request; replaced by the answer with 0
 * @return 0, or a negative errno: of the option, or because the daemon could not be asked
 */
int pre_ask_sockopt(int fd, struct ipc_sockopt *inout_option);

/**
 * Ask for the memory of a pair end (path.h).
 * @param ret_memfd  the memory if it is granted (the caller's then, with FD_CLOEXEC), else -1
 * @return 0, or a negative errno: the daemon is gone, does not know the connection (any more), or
 *         knows nothing of this
 */
int pre_ask_memory(int fd, struct ipc_memory *ret_answer, int *ret_memfd);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file pair.h
 * The Unix stream socket pair that stands between a program and the daemon in place of its TCP
 * socket: one end is the program's, this is the other.
 *
 * The rule of the kept byte: while the pair is open, at least one byte that the program wrote (at
 * first: one that we wrote in its name) stays unread in the daemon's end. The kernel then reports
 * ECONNRESET to every reader of the program's end when the daemon dies, after what was delivered
 * before; with nothing unread it would report end of file. Bytes are therefore forwarded by peeking
 * beyond the ones forwarded before (`ahead`, kept equal to SO_PEEK_OFF), and dropped later.
 *
 * Urgent bytes (MSG_OOB) go through the pair as such in both directions: the kernel gives programs
 * SIGURG, POLLPRI, recv(MSG_OOB), SO_OOBINLINE and SIOCATMARK as on TCP. The daemon's end has them
 * in line, so that each is taken where it stands in the stream.
 *
 * Readiness is edge-triggered: wait for an event only after a call has said that there is nothing.
 */
#ifndef SMCRD_DAEMON_CONNS_PAIR_H
#define SMCRD_DAEMON_CONNS_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "proto/ipc/ipc.h"

struct pair {
	int fd;                  /* the daemon's end, non-blocking; -1: none */
	uint64_t program_cookie; /* of the program's end: proof of a descriptor shown to us */
	uint32_t ahead;  /* bytes at the head of the queue that are forwarded (or the plug) */
	uint32_t slack;  /* forwarded bytes that may stay queued without starving the program */
	uint32_t queued; /* reads since bytes were dropped: their messages may be queued */
	int one_byte;    /* what the kernel charges the program for a write of one byte */
	bool bulk;    /* the program writes much at once: ask how much, then read instead of peek */
	bool drained; /* after pair_read(): nothing was left; more comes with an event */
	bool unread;  /* the program closed its end with delivered bytes unread */
	bool urgent;  /* after pair_read(): it gave one byte, which is urgent */
	bool marked;  /* there may be an urgent byte in the queue */
	bool wide;    /* pair_make_way() has made room */
	bool narrow;  /* pair_narrow() was called */
};

/**
 * Make a pair whose program's end is bound to the name. The daemon's end has none, so that
 * recvfrom() and recvmsg() give the program no address, as on TCP.
 * @param plug_fd  -1, or a file of zeros of at least 1 MiB: the program's end is made unwritable
 *                 until pair_unplug(). The file's pages are referenced, not copied.
 * @param ret_program_fd  the program's end, close-on-exec and non-blocking
 * @return 0; -EADDRINUSE (the name is taken: choose another id); another negative errno
 */
int pair_open(const struct ipc_pair_name *name, int plug_fd, struct pair *ret_pair,
	      int *ret_program_fd);

/** The kernel's number of a socket (SO_COOKIE): the same for all descriptors of it, and never given
 *  to another one, in any network namespace. @return 0 or a negative errno */
int pair_cookie(int fd, uint64_t *ret_cookie);

/** A file for `plug_fd`, close-on-exec. @return descriptor or negative errno */
int pair_plug_file(void);

/** Make a plugged program's end writable, with a wake-up. */
void pair_unplug(struct pair *pair);

/** Enlarge what the program may have queued, which plugged pairs start small with, at a chance when
 *  its end (or a copy) is at hand. */
void pair_widen(struct pair *pair, int program_fd);

/**
 * The program writes into memory beside the pair (docs/data-path.md): keep nothing in the queue but
 * the kept byte, and let the program queue little, so that it comes back to the memory soon.
 * @param program_fd  its end, or a copy
 */
void pair_narrow(struct pair *pair, int program_fd);

/** What the kernel charges the program for a message of one byte, if nothing else is queued. */
uint32_t pair_least_charge(const struct pair *pair);

/** Is anything in the pair that the program has not read? */
bool pair_unread(const struct pair *pair);

/**
 * Take bytes that the program wrote; the last of them stays in the queue. Call pair_settle() when
 * they have been passed on. An urgent byte comes alone, with `pair->urgent` set. Of two that wait
 * at once the newer is the urgent one, as in TCP.
 * @param iov  at most 2 segments, not all empty
 * @return bytes taken; 0: the program writes no more and all was taken; -EAGAIN: none now
 */
ssize_t pair_read(struct pair *pair, const struct iovec *iov, int iovcnt);

/** Drop from the queue what was passed on, but for the kept byte. */
void pair_settle(struct pair *pair);

/** Bytes written by the program that pair_read() has not taken yet. */
size_t pair_pending(const struct pair *pair);

/** Is an urgent byte among those? */
bool pair_urgent_pending(struct pair *pair);

/**
 * Deliver bytes to the program.
 * @return bytes taken by the kernel; -EAGAIN: no room now; -ENOBUFS: no memory now, no event will
 *         tell when; -EPIPE: the program reads no more (its end is closed or shut down for reading)
 */
ssize_t pair_write(struct pair *pair, const struct iovec *iov, int iovcnt);

/** Deliver one urgent byte. @return 1, or an error as of pair_write() */
ssize_t pair_write_urgent(struct pair *pair, const void *byte);

/**
 * An urgent byte is on its way, or waits behind others, and the pair is full: make room, so that
 * the program hears of it before it has read what stands before it (URG-4).
 * @return false: there is as much room as there will be
 */
bool pair_make_way(struct pair *pair);
/** It has been delivered: as before, once the program has read what is too much. */
void pair_end_way(struct pair *pair);

/** End of file for the program, after what was delivered. The pair stays open. */
void pair_shutdown(struct pair *pair);

/**
 * Has the program closed its end for good, or has the stream ended in both directions? Then
 * `pair->unread` tells whether it left bytes unread that were delivered to it.
 */
bool pair_closed(struct pair *pair);

/** Orderly end: the program reads what was delivered, then end of file. Nothing if fd is -1. */
void pair_finish(struct pair *pair);
/** Abnormal end after the program was given the stream's end: what it writes from now on fails
 * (EPIPE), and it still reads what was delivered, then end of file, as from a TCP socket. */
void pair_refuse(struct pair *pair);
/** Abnormal end: the program reads what was delivered, then gets ECONNRESET. */
void pair_reset(struct pair *pair);

#endif

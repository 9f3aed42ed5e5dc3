/* SPDX-License-Identifier: MIT */
/**
 * @file pair.h
 * The Unix stream socket pair between a program and the daemon. The program has one end in place of
 * its TCP socket; struct pair is the daemon's end.
 *
 * The rule of the kept byte: while the pair is open, at least one byte that the program wrote stays
 * unread in the daemon's end. (The first one pair_open() writes in the program's name.) If the
 * daemon dies, the kernel then gives every reader of the program's end ECONNRESET after the
 * delivered bytes. With nothing unread it would give end of file. So the daemon reads by peeking,
 * and drops the bytes that it has forwarded (`ahead`) later.
 *
 * Urgent bytes (MSG_OOB) pass through the pair as urgent bytes in both directions. So programs get
 * SIGURG, POLLPRI, recv(MSG_OOB), SO_OOBINLINE and SIOCATMARK from the kernel, as on TCP. The
 * daemon's end has SO_OOBINLINE set, so that it reads an urgent byte at its place in the stream.
 *
 * Readiness is edge-triggered: wait for an event only after a call has found nothing. Pass each
 * event to pair_note().
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
	int fd;         /* the daemon's end, non-blocking; -1: none */
	int program_fd; /* while plugged, until pair_let_go(): the program's end; else -1 */
	uint64_t
		program_cookie; /* SO_COOKIE of the program's end, to recognise descriptors of it */
	uint32_t ahead;  /* bytes at the head of the queue that were forwarded, or are the plug */
	uint32_t slack;  /* forwarded bytes that may stay queued without stopping the program */
	uint32_t queued; /* reads since bytes were dropped: at most so many messages are queued */
	int one_byte;    /* what the kernel charges the program for a write of one byte */
	bool bulk;    /* the program writes much at once: read after FIONREAD instead of peeking */
	bool drained; /* after pair_read(): all was read; an event will tell of more */
	bool unread;  /* the program closed its end with delivered bytes unread */
	bool urgent;  /* after pair_read(): it returned one byte, which is urgent */
	bool marked;  /* there may be an urgent byte in the queue */
	bool ended;   /* the program writes no more; what it wrote may still be in the queue */
	bool shut; /* the program shut writing down before it closed its end, if it has closed it */
	bool wide; /* pair_make_way() has enlarged the queue to the program */
	bool narrow; /* pair_narrow() was called */
};

/**
 * Make a pair and bind the program's end to `name`. The daemon's end has no name, so recvfrom() and
 * recvmsg() give the program no address, as on TCP.
 * @param name     NULL: the program's end has no name either
 * @param plug_fd  -1, or a file of zeros of at least 1 MiB: the program's end is made unwritable
 *                 until pair_unplug(). The file's pages are referenced, not copied.
 * @param ret_program_fd  the program's end, close-on-exec and non-blocking
 * @return 0; -EADDRINUSE (the name is taken: choose another id); another negative errno
 */
int pair_open(const struct ipc_pair_name *name, int plug_fd, struct pair *ret_pair,
	      int *ret_program_fd);

/** The kernel's number of a socket (SO_COOKIE). All descriptors of the socket have the same one,
 * and no other socket of any network namespace ever gets it. @return 0 or a negative errno */
int pair_cookie(int fd, uint64_t *ret_cookie);

/** A file for `plug_fd`, close-on-exec. @return descriptor or negative errno */
int pair_plug_file(void);

/** Make a plugged program's end writable, with a wake-up: the program may send now (GEN-6). Its
 * queue gets the usual size, unless pair_let_go() was called before. */
void pair_unplug(struct pair *pair);

/** Close the daemon's descriptor of the program's end. As long as the daemon has one, it does not
 * see that the program closes. */
void pair_let_go(struct pair *pair);

/** Enlarge the queue of the program's end to its usual size. A plugged pair starts with a small
 * one, and without `program_fd` it can only be enlarged when somebody shows a descriptor. */
void pair_widen(struct pair *pair, int program_fd);

/**
 * The program starts to use shared memory (docs/data-path.md). From now on only the kept byte stays
 * queued, and the program may queue little in the pair, so that it returns to the memory soon.
 * @param program_fd  a descriptor of the program's end
 */
void pair_narrow(struct pair *pair, int program_fd);

/** What SIOCOUTQ of the program's end gives when a message of one byte is all that is queued; 0:
 * unknown */
uint32_t pair_least_charge(const struct pair *pair);

/** Has the pair bytes that the program has not read? */
bool pair_unread(const struct pair *pair);

/** An event of epoll came for `pair->fd`. pair_read() learns from it of urgent bytes and of the
 * end. */
void pair_note(struct pair *pair, uint32_t events);

/** Has the program shut writing down? Once it has closed its end nobody can tell, so this is called
 * while a descriptor of that end is at hand. */
void pair_look_if_shut(struct pair *pair);

/**
 * Read bytes that the program wrote; the last one stays in the queue as the kept byte. Call
 * pair_settle() when the bytes have been passed on. An urgent byte is returned alone, with
 * `pair->urgent` set. If two urgent bytes wait, the newer one is urgent and the older one data, as
 * with TCP.
 * @param iov  at most 2 segments, not all empty
 * @return the number of bytes; 0: the program writes no more and everything was read; -EAGAIN:
 *         nothing now
 */
ssize_t pair_read(struct pair *pair, const struct iovec *iov, int iovcnt);

/** Drop bytes that were passed on, except for the kept byte, if too many of them are queued. */
void pair_settle(struct pair *pair);

/** How many bytes the program wrote that pair_read() has not returned yet. */
size_t pair_pending(const struct pair *pair);

/** Is an urgent byte among the bytes that pair_read() has not returned yet? */
bool pair_urgent_pending(struct pair *pair);

/**
 * Deliver bytes to the program.
 * @return bytes taken by the kernel; -EAGAIN: the queue is full; -ENOBUFS: the kernel has no
 *         memory, and no event will tell when it has; -EPIPE: the program reads no more (its end is
 *         closed or shut down for reading)
 */
ssize_t pair_write(struct pair *pair, const struct iovec *iov, int iovcnt);

/** Deliver one urgent byte. @return 1, or an error as from pair_write() */
ssize_t pair_write_urgent(struct pair *pair, const void *byte);

/**
 * The pair is full, and an urgent byte is on its way or waits behind other bytes. Enlarge the
 * queue, so that the program hears of the urgent byte before it has read what stands before it
 * (URG-4, A57).
 * @return false: the queue cannot be enlarged further
 */
bool pair_make_way(struct pair *pair);
/** The urgent byte was delivered: give the queue its usual size again. Bytes beyond that stay
 * queued until the program reads them. */
void pair_end_way(struct pair *pair);

/** Give the program end of file behind the delivered bytes. The pair stays open. */
void pair_shutdown(struct pair *pair);

/**
 * Have all descriptors of the program's end been closed, or has the stream ended in both
 * directions? If so, `pair->unread` tells whether the program left delivered bytes unread.
 */
bool pair_closed(struct pair *pair);

/** Orderly end: the program reads what was delivered, then end of file. Nothing if fd is -1. */
void pair_finish(struct pair *pair);
/** Abnormal end after the program was given end of file. Its writes fail from now on (EPIPE). It
 * can still read the delivered bytes and then end of file, as from a TCP socket. */
void pair_refuse(struct pair *pair);
/** Abnormal end: the program reads what was delivered, then gets ECONNRESET. */
void pair_reset(struct pair *pair);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file pre_daemon.h
 * A daemon for tests of the preload library. It is a process of its own, speaks proto/ipc on a Unix
 * socket, gives out pair ends (plugged, with the kept byte) and relays between them and the TCP
 * sockets that it gets. The test writes into shared memory how the daemon answers; the daemon
 * counts there.
 */
#ifndef SMCRD_TESTS_LIB_PRE_DAEMON_H
#define SMCRD_TESTS_LIB_PRE_DAEMON_H

#include <stdatomic.h>
#include <sys/types.h>

enum pre_daemon_answer {
	ANSWER_PAIR, /* the right answer for the kind of hand-over */
	ANSWER_OPEN, /* the same, but OPEN where connect() waits */
	ANSWER_TCP,
	ANSWER_FAILED,       /* with `error` */
	ANSWER_ERROR,        /* ERROR frame with `error` */
	ANSWER_GARBAGE,      /* bytes that are no frame */
	ANSWER_WRONG_TYPE,   /* a well-formed frame of another type */
	ANSWER_NO_FD,        /* PAIR without a descriptor */
	ANSWER_WRONG_FD,     /* PAIR with a pipe */
	ANSWER_HANG_UP,      /* close the session */
	ANSWER_DIE,          /* end the process */
	ANSWER_OTHER_VERSION /* HELLO with a version that was not offered */
};

/** All zero at the start. */
struct pre_daemon_script {
	/* Written by the test. */
	_Atomic int answer;    /* enum pre_daemon_answer, to hand-overs */
	_Atomic int error;     /* positive errno */
	_Atomic int reason;    /* enum smcr_reason, with ANSWER_TCP and `fallback` */
	_Atomic int hold;      /* non-zero: no rendezvous ends */
	_Atomic int fallback;  /* non-zero: rendezvous end in RELAY instead of SMCR */
	_Atomic int take_back; /* non-zero: give TCP sockets back where that is allowed */
	_Atomic int dribble;   /* non-zero: answers are sent byte by byte */
	_Atomic int nameless;  /* non-zero: pair ends have no name */
	_Atomic int stayed;    /* enum smcr_reason: why sockets that stayed TCP have done so */
	_Atomic int
		memory; /* enum ipc_memory_outcome, never GRANTED; 0: such requests are unknown */
	/* Counted by the daemon. */
	_Atomic int sessions, connected, connecting, accepted, status_requests, may_take_back;
	_Atomic int sockopts, disconnects, taken_back, conns, last_flags, info_requests, info_waits;
	_Atomic int memory_requests;
};

struct pre_daemon {
	pid_t pid;
	char dir[32];
	char path[64];
	struct pre_daemon_script *script;
};

/** The number in the daemon's abstract address. It listens at the address without one, too. */
#define PRE_DAEMON_NUMBER 0x5ca1ab1e0ddba11ull

/** Start a daemon and point SMCRD_SOCKET at it. Fails the test program on error. The daemon ends
 *  with the test program, however that ends. */
void pre_daemon_start(struct pre_daemon *ret_daemon);
/** Kill the daemon and remove its files. */
void pre_daemon_stop(struct pre_daemon *daemon);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file pre_daemon.h
 * A daemon for tests of the preload library: a process of its own that speaks proto/ipc on a Unix
 * socket, gives out pair ends (plugged, with the kept byte) and relays between them and the TCP
 * sockets it gets. What it answers is written in shared memory by the test, where it also counts.
 */
#ifndef SMCRD_TESTS_LIB_PRE_DAEMON_H
#define SMCRD_TESTS_LIB_PRE_DAEMON_H

#include <stdatomic.h>
#include <sys/types.h>

enum pre_daemon_answer {
	ANSWER_PAIR, /* as the kind of hand-over asks */
	ANSWER_OPEN, /* the same, with OPEN where connect() waits */
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
	_Atomic int take_back; /* non-zero: give TCP sockets back where that may be */
	_Atomic int dribble;   /* non-zero: answers are sent byte by byte */
	_Atomic int stayed;    /* enum smcr_reason: what it knows of TCP sockets that stayed TCP */
	/* Counted by the daemon. */
	_Atomic int sessions, connected, connecting, accepted, status_requests, may_take_back;
	_Atomic int sockopts, disconnects, taken_back, conns, last_flags, info_requests, info_waits;
};

struct pre_daemon {
	pid_t pid;
	char dir[32];
	char path[64];
	struct pre_daemon_script *script;
};

/** Start one and point SMCRD_SOCKET at it. Fails the test program on error. It ends with the test
 *  program, however that ends. */
void pre_daemon_start(struct pre_daemon *ret_daemon);
/** Kill it and remove what it left. */
void pre_daemon_stop(struct pre_daemon *daemon);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file path_daemon.h
 * The daemon's side of one connection with shared memory (docs/data-path.md), as a thread of the
 * test program. What the program writes comes out at `peer`, an ordinary socket, and what is
 * written to `peer` comes to the program.
 */
#ifndef SMCRD_TESTS_LIB_PATH_DAEMON_H
#define SMCRD_TESTS_LIB_PATH_DAEMON_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "proto/ipc/ipc.h"
#include "proto/path/receive.h"
#include "proto/path/send.h"

struct path_daemon {
	int program; /* the program's end of the pair; the test closes it */
	int peer;    /* for the test to use; path_daemon_stop() closes it */
	int memfd;
	struct ipc_memory granted;
	struct path_page *page;

	/* What this daemon has seen. */
	_Atomic uint64_t forwarded, from_pair, from_memory, takeovers, protocol_errors;
	_Atomic bool asleep;

	/* For path_daemon.c alone. */
	pthread_t thread;
	uint8_t *memory;
	int pair, wire, epoll, wake;
	struct path_rx rx;
	struct path_tx tx;
	uint8_t *own; /* send buffer after a takeover */
	uint64_t own_at, own_to;
	uint32_t head;      /* bytes that are forwarded at once */
	uint64_t waited_ns; /* since when the daemon has waited for a reader at work */
	uint64_t lock_ns;   /* since when it has waited for a writer */
	bool wire_full, wire_ended, pair_ended, shut;
	bool killed;
	_Atomic bool stop;
};

/** Start the daemon.
 *  @param ring         size of either ring
 *  @param eye_catcher  the ring of received bytes begins 4 bytes into a page, as in the RFC's
 *                      dialect */
void path_daemon_start(struct path_daemon *daemon, uint32_t ring, bool eye_catcher);
/** The daemon dies: the pair is closed with the kept byte unread. */
void path_daemon_stop(struct path_daemon *daemon);
/** The same, and the daemon does not end the path: nobody changes the memory any more. */
void path_daemon_kill(struct path_daemon *daemon);
/** Wait until the daemon sleeps. */
void path_daemon_await_sleep(struct path_daemon *daemon);

#endif

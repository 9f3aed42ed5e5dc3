/* SPDX-License-Identifier: MIT */
/**
 * @file pump.h
 * Moves bytes between a program's pair and an engine connection. It has no buffer: bytes go from
 * the pair straight into the send buffer, and from the RMBE straight into the pair. Urgent bytes
 * stay urgent (RFC 7609 4.7.5, 4.7.6).
 *
 * What the program does becomes CLOSE and ABORT (RFC 7609 4.8). shutdown(WR) becomes
 * smcr_conn_shutdown(), close() and death become smcr_conn_close(), in both cases after all bytes
 * that the program wrote were taken.
 */
#ifndef SMCRD_DAEMON_CONNS_PUMP_H
#define SMCRD_DAEMON_CONNS_PUMP_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/conns/pair.h"
#include "daemon/smcr/engine.h"

struct shared;

struct pump {
	struct pair *pair;
	/** NULL once the engine has let go of the connection. The owner of the pump sets NULL at
	 * the engine's events, which may come inside any engine call of the pump. */
	struct smcr_conn *conn;
	struct shared *shared; /* not NULL: the program has mapped the connection's memory */
	bool linger_reset;     /* the program set SO_LINGER {1,0}: its close() aborts */

	bool tx_ready;     /* the pair may have bytes of the program */
	bool tx_full;      /* the send buffer takes nothing until the engine tells WRITABLE */
	bool rx_ready;     /* the engine may have bytes or the end of the stream for the program */
	bool rx_full;      /* the pair has no room: the owner watches it for EPOLLOUT */
	bool urgent_waits; /* an urgent byte in the send buffer waits for the one before (URG-8) */
	bool write_ended;  /* the program has shut down writing, closed, or died */
	bool closed;       /* the program has closed or died, or both directions have ended */
	bool tx_ended;     /* smcr_conn_shutdown() was called */
	bool rx_ended;     /* end of file was passed on */
	bool deaf; /* the program reads no more but has not closed: bytes that arrive are dropped */
	bool closing;  /* smcr_conn_close() or _abort() was called: the pump does nothing more */
	bool rx_later; /* the kernel had no memory to deliver a head: try again */
	/** The program has broken the protocol of shared memory: its connection is to be reset. The
	 * pump does nothing more. */
	bool violated;
	uint64_t tx_bytes, rx_bytes;
};

/** Note events of the pair (EPOLL bits). 0: look at both directions, whether or not there was an
 * event. Call pump_run() afterwards. */
void pump_note(struct pump *pump, uint32_t events);
/** Note events of the engine: READABLE or URGENT, and WRITABLE. Call pump_run() afterwards. */
void pump_note_readable(struct pump *pump);
void pump_note_writable(struct pump *pump);

/**
 * Move what can be moved, up to a bound so that other connections get their turn. Call it after
 * every event of the pair and of the engine, between ESTABLISHED and the end, where engine calls
 * are allowed.
 * @return true: there is more to do; call again after other connections had their turn
 */
bool pump_run(struct pump *pump);

/** Account for what the program did in shared memory, and move nothing. Call pump_run()
 * afterwards. */
void pump_look(struct pump *pump);

/** For the engine's RESET event: deliver bytes that arrived before the reset, as far as the pair
 * has room, and end of file behind them if they are `all`. A TCP socket would do so too.
 */
void pump_last(struct pump *pump, bool all);

#endif

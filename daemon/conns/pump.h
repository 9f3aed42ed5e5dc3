/* SPDX-License-Identifier: MIT */
/**
 * @file pump.h
 * Moves bytes between a program's pair and an engine connection: no buffer of its own, from the
 * pair straight into the connection's send buffer and from the RMB element straight into the pair.
 * Urgent bytes stay urgent on the way (RFC 7609 4.7.5, 4.7.6).
 *
 * What the program does becomes CLOSE and ABORT (RFC 7609 4.8): shutdown(WR) smcr_conn_shutdown(),
 * close() or death smcr_conn_close(), both after everything that it wrote was taken.
 */
#ifndef SMCRD_DAEMON_CONNS_PUMP_H
#define SMCRD_DAEMON_CONNS_PUMP_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/conns/pair.h"
#include "daemon/engine/engine.h"

struct shared;

struct pump {
	struct pair *pair;
	/** NULL once the engine has let go of it: its owner resets this from the engine's events,
	 *  which may come inside any engine call made here. */
	struct smcr_conn *conn;
	struct shared *shared; /* NULL, or the program has mapped the connection's memory */
	bool linger_reset;     /* the program set SO_LINGER {1,0}: its close() aborts */

	bool tx_ready;     /* the pair may have bytes for us */
	bool tx_full;      /* the engine takes nothing, as long as it does not say otherwise */
	bool rx_ready;     /* the engine may have bytes, or the end, for the program */
	bool rx_full;      /* the pair has no room: the owner watches it for EPOLLOUT */
	bool urgent_waits; /* an urgent byte is in the send buffer; an earlier one is not consumed
			      yet */
	bool write_ended;  /* the program writes no more, or is gone */
	bool closed;       /* it is gone, or the stream has ended in both directions */
	bool tx_ended;     /* smcr_conn_shutdown() was called */
	bool rx_ended;     /* end of file was passed on */
	bool deaf;     /* the program reads no more but did not close: what arrives is dropped */
	bool closing;  /* smcr_conn_close() or _abort() was called: the pump is at rest */
	bool rx_later; /* the kernel had no memory */
	/** The program has written nonsense into the memory: reset it. The pump is at rest. */
	bool violated;
	uint64_t tx_bytes, rx_bytes;
};

/** Note readiness of the pair: EPOLL bits, or 0 to look at both directions whatever is known of
 *  them. Call pump_run() afterwards. */
void pump_note(struct pump *pump, uint32_t events);
/** The same of the engine: it told READABLE or URGENT, or WRITABLE. */
void pump_note_readable(struct pump *pump);
void pump_note_writable(struct pump *pump);

/**
 * Move what can be moved, up to a bound for the sake of others. Call it after every event of the
 * pair and of the engine, between ESTABLISHED and the end; engine calls must be allowed.
 * @return true if there is more to do at once: call again after others had their turn
 */
bool pump_run(struct pump *pump);

/** See what has happened in memory that is shared, and move nothing. Call pump_run() afterwards. */
void pump_look(struct pump *pump);

/** Within RESET: the program gets what came before it, as far as it has room, as from a TCP socket.
 */
void pump_last(struct pump *pump);

#endif

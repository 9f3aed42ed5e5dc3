/* SPDX-License-Identifier: MIT */
/**
 * @file relay.h
 * After a fallback with the pair end already in the program's hands: bytes between the pair and the
 * TCP connection, with end of file, half close, urgent bytes and reset passed on as TCP would show
 * them.
 */
#ifndef SMCRD_DAEMON_CONNS_RELAY_H
#define SMCRD_DAEMON_CONNS_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/conns/pair.h"

/** Bytes that one side gave and the other has not taken yet. */
struct relay_rest {
	uint8_t *data; /* NULL: none */
	size_t at, len;
	bool urgent; /* its last byte is */
};

struct relay {
	struct pair *pair;
	int tcp;           /* not closed here */
	bool linger_reset; /* the program set SO_LINGER {1,0} */

	bool tx_ready;   /* the pair may have bytes */
	bool tx_full;    /* TCP has no room */
	bool rx_ready;   /* TCP may have bytes */
	bool rx_full;    /* the pair has no room: the owner watches it for EPOLLOUT */
	bool urgent;     /* TCP may have an urgent byte */
	bool closed;     /* the program is gone, or the stream has ended in both directions */
	bool tcp_failed; /* a send failed: end of file on TCP means reset */
	bool tx_ended;   /* FIN was sent */
	bool rx_ended;   /* end of file was passed to the program */
	bool deaf;       /* the program reads no more but did not close: what arrives is dropped */
	struct relay_rest tx_rest, rx_rest;
	uint64_t tx_bytes, rx_bytes; /* taken from the program; from TCP */
};

enum relay_result {
	RELAY_WAIT,     /* an event will tell when there is more to do */
	RELAY_MORE,     /* call again after others had their turn */
	RELAY_FINISHED, /* both directions are over: close TCP with FIN, the pair with pair_finish()
			 */
	RELAY_ABORTED,  /* the program closed with data unread: reset TCP */
	RELAY_RESET,    /* TCP was reset, everything received is delivered: pair_reset() */
};

/** Start with nothing passed: both sides are looked at by the first relay_run(). SO_OOBINLINE is
 * set on the TCP socket, and SO_RCVLOWAT is 1. */
void relay_start(struct relay *relay, struct pair *pair, int tcp);
/** Free what has not been passed on. */
void relay_stop(struct relay *relay);

/** Note readiness: EPOLL bits of the pair or of TCP, which is watched for EPOLLPRI too. Call
 *  relay_run() afterwards. */
void relay_note_pair(struct relay *relay, uint32_t events);
void relay_note_tcp(struct relay *relay, uint32_t events);

/** Move what can be moved, up to a bound for the sake of others. */
enum relay_result relay_run(struct relay *relay);

/** Has no byte and no end of file passed in either direction, and is none of the program's waiting?
 *  Then the TCP socket is as good as new. */
bool relay_untouched(const struct relay *relay);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file relay.h
 * Moves bytes between the pair and the TCP connection after a fallback, if the program has its pair
 * end already. End of file, half close, urgent bytes and resets are passed on as TCP would show
 * them.
 */
#ifndef SMCRD_DAEMON_CONNS_RELAY_H
#define SMCRD_DAEMON_CONNS_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/conns/pair.h"

/** Bytes that were read from one side and that the other side has not taken yet. */
struct relay_rest {
	uint8_t *data; /* NULL: none */
	size_t at, len;
	bool urgent; /* the last byte is urgent */
};

struct relay {
	struct pair *pair;
	int tcp;           /* closed by the owner of the relay */
	bool linger_reset; /* the program set SO_LINGER {1,0} */

	bool tx_ready;   /* the pair may have bytes */
	bool tx_full;    /* TCP has no room */
	bool rx_ready;   /* TCP may have bytes */
	bool rx_full;    /* the pair has no room: the owner watches it for EPOLLOUT */
	bool urgent;     /* TCP may have an urgent byte */
	bool closed;     /* the program has closed or died, or both directions have ended */
	bool tcp_failed; /* a send failed: end of file on TCP means reset from now on */
	int error;       /* positive errno with which TCP has ended; 0: it has not, or by EPIPE */
	bool tx_ended;   /* FIN was sent */
	bool rx_ended;   /* end of file was passed to the program */
	bool deaf; /* the program reads no more but has not closed: bytes that arrive are dropped */
	struct relay_rest tx_rest, rx_rest;
	uint64_t tx_bytes, rx_bytes; /* read from the pair; read from TCP */
};

enum relay_result {
	RELAY_WAIT,     /* an event will tell when there is more to do */
	RELAY_MORE,     /* call again after other connections had their turn */
	RELAY_FINISHED, /* both directions have ended: send FIN, pair_finish() */
	RELAY_ABORTED,  /* the program closed with data unread: reset TCP */
	RELAY_RESET,    /* TCP was reset and all received bytes are delivered: pair_reset() */
};

/** Start; the first relay_run() looks at both sides. Sets SO_OOBINLINE on the TCP socket, and
 * SO_RCVLOWAT to 1. */
void relay_start(struct relay *relay, struct pair *pair, int tcp);
/** Free bytes that have not been passed on. */
void relay_stop(struct relay *relay);

/** Note events (EPOLL bits) of the pair, or of TCP. TCP has to be watched for EPOLLPRI too. Call
 * relay_run() afterwards. */
void relay_note_pair(struct relay *relay, uint32_t events);
void relay_note_tcp(struct relay *relay, uint32_t events);

/** Move what can be moved, up to a bound so that other connections get their turn. */
enum relay_result relay_run(struct relay *relay);

/** TCP was reset, and the program has not read all that came before. */
bool relay_reset_waits(const struct relay *relay);
/** Has the program written bytes that nobody takes any more? Its write() may wait for that. */
bool relay_writer_waits(const struct relay *relay);

/** How many of the program's bytes the peer's TCP has taken. */
uint64_t relay_sent(const struct relay *relay);

/** Has neither a byte nor end of file passed in either direction, and has the program written
 * nothing? Then the TCP socket can be given back as it was. */
bool relay_untouched(const struct relay *relay);

#endif

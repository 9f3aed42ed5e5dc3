/* SPDX-License-Identifier: MIT */
/**
 * @file tcp.h
 * A fake TCP connection: two ordered byte pipes with delay and random segmentation, FIN and RST.
 */
#ifndef SMCRD_TESTS_SIM_TCP_H
#define SMCRD_TESTS_SIM_TCP_H

#include "tests/sim/world.h"

struct side;

/** One direction. Counters are positions in the byte stream. The ring holds taken..written. */
struct tcp_pipe {
	struct world *world;
	struct tcp *tcp;
	struct side *from, *to;
	uint8_t *ring;
	size_t cap;
	uint64_t written, sent, arrived, taken;
	bool fin, fin_sent, fin_arrived;
	bool flush_pending;
	uint64_t last_arrival;
	uint32_t delay; /* added to the random delay of each segment */
};

struct tcp {
	struct tcp_pipe pipe[2]; /* by the index of the sending side */
	bool dead;               /* reset by one end: nothing flows any more */
};

void tcp_init(struct tcp *tcp, struct world *w, struct side *client, struct side *server);
void tcp_free(struct tcp *tcp);
/** Bytes that the pipe takes without running over the window. */
size_t tcp_space(const struct tcp_pipe *pipe);
/** Queue bytes (also beyond the window). They are lost silently when the connection is dead. */
void tcp_write(struct tcp_pipe *pipe, const uint8_t *data, size_t len);
/** Number of bytes that have arrived and were not taken. */
size_t tcp_readable(const struct tcp_pipe *pipe);
/** Copy the next `len` bytes, at most tcp_readable(). tcp_peek() leaves them in the pipe,
 *  tcp_take() removes them. */
void tcp_peek(const struct tcp_pipe *pipe, uint8_t *buf, size_t len);
void tcp_take(struct tcp_pipe *pipe, uint8_t *buf, size_t len);
/** Send a FIN: no byte follows. */
void tcp_finish(struct tcp_pipe *pipe);
/** RST from side `from`: both pipes end, the other side is told. */
void tcp_reset(struct tcp *tcp, int from);

#endif

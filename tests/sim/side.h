/* SPDX-License-Identifier: MIT */
/** @file side.h One end of a connection, for app.c and pair.c. */
#ifndef SMCRD_TESTS_SIM_SIDE_H
#define SMCRD_TESTS_SIM_SIDE_H

#include "tests/sim/app.h"

static inline struct tcp_pipe *side_out(struct side *side)
{
	return &side->pair->tcp.pipe[side->index];
}

static inline struct tcp_pipe *side_in(struct side *side)
{
	return &side->pair->tcp.pipe[!side->index];
}

/** May the program read, write and close? */
static inline bool side_open(const struct side *side)
{
	return !side->world->failed && !side->closed && !side->aborted && !side->reset &&
	       (side->mode == SIDE_TCP || (side->mode == SIDE_SMC && side->conn));
}

const char *side_name(const struct side *side);
/** Let the program act: soon, or at `when` at the latest. */
void side_wake(struct side *side);
void side_wake_at(struct side *side, uint64_t when);
void side_step(struct side *side);

/* Calls of the program. */
void side_shutdown(struct side *side);
void side_close(struct side *side);
void side_abort(struct side *side);

#endif

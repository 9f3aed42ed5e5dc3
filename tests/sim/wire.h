/* SPDX-License-Identifier: MIT */
/** @file wire.h How posted requests travel, execute and complete. For fabric.c. */
#ifndef SMCRD_TESTS_SIM_WIRE_H
#define SMCRD_TESTS_SIM_WIRE_H

#include "tests/sim/fabric.h"

/** Take one request; there is room. */
void wire_post(struct qp *qp, const struct smcr_wr *wr);
/** Request `number` and what it covers are done as far as the poster is concerned.
 *  @return its wr_id */
uint64_t wire_done(struct qp *qp, uint64_t number);
/** A SEND arrives on the QP that its peer did not post. */
void wire_inject(struct qp *qp, const uint8_t *data, uint32_t len);
/** Everything that arrived on the host's QPs before that message, in order. */
void wire_hand_in(struct host *host, uint64_t before);
/** Everything that has completed on the host's QPs is reported. */
void wire_poll(struct host *host);
/** The QP is about to end: some of what is under way may still reach the peer. */
void wire_land_some(struct qp *qp);
/** The QP is in error: what is left completes as flushed, later. */
void wire_flush(struct qp *qp);
/** The poster takes what it has no completion of for lost. */
void wire_forget(struct qp *qp);
/** What its queues hold is freed. */
void wire_free(struct qp *qp);
/** The QP is gone: perhaps an input for it comes late, which the engine has to ignore. */
void wire_gone(struct qp *qp);

#endif

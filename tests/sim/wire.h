/* SPDX-License-Identifier: MIT */
/** @file wire.h How posted requests travel, execute and complete. For fabric.c. */
#ifndef SMCRD_TESTS_SIM_WIRE_H
#define SMCRD_TESTS_SIM_WIRE_H

#include "tests/sim/fabric.h"

/** Post one request. The caller has checked that the send queue can take it. */
void wire_post(struct qp *qp, const struct smcr_wr *wr);
/** The poster sees request `number` complete, and with it all earlier ones.
 *  @return wr_id of the request */
uint64_t wire_done(struct qp *qp, uint64_t number);
/** A SEND arrives on the QP that the peer has not posted. */
void wire_inject(struct qp *qp, const uint8_t *data, uint32_t len);
/** Hand in everything that arrived on the host's QPs before message number `before`, in order. */
void wire_hand_in(struct host *host, uint64_t before);
/** Report everything that has completed on the host's QPs. */
void wire_poll(struct host *host);
/** The QP is about to end: some of its requests may still reach the peer. */
void wire_land_some(struct qp *qp);
/** The QP is in error: its remaining requests complete as flushed, later. */
void wire_flush(struct qp *qp);
/** The poster takes all requests without a completion for lost. */
void wire_forget(struct qp *qp);
/** Free what the QP's queues hold. */
void wire_free(struct qp *qp);
/** The QP is gone: sometimes an input for it still comes, which the engine has to ignore. */
void wire_gone(struct qp *qp);

#endif

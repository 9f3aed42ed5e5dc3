/* SPDX-License-Identifier: MIT */
/**
 * @file observer.h
 * The observer reads every CLC, LLC and CDC message and watches every WRITE. From these it knows
 * what each side knows, and checks what each side does against RFC 7609. It does not look into the
 * engines: it judges by the messages, the fabric and the programs alone.
 */
#ifndef SMCRD_TESTS_SIM_OBSERVER_H
#define SMCRD_TESTS_SIM_OBSERVER_H

#include "tests/sim/app.h"
#include "tests/sim/fabric.h"
#include "tests/sim/witness.h"

struct observer *obs_new(struct world *w);
void obs_free(struct observer *obs);
/** The situations that have come up so far. */
const struct witnesses *obs_seen(const struct observer *obs);
/** A situation has come up. */
void obs_see(struct observer *obs, enum witness what);

/* CLC messages, when they are sent and when the engine gets them. */
void obs_clc_send(struct observer *obs, struct side *side, const uint8_t *msg, size_t len);
void obs_clc_recv(struct observer *obs, struct side *side, const uint8_t *msg, size_t len);

/* RDMA requests, when they are posted, land, are handed to the receiver, and complete. */
void obs_post(struct observer *obs, struct qp *qp, struct request *req);
void obs_write_lands(struct observer *obs, struct qp *qp, struct request *req, struct mr *mr,
		     size_t offset);
void obs_recv(struct observer *obs, struct qp *qp, const uint8_t *data, size_t len);
/** The poster learns what became of a request. Not `ok`: the poster takes the request for lost. */
void obs_settled(struct observer *obs, struct qp *qp, struct request *req, bool ok);
/** A scenario changes, loses or delays a message on the link. */
void obs_disturbed(struct observer *obs, struct obs_link *link);
/** The host's daemon and programs are frozen. */
void obs_frozen(struct observer *obs, const struct host *host);
/** The QP goes into error. */
void obs_qp_error(struct observer *obs, struct qp *qp);
void obs_qp_destroy(struct observer *obs, struct qp *qp);
void obs_mem_free(struct observer *obs, struct block *block);
void obs_mr_deregister(struct observer *obs, struct mr *mr);

/* Connections. */
void obs_established(struct observer *obs, struct side *side);
/** The engine has freed the connection. */
void obs_side_gone(struct observer *obs, struct side *side);
/** The program has read something and the engine was told. */
void obs_consumed(struct observer *obs, struct side *side);
/** Must the connection end well, because its group has had a sound link at any time? */
bool obs_must_survive(const struct observer *obs, const struct pair *pair);
void obs_host_died(struct observer *obs, struct host *host);

/** After each step of a host. */
void obs_step(struct observer *obs, struct host *host);
/** No exchange is in progress and every request has its answer (LLC-4), as far as groups are sound.
 *  @return false, with a sentence in `ret_text` */
bool obs_quiet(const struct observer *obs, char *ret_text, size_t len);

#endif

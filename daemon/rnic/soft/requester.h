/* SPDX-License-Identifier: MIT */
/**
 * @file requester.h
 * What the files of the requester share: the send queue, and the steps that they ask each other
 * for.
 */
#ifndef SMCRD_RNIC_SOFT_REQUESTER_H
#define SMCRD_RNIC_SOFT_REQUESTER_H

#include "daemon/rnic/soft/internal.h"

/** The work request at `i`, counted from the oldest. */
static inline struct soft_wqe *soft_wqe_at(const struct soft_requester *rq, unsigned int i)
{
	unsigned int at = rq->head + i;
	return &rq->wqes[at < rq->depth ? at : at - rq->depth];
}

/** Number of the packet behind those of a work request. */
static inline uint64_t soft_wqe_end(const struct soft_wqe *wqe)
{
	return wqe->first + wqe->packets;
}

static inline bool soft_wqe_is_send(const struct soft_wqe *wqe)
{
	return wqe->opcode == RNIC_WR_SEND || wqe->opcode == RNIC_WR_SEND_INVALIDATE;
}

/** The pieces of a work request that is not inline. */
static inline struct rnic_sge *soft_wqe_pieces(const struct soft_requester *rq,
					       struct soft_wqe *wqe)
{
	return wqe->num_sge <= RNIC_FEW_SGE ? wqe->sge
					    : rq->sges + (size_t)(wqe - rq->wqes) * rq->max_sge;
}

static inline uint32_t soft_psn_of(const struct soft_requester *rq, uint64_t packet)
{
	return (uint32_t)(rq->psn0 + packet) & ROCE_PSN_MASK;
}

/* ---- requester.c */

/** When the timer of an unanswered packet fires: at its timeout, or at the retry limit if that is
 * earlier. */
uint64_t soft_requester_deadline(const struct soft_requester *rq, uint64_t now);
/** No answer has come in time, nor since the timer has fired: send all again that has none. */
void soft_requester_start_again(struct soft_requester *rq);
/** A packet was lost. A smaller window, unless that is no new loss. */
void soft_requester_lost(struct soft_requester *rq, uint64_t packet);
/** The peer has carried out everything before `packet`. What needs no response, and READs whose
 * response has come, are done. @param response  a READ response has told so */
void soft_requester_advance(struct soft_qp *qp, uint64_t packet, bool response);
/** The peer's free receive buffers, as the answer to packet `acked` - 1 tells them. */
void soft_requester_credits(struct soft_requester *rq, uint8_t code);

/* ---- requester_send.c */

/** Pass over what the peer has carried out already, from `*packet` of the work request `*at` on. It
 * need not be sent again. READs are not passed over: their response is missing. @return whether
 * something was passed over */
bool soft_requester_pass_taken(const struct soft_requester *rq, uint64_t *packet, unsigned int *at);
/** The pieces of memory of [offset, offset + len) of a work request. @return how many */
unsigned int soft_wqe_gather(const struct soft_requester *rq, struct soft_wqe *wqe, uint32_t offset,
			     uint32_t len, struct rnic_sge pieces[RNIC_MAX_SGE]);
/** The bytes of a work request in packet `packet`. */
uint32_t soft_wqe_packet_len(const struct soft_wqe *wqe, uint64_t packet, uint32_t mtu);

/* ---- requester_read.c */

/** @return 0 or -ENOMEM */
int soft_reads_new(struct soft_requester *rq, unsigned int asked);
/**
 * The READ request to be sent for the response from `packet` on. Once it was made up its end does
 * not change: what is asked for again has to lie within what was asked for before.
 * @return NULL: it has to wait for earlier responses
 */
struct soft_read *soft_read_plan(struct soft_requester *rq, struct soft_wqe *wqe, uint64_t packet);
/** Would soft_read_plan() let the READ go? */
bool soft_read_may_go(const struct soft_requester *rq, const struct soft_wqe *wqe, uint64_t packet);
/** Add a READ request for the response packets [packet, end) to the batch, which are a part of
 * `read`. @return as soft_tx_add() */
bool soft_read_add(struct soft_qp *qp, const struct soft_read *read, uint64_t packet, uint64_t end);
/** The READ request whose response packet `packet` is, or NULL. @param reads  may be NULL */
struct soft_read *soft_read_of(struct soft_reads *reads, uint64_t packet);
/** The requests before `to` are done, and responses too. @return the first packet of which that
 * cannot be said, because of responses that are missing and of what the peer has carried out */
uint64_t soft_reads_reach(struct soft_requester *rq, uint64_t to);
/** To be called after answers: is part of a response missing? Then it is asked for again, if it
 * does not come soon. */
void soft_reads_watch(struct soft_qp *qp);
void soft_reads_timer(struct soft_qp *qp);
/** Send the request for what is missing. @return packets sent */
size_t soft_reads_ask_again(struct soft_qp *qp);
/** Handle a packet of a READ response. @param packet  its number, not before `acked`, and one that
 * was sent */
void soft_read_response(struct soft_qp *qp, uint64_t packet, const struct roce_packet *response);

#endif

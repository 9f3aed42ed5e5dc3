/* SPDX-License-Identifier: MIT */
/**
 * @file outbox.h
 * Send requests of a queue pair that are collected for a moment and posted together. The requests
 * of many connections with few bytes become one list, in which all RDMA writes come before the CDC
 * messages that announce them (CDC-6). Requests of one kind often have the same length, and the
 * software RNIC sends packets of the same length as one datagram (UDP segmentation offload). A
 * hardware RNIC has to be told of the list only once.
 *
 * An RDMA write may pass the CDC messages of other writes, because nobody reads its bytes before
 * its own CDC. It never passes a SEND that has no write before it. So LLC messages stay before
 * everything that was posted after them, and so does the failover validation, which has to be the
 * first message of a connection on its new link (FO-4).
 */
#ifndef SMCRD_DAEMON_FABRIC_OUTBOX_H
#define SMCRD_DAEMON_FABRIC_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/rnic/rnic.h"

#define OUTBOX_MOST  64    /* requests of either kind */
#define OUTBOX_BYTES 65536 /* bytes of writes: with as many, no further write is added */

struct outbox {
	struct rnic_send_wr list[2 * OUTBOX_MOST];  /* writes, then SENDs from OUTBOX_MOST on */
	uint8_t data[OUTBOX_MOST][RNIC_MAX_INLINE]; /* bytes of inline SENDs */
	unsigned int num_writes, num_sends;
	size_t bytes; /* bytes of the writes */
	bool closed;  /* no write may be added any more */
};

/**
 * Add the first requests of a list: SENDs, or some writes and the SENDs behind them. wr_ids grow
 * with each request, and their pieces are in `sge`. Bytes of inline requests are copied; those of
 * other requests must not change before the request has completed.
 * @param n  1..OUTBOX_MOST
 * @return how many were added; 0: they do not fit, or must not pass the requests in the outbox.
 *         Post those first.
 */
size_t outbox_add(struct outbox *outbox, const struct rnic_send_wr *list, size_t n);

static inline bool outbox_is_empty(const struct outbox *outbox)
{
	return outbox->num_writes + outbox->num_sends == 0;
}

/** Remove all requests. */
void outbox_clear(struct outbox *outbox);

/**
 * Post all requests and leave the outbox empty. Until the next outbox_add(), `list` still begins
 * with the posted requests, in their order.
 *
 * The completion of a SEND has its own wr_id: all requests with a lower wr_id were done before. A
 * write that fails has the lowest wr_id that is not done.
 * @return 0, or an error of rnic_post_send(): nothing was posted
 */
int outbox_post(struct outbox *outbox, struct rnic_qp *qp);

#endif

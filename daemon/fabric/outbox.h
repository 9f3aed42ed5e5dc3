/* SPDX-License-Identifier: MIT */
/**
 * @file outbox.h
 * Send requests of a queue pair that are collected for a moment and posted together. Many
 * connections that have a little to send make one list, in which all RDMA writes come before the
 * CDC messages that announce them (CDC-6). Requests of one kind are often of one length, and the
 * software RNIC sends packets of one length as one datagram (UDP segmentation offload); a hardware
 * RNIC has to be told of the list only once.
 *
 * An RDMA write may pass the CDC messages behind other writes, as nobody looks at its bytes before
 * its own CDC. It never passes a SEND that has no write before it: LLC messages, and the failover
 * validation that has to be the first message of a connection on its new link (FO-4), stay before
 * what was posted after them.
 */
#ifndef SMCRD_DAEMON_FABRIC_OUTBOX_H
#define SMCRD_DAEMON_FABRIC_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/rnic/rnic.h"

#define OUTBOX_MOST  64    /* requests of either kind */
#define OUTBOX_BYTES 65536 /* of writes; once there are as many, no other joins them */

struct outbox {
	struct rnic_send_wr list[2 * OUTBOX_MOST];  /* writes, then SENDs from OUTBOX_MOST on */
	uint8_t data[OUTBOX_MOST][RNIC_MAX_INLINE]; /* of the SENDs that are inline */
	unsigned int num_writes, num_sends;
	size_t bytes; /* of the writes */
	bool closed;  /* no write may come behind the last SEND */
};

/**
 * Add the first requests of a list: SENDs, or some writes and the SENDs behind them. wr_ids grow
 * with each request. Bytes of inline requests are copied, those of others are to be left alone
 * until the request has completed.
 * @param n  1..OUTBOX_MOST
 * @return how many were added; 0: none fit, or they must not pass what is there. Post that first.
 */
size_t outbox_add(struct outbox *outbox, const struct rnic_send_wr *list, size_t n);

static inline bool outbox_is_empty(const struct outbox *outbox)
{
	return outbox->num_writes + outbox->num_sends == 0;
}

/** Forget all. */
void outbox_clear(struct outbox *outbox);

/**
 * Post all and leave the outbox empty. Until something is added `list` still begins with what was
 * posted, in its order.
 *
 * Completions of SENDs bear their own wr_id: all requests of a lower one were done before. A write
 * that fails bears the lowest wr_id that is not done.
 * @return 0, or an error of rnic_post_send(): nothing was posted
 */
int outbox_post(struct outbox *outbox, struct rnic_qp *qp);

#endif

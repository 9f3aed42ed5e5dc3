/* SPDX-License-Identifier: MIT */
/**
 * @file outbox.h
 * Send requests of a queue pair that are collected during a turn of the event loop and posted
 * together. Many connections that have a little to send make one list, in which all RDMA writes
 * come before the CDC messages that announce them. Requests of one kind are often of one length,
 * and the software RNIC sends packets of one length as one datagram (UDP segmentation offload); a
 * hardware RNIC has to be told of the list only once.
 *
 * An RDMA write may pass the CDC messages of other connections, as nobody looks at its bytes before
 * its own CDC. It never passes a SEND that came without one: LLC messages, and CDC messages by
 * which a connection moves to another link (RFC 7609 4.6.1), stay before what was posted after
 * them.
 */
#ifndef SMCRD_DAEMON_FABRIC_OUTBOX_H
#define SMCRD_DAEMON_FABRIC_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/rnic/rnic.h"

#define OUTBOX_MOST 64 /* requests of either kind */

struct outbox {
	struct rnic_send_wr list[2 * OUTBOX_MOST];  /* writes, then SENDs from OUTBOX_MOST on */
	uint8_t data[OUTBOX_MOST][RNIC_MAX_INLINE]; /* of the SENDs that are inline */
	unsigned int num_writes, num_sends;
	bool closed; /* its last SEND came without a write */
};

/**
 * Add what belongs together: some RDMA writes and behind them a SEND, or a SEND alone. wr_ids grow
 * with each request. Bytes of inline requests are copied, those of others are to be left alone
 * until the request has completed.
 * @return false: no room, or it must not pass what is there. Post that first; a list of at most
 *         OUTBOX_MOST requests fits into an empty outbox.
 */
bool outbox_add(struct outbox *outbox, const struct rnic_send_wr *list, size_t n);

/**
 * Post all and leave the outbox empty.
 *
 * Completions of SENDs bear their own wr_id: all requests of a lower one were done before. A write
 * that fails bears the lowest wr_id that is not done.
 * @return 0, or an error of rnic_post_send(): nothing was posted
 */
int outbox_post(struct outbox *outbox, struct rnic_qp *qp);

#endif

/* SPDX-License-Identifier: MIT */
#include "daemon/rpcrdma/internal.h"

/* ERRORs that wait for credits: a peer that goes on making errors without taking the answers is not
 * served any more (RR2-186). */
#define MOST_ERRORS 64

void rpcr_send_error(struct rpcr *rpcr, const struct rpcrdma_prefix *about,
		     const struct rpcrdma_error *error)
{
	uint8_t body[RPCRDMA_ERROR_MOST_LEN];
	/* version 1 has one code for all but versions (RR2-194) */
	const struct rpcrdma_error chunk = { .code = RPCRDMA_ERR_CHUNK };
	if (about->version == RPCRDMA_V1 && error->code != RPCRDMA_ERR_VERS)
		error = &chunk;
	/* RR2-22, RR2-148; in version 1 there is no flag (RR2-39) */
	const struct rpcr_out out = {
		.xid = about->xid,
		.version = about->version,
		.type = RPCRDMA_ERROR,
		.flags = RPCRDMA_F_RESPONSE,
		.body = body,
		.body_len = rpcrdma_encode_error(error, body),
	};
	if (about->type == RPCRDMA_ERROR)
		return;
	if (rpcr->queued_errors >= MOST_ERRORS) {
		rpcr_end_with(rpcr, RPCR_END_FLOOD);
		return;
	}
	if (rpcr_queue(rpcr, &out) < 0) {
		rpcr_end_with(rpcr, RPCR_END_RESOURCES);
		return;
	}
	rpcr->queued_errors++;
	rpcr->count.errors_sent++;
}

void rpcr_fault(struct rpcr *rpcr, const struct rpcrdma_prefix *about, uint32_t code)
{
	const struct rpcrdma_error error = { .code = code };
	rpcr->count.dropped++; /* RR2-151 */
	if (about->flags & RPCRDMA_F_RESPONSE)
		rpcr_fail_call(rpcr, about->xid, RPCR_FAILED_REPLY, NULL);
	else
		rpcr_send_error(rpcr, about, &error);
}

void rpcr_got_error(struct rpcr *rpcr, const struct rpcrdma_prefix *prefix, const uint8_t *data,
		    size_t len)
{
	struct rpcrdma_error error;
	/* RR2-149 */
	if (rpcrdma_decode_error(data, len, RPCRDMA_V2, &error) < 0 ||
	    !rpcrdma_error_is_known(RPCRDMA_V2, error.code)) {
		rpcr->count.dropped++;
		return;
	}
	rpcr->count.errors_received++;
	if (error.code == RPCRDMA_ERR_BAD_PROPVAL) {
		rpcr_end_with(rpcr, RPCR_END_PROPERTY);
		return;
	}
	/* RR2-156, RR2-157, RR2-161, RR2-162: all of them end the Call; the user may try another
	 * way (RR2-90) */
	rpcr_fail_call(rpcr, prefix->xid, RPCR_FAILED_ERROR, &error);
}

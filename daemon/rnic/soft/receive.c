/* SPDX-License-Identifier: MIT */
/* The receive buffers of a queue pair, and the SENDs that fill them. Buffers are the RNIC's own,
 * which it uses again when the user was told of the message, or those that the user posts. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/rnic/soft/internal.h"

int soft_receives_init(struct soft_qp *qp)
{
	struct soft_receives *rv = &qp->rs.receives;
	const struct rnic_qp_params *params = &qp->params;
	if (params->user_receives) {
		rv->posted = calloc(params->recv_depth, sizeof(*rv->posted));
		return rv->posted ? 0 : -ENOMEM;
	}
	rv->own = malloc((size_t)params->recv_depth * params->recv_size);
	rv->ready = params->recv_depth;
	return rv->own ? 0 : -ENOMEM;
}

void soft_receives_free(struct soft_receives *rv)
{
	free(rv->own);
	free(rv->posted);
	rv->own = NULL;
	rv->posted = NULL;
}

static bool writable(const struct soft_qp *qp, uint32_t lkey, const void *addr, size_t len)
{
	return len == 0 || soft_mr_local_write_ok(qp->dev, qp->pd, lkey, addr, (uint32_t)len);
}

int soft_receives_post(struct soft_qp *qp, const struct rnic_recv_wr *wr, size_t n)
{
	struct soft_receives *rv = &qp->rs.receives;
	const unsigned int depth = qp->params.recv_depth;
	if (!rv->posted)
		return -EINVAL;
	if (n > depth - rv->ready - rv->untold)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (!writable(qp, wr[i].lkey, wr[i].addr, wr[i].length))
			return -EINVAL;
	}
	for (size_t i = 0; i < n; i++)
		rv->posted[(rv->head + rv->ready++) % depth] = wr[i];
	return 0;
}

static uint8_t *next_buffer(const struct soft_qp *qp)
{
	const struct soft_receives *rv = &qp->rs.receives;
	return rv->posted ? rv->posted[rv->head].addr
			  : rv->own + (size_t)rv->head * qp->params.recv_size;
}

static struct rnic_wc take_next(struct soft_qp *qp, enum rnic_wc_status status)
{
	struct soft_receives *rv = &qp->rs.receives;
	const struct rnic_wc wc = { .is_recv = true,
				    .status = status,
				    .wr_id = rv->posted ? rv->posted[rv->head].wr_id : 0,
				    .data = next_buffer(qp) };
	rv->head = rv->head + 1 < qp->params.recv_depth ? rv->head + 1 : 0;
	rv->ready--;
	rv->untold++;
	return wc;
}

enum soft_outcome soft_receive(struct soft_qp *qp, const struct roce_packet *p, bool first,
			       bool last)
{
	struct soft_receives *rv = &qp->rs.receives;
	if (first) {
		if (rv->ready == 0)
			return SOFT_NOT_READY;
		rv->length = 0;
		rv->room = rv->posted ? rv->posted[rv->head].length : qp->params.recv_size;
	}
	if (p->payload_len > rv->room - rv->length)
		return SOFT_INVALID_REQUEST;
	uint8_t *to = next_buffer(qp) + rv->length;
	/* The user may have deregistered the memory since it posted the buffer. */
	if (rv->posted && !writable(qp, rv->posted[rv->head].lkey, to, p->payload_len)) {
		rv->spoilt = true;
		return SOFT_LOCAL_ERROR;
	}
	const bool invalidates = roce_invalidates(p->bth.opcode);
	if (invalidates && !soft_mw_kill(qp, p->invalidate))
		return SOFT_REMOTE_ACCESS;
	if (p->payload_len)
		memcpy(to, p->payload, p->payload_len);
	rv->length += (uint32_t)p->payload_len;
	if (!last)
		return SOFT_DONE;
	struct rnic_wc wc = take_next(qp, RNIC_WC_SUCCESS);
	wc.length = rv->length;
	wc.invalidated = invalidates;
	wc.invalidated_rkey = invalidates ? p->invalidate : 0;
	soft_qp_complete(qp, &wc);
	return SOFT_DONE;
}

void soft_receives_flush(struct soft_qp *qp)
{
	struct soft_receives *rv = &qp->rs.receives;
	while (rv->posted && rv->ready > 0) {
		struct rnic_wc wc =
			take_next(qp, rv->spoilt ? RNIC_WC_LOC_PROT_ERR : RNIC_WC_WR_FLUSH_ERR);
		rv->spoilt = false;
		soft_qp_complete(qp, &wc);
	}
}

unsigned int soft_receives_tell(struct soft_qp *qp)
{
	struct soft_receives *rv = &qp->rs.receives;
	const unsigned int told = rv->untold;
	rv->untold = 0;
	return rv->posted ? 0 : told;
}

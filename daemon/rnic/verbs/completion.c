/* SPDX-License-Identifier: MIT */
#include <event2/event.h>

#include "daemon/rnic/verbs/internal.h"

/* How many work completions are taken at a time, before other QPs have their turn. */
#define BATCH 32

struct batch {
	struct rnic_wc wcs[BATCH];
	size_t num;
	uint32_t buffers[BATCH]; /* buffers of received messages */
	unsigned int num_buffers;
	bool failed, heard;
};

static void take_recv(struct verbs_qp *qp, const struct ibv_wc *wc, struct batch *batch)
{
	uint64_t buffer = wc->wr_id & ~VERBS_RECV_BIT;
	if (qp->recvs_out == 0 || buffer >= qp->recv_depth)
		return;
	qp->recvs_out--;
	if (wc->status != IBV_WC_SUCCESS) {
		batch->failed = true; /* reported once, when all requests have come back */
		return;
	}
	uint32_t length = wc->byte_len < qp->params.recv_size ? wc->byte_len : qp->params.recv_size;
	batch->heard = true;
	batch->buffers[batch->num_buffers++] = (uint32_t)buffer;
	batch->wcs[batch->num++] =
		(struct rnic_wc){ .is_recv = true,
				  .status = RNIC_WC_SUCCESS,
				  .data = qp->recv.mem + buffer * qp->params.recv_size,
				  .length = length };
	qp->rx_bytes += length;
}

static void take_send(struct verbs_qp *qp, const struct ibv_wc *wc, struct batch *batch)
{
	const struct verbs_slot *slot = verbs_sendq_retire(&qp->sendq, wc->wr_id);
	if (!slot)
		return;
	batch->heard |= wc->status == IBV_WC_SUCCESS;
	if (wc->status != IBV_WC_SUCCESS)
		batch->failed = true;
	else if (!slot->wanted)
		return;
	enum rnic_wc_status status = verbs_wc_status(wc->status);
	if (qp->given_up && status == RNIC_WC_WR_FLUSH_ERR) {
		status = RNIC_WC_RETRY_EXC_ERR;
		qp->given_up = false;
	}
	batch->wcs[batch->num++] = (struct rnic_wc){ .status = status, .wr_id = slot->wr_id };
}

static void tell(struct verbs_qp *qp, const struct rnic_wc *wcs, size_t num)
{
	if (num == 0 || qp->dead || qp->ended)
		return;
	qp->telling = true;
	qp->params.on_completion(qp->params.ctx, &qp->base, wcs, num);
	qp->telling = false;
}

/** Complete everything outstanding without the device, and then give the completion that reports
 * ERR. */
static void end_all(struct verbs_qp *qp)
{
	struct rnic_wc wcs[BATCH];
	size_t num = 0;
	while (qp->sendq.tail < qp->sendq.head && !qp->dead) {
		const struct verbs_slot *slot = verbs_sendq_retire(&qp->sendq, qp->sendq.tail);
		wcs[num++] =
			(struct rnic_wc){ .status = RNIC_WC_WR_FLUSH_ERR, .wr_id = slot->wr_id };
		if (num == BATCH) {
			tell(qp, wcs, num);
			num = 0;
		}
	}
	tell(qp, wcs, num);
	tell(qp, &(struct rnic_wc){ .is_recv = true, .status = RNIC_WC_WR_FLUSH_ERR }, 1);
	if (qp->dead)
		return;
	qp->ended = true;
	event_del(qp->end_timer);
}

static bool end_is_due(const struct verbs_qp *qp)
{
	if (qp->state != VERBS_QP_ERR || qp->ended)
		return false;
	return qp->end_now || (qp->sendq.head == qp->sendq.tail && qp->recvs_out == 0);
}

bool verbs_qp_poll(struct verbs_qp *qp)
{
	struct ibv_wc wcs[BATCH];
	struct batch batch = { .num = 0 };
	int n = ibv_poll_cq(qp->cq, BATCH, wcs);
	for (int i = 0; i < n; i++) {
		if (wcs[i].wr_id & VERBS_RECV_BIT)
			take_recv(qp, &wcs[i], &batch);
		else
			take_send(qp, &wcs[i], &batch);
	}
	if (batch.heard) {
		qp->heard_at = verbs_clock();
		qp->progress++;
	}
	/* Requests that the callback posts are refused from now on. */
	if (batch.failed || n < 0)
		verbs_qp_fail(qp);
	qp->end_now |= n < 0;
	tell(qp, batch.wcs, batch.num);
	if (qp->dead)
		return false;
	if (qp->state != VERBS_QP_ERR && verbs_qp_post_recvs(qp, batch.buffers, batch.num_buffers))
		verbs_qp_fail(qp);
	if (n < BATCH && end_is_due(qp))
		end_all(qp);
	return !qp->dead && n == BATCH;
}

void verbs_qp_arm(struct verbs_qp *qp)
{
	qp->armed = ibv_req_notify_cq(qp->cq, 0) == 0;
	if (qp->armed)
		return;
	verbs_qp_fail(qp);
	qp->end_now = true;
}

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

/* A buffer of ours. @return whether the user is told: of errors once, when all has come back */
static bool take_own_buffer(struct verbs_qp *qp, const struct ibv_wc *wc, uint64_t buffer,
			    struct batch *batch, struct rnic_wc *told)
{
	if (wc->status != IBV_WC_SUCCESS)
		return false;
	batch->buffers[batch->num_buffers++] = (uint32_t)buffer;
	told->data = qp->recv.mem + buffer * qp->params.recv_size;
	told->length = wc->byte_len < qp->params.recv_size ? wc->byte_len : qp->params.recv_size;
	return true;
}

static bool take_user_buffer(struct verbs_qp *qp, const struct ibv_wc *wc, uint64_t buffer,
			     struct rnic_wc *told)
{
	const struct verbs_buffer *from = &qp->buffers[buffer];
	told->wr_id = from->wr_id;
	told->data = from->addr;
	if (wc->status == IBV_WC_SUCCESS)
		told->length = wc->byte_len < from->length ? wc->byte_len : from->length;
	return true;
}

static void take_recv(struct verbs_qp *qp, struct ibv_wc *wc, struct batch *batch)
{
	struct rnic_wc told = { .is_recv = true };
	uint64_t buffer = verbs_recv_take(qp, wc->wr_id);
	if (buffer == UINT64_MAX)
		return;
	if (wc->status == IBV_WC_SUCCESS && wc->wc_flags & qp->dev->invalidated) {
		told.invalidated = true;
		told.invalidated_rkey = wc->invalidated_rkey;
		/* Not every device looks whose window it is. */
		if (!verbs_window_gone(qp, wc->invalidated_rkey))
			wc->status = IBV_WC_LOC_ACCESS_ERR;
	}
	if (wc->status != IBV_WC_SUCCESS)
		batch->failed = true;
	else
		batch->heard = true;
	told.status = verbs_wc_status(wc->status);
	if (qp->params.user_receives ? take_user_buffer(qp, wc, buffer, &told)
				     : take_own_buffer(qp, wc, buffer, batch, &told))
		batch->wcs[batch->num++] = told;
	qp->rx_bytes += told.length;
}

static void take_send(struct verbs_qp *qp, const struct ibv_wc *wc, struct batch *batch)
{
	const struct verbs_slot *slot = verbs_sendq_retire(&qp->sendq, wc->wr_id);
	if (!slot)
		return;
	if (wc->status != IBV_WC_SUCCESS)
		batch->failed = true;
	if (slot->own) /* the device did that without the peer */
		return;
	batch->heard |= wc->status == IBV_WC_SUCCESS;
	if (wc->status == IBV_WC_SUCCESS && !slot->wanted)
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

static void add(struct verbs_qp *qp, struct batch *batch, struct rnic_wc wc)
{
	wc.status = RNIC_WC_WR_FLUSH_ERR;
	batch->wcs[batch->num++] = wc;
	if (batch->num < BATCH)
		return;
	tell(qp, batch->wcs, batch->num);
	batch->num = 0;
}

/** Complete everything outstanding without the device, and then give the completion that reports
 * ERR. */
static void end_all(struct verbs_qp *qp)
{
	struct batch batch = { .num = 0 };
	const struct verbs_buffer *buffer;
	while (qp->sendq.tail < qp->sendq.head && !qp->dead) {
		const struct verbs_slot *slot = verbs_sendq_retire(&qp->sendq, qp->sendq.tail);
		if (!slot->own)
			add(qp, &batch, (struct rnic_wc){ .wr_id = slot->wr_id });
	}
	while (!qp->dead && (buffer = verbs_recv_oldest(qp))) {
		qp->recvs_out--;
		add(qp, &batch,
		    (struct rnic_wc){
			    .is_recv = true, .wr_id = buffer->wr_id, .data = buffer->addr });
	}
	add(qp, &batch, (struct rnic_wc){ .is_recv = true });
	tell(qp, batch.wcs, batch.num);
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
	verbs_window_settle(qp);
	tell(qp, batch.wcs, batch.num);
	if (qp->dead)
		return false;
	if (qp->state != VERBS_QP_ERR && verbs_recv_post_own(qp, batch.buffers, batch.num_buffers))
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

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/rnic/verbs/internal.h"

int verbs_post_init(struct verbs_qp *qp)
{
	uint32_t depth = qp->params.send_depth;
	qp->send_wrs = calloc(depth, sizeof(*qp->send_wrs));
	qp->send_sges = calloc((size_t)depth * qp->max_sge, sizeof(*qp->send_sges));
	if (!qp->send_wrs || !qp->send_sges)
		return -ENOMEM;
	int error = verbs_sendq_init(&qp->sendq, depth);
	if (!error && qp->max_inline < RNIC_MAX_INLINE)
		error = verbs_memory_alloc(&qp->bounce, qp->pd->pd,
					   (size_t)depth * RNIC_MAX_INLINE);
	return error;
}

void verbs_post_free(struct verbs_qp *qp)
{
	free(qp->bounce.mem);
	verbs_sendq_free(&qp->sendq);
	free(qp->send_wrs);
	free(qp->send_sges);
}

static const struct rnic_sge *pieces_of(const struct rnic_send_wr *wr)
{
	return wr->pieces ? wr->pieces : wr->sge;
}

static uint32_t total_length(const struct rnic_send_wr *wr)
{
	const struct rnic_sge *pieces = pieces_of(wr);
	uint32_t length = 0;
	for (unsigned int i = 0; i < wr->num_sge; i++)
		length += pieces[i].length;
	return length;
}

/* Inline data that the device does not take are copied to the slot's place in registered memory. */
static void bounce(struct verbs_qp *qp, uint64_t seq, const struct rnic_send_wr *wr,
		   struct ibv_sge *sge)
{
	const struct rnic_sge *pieces = pieces_of(wr);
	uint8_t *place = qp->bounce.mem + seq % qp->sendq.depth * RNIC_MAX_INLINE;
	uint32_t length = 0;
	for (unsigned int i = 0; i < wr->num_sge; i++) {
		if (pieces[i].length > 0)
			memcpy(place + length, pieces[i].addr, pieces[i].length);
		length += pieces[i].length;
	}
	*sge = (struct ibv_sge){ (uintptr_t)place, length, qp->bounce.mr->lkey };
}

/* Opcode, and what the opcodes say of the peer's memory. */
static void convert_opcode(const struct rnic_send_wr *wr, struct ibv_send_wr *ret)
{
	switch (wr->opcode) {
	case RNIC_WR_SEND: ret->opcode = IBV_WR_SEND; break;
	case RNIC_WR_SEND_INVALIDATE:
		ret->opcode = IBV_WR_SEND_WITH_INV;
		ret->invalidate_rkey = wr->rkey;
		break;
	case RNIC_WR_RDMA_WRITE:
	case RNIC_WR_RDMA_READ:
		ret->opcode =
			wr->opcode == RNIC_WR_RDMA_READ ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
		ret->wr.rdma.remote_addr = wr->remote_addr;
		ret->wr.rdma.rkey = wr->rkey;
		break;
	}
}

static bool is_message(const struct rnic_send_wr *wr)
{
	return wr->opcode == RNIC_WR_SEND || wr->opcode == RNIC_WR_SEND_INVALIDATE;
}

static void convert(struct verbs_qp *qp, uint64_t seq, const struct rnic_send_wr *wr,
		    struct ibv_sge *sges, struct ibv_send_wr *ret)
{
	const struct rnic_sge *pieces = pieces_of(wr);
	bool is_inline = wr->flags & RNIC_SEND_INLINE;
	unsigned int flags = 0;
	if (wr->flags & RNIC_SEND_SIGNALED)
		flags |= IBV_SEND_SIGNALED;
	if (wr->flags & RNIC_SEND_SOLICITED && is_message(wr))
		flags |= IBV_SEND_SOLICITED;
	*ret = (struct ibv_send_wr){ .wr_id = seq, .sg_list = sges, .num_sge = (int)wr->num_sge };
	convert_opcode(wr, ret);
	if (is_inline && total_length(wr) > qp->max_inline) {
		bounce(qp, seq, wr, sges);
		ret->num_sge = 1;
	} else {
		for (unsigned int i = 0; i < wr->num_sge; i++)
			sges[i] = (struct ibv_sge){ (uintptr_t)pieces[i].addr, pieces[i].length,
						    pieces[i].lkey };
		if (is_inline)
			flags |= IBV_SEND_INLINE;
	}
	ret->send_flags = flags;
}

int verbs_post_refusal(const struct verbs_qp *qp, size_t n)
{
	if (qp->state == VERBS_QP_ERR)
		return -EIO;
	if (qp->state != VERBS_QP_RTS)
		return -ENOTCONN;
	return n > verbs_sendq_room(&qp->sendq) ? -ENOMEM : 0;
}

/* Give the last `n` places of the send queue, and the requests in `wrs`, to the device. */
static int hand_over(struct verbs_qp *qp, struct ibv_send_wr *wrs, size_t n)
{
	struct ibv_send_wr *bad = NULL;
	wrs[n - 1].send_flags |= IBV_SEND_SIGNALED; /* sendq.c */
	int error = verbs_result(ibv_post_send(qp->qp, wrs, &bad));
	if (error && (!bad || bad == wrs)) {
		verbs_sendq_unpush(&qp->sendq, n);
		return error;
	}
	/* Some requests were taken, which cannot be undone, so all of them are flushed. */
	if (error)
		verbs_qp_fail(qp);
	verbs_watch_posted(qp);
	return 0;
}

int verbs_post_send(struct rnic_qp *base, const struct rnic_send_wr *wr, size_t n)
{
	struct verbs_qp *qp = (struct verbs_qp *)base;
	uint64_t bytes = 0;
	int error = verbs_post_refusal(qp, n);
	if (error || n == 0)
		return error;
	for (size_t i = 0; i < n; i++) {
		uint64_t seq =
			verbs_sendq_push(&qp->sendq, wr[i].wr_id, wr[i].flags & RNIC_SEND_SIGNALED);
		convert(qp, seq, &wr[i], &qp->send_sges[i * qp->max_sge], &qp->send_wrs[i]);
		qp->send_wrs[i].next = i + 1 < n ? &qp->send_wrs[i + 1] : NULL;
		if (wr[i].opcode != RNIC_WR_RDMA_READ)
			bytes += total_length(&wr[i]);
	}
	error = hand_over(qp, qp->send_wrs, n);
	if (!error)
		qp->tx_bytes += bytes;
	return error;
}

int verbs_post_own(struct verbs_qp *qp, struct ibv_send_wr *wr, uint64_t *ret_seq)
{
	int error = verbs_post_refusal(qp, 1);
	if (error)
		return error;
	*ret_seq = wr->wr_id = verbs_sendq_push_own(&qp->sendq);
	return hand_over(qp, wr, 1);
}

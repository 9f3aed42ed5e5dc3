/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "daemon/rnic/verbs/internal.h"

/* Receive buffers that are given to the device at a time. */
#define CHUNK 64

int verbs_recv_init(struct verbs_qp *qp)
{
	if (!qp->params.user_receives)
		return verbs_memory_alloc(&qp->recv, qp->pd->pd,
					  (size_t)qp->recv_depth * qp->params.recv_size);
	qp->buffers = calloc(qp->recv_depth, sizeof(*qp->buffers));
	return qp->buffers ? 0 : -ENOMEM;
}

void verbs_recv_free(struct verbs_qp *qp)
{
	free(qp->recv.mem);
	free(qp->buffers);
}

/* ---- buffers of ours */

int verbs_recv_post_own(struct verbs_qp *qp, const uint32_t *buffers, unsigned int n)
{
	struct ibv_recv_wr wrs[CHUNK], *bad = NULL;
	struct ibv_sge sges[CHUNK];
	assert(n <= CHUNK);
	for (unsigned int i = 0; i < n; i++) {
		uint8_t *at = qp->recv.mem + (size_t)buffers[i] * qp->params.recv_size;
		sges[i] =
			(struct ibv_sge){ (uintptr_t)at, qp->params.recv_size, qp->recv.mr->lkey };
		wrs[i] = (struct ibv_recv_wr){ .wr_id = VERBS_RECV_BIT | buffers[i],
					       .next = i + 1 < n ? &wrs[i + 1] : NULL,
					       .sg_list = &sges[i],
					       .num_sge = 1 };
	}
	int error = n > 0 ? verbs_result(ibv_post_recv(qp->qp, wrs, &bad)) : 0;
	qp->recvs_out += error ? (unsigned int)(bad ? bad - wrs : 0) : n;
	return error;
}

int verbs_recv_start(struct verbs_qp *qp)
{
	uint32_t buffers[CHUNK];
	if (qp->params.user_receives)
		return 0;
	for (uint32_t at = 0; at < qp->recv_depth;) {
		unsigned int n = 0;
		while (n < CHUNK && at < qp->recv_depth)
			buffers[n++] = at++;
		int error = verbs_recv_post_own(qp, buffers, n);
		if (error)
			return error;
	}
	return 0;
}

/* ---- buffers of the user */

static const struct verbs_buffer *note(struct verbs_qp *qp, const struct rnic_recv_wr *wr)
{
	struct verbs_buffer *buffer = &qp->buffers[qp->buffer_head++ % qp->recv_depth];
	*buffer = (struct verbs_buffer){ wr->wr_id, wr->addr, wr->length };
	qp->recvs_out++;
	return buffer;
}

/* @return how many the device has taken, fewer than `n` only with an error */
static unsigned int post_chunk(struct verbs_qp *qp, const struct rnic_recv_wr *wr, unsigned int n,
			       int *ret_error)
{
	struct ibv_recv_wr wrs[CHUNK], *bad = NULL;
	struct ibv_sge sges[CHUNK];
	for (unsigned int i = 0; i < n; i++) {
		uint64_t place = (uint64_t)(note(qp, &wr[i]) - qp->buffers);
		sges[i] = (struct ibv_sge){ (uintptr_t)wr[i].addr, wr[i].length, wr[i].lkey };
		wrs[i] = (struct ibv_recv_wr){ .wr_id = VERBS_RECV_BIT | place,
					       .next = i + 1 < n ? &wrs[i + 1] : NULL,
					       .sg_list = &sges[i],
					       .num_sge = wr[i].length > 0 };
	}
	*ret_error = verbs_result(ibv_post_recv(qp->qp, wrs, &bad));
	if (!*ret_error)
		return n;
	return bad ? (unsigned int)(bad - wrs) : 0;
}

static int refusal(const struct verbs_qp *qp, const struct rnic_recv_wr *wr, size_t n)
{
	if (!qp->params.user_receives)
		return -EINVAL;
	if (qp->state == VERBS_QP_ERR)
		return -EIO;
	if (n > qp->recv_depth - qp->recvs_out)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (wr[i].length > 0 &&
		    !verbs_mr_receives(qp->dev, qp->pd, wr[i].lkey, wr[i].addr, wr[i].length))
			return -EINVAL;
	}
	return 0;
}

int verbs_recv_post(struct rnic_qp *base, const struct rnic_recv_wr *wr, size_t n)
{
	struct verbs_qp *qp = (struct verbs_qp *)base;
	size_t taken = 0;
	int error = refusal(qp, wr, n);
	if (error)
		return error;
	for (size_t at = 0; at < n && !error; at += CHUNK)
		taken += post_chunk(qp, wr + at, n - at < CHUNK ? (unsigned int)(n - at) : CHUNK,
				    &error);
	if (!error)
		return 0;
	if (taken == 0) {
		unsigned int noted = n < CHUNK ? (unsigned int)n : CHUNK;
		qp->buffer_head -= noted;
		qp->recvs_out -= noted;
		return error;
	}
	/* What the device has taken cannot be undone, so all are flushed: those that it has not
	 * taken with the end. */
	for (size_t i = (taken / CHUNK + 1) * CHUNK; i < n; i++)
		note(qp, &wr[i]);
	verbs_qp_fail(qp);
	return 0;
}

uint64_t verbs_recv_take(struct verbs_qp *qp, uint64_t wr_id)
{
	uint64_t buffer = wr_id & ~VERBS_RECV_BIT;
	if (qp->recvs_out == 0 || buffer >= qp->recv_depth)
		return UINT64_MAX;
	qp->recvs_out--;
	return buffer;
}

const struct verbs_buffer *verbs_recv_oldest(const struct verbs_qp *qp)
{
	if (!qp->params.user_receives || qp->recvs_out == 0)
		return NULL;
	return &qp->buffers[(qp->buffer_head - qp->recvs_out) % qp->recv_depth];
}

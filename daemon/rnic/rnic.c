/* SPDX-License-Identifier: MIT */
#include "daemon/rnic/backend.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define MAX_SEND_DEPTH 4096
#define MAX_RECV_DEPTH 4096
#define MIN_RECV_SIZE  44
#define MAX_RECV_SIZE  8192
/* IBA 9.7.4: a message has at most 2^31 bytes. */
#define MAX_MESSAGE (UINT64_C(1) << 31)

int rnic_open(const char *name, const struct rnic_open_params *params, struct rnic **ret_rnic,
	      char ret_error[RNIC_ERROR_LEN])
{
	if (strncmp(name, "soft:", 5) == 0 && name[5])
		return rnic_soft_backend.open(name + 5, params, ret_rnic, ret_error);
	if (strncmp(name, "verbs:", 6) == 0 && name[6])
		return rnic_verbs_backend.open(name + 6, params, ret_rnic, ret_error);
	snprintf(ret_error, RNIC_ERROR_LEN,
		 "%s: not an RNIC name; use soft:IFNAME or verbs:DEV[/PORT]", name);
	return -EINVAL;
}

void rnic_close(struct rnic *rnic)
{
	rnic->backend->close(rnic);
}

void rnic_poll(struct rnic *rnic)
{
	rnic->backend->poll(rnic);
}

void rnic_link_changed(struct rnic *rnic)
{
	rnic->backend->link_changed(rnic);
}

void rnic_leave(struct rnic *rnic)
{
	if (rnic->backend->leave)
		rnic->backend->leave(rnic);
}

void rnic_get_info(const struct rnic *rnic, struct rnic_info *ret_info)
{
	*ret_info = rnic->info;
}

void rnic_get_stats(const struct rnic *rnic, struct rnic_stats *ret_stats)
{
	rnic->backend->get_stats(rnic, ret_stats);
}

int rnic_pd_alloc(struct rnic *rnic, struct rnic_pd **ret_pd)
{
	return rnic->backend->pd_alloc(rnic, ret_pd);
}

void rnic_pd_free(struct rnic_pd *pd)
{
	pd->rnic->backend->pd_free(pd);
}

int rnic_mr_register(struct rnic_pd *pd, void *addr, size_t len, unsigned int access,
		     struct rnic_mr **ret_mr)
{
	if (!addr || len == 0 || (uintptr_t)addr + len < (uintptr_t)addr)
		return -EINVAL;
	/* As in verbs: remote write access needs local write access. */
	if (access & RNIC_ACCESS_REMOTE_WRITE && !(access & RNIC_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	return pd->rnic->backend->mr_register(pd, addr, len, access, ret_mr);
}

void rnic_mr_deregister(struct rnic_mr *mr)
{
	mr->rnic->backend->mr_deregister(mr);
}

uint32_t rnic_mr_lkey(const struct rnic_mr *mr)
{
	return mr->lkey;
}

uint32_t rnic_mr_rkey(const struct rnic_mr *mr)
{
	return mr->rkey;
}

uint64_t rnic_mr_vaddr(const struct rnic_mr *mr)
{
	return mr->vaddr;
}

int rnic_window_new(struct rnic_pd *pd, struct rnic_window **ret_window)
{
	if (!pd->rnic->info.windows)
		return -EOPNOTSUPP;
	return pd->rnic->backend->window_new(pd, ret_window);
}

void rnic_window_free(struct rnic_window *window)
{
	window->rnic->backend->window_free(window);
}

int rnic_window_bind(struct rnic_window *window, struct rnic_qp *qp, struct rnic_mr *mr,
		     const void *addr, size_t len, unsigned int access)
{
	const unsigned int remote = RNIC_ACCESS_REMOTE_WRITE | RNIC_ACCESS_REMOTE_READ;
	if (!addr || len == 0 || !access || access & ~remote || window->rnic != qp->rnic ||
	    mr->rnic != qp->rnic)
		return -EINVAL;
	return window->rnic->backend->window_bind(window, qp, mr, addr, len, access);
}

int rnic_window_invalidate(struct rnic_window *window, struct rnic_qp *qp)
{
	if (window->rnic != qp->rnic)
		return -EINVAL;
	return window->rnic->backend->window_invalidate(window, qp);
}

uint32_t rnic_window_rkey(const struct rnic_window *window)
{
	return window->rkey;
}

uint64_t rnic_window_vaddr(const struct rnic_window *window)
{
	return window->vaddr;
}

uint32_t rnic_random(void)
{
	uint32_t value;
	/* getrandom() of up to 256 bytes can only fail or be interrupted while the kernel's pool is
	 * not ready yet. */
	while (getrandom(&value, sizeof(value), 0) != (ssize_t)sizeof(value))
		;
	return value;
}

uint64_t rnic_random_start(void)
{
	uint64_t start;
	do {
		start = (uint64_t)(rnic_random() >> 1) << 16;
	} while (start == 0);
	return start;
}

int rnic_qp_create(struct rnic_pd *pd, const struct rnic_qp_params *params, struct rnic_qp **ret_qp)
{
	if (params->send_depth < 1 || params->send_depth > MAX_SEND_DEPTH ||
	    params->recv_depth < 1 || params->recv_depth > MAX_RECV_DEPTH ||
	    params->max_sge > RNIC_MAX_SGE || !params->on_completion)
		return -EINVAL;
	if (!params->user_receives &&
	    (params->recv_size < MIN_RECV_SIZE || params->recv_size > MAX_RECV_SIZE))
		return -EINVAL;
	int r = pd->rnic->backend->qp_create(pd, params, ret_qp);
	if (!r)
		(*ret_qp)->max_sge = params->max_sge ? params->max_sge : RNIC_FEW_SGE;
	return r;
}

uint32_t rnic_qp_num(const struct rnic_qp *qp)
{
	return qp->qpn;
}

int rnic_qp_connect(struct rnic_qp *qp, const struct rnic_qp_peer *peer)
{
	if (peer->path_mtu < 1 || peer->path_mtu > 5 || peer->qpn > 0xFFFFFF ||
	    peer->rq_psn > 0xFFFFFF || peer->reads_answered > qp->rnic->info.max_reads_answered)
		return -EINVAL;
	return qp->rnic->backend->qp_connect(qp, peer);
}

int rnic_qp_start(struct rnic_qp *qp, const struct rnic_qp_send_params *params)
{
	if (params->sq_psn > 0xFFFFFF || params->retry_ms == 0 || params->rnr_retry > 7 ||
	    params->reads_asked > qp->rnic->info.max_reads_asked)
		return -EINVAL;
	int r = qp->rnic->backend->qp_start(qp, params);
	if (!r)
		qp->may_read = params->reads_asked > 0;
	return r;
}

void rnic_qp_set_retry(struct rnic_qp *qp, unsigned int retry_ms)
{
	if (qp->rnic->backend->qp_set_retry && retry_ms)
		qp->rnic->backend->qp_set_retry(qp, retry_ms);
}

void rnic_qp_want_ack(struct rnic_qp *qp)
{
	if (qp->rnic->backend->qp_want_ack)
		qp->rnic->backend->qp_want_ack(qp);
}

void rnic_qp_error(struct rnic_qp *qp)
{
	qp->rnic->backend->qp_error(qp);
}

void rnic_qp_destroy(struct rnic_qp *qp)
{
	qp->rnic->backend->qp_destroy(qp);
}

static bool opcode_sound(const struct rnic_qp *qp, const struct rnic_send_wr *wr)
{
	switch (wr->opcode) {
	case RNIC_WR_SEND:
	case RNIC_WR_SEND_INVALIDATE:
	case RNIC_WR_RDMA_WRITE: return true;
	case RNIC_WR_RDMA_READ: return qp->may_read && !(wr->flags & RNIC_SEND_INLINE);
	}
	return false;
}

static bool wr_sound(const struct rnic_qp *qp, const struct rnic_send_wr *wr)
{
	const struct rnic_sge *sge = wr->pieces ? wr->pieces : wr->sge;
	uint64_t length = 0;
	if (wr->num_sge > (wr->pieces ? qp->max_sge : RNIC_FEW_SGE) || !opcode_sound(qp, wr))
		return false;
	for (unsigned int i = 0; i < wr->num_sge; i++)
		length += sge[i].length;
	return length <= (wr->flags & RNIC_SEND_INLINE ? RNIC_MAX_INLINE : MAX_MESSAGE);
}

int rnic_post_send(struct rnic_qp *qp, const struct rnic_send_wr *wr, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!wr_sound(qp, &wr[i]))
			return -EINVAL;
	}
	return qp->rnic->backend->post_send(qp, wr, n);
}

int rnic_post_recv(struct rnic_qp *qp, const struct rnic_recv_wr *wr, size_t n)
{
	return qp->rnic->backend->post_recv(qp, wr, n);
}

void rnic_qp_get_stats(const struct rnic_qp *qp, struct rnic_qp_stats *ret_stats)
{
	qp->rnic->backend->qp_get_stats(qp, ret_stats);
}

const char *rnic_wc_status_text(enum rnic_wc_status status)
{
	switch (status) {
	case RNIC_WC_SUCCESS: return "success";
	case RNIC_WC_LOC_PROT_ERR: return "this host's RDMA device may not read the memory";
	case RNIC_WC_REM_ACCESS_ERR: return "the peer's RDMA device lets nobody write there";
	case RNIC_WC_REM_INV_REQ_ERR: return "the peer's RDMA device does not take such a request";
	case RNIC_WC_REM_OP_ERR: return "the peer's RDMA device has failed";
	case RNIC_WC_RETRY_EXC_ERR:
		return "the peer's RDMA device has acknowledged nothing in time";
	case RNIC_WC_RNR_RETRY_EXC_ERR: return "the peer's RDMA device had no room for it in time";
	case RNIC_WC_BAD_RESP_ERR:
		return "the peer's RDMA device has given an answer that does not fit";
	case RNIC_WC_WR_FLUSH_ERR: return "the queue pair has ended";
	case RNIC_WC_GENERAL_ERR: return "the RDMA device gave no reason";
	}
	return "unknown";
}

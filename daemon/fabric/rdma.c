/* SPDX-License-Identifier: MIT */
/*
 * The engine's operations on RNICs, fabric_rdma_ops, and the completions of queue pairs, which the
 * engine is told.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <syslog.h>

#include "daemon/fabric/internal.h"
#include "daemon/host/log.h"
#include "daemon/host/pages.h"
#include "daemon/rnic/verbs.h"
#include "daemon/smcr/view.h"
#include "proto/smcr/llc.h"

/* SENDs of SMC-R version 1 have 44 bytes; LLC-8 demands enough buffers that none is lost. SENDs of
 * version 2 are rarely longer, but may have 8192 bytes. A peer of version 2 sends again if there is
 * no buffer, and has at most a few dozen SENDs under way on a link. */
#define RECV_SIZE     64
#define RECV_DEPTH    1024
#define RECV_DEPTH_V2 256

/* ---- memory ---- */

static int op_mem_alloc(void *ctx, size_t len, void **ret_addr)
{
	(void)ctx;
	void *addr = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (addr == MAP_FAILED)
		return -errno;
	*ret_addr = addr;
	return 0;
}

static void op_mem_free(void *ctx, void *addr, size_t len)
{
	(void)ctx;
	munmap(addr, len);
}

bool fabric_can_share(struct fabric *fabric)
{
	return !fabric_find_rnic(fabric, RNIC_VERBS, 0);
}

/* A verbs device may have been added since: it would write into the old pages. */
static int op_mem_recover(void *ctx, void *addr, size_t len)
{
	return fabric_can_share(ctx) ? pages_renew(addr, len) : -EBUSY;
}

static int op_mem_discard(void *ctx, void *addr, size_t len)
{
	return fabric_can_share(ctx) ? pages_discard(addr, len) : -EBUSY;
}

/* ---- the tap ---- */

static void tell_tap(struct fabric_qp *qp, struct fabric_message *message)
{
	const struct fabric_tap *tap = qp->fabric->tap;
	message->link_ref = qp->link_ref;
	message->device_id = qp->device->id;
	message->marks = qp->marks;
	if (tap->writes || !message->is_write)
		tap->message(tap->ctx, message);
}

static void tap_posted(struct fabric_qp *qp, const struct rnic_send_wr *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct fabric_message message = { .sent = true,
						  .is_write = list[i].opcode == RNIC_WR_RDMA_WRITE,
						  .data = list[i].sge[0].addr,
						  .length = list[i].sge[0].length,
						  .remote_addr = list[i].remote_addr,
						  .rkey = list[i].rkey };
		tell_tap(qp, &message);
	}
}

static void tap_received(struct fabric_qp *qp, const struct rnic_wc *wc)
{
	struct smcr_arrival arrivals[2];
	size_t n = 0;
	if (qp->fabric->tap->writes)
		n = smcr_engine_arrivals(qp->fabric->engine, qp->link_ref, wc->data, wc->length,
					 arrivals);
	for (size_t i = 0; i < n; i++) {
		struct fabric_message message = { .is_write = true,
						  .data = arrivals[i].addr,
						  .length = arrivals[i].length,
						  .remote_addr = arrivals[i].remote_addr,
						  .rkey = arrivals[i].rkey };
		tell_tap(qp, &message);
	}
	struct fabric_message message = { .data = wc->data, .length = wc->length };
	tell_tap(qp, &message);
}

void fabric_set_tap(struct fabric *fabric, const struct fabric_tap *tap)
{
	fabric->tap = tap;
}

/* ---- outboxes ---- */

static void mark_dirty(struct fabric_qp *qp)
{
	if (qp->dirty)
		return;
	qp->dirty = true;
	DL_APPEND2(qp->fabric->dirty, qp, dirty_prev, dirty_next);
}

static void forget_dirty(struct fabric_qp *qp)
{
	if (!qp->dirty)
		return;
	qp->dirty = false;
	DL_DELETE2(qp->fabric->dirty, qp, dirty_prev, dirty_next);
}

/* fabric_post_all() tells the engine of an error. After an error nothing more is posted. */
static void post_outbox(struct fabric_qp *qp)
{
	const size_t n = qp->outbox.num_writes + qp->outbox.num_sends;
	if (qp->post_error)
		outbox_clear(&qp->outbox);
	else
		qp->post_error = outbox_post(&qp->outbox, qp->qp);
	if (qp->fabric->tap && !qp->post_error)
		tap_posted(qp, qp->outbox.list, n); /* as it was posted */
}

static void put_into_outbox(struct fabric_qp *qp, const struct rnic_send_wr *list, size_t n)
{
	while (n > 0) {
		bool empty = outbox_is_empty(&qp->outbox);
		size_t added = outbox_add(&qp->outbox, list, n);
		if (added == 0)
			post_outbox(qp);
		else if (empty && !qp->post_error)
			qp->first_wr_id = list[0].wr_id;
		list += added;
		n -= added;
	}
	mark_dirty(qp);
}

void fabric_post_all(struct fabric *fabric)
{
	while (fabric->dirty) {
		struct fabric_qp *qp = fabric->dirty;
		forget_dirty(qp);
		post_outbox(qp);
		const int error = qp->post_error;
		qp->post_error = 0;
		if (qp->want_ack && !error)
			rnic_qp_want_ack(qp->qp);
		qp->want_ack = false;
		if (error)
			smcr_engine_not_posted(fabric->engine, qp->link_ref, qp->first_wr_id,
					       strerror(-error));
	}
}

/* ---- completions ---- */

static void deliver(struct fabric_qp *qp, const struct rnic_wc *wc)
{
	struct smcr_engine *engine = qp->fabric->engine;
	if (wc->is_recv) {
		if (qp->fabric->tap && wc->status == RNIC_WC_SUCCESS)
			tap_received(qp, wc);
		if (wc->status == RNIC_WC_SUCCESS)
			smcr_engine_recv(engine, qp->link_ref, wc->data, wc->length);
		else
			smcr_engine_qp_failed(engine, qp->link_ref,
					      rnic_wc_status_text(wc->status));
		return;
	}
	enum smcr_send_status status = SMCR_SEND_REFUSED;
	if (wc->status == RNIC_WC_SUCCESS)
		status = SMCR_SEND_OK;
	else if (wc->status == RNIC_WC_RETRY_EXC_ERR)
		status = SMCR_SEND_FAILED;
	else if (wc->status == RNIC_WC_REM_ACCESS_ERR)
		status = SMCR_SEND_DENIED;
	else if (wc->status == RNIC_WC_WR_FLUSH_ERR)
		status = SMCR_SEND_FLUSHED;
	smcr_engine_send_done(engine, qp->link_ref, wc->wr_id, status,
			      rnic_wc_status_text(wc->status));
}

static bool is_barrier(const struct rnic_wc *wc)
{
	return wc->is_recv && wc->status == RNIC_WC_SUCCESS &&
	       smcr_engine_recv_is_barrier(wc->data, wc->length);
}

static void on_completion(void *ctx, struct rnic_qp *rnic_qp, const struct rnic_wc *wc, size_t n)
{
	struct fabric_qp *qp = ctx;
	struct fabric *fabric = qp->fabric;
	bool destroyed = false;
	(void)rnic_qp;
	qp->destroyed = &destroyed;
	fabric->activity++;
	smcr_engine_set_time(fabric->engine, fabric_begin_work(fabric, FABRIC_COMPLETIONS));
	for (size_t i = 0; i < n && !destroyed; i++) {
		if (is_barrier(&wc[i]))
			fabric_poll_devices(fabric);
		if (!destroyed)
			deliver(qp, &wc[i]);
	}
	if (!destroyed)
		qp->destroyed = NULL;
	fabric_post_all(fabric);
}

/* ---- queue pairs ---- */

static struct fabric_device *device_by_id(struct fabric *fabric, uint32_t id)
{
	struct fabric_device *device;
	DL_FOREACH (fabric->devices, device) {
		if (device->id == id)
			return device;
	}
	return NULL;
}

static bool may_give_up(void *ctx, struct rnic_qp *rnic_qp, uint64_t silent_us)
{
	const struct fabric_qp *qp = ctx;
	(void)rnic_qp;
	return smcr_engine_may_give_up(qp->fabric->engine, qp->link_ref, silent_us);
}

static int op_qp_create(void *ctx, uint32_t device_id, uint64_t link_ref, uint32_t send_depth,
			uint32_t recv_len, void **ret_qp, uint32_t *ret_qpn)
{
	struct fabric *fabric = ctx;
	struct fabric_device *device = device_by_id(fabric, device_id);
	struct fabric_qp *qp = device ? calloc(1, sizeof(*qp)) : NULL;
	if (!qp)
		return device ? -ENOMEM : -ENODEV;
	qp->fabric = fabric;
	qp->device = device;
	qp->link_ref = link_ref;
	int error = rnic_pd_alloc(device->rnic, &qp->pd);
	if (!error) {
		bool v1 = recv_len <= RECV_SIZE;
		struct rnic_qp_params params = { .send_depth = send_depth,
						 .recv_depth = v1 ? RECV_DEPTH : RECV_DEPTH_V2,
						 .recv_size = v1 ? RECV_SIZE : recv_len,
						 .on_completion = on_completion,
						 .may_give_up = may_give_up,
						 .ctx = qp };
		error = rnic_qp_create(qp->pd, &params, &qp->qp);
		if (error)
			rnic_pd_free(qp->pd);
	}
	if (error) {
		free(qp);
		return error;
	}
	*ret_qp = qp;
	*ret_qpn = rnic_qp_num(qp->qp);
	return 0;
}

static int op_qp_connect(void *ctx, void *handle, const struct smcr_qp_peer *peer)
{
	struct fabric_qp *qp = handle;
	struct rnic_qp_peer rnic_peer = {
		.qpn = peer->qpn, .rq_psn = peer->psn, .path_mtu = peer->mtu, .sgid_index = 0
	};
	(void)ctx;
	memcpy(rnic_peer.gid, peer->gid, sizeof(rnic_peer.gid));
	memcpy(rnic_peer.mac, peer->mac, sizeof(rnic_peer.mac));
	return rnic_qp_connect(qp->qp, &rnic_peer);
}

static int op_qp_start(void *ctx, void *handle, uint32_t psn, uint32_t retry_ms)
{
	struct fabric_qp *qp = handle;
	struct rnic_qp_send_params params = { .sq_psn = psn, .retry_ms = retry_ms, .rnr_retry = 7 };
	(void)ctx;
	return rnic_qp_start(qp->qp, &params);
}

static void op_qp_set_retry(void *ctx, void *handle, uint32_t retry_ms)
{
	(void)ctx;
	rnic_qp_set_retry(((struct fabric_qp *)handle)->qp, retry_ms);
}

static void op_qp_want_ack(void *ctx, void *handle)
{
	struct fabric_qp *qp = handle;
	(void)ctx;
	qp->want_ack = true;
	mark_dirty(qp);
}

/* Post first what the engine has posted, so that it is flushed too. */
static void op_qp_error(void *ctx, void *handle)
{
	struct fabric_qp *qp = handle;
	(void)ctx;
	if (qp->dirty)
		post_outbox(qp);
	rnic_qp_error(qp->qp);
}

void fabric_qp_stats(void *qp, struct rnic_qp_stats *ret_stats)
{
	rnic_qp_get_stats(((struct fabric_qp *)qp)->qp, ret_stats);
}

static uint64_t op_qp_heard(void *ctx, void *handle)
{
	struct rnic_qp_stats stats;
	(void)ctx;
	fabric_qp_stats(handle, &stats);
	return stats.heard_us;
}

static void op_qp_destroy(void *ctx, void *handle)
{
	struct fabric_qp *qp = handle;
	(void)ctx;
	forget_dirty(qp);
	rnic_qp_destroy(qp->qp);
	if (qp->long_mr)
		rnic_mr_deregister(qp->long_mr);
	free(qp->long_send);
	rnic_pd_free(qp->pd);
	if (qp->destroyed)
		*qp->destroyed = true;
	free(qp);
}

/* Logged once for each device: the operator has to act, and connections stay TCP until then. */
static void complain(struct fabric_device *device, size_t len, int error)
{
	struct rnic_info info;
	char text[RNIC_ERROR_LEN];
	rnic_get_info(device->rnic, &info);
	if (device->complained || info.kind != RNIC_VERBS)
		return;
	device->complained = true;
	rnic_verbs_explain_memory(info.name, len, error, text);
	log_message(LOG_WARNING, "%s", text);
}

/* Logged once for each device. Nothing else tells which devices keep to the true addresses. */
static void tell_addresses(struct fabric_device *device)
{
	struct rnic_info info;
	if (device->told_addresses)
		return;
	device->told_addresses = true;
	rnic_get_info(device->rnic, &info);
	log_message(
		LOG_NOTICE,
		"rnic %s: peers learn at which addresses of smcrd's memory RMBs lie: the device "
		"or its driver takes no other addresses for them",
		info.name);
}

static int op_mr_register(void *ctx, void *handle, void *addr, size_t len, bool remote,
			  struct smcr_mr *ret_mr)
{
	struct fabric_qp *qp = handle;
	struct rnic_mr *mr;
	unsigned int access =
		RNIC_ACCESS_LOCAL_WRITE | (remote ? (unsigned int)RNIC_ACCESS_REMOTE_WRITE : 0);
	(void)ctx;
	int error = rnic_mr_register(qp->pd, addr, len, access, &mr);
	if (error) {
		complain(qp->device, len, error);
		return error;
	}
	*ret_mr = (struct smcr_mr){ .handle = mr,
				    .lkey = rnic_mr_lkey(mr),
				    .rkey = rnic_mr_rkey(mr),
				    .vaddr = rnic_mr_vaddr(mr) };
	if (remote && ret_mr->vaddr == (uintptr_t)addr)
		tell_addresses(qp->device);
	return 0;
}

static void op_mr_deregister(void *ctx, void *mr)
{
	(void)ctx;
	rnic_mr_deregister(mr);
}

static bool is_long(const struct smcr_wr *wr)
{
	return !wr->is_write && wr->length > RNIC_MAX_INLINE;
}

/** Copy a long SEND into registered memory, which is free because the long SEND before has
 * completed. */
static int keep_long_send(struct fabric_qp *qp, const struct smcr_wr *wr)
{
	if (wr->length > SMCR_LLC_V2_SEND_MAX)
		return -EINVAL;
	if (!qp->long_send)
		qp->long_send = malloc(SMCR_LLC_V2_SEND_MAX);
	if (!qp->long_send)
		return -ENOMEM;
	if (!qp->long_mr) {
		int error = rnic_mr_register(qp->pd, qp->long_send, SMCR_LLC_V2_SEND_MAX,
					     RNIC_ACCESS_LOCAL_WRITE, &qp->long_mr);
		if (error)
			return error;
	}
	memcpy(qp->long_send, wr->addr, wr->length);
	return 0;
}

static int convert_wr(struct fabric_qp *qp, const struct smcr_wr *wr, struct rnic_send_wr *ret)
{
	int error = is_long(wr) ? keep_long_send(qp, wr) : 0;
	if (error)
		return error;
	unsigned int send = RNIC_SEND_SOLICITED | (is_long(wr) ? 0u : RNIC_SEND_INLINE);
	*ret = (struct rnic_send_wr){
		.wr_id = wr->wr_id,
		.opcode = wr->is_write ? RNIC_WR_RDMA_WRITE : RNIC_WR_SEND,
		.flags = (wr->signaled ? RNIC_SEND_SIGNALED : 0u) | (wr->is_write ? 0u : send),
		.num_sge = 1,
		.sge = { { wr->addr, wr->length, wr->lkey } },
		.remote_addr = wr->remote_addr,
		.rkey = wr->rkey,
	};
	if (is_long(wr))
		ret->sge[0] =
			(struct rnic_sge){ qp->long_send, wr->length, rnic_mr_lkey(qp->long_mr) };
	return 0;
}

static int op_post(void *ctx, void *handle, const struct smcr_wr *wr, size_t n)
{
	struct fabric_qp *qp = handle;
	struct rnic_send_wr list[16];
	(void)ctx;
	if (n > sizeof(list) / sizeof(list[0]))
		return -EINVAL; /* the engine posts only a few at a time */
	for (size_t i = 0; i < n; i++) {
		int error = convert_wr(qp, &wr[i], &list[i]);
		if (error)
			return error;
	}
	put_into_outbox(qp, list, n);
	return 0;
}

const struct smcr_rdma_ops fabric_rdma_ops = {
	.mem_alloc = op_mem_alloc,
	.mem_free = op_mem_free,
	.mem_recover = op_mem_recover,
	.mem_discard = op_mem_discard,
	.qp_create = op_qp_create,
	.qp_connect = op_qp_connect,
	.qp_start = op_qp_start,
	.qp_set_retry = op_qp_set_retry,
	.qp_want_ack = op_qp_want_ack,
	.qp_error = op_qp_error,
	.qp_heard = op_qp_heard,
	.qp_destroy = op_qp_destroy,
	.mr_register = op_mr_register,
	.mr_deregister = op_mr_deregister,
	.post = op_post,
};

/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "daemon/rnic/verbs/internal.h"

#define PAGE       4096
#define RECV_CHUNK 64

/* In ERR a device flushes outstanding requests at once; this is for devices that do not. */
static const struct timeval flush_patience = { 2, 0 };

static void on_end_timer(evutil_socket_t fd, short what, void *arg)
{
	struct verbs_qp *qp = arg;
	(void)fd;
	(void)what;
	qp->end_now = qp->ready = true;
	verbs_device_kick(qp->dev);
}

static int memory_alloc(struct verbs_memory *memory, struct ibv_pd *pd, size_t len)
{
	len = (len + PAGE - 1) / PAGE * PAGE;
	memory->mem = aligned_alloc(PAGE, len);
	if (!memory->mem)
		return -ENOMEM;
	memset(memory->mem, 0, len);
	memory->mr = ibv_reg_mr(pd, memory->mem, len, IBV_ACCESS_LOCAL_WRITE);
	return memory->mr ? 0 : -errno;
}

int verbs_qp_post_recvs(struct verbs_qp *qp, const uint32_t *buffers, unsigned int n)
{
	struct ibv_recv_wr wrs[RECV_CHUNK], *bad = NULL;
	struct ibv_sge sges[RECV_CHUNK];
	assert(n <= RECV_CHUNK);
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

static int post_all_recvs(struct verbs_qp *qp)
{
	uint32_t buffers[RECV_CHUNK];
	for (uint32_t at = 0; at < qp->recv_depth;) {
		unsigned int n = 0;
		while (n < RECV_CHUNK && at < qp->recv_depth)
			buffers[n++] = at++;
		int error = verbs_qp_post_recvs(qp, buffers, n);
		if (error)
			return error;
	}
	return 0;
}

/* Both queues must fit the limits of the device; fewer receive buffers are acceptable. */
static int choose_depths(struct verbs_qp *qp)
{
	const struct ibv_device_attr *attr = &qp->dev->attr;
	uint32_t max_wr = (uint32_t)attr->max_qp_wr, max_cqe = (uint32_t)attr->max_cqe;
	uint32_t send_depth = qp->params.send_depth;
	qp->recv_depth = qp->params.recv_depth < max_wr ? qp->params.recv_depth : max_wr;
	if (send_depth > max_wr || send_depth >= max_cqe)
		return -EINVAL;
	if (qp->recv_depth > max_cqe - send_depth)
		qp->recv_depth = max_cqe - send_depth;
	return 0;
}

static int create_objects(struct verbs_qp *qp)
{
	struct verbs_device *dev = qp->dev;
	int num_cqe = (int)(qp->params.send_depth + qp->recv_depth);
	qp->cq = ibv_create_cq(dev->context, num_cqe, qp, dev->channel, 0);
	if (!qp->cq)
		return -errno;
	struct ibv_qp_init_attr init = {
		.qp_context = qp,
		.send_cq = qp->cq,
		.recv_cq = qp->cq,
		.cap = { .max_send_wr = qp->params.send_depth,
			 .max_recv_wr = qp->recv_depth,
			 .max_send_sge = RNIC_MAX_SGE,
			 .max_recv_sge = 1,
			 .max_inline_data = dev->inline_wanted },
		.qp_type = IBV_QPT_RC, /* GEN-2 */
	};
	struct ibv_qp_init_attr without_inline = init;
	without_inline.cap.max_inline_data = 0;
	qp->qp = ibv_create_qp(qp->pd->pd, &init);
	if (qp->qp) {
		qp->max_inline = init.cap.max_inline_data;
	} else {
		qp->qp = ibv_create_qp(qp->pd->pd, &without_inline);
		qp->max_inline = without_inline.cap.max_inline_data;
	}
	if (qp->max_inline > dev->inline_wanted)
		qp->max_inline = dev->inline_wanted;
	return qp->qp ? 0 : -errno;
}

static int alloc_memory(struct verbs_qp *qp)
{
	uint32_t depth = qp->params.send_depth;
	qp->send_wrs = calloc(depth, sizeof(*qp->send_wrs));
	qp->send_sges = calloc((size_t)depth * RNIC_MAX_SGE, sizeof(*qp->send_sges));
	qp->end_timer = evtimer_new(qp->dev->base.params.base, on_end_timer, qp);
	if (!qp->send_wrs || !qp->send_sges || !qp->end_timer)
		return -ENOMEM;
	int error = verbs_watch_init(qp);
	if (!error)
		error = verbs_sendq_init(&qp->sendq, depth);
	if (!error)
		error = memory_alloc(&qp->recv, qp->pd->pd,
				     (size_t)qp->recv_depth * qp->params.recv_size);
	if (!error && qp->max_inline < RNIC_MAX_INLINE)
		error = memory_alloc(&qp->bounce, qp->pd->pd, (size_t)depth * RNIC_MAX_INLINE);
	return error;
}

static int make_ready(struct verbs_qp *qp)
{
	struct ibv_qp_attr attr;
	int mask = verbs_attr_init(qp->dev->base.info.port, &attr);
	int error = verbs_result(ibv_modify_qp(qp->qp, &attr, mask));
	if (!error)
		error = post_all_recvs(qp);
	if (error)
		return error;
	verbs_qp_arm(qp);
	return qp->armed ? 0 : -EIO;
}

/* Runs on the reaper's thread, unless the QP was never used. Events of the completion queue that
 * wait in the kernel are dropped with it; events that were taken must have been acknowledged. */
static void release_objects(void *arg)
{
	struct verbs_qp *qp = arg;
	if (qp->qp)
		ibv_destroy_qp(qp->qp);
	if (qp->cq)
		ibv_destroy_cq(qp->cq);
	if (qp->bounce.mr)
		ibv_dereg_mr(qp->bounce.mr);
	if (qp->recv.mr)
		ibv_dereg_mr(qp->recv.mr);
}

static void free_memory(void *arg)
{
	struct verbs_qp *qp = arg;
	free(qp->bounce.mem);
	free(qp->recv.mem);
	verbs_sendq_free(&qp->sendq);
	free(qp->send_wrs);
	free(qp->send_sges);
	free(qp);
}

void verbs_qp_free(struct verbs_qp *qp)
{
	if (qp->end_timer)
		event_free(qp->end_timer);
	if (qp->watch)
		event_free(qp->watch);
	if (qp->left) /* the device still writes into its memory */
		return;
	if (verbs_reaper_busy(qp->dev->reaper))
		verbs_reaper_do(qp->dev->reaper, &qp->free);
	else
		free_memory(qp);
}

int verbs_qp_create(struct rnic_pd *pd, const struct rnic_qp_params *params,
		    struct rnic_qp **ret_qp)
{
	struct verbs_qp *qp = calloc(1, sizeof(*qp));
	if (!qp)
		return -ENOMEM;
	qp->base.rnic = pd->rnic;
	qp->dev = verbs_device_of(pd->rnic);
	qp->pd = (struct verbs_pd *)pd;
	qp->release = (struct verbs_job){ .run = release_objects, .arg = qp };
	qp->free = (struct verbs_job){ .run = free_memory, .arg = qp };
	qp->params = *params;
	int error = choose_depths(qp);
	if (!error)
		error = create_objects(qp);
	if (!error)
		error = alloc_memory(qp);
	if (!error)
		error = make_ready(qp);
	if (error) {
		release_objects(qp);
		verbs_qp_free(qp);
		return error;
	}
	qp->base.qpn = qp->qp->qp_num;
	qp->pd->qps++;
	DL_APPEND(qp->dev->qps, qp);
	*ret_qp = &qp->base;
	return 0;
}

static void unset_neighbour(struct verbs_qp *qp)
{
	const struct rnic_open_params *params = &qp->dev->base.params;
	const uint8_t *addr;
	int family;
	if (qp->neigh && verbs_gid_address(qp->peer_gid, &family, &addr))
		params->host_ops->neigh_unset(params->host_ctx, qp->neigh_ifindex, family, addr,
					      qp->peer_mac);
	qp->neigh = false;
}

static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned int bits)
{
	for (; bits >= 8; bits -= 8)
		if (*a++ != *b++)
			return false;
	return !bits || !((*a ^ *b) & (uint8_t)(0xFF << (8 - bits)));
}

/* Does the host resolve the MAC of this address itself, and not that of a gateway? */
static bool is_neighbour(const struct rnic_info *info, int family, const uint8_t *addr)
{
	for (size_t i = 0; i < info->num_gids; i++) {
		const uint8_t *own;
		int own_family;
		if (verbs_gid_address(info->gids[i].raw, &own_family, &own) &&
		    own_family == family && same_bits(own, addr, info->gids[i].prefix_len))
			return true;
	}
	return false;
}

static bool is_own(const struct rnic_info *info, const uint8_t gid[16])
{
	for (size_t i = 0; i < info->num_gids; i++)
		if (!memcmp(info->gids[i].raw, gid, sizeof(info->gids[i].raw)))
			return true;
	return false;
}

/*
 * The kernel resolves the MAC of a user-space QP from the destination GID on the way to RTR, and
 * rdma_rxe reads the neighbour table for each packet. So the MAC that the peer gave (CLC-17) is
 * used if it is in that table. If the table has no entry, the kernel would wait for an answer for
 * up to a second, and block all links of this process; so the peer counts as unreachable then.
 * Three kinds of peers need no entry: a link-local GID contains the MAC, this host itself needs
 * none, and a peer behind a gateway is reached by the gateway's MAC, which TCP has resolved
 * already.
 */
static int set_neighbour(struct verbs_qp *qp, const struct rnic_qp_peer *peer)
{
	static const uint8_t no_mac[6];
	const struct rnic_open_params *params = &qp->dev->base.params;
	const struct rnic_info *info = &qp->dev->base.info;
	const bool named = memcmp(peer->mac, no_mac, sizeof(no_mac)) != 0;
	const uint8_t *addr;
	int family;
	if (!params->host_ops || !verbs_gid_address(peer->gid, &family, &addr) ||
	    is_own(info, peer->gid) || (!named && !is_neighbour(info, family, addr)))
		return 0;
	int error = params->host_ops->neigh_set(params->host_ctx, info->ifindex, family, addr,
						peer->mac);
	if (error)
		return error;
	qp->neigh = true;
	qp->neigh_ifindex = info->ifindex;
	memcpy(qp->peer_gid, peer->gid, sizeof(qp->peer_gid));
	memcpy(qp->peer_mac, peer->mac, sizeof(qp->peer_mac));
	/* The QP keeps the MAC that the kernel resolves now. */
	if (!params->host_ops->neigh_settle || params->host_ops->neigh_settle(params->host_ctx))
		return 0;
	unset_neighbour(qp);
	return -EHOSTUNREACH;
}

int verbs_qp_connect(struct rnic_qp *base, const struct rnic_qp_peer *peer)
{
	struct verbs_qp *qp = (struct verbs_qp *)base;
	const struct verbs_device *dev = qp->dev;
	struct ibv_qp_attr attr;
	if (qp->state != VERBS_QP_INIT || peer->path_mtu > dev->base.info.max_path_mtu)
		return -EINVAL;
	if (peer->sgid_index >= dev->base.info.num_gids)
		return -EADDRNOTAVAIL;
	int error = set_neighbour(qp, peer);
	if (error)
		return error;
	int mask =
		verbs_attr_rtr(dev->base.info.port, dev->gid_index[peer->sgid_index], peer, &attr);
	error = verbs_result(ibv_modify_qp(qp->qp, &attr, mask));
	if (error) {
		unset_neighbour(qp);
		return error;
	}
	qp->state = VERBS_QP_RTR;
	return 0;
}

int verbs_qp_start(struct rnic_qp *base, const struct rnic_qp_send_params *params)
{
	struct verbs_qp *qp = (struct verbs_qp *)base;
	struct ibv_qp_attr attr;
	if (qp->state != VERBS_QP_RTR)
		return -EINVAL;
	int mask = verbs_attr_rts(params, qp->dev->endless, &attr);
	int error = verbs_result(ibv_modify_qp(qp->qp, &attr, mask));
	if (error)
		return error;
	qp->state = VERBS_QP_RTS;
	/* A single lost packet that is repeated is no failure. */
	struct verbs_patience once = { attr.timeout, 0 };
	verbs_watch_start(qp, params->retry_ms, 2 * verbs_patience_us(once));
	return 0;
}

void verbs_qp_fail(struct verbs_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	if (qp->dead || qp->state == VERBS_QP_ERR)
		return; /* a dead QP may have been left at work */
	qp->state = VERBS_QP_ERR;
	qp->ready = true;
	if (ibv_modify_qp(qp->qp, &attr, IBV_QP_STATE))
		qp->end_now = true;
	else
		event_add(qp->end_timer, &flush_patience);
	verbs_device_kick(qp->dev);
}

/* Users also call this before they destroy the QP. */
void verbs_qp_user_error(struct rnic_qp *base)
{
	struct verbs_qp *qp = (struct verbs_qp *)base;
	if (!qp->dev->leaving) {
		verbs_qp_fail(qp);
		return;
	}
	qp->error_due = qp->ready = true;
	verbs_device_kick(qp->dev);
}

/* The peer's writes must end now, even if the kernel takes long to destroy the QP. */
static void stop_device(struct verbs_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	if (qp->state != VERBS_QP_ERR)
		ibv_modify_qp(qp->qp, &attr, IBV_QP_STATE);
	qp->state = VERBS_QP_ERR;
}

/* The memory stays until the end of the run, because the callback may have a pointer into it. */
void verbs_qp_destroy(struct rnic_qp *base)
{
	struct verbs_qp *qp = (struct verbs_qp *)base;
	struct verbs_device *dev = qp->dev;
	unset_neighbour(qp);
	qp->left = dev->leaving && qp->state != VERBS_QP_ERR;
	if (!qp->left)
		stop_device(qp);
	event_del(qp->end_timer);
	event_del(qp->watch);
	qp->dead = true;
	qp->pd->qps--;
	ibv_ack_cq_events(qp->cq, qp->unacked);
	if (!qp->left)
		verbs_reaper_do(dev->reaper, &qp->release);
	if (dev->running) {
		dev->untidy = true;
	} else {
		DL_DELETE(dev->qps, qp);
		verbs_qp_free(qp);
	}
}

/* ---- sending */

static uint32_t total_length(const struct rnic_send_wr *wr)
{
	uint32_t length = 0;
	for (unsigned int i = 0; i < wr->num_sge; i++)
		length += wr->sge[i].length;
	return length;
}

/* Inline data that the device does not take are copied to the slot's place in registered memory. */
static void bounce(struct verbs_qp *qp, uint64_t seq, const struct rnic_send_wr *wr,
		   struct ibv_sge *sge)
{
	uint8_t *place = qp->bounce.mem + seq % qp->sendq.depth * RNIC_MAX_INLINE;
	uint32_t length = 0;
	for (unsigned int i = 0; i < wr->num_sge; i++) {
		if (wr->sge[i].length > 0)
			memcpy(place + length, wr->sge[i].addr, wr->sge[i].length);
		length += wr->sge[i].length;
	}
	*sge = (struct ibv_sge){ (uintptr_t)place, length, qp->bounce.mr->lkey };
}

static void convert(struct verbs_qp *qp, uint64_t seq, const struct rnic_send_wr *wr,
		    struct ibv_sge *sges, struct ibv_send_wr *ret)
{
	bool is_write = wr->opcode == RNIC_WR_RDMA_WRITE;
	bool is_inline = wr->flags & RNIC_SEND_INLINE;
	unsigned int flags = 0;
	if (wr->flags & RNIC_SEND_SIGNALED)
		flags |= IBV_SEND_SIGNALED;
	if (wr->flags & RNIC_SEND_SOLICITED && !is_write)
		flags |= IBV_SEND_SOLICITED;
	*ret = (struct ibv_send_wr){ .wr_id = seq,
				     .sg_list = sges,
				     .num_sge = (int)wr->num_sge,
				     .opcode = is_write ? IBV_WR_RDMA_WRITE : IBV_WR_SEND };
	if (is_inline && total_length(wr) > qp->max_inline) {
		bounce(qp, seq, wr, sges);
		ret->num_sge = 1;
	} else {
		for (unsigned int i = 0; i < wr->num_sge; i++)
			sges[i] = (struct ibv_sge){ (uintptr_t)wr->sge[i].addr, wr->sge[i].length,
						    wr->sge[i].lkey };
		if (is_inline)
			flags |= IBV_SEND_INLINE;
	}
	ret->send_flags = flags;
	if (is_write) {
		ret->wr.rdma.remote_addr = wr->remote_addr;
		ret->wr.rdma.rkey = wr->rkey;
	}
}

int verbs_qp_post_send(struct rnic_qp *base, const struct rnic_send_wr *wr, size_t n)
{
	struct verbs_qp *qp = (struct verbs_qp *)base;
	struct ibv_send_wr *bad = NULL;
	uint64_t bytes = 0;
	if (qp->state == VERBS_QP_ERR)
		return -EIO;
	if (qp->state != VERBS_QP_RTS)
		return -ENOTCONN;
	if (n > verbs_sendq_room(&qp->sendq))
		return -ENOMEM;
	if (n == 0)
		return 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t seq =
			verbs_sendq_push(&qp->sendq, wr[i].wr_id, wr[i].flags & RNIC_SEND_SIGNALED);
		convert(qp, seq, &wr[i], &qp->send_sges[i * RNIC_MAX_SGE], &qp->send_wrs[i]);
		qp->send_wrs[i].next = i + 1 < n ? &qp->send_wrs[i + 1] : NULL;
		bytes += total_length(&wr[i]);
	}
	qp->send_wrs[n - 1].send_flags |= IBV_SEND_SIGNALED; /* sendq.c */
	int error = verbs_result(ibv_post_send(qp->qp, qp->send_wrs, &bad));
	if (error && (!bad || bad == qp->send_wrs)) {
		verbs_sendq_unpush(&qp->sendq, n);
		return error;
	}
	/* Some requests were taken, which cannot be undone, so all of them are flushed. */
	if (error)
		verbs_qp_fail(qp);
	verbs_watch_posted(qp);
	qp->tx_bytes += bytes;
	return 0;
}

void verbs_qp_get_stats(const struct rnic_qp *base, struct rnic_qp_stats *ret_stats)
{
	const struct verbs_qp *qp = (const struct verbs_qp *)base;
	*ret_stats = (struct rnic_qp_stats){
		.tx_bytes = qp->tx_bytes,
		.rx_bytes = qp->rx_bytes,
		.heard_us = qp->heard_at ? verbs_clock() - qp->heard_at : UINT64_MAX,
	};
}

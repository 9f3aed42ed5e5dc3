/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "daemon/rnic/verbs/internal.h"

#define PAGE 4096

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

int verbs_memory_alloc(struct verbs_memory *memory, struct ibv_pd *pd, size_t len)
{
	len = (len + PAGE - 1) / PAGE * PAGE;
	memory->mem = aligned_alloc(PAGE, len);
	if (!memory->mem)
		return -ENOMEM;
	memset(memory->mem, 0, len);
	memory->mr = ibv_reg_mr(pd, memory->mem, len, IBV_ACCESS_LOCAL_WRITE);
	return memory->mr ? 0 : -errno;
}

/* Both queues must fit the limits of the device; fewer receive buffers of ours are acceptable. */
static int choose_depths(struct verbs_qp *qp)
{
	const struct ibv_device_attr *attr = &qp->dev->attr;
	uint32_t max_wr = (uint32_t)attr->max_qp_wr, max_cqe = (uint32_t)attr->max_cqe;
	uint32_t send_depth = qp->params.send_depth;
	qp->max_sge = qp->params.max_sge > RNIC_FEW_SGE ? qp->params.max_sge : RNIC_FEW_SGE;
	qp->recv_depth = qp->params.recv_depth < max_wr ? qp->params.recv_depth : max_wr;
	if (send_depth > max_wr || send_depth >= max_cqe || qp->max_sge > (uint32_t)attr->max_sge)
		return -EINVAL;
	if (qp->recv_depth > max_cqe - send_depth)
		qp->recv_depth = max_cqe - send_depth;
	/* A user counts on the places that it has asked for. */
	return qp->params.user_receives && qp->recv_depth < qp->params.recv_depth ? -EINVAL : 0;
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
			 .max_send_sge = qp->max_sge,
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
	qp->end_timer = evtimer_new(qp->dev->base.params.base, on_end_timer, qp);
	if (!qp->end_timer)
		return -ENOMEM;
	int error = verbs_watch_init(qp);
	if (!error)
		error = verbs_post_init(qp);
	if (!error)
		error = verbs_recv_init(qp);
	return error;
}

static int make_ready(struct verbs_qp *qp)
{
	struct ibv_qp_attr attr;
	int mask = verbs_attr_init(qp->dev->base.info.port, &attr);
	int error = verbs_result(ibv_modify_qp(qp->qp, &attr, mask));
	if (!error)
		error = verbs_recv_start(qp);
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
	verbs_post_free(qp);
	verbs_recv_free(qp);
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
	if (!qp->left) {
		stop_device(qp);
		verbs_window_drop_qp(qp); /* the kernel keeps a QP that has windows */
	}
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

void verbs_qp_get_stats(const struct rnic_qp *base, struct rnic_qp_stats *ret_stats)
{
	const struct verbs_qp *qp = (const struct verbs_qp *)base;
	*ret_stats = (struct rnic_qp_stats){
		.tx_bytes = qp->tx_bytes,
		.rx_bytes = qp->rx_bytes,
		.heard_us = qp->heard_at ? verbs_clock() - qp->heard_at : UINT64_MAX,
	};
}

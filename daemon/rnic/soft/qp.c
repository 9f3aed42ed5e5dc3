/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "daemon/rnic/alarm.h"
#include "daemon/rnic/soft/internal.h"

/* InfiniBand reserves numbers 0 and 1 for special queue pairs. */
static uint32_t new_qpn(struct soft_device *dev)
{
	for (;;) {
		uint32_t qpn = rnic_random() & ROCE_QPN_MASK;
		struct soft_qp *other;
		HASH_FIND(hh, dev->qps, &qpn, sizeof(qpn), other);
		if (qpn > 1 && !other)
			return qpn;
	}
}

/* How long a destroyed QP still answers that it has ended. rdma_rxe repeats a request every 140 ms,
 * and the kernel's SMC-R lets rdma_rxe do that for ever. Time in which the port is down does not
 * count, up to two minutes. */
#define GONE_US    1000000
#define GONE_TURNS 120

static void bury(struct soft_qp *qp);

static bool port_is_up(const struct soft_qp *qp)
{
	return qp->dev->base.info.state == RNIC_PORT_ACTIVE;
}

static void after_gone_time(struct soft_qp *qp)
{
	bool up = port_is_up(qp), was_up = qp->gone_up;
	qp->gone_up = up;
	if ((up && was_up) || ++qp->gone_turns == GONE_TURNS)
		bury(qp);
	else
		alarm_set(qp->timer, soft_clock() + GONE_US);
}

static void on_timer(void *ctx)
{
	struct soft_qp *qp = ctx;
	if (qp->gone) {
		after_gone_time(qp);
		return;
	}
	soft_device_hear(qp->dev); /* an answer that is in the socket is not missing */
	qp->dev->now = soft_clock();
	soft_requester_timer(qp);
	soft_responder_timer(qp);
	soft_qp_arm(qp);
	soft_device_run(qp->dev);
}

/* The earlier one of two deadlines; 0 is none. */
static uint64_t earlier(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

void soft_qp_arm(struct soft_qp *qp)
{
	uint64_t at = earlier(earlier(qp->rq.deadline, qp->rq.gap_deadline),
			      earlier(qp->rs.nak_deadline, qp->rs.ack_deadline));
	if (at)
		alarm_set(qp->timer, at);
	else
		alarm_clear(qp->timer);
}

int soft_qp_create(struct rnic_pd *pd, const struct rnic_qp_params *params, struct rnic_qp **ret_qp)
{
	struct soft_device *dev = soft_device_of(pd->rnic);
	struct soft_qp *qp = calloc(1, sizeof(*qp));
	if (!qp)
		return -ENOMEM;
	qp->base.rnic = pd->rnic;
	qp->dev = dev;
	qp->params = *params;
	/* One completion for each work request and each receive buffer, and one that tells of
	 * ERR. */
	qp->wcs = calloc(params->send_depth + params->recv_depth + 1, sizeof(*qp->wcs));
	int r = qp->wcs ? alarm_new(dev->base.params.base, on_timer, qp, &qp->timer) : -ENOMEM;
	if (!r)
		r = soft_requester_init(&qp->rq, params->send_depth, params->max_sge);
	if (!r)
		r = soft_responder_init(qp);
	if (r) {
		soft_qp_free(qp);
		return r;
	}
	qp->pd = (struct soft_pd *)pd;
	qp->pd->users++;
	qp->state = SOFT_QP_INIT;
	qp->base.qpn = new_qpn(dev);
	HASH_ADD(hh, dev->qps, base.qpn, sizeof(qp->base.qpn), qp);
	*ret_qp = &qp->base;
	return 0;
}

static struct soft_endpoint *endpoint_of(struct soft_device *dev, uint8_t gid_index)
{
	struct soft_endpoint *ep;
	DL_FOREACH (dev->endpoints, ep) {
		if (ep->present && gid_index-- == 0)
			return ep;
	}
	return NULL;
}

bool soft_gid_addr(const uint8_t gid[16], struct in_addr *ret_addr)
{
	static const uint8_t mapped[12] = { [10] = 0xFF, [11] = 0xFF };
	if (memcmp(gid, mapped, sizeof(mapped)) != 0)
		return false;
	memcpy(ret_addr, gid + sizeof(mapped), sizeof(*ret_addr));
	return true;
}

void soft_addr_gid(struct in_addr addr, uint8_t ret_gid[16])
{
	memset(ret_gid, 0, 10);
	memset(ret_gid + 10, 0xFF, 2);
	memcpy(ret_gid + 12, &addr, 4);
}

/* Ask for a neighbour entry, so that packets go to the MAC that the peer gave (CLC-17) and not to
 * the NIC that answers ARP first. Until the entry is there, packets go to that NIC; if that was
 * wrong they are sent again. No entry is needed for this host itself, which is reached through the
 * loopback interface, nor if the MAC is zero: the peer gave none, or is behind a router.
 */
static int set_neighbour(struct soft_qp *qp, const struct soft_endpoint *ep,
			 const struct rnic_qp_peer *peer)
{
	static const uint8_t no_mac[6];
	const struct rnic_open_params *params = &qp->dev->base.params;
	if (!params->host_ops || !memcmp(peer->mac, no_mac, sizeof(no_mac)) || qp->dev->loopback ||
	    qp->peer.sin_addr.s_addr == ep->addr.s_addr)
		return 0;
	int r = params->host_ops->neigh_set(params->host_ctx, qp->dev->base.info.ifindex, AF_INET,
					    &qp->peer.sin_addr, peer->mac);
	qp->neigh = r == 0;
	memcpy(qp->peer_mac, peer->mac, sizeof(qp->peer_mac));
	return r;
}

static void unset_neighbour(struct soft_qp *qp)
{
	const struct rnic_open_params *params = &qp->dev->base.params;
	if (qp->neigh)
		params->host_ops->neigh_unset(params->host_ctx, qp->dev->base.info.ifindex, AF_INET,
					      &qp->peer.sin_addr, qp->peer_mac);
	qp->neigh = false;
}

int soft_qp_connect(struct rnic_qp *base, const struct rnic_qp_peer *peer)
{
	struct soft_qp *qp = soft_qp_of(base);
	struct in_addr addr;
	struct soft_endpoint *ep = endpoint_of(qp->dev, peer->sgid_index);
	if (qp->state != SOFT_QP_INIT || !soft_gid_addr(peer->gid, &addr) ||
	    peer->path_mtu > qp->dev->base.info.max_path_mtu)
		return -EINVAL;
	if (!ep)
		return -EADDRNOTAVAIL;
	qp->peer = (struct sockaddr_in){ .sin_family = AF_INET,
					 .sin_port = htons(qp->dev->port),
					 .sin_addr = addr };
	int r = 0;
	if (peer->reads_answered && !qp->rs.responses)
		r = soft_responses_new(peer->reads_answered, &qp->rs.responses);
	if (!r)
		r = set_neighbour(qp, ep, peer);
	if (r)
		return r;
	qp->ep = ep;
	ep->users++;
	const struct roce_flow flow = { .saddr = ep->addr.s_addr,
					.daddr = addr.s_addr,
					.sport = htons(qp->dev->port),
					.dport = htons(qp->dev->port) };
	roce_icrc_flow_init(&qp->flow, &flow);
	qp->peer_qpn = peer->qpn;
	qp->mtu = 128u << peer->path_mtu;
	qp->rs.expected = peer->rq_psn;
	qp->state = SOFT_QP_RTR;
	return 0;
}

int soft_qp_start(struct rnic_qp *base, const struct rnic_qp_send_params *params)
{
	struct soft_qp *qp = soft_qp_of(base);
	if (qp->state != SOFT_QP_RTR)
		return -EINVAL;
	int r = soft_requester_start(qp, params);
	if (r)
		return r;
	qp->state = SOFT_QP_RTS;
	return 0;
}

void soft_qp_set_retry(struct rnic_qp *base, unsigned int retry_ms)
{
	struct soft_qp *qp = soft_qp_of(base);
	if (qp->state == SOFT_QP_RTS)
		soft_requester_set_retry(qp, retry_ms);
}

/* Other RNICs acknowledge at once. */
void soft_qp_want_ack(struct rnic_qp *base)
{
	struct soft_qp *qp = soft_qp_of(base);
	if (qp->state != SOFT_QP_RTS || !qp->peer_is_soft)
		return;
	soft_requester_want_ack(qp);
	soft_qp_busy(qp);
	soft_device_kick(qp->dev);
}

void soft_qp_busy(struct soft_qp *qp)
{
	if (qp->busy || qp->dead)
		return;
	qp->busy = true;
	DL_APPEND(qp->dev->busy, qp);
}

void soft_qp_fail(struct soft_qp *qp, enum rnic_wc_status status)
{
	if (qp->state == SOFT_QP_ERR)
		return;
	qp->state = SOFT_QP_ERR;
	qp->flush = true;
	qp->flush_status = status;
	qp->rq.deadline = qp->rq.gap_deadline = 0;
	qp->rs.nak_deadline = qp->rs.ack_deadline = 0;
	qp->rs.ack_pending = qp->rs.nak_waits = false;
	soft_hold_clear(&qp->rs.hold);
	soft_responses_clear(&qp->rs);
	soft_qp_busy(qp);
}

void soft_qp_user_error(struct rnic_qp *base)
{
	struct soft_qp *qp = soft_qp_of(base);
	soft_responder_settle(qp);
	soft_qp_fail(qp, RNIC_WC_WR_FLUSH_ERR);
	soft_device_kick(qp->dev);
}

void soft_qp_complete(struct soft_qp *qp, const struct rnic_wc *wc)
{
	assert(qp->num_wcs < qp->params.send_depth + qp->params.recv_depth + 1);
	qp->wcs[qp->num_wcs++] = *wc;
	if (!wc->is_recv)
		qp->send_wcs++;
	soft_qp_busy(qp);
}

void soft_qp_deliver(struct soft_qp *qp)
{
	if (qp->flush) {
		qp->flush = false;
		soft_requester_flush(qp, qp->flush_status);
		soft_receives_flush(qp);
		soft_qp_complete(
			qp, &(struct rnic_wc){ .is_recv = true, .status = RNIC_WC_WR_FLUSH_ERR });
	}
	size_t n = qp->num_wcs;
	if (n == 0)
		return;
	/* Reset first: the callback may post, and what it posts may take the places of these
	 * completions. */
	qp->num_wcs = 0;
	qp->send_wcs = 0;
	unsigned int ready_again = soft_receives_tell(qp);
	qp->telling = true;
	qp->params.on_completion(qp->params.ctx, &qp->base, qp->wcs, n);
	qp->telling = false;
	qp->rs.receives.ready += ready_again;
}

static void free_memory(struct soft_qp *qp)
{
	soft_requester_free(&qp->rq);
	soft_responder_free(&qp->rs);
	free(qp->wcs);
	qp->wcs = NULL;
}

void soft_qp_free(struct soft_qp *qp)
{
	alarm_free(qp->timer);
	free_memory(qp);
	free(qp);
}

/* Keep the QP's number and the peer's address, to answer requests that the peer repeats. That is
 * not done if the user was not told of all that was received, since the answer would say so.
 * @return false: not done */
static bool stay_as_gone(struct soft_qp *qp)
{
	if (!qp->ep || qp->telling || qp->num_wcs > qp->send_wcs)
		return false;
	soft_qp_fail(qp, RNIC_WC_WR_FLUSH_ERR);
	qp->flush = false;
	qp->num_wcs = qp->send_wcs = 0;
	free_memory(qp);
	qp->gone = true;
	qp->gone_up = port_is_up(qp);
	alarm_set(qp->timer, soft_clock() + GONE_US);
	return true;
}

void soft_qp_destroy(struct rnic_qp *base)
{
	struct soft_qp *qp = soft_qp_of(base);
	soft_responder_settle(qp);
	soft_mw_leave_qp(qp);
	qp->pd->users--;
	qp->pd = NULL;
	unset_neighbour(qp);
	if (!stay_as_gone(qp))
		bury(qp);
}

void soft_qp_forget_gone(struct soft_device *dev)
{
	struct soft_qp *qp, *next;
	HASH_ITER (hh, dev->qps, qp, next)
		if (qp->gone)
			bury(qp);
}

static void bury(struct soft_qp *qp)
{
	struct soft_device *dev = qp->dev;
	HASH_DEL(dev->qps, qp);
	if (qp->ep && --qp->ep->users == 0 && !qp->ep->present)
		soft_endpoint_close(qp->ep);
	qp->ep = NULL;
	alarm_clear(qp->timer);
	/* The run loop may be using the QP: then it is freed at the end of the run. */
	qp->dead = true;
	if (!dev->running) {
		if (qp->busy)
			DL_DELETE(dev->busy, qp);
		soft_qp_free(qp);
	} else if (!qp->busy) {
		DL_APPEND(dev->graveyard, qp);
	}
}

int soft_qp_may_send(const struct soft_qp *qp)
{
	return qp->state == SOFT_QP_ERR ? -EIO : qp->state != SOFT_QP_RTS ? -ENOTCONN : 0;
}

int soft_qp_post_send(struct rnic_qp *base, const struct rnic_send_wr *wr, size_t n)
{
	struct soft_qp *qp = soft_qp_of(base);
	int r = soft_qp_may_send(qp);
	if (!r)
		r = soft_requester_post(qp, wr, n);
	if (r)
		return r;
	soft_qp_busy(qp);
	soft_device_kick(qp->dev);
	return 0;
}

int soft_qp_post_recv(struct rnic_qp *base, const struct rnic_recv_wr *wr, size_t n)
{
	struct soft_qp *qp = soft_qp_of(base);
	return qp->state == SOFT_QP_ERR ? -EIO : soft_receives_post(qp, wr, n);
}

void soft_qp_get_stats(const struct rnic_qp *base, struct rnic_qp_stats *ret_stats)
{
	const struct soft_qp *qp = soft_qp_of(base);
	*ret_stats = (struct rnic_qp_stats){
		.tx_bytes = qp->rq.tx_bytes,
		.rx_bytes = qp->rq.rx_bytes + qp->rs.rx_bytes,
		.retransmits = qp->rq.retransmits,
		.heard_us = qp->heard_at ? soft_clock() - qp->heard_at : UINT64_MAX,
	};
}

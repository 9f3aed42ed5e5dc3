/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "daemon/rnic/alarm.h"
#include "daemon/rnic/soft/internal.h"

/* Rounds of receiving and sending before the event loop handles other events. */
#define MAX_ROUNDS 4

/* How long the run loop polls after a burst, since the next burst comes soon. It yields the
 * processor between two looks. That costs both sides less than sleeping and being woken. */
#define LINGER_US     30
#define BURST_PACKETS 32

#define HOLD_BUDGET (64u << 20)

/* Least time between two readings of the port's state, each of which takes several system calls. */
#define LOOK_INTERVAL_US 10000

uint64_t soft_clock(void)
{
	return alarm_now();
}

/* ---- the run loop */

void soft_device_kick(struct soft_device *dev)
{
	if (!dev->running)
		event_active(dev->kick, EV_TIMEOUT, 0);
}

/* @return true: probably more datagrams have come meanwhile */
static bool receive(struct soft_device *dev)
{
	bool more = false;
	struct soft_endpoint *ep;
	DL_FOREACH (dev->endpoints, ep)
		more |= soft_rx_poll(ep);
	return more;
}

/* A QP that a callback destroys stays on the list, marked dead, until tidy(). */
static void deliver(struct soft_device *dev)
{
	struct soft_qp *qp;
	soft_gsi_deliver(dev);
	DL_FOREACH (dev->busy, qp) {
		if (dev->base.closed)
			return;
		if (!qp->dead && !qp->telling)
			soft_qp_deliver(qp);
	}
}

/* @param more_comes  another round follows, which probably finds more packets */
static size_t transmit(struct soft_device *dev, bool more_comes)
{
	size_t n = 0;
	struct soft_qp *qp;
	DL_FOREACH (dev->busy, qp) {
		if (!qp->dead && soft_responses_ready(qp))
			n += soft_responses_transmit(qp);
		if (!qp->dead)
			soft_responder_caught_up(qp);
		if (!qp->dead && soft_requester_ready(qp))
			n += soft_requester_transmit(qp);
	}
	DL_FOREACH (dev->busy, qp) {
		if (!qp->dead && soft_responder_ack_is_due(qp, more_comes))
			soft_responder_send_ack(qp);
	}
	return n;
}

/* A blocked endpoint makes its QPs busy again when it is writable. */
static bool still_busy(const struct soft_qp *qp)
{
	return qp->num_wcs > 0 || qp->flush || soft_requester_ready(qp) ||
	       soft_responses_ready(qp) || soft_responder_nak_is_due(&qp->rs) ||
	       (qp->rs.ack_pending && !qp->ep->blocked);
}

static void tidy(struct soft_device *dev)
{
	struct soft_qp *qp, *next;
	DL_FOREACH_SAFE (dev->busy, qp, next) {
		if (!qp->dead && still_busy(qp))
			continue;
		DL_DELETE(dev->busy, qp);
		qp->busy = false;
		if (qp->dead)
			soft_qp_free(qp);
	}
	DL_FOREACH_SAFE (dev->graveyard, qp, next) {
		DL_DELETE(dev->graveyard, qp);
		soft_qp_free(qp);
	}
}

static void device_free(struct soft_device *dev);

enum round {
	ROUND_IDLE,
	ROUND_SENT,  /* packets were sent, and perhaps more can be */
	ROUND_BURST, /* probably more datagrams or answers have come meanwhile */
};

/* @param last  no other round of this run follows */
static enum round run_round(struct soft_device *dev, bool from_socket, bool last)
{
	dev->now = soft_clock();
	bool burst = from_socket && receive(dev);
	deliver(dev);
	rnic_tell_events(&dev->base);
	size_t sent = dev->base.closed ? 0 : transmit(dev, burst && !last);
	tidy(dev);
	if (burst || (from_socket && sent >= BURST_PACKETS))
		return ROUND_BURST;
	return sent > 0 ? ROUND_SENT : ROUND_IDLE;
}

/* The end of a run. */
static void leave(struct soft_device *dev)
{
	dev->running = false;
	if (dev->base.closed) {
		device_free(dev);
	} else if (dev->busy || dev->base.events) {
		struct timeval at_once = { 0, 0 };
		event_add(dev->resume, &at_once);
	}
}

static void run(struct soft_device *dev, bool from_socket)
{
	if (dev->running)
		return;
	dev->running = true;
	unsigned int rounds = 0;
	uint64_t linger_until = 0;
	while (rounds < MAX_ROUNDS && !dev->base.closed) {
		enum round result = run_round(dev, from_socket, rounds + 1 == MAX_ROUNDS);
		if (result == ROUND_BURST)
			linger_until = dev->now + LINGER_US;
		if (result != ROUND_IDLE)
			rounds++;
		else if (dev->now >= linger_until)
			break;
		else
			sched_yield();
	}
	leave(dev);
}

static void drain_sockets(struct soft_device *dev)
{
	struct soft_endpoint *ep;
	dev->now = soft_clock();
	DL_FOREACH (dev->endpoints, ep)
		soft_rx_drain(ep);
}

/* Receive and deliver without sending: ACKs, and what callbacks post, leave from the event loop.
 * Inside a callback of this device the socket is not read, since it may have more for the QP whose
 * callback runs. Nothing in the socket was acknowledged, so that can wait. */
static void soft_poll(struct rnic *rnic)
{
	struct soft_device *dev = soft_device_of(rnic);
	if (dev->running) {
		deliver(dev);
		return;
	}
	dev->running = true;
	drain_sockets(dev);
	deliver(dev);
	tidy(dev);
	leave(dev);
}

void soft_device_hear(struct soft_device *dev)
{
	if (dev->running)
		return;
	dev->running = true;
	drain_sockets(dev);
	dev->running = false;
}

void soft_device_run(struct soft_device *dev)
{
	run(dev, true);
}

/* Send what was posted, and do not receive: the socket has an event of its own. */
static void on_kick(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	run(arg, false);
}

static void on_resume(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	run(arg, true);
}

/* ---- the interface's state */

static uint8_t path_mtu_for(uint32_t interface_mtu)
{
	uint8_t code = 5;
	while (code > 0 && (128u << code) + ROCE_IPV4_OVERHEAD > interface_mtu)
		code--;
	return code;
}

static void fill_gids(struct soft_device *dev)
{
	struct rnic_info *info = &dev->base.info;
	struct soft_endpoint *ep;
	info->num_gids = 0;
	DL_FOREACH (dev->endpoints, ep) {
		if (!ep->present || info->num_gids == RNIC_MAX_GIDS)
			continue;
		struct rnic_gid *gid = &info->gids[info->num_gids++];
		*gid = (struct rnic_gid){ .type = RNIC_GID_ROCE_V2, .prefix_len = ep->prefix_len };
		soft_addr_gid(ep->addr, gid->raw);
	}
}

/* Open sockets for the addresses that the interface has now. Sockets of removed addresses stay as
 * long as QPs use them, since addresses often come back. @return 0, or the first error */
static int match_endpoints(struct soft_device *dev, const struct rnic_netdev *netdev,
			   char *ret_error)
{
	int result = 0;
	struct soft_endpoint *ep, *next;
	DL_FOREACH (dev->endpoints, ep)
		ep->present = false;
	for (size_t i = 0; i < netdev->num_addrs; i++) {
		struct in_addr addr;
		if (netdev->addrs[i].family != AF_INET)
			continue;
		memcpy(&addr, netdev->addrs[i].addr, sizeof(addr));
		DL_FOREACH (dev->endpoints, ep) {
			if (ep->addr.s_addr == addr.s_addr)
				break;
		}
		if (ep) {
			ep->present = true;
			ep->prefix_len = netdev->addrs[i].prefix_len;
			continue;
		}
		int r = soft_endpoint_open(dev, addr, netdev->addrs[i].prefix_len, &ep, ret_error);
		if (r && !result)
			result = r;
	}
	DL_FOREACH_SAFE (dev->endpoints, ep, next) {
		if (!ep->present && ep->users == 0)
			soft_endpoint_close(ep);
	}
	return result;
}

/* @return why the port is down; "": it is up */
static const char *why_down(const struct rnic_netdev *netdev, const struct rnic_info *info)
{
	if (!netdev->active)
		return "its interface is down or has no carrier";
	if (info->num_gids == 0 && info->num_addrs == 0)
		return "its interface has no address";
	if (info->num_gids == 0 && info->addrs[0].family != AF_INET)
		return "its interface has no IPv4 address";
	if (info->num_gids == 0)
		return "UDP port 4791 cannot be had at its address";
	if (info->max_path_mtu == 0)
		return "the MTU of its interface is too small";
	return "";
}

static int apply(struct soft_device *dev, const struct rnic_netdev *netdev, char *ret_error)
{
	struct rnic_info *info = &dev->base.info;
	info->ifindex = netdev->ifindex;
	snprintf(info->netdev, sizeof(info->netdev), "%s", netdev->name);
	snprintf(info->name, sizeof(info->name), "soft:%s", netdev->name);
	memcpy(info->mac, netdev->mac, sizeof(info->mac));
	info->max_path_mtu = path_mtu_for(netdev->mtu);
	rnic_netdev_list_addrs(netdev, info);
	dev->loopback = netdev->loopback;
	int r = match_endpoints(dev, netdev, ret_error);
	fill_gids(dev);
	info->down = why_down(netdev, info);
	info->state = *info->down ? RNIC_PORT_DOWN : RNIC_PORT_ACTIVE;
	return r;
}

static void on_read(void *ctx, int result, const struct rnic_netdev *netdev)
{
	struct soft_device *dev = ctx;
	struct rnic_info before = dev->base.info;
	char error[RNIC_ERROR_LEN];
	dev->stats.interface_reads++;
	if (result == -ENODEV) {
		dev->base.info.state = RNIC_PORT_DOWN;
		dev->base.info.down = "its interface is gone";
		rnic_event_due(&dev->base, RNIC_EVENT_REMOVED);
	} else if (result == 0) {
		/* No error is reported: an address whose UDP port is taken just gives no GID. */
		apply(dev, netdev, error);
		rnic_changed_since(&dev->base, &before);
	}
	if (dev->base.events)
		soft_device_kick(dev);
}

static void soft_link_changed(struct rnic *rnic)
{
	soft_reader_ask(soft_device_of(rnic)->reader);
}

void soft_device_look(struct soft_device *dev)
{
	if (dev->now - dev->looked_at < LOOK_INTERVAL_US)
		return;
	dev->looked_at = dev->now;
	soft_reader_ask(dev->reader);
}

void rnic_soft_set_segmentation(struct rnic *rnic, bool on)
{
	soft_device_of(rnic)->segmentation = on;
}

/* ---- open and close */

static int open_parts(struct soft_device *dev)
{
	dev->tables = malloc(sizeof(*dev->tables));
	dev->kick = event_new(dev->base.params.base, -1, 0, on_kick, dev);
	dev->resume = evtimer_new(dev->base.params.base, on_resume, dev);
	if (!dev->tables || !dev->kick || !dev->resume || soft_rx_new(&dev->rx) ||
	    soft_tx_new(&dev->tx))
		return -ENOMEM;
	roce_icrc_tables_init(dev->tables);
	return 0;
}

static int read_now(const char *ifname, struct rnic_netdev *ret_netdev)
{
	unsigned int ifindex = if_nametoindex(ifname);
	struct nl_sock *nl = nl_socket_alloc();
	int r = !ifindex ? -ENODEV : !nl ? -ENOMEM : -EIO;
	if (ifindex && nl && nl_connect(nl, NETLINK_ROUTE) >= 0)
		r = rnic_netdev_read(nl, ifindex, ret_netdev);
	nl_socket_free(nl);
	return r;
}

static int open_interface(struct soft_device *dev, const char *ifname, char *ret_error)
{
	struct rnic_netdev netdev;
	int r = dev->base.params.hurry ? rnic_netdev_look(ifname, &netdev)
				       : read_now(ifname, &netdev);
	if (r == -ENODEV) {
		snprintf(ret_error, RNIC_ERROR_LEN, "rnic %s: no such network interface",
			 dev->base.info.name);
		return r;
	}
	if (r)
		return rnic_fail(&dev->base, r, "read the interface", ret_error);
	r = soft_reader_new(dev->base.params.base, netdev.ifindex, on_read, dev, &dev->reader);
	if (r)
		return rnic_fail(&dev->base, r, "watch the interface", ret_error);
	if (dev->base.params.hurry)
		soft_reader_ask(dev->reader); /* netdev has not the carrier as it is now */
	return apply(dev, &netdev, ret_error);
}

static int soft_open(const char *ifname, const struct rnic_open_params *params,
		     struct rnic **ret_rnic, char ret_error[RNIC_ERROR_LEN])
{
	struct soft_device *dev = calloc(1, sizeof(*dev));
	if (!dev) {
		snprintf(ret_error, RNIC_ERROR_LEN, "rnic soft:%s: out of memory", ifname);
		return -ENOMEM;
	}
	dev->base.backend = &rnic_soft_backend;
	dev->base.params = *params;
	dev->port = params->udp_port ? params->udp_port : ROCE_UDP_PORT;
	dev->base.info.kind = RNIC_SOFT;
	dev->base.info.port = 1;
	dev->base.info.windows = true;
	dev->base.info.max_reads_answered = SOFT_MAX_READS_ANSWERED;
	dev->base.info.max_reads_asked = SOFT_MAX_READS_ASKED;
	snprintf(dev->base.info.name, sizeof(dev->base.info.name), "soft:%s", ifname);
	dev->segmentation = true;
	dev->max_segments = SOFT_MAX_SEGMENTS;
	dev->hold_budget = HOLD_BUDGET;
	int r = open_parts(dev);
	if (r)
		rnic_fail(&dev->base, r, "open", ret_error);
	else
		r = open_interface(dev, ifname, ret_error);
	if (r) {
		device_free(dev);
		return r;
	}
	*ret_rnic = &dev->base;
	return 0;
}

static void device_free(struct soft_device *dev)
{
	struct soft_endpoint *ep, *next;
	DL_FOREACH_SAFE (dev->endpoints, ep, next)
		soft_endpoint_close(ep);
	if (dev->kick)
		event_free(dev->kick);
	if (dev->resume)
		event_free(dev->resume);
	soft_reader_free(dev->reader);
	soft_rx_free(dev->rx);
	soft_tx_free(dev->tx);
	free(dev->tables);
	free(dev);
}

static void soft_close(struct rnic *rnic)
{
	struct soft_device *dev = soft_device_of(rnic);
	soft_qp_forget_gone(dev);
	assert(!dev->qps && !dev->tokens && dev->pds == 0);
	if (dev->running)
		dev->base.closed = true;
	else
		device_free(dev);
}

static void soft_get_stats(const struct rnic *rnic, struct rnic_stats *ret_stats)
{
	*ret_stats = soft_device_of(rnic)->stats;
}

static int soft_pd_alloc(struct rnic *rnic, struct rnic_pd **ret_pd)
{
	struct soft_pd *pd = calloc(1, sizeof(*pd));
	if (!pd)
		return -ENOMEM;
	pd->base.rnic = rnic;
	soft_device_of(rnic)->pds++;
	*ret_pd = &pd->base;
	return 0;
}

static void soft_pd_free(struct rnic_pd *base)
{
	struct soft_pd *pd = (struct soft_pd *)base;
	assert(pd->users == 0);
	soft_device_of(base->rnic)->pds--;
	free(pd);
}

const struct rnic_backend rnic_soft_backend = {
	.open = soft_open,
	.close = soft_close,
	.poll = soft_poll,
	.link_changed = soft_link_changed,
	.get_stats = soft_get_stats,
	.pd_alloc = soft_pd_alloc,
	.pd_free = soft_pd_free,
	.mr_register = soft_mr_register,
	.mr_deregister = soft_mr_deregister,
	.window_new = soft_mw_new,
	.window_free = soft_mw_free,
	.window_bind = soft_mw_bind,
	.window_invalidate = soft_mw_invalidate,
	.qp_create = soft_qp_create,
	.qp_connect = soft_qp_connect,
	.qp_start = soft_qp_start,
	.qp_set_retry = soft_qp_set_retry,
	.qp_want_ack = soft_qp_want_ack,
	.qp_error = soft_qp_user_error,
	.qp_destroy = soft_qp_destroy,
	.post_send = soft_qp_post_send,
	.post_recv = soft_qp_post_recv,
	.qp_get_stats = soft_qp_get_stats,
};

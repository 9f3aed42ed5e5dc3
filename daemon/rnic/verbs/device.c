/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/rnic/alarm.h"
#include "daemon/rnic/verbs/internal.h"

/* How many rounds of polling before the event loop serves other events. */
#define MAX_ROUNDS 8
/* How many events of completion queues are taken at a time. */
#define MAX_CQ_EVENTS 256
/* How many events may wait to be acknowledged to libibverbs. */
#define MAX_UNACKED 1024

/* How rdma_rxe is recognized. With a retry count of 7 it repeats forever. It looks whether a peer's
 * request lies in the region of a window, and not whether it lies in the window (6.12). */
#define RXE_VENDOR_ID 0xFFFFFF
/* rdma_rxe gives programs the number that the flag has inside the kernel. Of a reliable connection
 * it means nothing else. */
#define RXE_WITH_INV (1u << 2)

int verbs_result(int result)
{
	if (result < 0)
		return errno ? -errno : -EIO;
	return -result;
}

uint64_t verbs_clock(void)
{
	return alarm_now();
}

/* ---- the run loop */

void verbs_device_kick(struct verbs_device *dev)
{
	if (!dev->running)
		event_active(dev->kick, EV_TIMEOUT, 0);
}

static void device_free(struct verbs_device *dev);

static void tidy(struct verbs_device *dev)
{
	struct verbs_qp *qp, *next;
	if (!dev->untidy)
		return;
	dev->untidy = false;
	DL_FOREACH_SAFE (dev->qps, qp, next) {
		if (!qp->dead)
			continue;
		DL_DELETE(dev->qps, qp);
		verbs_qp_free(qp);
	}
}

/* @return true if there may be more */
static bool serve(struct verbs_qp *qp)
{
	if (qp->error_due)
		verbs_qp_fail(qp);
	bool more = verbs_qp_poll(qp);
	if (!more && !qp->dead && !qp->ended && !qp->armed) {
		/* Poll once more for completions from before that; later ones raise an event. */
		verbs_qp_arm(qp);
		more = verbs_qp_poll(qp);
	}
	if (!qp->dead)
		qp->ready = more;
	return more;
}

static bool serve_all(struct verbs_device *dev)
{
	bool more = false;
	struct verbs_qp *qp;
	DL_FOREACH (dev->qps, qp) {
		if (dev->base.closed)
			return false;
		if (!qp->dead && qp->ready)
			more |= serve(qp);
	}
	return more;
}

static void leave(struct verbs_device *dev, bool more)
{
	tidy(dev);
	dev->running = false;
	if (dev->base.closed)
		device_free(dev);
	else if (more || dev->base.events)
		verbs_device_kick(dev);
}

static void run(struct verbs_device *dev)
{
	bool more = true;
	if (dev->running)
		return;
	dev->running = true;
	for (unsigned int i = 0; more && i < MAX_ROUNDS; i++)
		more = serve_all(dev);
	rnic_tell_events(&dev->base);
	leave(dev, more);
}

static void on_kick(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	run(arg);
}

/* The device's descriptors tell that it is gone for good. */
static void device_lost(struct verbs_device *dev)
{
	struct verbs_qp *qp;
	if (dev->fatal)
		return;
	dev->fatal = true;
	dev->base.info.state = RNIC_PORT_DOWN;
	dev->base.info.down = "the device is gone";
	rnic_event_due(&dev->base, RNIC_EVENT_REMOVED);
	event_del(dev->completions);
	event_del(dev->async);
	DL_FOREACH (dev->qps, qp) {
		if (qp->dead)
			continue;
		verbs_qp_fail(qp);
		qp->end_now = qp->ready = true;
	}
	verbs_device_kick(dev);
}

static void on_completions(evutil_socket_t fd, short what, void *arg)
{
	struct verbs_device *dev = arg;
	(void)fd;
	(void)what;
	for (int i = 0; i < MAX_CQ_EVENTS; i++) {
		struct ibv_cq *cq;
		void *ctx;
		if (ibv_get_cq_event(dev->channel, &cq, &ctx)) {
			if (errno != EAGAIN && errno != EINTR)
				device_lost(dev);
			break;
		}
		struct verbs_qp *qp = ctx;
		if (qp->dead) { /* its destruction waits for that */
			ibv_ack_cq_events(cq, 1);
			continue;
		}
		qp->armed = false;
		qp->ready = true;
		if (++qp->unacked == MAX_UNACKED) {
			ibv_ack_cq_events(cq, qp->unacked);
			qp->unacked = 0;
		}
	}
	run(dev);
}

static void verbs_poll(struct rnic *rnic)
{
	struct verbs_device *dev = verbs_device_of(rnic);
	struct verbs_qp *qp;
	bool nested = dev->running; /* called inside a callback of this device */
	dev->running = true;
	DL_FOREACH (dev->qps, qp) {
		/* At most as many rounds as the queue could have held at the beginning. */
		unsigned int left = qp->params.send_depth + qp->recv_depth;
		while (!dev->base.closed && !qp->dead && !qp->telling && verbs_qp_poll(qp) &&
		       left > 0)
			left--;
		if (dev->base.closed)
			break;
	}
	if (!nested)
		leave(dev, false);
}

/* ---- the port's state */

/* Another device of the same name has another sysfs directory. */
static uint64_t sysfs_inode(const struct ibv_device *device)
{
	struct stat st;
	return stat(device->dev_path, &st) ? 0 : st.st_ino;
}

static void apply_netdev(struct rnic_info *info, const struct rnic_netdev *netdev)
{
	memcpy(info->netdev, netdev->name, sizeof(info->netdev));
	info->ifindex = netdev->ifindex;
	memcpy(info->mac, netdev->mac, sizeof(info->mac));
	rnic_netdev_list_addrs(netdev, info);
}

/* Read what may change. @return 0; -EADDRNOTAVAIL: no GID is usable, as `info` tells too */
static int read_port(struct verbs_device *dev)
{
	struct rnic_netdev netdevs[VERBS_MAX_NETDEVS];
	struct rnic_info *info = &dev->base.info;
	struct ibv_port_attr attr;
	struct verbs_gids gids;
	int error = verbs_result(ibv_query_port(dev->context, info->port, &attr));
	if (error)
		return error;
	error = verbs_read_gids(dev->context, info->port, netdevs, &gids);
	if (error && error != -EADDRNOTAVAIL)
		return error;
	info->num_gids = 0;
	if (!error) {
		apply_netdev(info, gids.netdev);
		info->num_gids = gids.num;
		memcpy(info->gids, gids.gid, sizeof(info->gids));
		memcpy(dev->gid_index, gids.index, sizeof(dev->gid_index));
	}
	info->max_path_mtu = (uint8_t)attr.active_mtu;
	info->down = "";
	if (attr.state != IBV_PORT_ACTIVE)
		info->down = "the device has no link: a cable, or its interface, is down";
	else if (info->num_gids == 0)
		info->down = "it has no RoCEv2 GID: its interface has no address";
	info->state = *info->down ? RNIC_PORT_DOWN : RNIC_PORT_ACTIVE;
	return error;
}

static void verbs_link_changed(struct rnic *rnic)
{
	struct verbs_device *dev = verbs_device_of(rnic);
	struct rnic_info before = dev->base.info;
	if (dev->fatal)
		return;
	/* The driver may go on working until the device is closed, and be removed only then. */
	if (sysfs_inode(dev->context->device) != dev->sysfs_inode) {
		device_lost(dev);
		return;
	}
	int error = read_port(dev);
	if (error && error != -EADDRNOTAVAIL)
		return; /* if the device is lost, its own event tells that */
	rnic_changed_since(&dev->base, &before);
	if (dev->base.events)
		verbs_device_kick(dev);
}

/* ---- asynchronous events */

static void handle_event(struct verbs_device *dev, const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR: verbs_qp_fail(event->element.qp->qp_context); break;
	case IBV_EVENT_CQ_ERR: verbs_qp_fail(event->element.cq->cq_context); break;
	case IBV_EVENT_DEVICE_FATAL: device_lost(dev); break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_GID_CHANGE: verbs_link_changed(&dev->base); break;
	default: break; /* not about queues and ports that are used here */
	}
}

static void on_async(evutil_socket_t fd, short what, void *arg)
{
	struct verbs_device *dev = arg;
	struct ibv_async_event event;
	(void)fd;
	(void)what;
	if (dev->base.params.at_work)
		dev->base.params.at_work(dev->base.params.event_ctx);
	while (!dev->fatal) {
		if (ibv_get_async_event(dev->context, &event)) {
			if (errno != EAGAIN && errno != EINTR)
				device_lost(dev);
			break;
		}
		handle_event(dev, &event);
		ibv_ack_async_event(&event); /* otherwise destroying the QP would wait for this */
	}
}

/* ---- open and close */

static void list_names(struct ibv_device **list, char *buf, size_t len)
{
	size_t at = 0;
	buf[0] = '\0';
	for (; *list && at < len; list++)
		at += (size_t)snprintf(buf + at, len - at, "%s%s", at ? ", " : "",
				       ibv_get_device_name(*list));
}

static int open_device(struct verbs_device *dev, struct ibv_device *device, char *ret_error)
{
	if (device->transport_type != IBV_TRANSPORT_IB) {
		snprintf(ret_error, RNIC_ERROR_LEN,
			 "rnic %s: the device does not speak RoCE, which SMC-R needs",
			 dev->base.info.name);
		return -EPROTONOSUPPORT;
	}
	dev->context = ibv_open_device(device);
	if (dev->context)
		return 0;
	char node[RNIC_NAME_LEN + 32];
	int error = errno ? -errno : -EIO;
	snprintf(node, sizeof(node), "/dev/infiniband/%s", device->dev_name);
	verbs_explain_open(dev->base.info.name, node, error, ret_error);
	return error;
}

static int find_device(struct verbs_device *dev, const char *ibdev, char *ret_error)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **at = list;
	char others[RNIC_ERROR_LEN] = "";
	int error = -ENODEV;
	while (at && *at && strcmp(ibv_get_device_name(*at), ibdev))
		at++;
	if (at && *at) {
		error = open_device(dev, *at, ret_error);
	} else {
		if (list)
			list_names(list, others, sizeof(others));
		verbs_explain_absence(dev->base.info.name, verbs_absence_of("/sys", ibdev), others,
				      ret_error);
	}
	if (list)
		ibv_free_device_list(list);
	return error;
}

static uint8_t clamped(int reads)
{
	return (uint8_t)(reads < 0 ? 0 : reads > UINT8_MAX ? UINT8_MAX : reads);
}

static void tell_abilities(struct verbs_device *dev)
{
	struct rnic_info *info = &dev->base.info;
	info->max_reads_answered = clamped(dev->attr.max_qp_rd_atom);
	info->max_reads_asked = clamped(dev->attr.max_qp_init_rd_atom);
	info->windows = dev->attr.device_cap_flags &
			(IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B);
}

static int check_port(struct verbs_device *dev, char *ret_error)
{
	struct ibv_port_attr port;
	int error = verbs_result(ibv_query_device(dev->context, &dev->attr));
	if (error)
		return rnic_fail(&dev->base, error, "query the device", ret_error);
	if (dev->base.info.port > dev->attr.phys_port_cnt) {
		snprintf(ret_error, RNIC_ERROR_LEN, "rnic %s: the device's ports are 1 to %u",
			 dev->base.info.name, dev->attr.phys_port_cnt);
		return -ENODEV;
	}
	error = verbs_result(ibv_query_port(dev->context, dev->base.info.port, &port));
	if (error)
		return rnic_fail(&dev->base, error, "query the port", ret_error);
	if (port.link_layer != IBV_LINK_LAYER_ETHERNET) {
		snprintf(ret_error, RNIC_ERROR_LEN,
			 "rnic %s: the port is InfiniBand; SMC-R needs RoCE, set it to Ethernet",
			 dev->base.info.name);
		return -EPROTONOSUPPORT;
	}
	const bool is_rxe = dev->attr.vendor_id == RXE_VENDOR_ID;
	dev->endless = dev->windows_leak = is_rxe;
	dev->invalidated = IBV_WC_WITH_INV | (is_rxe ? RXE_WITH_INV : 0);
	dev->starts_anywhere = verbs_mr_may_start_anywhere(dev->context->device->ibdev_path);
	tell_abilities(dev);
	return 0;
}

static int set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

static int open_events(struct verbs_device *dev)
{
	struct event_base *base = dev->base.params.base;
	dev->channel = ibv_create_comp_channel(dev->context);
	if (!dev->channel)
		return -errno;
	int error = set_nonblocking(dev->channel->fd);
	if (!error)
		error = set_nonblocking(dev->context->async_fd);
	if (error)
		return error;
	dev->completions =
		event_new(base, dev->channel->fd, EV_READ | EV_PERSIST, on_completions, dev);
	dev->async = event_new(base, dev->context->async_fd, EV_READ | EV_PERSIST, on_async, dev);
	dev->kick = event_new(base, -1, 0, on_kick, dev);
	if (!dev->completions || !dev->async || !dev->kick || event_add(dev->completions, NULL) ||
	    event_add(dev->async, NULL))
		return -ENOMEM;
	return 0;
}

static void port_dir(const struct verbs_device *dev, char *buf, size_t len)
{
	snprintf(buf, len, "%s/ports/%u", dev->context->device->ibdev_path, dev->base.info.port);
}

static int open_parts(struct verbs_device *dev, const char *ibdev, char *ret_error)
{
	char dir[PATH_MAX];
	int error = find_device(dev, ibdev, ret_error);
	if (!error)
		error = check_port(dev, ret_error);
	if (error)
		return error;
	dev->sysfs_inode = sysfs_inode(dev->context->device);
	error = open_events(dev);
	if (error)
		return rnic_fail(&dev->base, error, "watch the device", ret_error);
	error = read_port(dev);
	if (error == -EADDRNOTAVAIL)
		verbs_explain_no_gid(dev->base.info.name, ret_error);
	else if (error)
		rnic_fail(&dev->base, error, "read the port's state", ret_error);
	port_dir(dev, dir, sizeof(dir));
	verbs_counters_read(dir, &dev->before);
	return error;
}

static int verbs_open(const char *name, const struct rnic_open_params *params,
		      struct rnic **ret_rnic, char ret_error[RNIC_ERROR_LEN])
{
	char ibdev[RNIC_NAME_LEN];
	uint8_t port;
	if (verbs_parse_name(name, ibdev, &port)) {
		snprintf(ret_error, RNIC_ERROR_LEN,
			 "verbs:%s: not a verbs device; use verbs:DEV[/PORT]", name);
		return -EINVAL;
	}
	struct verbs_device *dev = calloc(1, sizeof(*dev));
	if (!dev) {
		snprintf(ret_error, RNIC_ERROR_LEN, "rnic verbs:%s: out of memory", name);
		return -ENOMEM;
	}
	dev->base.backend = &rnic_verbs_backend;
	dev->base.params = *params;
	dev->base.info.kind = RNIC_VERBS;
	dev->base.info.port = port;
	snprintf(dev->base.info.name, sizeof(dev->base.info.name), "verbs:%.53s/%u", ibdev, port);
	dev->inline_wanted = RNIC_MAX_INLINE;
	dev->reaper = verbs_reaper_new();
	int error = dev->reaper ? open_parts(dev, ibdev, ret_error)
				: rnic_fail(&dev->base, -ENOMEM, "open the device", ret_error);
	if (error) {
		device_free(dev);
		return error;
	}
	*ret_rnic = &dev->base;
	return 0;
}

static void close_device(void *arg)
{
	struct verbs_device *dev = arg;
	if (dev->channel)
		ibv_destroy_comp_channel(dev->channel);
	if (dev->context)
		ibv_close_device(dev->context);
	free(dev);
}

static void verbs_leave(struct rnic *rnic)
{
	verbs_device_of(rnic)->leaving = true;
}

static void device_free(struct verbs_device *dev)
{
	struct event *events[] = { dev->completions, dev->async, dev->kick };
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		if (events[i])
			event_free(events[i]);
	}
	dev->close = (struct verbs_job){ .run = close_device, .arg = dev };
	verbs_reaper_end(dev->reaper, dev->leaving ? NULL : &dev->close);
}

static void verbs_close(struct rnic *rnic)
{
	struct verbs_device *dev = verbs_device_of(rnic);
	assert(dev->mrs == 0 && dev->pds == 0 && dev->windows == 0);
	if (dev->running)
		dev->base.closed = true;
	else
		device_free(dev);
}

static void verbs_get_stats(const struct rnic *rnic, struct rnic_stats *ret_stats)
{
	const struct verbs_device *dev = verbs_device_of(rnic);
	char dir[PATH_MAX];
	port_dir(dev, dir, sizeof(dir));
	verbs_counters_read(dir, ret_stats);
	verbs_counters_subtract(ret_stats, &dev->before);
}

const struct rnic_backend rnic_verbs_backend = {
	.open = verbs_open,
	.close = verbs_close,
	.poll = verbs_poll,
	.link_changed = verbs_link_changed,
	.leave = verbs_leave,
	.get_stats = verbs_get_stats,
	.pd_alloc = verbs_pd_alloc,
	.pd_free = verbs_pd_free,
	.mr_register = verbs_mr_register,
	.mr_deregister = verbs_mr_deregister,
	.window_new = verbs_window_new,
	.window_free = verbs_window_free,
	.window_bind = verbs_window_bind,
	.window_invalidate = verbs_window_invalidate,
	.qp_create = verbs_qp_create,
	.qp_connect = verbs_qp_connect,
	.qp_start = verbs_qp_start,
	.qp_set_retry = verbs_watch_set_retry,
	.qp_error = verbs_qp_user_error,
	.qp_destroy = verbs_qp_destroy,
	.post_send = verbs_post_send,
	.post_recv = verbs_recv_post,
	.qp_get_stats = verbs_qp_get_stats,
};

/* SPDX-License-Identifier: MIT */
#include "daemon/fabric/fabric.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <syslog.h>
#include <utlist.h>

#include "daemon/engine/view.h"
#include "daemon/fabric/outbox.h"
#include "daemon/host/log.h"
#include "daemon/host/pages.h"
#include "daemon/rnic/alarm.h"
#include "daemon/rnic/verbs.h"
#include "proto/smcr/llc.h"

/* SENDs of SMC-R version 1 are 44 bytes; LLC-8 wants enough buffers that none is lost. Those of
 * version 2 are seldom longer, but may have 8192; that peer sends again when there is no buffer,
 * and has no more than a few dozen SENDs under way on a link. */
#define RECV_SIZE     64
#define RECV_DEPTH    1024
#define RECV_DEPTH_V2 256

struct fabric_device {
	struct fabric *fabric;
	uint32_t id;
	uint16_t vlan;
	struct rnic *rnic;
	struct smcr_device_info info; /* as the engine was told */
	bool complained;              /* that memory cannot be registered */
	struct fabric_device *next, *prev;
};

struct fabric_qp {
	struct fabric *fabric;
	struct fabric_device *device;
	struct rnic_pd *pd; /* its own (A18) */
	struct rnic_qp *qp;
	uint64_t link_ref;
	struct outbox outbox;
	uint64_t first_wr_id; /* of those in the outbox; with an error, of those not posted */
	int post_error;       /* the engine is to be told of it */
	bool dirty;           /* on the list */
	struct fabric_qp *dirty_prev, *dirty_next;
	/* The one SEND that is too long to be posted inline, once there was one. */
	uint8_t *long_send;
	struct rnic_mr *long_mr;
	bool *destroyed; /* set through this when destroyed inside its own callback */
	uint64_t marks[FABRIC_MARKS];
};

struct fabric {
	struct fabric_params params;
	struct smcr_engine *engine;
	struct alarm *timer;
	uint32_t next_device_id;
	uint64_t activity; /* batches of completions so far */
	struct fabric_device *devices;
	struct fabric_qp *dirty;      /* with something in their outbox */
	const struct fabric_tap *tap; /* NULL: nobody looks */
};

uint64_t fabric_now(void)
{
	return alarm_now();
}

/* ---- engine operations: memory ---- */

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

/* A verbs device may have come since: what it writes would go to the pages that it knows. */
static int op_mem_recover(void *ctx, void *addr, size_t len)
{
	return fabric_can_share(ctx) ? pages_renew(addr, len) : -EBUSY;
}

static int op_mem_discard(void *ctx, void *addr, size_t len)
{
	return fabric_can_share(ctx) ? pages_discard(addr, len) : -EBUSY;
}

/* ---- engine operations: RDMA ---- */

static struct fabric_device *device_by_id(struct fabric *fabric, uint32_t id)
{
	struct fabric_device *device;
	DL_FOREACH (fabric->devices, device) {
		if (device->id == id)
			return device;
	}
	return NULL;
}

/** FO-8, see smcr_engine_recv(). The links of one device are no less separate than those of two;
 *  the QP that is being told is left alone by rnic_poll(). */
static void poll_devices(struct fabric *fabric)
{
	struct fabric_device *device;
	DL_FOREACH (fabric->devices, device)
		rnic_poll(device->rnic);
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

/* What goes wrong is told by post_all(). Nothing is posted behind a gap. */
static void post_outbox(struct fabric_qp *qp)
{
	const size_t n = qp->outbox.num_writes + qp->outbox.num_sends;
	if (qp->post_error)
		outbox_clear(&qp->outbox);
	else
		qp->post_error = outbox_post(&qp->outbox, qp->qp);
	if (qp->fabric->tap && !qp->post_error)
		tap_posted(qp, qp->outbox.list, n); /* where it was posted from */
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

/* In no callback of the engine's. */
static void post_all(struct fabric *fabric)
{
	while (fabric->dirty) {
		struct fabric_qp *qp = fabric->dirty;
		forget_dirty(qp);
		post_outbox(qp);
		const int error = qp->post_error;
		qp->post_error = 0;
		if (error)
			smcr_engine_not_posted(fabric->engine, qp->link_ref, qp->first_wr_id,
					       strerror(-error));
	}
}

static uint64_t begin_work(struct fabric *fabric, enum fabric_work work)
{
	uint64_t now = fabric_now();
	if (fabric->params.at_work)
		fabric->params.at_work(fabric->params.work_ctx, work, now);
	return now;
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
	smcr_engine_set_time(fabric->engine, begin_work(fabric, FABRIC_COMPLETIONS));
	for (size_t i = 0; i < n && !destroyed; i++) {
		if (is_barrier(&wc[i]))
			poll_devices(fabric);
		if (!destroyed)
			deliver(qp, &wc[i]);
	}
	if (!destroyed)
		qp->destroyed = NULL;
	post_all(fabric);
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

/* What the engine has posted is flushed with the rest. */
static void op_qp_error(void *ctx, void *handle)
{
	struct fabric_qp *qp = handle;
	(void)ctx;
	if (qp->dirty)
		post_outbox(qp);
	rnic_qp_error(qp->qp);
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

/* Once a device: the operator has to do something about it, and connections stay TCP meanwhile. */
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

/** Copy a long SEND to where it can be sent from: the one before it has completed. */
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
		return -EINVAL; /* the engine posts a handful at a time */
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
	.qp_error = op_qp_error,
	.qp_heard = op_qp_heard,
	.qp_destroy = op_qp_destroy,
	.mr_register = op_mr_register,
	.mr_deregister = op_mr_deregister,
	.post = op_post,
};

/* ---- time ---- */

static void on_timer(void *ctx)
{
	struct fabric *fabric = ctx;
	poll_devices(fabric);
	smcr_engine_run(fabric->engine, begin_work(fabric, FABRIC_TIMERS));
}

void fabric_end_turn(struct fabric *fabric)
{
	post_all(fabric);
	uint64_t deadline = smcr_engine_next_deadline(fabric->engine);
	if (deadline == SMCR_NO_DEADLINE)
		alarm_clear(fabric->timer);
	else
		alarm_set(fabric->timer, deadline);
}

uint64_t fabric_activity(const struct fabric *fabric)
{
	return fabric->activity;
}

/* ---- devices ---- */

static void describe(struct fabric_device *device)
{
	struct smcr_device_info *ret = &device->info;
	struct rnic_info info;
	rnic_get_info(device->rnic, &info);
	/* Below the smallest path MTU the port is down, but the engine wants a sound value. */
	*ret = (struct smcr_device_info){ .id = device->id,
					  .mtu = info.max_path_mtu ? info.max_path_mtu
								   : SMCR_MTU_256,
					  .vlan = device->vlan,
					  .active = info.state == RNIC_PORT_ACTIVE,
					  .down = info.down };
	snprintf(ret->name, sizeof(ret->name), "%s", info.name);
	memcpy(ret->mac, info.mac, sizeof(ret->mac));
	if (info.num_gids)
		memcpy(ret->gid, info.gids[0].raw, sizeof(ret->gid));
	for (size_t i = 0; i < info.num_addrs && i < SMCR_MAX_DEVICE_PREFIXES; i++) {
		struct smcr_prefix *prefix = &ret->prefixes[ret->num_prefixes++];
		prefix->family = info.addrs[i].family;
		memcpy(prefix->ip, info.addrs[i].addr, sizeof(prefix->ip));
		prefix->prefix_len = info.addrs[i].prefix_len;
	}
}

static void device_drop(struct fabric *fabric, struct fabric_device *device)
{
	poll_devices(fabric);
	smcr_engine_set_time(fabric->engine, fabric_now());
	smcr_engine_device_remove(fabric->engine, device->id);
	rnic_close(device->rnic);
	DL_DELETE(fabric->devices, device);
	free(device);
	if (fabric->params.device_gone)
		fabric->params.device_gone(fabric->params.device_ctx);
}

/* For operators. @param is_new  it was not in use until now */
static void tell(const struct fabric *fabric, const struct rnic_info *info, bool is_new)
{
	char text[160];
	bool up = info->state == RNIC_PORT_ACTIVE;
	if (up)
		snprintf(text, sizeof(text), "%s", is_new ? "in use" : "its port is active");
	else
		snprintf(text, sizeof(text), "%sits port is down: %s",
			 is_new ? "in use when that is over: " : "",
			 info->down ? info->down : "nobody says why");
	if (fabric->params.device_told)
		fabric->params.device_told(fabric->params.device_ctx, info->name, up, text);
}

static void tell_of_removal(const struct fabric *fabric, const struct rnic_info *info)
{
	const char *text = info->down && *info->down ? info->down : "it is gone";
	if (fabric->params.device_told)
		fabric->params.device_told(fabric->params.device_ctx, info->name, false, text);
}

static void log_gid(const char *name, const struct rnic_info *info)
{
	char addr[INET6_ADDRSTRLEN];
	if (!info->num_gids)
		log_message(LOG_NOTICE, "rnic %s: has no address", name);
	else if (inet_ntop(AF_INET6, info->gids[0].raw, addr, sizeof(addr)))
		log_message(LOG_NOTICE, "rnic %s: its GID is %s now", name, addr);
}

/* `before` is what the engine knows. */
static void log_change(const struct smcr_device_info *before, const struct rnic_info *now)
{
	static const uint8_t no_gid[SMCR_GID_LEN];
	const uint8_t *gid = now->num_gids ? now->gids[0].raw : no_gid;
	if (strcmp(before->name, now->name))
		log_message(LOG_NOTICE, "rnic %s: is called %s now", before->name, now->name);
	if (memcmp(before->gid, gid, sizeof(before->gid)))
		log_gid(now->name, now);
	if (memcmp(before->mac, now->mac, sizeof(before->mac)))
		log_message(LOG_NOTICE, "rnic %s: has another MAC", now->name);
	if (before->mtu != now->max_path_mtu)
		log_message(LOG_NOTICE, "rnic %s: its largest path MTU is %u now", now->name,
			    now->max_path_mtu ? 128u << now->max_path_mtu : 0);
}

static void on_device_work(void *ctx)
{
	const struct fabric_device *device = ctx;
	(void)begin_work(device->fabric, FABRIC_DEVICES);
}

static void on_device_event(void *ctx, struct rnic *rnic, const struct rnic_event *event)
{
	struct fabric_device *device = ctx;
	struct rnic_info info;
	on_device_work(device);
	rnic_get_info(rnic, &info);
	switch (event->type) {
	case RNIC_EVENT_CHANGED: log_change(&device->info, &info); break;
	case RNIC_EVENT_PORT_ACTIVE:
	case RNIC_EVENT_PORT_DOWN: tell(device->fabric, &info, false); break;
	case RNIC_EVENT_REMOVED:
		tell_of_removal(device->fabric, &info);
		device_drop(device->fabric, device);
		return;
	}
	describe(device);
	smcr_engine_set_time(device->fabric->engine, fabric_now());
	smcr_engine_device_update(device->fabric->engine, &device->info);
}

static struct fabric_device *device_by_name(const struct fabric *fabric, const char *name)
{
	struct fabric_device *device;
	DL_FOREACH (fabric->devices, device) {
		struct rnic_info info;
		rnic_get_info(device->rnic, &info);
		if (!strcmp(info.name, name))
			return device;
	}
	return NULL;
}

int fabric_add_device(struct fabric *fabric, const char *name, uint16_t vlan,
		      char ret_error[RNIC_ERROR_LEN])
{
	if (device_by_name(fabric, name))
		return -EEXIST;
	struct fabric_device *device = calloc(1, sizeof(*device));
	if (!device) {
		snprintf(ret_error, RNIC_ERROR_LEN, "rnic %s: out of memory", name);
		return -ENOMEM;
	}
	device->fabric = fabric;
	device->vlan = vlan;
	device->id = fabric->next_device_id++;
	struct rnic_info info;
	struct rnic_open_params params = { .base = fabric->params.base,
					   .host_ops = fabric->params.host_ops,
					   .host_ctx = fabric->params.host_ctx,
					   .on_event = on_device_event,
					   .at_work = on_device_work,
					   .event_ctx = device,
					   .hurry = fabric->devices != NULL };
	int error = rnic_open(name, &params, &device->rnic, ret_error);
	if (error) {
		free(device);
		return error;
	}
	describe(device);
	smcr_engine_set_time(fabric->engine, fabric_now());
	error = smcr_engine_device_add(fabric->engine, &device->info);
	if (error) {
		snprintf(ret_error, RNIC_ERROR_LEN, "rnic %s: the engine refuses it: %s", name,
			 strerror(-error));
		rnic_close(device->rnic);
		free(device);
		return error;
	}
	DL_APPEND(fabric->devices, device);
	rnic_get_info(device->rnic, &info);
	tell(fabric, &info, true);
	return 0;
}

void fabric_remove_device(struct fabric *fabric, const char *name, const char *why)
{
	struct fabric_device *device = device_by_name(fabric, name);
	if (!device)
		return;
	if (fabric->params.device_told)
		fabric->params.device_told(fabric->params.device_ctx, name, false, why);
	device_drop(fabric, device);
}

void fabric_leave(struct fabric *fabric)
{
	struct fabric_device *device;
	DL_FOREACH (fabric->devices, device)
		rnic_leave(device->rnic);
}

int fabric_drain_device(struct fabric *fabric, const char *name, bool drained)
{
	const struct fabric_device *device = device_by_name(fabric, name);
	if (!device)
		return -ENODEV;
	smcr_engine_set_time(fabric->engine, fabric_now());
	return smcr_engine_device_drain(fabric->engine, device->id, drained);
}

bool fabric_takes_new(const struct fabric *fabric)
{
	const struct fabric_device *device;
	DL_FOREACH (fabric->devices, device)
		if (!smcr_engine_device_drained(fabric->engine, device->id))
			return true;
	return false;
}

bool fabric_device_in_use(const struct fabric *fabric, const char *name)
{
	const struct fabric_device *device = device_by_name(fabric, name);
	return device && smcr_engine_device_in_use(fabric->engine, device->id);
}

size_t fabric_num_devices(const struct fabric *fabric)
{
	const struct fabric_device *device;
	size_t n;
	DL_COUNT(fabric->devices, device, n);
	return n;
}

struct rnic *fabric_find_rnic(struct fabric *fabric, enum rnic_kind kind, unsigned int ifindex)
{
	struct fabric_device *device;
	DL_FOREACH (fabric->devices, device) {
		struct rnic_info info;
		rnic_get_info(device->rnic, &info);
		if (info.kind == kind && (ifindex == 0 || info.ifindex == ifindex))
			return device->rnic;
	}
	return NULL;
}

void fabric_each_device(struct fabric *fabric,
			void (*fn)(void *arg, uint32_t id, struct rnic *rnic), void *arg)
{
	struct fabric_device *device;
	DL_FOREACH (fabric->devices, device) {
		fn(arg, device->id, device->rnic);
	}
}

void fabric_qp_stats(void *qp, struct rnic_qp_stats *ret_stats)
{
	rnic_qp_get_stats(((struct fabric_qp *)qp)->qp, ret_stats);
}

/* ---- life ---- */

int fabric_new(const struct fabric_params *params, struct fabric **ret_fabric)
{
	struct fabric *fabric = calloc(1, sizeof(*fabric));
	if (!fabric)
		return -ENOMEM;
	fabric->params = *params;
	fabric->next_device_id = 1;
	int error = alarm_new(params->base, on_timer, fabric, &fabric->timer);
	if (error) {
		fabric_free(fabric);
		return error;
	}
	*ret_fabric = fabric;
	return 0;
}

void fabric_free(struct fabric *fabric)
{
	if (!fabric)
		return;
	alarm_free(fabric->timer);
	struct fabric_device *device, *next;
	DL_FOREACH_SAFE (fabric->devices, device, next) {
		rnic_close(device->rnic);
		DL_DELETE(fabric->devices, device);
		free(device);
	}
	free(fabric);
}

void fabric_attach(struct fabric *fabric, struct smcr_engine *engine)
{
	fabric->engine = engine;
}

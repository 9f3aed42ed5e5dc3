/* SPDX-License-Identifier: MIT */
#include "tests/sim/host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/smcr/cdc.h"
#include "proto/smcr/eid.h"
#include "tests/sim/app.h"
#include "tests/sim/coverage.h"
#include "tests/sim/observer.h"
#include "tests/sim/told.h"
#include "tests/sim/wire.h"
#include "tests/sim/woken.h"

struct world *host_world(const struct host *host)
{
	return host->world;
}

size_t host_index(const struct host *host)
{
	return host->index;
}

/* ---- operations ---- */

static bool refuse(struct host *host)
{
	return prng_chance(&host->world->rng, host->world->set.op_fail_permille);
}

static void op_random(void *ctx, void *buf, size_t len)
{
	struct host *host = ctx;
	uint8_t *out = buf;
	for (size_t i = 0; i < len; i++)
		out[i] = (uint8_t)prng_next(&host->world->rng);
}

static int op_mem_alloc(void *ctx, size_t len, void **ret_addr)
{
	struct host *host = ctx;
	struct block *block;
	if (refuse(host))
		return -ENOMEM;
	fabric_mem_alloc(host, len, &block);
	host->memory += len;
	*ret_addr = block->base;
	return 0;
}

static void op_mem_free(void *ctx, void *addr, size_t len)
{
	struct host *host = ctx;
	struct block *block = fabric_block_at(host, addr);
	sides_memory_goes(host, addr, len);
	if (block)
		host->memory -= block->len;
	fabric_mem_free(host, addr, len);
}

static int op_mem_recover(void *ctx, void *addr, size_t len)
{
	sides_memory_goes(ctx, addr, len);
	memset(addr, 0, len);
	return 0;
}

static int op_mem_discard(void *ctx, void *addr, size_t len)
{
	return op_mem_recover(ctx, addr, len);
}

static struct device *find_device(struct host *host, uint32_t id)
{
	struct fabric *fabric = host->world->fabric;
	for (size_t i = 0; i < fabric->num_devices; i++) {
		if (fabric->devices[i]->host == host && fabric->devices[i]->info.id == id)
			return fabric->devices[i];
	}
	return NULL;
}

static int op_qp_create(void *ctx, uint32_t device_id, uint64_t link_ref, uint32_t send_depth,
			uint32_t recv_len, void **ret_qp, uint32_t *ret_qpn)
{
	struct host *host = ctx;
	struct device *device = find_device(host, device_id);
	struct qp *qp;
	if (!device) {
		world_fail(host->world, "HOST", "qp_create on unknown device %u", device_id);
		return -ENODEV;
	}
	int r = refuse(host) ? -ENOMEM
			     : fabric_qp_create(device, link_ref, send_depth, recv_len, &qp);
	if (r < 0)
		return r;
	if (++host->num_qps > host->qps_high)
		host->qps_high = host->num_qps;
	world_log(host->world, host->name, "QP %06x on %s", qp->qpn, device->info.name);
	*ret_qp = qp;
	*ret_qpn = qp->qpn;
	return 0;
}

static int op_qp_connect(void *ctx, void *qp, const struct smcr_qp_peer *peer)
{
	struct host *host = ctx;
	return refuse(host) ? -EINVAL : fabric_qp_connect(qp, peer);
}

static int op_qp_start(void *ctx, void *qp, uint32_t psn, uint32_t retry_ms)
{
	struct host *host = ctx;
	return refuse(host) ? -EINVAL : fabric_qp_start(qp, psn, retry_ms);
}

static void op_qp_set_retry(void *ctx, void *qp, uint32_t retry_ms)
{
	(void)ctx;
	fabric_qp_set_retry(qp, retry_ms);
}

static void op_qp_want_ack(void *ctx, void *qp)
{
	(void)ctx;
	fabric_qp_want_ack(qp);
}

static void op_qp_error(void *ctx, void *qp)
{
	(void)ctx;
	fabric_qp_error(qp);
}

static uint64_t op_qp_heard(void *ctx, void *qp)
{
	(void)ctx;
	(void)qp;
	return UINT64_MAX; /* the simulator never asks */
}

static void op_qp_destroy(void *ctx, void *qp)
{
	struct host *host = ctx;
	world_log(host->world, host->name, "QP %06x destroyed", ((struct qp *)qp)->qpn);
	host->num_qps--;
	fabric_qp_destroy(qp);
}

static int op_mr_register(void *ctx, void *qp, void *addr, size_t len, bool remote,
			  struct smcr_mr *ret_mr)
{
	struct host *host = ctx;
	struct mr *mr;
	int r = refuse(host) ? -ENOMEM : fabric_mr_register(qp, addr, len, remote, &mr);
	if (r < 0)
		return r;
	host->num_mrs++;
	*ret_mr = (struct smcr_mr){
		.handle = mr, .lkey = mr->key, .rkey = mr->key, .vaddr = mr->vaddr
	};
	return 0;
}

static void op_mr_deregister(void *ctx, void *mr)
{
	struct host *host = ctx;
	host->num_mrs--;
	fabric_mr_deregister(mr);
}

static int op_post(void *ctx, void *qp, const struct smcr_wr *wr, size_t n)
{
	(void)ctx;
	return fabric_post(qp, wr, n);
}

static void op_clc_send(void *user, const uint8_t *msg, size_t len)
{
	side_clc_send(user, msg, len);
}

static void op_conn_event(void *user, const struct smcr_conn_event *event)
{
	struct host *host = ((const struct side *)user)->host;
	if (host->num_notes == host->cap_notes) {
		host->cap_notes = host->cap_notes ? 2 * host->cap_notes : 16;
		host->notes = realloc(host->notes, host->cap_notes * sizeof(*host->notes));
		if (!host->notes)
			abort();
	}
	host->notes[host->num_notes++] = (struct note){ .side = user, .event = *event };
	side_event_raised(user, event);
}

static void op_unshare(void *user)
{
	side_unshare(user);
}

static void op_command_done(void *ctx, uint64_t id, const struct smcr_command_result *result)
{
	struct host *host = ctx;
	host->commands--;
	world_log(host->world, host->name, "command %llu: %s", (unsigned long long)id,
		  result->text);
	if (!result->text[0])
		world_fail(host->world, "DELL-11", "a command's outcome says nothing");
}

static void op_event(void *ctx, const struct smcr_event *event)
{
	told_event(ctx, event);
}

static void op_log(void *ctx, int priority, const char *line)
{
	struct host *host = ctx;
	world_log(host->world, host->name, "log<%d> %s", priority, line);
}

static void op_trace(void *ctx, enum ipc_trace category, const char *line)
{
	struct host *host = ctx;
	world_log(host->world, host->name, "%s: %s", ipc_trace_name(category), line);
}

static const struct smcr_host_ops host_ops = { .random = op_random,
					       .log = op_log,
					       .trace = op_trace };

static const struct smcr_rdma_ops rdma_ops = {
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

static const struct smcr_conn_ops conn_ops = { .clc_send = op_clc_send,
					       .event = op_conn_event,
					       .unshare = op_unshare };

static struct smcr_ops ops_of(struct host *host)
{
	return (struct smcr_ops){ .host = &host_ops,
				  .host_ctx = host,
				  .rdma = &rdma_ops,
				  .rdma_ctx = host,
				  .conns = &conn_ops,
				  .command_done = op_command_done,
				  .command_ctx = host,
				  .event = op_event,
				  .event_ctx = host };
}

/* ---- stepping ---- */

static void check(struct host *host)
{
	struct world *w = host->world;
	char text[256] = "";
	if (host->steps < host->next_check)
		return;
	host->next_check = host->steps + 8 + host->num_conns / 2;
	/* In hostile runs a CONFIRM RKEY may be mangled, so that an RToken is missing at the peer:
	 * the connections that need it are aborted. */
	if (smcr_engine_check(host->engine, text, sizeof(text)) < 0 &&
	    !(w->set.hostile && strstr(text, "RKEY-11")))
		world_fail(w, "ENGINE-CHECK", "%s: %s", host->name, text);
	struct smcr_engine_view view;
	smcr_engine_get_view(host->engine, &view);
	if (view.num_qps != host->num_qps || view.num_mrs != host->num_mrs)
		world_fail(w, "ENGINE-VIEW", "%s: view says %u QPs, %u MRs; it holds %u, %u",
			   host->name, view.num_qps, view.num_mrs, host->num_qps, host->num_mrs);
	if (view.memory_used != host->memory)
		world_fail(w, "ENGINE-VIEW", "%s: view says %llu bytes in use, it holds %llu",
			   host->name, (unsigned long long)view.memory_used,
			   (unsigned long long)host->memory);
	if (host->memory > view.memory_budget)
		world_fail(w, "RMB-12", "%s: memory budget exceeded", host->name);
	told_check(host);
	counted_check(host);
}

static void wake_event(void *object, uint64_t arg)
{
	struct host *host = object;
	if (arg != host->wake_number || !host->engine)
		return;
	if (host_frozen(host)) {
		clock_at(&host->world->clock, host_frozen(host), wake_event, host, arg);
		return;
	}
	host->wake_at = SMCR_NO_DEADLINE;
	if (host->spin_at == host->world->clock.now) {
		if (++host->spins > 10000)
			world_fail(host->world, "ENGINE-TIMER",
				   "%s: timers keep firing without progress", host->name);
	} else {
		host->spin_at = host->world->clock.now;
		host->spins = 0;
	}
	/* A daemon hands in what has arrived before it runs the timers (engine.h): messages always,
	 * for a link that a timer ends loses them; completions at least after a freeze. */
	uint64_t now = host->world->clock.now;
	bool thawed = host->frozen_until && now < host->frozen_until + 5 * MSEC;
	if (thawed || prng_chance(&host->world->rng, 300))
		wire_poll(host);
	host_enter(host);
	wire_hand_in(host, UINT64_MAX);
	smcr_engine_run(host->engine, now);
	host_leave(host);
}

static void plan_wake(struct host *host)
{
	struct world *w = host->world;
	uint64_t deadline = smcr_engine_next_deadline(host->engine);
	if (deadline == SMCR_NO_DEADLINE)
		return;
	if (deadline < w->clock.now)
		deadline = w->clock.now;
	if (host->wake_at != SMCR_NO_DEADLINE &&
	    host->wake_at <= deadline + w->set.timer_late_max && host->wake_at >= deadline)
		return;
	host->wake_at = deadline + prng_range(&w->rng, 0, w->set.timer_late_max);
	clock_at(&w->clock, host->wake_at, wake_event, host, ++host->wake_number);
}

void host_enter(struct host *host)
{
	if (host->in_engine)
		abort();
	host->in_engine = true;
	host->steps++;
	woken_check(host);
	smcr_engine_set_time(host->engine, host->world->clock.now);
}

void host_leave(struct host *host)
{
	host->in_engine = false;
	for (size_t i = 0; i < host->num_notes; i++) {
		struct note note = host->notes[i];
		side_event(note.side, &note.event);
	}
	host->num_notes = 0;
	if (host->world->failed)
		return;
	check(host);
	obs_step(host->world->observer, host);
	plan_wake(host);
}

/* ---- life ---- */

static void start_engine(struct host *host)
{
	struct world *w = host->world;
	struct smcr_config config = host->config;
	host->generation++;
	config.peer_id[0] = (uint8_t)(host->generation >> 8);
	config.peer_id[1] = (uint8_t)host->generation;
	config.peer_id[2] = 0x02;
	config.peer_id[3] = 0x51;
	config.peer_id[7] = (uint8_t)(host->index + 1);
	memcpy(host->config.peer_id, config.peer_id, sizeof(config.peer_id));
	snprintf(config.host_name, sizeof(config.host_name), "%s", host->name);
	const struct smcr_ops ops = ops_of(host);
	if (smcr_engine_new(&config, &ops, w->clock.now, &host->engine) < 0) {
		fprintf(stderr, "smcr_engine_new fails\n");
		abort();
	}
	host->wake_at = SMCR_NO_DEADLINE;
	host->wake_number++;
}

struct host *host_new(struct world *w, const struct smcr_config *config)
{
	struct host *host = sim_zalloc(sizeof(*host));
	if (w->num_hosts == SIM_MAX_HOSTS)
		abort();
	host->world = w;
	host->index = w->num_hosts;
	snprintf(host->name, sizeof(host->name), "host%zu", host->index % 10);
	host->config = *config;
	w->hosts[w->num_hosts++] = host;
	start_engine(host);
	return host;
}

void host_free(struct host *host)
{
	if (host->engine) {
		coverage_add(host->engine);
		smcr_engine_free(host->engine);
	}
	told_forget(host);
	free(host->notes);
	free(host);
}

void host_add_device(struct host *host, struct device *device)
{
	host_enter(host);
	device->known = true;
	if (smcr_engine_device_add(host->engine, &device->info) < 0)
		world_fail(host->world, "HOST", "device_add fails");
	host_leave(host);
}

void host_device_changed(struct host *host, struct device *device)
{
	host_enter(host);
	if (!device->present) {
		wire_hand_in(host, UINT64_MAX);
		device->known = false;
		smcr_engine_device_remove(host->engine, device->info.id);
		if (device->num_qps)
			world_fail(host->world, "HOST", "device_remove leaves %u QPs",
				   device->num_qps);
	} else {
		device->info.active = device->port_up;
		if (smcr_engine_device_update(host->engine, &device->info) < 0)
			world_fail(host->world, "HOST", "device_update fails");
	}
	host_leave(host);
}

void host_freeze(struct host *host, uint64_t time)
{
	world_log(host->world, host->name, "falls silent for %.6f s", (double)time / 1e6);
	host->frozen_until = host->world->clock.now + time;
	obs_frozen(host->world->observer, host);
}

uint64_t host_frozen(const struct host *host)
{
	return host->frozen_until > host->world->clock.now ? host->frozen_until : 0;
}

static void list_link(void *arg, const struct smcr_link_view *view)
{
	struct host_links *list = arg;
	if (list->num < sizeof(list->link) / sizeof(list->link[0]))
		list->link[list->num++] = *view;
}

void host_list_links(struct host *host, struct host_links *ret_links)
{
	ret_links->num = 0;
	smcr_engine_each_link(host->engine, list_link, ret_links);
}

void host_test_links(struct host *host)
{
	struct host_links list;
	host_enter(host);
	host_list_links(host, &list);
	for (size_t i = 0; i < list.num; i++) {
		int r = smcr_engine_test_link(host->engine, list.link[i].lgr_id,
					      list.link[i].number);
		if (r < 0 && r != -ENETDOWN)
			world_fail(host->world, "HOST", "test_link of a listed link: %s",
				   strerror(-r));
	}
	host_leave(host);
}

void host_command(struct host *host, const struct smcr_command *command)
{
	static const char *const names[] = {
#define COMMAND_NAME(type, method, ...) method,
		IPC_COMMANDS(COMMAND_NAME)
#undef COMMAND_NAME
	};
	uint64_t id = 0;
	host->operated = true;
	host_enter(host);
	int r = smcr_engine_command(host->engine, command, &id);
	world_log(host->world, host->name, "command %llu: %s %u/%u to %u%s: %s",
		  (unsigned long long)id, names[command->type], command->lgr, command->link,
		  command->to, command->orderly ? ", orderly" : "", strerror(-r));
	if (!r)
		host->commands++;
	else if (r != -ENOENT && r != -EBUSY && r != -EINVAL && r != -EOPNOTSUPP && r != -ENODEV)
		world_fail(host->world, "HOST", "smcr_engine_command: %s", strerror(-r));
	host_leave(host);
}

void host_drain(struct host *host, const struct device *device, bool drained)
{
	host->operated = true;
	host_enter(host);
	int r = smcr_engine_device_drain(host->engine, device->info.id, drained);
	world_log(host->world, host->name, "device %u is %s", device->info.id,
		  drained ? "drained" : "used again");
	if (r)
		world_fail(host->world, "HOST", "smcr_engine_device_drain: %s", strerror(-r));
	host_leave(host);
}

void host_toggle_ueid(struct host *host, const char *name)
{
	uint8_t ueid[SMCR_EID_LEN];
	if (smcr_ueid_parse(name, ueid))
		abort();
	host_enter(host);
	int r = smcr_engine_remove_ueid(host->engine, ueid);
	bool removed = r == 0;
	if (!removed)
		r = smcr_engine_add_ueid(host->engine, ueid);
	host->config.num_ueids = (uint8_t)smcr_engine_get_ueids(host->engine, host->config.ueids);
	host->ueid_changes++;
	world_log(host->world, host->name, "UEID %s %s", name, removed ? "removed" : "added");
	if (r < 0)
		world_fail(host->world, "HOST", "UEID %s: %s", name, strerror(-r));
	host_leave(host);
}

void host_shutdown(struct host *host)
{
	world_log(host->world, host->name, "orderly stop");
	host_enter(host);
	smcr_engine_shutdown(host->engine);
	host_leave(host);
}

/** The engine is freed: it must have given every resource back to the host. */
static void check_returned(struct host *host, const char *when)
{
	if (host->num_qps || host->num_mrs || host->memory)
		world_fail(host->world, "LEAK", "%s: %s: %u QPs, %u MRs, %llu bytes not given back",
			   host->name, when, host->num_qps, host->num_mrs,
			   (unsigned long long)host->memory);
}

void host_restart(struct host *host)
{
	struct world *w = host->world;
	struct fabric *fabric = w->fabric;
	world_log(w, host->name, "daemon dies and starts again");
	obs_host_died(w->observer, host);
	coverage_add(host->engine);
	smcr_engine_free(host->engine);
	told_forget(host);
	counted_forget(host);
	host->engine = NULL;
	host->commands = 0;
	host->num_notes = 0;
	check_returned(host, "after smcr_engine_free()");
	for (size_t i = 0; i < w->num_pairs; i++) {
		for (int s = 0; s < 2; s++) {
			if (w->pairs[i]->side[s].host == host)
				side_daemon_died(&w->pairs[i]->side[s]);
		}
	}
	start_engine(host);
	for (size_t i = 0; i < fabric->num_devices; i++) {
		if (fabric->devices[i]->host == host && fabric->devices[i]->present)
			host_add_device(host, fabric->devices[i]);
	}
}

/* ---- from the fabric ---- */

void host_rdma_recv(struct host *host, struct qp *qp, const struct message *msg)
{
	/* This message relies on messages that have arrived on another link: they come first
	 * (FO-8). */
	if (smcr_engine_recv_is_barrier(message_bytes(msg), msg->len))
		wire_hand_in(host, msg->order);
	/* Timers that host_enter() ran may have destroyed the QP. */
	if (qp->state == QP_DESTROYED)
		return;
	obs_recv(host->world->observer, qp, message_bytes(msg), msg->len);
	smcr_engine_recv(host->engine, qp->link_ref, message_bytes(msg), msg->len);
}

void host_rdma_done(struct host *host, struct qp *qp, uint64_t number, enum smcr_send_status status)
{
	host_enter(host);
	if (qp->state != QP_DESTROYED) {
		uint64_t ref = qp->link_ref, wr_id = wire_done(qp, number);
		smcr_engine_send_done(host->engine, ref, wr_id, status,
				      status == SMCR_SEND_FAILED ? "retry exceeded" : NULL);
		/* Some RNICs report a completion twice. */
		if (prng_chance(&host->world->rng, host->world->set.stale_permille / 10))
			smcr_engine_send_done(host->engine, ref, wr_id, SMCR_SEND_OK, NULL);
	}
	host_leave(host);
}

void host_qp_failed(struct host *host, struct qp *qp)
{
	host_enter(host);
	smcr_engine_qp_failed(host->engine, qp->link_ref, "asynchronous error");
	host_leave(host);
}

void host_stale_input(struct host *host, struct qp *qp, uint64_t kind)
{
	static const uint8_t garbage[SIM_MESSAGE_LEN] = { SMCR_CDC_TYPE, SIM_MESSAGE_LEN };
	if (!host->engine)
		return;
	host_enter(host);
	if (kind)
		smcr_engine_recv(host->engine, qp->link_ref, garbage, sizeof(garbage));
	else
		smcr_engine_send_done(host->engine, qp->link_ref, 1, SMCR_SEND_OK, NULL);
	host_leave(host);
}

void host_check_empty(struct host *host, const char *when)
{
	struct world *w = host->world;
	struct smcr_engine_view v;
	if (w->failed)
		return;
	smcr_engine_get_view(host->engine, &v);
	if (v.num_conns || v.num_lgrs || v.num_links || v.num_rmbs || v.num_elements_used ||
	    v.num_qps || v.num_mrs || v.memory_used || v.num_timers)
		world_fail(w, "LEAK",
			   "%s: %s: %u connections, %u groups, %u links, %u RMBs, %u elements, "
			   "%u QPs, %u MRs, %llu bytes, %u timers are left",
			   host->name, when, v.num_conns, v.num_lgrs, v.num_links, v.num_rmbs,
			   v.num_elements_used, v.num_qps, v.num_mrs,
			   (unsigned long long)v.memory_used, v.num_timers);
	else if (host->commands)
		world_fail(w, "DELL-11", "%s: %u commands have no outcome", host->name,
			   host->commands);
	else if (!smcr_engine_idle(host->engine))
		world_fail(w, "LEAK", "%s: %s: holds nothing, but is not idle", host->name, when);
	check_returned(host, when);
}

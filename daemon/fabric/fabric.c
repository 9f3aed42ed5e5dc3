/* SPDX-License-Identifier: MIT */
/* Adding, changing and removing RNICs, and the engine's time. The engine's operations on RNICs are
 * in rdma.c. */
#include "daemon/fabric/fabric.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "daemon/fabric/internal.h"
#include "daemon/host/log.h"
#include "daemon/rnic/alarm.h"
#include "daemon/smcr/view.h"

uint64_t fabric_now(void)
{
	return alarm_now();
}

/* ---- time ---- */

uint64_t fabric_begin_work(struct fabric *fabric, enum fabric_work work)
{
	uint64_t now = fabric_now();
	if (fabric->params.at_work)
		fabric->params.at_work(fabric->params.work_ctx, work, now);
	return now;
}

static void on_timer(void *ctx)
{
	struct fabric *fabric = ctx;
	fabric_poll_devices(fabric);
	smcr_engine_run(fabric->engine, fabric_begin_work(fabric, FABRIC_TIMERS));
}

void fabric_end_turn(struct fabric *fabric)
{
	fabric_post_all(fabric);
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

void fabric_poll_devices(struct fabric *fabric)
{
	struct fabric_device *device;
	DL_FOREACH (fabric->devices, device)
		rnic_poll(device->rnic);
}

static void describe(struct fabric_device *device)
{
	struct smcr_device_info *ret = &device->info;
	struct rnic_info info;
	rnic_get_info(device->rnic, &info);
	/* With an MTU below the smallest path MTU the port is down, but the engine needs a valid
	 * value. */
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

static void tell_change(const struct fabric_device *device, enum fabric_change change)
{
	const struct fabric_params *params = &device->fabric->params;
	if (params->device_changed)
		params->device_changed(params->changed_ctx, device->rnic, change);
}

static void device_drop(struct fabric *fabric, struct fabric_device *device)
{
	fabric_poll_devices(fabric);
	smcr_engine_set_time(fabric->engine, fabric_now());
	smcr_engine_device_remove(fabric->engine, device->id);
	tell_change(device, FABRIC_DEVICE_CLOSING);
	rnic_close(device->rnic);
	DL_DELETE(fabric->devices, device);
	free(device);
	if (fabric->params.device_gone)
		fabric->params.device_gone(fabric->params.gone_ctx);
}

/* Tell operators of a change. @param is_new the device was not in use until now */
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
		fabric->params.device_told(fabric->params.told_ctx, info->name, up, text);
}

static void tell_of_removal(const struct fabric *fabric, const struct rnic_info *info)
{
	const char *text = info->down && *info->down ? info->down : "it is gone";
	if (fabric->params.device_told)
		fabric->params.device_told(fabric->params.told_ctx, info->name, false, text);
}

static void log_gid(const char *name, const struct rnic_info *info)
{
	char addr[INET6_ADDRSTRLEN];
	if (!info->num_gids)
		log_message(LOG_NOTICE, "rnic %s: has no address", name);
	else if (inet_ntop(AF_INET6, info->gids[0].raw, addr, sizeof(addr)))
		log_message(LOG_NOTICE, "rnic %s: its GID is %s now", name, addr);
}

/* `before` is the state that the engine knows. */
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

static void tell_of_name(const struct fabric *fabric, const char *before, const char *now)
{
	if (strcmp(before, now) != 0 && fabric->params.device_renamed)
		fabric->params.device_renamed(fabric->params.renamed_ctx, before, now);
}

static void on_device_work(void *ctx)
{
	const struct fabric_device *device = ctx;
	(void)fabric_begin_work(device->fabric, FABRIC_DEVICES);
}

static void on_device_event(void *ctx, struct rnic *rnic, const struct rnic_event *event)
{
	struct fabric_device *device = ctx;
	struct rnic_info info;
	on_device_work(device);
	rnic_get_info(rnic, &info);
	switch (event->type) {
	case RNIC_EVENT_CHANGED:
		log_change(&device->info, &info);
		tell_of_name(device->fabric, device->info.name, info.name);
		break;
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
	tell_change(device, FABRIC_DEVICE_CHANGED);
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
	tell_change(device, FABRIC_DEVICE_OPENED);
	return 0;
}

void fabric_remove_device(struct fabric *fabric, const char *name, const char *why)
{
	struct fabric_device *device = device_by_name(fabric, name);
	if (!device)
		return;
	if (fabric->params.device_told)
		fabric->params.device_told(fabric->params.told_ctx, name, false, why);
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
		tell_change(device, FABRIC_DEVICE_CLOSING);
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

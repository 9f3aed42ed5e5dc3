/* SPDX-License-Identifier: MIT */
#include "daemon/control/snapshot.h"

#include "proto/ibcm/ibcm.h"

static bool count_conn(void *arg, const struct cm_conn_view *view)
{
	struct snapshot *snapshot = arg;
	if (view->state == CM_STATE_ENDED)
		return false; /* those that have ended come last */
	snapshot->cm_conns[view->state]++;
	return true;
}

static void count_listener(void *arg, const struct cm_listener_view *view)
{
	struct snapshot *snapshot = arg;
	(void)view;
	snapshot->cm_listeners++;
}

static bool count_smbdirect(void *arg, const struct smbgate_view *view)
{
	struct snapshot *snapshot = arg;
	if (view->state == SMBGATE_ENDED)
		return true; /* it may be in front of others, not freed yet */
	snapshot->smbdirect_conns[view->state]++;
	return true;
}

static void count_smbdirect_listener(void *arg, const struct smbgate_listener_view *view)
{
	struct snapshot *snapshot = arg;
	snapshot->smbdirect_listeners += !view->error;
}

static void take_smbdirect(struct smbgate *gate, struct snapshot *snapshot)
{
	smbgate_get_stats(gate, &snapshot->smbdirect);
	smbgate_each(gate, count_smbdirect, snapshot);
	smbgate_each_listener(gate, count_smbdirect_listener, snapshot);
}

void snapshot_take(const struct control *control, struct snapshot *ret_snapshot)
{
	*ret_snapshot = (struct snapshot){
		.control = control,
		.uptime_us = fabric_now() - control->started,
	};
	smcr_engine_get_view(control->engine, &ret_snapshot->engine);
	smcr_engine_get_stats(control->engine, &ret_snapshot->stats);
	if (control->conns)
		conns_get_view(control->conns, &ret_snapshot->conns);
	rdv_option_get_listeners(control->option, &ret_snapshot->listeners);
	egress_get_view(control->egress, &ret_snapshot->egress);
	if (control->smbgate)
		take_smbdirect(control->smbgate, ret_snapshot);
	if (!control->cm)
		return;
	cm_get_stats(control->cm, &ret_snapshot->cm);
	cm_each_conn(control->cm, count_conn, ret_snapshot);
	cm_each_listener(control->cm, count_listener, ret_snapshot);
}

const char *snapshot_size_name(unsigned int class)
{
	static const char *const names[SMCR_SIZE_CLASSES] = { "8K",   "16K",  "32K",  "64K",
							      "128K", "256K", "512K", ">512K" };
	return names[class];
}

const char *snapshot_buffer_name(unsigned int code)
{
	static const char *const names[SMCR_BSIZE_MAX + 1] = { "16K",  "32K",  "64K",
							       "128K", "256K", "512K" };
	return names[code];
}

const char *snapshot_cm_name(unsigned int message)
{
	return ibcm_type_name((enum ibcm_type)(IBCM_REQ + message));
}

/* SPDX-License-Identifier: MIT */
#include "daemon/control/snapshot.h"

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

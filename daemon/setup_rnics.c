/* SPDX-License-Identifier: MIT */
/* Steps of the start that make the engine and what is below it: events, fabric, engine, RNICs. */
#include <stdio.h>

#include "daemon/host/host_ops.h"
#include "daemon/internal.h"

/* Whoever waits for events, at the Unix socket or on the bus, looks again. */
static void event_noted(void *ctx)
{
	struct smcrd *smcrd = ctx;
	if (smcrd->clients)
		clients_control_wake(smcrd->clients);
	bus_wake(smcrd->bus);
}

int setup_events(struct smcrd *smcrd)
{
	int error = events_new(&smcrd->events);
	if (!error)
		events_notify(smcrd->events, event_noted, smcrd);
	return error;
}

/* The kinds of work of the fabric, as the loop counts its time. */
static void at_work(void *ctx, enum fabric_work work, uint64_t now)
{
	static const enum turns_work kinds[] = { [FABRIC_COMPLETIONS] = TURNS_ROCE,
						 [FABRIC_TIMERS] = TURNS_TIMERS,
						 [FABRIC_DEVICES] = TURNS_HOST };
	struct smcrd *smcrd = ctx;
	turns_begin(&smcrd->turns, kinds[work], now);
}

static void on_rnic_gone(void *ctx)
{
	struct smcrd *smcrd = ctx;
	promise_update(smcrd);
	if (smcrd->rnics && !smcrd->stopping)
		rnics_look(smcrd->rnics);
}

static void on_rnic_renamed(void *ctx, const char *before, const char *now)
{
	struct smcrd *smcrd = ctx;
	if (smcrd->rnics)
		rnics_renamed(smcrd->rnics, before, now);
}

int setup_fabric(struct smcrd *smcrd)
{
	struct fabric_params params = { .base = smcrd->base,
					.host_ops = &netif_rnic_host_ops,
					.host_ctx = smcrd->netifs,
					.at_work = at_work,
					.work_ctx = smcrd,
					.device_gone = on_rnic_gone,
					.gone_ctx = smcrd,
					.device_renamed = on_rnic_renamed,
					.renamed_ctx = smcrd,
					.device_changed = cm_on_device,
					.changed_ctx = smcrd,
					.device_told = events_rnic,
					.told_ctx = smcrd->events };
	return fabric_new(&params, &smcrd->fabric);
}

int setup_engine(struct smcrd *smcrd)
{
	static const struct smcr_conn_ops conn_ops = { .clc_send = conns_clc_send,
						       .event = conns_event,
						       .unshare = conns_unshare };
	const struct smcr_ops ops = { .host = &host_ops,
				      .rdma = &fabric_rdma_ops,
				      .rdma_ctx = smcrd->fabric,
				      .conns = &conn_ops,
				      .command_done = control_command_done,
				      .command_ctx = &smcrd->control,
				      .event = events_engine,
				      .event_ctx = smcrd->events };
	int error = smcr_engine_new(&smcrd->config.engine, &ops, fabric_now(), &smcrd->engine);
	if (!error)
		fabric_attach(smcrd->fabric, smcrd->engine);
	return error;
}

static void on_rnic_opened(void *ctx)
{
	promise_update(ctx);
}

int setup_rnics(struct smcrd *smcrd)
{
	struct rnics_params params = { .base = smcrd->base,
				       .fabric = smcrd->fabric,
				       .netifs = smcrd->netifs,
				       .config = &smcrd->config,
				       .at_work = smcrd_host_at_work,
				       .opened = on_rnic_opened,
				       .ctx = smcrd };
	char text[RNIC_ERROR_LEN];
	int error = rnics_new(&params, &smcrd->rnics, text);
	if (error)
		snprintf(smcrd->error, DAEMON_ERROR_LEN, "%s", text);
	return error;
}

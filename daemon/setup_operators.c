/* SPDX-License-Identifier: MIT */
/* Steps of the start that serve operators: the methods of smcrctl, the line of the service manager,
 * metrics, the system bus. */
#include <errno.h>
#include <stdlib.h>

#include "daemon/control/metrics.h"
#include "daemon/host/log.h"
#include "daemon/internal.h"

/* ---- methods ---- */

static const char *dbus_state(void *ctx)
{
	struct smcrd *smcrd = ctx;
	return bus_state(smcrd->bus);
}

static void rnic_drained(void *ctx)
{
	promise_update(ctx);
}

/* Parts that were made before have the address of `control`; none calls it before the loop runs.
 * setup_conns() adds the connections. */
int setup_control(struct smcrd *smcrd)
{
	smcrd->control = (struct control){ .config = &smcrd->config,
					   .base = smcrd->base,
					   .fabric = smcrd->fabric,
					   .rnics = smcrd->rnics,
					   .engine = smcrd->engine,
					   .cm = smcrd->cm,
					   .ctx = smcrd,
					   .reload = reconfigure_begin,
					   .set_values = reconfigure_values,
					   .dbus = dbus_state,
					   .set_rnics = reconfigure_rnics,
					   .rnic_drained = rnic_drained,
					   .drained = promise_drain_changed,
					   .option = smcrd->option,
					   .policy = smcrd->policy,
					   .events = smcrd->events,
					   .plain = smcrd->plain,
					   .egress = smcrd->egress,
					   .turns = &smcrd->turns,
					   .waiting = &smcrd->waiting,
					   .option_error = smcrd->option_error,
					   .started = fabric_now() };
	return 0;
}

int setup_status(struct smcrd *smcrd)
{
	return status_start(&smcrd->status, smcrd->base, describe_status, smcrd);
}

/* ---- metrics ---- */

/* A monitoring system has asked for the metrics. */
static char *collect_metrics(void *ctx)
{
	struct smcrd *smcrd = ctx;
	turns_begin(&smcrd->turns, TURNS_TOOLS, fabric_now());
	char *text = metrics_text(&smcrd->control);
	turns_begin(&smcrd->turns, TURNS_PROGRAMS, fabric_now()); /* the work for tools is over */
	return text;
}

static void open_door(struct smcrd *smcrd, enum scrape_door door, const char *at,
		      struct config_notes *notes)
{
	char text[DAEMON_ERROR_LEN];
	int r = scrape_listen(smcrd->scrape, door, at, text, sizeof(text));
	if (r == 0)
		return;
	const char *still = scrape_at(smcrd->scrape, door);
	const char *advice = "";
	if (r == -EACCES && smcrd->confined)
		advice =
			"; where the directory is new to smcrd, restart it: it has given up others";
	config_note(notes,
		    "monitoring systems cannot ask for metrics: %s%s%s; a reload tries again%s",
		    text, *still ? "; they still can at " : "", still, advice);
}

/* A failure here does not stop smcrd, as connections are more important than metrics. Doors that
 * are open stay open. */
void setup_scrape_doors(struct smcrd *smcrd, struct config_notes *notes)
{
	const struct scrape_params params = { .base = smcrd->base,
					      .text = collect_metrics,
					      .ctx = smcrd };
	if (!smcrd->scrape && scrape_new(&params, &smcrd->scrape) < 0) {
		config_note(notes, "monitoring systems cannot ask for metrics: out of memory; "
				   "a reload tries again");
		return;
	}
	open_door(smcrd, SCRAPE_LOCAL, smcrd->config.metrics_socket, notes);
	open_door(smcrd, SCRAPE_TCP, smcrd->config.metrics_address, notes);
}

int setup_scrape(struct smcrd *smcrd)
{
	struct config_notes notes = { .num = 0 };
	setup_scrape_doors(smcrd, &notes);
	describe_notes(LOG_WARNING, &notes);
	config_notes_free(&notes);
	return 0;
}

/* ---- the system bus ---- */

static void bus_at_work(void *ctx)
{
	struct smcrd *smcrd = ctx;
	turns_begin(&smcrd->turns, TURNS_TOOLS, fabric_now());
}

/* batch_begin() counts what follows as work for programs, but this is work for tools. */
static int serve_bus(void *ctx, const struct clients_asker *asker, const json_t *request,
		     json_t **ret_reply)
{
	struct smcrd *smcrd = ctx;
	batch_begin(conns_batch(smcrd->conns));
	bus_at_work(smcrd);
	int r = control_handle_json(&smcrd->control, asker, request, ret_reply);
	batch_end(conns_batch(smcrd->conns));
	bus_at_work(smcrd);
	return r;
}

static void asker_gone(void *ctx, uint64_t request)
{
	struct smcrd *smcrd = ctx;
	control_forget(&smcrd->control, request);
}

/* Without memory for the bus smcrd goes on, as without a bus. Also called when the configuration
 * has changed. */
int setup_bus(struct smcrd *smcrd)
{
	const struct bus_params params = { .base = smcrd->base,
					   .control = &smcrd->control,
					   .call = serve_bus,
					   .gone = asker_gone,
					   .at_work = bus_at_work,
					   .ctx = smcrd };
	if (!smcrd->bus && bus_new(&params, &smcrd->bus) < 0)
		log_message(LOG_WARNING, "smcrd goes on without D-Bus: out of memory");
	else
		bus_configure(smcrd->bus, smcrd->config.dbus);
	return 0;
}

/* SPDX-License-Identifier: MIT */
#include "daemon/daemon.h"

#include <errno.h>
#include <event2/event.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "daemon/answers.h"
#include "daemon/apply.h"
#include "daemon/conns/batch.h"
#include "daemon/control/metrics.h"
#include "daemon/host/host_ops.h"
#include "daemon/host/log.h"
#include "daemon/host/peer_id.h"
#include "daemon/host/privileges.h"
#include "daemon/internal.h"
#include "daemon/rendezvous/attach.h"
#include "daemon/rnic/soft.h"

/* How long an orderly stop waits for connections and peers before it leaves them. */
#define STOP_PATIENCE_US 3000000
/* After that RNICs go on answering for this time; soft RNICs answer that their queue pairs have
 * ended. Otherwise a peer with rdma_rxe repeats its requests forever, and the kernel's SMC-R waits
 * for that. */
#define STOP_ANSWER_US 300000
#define RELOAD_SLOW_MS 5000
#define DRAIN_LOOK_US  100000 /* how often a drain checks for the last connection */

/* ---- RNICs ---- */

/* TCPO-8: without a usable RNIC, and while smcrd stops or drains, no peer is promised SMC-R. */
static void update_option(struct smcrd *smcrd)
{
	enum smcr_reason reason = SMCR_REASON_NONE;
	if (smcrd->stopping)
		reason = SMCR_REASON_SHUTTING_DOWN;
	else if (smcrd->control.drain.on)
		reason = SMCR_REASON_DRAINING;
	else if (!fabric_takes_new(smcrd->fabric))
		reason = SMCR_REASON_NO_DEVICE;
	if (smcrd->option)
		rdv_option_hold(smcrd->option, reason);
}

static void host_at_work(void *ctx)
{
	struct smcrd *smcrd = ctx;
	turns_begin(&smcrd->turns, TURNS_HOST, fabric_now());
}

static void on_netif_change(void *ctx, const struct netif *netif)
{
	struct smcrd *smcrd = ctx;
	host_at_work(smcrd);
	if (smcrd->policy)
		policy_netif(smcrd->policy, netif);
	if (smcrd->rnics && !smcrd->stopping)
		rnics_netif_changed(smcrd->rnics, netif);
}

static void on_hotplug(void *ctx)
{
	struct smcrd *smcrd = ctx;
	host_at_work(smcrd);
	if (smcrd->rnics && !smcrd->stopping)
		rnics_devices_changed(smcrd->rnics);
}

static void on_rnic_opened(void *ctx)
{
	update_option(ctx);
}

static void on_rnic_gone(void *ctx)
{
	struct smcrd *smcrd = ctx;
	update_option(smcrd);
	if (smcrd->rnics && !smcrd->stopping)
		rnics_look(smcrd->rnics);
}

static void on_rnic_renamed(void *ctx, const char *before, const char *now)
{
	struct smcrd *smcrd = ctx;
	if (smcrd->rnics)
		rnics_renamed(smcrd->rnics, before, now);
}

static int open_rnics(struct smcrd *smcrd)
{
	struct rnics_params params = { .base = smcrd->base,
				       .fabric = smcrd->fabric,
				       .netifs = smcrd->netifs,
				       .config = &smcrd->config,
				       .at_work = host_at_work,
				       .opened = on_rnic_opened,
				       .ctx = smcrd };
	char text[RNIC_ERROR_LEN];
	int error = rnics_new(&params, &smcrd->rnics, text);
	if (error)
		snprintf(smcrd->error, DAEMON_ERROR_LEN, "%s", text);
	return error;
}

/* ---- what other parts tell ---- */

static void at_work(void *ctx, enum fabric_work work, uint64_t now)
{
	static const enum turns_work kinds[] = { [FABRIC_COMPLETIONS] = TURNS_ROCE,
						 [FABRIC_TIMERS] = TURNS_TIMERS,
						 [FABRIC_DEVICES] = TURNS_HOST };
	struct smcrd *smcrd = ctx;
	turns_begin(&smcrd->turns, kinds[work], now);
}

static void event_noted(void *ctx)
{
	struct smcrd *smcrd = ctx;
	if (smcrd->clients)
		clients_control_wake(smcrd->clients);
	bus_wake(smcrd->bus);
}

/* ---- the configuration is read again ---- */

static void log_change(void *arg, const struct config_change *change)
{
	char *text = config_change_text(change);
	(void)arg;
	if (text)
		log_message(LOG_NOTICE, "%s", text);
	free(text);
}

static void log_notes(int priority, const struct config_notes *notes)
{
	size_t kept = config_notes_kept(notes);
	for (size_t i = 0; i < kept; i++)
		log_message(priority, "%s", config_note_text(notes, i));
	if (kept < notes->num)
		log_message(priority, "and %zu more", notes->num - kept);
}

/* A monitoring system has asked for the metrics. */
static char *collect_metrics(void *ctx)
{
	struct smcrd *smcrd = ctx;
	turns_begin(&smcrd->turns, TURNS_TOOLS, fabric_now());
	char *text = metrics_text(&smcrd->control);
	turns_begin(&smcrd->turns, TURNS_PROGRAMS, fabric_now());
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
static void open_scrape(struct smcrd *smcrd, struct config_notes *notes)
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

static int start_scrape(struct smcrd *smcrd)
{
	struct config_notes notes = { .num = 0 };
	open_scrape(smcrd, &notes);
	log_notes(LOG_WARNING, &notes);
	config_notes_free(&notes);
	return 0;
}

/* ---- on the system bus ---- */

static const char *dbus_state(void *ctx)
{
	struct smcrd *smcrd = ctx;
	return bus_state(smcrd->bus);
}

static void bus_at_work(void *ctx)
{
	struct smcrd *smcrd = ctx;
	turns_begin(&smcrd->turns, TURNS_TOOLS, fabric_now());
}

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

/* Without memory for the bus smcrd goes on, as without a bus. */
static void open_bus(struct smcrd *smcrd)
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
}

static int start_bus(struct smcrd *smcrd)
{
	open_bus(smcrd);
	return 0;
}

static void apply(struct smcrd *smcrd, enum apply_what what, struct config *next,
		  struct config_notes *ret_errors, struct config_notes *ret_notes)
{
	const struct apply_parts parts = { .config = &smcrd->config,
					   .rnics = smcrd->rnics,
					   .policy = smcrd->policy,
					   .conns = smcrd->conns,
					   .waiting = &smcrd->waiting,
					   .egress = smcrd->egress };
	apply_config(&parts, what, next, ret_errors, ret_notes);
	if (!ret_errors->num && what == APPLY_FILES)
		open_scrape(smcrd, ret_notes);
	if (!ret_errors->num)
		open_bus(smcrd);
	update_option(smcrd);
}

static void set_values(void *ctx, struct config *next, struct config_notes *ret_errors)
{
	struct config_notes notes = { .num = 0 };
	apply(ctx, APPLY_VALUES, next, ret_errors, &notes);
	log_notes(LOG_WARNING, &notes);
	config_notes_free(&notes);
}

static void set_rnics(void *ctx, struct config *next, struct config_notes *ret_errors,
		      struct config_notes *ret_notes)
{
	apply(ctx, APPLY_DEVICES, next, ret_errors, ret_notes);
	log_notes(LOG_WARNING, ret_notes);
}

static void rnic_drained(void *ctx)
{
	update_option(ctx);
}

static void on_loaded(void *ctx, uint64_t number, struct config *next, struct config_notes *errors)
{
	struct smcrd *smcrd = ctx;
	struct config_notes notes = { .num = 0 };
	turns_begin(&smcrd->turns, TURNS_TOOLS, fabric_now());
	if (next && !errors->num && !smcrd->stopping)
		apply(smcrd, APPLY_FILES, next, errors, &notes);
	if (!smcrd->stopping)
		log_notes(LOG_ERR, errors);
	if (!errors->num && !smcrd->stopping)
		config_compare(next, &smcrd->config, log_change, NULL);
	log_notes(LOG_WARNING, &notes);
	const struct control_reloaded outcome = { .stopping = smcrd->stopping,
						  .errors = errors,
						  .notes = &notes,
						  .before = errors->num ? NULL : next,
						  .now = &smcrd->config };
	control_reload_done(&smcrd->control, number, &outcome);
	config_notes_free(&notes);
	if (number < smcrd->reloading)
		return; /* another reload was asked for meanwhile */
	smcrd->reloading = 0;
	if (!smcrd->stopping)
		status_ready(&smcrd->status);
}

static uint64_t begin_reload(void *ctx)
{
	struct smcrd *smcrd = ctx;
	uint64_t number = smcrd->stopping ? 0 : reload_begin(smcrd->reload);
	if (number && !smcrd->reloading)
		status_reloading(&smcrd->status);
	if (number)
		smcrd->reloading = number;
	return number;
}

static void on_hangup(evutil_socket_t sig, short what, void *arg)
{
	struct smcrd *smcrd = arg;
	(void)sig;
	(void)what;
	if (smcrd->stopping)
		log_message(LOG_INFO, "the configuration is not read again: smcrd stops");
	else if (!begin_reload(smcrd))
		log_message(LOG_ERR,
			    "the configuration cannot be read again now: there is no memory or "
			    "no thread to read it with; ask again later");
}

static void on_slow_reload(void *ctx)
{
	(void)ctx;
	log_message(LOG_WARNING,
		    "the configuration is still being read after %d s: a file system, or what "
		    "users and groups are looked up in, does not answer. What holds goes on, and "
		    "other reloads wait",
		    RELOAD_SLOW_MS / 1000);
}

static int open_reload(struct smcrd *smcrd)
{
	const struct reload_params params = { .base = smcrd->base,
					      .source = smcrd->source,
					      .loaded = on_loaded,
					      .slow = on_slow_reload,
					      .slow_ms = RELOAD_SLOW_MS,
					      .ctx = smcrd };
	return reload_new(&params, &smcrd->reload);
}

/* ---- no new connections ---- */

static size_t drain_changed(void *ctx)
{
	struct smcrd *smcrd = ctx;
	const struct timeval often = { .tv_usec = DRAIN_LOOK_US };
	update_option(smcrd);
	status_changed(&smcrd->status);
	if (smcrd->control.drain.on)
		event_add(smcrd->drain_check, &often);
	else
		event_del(smcrd->drain_check);
	return conns_active(smcrd->conns);
}

static void on_drain_check(evutil_socket_t fd, short what, void *arg)
{
	struct smcrd *smcrd = arg;
	(void)fd;
	(void)what;
	if (!smcrd->stopping && control_drain_look(&smcrd->control, conns_active(smcrd->conns)))
		return;
	event_del(smcrd->drain_check);
	if (!smcrd->stopping)
		status_changed(&smcrd->status);
}

/* ---- what the service manager shows ---- */

static const char *plural(size_t n)
{
	return n == 1 ? "" : "s";
}

static void describe(void *ctx, char ret_text[STATUS_LEN])
{
	struct smcrd *smcrd = ctx;
	struct smcr_engine_view view;
	smcr_engine_get_view(smcrd->engine, &view);
	size_t rnics = fabric_num_devices(smcrd->fabric);
	snprintf(ret_text, STATUS_LEN,
		 "%s%zu RNIC%s, TCP option %s; %u link group%s, %u connection%s over SMC-R",
		 smcrd->control.drain.on ? "draining; " : "", rnics, plural(rnics),
		 smcrd->option ? "in use" : "not available", view.num_lgrs, plural(view.num_lgrs),
		 view.num_conns, plural(view.num_conns));
}

static void list_rnic(void *arg, uint32_t id, struct rnic *rnic)
{
	FILE *out = arg;
	struct rnic_info info;
	(void)id;
	rnic_get_info(rnic, &info);
	fprintf(out, " %s", info.name);
}

/* What a reader of the log has to know of this run. */
static void log_start(struct smcrd *smcrd)
{
	const struct config *config = &smcrd->config;
	char *rnics = NULL;
	size_t size;
	FILE *out = open_memstream(&rnics, &size);
	if (out) {
		fabric_each_device(smcrd->fabric, list_rnic, out);
		fclose(out);
	}
	log_message(LOG_NOTICE,
		    "smcrd " SMCRD_VERSION " serves on %s; RNICs:%s; TCP option %s; limits: "
		    "%llu MiB of buffers, %u connections, %u of a user, %u links of a group; %s",
		    config->socket_path, rnics && *rnics ? rnics : " none",
		    smcrd->option ? "in use" : "not available",
		    (unsigned long long)config->engine.memory_budget >> 20,
		    conns_most(smcrd->conns), config->max_connections_per_user,
		    config->engine.max_links, smcrd->files);
	free(rnics);
}

/* ---- up ---- */

/* The start is a row of steps, whose order is steps[] in bring_up(). A step returns 0, or a
 * negative errno, which ends the start. */

static void raise_descriptor_limit(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* Do what needs more privileges than smcrd needs later, and give these up. */
static int become_modest(struct smcrd *smcrd)
{
	char copy[PATH_MAX];
	snprintf(copy, sizeof(copy), "%s", smcrd->config.socket_path);
	const char *directory = dirname(copy);
	/* If the service manager has not made the directory. EEXIST is normal; bind() reports other
	 * errors. */
	mkdir(directory, 0755);
	smcrd->cgroup = attach_root();
	rnic_soft_note_holders();
	int r = privileges_drop(directory);
	if (r == 0)
		smcrd->confined = confine(smcrd->source, &smcrd->config, smcrd->files) == 0;
	return r;
}

static void first_mac(void *ctx, const struct netif *netif)
{
	struct netif *first = ctx;
	if (!first->present && netif->ethernet && netif->num_addrs > 0)
		*first = *netif;
}

/* Set once: the peer ID stays when that RNIC is gone (PEER-3). */
static void choose_peer_id(struct smcrd *smcrd)
{
	struct netif netif = { .present = false };
	const char *name = smcrd->config.num_rnics ? smcrd->config.rnics[0] : "";
	if (strncmp(name, "soft:", 5) || netif_by_name(smcrd->netifs, name + 5, &netif) < 0)
		netif_each(smcrd->netifs, first_mac, &netif);
	peer_id_make(netif.present ? netif.mac : NULL, smcrd->config.socket_path,
		     smcrd->config.engine.peer_id);
}

/* The host name that peers of version 2 show their operators; blanks if there is none. */
static void choose_host_name(struct smcrd *smcrd)
{
	struct utsname name;
	if (uname(&name) == 0)
		snprintf(smcrd->config.engine.host_name, sizeof(smcrd->config.engine.host_name),
			 "%.*s", SMCR_EID_LEN, name.nodename);
}

/* smcrd serves without the option. */
static int open_option(struct smcrd *smcrd)
{
	int error = rdv_option_open(smcrd->cgroup, &smcrd->option, smcrd->option_error);
	if (!error) {
		smcrd->option_error[0] = '\0';
		return 0;
	}
	smcrd->option = NULL;
	log_message(LOG_WARNING, "the SMC-R TCP option cannot be used, connections stay TCP%s: %s",
		    smcrd->config.num_capable_subnets ? " but to the capable_subnet networks" : "",
		    smcrd->option_error);
	return 0;
}

/* smcrd serves without the counts. */
static int open_tally(struct smcrd *smcrd)
{
	int error = smcrd->option ? rdv_tally_open(smcrd->option, &smcrd->tally) : 0;
	if (!error)
		error = plain_new(smcrd->tally, &smcrd->plain);
	if (error)
		log_message(LOG_WARNING,
			    "connections that are plain TCP cannot be counted, smcrctl shows only "
			    "those that were handed over: %s",
			    strerror(-error));
	return 0;
}

/* smcrd serves without these BPF programs too, but says so. */
static int open_egress(struct smcrd *smcrd)
{
	struct egress_view view;
	int error = egress_new(smcrd->cgroup, smcrd->option, &smcrd->egress);
	if (error)
		return error;
	egress_set(smcrd->egress, smcrd->config.egress_guard);
	egress_get_view(smcrd->egress, &view);
	for (int i = 0; i < NUM_EGRESS_KINDS; i++)
		if (view.errors[i][0])
			log_message(LOG_WARNING, "%s: %s", egress_kind_risk((enum egress_kind)i),
				    view.errors[i]);
	return 0;
}

static int start_heartbeat(struct smcrd *smcrd)
{
	const struct heartbeat_of of = { .turns = &smcrd->turns,
					 .option = smcrd->option,
					 .plain = smcrd->plain,
					 .egress = smcrd->egress,
					 .events = smcrd->events };
	return heartbeat_start(&smcrd->heartbeat, smcrd->base, &of);
}

static void add_own_netif(void *ctx, const struct netif *netif)
{
	policy_netif(ctx, netif);
}

static int open_policy(struct smcrd *smcrd)
{
	const struct policy_params params = { .base = smcrd->base,
					      .option = smcrd->option,
					      .skip_seconds = smcrd->config.skip_seconds,
					      .shorts = smcrd->config.shorts };
	int error = policy_new(&params, &smcrd->policy);
	if (error)
		return error;
	netif_each(smcrd->netifs, add_own_netif, smcrd->policy);
	for (size_t i = 0; i < smcrd->config.num_rules; i++)
		policy_add_rule(smcrd->policy, &smcrd->config.rules[i], true);
	return 0;
}

static int open_fabric(struct smcrd *smcrd)
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
					.device_told = events_rnic,
					.told_ctx = smcrd->events };
	return fabric_new(&params, &smcrd->fabric);
}

static int open_engine(struct smcrd *smcrd)
{
	static const struct smcr_conn_ops conn_ops = { .clc_send = conns_clc_send,
						       .event = conns_event };
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

static int open_conns(struct smcrd *smcrd)
{
	struct conns_config config = {
		.base = smcrd->base,
		.engine = smcrd->engine,
		.option = smcrd->option,
	};
	answers_fill(smcrd, &config.callbacks);
	apply_fill_conns(&smcrd->config, &config);
	int error = conns_new(&config, &smcrd->conns);
	smcrd->control.conns = smcrd->conns;
	return error;
}

static int open_clients(struct smcrd *smcrd)
{
	const struct clients_config config = {
		.base = smcrd->base,
		.conns = smcrd->conns,
		.option = smcrd->option,
		.socket_path = smcrd->config.socket_path,
		.callbacks = { .ctx = &smcrd->control,
			       .control = control_handle,
			       .administrator = control_is_administrator,
			       .control_gone = control_forget },
	};
	return clients_new(&config, &smcrd->clients, smcrd->error, DAEMON_ERROR_LEN);
}

static void on_signal(evutil_socket_t sig, short what, void *arg);
static void on_hangup(evutil_socket_t sig, short what, void *arg);
static void on_stop_check(evutil_socket_t fd, short what, void *arg);

static int open_loop(struct smcrd *smcrd)
{
	smcrd->base = event_base_new();
	if (!smcrd->base)
		return -ENOMEM;
	smcrd->on_term = evsignal_new(smcrd->base, SIGTERM, on_signal, smcrd);
	smcrd->on_int = evsignal_new(smcrd->base, SIGINT, on_signal, smcrd);
	smcrd->on_hup = evsignal_new(smcrd->base, SIGHUP, on_hangup, smcrd);
	smcrd->stop_check = event_new(smcrd->base, -1, EV_PERSIST, on_stop_check, smcrd);
	smcrd->drain_check = event_new(smcrd->base, -1, EV_PERSIST, on_drain_check, smcrd);
	if (!smcrd->on_term || !smcrd->on_int || !smcrd->on_hup || !smcrd->stop_check ||
	    !smcrd->drain_check || event_add(smcrd->on_term, NULL) ||
	    event_add(smcrd->on_int, NULL) || event_add(smcrd->on_hup, NULL))
		return -ENOMEM;
	return 0;
}

static int watch_netifs(struct smcrd *smcrd)
{
	return netif_watch_new(smcrd->base, on_netif_change, smcrd, &smcrd->netifs);
}

static int watch_hotplug(struct smcrd *smcrd)
{
	return hotplug_watch_new(smcrd->base, on_hotplug, smcrd, &smcrd->hotplug);
}

static int choose_names(struct smcrd *smcrd)
{
	choose_peer_id(smcrd);
	choose_host_name(smcrd);
	return 0;
}

static int open_events(struct smcrd *smcrd)
{
	int error = events_new(&smcrd->events);
	if (!error)
		events_notify(smcrd->events, event_noted, smcrd);
	return error;
}

static int start_optout(struct smcrd *smcrd)
{
	optout_start(&smcrd->optout, smcrd->base, smcrd->option);
	return 0;
}

static int open_control(struct smcrd *smcrd)
{
	update_option(smcrd);
	smcrd->control = (struct control){ .config = &smcrd->config,
					   .base = smcrd->base,
					   .fabric = smcrd->fabric,
					   .rnics = smcrd->rnics,
					   .engine = smcrd->engine,
					   .ctx = smcrd,
					   .reload = begin_reload,
					   .set_values = set_values,
					   .dbus = dbus_state,
					   .set_rnics = set_rnics,
					   .rnic_drained = rnic_drained,
					   .drained = drain_changed,
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

static int start_status(struct smcrd *smcrd)
{
	return status_start(&smcrd->status, smcrd->base, describe, smcrd);
}

/* A smcrd that cannot serve has ended before this step, and has changed nothing. */
static int purge_neighbours(struct smcrd *smcrd)
{
	return netif_purge_neighbours(smcrd->netifs);
}

static int bring_up(struct smcrd *smcrd)
{
	static const struct {
		int (*step)(struct smcrd *smcrd);
		const char *cannot; /* do what, if the step fails; NULL: the step says it itself */
	} steps[] = {
		{ become_modest, "give up privileges" },
		{ open_loop, "watch network interfaces" },
		{ watch_netifs, "watch network interfaces" },
		{ watch_hotplug, "watch devices come and go" },
		{ choose_names, NULL },
		{ open_events, "start the engine" },
		{ open_fabric, "start the engine" },
		{ open_engine, "start the engine" },
		{ open_rnics, NULL },
		{ open_option, NULL },
		{ open_tally, NULL },
		{ open_egress, "keep the heartbeat" },
		{ start_heartbeat, "keep the heartbeat" },
		{ start_optout, NULL },
		{ open_policy, "keep rules" },
		{ open_control, NULL },
		{ open_conns, "carry connections" },
		{ open_reload, "prepare to reload" },
		{ start_status, "prepare to reload" },
		{ open_clients, NULL },
		{ purge_neighbours, "tidy neighbour entries" },
		{ start_scrape, NULL },
		{ start_bus, NULL },
	};
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		int error = steps[i].step(smcrd);
		if (error && steps[i].cannot)
			snprintf(smcrd->error, DAEMON_ERROR_LEN, "cannot %s: %s", steps[i].cannot,
				 strerror(-error));
		if (error)
			return error;
	}
	return 0;
}

int smcrd_new(struct config *config, const struct config_source *source, struct smcrd **ret_smcrd,
	      char ret_error[DAEMON_ERROR_LEN])
{
	struct smcrd *smcrd = calloc(1, sizeof(*smcrd));
	if (!smcrd) {
		config_free(config);
		snprintf(ret_error, DAEMON_ERROR_LEN, "out of memory");
		return -ENOMEM;
	}
	smcrd->source = source;
	smcrd->config = *config;
	smcrd->cgroup = -ENOENT;
	waiting_init(&smcrd->waiting, smcrd->config.busy_poll_us);
	*config = (struct config){ 0 };
	raise_descriptor_limit();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a log or a memfd over RLIMIT_FSIZE is an error like others */
	int error = bring_up(smcrd);
	if (error) {
		snprintf(ret_error, DAEMON_ERROR_LEN, "%s", smcrd->error);
		smcrd_free(smcrd);
		return error;
	}
	*ret_smcrd = smcrd;
	return 0;
}

/* ---- run and stop ---- */

static bool stop_finished(const struct smcrd *smcrd)
{
	return smcr_engine_idle(smcrd->engine) && conns_active(smcrd->conns) == 0;
}

static void on_stop_check(evutil_socket_t fd, short what, void *arg)
{
	struct smcrd *smcrd = arg;
	(void)fd;
	(void)what;
	uint64_t now = fabric_now();
	if (stop_finished(smcrd) && smcrd->stop_deadline > now + smcrd->stop_answer)
		smcrd->stop_deadline = now + smcrd->stop_answer;
	smcrd->done = now >= smcrd->stop_deadline;
}

static void on_signal(evutil_socket_t sig, short what, void *arg)
{
	struct smcrd *smcrd = arg;
	struct timeval often = { .tv_usec = 10000 };
	(void)what;
	host_at_work(smcrd);
	if (smcrd->stopping) {
		smcrd->done = true; /* asked twice: stop at once */
		return;
	}
	log_message(LOG_NOTICE, "stopping on signal %d", (int)sig);
	status_stopping(&smcrd->status);
	smcrd->stopping = true;
	smcrd->stop_deadline = fabric_now() + STOP_PATIENCE_US;
	if (!smcr_engine_idle(smcrd->engine))
		smcrd->stop_answer = STOP_ANSWER_US;
	update_option(smcrd);
	clients_stop(smcrd->clients);
	conns_stop(smcrd->conns);
	fabric_leave(smcrd->fabric);
	answers_enter_engine(smcrd);
	smcr_engine_shutdown(smcrd->engine);
	event_add(smcrd->stop_check, &often);
}

void smcrd_run(struct smcrd *smcrd)
{
	struct waiting *waiting = &smcrd->waiting;
	log_start(smcrd);
	status_ready(&smcrd->status);
	while (!smcrd->done) {
		fabric_end_turn(smcrd->fabric);
		uint64_t now = smcrd->turns.at_work || waiting->most_us ? fabric_now() : 0;
		turns_end(&smcrd->turns, now);
		uint64_t work = smcrd->programs_active + fabric_activity(smcrd->fabric);
		bool look = waiting_look(waiting, work, now);
		if (event_base_loop(smcrd->base, look ? EVLOOP_NONBLOCK : EVLOOP_ONCE) < 0)
			break;
	}
	fabric_end_turn(smcrd->fabric); /* send the last messages */
}

void smcrd_free(struct smcrd *smcrd)
{
	struct event *events[] = { smcrd->on_term, smcrd->on_int, smcrd->on_hup, smcrd->stop_check,
				   smcrd->drain_check };
	heartbeat_stop(&smcrd->heartbeat);
	optout_stop(&smcrd->optout);
	egress_free(smcrd->egress);
	smcrd->egress = NULL;
	reload_free(smcrd->reload);
	status_end(&smcrd->status);
	scrape_close(smcrd->scrape);
	bus_free(smcrd->bus);
	smcrd->bus = NULL;
	control_close(&smcrd->control);
	rnics_free(smcrd->rnics);
	smcr_engine_free(smcrd->engine);
	fabric_free(smcrd->fabric);
	clients_free(smcrd->clients);
	smcrd->clients = NULL; /* connections that end now wake no client */
	conns_free(smcrd->conns);
	events_free(smcrd->events);
	plain_free(smcrd->plain);
	rdv_tally_close(smcrd->tally);
	rdv_option_close(smcrd->option); /* after the clients, which change limits of users in it */
	if (smcrd->cgroup >= 0)
		close(smcrd->cgroup);
	policy_free(smcrd->policy);
	hotplug_watch_free(smcrd->hotplug);
	netif_watch_free(smcrd->netifs);
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		if (events[i])
			event_free(events[i]);
	if (smcrd->base)
		event_base_free(smcrd->base);
	config_free(&smcrd->config);
	free(smcrd);
}

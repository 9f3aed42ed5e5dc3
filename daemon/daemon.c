/* SPDX-License-Identifier: MIT */
/*
 * The life of smcrd: its start as a table of steps, its loop, its end. The steps of a subject, with
 * the callbacks by which its parts tell the others, are in the files setup_*.c.
 */
#include "daemon/daemon.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon/internal.h"

/* ---- start ---- */

static int setup_loop(struct smcrd *smcrd)
{
	smcrd->base = event_base_new();
	if (!smcrd->base)
		return -ENOMEM;
	smcrd->on_term = evsignal_new(smcrd->base, SIGTERM, stop_on_signal, smcrd);
	smcrd->on_int = evsignal_new(smcrd->base, SIGINT, stop_on_signal, smcrd);
	smcrd->on_hup = evsignal_new(smcrd->base, SIGHUP, reconfigure_on_hangup, smcrd);
	smcrd->stop_check = event_new(smcrd->base, -1, EV_PERSIST, stop_on_check, smcrd);
	smcrd->drain_check = event_new(smcrd->base, -1, EV_PERSIST, promise_on_drain_check, smcrd);
	if (!smcrd->on_term || !smcrd->on_int || !smcrd->on_hup || !smcrd->stop_check ||
	    !smcrd->drain_check || event_add(smcrd->on_term, NULL) ||
	    event_add(smcrd->on_int, NULL) || event_add(smcrd->on_hup, NULL))
		return -ENOMEM;
	return 0;
}

/* A part is made when what it calls is there. What calls it may be there earlier and finds NULL, so
 * callbacks check that. No event comes before the loop runs. */
static int bring_up(struct smcrd *smcrd)
{
	static const struct {
		int (*step)(struct smcrd *smcrd);
		const char *cannot; /* do what, if the step fails; NULL: the step says it itself */
	} steps[] = {
		{ setup_privileges, "give up privileges" },
		{ setup_sole, NULL },
		{ setup_loop, "make an event loop" },
		{ setup_netifs, "watch network interfaces" },
		{ setup_hotplug, "watch devices come and go" },
		{ setup_names, NULL },
		{ setup_events, "start the engine" },
		{ setup_fabric, "start the engine" },
		{ setup_engine, "start the engine" },
		{ setup_cm, "manage RDMA connections" },
		{ setup_rnics, NULL },
		{ setup_option, NULL },
		{ setup_tally, NULL },
		{ setup_egress, "guard the RoCE port" },
		{ setup_heartbeat, "keep the heartbeat" },
		{ setup_optout, NULL },
		{ setup_policy, "keep rules" },
		{ setup_promise, NULL },
		{ setup_control, NULL },
		{ setup_conns, "carry connections" },
		{ setup_reload, "prepare to reload" },
		{ setup_status, "tell the service manager" },
		{ setup_clients, NULL },
		{ setup_neighbours, "tidy neighbour entries" },
		{ setup_smb, "make the gateway of SMB Direct" },
		{ setup_scrape, NULL },
		{ setup_bus, NULL },
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

/* An idle smcrd with two RNICs has some 80. With fewer than ten, libraries that it uses end the
 * process without a sentence that helps. */
#define DESCRIPTORS_MIN 128

/* @return 0 or -EMFILE, and `ret_error` says why */
static int raise_descriptor_limit(char ret_error[DAEMON_ERROR_LEN])
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 0;
	if (limit.rlim_max < DESCRIPTORS_MIN) {
		snprintf(ret_error, DAEMON_ERROR_LEN,
			 "smcrd may open %llu files, which is too few: let it open %d or more "
			 "(ulimit -n, LimitNOFILE= of the service)",
			 (unsigned long long)limit.rlim_max, DESCRIPTORS_MIN);
		return -EMFILE;
	}
	if (limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
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
	smcrd->sole = -1;
	waiting_init(&smcrd->waiting, smcrd->config.busy_poll_us);
	*config = (struct config){ 0 };
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a log or a memfd over RLIMIT_FSIZE is an error like others */
	int error = raise_descriptor_limit(smcrd->error);
	if (!error)
		error = bring_up(smcrd);
	if (error) {
		snprintf(ret_error, DAEMON_ERROR_LEN, "%s", smcrd->error);
		smcrd_free(smcrd);
		return error;
	}
	*ret_smcrd = smcrd;
	return 0;
}

/* ---- run ---- */

/* In a turn of the loop the engine posts, and sets deadlines. RNICs and the timer get that at the
 * end of the turn. The clock is read only where the time is needed. */
void smcrd_run(struct smcrd *smcrd)
{
	struct waiting *waiting = &smcrd->waiting;
	describe_start(smcrd);
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

/* ---- end ---- */

/* First what calls others by itself (timers, threads, requests), then what is called. Also called
 * after a start that has failed: then the parts that were not made are NULL or zero. */
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
	smcrd->bus = NULL; /* events that are told now wake no bus */
	control_close(&smcrd->control);
	smbgate_free(smcrd->smbgate);
	rnics_free(smcrd->rnics);
	smcr_engine_free(smcrd->engine);
	fabric_free(smcrd->fabric);
	cm_free(smcrd->cm); /* the fabric has taken its RNICs away */
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
	if (smcrd->sole >= 0)
		close(smcrd->sole); /* last: now another smcrd may begin */
	config_free(&smcrd->config);
	free(smcrd);
}

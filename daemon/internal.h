/* SPDX-License-Identifier: MIT */
/**
 * @file internal.h
 * What the files of this directory share: the daemon, with the parts that it is made of. Only these
 * files know all parts. They make each part and connect it to others, by pointers and callbacks.
 *
 *   main.c             the process: options, background, log
 *   daemon.c           start as a table of steps, event loop, end
 *   setup_host.c       steps: privileges, interfaces, names of this host
 *   setup_rnics.c      steps: events, fabric, engine, RNICs
 *   setup_cm.c         steps: the connection manager; RNICs that come and go for it
 *   setup_bpf.c        steps: BPF programs
 *   setup_programs.c   steps: policy, connections, the Unix socket
 *   setup_smb.c        steps: the gateway of SMB Direct
 *   setup_operators.c  steps: methods, the line of the service manager, metrics, the system bus
 *   conn_callbacks.c   what connections ask and tell the other parts
 *   promise.c          are peers promised SMC-R? drain
 *   reconfigure.c      SIGHUP and other changes of the configuration; by
 *   apply.c            another configuration for parts that are at work
 *   stop.c             SIGTERM and SIGINT
 *   describe.c         smcrd as a whole in a line; notes of the configuration as lines
 *
 * and small parts that are in no other directory: heartbeat.c, optout.c (IPsec), status.c,
 * options.c, check_readable.c.
 */
#ifndef SMCRD_DAEMON_INTERNAL_H
#define SMCRD_DAEMON_INTERNAL_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/bus/bus.h"
#include "daemon/clients/clients.h"
#include "daemon/cm/cm.h"
#include "daemon/conns/conns.h"
#include "daemon/control/control.h"
#include "daemon/control/scrape.h"
#include "daemon/daemon.h"
#include "daemon/events/events.h"
#include "daemon/events/plain.h"
#include "daemon/fabric/fabric.h"
#include "daemon/fabric/rnics.h"
#include "daemon/heartbeat.h"
#include "daemon/host/config.h"
#include "daemon/host/confine.h"
#include "daemon/host/hotplug.h"
#include "daemon/host/netif.h"
#include "daemon/host/reload.h"
#include "daemon/host/turns.h"
#include "daemon/host/waiting.h"
#include "daemon/optout.h"
#include "daemon/policy/policy.h"
#include "daemon/rendezvous/egress.h"
#include "daemon/rendezvous/option.h"
#include "daemon/rendezvous/tally.h"
#include "daemon/smbgate/gate.h"
#include "daemon/status.h"

struct smcrd {
	const struct config_source *source;
	struct config config; /* in force */
	struct event_base *base;
	struct waiting waiting; /* how long the loop looks for work before it sleeps */
	struct turns turns;     /* which kind of work the loop is at */
	struct heartbeat heartbeat;
	struct events *events; /* what has happened */

	/* The host. */
	int sole; /* lock of the network namespace, or -1 */
	struct netif_watch *netifs;
	struct hotplug_watch *hotplug;
	int cgroup;    /* the root of the hierarchy, or a negative errno */
	bool confined; /* smcrd has given up access to files that it does not need */
	char files[CONFINE_TEXT];

	/* RNICs, and the engine above them. */
	struct fabric *fabric;
	struct rnics *rnics;
	struct smcr_engine *engine;
	struct cm *cm;           /* RDMA connections by IP address and port */
	struct smbgate *smbgate; /* between SMB over TCP and SMB Direct */

	/* BPF programs. */
	struct rdv_option
		*option; /* NULL: they cannot send the TCP option; option_error says why */
	char option_error[RDV_TEXT_MAX];
	struct egress *egress;
	struct rdv_tally *tally; /* NULL: they count nothing */
	struct plain *plain;     /* connections that they have left on TCP */
	struct optout optout;

	/* Connections of programs. */
	struct policy *policy;
	struct conns *conns;
	struct clients *clients;
	uint64_t programs_active; /* counts batches of work for programs */

	/* Operators. */
	struct control control;
	struct scrape *scrape; /* NULL: there was no memory for it */
	struct bus *bus;       /* likewise */
	struct reload *reload;
	uint64_t reloading; /* number of the reload under way; 0: none is */
	struct status status;

	/* Start and end. */
	char error[DAEMON_ERROR_LEN]; /* why smcrd cannot start */
	struct event *on_term, *on_int, *on_hup, *stop_check, *drain_check;
	bool stopping, done;
	uint64_t stop_deadline;
	uint64_t stop_answer; /* how much longer RNICs answer at the end; 0: not at all */
};

/* The steps of the start, in their order (daemon.c). @return 0; or a negative errno, which ends the
 * start: the caller's table says what cannot be done, or smcrd->error has a sentence */
int setup_privileges(struct smcrd *smcrd);
int setup_sole(struct smcrd *smcrd);
int setup_netifs(struct smcrd *smcrd);
int setup_hotplug(struct smcrd *smcrd);
int setup_names(struct smcrd *smcrd);
int setup_events(struct smcrd *smcrd);
int setup_fabric(struct smcrd *smcrd);
int setup_engine(struct smcrd *smcrd);
int setup_cm(struct smcrd *smcrd);
int setup_rnics(struct smcrd *smcrd);
int setup_option(struct smcrd *smcrd);
int setup_tally(struct smcrd *smcrd);
int setup_egress(struct smcrd *smcrd);
int setup_heartbeat(struct smcrd *smcrd);
int setup_optout(struct smcrd *smcrd);
int setup_policy(struct smcrd *smcrd);
int setup_promise(struct smcrd *smcrd);
int setup_control(struct smcrd *smcrd);
int setup_conns(struct smcrd *smcrd);
int setup_reload(struct smcrd *smcrd);
int setup_status(struct smcrd *smcrd);
int setup_clients(struct smcrd *smcrd);
int setup_neighbours(struct smcrd *smcrd);
int setup_scrape(struct smcrd *smcrd);
int setup_smb(struct smcrd *smcrd);
int setup_bus(struct smcrd *smcrd);

/* setup_cm.c */
/** An RNIC was opened, has changed, or is about to be closed (fabric_params.device_changed). */
void cm_on_device(void *ctx, struct rnic *rnic, enum fabric_change change);
/** The kernel's connection manager may have come: use it with RNICs that wait for it. */
void cm_look(struct smcrd *smcrd);

/* setup_smb.c: again with another configuration */
void setup_smb_listeners(struct smcrd *smcrd, struct config_notes *notes);

/* setup_host.c */
/** Work for the host begins (TURNS_HOST). */
void smcrd_host_at_work(void *ctx);

/* setup_operators.c: again with another configuration */
/** Listen for monitoring systems where the configuration says so.
 *  @param notes  gets what fails */
void setup_scrape_doors(struct smcrd *smcrd, struct config_notes *notes);

/* conn_callbacks.c */
/** Fill in what connections ask and tell the daemon. Its other parts need not be there yet. */
void conn_callbacks_fill(struct smcrd *smcrd, struct conns_callbacks *ret_callbacks);
/** Programs have work for the engine: tell it the time, before anything else of it is called. */
void smcrd_enter_engine(struct smcrd *smcrd);

/* promise.c */
/** What decides whether peers are promised SMC-R may have changed. */
void promise_update(struct smcrd *smcrd);
/** A drain has begun or ended. @return how many connections would end with smcrd */
size_t promise_drain_changed(void *ctx);
void promise_on_drain_check(evutil_socket_t fd, short what, void *arg);

/* reconfigure.c */
/** Read the files of the configuration again. @return the number of this reload; 0: not now */
uint64_t reconfigure_begin(void *ctx);
/** Use the values of `next`, or its RNICs; as `set_values` and `set_rnics` in struct control. */
void reconfigure_values(void *ctx, struct config *next, struct config_notes *ret_errors);
void reconfigure_rnics(void *ctx, struct config *next, struct config_notes *ret_errors,
		       struct config_notes *ret_notes);
void reconfigure_on_hangup(evutil_socket_t sig, short what, void *arg);

/* stop.c */
void stop_on_signal(evutil_socket_t sig, short what, void *arg);
void stop_on_check(evutil_socket_t fd, short what, void *arg);

/* describe.c */
/** The line of the service manager. */
void describe_status(void *ctx, char ret_text[STATUS_LEN]);
/** Log what a reader of the log has to know of this run. */
void describe_start(struct smcrd *smcrd);
/** Log each note on a line of its own. */
void describe_notes(int priority, const struct config_notes *notes);

#endif

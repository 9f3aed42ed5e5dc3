/* SPDX-License-Identifier: MIT */
/* What the files of this directory share: the daemon, with the parts that it is made of. */
#ifndef SMCRD_DAEMON_INTERNAL_H
#define SMCRD_DAEMON_INTERNAL_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/bus/bus.h"
#include "daemon/clients/clients.h"
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
	struct netif_watch *netifs;
	struct hotplug_watch *hotplug;
	int cgroup;    /* the root of the hierarchy, or a negative errno */
	bool confined; /* smcrd has given up access to files that it does not need */
	char files[CONFINE_TEXT];

	/* RNICs, and the engine above them. */
	struct fabric *fabric;
	struct rnics *rnics;
	struct smcr_engine *engine;

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

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file events.h
 * Events for operators: RNICs, link groups and links that came and went, connections that fell back
 * or were reset, commands. Each event is written to the log when it happens, unless its peer has
 * had too many in the last minute. The last events are kept for `smcrctl event`.
 *
 * One thread uses a `struct events`.
 */
#ifndef SMCRD_EVENTS_EVENTS_H
#define SMCRD_EVENTS_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/conns/conns.h"
#include "daemon/smcr/engine.h"
#include "daemon/smcr/ops.h"

#define EVENTS_KEPT     1000
#define EVENTS_TEXT_LEN 640

/* A peer can make link groups come and go as often as it likes. These limits keep it from
 * displacing the events of others, here and in the log. */
#define EVENTS_OF_A_PEER     (EVENTS_KEPT / 4) /* kept events of a peer; of commands too */
#define EVENTS_PEER_A_MINUTE 30                /* lines of the log */
#define EVENTS_A_MINUTE      300               /* lines of the log, of all peers */

/* Events of connections are more frequent than those of links, and any program can cause them. So
 * they have a part of their own and do not displace other events. */
#define EVENTS_OF_CONNECTIONS      (EVENTS_KEPT / 4)  /* kept events of all peers */
#define EVENTS_OF_PEERS_CONNS      (EVENTS_KEPT / 16) /* of one peer */
#define EVENTS_CONNS_PEER_A_MINUTE 10                 /* lines of the log */
#define EVENTS_CONNS_A_MINUTE      60

enum event_kind {
	EVENT_GROUP_UP,
	EVENT_GROUP_DOWN,
	EVENT_LINK_UP,
	EVENT_LINK_FAILED,
	EVENT_LINK_DELETED,
	EVENT_LINK_REFUSED, /* a link could not be set up */
	EVENT_COMMAND,      /* a command of an operator, with its outcome */
	EVENT_FALLBACK,     /* a connection had begun SMC-R, and is TCP now or broke */
	EVENT_RESET, /* a connection over SMC-R ended abnormally, but not because its group ended */
	EVENT_RNIC_UP,           /* an RNIC is in use, or its port is active again */
	EVENT_RNIC_DOWN,         /* an RNIC is gone, or its port is down */
	EVENT_USER_REFUSED,      /* a user has tried to send as this host (egress_guard) */
	EVENT_CM_UP,             /* an RDMA connection has been made (daemon/cm) */
	EVENT_CM_DOWN,           /* one has ended, or could not be made */
	EVENT_CM_REFUSED,        /* a peer's request for one was refused */
	EVENT_SMBDIRECT_UP,      /* a connection of SMB Direct is established (daemon/smbgate) */
	EVENT_SMBDIRECT_DOWN,    /* one has ended */
	EVENT_SMBDIRECT_REFUSED, /* one could not be established */
};
#define NUM_EVENT_KINDS (EVENT_SMBDIRECT_REFUSED + 1)

struct event_record {
	uint64_t id;      /* counts up from 1 */
	uint64_t time_us; /* CLOCK_REALTIME when it happened */
	enum event_kind kind;
	struct smcr_addr peer;           /* family 0: none. The port has no meaning */
	uint32_t group;                  /* id of the link group; 0: none */
	uint8_t link;                    /* number of the link; 0: none */
	char rnic[SMCR_DEVICE_NAME_LEN]; /* "": none */
	uint32_t connections;            /* how many moved, or were reset with a group */
	char program[CONN_PROGRAM_LEN];  /* that had the connection, for the journal; "": none */
	uint32_t reason, peer_reason; /* of a fallback: enum smcr_reason, the peer's code; or 0 */
	char text[EVENTS_TEXT_LEN];   /* a sentence, as in the log: UTF-8, one line */
	/* Set by events.c: */
	uint64_t steady_us; /* as time_us, but of a clock that is never set */
	bool logged;
	struct event_record *next, *prev;
};

struct cm_told;
struct events;
struct smbgate_told;

/** @return 0 or -ENOMEM. Events for which there is no memory are lines of the log only. */
int events_new(struct events **ret_events);
void events_free(struct events *events);

/** Set `fn`, which is called when an event has come and is kept. The call may be inside an
 * operation of the engine, so `fn` may only note it. */
void events_notify(struct events *events, void (*fn)(void *ctx), void *ctx);

/** Event operation for the engine (daemon/smcr/ops.h), about a link group or a link.
 *  @param ctx  the struct events */
void events_engine(void *ctx, const struct smcr_event *event);
/** Event of a connection (daemon/conns/conns.h). A connection that had not begun SMC-R makes no
 * event. */
void events_connection(struct events *events, const struct conns_told *told);
/**
 * Event of an RNIC, for the fabric (daemon/fabric/fabric.h): it was added or removed, or its port
 * went down or up.
 * @param ctx   the struct events
 * @param text  what has happened, in words
 */
void events_rnic(void *ctx, const char *name, bool up, const char *text);
/**
 * Event of users who have tried to send RoCEv2 packets or CLC messages as this host.
 * @param text  a sentence: who, and what
 */
void events_refused(struct events *events, const char *text);
/** Event of an RDMA connection, or of a request for one, that the connection manager tells
 * (daemon/cm/cm.h). It counts as one of a connection. */
void events_cm(struct events *events, const struct cm_told *told);
/** Event of a connection of SMB Direct that the gateway tells (daemon/smbgate/gate.h). It counts as
 * one of a connection. */
void events_smbdirect(struct events *events, const struct smbgate_told *told);
/**
 * An operator's command has ended.
 * @param command  the beginning of a sentence: what was asked for, and by whom
 * @param failed   the command was refused, or has failed
 * @param outcome  in words
 */
void events_command(struct events *events, const char *command, bool failed, const char *outcome);

/** Call `fn` for the kept events with a larger id than `after`, oldest first, until it returns
 * false. `fn` must not add events. */
void events_walk(const struct events *events, uint64_t after,
		 bool (*fn)(void *arg, const struct event_record *event), void *arg);

/** The id of the last event, kept or not; 0: there was none. */
uint64_t events_last_id(const struct events *events);

/** A short stable name: "link-failed". Static storage. */
const char *event_kind_name(enum event_kind kind);
/** Its MESSAGE_ID in the journal, which does not change when the words do. Static storage. */
const char *event_kind_id(enum event_kind kind);

#endif

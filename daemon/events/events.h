/* SPDX-License-Identifier: MIT */
/**
 * @file events.h
 * What has happened, for operators: RNICs, link groups and links that came and went, connections
 * that fell back or were reset, commands. Each event is a line of the log when it happens, unless
 * one peer has had too many of late, and the last ones are kept, so that they can be looked at
 * afterwards (`smcrctl event`).
 *
 * One thread uses a `struct events`.
 */
#ifndef SMCRD_EVENTS_EVENTS_H
#define SMCRD_EVENTS_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/conns/conns.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/ops.h"

#define EVENTS_KEPT     1000
#define EVENTS_TEXT_LEN 640

/* A peer can make link groups come and go as often as it likes, and has others' history to itself
 * no more than it has the log. */
#define EVENTS_OF_A_PEER     (EVENTS_KEPT / 4) /* kept; of commands likewise */
#define EVENTS_PEER_A_MINUTE 30                /* lines of the log */
#define EVENTS_A_MINUTE      300               /* likewise, of all peers */

/* Connections come and go more often than links, and programs make them: so their events have a
 * part of their own, which leaves the others alone. */
#define EVENTS_OF_CONNECTIONS      (EVENTS_KEPT / 4)  /* kept, of all peers */
#define EVENTS_OF_PEERS_CONNS      (EVENTS_KEPT / 16) /* of one of them */
#define EVENTS_CONNS_PEER_A_MINUTE 10                 /* lines of the log */
#define EVENTS_CONNS_A_MINUTE      60

enum event_kind {
	EVENT_GROUP_UP,
	EVENT_GROUP_DOWN,
	EVENT_LINK_UP,
	EVENT_LINK_FAILED,
	EVENT_LINK_DELETED,
	EVENT_LINK_REFUSED, /* one could not be set up */
	EVENT_COMMAND,      /* of an operator, with its outcome */
	EVENT_FALLBACK,     /* a connection had begun SMC-R: it is TCP, or broke */
	EVENT_RESET,        /* a connection over SMC-R ended abnormally, and not with its group */
	EVENT_RNIC_UP,      /* in use, or its port is active again */
	EVENT_RNIC_DOWN,    /* gone, or its port is down */
	EVENT_USER_REFUSED, /* a user has tried to speak for this host */
};
#define NUM_EVENT_KINDS (EVENT_USER_REFUSED + 1)

struct event_record {
	uint64_t id;      /* counts up from 1 */
	uint64_t time_us; /* CLOCK_REALTIME when it happened */
	enum event_kind kind;
	struct smcr_addr peer;            /* family 0: it is about none. The port says nothing */
	uint32_t group;                   /* id of the link group; 0: none */
	uint8_t link;                     /* its number; 0: none */
	char rnic[SMCR_DEVICE_NAME_LEN];  /* "": none */
	uint32_t connections;             /* moved, or reset with a group */
	char program[CLIENT_PROGRAM_LEN]; /* whose connection it was: for the journal; "": none */
	uint32_t reason, peer_reason; /* of a fallback: enum smcr_reason, the peer's code; or 0 */
	char text[EVENTS_TEXT_LEN];   /* a sentence, as in the log: UTF-8, one line */
	/* the events' own: */
	uint64_t steady_us; /* as time_us, of a clock that nobody sets */
	bool logged;
	struct event_record *next, *prev;
};

struct events;

/** @return 0 or -ENOMEM. Events for which there is no memory are lines of the log only. */
int events_new(struct events **ret_events);
void events_free(struct events *events);

/** Have `fn` called when an event has come, and is kept. From inside operations of the engine: it
 *  does no more than note that. */
void events_notify(struct events *events, void (*fn)(void *ctx), void *ctx);

/** For the engine's operations (engine/ops.h): it tells of a link group or a link.
 *  @param ctx  the struct events */
void events_engine(void *ctx, const struct smcr_event *event);
/** The connections tell of one (daemon/conns/conns.h). Of one that had not begun SMC-R there is no
 *  event. */
void events_connection(struct events *events, const struct conns_told *told);
/**
 * For the fabric (daemon/fabric/fabric.h): an RNIC came, went, lost its port or got it back.
 * @param ctx   the struct events
 * @param text  what has become of it, in words
 */
void events_rnic(void *ctx, const char *name, bool up, const char *text);
/**
 * Users have tried to speak for this host, in RoCEv2 or CLC.
 * @param text  who and what: a sentence
 */
void events_refused(struct events *events, const char *text);
/**
 * An operator's command has ended.
 * @param command  what was asked for, by whom: the beginning of a sentence
 * @param failed   it was refused, or could not be done
 * @param outcome  in words
 */
void events_command(struct events *events, const char *command, bool failed, const char *outcome);

/** Those that are kept, oldest first, from behind the one with id `after` on; 0: all. Until `fn`
 *  returns false. It must not add any. */
void events_walk(const struct events *events, uint64_t after,
		 bool (*fn)(void *arg, const struct event_record *event), void *arg);

/** The id of the last event, kept or not; 0: there was none. */
uint64_t events_last_id(const struct events *events);

/** A short name that stays: "link-failed". Static storage. */
const char *event_kind_name(enum event_kind kind);
/** Its MESSAGE_ID in the journal, which stays the same whatever the words. Static storage. */
const char *event_kind_id(enum event_kind kind);

#endif

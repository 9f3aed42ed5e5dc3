/* SPDX-License-Identifier: MIT */
/**
 * @file control.h
 * One table of control methods, whatever the transport.
 *
 * A request is a JSON object {"method": "link.delete", "params": {..}}; the reply has "schema": 1
 * and either "result" or "error": {"code": NAME, "errno": N, "text": SENTENCE}, with "parameter":
 * NAME if one is missing, wrong or unknown. Arrays stay arrays, keys are snake_case with units in
 * their names, null means unknown.
 *
 * Views of what there may be many of come in parts: with "next": PLACE in the reply there is more,
 * and the parameter "after": PLACE asks for that. What came and went in between does not matter. An
 * array of the next part continues the one of the same name. A row with an "id" that was there
 * before takes the place of that.
 *
 *   control.c   requests, the method table (methods.h), who may do what
 *   params.c    the one place where parameters are checked
 *   commands.c  methods that are commands of the engine, answered when they have ended
 *   ueids.c     UEIDs: shown, added, removed
 *   policies.c  which connections use SMC-R: rules, what was learnt
 *   configs.c   the configuration: shown, read anew
 *   devices.c   RNICs come, go, and are taken out of use
 *   drain.c     no new connections, and waiting for the end of the last old one
 *   views.c     methods that show something
 *   flow.c      how the bytes of a connection flow
 *   rmbs.c      registered memory
 *   stats.c     sums, of a snapshot.c
 *   counters.c  counters of RNICs by name
 *   metrics.c   the table of metrics, written by openmetrics.c, given away by scrape.c as
 *               scrape_request.c reads what is asked
 *   capture.c   what goes to RNICs and comes from them, for smcrctl capture; capture_sink.c writes
 *               it into memory of who asks
 *   host.c      what the daemon may and has on this host, for smcrctl doctor
 *   judge.c     what a connection would be, for smcrctl check
 *   history.c   what has happened, and what happens next
 *   plain.c     connections that did not become SMC-R
 *   cm.c        RDMA connections of the connection manager, and its listeners
 *   smbdirect.c connections of SMB Direct, and where they are taken
 *   cm_check.c  one such connection, made for smcrctl check
 *   page.c      as much of it as one reply has
 *   filter.c    which rows of it are wanted
 */
#ifndef SMCRD_CONTROL_CONTROL_H
#define SMCRD_CONTROL_CONTROL_H

#include <jansson.h>
#include <stddef.h>
#include <sys/socket.h>

#include "daemon/clients/clients.h"
#include "daemon/events/events.h"
#include "daemon/events/plain.h"
#include "daemon/fabric/fabric.h"
#include "daemon/fabric/rnics.h"
#include "daemon/host/config.h"
#include "daemon/host/turns.h"
#include "daemon/host/waiting.h"
#include "daemon/policy/policy.h"
#include "daemon/rendezvous/egress.h"
#include "daemon/rendezvous/option.h"

#define CONTROL_SCHEMA 1

struct cm;
struct cm_message;
struct smbgate;
struct event_base;
struct control_cm_check;
struct control_pending;
struct control_reloading;
struct control_waiter;

/** No new SMC-R connections are begun or taken. */
struct control_drain {
	bool on;
	bool empty;     /* with that: none is left */
	uint64_t since; /* fabric_now() at its beginning */
	struct control_waiter *waiters;
};

/** What the methods look at. Owned by the daemon; must outlive the control. */
struct control {
	struct config *config;
	struct fabric *fabric;
	struct rnics *rnics;        /* NULL in tests without any */
	struct smcr_engine *engine; /* the fabric's */
	struct conns *conns;        /* may be NULL while the daemon starts */
	struct rdv_option *option;  /* NULL: no TCP option on this host */
	struct cm *cm;              /* NULL while the daemon starts, and in tests without one */
	struct smbgate *smbgate;    /* likewise */
	struct policy *policy;
	struct events *events;         /* NULL in tests that do not look at it */
	struct plain *plain;           /* likewise */
	const struct egress *egress;   /* likewise */
	struct event_base *base;       /* the event loop; NULL in tests without one */
	const struct waiting *waiting; /* the event loop's; NULL likewise */
	struct turns *turns;           /* likewise */
	const char *option_error;      /* why not: a sentence; "" otherwise */
	uint64_t started;              /* fabric_now() at the start */
	void *ctx;                     /* handed to these: */
	/** Read the configuration anew; control_reload_done() brings the outcome, from the event
	 * loop. NULL in tests without.
	 * @return its number, from 1 on; it may serve several requests. 0: it cannot be done */
	uint64_t (*reload)(void *ctx);
	/** Put the values of `next`, which differs in what is no list, in the place of those that
	 * hold; it has what held before then. NULL likewise. */
	void (*set_values)(void *ctx, struct config *next, struct config_notes *ret_errors);
	/** The same for RNICs. @param ret_notes  what is not so yet */
	void (*set_rnics)(void *ctx, struct config *next, struct config_notes *ret_errors,
			  struct config_notes *ret_notes);
	/** An RNIC was taken out of use, or is used again. NULL in tests without. */
	void (*rnic_drained)(void *ctx);
	/** It has changed whether new SMC-R connections are wanted: see `drain.on`.
	 * @return how many connections there are that would end with smcrd */
	size_t (*drained)(void *ctx);
	struct control_drain drain; /* others read it */
	/** Is smcrd on the system bus? A word; NULL in tests without. */
	const char *(*dbus)(void *ctx);
	/* the control's own: */
	struct control_pending *pending;    /* commands that have not ended */
	struct control_reloading *reloads;  /* requests that wait for one */
	struct control_captures *captures;  /* NULL: none since the start */
	struct control_cm_check *cm_checks; /* connections that are tried */
};

/** What reading the configuration anew has come to. */
struct control_reloaded {
	bool stopping;                     /* nothing was changed: smcrd stops */
	const struct config_notes *errors; /* any: nothing was changed */
	const struct config_notes *notes;  /* what is not so yet, and what has to happen */
	const struct config *before, *now; /* NULL if there are errors */
};

/**
 * Serve one request, as work for tools. Call smcr_engine_set_time() before, as for any input of the
 * engine.
 * @param ctx    the struct control: sessions call this as it is
 * @param asker  who asks; methods that change something need root or the administrators' group
 * @param json  request text, `len` bytes, not NUL terminated
 * @param ret_reply  malloc'ed, NUL terminated JSON; the caller frees it
 * @return 0 (errors of the request are in the reply); -EINPROGRESS: asker->reply() brings the
 * reply; -EAGAIN: it waits for an event (daemon/events), and is served again
 * then; or -ENOMEM
 */
int control_handle(void *ctx, const struct clients_asker *asker, const char *json, size_t len,
		   char **ret_reply);

/**
 * The same for a transport that does not come with text.
 * @param request    "method" and, if there are any, "params"
 * @param ret_reply  a new reference; with 0 only
 */
int control_handle_json(struct control *control, const struct clients_asker *asker,
			const json_t *request, json_t **ret_reply);

/** May whoever asks change things: is it root, or in the administrators' group?
 *  @param ctx  the struct control */
bool control_is_administrator(void *ctx, const struct clients_asker *asker);

/** For the engine's operations (daemon/smcr/ops.h): a command has ended. Reply to whoever asked for
 * it.
 *  @param ctx  the struct control */
void control_command_done(void *ctx, uint64_t id, const struct smcr_command_result *result);

/** Every request for a reload up to that number has this outcome. */
void control_reload_done(struct control *control, uint64_t number,
			 const struct control_reloaded *what);

/**
 * While it drains: so many connections are left.
 * @return is this to be told again?
 */
bool control_drain_look(struct control *control, size_t left);

/** Nobody waits for the reply to this request any more. The command goes on.
 *  @param ctx  the struct control */
void control_forget(void *ctx, uint64_t request);

/** The connection manager has sent or received a message: captures may want it. */
void control_cm_message(struct control *control, const struct cm_message *message);

/** Forget every command that has not ended: the engine goes away. */
void control_close(struct control *control);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file clients.h
 * Programs and tools on smcrd's Unix socket: handing TCP connections over, moving bytes between a
 * program's pair end and the engine, relay after a fallback.
 *
 * One `struct clients` serves one engine on one libevent base; all of it runs on that base's
 * thread. Nothing here blocks: a slow or hostile client costs its own session or connection only.
 */
#ifndef SMCRD_DAEMON_CLIENTS_CLIENTS_H
#define SMCRD_DAEMON_CLIENTS_CLIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "daemon/engine/engine.h"
#include "daemon/engine/ops.h"

struct event_base;
struct rdv_option;
struct clients;

/** Who makes a CONTROL request. */
struct clients_asker {
	uint64_t request;    /* names the request in clients_control_reply(); not 0, never reused */
	struct ucred cred;   /* of the process that opened the session, as it was then */
	const gid_t *groups; /* its supplementary groups, likewise; valid during the call */
	size_t num_groups;
};

/** A connection that is about to use SMC-R. */
struct clients_candidate {
	const struct smcr_addr *local, *peer;
	bool server;      /* its program has accepted it */
	uint32_t mark;    /* SO_MARK */
	uid_t uid;        /* of who called connect() or listen(), as far as it is known */
	uint64_t program; /* what that said it is: ipc_program_id(); 0: nothing */
};

/** How a rendezvous failed. */
enum clients_failure {
	CLIENTS_PATH_DEAD, /* RoCE to the peer does not work */
	CLIENTS_NO_ANSWER, /* what came was no answer of an SMC-R peer, or nothing came */
	CLIENTS_RESET,     /* the peer reset the connection */
};

/** A connection over SMC-R that is over. */
struct clients_ended {
	const struct smcr_addr *local, *peer;
	bool server;
	uint64_t ms; /* since the handover */
	uint64_t bytes;
};

/** What the rest of the daemon gives. Each is called on the loop's thread and must not block. */
struct clients_callbacks {
	void *ctx; /* handed to each of them */

	/** A batch of engine calls begins: smcr_engine_set_time(engine, now). */
	void (*engine_enter)(void *ctx);
	/** The batch is over: rearm the timer for smcr_engine_next_deadline(). */
	void (*engine_leave)(void *ctx);

	/**
	 * Facts about the interface that has the address `local`: bits of its prefix (CLC-6) and
	 * its VLAN or SMCR_NO_VLAN. Non-zero return: unknown, then /32 (/128) and no VLAN are
	 * assumed.
	 */
	int (*path)(void *ctx, const struct smcr_addr *local, uint8_t *ret_prefix_len,
		    uint16_t *ret_vlan);

	/**
	 * Must this connection not use SMC-R, whatever its handshake agreed upon (SEC-4)? NULL:
	 * none must not.
	 * @return why, or SMCR_REASON_NONE
	 */
	enum smcr_reason (*refuse)(void *ctx, const struct clients_candidate *candidate);

	/** What became of rendezvous, for who learns from it; each may be NULL. `peer` has the port
	 * of a server, 0 of a client. The engine must not be called. */
	void (*worked)(void *ctx, const struct smcr_addr *peer);
	void (*failed)(void *ctx, const struct smcr_addr *peer, enum clients_failure how);
	void (*ended)(void *ctx, const struct clients_ended *ended);

	/**
	 * Only asked where the TCP option cannot be seen (no BPF): does the configuration say that
	 * this peer speaks SMC-R? NULL: none does.
	 */
	bool (*assume_capable)(void *ctx, const struct smcr_addr *peer);

	/**
	 * A CONTROL request of a tool. `json` is not NUL terminated. The engine may be called.
	 * @param ret_reply  malloc'ed; freed here. With 0: the JSON reply. With an error: a
	 * sentence for the ERROR frame, or untouched.
	 * @return 0; -EINPROGRESS: clients_control_reply() brings the reply later, and this session
	 * is served no other request until then; or another negative errno
	 */
	int (*control)(void *ctx, const struct clients_asker *asker, const char *json, size_t len,
		       char **ret_reply);
	/** Who waits for that later reply has gone. The engine may be called. */
	void (*control_gone)(void *ctx, uint64_t request);

	/** One line, priority as in syslog.h, no newline. */
	void (*log)(void *ctx, int priority, const char *line);
};

/** Zero in a field means the default in parentheses. */
struct clients_limits {
	uint32_t sessions;              /* all uids together (8192) */
	uint32_t sessions_per_uid;      /* (1024) */
	uint32_t conns;                 /* all uids together (131072) */
	uint32_t conns_per_uid;         /* (16384) */
	uint32_t control_request_bytes; /* largest CONTROL request (256 KiB) */
	uint32_t frame_timeout_ms; /* greeting, half-sent frames, replies nobody reads (10000) */
	/** TCP keepalives of SMC-R connections go no more often than this, 0..32767 seconds,
	 * whatever the program wants (TEST-7). (0: as it wants) */
	uint32_t keepalive_min_s;
	uint32_t
		close_wait_ms; /* relay: both sides' last bytes after the program's close (60000) */
	uint32_t connect_wait_ms; /* connect() of a program waits for the rendezvous this long (40)
				   */
	uint32_t history;         /* ended and plain TCP connections remembered for views (256) */
};

struct clients_config {
	struct event_base *base;
	struct smcr_engine *engine;
	struct rdv_option *option; /* NULL where the TCP option cannot be used (no BPF) */
	const char *socket_path; /* listening socket, at most 107 bytes; parent directory exists */
	struct clients_limits limits;
	struct clients_callbacks callbacks;
};

/**
 * Open the socket and serve. A socket file that nobody serves is replaced.
 * @param config    copied; what it points to outlives the clients
 * @param ret_text  on error: a sentence that says what, where and what to do
 * @return 0; -EADDRINUSE ("held by smcrd pid N"); another negative errno
 */
int clients_new(const struct clients_config *config, struct clients **ret_clients, char *ret_text,
		size_t len);

/**
 * Orderly stop: no new session or handover is taken, the socket file is removed, what is
 * in rendezvous is given up, what is relayed is reset. Call before smcr_engine_shutdown(); the
 * engine then ends the connections.
 */
void clients_stop(struct clients *clients);

/** Connections left (SMC-R, rendezvous and relays). The daemon waits for 0, with patience, to stop.
 */
size_t clients_active(const struct clients *clients);

/**
 * Free everything. Connections that are left see ECONNRESET, their TCP connections a RST. Call
 * after smcr_engine_free(), or with an engine that will not be run again.
 */
void clients_free(struct clients *clients);

/**
 * The reply to a CONTROL request that was left open. May be called from inside operations of the
 * engine; it is sent from the event loop. A request whose session has gone is ignored.
 * @param reply  malloc'ed JSON; taken over. NULL: there was no memory for it, and the tool is told
 * so
 */
void clients_control_reply(struct clients *clients, uint64_t request, char *reply);

/* For the engine's operations table (ops.h). `user` is what the engine was given by this module. */
void clients_clc_send(void *user, const uint8_t *msg, size_t len);
void clients_conn_event(void *user, const struct smcr_conn_event *event);

#endif

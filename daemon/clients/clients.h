/* SPDX-License-Identifier: MIT */
/**
 * @file clients.h
 * Programs and tools on smcrd's Unix socket: their sessions and requests. Connections that they
 * hand over or ask about are in daemon/conns.
 *
 * Everything runs on the libevent base's thread. Nothing here blocks: a slow or hostile client
 * harms its own session only.
 */
#ifndef SMCRD_DAEMON_CLIENTS_CLIENTS_H
#define SMCRD_DAEMON_CLIENTS_CLIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct clients;
struct conns;
struct event_base;
struct rdv_option;

/** A CONTROL request, and the process that makes it. */
struct clients_asker {
	uint64_t request; /* names the request in reply(); not 0, never reused */
	/** Give the reply to a request that got -EINPROGRESS. May be called from inside operations
	 * of the engine. Does nothing if nobody waits for the reply any more.
	 * @param ctx    reply_ctx
	 * @param reply  malloc'ed JSON, freed by the callee. NULL: there was no memory for it,
	 *               which the asker is told */
	void (*reply)(void *ctx, uint64_t request, char *reply);
	void *reply_ctx;
	struct ucred cred;   /* of the process that opened the session, at that time */
	const gid_t *groups; /* its supplementary groups at that time; valid during the call */
	size_t num_groups;
	int fd; /* came with the request, stays the session's; -1: none */
};

/** What the rest of the daemon provides. Each is called on the event loop's thread and must not
 * block. */
struct clients_callbacks {
	void *ctx; /* handed to each of them */

	/**
	 * Answer a CONTROL request of a tool. `json` is not NUL terminated. May call the engine.
	 * @param ret_reply  malloc'ed, freed by the caller. On success the JSON reply; on error a
	 *                   sentence for the ERROR frame, or unchanged.
	 * @return 0; -EINPROGRESS: asker->reply() will give the reply; -EAGAIN: there is nothing to
	 *         answer yet, and the same request is made again after clients_control_wake(); or
	 *         another negative errno. Until the reply the session's other requests wait.
	 */
	int (*control)(void *ctx, const struct clients_asker *asker, const char *json, size_t len,
		       char **ret_reply);
	/** Is this user an administrator? `request` is 0. NULL: only root is one. */
	bool (*administrator)(void *ctx, const struct clients_asker *asker);
	/** The session that waited for clients_control_reply() has ended. May call the engine. */
	void (*control_gone)(void *ctx, uint64_t request);
};

/** Zero in a field means the default in parentheses. */
struct clients_limits {
	uint32_t control_request_bytes; /* largest CONTROL request (16 KiB) */
	uint32_t frame_timeout_ms; /* for HELLO, rests of frames, replies nobody reads (10000) */
	uint32_t idle_timeout_ms;  /* for sessions without requests (60000) */
};

struct clients_config {
	struct event_base *base;
	struct conns *conns;
	struct rdv_option *option; /* NULL where the TCP option cannot be used (no BPF) */
	const char *socket_path; /* listening socket, at most 107 bytes; parent directory exists */
	struct clients_limits limits;
	struct clients_callbacks callbacks;
};

/**
 * Open the socket and serve. A socket file at which no process listens is replaced.
 * @param config    copied; what it points to outlives the clients
 * @param ret_text  on error: a sentence that says what, where and what to do
 * @return 0; -EADDRINUSE ("held by smcrd pid N"); another negative errno
 */
int clients_new(const struct clients_config *config, struct clients **ret_clients, char *ret_text,
		size_t len);

/** Accept no new sessions and remove the socket file. Call this before conns_stop(). */
void clients_stop(struct clients *clients);

/** End all sessions. Their connections go on. NULL is allowed. */
void clients_free(struct clients *clients);

/** The reply() of askers that are sessions. @param ctx the struct clients */
void clients_control_reply(void *ctx, uint64_t request, char *reply);

/**
 * Make the requests that got -EAGAIN again, each when it is its user's turn, since what they wait
 * for may have come. May be called from inside operations of the engine.
 */
void clients_control_wake(struct clients *clients);

#endif

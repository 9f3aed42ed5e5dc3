/* SPDX-License-Identifier: MIT */
/**
 * @file clients.h
 * Programs and tools on smcrd's Unix socket: sessions and their requests. What they hand over and
 * ask about are connections (daemon/conns).
 *
 * All of it runs on the libevent base's thread. Nothing here blocks: a slow or hostile client costs
 * its own session only.
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

/** Who makes a CONTROL request. */
struct clients_asker {
	uint64_t request; /* names it in reply(); not 0, never reused */
	/** The reply to a request that was left open. May be called from inside operations of the
	 * engine, and does nothing if nobody waits for it any more.
	 * @param ctx    reply_ctx
	 * @param reply  malloc'ed JSON; taken over. NULL: there was no memory for it, and whoever
	 * asked is told so */
	void (*reply)(void *ctx, uint64_t request, char *reply);
	void *reply_ctx;
	struct ucred cred;   /* of the process that opened the session, as it was then */
	const gid_t *groups; /* its supplementary groups, likewise; valid during the call */
	size_t num_groups;
	int fd; /* came with the request; the callee maps or duplicates it if it wants it; -1: none
		 */
};

/** What the rest of the daemon gives. Each is called on the loop's thread and must not block. */
struct clients_callbacks {
	void *ctx; /* handed to each of them */

	/**
	 * A CONTROL request of a tool. `json` is not NUL terminated. The engine may be called.
	 * @param ret_reply  malloc'ed; freed here. With 0: the JSON reply. With an error: a
	 * sentence for the ERROR frame, or untouched.
	 * @return 0; -EINPROGRESS: asker->reply() brings the reply later, and this session
	 * is served no other request until then; -EAGAIN: there is nothing to answer yet, and after
	 * clients_control_wake() the same request is made once more, likewise; or another negative
	 * errno
	 */
	int (*control)(void *ctx, const struct clients_asker *asker, const char *json, size_t len,
		       char **ret_reply);
	/** Is this one of the administrators? `request` is 0. NULL: only root is. */
	bool (*administrator)(void *ctx, const struct clients_asker *asker);
	/** Who waits for that later reply has gone. The engine may be called. */
	void (*control_gone)(void *ctx, uint64_t request);
};

/** Zero in a field means the default in parentheses. */
struct clients_limits {
	uint32_t control_request_bytes; /* largest CONTROL request (16 KiB) */
	uint32_t frame_timeout_ms; /* greeting, half-sent frames, replies nobody reads (10000) */
	uint32_t idle_timeout_ms;  /* sessions that ask nothing and wait for nothing (60000) */
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
 * Open the socket and serve. A socket file that nobody serves is replaced.
 * @param config    copied; what it points to outlives the clients
 * @param ret_text  on error: a sentence that says what, where and what to do
 * @return 0; -EADDRINUSE ("held by smcrd pid N"); another negative errno
 */
int clients_new(const struct clients_config *config, struct clients **ret_clients, char *ret_text,
		size_t len);

/** Take no new session or handover, and remove the socket file. Call before conns_stop(). */
void clients_stop(struct clients *clients);

/** End all sessions. Connections go on, but nobody waits for them. NULL is allowed. */
void clients_free(struct clients *clients);

/** What askers have as reply(). @param ctx  the struct clients */
void clients_control_reply(void *ctx, uint64_t request, char *reply);

/**
 * What requests wait for that got -EAGAIN may have come: they are made again, when it is their
 * users' turn. May be called from inside operations of the engine.
 */
void clients_control_wake(struct clients *clients);

#endif

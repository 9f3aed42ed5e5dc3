/* SPDX-License-Identifier: MIT */
/**
 * @file conns.h
 * Connections that programs handed over, for their whole life: the TCP socket, the rendezvous,
 * SMC-R or the relay after a fallback, the end. The bytes between a program's pair end and the
 * engine are moved here too.
 *
 * One `struct conns` serves one engine on one libevent base, on the thread of that base. Nothing
 * here blocks. This directory knows neither sessions nor frames of the Unix socket. Who hands a
 * connection over, asks about one or waits for its outcome (daemon/clients) calls the functions
 * below, and is called back through a structure that it embeds.
 */
#ifndef SMCRD_DAEMON_CONNS_CONNS_H
#define SMCRD_DAEMON_CONNS_CONNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uthash.h>

#include "daemon/conns/batch.h"
#include "daemon/conns/view.h"
#include "daemon/rendezvous/option.h"
#include "daemon/smcr/engine.h"
#include "daemon/smcr/ops.h"
#include "proto/ipc/ipc.h"

struct conn;
struct conns;
struct event_base;
struct poller;

/** A connection that is about to use SMC-R, or does. */
struct conns_candidate {
	const struct smcr_addr *local, *peer;
	bool server;      /* the program called accept(), not connect() */
	uint32_t mark;    /* SO_MARK */
	uid_t uid;        /* who called connect() or listen(), as far as it is known */
	uint64_t program; /* ipc_program_id() of the program that the user said it is; 0: unknown */
};

/** How a rendezvous failed. */
enum conns_failure {
	CONNS_PATH_DEAD, /* RoCE to the peer does not work */
	CONNS_NO_ANSWER, /* the peer sent no CLC message, but something else or nothing */
	CONNS_RESET,     /* the peer reset the connection */
};

/** A connection over SMC-R that has ended. */
struct conns_ended {
	struct conns_candidate candidate;
	uint64_t ms; /* since the handover */
	uint64_t bytes;
	struct smcr_needs needs;
};

/** What has become of a connection. */
enum conns_told_kind {
	CONNS_REFUSED,    /* its socket was not taken: the program goes on with TCP */
	CONNS_STAYED_TCP, /* its handshake, or this host, left it on TCP */
	CONNS_FELL_BACK,  /* CLC was begun, and TCP carries the data now */
	CONNS_BROKE,      /* CLC was begun, and the program got an error */
	CONNS_WAS_RESET,  /* SMC-R carried it, and it was reset */
};

/** What operators are told of a connection. */
struct conns_told {
	enum conns_told_kind kind;
	const struct smcr_addr *local, *peer;
	bool server; /* the program called accept(), not connect() */
	uid_t uid;
	pid_t pid;            /* 0: not known */
	const char *program;  /* name of its process; NULL or "": not known */
	uint32_t reason;      /* enum smcr_reason: why not SMC-R */
	uint32_t peer_reason; /* the peer's code if it declined, else 0 */
	const char
		*why; /* for BROKE and WAS_RESET: the cause as a sentence; may be NULL for BROKE */
};

/** What the rest of the daemon provides. Each is called on the event loop's thread and must not
 * block. */
struct conns_callbacks {
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
	 * Is this connection to stay TCP, whatever its handshake agreed upon (SEC-4)? NULL: none
	 * is.
	 * @return why, or SMCR_REASON_NONE
	 */
	enum smcr_reason (*refuse)(void *ctx, const struct conns_candidate *candidate);

	/** How much memory may this connection need, judging by earlier ones? NULL: unknown. */
	struct smcr_needs (*expect)(void *ctx, const struct conns_candidate *candidate);

	/** The outcome of a rendezvous, from which daemon/policy learns; each may be NULL. `uid` is
	 * who called connect() or listen(). The port of `peer` is that of a server, and 0 for a
	 * client. They must not call the engine. */
	void (*worked)(void *ctx, uid_t uid, const struct smcr_addr *peer);
	void (*failed)(void *ctx, uid_t uid, const struct smcr_addr *peer, enum conns_failure how);
	void (*ended)(void *ctx, const struct conns_ended *ended);
	/** A connection has filled a buffer that could be larger; `needs` says which. */
	void (*outgrown)(void *ctx, const struct conns_candidate *candidate,
			 const struct smcr_needs *needs);

	/** Tells operators; may be NULL. Must not call the engine. */
	void (*told)(void *ctx, const struct conns_told *told);
	/** The BPF programs have recorded this connection as plain TCP, but it was handed over and
	 * is shown here. May be NULL. @param cookie SO_COOKIE of its socket */
	void (*settled_tcp)(void *ctx, uint64_t cookie);

	/**
	 * Asked only where the TCP option cannot be seen (no BPF): does the configuration say that
	 * this peer speaks SMC-R? NULL: no peer does.
	 */
	bool (*assume_capable)(void *ctx, const struct smcr_addr *peer);

	/** May the pages of an element or send buffer be replaced by others at the same address?
	 * Not if a device has pinned the memory. NULL: they may. */
	bool (*can_share)(void *ctx);

	/** Logs one line without newline; priority as in syslog.h. */
	void (*log)(void *ctx, int priority, const char *line);
};

/** Zero in a field means the default in parentheses. */
struct conns_limits {
	uint32_t sessions;         /* all uids together (8192) */
	uint32_t sessions_per_uid; /* (1024) */
	uint32_t conns;            /* all uids together (131072) */
	uint32_t conns_per_uid;    /* (16384) */
	/** TCP keepalives of SMC-R connections go no more often than this, 0..32767 seconds,
	 * whatever the program wants (TEST-7). (0: as it wants) */
	uint32_t keepalive_min_s;
	/** After a program has closed, its connection is reset if no byte that it wrote has left
	 * for this long (340000). */
	uint32_t close_wait_ms;
	uint32_t connect_wait_ms; /* connect() of a program waits for the rendezvous this long (40)
				   */
	uint32_t shared;          /* connections that share memory with their program (8192) */
	uint32_t history;         /* ended and plain TCP connections remembered for views (256) */
};

struct conns_config {
	struct event_base *base;
	struct smcr_engine *engine;
	struct rdv_option *option; /* NULL where the TCP option cannot be used (no BPF) */
	bool shared_memory;        /* programs may map the memory of their connections */
	uint32_t busy_poll_us;     /* how long that memory is polled after activity */
	struct conns_limits limits;
	struct conns_callbacks callbacks;
};

/** @param config  copied; what it points to outlives the connections. @return 0 or a negative errno
 */
int conns_new(const struct conns_config *config, struct conns **ret_conns);

/**
 * Use the new values of `shared_memory`, `busy_poll_us` and `limits` from now on. Existing
 * connections and sessions stay, also beyond a limit.
 */
void conns_configure(struct conns *conns, const struct conns_config *config);

/**
 * Stop in good order: connections in rendezvous are given up, relays are reset. Call this before
 * smcr_engine_shutdown(), by which the engine ends the other connections.
 */
void conns_stop(struct conns *conns);
bool conns_stopped(const struct conns *conns);

/** How many connections RLIMIT_NOFILE is enough for, and the limits allow, at a time. */
uint32_t conns_most(const struct conns *conns);

/** How many connections are left (SMC-R, rendezvous and relays). A daemon that stops waits for 0,
 * up to a limit.
 */
size_t conns_active(const struct conns *conns);

/**
 * Free everything. Programs of connections that are left get ECONNRESET, and their peers a RST.
 * Call this after smcr_engine_free() (or when the engine will not be run again), and when nobody
 * waits for an outcome any more. NULL is allowed.
 */
void conns_free(struct conns *conns);

/* For the engine's operations (struct smcr_conn_ops in ops.h). `user` is what the engine was given
 * by this module. */
void conns_clc_send(void *user, const uint8_t *msg, size_t len);
void conns_event(void *user, const struct smcr_conn_event *event);
void conns_unshare(void *user);

/* ---- what others share with the connections */

struct batch *conns_batch(const struct conns *conns);
/** The poller of the pair ends. Others may add descriptors to it: their callbacks run inside a
 * batch. */
struct poller *conns_poller(const struct conns *conns);
struct smcr_engine *conns_engine(const struct conns *conns);
uint64_t conns_now_ms(void);
/** As conns_now_ms(), in microseconds. */
uint64_t conns_now_us(void);
void conns_log(const struct conns *conns, int priority, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/** A line that a user's programs can cause as often as they like: one a minute for each user and
 * reason. @param reason  static storage */
void conns_warn_of_user(struct conns *conns, uid_t uid, const char *reason, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* ---- handing over */

/** Embedded by who hands a connection over and waits for the outcome. */
struct conn_asker {
	struct conn *conn; /* NULL: waits for nothing */
	/** Called once. `fd` (or -1) is for the program; the callee owns it from then on. */
	void (*outcome)(struct conn_asker *asker, enum ipc_outcome outcome, int error,
			uint32_t reason, int fd);
};

struct quota;

/** A TCP socket that is handed over, with all that is known of it. */
struct conn_offer {
	const struct ipc_handover *msg;
	struct ucred cred;   /* of the program */
	const char *program; /* its name, one line; NULL or "": not known. Copied */
	struct quota *quota;
	int verdict_error; /* of rdv_verify_socket() */
	const struct rdv_verdict *verdict;
	struct conn_asker *asker;
};

/**
 * Take a TCP socket over. The caller must not use `tcp` any more, whatever the result.
 * @return 0: asker->outcome() has been called or will be; -EUSERS: too many connections, or no
 *         memory; another negative errno: no pair can be made, and the TCP socket is as it was
 */
int conns_adopt(struct conns *conns, const struct conn_offer *offer, int tcp);
/** Count, and tell operators of, a TCP socket that the daemon did not take over.
 *  @param reason  enum smcr_reason */
void conns_note_refused(struct conns *conns, const struct ucred *cred, int tcp, bool server,
			uint32_t reason);
/** The asker waits no longer; its connection goes on. */
void conn_asker_forget(struct conn_asker *asker);

/* ---- asking */

/* Who asks about a connection shows a descriptor of it. These functions give -EACCES if the
 * descriptor is not one of a connection's. */

/** Answer STATUS. @param ret_tcp the TCP socket, which goes back to the program; -1: the daemon
 * keeps it */
int conns_status(struct conns *conns, int proof, uint8_t flags, struct ipc_status *ret_status,
		 int *ret_tcp);
/** Get or set an option of the TCP socket for the program; value, length and result are put into
 * `msg`. */
int conns_sockopt(struct conns *conns, int proof, struct ipc_sockopt *msg);

/**
 * A program that shows its pair end asks to share the connection's memory (docs/data-path.md).
 * @param ret_fd  the memory, for the program, if it was granted; else -1
 */
int conns_share(struct conns *conns, int proof, const struct ipc_memory_request *msg,
		struct ipc_memory *ret_memory, int *ret_fd);

/** Embedded by who waits until it is settled whether SMC-R or TCP carries the data. */
struct conn_watcher {
	struct conn *conn; /* NULL: waits for nothing */
	/** Called once. `view` is NULL if the daemon ends before there is an outcome. */
	void (*settled)(struct conn_watcher *watcher, const struct conn_view *view);
	struct conn_watcher *prev, *next;
};

/**
 * What became of a connection. `proof` is a pair end or the TCP socket that was handed over.
 * @param watcher  NULL, or who is to be called back if the connection is pending now, as soon as it
 *                 is not
 * @return 0; -EACCES; -ENOENT: the connection has ended and is not in the history any more
 */
int conns_info(struct conns *conns, int proof, struct conn_watcher *watcher,
	       struct conn_view *ret_view);
void conn_watcher_forget(struct conn_watcher *watcher);

/* ---- what a user may hold */

/** What one user holds. */
struct quota {
	uid_t uid;
	uint32_t sessions, conns, failed, shared;
	uint32_t files;   /* descriptors that the daemon holds for it, but for those in `closing` */
	uint32_t tools;   /* its sessions among those reserved for administrators' tools */
	uint32_t closing; /* descriptors whose close() may block and has not returned (closer.c) */
	uint32_t closers; /* threads of closer.c that work for this user */
	uint32_t fins;    /* TCP sockets that wait for the peer's FIN (fins.c) */
	bool limited;     /* at one of its limits: its new connections carry no SMC-R option */
	size_t unsent;    /* bytes of replies that its tools have not read */
	uint64_t served;  /* its last turn among the users who wait (daemon/clients/pace.c) */
	bool abandoned;   /* only closer.c uses this quota any more, and frees it */
	UT_hash_handle hh;
};

/** The quota of a uid, which is made if there is none. NULL: no memory. */
struct quota *quota_get(struct conns *conns, uid_t uid);
/** Free the quota if it counts nothing any more. */
void quota_put(struct conns *conns, struct quota *quota);
/** May the user open one more session? @param ret_why set if not: a sentence of less than `len`
 * bytes */
bool limits_allow_session(struct conns *conns, struct quota *quota, char *ret_why, size_t len);
/** Take one of the sessions that are reserved for administrators' tools. @return false: none is
 * left */
bool limits_take_reserved(struct conns *conns);
void limits_give_reserved(struct conns *conns);
/** The bytes of replies that the user's tools have not read have changed by `change`. @return
 * false: they are too many now */
bool limits_count_unsent(struct quota *quota, ssize_t change);
/** A session was opened, or has ended. */
void limits_count_session(struct conns *conns, struct quota *quota, int change);
/** To be called when something failed that fails if the process has no descriptors left. @return
 * true: that is the cause */
bool limits_out_of_descriptors(struct conns *conns);
/** Close the spare descriptor, so that a session can be accepted and refused. @return false: it is
 * closed already
 */
bool limits_spend_spare(struct conns *conns);
void limits_get_spare(struct conns *conns);

/**
 * Close a descriptor that a client sent; -1 is allowed. A close() that may block runs in a thread:
 * that of a lingering TCP socket, or of a file of a network or user-space file system. `quota` is
 * the client's.
 */
void close_foreign(int fd, struct quota *quota);
/** Are so many descriptors of this user waiting to be closed that no more are accepted from it? */
bool close_overdue(const struct quota *quota);

#endif

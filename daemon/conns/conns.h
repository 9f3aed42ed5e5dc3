/* SPDX-License-Identifier: MIT */
/**
 * @file conns.h
 * Connections that programs handed over: from the TCP socket through the rendezvous to SMC-R, or to
 * a relay after a fallback, to the end; and the bytes between a program's pair end and the engine.
 *
 * One `struct conns` serves one engine on one libevent base; all of it runs on that base's thread.
 * Nothing here blocks. It knows no session and no frame: who hands a connection over, asks about
 * one or waits for its outcome (daemon/clients) calls what is declared here, and is called back by
 * what it embeds.
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
#include "daemon/engine/engine.h"
#include "daemon/engine/ops.h"
#include "daemon/rendezvous/option.h"
#include "proto/ipc/ipc.h"

struct client_conn;
struct conns;
struct event_base;
struct poller;

/** A connection that is about to use SMC-R, or does. */
struct conns_candidate {
	const struct smcr_addr *local, *peer;
	bool server;      /* its program has accepted it */
	uint32_t mark;    /* SO_MARK */
	uid_t uid;        /* of who called connect() or listen(), as far as it is known */
	uint64_t program; /* what that said it is: ipc_program_id(); 0: nothing */
};

/** How a rendezvous failed. */
enum conns_failure {
	CONNS_PATH_DEAD, /* RoCE to the peer does not work */
	CONNS_NO_ANSWER, /* what came was no answer of an SMC-R peer, or nothing came */
	CONNS_RESET,     /* the peer reset the connection */
};

/** A connection over SMC-R that is over. */
struct conns_ended {
	const struct smcr_addr *local, *peer;
	bool server;
	uint64_t ms; /* since the handover */
	uint64_t bytes;
	struct smcr_needs needs;
};

/** What has become of a connection. */
enum conns_told_kind {
	CONNS_REFUSED,    /* its socket was not taken: the program goes on with TCP */
	CONNS_STAYED_TCP, /* its handshake, or this host, left it on TCP */
	CONNS_FELL_BACK,  /* SMC-R was begun, and TCP carries the data now */
	CONNS_BROKE,      /* SMC-R was begun, and the program got an error instead */
	CONNS_WAS_RESET,  /* it was over SMC-R */
};

/** For operators. */
struct conns_told {
	enum conns_told_kind kind;
	const struct smcr_addr *local, *peer;
	bool server; /* its program has accepted it */
	uid_t uid;
	pid_t pid;            /* 0: not known */
	const char *program;  /* name of its process; NULL or "": not known */
	uint32_t reason;      /* enum smcr_reason: why not SMC-R */
	uint32_t peer_reason; /* the peer's code if it declined, else 0 */
	const char *why;      /* BROKE, WAS_RESET: in words; may be NULL for BROKE */
};

/** What the rest of the daemon gives. Each is called on the loop's thread and must not block. */
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
	 * Must this connection not use SMC-R, whatever its handshake agreed upon (SEC-4)? NULL:
	 * none must not.
	 * @return why, or SMCR_REASON_NONE
	 */
	enum smcr_reason (*refuse)(void *ctx, const struct conns_candidate *candidate);

	/** What may this connection need, from what others did? NULL: nobody knows. */
	struct smcr_needs (*expect)(void *ctx, const struct conns_candidate *candidate);

	/** What became of rendezvous, for who learns from it; each may be NULL. `peer` has the port
	 * of a server, 0 of a client. The engine must not be called. */
	void (*worked)(void *ctx, const struct smcr_addr *peer);
	void (*failed)(void *ctx, const struct smcr_addr *peer, enum conns_failure how);
	void (*ended)(void *ctx, const struct conns_ended *ended);
	/** It has filled a buffer that could be larger: `needs` says which. */
	void (*outgrown)(void *ctx, const struct conns_candidate *candidate,
			 const struct smcr_needs *needs);

	/** For operators; may be NULL. The engine must not be called. */
	void (*told)(void *ctx, const struct conns_told *told);
	/** The BPF programs have told of this one as plain TCP already; it was handed over and is
	 * shown here. May be NULL. @param cookie  SO_COOKIE of its socket */
	void (*settled_tcp)(void *ctx, uint64_t cookie);

	/**
	 * Only asked where the TCP option cannot be seen (no BPF): does the configuration say that
	 * this peer speaks SMC-R? NULL: none does.
	 */
	bool (*assume_capable)(void *ctx, const struct smcr_addr *peer);

	/** May memory of connections be replaced by other pages? Not where a device holds on to
	 * what it was given. NULL: it may. */
	bool (*can_share)(void *ctx);

	/** One line, priority as in syslog.h, no newline. */
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
	uint32_t
		close_wait_ms; /* relay: both sides' last bytes after the program's close (60000) */
	uint32_t connect_wait_ms; /* connect() of a program waits for the rendezvous this long (40)
				   */
	uint32_t shared;          /* connections that share memory with their program (8192) */
	uint32_t history;         /* ended and plain TCP connections remembered for views (256) */
};

struct conns_config {
	struct event_base *base;
	struct smcr_engine *engine;
	struct rdv_option *option; /* NULL where the TCP option cannot be used (no BPF) */
	bool shared_memory;        /* connections may share memory with their program, */
	uint32_t busy_poll_us;     /* and it is looked at for so long after activity */
	struct conns_limits limits;
	struct conns_callbacks callbacks;
};

/** @param config  copied; what it points to outlives the connections. @return 0 or a negative errno
 */
int conns_new(const struct conns_config *config, struct conns **ret_conns);

/**
 * From here on go by other values of `shared_memory`, `busy_poll_us` and `limits`. Connections and
 * sessions that are there stay, also beyond a limit.
 */
void conns_configure(struct conns *conns, const struct conns_config *config);

/**
 * Orderly stop: what is in rendezvous is given up, what is relayed is reset. Call before
 * smcr_engine_shutdown(); the engine then ends the connections.
 */
void conns_stop(struct conns *conns);
bool conns_stopped(const struct conns *conns);

/** How many there may be at a time: by the limits, and by the descriptors of this process. */
uint32_t conns_most(const struct conns *conns);

/** Connections left (SMC-R, rendezvous and relays). The daemon waits for 0, with patience, to stop.
 */
size_t conns_active(const struct conns *conns);

/**
 * Free everything. Connections that are left see ECONNRESET, their TCP connections a RST. Call
 * after smcr_engine_free(), or with an engine that will not be run again, when nobody waits for an
 * outcome any more. NULL is allowed.
 */
void conns_free(struct conns *conns);

/* For the engine's operations (struct smcr_conn_ops in ops.h). `user` is what the engine was given
 * by this module. */
void conns_clc_send(void *user, const uint8_t *msg, size_t len);
void conns_event(void *user, const struct smcr_conn_event *event);

/* ---- what others share with the connections */

struct batch *conns_batch(const struct conns *conns);
/** The same poller may watch other descriptors: its rounds are batches. */
struct poller *conns_poller(const struct conns *conns);
struct smcr_engine *conns_engine(const struct conns *conns);
uint64_t conns_now_ms(void);
/** The same in microseconds. */
uint64_t conns_now_us(void);
void conns_log(const struct conns *conns, int priority, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- handing over */

/** Who hands a connection over, and waits for what comes of it; embedded by that. */
struct conn_asker {
	struct client_conn *conn; /* NULL: it waits for nothing */
	/** Once. `fd` (or -1) goes to the program and is taken over. */
	void (*outcome)(struct conn_asker *asker, enum ipc_outcome outcome, int error,
			uint32_t reason, int fd);
};

struct quota;

/** What there is to know of a TCP socket that is handed over. */
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
 * Take a TCP socket, which is this module's from then on, also on failure.
 * @return 0: the outcome comes, or has come; -EUSERS: the user has too many connections; another
 *         negative errno: no pair can be made, nothing was done to the socket
 */
int conns_adopt(struct conns *conns, const struct conn_offer *offer, int tcp);
/** A program's TCP socket was not even taken: it is counted, and told of.
 *  @param reason  enum smcr_reason */
void conns_note_refused(struct conns *conns, const struct ucred *cred, int tcp, bool server,
			uint32_t reason);
/** It waits no longer: the connection goes on without. */
void conn_asker_forget(struct conn_asker *asker);

/* ---- asking */

/* Whoever asks about a connection shows a descriptor of it. These give -EACCES: it is none. */

/** What STATUS says. @param ret_tcp  the TCP socket goes back to the program; -1: it does not */
int conns_status(struct conns *conns, int proof, uint8_t flags, struct ipc_status *ret_status,
		 int *ret_tcp);
/** Do what the program asks of the TCP socket; value, length and result are put into `msg`. */
int conns_sockopt(struct conns *conns, int proof, struct ipc_sockopt *msg);

/**
 * A program that shows its pair end wants the connection's memory (docs/data-path.md).
 * @param ret_fd  granted: the memory, for the program; else -1
 */
int conns_share(struct conns *conns, int proof, const struct ipc_memory_request *msg,
		struct ipc_memory *ret_memory, int *ret_fd);

/** Who waits until it is settled whether SMC-R or TCP carries the data; embedded by that. */
struct conn_watcher {
	struct client_conn *conn; /* NULL: it waits for nothing */
	/** Once. NULL: there is nothing to tell, the daemon ends. */
	void (*settled)(struct conn_watcher *watcher, const struct client_conn_view *view);
	struct conn_watcher *prev, *next;
};

/**
 * What became of a connection: `proof` may be a pair end or the TCP socket that was handed over.
 * @param watcher  NULL, or called when it is no longer pending, if it is now
 * @return 0; -EACCES; -ENOENT: it is not remembered
 */
int conns_info(struct conns *conns, int proof, struct conn_watcher *watcher,
	       struct client_conn_view *ret_view);
void conn_watcher_forget(struct conn_watcher *watcher);

/* ---- what a user may hold */

/** What one user holds. */
struct quota {
	uid_t uid;
	uint32_t sessions, conns, failed, shared;
	uint32_t tools;   /* its sessions of those that are reserved */
	uint32_t closing; /* descriptors whose close() may block: closer.c's */
	uint32_t closers; /* threads that close them */
	bool limited;     /* at one of its limits: nothing is promised to its peers */
	uint64_t limit_logged_ms;
	size_t unsent;   /* bytes of replies that its tools have not read */
	uint64_t served; /* its last turn among those who wait: daemon/clients/pace.c */
	bool abandoned;  /* nobody but closer.c knows it any more */
	UT_hash_handle hh;
};

/** The quota of a uid, made if need be; NULL: no memory. */
struct quota *quota_get(struct conns *conns, uid_t uid);
/** Free it if nothing counts on it any more. */
void quota_put(struct conns *conns, struct quota *quota);
/** May the user open one more session? @param ret_why  if not: a sentence of up to `len` bytes */
bool limits_allow_session(struct conns *conns, struct quota *quota, char *ret_why, size_t len);
/** Take one of those that are kept for administrators' tools. @return false: there is none */
bool limits_take_reserved(struct conns *conns);
void limits_give_reserved(struct conns *conns);
/** So many more bytes of replies wait until the user reads. @return false: these are too many */
bool limits_count_unsent(struct quota *quota, ssize_t change);
/** A session was opened, or has ended. */
void limits_count_session(struct conns *conns, struct quota *quota, int change);
/** Something failed that does when there are no descriptors left. @return is it that? */
bool limits_out_of_descriptors(struct conns *conns);
/** Give the spare descriptor up, for a session that has to be refused. @return false: there is none
 */
bool limits_spend_spare(struct conns *conns);
void limits_get_spare(struct conns *conns);

/**
 * Close a descriptor that came from a client; -1 is allowed. Such a close() may block: on lingering
 * TCP sockets, on files of network or user-space file systems. `quota` is that of the client.
 */
void close_foreign(int fd, struct quota *quota);
/** Are those that are not closed yet so many that no more are taken? */
bool close_overdue(const struct quota *quota);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file internal.h
 * What the files of daemon/conns share. No file outside daemon/conns includes this header.
 *
 *   conns.c       struct conns: creation, stop, deadlines, counters
 *   batch.c       engine batches, work that was put off
 *   adopt.c       a program hands a TCP socket over: SMC-R or plain TCP?
 *   rendezvous.c  CLC on the TCP socket, and what the engine is told
 *   conn.c        one connection: its life as a table of phase and event
 *   naming.c      the names of pair ends, which nobody can foretell
 *   ends.c        the ways in which a connection ends, and what others learn from that
 *   outcome.c     the rendezvous has ended in SMC-R or in fallback
 *   conn_ops.c    the engine's CLC and event operations
 *   early.c       connect() returns before the outcome
 *   waits.c       connections that wait equally long
 *   again.c       a connection whose rendezvous broke is made once more as plain TCP
 *   shown.c       questions of a program that shows a descriptor of its connection
 *   failed.c      what is kept of connections that failed, for such questions
 *   watchers.c    sessions that wait until a connection is settled
 *   sockopt.c     socket options of the TCP socket behind a pair end
 *   tcpinfo.c     TCP_INFO and SIOCOUTQ of the program's stream
 *   pair.c        the socket pair between program and daemon
 *   pump.c        bytes between the pair and the engine
 *   relay.c       bytes between the pair and TCP, after a fallback
 *   share.c       a program asks for the memory of its connection
 *   shared.c      bytes through memory that the program has mapped
 *   lookout.c     which of that memory the daemon polls
 *   poller.c      edge-triggered readiness
 *   history.c     connections that ended, views
 *   order.c       all connections by their numbers, for views that come in parts
 *   limits.c      how many connections, sessions and descriptors there may be
 *   closer.c      calls of close() that may block
 *   fins.c        TCP sockets that wait for the peer's FIN
 *   trim.c        memory of ended connections goes back to the system
 */
#ifndef SMCRD_DAEMON_CONNS_INTERNAL_H
#define SMCRD_DAEMON_CONNS_INTERNAL_H

#include <event2/event.h>
#include <sys/socket.h>
#include <uthash.h>
#include <utlist.h>

#include "daemon/conns/conns.h"
#include "daemon/conns/order.h"
#include "daemon/conns/pair.h"
#include "daemon/conns/poller.h"
#include "daemon/conns/pump.h"
#include "daemon/conns/relay.h"
#include "daemon/conns/shared.h"
#include "daemon/conns/waits.h"
#include "daemon/rendezvous/clc_stream.h"
#include "daemon/rendezvous/handshake.h"
#include "daemon/smcr/log_limit.h"
#include "proto/smcr/reason.h"

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* ---- connections ---- */

enum conn_phase {
	PHASE_CONNECTING, /* TCP handshake of a non-blocking connect() */
	PHASE_RENDEZVOUS, /* CLC and, at first contact, LLC; the engine runs them */
	PHASE_DECLINING,  /* plain TCP as soon as the kernel has taken our Decline */
	PHASE_AGAIN, /* the rendezvous broke: the connection is being made again as plain TCP */
	PHASE_SMCR,
	PHASE_RELAY,
	PHASE_CLOSING, /* the program's side is over; the engine's CLOSED is awaited */
	PHASE_DEAD,    /* to be freed */
};
#define NUM_PHASES (PHASE_DEAD + 1)

/* What happens to a connection. The engine tells events from inside its calls. They are noted in
 * `told`, with their details in the connection, and carried out when the engine may be called
 * again. */
enum conn_event {
	CONN_ESTABLISHED,
	CONN_RESET,
	CONN_FAILED,
	CONN_FALLBACK,
	CONN_CLOSED,
	CONN_READY, /* the pair, TCP or the engine has or takes bytes, or wants CLC read */
};
#define NUM_CONN_EVENTS (CONN_READY + 1)

/** Events that the engine has told and that were not carried out yet, in their order. Each occurs
 * at most once. */
#define TOLD_MAX CONN_READY
struct told {
	enum conn_event events[TOLD_MAX];
	unsigned int count;
};

/** The program's TCP_KEEPIDLE and TCP_KEEPINTVL, in seconds, where the daemon has set a larger
 * value on the TCP socket (`keepalive_min_s`). 0: the TCP socket has the program's own value. */
struct own_keepalive {
	int idle, interval;
};

/** One connection that a program handed over, client or server. `smc` is the same connection in the
 * engine, from conn_start_rendezvous() until the engine lets go of it. */
struct conn {
	struct conns *conns;
	uint64_t id;
	uint64_t number;   /* connections are counted from 1 */
	struct ucred cred; /* of the process that handed the connection over */
	char program[CONN_PROGRAM_LEN];
	uid_t claim_uid;        /* who claimed the socket or its listener; without BPF: cred.uid */
	uint64_t claim_program; /* ipc_program_id(), 0: unknown */
	struct quota *quota;
	enum ipc_handover_kind kind;
	bool require;      /* the program wants an error instead of a fallback */
	bool opened_early; /* connect() returned before the outcome, with a writable pair end */
	bool was_smcr;     /* the rendezvous succeeded */
	bool was_shared;   /* the program has, or had, this connection's memory mapped */
	int files;         /* descriptors that are counted for it, but for that of shared memory */
	bool again;        /* the rendezvous broke, so the connection was made again as plain TCP */
	uint64_t again_since_ms; /* `again`: since when */
	int syn_retries;         /* `again`: the program's TCP_SYNCNT */
	bool meddled;            /* another process has read from the TCP socket or written to it */
	struct wait early;       /* for connect() to return, whether or not the outcome is known */
	struct wait connecting;  /* for the end of a non-blocking connect() */
	struct early_host *host; /* the peer's, while a non-blocking connect() has not ended */
	bool host_rendezvous;    /* in host->rendezvous, otherwise in host->handshakes */
	struct conn *host_prev, *host_next;
	enum conn_phase phase;
	uint64_t started_ms;

	int tcp;         /* -1: closed, or given back */
	uint64_t cookie; /* SO_COOKIE of `tcp` */
	bool armed;      /* SO_LINGER {1,0} is set on `tcp`; `linger` has the program's value */
	struct linger linger;
	struct own_keepalive keepalive;
	struct smcr_addr local, peer;
	struct ipc_pair_name name; /* id and both addresses in the socket's own family */

	struct conn_asker *asker;      /* who waits for the outcome of the handover; NULL: nobody */
	struct conn_watcher *watchers; /* who waits until the connection is settled */
	struct rdv_connect_wait *wait;
	struct clc_stream *stream;
	struct smcr_conn *smc; /* NULL: not in the engine yet, or the engine has let go of it */
	struct pair pair;
	struct watch pair_watch, tcp_watch;
	struct pump pump;
	struct shared shared; /* used while pump.shared points to it */
	struct relay relay;
	uint64_t sent;              /* bytes that had left when `close_deadline_ms` was set */
	uint64_t close_deadline_ms; /* the program has closed: reset if no more leave; 0: never */
	uint64_t reset_deadline_ms; /* TCP was reset: how long the program may still read; 0: not */

	struct told told;
	bool let_go; /* the engine has told FALLBACK, FAILED or CLOSED, and has forgotten it */
	bool broken; /* the engine has told RESET */
	bool path_dead, tcp_reset;
	bool peer_first;         /* the peer ended first, and so its FIN is to come first */
	bool reset_waits;        /* CLOSED with tcp_reset was put off by a turn */
	struct smcr_needs needs; /* memory that the connection has needed; told with CLOSED */
	int error;               /* positive errno */
	int tcp_error;           /* positive errno with which TCP has ended; 0: it has not */
	uint32_t reason, peer_reason;
	const char *why;  /* why the connection was reset; NULL: because its link group ended */
	bool settled_tcp; /* plain TCP by the TCP handshake; the BPF programs have counted it */
	bool handed_back; /* the program has its TCP socket back and goes on with it */

	struct task work;         /* carry out `told`, move bytes */
	struct task later;        /* marks `work` after other connections had their turn */
	struct task grave;        /* frees the connection */
	struct conn *prev, *next; /* all connections, newest first */
	bool looked_at;           /* in conns->looked_at */
	uint64_t look_due;        /* the next look comes no earlier, microseconds */
	uint64_t look_pause;
	struct conn *look_prev, *look_next;
	UT_hash_handle hh; /* by id */
};

/** What is kept of a failed connection, so that its program can still ask for the error. */
struct failed_conn {
	uint64_t id;
	uint64_t program_cookie;
	int error;
	uint32_t reason;
	int tcp;   /* TCP socket of a failed connect(), for the program to take back; -1: none */
	int files; /* descriptors that are counted for it */
	struct quota *quota;
	uint64_t expires_ms;
	UT_hash_handle hh; /* by id, oldest first */
};

/** Why a connection is not SMC-R: this host's reason and the peer's. */
struct reason_pair {
	uint32_t own, peer;
};

struct reason_count {
	struct reason_pair pair;
	uint64_t count;
	UT_hash_handle hh;
};

/* ---- the whole ---- */

#define NAMING_IDS 32 /* drawn at a time */

struct conns {
	struct conns_config config; /* limits with defaults filled in */
	struct batch *batch;
	struct poller *poller;
	struct event *sweep_timer; /* deadlines of connections, and of failed ones */
	struct waits early, connecting;
	struct early_host *early_hosts; /* by address (early.c) */
	struct fin *fins;
	uint32_t num_fins;
	struct event *look_timer; /* due for `looked_at` */
	uint64_t look_at;         /* when look_timer is due, microseconds */
	struct event *trim_timer;
	uint32_t most_conns; /* the largest number of connections since the heap was trimmed */
	int plug_fd;
	bool stopped, freeing;

	enum smcr_reason
		limited; /* why the SMC-R option is off for all users, or SMCR_REASON_NONE */
	bool short_of_fds;
	int spare_fd; /* closed to make place for a session that has to be refused */
	struct event *limit_check;
	uint64_t limit_logged_ms;
	struct log_limit user_lines; /* conns_warn_of_user(): the uid is the peer */
	uint32_t sessions;           /* of all users */
	uint32_t reserved;           /* sessions of administrators' tools, beyond the limit */
	uint32_t files;              /* descriptors that users hold, but for those being closed */
	uint32_t files_most;         /* and how many there may be */

	struct quota *quotas;
	struct conn *conns, *looked_at;
	struct conn *by_id;
	struct order order; /* connections by their numbers */
	uint64_t last_number;
	struct failed_conn *failed;
	uint64_t ids[NAMING_IDS]; /* random, for new connections */
	uint32_t ids_left;        /* how many of them are still to be used */
	uint64_t taken_logged_ms; /* naming_taken() has written a line */

	struct conn_view *history; /* ring */
	uint32_t history_len, history_at;
	uint64_t remembered; /* entries ever made in `history`, overwritten ones included */
	struct reason_count *reasons;
	struct conns_view counts; /* counts.conns is also the number that limits go by */
};

/* conns.c */
/** A deadline was set: make sure that the sweep timer runs. */
void conns_need_sweep(struct conns *conns);

/* trim.c */
/** A connection has begun; the memory of one that ended was freed. */
void trim_note_begin(struct conns *conns);
void trim_note_end(struct conns *conns);
void trim_on_timer(evutil_socket_t fd, short what, void *arg);

/* closer.c */
/** How many descriptors of the user are not closed yet. */
uint32_t close_pending(const struct quota *quota);
/** The same of all users. */
uint32_t close_pending_of_all(void);
/** Free the quota, or have the last of its closes do that. */
void close_abandon(struct quota *quota);

/* limits.c */
/* Descriptors of a session: its own, and one that comes or goes. */
#define FDS_OF_SESSION 2
/* Descriptors of a connection: TCP socket, pair end, and the program's end until it is settled
 * which of SMC-R and TCP carries the data. */
#define FDS_OF_NEW_CONN 3
#define FDS_OF_CONN     2

int limits_open(struct conns *conns);
/** May the user have one more connection? */
bool limits_allow_conn(const struct conns *conns, const struct quota *quota);
/** May the daemon hold so many more descriptors for the user? */
bool limits_allow_files(const struct conns *conns, const struct quota *quota, uint32_t more);
/** The descriptors that the daemon holds for the user have changed by `change`. */
void limits_count_files(struct conns *conns, struct quota *quota, int change);
/** conns->config.limits have changed. */
void limits_changed(struct conns *conns);
void limits_close(struct conns *conns);
/** What all users or this user hold has changed: update the limits that are in force. */
void limits_update(struct conns *conns, struct quota *quota);
void quota_free_all(struct conns *conns);

/* rendezvous.c */
/** The handshake is over and SMC-R was agreed upon: have the engine begin CLC, or end in FAILED. */
void conn_start_rendezvous(struct conn *conn);
/** The connection as policy sees it; `mark` is not filled. */
struct conns_candidate conn_candidate(const struct conn *conn);
/** Read CLC messages from TCP if and only if the engine wants them. */
void conn_update_stream(struct conn *conn);
void conn_free_stream(struct conn *conn);

/* naming.c */
/** A number that is no connection's and that nobody can foretell. @return 0 or a negative errno */
int naming_draw(struct conns *conns, uint64_t *ret_id);
/** Somebody else has the connection's name: count that, and tell who in the log. */
void naming_taken(struct conn *conn);

/* conn.c */
/** @return NULL: there are too many connections, no memory or no random number; `tcp` still belongs
 *         to the caller */
struct conn *conn_new(struct conns *conns, const struct conn_offer *offer, int tcp);
/** Make the pair. Where all names that are tried are taken, it has none if SMC-R carries the
 * connection already. @return the program's end or a negative errno; -EADDRINUSE */
int conn_open_pair(struct conn *conn, bool plugged);
/** The engine told an event: carry it out when the engine may be called again. */
void conn_note(struct conn *conn, enum conn_event event);
/** As conn_note(), but after other connections had their turn. */
void conn_put_off(struct conn *conn, enum conn_event event);
/** Carry out what was told and move bytes, at the end of this batch or from the event loop. */
void conn_mark(struct conn *conn);
void conn_stop_watching(struct conn *conn);
/** Account now for what the program has written into shared memory and taken from there. */
void conn_look_at_memory(struct conn *conn);
/** SMC-R or TCP carries the data from now on: the connection takes fewer descriptors. */
void conn_settled(struct conn *conn);
/** End the use of shared memory: the connection is about to end. */
void conn_unshare(struct conn *conn);
/** Tell the outcome to who handed the connection over. */
void conn_reply(struct conn *conn, enum ipc_outcome outcome, int error, int fd);
/** Options of the TCP socket, or `linger`, have other values. */
void conn_options_changed(struct conn *conn);
/** The daemon stops in good order. */
void conn_stop(struct conn *conn);
/** Reset a connection that waits for its peer or its program, if nothing has moved for too long.
 * @return false: the connection has no deadline (any more) */
bool conn_check_deadline(struct conn *conn, uint64_t now_ms);
/** The state that a program sees. */
enum ipc_conn_state conn_state(const struct conn *conn);

/* outcome.c */
/** connect() has waited for the rendezvous long enough: let it return, as TCP would. */
void conn_open_early(struct conn *conn);
/** The rendezvous succeeded: SMC-R carries the bytes from now on. */
void conn_established(struct conn *conn);
/** SMC-R was not negotiated, or was declined: the connection is plain TCP from now on. */
void conn_fall_back(struct conn *conn, uint32_t reason);
/** The TCP connection broke before SMC-R or TCP has carried a byte. */
void conn_tcp_lost(struct conn *conn);

/* ends.c */
/** Give the TCP socket its own SO_LINGER again and read no more from it. */
void conn_let_go_of_tcp(struct conn *conn);
/** Close a TCP socket with a FIN behind what was sent; the kernel goes on in the background. */
void tcp_finish(int tcp, struct quota *quota);
/** The same for the connection's own socket, from which nothing is read any more. */
void conn_close_tcp(struct conn *conn);
/** Reset TCP; the program gets `error` if it waits or asks for it. */
void conn_fail(struct conn *conn, int error, uint32_t reason);
/** The program closed its pair end before connect() was over, so nobody wants the connection. */
void conn_abandon(struct conn *conn);
/** The engine says that the connection broke. */
void conn_reset(struct conn *conn);
/** The engine says that the connection is over. */
void conn_closed(struct conn *conn);
void conn_end_relay(struct conn *conn, bool orderly);
/** Reset TCP and the pair without a word to the engine or into the history. For conns_free(). */
void conn_drop(struct conn *conn);
/** Take the connection out of everything; its memory is freed at the end of the batch. */
void conn_end(struct conn *conn);
/** Give the program its TCP socket back, as it was. @return the socket, and the connection has
 * ended; -EBUSY: bytes have passed, or it is no relay */
int conn_take_back(struct conn *conn);
/**
 * The program dissolves the connection and wants its TCP socket back (connect() with AF_UNSPEC).
 * The peer sees a reset, and so does who else holds the pair end.
 * @return the socket, which can be connected again, or -ENOTCONN. The connection may have ended.
 */
int conn_disconnect(struct conn *conn);
/** Tell daemon/policy how the rendezvous went, or that a buffer was too small. */
void conn_note_failure(const struct conn *conn, enum conns_failure how);
void conn_note_worked(const struct conn *conn);
void conn_note_outgrown(const struct conn *conn, const struct smcr_needs *needs);
/** Tell operators what became of the connection. @param why as in struct conns_told */
void conn_tell(const struct conn *conn, enum conns_told_kind kind, const char *why);

/* fins.c */
/** Close all sockets now. */
void fins_close(struct conns *conns);
/** tcp_finish() when the peer has sent FIN, or a second later. @return false: the socket cannot
 * wait, and stays the caller's */
bool fins_add(struct conns *conns, int tcp, struct quota *quota);

/* early.c */
int early_open(struct conns *conns);
void early_close(struct conns *conns);
/** The program has its plugged pair end: close the daemon's descriptor of it after a short time. */
void early_keep_end(struct conn *conn);
/** A client's rendezvous begins: its connect() returns after `connect_wait_ms` at the latest. */
void early_expect(struct conn *conn);
/**
 * To be called before bytes of the peer, or its end of file, are passed to the program of `conn`.
 * If there are any, each non-blocking connect() to the same address whose TCP handshake is over
 * ends first.
 */
void early_before_bytes(struct conn *conn);
/** connect() has returned, or the connection has ended. */
void early_forget(struct conn *conn);

/* lookout.c */
/** The pump of a connection with shared memory has run: decide whether the daemon polls that
 * memory. */
void lookout_update(struct conn *conn);
void lookout_forget(struct conn *conn);
void lookout_on_timer(evutil_socket_t fd, short what, void *arg);

/* again.c */
/**
 * The rendezvous broke. A client's connection is made again as plain TCP if that is possible and
 * allowed; it ends in a relay, in the program's own TCP socket, or in FAILED. Any other connection
 * fails.
 * @param error   positive errno
 * @param reason  enum smcr_reason; NONE: the peer is the cause, and gets no SMC-R option for a
 *                while
 */
void again_or_fail(struct conn *conn, int error, uint32_t reason);

/* shown.c */
/** What a descriptor proves to belong to. `conn` and `failed` both NULL: the connection is over. */
struct shown {
	uint64_t id;
	uint64_t cookie;
	struct conn *conn;
	struct failed_conn *failed;
};
/** @return 0; -EACCES: the descriptor is no pair end that this daemon made */
int shown_look_up(const struct conns *conns, int proof, struct shown *ret_shown);

/* failed.c */
/** Keep what the program of a failed connection may ask for. `tcp` (or -1) belongs to the record
 * from now on. */
void failed_add(const struct conn *conn, int error, uint32_t reason, int tcp);
void failed_remove(struct conns *conns, struct failed_conn *failed);
void failed_expire(struct conns *conns, uint64_t now_ms);

/* watchers.c */
/** Tell who waits for the outcome, if there is one. */
void watchers_settled(struct conn *conn);
/** The connection is over and in the history: tell everybody who still waits. */
void watchers_ended(struct conn *conn);

/* sockopt.c */
/**
 * Do what the program asked of the TCP socket behind its pair end, without the daemon's privileges.
 * @param msg  the request; becomes the reply: value, length and result are filled in
 * @param linger  the program's SO_LINGER where the socket has another value; NULL: the socket has
 *                the program's
 */
void sockopt_apply(int tcp, struct ipc_sockopt *msg, struct linger *linger);
/** The value of an int option; 0 if the kernel does not give it. */
int sockopt_number(int tcp, int level, int name);
/** After how many idle microseconds the program wants the peer to be probed (SO_KEEPALIVE,
 * TCP_KEEPIDLE); 0: never. */
uint64_t sockopt_keepalive(int tcp, const struct own_keepalive *own);
/** To be called after sockopt_apply(). The program reads its own keepalive times in `msg`, or has
 * set new ones. */
void sockopt_own_keepalive(struct ipc_sockopt *msg, struct own_keepalive *own);
/** Have the TCP socket send keepalives no more often than every `seconds`; the program's values go
 * to `own`.
 */
void sockopt_limit_keepalive(int tcp, uint32_t seconds, struct own_keepalive *own);
/** The program gets the TCP socket back: give the socket the program's keepalive times again. */
void sockopt_restore_keepalive(int tcp, const struct own_keepalive *own);

/* tcpinfo.c */
/** To be called after sockopt_apply(). If the answer is TCP_INFO, make it describe the program's
 * stream instead of the TCP connection behind the pair. */
void tcpinfo_correct(const struct conn *conn, struct ipc_sockopt *msg);
/** Answer SIOCOUTQ or SIOCOUTQNSD; ENOTCONN if the connection is over, which NULL means too. */
void tcpinfo_control(const struct conn *conn, struct ipc_sockopt *msg);

/* history.c */
int history_new(struct conns *conns);
void history_free(struct conns *conns);
/** The connection has ended, or has become plain TCP that the daemon does not see. */
void history_add(struct conn *conn, enum conn_mode mode, enum ipc_conn_state state);
/** A live connection as it is now. */
void history_describe(const struct conn *conn, struct conn_view *ret_view);
/** Find an ended connection by its pair. @return false: it is not in the history */
bool history_find_pair(const struct conns *conns, uint64_t id, uint64_t cookie,
		       struct conn_view *ret_view);
/** Find the last connection of this TCP socket that the daemon had and has no more. */
bool history_find_tcp(const struct conns *conns, uint64_t cookie, struct conn_view *ret_view);
/** Count why a connection does not use SMC-R. */
void history_count_reason(struct conns *conns, uint32_t reason, uint32_t peer_reason);

#endif

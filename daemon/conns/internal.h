/* SPDX-License-Identifier: MIT */
/**
 * @file internal.h
 * What the files of this room share. Nothing outside daemon/conns includes it.
 *
 *   conns.c       life of the whole, deadlines, views' counters
 *   batch.c       engine batches, work that was put off
 *   adopt.c       a TCP socket arrives: is it fit, which way does it go
 *   rendezvous.c  CLC on it, and what the engine is told of it
 *   conn.c        one connection: its life as a table of phase and event
 *   ends.c        the ways in which it ends, and what others learn from that
 *   outcome.c     fallback, SMC-R
 *   conn_ops.c    the engine's CLC and event operations
 *   early.c       connect() returns before the outcome
 *   again.c       the connection is made once more as plain TCP
 *   shown.c       what a program may ask that shows a descriptor    failed.c  also of what failed
 *   watchers.c    who waits until a connection is settled
 *   sockopt.c     which options programs may use
 *   tcpinfo.c     what TCP would tell of the stream
 *   pair.c        the socket pair                     pump.c, relay.c   bytes
 *   share.c       a program asks for the memory of its connection
 *   shared.c      bytes through memory that the program has mapped
 *   lookout.c     which such memory is looked at without an event
 *   poller.c      edge-triggered readiness            history.c   connections that ended, views
 *   order.c       all connections by their numbers, for views in parts
 *   limits.c      what all this may amount to, and no promises above it
 *   closer.c      close() that may block
 *   trim.c        memory of connections that have ended
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
#include "daemon/rendezvous/clc_stream.h"
#include "daemon/rendezvous/handshake.h"
#include "proto/smcr/reason.h"

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* ---- connections ---- */

enum conn_phase {
	PHASE_CONNECTING, /* TCP handshake of a non-blocking connect() */
	PHASE_RENDEZVOUS, /* CLC and, at first contact, LLC: the engine has it */
	PHASE_FALLBACK,   /* over to TCP as soon as our Decline is with the kernel */
	PHASE_AGAIN, /* the rendezvous broke: the connection is being made again as plain TCP */
	PHASE_SMCR,
	PHASE_RELAY,
	PHASE_CLOSING, /* the program's side is over; the engine has still to say CLOSED */
	PHASE_DEAD,    /* to be freed */
};
#define NUM_PHASES (PHASE_DEAD + 1)

/* What happens to it. What the engine tells is noted, and carried out when it may be called again;
 * what it came with is in the connection. */
enum conn_event {
	EVENT_ESTABLISHED,
	EVENT_RESET,
	EVENT_FAILED,
	EVENT_FALLBACK,
	EVENT_CLOSED,
	EVENT_READY, /* the pair, TCP or the engine has or takes bytes, or wants CLC read */
};
#define NUM_EVENTS (EVENT_READY + 1)

/** What the engine has told and was not carried out yet, in its order: each at most once. */
#define TOLD_MAX EVENT_READY
struct told {
	enum conn_event events[TOLD_MAX];
	unsigned int count;
};

/** The program's TCP_KEEPIDLE and TCP_KEEPINTVL, seconds, where its TCP socket has the longest that
 *  the configuration wants instead; 0: it has the program's. */
struct own_keepalive {
	int idle, interval;
};

/** One connection that a program handed over. */
struct client_conn {
	struct conns *conns;
	uint64_t id;
	uint64_t number;   /* they are counted from 1 */
	struct ucred cred; /* of the session that handed it over */
	char program[CLIENT_PROGRAM_LEN];
	uid_t claim_uid; /* of who claimed the socket or its listener; without BPF cred.uid */
	uint64_t claim_program; /* ipc_program_id(), 0: unknown */
	struct quota *quota;
	enum ipc_handover_kind kind;
	bool require;    /* a fallback is an error */
	bool early;      /* on the list of those whose program may be told before the outcome */
	bool released;   /* that has happened: the program holds a pair end that is writable */
	bool was_smcr;   /* the rendezvous succeeded */
	bool was_shared; /* the program has, or had, the connection's memory */
	bool again;      /* the connection is plain TCP because the rendezvous broke */
	bool meddled;    /* somebody else has read from its TCP socket or written to it */
	uint64_t early_at_ms;
	enum conn_phase phase;
	uint64_t started_ms;

	int tcp;         /* -1: closed, or given back */
	uint64_t cookie; /* SO_COOKIE of it */
	bool armed;      /* SO_LINGER {1,0} is set on it; `linger` is the program's */
	struct linger linger;
	struct own_keepalive keepalive;
	struct smcr_addr local, peer;
	struct ipc_pair_name name; /* id and both addresses in the socket's own family */

	struct conn_asker *asker;      /* waits for the outcome */
	struct conn_watcher *watchers; /* wait until it is settled */
	struct rdv_connect_wait *wait;
	struct clc_stream *stream;
	struct smcr_conn *smc; /* NULL: none, or the engine let go */
	struct pair pair;
	struct watch pair_watch, tcp_watch;
	struct pump pump;
	struct shared shared; /* pump.shared, if it is */
	struct relay relay;
	uint64_t relay_deadline_ms; /* the program is gone: without progress until then, reset */

	struct told told;
	bool let_go; /* the engine has: FALLBACK, FAILED or CLOSED was told */
	bool broken; /* RESET was told */
	bool path_dead, tcp_reset;
	bool reset_waits;        /* CLOSED with tcp_reset is carried out a turn later */
	struct smcr_needs needs; /* what it has needed, told with CLOSED */
	int error;               /* positive errno */
	uint32_t reason, peer_reason;
	const char *why;  /* it was reset; NULL: with its group */
	bool settled_tcp; /* by its handshake: the BPF programs have counted it */
	bool handed_back; /* its program has the TCP socket and goes on with it */

	struct task work;                /* see what was told, move bytes */
	struct task later;               /* the same, after others had their turn */
	struct task grave;               /* free it */
	struct client_conn *prev, *next; /* all of them, newest first */
	struct client_conn *early_prev, *early_next;
	bool looked_at;    /* on that list */
	uint64_t look_due; /* not before, microseconds */
	uint64_t look_pause;
	struct client_conn *look_prev, *look_next;
	UT_hash_handle hh; /* by id */
};

/** What is left of a connection that failed while its program may still ask why. */
struct failed_conn {
	uint64_t id;
	uint64_t program_cookie;
	int error;
	uint32_t reason;
	int tcp; /* -1, or the socket of a connect() that failed: may be had back */
	struct quota *quota;
	uint64_t expires_ms;
	UT_hash_handle hh; /* by id, oldest first */
};

/** Why connections are not SMC-R, ours and the peer's. */
struct reason_pair {
	uint32_t own, peer;
};

struct reason_count {
	struct reason_pair pair;
	uint64_t count;
	UT_hash_handle hh;
};

/* ---- the whole ---- */

struct conns {
	struct conns_config config; /* limits with defaults filled in */
	struct batch *batch;
	struct poller *poller;
	struct event *sweep_timer; /* deadlines of relays and failed connections */
	struct event *early_timer; /* the first of `early` */
	struct event *look_timer;  /* of `looked_at` */
	uint64_t look_at;          /* when it is due, microseconds */
	struct event *trim_timer;
	uint32_t most_conns; /* at a time, since the heap was trimmed */
	int plug_fd;
	bool stopped, freeing;

	enum smcr_reason limited; /* nothing is promised to anybody's peers, and why */
	bool short_of_fds;
	int spare_fd; /* given up for a session that has to be refused */
	struct event *limit_check;
	uint64_t limit_logged_ms;
	uint32_t sessions; /* of all users */
	uint32_t reserved; /* of administrators' tools besides */

	struct quota *quotas;
	struct client_conn *conns, *early, *looked_at;
	struct client_conn *by_id;
	struct order order; /* by their numbers */
	uint64_t last_number;
	struct failed_conn *failed;
	uint64_t next_id;

	struct client_conn_view *history; /* ring */
	uint32_t history_len, history_at;
	uint64_t remembered; /* so far, those that are forgotten too */
	struct reason_count *reasons;
	struct conns_view counts; /* the current number is counted here too */
};

/* conns.c */
/** A deadline was set somewhere: see that sweeps run. */
void conns_need_sweep(struct conns *conns);

/* trim.c */
/** A connection has begun, or its memory is free again. */
void trim_note_begin(struct conns *conns);
void trim_note_end(struct conns *conns);
void trim_on_timer(evutil_socket_t fd, short what, void *arg);

/* closer.c */
/** How many of the user's are not closed yet. */
uint32_t close_pending(const struct quota *quota);
/** Free the quota, or leave that to the last of those closes. */
void close_abandon(struct quota *quota);

/* limits.c */
int limits_open(struct conns *conns);
/** conns->config.limits are others now. */
void limits_changed(struct conns *conns);
void limits_close(struct conns *conns);
/** What all users hold, or this one, has changed. */
void limits_update(struct conns *conns, struct quota *quota);
void quota_free_all(struct conns *conns);

/* rendezvous.c */
/** TCP and option are settled: put the engine on it, or end in FAILED. */
void conn_start_rendezvous(struct client_conn *conn);
/** For who decides about it; without SO_MARK. */
struct conns_candidate conn_candidate(const struct client_conn *conn);
/** Read TCP as CLC messages while the engine wants them. */
void conn_update_stream(struct client_conn *conn);
void conn_free_stream(struct client_conn *conn);

/* conn.c */
/** @return NULL: too many, or no memory; `tcp` was not taken */
struct client_conn *conn_new(struct conns *conns, const struct conn_offer *offer, int tcp);
/** Make the pair. @return the program's end or a negative errno */
int conn_open_pair(struct client_conn *conn, bool plugged);
/** The engine told of something: it will be carried out. */
void conn_note(struct client_conn *conn, enum conn_event event);
/** The same, after others had their turn. */
void conn_put_off(struct client_conn *conn, enum conn_event event);
/** See to it at the end of this batch, or from the event loop. */
void conn_mark(struct client_conn *conn);
void conn_stop_watching(struct client_conn *conn);
/** What the program has written into its memory counts now, and what it took from there. */
void conn_look_at_memory(struct client_conn *conn);
/** The program uses its pair alone from here on, which is about to end. */
void conn_unshare(struct client_conn *conn);
/** Tell who handed it over. */
void conn_reply(struct client_conn *conn, enum ipc_outcome outcome, int error, int fd);
/** Options of the TCP socket, or `linger`, have other values. */
void conn_options_changed(struct client_conn *conn);
/** The daemon stops in good order. */
void conn_stop(struct client_conn *conn);
/** A relay whose program is gone makes no progress. */
void conn_check_deadline(struct client_conn *conn, uint64_t now_ms);
/** The state that a program sees. */
enum ipc_conn_state conn_state(const struct client_conn *conn);

/* outcome.c */
/** connect() has lasted long enough: tell the program that it is connected, as TCP would. */
void conn_release(struct client_conn *conn);
/** SMC-R carries the bytes from here on. */
void conn_established(struct client_conn *conn);
/** The stream is plain TCP from here on: not negotiated, or declined. */
void conn_fall_back(struct client_conn *conn, uint32_t reason);
/** The TCP connection is gone before SMC-R or TCP has carried a byte. */
void conn_tcp_lost(struct client_conn *conn);

/* ends.c */
/** Leave the socket as the program had it, and read no more of it. */
void conn_let_go_of_tcp(struct client_conn *conn);
/** FIN behind what was sent, in the background. */
void conn_close_tcp(struct client_conn *conn);
/** Reset TCP; the program gets `error` where it can. */
void conn_fail(struct client_conn *conn, int error, uint32_t reason);
/** The program closed its end before connect() was over: nobody wants the connection any more. */
void conn_abandon(struct client_conn *conn);
/** The engine says that the connection broke. */
void conn_reset(struct client_conn *conn);
/** The engine says that it is over. */
void conn_closed(struct client_conn *conn);
void conn_end_relay(struct client_conn *conn, bool orderly);
/** Reset whatever there is, tell the engine, keep no record of why. For conns_free(). */
void conn_drop(struct client_conn *conn);
/** Nothing of it is left but the memory. */
void conn_end(struct client_conn *conn);
/** The program may have its TCP socket back, as it was: -EBUSY if bytes have passed; else the
 * socket, and the connection has ended. */
int conn_take_back(struct client_conn *conn);
/**
 * The program wants no connection any more, but its TCP socket. The peer sees a reset, and so does
 * whoever else holds the pair end.
 * @return the socket, which can be connected again, or -ENOTCONN. The connection may have ended.
 */
int conn_disconnect(struct client_conn *conn);
/** Others may learn from how its rendezvous went. */
void conn_note_failure(const struct client_conn *conn, enum conns_failure how);
void conn_note_worked(const struct client_conn *conn);
void conn_note_outgrown(const struct client_conn *conn, const struct smcr_needs *needs);
/** Operators may want to know. @param why  as in struct conns_told */
void conn_tell(const struct client_conn *conn, enum conns_told_kind kind, const char *why);

/* early.c */
/** A client's rendezvous begins: its program is told after `connect_wait_ms` at the latest. */
void early_expect(struct client_conn *conn);
/** It need not be told any more. */
void early_forget(struct client_conn *conn);
void early_on_timer(evutil_socket_t fd, short what, void *arg);

/* lookout.c */
/** The pump of a connection that shares memory has run: see whether it is to be looked at without
 *  an event. */
void lookout_update(struct client_conn *conn);
void lookout_forget(struct client_conn *conn);
void lookout_on_timer(evutil_socket_t fd, short what, void *arg);

/* again.c */
/**
 * The rendezvous broke. A client's connection is made again as plain TCP where that can and may be,
 * which ends in relay, in the program's own TCP socket, or in FAILED; any other one fails.
 * @param error   positive errno
 * @param reason  enum smcr_reason; NONE: the peer's doing, for which it is left alone for a while
 */
void again_or_fail(struct client_conn *conn, int error, uint32_t reason);

/* shown.c */
/** What a descriptor shows. Neither connection found: it is over. */
struct shown {
	uint64_t id;
	uint64_t cookie;
	struct client_conn *conn;
	struct failed_conn *failed;
};
/** @return 0; -EACCES: it is no pair end of ours */
int shown_look_up(const struct conns *conns, int proof, struct shown *ret_shown);

/* failed.c */
/** Remember a connection that failed. Takes `tcp` (or -1) over. */
void failed_add(struct client_conn *conn, int error, uint32_t reason, int tcp);
void failed_remove(struct conns *conns, struct failed_conn *failed);
void failed_expire(struct conns *conns, uint64_t now_ms);

/* watchers.c */
/** The connection may have an outcome: tell those who wait for it. */
void watchers_settled(struct client_conn *conn);
/** It is over, and in the history: tell the rest. */
void watchers_ended(struct client_conn *conn);

/* sockopt.c */
/**
 * Do what the program asked of the TCP socket behind its pair end, with no more rights than any
 * program has.
 * @param msg     request; value, length and result of the reply are put in
 * @param linger  the program's SO_LINGER, which is not the socket's
 */
void sockopt_apply(int tcp, struct ipc_sockopt *msg, struct linger *linger);
/** An option that is an int; 0 if there is none. */
int sockopt_number(int tcp, int level, int name);
/** After how many microseconds without traffic the program wants to know that the peer is there
 *  (SO_KEEPALIVE, TCP_KEEPIDLE); 0: it does not. */
uint64_t sockopt_keepalive(int tcp, const struct own_keepalive *own);
/** After sockopt_apply(): the program is told its own keepalive times, or has set others. */
void sockopt_own_keepalive(struct ipc_sockopt *msg, struct own_keepalive *own);
/** The TCP socket probes no more often than every `seconds`; what the program wanted goes to `own`.
 */
void sockopt_limit_keepalive(int tcp, uint32_t seconds, struct own_keepalive *own);
/** The TCP socket is the program's again, with its own keepalive times. */
void sockopt_restore_keepalive(int tcp, const struct own_keepalive *own);

/* tcpinfo.c */
/** After sockopt_apply(): if this was TCP_INFO, it tells of the program's stream, not of the TCP
 *  connection behind it. */
void tcpinfo_correct(const struct client_conn *conn, struct ipc_sockopt *msg);
/** SIOCOUTQ or SIOCOUTQNSD; ENOTCONN if the connection is over, as is one that is NULL. */
void tcpinfo_control(const struct client_conn *conn, struct ipc_sockopt *msg);

/* history.c */
int history_new(struct conns *conns);
void history_free(struct conns *conns);
/** The connection has ended, or has become plain TCP out of our sight. */
void history_add(struct client_conn *conn, enum client_mode mode, enum ipc_conn_state state);
/** A live connection as it is now. */
void history_describe(const struct client_conn *conn, struct client_conn_view *ret_view);
/** One that has ended, by its pair. @return false: it is not remembered */
bool history_find_pair(const struct conns *conns, uint64_t id, uint64_t cookie,
		       struct client_conn_view *ret_view);
/** The last one of a TCP socket that has ended, or is out of our sight. */
bool history_find_tcp(const struct conns *conns, uint64_t cookie,
		      struct client_conn_view *ret_view);
/** Count why a connection does not use SMC-R. */
void history_count_reason(struct conns *conns, uint32_t reason, uint32_t peer_reason);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file internal.h
 * What the files of this room share. Nothing outside daemon/clients includes it.
 *
 *   clients.c   life of the whole, engine batches, work that was put off, views' counters
 *   service.c   listening socket, quotas            session.c   frames of one client
 *   limits.c    what all this may amount to, and no promises above it
 *   request.c   CONTROL requests of tools, answered at once or later
 *   handover.c  a TCP socket arrives: is it fit, start its rendezvous
 *   refusal.c   sockets that are not taken although their peer was promised SMC-R
 *   conn.c      one handed-over connection: outcome, fallback, end
 *   conn_ops.c  the engine's CLC and event operations
 *   early.c     connect() returns before the outcome
 *   again.c     the connection is made once more as plain TCP
 *   query.c     STATUS and SOCKOPT requests         sockopt.c   which options programs may use
 *   tcpinfo.c   what TCP would tell of the stream
 *   info.c      INFO requests, answered at once or when the outcome is there
 *   pair.c      the socket pair                     pump.c, relay.c   bytes
 *   closer.c    close() that may block
 *   poller.c    edge-triggered readiness            history.c   connections that ended, views
 *
 * Rule of calls: the engine may only be called between clients_begin() and clients_end(), and not
 * from its own operations. So the operations note what happened in the connection and mark it; what
 * follows is done in clients_end(), or from the event loop if the engine was called by others.
 * Objects are freed at the end of the outermost clients_end() only.
 */
#ifndef SMCRD_DAEMON_CLIENTS_INTERNAL_H
#define SMCRD_DAEMON_CLIENTS_INTERNAL_H

#include <event2/event.h>
#include <sys/socket.h>
#include <uthash.h>
#include <utlist.h>

#include "daemon/clients/clients.h"
#include "daemon/clients/pair.h"
#include "daemon/clients/poller.h"
#include "daemon/clients/pump.h"
#include "daemon/clients/relay.h"
#include "daemon/clients/view.h"
#include "daemon/rendezvous/clc_stream.h"
#include "daemon/rendezvous/handshake.h"
#include "daemon/rendezvous/option.h"
#include "proto/ipc/ipc.h"
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

/* What the engine's operations noted. */
enum {
	NOTED_ESTABLISHED = 1 << 0,
	NOTED_FALLBACK = 1 << 1,
	NOTED_FAILED = 1 << 2,
	NOTED_RESET = 1 << 3,
	NOTED_CLOSED = 1 << 4,
};
#define NOTED_GONE (NOTED_FALLBACK | NOTED_FAILED | NOTED_CLOSED)

/** The program's TCP_KEEPIDLE and TCP_KEEPINTVL, seconds, where its TCP socket has the longest that
 *  the configuration wants instead; 0: it has the program's. */
struct own_keepalive {
	int idle, interval;
};

/** One connection that a program handed over. */
struct client_conn {
	struct clients *clients;
	uint64_t id;
	struct ucred cred; /* of the session that handed it over */
	uid_t claim_uid;   /* of who claimed the socket or its listener; without BPF cred.uid */
	uint64_t claim_program; /* ipc_program_id(), 0: unknown */
	struct quota *quota;
	enum ipc_handover_kind kind;
	bool require;  /* a fallback is an error */
	bool early;    /* on the list of those whose program may be told before the outcome */
	bool released; /* that has happened: the program holds a pair end that is writable */
	bool was_smcr; /* the rendezvous succeeded */
	bool again;    /* the connection is plain TCP because the rendezvous broke */
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

	struct session *session;  /* blocking connect(): waits for RESULT */
	struct session *watchers; /* wait for INFO */
	struct rdv_connect_wait *wait;
	struct clc_stream *stream;
	struct smcr_conn *engine; /* NULL: none, or it let go */
	struct pair pair;
	struct watch pair_watch, tcp_watch;
	struct pump pump;
	struct relay relay;
	uint64_t relay_deadline_ms; /* the program is gone: without progress until then, reset */

	uint32_t noted; /* NOTED_.. not yet acted upon */
	bool path_dead, tcp_reset;
	bool reset_waits; /* CLOSED with tcp_reset is carried out a turn later */
	int error;        /* positive errno */
	uint32_t reason, peer_reason;

	bool dirty, more;                /* on those lists */
	struct client_conn *prev, *next; /* all of them, newest first */
	struct client_conn *dirty_prev, *dirty_next;
	struct client_conn *more_prev, *more_next;
	struct client_conn *early_prev, *early_next;
	UT_hash_handle hh; /* by id */
};

/** What is left of a connection that failed while its program may still ask why. */
struct failed_conn {
	uint64_t id;
	ino_t program_inode;
	int error;
	uint32_t reason;
	int tcp; /* -1, or the socket of a connect() that failed: may be had back */
	struct quota *quota;
	uint64_t expires_ms;
	UT_hash_handle hh; /* by id, oldest first */
};

/* ---- sessions ---- */

struct session {
	struct clients *clients;
	int socket;
	struct watch watch;
	struct ucred cred;
	struct quota *quota;
	bool greeted;   /* HELLO was exchanged */
	bool hello_due; /* ours goes with the first reply: the request is there already */
	bool no_tool;   /* came by the abstract address, which no permissions guard */
	bool closing;   /* once `out` is empty */
	bool dead;
	struct client_conn *waiting; /* its RESULT goes here */
	struct client_conn *watched; /* its outcome goes here, as INFO */
	uint64_t asked;              /* CONTROL request whose reply comes later; 0: none */
	bool answered;               /* it has come: `answer`, NULL without memory */
	char *answer;
	uint64_t deadline_ms; /* 0: none */

	/* Input: a header, then its payload; nothing is looked at while a reply is due. `ahead` is
	 * what has been received with it. */
	uint8_t ahead[2 * (IPC_HEADER_LEN + IPC_MAX_CLIENT_LEN)];
	size_t ahead_at, ahead_len;
	uint8_t header[IPC_HEADER_LEN];
	size_t header_len;
	struct ipc_header frame;
	uint8_t small[IPC_MAX_CLIENT_LEN];
	uint8_t *payload; /* `small`, or malloc'ed for a large CONTROL */
	size_t payload_len, payload_room;
	int fd; /* descriptor that came with the last frame in `ahead`, or -1 */

	/* Output that the kernel has not taken yet. */
	uint8_t *out;
	size_t out_at, out_len;
	int out_fd; /* goes with its first byte, or -1 */

	bool more; /* on the list of those that have more to read */
	struct session *prev, *next;
	struct session *more_prev, *more_next;
	struct session *watch_prev, *watch_next;
};

/** What one user holds. */
struct quota {
	uid_t uid;
	uint32_t sessions, conns, failed;
	uint32_t closing; /* descriptors whose close() may block: closer.c's */
	bool limited;     /* at one of its limits: nothing is promised to its peers */
	uint64_t limit_logged_ms;
	bool abandoned; /* nobody but closer.c knows it any more */
	UT_hash_handle hh;
};

struct reason_count {
	uint32_t reason;
	uint64_t count;
	UT_hash_handle hh;
};

/* ---- the whole ---- */

struct clients {
	struct clients_config config; /* limits with defaults filled in */
	struct poller *poller;
	struct event *work_event;  /* somebody is dirty, and nobody here is at work */
	struct event *more_timer;  /* zero: go on after others had their turn */
	struct event *sweep_timer; /* deadlines of sessions, relays and failed connections */
	struct event *early_timer; /* the first of `early` */
	int plug_fd;
	unsigned int depth; /* of clients_begin() */
	bool stopped, freeing;

	int listen_fd;
	int abstract_fd; /* the same at ipc_abstract_address(), or -1 */
	struct event *listen_event, *abstract_event;
	struct event *listen_pause; /* out of descriptors: try again later */
	dev_t socket_dev;
	ino_t socket_ino;

	enum smcr_reason limited; /* nothing is promised to anybody's peers, and why */
	bool short_of_fds;
	int spare_fd; /* given up for a session that has to be refused */
	struct event *limit_check;
	uint64_t limit_logged_ms;

	struct session *sessions, *more_sessions, *dead_sessions;
	struct quota *quotas;
	struct client_conn *conns, *dirty, *more, *early, *dead_conns;
	struct client_conn *conns_by_id;
	struct failed_conn *failed;
	uint64_t next_id;
	uint64_t last_request; /* CONTROL requests so far */

	struct client_conn_view *history; /* ring */
	uint32_t history_len, history_at;
	struct reason_count *reasons;
	struct clients_view counts; /* the current numbers are counted here too */
};

/* clients.c */
void clients_begin(struct clients *clients);
void clients_end(struct clients *clients);
/** Have conn_process() called at the end of this batch, or from the event loop. */
void clients_mark(struct client_conn *conn);
/** Have it called after others had their turn. */
void clients_mark_later(struct client_conn *conn);
void clients_mark_session_later(struct session *session);
/** A deadline was set somewhere: see that sweeps run. */
void clients_need_sweep(struct clients *clients);
uint64_t clients_now_ms(void);
void clients_log(const struct clients *clients, int priority, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* closer.c */
/**
 * Close a descriptor that came from a client; -1 is allowed. Such a close() may block: on lingering
 * TCP sockets, on files of network or user-space file systems. `quota` is that of the client.
 */
void close_foreign(int fd, struct quota *quota);
/** How many of the user's are not closed yet. */
uint32_t close_pending(const struct quota *quota);
/** Are they so many that no more are taken? */
bool close_overdue(const struct quota *quota);
/** Free the quota, or leave that to the last of those closes. */
void close_abandon(struct quota *quota);

/* service.c */
int service_open(struct clients *clients, char *ret_text, size_t len);
/** Stop listening and remove the socket file, if it is still ours. */
void service_close(struct clients *clients);
/** The quota of a uid, made if need be; NULL: no memory. */
struct quota *quota_get(struct clients *clients, uid_t uid);
/** Free it if nothing counts on it any more. */
void quota_put(struct clients *clients, struct quota *quota);
void quota_free_all(struct clients *clients);

/* limits.c */
int limits_open(struct clients *clients);
void limits_close(struct clients *clients);
/** What all users hold, or this one, has changed. */
void limits_update(struct clients *clients, struct quota *quota);
/** Something failed that does when there are no descriptors left: see whether it is that. */
void limits_look_at_descriptors(struct clients *clients);
/** accept() has none: take one session all the same, to refuse it. @return 0 or a negative errno */
int limits_accept_anyway(struct clients *clients, int listen_fd);

/* session.c */
/** Takes `fd` over, also on failure. `no_tool`: it may make no CONTROL request. */
void session_new(struct clients *clients, int fd, bool no_tool);
/** Say why there is none, and close. */
void session_refuse(int fd, int error, const char *text);
/** Let go at once; freed later. Tells a waiting connection. */
void session_close(struct session *session);
void session_free(struct session *session);
/** Go on with frames that are there already. */
void session_resume(struct session *session);
/** The one reply to a request. `fd` (or -1) goes along and is taken over. */
void session_reply(struct session *session, enum ipc_type type, const void *payload, size_t len,
		   int fd);
void session_reply_result(struct session *session, enum ipc_outcome outcome, int error,
			  uint32_t reason, int fd);
void session_reply_error(struct session *session, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* request.c */
/** A CONTROL request lies in the session's payload; replies now or later. */
void request_control(struct session *session);
/** Send the answer that came later, if one did. */
void request_answer(struct session *session);
/** The session ends: no later answer is wanted. */
void request_forget(struct session *session);

/* handover.c */
/** A HANDOVER request; takes `fd` over; replies now or later. */
void conn_handover(struct session *session, const struct ipc_handover *msg, int fd);
/** TCP and option are settled: put the engine on it, or end in FAILED. */
void conn_start_rendezvous(struct client_conn *conn);

/* refusal.c */
/**
 * Reply to a HANDOVER whose socket is not taken.
 * @param error  what rdv_verify_socket() gave
 * @return false: nothing speaks against taking it, or plain TCP will do
 */
bool refusal_of_socket(struct session *session, enum ipc_handover_kind kind, int error,
		       const struct rdv_verdict *verdict);
/** The same where its pair cannot be made. The connection ends; nothing was done to the socket. */
void refusal_of_pair(struct client_conn *conn, int error);

/* conn.c */
struct client_conn *conn_new(struct session *session, enum ipc_handover_kind kind, int tcp);
/** Make the pair. @return the program's end or a negative errno */
int conn_open_pair(struct client_conn *conn, bool plugged);
/** Act on what was noted and move bytes. */
void conn_process(struct client_conn *conn);
/** connect() has lasted long enough: tell the program that it is connected, as TCP would. */
void conn_release(struct client_conn *conn);
/** Leave the socket as the program had it, and read no more of it. */
void conn_let_go_of_tcp(struct client_conn *conn);
/** The stream is plain TCP from here on: not negotiated, or declined. */
void conn_fall_back(struct client_conn *conn, uint32_t reason);
/** The TCP connection is gone before SMC-R or TCP has carried a byte. */
void conn_tcp_lost(struct client_conn *conn);
/** Reset TCP; the program gets `error` where it can. */
void conn_fail(struct client_conn *conn, int error, uint32_t reason);
/** Reset whatever there is, tell the engine, keep no record of why. For clients_free(). */
void conn_drop(struct client_conn *conn);
/** Its session has gone before the RESULT. */
void conn_session_gone(struct client_conn *conn);
/** Read TCP as CLC messages while the engine wants them. */
void conn_update_stream(struct client_conn *conn);
/** Nothing of it is left but the memory. */
void conn_end(struct client_conn *conn);
void conn_free(struct client_conn *conn);
/** The daemon stops in good order. */
void conn_stop(struct client_conn *conn);
/** The program may have its TCP socket back, as it was: -EBUSY if bytes have passed; else the
 * socket, and the connection has ended. */
int conn_take_back(struct client_conn *conn);
/**
 * The program wants no connection any more, but its TCP socket. The peer sees a reset, and so does
 * whoever else holds the pair end.
 * @return the socket, which can be connected again, or -ENOTCONN. The connection may have ended.
 */
int conn_disconnect(struct client_conn *conn);
/** Others may learn from how its rendezvous failed. */
void conn_note_failure(const struct client_conn *conn, enum clients_failure how);
/** Options of the TCP socket, or `linger`, have other values. */
void conn_options_changed(struct client_conn *conn);
/** A relay whose program is gone makes no progress. */
void conn_check_deadline(struct client_conn *conn, uint64_t now_ms);

/* early.c */
/** A client's rendezvous begins: its program is told after `connect_wait_ms` at the latest. */
void early_expect(struct client_conn *conn);
/** It need not be told any more. */
void early_forget(struct client_conn *conn);
void early_on_timer(evutil_socket_t fd, short what, void *arg);

/* again.c */
/**
 * The rendezvous broke. A client's connection is made again as plain TCP where that can and may be,
 * which ends in relay, in the program's own TCP socket, or in FAILED; any other one fails.
 * @param error   positive errno
 * @param reason  enum smcr_reason; NONE: the peer's doing, for which it is left alone for a while
 */
void again_or_fail(struct client_conn *conn, int error, uint32_t reason);

/* query.c */
/** What a descriptor shows. Neither connection found: it is over. */
struct shown {
	uint64_t id;
	ino_t inode;
	struct client_conn *conn;
	struct failed_conn *failed;
};
/** @return 0; -EACCES: it is no pair end of ours */
int query_look_up(const struct clients *clients, int proof, struct shown *ret_shown);
void query_status(struct session *session, const struct ipc_status_request *msg, int proof);
void query_sockopt(struct session *session, struct ipc_sockopt *msg, int proof);
/** Remember a connection that failed. Takes `tcp` (or -1) over. */
void failed_add(struct client_conn *conn, int error, uint32_t reason, int tcp);
void failed_expire(struct clients *clients, uint64_t now_ms);

/* info.c */
/** `proof` may be a pair end or a TCP socket. Replies now or when the outcome is there. */
void info_request(struct session *session, const struct ipc_info_request *msg, int proof);
/** The connection may have an outcome: tell those who wait for it. */
void info_settled(struct client_conn *conn);
/** It is over, and in the history: tell the rest. */
void info_ended(struct client_conn *conn);
/** The session ends: it waits no longer. */
void info_forget(struct session *session);

/* sockopt.c */
/**
 * Do what the program asked of the TCP socket behind its pair end, with no more rights than any
 * program has.
 * @param msg     request; value, length and result of the reply are put in
 * @param linger  the program's SO_LINGER, which is not the socket's
 */
void sockopt_apply(int tcp, struct ipc_sockopt *msg, struct linger *linger);
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
int history_new(struct clients *clients);
void history_free(struct clients *clients);
/** The connection has ended, or has become plain TCP out of our sight. */
void history_add(struct client_conn *conn, enum client_mode mode, enum ipc_conn_state state);
/** A live connection as it is now. */
void history_describe(const struct client_conn *conn, struct client_conn_view *ret_view);
/** One that has ended, by its pair. @return false: it is not remembered */
bool history_find_pair(const struct clients *clients, uint64_t id, ino_t inode,
		       struct client_conn_view *ret_view);
/** The last one of a TCP socket that has ended, or is out of our sight. */
bool history_find_tcp(const struct clients *clients, uint64_t cookie,
		      struct client_conn_view *ret_view);
/** Count why a connection does not use SMC-R. */
void history_count_reason(struct clients *clients, uint32_t reason);

#endif

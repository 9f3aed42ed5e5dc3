/* SPDX-License-Identifier: MIT */
/**
 * @file internal.h
 * What the files of daemon/clients share. No file outside daemon/clients includes this header.
 *
 *   clients.c   struct clients: creation, stop, deadlines of sessions
 *   service.c   listening socket
 *   session.c   frames of one client
 *   request.c   CONTROL requests of tools, answered at once or later
 *   pace.c      how much time CONTROL requests may take
 *   handover.c  HANDOVER requests: a TCP socket becomes a connection
 *   refusal.c   sockets that are not taken although their peer was promised SMC-R
 *   query.c     STATUS, SOCKOPT and MEMORY requests
 *   info.c      INFO requests, answered at once or when the outcome is there
 *   trace.c     requests and replies as lines of the log
 *
 * Sessions are freed at the end of the outermost batch only (daemon/conns/batch.h).
 */
#ifndef SMCRD_DAEMON_CLIENTS_INTERNAL_H
#define SMCRD_DAEMON_CLIENTS_INTERNAL_H

#include <event2/event.h>
#include <stddef.h>
#include <sys/socket.h>
#include <utlist.h>

#include "daemon/clients/clients.h"
#include "daemon/conns/conns.h"
#include "daemon/conns/poller.h"
#include "daemon/host/program.h"
#include "daemon/host/trace.h"
#include "daemon/host/unix_socket.h"
#include "daemon/rendezvous/handshake.h"
#include "daemon/rendezvous/option.h"
#include "proto/ipc/ipc.h"
#include "proto/smcr/reason.h"

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* ---- sessions ---- */

struct session {
	struct clients *clients;
	uint64_t number; /* for the trace: sessions are counted from 1 */
	int socket;
	struct watch watch;
	struct ucred cred;
	struct quota *quota;
	bool named; /* `program` was asked for */
	char program[PROGRAM_NAME_LEN];
	bool greeted;   /* HELLO of the client has come */
	bool hello_due; /* HELLO of smcrd is still to be sent, with the first reply */
	bool no_tool;   /* came through the abstract address, which has no file permissions */
	bool reserved;  /* a session beyond the limits, for an administrator's tool */
	bool closing;   /* ends when `out` is empty */
	bool hung_up;   /* the client has closed its end; frames that it sent may still be unread */
	bool dead;
	struct conn_asker asker;     /* for the connection whose RESULT this session waits for */
	struct conn_watcher watcher; /* for the connection whose INFO this session waits for */
	uint64_t asked;              /* CONTROL request whose reply comes later; 0: none */
	bool waits; /* its CONTROL request is made again when something has happened */
	struct session *wait_prev, *wait_next;
	bool paced;    /* in pace.waiting: its CONTROL request waits for its user's turn */
	bool admitted; /* it is the user's turn */
	struct session *pace_prev, *pace_next;
	uint64_t deadline_ms; /* 0: none */
	bool active;          /* it has asked since the last sweep */
	uint64_t idle_since_ms;

	/* Input: a header, then its payload. No frame is read while a reply is due. `ahead` has
	 * bytes that were received beyond what was asked for. */
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
	size_t unsent; /* how many of these bytes are counted in the quota */
	int out_fd;    /* is sent with the first byte, or -1 */
	bool gave_fd;  /* a descriptor was sent that the client has perhaps not read yet */

	struct task later; /* goes on with frames that were received or can be */
	struct task grave;
	struct session *prev, *next;
};

/* ---- the whole ---- */

/* When CONTROL requests are answered: one in a turn of the event loop, and those of users other
 * than root only in a fifth of the time. */
struct pace {
	struct session *waiting;
	struct event *timer;
	bool served;      /* a request was answered in this turn of the loop */
	uint64_t next_us; /* no request of a user other than root before this time */
	uint64_t turn;    /* how many requests were served after a wait */
};

enum abstract_which { ABSTRACT_TOLD, ABSTRACT_KNOWN, NUM_ABSTRACT };

struct abstract_socket {
	int fd; /* -1: does not listen */
	struct event *event;
};

struct clients {
	struct clients_config config; /* limits with defaults filled in */
	struct conns *conns;
	struct batch *batch;       /* owned by `conns` */
	struct poller *poller;     /* owned by `conns` */
	struct event *sweep_timer; /* deadlines of sessions */
	struct program_names names;

	struct unix_socket listen;
	/* listen at ipc_abstract_address(), with a number that programs are told and without */
	struct abstract_socket abstract[NUM_ABSTRACT];
	struct event *listen_event;
	struct event *listen_pause; /* ends a pause of accepting for want of descriptors */

	struct session *sessions;
	struct session *unread; /* have ended, but their clients have still to read descriptors */
	bool freeing;
	uint64_t last_session;   /* sessions so far */
	uint64_t last_request;   /* CONTROL requests so far */
	struct session *waiting; /* sessions whose requests clients_control_wake() makes again */
	struct pace pace;
};

/* clients.c */
/** There is a session: make sure that the sweep timer runs. */
void clients_need_sweep(struct clients *clients);

/* service.c */
int service_open(struct clients *clients, char *ret_text, size_t len);
/** Stop listening and remove the socket file, unless another process has put its own there. */
void service_close(struct clients *clients);

/* session.c */
/** Begin a session on `fd`, which belongs to it or is closed. `no_tool`: CONTROL requests are
 * refused. */
void session_new(struct clients *clients, int fd, bool no_tool);
/** Free sessions that have ended and whose last replies were read. @return there are others */
bool session_free_read(struct clients *clients);
/** Send an ERROR instead of beginning a session, and close `fd`. */
void session_refuse(int fd, int error, const char *text);
/** The descriptor that came with the request which is served now; stays the session's. -1: none */
int session_descriptor(const struct session *session);
/** End the session at once, with all that it waits for. It is freed at the end of the batch. */
void session_close(struct session *session);
/** End the session if it has asked nothing and waited for nothing for idle_timeout_ms. */
void session_check_idle(struct session *session, uint64_t now_ms);
/** Go on with frames that were received already. */
void session_resume(struct session *session);
/** As session_resume(), after other sessions had their turn. */
void session_resume_later(struct session *session);
/** Send the one reply to a request. `fd` (or -1) is sent with it and then closed. */
void session_reply(struct session *session, enum ipc_type type, const void *payload, size_t len,
		   int fd);
void session_reply_result(struct session *session, enum ipc_outcome outcome, int error,
			  uint32_t reason, int fd);
void session_reply_error(struct session *session, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* trace.c */
/* Write the line: somebody wants it. */
void session_tell_request(const struct session *session);
void session_tell_reply(const struct session *session, enum ipc_type type, const void *payload,
			size_t len);

/** Trace the request that has come. */
static inline void session_trace_request(const struct session *session)
{
	if (trace_is_on(IPC_TRACE_IPC))
		session_tell_request(session);
}

/** Trace a reply. */
static inline void session_trace_reply(const struct session *session, enum ipc_type type,
				       const void *payload, size_t len)
{
	if (trace_is_on(IPC_TRACE_IPC))
		session_tell_reply(session, type, payload, len);
}

/* request.c */
/** Answer the CONTROL request in the session's payload, now or later. */
void request_control(struct session *session);
/**
 * The supplementary groups that the process had when it connected.
 * @param ret_groups  malloc'ed, or NULL
 * @return how many, or a negative errno
 */
ssize_t request_groups(int socket, gid_t **ret_groups);
/** The session ends: it waits for no reply any more. */
void request_forget(struct session *session);

/* pace.c */
int pace_init(struct clients *clients);
void pace_free(struct clients *clients);
/** May the session's CONTROL request be answered now? @return false: later; session_resume() is
 * called then, and nothing is read from the session until then */
bool pace_admits(struct session *session);
/** The session ends. */
void pace_forget(struct session *session);
/** The session's CONTROL request was answered, from `begun` (conns_now_us()) until now. */
void pace_end(struct session *session, uint64_t begun);

/* handover.c */
/** Carry out a HANDOVER request; `fd` belongs to the callee. Replies now or later. */
void handover_request(struct session *session, const struct ipc_handover *msg, int fd);
/** Prepare a new session for waiting for a RESULT. */
void handover_init(struct session *session);

/* refusal.c */
/**
 * Reply to a HANDOVER whose socket is not taken.
 * @param error  what rdv_verify_socket() gave
 * @return false: no reply was sent; the socket can be taken over, or can be plain TCP
 */
bool refusal_of_socket(struct session *session, enum ipc_handover_kind kind, int fd, int error,
		       const struct rdv_verdict *verdict);
/** Reply to a HANDOVER for which no pair can be made. Nothing was done to the socket. */
void refusal_of_pair(struct session *session, int error);

/* query.c */
void query_status(struct session *session, const struct ipc_status_request *msg, int proof);
void query_sockopt(struct session *session, struct ipc_sockopt *msg, int proof);
void query_memory(struct session *session, const struct ipc_memory_request *msg, int proof);
/** Reply that the shown descriptor belongs to no connection. */
void query_no_proof(struct session *session);

/* info.c */
/** Answer an INFO request. `proof` is a pair end or a TCP socket. Replies now or when the outcome
 * is known. */
void info_request(struct session *session, const struct ipc_info_request *msg, int proof);
/** Prepare a new session for waiting for an outcome. */
void info_init(struct session *session);

#endif

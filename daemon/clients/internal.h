/* SPDX-License-Identifier: MIT */
/**
 * @file internal.h
 * What the files of this room share. Nothing outside daemon/clients includes it.
 *
 *   clients.c   life of the whole, deadlines of sessions
 *   service.c   listening socket
 *   session.c   frames of one client
 *   request.c   CONTROL requests of tools, answered at once or later
 *   pace.c      how much time these may take
 *   handover.c  HANDOVER requests: a TCP socket becomes a connection
 *   refusal.c   sockets that are not taken although their peer was promised SMC-R
 *   query.c     STATUS, SOCKOPT and MEMORY requests
 *   info.c      INFO requests, answered at once or when the outcome is there
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
#include "daemon/host/unix_socket.h"
#include "daemon/rendezvous/handshake.h"
#include "daemon/rendezvous/option.h"
#include "proto/ipc/ipc.h"
#include "proto/smcr/reason.h"

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* ---- sessions ---- */

struct session {
	struct clients *clients;
	int socket;
	struct watch watch;
	struct ucred cred;
	struct quota *quota;
	bool named; /* `program` was asked for */
	char program[PROGRAM_NAME_LEN];
	bool greeted;   /* HELLO was exchanged */
	bool hello_due; /* ours goes with the first reply: the request is there already */
	bool no_tool;   /* came by the abstract address, which no permissions guard */
	bool reserved;  /* there was room for an administrator's tool only */
	bool closing;   /* once `out` is empty */
	bool hung_up;   /* the client has closed its end; what it has sent may still be there */
	bool dead;
	struct conn_asker asker;     /* of the connection whose RESULT goes here */
	struct conn_watcher watcher; /* of the one whose outcome goes here, as INFO */
	uint64_t asked;              /* CONTROL request whose reply comes later; 0: none */
	bool waits; /* its CONTROL request is made again when something has happened */
	struct session *wait_prev, *wait_next;
	bool paced;    /* a CONTROL request waits until it is this user's turn */
	bool admitted; /* and that has come */
	struct session *pace_prev, *pace_next;
	uint64_t deadline_ms; /* 0: none */
	bool active;          /* it has asked, or waited, since the last sweep */
	uint64_t idle_since_ms;

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
	size_t unsent; /* so many bytes of it are counted in the quota */
	int out_fd;    /* goes with its first byte, or -1 */

	struct task later; /* it has more to read */
	struct task grave;
	struct session *prev, *next;
};

/* ---- the whole ---- */

/* CONTROL requests: one a turn of the loop; those of other users than root at times only. */
struct pace {
	struct session *waiting;
	struct event *timer;
	bool served;      /* one, since the loop had its last turn */
	uint64_t next_us; /* none of other users before */
	uint64_t turn;    /* how many were served after they had waited */
};

struct clients {
	struct clients_config config; /* limits with defaults filled in */
	struct conns *conns;
	struct batch *batch;       /* the connections' */
	struct poller *poller;     /* likewise */
	struct event *sweep_timer; /* deadlines of sessions */
	struct program_names names;

	struct unix_socket listen;
	int abstract_fd; /* the same at ipc_abstract_address(), or -1 */
	struct event *listen_event, *abstract_event;
	struct event *listen_pause; /* out of descriptors: try again later */

	struct session *sessions;
	uint64_t last_request;   /* CONTROL requests so far */
	struct session *waiting; /* whose requests are made again */
	struct pace pace;
};

/* clients.c */
/** There is a session: see that sweeps run. */
void clients_need_sweep(struct clients *clients);

/* service.c */
int service_open(struct clients *clients, char *ret_text, size_t len);
/** Stop listening and remove the socket file, if it is still ours. */
void service_close(struct clients *clients);

/* session.c */
/** Takes `fd` over, also on failure. `no_tool`: it may make no CONTROL request. */
void session_new(struct clients *clients, int fd, bool no_tool);
/** Say why there is none, and close. */
void session_refuse(int fd, int error, const char *text);
/** What came with the request that is served now; stays the session's. -1: none */
int session_descriptor(const struct session *session);
/** Let go at once; freed later. Tells a waiting connection. */
void session_close(struct session *session);
/** End it if it has asked nothing and waited for nothing for long. */
void session_check_idle(struct session *session, uint64_t now_ms);
/** Go on with frames that are there already. */
void session_resume(struct session *session);
/** The same, after others had their turn. */
void session_resume_later(struct session *session);
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
/**
 * Supplementary groups of who connected, as they were then.
 * @param ret_groups  malloc'ed, or NULL
 * @return how many, or a negative errno
 */
ssize_t request_groups(int socket, gid_t **ret_groups);
/** The session ends: no later answer is wanted. */
void request_forget(struct session *session);

/* pace.c */
int pace_init(struct clients *clients);
void pace_free(struct clients *clients);
/** May the session's CONTROL request be answered now? @return false: session_resume() is called
 *  when it may; nothing else is read from the session until then */
bool pace_admits(struct session *session);
/** The session ends. */
void pace_forget(struct session *session);
/** The session's CONTROL request was answered, from `begun` (conns_now_us()) until now. */
void pace_end(struct session *session, uint64_t begun);

/* handover.c */
/** A HANDOVER request; takes `fd` over; replies now or later. */
void handover_request(struct session *session, const struct ipc_handover *msg, int fd);
/** The session starts: it can wait for a RESULT. */
void handover_init(struct session *session);

/* refusal.c */
/**
 * Reply to a HANDOVER whose socket is not taken.
 * @param error  what rdv_verify_socket() gave
 * @return false: nothing speaks against taking it, or plain TCP will do
 */
bool refusal_of_socket(struct session *session, enum ipc_handover_kind kind, int fd, int error,
		       const struct rdv_verdict *verdict);
/** The same where its pair cannot be made; nothing was done to the socket. */
void refusal_of_pair(struct session *session, int error);

/* query.c */
void query_status(struct session *session, const struct ipc_status_request *msg, int proof);
void query_sockopt(struct session *session, struct ipc_sockopt *msg, int proof);
void query_memory(struct session *session, const struct ipc_memory_request *msg, int proof);
/** The reply to who shows a descriptor that is none of ours. */
void query_no_proof(struct session *session);

/* info.c */
/** `proof` may be a pair end or a TCP socket. Replies now or when the outcome is there. */
void info_request(struct session *session, const struct ipc_info_request *msg, int proof);
/** The session starts: it can wait for an outcome. */
void info_init(struct session *session);

#endif

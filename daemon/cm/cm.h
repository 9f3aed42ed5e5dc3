/* SPDX-License-Identifier: MIT */
/**
 * @file cm.h
 * The connection manager: queue pairs with peers that are found by IP address and port, as the
 * Linux kernel's rdma_cm makes them (InfiniBand Architecture Specification Volume 1, chapter 12 and
 * Annex A11). One interface for both kinds of RNICs. Of verbs devices the kernel's rdma_cm does the
 * work (verbs.c, librdmacm). For software RNICs the messages are exchanged here, as SENDs to queue
 * pair 1 (machine.c, soft.c).
 *
 * A user makes its queue pair itself, with receive buffers posted, and the connection manager
 * connects and starts the queue pair. The order of calls and events:
 *
 *   active side: cm_resolve(), rnic_qp_create(), cm_connect() -> CM_CONNECTED, or CM_ENDED
 *   passive side: cm_listen() -> CM_REQUEST with a connection; rnic_qp_create(), cm_accept() ->
 *     CM_CONNECTED, or CM_ENDED; or cm_reject()
 *   either side then: cm_disconnect(), or the peer's -> CM_ENDED; cm_conn_free()
 *
 * The passive side may get data before CM_CONNECTED comes: the peer sends when the queue pair is
 * there, and its last message may be lost. The user then calls cm_conn_heard().
 *
 * Threads: all functions are called from the event loop's thread. Events come from the event loop,
 * never inside a call. Functions return 0 or a negative errno; `ret_error` gets a sentence for the
 * operator.
 */
#ifndef SMCRD_CM_CM_H
#define SMCRD_CM_CM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/rnic/rnic.h"

struct event_base;
struct cm;
struct cm_listener;
struct cm_conn;

/** Bytes of private data that a user may send: with a request, an acceptance, a refusal. */
#define CM_REQUEST_PRIVATE_MAX 56
#define CM_ACCEPT_PRIVATE_MAX  196
#define CM_REJECT_PRIVATE_MAX  148
#define CM_PRIVATE_MAX         224
#define CM_ERROR_LEN           256

/** An IP address and a port of the port space of TCP. Network byte order in `addr` only. */
struct cm_addr {
	uint8_t family;   /* AF_INET or AF_INET6 */
	uint8_t addr[16]; /* the first 4 of IPv4 */
	uint16_t port;
};

/** What one side offers to the other. */
struct cm_offer {
	uint8_t reads_answered; /* RDMA READs of the peer that are answered at a time */
	uint8_t reads_asked;    /* own RDMA READs that may be under way */
	uint8_t rnr_retry;      /* 0..7: for SENDs of the side that gets this offer */
	const void *private_data;
	size_t private_len;
};

enum cm_event_type {
	CM_REQUEST,   /* of a listener: a peer wants a connection */
	CM_CONNECTED, /* both sides may send */
	CM_ENDED,     /* the last event: refused, failed, or disconnected */
};

/** Why a connection has ended. */
enum cm_end {
	CM_END_NONE,
	CM_END_DISCONNECTED,      /* by this side */
	CM_END_PEER_DISCONNECTED, /* by the peer */
	CM_END_NO_LISTENER,       /* nobody listens on the peer's port (REJ 8) */
	CM_END_REFUSED,           /* by the peer's program (REJ 28), with private data */
	CM_END_PEER_REFUSED,      /* by the peer's connection manager; `reject_reason` */
	CM_END_REJECTED,          /* by this side's user */
	CM_END_TIMEOUT,           /* the peer did not answer */
	CM_END_LOCAL,             /* the RNIC went, or the queue pair failed */
};

struct cm_event {
	enum cm_event_type type;
	/** What the peer offers; with CM_REQUEST and CM_CONNECTED. Already reduced to what both
	 * sides can do. */
	uint8_t reads_answered, reads_asked;
	const uint8_t
		*private_data;  /* with whatever the peer has sent; valid during the callback */
	size_t private_len;     /* whole fields: short data are followed by zeros */
	enum cm_end end;        /* with CM_ENDED */
	uint16_t reject_reason; /* as on the wire (enum ibcm_reject_reason); 0: none */
	const char *text;       /* with CM_ENDED: a sentence for operators */
};

/** Called for each event of a connection. With CM_REQUEST `ctx` is the listener's; cm_accept()
 * gives the connection a context of its own. May call every function here. */
typedef void cm_event_fn(void *ctx, struct cm_conn *conn, const struct cm_event *event);

/** Limits, so that one peer cannot use up what others need. 0: the default in brackets. Connections
 * that peers ask for and those that this side asks for are counted apart. */
struct cm_limits {
	unsigned int conns;             /* connections that are being made or are there (4096) */
	unsigned int conns_per_peer;    /* of these, with one peer's address (1024) */
	unsigned int requests_per_peer; /* requests that no user has answered yet (64) */
};

/** What operators may want to see of a connection or a request. */
struct cm_told {
	enum cm_told_what {
		CM_TOLD_CONNECTED,
		CM_TOLD_ENDED,   /* also one that has never been there, but for requests refused */
		CM_TOLD_REFUSED, /* a request of a peer, by this host: by a user or without */
	} what;
	const char *rnic;
	bool active;
	struct cm_addr local, peer; /* port 0: not known */
	enum cm_end end;            /* with CM_TOLD_ENDED */
	const char *text;           /* why, for the end of a sentence; "" with CM_TOLD_CONNECTED */
};

struct cm_params {
	struct event_base *base;
	struct cm_limits limits;
	/** Is the peer's address, which a request or a route named, one that this RNIC may talk
	 * to? The same check that links of SMC-R have. If this side asks, the port of `local` is 0.
	 * NULL: any. */
	bool (*may_use)(void *ctx, struct rnic *rnic, const struct cm_addr *local,
			const struct cm_addr *peer);
	/** Something happened that operators may want to see. May not call any function here. May
	 * be NULL. */
	void (*told)(void *ctx, const struct cm_told *told);
	/** Work begins that keeps the event loop. @param now  as of alarm_now(). May be NULL. */
	void (*at_work)(void *ctx, uint64_t now);
	void *ctx;
};

int cm_new(const struct cm_params *params, struct cm **ret_cm);
/** Free it. All connections and listeners must have been freed before. NULL is allowed. */
void cm_free(struct cm *cm);

/** An RNIC is in use from now on: requests that come to it are answered.
 * @return 0, or a negative errno with a sentence: requests are not answered there */
int cm_add_rnic(struct cm *cm, struct rnic *rnic, char ret_error[CM_ERROR_LEN]);
/** Is the RNIC in use? */
bool cm_has_rnic(const struct cm *cm, const struct rnic *rnic);
/** The RNIC is about to be closed: its connections end. Here alone events come inside a call: users
 * get CM_ENDED (CM_END_LOCAL), and must destroy what they have at the RNIC before this returns. */
void cm_remove_rnic(struct cm *cm, struct rnic *rnic);
/** The RNIC has told that it has changed (RNIC_EVENT_*). */
void cm_rnic_changed(struct cm *cm, struct rnic *rnic);

/**
 * Listen on a port, on all RNICs that there are or will be.
 * @param local  port, and an address to listen on; an address of zeros: on all
 * @return 0; -EADDRINUSE: somebody listens there already, also another program (verbs); -ENOMEM
 */
int cm_listen(struct cm *cm, const struct cm_addr *local, cm_event_fn *fn, void *ctx,
	      struct cm_listener **ret_listener, char ret_error[CM_ERROR_LEN]);
/** Listen no more. Requests that no user has answered are refused and freed, as by cm_reject();
 * connections stay. */
void cm_listener_free(struct cm_listener *listener);

/**
 * Find the RNIC and the own address by which a peer is reached: one whose interface the host's
 * route to the peer leads through.
 * @return 0; -ENETUNREACH: no route, or none through an RNIC
 */
int cm_resolve(struct cm *cm, const struct cm_addr *peer, struct rnic **ret_rnic,
	       struct cm_addr *ret_local, char ret_error[CM_ERROR_LEN]);

struct cm_connect_params {
	struct rnic *rnic;    /* of cm_resolve() */
	struct cm_addr local; /* likewise; port 0: any */
	struct cm_addr peer;
	struct rnic_qp *qp; /* in INIT, with receive buffers posted */
	struct cm_offer offer;
	unsigned int timeout_ms; /* give up if there is no answer; 0: 20 s */
	unsigned int retry_ms;   /* as in rnic_qp_send_params, once connected */
	cm_event_fn *fn;
	void *ctx;
};

/** Ask a peer for a connection. @return 0: one CM_CONNECTED or CM_ENDED follows */
int cm_connect(struct cm *cm, const struct cm_connect_params *params, struct cm_conn **ret_conn,
	       char ret_error[CM_ERROR_LEN]);
/** Accept a request. The QP is in INIT, with receive buffers posted: data may come at once.
 * @return 0: one CM_CONNECTED or CM_ENDED follows, with `fn` and `ctx` */
int cm_accept(struct cm_conn *conn, struct rnic_qp *qp, const struct cm_offer *offer,
	      unsigned int retry_ms, cm_event_fn *fn, void *ctx, char ret_error[CM_ERROR_LEN]);
/** Refuse a request (REJ 28), and free the connection. */
void cm_reject(struct cm_conn *conn, const void *private_data, size_t private_len);
/** A message of the peer came by the queue pair of a connection that is not CM_CONNECTED yet: the
 * RTU may be lost. CM_CONNECTED follows from the event loop. */
void cm_conn_heard(struct cm_conn *conn);
/** End a connection: the queue pair goes to ERR, and the peer is told. CM_ENDED follows, and
 * nothing else, when the peer has answered or does not answer in time. */
void cm_disconnect(struct cm_conn *conn);
/** Forget a connection; no event follows. If it has not ended, the peer is told. The QP is the
 * caller's, and may be destroyed before, in the same turn of the event loop, or after. */
void cm_conn_free(struct cm_conn *conn);

struct rnic *cm_conn_rnic(const struct cm_conn *conn);
void cm_conn_addrs(const struct cm_conn *conn, struct cm_addr *ret_local, struct cm_addr *ret_peer);

/* ---- for operators (view.c) */

enum cm_state {
	CM_STATE_ASKING,    /* REQ is sent */
	CM_STATE_ASKED,     /* REQ has come, the user has not answered */
	CM_STATE_ACCEPTING, /* REP is sent, RTU is due */
	CM_STATE_CONNECTED,
	CM_STATE_ENDING, /* DREQ is sent */
	CM_STATE_ENDED,
};

/** A connection as operators see it. Those that have ended are kept for a while, the last
 * CM_HISTORY of them; if there are more, the oldest one of the peer that has most goes. */
struct cm_conn_view {
	uint64_t number; /* never used twice */
	enum cm_state state;
	bool active; /* this side has asked */
	char rnic[RNIC_NAME_LEN];
	struct cm_addr local, peer;
	uint32_t local_qpn, peer_qpn; /* 0: not known */
	uint32_t local_id, peer_id;   /* communication ids; 0 on verbs, where the kernel has them */
	uint8_t path_mtu;             /* code 1..5; 0: not known */
	uint8_t reads_answered, reads_asked;
	uint8_t private_data[CM_PRIVATE_MAX]; /* what the peer has sent last */
	size_t private_len;
	uint64_t age_us, idle_us; /* since it began; since its state has changed */
	uint64_t resends;         /* messages of ours that were sent again */
	enum cm_end end;
	uint16_t reject_reason;
	char text[CM_ERROR_LEN]; /* why it has ended */
};

struct cm_listener_view {
	struct cm_addr local;
	uint64_t requests, accepted, refused;
	unsigned int waiting; /* requests that the user has not answered */
};

struct cm_stats {
	uint64_t sent[9], received[9]; /* messages by attribute id - 0x10: REQ .. SIDR_REP */
	uint64_t resent;
	uint64_t dropped; /* malformed, wrong Q_Key, or about no connection */
	uint64_t refused; /* REQs that were answered with REJ */
	uint64_t limited; /* REQs that were not taken because of a limit */
	uint64_t connected, disconnected, failed;
};

#define CM_HISTORY 64

void cm_each_listener(struct cm *cm, void (*fn)(void *arg, const struct cm_listener_view *view),
		      void *arg);
/** Newest first, those that have ended behind the others. @param fn  false: no more */
void cm_each_conn(struct cm *cm, bool (*fn)(void *arg, const struct cm_conn_view *view), void *arg);
void cm_get_stats(const struct cm *cm, struct cm_stats *ret_stats);
const char *cm_state_name(enum cm_state state);
const char *cm_end_name(enum cm_end end);

/** A message of the CM, for traces and captures; of software RNICs only. */
struct cm_message {
	struct rnic *rnic;
	bool sent;
	uint8_t local_gid[16], peer_gid[16];
	uint16_t peer_port; /* UDP */
	const uint8_t *mad; /* IBCM_MAD_LEN bytes */
};

/** From now on `fn` gets every message; NULL: nobody. */
void cm_set_tap(struct cm *cm, void (*fn)(void *ctx, const struct cm_message *message), void *ctx);

#endif

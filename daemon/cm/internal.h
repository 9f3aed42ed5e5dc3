/* SPDX-License-Identifier: MIT */
/**
 * @file internal.h
 * What the files of this directory share.
 *
 *   cm.c        RNICs in use, listeners; dispatch to the kind of an RNIC
 *   conn.c      connections: their events, limits and end
 *   resolve.c   by which RNIC a peer is reached
 *   view.c      connections, listeners and counters for operators; names; addresses as text
 *   soft.c      software RNICs: packets of queue pair 1, time, queue pairs, for
 *   machine.c   the messages of the connection manager, without input and output; with
 *               machine_active.c, machine_conn.c, machine_end.c, machine_passive.c,
 *               machine_receive.c, machine_send.c, machine_tables.c, machine_time_wait.c, timers.c
 *               and siphash.c (machine_internal.h)
 *   verbs.c     verbs devices, by the kernel's rdma_cm
 *   kernel.c    its event channel and ids
 *   trace.c     messages as lines of the log
 *
 * An RNIC in use is a `struct cm_port`. What differs between kinds of RNICs is behind `struct
 * cm_kind`. A kind tells of a connection by cm_conn_ask(), cm_conn_up() and cm_conn_end(), which
 * may be called from anywhere: users get their events from the event loop later.
 */
#ifndef SMCRD_CM_INTERNAL_H
#define SMCRD_CM_INTERNAL_H

#include "daemon/cm/cm.h"

struct event;
struct cm_port;

/* Of an address and a port as text: brackets, colon, port and NUL. */
#define CM_ADDR_LEN 64

/** A kind of RNICs. Functions return 0 or a negative errno, with a sentence in `ret_error`. */
struct cm_kind {
	/** Begin to answer peers at port->rnic; port->own is this kind's. */
	int (*open)(struct cm_port *port, char ret_error[CM_ERROR_LEN]);
	/** The RNIC is about to be closed: tell the peers of its connections. NULL: `drop` does. */
	void (*leave)(struct cm_port *port);
	/** All its connections were let go. */
	void (*close)(struct cm_port *port);
	/** Addresses or MTU of the RNIC may be others now. */
	void (*changed)(struct cm_port *port);
	/** Listen at this RNIC. @return -EADDRINUSE: another program does */
	int (*listen)(struct cm_port *port, struct cm_listener *listener,
		      char ret_error[CM_ERROR_LEN]);
	void (*unlisten)(struct cm_port *port, struct cm_listener *listener);
	/** Begin; conn->own is this kind's. On failure the connection is freed by the caller. */
	int (*connect)(struct cm_conn *conn, const struct cm_connect_params *params,
		       char ret_error[CM_ERROR_LEN]);
	/** Accept a request with conn->qp. A failure leaves it unanswered. */
	int (*accept)(struct cm_conn *conn, const struct cm_offer *offer,
		      char ret_error[CM_ERROR_LEN]);
	/** Refuse a request: REJ 28. The kind lets the connection go, as with `drop`. */
	void (*reject)(struct cm_conn *conn, const void *private_data, size_t private_len);
	void (*heard)(struct cm_conn *conn);
	/** Tell the peer of the end. The queue pair is in ERR already. */
	void (*disconnect)(struct cm_conn *conn);
	/** Let the connection go: no function of conn.c is called for it any more. If it has not
	 * ended, the peer is told. Its queue pair may be gone. conn->own is NULL afterwards. */
	void (*drop)(struct cm_conn *conn);
	/** Bring up to date what only this kind knows of conn->view. */
	void (*refresh)(struct cm_conn *conn);
	/** Add its counters of messages, `dropped`, `refused` and `limited`; NULL: it has none. */
	void (*add_stats)(const struct cm_port *port, struct cm_stats *stats);
};

extern const struct cm_kind cm_soft_kind, cm_verbs_kind;

/** An RNIC in use. */
struct cm_port {
	struct cm *cm;
	struct rnic *rnic;
	const struct cm_kind *kind;
	void *own;
	struct cm_port *prev, *next;
};

struct cm_listener {
	struct cm *cm;
	struct cm_addr local; /* an address of zeros: all */
	cm_event_fn *fn;
	void *ctx;
	uint64_t requests, accepted, refused;
	unsigned int waiting;
	struct cm_listener *prev, *next;
};

/** An event that the user has not got yet. */
struct cm_note {
	enum cm_event_type type;
	uint8_t reads_answered, reads_asked;
	uint8_t private_data[CM_PRIVATE_MAX];
	size_t private_len;
};

#define CM_MAX_NOTES 3 /* each type once */

struct cm_conn {
	struct cm *cm;
	struct cm_port *port; /* NULL: its RNIC is gone, and the connection has ended */
	void *own;            /* of the kind of RNIC; NULL: it has let go of the connection */
	struct cm_listener *listener; /* of a request that its user has not answered */
	bool waiting;                 /* counted in listener->waiting */
	cm_event_fn *fn;              /* NULL: the listener's */
	void *ctx;
	struct rnic_qp *qp; /* the user's; NULL: none yet, or the connection has ended */
	unsigned int retry_ms;
	/** What operators see, the state among it; but `age_us` and `idle_us` are moments. Some of
	 * it is brought up to date only by cm_view_refresh(). */
	struct cm_conn_view view;
	struct cm_note notes[CM_MAX_NOTES];
	unsigned int num_notes;
	bool due; /* on the list `due` of the connection manager */
	struct cm_conn *prev, *next;
	struct cm_conn *due_prev, *due_next;
};

struct cm {
	struct cm_params params;
	struct cm_port *ports;
	struct cm_listener *listeners;
	struct cm_conn *conns; /* newest first */
	unsigned int num_conns;
	struct cm_conn *due;   /* connections with notes */
	struct event *deliver; /* tells users their notes */
	uint64_t next_number;
	struct cm_stats stats; /* without those of ports that are open (add_stats) */
	struct cm_conn_view history[CM_HISTORY]; /* that were freed; oldest first */
	unsigned int num_history;
	void (*tap)(void *ctx, const struct cm_message *message);
	void *tap_ctx;
	struct cm_kernel *kernel; /* verbs.c: the kernel's rdma_cm; NULL: not opened */
};

/* ---- cm.c */

/** The listener for an own address and port, or NULL. One of this address goes before one of all
 * addresses. */
struct cm_listener *cm_listener_find(struct cm *cm, const struct cm_addr *local);
/** May this RNIC talk to the peer? */
bool cm_may_use(const struct cm_port *port, const struct cm_addr *local,
		const struct cm_addr *peer);
/** Work for the connection manager begins. @return the present time, as of alarm_now() */
uint64_t cm_at_work(const struct cm *cm);
/** The index in rnic_info.gids of an address, or -1. */
int cm_gid_index(const struct rnic_info *info, const struct cm_addr *addr);
bool cm_addr_is_any(const struct cm_addr *addr);
/** Are the addresses the same? Ports do not count. */
bool cm_addr_equal(const struct cm_addr *a, const struct cm_addr *b);
/** Between addresses and GIDs; the port of an address is not touched. */
void cm_addr_from_gid(const uint8_t gid[16], struct cm_addr *ret_addr);
void cm_addr_to_gid(const struct cm_addr *addr, uint8_t ret_gid[16]);

/* ---- conn.c */

/** Is there room for one more connection with this peer? @param request  the peer asks for it */
bool cm_conn_has_room(const struct cm *cm, const struct cm_addr *peer, bool request);
/** A connection in state ASKING (`active`) or ASKED. @return NULL: no memory */
struct cm_conn *cm_conn_new(struct cm_port *port, const struct cm_addr *local,
			    const struct cm_addr *peer, bool active);
/** Free a connection that no user and no kind of RNIC knows. */
void cm_conn_undo(struct cm_conn *conn);
/** A peer wants the connection: the listener's user is asked. */
void cm_conn_ask(struct cm_conn *conn, struct cm_listener *listener, const struct cm_note *note);
/** Both sides may send. */
void cm_conn_up(struct cm_conn *conn, const struct cm_note *note);
/**
 * The connection has ended. A connection that no user has heard of is freed. The kind lets go of it
 * before it returns to the event loop, by `drop` or by itself.
 * @param note  private data of the peer; NULL: none
 */
void cm_conn_end(struct cm_conn *conn, enum cm_end end, uint16_t reject_reason,
		 const struct cm_note *note, const char *text);
/** Operators hear that a request was refused of which there is no connection. */
void cm_tell_refused(struct cm_port *port, const struct cm_addr *local, const struct cm_addr *peer,
		     const char *text);
void cm_conn_set_state(struct cm_conn *conn, enum cm_state state);
/** End and let go of all connections of an RNIC, and tell their users now. */
void cm_conns_of_port_end(struct cm_port *port);
/** Refuse and free requests that the listener's user has not answered. */
void cm_conns_of_listener_refuse(struct cm_listener *listener);
/** Tell users what has happened; from the event loop. */
void cm_conns_deliver(struct cm *cm);

/* ---- view.c */

/** Bring conn->view up to date, but for the two times. */
void cm_view_refresh(struct cm_conn *conn);
/** Keep what is to be seen of a connection that is about to be freed. */
void cm_view_keep(struct cm_conn *conn);
/** "10.0.0.1:5445", "[fe80::1]:5445". @return ret_text */
const char *cm_addr_text(const struct cm_addr *addr, char ret_text[CM_ADDR_LEN]);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file machine.h
 * The connection manager of one software RNIC, without sockets, clock or event loop: messages, the
 * user's calls and the time go in, and everything else goes out by `struct cm_machine_ops`.
 * docs/cm-machine.md has the states, timers and limits.
 *
 * Time: microseconds of any clock that does not go back. cm_machine_receive() and cm_machine_run()
 * tell it; before other calls cm_machine_set_time() does. Work that waits is done by
 * cm_machine_run(), which is due at cm_machine_deadline(). Any call may bring the deadline nearer.
 *
 * Calls: the operations are called inside calls to the machine, and must not call it back. `event`
 * alone is called only by cm_machine_run(), and may call everything here but cm_machine_run(),
 * cm_machine_receive() and cm_machine_free().
 *
 * Threads: one thread at a time uses a machine. Functions return 0 or a negative errno.
 */
#ifndef SMCRD_CM_MACHINE_H
#define SMCRD_CM_MACHINE_H

#include "daemon/cm/cm.h"
#include "proto/ibcm/ibcm.h"

struct cm_machine;
/** A connection, or an attempt of one. The user's from cm_machine_connect() or CM_REQUEST until
 * cm_machine_reject() or cm_machine_conn_free(). */
struct cm_machine_conn;

/** How a queue pair has to be connected (rnic_qp_peer) and started (rnic_qp_send_params). */
struct cm_machine_qp {
	uint8_t local_gid[16], peer_gid[16];
	uint32_t peer_qpn;
	uint32_t rq_psn, sq_psn; /* the first PSN that comes, and the first that goes */
	uint8_t path_mtu;        /* code 1..5 */
	uint8_t reads_answered, reads_asked;
	uint8_t rnr_retry;
	unsigned int retry_ms; /* as the user has told */
};

struct cm_machine_ops {
	/** Send a message to queue pair 1 of a peer, whole, or lose it. */
	void (*send)(void *ctx, const uint8_t local_gid[16], const uint8_t peer_gid[16],
		     const uint8_t mad[IBCM_MAD_LEN]);
	/** Random bytes that nobody can predict. */
	void (*random)(void *ctx, void *buf, size_t len);
	/** May this RNIC talk to the peer? (cm_params.may_use) */
	bool (*may_use)(void *ctx, const struct cm_addr *local, const struct cm_addr *peer);
	/** Who listens on an address and port. @return the context for CM_REQUEST; NULL: nobody */
	void *(*find_listener)(void *ctx, const struct cm_addr *local);
	/** Bring a queue pair from INIT to RTR: it takes and answers requests.
	 * @return 0 or a negative errno: the connection is not made */
	int (*qp_connect)(void *ctx, void *qp, const struct cm_machine_qp *how);
	/** Bring it to RTS. Comes after qp_connect, with the same values; on the passive side only
	 * when the peer is known to be ready. @return 0 or a negative errno: the connection ends */
	int (*qp_start)(void *ctx, void *qp, const struct cm_machine_qp *how);
	/** Bring it to ERR. Not called once the connection was freed, or has ended. */
	void (*qp_error)(void *ctx, void *qp);
	/**
	 * An event of a connection, as cm.h tells. The last one is CM_ENDED. Private data are those
	 * of the peer's REQ (CM_REQUEST), REP (CM_CONNECTED of the active side) and REJ (CM_ENDED).
	 * @param conn_ctx  of cm_machine_connect(), cm_machine_accept() or
	 *                  cm_machine_conn_set_ctx(); before that, of a request, the listener's
	 */
	void (*event)(void *ctx, struct cm_machine_conn *conn, void *conn_ctx,
		      const struct cm_event *event);
	/** A request was refused without asking any user. For operators; may be NULL. `local` and
	 * `peer` have ports as far as the request tells them. */
	void (*refused)(void *ctx, const struct cm_addr *local, const struct cm_addr *peer,
			uint16_t reason, const char *text);
};

struct cm_machine_params {
	const struct cm_machine_ops *ops;
	void *ctx;
	struct cm_limits limits; /* of this machine; 0: the default of cm.h */
	uint64_t now;
};

/** @return 0, -ENOMEM */
int cm_machine_new(const struct cm_machine_params *params, struct cm_machine **ret_machine);
/** Free it, and connections that are left: nothing is sent, and no operation is called. */
void cm_machine_free(struct cm_machine *machine);

/** What the RNIC is now: addresses (GIDs of RoCE version 2), MAC, path MTU, RDMA READs. A machine
 * has none at first, and takes no request. Connections that are there stay. */
void cm_machine_set_rnic(struct cm_machine *machine, const struct rnic_info *info);
/** The RNIC is about to go: all connections end (CM_END_LOCAL, by cm_machine_run()), and peers are
 * told once. From now on nothing is sent, and cm_machine_connect() fails with -ENODEV. */
void cm_machine_close(struct cm_machine *machine);

void cm_machine_set_time(struct cm_machine *machine, uint64_t now);
/** When cm_machine_run() has something to do. A time that has passed: at once. UINT64_MAX: never.
 */
uint64_t cm_machine_deadline(const struct cm_machine *machine);
/** Repeat what is due, give up what was repeated enough, and deliver events. If much is due, a part
 * of it is done, and the deadline is a time that has passed. */
void cm_machine_run(struct cm_machine *machine, uint64_t now);
/** A message has come to queue pair 1, with the right Q_Key and P_Key. Its bytes may be any. */
void cm_machine_receive(struct cm_machine *machine, const uint8_t local_gid[16],
			const uint8_t peer_gid[16], const uint8_t *mad, size_t len, uint64_t now);

/** A queue pair in INIT. The machine hands `qp` to the operations. */
struct cm_machine_own_qp {
	void *qp;
	uint32_t qpn;
	unsigned int retry_ms;
};

struct cm_machine_connect_params {
	struct cm_addr local; /* an address of the RNIC; port 0: any */
	struct cm_addr peer;
	struct cm_machine_own_qp qp;
	struct cm_offer offer;
	unsigned int timeout_ms; /* as of cm_connect_params */
	void *conn_ctx;
};

/** @return 0: a CM_CONNECTED or CM_ENDED follows; -ENOMEM; -EINVAL: a number of the offer, or its
 *          private data, are too large, or the peer has no address or port; -EADDRNOTAVAIL: not an
 *          address of the RNIC; -EACCES: this RNIC may not talk to the peer; -EAGAIN: cm_limits;
 *          -ENODEV: closed */
int cm_machine_connect(struct cm_machine *machine, const struct cm_machine_connect_params *params,
		       struct cm_machine_conn **ret_conn);
/** Accept a request. @return 0: a CM_CONNECTED or CM_ENDED follows; -EINVAL as above; -ENOTCONN:
 *          it has ended, or was answered; another one of qp_connect. After an error the request is
 *          as before, and may be rejected or freed */
int cm_machine_accept(struct cm_machine_conn *conn, const struct cm_machine_own_qp *qp,
		      const struct cm_offer *offer, void *conn_ctx);
/** Refuse a request, and free the connection. Too long private data are cut. */
void cm_machine_reject(struct cm_machine_conn *conn, const void *private_data, size_t private_len);
/** Data of the peer have come by the queue pair (cm_conn_heard()). */
void cm_machine_heard(struct cm_machine_conn *conn);
/** End a connection: CM_ENDED follows. Its queue pair is in ERR when this returns. */
void cm_machine_disconnect(struct cm_machine_conn *conn);
/** Forget a connection: no event follows, and neither its context nor its queue pair is used any
 * more. The peer is told, and told again if need be, if the connection had not ended. */
void cm_machine_conn_free(struct cm_machine_conn *conn);
/** A listener is gone: requests that it was not told of are refused (REJ 8). Those that it was told
 * of are refused as well, and end without an event; their user frees them. */
void cm_machine_listener_gone(struct cm_machine *machine, void *listener);

void cm_machine_conn_set_ctx(struct cm_machine_conn *conn, void *conn_ctx);
void *cm_machine_conn_ctx(const struct cm_machine_conn *conn);
void cm_machine_conn_addrs(const struct cm_machine_conn *conn, struct cm_addr *ret_local,
			   struct cm_addr *ret_peer);
/** Everything but `number` and `rnic`. Ages are as of the machine's time. */
void cm_machine_conn_view(const struct cm_machine_conn *conn, struct cm_conn_view *ret_view);
/** All connections that a user has, newest first, and not those that were freed but whose peers
 * are still being told. `fn` must not call the machine. @param fn  false: no more */
void cm_machine_each_conn(struct cm_machine *machine,
			  bool (*fn)(void *arg, struct cm_machine_conn *conn), void *arg);

/** How much a machine has to remember; all 0 at rest. */
struct cm_machine_sizes {
	unsigned int conns;     /* of users, and requests that are on the way to them */
	unsigned int leaving;   /* freed by their users; peers are being told */
	unsigned int time_wait; /* ended; their communication ids are not free yet */
	unsigned int peers;     /* addresses that these are with */
};

void cm_machine_get_sizes(const struct cm_machine *machine, struct cm_machine_sizes *ret_sizes);
void cm_machine_get_stats(const struct cm_machine *machine, struct cm_stats *ret_stats);

#endif

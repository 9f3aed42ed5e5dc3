/* SPDX-License-Identifier: MIT */
/**
 * @file view.h
 * What operators see of the connections that programs handed over: snapshots and counters.
 */
#ifndef SMCRD_DAEMON_CONNS_VIEW_H
#define SMCRD_DAEMON_CONNS_VIEW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/smcr/view.h"
#include "proto/ipc/ipc.h"
#include "proto/smcr/reason.h"

struct conns;

enum conn_mode {
	CONN_MODE_PENDING, /* TCP handshake or rendezvous under way */
	CONN_MODE_SMCR,
	CONN_MODE_TCP, /* fell back, or never was a candidate */
};

#define CONN_PROGRAM_LEN 16 /* of a program's name, with the NUL */

struct conn_view {
	uint64_t number;      /* connections are counted from 1 */
	uint64_t id;          /* id in the name of the pair; unique as long as the daemon runs */
	uint64_t cookie;      /* SO_COOKIE of the TCP socket that was handed over */
	uint64_t pair_cookie; /* SO_COOKIE of the program's pair end; 0: there was no pair */
	struct smcr_addr local, peer; /* of the TCP connection; IPv4-mapped addresses as IPv4 */
	enum smcr_role role;
	enum conn_mode mode;
	enum ipc_conn_state state;
	bool handed_back; /* the program got its TCP socket back, and may go on with it */
	bool plain; /* never handed over: daemon/events/plain.c knows it, `number` is from there */
	bool ended; /* in the history: it is over, or is plain TCP that the daemon does not see */
	int error;  /* positive errno that the program got if it ended or failed, else 0 */
	pid_t pid; /* process that handed it over, in smcrd's pid namespace; 0: not visible there */
	uid_t uid;
	char program[CONN_PROGRAM_LEN]; /* name of that process at the handover; "": unknown */
	uint32_t reason;      /* enum smcr_reason: why not SMC-R; SMCR_REASON_NONE otherwise */
	uint32_t peer_reason; /* the peer's code if it declined, else 0 */
	uint32_t
		unasked; /* plain: connections to this peer that were made without a claim before */
	bool bytes_known; /* false: the program used its TCP socket, and nothing was counted */
	uint64_t tx_bytes, rx_bytes; /* application bytes */
	bool shared;                 /* the program has, or had, the connection's memory mapped */
	uint64_t shared_tx_bytes,
		shared_rx_bytes; /* the part of these bytes that went through shared memory */
	uint64_t age_ms;         /* since the handover */
	uint64_t ended_ms;       /* since the end; 0 if not ended */
	bool in_engine;          /* `engine` is filled */
	struct smcr_conn_view engine;
};

/** "smcr", "tcp" or, while pending, "pending". Static storage. */
const char *conn_mode_name(enum conn_mode mode);

/** How far a walk over the connections has come; zeroed: at the beginning. */
struct conns_place {
	bool ended;      /* all live connections were seen: the walk is in the history */
	uint64_t number; /* of the last connection that was seen; 0: none was */
};

/**
 * Call `fn` for the live connections and then for those in the history, newest first, until it
 * returns false. A connection that ends between two parts of a walk may be seen twice, live and
 * ended. A connection that lives during the whole walk is never left out. `fn` must not call
 * functions of this directory.
 * @param place  in: where the part before ended; out: where this part ended
 * @return true: the walk is complete
 */
bool conns_walk(const struct conns *conns, struct conns_place *place,
		bool (*fn)(void *arg, const struct conn_view *view), void *arg);

/** The number of a connection. @param user what the engine has as the connection's `user` */
uint64_t conns_number(const void *user);

struct conns_view {
	uint32_t conns; /* live connections now: pending, SMC-R and relays */
	uint32_t conns_pending, conns_smcr, conns_relay;
	/* Since start. */
	uint64_t handovers_connected, handovers_connecting, handovers_accepted;
	uint64_t established; /* connections that came to use SMC-R */
	uint64_t fallbacks;   /* CLC was begun and ended in plain TCP */
	/** Plain TCP without CLC, because the peer or this host cannot or must not use SMC-R. Does
	 * not include connections that the BPF programs count (daemon/rendezvous/tally.h). */
	uint64_t not_candidates;
	uint64_t failed;       /* the rendezvous broke the connection, or connect() failed */
	uint64_t resets;       /* established connections that ended abnormally */
	uint64_t names_taken;  /* names of pair ends that somebody else had: another was tried */
	uint32_t conns_shared; /* now: connections with shared memory */
	uint64_t shared;       /* connections with shared memory since start */
	uint64_t shared_tx_bytes, shared_rx_bytes; /* application bytes through shared memory */
	uint64_t smcr_tx_bytes, smcr_rx_bytes;     /* all application bytes over SMC-R */
	uint64_t relay_tx_bytes, relay_rx_bytes;
};

void conns_get_view(const struct conns *conns, struct conns_view *ret_view);

/** Call `fn` for each pair of reasons (this host's, and the peer's if it declined, else 0) that
 * kept connections from SMC-R, with the number of connections. Does not include connections that
 * the BPF programs count. */
void conns_each_reason(const struct conns *conns,
		       void (*fn)(void *arg, uint32_t reason, uint32_t peer_reason, uint64_t count),
		       void *arg);

/** A limit that keeps the SMC option off new connections now. */
struct limit_view {
	bool everybody; /* holds for all users; else for `uid` */
	uid_t uid;
	enum smcr_reason reason;
};

/** Call `fn` for each limit that is in force. */
void limits_each(const struct conns *conns, void (*fn)(void *arg, const struct limit_view *view),
		 void *arg);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file machine_internal.h
 * The connection manager's machine, for its own files:
 *
 *   machine.c            life of a machine, its timers, events to users
 *   machine_receive.c    messages that come: checked, and given to the connection they are about
 *   machine_active.c     connections that this side asks for
 *   machine_passive.c    connections that peers ask for
 *   machine_end.c        how connections end
 *   machine_send.c       messages that go
 *   machine_conn.c       a connection's record, what users and operators see of it
 *   machine_tables.c     who is found by what
 *   machine_time_wait.c  what is remembered of connections that have ended
 */
#ifndef SMCRD_CM_MACHINE_INTERNAL_H
#define SMCRD_CM_MACHINE_INTERNAL_H

/* Without memory for a table's larger array, it goes on with the array that it has. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

#include "daemon/cm/machine.h"
#include "daemon/cm/timers.h"
#include "proto/ibcm/ip.h"

/** How long a time is that a message tells as a code of 5 bits: 4.096 us times 2 to the power of
 * it. */
#define MACHINE_CODE_US(code) ((UINT64_C(4096) << (code)) / 1000)

enum {
	/** What this side tells of itself: its answers come within 4.3 s, and what it sends is
	 * repeated at that interval up to 15 times, as Linux does it. */
	MACHINE_TIMEOUT_CODE = 20,
	MACHINE_RETRIES = 15,
	MACHINE_RETRY_COUNT = 7,  /* of the peer's queue pair */
	MACHINE_ACK_TIMEOUT = 17, /* likewise: 0.5 s */
	MACHINE_TARGET_ACK_DELAY = 15,
	MACHINE_HOP_LIMIT = 64,
	MACHINE_MAX_RNR_RETRY = 7,
	MACHINE_FIRST_QPN = 2,   /* 0 and 1 are not for connections */
	MACHINE_FIRES_MOST = 64, /* timers in one cm_machine_run() */
};

static inline uint8_t machine_lesser(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

/** Bounds of what peers tell about repeats, and of what they ask for by MRA. */
#define MACHINE_INTERVAL_LEAST_US 100000u
#define MACHINE_INTERVAL_MOST_US  10000000u
#define MACHINE_PATIENCE_MOST_US  60000000u
/** A request that no user answers, and a REP or DREQ that a peer holds up with MRAs, end then. */
#define MACHINE_ASKED_US   90000000u
#define MACHINE_HELD_UP_US 300000000u
#define MACHINE_CONNECT_MS 20000u /* cm_connect_params.timeout_ms */
/** CM-24: late messages of a connection that was made are gone by then. */
#define MACHINE_TIME_WAIT_US 10000000u
/** CM-22: a peer that has not heard of the end may repeat its REQ for so long. Linux does it for 78
 * s.
 */
#define MACHINE_ASKING_WAIT_US 90000000u
/** CM-23: so often a peer is asked whether it still knows a connection. */
#define MACHINE_PROBE_US 1000000u
/** Records of ended connections: in all, and of one peer. */
#define MACHINE_TIME_WAIT_MOST    4096u
#define MACHINE_TIME_WAIT_OF_PEER 512u

/** What a table is keyed by: a number that a peer has chosen, together with its address. */
struct machine_key {
	uint8_t gid[16];
	uint32_t number;
};
_Static_assert(sizeof(struct machine_key) == 20, "keys are compared and hashed as a whole");

/** An address that connections are with. There as long as one of the counts is not 0. */
struct machine_peer {
	uint8_t gid[16];
	UT_hash_handle hh;
	unsigned int conns;     /* that it has asked for, or this side */
	unsigned int asked_for; /* of these, those that it has asked for */
	unsigned int requests;  /* of these, those that no user has answered */
	unsigned int num_time_waits;
	struct machine_time_wait *time_waits; /* the oldest in front */
};

/** What is remembered of a connection that has ended. */
struct machine_time_wait {
	uint32_t local_id;
	struct machine_key peer_id; /* a REQ of the peer had this communication id */
	bool asked_for, has_answer;
	bool asking; /* the peer may still repeat its REQ: MACHINE_ASKING_WAIT_US */
	uint64_t req_digest;
	uint64_t until;
	struct machine_peer *peer;
	UT_hash_handle by_local_id, by_peer_id;
	struct machine_time_wait *prev, *next; /* of the machine, with the same `asking` */
	struct machine_time_wait *of_peer_prev, *of_peer_next;
	uint8_t answer[]; /* the REJ that has refused the REQ, if has_answer */
};

enum machine_due {
	MACHINE_DUE_REQUEST = 1 << 0,
	MACHINE_DUE_CONNECTED = 1 << 1,
	MACHINE_DUE_ENDED = 1 << 2,
};

struct cm_machine_conn {
	struct cm_machine *machine;
	struct cm_machine_conn *prev, *next;         /* of the machine, newest first */
	struct cm_machine_conn *due_prev, *due_next; /* those with events */
	unsigned int due;                            /* enum machine_due */
	struct cm_timer timer;
	struct machine_peer *peer;

	enum cm_state state;
	bool active;
	bool has_user; /* somebody has the pointer */
	bool silent;   /* no event is told any more */
	void *ctx;
	void *listener; /* of a connection that the peer has asked for */
	uint64_t since, changed;

	uint8_t local_gid[16];
	uint16_t local_port, peer_port;
	uint32_t local_id;
	UT_hash_handle by_local_id;
	struct machine_key peer_id; /* known if has_peer_id */
	UT_hash_handle by_peer_id;  /* connections that the peer has asked for */
	struct machine_key peer_qpn;
	UT_hash_handle by_peer_qpn; /* once known */
	bool has_peer_id, in_peer_ids, in_peer_qpns, in_local_ids;
	bool ready; /* the peer is known to have its queue pair ready */
	uint64_t transaction_id, req_digest;
	uint64_t probe_id, probed_at; /* of the last probe; 0: there was none */

	struct cm_machine_own_qp own; /* `qp` is NULL once it is not to be touched */
	uint32_t own_psn, peer_psn;
	uint8_t path_mtu, rnr_retry; /* rnr_retry: as the peer has told, for what goes there */
	uint8_t reads_answered, reads_asked;

	/* The message that is repeated, or was the last answer. */
	uint8_t mad[IBCM_MAD_LEN];
	uint64_t interval, give_up;
	unsigned int repeats_left, max_repeats;
	uint64_t resends;

	enum cm_end end; /* while ENDING: what it will be */
	bool rejected;   /* by a REJ of the peer */
	uint16_t reject_reason;
	char text[CM_ERROR_LEN];
	uint8_t private_data[CM_PRIVATE_MAX]; /* of the peer's REQ, REP or REJ */
	size_t private_len;
};

struct cm_machine {
	const struct cm_machine_ops *ops;
	void *ctx;
	struct cm_limits limits;
	uint64_t now;
	bool closed;

	uint8_t gids[RNIC_MAX_GIDS][16];
	size_t num_gids;
	uint64_t guid;
	uint8_t max_path_mtu, max_reads_answered, max_reads_asked;

	uint8_t hash_key[16];
	struct cm_machine_conn *conns, *due;
	size_t num_conns; /* all records */
	unsigned int num_active, num_asked_for;
	struct cm_machine_conn *by_local_id, *by_peer_id, *by_peer_qpn;
	struct machine_peer *peers;
	struct machine_time_wait *time_waits[2]; /* by `asking`; the one that ends first in front */
	struct machine_time_wait *waits_by_local_id, *waits_by_peer_id;
	unsigned int num_time_waits;
	struct cm_timers timers;
	struct cm_stats stats;
};

/* ---- machine.c */

/** An event of the connection is due. */
void machine_due(struct cm_machine_conn *conn, enum machine_due what);
/** No event is due any more. */
void machine_not_due(struct cm_machine_conn *conn);

/* ---- machine_conn.c */

/** A new connection with a communication id of its own. `state` is CM_STATE_ASKING or
 * CM_STATE_ASKED. NULL: no memory */
struct cm_machine_conn *machine_conn_new(struct cm_machine *machine, enum cm_state state,
					 const uint8_t local_gid[16], const uint8_t peer_gid[16]);
/** Take it out of everything and free it. */
void machine_conn_destroy(struct cm_machine_conn *conn);
void machine_conn_set_state(struct cm_machine_conn *conn, enum cm_state state);
/** Keep what the peer has sent. */
void machine_conn_keep_private(struct cm_machine_conn *conn, const uint8_t *data, size_t len);
/** How the queue pair has to be connected and started. */
struct cm_machine_qp machine_conn_qp(const struct cm_machine_conn *conn);
/** Put the queue pair to ERR, and do not touch it any more. */
void machine_conn_drop_qp(struct cm_machine_conn *conn);

void machine_addr_of_gid(const uint8_t gid[16], uint16_t port, struct cm_addr *ret_addr);
/** @return false: neither IPv4 nor IPv6 */
bool machine_gid_of_addr(const struct cm_addr *addr, uint8_t ret_gid[16]);
bool machine_is_own_gid(const struct cm_machine *machine, const uint8_t gid[16]);

uint32_t machine_random(struct cm_machine *machine);

/* ---- machine_tables.c */

/** The peer's record, which is made if need be. NULL: no memory */
struct machine_peer *machine_peer_get(struct cm_machine *machine, const uint8_t gid[16]);
/** NULL: nothing is with it */
struct machine_peer *machine_peer_find(struct cm_machine *machine, const uint8_t gid[16]);
/** Forget it if nothing is with it any more. */
void machine_peer_put(struct cm_machine *machine, struct machine_peer *peer);
struct machine_key machine_key(const uint8_t gid[16], uint32_t number);
/** Give the connection an id that nobody has. @return false: no memory */
bool machine_tables_add(struct cm_machine_conn *conn);
/** The peer's communication id is known; of a connection that the peer has asked for, it is found
 * by it. @return false: no memory */
bool machine_tables_peer_id(struct cm_machine_conn *conn, uint32_t id);
/** The peer's queue pair is known. @return false: no memory */
bool machine_tables_peer_qpn(struct cm_machine_conn *conn, uint32_t qpn);
void machine_tables_remove(struct cm_machine_conn *conn);
struct cm_machine_conn *machine_find(struct cm_machine *machine, uint32_t local_id);
/** A connection that this peer has asked for. */
struct cm_machine_conn *machine_find_asked(struct cm_machine *machine, const uint8_t peer_gid[16],
					   uint32_t peer_id);
struct cm_machine_conn *machine_find_qpn(struct cm_machine *machine, const uint8_t peer_gid[16],
					 uint32_t peer_qpn);
uint64_t machine_digest(const struct cm_machine *machine, const uint8_t mad[IBCM_MAD_LEN]);

/* ---- machine_time_wait.c */

/** Remember a connection that ends. @param answer  it has ended by this REJ, kept in `conn->mad` */
void machine_time_wait_enter(struct cm_machine_conn *conn, bool answer);
/** A REQ to which nothing more is to be said than was said. @return false: it is a new one */
bool machine_time_wait_req(struct cm_machine *machine, const uint8_t local_gid[16],
			   const uint8_t peer_gid[16], uint32_t peer_id, uint64_t digest);
/** NULL: the id is free */
const struct machine_time_wait *machine_time_wait_find(struct cm_machine *machine,
						       uint32_t local_id);
/** UINT64_MAX: never */
uint64_t machine_time_wait_deadline(const struct cm_machine *machine);
/** Forget what has waited long enough. */
void machine_time_wait_run(struct cm_machine *machine);
void machine_time_wait_clear(struct cm_machine *machine);

/* ---- machine_send.c */

void machine_send(struct cm_machine *machine, const uint8_t local_gid[16],
		  const uint8_t peer_gid[16], const uint8_t mad[IBCM_MAD_LEN]);
/** Encode and send a message about which nothing is kept. */
void machine_say(struct cm_machine *machine, const uint8_t local_gid[16],
		 const uint8_t peer_gid[16], const struct ibcm_msg *msg);
/** A message of a connection, with its ids filled in. It is kept for repeats.
 * @return -EINVAL: a number does not fit */
int machine_conn_say(struct cm_machine_conn *conn, struct ibcm_msg *msg);
/** Send again what was said last. */
void machine_conn_say_again(struct cm_machine_conn *conn);
/** What was said last is to be answered: repeat it as long as it is not. */
void machine_conn_expect(struct cm_machine_conn *conn, uint64_t patience_us);
/** Repeat it once more, which `repeats_left` allows. */
void machine_conn_repeat(struct cm_machine_conn *conn);
/** CM-21: the peer has asked for patience. */
void machine_conn_be_patient(struct cm_machine_conn *conn, uint8_t service_timeout);
/** A REJ of a connection. */
void machine_conn_say_rej(struct cm_machine_conn *conn, enum ibcm_subject subject, uint16_t reason,
			  const void *private_data, size_t private_len);
/** A REJ about no connection of ours, in answer to a message. */
void machine_say_rej(struct cm_machine *machine, const uint8_t local_gid[16],
		     const uint8_t peer_gid[16], const struct ibcm_msg *about, uint16_t reason,
		     const void *info, size_t info_len);

/* ---- machine_active.c */

void machine_active_rep(struct cm_machine_conn *conn, const struct ibcm_msg *msg);

/* ---- machine_passive.c */

/** A REQ that has come from `peer_gid`, with that address in it. */
void machine_passive_req(struct cm_machine *machine, const uint8_t local_gid[16],
			 const uint8_t peer_gid[16], const struct ibcm_msg *msg, uint64_t digest);
/** The peer's queue pair is ready: the RTU has come, or data. */
void machine_passive_ready(struct cm_machine_conn *conn);

/* ---- machine_end.c */

/** End a connection, and tell its user. The connection may be freed by this.
 * @param answer  the last message that was said is a REJ that refuses the peer's REQ */
__attribute__((format(printf, 5, 6))) void machine_conn_end(struct cm_machine_conn *conn,
							    bool answer, enum cm_end end,
							    uint16_t reason, const char *format,
							    ...);
/** CM-23: ask the peer whether it still knows a connection. If not, its answer ends it. */
void machine_conn_probe(struct cm_machine_conn *conn);
/** Ask the peer to end a connection (DREQ). CM_ENDED comes with its answer, or without. */
void machine_conn_leave(struct cm_machine_conn *conn, enum cm_end end, const char *text);
void machine_end_dreq(struct cm_machine_conn *conn, const struct ibcm_msg *msg);
void machine_end_drep(struct cm_machine_conn *conn, const struct ibcm_msg *msg);
void machine_end_rej(struct cm_machine_conn *conn, const struct ibcm_msg *msg);
/** Answer a DREQ. */
void machine_say_drep(struct cm_machine *machine, const uint8_t local_gid[16],
		      const uint8_t peer_gid[16], const struct ibcm_msg *dreq);
/** End the oldest connection that a peer has asked for and not confirmed, so that others have its
 * place. Whoever sends requests in the name of others gets no further than that. @param peer  one
 * that this peer has asked for; NULL: anybody. @return false: there is none */
bool machine_end_unproven(struct cm_machine *machine, const struct machine_peer *peer);
/** The connection's timer has fired: repeat, or give up. */
void machine_conn_fire(struct cm_machine_conn *conn);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file internal.h
 * The engine's own structures, shared by its files. Nothing outside daemon/smcr includes it, unit
 * tests of the engine excepted.
 *
 * The files. The prefix of a name says where it is: smcr_slab_add() is in slab.c and described in
 * slab.h. Declarations that only the files of one subject share are in a header of that subject.
 *   engine.c       life, log, UEIDs             timer.c        deadlines
 *   device.c       RNICs and addresses          configure.c    another configuration
 *   lgr.c          link groups                  link.c         links: QP, posting, completions
 *   slab.c         RMBs and send buffers        peer_rmb.c     the peer's RMBs and RTokens
 *   conn.c         connections: life, lookup    need.c         what they need of their buffers
 *   account.c      who holds how much memory    stats.c        what is counted for operators
 *   clc*.c         rendezvous of one connection (RFC 7609 3.5): clc.h
 *   llc*.c         exchanges of a link group: llc.h, a header for each, and llc_steps.c, where to
 *                  begin
 *   deletion.h     how far the deletion of a link is
 *   tx.c, rx.c, cdc.c, close.c, urgent.c  the data path of a connection: data.h
 *   cursor.c       position arithmetic          share.c        memory that a program shares
 *   failover.c     connections move between links (FO)
 *   keepalive.c    probes of what is idle (4.5.3)
 *   path_mtu.c     do full-size packets pass?   drain.c        RNICs that are taken out of use
 *   news.c         what happens to groups and links, told to:
 *   command.c      commands of operators        events.c       what operators are told
 *   denied.c       writes that the peer's RNIC denies
 *   give_up.c      may a silent queue pair be given up?
 *   view.c         snapshots and invariants     rows.c         rows taken of the RFC's tables
 *   arrivals.c     what a CDC announces, for captures          probes.c       for tracing tools
 *   trace.c        messages as lines of the log
 *   log_limit.c    how many lines there may be about peers
 *
 * When structures are freed. Events (ops->conns) are raised at once, and any call that can raise an
 * event may free the connection. Links and link groups are never freed inside an input or a call of
 * the data path. Such a call decides that they end (smcr_link_fail(), smcr_lgr_end()), and the
 * timer queue carries that out, with delay zero. So a `struct smcr_link *` is valid for the whole
 * call.
 *
 * Positions: inside the engine a position in a byte stream is a 64-bit count of bytes since the
 * start, never a cursor; cursor.h converts at the wire.
 */
#ifndef SMCRD_SMCR_INTERNAL_H
#define SMCRD_SMCR_INTERNAL_H

#include "daemon/smcr/account.h"
#include "daemon/smcr/command.h"
#include "daemon/smcr/conn.h"
#include "daemon/smcr/denied.h"
#include "daemon/smcr/device.h"
#include "daemon/smcr/drain.h"
#include "daemon/smcr/events.h"
#include "daemon/smcr/failover.h"
#include "daemon/smcr/keepalive.h"
#include "daemon/smcr/lgr.h"
#include "daemon/smcr/link.h"
#include "daemon/smcr/log_limit.h"
#include "daemon/smcr/need.h"
#include "daemon/smcr/news.h"
#include "daemon/smcr/ops.h"
#include "daemon/smcr/path_mtu.h"
#include "daemon/smcr/peer_rmb.h"
#include "daemon/smcr/rows.h"
#include "daemon/smcr/slab.h"
#include "daemon/smcr/stats.h"
#include "daemon/smcr/timer.h"
#include "daemon/smcr/view.h"

struct smcr_pending; /* command.c */

struct smcr_engine {
	struct smcr_config config; /* defaults filled in */
	struct smcr_ops ops;
	uint64_t now;
	struct smcr_timer *timers; /* root of the heap of running timers (timer.c) */
	uint32_t num_timers;
	uint64_t timer_seq;
	struct smcr_device *devices;
	struct smcr_lgr *lgrs;
	struct smcr_link *links;       /* hash by ref */
	struct smcr_conn *conns;       /* all connections, DL list */
	struct smcr_conn *tokens;      /* hash by token */
	struct smcr_pending *commands; /* DL list (command.c) */
	uint64_t last_command_id;
	uint64_t memory_used;          /* bytes of all slabs */
	uint64_t memory_held;          /* bytes of it that connections have */
	struct smcr_account *accounts; /* hash by user or peer (account.c) */
	uint64_t next_link_ref;
	uint32_t next_lgr_id;
	uint32_t next_link_uid; /* LG-12 */
	uint16_t next_token;    /* lower half of the next alert token */
	struct smcr_path paths[SMCR_PATHS_MAX];
	bool shutting_down;
	struct log_limit log_limit;
	bool silent;                   /* the engine is being freed: no log, no event, no message */
	struct smcr_engine_view count; /* has the counters; the rest is filled in for a view */
	struct smcr_engine_stats stats;
	uint32_t rows[SMCR_NUM_ROWS][2]; /* how often each row was taken, by role (rows.h) */
};

/** Write a line to the log, formatted as by printf(). */
void smcr_log(struct smcr_engine *engine, int priority, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/** Write a line about a peer, which begins with the peer's TCP address; at most one line a minute
 * for each peer and reason (log_limit.h). `reason` has static storage. */
void smcr_log_peer(struct smcr_engine *engine, const struct smcr_addr *peer, int priority,
		   const char *reason, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* ---- engine.c ---- */
/** Random numbers: of 24 bits; of 32 bits and not zero. */
uint32_t smcr_random24(struct smcr_engine *engine);
uint32_t smcr_random32(struct smcr_engine *engine);
/** `given` with defaults for zero fields, and all values within bounds. */
struct smcr_config smcr_config_fill(const struct smcr_config *given);

/* ---- stats.c ---- */
/** The connection is established: count that, and the time since its start. */
void smcr_stats_established(struct smcr_conn *conn);
/** The connection's link has failed. */
void smcr_stats_gap_begin(struct smcr_conn *conn);
/** The connection writes on another link (`moved`), or has ended. Does nothing if its link has not
 * failed. */
void smcr_stats_gap_end(struct smcr_conn *conn, bool moved);

/* ---- rows.c ---- */
/** Count that a row of the tables of C.7.1 or C.8 is taken. */
static inline void smcr_row(const struct smcr_lgr *lgr, enum smcr_row row)
{
	lgr->engine->rows[row][lgr->role]++;
}

#endif

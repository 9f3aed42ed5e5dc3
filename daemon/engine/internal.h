/* SPDX-License-Identifier: MIT */
/**
 * @file internal.h
 * The engine's own structures, shared by its files. Nothing outside daemon/engine includes it, unit
 * tests of the engine excepted.
 *
 * Where things live. The prefix of a name says in which file it is: smcr_slab_add() is in slab.c,
 * and slab.h says what it does. What only the files of one subject share is in a header of theirs.
 *   engine.c       life, log, UEIDs             timer.c        deadlines
 *   device.c       RNICs and addresses          configure.c    another configuration
 *   lgr.c          link groups                  link.c         links: QP, posting, completions
 *   slab.c         RMBs and send buffers        peer_rmb.c     the peer's RMBs and RTokens
 *   conn.c         connections: life, lookup    need.c         what they need of their buffers
 *   account.c      who holds how much memory    stats.c        what is counted for operators
 *   clc*.c         rendezvous of one connection (RFC 7609 3.5): rendezvous.h
 *   llc*.c         exchanges of a link group: llc.h, a header for each, and llc_steps.c, where to
 *                  begin
 *   deletion.h     how far the deletion of a link is
 *   tx.c, rx.c, cdc.c, close.c, urgent.c  the data path of a connection: data.h
 *   cursor.c       position arithmetic
 *   failover.c     connections move between links (FO)
 *   keepalive.c    probes of what is idle (4.5.3)
 *   path_mtu.c     do full-size packets pass?   drain.c        RNICs that are taken out of use
 *   news.c         what happens to groups and links, told to:
 *   command.c      commands of operators        events.c       what operators are told
 *   denied.c       writes that the peer's RNIC denies
 *   give_up.c      may a silent queue pair be given up?
 *   view.c         snapshots and invariants     rows.c         rows taken of the RFC's tables
 *   arrivals.c     what a CDC announces, for captures          probes.c       for tracing tools
 *
 * Who may free what, and when. Events (ops->conns) are raised at once, and a connection may be
 * freed by any call that can raise one. Links and link groups are never freed inside an input or a
 * call of the data path: their end is decided there (smcr_link_fail(), smcr_lgr_end()) and carried
 * out from the timer queue, with delay zero, so that a `struct smcr_link *` stays good for the
 * whole call.
 *
 * Positions: inside the engine a position in a byte stream is a 64-bit count of bytes since the
 * start, never a cursor; cursor.h converts at the wire.
 */
#ifndef SMCRD_ENGINE_INTERNAL_H
#define SMCRD_ENGINE_INTERNAL_H

#include "daemon/engine/account.h"
#include "daemon/engine/command.h"
#include "daemon/engine/conn.h"
#include "daemon/engine/denied.h"
#include "daemon/engine/device.h"
#include "daemon/engine/drain.h"
#include "daemon/engine/events.h"
#include "daemon/engine/failover.h"
#include "daemon/engine/keepalive.h"
#include "daemon/engine/lgr.h"
#include "daemon/engine/link.h"
#include "daemon/engine/log_limit.h"
#include "daemon/engine/need.h"
#include "daemon/engine/news.h"
#include "daemon/engine/ops.h"
#include "daemon/engine/path_mtu.h"
#include "daemon/engine/peer_rmb.h"
#include "daemon/engine/rows.h"
#include "daemon/engine/slab.h"
#include "daemon/engine/stats.h"
#include "daemon/engine/timer.h"
#include "daemon/engine/view.h"

struct smcr_pending; /* command.c */

struct smcr_engine {
	struct smcr_config config; /* defaults filled in */
	struct smcr_ops ops;
	uint64_t now;
	struct smcr_timer *timers; /* that run: the heap's root (timer.c) */
	uint32_t num_timers;
	uint64_t timer_seq;
	struct smcr_device *devices;
	struct smcr_lgr *lgrs;
	struct smcr_link *links;       /* hash by ref */
	struct smcr_conn *conns;       /* all, DL list */
	struct smcr_conn *tokens;      /* hash by token */
	struct smcr_pending *commands; /* DL list (command.c) */
	uint64_t last_command_id;
	uint64_t memory_used;          /* by slabs */
	uint64_t memory_held;          /* of it by connections */
	struct smcr_account *accounts; /* hash */
	uint64_t next_link_ref;
	uint32_t next_lgr_id;
	uint32_t next_link_uid; /* LG-12 */
	uint16_t next_token;    /* lower half of the next alert token */
	struct smcr_path paths[SMCR_PATHS_MAX];
	bool shutting_down;
	struct log_limit log_limit;
	bool silent;                   /* being freed: no log, no event, no message */
	struct smcr_engine_view count; /* counters kept as they happen */
	struct smcr_engine_stats stats;
	uint32_t rows[SMCR_NUM_ROWS][2]; /* taken, by role (rows.h) */
};

/** printf to the log of ops->host. */
void smcr_log(struct smcr_engine *engine, int priority, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/** What a peer did: the line names it, by its TCP address. One a minute of each peer and reason
 *  (log_limit.h). `reason` has static storage. */
void smcr_log_peer(struct smcr_engine *engine, const struct smcr_addr *peer, int priority,
		   const char *reason, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* ---- engine.c ---- */
/** Random: 24 bits; 32 bits and not zero. */
uint32_t smcr_random24(struct smcr_engine *engine);
uint32_t smcr_random32(struct smcr_engine *engine);
/** With the defaults where it says nothing, and within bounds. */
struct smcr_config smcr_config_fill(const struct smcr_config *given);

/* ---- stats.c ---- */
/** Data may flow: count that, and how long CLC has taken. */
void smcr_stats_established(struct smcr_conn *conn);
/** Its link has failed. */
void smcr_stats_gap_begin(struct smcr_conn *conn);
/** It has gone on on another link (`moved`), or is over. Nothing if its link has not failed. */
void smcr_stats_gap_end(struct smcr_conn *conn, bool moved);

/* ---- rows.c ---- */
/** A row of the tables of C.7.1 or C.8 is taken. */
static inline void smcr_row(const struct smcr_lgr *lgr, enum smcr_row row)
{
	lgr->engine->rows[row][lgr->role]++;
}

#endif

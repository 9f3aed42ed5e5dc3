/* SPDX-License-Identifier: MIT */
/**
 * @file connfix.h
 * One established connection on one link of a real engine, without rendezvous: for tests of the
 * data path. Everything the engine posts is recorded; completions and the peer's messages come when
 * the test says so. Two of them can be joined, so that each plays the other's peer.
 *
 * Element sizes need not be powers of two (the examples of RFC 7609 4.7 use 10000), and both
 * directions may start anywhere in the cursor space.
 *
 * Every deviation fails the running cmocka test with file and line.
 */
#ifndef SMCRD_TESTS_CONNFIX_H
#define SMCRD_TESTS_CONNFIX_H

#include "daemon/smcr/data.h"

/* cmocka.h needs these headers before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define CONNFIX_LOG    4096
#define CONNFIX_EVENTS 256

/** A position as the specification writes it: (wrap, cursor). */
struct connfix_pos {
	uint16_t wrap;
	uint32_t cursor;
};

/** Zero in a field means the default in parentheses. */
struct connfix_params {
	bool deployed;             /* dialect (RFC) */
	uint32_t element;          /* size E of both elements, 64 .. 65536 (10000) */
	uint32_t sndbuf;           /* send buffer, a power of two, ..65536 (65536) */
	uint32_t send_depth;       /* of the link (256) */
	struct connfix_pos tx, rx; /* where the directions start ((0, base)) */
	unsigned int links;        /* active links in the group, 1..3 (1) */
	bool gate_shut;            /* do not open the connection yet */
};

/** A posted work request. */
struct connfix_post {
	uint64_t link_ref, wr_id;
	bool is_write;
	uint32_t from, len; /* WRITE: offset in the peer's element */
	const uint8_t *src;
	struct smcr_cdc cdc; /* SEND */
	bool delivered;
};

struct connfix {
	struct connfix_params params;
	struct smcr_engine *engine;
	struct smcr_lgr *lgr;
	struct smcr_link *link, *link2, *link3;
	struct smcr_conn *conn; /* dangling once connfix_gone() */
	struct connfix *peer;   /* joined, or NULL */
	uint64_t now;
	uint8_t *shadow; /* the peer's element, when not joined */
	uint64_t shadow_vaddr;
	struct connfix_post posts[CONNFIX_LOG];
	size_t num_posts;
	size_t seen; /* posts before this were expected */
	struct smcr_conn_event events[CONNFIX_EVENTS];
	size_t num_events, events_seen; /* WRITABLE is only counted */
	size_t readable_in_reset;       /* bytes that smcr_conn_rx_data() gave within RESET */
	unsigned int writable;
	bool closed_raised;
	unsigned int strays; /* WRITEs that reached an element which was given back already */
	bool post_fails;
	unsigned int acks_wanted; /* calls of qp_want_ack() */
	uint32_t next_key;
	uint32_t live_mrs, live_qps;
	size_t live_mem;
	/** Set by a test after smcr_conn_share(): memory must not go before the engine has cleared
	 * it by unshare(). */
	bool shared;
	unsigned int recovered; /* calls of mem_recover() */
	size_t recovered_len;
	bool fail_recover;
	uint16_t in_seq;    /* number of the last CDC the scripted peer sent */
	uint16_t out_seq;   /* number of the last CDC seen */
	uint64_t peer_prod; /* scripted peer: positions it will name next */
	uint64_t peer_cons;
	uint8_t peer_prod_flags, peer_conn_flags;
	uint64_t written, read; /* pattern positions: bytes put in, bytes checked out */
	unsigned int log_lines;
	char last_log[256];
};

/** Set up; the connection is open unless gate_shut. `params` may be NULL. */
struct connfix *connfix_new(const struct connfix_params *params);
/** Tear down and check that nothing leaked. */
void connfix_free(struct connfix *f);
/** Two connections, each the other's peer. */
void connfix_new_pair(const struct connfix_params *params_a, const struct connfix_params *params_b,
		      struct connfix **ret_a, struct connfix **ret_b);
void connfix_open(struct connfix *f);

/** Time passes. */
void connfix_run(struct connfix *f, uint64_t us);
/** Has the connection been freed? */
bool connfix_gone(const struct connfix *f);

/* The program. Data is a pattern that readers check. */
void connfix_write(struct connfix *f, size_t n);
/** The last of the n bytes is urgent. */
void connfix_write_urgent(struct connfix *f, size_t n);
/** Read and check exactly n bytes, in one smcr_conn_rx_consume(). */
void connfix_read(struct connfix *f, size_t n);
size_t connfix_readable(struct connfix *f);
size_t connfix_space(struct connfix *f);

/* The RNIC. */
/** Complete everything that was posted. */
void connfix_complete(struct connfix *f);
/** Complete the first `n` requests not completed. */
void connfix_complete_n(struct connfix *f, size_t n);
/** Requests posted and not completed. */
size_t connfix_in_flight(const struct connfix *f);
/** Drop the records of requests that were delivered and completed, to make space in a long run.
 *  Expectations start anew. */
void connfix_forget(struct connfix *f);
/** Joined: carry out f's new posts at its peer, writes and CDCs in order. */
void connfix_deliver(struct connfix *f);
/** Joined: what f has posted so far never arrives. */
void connfix_lose(struct connfix *f);
/** The QP breaks: everything outstanding is flushed, then the link is failed. */
void connfix_break_link(struct connfix *f, struct smcr_link *link);

/* The scripted peer. */
/** The peer writes n more pattern bytes into the connection's element (no CDC). */
void connfix_peer_writes(struct connfix *f, size_t n);
/** The peer reads everything that CDC messages have told it of. */
void connfix_peer_reads_all(struct connfix *f);
/** The peer sends a CDC with its present state. */
void connfix_peer_cdc(struct connfix *f);
void connfix_peer_flags(struct connfix *f, uint8_t prod_flags, uint8_t conn_flags);
/** Deliver any CDC through the link's QP. The function fills in the alert token. */
void connfix_inject(struct connfix *f, const struct smcr_cdc *cdc);
/** The engine's position for a wire cursor (wrap, cursor). */
uint64_t connfix_pos_of(const struct connfix *f, struct connfix_pos pos);

/* Each of these checks the next request that was posted, and takes it off the record. Offsets are
 * inclusive: W[from..to]. */
#define expect_w(f, from, to) connfix_expect_write((f), (from), (to), __FILE__, __LINE__)
#define expect_cdc(f, pw, pc, cw, cc, prod_flags, conn_flags)                                      \
	connfix_expect_cdc((f), (struct connfix_pos){ (pw), (pc) },                                \
			   (struct connfix_pos){ (cw), (cc) }, (prod_flags), (conn_flags),         \
			   __FILE__, __LINE__)
/** A CDC with F and this sequence number, all else zero. It has no number of its own. */
#define expect_validation(f, seq) connfix_expect_validation((f), (seq), __FILE__, __LINE__)
/** A CDC with these flags and any cursors. */
#define expect_flags(f, prod_flags, conn_flags)                                                    \
	connfix_expect_flags((f), (prod_flags), (conn_flags), __FILE__, __LINE__)
#define expect_none(f) connfix_expect_none((f), __FILE__, __LINE__)
/** Check the next event that was raised, and, below, that no other is pending. */
#define expect_event(f, type)  connfix_expect_event((f), (type), __FILE__, __LINE__)
#define expect_no_event(f)     connfix_expect_no_event((f), __FILE__, __LINE__)
#define expect_closed(f, rst)  connfix_expect_closed((f), (rst), __FILE__, __LINE__)
#define expect_state(f, state) connfix_expect_state((f), (state), __FILE__, __LINE__)

void connfix_expect_write(struct connfix *f, uint32_t from, uint32_t to, const char *file,
			  int line);
void connfix_expect_cdc(struct connfix *f, struct connfix_pos producer, struct connfix_pos consumer,
			uint8_t prod_flags, uint8_t conn_flags, const char *file, int line);
void connfix_expect_flags(struct connfix *f, uint8_t prod_flags, uint8_t conn_flags,
			  const char *file, int line);
void connfix_expect_validation(struct connfix *f, uint16_t seq, const char *file, int line);
void connfix_expect_none(struct connfix *f, const char *file, int line);
void connfix_expect_event(struct connfix *f, enum smcr_conn_event_type type, const char *file,
			  int line);
void connfix_expect_no_event(struct connfix *f, const char *file, int line);
void connfix_expect_closed(struct connfix *f, bool tcp_reset, const char *file, int line);
void connfix_expect_state(struct connfix *f, enum smcr_conn_state state, const char *file,
			  int line);

#endif

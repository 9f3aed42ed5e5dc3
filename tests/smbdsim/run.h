/* SPDX-License-Identifier: MIT */
/**
 * @file run.h
 * smbd-sim: two connections of daemon/smbdirect, unchanged, joined by a channel that delays
 * messages and neither loses nor reorders them, as a queue pair does. A seed decides everything.
 *
 *   random.h   random numbers
 *   run.c      the clock, the channel, and what has to hold at any time
 *   side.c     a connection with its owner and its user
 *   plan.c     what is configured, and what may happen in a run
 *   hostile.c  a peer that breaks one rule
 *   main.c     seeds
 */
#ifndef SMCRD_TESTS_SMBDSIM_RUN_H
#define SMCRD_TESTS_SMBDSIM_RUN_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/smbdirect/transport.h"
#include "tests/smbdsim/random.h"

#define NEVER UINT64_MAX

/** A SEND on its way. */
struct parcel {
	uint8_t *bytes;
	size_t len;
	bool has_token;
	uint32_t token;
	uint32_t granted; /* what it grants; 0 for a Negotiate message */
	bool data;        /* a Data Transfer message */
	bool asks;        /* for an answer */
	uint64_t due;
	struct parcel *prev, *next;
};

/** What is on its way to one side. */
struct wire {
	struct parcel *parcels;
	uint64_t last_due;
	uint64_t lost_at; /* when the side hears that its peer is gone */
	uint64_t flying_data, flying_grants;
};

/** An upper message that was handed over and has not arrived. */
struct note {
	size_t at, len; /* of the pattern */
	bool has_token;
	uint32_t token;
	struct note *prev, *next;
};

#define TOKENS 4

struct side {
	struct run *run;
	unsigned int index; /* 0: active, 1: passive */
	struct smbd *smbd;  /* NULL: hostile */
	struct smbd_config config;

	/* The owner. */
	bool small_posted;          /* the first receive */
	uint32_t posted;            /* the others */
	uint32_t posted_size;       /* bytes of each */
	unsigned int post_failures; /* in a thousand */
	unsigned int send_room, sends_out, acks;
	uint64_t acks_at;
	bool asked;           /* the peer waits for an answer */
	bool blocked;         /* a SEND got no room, and is told when there is */
	unsigned int no_room; /* in a thousand, without a reason */
	uint64_t connected_at;
	bool connected;
	uint32_t tokens[TOKENS]; /* of registered memory; 0: none */
	bool token_used[TOKENS]; /* the peer has sent a message that invalidates it */

	/* The user. */
	uint64_t act_at;
	unsigned int actions, answers;
	uint64_t gap_most, hold_most;
	bool held;
	unsigned int closes; /* in a thousand of its actions */
	bool speaks_at_once;

	/* What has happened. */
	struct note *notes; /* messages to this side that have not arrived */
	unsigned int established, ended;
	enum smbd_end end;
	bool end_behind_sends;
	uint64_t ended_at, heard_at;
	uint64_t sends, fragments, empties;
};

enum breach {
	BREACH_NONE,
	/* Negotiation. */
	BREACH_NEGOTIATE_SHORT,
	BREACH_NEGOTIATE_NO_CREDITS,
	BREACH_NEGOTIATE_RECEIVE_SIZE,
	BREACH_NEGOTIATE_MESSAGE_SIZE,
	BREACH_NEGOTIATE_VERSION,
	BREACH_NEGOTIATE_SILENT,
	BREACH_NEGOTIATE_EARLY,  /* more messages than there may be before it is connected */
	BREACH_NEGOTIATE_STATUS, /* these three: of a Response */
	BREACH_NEGOTIATE_NO_GRANT,
	BREACH_NEGOTIATE_SEND_SIZE,
	/* Data. */
	BREACH_DATA_SHORT,
	BREACH_DATA_NO_CREDITS, /* CreditsRequested is 0 */
	BREACH_DATA_ALIGNMENT,
	BREACH_DATA_BEHIND_END,
	BREACH_DATA_WRAPS,
	BREACH_DATA_IN_HEAD,
	BREACH_TOO_LONG,
	BREACH_TOO_LONG_WRAPS,
	BREACH_SEQUENCE_ENDLESS,
	BREACH_SEQUENCE_SHORT, /* it ends before it is whole */
	BREACH_SEQUENCE_OVERLONG,
	BREACH_SEQUENCE_RESTART,
	BREACH_CREDIT_FLOOD,
	BREACH_CREDIT_OVERRUN,
	BREACH_TOKEN,
	BREACH_SILENCE,
	BREACH_EMPTY_FLOOD, /* breaks no rule; must not be answered one for one */
	BREACH_GONE,        /* it disconnects within a message */
	BREACHES,
};

/** A peer that speaks by the rules until it breaks one. */
struct hostile {
	enum breach breach;
	bool open;          /* it has negotiated */
	bool broken;        /* the breach is on its way, or has begun */
	bool silent;        /* it sends nothing any more */
	unsigned int good;  /* messages before */
	unsigned int flood; /* messages that are still to come of a flood */
	uint64_t act_at;
	uint32_t credits, owed, granted;
	uint32_t send_size, receive_size, message_most; /* what the other side takes */
	uint32_t remaining;                             /* of the upper message under way */
	size_t at;                                      /* in the pattern, of its next byte */
	uint64_t flooded, empties_before;
};

struct run {
	uint64_t seed;
	bool verbose;
	struct random random;
	uint64_t now;
	struct side sides[2];
	struct wire wires[2]; /* to the side of that index */
	struct hostile *hostile;
	unsigned int hostile_index;
	uint64_t delay_most;
	uint64_t link_fails_at;
	/* Ends that may be, beside those that were asked for. */
	bool may_lack, may_be_silent;
	bool finishing;    /* both users are done, and the end is being tried */
	uint64_t quiet_at; /* since when nothing moves but timers */
	uint64_t quiet_sends;
	uint64_t steps;
	bool failed;
	char why[256];
};

/** What all messages are pieces of. */
#define PATTERN_LEN (1u << 20)
extern uint8_t pattern[PATTERN_LEN];

/* ---- run.c */

/** Run a seed. @return true: nothing was found */
bool run_seed(uint64_t seed, bool verbose, char *why, size_t why_len);
/** Something does not hold: the run ends, and the first sentence is printed. */
void fail(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
void say(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Put a SEND on its way to a side. */
void wire_put(struct run *run, unsigned int to, const uint8_t *head, size_t head_len,
	      const uint8_t *payload, size_t len, const uint32_t *token);
/** Tell a side that its peer is gone: now, or behind what is on its way. */
void wire_cut(struct run *run, unsigned int to, bool behind_sends);

/* ---- plan.c */

void plan_run(struct run *run);

/* ---- side.c */

void side_begin(struct side *side);
void side_free(struct side *side);
/** A SEND has arrived. */
void side_take(struct side *side, const struct parcel *parcel);
/** When something is due next. */
uint64_t side_due(const struct side *side);
void side_step(struct side *side);
/** Does the user want nothing any more? */
bool side_is_done(const struct side *side);
bool side_is_up(const struct side *side);
/** The SEND was acknowledged. */
void side_acked(struct side *side);

/* ---- hostile.c */

void hostile_begin(struct run *run);
void hostile_take(struct run *run, const struct parcel *parcel);
void hostile_act(struct run *run);
/** What the other side has to find. */
enum smbd_end hostile_end(const struct run *run);
const char *breach_name(enum breach breach);

#endif

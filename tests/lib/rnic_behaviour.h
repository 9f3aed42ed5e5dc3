/* SPDX-License-Identifier: MIT */
/**
 * @file rnic_behaviour.h
 * Tests of what any kind of RNIC has to do, through rnic.h: two devices that reach each other, in
 * one event loop. A test program opens the two sides and runs these tests, and may add its own.
 */
#ifndef SMCRD_TESTS_RNIC_BEHAVIOUR_H
#define SMCRD_TESTS_RNIC_BEHAVIOUR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/lib/rnic_side.h"

/** Both sides need at least so many bytes of memory, and a path MTU of 4096. */
#define RNIC_BEHAVIOUR_MEM (4u << 20)

extern struct event_base *behaviour_base;
extern struct rnic_side behaviour_a, behaviour_b;

/**
 * Run the tests of any RNIC, and `own` ones of the program in front of them.
 * @return how many have failed
 */
int rnic_behaviour_run(const char *name, const struct CMUnitTest *own, size_t num_own,
		       CMFixtureFunction setup, CMFixtureFunction teardown);

/** Setup and teardown of a test: a pair of connected QPs. */
int rnic_behaviour_connect(void **state);
int rnic_behaviour_disconnect(void **state);
/** A test: RDMA WRITEs of lengths around every boundary, in both directions at once. */
void rnic_behaviour_writes(void **state);
/** The same with RDMA READs. */
void rnic_behaviour_reads(void **state);

/* ---- for the files with tests of one subject */

struct rnic_behaviour_group {
	const struct CMUnitTest *tests;
	size_t num;
};

extern const struct rnic_behaviour_group rnic_behaviour_basic;   /* rnic_behaviour.c */
extern const struct rnic_behaviour_group rnic_behaviour_read;    /* rnic_behaviour_read.c */
extern const struct rnic_behaviour_group rnic_behaviour_receive; /* rnic_behaviour_receive.c */
extern const struct rnic_behaviour_group rnic_behaviour_window;  /* rnic_behaviour_window.c */

/** Milliseconds for what has to come. */
#define RNIC_BEHAVIOUR_PATIENCE 60000

/** Connect the two sides anew, as they are set up in struct rnic_side. */
void rnic_behaviour_join(unsigned int retry_ms, unsigned int rnr_retry);
/** The QP has ended: all `num_sends` outstanding requests are reported, then the end, once. */
void rnic_behaviour_expect_end(struct rnic_side *side, size_t num_sends);
/** Wait until `side` has `num_sends` completions of requests, all of which succeeded. */
void rnic_behaviour_expect_done(struct rnic_side *side, size_t num_sends);
/** Is this the kernel's rdma_rxe, of which some tests know faults? */
bool rnic_behaviour_is_rxe(const struct rnic_side *side);

#endif

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

extern const struct CMUnitTest rnic_behaviour_tests[];
extern const size_t rnic_behaviour_num_tests;

/** Setup and teardown of a test: a pair of connected QPs. */
int rnic_behaviour_connect(void **state);
int rnic_behaviour_disconnect(void **state);
/** A test: RDMA WRITEs of lengths around every boundary, in both directions at once. */
void rnic_behaviour_writes(void **state);

#endif

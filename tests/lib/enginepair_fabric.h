/* SPDX-License-Identifier: MIT */
/** The RNICs of an engine pair; private to enginepair*.c. */
#ifndef SMCRD_TESTS_ENGINEPAIR_FABRIC_H
#define SMCRD_TESTS_ENGINEPAIR_FABRIC_H

#include "tests/lib/enginepair.h"

/** The operations that the engine of a side gets. */
struct smcr_ops pair_ops(struct pair_side *side);

/** Allocate zeroed memory for the RNICs and TCP connections. `pair_allocating` is set meanwhile, so
 * that tests which let allocations fail can spare these and hit only the engines. */
void *pair_alloc(size_t size);
extern volatile bool pair_allocating;

__attribute__((noreturn, format(printf, 1, 2))) void pair_violation(const char *format, ...);

/** Deliver one request or completion. @return false: none could be delivered now */
bool pair_fabric_step(struct pair *pair);
/** When the next QP gives up a request that cannot be delivered, or SMCR_NO_DEADLINE. */
uint64_t pair_fabric_deadline(const struct pair *pair);
/** Ask the filter about the message; log the message if it passes. */
enum pair_verdict pair_judge(struct pair *pair, const struct pair_msg *msg);
void pair_log_msg(struct pair *pair, const struct pair_msg *msg);
void pair_check_engines(struct pair *pair);
/** Names of the host resources that a side still holds; "": none. */
const char *pair_fabric_leaks(const struct pair_side *side);
void pair_fabric_unplug(struct pair_side *side, uint32_t device_id);
struct pair_qp *pair_fabric_qp(struct pair_side *side, uint64_t link_ref);
/** The QP at the far end, if it can receive. */
struct pair_qp *pair_fabric_peer(struct pair *pair, const struct pair_qp *qp);
void pair_fabric_deliver(struct pair *pair, struct pair_qp *to, const void *data, size_t len);
void pair_fabric_fail(struct pair_qp *qp);

#endif

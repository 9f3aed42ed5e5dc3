/* SPDX-License-Identifier: MIT */
/**
 * @file guard.h
 * Keeps ordinary users of the daemon's network namespace from UDP port 4791. RoCEv2 has no
 * authentication: peers take any packet from an address of this host as one of its RNIC. Programs
 * of root and of the daemon's own user may bind and send.
 */
#ifndef SMCRD_RENDEZVOUS_GUARD_H
#define SMCRD_RENDEZVOUS_GUARD_H

#include "daemon/rendezvous/option.h"
#include "daemon/rendezvous/refused.h"

struct rdv_guard;

/**
 * From now on bind(), connect() and sending to the port fail with EPERM, and sockets that are
 * connected to it are disconnected. This lasts as long as the process.
 * @param cgroup    what attach_root() gave, its error too; stays the caller's
 * @param ret_text  on failure: what is missing, for the log; room RDV_TEXT_MAX
 * @return 0, or a negative errno: everybody can use the port
 */
int rdv_guard_open(int cgroup, struct rdv_guard **ret_guard, char ret_text[RDV_TEXT_MAX]);

/** NULL is allowed. */
void rdv_guard_close(struct rdv_guard *guard);

/** Counts of refused system calls, by user. NULL: none. */
struct rdv_refused rdv_guard_refused(const struct rdv_guard *guard);

#endif

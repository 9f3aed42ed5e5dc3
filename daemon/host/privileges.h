/* SPDX-License-Identifier: MIT */
/**
 * @file privileges.h
 * What smcrd may do, and giving up the rest (docs/privileges.md).
 */
#ifndef SMCRD_HOST_PRIVILEGES_H
#define SMCRD_HOST_PRIVILEGES_H

#include <stdbool.h>

/** Is this capability (CAP_..) in effect in the calling thread? */
bool privileges_has(int capability);

/**
 * Give up for good every capability that smcrd has no use for once it knows the root of the cgroup2
 * hierarchy, in the bounding set too where that is permitted, and the chance to get one by
 * execve(). Those that are kept are CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF and CAP_PERFMON, as far as
 * the process has them; CAP_DAC_OVERRIDE only if the directory of the socket belongs to somebody
 * else; CAP_IPC_LOCK only if the limit of locked memory cannot be lifted.
 *
 * To be called while the process has one thread, since capabilities are a thread's, and before a
 * verbs device is opened, since the kernel refuses a device to a process whose capabilities have
 * changed since.
 *
 * @param directory  of the daemon's socket; exists, or smcrd does not start anyway
 * @return 0 or a negative errno
 */
int privileges_drop(const char *directory);

#endif

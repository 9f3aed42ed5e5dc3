/* SPDX-License-Identifier: MIT */
/**
 * @file privileges.h
 * Gives up the capabilities that smcrd does not need (docs/privileges.md).
 */
#ifndef SMCRD_HOST_PRIVILEGES_H
#define SMCRD_HOST_PRIVILEGES_H

#include <stdbool.h>

/** Is this capability (CAP_..) in effect in the calling thread? */
bool privileges_has(int capability);

/**
 * Give up for good all capabilities that smcrd does not need once it has found the root of the
 * cgroup2 hierarchy, from the bounding set too where that is permitted, and the possibility to gain
 * one by execve(). Of those that the process has, it keeps CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF and
 * CAP_PERFMON; CAP_DAC_OVERRIDE only if the socket's directory belongs to another user;
 * CAP_IPC_LOCK only if the limit of locked memory cannot be lifted.
 *
 * To be called while the process has one thread, since each thread has its own capabilities, and
 * before a verbs device is opened, since the kernel refuses requests on a device to a process whose
 * capabilities have changed after it opened the device.
 *
 * @param directory  directory of the daemon's socket; it exists, or smcrd would not start
 * @return 0 or a negative errno
 */
int privileges_drop(const char *directory);

#endif

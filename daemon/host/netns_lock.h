/* SPDX-License-Identifier: MIT */
/**
 * @file netns_lock.h
 * A lock that one process can hold in a network namespace. It takes CAP_NET_RAW there, ends with
 * the process that holds it, however that ends, and needs no file that processes of different
 * containers would have to see.
 */
#ifndef SMCRD_HOST_NETNS_LOCK_H
#define SMCRD_HOST_NETNS_LOCK_H

#include <sys/types.h>

/**
 * Take the lock of the calling thread's network namespace. Does not wait.
 * @return a descriptor; the lock is held until it is closed. -EBUSY: another process holds it.
 *         -EPERM: CAP_NET_RAW is missing; or another negative errno: it cannot be taken here
 */
int netns_lock_take(void);

/** The user of the process that holds the lock. @return 0 or -ENOENT */
int netns_lock_holder(uid_t *ret_uid);

#endif

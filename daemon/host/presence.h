/* SPDX-License-Identifier: MIT */
/**
 * @file presence.h
 * Tells whether other smcrd run in this network namespace. Several may serve one namespace, each
 * with its own RNICs and socket. They may see neither each other's files nor each other's process
 * ids. But abstract Unix socket names belong to the network namespace, can be listed there, and end
 * with the process that holds them. So each smcrd holds a name of its own. One common name would be
 * free again when its holder ends before the others.
 *
 * Any user can hold such a name. So only names count that root has, this process's own user, or the
 * user whose the service's socket is.
 *
 * Any thread may call these functions; they are about the thread's network namespace.
 */
#ifndef SMCRD_HOST_PRESENCE_H
#define SMCRD_HOST_PRESENCE_H

#include <stdbool.h>
#include <sys/types.h>

/** Take a name, so that others see this process. @return a handle for presence_end(), or a negative
 * errno */
int presence_show(void);
/** Give the name up. Negative values of `presence` are ignored. */
void presence_end(int presence);
/** Is there no other smcrd? Only for a process that has called presence_show() exactly once.
 * @return false also if that cannot be found out */
bool presence_is_alone(void);

/** Does somebody hold such a name who is no smcrd? @return true: `ret_uid` does */
bool presence_find_stranger(uid_t *ret_uid);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file presence.h
 * Which daemons there are in a network namespace. Several may serve one, with other RNICs and
 * another socket each; they may see neither each other's files nor each other's process ids. What
 * they share for certain are the names of the abstract Unix namespace, which belong to the network
 * namespace and end with who holds them. So each holds one of its own, and all can be listed; a
 * single name for all would be free again when its holder ends before the others.
 *
 * Any user can hold such a name: then a daemon is not alone, which must never do harm.
 *
 * All functions may be called by any thread, and mean its network namespace.
 */
#ifndef SMCRD_HOST_PRESENCE_H
#define SMCRD_HOST_PRESENCE_H

#include <stdbool.h>

/** Let others see that we are here. @return what holds the name, for presence_end(), or a negative
 *  errno */
int presence_show(void);
/** It is over. A negative `presence` is none. */
void presence_end(int presence);
/** Is nobody else here? To be called by who shows its own presence, once.
 *  @return false also where that cannot be found out */
bool presence_is_alone(void);

#endif

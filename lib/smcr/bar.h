/* SPDX-License-Identifier: MIT */
/**
 * @file bar.h
 * Listeners that somebody who does not speak CLC may accept from: nobody claims them again, be it
 * another process, or after smcrd has started anew.
 *
 * smcrd's programs know of it as long as they live (IPC_SO_BAR). The listener itself knows it by
 * an option that is TCP's without meaning anything there, that everybody may set, and that lasts
 * as long as the socket: IP_MULTICAST_ALL (for IPv6 IPV6_MULTICAST_ALL) is off. Async-signal-safe.
 */
#ifndef SMCRD_LIB_SMCR_BAR_H
#define SMCRD_LIB_SMCR_BAR_H

#include <stdbool.h>

/** Its claim, if there is one, counts no more. @return 0, -EALREADY (barred before), or another
 *  negative errno */
int pre_bar(int fd);

/** Claimed as before. Does nothing to a listener that is not barred. */
void pre_unbar(int fd);

/** Asked before a claim. A smcrd that has started since is told of it. */
bool pre_is_barred(int fd);

/** This process may hold a claimed listener from now on; children of fork() as well. */
void pre_note_listener(void);
bool pre_may_hold_listener(void);

#endif

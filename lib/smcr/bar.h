/* SPDX-License-Identifier: MIT */
/**
 * @file bar.h
 * Bars listeners from which a program that does not speak CLC may accept: no process can claim them
 * again, also after a restart of smcrd.
 *
 * smcrd's BPF programs know of the bar as long as smcrd runs (IPC_SO_BAR). The listener itself
 * carries a mark for as long as it exists: IP_MULTICAST_ALL (for IPv6 IPV6_MULTICAST_ALL) is off.
 * That option means nothing to a TCP socket, and everybody may set it. Async-signal-safe.
 */
#ifndef SMCRD_LIB_SMCR_BAR_H
#define SMCRD_LIB_SMCR_BAR_H

#include <stdbool.h>

/** Bar a listener; a claim of it ends. @return 0; -EALREADY: it is barred already; or another
 * negative errno */
int pre_bar(int fd);

/** Lift the bar and restore the claim. Does nothing to a listener that is not barred. */
void pre_unbar(int fd);

/** Is the listener barred? To be asked before a claim. Tells smcrd of the bar, which may have
 * started after it was set. */
bool pre_is_barred(int fd);

/** Note that this process, or a child of it by fork(), may hold a claimed listener. */
void pre_note_listener(void);
bool pre_may_hold_listener(void);

#endif

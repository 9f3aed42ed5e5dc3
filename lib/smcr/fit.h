/* SPDX-License-Identifier: MIT */
/**
 * @file fit.h
 * TCP sockets that could be claimed, but whose connections must stay on TCP.
 *
 * Asking the kernel at each connection would cost more than the rest of a fallback. So the preload
 * library asks before the handshake only if it has seen the program set such an option on any
 * socket. A socket on which another process has set it (before exec or descriptor passing), or a
 * raw system call, is found at the hand-over, when the kernel is asked in any case.
 */
#ifndef SMCRD_LIB_SMCR_FIT_H
#define SMCRD_LIB_SMCR_FIT_H

#include <stdbool.h>

/** Ask the kernel. @return why this socket must stay on TCP; NULL: it need not */
const char *pre_unfit(int fd);

/** The part of pre_unfit() that sockets inherit from a listener. @return as pre_unfit() */
const char *pre_unfit_to_accept(int fd);

/** Is there a reason to call pre_unfit() before the peer is promised anything? */
bool pre_may_be_unfit(int fd);

/** Note that the program is about to set an option. */
void pre_fit_note_option(int level, int name);

#endif

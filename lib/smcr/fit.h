/* SPDX-License-Identifier: MIT */
/**
 * @file fit.h
 * TCP sockets whose connections must stay on TCP, although they could be claimed.
 *
 * Asking the kernel for each connection would cost more than everything else that a fallback takes,
 * so the preload library asks where it has seen the program set such an option, on any socket. One
 * that came with it from another process (exec, descriptor passing) or was set behind the library's
 * back shows when the connection is about to be handed over, for which the kernel is asked in any
 * case.
 */
#ifndef SMCRD_LIB_SMCR_FIT_H
#define SMCRD_LIB_SMCR_FIT_H

#include <stdbool.h>

/** Asks the kernel. @return NULL, or why this socket must stay on TCP */
const char *pre_unfit(int fd);

/** Is there a cause to ask before the peer is promised anything? */
bool pre_may_be_unfit(int fd);

/** The program is about to set an option. */
void pre_fit_note_option(int level, int name);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file ready.h
 * The library that contains the core: has it begun in this process, and what does it see?
 */
#ifndef SMCRD_LIB_SMCR_READY_H
#define SMCRD_LIB_SMCR_READY_H

#include <stdbool.h>

/**
 * Find the next functions (next.h), read the environment (settings.h) and begin what else has to be
 * begun, if that was not done before. A constructor calls it. A constructor of another library may
 * be earlier, so each interposed function that needs more than pre_next calls it too.
 * @return true: the core may be used; false: another thread, or this one further up the stack, is
 *         doing that right now, and the caller has to make the system call directly
 */
bool pre_ready(void);

/**
 * Does this library see the program's calls of epoll_ctl(), setsockopt(), dup() and close()? If
 * not, the TCP socket comes back only when the program asks for it, since epoll registrations would
 * be lost (status.h); the kernel is asked for options (fit.h); and duplicates are always searched
 * for (holders.h). Defined by each library that contains the core.
 */
extern const bool pre_sees_calls;

#endif

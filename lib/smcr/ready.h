/* SPDX-License-Identifier: MIT */
/**
 * @file ready.h
 * The beginning of the library in a process.
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

#endif

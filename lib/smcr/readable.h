/* SPDX-License-Identifier: MIT */
/**
 * @file readable.h
 * Whether memory that a program names can be read, where the kernel would answer with EFAULT and
 * the library has to look at the memory itself.
 */
#ifndef SMCRD_LIB_SMCR_READABLE_H
#define SMCRD_LIB_SMCR_READABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/smcr/settings.h"
#include "lib/smcr/sys.h"

/**
 * Can all these bytes be read? Async-signal-safe and thread safe.
 *
 * Nobody asks the kernel under valgrind. The question reads bytes that the program need not have
 * set, as those of a buffer for an answer, and valgrind would report that as an error of the
 * program. It reports a bad address itself.
 *
 * @param len  not 0
 */
static inline bool pre_is_readable(const void *at, size_t len)
{
	return pre_settings.valgrind || sys_is_readable(at, len);
}

#endif

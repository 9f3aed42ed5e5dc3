/* SPDX-License-Identifier: MIT */
/**
 * @file fuzz.h
 * What the libFuzzer targets share. A target gets its input in a heap block of exactly that size,
 * so that the address sanitizer sees any read past the end.
 */
#ifndef SMCRD_TESTS_FUZZ_H
#define SMCRD_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/** Called by libFuzzer once an input. @return 0 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/** A property that holds whatever the input; otherwise the run ends and the input is kept. */
static inline void must(bool ok)
{
	if (!ok)
		abort();
}

#endif

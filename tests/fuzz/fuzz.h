/* SPDX-License-Identifier: MIT */
/**
 * @file fuzz.h
 * What the libFuzzer targets share. libFuzzer passes the input in a heap block of exactly its size,
 * so that the address sanitizer sees any read past the end.
 */
#ifndef SMCRD_TESTS_FUZZ_H
#define SMCRD_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/** libFuzzer calls this once for each input. @return 0 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/** A property that must hold for any input. If it does not, the run ends and libFuzzer keeps the
 * input. */
static inline void must(bool ok)
{
	if (!ok)
		abort();
}

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file random.h
 * Repeatable pseudo-random values for tests (xorshift64*): same seed, same run.
 */
#ifndef SMCRD_TESTS_RANDOM_H
#define SMCRD_TESTS_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct random {
	uint64_t state; /* start with any value but 0 */
};

static inline uint64_t random_u64(struct random *r)
{
	r->state ^= r->state >> 12;
	r->state ^= r->state << 25;
	r->state ^= r->state >> 27;
	return r->state * UINT64_C(0x2545F4914F6CDD1D);
}

/** A number below `limit`, which must not be 0. */
static inline uint32_t random_below(struct random *r, uint32_t limit)
{
	return (uint32_t)((random_u64(r) >> 32) % limit);
}

static inline void random_bytes(struct random *r, void *bytes, size_t len)
{
	uint8_t *p = bytes;
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(random_u64(r) >> 56);
}

#endif

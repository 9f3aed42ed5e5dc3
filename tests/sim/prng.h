/* SPDX-License-Identifier: MIT */
/**
 * @file prng.h
 * Random numbers that a seed decides: xoshiro256** seeded by splitmix64 (Blackman and Vigna, public
 * domain).
 */
#ifndef SMCRD_TESTS_SIM_PRNG_H
#define SMCRD_TESTS_SIM_PRNG_H

#include <stdbool.h>
#include <stdint.h>

struct prng {
	uint64_t s[4];
};

void prng_seed(struct prng *p, uint64_t seed);
uint64_t prng_next(struct prng *p);
/** Uniform in lo..hi, both included. */
uint64_t prng_range(struct prng *p, uint64_t lo, uint64_t hi);
/** True in `permille` of 1000 cases. */
bool prng_chance(struct prng *p, unsigned int permille);
/** lo..hi, small values as likely as large ones (uniform in the logarithm). */
uint64_t prng_size(struct prng *p, uint64_t lo, uint64_t hi);
/** One step of splitmix64: a well mixed function of its argument. */
uint64_t prng_mix(uint64_t x);

#endif

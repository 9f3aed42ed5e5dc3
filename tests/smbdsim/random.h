/* SPDX-License-Identifier: MIT */
/**
 * @file random.h
 * Random numbers of a seed (splitmix64).
 */
#ifndef SMCRD_TESTS_SMBDSIM_RANDOM_H
#define SMCRD_TESTS_SMBDSIM_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct random {
	uint64_t state;
};

static inline uint64_t random_next(struct random *random)
{
	uint64_t x = random->state += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/** From `least` to `most`, both included. */
static inline uint64_t random_range(struct random *random, uint64_t least, uint64_t most)
{
	return least + random_next(random) % (most - least + 1);
}

/** The same; small numbers are as likely as large ones are in orders of two. */
static inline uint64_t random_size(struct random *random, uint64_t least, uint64_t most)
{
	unsigned int bits = 1;
	while (bits < 63 && (most - least) >> bits)
		bits++;
	const uint64_t top = UINT64_C(1) << random_range(random, 0, bits);
	const uint64_t add = random_next(random) % top;
	return add > most - least ? most : least + add;
}

static inline bool random_chance(struct random *random, unsigned int of_thousand)
{
	return random_next(random) % 1000 < of_thousand;
}

#endif

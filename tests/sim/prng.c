/* SPDX-License-Identifier: MIT */
#include "tests/sim/prng.h"

uint64_t prng_mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

void prng_seed(struct prng *p, uint64_t seed)
{
	for (int i = 0; i < 4; i++) {
		p->s[i] = prng_mix(seed);
		seed += UINT64_C(0x9e3779b97f4a7c15);
	}
}

static uint64_t rotl(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

uint64_t prng_next(struct prng *p)
{
	uint64_t *s = p->s;
	uint64_t result = rotl(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;
	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return result;
}

uint64_t prng_range(struct prng *p, uint64_t lo, uint64_t hi)
{
	if (hi <= lo)
		return lo;
	uint64_t span = hi - lo + 1;
	return span ? lo + prng_next(p) % span : prng_next(p);
}

bool prng_chance(struct prng *p, unsigned int permille)
{
	return permille && prng_next(p) % 1000 < permille;
}

uint64_t prng_size(struct prng *p, uint64_t lo, uint64_t hi)
{
	if (hi <= lo)
		return lo;
	unsigned int bits = 64 - (unsigned int)__builtin_clzll(hi - lo);
	uint64_t top = UINT64_C(1) << prng_range(p, 0, bits > 63 ? 63 : bits);
	uint64_t add = prng_next(p) % top;
	return add > hi - lo ? hi : lo + add;
}

/* SPDX-License-Identifier: MIT */
#include "daemon/cm/siphash.h"

enum {
	ROUNDS = 2, /* for each word */
	FINAL_ROUNDS = 4,
};

struct state {
	uint64_t v0, v1, v2, v3;
};

/* The algorithm is defined in little endian. */
static uint64_t word(const uint8_t *bytes, size_t len)
{
	uint64_t value = 0;
	for (size_t i = 0; i < len; i++)
		value |= (uint64_t)bytes[i] << (8 * i);
	return value;
}

static uint64_t rotate(uint64_t value, unsigned int bits)
{
	return value << bits | value >> (64 - bits);
}

static void rounds(struct state *s, unsigned int count)
{
	while (count--) {
		s->v0 += s->v1;
		s->v1 = rotate(s->v1, 13) ^ s->v0;
		s->v0 = rotate(s->v0, 32);
		s->v2 += s->v3;
		s->v3 = rotate(s->v3, 16) ^ s->v2;
		s->v0 += s->v3;
		s->v3 = rotate(s->v3, 21) ^ s->v0;
		s->v2 += s->v1;
		s->v1 = rotate(s->v1, 17) ^ s->v2;
		s->v2 = rotate(s->v2, 32);
	}
}

static void add(struct state *s, uint64_t value)
{
	s->v3 ^= value;
	rounds(s, ROUNDS);
	s->v0 ^= value;
}

uint64_t siphash(const uint8_t key[16], const void *data, size_t len)
{
	const uint8_t *bytes = data;
	uint64_t k0 = word(key, 8), k1 = word(key + 8, 8);
	struct state s = { k0 ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d),
			   k0 ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573) };
	size_t whole = len / 8 * 8;
	for (size_t at = 0; at < whole; at += 8)
		add(&s, word(bytes + at, 8));
	add(&s, (uint64_t)len << 56 | word(bytes + whole, len - whole));
	s.v2 ^= 0xff;
	rounds(&s, FINAL_ROUNDS);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

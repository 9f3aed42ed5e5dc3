/* SPDX-License-Identifier: MIT */
/* Positions and cursors: cursor.h against the rules of RFC 7609, and against counting byte by
 * byte. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/smcr/cursor.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

/* Sizes of elements in both dialects: powers of two, others, and the smallest possible. */
static const struct smcr_ring rings[] = {
	{ 10000, 9996 },    { 10000, 10000 },   { 16384, 16380 }, { 16384, 16384 },
	{ 524288, 524284 }, { 524288, 524288 }, { 5, 1 },         { 7, 3 },
	{ 1, 1 },           { 65536, 65532 },
};
#define NUM_RINGS (sizeof(rings) / sizeof(rings[0]))

static uint64_t seed = 0x2545F4914F6CDD1D;

static uint64_t random64(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static void starts_at_the_first_usable_byte(void **state)
{
	(void)state;
	struct smcr_cdc_cursor c = smcr_cursor_encode((struct smcr_ring){ 10000, 9996 }, 0);
	assert_int_equal(c.wrap, 0);
	assert_int_equal(c.offset, 4);
	c = smcr_cursor_encode((struct smcr_ring){ 16384, 16384 }, 0);
	assert_int_equal(c.wrap, 0);
	assert_int_equal(c.offset, 0);
	PROVES("CDC-7");
}

/* Counts a cursor up one byte at a time as the RFC says: up to E-1, then from the first usable
 * offset on with the next wrap number, 65535 -> 0. */
static void agrees_with_counting(void **state)
{
	(void)state;
	for (size_t i = 0; i < NUM_RINGS; i++) {
		TRIES("%u bytes, %u usable", rings[i].size, rings[i].usable);
		uint32_t base = rings[i].size - rings[i].usable;
		/* Begin shortly before the wrap number itself wraps. */
		uint64_t pos = (uint64_t)65535 * rings[i].usable;
		uint16_t wrap = 65535;
		uint32_t offset = base;
		uint64_t steps = 2 * (uint64_t)rings[i].usable + 3;
		for (uint64_t n = 0; n < steps; n++, pos++) {
			struct smcr_cdc_cursor c = smcr_cursor_encode(rings[i], pos);
			assert_int_equal(c.wrap, wrap);
			assert_int_equal(c.offset, offset);
			assert_in_range(c.offset, base, rings[i].size - 1);
			assert_int_equal(smcr_ring_offset(rings[i], pos), offset);
			assert_int_equal(smcr_ring_run(rings[i], pos), rings[i].size - offset);
			if (++offset == rings[i].size) {
				offset = base;
				wrap++;
			}
		}
	}
	PROVES("CDC-7 CDC-8");
}

/* Any position within the window decodes to itself, however far the stream has come. */
static void round_trip(void **state)
{
	(void)state;
	for (size_t i = 0; i < NUM_RINGS; i++) {
		TRIES("%u bytes, %u usable", rings[i].size, rings[i].usable);
		for (unsigned int n = 0; n < 20000; n++) {
			uint64_t known = random64() >> (random64() % 60);
			if (known > UINT64_MAX / 2)
				known /= 4;
			uint64_t room = random64() % (rings[i].usable + 1);
			uint64_t pos = known + random64() % (room + 1), got = 0;
			struct smcr_cdc_cursor c = smcr_cursor_encode(rings[i], pos);
			assert_int_equal(smcr_cursor_decode(rings[i], c, known, known + room, &got),
					 0);
			assert_true(got == pos);
		}
	}
	PROVES("CDC-7 CDC-8");
}

/* CDC-9: equal offsets mean empty or full; the wrap numbers tell which. */
static void empty_and_full(void **state)
{
	(void)state;
	for (size_t i = 0; i < NUM_RINGS; i++) {
		TRIES("%u bytes, %u usable", rings[i].size, rings[i].usable);
		uint64_t known = (uint64_t)65535 * rings[i].usable + rings[i].usable / 2, got = 0;
		uint64_t full = known + rings[i].usable;
		struct smcr_cdc_cursor c = smcr_cursor_encode(rings[i], known);
		struct smcr_cdc_cursor d = smcr_cursor_encode(rings[i], full);
		assert_int_equal(c.offset, d.offset);
		assert_int_equal((uint16_t)(d.wrap - c.wrap), 1);
		assert_int_equal(d.wrap, 0); /* 65535 -> 0 */
		assert_int_equal(smcr_cursor_decode(rings[i], c, known, full, &got), 0);
		assert_true(got == known);
		assert_int_equal(smcr_cursor_decode(rings[i], d, known, full, &got), 0);
		assert_true(got == full);
	}
	PROVES("CDC-9");
}

/* Of all cursors that a message can carry, exactly those within the window are taken, and those up
 * to U bytes behind, which change nothing (A44). */
static void outside_is_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < NUM_RINGS; i++) {
		TRIES("%u bytes, %u usable", rings[i].size, rings[i].usable);
		uint32_t base = rings[i].size - rings[i].usable;
		for (unsigned int n = 0; n < 50000; n++) {
			uint64_t known = random64() % (UINT64_C(1) << 40) + rings[i].usable;
			uint64_t limit = known + random64() % (rings[i].usable + 1);
			struct smcr_cdc_cursor c = { (uint16_t)random64(), 0 };
			uint64_t got = 77;
			switch (random64() % 3) {
			case 0: c.offset = (uint32_t)random64(); break;
			case 1: c.offset = base + (uint32_t)(random64() % rings[i].usable); break;
			default:
				c = smcr_cursor_encode(rings[i],
						       known - rings[i].usable +
							       random64() % (3 * rings[i].usable));
			}
			int rc = smcr_cursor_decode(rings[i], c, known, limit, &got);
			if (c.offset < base || c.offset >= rings[i].size) {
				assert_int_equal(rc, -ERANGE);
				assert_int_equal(got, 77);
			} else if (rc == 0) {
				assert_true(got >= known && got <= limit);
				struct smcr_cdc_cursor d = smcr_cursor_encode(rings[i], got);
				assert_true(got == known ||
					    (d.wrap == c.wrap && d.offset == c.offset));
			} else {
				assert_int_equal(got, 77);
			}
		}
		/* Positions at the limits of what is taken. */
		uint64_t known = 10ull * rings[i].usable, limit = known + rings[i].usable / 2, got;
		struct smcr_cdc_cursor c = smcr_cursor_encode(rings[i], limit + 1);
		assert_int_equal(smcr_cursor_decode(rings[i], c, known, limit, &got), -ERANGE);
		c = smcr_cursor_encode(rings[i], known - rings[i].usable);
		assert_int_equal(smcr_cursor_decode(rings[i], c, known, limit, &got), 0);
		assert_true(got == known);
		c = smcr_cursor_encode(rings[i], known - rings[i].usable - 1);
		assert_int_equal(smcr_cursor_decode(rings[i], c, known, limit, &got), -ERANGE);
	}
	/* There is no position before the start of the stream. */
	struct smcr_ring ring = { 10000, 9996 };
	uint64_t got;
	assert_int_equal(
		smcr_cursor_decode(ring, (struct smcr_cdc_cursor){ 65535, 9999 }, 0, 9996, &got),
		-ERANGE);
	assert_int_equal(
		smcr_cursor_decode(ring, (struct smcr_cdc_cursor){ 0, 10000 }, 0, 9996, &got),
		-ERANGE);
	assert_int_equal(smcr_cursor_decode(ring, (struct smcr_cdc_cursor){ 0, 3 }, 0, 9996, &got),
			 -ERANGE);
	PROVES("CDC-12 SEC-6");
}

static void sequence_numbers(void **state)
{
	(void)state;
	assert_true(smcr_cdc_seq_newer(1, 0));
	assert_false(smcr_cdc_seq_newer(1, 1));
	assert_false(smcr_cdc_seq_newer(0, 1));
	assert_true(smcr_cdc_seq_newer(0, 65535));
	assert_false(smcr_cdc_seq_newer(65535, 0));
	assert_true(smcr_cdc_seq_newer(32767, 0));
	assert_false(smcr_cdc_seq_newer(32769, 0));
	for (uint32_t a = 0; a < 65536; a += 251)
		for (uint32_t d = 1; d < 32768; d += 127) {
			assert_true(smcr_cdc_seq_newer((uint16_t)(a + d), (uint16_t)a));
			assert_false(smcr_cdc_seq_newer((uint16_t)a, (uint16_t)(a + d)));
		}
	PROVES("CDC-3");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(starts_at_the_first_usable_byte),
		cmocka_unit_test(agrees_with_counting),
		cmocka_unit_test(round_trip),
		cmocka_unit_test(empty_and_full),
		cmocka_unit_test(outside_is_refused),
		cmocka_unit_test(sequence_numbers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

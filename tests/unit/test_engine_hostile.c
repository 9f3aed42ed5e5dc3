/* SPDX-License-Identifier: MIT */
/* A peer that sends anything: the engine's fuzz target with a fixed set of generated inputs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/fuzz/fuzz_engine.c"
#include "tests/lib/proves.h"

#define INPUTS 400

static uint64_t state = 0x9E3779B97F4A7C15;

static uint8_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint8_t)(state >> 32);
}

/** Makes steps that lead further than raw bytes: connections, time, forged messages. */
static size_t make_input(uint8_t *buf, size_t max)
{
	static const uint8_t steps[] = {
		0, 2, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 11, 12, 13, 14, 15
	};
	size_t len = 0;
	buf[len++] = draw();
	while (len + 12 < max) {
		buf[len++] = draw() % 2;
		buf[len++] = draw() % 4;
		buf[len++] = steps[draw() % sizeof(steps)];
		for (unsigned int n = draw() % 9; n > 0; n--)
			buf[len++] = draw() % 2 ? draw() : draw() % 4;
	}
	return len;
}

static void anything_from_the_peer(void **unused)
{
	uint8_t buf[400];
	(void)unused;
	for (int i = 0; i < INPUTS; i++)
		assert_int_equal(LLVMFuzzerTestOneInput(buf, make_input(buf, 60 + draw() % 340)),
				 0);
	PROVES("SEC-6");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(anything_from_the_peer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

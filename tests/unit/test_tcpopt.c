/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/smcr/tcpopt.h"
#include "tests/lib/hex.h"
#include "tests/lib/proves.h"
#include "tests/lib/random.h"
#include "tests/lib/tries.h"

#define SMCR 0xFE, 0x06, 0xE2, 0xD4, 0xC3, 0xD9

/* Searches a copy of exactly this size: the address sanitizer sees a read behind its end. */
static int find(const uint8_t *options, size_t len)
{
	uint8_t *copy = exact_copy(options, len);
	int rc = smcr_tcpopt_find(copy, len);
	free(copy);
	return rc;
}

#define FIND(...) find((const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }))

static void emits_the_exact_bytes(void **state)
{
	(void)state;
	uint8_t buf[8];
	memset(buf, 0x55, sizeof(buf));
	assert_int_equal(smcr_tcpopt_encode(buf, sizeof(buf)), 6);
	const uint8_t golden[] = { SMCR, 0x55, 0x55 };
	assert_memory_equal(buf, golden, sizeof(golden));
	PROVES("TCPO-1");
}

static void needs_six_bytes_of_room(void **state)
{
	(void)state;
	uint8_t buf[6];
	for (size_t len = 0; len < 6; len++)
		assert_int_equal(smcr_tcpopt_encode(buf, len), -ENOBUFS);
	assert_int_equal(smcr_tcpopt_encode(buf, 6), 6);
}

static void finds_it_among_other_options(void **state)
{
	(void)state;
	assert_int_equal(FIND(SMCR), 1);
	assert_int_equal(FIND(1, 1, SMCR), 1);
	/* As Linux sends it: MSS, SACK permitted, timestamps, window scale, NOPs. */
	assert_int_equal(
		FIND(2, 4, 5, 0xB4, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7, 1, 1, SMCR),
		1);
	assert_int_equal(FIND(SMCR, 1, 1, 0), 1);
	/* Behind the option of TCP Fast Open. */
	assert_int_equal(FIND(0xFE, 4, 0xF9, 0x89, SMCR), 1);
	PROVES("TCPO-7");
}

static void other_experiments_are_not_smcr(void **state)
{
	(void)state;
	assert_int_equal(smcr_tcpopt_find(NULL, 0), 0);
	assert_int_equal(FIND(1, 1, 1, 1), 0);
	assert_int_equal(FIND(0xFE, 6, 0xE2, 0xD4, 0xC3, 0xC4), 0); /* SMC-D */
	assert_int_equal(FIND(0xFE, 4, 0xE2, 0xD4), 0);
	assert_int_equal(FIND(0xFE, 8, 0xE2, 0xD4, 0xC3, 0xD9, 0, 0), 0);
	assert_int_equal(FIND(0xFE, 5, 0xE2, 0xD4, 0xC3), 0);
	/* The other kind for experiments. */
	assert_int_equal(FIND(0xFD, 6, 0xE2, 0xD4, 0xC3, 0xD9), 0);
	assert_int_equal(FIND(0xFE, 2), 0);
	assert_int_equal(FIND(1, 0, SMCR), 0); /* behind the end of the list */
	PROVES("TCPO-7");
}

static void malformed_lists_are_refused(void **state)
{
	(void)state;
	assert_int_equal(FIND(0xFE), -EBADMSG);
	assert_int_equal(FIND(0xFE, 0), -EBADMSG);
	assert_int_equal(FIND(0xFE, 1, SMCR), -EBADMSG);
	assert_int_equal(FIND(8, 10, 0, 0), -EBADMSG);
	const uint8_t golden[] = { SMCR };
	for (size_t len = 1; len < sizeof(golden); len++) {
		TRIES("length %zu", len);
		assert_int_equal(find(golden, len), -EBADMSG);
	}
	/* The option is found, whatever follows. */
	assert_int_equal(FIND(SMCR, 0xFE), 1);
}

static void random_areas_are_bounded(void **state)
{
	(void)state;
	struct random random = { 7609 };
	for (int i = 0; i < 20000; i++) {
		uint8_t area[40];
		size_t len = random_below(&random, sizeof(area) + 1);
		random_bytes(&random, area, len);
		int rc = find(area, len);
		assert_true(rc == 0 || rc == 1 || rc == -EBADMSG);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(emits_the_exact_bytes),
		cmocka_unit_test(needs_six_bytes_of_room),
		cmocka_unit_test(finds_it_among_other_options),
		cmocka_unit_test(other_experiments_are_not_smcr),
		cmocka_unit_test(malformed_lists_are_refused),
		cmocka_unit_test(random_areas_are_bounded),
	};
	return cmocka_run_group_tests_name("tcpopt", tests, NULL, NULL);
}

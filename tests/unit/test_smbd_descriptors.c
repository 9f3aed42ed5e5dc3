/* SPDX-License-Identifier: MIT */
/* Where a transfer goes in a list of Buffer Descriptors. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "daemon/smbdirect/descriptors.h"
#include "tests/lib/proves.h"
#include "tests/lib/random.h"

#define MOST 1048576

static void a_part_over_two_pieces(void **state)
{
	(void)state;
	const struct smbdirect_descriptor list[] = {
		{ 0x10000, 1, 4096 },
		{ 0x20000, 2, 8192 },
		{ 0x30000, 3, 100 },
	};
	struct smbdirect_descriptor parts[3];
	assert_int_equal(smbd_descriptors_length(list, 3), 12388);
	assert_int_equal(smbd_descriptors_locate(list, 3, 5000, 7300, MOST, parts), 2);
	assert_int_equal(parts[0].offset, 0x20000 + 904);
	assert_int_equal(parts[0].token, 2);
	assert_int_equal(parts[0].length, 7288);
	assert_int_equal(parts[1].offset, 0x30000);
	assert_int_equal(parts[1].token, 3);
	assert_int_equal(parts[1].length, 12);
	PROVES("SMBD-147 SMBD-149 SMBD-150");
}

static void a_part_of_one_piece(void **state)
{
	(void)state;
	const struct smbdirect_descriptor list[] = { { 0x10000, 1, 0 }, { 0x20000, 2, 8192 } };
	struct smbdirect_descriptor parts[2];
	assert_int_equal(smbd_descriptors_locate(list, 2, 100, 50, MOST, parts), 1);
	assert_int_equal(parts[0].offset, 0x20000 + 100);
	assert_int_equal(parts[0].length, 50);
	assert_int_equal(smbd_descriptors_locate(list, 2, 0, 8192, MOST, parts), 1);
	assert_int_equal(parts[0].length, 8192);
	PROVES("SMBD-150 SMBD-151");
}

static void parts_that_cannot_be(void **state)
{
	(void)state;
	const struct smbdirect_descriptor list[] = { { 0x10000, 1, 4096 }, { 0x20000, 2, 100 } };
	const struct smbdirect_descriptor high[] = { { UINT64_MAX - 10, 1, 4096 } };
	struct smbdirect_descriptor parts[2];
	assert_int_equal(smbd_descriptors_locate(list, 2, 0, 0, MOST, parts), -EINVAL);
	assert_int_equal(smbd_descriptors_locate(list, 2, 0, 4197, MOST, parts), -ERANGE);
	assert_int_equal(smbd_descriptors_locate(list, 2, 4195, 2, MOST, parts), -ERANGE);
	assert_int_equal(smbd_descriptors_locate(list, 2, 4196, 1, MOST, parts), -ERANGE);
	assert_int_equal(smbd_descriptors_locate(list, 2, UINT64_MAX, 1, MOST, parts), -ERANGE);
	assert_int_equal(smbd_descriptors_locate(list, 0, 0, 1, MOST, parts), -ERANGE);
	assert_int_equal(smbd_descriptors_locate(list, 2, 0, 1001, 1000, parts), -EMSGSIZE);
	assert_int_equal(smbd_descriptors_locate(list, 2, 0, 1000, 1000, parts), 1);
	assert_int_equal(smbd_descriptors_locate(high, 1, 20, 1, MOST, parts), -ERANGE);
	assert_int_equal(smbd_descriptors_locate(high, 1, 0, 11, MOST, parts), -ERANGE);
	assert_int_equal(smbd_descriptors_locate(high, 1, 0, 10, MOST, parts), 1);
	PROVES("SMBD-151 SMBD-154 SMBD-169");
}

/* A list of pieces of one buffer gives each byte of a part once, in its order. */
static void parts_agree_with_a_plain_buffer(void **state)
{
	(void)state;
	struct random random = { 7 };
	for (int run = 0; run < 20000; run++) {
		struct smbdirect_descriptor list[6], parts[6];
		uint64_t starts[6], total = 0;
		size_t n = 1 + random_below(&random, 6);
		for (size_t i = 0; i < n; i++) {
			list[i] = (struct smbdirect_descriptor){ (uint64_t)i << 32, (uint32_t)i,
								 random_below(&random, 50) };
			starts[i] = total;
			total += list[i].length;
		}
		uint64_t offset = random_below(&random, 300), at = offset;
		uint32_t length = 1 + random_below(&random, 200);
		int found = smbd_descriptors_locate(list, n, offset, length, MOST, parts);
		assert_true((found < 0) == (offset + length > total));
		for (int i = 0; i < found; i++) {
			assert_true(parts[i].length > 0);
			assert_int_equal(starts[parts[i].token] + (parts[i].offset & UINT32_MAX),
					 at);
			at += parts[i].length;
		}
		if (found >= 0)
			assert_int_equal(at, offset + length);
	}
	PROVES("SMBD-149 SMBD-150");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_part_over_two_pieces),
		cmocka_unit_test(a_part_of_one_piece),
		cmocka_unit_test(parts_that_cannot_be),
		cmocka_unit_test(parts_agree_with_a_plain_buffer),
	};
	return cmocka_run_group_tests_name("smbd: descriptors", tests, NULL, NULL);
}

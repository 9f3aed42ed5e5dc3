/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "proto/smcr/eid.h"
#include "tests/lib/tries.h"

#define LONGEST "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"

static void ueids_from_configuration(void **state)
{
	(void)state;
	const char *const good[] = { "SMCLAB", "A", "0", "9.A-B", "A..", LONGEST };
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		TRIES("%s", good[i]);
		uint8_t eid[SMCR_EID_LEN];
		uint8_t padded[SMCR_EID_LEN];
		char text[SMCR_EID_TEXT_LEN];
		memset(padded, ' ', sizeof(padded));
		memcpy(padded, good[i], strlen(good[i]));
		assert_int_equal(smcr_ueid_parse(good[i], eid), 0);
		assert_memory_equal(eid, padded, sizeof(eid));
		smcr_eid_text(eid, text);
		assert_string_equal(text, good[i]);
	}
}

static void texts_that_are_no_ueids(void **state)
{
	(void)state;
	const char *const bad[] = { "",     " ",    ".A",    "-A",      "smclab",    "SMC LAB",
				    "SMC ", " SMC", "SMC_1", "SMC\xC3", LONGEST "6", LONGEST " " };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		TRIES("%s", bad[i]);
		uint8_t eid[SMCR_EID_LEN] = { 0x55 };
		assert_int_equal(smcr_ueid_parse(bad[i], eid), -EINVAL);
		assert_int_equal(eid[0], 0x55);
	}
}

static void names_of_peers_are_harmless_text(void **state)
{
	(void)state;
	uint8_t eid[SMCR_EID_LEN];
	char text[SMCR_EID_TEXT_LEN];
	for (unsigned int byte = 0; byte < 256; byte++) {
		memset(eid, 'X', sizeof(eid));
		eid[3] = (uint8_t)byte;
		smcr_eid_text(eid, text);
		assert_int_equal(strlen(text), SMCR_EID_LEN);
		assert_int_equal(text[3], byte >= ' ' && byte <= '~' ? (char)byte : '?');
	}
	memset(eid, ' ', sizeof(eid));
	smcr_eid_text(eid, text);
	assert_string_equal(text, "");
	/* Release 0 sends zeros for a host name that it does not know. */
	memset(eid, 0, sizeof(eid));
	smcr_eid_text(eid, text);
	assert_string_equal(text, "");
}

/* The client's first EID that the server has is taken. EIDs are compared as 32 bytes. */
static void the_client_ranks_eids(void **state)
{
	(void)state;
	uint8_t offered[3][SMCR_EID_LEN];
	uint8_t own[2][SMCR_EID_LEN];
	assert_int_equal(smcr_ueid_parse("FIRST", offered[0]), 0);
	assert_int_equal(smcr_ueid_parse("SECOND", offered[1]), 0);
	assert_int_equal(smcr_ueid_parse("THIRD", offered[2]), 0);
	assert_int_equal(smcr_ueid_parse("THIRD", own[0]), 0);
	assert_int_equal(smcr_ueid_parse("SECOND", own[1]), 0);
	assert_int_equal(smcr_eid_choose(offered, 3, own, 2), 1);
	assert_int_equal(smcr_eid_choose(offered, 3, own, 1), 2);
	assert_int_equal(smcr_eid_choose(offered, 1, own, 2), -ENOENT);
	assert_int_equal(smcr_eid_choose(offered, 0, own, 2), -ENOENT);
	assert_int_equal(smcr_eid_choose(offered, 3, own, 0), -ENOENT);
	offered[1][31] = 0; /* other bytes behind the name */
	assert_int_equal(smcr_eid_choose(offered, 3, own, 2), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ueids_from_configuration),
		cmocka_unit_test(texts_that_are_no_ueids),
		cmocka_unit_test(names_of_peers_are_harmless_text),
		cmocka_unit_test(the_client_ranks_eids),
	};
	return cmocka_run_group_tests_name("eid", tests, NULL, NULL);
}

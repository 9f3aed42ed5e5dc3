/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "proto/smcr/reason.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

static const uint32_t ours[] = {
	SMCR_REASON_NONE,
	SMCR_REASON_NO_MEMORY,
	SMCR_REASON_CONFIRM_LINK_FAILED,
	SMCR_REASON_ADD_LINK_FAILED,
	SMCR_REASON_CONFIG,
	SMCR_REASON_PEER_NO_SMC,
	SMCR_REASON_LOCAL_POLICY,
	SMCR_REASON_IPSEC,
	SMCR_REASON_NO_DEVICE,
	SMCR_REASON_NO_R_DEVICE,
	SMCR_REASON_NO_UEID,
	SMCR_REASON_RELEASE_MISMATCH,
	SMCR_REASON_MAX_CONNS,
	SMCR_REASON_MAX_LINKS,
	SMCR_REASON_MODE_MISMATCH,
	SMCR_REASON_EYE_CATCHER,
	SMCR_REASON_SOCKET_OPTION,
	SMCR_REASON_PREFIX_MISMATCH,
	SMCR_REASON_VLAN,
	SMCR_REASON_NO_ACTIVE_LINK,
	SMCR_REASON_UNKNOWN_LINK,
	SMCR_REASON_VERSION_MISMATCH,
	SMCR_REASON_NO_ROUTE,
	SMCR_REASON_NOT_INDIRECT,
	SMCR_REASON_OUT_OF_SYNC,
	SMCR_REASON_PEER_DECLINED,
	SMCR_REASON_INTERNAL,
	SMCR_REASON_RTOKEN,
	SMCR_REASON_QP_NOT_READY,
	SMCR_REASON_RKEY_EXCHANGE,
	SMCR_REASON_BAD_ENUM,
	SMCR_REASON_RMBE_EXHAUSTED,
	SMCR_REASON_PEER_SKIPPED,
	SMCR_REASON_NO_BPF,
	SMCR_REASON_SHUTTING_DOWN,
	SMCR_REASON_NOT_CLAIMED,
	SMCR_REASON_UEID_MISMATCH,
	SMCR_REASON_NO_ANSWER,
	SMCR_REASON_PATH_MTU,
	SMCR_REASON_LIMIT,
	SMCR_REASON_NO_DESCRIPTORS,
	SMCR_REASON_NO_DAEMON,
	SMCR_REASON_DRAINING,
	SMCR_REASON_OPTION_REMOVED,
	SMCR_REASON_OWN_HOST,
	SMCR_REASON_SHORT_CONNECTIONS,
	SMCR_REASON_BARRED,
	SMCR_REASON_OTHER_NETWORK,
	SMCR_REASON_TCP_MESSAGES,
};
#define NUM_OURS (sizeof(ours) / sizeof(ours[0]))

/* Codes that deployed peers send, but smcrd does not. */
static const uint32_t theirs[] = {
	0x03030001, 0x03030003, 0x03030004, 0x03030005,
	0x03030006, 0x03030007, 0x03090000, 0x030d0000,
};
#define NUM_THEIRS (sizeof(theirs) / sizeof(theirs[0]))

static uint32_t code(size_t i)
{
	return i < NUM_OURS ? ours[i] : theirs[i - NUM_OURS];
}

static void is_a_name(const char *name)
{
	assert_string_not_equal(name, "unknown");
	assert_true(islower((unsigned char)name[0]));
	for (const char *c = name; *c; c++)
		assert_true(islower((unsigned char)*c) || isdigit((unsigned char)*c) || *c == '-');
}

static void every_code_has_a_name_and_a_sentence(void **state)
{
	(void)state;
	for (size_t i = 0; i < NUM_OURS; i++) {
		TRIES("code %#x", ours[i]);
		is_a_name(smcr_reason_name(ours[i]));
		assert_true(strlen(smcr_reason_text(ours[i])) > 10);
	}
	for (size_t i = 0; i < NUM_THEIRS; i++) {
		TRIES("code %#x", theirs[i]);
		is_a_name(smcr_reason_name(theirs[i]));
		assert_string_not_equal(smcr_reason_text(theirs[i]), smcr_reason_text(0xFFFFFFFF));
	}
}

static void names_differ(void **state)
{
	(void)state;
	for (size_t i = 0; i < NUM_OURS + NUM_THEIRS; i++) {
		TRIES("code %#x", code(i));
		for (size_t j = 0; j < i; j++) {
			assert_string_not_equal(smcr_reason_name(code(i)),
						smcr_reason_name(code(j)));
			assert_string_not_equal(smcr_reason_text(code(i)),
						smcr_reason_text(code(j)));
		}
	}
}

static void codes_of_others_are_unknown(void **state)
{
	(void)state;
	assert_string_equal(smcr_reason_name(0x99990000), "unknown");
	assert_string_equal(smcr_reason_text(0x99990000),
			    "the peer gave a code that only its own documentation explains");
	assert_string_equal(smcr_reason_name(SMCR_REASON_PREFIX_MISMATCH), "prefix-mismatch");
}

/* @return the text of the page, valid until the next call */
static const char *read_page(const char *path)
{
	static char page[32768];
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	page[fread(page, 1, sizeof(page) - 1, file)] = '\0';
	fclose(file);
	return page;
}

/* CLC-13: the published list of codes is the one that smcrd uses. */
static void the_published_list_is_the_code(void **state)
{
	const char *page = read_page("docs/reasons.md");
	(void)state;
	for (size_t i = 0; i < NUM_OURS + NUM_THEIRS; i++) {
		char row[512];
		if (code(i) == SMCR_REASON_NONE)
			continue;
		snprintf(row, sizeof(row), "| %08x | %s | %s |\n", code(i),
			 smcr_reason_name(code(i)), smcr_reason_text(code(i)));
		if (!strstr(page, row))
			fail_msg("docs/reasons.md lacks: %s", row);
	}
	PROVES("CLC-13");
}

/* roff takes a line that begins with a quote for a request. */
static void the_manual_page_has_all_of_them(void **state)
{
	const char *page = read_page("man/smcr-reasons.7");
	(void)state;
	for (size_t i = 0; i < NUM_OURS + NUM_THEIRS; i++) {
		char item[512];
		const char *text = smcr_reason_text(code(i));
		const char *end = text[strlen(text) - 1] == '?' ? "" : ".";
		if (code(i) == SMCR_REASON_NONE)
			continue;
		snprintf(item, sizeof(item), ".It Li %s Pq Li %08x\n%s%s%s\n",
			 smcr_reason_name(code(i)), code(i), *text == '\'' ? "\\&" : "", text, end);
		if (!strstr(page, item))
			fail_msg("smcr-reasons(7) lacks: %s", item);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_published_list_is_the_code),
		cmocka_unit_test(the_manual_page_has_all_of_them),
		cmocka_unit_test(every_code_has_a_name_and_a_sentence),
		cmocka_unit_test(names_differ),
		cmocka_unit_test(codes_of_others_are_unknown),
	};
	return cmocka_run_group_tests_name("reason", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* First contact from Proposal to the open data gate (RFC 7609 3.5.1). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/lib/enginepair.h"
#include "tests/lib/proves.h"

static void single_rnic_each(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	int c = pair_connect(pair, PAIR_CLIENT);
	pair_pump(pair);
	assert_true(pair_both_established(pair, c));
	pair_exchange(pair, c);
	pair_close(pair, c);
	pair_free(pair);
}

static void two_rnics_each(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 2, 2);
	int c = pair_connect(pair, PAIR_CLIENT);
	pair_pump(pair);
	assert_true(pair_both_established(pair, c));
	assert_int_equal(pair_link(pair, PAIR_SERVER, 2)->state, SMCR_LINK_ACTIVE);
	pair_exchange(pair, c);
	pair_close(pair, c);
	pair_free(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(single_rnic_each),
		cmocka_unit_test(two_rnics_each),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

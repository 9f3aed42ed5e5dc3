/* SPDX-License-Identifier: MIT */
/* The events that the engine tells operators about groups and links. tests/sim/told.c checks that
 * they are consistent in any run; these tests check their contents. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "tests/lib/enginepair.h"
#include "tests/lib/proves.h"

#define S      PAIR_SERVER
#define C      PAIR_CLIENT
#define SECOND 1000000

static void expect_last(const struct pair *pair, int side, enum smcr_event_type type, uint8_t link,
			unsigned int conns, const char *text)
{
	const struct smcr_event *last = &pair->side[side].event.event;
	assert_int_equal(last->type, type);
	assert_int_equal(last->link, link);
	assert_int_equal(last->num_conns, conns);
	assert_string_equal(last->text, text);
}

static void told(const struct pair *pair, int side, enum smcr_event_type type, unsigned int times)
{
	assert_int_equal(pair->side[side].events[type], times);
}

static void group_and_links_come(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	for (int side = S; side <= C; side++) {
		told(pair, side, SMCR_EVENT_LGR_UP, 1);
		told(pair, side, SMCR_EVENT_LINK_UP, 2);
		told(pair, side, SMCR_EVENT_LINK_REFUSED, 0);
		assert_int_equal(pair->side[side].event.event.role,
				 side == S ? SMCR_ROLE_SERVER : SMCR_ROLE_CLIENT);
	}
	pair_exchange(pair, c);
	pair_free(pair);
}

/** The side that sees the failure tells it. The other side is told that it has to delete the link,
 *  and why. */
static void a_link_fails(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	uint8_t used = pair_conn_view(pair, c, S).link_number;
	pair_fail_link(pair, S, used);
	pair_pump(pair);
	expect_last(pair, S, SMCR_EVENT_LINK_FAILED, used, 1, "made to fail");
	expect_last(pair, C, SMCR_EVENT_LINK_DELETED, used, 1, "the path is lost");
	pair_exchange(pair, c);
	told(pair, S, SMCR_EVENT_LGR_DOWN, 0);
	pair_free(pair);
}

static void an_operator_deletes_a_link(void **state)
{
	(void)state;
	int c;
	uint64_t id;
	struct pair *pair = pair_grouped(2, &c);
	uint8_t used = pair_conn_view(pair, c, S).link_number;
	struct smcr_command command = { .type = SMCR_COMMAND_LINK_DELETE,
					.lgr = pair_lgr_view(pair, S).id,
					.link = used,
					.orderly = true };
	assert_int_equal(smcr_engine_command(pair->side[S].engine, &command, &id), 0);
	pair_pump(pair);
	expect_last(pair, S, SMCR_EVENT_LINK_DELETED, used, 1, "an operator wants it");
	assert_int_equal(pair->side[C].event.event.type, SMCR_EVENT_LINK_DELETED);
	assert_int_equal(pair->side[C].event.event.link, used);
	told(pair, S, SMCR_EVENT_LINK_FAILED, 0);
	told(pair, C, SMCR_EVENT_LINK_FAILED, 0);
	pair_exchange(pair, c);
	pair_free(pair);
}

static void the_last_link_takes_its_group_along(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(1, &c);
	pair_fail_link(pair, S, 1);
	pair_pump(pair);
	told(pair, S, SMCR_EVENT_LINK_FAILED, 1);
	expect_last(pair, S, SMCR_EVENT_LGR_DOWN, 0, 1, "its last link has failed: made to fail");
	pair_free(pair);
	PROVES("FO-13");
}

/** A connection whose program has closed is not counted as reset. */
static void connections_that_close_are_not_reset(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(1, &c);
	pair->side[C].hung = true;
	smcr_conn_close(pair_end(pair, c, S)->smc, false);
	pair_fail_link(pair, S, 1);
	pair_pump(pair);
	expect_last(pair, S, SMCR_EVENT_LGR_DOWN, 0, 0, "its last link has failed: made to fail");
	assert_int_equal(pair_end(pair, c, S)->reset, 0);
	pair->side[C].hung = false;
	pair_free(pair);
}

static void nobody_uses_a_group(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	pair_close(pair, c);
	pair_run(pair, 601 * (uint64_t)SECOND);
	expect_last(pair, S, SMCR_EVENT_LGR_DOWN, 0, 0, "nobody has used it for 600 s");
	expect_last(pair, C, SMCR_EVENT_LGR_DOWN, 0, 0,
		    "the peer ends it: nobody has used it for long");
	told(pair, S, SMCR_EVENT_LINK_DELETED, 0); /* links are deleted with their group */
	pair_free(pair);
}

/** If a first contact fails, the only event is about the link that could not be set up. */
static void a_first_contact_fails(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	pair->side[S].blocked = pair->side[C].blocked = true;
	pair_connect(pair, C);
	pair_run(pair, 30 * (uint64_t)SECOND);
	for (int side = S; side <= C; side++) {
		told(pair, side, SMCR_EVENT_LGR_UP, 0);
		told(pair, side, SMCR_EVENT_LINK_UP, 0);
		told(pair, side, SMCR_EVENT_LGR_DOWN, 0);
	}
	told(pair, S, SMCR_EVENT_LINK_REFUSED, 1);
	assert_true(strlen(pair->side[S].event.text) > 10);
	pair_free(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(group_and_links_come),
		cmocka_unit_test(a_link_fails),
		cmocka_unit_test(an_operator_deletes_a_link),
		cmocka_unit_test(the_last_link_takes_its_group_along),
		cmocka_unit_test(connections_that_close_are_not_reset),
		cmocka_unit_test(nobody_uses_a_group),
		cmocka_unit_test(a_first_contact_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

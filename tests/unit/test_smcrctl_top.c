/* SPDX-License-Identifier: MIT */
/* smcrctl top: which pages it asks for, bytes a second, and what fits on a screen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/smcrctl/tools.h"
#include "cli/smcrctl/top_frame.h"

#define MS     1000u
#define SECOND 1000000u
/* Time of the first sample; the second one is a second later. */
#define BEGIN   (100 * SECOND)
#define EVERY   SECOND
#define UNKNOWN -1

/* The real function makes connections, and would need the whole library. */
int check_run(const struct tool_call *call)
{
	(void)call;
	fail_msg("nobody checks anything here");
	return 0;
}

struct fixture {
	struct top_sample before, now;
	struct top_sums sums;
};

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	fixture->before = (struct top_sample){ .smcrd = 1, .begun_us = BEGIN };
	fixture->now = (struct top_sample){ .smcrd = 1, .begun_us = BEGIN + EVERY };
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;
	top_sample_free(&fixture->before);
	top_sample_free(&fixture->now);
	free(fixture);
	return 0;
}

/* ---- samples ---- */

/* Adds a page, written with ' in place of ". */
static int add(struct top_sample *sample, enum top_kind kind, const char *page,
	       json_int_t last_ended)
{
	char *text = strdup(page);
	for (char *at = text; *at; at++)
		*at = *at == '\'' ? '"' : *at;
	json_t *json = json_loads(text, 0, NULL);
	if (!json)
		fail_msg("this is no JSON: %s", text);
	const int more = top_sample_add(sample, kind, json, sample->begun_us, last_ended);
	json_decref(json);
	free(text);
	return more;
}

#define CONN(id, age, tx, rx)                                                                      \
	"{'id':" #id ",'age_ms':" #age ",'tx_bytes':" #tx ",'rx_bytes':" #rx                       \
	",'ended':false,'mode':'smcr','linkgroup':1,'link':2,'program':'p" #id "'}"
#define ENDED(id, age, tx, rx)                                                                     \
	"{'id':" #id ",'age_ms':" #age ",'tx_bytes':" #tx ",'rx_bytes':" #rx                       \
	",'ended':true,'mode':'smcr','linkgroup':null,'link':null}"
#define PLAIN "{'id':null,'age_ms':1,'tx_bytes':null,'rx_bytes':null,'ended':true,'mode':'tcp'}"
#define LINK(group, number, uid, tx, rx)                                                           \
	"{'linkgroup':" #group ",'number':" #number ",'uid':" #uid ",'tx_bytes':" #tx              \
	",'rx_bytes':" #rx "}"

static const struct top_row *find(const struct top_sample *sample, enum top_kind kind, uint64_t id,
				  uint64_t uid)
{
	const struct top_key key = { .id = id, .uid = uid };
	return top_sample_find(sample, kind, &key);
}

static const struct top_row *conn(const struct top_sample *sample, uint64_t id)
{
	return find(sample, TOP_CONNECTIONS, id, 0);
}

/* The first sample has nothing to be compared with, so connections that have ended do not matter.
 * But the newest of them is remembered. */
static void the_first_sample_asks_for_what_lives(void **state)
{
	struct fixture *fixture = *state;
	struct top_sample *now = &fixture->now;
	assert_int_equal(add(now, TOP_CONNECTIONS, "[" CONN(9, 1, 0, 0) "," CONN(8, 1, 0, 0) "]",
			     TOP_NOT_KNOWN),
			 1);
	assert_int_equal(add(now, TOP_CONNECTIONS,
			     "[" CONN(3, 1, 0, 0) "," ENDED(7, 1, 0, 0) "," ENDED(5, 1, 0, 0) "]",
			     TOP_NOT_KNOWN),
			 0);
	assert_int_equal(now->last_ended, 7);
	assert_int_equal(HASH_COUNT(now->rows[TOP_CONNECTIONS]), 3);
	assert_null(conn(now, 7));
}

static void later_ones_ask_for_what_has_ended_since(void **state)
{
	struct fixture *fixture = *state;
	struct top_sample *now = &fixture->now;
	/* over two pages, back to the newest one of the time before */
	assert_int_equal(
		add(now, TOP_CONNECTIONS, "[" CONN(9, 1, 0, 0) "," ENDED(8, 1, 0, 0) "]", 5), 1);
	assert_int_equal(add(now, TOP_CONNECTIONS,
			     "[" ENDED(6, 1, 0, 0) "," ENDED(5, 1, 0, 0) "," ENDED(4, 1, 0, 0) "]",
			     5),
			 0);
	assert_int_equal(now->last_ended, 8);
	assert_true(conn(now, 8) && conn(now, 8)->ended);
	assert_true(conn(now, 6) && conn(now, 6)->ended);
	assert_null(conn(now, 5));
	assert_null(conn(now, 4));
	top_sample_free(now);
	/* none was remembered: all ended ones come, except those that were TCP from the
	 * beginning */
	assert_int_equal(add(now, TOP_CONNECTIONS,
			     "[" ENDED(6, 1, 0, 0) "," ENDED(5, 1, 0, 0) "," PLAIN "," PLAIN "]",
			     TOP_NONE_ENDED),
			 0);
	assert_int_equal(HASH_COUNT(now->rows[TOP_CONNECTIONS]), 2);
}

/* A connection ends between two pages: it counts once, as an ended one. */
static void one_that_is_told_twice_counts_once(void **state)
{
	struct fixture *fixture = *state;
	struct top_sample *now = &fixture->now;
	add(now, TOP_CONNECTIONS, "[" CONN(9, 1, 10, 0) "," CONN(8, 1, 10, 0) "]", TOP_NONE_ENDED);
	add(now, TOP_CONNECTIONS, "[" ENDED(9, 1, 12, 0) "," CONN(9, 1, 10, 0) "]", TOP_NONE_ENDED);
	assert_int_equal(HASH_COUNT(now->rows[TOP_CONNECTIONS]), 2);
	assert_true(conn(now, 9)->ended);
	assert_int_equal(json_integer_value(json_object_get(conn(now, 9)->row, "tx_bytes")), 12);
}

/* ---- rates ---- */

static void expect_number(const struct top_row *row, const char *key, json_int_t value)
{
	assert_non_null(row);
	const json_t *json = json_object_get(row->row, key);
	assert_non_null(json);
	if (value == UNKNOWN)
		assert_true(json_is_null(json));
	else
		assert_int_equal(json_integer_value(json), value);
}

static void expect_rate(const struct top_row *row, json_int_t tx, json_int_t rx)
{
	expect_number(row, TOP_TX_RATE, tx);
	expect_number(row, TOP_RX_RATE, rx);
	expect_number(row, TOP_RATE, tx == UNKNOWN ? UNKNOWN : tx + rx);
}

static void compare(struct fixture *fixture)
{
	top_rates(&fixture->before, &fixture->now, &fixture->sums);
}

static void rates_are_differences_over_time(void **state)
{
	struct fixture *fixture = *state;
	fixture->now.begun_us = BEGIN + 2 * EVERY;
	add(&fixture->before, TOP_CONNECTIONS, "[" CONN(1, 9000, 1000, 70) "]", TOP_NOT_KNOWN);
	add(&fixture->now, TOP_CONNECTIONS, "[" CONN(1, 11000, 5000, 75) "]", TOP_NONE_ENDED);
	compare(fixture);
	expect_rate(conn(&fixture->now, 1), 2000, 3); /* 2.5 is rounded up */
	assert_true(fixture->sums.known);
	assert_true(fixture->sums.seconds > 1.99 && fixture->sums.seconds < 2.01);
	assert_int_equal(fixture->sums.tx, 2000);
	assert_int_equal(fixture->sums.connections, 1);
	assert_int_equal(fixture->sums.smcr, 1);
	assert_int_equal(fixture->sums.ended, 0);
}

static void large_counters_do_not_overflow(void **state)
{
	struct fixture *fixture = *state;
	fixture->now.begun_us = BEGIN + 100 * MS;
	add(&fixture->before, TOP_CONNECTIONS, "[" CONN(1, 9000, 9000000000000000000, 0) "]",
	    TOP_NOT_KNOWN);
	add(&fixture->now, TOP_CONNECTIONS, "[" CONN(1, 9100, 9000000012500000000, 0) "]",
	    TOP_NONE_ENDED);
	compare(fixture);
	expect_rate(conn(&fixture->now, 1), 125000000000, 0); /* 1 Tbit/s */
}

static void without_a_sample_before_nothing_is_known(void **state)
{
	struct fixture *fixture = *state;
	add(&fixture->now, TOP_CONNECTIONS, "[" CONN(1, 9000, 5000, 75) "]", TOP_NOT_KNOWN);
	add(&fixture->now, TOP_GROUPS, "[{'id':1}]", TOP_NOT_KNOWN);
	add(&fixture->now, TOP_LINKS, "[" LINK(1, 1, 7, 5, 5) "]", TOP_NOT_KNOWN);
	top_rates(NULL, &fixture->now, &fixture->sums);
	expect_rate(conn(&fixture->now, 1), UNKNOWN, UNKNOWN);
	expect_rate(find(&fixture->now, TOP_GROUPS, 1, 0), UNKNOWN, UNKNOWN);
	expect_rate(find(&fixture->now, TOP_LINKS, 1 << 8 | 1, 7), UNKNOWN, UNKNOWN);
	assert_false(fixture->sums.known);
	assert_int_equal(fixture->sums.connections, 1);
}

/* A new connection has moved all its bytes since the last sample. This does not hold for a
 * connection that was there but left out, as a filter may leave it out because of its mode. */
static void one_that_has_come_counts_from_its_beginning(void **state)
{
	struct fixture *fixture = *state;
	add(&fixture->now, TOP_CONNECTIONS,
	    "[" CONN(2, 400, 3000, 30) "," CONN(3, 8000, 900000, 1) "]", TOP_NONE_ENDED);
	compare(fixture);
	expect_rate(conn(&fixture->now, 2), 3000, 30);
	expect_rate(conn(&fixture->now, 3), UNKNOWN, UNKNOWN);
	assert_int_equal(fixture->sums.tx, 3000);
}

static void one_that_has_ended_counts_to_its_end(void **state)
{
	struct fixture *fixture = *state;
	add(&fixture->before, TOP_CONNECTIONS,
	    "[" CONN(1, 9000, 1000, 0) "," CONN(2, 9000, 1000, 0) "," CONN(3, 9000, 1, 0) "]",
	    TOP_NOT_KNOWN);
	add(&fixture->now, TOP_CONNECTIONS,
	    "[" CONN(3, 10000, 11, 0) "," ENDED(1, 10000, 1500, 7) "," ENDED(2, 10000, 1000, 0) ","
	    /* one that came and went; one whose program took its TCP socket back */
	    ENDED(4, 300, 90, 0) "," ENDED(5, 300, null, null) "]",
	    TOP_NONE_ENDED);
	compare(fixture);
	expect_rate(conn(&fixture->now, 1), 500, 7);
	expect_number(conn(&fixture->now, 1), "linkgroup", 1); /* known from its life */
	expect_rate(conn(&fixture->now, 4), 90, 0);
	assert_null(conn(&fixture->now, 2)); /* no bytes have moved */
	assert_null(conn(&fixture->now, 5));
	assert_int_equal(fixture->sums.tx, 500 + 90 + 10);
	assert_int_equal(fixture->sums.rx, 7);
	assert_int_equal(fixture->sums.ended, 4);
	assert_int_equal(fixture->sums.connections, 1);
}

/* Another smcrd counts from the beginning, and so do the numbers of its connections. */
static void another_smcrd_is_not_compared(void **state)
{
	struct fixture *fixture = *state;
	add(&fixture->before, TOP_CONNECTIONS,
	    "[" CONN(1, 9000, 1000, 0) "," CONN(2, 9000, 1000, 0) "]", TOP_NOT_KNOWN);
	add(&fixture->now, TOP_CONNECTIONS, "[" CONN(1, 200, 4000, 0) "," CONN(2, 9500, 500, 0) "]",
	    TOP_NONE_ENDED);
	/* if the process cannot be told from the one before: its age shows it, or a counter */
	compare(fixture);
	expect_rate(conn(&fixture->now, 1), 4000, 0);
	expect_rate(conn(&fixture->now, 2), UNKNOWN, UNKNOWN);
	fixture->now.smcrd = 2;
	compare(fixture);
	expect_rate(conn(&fixture->now, 1), UNKNOWN, UNKNOWN);
	assert_false(fixture->sums.known);
}

/* The rates of a group are those of its links. A new link counts from its beginning, even if it
 * has the number of one that is gone. */
static void groups_have_the_rates_of_their_links(void **state)
{
	struct fixture *fixture = *state;
	struct top_sample *now = &fixture->now;
	add(&fixture->before, TOP_GROUPS, "[{'id':1},{'id':2}]", TOP_NOT_KNOWN);
	add(now, TOP_GROUPS, "[{'id':1},{'id':2},{'id':3}]", TOP_NOT_KNOWN);
	add(&fixture->before, TOP_LINKS,
	    "[" LINK(1, 1, 7, 100, 10) "," LINK(1, 2, 8, 900, 90) "," LINK(2, 1, 9, 5, 5) "]",
	    TOP_NOT_KNOWN);
	add(now, TOP_LINKS,
	    "[" LINK(1, 1, 7, 300, 11) "," LINK(1, 2, 77, 1000, 1) "," LINK(3, 1, 6, 40, 4) "]",
	    TOP_NOT_KNOWN);
	compare(fixture);
	expect_rate(find(now, TOP_LINKS, 1 << 8 | 1, 7), 200, 1);
	expect_rate(find(now, TOP_LINKS, 1 << 8 | 2, 77), 1000, 1);
	expect_rate(find(now, TOP_GROUPS, 1, 0), 1200, 2);
	expect_rate(find(now, TOP_GROUPS, 2, 0), 0, 0);
	expect_rate(find(now, TOP_GROUPS, 3, 0), 40, 4);
	assert_int_equal(fixture->sums.groups, 3);
	assert_int_equal(fixture->sums.links, 3);
}

/* ---- layout ---- */

static void expect_share(size_t lines, size_t groups, size_t links, size_t conns, size_t of_groups,
			 size_t of_links, size_t of_conns)
{
	const size_t have[TOP_KINDS] = { groups, links, conns };
	size_t rows[TOP_KINDS], taken = 0;
	top_frame_share(lines, have, rows);
	assert_int_equal(rows[TOP_GROUPS], of_groups);
	assert_int_equal(rows[TOP_LINKS], of_links);
	assert_int_equal(rows[TOP_CONNECTIONS], of_conns);
	for (enum top_kind kind = 0; kind < TOP_KINDS; kind++)
		taken += rows[kind] ? rows[kind] + 2 : 0;
	assert_true(taken <= lines);
}

static void most_of_the_screen_is_for_connections(void **state)
{
	(void)state;
	expect_share(21, 0, 0, 0, 0, 0, 0);
	expect_share(21, 1, 2, 5, 1, 2, 5);
	expect_share(21, 1, 2, 1000, 1, 2, 12);
	expect_share(21, 50, 100, 1000, 3, 3, 9);
	expect_share(21, 50, 100, 2, 10, 3, 2);
	expect_share(21, 1, 100, 2, 1, 12, 2);
	expect_share(21, 0, 0, 1000, 0, 0, 19);
	/* small screens */
	expect_share(9, 50, 100, 1000, 1, 1, 1);
	expect_share(8, 50, 100, 1000, 1, 0, 3);
	expect_share(5, 50, 100, 1000, 0, 0, 3);
	expect_share(2, 50, 100, 1000, 0, 0, 0);
	expect_share(0, 50, 100, 1000, 0, 0, 0);
}

/* Whatever there is, the frame never has more lines than the screen. */
static void every_frame_fits_the_screen(void **state)
{
	(void)state;
	for (size_t lines = 0; lines < 40; lines++)
		for (size_t n = 0; n < 12 * 12 * 12; n++) {
			const size_t have[TOP_KINDS] = { n % 12, n / 12 % 12, n / 144 };
			size_t rows[TOP_KINDS], taken = 0, missing = 0;
			top_frame_share(lines, have, rows);
			for (enum top_kind kind = 0; kind < TOP_KINDS; kind++) {
				assert_true(rows[kind] <= have[kind]);
				taken += rows[kind] ? rows[kind] + 2 : 0;
				missing += have[kind] - rows[kind];
			}
			assert_true(taken <= lines);
			/* and no line stays empty that a table could use */
			if (missing && lines >= 9)
				assert_true(taken + 1 > lines);
		}
}

static char *frame(struct fixture *fixture, size_t lines, size_t width, const char *filter)
{
	const struct top_view view = { .order = top_default_order,
				       .filter = filter,
				       .seconds = 1,
				       .lines = lines,
				       .now_us = 1795445633036676 };
	table_set_style(&(const struct table_style){ .width = width, .quiet = true });
	compare(fixture);
	char *text = top_frame_text(&fixture->now, &fixture->sums, &view);
	table_set_style(&(const struct table_style){ .width = 0 });
	assert_non_null(text);
	return text;
}

static void expect_line(const char *text, unsigned int nth, const char *begin)
{
	for (; nth > 0; nth--) {
		text = strchr(text, '\n');
		assert_non_null(text);
		text++;
	}
	if (strncmp(text, begin, strlen(begin)) != 0)
		fail_msg("'%.*s' does not begin with '%s'", (int)strcspn(text, "\n"), text, begin);
}

static unsigned int count_lines(const char *text)
{
	unsigned int lines = 0;
	for (; *text; text++)
		lines += *text == '\n';
	return lines;
}

static void have_three(struct fixture *fixture)
{
	add(&fixture->before, TOP_CONNECTIONS,
	    "[" CONN(1, 9000, 0, 0) "," CONN(2, 9000, 0, 0) "," CONN(3, 9000, 0, 0) "]",
	    TOP_NOT_KNOWN);
	add(&fixture->now, TOP_CONNECTIONS,
	    "[" CONN(1, 10000, 10, 0) "," CONN(2, 10000, 5000, 120) "," CONN(3, 10000, 0, 4096) "]",
	    TOP_NONE_ENDED);
}

static void the_busiest_come_first(void **state)
{
	struct fixture *fixture = *state;
	have_three(fixture);
	char *text = frame(fixture, 0, 0, "peer 10.0.0.1");
	assert_non_null(strstr(text, "  every 1 s; by BYTES/S, largest first; peer 10.0.0.1\n"));
	expect_line(text, 1,
		    "0 groups, 0 links, 3 connections, 3 over SMC-R; TX 4.9K/s, RX 4.1K/s over "
		    "1.0 s\n");
	expect_line(text, 2, "\n");
	assert_int_equal(count_lines(text), 7);
	const char *first = strstr(text, " p2\n"), *second = strstr(text, " p3\n"),
		   *third = strstr(text, " p1\n");
	assert_true(first && second && third && first < second && second < third);
	assert_non_null(strstr(text, "  1/2 "));
	free(text);
}

static void a_screen_has_what_fits(void **state)
{
	struct fixture *fixture = *state;
	have_three(fixture);
	char *text = frame(fixture, 6, 50, "");
	assert_int_equal(count_lines(text), 6);
	assert_non_null(strstr(text, " p2\n"));
	assert_null(strstr(text, " p1\n"));
	assert_null(strstr(text, "LINK")); /* this column does not fit */
	assert_non_null(strstr(text, "BYTES/S"));
	free(text);
	text = frame(fixture, 1, 50, "");
	/* the second line is cut off when the frame is painted */
	assert_int_equal(count_lines(text), 2);
	free(text);
}

/* Peers and programs choose names, and a user types the filter: no byte of them controls the
 * terminal. */
static void nothing_does_something_to_the_terminal(void **state)
{
	struct fixture *fixture = *state;
	add(&fixture->now, TOP_CONNECTIONS,
	    "[{'id':1,'age_ms':1,'tx_bytes':1,'rx_bytes':1,'program':'x\\u001b[2J\\u009b\\n\\u007f'"
	    ","
	    "'peer':'\\u001b]0;t\\u0007','local':'\\r','state':'\\b','mode':'\\u0085'}]",
	    TOP_NONE_ENDED);
	add(&fixture->now, TOP_GROUPS, "[{'id':1,'peer':'\\u001bc','role':'\\u001b7'}]",
	    TOP_NONE_ENDED);
	add(&fixture->now, TOP_LINKS, "[{'linkgroup':1,'number':1,'rnic':'\\u001b8'}]",
	    TOP_NONE_ENDED);
	char *text = frame(fixture, 0, 0, "peer \x1B[2J");
	assert_non_null(strstr(text, "x?[2J??"));
	assert_non_null(strstr(text, "; peer ?[2J\n"));
	for (const char *at = text; *at; at++)
		assert_true((*at >= ' ' && *at != 0x7F) || *at == '\n');
	free(text);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(the_first_sample_asks_for_what_lives),
		CASE(later_ones_ask_for_what_has_ended_since),
		CASE(one_that_is_told_twice_counts_once),
		CASE(rates_are_differences_over_time),
		CASE(large_counters_do_not_overflow),
		CASE(without_a_sample_before_nothing_is_known),
		CASE(one_that_has_come_counts_from_its_beginning),
		CASE(one_that_has_ended_counts_to_its_end),
		CASE(another_smcrd_is_not_compared),
		CASE(groups_have_the_rates_of_their_links),
		cmocka_unit_test(most_of_the_screen_is_for_connections),
		cmocka_unit_test(every_frame_fits_the_screen),
		CASE(the_busiest_come_first),
		CASE(a_screen_has_what_fits),
		CASE(nothing_does_something_to_the_terminal),
	};
	return cmocka_run_group_tests_name("smcrctl_top", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/top_frame.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/smcrctl/objects.h"

#define COUNT(array)     (sizeof(array) / sizeof((array)[0]))
#define HEAD_LINES       2
#define TABLE_LINES      2 /* of a table, without its rows */
#define SMALL_SHARE      4 /* groups and links have a quarter of the rows each */
#define WIDTH_OF_RATE    5 /* "1023K" */
#define WIDTH_OF_PROGRAM 15

static const char *const names[TOP_KINDS] = { "linkgroups", "links", "connections" };

/* ---- columns ---- */

static char *link_of_connection(const json_t *row)
{
	return link_text(row, "link");
}

static char *link_of_link(const json_t *row)
{
	return link_text(row, "number");
}

/* "59s", "3m", "5h", "12d" */
static char *age(const json_t *row)
{
	static const struct {
		json_int_t seconds;
		char unit;
	} units[] = { { 86400, 'd' }, { 3600, 'h' }, { 60, 'm' }, { 1, 's' } };
	const json_t *age_ms = json_object_get(row, "age_ms");
	const json_int_t seconds = json_integer_value(age_ms) / 1000;
	char *text = NULL;
	size_t i = 0;
	while (i + 1 < COUNT(units) && seconds < units[i].seconds)
		i++;
	if (!json_is_integer(age_ms) || asprintf(&text, "%" JSON_INTEGER_FORMAT "%c",
						 seconds / units[i].seconds, units[i].unit) < 0)
		return NULL;
	return text;
}

const struct column top_columns[TOP_NUM_COLUMNS] = {
	{ "LOCAL", "local", .drop = 3 },
	{ "PEER", "peer" },
	{ "MODE", "mode", .drop = 2 },
	{ "LINK", NULL, .format = link_of_connection, .drop = 4 },
	{ "STATE", "state", .drop = 6 },
	{ "BYTES/S", TOP_RATE, .least = WIDTH_OF_RATE },
	{ "TX/S", TOP_TX_RATE, .drop = 1, .least = WIDTH_OF_RATE },
	{ "RX/S", TOP_RX_RATE, .drop = 1, .least = WIDTH_OF_RATE },
	{ "TX-BYTES", "tx_bytes", .drop = 8 },
	{ "RX-BYTES", "rx_bytes", .drop = 8 },
	{ "RTT-US", "rtt_us", .drop = 9 },
	{ "AGE", "age_ms", .format = age, .drop = 7 },
	{ "PID", "pid", .drop = 5 },
	{ "PROGRAM", "program", .least = WIDTH_OF_PROGRAM },
};

const struct sort top_default_order = { .column = &top_columns[5], .descending = true };

#define RATE_COLUMNS                                                                               \
	{ "BYTES/S", TOP_RATE, .least = WIDTH_OF_RATE },                                           \
		{ "TX/S", TOP_TX_RATE, .drop = 1, .least = WIDTH_OF_RATE },                        \
	{                                                                                          \
		"RX/S", TOP_RX_RATE, .drop = 1, .least = WIDTH_OF_RATE                             \
	}

static const struct column group_columns[] = {
	{ "LINKGROUP", "id" }, { "PEER", "peer" },   { "PEER-HOST", "peer_host", .details = true },
	{ "ROLE", "role" },    { "LINKS", "links" }, { "CONNECTIONS", "connections" },
	RATE_COLUMNS,
};

static const struct column link_columns[] = {
	{ "LINK", NULL, .format = link_of_link },
	{ "PEER", "peer" },
	{ "RNIC", "rnic" },
	{ "STATE", "state", .drop = 2 },
	{ "CONNECTIONS", "connections" },
	RATE_COLUMNS,
	{ "RETRANSMITS", "retransmits", .drop = 3 },
};

static const struct {
	const struct column *columns;
	size_t num;
} tables[TOP_KINDS] = {
	[TOP_GROUPS] = { group_columns, COUNT(group_columns) },
	[TOP_LINKS] = { link_columns, COUNT(link_columns) },
	[TOP_CONNECTIONS] = { top_columns, TOP_NUM_COLUMNS },
};

/* ---- rows ---- */

/* The order by this table's column with the same title; without one the busiest come first. */
static struct sort order_of(enum top_kind kind, const struct sort *order)
{
	for (size_t i = 0; i < tables[kind].num; i++)
		if (!strcmp(tables[kind].columns[i].title, order->column->title))
			return (struct sort){ .column = &tables[kind].columns[i],
					      .descending = order->descending };
	return top_default_order;
}

/* @return a new reference */
static json_t *rows_of(const struct top_sample *sample, enum top_kind kind,
		       const struct sort *order)
{
	const struct sort own = order_of(kind, order);
	const struct top_row *row;
	json_t *rows = json_array();
	for (row = sample->rows[kind]; row; row = row->hh.next)
		json_array_append(rows, row->row);
	json_t *sorted = sort_rows(&own, rows);
	json_decref(rows);
	return sorted;
}

static void cut(json_t *rows, size_t most)
{
	while (json_array_size(rows) > most)
		json_array_remove(rows, json_array_size(rows) - 1);
}

void top_frame_share(size_t lines, const size_t have[TOP_KINDS], size_t ret_rows[TOP_KINDS])
{
	static const enum top_kind least_first[TOP_KINDS] = { TOP_LINKS, TOP_GROUPS,
							      TOP_CONNECTIONS };
	size_t shown = 0;
	for (enum top_kind kind = 0; kind < TOP_KINDS; kind++) {
		ret_rows[kind] = have[kind];
		shown += have[kind] > 0;
	}
	for (size_t i = 0; i < TOP_KINDS && lines < shown * (TABLE_LINES + 1); i++) {
		shown -= ret_rows[least_first[i]] > 0;
		ret_rows[least_first[i]] = 0;
	}
	size_t left = lines - shown * TABLE_LINES;
	const size_t small = left / SMALL_SHARE ? left / SMALL_SHARE : 1;
	size_t others = 0; /* rows that links and groups take at least */
	for (size_t i = 0; i + 1 < TOP_KINDS; i++)
		others += ret_rows[least_first[i]] < small ? ret_rows[least_first[i]] : small;
	if (ret_rows[TOP_CONNECTIONS] > left - others)
		ret_rows[TOP_CONNECTIONS] = left - others;
	left -= ret_rows[TOP_CONNECTIONS];
	/* Groups get the rows that connections leave, except the share of links. */
	const size_t of_links = ret_rows[TOP_LINKS] < small ? ret_rows[TOP_LINKS] : small;
	if (ret_rows[TOP_GROUPS] > left - of_links)
		ret_rows[TOP_GROUPS] = left - of_links;
	left -= ret_rows[TOP_GROUPS];
	if (ret_rows[TOP_LINKS] > left)
		ret_rows[TOP_LINKS] = left;
}

/* ---- text ---- */

static const char *plural(size_t n)
{
	return n == 1 ? "" : "s";
}

/* The rate looks like numbers of bytes in the tables. */
static void put_rate(const char *words, json_int_t rate)
{
	static const struct column column = { "", TOP_RATE };
	json_t *row = json_pack("{s:I}", TOP_RATE, rate);
	char *text = table_cell(row, &column);
	printf("%s %s/s", words, text ? text : "-");
	free(text);
	json_decref(row);
}

/* The user may have typed control characters: table_cell() makes them harmless. */
static void put_filter(const char *filter)
{
	static const struct column column = { "", "filter" };
	json_t *row = json_pack("{s:s}", "filter", filter);
	char *text = row ? table_cell(row, &column) : NULL;
	if (*filter && text)
		printf("; %s", text);
	free(text);
	json_decref(row);
}

static void put_head(const struct top_sums *sums, const struct top_view *view)
{
	const time_t now = (time_t)(view->now_us / 1000000);
	char when[32];
	struct tm tm;
	localtime_r(&now, &tm);
	strftime(when, sizeof(when), "%F %T", &tm);
	printf("%s  %severy %g s; by %s, %s first", when, view->paused ? "PAUSED, " : "",
	       view->seconds, view->order.column->title,
	       view->order.descending ? "largest" : "smallest");
	put_filter(view->filter);
	putchar('\n');
	printf("%zu group%s, %zu link%s, %zu connection%s, %zu over SMC-R", sums->groups,
	       plural(sums->groups), sums->links, plural(sums->links), sums->connections,
	       plural(sums->connections), sums->smcr);
	if (sums->known) {
		put_rate("; TX", sums->tx);
		put_rate(", RX", sums->rx);
		printf(" over %.1f s", sums->seconds);
	}
	if (sums->ended)
		printf("; %zu ended", sums->ended);
	putchar('\n');
}

static void put_table(json_t *rows, enum top_kind kind, bool details)
{
	if (json_array_size(rows) == 0)
		return;
	putchar('\n');
	table_print(rows, tables[kind].columns, tables[kind].num, details);
}

/* Cuts off the rows for which the frame has no lines. */
static void fit(json_t *rows[TOP_KINDS], const struct top_view *view)
{
	size_t have[TOP_KINDS], shown[TOP_KINDS];
	for (enum top_kind kind = 0; kind < TOP_KINDS; kind++)
		have[kind] = json_array_size(rows[kind]);
	if (view->lines)
		top_frame_share(view->lines > HEAD_LINES ? view->lines - HEAD_LINES : 0, have,
				shown);
	for (enum top_kind kind = 0; kind < TOP_KINDS; kind++) {
		if (view->lines)
			cut(rows[kind], shown[kind]);
		else if (view->most[kind])
			cut(rows[kind], view->most[kind]);
	}
}

char *top_frame_text(const struct top_sample *sample, const struct top_sums *sums,
		     const struct top_view *view)
{
	json_t *rows[TOP_KINDS];
	char *text = NULL;
	size_t len;
	FILE *real = stdout, *memory = open_memstream(&text, &len);
	if (!memory)
		return NULL;
	for (enum top_kind kind = 0; kind < TOP_KINDS; kind++)
		rows[kind] = rows_of(sample, kind, &view->order);
	fit(rows, view);
	stdout = memory;
	put_head(sums, view);
	for (enum top_kind kind = 0; kind < TOP_KINDS; kind++) {
		put_table(rows[kind], kind, view->details);
		json_decref(rows[kind]);
	}
	stdout = real;
	fclose(memory);
	return text;
}

/* ---- JSON ---- */

json_t *top_frame_json(const struct top_sample *sample, const struct top_sums *sums,
		       const struct top_view *view)
{
	json_t *rows[TOP_KINDS];
	json_t *frame = json_pack("{s:I, s:o, s:I, s:o, s:o}", "time_us", (json_int_t)view->now_us,
				  "seconds", sums->known ? json_real(sums->seconds) : json_null(),
				  "ended", (json_int_t)sums->ended, TOP_TX_RATE,
				  sums->known ? json_integer(sums->tx) : json_null(), TOP_RX_RATE,
				  sums->known ? json_integer(sums->rx) : json_null());
	for (enum top_kind kind = 0; kind < TOP_KINDS; kind++)
		rows[kind] = rows_of(sample, kind, &view->order);
	fit(rows, view);
	for (enum top_kind kind = 0; kind < TOP_KINDS; kind++)
		json_object_set_new(frame, names[kind], rows[kind]);
	return frame;
}

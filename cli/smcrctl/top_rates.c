/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/top_rates.h"

#include <string.h>

#define TX "tx_bytes"
#define RX "rx_bytes"

/* Ages may be off by some milliseconds: smcrd rounds them, and has a clock of its own. */
#define AGE_SLACK_MS 5

struct rate {
	bool known;
	json_int_t tx, rx;
};

static const json_t *integer(const json_t *row, const char *key)
{
	const json_t *value = json_object_get(row, key);
	return json_is_integer(value) ? value : NULL;
}

/* Is the row, which was not in the sample before, newer than that sample? A filter may have left it
 * out, so its age decides. Links have no age, but what filters test in them does not change. */
static bool has_come(const struct top_sample *before, const struct top_row *row)
{
	const json_t *age = integer(row->row, "age_ms");
	const uint64_t ms = (row->at_us - before->begun_us) / 1000 + AGE_SLACK_MS;
	return !age || (uint64_t)json_integer_value(age) <= ms;
}

/* Another smcrd numbers connections anew, so an equal number may mean another connection. */
static bool is_older(const struct top_row *row, const struct top_row *old)
{
	const json_t *age = integer(row->row, "age_ms"), *old_age = integer(old->row, "age_ms");
	return !age || !old_age ||
	       json_integer_value(age) + AGE_SLACK_MS >= json_integer_value(old_age);
}

static const struct top_row *find_before(const struct top_sample *before, enum top_kind kind,
					 const struct top_row *row)
{
	const struct top_row *old = before ? top_sample_find(before, kind, &row->key) : NULL;
	return old && is_older(row, old) ? old : NULL;
}

/* @return -1: the counter went back, or one of the two is not known */
static json_int_t difference(const json_t *now, const json_t *before, const char *key)
{
	const json_t *value = integer(now, key), *old = integer(before, key);
	if (!value || (before && !old))
		return -1;
	return json_integer_value(value) - (old ? json_integer_value(old) : 0);
}

static json_int_t per_second(json_int_t bytes, uint64_t us)
{
	return (json_int_t)((double)bytes * 1e6 / (double)us + 0.5);
}

/* `old` is the row in the sample before; NULL: it was not there. */
static struct rate rate_of(const struct top_sample *before, const struct top_row *row,
			   const struct top_row *old)
{
	const struct rate unknown = { .known = false };
	if (!before || (!old && !has_come(before, row)))
		return unknown;
	const uint64_t since = old ? old->at_us : before->begun_us;
	const json_int_t tx = difference(row->row, old ? old->row : NULL, TX);
	const json_int_t rx = difference(row->row, old ? old->row : NULL, RX);
	if (tx < 0 || rx < 0 || row->at_us <= since)
		return unknown;
	return (struct rate){ .known = true,
			      .tx = per_second(tx, row->at_us - since),
			      .rx = per_second(rx, row->at_us - since) };
}

static void set(json_t *row, const char *key, bool known, json_int_t value)
{
	json_object_set_new(row, key, known ? json_integer(value) : json_null());
}

static void set_rate(json_t *row, const struct rate *rate)
{
	set(row, TOP_TX_RATE, rate->known, rate->tx);
	set(row, TOP_RX_RATE, rate->known, rate->rx);
	set(row, TOP_RATE, rate->known, rate->tx + rate->rx);
}

static void add(struct rate *sum, const struct rate *rate)
{
	if (!rate->known)
		return;
	sum->tx += rate->tx;
	sum->rx += rate->rx;
}

/* smcrd tells no link group of an ended connection, so the row keeps the one from before. */
static void keep_place(json_t *row, const json_t *old)
{
	static const char *const keys[] = { "linkgroup", "link" };
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		json_object_set(row, keys[i], json_object_get(old, keys[i]));
}

static bool is_smcr(const json_t *row)
{
	const char *mode = json_string_value(json_object_get(row, "mode"));
	return mode && !strcmp(mode, "smcr");
}

static void rate_connections(const struct top_sample *before, struct top_sample *now,
			     struct top_sums *sums)
{
	struct top_row *row, *next;
	struct rate sum = { .known = before != NULL };
	HASH_ITER (hh, now->rows[TOP_CONNECTIONS], row, next) {
		const struct top_row *old = find_before(before, TOP_CONNECTIONS, row);
		const struct rate rate = rate_of(before, row, old);
		set_rate(row->row, &rate);
		add(&sum, &rate);
		sums->connections += !row->ended;
		sums->ended += row->ended;
		sums->smcr += !row->ended && is_smcr(row->row);
		if (row->ended && (!rate.known || rate.tx + rate.rx == 0))
			top_sample_remove(now, TOP_CONNECTIONS, row);
		else if (row->ended && old)
			keep_place(row->row, old->row);
	}
	sums->tx = sum.tx;
	sums->rx = sum.rx;
}

/* Adds a link's rate to its group. */
static void add_to_group(struct top_sample *now, const json_t *link, const struct rate *rate)
{
	const struct top_key key = { .id = (uint64_t)json_integer_value(
					     json_object_get(link, "linkgroup")) };
	struct top_row *group = top_sample_find(now, TOP_GROUPS, &key);
	if (!group || !rate->known)
		return;
	struct rate sum = {
		.known = true,
		.tx = json_integer_value(json_object_get(group->row, TOP_TX_RATE)) + rate->tx,
		.rx = json_integer_value(json_object_get(group->row, TOP_RX_RATE)) + rate->rx
	};
	set_rate(group->row, &sum);
}

static void rate_links(const struct top_sample *before, struct top_sample *now)
{
	const struct rate none = { .known = before != NULL };
	struct top_row *row, *next;
	HASH_ITER (hh, now->rows[TOP_GROUPS], row, next)
		set_rate(row->row, &none);
	HASH_ITER (hh, now->rows[TOP_LINKS], row, next) {
		const struct top_row *old = find_before(before, TOP_LINKS, row);
		const struct rate rate = rate_of(before, row, old);
		set_rate(row->row, &rate);
		add_to_group(now, row->row, &rate);
	}
}

void top_rates(const struct top_sample *before, struct top_sample *now, struct top_sums *ret_sums)
{
	struct top_sums sums = { .groups = HASH_COUNT(now->rows[TOP_GROUPS]),
				 .links = HASH_COUNT(now->rows[TOP_LINKS]) };
	if (before && before->smcrd != now->smcrd)
		before = NULL;
	sums.known = before;
	if (before)
		sums.seconds = (double)(now->begun_us - before->begun_us) / 1e6;
	rate_connections(before, now, &sums);
	rate_links(before, now);
	if (ret_sums)
		*ret_sums = sums;
}

/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/top_sample.h"

#include <errno.h>
#include <stdlib.h>

static uint64_t number_of(const json_t *row, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(row, key));
}

/* A link's number is used again in its group after the link has gone. Its uid is not. */
static struct top_key key_of(enum top_kind kind, const json_t *row)
{
	if (kind != TOP_LINKS)
		return (struct top_key){ .id = number_of(row, "id") };
	return (struct top_key){ .id = number_of(row, "linkgroup") << 8 |
				       (number_of(row, "number") & 0xFF),
				 .uid = number_of(row, "uid") };
}

struct top_row *top_sample_find(const struct top_sample *sample, enum top_kind kind,
				const struct top_key *key)
{
	struct top_row *found;
	HASH_FIND(hh, sample->rows[kind], key, sizeof(*key), found);
	return found;
}

void top_sample_remove(struct top_sample *sample, enum top_kind kind, struct top_row *row)
{
	HASH_DELETE(hh, sample->rows[kind], row);
	json_decref(row->row);
	free(row);
}

/* A row that is in two pages has changed between them: the later one is right. But a connection
 * that is known to have ended stays ended. */
static int add(struct top_sample *sample, enum top_kind kind, json_t *json, uint64_t at_us,
	       bool ended)
{
	const struct top_key key = key_of(kind, json);
	struct top_row *row = top_sample_find(sample, kind, &key);
	if (row && row->ended)
		return 0;
	if (row)
		top_sample_remove(sample, kind, row);
	row = calloc(1, sizeof(*row));
	if (!row)
		return -ENOMEM;
	*row = (struct top_row){
		.key = key, .at_us = at_us, .ended = ended, .row = json_incref(json)
	};
	HASH_ADD(hh, sample->rows[kind], key, sizeof(row->key), row);
	return 0;
}

/* Has the connection ended since the sample before? */
static bool is_news(struct top_sample *sample, const json_t *row, json_int_t last_ended)
{
	const json_int_t id = json_integer_value(json_object_get(row, "id"));
	if (sample->last_ended == TOP_NONE_ENDED)
		sample->last_ended = id;
	return last_ended != TOP_NOT_KNOWN && id != last_ended;
}

int top_sample_add(struct top_sample *sample, enum top_kind kind, const json_t *page,
		   uint64_t at_us, json_int_t last_ended)
{
	size_t i;
	json_t *row;
	json_array_foreach(page, i, row)
	{
		const bool ended = json_is_true(json_object_get(row, "ended"));
		if (kind == TOP_CONNECTIONS && !json_is_integer(json_object_get(row, "id")))
			return 0;
		if (ended && !is_news(sample, row, last_ended))
			return 0;
		if (add(sample, kind, row, at_us, ended) < 0)
			return -ENOMEM;
	}
	return 1;
}

void top_sample_free(struct top_sample *sample)
{
	for (enum top_kind kind = 0; kind < TOP_KINDS; kind++) {
		struct top_row *row, *next;
		HASH_ITER (hh, sample->rows[kind], row, next)
			top_sample_remove(sample, kind, row);
	}
	*sample = (struct top_sample){ 0 };
}

/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/sort.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/smcrctl/objects.h"
#include "cli/smcrctl/words.h"

#define TITLES_LEN 600

struct entry {
	json_t *row;
	const json_t *value;
	char *text; /* of a column that is made of several values */
	size_t place;
	bool descending;
};

static void list_titles(const struct object *object, char text[TITLES_LEN])
{
	size_t at = 0;
	*text = '\0';
	for (size_t c = 0; c < object->num_columns && at < TITLES_LEN; c++)
		at += (size_t)snprintf(text + at, TITLES_LEN - at, "%s%s", c ? ", " : "",
				       object->columns[c].title);
}

bool sort_parse(const char *word, const struct object *object, struct sort *ret_sort)
{
	char titles[TITLES_LEN];
	const char *name = *word == '-' ? word + 1 : word;
	for (size_t c = 0; c < object->num_columns; c++) {
		const struct column *column = &object->columns[c];
		if (strcasecmp(column->title, name) &&
		    (!column->key || strcasecmp(column->key, name)))
			continue;
		*ret_sort = (struct sort){ .column = column,
					   .descending = *word == '-',
					   .rows = object->rows };
		return true;
	}
	if (!object->columns)
		return words_refuse("%s is no table that could be sorted", object->name);
	list_titles(object, titles);
	return words_refuse("%s has no column '%s' to sort by; it has: %s", object->name, name,
			    titles);
}

static bool is_known(const struct entry *entry)
{
	return entry->text || (entry->value && !json_is_null(entry->value));
}

static const char *text_of(const struct entry *entry)
{
	const char *text = entry->text ? entry->text : json_string_value(entry->value);
	return text ? text : "";
}

static int compare_values(const struct entry *a, const struct entry *b)
{
	if (json_is_integer(a->value) && json_is_integer(b->value)) {
		json_int_t left = json_integer_value(a->value),
			   right = json_integer_value(b->value);
		return (left > right) - (left < right);
	}
	if (json_is_number(a->value) && json_is_number(b->value)) {
		double left = json_number_value(a->value), right = json_number_value(b->value);
		return (left > right) - (left < right);
	}
	if (json_is_boolean(a->value) && json_is_boolean(b->value))
		return json_is_true(a->value) - json_is_true(b->value);
	return strverscmp(text_of(a), text_of(b)); /* 3/2 comes before 3/10, 10.0.0.9 before .10 */
}

static int compare(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;
	int result = 0;
	if (is_known(a) != is_known(b))
		return is_known(a) ? -1 : 1;
	if (is_known(a))
		result = compare_values(a, b);
	if (a->descending)
		result = -result;
	return result ? result : (a->place > b->place) - (a->place < b->place);
}

static void fill(struct entry *entry, const struct sort *sort, json_t *row, size_t place)
{
	*entry = (struct entry){ .row = row, .place = place, .descending = sort->descending };
	if (sort->column->key)
		entry->value = table_value(row, sort->column);
	else
		entry->text = sort->column->format(row);
}

static json_t *sorted_rows(const struct sort *sort, json_t *rows)
{
	size_t n = json_array_size(rows);
	struct entry *entries;
	if (!sort->column || n < 2)
		return json_incref(rows);
	entries = calloc(n, sizeof(*entries));
	json_t *sorted = json_array();
	for (size_t i = 0; entries && i < n; i++)
		fill(&entries[i], sort, json_array_get(rows, i), i);
	if (entries)
		qsort(entries, n, sizeof(*entries), compare);
	for (size_t i = 0; entries && i < n; i++) {
		json_array_append(sorted, entries[i].row);
		free(entries[i].text);
	}
	free(entries);
	return sorted;
}

json_t *sort_rows(const struct sort *sort, json_t *result)
{
	if (!sort->column || !sort->rows || !json_is_object(result))
		return sorted_rows(sort, result);
	json_t *copy = json_copy(result);
	json_object_set_new(copy, sort->rows,
			    sorted_rows(sort, json_object_get(result, sort->rows)));
	return copy;
}

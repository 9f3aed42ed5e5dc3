/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/filters.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/smcrctl/words.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum kind { TEXT, NUMBER, GROUP, USER };

static const struct filter {
	const char *name, *parameter, *value;
	enum kind kind;
	uint64_t max;
	const char *objects; /* which have this filter, with a blank before and behind each */
} filters[] = {
	{ "peer", "peer", "ADDRESS", TEXT, 0,
	  " peer linkgroup link connection cm smbdirect event top capture " },
	{ "port", "port", "NUMBER", NUMBER, UINT16_MAX, " connection cm smbdirect top " },
	{ "pid", "pid", "NUMBER", NUMBER, INT32_MAX, " connection top " },
	{ "uid", "uid", "USER", USER, 0, " connection top " },
	{ "mode", "mode", "MODE", TEXT, 0, " connection top " },
	{ "state", "state", "STATE", TEXT, 0, " link connection cm smbdirect " },
	{ "group", "linkgroup", "GROUP", GROUP, 0,
	  " linkgroup link connection rmb event top capture " },
};

static bool concerns(const struct filter *filter, const char *object)
{
	char word[32];
	snprintf(word, sizeof(word), " %s ", object);
	return strstr(filter->objects, word);
}

bool filters_begin(const char *object, const char *word)
{
	for (size_t i = 0; i < COUNT(filters); i++)
		if (concerns(&filters[i], object) && (!word || !strcmp(word, filters[i].name)))
			return true;
	return false;
}

const char *filters_name(const char *object, unsigned int nth)
{
	for (size_t i = 0; i < COUNT(filters); i++)
		if (concerns(&filters[i], object) && nth-- == 0)
			return filters[i].name;
	return NULL;
}

void filters_list(const char *object, char *text, size_t len)
{
	size_t at = 0;
	*text = '\0';
	for (size_t i = 0; i < COUNT(filters) && at < len; i++)
		if (concerns(&filters[i], object))
			at += (size_t)snprintf(text + at, len - at, "%s%s %s", at ? ", " : "",
					       filters[i].name, filters[i].value);
}

static const struct filter *find(const char *object, const char *word)
{
	const struct filter *candidates[COUNT(filters)];
	const char *names[COUNT(filters)], *other;
	char text[160], hint[WORDS_HINT_LEN];
	size_t n = 0;
	for (size_t i = 0; i < COUNT(filters); i++)
		if (concerns(&filters[i], object)) {
			names[n] = filters[i].name;
			candidates[n++] = &filters[i];
		}
	int found = words_match(word, names, n, &other);
	if (other)
		words_refuse("'%s' may be %s or %s", word, names[found], other);
	else if (found < 0 && n == 0)
		words_refuse("unexpected argument '%s'", word);
	else if (found < 0) {
		filters_list(object, text, sizeof(text));
		words_refuse("%s cannot be limited by '%s'; it can be by: %s%s", object, word, text,
			     words_hint(word, names, n, hint));
	}
	return other || found < 0 ? NULL : candidates[found];
}

static bool set_number(const struct filter *filter, const char *word, json_t *params)
{
	uint64_t value;
	if (words_number(word, strlen(word), filter->max, &value))
		return words_set(params, filter->parameter, value);
	return words_refuse("%s '%s' is no number from 1 to %llu", filter->name, word,
			    (unsigned long long)filter->max);
}

/* A number or a name. */
static bool set_user(const char *word, json_t *params)
{
	char number[WORDS_USER_LEN];
	if (!isdigit((unsigned char)*word) && !(word = words_user(word, number)))
		return false;
	char *end;
	unsigned long uid = strtoul(word, &end, 10);
	if (*end || uid > UINT32_MAX)
		return words_refuse("uid '%s' is no user", word);
	return words_set(params, "uid", uid);
}

static bool set_value(const struct filter *filter, const char *word, json_t *params)
{
	uint64_t group;
	switch (filter->kind) {
	case NUMBER: return set_number(filter, word, params);
	case USER: return set_user(word, params);
	case GROUP: return words_group(word, &group) && words_set(params, filter->parameter, group);
	case TEXT: break;
	}
	return json_object_set_new(params, filter->parameter, json_string(word)) == 0 ||
	       words_refuse("%s: '%s' is not UTF-8", filter->name, word);
}

bool filters_take(const char *object, int argc, char **argv, json_t *params)
{
	for (int i = 0; i < argc; i += 2) {
		const struct filter *filter = find(object, argv[i]);
		if (!filter)
			return false;
		if (i + 1 == argc)
			return words_refuse("'%s' is not followed by its value: %s %s", argv[i],
					    filter->name, filter->value);
		if (json_object_get(params, filter->parameter))
			return words_refuse("'%s' is there twice", filter->name);
		if (!set_value(filter, argv[i + 1], params))
			return false;
	}
	return true;
}

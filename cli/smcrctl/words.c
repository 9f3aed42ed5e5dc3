/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/words.h"

#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/smcrctl/output.h"

#define TEXT_LEN 1024

static const struct output plain;
static const struct output *say_as = &plain;

void words_say_as(const struct output *output)
{
	say_as = output;
}

bool words_refuse(const char *format, ...)
{
	char text[TEXT_LEN];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	output_error(say_as, STATUS_USAGE, "usage", text);
	return false;
}

int words_match(const char *word, const char *const *names, size_t n, const char **ret_other)
{
	int found = -1;
	*ret_other = NULL;
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(names[i], word)) {
			*ret_other = NULL;
			return (int)i;
		}
		if (!*word || strncmp(names[i], word, strlen(word)))
			continue;
		if (found >= 0)
			*ret_other = names[i];
		else
			found = (int)i;
	}
	return found;
}

/* ---- suggestions ---- */

#define LONGEST 24 /* longer words get no suggestion */

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* How many letters are wrong, missing, too many, or stand in the other order (the optimal string
 * alignment distance). */
static size_t distance(const char *a, const char *b)
{
	size_t table[LONGEST + 1][LONGEST + 1];
	size_t rows = strlen(a), columns = strlen(b);
	for (size_t i = 0; i <= rows; i++)
		for (size_t k = 0; k <= columns; k++) {
			if (i == 0 || k == 0) {
				table[i][k] = i + k;
				continue;
			}
			size_t change = table[i - 1][k - 1] + (a[i - 1] != b[k - 1]);
			table[i][k] = least(change, 1 + least(table[i - 1][k], table[i][k - 1]));
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
				table[i][k] = least(table[i][k], table[i - 2][k - 2] + 1);
		}
	return table[rows][columns];
}

const char *words_hint(const char *word, const char *const *names, size_t n,
		       char ret_hint[WORDS_HINT_LEN])
{
	size_t len = strlen(word), best = len / 2 < 2 ? len / 2 : 2;
	ret_hint[0] = '\0';
	for (size_t i = 0; len <= LONGEST && i < n; i++) {
		if (strlen(names[i]) > LONGEST)
			continue;
		size_t wrong = distance(word, names[i]);
		if (wrong > best || (wrong == best && *ret_hint))
			continue;
		best = wrong;
		snprintf(ret_hint, WORDS_HINT_LEN, "; did you mean '%s'?", names[i]);
	}
	return ret_hint;
}

/* ---- what words stand for ---- */

bool words_number(const char *text, size_t len, uint64_t max, uint64_t *ret)
{
	uint64_t value = 0;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(text[i] - '0');
		if (value > max)
			return false;
	}
	*ret = value;
	return len > 0 && value > 0;
}

bool words_group(const char *word, uint64_t *ret)
{
	return words_number(word, strlen(word), WORDS_MAX_GROUP, ret) ||
	       words_refuse("'%s' is no link group: 'smcrctl linkgroup' lists them by their "
			    "numbers",
			    word);
}

const char *words_user(const char *name, char ret_number[WORDS_USER_LEN])
{
	const struct passwd *user = getpwnam(name);
	if (!user) {
		words_refuse("this host has no user '%s'", name);
		return NULL;
	}
	snprintf(ret_number, WORDS_USER_LEN, "%u", (unsigned int)user->pw_uid);
	return ret_number;
}

bool words_set(json_t *params, const char *name, uint64_t value)
{
	return json_object_set_new(params, name, json_integer((json_int_t)value)) == 0 ||
	       words_refuse("out of memory");
}

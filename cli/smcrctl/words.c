/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/words.h"

#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool words_refuse(const char *format, ...)
{
	va_list args;
	fputs("smcrctl: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
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

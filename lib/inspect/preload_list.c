/* SPDX-License-Identifier: MIT */
#include "lib/inspect/preload_list.h"

#include <string.h>

#define SEPARATORS " :"
#define MARK       "::"

bool preload_list_next(const char **list, struct preload_item *ret_item)
{
	const char *at = *list + strspn(*list, SEPARATORS);
	*ret_item = (struct preload_item){ at, strcspn(at, SEPARATORS) };
	*list = at + ret_item->len;
	return ret_item->len > 0;
}

bool preload_list_is(const struct preload_item *item, const char *library)
{
	const size_t len = strlen(library);
	if (item->len < len || memcmp(item->at + item->len - len, library, len) != 0)
		return false;
	return item->len == len || item->at[item->len - len - 1] == '/';
}

/* gcc's runtime is libasan.so.8; clang's libclang_rt.asan-x86_64.so, in a directory for the
 * architecture libclang_rt.asan.so. Other sanitizers' runtimes may stand anywhere. */
bool preload_list_is_runtime(const struct preload_item *item)
{
	static const char *const names[] = { "libasan.so", "libclang_rt.asan" };
	size_t start = item->len;
	while (start > 0 && item->at[start - 1] != '/')
		start--;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const size_t len = strlen(names[i]);
		if (item->len - start >= len && memcmp(item->at + start, names[i], len) == 0)
			return true;
	}
	return false;
}

bool preload_list_has(const char *list, const char *library)
{
	struct preload_item item;
	while (preload_list_next(&list, &item))
		if (preload_list_is(&item, library))
			return true;
	return false;
}

/* Where the list goes on behind a runtime with the mark, or the list itself. */
static const char *behind_marked(const char *list, const char *name)
{
	const char *at = list;
	struct preload_item runtime, library;
	if (preload_list_next(&at, &runtime) && runtime.at == list &&
	    preload_list_is_runtime(&runtime) && strncmp(at, MARK, strlen(MARK)) == 0 &&
	    preload_list_next(&at, &library) && library.at == runtime.at + runtime.len + 2 &&
	    preload_list_is(&library, name))
		return library.at;
	return list;
}

/* ---- one that fits */

bool preload_list_fits(const char *list, const struct preload_wish *wish)
{
	bool has_library = false, has_runtime = false;
	struct preload_item item;
	if (behind_marked(list, wish->name) != list && !*wish->runtime)
		return false;
	while (preload_list_next(&list, &item)) {
		if (preload_list_is(&item, wish->name))
			has_library = true;
		else if (preload_list_is_runtime(&item) && has_library)
			return false;
		else if (preload_list_is_runtime(&item))
			has_runtime = true;
	}
	if (!wish->library)
		return !has_library;
	return has_library && (has_runtime || !*wish->runtime);
}

size_t preload_list_size(const char *list, const struct preload_wish *wish)
{
	return strlen(list) + strlen(wish->runtime) + strlen(MARK) +
	       (wish->library ? strlen(wish->library) : 0) + sizeof(":");
}

static char *append(char *to, const char *text, size_t len)
{
	memcpy(to, text, len);
	return to + len;
}

/* Add the items of the list that are runtimes, or those that are not, but for the library. */
static char *add_items(char *start, char *end, const char *list, const struct preload_wish *wish,
		       bool runtimes)
{
	struct preload_item item;
	while (preload_list_next(&list, &item)) {
		if (preload_list_is(&item, wish->name) ||
		    preload_list_is_runtime(&item) != runtimes)
			continue;
		if (end != start)
			*end++ = ':';
		end = append(end, item.at, item.len);
	}
	return end;
}

char *preload_list_make(const char *list, const struct preload_wish *wish, char *room)
{
	list = behind_marked(list, wish->name);
	char *end = add_items(room, room, list, wish, true);
	if (wish->library) {
		if (end != room) {
			*end++ = ':';
		} else if (*wish->runtime) {
			end = append(end, wish->runtime, strlen(wish->runtime));
			end = append(end, MARK, strlen(MARK));
		}
		end = append(end, wish->library, strlen(wish->library));
	}
	end = add_items(room, end, list, wish, false);
	*end = '\0';
	return room;
}

void preload_list_take_runtime(char *list, const char *name)
{
	const char *rest = behind_marked(list, name);
	memmove(list, rest, strlen(rest) + 1);
}

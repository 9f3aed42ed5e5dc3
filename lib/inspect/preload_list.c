/* SPDX-License-Identifier: MIT */
#include "lib/inspect/preload_list.h"

#include <string.h>

#define SEPARATORS " :"

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

/* SPDX-License-Identifier: MIT */
#include "lib/preload/environment.h"

#include <stdint.h>
#include <string.h>

#include "lib/inspect/preload_list.h"

#define PRELOAD "LD_PRELOAD="

static bool same_name(const char *variable, const char *name, size_t name_len)
{
	return strncmp(variable, name, name_len) == 0 && variable[name_len] == '=';
}

const char *environment_get(char *const envp[], const char *name)
{
	const size_t len = strlen(name);
	for (size_t i = 0; envp && envp[i]; i++)
		if (same_name(envp[i], name, len))
			return envp[i] + len + 1;
	return NULL;
}

static bool is_preload(const char *variable)
{
	return strncmp(variable, PRELOAD, strlen(PRELOAD)) == 0;
}

/* ---- the list of libraries */

static bool lists_library(const char *list, const char *library)
{
	struct preload_item item;
	while (preload_list_next(&list, &item))
		if (preload_list_is(&item, library))
			return true;
	return false;
}

/* ---- what is there */

void environment_view(char *const envp[], const struct environment_ours *ours,
		      struct environment_view *ret_view)
{
	struct environment_view view = { 0 };
	for (; envp && envp[view.count]; view.count++) {
		const char *variable = envp[view.count];
		if (is_preload(variable))
			view.preload = variable + strlen(PRELOAD);
		for (size_t i = 0; i < ENVIRONMENT_SETTINGS; i++)
			if (ours->settings[i] &&
			    same_name(variable, ours->settings[i], strcspn(ours->settings[i], "=")))
				view.has_setting[i] = true;
	}
	view.has_library = view.preload && lists_library(view.preload, ours->library);
	*ret_view = view;
}

bool environment_differs(const struct environment_view *view, const struct environment_ours *ours,
			 bool library)
{
	if (view->has_library != library)
		return true;
	for (size_t i = 0; library && i < ENVIRONMENT_SETTINGS; i++)
		if (ours->settings[i] && !view->has_setting[i])
			return true;
	return false;
}

/* ---- a new one */

/* Pointers to each variable, to a new LD_PRELOAD and new settings, and NULL; and the text of
 * LD_PRELOAD. */
size_t environment_size(const struct environment_view *view, const struct environment_ours *ours)
{
	return (view->count + 1 + ENVIRONMENT_SETTINGS + 1) * sizeof(char *) +
	       strlen(ours->preload) + (view->preload ? strlen(view->preload) : 0) + sizeof(":");
}

static char *append(char *to, const char *text, size_t len)
{
	memcpy(to, text, len);
	return to + len;
}

/* This library comes first, so that libraries behind it see the calls that it passes on. @return
 * NULL: no library is left in the list
 */
static char *make_preload(const struct environment_view *view, const struct environment_ours *ours,
			  bool library, char *room)
{
	const char *list = view->preload ? view->preload : "";
	char *end = room, *start;
	struct preload_item item;
	if (library)
		end = append(end, ours->preload, strlen(ours->preload));
	else
		end = append(end, PRELOAD, strlen(PRELOAD));
	start = end;
	while (preload_list_next(&list, &item)) {
		if (preload_list_is(&item, ours->library))
			continue;
		if (library || end != start)
			*end++ = ':';
		end = append(end, item.at, item.len);
	}
	*end = '\0';
	return library || end != start ? room : NULL;
}

char **environment_make(char *const envp[], const struct environment_view *view,
			const struct environment_ours *ours, bool library, void *room)
{
	char **made = room;
	const bool keep_preload = view->has_library == library;
	size_t count = 0;
	for (size_t i = 0; i < view->count && envp[i]; i++)
		if (keep_preload || !is_preload(envp[i]))
			made[count++] = envp[i];
	if (!keep_preload) {
		char *text = (char *)(made + view->count + 1 + ENVIRONMENT_SETTINGS + 1);
		made[count] = make_preload(view, ours, library, text);
		count += made[count] != NULL;
	}
	for (size_t i = 0; library && i < ENVIRONMENT_SETTINGS; i++)
		if (ours->settings[i] && !view->has_setting[i])
			made[count++] = (char *)(uintptr_t)ours->settings[i];
	made[count] = NULL;
	return made;
}

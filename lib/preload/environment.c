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
	view.has_library = view.preload && preload_list_has(view.preload, ours->library);
	*ret_view = view;
}

/* The list of LD_PRELOAD. */
static const char *list_of(const struct environment_view *view)
{
	return view->preload ? view->preload : "";
}

static struct preload_wish wish_of(const struct environment_ours *ours,
				   const struct environment_wish *wish)
{
	return (struct preload_wish){
		.name = ours->library,
		.library = wish->library ? ours->path : NULL,
		.runtime = wish->runtime,
	};
}

bool environment_differs(const struct environment_view *view, const struct environment_ours *ours,
			 const struct environment_wish *wish)
{
	const struct preload_wish preload = wish_of(ours, wish);
	if (!preload_list_fits(list_of(view), &preload))
		return true;
	for (size_t i = 0; wish->library && i < ENVIRONMENT_SETTINGS; i++)
		if (ours->settings[i] && !view->has_setting[i])
			return true;
	return false;
}

/* ---- a new one */

/* Pointers to each variable, to a new LD_PRELOAD and new settings, and NULL; and the text of
 * LD_PRELOAD. */
size_t environment_size(const struct environment_view *view, const struct environment_ours *ours,
			const struct environment_wish *wish)
{
	const struct preload_wish preload = wish_of(ours, wish);
	return (view->count + 1 + ENVIRONMENT_SETTINGS + 1) * sizeof(char *) + strlen(PRELOAD) +
	       preload_list_size(list_of(view), &preload);
}

/* @return NULL: no library is left in the list */
static char *make_preload(const struct environment_view *view, const struct preload_wish *wish,
			  char *room)
{
	char *list = room + strlen(PRELOAD);
	memcpy(room, PRELOAD, strlen(PRELOAD));
	return *preload_list_make(list_of(view), wish, list) ? room : NULL;
}

char **environment_make(char *const envp[], const struct environment_view *view,
			const struct environment_ours *ours, const struct environment_wish *wish,
			void *room)
{
	char **made = room;
	const struct preload_wish preload = wish_of(ours, wish);
	const bool keep_preload = preload_list_fits(list_of(view), &preload);
	size_t count = 0;
	for (size_t i = 0; i < view->count && envp[i]; i++)
		if (keep_preload || !is_preload(envp[i]))
			made[count++] = envp[i];
	if (!keep_preload) {
		char *text = (char *)(made + view->count + 1 + ENVIRONMENT_SETTINGS + 1);
		made[count] = make_preload(view, &preload, text);
		count += made[count] != NULL;
	}
	for (size_t i = 0; wish->library && i < ENVIRONMENT_SETTINGS; i++)
		if (ours->settings[i] && !view->has_setting[i])
			made[count++] = (char *)(uintptr_t)ours->settings[i];
	made[count] = NULL;
	return made;
}

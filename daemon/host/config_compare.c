/* SPDX-License-Identifier: MIT */
/* What a new configuration changes, and which of the changes wait for a restart. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/host/config_key.h"

typedef void (*change_fn)(void *arg, const struct config_change *change);

static bool says(const struct config *config, const struct config_key *key, const char *value)
{
	const struct config_setting *setting = NULL;
	while ((setting = config_next_setting(config, key, setting)))
		if (!strcmp(setting->value, value))
			return true;
	return false;
}

/* Report values of a list that `config` has and `other` has not. @return how many */
static size_t tell_missing(const struct config *config, const struct config *other,
			   const struct config_key *key, bool removed, change_fn fn, void *arg)
{
	const struct config_setting *setting = NULL;
	bool found = key->finds && !config_next_setting(other, key, NULL);
	size_t n = 0;
	while ((setting = config_next_setting(config, key, setting))) {
		if (says(other, key, setting->value))
			continue;
		fn(arg, &(struct config_change){ .key = key,
						 .from = removed ? setting->value : NULL,
						 .to = removed ? NULL : setting->value,
						 .found = found });
		n++;
	}
	return n;
}

static bool same_order(const struct config *before, const struct config *now,
		       const struct config_key *key)
{
	const struct config_setting *a = config_next_setting(before, key, NULL);
	const struct config_setting *b = config_next_setting(now, key, NULL);
	while (a && b && !strcmp(a->value, b->value)) {
		a = config_next_setting(before, key, a);
		b = config_next_setting(now, key, b);
	}
	return !a && !b;
}

static void compare_list(const struct config *before, const struct config *now,
			 const struct config_key *key, change_fn fn, void *arg)
{
	size_t n = tell_missing(before, now, key, true, fn, arg);
	n += tell_missing(now, before, key, false, fn, arg);
	if (n == 0 && key->ordered && !same_order(before, now, key))
		fn(arg, &(struct config_change){ .key = key, .from = "", .to = "" });
}

void config_compare(const struct config *before, const struct config *now, change_fn fn, void *arg)
{
	const struct config_key *key;
	for (size_t i = 0; (key = config_key(i)); i++) {
		if (key->list) {
			compare_list(before, now, key, fn, arg);
			continue;
		}
		const struct config_setting *a = config_next_setting(before, key, NULL);
		const struct config_setting *b = config_next_setting(now, key, NULL);
		if (strcmp(a->value, b->value) != 0)
			fn(arg,
			   &(struct config_change){ .key = key, .from = a->value, .to = b->value });
	}
}

static const char *or_none(const char *value)
{
	return *value ? value : "(none)";
}

char *config_change_text(const struct config_change *change)
{
	const char *name = change->key->name, *from = change->from, *to = change->to;
	char *text;
	int n;
	if (change->found)
		n = asprintf(&text, "%s: %s %s; %s", name,
			     from ? "no longer named:" : "now named:", from ? from : to,
			     from ? "none is named now, and smcrd uses those that it finds"
				  : "smcrd no longer uses all that it finds");
	else if (!from || !to)
		n = asprintf(&text, "%s: %s %s", name, from ? "no longer" : "now also",
			     from ? from : to);
	else if (!*from && !*to)
		n = asprintf(&text, "%s: another order", name);
	else
		n = asprintf(&text, "%s: %s -> %s", name, or_none(from), or_none(to));
	return n < 0 ? NULL : text;
}

/* Give the key the running value in `next`, and note the new one as `after_restart`. */
static int keep_value(const struct config_setting *running, struct config *next)
{
	char why[CONFIG_WHY_LEN];
	const char *name = running->key->name;
	const struct config_place place = { running->origin, running->file, running->line };
	char *later = strdup(config_setting(next, name)->value);
	if (!later || !config_put(next, name, running->value, &place, why)) {
		free(later);
		return -ENOMEM;
	}
	config_setting(next, name)->after_restart = later;
	return 0;
}

int config_keep(const struct config *running, struct config *next)
{
	const struct config_key *key;
	for (size_t i = 0; (key = config_key(i)); i++) {
		if (!key->restart)
			continue;
		const struct config_setting *now = config_next_setting(running, key, NULL);
		if (!strcmp(now->value, config_next_setting(next, key, NULL)->value))
			continue;
		int error = keep_value(now, next);
		if (error)
			return error;
	}
	return 0;
}

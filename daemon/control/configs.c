/* SPDX-License-Identifier: MIT */
/* The configuration: showing it and where it came from, and reading it again. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "daemon/control/internal.h"
#include "daemon/control/views.h"
#include "daemon/host/words.h"
#include "proto/smcr/eid.h"

/* Further changes are counted, but not listed, to bound the reply. */
#define MAX_CHANGES 64

/** A caller that waits for a reload. */
struct control_reloading {
	uint64_t number;      /* of the reload */
	struct waiter waiter; /* nobody: the caller is gone */
	char text[COMMAND_TEXT_LEN];
	struct control_reloading *prev, *next;
};

/* Files may have any bytes, JSON may not. */
static json_t *words(const char *text)
{
	char *copy = strdup(text);
	if (!copy)
		return NULL;
	words_mend(copy);
	json_t *string = json_string(copy);
	free(copy);
	return string;
}

static json_t *words_or_null(const char *text)
{
	return text ? words(text) : json_null();
}

/* ---- config show ---- */

struct rows {
	struct control *control;
	struct page *page;
	json_t *list;
	uint64_t after, number; /* skip those up to `after` */
	const struct config_key *key;
	bool any; /* a row of this key was added */
};

static const char section[] = "config";

static const char run_time[] = "run-time";

static const char *origin_name(const struct config_setting *setting)
{
	if (!setting)
		return run_time;
	switch (setting->origin) {
	case CONFIG_FROM_DEFAULT: return "default";
	case CONFIG_FROM_FILE: return "file";
	case CONFIG_FROM_COMMAND_LINE: return "command-line";
	case CONFIG_FROM_RUN_TIME: break;
	}
	return run_time;
}

static const struct config_setting *find_setting(const struct rows *rows, const char *value)
{
	const struct config *config = rows->control->config;
	const struct config_setting *setting = config_next_setting(config, rows->key, NULL);
	while (setting && strcmp(setting->value, value) != 0)
		setting = config_next_setting(config, rows->key, setting);
	return setting;
}

/* @return whether there is room for another row */
static bool add(struct rows *rows, const char *value, const struct config_setting *setting,
		const char *origin)
{
	json_t *line = setting && setting->line ? json_integer(setting->line) : json_null();
	return page_add(rows->page, rows->list,
			json_pack("{s:s, s:o, s:s, s:o, s:o, s:s, s:o, s:b}", "key",
				  rows->key->name, "value", words_or_null(value), "origin", origin,
				  "file", words_or_null(setting ? setting->file : NULL), "line",
				  line, "changes_at", rows->key->restart ? "restart" : "reload",
				  "after_restart",
				  words_or_null(setting ? setting->after_restart : NULL),
				  "settable", config_key_is_settable(rows->key)),
			section, rows->number);
}

/* A value in force. Which of the files have set it is looked up only if the value is shown. */
static bool add_value(struct rows *rows, const char *value)
{
	rows->any = true;
	if (++rows->number <= rows->after)
		return true;
	const struct config_setting *setting = find_setting(rows, value);
	return add(rows, value, setting, origin_name(setting));
}

struct rule_rows {
	struct rows *rows;
	size_t skip; /* "deny " or "allow " */
	bool denies;
};

static bool add_rule(void *arg, const struct policy_rule_view *view)
{
	struct rule_rows *rules = arg;
	char text[POLICY_RULE_TEXT];
	bool denies = view->rule->match.flags & SMCR_RULE_DENY;
	if (denies != rules->denies)
		return true;
	policy_rule_text(view->rule, text);
	return add_value(rules->rows, text + rules->skip);
}

static bool add_rules(struct rows *rows, bool denies)
{
	struct rule_rows rules = { rows, denies ? strlen("deny ") : strlen("allow "), denies };
	return policy_walk_rules(rows->control->policy, 0, add_rule, &rules);
}

static bool add_ueids(struct rows *rows)
{
	uint8_t ueids[SMCR_MAX_UEIDS][SMCR_EID_LEN];
	char name[SMCR_EID_TEXT_LEN];
	size_t n = smcr_engine_get_ueids(rows->control->engine, ueids);
	for (size_t i = 0; i < n; i++) {
		smcr_eid_text(ueids[i], name);
		if (!add_value(rows, name))
			return false;
	}
	return true;
}

static bool add_settings(struct rows *rows)
{
	const struct config *config = rows->control->config;
	const struct config_setting *setting = config_next_setting(config, rows->key, NULL);
	for (; setting; setting = config_next_setting(config, rows->key, setting)) {
		rows->any = true;
		if (++rows->number > rows->after &&
		    !add(rows, setting->value, setting, origin_name(setting)))
			return false;
	}
	return true;
}

/* Values that can be changed at run time are read where they are used. */
static bool add_key(struct rows *rows)
{
	const char *name = rows->key->name;
	bool room;
	rows->any = false;
	if (!strcmp(name, "ueid"))
		room = add_ueids(rows);
	else if (!strcmp(name, "deny") || !strcmp(name, "allow"))
		room = add_rules(rows, !strcmp(name, "deny"));
	else
		room = add_settings(rows);
	if (!room || rows->any || ++rows->number <= rows->after)
		return room;
	return add(rows, NULL, NULL, "default"); /* an empty list */
}

json_t *control_show_config(struct control *control, struct page *page, struct refusal *refusal)
{
	static const char *const sections[] = { section };
	struct rows rows = { .control = control, .page = page };
	size_t which;
	if (!page_begin(page, sections, 1, &which, &rows.after, refusal))
		return NULL;
	rows.list = json_array();
	for (size_t i = 0; (rows.key = config_key(i)); i++)
		if (!add_key(&rows))
			break;
	return rows.list;
}

/* ---- config reload ---- */

json_t *config_reload(struct control *control, const struct command_call *call, bool *ret_later)
{
	struct control_reloading *reloading = calloc(1, sizeof(*reloading));
	if (reloading)
		reloading->number = control->reload ? control->reload(control->ctx) : 0;
	if (!reloading || !reloading->number) {
		free(reloading);
		return refuse(
			call->refusal, EAGAIN, "failed",
			"smcrd cannot read its configuration now: it stops, or has no memory");
	}
	reloading->waiter = waiter_of(call->asker);
	snprintf(reloading->text, sizeof(reloading->text), "%s", call->text);
	DL_APPEND(control->reloads, reloading);
	*ret_later = true;
	return NULL;
}

struct told {
	FILE *text;      /* for people */
	json_t *changes; /* for programs */
	size_t num;
};

static void tell_change(void *arg, const struct config_change *change)
{
	struct told *told = arg;
	char *text = told->num < MAX_CHANGES ? config_change_text(change) : NULL;
	if (++told->num > MAX_CHANGES)
		return;
	json_array_append_new(told->changes, json_pack("{s:s, s:o, s:o}", "key", change->key->name,
						       "from", words_or_null(change->from), "to",
						       words_or_null(change->to)));
	if (text)
		fprintf(told->text, "%s\n", text);
	free(text);
}

static json_t *list_notes(const struct config_notes *notes)
{
	json_t *list = json_array();
	for (size_t i = 0; i < config_notes_kept(notes); i++)
		json_array_append_new(list, words(config_note_text(notes, i)));
	return list;
}

static void print_notes(const struct config_notes *notes, FILE *out)
{
	size_t kept = config_notes_kept(notes);
	for (size_t i = 0; i < kept; i++)
		fprintf(out, "%s%s", config_note_text(notes, i), i + 1 < notes->num ? "\n" : "");
	if (kept < notes->num)
		fprintf(out, "and %zu more", notes->num - kept);
}

static void print_changes(struct told *told, const struct control_reloaded *what)
{
	if (what->before)
		config_compare(what->before, what->now, tell_change, told);
	if (told->num > MAX_CHANGES)
		fprintf(told->text, "and %zu more\n", told->num - MAX_CHANGES);
	if (told->num == 0)
		fputs("No value has changed.\n", told->text);
	if (what->notes->num) {
		fputs("Not yet:\n", told->text);
		print_notes(what->notes, told->text);
	}
}

/* @return the reply's result, or NULL without memory */
static json_t *changes_json(const struct control_reloaded *what)
{
	char *text = NULL;
	size_t size = 0;
	struct told told = { .text = open_memstream(&text, &size), .changes = json_array() };
	if (!told.text) {
		json_decref(told.changes);
		return NULL;
	}
	print_changes(&told, what);
	fclose(told.text);
	while (size > 0 && text[size - 1] == '\n')
		text[--size] = '\0';
	json_t *result = json_pack("{s:o, s:I, s:o, s:o}", "text", words(text), "changes",
				   (json_int_t)told.num, "changed", told.changes, "not_yet",
				   list_notes(what->notes));
	free(text);
	return result;
}

static const char *plural(json_int_t n)
{
	return n == 1 ? "" : "s";
}

/* Tell the log and the callers. */
static void describe(const struct control_reloaded *what, json_int_t changes,
		     struct refusal *refusal, char *ret_text, size_t len)
{
	size_t errors = what->errors->num, notes = what->notes->num;
	snprintf(ret_text, len, "%" JSON_INTEGER_FORMAT " value%s changed", changes,
		 plural(changes));
	if (notes)
		snprintf(ret_text, len,
			 "%" JSON_INTEGER_FORMAT " value%s changed, and %zu thing%s not yet so",
			 changes, plural(changes), notes, plural((json_int_t)notes));
	if (what->stopping)
		refuse(refusal, ECANCELED, "failed", "nothing was changed: smcrd stops");
	else if (errors)
		refuse(refusal, EINVAL, "bad-configuration",
		       "nothing was changed: the configuration has %zu error%s", errors,
		       plural((json_int_t)errors));
	else
		return;
	snprintf(ret_text, len, "%s", refusal->text);
}

static void answer(const struct control_reloading *reloading, json_t *result,
		   const struct refusal *refusal)
{
	if (reloading->waiter.request)
		waiter_reply(&reloading->waiter, json_incref(result), refusal);
}

void control_reload_done(struct control *control, uint64_t number,
			 const struct control_reloaded *what)
{
	struct control_reloading *reloading, *next;
	struct refusal refusal = { 0 };
	char outcome[sizeof(refusal.text)];
	bool failed = what->errors->num > 0 || what->stopping, asked = false;
	json_t *result = failed ? NULL : changes_json(what);
	if (!failed && !result)
		refuse(&refusal, ENOMEM, "no-memory", "it holds, but there is no memory to tell");
	refusal.errors = list_notes(what->errors);
	describe(what, json_integer_value(json_object_get(result, "changes")), &refusal, outcome,
		 sizeof(outcome));
	DL_FOREACH_SAFE (control->reloads, reloading, next) {
		if (reloading->number > number)
			continue;
		asked = true;
		if (control->events)
			events_command(control->events, reloading->text, failed, outcome);
		answer(reloading, result, &refusal);
		DL_DELETE(control->reloads, reloading);
		free(reloading);
	}
	if (!asked && !what->stopping && control->events)
		events_command(control->events, "config.reload by a signal", failed, outcome);
	json_decref(result);
	json_decref(refusal.errors);
}

void config_reload_forget(struct control *control, uint64_t request)
{
	struct control_reloading *reloading;
	DL_SEARCH_SCALAR(control->reloads, reloading, waiter.request, request);
	if (reloading)
		reloading->waiter.request = 0; /* the name of the caller is still told */
}

void config_reload_forget_all(struct control *control)
{
	struct control_reloading *reloading, *next;
	DL_FOREACH_SAFE (control->reloads, reloading, next) {
		DL_DELETE(control->reloads, reloading);
		free(reloading);
	}
}

/* ---- config set ---- */

static json_t *refuse_value(const struct config_notes *errors, struct refusal *refusal)
{
	refusal->parameter =
		strstr(config_note_text(errors, 0), ": there is no such key") ? "name" : "value";
	return refuse(refusal, EINVAL, "bad-parameter", "%s", config_note_text(errors, 0));
}

json_t *config_set(struct control *control, const struct params *params, struct refusal *refusal)
{
	const struct config_notes none = { .num = 0 };
	struct config_notes errors = { .num = 0 };
	struct config next;
	json_t *result = NULL;
	bool good = config_with(control->config, params->name, params->value, &next, &errors);
	if (good) {
		control->set_values(control->ctx, &next, &errors);
		const struct control_reloaded what = {
			.errors = &errors, .notes = &none, .before = &next, .now = control->config
		};
		result = errors.num ? NULL : changes_json(&what);
		config_free(&next);
	}
	if (errors.num)
		refuse_value(&errors, refusal);
	else if (!result)
		refuse(refusal, ENOMEM, "no-memory", "it holds, but there is no memory to tell");
	config_notes_free(&errors);
	return result;
}

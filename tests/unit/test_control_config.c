/* SPDX-License-Identifier: MIT */
/* The methods about the configuration: its view, and the answer to a reload. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <event2/event.h>
#include <jansson.h>

#include "daemon/control/control.h"
#include "daemon/host/log.h"
#include "proto/smcr/eid.h"
#include "tests/lib/fabricfix.h"
#include "tests/lib/tries.h"

#define MAX_REPLIES 4

struct fixture {
	struct event_base *base;
	char path[64];
	struct config config;
	struct control control;
	uint64_t reload; /* number of the next reload, 0 if none can be begun */
	unsigned int num_replies;
	uint64_t requests[MAX_REPLIES];
	json_t *replies[MAX_REPLIES];
};

static void on_reply(void *ctx, uint64_t request, char *reply)
{
	struct fixture *fixture = ctx;
	assert_true(fixture->num_replies < MAX_REPLIES);
	fixture->requests[fixture->num_replies] = request;
	fixture->replies[fixture->num_replies++] = json_loads(reply, 0, NULL);
	free(reply);
}

static uint64_t on_reload(void *ctx)
{
	struct fixture *fixture = ctx;
	return fixture->reload;
}

static void load(struct fixture *fixture, const char *text, struct config *ret_config)
{
	const struct config_source source = { .path = fixture->path };
	struct config_notes errors = { .num = 0 };
	FILE *file = fopen(fixture->path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	if (config_load(&source, ret_config, &errors))
		fail_msg("%s", errors.text[0]);
}

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	strcpy(fixture->path, "/tmp/smcrd-config-XXXXXX");
	int fd = mkstemp(fixture->path);
	if (fd < 0)
		return -1;
	close(fd);
	fixture->base = event_base_new();
	load(fixture, "", &fixture->config);
	struct fabric_params params = { .base = fixture->base };
	const struct policy_params policy = { .base = fixture->base,
					      .skip_seconds = 60,
					      .shorts = fixture->config.shorts };
	fixture->control = (struct control){
		.config = &fixture->config, .option_error = "", .ctx = fixture, .reload = on_reload
	};
	if (fabric_new(&params, &fixture->control.fabric) < 0 ||
	    policy_new(&policy, &fixture->control.policy) < 0)
		return -1;
	fixture->control.engine =
		fabricfix_engine(fixture->control.fabric, &fixture->config.engine, NULL);
	log_open(-1, false);
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;
	control_close(&fixture->control);
	for (unsigned int i = 0; i < fixture->num_replies; i++)
		json_decref(fixture->replies[i]);
	policy_free(fixture->control.policy);
	smcr_engine_free(fixture->control.engine);
	fabric_free(fixture->control.fabric);
	config_free(&fixture->config);
	event_base_free(fixture->base);
	unlink(fixture->path);
	free(fixture);
	return 0;
}

static json_t *ask(struct fixture *fixture, const char *request)
{
	const struct clients_asker nobody = { .request = 1, .cred = { 1, 65534, 65534 } };
	char *text = NULL;
	assert_int_equal(
		control_handle(&fixture->control, &nobody, request, strlen(request), &text), 0);
	json_t *reply = json_loads(text, 0, NULL);
	free(text);
	assert_non_null(reply);
	return reply;
}

/* ---- config show ---- */

static const char *text_of(const json_t *row, const char *key)
{
	const char *text = json_string_value(json_object_get(row, key));
	return text ? text : "-";
}

/* The rows of a key as "value origin line, ..". @return how many parts the view had */
static unsigned int show(struct fixture *fixture, const char *key, char ret_text[4096])
{
	char request[256] = "{\"method\":\"config.show\"}";
	unsigned int parts = 0;
	char *end = ret_text;
	*end = '\0';
	while (*request) {
		json_t *row, *reply = ask(fixture, request);
		size_t i;
		json_array_foreach(json_object_get(reply, "result"), i, row)
		{
			if (!strcmp(text_of(row, "key"), key))
				end += sprintf(
					end, "%s %s %d, ", text_of(row, "value"),
					text_of(row, "origin"),
					(int)json_integer_value(json_object_get(row, "line")));
		}
		const char *next = json_string_value(json_object_get(reply, "next"));
		*request = '\0';
		if (next)
			snprintf(request, sizeof(request),
				 "{\"method\":\"config.show\",\"params\":{\"after\":\"%s\"}}",
				 next);
		json_decref(reply);
		parts++;
	}
	return parts;
}

static void expect(struct fixture *fixture, const char *key, const char *words)
{
	char text[4096];
	show(fixture, key, text);
	assert_string_equal(text, words);
}

static struct policy_rule rule_of(const char *text)
{
	struct policy_rule rule;
	char why[POLICY_WHY_LEN];
	assert_int_equal(policy_rule_parse(text, false, &rule, why), 0);
	return rule;
}

static void values_in_force_are_shown_with_their_origin(void **state)
{
	struct fixture *fixture = *state;
	uint8_t ueid[SMCR_EID_LEN];
	config_free(&fixture->config);
	load(fixture, "memory = 65536K\nueid = A\nueid = B\n\ndeny = port 22\ndeny = port 23\n",
	     &fixture->config);
	/* in force is what the files say, with the changes that follow */
	policy_set_configured(fixture->control.policy, fixture->config.rules,
			      fixture->config.num_rules);
	smcr_engine_configure(fixture->control.engine, &fixture->config.engine);
	const struct policy_rule gone = rule_of("deny port 22"), new = rule_of("allow uid 7");
	policy_delete_rule(fixture->control.policy, &gone);
	policy_add_rule(fixture->control.policy, &new, false);
	smcr_ueid_parse("A", ueid);
	smcr_engine_remove_ueid(fixture->control.engine, ueid);
	smcr_ueid_parse("C", ueid);
	smcr_engine_add_ueid(fixture->control.engine, ueid);
	expect(fixture, "memory", "64M file 1, ");
	expect(fixture, "log_level", "info default 0, ");
	expect(fixture, "rnic", "- default 0, ");
	expect(fixture, "ueid", "B file 3, C run-time 0, ");
	expect(fixture, "deny", "port 23 file 6, ");
	expect(fixture, "allow", "uid 7 run-time 0, ");
}

/* Whoever removes a UEID that the files name is told that it comes back. */
static void a_ueid_of_the_files_comes_back(void **state)
{
	static const char *const names[] = { "A", "C" };
	const struct clients_asker root = { .request = 1 };
	struct fixture *fixture = *state;
	uint8_t ueid[SMCR_EID_LEN];
	config_free(&fixture->config);
	load(fixture, "ueid = A\n", &fixture->config);
	smcr_engine_configure(fixture->control.engine, &fixture->config.engine);
	smcr_ueid_parse("C", ueid);
	smcr_engine_add_ueid(fixture->control.engine, ueid);
	for (int i = 0; i < 2; i++) {
		char request[128], *text = NULL;
		snprintf(request, sizeof(request),
			 "{\"method\":\"ueid.remove\",\"params\":{\"name\":\"%s\"}}", names[i]);
		assert_int_equal(
			control_handle(&fixture->control, &root, request, strlen(request), &text),
			0);
		assert_non_null(strstr(text, "do not use it"));
		assert_int_equal(strstr(text, "smcrd.conf and counts again") != NULL, i == 0);
		free(text);
	}
}

static void long_lists_come_in_parts(void **state)
{
	struct fixture *fixture = *state;
	char text[8192] = "", *end = text;
	config_free(&fixture->config);
	for (int i = 1; i <= SMCR_MAX_RULES; i++)
		end += sprintf(end, "deny = port %d\n", i);
	load(fixture, text, &fixture->config);
	policy_set_configured(fixture->control.policy, fixture->config.rules,
			      fixture->config.num_rules);
	assert_int_equal(show(fixture, "allow", text), 5);
	assert_string_equal(text, "- default 0, ");
	show(fixture, "max_sessions_per_user", text);
	assert_string_equal(text, "1000 default 0, ");
}

/* The keys that completion offers are those that config.set takes. */
static void settable_is_what_can_be_set(void **state)
{
	struct fixture *fixture = *state;
	json_t *row, *reply = ask(fixture, "{\"method\":\"config.show\"}");
	size_t i, settable = 0;
	json_array_foreach(json_object_get(reply, "result"), i, row)
	{
		struct config_notes errors = { .num = 0 };
		struct config next;
		const char *value = json_string_value(json_object_get(row, "value"));
		bool good = config_with(&fixture->config, text_of(row, "key"), value ? value : "",
					&next, &errors);
		assert_int_equal(good, json_is_true(json_object_get(row, "settable")));
		settable += good;
		if (good)
			config_free(&next);
		config_notes_free(&errors);
	}
	assert_true(settable > 10 && settable < i);
	json_decref(reply);
}

/* ---- config reload ---- */

static void start(struct fixture *fixture, uint64_t number)
{
	static const char request[] = "{\"method\":\"config.reload\"}";
	const struct clients_asker root = { .request = number,
					    .reply = on_reply,
					    .reply_ctx = fixture };
	char *text = NULL;
	assert_int_equal(control_handle(&fixture->control, &root, request, strlen(request), &text),
			 -EINPROGRESS);
	assert_null(text);
}

static void only_administrators_may_reload(void **state)
{
	json_t *reply = ask(*state, "{\"method\":\"config.reload\"}");
	json_t *error = json_object_get(reply, "error");
	assert_string_equal(text_of(error, "code"), "not-permitted");
	json_decref(reply);
}

static void every_error_is_in_the_reply(void **state)
{
	struct fixture *fixture = *state;
	struct config_notes errors = { .num = 0 }, notes = { .num = 0 };
	const struct control_reloaded what = { .errors = &errors, .notes = &notes };
	config_note(&errors, "x.conf:1: memory: no size");
	config_note(&errors, "x.conf:2: \xff\xfe: there is no such key"); /* not UTF-8 */
	fixture->reload = 1;
	start(fixture, 7);
	control_reload_done(&fixture->control, 1, &what);
	assert_int_equal(fixture->num_replies, 1);
	json_t *error = json_object_get(fixture->replies[0], "error");
	assert_string_equal(text_of(error, "code"), "bad-configuration");
	assert_non_null(strstr(text_of(error, "text"), "nothing was changed"));
	json_t *list = json_object_get(error, "errors");
	assert_int_equal(json_array_size(list), 2);
	assert_string_equal(json_string_value(json_array_get(list, 0)),
			    "x.conf:1: memory: no size");
	assert_string_equal(json_string_value(json_array_get(list, 1)),
			    "x.conf:2: ??: there is no such key");
	config_notes_free(&errors);
}

static void an_error_without_memory_for_its_words_is_told(void **state)
{
	struct fixture *fixture = *state;
	struct config_notes errors = { .num = 1 }, notes = { .num = 0 };
	const struct control_reloaded what = { .errors = &errors, .notes = &notes };
	fixture->reload = 1;
	start(fixture, 7);
	control_reload_done(&fixture->control, 1, &what);
	assert_int_equal(fixture->num_replies, 1);
	json_t *list = json_object_get(json_object_get(fixture->replies[0], "error"), "errors");
	assert_int_equal(json_array_size(list), 1);
	assert_string_equal(json_string_value(json_array_get(list, 0)), "out of memory");
}

/* smcrd stops before it reads the files: they may be without errors. */
static void a_stop_is_no_error_of_the_configuration(void **state)
{
	struct fixture *fixture = *state;
	struct config_notes errors = { .num = 0 }, notes = { .num = 0 };
	const struct control_reloaded what = { .stopping = true,
					       .errors = &errors,
					       .notes = &notes };
	fixture->reload = 1;
	start(fixture, 7);
	control_reload_done(&fixture->control, 1, &what);
	assert_int_equal(fixture->num_replies, 1);
	json_t *error = json_object_get(fixture->replies[0], "error");
	assert_string_equal(text_of(error, "code"), "failed");
	assert_string_equal(text_of(error, "text"), "nothing was changed: smcrd stops");
	assert_null(json_object_get(error, "errors"));
}

static void the_reply_has_changes_and_what_needs_a_restart(void **state)
{
	struct fixture *fixture = *state;
	struct config_notes errors = { .num = 0 }, notes = { .num = 0 };
	struct config next;
	load(fixture, "log_level = debug\nadmin_group = root\ndeny = port 22\n", &next);
	config_note(&notes, "socket: stays /a until a restart; then /b");
	const struct control_reloaded what = {
		.errors = &errors, .notes = &notes, .before = &fixture->config, .now = &next
	};
	fixture->reload = 1;
	start(fixture, 7);
	control_reload_done(&fixture->control, 1, &what);
	json_t *result = json_object_get(fixture->replies[0], "result");
	assert_string_equal(text_of(result, "text"),
			    "admin_group: (none) -> root\nlog_level: info -> debug\n"
			    "deny: now also port 22\nNot yet:\n"
			    "socket: stays /a until a restart; then /b");
	assert_int_equal(json_integer_value(json_object_get(result, "changes")), 3);
	json_t *change = json_array_get(json_object_get(result, "changed"), 1);
	assert_string_equal(text_of(change, "key"), "log_level");
	assert_string_equal(text_of(change, "from"), "info");
	assert_string_equal(text_of(change, "to"), "debug");
	assert_int_equal(json_array_size(json_object_get(result, "not_yet")), 1);
	config_notes_free(&notes);
	config_free(&next);
}

static void many_changes_are_counted_and_not_all_listed(void **state)
{
	struct fixture *fixture = *state;
	struct config_notes errors = { .num = 0 }, notes = { .num = 0 };
	struct config next;
	char text[8192], *end = text;
	for (int i = 1; i <= SMCR_MAX_RULES; i++)
		end += sprintf(end, "deny = port %d\n", i);
	load(fixture, text, &next);
	const struct control_reloaded what = {
		.errors = &errors, .notes = &notes, .before = &fixture->config, .now = &next
	};
	fixture->reload = 1;
	start(fixture, 7);
	control_reload_done(&fixture->control, 1, &what);
	json_t *result = json_object_get(fixture->replies[0], "result");
	assert_int_equal(json_integer_value(json_object_get(result, "changes")), SMCR_MAX_RULES);
	assert_int_equal(json_array_size(json_object_get(result, "changed")), 64);
	assert_non_null(strstr(text_of(result, "text"), "and 192 more"));
	config_free(&next);
}

/* One reading may answer several requests, but none that came after it had begun. */
static void each_request_has_the_outcome_of_its_reload(void **state)
{
	struct fixture *fixture = *state;
	struct config_notes errors = { .num = 0 }, notes = { .num = 0 };
	const struct control_reloaded what = { .errors = &errors,
					       .notes = &notes,
					       .before = &fixture->config,
					       .now = &fixture->config };
	fixture->reload = 1;
	start(fixture, 7);
	start(fixture, 8);
	start(fixture, 9);
	control_forget(&fixture->control, 8);
	fixture->reload = 2;
	start(fixture, 10);
	control_reload_done(&fixture->control, 1, &what);
	assert_int_equal(fixture->num_replies, 2);
	assert_int_equal(fixture->requests[0], 7);
	assert_int_equal(fixture->requests[1], 9);
	assert_string_equal(text_of(json_object_get(fixture->replies[1], "result"), "text"),
			    "No value has changed.");
	control_reload_done(&fixture->control, 2, &what);
	assert_int_equal(fixture->num_replies, 3);
	assert_int_equal(fixture->requests[2], 10);
	start(fixture, 11); /* left open: the teardown forgets this request */
}

static void a_reload_that_cannot_begin_is_refused(void **state)
{
	struct fixture *fixture = *state;
	static const char request[] = "{\"method\":\"config.reload\"}";
	const struct clients_asker root = { .request = 1 };
	char *text = NULL;
	assert_int_equal(control_handle(&fixture->control, &root, request, strlen(request), &text),
			 0);
	assert_non_null(strstr(text, "\"failed\""));
	free(text);
}

/* ---- config set ---- */

static void on_set(void *ctx, struct config *next, struct config_notes *ret_errors)
{
	struct fixture *fixture = ctx;
	struct config before = fixture->config;
	(void)ret_errors;
	fixture->config = *next;
	*next = before;
}

static json_t *set_value(struct fixture *fixture, const char *key, const char *value)
{
	const struct clients_asker root = { .request = 1 };
	char request[256], *text = NULL;
	snprintf(request, sizeof(request),
		 "{\"method\":\"config.set\",\"params\":{\"name\":\"%s\",\"value\":\"%s\"}}", key,
		 value);
	assert_int_equal(control_handle(&fixture->control, &root, request, strlen(request), &text),
			 0);
	json_t *reply = json_loads(text, 0, NULL);
	free(text);
	return reply;
}

static void a_value_can_be_set_until_a_reload(void **state)
{
	struct fixture *fixture = *state;
	fixture->control.set_values = on_set;
	config_free(&fixture->config);
	load(fixture, "max_links = 3\nrnic = soft:eth0\ndeny = port 22\nmemory = 64M\n",
	     &fixture->config);
	json_t *reply = set_value(fixture, "max_links", "2");
	assert_string_equal(text_of(json_object_get(reply, "result"), "text"), "max_links: 3 -> 2");
	json_decref(reply);
	assert_int_equal(fixture->config.engine.max_links, 2);
	assert_string_equal(fixture->config.rnics[0], "soft:eth0");
	assert_int_equal(fixture->config.num_rules, 1);
	assert_string_equal(fixture->config.socket_path, "/run/smcrd/smcrd.sock");
	expect(fixture, "max_links", "2 run-time 0, ");
	expect(fixture, "memory", "64M file 4, ");
	expect(fixture, "rnic", "soft:eth0 file 2, ");
}

static void settings_that_cannot_be_set_are_refused(void **state)
{
	static const struct {
		const char *key, *value, *parameter, *words;
	} cases[] = {
		{ "nonsense", "1", "name",
		  "nonsense: there is no such key: smcrd.conf(5) has them all" },
		{ "socket", "/x", "value",
		  "socket: takes a restart: write it into the files, then 'smcrctl drain --wait && "
		  "systemctl restart smcrd'" },
		{ "rnic", "soft:eth0", "value", "'smcrctl device add, device remove'" },
		{ "ueid", "A", "value", "'smcrctl ueid add, ueid remove'" },
		{ "deny", "port 22", "value", "'smcrctl policy add, policy delete'" },
		{ "admin_group", "root", "value", "by the files only" },
		{ "metrics_socket", "/tmp/x", "value", "by the files only" },
		{ "metrics_address", "127.0.0.1:1", "value", "by the files only" },
		{ "max_links", "9", "value", "max_links: '9' is not a number between 2 and 8" },
		{ "element_size_min", "512K", "value", "" },
		{ "link_timeout_milliseconds", "5000", "value", "is larger than last_link" },
	};
	struct fixture *fixture = *state;
	fixture->control.set_values = on_set;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TRIES("%s", cases[i].words);
		json_t *reply = set_value(fixture, cases[i].key, cases[i].value);
		json_t *error = json_object_get(reply, "error");
		if (!*cases[i].words) {
			assert_null(error); /* the value equals that of element_size */
		} else {
			assert_string_equal(text_of(error, "code"), "bad-parameter");
			assert_string_equal(text_of(error, "parameter"), cases[i].parameter);
			if (!strstr(text_of(error, "text"), cases[i].words))
				fail_msg("%s: %s", cases[i].key, text_of(error, "text"));
		}
		json_decref(reply);
	}
	expect(fixture, "max_links", "4 default 0, ");
}

/* ---- RNICs ---- */

static bool is_named(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->num_rnics; i++)
		if (!strcmp(config->rnics[i], name))
			return true;
	return false;
}

static void on_set_rnics(void *ctx, struct config *next, struct config_notes *ret_errors,
			 struct config_notes *ret_notes)
{
	struct fixture *fixture = ctx;
	struct config before = fixture->config;
	if (!strcmp(next->rnics[next->num_rnics - 1], "soft:broken")) {
		config_note(ret_errors, "rnic soft:broken: cannot be used");
		return;
	}
	if (!strcmp(next->rnics[next->num_rnics - 1], "soft:later"))
		config_note(ret_notes, "rnic soft:later: waiting for it");
	if (is_named(next, "soft:eth10"))
		config_note(ret_notes, "rnic soft:eth10: waiting for it");
	fixture->config = *next;
	*next = before;
}

static json_t *about_rnic(struct fixture *fixture, const char *method, const char *name)
{
	const struct clients_asker root = { .request = 1 };
	char request[160], *text = NULL;
	int len = snprintf(request, sizeof(request),
			   "{\"method\":\"%s\",\"params\":{\"name\":\"%s\"}}", method, name);
	assert_int_equal(control_handle(&fixture->control, &root, request, (size_t)len, &text), 0);
	json_t *reply = json_loads(text, 0, NULL);
	free(text);
	return reply;
}

static void expect_outcome(json_t *reply, const char *key, const char *words)
{
	const char *text = text_of(json_object_get(reply, key), "text");
	if (!strstr(text, words))
		fail_msg("%s", text);
	json_decref(reply);
}

static void rnics_are_added_and_removed(void **state)
{
	struct fixture *fixture = *state;
	config_free(&fixture->config);
	load(fixture, "rnic = soft:eth0\n", &fixture->config);
	fixture->control.set_rnics = on_set_rnics;
	expect_outcome(about_rnic(fixture, "device.add", "soft:eth1"), "result", "is in use");
	assert_int_equal(fixture->config.num_rnics, 2);
	expect_outcome(about_rnic(fixture, "device.add", "soft:eth1"), "error", "named already");
	expect_outcome(about_rnic(fixture, "device.add", "soft:broken"), "error", "cannot be used");
	expect_outcome(about_rnic(fixture, "device.add", "nonsense"), "error", "is not soft:");
	assert_int_equal(fixture->config.num_rnics, 2);
	expect_outcome(about_rnic(fixture, "device.add", "soft:later"), "result", "waiting for it");
	expect_outcome(about_rnic(fixture, "device.remove", "soft:later"), "result",
		       "not in use any more");
	expect_outcome(about_rnic(fixture, "device.remove", "soft:eth0"), "result",
		       "not in use any more");
	expect_outcome(about_rnic(fixture, "device.remove", "soft:eth1"), "error", "the only one");
	expect_outcome(about_rnic(fixture, "device.drain", "soft:eth9"), "error",
		       "there is no RNIC 'soft:eth9'");
	expect_outcome(about_rnic(fixture, "device.enable", "soft:eth9"), "error", "no RNIC");
	expect(fixture, "rnic", "soft:eth1 run-time 0, ");
}

/** A note about an RNIC whose name begins in the same way is not the answer. */
static void a_note_is_about_one_rnic(void **state)
{
	struct fixture *fixture = *state;
	config_free(&fixture->config);
	load(fixture, "rnic = soft:eth0\nrnic = soft:eth10\n", &fixture->config);
	fixture->control.set_rnics = on_set_rnics;
	expect_outcome(about_rnic(fixture, "device.add", "soft:eth1"), "result",
		       "rnic soft:eth1 is in use");
	expect_outcome(about_rnic(fixture, "device.remove", "soft:eth1"), "result",
		       "rnic soft:eth1 is not in use any more");
}

/* ---- rules of the files ---- */

static bool add_text(void *arg, const struct policy_rule_view *view)
{
	char text[POLICY_RULE_TEXT];
	policy_rule_text(view->rule, text);
	sprintf((char *)arg + strlen(arg), "%s%s, ", text, view->configured ? " (conf)" : "");
	return true;
}

static void expect_policy(const struct fixture *fixture, const char *words)
{
	char text[4096] = "";
	policy_walk_rules(fixture->control.policy, 0, add_text, text);
	assert_string_equal(text, words);
}

static void rules_of_the_files_come_and_go_and_others_stay(void **state)
{
	struct fixture *fixture = *state;
	struct policy *policy = fixture->control.policy;
	const struct policy_rule first[] = { rule_of("deny port 1"), rule_of("deny port 2") };
	const struct policy_rule second[] = { rule_of("deny port 2"), rule_of("deny port 9"),
					      rule_of("deny port 3") };
	const struct policy_rule mine = rule_of("deny port 9"), other = rule_of("deny port 7");
	policy_set_configured(policy, first, 2);
	assert_int_equal(policy_add_rule(policy, &mine, false), 0);
	assert_int_equal(policy_add_rule(policy, &other, false), 0);
	assert_int_equal(policy_count_with(policy, second, 3), 4);
	policy_set_configured(policy, second, 3);
	expect_policy(fixture, "deny port 2 (conf), deny port 9 (conf), deny port 7, "
			       "deny port 3 (conf), ");
	assert_int_equal(policy_delete_rule(policy, &second[0]), 0);
	policy_set_configured(policy, second, 3); /* the deleted rule is back */
	policy_set_configured(policy, NULL, 0);
	expect_policy(fixture, "deny port 7, ");
}

/* The table has not enough rows for the old and the new rules together. */
static void all_rules_can_be_exchanged(void **state)
{
	struct fixture *fixture = *state;
	struct policy *policy = fixture->control.policy;
	struct policy_rule *rules = calloc(SMCR_MAX_RULES, sizeof(*rules));
	char text[64];
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < SMCR_MAX_RULES; i++) {
			snprintf(text, sizeof(text), "deny port %d", 1000 * (round + 1) + i);
			rules[i] = rule_of(text);
		}
		assert_int_equal(policy_count_with(policy, rules, SMCR_MAX_RULES), SMCR_MAX_RULES);
		policy_set_configured(policy, rules, SMCR_MAX_RULES);
	}
	for (int i = 0; i < SMCR_MAX_RULES; i++)
		assert_int_equal(policy_add_rule(policy, &rules[i], false), -EEXIST);
	free(rules);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(values_in_force_are_shown_with_their_origin),
		CASE(settable_is_what_can_be_set),
		CASE(a_ueid_of_the_files_comes_back),
		CASE(long_lists_come_in_parts),
		CASE(only_administrators_may_reload),
		CASE(every_error_is_in_the_reply),
		CASE(an_error_without_memory_for_its_words_is_told),
		CASE(a_stop_is_no_error_of_the_configuration),
		CASE(the_reply_has_changes_and_what_needs_a_restart),
		CASE(many_changes_are_counted_and_not_all_listed),
		CASE(each_request_has_the_outcome_of_its_reload),
		CASE(a_reload_that_cannot_begin_is_refused),
		CASE(a_value_can_be_set_until_a_reload),
		CASE(settings_that_cannot_be_set_are_refused),
		CASE(rnics_are_added_and_removed),
		CASE(a_note_is_about_one_rnic),
		CASE(rules_of_the_files_come_and_go_and_others_stay),
		CASE(all_rules_can_be_exchanged),
	};
	return cmocka_run_group_tests_name("control_config", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* The table of metrics, the text made of it, and those that use its names: the manual page and the
 * dashboard. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <ctype.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "daemon/control/metrics.h"
#include "daemon/smcr/stats.h"
#include "tests/lib/controlfix.h"

#define MANUAL    "man/smcrd-metrics.7"
#define DASHBOARD "examples/grafana-smcrd.json"

static bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), end_len = strlen(end);
	return len > end_len && !strcmp(text + len - end_len, end);
}

/* Rules that the format leaves to the author of names: a name ends in a base unit, and no name
 * ends like a sample of another kind. */
static void names_are_sound(void **state)
{
	static const char *const taken[] = { "_total",  "_count", "_sum",
					     "_bucket", "_info",  "_created" };
	const struct openmetrics_family *family, *other;
	(void)state;
	for (size_t i = 0; (family = metrics_family(i)); i++) {
		assert_true(!strncmp(family->name, "smcrd_", 6));
		assert_true(strlen(family->help) > 5 && !ends_with(family->help, "."));
		for (const char *c = family->name; *c; c++)
			assert_true(islower((unsigned char)*c) || *c == '_');
		for (size_t j = 0; j < sizeof(taken) / sizeof(taken[0]); j++)
			assert_false(ends_with(family->name, taken[j]));
		if (*family->unit)
			assert_true(ends_with(family->name, family->unit));
		if (ends_with(family->name, "_seconds") || ends_with(family->name, "_bytes"))
			assert_true(*family->unit);
		for (size_t j = 0; j < i && (other = metrics_family(j)); j++)
			assert_string_not_equal(family->name, other->name);
	}
}

static char *text_of(struct controlfix *fix)
{
	json_t *reply = controlfix_ask(fix, false, "metrics.show");
	const char *text =
		json_string_value(json_object_get(json_object_get(reply, "result"), "text"));
	assert_non_null(text);
	char *copy = strdup(text);
	json_decref(reply);
	return copy;
}

/* The value of a sample. */
static double value_of(const char *text, const char *sample)
{
	char *line = NULL, *end;
	assert_true(asprintf(&line, "\n%s ", sample) > 0);
	const char *at = strstr(text, line);
	if (!at)
		fail_msg("no sample %s", sample);
	double value = strtod(at + strlen(line), &end);
	assert_int_equal(*end, '\n');
	free(line);
	return value;
}

static void samples_have_the_values_of_the_engine(void **state)
{
	struct controlfix *fix = *state;
	struct smcr_engine_stats stats;
	pair_send(fix->pair, fix->conn, PAIR_SERVER, 10000, 1);
	pair_pump(fix->pair);
	smcr_engine_get_stats(fix->control.engine, &stats);
	char *text = text_of(fix);
	assert_true(ends_with(text, "\n# EOF\n"));
	assert_non_null(strstr(text, "# TYPE smcrd_transferred_bytes counter\n"
				     "# UNIT smcrd_transferred_bytes bytes\n"
				     "# HELP smcrd_transferred_bytes "));
	assert_true(value_of(text, "smcrd_transferred_bytes_total{direction=\"sent\"}") ==
		    (double)stats.tx.bytes);
	assert_true(value_of(text, "smcrd_connections_established_total{role=\"server\",version="
				   "\"1\"}") == 1);
	assert_true(value_of(text, "smcrd_build_info{version=\"" SMCRD_VERSION "\"}") == 1);
	assert_true(value_of(text, "smcrd_linkgroups") == 1);
	/* Buckets are cumulative. */
	double small =
		value_of(text, "smcrd_request_size_bytes_bucket{direction=\"sent\",le=\"8192.0\"}");
	double larger = value_of(
		text, "smcrd_request_size_bytes_bucket{direction=\"sent\",le=\"16384.0\"}");
	assert_true(larger - small >= 1);
	assert_true(value_of(text, "smcrd_request_size_bytes_count{direction=\"sent\"}") ==
		    (double)stats.tx.requests);
	assert_true(value_of(text, "smcrd_handshake_seconds_count{contact=\"first\"}") == 1);
	value_of(text, "smcrd_handshake_seconds_bucket{contact=\"first\",le=\"0.0005\"}");
	value_of(text, "smcrd_handshake_seconds_bucket{contact=\"first\",le=\"10.0\"}");
	free(text);
}

/* The text follows the grammar of OpenMetrics to the letter, as a parser of somebody else would
 * read it. */
static void the_text_is_open_metrics(void **state)
{
	char *text = text_of(*state);
	FILE *parser = popen("/usr/bin/python3 tests/lib/openmetrics.py >/dev/null", "w");
	assert_non_null(parser);
	fputs(text, parser);
	int status = pclose(parser);
	free(text);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

static void labels_are_escaped(void **state)
{
	static const struct openmetrics_family family = { "smcrd_x", OPENMETRICS_GAUGE, "",
							  "Back\\slash, \"quotes\",\nlines" };
	const struct openmetrics_label labels[] = { { "a", "\"\\\n" }, { "b", "" } };
	struct openmetrics metrics;
	(void)state;
	assert_true(openmetrics_begin(&metrics));
	openmetrics_family(&metrics, &family);
	openmetrics_sample(&metrics, labels, 2, UINT64_MAX);
	char *text = openmetrics_end(&metrics);
	assert_string_equal(text,
			    "# TYPE smcrd_x gauge\n"
			    "# HELP smcrd_x Back\\\\slash, \\\"quotes\\\",\\nlines.\n"
			    "smcrd_x{a=\"\\\"\\\\\\n\",b=\"\"} 18446744073709551615\n# EOF\n");
	free(text);
}

static char *file_text(const char *path)
{
	char *text = NULL;
	size_t len = 0;
	FILE *file = fopen(path, "re");
	if (!file || getdelim(&text, &len, '\0', file) < 0)
		fail_msg("cannot read %s", path);
	fclose(file);
	return text;
}

/* Calls `fn` for the match of the pattern's parentheses. */
static void each_match(const char *text, const char *pattern,
		       void (*fn)(void *arg, const char *name), void *arg)
{
	regex_t regex;
	regmatch_t match[2];
	assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NEWLINE), 0);
	for (; regexec(&regex, text, 2, match, 0) == 0; text += match[0].rm_eo) {
		char name[128];
		snprintf(name, sizeof(name), "%.*s", (int)(match[1].rm_eo - match[1].rm_so),
			 text + match[1].rm_so);
		fn(arg, name);
	}
	regfree(&regex);
}

static const struct openmetrics_family *find(const char *name)
{
	const struct openmetrics_family *family = NULL;
	for (size_t i = 0; (family = metrics_family(i)); i++)
		if (!strcmp(family->name, name))
			break;
	return family;
}

static void note_documented(void *arg, const char *name)
{
	size_t *count = arg;
	if (!find(name))
		fail_msg(MANUAL " tells of %s, which does not exist", name);
	++*count;
}

static void the_manual_page_has_all_of_them(void **state)
{
	size_t documented = 0, families = 0;
	(void)state;
	char *text = file_text(MANUAL);
	each_match(text, "^\\.It Cm (smcrd_[a-z_]+)", note_documented, &documented);
	while (metrics_family(families))
		families++;
	assert_int_equal(documented, families);
	free(text);
}

static void expect_sample(void *arg, const char *name)
{
	const char *text = arg;
	char family[128];
	size_t len = strlen(name);
	static const char *const ends[] = { "", "_total", "_info", "_bucket", "_count", "_sum" };
	static const enum openmetrics_kind kinds[] = {
		OPENMETRICS_GAUGE,     OPENMETRICS_COUNTER,   OPENMETRICS_INFO,
		OPENMETRICS_HISTOGRAM, OPENMETRICS_HISTOGRAM, OPENMETRICS_HISTOGRAM
	};
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		if (i && !ends_with(name, ends[i]))
			continue;
		snprintf(family, sizeof(family), "%.*s", (int)(len - strlen(ends[i])), name);
		const struct openmetrics_family *found = find(family);
		if (found && found->kind == kinds[i])
			return;
	}
	fail_msg(DASHBOARD " uses %s, which does not exist (%zu bytes read)", name, strlen(text));
}

static void the_dashboard_uses_what_exists(void **state)
{
	json_error_t error;
	(void)state;
	char *text = file_text(DASHBOARD);
	json_t *json = json_loads(text, 0, &error);
	if (!json)
		fail_msg(DASHBOARD ":%d: %s", error.line, error.text);
	json_decref(json);
	assert_non_null(strstr(text, "smcrd_transferred_bytes_total"));
	each_match(text, "(smcrd_[a-z_]+)", expect_sample, text);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_sound),
		cmocka_unit_test_setup_teardown(samples_have_the_values_of_the_engine,
						controlfix_setup, controlfix_teardown),
		cmocka_unit_test_setup_teardown(the_text_is_open_metrics, controlfix_setup,
						controlfix_teardown),
		cmocka_unit_test(labels_are_escaped),
		cmocka_unit_test(the_manual_page_has_all_of_them),
		cmocka_unit_test(the_dashboard_uses_what_exists),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

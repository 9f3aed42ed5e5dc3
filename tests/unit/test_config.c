/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/host/config.h"

struct dir {
	char path[64], file[96], more_dir[96], more[160];
};

static int setup(void **state)
{
	struct dir *dir = calloc(1, sizeof(*dir));
	strcpy(dir->path, "/tmp/smcrd-config-XXXXXX");
	if (!dir || !mkdtemp(dir->path))
		return -1;
	snprintf(dir->file, sizeof(dir->file), "%s/smcrd.conf", dir->path);
	snprintf(dir->more_dir, sizeof(dir->more_dir), "%s/smcrd.conf.d", dir->path);
	snprintf(dir->more, sizeof(dir->more), "%s/50-more.conf", dir->more_dir);
	*state = dir;
	return 0;
}

static int teardown(void **state)
{
	struct dir *dir = *state;
	unlink(dir->more);
	rmdir(dir->more_dir);
	unlink(dir->file);
	rmdir(dir->path);
	free(dir);
	return 0;
}

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void defaults_without_any_file(void **state)
{
	struct config config;
	char text[CONFIG_ERROR_LEN];
	struct dir *dir = *state;
	write_file(dir->file, "");
	assert_int_equal(config_load(dir->file, &config, text), 0);
	assert_string_equal(config.socket_path, "/run/smcrd/smcrd.sock");
	assert_int_equal(config.num_rnics, 0);
	assert_int_equal(config.engine.bsize, 5);
	assert_int_equal(config.engine.bsize_min, 0);
	assert_int_equal(config.engine.memory_budget, 1u << 30);
	assert_int_equal(config.engine.max_links, 4);
	assert_int_equal(config.engine.retry_alternative_ms, 300);
	assert_int_equal(config.engine.retry_ms, 4000);
	assert_int_equal(config.engine.test_link_interval, 30000000);
	assert_int_equal(config.engine.add_link_retry, 2000000);
	assert_int_equal(config.tcp_keepalive_min_seconds, 0);
	assert_int_equal(config.log_level, LOG_INFO);
	assert_int_equal(config.engine.num_ueids, 0);
	assert_int_equal(config.engine.versions, SMCR_VERSIONS_BOTH);
	config_free(&config);
}

static void values_are_read_and_later_files_win(void **state)
{
	struct config config;
	char text[CONFIG_ERROR_LEN];
	struct dir *dir = *state;
	write_file(dir->file, "# comment\nrnic = soft:eth1\nrnic = soft:eth2\nmemory = 64M\n"
			      "element_size = 128K\ncapable_subnet = 10.1.2.3/16\n"
			      "dialect = rfc\nlog_level = debug\nmax_links = 2\n"
			      "link_timeout_milliseconds = 500\n"
			      "last_link_timeout_milliseconds = 2000\n"
			      "test_link_interval_seconds = 0\nadd_link_retry_seconds = 5\n"
			      "tcp_keepalive_min_seconds = 3\nueid = A.B-1\n"
			      "versions = 1\n");
	assert_int_equal(mkdir(dir->more_dir, 0755), 0);
	write_file(dir->more, "max_links = 3\nadmin_group = root\nueid = 0\n");
	assert_int_equal(config_load(dir->file, &config, text), 0);
	assert_int_equal(config.num_rnics, 2);
	assert_string_equal(config.rnics[1], "soft:eth2");
	assert_int_equal(config.engine.memory_budget, 64u << 20);
	assert_int_equal(config.engine.bsize, 3);
	assert_int_equal(config.engine.dialect, SMCR_DIALECT_FORCE_RFC);
	assert_int_equal(config.engine.max_links, 3);
	assert_int_equal(config.engine.retry_alternative_ms, 500);
	assert_int_equal(config.engine.retry_ms, 2000);
	assert_int_equal(config.engine.test_link_interval, UINT64_MAX); /* never */
	assert_int_equal(config.engine.add_link_retry, 5000000);
	assert_int_equal(config.tcp_keepalive_min_seconds, 3);
	assert_string_equal(config.admin_group, "root");
	assert_int_equal(config.admin_gid, 0);
	assert_int_equal(config.engine.num_ueids, 2);
	assert_memory_equal(config.engine.ueids[0], "A.B-1                           ", 32);
	assert_memory_equal(config.engine.ueids[1], "0                               ", 32);
	assert_int_equal(config.engine.versions, SMCR_VERSIONS_1_ONLY);
	assert_int_equal(config.log_level, LOG_DEBUG);
	assert_true(config_peer_assumed_capable(&config, 0x0A01FFFF));
	assert_false(config_peer_assumed_capable(&config, 0x0A020001));
	config_free(&config);
}

/* Each wrong line is refused with the file, the line and the key in the sentence. */
static void errors_name_file_line_and_key(void **state)
{
	static const struct {
		const char *line, *key;
	} cases[] = {
		{ "no_such_key = 1", "no_such_key" },
		{ "max_links = 9", "max_links" },
		{ "max_links = 1", "max_links" },
		{ "max_links = many", "max_links" },
		{ "element_size = 100K", "element_size" },
		{ "element_size_min = 1G", "element_size_min" },
		{ "memory = 1K", "memory" },
		{ "memory = 99999999999G", "memory" },
		{ "memory = -1", "memory" },
		{ "dialect = klingon", "dialect" },
		{ "versions = 3", "versions" },
		{ "ueid =", "ueid" },
		{ "ueid = lower", "ueid" },
		{ "ueid = .A", "ueid" },
		{ "ueid = A B", "ueid" },
		{ "ueid = ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456", "ueid" },
		{ "log_level = loud", "log_level" },
		{ "rnic = eth0", "rnic" },
		{ "rnic = soft:", "rnic" },
		{ "capable_subnet = 10.0.0.0", "capable_subnet" },
		{ "capable_subnet = 10.0.0.0/33", "capable_subnet" },
		{ "capable_subnet = 10.0.0.0/8x", "capable_subnet" },
		{ "socket = relative", "socket" },
		{ "admin_group = no such group", "admin_group" },
		{ "skip_seconds = -1", "skip_seconds" },
		{ "tcp_keepalive_min_seconds = 32768", "tcp_keepalive_min_seconds" },
		{ "link_timeout_milliseconds = 1", "link_timeout_milliseconds" },
		{ "last_link_timeout_milliseconds = 0", "last_link_timeout_milliseconds" },
		{ "test_link_interval_seconds = -1", "test_link_interval_seconds" },
		{ "add_link_retry_seconds = 0", "add_link_retry_seconds" },
		{ "add_link_retry_seconds = 601", "add_link_retry_seconds" },
		{ "deny =", "deny: what is to be denied" },
		{ "deny = ports 22", "deny: 'ports' is not" },
		{ "allow = peer 10.0.0.1/8", "allow: '10.0.0.1/8' is no network" },
		{ "allow = uid no-such-user-here", "allow: this host has no user" },
	};
	struct dir *dir = *state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct config config;
		char text[CONFIG_ERROR_LEN], contents[256], place[128];
		snprintf(contents, sizeof(contents), "# one\n# two\n%s\n# four\n", cases[i].line);
		snprintf(place, sizeof(place), "%s:3: ", dir->file);
		write_file(dir->file, contents);
		assert_int_equal(config_load(dir->file, &config, text), -EINVAL);
		if (strncmp(text, place, strlen(place)) || !strstr(text, cases[i].key))
			fail_msg("'%s' gives '%s'", cases[i].line, text);
	}
}

static void sizes_that_contradict_are_refused(void **state)
{
	struct config config;
	char text[CONFIG_ERROR_LEN];
	struct dir *dir = *state;
	write_file(dir->file, "element_size = 64K\nelement_size_min = 128K\n");
	assert_int_equal(config_load(dir->file, &config, text), -EINVAL);
	assert_non_null(strstr(text, "element_size_min"));
	assert_non_null(strstr(text, dir->file));
}

static void patience_with_the_last_link_is_the_longer_one(void **state)
{
	struct config config;
	char text[CONFIG_ERROR_LEN];
	struct dir *dir = *state;
	write_file(dir->file, "last_link_timeout_milliseconds = 200\n");
	assert_int_equal(config_load(dir->file, &config, text), -EINVAL);
	assert_non_null(strstr(text, "link_timeout_milliseconds (300)"));
	assert_non_null(strstr(text, "last_link_timeout_milliseconds (200)"));
}

static void ueids_are_counted_and_differ(void **state)
{
	struct config config;
	char text[CONFIG_ERROR_LEN];
	struct dir *dir = *state;
	write_file(dir->file, "ueid = A\nueid = B\nueid = A\n");
	assert_int_equal(config_load(dir->file, &config, text), -EINVAL);
	assert_non_null(strstr(text, ":3: ueid: 'A' is there twice"));
	write_file(dir->file, "ueid = 1\nueid = 2\nueid = 3\nueid = 4\nueid = 5\nueid = 6\n"
			      "ueid = 7\nueid = 8\nueid = 9\n");
	assert_int_equal(config_load(dir->file, &config, text), -EINVAL);
	assert_non_null(strstr(text, ":9: ueid: more than 8"));
}

static void rules_are_kept_in_their_order(void **state)
{
	struct config config;
	char text[CONFIG_ERROR_LEN], shown[POLICY_RULE_TEXT];
	struct dir *dir = *state;
	write_file(dir->file, "deny = port 22\nallow = peer 10.0.0.0/8 uid root\ndeny=port 23");
	assert_int_equal(config_load(dir->file, &config, text), 0);
	assert_int_equal(config.num_rules, 3);
	policy_rule_text(&config.rules[1], shown);
	assert_string_equal(shown, "allow uid 0 peer 10.0.0.0/8");
	policy_rule_text(&config.rules[2], shown);
	assert_string_equal(shown, "deny port 23");
	config_free(&config);
	write_file(dir->file, "deny = uid root port 22\ndeny = port 22-22 uid 0\n");
	assert_int_equal(config_load(dir->file, &config, text), -EINVAL);
	assert_non_null(strstr(text, ":2: deny: this rule is there twice"));
}

static void more_rules_than_there_are_places_are_refused(void **state)
{
	struct config config;
	char text[CONFIG_ERROR_LEN];
	struct dir *dir = *state;
	FILE *file = fopen(dir->file, "w");
	assert_non_null(file);
	for (int i = 1; i <= SMCR_MAX_RULES + 1; i++)
		fprintf(file, "deny = port %d\n", i);
	fclose(file);
	assert_int_equal(config_load(dir->file, &config, text), -EINVAL);
	assert_non_null(strstr(text, ":257: deny: more than 256 rules"));
}

static void a_version_without_a_dialect_is_refused(void **state)
{
	struct config config;
	char text[CONFIG_ERROR_LEN];
	struct dir *dir = *state;
	write_file(dir->file, "versions = 2\ndialect = rfc\n");
	assert_int_equal(config_load(dir->file, &config, text), -EINVAL);
	assert_non_null(strstr(text, "dialect = rfc"));
	write_file(dir->file, "versions = 2\n");
	assert_int_equal(config_load(dir->file, &config, text), 0);
	assert_int_equal(config.engine.versions, SMCR_VERSIONS_2_ONLY);
	config_free(&config);
}

static void a_named_file_must_exist(void **state)
{
	struct config config;
	char text[CONFIG_ERROR_LEN];
	struct dir *dir = *state;
	assert_int_equal(config_load(dir->file, &config, text), -ENOENT);
	assert_non_null(strstr(text, dir->file));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(defaults_without_any_file),
		CASE(values_are_read_and_later_files_win),
		CASE(errors_name_file_line_and_key),
		CASE(sizes_that_contradict_are_refused),
		CASE(patience_with_the_last_link_is_the_longer_one),
		CASE(ueids_are_counted_and_differ),
		CASE(rules_are_kept_in_their_order),
		CASE(more_rules_than_there_are_places_are_refused),
		CASE(a_version_without_a_dialect_is_refused),
		CASE(a_named_file_must_exist),
	};
	return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}

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
#include "proto/ipc/trace.h"
#include "tests/lib/tries.h"

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

/* The errors, one sentence a line. */
static char errors[64 * 1024];

static int load(const char *path, struct config *ret_config)
{
	const struct config_source source = { .path = path };
	struct config_notes notes = { .num = 0 };
	int error = config_load(&source, ret_config, &notes);
	char *end = errors;
	*end = '\0';
	for (size_t i = 0; i < config_notes_kept(&notes); i++)
		end += sprintf(end, "%s\n", notes.text[i]);
	assert_int_equal(error != 0, notes.num > 0);
	config_notes_free(&notes);
	return error;
}

/* Tools compare it with what they see; a change at run time leaves it alone. */
static void the_main_file_is_known(void **state)
{
	struct config config, next;
	struct config_notes notes = { .num = 0 };
	struct dir *dir = *state;
	struct stat st;
	write_file(dir->file, "");
	assert_int_equal(load(dir->file, &config), 0);
	assert_int_equal(stat(dir->file, &st), 0);
	assert_true(config_with(&config, "log_level", "debug", &next, &notes));
	assert_string_equal(next.main.path, dir->file);
	assert_true(next.main.named);
	assert_true(next.main.read);
	assert_int_equal(next.main.device, st.st_dev);
	assert_int_equal(next.main.inode, st.st_ino);
	assert_int_equal(next.main.changed_us / 1000000, st.st_mtime);
	config_free(&next);
	config_free(&config);
}

static void defaults_without_any_file(void **state)
{
	struct config config;
	struct dir *dir = *state;
	write_file(dir->file, "");
	assert_int_equal(load(dir->file, &config), 0);
	assert_string_equal(config.socket_path, "/run/smcrd/smcrd.sock");
	assert_int_equal(config.num_rnics, 0);
	assert_int_equal(config.engine.bsize, 5);
	assert_int_equal(config.engine.bsize_min, 0);
	assert_int_equal(config.engine.memory_budget, 1u << 30);
	assert_int_equal(config.engine.max_links, 4);
	assert_int_equal(config.engine.retry_alternative_ms, 300);
	assert_int_equal(config.engine.retry_ms, 4000);
	assert_int_equal(config.engine.last_bytes_timeout, SMCR_LAST_BYTES_TIMEOUT);
	assert_int_equal(config.engine.test_link_interval, 30000000);
	assert_int_equal(config.engine.add_link_retry, 2000000);
	assert_int_equal(config.tcp_keepalive_min_seconds, 0);
	assert_int_equal(config.log_level, LOG_INFO);
	assert_int_equal(config.engine.trace, 0);
	assert_int_equal(config.engine.num_ueids, 0);
	assert_int_equal(config.engine.versions, SMCR_VERSIONS_BOTH);
	config_free(&config);
}

static void values_are_read_and_later_files_win(void **state)
{
	struct config config;
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
	assert_int_equal(load(dir->file, &config), 0);
	assert_int_equal(config.num_rnics, 2);
	assert_string_equal(config.rnics[1], "soft:eth2");
	assert_int_equal(config.engine.memory_budget, 64u << 20);
	assert_int_equal(config.engine.bsize, 3);
	assert_int_equal(config.engine.dialect, SMCR_DIALECT_FORCE_RFC);
	assert_int_equal(config.engine.max_links, 3);
	assert_int_equal(config.engine.retry_alternative_ms, 500);
	assert_int_equal(config.engine.retry_ms, 2000);
	assert_int_equal(config.engine.test_link_interval, UINT64_MAX); /* never probed */
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

/* A wrong line is refused with a sentence that names the file, the line and the key. */
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
		{ "log_trace = loud", "log_trace: 'loud' is not none, all, or some of clc llc cdc "
				      "rnic cm smbdirect ipc" },
		{ "log_trace = none clc", "log_trace" },
		{ "log_trace = clc,llc", "log_trace" },
		{ "log_trace =", "log_trace" },
		{ "rnic = eth0", "rnic" },
		{ "rnic = soft:", "rnic" },
		{ "rnic = soft:abcdefghijklmnop", "rnic: no interface can be called" },
		{ "rnic = soft:eth0/1", "rnic: no interface can be called" },
		{ "rnic = soft:eth0:1", "rnic: no interface can be called" },
		{ "rnic = soft:et h0", "rnic: no interface can be called" },
		{ "rnic = soft:..", "rnic: no interface can be called" },
		{ "rnic = verbs:/1", "rnic: no RDMA device can be called" },
		{ "rnic = verbs:mlx5_0/0", "rnic: no RDMA device can be called" },
		{ "rnic = verbs:mlx5_0/256", "rnic: no RDMA device can be called" },
		{ "rnic = verbs:mlx5_0/1x", "rnic: no RDMA device can be called" },
		{ "rnic = verbs:mlx5 0", "rnic: no RDMA device can be called" },
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
		TRIES("%s", cases[i].line);
		struct config config;
		char contents[256], place[128];
		snprintf(contents, sizeof(contents), "# one\n# two\n%s\n# four\n", cases[i].line);
		snprintf(place, sizeof(place), "%s:3: ", dir->file);
		write_file(dir->file, contents);
		assert_int_equal(load(dir->file, &config), -EINVAL);
		if (strncmp(errors, place, strlen(place)) || !strstr(errors, cases[i].key))
			fail_msg("'%s' gives '%s'", cases[i].line, errors);
	}
}

static void sizes_that_contradict_are_refused(void **state)
{
	struct config config;
	struct dir *dir = *state;
	write_file(dir->file, "element_size = 64K\nelement_size_min = 128K\n");
	assert_int_equal(load(dir->file, &config), -EINVAL);
	assert_non_null(strstr(errors, "element_size_min"));
	assert_non_null(strstr(errors, dir->file));
}

static void patience_with_the_last_link_is_the_longer_one(void **state)
{
	struct config config;
	struct dir *dir = *state;
	write_file(dir->file, "last_link_timeout_milliseconds = 200\n");
	assert_int_equal(load(dir->file, &config), -EINVAL);
	assert_non_null(strstr(errors, "link_timeout_milliseconds (300)"));
	assert_non_null(strstr(errors, "last_link_timeout_milliseconds (200)"));
}

static void ueids_are_counted_and_differ(void **state)
{
	struct config config;
	struct dir *dir = *state;
	write_file(dir->file, "ueid = A\nueid = B\nueid = A\n");
	assert_int_equal(load(dir->file, &config), -EINVAL);
	assert_non_null(strstr(errors, ":3: ueid: 'A' is there twice"));
	write_file(dir->file, "ueid = 1\nueid = 2\nueid = 3\nueid = 4\nueid = 5\nueid = 6\n"
			      "ueid = 7\nueid = 8\nueid = 9\n");
	assert_int_equal(load(dir->file, &config), -EINVAL);
	assert_non_null(strstr(errors, ":9: ueid: more than 8"));
}

static void rules_are_kept_in_their_order(void **state)
{
	struct config config;
	char shown[POLICY_RULE_TEXT];
	struct dir *dir = *state;
	write_file(dir->file, "deny = port 22\nallow = peer 10.0.0.0/8 uid root\ndeny=port 23");
	assert_int_equal(load(dir->file, &config), 0);
	assert_int_equal(config.num_rules, 3);
	policy_rule_text(&config.rules[1], shown);
	assert_string_equal(shown, "allow uid 0 peer 10.0.0.0/8");
	policy_rule_text(&config.rules[2], shown);
	assert_string_equal(shown, "deny port 23");
	config_free(&config);
	write_file(dir->file, "deny = uid root port 22\ndeny = port 22-22 uid 0\n");
	assert_int_equal(load(dir->file, &config), -EINVAL);
	assert_non_null(strstr(errors, ":2: deny: this rule is there twice"));
}

static void more_rules_than_there_are_places_are_refused(void **state)
{
	struct config config;
	struct dir *dir = *state;
	FILE *file = fopen(dir->file, "w");
	assert_non_null(file);
	for (int i = 1; i <= SMCR_MAX_RULES + 1; i++)
		fprintf(file, "deny = port %d\n", i);
	fclose(file);
	assert_int_equal(load(dir->file, &config), -EINVAL);
	assert_non_null(strstr(errors, ":257: deny: more than 256 rules"));
}

static void a_version_without_a_dialect_is_refused(void **state)
{
	struct config config;
	struct dir *dir = *state;
	write_file(dir->file, "versions = 2\ndialect = rfc\n");
	assert_int_equal(load(dir->file, &config), -EINVAL);
	assert_non_null(strstr(errors, "dialect = rfc"));
	write_file(dir->file, "versions = 2\n");
	assert_int_equal(load(dir->file, &config), 0);
	assert_int_equal(config.engine.versions, SMCR_VERSIONS_2_ONLY);
	config_free(&config);
}

static void a_named_file_must_exist(void **state)
{
	struct config config;
	struct dir *dir = *state;
	assert_int_equal(load(dir->file, &config), -ENOENT);
	assert_non_null(strstr(errors, dir->file));
}

static void every_error_of_every_file_is_told(void **state)
{
	struct config config;
	char place[192];
	struct dir *dir = *state;
	write_file(dir->file, "max_links = 99\n\nlog_level = loud\nwhat is this\n[section]\n"
			      "element_size = 16K\nelement_size_min = 512K\nno_such_key = 1\n");
	assert_int_equal(mkdir(dir->more_dir, 0755), 0);
	write_file(dir->more, "# fine\nskip_seconds = -1\n");
	assert_int_equal(load(dir->file, &config), -EINVAL);
	static const char *const lines[] = {
		":1: max_links: ",
		":3: log_level: ",
		":4: this is not 'key = value'",
		":5: sections such as [section]",
		":7: element_size_min (512K) is larger",
		":8: no_such_key: there is no such key: smcrd.conf(5) has "
		"them all"
	};
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		TRIES("%s", lines[i]);
		snprintf(place, sizeof(place), "%s%s", dir->file, lines[i]);
		if (!strstr(errors, place))
			fail_msg("'%s' is missing in:\n%s", place, errors);
	}
	snprintf(place, sizeof(place), "%s:2: skip_seconds: ", dir->more);
	assert_non_null(strstr(errors, place));
}

/* Lists may be, and another file may give a key anew. */
static void a_key_twice_in_one_file_is_refused(void **state)
{
	struct config config;
	char expected[1024];
	struct dir *dir = *state;
	write_file(dir->file, "memory = 64M\n# a comment\nmax_links = 2\n memory = 64M\n"
			      "capable_subnet = 10.1.0.0/16\ncapable_subnet = 10.2.0.0/16\n"
			      "memory = lots\n");
	assert_int_equal(mkdir(dir->more_dir, 0755), 0);
	write_file(dir->more, "max_links = 3\nmax_links = 4\n");
	assert_int_equal(load(dir->file, &config), -EINVAL);
	snprintf(expected, sizeof(expected),
		 "%s:4: memory: line 1 of this file gives the key too: remove one of the two\n"
		 "%s:7: memory: line 4 of this file gives the key too: remove one of the two\n"
		 "%s:7: memory: 'lots' is not a size of 1M or more (K, M, G may follow)\n"
		 "%s:2: max_links: line 1 of this file gives the key too: remove one of the two\n",
		 dir->file, dir->file, dir->file, dir->more);
	assert_string_equal(errors, expected);
	write_file(dir->file, "max_links = 2\n");
	write_file(dir->more, "max_links = 3\n");
	assert_int_equal(load(dir->file, &config), 0);
	assert_int_equal(config.engine.max_links, 3);
	config_free(&config);
}

static void many_errors_are_counted_and_not_all_kept(void **state)
{
	struct config config;
	struct config_notes notes = { .num = 0 };
	struct dir *dir = *state;
	const struct config_source source = { .path = dir->file };
	FILE *file = fopen(dir->file, "w");
	assert_non_null(file);
	for (int i = 0; i < 1000; i++)
		fprintf(file, "key%d = 1\n", i);
	fclose(file);
	assert_int_equal(config_load(&source, &config, &notes), -EINVAL);
	assert_int_equal(notes.num, 1000);
	assert_int_equal(config_notes_kept(&notes), CONFIG_MAX_NOTES);
	config_notes_free(&notes);
}

/* libinih would split the line in two, and take the second part for another key. */
static void a_line_too_long_is_refused_whole(void **state)
{
	struct config config;
	char line[512], comment[1024];
	struct dir *dir = *state;
	snprintf(line, sizeof(line), "deny = program /%0300d max_links = 3\n", 0);
	write_file(dir->file, line);
	assert_int_equal(load(dir->file, &config), -EINVAL);
	assert_non_null(strstr(errors, ":1: the line is longer than"));
	assert_ptr_equal(strchr(errors, '\n'), errors + strlen(errors) - 1); /* exactly one error */
	snprintf(comment, sizeof(comment), "# %0300d\n\t; %0300d\n", 0, 0);
	write_file(dir->file, comment);
	assert_int_equal(load(dir->file, &config), 0);
	config_free(&config);
}

static void files_that_cannot_be_read_are_errors(void **state)
{
	struct config config;
	struct dir *dir = *state;
	assert_int_equal(load(dir->path, &config), -EISDIR);
	assert_non_null(strstr(errors, dir->path));
	write_file(dir->file, "");
	write_file(dir->more_dir, "not a directory");
	assert_int_equal(load(dir->file, &config), -EINVAL);
	assert_non_null(strstr(errors, dir->more_dir));
	unlink(dir->more_dir);
}

/* To open or read such a file does not block, and a reload refuses it again. */
static void pipes_and_devices_are_refused(void **state)
{
	struct config config;
	struct dir *dir = *state;
	write_file(dir->file, "");
	assert_int_equal(mkdir(dir->more_dir, 0755), 0);
	assert_int_equal(mkfifo(dir->more, 0600), 0);
	assert_int_equal(load(dir->file, &config), -EINVAL);
	if (!strstr(errors, dir->more) || !strstr(errors, "is no regular file"))
		fail_msg("%s", errors);
	unlink(dir->more);
	assert_int_equal(symlink("/dev/zero", dir->more), 0);
	assert_int_equal(load(dir->file, &config), -EINVAL);
	assert_non_null(strstr(errors, "is no regular file"));
	unlink(dir->more);
	/* As administrators switch a file off. */
	assert_int_equal(symlink("/dev/null", dir->more), 0);
	assert_int_equal(load(dir->file, &config), 0);
	config_free(&config);
	unlink(dir->file);
	assert_int_equal(mkfifo(dir->file, 0600), 0);
	assert_int_equal(load(dir->file, &config), -EINVAL);
	assert_non_null(strstr(errors, "is no regular file"));
}

/* A line may be as long as its file, and libinih has the whole line in memory. */
static void large_files_are_refused(void **state)
{
	struct config config;
	struct dir *dir = *state;
	write_file(dir->file, "");
	assert_int_equal(truncate(dir->file, 1 << 20), 0);
	assert_int_equal(load(dir->file, &config), 0);
	config_free(&config);
	assert_int_equal(truncate(dir->file, (1 << 20) + 1), 0);
	assert_int_equal(load(dir->file, &config), -EFBIG);
	assert_non_null(strstr(errors, "more than 1024 KiB"));
}

static const struct config_key *key_of(const char *name)
{
	const struct config_key *key;
	for (size_t i = 0; (key = config_key(i)); i++)
		if (!strcmp(key->name, name))
			return key;
	fail_msg("there is no key %s", name);
	return NULL;
}

static void expect_setting(const struct config *config, const char *name, size_t number,
			   const char *value, enum config_origin origin, const char *file,
			   unsigned int line)
{
	const struct config_setting *setting = config_next_setting(config, key_of(name), NULL);
	while (setting && number-- > 0)
		setting = config_next_setting(config, key_of(name), setting);
	assert_non_null(setting);
	assert_string_equal(setting->value, value);
	assert_int_equal(setting->origin, origin);
	assert_int_equal(setting->line, line);
	if (file)
		assert_string_equal(setting->file, file);
	else
		assert_null(setting->file);
}

static void every_value_knows_where_it_came_from(void **state)
{
	struct config config;
	struct config_notes notes = { .num = 0 };
	struct dir *dir = *state;
	const struct config_source source = { .path = dir->file,
					      .socket_path = "/run/other.sock",
					      .rnics = { "soft:eth7" },
					      .num_rnics = 1 };
	write_file(dir->file, "memory = 65536K\nrnic = soft:eth1\nsocket = /run/a.sock\n"
			      "max_links = 3\ncapable_subnet = 10.1.2.3/16\n"
			      "deny = uid root port 22-22\n");
	assert_int_equal(mkdir(dir->more_dir, 0755), 0);
	write_file(dir->more, "\nmax_links = +2\ncapable_subnet = 10.3.0.0/16\n");
	assert_int_equal(config_load(&source, &config, &notes), 0);
	expect_setting(&config, "log_level", 0, "info", CONFIG_FROM_DEFAULT, NULL, 0);
	expect_setting(&config, "memory", 0, "64M", CONFIG_FROM_FILE, dir->file, 1);
	expect_setting(&config, "max_links", 0, "2", CONFIG_FROM_FILE, dir->more, 2);
	assert_null(config_next_setting(&config, key_of("max_links"),
					config_next_setting(&config, key_of("max_links"), NULL)));
	expect_setting(&config, "capable_subnet", 0, "10.1.0.0/16", CONFIG_FROM_FILE, dir->file, 5);
	expect_setting(&config, "capable_subnet", 1, "10.3.0.0/16", CONFIG_FROM_FILE, dir->more, 3);
	expect_setting(&config, "deny", 0, "uid 0 port 22", CONFIG_FROM_FILE, dir->file, 6);
	expect_setting(&config, "socket", 0, "/run/other.sock", CONFIG_FROM_COMMAND_LINE, NULL, 0);
	expect_setting(&config, "rnic", 0, "soft:eth7", CONFIG_FROM_COMMAND_LINE, NULL, 0);
	assert_int_equal(config.num_rnics, 1);
	assert_string_equal(config.socket_path, "/run/other.sock");
	config_free(&config);
}

/* Categories in any order, once or often: shown, and compared, in one form. */
static void categories_of_the_trace(void **state)
{
	static const struct {
		const char *value, *shown;
		unsigned int set;
	} cases[] = {
		{ "clc", "clc", IPC_TRACE_BIT(IPC_TRACE_CLC) },
		{ "llc  clc llc", "clc llc",
		  IPC_TRACE_BIT(IPC_TRACE_CLC) | IPC_TRACE_BIT(IPC_TRACE_LLC) },
		{ "none", "none", 0 },
	};
	struct config config, next;
	struct config_notes notes = { .num = 0 };
	struct dir *dir = *state;
	write_file(dir->file, "log_trace = cdc\n");
	assert_int_equal(load(dir->file, &config), 0);
	assert_int_equal(config.engine.trace, IPC_TRACE_BIT(IPC_TRACE_CDC));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TRIES("%s", cases[i].value);
		assert_true(config_with(&config, "log_trace", cases[i].value, &next, &notes));
		assert_int_equal(next.engine.trace, cases[i].set);
		expect_setting(&next, "log_trace", 0, cases[i].shown, CONFIG_FROM_RUN_TIME, NULL,
			       0);
		config_free(&next);
	}
	assert_true(config_with(&config, "log_trace", "all", &next, &notes));
	assert_int_equal(next.engine.trace, IPC_TRACE_BIT(IPC_NUM_TRACES) - 1);
	config_free(&next);
	config_free(&config);
}

static void errors_of_the_command_line_are_told(void **state)
{
	struct config config;
	struct config_notes notes = { .num = 0 };
	struct dir *dir = *state;
	const struct config_source source = { .path = dir->file,
					      .rnics = { "eth7", "soft:" },
					      .num_rnics = 2 };
	write_file(dir->file, "rnic = eth8\n");
	assert_int_equal(config_load(&source, &config, &notes), -EINVAL);
	assert_int_equal(notes.num, 3);
	assert_string_equal(notes.text[1],
			    "--rnic: 'eth7' is not soft:INTERFACE or verbs:DEVICE[/PORT]");
	config_notes_free(&notes);
}

/* Writes "key from>to" for each change, with blanks between. */
static void write_change(void *arg, const struct config_change *change)
{
	char *text = arg;
	sprintf(text + strlen(text), "%s %s>%s\n", change->key->name,
		change->from ? change->from : "-", change->to ? change->to : "-");
}

static void write_words(void *arg, const struct config_change *change)
{
	char *text = arg, *words = config_change_text(change);
	sprintf(text + strlen(text), "%s\n", words);
	free(words);
}

static void load_two(const struct dir *dir, const char *first, const char *second,
		     struct config ret[2])
{
	write_file(dir->file, first);
	assert_int_equal(load(dir->file, &ret[0]), 0);
	write_file(dir->file, second);
	assert_int_equal(load(dir->file, &ret[1]), 0);
}

static void differences_are_told_whatever_the_spelling(void **state)
{
	struct config config[2];
	char text[1024] = "";
	struct dir *dir = *state;
	load_two(dir, "memory = 1024M\nlog_level = info\ndeny = port 22\ndeny = port 23\n",
		 "deny = port 24\n\nlog_level=debug\ndeny = port 23-23\nmemory = 1G\n"
		 "rnic = soft:eth1\nadmin_group = root\n",
		 config);
	config_compare(&config[0], &config[1], write_change, text);
	assert_string_equal(text, "rnic ->soft:eth1\nadmin_group >root\nlog_level info>debug\n"
				  "deny port 22>-\ndeny ->port 24\n");
	*text = '\0';
	config_compare(&config[1], &config[1], write_change, text);
	assert_string_equal(text, "");
	config_free(&config[0]);
	config_free(&config[1]);
}

/* Without any name in the files smcrd uses all RNICs that it finds. */
static void without_names_all_rnics_are_used(void **state)
{
	struct config config[2];
	char text[1024] = "";
	struct dir *dir = *state;
	load_two(dir, "rnic = soft:eth0\ndeny = port 22\n", "", config);
	config_compare(&config[0], &config[1], write_words, text);
	assert_string_equal(text, "rnic: no longer named: soft:eth0; none is named now, and smcrd "
				  "uses those that it finds\ndeny: no longer port 22\n");
	*text = '\0';
	config_compare(&config[1], &config[0], write_words, text);
	assert_string_equal(text, "rnic: now named: soft:eth0; smcrd no longer uses all that it "
				  "finds\ndeny: now also port 22\n");
	config_free(&config[1]);
	write_file(dir->file, "rnic = soft:eth0\nrnic = soft:eth1\ndeny = port 22\n");
	assert_int_equal(load(dir->file, &config[1]), 0);
	*text = '\0';
	config_compare(&config[0], &config[1], write_words, text);
	assert_string_equal(text, "rnic: now also soft:eth1\n");
	config_free(&config[0]);
	config_free(&config[1]);
}

static void the_order_of_ueids_matters_that_of_rules_does_not(void **state)
{
	struct config config[2];
	char text[1024] = "";
	struct dir *dir = *state;
	load_two(dir, "ueid = A\nueid = B\ndeny = port 1\ndeny = port 2\n",
		 "ueid = B\nueid = A\ndeny = port 2\ndeny = port 1\n", config);
	config_compare(&config[0], &config[1], write_change, text);
	assert_string_equal(text, "ueid >\n");
	config_free(&config[0]);
	config_free(&config[1]);
}

static void settings_that_need_a_restart_keep_their_value(void **state)
{
	struct config config[2];
	char text[1024] = "", place[128];
	struct dir *dir = *state;
	load_two(dir, "socket = /run/a.sock\n", "\nsocket = /run/b.sock\nmax_links = 3\n", config);
	assert_int_equal(config_keep(&config[0], &config[1]), 0);
	assert_string_equal(config[1].socket_path, "/run/a.sock");
	config_compare(&config[0], &config[1], write_change, text);
	assert_string_equal(text, "max_links 4>3\n");
	expect_setting(&config[1], "socket", 0, "/run/a.sock", CONFIG_FROM_FILE, dir->file, 1);
	const struct config_setting *setting =
		config_next_setting(&config[1], key_of("socket"), NULL);
	assert_string_equal(setting->after_restart, "/run/b.sock");
	/* the configuration in force is still the first */
	struct config third;
	write_file(dir->file, "socket = /run/a.sock\n");
	assert_int_equal(load(dir->file, &third), 0);
	assert_int_equal(config_keep(&config[1], &third), 0);
	assert_null(config_next_setting(&third, key_of("socket"), NULL)->after_restart);
	snprintf(place, sizeof(place), "%s",
		 config_next_setting(&third, key_of("socket"), NULL)->file);
	assert_string_equal(place, dir->file);
	config_free(&config[0]);
	config_free(&config[1]);
	config_free(&third);
}

/* A setting that was taken back at run time counts as a change if the files still have it. */
static void settings_taken_back_return_with_the_next_reload(void **state)
{
	struct config config[2];
	char text[1024] = "";
	struct dir *dir = *state;
	static const char lines[] = "ueid = A\nueid = B\ndeny = port 22\nallow = uid 0 port 22\n"
				    "deny = all\n";
	load_two(dir, lines, lines, config);
	config_forget(&config[0], "ueid", "A");
	config_forget(&config[0], "ueid", "C");
	config_forget(&config[0], "deny", "port 22");
	config_forget(&config[0], "deny", "port 22");
	config_forget(&config[0], "allow", "port 22");
	assert_int_equal(config[0].engine.num_ueids, 1);
	assert_memory_equal(config[0].engine.ueids[0], config[1].engine.ueids[1], SMCR_EID_LEN);
	assert_int_equal(config[0].num_rules, 2);
	assert_true(policy_rule_equal(&config[0].rules[0], &config[1].rules[1]));
	assert_true(policy_rule_equal(&config[0].rules[1], &config[1].rules[2]));
	config_compare(&config[0], &config[1], write_change, text);
	assert_string_equal(text, "ueid ->A\ndeny ->port 22\n");
	config_free(&config[0]);
	config_free(&config[1]);
}

/* One RNIC is added or taken away, by any of its names. This is refused where smcrd uses all RNICs
 * that it finds. */
static void rnics_come_and_go_at_run_time(void **state)
{
	static const struct {
		const char *rnic;
		bool wanted;
		int error;
		const char *words;
	} wrong[] = {
		{ "soft:eth0", true, -EEXIST, "rnic soft:eth0 is named already" },
		{ "verbs:mlx5_0", true, -EEXIST, "rnic verbs:mlx5_0/1 is named already" },
		{ "soft:eth1", false, -ENOENT, "no rnic soft:eth1 is named" },
		{ "verbs:mlx5_0/2", false, -ENOENT, "no rnic verbs:mlx5_0/2 is named" },
		{ "eth1", true, -EINVAL, "rnic: 'eth1' is not soft:INTERFACE" },
	};
	struct config config, next, last;
	struct config_notes notes = { .num = 0 };
	char text[1024] = "";
	struct dir *dir = *state;
	write_file(dir->file, "rnic = soft:eth0\nrnic = verbs:mlx5_0/1\n");
	assert_int_equal(load(dir->file, &config), 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		TRIES("%s", wrong[i].words);
		assert_int_equal(
			config_with_rnic(&config, wrong[i].rnic, wrong[i].wanted, &next, &notes),
			wrong[i].error);
		if (!strstr(notes.text[0], wrong[i].words))
			fail_msg("%s", notes.text[0]);
		config_notes_free(&notes);
	}
	assert_int_equal(config_with_rnic(&config, "soft:eth1", true, &next, &notes), 0);
	config_compare(&config, &next, write_change, text);
	assert_string_equal(text, "rnic ->soft:eth1\n");
	expect_setting(&next, "rnic", 2, "soft:eth1", CONFIG_FROM_RUN_TIME, NULL, 0);
	config_free(&config);
	assert_int_equal(config_with_rnic(&next, "soft:eth0", false, &config, &notes), 0);
	assert_int_equal(config_with_rnic(&config, "verbs:mlx5_0", false, &last, &notes), 0);
	assert_int_equal(last.num_rnics, 1);
	assert_string_equal(last.rnics[0], "soft:eth1");
	config_free(&config);
	assert_int_equal(config_with_rnic(&last, "soft:eth1", false, &config, &notes), -EBUSY);
	assert_non_null(strstr(notes.text[0], "the only one"));
	config_notes_free(&notes);
	config_free(&next);
	config_free(&last);
	write_file(dir->file, "");
	assert_int_equal(load(dir->file, &config), 0);
	assert_int_equal(config_with_rnic(&config, "soft:eth1", true, &next, &notes), -EBUSY);
	assert_non_null(strstr(notes.text[0], "smcrd uses those that it finds"));
	config_notes_free(&notes);
	assert_int_equal(config_with_rnic(&config, "eth1", true, &next, &notes), -EINVAL);
	config_notes_free(&notes);
	config_free(&config);
}

/* As many RNICs are named as can be: that is not an error of the name. */
static void no_more_rnics_than_can_be_named(void **state)
{
	struct config config, next;
	struct config_notes notes = { .num = 0 };
	struct dir *dir = *state;
	char text[CONFIG_MAX_RNICS * 20] = "";
	for (int i = 0; i < CONFIG_MAX_RNICS; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "rnic = soft:eth%d\n",
			 i);
	write_file(dir->file, text);
	assert_int_equal(load(dir->file, &config), 0);
	assert_int_equal(config_with_rnic(&config, "soft:late", true, &next, &notes), -ENOSPC);
	assert_string_equal(notes.text[0], "16 RNICs are named; no more can be");
	config_notes_free(&notes);
	assert_int_equal(config_with_rnic(&config, "soft:eth3", true, &next, &notes), -EEXIST);
	assert_string_equal(notes.text[0], "rnic soft:eth3 is named already");
	config_notes_free(&notes);
	config_free(&config);
}

/* config_keep() keeps single values, so a list must never need a restart. */
static void no_list_needs_a_restart(void **state)
{
	const struct config_key *key;
	(void)state;
	for (size_t i = 0; (key = config_key(i)); i++) {
		assert_false(key->restart && key->list);
		assert_false(key->ordered && !key->list);
	}
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(defaults_without_any_file),
		CASE(the_main_file_is_known),
		CASE(values_are_read_and_later_files_win),
		CASE(errors_name_file_line_and_key),
		CASE(sizes_that_contradict_are_refused),
		CASE(patience_with_the_last_link_is_the_longer_one),
		CASE(ueids_are_counted_and_differ),
		CASE(rules_are_kept_in_their_order),
		CASE(more_rules_than_there_are_places_are_refused),
		CASE(a_version_without_a_dialect_is_refused),
		CASE(a_named_file_must_exist),
		CASE(every_error_of_every_file_is_told),
		CASE(a_key_twice_in_one_file_is_refused),
		CASE(many_errors_are_counted_and_not_all_kept),
		CASE(a_line_too_long_is_refused_whole),
		CASE(files_that_cannot_be_read_are_errors),
		CASE(pipes_and_devices_are_refused),
		CASE(large_files_are_refused),
		CASE(every_value_knows_where_it_came_from),
		CASE(categories_of_the_trace),
		CASE(errors_of_the_command_line_are_told),
		CASE(differences_are_told_whatever_the_spelling),
		CASE(without_names_all_rnics_are_used),
		CASE(rnics_come_and_go_at_run_time),
		CASE(no_more_rnics_than_can_be_named),
		CASE(the_order_of_ueids_matters_that_of_rules_does_not),
		CASE(settings_that_need_a_restart_keep_their_value),
		CASE(settings_taken_back_return_with_the_next_reload),
		CASE(no_list_needs_a_restart),
	};
	return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}

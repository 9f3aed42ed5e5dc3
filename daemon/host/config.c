/* SPDX-License-Identifier: MIT */
#include "daemon/host/config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <glob.h>
#include <grp.h>
#include <ini.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/host/log.h"
#include "proto/ipc/ipc.h"
#include "proto/smcr/eid.h"

/* What a key's value may be is said by its setter: false with a sentence in `why`. */
#define WHY_LEN POLICY_WHY_LEN
typedef bool (*setter)(struct config *config, const char *value, char why[WHY_LEN]);

static bool refuse(char why[WHY_LEN], const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static bool refuse(char why[WHY_LEN], const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(why, WHY_LEN, format, args);
	va_end(args);
	return false;
}

/* ---- kinds of values ---- */

/** "64K", "1G", "4096": bytes; -1 if it is none of that. */
static int64_t parse_size(const char *text)
{
	static const char suffixes[] = "KMG";
	char *end;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	if (errno || end == text || text[0] == '-')
		return -1;
	unsigned int shift = 0;
	if (*end) {
		const char *suffix = strchr(suffixes, *end);
		if (!suffix || end[1])
			return -1;
		shift = 10 * (unsigned int)(suffix - suffixes + 1);
	}
	return value > (uint64_t)(INT64_MAX >> shift) ? -1 : (int64_t)(value << shift);
}

static bool set_text(char **ret, const char *value, char why[WHY_LEN])
{
	char *copy = strdup(value);
	if (!copy)
		return refuse(why, "out of memory");
	free(*ret);
	*ret = copy;
	return true;
}

/* Element size code of a size (CLC-8). */
static bool set_element_size(uint8_t *ret, const char *value, char why[WHY_LEN])
{
	int64_t bytes = parse_size(value);
	for (uint8_t code = 0; code <= SMCR_BSIZE_MAX; code++) {
		if (bytes == smcr_bsize_bytes(code)) {
			*ret = code;
			return true;
		}
	}
	return refuse(why, "'%.40s' is not 16K, 32K, 64K, 128K, 256K or 512K", value);
}

/* ---- keys ---- */

static bool set_rnic(struct config *config, const char *value, char why[WHY_LEN])
{
	if (config->num_rnics == CONFIG_MAX_RNICS)
		return refuse(why, "more than %d devices", CONFIG_MAX_RNICS);
	if (!(!strncmp(value, "soft:", 5) && value[5]) &&
	    !(!strncmp(value, "verbs:", 6) && value[6]))
		return refuse(why, "'%.40s' is not soft:INTERFACE or verbs:DEVICE[/PORT]", value);
	if (!set_text(&config->rnics[config->num_rnics], value, why))
		return false;
	config->num_rnics++;
	return true;
}

static bool set_socket(struct config *config, const char *value, char why[WHY_LEN])
{
	if (value[0] != '/')
		return refuse(why, "'%.40s' is not an absolute path", value);
	return set_text(&config->socket_path, value, why);
}

static bool set_admin_group(struct config *config, const char *value, char why[WHY_LEN])
{
	const struct group *group = *value ? getgrnam(value) : NULL;
	if (*value && !group)
		return refuse(why, "this host has no group '%.40s'", value);
	if (group)
		config->admin_gid = group->gr_gid;
	return set_text(&config->admin_group, value, why);
}

static bool set_log_level(struct config *config, const char *value, char why[WHY_LEN])
{
	int level = log_level_parse(value);
	if (level < 0)
		return refuse(why, "'%.40s' is not error, warning, notice, info or debug", value);
	config->log_level = level;
	return true;
}

static bool set_dialect(struct config *config, const char *value, char why[WHY_LEN])
{
	if (!strcmp(value, "auto"))
		config->engine.dialect = SMCR_DIALECT_AUTO;
	else if (!strcmp(value, "rfc"))
		config->engine.dialect = SMCR_DIALECT_FORCE_RFC;
	else if (!strcmp(value, "deployed"))
		config->engine.dialect = SMCR_DIALECT_FORCE_DEPLOYED;
	else
		return refuse(why, "'%.40s' is not auto, rfc or deployed", value);
	return true;
}

static bool set_versions(struct config *config, const char *value, char why[WHY_LEN])
{
	if (!strcmp(value, "auto"))
		config->engine.versions = SMCR_VERSIONS_BOTH;
	else if (!strcmp(value, "1"))
		config->engine.versions = SMCR_VERSIONS_1_ONLY;
	else if (!strcmp(value, "2"))
		config->engine.versions = SMCR_VERSIONS_2_ONLY;
	else
		return refuse(why, "'%.40s' is not auto, 1 or 2", value);
	return true;
}

static bool set_ueid(struct config *config, const char *value, char why[WHY_LEN])
{
	struct smcr_config *engine = &config->engine;
	uint8_t ueid[SMCR_EID_LEN];
	if (smcr_ueid_parse(value, ueid))
		return refuse(why, "'%.40s' is no UEID: " SMCR_UEID_RULE, value);
	for (size_t i = 0; i < engine->num_ueids; i++)
		if (!memcmp(engine->ueids[i], ueid, sizeof(ueid)))
			return refuse(why, "'%s' is there twice", value);
	if (engine->num_ueids == SMCR_MAX_UEIDS)
		return refuse(why, "more than %d UEIDs", SMCR_MAX_UEIDS);
	memcpy(engine->ueids[engine->num_ueids++], ueid, sizeof(ueid));
	return true;
}

static bool set_bsize(struct config *config, const char *value, char why[WHY_LEN])
{
	return set_element_size(&config->engine.bsize, value, why);
}

static bool set_bsize_min(struct config *config, const char *value, char why[WHY_LEN])
{
	return set_element_size(&config->engine.bsize_min, value, why);
}

static bool set_memory(struct config *config, const char *value, char why[WHY_LEN])
{
	int64_t bytes = parse_size(value);
	if (bytes < 1 << 20)
		return refuse(why, "'%.40s' is not a size of 1M or more (K, M, G may follow)",
			      value);
	config->engine.memory_budget = (uint64_t)bytes;
	return true;
}

static bool set_capable_subnet(struct config *config, const char *value, char why[WHY_LEN])
{
	char addr[INET_ADDRSTRLEN], extra;
	unsigned int len;
	struct in_addr in;
	if (config->num_capable_subnets == CONFIG_MAX_SUBNETS)
		return refuse(why, "more than %d networks", CONFIG_MAX_SUBNETS);
	if (sscanf(value, "%15[0-9.]/%u%c", addr, &len, &extra) != 2 || len > 32 ||
	    inet_pton(AF_INET, addr, &in) != 1)
		return refuse(why, "'%.40s' is not an IPv4 network such as 10.1.0.0/16", value);
	uint32_t mask = len ? UINT32_MAX << (32 - len) : 0;
	config->capable_subnets[config->num_capable_subnets++] =
		(struct config_subnet){ ntohl(in.s_addr) & mask, (uint8_t)len };
	return true;
}

static bool set_short_size(struct config *config, const char *value, char why[WHY_LEN])
{
	int64_t bytes = parse_size(value);
	if (bytes < 1)
		return refuse(why, "'%.40s' is not a size of 1 or more (K, M, G may follow)",
			      value);
	config->shorts.bytes = (uint64_t)bytes;
	return true;
}

static bool add_rule(struct config *config, const char *action, const char *conditions,
		     char why[WHY_LEN])
{
	struct policy_rule rule;
	char text[POLICY_RULE_TEXT + 16];
	snprintf(text, sizeof(text), "%s %s", action, conditions);
	if (policy_rule_parse(text, true, &rule, why))
		return false;
	for (size_t i = 0; i < config->num_rules; i++)
		if (policy_rule_equal(&config->rules[i], &rule))
			return refuse(why, "this rule is there twice");
	if (config->num_rules == SMCR_MAX_RULES)
		return refuse(why, "more than %d rules", SMCR_MAX_RULES);
	struct policy_rule *rules =
		reallocarray(config->rules, config->num_rules + 1, sizeof(*rules));
	if (!rules)
		return refuse(why, "out of memory");
	config->rules = rules;
	config->rules[config->num_rules++] = rule;
	return true;
}

static bool set_deny(struct config *config, const char *value, char why[WHY_LEN])
{
	return add_rule(config, "deny", value, why);
}

static bool set_allow(struct config *config, const char *value, char why[WHY_LEN])
{
	return add_rule(config, "allow", value, why);
}

static bool set_shared_memory(struct config *config, const char *value, char why[WHY_LEN])
{
	config->shared_memory = !strcmp(value, "yes");
	if (!config->shared_memory && strcmp(value, "no"))
		return refuse(why, "'%.40s' is not yes or no", value);
	return true;
}

enum number {
	MAX_LINKS,
	SKIP_SECONDS,
	SHORT_RATE,
	SHORT_MS,
	TCP_KEEPALIVE_MIN,
	BUSY_POLL,
	MAX_CONNECTIONS,
	MAX_SESSIONS,
	LINKGROUP_IDLE,
	RMB_IDLE,
	LINK_TIMEOUT,
	LAST_LINK_TIMEOUT,
	TEST_LINK_INTERVAL,
	ADD_LINK_RETRY,
	CONNECT_WAIT,
};

static void store_number(struct config *config, enum number which, long value)
{
	switch (which) {
	case MAX_LINKS: config->engine.max_links = (uint8_t)value; break;
	case SKIP_SECONDS: config->skip_seconds = (unsigned int)value; break;
	case SHORT_RATE: config->shorts.rate = (uint32_t)value; break;
	case SHORT_MS: config->shorts.ms = (uint32_t)value; break;
	case TCP_KEEPALIVE_MIN: config->tcp_keepalive_min_seconds = (unsigned int)value; break;
	case BUSY_POLL: config->busy_poll_us = (unsigned int)value; break;
	case MAX_CONNECTIONS: config->max_connections_per_user = (unsigned int)value; break;
	case MAX_SESSIONS: config->max_sessions_per_user = (unsigned int)value; break;
	case LINKGROUP_IDLE: config->engine.lgr_idle_timeout = (uint64_t)value * 1000000; break;
	case RMB_IDLE: config->engine.rmb_idle_timeout = (uint64_t)value * 1000000; break;
	case LINK_TIMEOUT: config->engine.retry_alternative_ms = (uint32_t)value; break;
	case LAST_LINK_TIMEOUT: config->engine.retry_ms = (uint32_t)value; break;
	case TEST_LINK_INTERVAL:
		config->engine.test_link_interval =
			value ? (uint64_t)value * 1000000 : SMCR_NO_DEADLINE;
		break;
	case CONNECT_WAIT: config->connect_wait_ms = (unsigned int)value; break;
	case ADD_LINK_RETRY: config->engine.add_link_retry = (uint64_t)value * 1000000; break;
	}
}

/* Every key of smcrd.conf(5) with its default. Lists have none and may be given several times.
 * Keys without a setter are whole numbers from `min` to `max`. */
static const struct key {
	const char *name;
	const char *initial;
	setter set;
	enum number number;
	long min, max;
} keys[] = {
	{ "rnic", NULL, set_rnic },
	{ "socket", IPC_DEFAULT_SOCKET, set_socket },
	{ "admin_group", "", set_admin_group },
	{ "log_level", "info", set_log_level },
	{ "dialect", "auto", set_dialect },
	{ "versions", "auto", set_versions },
	{ "ueid", NULL, set_ueid },
	{ "element_size", "512K", set_bsize },
	{ "element_size_min", "16K", set_bsize_min },
	{ "memory", "1G", set_memory },
	{ "capable_subnet", NULL, set_capable_subnet },
	{ "short_connection_rate", "20", NULL, SHORT_RATE, 0, 1000000 },
	{ "short_connection_milliseconds", "1000", NULL, SHORT_MS, 1, 3600000 },
	{ "short_connection_size", "64K", set_short_size },
	{ "deny", NULL, set_deny },
	{ "allow", NULL, set_allow },
	{ "max_links", "4", NULL, MAX_LINKS, 2, SMCR_MAX_LINKS },
	{ "skip_seconds", "60", NULL, SKIP_SECONDS, 1, 86400 },
	{ "connect_wait_milliseconds", "40", NULL, CONNECT_WAIT, 1, 60000 },
	{ "tcp_keepalive_min_seconds", "0", NULL, TCP_KEEPALIVE_MIN, 0, 32767 },
	{ "busy_poll_microseconds", "50", NULL, BUSY_POLL, 0, 10000 },
	{ "shared_memory", "yes", set_shared_memory },
	{ "max_connections_per_user", "10000", NULL, MAX_CONNECTIONS, 1, 1000000 },
	{ "max_sessions_per_user", "1000", NULL, MAX_SESSIONS, 1, 1000000 },
	{ "linkgroup_idle_seconds", "600", NULL, LINKGROUP_IDLE, 1, 7 * 86400 },
	{ "rmb_idle_seconds", "60", NULL, RMB_IDLE, 1, 7 * 86400 },
	{ "link_timeout_milliseconds", "300", NULL, LINK_TIMEOUT, 100, 60000 },
	{ "last_link_timeout_milliseconds", "4000", NULL, LAST_LINK_TIMEOUT, 100, 60000 },
	{ "test_link_interval_seconds", "30", NULL, TEST_LINK_INTERVAL, 0, 86400 },
	{ "add_link_retry_seconds", "2", NULL, ADD_LINK_RETRY, 1, 600 },
};
#define NUM_KEYS (sizeof(keys) / sizeof(keys[0]))

static bool set_key(const struct key *key, struct config *config, const char *value,
		    char why[WHY_LEN])
{
	char *end;
	if (key->set)
		return key->set(config, value, why);
	errno = 0;
	long number = strtol(value, &end, 10);
	if (errno || end == value || *end || number < key->min || number > key->max)
		return refuse(why, "'%.40s' is not a number between %ld and %ld", value, key->min,
			      key->max);
	store_number(config, key->number, number);
	return true;
}

/* ---- files ---- */

struct parse {
	struct config *config;
	char key[64];
	char why[WHY_LEN]; /* of the first line that was refused */
};

/* libinih calls this for each "key = value"; 0 makes ini_parse() return the line's number. */
static int on_line(void *ctx, const char *section, const char *name, const char *value)
{
	struct parse *parse = ctx;
	if (parse->why[0])
		return 0; /* the first error is the cause */
	snprintf(parse->key, sizeof(parse->key), "%s", name);
	if (*section)
		return refuse(parse->why, "sections such as [%.40s] have no meaning", section);
	for (size_t i = 0; i < NUM_KEYS; i++)
		if (!strcmp(keys[i].name, name))
			return set_key(&keys[i], parse->config, value, parse->why);
	return refuse(parse->why, "there is no such key");
}

static int parse_file(struct config *config, const char *path, char ret_error[CONFIG_ERROR_LEN])
{
	struct parse parse = { .config = config };
	FILE *file = fopen(path, "re");
	if (!file) {
		int error = errno;
		snprintf(ret_error, CONFIG_ERROR_LEN, "%s: %s", path, strerror(error));
		return -error;
	}
	int line = ini_parse_file(file, on_line, &parse);
	fclose(file);
	if (line == 0)
		return 0;
	if (parse.why[0])
		snprintf(ret_error, CONFIG_ERROR_LEN, "%s:%d: %s: %s", path, line, parse.key,
			 parse.why);
	else if (line > 0)
		snprintf(ret_error, CONFIG_ERROR_LEN, "%s:%d: this is not 'key = value'", path,
			 line);
	else
		snprintf(ret_error, CONFIG_ERROR_LEN, "%s: cannot be read", path);
	return -EINVAL;
}

/* The file itself, then what lies in smcrd.conf.d beside it. */
static int parse_files(struct config *config, const char *path, char ret_error[CONFIG_ERROR_LEN])
{
	const char *main_file = path ? path : CONFIG_DEFAULT_PATH;
	int error = parse_file(config, main_file, ret_error);
	if (error && (path || error != -ENOENT))
		return error;
	char copy[PATH_MAX], pattern[PATH_MAX + 32];
	snprintf(copy, sizeof(copy), "%s", main_file);
	snprintf(pattern, sizeof(pattern), "%s/smcrd.conf.d/*.conf", dirname(copy));
	glob_t found;
	if (glob(pattern, 0, NULL, &found) != 0)
		return 0;
	error = 0;
	for (size_t i = 0; i < found.gl_pathc && !error; i++)
		error = parse_file(config, found.gl_pathv[i], ret_error);
	globfree(&found);
	return error;
}

static int set_defaults(struct config *config, char ret_error[CONFIG_ERROR_LEN])
{
	char why[WHY_LEN];
	for (size_t i = 0; i < NUM_KEYS; i++) {
		if (keys[i].initial && !set_key(&keys[i], config, keys[i].initial, why)) {
			snprintf(ret_error, CONFIG_ERROR_LEN, "default of %s: %s", keys[i].name,
				 why);
			return -EINVAL;
		}
	}
	return 0;
}

static int check_whole(const struct config *config, const char *path,
		       char ret_error[CONFIG_ERROR_LEN])
{
	const struct smcr_config *engine = &config->engine;
	const char *file = path ? path : CONFIG_DEFAULT_PATH;
	if (engine->bsize_min > engine->bsize) {
		snprintf(ret_error, CONFIG_ERROR_LEN,
			 "%s: element_size_min (%uK) is larger than element_size (%uK)", file,
			 smcr_bsize_bytes(engine->bsize_min) / 1024,
			 smcr_bsize_bytes(engine->bsize) / 1024);
		return -EINVAL;
	}
	if (engine->retry_alternative_ms > engine->retry_ms) {
		snprintf(ret_error, CONFIG_ERROR_LEN,
			 "%s: link_timeout_milliseconds (%u) is larger than "
			 "last_link_timeout_milliseconds (%u)",
			 file, engine->retry_alternative_ms, engine->retry_ms);
		return -EINVAL;
	}
	if (engine->versions == SMCR_VERSIONS_2_ONLY && engine->dialect == SMCR_DIALECT_FORCE_RFC) {
		snprintf(ret_error, CONFIG_ERROR_LEN,
			 "%s: versions = 2 and dialect = rfc leave nothing to speak: version 2 has "
			 "the deployed dialect only",
			 file);
		return -EINVAL;
	}
	return 0;
}

int config_load(const char *path, struct config *ret_config, char ret_error[CONFIG_ERROR_LEN])
{
	struct config config = { 0 };
	int error = set_defaults(&config, ret_error);
	if (!error)
		error = parse_files(&config, path, ret_error);
	if (!error)
		error = check_whole(&config, path, ret_error);
	if (error) {
		config_free(&config);
		return error;
	}
	*ret_config = config;
	return 0;
}

void config_free(struct config *config)
{
	for (size_t i = 0; i < config->num_rnics; i++)
		free(config->rnics[i]);
	free(config->socket_path);
	free(config->admin_group);
	free(config->rules);
	*config = (struct config){ 0 };
}

bool config_peer_assumed_capable(const struct config *config, uint32_t addr)
{
	for (size_t i = 0; i < config->num_capable_subnets; i++) {
		const struct config_subnet *subnet = &config->capable_subnets[i];
		uint32_t mask = subnet->prefix_len ? UINT32_MAX << (32 - subnet->prefix_len) : 0;
		if ((addr & mask) == subnet->addr)
			return true;
	}
	return false;
}

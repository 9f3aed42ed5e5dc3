/* SPDX-License-Identifier: MIT */
#include "daemon/host/config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <glob.h>
#include <ini.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/host/log.h"
#include "proto/ipc/ipc.h"

/* What a key's value may be is said by its setter: false with a sentence in `why`. */
#define WHY_LEN 160
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

static bool set_number(const char *value, long min, long max, long *ret, char why[WHY_LEN])
{
	char *end;
	errno = 0;
	long number = strtol(value, &end, 10);
	if (errno || end == value || *end || number < min || number > max)
		return refuse(why, "'%.40s' is not a number between %ld and %ld", value, min, max);
	*ret = number;
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

static bool set_max_links(struct config *config, const char *value, char why[WHY_LEN])
{
	long number;
	if (!set_number(value, 2, SMCR_MAX_LINKS, &number, why))
		return false;
	config->engine.max_links = (uint8_t)number;
	return true;
}

static bool set_skip_seconds(struct config *config, const char *value, char why[WHY_LEN])
{
	long number;
	if (!set_number(value, 1, 86400, &number, why))
		return false;
	config->skip_seconds = (unsigned int)number;
	return true;
}

static bool set_busy_poll(struct config *config, const char *value, char why[WHY_LEN])
{
	long number;
	if (!set_number(value, 0, 10000, &number, why))
		return false;
	config->busy_poll_us = (unsigned int)number;
	return true;
}

static bool set_max_connections(struct config *config, const char *value, char why[WHY_LEN])
{
	long number;
	if (!set_number(value, 1, 1000000, &number, why))
		return false;
	config->max_connections_per_user = (unsigned int)number;
	return true;
}

static bool set_max_sessions(struct config *config, const char *value, char why[WHY_LEN])
{
	long number;
	if (!set_number(value, 1, 1000000, &number, why))
		return false;
	config->max_sessions_per_user = (unsigned int)number;
	return true;
}

static bool set_lgr_idle(struct config *config, const char *value, char why[WHY_LEN])
{
	long number;
	if (!set_number(value, 1, 7 * 86400, &number, why))
		return false;
	config->engine.lgr_idle_timeout = (uint64_t)number * 1000000;
	return true;
}

static bool set_rmb_idle(struct config *config, const char *value, char why[WHY_LEN])
{
	long number;
	if (!set_number(value, 1, 7 * 86400, &number, why))
		return false;
	config->engine.rmb_idle_timeout = (uint64_t)number * 1000000;
	return true;
}

static bool set_link_retry(struct config *config, const char *value, char why[WHY_LEN])
{
	long number;
	if (!set_number(value, 100, 60000, &number, why))
		return false;
	config->engine.retry_ms = (uint32_t)number;
	return true;
}

/* Every key of smcrd.conf(5) with its default; lists have none and may be given several times. */
static const struct key {
	const char *name;
	setter set;
	const char *initial;
} keys[] = {
	{ "rnic", set_rnic, NULL },
	{ "socket", set_socket, IPC_DEFAULT_SOCKET },
	{ "admin_group", set_admin_group, "" },
	{ "log_level", set_log_level, "info" },
	{ "dialect", set_dialect, "auto" },
	{ "element_size", set_bsize, "512K" },
	{ "element_size_min", set_bsize_min, "64K" },
	{ "memory", set_memory, "1G" },
	{ "capable_subnet", set_capable_subnet, NULL },
	{ "max_links", set_max_links, "4" },
	{ "skip_seconds", set_skip_seconds, "60" },
	{ "busy_poll_microseconds", set_busy_poll, "50" },
	{ "max_connections_per_user", set_max_connections, "10000" },
	{ "max_sessions_per_user", set_max_sessions, "1000" },
	{ "linkgroup_idle_seconds", set_lgr_idle, "600" },
	{ "rmb_idle_seconds", set_rmb_idle, "60" },
	{ "link_retry_milliseconds", set_link_retry, "4000" },
};
#define NUM_KEYS (sizeof(keys) / sizeof(keys[0]))

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
			return keys[i].set(parse->config, value, parse->why);
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
		if (keys[i].initial && !keys[i].set(config, keys[i].initial, why)) {
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
	if (config->engine.bsize_min <= config->engine.bsize)
		return 0;
	snprintf(ret_error, CONFIG_ERROR_LEN,
		 "%s: element_size_min (%uK) is larger than element_size (%uK)",
		 path ? path : CONFIG_DEFAULT_PATH,
		 smcr_bsize_bytes(config->engine.bsize_min) / 1024,
		 smcr_bsize_bytes(config->engine.bsize) / 1024);
	return -EINVAL;
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

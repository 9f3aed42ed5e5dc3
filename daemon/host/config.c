/* SPDX-License-Identifier: MIT */
#include "daemon/host/config.h"

#include <arpa/inet.h>
#include <confuse.h>
#include <errno.h>
#include <glob.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/host/log.h"
#include "proto/ipc/ipc.h"

/* libconfuse hands its error function no context: where the sentence of the running parse goes. */
static char *error_out;

static void note_error(cfg_t *cfg, const char *format, va_list args)
{
	if (!error_out || error_out[0])
		return; /* the first error is the cause */
	int at = snprintf(error_out, CONFIG_ERROR_LEN, "%s:%d: ",
			  cfg && cfg->filename ? cfg->filename : "configuration",
			  cfg ? cfg->line : 0);
	vsnprintf(error_out + at, CONFIG_ERROR_LEN - (size_t)at, format, args);
}

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

/** Element size code of a size in bytes; -1 if no element has that size (CLC-8). */
static int bsize_code(int64_t bytes)
{
	for (int code = 0; code <= SMCR_BSIZE_MAX; code++)
		if (bytes == smcr_bsize_bytes((uint8_t)code))
			return code;
	return -1;
}

static int check_element_size(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *value = cfg_opt_getnstr(opt, 0);
	if (bsize_code(parse_size(value)) >= 0)
		return 0;
	cfg_error(cfg, "%s: '%s' is not 16K, 32K, 64K, 128K, 256K or 512K", opt->name, value);
	return -1;
}

static int check_memory(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *value = cfg_opt_getnstr(opt, 0);
	if (parse_size(value) >= (1 << 20))
		return 0;
	cfg_error(cfg, "%s: '%s' is not a size of 1M or more (K, M and G may follow the number)",
		  opt->name, value);
	return -1;
}

static int check_dialect(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *value = cfg_opt_getnstr(opt, 0);
	if (!strcmp(value, "auto") || !strcmp(value, "rfc") || !strcmp(value, "deployed"))
		return 0;
	cfg_error(cfg, "%s: '%s' is not auto, rfc or deployed", opt->name, value);
	return -1;
}

static int check_log_level(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *value = cfg_opt_getnstr(opt, 0);
	if (log_level_parse(value) >= 0)
		return 0;
	cfg_error(cfg, "%s: '%s' is not error, warning, notice, info or debug", opt->name, value);
	return -1;
}

static int check_rnic(cfg_t *cfg, cfg_opt_t *opt)
{
	if (cfg_opt_size(opt) > CONFIG_MAX_RNICS) {
		cfg_error(cfg, "%s: more than %d devices", opt->name, CONFIG_MAX_RNICS);
		return -1;
	}
	const char *value = cfg_opt_getnstr(opt, cfg_opt_size(opt) - 1);
	if ((!strncmp(value, "soft:", 5) && value[5]) || (!strncmp(value, "verbs:", 6) && value[6]))
		return 0;
	cfg_error(cfg, "%s: '%s' is not soft:INTERFACE or verbs:DEVICE[/PORT]", opt->name, value);
	return -1;
}

static int parse_subnet(const char *text, struct config_subnet *ret_subnet)
{
	char addr[INET_ADDRSTRLEN], extra;
	unsigned int len;
	struct in_addr in;
	if (sscanf(text, "%15[0-9.]/%u%c", addr, &len, &extra) != 2 || len > 32 ||
	    inet_pton(AF_INET, addr, &in) != 1)
		return -EINVAL;
	uint32_t mask = len ? UINT32_MAX << (32 - len) : 0;
	*ret_subnet = (struct config_subnet){ ntohl(in.s_addr) & mask, (uint8_t)len };
	return 0;
}

static int check_subnet(cfg_t *cfg, cfg_opt_t *opt)
{
	struct config_subnet subnet;
	if (cfg_opt_size(opt) > CONFIG_MAX_SUBNETS) {
		cfg_error(cfg, "%s: more than %d networks", opt->name, CONFIG_MAX_SUBNETS);
		return -1;
	}
	const char *value = cfg_opt_getnstr(opt, cfg_opt_size(opt) - 1);
	if (parse_subnet(value, &subnet) == 0)
		return 0;
	cfg_error(cfg, "%s: '%s' is not an IPv4 network such as 10.1.0.0/16", opt->name, value);
	return -1;
}

/* Whole numbers and the range that each may have. */
static const struct number_range {
	const char *key;
	long min, max;
} number_ranges[] = {
	{ "max_links", 2, SMCR_MAX_LINKS },
	{ "skip_seconds", 0, 86400 },
	{ "max_connections_per_user", 1, 1000000 },
	{ "max_sessions_per_user", 1, 1000000 },
	{ "linkgroup_idle_seconds", 1, 7 * 86400 },
	{ "rmb_idle_seconds", 1, 7 * 86400 },
	{ "link_retry_milliseconds", 100, 60000 },
};
#define NUM_RANGES (sizeof(number_ranges) / sizeof(number_ranges[0]))

static int check_number(cfg_t *cfg, cfg_opt_t *opt)
{
	long value = cfg_opt_getnint(opt, 0);
	for (size_t i = 0; i < NUM_RANGES; i++) {
		const struct number_range *range = &number_ranges[i];
		if (strcmp(opt->name, range->key))
			continue;
		if (value >= range->min && value <= range->max)
			return 0;
		cfg_error(cfg, "%s: %ld is not between %ld and %ld", opt->name, value, range->min,
			  range->max);
	}
	return -1;
}

static void set_checks(cfg_t *cfg)
{
	cfg_set_error_function(cfg, note_error);
	cfg_set_validate_func(cfg, "element_size", check_element_size);
	cfg_set_validate_func(cfg, "element_size_min", check_element_size);
	cfg_set_validate_func(cfg, "memory", check_memory);
	cfg_set_validate_func(cfg, "dialect", check_dialect);
	cfg_set_validate_func(cfg, "log_level", check_log_level);
	cfg_set_validate_func(cfg, "rnic", check_rnic);
	cfg_set_validate_func(cfg, "capable_subnet", check_subnet);
	for (size_t i = 0; i < NUM_RANGES; i++)
		cfg_set_validate_func(cfg, number_ranges[i].key, check_number);
}

/* One file into `cfg`. */
static int parse_file(cfg_t *cfg, const char *path)
{
	if (access(path, R_OK) < 0) {
		int error = errno;
		snprintf(error_out, CONFIG_ERROR_LEN, "%s: %s", path, strerror(error));
		return -error;
	}
	if (cfg_parse(cfg, path) == CFG_SUCCESS)
		return 0;
	if (!error_out[0])
		snprintf(error_out, CONFIG_ERROR_LEN, "%s: cannot be parsed", path);
	return -EINVAL;
}

/* The file itself, then what lies in smcrd.conf.d beside it. */
static int parse_files(cfg_t *cfg, const char *path)
{
	const char *main_file = path ? path : CONFIG_DEFAULT_PATH;
	if (path || access(main_file, F_OK) == 0) {
		int error = parse_file(cfg, main_file);
		if (error)
			return error;
	}
	char copy[PATH_MAX], pattern[PATH_MAX + 32];
	snprintf(copy, sizeof(copy), "%s", main_file);
	snprintf(pattern, sizeof(pattern), "%s/smcrd.conf.d/*.conf", dirname(copy));
	glob_t found;
	if (glob(pattern, 0, NULL, &found) != 0)
		return 0;
	int error = 0;
	for (size_t i = 0; i < found.gl_pathc && !error; i++)
		error = parse_file(cfg, found.gl_pathv[i]);
	globfree(&found);
	return error;
}

static enum smcr_dialect_policy dialect_policy(const char *name)
{
	if (!strcmp(name, "rfc"))
		return SMCR_DIALECT_FORCE_RFC;
	return !strcmp(name, "deployed") ? SMCR_DIALECT_FORCE_DEPLOYED : SMCR_DIALECT_AUTO;
}

static int fill_engine(cfg_t *cfg, struct smcr_config *ret, char *ret_error)
{
	*ret = (struct smcr_config){
		.dialect = dialect_policy(cfg_getstr(cfg, "dialect")),
		.max_links = (uint8_t)cfg_getint(cfg, "max_links"),
		.bsize = (uint8_t)bsize_code(parse_size(cfg_getstr(cfg, "element_size"))),
		.bsize_min = (uint8_t)bsize_code(parse_size(cfg_getstr(cfg, "element_size_min"))),
		.memory_budget = (uint64_t)parse_size(cfg_getstr(cfg, "memory")),
		.lgr_idle_timeout = (uint64_t)cfg_getint(cfg, "linkgroup_idle_seconds") * 1000000,
		.rmb_idle_timeout = (uint64_t)cfg_getint(cfg, "rmb_idle_seconds") * 1000000,
		.retry_ms = (uint32_t)cfg_getint(cfg, "link_retry_milliseconds"),
	};
	if (ret->bsize_min <= ret->bsize)
		return 0;
	snprintf(ret_error, CONFIG_ERROR_LEN,
		 "%s: element_size_min (%s) is larger than element_size (%s)",
		 cfg->filename ? cfg->filename : "configuration",
		 cfg_getstr(cfg, "element_size_min"), cfg_getstr(cfg, "element_size"));
	return -EINVAL;
}

static int fill(cfg_t *cfg, struct config *ret, char *ret_error)
{
	int error = fill_engine(cfg, &ret->engine, ret_error);
	if (error)
		return error;
	ret->num_rnics = cfg_size(cfg, "rnic");
	for (size_t i = 0; i < ret->num_rnics; i++)
		if (!(ret->rnics[i] = strdup(cfg_getnstr(cfg, "rnic", (unsigned int)i))))
			return -ENOMEM;
	ret->socket_path = strdup(cfg_getstr(cfg, "socket"));
	ret->admin_group = strdup(cfg_getstr(cfg, "admin_group"));
	if (!ret->socket_path || !ret->admin_group)
		return -ENOMEM;
	ret->log_level = log_level_parse(cfg_getstr(cfg, "log_level"));
	ret->skip_seconds = (unsigned int)cfg_getint(cfg, "skip_seconds");
	ret->max_connections_per_user = (unsigned int)cfg_getint(cfg, "max_connections_per_user");
	ret->max_sessions_per_user = (unsigned int)cfg_getint(cfg, "max_sessions_per_user");
	ret->num_capable_subnets = cfg_size(cfg, "capable_subnet");
	for (size_t i = 0; i < ret->num_capable_subnets; i++)
		parse_subnet(cfg_getnstr(cfg, "capable_subnet", (unsigned int)i),
			     &ret->capable_subnets[i]);
	return 0;
}

int config_load(const char *path, struct config *ret_config, char ret_error[CONFIG_ERROR_LEN])
{
	static char empty_list[] = "{}"; /* libconfuse takes no const */
	cfg_opt_t options[] = {
		CFG_STR_LIST("rnic", empty_list, CFGF_NONE),
		CFG_STR("socket", IPC_DEFAULT_SOCKET, CFGF_NONE),
		CFG_STR("admin_group", "", CFGF_NONE),
		CFG_STR("log_level", "info", CFGF_NONE),
		CFG_STR("dialect", "auto", CFGF_NONE),
		CFG_STR("element_size", "512K", CFGF_NONE),
		CFG_STR("element_size_min", "64K", CFGF_NONE),
		CFG_STR("memory", "1G", CFGF_NONE),
		CFG_STR_LIST("capable_subnet", empty_list, CFGF_NONE),
		CFG_INT("max_links", 4, CFGF_NONE),
		CFG_INT("skip_seconds", 60, CFGF_NONE),
		CFG_INT("max_connections_per_user", 10000, CFGF_NONE),
		CFG_INT("max_sessions_per_user", 1000, CFGF_NONE),
		CFG_INT("linkgroup_idle_seconds", 600, CFGF_NONE),
		CFG_INT("rmb_idle_seconds", 60, CFGF_NONE),
		CFG_INT("link_retry_milliseconds", 4000, CFGF_NONE),
		CFG_END(),
	};
	cfg_t *cfg = cfg_init(options, CFGF_NONE);
	if (!cfg)
		return -ENOMEM;
	ret_error[0] = '\0';
	error_out = ret_error;
	set_checks(cfg);
	struct config config = { 0 };
	int error = parse_files(cfg, path);
	if (!error)
		error = fill(cfg, &config, ret_error);
	error_out = NULL;
	cfg_free(cfg);
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

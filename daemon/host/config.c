/* SPDX-License-Identifier: MIT */
#include "daemon/host/config_key.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "daemon/host/log.h"
#include "daemon/host/tcp_socket.h"
#include "proto/ipc/ipc.h"
#include "proto/ipc/trace.h"
#include "proto/smcr/eid.h"

/* The categories in a sentence. */
#define TRACE_WORD(type, name) " " name

/** A value that is being checked. */
struct value {
	const char *text;
	char shown[POLICY_RULE_TEXT]; /* how it is shown and compared; "": as `text` */
	char why[CONFIG_WHY_LEN];     /* why it is refused */
};

/* Checks and stores the value of one key. @return false: the value is refused; `why` has a
 * sentence */
typedef bool (*setter)(struct config *config, struct value *value);

static bool refuse(struct value *value, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static bool refuse(struct value *value, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(value->why, sizeof(value->why), format, args);
	va_end(args);
	return false;
}

/* ---- kinds of values ---- */

/** Bytes of "64K", "1G" or "4096"; -1: not a size. */
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

static bool set_text(char **ret, struct value *value)
{
	char *copy = strdup(value->text);
	if (!copy)
		return refuse(value, "out of memory");
	free(*ret);
	*ret = copy;
	return true;
}

/* The shortest way to write a size: "64K" for "65536". */
static void show_size(struct value *value, uint64_t bytes)
{
	static const char *const suffixes[] = { "", "K", "M", "G" };
	size_t i = 0;
	for (; i < 3 && bytes && bytes % 1024 == 0; i++)
		bytes /= 1024;
	snprintf(value->shown, sizeof(value->shown), "%llu%s", (unsigned long long)bytes,
		 suffixes[i]);
}

/* Store the element size code of a size (CLC-8). */
static bool set_element_size(uint8_t *ret, struct value *value)
{
	int64_t bytes = parse_size(value->text);
	for (uint8_t code = 0; code <= SMCR_BSIZE_MAX; code++) {
		if (bytes == smcr_bsize_bytes(code)) {
			*ret = code;
			show_size(value, (uint64_t)bytes);
			return true;
		}
	}
	return refuse(value, "'%.40s' is not 16K, 32K, 64K, 128K, 256K or 512K", value->text);
}

/* ---- keys ---- */

/* Would the kernel accept this name for an interface? */
static bool is_interface_name(const char *name)
{
	size_t len = strlen(name);
	if (len == 0 || len >= IF_NAMESIZE || !strcmp(name, ".") || !strcmp(name, ".."))
		return false;
	for (; *name; name++)
		if (*name == '/' || *name == ':' || isspace((unsigned char)*name))
			return false;
	return true;
}

/* Is it of the form "mlx5_0" or "mlx5_0/2"? */
static bool is_verbs_name(const char *name)
{
	size_t len = strcspn(name, "/ \t");
	const char *port = name + len + 1;
	if (len == 0 || len > CONFIG_MAX_VERBS_NAME || (name[len] && name[len] != '/'))
		return false;
	return !name[len] || (*port >= '1' && *port <= '9' && strlen(port) <= 3 &&
			      strspn(port, "0123456789") == strlen(port) && atoi(port) <= 255);
}

static bool set_rnic(struct config *config, struct value *value)
{
	const char *text = value->text;
	bool soft = !strncmp(text, "soft:", 5), verbs = !strncmp(text, "verbs:", 6);
	if (config->num_rnics == CONFIG_MAX_RNICS)
		return refuse(value, "more than %d devices", CONFIG_MAX_RNICS);
	if (!(soft && text[5]) && !(verbs && text[6]))
		return refuse(value, "'%.40s' is not soft:INTERFACE or verbs:DEVICE[/PORT]", text);
	if (soft && !is_interface_name(text + 5))
		return refuse(value,
			      "no interface can be called '%.40s': a name has 1 to %d characters "
			      "without blanks, '/' and ':'",
			      text + 5, IF_NAMESIZE - 1);
	if (verbs && !is_verbs_name(text + 6))
		return refuse(value,
			      "no RDMA device can be called '%.60s': it is DEVICE or "
			      "DEVICE/PORT, with a port from 1 to 255",
			      text + 6);
	if (!set_text(&config->rnics[config->num_rnics], value))
		return false;
	config->num_rnics++;
	return true;
}

/* Could a Unix socket be there? */
static bool set_socket_path(char **ret, struct value *value)
{
	const size_t most = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;
	if (value->text[0] != '/')
		return refuse(value, "'%.40s' is not an absolute path", value->text);
	if (strlen(value->text) > most)
		return refuse(value, "'%.40s..' is too long: a socket path has at most %zu bytes",
			      value->text, most);
	return set_text(ret, value);
}

static bool set_socket(struct config *config, struct value *value)
{
	return set_socket_path(&config->socket_path, value);
}

static bool set_metrics_socket(struct config *config, struct value *value)
{
	return *value->text ? set_socket_path(&config->metrics_socket, value)
			    : set_text(&config->metrics_socket, value);
}

static bool set_metrics_address(struct config *config, struct value *value)
{
	struct sockaddr_storage addr;
	if (value->text[0] && !tcp_socket_address(value->text, &addr))
		return refuse(value, "'%.40s' is not an address and port such as 127.0.0.1:9469",
			      value->text);
	return set_text(&config->metrics_address, value);
}

static bool set_admin_group(struct config *config, struct value *value)
{
	const char *name = value->text;
	const struct group *group = *name ? getgrnam(name) : NULL;
	if (*name && !group)
		return refuse(value, "this host has no group '%.40s'", name);
	if (group)
		config->admin_gid = group->gr_gid;
	return set_text(&config->admin_group, value);
}

static bool set_log_level(struct config *config, struct value *value)
{
	int level = log_level_parse(value->text);
	if (level < 0)
		return refuse(value, "'%.40s' is not error, warning, notice, info or debug",
			      value->text);
	config->log_level = level;
	return true;
}

/* Adds the categories of a word to a set. @return false: it is no such word */
static bool add_traces(const char *word, size_t len, unsigned int *set)
{
	if (len == strlen(IPC_TRACE_ALL) && !strncmp(word, IPC_TRACE_ALL, len)) {
		*set = IPC_TRACE_BIT(IPC_NUM_TRACES) - 1;
		return true;
	}
	for (unsigned int i = 0; i < IPC_NUM_TRACES; i++) {
		const char *name = ipc_trace_name((enum ipc_trace)i);
		if (len == strlen(name) && !strncmp(word, name, len)) {
			*set |= IPC_TRACE_BIT(i);
			return true;
		}
	}
	return false;
}

static bool refuse_trace(struct value *value)
{
	return refuse(value, "'%.40s' is not none, all, or some of" IPC_TRACES(TRACE_WORD),
		      value->text);
}

/* Categories with blanks between. They are shown in the order of the list. */
static bool set_log_trace(struct config *config, struct value *value)
{
	static const char blanks[] = " \t";
	const char *at = value->text + strspn(value->text, blanks);
	unsigned int set = 0;
	bool none = !strcmp(value->text, IPC_TRACE_NONE);
	while (!none && *at) {
		size_t len = strcspn(at, blanks);
		if (!add_traces(at, len, &set))
			return refuse_trace(value);
		at += len;
		at += strspn(at, blanks);
	}
	if (!none && !set)
		return refuse_trace(value);
	config->engine.trace = set;
	value->shown[0] = '\0';
	for (unsigned int i = 0, n = 0; i < IPC_NUM_TRACES; i++)
		if (set & IPC_TRACE_BIT(i))
			n += (unsigned int)snprintf(value->shown + n, sizeof(value->shown) - n,
						    "%s%s", n ? " " : "",
						    ipc_trace_name((enum ipc_trace)i));
	return true;
}

static bool set_dialect(struct config *config, struct value *value)
{
	if (!strcmp(value->text, "auto"))
		config->engine.dialect = SMCR_DIALECT_AUTO;
	else if (!strcmp(value->text, "rfc"))
		config->engine.dialect = SMCR_DIALECT_FORCE_RFC;
	else if (!strcmp(value->text, "deployed"))
		config->engine.dialect = SMCR_DIALECT_FORCE_DEPLOYED;
	else
		return refuse(value, "'%.40s' is not auto, rfc or deployed", value->text);
	return true;
}

static bool set_versions(struct config *config, struct value *value)
{
	if (!strcmp(value->text, "auto"))
		config->engine.versions = SMCR_VERSIONS_BOTH;
	else if (!strcmp(value->text, "1"))
		config->engine.versions = SMCR_VERSIONS_1_ONLY;
	else if (!strcmp(value->text, "2"))
		config->engine.versions = SMCR_VERSIONS_2_ONLY;
	else
		return refuse(value, "'%.40s' is not auto, 1 or 2", value->text);
	return true;
}

static bool set_ueid(struct config *config, struct value *value)
{
	struct smcr_config *engine = &config->engine;
	uint8_t ueid[SMCR_EID_LEN];
	if (smcr_ueid_parse(value->text, ueid))
		return refuse(value, "'%.40s' is no UEID: " SMCR_UEID_RULE, value->text);
	for (size_t i = 0; i < engine->num_ueids; i++)
		if (!memcmp(engine->ueids[i], ueid, sizeof(ueid)))
			return refuse(value, "'%s' is there twice", value->text);
	if (engine->num_ueids == SMCR_MAX_UEIDS)
		return refuse(value, "more than %d UEIDs", SMCR_MAX_UEIDS);
	memcpy(engine->ueids[engine->num_ueids++], ueid, sizeof(ueid));
	return true;
}

static bool set_bsize(struct config *config, struct value *value)
{
	return set_element_size(&config->engine.bsize, value);
}

static bool set_bsize_min(struct config *config, struct value *value)
{
	return set_element_size(&config->engine.bsize_min, value);
}

static bool set_memory(struct config *config, struct value *value)
{
	int64_t bytes = parse_size(value->text);
	if (bytes < 1 << 20)
		return refuse(value, "'%.40s' is not a size of 1M or more (K, M, G may follow)",
			      value->text);
	config->engine.memory_budget = (uint64_t)bytes;
	show_size(value, (uint64_t)bytes);
	return true;
}

static bool set_capable_subnet(struct config *config, struct value *value)
{
	char addr[INET_ADDRSTRLEN], extra;
	unsigned int len;
	struct in_addr in;
	if (config->num_capable_subnets == CONFIG_MAX_SUBNETS)
		return refuse(value, "more than %d networks", CONFIG_MAX_SUBNETS);
	if (sscanf(value->text, "%15[0-9.]/%u%c", addr, &len, &extra) != 2 || len > 32 ||
	    inet_pton(AF_INET, addr, &in) != 1)
		return refuse(value, "'%.40s' is not an IPv4 network such as 10.1.0.0/16",
			      value->text);
	uint32_t mask = len ? UINT32_MAX << (32 - len) : 0;
	uint32_t network = ntohl(in.s_addr) & mask;
	config->capable_subnets[config->num_capable_subnets++] =
		(struct config_subnet){ network, (uint8_t)len };
	snprintf(value->shown, sizeof(value->shown), "%u.%u.%u.%u/%u", network >> 24,
		 network >> 16 & 255, network >> 8 & 255, network & 255, len);
	return true;
}

static bool set_short_size(struct config *config, struct value *value)
{
	int64_t bytes = parse_size(value->text);
	if (bytes < 1)
		return refuse(value, "'%.40s' is not a size of 1 or more (K, M, G may follow)",
			      value->text);
	config->shorts.bytes = (uint64_t)bytes;
	show_size(value, (uint64_t)bytes);
	return true;
}

static bool add_rule(struct config *config, const char *action, struct value *value)
{
	struct policy_rule rule;
	char text[POLICY_RULE_TEXT + 16];
	snprintf(text, sizeof(text), "%s %s", action, value->text);
	if (policy_rule_parse(text, true, &rule, value->why))
		return false;
	for (size_t i = 0; i < config->num_rules; i++)
		if (policy_rule_equal(&config->rules[i], &rule))
			return refuse(value, "this rule is there twice");
	if (config->num_rules == SMCR_MAX_RULES)
		return refuse(value, "more than %d rules", SMCR_MAX_RULES);
	struct policy_rule *rules =
		reallocarray(config->rules, config->num_rules + 1, sizeof(*rules));
	if (!rules)
		return refuse(value, "out of memory");
	config->rules = rules;
	config->rules[config->num_rules++] = rule;
	policy_rule_text(&rule, value->shown);
	size_t skip = strlen(action) + 1;
	memmove(value->shown, value->shown + skip, strlen(value->shown + skip) + 1);
	return true;
}

static bool set_deny(struct config *config, struct value *value)
{
	return add_rule(config, "deny", value);
}

static bool set_allow(struct config *config, struct value *value)
{
	return add_rule(config, "allow", value);
}

static bool set_smb_server(struct config *config, struct value *value)
{
	config->smb.server_len = 0;
	if (!value->text[0])
		return true;
	config->smb.server_len = config_smb_server_parse(value->text, &config->smb.server);
	if (!config->smb.server_len)
		return refuse(value,
			      "'%.40s' is neither an address and port such as 127.0.0.1:445 nor "
			      "the path of a Unix socket",
			      value->text);
	return true;
}

static bool set_smb_client(struct config *config, struct value *value)
{
	struct config_smb *smb = &config->smb;
	if (smb->num_clients == CONFIG_MAX_SMB_CLIENTS)
		return refuse(value, "more than %d", CONFIG_MAX_SMB_CLIENTS);
	if (!config_smb_client_parse(value->text, &smb->clients[smb->num_clients]))
		return refuse(value,
			      "'%.60s' is not an address and port to listen on and a server, such "
			      "as 127.0.0.1:1445 192.0.2.1",
			      value->text);
	smb->num_clients++;
	return true;
}

static bool set_smb_memory(struct config *config, struct value *value)
{
	int64_t bytes = parse_size(value->text);
	if (bytes < 64 << 20)
		return refuse(value, "'%.40s' is not a size of 64M or more (K, M, G may follow)",
			      value->text);
	config->smb.memory = (uint64_t)bytes;
	show_size(value, (uint64_t)bytes);
	return true;
}

static bool set_bool(struct value *value, bool *ret)
{
	if (strcmp(value->text, "yes") && strcmp(value->text, "no"))
		return refuse(value, "'%.40s' is not yes or no", value->text);
	*ret = !strcmp(value->text, "yes");
	return true;
}

static bool set_shared_memory(struct config *config, struct value *value)
{
	return set_bool(value, &config->shared_memory);
}

static bool set_egress_guard(struct config *config, struct value *value)
{
	return set_bool(value, &config->egress_guard);
}

static bool set_dbus(struct config *config, struct value *value)
{
	static const char *const names[] = {
		[CONFIG_DBUS_NO] = "no", [CONFIG_DBUS_YES] = "yes", [CONFIG_DBUS_AUTO] = "auto"
	};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(value->text, names[i])) {
			config->dbus = (enum config_dbus)i;
			return true;
		}
	return refuse(value, "'%.40s' is not yes, no or auto", value->text);
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

/* Every key of smcrd.conf(5), with its default; lists have none. Keys without a setter are whole
 * numbers from `min` to `max`. */
static const struct known_key {
	struct config_key is;
	const char *initial;
	setter set;
	enum number number;
	long min, max;
} keys[] = {
	{ { "rnic", .list = true, .finds = true, .instead = "smcrctl device add, device remove" },
	  NULL,
	  set_rnic },
	{ { "socket", .restart = true }, IPC_DEFAULT_SOCKET, set_socket },
	{ { "metrics_socket", .by_files = true }, "", set_metrics_socket },
	{ { "metrics_address", .by_files = true }, "", set_metrics_address },
	{ { "dbus" }, "auto", set_dbus },
	{ { "admin_group", .looks_up = true }, "", set_admin_group },
	{ { "log_level" }, "info", set_log_level },
	{ { "log_trace" }, IPC_TRACE_NONE, set_log_trace },
	{ { "element_size" }, "512K", set_bsize },
	{ { "element_size_min" }, "16K", set_bsize_min },
	{ { "memory" }, "1G", set_memory },
	{ { "max_links" }, "4", NULL, MAX_LINKS, 2, SMCR_MAX_LINKS },
	{ { "dialect" }, "auto", set_dialect },
	{ { "ueid", .list = true, .ordered = true, .instead = "smcrctl ueid add, ueid remove" },
	  NULL,
	  set_ueid },
	{ { "versions" }, "auto", set_versions },
	{ { "link_timeout_milliseconds" }, "300", NULL, LINK_TIMEOUT, 100, 60000 },
	{ { "last_link_timeout_milliseconds" }, "4000", NULL, LAST_LINK_TIMEOUT, 100, 60000 },
	{ { "test_link_interval_seconds" }, "30", NULL, TEST_LINK_INTERVAL, 0, 86400 },
	{ { "add_link_retry_seconds" }, "2", NULL, ADD_LINK_RETRY, 1, 600 },
	{ { "busy_poll_microseconds" }, "50", NULL, BUSY_POLL, 0, 10000 },
	{ { "shared_memory" }, "yes", set_shared_memory },
	{ { "linkgroup_idle_seconds" }, "600", NULL, LINKGROUP_IDLE, 1, 7 * 86400 },
	{ { "rmb_idle_seconds" }, "60", NULL, RMB_IDLE, 1, 7 * 86400 },
	{ { "connect_wait_milliseconds" }, "40", NULL, CONNECT_WAIT, 1, 60000 },
	{ { "skip_seconds" }, "60", NULL, SKIP_SECONDS, 1, 86400 },
	{ { "short_connection_rate" }, "20", NULL, SHORT_RATE, 0, 1000000 },
	{ { "short_connection_milliseconds" }, "1000", NULL, SHORT_MS, 1, 3600000 },
	{ { "short_connection_size" }, "64K", set_short_size },
	{ { "tcp_keepalive_min_seconds" }, "0", NULL, TCP_KEEPALIVE_MIN, 0, 32767 },
	{ { "capable_subnet", .list = true }, NULL, set_capable_subnet },
	{ { "deny", .list = true, .instead = "smcrctl policy add, policy delete" },
	  NULL,
	  set_deny },
	{ { "allow", .list = true, .instead = "smcrctl policy add, policy delete" },
	  NULL,
	  set_allow },
	{ { "egress_guard" }, "yes", set_egress_guard },
	{ { "smb_server", .by_files = true }, "", set_smb_server },
	{ { "smb_client", .list = true, .by_files = true }, NULL, set_smb_client },
	{ { "smb_memory" }, "512M", set_smb_memory },
	{ { "max_connections_per_user" }, "10000", NULL, MAX_CONNECTIONS, 1, 1000000 },
	{ { "max_sessions_per_user" }, "1000", NULL, MAX_SESSIONS, 1, 1000000 },
};
#define NUM_KEYS (sizeof(keys) / sizeof(keys[0]))

const struct config_key *config_key(size_t number)
{
	return number < NUM_KEYS ? &keys[number].is : NULL;
}

static const struct known_key *find_key(const char *name)
{
	for (size_t i = 0; i < NUM_KEYS; i++)
		if (!strcmp(keys[i].is.name, name))
			return &keys[i];
	return NULL;
}

static bool set_number(const struct known_key *key, struct config *config, struct value *value)
{
	char *end;
	errno = 0;
	long number = strtol(value->text, &end, 10);
	if (errno || end == value->text || *end || number < key->min || number > key->max)
		return refuse(value, "'%.40s' is not a number between %ld and %ld", value->text,
			      key->min, key->max);
	store_number(config, key->number, number);
	snprintf(value->shown, sizeof(value->shown), "%ld", number);
	return true;
}

/* ---- settings ---- */

static void free_setting(struct config_setting *setting)
{
	free(setting->value);
	free(setting->file);
	free(setting->after_restart);
}

struct config_setting *config_setting(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->num_settings; i++)
		if (!strcmp(config->settings[i].key->name, name))
			return &config->settings[i];
	return NULL;
}

/* The place for a setting of this key. A new place counts only when config_put() adds it to
 * num_settings. */
static struct config_setting *room_for(struct config *config, const struct config_key *key)
{
	struct config_setting *setting = key->list ? NULL : config_setting(config, key->name);
	if (setting)
		return setting;
	struct config_setting *settings =
		reallocarray(config->settings, config->num_settings + 1, sizeof(*config->settings));
	if (!settings)
		return NULL;
	config->settings = settings;
	setting = &settings[config->num_settings];
	*setting = (struct config_setting){ .key = key };
	return setting;
}

/* @return false: no memory; the caller still has to free `ret` */
static bool copy_setting(const struct config_setting *from, struct config_setting *ret)
{
	*ret = *from;
	ret->value = strdup(from->value);
	ret->file = from->file ? strdup(from->file) : NULL;
	ret->after_restart = from->after_restart ? strdup(from->after_restart) : NULL;
	return ret->value && !ret->file == !from->file &&
	       !ret->after_restart == !from->after_restart;
}

bool config_copy(const struct config *from, struct config *ret)
{
	size_t i;
	*ret = *from;
	ret->num_settings = ret->num_rnics = 0;
	memset(ret->rnics, 0, sizeof(ret->rnics));
	ret->socket_path = strdup(from->socket_path);
	ret->metrics_socket = strdup(from->metrics_socket);
	ret->metrics_address = strdup(from->metrics_address);
	ret->admin_group = strdup(from->admin_group);
	ret->rules = calloc(from->num_rules + 1, sizeof(*ret->rules));
	ret->settings = calloc(from->num_settings, sizeof(*ret->settings));
	bool good = ret->socket_path && ret->metrics_socket && ret->metrics_address &&
		    ret->admin_group && ret->rules && ret->settings;
	for (i = 0; good && i < from->num_rules; i++)
		ret->rules[i] = from->rules[i];
	for (i = 0; good && i < from->num_rnics; i++) {
		ret->rnics[i] = strdup(from->rnics[i]);
		good = ret->rnics[i] != NULL;
		ret->num_rnics++;
	}
	for (i = 0; good && i < from->num_settings; i++) {
		good = copy_setting(&from->settings[i], &ret->settings[i]);
		ret->num_settings++;
	}
	if (!good)
		config_free(ret);
	return good;
}

bool config_put(struct config *config, const char *name, const char *text,
		const struct config_place *place, char ret_why[CONFIG_WHY_LEN])
{
	const struct known_key *key = find_key(name);
	struct value value = { .text = text };
	struct config_setting *setting = key ? room_for(config, &key->is) : NULL;
	struct config_setting new = { .key = key ? &key->is : NULL,
				      .origin = place->origin,
				      .file = place->file ? strdup(place->file) : NULL,
				      .line = place->line };
	bool good = setting && (!place->file || new.file);
	if (!key)
		refuse(&value, "there is no such key: smcrd.conf(5) has them all");
	else if (!good)
		refuse(&value, "out of memory");
	else
		good = key->set ? key->set(config, &value) : set_number(key, config, &value);
	if (good) {
		new.value = strdup(*value.shown ? value.shown : text);
		good = new.value || refuse(&value, "out of memory");
	}
	snprintf(ret_why, CONFIG_WHY_LEN, "%s", value.why);
	if (!good) {
		free_setting(&new);
		return false;
	}
	config->num_settings += setting == &config->settings[config->num_settings];
	free_setting(setting);
	*setting = new;
	return true;
}

bool config_put_defaults(struct config *config, char ret_why[CONFIG_WHY_LEN])
{
	const struct config_place place = { .origin = CONFIG_FROM_DEFAULT };
	config->engine.last_bytes_timeout = SMCR_LAST_BYTES_TIMEOUT;
	for (size_t i = 0; i < NUM_KEYS; i++)
		if (keys[i].initial &&
		    !config_put(config, keys[i].is.name, keys[i].initial, &place, ret_why))
			return false;
	return true;
}

const struct config_setting *config_next_setting(const struct config *config,
						 const struct config_key *key,
						 const struct config_setting *after)
{
	size_t i = after ? (size_t)(after - config->settings) + 1 : 0;
	while (i < config->num_settings && config->settings[i].key != key)
		i++;
	return i < config->num_settings ? &config->settings[i] : NULL;
}

static void forget_ueid(struct smcr_config *engine, const char *name)
{
	uint8_t ueid[SMCR_EID_LEN];
	size_t kept = 0;
	smcr_ueid_parse(name, ueid); /* cannot fail: the name was checked when it was noted */
	for (size_t i = 0; i < engine->num_ueids; i++)
		if (memcmp(engine->ueids[i], ueid, sizeof(ueid)) != 0)
			memmove(engine->ueids[kept++], engine->ueids[i], sizeof(ueid));
	engine->num_ueids = (uint8_t)kept;
}

static void forget_rule(struct config *config, const char *action, const char *conditions)
{
	char wanted[POLICY_RULE_TEXT + 16], text[POLICY_RULE_TEXT];
	size_t kept = 0;
	snprintf(wanted, sizeof(wanted), "%s %s", action, conditions);
	for (size_t i = 0; i < config->num_rules; i++) {
		policy_rule_text(&config->rules[i], text);
		if (strcmp(text, wanted) != 0)
			config->rules[kept++] = config->rules[i];
	}
	config->num_rules = kept;
}

static void forget_rnic(struct config *config, const char *name)
{
	size_t kept = 0;
	for (size_t i = 0; i < config->num_rnics; i++) {
		char *rnic = config->rnics[i];
		config->rnics[i] = NULL;
		if (strcmp(rnic, name) != 0)
			config->rnics[kept++] = rnic;
		else
			free(rnic);
	}
	config->num_rnics = kept;
}

bool config_forget(struct config *config, const char *key, const char *value)
{
	struct config_setting *setting = config->settings;
	struct config_setting *end = setting + config->num_settings;
	while (setting < end && (strcmp(setting->key->name, key) || strcmp(setting->value, value)))
		setting++;
	if (setting == end)
		return false;
	if (!strcmp(key, "ueid"))
		forget_ueid(&config->engine, value);
	else if (!strcmp(key, "rnic"))
		forget_rnic(config, value);
	else
		forget_rule(config, key, value);
	free_setting(setting);
	memmove(setting, setting + 1, (size_t)(end - setting - 1) * sizeof(*setting));
	config->num_settings--;
	return true;
}

void config_clear_rnics(struct config *config)
{
	size_t kept = 0;
	for (size_t i = 0; i < config->num_rnics; i++) {
		free(config->rnics[i]);
		config->rnics[i] = NULL;
	}
	config->num_rnics = 0;
	for (size_t i = 0; i < config->num_settings; i++) {
		if (strcmp(config->settings[i].key->name, "rnic") == 0)
			free_setting(&config->settings[i]);
		else
			config->settings[kept++] = config->settings[i];
	}
	config->num_settings = kept;
}

void config_free(struct config *config)
{
	for (size_t i = 0; i < config->num_rnics; i++)
		free(config->rnics[i]);
	for (size_t i = 0; i < config->num_settings; i++)
		free_setting(&config->settings[i]);
	free(config->settings);
	free(config->socket_path);
	free(config->metrics_socket);
	free(config->metrics_address);
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

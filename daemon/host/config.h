/* SPDX-License-Identifier: MIT */
/**
 * @file config.h
 * The configuration file (smcrd.conf(5)), parsed by libinih, and what it means to the daemon.
 */
#ifndef SMCRD_HOST_CONFIG_H
#define SMCRD_HOST_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/engine/engine.h"
#include "daemon/policy/rules.h"
#include "daemon/policy/shorts.h"

#define CONFIG_DEFAULT_PATH "/etc/smcrd/smcrd.conf"
#define CONFIG_ERROR_LEN    512
#define CONFIG_MAX_RNICS    16
#define CONFIG_MAX_SUBNETS  64

/** An IPv4 network whose hosts are assumed to be SMC-R capable where BPF is not permitted. */
struct config_subnet {
	uint32_t addr; /* host byte order, host bits zero */
	uint8_t prefix_len;
};

struct config {
	char *rnics[CONFIG_MAX_RNICS]; /* "soft:IFNAME" or "verbs:DEV[/PORT]"; none = discover */
	size_t num_rnics;
	char *socket_path;
	char *admin_group; /* members may change things with smcrctl; "" = root only */
	gid_t admin_gid;   /* its number, if there is one */
	int log_level;     /* LOG_ERR .. LOG_DEBUG */
	struct config_subnet capable_subnets[CONFIG_MAX_SUBNETS];
	size_t num_capable_subnets;
	struct policy_rule *rules; /* which connections may use SMC-R */
	size_t num_rules;
	unsigned int skip_seconds; /* a peer that failed is left to TCP for so long at first */
	struct shorts_config shorts;
	unsigned int
		connect_wait_ms; /* connect() waits this long for the outcome of a rendezvous */
	unsigned int tcp_keepalive_min_seconds; /* on the TCP side of SMC-R connections; 0: none */
	unsigned int busy_poll_us; /* look for more work for this long before sleeping */
	bool shared_memory;        /* programs may map the memory of their connections */
	unsigned int max_connections_per_user;
	unsigned int max_sessions_per_user;
	struct smcr_config engine; /* peer_id and host_name are not set here */
};

/**
 * Read `path` (NULL: the default path, whose absence is no error) and then the *.conf files of
 * smcrd.conf.d beside it in alphabetical order; later values replace earlier ones.
 * @return 0 with everything filled in (config_free() it), or -EINVAL/-ENOENT/-EACCES with a
 *         sentence naming file, line and key in `ret_error`
 */
int config_load(const char *path, struct config *ret_config, char ret_error[CONFIG_ERROR_LEN]);
void config_free(struct config *config);

/** Is this IPv4 address (host byte order) in one of the capable subnets? */
bool config_peer_assumed_capable(const struct config *config, uint32_t addr);

#endif

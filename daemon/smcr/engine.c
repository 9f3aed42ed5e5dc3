/* SPDX-License-Identifier: MIT */
/* How an engine begins and ends, its log, its UEIDs. */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <syslog.h>

#include "daemon/smcr/clc.h"
#include "daemon/smcr/data.h"
#include "daemon/smcr/llc_delete_all.h"
#include "proto/smcr/eid.h"

#define SECONDS (1000u * 1000u)

static void or_default(uint64_t *value, uint64_t fallback)
{
	if (!*value)
		*value = fallback;
}

static uint8_t clamp8(uint8_t value, uint8_t low, uint8_t high)
{
	return value < low ? low : value > high ? high : value;
}

struct smcr_config smcr_config_fill(const struct smcr_config *given)
{
	struct smcr_config c = *given;
	c.max_links = c.max_links ? clamp8(c.max_links, 2, SMCR_MAX_LINKS) : 4; /* LG-6 */
	c.bsize = c.bsize == 0xFF ? SMCR_BSIZE_MAX : clamp8(c.bsize, 0, SMCR_BSIZE_MAX);
	c.bsize_min = c.bsize_min == 0xFF ? 0 : c.bsize_min;
	c.bsize_min = clamp8(c.bsize_min, 0, c.bsize);
	if (!c.send_depth)
		c.send_depth = 1024;
	if (c.send_depth < SMCR_LINK_MIN_DEPTH)
		c.send_depth = SMCR_LINK_MIN_DEPTH;
	if (!c.retry_ms)
		c.retry_ms = 4000;
	if (!c.retry_alternative_ms)
		c.retry_alternative_ms = 300;
	or_default(&c.memory_budget, UINT64_C(1) << 30);
	or_default(&c.clc_timeout, 10 * SECONDS);
	or_default(&c.clc_total_timeout, 30 * SECONDS);
	or_default(&c.hold_timeout, 2 * SECONDS);
	or_default(&c.decline_grace, SECONDS);
	or_default(&c.llc_fc_timeout, 10 * SECONDS);
	or_default(&c.llc_timeout, 4 * SECONDS);
	or_default(&c.fc_send_timeout_server, SECONDS);
	or_default(&c.fc_send_timeout_client, SECONDS + SECONDS / 2);
	or_default(&c.lgr_idle_timeout, 600ull * SECONDS);
	or_default(&c.rmb_idle_timeout, 60 * SECONDS);
	or_default(&c.add_link_retry, 2 * SECONDS);
	or_default(&c.test_link_interval, 30 * SECONDS);
	or_default(&c.command_timeout, 10 * SECONDS);
	or_default(&c.close_wait_timeout, 60 * SECONDS);
	or_default(&c.last_bytes_timeout, c.close_wait_timeout);
	or_default(&c.half_close_timeout, 7200ull * SECONDS);
	or_default(&c.abort_wait_timeout, 10 * SECONDS);
	or_default(&c.fin_grace, SECONDS);
	or_default(&c.rst_delay, SECONDS);
	or_default(&c.rst_grace, SECONDS / 10);
	return c;
}

int smcr_engine_new(const struct smcr_config *config, const struct smcr_ops *ops, uint64_t now,
		    struct smcr_engine **ret_engine)
{
	struct smcr_engine *engine = calloc(1, sizeof(*engine));
	if (!engine)
		return -ENOMEM;
	engine->config = smcr_config_fill(config);
	engine->ops = *ops;
	engine->now = now;
	engine->next_link_ref = 1;
	engine->next_lgr_id = 1;
	engine->next_link_uid = smcr_random32(engine);
	engine->next_token = (uint16_t)smcr_random32(engine);
	*ret_engine = engine;
	return 0;
}

void smcr_engine_free(struct smcr_engine *engine)
{
	if (!engine)
		return;
	engine->silent = true;
	smcr_command_free_all(engine);
	struct smcr_conn *conn, *next_conn;
	DL_FOREACH_SAFE (engine->conns, conn, next_conn)
		smcr_conn_free(conn);
	while (engine->lgrs)
		smcr_lgr_free(engine->lgrs);
	struct smcr_device *device, *next_device;
	DL_FOREACH_SAFE (engine->devices, device, next_device) {
		DL_DELETE(engine->devices, device);
		free(device);
	}
	assert(!engine->timers);
	free(engine);
}

void smcr_engine_shutdown(struct smcr_engine *engine)
{
	engine->shutting_down = true;
	struct smcr_conn *conn, *next;
	DL_FOREACH_SAFE (engine->conns, conn, next) {
		if (conn->phase == SMCR_PHASE_RENDEZVOUS)
			smcr_clc_shutdown(conn);
		else
			smcr_close_local_abort(conn, ECONNRESET, NULL);
	}
	struct smcr_lgr *lgr;
	DL_FOREACH (engine->lgrs, lgr) {
		smcr_event_lgr_why(lgr, "smcrd ends");
		smcr_llc_delete_all(lgr, SMCR_LLC_DEL_OPERATOR, ECONNRESET);
	}
}

bool smcr_engine_idle(const struct smcr_engine *engine)
{
	return !engine->lgrs && !engine->conns;
}

void smcr_log(struct smcr_engine *engine, int priority, const char *format, ...)
{
	char line[384];
	if (engine->silent)
		return;
	va_list ap;
	va_start(ap, format);
	vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	engine->ops.host->log(engine->ops.host_ctx, priority, line);
}

/* The address in 16 bytes; the bytes behind an IPv4 address are zero. */
static void addr_bytes(const struct smcr_addr *addr, uint8_t ret_bytes[16])
{
	memset(ret_bytes, 0, 16);
	memcpy(ret_bytes, addr->ip, addr->family == AF_INET ? 4 : 16);
}

void smcr_log_peer(struct smcr_engine *engine, const struct smcr_addr *peer, int priority,
		   const char *reason, const char *format, ...)
{
	char text[200], name[INET6_ADDRSTRLEN], more[LOG_LIMIT_TEXT];
	uint8_t bytes[16];
	addr_bytes(peer, bytes);
	if (engine->silent || !log_limit_passes(&engine->log_limit, reason, bytes,
						(int64_t)(engine->now / 1000), more))
		return;
	va_list ap;
	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	if (!inet_ntop(peer->family, peer->ip, name, sizeof(name)))
		snprintf(name, sizeof(name), "?");
	smcr_log(engine, priority, "peer %s: %s%s", name, text, more);
}

uint32_t smcr_random24(struct smcr_engine *engine)
{
	uint32_t value = 0;
	engine->ops.host->random(engine->ops.host_ctx, &value, sizeof(value));
	return value & SMCR_PSN_MASK;
}

uint32_t smcr_random32(struct smcr_engine *engine)
{
	uint32_t value = 0;
	while (!value)
		engine->ops.host->random(engine->ops.host_ctx, &value, sizeof(value));
	return value;
}

/* ---- UEIDs ---- */

size_t smcr_engine_get_ueids(const struct smcr_engine *engine,
			     uint8_t ret_ueids[SMCR_MAX_UEIDS][SMCR_EID_LEN])
{
	const struct smcr_config *config = &engine->config;
	memcpy(ret_ueids, config->ueids, (size_t)config->num_ueids * SMCR_EID_LEN);
	return config->num_ueids;
}

static int find_ueid(const struct smcr_config *config, const uint8_t ueid[SMCR_EID_LEN])
{
	return smcr_eid_choose((const uint8_t(*)[SMCR_EID_LEN])config->ueids, config->num_ueids,
			       (const uint8_t(*)[SMCR_EID_LEN])ueid, 1);
}

int smcr_engine_add_ueid(struct smcr_engine *engine, const uint8_t ueid[SMCR_EID_LEN])
{
	struct smcr_config *config = &engine->config;
	if (find_ueid(config, ueid) >= 0)
		return -EEXIST;
	if (config->num_ueids == SMCR_MAX_UEIDS)
		return -ENOSPC;
	memcpy(config->ueids[config->num_ueids++], ueid, SMCR_EID_LEN);
	return 0;
}

int smcr_engine_remove_ueid(struct smcr_engine *engine, const uint8_t ueid[SMCR_EID_LEN])
{
	struct smcr_config *config = &engine->config;
	int at = find_ueid(config, ueid);
	if (at < 0)
		return at;
	config->num_ueids--;
	memmove(config->ueids[at], config->ueids[at + 1],
		(size_t)(config->num_ueids - at) * SMCR_EID_LEN);
	return 0;
}

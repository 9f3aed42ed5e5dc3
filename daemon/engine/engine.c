/* SPDX-License-Identifier: MIT */
/* Life of an engine, its devices, and what comes in from them. */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <syslog.h>

#include "daemon/engine/llc.h"
#include "daemon/engine/rendezvous.h"
#include "proto/smcr/bytes.h"
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
	or_default(&c.half_close_timeout, 7200ull * SECONDS);
	or_default(&c.abort_wait_timeout, 10 * SECONDS);
	or_default(&c.fin_grace, SECONDS);
	return c;
}

int smcr_engine_new(const struct smcr_config *config, const struct smcr_ops *ops, void *ctx,
		    uint64_t now, struct smcr_engine **ret_engine)
{
	struct smcr_engine *engine = calloc(1, sizeof(*engine));
	if (!engine)
		return -ENOMEM;
	engine->config = smcr_config_fill(config);
	engine->ops = ops;
	engine->ctx = ctx;
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
	assert(!engine->heap_len && !engine->timers_reserved);
	free(engine->heap);
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
			smcr_conn_local_abort(conn, ECONNRESET, NULL);
	}
	struct smcr_lgr *lgr;
	DL_FOREACH (engine->lgrs, lgr) {
		smcr_lgr_why(lgr, "smcrd ends");
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
	engine->ops->log(engine->ctx, priority, line);
}

/* The same peer has the same 16 bytes, whatever lies behind an IPv4 address. */
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
	engine->ops->random(engine->ctx, &value, sizeof(value));
	return value & SMCR_PSN_MASK;
}

uint32_t smcr_random32(struct smcr_engine *engine)
{
	uint32_t value = 0;
	while (!value)
		engine->ops->random(engine->ctx, &value, sizeof(value));
	return value;
}

/* ---- devices ---- */

bool smcr_same_host(const struct smcr_addr *a, const struct smcr_addr *b)
{
	return a->family == b->family && !memcmp(a->ip, b->ip, a->family == AF_INET ? 4 : 16);
}

bool smcr_prefix_match(const uint8_t *a, const uint8_t *b, unsigned int bits)
{
	unsigned int bytes = bits / 8, rest = bits % 8;
	if (memcmp(a, b, bytes))
		return false;
	return !rest || !((a[bytes] ^ b[bytes]) >> (8 - rest));
}

static unsigned int family_bits(const struct smcr_prefix *prefix)
{
	return prefix->family == AF_INET ? 32 : 128;
}

bool smcr_device_on_prefix(const struct smcr_device *device, const struct smcr_prefix *prefix)
{
	for (size_t i = 0; i < device->info.num_prefixes; i++) {
		const struct smcr_prefix *own = &device->info.prefixes[i];
		if (own->family == prefix->family && own->prefix_len == prefix->prefix_len &&
		    smcr_prefix_match(own->ip, prefix->ip, prefix->prefix_len))
			return true;
	}
	return false;
}

bool smcr_device_has_address(const struct smcr_device *device, const struct smcr_addr *addr,
			     unsigned int prefix_len)
{
	for (size_t i = 0; i < device->info.num_prefixes; i++) {
		const struct smcr_prefix *own = &device->info.prefixes[i];
		if (own->family == addr->family && own->prefix_len == prefix_len &&
		    smcr_prefix_match(own->ip, addr->ip, prefix_len))
			return true;
	}
	return false;
}

bool smcr_device_near(const struct smcr_device *device, const struct smcr_addr *addr)
{
	for (size_t i = 0; i < device->info.num_prefixes; i++) {
		const struct smcr_prefix *own = &device->info.prefixes[i];
		if (own->family == addr->family &&
		    smcr_prefix_match(own->ip, addr->ip, own->prefix_len))
			return true;
	}
	return false;
}

bool smcr_device_owns_address(const struct smcr_device *device, const struct smcr_addr *addr)
{
	for (size_t i = 0; i < device->info.num_prefixes; i++) {
		const struct smcr_prefix *own = &device->info.prefixes[i];
		if (own->family == addr->family &&
		    smcr_prefix_match(own->ip, addr->ip, family_bits(own)))
			return true;
	}
	return false;
}

static const uint8_t ipv4_mapped[12] = { [10] = 0xFF, 0xFF };

bool smcr_gid_is_ipv4(const uint8_t gid[SMCR_GID_LEN])
{
	return !memcmp(gid, ipv4_mapped, sizeof(ipv4_mapped));
}

bool smcr_device_reaches(const struct smcr_device *device, const uint8_t gid[SMCR_GID_LEN])
{
	for (size_t i = 0; smcr_gid_is_ipv4(gid) && i < device->info.num_prefixes; i++) {
		const struct smcr_prefix *own = &device->info.prefixes[i];
		if (own->family == AF_INET &&
		    smcr_prefix_match(own->ip, gid + sizeof(ipv4_mapped), own->prefix_len))
			return true;
	}
	return false;
}

/* Loopback, "this host", multicast, reserved or broadcast (RFC 6890 2.2.2). */
static bool is_special_ipv4(const uint8_t ip[4])
{
	return ip[0] == 0 || ip[0] == 127 || ip[0] >= 224;
}

/* Unspecified, loopback or multicast (RFC 4291 2.4). */
static bool is_special_ipv6(const uint8_t ip[SMCR_GID_LEN])
{
	static const uint8_t zeros[SMCR_GID_LEN];
	return ip[0] == 0xFF || (!memcmp(ip, zeros, SMCR_GID_LEN - 1) && ip[15] <= 1);
}

/* The address of all hosts of one of the device's networks, or of the network itself, which old
 * hosts take for the same (RFC 1122 3.2.1.3). Networks of two hosts have neither (RFC 3021). */
static bool is_broadcast(const struct smcr_device *device, const uint8_t ip[4])
{
	for (size_t i = 0; i < device->info.num_prefixes; i++) {
		const struct smcr_prefix *own = &device->info.prefixes[i];
		if (own->family != AF_INET || own->prefix_len > 30 ||
		    !smcr_prefix_match(own->ip, ip, own->prefix_len))
			continue;
		const uint32_t host = UINT32_MAX >> own->prefix_len;
		const uint32_t bits = get_be32(ip) & host;
		if (bits == 0 || bits == host)
			return true;
	}
	return false;
}

static bool is_own(const struct smcr_device *device, const struct smcr_addr *addr,
		   const uint8_t gid[SMCR_GID_LEN])
{
	return !memcmp(device->info.gid, gid, SMCR_GID_LEN) ||
	       smcr_device_owns_address(device, addr);
}

bool smcr_gid_may_be_peer(const struct smcr_engine *engine, const uint8_t gid[SMCR_GID_LEN])
{
	const bool ipv4 = smcr_gid_is_ipv4(gid);
	const uint8_t *ip = ipv4 ? gid + sizeof(ipv4_mapped) : gid;
	struct smcr_addr addr = { .family = ipv4 ? AF_INET : AF_INET6 };
	const struct smcr_device *device;
	memcpy(addr.ip, ip, ipv4 ? 4 : SMCR_GID_LEN);
	if (ipv4 ? is_special_ipv4(ip) : is_special_ipv6(ip))
		return false;
	DL_FOREACH (engine->devices, device) {
		if (is_own(device, &addr, gid) || (ipv4 && is_broadcast(device, ip)))
			return false;
	}
	return true;
}

bool smcr_mac_may_be_peer(const uint8_t mac[SMCR_MAC_LEN])
{
	static const uint8_t none[SMCR_MAC_LEN];
	return !(mac[0] & 1) && memcmp(mac, none, SMCR_MAC_LEN) != 0;
}

struct smcr_device *smcr_device_by_id(struct smcr_engine *engine, uint32_t id)
{
	struct smcr_device *device;
	DL_FOREACH (engine->devices, device)
		if (device->info.id == id)
			return device;
	return NULL;
}

static int check_info(const struct smcr_device_info *info)
{
	if (info->num_prefixes > SMCR_MAX_DEVICE_PREFIXES || !smcr_mtu_valid(info->mtu))
		return -EINVAL;
	if (!memchr(info->name, '\0', sizeof(info->name)))
		return -EINVAL;
	for (size_t i = 0; i < info->num_prefixes; i++) {
		const struct smcr_prefix *p = &info->prefixes[i];
		if ((p->family != AF_INET && p->family != AF_INET6) ||
		    p->prefix_len > family_bits(p))
			return -EINVAL;
	}
	return 0;
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

/* ---- devices come and go ---- */

int smcr_engine_device_add(struct smcr_engine *engine, const struct smcr_device_info *info)
{
	int rc = check_info(info);
	if (rc)
		return rc;
	if (smcr_device_by_id(engine, info->id))
		return -EEXIST;
	struct smcr_device *device = calloc(1, sizeof(*device));
	if (!device)
		return -ENOMEM;
	device->info = *info;
	DL_APPEND(engine->devices, device);
	if (info->active)
		smcr_lgr_rnic_appeared(engine, device);
	return 0;
}

/** Every link on a device fails. */
static void fail_links(struct smcr_engine *engine, const struct smcr_device *device,
		       const char *why)
{
	struct smcr_link *link, *next;
	HASH_ITER (hh, engine->links, link, next)
		if (link->device == device)
			smcr_link_fail(link, SMCR_LLC_DEL_LOST_PATH, "%s: %s", device->info.name,
				       why);
}

/** Its links go by the device's new name; packets larger than its MTU would get lost. */
static void refit_links(struct smcr_engine *engine, const struct smcr_device *device)
{
	struct smcr_link *link, *next;
	HASH_ITER (hh, engine->links, link, next) {
		if (link->device != device)
			continue;
		memcpy(link->device_name, device->info.name, sizeof(link->device_name));
		if (link->mtu > device->info.mtu)
			smcr_link_fail(link, SMCR_LLC_DEL_LOST_PATH,
				       "%s: its MTU is less than the link's path MTU now",
				       device->info.name);
	}
}

int smcr_engine_device_update(struct smcr_engine *engine, const struct smcr_device_info *info)
{
	int rc = check_info(info);
	if (rc)
		return rc;
	struct smcr_device *device = smcr_device_by_id(engine, info->id);
	if (!device)
		return -ENODEV;
	bool identity = memcmp(device->info.gid, info->gid, SMCR_GID_LEN) ||
			memcmp(device->info.mac, info->mac, SMCR_MAC_LEN) ||
			device->info.vlan != info->vlan;
	if (device->info.mtu != info->mtu)
		smcr_path_forget(engine, info->gid);
	device->info = *info;
	if (!info->active)
		fail_links(engine, device, info->down && *info->down ? info->down : "port is down");
	else if (identity)
		fail_links(engine, device, "its address changed");
	refit_links(engine, device);
	if (info->active)
		smcr_lgr_rnic_appeared(engine, device);
	return 0;
}

void smcr_engine_device_remove(struct smcr_engine *engine, uint32_t id)
{
	struct smcr_device *device = smcr_device_by_id(engine, id);
	if (!device)
		return;
	fail_links(engine, device, "device removed");
	struct smcr_link *link, *next;
	HASH_ITER (hh, engine->links, link, next) {
		if (link->device != device)
			continue;
		smcr_link_fail_now(link);
		smcr_link_drop_qp(link);
		link->device = NULL;
	}
	struct smcr_conn *conn;
	DL_FOREACH (engine->conns, conn)
		if (conn->rv.device == device)
			conn->rv.device = NULL;
	DL_DELETE(engine->devices, device);
	free(device);
}

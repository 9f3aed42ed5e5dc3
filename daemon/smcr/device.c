/* SPDX-License-Identifier: MIT */
/* RNICs as the host describes them, and which addresses RNICs and peers may have. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/smcr/llc_links.h"
#include "daemon/smcr/trace.h"
#include "proto/smcr/bytes.h"

/* ---- addresses ---- */

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

/* The broadcast address of one of the device's networks, or the address of the network itself,
 * which old hosts use as broadcast (RFC 1122 3.2.1.3). Networks of two hosts have neither (RFC
 * 3021). */
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
	smcr_trace_device(engine, info, "it has come");
	if (info->active)
		smcr_llc_rnic_appeared(engine, device);
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

/** The device has changed: give its links its new name, and fail those whose MTU is too large for
 * it now. */
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
	smcr_trace_device(engine, info, "it was looked at again");
	if (!info->active)
		fail_links(engine, device, info->down && *info->down ? info->down : "port is down");
	else if (identity)
		fail_links(engine, device, "its address changed");
	refit_links(engine, device);
	if (info->active)
		smcr_llc_rnic_appeared(engine, device);
	return 0;
}

void smcr_engine_device_remove(struct smcr_engine *engine, uint32_t id)
{
	struct smcr_device *device = smcr_device_by_id(engine, id);
	if (!device)
		return;
	smcr_trace_device(engine, &device->info, "it goes");
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

bool smcr_engine_device_in_use(const struct smcr_engine *engine, uint32_t id)
{
	const struct smcr_link *link, *next;
	HASH_ITER (hh, engine->links, link, next)
		if (link->device && link->device->info.id == id)
			return true;
	return false;
}

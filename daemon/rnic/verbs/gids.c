/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <sys/socket.h>

#include "daemon/rnic/verbs/internal.h"

/* Ranks of usable GIDs; GIDs that are not on the list are not usable. */
enum rank {
	RANK_V2_IPV4,
	RANK_V2_IPV6,
	RANK_V1_IPV4,
	RANK_V1_IPV6,
	RANK_V2_LINK_LOCAL,
	RANK_V1_LINK_LOCAL,
	NUM_RANKS,
	RANK_NONE = NUM_RANKS,
};

struct judged {
	enum rank rank;
	const struct rnic_netdev *netdev;
	uint8_t prefix_len;
};

bool verbs_gid_address(const uint8_t gid[16], int *ret_family, const uint8_t **ret_addr)
{
	static const uint8_t mapped[12] = { [10] = 0xFF, [11] = 0xFF };
	bool ipv4 = memcmp(gid, mapped, sizeof(mapped)) == 0;
	if (!ipv4 && gid[0] == 0xFE && (gid[1] & 0xC0) == 0x80)
		return false;
	*ret_family = ipv4 ? AF_INET : AF_INET6;
	*ret_addr = gid + (ipv4 ? 12 : 0);
	return true;
}

static const struct rnic_netdev_addr *find_addr(const struct rnic_netdev *netdev, int family,
						const uint8_t *addr)
{
	for (size_t i = 0; i < netdev->num_addrs; i++) {
		const struct rnic_netdev_addr *a = &netdev->addrs[i];
		if (a->family == family && !memcmp(a->addr, addr, family == AF_INET ? 4 : 16))
			return a;
	}
	return NULL;
}

/* The GID that a port has without an IP address: fe80::/64 and the modified EUI-64 of its MAC (IBA
 * annex A17, RFC 4291 appendix A). */
static bool is_default_gid(const uint8_t gid[16], const uint8_t mac[6])
{
	const uint8_t expected[16] = {
		0xFE,   0x80,   0,    0,    0,      0,      0,     0, (uint8_t)(mac[0] ^ 2),
		mac[1], mac[2], 0xFF, 0xFE, mac[3], mac[4], mac[5]
	};
	return memcmp(gid, expected, sizeof(expected)) == 0;
}

static struct judged judge(const struct ibv_gid_entry *entry, const struct rnic_netdev *netdevs,
			   size_t num_netdevs)
{
	struct judged judged = { .rank = RANK_NONE };
	bool v2 = entry->gid_type == IBV_GID_TYPE_ROCE_V2;
	const uint8_t *addr;
	int family;
	if ((!v2 && entry->gid_type != IBV_GID_TYPE_ROCE_V1) || entry->gid_index > UINT8_MAX)
		return judged;
	for (size_t i = 0; i < num_netdevs && !judged.netdev; i++) {
		if (netdevs[i].ifindex == entry->ndev_ifindex)
			judged.netdev = &netdevs[i];
	}
	if (!judged.netdev)
		return judged;
	if (verbs_gid_address(entry->gid.raw, &family, &addr)) {
		const struct rnic_netdev_addr *a = find_addr(judged.netdev, family, addr);
		if (!a)
			return judged;
		judged.prefix_len = a->prefix_len;
		if (family == AF_INET)
			judged.rank = v2 ? RANK_V2_IPV4 : RANK_V1_IPV4;
		else
			judged.rank = v2 ? RANK_V2_IPV6 : RANK_V1_IPV6;
	} else if (is_default_gid(entry->gid.raw, judged.netdev->mac) ||
		   find_addr(judged.netdev, AF_INET6, entry->gid.raw)) {
		judged.prefix_len = 64;
		judged.rank = v2 ? RANK_V2_LINK_LOCAL : RANK_V1_LINK_LOCAL;
	}
	return judged;
}

static void add(struct verbs_gids *gids, const struct ibv_gid_entry *entry,
		const struct judged *judged)
{
	if (!gids->netdev)
		gids->netdev = judged->netdev;
	if (gids->netdev != judged->netdev || gids->num == RNIC_MAX_GIDS)
		return;
	struct rnic_gid *gid = &gids->gid[gids->num];
	*gid = (struct rnic_gid){ .type = entry->gid_type == IBV_GID_TYPE_ROCE_V2
						  ? RNIC_GID_ROCE_V2
						  : RNIC_GID_ROCE_V1,
				  .prefix_len = judged->prefix_len };
	memcpy(gid->raw, entry->gid.raw, sizeof(gid->raw));
	gids->index[gids->num++] = (uint8_t)entry->gid_index;
}

bool verbs_choose_gids(const struct ibv_gid_entry *entries, size_t num_entries, uint32_t port,
		       const struct rnic_netdev *netdevs, size_t num_netdevs,
		       struct verbs_gids *ret_gids)
{
	struct verbs_gids gids = { 0 };
	for (enum rank rank = 0; rank < NUM_RANKS; rank++) {
		for (size_t i = 0; i < num_entries; i++) {
			if (entries[i].port_num != port)
				continue;
			struct judged judged = judge(&entries[i], netdevs, num_netdevs);
			if (judged.rank == rank)
				add(&gids, &entries[i], &judged);
		}
	}
	if (gids.num == 0)
		return false;
	*ret_gids = gids;
	return true;
}

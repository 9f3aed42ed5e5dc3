/* SPDX-License-Identifier: MIT */
#include "daemon/host/arp.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/if_ether.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define PACKETS 1000 /* packets read in one call; answers to other hosts come too */

/* Answers only: on a large network requests come all the time. */
static struct sock_filter answers_only[] = {
	BPF_STMT(BPF_LD | BPF_H | BPF_ABS, offsetof(struct arphdr, ar_op)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARPOP_REPLY, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, sizeof(struct ether_arp)),
	BPF_STMT(BPF_RET | BPF_K, 0),
};

int arp_open(struct arp *arp)
{
	const struct sock_fprog filter = { sizeof(answers_only) / sizeof(answers_only[0]),
					   answers_only };
	const struct sockaddr_ll all = { .sll_family = AF_PACKET,
					 .sll_protocol = htons(ETH_P_ARP) };
	/* With protocol 0 no packet arrives before the filter is attached. */
	arp->fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (arp->fd < 0)
		return -errno;
	if (setsockopt(arp->fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) == 0 &&
	    bind(arp->fd, (const struct sockaddr *)&all, sizeof(all)) == 0)
		return 0;
	int error = -errno;
	arp_close(arp);
	return error;
}

void arp_close(struct arp *arp)
{
	if (arp->fd >= 0)
		close(arp->fd);
	arp->fd = -1;
}

/* ---- asking */

/* The source address that the host's routing chooses towards the peer. Another one may get no
 * answer (arp_ignore, arp_filter, rp_filter of the peer). */
static int own_addr(int udp, unsigned int ifindex, const uint8_t addr[4], uint8_t ret_own[4])
{
	const int index = (int)ifindex;
	struct sockaddr_in peer = { .sin_family = AF_INET, .sin_port = htons(9) };
	socklen_t len = sizeof(peer);
	memcpy(&peer.sin_addr, addr, sizeof(peer.sin_addr));
	if (setsockopt(udp, SOL_SOCKET, SO_BINDTOIFINDEX, &index, sizeof(index)) ||
	    connect(udp, (const struct sockaddr *)&peer, sizeof(peer)) ||
	    getsockname(udp, (struct sockaddr *)&peer, &len))
		return -errno;
	memcpy(ret_own, &peer.sin_addr, sizeof(peer.sin_addr));
	return 0;
}

static int own_mac(int udp, unsigned int ifindex, uint8_t ret_mac[ETH_ALEN])
{
	struct ifreq request = { .ifr_ifindex = (int)ifindex };
	if (ioctl(udp, SIOCGIFNAME, &request) || ioctl(udp, SIOCGIFHWADDR, &request))
		return -errno;
	if (request.ifr_hwaddr.sa_family != ARPHRD_ETHER)
		return -EAFNOSUPPORT;
	memcpy(ret_mac, request.ifr_hwaddr.sa_data, ETH_ALEN);
	return 0;
}

static int fill_request(unsigned int ifindex, const uint8_t addr[4], struct ether_arp *ret)
{
	*ret = (struct ether_arp){ .ea_hdr = { .ar_hrd = htons(ARPHRD_ETHER),
					       .ar_pro = htons(ETH_P_IP),
					       .ar_hln = ETH_ALEN,
					       .ar_pln = 4,
					       .ar_op = htons(ARPOP_REQUEST) } };
	memcpy(ret->arp_tpa, addr, sizeof(ret->arp_tpa));
	int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (udp < 0)
		return -errno;
	int error = own_mac(udp, ifindex, ret->arp_sha);
	if (!error)
		error = own_addr(udp, ifindex, addr, ret->arp_spa);
	close(udp);
	return error;
}

int arp_ask(struct arp *arp, unsigned int ifindex, const uint8_t addr[4], const uint8_t mac[6])
{
	struct sockaddr_ll to = { .sll_family = AF_PACKET,
				  .sll_protocol = htons(ETH_P_ARP),
				  .sll_ifindex = (int)ifindex,
				  .sll_halen = ETH_ALEN };
	struct ether_arp request;
	int error = fill_request(ifindex, addr, &request);
	if (error)
		return error;
	memcpy(to.sll_addr, mac, ETH_ALEN);
	if (sendto(arp->fd, &request, sizeof(request), 0, (const struct sockaddr *)&to,
		   sizeof(to)) < 0)
		return -errno;
	return 0;
}

/* ---- answers */

/* Is the packet an ARP answer, sent by the MAC that it names? */
static bool is_answer(const struct ether_arp *reply, size_t len, const struct sockaddr_ll *from)
{
	return len >= sizeof(*reply) && reply->ea_hdr.ar_hrd == htons(ARPHRD_ETHER) &&
	       reply->ea_hdr.ar_pro == htons(ETH_P_IP) && reply->ea_hdr.ar_hln == ETH_ALEN &&
	       reply->ea_hdr.ar_pln == 4 && reply->ea_hdr.ar_op == htons(ARPOP_REPLY) &&
	       from->sll_pkttype != PACKET_OUTGOING && from->sll_halen == ETH_ALEN &&
	       !memcmp(from->sll_addr, reply->arp_sha, ETH_ALEN);
}

bool arp_next(struct arp *arp, struct arp_answer *ret_answer)
{
	for (int seen = 0; seen < PACKETS; seen++) {
		struct ether_arp packet;
		struct sockaddr_ll from;
		socklen_t from_len = sizeof(from);
		ssize_t len = recvfrom(arp->fd, &packet, sizeof(packet), 0,
				       (struct sockaddr *)&from, &from_len);
		if (len < 0 && errno != ENETDOWN)
			return false;
		if (len < 0 || !is_answer(&packet, (size_t)len, &from))
			continue;
		ret_answer->ifindex = (unsigned int)from.sll_ifindex;
		memcpy(ret_answer->addr, packet.arp_spa, sizeof(ret_answer->addr));
		memcpy(ret_answer->mac, packet.arp_sha, sizeof(ret_answer->mac));
		return true;
	}
	return false;
}

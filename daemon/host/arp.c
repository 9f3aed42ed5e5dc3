/* SPDX-License-Identifier: MIT */
#include "daemon/host/arp.h"

#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if_arp.h>
#include <netinet/if_ether.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PACKETS 1000 /* that are looked at: others of the network come too */

static const uint8_t no_mac[ETH_ALEN];

static int64_t now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* A socket for the ARP packets of one interface; ret_own: what its packets come from.
 * @return -1: none, or the interface has no MAC of Ethernet's kind */
static int open_on(unsigned int ifindex, uint8_t ret_own[ETH_ALEN])
{
	struct sockaddr_ll own = { .sll_family = AF_PACKET,
				   .sll_protocol = htons(ETH_P_ARP),
				   .sll_ifindex = (int)ifindex };
	socklen_t len = sizeof(own);
	int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	if (bind(fd, (const struct sockaddr *)&own, sizeof(own)) == 0 &&
	    getsockname(fd, (struct sockaddr *)&own, &len) == 0 && own.sll_halen == ETH_ALEN) {
		memcpy(ret_own, own.sll_addr, ETH_ALEN);
		return fd;
	}
	close(fd);
	return -1;
}

static bool ask(int fd, unsigned int ifindex, const uint8_t own[ETH_ALEN], const uint8_t addr[4],
		const uint8_t mac[ETH_ALEN])
{
	struct sockaddr_ll to = { .sll_family = AF_PACKET,
				  .sll_protocol = htons(ETH_P_ARP),
				  .sll_ifindex = (int)ifindex,
				  .sll_halen = ETH_ALEN };
	struct ether_arp request = { .ea_hdr = { .ar_hrd = htons(ARPHRD_ETHER),
						 .ar_pro = htons(ETH_P_IP),
						 .ar_hln = ETH_ALEN,
						 .ar_pln = 4,
						 .ar_op = htons(ARPOP_REQUEST) } };
	memcpy(to.sll_addr, mac, ETH_ALEN);
	memcpy(request.arp_sha, own, ETH_ALEN);
	memcpy(request.arp_tpa, addr, sizeof(request.arp_tpa));
	return sendto(fd, &request, sizeof(request), 0, (const struct sockaddr *)&to, sizeof(to)) ==
	       (ssize_t)sizeof(request);
}

/* Is it the answer that was asked for, sent by the MAC that it names? */
static bool is_answer(const struct ether_arp *reply, size_t len, const struct sockaddr_ll *from,
		      const uint8_t addr[4], const uint8_t mac[ETH_ALEN])
{
	return len >= sizeof(*reply) && reply->ea_hdr.ar_hrd == htons(ARPHRD_ETHER) &&
	       reply->ea_hdr.ar_pro == htons(ETH_P_IP) && reply->ea_hdr.ar_hln == ETH_ALEN &&
	       reply->ea_hdr.ar_pln == 4 && reply->ea_hdr.ar_op == htons(ARPOP_REPLY) &&
	       !memcmp(reply->arp_spa, addr, sizeof(reply->arp_spa)) &&
	       !memcmp(reply->arp_sha, mac, ETH_ALEN) && from->sll_halen == ETH_ALEN &&
	       !memcmp(from->sll_addr, mac, ETH_ALEN);
}

/* The next ARP packet of the network, within `wait_ms`. @return its length, or 0: none came */
static size_t receive(int fd, struct ether_arp *ret_packet, struct sockaddr_ll *ret_from,
		      int64_t wait_ms)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	socklen_t from_len = sizeof(*ret_from);
	if (poll(&ready, 1, wait_ms > 0 ? (int)wait_ms : 0) <= 0)
		return 0;
	ssize_t len = recvfrom(fd, ret_packet, sizeof(*ret_packet), 0, (struct sockaddr *)ret_from,
			       &from_len);
	return len > 0 ? (size_t)len : 0;
}

/* What has come in time counts, also where this thread did not run in time to see it. */
static bool is_answered(int fd, const uint8_t addr[4], const uint8_t mac[ETH_ALEN], int wait_ms)
{
	const int64_t end = now_ms() + wait_ms;
	struct ether_arp packet;
	struct sockaddr_ll from;
	size_t len;
	for (int seen = 0; seen < PACKETS; seen++) {
		len = receive(fd, &packet, &from, end - now_ms());
		if (len == 0)
			return false;
		if (from.sll_pkttype != PACKET_OUTGOING &&
		    is_answer(&packet, len, &from, addr, mac))
			return true;
	}
	return false;
}

bool arp_confirms(unsigned int ifindex, const uint8_t addr[4], const uint8_t mac[6], int wait_ms)
{
	uint8_t own[ETH_ALEN];
	if ((mac[0] & 1) || !memcmp(mac, no_mac, sizeof(no_mac))) /* a group, or nobody */
		return false;
	int fd = open_on(ifindex, own);
	if (fd < 0)
		return false;
	bool confirmed = memcmp(own, mac, sizeof(own)) != 0 && ask(fd, ifindex, own, addr, mac) &&
			 is_answered(fd, addr, mac, wait_ms);
	close(fd);
	return confirmed;
}

/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/interfaces.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if_arp.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

const struct interface *interfaces_find(const struct interfaces *interfaces, const char *name)
{
	for (size_t i = 0; i < interfaces->num; i++)
		if (!strcmp(interfaces->list[i].name, name))
			return &interfaces->list[i];
	return NULL;
}

static struct interface *find_or_add(struct interfaces *interfaces, const char *name)
{
	struct interface *interface = (struct interface *)interfaces_find(interfaces, name);
	if (interface || interfaces->num == INTERFACES_MAX)
		return interface;
	interface = &interfaces->list[interfaces->num++];
	snprintf(interface->name, sizeof(interface->name), "%s", name);
	return interface;
}

static void add_ipv4(struct interface *interface, const struct ifaddrs *entry)
{
	size_t n = interface->num_addrs;
	if (n == INTERFACE_ADDRESSES || !entry->ifa_netmask)
		return;
	interface->addrs[n].addr = ((const struct sockaddr_in *)entry->ifa_addr)->sin_addr;
	interface->addrs[n].mask = ((const struct sockaddr_in *)entry->ifa_netmask)->sin_addr;
	interface->num_addrs++;
}

static void add_entry(struct interface *interface, const struct ifaddrs *entry)
{
	const struct sockaddr *addr = entry->ifa_addr;
	interface->up = entry->ifa_flags & IFF_UP;
	interface->running = entry->ifa_flags & IFF_RUNNING;
	if (!addr)
		return;
	if (addr->sa_family == AF_PACKET)
		interface->ethernet =
			((const struct sockaddr_ll *)addr)->sll_hatype == ARPHRD_ETHER;
	else if (addr->sa_family == AF_INET)
		add_ipv4(interface, entry);
	else if (addr->sa_family == AF_INET6 &&
		 !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)addr)->sin6_addr))
		interface->num_addrs6++;
}

static void read_mtus(struct interfaces *interfaces)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	for (size_t i = 0; fd >= 0 && i < interfaces->num; i++) {
		struct ifreq request = { .ifr_mtu = 0 };
		memcpy(request.ifr_name, interfaces->list[i].name, IF_NAMESIZE);
		if (ioctl(fd, SIOCGIFMTU, &request) == 0)
			interfaces->list[i].mtu = (unsigned int)request.ifr_mtu;
	}
	if (fd >= 0)
		close(fd);
}

int interfaces_read(struct interfaces *ret_interfaces)
{
	struct ifaddrs *entries;
	*ret_interfaces = (struct interfaces){ .num = 0 };
	if (getifaddrs(&entries) < 0)
		return -errno;
	for (const struct ifaddrs *entry = entries; entry; entry = entry->ifa_next) {
		struct interface *interface =
			entry->ifa_flags & IFF_LOOPBACK
				? NULL
				: find_or_add(ret_interfaces, entry->ifa_name);
		if (interface)
			add_entry(interface, entry);
	}
	freeifaddrs(entries);
	read_mtus(ret_interfaces);
	return 0;
}

bool interfaces_share_network(const struct interface *a, const struct interface *b)
{
	for (size_t i = 0; i < a->num_addrs; i++)
		for (size_t j = 0; j < b->num_addrs; j++)
			if (a->addrs[i].mask.s_addr == b->addrs[j].mask.s_addr &&
			    !((a->addrs[i].addr.s_addr ^ b->addrs[j].addr.s_addr) &
			      a->addrs[i].mask.s_addr))
				return true;
	return false;
}

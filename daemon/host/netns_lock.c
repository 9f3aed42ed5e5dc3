/* SPDX-License-Identifier: MIT */
/*
 * Packet sockets share what they receive in groups ("fanout"). A group has a number within its
 * network namespace, and a largest number of members: here one. Who is refused because the group is
 * full knows that another process is in it.
 */
#include "daemon/host/netns_lock.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* An EtherType for experiments on local networks, as a member has to receive something: no protocol
 * of a name has it, and the filter drops what comes all the same. */
#define ETHERTYPE 0x88B5
#define GROUP     0x5343

static struct sock_filter nothing[] = { BPF_STMT(BPF_RET | BPF_K, 0) };

static int join(int fd)
{
	const struct sock_fprog filter = { sizeof(nothing) / sizeof(nothing[0]), nothing };
	const struct sockaddr_ll all = { .sll_family = AF_PACKET,
					 .sll_protocol = htons(ETHERTYPE) };
	const struct fanout_args group = { .id = GROUP,
					   .type_flags = PACKET_FANOUT_LB,
					   .max_num_members = 1 };
	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) < 0 ||
	    bind(fd, (const struct sockaddr *)&all, sizeof(all)) < 0)
		return -errno;
	if (setsockopt(fd, SOL_PACKET, PACKET_FANOUT, &group, sizeof(group)) == 0)
		return 0;
	return errno == ENOSPC ? -EBUSY : -errno;
}

int netns_lock_take(void)
{
	/* With protocol 0 no packet arrives before the filter is attached. */
	int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	int r = join(fd);
	if (r == 0)
		return fd;
	close(fd);
	return r;
}

/* Only who has CAP_NET_RAW has packet sockets. */
int netns_lock_holder(uid_t *ret_uid)
{
	char line[256];
	unsigned int protocol, uid;
	int r = -ENOENT;
	FILE *sockets = fopen("/proc/thread-self/net/packet", "re");
	if (!sockets)
		return -ENOENT;
	while (r < 0 && fgets(line, sizeof(line), sockets)) {
		if (sscanf(line, "%*s %*s %*s %x %*s %*s %*s %u", &protocol, &uid) == 2 &&
		    protocol == ETHERTYPE) {
			*ret_uid = uid;
			r = 0;
		}
	}
	fclose(sockets);
	return r;
}

/* SPDX-License-Identifier: MIT */
#include "daemon/host/hotplug.h"

#include <errno.h>
#include <event2/event.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The kernel's own messages; udev's go to group 2. */
#define KERNEL_GROUP 1

struct hotplug_watch {
	int fd;
	struct event *event;
	void (*on_change)(void *ctx);
	void *ctx;
};

/* "ACTION@DEVPATH" and then "KEY=VALUE" strings, each with its NUL. */
bool hotplug_is_rdma(const char *msg, size_t len)
{
	bool action = false, device = false;
	const char *end = msg + len;
	while (msg < end) {
		size_t n = strnlen(msg, (size_t)(end - msg));
		if (msg + n == end)
			return false; /* the message is cut off */
		action |= !strcmp(msg, "ACTION=add") || !strcmp(msg, "ACTION=remove");
		device |= !strcmp(msg, "SUBSYSTEM=infiniband_verbs") ||
			  !strcmp(msg, "DEVNAME=infiniband/rdma_cm");
		msg += n + 1;
	}
	return action && device;
}

/* @return false: no more messages. @param ret_change set to true if a device may have changed */
static bool receive(struct hotplug_watch *watch, bool *ret_change)
{
	char buf[8192];
	struct sockaddr_nl from = { 0 };
	socklen_t from_len = sizeof(from);
	ssize_t n = recvfrom(watch->fd, buf, sizeof(buf), MSG_DONTWAIT, (struct sockaddr *)&from,
			     &from_len);
	if (n < 0 && errno == ENOBUFS)
		*ret_change = true;
	if (n < 0)
		return errno == ENOBUFS || errno == EINTR;
	if (from.nl_pid == 0 && hotplug_is_rdma(buf, (size_t)n)) /* 0: the kernel */
		*ret_change = true;
	return true;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct hotplug_watch *watch = arg;
	bool change = false;
	(void)fd;
	(void)what;
	while (receive(watch, &change))
		;
	if (change)
		watch->on_change(watch->ctx);
}

static int watch_init(struct hotplug_watch *watch, struct event_base *base)
{
	struct sockaddr_nl addr = { .nl_family = AF_NETLINK, .nl_groups = KERNEL_GROUP };
	watch->fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			   NETLINK_KOBJECT_UEVENT);
	if (watch->fd < 0 || bind(watch->fd, (struct sockaddr *)&addr, sizeof(addr)))
		return -errno;
	watch->event = event_new(base, watch->fd, EV_READ | EV_PERSIST, on_readable, watch);
	return watch->event && event_add(watch->event, NULL) == 0 ? 0 : -ENOMEM;
}

int hotplug_watch_new(struct event_base *base, void (*on_change)(void *ctx), void *ctx,
		      struct hotplug_watch **ret_watch)
{
	struct hotplug_watch *watch = calloc(1, sizeof(*watch));
	if (!watch)
		return -ENOMEM;
	watch->on_change = on_change;
	watch->ctx = ctx;
	int error = watch_init(watch, base);
	if (error) {
		hotplug_watch_free(watch);
		return error;
	}
	*ret_watch = watch;
	return 0;
}

void hotplug_watch_free(struct hotplug_watch *watch)
{
	if (!watch)
		return;
	if (watch->event)
		event_free(watch->event);
	if (watch->fd >= 0)
		close(watch->fd);
	free(watch);
}

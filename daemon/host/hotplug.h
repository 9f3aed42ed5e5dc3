/* SPDX-License-Identifier: MIT */
/**
 * @file hotplug.h
 * RDMA devices that come and go, as the kernel's uevents tell; udev is not needed.
 */
#ifndef SMCRD_HOST_HOTPLUG_H
#define SMCRD_HOST_HOTPLUG_H

#include <stdbool.h>
#include <stddef.h>

struct event_base;
struct hotplug_watch;

/**
 * Subscribe. `on_change` runs from the event loop when a verbs device has come or gone, or may have
 * because the kernel had to drop messages.
 * @return 0 or a negative errno
 */
int hotplug_watch_new(struct event_base *base, void (*on_change)(void *ctx), void *ctx,
		      struct hotplug_watch **ret_watch);
void hotplug_watch_free(struct hotplug_watch *watch);

/** True if a uevent of the kernel is about a verbs device that comes or goes. */
bool hotplug_is_verbs(const char *msg, size_t len);

#endif

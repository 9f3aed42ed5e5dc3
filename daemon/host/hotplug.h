/* SPDX-License-Identifier: MIT */
/**
 * @file hotplug.h
 * Tells when RDMA devices come and go, by the kernel's uevents. udev is not needed.
 */
#ifndef SMCRD_HOST_HOTPLUG_H
#define SMCRD_HOST_HOTPLUG_H

#include <stdbool.h>
#include <stddef.h>

struct event_base;
struct hotplug_watch;

/**
 * Subscribe. `on_change` runs from the event loop when a verbs device, or the kernel's connection
 * manager (rdma_ucm), has come or gone. It also runs when the kernel had to drop messages, since a
 * device may have come or gone.
 * @return 0 or a negative errno
 */
int hotplug_watch_new(struct event_base *base, void (*on_change)(void *ctx), void *ctx,
		      struct hotplug_watch **ret_watch);
void hotplug_watch_free(struct hotplug_watch *watch);

/** Does this uevent of the kernel say that one of these comes or goes? */
bool hotplug_is_rdma(const char *msg, size_t len);

#endif

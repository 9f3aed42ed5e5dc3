/* SPDX-License-Identifier: MIT */
/**
 * @file views.h
 * What the show methods answer: snapshots of the engine, the devices and the connections as JSON.
 * Each returns a new reference, or NULL without memory.
 */
#ifndef SMCRD_CONTROL_VIEWS_H
#define SMCRD_CONTROL_VIEWS_H

#include <jansson.h>

#include "daemon/control/control.h"

json_t *control_show_info(struct control *control);
json_t *control_show_devices(struct control *control);
json_t *control_show_linkgroups(struct control *control);
json_t *control_show_links(struct control *control);
json_t *control_show_connections(struct control *control);
json_t *control_show_ueids(struct control *control);  /* ueids.c */
json_t *control_show_policy(struct control *control); /* policies.c */

#endif

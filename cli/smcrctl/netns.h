/* SPDX-License-Identifier: MIT */
/** @file netns.h Is smcrd in the network namespace of this process, and which one serves that?
 * smcrd serves no other namespace. */
#ifndef SMCRD_SMCRCTL_NETNS_H
#define SMCRD_SMCRCTL_NETNS_H

#include <jansson.h>
#include <stdbool.h>

#include "proto/ipc/ipc.h"

enum netns_relation {
	NETNS_UNKNOWN, /* before Linux 5.14, or smcrd does not tell */
	NETNS_SAME,
	NETNS_OTHER,
};

/** @param host  what smcrd says of its host ("host.show"), or NULL */
enum netns_relation netns_compare(const json_t *host);

/** The smcrd that serves the network namespace of this process, as its BPF programs tell.
 *  @return false: none does, it has no BPF programs, or is of a version that does not tell */
bool netns_server(struct ipc_serving *ret_serving);

#endif

/* SPDX-License-Identifier: MIT */
/** @file netns.h Is smcrd in the network namespace of this process? smcrd serves no other. */
#ifndef SMCRD_SMCRCTL_NETNS_H
#define SMCRD_SMCRCTL_NETNS_H

#include <jansson.h>

enum netns_relation {
	NETNS_UNKNOWN, /* before Linux 5.14, or smcrd does not tell */
	NETNS_SAME,
	NETNS_OTHER,
};

/** @param host  what smcrd says of its host ("host.show"), or NULL */
enum netns_relation netns_compare(const json_t *host);

#endif

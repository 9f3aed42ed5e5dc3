/* SPDX-License-Identifier: MIT */
/**
 * @file host.h
 * What a host gives to the program that runs on it.
 */
#ifndef SMCRD_TESTS_RNICSIM_HOST_H
#define SMCRD_TESTS_RNICSIM_HOST_H

#include <netinet/in.h>
#include <stddef.h>

struct host;

/** The host with this address, or NULL. */
struct host *host_of(struct in_addr addr);
/** Memory for the simulator itself, zeroed, which never fails. To be freed by free(). */
void *sim_alloc(size_t len);

#endif

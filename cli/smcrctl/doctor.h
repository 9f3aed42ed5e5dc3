/* SPDX-License-Identifier: MIT */
/**
 * @file doctor.h
 * What the checks of "smcrctl doctor" share. Each check is a function in the table of doctor.c;
 * those of one subject are in one file:
 *
 *   doctor_daemon.c    does smcrd answer, from here, and what does it say of itself?
 *   doctor_kernel.c    the kernel, cgroup2, the TCP option
 *   doctor_rnics.c     RDMA devices and the interfaces behind them
 *   doctor_limits.c    memory, descriptors, users at a limit
 *   doctor_network.c   the firewall, and two interfaces on one network
 *   doctor_config.c    the configuration file
 *   doctor_bus.c       the system bus
 *   doctor_peers.c     peers that are left alone, and links that are not as they could be
 */
#ifndef SMCRD_SMCRCTL_DOCTOR_H
#define SMCRD_SMCRCTL_DOCTOR_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "cli/smcrctl/findings.h"
#include "cli/smcrctl/interfaces.h"

/** Seconds for each answer of smcrd: one that takes longer stands still. */
#define DOCTOR_PATIENCE_S 5

struct doctor {
	struct findings findings;
	const char *socket_path;
	bool root;
	bool elsewhere; /* this is not the network namespace of smcrd: its interfaces are not ours
			 */
	struct interfaces interfaces;
	/* Of smcrd; NULL: it does not answer, or is too old. */
	json_t *info, *host, *devices;
};

void doctor_daemon(struct doctor *doctor);
void doctor_namespace(struct doctor *doctor);
void doctor_kernel(struct doctor *doctor);
void doctor_option(struct doctor *doctor);
void doctor_rnics(struct doctor *doctor);
void doctor_memory(struct doctor *doctor);
void doctor_limits(struct doctor *doctor);
void doctor_firewall(struct doctor *doctor);
void doctor_subnets(struct doctor *doctor);
void doctor_config(struct doctor *doctor);
void doctor_bus(struct doctor *doctor);
void doctor_peers(struct doctor *doctor);
void doctor_links(struct doctor *doctor);
void doctor_guard(struct doctor *doctor);

/** Does the device use this interface of ours? NULL: it is not to be seen from here. */
const struct interface *doctor_interface_of(const struct doctor *doctor, const json_t *device);

/** A value in an object of smcrd's: by keys with dots; 0 or "" if it is missing. */
json_int_t doctor_number(const json_t *object, const char *key, const char *inner);
const char *doctor_text(const json_t *object, const char *key);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file doctor.h
 * What the checks of "smcrctl doctor" share. Each check is a function in the table of doctor.c;
 * those of one subject are in one file:
 *
 *   doctor_daemon.c    does smcrd answer, in this network namespace, and of which version is it?
 *   doctor_kernel.c    the kernel, cgroup2, the TCP option
 *   doctor_foreign.c   somebody else's BPF programs that see TCP handshakes
 *   doctor_rnics.c     RDMA devices and the interfaces behind them
 *   doctor_limits.c    memory, descriptors, users at a limit
 *   doctor_network.c   the firewall, and two interfaces on one network
 *   doctor_config.c    may the service read the configuration?
 *   doctor_config_file.c  does this command see the file that smcrd has read?
 *   doctor_bus.c       the system bus
 *   doctor_peers.c     peers with which SMC-R is not tried, and links with small packets
 *   doctor_smbdirect.c  the server and the listeners of SMB Direct
 *   doctor_programs.c  plugins that smcr-run's library does not reach
 *
 * What --rules prints is in rules.h.
 */
#ifndef SMCRD_SMCRCTL_DOCTOR_H
#define SMCRD_SMCRCTL_DOCTOR_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "cli/smcrctl/findings.h"
#include "cli/smcrctl/interfaces.h"

/** Seconds to wait for each answer of smcrd. If it takes longer, smcrd is taken to hang. */
#define DOCTOR_PATIENCE_S 5

struct doctor {
	struct findings findings;
	const char *socket_path;
	bool root;
	bool absent;    /* no smcrd runs; one that does not answer is not absent */
	bool elsewhere; /* smcrd is in another network namespace, with other interfaces */
	struct interfaces interfaces;
	/* Answers of smcrd; NULL: it does not answer, or is too old. */
	json_t *info, *host, *devices;
};

void doctor_daemon(struct doctor *doctor);
void doctor_namespace(struct doctor *doctor);
void doctor_kernel(struct doctor *doctor);
void doctor_option(struct doctor *doctor);
void doctor_foreign(struct doctor *doctor);
void doctor_rnics(struct doctor *doctor);
void doctor_memory(struct doctor *doctor);
void doctor_limits(struct doctor *doctor);
void doctor_firewall(struct doctor *doctor);
void doctor_subnets(struct doctor *doctor);
void doctor_config(struct doctor *doctor);
void doctor_config_file(struct doctor *doctor);
void doctor_bus(struct doctor *doctor);
void doctor_peers(struct doctor *doctor);
void doctor_links(struct doctor *doctor);
void doctor_smbdirect(struct doctor *doctor);
void doctor_guard(struct doctor *doctor);
void doctor_programs(struct doctor *doctor);

/** The interface that the device uses; NULL: it is not in this network namespace. */
const struct interface *doctor_interface_of(const struct doctor *doctor, const json_t *device);

/** A value in an object of smcrd; 0 or "" if it is missing. @param inner  a key in the object that
 * `key` has; NULL: the value is that of `key` */
json_int_t doctor_number(const json_t *object, const char *key, const char *inner);
const char *doctor_text(const json_t *object, const char *key);

#endif

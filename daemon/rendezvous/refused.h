/* SPDX-License-Identifier: MIT */
/**
 * @file refused.h
 * What the BPF programs have refused to users (bpf/refused.h).
 */
#ifndef SMCRD_RENDEZVOUS_REFUSED_H
#define SMCRD_RENDEZVOUS_REFUSED_H

#include <linux/types.h>
#include <stdint.h>
#include <sys/types.h>

/** The counters of one kind of programs: guard.h or gate.h gives them. */
struct rdv_refused {
	const __u64 *total; /* NULL: these programs are not attached */
	int by_user;        /* BPF map; stays the owner's */
};

/** How often anybody was refused anything. It costs no system call. */
uint64_t rdv_refused_total(const struct rdv_refused *refused);

struct rdv_refused_users {
	unsigned int num; /* of a great many users some are forgotten */
	uid_t most;       /* who was refused something most often, if there is any */
	uint64_t times;   /* how often */
};

/** Who was refused something since this was last asked. */
void rdv_refused_take(const struct rdv_refused *refused, struct rdv_refused_users *ret_users);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file refused.h
 * Counts of what the BPF programs have refused to users (bpf/refused.h).
 */
#ifndef SMCRD_RENDEZVOUS_REFUSED_H
#define SMCRD_RENDEZVOUS_REFUSED_H

#include <linux/types.h>
#include <stdint.h>
#include <sys/types.h>

/** The counters of the BPF programs of guard.h or of gate.h. */
struct rdv_refused {
	const __u64 *total; /* NULL: these programs are not attached */
	int by_user;        /* BPF map; the guard or gate keeps it */
};

/** How often anything was refused. Makes no system call. */
uint64_t rdv_refused_total(const struct rdv_refused *refused);

struct rdv_refused_users {
	unsigned int num; /* how many users; of very many users some are forgotten */
	uid_t most;       /* the user who was refused most often, if `num` is not 0 */
	uint64_t times;   /* how often */
};

/** The users who were refused something since the last call. */
void rdv_refused_take(const struct rdv_refused *refused, struct rdv_refused_users *ret_users);

#endif

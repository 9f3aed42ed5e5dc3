/* SPDX-License-Identifier: MIT */
/**
 * @file tally.h
 * Connections that programs under smcr-run have and that are plain TCP from their handshake on, as
 * the BPF programs have seen them: how many for which reason, and the last ones. What a daemon was
 * handed over and what became of that is not among them (daemon/conns).
 *
 * Each is counted. Which ones they are is told of as many as fit between two looks, and one user
 * has no more than a quarter of the room.
 *
 * One thread uses a `struct rdv_tally`.
 */
#ifndef SMCRD_RENDEZVOUS_TALLY_H
#define SMCRD_RENDEZVOUS_TALLY_H

#include <stdint.h>
#include <sys/types.h>

#include "daemon/rendezvous/option.h"

struct rdv_tally;

/** A connection whose handshake has ended as plain TCP. */
struct rdv_plain {
	uint64_t time_us; /* CLOCK_MONOTONIC when that was */
	uint64_t cookie;  /* SO_COOKIE of its socket; 0: not known */
	struct smcr_addr local, peer;
	enum smcr_role role;
	uint32_t reason;         /* enum smcr_reason */
	uid_t uid;               /* whose process has called connect() or listen() */
	pid_t pid;               /* its number; 0: not visible in our pid namespace */
	char comm[RDV_COMM_LEN]; /* its name as the kernel shows it */
};

/** How many there were since rdv_option_open(). */
struct rdv_plain_count {
	uint32_t reason;
	uint64_t connections;
	uint64_t untold; /* of these, which ones they were nobody knows: there were too many */
};

/** @param option  outlives the tally. @return 0 or a negative errno */
int rdv_tally_open(struct rdv_option *option, struct rdv_tally **ret_tally);
/** NULL is allowed. */
void rdv_tally_close(struct rdv_tally *tally);

/**
 * Call `fn` for each connection since the last time, in the order of their handshakes. To be called
 * twice a second at least. Costs no system call. NULL: there are none.
 */
void rdv_tally_read(struct rdv_tally *tally, void (*fn)(void *arg, const struct rdv_plain *plain),
		    void *arg);

/** Call `fn` for each reason. Some system calls. NULL: there are none. */
void rdv_tally_each_count(const struct rdv_tally *tally,
			  void (*fn)(void *arg, const struct rdv_plain_count *count), void *arg);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file tally.h
 * Connections of programs under smcr-run that are plain TCP from their handshake on, as the BPF
 * programs have seen them: how many for each reason, and the latest ones. Connections that were
 * handed over to a daemon are not among them (daemon/conns). Those that the library has made
 * without a claim (lib/smcr/unanswered.h) are known by their number only, which programs tell.
 *
 * All connections are counted. Details are told of as many as there is room for between two calls
 * of rdv_tally_read(); one user gets at most a quarter of the room.
 *
 * A `struct rdv_tally` is used by one thread.
 */
#ifndef SMCRD_RENDEZVOUS_TALLY_H
#define SMCRD_RENDEZVOUS_TALLY_H

#include <stdint.h>
#include <sys/types.h>

#include "daemon/rendezvous/option.h"

struct rdv_tally;

/** A connection whose handshake has ended as plain TCP. */
struct rdv_plain {
	uint64_t time_us; /* CLOCK_MONOTONIC at the end of the handshake */
	uint64_t cookie;  /* SO_COOKIE of its socket; 0: not known */
	struct smcr_addr local, peer;
	enum smcr_role role;
	uint32_t reason;         /* enum smcr_reason */
	uid_t uid;               /* user of the process that has called connect() or listen() */
	pid_t pid;               /* that process; 0: not visible in smcrd's pid namespace */
	char comm[RDV_COMM_LEN]; /* its name as the kernel tells it */
	/** 0: this is a connection. Else so many connections to `peer` were made without a claim
	 * before the connection with this cookie, which was told earlier. */
	uint32_t unasked;
};

/** How many such connections there were since rdv_option_open(). */
struct rdv_plain_count {
	uint32_t reason;
	uint64_t connections;
	uint64_t untold; /* of these without details, because there were too many */
};

/** @param option  outlives the tally. @return 0 or a negative errno */
int rdv_tally_open(struct rdv_option *option, struct rdv_tally **ret_tally);
/** NULL is allowed. */
void rdv_tally_close(struct rdv_tally *tally);

/**
 * Call `fn` for each connection since the last call, in the order of their handshakes. To be called
 * at least twice a second. Makes no system call. NULL: there are none.
 */
void rdv_tally_read(struct rdv_tally *tally, void (*fn)(void *arg, const struct rdv_plain *plain),
		    void *arg);

/** Call `fn` for each reason. Makes some system calls. NULL: there are none. */
void rdv_tally_each_count(const struct rdv_tally *tally,
			  void (*fn)(void *arg, const struct rdv_plain_count *count), void *arg);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file plain.h
 * Connections of programs under smcr-run that did not use SMC-R, for operators: the latest ones
 * that were plain TCP from their handshake on, and how many there were with each peer.
 *
 * A user with very many connections has only a part of the entries, and so cannot hide what happens
 * to others. One thread uses a `struct plain`.
 */
#ifndef SMCRD_EVENTS_PLAIN_H
#define SMCRD_EVENTS_PLAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/rendezvous/tally.h"

#define PLAIN_KEPT          1024
#define PLAIN_OF_A_USER     (PLAIN_KEPT / 4)
#define PLAIN_PEERS         256
#define PLAIN_PEERS_OF_USER (PLAIN_PEERS / 4)

struct plain;

struct plain_conn {
	uint64_t number; /* counts up from 1 */
	struct rdv_plain seen;
	uint32_t
		unasked; /* how many connections to this peer were made without a claim before it */
};

struct plain_peer {
	struct smcr_addr addr; /* port 0 */
	uint64_t connections;  /* how many did not use SMC-R */
	uint32_t reason;       /* reason of the last one */
};

/** @param tally NULL: there are no BPF programs. Outlives `plain`. @return 0 or -ENOMEM */
int plain_new(struct rdv_tally *tally, struct plain **ret_plain);
/** NULL is allowed here and below, and means that nothing is known. */
void plain_free(struct plain *plain);

/** Read what the BPF programs have counted. To be called twice a second, and before a view. */
void plain_look(struct plain *plain);

/** Note a connection that is plain TCP, or others before it. plain_look() calls this. */
void plain_add(struct plain *plain, const struct rdv_plain *seen);

/** Count a connection that was handed over but did not use SMC-R: with this peer, of a program of
 * this user. */
void plain_count(struct plain *plain, const struct smcr_addr *peer, uid_t uid, uint32_t reason);

/** The connection was handed to the daemon, which shows it itself: remove it here. */
void plain_forget(struct plain *plain, uint64_t cookie);

/**
 * Call `fn` for the kept connections, newest first, until it returns false.
 * @param below  only connections with a smaller number; 0: all
 */
void plain_walk(const struct plain *plain, uint64_t below,
		bool (*fn)(void *arg, const struct plain_conn *conn), void *arg);

/**
 * The peers with most connections, most first.
 * @param ret_others  connections with peers that are not among them
 * @return how many peers, at most `max`
 */
size_t plain_peers(struct plain *plain, struct plain_peer *ret_peers, size_t max,
		   uint64_t *ret_others);

/** Call `fn` for each reason that the BPF programs have counted. */
void plain_each_count(const struct plain *plain,
		      void (*fn)(void *arg, const struct rdv_plain_count *count), void *arg);

#endif

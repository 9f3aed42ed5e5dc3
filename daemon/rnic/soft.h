/* SPDX-License-Identifier: MIT */
/**
 * @file soft.h
 * Functions for soft RNICs only. Thread rules as in rnic.h. `rnic` must be of kind RNIC_SOFT.
 */
#ifndef SMCRD_RNIC_SOFT_H
#define SMCRD_RNIC_SOFT_H

#include "daemon/rnic/rnic.h"

/**
 * Use UDP segmentation offload (true at open), or one datagram for each packet. Without offload,
 * RDMA WRITEs posted from now on are sent as FIRST/MIDDLE/LAST packets instead of ONLY packets. The
 * RNIC turns offload off itself if the interface refuses it.
 */
void rnic_soft_set_segmentation(struct rnic *rnic, bool on);

/** Bytes of a datagram of queue pair 1 (a MAD, IBA 13.4). */
#define RNIC_GSI_LEN 256

/** A datagram that has come to queue pair 1, with the right Q_Key, P_Key and ICRC. */
struct rnic_gsi_datagram {
	uint8_t local_gid[16], peer_gid[16];
	uint16_t peer_port;  /* UDP, from which it came */
	const uint8_t *data; /* RNIC_GSI_LEN bytes, valid during the callback */
};

typedef void rnic_gsi_fn(void *ctx, const struct rnic_gsi_datagram *datagram);

/**
 * From now on `fn` gets what comes to queue pair 1, the one of general services; NULL: nobody, as
 * after the opening. Called as completions are: from the event loop or inside rnic_poll(), and may
 * call everything. A round of the event loop takes a limited number of datagrams, and fewer of one
 * sender; more are dropped, and counted in rnic_stats.drop_qp.
 */
void rnic_soft_set_gsi(struct rnic *rnic, rnic_gsi_fn *fn, void *ctx);
/**
 * Send a datagram to queue pair 1 of a peer. It may get lost.
 * @return 0; -EADDRNOTAVAIL: `local_gid` is not one of this RNIC; -EINVAL: the peer's is no IPv4
 *         address; -EAGAIN: the socket is full; another errno of sendto()
 */
int rnic_soft_gsi_send(struct rnic *rnic, const uint8_t local_gid[16], const uint8_t peer_gid[16],
		       const uint8_t data[RNIC_GSI_LEN]);

/**
 * Note which processes have the UDP port of RoCEv2, for the error text of rnic_open(). Call this
 * before Landlock is set up: afterwards the process cannot see the sockets of others.
 */
void rnic_soft_note_holders(void);

#endif

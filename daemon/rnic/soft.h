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

/**
 * Note which processes have the UDP port of RoCEv2, for the error text of rnic_open(). Call this
 * before Landlock is set up: afterwards the process cannot see the sockets of others.
 */
void rnic_soft_note_holders(void);

#endif

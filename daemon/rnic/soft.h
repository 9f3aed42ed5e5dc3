/* SPDX-License-Identifier: MIT */
/**
 * @file soft.h
 * What only soft RNICs need to be told. Thread rules as in rnic.h. `rnic` must be of kind
 * RNIC_SOFT.
 */
#ifndef SMCRD_RNIC_SOFT_H
#define SMCRD_RNIC_SOFT_H

#include "daemon/rnic/rnic.h"

/**
 * Use UDP segmentation offload (true at open) or one datagram a packet. Without it RDMA WRITEs
 * posted from now on travel as FIRST/MIDDLE/LAST packets rather than as ONLY packets. The RNIC
 * itself turns it off where the interface refuses it.
 */
void rnic_soft_set_segmentation(struct rnic *rnic, bool on);

/**
 * Note which processes have the UDP port of RoCEv2 now, for what rnic_open() says when it is taken.
 * A process under Landlock cannot see that of others, so this comes before.
 */
void rnic_soft_note_holders(void);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file soft.h
 * What only a soft RNIC needs to be told. Thread rules as in rnic.h. `rnic` must be of kind
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

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file path_mtu.h
 * Do full-size packets pass? (A67)
 */
#ifndef SMCRD_ENGINE_PATH_MTU_H
#define SMCRD_ENGINE_PATH_MTU_H

#include "daemon/engine/engine.h"

struct smcr_engine;
struct smcr_lgr;
struct smcr_link;

#define SMCR_PATHS_MAX 64

/** Packets from one RNIC to another get through up to this size only. */
struct smcr_path {
	uint8_t local[SMCR_GID_LEN], peer[SMCR_GID_LEN];
	struct smcr_addr host; /* the peer's, as the group knows it */
	uint32_t lgr;          /* id of the group in which that was found */
	uint8_t mtu;           /* enum smcr_mtu */
	bool proven;           /* in first contact; else data seem to show it */
	uint64_t until;        /* then it is forgotten; 0: the entry is free */
};

/** `mtu`, or what is known to pass between these RNICs if that is less. */
uint8_t smcr_path_mtu(const struct smcr_engine *engine, const uint8_t local[SMCR_GID_LEN],
		      const uint8_t peer[SMCR_GID_LEN], uint8_t mtu);
/** `mtu`, or the least that was found to pass from this RNIC on a link of the group. */
uint8_t smcr_path_mtu_in_group(const struct smcr_lgr *lgr, const uint8_t local[SMCR_GID_LEN],
			       uint8_t mtu);
/** The network at this RNIC is another one now. */
void smcr_path_forget(struct smcr_engine *engine, const uint8_t local[SMCR_GID_LEN]);
/**
 * First contact, the link can send: find out whether full-size packets pass.
 * @return true: smcr_llc_path_proved() is called when they have; false: that is known already, or
 *         there is nothing to write to
 */
bool smcr_path_prove(struct smcr_link *link);
/** It has not come to an end, and the link is given up: none of its writes may follow data. */
void smcr_path_stop(struct smcr_link *link);
/** A write of so many bytes was acknowledged. */
void smcr_path_passed(struct smcr_link *link, uint32_t length);
/** Requests up to this one get no acknowledgement. @return true: the size of packets is to blame,
 *  and remembered; the link has failed with that */
bool smcr_path_blame(struct smcr_link *link, uint64_t wr_id);

#endif

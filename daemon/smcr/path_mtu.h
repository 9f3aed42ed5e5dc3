/* SPDX-License-Identifier: MIT */
/**
 * @file path_mtu.h
 * Do full-size packets pass? (A67)
 */
#ifndef SMCRD_SMCR_PATH_MTU_H
#define SMCRD_SMCR_PATH_MTU_H

#include "daemon/smcr/engine.h"

struct smcr_engine;
struct smcr_lgr;
struct smcr_link;

#define SMCR_PATHS_MAX 64

/** A path between two RNICs on which only packets up to `mtu` pass. */
struct smcr_path {
	uint8_t local[SMCR_GID_LEN], peer[SMCR_GID_LEN];
	struct smcr_addr host; /* the peer, as in struct smcr_lgr */
	uint32_t lgr;          /* id of the group in which this was found */
	uint8_t mtu;           /* enum smcr_mtu */
	bool proven;           /* found in first contact; else suspected because data were lost */
	uint64_t until;        /* when the path is forgotten; 0: the entry is free */
};

/** The smaller one of `mtu` and what is known to pass between these RNICs. */
uint8_t smcr_path_mtu(const struct smcr_engine *engine, const uint8_t local[SMCR_GID_LEN],
		      const uint8_t peer[SMCR_GID_LEN], uint8_t mtu);
/** The smaller one of `mtu` and the least that was found to pass from this RNIC on links of the
 * group. */
uint8_t smcr_path_mtu_in_group(const struct smcr_lgr *lgr, const uint8_t local[SMCR_GID_LEN],
			       uint8_t mtu);
/** Forget all paths of this RNIC: its network has changed. */
void smcr_path_forget(struct smcr_engine *engine, const uint8_t local[SMCR_GID_LEN]);
/**
 * First contact; the link can send: find out whether full-size packets pass.
 * @return true: smcr_llc_path_proved() is called when they have passed; false: they are known to
 *         pass, or there is no element to write to
 */
bool smcr_path_prove(struct smcr_link *link);
/** The link is given up before the proof has ended: take its QP into error, so that none of the
 * proof's writes overwrites data. */
void smcr_path_stop(struct smcr_link *link);
/** A write of `length` bytes was acknowledged. */
void smcr_path_passed(struct smcr_link *link, uint32_t length);
/** Request `wr_id` gets no acknowledgement. @return true: the size of its packets is to blame. The
 * path is remembered and the link has failed */
bool smcr_path_blame(struct smcr_link *link, uint64_t wr_id);

#endif

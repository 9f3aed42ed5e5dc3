/* SPDX-License-Identifier: MIT */
/**
 * @file slab.h
 * Memory of link groups: RMBs and send buffers, both cut into elements.
 */
#ifndef SMCRD_SMCR_SLAB_H
#define SMCRD_SMCR_SLAB_H

#include "daemon/smcr/timer.h"

struct smcr_lgr;
struct smcr_link;

/** Memory is registered once for each link of the group, with tokens of its own. */
#define SMCR_LINK_SLOTS SMCR_MAX_LINKS_TOTAL

enum smcr_slab_state {
	SMCR_SLAB_NEW,        /* the peer has not been told its RTokens */
	SMCR_SLAB_ANNOUNCING, /* CONFIRM RKEY exchange under way */
	SMCR_SLAB_READY,      /* elements may be given to connections */
	SMCR_SLAB_DELETING,   /* DELETE RKEY under way */
};

/** A piece of registered memory cut into elements of one size: an RMB (remote write), or the send
 * buffers of a link group (not remote; always READY). Registered once for each link (A18,
 * RMB-10). */
struct smcr_slab {
	struct smcr_lgr *lgr;
	uint32_t number; /* counted in the group from 1, for operators */
	bool is_rmb;
	enum smcr_slab_state state;
	/** RMB, NEW: its CONFIRM RKEY exchange was broken off, so the peer may know the RTokens.
	 * The RMB is announced again before anything else that relies on what the peer knows. */
	bool doubtful;
	uint8_t *base;
	uint32_t element_size; /* E, bytes */
	uint8_t bsize;         /* code of E */
	uint16_t count;        /* elements, 1..255 */
	uint16_t used;
	uint16_t retired; /* elements whose mem_recover() failed: never used again */
	uint8_t map[32];  /* bit i: element i (0-based) is used, or retired */
	/** How many bytes at the start of each element (0-based) may be other than zero. */
	uint32_t dirty[SMCR_MAX_ELEMENTS];
	struct {
		void *mr; /* NULL: not registered on that link slot */
		uint32_t lkey, rkey;
		uint64_t vaddr;
		bool told; /* the peer has this RToken (CLC, CONFIRM RKEY or ADD LINK CONT.) */
	} reg[SMCR_LINK_SLOTS];
	struct smcr_timer idle; /* RKEY-13: delay before an unused RMB is deleted */
	struct smcr_timer
		sweep; /* delay before memory of unused elements goes back to the system */
	struct smcr_slab *next, *prev;
};

/** One element of a slab, as a connection holds it. */
struct smcr_element {
	struct smcr_slab *slab; /* NULL: none */
	uint8_t index;          /* 1-based, as on the wire */
	uint8_t *addr;
	uint32_t size;
	bool shared; /* the host has put other pages there (smcr_conn_share()) */
};

/** The smallest element size code that has room for `want` bytes of receive buffer (RMB-6). */
uint8_t smcr_bsize_holding(uint32_t want);
/**
 * Size code of an element or a send buffer for a connection whose program has set no size. `need`
 * is how many bytes the connection is expected to need (0: not known). The code shrinks as memory
 * is used up (RMB-12); a connection that needs less gets less even before that.
 */
uint8_t smcr_bsize_choose(const struct smcr_engine *engine, uint32_t need);
/** What smcr_bsize_choose() would return if all memory were free. */
uint8_t smcr_bsize_plenty(const struct smcr_engine *engine, uint32_t need);
/**
 * Take a free element of code `bsize`, or of the next larger code that has one, up to code `most`;
 * of READY slabs first. Its `used` mark is set. Until its slab is READY the element must not be
 * told to the peer.
 * @return 0, -ENOENT: a slab must be added first (smcr_slab_add)
 */
int smcr_element_take(struct smcr_lgr *lgr, bool is_rmb, uint8_t bsize, uint8_t most,
		      struct smcr_element *ret);
/** Give the element back; does nothing for an element without a slab. */
void smcr_element_release(struct smcr_element *element);
/** Allocate a slab of elements of this size (or smaller under memory pressure, but not below code
 * `least`: RMB-12) and register it on every link that has a QP; RMBs start NEW, send buffers READY.
 */
int smcr_slab_add(struct smcr_lgr *lgr, bool is_rmb, uint8_t bsize, uint8_t least,
		  struct smcr_slab **ret_slab);
/** The same for a connection that may use the part of the budget that is set aside (account.c):
 * when the rest is used up, the slab has a few elements of that part. */
int smcr_slab_add_last(struct smcr_lgr *lgr, bool is_rmb, uint8_t bsize, uint8_t least,
		       struct smcr_slab **ret_slab);
int smcr_slab_register(struct smcr_slab *slab, struct smcr_link *link);
void smcr_slab_deregister(struct smcr_slab *slab, struct smcr_link *link);
void smcr_slab_free(struct smcr_slab *slab);
unsigned int smcr_slab_num_rmbs(const struct smcr_lgr *lgr);
/** Has the group no free element of code `bsize` or larger, and as many RMBs as it may have
 * (LG-13)? */
bool smcr_slab_out_of_rmbs(const struct smcr_lgr *lgr, uint8_t bsize);
/** Has the RMB been unused for long enough, and is it not the last one of its group (RKEY-13)? */
bool smcr_slab_deletable(const struct smcr_slab *slab);

#endif

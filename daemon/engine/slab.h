/* SPDX-License-Identifier: MIT */
/**
 * @file slab.h
 * Memory: RMBs and send buffers.
 */
#ifndef SMCRD_ENGINE_SLAB_H
#define SMCRD_ENGINE_SLAB_H

#include "daemon/engine/timer.h"

struct smcr_lgr;
struct smcr_link;

/** Memory is registered, and its tokens are known, once a link of the group. */
#define SMCR_LINK_SLOTS SMCR_MAX_LINKS_TOTAL

enum smcr_slab_state {
	SMCR_SLAB_NEW,        /* not known to the peer: its tokens have not been told */
	SMCR_SLAB_ANNOUNCING, /* CONFIRM RKEY exchange under way */
	SMCR_SLAB_READY,      /* elements may be given to connections */
	SMCR_SLAB_DELETING,   /* DELETE RKEY under way */
};

/** A piece of registered memory cut into elements of one size: an RMB (remote write), or the send
 *  buffers of a link group (not remote; always READY). Registered once a link (A18, RMB-10). */
struct smcr_slab {
	struct smcr_lgr *lgr;
	uint32_t number; /* in the group, for operators: they are counted from 1 */
	bool is_rmb;
	enum smcr_slab_state state;
	/** RMB, NEW: an announcement was broken, the peer may know it. It is announced again before
	 * anything else that relies on what the peer knows. */
	bool doubtful;
	uint8_t *base;
	uint32_t element_size; /* E, bytes */
	uint8_t bsize;         /* code of E */
	uint16_t count;        /* elements, 1..255 */
	uint16_t used;
	uint16_t retired; /* elements that nobody gets any more: see mem_recover() */
	uint8_t map[32];  /* bit i: element i (0-based) is used, or retired */
	/** Bytes at the start of each element (0-based) that may be other than zero. */
	uint32_t dirty[SMCR_MAX_ELEMENTS];
	struct {
		void *mr; /* NULL: not registered on that link slot */
		uint32_t lkey, rkey;
		uint64_t vaddr;
		bool told; /* the peer has this RToken (CLC, CONFIRM RKEY or ADD LINK CONT.) */
	} reg[SMCR_LINK_SLOTS];
	struct smcr_timer idle;  /* RKEY-13: delay before an unused RMB goes */
	struct smcr_timer sweep; /* delay before memory of unused elements goes */
	struct smcr_slab *next, *prev;
};

/** One element of a slab, as a connection holds it. */
struct smcr_element {
	struct smcr_slab *slab; /* NULL: none */
	uint8_t index;          /* 1-based, as on the wire */
	uint8_t *addr;
	uint32_t size;
	bool shared; /* the host has put other pages there */
};

/** The smallest element size code that has room for `want` bytes of receive buffer (RMB-6). */
uint8_t smcr_bsize_holding(uint32_t want);
/**
 * Size code of an element or a send buffer for a connection whose program has set nothing, and that
 * is expected to need so many bytes (0: not known). It shrinks as memory is used up (RMB-12); what
 * needs less gets less before that.
 */
uint8_t smcr_bsize_choose(const struct smcr_engine *engine, uint32_t need);
/** What it would be if all memory were free. */
uint8_t smcr_bsize_plenty(const struct smcr_engine *engine, uint32_t need);
/**
 * A free element of code `bsize` or the next larger one there is, up to code `most`; READY slabs
 * first. Its `used` mark is set. Until its slab is READY the element must not be told to the peer.
 * @return 0, -ENOENT: a slab must be added first (smcr_slab_add)
 */
int smcr_element_take(struct smcr_lgr *lgr, bool is_rmb, uint8_t bsize, uint8_t most,
		      struct smcr_element *ret);
/** Give it back; does nothing for an element that is none. */
void smcr_element_release(struct smcr_element *element);
/** Allocate a slab of elements of this size (or smaller under memory pressure, but not below code
 * `least`: RMB-12) and register it on every link that has a QP; RMBs start NEW, send buffers READY.
 */
int smcr_slab_add(struct smcr_lgr *lgr, bool is_rmb, uint8_t bsize, uint8_t least,
		  struct smcr_slab **ret_slab);
/** The same for who may have what is set aside (account.c): where the rest is used up, a few
 * elements of that. */
int smcr_slab_add_last(struct smcr_lgr *lgr, bool is_rmb, uint8_t bsize, uint8_t least,
		       struct smcr_slab **ret_slab);
int smcr_slab_register(struct smcr_slab *slab, struct smcr_link *link);
void smcr_slab_deregister(struct smcr_slab *slab, struct smcr_link *link);
void smcr_slab_free(struct smcr_slab *slab);
unsigned int smcr_slab_num_rmbs(const struct smcr_lgr *lgr);
/** Has the group no free element of code `bsize` or larger, and as many RMBs as may be (LG-13)? */
bool smcr_slab_out_of_rmbs(const struct smcr_lgr *lgr, uint8_t bsize);
/** Idle long enough, and not the last RMB of its group (RKEY-13). */
bool smcr_slab_deletable(const struct smcr_slab *slab);

#endif

/* SPDX-License-Identifier: MIT */
/**
 * @file region.h
 * Memory of one end, and what it may contain.
 *
 * A region that the peer writes or reads knows all that was ever stored in it: by the peer's RDMA
 * WRITEs, in the order in which they were posted, or by its own user. So at any time there is for
 * each byte a set of values that it may have: what was stored last of what has surely happened, and
 * what is posted and may have happened. Each region has only one writer.
 */
#ifndef SMCRD_TESTS_RNICSIM_REGION_H
#define SMCRD_TESTS_RNICSIM_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/rnic/rnic.h"

struct end;

/** Memory between guards. */
struct block {
	uint8_t *base, *mem;
	size_t len;
};

void block_new(struct block *block, size_t len);
/** Free it. The guards must be untouched. */
void block_free(struct block *block, const char *what);

/** Bytes that only this tag and place give, for byte 0.. of a store or message. */
void pattern_fill(uint8_t *to, uint64_t tag, size_t from, size_t len);
uint8_t pattern_at(uint64_t tag, size_t at);
bool pattern_is(const uint8_t *data, uint64_t tag, size_t from, size_t len);

/** A store into a region. Its bytes are those of the pattern at their place in the region. */
struct store {
	uint64_t tag;
	size_t offset, len;
	bool was_seen; /* of one whose token died before it was known to be done: it was done */
};

/** What a peer needs to write or read a part of a region. */
struct token {
	struct token *next; /* of the region, also those that are dead */
	struct region *region;
	uint32_t rkey;
	uint64_t vaddr; /* of the part's first byte */
	size_t offset, len;
	unsigned int access;
	bool dead;
	bool given_up; /* the peer has posted a request that kills it */
	size_t stores; /* how many there were when it died */
};

struct region {
	struct end *owner;
	struct block block;
	unsigned int access;
	struct rnic_mr *mr;         /* NULL: not registered */
	struct rnic_window *window; /* peers get tokens of it; NULL: those of `mr` */
	struct token *token;        /* that is alive, or NULL */
	struct token *tokens;
	uint8_t *shadow;
	struct store *stores; /* all there ever were */
	size_t num_stores, cap;
	size_t settled; /* these have surely happened, and are in the shadow */
};

void region_new(struct region *region, struct end *owner, size_t len, unsigned int access);
/** Deregister it, unless that was done, and free it. */
void region_free(struct region *region);
/** The peer may use [offset, offset + len). */
void region_give_token(struct region *region, uint32_t rkey, uint64_t vaddr, size_t offset,
		       size_t len, unsigned int access);
/** The token is dead: nothing that uses it can happen any more. */
void region_take_token(struct region *region);
/** A store is posted. @return its number */
size_t region_post(struct region *region, uint64_t tag, size_t offset, size_t len);
/** The user stores at once. */
void region_store(struct region *region, uint64_t tag, size_t offset, size_t len);
/** The store and all before it have surely happened. Look whether they are there. */
void region_happened(struct region *region, size_t store);
/** No store that is under way can happen from now on. */
void region_settle(struct region *region);
/** Look at all bytes. */
void region_check(const struct region *region);
/** What a byte range has once all that is posted now has happened. */
void region_expect(const struct region *region, size_t offset, size_t len, uint8_t *ret_bytes);
/** Can a byte of the region have had this value by one of the stores `from`..`to` - 1? */
bool region_could_have(const struct region *region, size_t at, uint8_t value, size_t from,
		       size_t to);

/** Memory for the parts of requests, given back in the order in which it was taken. What is not
 * taken is full of nonsense, which must not change. */
struct arena {
	struct block block;
	struct rnic_mr *mr; /* NULL: not registered */
	/* [begin, end) is taken. These only grow: a place in the block is what remains of them
	 * modulo its length. */
	uint64_t begin, end;
};

void arena_new(struct arena *arena, struct rnic_pd *pd, size_t len, unsigned int access);
void arena_free(struct arena *arena);
/** @return NULL: there is no room */
uint8_t *arena_take(struct arena *arena, size_t len);
/** Where the next piece will begin, for arena_give(). */
uint64_t arena_mark(const struct arena *arena);
/** Give back all that was taken before this mark. */
void arena_give(struct arena *arena, uint64_t mark);
/** Has nothing been written to these bytes since they were taken? */
bool arena_is_fresh(const uint8_t *bytes, size_t len);
/** Deregister the memory and register it anew. What is taken becomes nonsense: the program has
 * freed it. */
void arena_renew(struct arena *arena, struct rnic_pd *pd, unsigned int access);

#endif

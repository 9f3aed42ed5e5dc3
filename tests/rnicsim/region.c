/* SPDX-License-Identifier: MIT */
#include "tests/rnicsim/region.h"

#include <stdlib.h>
#include <string.h>

#include "tests/rnicsim/host.h"
#include "tests/rnicsim/world.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(addr, size)   ((void)(addr), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(addr, size) ((void)(addr), (void)(size))
#endif

#define GUARD    128
#define GUARDED  0xC3
#define NONSENSE 0xA5
#define GAP      8 /* between two pieces of an arena */

/* ---- blocks */

static bool all_are(const uint8_t *bytes, size_t len, uint8_t value)
{
	for (size_t i = 0; i < len; i++) {
		if (bytes[i] != value)
			return false;
	}
	return true;
}

/* With sanitizers, who reads or writes a guard is stopped at once. */
void block_new(struct block *block, size_t len)
{
	block->base = sim_alloc(len + 2 * GUARD);
	block->mem = block->base + GUARD;
	block->len = len;
	memset(block->base, GUARDED, len + 2 * GUARD);
	ASAN_POISON_MEMORY_REGION(block->base, GUARD);
	ASAN_POISON_MEMORY_REGION(block->mem + len, GUARD);
}

void block_free(struct block *block, const char *what)
{
	if (!block->base)
		return;
	ASAN_UNPOISON_MEMORY_REGION(block->base, block->len + 2 * GUARD);
	if (!all_are(block->base, GUARD, GUARDED) ||
	    !all_are(block->mem + block->len, GUARD, GUARDED))
		world_fail("somebody has written outside of %s", what);
	free(block->base);
	*block = (struct block){ 0 };
}

/* ---- patterns */

uint8_t pattern_at(uint64_t tag, size_t at)
{
	return (uint8_t)(prng_mix(tag + at / 8) >> at % 8 * 8);
}

void pattern_fill(uint8_t *to, uint64_t tag, size_t from, size_t len)
{
	for (size_t i = 0; i < len;) {
		uint64_t word = prng_mix(tag + (from + i) / 8) >> (from + i) % 8 * 8;
		for (size_t left = 8 - (from + i) % 8; left > 0 && i < len; left--, word >>= 8)
			to[i++] = (uint8_t)word;
	}
}

bool pattern_is(const uint8_t *data, uint64_t tag, size_t from, size_t len)
{
	uint8_t want[256];
	for (size_t at = 0; at < len; at += sizeof(want)) {
		size_t part = len - at < sizeof(want) ? len - at : sizeof(want);
		pattern_fill(want, tag, from + at, part);
		if (memcmp(data + at, want, part) != 0)
			return false;
	}
	return true;
}

/* ---- regions */

void region_new(struct region *region, struct end *owner, size_t len, unsigned int access)
{
	*region = (struct region){ .owner = owner, .access = access };
	block_new(&region->block, len);
	region->shadow = sim_alloc(len);
	pattern_fill(region->block.mem, (uint64_t)access << 32, 0, len);
	memcpy(region->shadow, region->block.mem, len);
}

void region_give_token(struct region *region, uint32_t rkey, uint64_t vaddr, size_t offset,
		       size_t len, unsigned int access)
{
	struct token *token = sim_alloc(sizeof(*token));
	*token = (struct token){ .next = region->tokens,
				 .region = region,
				 .rkey = rkey,
				 .vaddr = vaddr,
				 .offset = offset,
				 .len = len,
				 .access = access };
	region->tokens = region->token = token;
}

void region_take_token(struct region *region)
{
	if (!region->token)
		return;
	region->token->dead = true;
	region->token->stores = region->num_stores;
	region->token = NULL;
	region_settle(region);
}

void region_free(struct region *region)
{
	while (region->tokens) {
		struct token *next = region->tokens->next;
		free(region->tokens);
		region->tokens = next;
	}
	if (region->window)
		rnic_window_free(region->window);
	if (region->mr)
		rnic_mr_deregister(region->mr);
	region->mr = NULL;
	block_free(&region->block, "a region");
	free(region->shadow);
	free(region->stores);
	*region = (struct region){ 0 };
}

size_t region_post(struct region *region, uint64_t tag, size_t offset, size_t len)
{
	if (region->num_stores == region->cap) {
		size_t cap = region->cap ? 2 * region->cap : 16;
		struct store *stores = sim_alloc(cap * sizeof(*stores));
		if (region->num_stores)
			memcpy(stores, region->stores, region->num_stores * sizeof(*stores));
		free(region->stores);
		region->stores = stores;
		region->cap = cap;
	}
	region->stores[region->num_stores] =
		(struct store){ .tag = tag, .offset = offset, .len = len };
	return region->num_stores++;
}

void region_store(struct region *region, uint64_t tag, size_t offset, size_t len)
{
	pattern_fill(region->block.mem + offset, tag, offset, len);
	pattern_fill(region->shadow + offset, tag, offset, len);
	region_post(region, tag, offset, len);
	region->settled = region->num_stores;
}

bool region_could_have(const struct region *region, size_t at, uint8_t value, size_t from,
		       size_t to)
{
	for (size_t i = from; i < to; i++) {
		const struct store *s = &region->stores[i];
		if (at - s->offset < s->len && pattern_at(s->tag, at) == value)
			return true;
	}
	return false;
}

static void check_range(const struct region *region, size_t offset, size_t len, const char *when)
{
	const uint8_t *mem = region->block.mem, *shadow = region->shadow;
	if (memcmp(mem + offset, shadow + offset, len) == 0)
		return;
	for (size_t i = offset; i < offset + len; i++) {
		if (mem[i] == shadow[i] ||
		    region_could_have(region, i, mem[i], region->settled, region->num_stores))
			continue;
		world_fail("byte %zu of %zu of a region is wrong %s, with %zu stores under way", i,
			   region->block.len, when, region->num_stores - region->settled);
		return;
	}
}

void region_happened(struct region *region, size_t store)
{
	if (store < region->settled) {
		if (!region->stores[store].was_seen)
			world_fail("a store was done with a token that had died before");
		return;
	}
	size_t first = region->settled;
	for (size_t i = first; i <= store; i++) {
		const struct store *s = &region->stores[i];
		pattern_fill(region->shadow + s->offset, s->tag, s->offset, s->len);
	}
	region->settled = store + 1;
	for (size_t i = first; i <= store; i++) {
		region->stores[i].was_seen = true;
		check_range(region, region->stores[i].offset, region->stores[i].len,
			    "after a WRITE");
	}
}

/* Is the store there, but for what later ones have overwritten? */
static bool is_there(const struct region *region, size_t store)
{
	const struct store *s = &region->stores[store];
	for (size_t i = s->offset; i < s->offset + s->len; i++) {
		uint8_t value = region->block.mem[i];
		if (!region_could_have(region, i, value, store, region->num_stores))
			return false;
	}
	return true;
}

void region_settle(struct region *region)
{
	region_check(region);
	for (size_t i = region->settled; i < region->num_stores; i++)
		region->stores[i].was_seen = is_there(region, i);
	region->settled = region->num_stores;
	memcpy(region->shadow, region->block.mem, region->block.len);
}

void region_check(const struct region *region)
{
	check_range(region, 0, region->block.len, "at a look");
}

void region_expect(const struct region *region, size_t offset, size_t len, uint8_t *ret_bytes)
{
	memcpy(ret_bytes, region->shadow + offset, len);
	for (size_t i = region->settled; i < region->num_stores; i++) {
		const struct store *s = &region->stores[i];
		size_t from = s->offset > offset ? s->offset : offset;
		size_t to = s->offset + s->len < offset + len ? s->offset + s->len : offset + len;
		if (from < to)
			pattern_fill(ret_bytes + (from - offset), s->tag, from, to - from);
	}
}

/* ---- arenas */

void arena_new(struct arena *arena, struct rnic_pd *pd, size_t len, unsigned int access)
{
	*arena = (struct arena){ 0 };
	block_new(&arena->block, len);
	memset(arena->block.mem, NONSENSE, len);
	if (rnic_mr_register(pd, arena->block.mem, len, access, &arena->mr))
		world_fail("memory cannot be registered");
}

void arena_free(struct arena *arena)
{
	if (!arena->block.base)
		return;
	arena_give(arena, arena->end);
	if (!all_are(arena->block.mem, arena->block.len, NONSENSE))
		world_fail("somebody has written into buffers that were not his");
	if (arena->mr)
		rnic_mr_deregister(arena->mr);
	arena->mr = NULL;
	block_free(&arena->block, "buffers");
}

uint64_t arena_mark(const struct arena *arena)
{
	return arena->end;
}

uint8_t *arena_take(struct arena *arena, size_t len)
{
	size_t size = arena->block.len, need = len + GAP;
	uint64_t at = arena->end;
	if (need > size)
		return NULL;
	if (need > size - at % size)
		at += size - at % size;
	if (arena->begin == arena->end)
		arena->begin = at;
	if (at + need - arena->begin > size)
		return NULL;
	uint8_t *piece = arena->block.mem + at % size;
	if (!all_are(piece, need, NONSENSE))
		world_fail("somebody has written into a buffer that was not his any more");
	arena->end = at + need;
	return piece;
}

static void spoil(struct arena *arena, uint64_t from, uint64_t to)
{
	size_t size = arena->block.len;
	while (from < to) {
		uint64_t at = from % size;
		uint64_t part = to - from < size - at ? to - from : size - at;
		memset(arena->block.mem + at, NONSENSE, part);
		from += part;
	}
}

void arena_give(struct arena *arena, uint64_t mark)
{
	spoil(arena, arena->begin, mark);
	arena->begin = mark > arena->begin ? mark : arena->begin;
}

bool arena_is_fresh(const uint8_t *bytes, size_t len)
{
	return all_are(bytes, len, NONSENSE);
}

void arena_renew(struct arena *arena, struct rnic_pd *pd, unsigned int access)
{
	rnic_mr_deregister(arena->mr);
	arena->mr = NULL;
	spoil(arena, arena->begin, arena->end);
	if (rnic_mr_register(pd, arena->block.mem, arena->block.len, access, &arena->mr))
		world_fail("memory cannot be registered");
}

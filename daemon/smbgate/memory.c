/* SPDX-License-Identifier: MIT */
#include "daemon/smbgate/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <utlist.h>

#define LEAST_SIZE  16384u
#define IDLE_BLOCKS 8 /* blocks of a kind that wait for use */

struct memory {
	struct rnic_pd *pd;
	struct memory_budget *budget;
	size_t used, most;
	struct block *idle[BLOCK_USES];
	unsigned int num_idle[BLOCK_USES];
};

int memory_new(struct rnic_pd *pd, struct memory_budget *budget, size_t most,
	       struct memory **ret_memory)
{
	struct memory *memory = calloc(1, sizeof(*memory));
	if (!memory)
		return -ENOMEM;
	memory->pd = pd;
	memory->budget = budget;
	memory->most = most;
	*ret_memory = memory;
	return 0;
}

size_t memory_used(const struct memory *memory)
{
	return memory->used;
}

static void destroy(struct block *block)
{
	struct memory *memory = block->memory;
	rnic_mr_deregister(block->mr);
	memory->used -= block->size;
	memory->budget->used -= block->size;
	free(block->bytes);
	free(block);
}

void memory_free(struct memory *memory)
{
	if (!memory)
		return;
	for (int use = 0; use < BLOCK_USES; use++) {
		while (memory->idle[use]) {
			struct block *block = memory->idle[use];
			LL_DELETE(memory->idle[use], block);
			destroy(block);
		}
	}
	free(memory);
}

/* The rights that a block's region gives; a window gives the peer less. */
static unsigned int access_of(enum block_use use)
{
	const unsigned int peer = RNIC_ACCESS_REMOTE_READ | RNIC_ACCESS_REMOTE_WRITE;
	return RNIC_ACCESS_LOCAL_WRITE | (use == BLOCK_OFFERED ? peer : 0);
}

/* Sizes are powers of two, so that blocks fit later needs. */
static size_t size_for(size_t len)
{
	size_t size = LEAST_SIZE;
	while (size < len)
		size *= 2;
	return size;
}

static struct block *create(struct memory *memory, enum block_use use, size_t size)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct block *block = calloc(1, sizeof(*block));
	if (!block)
		return NULL;
	*block = (struct block){ .size = size, .use = use, .memory = memory };
	/* Whole pages: what else may be in a page must not be within the peer's reach. */
	block->bytes = aligned_alloc(page, size);
	if (!block->bytes ||
	    rnic_mr_register(memory->pd, block->bytes, size, access_of(use), &block->mr) < 0) {
		free(block->bytes);
		free(block);
		return NULL;
	}
	memory->used += size;
	memory->budget->used += size;
	return block;
}

/* An idle block that is large enough, and not far too large. */
static struct block *take_idle(struct memory *memory, enum block_use use, size_t size)
{
	struct block *block;
	LL_FOREACH (memory->idle[use], block) {
		if (block->size >= size && block->size <= 4 * size)
			break;
	}
	if (!block)
		return NULL;
	LL_DELETE(memory->idle[use], block);
	memory->num_idle[use]--;
	return block;
}

static void drop_idle(struct memory *memory)
{
	for (int use = 0; use < BLOCK_USES; use++) {
		while (memory->idle[use]) {
			struct block *block = memory->idle[use];
			LL_DELETE(memory->idle[use], block);
			memory->num_idle[use]--;
			destroy(block);
		}
	}
}

static bool fits(const struct memory *memory, size_t size)
{
	const struct memory_budget *budget = memory->budget;
	return memory->used + size <= memory->most && budget->used + size <= budget->most;
}

struct block *block_get(struct memory *memory, enum block_use use, size_t len)
{
	if (len > BLOCK_MOST)
		return NULL;
	const size_t size = size_for(len);
	struct block *block = take_idle(memory, use, size);
	if (!block && !fits(memory, size))
		drop_idle(memory); /* memory of other sizes, which nobody uses */
	if (!block && fits(memory, size))
		block = create(memory, use, size);
	if (block)
		block->holders = 1;
	return block;
}

void block_hold(struct block *block)
{
	block->holders++;
}

void block_put(struct block *block)
{
	if (!block || --block->holders > 0)
		return;
	struct memory *memory = block->memory;
	if (memory->num_idle[block->use] >= IDLE_BLOCKS) {
		destroy(block);
		return;
	}
	LL_PREPEND(memory->idle[block->use], block);
	memory->num_idle[block->use]++;
}

/* SPDX-License-Identifier: MIT */
#include "daemon/smbgate/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <utlist.h>

#define LEAST_SIZE  16384u
#define LARGE_SIZE  (1u << 20)
#define IDLE_BLOCKS 8 /* blocks of a kind that wait for use */

struct memory {
	struct rnic_pd *pd;
	struct memory_budget *budget;
	size_t used, most; /* bytes of blocks */
	size_t reserved;
	bool refused; /* and not told of room since */
	void (*room)(void *ctx);
	void *ctx;
	struct memory *prev, *next; /* of the budget */
	struct block *idle[BLOCK_USES];
	unsigned int num_idle[BLOCK_USES];
};

int memory_new(struct rnic_pd *pd, struct memory_budget *budget, size_t most,
	       void (*room)(void *ctx), void *ctx, struct memory **ret_memory)
{
	struct memory *memory = calloc(1, sizeof(*memory));
	if (!memory)
		return -ENOMEM;
	memory->pd = pd;
	memory->budget = budget;
	memory->most = most;
	memory->room = room;
	memory->ctx = ctx;
	DL_APPEND(budget->all, memory);
	*ret_memory = memory;
	return 0;
}

size_t memory_used(const struct memory *memory)
{
	return memory->used + memory->reserved;
}

/* Bytes were given back, or a block is idle: whoever was refused may try again. */
static void tell_room(struct memory_budget *budget)
{
	struct memory *memory;
	DL_FOREACH (budget->all, memory) {
		if (!memory->refused)
			continue;
		memory->refused = false;
		memory->room(memory->ctx);
	}
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

void memory_free(struct memory *memory)
{
	if (!memory)
		return;
	struct memory_budget *budget = memory->budget;
	drop_idle(memory);
	budget->used -= memory->reserved;
	DL_DELETE(budget->all, memory);
	free(memory);
	tell_room(budget);
}

/* The rights that a block's region gives; a window gives the peer less. */
static unsigned int access_of(enum block_use use)
{
	const unsigned int peer = RNIC_ACCESS_REMOTE_READ | RNIC_ACCESS_REMOTE_WRITE;
	return RNIC_ACCESS_LOCAL_WRITE | (use == BLOCK_OFFERED ? peer : 0);
}

/* Sizes are powers of two, so that blocks fit later needs; those of large ones are rounded to 1
 * MiB, since a message of 8 MiB has a head in front. */
static size_t size_for(size_t len)
{
	size_t size = LEAST_SIZE;
	if (len > LARGE_SIZE)
		return (len + LARGE_SIZE - 1) / LARGE_SIZE * LARGE_SIZE;
	while (size < len)
		size *= 2;
	return size;
}

static struct block *create(struct memory *memory, enum block_use use, size_t size, int *ret_error)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct block *block = calloc(1, sizeof(*block));
	*ret_error = -ENOMEM;
	if (!block)
		return NULL;
	*block = (struct block){ .size = size, .use = use, .memory = memory };
	/* Whole pages: what else may be in a page must not be within the peer's reach. */
	block->bytes = aligned_alloc(page, size);
	if (block->bytes)
		*ret_error = rnic_mr_register(memory->pd, block->bytes, size, access_of(use),
					      &block->mr);
	if (*ret_error) {
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

static bool fits_budget(const struct memory_budget *budget, size_t size)
{
	return budget->used + size <= budget->most;
}

/* Is there room in the budget, if need be that of blocks which nobody uses? */
static bool make_room(struct memory_budget *budget, size_t size)
{
	struct memory *memory;
	DL_FOREACH (budget->all, memory) {
		if (fits_budget(budget, size))
			break;
		drop_idle(memory);
	}
	return fits_budget(budget, size);
}

struct block *block_get(struct memory *memory, enum block_use use, size_t len, int *ret_error)
{
	const size_t size = size_for(len);
	*ret_error = len > BLOCK_MOST || size > memory->most ? -EMSGSIZE : 0;
	if (*ret_error)
		return NULL;
	struct block *block = take_idle(memory, use, size);
	if (!block && memory->used + size > memory->most)
		drop_idle(memory); /* memory of other sizes */
	if (!block && (memory->used + size > memory->most || !make_room(memory->budget, size))) {
		memory->refused = true;
		*ret_error = -EAGAIN;
		return NULL;
	}
	if (!block)
		block = create(memory, use, size, ret_error);
	if (block)
		block->holders = 1;
	return block;
}

bool memory_reserve(struct memory *memory, size_t bytes)
{
	struct memory_budget *budget = memory->budget;
	if (bytes > memory->reserved && !make_room(budget, bytes - memory->reserved))
		return false;
	budget->used = budget->used - memory->reserved + bytes;
	const bool less = bytes < memory->reserved;
	memory->reserved = bytes;
	if (less)
		tell_room(budget);
	return true;
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
	} else {
		LL_PREPEND(memory->idle[block->use], block);
		memory->num_idle[block->use]++;
	}
	tell_room(memory->budget);
}

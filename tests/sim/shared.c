/* SPDX-License-Identifier: MIT */
/*
 * Programs that have mapped the memory of their connections: before an element or a send buffer is
 * given away, in whatever way the connection or the engine ends, the engine has to say so. A
 * program would else read pages that are empty, or another connection's (docs/data-path.md).
 */
#include "tests/sim/app.h"
#include "tests/sim/world.h"

/* Every other connection, so that both kinds are next to each other in an RMB. */
void side_share(struct side *side)
{
	if (side->conn && side->pair->number % 2 && !smcr_conn_share(side->conn, &side->memory))
		side->shared = true;
}

void side_unshare(struct side *side)
{
	if (!side->shared)
		world_fail(side->world, "HOST", "connection %u: end of sharing that was not begun",
			   side->pair->number);
	side->shared = false;
}

static bool overlap(const void *a, size_t a_len, const void *b, size_t b_len)
{
	const char *from_a = a, *from_b = b;
	return from_a < from_b + b_len && from_b < from_a + a_len;
}

static bool has_mapped(const struct side *side, const void *addr, size_t len)
{
	const struct smcr_conn_memory *memory = &side->memory;
	return side->shared && (overlap(addr, len, memory->element, memory->element_size) ||
				overlap(addr, len, memory->buffer, memory->buffer_size));
}

void sides_memory_goes(struct host *host, const void *addr, size_t len)
{
	const struct world *w = host->world;
	for (size_t i = 0; i < w->num_pairs; i++) {
		for (int s = 0; s < 2; s++) {
			const struct side *side = &w->pairs[i]->side[s];
			if (side->host == host && has_mapped(side, addr, len))
				world_fail(host->world, "HOST",
					   "connection %u: its memory is given away, and its "
					   "program still uses it",
					   side->pair->number);
		}
	}
}

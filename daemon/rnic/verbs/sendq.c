/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include "daemon/rnic/verbs/internal.h"

int verbs_sendq_init(struct verbs_sendq *sendq, uint32_t depth)
{
	*sendq = (struct verbs_sendq){ .depth = depth };
	sendq->slots = calloc(depth, sizeof(*sendq->slots));
	return sendq->slots ? 0 : -ENOMEM;
}

void verbs_sendq_free(struct verbs_sendq *sendq)
{
	free(sendq->slots);
	sendq->slots = NULL;
}

uint32_t verbs_sendq_room(const struct verbs_sendq *sendq)
{
	return sendq->depth - (uint32_t)(sendq->head - sendq->tail);
}

uint64_t verbs_sendq_push(struct verbs_sendq *sendq, uint64_t wr_id, bool wanted)
{
	sendq->slots[sendq->head % sendq->depth] =
		(struct verbs_slot){ .wr_id = wr_id, .wanted = wanted };
	return sendq->head++;
}

uint64_t verbs_sendq_push_own(struct verbs_sendq *sendq)
{
	sendq->slots[sendq->head % sendq->depth] = (struct verbs_slot){ .own = true };
	return sendq->head++;
}

void verbs_sendq_unpush(struct verbs_sendq *sendq, size_t n)
{
	sendq->head -= n;
}

const struct verbs_slot *verbs_sendq_retire(struct verbs_sendq *sendq, uint64_t seq)
{
	if (seq < sendq->tail || seq >= sendq->head)
		return NULL;
	sendq->tail = seq + 1;
	return &sendq->slots[seq % sendq->depth];
}

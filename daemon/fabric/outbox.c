/* SPDX-License-Identifier: MIT */
#include "daemon/fabric/outbox.h"

#include <string.h>

static bool has_write(const struct rnic_send_wr *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].opcode == RNIC_WR_RDMA_WRITE)
			return true;
	return false;
}

static void add_send(struct outbox *outbox, const struct rnic_send_wr *wr)
{
	uint8_t *data = outbox->data[outbox->num_sends];
	struct rnic_send_wr *copy = &outbox->list[OUTBOX_MOST + outbox->num_sends++];
	*copy = *wr;
	if (!(wr->flags & RNIC_SEND_INLINE))
		return;
	memcpy(data, wr->sge[0].addr, wr->sge[0].length);
	copy->sge[0].addr = data;
}

static void add_write(struct outbox *outbox, const struct rnic_send_wr *wr)
{
	struct rnic_send_wr *copy = &outbox->list[outbox->num_writes++];
	*copy = *wr;
	/* It goes before these SENDs, which are not done when it fails. */
	if (outbox->num_sends > 0)
		copy->wr_id = outbox->list[OUTBOX_MOST].wr_id;
}

bool outbox_add(struct outbox *outbox, const struct rnic_send_wr *list, size_t n)
{
	bool writes = has_write(list, n);
	if (outbox->num_writes + n > OUTBOX_MOST || outbox->num_sends + n > OUTBOX_MOST ||
	    (outbox->closed && writes))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (list[i].opcode == RNIC_WR_RDMA_WRITE)
			add_write(outbox, &list[i]);
		else
			add_send(outbox, &list[i]);
	}
	outbox->closed = !writes;
	return true;
}

int outbox_post(struct outbox *outbox, struct rnic_qp *qp)
{
	const unsigned int writes = outbox->num_writes, sends = outbox->num_sends;
	outbox->num_writes = outbox->num_sends = 0;
	outbox->closed = false;
	if (writes + sends == 0)
		return 0;
	memmove(outbox->list + writes, outbox->list + OUTBOX_MOST, sends * sizeof(*outbox->list));
	return rnic_post_send(qp, outbox->list, writes + sends);
}

/* SPDX-License-Identifier: MIT */
#include "daemon/fabric/outbox.h"

#include <string.h>

/* How many requests of this kind come next? */
static size_t run_of(const struct rnic_send_wr *list, size_t n, enum rnic_opcode opcode)
{
	size_t run = 0;
	while (run < n && list[run].opcode == opcode)
		run++;
	return run;
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
	for (unsigned int i = 0; i < wr->num_sge; i++)
		outbox->bytes += wr->sge[i].length;
	/* The write is posted before these SENDs, so if it fails they are not done. */
	if (outbox->num_sends > 0)
		copy->wr_id = outbox->list[OUTBOX_MOST].wr_id;
}

size_t outbox_add(struct outbox *outbox, const struct rnic_send_wr *list, size_t n)
{
	const size_t writes = run_of(list, n, RNIC_WR_RDMA_WRITE);
	const size_t sends = run_of(list + writes, n - writes, RNIC_WR_SEND);
	if (outbox->num_writes + writes > OUTBOX_MOST || outbox->num_sends + sends > OUTBOX_MOST ||
	    (writes > 0 && (outbox->closed || outbox->bytes >= OUTBOX_BYTES)))
		return 0;
	for (size_t i = 0; i < writes; i++)
		add_write(outbox, &list[i]);
	for (size_t i = 0; i < sends; i++)
		add_send(outbox, &list[writes + i]);
	outbox->closed = outbox->closed || writes == 0;
	return writes + sends;
}

void outbox_clear(struct outbox *outbox)
{
	outbox->num_writes = outbox->num_sends = 0;
	outbox->bytes = 0;
	outbox->closed = false;
}

int outbox_post(struct outbox *outbox, struct rnic_qp *qp)
{
	const unsigned int writes = outbox->num_writes, sends = outbox->num_sends;
	outbox_clear(outbox);
	if (writes + sends == 0)
		return 0;
	memmove(outbox->list + writes, outbox->list + OUTBOX_MOST, sends * sizeof(*outbox->list));
	return rnic_post_send(qp, outbox->list, writes + sends);
}

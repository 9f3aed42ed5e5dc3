/* SPDX-License-Identifier: MIT */
/* For captures: nothing tells that an RDMA write of the peer has come, only the CDC behind it. */
#include "daemon/smcr/data.h"
#include "daemon/smcr/view.h"

/* The position that the message announces, if cdc.c will accept it. */
static bool take_position(const struct smcr_conn *conn, const struct smcr_cdc *cdc,
			  uint64_t *ret_produced)
{
	return smcr_data_flowing(conn) && !(cdc->prod_flags & SMCR_CDC_FAILOVER) &&
	       smcr_cdc_seq_newer(cdc->seq, conn->rx.cdc_seq) &&
	       smcr_cursor_decode(smcr_rx_ring(conn), cdc->producer, conn->rx.produced,
				  conn->rx.consumed_sent + conn->rx.usable, ret_produced) == 0;
}

static struct smcr_arrival describe(const struct smcr_conn *conn, unsigned int slot,
				    uint32_t offset, uint32_t length)
{
	const struct smcr_element *element = &conn->rx.element;
	const struct smcr_slab *slab = element->slab;
	const uint8_t *addr = element->addr + offset;
	return (struct smcr_arrival){ .addr = addr,
				      .length = length,
				      .rkey = slab->reg[slot].rkey,
				      .remote_addr = slab->reg[slot].vaddr +
						     (uint64_t)(addr - slab->base) };
}

size_t smcr_engine_arrivals(const struct smcr_engine *engine, uint64_t link_ref,
			    const uint8_t *data, size_t len, struct smcr_arrival ret[2])
{
	struct smcr_cdc cdc;
	uint64_t produced;
	size_t n = 0;
	const struct smcr_link *link = smcr_link_by_ref(engine, link_ref);
	if (!link || smcr_cdc_decode(data, len, &cdc))
		return 0;
	const struct smcr_conn *conn = smcr_conn_by_token(engine, cdc.alert_token);
	if (!conn || conn->lgr != link->lgr || !take_position(conn, &cdc, &produced))
		return 0;
	const struct smcr_ring ring = smcr_rx_ring(conn);
	for (uint64_t pos = conn->rx.produced; pos < produced; n++) {
		uint64_t run = smcr_ring_run(ring, pos);
		if (run > produced - pos)
			run = produced - pos;
		ret[n] = describe(conn, link->slot, smcr_ring_offset(ring, pos), (uint32_t)run);
		pos += run;
	}
	return n;
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <utlist.h>

#include "daemon/rnic/soft/internal.h"

/* The queue pair of general services, and the Q_Key of its datagrams (IBA 13.4: the same for all).
 */
#define GSI_QPN  1
#define GSI_QKEY 0x80010000u

#define GSI_HEADER (ROCE_BTH_LEN + ROCE_DETH_LEN)

void rnic_soft_set_gsi(struct rnic *rnic, rnic_gsi_fn *fn, void *ctx)
{
	struct soft_gsi *gsi = &soft_device_of(rnic)->gsi;
	gsi->fn = fn;
	gsi->ctx = ctx;
}

/* ---- in */

/* CM-29. The next place of this round's, for a datagram of that sender. Whoever floods the queue
 * pair uses up his share, and not more. @return NULL: none is left */
static struct soft_gsi_slot *take_slot(struct soft_gsi *gsi, struct in_addr from)
{
	unsigned int of_sender = 0;
	if (gsi->used == SOFT_GSI_SLOTS)
		return NULL;
	for (unsigned int i = 0; i < gsi->used; i++)
		of_sender += gsi->slots[i].from.sin_addr.s_addr == from.s_addr;
	return of_sender < SOFT_GSI_SHARE ? &gsi->slots[gsi->used++] : NULL;
}

static bool icrc_ok(const struct soft_endpoint *ep, const struct sockaddr_in *from,
		    const uint8_t *buf, size_t len, uint16_t ip_id)
{
	const struct roce_flow flow = { .saddr = from->sin_addr.s_addr,
					.daddr = ep->addr.s_addr,
					.sport = from->sin_port,
					.dport = htons(ep->dev->port) };
	struct roce_icrc_flow icrc_flow;
	roce_icrc_flow_init(&icrc_flow, &flow);
	return roce_icrc_check(ep->dev->tables, &icrc_flow, buf, len, ip_id, &ip_id);
}

bool soft_gsi_is_for(const struct roce_packet *packet)
{
	return packet->bth.dest_qp == GSI_QPN;
}

/* CM-2, CM-3: the P_Key was checked before; port, PSN and source queue pair are of no meaning. */
void soft_gsi_packet(struct soft_endpoint *ep, const struct sockaddr_in *from,
		     const struct roce_packet *packet, const uint8_t *buf, size_t len,
		     uint16_t ip_id_guess)
{
	struct soft_device *dev = ep->dev;
	struct soft_gsi *gsi = &dev->gsi;
	if (!gsi->fn || !ep->present) {
		dev->stats.drop_qp++;
		return;
	}
	if (packet->bth.opcode != ROCE_UD_SEND_ONLY || packet->payload_len != RNIC_GSI_LEN) {
		dev->stats.drop_malformed++;
		return;
	}
	if (packet->deth.qkey != GSI_QKEY) {
		dev->stats.drop_access++;
		return;
	}
	struct soft_gsi_slot *slot = take_slot(gsi, from->sin_addr);
	if (!slot) {
		dev->stats.drop_qp++;
		return;
	}
	*slot = (struct soft_gsi_slot){ .from = *from, .to = ep->addr };
	slot->sound = icrc_ok(ep, from, buf, len, ip_id_guess);
	if (slot->sound)
		memcpy(slot->data, packet->payload, RNIC_GSI_LEN);
	else
		dev->stats.drop_icrc++;
}

static void tell(struct soft_gsi *gsi, const struct soft_gsi_slot *slot)
{
	struct rnic_gsi_datagram datagram = { .peer_port = ntohs(slot->from.sin_port),
					      .data = slot->data };
	soft_addr_gid(slot->to, datagram.local_gid);
	soft_addr_gid(slot->from.sin_addr, datagram.peer_gid);
	gsi->fn(gsi->ctx, &datagram);
}

void soft_gsi_deliver(struct soft_device *dev)
{
	struct soft_gsi *gsi = &dev->gsi;
	if (gsi->telling)
		return;
	gsi->telling = true;
	for (unsigned int i = 0; i < gsi->used && gsi->fn && !dev->base.closed; i++)
		if (gsi->slots[i].sound)
			tell(gsi, &gsi->slots[i]);
	gsi->used = 0;
	gsi->telling = false;
}

/* ---- out */

static const struct soft_endpoint *endpoint_at(const struct soft_device *dev, struct in_addr addr)
{
	const struct soft_endpoint *ep;
	DL_FOREACH (dev->endpoints, ep) {
		if (ep->present && ep->addr.s_addr == addr.s_addr)
			return ep;
	}
	return NULL;
}

/* CM-1. AckReq has no meaning here, but Linux sets it. */
static size_t build(struct soft_device *dev, const struct roce_flow *flow, const uint8_t *data,
		    uint8_t *buf)
{
	const struct roce_bth bth = { .opcode = ROCE_UD_SEND_ONLY,
				      .migrated = true,
				      .pkey = ROCE_PKEY_DEFAULT,
				      .dest_qp = GSI_QPN,
				      .ack_req = true,
				      .psn = dev->gsi.psn++ & ROCE_PSN_MASK };
	const union roce_ext ext = { .deth = { .qkey = GSI_QKEY, .src_qp = GSI_QPN } };
	const size_t len = GSI_HEADER + RNIC_GSI_LEN + ROCE_ICRC_LEN;
	roce_encode_bth(&bth, buf);
	roce_encode_ext(bth.opcode, &ext, buf + ROCE_BTH_LEN);
	memcpy(buf + GSI_HEADER, data, RNIC_GSI_LEN);
	uint32_t crc = roce_icrc_begin(flow, len, 0, buf, GSI_HEADER);
	crc = roce_icrc_update(crc, data, RNIC_GSI_LEN);
	roce_icrc_put(crc, buf + GSI_HEADER + RNIC_GSI_LEN);
	return len;
}

int rnic_soft_gsi_send(struct rnic *rnic, const uint8_t local_gid[16], const uint8_t peer_gid[16],
		       const uint8_t data[RNIC_GSI_LEN])
{
	struct soft_device *dev = soft_device_of(rnic);
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(dev->port) };
	struct in_addr from;
	uint8_t buf[GSI_HEADER + RNIC_GSI_LEN + ROCE_ICRC_LEN];
	if (!soft_gid_addr(local_gid, &from) || !soft_gid_addr(peer_gid, &to.sin_addr))
		return -EINVAL;
	const struct soft_endpoint *ep = endpoint_at(dev, from);
	if (!ep)
		return -EADDRNOTAVAIL;
	const struct roce_flow flow = { .saddr = from.s_addr,
					.daddr = to.sin_addr.s_addr,
					.sport = htons(dev->port),
					.dport = htons(dev->port) };
	size_t len = build(dev, &flow, data, buf);
	if (sendto(ep->fd, buf, len, 0, (const struct sockaddr *)&to, sizeof(to)) < 0)
		return -errno;
	dev->stats.tx_packets++;
	dev->stats.tx_bytes += len;
	return 0;
}

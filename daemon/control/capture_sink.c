/* SPDX-License-Identifier: MIT */
#include "daemon/control/capture_sink.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "daemon/smcr/view.h"
#include "proto/capture/record.h"
#include "proto/ibcm/ibcm.h"
#include "proto/smcr/cdc.h"
#include "proto/smcr/llc.h"

/* Bits of a link's mark, so that each capture judges a link only once. The bits above hold the
 * capture's serial. */
enum {
	MARK_WANTED = 1 << 0,
	MARK_TOLD = 1 << 1, /* the link is described in the ring */
	MARK_RNIC_SHIFT = 2,
	MARK_SERIAL_SHIFT = 8,
};

_Static_assert(CAPTURE_RNICS << MARK_RNIC_SHIFT <= 1 << MARK_SERIAL_SHIFT, "they do not overlap");

static unsigned int rnic_of(struct capture_sink *sink, uint32_t device_id)
{
	for (unsigned int i = 0; i < sink->num_rnics; i++)
		if (sink->rnics[i] == device_id)
			return i;
	if (sink->num_rnics == CAPTURE_RNICS)
		return CAPTURE_RNICS - 1;
	sink->rnics[sink->num_rnics] = device_id;
	return sink->num_rnics++;
}

static uint64_t judge(struct capture_sink *sink, const struct smcr_link_view *view)
{
	const bool wanted = filter_peer(&sink->filter, &view->peer) &&
			    filter_group(&sink->filter, view->lgr_id);
	return sink->serial << MARK_SERIAL_SHIFT | (wanted ? MARK_WANTED : 0u) |
	       (wanted ? rnic_of(sink, view->device_id) << MARK_RNIC_SHIFT : 0u);
}

static struct capture_end describe_end(const uint8_t *gid, const uint8_t *mac, uint32_t qpn)
{
	struct capture_end end = { .qpn = qpn };
	memcpy(end.gid, gid, sizeof(end.gid));
	memcpy(end.mac, mac, sizeof(end.mac));
	return end;
}

static bool tell_link(struct capture_sink *sink, uint64_t link_ref, unsigned int rnic,
		      const struct smcr_link_view *view)
{
	struct capture_link link = {
		.type = CAPTURE_LINK,
		.rnic = rnic,
		.link = link_ref,
		.group = view->lgr_id,
		.number = view->number,
		.path_mtu = view->mtu >= SMCR_MTU_256 && view->mtu <= SMCR_MTU_4096 ? view->mtu
										    : SMCR_MTU_1024,
		.local = describe_end(view->local_gid, view->local_mac, view->local_qpn),
		.peer = describe_end(view->peer_gid, view->peer_mac, view->peer_qpn),
	};
	snprintf(link.name, sizeof(link.name), "%s", view->device_name);
	if (!view->peer.family ||
	    !inet_ntop(view->peer.family, view->peer.ip, link.peer_host, sizeof(link.peer_host)))
		link.peer_host[0] = '\0';
	const struct iovec part = { &link, sizeof(link) };
	return capture_ring_put(&sink->ring, &part, 1);
}

/* @return false: the link is not wanted, or it cannot be described and the message is lost */
static bool prepare_link(struct capture_sink *sink, const struct smcr_engine *engine,
			 const struct fabric_message *message)
{
	uint64_t *mark = &message->marks[sink->mark];
	const bool known = *mark >> MARK_SERIAL_SHIFT == sink->serial;
	struct smcr_link_view view;
	if (known && (!(*mark & MARK_WANTED) || *mark & MARK_TOLD))
		return *mark & MARK_WANTED;
	/* Whether a link that is gone was wanted is not known. */
	if (!smcr_engine_get_link(engine, message->link_ref, &view)) {
		capture_ring_lose(&sink->ring, rnic_of(sink, message->device_id));
		return false;
	}
	if (!known)
		*mark = judge(sink, &view);
	if (!(*mark & MARK_WANTED))
		return false;
	const unsigned int rnic = *mark >> MARK_RNIC_SHIFT & (CAPTURE_RNICS - 1);
	if (tell_link(sink, message->link_ref, rnic, &view))
		*mark |= MARK_TOLD;
	else
		capture_ring_lose(&sink->ring, rnic);
	return *mark & MARK_TOLD;
}

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static bool is_llc(const struct fabric_message *message)
{
	return !message->is_write && message->length && message->data[0] != SMCR_CDC_TYPE;
}

/* Which version has its ADD LINK? */
static enum smcr_llc_forms forms_of(const struct smcr_engine *engine,
				    const struct fabric_message *message)
{
	struct smcr_link_view view;
	if (message->data[0] != SMCR_LLC_ADD_LINK ||
	    !smcr_engine_get_link(engine, message->link_ref, &view) || !view.dialect_known)
		return SMCR_LLC_FORM_ANY;
	return view.dialect == SMCR_DIALECT_RFC ? SMCR_LLC_FORM_RFC : SMCR_LLC_FORM_DEPLOYED;
}

void capture_sink_take(struct capture_sink *sink, const struct smcr_engine *engine,
		       const struct fabric_message *message)
{
	uint8_t without_keys[SMCR_LLC_V2_MAX_LEN];
	if ((message->is_write && !sink->writes) || !prepare_link(sink, engine, message))
		return;
	const unsigned int rnic =
		message->marks[sink->mark] >> MARK_RNIC_SHIFT & (CAPTURE_RNICS - 1);
	struct capture_message record = {
		.type = CAPTURE_MESSAGE,
		.flags = (message->sent ? CAPTURE_SENT : 0u) |
			 (message->is_write ? CAPTURE_WRITE : 0u),
		.link = message->link_ref,
		.time_ns = now_ns(),
		.lost = capture_ring_has_lost(&sink->ring, rnic),
		.remote_addr = message->remote_addr,
		.rkey = message->rkey,
		.length = message->length,
	};
	struct iovec parts[2] = { { &record, sizeof(record) },
				  { (void *)message->data, message->length } };
	if (parts[1].iov_len > CAPTURE_DATA_MAX)
		parts[1].iov_len = CAPTURE_DATA_MAX;
	if (sink->hide_keys && is_llc(message)) {
		if (parts[1].iov_len > sizeof(without_keys))
			parts[1].iov_len = sizeof(without_keys);
		memcpy(without_keys, message->data, parts[1].iov_len);
		if (smcr_llc_hide_keys(without_keys, parts[1].iov_len, forms_of(engine, message)))
			record.flags |= CAPTURE_HIDDEN;
		parts[1].iov_base = without_keys;
	}
	if (!capture_ring_put(&sink->ring, parts, 2))
		capture_ring_lose(&sink->ring, rnic);
}

/* ---- the connection manager ---- */

struct finder {
	const struct rnic *rnic;
	uint32_t id;
	bool found;
};

static void find_device(void *arg, uint32_t id, struct rnic *rnic)
{
	struct finder *finder = arg;
	if (rnic != finder->rnic)
		return;
	finder->id = id;
	finder->found = true;
}

/* A GID is an IP address. */
static struct smcr_addr address_of(const uint8_t gid[16])
{
	static const uint8_t prefix[12] = { [10] = 0xFF, [11] = 0xFF };
	struct smcr_addr addr = { .family = AF_INET6 };
	if (memcmp(gid, prefix, sizeof(prefix)) == 0) {
		addr.family = AF_INET;
		memcpy(addr.ip, gid + sizeof(prefix), 4);
	} else
		memcpy(addr.ip, gid, 16);
	return addr;
}

static bool wants_cm(const struct capture_sink *sink, const struct cm_message *message)
{
	const struct smcr_addr peer = address_of(message->peer_gid);
	return !sink->filter.linkgroup && filter_peer(&sink->filter, &peer);
}

void capture_sink_take_cm(struct capture_sink *sink, struct fabric *fabric,
			  const struct cm_message *message)
{
	static const uint8_t no_mac[6];
	struct finder finder = { .rnic = message->rnic };
	struct rnic_info info;
	uint8_t bytes[IBCM_MAD_LEN];
	if (!wants_cm(sink, message))
		return;
	fabric_each_device(fabric, find_device, &finder);
	if (!finder.found)
		return;
	const unsigned int rnic = rnic_of(sink, finder.id);
	rnic_get_info(message->rnic, &info);
	struct capture_mad record = {
		.type = CAPTURE_MAD,
		.flags = message->sent ? CAPTURE_SENT : 0u,
		.rnic = rnic,
		.peer_port = message->peer_port,
		.time_ns = now_ns(),
		.lost = capture_ring_has_lost(&sink->ring, rnic),
		.local = describe_end(message->local_gid, info.mac, IBCM_QPN),
		.peer = describe_end(message->peer_gid, no_mac, IBCM_QPN),
	};
	snprintf(record.name, sizeof(record.name), "%s", info.name);
	memcpy(bytes, message->mad, sizeof(bytes));
	if (sink->hide_keys && ibcm_hide_psn(bytes))
		record.flags |= CAPTURE_HIDDEN;
	const struct iovec parts[2] = { { &record, sizeof(record) }, { bytes, sizeof(bytes) } };
	if (!capture_ring_put(&sink->ring, parts, 2))
		capture_ring_lose(&sink->ring, rnic);
}

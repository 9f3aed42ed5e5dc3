/* SPDX-License-Identifier: MIT */
/* A host that follows no rules. It sees every message, but sends from its own address only: that no
 * one sends in another's name is a matter of the network. */
#include "tests/cmsim/world.h"

#include <string.h>

#include "proto/ibcm/ip.h"

void attack_overhear(struct world *w, const uint8_t mad[IBCM_MAD_LEN])
{
	size_t most = sizeof(w->overheard) / sizeof(w->overheard[0]);
	memcpy(w->overheard[w->num_overheard++ % most], mad, IBCM_MAD_LEN);
}

/* A message that somebody has sent. */
static const uint8_t *overheard(struct world *w)
{
	size_t most = sizeof(w->overheard) / sizeof(w->overheard[0]);
	size_t count = w->num_overheard < most ? w->num_overheard : most;
	return count ? w->overheard[random_below(&w->attacker, (uint32_t)count)] : NULL;
}

/* A REQ that is right. */
static void make_req(struct world *w, int to, struct ibcm_msg *ret_msg)
{
	struct random *r = &w->attacker;
	struct ibcm_ip ip = { .version = 4, .source_port = (uint16_t)random_below(r, 65536) };
	uint8_t gid[16];
	*ret_msg = (struct ibcm_msg){
		.type = IBCM_REQ,
		.transaction_id = random_u64(r),
		.local_id = random_below(r, 2000),
		.req = {
			.service_id = IBCM_SERVICE_TCP + PORT,
			.qpn = 2 + random_below(r, 2000),
			.responder_resources = (uint8_t)random_u64(r),
			.initiator_depth = (uint8_t)random_u64(r),
			.local_timeout = (uint8_t)random_below(r, 32),
			.remote_timeout = (uint8_t)random_below(r, 32),
			.pkey = 0xFFFF,
			.path_mtu = (uint8_t)(1 + random_below(r, 3)),
			.rnr_retry = (uint8_t)random_below(r, 8),
			.max_cm_retries = (uint8_t)random_below(r, 16),
		},
	};
	gid_of(ATTACKER, gid);
	memcpy(ip.source, gid + 12, 4);
	memcpy(ret_msg->req.primary.local_gid, gid, 16);
	gid_of(to, gid);
	memcpy(ip.destination, gid + 12, 4);
	memcpy(ret_msg->req.primary.remote_gid, gid, 16);
	(void)ibcm_ip_encode(&ip, ret_msg->private_data);
}

/* A message about a connection of others, with the right ids; either side's. */
static bool make_forgery(struct world *w, struct ibcm_msg *ret_msg)
{
	static const enum ibcm_type types[] = { IBCM_MRA,  IBCM_REJ,  IBCM_REP, IBCM_RTU,
						IBCM_DREQ, IBCM_DREP, IBCM_REQ, IBCM_SIDR_REQ };
	struct random *r = &w->attacker;
	const uint8_t *mad = overheard(w);
	struct ibcm_msg from;
	if (!mad || ibcm_decode(mad, IBCM_MAD_LEN, &from) < 0)
		return false;
	*ret_msg = from;
	if (chance(r, 500)) {
		ret_msg->local_id = from.remote_id;
		ret_msg->remote_id = from.local_id;
	}
	if (chance(r, 300))
		return true;
	ret_msg->type = types[random_below(r, sizeof(types) / sizeof(types[0]))];
	memset(&ret_msg->req, 0, sizeof(ret_msg->req));
	if (ret_msg->type == IBCM_REJ) {
		ret_msg->rej.subject = random_below(r, 3);
		ret_msg->rej.reason = (uint16_t)random_below(r, 30);
	} else if (ret_msg->type == IBCM_DREQ) {
		ret_msg->dreq_qpn =
			w->num_qps ? w->qps[random_below(r, (uint32_t)w->num_qps)].qpn : 0;
	} else if (ret_msg->type == IBCM_REP) {
		ret_msg->rep.qpn =
			w->num_qps ? w->qps[random_below(r, (uint32_t)w->num_qps)].qpn : 3;
	}
	return true;
}

static void send_as_it_is(struct world *w, int to, const uint8_t *mad, size_t len)
{
	uint8_t gid[16];
	gid_of(ATTACKER, gid);
	host_receive(&w->hosts[to], gid, mad, len);
}

static void send_mangled(struct world *w, int to, uint8_t mad[IBCM_MAD_LEN])
{
	struct random *r = &w->attacker;
	size_t len = chance(r, 800) ? IBCM_MAD_LEN : random_below(r, IBCM_MAD_LEN + 1);
	for (unsigned int i = random_below(r, 4); i > 0; i--)
		mad[random_below(r, IBCM_MAD_LEN)] = (uint8_t)random_u64(r);
	send_as_it_is(w, to, mad, len);
}

void attack(struct world *w, void *arg, uint64_t value)
{
	struct random *r = &w->attacker;
	int to = (int)random_below(r, (uint32_t)w->plan.hosts);
	uint32_t dice = w->plan.flood || !w->num_overheard ? 0 : random_below(r, 4);
	uint8_t mad[IBCM_MAD_LEN];
	struct ibcm_msg msg;
	(void)arg;
	(void)value;
	if (dice == 0)
		make_req(w, to, &msg);
	else if (!make_forgery(w, &msg))
		return;
	w->seen[SEEN_ATTACKED]++;
	if (dice == 3) { /* another's message as it was */
		memcpy(mad, overheard(w), sizeof(mad));
		send_mangled(w, to, mad);
	} else if (ibcm_encode(&msg, mad) == 0) {
		if (dice == 2)
			send_mangled(w, to, mad);
		else
			send_as_it_is(w, to, mad, sizeof(mad));
	}
}

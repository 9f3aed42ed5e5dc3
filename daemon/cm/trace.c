/* SPDX-License-Identifier: MIT */
#include "daemon/cm/trace.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "daemon/cm/internal.h"
#include "daemon/host/trace.h"
#include "proto/ibcm/text.h"

static void put_text(const uint8_t *mad, char ret_text[IBCM_TEXT_LEN])
{
	struct ibcm_msg msg;
	if (ibcm_decode(mad, IBCM_MAD_LEN, &msg) < 0)
		snprintf(ret_text, IBCM_TEXT_LEN, "a message that cannot be decoded");
	else
		ibcm_text(&msg, ret_text);
}

static void put_peer(const uint8_t gid[16], char ret_peer[INET6_ADDRSTRLEN])
{
	struct cm_addr peer;
	cm_addr_from_gid(gid, &peer);
	inet_ntop(peer.family, peer.addr, ret_peer, INET6_ADDRSTRLEN);
}

void cm_trace(const struct cm_message *message)
{
	char text[IBCM_TEXT_LEN], peer[INET6_ADDRSTRLEN];
	struct rnic_info info;
	if (!trace_is_on(IPC_TRACE_CM))
		return;
	put_text(message->mad, text);
	put_peer(message->peer_gid, peer);
	rnic_get_info(message->rnic, &info);
	trace_tellf(IPC_TRACE_CM, "%s %s, %s: %s", message->sent ? "sent to" : "received from",
		    peer, info.name, text);
}

/* SPDX-License-Identifier: MIT */
/* Connections that do not come about. */
#include <string.h>

#include "proto/ibcm/ibcm.h"
#include "tests/interop/peer/peer.h"

static const char reason[] = "not today";

static const struct peer_shape shape = { .message_max = 64, .receives = 1, .sends = 1 };

void refusal_nobody(struct peer *peer, const struct peer_options *options)
{
	struct peer_conn *conn = peer_try(peer, &options->addr, &shape);
	if (!conn->ended || conn->end != CM_END_NO_LISTENER ||
	    conn->reject_reason != IBCM_REJ_INVALID_SERVICE_ID)
		peer_die(peer, "the request has ended with: %s, reason %u", cm_end_name(conn->end),
			 conn->reject_reason);
	peer_conn_free(conn);
}

void refusal_give(struct peer *peer, const struct peer_options *options)
{
	struct peer_listener listener;
	peer_listen(peer, &options->addr, &listener);
	while (listener.num == 0)
		peer_turn(peer, "a request");
	cm_reject(listener.waiting[0], reason, sizeof(reason));
	listener.num = 0;
	/* The message is on its way when the event loop has come round. */
	peer_pause(peer, "the refusal's departure");
	peer_unlisten(&listener);
}

void refusal_get(struct peer *peer, const struct peer_options *options)
{
	struct peer_conn *conn = peer_try(peer, &options->addr, &shape);
	if (!conn->ended || conn->end != CM_END_REFUSED || conn->reject_reason != IBCM_REJ_CONSUMER)
		peer_die(peer, "the request has ended with: %s, reason %u", cm_end_name(conn->end),
			 conn->reject_reason);
	if (conn->private_len < sizeof(reason) ||
	    memcmp(conn->private_data, reason, sizeof(reason)) != 0)
		peer_die(peer, "%zu bytes of private data have come", conn->private_len);
	peer_conn_free(conn);
}
